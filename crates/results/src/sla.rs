//! The latency limits of a run: maximum shares of operations over thresholds.
//!
//! Text form: `5%>1ms,1%>8ms,0.1%>64ms`. `5%>1ms` means that fewer than 5 % of the operations may take 1 ms or longer.
//! Shares are stored in parts per billion, so that comparisons with counts are exact: 5 of 100 is not below 5 %.

use crate::buckets::{DURATION_MAX_NS, THRESHOLDS_MAX};
use crate::format::{ThresholdText, UNITS_NS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// 100 % in parts per billion.
const WHOLE_PPB: u64 = 1_000_000_000;
const PERCENT_PPB: u64 = WHOLE_PPB / 100;

/// Largest threshold: the longest duration that histograms resolve.
const THRESHOLD_MAX_NS: u64 = DURATION_MAX_NS;

/// Upper bound of a share: fewer than this share of the operations may take the threshold or longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The share, in parts per billion; 1 to 10^9.
    pub share_max_ppb: u64,
    /// The threshold, nanoseconds. As in ACT, an operation of exactly this duration is over the threshold.
    pub threshold_ns: u64,
}

impl Limit {
    /// The share as a fraction in (0, 1], for printing.
    pub fn share_max(&self) -> f64 {
        self.share_max_ppb as f64 / WHOLE_PPB as f64
    }

    /// The share as text: `0.1 %`, exact.
    pub fn share_text(&self) -> String {
        format!("{} %", self.percent())
    }

    /// Text such as `below 5 % over 1 ms`.
    fn words(&self) -> String {
        let threshold = ThresholdText(self.threshold_ns);
        format!("below {} over {threshold:#}", self.share_text())
    }

    /// The share in percent, exact, without trailing zeros.
    fn percent(&self) -> String {
        let percent = self.share_max_ppb / PERCENT_PPB;
        let rest = self.share_max_ppb % PERCENT_PPB;
        match rest {
            0 => percent.to_string(),
            rest => format!("{percent}.{}", format!("{rest:07}").trim_end_matches('0')),
        }
    }

    /// The threshold as text, in the largest unit without a fraction: `8ms`, `500us`.
    pub fn threshold_text(&self) -> String {
        ThresholdText(self.threshold_ns).to_string()
    }

    /// True if `over_ops` of `total_ops` operations reach the limit. Exact.
    pub fn is_exceeded(&self, over_ops: u64, total_ops: u64) -> bool {
        total_ops > 0
            && u128::from(over_ops) * u128::from(WHOLE_PPB)
                >= u128::from(total_ops) * u128::from(self.share_max_ppb)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}%>{}",
            self.percent(),
            ThresholdText(self.threshold_ns)
        )
    }
}

/// The limits of a run, by ascending threshold; 1 to [`THRESHOLDS_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Sla {
    limits: Vec<Limit>,
}

/// Limits of a stream that differ from the limits of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamLimits {
    /// Latency limits; `None`: no latency limits. The thresholds are also thresholds of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
    /// Minimum number of successful operations per second in each slice, on all devices together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_iops: Option<f64>,
    /// Minimum number of bytes per second in each slice, on all devices together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_bytes_per_sec: Option<f64>,
}

impl Default for Sla {
    /// ACT's criterion: < 5 % over 1 ms, < 1 % over 8 ms, < 0.1 % over 64 ms.
    /// Source: ACT's README, the section on passing and failing.
    fn default() -> Self {
        let limit = |share_max_ppb, threshold_ms: u64| Limit {
            share_max_ppb,
            threshold_ns: threshold_ms * 1_000_000,
        };
        Self {
            limits: vec![
                limit(50_000_000, 1),
                limit(10_000_000, 8),
                limit(1_000_000, 64),
            ],
        }
    }
}

impl Sla {
    /// Text such as `below 5 % over 1 ms, below 1 % over 8 ms`.
    pub fn words(&self) -> String {
        let limits: Vec<_> = self.limits.iter().map(Limit::words).collect();
        limits.join(", ")
    }

    /// The SLA of a run without limits: all operations may take up to an hour.
    pub const UNLIMITED: &str = "100%>3600s";

    /// Parses limits given by a user: a larger threshold must not allow a larger share. Recorded limits are parsed
    /// without this check, because every recorded run must stay readable. Errors: the text is not an SLA, or a limit
    /// could never decide.
    pub fn requested(text: &str) -> Result<Self, String> {
        let sla: Self = text.parse()?;
        let pairs = sla.limits.iter().zip(&sla.limits[1..]);
        match pairs
            .into_iter()
            .find(|(smaller, larger)| larger.share_max_ppb > smaller.share_max_ppb)
        {
            None => Ok(sla),
            Some((smaller, larger)) => Err(format!(
                "reading SLA {text:?} - {larger} allows a larger share than {smaller}, but every operation over {} is also \
                 over the smaller threshold, so {larger} could never decide; give the larger threshold the smaller share",
                larger.threshold_text()
            )),
        }
    }

    /// Joins all limits; `combine` combines the shares of limits with the same threshold. Without limits:
    /// [`Self::UNLIMITED`]. With `u64::min` for `combine`, the result has the strictest limits. With `u64::max`,
    /// callers use only the thresholds of the result: the cells count over these thresholds. Errors: more thresholds
    /// than a cell has counters for.
    pub fn joined<'a>(
        slas: impl Iterator<Item = &'a Self>,
        combine: fn(u64, u64) -> u64,
    ) -> Result<Self, String> {
        let mut by_threshold = BTreeMap::new();
        for limit in slas.flat_map(|sla| &sla.limits) {
            let share = by_threshold
                .entry(limit.threshold_ns)
                .or_insert(limit.share_max_ppb);
            *share = combine(limit.share_max_ppb, *share);
        }
        let limit = |(threshold_ns, share_max_ppb)| Limit {
            share_max_ppb,
            threshold_ns,
        };
        let sla = Self {
            limits: by_threshold.into_iter().map(limit).collect(),
        };
        if sla.limits.is_empty() {
            Self::UNLIMITED.parse()
        } else {
            sla.counted(&sla.to_string())
        }
    }

    /// Errors: `text` has more limits than a cell has counters for.
    fn counted(&self, text: &str) -> Result<Self, String> {
        match self.limits.len() {
            ..=THRESHOLDS_MAX => Ok(self.clone()),
            count => Err(format!(
                "reading SLA {text:?} - {count} limits, at most {THRESHOLDS_MAX} are possible; leave some out"
            )),
        }
    }

    pub fn is_unlimited(&self) -> bool {
        matches!(self.limits[..], [limit] if limit.threshold_ns == THRESHOLD_MAX_NS && limit.share_max_ppb == WHOLE_PPB)
    }

    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The thresholds over which the cells count operations, ascending.
    pub fn thresholds_ns(&self) -> Arc<[u64]> {
        self.limits.iter().map(|limit| limit.threshold_ns).collect()
    }

    pub fn tightest_ns(&self) -> u64 {
        self.limits[0].threshold_ns
    }
}

impl From<Limit> for Sla {
    fn from(limit: Limit) -> Self {
        Self {
            limits: vec![limit],
        }
    }
}

impl fmt::Display for Sla {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, limit) in self.limits.iter().enumerate() {
            write!(f, "{}{limit}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Sla {
    type Err = String;

    fn from_str(sla: &str) -> Result<Self, String> {
        let mut limits = sla
            .split(',')
            .map(str::trim)
            .map(|limit: &str| {
            parse_limit(limit).map_err(|why| {
                format!("reading the limit {limit:?} of SLA {sla:?} - {why}; write limits like 5%>1ms,1%>8ms,0.1%>64ms")
            })
        })
            .collect::<Result<Vec<_>, _>>()?;
        limits.sort_by_key(|limit| limit.threshold_ns);
        if let Some(pair) = limits
            .windows(2)
            .find(|pair| pair[0].threshold_ns == pair[1].threshold_ns)
        {
            let threshold = pair[0].threshold_text();
            return Err(format!(
                "reading SLA {sla:?} - two limits for {threshold}; keep the smaller one"
            ));
        }
        Self { limits }.counted(sla)
    }
}

fn parse_limit(text: &str) -> Result<Limit, &'static str> {
    let (share, threshold) = text
        .split_once('>')
        .ok_or("no \">\" between share and threshold (in a shell, quote limits: --sla '5%>1ms')")?;
    let share = share
        .trim()
        .strip_suffix('%')
        .ok_or("the share does not end in \"%\"")?;
    let share_max_ppb = scaled(share.trim(), PERCENT_PPB)
        .ok_or("the share is not a number with at most 7 decimals")?;
    if share_max_ppb == 0 {
        return Err("the share must be above 0 %");
    }
    if share_max_ppb > WHOLE_PPB {
        return Err("the share is above 100 %");
    }
    let threshold = threshold.trim();
    let unit = UNITS_NS
        .into_iter()
        .find_map(|(unit, unit_ns)| Some((threshold.strip_suffix(unit)?, unit_ns)));
    let (number, unit_ns) = unit.ok_or("the threshold has no unit (ns, us, ms or s)")?;
    let threshold_ns = scaled(number.trim(), unit_ns)
        .ok_or("the threshold is not a whole number of nanoseconds")?;
    match threshold_ns {
        0 => Err("the threshold is 0"),
        1..=THRESHOLD_MAX_NS => Ok(Limit {
            share_max_ppb,
            threshold_ns,
        }),
        _ => Err("the threshold is above one hour"),
    }
}

/// A decimal number without sign or exponent, times `scale` (a power of ten); `None` if the product is not whole.
fn scaled(text: &str, scale: u64) -> Option<u64> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if integer.is_empty() || !digits(integer) || !digits(fraction) || text.ends_with('.') {
        return None;
    }
    let mut value = integer.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut digit_scale = scale;
    for digit in fraction.bytes().map(|byte| u64::from(byte - b'0')) {
        digit_scale /= 10;
        if digit_scale == 0 && digit != 0 {
            return None;
        }
        value = value.checked_add(digit * digit_scale)?;
    }
    Some(value)
}

impl TryFrom<String> for Sla {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sla> for String {
    fn from(sla: Sla) -> Self {
        sla.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_limits_are_those_of_act() {
        assert_eq!(Sla::default().to_string(), "5%>1ms,1%>8ms,0.1%>64ms");
        assert_eq!("5%>1ms,1%>8ms,0.1%>64ms".parse(), Ok(Sla::default()));
        assert_eq!(
            *Sla::default().thresholds_ns(),
            [1_000_000, 8_000_000, 64_000_000]
        );
    }

    #[test]
    fn limits_are_parsed_in_any_order_and_unit_with_blanks_and_trailing_zeros() {
        let sla: Sla = " 0.10 % > 0.064s, 1%>8.0ms ,5%>1000us".parse().unwrap();
        assert_eq!(sla, Sla::default());
        let found = "100%>1500ns".parse::<Sla>().unwrap().to_string();
        assert_eq!(found, "100%>1500ns");
        let found = "0.0000001%>2s".parse::<Sla>().unwrap().to_string();
        assert_eq!(found, "0.0000001%>2s");
    }

    #[test]
    fn a_larger_threshold_with_a_larger_share_is_refused_to_users_and_read_from_records() {
        let error = Sla::requested("1%>8ms,0.5%>1ms").unwrap_err();
        assert_eq!(
            error.to_string(),
            "reading SLA \"1%>8ms,0.5%>1ms\" - 1%>8ms allows a larger share than 0.5%>1ms, but every operation over 8ms is \
             also over the smaller threshold, so 1%>8ms could never decide; give the larger threshold the smaller share"
        );
        assert!("1%>8ms,0.5%>1ms".parse::<Sla>().is_ok());
        let found = Sla::requested("5%>1ms,1%>8ms,0.1%>64ms");
        assert_eq!(found, Ok(Sla::default()));
        assert!(
            Sla::requested("5%>1ms,5%>8ms").is_ok(),
            "an equal share says nothing new, and nothing wrong"
        );
        assert!(Sla::requested("5>1ms").is_err());
    }

    #[test]
    fn a_share_equal_to_the_limit_exceeds_the_limit() {
        let limit = "0.7%>1ms".parse::<Sla>().unwrap().limits()[0];
        assert!(limit.is_exceeded(7, 1000));
        assert!(!limit.is_exceeded(6_999, 1_000_000));
        assert!(!limit.is_exceeded(0, 0));
    }

    #[test]
    fn errors_say_what_is_wrong_with_which_limit() {
        for (text, why) in [
            ("", "no \">\""),
            ("5%", "no \">\""),
            ("5>1ms", "does not end in \"%\""),
            ("five%>1ms", "not a number"),
            ("-5%>1ms", "not a number"),
            ("0.00000001%>1ms", "at most 7 decimals"),
            ("0%>1ms", "the share must be above 0 %"),
            ("101%>1ms", "above 100 %"),
            ("5%>1", "no unit"),
            ("5%>0ms", "threshold is 0"),
            ("5%>0.5ns", "not a whole number of nanoseconds"),
            ("5%>2000000s", "above one hour"),
            ("5%>99999999999999999999s", "not a whole number"),
            ("5%>1ms,", "the limit \"\" of SLA"),
            ("5%>1ms,4%>1000us", "two limits for 1ms"),
            (
                "9%>1s,8%>2s,7%>3s,6%>4s,5%>5s,4%>6s,3%>7s,2%>8s,1%>9s",
                "9 limits, at most 8",
            ),
        ] {
            let error = text.parse::<Sla>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn displayed_limits_parse_back(limits in prop::collection::btree_map(1..=THRESHOLD_MAX_NS, 1..=WHOLE_PPB, 1..=THRESHOLDS_MAX)) {
            let limits = limits.into_iter().map(|(threshold_ns, share_max_ppb)| Limit { share_max_ppb, threshold_ns });
            let sla = Sla { limits: limits.collect() };
            prop_assert_eq!(sla.to_string().parse::<Sla>(), Ok(sla));
        }
    }
}
