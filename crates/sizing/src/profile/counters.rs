//! Growth of cumulative counters within a window, and the resulting rates.
//!
//! This module also finds the size of a write block, and of the I/O that moves a block: the factors of all block
//! counts.
//!
//! Up to server version 7.0, both sizes are `write-block-size`. From version 7.1 on, a write block is always 8 MiB,
//! every counter of drv_ssd counts such blocks, and the device sees I/Os of `flush-size` (1 MiB if not set). Both sizes
//! are in a server's configuration, and in its log if the log goes back to the server's start. Otherwise they are
//! derived from two counters of the same quantity, or from iostat.

use super::sources::NamespaceFacts;
use super::window::LoadWindow;
use crate::info::{Build, DEFAULT_BLOCK_BYTES, FIXED_BLOCK_BYTES};
use crate::server_log::clock_steps::is_between;
use crate::server_log::{DriveLine, Dump, ServerLog, are_in_memory, drive_context};
use jiff::Timestamp;
use results::format;

/// The first and the last sample of each stretch of `window` between clock `steps`, and the seconds that these pairs
/// cover together. `None`: no two samples have different times.
fn ends<'a, S>(
    samples: &'a [S],
    time_of: fn(&S) -> Timestamp,
    window: LoadWindow,
    steps: &[Timestamp],
) -> Option<(Vec<(&'a S, &'a S)>, f64)> {
    let first_index = samples.partition_point(|sample| time_of(sample) < window.from);
    let end_index = samples.partition_point(|sample| time_of(sample) <= window.to);
    let runs = samples
        .get(first_index..end_index)?
        .chunk_by(|one, next| !is_between(steps, time_of(one), time_of(next)));
    let ends: Vec<(&S, &S)> = runs
        .filter_map(|run| Some((run.first()?, run.last()?)))
        .collect();
    let seconds = ends
        .iter()
        .map(|(first, last)| time_of(last).duration_since(time_of(first)).as_secs_f64())
        .sum();
    (seconds > 0.0).then_some((ends, seconds))
}

/// Growth of a counter between the lines of each pair; `None` if a line lacks the counter.
fn growth(
    pairs: &[(&DriveLine, &DriveLine)],
    counter: fn(&DriveLine) -> Option<u64>,
) -> Option<f64> {
    pairs
        .iter()
        .map(|(first, last)| Some(counter(last)? as f64 - counter(first)? as f64))
        .sum()
}

#[derive(Debug, Clone, PartialEq)]
pub struct HistogramCounts {
    pub count: u64,
    /// Time in which the values were counted, seconds.
    pub seconds: f64,
    pub buckets: Vec<u64>,
}

impl HistogramCounts {
    /// Growth between the first and the last dump within `window`, except across clock `steps`; `None` with fewer than
    /// two dumps, or if counts went back.
    pub fn from_dumps(dumps: &[Dump], window: LoadWindow, steps: &[Timestamp]) -> Option<Self> {
        let (pairs, seconds) = ends(dumps, |dump| dump.timestamp, window, steps)?;
        let longest = pairs
            .iter()
            .map(|(_, last)| last.buckets.len())
            .max()
            .unwrap_or(0);
        let mut count = 0;
        let mut buckets = vec![0; longest];
        for (first, last) in pairs {
            count += last.total.checked_sub(first.total)?;
            for (bucket, grown) in buckets.iter_mut().enumerate() {
                let at = |dump: &Dump| dump.buckets.get(bucket).copied().unwrap_or(0);
                *grown += at(last).checked_sub(at(first))?;
            }
        }
        Some(Self {
            count,
            seconds,
            buckets,
        })
    }

    pub fn per_sec(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// The counts of the histogram `name`, as a source of a rate.
    pub(super) fn origin(&self, name: &str) -> String {
        format!("{name}: {} in {:.0} s", self.count, self.seconds)
    }

    /// Percentages of values of at least 2^i, from i = 0 to the first percentage of 0. Empty if nothing was counted.
    pub fn pct_over(&self) -> Vec<f64> {
        let total: u64 = self.buckets.iter().sum();
        if total == 0 {
            return Vec::new();
        }
        let over = |bucket: usize| self.buckets.iter().skip(bucket + 1).sum::<u64>();
        let shares =
            (0..self.buckets.len()).map(|bucket| over(bucket) as f64 / total as f64 * 100.0);
        let end = self
            .buckets
            .iter()
            .rposition(|count| *count > 0)
            .unwrap_or(0);
        shares.take(end + 1).collect()
    }
}

/// Growth of a drv_ssd line's counters, in write blocks per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BlockRates {
    pub seconds: f64,
    /// Blocks written, including defragmentation's writes.
    pub writes: f64,
    /// Blocks queued for defragmentation.
    pub defrag_reads: f64,
    pub defrag_writes: Option<f64>,
    /// Growth of the queue for defragmentation.
    pub defrag_q: f64,
    /// Blocks that were queued and found empty; `None`: not logged.
    pub io_skips: Option<f64>,
    /// Blocks freed without being queued.
    pub direct_frees: Option<f64>,
    /// Flushes of blocks that were not full.
    pub partial_flushes: Option<f64>,
    /// Growth of the number of free blocks.
    pub free_wblocks: f64,
    pub tomb_raider_reads: f64,
    /// True if defragmentation reads from memory.
    pub is_memory: bool,
}

impl BlockRates {
    /// Growth between the first and the last line within `window`, except across steps of the clock. For a single line
    /// in a log of averages: the rates that the line prints for the last 20 s.
    pub fn from_lines(lines: &[DriveLine], window: LoadWindow, log: &ServerLog) -> Option<Self> {
        let Some((pairs, seconds)) = ends(lines, |line| line.timestamp, window, &log.clock_steps)
        else {
            let mut inside = lines.iter().filter(|line| window.contains(line.timestamp));
            return inside
                .next()
                .filter(|_| log.is_averages && inside.next().is_none())
                .map(Self::printed);
        };
        let rate_of = |of: fn(&DriveLine) -> Option<u64>| Some(growth(&pairs, of)? / seconds);
        Some(Self {
            seconds,
            writes: rate_of(|line| Some(line.writes))?,
            defrag_reads: rate_of(|line| Some(line.defrag_reads))?,
            defrag_writes: rate_of(|line| line.defrag_writes),
            defrag_q: rate_of(|line| Some(line.defrag_q))?,
            io_skips: rate_of(|line| Some(line.detail?.defrag_io_skips)),
            direct_frees: rate_of(|line| Some(line.detail?.direct_frees)),
            partial_flushes: rate_of(|line| {
                let detail = line.detail?;
                Some(detail.partial_writes? + detail.defrag_partial_writes.unwrap_or(0))
            }),
            free_wblocks: rate_of(|line| Some(line.free_wblocks))?,
            tomb_raider_reads: tomb_raider_reads(lines, window, &log.clock_steps),
            is_memory: are_in_memory(lines),
        })
    }

    fn printed(line: &DriveLine) -> Self {
        let printed = line.printed;
        Self {
            seconds: 20.0,
            writes: printed.writes,
            defrag_reads: printed.defrag_reads,
            defrag_writes: printed.defrag_writes,
            io_skips: printed.defrag_io_skips,
            direct_frees: printed.direct_frees,
            tomb_raider_reads: printed.tomb_raider_reads,
            is_memory: line.is_memory,
            ..Self::default()
        }
    }

    /// Blocks that defragmentation really read from the device.
    pub fn blocks_read(&self) -> f64 {
        if self.is_memory {
            return 0.0;
        }
        (self.defrag_reads - self.io_skips.unwrap_or(0.0) - self.defrag_q).max(0.0)
    }

    /// Formula of [`Self::blocks_read`] in the names of drv_ssd's counters, for records on a device.
    pub fn how_read(&self) -> &'static str {
        match self.io_skips {
            Some(_) => "defrag-read - defrag-io-skips - growth of defrag-q",
            None => "defrag-read - growth of defrag-q",
        }
    }
}

/// Reads of the tomb raider per second within `window`. Its counter starts again from 0 with each round: the time of
/// such a start is left out, as is time across clock `steps`.
fn tomb_raider_reads(lines: &[DriveLine], window: LoadWindow, steps: &[Timestamp]) -> f64 {
    let pairs = lines.windows(2).map(|pair| (&pair[0], &pair[1]));
    let inside = pairs
        .filter(|(one, next)| window.contains(one.timestamp) && window.contains(next.timestamp));
    let counted = inside.filter(|(one, next)| !is_between(steps, one.timestamp, next.timestamp));
    let mut reads = 0.0;
    let mut seconds = 0.0;
    for (one, next) in counted {
        if let Some(grown) = next.tomb_raider_reads.checked_sub(one.tomb_raider_reads) {
            reads += grown as f64;
            seconds += next.timestamp.duration_since(one.timestamp).as_secs_f64();
        }
    }
    if seconds > 0.0 { reads / seconds } else { 0.0 }
}

/// Two mean sizes from shares over powers of two: with every size at the lower and at the upper edge of its bucket.
/// `pct_over[i]`: percentage of values of at least 2^i bytes. Bucket i: from 2^i to less than 2^(i+1) bytes.
pub fn mean_bytes(pct_over: &[f64]) -> (f64, f64) {
    let next = |i: usize| pct_over.get(i + 1).copied().unwrap_or(0.0);
    let lower: f64 = pct_over
        .iter()
        .enumerate()
        .map(|(i, over)| (over - next(i)) / 100.0 * (1_u64 << i.min(62)) as f64)
        .sum();
    (lower, 2.0 * lower)
}

/// Assumed size of a write block without a configuration, bytes: from the server's sample configuration for SSDs. The
/// server's default is for HDDs.
const BLOCK_BYTES: u64 = 128 << 10;

/// Maximum relative distance of a quotient from the power of two to which it is rounded.
const NEAR: f64 = 0.1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSizes {
    pub block_bytes: u64,
    /// Bytes of the I/O that moves a block, or a part of it.
    pub io_bytes: u64,
    /// Source of the size of an I/O.
    pub origin: String,
    /// Doubt about the sizes: they are assumed, or two sources contradict each other.
    pub assumed: Option<String>,
}

impl BlockSizes {
    /// Sizes that no input states. `setting`: the server's setting for the size of an I/O.
    fn assumed(device: &str, setting: &str, block_bytes: u64, io_bytes: u64) -> Self {
        let size = kib(io_bytes);
        Self {
            block_bytes,
            io_bytes,
            origin: format!("{setting}, assumed"),
            assumed: Some(format!(
                "{device}: {setting} is assumed to be {size} - no input states it: give the log with the server's \
                 start, the server's configuration by --info, or --{setting}"
            )),
        }
    }
}

/// The block sizes of `device`, whose lines have the `key`, from the first source that has them: the user or the
/// server's configuration, the log, iostat, the server's default, an assumption. `kib_written_per_sec`: iostat's value
/// for the device's drive, if nothing else writes there.
pub fn of_device(
    log: &ServerLog,
    device: &str,
    key: &(String, String),
    facts: &NamespaceFacts,
    window: LoadWindow,
    kib_written_per_sec: Option<f64>,
) -> BlockSizes {
    let (namespace, logged_device) = key;
    let lines = log.drives.get(key).map_or(&[][..], Vec::as_slice);
    let blocks_per_sec = BlockRates::from_lines(lines, window, log).map(|blocks| blocks.writes);
    let dumps = log
        .histograms
        .get(&format!("{{{namespace}}}-{device}-write"));
    let io_counts =
        dumps.and_then(|dumps| HistogramCounts::from_dumps(dumps, window, &log.clock_steps));
    let ios_per_sec = io_counts.map(|counted| counted.per_sec());
    // With commit-to-device most writes are records, not parts of blocks.
    let ios_a_block = ios_per_sec
        .zip(blocks_per_sec)
        .filter(|_| facts.commit_to_device != Some(true))
        .and_then(|(ios, blocks)| power_of_two(ios / blocks));
    let start = log.start_of(window);
    let logged = start.and_then(|start| {
        let sizes = &start.write_block_bytes;
        sizes
            .get(device)
            .or_else(|| sizes.get(logged_device))
            .copied()
    });
    // Two sources of a block's size must agree.
    let conflict = match (facts.write_block_bytes, logged) {
        (Some(stated), Some(logged)) if stated != logged => {
            let advice = if logged == FIXED_BLOCK_BYTES {
                "from server version 7.1 on they are always 8 MiB: give --flush-size"
            } else {
                "give the right --write-block-size"
            };
            Some(format!(
                "{device}: write blocks are {} according to {}, but {} according to the log of the server's start \
                 - {advice}",
                kib(stated),
                facts.origin,
                kib(logged)
            ))
        }
        _ => None,
    };
    // True if write blocks are always 8 MiB. The server's version decides. If it is unknown, features of versions from
    // 7.1 on decide: flush-size, logged blocks of 8 MiB, counts of partial writes, several writes per block.
    let is_fixed = match facts
        .build
        .or(start.and_then(|start| Build::parse(start.build.as_deref()?)))
    {
        Some(build) => build.fixed_write_block_bytes().is_some(),
        None => {
            facts.flush_bytes.is_some()
                || logged == Some(FIXED_BLOCK_BYTES)
                || lines
                    .iter()
                    .filter(|line| window.contains(line.timestamp))
                    .filter_map(|line| line.detail)
                    .any(|detail| detail.partial_writes.is_some())
                || ios_a_block.is_some_and(|ios| ios > 1)
        }
    };
    if is_fixed {
        let block_bytes = logged.unwrap_or(FIXED_BLOCK_BYTES);
        let ios_a_block = ios_a_block.filter(|ios| *ios <= block_bytes / 512);
        let (io_bytes, origin) = match (facts.flush_bytes, ios_a_block) {
            (Some(io_bytes), _) => (io_bytes, format!("flush-size, from {}", facts.origin)),
            (None, Some(ios)) => {
                let block = kib(block_bytes);
                let origin = format!(
                    "flush-size: the device's histogram has {ios} writes for each block of {block}"
                );
                (block_bytes / ios, origin)
            }
            (None, None) if facts.are_sizes_unset => {
                (DEFAULT_BLOCK_BYTES, default_origin("flush-size", facts))
            }
            (None, None) => {
                return BlockSizes::assumed(device, "flush-size", block_bytes, DEFAULT_BLOCK_BYTES);
            }
        };
        return BlockSizes {
            block_bytes,
            io_bytes,
            origin,
            assumed: conflict,
        };
    }
    let by_iostat =
        blocks_per_sec.and_then(|blocks| power_of_two(kib_written_per_sec? * 1024.0 / blocks));
    let sources = [
        (
            facts.write_block_bytes,
            format!("write-block-size, from {}", facts.origin),
        ),
        (
            logged,
            "write-block-size, from the log of the server's start".to_owned(),
        ),
        (
            lines.iter().find_map(|line| line.block_bytes),
            "contig-free of the drive line".to_owned(),
        ),
        (
            by_iostat,
            format!(
                "iostat's wkB/s divided by {}'s block writes",
                drive_context(are_in_memory(lines))
            ),
        ),
        (
            // Records in memory have blocks of 8 MiB without the setting (server 7.0).
            (facts.are_sizes_unset && !are_in_memory(lines)).then_some(DEFAULT_BLOCK_BYTES),
            default_origin("write-block-size", facts),
        ),
    ];
    match sources
        .into_iter()
        .find_map(|(bytes, origin)| Some((bytes?, origin)))
    {
        Some((bytes, origin)) => BlockSizes {
            block_bytes: bytes,
            io_bytes: bytes,
            origin,
            assumed: conflict,
        },
        None => BlockSizes::assumed(device, "write-block-size", BLOCK_BYTES, BLOCK_BYTES),
    }
}

/// Origin of a size that the configuration does not set.
fn default_origin(setting: &str, facts: &NamespaceFacts) -> String {
    format!(
        "{setting}: the server's default, not set in {}",
        facts.origin
    )
}

/// The power of two that is within [`NEAR`] of `quotient`.
fn power_of_two(quotient: f64) -> Option<u64> {
    let power = 2_f64.powf(quotient.log2().round());
    ((1.0..=FIXED_BLOCK_BYTES as f64).contains(&power) && (quotient / power - 1.0).abs() <= NEAR)
        .then_some(power as u64)
}

/// A size: `128 KiB`.
pub fn kib(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes % 1024 == 0 => format!("{} KiB", bytes >> 10),
        bytes => format::count(bytes, "byte"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_log::HistogramUnit;

    fn dump(second: i64, buckets: &[u64]) -> Dump {
        let at = Timestamp::from_second(second).unwrap();
        Dump {
            timestamp: at,
            unit: HistogramUnit::Bytes,
            total: buckets.iter().sum(),
            buckets: buckets.to_vec(),
        }
    }

    fn window(from: i64, to: i64) -> LoadWindow {
        LoadWindow {
            from: Timestamp::from_second(from).unwrap(),
            to: Timestamp::from_second(to).unwrap(),
        }
    }

    #[test]
    fn only_counts_within_the_window_are_used() {
        let dumps = [
            dump(0, &[1]),
            dump(10, &[1, 2]),
            dump(20, &[1, 4, 6]),
            dump(30, &[9, 9, 9]),
        ];
        let counted = HistogramCounts::from_dumps(&dumps, window(5, 25), &[]).unwrap();
        assert_eq!(
            counted,
            HistogramCounts {
                count: 8,
                seconds: 10.0,
                buckets: vec![0, 2, 6]
            }
        );
        assert_eq!(counted.per_sec(), 0.8);
        let found = counted.pct_over();
        assert_eq!(found, [100.0, 75.0, 0.0], "at least 1, 2 and 4 bytes");
        let found = HistogramCounts::from_dumps(&dumps, window(5, 15), &[]);
        assert_eq!(found, None, "one dump is no difference");
        let steps = [Timestamp::from_second(15).unwrap()];
        let counted = HistogramCounts::from_dumps(&dumps, window(0, 30), &steps).unwrap();
        assert_eq!(
            (counted.count, counted.seconds),
            (2 + 16, 20.0),
            "counts across the clock step are left out"
        );
        let found = HistogramCounts::from_dumps(&[dump(0, &[5]), dump(9, &[4])], window(0, 9), &[]);
        assert_eq!(found, None, "counts that went back show a restart");
    }

    #[test]
    fn mean_sizes_lie_between_the_edges_of_their_buckets() {
        let found = mean_bytes(&[100.0, 100.0, 50.0, 0.0]);
        assert_eq!(found, (0.5 * 2.0 + 0.5 * 4.0, 6.0));
        assert_eq!(mean_bytes(&[]), (0.0, 0.0));
    }
}
