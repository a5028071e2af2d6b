//! fio's header of a verified block, on the medium: that of fio 3.33, which is written, and that of later ones.
//!
//! ```text
//! offset  3.33                          since version 0x81
//!      0  magic, 2 bytes                magic
//!      2  method, 2                     version, 1; method, 1
//!      4  length of the block, 4        the same
//!      8  seed of its data, 8           the same
//!     16  offset of the block, 8        the same
//!     24  time: seconds, 4; ns, 4       the same
//!     32  job, 2; number of write, 2    number of write, 8
//!     36  crc32c of what is before, 4   job, 2; nothing, 2; 44: crc32c, 4
//! ```
//!
//! All little-endian, as on the machines that this program runs on. The digest of the block follows.

use super::method::crc32c;

const MAGIC: u16 = 0xacca;

/// Bytes of the header that is written.
pub(super) const BYTES: usize = 40;

/// Bytes of the later one.
const LATER_BYTES: usize = 48;
const LATER_VERSION: u8 = 0x81;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    pub(super) method: u8,
    /// Bytes of the block.
    pub(super) len: u32,
    pub(super) seed: u64,
    pub(super) offset: u64,
    pub(super) sec: u32,
    pub(super) nsec: u32,
    pub(super) job: u16,
    /// Number of the write in its job: the lower 16 bits of it in the header that is written.
    pub(super) write: u64,
    /// True if it is the later header.
    pub(super) is_later: bool,
}

/// Damage of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Magic(u16),
    Version(u8),
    Checksum { found: u32, expected: u32 },
}

impl Header {
    /// Bytes of this header.
    pub(super) fn bytes(&self) -> usize {
        if self.is_later { LATER_BYTES } else { BYTES }
    }

    /// Writes the header of fio 3.33 to the beginning of `block`.
    pub(super) fn put(&self, block: &mut [u8]) {
        let header = &mut block[..BYTES];
        header[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        header[2..4].copy_from_slice(&u16::from(self.method).to_le_bytes());
        header[4..8].copy_from_slice(&self.len.to_le_bytes());
        header[8..16].copy_from_slice(&self.seed.to_le_bytes());
        header[16..24].copy_from_slice(&self.offset.to_le_bytes());
        header[24..28].copy_from_slice(&self.sec.to_le_bytes());
        header[28..32].copy_from_slice(&self.nsec.to_le_bytes());
        header[32..34].copy_from_slice(&self.job.to_le_bytes());
        header[34..36].copy_from_slice(&(self.write as u16).to_le_bytes());
        let sum = crc32c(&header[..36]);
        header[36..40].copy_from_slice(&sum.to_le_bytes());
    }

    /// The header at the beginning of `block`, of either version.
    pub(super) fn of(block: &[u8]) -> Result<Self, Broken> {
        // A block that is too short has no valid header.
        let mut bytes = [0; LATER_BYTES];
        let len = block.len().min(LATER_BYTES);
        bytes[..len].copy_from_slice(&block[..len]);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let is_later = bytes[2] == LATER_VERSION;
        match u16_at(0) {
            MAGIC if is_later || bytes[3] == 0 => {}
            MAGIC => return Err(Broken::Version(bytes[2])),
            magic => return Err(Broken::Magic(magic)),
        }
        let sum_at = if is_later { 44 } else { 36 };
        let (found, expected) = (u32_at(sum_at), crc32c(&bytes[..sum_at]));
        if found != expected {
            return Err(Broken::Checksum { found, expected });
        }
        Ok(Self {
            method: bytes[if is_later { 3 } else { 2 }],
            len: u32_at(4),
            seed: u64_at(8),
            offset: u64_at(16),
            sec: u32_at(24),
            nsec: u32_at(28),
            job: u16_at(if is_later { 40 } else { 32 }),
            write: if is_later { u64_at(32) } else { u16_at(34).into() },
            is_later,
        })
    }

    /// The header at the beginning of `block` with one bit of it put right, and the number of that bit in the block.
    pub(super) fn mended(block: &[u8]) -> Option<(Self, usize)> {
        let mut bytes = [0; LATER_BYTES];
        let len = block.len().min(LATER_BYTES);
        bytes[..len].copy_from_slice(&block[..len]);
        (0..len * 8).find_map(|bit| {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let header = Self::of(&bytes).ok().filter(|header| bit < header.bytes() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            header.map(|header| (header, bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_fio_is_read_and_written_alike() {
        // A block of fio 3.33 with verify=md5, up to the digest.
        let block: [u8; BYTES] = [
            0xca, 0xac, 0x02, 0x00, 0x00, 0x10, 0x00, 0x00, 0x2e, 0x56, 0xdb, 0xf6, 0x8c, 0x0a, 0xbb, 0x88, 0x00, 0x10,
            0, 0, 0, 0, 0, 0, 0x5e, 0x01, 0, 0, 0x42, 0xf1, 0x11, 0x0f, 0x01, 0x00, 0x01, 0x00, 0x06, 0x34, 0x7c, 0xb0,
        ];
        let header = Header::of(&block).unwrap();
        assert_eq!((header.method, header.len, header.offset, header.job, header.write), (2, 4096, 4096, 1, 1));
        let mut written = [0xff; BYTES];
        header.put(&mut written);
        assert_eq!(written, block);
        for bit in 0..BYTES * 8 {
            written[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::of(&written).is_err(), "{bit}");
            assert_eq!(Header::mended(&written), Some((header, bit)));
            written[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn the_later_header_is_read_too() {
        let mut block = [0; 64];
        block[..4].copy_from_slice(&[0xca, 0xac, LATER_VERSION, 5]);
        block[32..40].copy_from_slice(&70_000_u64.to_le_bytes());
        block[40] = 3;
        let sum = crc32c(&block[..44]);
        block[44..48].copy_from_slice(&sum.to_le_bytes());
        let header = Header::of(&block).unwrap();
        assert_eq!((header.method, header.write, header.job, header.bytes()), (5, 70_000, 3, 48));
        block[2] = 0x82;
        block[3] = 5;
        assert_eq!(Header::of(&block), Err(Broken::Version(0x82)));
        assert_eq!(Header::of(&[0; 9]), Err(Broken::Magic(0)));
    }
}
