//! A mark: the state of a volume at rest, and the losses that were accepted. Two sectors before the blocks hold it in turns, so
//! that one is always whole.
//!
//! ```text
//! magic u32 | checksum u32 | id of the device u64 | number u64 | bounds | losses: blocks u64 | bytes u64 | records u64    little-endian
//! ```

use crate::Losses;
use crate::little_endian::{u32_at, u64_at};
use crate::seal::{BOUNDS, Bounds, NUMBER_MAX};

const MAGIC: u32 = 0xf1a5_3a2c;
const LOSSES_AT: usize = 24 + BOUNDS;
const BYTES: usize = LOSSES_AT + 24;

/// Bytes from one mark of a space to the other.
pub(crate) const SLOT_BYTES: u64 = 4096;

/// Bytes of a space's marks.
pub const MARKS_BYTES: u64 = 2 * SLOT_BYTES;

/// Contents of a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Grows with each mark of the space.
    pub(crate) number: u64,
    pub(crate) bounds: Bounds,
    /// All that were accepted since the device was formatted.
    pub(crate) losses: Losses,
}

impl Mark {
    /// Offset of its slot from the begin of the marks.
    pub(crate) fn slot(&self) -> u64 {
        self.number % 2 * SLOT_BYTES
    }

    /// Writes it at the begin of `out`. `id`: of the device.
    pub(crate) fn write(&self, out: &mut [u8], id: u64) {
        out.fill(0);
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let mut put = |at: usize, number: u64| out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let Losses { blocks, bytes, records } = self.losses;
        [(8, id), (16, self.number)].into_iter().for_each(|(at, number)| put(at, number));
        (LOSSES_AT..).step_by(8).zip([blocks, bytes, records]).for_each(|(at, number)| put(at, number));
        self.bounds.write(&mut out[24..]);
        let sum = crc32fast::hash(&out[8..BYTES]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The mark in a slot. Errors: a damaged one.
    fn read(slot: &[u8], id: u64) -> Result<Option<Self>, ()> {
        let Some(bytes) = slot.get(..BYTES) else { return Err(()) };
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if u32_at(bytes, 0) != MAGIC || u32_at(bytes, 4) != crc32fast::hash(&bytes[8..]) || u64_at(bytes, 8) != id {
            return Err(());
        }
        let [blocks, bytes_lost, records] = [0, 8, 16].map(|at| u64_at(bytes, LOSSES_AT + at));
        let bounds = Bounds::read(&bytes[24..]).filter(|_| u64_at(bytes, 16) < NUMBER_MAX).ok_or(())?;
        Ok(Some(Self { number: u64_at(bytes, 16), bounds, losses: Losses { blocks, bytes: bytes_lost, records } }))
    }

    /// The marks in both slots, older first, and how many are missing or damaged. Without any, both may be still to come.
    pub(crate) fn read_both(bytes: &[u8], id: u64) -> (Vec<Self>, usize) {
        let slots: Vec<_> = bytes.chunks(SLOT_BYTES as usize).map(|slot| Self::read(slot, id)).collect();
        let damaged = slots.iter().filter(|slot| slot.is_err()).count();
        let mut marks: Vec<_> = slots.into_iter().filter_map(|slot| slot.unwrap_or_default()).collect();
        marks.sort_unstable_by_key(|mark| mark.number);
        // The second follows the first at once.
        let is_one_missing = damaged == 0 && marks.len() == 1;
        (marks, damaged + usize::from(is_one_missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written_and_every_flipped_bit_is_seen() {
        let mut bytes = vec![0; MARKS_BYTES as usize];
        assert_eq!(Mark::read_both(&bytes, 9), (Vec::new(), 0));
        let losses = Losses { blocks: 1, bytes: 1 << 40, records: 3 };
        let marks = [7, 8].map(|number| Mark { number, bounds: Bounds { sequence: 4, ..Bounds::default() }, losses });
        for mark in marks {
            mark.write(&mut bytes[mark.slot() as usize..][..512], 9);
        }
        assert_eq!(Mark::read_both(&bytes, 9), (marks.to_vec(), 0));
        for bit in 0..BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::read_both(&bytes, 9), (vec![marks[0]], 1), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Mark::read_both(&bytes, 10), (Vec::new(), 2), "another device's");
        bytes[..512].fill(0);
        assert_eq!(Mark::read_both(&bytes, 9), (vec![marks[0]], 1), "there was one");
    }
}
