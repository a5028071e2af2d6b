//! A check of a disk: is the disk good enough for a database? Criteria, measured figures, and the conclusion.
//!
//! ```text
//! criteria -> limits of the streams of a run -> Verdict + figures -> judged criteria -> conclusion
//! ```
//!
//! A short run can pass during a burst: a volume with burst credits, or a drive with an SLC cache, holds a load for a
//! minute, but not for an hour. So each check defines a minimum of time and written bytes. With less, the answer is
//! "tested too briefly".

use crate::percentile;
use results::format::{self, duration, quoted, span};
use results::judge::{Limit, Outcome, ReasonCode, Sla, StreamLimits, Verdict};
use results::run_dir::RunDirError;
use results::steady::{self, ChangePoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

pub const CHECK: &str = "check.json";

/// Version of the record's fields. Raised when a field is removed or changes its meaning.
pub const CHECK_FORMAT_VERSION: u32 = 1;

/// A measured quantity of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
#[schemars(rename = "Metric")]
pub enum CheckMetric {
    /// Percentile of latencies; percent, above 0 and below 100.
    Percentile(f64),
    /// Mean latency.
    Mean,
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
}

impl CheckMetric {
    /// True if the value is a latency in nanoseconds, whose limit is an upper bound.
    pub fn is_latency(self) -> bool {
        matches!(self, Self::Percentile(_) | Self::Mean)
    }

    pub fn percent(self) -> Option<f64> {
        if let Self::Percentile(percent) = self {
            Some(percent)
        } else {
            None
        }
    }

    pub fn text(self, value: f64) -> String {
        match self {
            Self::Percentile(_) | Self::Mean => duration(value.max(0.0) as u64),
            Self::Iops => format!("{}/s", format::number(value)),
            Self::Bandwidth => format!("{}/s", format::bytes(value)),
        }
    }
}

impl fmt::Display for CheckMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(percent) => write!(f, "p{percent}"),
            Self::Mean => f.write_str("mean"),
            Self::Iops => f.write_str("iops"),
            Self::Bandwidth => f.write_str("bandwidth"),
        }
    }
}

impl TryFrom<String> for CheckMetric {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let percent = text
            .strip_prefix('p')
            .and_then(|percent| percent.parse::<f64>().ok());
        match (text.as_str(), percent) {
            ("mean", _) => Ok(Self::Mean),
            ("iops", _) => Ok(Self::Iops),
            ("bandwidth", _) => Ok(Self::Bandwidth),
            (_, Some(percent)) if percent > 0.0 && percent < 100.0 => Ok(Self::Percentile(percent)),
            _ => Err(format!(
                "{text:?} is not a metric: give a percentile such as p99.9, or mean, iops, bandwidth"
            )),
        }
    }
}

impl From<CheckMetric> for String {
    fn from(metric: CheckMetric) -> Self {
        metric.to_string()
    }
}

/// Weight of a limit. Only required and recommended limits decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Standing")]
pub enum LimitStatus {
    /// The makers of the database require the limit. Earlier name: published.
    #[serde(alias = "published")]
    Required,
    /// The makers of the database recommend the limit.
    Recommended,
    /// The software of the makers warns at this level.
    Warning,
    /// The makers published the limit, but no longer do.
    Retired,
    /// The limit is often repeated, but no maker publishes it.
    Folklore,
}

impl LimitStatus {
    pub fn decides(self) -> bool {
        matches!(self, Self::Required | Self::Recommended)
    }
}

impl fmt::Display for LimitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Answer to the question of a check, the best first.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "Answer")]
pub enum CheckAnswer {
    #[serde(rename = "good enough")]
    GoodEnough,
    /// Every deciding limit was held, but perhaps only during a burst, or with too few operations.
    #[serde(rename = "within the limits, but tested too briefly")]
    TooBrief,
    /// No limit decides.
    #[serde(rename = "no published limit")]
    NoLimit,
    /// The runs say nothing about the disk.
    #[default]
    #[serde(rename = "cannot tell")]
    CannotTell,
    #[serde(rename = "not good enough")]
    NotGoodEnough,
}

impl fmt::Display for CheckAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A limit of a metric, or a metric that is only measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Criterion {
    /// Name of the run of the check.
    pub run: String,
    /// Name of the stream of this run: `wal-flushes`.
    pub stream: String,
    pub metric: CheckMetric,
    /// Latency that must not be reached, nanoseconds; minimum number of operations or bytes per second. `None`:
    /// measured only.
    pub limit: Option<f64>,
    /// URL of the page that states the limit.
    pub source: Option<String>,
    /// Date on which the source was read.
    pub looked_up: Option<String>,
    pub standing: Option<LimitStatus>,
    /// Name of the tier of the limit: `a heavily loaded cluster`. `None`: the limit applies to all tiers.
    #[serde(default)]
    pub tier: Option<String>,
    /// True if the tier is not the first one, so that the limit does not decide.
    #[serde(default)]
    pub is_of_higher_tier: bool,
    /// Statement of the source.
    pub says: String,
}

impl Criterion {
    pub fn deciding_limit(&self) -> Option<f64> {
        self.limit
            .filter(|_| !self.is_of_higher_tier && self.standing.is_none_or(LimitStatus::decides))
    }

    /// Why the limit does not decide: its standing, or its tier. `None` if it decides, or without a limit.
    pub fn only_shown_as(&self) -> Option<String> {
        let standing = self
            .standing
            .filter(|_| self.limit.is_some() && self.deciding_limit().is_none())?;
        if standing.decides() {
            self.tier.clone()
        } else {
            Some(standing.to_string())
        }
    }

    /// A percentile's deciding limit: `p99` below 10 ms is `1%>10ms`; else `None`. Errors: too many decimals.
    pub fn sla(&self) -> Result<Option<Sla>, String> {
        let (CheckMetric::Percentile(percent), Some(limit_ns)) =
            (self.metric, self.deciding_limit())
        else {
            return Ok(None);
        };
        let share = format!("{:.7}", 100.0 - percent);
        format!("{share}%>{}ns", limit_ns as u64).parse().map(Some)
    }

    /// `below 10 ms`.
    pub fn limit_text(&self) -> Option<String> {
        let limit = self.metric.text(self.limit?);
        Some(if self.metric.is_latency() {
            format!("below {limit}")
        } else {
            format!("at least {limit}")
        })
    }

    /// `p99 of wal-flushes`.
    pub fn metric_and_stream(&self) -> String {
        match self.metric {
            CheckMetric::Iops => format!("rate of {}", self.stream),
            metric => format!("{metric} of {}", self.stream),
        }
    }
}

/// Minimum time without any completion that counts as a freeze, nanoseconds. A closed loop issues nothing during a
/// freeze, so percentiles hide the freeze. The verdict therefore counts freezes by time. Stalls of some milliseconds
/// are not freezes, because no published limit applies to single stalls.
const FREEZE_NS: u64 = 500_000_000;

/// `None` if no criterion limits the stream. Errors: an SLA cannot express a limit.
pub fn limits_of<'a>(
    name: &str,
    criteria: impl Iterator<Item = &'a Criterion>,
) -> Result<Option<StreamLimits>, String> {
    let of_stream: Vec<_> = criteria
        .filter(|criterion| criterion.stream == name && criterion.deciding_limit().is_some())
        .collect();
    let slas = of_stream
        .iter()
        .map(|criterion| criterion.sla())
        .collect::<Result<Vec<_>, _>>()?;
    let mut slas: Vec<_> = slas.into_iter().flatten().collect();
    let limits = slas.iter().flat_map(Sla::limits);
    let (longest_ns, loosest_ppb) = limits.fold((0, 0), |(ns, ppb), limit| {
        (limit.threshold_ns.max(ns), limit.share_max_ppb.max(ppb))
    });
    if (1..FREEZE_NS).contains(&longest_ns) {
        slas.push(
            Limit {
                share_max_ppb: loosest_ppb,
                threshold_ns: FREEZE_NS,
            }
            .into(),
        );
    }
    let sla = if slas.is_empty() {
        None
    } else {
        Some(Sla::joined(slas.iter(), u64::min)?)
    };
    let limits = StreamLimits {
        sla,
        least_iops: strictest_limit(&of_stream, CheckMetric::Iops),
        least_bytes_per_sec: strictest_limit(&of_stream, CheckMetric::Bandwidth),
    };
    Ok((limits != StreamLimits::default()).then_some(limits))
}

/// The highest deciding limit of `metric`: of several minimum rates, the highest decides.
fn strictest_limit(criteria: &[&Criterion], metric: CheckMetric) -> Option<f64> {
    criteria
        .iter()
        .filter(|criterion| criterion.metric == metric)
        .filter_map(|criterion| criterion.deciding_limit())
        .reduce(f64::max)
}

#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub ops: u64,
    pub bytes: u64,
    /// Duration of the part of the run that is counted, nanoseconds.
    pub ran_ns: u64,
    pub mean_ns: f64,
    /// Percent and latency in nanoseconds, ascending.
    pub percentiles_ns: Vec<(f64, u64)>,
}

impl Figures {
    /// The latency at percentile `percent`, nanoseconds, even if there were few operations.
    fn percentile_ns(&self, percent: f64) -> Option<f64> {
        self.percentiles_ns
            .iter()
            .find(|(of, _)| *of == percent)
            .map(|(_, ns)| *ns as f64)
    }

    /// Value of a metric; `None` if there were too few operations.
    pub fn value(&self, metric: CheckMetric) -> Option<f64> {
        let per_sec =
            |count: u64| (self.ran_ns > 0).then(|| count as f64 * 1e9 / self.ran_ns as f64);
        match metric {
            CheckMetric::Percentile(percent) => self
                .percentile_ns(percent)
                .filter(|_| percentile::is_resolved(self.ops, percent)),
            CheckMetric::Mean => (self.ops > 0).then_some(self.mean_ns),
            CheckMetric::Iops => per_sec(self.ops),
            CheckMetric::Bandwidth => per_sec(self.bytes),
        }
    }
}

/// A criterion with its measured value and outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Judged")]
pub struct JudgedCriterion {
    #[serde(flatten)]
    pub criterion: Criterion,
    /// Measured value: nanoseconds, or operations or bytes per second. For a rate with a limit, the rate of the slowest
    /// slice. `None`: too few operations.
    pub figure: Option<f64>,
    pub outcome: Outcome,
    /// True if the rate after the end of a burst was judged.
    #[serde(default)]
    pub behind_burst: bool,
}

/// Highest rate after the end of a burst, as a fraction of the rate before. Other programs cause smaller drops.
const BURST_END: f64 = 2.0 / 3.0;

/// Minimum time from the end of a burst to the end of the run, seconds, and as a fraction of the run. A stall near the end
/// of a run is no end of a burst.
const BURST_REST_SEC: f64 = 60.0;
const BURST_REST: f64 = 1.0 / 3.0;

/// Ends of bursts: the rate of a stream fell permanently. After a stall the rate rises again.
pub fn burst_ends(points: Vec<ChangePoint>, ran_sec: f64) -> Vec<ChangePoint> {
    let mut ends = Vec::new();
    for point in &points {
        let is_fall = point.metric == steady::RoundMetric::AchievedIops
            && point.after <= point.before * BURST_END
            && ran_sec - point.at_sec as f64 >= BURST_REST_SEC.max(ran_sec * BURST_REST);
        let mut later = points.iter().filter(|later| {
            later.metric == point.metric
                && later.at_sec > point.at_sec
                && later.group == point.group
        });
        if is_fall && !later.any(|later| later.after > point.before * BURST_END) {
            ends.push(point.clone());
        }
    }
    ends
}

/// `burst_ends`: of the run; the sustained state begins after the last.
pub fn judge(
    criterion: &Criterion,
    verdict: &Verdict,
    figures: &Figures,
    burst_ends: &[ChangePoint],
) -> JudgedCriterion {
    let judged = |figure, outcome, behind_burst| JudgedCriterion {
        criterion: criterion.clone(),
        figure,
        outcome,
        behind_burst,
    };
    let figure = figures.value(criterion.metric);
    // The limits of a higher tier do not decide, but their figures are those of deciding limits.
    let decides = criterion.deciding_limit().is_some();
    let is_of_tier =
        criterion.is_of_higher_tier && criterion.standing.is_none_or(LimitStatus::decides);
    let limit = criterion
        .limit
        .filter(|_| decides || is_of_tier && !criterion.metric.is_latency());
    let Some(limit) = limit else {
        return judged(figure, Outcome::Measured, false);
    };
    let group = verdict
        .groups
        .iter()
        .find(|group| group.stream == criterion.stream);
    let slices = group.map_or(&[][..], |group| &group.slices);
    let whole_slices: Vec<_> = slices
        .iter()
        .filter(|slice| slice.complete && slice.scheduled > 0)
        .collect();
    let counted_slices = if whole_slices.is_empty() {
        slices.iter().collect()
    } else {
        whole_slices
    };
    // Units of the metric per operation: bytes, or 1.
    let units_per_op = if criterion.metric == CheckMetric::Bandwidth {
        figures.bytes as f64 / figures.ops.max(1) as f64
    } else {
        1.0
    };
    let (figure, is_missed) = match criterion.metric {
        CheckMetric::Percentile(percent) => {
            let of_sla = criterion
                .sla()
                .ok()
                .flatten()
                .and_then(|sla| sla.limits().first().copied());
            // With few operations the percentile is the longest latency, and the limit still applies.
            (
                figures.percentile_ns(percent).filter(|_| figures.ops > 0),
                of_sla.and_then(|limit: Limit| {
                    let at = verdict
                        .thresholds_ns
                        .iter()
                        .position(|known| *known == limit.threshold_ns)?;
                    Some(counted_slices.iter().any(|slice| {
                        slice
                            .judged_over
                            .get(at)
                            .is_none_or(|over| limit.is_exceeded(*over, slice.scheduled))
                    }))
                }),
            )
        }
        // A mean cannot be judged, because it includes this program's delays.
        CheckMetric::Mean => (figure, None),
        CheckMetric::Iops | CheckMetric::Bandwidth => {
            // A closed loop fills its queue at once. These operations are ahead of a steady rate, and as many
            // operations complete after the end of the run. So their number is subtracted, as in the verdict.
            let total = verdict
                .streams
                .iter()
                .find(|stream| stream.name == criterion.stream);
            let burst_ops = total
                .filter(|stream| stream.offered_iops == 0.0)
                .map_or(0, |stream| stream.overtime);
            let slowest = counted_slices
                .iter()
                .filter(|slice| slice.complete)
                .map(|slice| {
                    let ahead = if slice.slice == 1 { burst_ops } else { 0 };
                    slice.scheduled.saturating_sub(ahead) as f64 * units_per_op
                        / verdict.slice_sec.max(1) as f64
                })
                .reduce(f64::min);
            let figure = slowest.or(figure);
            (figure, figure.map(|figure| figure < limit))
        }
    };
    let last = burst_ends
        .iter()
        .rev()
        .find(|end| end.group.stream == criterion.stream);
    let after_burst = last
        .filter(|_| !criterion.metric.is_latency())
        .map(|end| end.after * units_per_op);
    let (figure, is_missed) = match after_burst {
        Some(after) if after < limit => (Some(after), Some(true)),
        _ => (figure, is_missed),
    };
    let froze = froze(verdict);
    let is_told = criterion
        .metric
        .percent()
        .is_none_or(|percent| percentile::is_resolved(figures.ops, percent));
    let outcome = match (is_missed, verdict.outcome) {
        _ if !decides => Outcome::Measured,
        (None, _) | (_, Outcome::Invalid) => Outcome::Invalid,
        (Some(true), _) => Outcome::Fail,
        (Some(false), _) if verdict.is_broken() || froze => Outcome::Fail,
        // No operation was too slow, but the operations were too few to determine the percentile.
        (Some(false), _) if !is_told => Outcome::Measured,
        (Some(false), _) => Outcome::Pass,
    };
    judged(figure, outcome, after_burst.is_some())
}

fn froze(verdict: &Verdict) -> bool {
    verdict
        .reasons
        .iter()
        .any(|reason| reason.code == ReasonCode::Silence)
}

/// Outcome of a run with these criteria. If no queue depth met fio's latency_target, or the load was not carried out, the
/// run fails only if a criterion has a limit: without one, the load is an assumption. On a busy host a run is invalid
/// instead of failed, unless operations failed or were lost, which happens on any host.
pub fn outcome_of_run<'c>(
    verdict: &Verdict,
    mut criteria: impl Iterator<Item = &'c Criterion>,
    is_host_busy: bool,
) -> Outcome {
    let is_goal = verdict.reasons.first().is_some_and(|reason| {
        matches!(reason.code, ReasonCode::Missed | ReasonCode::NotCarriedOut)
    });
    let is_assumption = is_goal
        && !froze(verdict)
        && criteria.all(|criterion| criterion.deciding_limit().is_none());
    if is_assumption {
        Outcome::Measured
    } else if is_host_busy && verdict.outcome == Outcome::Fail && !verdict.is_broken() {
        Outcome::Invalid
    } else {
        verdict.outcome
    }
}

/// A run of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedRun {
    /// Name of the run, and of its directory below the directory of the check.
    pub name: String,
    pub outcome: Outcome,
    /// The deciding sentence of its verdict.
    pub reason: String,
    pub seconds: f64,
    /// Bytes written.
    #[serde(rename = "written_bytes")]
    pub bytes_written: u64,
    /// Ends of bursts, one sentence each: the rate of a stream fell permanently.
    pub burst_ends: Vec<String>,
    /// True if the program waited for a CPU too long for a limit that was not held to count against the disk.
    #[serde(default)]
    pub is_host_busy: bool,
}

/// Minimum load that shows the sustained state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sustained {
    /// Minimum duration of the load, seconds.
    pub seconds: u64,
    /// Minimum number of written bytes.
    #[serde(rename = "written_bytes")]
    pub bytes_written: u64,
    /// Reason for these minimums, a sentence.
    pub why: String,
}

/// Result of a check of one disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Check")]
pub struct CheckResult {
    /// [`CHECK_FORMAT_VERSION`] of the program that wrote the record.
    pub format_version: u32,
    /// Program and version.
    pub tool: String,
    /// Name of the check.
    pub name: String,
    pub database: String,
    pub question: String,
    /// Directory or device, as the user named it.
    pub path: String,
    /// Kind of disk, as far as known.
    pub disk: Option<String>,
    /// Beginning, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    pub outcome: Outcome,
    #[serde(default)]
    pub answer: CheckAnswer,
    /// The deciding sentence.
    pub sentence: String,
    /// Other sentences about the result.
    pub remarks: Vec<String>,
    /// Names of the tiers of limits, ascending. The limits of the first tier decide.
    #[serde(default)]
    pub tiers: Vec<String>,
    pub criteria: Vec<JudgedCriterion>,
    pub runs: Vec<CheckedRun>,
    pub sustained: Sustained,
    /// Phrases about conditions that the check does not test.
    pub cannot_see: Vec<String>,
    /// Files with measured values in the directory of the check.
    pub files: Vec<String>,
    /// The user's note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl CheckResult {
    /// The worst outcome decides, and limits that were held too briefly are only measured. `why_invalid`: why the
    /// measurements say nothing about the disk.
    pub fn concluded(mut self, why_invalid: Option<String>) -> Self {
        let worst = self
            .runs
            .iter()
            .map(|run| run.outcome)
            .chain(self.criteria.iter().map(|judged| judged.outcome));
        self.outcome = worst.max().unwrap_or(Outcome::Invalid);
        if why_invalid.is_some() {
            self.outcome = Outcome::Invalid;
        }
        if self.outcome == Outcome::Pass
            && (self.limited().next().is_none() || !self.too_brief().is_empty())
        {
            self.outcome = Outcome::Measured;
        }
        self.answer = self.answer_of_outcome();
        self.sentence = why_invalid.unwrap_or_else(|| self.decisive());
        self
    }

    fn answer_of_outcome(&self) -> CheckAnswer {
        match self.outcome {
            Outcome::Pass => CheckAnswer::GoodEnough,
            Outcome::Measured if self.limited().next().is_some() => CheckAnswer::TooBrief,
            Outcome::Measured => CheckAnswer::NoLimit,
            Outcome::Invalid => CheckAnswer::CannotTell,
            Outcome::Fail => CheckAnswer::NotGoodEnough,
        }
    }

    /// Reasons, each with the seconds that suffice: for bytes at the measured rate, for operations roughly.
    fn too_brief(&self) -> Vec<(String, f64)> {
        let seconds = self.runs.iter().map(|run| run.seconds).sum::<f64>();
        let bytes_written = self.runs.iter().map(|run| run.bytes_written).sum::<u64>();
        let Sustained {
            seconds: least_sec,
            bytes_written: least_bytes,
            ..
        } = self.sustained;
        let mut reasons = Vec::new();
        let is_burst_over = self.limited().all(|judged| judged.behind_burst);
        if !is_burst_over && seconds.round() < least_sec as f64 {
            let tested = span(seconds.round() as u64);
            let least = span(least_sec);
            reasons.push((format!("{tested} of {least}"), least_sec as f64));
        }
        if !is_burst_over && bytes_written < least_bytes {
            let tested = format::bytes(bytes_written as f64);
            let least = format::bytes(least_bytes as f64);
            let needed_sec = seconds * least_bytes as f64 / bytes_written.max(1) as f64;
            reasons.push((format!("{tested} of {least} written"), needed_sec));
        }
        for judged in self
            .limited()
            .filter(|judged| judged.outcome == Outcome::Measured)
        {
            let Criterion { run, .. } = &judged.criterion;
            let text = format!(
                "too few operations for {} in {run}",
                judged.criterion.metric_and_stream()
            );
            reasons.push((text, seconds * 10.0));
        }
        reasons
    }

    /// Value of `--for` with which the check is long enough; `None` if the check was not too brief.
    pub fn needed_time(&self) -> Option<u64> {
        let longest_sec = self
            .too_brief()
            .into_iter()
            .map(|(_, seconds)| seconds)
            .reduce(f64::max)?;
        // A check runs for a week at most.
        (self.answer == CheckAnswer::TooBrief).then(|| (longest_sec.ceil() as u64).min(7 * 86_400))
    }

    /// The highest tier whose limits were held, and the worst criterion of the next tier, if there is one.
    pub fn met_tier(&self) -> Option<(&str, Option<&JudgedCriterion>)> {
        let (mut met, higher) = self
            .tiers
            .split_first()
            .filter(|_| self.answer <= CheckAnswer::TooBrief)?;
        for tier in higher {
            let of_tier = self
                .criteria
                .iter()
                .filter(|judged| judged.criterion.only_shown_as().as_ref() == Some(tier));
            match worst(
                of_tier.filter(|judged| judged.figure.is_none() || judged.is_beyond_shown_limit()),
            ) {
                Some(missed) => return Some((met, Some(missed))),
                None => met = tier,
            }
        }
        Some((met, None))
    }

    /// The worst criterion with a limit, otherwise the first criterion. `None` if a rule of a run decided.
    pub fn decisive_criterion(&self) -> Option<&JudgedCriterion> {
        match self.outcome {
            Outcome::Fail | Outcome::Invalid => self
                .nearest()
                .filter(|judged| judged.outcome == self.outcome),
            Outcome::Pass | Outcome::Measured => self
                .nearest()
                .or_else(|| {
                    self.criteria
                        .iter()
                        .find(|judged| judged.criterion.limit.is_some())
                })
                .or(self.criteria.first()),
        }
    }

    /// The criterion that came nearest to its limit, among those with the worst outcome and those of the held tier.
    fn nearest(&self) -> Option<&JudgedCriterion> {
        let outcome = self.limited().map(|judged| judged.outcome).max()?;
        let met = self.met_tier().map(|(met, _)| met);
        worst(self.criteria.iter().filter(|judged| {
            let is_worst = judged.outcome == outcome && judged.criterion.deciding_limit().is_some();
            is_worst || met.is_some() && judged.criterion.only_shown_as().as_deref() == met
        }))
    }

    fn limited(&self) -> impl Iterator<Item = &JudgedCriterion> {
        self.criteria
            .iter()
            .filter(|judged| judged.criterion.deciding_limit().is_some())
    }

    fn decisive(&self) -> String {
        let runs = self.runs.iter().filter(|run| run.outcome == self.outcome);
        let mut run = runs.map(|run| format!("{}: {}", run.name, run.reason));
        // The figure covers the whole run. If the figure of a failed criterion is within its limit, a slice decided,
        // and the reason of the run names this slice.
        let nearest = self
            .nearest()
            .filter(|judged: &&JudgedCriterion| {
                judged.outcome == self.outcome
                    && (self.outcome != Outcome::Fail || judged.fraction_of_limit() >= 1.0)
            })
            .map(JudgedCriterion::sentence);
        match self.answer {
            // A run can fail although no criterion failed: operations failed or were lost, or a device was silent.
            CheckAnswer::NotGoodEnough => nearest.or_else(|| run.next()),
            CheckAnswer::CannotTell => run.next().or(nearest),
            CheckAnswer::GoodEnough => self.met_limits("good enough for", "not for"),
            CheckAnswer::TooBrief => self.repeat(),
            CheckAnswer::NoLimit => self.values(),
        }
        .unwrap_or_else(|| "nothing was measured".to_owned())
    }

    fn met_limits(&self, is: &str, is_not: &str) -> Option<String> {
        let nearest = self.nearest().map(JudgedCriterion::sentence);
        let Some((met, missed)) = self.met_tier() else {
            return nearest;
        };
        let Some(missed) = missed else {
            return Some(format!("{is} {met}: {}", nearest?));
        };
        Some(format!(
            "{is} {met}, {is_not} {}: {}",
            missed.criterion.tier.as_ref()?,
            missed.sentence()
        ))
    }

    fn repeat(&self) -> Option<String> {
        let (reasons, _): (Vec<_>, Vec<_>) = self.too_brief().into_iter().unzip();
        let met = self.met_limits("within the limits of", "not of")?;
        Some(format!(
            "repeat with --for {}: every deciding limit was held, but the test was short ({}). {} Measured: {met}",
            for_option(self.needed_time()?),
            reasons.join(", "),
            self.sustained.why
        ))
    }

    /// The first values of a check without limits.
    fn values(&self) -> Option<String> {
        let values: Vec<_> = self
            .criteria
            .iter()
            .take(3)
            .map(|judged: &JudgedCriterion| {
                let Criterion { run, .. } = &judged.criterion;
                format!(
                    "{} in {run} {}",
                    judged.criterion.metric_and_stream(),
                    judged.figure_text()
                )
            })
            .collect();
        let more = if self.criteria.len() > values.len() {
            "; the table has all"
        } else {
            ""
        };
        (!values.is_empty()).then(|| format!("your values are: {}{more}", values.join(", ")))
    }

    /// `verdicts` has one for each run. A worse outcome than the recorded one is adopted, a better outcome is not.
    pub fn rejudge<'v>(&mut self, verdicts: impl Iterator<Item = &'v Verdict>) {
        for (run, verdict) in self.runs.iter_mut().zip(verdicts) {
            let of_run = self
                .criteria
                .iter()
                .map(|judged| &judged.criterion)
                .filter(|criterion| criterion.run == run.name);
            let rejudged = outcome_of_run(verdict, of_run, run.is_host_busy);
            if rejudged > run.outcome.max(Outcome::Pass) {
                let reason = verdict.reason().unwrap_or_default();
                self.sentence = format!(
                    "{CHECK} says {} for run {}, but the directory of the run says {rejudged}: {reason}",
                    run.outcome, run.name
                );
                run.outcome = rejudged;
                self.outcome = self.outcome.max(rejudged);
            }
        }
        self.answer = self.answer_of_outcome();
    }

    /// Reads the record in `dir`; `None` if there is none. Errors: the record is damaged or of a later version.
    pub fn read(dir: &Path) -> Result<Option<Self>, RunDirError> {
        let path = dir.join(CHECK);
        let mut check: Option<Self> = results::run_dir::read_json(&path, CHECK_FORMAT_VERSION)?;
        // Earlier records have no answer.
        check
            .iter_mut()
            .for_each(|check| check.answer = check.answer_of_outcome());
        let outside = check
            .iter()
            .flat_map(|check| &check.runs)
            .find(|run| run.name.starts_with('.') || run.name.contains('/') || run.name.is_empty());
        match outside {
            None => Ok(check),
            Some(run) => Err(RunDirError::Damaged {
                why: format!(
                    "its run {} is not a directory below the directory of the check",
                    quoted(&run.name)
                ),
                path,
            }),
        }
    }

    pub fn write(&self, dir: &Path) -> Result<(), RunDirError> {
        results::run_dir::write_json(dir, CHECK, self)
    }
}

impl JudgedCriterion {
    /// How much of the limit is used: 1 at the limit, above 1 beyond it; 0 without a figure or limit.
    pub fn fraction_of_limit(&self) -> f64 {
        match (self.figure, self.criterion.limit) {
            (Some(figure), Some(limit)) if self.criterion.metric.is_latency() => figure / limit,
            (Some(figure), Some(limit)) => limit / figure.max(f64::MIN_POSITIVE),
            _ => 0.0,
        }
    }

    pub fn is_beyond_shown_limit(&self) -> bool {
        self.criterion.only_shown_as().is_some() && self.fraction_of_limit() >= 1.0
    }

    pub fn figure_text(&self) -> String {
        self.figure.map_or_else(
            || "too few operations".to_owned(),
            |figure| self.criterion.metric.text(figure),
        )
    }

    pub fn sentence(&self) -> String {
        let Criterion {
            run,
            source,
            standing,
            tier,
            ..
        } = &self.criterion;
        let limit = self.criterion.limit_text().map(|limit| match tier {
            Some(tier) => format!(", {tier} needs {limit}"),
            None if *standing == Some(LimitStatus::Recommended) => {
                format!(", the maker recommends {limit}")
            }
            None if self.criterion.deciding_limit().is_some() => format!(", it must be {limit}"),
            None => format!(", the limit is {limit}"),
        });
        let word = standing
            .filter(|standing| !standing.decides())
            .map(|standing| format!("{standing}: "));
        let source = source
            .as_ref()
            .map(|source| format!(" ({}{source})", word.unwrap_or_default()));
        let limit = limit.unwrap_or_default();
        let source = source.unwrap_or_default();
        format!(
            "{} in {run} was {}{limit}{source}",
            self.criterion.metric_and_stream(),
            self.figure_text()
        )
    }
}

fn worst<'j>(judged: impl Iterator<Item = &'j JudgedCriterion>) -> Option<&'j JudgedCriterion> {
    judged.max_by(|a, b| a.fraction_of_limit().total_cmp(&b.fraction_of_limit()))
}

/// A time as the value of `--for`, rounded up: `90s`, `40m`, `24h`.
pub fn for_option(sec: u64) -> String {
    match sec {
        0..120 => format!("{sec}s"),
        120..36_000 => format!("{}m", sec.div_ceil(60)),
        _ => format!("{}h", sec.div_ceil(3_600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::cell::Interval;
    use results::judge::{End, Judge, JudgePlan};
    use results::steady::Group;
    use results::times::Times;

    fn criterion(metric: &str, limit: f64, standing: LimitStatus) -> Criterion {
        Criterion {
            run: "wal".into(),
            stream: "reads".into(),
            metric: CheckMetric::try_from(metric.to_owned()).unwrap(),
            limit: Some(limit),
            source: Some("https://example.com".into()),
            looked_up: Some("2026-01-01".into()),
            standing: Some(standing),
            tier: None,
            is_of_higher_tier: false,
            says: "mine".into(),
        }
    }

    /// The verdict on a run of one second with `fast` reads of 1 ms and `slow` reads of 20 ms.
    fn verdict(limits: StreamLimits, fast: u64, slow: u64) -> Verdict {
        let mut layout = results::testing::layout(&[("reads", true)], 0.0, ["x".to_owned()]);
        layout.streams[0].limits = Some(limits.clone());
        let sla = Sla::joined(limits.sla.iter(), u64::max).unwrap();
        layout.thresholds_ns = sla.thresholds_ns();
        let mut interval = Interval::new(&layout);
        interval.end_ns = 1_000_000_000;
        for (count, ns) in [(fast, 1_000_000), (slow, 20_000_000)] {
            (0..count).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, ns), 0, 4096));
        }
        interval.close();
        let mut judge = Judge::new(JudgePlan::new(&layout, sla, 1, 1, 1));
        judge.add(&interval);
        judge.verdict(&End::Completed)
    }

    #[test]
    fn criteria_become_limits_of_their_stream_and_folklore_does_not() {
        let published = [
            criterion("p99", 1e7, LimitStatus::Required),
            criterion("iops", 500.0, LimitStatus::Required),
        ];
        let limits = limits_of("reads", published.iter()).unwrap().unwrap();
        assert_eq!(limits.sla.unwrap().to_string(), "1%>10ms,1%>500ms");
        assert_eq!(
            (limits.least_iops, limits.least_bytes_per_sec),
            (Some(500.0), None)
        );
        assert_eq!(limits_of("writes", published.iter()).unwrap(), None);
        let folklore = [criterion("p99.9", 1e7, LimitStatus::Folklore)];
        assert_eq!(limits_of("reads", folklore.iter()).unwrap(), None);
        for wrong in ["p0", "p100", "pNaN", "99", "p", "latency"] {
            assert!(CheckMetric::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_criterion_is_judged_by_exact_counts_and_the_end_of_a_burst_by_the_rate_behind_it() {
        let figures = Figures {
            ops: 1_000,
            bytes: 4_096_000,
            ran_ns: 1_000_000_000,
            mean_ns: 1.2e6,
            percentiles_ns: vec![(99.0, 1_000_000)],
        };
        let p99 = criterion("p99", 1e7, LimitStatus::Required);
        let limits = limits_of("reads", [&p99].into_iter()).unwrap().unwrap();
        let outcome = |slow| {
            judge(
                &p99,
                &verdict(limits.clone(), 1_000 - slow, slow),
                &figures,
                &[],
            )
            .outcome
        };
        assert_eq!(
            [outcome(9), outcome(10)],
            [Outcome::Pass, Outcome::Fail],
            "1 % is not below 1 %"
        );

        let iops = criterion("iops", 900.0, LimitStatus::Required);
        let limits = limits_of("reads", [&iops].into_iter()).unwrap().unwrap();
        let of = |count, burst_ends: &[ChangePoint]| {
            judge(
                &iops,
                &verdict(limits.clone(), count, 0),
                &figures,
                burst_ends,
            )
            .outcome
        };
        assert_eq!([of(900, &[]), of(899, &[])], [Outcome::Pass, Outcome::Fail]);
        let point = |after| ChangePoint {
            group: Group {
                stream: "reads".into(),
                device: None,
            },
            metric: steady::RoundMetric::AchievedIops,
            round: 1,
            at_sec: 1,
            before: 1_500.0,
            after,
        };
        assert_eq!(
            burst_ends(vec![point(1_001.0), point(1_000.0)], 61.0).len(),
            1,
            "a third less is the end of a burst"
        );
        let later = ChangePoint {
            at_sec: 9,
            ..point(1_001.0)
        };
        assert_eq!(
            burst_ends(vec![point(900.0), later], 70.0).len(),
            0,
            "the rate rises again after a stall"
        );
        assert_eq!(
            burst_ends(vec![point(900.0)], 60.0).len(),
            0,
            "a stall near the end is no end of a burst"
        );
        assert_eq!(
            [
                of(950, &burst_ends(vec![point(950.0)], 61.0)),
                of(950, &burst_ends(vec![point(850.0)], 61.0))
            ],
            [Outcome::Pass, Outcome::Fail]
        );
        let mean = criterion("mean", 1e6, LimitStatus::Required);
        assert_eq!(
            judge(
                &mean,
                &verdict(StreamLimits::default(), 10, 0),
                &figures,
                &[]
            )
            .outcome,
            Outcome::Invalid
        );
    }

    fn check(criteria: Vec<JudgedCriterion>) -> CheckResult {
        CheckResult {
            format_version: CHECK_FORMAT_VERSION,
            tool: "flashproof".into(),
            name: "mine".into(),
            database: "mine".into(),
            question: "?".into(),
            path: "sim:".into(),
            disk: None,
            started_unix_ms: 0,
            outcome: Outcome::Pass,
            answer: CheckAnswer::GoodEnough,
            sentence: String::new(),
            remarks: Vec::new(),
            tiers: Vec::new(),
            criteria,
            runs: vec![CheckedRun {
                name: "wal".into(),
                outcome: Outcome::Pass,
                reason: String::new(),
                seconds: 60.0,
                bytes_written: 0,
                burst_ends: Vec::new(),
                is_host_busy: false,
            }],
            sustained: Sustained {
                seconds: 60,
                bytes_written: 0,
                why: "It is so.".into(),
            },
            cannot_see: Vec::new(),
            files: Vec::new(),
            note: None,
        }
    }

    fn judged(criterion: Criterion, figure: f64, outcome: Outcome) -> JudgedCriterion {
        JudgedCriterion {
            criterion,
            figure: Some(figure),
            outcome,
            behind_burst: false,
        }
    }

    #[test]
    fn what_a_busy_host_fails_is_invalid_now_and_when_the_record_is_read_again() {
        let p99 = criterion("p99", 1e7, LimitStatus::Required);
        let limits = limits_of("reads", [&p99].into_iter()).unwrap().unwrap();
        let slow = verdict(limits, 900, 100);
        let outcomes =
            [false, true].map(|is_busy| outcome_of_run(&slow, [&p99].into_iter(), is_busy));
        assert_eq!(outcomes, [Outcome::Fail, Outcome::Invalid]);
        let mut busy = check(vec![judged(p99, 2e7, Outcome::Invalid)]);
        (busy.runs[0].is_host_busy, busy.runs[0].outcome) = (true, Outcome::Invalid);
        let mut busy = busy.concluded(None);
        busy.rejudge([&slow].into_iter());
        assert_eq!(
            (busy.outcome, busy.answer),
            (Outcome::Invalid, CheckAnswer::CannotTell),
            "{}",
            busy.sentence
        );
    }

    #[test]
    fn a_short_test_or_few_operations_are_no_pass_whatever_else_passed() {
        let p99 = judged(
            criterion("p99", 1e7, LimitStatus::Required),
            1e6,
            Outcome::Pass,
        );
        let mut brief = check(vec![p99.clone()]).concluded(None);
        assert_eq!(brief.answer, CheckAnswer::GoodEnough);
        brief.sustained.seconds = 2_400;
        brief = brief.concluded(None);
        assert_eq!(
            (brief.answer, brief.needed_time()),
            (CheckAnswer::TooBrief, Some(2_400))
        );
        let begin = "repeat with --for 40m: every deciding limit was held, but the test was short (60 s of 40 min). It is so. Measured: ";
        assert!(brief.sentence.starts_with(begin), "{}", brief.sentence);

        let few = judged(
            criterion("p99.99", 1e9, LimitStatus::Recommended),
            1e6,
            Outcome::Measured,
        );
        let brief = check(vec![p99.clone(), few]).concluded(None);
        assert_eq!(
            (brief.answer, brief.needed_time().map(for_option)),
            (CheckAnswer::TooBrief, Some("10m".into()))
        );
        assert!(
            brief
                .sentence
                .contains("too few operations for p99.99 of reads in wal"),
            "{}",
            brief.sentence
        );
        let warning = judged(
            criterion("p99", 1e6, LimitStatus::Warning),
            2e6,
            Outcome::Measured,
        );
        let shown = check(vec![p99, warning.clone()]).concluded(None);
        assert_eq!(
            shown.answer,
            CheckAnswer::GoodEnough,
            "a warning decides nothing"
        );
        let unlimited = check(vec![warning]).concluded(None);
        assert_eq!(
            (unlimited.answer, unlimited.outcome),
            (CheckAnswer::NoLimit, Outcome::Measured)
        );
        assert_eq!(
            unlimited.sentence,
            "your values are: p99 of reads in wal 2 ms"
        );
        assert_eq!(
            ["119s", "2m", "24h"].map(String::from),
            [119, 120, 86_399].map(for_option)
        );
    }

    #[test]
    fn the_limits_of_a_higher_tier_are_in_the_sentence_and_decide_nothing() {
        let sentence = |figure| {
            let tiers = vec!["a small cluster".to_owned(), "a large one".to_owned()];
            let limit = |at: usize| {
                let limit = criterion("iops", [50.0, 500.0][at], LimitStatus::Required);
                let limit = Criterion {
                    tier: Some(tiers[at].clone()),
                    is_of_higher_tier: at > 0,
                    ..limit
                };
                judged(limit, figure, [Outcome::Pass, Outcome::Measured][at])
            };
            let criteria = vec![limit(0), limit(1)];
            let check = CheckResult {
                tiers,
                ..check(criteria)
            }
            .concluded(None);
            assert_eq!(check.answer, CheckAnswer::GoodEnough);
            check.sentence
        };
        assert_eq!(
            sentence(230.0),
            "good enough for a small cluster, not for a large one: rate of reads in wal was 230/s, a large one needs at \
             least 500/s (https://example.com)"
        );
        let both = "good enough for a large one: rate of reads in wal was 501/s, a large one needs at least 500/s";
        assert!(sentence(501.0).starts_with(both), "{}", sentence(501.0));
    }

    #[test]
    fn a_record_has_its_answer_even_if_it_is_old_and_one_whose_run_lies_elsewhere_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let criteria = [LimitStatus::Required, LimitStatus::Folklore]
            .map(|of| judged(criterion("p99", 1e7, of), 1e6, Outcome::Pass));
        let check = check(criteria.to_vec());
        check.write(dir.path()).unwrap();
        assert_eq!(
            CheckResult::read(dir.path()).unwrap().as_ref(),
            Some(&check)
        );
        let old = serde_json::to_string(&check)
            .unwrap()
            .replace("\"required\"", "\"published\"");
        let mut old: serde_json::Value = serde_json::from_str(&old).unwrap();
        old.as_object_mut()
            .unwrap()
            .retain(|field, _| field != "answer" && field != "tiers");
        for criterion in old["criteria"].as_array_mut().unwrap() {
            criterion
                .as_object_mut()
                .unwrap()
                .retain(|field, _| !field.contains("tier"));
        }
        results::run_dir::write_json(dir.path(), CHECK, &old).unwrap();
        assert_eq!(
            CheckResult::read(dir.path()).unwrap().as_ref(),
            Some(&check)
        );

        let cached = check.clone().concluded(Some("a cache answered".into()));
        assert_eq!(
            (cached.answer, cached.sentence.as_str()),
            (CheckAnswer::CannotTell, "a cache answered")
        );
        let mut elsewhere = check;
        elsewhere.runs[0].name = "../wal".into();
        elsewhere.write(dir.path()).unwrap();
        let error = CheckResult::read(dir.path()).unwrap_err().to_string();
        assert!(
            error
                .contains("its run \"../wal\" is not a directory below the directory of the check"),
            "{error}"
        );
    }
}
