//! Checks for other users of the device, with the guard and with the I/O counters. Checks that the run directory has
//! enough free space, and is not on the device under test.

use super::{DeviceState, Findings};
use crate::discover::DeviceNumber;
use crate::guard::{activity, users_of};
use crate::observe::diskstats::Counters;
use results::files::Dir;
use results::format;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::open::{free_bytes, memory_file_system};

pub const IN_USE: &str = "in-use";

/// Checks with the guard for users of the device: mounts, swap, RAID, volumes, processes.
pub(super) fn check(device: &DeviceState, root: &Path, findings: &mut Findings) {
    const WHY: &str = "a test that writes is refused; in a test that only reads, the other user's I/O adds to every latency";
    let users = users_of(&device.resolved, root);
    for reason in &users.reasons {
        let text = reason.to_string();
        // The guard's messages have the remedy after the last semicolon.
        let (finding, remedy) = text.rsplit_once("; ").unwrap_or((&text, ""));
        findings.check(IN_USE, WHY).problem(finding, remedy);
    }
    if !users.reasons.is_empty() {
        return;
    }
    let check = findings.check(IN_USE, "an undetected user would affect every latency");
    if users.notes.is_empty() {
        check.ok("it is not in use: not mounted, not held, not open")
    } else {
        check.unknown(
            format!("no user was found, but {}", users.notes.join("; ")),
            "",
        );
    }
}

/// Checks for I/O of other programs between two readings of the counters, taken `interval` apart.
pub(super) fn check_activity(
    before: Option<Counters>,
    after: Option<Counters>,
    interval: Duration,
    findings: &mut Findings,
) {
    let check = findings.check(
        "other-activity",
        "I/O of other programs adds to every latency and to the kernel's counters",
    );
    let (Some(before), Some(after)) = (before, after) else {
        return check
            .because("I/O of other programs would add to every latency")
            .unknown("it has no I/O counters", "");
    };
    let interval_ms = interval.as_millis();
    match activity(&before, &after) {
        None => check.ok(format!("it did no I/O in {interval_ms} ms")),
        Some(did) => check.warning(
            format!("in {interval_ms} ms, before the test began, {did}"),
            "stop the program that uses it: biosnoop or iotop show the program, and `lsblk` shows devices built on this one",
        ),
    }
}

const PLACE: &str = "run-directory-place";

/// With less free space than this, the check warns. A run of a day takes about 100 MB per device
/// (docs/run-directory.md). Each run also checks for the space that it needs.
const ENOUGH_BYTES: u64 = 1 << 30;

/// With less free space than this, the check reports a problem: a run with several devices fills it within an hour.
const LEAST_BYTES: u64 = 16 << 20;

/// `dir` need not exist yet.
pub(super) fn check_free_space(dir: &Path, findings: &mut Findings) {
    let check = findings.check(
        "run-directory",
        "a run that cannot be recorded has no result",
    );
    let existing_dir = existing(dir);
    let opened = Dir::open(&existing_dir).and_then(|dir| dir.open_to_sync());
    let opened = opened.and_then(|file| Ok((free_bytes(file.as_fd())?, file)));
    let (available_bytes, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let finding = format!(
                "the free space of {} cannot be read ({error})",
                existing_dir.display()
            );
            return check.unknown(finding, "name another directory");
        }
    };
    let name = dir.display();
    let free_mib = available_bytes >> 20;
    match available_bytes {
        ..LEAST_BYTES => check
            .because("when the disk is full, the recording and the run end")
            .problem(
                format!("only {free_mib} MiB are free for {name}"),
                "delete files, or name another directory",
            ),
        LEAST_BYTES..ENOUGH_BYTES => check
            .because("a run of a day takes about 100 MB per device, more with telemetry")
            .warning(
                format!("{free_mib} MiB are free for {name}"),
                "delete files, or name another directory",
            ),
        _ => check.ok(format!(
            "{} are free for {name}",
            format::bytes(available_bytes as f64)
        )),
    }
    if memory_file_system(file.as_fd()).is_ok_and(|memory| memory.is_some()) {
        findings
            .check(
                PLACE,
                "a directory in memory is lost at a reboot, and takes memory from the test",
            )
            .note(
                format!("{name} is in memory"),
                "name a directory on a disk for a run that matters",
            );
    }
}

pub(super) fn check_place(dir: &Path, device: &DeviceState, findings: &mut Findings) {
    let Ok(metadata) = existing(dir).metadata() else {
        return;
    };
    let dir_device = Some(DeviceNumber::of_stat(metadata.dev()));
    let parts = device.disk.iter().flat_map(|disk| disk.below(""));
    if device
        .disk
        .iter()
        .cloned()
        .chain(parts)
        .any(|dir| dir.dev() == dir_device)
    {
        findings
            .check(PLACE, "the run directory is written and synced at each report interval, which adds to latencies")
            .warning("the run directory is on the device under test", "name a directory on another device (--out)");
    }
}

/// `dir` if it exists, or else its nearest parent that exists.
fn existing(dir: &Path) -> PathBuf {
    let here = || PathBuf::from(".");
    dir.ancestors()
        .find(|place| place.exists())
        .map_or_else(here, |place| {
            if place.as_os_str().is_empty() {
                here()
            } else {
                place.to_path_buf()
            }
        })
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;
    use results::finding::Severity;

    #[test]
    fn one_operation_of_another_program_is_reported() {
        let counters = |text: &str| Counters::parse(text.split_ascii_whitespace());
        let still = counters("10 0 80 0 20 0 160 0 0 0 0");
        for (after, level, says) in [
            (
                "10 0 80 0 20 0 160 0 0 0 0",
                Severity::Ok,
                "no I/O in 300 ms",
            ),
            (
                "13 0 80 0 20 0 160 0 0 0 0",
                Severity::Warning,
                "it did 3 reads, 0 writes",
            ),
            (
                "10 0 80 0 20 0 160 0 2 0 0",
                Severity::Warning,
                "2 in flight",
            ),
            ("", Severity::Unknown, "no I/O counters"),
        ] {
            let finding = only(|findings| {
                check_activity(still, counters(after), Duration::from_millis(300), findings)
            });
            assert!(
                finding.level == level && finding.finding.contains(says),
                "{finding:?}"
            );
        }
    }
}
