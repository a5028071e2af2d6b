//! A walk through the pieces of a write block: its records, and the bytes that should be records and are not.

use crate::block_header::FIRST_BYTE;
use crate::record::{HEADER, RECORD_MIN, Record, UNIT, length, seed_at};
use crate::seal::{SEAL, Seal};

/// Part of a write block that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// Where it begins.
    pub(crate) at: u32,
    /// Bytes, without whole records between them.
    pub(crate) bytes: u32,
    /// Records that it held at most.
    pub(crate) records: u32,
}

impl Flaw {
    /// Part without a seal: any bytes of it may have been records.
    pub(crate) fn unsealed(at: usize, bytes: usize) -> Self {
        let records = bytes.saturating_sub(SEAL) / RECORD_MIN;
        Self { at: at as u32, bytes: bytes as u32, records: records as u32 }
    }
}

/// Item found in a write block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A piece begins.
    Seal(Seal),
    /// A record, where it begins, and the bytes that it takes.
    Record(Record<'a>, usize, usize),
    /// Followed by a whole piece, or within one.
    Flaw(Flaw),
    /// The end, with what follows the last whole piece. `None`: the pieces reach the end of the block.
    End(Option<Flaw>),
}

/// A piece with a whole seal.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// End of its records.
    used: usize,
    end: usize,
    /// Records that were not found yet.
    left: u32,
}

/// Position of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    at: usize,
    seed: u32,
    piece: Option<Piece>,
    /// Where the current flaw begins, and its bytes that are not records.
    flaw: Option<(usize, usize)>,
    /// Bytes whose checksum may still be wrong: crafted bytes could otherwise force a checksum at every unit.
    patience: usize,
}

impl Walk {
    /// A walk through a block of `block_bytes` with this seed.
    pub(crate) fn new(block_bytes: usize, seed: u32) -> Self {
        Self { at: FIRST_BYTE, seed, piece: None, flaw: None, patience: 8 * block_bytes }
    }

    /// The next item of the block.
    pub(crate) fn next<'a>(&mut self, block: &'a [u8]) -> Found<'a> {
        loop {
            let limit = self.piece.map_or(block.len(), |piece| piece.used);
            if self.at + UNIT > limit {
                let Some(Piece { end, left, .. }) = self.piece.take() else {
                    return Found::End(self.flaw.take().map(|(at, bytes)| Flaw::unsealed(at, bytes)));
                };
                self.at = end;
                match self.flaw.take() {
                    Some((at, bytes)) if left > 0 => {
                        return Found::Flaw(Flaw { at: at as u32, bytes: bytes as u32, records: left });
                    }
                    _ => continue,
                }
            }
            if self.piece.is_none()
                && let Some(seal) = Seal::read(block, self.at, self.seed)
            {
                if let Some((at, bytes)) = self.flaw.take() {
                    return Found::Flaw(Flaw::unsealed(at, bytes));
                }
                self.piece = Some(Piece { used: seal.used as usize, end: seal.end as usize, left: seal.records });
                self.at += SEAL;
                return Found::Seal(seal);
            }
            let (begin, rest) = (self.at, &block[self.at..limit]);
            if let Some(record) = Record::read(rest, seed_at(self.seed, begin)) {
                let len = record.units() as usize * UNIT;
                self.at += len;
                if let Some(piece) = &mut self.piece {
                    piece.left = piece.left.saturating_sub(1);
                }
                return Found::Record(record, begin, len);
            }
            // Whole records follow a damaged one at its end, or at any unit if its length is wrong as well.
            self.flaw.get_or_insert((begin, 0)).1 += UNIT;
            self.at += UNIT;
            let len = rest.first_chunk::<HEADER>().and_then(length).filter(|len| *len <= rest.len());
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
    use crate::record::{MAGIC, seal};
    use crate::seal::Bounds;
    use sys::random::Random;

    /// Two pieces of ten records of 80 bytes, in 2 KiB each; the second reaches the end.
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
                    tombstone: false,
                    set: b"set",
                    key: b"\x03key",
                    body: b"some bins, say",
                };
                let at = at + SEAL + number * 80;
                record.write(&mut block[at..], seed_at(1, at));
            }
            let (end, used) = ((piece as u32 + 1) * 2048, (at + SEAL + 800) as u32);
            Seal { at: at as u32, end, used, records: 10, bounds: Bounds::default() }.write(&mut block, 1);
        }
        block
    }

    /// Versions of the records, the flaws between them, and the end.
    fn walk(block: &[u8]) -> (Vec<u64>, Vec<Flaw>, Option<Flaw>) {
        let (mut walk, mut versions, mut flaws) = (Walk::new(block.len(), 1), Vec::new(), Vec::new());
        loop {
            match walk.next(block) {
                Found::Seal(_) => {}
                Found::Record(record, ..) => versions.push(record.version),
                Found::Flaw(flaw) => flaws.push(flaw),
                Found::End(end) => return (versions, flaws, end),
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_seal_or_record_is_seen_and_costs_what_is_said() {
        let whole = block();
        assert_eq!(walk(&whole), ((0..20).collect(), Vec::new(), None));
        let guarded = |byte: usize| (48..48 + SEAL + 800).contains(&byte) || (2048..2048 + SEAL + 800).contains(&byte);
        for byte in 48..whole.len() {
            let mut block = whole.clone();
            block[byte] ^= 1 << (byte % 8);
            let (versions, flaws, end) = walk(&block);
            let (said, lost) =
                (flaws.iter().chain(&end).map(|flaw| flaw.records as usize).sum::<usize>(), 20 - versions.len());
            assert!(lost <= said && lost <= 1, "byte {byte}: {lost} records are lost, {said} are said to be");
            assert_eq!(!flaws.is_empty() || end.is_some(), guarded(byte), "byte {byte}: {flaws:?} {end:?}");
        }
    }

    #[test]
    fn a_damaged_record_is_one_and_what_another_use_left_is_none() {
        let mut block = block();
        block[2048 + SEAL + 3 * 80 + 60] ^= 1;
        // A length that leads nowhere.
        block[48 + SEAL + 7 * 80 + 9] ^= 4;
        let flaw = |at: usize| Flaw { at: at as u32, bytes: 80, records: 1 };
        let wanted = (0..20).filter(|version| ![7, 13].contains(version)).collect();
        assert_eq!(walk(&block), (wanted, vec![flaw(48 + SEAL + 560), flaw(2048 + SEAL + 240)], None));
        // Without its second piece the block is open.
        block[2048..].fill(0);
        let (versions, flaws, end) = walk(&block);
        assert_eq!((versions.len(), flaws.len(), end), (9, 1, Some(Flaw::unsealed(2048, 2048))));
        assert_eq!(Flaw::unsealed(2048, 2048).records, 30);
    }

    #[test]
    fn bytes_made_to_take_long_do_not() {
        // A header with the length of the rest of the block, at every third unit.
        let mut block = vec![0; 8 << 20];
        for at in (48..block.len() - 48).step_by(48) {
            let units = ((block.len() - at) / UNIT) as u32;
            block[at + 4..at + 6].copy_from_slice(&MAGIC.to_le_bytes());
            block[at + 8..at + 12].copy_from_slice(&(units << 4).to_le_bytes());
        }
        let mut walk = Walk::new(block.len(), 1);
        let bytes = (8 << 20) - 48;
        assert_eq!(walk.next(&block), Found::End(Some(Flaw::unsealed(48, bytes))));
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
            // With right checksums, so that the guarded data is parsed, too.
            let rest = block.get_mut(at..).unwrap_or_default();
            if let Some(len) = rest.first_chunk().and_then(length).filter(|len| *len <= rest.len()) {
                seal(&mut rest[..len], seed_at(1, at));
            }
            if block.len() >= 48 + SEAL && random.below(2) == 0 {
                let [end, used, records] = [(); 3].map(|()| random.below(500) as u32);
                Seal { at: 48, end, used, records, bounds: Bounds::default() }.write(&mut block, 1);
            }
            let _ = walk(&block);
        }
    }
}
