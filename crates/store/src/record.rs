//! A record as it is on a device.
//!
//! ```text
//!  0 checksum u32 | magic u16 | length of key u16
//!  8 length u32: units of 16 bytes in the upper 28 bits, bytes that pad the last in the lower 4 | generation u16 | flags u8 | length of set u8
//! 16 version u64 | digest 20 | void time u32
//! 48 set | key (particle type and bytes) | body: bins as ops entries | padding                                little-endian
//! ```
//!
//! The checksum is CRC-32 over all that follows it (crc32fast: the IEEE polynomial with the CPU's carry-less
//! multiplication), begun with the seed of the write block: the device's id, the block's sequence number and the number
//! of the opening. Leftovers of earlier uses of the block or the device therefore never pass as records.

use crate::Digest;
use crate::block_header::FIRST_BYTE;
use crc32fast::Hasher;

/// Bytes of a unit.
pub(crate) const UNIT: usize = 16;

/// Bytes before the set.
pub(crate) const HEADER: usize = 48;

/// Longest name of a set, bytes.
pub(crate) const SET_BYTES_MAX: usize = 63;

/// Longest key that is stored, bytes with its type.
pub(crate) const KEY_BYTES_MAX: usize = u16::MAX as usize;

const MAGIC: u16 = 0xf1a5;
const TOMBSTONE: u8 = 1;

/// A record, wherever its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) digest: Digest,
    pub(crate) version: u64,
    pub(crate) generation: u16,
    /// Seconds since 2010; 0: never.
    pub(crate) void_time: u32,
    pub(crate) tombstone: bool,
    pub(crate) set: &'a [u8],
    /// Particle type and bytes; empty: not stored.
    pub(crate) key: &'a [u8],
    /// Bins; of a tombstone the sequence number of the first write block that holds nothing older of this record.
    pub(crate) body: &'a [u8],
}

impl<'a> Record<'a> {
    fn bytes(&self) -> usize {
        HEADER + self.set.len() + self.key.len() + self.body.len()
    }

    /// Length on the device, units.
    pub(crate) fn units(&self) -> u32 {
        self.bytes().div_ceil(UNIT) as u32
    }

    /// Writes it at the begin of `out`, which has room for it.
    pub(crate) fn write(&self, out: &mut [u8], seed: u32) {
        let (bytes, units) = (self.bytes(), self.units());
        let out = &mut out[..units as usize * UNIT];
        let padding = out.len() - bytes;
        out[4..6].copy_from_slice(&MAGIC.to_le_bytes());
        out[6..8].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        out[8..12].copy_from_slice(&(units << 4 | padding as u32).to_le_bytes());
        out[12..14].copy_from_slice(&self.generation.to_le_bytes());
        out[14] = if self.tombstone { TOMBSTONE } else { 0 };
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

    /// The record that `bytes` begin with, if they do.
    pub(crate) fn read(bytes: &'a [u8], seed: u32) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let len = length(header)?;
        let whole = bytes.get(..len)?;
        if checksum(&whole[4..], seed) != u32::from_le_bytes([header[0], header[1], header[2], header[3]]) {
            return None;
        }
        let end = len - usize::from(header[8] & 15);
        let rest = whole.get(HEADER..end)?;
        let (set, rest) = rest.split_at_checked(header[15].into())?;
        let (key, body) = rest.split_at_checked(u16::from_le_bytes([header[6], header[7]]).into())?;
        Some(Self {
            digest: header[24..44].try_into().ok()?,
            version: u64::from_le_bytes(header[16..24].try_into().ok()?),
            generation: u16::from_le_bytes([header[12], header[13]]),
            void_time: u32::from_le_bytes(header[44..48].try_into().ok()?),
            tombstone: header[14] & TOMBSTONE != 0,
            set,
            key,
            body,
        })
    }
}

/// Replaces the checksum of a whole record by that for another write block.
pub(crate) fn seal(record: &mut [u8], seed: u32) {
    let sum = checksum(&record[4..], seed);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// Length of the record by its header, bytes.
fn length(header: &[u8; HEADER]) -> Option<usize> {
    let field = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    let len = (field >> 4) as usize * UNIT;
    let magic = u16::from_le_bytes([header[4], header[5]]);
    (magic == MAGIC && len >= HEADER).then_some(len)
}

/// Item found in a write block.
pub(crate) enum Found<'a> {
    /// A record, where it begins, and the bytes that it takes.
    Record(Record<'a>, usize, usize),
    /// End of the records; `damaged`: true if other bytes lay between records.
    End { damaged: bool },
}

/// Looks for records in a write block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    at: usize,
    seed: u32,
    /// Bytes whose checksum may still be wrong: crafted bytes could otherwise force a checksum at every unit.
    patience: usize,
    /// Bytes that are no record were passed since the last one.
    passed: bool,
    damaged: bool,
}

impl Walk {
    /// A walk through a block of `block_bytes` with this seed, from its first record on.
    pub(crate) fn new(block_bytes: usize, seed: u32) -> Self {
        Self { at: FIRST_BYTE, seed, patience: 8 * block_bytes, passed: false, damaged: false }
    }

    /// The next record of the block.
    pub(crate) fn next<'a>(&mut self, block: &'a [u8]) -> Found<'a> {
        while let Some(header) = block.get(self.at..).and_then(|rest| rest.first_chunk::<HEADER>()) {
            let (begin, len) = (self.at, length(header));
            if let Some(record) = Record::read(&block[begin..], self.seed) {
                let len = len.unwrap_or(HEADER);
                self.at += len;
                self.damaged |= std::mem::take(&mut self.passed);
                return Found::Record(record, begin, len);
            }
            // Whole records follow a damaged one at its end, or at any unit if its length is wrong as well. Zeros pad
            // sectors.
            self.passed |= header[..UNIT].iter().any(|byte| *byte != 0);
            self.at += UNIT;
            self.patience = self.patience.saturating_sub(len.filter(|len| *len <= block.len() - begin).unwrap_or(0));
            if self.patience == 0 {
                self.damaged = true;
                break;
            }
        }
        Found::End { damaged: self.damaged }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::random::Random;

    const RECORD: Record<'static> = Record {
        digest: [7; 20],
        version: 1_700_000_000_000_001,
        generation: 65535,
        void_time: u32::MAX,
        tombstone: false,
        set: b"set",
        key: b"\x03key",
        body: b"some bins, say",
    };

    #[test]
    fn a_record_is_read_as_it_was_written_and_every_flipped_bit_is_seen() {
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

    fn walk(block: &[u8]) -> (Vec<u64>, bool) {
        let (mut walk, mut versions) = (Walk::new(block.len(), 1), Vec::new());
        loop {
            match walk.next(block) {
                Found::Record(record, ..) => versions.push(record.version),
                Found::End { damaged } => return (versions, damaged),
            }
        }
    }

    #[test]
    fn a_walk_passes_what_is_damaged_and_what_another_life_left() {
        let mut block = vec![0; 4096];
        for number in 0..20 {
            Record { version: number as u64, ..RECORD }.write(&mut block[512 + number * 80..], 1);
        }
        let versions = |walked: &[u64]| (0..20).filter(|number| !walked.contains(number)).collect::<Vec<_>>();
        assert_eq!(walk(&block), ((0..20).collect(), false));
        // Of an earlier life, behind the last.
        RECORD.write(&mut block[3000 / 16 * 16..], 2);
        assert_eq!(walk(&block), ((0..20).collect(), false));
        block[512 + 80 * 3 + 60] ^= 1;
        // A length that leads nowhere.
        block[512 + 80 * 7 + 9] ^= 4;
        let (walked, damaged) = walk(&block);
        assert_eq!((versions(&walked), damaged), (vec![3, 7], true));
    }

    #[test]
    fn bytes_made_to_take_long_do_not() {
        // A header with the length of the rest of the block, at every third unit.
        let mut block = vec![0; 8 << 20];
        for at in (512..block.len() - 48).step_by(48) {
            let units = ((block.len() - at) / UNIT) as u32;
            block[at + 4..at + 6].copy_from_slice(&MAGIC.to_le_bytes());
            block[at + 8..at + 12].copy_from_slice(&(units << 4).to_le_bytes());
        }
        let mut walk = Walk::new(block.len(), 1);
        assert!(matches!(walk.next(&block), Found::End { damaged: true }));
        assert!(walk.at < 1024, "{}", walk.at);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            let mut bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next_u64() as u8).collect();
            if bytes.len() > 16 {
                bytes[4..6].copy_from_slice(&MAGIC.to_le_bytes());
                bytes[9..12].fill(0);
            }
            // With the right checksum, so that the guarded data is parsed, too.
            if let Some(len) = bytes.first_chunk().and_then(length).filter(|len| *len <= bytes.len()) {
                seal(&mut bytes[..len], 1);
            }
            let _ = walk(&[&[0; 512], &bytes[..]].concat());
            let _ = Record::read(&bytes, 1);
        }
    }
}
