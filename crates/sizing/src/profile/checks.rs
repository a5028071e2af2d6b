//! Consistency checks: two sources of the same number, or a law of the server's counters.

use super::counters::Blockwise;
use super::{Check, DeviceLoad, DriveTarget};

/// Allowed difference between two counters of the server, percent: their lines are seconds apart.
const COUNTERS_PCT: f64 = 3.0;

/// Allowed difference between the server's counters and iostat's, percent. On servers that were measured it was 0.3 %.
const IOSTAT_PCT: f64 = 2.0;

/// Blocks that may lie on the other side of a window's ends, where the lines of two counters are not of one instant.
const EDGE_BLOCKS: f64 = 5.0;

/// Counts a device's histograms and drv_ssd lines both have, a second.
pub struct Counters<'a> {
    /// By drv_ssd, in write blocks.
    pub blocks: &'a Blockwise,
    /// I/Os that a write block takes.
    pub ios_a_block: f64,
    /// By the histogram of sizes, of the whole namespace.
    pub reads_of_sizes: f64,
    /// By the device's own histogram, where the namespace has no other device.
    pub device_reads: Option<f64>,
    /// From the device's own histogram, if the namespace has no other device.
    pub device_lbr: Option<f64>,
    /// From the device's own histogram, if the namespace has no other device.
    pub device_writes: Option<f64>,
}

/// Checks of one device of one namespace.
pub fn of_device(load: &DeviceLoad, counters: &Counters) -> Vec<Check> {
    let Counters { blocks, ios_a_block, .. } = counters;
    // A few blocks lie on the other side of a window's ends: of few blocks that is much.
    let edge = EDGE_BLOCKS / blocks.seconds;
    let of_blocks = |found: f64, wanted: f64| match wanted {
        0.0 if found <= edge => 100.0,
        wanted => COUNTERS_PCT.max(if wanted > 0.0 { edge / wanted * 100.0 } else { 0.0 }),
    };
    let mut checks = Vec::new();
    let mut equal = |what: &str, against: &str, found: f64, wanted: f64, allowed_pct: f64, advice: &str| {
        checks.push(Check {
            node: load.node.clone(),
            place: format!("{{{}}} {}", load.namespace, load.device),
            what: what.to_owned(),
            against: against.to_owned(),
            found,
            least: wanted,
            most: wanted,
            allowed_pct,
            advice: advice.to_owned(),
        });
    };
    if let Some(direct_frees) = blocks.direct_frees {
        let freed = blocks.defrag_reads + direct_frees - blocks.free_wblocks;
        equal(
            "write blocks/s",
            "defrag-read + direct-frees - growth of free-wblocks",
            blocks.writes,
            freed,
            of_blocks(blocks.writes, freed),
            "the cluster was not in a steady state: take a window in which defragmentation keeps up with writes",
        );
    }
    if let Some(device_reads) = counters.device_reads {
        let advice = "the device's histogram and that of sizes count the same reads: was one turned on in the window?";
        equal("record reads/s", "the histogram of sizes", device_reads, counters.reads_of_sizes, COUNTERS_PCT, advice);
    }
    if let Some(lbr) = counters.device_lbr {
        let against = "drv_ssd's blocks read, in I/Os";
        let advice = "a write block or a flush is not as large as taken: give --flush-size or --write-block-size";
        equal(
            "large-block reads/s",
            against,
            lbr,
            blocks.blocks_read() * ios_a_block,
            of_blocks(lbr / ios_a_block, blocks.blocks_read()),
            advice,
        );
    }
    if let Some(writes) = counters.device_writes.filter(|_| !load.commit_to_device) {
        let advice = "a write block or a flush is not as large as taken: give --flush-size or --write-block-size";
        equal(
            "writes/s",
            "drv_ssd's blocks written, in I/Os",
            writes,
            blocks.writes * ios_a_block,
            of_blocks(writes / ios_a_block, blocks.writes),
            advice,
        );
    }
    checks
}

/// Checks of a drive with iostat: its four numbers.
///
/// `partly`: iostat did not run all the time.
pub fn of_drive(target: &DriveTarget, loads: &[&DeviceLoad], partly: bool) -> Vec<Check> {
    let Some(seen) = target.iostat else { return Vec::new() };
    let predicted = target.predicted;
    let advice = match partly {
        true => {
            "iostat shows a part of the window only: give all that it printed, or a window within its time (--from, --to)"
        }
        false => "something else used the drive, or iostat is of another drive, node or time (--iostat-zone)",
    };
    let check = |what: &str, against: &str, found: f64, least: f64, most: f64| Check {
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
    // Reads at the lower edges of their buckets, and at the upper ones.
    let [lower, upper] = [1.0, 2.0].map(|factor| loads.iter().map(|load| load.io(factor).read_kib_per_sec).sum());
    let commits = loads.iter().any(|load| load.commit_to_device);
    // Sizes of records are known to their bucket only.
    let (least, most) = match commits {
        true => (predicted.written_kib_per_sec / 2.0, predicted.written_kib_per_sec),
        false => (predicted.written_kib_per_sec, predicted.written_kib_per_sec),
    };
    // Somebody looks at a drive now and then.
    let is_idle = |seen: f64, predicted: f64| predicted == 0.0 && seen < 1.0;
    let idle =
        [is_idle(seen.reads_per_sec, predicted.reads_per_sec), is_idle(seen.writes_per_sec, predicted.writes_per_sec)];
    let checks = [
        check(
            "r/s",
            "record reads + large-block reads",
            seen.reads_per_sec,
            predicted.reads_per_sec,
            predicted.reads_per_sec,
        ),
        check(
            "w/s without flushes",
            "writes of the server",
            seen.writes_per_sec,
            predicted.writes_per_sec,
            predicted.writes_per_sec,
        ),
        check("rkB/s", "sizes of reads at the edges of their buckets", seen.read_kib_per_sec, lower, upper),
        check("wkB/s", "large-block writes x their size", seen.written_kib_per_sec, least, most),
    ];
    checks.into_iter().enumerate().filter(|(n, _)| !idle[n % 2]).map(|(_, check)| check).collect()
}
