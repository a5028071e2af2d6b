//! Checks the kind of a device: a drive, or a virtual or networked device that looks like one; and its block layer
//! settings: scheduler, write cache, sectors.

use super::{DeviceState, Findings};
use crate::discover::Kind;
use results::finding::Level;

/// Backing of a device that is not a physical drive.
struct Behind {
    what: &'static str,
    level: Level,
    reason: &'static str,
    remedy: &'static str,
}

const MEMORY: Behind = Behind {
    what: "a device in memory",
    level: Level::Warning,
    reason: "what is measured is memory and CPU, not flash",
    remedy: "name the drive to be judged",
};
const LOOP: Behind = Behind {
    what: "a loop device: a file",
    level: Level::Warning,
    reason: "what is measured is a file system, its page cache and a kernel thread, and whatever lies below",
    remedy: "name the drive to be judged",
};
const NETWORK: Behind = Behind {
    what: "reached over a network",
    level: Level::Warning,
    reason: "every latency has the network and the other machine's load in it; both vary, and limits of rate may apply",
    remedy: "judge the drive on the machine that it is in, or read the verdict as one on the service",
};
const VIRTUAL: Behind = Behind {
    what: "a virtual disk",
    level: Level::Note,
    reason: "what is measured is the hypervisor's storage at this time; neighbours, caches and limits of rate \
             belong to it",
    remedy: "read the verdict as one on this instance type; run longer, and more than once",
};
const STACKED: Behind = Behind {
    what: "made by the kernel of other devices",
    level: Level::Warning,
    reason: "mapping and RAID split, copy and order operations, and every drive below is in the result",
    remedy: "name the drives below it, one by one",
};
const TEST: Behind = Behind {
    what: "a test device of the kernel",
    level: Level::Warning,
    reason: "what is measured is a driver, not flash",
    remedy: "name the drive to be judged",
};

/// Prefixes of kernel names; a number or letters follow.
const NAMES: [(&str, &Behind); 16] = [
    ("loop", &LOOP),
    ("zram", &MEMORY),
    ("ram", &MEMORY),
    ("nullb", &TEST),
    ("nbd", &NETWORK),
    ("rbd", &NETWORK),
    ("drbd", &NETWORK),
    ("rnbd", &NETWORK),
    ("etherd", &NETWORK),
    ("dm-", &STACKED),
    ("md", &STACKED),
    ("bcache", &STACKED),
    ("ublkb", &VIRTUAL),
    ("vd", &VIRTUAL),
    ("xvd", &VIRTUAL),
    ("pmem", &MEMORY),
];

/// Prefixes of the models that clouds and emulators give to disks that look like NVMe or SCSI drives.
const MODELS: [(&str, &Behind); 11] = [
    ("Amazon Elastic Block Store", &NETWORK),
    ("Amazon EC2 NVMe Instance Storage", &VIRTUAL),
    ("nvme_card-pd", &NETWORK),
    ("nvme_card", &VIRTUAL),
    ("MSFT NVMe Accelerator", &NETWORK),
    ("Microsoft NVMe Direct Disk", &VIRTUAL),
    ("PersistentDisk", &NETWORK),
    ("Virtual Disk", &VIRTUAL),
    ("Virtual disk", &VIRTUAL),
    ("VMware Virtual NVMe Disk", &VIRTUAL),
    ("QEMU", &VIRTUAL),
];

/// Reports the backing of the device.
pub(super) fn check(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check("device-kind", "it may be virtual or networked");
    let facts = &device.facts;
    if facts.kind == Kind::RegularFile {
        let why = "what is measured has the file system in it: its allocation, its journal, and its other work";
        return check
            .because(why)
            .note("it is a file in a file system", "name a drive or a partition to judge the drive");
    }
    let transport = facts.transport.as_deref().unwrap_or("unknown");
    match behind(device) {
        Some((Behind { what, level, reason, remedy }, by)) => {
            check.because(reason).is(*level, format!("it is {what} ({by})"), *remedy);
        }
        None if device.is_hardware() => check.ok(format!("it is a drive of this machine (attached by {transport})")),
        None => check.unknown("how it is attached is not told", "lsblk -o NAME,TRAN,MODEL"),
    }
}

fn behind(device: &DeviceState) -> Option<(&'static Behind, String)> {
    let facts = &device.facts;
    if let Some(backing) = &facts.loop_backing {
        return Some((&LOOP, backing.file.clone()));
    }
    let name = facts.disk_name().unwrap_or_default();
    if let Some((_, behind)) = NAMES.iter().find(|(prefix, _)| is_called(name, prefix)) {
        return Some((behind, name.to_owned()));
    }
    let model = facts.model.as_deref().unwrap_or_default();
    if let Some((_, behind)) = MODELS.iter().find(|(prefix, _)| model.starts_with(prefix)) {
        return Some((behind, format!("model {model}")));
    }
    let transport = facts.transport.as_deref().unwrap_or_default();
    if ["nvme-tcp", "nvme-rdma", "nvme-fc", "nvme-loop"].contains(&transport) {
        return Some((&NETWORK, transport.to_owned()));
    }
    if transport == "virtio" {
        return Some((&VIRTUAL, transport.to_owned()));
    }
    let parts: Vec<String> = device.disk.iter().flat_map(|disk| disk.components().collect::<Vec<_>>()).collect();
    let any = |is: fn(&str) -> bool| parts.iter().find(|part| is(part));
    // iSCSI sessions: `session1`; Fibre Channel: `rport-2:0-1`; Hyper-V: `VMBUS:00`, or GUIDs below vmbus.
    if let Some(session) = any(|part| is_called(part, "session")) {
        return Some((&NETWORK, format!("iSCSI {session}")));
    }
    if let Some(port) = any(|part| part.starts_with("rport-")) {
        return Some((&NETWORK, format!("Fibre Channel {port}")));
    }
    if let Some(bus) = any(|part| part.to_ascii_lowercase().starts_with("vmbus")) {
        return Some((&VIRTUAL, format!("Hyper-V {bus}")));
    }
    if any(|part| part == "pseudo" || is_called(part, "scsi_debug")).is_some() {
        return Some((&TEST, "scsi_debug".to_owned()));
    }
    None
}

/// True if `name` is `prefix` and an index in the driver's format: `vda`, `md127`, `dm-0`.
fn is_called(name: &str, prefix: &str) -> bool {
    let letters = matches!(prefix, "vd" | "xvd");
    name.strip_prefix(prefix).is_some_and(|rest| {
        rest.starts_with(
            |c: char| if letters { c.is_ascii_lowercase() } else { c.is_ascii_digit() || c == '_' || c == '!' },
        )
    })
}

pub(super) fn check_queue(device: &DeviceState, findings: &mut Findings) {
    check_scheduler(device, findings);
    check_write_cache(device, findings);
    check_sectors(device, findings);
    if device.facts.rotational == Some(true) && device.is_hardware() {
        let disk = device.facts.disk_name().unwrap_or("DISK");
        findings.check("medium", "every access takes milliseconds; limits for flash cannot be met").warning(
            "it reports spinning platters",
            format!("if it is flash behind a bridge or controller: echo 0 > /sys/block/{disk}/queue/rotational"),
        );
    }
}

fn check_scheduler(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "io-scheduler",
        "a scheduler holds requests back to sort or merge them, on one lock; flash gains nothing, and the time is in \
         every latency",
    );
    let disk = device.facts.disk_name().unwrap_or("DISK");
    let path = format!("/sys/block/{disk}/queue/scheduler");
    match device.facts.scheduler.as_deref() {
        Some("none") => check.ok(format!("the scheduler of {disk} is none")),
        Some(other) => check.warning(format!("the scheduler of {disk} is {other}"), format!("echo none > {path}")),
        // Devices that pass requests on (md, dm, zram) have no queue of their own to schedule.
        None if !device.is_hardware() => check.ok(format!("{disk} has no scheduler of its own")),
        None => check.unknown(format!("the scheduler of {disk} is not told"), format!("cat {path}")),
    }
}

fn check_write_cache(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "write-cache",
        "with it each synchronous write (O_DSYNC, commit-to-device) carries a flush or FUA and waits for the medium, \
         unless the drive has capacitors; without it writes are as safe when they complete",
    );
    match device.facts.write_cache.as_deref() {
        Some("write through") => check.ok("no volatile write cache (write through)"),
        Some("write back") => check.note(
            "it has a volatile write cache (write back)",
            "know whether the drive has power-loss protection; leave the cache as it is in production",
        ),
        Some(other) => check.unknown(format!("the kernel calls its write cache `{other}`"), ""),
        None => check.unknown("whether it has a volatile write cache is not told", ""),
    }
}

fn check_sectors(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check("sector-sizes", "writes may be smaller than what the drive writes at once");
    match (device.facts.logical_sector_bytes, device.facts.physical_sector_bytes) {
        (Some(logical), Some(physical)) if logical < physical => check
            .because(
                "a write that does not cover whole units makes the drive read first; reads of single sectors cost as \
                 much as a unit",
            )
            .note(
                format!("sectors of {logical} bytes are addressed, units of {physical} bytes are written"),
                "keep sizes multiples of the larger; `nvme id-ns -H` lists formats of 4096 bytes (a format erases the \
                 drive)",
            ),
        (Some(logical), Some(_)) => check.ok(format!("sectors have {logical} bytes, addressed and written")),
        _ => check.unknown("its sector sizes are not told", ""),
    }
}
