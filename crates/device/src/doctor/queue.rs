//! How the kernel's block layer treats the device: scheduler, write cache, sectors.

use super::device_state::DeviceState;
use super::findings::Findings;

/// All checks of the queue.
pub(super) fn check(device: &DeviceState, findings: &mut Findings) {
    check_scheduler(device, findings);
    check_write_cache(device, findings);
    check_sectors(device, findings);
    if device.facts.rotational == Some(true) && device.is_hardware() {
        findings.warning(
            "medium",
            "it says that it has spinning platters",
            "every access takes milliseconds; limits for flash cannot be met",
            format!(
                "if it is flash behind a bridge or controller: echo 0 > /sys/block/{}/queue/rotational",
                device.disk_name().unwrap_or("DISK")
            ),
        );
    }
}

fn check_scheduler(device: &DeviceState, findings: &mut Findings) {
    const CHECK: &str = "io-scheduler";
    const WHY: &str = "a scheduler holds requests back to sort or merge them, on one lock; flash gains nothing, \
                       and the time is in every latency";
    let disk = device.disk_name().unwrap_or("DISK");
    match device.facts.scheduler.as_deref() {
        Some("none") => findings.ok(CHECK, format!("the scheduler of {disk} is none")),
        Some(other) => findings.warning(
            CHECK,
            format!("the scheduler of {disk} is {other}"),
            WHY,
            format!("echo none > /sys/block/{disk}/queue/scheduler"),
        ),
        // Devices that pass requests on (md, dm, zram) have no queue of their own to schedule.
        None if !device.is_hardware() => findings.ok(CHECK, format!("{disk} has no scheduler of its own")),
        None => findings.unknown(
            CHECK,
            format!("the scheduler of {disk} is not told"),
            WHY,
            format!("cat /sys/block/{disk}/queue/scheduler"),
        ),
    }
}

fn check_write_cache(device: &DeviceState, findings: &mut Findings) {
    const CHECK: &str = "write-cache";
    const WHY: &str = "with it each synchronous write (O_DSYNC, commit-to-device) carries a flush or FUA and \
                       waits for the medium, unless the drive has capacitors; without it writes are as safe when \
                       they complete";
    match device.facts.write_cache.as_deref() {
        Some("write through") => findings.ok(CHECK, "no volatile write cache (write through)"),
        Some("write back") => findings.note(
            CHECK,
            "it has a volatile write cache (write back)",
            WHY,
            "know whether the drive has power-loss protection; leave the cache as it is in production",
        ),
        Some(other) => findings.unknown(CHECK, format!("the kernel calls its write cache `{other}`"), WHY, ""),
        None => findings.unknown(CHECK, "whether it has a volatile write cache is not told", WHY, ""),
    }
}

fn check_sectors(device: &DeviceState, findings: &mut Findings) {
    const CHECK: &str = "sector-sizes";
    let (logical, physical) = (device.facts.logical_sector_bytes, device.facts.physical_sector_bytes);
    match (logical, physical) {
        (Some(logical), Some(physical)) if logical < physical => findings.note(
            CHECK,
            format!("sectors of {logical} bytes are addressed, units of {physical} bytes are written"),
            "a write that does not cover whole units makes the drive read first; reads of single sectors cost as \
             much as a unit",
            "keep sizes multiples of the larger; `nvme id-ns -H` lists formats of 4096 bytes (a format erases the \
             drive)",
        ),
        (Some(logical), Some(_)) => findings.ok(CHECK, format!("sectors have {logical} bytes, addressed and written")),
        _ => {
            let why = "writes may be smaller than what the drive writes at once";
            findings.unknown(CHECK, "its sector sizes are not told", why, "");
        }
    }
}
