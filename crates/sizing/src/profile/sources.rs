//! Inputs of a profile, options, and errors.

use super::seen::IostatError;
use super::window::WindowError;
use crate::info::{Build, FLUSH_BYTES, InfoReplies, Namespace};
use crate::iostat::Iostat;
use crate::server_log::{ServerLog, Start, size_bytes};
use jiff::Timestamp;
use jiff::tz::Offset;
use std::collections::BTreeMap;

/// Inputs of a profile.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Program and version.
    pub tool: String,
    /// Files and servers.
    pub names: Vec<String>,
    /// One log per node.
    pub logs: Vec<ServerLog>,
    /// iostat's output, by the node's id.
    pub iostats: BTreeMap<String, Iostat>,
    /// Configuration, by the node's id (empty: all nodes) and the namespace.
    pub facts: BTreeMap<(String, String), Facts>,
}

/// Configuration of a namespace, from the user or the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Source, a phrase.
    pub origin: String,
    pub build: Option<Build>,
    /// `write-block-size`, bytes.
    pub write_block_bytes: Option<u64>,
    /// `flush-size`, bytes.
    pub flush_bytes: Option<u64>,
    pub commit_to_device: Option<bool>,
    /// The replication factor in force.
    pub replication_factor: Option<u64>,
    /// Devices that have a shadow, each with it.
    pub shadows: BTreeMap<String, String>,
}

impl Facts {
    /// Facts from a node's replies on `namespace`.
    pub fn of(node: &InfoReplies, namespace: &Namespace) -> Self {
        Self {
            origin: format!("the configuration of node {}", node.name()),
            build: node.build,
            write_block_bytes: namespace.write_block_bytes(node.build),
            flush_bytes: namespace.flush_bytes(node.build),
            commit_to_device: namespace.commit_to_device(),
            replication_factor: namespace.replication_factor(),
            shadows: namespace.devices.iter().filter_map(|it| Some((it.name.clone(), it.shadow.clone()?))).collect(),
        }
    }

    /// Facts that the server logged about `namespace` at its start; none if the log does not go back to it.
    pub fn of_start(start: &Start, namespace: &str) -> Self {
        let Some(keys) = start.configuration.get(namespace) else { return Self::default() };
        let last = |key: &str| keys.get(key).and_then(|values| values.last()).map(String::as_str);
        let build = start.build.as_deref().and_then(Build::parse);
        let is_fixed = build.is_some_and(|build| build.fixed_write_block_bytes().is_some());
        Self {
            origin: "the log of the server's start".to_owned(),
            build,
            write_block_bytes: last("write-block-size").and_then(size_bytes),
            // Values that are not printed have their defaults.
            flush_bytes: is_fixed.then(|| last("flush-size").map_or(Some(FLUSH_BYTES), size_bytes)).flatten(),
            commit_to_device: Some(last("commit-to-device") == Some("true")),
            replication_factor: last("replication-factor").and_then(|factor| factor.parse().ok()),
            shadows: keys
                .get("device")
                .into_iter()
                .flatten()
                .filter_map(|names| names.split_once(char::is_whitespace))
                .map(|(device, shadow)| (device.to_owned(), shadow.trim().to_owned()))
                .collect(),
        }
    }

    /// These, and where they say nothing what `other` says.
    pub fn or(self, other: Self) -> Self {
        let says_sizes = self.write_block_bytes.is_some() || self.flush_bytes.is_some();
        Self {
            origin: if says_sizes { self.origin } else { other.origin },
            build: self.build.or(other.build),
            write_block_bytes: self.write_block_bytes.or(other.write_block_bytes),
            flush_bytes: self.flush_bytes.or(other.flush_bytes),
            commit_to_device: self.commit_to_device.or(other.commit_to_device),
            replication_factor: self.replication_factor.or(other.replication_factor),
            shadows: if self.shadows.is_empty() { other.shadows } else { self.shadows },
        }
    }
}

#[derive(Debug, Clone)]
pub struct Wanted {
    /// Only these namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// Only lines from here on.
    pub from: Option<Timestamp>,
    /// Only lines up to here.
    pub to: Option<Timestamp>,
    /// The shortest window that is searched for, seconds.
    pub at_least_sec: u32,
    /// Drives of devices whose names do not tell it, by device.
    pub drives: BTreeMap<String, String>,
    /// The time zone of iostat's clock.
    pub iostat_zone: Offset,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum SizingError {
    #[error("there is no server log to size from: sizes of records are logged and nowhere else - give --log FILE")]
    NoLog,
    #[error(
        "{log}: has no histogram of the sizes that namespace {namespace} read and wrote (such as \
         {{{namespace}}}-device-read-size) - storage histograms are off: turn them on, and take the log again after some \
         minutes: asadm -e 'enable; manage config namespace {namespace} param enable-benchmarks-storage to true' (or \
         \"flashproof size collect --enable\")"
    )]
    StorageHistogramsOff { log: String, namespace: String },
    /// No such namespace.
    #[error("there is no namespace {wanted} - there is {}", .found.join(", "))]
    NoNamespace {
        wanted: String,
        /// Existing ones.
        found: Vec<String>,
    },
    /// Nothing is stored on devices.
    #[error("{log}: has no drv_ssd line, so no namespace of it is stored on a device - give the log of another node")]
    NoDevices { log: String },
    /// A rate needs two lines.
    #[error(
        "{log}: {what} was logged fewer than twice from {from} to {to} - the window is too short: take a longer one"
    )]
    TooShort {
        log: String,
        /// Name of the counter.
        what: String,
        /// Start of the window.
        from: Timestamp,
        /// End of the window.
        to: Timestamp,
    },
    /// No window.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// No window while iostat was running.
    #[error(
        "{error} (looked for while iostat was running, from {from} to {to}; without --iostat the whole log is looked at)"
    )]
    WhileIostat {
        /// Reason.
        error: Box<WindowError>,
        /// Time of the first report.
        from: Timestamp,
        /// Time of the last report.
        to: Timestamp,
    },
    /// iostat's output does not match the load.
    #[error("node {node}: {error}")]
    Iostat { node: String, error: IostatError },
    /// The node of an iostat output is unknown.
    #[error("--iostat {wanted}=...: there is no such node - there is {}", .found.join(", "))]
    NoNode {
        wanted: String,
        /// Existing ones.
        found: Vec<String>,
    },
}
