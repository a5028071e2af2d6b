//! What speaks against erasing a device: data on it that this program did not write.
//!
//! The first and the last MiB and some seeded spots between are read. A sector that is all zeros is
//! empty; one that carries the stamp of the device's preparation record is ours; anything else is
//! somebody's. Where the data has a name ([`super::signatures`]) it is told.

use super::preparation::Records;
use super::signatures;
use super::stamp::{SECTOR_BYTES, is_stamped, stamp};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use sys::buffer::{Buf, Pool};

/// Bytes read at each end.
const END_BYTES: u64 = 1 << 20;

/// Bytes read at each spot, and the alignment of every read: the largest minimum of direct I/O.
const SPOT_BYTES: u64 = 4096;

/// Something that would be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A partition table.
    PartitionTable {
        /// Which.
        name: &'static str,
        /// Partitions in it, if they could be counted.
        partitions: Option<u32>,
    },
    /// A file system, or a member of a volume or pool.
    Signature {
        /// Which.
        name: &'static str,
        /// Byte at which its magic number stands.
        at: u64,
    },
    /// A device of an Aerospike database.
    Aerospike {
        /// The namespace whose records are on it.
        namespace: Option<String>,
    },
    /// Data that is not zero and that no record explains.
    Data {
        /// Samples with such data.
        samples: u32,
        /// Samples read.
        of: u32,
        /// First byte of the first such sector found.
        first_at: u64,
        /// Why no record explains it.
        why: String,
    },
    /// Samples that could not be read, so that nobody knows what is there.
    Unreadable {
        /// Samples that failed.
        samples: u32,
        /// Samples tried.
        of: u32,
        /// First byte of the first one that failed.
        first_at: u64,
        /// The kernel's answer to that one.
        error: String,
    },
}

impl Evidence {
    /// Whether it says whose data it is: a file system's, a volume's, a database's.
    pub(super) fn has_owner(&self) -> bool {
        match self {
            Self::PartitionTable { .. } | Self::Signature { .. } | Self::Aerospike { .. } => true,
            Self::Data { .. } | Self::Unreadable { .. } => false,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartitionTable { name, partitions: None } => f.write_str(name),
            Self::PartitionTable { name, partitions: Some(n) } => write!(f, "{name} with {n} partitions"),
            Self::Signature { name, at } => write!(f, "{name} (at byte {at})"),
            Self::Aerospike { namespace: None } => f.write_str("an Aerospike device header"),
            Self::Aerospike { namespace: Some(name) } => {
                write!(f, "an Aerospike device header of namespace \"{name}\"")
            }
            Self::Data { samples, of, first_at, why } => {
                write!(f, "data in {samples} of {of} samples, first at byte {first_at} ({why})")
            }
            Self::Unreadable { samples, of, first_at, error } => {
                write!(f, "{samples} of {of} samples could not be read, first at byte {first_at} ({error})")
            }
        }
    }
}

/// How much to look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    pub(super) spots: u32,
    pub(super) seed: u64,
    /// No spot is read after this time.
    pub(super) limit: Duration,
}

/// By what a device is found among the records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) identity: Option<&'a str>,
    /// Size that the record must have.
    pub(super) size_bytes: u64,
}

/// Both ends of a device, and what explains the data there.
pub(super) struct Look {
    head: Vec<u8>,
    tail: Vec<u8>,
    tail_at: u64,
    size_bytes: u64,
    key: Option<u64>,
}

impl Look {
    /// Size of the device.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// `len` bytes at `at`, if they lie in what was read.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        let within = |bytes, at: u64| <[u8]>::get(bytes, usize::try_from(at).ok()?..)?.get(..len);
        within(&self.head, at).or_else(|| within(&self.tail, at.checked_sub(self.tail_at)?))
    }

    /// As [`Self::bytes`], unless the sector of the first byte is our own: random data holds every
    /// short magic number sooner or later.
    pub(super) fn foreign(&self, at: u64, len: usize) -> Option<&[u8]> {
        let sector = self.bytes(at - at % SECTOR_BYTES as u64, SECTOR_BYTES);
        self.bytes(at, len).filter(|_| sector.is_none_or(|sector| !self.key.is_some_and(|key| is_stamped(sector, key))))
    }

    /// A device whose content is all in memory.
    #[cfg(test)]
    pub(super) fn at_bytes(device: &[u8], key: Option<u64>) -> Self {
        let head = device[..device.len().min(END_BYTES as usize)].to_vec();
        let tail_at = device.len().saturating_sub(END_BYTES as usize);
        Self { head, tail: device[tail_at..].to_vec(), tail_at: tail_at as u64, size_bytes: device.len() as u64, key }
    }
}

/// Counts samples by what is in them.
#[derive(Default)]
struct Tally {
    tried: u32,
    foreign: u32,
    first_foreign_at: Option<u64>,
    failed: u32,
    first_failed: Option<(u64, io::Error)>,
}

impl Tally {
    /// Takes the sample read at `at` and hands its bytes on.
    fn take<'a>(&mut self, at: u64, read: io::Result<&'a [u8]>, key: Option<u64>) -> &'a [u8] {
        self.tried += 1;
        match read {
            Ok(bytes) => {
                if let Some(first) = foreign_sector(bytes, key) {
                    self.foreign += 1;
                    let first_at = at + first as u64;
                    self.first_foreign_at = Some(self.first_foreign_at.map_or(first_at, |old| old.min(first_at)));
                }
                bytes
            }
            Err(error) => {
                self.failed += 1;
                self.first_failed.get_or_insert((at, error));
                &[]
            }
        }
    }

    fn evidence(self, why: &str) -> impl Iterator<Item = Evidence> {
        let of = self.tried;
        let data = self.first_foreign_at.map(|first_at| Evidence::Data {
            samples: self.foreign,
            of,
            first_at,
            why: why.to_owned(),
        });
        let unreadable = self.first_failed.map(|(first_at, error)| Evidence::Unreadable {
            samples: self.failed,
            of,
            first_at,
            error: error.to_string(),
        });
        data.into_iter().chain(unreadable)
    }
}

/// Offset of the first sector that is neither zero nor stamped.
fn foreign_sector(bytes: &[u8], key: Option<u64>) -> Option<usize> {
    let ours = |sector: &[u8]| sector.iter().all(|byte| *byte == 0) || key.is_some_and(|key| is_stamped(sector, key));
    bytes.chunks(SECTOR_BYTES).position(|sector| !ours(sector)).map(|index| index * SECTOR_BYTES)
}

/// Reads samples of the `size_bytes` of `file`, which is open for direct I/O, and says what is there.
///
/// What falls short is added to `notes`.
pub(super) fn gather(
    file: &File,
    size_bytes: u64,
    known: Known<'_>,
    records: &Records,
    sampling: Sampling,
    notes: &mut Vec<String>,
) -> io::Result<Vec<Evidence>> {
    let started = Instant::now();
    let (key, why) = explanation(known, records);
    let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
    let mut buf = Pool::new((END_BYTES + SPOT_BYTES) as usize)?
        .cut((END_BYTES + SPOT_BYTES) as usize)
        .ok_or_else(out_of_memory)?;
    let mut tally = Tally::default();

    let head = tally.take(0, read(file, 0, END_BYTES, &mut buf), key).to_vec();
    let tail_at = (size_bytes.saturating_sub(END_BYTES) / SPOT_BYTES * SPOT_BYTES).max(END_BYTES.min(size_bytes));
    let tail = match size_bytes - tail_at {
        0 => Vec::new(),
        len => tally.take(tail_at, read(file, tail_at, len, &mut buf), key).to_vec(),
    };
    let between = tail_at.saturating_sub(END_BYTES) / SPOT_BYTES;
    for spot in 0..u64::from(sampling.spots).min(between) {
        if started.elapsed() > sampling.limit {
            notes.push(format!("only {spot} of {} spots could be read in {:?}", sampling.spots, sampling.limit));
            break;
        }
        let at = END_BYTES + stamp(spot, sampling.seed) % between * SPOT_BYTES;
        tally.take(at, read(file, at, SPOT_BYTES, &mut buf), key);
    }
    let mut evidence = signatures::find(&Look { head, tail, tail_at, size_bytes, key });
    evidence.extend(tally.evidence(&why));
    Ok(evidence)
}

/// The key that explains data on a device, and in words why other data is not explained.
fn explanation(known: Known<'_>, records: &Records) -> (Option<u64>, String) {
    let size_bytes = known.size_bytes;
    let Some(identity) = known.identity else {
        return (
            None,
            "it has no serial number or other lasting name by which our own data could be known again".into(),
        );
    };
    match records.find(identity) {
        None => (None, format!("there is no record that flashproof wrote to {identity}")),
        Some(record) if record.size_bytes != size_bytes => {
            let was = record.size_bytes;
            (None, format!("the record for {identity} is of {was} bytes and it now has {size_bytes}"))
        }
        Some(record) => (Some(record.key), format!("it lacks the stamp of what flashproof wrote to {identity}")),
    }
}

/// Reads up to `len` bytes at `at`, fewer at the end of the device. `len` is rounded up to what
/// direct I/O takes; `buf` has room for that.
fn read<'a>(file: &File, at: u64, len: u64, buf: &'a mut Buf) -> io::Result<&'a [u8]> {
    let len = len.next_multiple_of(SPOT_BYTES) as usize;
    let mut done = 0;
    while done < len {
        match file.read_at(&mut buf[done..len], at + done as u64) {
            // A short read is the end, or leaves an offset that direct I/O does not take.
            Ok(n) => {
                done += n;
                if n == 0 || done % SECTOR_BYTES != 0 {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Past the end of a file whose length is no multiple of the unit of direct I/O.
            Err(error) if done > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(&buf[..done])
}

#[cfg(test)]
mod tests {
    use super::super::stamp::tests::fill_stamped;
    use super::*;
    use std::io::Write;

    const SAMPLING: Sampling = Sampling { spots: 64, seed: 1, limit: Duration::from_secs(60) };

    fn evidence_of(content: &[u8], identity: Option<&str>, records: &Records) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let found =
            gather(&file, content.len() as u64, known(identity, content.len()), records, SAMPLING, &mut Vec::new())
                .unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    fn known(identity: Option<&str>, size_bytes: usize) -> Known<'_> {
        Known { identity, size_bytes: size_bytes as u64 }
    }

    fn no_records() -> Records {
        Records::open(Some("/nonexistent".into()))
    }

    #[test]
    fn zeros_are_no_evidence_whatever_the_size() {
        for size in [0, 1, 511, 4096, 5000, 1 << 20, (1 << 20) + 512, (2 << 20) + 1024, 9 << 20] {
            assert!(evidence_of(&vec![0; size], None, &no_records()).is_empty(), "{size}");
        }
    }

    #[test]
    fn a_single_byte_at_either_end_is_evidence_and_its_sector_is_named() {
        let size = (3 << 20) + 512;
        for at in [0, 1_000_000, size - 1, size - (1 << 20)] {
            let mut content = vec![0; size];
            content[at] = 1;
            let found = evidence_of(&content, Some("serial s"), &no_records());
            let first = format!("first at byte {}", at / 512 * 512);
            assert!(matches!(&found[..], [one] if one.contains(&first) && one.contains("serial s")), "{at}: {found:?}");
        }
    }

    #[test]
    fn data_in_the_middle_is_found_by_the_spots() {
        let mut content = vec![0; 16 << 20];
        content[1 << 20..15 << 20].fill(7);
        let found = evidence_of(&content, None, &no_records());
        assert!(matches!(&found[..], [one] if one.starts_with("data in 64 of 66 samples")), "{found:?}");
    }

    #[test]
    fn our_own_data_is_explained_by_the_record_of_this_device_and_size_only() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let mut content = vec![0; 4 << 20];
        let key = records.keep("serial s", content.len() as u64, "salted").unwrap();
        fill_stamped(&mut content[..3 << 20], key, 5);
        assert!(evidence_of(&content, Some("serial s"), &records).is_empty());

        let other_device = evidence_of(&content, Some("serial t"), &records);
        assert!(other_device[0].contains("no record that flashproof wrote to serial t"), "{other_device:?}");
        let no_name = evidence_of(&content, None, &records);
        assert!(no_name[0].contains("no serial number"), "{no_name:?}");
        let other_size = evidence_of(&content[..3 << 20], Some("serial s"), &records);
        assert!(other_size[0].contains("is of 4194304 bytes and it now has 3145728"), "{other_size:?}");

        content[600] ^= 1 << 3; // in the data: the stamp still holds, it does not cover the data
        assert!(evidence_of(&content, Some("serial s"), &records).is_empty());
        content[512..1024].fill(9); // a whole sector of somebody else
        let found = evidence_of(&content, Some("serial s"), &records);
        assert!(found[0].contains("first at byte 512 (it lacks the stamp"), "{found:?}");
    }

    #[test]
    fn a_magic_number_in_our_own_data_is_none() {
        let mut device = vec![0; 2 << 20];
        fill_stamped(&mut device, 77, 5);
        device[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert!(signatures::find(&Look::at_bytes(&device, Some(77))).is_empty());
        assert_eq!(signatures::find(&Look::at_bytes(&device, Some(78))).len(), 1);
    }

    #[test]
    fn samples_that_cannot_be_read_are_evidence() {
        let dir = File::open("/tmp").unwrap();
        let found = gather(&dir, 1 << 22, known(None, 0), &no_records(), SAMPLING, &mut Vec::new()).unwrap();
        let text = found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(matches!(&text[..], [one] if one.starts_with("66 of 66 samples could not be read")), "{text:?}");
    }

    #[test]
    fn the_time_limit_is_kept_and_said() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 24).unwrap();
        let mut notes = Vec::new();
        let sampling = Sampling { limit: Duration::ZERO, ..SAMPLING };
        gather(&file, 1 << 24, known(None, 0), &no_records(), sampling, &mut notes).unwrap();
        assert!(notes[0].starts_with("only 0 of 64 spots"), "{notes:?}");
    }
}
