//! Size of a write block, and of the I/O that moves it: the factors of all block counts.
//!
//! Up to 7.0 both are `write-block-size`. From 7.1 a write block is always 8 MiB, every counter of drv_ssd is of such
//! blocks, and what reaches the device is `flush-size` (1 MiB if not set). A server's configuration has both, and so
//! has its log if it goes back to the server's start. Otherwise they follow from two counters of the same quantity, or
//! from iostat.

use super::Window;
use super::counters::{Blockwise, Counted};
use super::sources::Facts;
use crate::info::{Build, FIXED_BLOCK_BYTES, FLUSH_BYTES};
use crate::server_log::{DriveLine, ServerLog};
use results::units;

/// A write block where nothing tells it, bytes: what the server's sample configuration for SSDs has.
const BLOCK_BYTES: u64 = 128 << 10;

/// Maximum distance of a quotient from the power of two that it stands for.
const NEAR: f64 = 0.1;

/// Sizes of a device's large blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    pub block_bytes: u64,
    /// Bytes of the I/O that moves it, or a part of it.
    pub io_bytes: u64,
    /// Source of that size.
    pub origin: String,
    /// Assumption made, a sentence.
    pub assumed: Option<String>,
}

/// The blocks of `device`: by what the user says and the server's configuration, then by the log, then by
/// what iostat saw, then by assumption. `kib_written_per_sec` is what iostat showed of the device's drive, if
/// nothing else writes there.
pub fn of_device(
    log: &ServerLog,
    key: &(String, String),
    facts: &Facts,
    window: Window,
    kib_written_per_sec: Option<f64>,
) -> Blocks {
    let (namespace, device) = key;
    let lines = log.drives.get(key).map_or(&[][..], Vec::as_slice);
    let blocks_per_sec = Blockwise::of(lines, window, log).map(|blocks| blocks.writes);
    let ios_per_sec = log
        .histograms
        .get(&format!("{{{namespace}}}-{device}-write"))
        .and_then(|dumps| Counted::of(dumps, window, &log.clock_steps))
        .map(|counted| counted.per_sec());
    let ios_a_block = ios_per_sec.zip(blocks_per_sec).and_then(|(ios, blocks)| power_of_two(ios / blocks));
    let logged = log.start_of(window).and_then(|start| start.write_block_bytes.get(device).copied());
    let told = (facts.write_block_bytes, logged);
    let found = |block_bytes: u64, io_bytes: u64, origin: String| {
        // Two sources of a block's size have to agree.
        let assumed = match told {
            (Some(here), Some(logged)) if here != logged => Some(format!(
                "{device}: write blocks are {} by {}, and {} by the log of the server's start - they cannot be both{}",
                kib(here),
                facts.origin,
                kib(logged),
                if logged == FIXED_BLOCK_BYTES { ": from 7.1 on they are 8 MiB, give --flush-size" } else { "" }
            )),
            _ => None,
        };
        Blocks { block_bytes, io_bytes, origin, assumed }
    };
    let guessed = |block_bytes: u64, io_bytes: u64, what: &str, option: &str| {
        let assumed = Some(format!(
            "{device}: {what} is assumed to be {} - no input states it: give the log with the server's start, the server's \
             configuration by --info, or {option}",
            kib(io_bytes)
        ));
        Blocks { block_bytes, io_bytes, origin: format!("{what} assumed"), assumed }
    };
    if has_fixed_blocks(log, facts, key, window, ios_a_block) {
        let block_bytes = told.1.unwrap_or(FIXED_BLOCK_BYTES);
        return match (facts.flush_bytes, ios_a_block.filter(|ios| *ios <= block_bytes / 512)) {
            (Some(io_bytes), _) => found(block_bytes, io_bytes, format!("flush-size, from {}", facts.origin)),
            (None, Some(ios)) => {
                let block = kib(block_bytes);
                let origin = format!("flush-size: the device's histogram counted {ios} writes a block of {block}");
                found(block_bytes, block_bytes / ios, origin)
            }
            (None, None) => guessed(block_bytes, FLUSH_BYTES, "flush-size", "--flush-size"),
        };
    }
    let by_iostat = blocks_per_sec.and_then(|blocks| power_of_two(kib_written_per_sec? * 1024.0 / blocks));
    match (told, by_iostat) {
        ((Some(bytes), _), _) => found(bytes, bytes, format!("write-block-size, from {}", facts.origin)),
        ((None, Some(bytes)), _) => {
            found(bytes, bytes, "write-block-size, from the log of the server's start".to_owned())
        }
        ((None, None), Some(bytes)) => {
            found(bytes, bytes, "iostat's wkB/s by the blocks that drv_ssd counted".to_owned())
        }
        ((None, None), None) => guessed(BLOCK_BYTES, BLOCK_BYTES, "a write block", "--write-block-size"),
    }
}

/// True if write blocks are 8 MiB whatever is configured: by the version; if unknown, by features that only such
/// servers have: flush-size, counts of partial writes, several writes a block.
fn has_fixed_blocks(
    log: &ServerLog,
    facts: &Facts,
    key: &(String, String),
    window: Window,
    ios_a_block: Option<u64>,
) -> bool {
    let partial = |line: &DriveLine| line.detail.is_some_and(|detail| detail.partial_writes.is_some());
    let start = log.start_of(window);
    match facts.build.or(start.and_then(|start| Build::parse(start.build.as_deref()?))) {
        Some(build) => build.fixed_write_block_bytes().is_some(),
        None => {
            facts.flush_bytes.is_some()
                || start.is_some_and(|start| start.write_block_bytes.get(&key.1) == Some(&FIXED_BLOCK_BYTES))
                || log.drives.get(key).into_iter().flatten().any(|line| window.contains(line.at) && partial(line))
                || (facts.commit_to_device != Some(true) && ios_a_block.is_some_and(|ios| ios > 1))
        }
    }
}

/// The power of two that `quotient` is near to.
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
        bytes => units::count(bytes, "byte"),
    }
}
