//! Magic numbers of file systems, volumes, RAID members and partition tables: all formats that libblkid knows, and some
//! more. Sources: the headers of the Linux kernel; libblkid's `superblocks/` and `partitions/` for offsets and magic
//! numbers; UEFI 2.10, 5.3 for GPT.

use super::labels::{self, DetailsReader};

const KIB: i64 = 1024;
const MIB: i64 = 1 << 20;

/// A format with a magic number at fixed offsets.
pub(super) struct Magic {
    pub(super) name: &'static str,
    /// Possible offsets from the beginning of the device or partition; negative: from its end.
    pub(super) offsets: &'static [i64],
    pub(super) magic: &'static [u8],
    pub(super) details: DetailsReader,
}

const fn at(name: &'static str, offsets: &'static [i64], magic: &'static [u8]) -> Magic {
    Magic {
        name,
        offsets,
        magic,
        details: labels::none,
    }
}

impl Magic {
    const fn with(self, details: DetailsReader) -> Self {
        Self { details, ..self }
    }
}

/// Partition tables other than GPT and MBR, which are at the beginning of a whole device.
pub(super) const TABLES: &[Magic] = &[
    at("an AIX partition table", &[0], b"\xc9\xc2\xd4\xc1"),
    at("an Amiga partition table", &[0, 512, 1024, 1536], b"RDSK"),
    at(
        "an Apple partition map",
        &[512, KIB, 2 * KIB, 4 * KIB],
        b"PM\0\0",
    ),
    at(
        "an Apple partition map",
        &[512, KIB, 2 * KIB, 4 * KIB],
        b"TS\0\0",
    ),
    at("an Atari partition table", &[0x1c7, 0x1d3], b"GEM"),
    at("an Atari partition table", &[0x1c7, 0x1d3], b"BGM"),
    at("an Atari partition table", &[0x1c7, 0x1d3], b"XGM"),
    at("an Atari partition table", &[0x1c7, 0x1d3], b"LNX"),
    at("a BSD disklabel", &[512, 64, 128], b"\x57\x45\x56\x82"),
    // VOL1, LNX1 and CMS1 in EBCDIC, in the third block; the block size is unknown.
    at(
        "a DASD volume label",
        &[1028, 2052, 4100, 8196],
        b"\xe5\xd6\xd3\xf1",
    ),
    at(
        "a DASD volume label",
        &[1024, 2048, 4096, 8192],
        b"\xd3\xd5\xe7\xf1",
    ),
    at(
        "a DASD volume label",
        &[1024, 2048, 4096, 8192],
        b"\xc3\xd4\xe2\xf1",
    ),
    at("an SGI disklabel", &[0], b"\x0b\xe5\xa9\x41"),
    at("a Solaris disklabel", &[512 + 12], b"\xee\xde\x0d\x60"),
    at("a Sun disklabel", &[508], b"\xda\xbe"),
    at(
        "an Ultrix disklabel",
        &[16_312],
        b"\x57\x29\x03\0\x01\0\0\0",
    ),
    at("a UnixWare disklabel", &[29 * 512 + 4], b"\x0d\x60\xe5\xca"),
    at(
        "a Windows dynamic disk (LDM)",
        &[6 * 512, -512],
        b"PRIVHEAD",
    ),
];

/// Formats of a device or a partition, the most informative first.
pub(super) const MAGICS: &[Magic] = &[
    at(EXT, &[0x438], b"\x53\xef").with(labels::ext),
    at(XFS, &[0], b"XFSB").with(labels::xfs),
    at(BTRFS, &[64 * KIB + 0x40], b"_BHRfS_M").with(labels::btrfs),
    at("an NTFS file system", &[3, -509], b"NTFS    ").with(labels::ntfs),
    at("an exFAT file system", &[3, 12 * 512 + 3], b"EXFAT   ").with(labels::exfat),
    at("a FAT file system", &[0x36], b"FAT12   ").with(labels::fat),
    at("a FAT file system", &[0x36], b"FAT16   ").with(labels::fat),
    at("a FAT file system", &[0x36], b"FAT     ").with(labels::fat),
    at("a FAT file system", &[0x36], b"MSDOS").with(labels::fat),
    at("a FAT file system", &[0x52, 6 * 512 + 0x52], b"FAT32   ").with(labels::fat),
    at("a FAT file system", &[0x52], b"MSWIN").with(labels::fat),
    at("a BitLocker volume", &[3], b"-FVE-FS-"),
    // The GUID of BitLocker To Go.
    at(
        "a BitLocker volume",
        &[424],
        b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01",
    ),
    at("a ReFS file system", &[0], b"\0\0\0ReFS\0"),
    at("an APFS container", &[32], b"NXSB"),
    at("an HFS+ file system", &[KIB, -KIB], b"H+\0\x04"),
    at("an HFSX file system", &[KIB, -KIB], b"HX\0\x05"),
    at("an HFS file system", &[KIB], b"BD"),
    at("a CoreStorage (FileVault) volume", &[88], b"CS\x01\0"),
    at("an F2FS file system", &[KIB, 5 * KIB], b"\x10\x20\xf5\xf2").with(labels::f2fs),
    at(
        "a bcachefs file system",
        &[4 * KIB + 24, 2 * MIB + 24, 24 - MIB],
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9",
    ),
    at("a JFS file system", &[32 * KIB], b"JFS1").with(labels::jfs),
    // The bytes are revision 2.0, followed by the magic number 0x3434.
    at(
        "a NILFS2 file system",
        &[KIB, -4 * KIB],
        b"\x02\0\0\0\0\0\x34\x34",
    )
    .with(labels::nilfs),
    at(
        "a ReiserFS file system",
        &[8 * KIB + 0x34, 64 * KIB + 0x34],
        b"ReIsErFs",
    )
    .with(labels::reiserfs),
    at("a ReiserFS file system", &[8 * KIB + 20], b"ReIsErFs"),
    at("a ReiserFS file system", &[64 * KIB + 0x34], b"ReIsEr2Fs").with(labels::reiserfs),
    at("a ReiserFS file system", &[64 * KIB + 0x34], b"ReIsEr3Fs").with(labels::reiserfs),
    at("a Reiser4 file system", &[64 * KIB], b"ReIsEr4"),
    at(
        "a GFS or GFS2 file system",
        &[64 * KIB],
        b"\x01\x16\x19\x70",
    )
    .with(labels::gfs2),
    at(
        "an OCFS2 file system",
        &[KIB, 2 * KIB, 4 * KIB, 8 * KIB],
        b"OCFSV2",
    ),
    at("an OCFS file system", &[8 * KIB], b"OracleCFS"),
    at("a VMFS file system", &[2 * MIB], b"\x5e\xf1\xab\x2f").with(labels::vmfs),
    at("a VMFS volume", &[MIB], b"\x0d\xd0\x01\xc0"),
    at("an EXFS file system", &[0], b"EXFS"),
    at("a VxFS file system", &[KIB], b"\xf5\xfc\x01\xa5"),
    at("a VxFS file system", &[8 * KIB], b"\xa5\x01\xfc\xf5"),
    at("an ISO 9660 file system", &[0x8001], b"CD001").with(labels::iso),
    at("a High Sierra file system", &[0x8009], b"CDROM"),
    at("a UDF file system", &[0x8001, 0x8801], b"BEA01"),
    at("a UDF file system", &[0x8001, 0x8801, 0x9001], b"NSR02"),
    at("a UDF file system", &[0x8001, 0x8801, 0x9001], b"NSR03"),
    at("a UDF file system", &[0x8001], b"BOOT2"),
    at("a UDF file system", &[0x8001], b"CDW02"),
    at("a UDF file system", &[0x8001], b"TEA01"),
    at("a SquashFS file system", &[0], b"hsqs"),
    at("a SquashFS file system", &[0], b"sqsh"),
    at("an EROFS file system", &[KIB], b"\xe2\xe1\xf5\xe0"),
    at("a cramfs file system", &[0], b"\x45\x3d\xcd\x28"),
    at("a cramfs file system", &[0], b"\x28\xcd\x3d\x45"),
    at("a romfs file system", &[0], b"-rom1fs-"),
    at("a UBI volume", &[0], b"UBI#"),
    at("a UBIFS file system", &[0], b"\x31\x18\x10\x06"),
    at("a zonefs file system", &[0], b"SFOZ"),
    at(
        "a ScoutFS file system",
        &[64 * KIB + 4],
        b"\x8b\x42\x3c\x10",
    ),
    at("a BFS file system", &[0], b"\xce\xfa\xad\x1b"),
    at("a BeFS file system", &[0x20, 0x220], b"BFS1"),
    at("a BeFS file system", &[0x20, 0x220], b"1SFB"),
    at("an HPFS file system", &[8 * KIB], b"\x49\xe8\x95\xf9"),
    at("a NetWare (NSS) file system", &[4 * KIB], b"SPB5"),
    at(UFS, UFS_AT, b"\x54\x19\x01\0"),
    at(UFS, UFS_AT, b"\0\x01\x19\x54"),
    at(UFS, UFS_AT, b"\x19\x01\x54\x19"),
    at(UFS, UFS_AT, b"\x19\x54\x01\x19"),
    at(UFS, UFS_AT, b"\x12\x56\x19\0"),
    at(UFS, UFS_AT, b"\0\x19\x56\x12"),
    at(UFS, UFS_AT, b"\x14\x50\x09\0"),
    at(UFS, UFS_AT, b"\0\x09\x50\x14"),
    at(UFS, UFS_AT, b"\x95\x21\x61\0"),
    at(UFS, UFS_AT, b"\0\x61\x21\x95"),
    at(UFS, UFS_AT, b"\x94\x19\x23\x05"),
    at(UFS, UFS_AT, b"\x05\x23\x19\x94"),
    at("a System V file system", SYSV_AT, b"\x20\x7e\x18\xfd"),
    at("a System V file system", SYSV_AT, b"\xfd\x18\x7e\x20"),
    at("a Xenix file system", &[2 * KIB], b"\x2b\x55\x44"),
    at("a Xenix file system", &[2 * KIB], b"\x44\x55\x2b"),
    at(MINIX, &[KIB + 0x10], b"\x7f\x13"),
    at(MINIX, &[KIB + 0x10], b"\x8f\x13"),
    at(MINIX, &[KIB + 0x10], b"\x13\x7f"),
    at(MINIX, &[KIB + 0x10], b"\x13\x8f"),
    at(MINIX, &[KIB + 0x10], b"\x68\x24"),
    at(MINIX, &[KIB + 0x10], b"\x78\x24"),
    at(MINIX, &[KIB + 0x10], b"\x24\x68"),
    at(MINIX, &[KIB + 0x10], b"\x24\x78"),
    at(MINIX, &[KIB + 0x18], b"\x5a\x4d"),
    at(MINIX, &[KIB + 0x18], b"\x4d\x5a"),
    at("swap space", SWAP_AT, b"SWAPSPACE2").with(labels::swap),
    at("swap space", SWAP_AT, b"SWAP-SPACE"),
    at("a suspended system in swap space", SWAP_AT, b"S1SUSPEND"),
    at("a suspended system in swap space", SWAP_AT, b"S2SUSPEND"),
    at("a suspended system in swap space", SWAP_AT, b"ULSUSPEND"),
    at("a suspended system in swap space", SWAP_AT, b"LINHIB0001"),
    at(
        "a suspended system in swap space",
        &[0],
        b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c",
    ),
    // The label is in one of the first four sectors; its type is at byte 24 of the label.
    at(
        "an LVM2 physical volume",
        &[0x018, 0x218, 0x418, 0x618],
        b"LVM2 001",
    )
    .with(labels::lvm),
    at("an LVM1 physical volume", &[0], b"HM\x01\0"),
    at("an LVM1 physical volume", &[0], b"HM\x02\0"),
    at("an LVM snapshot", &[0], b"SnAp"),
    at("a dm-verity hash device", &[0], b"verity\0\0"),
    at("a dm-integrity volume", &[0], b"integrt\0"),
    at("a software RAID member (superblock 1.1)", &[0], MD_MAGIC).with(labels::md),
    at(
        "a software RAID member (superblock 1.2)",
        &[4 * KIB],
        MD_MAGIC,
    )
    .with(labels::md),
    at("a LUKS encrypted volume", &[0], b"LUKS\xba\xbe").with(labels::luks),
    at(
        "a LUKS encrypted volume (second header)",
        LUKS_AT,
        b"SKUL\xba\xbe",
    )
    .with(labels::luks),
    at(
        "a bcache device",
        &[4 * KIB + 24],
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca",
    ),
    at("a Ceph BlueStore device", &[0], b"bluestore block device"),
    at(
        "a Stratis device",
        &[0x204, 0x1204],
        b"!Stra0tis\x86\xff\x02^\x41rh",
    ),
    at("a VDO device", &[0], b"dmvdo001"),
    at("an HSE media pool", &[0], b"mpoolDev"),
    at("a DRBD device", &[60 - 4 * KIB], b"\x83\x74\x02\x6b"),
    at("a DRBD device", &[60 - 4 * KIB], b"\x83\x74\x02\x6c"),
    at("a DRBD device", &[60 - 4 * KIB], b"\x83\x74\x02\x6d"),
    at("a DRBD control volume", &[0], b"$DRBDmgr=q"),
    at("a DRBD proxy log", &[0], b"DRBDdlh*"),
    at("an Oracle ASM disk", &[32], b"ORCLDISK").with(labels::asm),
    at("an Adaptec RAID member", &[-512], b"\x37\xfc\x4d\x1e"),
    at(
        "a DDF RAID member",
        &[-512, -257 * 512],
        b"\xde\x11\xde\x11",
    ),
    at("a HighPoint RAID member", &[-11 * 512], b"\xf3\x16\x78\x5a"),
    at("a HighPoint RAID member", &[-11 * 512], b"\xfd\x16\x78\x5a"),
    at("a HighPoint RAID member", &[4640], b"\xf0\x16\x78\x5a"),
    at("a HighPoint RAID member", &[4640], b"\xfd\x16\x78\x5a"),
    at(
        "an Intel RAID member",
        &[-1024, -8192],
        b"Intel Raid ISM Cfg Sig. ",
    ),
    at("an LSI RAID member", &[-512], b"$XIDE$"),
    at("an NVIDIA RAID member", &[-1024], b"NVIDIA  "),
    at(
        "a Promise RAID member",
        PROMISE_AT,
        b"Promise Technology, Inc.",
    ),
    at("a Silicon Image RAID member", &[0x60 - 512], b"\0\0\0\x2f"),
    at("a VIA RAID member", &[-512], b"\x55\xaa\0"),
    at("a VIA RAID member", &[-512], b"\x55\xaa\x01"),
    at("a VIA RAID member", &[-512], b"\x55\xaa\x02"),
];

pub(super) const EXT: &str = "an ext2, ext3 or ext4 file system";
pub(super) const XFS: &str = "an XFS file system";
pub(super) const BTRFS: &str = "a Btrfs file system";
const UFS: &str = "a UFS file system";
const MINIX: &str = "a Minix file system";

pub(super) const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";

/// The magic number of swap space is at the end of the first page, for any page size.
const SWAP_AT: &[i64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
const UFS_AT: &[i64] = &[1372, 8 * KIB + 1372, 64 * KIB + 1372, 256 * KIB + 1372];
const SYSV_AT: &[i64] = &[1016, 9 * KIB + 1016, 15 * KIB + 1016, 18 * KIB + 1016];
const LUKS_AT: &[i64] = &[
    16 * KIB,
    32 * KIB,
    64 * KIB,
    128 * KIB,
    256 * KIB,
    512 * KIB,
    MIB,
    2 * MIB,
    4 * MIB,
];
const PROMISE_AT: &[i64] = &[
    -63 * 512,
    -255 * 512,
    -256 * 512,
    -16 * 512,
    -399 * 512,
    -591 * 512,
    -675 * 512,
    -735 * 512,
    -911 * 512,
    -974 * 512,
    -991 * 512,
    -951 * 512,
    -3087 * 512,
];
