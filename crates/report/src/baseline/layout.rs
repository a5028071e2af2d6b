//! The part of a drive in use: partitions, over-provisioning, and the possible gain from another layout.

use super::{Recorded, rate};
use results::baseline::{Part, Point, curves};
use results::series::Identity;
use results::units;
use serde_json::Value;

/// The doctor's checks that have to do with it.
pub(super) const CHECKS: [&str; 5] = ["over-provisioning", "alignment", "sector-sizes", "preparation", "device-kind"];

/// Part of the first round from which writes have fallen so far that more room would tell.
const FALLEN: f64 = 0.8;

/// Notes on the part in use and its meaning, each one sentence. `run`: any run of the drive, for the facts about it.
pub(super) fn notes(device: &Identity, run: Option<Recorded<'_>>, points: &[Point]) -> Vec<String> {
    let size = units::bytes(device.size_bytes as f64);
    let mut notes = Vec::new();
    let facts = run.and_then(|run| {
        let at = run.devices.iter().position(|name| *name == device.name)?;
        run.device_facts.get(at)
    });
    notes.push(match facts {
        _ if device.simulated => {
            format!("The drive is simulated, {size}: what it keeps to itself is in its description, {}.", device.name)
        }
        Some(facts) => in_use(facts, &size),
        None => format!("{size} were in use; of what size was not recorded."),
    });
    for (mix, curve) in curves(points, Part::Saturation) {
        let (Some(first), Some(last)) = (curve.first(), curve.last()) else { continue };
        let is_sure = first.doubt.is_none() && last.doubt.is_none() && last.steady == Some(true);
        if is_sure && first.round < last.round && last.iops() < FALLEN * first.iops() {
            notes.push(format!(
                "{mix} fell from {} to {}: the drive copies data to make room. How much of that more over-provisioning \
                 takes away is seen by preparing it with less (flashproof prep --use-pct 80), measuring it again, and \
                 comparing the two (flashproof report compare).",
                rate(first.iops()),
                rate(last.iops())
            ));
        }
    }
    notes
}

/// Describes if a whole disk was in use, or a part of it.
fn in_use(facts: &Value, size: &str) -> String {
    let partition = &facts["partition"];
    match (facts["kind"].as_str(), partition["disk"].as_str()) {
        (_, Some(disk)) => {
            let begins = partition["start_bytes"].as_u64().unwrap_or(0);
            let aligned = if begins.is_multiple_of(1 << 20) { "a multiple of 1 MiB" } else { "no multiple of 1 MiB" };
            let index = partition["index"].as_u64().unwrap_or(0);
            format!("Partition {index} of {disk} was in use, {size}; it begins at byte {begins}, {aligned}.")
        }
        (Some("whole_disk"), _) => format!("The whole device was in use, {size}, without a partition."),
        _ => format!("{size} were in use."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::{baseline, baseline_series};

    #[test]
    fn that_a_drive_copies_data_is_said_only_of_rounds_without_a_doubt() {
        let drive = &baseline_series(&[("/dev/nvme0n1", 1.0)], "run").devices[0];
        let told = |points: &[Point]| notes(drive, None, points).iter().any(|note| note.contains("copies data"));
        let mut points = baseline(1.0);
        assert!(told(&points));
        points[5].steady = Some(false);
        assert!(!told(&points), "where it will end is not known");
        points[5] = Point { steady: Some(true), doubt: Some("this program was late".to_owned()), ..points[5].clone() };
        assert!(!told(&points));
    }
}
