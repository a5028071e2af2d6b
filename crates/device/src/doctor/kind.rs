//! Checks the kind of a device: a drive, or a virtual or networked device that looks like a drive. Checks its block
//! layer settings: scheduler, write cache, sectors.

use super::{DeviceState, Findings};
use crate::discover::Kind;
use results::finding::Severity;

struct DeviceClass {
    description: &'static str,
    level: Severity,
    reason: &'static str,
    remedy: &'static str,
}

const MEMORY: DeviceClass = DeviceClass {
    description: "a device in memory",
    level: Severity::Warning,
    reason: "the test measures memory and CPU, not flash",
    remedy: "name the drive that you want to test",
};
const LOOP: DeviceClass = DeviceClass {
    description: "a loop device on a file",
    level: Severity::Warning,
    reason: "the test measures a file system, its page cache, a kernel thread, and the disks below",
    remedy: "name the drive that you want to test",
};
const NETWORK: DeviceClass = DeviceClass {
    description: "reached over a network",
    level: Severity::Warning,
    reason: "every latency includes the network and the other machine's load; both vary, and rate limits may apply",
    remedy: "test the drive on its own machine, or read the verdict as a verdict on the service",
};
const VIRTUAL: DeviceClass = DeviceClass {
    description: "a virtual disk",
    level: Severity::Note,
    reason: "the test measures the hypervisor's storage at this time, including other guests, caches and rate \
             limits",
    remedy: "read the verdict as a verdict on this instance type; run longer, and more than once",
};
const STACKED: DeviceClass = DeviceClass {
    description: "built by the kernel on other devices",
    level: Severity::Warning,
    reason: "mapping and RAID split, copy and reorder operations, and every drive below affects the result",
    remedy: "test the drives below it, one by one",
};
const TEST: DeviceClass = DeviceClass {
    description: "a test device of the kernel",
    level: Severity::Warning,
    reason: "the test measures a driver, not flash",
    remedy: "name the drive that you want to test",
};

/// Class of device by the prefix of its kernel name. A number or letters follow the prefix.
const NAMES: [(&str, &DeviceClass); 16] = [
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

/// Class of device by the prefix of its model name: virtual disks (cloud, emulator) that look like NVMe or SCSI drives.
const MODELS: [(&str, &DeviceClass); 11] = [
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

pub(super) fn check(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check("device-kind", "the device may be virtual or networked");
    let facts = &device.facts;
    if facts.kind == Kind::RegularFile {
        let why =
            "the test includes the file system: its allocation, its journal, and its other work";
        return check.because(why).note(
            "it is a file in a file system",
            "to test the drive, name a drive or a partition",
        );
    }
    let transport = facts.transport.as_deref().unwrap_or("unknown");
    match classify(device) {
        Some((
            DeviceClass {
                description,
                level,
                reason,
                remedy,
            },
            clue,
        )) => {
            check.because(reason).add_finding(
                *level,
                format!("it is {description} ({clue})"),
                *remedy,
            );
        }
        None if device.is_hardware() => check.ok(format!(
            "it is a drive of this machine (attached by {transport})"
        )),
        None => check.unknown(
            "the kernel does not report how it is attached",
            "lsblk -o NAME,TRAN,MODEL",
        ),
    }
}

fn classify(device: &DeviceState) -> Option<(&'static DeviceClass, String)> {
    let facts = &device.facts;
    if let Some(backing) = &facts.loop_backing {
        return Some((&LOOP, backing.file.clone()));
    }
    let name = facts.disk_name().unwrap_or_default();
    if let Some((_, class)) = NAMES.iter().find(|(prefix, _)| is_called(name, prefix)) {
        return Some((class, name.to_owned()));
    }
    let model = facts.model.as_deref().unwrap_or_default();
    if let Some((_, class)) = MODELS.iter().find(|(prefix, _)| model.starts_with(prefix)) {
        return Some((class, format!("model {model}")));
    }
    let transport = facts.transport.as_deref().unwrap_or_default();
    if ["nvme-tcp", "nvme-rdma", "nvme-fc", "nvme-loop"].contains(&transport) {
        return Some((&NETWORK, transport.to_owned()));
    }
    if transport == "virtio" {
        return Some((&VIRTUAL, transport.to_owned()));
    }
    let path_parts: Vec<String> = device
        .disk
        .iter()
        .flat_map(|disk| disk.components().collect::<Vec<_>>())
        .collect();
    let find_part = |is: fn(&str) -> bool| path_parts.iter().find(|part| is(part));
    // iSCSI sessions: `session1`; Fibre Channel: `rport-2:0-1`; Hyper-V: `VMBUS:00`, or GUIDs below vmbus.
    if let Some(session) = find_part(|part| is_called(part, "session")) {
        return Some((&NETWORK, format!("iSCSI {session}")));
    }
    if let Some(port) = find_part(|part| part.starts_with("rport-")) {
        return Some((&NETWORK, format!("Fibre Channel {port}")));
    }
    if let Some(bus) = find_part(|part| part.to_ascii_lowercase().starts_with("vmbus")) {
        return Some((&VIRTUAL, format!("Hyper-V {bus}")));
    }
    if find_part(|part| part == "pseudo" || is_called(part, "scsi_debug")).is_some() {
        return Some((&TEST, "scsi_debug".to_owned()));
    }
    None
}

/// True if `name` is `prefix` followed by an index in the driver's format: `vda`, `md127`, `dm-0`.
fn is_called(name: &str, prefix: &str) -> bool {
    let letters = matches!(prefix, "vd" | "xvd");
    name.strip_prefix(prefix).is_some_and(|rest| {
        rest.starts_with(|c: char| {
            if letters {
                c.is_ascii_lowercase()
            } else {
                c.is_ascii_digit() || c == '_' || c == '!'
            }
        })
    })
}

pub(super) fn check_queue(device: &DeviceState, findings: &mut Findings) {
    check_scheduler(device, findings);
    check_write_cache(device, findings);
    check_sectors(device, findings);
    if device.facts.rotational == Some(true) && device.is_hardware() {
        let disk = device.facts.disk_name().unwrap_or("DISK");
        findings.check("medium", "every access takes milliseconds; limits for flash cannot be met").warning(
            "it reports that it is a hard disk (queue/rotational is 1)",
            format!("if it is flash behind a bridge or controller: echo 0 > /sys/block/{disk}/queue/rotational"),
        );
    }
}

fn check_scheduler(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "io-scheduler",
        "to sort or merge requests, a scheduler delays them under one lock; flash gains nothing, and the delay adds \
         to every latency",
    );
    let disk = device.facts.disk_name().unwrap_or("DISK");
    let path = format!("/sys/block/{disk}/queue/scheduler");
    match device.facts.scheduler.as_deref() {
        Some("none") => check.ok(format!("the scheduler of {disk} is none")),
        Some(other) => check.warning(
            format!("the scheduler of {disk} is {other}"),
            format!("echo none > {path}"),
        ),
        // Bio-based devices (md, dm, zram) have no request queue, hence no scheduler.
        None if !device.is_hardware() => check.ok(format!("{disk} has no scheduler of its own")),
        None => check.unknown(
            format!("the scheduler of {disk} cannot be read"),
            format!("cat {path}"),
        ),
    }
}

fn check_write_cache(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "write-cache",
        "with a volatile cache, each synchronous write (O_DSYNC, commit-to-device) carries a flush or FUA and waits \
         for the medium, unless the drive has capacitors; without a volatile cache, every completed write is durable",
    );
    match device.facts.write_cache.as_deref() {
        Some("write through") => check.ok("no volatile write cache (write through)"),
        Some("write back") => check.note(
            "it has a volatile write cache (write back)",
            "find out if the drive has power-loss protection; set the cache as in production",
        ),
        Some(other) => check.unknown(format!("the kernel calls its write cache `{other}`"), ""),
        None => check.unknown("the kernel does not report its write cache", ""),
    }
}

fn check_sectors(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "sector-sizes",
        "writes may be smaller than the drive's physical block",
    );
    match (device.facts.logical_sector_bytes, device.facts.physical_sector_bytes) {
        (Some(logical), Some(physical)) if logical < physical => check
            .because(
                "a write of a part of a physical block makes the drive read first; a read of one sector costs as much \
                 as a read of the block",
            )
            .note(
                format!("its logical sectors have {logical} bytes, its physical blocks {physical} bytes"),
                "use sizes that are multiples of the physical block; `nvme id-ns -H` lists formats of 4096 bytes (a \
                 format erases the drive)",
            ),
        (Some(logical), Some(_)) => {
            check.ok(format!("its logical sectors and its physical blocks have {logical} bytes"))
        }
        _ => check.unknown("the kernel does not report its sector sizes", ""),
    }
}
