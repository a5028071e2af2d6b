//! A write block on a device: its header, its records, and the walk that reads them.
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
//!
//! The first sector of a write block identifies the device and the current use of the block.
//!
//! ```text
//! magic u32 | checksum u32 | id of the device u64 | sequence u64 | opening u64 | block u32             little-endian
//! ```
//!
//! A walk goes through the pieces (see `seal`) of a write block, and finds records and unreadable parts.

use crate::Digest;
use crate::seal::{SEAL, Seal};
use crc32fast::Hasher;

/// Bytes of a unit.
pub(crate) const UNIT: usize = 16;

/// Bytes before the set.
pub(crate) const HEADER: usize = 48;

/// Minimum bytes of a record on the device: no body is empty.
pub(crate) const RECORD_MIN: usize = HEADER + UNIT;

/// Longest name of a set, bytes.
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

    /// Length on the device, units.
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

    /// The record at the start of `bytes`; `None` if there is no valid record.
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

/// True if the first of two copies of a record was moved more often.
pub(crate) fn is_later(moves: u8, other_moves: u8) -> bool {
    (1..64).contains(&(moves.wrapping_sub(other_moves) & 127))
}

/// Start value of the checksum of a record at byte `at` of a block with this seed. A copy elsewhere is invalid.
pub(crate) fn seed_at(seed: u32, at: usize) -> u32 {
    // The factor is odd, so that no two positions have the same start value.
    seed.wrapping_add((at as u32).wrapping_mul(0x9e37_79b1))
}

/// Checksum of bytes in a write block; `seed` is the start value.
pub(crate) fn checksum(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// Length of the record according to its header, bytes.
pub(crate) fn length(header: &[u8; HEADER]) -> Option<usize> {
    let field = u32_at(header, 8);
    let len = (field >> 4) as usize * UNIT;
    let magic = u16_at(header, 4);
    (magic == MAGIC && len >= HEADER).then_some(len)
}

const BLOCK_MAGIC: u32 = 0xf1a5_b10c;
const BLOCK_HEADER_BYTES: usize = 36;

/// Position of the first seal: behind the block's header.
pub(crate) const FIRST_BYTE: usize = 48;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Device id.
    pub(crate) id: u64,
    /// Increases with each block that is begun in the space.
    pub(crate) sequence: u64,
    /// Random number of the store that began the block. A sequence number that is lost in a crash is assigned again;
    /// this number distinguishes the two uses.
    pub(crate) opening: u64,
    /// Number of the block in the space.
    pub(crate) block: u32,
}

/// State of a write block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderState {
    /// No header of this device.
    None,
    /// A damaged header of this device, or the header of another block of this device.
    Damaged,
    Whole(BlockHeader),
}

impl BlockHeader {
    /// Start value of the checksums of the block's records.
    pub(crate) fn seed(&self) -> u32 {
        let mut hasher = Hasher::new();
        [self.id, self.sequence, self.opening]
            .iter()
            .for_each(|number| hasher.update(&number.to_le_bytes()));
        hasher.finalize()
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        out.fill(0);
        out[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        for (at, number) in [(8, self.id), (16, self.sequence), (24, self.opening)] {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[32..36].copy_from_slice(&self.block.to_le_bytes());
        let sum = crc32fast::hash(&out[8..BLOCK_HEADER_BYTES]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// State of the header at the start of `bytes`, which should be the header of block `block` of device `id`.
    pub(crate) fn read(bytes: &[u8], id: u64, block: u32) -> HeaderState {
        let Some(header) = bytes.first_chunk::<BLOCK_HEADER_BYTES>() else {
            return HeaderState::None;
        };
        let block_header = Self {
            id: u64_at(header, 8),
            sequence: u64_at(header, 16),
            opening: u64_at(header, 24),
            block: u32_at(header, 32),
        };
        let is_whole =
            u32_at(header, 0) == BLOCK_MAGIC && u32_at(header, 4) == crc32fast::hash(&header[8..]);
        match (block_header.id == id, block_header.block == block) {
            (true, true) if is_whole => HeaderState::Whole(block_header),
            // Detects one changed bit in any field, and several changed bits in most fields.
            (true, _) => HeaderState::Damaged,
            (_, true)
                if !is_whole
                    && u32_at(header, 0) == BLOCK_MAGIC
                    && (block_header.id ^ id).count_ones() < 4 =>
            {
                HeaderState::Damaged
            }
            _ => HeaderState::None,
        }
    }
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

/// Part of a write block that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnreadablePart {
    /// Offset in the block.
    pub(crate) at: u32,
    /// Unreadable bytes. Intact records in between do not count.
    pub(crate) bytes: u32,
    /// Upper bound of the number of records that the part held.
    pub(crate) records: u32,
}

impl UnreadablePart {
    /// A part without a seal: any of its bytes may have been records.
    pub(crate) fn unsealed(at: usize, bytes: usize) -> Self {
        let records = bytes.saturating_sub(SEAL) / RECORD_MIN;
        Self {
            at: at as u32,
            bytes: bytes as u32,
            records: records as u32,
        }
    }
}

/// Item found in a write block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BlockItem<'a> {
    /// A piece begins.
    Seal(Seal),
    /// A record, its offset in the block, and its length in bytes.
    Record(Record<'a>, usize, usize),
    /// An unreadable part before or within an intact piece.
    Flaw(UnreadablePart),
    /// The end, with the unreadable part behind the last intact piece. `None`: the pieces reach the end of the block.
    End(Option<UnreadablePart>),
}

/// A piece with an intact seal.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// End of the piece's records.
    used: usize,
    end: usize,
    /// Number of records that were not found yet.
    records_left: u32,
}

/// Position of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockWalk {
    at: usize,
    seed: u32,
    piece: Option<Piece>,
    /// Offset of the current unreadable part, and number of unreadable bytes in it.
    flaw: Option<(usize, usize)>,
    /// Bytes that may still be checksummed in vain. Without a limit, crafted bytes could force the computation of a
    /// long checksum at every unit.
    patience: usize,
}

impl BlockWalk {
    /// Begins a walk through a block of `block_bytes`. `seed`: start value of the block's checksums.
    pub(crate) fn new(block_bytes: usize, seed: u32) -> Self {
        Self {
            at: FIRST_BYTE,
            seed,
            piece: None,
            flaw: None,
            patience: 8 * block_bytes,
        }
    }

    /// The next item of the block.
    pub(crate) fn next<'a>(&mut self, block: &'a [u8]) -> BlockItem<'a> {
        loop {
            let limit = self.piece.map_or(block.len(), |piece| piece.used);
            if self.at + UNIT > limit {
                let Some(Piece {
                    end, records_left, ..
                }) = self.piece.take()
                else {
                    return BlockItem::End(
                        self.flaw
                            .take()
                            .map(|(at, bytes)| UnreadablePart::unsealed(at, bytes)),
                    );
                };
                self.at = end;
                let Some((at, bytes)) = self.flaw.take().filter(|_| records_left > 0) else {
                    continue;
                };
                let at = at as u32;
                let bytes = bytes as u32;
                return BlockItem::Flaw(UnreadablePart {
                    at,
                    bytes,
                    records: records_left,
                });
            }
            if self.piece.is_none()
                && let Some(seal) = Seal::read(block, self.at, self.seed)
            {
                if let Some((at, bytes)) = self.flaw.take() {
                    return BlockItem::Flaw(UnreadablePart::unsealed(at, bytes));
                }
                self.piece = Some(Piece {
                    used: seal.used as usize,
                    end: seal.end as usize,
                    records_left: seal.records,
                });
                self.at += SEAL;
                return BlockItem::Seal(seal);
            }
            let begin = self.at;
            let rest = &block[self.at..limit];
            if let Some(record) = Record::read(rest, seed_at(self.seed, begin)) {
                let len = record.units() as usize * UNIT;
                self.at += len;
                if let Some(piece) = &mut self.piece {
                    piece.records_left = piece.records_left.saturating_sub(1);
                }
                return BlockItem::Record(record, begin, len);
            }
            // The next intact record begins at the end of the damaged record, or, if the damaged length is wrong too,
            // at any unit.
            self.flaw.get_or_insert((begin, 0)).1 += UNIT;
            self.at += UNIT;
            let len = rest
                .first_chunk::<HEADER>()
                .and_then(length)
                .filter(|len| *len <= rest.len());
            self.patience = self.patience.saturating_sub(len.unwrap_or(0));
            if self.patience == 0
                && let Some((_, bytes)) = &mut self.flaw
            {
                *bytes += limit - self.at;
                self.at = limit;
            }
        }
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
        is_tombstone: false,
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

    #[test]
    fn the_last_copy_of_a_record_is_known() {
        let mut bytes = vec![0; 80];
        Record {
            is_tombstone: true,
            ..RECORD
        }
        .write(&mut bytes, 9);
        for _ in 0..300 {
            let before = moves(&bytes);
            seal_moved(&mut bytes, 10);
            assert_eq!(
                Record::read(&bytes, 10),
                Some(Record {
                    is_tombstone: true,
                    ..RECORD
                })
            );
            assert!(is_later(moves(&bytes), before) && !is_later(before, moves(&bytes)));
        }
        assert!(!is_later(5, 5));
    }

    #[test]
    fn no_bytes_make_it_panic() {
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

#[cfg(test)]
mod block_header_tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_where_it_was_written() {
        let header = BlockHeader {
            id: 1,
            sequence: 1 << 40,
            opening: 3,
            block: 7,
        };
        let mut bytes = vec![0xff; 512];
        header.write(&mut bytes);
        assert_eq!(BlockHeader::read(&bytes, 1, 7), HeaderState::Whole(header));
        assert_eq!(
            BlockHeader::read(&bytes, 2, 7),
            HeaderState::None,
            "another device's"
        );
        assert_eq!(
            BlockHeader::read(&bytes, 1, 8),
            HeaderState::Damaged,
            "another block's"
        );
        for bit in 0..BLOCK_HEADER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                BlockHeader::read(&bytes, 1, 7),
                HeaderState::Damaged,
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_ne!(
            header.seed(),
            BlockHeader {
                opening: 4,
                ..header
            }
            .seed()
        );
    }
}

#[cfg(test)]
mod walk_tests {
    use super::*;
    use super::{MAGIC, seal};
    use crate::seal::Bounds;
    use sys::random::Random;

    /// Two pieces of 2 KiB, each with ten records of 80 bytes. The second piece reaches the end of the block.
    fn block() -> Vec<u8> {
        let mut block = vec![0; 4096];
        for (piece, at) in [48, 2048].into_iter().enumerate() {
            for number in 0..10 {
                let version = (piece * 10 + number) as u64;
                let record = Record {
                    digest: [7; 20],
                    version,
                    generation: 1,
                    void_time: 0,
                    is_tombstone: false,
                    set: b"set",
                    key: b"\x03key",
                    body: b"some bins, say",
                };
                let at = at + SEAL + number * 80;
                record.write(&mut block[at..], seed_at(1, at));
            }
            let end = (piece as u32 + 1) * 2048;
            let used = (at + SEAL + 800) as u32;
            Seal {
                at: at as u32,
                end,
                used,
                records: 10,
                bounds: Bounds::default(),
            }
            .write(&mut block, 1);
        }
        block
    }

    /// Versions of the records, the flaws between them, and the end.
    fn walk(block: &[u8]) -> (Vec<u64>, Vec<UnreadablePart>, Option<UnreadablePart>) {
        let mut walk = BlockWalk::new(block.len(), 1);
        let mut versions = Vec::new();
        let mut flaws = Vec::new();
        loop {
            match walk.next(block) {
                BlockItem::Seal(_) => {}
                BlockItem::Record(record, ..) => versions.push(record.version),
                BlockItem::Flaw(flaw) => flaws.push(flaw),
                BlockItem::End(end) => return (versions, flaws, end),
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_seal_or_record_is_seen_and_costs_what_is_said() {
        let whole = block();
        assert_eq!(walk(&whole), ((0..20).collect(), Vec::new(), None));
        let guarded = |byte: usize| {
            (48..48 + SEAL + 800).contains(&byte) || (2048..2048 + SEAL + 800).contains(&byte)
        };
        for byte in 48..whole.len() {
            let mut block = whole.clone();
            block[byte] ^= 1 << (byte % 8);
            let (versions, flaws, end) = walk(&block);
            let said = flaws
                .iter()
                .chain(&end)
                .map(|flaw| flaw.records as usize)
                .sum::<usize>();
            let lost = 20 - versions.len();
            assert!(
                lost <= said && lost <= 1,
                "byte {byte}: {lost} records are lost, {said} are reported"
            );
            assert_eq!(
                !flaws.is_empty() || end.is_some(),
                guarded(byte),
                "byte {byte}: {flaws:?} {end:?}"
            );
        }
    }

    #[test]
    fn a_damaged_record_is_one_and_what_another_use_left_is_none() {
        let mut block = block();
        block[2048 + SEAL + 3 * 80 + 60] ^= 1;
        // A wrong length.
        block[48 + SEAL + 7 * 80 + 9] ^= 4;
        let flaw = |at: usize| UnreadablePart {
            at: at as u32,
            bytes: 80,
            records: 1,
        };
        let wanted = (0..20)
            .filter(|version| ![7, 13].contains(version))
            .collect();
        assert_eq!(
            walk(&block),
            (
                wanted,
                vec![flaw(48 + SEAL + 560), flaw(2048 + SEAL + 240)],
                None
            )
        );
        // Without the second piece the block is incomplete.
        block[2048..].fill(0);
        let (versions, flaws, end) = walk(&block);
        assert_eq!(
            (versions.len(), flaws.len(), end),
            (9, 1, Some(UnreadablePart::unsealed(2048, 2048)))
        );
        assert_eq!(UnreadablePart::unsealed(2048, 2048).records, 30);
    }

    #[test]
    fn bytes_made_to_take_long_do_not() {
        // Every third unit begins with a record header whose length reaches to the end of the block.
        let mut block = vec![0; 8 << 20];
        for at in (48..block.len() - 48).step_by(48) {
            let units = ((block.len() - at) / UNIT) as u32;
            block[at + 4..at + 6].copy_from_slice(&MAGIC.to_le_bytes());
            block[at + 8..at + 12].copy_from_slice(&(units << 4).to_le_bytes());
        }
        let mut walk = BlockWalk::new(block.len(), 1);
        let bytes = (8 << 20) - 48;
        assert_eq!(
            walk.next(&block),
            BlockItem::End(Some(UnreadablePart::unsealed(48, bytes)))
        );
        assert_eq!(walk.patience, 0);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            let mut block = vec![0; 48];
            block.extend((0..random.below(400)).map(|_| random.next_u64() as u8));
            let at = 48 + random.below(20) as usize * UNIT;
            if let Some(bytes) = block.get_mut(at..at + 12) {
                bytes[4..6].copy_from_slice(&MAGIC.to_le_bytes());
                bytes[9..12].fill(0);
            }
            // Sets valid checksums, so that the data behind the checksums is parsed, too.
            let rest = block.get_mut(at..).unwrap_or_default();
            if let Some(len) = rest
                .first_chunk()
                .and_then(length)
                .filter(|len| *len <= rest.len())
            {
                seal(&mut rest[..len], seed_at(1, at));
            }
            if block.len() >= 48 + SEAL && random.below(2) == 0 {
                let [end, used, records] = [(); 3].map(|()| random.below(500) as u32);
                Seal {
                    at: 48,
                    end,
                    used,
                    records,
                    bounds: Bounds::default(),
                }
                .write(&mut block, 1);
            }
            let _ = walk(&block);
        }
    }
}
