//! What a profile is derived from, what is wanted of it, and why there may be none.

use super::seen::IostatError;
use super::window::WindowError;
use crate::info::{Build, FLUSH_BYTES, InfoReplies, Namespace};
use crate::iostat::Iostat;
use crate::server_log::{ServerLog, Start, size_bytes};
use jiff::Timestamp;
use jiff::tz::Offset;
use std::collections::BTreeMap;

/// What there is to derive a profile from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Program and version.
    pub tool: String,
    /// Files and servers.
    pub names: Vec<String>,
    /// A log a node.
    pub logs: Vec<ServerLog>,
    /// What iostat showed, by the node's id.
    pub iostats: BTreeMap<String, Iostat>,
    /// What is configured, by the node's id (empty: on all) and the namespace.
    pub facts: BTreeMap<(String, String), Facts>,
}

/// What is configured of a namespace, by the user or by the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Who says so, a phrase.
    pub origin: String,
    /// Version of the server.
    pub build: Option<Build>,
    /// write-block-size.
    pub write_block_bytes: Option<u64>,
    /// flush-size.
    pub flush_bytes: Option<u64>,
    /// commit-to-device.
    pub commit_to_device: Option<bool>,
    /// The replication factor in force.
    pub replication_factor: Option<u64>,
    /// Devices that have a shadow, each with it.
    pub shadows: BTreeMap<String, String>,
}

impl Facts {
    /// What a node replied of `namespace`.
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

    /// What the server printed of `namespace` when it started; nothing if the log does not go back to it.
    pub fn of_start(start: &Start, namespace: &str) -> Self {
        let Some(keys) = start.configuration.get(namespace) else { return Self::default() };
        let last = |key: &str| keys.get(key).and_then(|values| values.last()).map(String::as_str);
        let build = start.build.as_deref().and_then(Build::parse);
        let is_fixed = build.is_some_and(|build| build.fixed_write_block_bytes().is_some());
        Self {
            origin: "the log of the server's start".to_owned(),
            build,
            write_block_bytes: last("write-block-size").and_then(size_bytes),
            // What it does not print is at its default.
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

/// What is wanted.
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
    /// There is no log.
    #[error("there is no server log to size from: sizes of records are logged and nowhere else - give --log FILE")]
    NoLog,
    /// It logs no sizes.
    #[error(
        "{log}: has no histogram of the sizes that namespace {namespace} read and wrote (such as \
         {{{namespace}}}-device-read-size) - storage histograms are off: turn them on, and take the log again after some \
         minutes: asadm -e 'enable; manage config namespace {namespace} param enable-benchmarks-storage to true' (or \
         \"flashproof size collect --enable\")"
    )]
    StorageHistogramsOff {
        /// The log.
        log: String,
        /// The namespace.
        namespace: String,
    },
    /// No such namespace.
    #[error("there is no namespace {wanted} - there is {}", .found.join(", "))]
    NoNamespace {
        /// The one.
        wanted: String,
        /// Those that there are.
        found: Vec<String>,
    },
    /// Nothing is stored on devices.
    #[error("{log}: has no drv_ssd line, so no namespace of it is stored on a device - give the log of another node")]
    NoDevices {
        /// The log.
        log: String,
    },
    /// It takes two lines.
    #[error(
        "{log}: {what} was logged fewer than twice from {from} to {to} - the window is too short: take a longer one"
    )]
    TooShort {
        /// The log.
        log: String,
        /// The counter.
        what: String,
        /// Begin of the window.
        from: Timestamp,
        /// Its end.
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
        /// Why.
        error: Box<WindowError>,
        /// Its first report.
        from: Timestamp,
        /// Its last.
        to: Timestamp,
    },
    /// What iostat shows is of something else.
    #[error("node {node}: {error}")]
    Iostat {
        /// The node.
        node: String,
        /// What.
        error: IostatError,
    },
    /// iostat of which node?
    #[error("--iostat {wanted}=...: there is no such node - there is {}", .found.join(", "))]
    NoNode {
        /// The one.
        wanted: String,
        /// Those that there are.
        found: Vec<String>,
    },
}
