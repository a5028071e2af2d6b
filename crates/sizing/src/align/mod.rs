//! Computes the offsets with which a histogram load reproduces a cluster's I/O; pure arithmetic, without a drive.
//!
//! ```text
//! ActConfig --RequestedLoad::from_config--> requested I/O ----.
//!                                                     >-- distortion = reached / requested
//! a burst   ------------> I/O that reached the drive '         |
//! cluster   ------------> target I/O ---------------------> solve --> Offsets of the next burst
//! ```
//!
//! The main idea: a drive and its kernel (rounding to sectors, merges, splits) multiply each of iostat's four numbers
//! (r/s, w/s, rkB/s, wkB/s) by a factor. The offsets are solved for the target divided by that factor. Where no formula
//! is exact, the whole percents are searched: by bisection, or one by one for `write-size-offset`.
//!
//! Without `commit-to-device` three offsets are solved for: `lbw-req-offset` (w/s and wkB/s, which are proportional if
//! large blocks have one size), `lbr-req-offset` (r/s), `read-size-offset` (rkB/s). `write-size-offset` stays as it is:
//! it would scale only the rates of large-block reads and writes, and these rates have their own offsets. With
//! `commit-to-device`, `write-size-offset` scales the size of a write, and is solved for together with
//! `lbw-req-offset`.

use crate::drive_io::DriveIo;
use act::dialect::line_of;
use act::options::{OptionKind, Test};
use act::rates::StorageDerived;
use act::sizes::HistogramSizes;
use act::table::find;
use act::{ActConfig, Arrival, ConfigProblem, SizeWithinBucket, derive_storage};
use load::rate::Rate;
use std::ops::RangeInclusive;

/// Plausible offsets, percent: the unknown sizes within the buckets explain offsets in this range. An offset outside
/// has another cause.
pub const PLAUSIBLE_PCT: RangeInclusive<u32> = 80..=125;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// `lbr-req-offset`
    pub large_block_reads: u32,
    /// `lbw-req-offset`
    pub large_block_writes: u32,
    /// `read-size-offset`
    pub read_size: u32,
    /// `write-size-offset`
    pub write_size: u32,
}

impl Offsets {
    pub fn from_config(config: &ActConfig) -> Self {
        Self {
            large_block_reads: config.lbr_req_offset,
            large_block_writes: config.lbw_req_offset,
            read_size: config.read_size_offset,
            write_size: config.write_size_offset,
        }
    }

    pub fn applied(self, config: &ActConfig) -> ActConfig {
        ActConfig {
            lbr_req_offset: self.large_block_reads,
            lbw_req_offset: self.large_block_writes,
            read_size_offset: self.read_size,
            write_size_offset: self.write_size,
            ..config.clone()
        }
    }

    /// Each offset with its key, in the order of the numbers that the offsets control: r/s, w/s, rkB/s, wkB/s.
    pub fn by_key(self) -> [(&'static str, u32); 4] {
        [
            ("lbr-req-offset", self.large_block_reads),
            ("lbw-req-offset", self.large_block_writes),
            ("read-size-offset", self.read_size),
            ("write-size-offset", self.write_size),
        ]
    }
}

/// Deviation of each number from its target, as a fraction of the target; 100 % if only the target is 0.
pub fn errors(target: &DriveIo, measured: &DriveIo) -> [f64; 4] {
    let target = target.numbers();
    let found = measured.numbers();
    std::array::from_fn(|n| relative(target[n], found[n]))
}

/// The largest absolute deviation of [`errors`].
pub fn worst(target: &DriveIo, measured: &DriveIo) -> f64 {
    errors(target, measured)
        .into_iter()
        .map(f64::abs)
        .fold(0.0, f64::max)
}

fn relative(target: f64, measured: f64) -> f64 {
    match target {
        0.0 if measured == 0.0 => 0.0,
        0.0 => 1.0,
        target => measured / target - 1.0,
    }
}

const KIB: f64 = 1024.0;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ops {
    pub per_sec: f64,
    /// Mean size, bytes, as issued: rounded up to the drive's unit.
    pub mean_bytes: f64,
    pub max_bytes: f64,
}

impl Ops {
    fn blocks(per_sec: f64, bytes: u32) -> Self {
        Self {
            per_sec,
            mean_bytes: bytes.into(),
            max_bytes: bytes.into(),
        }
    }

    fn kib_per_sec(self) -> f64 {
        self.per_sec * self.mean_bytes / KIB
    }
}

/// Operations of records at `rate`; see [`StorageDerived::record_io_bytes`].
fn record_ops(
    derived: &StorageDerived,
    rate: Rate,
    sizes: Option<HistogramSizes>,
    step_bytes: u32,
) -> Ops {
    let per_sec = rate.per_sec_f64();
    if per_sec <= 0.0 {
        return Ops::default();
    }
    let (mean_bytes, max_bytes) = derived.record_io_bytes(sizes, step_bytes);
    Ops {
        per_sec,
        mean_bytes,
        max_bytes: max_bytes.into(),
    }
}

/// Load of a configuration, summed over all of its devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestedLoad {
    pub reads: Ops,
    pub large_block_reads: Ops,
    /// Records written individually (commit-to-device).
    pub commits: Ops,
    pub large_block_writes: Ops,
    /// True for Poisson arrivals, as from independent clients: the number of operations varies.
    pub poisson: bool,
}

impl RequestedLoad {
    /// Load of `config` on devices whose smallest I/O is `min_io_bytes`.
    pub fn from_config(config: &ActConfig, min_io_bytes: u32) -> Result<Self, Vec<ConfigProblem>> {
        let derived = derive_storage(config)?;
        let write_step_bytes = min_io_bytes.max(config.commit_min_bytes);
        Ok(Self {
            reads: record_ops(
                &derived,
                derived.read_rate,
                config.read_sizes(),
                min_io_bytes,
            ),
            large_block_reads: Ops::blocks(
                derived.large_block_read_rate.per_sec_f64(),
                derived.large_block_bytes,
            ),
            commits: record_ops(
                &derived,
                derived.commit_write_rate,
                config.write_sizes(),
                write_step_bytes,
            ),
            large_block_writes: Ops::blocks(
                derived.large_block_write_rate.per_sec_f64(),
                derived.large_block_bytes,
            ),
            poisson: config.arrival == Arrival::Poisson,
        })
    }

    pub fn io(&self) -> DriveIo {
        DriveIo {
            reads_per_sec: self.reads.per_sec + self.large_block_reads.per_sec,
            writes_per_sec: self.commits.per_sec + self.large_block_writes.per_sec,
            read_kib_per_sec: self.reads.kib_per_sec() + self.large_block_reads.kib_per_sec(),
            written_kib_per_sec: self.commits.kib_per_sec() + self.large_block_writes.kib_per_sec(),
        }
    }

    /// Seconds after which the random error (a standard deviation) of each of the four numbers, and of the rates of
    /// large blocks, is at most the fraction `noise`. Few large blocks, or sizes that differ much, take longer.
    ///
    /// The error of an evenly paced stream is one operation at each end of the measured time. The error of n operations
    /// of a Poisson stream is the square root of n. The error of the bytes is the square root of (n x the mean square
    /// of a size). That mean square is at most the mean size x the largest size.
    pub fn seconds_for(&self, noise: f64) -> f64 {
        let io = self.io();
        [
            self.seconds_for_rate(io.reads_per_sec, noise),
            self.seconds_for_rate(io.writes_per_sec, noise),
            self.seconds_for_rate(self.large_block_reads.per_sec, noise),
            self.seconds_for_rate(self.large_block_writes.per_sec, noise),
            self.seconds_for_bytes(self.reads, self.large_block_reads, noise),
            self.seconds_for_bytes(self.commits, self.large_block_writes, noise),
        ]
        .into_iter()
        .fold(0.0, f64::max)
    }

    fn seconds_for_rate(&self, ops_per_sec: f64, noise: f64) -> f64 {
        if ops_per_sec <= 0.0 {
            0.0
        } else if self.poisson {
            1.0 / (noise * noise * ops_per_sec)
        } else {
            2.0 / (noise * ops_per_sec)
        }
    }

    fn seconds_for_bytes(&self, records: Ops, blocks: Ops, noise: f64) -> f64 {
        let bytes_per_sec =
            records.per_sec * records.mean_bytes + blocks.per_sec * blocks.mean_bytes;
        if bytes_per_sec <= 0.0 {
            return 0.0;
        }
        let square_of_blocks = if self.poisson {
            blocks.per_sec * blocks.mean_bytes * blocks.max_bytes
        } else {
            0.0
        };
        let square = records.per_sec * records.mean_bytes * records.max_bytes + square_of_blocks;
        square / (noise * bytes_per_sec).powi(2)
    }
}

/// `text` with the offsets `after` in place of `before`. Each changed line gets a comment with `note`, which must have
/// no line break. A missing line is added at the end, under `note`.
pub fn rewrite(text: &str, before: Offsets, after: Offsets, note: &str) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut added = Vec::new();
    for ((key, was), (_, is)) in before
        .by_key()
        .into_iter()
        .zip(after.by_key())
        .filter(|(was, is)| was != is)
    {
        match line_of(text.as_bytes(), key) {
            Some(number) => {
                let line = &mut lines[number - 1];
                let end = if line.ends_with('\r') { "\r" } else { "" };
                let old = line
                    .split_once('#')
                    .map(|(_, comment)| format!("; {}", comment.trim()))
                    .unwrap_or_default();
                *line = format!("{key}: {is}  # was {was}, by {note}{old}{end}");
            }
            None => added.push(format!("{key}: {is}")),
        }
    }
    if !added.is_empty() {
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines.extend([String::new(), format!("# By {note}.")]);
        lines.extend(added);
        lines.push(String::new());
    }
    lines.join("\n")
}

/// Effect of a device and its kernel: I/O that reached the device / requested I/O, for each of the four numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distortion([f64; 4]);

impl Distortion {
    pub const NONE: Self = Self([1.0; 4]);

    /// Distortion of a burst. A number that was not requested, or did not reach the device at all, has factor 1.
    pub fn between(requested: &DriveIo, reached: &DriveIo) -> Self {
        let requested = requested.numbers();
        let reached = reached.numbers();
        Self(std::array::from_fn(|n| {
            if requested[n] > 0.0 && reached[n] > 0.0 {
                reached[n] / requested[n]
            } else {
                1.0
            }
        }))
    }

    /// The I/O that reaches the device if `requested` is requested.
    pub fn applied(&self, requested: &DriveIo) -> DriveIo {
        let requested = requested.numbers();
        DriveIo::from(std::array::from_fn(|n| requested[n] * self.0[n]))
    }

    /// The I/O to request so that `target` reaches the device.
    fn undone(&self, target: &DriveIo) -> DriveIo {
        let target_numbers = target.numbers();
        DriveIo::from(std::array::from_fn(|n| target_numbers[n] / self.0[n]))
    }
}

/// The offsets with which `config`, which must be valid, comes nearest to `target` on devices of `min_io_bytes`, given
/// the measured distortion. Offsets without effect stay.
pub fn solve(
    config: &ActConfig,
    min_io_bytes: u32,
    target: &DriveIo,
    distortion: &Distortion,
) -> Offsets {
    let requested = distortion.undone(target);
    let mut solved = Offsets::from_config(config);
    let load =
        |offsets: Offsets| RequestedLoad::from_config(&offsets.applied(config), min_io_bytes).ok();
    if config.commit_to_device {
        commits_for(&mut solved, &requested, &load);
    } else {
        solved.large_block_writes =
            blocks_for(&solved, &requested, &load).unwrap_or(solved.large_block_writes);
    }
    if let Some(full) = load(Offsets {
        large_block_reads: 100,
        ..solved
    }) && full.large_block_reads.per_sec > 0.0
    {
        let missing = requested.reads_per_sec - full.reads.per_sec;
        solved.large_block_reads =
            nearest(missing / full.large_block_reads.per_sec, "lbr-req-offset");
    }
    if config.read_reqs_per_sec > 0 {
        solved.read_size = bisect_pct(
            requested.read_kib_per_sec,
            "read-size-offset",
            &|read_size: u32| {
                Some(
                    load(Offsets {
                        read_size,
                        ..solved
                    })?
                    .io()
                    .read_kib_per_sec,
                )
            },
        );
    }
    solved
}

/// The offset of large-block writes if all writes are large blocks: the mean of the offset for w/s and the offset for
/// wkB/s. The two offsets are equal if large blocks have the right size.
fn blocks_for(
    offsets: &Offsets,
    requested: &DriveIo,
    load: &dyn Fn(Offsets) -> Option<RequestedLoad>,
) -> Option<u32> {
    let full = load(Offsets {
        large_block_writes: 100,
        ..*offsets
    })?
    .io();
    let by = [
        requested.writes_per_sec / full.writes_per_sec,
        requested.written_kib_per_sec / full.written_kib_per_sec,
    ];
    let mean = (by[0] + by[1]) / 2.0;
    mean.is_finite().then(|| nearest(mean, "lbw-req-offset"))
}

/// Solves for both offsets of writes with commit-to-device: tries every `write-size-offset`, each with the
/// `lbw-req-offset` that w/s and wkB/s then require. Of equally close results, the smallest change wins.
fn commits_for(
    solved: &mut Offsets,
    requested: &DriveIo,
    load: &dyn Fn(Offsets) -> Option<RequestedLoad>,
) {
    /// Cost of doubling or halving an offset, as a fraction of the target: a change must improve more than it costs.
    const WORTH: f64 = 0.002;
    let mut best_cost = f64::INFINITY;
    for write_size in range("write-size-offset") {
        let offsets = Offsets {
            write_size,
            large_block_writes: 100,
            ..*solved
        };
        let Some(full) = load(offsets) else { break };
        let blocks = full.large_block_writes.per_sec;
        let nearest_to = |missing: f64| nearest(missing / blocks, "lbw-req-offset");
        let by_count = nearest_to(requested.writes_per_sec - full.commits.per_sec);
        let rest_kib =
            requested.written_kib_per_sec - full.commits.per_sec * full.commits.mean_bytes / 1024.0;
        let by_bytes = nearest_to(rest_kib * 1024.0 / full.large_block_writes.mean_bytes);
        for large_block_writes in [by_count, by_bytes, by_count.midpoint(by_bytes)] {
            let share = f64::from(large_block_writes) / 100.0;
            let writes_per_sec = full.commits.per_sec + blocks * share;
            let written = full.io().written_kib_per_sec
                - (1.0 - share) * blocks * full.large_block_writes.mean_bytes / 1024.0;
            let deviation = |found: f64, requested: f64| relative(requested, found).abs();
            let change =
                [write_size, large_block_writes].map(|pct| (f64::from(pct) / 100.0).log2().abs());
            let cost = deviation(writes_per_sec, requested.writes_per_sec)
                .max(deviation(written, requested.written_kib_per_sec))
                + WORTH * (change[0] + change[1]);
            if cost < best_cost {
                best_cost = cost;
                *solved = Offsets {
                    write_size,
                    large_block_writes,
                    ..*solved
                };
            }
        }
    }
}

/// The whole percent of `key` at which the non-decreasing `value_at` is nearest to `target`. `value_at` returns `None`
/// if the value is too large.
fn bisect_pct(target: f64, key: &str, value_at: &dyn Fn(u32) -> Option<f64>) -> u32 {
    let percents = range(key);
    let mut low = *percents.start();
    let mut high = *percents.end() + 1;
    // Bisects for the largest percent whose value does not exceed `target`. The next percent may be nearer.
    while high - low > 1 {
        let middle = low.midpoint(high);
        if value_at(middle).is_some_and(|found| found <= target) {
            low = middle
        } else {
            high = middle
        }
    }
    let distance = |pct: u32| value_at(pct).map_or(f64::INFINITY, |found| (found - target).abs());
    if percents.contains(&high) && distance(high) < distance(low) {
        high
    } else {
        low
    }
}

/// A factor as the nearest whole percent that `key` allows.
fn nearest(factor: f64, key: &str) -> u32 {
    let all = range(key);
    // Casts saturate, and NaN becomes 0.
    ((factor * 100.0).round() as u32).clamp(*all.start(), *all.end())
}

/// Allowed range of `key` in the option table.
fn range(key: &str) -> RangeInclusive<u32> {
    match find(Test::Storage, key).map(|spec| spec.kind) {
        Some(OptionKind::Whole { min, max, .. }) => {
            min as u32..=u32::try_from(max).unwrap_or(u32::MAX)
        }
        _ => 1..=100,
    }
}

/// The offsets under each other value of `size-within-bucket`: if an offset is implausible, the configured value may be
/// wrong.
pub fn other_rules(
    config: &ActConfig,
    min_io_bytes: u32,
    target: &DriveIo,
    distortion: &Distortion,
) -> Vec<(SizeWithinBucket, Offsets)> {
    use SizeWithinBucket::{LogUniform, Lower, Paper, Uniform, Upper};
    // The current size offsets, fitted to the configured rule, may be too large for another rule.
    let write_size_offset = if config.commit_to_device {
        100
    } else {
        config.write_size_offset
    };
    let sizes = ActConfig {
        read_size_offset: 100,
        write_size_offset,
        ..config.clone()
    };
    let other_distributions = [Paper, LogUniform, Uniform, Lower, Upper]
        .into_iter()
        .filter(|it| *it != config.size_within_bucket);
    let solved = other_distributions.map(|size_within_bucket| {
        let other = ActConfig {
            size_within_bucket,
            ..sizes.clone()
        };
        (
            size_within_bucket,
            solve(&other, min_io_bytes, target, distortion),
        )
    });
    solved.collect()
}

#[cfg(test)]
mod tests;
