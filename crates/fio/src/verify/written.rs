//! The last write to each block of a stream, in 8 bytes of memory per block.

use std::ops::Range;

/// The block was written, and has not been read back since.
const DUE: u64 = 1 << 63;
/// The block is being read back.
const READING: u64 = 1 << 62;
/// The contents are unknown: two operations wrote the block at once, or a write to the block failed.
const UNKNOWN: u64 = 1 << 61;
/// Bits 54 to 60 count the writes in flight to the block: the value of one write, and the mask.
const IN_FLIGHT_1: u64 = 1 << 54;
const IN_FLIGHT: u64 = 0x7f << 54;
/// A read that began before the last write is still in flight: it may return older data.
const OUTDATED: u64 = 1 << 53;
/// Mask of the number of the last write.
const WRITE: u64 = OUTDATED - 1;

/// The last write to each block of some areas, and whether it was read back.
#[derive(Debug)]
pub(super) struct WriteTable {
    /// Bytes of a block. The size of every write is a multiple of this size.
    pub(super) grain: u64,
    /// An entry per block, by area.
    areas: Vec<Vec<u64>>,
    pub(super) due_blocks: u64,
    pub(super) unknown_blocks: u64,
    /// Area and block at which the search for the next read-back continues, in the current pass over all blocks.
    cursor: (usize, usize),
}

impl WriteTable {
    pub(super) fn new(grain: u64, area_bytes: impl Iterator<Item = u64>) -> Self {
        let areas = area_bytes
            .map(|bytes| vec![0; (bytes / grain) as usize])
            .collect();
        Self {
            grain,
            areas,
            due_blocks: 0,
            unknown_blocks: 0,
            cursor: (0, 0),
        }
    }

    pub(super) fn blocks(&self, at: u64, len: usize) -> Range<usize> {
        let first = (at / self.grain) as usize;
        first..first + len / self.grain as usize
    }

    pub(super) fn begin(&mut self, area: usize, blocks: Range<usize>, write: u64) {
        for entry in &mut self.areas[area][blocks] {
            self.due_blocks -= u64::from(*entry & DUE != 0);
            let others = *entry & IN_FLIGHT;
            self.unknown_blocks -= u64::from(others == 0 && *entry & UNKNOWN != 0);
            let unknown = if others > 0 { UNKNOWN } else { 0 };
            let outdated = if *entry & (READING | OUTDATED) != 0 {
                OUTDATED
            } else {
                0
            };
            *entry = write & WRITE | outdated | unknown | (others + IN_FLIGHT_1).min(IN_FLIGHT);
        }
    }

    /// Ends a write. After a failed write the contents of its blocks are unknown.
    pub(super) fn end(&mut self, area: usize, blocks: Range<usize>, is_done: bool) {
        for entry in &mut self.areas[area][blocks] {
            if !is_done {
                *entry |= UNKNOWN;
            }
            // A saturated counter no longer counts down: the block stays in flight.
            if *entry & IN_FLIGHT < IN_FLIGHT {
                *entry -= IN_FLIGHT_1;
            }
            if *entry & IN_FLIGHT == 0 {
                let is_unknown = *entry & UNKNOWN != 0;
                self.unknown_blocks += u64::from(is_unknown);
                self.due_blocks += u64::from(!is_unknown);
                *entry = if is_unknown {
                    UNKNOWN | *entry & OUTDATED
                } else {
                    *entry | DUE
                };
            }
        }
    }

    pub(super) fn forget(&mut self, area: usize, blocks: Range<usize>) {
        for entry in &mut self.areas[area][blocks] {
            self.due_blocks -= u64::from(*entry & DUE != 0);
            let outdated = if *entry & READING != 0 { OUTDATED } else { 0 };
            // A write in flight may reach the device before or after the trim.
            let unknown = if *entry & IN_FLIGHT != 0 { UNKNOWN } else { 0 };
            *entry = *entry & !(DUE | READING) | outdated | unknown;
        }
    }

    /// Begins to read back `block`, if due, and the next blocks of its write: `max_blocks` at most. Returns the count.
    pub(super) fn read(&mut self, area: usize, block: usize, max_blocks: usize) -> usize {
        let entries = &mut self.areas[area][block..];
        let first_entry = entries.first().map_or(0, |entry| *entry);
        let count = entries
            .iter()
            .take(max_blocks)
            .take_while(|entry| {
                let is_due = **entry & (DUE | READING | OUTDATED) == DUE;
                is_due && **entry & WRITE == first_entry & WRITE
            })
            .count();
        entries[..count]
            .iter_mut()
            .for_each(|entry| *entry |= READING);
        count
    }

    /// The write whose block was read back; `None`: the block was not being read back, or was written meanwhile.
    pub(super) fn was_read(&mut self, area: usize, block: usize) -> Option<u64> {
        let entry = &mut self.areas[area][block];
        if *entry & OUTDATED != 0 {
            *entry &= !OUTDATED;
            return None;
        }
        if *entry & READING == 0 {
            return None;
        }
        self.due_blocks -= u64::from(*entry & DUE != 0);
        *entry &= !(READING | DUE);
        Some(*entry & WRITE)
    }

    pub(super) fn not_read(&mut self, area: usize, blocks: Range<usize>) {
        self.areas[area][blocks]
            .iter_mut()
            .for_each(|entry| *entry &= !(READING | OUTDATED));
    }

    /// The next blocks to read back in the current pass, at most `max_blocks`: area, first block, number of blocks.
    pub(super) fn next(&mut self, max_blocks: usize) -> Option<(usize, usize, usize)> {
        loop {
            let (area, block) = self.cursor;
            let rest = self.areas.get(area)?.get(block..).unwrap_or_default();
            match rest
                .iter()
                .position(|entry| *entry & (DUE | READING | OUTDATED) == DUE)
            {
                None => self.cursor = (area + 1, 0),
                Some(skipped) => {
                    let first_block = block + skipped;
                    let count = self.read(area, first_block, max_blocks);
                    self.cursor = (area, first_block + count);
                    return Some((area, first_block, count));
                }
            }
        }
    }

    pub(super) fn rewind(&mut self) {
        self.cursor = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> WriteTable {
        WriteTable::new(4096, [40_960, 8192].into_iter())
    }

    #[test]
    fn each_block_is_read_back_once_together_with_other_blocks_of_the_same_write() {
        let mut written = written();
        for (area, blocks, write) in [(0, 2..5, 7), (0, 5..6, 8), (1, 1..2, 9)] {
            written.begin(area, blocks.clone(), write);
            written.end(area, blocks, true);
        }
        assert_eq!(written.due_blocks, 5);
        assert_eq!(written.next(2), Some((0, 2, 2)));
        assert_eq!(written.next(2), Some((0, 4, 1)), "the rest of the write");
        assert_eq!(written.was_read(0, 3), Some(7));
        assert_eq!((written.was_read(0, 3), written.due_blocks), (None, 4));
        assert_eq!(written.next(9), Some((0, 5, 1)));
        assert_eq!(written.next(9), Some((1, 1, 1)));
        assert_eq!(written.next(9), None);
        written.not_read(1, 1..2);
        written.rewind();
        assert_eq!(written.next(9), Some((1, 1, 1)));
        assert_eq!(written.due_blocks, 4, "others are being read");
    }

    #[test]
    fn blocks_with_concurrent_or_failed_writes_are_unknown_until_written_again() {
        let mut written = written();
        written.begin(0, 0..2, 1);
        written.begin(0, 1..3, 2);
        written.end(0, 0..2, true);
        written.end(0, 1..3, true);
        assert_eq!((written.due_blocks, written.unknown_blocks), (2, 1));
        written.begin(0, 1..2, 3);
        written.end(0, 1..2, true);
        assert_eq!(written.next(9), Some((0, 0, 1)));
        // The block is written while it is read back.
        written.begin(0, 0..1, 4);
        assert_eq!(written.was_read(0, 0), None);
        written.end(0, 0..1, false);
        assert_eq!((written.due_blocks, written.unknown_blocks), (2, 1));
        // Blocks are trimmed, one of them while it is read back.
        written.begin(0, 7..9, 6);
        written.end(0, 7..9, true);
        assert_eq!(written.read(0, 7, 1), 1);
        written.forget(0, 7..9);
        assert_eq!(written.was_read(0, 7), None);
        assert_eq!(written.read(0, 8, 1), 0);
        assert_eq!(written.due_blocks, 2);
        // The block is written again, and is due again, before a slow read returns older data.
        written.begin(0, 9..10, 7);
        written.end(0, 9..10, true);
        assert_eq!(written.read(0, 9, 1), 1);
        written.begin(0, 9..10, 8);
        written.end(0, 9..10, true);
        assert_eq!((written.read(0, 9, 1), written.was_read(0, 9)), (0, None));
        assert_eq!(written.read(0, 9, 1), 1);
        assert_eq!(written.was_read(0, 9), Some(8));
        // The block is trimmed while it is written.
        written.begin(0, 9..10, 9);
        written.forget(0, 9..10);
        written.end(0, 9..10, true);
        assert_eq!((written.read(0, 9, 1), written.unknown_blocks), (0, 2));
        written.begin(0, 9..10, 10);
        written.forget(0, 9..10);
        written.end(0, 9..10, false);
        // More writes are in flight than the counter can count.
        (0..200).for_each(|write| written.begin(0, 5..6, write));
        (0..200).for_each(|_| written.end(0, 5..6, true));
        written.rewind();
        assert_eq!(written.next(9), Some((0, 1, 1)));
        assert_eq!(written.next(9), Some((0, 2, 1)));
        assert_eq!(written.next(9), None);
    }
}
