//! What the flash is like when a test meets it: which firmware runs it, how a partition lies on it, how
//! much of it is left alone, whether it was written before.

use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::{Kind, SysDir};
use crate::guard::{Prepared, Records};
use results::units;

/// Alignment of what a test writes, at least: a page of the flash translation layer of most drives.
const ALIGNMENT_BYTES: u64 = 4096;

/// Share of a drive, percent, that left alone is worth to be called over-provisioning.
const SPARE_PCT: f64 = 5.0;

const OVER_PROVISIONING: &str = "over-provisioning";
const PREPARATION: &str = "preparation";

/// All checks of the medium.
pub(super) fn check(device: &DeviceState, records: &Records, findings: &mut Findings) {
    check_firmware(device, findings);
    check_alignment(device, findings);
    let facts = &device.facts;
    // A record of a file tells of its length of then.
    let prepared = facts.identity().and_then(|identity| records.prepared(&identity, facts.size_bytes));
    check_over_provisioning(device, prepared.as_ref(), findings);
    check_preparation(device, prepared.as_ref(), findings);
}

fn check_firmware(device: &DeviceState, findings: &mut Findings) {
    const CHECK: &str = "firmware";
    let facts = &device.facts;
    let model = facts.model.as_deref().unwrap_or("a drive without a model name");
    match &facts.firmware {
        Some(firmware) => findings.ok(CHECK, format!("{model} runs firmware {firmware}")),
        None if device.is_hardware() => findings.unknown(
            CHECK,
            format!("the firmware of {model} is not told"),
            "the same model can be another drive with another firmware: results cannot be compared without it",
            "smartctl -i or nvme id-ctrl may tell; write it down beside the result",
        ),
        None => {}
    }
}

fn check_alignment(device: &DeviceState, findings: &mut Findings) {
    const CHECK: &str = "alignment";
    const WHY: &str = "operations then straddle two units of the drive, and each costs two, with a read before a write";
    const ALIGN: &str =
        "make the partition again with its start at a multiple of 1 MiB (parted -a optimal); that loses its data";
    let Some(dir) = &device.dir else { return };
    let unit_bytes = u64::from(device.facts.physical_sector_bytes.unwrap_or(0)).max(ALIGNMENT_BYTES);
    let offset: Option<i64> = dir.number("alignment_offset");
    match (&device.facts.partition, offset) {
        (Some(part), _) if part.start_bytes % unit_bytes != 0 => {
            let finding = format!("it begins at byte {}, no multiple of {unit_bytes}", part.start_bytes);
            findings.warning(CHECK, finding, WHY, ALIGN);
        }
        // The kernel compares with what the drive said of itself; -1 is misaligned in a way with no remedy.
        (part, Some(offset)) if offset != 0 => {
            let finding = format!("the kernel calls it misaligned (alignment_offset {offset})");
            let remedy = if part.is_some() { ALIGN } else { "use a partition that begins at that offset" };
            findings.warning(CHECK, finding, WHY, remedy);
        }
        (Some(part), _) => {
            findings.ok(CHECK, format!("it begins at byte {}, a multiple of {unit_bytes}", part.start_bytes))
        }
        (None, _) => findings.ok(CHECK, "it is used from its first byte"),
    }
}

fn check_over_provisioning(device: &DeviceState, prepared: Option<&Prepared>, findings: &mut Findings) {
    const WHY: &str =
        "the less room a drive has to itself, the more it must copy for each byte written: latency and wear";
    let facts = &device.facts;
    let advice = format!("flashproof prep {} --use-pct 80 leaves a fifth alone (it ERASES the device)", facts.path);
    if let Some(prepared) = prepared.filter(|prepared| prepared.used_bytes < prepared.size_bytes) {
        let text = format!("it was prepared for the use of {:.1} % of it", prepared.use_pct());
        return match prepared.rest_discarded {
            true => findings.ok(OVER_PROVISIONING, format!("{text}, the rest is discarded")),
            false => findings.note(
                OVER_PROVISIONING,
                format!("{text}, and the rest was not discarded"),
                "a drive keeps copying old data that nobody needs unless it is told so",
                advice,
            ),
        };
    }
    if facts.kind == Kind::RegularFile || !device.is_hardware() {
        return;
    }
    let free = device.disk.as_ref().and_then(unpartitioned);
    match (free, facts.kind) {
        (Some((free_bytes, disk_bytes)), Kind::Partition) => {
            let pct = free_bytes as f64 * 100.0 / disk_bytes.max(1) as f64;
            let text = format!("{pct:.1} % of its disk is in no partition");
            if pct >= SPARE_PCT {
                findings.ok(OVER_PROVISIONING, format!("{text} (whether it was discarded cannot be seen)"));
            } else {
                let advice = "leave a part of the disk in no partition, and discard it (blkdiscard) before the test";
                findings.note(OVER_PROVISIONING, text, WHY, advice);
            }
        }
        _ => findings.note(
            OVER_PROVISIONING,
            format!("all of its {} are used", units::bytes(facts.size_bytes as f64)),
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

fn check_preparation(device: &DeviceState, prepared: Option<&Prepared>, findings: &mut Findings) {
    const WHY: &str = "a drive that was never written answers reads without looking and has free blocks for every \
                       write: it looks far better than it will be in use";
    let facts = &device.facts;
    let remedy = format!("flashproof prep {} (it ERASES the device)", facts.path);
    match prepared {
        Some(prepared) if prepared.is_complete() => {
            let fills = if prepared.fills == 1 { "once" } else { "several times" };
            let text = match prepared.fills {
                0 => "it was prepared with zeros only".to_owned(),
                _ => format!("all of it was written {fills} ({} passes)", prepared.passes()),
            };
            match prepared.fills {
                0 => findings.note(
                    PREPARATION,
                    text,
                    "some drives keep zeros as nothing, and answer them without looking",
                    remedy,
                ),
                _ => findings.ok(PREPARATION, text),
            }
        }
        Some(prepared) => {
            findings.warning(
                PREPARATION,
                format!("its preparation is not complete: {}", prepared.progress()),
                WHY,
                remedy,
            );
        }
        None if facts.identity().is_none() => findings.unknown(
            PREPARATION,
            "it has no serial number or other lasting name, so no record can tell whether it was prepared",
            WHY,
            remedy,
        ),
        None => findings.warning(PREPARATION, "no record says that all of it was written before", WHY, remedy),
    }
}
