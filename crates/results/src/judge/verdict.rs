//! The verdict as data: the contents of `verdict.json`.

use super::TestedObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the verdict's fields. Raised when a field is removed or changes its meaning, but not when fields, reason
/// codes or enumeration values are added. Version 2: reasons have codes, and operations count in the slice in which
/// they were due. Version 3: a backlog that grows through a short slice fails the run, windows also begin in the middle
/// of slices, and failed operations count in no deciding share.
pub const VERDICT_FORMAT_VERSION: u32 = 3;

/// A slice with fewer operations than this is reported as insufficient: at the default limit of 0.1 %, three slow
/// operations would already reach the limit.
pub const SLICE_OPS_MIN: u64 = 3_000;

/// Length of ACT's certification, seconds.
pub(super) const DAY_SEC: u64 = 86_400;

/// Result of a run, the worst variant last: a failure is worse than an invalid run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The run had no limits, and the whole load was carried out.
    Measured,
    /// The device held the load.
    Pass,
    /// The run says nothing about the device.
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

/// Significance of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Class")]
pub enum VerdictClass {
    /// A run shorter than a day, on simulated devices or with a closed loop: finds bad devices, certifies none.
    Screening,
    /// A full day.
    CertificationLoad,
}

/// The share that decided, or came nearest to its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deciding")]
pub struct WorstShare {
    /// Name of the judged stream.
    pub stream: String,
    /// The device; `None` for all devices together.
    pub device: Option<String>,
    /// The slice, from 1, in which the window begins. If the last slice was judged together with the remainder: the
    /// number of the last slice.
    pub slice: u64,
    /// Start of the window, seconds since the run began, if the window begins in the middle of `slice`; `None` for
    /// other windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_sec: Option<u64>,
    /// Length of a slice, and of a window that begins in its middle, seconds.
    #[serde(default)]
    pub length_sec: u64,
    /// True if the remainder of the run after `slice` is counted together with `slice`.
    #[serde(default)]
    pub with_rest: bool,
    /// The first slice, from 1, in which the same stream and device reached a limit; `None` if there is none.
    #[serde(default)]
    pub first_slice: Option<u64>,
    /// The threshold, nanoseconds.
    pub threshold_ns: u64,
    /// Operations over the threshold, without failed operations, which have no latency.
    pub over: u64,
    /// Operations due; for a slice that was cut short, the operations due in the whole slice.
    #[serde(rename = "wanted")]
    pub scheduled: u64,
    /// True if the slice was cut short. `share` is then a lower bound for the whole slice.
    pub cut: bool,
    /// `over / wanted`, a fraction.
    pub share: f64,
    /// The limit: the share must be below this fraction.
    pub share_max: f64,
}

impl WorstShare {
    /// True if the share reached its limit.
    pub fn is_over(&self) -> bool {
        self.first_slice.is_some()
    }
}

/// A slice of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceShares {
    /// Number of the slice, from 1.
    pub slice: u64,
    /// True if the run lasted to the end of the slice. The remainder after the last complete slice is judged together
    /// with that slice, and also alone if it has [`SLICE_OPS_MIN`] operations or more.
    pub complete: bool,
    /// Operations due: succeeded, failed, lost and never issued.
    #[serde(rename = "wanted")]
    pub scheduled: u64,
    /// Operations due in the whole slice, by the rate of the stream: more than `wanted` if the slice was cut short. The
    /// limits apply to shares of this number. `None`: the stream has no rate.
    pub whole: Option<u64>,
    /// Operations over each threshold by `wait + service`.
    pub judged_over: Vec<u64>,
    /// Operations over each threshold by `wait + lag + service`.
    pub response_over: Vec<u64>,
    /// `judged_over / wanted`, a fraction for each threshold; null if `wanted` is 0.
    pub judged_share: Option<Vec<f64>>,
    /// `response_over / wanted`, a fraction for each threshold; null if `wanted` is 0.
    pub response_share: Option<Vec<f64>>,
}

/// All slices of a judged stream on one device, or on all devices together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Group")]
pub struct GroupShares {
    /// Name of the stream.
    pub stream: String,
    /// The device; `None` for all devices together.
    pub device: Option<String>,
    /// Slices, oldest first.
    pub slices: Vec<SliceShares>,
}

/// A judged slice with too few operations for a reliable share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Insufficient {
    /// The stream.
    pub stream: String,
    /// The device; `None` for all devices together.
    pub device: Option<String>,
    /// The slice, from 1.
    pub slice: u64,
    /// Operations due in the slice, below [`SLICE_OPS_MIN`].
    #[serde(rename = "wanted")]
    pub scheduled: u64,
}

/// Totals of a stream over the whole run and all devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamTotals {
    /// Name of the stream.
    pub name: String,
    /// True if the latencies of the stream are judged.
    pub judged: bool,
    /// Scheduled operations per second; 0 for a closed loop.
    pub offered_iops: f64,
    /// Operations per second that succeeded within the run.
    pub achieved_iops: f64,
    /// Operations that succeeded.
    pub ops: u64,
    /// Bytes that the successful operations moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Part of `ops` that completed only after the end of the run.
    pub overtime: u64,
    /// Operations that were due, but never issued.
    pub unissued: u64,
    /// Operations that were issued, but never completed.
    #[serde(default)]
    pub lost: u64,
}

impl StreamTotals {
    /// Operations that never completed, whether they were issued or not.
    pub fn not_done(&self) -> u64 {
        self.unissued.saturating_add(self.lost)
    }
}

/// Gaps between polls of the completion queue: upper bounds on how late completions were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapSummary {
    /// Number of gaps, one for each completion.
    pub count: u64,
    /// The longest harmless gap: 5 % of the tightest threshold, nanoseconds.
    pub limit_ns: u64,
    /// Number of gaps longer than `limit_ns`. If they are more than 1 % of all, the p99 of the gaps is over `limit_ns`.
    pub over: u64,
    /// The longest gap, nanoseconds, with the histogram's resolution of 1 %.
    pub max_ns: u64,
}

/// A stream whose load was not carried out on a device.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "Undone")]
pub struct UnmetLoad {
    /// The stream, judged or not.
    pub stream: String,
    /// The device.
    pub device: String,
    /// The slice, from 1, in which most operations were missing.
    pub slice: u64,
    /// The first slice, from 1, whose load was not carried out. `None` in verdicts of format 1.
    #[serde(default)]
    pub first_slice: Option<u64>,
    /// Number of slices whose load was not carried out.
    pub slices: u64,
    /// Operations due in `slice`.
    #[serde(rename = "wanted")]
    pub scheduled: u64,
    /// Part of `wanted` that did not complete in time. 0 in verdicts of format 1.
    #[serde(default)]
    pub missed: u64,
    /// True if this program delayed the missed operations, and not the device or an in-flight limit.
    pub ours: bool,
    /// Stream and device whose operations held the slots for which the missed operations waited: `reads@/dev/nvme0n1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "held_by")]
    pub slots_used_by: Option<String>,
    /// Set if the load was not carried out because its backlog grew through the slice: the largest growth allowed,
    /// operations. `missed` is then the growth, from the largest backlog in the first half of the slice to the smallest
    /// in its last quarter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_allowed: Option<u64>,
}

/// Cause of slow operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// This program issued operations late, or saw completions late.
    OurLag,
    /// Operations waited for a slot under the in-flight limit.
    SlotWait,
    /// The kernel held requests before it issued them to the device (throttling, scheduler, tags).
    KernelQueue,
    /// The device was slow, from issue to completion.
    Device,
    /// A server, or the network to it, was slow.
    Server,
    /// The host: stolen time, no CPU free, all interrupts on one CPU.
    Host,
    /// The drive throttled itself because it was hot.
    Heat,
    /// The recorded data does not show the cause.
    Unknown,
}

/// A cause of slow operations, with its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlamePart {
    /// The cause.
    pub cause: Cause,
    /// Fraction in [0, 1] of the summed times of all operations over the threshold: a long operation weighs as much as
    /// several short ones. Operations that never completed have the mean weight of the others; failed operations have
    /// none. `None`: there is evidence for the cause, but no number.
    pub share: Option<f64>,
    /// The evidence with its numbers and units, a phrase.
    pub evidence: String,
}

/// Causes of slow operations in a window of a judged stream that reached the limit of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// The stream.
    pub stream: String,
    /// The device; `None` for all devices together.
    pub device: Option<String>,
    /// Number of the slice, from 1, in which the window begins.
    pub slice: u64,
    /// Start of the window, seconds since the run began, if the window begins in the middle of `slice`; `None` for
    /// other windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_sec: Option<u64>,
    /// The threshold whose limit was reached, nanoseconds.
    pub threshold_ns: u64,
    /// Number of operations whose `wait + service` exceeds the threshold; of those whose `wait + lag + service` does if
    /// only these reach the limit.
    pub over: u64,
    /// Operations due in the window.
    #[serde(rename = "wanted")]
    pub scheduled: u64,
    /// Causes, the largest share first, causes without a share last; never empty.
    pub parts: Vec<BlamePart>,
    /// `our-lag`, `slot-wait`: those of the two without which the limit would be reached as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached_without: Vec<Cause>,
    /// The causes in one sentence.
    pub sentence: String,
}

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// [`VERDICT_FORMAT_VERSION`].
    pub format_version: u32,
    /// Taken from the manifest with each report.
    #[serde(skip)]
    pub tested: TestedObject,
    /// Pass, measured, fail or invalid.
    pub outcome: Outcome,
    /// Screening or certification load.
    pub class: VerdictClass,
    /// True if the run was stopped before its end.
    pub partial: bool,
    /// How the run ended.
    pub end: End,
    /// Reasons for the outcome, the most important first.
    pub reasons: Vec<Reason>,
    /// The first failed operations, one sentence each, with the error of the kernel or the drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The first operations that returned wrong data, one sentence each, with expected and found data. In verdicts of
    /// early versions these sentences are in `failures`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_data: Vec<String>,
    /// Measurements that were missing at the end of the run, one sentence each. The manifest has those that were missing
    /// from the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<String>,
    /// Targets that the run missed, one sentence each. Limits are not included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// Remarks of the jobs, one sentence each. Remarks do not change the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Records read from a database, if records were verified or read in batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_read: Option<RecordsRead>,
    /// Verdicts on the single workloads of a run with several workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadVerdict>,
    /// The worst share relative to its limit; `None` if there was nothing to judge.
    pub decided_by: Option<WorstShare>,
    /// The worst share over each threshold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<WorstShare>,
    /// The limits as text, such as `5%>1ms,1%>8ms`.
    pub sla: String,
    /// Thresholds of the shares, nanoseconds, ascending.
    pub thresholds_ns: Vec<u64>,
    /// Length of a slice, seconds.
    pub slice_sec: u64,
    /// Configured duration of the run, seconds.
    pub duration_sec: u64,
    /// Actual duration of the run, seconds.
    pub ran_sec: f64,
    /// Shares of the judged streams: on all devices together, then on each device.
    pub groups: Vec<GroupShares>,
    /// Streams, judged or not, whose load was not carried out on a device; the largest missing fraction first.
    pub undone: Vec<UnmetLoad>,
    /// Judged slices with too few operations.
    pub insufficient: Vec<Insufficient>,
    /// Totals of all streams.
    pub streams: Vec<StreamTotals>,
    /// Gaps between two polls of the completion queue.
    pub gaps: GapSummary,
    /// Time for which the issuing threads waited for a CPU, as a fraction of the time in which they could run; null if the
    /// fraction is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_wait_share: Option<f64>,
    /// Causes of slow operations in slices that reached a limit; empty if there are none, or if no causes were
    /// computed. The causes never change the outcome.
    pub blame: Vec<Blame>,
}

/// Records that clients read in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordsRead {
    /// Records returned; a batch request returns several.
    pub records: u64,
    /// Records that failed the verification; null without verification.
    pub refused: Option<Refused>,
}

/// Records whose contents cannot result from the writes to them. Each record counts once until its next write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Records with the value of a write before the last acknowledged write.
    pub old: u64,
    /// Keys without a record.
    pub missing: u64,
    /// Records with the value of another key, or of another client.
    pub foreign: u64,
    /// Records that mix two writes, or differ from a write in some bytes.
    pub torn: u64,
}

/// Verdict on one of several workloads of a run, judged by the streams of this workload.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct WorkloadVerdict {
    /// Name of the workload.
    pub name: String,
    /// Pass, measured, fail or invalid.
    pub outcome: Outcome,
    /// Reasons for the outcome, the most important first.
    pub reasons: Vec<Reason>,
}

/// A sentence of a verdict, with a stable code for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// Stable across versions.
    pub code: ReasonCode,
    /// A sentence. The wording may change in any version.
    pub text: String,
}

/// Also reads format 1, in which a reason is a plain sentence.
impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any {
            Coded { code: ReasonCode, text: String },
            Bare(String),
        }
        Ok(match Any::deserialize(deserializer)? {
            Any::Coded { code, text } => Self { code, text },
            Any::Bare(text) => Self {
                code: ReasonCode::Unknown,
                text,
            },
        })
    }
}

impl Reason {
    pub fn new(code: ReasonCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kind of a reason. docs/verdict.md lists all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Code")]
pub enum ReasonCode {
    /// Operations failed.
    IoError,
    /// Reads returned data that differ from the data written.
    WrongData,
    /// A device disappeared.
    DeviceGone,
    /// Operations were issued, but never completed.
    Lost,
    /// A stream fell further behind its schedule than max-lag-sec.
    FellBehind,
    /// A target other than a limit was missed: a latency target, a minimum rate, a number of operations.
    Missed,
    /// This program's own lag would decide the outcome, or delayed the load.
    OwnLag,
    /// No operation of a judged stream was recorded.
    NothingJudged,
    /// The run was too short to show whether its load was carried out.
    TooShort,
    /// A stream did not carry out its load.
    NotCarriedOut,
    /// Too many operations of a stream without limits were late.
    Late,
    /// A device completed nothing for too long.
    Silence,
    /// A stream completed fewer operations or bytes per second than its minimum.
    BelowRate,
    /// A share of slow operations reached its limit.
    OverLimit,
    /// The run was stopped before its end.
    Stopped,
    /// The machine slept during the run.
    Suspended,
    /// The run was stopped because of another workload.
    StoppedForAnother,
    /// The run directory is incomplete or damaged.
    Damaged,
    /// The run was judged by the rules of the version that recorded it.
    OldRules,
    /// The run passed; the sentence has the share nearest to its limit.
    Held,
    /// No limits were given.
    NoLimits,
    /// A remark without effect on the outcome: a closed loop hides stalls, latencies are overstated, or a rate was not
    /// reached before the end of the run.
    Note,
    /// A reason of format 1, or of a later version.
    #[serde(other)]
    Unknown,
}

impl Verdict {
    pub fn reason(&self) -> Option<&str> {
        self.reasons.first().map(|reason| reason.text.as_str())
    }

    /// True if operations failed or were lost, or a device disappeared: a lower load would not avoid that.
    pub fn is_broken(&self) -> bool {
        self.reasons.first().is_some_and(|reason| {
            matches!(
                reason.code,
                ReasonCode::IoError
                    | ReasonCode::WrongData
                    | ReasonCode::DeviceGone
                    | ReasonCode::Lost
            )
        })
    }

    /// Stores the descriptions of the first failed operations, and adds the first one to the reason that counts them.
    pub fn describe_failures(&mut self, failures: Vec<String>, wrong_data: Vec<String>) {
        for (code, descriptions) in [
            (ReasonCode::IoError, &failures),
            (ReasonCode::WrongData, &wrong_data),
        ] {
            let counted = self.reasons.iter_mut().find(|reason| reason.code == code);
            if let (Some(reason), Some(first)) = (counted, descriptions.first()) {
                reason.text = format!("{}; the first: {first}", reason.text);
            }
        }
        (self.failures, self.wrong_data) = (failures, wrong_data);
    }

    /// Fails the run because of `missed_targets`, one sentence each. Limits are not included.
    pub fn fail_for(&mut self, missed_targets: Vec<String>) {
        if missed_targets.is_empty() {
            return;
        }
        self.outcome = Outcome::Fail;
        // These reasons do not apply to a failed run.
        self.reasons
            .retain(|reason| !matches!(reason.code, ReasonCode::NoLimits | ReasonCode::Held));
        self.reasons.splice(
            0..0,
            missed_targets
                .iter()
                .map(|text| Reason::new(ReasonCode::Missed, text)),
        );
        self.missed = missed_targets;
    }

    /// Adds `notes`, one sentence each, to the verdict and its reasons.
    pub fn note(&mut self, notes: Vec<String>) {
        self.reasons
            .extend(notes.iter().map(|text| Reason::new(ReasonCode::Note, text)));
        self.notes = notes;
    }

    /// True if both verdicts are equal except for the wording, which may change between versions. If the formats
    /// differ, only the outcomes are compared.
    pub fn agrees_with(&self, other: &Self) -> bool {
        if self.format_version != other.format_version {
            // Newer rules are stricter, never more lenient.
            return self.outcome.max(Outcome::Pass) <= other.outcome.max(Outcome::Pass);
        }
        self.without_wording() == other.without_wording()
    }

    fn without_wording(&self) -> Self {
        let mut bare = Self {
            reasons: Vec::new(),
            blame: Vec::new(),
            worst: Vec::new(),
            cpu_wait_share: None,
            tested: TestedObject::default(),
            ..self.clone()
        };
        for workload in &mut bare.workloads {
            workload.reasons.clear();
        }
        bare
    }
}

/// Cause of delayed operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Whose")]
pub enum DelayOwner {
    /// The device did not keep up.
    Device,
    /// The configured in-flight limit was too low.
    Limit,
    /// This program issued operations late.
    Ours,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum End {
    /// The run lasted its full time.
    Completed,
    /// The run ended early because it had enough data; this counts as complete.
    Enough {
        /// The reason to stop, a phrase: `the judged shares were steady`.
        why: String,
    },
    /// A signal stopped the run.
    Interrupted {
        /// Name of the signal: `SIGINT`.
        signal: String,
    },
    /// A device disappeared.
    DeviceGone {
        /// Name of the device.
        device: String,
    },
    /// More operations failed than allowed.
    TooManyErrors {
        /// Number of failed operations.
        errors: u64,
        /// Number of failed operations allowed.
        errors_max: u64,
    },
    /// Operations were issued so late that the load was no longer the configured load.
    LagExceeded {
        /// Stream and device that were late: `reads@/dev/nvme0n1`.
        lane: String,
        /// Cause of the delay.
        whose: DelayOwner,
        /// Delay, milliseconds.
        lag_ms: u64,
        /// Maximum allowed delay, milliseconds.
        lag_max_ms: u64,
        /// Operations in flight when the run was stopped.
        in_flight: u64,
        /// The in-flight limit.
        in_flight_max: u64,
    },
    /// The machine slept during the run.
    Suspended {
        /// Length of the sleep, milliseconds.
        asleep_ms: u64,
        /// Failed operations recorded before the sleep. Later failures can result from the power cycle of the drive.
        errors_before: u64,
    },
    /// Writing the run directory failed.
    RecordingFailed {
        /// The error, one sentence.
        why: String,
    },
    /// The engine failed, not the operations.
    EngineFailed {
        /// The error, one sentence.
        why: String,
    },
    /// The load itself could not continue: for example, the store is full.
    LoadStuck {
        /// The cause, one sentence.
        why: String,
    },
    /// No end is recorded: the process was killed, or the machine stopped.
    Unrecorded,
}

impl End {
    pub fn interrupted(signal: impl Into<String>) -> Self {
        Self::Interrupted {
            signal: signal.into(),
        }
    }

    /// True if the run was not stopped before its planned end.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Completed | Self::Enough { .. })
    }

    /// True if all failed operations came after a sleep of the machine, in which the drive may have lost power.
    pub fn excuses_errors(&self) -> bool {
        matches!(
            self,
            Self::Suspended {
                errors_before: 0,
                ..
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn values(schema: &Value) -> BTreeSet<String> {
        match schema {
            Value::Object(fields) => {
                let own = fields
                    .iter()
                    .filter(|(name, _)| matches!(name.as_str(), "const" | "enum"));
                let own = own.flat_map(|(_, value)| match value {
                    Value::Array(several) => several.clone(),
                    one => vec![one.clone()],
                });
                let below = fields
                    .iter()
                    .filter(|(name, _)| name.as_str() != "enum")
                    .map(|(_, value)| values(value));
                own.filter_map(|value| value.as_str().map(str::to_owned))
                    .chain(below.flatten())
                    .collect()
            }
            Value::Array(several) => several.iter().flat_map(values).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// The names in the first column of the table under `heading` of docs/verdict.md.
    fn documented(heading: &str) -> BTreeSet<String> {
        let page = include_str!("../../../../docs/verdict.md");
        let section = page
            .split(&format!("\n## {heading}\n"))
            .nth(1)
            .unwrap_or_else(|| panic!("no {heading}"));
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.map(|row| row.split('`').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_page_on_verdicts_has_every_code_and_every_outcome_and_no_other() {
        let schema = |of: schemars::Schema| values(&serde_json::to_value(of).unwrap());
        let codes = schema(schemars::schema_for!(ReasonCode));
        assert!(codes.contains("over-limit") && codes.contains("unknown"));
        assert_eq!(codes, documented("Codes of reasons"));
        let found = schema(schemars::schema_for!(Outcome));
        assert_eq!(found, documented("Outcomes and exit codes"));
    }
}
