//! Reads, changes and restores the log settings that a sizing needs on a server.
//!
//! A setting that lacks the required value becomes a [`SettingChange`], which stores the old value. A change is
//! reverted only if the setting still has the changed value: otherwise another user has set it since. The requests
//! depend on the version of the node.

use super::{Build, Namespace, pairs};
use crate::server_log::drive_context;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The level of drive lines that prints direct frees and skipped reads.
pub const DETAIL: &str = "detail";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "setting", rename_all = "kebab-case")]
pub enum ServerSetting {
    /// Histograms of each device: `enable-benchmarks-storage` of a namespace.
    Benchmarks { namespace: String },
    /// The same histograms before version 3.9, for the whole server: `storage-benchmarks`.
    OldBenchmarks,
    /// The level of drive lines: of `drv_ssd`, or of the engine that keeps records in memory.
    LogLevel {
        sink: u32,
        file: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_memory: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    #[serde(flatten)]
    pub setting: ServerSetting,
    pub was: String,
    /// Temporary value.
    pub to: String,
}

impl ServerSetting {
    /// Info name that queries the setting's current value.
    pub fn query(&self, build: Option<Build>) -> String {
        match self {
            Self::Benchmarks { namespace } => get_config(build, namespace),
            Self::OldBenchmarks => "get-config:context=service".to_owned(),
            Self::LogLevel { sink, .. } => format!("log/{sink}"),
        }
    }

    /// The setting's value in the reply to [`Self::query`], lower case.
    pub fn value(&self, reply: &str) -> Option<String> {
        let value = match self {
            Self::Benchmarks { .. } => find(
                reply,
                &[
                    "storage-engine.enable-benchmarks-storage",
                    "enable-benchmarks-storage",
                ],
            ),
            Self::OldBenchmarks => find(reply, &["storage-benchmarks"]),
            // The log contexts of servers 3.x have a prefix with a colon: `cf:misc:INFO`.
            Self::LogLevel { is_memory, .. } => reply
                .split(';')
                .filter_map(|level| level.rsplit_once(':'))
                .find(|(name, _)| *name == drive_context(*is_memory))
                .map(|(_, level)| level),
        };
        value.map(|value| value.trim().to_lowercase())
    }

    /// Info command that changes the setting to `value`. The expected reply is `ok`.
    pub fn command(&self, value: &str, build: Option<Build>) -> String {
        match self {
            Self::Benchmarks { namespace } => {
                format!(
                    "set-config:context=namespace;{}={namespace};enable-benchmarks-storage={value}",
                    selector(build)
                )
            }
            Self::OldBenchmarks => format!("set-config:context=service;storage-benchmarks={value}"),
            Self::LogLevel {
                sink, is_memory, ..
            } => format!("log-set:id={sink};{}={value}", drive_context(*is_memory)),
        }
    }

    pub fn asadm_command(&self, value: &str) -> String {
        match self {
            Self::Benchmarks { namespace } => {
                format!(
                    "manage config namespace {namespace} storage-engine param enable-benchmarks-storage to {value}"
                )
            }
            Self::OldBenchmarks => {
                format!("asinfo -v 'set-config:context=service;storage-benchmarks={value}'")
            }
            Self::LogLevel {
                file, is_memory, ..
            } => {
                let context = drive_context(*is_memory);
                format!("manage config logging file {file} param {context} to {value}")
            }
        }
    }
}

impl fmt::Display for ServerSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Benchmarks { namespace } => {
                write!(f, "enable-benchmarks-storage of namespace {namespace}")
            }
            Self::OldBenchmarks => write!(f, "storage-benchmarks"),
            Self::LogLevel {
                sink,
                file,
                is_memory,
            } => {
                let context = drive_context(*is_memory);
                write!(f, "{context} of log sink {sink} ({file})")
            }
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.setting, self.was, self.to)
    }
}

fn find<'a>(reply: &'a str, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|requested| {
        pairs(reply)
            .find(|(name, _)| name == requested)
            .map(|(_, value)| value)
    })
}

/// The relevant settings of a node, with the replies that show their current values.
pub struct NodeSettings<'a> {
    pub namespaces: Vec<(&'a str, &'a str)>,
    /// Reply of `get-config:context=service`.
    pub service: &'a str,
    /// Sink, file, reply of `log/SINK`.
    pub sinks: Vec<(u32, &'a str, &'a str)>,
}

impl NodeSettings<'_> {
    /// Each relevant setting with its current value (`None` if this server does not report it) and the required value.
    pub fn settings(&self) -> Vec<(ServerSetting, Option<String>, &'static str)> {
        let mut settings = Vec::new();
        let on_devices: Vec<_> = self
            .namespaces
            .iter()
            .filter(|(_, config)| namespace_from(config).is_on_devices())
            .collect();
        let old_benchmarks = ServerSetting::OldBenchmarks;
        for (namespace, config) in &on_devices {
            let setting = ServerSetting::Benchmarks {
                namespace: (*namespace).to_owned(),
            };
            let value = setting.value(config);
            if value.is_some() || old_benchmarks.value(self.service).is_none() {
                settings.push((setting, value, "true"));
            }
        }
        if settings.is_empty() && !on_devices.is_empty() {
            let value = old_benchmarks.value(self.service);
            settings.push((old_benchmarks, value, "true"));
        }
        let has_memory_engine = on_devices
            .iter()
            .any(|(_, config)| namespace_from(config).is_in_memory());
        let engines = [false, true].into_iter();
        let engines = engines.filter(|is_memory| !is_memory || has_memory_engine);
        for (sink, file, levels) in &self.sinks {
            for is_memory in engines.clone() {
                let setting = ServerSetting::LogLevel {
                    sink: *sink,
                    file: (*file).to_owned(),
                    is_memory,
                };
                let value = setting.value(levels);
                settings.push((setting, value, DETAIL));
            }
        }
        settings
    }

    pub fn changes(&self) -> Vec<SettingChange> {
        let unlike = self
            .settings()
            .into_iter()
            .filter_map(|(setting, was, to)| {
                was.filter(|was| was != to).map(|was| SettingChange {
                    setting,
                    was,
                    to: to.to_owned(),
                })
            });
        unlike.collect()
    }
}

fn namespace_from(config: &str) -> Namespace {
    let mut namespace = Namespace::default();
    namespace.take(config);
    namespace
}

/// Info commands that are sent once per node: configuration, version, peers.
pub fn once_names(
    build: Option<Build>,
    namespaces: &[String],
    sinks: impl Iterator<Item = u32>,
) -> Vec<String> {
    let fixed_names = [
        "edition",
        "version",
        "features",
        "cluster-name",
        "service",
        "services",
        "peers-clear-std",
        "status",
        "logs",
    ];
    let contexts = ["get-config:context=service", "get-config:context=network"];
    let of_namespaces = namespaces
        .iter()
        .map(|namespace| get_config(build, namespace));
    let of_sinks = sinks.map(|sink| format!("log/{sink}"));
    fixed_names
        .into_iter()
        .chain(contexts)
        .map(str::to_owned)
        .chain(of_namespaces)
        .chain(of_sinks)
        .collect()
}

/// Info commands that are sent for each sample: counters.
pub fn sample_names(build: Option<Build>, namespaces: &[String]) -> Vec<String> {
    let latencies = if build.is_none_or(Build::has_latencies) {
        "latencies:"
    } else {
        "latency:"
    };
    let of_namespaces = namespaces
        .iter()
        .map(|namespace| format!("namespace/{namespace}"));
    let names = ["node".to_owned()].into_iter().chain(of_namespaces);
    names
        .chain(["statistics".to_owned(), latencies.to_owned()])
        .collect()
}

pub fn get_config(build: Option<Build>, namespace: &str) -> String {
    format!(
        "get-config:context=namespace;{}={namespace}",
        selector(build)
    )
}

/// Name of the parameter that selects a namespace.
pub(super) fn selector(build: Option<Build>) -> &'static str {
    if build.is_some_and(Build::selects_by_namespace) {
        "namespace"
    } else {
        "id"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: &str = "storage-engine=device;storage-engine.device[0]=/dev/a;storage-engine.enable-benchmarks-storage=false";

    #[test]
    fn only_settings_that_differ_from_the_required_value_are_changed() {
        let on = DEVICE.replace("false", "true");
        let memory = "storage-engine=memory;enable-benchmarks-storage=false";
        let backed =
            "storage-engine=memory;storage-engine.file[0]=/a;enable-benchmarks-storage=true";
        let benchmarks = "enable-benchmarks-storage of namespace off: false -> true";
        let of_devices = "drv_ssd of log sink 0 (/var/log/a.log): info -> detail";
        let of_memory = "drv-mem of log sink 0 (/var/log/a.log): info -> detail";
        for (in_memory, expected) in [
            (memory, &[benchmarks, of_devices][..]),
            (backed, &[benchmarks, of_devices, of_memory]),
        ] {
            let current = NodeSettings {
                namespaces: vec![("off", DEVICE), ("on", &on), ("memory", in_memory)],
                service: "",
                sinks: vec![
                    (0, "/var/log/a.log", "misc:INFO;drv_ssd:INFO;drv-mem:INFO"),
                    (1, "stderr", "drv_ssd:DETAIL;drv-mem:DETAIL"),
                ],
            };
            let changes = current.changes();
            let changes = Vec::from_iter(changes.iter().map(SettingChange::to_string));
            assert_eq!(changes, expected, "{in_memory}");
        }
    }

    #[test]
    fn servers_before_3_9_have_one_benchmark_setting_for_all_namespaces() {
        let current = NodeSettings {
            namespaces: vec![
                ("a", "storage-engine=device;dev=/dev/a"),
                ("b", "storage-engine=device;dev=/dev/b"),
            ],
            service: "paxos=x;storage-benchmarks=false",
            sinks: vec![(0, "/a.log", "cf:misc:INFO;drv_ssd:WARNING")],
        };
        let changes = current.changes();
        let commands: Vec<_> = changes
            .iter()
            .map(|change| change.setting.command(&change.to, None))
            .collect();
        assert_eq!(
            commands,
            [
                "set-config:context=service;storage-benchmarks=true",
                "log-set:id=0;drv_ssd=detail"
            ]
        );
        assert_eq!(changes[1].was, "warning");
    }

    #[test]
    fn set_config_commands_match_the_server_version() {
        let setting = ServerSetting::Benchmarks {
            namespace: "test".to_owned(),
        };
        let at = |build| setting.command("true", Build::parse(build));
        assert_eq!(
            at("8.0.0.15"),
            "set-config:context=namespace;id=test;enable-benchmarks-storage=true"
        );
        assert_eq!(
            at("8.1.2.0"),
            "set-config:context=namespace;namespace=test;enable-benchmarks-storage=true"
        );
    }

    #[test]
    fn a_change_is_read_back_as_it_was_written() {
        for (is_memory, command, expected) in [
            (
                false,
                "log-set:id=0;drv_ssd=info",
                r#"{"setting":"log-level","sink":0,"file":"/var/log/a.log","was":"info","to":"detail"}"#,
            ),
            (
                true,
                "log-set:id=0;drv-mem=info",
                r#"{"setting":"log-level","sink":0,"file":"/var/log/a.log","is_memory":true,"was":"info","to":"detail"}"#,
            ),
        ] {
            let change = SettingChange {
                setting: ServerSetting::LogLevel {
                    sink: 0,
                    file: "/var/log/a.log".to_owned(),
                    is_memory,
                },
                was: "info".to_owned(),
                to: DETAIL.to_owned(),
            };
            let json = serde_json::to_string(&change).unwrap();
            assert_eq!(json, expected);
            let found = serde_json::from_str::<SettingChange>(&json).unwrap();
            assert_eq!(found, change);
            assert_eq!(found.setting.command(&found.was, None), command);
        }
    }

    #[test]
    fn names_of_info_commands_follow_the_server_version() {
        let names = |build| {
            let namespaces = ["test".to_owned()];
            let build = Build::parse(build);
            [
                get_config(build, "test"),
                sample_names(build, &namespaces).join(" "),
            ]
        };
        let old = [
            "get-config:context=namespace;id=test",
            "node namespace/test statistics latency:",
        ];
        assert_eq!(names("4.9.0.37"), old);
        assert_eq!(
            names("8.1.0.0"),
            [
                "get-config:context=namespace;namespace=test",
                "node namespace/test statistics latencies:"
            ]
        );
    }
}
