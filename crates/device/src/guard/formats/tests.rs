//! Formats written by these tests as magic numbers, and formats made by their own tools (`mkfs` and others).

use super::super::sampling::{Sampling, gather};
use super::*;
use results::assert_starts_with;
use results::testing::table;
use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const SIZE: u64 = 8 << 20;

/// Evidence found on an 8 MiB device with `bytes` at `at`.
fn on_device(at: u64, bytes: &[u8]) -> Vec<String> {
    on_device_of(SIZE, at, bytes)
}

fn on_device_of(size_bytes: u64, at: u64, bytes: &[u8]) -> Vec<String> {
    // `pieces` has only the blocks around the bytes, so that the device can be larger than the memory.
    let start = at / 4096 * 4096;
    let mut piece = vec![0; (at - start) as usize];
    piece.extend_from_slice(bytes);
    piece.resize(piece.len().next_multiple_of(4096), 0);
    let contents = Contents {
        pieces: vec![(start, piece)],
        size_bytes,
        key: None,
    };
    known_formats(&contents)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_device_of_zeros_has_no_format() {
    assert!(on_device(0, &[]).is_empty());
    assert!(known_formats(&Contents::at_bytes(&[], None)).is_empty());
    assert!(known_formats(&Contents::at_bytes(&[0; 700], None)).is_empty());
}

#[test]
fn aerospike_headers_name_their_namespace() {
    let mut header = 0x4349_7472_7573_0322_u64.to_le_bytes().to_vec();
    header.extend(4_u32.to_le_bytes());
    header.extend(b"users\0");
    let found = on_device(0, &header);
    assert_eq!(found, ["an Aerospike device header of namespace \"users\""]);
    let found = on_device(0, &0x4349_7472_7573_0707_u64.to_le_bytes());
    assert_eq!(found, ["an Aerospike device header"]);
}

#[test]
fn a_store_of_the_record_engine_is_named() {
    let mut header = b"flashproof store".to_vec();
    header.resize(42, 1);
    header.extend([4, 0]);
    header.extend(b"test");
    for at in STORE_HEADERS {
        assert_eq!(
            on_device(at, &header),
            ["records of namespace \"test\", written by `flashproof engine serve`"]
        );
    }
    header[43] = 255;
    assert!(on_device(0, &header)[0].starts_with("records written by `flashproof engine serve`"));
    // The header of the store survived the later creation of a RAID array.
    let store = Evidence::RecordStore { namespace: None };
    let data = Evidence::Data {
        samples: 1,
        samples_tried: 2,
        first_at: 0,
        why: String::new(),
    };
    assert!(
        Evidence::is_store_alone(&[store.clone(), data.clone()])
            && !Evidence::is_store_alone(&[data])
    );
    let signature = |place: Option<&str>, at| {
        let place = place.map(str::to_owned);
        [
            store.clone(),
            Evidence::Signature {
                name: "a software RAID member",
                details: Vec::new(),
                place,
                at,
            },
        ]
    };
    for at in [4096, 1 << 30] {
        assert!(!Evidence::is_store_alone(&signature(None, at)));
    }
    assert!(
        !Evidence::is_store_alone(&signature(Some("in a partition"), 1 << 20)),
        "formatting cleared this place"
    );
    assert!(
        Evidence::is_store_alone(&signature(Some("in a partition"), 1 << 30)),
        "older than the store, or a record"
    );
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
        let found = on_device(sector, &header);
        assert_eq!(found, ["a GPT partition table with 1 partition"]);
        let found = on_device(SIZE - sector, b"EFI PART");
        assert_eq!(found, ["the backup of a GPT partition table"]);
    }
}

#[test]
fn an_mbr_is_reported_only_with_entries() {
    let mut sector = vec![0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    assert!(on_device(0, &sector).is_empty());
    sector[446 + 16 + 4] = 0x83;
    sector[446 + 16 + 12] = 8;
    let found = on_device(0, &sector);
    assert_eq!(found, ["an MBR partition table with 1 partition"]);
    sector[446] = 0x33; // code, not a flag: a boot sector
    assert!(on_device(0, &sector).is_empty());
}

#[test]
fn superblocks_near_the_end_are_found() {
    let found = on_device(SIZE - 8 * 1024, MD_MAGIC);
    assert_starts_with!(found[0], "a software RAID member (superblock 1.0)");
    let found = on_device(SIZE - 64 * 1024, MD_MAGIC);
    assert_starts_with!(found[0], "a software RAID member (superblock 0.90)");
    for at in [
        128 * 1024,
        132 * 1024,
        256 * 1024 + 128 * 1024,
        SIZE - 128 * 1024,
        SIZE - 384 * 1024,
    ] {
        for magic in [0xbab10c_u64.to_le_bytes(), 0xbab10c_u64.to_be_bytes()] {
            let found = on_device(at, &magic);
            assert!(
                matches!(&found[..], [one] if one.starts_with("a ZFS pool member")),
                "{at}: {found:?}"
            );
        }
    }
}

/// `magic`; for an ext file system followed by zeros up to the end of the feature fields: no features means ext2.
fn planted(name: &str, magic: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    if name == EXT {
        bytes.resize(64, 0);
    }
    bytes
}

#[test]
fn every_magic_is_found_at_all_its_offsets_on_the_device_and_in_a_lost_partition() {
    const PLACES: [u64; 4] = [0, 63 * 512, 1 << 20, 2 << 20];
    for Magic {
        name,
        offsets,
        magic,
        ..
    } in MAGICS
    {
        let name = if *name == EXT {
            "an ext2 file system"
        } else {
            name
        };
        for offset in *offsets {
            for place in PLACES {
                let origin = if *offset < 0 { SIZE } else { place };
                let found = on_device(
                    origin.checked_add_signed(*offset).unwrap(),
                    &planted(name, magic),
                );
                assert!(
                    found.iter().any(|one| one.starts_with(name)),
                    "{name} at {offset} of {place}: {found:?}"
                );
            }
        }
    }
    for Magic {
        name,
        offsets,
        magic,
        ..
    } in TABLES
    {
        for offset in *offsets {
            let origin = if *offset < 0 { SIZE } else { 0 };
            let found = on_device(origin.checked_add_signed(*offset).unwrap(), magic);
            assert!(
                found.iter().any(|one| one == name),
                "{name} at {offset}: {found:?}"
            );
        }
    }
}

#[test]
fn a_superblock_at_the_end_of_a_lost_partition_is_found() {
    for end in [SIZE - 33 * 512, SIZE - (1 << 20)] {
        let found = on_device(end - 1024, b"H+\0\x04");
        assert_eq!(
            found,
            ["an HFS+ file system (in a partition that began at byte 32256)"]
        );
    }
}

#[test]
fn a_backup_superblock_is_found_where_the_first_is_lost() {
    let size = 1 << 32;
    let on = |at: u64, bytes: &[u8]| on_device_of(size, at, bytes);
    let begins = [0, 63 * 512, 1 << 20, 2 << 20];
    let ext = [&[0; 0x38][..], b"\x53\xef", &[0; 64]].concat();
    for start in begins {
        for at in [(8 << 20) + 1024, 32 << 20, 128 << 20] {
            let place = start + at + 0x38;
            let expected = format!("an ext2 file system (backup superblock at byte {place})");
            assert_eq!(on(start + at, &ext), [expected]);
        }
        let at = start + (64 << 20) + 0x40;
        assert_eq!(
            on(at, b"_BHRfS_M"),
            [format!(
                "a Btrfs file system (backup superblock at byte {at})"
            )]
        );
    }
    for at in [size / 4, size / 2, (1 << 20) + (size - (2 << 20)) / 4] {
        assert_eq!(
            on(at, b"XFSB"),
            [format!(
                "an XFS file system (backup superblock at byte {at})"
            )]
        );
    }
}

#[test]
fn hostile_text_in_a_superblock_is_bounded_and_quoted() {
    let mut superblock = vec![0; 1024];
    superblock[0x38..0x3a].copy_from_slice(b"\x53\xef");
    superblock[0x78..0x88].copy_from_slice(b"a\x1b[2J\n\xff\"'bcdefgh");
    superblock[0x88..0xc8].fill(b'/');
    superblock[0x2c..0x30].fill(0xff);
    let found = on_device(1024, &superblock);
    let slashes = "/".repeat(64);
    let label = "'a\\u001b[2J\\u000a\u{fffd}\"'bcdefgh'".to_owned();
    assert_eq!(
        found,
        [format!(
            "an ext2 file system, label {label}, last mounted at \"{slashes}\" on 2106-02-07"
        )]
    );

    for Magic {
        name,
        offsets,
        magic,
        ..
    } in MAGICS
    {
        let mut device = vec![0xff; SIZE as usize];
        for offset in offsets.iter().filter(|offset| **offset >= 0) {
            device[*offset as usize..][..magic.len()].copy_from_slice(magic);
        }
        for found in known_formats(&Contents::at_bytes(&device, None)) {
            let text = found.to_string();
            assert!(
                text.chars().count() < 400 && !text.contains(char::is_control),
                "{name}: {text}"
            );
        }
    }
}

/// The formats that libblkid names (superblocks and partition tables), and the name given here.
const OF_LIBBLKID: &[(&str, &str)] = &[
    ("adaptec_raid_member", "an Adaptec RAID member"),
    ("apfs", "an APFS container"),
    ("bcache", "a bcache device"),
    ("bcachefs", "a bcachefs file system"),
    ("befs", "a BeFS file system"),
    ("bfs", "a BFS file system"),
    ("BitLocker", "a BitLocker volume"),
    ("ceph_bluestore", "a Ceph BlueStore device"),
    ("btrfs", "a Btrfs file system"),
    ("cramfs", "a cramfs file system"),
    ("cs_fvault2", "a CoreStorage (FileVault) volume"),
    ("ddf_raid_member", "a DDF RAID member"),
    ("drbd", "a DRBD device"),
    ("drbdmanage_control_volume", "a DRBD control volume"),
    ("drbdproxy_datalog", "a DRBD proxy log"),
    ("erofs", "an EROFS file system"),
    ("exfat", "an exFAT file system"),
    ("exfs", "an EXFS file system"),
    ("jbd, ext2, ext3, ext4, ext4dev", EXT),
    ("f2fs", "an F2FS file system"),
    ("gfs, gfs2", "a GFS or GFS2 file system"),
    ("hfs", "an HFS file system"),
    ("hfsplus", "an HFS+ file system"),
    (
        "hpt37x_raid_member, hpt45x_raid_member",
        "a HighPoint RAID member",
    ),
    ("hpfs", "an HPFS file system"),
    ("iso9660", "an ISO 9660 file system"),
    ("isw_raid_member", "an Intel RAID member"),
    ("jfs", "a JFS file system"),
    ("jmicron_raid_member", "a JMicron RAID member"),
    (
        "linux_raid_member",
        "a software RAID member (superblock 1.2)",
    ),
    ("lsi_mega_raid_member", "an LSI RAID member"),
    ("crypto_LUKS", "a LUKS encrypted volume"),
    ("LVM2_member", "an LVM2 physical volume"),
    ("LVM1_member", "an LVM1 physical volume"),
    ("DM_snapshot_cow", "an LVM snapshot"),
    ("DM_verity_hash", "a dm-verity hash device"),
    ("DM_integrity", "a dm-integrity volume"),
    ("minix", "a Minix file system"),
    ("mpool", "an HSE media pool"),
    ("nss", "a NetWare (NSS) file system"),
    ("nilfs2", "a NILFS2 file system"),
    ("ntfs", "an NTFS file system"),
    ("nvidia_raid_member", "an NVIDIA RAID member"),
    ("ocfs", "an OCFS file system"),
    ("ocfs2", "an OCFS2 file system"),
    ("oracleasm", "an Oracle ASM disk"),
    ("promise_fasttrack_raid_member", "a Promise RAID member"),
    ("ReFS", "a ReFS file system"),
    ("reiserfs", "a ReiserFS file system"),
    ("reiser4", "a Reiser4 file system"),
    ("romfs", "a romfs file system"),
    ("scoutfs_meta, scoutfs_data", "a ScoutFS file system"),
    ("silicon_medley_raid_member", "a Silicon Image RAID member"),
    ("squashfs, squashfs3", "a SquashFS file system"),
    ("stratis", "a Stratis device"),
    ("swap", "swap space"),
    ("swsuspend", "a suspended system in swap space"),
    ("sysv", "a System V file system"),
    ("xenix", "a Xenix file system"),
    ("ubi", "a UBI volume"),
    ("ubifs", "a UBIFS file system"),
    ("udf", "a UDF file system"),
    ("ufs", "a UFS file system"),
    ("vdo", "a VDO device"),
    ("vfat", "a FAT file system"),
    ("via_raid_member", "a VIA RAID member"),
    ("VMFS", "a VMFS file system"),
    ("VMFS_volume_member", "a VMFS volume"),
    ("vxfs", "a VxFS file system"),
    ("xfs", XFS),
    ("xfs_external_log", "an external log of XFS"),
    ("zfs_member", "a ZFS pool member"),
    ("zonefs", "a zonefs file system"),
    ("aix", "an AIX partition table"),
    ("atari", "an Atari partition table"),
    ("bsd", "a BSD disklabel"),
    ("dasd", "a DASD volume label"),
    ("dos, PMBR, minix", "an MBR partition table"),
    ("gpt", "a GPT partition table"),
    ("mac", "an Apple partition map"),
    ("sgi", "an SGI disklabel"),
    ("solaris", "a Solaris disklabel"),
    ("sun", "a Sun disklabel"),
    ("ultrix", "an Ultrix disklabel"),
    ("unixware", "a UnixWare disklabel"),
];

#[test]
fn every_format_that_libblkid_knows_has_a_name() {
    // These are recognised by functions, with tests of their own.
    const BY_FUNCTION: [&str; 5] = [
        "an external log of XFS",
        "a JMicron RAID member",
        "a ZFS pool member",
        "a GPT partition table",
        "an MBR partition table",
    ];
    let names: Vec<&str> = MAGICS
        .iter()
        .chain(TABLES)
        .map(|magic| magic.name)
        .chain(BY_FUNCTION)
        .collect();
    let missing: Vec<_> = OF_LIBBLKID
        .iter()
        .filter(|(_, name)| !names.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_jmicron_superblock_is_reported_only_with_its_checksum() {
    let mut superblock = [0; 128];
    superblock[..2].copy_from_slice(b"JM");
    assert!(on_device(SIZE - 512, &superblock).is_empty());
    let sum = 0_u16.wrapping_sub(u16::from_le_bytes(*b"JM"));
    superblock[4..6].copy_from_slice(&sum.to_le_bytes());
    let found = on_device(SIZE - 512, &superblock);
    assert_eq!(found, ["a JMicron RAID member"]);
}

#[test]
fn an_external_log_and_a_tablespace_are_found() {
    let found = on_device(512 * 7, b"\xfe\xed\xba\xbe\0\0\0\x01");
    assert_eq!(found, ["an external log of XFS"]);
    let mut page = [0; 64];
    (page[0], page[25], page[49]) = (9, 8, 4);
    assert_eq!(on_device(0, &page), ["an InnoDB tablespace"]);
    page[49] = 0;
    assert!(on_device(0, &page).is_empty());
}

/// Size of the file for the formats' tools: the smallest that XFS accepts.
const IMAGE_BYTES: u64 = 320 << 20;

/// Formats made by their own tools: the command with `@` for the file, and the beginning of the text.
const MADE: &str = r#"
    mkfs.ext4 -q -F -L backup -M /srv @ | an ext4 file system, label "backup", last mounted at "/srv"
    mkfs.ext3 -q -F -L old @ | an ext3 file system, label "old", made on 2
    mkfs.ext2 -q -F -U 01234567-89ab-cdef-0123-456789abcdef @ | an ext2 file system, UUID 01234567-89ab-cdef-0123-
    mkfs.xfs -q -f -L data @ | an XFS file system, label "data"
    mkfs.btrfs -q -f -L pool @ | a Btrfs file system, label "pool"
    mkfs.fat -F 32 -n STICK @ | a FAT file system, label "STICK"
    mkfs.fat -F 16 -i 12abcdef @ | a FAT file system, volume serial number 12ABCDEF
    mkfs.exfat @ | an exFAT file system, volume serial number
    mkfs.ntfs -q -F -f @ | an NTFS file system, volume serial number
    mkfs.f2fs -q -f -l flash @ | an F2FS file system, label "flash"
    mkfs.nilfs2 -q -f -L log @ | a NILFS2 file system, label "log"
    mkfs.jfs -q -L aix @ | a JFS file system, label "aix"
    mkfs.reiserfs -q -ff -l tail @ | a ReiserFS file system, label "tail"
    mkfs.gfs2 -q -O -p lock_dlm -t alpha:data -J 8 -j 1 @ | a GFS or GFS2 file system, lock table "alpha:data"
    mkfs.ocfs2 -q -x -F -M local -J size=4M -L shared @ | an OCFS2 file system
    mkfs.udf -l disc @ | a UDF file system
    mkfs.minix @ | a Minix file system
    mkfs.bfs @ | a BFS file system
    hformat -l mac @ | an HFS file system
    mkswap -q -L spare @ | swap space, label "spare"
    make-bcache -B @ | a bcache device
    cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --label secrets --key-file /proc/self/exe --keyfile-size 8 @ | a LUKS encrypted volume, label "secrets"
    cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 --key-file /proc/self/exe --keyfile-size 8 @ | a LUKS encrypted volume, UUID "
    mksquashfs EMPTY @ -noappend -quiet | a SquashFS file system
    mkfs.erofs --quiet @ EMPTY | an EROFS file system
    genisoimage -quiet -V archive -o @ EMPTY | an ISO 9660 file system, label "archive"
"#;

#[test]
fn formats_made_by_their_own_tools_are_named_with_label_or_uuid() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let mut made = 0;
    let mut skipped = Vec::new();
    for [line, expected] in table(MADE) {
        File::create(&path).unwrap().set_len(IMAGE_BYTES).unwrap();
        let arguments = line
            .replace('@', path.to_str().unwrap())
            .replace("EMPTY", empty.to_str().unwrap());
        let words: Vec<&str> = arguments.split(' ').collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                skipped.push(format!(
                    "{}: {}",
                    words[0],
                    String::from_utf8_lossy(&output.stderr)
                        .trim()
                        .replace('\n', " ")
                ));
                continue;
            }
            Err(_) => {
                skipped.push(format!("{} is not installed", words[0]));
                continue;
            }
        }
        let file = File::open(&path).unwrap();
        let sampling = Sampling {
            spots: 0,
            seed: 0,
            limit: Duration::ZERO,
        };
        let found = gather(
            &file,
            IMAGE_BYTES,
            (None, String::new()),
            sampling,
            &mut Vec::new(),
        )
        .unwrap();
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(
            found.iter().any(|one| one.starts_with(expected)),
            "{line}: {found:?}"
        );
        made += 1;
    }
    let _ = writeln!(
        std::io::stderr(),
        "{made} of {} formats were made by their own tools",
        table::<2>(MADE).count()
    );
    skipped
        .iter()
        .for_each(|why| drop(writeln!(std::io::stderr(), "a format skipped: {why}")));
}
