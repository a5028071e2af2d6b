//! How warm a drive is before the test makes it warmer.

use super::device_state::DeviceState;
use super::findings::Findings;
use crate::observe::drive_monitor;
use std::fs;
use std::path::Path;

const CHECK: &str = "temperature";
const WHY: &str = "a hot drive throttles: its latency then tells of the cooling";

/// Degrees below the drive's limit within which an idle drive will get there under load.
const MARGIN_CELSIUS: f64 = 10.0;

/// Compares the temperature with the drive's own limits: for NVMe `max` is where it warns and begins to
/// throttle, `crit` where it is critical (WCTEMP and CCTEMP of the specification).
pub(super) fn check(device: &DeviceState, root: &Path, findings: &mut Findings) {
    let Some(monitor) = device.disk_number().and_then(|number| drive_monitor(root, number)) else {
        if device.is_hardware() {
            findings.unknown(
                CHECK,
                "the kernel knows no thermometer of it",
                WHY,
                "modprobe drivetemp (SATA), smartctl -A, nvme smart-log",
            );
        }
        return;
    };
    let read = |name: &str| -> Option<f64> {
        let millidegrees: i64 = fs::read_to_string(monitor.join(name)).ok()?.trim().parse().ok()?;
        Some(millidegrees as f64 / 1_000.0)
    };
    // A drive that tells no limit has 0 K or nothing there.
    let limit = |name: &str| read(name).filter(|celsius| *celsius > 0.0);
    let Some(now) = read("temp1_input") else {
        return findings.unknown(CHECK, "its thermometer does not answer", WHY, "nvme smart-log, or smartctl -A");
    };
    judge(now, limit("temp1_max"), limit("temp1_crit"), findings);
}

fn judge(now: f64, max: Option<f64>, crit: Option<f64>, findings: &mut Findings) {
    const COOL: &str = "let it cool down, and see that air flows over it; in a server the lid belongs closed";
    let limits: Vec<String> = [("warns", max), ("is critical", crit)]
        .iter()
        .filter_map(|(what, limit)| Some(format!("{what} at {:.0}", (*limit)?)))
        .collect();
    let text = match limits.is_empty() {
        true => format!("it has {now:.0} degrees Celsius, and tells no limits"),
        false => format!("it has {now:.0} degrees Celsius; it {}", limits.join(" and ")),
    };
    if crit.is_some_and(|crit| now >= crit) {
        findings.problem(CHECK, text, WHY, COOL);
    } else if max.or(crit).is_some_and(|max| now >= max - MARGIN_CELSIUS) {
        findings.warning(CHECK, text, WHY, COOL);
    } else {
        findings.ok(CHECK, text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;
    use results::finding::Level;

    #[test]
    fn a_drive_near_its_limits_is_told() {
        for (now, max, crit, level) in [
            (41.0, Some(70.0), Some(80.0), Level::Ok),
            (59.9, Some(70.0), Some(80.0), Level::Ok),
            (60.0, Some(70.0), Some(80.0), Level::Warning),
            (79.9, Some(70.0), Some(80.0), Level::Warning),
            (80.0, Some(70.0), Some(80.0), Level::Problem),
            (75.0, None, Some(80.0), Level::Warning),
            (90.0, None, None, Level::Ok),
        ] {
            let finding = only(|findings| judge(now, max, crit, findings));
            assert_eq!(finding.level, level, "{finding:?}");
        }
        let finding = only(|findings| judge(41.0, Some(70.0), Some(80.0), findings)).finding;
        assert_eq!(finding, "it has 41 degrees Celsius; it warns at 70 and is critical at 80");
    }
}
