//! The first sector of a write block: owner, and the current use of the block.
//!
//! ```text
//! magic u32 | checksum u32 | id of the device u64 | sequence u64 | opening u64 | block u32                     little-endian
//! ```

use crate::little_endian::{u32_at, u64_at};
use crc32fast::Hasher;

const MAGIC: u32 = 0xf1a5_b10c;
const BYTES: usize = 36;

/// First position of a record. The first record begins at the end of the sector, whatever its length.
pub(crate) const FIRST_BYTE: usize = 48;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Device id.
    pub(crate) id: u64,
    /// Grows with each block that is begun in the space.
    pub(crate) sequence: u64,
    /// A random number of the store that began it. A sequence number lost in a crash is assigned again, and this
    /// distinguishes both uses.
    pub(crate) opening: u64,
    /// Number in the space.
    pub(crate) block: u32,
}

/// State of a write block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// No header of this device.
    None,
    /// A damaged header of this device, or that of another of its blocks.
    Damaged,
    Whole(BlockHeader),
}

impl BlockHeader {
    /// Start value of the checksums of its records.
    pub(crate) fn seed(&self) -> u32 {
        let mut hasher = Hasher::new();
        [self.id, self.sequence, self.opening].iter().for_each(|number| hasher.update(&number.to_le_bytes()));
        hasher.finalize()
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        out.fill(0);
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        for (at, number) in [(8, self.id), (16, self.sequence), (24, self.opening)] {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[32..36].copy_from_slice(&self.block.to_le_bytes());
        let sum = crc32fast::hash(&out[8..BYTES]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The header of block `block` of the device `id`, if `bytes` begin with one, whole or damaged.
    pub(crate) fn read(bytes: &[u8], id: u64, block: u32) -> Header {
        let Some(header) = bytes.first_chunk::<BYTES>() else { return Header::None };
        let found = Self {
            id: u64_at(header, 8),
            sequence: u64_at(header, 16),
            opening: u64_at(header, 24),
            block: u32_at(header, 32),
        };
        let is_whole = u32_at(header, 0) == MAGIC && u32_at(header, 4) == crc32fast::hash(&header[8..]);
        match (found.id == id, found.block == block) {
            (true, true) if is_whole => Header::Whole(found),
            // A bit of any field, or more of most.
            (true, _) => Header::Damaged,
            (_, true) if !is_whole && u32_at(header, 0) == MAGIC && (found.id ^ id).count_ones() < 4 => Header::Damaged,
            _ => Header::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_where_it_was_written() {
        let header = BlockHeader { id: 1, sequence: 1 << 40, opening: 3, block: 7 };
        let mut bytes = vec![0xff; 512];
        header.write(&mut bytes);
        assert_eq!(BlockHeader::read(&bytes, 1, 7), Header::Whole(header));
        assert_eq!(BlockHeader::read(&bytes, 2, 7), Header::None, "another device's");
        assert_eq!(BlockHeader::read(&bytes, 1, 8), Header::Damaged, "another block's");
        for bit in 0..BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::read(&bytes, 1, 7), Header::Damaged, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_ne!(header.seed(), BlockHeader { opening: 4, ..header }.seed());
    }
}
