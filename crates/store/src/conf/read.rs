//! Interprets the directives; lists those of the real server that have no effect here or need a missing feature.

use super::blocks::{self, Directive, FILE_BYTES_MAX, bytes, flag, number, seconds, text};
use super::{
    AerospikeConf, ConfProblem, ConfProblems, LogLevel, LogSink, NamespaceConfig, ParsedConfig,
};
use crate::NamespaceSettings;
use results::format::{printable, quoted};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Maximum number of namespaces, and of devices of one namespace. Source: the real server.
const NAMESPACES_MAX: usize = 32;
const DEVICES_MAX: usize = 128;

/// Reads a configuration. A file of more than 1 MiB is refused without being parsed.
pub fn parse(file: &[u8]) -> Result<ParsedConfig, ConfProblems> {
    let mut problems = ConfProblems::default();
    if file.len() > FILE_BYTES_MAX {
        let text = format!(
            "the configuration has {} bytes - at most {FILE_BYTES_MAX} bytes are read",
            file.len()
        );
        return Err(ConfProblems(vec![ConfProblem { line: None, text }]));
    }
    let text = std::str::from_utf8(file).map_err(|error| {
        let line = 1 + file[..error.valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        ConfProblems(vec![ConfProblem {
            line: Some(line),
            text: "invalid UTF-8".to_owned(),
        }])
    })?;
    let file = blocks::read(text, &mut problems);
    let mut config = AerospikeConf::default();
    let mut reader = ConfReader {
        problems,
        notes: Vec::new(),
    };
    reader.file(&file, &mut config);
    let ConfReader {
        mut problems,
        notes,
    } = reader;
    problems
        .0
        .sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
    if problems.0.is_empty() {
        Ok(ParsedConfig { config, notes })
    } else {
        Err(problems)
    }
}

struct ConfReader {
    problems: ConfProblems,
    notes: Vec<ConfProblem>,
}

impl ConfReader {
    /// Sets `setting`, or adds a problem if the value is invalid. Returns true, because the directive is known.
    fn set<T>(
        &mut self,
        setting: &mut T,
        directive: &Directive<'_>,
        value: Result<T, String>,
    ) -> bool {
        match value {
            Ok(value) => *setting = value,
            Err(why) => self
                .problems
                .add(directive.line, format!("{}: {why}", directive.name)),
        }
        true
    }

    /// Adds a problem of a directive. Returns true, because the directive is known.
    fn refuse(&mut self, directive: &Directive<'_>, why: String) -> bool {
        self.problems.add(directive.line, why);
        true
    }

    /// Reads the directives of a block. `handle` handles one directive, and returns `false` if the directive's name is
    /// unknown. This method returns true, because the block itself is known.
    fn block(
        &mut self,
        parent: &Directive<'_>,
        context: &str,
        repeated: &[&str],
        mut handle: impl FnMut(&mut Self, &Directive<'_>) -> bool,
    ) -> bool {
        let Some(directives) = &parent.block else {
            return self.refuse(
                parent,
                format!("{context} needs a block - give {context} {{, and }} on a separate line"),
            );
        };
        let mut first_lines: HashMap<&str, usize> = HashMap::new();
        for directive in directives {
            if !repeated.contains(&directive.name)
                && let Some(first) = first_lines.insert(directive.name, directive.line)
            {
                self.refuse(
                    directive,
                    format!(
                        "{} was already given in line {first}",
                        printable(directive.name)
                    ),
                );
            } else if !handle(self, directive) {
                self.unknown(directive, context);
            } else if directive.block.is_some() && !BLOCKS.contains(&(context, directive.name)) {
                self.refuse(directive, format!("{} takes no block", directive.name));
            }
        }
        true
    }

    fn unknown(&mut self, directive: &Directive<'_>, context: &str) {
        let Directive { line, name, .. } = *directive;
        let has_no_effect = NO_EFFECT
            .iter()
            .any(|(of, names)| *of == context && names.split(' ').any(|of| of == name));
        let missing = MISSING.iter().find(|(missing, _)| *missing == name);
        let is_off = directive.block.is_none()
            && matches!(directive.values[..], [value] if OFF.contains(&value));
        if has_no_effect || missing.is_some() && is_off {
            let text = format!("{name} has no effect in this server");
            return self.notes.push(ConfProblem {
                line: Some(line),
                text,
            });
        }
        let text = match missing {
            Some((_, feature)) => format!("{name}: this server does not have {feature}"),
            None => format!("unknown directive {} in {context}", quoted(name)),
        };
        self.problems.add(line, text);
    }

    fn file(&mut self, file: &Directive<'_>, config: &mut AerospikeConf) {
        self.block(
            file,
            "the file",
            &["namespace"],
            |reader, directive| match directive.name {
                "service" => reader.service(directive, config),
                "logging" => reader.logging(directive, &mut config.logs),
                "network" => reader.network(directive, config),
                "namespace" => reader.namespace(directive, &mut config.namespaces),
                _ => false,
            },
        );
        if config.node_id.is_some() && config.nodes.len() > 1 {
            let text = "node-id has no effect beside mesh-seed-address-port lines: the id of each node follows from its host and port";
            self.notes.push(ConfProblem {
                line: None,
                text: text.to_owned(),
            });
        }
        // The real server's default is 2, but a single node has one copy.
        let copies = if config.nodes.is_empty() { 1 } else { 2 };
        let left_out = config
            .namespaces
            .iter_mut()
            .filter(|namespace| namespace.replication_factor == 0);
        left_out.for_each(|namespace| namespace.replication_factor = copies);
        if config.namespaces.is_empty() && self.problems.0.is_empty() {
            let text =
                "the configuration has no namespace - add a namespace block, with a storage-engine device block that names a device"
                    .to_owned();
            self.problems.0.push(ConfProblem { line: None, text });
        }
    }

    fn service(&mut self, directive: &Directive<'_>, config: &mut AerospikeConf) -> bool {
        self.block(directive, "service", &[], |reader, d| match d.name {
            "cluster-name" => reader.set(&mut config.cluster_name, d, name(d, 64).map(Some)),
            "node-id" => reader.set(&mut config.node_id, d, node_id(d).map(Some)),
            "service-threads" => reader.set(
                &mut config.service_threads,
                d,
                number(d, 1..=1_024).map(Some),
            ),
            "proto-fd-max" => reader.set(&mut config.proto_fd_max, d, number(d, 1..=1_000_000)),
            "proto-fd-idle-ms" => {
                reader.set(&mut config.proto_fd_idle_ms, d, number(d, 0..=86_400_000))
            }
            "batch-max-requests" => {
                reader.set(&mut config.batch_max_requests, d, number(d, 1..=1_000_000))
            }
            "transaction-max-ms" => {
                reader.set(&mut config.transaction_max_ms, d, number(d, 1..=60_000))
            }
            "ticker-interval" => {
                reader.set(&mut config.ticker_interval_sec, d, seconds(d, 1..=3_600))
            }
            "microsecond-histograms" => reader.set(&mut config.microsecond_histograms, d, flag(d)),
            "log-millis" => reader.set(&mut config.log_millis, d, flag(d)),
            _ => false,
        })
    }

    fn logging(&mut self, directive: &Directive<'_>, logs: &mut Vec<LogSink>) -> bool {
        self.block(directive, "logging", &["file"], |reader, d| {
            if !matches!(d.name, "file" | "console") {
                return false;
            }
            let mut log = LogSink {
                path: None,
                any: LogLevel::Critical,
                drv_ssd: None,
            };
            match (d.name, &d.values[..]) {
                ("console", []) => {}
                ("file", [path]) => log.path = Some((*path).to_owned()),
                _ => _ = reader.refuse(d, "give file PATH { or console {".to_owned()),
            }
            reader.block(d, d.name, &["context"], |reader, d| {
                match (d.name, &d.values[..]) {
                    ("context", [context, level]) => match (level_of(level), *context) {
                        (Some(level), "any") => reader.set(&mut log.any, d, Ok(level)),
                        (Some(level), "drv_ssd") => {
                            reader.set(&mut log.drv_ssd, d, Ok(Some(level)))
                        }
                        (Some(_), _) => reader.refuse(
                            d,
                            format!("unknown context {} - give any or drv_ssd", quoted(context)),
                        ),
                        (None, _) => reader.refuse(
                            d,
                            format!(
                                "unknown level {} - give critical, warning, info, debug or detail",
                                quoted(level)
                            ),
                        ),
                    },
                    ("context", _) => reader.refuse(
                        d,
                        "context needs a name and a level - give for example \"context any info\""
                            .to_owned(),
                    ),
                    _ => false,
                }
            });
            logs.push(log);
            true
        })
    }

    fn network(&mut self, directive: &Directive<'_>, config: &mut AerospikeConf) -> bool {
        self.block(directive, "network", &[], |reader, d| match d.name {
            "service" => reader.clients(d, config),
            "heartbeat" => reader.heartbeat(d, config),
            _ => false,
        })
    }

    fn clients(&mut self, directive: &Directive<'_>, config: &mut AerospikeConf) -> bool {
        let mut addresses = Vec::new();
        let mut access_address = None;
        let mut access_port = None;
        self.block(
            directive,
            "service of network",
            &["address"],
            |reader, d| match d.name {
                "address" => {
                    let mut address = None;
                    reader.set(&mut address, d, own_address(d).map(Some));
                    addresses.extend(address);
                    true
                }
                "port" => reader.set(&mut config.listen.port, d, number(d, 0..=65_535)),
                "access-address" => {
                    let value =
                        text(d).and_then(|text| text.parse().map_err(|_| expected_address(text)));
                    reader.set(&mut access_address, d, value.map(Some))
                }
                "access-port" => reader.set(&mut access_port, d, number(d, 1..=65_535).map(Some)),
                _ => false,
            },
        );
        if !addresses.is_empty() {
            config.listen.addresses = addresses;
        }
        if access_address.is_some() || access_port.is_some() {
            let address = access_address.unwrap_or(config.listen.addresses[0]);
            config.access = Some((address, access_port.unwrap_or(config.listen.port)));
        }
        true
    }

    fn heartbeat(&mut self, directive: &Directive<'_>, config: &mut AerospikeConf) -> bool {
        self.block(
            directive,
            "heartbeat",
            &["mesh-seed-address-port"],
            |reader, d| match d.name {
                "mode" if text(d) == Ok("mesh") => true,
                "mode" => reader.refuse(d, "mode: this server supports only mesh".to_owned()),
                "mesh-seed-address-port" => match d.values[..] {
                    [host, port] if port.parse::<u16>().is_ok_and(|port| port > 0) => {
                        config
                            .nodes
                            .push((host.to_owned(), port.parse().unwrap_or_default()));
                        true
                    }
                    _ => reader.refuse(d, "give mesh-seed-address-port HOST PORT".to_owned()),
                },
                _ => false,
            },
        )
    }

    fn namespace(
        &mut self,
        directive: &Directive<'_>,
        namespaces: &mut Vec<NamespaceConfig>,
    ) -> bool {
        let name = match name(directive, 31) {
            Ok(name) => name,
            Err(why) => return self.refuse(directive, format!("namespace: {why}")),
        };
        if namespaces.iter().any(|other| other.settings.name == name) {
            return self.refuse(
                directive,
                format!("namespace {} was already given", quoted(&name)),
            );
        }
        if namespaces.len() == NAMESPACES_MAX {
            return self.refuse(
                directive,
                format!("too many namespaces - give at most {NAMESPACES_MAX}"),
            );
        }
        let mut namespace = NamespaceConfig {
            settings: NamespaceSettings::new(&name),
            replication_factor: 0,
            answers_before_replica: false,
            migrate_sleep_us: 1,
            devices: Vec::new(),
            file_bytes: None,
            benchmarks_storage: false,
        };
        let mut has_storage = false;
        self.block(directive, "namespace", &[], |reader, d| {
            let settings = &mut namespace.settings;
            match d.name {
                "replication-factor" => {
                    reader.set(&mut namespace.replication_factor, d, number(d, 1..=2))
                }
                "memory-size" | "indexes-memory-budget" => {
                    reader.set(&mut settings.memory_bytes, d, bytes(d, 1 << 20..=1 << 50))
                }
                "default-ttl" => reader.set(
                    &mut settings.default_ttl_sec,
                    d,
                    seconds(d, 0..=315_360_000),
                ),
                "tomb-raider-period" => reader.set(
                    &mut settings.tomb_raider_period_sec,
                    d,
                    seconds(d, 0..=315_360_000),
                ),
                "nsup-period" => {
                    reader.set(&mut settings.nsup_period_sec, d, seconds(d, 0..=86_400))
                }
                "single-bin" => reader.set(&mut settings.single_bin, d, flag(d)),
                "migrate-sleep" => reader.set(
                    &mut namespace.migrate_sleep_us,
                    d,
                    number(d, 0..=1_000_000_000),
                ),
                "write-commit-level-override" => match text(d) {
                    Ok("off" | "all") => true,
                    Ok("master") => reader.set(&mut namespace.answers_before_replica, d, Ok(true)),
                    _ => reader.refuse(
                        d,
                        "write-commit-level-override: give off, all or master".to_owned(),
                    ),
                },
                "storage-engine" => {
                    has_storage = true;
                    reader.storage(d, &mut namespace, namespaces)
                }
                _ => false,
            }
        });
        if !has_storage && directive.block.is_some() {
            let what = "has no storage-engine - give storage-engine device { with a device";
            self.refuse(directive, format!("namespace {} {what}", quoted(&name)));
        }
        namespaces.push(namespace);
        true
    }

    /// Reads a `storage-engine` block of `namespace`. `others`: the namespaces before it.
    fn storage(
        &mut self,
        directive: &Directive<'_>,
        namespace: &mut NamespaceConfig,
        others: &[NamespaceConfig],
    ) -> bool {
        if directive.values != ["device"] {
            let found = quoted(&directive.values.join(" "));
            return self.refuse(
                directive,
                format!("storage-engine {found}: this server supports only device"),
            );
        }
        let mut files = Vec::new();
        let mut cache_bytes = None;
        self.block(
            directive,
            "storage-engine",
            &["device", "file"],
            |reader, d| {
                let settings = &mut namespace.settings;
                match d.name {
                    "device" => reader.device(d, &mut namespace.devices, others),
                    "file" => reader.device(d, &mut files, others),
                    "filesize" => reader.set(
                        &mut namespace.file_bytes,
                        d,
                        bytes(d, 1 << 20..=1 << 50).map(Some),
                    ),
                    "write-block-size" => {
                        let value = bytes(d, 32 << 10..=8 << 20).and_then(|bytes: u32| {
                            if bytes.is_power_of_two() {
                                Ok(bytes)
                            } else {
                                Err(format!("{bytes} is not a power of two"))
                            }
                        });
                        reader.set(&mut settings.write_block_bytes, d, value)
                    }
                    "defrag-lwm-pct" => {
                        reader.set(&mut settings.defrag_lwm_pct, d, number(d, 1..=99))
                    }
                    "defrag-sleep" => reader.set(
                        &mut settings.defrag_sleep_us,
                        d,
                        number(d, 0..=1_000_000_000),
                    ),
                    "tomb-raider-sleep" => reader.set(
                        &mut settings.tomb_raider_sleep_us,
                        d,
                        number(d, 0..=1_000_000_000),
                    ),
                    "flush-max-ms" => {
                        reader.set(&mut settings.flush_max_ms, d, number(d, 0..=1_000))
                    }
                    "post-write-queue" => {
                        reader.set(&mut settings.post_write_blocks, d, number(d, 0..=8_192))
                    }
                    "post-write-cache" => {
                        reader.set(&mut cache_bytes, d, bytes(d, 0..=64u64 << 30).map(Some))
                    }
                    "max-write-cache" => reader.set(
                        &mut settings.max_write_cache_bytes,
                        d,
                        bytes(d, 1 << 20..=1 << 40),
                    ),
                    "commit-to-device" => reader.set(&mut settings.commit_to_device, d, flag(d)),
                    "min-avail-pct" | "stop-writes-avail-pct" => {
                        reader.set(&mut settings.min_avail_pct, d, number(d, 0..=100))
                    }
                    "enable-benchmarks-storage" => {
                        reader.set(&mut namespace.benchmarks_storage, d, flag(d))
                    }
                    _ => false,
                }
            },
        );
        if let Some(bytes) = cache_bytes {
            namespace.settings.post_write_blocks =
                (bytes / u64::from(namespace.settings.write_block_bytes)) as u32;
        }
        let problem = match (
            namespace.devices.is_empty(),
            files.is_empty(),
            namespace.file_bytes,
        ) {
            (true, true, _) => "give device PATH, or file PATH and filesize",
            (false, false, _) => "give devices or files, not both",
            (true, false, None) => "a file needs filesize",
            (false, true, Some(_)) => {
                "filesize applies only to files - a device is used with its full size"
            }
            _ => "",
        };
        if !problem.is_empty() && directive.block.is_some() {
            self.refuse(directive, problem.to_owned());
        }
        namespace.devices.append(&mut files);
        true
    }

    fn device(
        &mut self,
        directive: &Directive<'_>,
        devices: &mut Vec<String>,
        others: &[NamespaceConfig],
    ) -> bool {
        let [path] = directive.values[..] else {
            return match directive.values.len() {
                2 => self.refuse(
                    directive,
                    "this server does not have shadow devices".to_owned(),
                ),
                _ => self.refuse(directive, format!("give {} PATH", directive.name)),
            };
        };
        let mut used_paths = others
            .iter()
            .flat_map(|namespace| &namespace.devices)
            .chain(&*devices);
        if used_paths.any(|other| other == path) {
            return self.refuse(directive, format!("{} was already given", quoted(path)));
        }
        if devices.len() == DEVICES_MAX {
            return self.refuse(
                directive,
                format!("too many devices - give at most {DEVICES_MAX}"),
            );
        }
        devices.push(path.to_owned());
        true
    }
}

/// Parses a name. The characters that separate values in the info protocol are not allowed.
fn name(directive: &Directive<'_>, bytes_max: usize) -> Result<String, String> {
    let text = text(directive)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    if text.len() <= bytes_max && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{} is not a valid name - give at most {bytes_max} letters, digits and _-.$",
            quoted(text)
        ))
    }
}

fn node_id(directive: &Directive<'_>) -> Result<u64, String> {
    let text = text(directive)?;
    let digits = text.len() <= 16 && text.chars().all(|c| c.is_ascii_hexdigit());
    let id = u64::from_str_radix(text, 16)
        .ok()
        .filter(|id| digits && *id != 0);
    id.ok_or_else(|| {
        format!(
            "expected up to 16 hexadecimal digits, found {}",
            quoted(text)
        )
    })
}

fn expected_address(text: &str) -> String {
    format!("expected an IP address, found {}", quoted(text))
}

fn own_address(directive: &Directive<'_>) -> Result<IpAddr, String> {
    match text(directive)? {
        "any" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "local" | "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text
            .parse()
            .map_err(|_| format!("{} - give an address, any or local", expected_address(text))),
    }
}

fn level_of(text: &str) -> Option<LogLevel> {
    use LogLevel::*;
    [Critical, Warning, Info, Debug, Detail]
        .into_iter()
        .find(|level| level.word().to_ascii_lowercase() == text)
}

/// Valid blocks: the parent, and the block's name.
pub(super) const BLOCKS: [(&str, &str); 9] = [
    ("the file", "service"),
    ("the file", "logging"),
    ("the file", "network"),
    ("the file", "namespace"),
    ("logging", "file"),
    ("logging", "console"),
    ("network", "service"),
    ("network", "heartbeat"),
    ("namespace", "storage-engine"),
];

/// Directives of the real server that have no effect in this server, grouped by block.
pub(super) const NO_EFFECT: [(&str, &str); 6] = [
    (
        "service",
        "user group pidfile work-directory run-as-daemon info-threads batch-index-threads migrate-threads \
         query-threads-limit transaction-retry-ms advertise-ipv6 auto-pin node-id-interface min-cluster-size \
         enforce-best-practices enable-health-check",
    ),
    ("network", "fabric info admin"),
    (
        "service of network",
        "reuse-address alternate-access-address alternate-access-port",
    ),
    ("heartbeat", "address port interval timeout protocol"),
    (
        "namespace",
        "enable-benchmarks-read enable-benchmarks-write enable-benchmarks-batch-sub enable-benchmarks-ops-sub \
         enable-hist-proxy high-water-disk-pct high-water-memory-pct evict-tenths-pct partition-tree-sprigs \
         index-stage-size nsup-threads conflict-resolution-policy transaction-pending-limit",
    ),
    (
        "storage-engine",
        "direct-files defrag-queue-min defrag-startup-minimum stop-writes-used-pct evict-used-pct \
         cache-replica-writes scheduler-mode",
    ),
];

/// Blocks and directives of missing features.
pub(super) const MISSING: [(&str, &str); 24] = [
    (
        "security",
        "logins: anybody who can connect may read and write",
    ),
    ("xdr", "replication to other clusters"),
    ("mod-lua", "user-defined functions"),
    ("tls", "TLS"),
    ("tls-address", "TLS"),
    ("tls-port", "TLS"),
    ("tls-name", "TLS"),
    ("syslog", "logging to syslog: give console or file"),
    ("multicast-group", "multicast: give mode mesh"),
    ("index-type", "an index outside memory"),
    ("sindex-type", "secondary indexes"),
    ("sindex", "secondary indexes"),
    ("set", "settings of sets"),
    ("strong-consistency", "strong consistency"),
    ("rack-id", "racks"),
    ("data-in-memory", "records in memory"),
    ("compression", "compression"),
    ("encryption", "encryption"),
    ("encryption-key-file", "encryption"),
    ("read-page-cache", "reads through the page cache"),
    ("disable-odsync", "unsynced writes (without O_DSYNC)"),
    ("disable-odirect", "reads and writes through the page cache"),
    (
        "cold-start-empty",
        "starts that ignore the records on a device",
    ),
    ("feature-key-file", "features of the Enterprise Edition"),
];

/// Values that switch a missing feature off. Such directives are accepted.
pub(super) const OFF: [&str; 4] = ["false", "no", "none", "0"];
