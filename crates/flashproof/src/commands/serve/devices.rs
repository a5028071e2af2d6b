//! The devices of a server: those that have its records are opened with them, others are formatted with the guard's consent.
//!
//! What a device holds is read before the consent through a descriptor that cannot write, and again through the one that the
//! guard gave: nothing is written to a device that has changed meanwhile.

use crate::console;
use crate::devices::consent;
use crate::failure::{Failure, all};
use device::guard::Request;
use device::target::Target;
use engine::uring::Uring;
use engine::{IoEngine, Wait};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::conf::{Config, NamespaceConfig};
use store::server::{Device, cores};
use store::{DEVICE_HEADER_BYTES, DeviceHeader, Plan, WRITTEN_BYTES};
use sys::op::{Op, OpKind};

/// How long a device may take for its header.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes at the end of a device that are cleared with the header's.
const TAIL_BYTES: u64 = 1 << 20;

/// A device of a namespace: where it is, and what its header must say.
struct Wanted<'a> {
    name: &'a str,
    file_bytes: Option<u64>,
    header: DeviceHeader,
}

/// Opens the devices of all namespaces of `config`. `erase` names those that may be erased.
///
/// Errors: what the guard refuses; a device that other settings wrote, whose header is damaged, or that is too small.
pub fn open(config: &Config, erase: &[String]) -> Result<Vec<Vec<Device>>, Failure> {
    let wanted: Vec<_> = config.namespaces.iter().flat_map(|namespace| wanted(namespace, cores(config))).collect();
    let kept = all(wanted.iter().map(before), Failure::environment)?;
    check_mixed(&wanted, &kept)?;
    let request = |(wanted, kept): (&Wanted<'_>, &Option<DeviceHeader>)| Request {
        file_size_bytes: wanted.file_bytes,
        whole: true,
        keeps_store: kept.is_some(),
        ..Request::new(wanted.name, format!("records of namespace {}", wanted.header.namespace))
    };
    let requests: Vec<_> = wanted.iter().zip(&kept).map(request).collect();
    let mut opened = Vec::new();
    for ((consent, wanted), kept) in consent(&requests, erase, &[])?.into_iter().zip(&wanted).zip(kept) {
        consent.notes().iter().for_each(|note| console::warning(&format!("{}: {note}", consent.name())));
        let target = Arc::new(Target::writable(consent));
        // Too small is told before anything is written.
        let space = wanted.header.space(target.size_bytes(), 0, 0, target.min_io_bytes());
        space.map_err(|why| Failure::environment(format!("cannot open {} - {why}", wanted.name)))?;
        let header = open_or_format(&target, wanted, kept);
        opened.push((target, header.map_err(Failure::environment)?));
    }
    let mut opened = opened.into_iter();
    Ok(config.namespaces.iter().map(|namespace| opened.by_ref().take(namespace.devices.len()).collect()).collect())
}

fn wanted(namespace: &NamespaceConfig, cores: u16) -> Vec<Wanted<'_>> {
    let devices = namespace.devices.len() as u16;
    let of =
        |(index, name): (u16, &'_ String)| DeviceHeader::new(&namespace.settings, devices, index, cores, random(name));
    (0..)
        .zip(&namespace.devices)
        .map(|device| Wanted { name: device.1, file_bytes: namespace.file_bytes, header: of(device) })
        .collect()
}

/// A number that no other device was given.
fn random(name: &str) -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// The header of a store that is there and is the one that is wanted. Errors: it is another, a sentence.
fn before(wanted: &Wanted<'_>) -> Result<Option<DeviceHeader>, String> {
    // What cannot be read, or is neither file nor device, is the guard's to refuse.
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
    // Where each core's part begins follows from the size.
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

/// What the header `bytes` of a device of this size is to the one that is wanted: `None` if there is none.
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

/// Of the devices of a namespace, all have its records or none: without one of them records would be missing.
fn check_mixed(wanted: &[Wanted<'_>], kept: &[Option<DeviceHeader>]) -> Result<(), Failure> {
    for (this, _) in wanted.iter().zip(kept).filter(|(_, kept)| kept.is_none()) {
        let of = &this.header.namespace;
        let mut others =
            wanted.iter().zip(kept).filter(|(other, kept)| other.header.namespace == *of && kept.is_some());
        if let Some((other, _)) = others.next() {
            return Err(Failure::environment(format!(
                "cannot open namespace {of} - {} has records of it and {} has none - give all of its devices, or clear {}, and with \
                 it the records",
                other.name, this.name, other.name
            )));
        }
    }
    Ok(())
}

/// Reads the header again, and formats the device if it had none.
fn open_or_format(
    target: &Arc<Target>,
    wanted: &Wanted<'_>,
    kept: Option<DeviceHeader>,
) -> Result<DeviceHeader, String> {
    let failed = |what: &str, error: io::Error| format!("cannot {what} {} - {error}", wanted.name);
    let mut bytes = vec![0; WRITTEN_BYTES];
    transfer(target, OpKind::Read, 0, &mut bytes).map_err(|error| failed("read the header of", error))?;
    let now = match kept {
        // What was there before was nobody's, or was given up.
        None => None,
        Some(_) => planned(wanted, &bytes, target.size_bytes())?,
    };
    if now != kept {
        return Err(format!("cannot open {} - its header has changed since it was looked at - try again", wanted.name));
    }
    match now {
        Some(header) => Ok(header),
        None => {
            let header = wanted.header.clone().sized(target.size_bytes());
            format(target, &header).map_err(|error| failed("format", error))?;
            console::note(&format!("{}: formatted for namespace {}", wanted.name, wanted.header.namespace));
            Ok(header)
        }
    }
}

/// Clears both ends, where file systems, arrays and partition tables have what they are known by, and writes the header.
fn format(target: &Arc<Target>, header: &DeviceHeader) -> io::Result<()> {
    let tail_at =
        (target.size_bytes() - TAIL_BYTES) / u64::from(target.min_io_bytes()) * u64::from(target.min_io_bytes());
    transfer(target, OpKind::Write, tail_at, &mut vec![0; TAIL_BYTES as usize])?;
    transfer(target, OpKind::Write, 0, &mut vec![0; DEVICE_HEADER_BYTES as usize])?;
    transfer(target, OpKind::Write, 0, &mut header.to_bytes())
}

/// Reads or writes bytes of a device.
fn transfer(target: &Arc<Target>, kind: OpKind, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    let begin = Instant::now();
    let (mut engine, _) = Uring::new(vec![target.clone()], 1, bytes.len(), begin, 0)?;
    let mut buf = engine.buffer(bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    buf.copy_from_slice(bytes);
    let len = bytes.len() as u32;
    engine.submit(Op { target: 0, kind, offset, len, sync: true, placement: None, buf, token: 0 });
    let (mut out, until_ns) = (Vec::new(), LIMIT.as_nanos() as u64);
    engine.reap(Wait { until_ns, completions: 1 }, &mut out)?;
    match out.pop() {
        Some(done) if done.outcome.is_done() => {
            bytes.copy_from_slice(&done.buf);
            Ok(())
        }
        Some(failed) => Err(io::Error::other(failed.outcome.to_string())),
        None => Err(io::ErrorKind::TimedOut.into()),
    }
}
