//! A record on a device.
//!
//! ```text
//!  0 checksum u32 | magic u16 | length of key u16
//!  8 length u32: units of 16 bytes in the upper 28 bits, bytes of padding in the last unit in the lower 4
//! 12 generation u16 | moves and, in the lowest bit, tombstone u8 | length of set u8
//! 16 version u64 | digest 20 | void time u32
//! 48 set | key (particle type and bytes) | body: bins as ops entries | padding                       little-endian
//! ```
//!
//! The checksum is CRC-32 over all that follows it (crc32fast: the IEEE polynomial with the CPU's carry-less
//! multiplication). Its start value depends on the position and on the seed of the write block. The seed depends on the
//! device's id, the block's sequence number, and the opening: a random number of the store. So leftovers of earlier
//! uses of the block or the device never pass as records.

use crate::Digest;
use crc32fast::Hasher;

pub(crate) const UNIT: usize = 16;

/// Bytes before the set.
pub(crate) const HEADER: usize = 48;

/// Minimum bytes of a record on the device: no body is empty.
pub(crate) const RECORD_MIN: usize = HEADER + UNIT;

pub(crate) const SET_BYTES_MAX: usize = 63;

/// Longest stored key, bytes, including its type.
pub(crate) const KEY_BYTES_MAX: usize = u16::MAX as usize;

pub(crate) const MAGIC: u16 = 0xf1a5;
const TOMBSTONE: u8 = 1;

/// A record. Borrows its variable parts from a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) digest: Digest,
    pub(crate) version: u64,
    pub(crate) generation: u16,
    /// Seconds since 2010; 0: never.
    pub(crate) void_time: u32,
    pub(crate) is_tombstone: bool,
    pub(crate) set: &'a [u8],
    /// Particle type and bytes; empty: not stored.
    pub(crate) key: &'a [u8],
    /// Bins. In a tombstone: sequence number of the first write block that holds no older version of the record.
    pub(crate) body: &'a [u8],
}

impl<'a> Record<'a> {
    fn bytes(&self) -> usize {
        HEADER + self.set.len() + self.key.len() + self.body.len()
    }

    pub(crate) fn units(&self) -> u32 {
        self.bytes().div_ceil(UNIT) as u32
    }

    /// Writes the record at the start of `out`, which must have room for it.
    pub(crate) fn write(&self, out: &mut [u8], seed: u32) {
        let bytes = self.bytes();
        let units = self.units();
        let out = &mut out[..units as usize * UNIT];
        let padding = out.len() - bytes;
        out[4..6].copy_from_slice(&MAGIC.to_le_bytes());
        out[6..8].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        out[8..12].copy_from_slice(&(units << 4 | padding as u32).to_le_bytes());
        out[12..14].copy_from_slice(&self.generation.to_le_bytes());
        out[14] = if self.is_tombstone { TOMBSTONE } else { 0 };
        out[15] = self.set.len() as u8;
        out[16..24].copy_from_slice(&self.version.to_le_bytes());
        out[24..44].copy_from_slice(&self.digest);
        out[44..48].copy_from_slice(&self.void_time.to_le_bytes());
        let mut at = HEADER;
        for part in [self.set, self.key, self.body] {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        out[at..].fill(0);
        seal(out, seed);
    }

    pub(crate) fn read(bytes: &'a [u8], seed: u32) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let len = length(header)?;
        let record_bytes = bytes.get(..len)?;
        if checksum(&record_bytes[4..], seed) != u32_at(header, 0) {
            return None;
        }
        let end = len - usize::from(header[8] & 15);
        let rest = record_bytes.get(HEADER..end)?;
        let (set, rest) = rest.split_at_checked(header[15].into())?;
        let (key, body) = rest.split_at_checked(u16_at(header, 6).into())?;
        Some(Self {
            digest: header[24..44].try_into().ok()?,
            version: u64_at(header, 16),
            generation: u16_at(header, 12),
            void_time: u32_at(header, 44),
            is_tombstone: header[14] & TOMBSTONE != 0,
            set,
            key,
            body,
        })
    }
}

/// Replaces the checksum of a record, for another write block.
pub(crate) fn seal(record: &mut [u8], seed: u32) {
    let sum = checksum(&record[4..], seed);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Increments the number of moves of a record, and replaces the checksum, for the new position.
pub(crate) fn seal_moved(record: &mut [u8], seed: u32) {
    record[14] = record[14] & TOMBSTONE | moves(record).wrapping_add(1) << 1;
    seal(record, seed);
}

/// Number of times that a record was moved since it was written, modulo 128.
pub(crate) fn moves(record: &[u8]) -> u8 {
    record[14] >> 1
}

/// True if a copy with number `moves` was moved more often than a copy with number `other_moves`, both modulo 128.
pub(crate) fn is_later(moves: u8, other_moves: u8) -> bool {
    (1..64).contains(&(moves.wrapping_sub(other_moves) & 127))
}

/// Start value of the checksum of a record at byte `at` of a block with this seed: a copy at another byte is invalid.
pub(crate) fn seed_at(seed: u32, at: usize) -> u32 {
    // The factor is odd, so that no two positions have the same start value.
    seed.wrapping_add((at as u32).wrapping_mul(0x9e37_79b1))
}

pub(crate) fn checksum(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

pub(crate) fn length(header: &[u8; HEADER]) -> Option<usize> {
    let field = u32_at(header, 8);
    let len = (field >> 4) as usize * UNIT;
    let magic = u16_at(header, 4);
    (magic == MAGIC && len >= HEADER).then_some(len)
}

fn at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|byte| bytes[at + byte])
}

pub(crate) fn u16_at(bytes: &[u8], byte: usize) -> u16 {
    u16::from_le_bytes(at(bytes, byte))
}

pub(crate) fn u32_at(bytes: &[u8], byte: usize) -> u32 {
    u32::from_le_bytes(at(bytes, byte))
}

pub(crate) fn u64_at(bytes: &[u8], byte: usize) -> u64 {
    u64::from_le_bytes(at(bytes, byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::modified;
    use sys::random::Random;

    const RECORD: Record<'static> = Record {
        digest: [7; 20],
        version: 1_700_000_000_000_001,
        generation: 65535,
        void_time: u32::MAX,
        is_tombstone: false,
        set: b"set",
        key: b"\x03key",
        body: b"some bins, say",
    };

    #[test]
    fn a_record_is_read_as_it_was_written_and_every_flipped_bit_is_found() {
        let mut bytes = vec![0xee; 96];
        RECORD.write(&mut bytes, 9);
        assert_eq!((RECORD.units(), Record::read(&bytes, 9)), (5, Some(RECORD)));
        assert_eq!(Record::read(&bytes, 10), None, "another block's");
        for bit in 0..80 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::read(&bytes, 9), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        (0..80).for_each(|end| assert_eq!(Record::read(&bytes[..end], 9), None));
        seal(&mut bytes[..80], 10);
        assert_eq!(Record::read(&bytes, 10), Some(RECORD));
    }

    #[test]
    fn the_number_of_moves_tells_the_last_copy_of_a_record() {
        let mut bytes = vec![0; 80];
        modified(RECORD, |it| it.is_tombstone = true).write(&mut bytes, 9);
        for _ in 0..300 {
            let before = moves(&bytes);
            seal_moved(&mut bytes, 10);
            let found = Record::read(&bytes, 10);
            assert_eq!(found, Some(modified(RECORD, |it| it.is_tombstone = true)));
            assert!(is_later(moves(&bytes), before) && !is_later(before, moves(&bytes)));
        }
        assert!(!is_later(5, 5));
    }

    #[test]
    fn reading_a_record_never_panics() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            let mut bytes: Vec<u8> = (0..random.below(200))
                .map(|_| random.next_u64() as u8)
                .collect();
            if bytes.len() > 16 {
                bytes[4..6].copy_from_slice(&MAGIC.to_le_bytes());
                bytes[9..12].fill(0);
            }
            // Sets a valid checksum, so that the data behind the checksum is parsed, too.
            if let Some(len) = bytes
                .first_chunk()
                .and_then(length)
                .filter(|len| *len <= bytes.len())
            {
                seal(&mut bytes[..len], 1);
            }
            let _ = Record::read(&bytes, 1);
        }
    }
}
