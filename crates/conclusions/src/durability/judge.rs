//! The conclusion about a drive, from the examined lanes and the circumstances of the power cut.

use super::examine::SlotCounts;
use super::session::{DurabilityMethod, PowerCounts, SessionId};
use super::witness::WitnessRecord;
use crate::circumstances::Circumstances;
use crate::grouped;
use results::format::{binary_bytes, count, number};
use results::judge::{Headline, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Minimum number of acknowledged writes of a mode in the last phase. With fewer, the power cut did not test the mode.
const EXPOSED_MIN: u64 = 20;

/// End of the sentence of a PASS without a drive's counters.
const UNCONFIRMED: &str =
    "; no counter of the drive confirms the cut, so the cut rests on the user's word";

/// Claims of the drive. `None`: unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claims {
    /// `write back`: a volatile cache, which needs flushes; `write through`: no volatile cache.
    pub write_cache: Option<String>,
    /// True if single writes can be durable without a flush.
    pub fua: Option<bool>,
    /// Maximum size of a write that is never torn, bytes; 0: no claim.
    pub atomic_write_bytes: Option<u64>,
}

/// The state of machine and drive when the slots are read.
#[derive(Debug, Clone, Default)]
pub struct StateAfterCut {
    pub boot_id: String,
    pub power: Option<PowerCounts>,
    /// True if the user said that only the drive lost power.
    pub is_drive_cut: bool,
}

/// Result for a mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeResult {
    pub mode: DurabilityMethod,
    /// System calls of the mode.
    pub calls: String,
    /// Acknowledged writes of the whole session.
    pub acknowledged: u64,
    /// Acknowledged writes of the last phase, in which no other mode flushed the drive.
    pub exposed: u64,
    #[serde(flatten)]
    pub counts: SlotCounts,
    /// Outcome; invalid if the power cut did not test the mode.
    pub outcome: Outcome,
}

/// Result of a power cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// Program and version.
    pub tool: String,
    pub session: SessionId,
    /// Device or directory, as the user named it.
    pub path: String,
    /// Kind of disk, as far as known.
    pub disk: Option<String>,
    pub claims: Claims,
    pub outcome: Outcome,
    /// Exit code of the command.
    pub exit_code: u8,
    /// The answer in one sentence, and the next step.
    pub headline: Headline,
    /// The sentence that decided.
    pub sentence: String,
    /// Other sentences about the result.
    pub remarks: Vec<String>,
    pub modes: Vec<ModeResult>,
    /// Beginning of the session, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Drives, host and command.
    pub circumstances: Circumstances,
}

impl Durability {
    /// Concludes from `counts`, which has an element for each lane of `record`.
    pub fn conclude(
        record: &WitnessRecord,
        counts: &[SlotCounts],
        after_cut: &StateAfterCut,
        claims: Claims,
        disk: Option<String>,
        circumstances: Circumstances,
    ) -> Self {
        let no_cut = no_cut(record, after_cut);
        let lanes = record
            .session
            .lanes
            .iter()
            .zip(0..)
            .map(|(lane, number)| (lane.mode, number));
        let mut modes = Vec::new();
        for (mode, lanes) in grouped(lanes) {
            let mut acknowledged = 0;
            let mut exposed = 0;
            let mut mode_counts = SlotCounts::default();
            for lane in lanes {
                acknowledged += record.upto[lane];
                exposed += record.upto[lane] - record.upto_before[lane];
                mode_counts += counts[lane];
            }
            let outcome = if mode_counts.failed_writes() > 0 {
                Outcome::Fail
            } else if no_cut.is_some() || exposed < EXPOSED_MIN {
                Outcome::Invalid
            } else {
                Outcome::Pass
            };
            modes.push(ModeResult {
                mode,
                calls: mode.calls().to_owned(),
                acknowledged,
                exposed,
                counts: mode_counts,
                outcome,
            });
        }
        let has_mode = |outcome| modes.iter().any(|result| result.outcome == outcome);
        let outcome = if has_mode(Outcome::Fail) {
            Outcome::Fail
        } else if has_mode(Outcome::Pass) {
            Outcome::Pass
        } else {
            Outcome::Invalid
        };
        let sentence = match outcome {
            Outcome::Fail => fail_sentence(&modes),
            Outcome::Invalid => no_cut.clone().unwrap_or_else(|| {
                format!(
                    "no mode had {EXPOSED_MIN} acknowledged writes since the last flush of another mode; let the \
                     writes run for some seconds before the cut"
                )
            }),
            Outcome::Pass | Outcome::Measured => {
                pass_sentence(&modes)
                    + if power_counts(record, after_cut).is_none() {
                        UNCONFIRMED
                    } else {
                        ""
                    }
            }
        };
        let remarks = remarks(
            &modes,
            record,
            after_cut,
            &claims,
            no_cut.filter(|_| outcome == Outcome::Fail),
        );
        Self {
            tool: record.session.tool.clone(),
            session: record.session.id,
            path: record.session.path.clone(),
            disk,
            claims,
            outcome,
            exit_code: outcome.exit_code(),
            headline: headline(outcome, &sentence),
            sentence,
            remarks,
            modes,
            started_unix_ms: record.session.started_unix_ms,
            circumstances,
        }
    }
}

/// The answer in one sentence, and the next step. The sentence of an invalid result has the reason, then the advice.
fn headline(outcome: Outcome, sentence: &str) -> Headline {
    let (reason, advice) = sentence.split_once("; ").unwrap_or((sentence, ""));
    match outcome {
        Outcome::Fail => Headline::new(
            sentence,
            Some(
                "keep no data on this drive that must survive a power cut; look for newer firmware",
            ),
        ),
        Outcome::Invalid => Headline::new(reason, Some(advice)),
        Outcome::Pass | Outcome::Measured => Headline::new(
            &format!("1 power cut: {sentence}"),
            Some("cut the power again: ten cuts without a loss show much more than one"),
        ),
    }
}

/// Why it is uncertain that a power cut hit the writes; `None` if it is certain, or if only the user can know.
fn no_cut(record: &WitnessRecord, after_cut: &StateAfterCut) -> Option<String> {
    let session = &record.session;
    match (&record.end, after_cut.is_drive_cut) {
        (Some((_, true)), true) => {}
        (Some((why, has_vanished)), _) => {
            let advice = if *has_vanished {
                "cut the power while the writes run; if only the drive lost power, give --drive-cut"
            } else {
                "cut the power while the writes run"
            };
            return Some(format!(
                "the writes had ended before any cut ({why}); {advice}"
            ));
        }
        (None, true) => {
            return Some(
                "the command stopped without reporting a failed write; with --drive-cut, let the command run until \
                 the writes fail"
                    .to_owned(),
            );
        }
        (None, false) if session.boot_id == after_cut.boot_id => {
            return Some(
                "this machine has not been restarted since the writes began, so no power cut happened; if \
                 only the drive lost power, give --drive-cut"
                    .to_owned(),
            );
        }
        (None, false) => {}
    }
    let (power_before, power_now) = power_counts(record, after_cut)?;
    if power_now.cycles == power_before.cycles {
        Some(format!(
            "the drive counts {}, as before, so it kept its power; cut its power, because a restart of the machine alone proves little",
            count(power_now.cycles, "power cycle")
        ))
    } else if power_now.unsafe_shutdowns == power_before.unsafe_shutdowns {
        Some(format!(
            "the drive counts {}, as before, so it was notified before it lost power; cut the power \
             instead of shutting the machine down",
            count(power_now.unsafe_shutdowns, "unsafe shutdown")
        ))
    } else {
        None
    }
}

/// The drive's counters before and after the cut. `None` if the drive has none, or counts 0 power cycles, as emulated
/// drives do.
fn power_counts(
    record: &WitnessRecord,
    after_cut: &StateAfterCut,
) -> Option<(PowerCounts, PowerCounts)> {
    let power_before = record.session.power.filter(|power| power.cycles > 0)?;
    Some((power_before, after_cut.power?))
}

fn fail_sentence(modes: &[ModeResult]) -> String {
    let failed: Vec<_> = modes
        .iter()
        .filter(|result| result.counts.failed_writes() > 0)
        .map(|result: &ModeResult| {
            let SlotCounts { checked, reach, .. } = result.counts;
            let gone = number(result.counts.failed_writes() as f64);
            format!(
                "{}: {gone} of {} (all among the last {})",
                result.mode,
                number(checked as f64),
                number(reach as f64)
            )
        })
        .collect();
    format!("acknowledged writes are gone: {}", failed.join(", "))
}

fn pass_sentence(modes: &[ModeResult]) -> String {
    let checked: u64 = modes.iter().map(|result| result.counts.checked).sum();
    let passed: Vec<_> = modes
        .iter()
        .filter(|result| result.outcome == Outcome::Pass)
        .collect();
    let exposed: u64 = passed.iter().map(|result| result.exposed).sum();
    let names: Vec<_> = passed
        .iter()
        .map(|result| result.mode.to_string())
        .collect();
    format!(
        "all {} are there; the cut tested {}, with {} writes that no other mode had flushed",
        count(checked, "acknowledged write"),
        names.join(", "),
        number(exposed as f64)
    )
}

fn remarks(
    modes: &[ModeResult],
    record: &WitnessRecord,
    after_cut: &StateAfterCut,
    claims: &Claims,
    no_cut: Option<String>,
) -> Vec<String> {
    let mut remarks: Vec<String> = no_cut.into_iter().collect();
    let sum =
        |of: fn(&SlotCounts) -> u64| modes.iter().map(|result| of(&result.counts)).sum::<u64>();
    let untested: Vec<_> = modes
        .iter()
        .filter(|result| result.outcome == Outcome::Invalid)
        .collect();
    if untested.len() < modes.len() {
        remarks.extend(untested.iter().map(|result| {
            format!(
                "{} was not tested: only {} since the last flush of another mode; cut the power again, or test it alone with --mode {}",
                result.mode,
                count(result.exposed, "acknowledged write"),
                result.mode
            )
        }));
    }
    let reordered = sum(|counts| counts.reordered);
    if reordered > 0 {
        remarks.push(format!(
            "{} of the lost writes were reordered: later writes of the same lane are there",
            number(reordered as f64)
        ));
    }
    let has_lost_writes = sum(SlotCounts::failed_writes) > 0;
    match claims.write_cache.as_deref() {
        Some("write through") if has_lost_writes => {
            remarks.push(
                "the drive claims to have no volatile cache, so Linux sent it no flushes"
                    .to_owned(),
            );
        }
        Some("write back") if has_lost_writes => {
            remarks.push(
                "the drive has a volatile cache, and it lost data after it had acknowledged the flush".to_owned(),
            );
        }
        _ => {}
    }
    let torn = sum(|counts| counts.unacknowledged_torn);
    if torn > 0 {
        let claim = match claims.atomic_write_bytes {
            Some(claimed) if claimed > 0 => {
                format!(
                    "the drive claims atomic writes of {}",
                    binary_bytes(claimed as f64)
                )
            }
            _ => "the drive claims no atomic writes".to_owned(),
        };
        let sizes: Vec<_> = record
            .session
            .lanes
            .iter()
            .map(|lane| lane.write_bytes)
            .collect();
        let smallest = sizes.iter().min().copied().unwrap_or(0);
        let largest = sizes.iter().max().copied().unwrap_or(0);
        remarks.push(format!(
            "allowed: {} torn before the acknowledgement (writes of {} to {}); {claim}",
            count(torn, "write"),
            binary_bytes(smallest.into()),
            binary_bytes(largest.into())
        ));
    }
    if let (Some(power_before), Some(power_now)) = (record.session.power, after_cut.power) {
        remarks.push(format!(
            "the drive counted {} and {} since the writes began",
            count(
                power_now.cycles.saturating_sub(power_before.cycles),
                "power cycle"
            ),
            count(
                power_now
                    .unsafe_shutdowns
                    .saturating_sub(power_before.unsafe_shutdowns),
                "unsafe shutdown"
            )
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::super::session::{Session, WriteLane};
    use super::super::witness::tests::session;
    use super::*;

    #[test]
    fn only_a_drive_that_lost_its_power_while_it_was_written_is_judged() {
        let counts = |cycles, unsafe_shutdowns| {
            Some(PowerCounts {
                cycles,
                unsafe_shutdowns,
            })
        };
        let lane = WriteLane {
            mode: DurabilityMethod::Fua,
            write_bytes: 4096,
            slots: 64,
            at: 0,
            scattered: false,
        };
        let record = |power, end: Option<(&str, bool)>| WitnessRecord {
            session: Session {
                boot_id: "before".into(),
                power,
                lanes: vec![lane.clone()],
                ..session(1)
            },
            upto: vec![90],
            phase: 0,
            upto_before: vec![0],
            end: end.map(|(why, has_vanished)| (why.to_owned(), has_vanished)),
            judged: None,
            is_open: false,
        };
        let after = |boot_id: &str, power, is_drive_cut| StateAfterCut {
            boot_id: boot_id.into(),
            power,
            is_drive_cut,
        };
        let sentence = |record: &WitnessRecord, after: &StateAfterCut| {
            let counts = SlotCounts {
                checked: 64,
                intact: 64,
                ..SlotCounts::default()
            };
            let of = Durability::conclude(
                record,
                &[counts],
                after,
                Claims::default(),
                None,
                Circumstances::default(),
            );
            assert_eq!(
                of.outcome == Outcome::Pass,
                of.sentence.starts_with("all 64 "),
                "{}",
                of.sentence
            );
            of.sentence
        };
        let closed = Some(("it was closed", false));
        let vanished = Some(("EIO", true));
        let unconfirmed = "so the cut rests on the user's word";
        for (record, after, says) in [
            (record(None, None), after("now", None, false), unconfirmed),
            (
                record(None, None),
                after("before", None, false),
                "this machine has not been restarted",
            ),
            (
                record(None, None),
                after("before", None, true),
                "the command stopped without reporting a failed write",
            ),
            (
                record(None, None),
                after("now", None, true),
                "the command stopped without reporting a failed write",
            ),
            (
                record(None, closed),
                after("now", None, false),
                "ended before any cut (it was closed); cut the power",
            ),
            (
                record(None, closed),
                after("before", None, true),
                "ended before any cut (it was closed); cut the power",
            ),
            (
                record(None, vanished),
                after("before", None, true),
                unconfirmed,
            ),
            (
                record(None, vanished),
                after("before", None, false),
                "if only the drive lost power, give --drive-cut",
            ),
            (
                record(counts(7, 3), None),
                after("now", counts(8, 4), false),
                "that no other mode had flushed",
            ),
            (
                record(counts(7, 3), vanished),
                after("before", counts(8, 4), true),
                "that no other mode had flushed",
            ),
            (
                record(counts(7, 3), vanished),
                after("before", counts(7, 3), true),
                "counts 7 power cycles, as before",
            ),
            (
                record(counts(7, 3), None),
                after("now", counts(8, 3), false),
                "counts 3 unsafe shutdowns, as before",
            ),
            (
                record(counts(7, 3), None),
                after("now", None, false),
                unconfirmed,
            ),
            (
                record(counts(0, 0), None),
                after("now", counts(0, 0), false),
                unconfirmed,
            ),
        ] {
            let said = sentence(&record, &after);
            assert!(said.contains(says), "{said}");
            assert_eq!(said.contains(unconfirmed), says == unconfirmed, "{said}");
        }
    }
}
