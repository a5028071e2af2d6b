//! What an NVMe drive says of its own health.
//!
//! The log is read by whoever can ([`SmartReader`]); here it is only judged. Fields and their meaning: NVM
//! Express base specification 2.0, SMART / Health Information (log page 02h).

use super::patient::Patient;
use super::sheet::Sheet;
use crate::discover::DeviceFacts;

/// The part of the log that is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SmartView {
    /// Bits of what is critical.
    pub critical_warning: u8,
    /// Share of its rated endurance that is used, percent; over 100 is possible, 255 is 255 or more.
    pub percentage_used: u8,
    /// Spare blocks left, percent.
    pub available_spare_pct: u8,
    /// Spare below which the drive warns, percent.
    pub spare_threshold_pct: u8,
    /// Times that data could not be recovered.
    pub media_errors: u64,
    /// Composite temperature; `None` if the drive tells none.
    pub temperature_celsius: Option<i64>,
}

/// Reads the log of a device. Errors: why not, in words.
pub type SmartReader<'a> = Box<dyn Fn(&DeviceFacts) -> Result<SmartView, String> + 'a>;

/// Meaning of the bits of the critical warning, from bit 0 on.
const CRITICAL: [&str; 6] = [
    "spare blocks are below the threshold",
    "a temperature is outside its limits",
    "reliability is degraded by errors",
    "the medium is read-only",
    "the backup of volatile memory failed",
    "persistent memory is unreliable or read-only",
];

/// Endurance used, percent, from which on the drive is no longer what it was.
const WORN_PCT: u8 = 80;

/// Judges what the drive says.
pub(super) fn check(patient: &Patient, reader: &SmartReader<'_>, sheet: &mut Sheet) {
    let transport = patient.facts.transport.as_deref().unwrap_or_default();
    let disk = patient.disk_name().unwrap_or("DISK");
    if transport.starts_with("nvme") {
        match reader(&patient.facts) {
            Ok(view) => judge(&view, sheet),
            Err(why) => sheet.unknown(
                "smart",
                format!("its SMART log could not be read: {why}"),
                "a drive that is hot, worn or failing would not be noticed",
                format!("nvme smart-log /dev/{disk}"),
            ),
        }
    } else if patient.is_hardware() {
        sheet.unknown(
            "smart",
            "only the SMART log of NVMe drives is read",
            "a drive that is hot, worn or failing would not be noticed",
            format!("smartctl -a /dev/{disk}"),
        );
    }
}

fn judge(view: &SmartView, sheet: &mut Sheet) {
    let set = |bit: &usize| view.critical_warning >> bit & 1 == 1;
    let critical: Vec<&str> =
        (0..8).filter(set).map(|bit| CRITICAL.get(bit).copied().unwrap_or("a reserved bit")).collect();
    match critical.is_empty() {
        true => sheet.ok("smart-critical", "no critical warning"),
        false => sheet.problem(
            "smart-critical",
            format!("critical warning {:#04x}: {}", view.critical_warning, critical.join(", ")),
            "the drive says that it is failing, or throttles: its result is that of a bad drive",
            "replace the drive, or cool it and look again",
        ),
    }
    let used = view.percentage_used;
    let text = format!("{used} % of its rated endurance is used, {} % spare blocks are left", view.available_spare_pct);
    if view.available_spare_pct < view.spare_threshold_pct {
        let text = format!("{text}, below the drive's own limit of {} %", view.spare_threshold_pct);
        sheet.problem("smart-wear", text, "it may soon turn read-only", "replace the drive");
    } else if used >= WORN_PCT {
        sheet.warning(
            "smart-wear",
            text,
            "worn flash is read with more retries and wears out faster: a new drive of this model does better",
            "test another drive, or read the verdict as one on a worn drive",
        );
    } else {
        sheet.ok("smart-wear", text);
    }
    match view.media_errors {
        0 => sheet.ok("smart-media-errors", "no data was ever unreadable"),
        errors => sheet.warning(
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
    use measure::finding::Level::{self, Ok, Problem, Warning};

    const GOOD: SmartView = SmartView {
        critical_warning: 0,
        percentage_used: 3,
        available_spare_pct: 100,
        spare_threshold_pct: 10,
        media_errors: 0,
        temperature_celsius: Some(40),
    };

    fn levels(view: SmartView) -> Vec<Level> {
        all(|sheet| judge(&view, sheet)).into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn each_field_is_judged_by_itself() {
        assert_eq!(levels(GOOD), [Ok, Ok, Ok]);
        assert_eq!(levels(SmartView { critical_warning: 1 << 3, ..GOOD }), [Problem, Ok, Ok]);
        assert_eq!(levels(SmartView { percentage_used: 79, ..GOOD }), [Ok, Ok, Ok]);
        assert_eq!(levels(SmartView { percentage_used: 80, ..GOOD }), [Ok, Warning, Ok]);
        assert_eq!(levels(SmartView { available_spare_pct: 10, ..GOOD }), [Ok, Ok, Ok]);
        assert_eq!(levels(SmartView { available_spare_pct: 9, ..GOOD }), [Ok, Problem, Ok]);
        assert_eq!(levels(SmartView { media_errors: 1, ..GOOD }), [Ok, Ok, Warning]);
    }

    #[test]
    fn the_bits_of_a_critical_warning_are_named() {
        let finding = all(|sheet| judge(&SmartView { critical_warning: 0b1000_1010, ..GOOD }, sheet)).remove(0).finding;
        assert_eq!(
            finding,
            "critical warning 0x8a: a temperature is outside its limits, the medium is read-only, a reserved bit"
        );
    }
}
