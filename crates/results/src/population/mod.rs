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
//! Windows of a drive depend on each other: garbage collection takes minutes. So windows are never counted as evidence.
//! The drive is the unit: each has twelve scores (mean, median and 99th percentile of latency; over the whole run, its
//! slowest eighth, its slowest tenth and fiftieth of windows), and a score is compared with the same score of the peers.
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
//! In the evaluation (`tests/population/`), whose scores are not quite normal, 4 of 315 healthy populations of 200 drives
//! had a false alarm. With a spread of 3 % between drives, all drives slow by 2 times were found, and 90 % of those slow by
//! 1.3 times. Of those from hour 10 on, 57 % were found. A drive slow by 1.3 times for a tenth
//! of the time is not found: garbage collection is slower.
//!
//! # The cause
//!
//! From the top down: firmware, host, slot, drive. A group is to blame if its median is an outlier among the groups'
//! medians and more than three quarters of its drives share the slowness; then it is subtracted, and a drive must be slow
//! within its group. Groups are compared with groups: ten drives of a host are one observation of hosts. Two or three
//! firmwares have no spread of their own, so the medians of the hosts with one of them are compared with those of the other
//! hosts by Student's test.
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

mod distributions;
mod examine;
mod measured;
mod outliers;
mod ranks;
mod residuals;
mod tolerance;

pub use examine::examine;
pub use measured::Measured;
pub use ranks::{Comparison, compare};
pub use tolerance::{ToleranceBound, held_by};

use crate::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// Some seconds of a drive under load. Windows of all drives have the same length.
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
        f.write_str(match self {
            Self::Firmware => "firmware",
            Self::Host => "host",
            Self::Slot => "slot",
            Self::Drive => "drive",
        })
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
        write!(f, "{level} {} ({}) is slow: ", units::quoted(name), units::in_one_line(model))?;
        match self.drives.len() {
            1 => {}
            drives => write!(f, "its {drives} drives have ")?,
        }
        write!(f, "{} times the {metric} of {peers} peers {extent}", units::number(*factor))?;
        let since = units::span_of(*since_s);
        let outside = units::percent(*outside);
        write!(
            f,
            ", {} {since}; {outside} of the windows are above the band",
            if *lasting { "since" } else { "at times, first at" }
        )?;
        write!(f, " of the peers, p = {p_value:.1e}")?;
        for (level, name) in &self.or {
            write!(f, "; or it is its {level} {}, which no other drive has", units::quoted(name))?;
        }
        Ok(())
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// Too few drives with enough windows.
    FewDrives { drives: usize },
    /// Fewer windows with peers than 40 % of what the others have.
    FewWindows { windows: usize, typical: usize, alone: usize, invalid: usize },
    /// Slow, but there are too few groups to know how much groups differ.
    FewGroups { factor: f64, groups: usize },
    /// The drives differ so much, or are so few, that only a larger slowdown than this can be found.
    Insensitive { factor: f64, drives: usize },
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot tell for {}", units::in_one_line(&self.model))?;
        if let Some((level, name)) = &self.of {
            write!(f, ", {level} {}", units::quoted(name))?;
        }
        match &self.reason {
            Reason::FewDrives { drives } => {
                write!(
                    f,
                    ": {} with enough windows; add drives, at least 3 are needed",
                    units::count(*drives as u64, "drive")
                )
            }
            Reason::FewWindows { windows, typical, alone, invalid } => write!(
                f,
                ": {windows} windows to compare, {typical} are typical; {alone} had no peers at their time and load, \
                 {invalid} no valid latencies. Run this drive as long and with the same load as the others"
            ),
            Reason::FewGroups { factor, groups } => write!(
                f,
                ": {} times as slow as the others, but {groups} groups do not show how much groups differ. Exchange drives \
                 between them and repeat, or add groups",
                units::number(*factor)
            ),
            Reason::Insensitive { factor, drives } => write!(
                f,
                ": {drives} drives with this spread show only a drive slower by {} times or more; add drives",
                units::number(*factor)
            ),
        }
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
