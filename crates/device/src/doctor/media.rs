//! What the flash is like when a test meets it: which firmware runs it, how a partition lies on it, how
//! much of it is left alone, whether it was written before.

use super::patient::Patient;
use super::sheet::Sheet;
use crate::discover::{Kind, SysDir};
use crate::guard::{Prepared, Records};

/// Alignment of what a test writes, at least: a page of the flash translation layer of most drives.
const ALIGNMENT_BYTES: u64 = 4096;

/// Share of a drive, percent, that left alone is worth to be called over-provisioning.
const SPARE_PCT: f64 = 5.0;

const OVER_PROVISIONING: &str = "over-provisioning";
const PREPARATION: &str = "preparation";

/// All checks of the medium.
pub(super) fn check(patient: &Patient, records: &Records, sheet: &mut Sheet) {
    check_firmware(patient, sheet);
    check_alignment(patient, sheet);
    let facts = &patient.facts;
    // A record of a file tells of its length of then.
    let prepared = facts.identity().and_then(|identity| records.prepared(&identity, facts.size_bytes));
    check_over_provisioning(patient, prepared.as_ref(), sheet);
    check_preparation(patient, prepared.as_ref(), sheet);
}

fn check_firmware(patient: &Patient, sheet: &mut Sheet) {
    const CHECK: &str = "firmware";
    let facts = &patient.facts;
    let model = facts.model.as_deref().unwrap_or("a drive without a model name");
    match &facts.firmware {
        Some(firmware) => sheet.ok(CHECK, format!("{model} runs firmware {firmware}")),
        None if patient.is_hardware() => sheet.unknown(
            CHECK,
            format!("the firmware of {model} is not told"),
            "the same model can be another drive with another firmware: results cannot be compared without it",
            "smartctl -i or nvme id-ctrl may tell; write it down beside the result",
        ),
        None => {}
    }
}

fn check_alignment(patient: &Patient, sheet: &mut Sheet) {
    const CHECK: &str = "alignment";
    const WHY: &str = "operations then straddle two units of the drive, and each costs two, with a read before a write";
    const ALIGN: &str =
        "make the partition again with its start at a multiple of 1 MiB (parted -a optimal); that loses its data";
    let Some(dir) = &patient.dir else { return };
    let unit_bytes = u64::from(patient.facts.physical_sector_bytes.unwrap_or(0)).max(ALIGNMENT_BYTES);
    let offset: Option<i64> = dir.number("alignment_offset");
    match (&patient.facts.partition, offset) {
        (Some(part), _) if part.start_bytes % unit_bytes != 0 => {
            let finding = format!("it begins at byte {}, no multiple of {unit_bytes}", part.start_bytes);
            sheet.warning(CHECK, finding, WHY, ALIGN);
        }
        // The kernel compares with what the drive said of itself; -1 is misaligned in a way with no remedy.
        (part, Some(offset)) if offset != 0 => {
            let finding = format!("the kernel calls it misaligned (alignment_offset {offset})");
            let remedy = if part.is_some() { ALIGN } else { "use a partition that begins at that offset" };
            sheet.warning(CHECK, finding, WHY, remedy);
        }
        (Some(part), _) => {
            sheet.ok(CHECK, format!("it begins at byte {}, a multiple of {unit_bytes}", part.start_bytes))
        }
        (None, _) => sheet.ok(CHECK, "it is used from its first byte"),
    }
}

fn check_over_provisioning(patient: &Patient, prepared: Option<&Prepared>, sheet: &mut Sheet) {
    const WHY: &str =
        "the less room a drive has to itself, the more it must copy for each byte written: latency and wear";
    let facts = &patient.facts;
    let advice = format!("flashproof prep {} --use-pct 80 leaves a fifth alone (it ERASES the device)", facts.path);
    if let Some(prepared) = prepared.filter(|prepared| prepared.used_bytes < prepared.size_bytes) {
        let text = format!("it was prepared for the use of {:.1} % of it", prepared.use_pct());
        return match prepared.rest_discarded {
            true => sheet.ok(OVER_PROVISIONING, format!("{text}, the rest is discarded")),
            false => sheet.note(
                OVER_PROVISIONING,
                format!("{text}, and the rest was not discarded"),
                "a drive keeps copying old data that nobody needs unless it is told so",
                advice,
            ),
        };
    }
    if facts.kind == Kind::RegularFile || !patient.is_hardware() {
        return;
    }
    let free = patient.disk.as_ref().and_then(unpartitioned);
    match (free, facts.kind) {
        (Some((free_bytes, disk_bytes)), Kind::Partition) => {
            let pct = free_bytes as f64 * 100.0 / disk_bytes.max(1) as f64;
            let text = format!("{pct:.1} % of its disk is in no partition");
            if pct >= SPARE_PCT {
                sheet.ok(OVER_PROVISIONING, format!("{text} (whether it was discarded cannot be seen)"));
            } else {
                let advice = "leave a part of the disk in no partition, and discard it (blkdiscard) before the test";
                sheet.note(OVER_PROVISIONING, text, WHY, advice);
            }
        }
        _ => sheet.note(
            OVER_PROVISIONING,
            format!("all of its {:.1} GB are used", facts.size_bytes as f64 / 1e9),
            WHY,
            advice,
        ),
    }
}

/// Bytes of a disk in no partition, and all of its bytes.
fn unpartitioned(disk: &SysDir) -> Option<(u64, u64)> {
    let bytes = |dir: &SysDir| Some(dir.number::<u64>("size")? * 512);
    let all = bytes(disk)?;
    let parts = disk.children().into_iter().map(|name| disk.child(&name));
    // An extended partition holds the logical ones, and shows as two sectors.
    let used: u64 = parts.filter(|part| part.text("partition").is_some()).filter_map(|part| bytes(&part)).sum();
    Some((all.saturating_sub(used), all))
}

fn check_preparation(patient: &Patient, prepared: Option<&Prepared>, sheet: &mut Sheet) {
    const WHY: &str = "a drive that was never written answers reads without looking and has free blocks for every \
                       write: it looks far better than it will be in use";
    let facts = &patient.facts;
    let remedy = format!("flashproof prep {} (it ERASES the device)", facts.path);
    match prepared {
        Some(prepared) if prepared.is_complete() => {
            let fills = if prepared.fills == 1 { "once" } else { "several times" };
            let text = match prepared.fills {
                0 => "it was prepared with zeros only".to_owned(),
                _ => format!("all of it was written {fills} ({} passes)", prepared.passes()),
            };
            match prepared.fills {
                0 => sheet.note(
                    PREPARATION,
                    text,
                    "some drives keep zeros as nothing, and answer them without looking",
                    remedy,
                ),
                _ => sheet.ok(PREPARATION, text),
            }
        }
        Some(prepared) => {
            sheet.warning(
                PREPARATION,
                format!("its preparation is not complete: {}", prepared.progress()),
                WHY,
                remedy,
            );
        }
        None if facts.identity().is_none() => sheet.unknown(
            PREPARATION,
            "it has no serial number or other lasting name, so no record can tell whether it was prepared",
            WHY,
            remedy,
        ),
        None => sheet.warning(PREPARATION, "no record says that all of it was written before", WHY, remedy),
    }
}
