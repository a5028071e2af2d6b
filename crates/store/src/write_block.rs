//! A write block on a device: its header, and the walk that finds its records.
//!
//! The first sector of a write block identifies the device and the current use of the block.
//!
//! ```text
//! magic u32 | checksum u32 | id of the device u64 | sequence u64 | opening u64 | block u32             little-endian
//! ```
//!
//! A walk goes through the pieces (see `seal`) of a write block, and finds records and unreadable parts.

use crate::record::{HEADER, RECORD_MIN, Record, UNIT, length, seed_at, u32_at, u64_at};
use crate::seal::{SEAL, Seal};
use crc32fast::Hasher;

const BLOCK_MAGIC: u32 = 0xf1a5_b10c;
const BLOCK_HEADER_BYTES: usize = 36;

/// Position of the first seal: behind the block's header.
pub(crate) const FIRST_BYTE: usize = 48;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteBlockHeader {
    pub(crate) id: u64,
    /// Increases with each block that is begun in the space.
    pub(crate) sequence: u64,
    /// Random number of the store that began the block. Distinguishes two uses with the same sequence number: a number
    /// lost in a crash is assigned again.
    pub(crate) opening: u64,
    pub(crate) block: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderState {
    /// No header of this device.
    None,
    /// A damaged header of this device, or the header of another block of this device.
    Damaged,
    Whole(WriteBlockHeader),
}

impl WriteBlockHeader {
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
            // This arm and the next detect one changed bit in any field, and several changed bits in most fields.
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

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BlockItem<'a> {
    Seal(Seal),
    /// A record, its offset in the block, and its length in bytes.
    Record(Record<'a>, usize, usize),
    /// An unreadable part before or within an intact piece.
    Flaw(UnreadablePart),
    /// The end, with the unreadable part behind the last intact piece. `None`: the pieces reach the end of the block.
    End(Option<UnreadablePart>),
}

#[derive(Debug, Clone, Copy)]
struct SealedPiece {
    /// End of the piece's records.
    used: usize,
    end: usize,
    records_left: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockWalk {
    at: usize,
    seed: u32,
    piece: Option<SealedPiece>,
    /// Offset of the current unreadable part, and number of unreadable bytes in it.
    flaw: Option<(usize, usize)>,
    /// Bytes of failed checksums that are still allowed: crafted bytes could force a long checksum at every unit.
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

    pub(crate) fn next<'a>(&mut self, block: &'a [u8]) -> BlockItem<'a> {
        loop {
            let limit = self.piece.map_or(block.len(), |piece| piece.used);
            if self.at + UNIT > limit {
                let Some(SealedPiece {
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
                self.piece = Some(SealedPiece {
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
            // The next intact record begins at the damaged record's end, or, if its length is wrong too, at any unit.
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
mod block_header_tests {
    use super::*;

    #[test]
    fn a_header_is_valid_only_in_its_block_and_every_flipped_bit_is_found() {
        let header = WriteBlockHeader {
            id: 1,
            sequence: 1 << 40,
            opening: 3,
            block: 7,
        };
        let mut bytes = vec![0xff; 512];
        header.write(&mut bytes);
        assert_eq!(
            WriteBlockHeader::read(&bytes, 1, 7),
            HeaderState::Whole(header)
        );
        assert_eq!(
            WriteBlockHeader::read(&bytes, 2, 7),
            HeaderState::None,
            "another device's"
        );
        assert_eq!(
            WriteBlockHeader::read(&bytes, 1, 8),
            HeaderState::Damaged,
            "another block's"
        );
        for bit in 0..BLOCK_HEADER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                WriteBlockHeader::read(&bytes, 1, 7),
                HeaderState::Damaged,
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_ne!(
            header.seed(),
            WriteBlockHeader {
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
    use crate::record::{MAGIC, seal};
    use crate::seal::DurableBounds;
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
                bounds: DurableBounds::default(),
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
    fn every_flipped_bit_is_found_and_loses_no_more_records_than_reported() {
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
    fn a_damaged_record_counts_once_and_leftovers_of_another_use_are_ignored() {
        let mut block = block();
        block[2048 + SEAL + 3 * 80 + 60] ^= 1;
        // A wrong length.
        block[48 + SEAL + 7 * 80 + 9] ^= 4;
        let flaw = |at: usize| UnreadablePart {
            at: at as u32,
            bytes: 80,
            records: 1,
        };
        let expected = (0..20)
            .filter(|version| ![7, 13].contains(version))
            .collect();
        assert_eq!(
            walk(&block),
            (
                expected,
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
    fn crafted_lengths_do_not_slow_the_walk() {
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
    fn a_walk_through_a_random_block_never_panics() {
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
                    bounds: DurableBounds::default(),
                }
                .write(&mut block, 1);
            }
            let _ = walk(&block);
        }
    }
}
