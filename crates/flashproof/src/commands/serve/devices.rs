//! The devices of a server: devices with its records are opened, others are formatted with the guard's consent.
//!
//! The header of a device is read before the consent through a read-only descriptor, and again through the guard's
//! descriptor: a device that has changed meanwhile is not written.

use device::guard::Request;
use device::target::Target;
use procedures::formatting;
use session::console;
use session::devices::consent;
use session::failure::{Failure, all};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::sync::Arc;
use store::conf::{Config, NamespaceConfig};
use store::server::{Device, cores};
use store::{DeviceHeader, Plan, WRITTEN_BYTES};

/// A device of a namespace, and its expected header.
struct Wanted<'a> {
    name: &'a str,
    file_bytes: Option<u64>,
    header: DeviceHeader,
}

/// Opens the devices of all namespaces of `config`. `erase` names devices that may be erased.
///
/// Errors: the guard refuses; other settings wrote the device; its header is damaged; it is too small.
pub fn open(config: &Config, erase: &[String]) -> Result<Vec<Vec<Device>>, Failure> {
    let wanted: Vec<_> = config.namespaces.iter().flat_map(|namespace| wanted(namespace, cores(config))).collect();
    let kept = all(wanted.iter().map(before), Failure::environment)?;
    check_sets(&wanted, &kept)?;
    let request = |(wanted, kept): (&Wanted<'_>, &Option<DeviceHeader>)| Request {
        file_size_bytes: wanted.file_bytes,
        whole: true,
        keeps_store: kept.is_some(),
        ..Request::new(wanted.name, format!("records of namespace {}", wanted.header.namespace))
    };
    let requests: Vec<_> = wanted.iter().zip(&kept).map(request).collect();
    let consents = consent(&requests, erase, &[])?;
    let told = |note: &String, name: &str| console::warning(&format!("{name}: {note}"));
    let opened = consents.into_iter().map(|consent| {
        consent.notes().iter().for_each(|note| told(note, consent.name()));
        Arc::new(Target::writable(consent))
    });
    // All devices are checked before the first write.
    let opened: Vec<_> = opened.collect();
    let header = |((target, wanted), kept)| header(target, wanted, kept);
    let headers = all(opened.iter().zip(&wanted).zip(&kept).map(header), Failure::environment)?;
    let devices: Vec<Device> = opened.into_iter().zip(headers).collect();
    let new: Vec<_> =
        devices.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(new, _)| new.clone()).collect();
    formatting::format(&new).map_err(Failure::environment)?;
    for (target, header) in &new {
        console::note(&format!("{}: formatted for namespace {}", target.name(), header.namespace));
    }
    let mut devices = devices.into_iter();
    Ok(config.namespaces.iter().map(|namespace| devices.by_ref().take(namespace.devices.len()).collect()).collect())
}

fn wanted(namespace: &NamespaceConfig, cores: u16) -> Vec<Wanted<'_>> {
    let devices = namespace.devices.len() as u16;
    // Random identifier of the set of devices.
    let set = RandomState::new().hash_one(&namespace.devices);
    (0..)
        .zip(&namespace.devices)
        .map(|(index, name)| Wanted {
            name,
            file_bytes: namespace.file_bytes,
            header: DeviceHeader::new(&namespace.settings, devices, index, cores, set),
        })
        .collect()
}

/// The header of an existing store with the expected settings. Errors: another store, a sentence.
fn before(wanted: &Wanted<'_>) -> Result<Option<DeviceHeader>, String> {
    // The guard refuses a path that cannot be read, or is neither file nor device.
    let Ok(metadata) = fs::metadata(wanted.name) else { return Ok(None) };
    if !metadata.is_file() && !metadata.file_type().is_block_device() {
        return Ok(None);
    }
    let mut bytes = vec![0; WRITTEN_BYTES];
    let read = File::open(wanted.name).and_then(|mut file| {
        file.read_exact_at(&mut bytes, 0)?;
        file.seek(SeekFrom::End(0))
    });
    let Ok(size_bytes) = read else { return Ok(None) };
    let Some(header) = planned(wanted, &bytes, size_bytes)? else { return Ok(None) };
    // The layout of the cores' parts depends on the size.
    match wanted.file_bytes.filter(|bytes| metadata.is_file() && *bytes != metadata.len()) {
        Some(bytes) => Err(format!(
            "cannot open {} - it has records and {} bytes, and filesize says {bytes} - give its own size, or remove the file \
             and with it the records",
            wanted.name,
            metadata.len()
        )),
        None => Ok(Some(header)),
    }
}

/// The header on the device, compared with the expected one; `None` if there is none.
fn planned(wanted: &Wanted<'_>, bytes: &[u8], size_bytes: u64) -> Result<Option<DeviceHeader>, String> {
    let lost = "or clear the device (blkdiscard -z; of a file: remove it), and with it the records";
    match wanted.header.clone().sized(size_bytes).plan(bytes) {
        Plan::Format => Ok(None),
        Plan::Open(header) => Ok(Some(header)),
        Plan::Differs(differences) => Err(format!(
            "cannot open {} - it has records that were written by other settings: {} - give those, {lost}",
            wanted.name,
            differences.join(", ")
        )),
        Plan::Damaged => Err(format!(
            "cannot open {} - it has the header of a record store, whose checksum is wrong - {}",
            wanted.name,
            lost.trim_start_matches("or ")
        )),
    }
}

/// Checks that all devices of a namespace have its records, from one set, or none has. Without one device records would
/// be missing; with a device of another set, older records would reappear.
fn check_sets(wanted: &[Wanted<'_>], kept: &[Option<DeviceHeader>]) -> Result<(), Failure> {
    for (this, header) in wanted.iter().zip(kept) {
        let of = &this.header.namespace;
        let mut others = wanted.iter().zip(kept).filter(|(other, _)| other.header.namespace == *of);
        let other = others.find_map(|(other, kept)| {
            kept.as_ref().filter(|kept| header.as_ref().is_none_or(|own| own.set != kept.set)).map(|kept| (other, kept))
        });
        let Some((other, kept)) = other else { continue };
        return Err(Failure::environment(match header {
            None => format!(
                "cannot open namespace {of} - {} has records of it and {} has none - give all of its devices, or clear {}, and \
                 with it the records",
                other.name, this.name, other.name
            ),
            Some(own) => format!(
                "cannot open namespace {of} - {} and {} were not formatted together: the one is of set {:016x}, the other of \
                 {:016x} - give devices of one set, or clear all of them, and with them the records",
                this.name, other.name, own.set, kept.set
            ),
        }));
    }
    Ok(())
}

/// The header for a device that is now open for writing; an existing header is read again.
fn header(target: &Arc<Target>, wanted: &Wanted<'_>, kept: &Option<DeviceHeader>) -> Result<DeviceHeader, String> {
    let cannot = |why: &str| format!("cannot open {} - {why}", wanted.name);
    let space = wanted.header.space(target.size_bytes(), 0, 0, target.min_io_bytes());
    space.map_err(|why| cannot(&why))?;
    // Nothing to keep: earlier data had no owner, or the user gave it up.
    let Some(kept) = kept else { return Ok(wanted.header.clone().sized(target.size_bytes())) };
    let bytes = formatting::read_begin(target, WRITTEN_BYTES)
        .map_err(|error| cannot(&format!("its header cannot be read: {error}")))?;
    match planned(wanted, &bytes, target.size_bytes())? {
        Some(now) if now == *kept => Ok(now),
        _ => Err(cannot("its header has changed since it was looked at - try again")),
    }
}
