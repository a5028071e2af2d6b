//! The answer to a run in one sentence, and what to do next: the first two lines of every output.

use super::TestedObject;
use super::text::{device_text, slices_text};
use super::verdict::{
    Blame, Cause, DelayOwner, End, Reason, ReasonCode, UnmetLoad, Verdict, WorstShare,
};
use crate::format::{ThresholdText, percent, percent_exact};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Maximum length of a headline's sentence, characters. Details follow below the headline.
pub const HEADLINE_CHARS_MAX: usize = 120;
/// Minimum length of a cut sentence, characters: a shorter sentence would say too little.
const CUT_CHARS_MIN: usize = 40;

const NOT_JUDGED: &str = "nothing was judged";
/// The next step after a host that was too busy.
pub const LESS_BUSY: &str = "stop other programs on this host or lower the rate, then run again";
/// The next step if the kernel held operations before the device.
const HELD_IN_KERNEL: &str = "look for what holds requests in the kernel: a cgroup limit, the I/O scheduler, too few tags (flashproof doctor)";
/// The next step after operations that failed.
pub const LOOK_AT_DRIVE: &str = "look for errors of the device in the kernel's log (dmesg), and in the device's own error log (flashproof doctor DEVICE)";

/// An answer that is read in five seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    /// At most 120 characters, without the outcome and without a full stop.
    pub sentence: String,
    /// The next step, in the imperative; null if there is none.
    #[serde(default)]
    pub action: Option<String>,
}

impl Headline {
    /// A sentence that is too long is cut where a clause ends.
    pub fn new(sentence: &str, action: Option<&str>) -> Self {
        Self {
            sentence: brief(sentence),
            action: action.map(str::to_owned),
        }
    }

    /// `text`; `None` if the sentence already contains all of `text`.
    pub fn unless_said<'a>(&self, text: &'a str) -> Option<&'a str> {
        Some(text).filter(|text| !self.sentence.contains(text))
    }
}

/// Two lines: the sentence, and `Do: ...` if there is an action.
impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        self.action
            .iter()
            .try_for_each(|action| write!(f, "\nDo: {action}"))
    }
}

/// `text`, or its first clauses that fit into [`HEADLINE_CHARS_MAX`].
pub fn brief(text: &str) -> String {
    if text.chars().count() <= HEADLINE_CHARS_MAX {
        return text.to_owned();
    }
    // One character is left for the ellipsis.
    let start: String = text.chars().take(HEADLINE_CHARS_MAX - 1).collect();
    let last_of = |ends: &[&str]| {
        let found = ends.iter().filter_map(|end| start.rfind(end));
        found
            .filter(|at| start[..*at].chars().count() >= CUT_CHARS_MIN)
            .max()
    };
    match last_of(&["; ", ". "]).or_else(|| last_of(&[" (", ", "])) {
        Some(at) => without_open_bracket(&start[..at]).to_owned(),
        None => {
            let word = start.rfind(' ').unwrap_or(start.len());
            format!("{}…", &start[..word])
        }
    }
}

/// `clause` up to its last bracket, if a bracket is not closed.
fn without_open_bracket(clause: &str) -> &str {
    let opened = clause.matches('(').count() > clause.matches(')').count();
    match clause.rfind(" (").filter(|_| opened) {
        Some(bracket) => &clause[..bracket],
        None => clause,
    }
}

impl Verdict {
    pub fn headline(&self) -> Headline {
        // If the run was stopped, the headline is the stop, even if the host was also too busy.
        let mut of_stop = self.reasons.iter();
        let of_stop = of_stop.find(|reason| reason.code == ReasonCode::Stopped);
        let reason = match (self.reasons.first(), of_stop) {
            (Some(first), Some(of_stop)) if first.code == ReasonCode::OwnLag => of_stop,
            (Some(first), _) => first,
            (None, _) => return Headline::new("there was nothing to judge", None),
        };
        Headline::new(
            &self.headline_sentence(reason),
            self.headline_action(reason).as_deref(),
        )
    }

    fn headline_sentence(&self, reason: &Reason) -> String {
        match (reason.code, &self.decided_by) {
            (ReasonCode::OverLimit, Some(worst)) => with_share("too slow", worst),
            (ReasonCode::Held, Some(worst)) => with_share("the load was held", worst),
            (ReasonCode::OwnLag, _) => match self.cpu_wait_share {
                Some(share) => format!(
                    "the host was too busy (flashproof waited for a CPU for {} of the time that it could run); {NOT_JUDGED}",
                    percent(share)
                ),
                None => format!(
                    "flashproof issued operations late or saw completions late: the host is too busy; {NOT_JUDGED}"
                ),
            },
            (ReasonCode::NotCarriedOut, _) => {
                let undone = self.undone.iter().find(|undone| !undone.ours);
                undone.map_or_else(|| reason.text.clone(), short_undone)
            }
            (ReasonCode::FellBehind, _) => match &self.end {
                End::LagExceeded {
                    lane,
                    whose,
                    lag_ms,
                    ..
                } => format!(
                    "{lane} fell {:.1} s behind the schedule; the bottleneck was {}",
                    *lag_ms as f64 / 1_000.0,
                    self.bottleneck(*whose)
                ),
                _ => reason.text.clone(),
            },
            (ReasonCode::Suspended, _) => {
                format!("the machine slept during the run; {NOT_JUDGED}")
            }
            (ReasonCode::NoLimits, _) => {
                "all operations completed; no latency limits were given".to_owned()
            }
            _ => reason.text.clone(),
        }
    }

    fn headline_action(&self, reason: &Reason) -> Option<Cow<'static, str>> {
        let action = match reason.code {
            ReasonCode::OverLimit
            | ReasonCode::BelowRate
            | ReasonCode::Late
            | ReasonCode::NotCarriedOut
            | ReasonCode::FellBehind => self.action_against_delay(reason.code),
            ReasonCode::OwnLag => LESS_BUSY,
            ReasonCode::Suspended => "run again on a machine that stays awake",
            ReasonCode::IoError
            | ReasonCode::WrongData
            | ReasonCode::DeviceGone
            | ReasonCode::Lost
            | ReasonCode::Silence => match self.tested {
                TestedObject::Server => return Some(self.look_at_server().into()),
                TestedObject::Device | TestedObject::Store => LOOK_AT_DRIVE,
            },
            ReasonCode::TooShort => "run longer",
            ReasonCode::Stopped => match &self.end {
                End::RecordingFailed { .. } => {
                    "free some space or give another --out, then run again"
                }
                End::EngineFailed { .. } | End::LoadStuck { .. } => {
                    "fix the cause of this error, then run again"
                }
                _ => "run again, to the end",
            },
            ReasonCode::StoppedForAnother => "fix the other workload, then run again",
            ReasonCode::NothingJudged => {
                "check that the configuration has reads or writes to judge"
            }
            ReasonCode::NoLimits => "for a verdict, give limits: --sla '5%>1ms'",
            ReasonCode::Damaged => "copy the run directory again, or run again",
            ReasonCode::Missed
            | ReasonCode::OldRules
            | ReasonCode::Held
            | ReasonCode::Note
            | ReasonCode::Unknown => return None,
        };
        Some(action.into())
    }

    fn action_against_delay(&self, code: ReasonCode) -> &'static str {
        let causes = self.causes(code);
        match main_cause(&causes) {
            Some(Cause::KernelQueue) => HELD_IN_KERNEL,
            Some(Cause::SlotWait) => "raise the in-flight limit, or lower the rate",
            Some(Cause::OurLag | Cause::Host) => LESS_BUSY,
            _ if causes.contains(&(Cause::Heat, false)) => "cool the drive, then run again",
            _ if self.tested == TestedObject::Server => {
                "lower the rate, or look at the server's own latencies"
            }
            None if self.is_held_in_kernel(code) => HELD_IN_KERNEL,
            _ if causes.first() == Some(&(Cause::SlotWait, true)) => {
                "test another drive: even without the waits for a slot, operations were too slow"
            }
            _ => "find the highest load the drive holds (flashproof rate), or test another drive",
        }
    }

    /// Bottleneck of a run that fell behind its schedule: more exact than `whose` if the blame knows more.
    fn bottleneck(&self, whose: DelayOwner) -> String {
        match main_cause(&self.causes(ReasonCode::FellBehind)) {
            _ if whose != DelayOwner::Device => whose.to_string(),
            _ if self.tested == TestedObject::Server => "the server or the network to it".into(),
            Some(Cause::KernelQueue) => "the kernel before the device".into(),
            Some(Cause::Device) => "the device".into(),
            Some(Cause::SlotWait) => "the in-flight limit".into(),
            _ => whose.to_string(),
        }
    }

    fn look_at_server(&self) -> String {
        let errors = self
            .failures
            .iter()
            .filter_map(|line| line.split_once(" failed: "));
        match errors.map(|(_, error)| error).next() {
            Some(error) => format!("look for the cause of this error in the server's log: {error}"),
            None => "look into the server's log, and at the network to it".to_owned(),
        }
    }

    /// Stream and device that a reason with this `code` is about.
    fn delayed(&self, code: ReasonCode) -> Option<(&str, Option<&str>)> {
        match (code, &self.end) {
            (ReasonCode::NotCarriedOut, _) => {
                let undone = self.undone.iter().find(|undone| !undone.ours)?;
                Some((&undone.stream, Some(&undone.device)))
            }
            (ReasonCode::FellBehind, End::LagExceeded { lane, .. }) => {
                let (stream, device) = lane.split_once('@')?;
                Some((stream, Some(device)))
            }
            _ => {
                let worst = self.decided_by.as_ref()?;
                Some((&worst.stream, worst.device.as_deref()))
            }
        }
    }

    /// Causes of the delay of the stream and device in question, those of the worst window first. The second value: true
    /// if a limit would be reached without this cause as well.
    fn causes(&self, code: ReasonCode) -> Vec<(Cause, bool)> {
        let delayed = self.delayed(code);
        let is_own = |blame: &&Blame| Some((&*blame.stream, blame.device.as_deref())) == delayed;
        let own = self.blame.iter().filter(is_own);
        let of_limit = match &self.end {
            End::LagExceeded {
                whose: DelayOwner::Limit,
                ..
            } => Some(Cause::SlotWait),
            _ => None,
        };
        let parts = own.clone().flat_map(|blame| &blame.parts);
        let excused: Vec<_> = own.flat_map(|blame| &blame.reached_without).collect();
        of_limit
            .into_iter()
            .chain(parts.map(|part| part.cause))
            .map(|cause| (cause, excused.contains(&&cause)))
            .collect()
    }

    /// True if most of the time of another stream on the same device passed in the kernel. Streams share the kernel's
    /// queue, but not the slots.
    fn is_held_in_kernel(&self, code: ReasonCode) -> bool {
        let device = self.delayed(code).map(|(_, device)| device);
        let mut on_device = self
            .blame
            .iter()
            .filter(|blame| Some(blame.device.as_deref()) == device);
        on_device
            .any(|blame| blame.parts.first().map(|part| part.cause) == Some(Cause::KernelQueue))
    }
}

/// The largest cause without which no limit would be reached.
fn main_cause(causes: &[(Cause, bool)]) -> Option<Cause> {
    let decisive = causes.iter().find(|(_, is_excused)| !is_excused);
    decisive.map(|(cause, _)| *cause)
}

/// `answer` with the deciding share, in the longest form that fits: with counts; with the device; with the start of the
/// name of a simulated drive; alone.
fn with_share(answer: &str, worst: &WorstShare) -> String {
    let device = worst.device.as_deref();
    let on_device = device.map_or_else(String::new, |device| format!(" on {device}"));
    // A simulated drive with a name is shown by this name, without its other parameters.
    let on_named = on_device
        .split_once('+')
        .filter(|(first, _)| first.starts_with(" on sim:name="))
        .map_or_else(String::new, |(first, _)| format!("{first}+…"));
    let shares = [
        worst.to_string(),
        short_share(worst, &on_device),
        short_share(worst, &on_named),
        short_share(worst, ""),
    ];
    let sentences = shares.map(|share| format!("{answer}: {share}"));
    let fits = |sentence: &&String| sentence.chars().count() <= HEADLINE_CHARS_MAX;
    let longest = sentences.iter().find(fits).unwrap_or(&sentences[3]);
    longest.clone()
}

/// Text such as `7.02 % of reads on /dev/nvme0n1 took over 1 ms in slice 21 (below 5 % is allowed)`.
fn short_share(worst: &WorstShare, on_device: &str) -> String {
    let bound = if worst.cut { "at least " } else { "" };
    format!(
        "{bound}{} of {}{on_device} took over {:#} in slice {} (below {} is allowed)",
        percent(worst.share),
        worst.stream,
        ThresholdText(worst.threshold_ns),
        worst.slice,
        percent_exact(worst.share_max)
    )
}

fn short_undone(undone: &UnmetLoad) -> String {
    format!(
        "the load was not carried out: {} of {} on {} were not done in time {}",
        percent(undone.missed as f64 / undone.scheduled.max(1) as f64),
        undone.stream,
        device_text(Some(&undone.device)),
        slices_text(None, undone.slice)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_ends_with_a_clause_or_a_word() {
        let clause = "a".repeat(60);
        assert_eq!(brief(&format!("{clause}; {}", "b ".repeat(60))), clause);
        let words = "word ".repeat(40);
        let cut = brief(&words);
        assert!(
            cut.ends_with("word…") && cut.chars().count() <= HEADLINE_CHARS_MAX,
            "{cut}"
        );
        let one_word = "é".repeat(500);
        assert!(brief(&one_word).chars().count() <= HEADLINE_CHARS_MAX);
        assert_eq!(brief("short"), "short");
        let bracket = format!("{clause} (0 of 7,200,000; it must be below 5 %, {clause})");
        assert_eq!(brief(&bracket), clause);
    }

    #[test]
    fn a_long_drive_name_is_shortened_to_its_given_name_or_omitted() {
        let sentence = |device: &str| {
            let worst = WorstShare {
                stream: "reads".to_owned(),
                device: Some(device.to_owned()),
                slice: 1,
                from_sec: None,
                length_sec: 3_600,
                with_rest: false,
                first_slice: Some(1),
                threshold_ns: 64_000_000,
                over: 9_027,
                scheduled: 7_200_000,
                cut: false,
                share: 0.001_25,
                share_max: 0.001,
            };
            with_share("too slow", &worst)
        };
        assert!(sentence("/dev/nvme0n1").contains(" on /dev/nvme0n1 took over "));
        let parameters = "+stall-ms=140+stall-every-s=60";
        let named = sentence(&format!("sim:name=freezes{parameters}"));
        assert!(
            named.contains(" on sim:name=freezes+… took over "),
            "{named}"
        );
        let unnamed = sentence(&format!("sim:capacity=1490GiB+read-us=60{parameters}"));
        assert!(unnamed.contains(" of reads took over "), "{unnamed}");
    }

    #[test]
    fn the_recommended_action_is_on_the_line_below_the_sentence() {
        let shown = Headline::new("too slow", Some("test another drive")).to_string();
        assert_eq!(shown, "too slow\nDo: test another drive");
        assert_eq!(Headline::new("held", None).to_string(), "held");
    }
}
