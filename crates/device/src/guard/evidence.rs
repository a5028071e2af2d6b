//! Evidence against erasing a device: data that this program did not write.
//!
//! Samples are read: the first MiB, the last MiB, and random places between them. A sector of zeros is empty. Sectors
//! with the stamp of the device's record were written by flashproof. Any other sector is foreign data. The magic
//! numbers of partition tables, file systems and so on give known formats a name.
//!
//! The table of magic numbers only names data; unnamed data stops a write as well. So a short table is enough, without
//! the checksums by which libblkid distinguishes live superblocks from stale ones. libblkid itself is not used, because
//! a static binary cannot rely on a C library. Sources: the headers of the Linux kernel and libblkid's `superblocks/`
//! for offsets and magic numbers; UEFI 2.10, 5.3 for GPT; Aerospike server, `as/include/storage/drv_common.h`.

use super::preparation::Records;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use std::{fmt, io};
use sys::buffer::{Buf, Pool};
use sys::salt::{SECTOR_BYTES, STAMP_BYTES, is_stamped, stamp};

/// Bytes read at each end of the device.
const END_BYTES: u64 = 1 << 20;

/// Bytes read at each random place, and the alignment of every read: no device has a larger minimum size of direct I/O.
const SPOT_BYTES: u64 = 4096;

/// Data that the test would erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A partition table, with the number of partitions if known.
    PartitionTable { name: &'static str, partitions: Option<u32> },
    /// A file system, or a member of a volume or pool; `at` is the offset of its magic number.
    Signature { name: &'static str, at: u64 },
    /// A device of an Aerospike database, with its namespace.
    Aerospike { namespace: Option<String> },
    /// A device of flashproof's own record engine, with its namespace.
    RecordStore { namespace: Option<String> },
    /// Foreign data in `samples` of `samples_tried` samples. `first_at`: offset of the first foreign sector; `why`: why
    /// no record explains the data.
    Data { samples: u32, samples_tried: u32, first_at: u64, why: String },
    /// Unreadable samples, whose contents are unknown. `first_at`: offset of the first such sample; `error`: the
    /// kernel's error.
    Unreadable { samples: u32, samples_tried: u32, first_at: u64, error: String },
}

impl Evidence {
    /// True if the data identifies its owner: a file system, a volume, a database.
    pub(super) fn has_owner(&self) -> bool {
        !matches!(self, Self::Data { .. } | Self::Unreadable { .. })
    }

    /// True if `evidence` has a store of flashproof's own record engine, and no data of another owner. The header alone
    /// does not prove that the store is intact: data written later may leave the header in place.
    pub(super) fn is_store_alone(evidence: &[Self]) -> bool {
        evidence.iter().any(|one| matches!(one, Self::RecordStore { .. }))
            && evidence.iter().all(|one| matches!(one, Self::RecordStore { .. }) || !one.has_owner())
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
            Self::RecordStore { namespace: None } => f.write_str("records written by `flashproof engine serve`"),
            Self::RecordStore { namespace: Some(name) } => {
                write!(f, "records of namespace \"{name}\", written by `flashproof engine serve`")
            }
            Self::Data { samples, samples_tried, first_at, why } => {
                write!(f, "data in {samples} of {samples_tried} samples, first at byte {first_at} ({why})")
            }
            Self::Unreadable { samples, samples_tried, first_at, error } => {
                write!(f, "{samples} of {samples_tried} samples could not be read, first at byte {first_at} ({error})")
            }
        }
    }
}

/// Number, seed and time limit of the samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    pub(super) spots: u32,
    pub(super) seed: u64,
    /// Time limit for reading the random places.
    pub(super) limit: Duration,
}

/// Data read at both ends of a device, and the key of flashproof's stamps on this device.
pub(super) struct DeviceEnds {
    head: Vec<u8>,
    tail: Vec<u8>,
    tail_at: u64,
    size_bytes: u64,
    key: Option<u64>,
}

impl DeviceEnds {
    /// `len` bytes at `at`, if they were read.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        let within = |bytes, at: u64| <[u8]>::get(bytes, usize::try_from(at).ok()?..)?.get(..len);
        within(&self.head, at).or_else(|| within(&self.tail, at.checked_sub(self.tail_at)?))
    }

    /// As [`Self::bytes`]; `None` if the sector of the first byte has flashproof's stamp, because flashproof's random
    /// data may contain a magic number by chance.
    pub(super) fn count_unstamped(&self, at: u64, len: usize) -> Option<&[u8]> {
        let sector = self.bytes(at - at % SECTOR_BYTES as u64, SECTOR_BYTES);
        self.bytes(at, len).filter(|_| sector.is_none_or(|sector| !self.key.is_some_and(|key| is_stamped(sector, key))))
    }

    /// A device with its whole contents in memory.
    #[cfg(test)]
    pub(super) fn at_bytes(device: &[u8], key: Option<u64>) -> Self {
        let head = device[..device.len().min(END_BYTES as usize)].to_vec();
        let tail_at = device.len().saturating_sub(END_BYTES as usize);
        Self { head, tail: device[tail_at..].to_vec(), tail_at: tail_at as u64, size_bytes: device.len() as u64, key }
    }
}

/// Counts samples by content.
#[derive(Default)]
struct Tally {
    tried: u32,
    /// First foreign byte of each sample that has one.
    foreign_at: Vec<u64>,
    /// Offset of each unreadable sample.
    failed: Vec<(u64, io::Error)>,
}

impl Tally {
    /// Counts the sample read at `at` and returns its bytes.
    fn take<'a>(&mut self, at: u64, result: io::Result<&'a [u8]>, (key, is_file): (Option<u64>, bool)) -> &'a [u8] {
        self.tried += 1;
        match result {
            Ok(bytes) => {
                self.foreign_at.extend(foreign_sector(bytes, key, is_file).map(|first| at + first as u64));
                bytes
            }
            Err(error) => {
                self.failed.push((at, error));
                &[]
            }
        }
    }

    fn evidence(self, why: String) -> impl Iterator<Item = Evidence> {
        let samples_tried = self.tried;
        let (foreign, failed) = (self.foreign_at.len() as u32, self.failed.len() as u32);
        let first_foreign = self.foreign_at.into_iter().min();
        let data = first_foreign.map(|first_at| Evidence::Data { samples: foreign, samples_tried, first_at, why });
        let unreadable = self.failed.into_iter().next().map(|(first_at, error)| {
            let error = error.to_string();
            Evidence::Unreadable { samples: failed, samples_tried, first_at, error }
        });
        data.into_iter().chain(unreadable)
    }
}

/// Offset of the first sector that is neither zero nor stamped. In a file, stamped blocks may begin at any byte.
fn foreign_sector(bytes: &[u8], key: Option<u64>, is_file: bool) -> Option<usize> {
    let ours = |sector: &[u8]| sector.iter().all(|byte| *byte == 0) || key.is_some_and(|key| is_stamped(sector, key));
    let first = bytes.chunks(SECTOR_BYTES).position(|sector| !ours(sector)).map(|index| index * SECTOR_BYTES)?;
    match key.filter(|_| is_file) {
        Some(key) => foreign_between_stamps(bytes, key).map(|at| at / SECTOR_BYTES * SECTOR_BYTES),
        None => Some(first),
    }
}

/// Offset of the first byte that is neither zero nor in a stamped sector. Stamped sectors may begin at any byte: a
/// write of an odd size has its stamps relative to its own start, and zeros after its last whole sector. `bytes` may
/// begin and end within a sector.
fn foreign_between_stamps(bytes: &[u8], key: u64) -> Option<usize> {
    let not_zero = |from: usize, to: usize| {
        bytes.get(from..to).and_then(|gap| gap.iter().position(|byte| *byte != 0)).map(|at| from + at)
    };
    let mut last_stamp_end = 0;
    for next_end in STAMP_BYTES..=bytes.len() {
        if !is_stamped(&bytes[next_end - STAMP_BYTES..next_end], key) {
            continue;
        }
        // A stamp that began before `bytes` cannot be recognised.
        let gap_start = if last_stamp_end == 0 { STAMP_BYTES } else { last_stamp_end };
        if let Some(at) = not_zero(gap_start, next_end.saturating_sub(SECTOR_BYTES)) {
            return Some(at);
        }
        last_stamp_end = next_end;
    }
    not_zero(last_stamp_end, bytes.len()).filter(|at| last_stamp_end == 0 || bytes.len() - at >= SECTOR_BYTES)
}

/// Reads samples of the first `size_bytes` of `file`, which is open for direct I/O. Returns the evidence: data without
/// stamps of `key`. `key` and `why` are those of [`explanation`]. Adds notes if not all samples could be read.
pub(super) fn gather(
    file: &File,
    size_bytes: u64,
    (key, why): (Option<u64>, String),
    sampling: Sampling,
    notes: &mut Vec<String>,
) -> io::Result<Vec<Evidence>> {
    let started = Instant::now();
    let ours = (key, file.metadata()?.is_file());
    let len = (END_BYTES + SPOT_BYTES) as usize;
    let mut buf = Pool::new(len)?.cut(len).ok_or(io::ErrorKind::OutOfMemory)?;
    let mut tally = Tally::default();

    let head = tally.take(0, read(file, 0, END_BYTES, &mut buf), ours).to_vec();
    let tail_at = (size_bytes.saturating_sub(END_BYTES) / SPOT_BYTES * SPOT_BYTES).max(END_BYTES.min(size_bytes));
    let tail = match size_bytes - tail_at {
        0 => Vec::new(),
        len => tally.take(tail_at, read(file, tail_at, len, &mut buf), ours).to_vec(),
    };
    let middle_spots = tail_at.saturating_sub(END_BYTES) / SPOT_BYTES;
    for spot in 0..u64::from(sampling.spots).min(middle_spots) {
        if started.elapsed() > sampling.limit {
            notes
                .push(format!("only {spot} of {} random places could be read in {:?}", sampling.spots, sampling.limit));
            break;
        }
        let at = END_BYTES + stamp(spot, sampling.seed) % middle_spots * SPOT_BYTES;
        tally.take(at, read(file, at, SPOT_BYTES, &mut buf), ours);
    }
    let mut evidence = known_formats(&DeviceEnds { head, tail, tail_at, size_bytes, key });
    evidence.extend(tally.evidence(why));
    Ok(evidence)
}

/// The key that explains data on the device `identity`, and the reason, in words, why other data is unexplained. A
/// record with another size than `size_bytes` does not count.
pub(super) fn explanation(identity: Option<&str>, size_bytes: u64, records: &Records) -> (Option<u64>, String) {
    let Some(identity) = identity else {
        return (
            None,
            "it has no serial number or other lasting name, so flashproof cannot recognise its own data".into(),
        );
    };
    match records.find(identity) {
        None => (None, format!("there is no record that flashproof wrote to {identity}")),
        Some(record) if record.size_bytes != size_bytes => {
            let recorded_bytes = record.size_bytes;
            (None, format!("the record for {identity} is for {recorded_bytes} bytes, but the device has {size_bytes}"))
        }
        Some(record) => (Some(record.key), format!("the data lacks the stamp of flashproof's writes to {identity}")),
    }
}

/// Reads `len` bytes at `at`, or fewer at the end of the device. `len` is rounded up for direct I/O; `buf` must hold
/// the rounded length.
fn read<'a>(file: &File, at: u64, len: u64, buf: &'a mut Buf) -> io::Result<&'a [u8]> {
    let len = len.next_multiple_of(SPOT_BYTES) as usize;
    let mut read_bytes = 0;
    while read_bytes < len {
        match file.read_at(&mut buf[read_bytes..len], at + read_bytes as u64) {
            // A short read means the end of the device, or would make the next offset unaligned for direct I/O.
            Ok(n) => {
                read_bytes += n;
                if n == 0 || read_bytes % SECTOR_BYTES != 0 {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // This read is past the end of a file whose length is not a multiple of the direct I/O unit.
            Err(error) if read_bytes > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(&buf[..read_bytes])
}

const KIB: u64 = 1024;

/// A format with a magic number at a fixed offset.
struct Magic {
    name: &'static str,
    /// Possible offsets on the device.
    offsets: &'static [u64],
    magic: &'static [u8],
}

/// Formats with fixed offsets, the most informative first.
const MAGICS: &[Magic] = &[
    Magic { name: "an ext2, ext3 or ext4 file system", offsets: &[0x438], magic: b"\x53\xef" },
    Magic { name: "an XFS file system", offsets: &[0], magic: b"XFSB" },
    Magic { name: "a Btrfs file system", offsets: &[64 * KIB + 0x40], magic: b"_BHRfS_M" },
    Magic { name: "an NTFS file system", offsets: &[3], magic: b"NTFS    " },
    Magic { name: "an exFAT file system", offsets: &[3], magic: b"EXFAT   " },
    Magic { name: "a FAT file system", offsets: &[0x36], magic: b"FAT12   " },
    Magic { name: "a FAT file system", offsets: &[0x36], magic: b"FAT16   " },
    Magic { name: "a FAT file system", offsets: &[0x52], magic: b"FAT32   " },
    Magic { name: "an F2FS file system", offsets: &[KIB], magic: b"\x10\x20\xf5\xf2" },
    Magic { name: "a bcachefs file system", offsets: &[4 * KIB + 24], magic: b"\xc6\x85\x73\xf6\x66\xce\x90\xa9" },
    Magic { name: "an ISO 9660 file system", offsets: &[0x8001], magic: b"CD001" },
    Magic { name: "a SquashFS file system", offsets: &[0], magic: b"hsqs" },
    Magic { name: "an EROFS file system", offsets: &[KIB], magic: b"\xe2\xe1\xf5\xe0" },
    // The magic number of swap space is at the end of the first page, for any page size.
    Magic { name: "swap space", offsets: &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6], magic: b"SWAPSPACE2" },
    Magic { name: "swap space", offsets: &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6], magic: b"SWAP-SPACE" },
    // The label is in one of the first four sectors; its type is at byte 24 of the label.
    Magic { name: "an LVM2 physical volume", offsets: &[0x018, 0x218, 0x418, 0x618], magic: b"LVM2 001" },
    Magic { name: "a software RAID member (superblock 1.1)", offsets: &[0], magic: b"\xfc\x4e\x2b\xa9" },
    Magic { name: "a software RAID member (superblock 1.2)", offsets: &[4 * KIB], magic: b"\xfc\x4e\x2b\xa9" },
    Magic { name: "a LUKS encrypted volume", offsets: &[0], magic: b"LUKS\xba\xbe" },
    Magic { name: "a LUKS encrypted volume (second header)", offsets: &[16 * KIB, 32 * KIB], magic: b"SKUL\xba\xbe" },
    Magic { name: "a bcache device", offsets: &[4 * KIB + 24], magic: b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca" },
    Magic { name: "a Ceph BlueStore device", offsets: &[0], magic: b"bluestore block device" },
    Magic { name: "a Stratis device", offsets: &[0x204], magic: b"!Stra0tis\x86\xff\x02^\x41rh" },
    Magic { name: "a VDO device", offsets: &[0], magic: b"dmvdo001" },
    Magic { name: "an Oracle ASM disk", offsets: &[32], magic: b"ORCLDISK" },
];

const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";

/// All known formats on the device.
pub(super) fn known_formats(ends: &DeviceEnds) -> Vec<Evidence> {
    let stores = aerospike(ends).into_iter().chain(record_store(ends));
    let mut evidence: Vec<Evidence> = stores.chain(partition_table(ends)).collect();
    for Magic { name, offsets, magic } in MAGICS {
        let offset = offsets.iter().find(|at| ends.count_unstamped(**at, magic.len()) == Some(magic));
        evidence.extend(offset.map(|at| Evidence::Signature { name, at: *at }));
    }
    evidence.extend(software_raid_at_end(ends));
    evidence.extend(zfs(ends));
    evidence
}

/// The header `drv_prefix`: magic number, version, and since version 3 the namespace as 32 bytes of text.
fn aerospike(ends: &DeviceEnds) -> Option<Evidence> {
    const MAGIC: u64 = 0x4349_7472_7573_0322;
    const MAGIC_BEFORE_VERSION_3: u64 = 0x4349_7472_7573_0707;
    let namespace = match little_endian(ends.count_unstamped(0, 8)?) {
        MAGIC => {
            let text = ends.count_unstamped(12, 32)?.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.contains(char::is_control))
        }
        MAGIC_BEFORE_VERSION_3 => None,
        _ => return None,
    };
    Some(Evidence::Aerospike { namespace })
}

/// The header that `store::DeviceHeader` writes: the length of the name at byte 42, the name at byte 44.
fn record_store(ends: &DeviceEnds) -> Option<Evidence> {
    ends.count_unstamped(0, 16).filter(|magic| magic == b"flashproof store")?;
    let length = ends.count_unstamped(42, 2).map_or(0, little_endian);
    let name = ends.count_unstamped(44, length.min(128) as usize).unwrap_or_default();
    let name = Some(String::from_utf8_lossy(name).into_owned());
    Some(Evidence::RecordStore { namespace: name.filter(|name| !name.is_empty() && !name.contains(char::is_control)) })
}

fn partition_table(ends: &DeviceEnds) -> Option<Evidence> {
    // The header is in sector 1, its backup in the last sector, for any sector size.
    const SECTORS: [u64; 2] = [512, 4096];
    for sector in SECTORS {
        if ends.count_unstamped(sector, 8) == Some(b"EFI PART") {
            return Some(Evidence::PartitionTable {
                name: "a GPT partition table",
                partitions: gpt_entries(ends, sector),
            });
        }
    }
    for sector in SECTORS {
        if ends.size_bytes > sector && ends.count_unstamped(ends.size_bytes - sector, 8) == Some(b"EFI PART") {
            return Some(Evidence::PartitionTable { name: "the backup of a GPT partition table", partitions: None });
        }
    }
    mbr(ends)
}

/// Number of used entries of the table with the header at `header`, as far as the entries were read.
fn gpt_entries(ends: &DeviceEnds, header: u64) -> Option<u32> {
    let field = ends.count_unstamped(header + 72, 16)?;
    let (start, count) = (little_endian(&field[..8]).checked_mul(header)?, little_endian(&field[8..12]).min(1024));
    let size = little_endian(&field[12..16]).max(128);
    let is_used = |at: u64| ends.bytes(at, 16).is_some_and(|kind| kind.iter().any(|byte| *byte != 0));
    Some((0..count).filter(|entry| start.checked_add(entry * size).is_some_and(is_used)).count() as u32)
}

/// Layout: four entries of 16 bytes, each with flag, first sector (CHS), type, last sector (CHS), start, length.
fn mbr(ends: &DeviceEnds) -> Option<Evidence> {
    let sector = ends.count_unstamped(0, 512).filter(|sector| sector[510..] == [0x55, 0xaa])?;
    let entries: Vec<&[u8]> = sector[446..510].chunks_exact(16).collect();
    // The boot sector of a file system ends in the same two bytes, but has code in place of the flags.
    if entries.iter().any(|entry| entry[0] & 0x7f != 0) {
        return None;
    }
    let partitions = entries.iter().filter(|entry| entry[4] != 0 && little_endian(&entry[12..16]) != 0).count() as u32;
    (partitions > 0)
        .then_some(Evidence::PartitionTable { name: "an MBR partition table", partitions: Some(partitions) })
}

/// Superblocks 1.0 and 0.90 are near the end, on boundaries of 4 KiB and of 64 KiB (`md_p.h`).
fn software_raid_at_end(ends: &DeviceEnds) -> Option<Evidence> {
    let size = ends.size_bytes;
    let at_1_0 = (size.checked_sub(8 * KIB)?) & !(4 * KIB - 1);
    let at_0_90 = (size & !(64 * KIB - 1)).checked_sub(64 * KIB);
    [(Some(at_1_0), "a software RAID member (superblock 1.0)"), (at_0_90, "a software RAID member (superblock 0.90)")]
        .into_iter()
        .filter_map(|(at, name)| Some((at?, name)))
        .find(|(at, _)| ends.count_unstamped(*at, 4) == Some(MD_MAGIC))
        .map(|(at, name)| Evidence::Signature { name, at })
}

/// Layout: two labels of 256 KiB at the start and two at the end. The second half of a label is a ring of uberblocks of
/// 1 KiB or more (`vdev_impl.h`).
fn zfs(ends: &DeviceEnds) -> Option<Evidence> {
    const MAGIC: u64 = 0x00ba_b10c;
    let label = 256 * KIB;
    let end = ends.size_bytes / label * label;
    let starts = [Some(0), Some(label), end.checked_sub(2 * label), end.checked_sub(label)];
    let mut rings = starts.into_iter().flatten().flat_map(|start| (0..128).map(move |i| start + 128 * KIB + i * KIB));
    let at = rings.find(|at| {
        ends.count_unstamped(*at, 8).map(little_endian).is_some_and(|word| word == MAGIC || word.swap_bytes() == MAGIC)
    })?;
    Some(Evidence::Signature { name: "a ZFS pool member", at })
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use sys::salt::Salt;

    const SAMPLING: Sampling = Sampling { spots: 64, seed: 1, limit: Duration::from_secs(60) };

    fn evidence_of(content: &[u8], identity: Option<&str>, records: &Records) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let size_bytes = content.len() as u64;
        let explanation = explanation(identity, size_bytes, records);
        let found = gather(&file, size_bytes, explanation, SAMPLING, &mut Vec::new()).unwrap();
        found.iter().map(ToString::to_string).collect()
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

    /// Contents of a file after writes of `block_bytes`: stamped from the beginning of each write, zero after its last
    /// whole sector.
    fn written_by(block_bytes: usize, size: usize, key: u64) -> Vec<u8> {
        let mut content = vec![0; size.next_multiple_of(block_bytes)];
        for (number, block) in content.chunks_mut(block_bytes).enumerate() {
            Salt::new(number as u64, 100, key).fill(block);
        }
        content.truncate(size);
        content
    }

    #[test]
    fn our_own_file_is_known_whatever_the_size_of_its_writes() {
        for block_bytes in [100, 512, 700, 2300, 4097, 9999] {
            for (from, to) in [(0, 1 << 16), (4096, 8192), (8192, 12_288), (2040, 6136), (2300, 6396), (1, 4097)] {
                let mut bytes = written_by(block_bytes, 1 << 16, 7)[from..to].to_vec();
                assert_eq!(foreign_sector(&bytes, Some(7), true), None, "{block_bytes} from {from}");
                let is_zero = bytes.iter().all(|byte| *byte == 0);
                assert_eq!(foreign_sector(&bytes, Some(8), true).is_none(), is_zero, "the key of another file");
                bytes[1500..2200].fill(b'x');
                let found = foreign_sector(&bytes, Some(7), true);
                assert!(found.is_some_and(|at| at <= 2048), "{block_bytes} from {from}: {found:?}");
            }
        }
        let bytes = written_by(2300, 1 << 16, 7);
        assert_eq!(foreign_sector(&bytes, Some(7), false), Some(2048), "a device has whole sectors only");
        let mut end = written_by(2300, 4096, 7);
        end.extend(vec![b'x'; 600]);
        assert!(foreign_sector(&end, Some(7), true).is_some_and(|at| at >= 3584), "what somebody appended");
    }

    #[test]
    fn our_own_data_is_explained_by_the_record_of_this_device_and_size_only() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let mut content = vec![0; 4 << 20];
        let key = records.keep("serial s", content.len() as u64, "salted").unwrap();
        Salt::new(5, 100, key).fill(&mut content[..3 << 20]);
        assert!(evidence_of(&content, Some("serial s"), &records).is_empty());

        let other_device = evidence_of(&content, Some("serial t"), &records);
        assert!(other_device[0].contains("no record that flashproof wrote to serial t"), "{other_device:?}");
        let no_name = evidence_of(&content, None, &records);
        assert!(no_name[0].contains("no serial number"), "{no_name:?}");
        let other_size = evidence_of(&content[..3 << 20], Some("serial s"), &records);
        assert!(other_size[0].contains("is for 4194304 bytes, but the device has 3145728"), "{other_size:?}");

        content[600] ^= 1 << 3; // in the data, which the stamp does not cover
        assert!(evidence_of(&content, Some("serial s"), &records).is_empty());
        content[512..1024].fill(9); // a whole sector of somebody else
        let found = evidence_of(&content, Some("serial s"), &records);
        assert!(found[0].contains("first at byte 512 (the data lacks the stamp"), "{found:?}");
    }

    #[test]
    fn a_magic_number_in_our_own_data_is_none() {
        let mut device = vec![0; 2 << 20];
        Salt::new(5, 100, 77).fill(&mut device);
        device[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert!(known_formats(&DeviceEnds::at_bytes(&device, Some(77))).is_empty());
        assert_eq!(known_formats(&DeviceEnds::at_bytes(&device, Some(78))).len(), 1);
    }

    #[test]
    fn samples_that_cannot_be_read_are_evidence() {
        let dir = File::open("/tmp").unwrap();
        let found = gather(&dir, 1 << 22, explanation(None, 0, &no_records()), SAMPLING, &mut Vec::new()).unwrap();
        let text = found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(matches!(&text[..], [one] if one.starts_with("66 of 66 samples could not be read")), "{text:?}");
    }

    #[test]
    fn the_time_limit_is_kept_and_said() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 24).unwrap();
        let mut notes = Vec::new();
        let sampling = Sampling { limit: Duration::ZERO, ..SAMPLING };
        gather(&file, 1 << 24, explanation(None, 0, &no_records()), sampling, &mut notes).unwrap();
        assert!(notes[0].starts_with("only 0 of 64 random places"), "{notes:?}");
    }

    const SIZE: u64 = 8 << 20;

    /// Evidence found on an 8 MiB device with `bytes` at `at`.
    fn on_device(at: u64, bytes: &[u8]) -> Vec<String> {
        let mut device = vec![0; SIZE as usize];
        device[at as usize..][..bytes.len()].copy_from_slice(bytes);
        known_formats(&DeviceEnds::at_bytes(&device, None)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_found_on_zeros() {
        assert!(on_device(0, &[]).is_empty());
        assert!(known_formats(&DeviceEnds::at_bytes(&[], None)).is_empty());
        assert!(known_formats(&DeviceEnds::at_bytes(&[0; 700], None)).is_empty());
    }

    #[test]
    fn every_magic_is_found_at_every_place_that_it_may_have() {
        for Magic { name, offsets: at, magic } in MAGICS {
            for at in *at {
                let found = on_device(*at, magic);
                assert!(matches!(&found[..], [one] if one.starts_with(name)), "{name} at {at}: {found:?}");
            }
        }
    }

    #[test]
    fn aerospike_headers_name_their_namespace() {
        let mut header = 0x4349_7472_7573_0322_u64.to_le_bytes().to_vec();
        header.extend(4_u32.to_le_bytes());
        header.extend(b"users\0");
        assert_eq!(on_device(0, &header), ["an Aerospike device header of namespace \"users\""]);
        assert_eq!(on_device(0, &0x4349_7472_7573_0707_u64.to_le_bytes()), ["an Aerospike device header"]);
    }

    #[test]
    fn a_store_of_our_own_is_named_as_one() {
        let mut header = b"flashproof store".to_vec();
        header.resize(42, 1);
        header.extend([4, 0]);
        header.extend(b"test");
        assert_eq!(on_device(0, &header), ["records of namespace \"test\", written by `flashproof engine serve`"]);
        header[43] = 255;
        assert!(on_device(0, &header)[0].starts_with("records written by `flashproof engine serve`"));
        // A RAID array created later left the header in place.
        let store = Evidence::RecordStore { namespace: None };
        let data = Evidence::Data { samples: 1, samples_tried: 2, first_at: 0, why: String::new() };
        assert!(Evidence::is_store_alone(&[store.clone(), data.clone()]) && !Evidence::is_store_alone(&[data]));
        assert!(!Evidence::is_store_alone(&[store, Evidence::Signature { name: "a software RAID member", at: 4096 }]));
    }

    #[test]
    fn a_gpt_is_found_at_both_ends_and_with_both_sector_sizes() {
        for sector in [512, 4096] {
            let mut header = b"EFI PART".to_vec();
            header.resize(72, 0);
            header.extend(2_u64.to_le_bytes()); // entries start at sector 2
            header.extend(128_u32.to_le_bytes());
            header.extend(128_u32.to_le_bytes());
            header.resize(sector as usize, 0);
            header.extend([1; 16]); // one entry in use
            assert_eq!(on_device(sector, &header), ["a GPT partition table with 1 partitions"]);
            assert_eq!(on_device(SIZE - sector, b"EFI PART"), ["the backup of a GPT partition table"]);
        }
    }

    #[test]
    fn an_mbr_counts_with_entries_only() {
        let mut sector = vec![0; 512];
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        assert!(on_device(0, &sector).is_empty());
        sector[446 + 16 + 4] = 0x83;
        sector[446 + 16 + 12] = 8;
        assert_eq!(on_device(0, &sector), ["an MBR partition table with 1 partitions"]);
        sector[446] = 0x33; // code, not a flag: a boot sector
        assert!(on_device(0, &sector).is_empty());
    }

    #[test]
    fn superblocks_near_the_end_are_found() {
        let found = on_device(SIZE - 8 * KIB, MD_MAGIC);
        assert!(found[0].starts_with("a software RAID member (superblock 1.0)"), "{found:?}");
        let found = on_device(SIZE - 64 * KIB, MD_MAGIC);
        assert!(found[0].starts_with("a software RAID member (superblock 0.90)"), "{found:?}");
        for at in [128 * KIB, 132 * KIB, 256 * KIB + 128 * KIB, SIZE - 128 * KIB, SIZE - 384 * KIB] {
            for magic in [0xbab10c_u64.to_le_bytes(), 0xbab10c_u64.to_be_bytes()] {
                let found = on_device(at, &magic);
                assert!(matches!(&found[..], [one] if one.starts_with("a ZFS pool member")), "{at}: {found:?}");
            }
        }
    }
}
