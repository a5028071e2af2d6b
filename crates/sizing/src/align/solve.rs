//! The offsets for a target, of what a burst showed.

use super::{Load, Offsets};
use crate::drive_io::DriveIo;
use load::workload::act::options::{Kind, Test};
use load::workload::act::table::find;
use load::workload::act::{ActConfig, SizeWithinBucket};
use std::ops::RangeInclusive;

/// Effect of a device and its kernel on a load: reached divided by requested, for each of the four numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distortion([f64; 4]);

impl Distortion {
    /// Everything reaches it as it was asked.
    pub const NONE: Self = Self([1.0; 4]);

    /// Distortion of a burst. Numbers that were not requested, or did not arrive at all, have factor 1.
    pub fn of(asked: &DriveIo, reached: &DriveIo) -> Self {
        let (asked, reached) = (asked.numbers(), reached.numbers());
        Self(std::array::from_fn(|n| match asked[n] > 0.0 && reached[n] > 0.0 {
            true => reached[n] / asked[n],
            false => 1.0,
        }))
    }

    /// The I/O that reaches the device if `asked` is requested.
    pub fn applied(&self, asked: &DriveIo) -> DriveIo {
        let asked = asked.numbers();
        DriveIo::from(std::array::from_fn(|n| asked[n] * self.0[n]))
    }

    /// The I/O to request so that `wanted` reaches the device.
    fn undone(&self, wanted: &DriveIo) -> DriveIo {
        let wanted = wanted.numbers();
        DriveIo::from(std::array::from_fn(|n| wanted[n] / self.0[n]))
    }
}

/// The offsets with which `config`, on devices of `min_io_bytes`, comes nearest to `target`, given the measured
/// distortion. Offsets without effect stay.
///
/// Errors: none; `config` must be valid.
pub fn solve(config: &ActConfig, min_io_bytes: u32, target: &DriveIo, distortion: &Distortion) -> Offsets {
    let wanted = distortion.undone(target);
    let mut solved = Offsets::of(config);
    let load = |offsets: Offsets| Load::of(&offsets.applied(config), min_io_bytes).ok();
    match config.commit_to_device {
        false => solved.large_block_writes = blocks_for(&solved, &wanted, &load).unwrap_or(solved.large_block_writes),
        true => commits_for(&mut solved, &wanted, &load),
    }
    if let Some(full) = load(Offsets { large_block_reads: 100, ..solved })
        && full.large_block_reads.per_sec > 0.0
    {
        let missing = wanted.reads_per_sec - full.reads.per_sec;
        solved.large_block_reads = nearest(missing / full.large_block_reads.per_sec, "lbr-req-offset");
    }
    if config.read_reqs_per_sec > 0 {
        let read = |read_size: u32| Some(load(Offsets { read_size, ..solved })?.io().read_kib_per_sec);
        solved.read_size = where_it_reaches(wanted.read_kib_per_sec, "read-size-offset", &read);
    }
    solved
}

/// The offset of large-block writes where they are all writes: between what w/s asks for and what wkB/s asks for,
/// which are the same if large blocks have the right size.
fn blocks_for(at: &Offsets, wanted: &DriveIo, load: &dyn Fn(Offsets) -> Option<Load>) -> Option<u32> {
    let full = load(Offsets { large_block_writes: 100, ..*at })?.io();
    let by = [wanted.writes_per_sec / full.writes_per_sec, wanted.written_kib_per_sec / full.written_kib_per_sec];
    let mean = (by[0] + by[1]) / 2.0;
    mean.is_finite().then(|| nearest(mean, "lbw-req-offset"))
}

/// Both offsets of writes where records are committed one by one: every size is tried, with the number of large
/// blocks that w/s then leaves. Of those that come as near the one that changes less wins.
fn commits_for(solved: &mut Offsets, wanted: &DriveIo, load: &dyn Fn(Offsets) -> Option<Load>) {
    /// Minimum change, as a fraction of the target, that doubling or halving an offset must bring.
    const WORTH: f64 = 0.002;
    let mut best = f64::INFINITY;
    for write_size in range("write-size-offset") {
        let at = Offsets { write_size, large_block_writes: 100, ..*solved };
        let Some(full) = load(at) else { break };
        let blocks = full.large_block_writes.per_sec;
        let nearest_to = |missing: f64| nearest(missing / blocks, "lbw-req-offset");
        let by_count = nearest_to(wanted.writes_per_sec - full.commits.per_sec);
        let rest_kib = wanted.written_kib_per_sec - full.commits.per_sec * full.commits.mean_bytes / 1024.0;
        let by_bytes = nearest_to(rest_kib * 1024.0 / full.large_block_writes.mean_bytes);
        for large_block_writes in [by_count, by_bytes, by_count.midpoint(by_bytes)] {
            let share = f64::from(large_block_writes) / 100.0;
            let writes_per_sec = full.commits.per_sec + blocks * share;
            let written =
                full.io().written_kib_per_sec - (1.0 - share) * blocks * full.large_block_writes.mean_bytes / 1024.0;
            let off = |found: f64, wanted: f64| super::relative(wanted, found).abs();
            let change = [write_size, large_block_writes].map(|pct| (f64::from(pct) / 100.0).log2().abs());
            let cost = off(writes_per_sec, wanted.writes_per_sec).max(off(written, wanted.written_kib_per_sec))
                + WORTH * (change[0] + change[1]);
            if cost < best {
                best = cost;
                *solved = Offsets { write_size, large_block_writes, ..*solved };
            }
        }
    }
}

/// The whole percent of `key` at which the non-decreasing `found` is nearest to `wanted`. A value without result is too
/// large.
fn where_it_reaches(wanted: f64, key: &str, found: &dyn Fn(u32) -> Option<f64>) -> u32 {
    let all = range(key);
    let (mut below, mut above) = (*all.start(), *all.end() + 1);
    // The largest that does not exceed it; the next one may be nearer.
    while above - below > 1 {
        let middle = below.midpoint(above);
        if found(middle).is_some_and(|found| found <= wanted) { below = middle } else { above = middle }
    }
    let off = |pct: u32| found(pct).map_or(f64::INFINITY, |found| (found - wanted).abs());
    if all.contains(&above) && off(above) < off(below) { above } else { below }
}

/// A factor as a whole percent that `key` can have.
fn nearest(factor: f64, key: &str) -> u32 {
    let all = range(key);
    // Casts saturate, and no number is 0.
    ((factor * 100.0).round() as u32).clamp(*all.start(), *all.end())
}

/// Allowed range of `key` in the option table.
fn range(key: &str) -> RangeInclusive<u32> {
    match find(Test::Storage, key).map(|spec| spec.kind) {
        Some(Kind::Whole { min, max, .. }) => min as u32..=u32::try_from(max).unwrap_or(u32::MAX),
        _ => 1..=100,
    }
}

/// The same with each other rule of where in its bucket a size lies: what an implausible offset may hide.
pub fn other_rules(
    config: &ActConfig,
    min_io_bytes: u32,
    target: &DriveIo,
    distortion: &Distortion,
) -> Vec<(SizeWithinBucket, Offsets)> {
    use SizeWithinBucket::{LogUniform, Lower, Paper, Uniform, Upper};
    [Paper, LogUniform, Uniform, Lower, Upper]
        .into_iter()
        .filter(|rule| *rule != config.size_within_bucket)
        .map(|rule| {
            // Sizes that others fit may be too large for it.
            let (read_size_offset, write_size_offset) = match config.commit_to_device {
                true => (100, 100),
                false => (100, config.write_size_offset),
            };
            let other = ActConfig { size_within_bucket: rule, read_size_offset, write_size_offset, ..config.clone() };
            (rule, solve(&other, min_io_bytes, target, distortion))
        })
        .collect()
}
