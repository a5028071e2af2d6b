//! Checks the state of the flash before a test: firmware, partition alignment, over-provisioning, preparation, health,
//! temperature, and (for drives with FDP) that writes can name placement handles.
//!
//! [`crate::observe::nvme`] reads the SMART log; this module judges the log. A hung drive does not block the
//! examination: a separate thread queries the drive, and is abandoned after a timeout.

use super::{DeviceState, Findings, HostCheck};
use crate::discover::{DeviceFacts, Kind, SysDir};
use crate::guard::{PREPARATION, PreparationRecord, PreparationState, Records};
use crate::observe::drive_monitor;
use crate::observe::nvme::fdp::Fdp;
use crate::observe::nvme::{Controller, Smart};
use results::format;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Required alignment of a partition, bytes: the mapping unit of the flash translation layer of most drives.
const ALIGNMENT_BYTES: u64 = 4096;

/// Minimum unused percentage of a disk that counts as over-provisioning.
const SPARE_PCT: f64 = 5.0;

pub(super) fn check(
    device: &DeviceState,
    state: &PreparationState,
    records: &Records,
    findings: &mut Findings,
) {
    check_firmware(device, findings);
    check_alignment(device, findings);
    check_over_provisioning(device, state.prepared(), findings);
    check_preparation(device, state, findings);
    check_read_back(device, records, findings);
}

fn check_firmware(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "firmware",
        "a model can behave differently with another firmware: results are comparable only if the firmware is known",
    );
    let facts = &device.facts;
    let model = facts
        .model
        .as_deref()
        .unwrap_or("a drive without a model name");
    match &facts.firmware {
        Some(firmware) => check.ok(format!("{model} runs firmware {firmware}")),
        None if device.is_hardware() => check.unknown(
            format!("the kernel does not report the firmware of {model}"),
            "smartctl -i or nvme id-ctrl may show it; note it with the result",
        ),
        None => {}
    }
}

fn check_alignment(device: &DeviceState, findings: &mut Findings) {
    const ALIGN: &str = "recreate the partition with its start at a multiple of 1 MiB (parted -a optimal); this loses its data";
    let check = findings.check(
        "alignment",
        "a misaligned operation touches one unit of the drive more than necessary; a misaligned write needs reads first",
    );
    let Some(dir) = &device.dir else { return };
    let unit_bytes =
        u64::from(device.facts.physical_sector_bytes.unwrap_or(0)).max(ALIGNMENT_BYTES);
    let offset: Option<i64> = dir.number("alignment_offset");
    match (&device.facts.partition, offset) {
        (Some(part), _) if part.start_bytes % unit_bytes != 0 => {
            check.warning(
                format!(
                    "it begins at byte {}, which is not a multiple of {unit_bytes}",
                    part.start_bytes
                ),
                ALIGN,
            );
        }
        (part, Some(offset)) if offset != 0 => check.warning(
            format!("the kernel calls it misaligned (alignment_offset {offset})"),
            if part.is_some() {
                ALIGN
            } else if offset > 0 {
                "use a partition that begins at that offset"
            } else {
                // -1: no offset is aligned.
                "correct the layout of the RAID, LVM or virtual disk beneath"
            },
        ),
        (Some(part), _) => check.ok(format!(
            "it begins at byte {}, a multiple of {unit_bytes}",
            part.start_bytes
        )),
        (None, _) => check.ok("it is used from its first byte"),
    }
}

fn check_over_provisioning(
    device: &DeviceState,
    prepared: Option<&PreparationRecord>,
    findings: &mut Findings,
) {
    let check = findings.check(
        "over-provisioning",
        "the less spare space a drive has, the more it copies for each byte written: more latency and wear",
    );
    let facts = &device.facts;
    let advice = format!(
        "flashproof prep {} --use-pct 80 leaves 20 % unused (it ERASES the device)",
        facts.path
    );
    if let Some(prepared) = prepared.filter(|prepared| prepared.used_bytes < prepared.size_bytes) {
        let text = format!(
            "it was prepared to use {:.1} % of its bytes",
            prepared.use_pct()
        );
        return if prepared.rest_discarded {
            check.ok(format!("{text}, and the rest was discarded"))
        } else {
            check
                .because(
                    "a drive keeps copying old data in the unused part until the part is discarded",
                )
                .note(format!("{text}, but the rest was not discarded"), advice)
        };
    }
    if facts.kind == Kind::RegularFile || !device.is_hardware() {
        return;
    }
    let spare = device.disk.as_ref().and_then(unpartitioned);
    match (spare, facts.kind) {
        (Some((free_bytes, disk_bytes)), Kind::Partition) => {
            let pct = free_bytes as f64 * 100.0 / disk_bytes.max(1) as f64;
            let text = format!("{pct:.1} % of its disk is in no partition");
            if pct >= SPARE_PCT {
                return check.ok(format!(
                    "{text} (flashproof cannot see if that part was discarded)"
                ));
            }
            check.note(
                text,
                "leave a part of the disk unpartitioned, and discard that part (blkdiscard) before the test",
            );
        }
        _ => check.note(
            format!(
                "all of its {} are used",
                format::bytes(facts.size_bytes as f64)
            ),
            advice,
        ),
    }
}

/// Bytes of a disk outside partitions, and all bytes of the disk.
fn unpartitioned(disk: &SysDir) -> Option<(u64, u64)> {
    let disk_bytes = disk.sectors("size")?;
    // sysfs shows an extended partition with two sectors only, so its logical partitions do not count twice.
    let partitioned_bytes: u64 = disk
        .partitions()
        .filter_map(|part| part.sectors("size"))
        .sum();
    Some((disk_bytes.saturating_sub(partitioned_bytes), disk_bytes))
}

fn check_preparation(device: &DeviceState, state: &PreparationState, findings: &mut Findings) {
    let check = findings.check(
        PREPARATION,
        "a drive that was never written answers reads without reading flash, and has free blocks for every write: it \
         is far faster than in use",
    );
    let remedy = format!(
        "flashproof prep {} (it ERASES the device)",
        device.facts.path
    );
    match state {
        PreparationState::Nameless => check.unknown(
            "it has no serial number or other lasting name, so no record can show that it was prepared",
            remedy,
        ),
        PreparationState::Unrecorded => check.warning("no record shows that all of it was ever written", remedy),
        PreparationState::Incomplete(prepared) => {
            check.warning(format!("its preparation is not complete: {}", prepared.progress()), remedy);
        }
        PreparationState::ZerosOnly(_) => check
            .because("some drives store no zeros, and answer reads of zeros without reading flash")
            .note("it was prepared with zeros only", remedy),
        PreparationState::Unexamined(_, why) => check.unknown(
            format!("its record says that all of it was written, but its data could not be read: {why}"),
            "run as root",
        ),
        PreparationState::Shown(prepared, samples) => {
            let fills = if prepared.fills == 1 { "once" } else { "several times" };
            let passes = match prepared.passes() {
                1 => "1 pass".to_owned(),
                passes => format!("{passes} passes"),
            };
            check.ok(format!("all of it was written {fills} ({passes}), and {samples}"));
        }
        PreparationState::Unrecognised(_) | PreparationState::Erased(..) => {
            check.warning(state.contradiction().unwrap_or_default(), remedy)
        }
    }
}

/// Reports a failed read-back of an earlier preparation, until the user deletes the record.
fn check_read_back(device: &DeviceState, records: &Records, findings: &mut Findings) {
    let Some(identity) = device.facts.identity() else {
        return;
    };
    let failure = records
        .find(&identity)
        .and_then(|record| record.failed_read_back);
    let Some(failure) = failure else { return };
    let record = records.path(&identity).unwrap_or_default();
    findings
        .check(
            "read-back",
            "a drive that loses or changes data is not fit for a database, however fast it is",
        )
        .problem(
            failure.failure(),
            format!(
                "do not trust the drive until the cause is known; then delete {}",
                record.display()
            ),
        );
}

/// Reads the SMART log of a device. Errors: as for [`read_smart`].
pub(super) type SmartReader = fn(&DeviceFacts) -> Result<Smart, String>;

/// Timeout of a query; a healthy drive needs some milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Used endurance, percent, from which a drive counts as worn.
pub const WORN_PCT: u8 = 80;

pub(super) fn check_health(device: &DeviceState, reader: SmartReader, findings: &mut Findings) {
    let check = findings.check(
        "smart",
        "flashproof would not notice a hot, worn or failing drive",
    );
    let disk = device.facts.disk_name().unwrap_or("DISK");
    if device
        .facts
        .transport
        .as_deref()
        .unwrap_or_default()
        .starts_with("nvme")
    {
        match reader(&device.facts) {
            Ok(smart) => judge_smart(&smart, findings),
            Err(why) => check.unknown(
                format!("its SMART log could not be read: {why}"),
                format!("nvme smart-log /dev/{disk}"),
            ),
        }
    } else if device.is_hardware() {
        check.unknown(
            "flashproof reads the SMART log of NVMe drives only",
            format!("smartctl -a /dev/{disk}"),
        );
    }
}

/// Errors: no NVMe drive, no permission, or no answer within a second.
pub fn read_smart(root: &Path, facts: &DeviceFacts) -> Result<Smart, String> {
    let number = facts.disk_number().ok_or("it has no device number")?;
    let controller = Controller::find(root, number);
    let controller = controller.ok_or("its controller could not be opened; run as root")?;
    let (result_sender, result_receiver) = mpsc::channel();
    // Send errors are ignored: after the timeout there is no receiver.
    let query =
        move || drop(result_sender.send(controller.smart().map_err(|error| error.to_string())));
    thread::Builder::new()
        .spawn(query)
        .map_err(|error| format!("no thread could be started ({error})"))?;
    result_receiver
        .recv_timeout(PATIENCE)
        .map_err(|_| format!("the drive did not answer within {} s", PATIENCE.as_secs()))?
}

fn judge_smart(smart: &Smart, findings: &mut Findings) {
    let check = findings.check(
        "smart-critical",
        "a drive that reports a failure or throttles does not represent its model",
    );
    match smart.critical_warning {
        0 => check.ok("no critical warning"),
        bits => check.problem(
            format!(
                "critical warning {bits:#04x}: {}",
                smart.warnings().join(", ")
            ),
            "replace the drive, or cool it and check again",
        ),
    }
    let check = findings.check(
        "smart-wear",
        "worn flash needs more read retries and wears out faster: a new drive of this model is faster",
    );
    let used_pct = smart.percentage_used;
    let text = format!(
        "{used_pct} % of its rated endurance is used, {} % of its spare blocks are left",
        smart.available_spare_pct
    );
    if smart.available_spare_pct < smart.available_spare_threshold_pct {
        let text = format!(
            "{text}, below the drive's own limit of {} %",
            smart.available_spare_threshold_pct
        );
        check
            .because("the drive may soon turn read-only")
            .problem(text, "replace the drive");
    } else if used_pct >= WORN_PCT {
        check.warning(
            text,
            "test another drive, or read the verdict as a verdict on a worn drive",
        );
    } else {
        check.ok(text);
    }
    let check = findings.check(
        "smart-media-errors",
        "a drive retries for a long time before it reports a media error, which adds to the latency",
    );
    match smart.media_errors {
        0 => check.ok("no media errors"),
        errors => check.warning(
            format!("the drive could not recover data (media errors: {errors})"),
            "replace the drive; nvme error-log shows the last errors",
        ),
    }
}

/// Margin below the drive's limit, degrees Celsius: a drive that idles within this margin reaches the limit under load.
const MARGIN_CELSIUS: f64 = 10.0;

/// Compares the temperature with the drive's limits. For NVMe, `max` is the warning threshold, from which the drive
/// throttles (WCTEMP), and `crit` the critical threshold (CCTEMP).
pub(super) fn check_temperature(device: &DeviceState, root: &Path, findings: &mut Findings) {
    let check = findings.check(
        "temperature",
        "a hot drive throttles: its latency then depends on the cooling",
    );
    let Some(monitor) = device
        .facts
        .disk_number()
        .and_then(|number| drive_monitor(root, number))
    else {
        if device.is_hardware() {
            check.unknown(
                "the kernel has no temperature sensor for it",
                "modprobe drivetemp (SATA), smartctl -A, nvme smart-log",
            );
        }
        return;
    };
    // A drive without a limit reports 0 K or nothing.
    let limit = |name: &str| read_celsius(&monitor, name).filter(|celsius| *celsius > 0.0);
    match read_celsius(&monitor, "temp1_input") {
        Some(now_celsius) => {
            judge_temperature(now_celsius, limit("temp1_max"), limit("temp1_crit"), check)
        }
        None => check.unknown(
            "its temperature sensor does not answer",
            "nvme smart-log, or smartctl -A",
        ),
    }
}

fn read_celsius(monitor: &SysDir, name: &str) -> Option<f64> {
    Some(monitor.number::<i64>(name)? as f64 / 1_000.0)
}

fn judge_temperature(
    now_celsius: f64,
    max_celsius: Option<f64>,
    crit_celsius: Option<f64>,
    check: HostCheck<'_>,
) {
    const COOL: &str =
        "let it cool down, and make sure that air flows over it; in a server keep the lid closed";
    let limits: Vec<String> = [("warning", max_celsius), ("critical", crit_celsius)]
        .iter()
        .filter_map(|(what, limit)| Some(format!("{what} at {:.0}", (*limit)?)))
        .collect();
    let text = if limits.is_empty() {
        format!("the temperature is {now_celsius:.0} degrees Celsius; the drive reports no limits")
    } else {
        format!(
            "the temperature is {now_celsius:.0} degrees Celsius ({})",
            limits.join(", ")
        )
    };
    if crit_celsius.is_some_and(|crit| now_celsius >= crit) {
        check.problem(text, COOL);
    } else if max_celsius
        .or(crit_celsius)
        .is_some_and(|max| now_celsius >= max - MARGIN_CELSIUS)
    {
        check.warning(text, COOL);
    } else {
        check.ok(text);
    }
}

/// A drive without FDP gets no finding.
pub(super) fn check_placement(fdp: Result<Option<Fdp>, String>, findings: &mut Findings) {
    let check = findings.check("fdp", "writes may be unable to name a placement handle");
    match fdp {
        Ok(None) => {}
        Ok(Some(fdp)) => match fdp.why_no_handles() {
            Some(hindrance) => check
                .because(
                    "tenants share its reclaim units, and placement handles cannot reduce their write amplification",
                )
                .note(
                    hindrance,
                    "`flashproof waf setup DEVICE` prints the commands that change this, and what they erase",
                ),
            None if fdp.placement.is_empty() => check.unknown(fdp.unknown.join("; "), ""),
            None => check.ok(format!("FDP is on, and writes can name {} placement handles", fdp.placement.len())),
        },
        Err(why) => check.unknown(format!("its FDP state could not be queried: {why}"), "run as root"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all, only};
    use super::*;
    use results::assert_starts_with;
    use results::finding::Severity::{self, Ok, Problem, Warning};

    fn good() -> Smart {
        let mut page = [0; 512];
        (page[3], page[4], page[5]) = (100, 10, 3);
        Smart::parse(&page)
    }

    fn levels(spoil: impl FnOnce(&mut Smart)) -> Vec<Severity> {
        let mut log = good();
        spoil(&mut log);
        all(|findings| judge_smart(&log, findings))
            .into_iter()
            .map(|finding| finding.level)
            .collect()
    }

    #[test]
    fn warning_bits_wear_and_media_errors_are_judged_separately() {
        assert_eq!(levels(|_| ()), [Ok, Ok, Ok]);
        let found = levels(|log| log.critical_warning = 1 << 3);
        assert_eq!(found, [Problem, Ok, Ok]);
        assert_eq!(levels(|log| log.percentage_used = 79), [Ok, Ok, Ok]);
        assert_eq!(levels(|log| log.percentage_used = 80), [Ok, Warning, Ok]);
        assert_eq!(levels(|log| log.available_spare_pct = 10), [Ok, Ok, Ok]);
        assert_eq!(levels(|log| log.available_spare_pct = 9), [Ok, Problem, Ok]);
        assert_eq!(levels(|log| log.media_errors = 1), [Ok, Ok, Warning]);
    }

    #[test]
    fn the_bits_of_a_critical_warning_are_named() {
        let log = Smart {
            critical_warning: 0b1010,
            ..good()
        };
        let finding = all(|findings| judge_smart(&log, findings))
            .remove(0)
            .finding;
        assert_starts_with!(finding, "critical warning 0x0a: its temperature is beyond");
        assert!(finding.ends_with(", its media are read-only"), "{finding}");
    }

    #[test]
    fn a_drive_near_its_limits_is_reported() {
        for (now, max, crit, level) in [
            (41.0, Some(70.0), Some(80.0), Severity::Ok),
            (59.9, Some(70.0), Some(80.0), Severity::Ok),
            (60.0, Some(70.0), Some(80.0), Severity::Warning),
            (79.9, Some(70.0), Some(80.0), Severity::Warning),
            (80.0, Some(70.0), Some(80.0), Severity::Problem),
            (75.0, None, Some(80.0), Severity::Warning),
            (90.0, None, None, Severity::Ok),
        ] {
            let finding = only(|findings| {
                judge_temperature(now, max, crit, findings.check("temperature", ""))
            });
            assert_eq!(finding.level, level, "{finding:?}");
        }
        let finding = only(|findings| {
            judge_temperature(
                41.0,
                Some(70.0),
                Some(80.0),
                findings.check("temperature", ""),
            )
        })
        .finding;
        assert_eq!(
            finding,
            "the temperature is 41 degrees Celsius (warning at 70, critical at 80)"
        );
    }
}

#[cfg(test)]
mod placement_tests {
    use super::*;
    use crate::observe::nvme::fdp::{FdpState, PlacementHandle};
    use results::finding::Severity;

    #[test]
    fn obstacles_to_placement_handles_are_notes_and_a_drive_without_fdp_has_none() {
        let level = |fdp| {
            let mut findings = Findings::default();
            check_placement(fdp, &mut findings);
            findings.findings.first().map(|finding| finding.level)
        };
        let handle = PlacementHandle {
            placement_id: 0,
            reclaim_unit_handle: 0,
            reclaim_unit_blocks_left: 8,
        };
        let with = |state, placement| {
            Ok(Some(Fdp {
                state,
                placement,
                ..Fdp::default()
            }))
        };
        assert_eq!(level(Ok(None)), None);
        let found = level(with(FdpState::On(0), vec![handle]));
        assert_eq!(found, Some(Severity::Ok));
        let found = level(with(FdpState::On(0), Vec::new()));
        assert_eq!(found, Some(Severity::Note));
        assert_eq!(level(with(FdpState::Off, Vec::new())), Some(Severity::Note));
        let found = level(with(FdpState::Unknown, Vec::new()));
        assert_eq!(found, Some(Severity::Unknown));
        let found = level(Err("no permission".to_owned()));
        assert_eq!(found, Some(Severity::Unknown));
    }
}
