//! Who else is on the device: what the guard finds, and what its counters show.

use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::Roots;
use crate::guard::{IoCounters, users_of};
use std::time::Duration;

/// Name of the check.
pub const IN_USE: &str = "in-use";

/// Asks the guard who uses the device: mounts, swap, RAID, volumes, processes.
pub(super) fn check(device: &DeviceState, roots: &Roots, findings: &mut Findings) {
    let users = users_of(&device.resolved, roots);
    for reason in &users.reasons {
        let text = reason.to_string();
        // The guard's lines end in what to do, behind the last semicolon.
        let (finding, remedy) = text.rsplit_once("; ").unwrap_or((&text, ""));
        let why = "a test that writes is refused; in one that reads, the other user's operations are in every latency";
        findings.problem(IN_USE, finding, why, remedy);
    }
    if !users.reasons.is_empty() {
        return;
    }
    match users.notes.is_empty() {
        true => findings.ok(IN_USE, "nobody uses it: not mounted, not held, not open"),
        false => findings.unknown(
            IN_USE,
            format!("nobody was seen to use it, but {}", users.notes.join("; ")),
            "a user that was not seen would be in every latency",
            "run as root",
        ),
    }
}

/// Whether it did anything between two looks that were `apart`.
pub(super) fn check_activity(
    before: Option<IoCounters>,
    after: Option<IoCounters>,
    apart: Duration,
    findings: &mut Findings,
) {
    const CHECK: &str = "other-activity";
    let (Some(before), Some(after)) = (before, after) else {
        return findings.unknown(
            CHECK,
            "it keeps no I/O counters",
            "operations of others would be in every latency",
            "",
        );
    };
    let done = after.since(before);
    if done.is_still() {
        return findings.ok(CHECK, format!("it did nothing in {} ms", apart.as_millis()));
    }
    findings.warning(
        CHECK,
        format!("in {} ms, before the test began, {done}", apart.as_millis()),
        "operations of others are in every latency, and in what the kernel counts",
        "stop what uses it: biosnoop or iotop show it, `lsblk` what lies on it",
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;
    use results::finding::Level;

    #[test]
    fn one_operation_of_another_is_told() {
        let counters = |text: &str| IoCounters::parse(text);
        let still = counters("10 0 80 0 20 0 160 0 0 0 0");
        for (after, level, says) in [
            ("10 0 80 0 20 0 160 0 0 0 0", Level::Ok, "nothing in 300 ms"),
            ("13 0 80 0 20 0 160 0 0 0 0", Level::Warning, "it did 3 reads, 0 writes"),
            ("10 0 80 0 20 0 160 0 2 0 0", Level::Warning, "2 in flight"),
            ("", Level::Unknown, "no I/O counters"),
        ] {
            let finding = only(|findings| check_activity(still, counters(after), Duration::from_millis(300), findings));
            assert!(finding.level == level && finding.finding.contains(says), "{finding:?}");
        }
    }
}
