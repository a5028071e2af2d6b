//! The load of a cluster on its devices, as a file that says where each number came from.
//!
//! ```text
//! ServerLog, Iostat, InfoReplies --window--> when --derive--> loads, drives --checks--> Profile
//! ```
//!
//! The one idea: rates are differences of counters between two instants, made in one place, and whatever two
//! sources both know is compared. What does not agree is a doubt that stays with the numbers: who reads
//! the file has to accept it before using them.
//!
//! * [`sources`]: what there is, and what is wanted
//! * [`window`]: from when to when the load was steady
//! * [`counters`]: differences within a window
//! * [`blocks`]: how large a write block is, and the I/O that moves it
//! * [`derive`]: the load of each device from all that was read
//! * [`seen`]: what iostat showed in that time
//! * [`checks`]: what has to balance

pub mod blocks;
pub mod checks;
pub mod counters;
pub mod derive;
pub mod seen;
pub mod sources;
pub mod window;

use crate::drive_io::DriveIo;
use counters::mean_bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the format of `profile.json`.
pub const FORMAT: u32 = 1;

/// A load profile: `profile.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of this format; the present one is [`FORMAT`].
    pub format: u32,
    /// Program and version that made it.
    pub tool: String,
    /// Files and servers that it was made from.
    pub sources: Vec<String>,
    /// Nodes, and when each was looked at.
    pub nodes: Vec<Node>,
    /// The load of each namespace on each of its devices.
    pub loads: Vec<DeviceLoad>,
    /// What reached each drive.
    pub drives: Vec<DriveTarget>,
    /// What had to balance, and by how much it did not.
    pub checks: Vec<Check>,
    /// What had to be assumed, each a sentence.
    pub assumptions: Vec<String>,
    /// What was strange in the sources, each a sentence; nothing that puts the numbers in doubt.
    pub remarks: Vec<String>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its id, or the name of its log where that has none.
    pub id: String,
    /// Version of its server.
    pub build: Option<String>,
    /// Where its numbers are from.
    pub window: Window,
}

/// From when to when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its begin.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

impl Window {
    /// Its length, seconds.
    pub fn seconds(&self) -> f64 {
        self.to.duration_since(self.from).as_secs_f64()
    }

    /// Whether `at` is in it, its ends included.
    pub fn contains(&self, at: Timestamp) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// The load of one namespace on one device of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceLoad {
    /// Id of the node.
    pub node: String,
    /// The namespace.
    pub namespace: String,
    /// The device as the server names it: `/dev/nvme0n1p1`.
    pub device: String,
    /// The drive that it is on, as iostat names it: `nvme0n1`.
    pub drive: String,
    /// Record reads a second that reached the device, those of updates included.
    pub reads_per_sec: f64,
    /// Percentage of these reads of at least 2^i bytes.
    pub read_sizes_pct_over: Vec<f64>,
    /// Records written a second, replicas' included.
    pub writes_per_sec: f64,
    /// Percentage of records written of at least 2^i bytes.
    pub write_sizes_pct_over: Vec<f64>,
    /// Reads that clients asked this node for, a second, of the whole namespace; `None`: not told.
    pub client_reads_per_sec: Option<f64>,
    /// Writes that clients asked this node for, likewise.
    pub client_writes_per_sec: Option<f64>,
    /// Bytes of a write block: the unit of free space, of defragmentation and of the server's counters.
    pub write_block_bytes: u64,
    /// Bytes of a large-block I/O: that of a write block, or flush-size from 7.1 on.
    pub large_block_bytes: u64,
    /// Large-block reads a second.
    pub large_block_reads_per_sec: f64,
    /// Large-block writes a second, defragmentation's included.
    pub large_block_writes_per_sec: f64,
    /// Of these, defragmentation's; `None`: not told.
    pub defrag_writes_per_sec: Option<f64>,
    /// Write blocks freed without being read, in large-block I/Os a second; `None`: drv_ssd was not at detail.
    pub direct_frees_per_sec: Option<f64>,
    /// Flushes of blocks that were not full, a second; `None`: not told.
    pub partial_flushes_per_sec: Option<f64>,
    /// Whether each record is written by itself.
    pub commit_to_device: bool,
    /// Bytes of records on it.
    pub used_bytes: Option<u64>,
    /// Copies of a record in the cluster; `None`: not told.
    pub replication_factor: Option<u64>,
    /// Where the numbers came from.
    pub origin: Origin,
}

/// Where the numbers of a [`DeviceLoad`] came from, each a phrase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Record reads.
    pub reads: String,
    /// Records written.
    pub writes: String,
    /// Sizes of both.
    pub sizes: String,
    /// Size of large-block I/Os.
    pub large_block: String,
    /// Large-block reads.
    pub large_block_reads: String,
    /// Large-block writes.
    pub large_block_writes: String,
    /// Direct frees.
    pub direct_frees: String,
}

impl DeviceLoad {
    /// What it makes of its drive, where a read is `read_factor` times as large as the lower edge of its bucket, and a
    /// write as large as the upper edge: with 1 the paper's rule.
    pub fn io(&self, read_factor: f64) -> DriveIo {
        let commits = if self.commit_to_device { self.writes_per_sec } else { 0.0 };
        let large_kib = self.large_block_bytes as f64 / 1024.0;
        let (read_bytes, _) = mean_bytes(&self.read_sizes_pct_over);
        let (_, written_bytes) = mean_bytes(&self.write_sizes_pct_over);
        DriveIo {
            reads_per_sec: self.reads_per_sec + self.large_block_reads_per_sec,
            writes_per_sec: commits + self.large_block_writes_per_sec,
            read_kib_per_sec: self.reads_per_sec * read_bytes * read_factor / 1024.0
                + self.large_block_reads_per_sec * large_kib,
            written_kib_per_sec: commits * written_bytes / 1024.0 + self.large_block_writes_per_sec * large_kib,
        }
    }
}

/// What reached a drive of one node, all namespaces together.
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
    /// Loads on it of namespaces that were not asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<DeviceLoad>,
}

impl DriveTarget {
    /// What a test of such a drive has to meet: what iostat showed, or what was predicted.
    pub fn io(&self) -> DriveIo {
        self.iostat.unwrap_or(self.predicted)
    }
}

/// Two numbers that have to be the same, or one that has to lie in a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Id of the node.
    pub node: String,
    /// Where: a drive, or a namespace on a device.
    pub place: String,
    /// What is compared: `writes/s`.
    pub what: String,
    /// What has to be met, and from where: `defrag-read + direct-frees - change of free-wblocks`.
    pub against: String,
    /// What was found, a second.
    pub found: f64,
    /// The least that it should be.
    pub least: f64,
    /// The most that it should be.
    pub most: f64,
    /// How far outside it may lie, percent of what it should be.
    pub allowed_pct: f64,
    /// Why they may differ and what to do about it, a sentence.
    pub advice: String,
}

impl Check {
    /// By how much `found` lies outside, percent of what it should be; 0 within, negative below.
    pub fn residue_pct(&self) -> f64 {
        let nearest = self.found.min(self.most).max(self.least);
        match self.found - nearest {
            0.0 => 0.0,
            // What is no number balances with nothing.
            off if !off.is_finite() => f64::INFINITY,
            off if nearest == 0.0 => 100.0_f64.copysign(off),
            off => off / nearest.abs() * 100.0,
        }
    }

    /// Whether it balances.
    pub fn holds(&self) -> bool {
        self.residue_pct().abs() <= self.allowed_pct
    }
}

impl Profile {
    /// All loads on `drive`, those of namespaces that were not asked for included.
    pub fn loads_on<'a>(&'a self, drive: &'a DriveTarget) -> impl Iterator<Item = &'a DeviceLoad> {
        let on = |load: &&DeviceLoad| load.node == drive.node && load.drive == drive.drive;
        self.loads.iter().filter(on).chain(&drive.others)
    }

    /// Why its numbers are not to be used as they are, each a sentence; none: they balance.
    pub fn doubts(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !check.holds()).map(|check| {
            let Check { node, place, what, against, advice, .. } = check;
            format!(
                "node {node}, {place}: {what}: {:.1} is {:+.1} % off {against} ({}), allowed {} % - {advice}",
                check.found,
                check.residue_pct(),
                if check.least == check.most {
                    format!("{:.1}", check.least)
                } else {
                    format!("{:.1} to {:.1}", check.least, check.most)
                },
                check.allowed_pct,
            )
        });
        self.assumptions.iter().cloned().chain(failed).collect()
    }
}
