//! The verdict as data: the contents of `verdict.json`. [`End`] tells how a run ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the verdict's fields. Raised when one changes its meaning or goes; fields, reason codes and values of an
/// enumeration may be added without that. Version 2: reasons have codes, and operations count in the slice in which they
/// were wanted.
pub const VERDICT_FORMAT_VERSION: u32 = 2;

/// A slice with fewer operations than this is reported as insufficient: at the default limit of 0.1 %, three slow
/// operations would already decide.
pub const SLICE_OPS_MIN: u64 = 3_000;

/// Seconds of the load that ACT's users call a certification.
pub(super) const DAY_SEC: u64 = 86_400;

/// Result of a run for the device, the worst last: a failure is worse than an unknown result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// There was no limit to judge by, and the whole load was done.
    Measured,
    /// The device held the load.
    Pass,
    /// The run cannot tell.
    Invalid,
    /// The device did not hold the load.
    Fail,
}

impl Outcome {
    /// Exit status of a command that judges: 0 pass or measured, 1 fail, 4 invalid.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass | Self::Measured => 0,
            Self::Fail => 1,
            Self::Invalid => 4,
        }
    }
}

/// How much a verdict weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Shorter than a day: finds bad devices, certifies none.
    Screening,
    /// A full day.
    CertificationLoad,
}

/// The number that decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deciding {
    /// The judged stream.
    pub stream: String,
    /// The device; `None` for all together.
    pub device: Option<String>,
    /// The slice, from 1; of the last one and the remainder after it together, the last one.
    pub slice: u64,
    /// True if the remainder of the run after that slice is counted with it.
    #[serde(default)]
    pub with_rest: bool,
    /// The first slice in which a limit of the same stream and device was exceeded, from 1; `None` where none was.
    #[serde(default)]
    pub first_slice: Option<u64>,
    /// The threshold, nanoseconds.
    pub threshold_ns: u64,
    /// Operations over it.
    pub over: u64,
    /// Operations wanted; of a slice that was cut short, as many as the whole of it would have wanted.
    pub wanted: u64,
    /// True if the slice was cut short: the share of the whole slice is then at least this.
    pub cut: bool,
    /// `over / wanted`, a fraction.
    pub share: f64,
    /// The share must be below this, a fraction.
    pub share_max: f64,
}

impl Deciding {
    /// True if the share reached its limit.
    pub fn is_over(&self) -> bool {
        self.first_slice.is_some()
    }
}

/// One slice of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceShares {
    /// From 1.
    pub slice: u64,
    /// True if the run lasted to its end. What is left after the last complete slice is judged together with that, and
    /// from [`SLICE_OPS_MIN`] operations up alone as well.
    pub complete: bool,
    /// Operations wanted: succeeded, failed and never issued.
    pub wanted: u64,
    /// As many as the whole slice wants: more than `wanted` if it was cut short, by its stream's rate. What is
    /// over a threshold is too much only of these. `None` if that has no rate.
    pub whole: Option<u64>,
    /// Over each threshold by `wait + service`.
    pub judged_over: Vec<u64>,
    /// Over each threshold by `wait + lag + service`.
    pub response_over: Vec<u64>,
    /// `judged_over / wanted`; `None` without operations.
    pub judged_share: Option<Vec<f64>>,
    /// `response_over / wanted`; `None` without operations.
    pub response_share: Option<Vec<f64>>,
}

/// All slices of a judged stream on one device, or on all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// The stream.
    pub stream: String,
    /// The device; `None` for all together.
    pub device: Option<String>,
    /// Oldest first.
    pub slices: Vec<SliceShares>,
}

/// A judged slice with too few operations to say much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Insufficient {
    /// The stream.
    pub stream: String,
    /// The device; `None` for all together.
    pub device: Option<String>,
    /// The slice, from 1.
    pub slice: u64,
    /// Its operations, below [`SLICE_OPS_MIN`].
    pub wanted: u64,
}

/// A stream over the whole run and all devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamTotals {
    /// The stream.
    pub name: String,
    /// True if the verdict judges the stream.
    pub judged: bool,
    /// Operations a second asked for; 0 for a closed stream.
    pub offered_iops: f64,
    /// Operations a second that succeeded within the run.
    pub achieved_iops: f64,
    /// Operations that succeeded.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Part of `ops` that completed only after the end of the run: its backlog.
    pub overtime: u64,
    /// Operations that were wanted and never issued.
    pub unissued: u64,
    /// Operations that were issued and never came back.
    #[serde(default)]
    pub lost: u64,
}

impl StreamTotals {
    /// Operations that were wanted and never came back, issued or not.
    pub fn not_done(&self) -> u64 {
        self.unissued.saturating_add(self.lost)
    }
}

/// How long completions can have lain unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapSummary {
    /// Gaps, one for each completion.
    pub count: u64,
    /// The longest harmless gap: 5 % of the tightest threshold, nanoseconds.
    pub limit_ns: u64,
    /// Gaps over that. More than 1 % of all means that their p99 is over it.
    pub over: u64,
    /// The longest, nanoseconds, to the histogram's resolution of 1 %.
    pub max_ns: u64,
}

/// A stream whose load was not carried out on a device.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Undone {
    /// The stream, judged or not.
    pub stream: String,
    /// The device.
    pub device: String,
    /// The slice in which most was left undone, from 1.
    pub slice: u64,
    /// The first slice whose load was not done. `None` in verdicts of format 1.
    #[serde(default)]
    pub first_slice: Option<u64>,
    /// In how many slices its load was not done.
    pub slices: u64,
    /// Operations wanted in that slice.
    pub wanted: u64,
    /// Part of `wanted` that was not back in time. 0 in verdicts of format 1.
    #[serde(default)]
    pub missed: u64,
    /// True if this program kept them back, and not the device or a limit of operations in flight.
    pub ours: bool,
    /// Stream and device whose operations held the slots that these waited for: `reads@/dev/nvme0n1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// Who or what made operations slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// This program issued late.
    OurLag,
    /// Operations waited for a slot under the limit of operations in flight.
    SlotWait,
    /// The kernel held requests before it issued them to the device (throttling, scheduler, tags).
    KernelQueue,
    /// The device took long, from issue to completion.
    Device,
    /// A server took long, or the network to it.
    Server,
    /// The host: stolen time, no CPU free, all interrupts on one CPU.
    Host,
    /// The drive throttled itself because it was hot.
    Heat,
    /// The record does not tell.
    Unknown,
}

/// One cause with its part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlamePart {
    /// Who or what.
    pub cause: Cause,
    /// Its part of the time of the operations over the threshold, a fraction in [0, 1]: their times are
    /// added up, so that one that took long weighs as much as many that did not. One without times
    /// (failed, never issued) weighs as the mean of the others. `None` where there is evidence for the
    /// cause but no number.
    pub share: Option<f64>,
    /// The evidence with its numbers and units, a phrase.
    pub evidence: String,
}

/// The blame for one slice of one judged stream that was over one threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// The stream.
    pub stream: String,
    /// The device; `None` for all together.
    pub device: Option<String>,
    /// The slice, from 1.
    pub slice: u64,
    /// The threshold whose limit was reached, nanoseconds.
    pub threshold_ns: u64,
    /// Operations over it, by `wait + service`; by `wait + lag + service` where only that is over the
    /// limit.
    pub over: u64,
    /// Operations wanted.
    pub wanted: u64,
    /// Causes, the largest part first, those without a number last; never empty.
    pub parts: Vec<BlamePart>,
    /// All of it in one sentence, for a verdict.
    pub sentence: String,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// [`VERDICT_FORMAT_VERSION`].
    pub format_version: u32,
    /// Pass, fail or invalid.
    pub outcome: Outcome,
    /// Screening or certification load.
    pub class: Class,
    /// True if the run stopped before its time.
    pub partial: bool,
    /// How it ended.
    pub end: End,
    /// Why this outcome, most important first.
    pub reasons: Vec<Reason>,
    /// The first operations that failed, each a sentence with what the system or the drive answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Targets other than limits that the run missed, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// Remarks of the jobs, which decide nothing, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Records read from a database, where they were verified or read in batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_read: Option<RecordsRead>,
    /// Of a run of several workloads: each alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadVerdict>,
    /// The worst share by its limit; `None` when nothing was there to judge.
    pub decided_by: Option<Deciding>,
    /// The worst share over each threshold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<Deciding>,
    /// The limits in text form.
    pub sla: String,
    /// The thresholds, nanoseconds, ascending: the columns of every share.
    pub thresholds_ns: Vec<u64>,
    /// Length of a slice, seconds.
    pub slice_sec: u64,
    /// How long the run should last, seconds.
    pub duration_sec: u64,
    /// How long it lasted, seconds.
    pub ran_sec: f64,
    /// Judged streams, over all devices first, then on each.
    pub groups: Vec<Group>,
    /// Streams whose load was not done, judged or not: on each device, those that left most undone first.
    pub undone: Vec<Undone>,
    /// Slices with too few operations.
    pub insufficient: Vec<Insufficient>,
    /// All streams.
    pub streams: Vec<StreamTotals>,
    /// Gaps between two looks at the completion queue.
    pub gaps: GapSummary,
    /// Where the time went in slices over a threshold; empty if none was, or if nobody asked. What
    /// stands here explains and never decides.
    pub blame: Vec<Blame>,
}

/// Records read in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordsRead {
    /// Records that were answered; a request for a batch reads several.
    pub records: u64,
    /// Records that were refused; null without verification.
    pub refused: Option<Refused>,
}

/// Records that are no possible result of the writes to them: each once, until it is written again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// An earlier write than the last acknowledged one.
    pub old: u64,
    /// No record.
    pub missing: u64,
    /// A value of another key, or of no write of this client.
    pub foreign: u64,
    /// A mix of two writes, or bytes that differ inside a write.
    pub torn: u64,
}

/// Verdict on one of several workloads of a run, by its own streams.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct WorkloadVerdict {
    /// Name of the workload.
    pub name: String,
    /// Pass, fail or invalid.
    pub outcome: Outcome,
    /// Why, most important first.
    pub reasons: Vec<Reason>,
}

/// A sentence of a verdict, and the code by which a program knows what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// Stays the same from version to version.
    pub code: Code,
    /// One sentence, whose words may change.
    pub text: String,
}

/// Reads format 1, too, whose reasons are plain sentences.
impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any {
            Coded { code: Code, text: String },
            Bare(String),
        }
        Ok(match Any::deserialize(from)? {
            Any::Coded { code, text } => Self { code, text },
            Any::Bare(text) => Self { code: Code::Unknown, text },
        })
    }
}

impl Reason {
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kind of a reason. docs/verdict.md lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Operations failed.
    IoError,
    /// A device went away.
    DeviceGone,
    /// Operations were issued and never came back.
    Lost,
    /// A stream fell further behind its schedule than max-lag-sec.
    FellBehind,
    /// A target other than a limit was missed: a latency target, a minimum rate, a number of operations.
    Missed,
    /// This program's own lag would decide.
    OwnLag,
    /// No operation of a judged stream was recorded.
    NothingJudged,
    /// The load of a stream was not done.
    NotCarriedOut,
    /// Too many operations of a stream without limits were late.
    Late,
    /// A device returned nothing for too long.
    Silence,
    /// A stream did fewer operations or bytes a second than its limit.
    BelowRate,
    /// A share of slow operations reached its limit.
    OverLimit,
    /// The run was stopped before its time.
    Stopped,
    /// The run was stopped for what concerns another workload.
    StoppedForAnother,
    /// The run directory is incomplete or damaged.
    Damaged,
    /// Judged by the rules of the version that recorded the run.
    OldRules,
    /// The share that came nearest to its limit; every limit was held.
    Held,
    /// No limits were given.
    NoLimits,
    /// A remark that does not decide: how closed loops hide stalls, that times are overstated, that rates were not
    /// reached within the run's time.
    Note,
    /// Of a verdict of format 1, or of a later version.
    #[serde(other)]
    Unknown,
}

impl Verdict {
    /// The sentence that decided.
    pub fn reason(&self) -> Option<&str> {
        self.reasons.first().map(|reason| reason.text.as_str())
    }

    /// True if operations failed, or their device went away: no other load would avoid that.
    pub fn is_broken(&self) -> bool {
        matches!(self.reasons.first(), Some(Reason { code: Code::IoError | Code::DeviceGone | Code::Lost, .. }))
    }

    /// Fails the run for missed targets other than its limits, each a sentence.
    pub fn fail_for(&mut self, missed: Vec<String>) {
        if missed.is_empty() {
            return;
        }
        self.outcome = Outcome::Fail;
        // These reasons hold only for a run without requirements.
        self.reasons.retain(|reason| !matches!(reason.code, Code::NoLimits | Code::Held));
        self.reasons.splice(0..0, missed.iter().map(|text| Reason::new(Code::Missed, text)));
        self.missed = missed;
    }

    /// Adds `notes` beside the reasons, each a sentence.
    pub fn note(&mut self, notes: Vec<String>) {
        self.reasons.extend(notes.iter().map(|text| Reason::new(Code::Note, text)));
        self.notes = notes;
    }

    /// True if both have the same content, ignoring wording: a later version may explain better. For verdicts of two
    /// formats only the outcomes are compared.
    pub fn agrees_with(&self, other: &Self) -> bool {
        if self.format_version != other.format_version {
            // Newer rules are stricter, never more lenient.
            return other.outcome == Outcome::Fail
                || self.outcome.max(Outcome::Pass) == other.outcome.max(Outcome::Pass);
        }
        let wordless = |verdict: &Self| {
            let mut bare = Self { reasons: Vec::new(), blame: Vec::new(), worst: Vec::new(), ..verdict.clone() };
            bare.workloads.iter_mut().for_each(|workload| workload.reasons.clear());
            bare
        };
        wordless(self) == wordless(other)
    }
}

/// Who kept operations back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// The device did not keep up.
    Device,
    /// The configured limit of operations in flight was in the way.
    Limit,
    /// This program was late.
    Ours,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum End {
    /// After its full time.
    Completed,
    /// Before it, because enough had been seen: it lasted as long as it should.
    Enough {
        /// The reason to stop, a phrase: `the judged shares were steady`.
        why: String,
    },
    /// By a signal.
    Interrupted {
        /// Its name: `SIGINT`.
        signal: String,
    },
    /// A device went away.
    DeviceGone {
        /// Which.
        device: String,
    },
    /// More operations failed than allowed.
    TooManyErrors {
        /// How many there were.
        errors: u64,
        /// How many were allowed.
        errors_max: u64,
    },
    /// Operations were started so late that the load was no longer the one asked for.
    LagExceeded {
        /// The stream and device that were late: `reads@/dev/nvme0n1`.
        lane: String,
        /// Who was slow.
        whose: Whose,
        /// How late, milliseconds.
        lag_ms: u64,
        /// How late it may be, milliseconds.
        lag_max_ms: u64,
        /// Operations in flight at that moment.
        in_flight: u64,
        /// The limit of operations in flight.
        in_flight_max: u64,
    },
    /// The run directory could not be written any more.
    RecordingFailed {
        /// The error, one sentence.
        why: String,
    },
    /// The engine failed, not the operations.
    EngineFailed {
        /// The error, one sentence.
        why: String,
    },
    /// The load itself could not go on: a store's space is full.
    LoadStuck {
        /// Why, one sentence.
        why: String,
    },
    /// No end was recorded: the process was killed, or the machine stopped.
    Unrecorded,
}

impl End {
    /// True if the run lasted its configured time.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Completed | Self::Enough { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Every string value that a schema allows.
    fn values(schema: &Value) -> BTreeSet<String> {
        match schema {
            Value::Object(fields) => {
                let own = fields.iter().filter(|(name, _)| matches!(name.as_str(), "const" | "enum"));
                let own = own.flat_map(|(_, value)| match value {
                    Value::Array(several) => several.clone(),
                    one => vec![one.clone()],
                });
                let below = fields.iter().filter(|(name, _)| name.as_str() != "enum").map(|(_, value)| values(value));
                own.filter_map(|value| value.as_str().map(str::to_owned)).chain(below.flatten()).collect()
            }
            Value::Array(several) => several.iter().flat_map(values).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// The names in the first column of the table under `heading` of docs/verdict.md.
    fn documented(heading: &str) -> BTreeSet<String> {
        let page = include_str!("../../../../docs/verdict.md");
        let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_page_on_verdicts_has_every_code_and_every_outcome_and_no_other() {
        let schema = |of: schemars::Schema| values(&serde_json::to_value(of).unwrap());
        let codes = schema(schemars::schema_for!(Code));
        assert!(codes.contains("over-limit") && codes.contains("unknown"), "{codes:?}");
        assert_eq!(codes, documented("Codes of reasons"));
        assert_eq!(schema(schemars::schema_for!(Outcome)), documented("Outcomes and exit codes"));
    }
}
