//! What stands between the host and the drive: RAID controllers, host bus adapters, USB bridges.

use super::device_state::DeviceState;
use super::findings::Findings;

const CHECK: &str = "controller";

/// Drivers of controllers that have caches and arrays of their own.
const RAID: [&str; 9] =
    ["megaraid_sas", "megaraid", "aacraid", "hpsa", "smartpqi", "arcmsr", "3w-sas", "3w-9xxx", "ips"];

/// Drivers of adapters that pass commands on, translated.
const ADAPTERS: [&str; 9] = ["mpt3sas", "mpt2sas", "mpi3mr", "pm80xx", "mvsas", "isci", "esas2r", "qla2xxx", "lpfc"];

/// Names the controller among the drivers above the device.
pub(super) fn check(device: &DeviceState, findings: &mut Findings) {
    if device.disk.is_none() {
        return;
    }
    let drivers = device.drivers();
    let first = |known: &[&str]| drivers.iter().find(|driver| known.contains(&driver.as_str()));
    if let Some(driver) = first(&RAID) {
        return findings.warning(
            CHECK,
            format!("a RAID controller is between ({driver})"),
            "its cache and its firmware answer for the drive, its queue is shared with other drives, and it hides \
             SMART",
            "attach the drive directly, or set the controller to pass it through (JBOD, HBA mode) with its cache off",
        );
    }
    if let Some(driver) = first(&ADAPTERS) {
        return findings.note(
            CHECK,
            format!("a host bus adapter is between ({driver})"),
            "its queue is shared by all drives behind it, and it adds tens of microseconds",
            "test all of its drives at once, too: the adapter may be full before they are",
        );
    }
    if drivers.iter().any(|driver| driver == "vmd") {
        return findings.note(
            CHECK,
            "Intel VMD is between (vmd)",
            "it shares a few interrupts among its drives, which can put them on few CPUs",
            "turn VMD off in the firmware's settings unless its RAID is wanted",
        );
    }
    match device.facts.transport.as_deref() {
        Some("usb") => findings.warning(
            CHECK,
            "a USB bridge is between",
            "it translates commands, often one at a time, and shares its bus",
            "attach the drive to its own bus",
        ),
        _ if drivers.is_empty() => findings.ok(CHECK, "no controller is between"),
        _ => findings.ok(CHECK, format!("no RAID or bus adapter is between (drivers: {})", drivers.join(", "))),
    }
}
