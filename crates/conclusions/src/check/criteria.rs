//! Criteria of a check: metrics, limits with their weight, and the limits of a run's streams that follow from them.

use results::format::{self, duration};
use results::judge::{Limit, Sla, StreamLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

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

    /// Why the limit does not decide: its standing, or its tier. `None` if the limit decides, or if there is none.
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

    /// The deciding limit of a percentile as an SLA: `p99` below 10 ms is `1%>10ms`. Errors: the percent has too many
    /// decimals.
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

/// The limits of the stream `name`; `None` if no criterion limits it. Errors: an SLA cannot express a limit.
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
