//! Identities of the drives, and their preparation.

use crate::prep::{Wanted, to_write};
use device::discover::{DeviceFacts, Kind, Roots, discover, drives_of, no_drive};
use device::guard::Records;
use engine::DeviceName;
use engine::sim::DriveSpec;
use load::workload::RunSpec;
use results::series::Identity;
use results::units::bytes;
use session::console;
use session::failure::Failure;

/// The drives of a series, in the order of its devices.
pub struct Drives {
    pub identities: Vec<Identity>,
    /// Devices that are neither recorded as prepared nor to be prepared.
    pub left_unprepared: Vec<String>,
    /// Devices that are no physical drives, each a phrase with the name and kind: `/dev/loop3 is a loop device, which
    /// is a file`. Without simulated drives and files.
    pub virtual_kinds: Vec<String>,
    /// Devices to prepare.
    wanting: Vec<Wanting>,
}

/// A device that is not recorded as prepared.
struct Wanting {
    name: String,
    /// True if it has a lasting name, so that a preparation can be recorded.
    recordable: bool,
}

impl Drives {
    /// Examines the devices of `spec`, without opening them. `no_prep`: do not prepare them.
    ///
    /// Errors: a device does not exist, or is no device.
    pub fn look(spec: &RunSpec, no_prep: bool) -> Result<Self, Failure> {
        let mut drives = Self {
            identities: Vec::new(),
            left_unprepared: Vec::new(),
            virtual_kinds: Vec::new(),
            wanting: Vec::new(),
        };
        for name in &spec.device_names {
            let name = match name {
                DeviceName::Simulated(name, drive) => {
                    drives.identities.push(simulated(name, drive));
                    continue;
                }
                DeviceName::Path(name) => name,
            };
            if let Some(size_bytes) = spec.file_size_bytes {
                drives.identities.push(file(name, size_bytes));
                drives.left_unprepared.push(name.clone());
            } else {
                let facts = discover(name, &Roots::default())
                    .map_err(|error| Failure::environment(format!("cannot test {name} - {error}")))?;
                if facts.kind == Kind::RegularFile {
                    return Err(Failure::usage(format!(
                        "cannot test {name} - it is a file, not a device - to screen files give a --config with \
                         file-size-mbytes in it"
                    )));
                }
                drives.add(&facts, no_prep);
            }
        }
        if !spec.is_simulated() {
            warn_of_shared_drives(&spec.names());
        }
        Ok(drives)
    }

    fn add(&mut self, facts: &DeviceFacts, no_prep: bool) {
        self.identities.push(identity(facts));
        self.virtual_kinds.extend(no_drive(facts, &Roots::default()));
        if is_prepared(facts) {
            return;
        }
        match no_prep {
            true => self.left_unprepared.push(facts.path.clone()),
            false => self.wanting.push(Wanting { name: facts.path.clone(), recordable: facts.identity().is_some() }),
        }
    }

    /// Devices to prepare now. A device that cannot be recorded is prepared only at the start of a series: if the
    /// series has `begun`, it is prepared already.
    pub fn to_prepare(&self, begun: bool) -> Vec<String> {
        let now = self.wanting.iter().filter(|wanting| wanting.recordable || !begun);
        now.map(|wanting| wanting.name.clone()).collect()
    }

    /// One line per drive: its size, and what is written first if it is one of `to_prepare`.
    pub fn plan(&self, to_prepare: &[String]) -> String {
        let line = |drive: &Identity| {
            let first = match to_prepare.contains(&drive.name) {
                true => format!(", prepared first: {}", to_write(drive.size_bytes * Wanted::USUAL.passes())),
                false => String::new(),
            };
            format!("device {}, {}{first}\n", drive.name, bytes(drive.size_bytes as f64))
        };
        self.identities.iter().map(line).collect()
    }
}

fn simulated(name: &str, drive: &DriveSpec) -> Identity {
    Identity { serial: Some(name.to_owned()), simulated: true, ..file(name, drive.capacity_bytes) }
}

fn file(name: &str, size_bytes: u64) -> Identity {
    Identity { name: name.to_owned(), model: None, serial: None, size_bytes, simulated: false }
}

/// Identity of a device: its serial number, with the partition or namespace; without a serial number, another lasting
/// name.
fn identity(facts: &DeviceFacts) -> Identity {
    let part = match (&facts.partition, facts.nsid) {
        (Some(part), _) => format!(" partition {} at {}", part.index, part.start_bytes),
        (None, Some(nsid)) if nsid > 1 => format!(" namespace {nsid}"),
        _ => String::new(),
    };
    let serial = facts.serial.as_ref().map(|serial| format!("{}{part}", serial.trim()));
    Identity {
        name: facts.path.clone(),
        model: facts.model.clone(),
        serial: serial.or_else(|| facts.identity()),
        size_bytes: facts.size_bytes,
        simulated: false,
    }
}

/// True if the device is recorded as completely filled with incompressible data.
fn is_prepared(facts: &DeviceFacts) -> bool {
    let record = facts.identity().and_then(|identity| Records::open(None).find(&identity));
    let prepared = record.and_then(|record| record.prepared);
    prepared.is_some_and(|it| it.is_complete() && it.fills > 0 && it.size_bytes == facts.size_bytes)
}

/// Warns if several devices are parts of one drive, which then carries several loads.
fn warn_of_shared_drives(names: &[String]) {
    for drive in drives_of(names, &Roots::default()).iter().filter(|drive| drive.members.len() > 1) {
        console::warning(&format!(
            "{} are one drive, {}, and each of them gets a whole load of its own",
            drive.members.join(" and "),
            drive.name
        ));
    }
}
