//! The load of a cluster on its devices, as a file with the origin of each number.
//!
//! ```text
//! ServerLog, Iostat, InfoReplies --window--> period --derive--> loads, drives --checks--> Profile
//! ```
//!
//! The main idea: a rate is the difference of a counter between two instants, and all rates are computed in one place.
//! If a number has two sources, the two values are compared. A mismatch becomes a doubt, which is stored with the
//! numbers. The user has to accept all doubts before using the numbers.
//!
//! This file has the consistency checks: each compares two sources of one number, or tests a law of the server's
//! counters.

pub mod counters;
pub mod derive;
pub mod devices;
mod remarks;
pub mod sources;
pub mod window;

pub use window::LoadWindow;

use crate::drive_io::DriveIo;
use crate::server_log::drive_context;
use counters::{BlockRates, mean_bytes};
use serde::{Deserialize, Serialize};

/// Version of the format of `profile.json`.
pub const FORMAT: u32 = 1;

/// A load profile: `profile.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub format: u32,
    /// Program and version that wrote the profile.
    pub tool: String,
    /// Files and servers from which the profile was derived.
    pub sources: Vec<String>,
    pub nodes: Vec<ProfiledNode>,
    pub loads: Vec<DeviceLoad>,
    pub drives: Vec<DriveTarget>,
    pub checks: Vec<ProfileCheck>,
    #[serde(default)]
    pub unconfirmed: Vec<Unconfirmed>,
    /// Indexes on flash, whose devices are not among the drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexLoad>,
    pub assumptions: Vec<String>,
    /// Oddities of the sources that do not make the numbers unreliable.
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfiledNode {
    /// Node id; without an id, the name of the node's log.
    pub id: String,
    pub build: Option<String>,
    pub window: LoadWindow,
}

/// The load of one namespace on one device of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceLoad {
    pub node: String,
    pub namespace: String,
    /// The device as the server names it: `/dev/nvme0n1p1`.
    pub device: String,
    /// The device's drive, as iostat names it: `nvme0n1`.
    pub drive: String,
    /// Record reads per second that reached the device, including the reads of updates.
    pub reads_per_sec: f64,
    /// Percentage of these reads that have at least 2^i bytes.
    pub read_sizes_pct_over: Vec<f64>,
    /// Records written per second, including replicas.
    pub writes_per_sec: f64,
    /// Percentage of the records written that have at least 2^i bytes.
    pub write_sizes_pct_over: Vec<f64>,
    /// Client reads per second at this node, of the whole namespace; `None`: not logged.
    pub client_reads_per_sec: Option<f64>,
    /// Client writes per second at this node, of the whole namespace; `None`: not logged.
    pub client_writes_per_sec: Option<f64>,
    /// Bytes of a write block: the unit of free space, of defragmentation and of the server's counters.
    pub write_block_bytes: u64,
    /// Bytes of a large-block I/O: a whole write block, or `flush-size` from server version 7.1 on.
    pub large_block_bytes: u64,
    pub large_block_reads_per_sec: f64,
    /// Large-block writes per second, including defragmentation's.
    pub large_block_writes_per_sec: f64,
    /// With commit-to-device: write blocks filled per second, in large-block I/Os. Only those of defragmentation are
    /// large-block writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_filled_per_sec: Option<f64>,
    /// Large-block reads per second by the tomb raider, which `large_block_reads_per_sec` does not contain.
    #[serde(default)]
    pub tomb_raider_reads_per_sec: f64,
    /// Large-block writes per second by defragmentation alone; `None`: not logged.
    pub defrag_writes_per_sec: Option<f64>,
    /// Write blocks freed without being read, in large-block I/Os per second; `None`: the log level of drv_ssd
    /// was not detail.
    pub direct_frees_per_sec: Option<f64>,
    /// Flushes of blocks that were not full, per second; `None`: not logged.
    pub partial_flushes_per_sec: Option<f64>,
    /// True if each record is written on its own.
    pub commit_to_device: bool,
    /// True if the records are in memory (storage-engine memory), and the device is only written to.
    #[serde(default)]
    pub is_memory: bool,
    /// True if the log has no histograms of sizes: reads and writes of records are unknown, not 0.
    #[serde(default)]
    pub is_records_unknown: bool,
    /// Bytes of live records on the device.
    pub used_bytes: Option<u64>,
    pub replication_factor: Option<u64>,
    pub origin: LoadOrigin,
}

/// Origins of the numbers of a [`DeviceLoad`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadOrigin {
    pub reads: String,
    pub writes: String,
    pub sizes: String,
    pub large_block: String,
    pub large_block_reads: String,
    pub large_block_writes: String,
    pub direct_frees: String,
}

impl DeviceLoad {
    /// True for the load on a shadow device, which the server only writes.
    pub fn is_shadow(&self) -> bool {
        self.origin.reads == devices::SHADOW_IS_NOT_READ
    }

    /// Namespace and device, as checks name them.
    pub fn place(&self) -> String {
        format!("{{{}}} {}", self.namespace, self.device)
    }

    /// Write blocks filled per second, in large-block I/Os, including those of defragmentation.
    pub fn filled_per_sec(&self) -> f64 {
        self.blocks_filled_per_sec
            .unwrap_or(self.large_block_writes_per_sec)
    }

    pub fn tomb_raider_io(&self) -> DriveIo {
        let reads = self.tomb_raider_reads_per_sec;
        DriveIo::from([
            reads,
            0.0,
            reads * self.large_block_bytes as f64 / 1024.0,
            0.0,
        ])
    }

    /// I/O that the load causes on its drive. The mean size of reads is `read_factor` times the lower edge of their
    /// buckets; a `read_factor` of 1 is the paper's rule. The mean size of committed records is the upper edge of their
    /// buckets.
    pub fn io(&self, read_factor: f64) -> DriveIo {
        let commits = if self.commit_to_device {
            self.writes_per_sec
        } else {
            0.0
        };
        let large_kib = self.large_block_bytes as f64 / 1024.0;
        let large_reads = self.large_block_reads_per_sec + self.tomb_raider_reads_per_sec;
        let (read_bytes, _) = mean_bytes(&self.read_sizes_pct_over);
        let (_, bytes_written) = mean_bytes(&self.write_sizes_pct_over);
        DriveIo {
            reads_per_sec: self.reads_per_sec + large_reads,
            writes_per_sec: commits + self.large_block_writes_per_sec,
            read_kib_per_sec: self.reads_per_sec * read_bytes * read_factor / 1024.0
                + large_reads * large_kib,
            written_kib_per_sec: commits * bytes_written / 1024.0
                + self.large_block_writes_per_sec * large_kib,
        }
    }
}

/// I/O that reached a drive of one node, all namespaces together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriveTarget {
    pub node: String,
    /// For example `nvme0n1`.
    pub drive: String,
    /// Derived from the server's own counts.
    pub predicted: DriveIo,
    pub iostat: Option<DriveIo>,
    /// Loads of namespaces that were not requested, on this drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<DeviceLoad>,
}

impl DriveTarget {
    /// Target for a test of one drive with this load: iostat's numbers, else the predicted numbers.
    pub fn io(&self) -> DriveIo {
        self.iostat.unwrap_or(self.predicted)
    }
}

/// A predicted number of a drive that has only one source, so that nothing shows whether the number is right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unconfirmed {
    pub node: String,
    pub drive: String,
    /// iostat's name of the number.
    pub what: String,
    pub value: f64,
}

/// A primary or secondary index on flash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexLoad {
    pub node: String,
    pub namespace: String,
    pub is_secondary: bool,
    /// Mount points of the index's devices; empty: not logged.
    pub mounts: Vec<String>,
    /// Client reads per second at this node; `None`: not logged.
    pub reads_per_sec: Option<f64>,
    /// Records written per second at this node, including replicas; `None`: not logged.
    pub writes_per_sec: Option<f64>,
    /// `defrag-lwm-pct` of the namespace; `None`: not logged.
    pub defrag_lwm_pct: Option<u32>,
}

impl IndexLoad {
    /// Reads and writes per second for an index test. `None`: a secondary index, rates that are not logged, or no load.
    pub fn transactions(&self) -> Option<[f64; 2]> {
        let rates = [self.reads_per_sec?, self.writes_per_sec?];
        (!self.is_secondary && rates.iter().sum::<f64>() > 0.0).then_some(rates)
    }
}

/// Two numbers that must agree, or one number that must lie in a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileCheck {
    pub node: String,
    /// A drive, or a namespace on a device.
    pub place: String,
    /// Quantity compared: `writes/s`.
    pub what: String,
    /// Expected value and its source: `defrag-read + direct-frees - growth of free-wblocks`.
    pub against: String,
    /// Value found, per second.
    pub found: f64,
    /// Lower end of the expected range.
    pub least: f64,
    /// Upper end of the expected range.
    pub most: f64,
    /// Allowed deviation, percent of the expected value.
    pub allowed_pct: f64,
    /// Why the numbers may differ, and what to do.
    pub advice: String,
}

impl ProfileCheck {
    /// Two numbers of a namespace on a device that must be equal. The caller adds tolerance and texts.
    fn equal(load: &DeviceLoad, what: &str, found: f64, requested: f64) -> Self {
        Self {
            node: load.node.clone(),
            place: load.place(),
            what: what.to_owned(),
            against: String::new(),
            found,
            least: requested,
            most: requested,
            allowed_pct: 0.0,
            advice: String::new(),
        }
    }

    /// Distance of `found` from the expected range, percent of the nearer end; 0 within, negative below.
    pub fn residue_pct(&self) -> f64 {
        let nearest = self.found.min(self.most).max(self.least);
        match self.found - nearest {
            0.0 => 0.0,
            // A check with a number that is NaN or infinite always fails.
            off if !off.is_finite() => f64::INFINITY,
            off if nearest == 0.0 => 100.0_f64.copysign(off),
            off => off / nearest.abs() * 100.0,
        }
    }

    pub fn holds(&self) -> bool {
        self.residue_pct().abs() <= self.allowed_pct
    }
}

impl Profile {
    /// All loads on `drive`, including namespaces that were not requested.
    pub fn loads_on<'a>(&'a self, drive: &'a DriveTarget) -> impl Iterator<Item = &'a DeviceLoad> {
        let on = |load: &&DeviceLoad| load.node == drive.node && load.drive == drive.drive;
        self.loads.iter().filter(on).chain(&drive.others)
    }

    /// Reasons not to use the numbers as they are; empty if all checks balance and nothing was assumed.
    pub fn doubts(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !check.holds()).map(|check| {
            let ProfileCheck { node, place, what, against, found, least, most, allowed_pct, advice } = check;
            let off_pct = check.residue_pct();
            let most = if least == most { String::new() } else { format!(" to {most:.1}") };
            format!(
                "node {node}, {place}: {what}: {found:.1} is {off_pct:+.1} % off {against} ({least:.1}{most}), allowed \
                 {allowed_pct} % - {advice}"
            )
        });
        self.assumptions.iter().cloned().chain(failed).collect()
    }
}

/// Allowed difference between two counters of the server, percent: their lines are seconds apart.
const COUNTERS_PCT: f64 = 3.0;

/// Allowed difference between the server's counters and iostat's, percent. Measured servers differed by 0.3 %.
const IOSTAT_PCT: f64 = 2.0;

/// Name of the check that compares the writes of a device's histogram with its drive lines.
const WRITES: &str = "writes/s";

/// Blocks that may fall outside a window at its ends, because the lines of two counters have different times.
const EDGE_BLOCKS: f64 = 5.0;

/// Checks of one namespace on one device. `ios_a_block`: I/Os per write block of drv_ssd. `reads`: rates from the
/// device's own histogram and from the histogram of sizes. `lbr`, `writes`: rates from the device's own histograms.
fn of_device(
    load: &DeviceLoad,
    blocks: &BlockRates,
    ios_a_block: f64,
    reads: Option<[f64; 2]>,
    lbr: Option<f64>,
    writes: Option<f64>,
) -> Vec<ProfileCheck> {
    // If a window has few blocks, the blocks that fall outside the window at its ends matter.
    let edge = EDGE_BLOCKS / blocks.seconds;
    let of_blocks = |found: f64, requested: f64| match requested {
        0.0 if found <= edge => 100.0,
        requested => COUNTERS_PCT.max(if requested > 0.0 {
            edge / requested * 100.0
        } else {
            0.0
        }),
    };
    let mut checks = Vec::new();
    if let Some(direct_frees) = blocks.direct_frees {
        let freed = blocks.defrag_reads + direct_frees - blocks.free_wblocks;
        checks.push(ProfileCheck {
            against: "defrag-read + direct-frees - growth of free-wblocks".to_owned(),
            allowed_pct: of_blocks(blocks.writes, freed),
            advice: "the cluster was not in a steady state: take a window in which defragmentation keeps up with writes"
                .to_owned(),
            ..ProfileCheck::equal(load, "write blocks/s", blocks.writes, freed)
        });
    }
    if let Some([found, requested]) = reads {
        checks.push(ProfileCheck {
            against: "the histogram of sizes".to_owned(),
            allowed_pct: COUNTERS_PCT,
            advice: "the two histograms count the same reads: choose a window in which both were on all the time"
                .to_owned(),
            ..ProfileCheck::equal(load, "record reads/s", found, requested)
        });
    }
    let driver = drive_context(load.is_memory);
    let writes = writes.filter(|_| !load.commit_to_device);
    for (what, action, found, blocks) in [
        ("large-block reads/s", "read", lbr, blocks.blocks_read()),
        (WRITES, "written", writes, blocks.writes),
    ] {
        let Some(found) = found else {
            continue;
        };
        checks.push(ProfileCheck {
            against: format!("{driver}'s blocks {action}, in I/Os"),
            allowed_pct: of_blocks(found / ios_a_block, blocks),
            advice: "the assumed size of a write block or a flush does not match the log: give --flush-size or --write-block-size"
                .to_owned(),
            ..ProfileCheck::equal(load, what, found, blocks * ios_a_block)
        });
    }
    checks
}

/// Compares the four predicted numbers of a drive with iostat's. `partly`: iostat covers only part of the window.
fn of_drive(target: &DriveTarget, loads: &[&DeviceLoad], partly: bool) -> Vec<ProfileCheck> {
    let Some(iostat_io) = target.iostat else {
        return Vec::new();
    };
    let predicted = target.predicted;
    let advice = if partly {
        "iostat covers only part of the window: give its complete output, or a window within its time (--from, --to)"
    } else {
        "another program used the drive, or iostat is of another drive, node or time (--iostat-zone)"
    };
    let check = |what: &str, against: &str, found: f64, [least, most]: [f64; 2]| ProfileCheck {
        node: target.node.clone(),
        place: target.drive.clone(),
        what: format!("iostat's {what}"),
        against: against.to_owned(),
        found,
        least,
        most,
        allowed_pct: IOSTAT_PCT,
        advice: advice.to_owned(),
    };
    // KiB read with all read sizes at the lower edges of their buckets, and at the upper edges.
    let read_kib = [1.0, 2.0].map(|factor| {
        loads
            .iter()
            .map(|load| load.io(factor).read_kib_per_sec)
            .sum()
    });
    let commits = loads.iter().any(|load| load.commit_to_device);
    // With commit-to-device, only the bucket of each written record's size is known.
    let written = predicted.written_kib_per_sec;
    let written_min = if commits { written / 2.0 } else { written };
    // Other programs read and write a little on any drive.
    let is_idle = |seen: f64, predicted: f64| predicted == 0.0 && seen < 1.0;
    let idle = [
        is_idle(iostat_io.reads_per_sec, predicted.reads_per_sec),
        is_idle(iostat_io.writes_per_sec, predicted.writes_per_sec),
    ];
    let reads_text = if loads
        .iter()
        .any(|load| load.tomb_raider_reads_per_sec > 0.0)
    {
        "record reads + large-block reads + the tomb raider's reads"
    } else {
        "record reads + large-block reads"
    };
    let checks = [
        check(
            "r/s",
            reads_text,
            iostat_io.reads_per_sec,
            [predicted.reads_per_sec; 2],
        ),
        check(
            "w/s without flushes",
            "writes of the server",
            iostat_io.writes_per_sec,
            [predicted.writes_per_sec; 2],
        ),
        check(
            "rkB/s",
            "sizes of reads at the edges of their buckets",
            iostat_io.read_kib_per_sec,
            read_kib,
        ),
        check(
            "wkB/s",
            "large-block writes x their size",
            iostat_io.written_kib_per_sec,
            [written_min, written],
        ),
    ];
    checks
        .into_iter()
        .enumerate()
        .filter(|(n, _)| !idle[n % 2])
        .map(|(_, check)| check)
        .collect()
}
