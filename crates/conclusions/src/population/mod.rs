//! Compares drives of a model under the same load: finds slow drives, and the rating that most drives hold.
//!
//! ```text
//! windows ──residuals──> latency relative to peers at the same time and load ──> scores of each drive
//! scores ──examine: firmware, host, slot, drive──> slow groups and drives, with evidence; or why undecided
//! ratings ──tolerance──> "95 % of these drives hold 48x";  ──ranks──> comparison of two populations
//! ```
//!
//! # The estimator
//!
//! Perseus (Lu et al., FAST '23) knows only a node's latency and throughput, so it fits a polynomial after removing
//! outliers. Here the load is known, and the peers run the same load at the same time, so no fit is necessary. Windows
//! are grouped into cells of ten minutes and a tenth of load. The center of a cell is the median of the drives'
//! medians. Centers follow any curve and any drift that the drives share (temperature, garbage collection at the same
//! age). The residual of a window is the logarithm of its latency divided by the center.
//!
//! The windows of a drive are correlated, because garbage collection takes minutes. So the unit of evidence is the
//! drive, not the window. Each drive has twelve scores: three metrics (mean, median and 99th percentile of latency),
//! each over four extents (the whole run, the slowest eighth of the run, the slowest tenth and the slowest fiftieth of
//! the windows). A score is compared with the same score of the peers. The slowest eighth shows drives that become slow
//! after some hours; the slowest windows show drives that are slow at times.
//!
//! # The threshold
//!
//! Scores are means of logarithms, nearly normal among drives of a model. The generalized extreme Studentized deviate
//! test finds outliers. It estimates the spread from the drives themselves, so it works for any model. The test uses
//! the tail of Student's distribution, so with few drives it requires larger deviations. For normal scores, the
//! probability of any false alarm in a population without slow drives is at most [`FALSE_ALARMS`]; with fewer than 20
//! drives, 0.05 % per drive. Half of this probability is for drives, the other half for firmwares, hosts and slots.
//! Each part is divided by the number of scores and the number of drives or groups (Bonferroni). A slowdown below
//! [`FACTOR_MIN`] is never reported.
//!
//! In the evaluation (`tests/population/`), whose scores are not exactly normal, 4 of 315 healthy populations of 200
//! drives had a false alarm. With a spread of 3 % between drives, the test found all drives that were 2 times slower,
//! 90 % of the drives that were 1.3 times slower, and 57 % of the drives that were 1.3 times slower from hour 10 on. A
//! drive that is 1.3 times slower for a tenth of the time is not found, because garbage collection slows drives more.
//!
//! # The cause
//!
//! Levels are examined from the top down: firmware, host, slot, drive. A group is to blame if its median is an outlier
//! among the groups' medians, and more than three quarters of its drives share the slowness. The slowness of the group
//! is then subtracted, so that a drive must be slow within its group. Groups are compared with groups: ten drives of a
//! host are one observation. Two or three firmwares are too few to estimate a spread, so Student's test compares the
//! medians of the hosts that have the firmware with those of the other hosts.
//!
//! Drives can be judged with the drives of earlier campaigns as further peers. Campaigns differ in hosts, kernels and
//! days. So a judged drive is slow only if it is slow among all peers, and slower than most drives of its own campaign.
//! A campaign that differs as a whole is undecided ([`UndecidedReason::OtherCampaign`]). The fewer drives a campaign
//! has, the less exactly they show its level. So the slowness of a drive among `n` is reduced by the square root of
//! `(n - 1) / n`, except over the whole run of a campaign that does not differ.
//!
//! # Not seen
//!
//! * Slowness of all drives of a model, or of more than a quarter of the drives without a common group.
//! * Slowness below [`ComparedDrives::detectable`], which is within the spread of healthy drives, and moderate slowness in
//!   less than 2 % of the time.
//! * A lower achieved rate at the same latency: the load of a window is the offered load.
//! * Nearly anything with three drives, and most slowness with five: [`UndecidedReason::Insensitive`] has the limit.
//!
//! Heavier tails than those of the normal distribution give more false alarms: with Student's distribution of 5 degrees
//! of freedom, 7 in 12,000 healthy drives instead of 1 in 15,000. In small populations (8 to 20 drives), 1 in 1,300 to
//! 2,000 healthy drives is reported as slow.

mod examine;
mod outliers;
mod statistics;

pub use examine::examine;
pub use statistics::{PopulationComparison, ToleranceBound, compare, tolerance_bound};

use results::cell::{Latencies, latencies};
use results::format;
use results::run_dir::{HlogBucket, HlogKind, RunDirError, each_buckets, manifest};
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

/// Identity, firmware and location of a drive. An empty text is an unknown label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Labels {
    /// Serial number or another unique name.
    pub drive: String,
    pub model: String,
    pub firmware: String,
    pub host: String,
    pub slot: String,
    /// Campaign that measured the drive: a day, a kernel, a set of hosts.
    #[serde(default)]
    pub campaign: String,
}

/// Latencies of a drive in a time window. The windows of all drives have the same length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyWindow {
    /// Seconds since the load began. Drives are compared at equal times.
    pub start_s: f64,
    /// Offered IOPS, or the depth of a closed loop. The achieved rate cannot serve, because a slow drive lowers it.
    pub load: f64,
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
}

/// Statistic of the latencies in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Metric")]
pub enum LatencyMetric {
    Mean,
    P50,
    P99,
}

impl LatencyMetric {
    pub const ALL: [Self; 3] = [Self::Mean, Self::P50, Self::P99];

    /// Value in a window, nanoseconds.
    pub fn value_in(self, window: &LatencyWindow) -> f64 {
        match self {
            Self::Mean => window.mean_ns,
            Self::P50 => window.p50_ns,
            Self::P99 => window.p99_ns,
        }
    }
}

results::display!(LatencyMetric {
    Mean => "mean latency",
    P50 => "median latency",
    P99 => "99th percentile",
});

/// Part of the run over which a score averages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Extent")]
pub enum ScoreExtent {
    /// The whole run.
    Whole,
    /// The slowest of eight consecutive parts.
    Part,
    /// The slowest tenth of the windows, not necessarily consecutive.
    Tenth,
    /// The slowest fiftieth of the windows, not necessarily consecutive.
    Fiftieth,
}

impl ScoreExtent {
    pub const ALL: [Self; 4] = [Self::Whole, Self::Part, Self::Tenth, Self::Fiftieth];
}

results::display!(ScoreExtent {
    Whole => "over the whole run",
    Part => "in the slowest eighth of the run",
    Tenth => "in the slowest 10 % of the windows",
    Fiftieth => "in the slowest 2 % of the windows",
});

/// Part of the population that can be to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Level")]
pub enum PopulationLevel {
    Campaign,
    Firmware,
    Host,
    Slot,
    Drive,
}

impl PopulationLevel {
    pub fn label_in(self, labels: &Labels) -> &str {
        match self {
            Self::Campaign => &labels.campaign,
            Self::Firmware => &labels.firmware,
            Self::Host => &labels.host,
            Self::Slot => &labels.slot,
            Self::Drive => &labels.drive,
        }
    }
}

impl fmt::Display for PopulationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A drive, or a group of drives, that is slower than its peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Slow")]
pub struct SlowGroup {
    pub model: String,
    pub level: PopulationLevel,
    pub name: String,
    /// The slow drives, as indexes into the population.
    pub drives: Vec<usize>,
    /// Other labels that exactly these drives share: the measurements cannot tell these causes apart.
    pub or: Vec<(PopulationLevel, String)>,
    pub evidence: SlowEvidence,
}

/// Evidence for a slow drive or group, from the score with the smallest p-value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Evidence")]
pub struct SlowEvidence {
    pub metric: LatencyMetric,
    pub extent: ScoreExtent,
    /// Slowdown over `extent`, relative to the same score of the peers.
    pub factor: f64,
    /// Number of peers: other drives; for a host or slot, other hosts or slots; for a firmware, the hosts with other
    /// firmwares.
    pub peers: usize,
    /// Probability that a population of this size without slow drives contains a drive or group that appears this slow.
    pub p_value: f64,
    /// Latencies, relative to the centers, between which the middle 90 % of a typical peer's windows lie.
    pub band: [f64; 2],
    /// Share of windows above the band; 5 % for a typical peer.
    pub outside: f64,
    /// Start of the slowness, seconds: the start of the final period of slow windows if `lasting`, otherwise of the
    /// first slow window.
    pub since_s: f64,
    /// True if most windows from `since_s` on are slow.
    pub lasting: bool,
}

impl SlowGroup {
    /// Other causes that are possible; empty if there are none.
    pub fn other_causes(&self) -> String {
        let cause = |(level, name): &(PopulationLevel, String)| {
            format!(
                "; or the cause is its {level} {}, which no other drive has",
                format::quoted(name)
            )
        };
        self.or.iter().map(cause).collect()
    }
}

impl SlowEvidence {
    /// The evidence in a few words: `2.1 times the 99th percentile of 11 peers since the start`.
    pub fn short(&self) -> String {
        let factor = format::number(self.factor);
        let extent = match self.extent {
            ScoreExtent::Whole => String::new(),
            part => format!(" {part},"),
        };
        let since = if self.since_s > 0.0 {
            format::span_of(self.since_s)
        } else {
            "the start".to_owned()
        };
        let when = if self.lasting {
            format!("since {since}")
        } else {
            format!("at times, first at {since}")
        };
        format!(
            "{factor} times the {} of {} peers{extent} {when}",
            self.metric, self.peers
        )
    }
}

impl fmt::Display for SlowGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            level,
            name,
            model,
            evidence,
            ..
        } = self;
        let SlowEvidence {
            metric,
            extent,
            factor,
            peers,
            p_value,
            outside,
            since_s,
            lasting,
            ..
        } = evidence;
        let have = match self.drives.len() {
            1 => String::new(),
            drives => format!("its {drives} drives have "),
        };
        let name = format::quoted(name);
        let model = format::in_one_line(model);
        let factor = format::number(*factor);
        let since = format::span_of(*since_s);
        let outside = format::percent(*outside);
        let when = if *lasting {
            "beginning after"
        } else {
            "at times, first after"
        };
        write!(
            f,
            "{level} {name} ({model}) is slow: {have}{factor} times the {metric} of {peers} peers {extent}, {when} {since}; \
             {outside} of the windows are above the band of the peers, p = {p_value:.1e}"
        )?;
        f.write_str(&self.other_causes())
    }
}

/// A part of the population for which the examination has no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Undecided {
    pub model: String,
    /// The group or drive; `None` for all drives of the model.
    pub of: Option<(PopulationLevel, String)>,
    pub reason: UndecidedReason,
}

/// Why the examination has no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "Reason")]
pub enum UndecidedReason {
    /// Too few drives with enough windows.
    #[error("too few drives: {} with enough windows, but at least 3 are needed; add drives", format::count(*drives as u64, "drive"))]
    FewDrives { drives: usize },
    /// The drive has less than 40 % of the typical number of comparable windows.
    #[error(
        "only {windows} windows can be compared, but {typical} are typical; {alone} windows had no peers at the same time and \
         load, and {invalid} had no valid latencies. Run this drive as long and with the same load as the others"
    )]
    FewWindows {
        windows: usize,
        typical: usize,
        alone: usize,
        invalid: usize,
    },
    /// The group is slow, but there are too few groups to know how much healthy groups differ.
    #[error(
        "{} times as slow as the others, but {groups} groups are too few to know how much healthy groups differ. Exchange \
         drives between the groups and repeat, or add groups", format::number(*factor)
    )]
    FewGroups { factor: f64, groups: usize },
    /// The drives of the campaign differ as a whole from those of the other campaigns.
    #[error(
        "its drives are {} times as slow as {} of other campaigns; hosts, kernels, firmwares and days can differ between \
         campaigns, so no drive is blamed. Test drives of both campaigns together",
        format::number(*factor), format::count(*peers as u64, "drive")
    )]
    OtherCampaign { factor: f64, peers: usize },
    /// The drives differ so much, or are so few, that only a slowdown above this factor can be found.
    #[error(
        "among {drives} drives with this spread, only a drive at least {} times as slow as the others can be found; add drives", format::number(*factor)
    )]
    Insensitive { factor: f64, drives: usize },
}

impl Undecided {
    /// The statement in a few words. `in_group`: number of drives of the group; `in_model`: of the model.
    pub fn short(&self, in_group: usize, in_model: usize) -> String {
        let subject = match &self.of {
            Some((level, name)) => format!("{level} {}", format::in_one_line(name)),
            None => format::in_one_line(&self.model),
        };
        let finding = match &self.reason {
            UndecidedReason::FewDrives { drives } => {
                format!("{} are too few", format::count(*drives as u64, "drive"))
            }
            UndecidedReason::FewWindows {
                windows, typical, ..
            } => format!("only {windows} windows can be compared, {typical} are typical"),
            UndecidedReason::FewGroups { factor, groups } => format!(
                "{in_group} of {in_model} drives are {}x as slow, but {groups} groups are too few to tell",
                format::number(*factor)
            ),
            UndecidedReason::OtherCampaign { factor, peers } => format!(
                "its drives are {}x as slow as {peers} of other campaigns",
                format::number(*factor)
            ),
            UndecidedReason::Insensitive { factor, drives } => format!(
                "among {drives} drives, only a drive at least {}x as slow can be found",
                format::number(*factor)
            ),
        };
        format!("{subject}: {finding}")
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot tell for {}", format::in_one_line(&self.model))?;
        if let Some((level, name)) = &self.of {
            write!(f, ", {level} {}", format::quoted(name))?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The compared drives of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Compared")]
pub struct ComparedDrives {
    pub model: String,
    /// Number of drives compared.
    pub drives: usize,
    /// Slowdown over the whole run that is found with a probability of one half.
    pub detectable: f64,
}

/// Result of the examination of a population.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Examination {
    /// Slow groups and drives. For each model: firmwares, hosts, slots, drives, each sorted by p-value.
    pub slow: Vec<SlowGroup>,
    pub undecided: Vec<Undecided>,
    pub compared: Vec<ComparedDrives>,
    /// Mean latency of each drive over the whole run, relative to the peers at the same time and load; null where it
    /// cannot be compared. Empty in documents of earlier versions.
    #[serde(default)]
    pub factors: Vec<Option<f64>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DriveLatencies {
    pub windows: Vec<LatencyWindow>,
    /// Median and 99th percentile over the whole run, nanoseconds.
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
}

impl DriveLatencies {
    /// Reads the service times of one judged stream: the stream with the highest offered rate or, if any stream is a
    /// closed loop, the stream with the most operations. In the usual tests this is the stream of reads.
    pub fn read(dir: &Path) -> Result<Self, RunDirError> {
        let layout = manifest(dir)?.layout();
        let any_judged = layout.streams.iter().any(|info| info.judged);
        let compared_streams: Vec<_> = layout
            .streams
            .iter()
            .enumerate()
            .filter(|(_, info)| info.judged == any_judged)
            .collect();
        // Reversed, so that the first stream with the highest rate is taken.
        let highest = compared_streams
            .iter()
            .rev()
            .max_by(|(_, a), (_, b)| a.offered_iops.total_cmp(&b.offered_iops));
        let all_paced = compared_streams
            .iter()
            .all(|(_, info)| info.offered_iops > 0.0);
        let stream = highest.filter(|_| all_paced).map(|(stream, _)| *stream);
        let devices = layout.devices.len().max(1);
        let mut by_stream: BTreeMap<usize, (Latencies, Vec<LatencyWindow>)> = BTreeMap::new();
        each_buckets(dir, &layout, HlogKind::Service, stream, |window| {
            let stream = window.cell / devices;
            let Some(info) = layout
                .streams
                .get(stream)
                .filter(|info| info.judged == any_judged)
            else {
                return;
            };
            let (histogram, windows) = by_stream
                .entry(stream)
                .or_insert_with(|| (latencies(), Vec::new()));
            let mut sum_ns = 0.0;
            let mut count = 0;
            for bucket in window.buckets {
                // Other programs may write longer durations; only durations that fit are counted.
                let _ = histogram.record_n(bucket.least_ns, bucket.count);
                sum_ns += (bucket.least_ns + (bucket.most_ns - bucket.least_ns).div_ceil(2)) as f64
                    * f64::from(bucket.count);
                count += u64::from(bucket.count);
            }
            windows.push(LatencyWindow {
                start_s: window.from_sec,
                load: if info.offered_iops > 0.0 {
                    info.offered_iops
                } else {
                    1.0
                },
                mean_ns: if count > 0 {
                    sum_ns / count as f64
                } else {
                    0.0
                },
                p50_ns: quantile_ns(window.buckets, count, 0.5),
                p99_ns: quantile_ns(window.buckets, count, 0.99),
            });
        })?;
        let largest = by_stream.into_values().max_by_key(|(all, _)| all.len());
        Ok(largest.map_or_else(Self::default, |(all, windows)| Self {
            windows,
            p50_ns: Some(all.value_at_quantile(0.5) as f64),
            p99_ns: Some(all.value_at_quantile(0.99) as f64),
        }))
    }
}

/// Upper bound of the bucket with the `quantile` of `count` durations; 0 without durations.
fn quantile_ns(buckets: &[HlogBucket], count: u64, quantile: f64) -> f64 {
    let target = (quantile * count as f64).ceil() as u64;
    let mut cumulative = 0;
    for bucket in buckets {
        cumulative += u64::from(bucket.count);
        if cumulative >= target {
            return bucket.most_ns as f64;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::cell::Interval;
    use results::judge::Sla;
    use results::run_dir::{Manifest, RunWriter};
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
        let streams = [
            ("reads", true),
            ("large-block-reads", true),
            ("large-block-writes", false),
        ];
        let mut layout = layout(&streams, 0.0, ["/dev/nvme0n1"]);
        layout
            .streams
            .iter_mut()
            .zip(rates)
            .for_each(|(stream, rate)| stream.offered_iops = rate);
        let manifest = Manifest {
            report_interval_sec: 10,
            ..Manifest::new(&layout, Sla::default())
        };
        let mut writer = RunWriter::create(&run, &manifest, &[]).unwrap();
        for index in 0..3 {
            let mut interval = Interval::new(&layout);
            (interval.index, interval.end_ns) = (index, (index + 1) * 10_000_000_000);
            for (cell, ops, us) in [(0, 100, 200 * (index + 1)), (1, 10, 3_000), (2, 900, 7_000)] {
                (0..ops).for_each(|_| {
                    interval.cells[cell].record(&Times::new(0, 0, 0, us * 1_000), 0, 4_096)
                });
            }
            interval.close();
            writer.write_interval(&interval, &[]).unwrap();
        }
        drop(writer);
        let measured = DriveLatencies::read(&run).unwrap();
        let near = |value: f64, us: f64| (value / us / 1e3 - 1.0).abs() < 0.01;
        assert!(
            near(measured.p50_ns.unwrap(), 400.0) && near(measured.p99_ns.unwrap(), 600.0),
            "{measured:?}"
        );
        let [a, b, c] = measured.windows[..] else {
            panic!("{measured:?}")
        };
        assert_eq!(
            [a.start_s, b.start_s, c.start_s, a.load],
            [0.0, 10.0, 20.0, f64::max(rates[0], 1.0)]
        );
        assert!(
            near(a.p50_ns, 200.0) && near(b.mean_ns, 400.0) && near(c.p99_ns, 600.0),
            "{measured:?}"
        );
        assert!(DriveLatencies::read(dir.path()).is_err());
    }
}
