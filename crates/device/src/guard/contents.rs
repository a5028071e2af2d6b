//! Data read from a device, and the places at which formats have their superblocks.
//!
//! ```text
//! | first 4 MiB |  backup superblocks, random places  | last 4 MiB |
//!   ^0 ^63 sectors ^1 MiB ^2 MiB: where partitions begin, if the partition table is lost
//! ```

use std::ops::Range;
use sys::salt::{SECTOR_BYTES, is_stamped};

/// Bytes read at each end of the device.
pub(super) const END_BYTES: u64 = 4 << 20;

const MIB: u64 = 1 << 20;

/// Bytes of a GPT's backup: 32 sectors of entries and the header.
const GPT_BACKUP_BYTES: u64 = 33 * 512;

/// Offsets at which a format can begin: the start of the device or of a first partition (63 sectors as in DOS, 1 MiB or
/// 2 MiB).
const STARTS: [u64; 4] = [0, 63 * 512, MIB, 2 * MIB];

/// Data read from a device, and the key of flashproof's stamps on this device.
pub(super) struct Contents {
    /// Offset and bytes of each piece.
    pub(super) pieces: Vec<(u64, Vec<u8>)>,
    pub(super) size_bytes: u64,
    pub(super) key: Option<u64>,
}

impl Contents {
    /// `None` if these bytes were not read.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        self.pieces.iter().find_map(|(start, bytes)| {
            bytes
                .get(usize::try_from(at.checked_sub(*start)?).ok()?..)?
                .get(..len)
        })
    }

    /// As [`Self::bytes`]; `None` if the sector of the first byte has flashproof's stamp, because flashproof's random
    /// data may contain a magic number by chance.
    pub(super) fn count_unstamped(&self, at: u64, len: usize) -> Option<&[u8]> {
        let sector = self.bytes(at - at % SECTOR_BYTES as u64, SECTOR_BYTES);
        self.bytes(at, len).filter(|_| {
            sector.is_none_or(|sector| !self.key.is_some_and(|key| is_stamped(sector, key)))
        })
    }

    #[cfg(test)]
    pub(super) fn at_bytes(device: &[u8], key: Option<u64>) -> Self {
        Self {
            pieces: vec![(0, device.to_vec())],
            size_bytes: device.len() as u64,
            key,
        }
    }
}

/// Ranges that a file system can cover: the whole device of `size_bytes`, and the possible ranges of a first partition.
pub(super) fn extents(size_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    // A partition ends at the backup of the GPT, or at the last boundary of 1 MiB before the backup.
    let last = size_bytes.saturating_sub(GPT_BACKUP_BYTES);
    let partitions = STARTS[1..]
        .iter()
        .flat_map(move |start| [*start..last, *start..last / MIB * MIB]);
    std::iter::once(0..size_bytes)
        .chain(partitions)
        .filter(|extent| !extent.is_empty())
}

/// Offsets of backup superblocks of an ext file system that begins at `start`. The first backup is at the start of the
/// second group: after 8, 32 or 128 MiB for blocks of 1, 2 or 4 KiB.
pub(super) fn ext_backups(start: u64) -> [u64; 3] {
    [8 * MIB + 1024, 32 * MIB, 128 * MIB].map(|at| start + at)
}

/// As [`ext_backups`], for Btrfs.
pub(super) fn btrfs_backups(start: u64) -> [u64; 2] {
    [64 * MIB, 256 << 30].map(|at| start + at)
}

/// As [`ext_backups`], for XFS, which has a superblock in each allocation group. By default a file system has four
/// groups, or groups of 1 TiB less one block.
pub(super) fn xfs_backups(extent: &Range<u64>) -> [u64; 4] {
    const BLOCK: u64 = 4096;
    let quarter = ((extent.end - extent.start) / BLOCK).div_ceil(4) * BLOCK;
    [quarter, 2 * quarter, 3 * quarter, (1 << 40) - BLOCK].map(|at| extent.start + at)
}

/// The places of the two headers of flashproof's record engine: `store::HEADER_OFFSETS`.
pub(super) const STORE_HEADERS: [u64; 2] = [0, 8 * MIB - 4096];

/// All places of backup superblocks and second headers on a device of `size_bytes`.
pub(super) fn backups(size_bytes: u64) -> Vec<u64> {
    extents(size_bytes)
        .flat_map(|extent: Range<u64>| {
            let xfs = xfs_backups(&extent);
            ext_backups(extent.start)
                .into_iter()
                .chain(btrfs_backups(extent.start))
                .chain(xfs)
        })
        .chain(STORE_HEADERS)
        .collect()
}

pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}
