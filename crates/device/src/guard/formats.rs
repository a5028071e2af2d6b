//! Names the formats on a device.
//!
//! Magic numbers only give known data a name; the guard asks about unnamed data as well. So this module does not check
//! the checksums by which libblkid distinguishes live superblocks from stale ones. libblkid itself is not used, because
//! a static binary cannot rely on a C library. Source for Aerospike: its server, `as/include/storage/drv_common.h`.

use super::contents::{
    Contents, STORE_HEADERS, btrfs_backups, ext_backups, extents, little_endian, xfs_backups,
};
use super::evidence::Evidence;
use super::labels;
use super::signatures::{BTRFS, EXT, MAGICS, MD_MAGIC, Magic, TABLES, XFS};
use std::ops::Range;

pub(super) fn known_formats(contents: &Contents) -> Vec<Evidence> {
    let stores = aerospike(contents)
        .into_iter()
        .chain(record_store(contents));
    let mut evidence: Vec<Evidence> = stores.chain(partition_table(contents)).collect();
    let device = 0..contents.size_bytes;
    for Magic {
        name,
        offsets,
        magic,
        ..
    } in TABLES
    {
        let is_table = offsets
            .iter()
            .any(|offset| is_at(contents, *offset, &device, magic).is_some());
        let table = Evidence::PartitionTable {
            name,
            partitions: None,
        };
        if is_table && !evidence.contains(&table) {
            evidence.push(table);
        }
    }
    let mut names = Vec::new();
    for magic in MAGICS.iter().filter(|magic| !magic.offsets.is_empty()) {
        if !names.contains(&magic.name) {
            let signature = signature(contents, magic);
            names.extend(signature.as_ref().map(|_| magic.name));
            evidence.extend(signature);
        }
    }
    evidence.extend(software_raid_at_end(contents));
    evidence.extend(jmicron(contents));
    evidence.extend(zfs(contents));
    evidence.extend(xfs_log(contents));
    evidence.extend(inno_db(contents));
    evidence
}

/// The format of `magic` on the device, else in its first partition, else by a backup superblock.
fn signature(contents: &Contents, magic: &Magic) -> Option<Evidence> {
    let (extent, at) = extents(contents.size_bytes)
        .find_map(|extent| {
            let at = magic
                .offsets
                .iter()
                .find_map(|offset| is_at(contents, *offset, &extent, magic.magic));
            at.map(|at| (extent, at))
        })
        .map(|(extent, at)| (Some(extent), at))
        .or_else(|| backup(contents, magic).map(|at| (None, at)))?;
    let place = match &extent {
        Some(extent) if *extent == (0..contents.size_bytes) => None,
        Some(extent) => Some(format!(
            "in a partition that began at byte {}",
            extent.start
        )),
        None => Some(format!("backup superblock at byte {at}")),
    };
    let details = (magic.details)(contents, extent.map_or(at, |extent| extent.start), at);
    let name = if magic.name == EXT {
        ext_version(contents, at)
    } else {
        magic.name
    };
    Some(Evidence::Signature {
        name,
        details,
        place,
        at,
    })
}

/// Position of `magic` on the device if `magic` is at `offset` of `extent`. A negative offset counts from the end.
fn is_at(contents: &Contents, offset: i64, extent: &Range<u64>, magic: &[u8]) -> Option<u64> {
    let origin = if offset < 0 {
        extent.end / 512 * 512
    } else {
        extent.start
    };
    let at = origin.checked_add_signed(offset)?;
    (contents.count_unstamped(at, magic.len()) == Some(magic)).then_some(at)
}

/// Position of the magic number of the first backup superblock found.
fn backup(contents: &Contents, magic: &Magic) -> Option<u64> {
    let is_there = |at: &u64| contents.count_unstamped(*at, magic.magic.len()) == Some(magic.magic);
    let mut extents = extents(contents.size_bytes);
    match magic.name {
        EXT => extents
            .flat_map(|extent| ext_backups(extent.start))
            .map(|at| at + 0x38)
            .find(is_there),
        BTRFS => extents
            .flat_map(|extent| btrfs_backups(extent.start))
            .map(|at| at + 0x40)
            .find(is_there),
        XFS => extents.find_map(|extent| xfs_backups(&extent).into_iter().find(is_there)),
        _ => None,
    }
}

/// The version of an ext file system, by features that only later versions have.
fn ext_version(contents: &Contents, magic_at: u64) -> &'static str {
    const HAS_JOURNAL: u64 = 4;
    const JOURNAL_DEVICE: u64 = 8;
    const ONLY_EXT4: [u64; 2] = [0x2c0, 0x478];
    let superblock_at = magic_at - 0x38;
    let compatible = u32_at(contents, superblock_at + 0x5c);
    let incompatible = u32_at(contents, superblock_at + 0x60);
    let read_only = u32_at(contents, superblock_at + 0x64);
    match (incompatible, read_only) {
        (journal, _) if journal & JOURNAL_DEVICE != 0 => {
            "the journal of an ext3 or ext4 file system"
        }
        (extents, others) if extents & ONLY_EXT4[0] != 0 || others & ONLY_EXT4[1] != 0 => {
            "an ext4 file system"
        }
        _ if compatible & HAS_JOURNAL != 0 => "an ext3 file system",
        _ => "an ext2 file system",
    }
}

/// The little-endian number of 4 bytes at `at`; 0 if these bytes were not read.
fn u32_at(contents: &Contents, at: u64) -> u64 {
    contents.bytes(at, 4).map_or(0, little_endian)
}

/// The header `drv_prefix`: magic number, version, and since version 3 the namespace as 32 bytes of text.
fn aerospike(contents: &Contents) -> Option<Evidence> {
    const MAGIC: u64 = 0x4349_7472_7573_0322;
    const MAGIC_BEFORE_VERSION_3: u64 = 0x4349_7472_7573_0707;
    let namespace = match little_endian(contents.count_unstamped(0, 8)?) {
        MAGIC => {
            let text = contents
                .count_unstamped(12, 32)?
                .split(|byte| *byte == 0)
                .next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        }
        MAGIC_BEFORE_VERSION_3 => None,
        _ => return None,
    };
    Some(Evidence::Aerospike { namespace })
}

/// A header that `store::DeviceHeader` writes: the length of the name at byte 42, the name at byte 44.
fn record_store(contents: &Contents) -> Option<Evidence> {
    let at = STORE_HEADERS.into_iter().find(|at: &u64| {
        contents
            .count_unstamped(*at, 16)
            .is_some_and(|magic| magic == b"flashproof store")
    })?;
    let length = contents
        .count_unstamped(at + 42, 2)
        .map_or(0, little_endian);
    let name = contents
        .count_unstamped(at + 44, length.min(128) as usize)
        .unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Some(Evidence::RecordStore {
        namespace: Some(name).filter(|name| !name.is_empty() && !name.contains(char::is_control)),
    })
}

fn partition_table(contents: &Contents) -> Option<Evidence> {
    // The GPT header is in sector 1, and its backup in the last sector. The sector size is unknown, so try both.
    const SECTORS: [u64; 2] = [512, 4096];
    for sector in SECTORS {
        if contents.count_unstamped(sector, 8) == Some(b"EFI PART") {
            return Some(Evidence::PartitionTable {
                name: "a GPT partition table",
                partitions: gpt_entries(contents, sector),
            });
        }
    }
    for sector in SECTORS {
        if contents.size_bytes > sector
            && contents.count_unstamped(contents.size_bytes - sector, 8) == Some(b"EFI PART")
        {
            return Some(Evidence::PartitionTable {
                name: "the backup of a GPT partition table",
                partitions: None,
            });
        }
    }
    mbr(contents)
}

/// Number of used entries of the GPT whose header is at `header`, counting only entries that were read.
fn gpt_entries(contents: &Contents, header: u64) -> Option<u32> {
    let field = contents.count_unstamped(header + 72, 16)?;
    let start = little_endian(&field[..8]).checked_mul(header)?;
    let count = little_endian(&field[8..12]).min(1024);
    let size = little_endian(&field[12..16]).max(128);
    Some(
        (0..count)
            .filter(|entry| {
                start.checked_add(entry * size).is_some_and(|at: u64| {
                    contents
                        .bytes(at, 16)
                        .is_some_and(|kind| kind.iter().any(|byte| *byte != 0))
                })
            })
            .count() as u32,
    )
}

/// Layout: four entries of 16 bytes, each with flag, first sector (CHS), type, last sector (CHS), start, length.
fn mbr(contents: &Contents) -> Option<Evidence> {
    let sector = contents
        .count_unstamped(0, 512)
        .filter(|sector| sector[510..] == [0x55, 0xaa])?;
    let entries: Vec<&[u8]> = sector[446..510].chunks_exact(16).collect();
    // The boot sector of a file system ends in the same two bytes, but has code in place of the flags.
    if entries.iter().any(|entry| entry[0] & 0x7f != 0) {
        return None;
    }
    let partitions = entries
        .iter()
        .filter(|entry| entry[4] != 0 && little_endian(&entry[12..16]) != 0)
        .count() as u32;
    (partitions > 0).then_some(Evidence::PartitionTable {
        name: "an MBR partition table",
        partitions: Some(partitions),
    })
}

/// Superblocks 1.0 and 0.90 are near the end, on boundaries of 4 KiB and of 64 KiB (`md_p.h`).
fn software_raid_at_end(contents: &Contents) -> Option<Evidence> {
    let size = contents.size_bytes;
    let at_1_0 = (size.checked_sub(8 * 1024)?) & !(4 * 1024 - 1);
    let at_0_90 = (size & !(64 * 1024 - 1)).checked_sub(64 * 1024);
    let is_member = |at: &u64| contents.count_unstamped(*at, 4) == Some(MD_MAGIC);
    let (name, details) = match (is_member(&at_1_0), at_0_90.is_some_and(|at| is_member(&at))) {
        (true, _) => (
            "a software RAID member (superblock 1.0)",
            labels::md(contents, at_1_0, at_1_0),
        ),
        (false, true) => ("a software RAID member (superblock 0.90)", Vec::new()),
        (false, false) => return None,
    };
    let at = if is_member(&at_1_0) {
        at_1_0
    } else {
        at_0_90.unwrap_or_default()
    };
    Some(Evidence::Signature {
        name,
        details,
        place: None,
        at,
    })
}

/// The superblock of a JMicron RAID: its 64 words of 16 bits have the sum 0 or 1.
fn jmicron(contents: &Contents) -> Option<Evidence> {
    let at = (contents.size_bytes / 512 * 512).checked_sub(512)?;
    let bytes = contents
        .count_unstamped(at, 128)
        .filter(|bytes| bytes.starts_with(b"JM"))?;
    let sum = bytes.chunks_exact(2).fold(0_u16, |sum, word| {
        sum.wrapping_add(little_endian(word) as u16)
    });
    (sum <= 1).then(|| Evidence::Signature {
        name: "a JMicron RAID member",
        details: Vec::new(),
        place: None,
        at,
    })
}

/// Layout: two labels of 256 KiB at the start and two at the end. The second half of a label is a ring of uberblocks of
/// 1 KiB or more (`vdev_impl.h`).
fn zfs(contents: &Contents) -> Option<Evidence> {
    const MAGIC: u64 = 0x00ba_b10c;
    let label = 256 * 1024;
    let end = contents.size_bytes / label * label;
    let starts = [
        Some(0),
        Some(label),
        end.checked_sub(2 * label),
        end.checked_sub(label),
    ];
    let mut rings = starts
        .into_iter()
        .flatten()
        .flat_map(|start| (0..128).map(move |i| start + 128 * 1024 + i * 1024));
    let at = rings.find(|at| {
        contents
            .count_unstamped(*at, 8)
            .map(little_endian)
            .is_some_and(|word| word == MAGIC || word.swap_bytes() == MAGIC)
    })?;
    Some(Evidence::Signature {
        name: "a ZFS pool member",
        details: labels::zfs(contents, at / label * label),
        place: None,
        at,
    })
}

/// An external log of XFS: the header of a log record in one of the first 512 sectors.
fn xfs_log(contents: &Contents) -> Option<Evidence> {
    let mut sectors = (0..512).map(|sector| sector * 512);
    let at = sectors
        .find(|at| contents.count_unstamped(*at, 8) == Some(b"\xfe\xed\xba\xbe\0\0\0\x01"))?;
    Some(Evidence::Signature {
        name: "an external log of XFS",
        details: Vec::new(),
        place: None,
        at,
    })
}

/// The first page of an InnoDB tablespace on a raw device: page 0 (byte 4) of type 8 (byte 24), whose header repeats
/// the number of the tablespace (bytes 34 and 38). Source: `fil0types.h` of InnoDB.
fn inno_db(contents: &Contents) -> Option<Evidence> {
    let page = contents.count_unstamped(0, 50)?;
    let is_first = page[..4] != [0; 4] && page[4..8] == [0; 4] && page[24..26] == [0, 8];
    let has_size = page[46..50] != [0; 4];
    let is_one = is_first && has_size && page[34..38] == page[38..42];
    is_one.then(|| Evidence::Signature {
        name: "an InnoDB tablespace",
        details: Vec::new(),
        place: None,
        at: 0,
    })
}

#[cfg(test)]
mod tests;
