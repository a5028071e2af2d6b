//! The configuration: the supported part of the real server's `aerospike.conf`. Every error is reported with its line.
//! A directive without effect in this server gets a note; an unknown directive, or one of a missing feature, is an
//! error.

mod blocks;
mod directives;
mod read;
#[cfg(test)]
mod tests;

pub use read::parse;

use crate::NamespaceSettings;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A configuration. Defaults are those of the real server, except that the server listens on loopback and that
/// `write-block-size` is 128K.
#[derive(Debug, Clone, PartialEq)]
pub struct AerospikeConf {
    pub cluster_name: Option<String>,
    /// `node-id`: hexadecimal.
    pub node_id: Option<u64>,
    /// `service-threads`: number of cores; `None`: all available cores.
    pub service_threads: Option<u16>,
    /// `proto-fd-max`: maximum number of client connections.
    pub proto_fd_max: u32,
    /// `proto-fd-idle-ms`: idle time after which a client connection is closed; 0: never.
    pub proto_fd_idle_ms: u32,
    /// `batch-max-requests`: maximum number of keys of a batch.
    pub batch_max_requests: u32,
    /// `transaction-max-ms`: timeout of a transaction if the client sets none.
    pub transaction_max_ms: u32,
    /// `ticker-interval`: seconds between two sets of periodic log lines.
    pub ticker_interval_sec: u32,
    /// `microsecond-histograms`: latencies are counted in us, not in ms.
    pub microsecond_histograms: bool,
    /// `log-millis`: log times have milliseconds.
    pub log_millis: bool,
    /// `logging`: destinations of log lines.
    pub logs: Vec<LogSink>,
    /// `address` and `port` of `service` in `network`: addresses and port for clients.
    pub listen: Listen,
    /// The first `access-address`, and `access-port`: address advertised to clients, if it differs from the listening
    /// address.
    pub access: Option<(IpAddr, u16)>,
    /// `mesh-seed-address-port` of `heartbeat` in `network`: address and service port of each node of the cluster,
    /// including this node; empty: a single node.
    pub nodes: Vec<(IpAddr, u16)>,
    pub namespaces: Vec<NamespaceConfig>,
}

impl Default for AerospikeConf {
    fn default() -> Self {
        Self {
            cluster_name: None,
            node_id: None,
            service_threads: None,
            proto_fd_max: 15_000,
            proto_fd_idle_ms: 0,
            batch_max_requests: 5_000,
            transaction_max_ms: 1_000,
            ticker_interval_sec: 10,
            microsecond_histograms: false,
            log_millis: false,
            logs: Vec::new(),
            listen: Listen {
                addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
                port: 3_000,
            },
            access: None,
            nodes: Vec::new(),
            namespaces: Vec::new(),
        }
    }
}

impl AerospikeConf {
    /// Address and port that clients get for this node; `None`: the server listens on all addresses of this machine,
    /// and the configuration does not choose one.
    pub fn advertised(&self) -> Option<(IpAddr, u16)> {
        let address = self.listen.addresses[0];
        let listening = (!address.is_unspecified()).then_some((address, self.listen.port));
        self.access.or(listening)
    }

    /// Position of this node in `nodes`.
    pub fn own_node(&self) -> Option<usize> {
        let (address, port) = self.advertised()?;
        self.nodes.iter().position(|(of, of_port)| {
            *of_port == port && (*of == address || self.listen.addresses.contains(of))
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub addresses: Vec<IpAddr>,
    /// The port; 0: any free port.
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// The server is about to end.
    Critical,
    Warning,
    Info,
    Debug,
    Detail,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSink {
    /// Path; `None`: the console, which is stderr.
    pub path: Option<String>,
    /// `context any`: level of all contexts.
    pub any: LogLevel,
    /// `context drv_ssd`: level of the lines about devices, if it differs from `any`.
    pub drv_ssd: Option<LogLevel>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NamespaceConfig {
    pub settings: NamespaceSettings,
    /// `replication-factor`: number of nodes that have each record. Default: 2 if there are other nodes, else 1.
    pub replication_factor: u8,
    /// `write-commit-level-override master`: a write is acknowledged before the replica has the record.
    pub answers_before_replica: bool,
    /// `migrate-sleep`: pause of a core, us, between sending two records that the other node lacks.
    pub migrate_sleep_us: u32,
    /// Values of `device` or `file`.
    pub devices: Vec<String>,
    /// `filesize`: size of each file, bytes; `None`: the devices are not files.
    pub file_bytes: Option<u64>,
    /// `enable-benchmarks-storage`: the log has histograms of the times of each device's operations.
    pub benchmarks_storage: bool,
}

impl NamespaceConfig {
    /// Word for the namespace's devices in statistics: `device`, or `file`.
    pub(crate) fn device_kind(&self) -> &'static str {
        if self.file_bytes.is_some() {
            "file"
        } else {
            "device"
        }
    }
}

impl LogLevel {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Critical => "CRITICAL",
            Self::Warning => "WARNING",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Detail => "DETAIL",
        }
    }
}

/// An error in a configuration, or a note on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfProblem {
    /// Line number; `None`: the problem concerns the whole file.
    pub line: Option<usize>,
    pub text: String,
}

/// All errors of a configuration, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct ConfProblems(pub Vec<ConfProblem>);

impl fmt::Display for ConfProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl fmt::Display for ConfProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ParsedConfig {
    pub config: AerospikeConf,
    /// A note for each directive without effect.
    pub notes: Vec<ConfProblem>,
}
