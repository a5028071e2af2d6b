//! The load of a cluster on its devices, as a file that says where each number came from.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What reaches a drive, as iostat counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveIo {
    /// Reads a second.
    #[serde(rename = "r/s")]
    pub reads_per_sec: f64,
    /// Writes a second, without flushes.
    #[serde(rename = "w/s")]
    pub writes_per_sec: f64,
    /// KiB read a second.
    #[serde(rename = "rkB/s")]
    pub read_kib_per_sec: f64,
    /// KiB written a second.
    #[serde(rename = "wkB/s")]
    pub written_kib_per_sec: f64,
}

/// A load profile: `profile.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of this format; the present one is [`FORMAT`].
    pub format: u32,
    /// Program and version that made it.
    pub tool: String,
    /// Files and servers that it was made from.
    pub sources: Vec<String>,
    /// Where the numbers are from: the first and the last instant.
    pub window: Window,
    /// The load of each namespace on each of its devices.
    pub loads: Vec<DeviceLoad>,
    /// What reached each drive.
    pub drives: Vec<DriveTarget>,
    /// What had to balance, and by how much it did not.
    pub checks: Vec<Check>,
}

/// Version of the format.
pub const FORMAT: u32 = 1;

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its begin.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

/// The load of one namespace on one device of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceLoad {
    /// Id of the node.
    pub node: String,
    /// The namespace.
    pub namespace: String,
    /// The device as the server names it: `/dev/nvme0n1p1`.
    pub device: String,
    /// The drive that it is on: `nvme0n1`.
    pub drive: String,
    /// Record reads a second, updates' included.
    pub reads_per_sec: f64,
    /// Percentage of reads over 2^i bytes.
    pub read_sizes_pct_over: Vec<f64>,
    /// Records written a second, replicas' included.
    pub writes_per_sec: f64,
    /// Percentage of records written over 2^i bytes.
    pub write_sizes_pct_over: Vec<f64>,
    /// Large-block I/Os: size, bytes.
    pub large_block_bytes: u64,
    /// Large-block reads a second.
    pub large_block_reads_per_sec: f64,
    /// Large-block writes a second, defragmentation's included.
    pub large_block_writes_per_sec: f64,
    /// Large blocks a second that were freed without a read.
    pub direct_frees_per_sec: f64,
    /// Whether each record is written by itself.
    pub commit_to_device: bool,
    /// Bytes of records on it.
    pub used_bytes: Option<u64>,
}

/// What reached a drive of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriveTarget {
    /// Id of the node.
    pub node: String,
    /// The drive: `nvme0n1`.
    pub drive: String,
    /// What follows from the server's own counts.
    pub predicted: DriveIo,
    /// What iostat showed.
    pub iostat: Option<DriveIo>,
}

/// Two numbers that have to be the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was compared, where.
    pub name: String,
    /// The one.
    pub left: f64,
    /// The other.
    pub right: f64,
    /// Largest difference that is allowed, percent of the larger one.
    pub allowed_pct: f64,
    /// Why they may differ, a sentence, where they do.
    pub reason: Option<String>,
}

impl DriveTarget {
    /// What a test of such a drive has to meet: what iostat showed, or what was predicted.
    pub fn io(&self) -> DriveIo {
        self.iostat.unwrap_or(self.predicted)
    }
}

impl Check {
    /// By how much the two differ, in percent of the larger one.
    pub fn off_pct(&self) -> f64 {
        let larger = self.left.abs().max(self.right.abs());
        if larger > 0.0 { (self.left - self.right).abs() / larger * 100.0 } else { 0.0 }
    }

    /// Whether they are as near to each other as they have to be. What is no number is near to nothing.
    pub fn holds(&self) -> bool {
        self.off_pct() <= self.allowed_pct
    }
}

impl Profile {
    /// What did not balance, each a sentence: with any of these a profile is not to be used in silence.
    pub fn doubts(&self) -> Vec<String> {
        let doubt = |check: &Check| {
            let Check { name, left, right, allowed_pct, reason } = check;
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let off_pct = check.off_pct();
            format!("{name}: {left:.1} and {right:.1} differ by {off_pct:.1} %, and {allowed_pct} % is allowed{reason}")
        };
        self.checks.iter().filter(|check| !check.holds()).map(doubt).collect()
    }
}
