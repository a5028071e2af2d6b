//! Drives of one model under the same load: which is the odd one, and which rating most of them hold.
//!
//! ```text
//! windows ──residuals──> latency relative to peers at the same time and load ──> scores of a drive
//! scores ──examine: firmware, host, slot, drive──> slow ones, with evidence; or why nothing can be said
//! ratings ──tolerance──> "95 % of these drives hold 48x";  ──ranks──> one population against another
//! ```
//!
//! # The estimator
//!
//! Perseus (Lu et al., FAST '23) has only a node's latency and throughput: it fits a polynomial after removing outliers.
//! Here the load is known, and the peers run it at the same time, so no curve needs a fit. The center is the median of
//! the peers' medians in cells of ten minutes and a tenth of load. It follows any curve and any drift that the drives
//! share (temperature, garbage collection at the same age). What remains is the logarithm of a ratio.
//!
//! The windows of a drive are correlated: garbage collection takes minutes. So windows are never counted as evidence.
//! The unit is the drive: each has twelve scores (mean, median and 99th percentile of latency; over the whole run, its
//! slowest eighth, its slowest tenth and fiftieth of windows), and a score is compared with the same score of the
//! peers.
//! The slowest eighth shows a drive that is slow from some hour on, the slowest windows one that is slow at times.
//!
//! # The threshold
//!
//! Scores are means of logarithms, near normal between drives of one model. Outliers are found by the generalized extreme
//! Studentized deviate test. It estimates the spread from the drives themselves, so it works for any model, and its tail
//! is Student's, so it demands more of few drives. For normal scores the probability of any alarm in a population without
//! slow drives is at most [`FALSE_ALARMS`], and 0.05 % for each drive if they are fewer than 20. Half of it is for drives,
//! the other half for firmwares, hosts and slots; each part is divided by the number of scores and the number of drives or
//! groups (Bonferroni). A slowdown below [`FACTOR_MIN`] is never reported.
//!
//! In the evaluation (`tests/population/`), whose scores are not quite normal, 4 of 315 healthy populations of 200
//! drives had a false alarm. With a spread of 3 % between drives, all drives 2 times slower were found, 90 % of those
//! 1.3 times slower, and 57 % of those 1.3 times slower from hour 10 on. A drive 1.3 times slower for a tenth of the
//! time is not found: garbage collection is slower.
//!
//! # The cause
//!
//! Levels are examined from the top down: firmware, host, slot, drive. A group is to blame if its median is an outlier
//! among the groups' medians and more than three quarters of its drives share the slowness; then the slowness is
//! subtracted, and a drive must be slow within its group. Groups are compared with groups: ten drives of a host are one
//! observation of hosts. Two or three firmwares have no spread of their own, so Student's test compares the medians of
//! the hosts with one firmware with the medians of the other hosts.
//!
//! # Not seen
//!
//! * Slowness of all drives of a model, or of more than a quarter of them without a common group.
//! * Slowness shorter than 2 % of the time, unless it is large, and slowness hidden in the spread of healthy drives:
//!   [`Compared::detectable`] has that limit.
//! * A drive as slow as its peers that does fewer operations: load is what was asked for, not what was done.
//! * Anything in three drives, and little in five: the limit is stated as [`Reason::Insensitive`].
//!
//! Distributions between drives with heavier tails than the normal one give more false alarms: with Student's of 5 degrees
//! of freedom, 7 in 12,000 healthy drives instead of 1 in 15,000. In small populations (8 to 20 drives) 1 in 1,300 to 2,000
//! healthy drives is accused.
//!
//! [`Measured`] has the latencies of a drive, read from the directory of a run.

mod examine;
mod outliers;
mod statistics;

pub use examine::examine;
pub use statistics::{Comparison, ToleranceBound, compare, held_by};

use results::cell::{Latencies, latencies};
use results::run_dir::{Bucket, HlogKind, RunDirError, each_buckets, manifest};
use results::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use thiserror::Error;

/// Probability of any false alarm in a population.
pub const FALSE_ALARMS: f64 = 0.01;

/// Smallest reported slowdown.
pub const FACTOR_MIN: f64 = 1.1;

/// A drive and where it is. An empty text is an unknown label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Labels {
    /// Serial number or another unique name.
    pub drive: String,
    pub model: String,
    pub firmware: String,
    pub host: String,
    pub slot: String,
}

/// Latencies of a drive over some seconds of load. Windows of all drives have the same length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Seconds since the load began: drives of the same age are compared.
    pub start_s: f64,
    /// Load, in any unit: operations/s offered, or the queue depth of a closed loop. Not the achieved rate, which a slow
    /// drive lowers.
    pub load: f64,
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
}

/// Statistic of the latencies in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Mean,
    P50,
    P99,
}

impl Metric {
    pub const ALL: [Self; 3] = [Self::Mean, Self::P50, Self::P99];

    /// Value in a window, nanoseconds.
    pub fn of(self, window: &Window) -> f64 {
        match self {
            Self::Mean => window.mean_ns,
            Self::P50 => window.p50_ns,
            Self::P99 => window.p99_ns,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean latency",
            Self::P50 => "median latency",
            Self::P99 => "99th percentile",
        })
    }
}

/// Time over which latencies are averaged for a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// The whole run.
    Whole,
    /// The slowest of eight consecutive parts.
    Part,
    /// The slowest tenth of the windows, wherever they are.
    Tenth,
    /// The slowest fiftieth of the windows.
    Fiftieth,
}

impl Extent {
    pub const ALL: [Self; 4] = [Self::Whole, Self::Part, Self::Tenth, Self::Fiftieth];
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "over the whole run",
            Self::Part => "in the slowest eighth of the run",
            Self::Tenth => "in the slowest 10 % of the windows",
            Self::Fiftieth => "in the slowest 2 % of the windows",
        })
    }
}

/// Part of the population that can be to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Firmware,
    Host,
    Slot,
    Drive,
}

impl Level {
    /// The label of this level.
    pub fn of(self, labels: &Labels) -> &str {
        match self {
            Self::Firmware => &labels.firmware,
            Self::Host => &labels.host,
            Self::Slot => &labels.slot,
            Self::Drive => &labels.drive,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A drive, or a group of drives, that is slower than its peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    pub model: String,
    pub level: Level,
    pub name: String,
    /// The slow drives, as indexes into the population.
    pub drives: Vec<usize>,
    /// Other labels that exactly these drives share: the measurements cannot tell these causes apart.
    pub or: Vec<(Level, String)>,
    pub evidence: Evidence,
}

/// Numbers behind a finding, of the score with the smallest p-value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    pub metric: Metric,
    pub extent: Extent,
    /// Slowdown over that time, relative to that time of the peers.
    pub factor: f64,
    /// Peers: drives; for a host or slot other hosts or slots; for a firmware the hosts with others.
    pub peers: usize,
    /// Probability that a population as large as this one, without slow drives, has so slow a drive or group.
    pub p_value: f64,
    /// Range of the middle 90 % of a typical peer's windows, relative to the center of the drives.
    pub band: [f64; 2],
    /// Share of the windows above the band; 5 % for a typical peer.
    pub outside: f64,
    /// Start of the slowness, seconds: of the last part of the run that is slow up to the end, or of the first slow
    /// window.
    pub since_s: f64,
    /// True if most windows from then on are slow.
    pub lasting: bool,
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, name, model, evidence, .. } = self;
        let Evidence { metric, extent, factor, peers, p_value, outside, since_s, lasting, .. } = evidence;
        let have = match self.drives.len() {
            1 => String::new(),
            drives => format!("its {drives} drives have "),
        };
        let (name, model, factor) = (units::quoted(name), units::in_one_line(model), units::number(*factor));
        let (since, outside) = (units::span_of(*since_s), units::percent(*outside));
        let when = if *lasting { "since" } else { "at times, first at" };
        write!(
            f,
            "{level} {name} ({model}) is slow: {have}{factor} times the {metric} of {peers} peers {extent}, {when} {since}; \
             {outside} of the windows are above the band of the peers, p = {p_value:.1e}"
        )?;
        let or = |(level, name): &(Level, String)| {
            write!(f, "; or the cause is its {level} {}, which no other drive has", units::quoted(name))
        };
        self.or.iter().try_for_each(or)
    }
}

/// A part of the population about which nothing can be said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Undecided {
    pub model: String,
    /// The group or drive; `None` for all drives of the model.
    pub of: Option<(Level, String)>,
    pub reason: Reason,
}

/// Why nothing can be said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// Too few drives with enough windows.
    #[error("{} with enough windows; add drives, at least 3 are needed", units::count(*drives as u64, "drive"))]
    FewDrives { drives: usize },
    /// Fewer windows with peers than 40 % of what the others have.
    #[error(
        "only {windows} windows can be compared, {typical} are typical; {alone} windows had no peers at the same time and load, \
         {invalid} had no valid latencies. Run this drive as long and with the same load as the others"
    )]
    FewWindows { windows: usize, typical: usize, alone: usize, invalid: usize },
    /// Slow, but there are too few groups to know how much groups differ.
    #[error(
        "{} times as slow as the others, but {groups} groups are too few to know how much healthy groups differ. Exchange \
         drives between the groups and repeat, or add groups", units::number(*factor)
    )]
    FewGroups { factor: f64, groups: usize },
    /// The drives differ so much, or are so few, that only a larger slowdown than this can be found.
    #[error(
        "among {drives} drives with this spread, only a drive {} times as slow or slower can be found; add drives", units::number(*factor)
    )]
    Insensitive { factor: f64, drives: usize },
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot tell for {}", units::in_one_line(&self.model))?;
        if let Some((level, name)) = &self.of {
            write!(f, ", {level} {}", units::quoted(name))?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Drives of a model that were compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    pub model: String,
    /// Number of drives compared.
    pub drives: usize,
    /// Slowdown, at all times, that is found in every second drive that has it.
    pub detectable: f64,
}

/// Result of the examination of a population.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Examination {
    /// Slow ones: for each model firmwares, hosts, slots, drives, each with the smallest p-value first.
    pub slow: Vec<Slow>,
    pub undecided: Vec<Undecided>,
    pub compared: Vec<Compared>,
}

/// Latencies of a drive in a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    pub windows: Vec<Window>,
    /// Median and 99th percentile over the whole run, nanoseconds.
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
}

impl Measured {
    /// Service times in `dir` of the judged stream with the highest offered rate, or achieved rate if there are closed
    /// loops: in the usual tests, of reads. Errors: no manifest, or the log is missing or damaged.
    pub fn read(dir: &Path) -> Result<Self, RunDirError> {
        let layout = manifest(dir)?.layout();
        let any_judged = layout.streams.iter().any(|info| info.judged);
        let compared = || layout.streams.iter().enumerate().filter(|(_, info)| info.judged == any_judged);
        // Reversed, so that the first stream with the highest rate is taken.
        let highest = compared().rev().max_by(|(_, a), (_, b)| a.offered_iops.total_cmp(&b.offered_iops));
        let all_paced = compared().all(|(_, info)| info.offered_iops > 0.0);
        let stream = highest.filter(|_| all_paced).map(|(stream, _)| stream);
        let devices = layout.devices.len().max(1);
        let mut by_stream: BTreeMap<usize, (Latencies, Vec<Window>)> = BTreeMap::new();
        each_buckets(dir, &layout, HlogKind::Service, stream, |window| {
            let stream = window.cell / devices;
            let Some(info) = layout.streams.get(stream).filter(|info| info.judged == any_judged) else { return };
            let (all, windows) = by_stream.entry(stream).or_insert_with(|| (latencies(), Vec::new()));
            let (mut sum_ns, mut count) = (0.0, 0);
            for bucket in window.buckets {
                // Another program may write longer durations; those that fit are counted.
                let _ = all.record_n(bucket.least_ns, bucket.count);
                sum_ns +=
                    (bucket.least_ns + (bucket.most_ns - bucket.least_ns).div_ceil(2)) as f64 * f64::from(bucket.count);
                count += u64::from(bucket.count);
            }
            let quantile = |quantile: f64| {
                let (wanted, mut below) = ((quantile * count as f64).ceil() as u64, 0);
                let reaches = |bucket: &&Bucket| {
                    below += u64::from(bucket.count);
                    below >= wanted
                };
                window.buckets.iter().find(reaches).map_or(0.0, |bucket| bucket.most_ns as f64)
            };
            windows.push(Window {
                start_s: window.from_sec,
                load: if info.offered_iops > 0.0 { info.offered_iops } else { 1.0 },
                mean_ns: if count > 0 { sum_ns / count as f64 } else { 0.0 },
                p50_ns: quantile(0.5),
                p99_ns: quantile(0.99),
            });
        })?;
        let most = by_stream.into_values().max_by_key(|(all, _)| all.len());
        Ok(most.map_or_else(Self::default, |(all, windows)| Self {
            windows,
            p50_ns: Some(all.value_at_quantile(0.5) as f64),
            p99_ns: Some(all.value_at_quantile(0.99) as f64),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::cell::Interval;
    use results::judge::Sla;
    use results::run_dir::{Manifest, Writer};
    use results::testing::layout;
    use results::times::Times;

    #[test]
    fn a_drive_has_the_latencies_of_its_judged_stream_with_the_highest_rate() {
        // Without rates, as in closed loops, the operations are counted.
        for rates in [[100.0, 30.0, 500.0], [0.0, 0.0, 0.0], [100.0, 100.0, 0.0]] {
            check(rates);
        }
    }

    fn check(rates: [f64; 3]) {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let streams = [("reads", true), ("large-block-reads", true), ("large-block-writes", false)];
        let mut layout = layout(&streams, 0.0, ["/dev/nvme0n1"]);
        layout.streams.iter_mut().zip(rates).for_each(|(stream, rate)| stream.offered_iops = rate);
        let manifest = Manifest { report_interval_sec: 10, ..Manifest::new(&layout, Sla::default()) };
        let mut writer = Writer::create(&run, &manifest, &[]).unwrap();
        for index in 0..3 {
            let mut interval = Interval::new(&layout);
            (interval.index, interval.end_ns) = (index, (index + 1) * 10_000_000_000);
            for (cell, ops, us) in [(0, 100, 200 * (index + 1)), (1, 10, 3_000), (2, 900, 7_000)] {
                (0..ops).for_each(|_| interval.cells[cell].record(&Times::new(0, 0, 0, us * 1_000), 0, 4_096));
            }
            interval.close();
            writer.write_interval(&interval, &[]).unwrap();
        }
        drop(writer);
        let measured = Measured::read(&run).unwrap();
        let near = |value: f64, us: f64| (value / us / 1e3 - 1.0).abs() < 0.01;
        assert!(near(measured.p50_ns.unwrap(), 400.0) && near(measured.p99_ns.unwrap(), 600.0), "{measured:?}");
        let [a, b, c] = measured.windows[..] else { panic!("{measured:?}") };
        assert_eq!([a.start_s, b.start_s, c.start_s, a.load], [0.0, 10.0, 20.0, f64::max(rates[0], 1.0)]);
        assert!(near(a.p50_ns, 200.0) && near(b.mean_ns, 400.0) && near(c.p99_ns, 600.0), "{measured:?}");
        assert!(Measured::read(dir.path()).is_err());
    }
}
