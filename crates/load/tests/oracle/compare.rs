//! Compares the verdict with the oracle.

use super::draw::Draw;
use super::oracle::{Found, GREW, SILENT_BETWEEN};
use results::judge::{Reason, Verdict};
use std::collections::BTreeSet;

const AGAINST: &str = "io-error device-gone lost own-lag nothing-judged too-short not-carried-out late silence \
                       below-rate over-limit stopped";

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn codes(verdict: &Verdict) -> BTreeSet<&'static str> {
    AGAINST
        .split(' ')
        .filter(|code: &&str| {
            verdict
                .reasons
                .iter()
                .any(|reason| word(&reason.code) == *code)
        })
        .collect()
}

/// Differences between verdict and oracle, a line each; empty if both agree.
pub(crate) fn differences(draw: &Draw, verdict: &Verdict, found: &Found) -> Vec<String> {
    let mut lines = found.complaints.clone();
    let mut expect = |is_same: bool, line: String| lines.extend((!is_same).then_some(line));
    let told = codes(verdict);
    let is_open = |code: &&&str| found.open.contains(**code);
    let [ours, theirs]: [BTreeSet<_>; 2] = [&found.codes, &told].map(|codes| {
        codes
            .iter()
            .filter(|code| !is_open(code))
            .copied()
            .collect()
    });
    expect(
        ours == theirs,
        format!("the oracle says {ours:?}, the verdict {theirs:?}"),
    );
    let outcome = word(&verdict.outcome);
    expect(
        outcome == found.outcome || !found.open.is_empty(),
        format!("outcome: {} and {outcome}", found.outcome),
    );

    for (stream, total) in verdict.streams.iter().enumerate() {
        let told = [
            total.ops,
            total.errors,
            total.unissued,
            total.lost,
            total.overtime,
        ];
        expect(
            told == found.totals[stream],
            format!(
                "totals of s{stream}: {:?} and {told:?}",
                found.totals[stream]
            ),
        );
    }
    for group in &found.groups {
        let stream = format!("s{}", group.stream);
        let device = group.device.map(|device| format!("d{device}"));
        let told = verdict
            .groups
            .iter()
            .find(|told| told.stream == stream && told.device == device);
        let mut told: Vec<_> = told
            .iter()
            .flat_map(|told| &told.slices)
            .map(|slice| (slice.scheduled, slice.judged_over.clone()))
            .collect();
        // An operation issued at the instant of the end, on the border of two slices, may be in either slice.
        if found.ends_on_border && told.len() == group.slices.len() + 1 && told.len() > 1 {
            let (scheduled, over) = told.pop().unwrap_or_default();
            let last = told.last_mut().unwrap();
            last.0 += scheduled;
            last.1
                .iter_mut()
                .zip(over)
                .for_each(|(sum, over)| *sum += over);
        }
        // Empty slices after the last slice of `group` have no information and are dropped.
        told.truncate(
            group.slices.len()
                + told[group.slices.len().min(told.len())..]
                    .iter()
                    .filter(|slice| slice.0 > 0)
                    .count(),
        );
        // The verdict has no slices for a device that the stream never used.
        let is_unused =
            told.is_empty() && group.slices.iter().all(|(scheduled, _)| *scheduled == 0);
        expect(
            is_unused || told == group.slices,
            format!(
                "slices of {stream} on {device:?}: {:?} and {told:?}",
                group.slices
            ),
        );
    }

    for stream in 0..draw.streams.len() {
        for device in 0..draw.drives.len() {
            let stream_name = format!("s{stream}");
            let device_name = format!("d{device}");
            let of = |rule: &'static str| {
                found
                    .broken
                    .iter()
                    .filter(move |broken: &&super::oracle::Broken| {
                        (broken.rule, broken.stream, broken.device) == (rule, stream, device)
                    })
                    .collect::<Vec<_>>()
            };
            // The verdict names a growing backlog only if all operations completed soon after their slice.
            let undone = Some(of("not-carried-out"))
                .filter(|undone| !undone.is_empty())
                .unwrap_or_else(|| of(GREW));
            let told = verdict
                .undone
                .iter()
                .find(|told| told.stream == stream_name && told.device == device_name);
            let is_same = match told {
                None => undone.is_empty(),
                Some(told) => {
                    let worst = undone.iter().map(|broken| broken.count).max();
                    let is = |broken: &&&super::oracle::Broken| {
                        (broken.slice as u64 + 1, broken.scheduled, broken.count)
                            == (told.slice, told.scheduled, told.missed)
                    };
                    told.slices == undone.len() as u64
                        && worst == Some(told.missed)
                        && undone.iter().any(|broken| is(&broken))
                }
            };
            expect(
                is_same || told.is_some_and(|told| told.ours),
                format!("not carried out: {undone:?} and {told:?}"),
            );
            for (rule, begins) in [
                (
                    "late",
                    format!(" {stream_name} on {device_name} completed over "),
                ),
                (
                    "silence",
                    format!("{device_name} completed no {stream_name} for "),
                ),
            ] {
                let mut broken = of(rule);
                broken.extend(if rule == "silence" {
                    of(SILENT_BETWEEN)
                } else {
                    Vec::new()
                });
                let told: Vec<&Reason> = verdict
                    .reasons
                    .iter()
                    .filter(|reason| word(&reason.code) == rule && reason.text.contains(&begins))
                    .collect();
                let worst = broken.iter().map(|broken| broken.count).max();
                let is_same = told.len() == usize::from(!broken.is_empty())
                    && (broken.is_empty()
                        || broken.iter().any(|broken: &&super::oracle::Broken| {
                            let places = match broken.rule {
                                SILENT_BETWEEN => vec![" from 0:00:".to_owned()],
                                _ => [",", " ("]
                                    .map(|end| format!(" in slice {}{end}", broken.slice + 1))
                                    .to_vec(),
                            };
                            let is_there = |reason: &&Reason| {
                                places.iter().any(|place| reason.text.contains(place))
                            };
                            Some(broken.count) == worst && told.iter().any(is_there)
                        }));
                let is_open = found.open.contains(rule);
                expect(
                    is_same || is_open,
                    format!("{rule}: {broken:?} and {told:?}"),
                );
            }
        }
    }
    for (device, count) in &found.lost {
        let name = format!("d{device}");
        let is_told = |reason: &Reason| word(&reason.code) == "lost" && reason.text.contains(&name);
        expect(
            verdict.reasons.iter().any(is_told),
            format!("{count} lost on {name}: {:?}", verdict.reasons),
        );
    }
    lines
}

/// Reasons for which the verdict blames a drive, but the oracle does not, a line each. `prompt`: what the oracle finds
/// in the same load without delays by this program.
pub(crate) fn excuses(prompt: &Found, verdict: &Verdict) -> Vec<String> {
    let told = codes(verdict);
    // When a drive disconnects, the issue time decides which operations fail. The run has failed in any case.
    let has_died = [&prompt.codes, &told]
        .iter()
        .any(|codes| codes.contains("lost") || codes.contains("device-gone"));
    let blamed = ["not-carried-out", "silence", "over-limit"]
        .iter()
        .filter(|code: &&&str| {
            let is_new = told.contains(**code)
                && !prompt.codes.contains(**code)
                && !prompt.open.contains(**code);
            is_new && !told.contains("own-lag") && (**code == "silence" || !has_died)
        });
    let mut lines: Vec<_> = blamed
        .map(|code| format!("{code} only with the delays: {:?}", verdict.reasons))
        .collect();
    if verdict.outcome.exit_code() == 0 && prompt.outcome == "fail" {
        lines.push(format!(
            "pass, but fail without the delays: {:?}",
            prompt.codes
        ));
    }
    lines
}
