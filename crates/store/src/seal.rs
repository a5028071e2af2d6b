//! Evidence of durable data, so that a cold start can distinguish damage from a write that a crash interrupted.
//!
//! ```text
//! block:  header | piece | piece | ...       piece: the data of one write: seal, records, padding to the sector
//! seal:   checksum u32 | magic u32 | position u32 | length u32 | end of the records u32 | records u32 | bounds
//! bounds: sequence u64 | closed before u64 | certain blocks u32 | 2 times: sequence u64, bytes u32
//!         | 5 times: block u32, ended u64                                                             little-endian
//! ```
//!
//! The pieces of a block follow each other without gap and are written one after the other. A block whose pieces reach
//! its end is complete. Each seal also states which data was durable when the seal was written ([`DurableBounds`]).
//! Such statements stay true, so a cold start joins the statements of all seals and marks. Data that contradicts a
//! statement is damaged.
//!
//! A drive that loses power in the middle of a write may have written any of the write's sectors. In a block that is
//! used again, this destroys records of the former use. Therefore the first write to such a block waits until a durable
//! seal or mark has announced the block: a cold start then ignores the former use.
//!
//! A mark holds the state of a volume at rest, and the losses that were accepted. Marks are written alternately to two
//! slots, which lie in front of the first block. So one mark is always intact.
//!
//! ```text
//! magic u32 | checksum u32 | id of the device u64 | number u64 | bounds
//! | losses: blocks u64 | bytes u64 | records u64 | note: number u64, 32 bytes                         little-endian
//! ```
//!
//! A mark also holds a note of the store's owner. A new note counts as written when both slots have it, so damage to
//! one slot, or to any block, cannot bring back an earlier note.

use crate::Losses;
use crate::record::{checksum, u32_at, u64_at};
use std::collections::BTreeMap;

const MAGIC: u32 = 0xf1a5_5ea1;

pub(crate) const SEAL: usize = 24 + BOUNDS;

/// Bytes of encoded [`DurableBounds`].
pub(crate) const BOUNDS: usize = NEXT_AT + 12 * NEXT;

const OPEN_AT: usize = 2 * 8 + 4;
const NEXT_AT: usize = OPEN_AT + 2 * 12;

/// Number of blocks that a seal announces.
pub(crate) const NEXT: usize = 5;

/// Versions of records, sequence numbers of blocks and numbers of marks on a device are below this number.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// From this number on, writes are refused: a higher number could look like damage to the next cold start.
pub(crate) const NUMBER_LAST: u64 = NUMBER_MAX - (1 << 50);

pub(crate) const NO_BLOCK: u32 = u32::MAX;

/// Blocks that may be overwritten from now on, each with the sequence number up to which its uses have ended.
pub(crate) type Next = [(u32, u64); NEXT];

/// Contents of a volume that are durable at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurableBounds {
    /// Sequence number of the block that was begun last.
    pub(crate) sequence: u64,
    /// All blocks with a lower sequence number are complete, except the open blocks.
    pub(crate) closed_before: u64,
    /// All blocks before this block have a header.
    pub(crate) certain: u32,
    /// Sequence numbers of the open blocks, and their durable bytes.
    pub(crate) open: [(u64, u32); 2],
    pub(crate) next: Next,
}

impl Default for DurableBounds {
    fn default() -> Self {
        Self {
            sequence: 0,
            closed_before: 0,
            certain: 0,
            open: [(0, 0); 2],
            next: [(NO_BLOCK, 0); NEXT],
        }
    }
}

impl DurableBounds {
    pub(crate) fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[8..16].copy_from_slice(&self.closed_before.to_le_bytes());
        out[16..20].copy_from_slice(&self.certain.to_le_bytes());
        for ((sequence, bytes), out) in self.open.iter().zip(out[OPEN_AT..].chunks_exact_mut(12)) {
            out[..8].copy_from_slice(&sequence.to_le_bytes());
            out[8..].copy_from_slice(&bytes.to_le_bytes());
        }
        for ((block, ended_sequence), out) in
            self.next.iter().zip(out[NEXT_AT..].chunks_exact_mut(12))
        {
            out[..4].copy_from_slice(&block.to_le_bytes());
            out[4..].copy_from_slice(&ended_sequence.to_le_bytes());
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..BOUNDS)?;
        let open = |number: usize| OPEN_AT + 12 * number;
        let next = |number: usize| NEXT_AT + 12 * number;
        Some(Self {
            sequence: u64_at(bytes, 0),
            closed_before: u64_at(bytes, 8),
            certain: u32_at(bytes, 16),
            open: std::array::from_fn(|number| {
                (u64_at(bytes, open(number)), u32_at(bytes, open(number) + 8))
            }),
            next: std::array::from_fn(|number| {
                (u32_at(bytes, next(number)), u64_at(bytes, next(number) + 4))
            }),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    /// First byte of the seal, where the piece begins. Exception: the first piece begins with the block's header.
    pub(crate) at: u32,
    /// End of the piece in the block.
    pub(crate) end: u32,
    /// End of the piece's records.
    pub(crate) used: u32,
    pub(crate) records: u32,
    pub(crate) bounds: DurableBounds,
}

impl Seal {
    /// Writes the seal into its block. `seed`: start value of the block's checksums.
    pub(crate) fn write(&self, block: &mut [u8], seed: u32) {
        let out = &mut block[self.at as usize..][..SEAL];
        out[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        for (at, field) in [
            (8, self.at),
            (12, self.end),
            (16, self.used),
            (20, self.records),
        ] {
            out[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        self.bounds.write(&mut out[24..]);
        let sum = checksum(&out[4..], seed);
        out[..4].copy_from_slice(&sum.to_le_bytes());
    }

    pub(crate) fn read(block: &[u8], at: usize, seed: u32) -> Option<Self> {
        let bytes = block.get(at..at + SEAL)?;
        if u32_at(bytes, 4) != MAGIC
            || u32_at(bytes, 8) as usize != at
            || u32_at(bytes, 0) != checksum(&bytes[4..], seed)
        {
            return None;
        }
        let at = u32_at(bytes, 8);
        let end = u32_at(bytes, 12);
        let used = u32_at(bytes, 16);
        let records = u32_at(bytes, 20);
        let is_possible = at + SEAL as u32 <= used && used <= end && end as usize <= block.len();
        is_possible.then_some(Self {
            at,
            end,
            used,
            records,
            bounds: DurableBounds::read(&bytes[24..])?,
        })
    }
}

/// The bounds of all seals and marks of a volume, joined.
#[derive(Debug, Default, Clone)]
pub(crate) struct DurabilityEvidence {
    pub(crate) sequence: u64,
    pub(crate) closed_before: u64,
    pub(crate) certain: u32,
    /// For each sequence number: durable bytes of the block, if no seal or mark calls the block complete.
    open: BTreeMap<u64, u32>,
    /// For each block: sequence number up to which its uses have ended.
    ended: BTreeMap<u32, u64>,
}

impl DurabilityEvidence {
    /// Adds the bounds of a seal in a volume of `blocks` blocks, with numbers below `limit`. Ignores impossible bounds.
    pub(crate) fn add(&mut self, bounds: &DurableBounds, blocks: u32, limit: u64) {
        if bounds.sequence >= limit
            || bounds.closed_before > bounds.sequence + 1
            || bounds.certain > blocks
        {
            return;
        }
        self.sequence = self.sequence.max(bounds.sequence);
        self.certain = self.certain.max(bounds.certain);
        // A block that one seal calls open is complete if another seal covers the block without calling it open.
        let is_open = |sequence: u64| bounds.open.iter().any(|(open, _)| *open == sequence);
        self.open
            .retain(|sequence, _| *sequence >= bounds.closed_before || is_open(*sequence));
        for (sequence, bytes) in bounds.open {
            if sequence == 0 || !self.open.contains_key(&sequence) && sequence < self.closed_before
            {
                continue;
            }
            let known = self.open.entry(sequence).or_default();
            *known = bytes.max(*known);
        }
        self.closed_before = self.closed_before.max(bounds.closed_before);
        for (block, ended) in bounds
            .next
            .into_iter()
            .filter(|(block, ended)| *block < blocks && *ended <= bounds.sequence)
        {
            let known = self.ended.entry(block).or_default();
            *known = ended.max(*known);
        }
    }

    pub(crate) fn durable_bytes(&self, sequence: u64, block_bytes: u32) -> u32 {
        let is_complete = sequence < self.closed_before;
        self.open
            .get(&sequence)
            .copied()
            .unwrap_or(if is_complete { block_bytes } else { 0 })
    }

    /// True if the use of `block` with this sequence number had ended: its data was not needed any more.
    pub(crate) fn has_ended(&self, block: u32, sequence: u64) -> bool {
        self.ended
            .get(&block)
            .is_some_and(|ended| sequence <= *ended)
    }
}

const MARK_MAGIC: u32 = 0xf1a5_3a2c;
const LOSSES_AT: usize = 24 + BOUNDS;
const NOTE_AT: usize = LOSSES_AT + 24;
const MARK_BYTES: usize = NOTE_AT + 8 + NOTE_BYTES;

pub(crate) const NOTE_BYTES: usize = 32;

/// A note of the store's owner, which marks hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Increases with each note of the store; 0: there is no note.
    pub(crate) number: u64,
    pub(crate) text: [u8; NOTE_BYTES],
}

/// Distance between the starts of a space's two marks, bytes.
pub(crate) const SLOT_BYTES: u64 = 4096;

pub(crate) const SLOTS: usize = 2;

/// Bytes of a space's two marks.
pub const MARKS_BYTES: u64 = SLOTS as u64 * SLOT_BYTES;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VolumeMark {
    /// Increases with each mark of the space.
    pub(crate) number: u64,
    pub(crate) bounds: DurableBounds,
    /// All losses that were accepted since the device was formatted.
    pub(crate) losses: Losses,
    pub(crate) note: Note,
}

impl VolumeMark {
    /// Offset of the mark's slot from the start of the first slot.
    pub(crate) fn slot(&self) -> u64 {
        self.number % SLOTS as u64 * SLOT_BYTES
    }

    pub(crate) fn write(&self, out: &mut [u8], id: u64) {
        out.fill(0);
        out[..4].copy_from_slice(&MARK_MAGIC.to_le_bytes());
        let Losses {
            blocks,
            bytes,
            records,
        } = self.losses;
        for (at, number) in [
            (8, id),
            (16, self.number),
            (NOTE_AT, self.note.number),
            (LOSSES_AT, blocks),
            (LOSSES_AT + 8, bytes),
            (LOSSES_AT + 16, records),
        ] {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[NOTE_AT + 8..MARK_BYTES].copy_from_slice(&self.note.text);
        self.bounds.write(&mut out[24..]);
        let sum = crc32fast::hash(&out[8..MARK_BYTES]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The mark in a slot; `None` if the slot is empty. Errors: the mark is damaged.
    fn read(slot: &[u8], id: u64) -> Result<Option<Self>, ()> {
        let Some(bytes) = slot.get(..MARK_BYTES) else {
            return Err(());
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if u32_at(bytes, 0) != MARK_MAGIC
            || u32_at(bytes, 4) != crc32fast::hash(&bytes[8..])
            || u64_at(bytes, 8) != id
        {
            return Err(());
        }
        let blocks = u64_at(bytes, LOSSES_AT);
        let bytes_lost = u64_at(bytes, LOSSES_AT + 8);
        let records = u64_at(bytes, LOSSES_AT + 16);
        let bounds = DurableBounds::read(&bytes[24..])
            .filter(|_| u64_at(bytes, 16) < NUMBER_MAX)
            .ok_or(())?;
        let losses = Losses {
            blocks,
            bytes: bytes_lost,
            records,
        };
        let text = bytes[NOTE_AT + 8..].try_into().map_err(|_| ())?;
        Ok(Some(Self {
            number: u64_at(bytes, 16),
            bounds,
            losses,
            note: Note {
                number: u64_at(bytes, NOTE_AT),
                text,
            },
        }))
    }

    /// The valid marks of both slots, older first, and the number of missing or damaged marks: 0 for two empty slots,
    /// which were never written.
    pub(crate) fn read_both(bytes: &[u8], id: u64) -> (Vec<Self>, usize) {
        let slots: Vec<_> = bytes
            .chunks(SLOT_BYTES as usize)
            .map(|slot| Self::read(slot, id))
            .collect();
        let damaged = slots.iter().filter(|slot| slot.is_err()).count();
        let mut marks: Vec<_> = slots
            .into_iter()
            .filter_map(|slot| slot.unwrap_or_default())
            .collect();
        marks.sort_unstable_by_key(|mark| mark.number);
        // The second mark is written right after the first, so a single mark means that the other mark is lost.
        let is_one_missing = damaged == 0 && marks.len() == 1;
        (marks, damaged + usize::from(is_one_missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::modified;

    const BOUNDS_OF: DurableBounds = DurableBounds {
        sequence: 9,
        closed_before: 7,
        certain: 5,
        open: [(7, 512), (9, 2048)],
        next: [(1, 8), (2, 8), (3, 8), (4, 8), (0, 8)],
    };

    #[test]
    fn a_seal_is_valid_only_in_its_place_and_every_flipped_bit_is_found() {
        let mut block = vec![0; 4096];
        let seal = Seal {
            at: 512,
            end: 1536,
            used: 1000,
            records: 3,
            bounds: BOUNDS_OF,
        };
        seal.write(&mut block, 5);
        assert_eq!(Seal::read(&block, 512, 5), Some(seal));
        let found = Seal::read(&block, 512, 6);
        assert_eq!(found, None, "of another use of the block");
        block.copy_within(512..512 + SEAL, 1024);
        assert_eq!(Seal::read(&block, 1024, 5), None, "of another place");
        for bit in 512 * 8..(512 + SEAL) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Seal::read(&block, 512, 5), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        let found = Seal::read(&block, 4096 - SEAL + 16, 5);
        assert_eq!(found, None, "past the end");
    }

    #[test]
    fn a_block_is_complete_if_any_durable_bounds_cover_it_and_do_not_list_it_as_open() {
        let of = |closed_before, open| DurableBounds {
            sequence: 9,
            closed_before,
            open,
            ..DurableBounds::default()
        };
        // Block 5 stays open for long; block 7 is begun, filled and completed; block 9 is begun.
        let in_time = [
            of(8, [(5, 512), (7, 0)]),
            of(8, [(5, 512), (7, 1024)]),
            of(7, [(5, 512), (9, 0)]),
            of(9, [(5, 1024), (9, 0)]),
        ];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let mut evidence = DurabilityEvidence::default();
            order
                .iter()
                .for_each(|at| evidence.add(&in_time[*at], 8, 100));
            let durable = [4, 5, 6, 7, 8, 9].map(|sequence| evidence.durable_bytes(sequence, 4096));
            assert_eq!(durable, [4096, 1024, 4096, 4096, 4096, 0], "{order:?}");
        }
        let mut evidence = DurabilityEvidence::default();
        in_time[..2]
            .iter()
            .for_each(|bounds| evidence.add(bounds, 8, 100));
        assert_eq!(
            [7, 8].map(|sequence| evidence.durable_bytes(sequence, 4096)),
            [1024, 0]
        );
    }

    #[test]
    fn older_bounds_do_not_weaken_the_evidence_and_impossible_bounds_are_ignored() {
        let mut evidence = DurabilityEvidence::default();
        evidence.add(&BOUNDS_OF, 8, 100);
        let older = DurableBounds {
            sequence: 3,
            closed_before: 2,
            certain: 2,
            open: [(3, 9), (0, 0)],
            next: [(5, 3); NEXT],
        };
        evidence.add(&older, 8, 100);
        assert_eq!(evidence.sequence, 9);
        assert_eq!(evidence.closed_before, 7);
        assert_eq!(evidence.certain, 5);
        let durable = |sequence| evidence.durable_bytes(sequence, 4096);
        assert_eq!(
            [durable(6), durable(7), durable(8), durable(9)],
            [4096, 512, 0, 2048]
        );
        assert!(
            evidence.has_ended(1, 8) && !evidence.has_ended(1, 9),
            "block 1 may be in use again"
        );
        assert!(evidence.has_ended(5, 3) && !evidence.has_ended(5, 4));
        // Bounds with impossible numbers are ignored.
        evidence.add(&modified(BOUNDS_OF, |it| it.sequence = 100), 8, 100);
        evidence.add(&modified(BOUNDS_OF, |it| it.closed_before = 90), 8, 100);
        evidence.add(&modified(BOUNDS_OF, |it| it.certain = 9), 8, 100);
        evidence.add(&modified(BOUNDS_OF, |it| it.next = [(6, 10); NEXT]), 8, 100);
        assert!(
            !evidence.has_ended(6, 1),
            "a use that was not begun cannot have ended"
        );
        assert_eq!(evidence.sequence, 9);
        assert_eq!(evidence.closed_before, 7);
        assert_eq!(evidence.certain, 5);
    }
}

#[cfg(test)]
mod mark_tests {
    use super::*;
    use results::testing::modified;

    #[test]
    fn marks_are_read_as_they_were_written_and_every_flipped_bit_is_found() {
        let mut bytes = vec![0; MARKS_BYTES as usize];
        assert_eq!(VolumeMark::read_both(&bytes, 9), (Vec::new(), 0));
        let losses = Losses {
            blocks: 1,
            bytes: 1 << 40,
            records: 3,
        };
        let bounds = modified(DurableBounds::default(), |it| it.sequence = 4);
        let note = Note {
            number: 2,
            text: [6; NOTE_BYTES],
        };
        let marks = [7, 8].map(|number| VolumeMark {
            number,
            bounds,
            losses,
            note,
        });
        for mark in marks {
            mark.write(&mut bytes[mark.slot() as usize..][..512], 9);
        }
        assert_eq!(VolumeMark::read_both(&bytes, 9), (marks.to_vec(), 0));
        for bit in 0..MARK_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = VolumeMark::read_both(&bytes, 9);
            assert_eq!(found, (vec![marks[0]], 1), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let found = VolumeMark::read_both(&bytes, 10);
        assert_eq!(found, (Vec::new(), 2), "another device's");
        bytes[..512].fill(0);
        let found = VolumeMark::read_both(&bytes, 9);
        assert_eq!(found, (vec![marks[0]], 1), "there was one");
    }
}
