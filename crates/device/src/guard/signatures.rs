//! What a device holds, told by the magic numbers of partition tables, file systems and their like.
//!
//! The table only puts a name to data: data that no name fits stops a write as well. Hence a short
//! table, without the checksums by which libblkid tells a live superblock from a stale one, and
//! without libblkid itself, whose bindings need a C library that a static binary cannot count on.
//! Sources: the headers of the Linux kernel and libblkid's `superblocks/` for offsets and magic
//! numbers; UEFI 2.10, 5.3 for GPT; Aerospike server, `as/include/storage/drv_common.h`.

use super::evidence::{Evidence, Look};

const KIB: u64 = 1024;

/// Something with a magic number at a fixed place.
struct Magic {
    name: &'static str,
    /// Any of these bytes of the device.
    at: &'static [u64],
    magic: &'static [u8],
}

/// Fixed places, most telling first.
const MAGICS: &[Magic] = &[
    Magic { name: "an ext2, ext3 or ext4 file system", at: &[0x438], magic: b"\x53\xef" },
    Magic { name: "an XFS file system", at: &[0], magic: b"XFSB" },
    Magic { name: "a Btrfs file system", at: &[64 * KIB + 0x40], magic: b"_BHRfS_M" },
    Magic { name: "an NTFS file system", at: &[3], magic: b"NTFS    " },
    Magic { name: "an exFAT file system", at: &[3], magic: b"EXFAT   " },
    Magic { name: "a FAT file system", at: &[0x36], magic: b"FAT12   " },
    Magic { name: "a FAT file system", at: &[0x36], magic: b"FAT16   " },
    Magic { name: "a FAT file system", at: &[0x52], magic: b"FAT32   " },
    Magic { name: "an F2FS file system", at: &[KIB], magic: b"\x10\x20\xf5\xf2" },
    Magic { name: "a bcachefs file system", at: &[4 * KIB + 24], magic: b"\xc6\x85\x73\xf6\x66\xce\x90\xa9" },
    Magic { name: "an ISO 9660 file system", at: &[0x8001], magic: b"CD001" },
    Magic { name: "a SquashFS file system", at: &[0], magic: b"hsqs" },
    Magic { name: "an EROFS file system", at: &[KIB], magic: b"\xe2\xe1\xf5\xe0" },
    // At the end of the first page, whatever its size.
    Magic { name: "swap space", at: &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6], magic: b"SWAPSPACE2" },
    Magic { name: "swap space", at: &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6], magic: b"SWAP-SPACE" },
    // The label is in one of the first four sectors; its type stands 24 bytes into it.
    Magic { name: "an LVM2 physical volume", at: &[0x018, 0x218, 0x418, 0x618], magic: b"LVM2 001" },
    Magic { name: "a software RAID member (superblock 1.1)", at: &[0], magic: b"\xfc\x4e\x2b\xa9" },
    Magic { name: "a software RAID member (superblock 1.2)", at: &[4 * KIB], magic: b"\xfc\x4e\x2b\xa9" },
    Magic { name: "a LUKS encrypted volume", at: &[0], magic: b"LUKS\xba\xbe" },
    Magic { name: "a LUKS encrypted volume (second header)", at: &[16 * KIB, 32 * KIB], magic: b"SKUL\xba\xbe" },
    Magic { name: "a bcache device", at: &[4 * KIB + 24], magic: b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca" },
    Magic { name: "a Ceph BlueStore device", at: &[0], magic: b"bluestore block device" },
    Magic { name: "a Stratis device", at: &[0x204], magic: b"!Stra0tis\x86\xff\x02^\x41rh" },
    Magic { name: "a VDO device", at: &[0], magic: b"dmvdo001" },
    Magic { name: "an Oracle ASM disk", at: &[32], magic: b"ORCLDISK" },
];

const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";

/// Everything with a name that `look` finds.
pub(super) fn find(look: &Look) -> Vec<Evidence> {
    let mut found: Vec<Evidence> = aerospike(look).into_iter().chain(partition_table(look)).collect();
    for Magic { name, at, magic } in MAGICS {
        let at = at.iter().find(|at| look.foreign(**at, magic.len()) == Some(magic));
        found.extend(at.map(|at| Evidence::Signature { name, at: *at }));
    }
    found.extend(software_raid_at_end(look));
    found.extend(zfs(look));
    found
}

/// `drv_prefix`: magic, version, then since version 3 the namespace, 32 bytes of text.
fn aerospike(look: &Look) -> Option<Evidence> {
    const MAGIC: u64 = 0x4349_7472_7573_0322;
    const MAGIC_BEFORE_VERSION_3: u64 = 0x4349_7472_7573_0707;
    let namespace = match little_u64(look.foreign(0, 8)?) {
        MAGIC => {
            let text = look.foreign(12, 32)?.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.contains(char::is_control))
        }
        MAGIC_BEFORE_VERSION_3 => None,
        _ => return None,
    };
    Some(Evidence::Aerospike { namespace })
}

fn partition_table(look: &Look) -> Option<Evidence> {
    // The header is in sector 1, the backup in the last one, whatever the size of a sector.
    const SECTORS: [u64; 2] = [512, 4096];
    for sector in SECTORS {
        if look.foreign(sector, 8) == Some(b"EFI PART") {
            return Some(Evidence::PartitionTable {
                name: "a GPT partition table",
                partitions: gpt_entries(look, sector),
            });
        }
    }
    for sector in SECTORS {
        if look.size_bytes() > sector && look.foreign(look.size_bytes() - sector, 8) == Some(b"EFI PART") {
            return Some(Evidence::PartitionTable { name: "the backup of a GPT partition table", partitions: None });
        }
    }
    mbr(look)
}

/// Used entries of the table whose header is at `header`, as far as they were read.
fn gpt_entries(look: &Look, header: u64) -> Option<u32> {
    let field = look.foreign(header + 72, 16)?;
    let (start, count) = (little_u64(&field[..8]).checked_mul(header)?, little_u32(&field[8..12]).min(1024));
    let size = u64::from(little_u32(&field[12..16])).max(128);
    let used = |at: u64| look.bytes(at, 16).is_some_and(|kind| kind.iter().any(|byte| *byte != 0));
    Some((0..u64::from(count)).filter(|entry| start.checked_add(entry * size).is_some_and(used)).count() as u32)
}

/// Four entries of 16 bytes: flag, first sector (CHS), type, last sector (CHS), start, length.
fn mbr(look: &Look) -> Option<Evidence> {
    let sector = look.foreign(0, 512).filter(|sector| sector[510..] == [0x55, 0xaa])?;
    let entries: Vec<&[u8]> = sector[446..510].chunks_exact(16).collect();
    // A boot sector of a file system ends in the same two bytes, but has code where the flags are.
    if entries.iter().any(|entry| entry[0] & 0x7f != 0) {
        return None;
    }
    let used = entries.iter().filter(|entry| entry[4] != 0 && little_u32(&entry[12..16]) != 0).count() as u32;
    (used > 0).then_some(Evidence::PartitionTable { name: "an MBR partition table", partitions: Some(used) })
}

/// Superblocks 1.0 and 0.90 lie near the end, on boundaries of 4 and of 64 KiB (`md_p.h`).
fn software_raid_at_end(look: &Look) -> Option<Evidence> {
    let size = look.size_bytes();
    let at_1_0 = (size.checked_sub(8 * KIB)?) & !(4 * KIB - 1);
    let at_0_90 = (size & !(64 * KIB - 1)).checked_sub(64 * KIB);
    [(Some(at_1_0), "a software RAID member (superblock 1.0)"), (at_0_90, "a software RAID member (superblock 0.90)")]
        .into_iter()
        .filter_map(|(at, name)| Some((at?, name)))
        .find(|(at, _)| look.foreign(*at, 4) == Some(MD_MAGIC))
        .map(|(at, name)| Evidence::Signature { name, at })
}

/// A label of 256 KiB twice at the start and twice at the end; its second half is a ring of
/// uberblocks, the smallest 1 KiB (`vdev_impl.h`).
fn zfs(look: &Look) -> Option<Evidence> {
    const MAGIC: u64 = 0x00ba_b10c;
    let label = 256 * KIB;
    let end = look.size_bytes() / label * label;
    let starts = [Some(0), Some(label), end.checked_sub(2 * label), end.checked_sub(label)];
    let mut rings = starts.into_iter().flatten().flat_map(|start| (0..128).map(move |i| start + 128 * KIB + i * KIB));
    let at = rings.find(|at| {
        look.foreign(*at, 8).map(little_u64).is_some_and(|word| word == MAGIC || word.swap_bytes() == MAGIC)
    })?;
    Some(Evidence::Signature { name: "a ZFS pool member", at })
}

fn little_u64(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn little_u32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 8 << 20;

    /// What is found on an 8 MiB device with `bytes` at `at`.
    fn on_device(at: u64, bytes: &[u8]) -> Vec<String> {
        let mut device = vec![0; SIZE as usize];
        device[at as usize..][..bytes.len()].copy_from_slice(bytes);
        find(&Look::at_bytes(&device, None)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_found_on_zeros() {
        assert!(on_device(0, &[]).is_empty());
        assert!(find(&Look::at_bytes(&[], None)).is_empty());
        assert!(find(&Look::at_bytes(&[0; 700], None)).is_empty());
    }

    #[test]
    fn every_magic_is_found_at_every_place_that_it_may_have() {
        for Magic { name, at, magic } in MAGICS {
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
