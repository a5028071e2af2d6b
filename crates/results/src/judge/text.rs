//! The verdict as text for a terminal: the outcome first, then the number that decided, then the details, with rounded
//! numbers.
//!
//! [`RunResult`] holds the fields of a verdict that every output shows: text, JSON, HTML, Markdown, status, comparison,
//! series, fio's output. An output only formats these fields, so no two outputs can disagree.

use super::headline::Headline;
use super::verdict::{
    DelayOwner, End, GroupShares, Outcome, Reason, ReasonCode, RecordsRead, Refused, StreamTotals,
    UnmetLoad, Verdict, VerdictClass, WorkloadVerdict, WorstShare,
};
use crate::cell::GRACE_NS;
use crate::format::{self, Grouped, ThresholdText, percent, percent_exact};
use crate::sla::Sla;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Maximum number of slices listed in a table; longer tables have only the average and the maximum.
const SLICES_LISTED_MAX: usize = 48;
/// Maximum number of blame sentences shown. Further sentences are only counted.
const BLAME_SHOWN_MAX: usize = 3;
/// Maximum number of slices listed for having too few operations. Further slices are only counted.
const INSUFFICIENT_LISTED_MAX: usize = 4;

/// Text such as `in slice 21`. If slice 20 was the first slice over a limit: `in slice 21, the worst from slice 20 on`.
pub(super) fn slices_text(first: Option<u64>, worst: u64) -> String {
    match first.filter(|first| *first < worst) {
        Some(first) => format!("in slice {worst}, the worst from slice {first} on"),
        None => format!("in slice {worst}"),
    }
}

/// `in the hour from 0:30`: names a window that begins in mid-slice, `from_sec` seconds after the run began.
pub(crate) fn between_text(from_sec: u64, slice_sec: u64) -> String {
    let hours = from_sec / 3_600;
    let minutes = from_sec / 60 % 60;
    let seconds = from_sec % 60;
    let seconds = if slice_sec.is_multiple_of(120) {
        String::new()
    } else {
        format!(":{seconds:02}")
    };
    let length = if slice_sec == 3_600 {
        "hour".to_owned()
    } else {
        format::span(slice_sec)
    };
    format!("in the {length} from {hours}:{minutes:02}{seconds}")
}

impl WorstShare {
    /// Text that names the worst window, and the first slice over a limit.
    pub fn slices(&self) -> String {
        match self.from_sec {
            Some(from_sec) => between_text(from_sec, self.length_sec),
            None => {
                let rest = if self.with_rest {
                    " and the remainder after it"
                } else {
                    ""
                };
                slices_text(self.first_slice, self.slice) + rest
            }
        }
    }
}

/// The share with its exact counts, because the percentage is rounded.
impl fmt::Display for WorstShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, of_whole) = if self.cut {
            ("at least ", " due in the whole slice")
        } else {
            ("", "")
        };
        write!(
            f,
            "{prefix}{} of {} on {} took over {:#} {} ({} of {}{of_whole}; it must be below {})",
            percent(self.share),
            self.stream,
            device_text(self.device.as_deref()),
            ThresholdText(self.threshold_ns),
            self.slices(),
            Grouped(self.over),
            Grouped(self.scheduled),
            percent_exact(self.share_max)
        )
    }
}

impl fmt::Display for UnmetLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stream,
            device,
            slices,
            scheduled,
            missed,
            slots_used_by,
            growth_allowed,
            ..
        } = self;
        let in_slice = slices_text(self.first_slice, self.slice);
        let share = percent(*missed as f64 / (*scheduled).max(1) as f64);
        let missed = Grouped(*missed);
        let scheduled = format::count(*scheduled, "operation");
        write!(
            f,
            "the load of {stream} on {device} was not carried out {in_slice}: "
        )?;
        match growth_allowed {
            Some(allowed) => write!(
                f,
                "its backlog grew by {missed} of {scheduled} ({share}) through the slice; at most {} are allowed",
                Grouped(*allowed)
            )?,
            None => write!(
                f,
                "{missed} of {scheduled} ({share}) had not completed {} s after the end of the slice; at most 0.1 % may be \
                 missing",
                GRACE_NS / 1_000_000_000
            )?,
        }
        if *slices > 1 {
            write!(
                f,
                "; the load was not carried out in {} slices in all",
                Grouped(*slices)
            )?;
        }
        slots_used_by.iter().try_for_each(|holder| {
            write!(f, "; these operations waited for slots that {holder} held")
        })
    }
}

pub(super) fn device_text(device: Option<&str>) -> &str {
    device.unwrap_or("all devices together")
}

crate::display!(Outcome {
    Pass => "PASS",
    Fail => "FAIL",
    Invalid => "INVALID",
    Measured => "MEASURED",
});

crate::display!(VerdictClass {
    Screening => "screening",
    CertificationLoad => "certification load",
});

crate::display!(DelayOwner {
    // The counts do not tell a cgroup's limit or a slow network from a slow device.
    Device => "the device or the path to it",
    Limit => "the configured in-flight limit",
    Ours => "this program",
});

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Enough { why } => write!(f, "ended early: {why}"),
            Self::Interrupted { signal } => write!(f, "stopped by {signal}"),
            Self::DeviceGone { device } => write!(f, "{device} is gone"),
            Self::TooManyErrors { errors, errors_max } => {
                write!(
                    f,
                    "stopped after {} ({errors_max} are allowed)",
                    format::count(*errors, "error")
                )
            }
            Self::LagExceeded {
                lane,
                whose,
                lag_ms,
                lag_max_ms,
                in_flight,
                in_flight_max,
            } => {
                let lag_sec = *lag_ms as f64 / 1000.0;
                let lag_max_sec = *lag_max_ms as f64 / 1000.0;
                write!(
                    f,
                    "stopped because {lane} was {lag_sec:.1} s late (max-lag-sec {lag_max_sec}), with {in_flight} of \
                     at most {} in flight; the bottleneck was {whose}",
                    format::count(*in_flight_max, "operation")
                )?;
                if lane.starts_with("large-block-") && *in_flight_max == 1 {
                    f.write_str(", with large blocks issued one at a time, as in ACT (large-block-concurrency)")?;
                }
                Ok(())
            }
            Self::Suspended { asleep_ms, .. } => write!(
                f,
                "stopped because the machine slept for {}: drives rest and may lose power during a sleep; run the test \
                 again on a machine that stays awake",
                format::duration(asleep_ms.saturating_mul(1_000_000))
            ),
            Self::RecordingFailed { why } => write!(f, "stopped because recording failed: {why}"),
            Self::EngineFailed { why } => write!(f, "stopped because the I/O engine failed: {why}"),
            Self::LoadStuck { why } => {
                write!(f, "stopped because the load could not continue: {why}")
            }
            Self::Unrecorded => {
                f.write_str("ended without a recorded reason (killed, or the machine stopped)")
            }
        }
    }
}

impl fmt::Display for RecordsRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read", format::count(self.records, "record"))?;
        let Some(Refused {
            old,
            missing,
            foreign,
            torn,
        }) = self.refused
        else {
            return Ok(());
        };
        let old = Grouped(old);
        let missing = Grouped(missing);
        let foreign = Grouped(foreign);
        let torn = Grouped(torn);
        write!(
            f,
            " and verified: {old} old, {missing} missing, {foreign} foreign, {torn} torn"
        )
    }
}

impl Verdict {
    /// Text such as `limits: below 5 % over 1 ms`.
    fn limits_text(&self) -> String {
        if self.has_no_limits() {
            return "no limits".to_owned();
        }
        let limits = self.sla.parse().map(|sla: Sla| sla.words());
        format!("limits: {}", limits.unwrap_or_else(|_| self.sla.clone()))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partial = if self.partial { ", partial" } else { "" };
        let limits = self.limits_text();
        let result = self.result();
        writeln!(f, "{}: {}", self.outcome, result.headline)?;
        writeln!(f, "  {}{partial}, {limits}", self.class)?;
        result
            .details()
            .try_for_each(|other| writeln!(f, "  {other}"))?;
        self.fmt_blame(f)?;
        self.fmt_insufficient(f)?;
        for group in self.groups_shown() {
            self.fmt_group(f, group)?;
        }
        let shown_count = self.groups_shown().count();
        let hidden_count = self.groups.len() - shown_count;
        if shown_count > 0 && hidden_count > 0 {
            let (tables, are) = if hidden_count == 1 {
                ("table of a single device", "is")
            } else {
                ("tables of single devices", "are")
            };
            writeln!(f, "\n{hidden_count} more {tables} {are} in verdict.json")?;
        }
        self.fmt_streams(f)
    }
}

impl Verdict {
    /// Groups shown as tables: all devices together, and the device that decided (or the only device).
    fn groups_shown(&self) -> impl Iterator<Item = &GroupShares> {
        // Without limits, tables of shares mean nothing.
        let is_judged = !self.has_no_limits();
        let several = self.groups.iter().any(|group| group.device.is_none());
        self.groups
            .iter()
            .filter(move |_| is_judged)
            .filter(move |group| {
                let decided =
                    |by: &WorstShare| by.stream == group.stream && by.device == group.device;
                !several || group.device.is_none() || self.decided_by.as_ref().is_some_and(decided)
            })
    }

    fn fmt_blame(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for blame in self.blame.iter().take(BLAME_SHOWN_MAX) {
            writeln!(f, "  where the time went: {}", blame.sentence)?;
        }
        match self.blame.len().saturating_sub(BLAME_SHOWN_MAX) {
            0 => Ok(()),
            more => writeln!(f, "  where the time went: {more} more in verdict.json"),
        }
    }

    fn fmt_insufficient(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.insufficient.iter().take(INSUFFICIENT_LISTED_MAX) {
            writeln!(
                f,
                "  insufficient: slice {} of {} on {} has {}, below {}: its share is unreliable",
                entry.slice,
                entry.stream,
                device_text(entry.device.as_deref()),
                format::count(entry.scheduled, "operation"),
                Grouped(super::SLICE_OPS_MIN)
            )?;
        }
        match self
            .insufficient
            .len()
            .saturating_sub(INSUFFICIENT_LISTED_MAX)
        {
            0 => Ok(()),
            more => writeln!(f, "  insufficient: {more} more slices, see verdict.json"),
        }
    }

    /// Writes a table like that of ACT's analysis: slices, average, maximum.
    fn fmt_group(&self, f: &mut fmt::Formatter<'_>, group: &GroupShares) -> fmt::Result {
        writeln!(
            f,
            "\n        {} on {}",
            group.stream,
            device_text(group.device.as_deref())
        )?;
        writeln!(f, "        % over, slices of {} s", Grouped(self.slice_sec))?;
        write!(f, "slice  ")?;
        for threshold_ns in &self.thresholds_ns {
            write!(f, "{:>8}", ThresholdText(*threshold_ns).to_string())?;
        }
        let rule = format!("\n-----  {}", " -------".repeat(self.thresholds_ns.len()));
        writeln!(f, "{rule}")?;
        let none_complete = group.slices.iter().all(|slice| !slice.complete);
        if group.slices.len() <= SLICES_LISTED_MAX {
            for slice in &group.slices {
                let note = match (slice.complete, none_complete) {
                    (true, _) => "",
                    (false, true) => "   incomplete: % of the operations that ran",
                    (false, false) => "   incomplete: judged together with the slice before",
                };
                writeln!(
                    f,
                    "{:>5}  {}{note}",
                    slice.slice,
                    self.row(slice.judged_share.as_deref())
                )?;
            }
        } else {
            writeln!(
                f,
                "{} slices, each in verdict.json",
                Grouped(group.slices.len() as u64)
            )?;
        }
        write!(f, "{}", rule.trim_start())?;
        let shares: Vec<&[f64]> = group
            .slices
            .iter()
            .filter_map(|slice| slice.judged_share.as_deref())
            .collect();
        let mut averages = Vec::new();
        let mut maxima = Vec::new();
        for column in 0..self.thresholds_ns.len() {
            let of_column = shares.iter().map(|shares| shares[column]);
            averages.push(of_column.clone().sum::<f64>() / shares.len() as f64);
            maxima.push(of_column.fold(0.0, f64::max));
        }
        let any = !shares.is_empty();
        writeln!(f, "\n  avg  {}", self.row(any.then_some(&averages[..])))?;
        writeln!(f, "  max  {}", self.row(any.then_some(&maxima[..])))
    }

    /// A row of percentages with two decimals, as in ACT.
    fn row(&self, shares: Option<&[f64]>) -> String {
        let Some(shares) = shares else {
            return format!("{:>8}", "-").repeat(self.thresholds_ns.len());
        };
        let cell = |share: &f64| match share * 100.0 {
            percent if percent > 0.0 && percent < 0.01 => format!("{:>8}", "<0.01"),
            percent => format!("{percent:>8.2}"),
        };
        shares.iter().map(cell).collect()
    }

    fn fmt_streams(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .streams
            .iter()
            .map(|stream| stream.name.len())
            .max()
            .unwrap_or(0)
            .max("stream".len());
        writeln!(
            f,
            "\n{:width$} {:>12} {:>12} {:>8} {:>12}",
            "stream", "offered/s", "achieved/s", "errors", "not done"
        )?;
        for stream in &self.streams {
            let offered = if stream.offered_iops > 0.0 {
                rate(stream.offered_iops)
            } else {
                "closed".to_owned()
            };
            writeln!(
                f,
                "{:width$} {offered:>12} {:>12} {:>8} {:>12}",
                stream.name,
                rate(stream.achieved_iops),
                Grouped(stream.errors),
                Grouped(stream.not_done())
            )?;
        }
        Ok(())
    }

    pub fn result(&self) -> RunResult {
        let mut reasons = self.reasons.clone();
        for (code, failures) in [
            (ReasonCode::WrongData, &self.wrong_data),
            (ReasonCode::IoError, &self.failures),
        ] {
            // The reason that counts the failures describes the first one. A sleep of the machine removes this reason.
            let is_counted = reasons.iter().any(|reason| reason.code == code);
            reasons.extend(
                failures
                    .iter()
                    .skip(1)
                    .filter(|_| is_counted)
                    .map(|text| Reason::new(code, text)),
            );
        }
        let worst = self.decided_by.as_ref().filter(|_| !self.has_no_limits());
        let untold = worst
            .map(WorstShare::to_string)
            .filter(|text| reasons.iter().all(|reason| reason.text != *text));
        reasons.extend(
            untold.map(|text| Reason::new(ReasonCode::Note, format!("worst share: {text}"))),
        );
        let undone = self
            .undone
            .first()
            .map(|undone| (undone.first_slice, undone.slice));
        let over_limit = worst
            .filter(|worst| worst.is_over())
            .map(|worst| (worst.first_slice, worst.slice));
        let bad_slices = undone.or(over_limit);
        RunResult {
            outcome: self.outcome,
            exit_code: self.outcome.exit_code(),
            headline: self.headline(),
            reason: reasons.first().map_or_else(
                || "there was nothing to judge".to_owned(),
                ToString::to_string,
            ),
            reasons,
            first_bad_slice: bad_slices.map(|(first, worst)| first.unwrap_or(worst).min(worst)),
            worst_slice: bad_slices.map(|(_, worst)| worst),
            streams: self.streams.clone(),
            records_read: self.records_read,
            workloads: self.workloads.clone(),
            not_judged: self.not_judged(),
        }
    }

    pub fn has_no_limits(&self) -> bool {
        self.sla == Sla::UNLIMITED
    }

    fn not_judged(&self) -> Vec<String> {
        let unlimited: Vec<_> = self
            .streams
            .iter()
            .filter(|stream| !stream.judged)
            .map(|it| &*it.name)
            .collect();
        let latencies = if self.has_no_limits() {
            Some("latencies: no limits were given".to_owned())
        } else if unlimited.is_empty() {
            None
        } else {
            Some(format!(
                "latencies of {}: no limits apply to these streams",
                unlimited.join(", ")
            ))
        };
        let left_sec = self.duration_sec.saturating_sub(self.ran_sec as u64);
        let left = (self.partial && left_sec > 0).then(|| {
            format!(
                "the last {} s of {}: the run was stopped",
                Grouped(left_sec),
                Grouped(self.duration_sec)
            )
        });
        latencies.into_iter().chain(left).collect()
    }
}

/// Operations per second: a whole number from 100 on, two decimals below.
fn rate(iops: f64) -> String {
    if iops >= 100.0 {
        Grouped(iops.round() as u64).to_string()
    } else {
        format!("{iops:.2}")
    }
}

/// The part of a verdict that every output shows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunResult {
    /// Pass, fail, invalid or measured.
    pub outcome: Outcome,
    /// The exit code of a command that judges.
    pub exit_code: u8,
    /// The answer in one sentence, and the next step.
    pub headline: Headline,
    /// The first of `reasons`.
    pub reason: String,
    /// Reasons for the outcome, the most important first.
    pub reasons: Vec<Reason>,
    /// The first slice, from 1, that failed the run; null if no slice did.
    pub first_bad_slice: Option<u64>,
    /// The worst slice, from 1; null if no slice failed the run.
    pub worst_slice: Option<u64>,
    /// Totals of the streams.
    pub streams: Vec<StreamTotals>,
    /// Records read from a database, if records were verified or read in batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_read: Option<RecordsRead>,
    /// Verdicts on the single workloads of a run with several workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadVerdict>,
    /// Phrases: parts of the run that the outcome does not cover.
    pub not_judged: Vec<String>,
}

impl RunResult {
    /// Sentences below the headline: records read, and the reasons that the headline does not repeat.
    pub fn details(&self) -> impl Iterator<Item = String> + '_ {
        let reasons = self.reasons.iter();
        let reasons = reasons.filter_map(|reason| self.headline.unless_said(&reason.text));
        let reasons = reasons.map(str::to_owned);
        let workloads = self.workloads.iter().map(|workload| {
            let why = workload
                .reasons
                .first()
                .map_or("", |reason| reason.text.as_str());
            format!("{}: {}: {why}", workload.name, workload.outcome)
        });
        let not_judged = self
            .not_judged
            .iter()
            .map(|what| format!("not judged: {what}"));
        let records_read = self.records_read.map(|read| read.to_string());
        records_read
            .into_iter()
            .chain(reasons)
            .chain(workloads)
            .chain(not_judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_counts_each_kind_of_refused_record() {
        let refused = Refused {
            old: 5,
            missing: 1,
            torn: 1_500,
            ..Refused::default()
        };
        let read = RecordsRead {
            records: 39_488,
            refused: Some(refused),
        };
        let text = "39,488 records read and verified: 5 old, 1 missing, 0 foreign, 1,500 torn";
        assert_eq!(read.to_string(), text);
        let found = RecordsRead {
            records: 1,
            refused: None,
        }
        .to_string();
        assert_eq!(found, "1 record read");
    }
}
