//! Interprets the directives.

use super::blocks::{self, Directive, FILE_BYTES_MAX, bytes, flag, number, seconds, text};
use super::directives::{BLOCKS, CONTEXTS, MISSING, NO_EFFECT, OFF, lists};
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
/// Maximum number of nodes: takeover, migrations and the guarantees for clients need a pair.
const NODES_MAX: usize = 2;

/// Written by some editors at the start of UTF-8 files.
const BYTE_ORDER_MARK: char = '\u{feff}';

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
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
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

    /// Adds a note on a directive. Returns true, because the directive is known.
    fn note(&mut self, directive: &Directive<'_>, text: String) -> bool {
        self.notes.push(ConfProblem {
            line: Some(directive.line),
            text,
        });
        true
    }

    /// Reads the directives of a block. `handle` handles one directive, and returns `false` if the directive's name is
    /// not among those that it handles. Handled directives must not be repeated, except those named in `repeated`. This
    /// method returns true, because the block itself is known.
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
            if !handle(self, directive) {
                self.unhandled(directive, context);
            } else if !repeated.contains(&directive.name)
                && let Some(first) = first_lines.insert(directive.name, directive.line)
            {
                self.refuse(
                    directive,
                    format!(
                        "{} was already given in line {first}",
                        printable(directive.name)
                    ),
                );
            } else if directive.block.is_some() && !BLOCKS.contains(&(context, directive.name)) {
                self.refuse(directive, format!("{} takes no block", directive.name));
            }
        }
        true
    }

    /// A directive that this server only recognises gets a note or a problem; an unknown directive gets a problem.
    fn unhandled(&mut self, directive: &Directive<'_>, context: &str) {
        let name = directive.name;
        let has_no_effect = NO_EFFECT
            .iter()
            .any(|(of, names)| *of == context && lists(names, name));
        let missing = MISSING
            .iter()
            .find(|(of, _, names)| *of == context && lists(names, name));
        let value = directive.values.join(" ").to_ascii_lowercase();
        let is_off = directive.block.is_none() && OFF.contains(&value.as_str());
        match missing {
            Some((_, feature, _)) if !is_off => self.refuse(
                directive,
                format!("{name}: this server does not have {feature}"),
            ),
            None if !has_no_effect => self.refuse(
                directive,
                format!("unknown directive {} in {context}", quoted(name)),
            ),
            _ => self.note(directive, format!("{name} has no effect in this server")),
        };
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
        let copies = if config.nodes.len() < 2 { 1 } else { 2 };
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
            "proto-fd-max" | "client-fd-max" => {
                reader.set(&mut config.proto_fd_max, d, number(d, 1..=1_000_000))
            }
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
                d.name == "context" && reader.context(d, &mut log)
            });
            logs.push(log);
            true
        })
    }

    fn context(&mut self, directive: &Directive<'_>, log: &mut LogSink) -> bool {
        let [context, level] = directive.values[..] else {
            let why = "context needs a name and a level - give for example \"context any info\"";
            return self.refuse(directive, why.to_owned());
        };
        let Some(level) = level_of(level) else {
            let why = format!(
                "unknown level {} - give critical, warning, info, debug or detail",
                quoted(level)
            );
            return self.refuse(directive, why);
        };
        match context.to_ascii_lowercase().as_str() {
            "any" => self.set(&mut log.any, directive, Ok(level)),
            "drv_ssd" => self.set(&mut log.drv_ssd, directive, Ok(Some(level))),
            other if lists(CONTEXTS, other) => self.note(
                directive,
                format!("context {other} has no effect in this server"),
            ),
            _ => self.refuse(
                directive,
                format!("unknown context {} - give any or drv_ssd", quoted(context)),
            ),
        }
    }

    fn network(&mut self, directive: &Directive<'_>, config: &mut AerospikeConf) -> bool {
        let problems = self.problems.0.len();
        self.block(directive, "network", &[], |reader, d| match d.name {
            "service" => reader.clients(d, config),
            "heartbeat" => reader.heartbeat(d, config),
            _ => false,
        });
        let seed = directive
            .find("heartbeat")
            .and_then(|heartbeat| heartbeat.find("mesh-seed-address-port"));
        if let Some(seed) = seed
            && self.problems.0.len() == problems
            && config.own_node().is_none()
        {
            self.refuse(seed, no_own_line(config));
        }
        true
    }

    fn clients(&mut self, directive: &Directive<'_>, config: &mut AerospikeConf) -> bool {
        let mut addresses = Vec::new();
        let mut access_address = None;
        let mut access_port = None;
        self.block(
            directive,
            "service of network",
            &["address", "access-address"],
            |reader, d| match d.name {
                "address" => {
                    let mut address = None;
                    reader.set(&mut address, d, own_address(d).map(Some));
                    addresses.extend(address);
                    true
                }
                "port" => reader.set(&mut config.listen.port, d, number(d, 0..=65_535)),
                "access-address" | "external-address" if access_address.is_none() => {
                    let value =
                        text(d).and_then(|text| text.parse().map_err(|_| expected_address(text)));
                    reader.set(&mut access_address, d, value.map(Some))
                }
                "access-address" | "external-address" => reader.note(
                    d,
                    format!("{} has no effect: clients get only the first one", d.name),
                ),
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
                "mode" => reader.refuse(
                    d,
                    "mode: this server supports only mesh - a single node needs no heartbeat block"
                        .to_owned(),
                ),
                "mesh-seed-address-port" => reader.node(d, &mut config.nodes),
                _ => false,
            },
        )
    }

    fn node(&mut self, directive: &Directive<'_>, nodes: &mut Vec<(IpAddr, u16)>) -> bool {
        let node = match directive.values[..] {
            [address, port] => address.parse().ok().zip(port.parse().ok()),
            _ => None,
        };
        let Some(node) = node.filter(|(_, port)| *port > 0) else {
            let why = format!(
                "mesh-seed-address-port: expected the IP address and the service port of a node, found {}",
                quoted(&directive.values.join(" "))
            );
            return self.refuse(directive, why);
        };
        if nodes.contains(&node) {
            return self.refuse(directive, "this node was already given".to_owned());
        }
        if nodes.len() == NODES_MAX {
            let why = format!(
                "too many nodes - give at most {NODES_MAX} mesh-seed-address-port lines, one for each node"
            );
            return self.refuse(directive, why);
        }
        nodes.push(node);
        true
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
        self.block(directive, "namespace", &["set"], |reader, d| {
            let settings = &mut namespace.settings;
            match d.name {
                "replication-factor" => {
                    reader.set(&mut namespace.replication_factor, d, number(d, 1..=2))
                }
                "memory-size" | "indexes-memory-budget" | "limit-size" => {
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
                "set" => reader.block(d, "set", &[], |_, _| false),
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
                    "write-block-size" | "flush-size" => {
                        if d.name == "flush-size" {
                            let text = "flush-size is read as write-block-size: this server writes each block at once";
                            reader.note(d, text.to_owned());
                        }
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
        let given = ["device", "file", "filesize"].map(|name| directive.find(name).is_some());
        let problem = match given {
            [false, false, _] => "give device PATH, or file PATH and filesize",
            [true, true, _] => "give devices or files, not both",
            [false, true, false] => "a file needs filesize",
            [true, false, true] => {
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
                    "this server does not have shadow devices - remove the second path".to_owned(),
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

/// Why no line of `config.nodes` stands for this node, and what to do.
fn no_own_line(config: &AerospikeConf) -> String {
    match config.advertised() {
        Some((address, port)) => format!(
            "no mesh-seed-address-port line has {address} {port}, where clients reach this node - give on both nodes the \
             address and the service port of each node; a single node needs no line"
        ),
        None => "address any does not tell which mesh-seed-address-port line stands for this node - give a single \
                 address, or add access-address"
            .to_owned(),
    }
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
        .find(|level| level.word().eq_ignore_ascii_case(text))
}
