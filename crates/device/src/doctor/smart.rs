//! What an NVMe drive says of its own health.
//!
//! [`crate::observe::nvme`] reads the log; here it is judged. A drive that hangs does not hold up the
//! examination: it is asked from a thread, and left alone after a while.

use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::DeviceFacts;
use crate::observe::nvme::{Controller, Smart};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Reads the log of a device. Errors: why not, in words.
pub type SmartReader<'a> = Box<dyn Fn(&DeviceFacts) -> Result<Smart, String> + 'a>;

/// Longest wait for an answer, which takes a drive some milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Endurance used, percent, from which on the drive is no longer what it was.
const WORN_PCT: u8 = 80;

/// Judges what the drive says.
pub(super) fn check(device: &DeviceState, reader: &SmartReader<'_>, findings: &mut Findings) {
    let transport = device.facts.transport.as_deref().unwrap_or_default();
    let disk = device.disk_name().unwrap_or("DISK");
    if transport.starts_with("nvme") {
        match reader(&device.facts) {
            Ok(view) => judge(&view, findings),
            Err(why) => findings.unknown(
                "smart",
                format!("its SMART log could not be read: {why}"),
                "a drive that is hot, worn or failing would not be noticed",
                format!("nvme smart-log /dev/{disk}"),
            ),
        }
    } else if device.is_hardware() {
        findings.unknown(
            "smart",
            "only the SMART log of NVMe drives is read",
            "a drive that is hot, worn or failing would not be noticed",
            format!("smartctl -a /dev/{disk}"),
        );
    }
}

/// Asks the drive itself, below `root`.
pub(super) fn ask_drive(root: &Path, facts: &DeviceFacts) -> Result<Smart, String> {
    let number = facts.partition.as_ref().map(|part| part.disk_number).or(facts.number);
    let number = number.ok_or("it has no device number")?;
    let controller = Controller::find(root, (number.major, number.minor));
    let controller = controller.ok_or("its controller could not be opened; it needs root")?;
    let (answer, answered) = mpsc::channel();
    // Nobody listens any more to who answers too late.
    let ask = move || drop(answer.send(controller.smart().map_err(|error| error.to_string())));
    thread::Builder::new().spawn(ask).map_err(|error| format!("no thread could be started ({error})"))?;
    answered.recv_timeout(PATIENCE).map_err(|_| format!("it did not answer within {} s", PATIENCE.as_secs()))?
}

fn judge(view: &Smart, findings: &mut Findings) {
    let warnings: Vec<String> = view.warnings().iter().map(ToString::to_string).collect();
    match view.critical_warning {
        0 => findings.ok("smart-critical", "no critical warning"),
        bits => findings.problem(
            "smart-critical",
            format!("critical warning {bits:#04x}: {}", warnings.join(", ")),
            "the drive says that it is failing, or throttles: its result is that of a bad drive",
            "replace the drive, or cool it and look again",
        ),
    }
    let used = view.percentage_used;
    let text = format!("{used} % of its rated endurance is used, {} % spare blocks are left", view.available_spare_pct);
    if view.available_spare_pct < view.available_spare_threshold_pct {
        let text = format!("{text}, below the drive's own limit of {} %", view.available_spare_threshold_pct);
        findings.problem("smart-wear", text, "it may soon turn read-only", "replace the drive");
    } else if used >= WORN_PCT {
        findings.warning(
            "smart-wear",
            text,
            "worn flash is read with more retries and wears out faster: a new drive of this model does better",
            "test another drive, or read the verdict as one on a worn drive",
        );
    } else {
        findings.ok("smart-wear", text);
    }
    match view.media_errors {
        0 => findings.ok("smart-media-errors", "no data was ever unreadable"),
        errors => findings.warning(
            "smart-media-errors",
            format!("data could not be recovered {errors} times"),
            "before a drive gives data up it tries for a long time, which is in the latency",
            "replace the drive; nvme error-log shows the last errors",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::all;
    use super::*;
    use results::finding::Level::{self, Ok, Problem, Warning};

    fn good() -> Smart {
        let mut page = [0; 512];
        (page[3], page[4], page[5]) = (100, 10, 3);
        Smart::parse(&page)
    }

    fn levels(spoil: impl FnOnce(&mut Smart)) -> Vec<Level> {
        let mut log = good();
        spoil(&mut log);
        all(|findings| judge(&log, findings)).into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn each_field_is_judged_by_itself() {
        assert_eq!(levels(|_| ()), [Ok, Ok, Ok]);
        assert_eq!(levels(|log| log.critical_warning = 1 << 3), [Problem, Ok, Ok]);
        assert_eq!(levels(|log| log.percentage_used = 79), [Ok, Ok, Ok]);
        assert_eq!(levels(|log| log.percentage_used = 80), [Ok, Warning, Ok]);
        assert_eq!(levels(|log| log.available_spare_pct = 10), [Ok, Ok, Ok]);
        assert_eq!(levels(|log| log.available_spare_pct = 9), [Ok, Problem, Ok]);
        assert_eq!(levels(|log| log.media_errors = 1), [Ok, Ok, Warning]);
    }

    #[test]
    fn the_bits_of_a_critical_warning_are_named() {
        let log = Smart { critical_warning: 0b1010, ..good() };
        let finding = all(|findings| judge(&log, findings)).remove(0).finding;
        assert!(finding.starts_with("critical warning 0x0a: its temperature is beyond"), "{finding}");
        assert!(finding.ends_with(", it takes no writes any more"), "{finding}");
    }
}
