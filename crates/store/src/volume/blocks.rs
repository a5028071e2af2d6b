//! States and live units of write blocks, and the choice of the next block.
//!
//! ```text
//! pristine, free -> open -> used -> (live below the low-water mark) queued -> collecting -> freed -> free
//!                             \-> (nothing live) -----------------------------------------> freed
//! incomplete or damaged at the cold start: like used, then freed -> renewing (gets an empty header) -> free
//! ```
//!
//! A freed block is not free yet. The block may be overwritten only when all records that replaced its records are on
//! the device; otherwise a crash would lose both the new records and the old ones. Appended records are numbered. For a
//! freed block, the last number is noted: the block becomes free when all records up to that number are durable. So the
//! last durable version of a record stays on the device until a newer version is durable. A cold start therefore never
//! takes an older version for the newest, and need not distinguish free blocks from used ones.

use crate::seal::{DurableBounds, NEXT, NO_BLOCK, Next};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const NO_BUFFER: u32 = u32::MAX;

/// Sequence number of a block that has no data for a cold start.
const NOTHING: u64 = u64::MAX;

/// Maximum number of free blocks that get an empty header at once.
const EMPTIED: usize = 16;
/// Minimum number of free blocks that are kept for writes while other free blocks get an empty header.
const LEFT: usize = 4;

/// Number of blocks that a search for the emptiest block examines when few blocks are free.
const LOOKED_AT: usize = 10_000;

/// Number of blocks that each allocation examines, to find the oldest block.
const SWEPT: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    Pristine,
    Free,
    Open,
    Used,
    Queued,
    Collecting,
    /// Collected, but some records could not be moved; or the header is damaged.
    Stuck,
    /// Could not be read at the cold start, or cannot be overwritten.
    Bad,
    /// Gets an empty header before it is free.
    Renewing,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Sequence number of the header on the device. Changes when the write of a new header is complete.
    pub(crate) sequence: u64,
    /// Start value of the checksums of the block's records.
    pub(crate) seed: u32,
    /// Units of live records.
    pub(crate) live: u32,
    /// Number of the block's buffer, if the block is in memory.
    pub(crate) buffer: u32,
    pub(crate) state: BlockState,
    /// True if the block has to get an empty header before reuse.
    pub(crate) must_renew: bool,
    /// True if the block has an empty header, or none: no versions of records are in it.
    pub(crate) is_empty: bool,
}

#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    blocks: Vec<Block>,
    free: VecDeque<u32>,
    /// Freed blocks, each with the number of the last record that must be durable before the block is free.
    freed: VecDeque<(u64, u32)>,
    /// Number of blocks that were ever used. Blocks are first used in the order of their numbers.
    pub(crate) used: u32,
    pub(crate) queue: VecDeque<u32>,
    collecting: Option<u32>,
    /// Blocks that wait for an empty header. True: the whole block has to be overwritten.
    pub(crate) renewable: VecDeque<(u32, bool)>,
    /// Number of blocks that get an empty header now or wait for an empty header.
    renewing: usize,
    /// Number of free blocks that still have to be checked for old versions.
    to_empty: usize,
    /// Blocks that have no header on the device, except the pristine blocks.
    headerless: BTreeSet<u32>,
    /// Reused blocks whose first write is not complete, each with its new sequence number, in that order.
    unwritten: VecDeque<(u32, u64)>,
    /// For each block: sequence number up to which its uses have ended, according to a durable seal or mark.
    announced: BTreeMap<u32, u64>,
    /// Blocks with fewer live units are collected.
    low_water: u32,
    /// Units of live records.
    pub(crate) live: u64,
    /// Number of the record that was appended last.
    pub(crate) appended: u64,
    /// Counts of blocks since the start, see [`crate::DeviceStatistics`].
    pub(crate) defrag_reads: u64,
    pub(crate) defrag_io_skips: u64,
    pub(crate) direct_frees: u64,
    /// Where the search for the emptiest block continues.
    next_candidate: usize,
    sweep_position: usize,
    sweep_min: u64,
    /// No block on the device that a cold start would read has a sequence number below this number.
    pub(crate) oldest_sequence: u64,
}

impl BlockTable {
    pub(crate) fn new(count: usize, low_water: u32) -> Self {
        let block = Block {
            sequence: NOTHING,
            seed: 0,
            live: 0,
            buffer: NO_BUFFER,
            state: BlockState::Pristine,
            must_renew: false,
            is_empty: true,
        };
        Self {
            blocks: vec![block; count],
            low_water,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn get(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    pub(crate) fn get_mut(&mut self, block: u32) -> &mut Block {
        &mut self.blocks[block as usize]
    }

    pub(crate) fn pristine(&self) -> usize {
        self.blocks.len() - self.used as usize
    }

    /// True if a block could not be read at the cold start, or cannot be overwritten.
    pub(crate) fn has_bad(&self) -> bool {
        self.blocks
            .iter()
            .any(|block| block.state == BlockState::Bad)
    }

    /// Blocks that can be allocated now.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.pristine()
    }

    /// Available blocks, and blocks that become available once buffers or empty headers are written.
    pub(crate) fn free(&self) -> usize {
        self.available() + self.freed.len() + self.renewing
    }

    /// True if a block is being collected or waits for collection.
    pub(crate) fn is_collecting(&self) -> bool {
        !self.queue.is_empty() || self.collecting.is_some()
    }

    /// Takes the block that has been free longest, else the first pristine block. Its header gets this sequence number.
    pub(crate) fn allocate(&mut self, sequence: u64) -> Option<u32> {
        let block = match self.free.pop_front() {
            Some(block) => {
                if self.get(block).sequence != NOTHING {
                    self.unwritten.push_back((block, sequence));
                }
                block
            }
            None => {
                let next = self.used;
                ((next as usize) < self.blocks.len()).then(|| self.used += 1)?;
                self.headerless.insert(next);
                next
            }
        };
        self.look_for_oldest(sequence);
        let entry = self.get_mut(block);
        (entry.state, entry.sequence, entry.is_empty) =
            (BlockState::Open, entry.sequence.min(sequence), false);
        Some(block)
    }

    /// All blocks before the returned block have a header on the device.
    pub(crate) fn certain(&self) -> u32 {
        self.headerless.first().copied().unwrap_or(self.used)
    }

    /// The blocks that are overwritten next. `sequence`: sequence number of the block that was begun last.
    pub(crate) fn next(&self, sequence: u64) -> Next {
        let unwritten = self
            .unwritten
            .iter()
            .map(|(block, sequence)| (*block, sequence - 1));
        let mut next = [(NO_BLOCK, 0); NEXT];
        next.iter_mut()
            .zip(unwritten.chain(self.free.iter().map(|block| (*block, sequence))))
            .for_each(|(slot, ended)| *slot = ended);
        next
    }

    pub(crate) fn announce(&mut self, bounds: &DurableBounds) {
        for (block, ended) in bounds
            .next
            .into_iter()
            .filter(|(block, _)| (*block as usize) < self.blocks.len())
        {
            let known = self.announced.entry(block).or_default();
            *known = ended.max(*known);
        }
    }

    /// True if a torn write to the block can be distinguished from damage: the block has no former use, or its former
    /// use has certainly ended.
    pub(crate) fn may_be_torn(&self, block: u32) -> bool {
        let is_used = self
            .unwritten
            .iter()
            .any(|(unwritten, _)| *unwritten == block);
        !is_used
            || self
                .announced
                .get(&block)
                .is_some_and(|ended| self.get(block).sequence <= *ended)
    }

    /// Notes that the header with this sequence number is on the device.
    pub(crate) fn written(&mut self, block: u32, sequence: u64) {
        self.get_mut(block).sequence = sequence;
        self.headerless.remove(&block);
        self.unwritten.retain(|(unwritten, _)| *unwritten != block);
        self.announced.remove(&block);
    }

    /// Continues the search for the oldest block. Sequence numbers only grow, so the minimum of a pass over all blocks
    /// is a lower bound.
    fn look_for_oldest(&mut self, sequence: u64) {
        let count = self.blocks.len();
        for _ in 0..SWEPT.min(count) {
            if self.sweep_position == 0 {
                self.sweep_min = sequence;
            }
            self.sweep_min = self
                .sweep_min
                .min(self.blocks[self.sweep_position].sequence);
            self.sweep_position += 1;
            if self.sweep_position == count {
                (self.oldest_sequence, self.sweep_position) = (self.sweep_min, 0);
            }
        }
    }

    pub(crate) fn add(&mut self, block: u32, units: u32) {
        self.get_mut(block).live += units;
        self.live += u64::from(units);
    }

    pub(crate) fn remove(&mut self, block: u32, units: u32) {
        let entry = self.get_mut(block);
        entry.live -= units;
        self.live -= u64::from(units);
        self.look_at(block);
    }

    /// Closes an open block that is completely written.
    pub(crate) fn close(&mut self, block: u32) {
        self.get_mut(block).state = BlockState::Used;
        self.look_at(block);
    }

    fn look_at(&mut self, block: u32) {
        let Block { live, state, .. } = *self.get(block);
        match state {
            BlockState::Used if live == 0 => {
                self.direct_frees += 1;
                self.release(block);
            }
            BlockState::Used if live < self.low_water => self.enqueue(block),
            BlockState::Stuck if live == 0 => self.release(block),
            _ => {}
        }
    }

    fn enqueue(&mut self, block: u32) {
        self.defrag_reads += 1;
        self.get_mut(block).state = BlockState::Queued;
        self.queue.push_back(block);
    }

    fn release(&mut self, block: u32) {
        self.get_mut(block).state = BlockState::Free;
        self.freed.push_back((self.appended, block));
    }

    /// Makes blocks free that waited until all records up to number `durable` are on the device.
    pub(crate) fn settle(&mut self, durable: u64) {
        while let Some((_, block)) = self
            .freed
            .front()
            .copied()
            .filter(|(appended, _)| *appended <= durable)
        {
            self.freed.pop_front();
            if self.get(block).must_renew {
                self.set_renewing(block, false);
            } else {
                self.free.push_back(block);
            }
        }
    }

    /// Frees a block whose empty header is written.
    pub(crate) fn renewed(&mut self, block: u32) {
        let entry = self.get_mut(block);
        (entry.state, entry.must_renew, entry.is_empty) = (BlockState::Free, false, true);
        self.renewing -= 1;
        self.free.push_back(block);
    }

    pub(crate) fn begin_to_empty(&mut self) {
        self.to_empty = self.free.len();
    }

    /// Starts to give an empty header to some free blocks with old versions of records. Returns true if all blocks that
    /// were free at the start have an empty header, or if too few blocks are free to continue.
    pub(crate) fn empty_some(&mut self) -> bool {
        let may_begin = self
            .available()
            .saturating_sub(LEFT)
            .min(EMPTIED)
            .saturating_sub(self.renewing);
        let mut remaining = may_begin;
        while remaining > 0
            && self.to_empty > 0
            && let Some(block) = self.free.pop_front()
        {
            self.to_empty -= 1;
            if self.get(block).is_empty {
                self.free.push_back(block);
            } else {
                remaining -= 1;
                self.set_renewing(block, false);
            }
        }
        self.renewing == 0 && (self.to_empty == 0 || may_begin == 0 || self.free.is_empty())
    }

    fn set_renewing(&mut self, block: u32, is_whole: bool) {
        self.get_mut(block).state = BlockState::Renewing;
        self.renewing += 1;
        self.renewable.push_back((block, is_whole));
    }

    /// Queues a used block to be collected, whatever its share of live records. Returns false if the block is not used.
    pub(crate) fn queue_used(&mut self, block: u32) -> bool {
        let is_used = self.get(block).state == BlockState::Used;
        if is_used {
            self.enqueue(block);
        }
        is_used
    }

    /// Examines the next [`LOOKED_AT`] blocks, and queues the used block with the fewest live units, if these are fewer
    /// than `units`. Returns true if a block was queued.
    pub(crate) fn queue_emptiest(&mut self, units: u32) -> bool {
        let count = self.used as usize;
        let candidates = LOOKED_AT.min(count);
        let next =
            (self.next_candidate..self.next_candidate + candidates).map(|block| block % count);
        let emptiest = next
            .filter(|block| {
                self.blocks[*block].state == BlockState::Used && self.blocks[*block].live < units
            })
            .min_by_key(|block| self.blocks[*block].live);
        self.next_candidate = (self.next_candidate + candidates) % count.max(1);
        if let Some(block) = emptiest {
            self.enqueue(block as u32);
        }
        emptiest.is_some()
    }

    /// Gives up a block that cannot be overwritten. The block is never used again.
    pub(crate) fn give_up(&mut self, block: u32) {
        self.bad(block);
        self.renewing -= 1;
        self.headerless.remove(&block);
    }

    /// The next block to collect. Blocks without live records are freed without being collected.
    pub(crate) fn next_to_collect(&mut self) -> Option<u32> {
        while let Some(block) = self.queue.pop_front() {
            if self.get(block).live > 0 {
                self.get_mut(block).state = BlockState::Collecting;
                self.collecting = Some(block);
                return Some(block);
            }
            self.defrag_io_skips += 1;
            self.release(block);
        }
        None
    }

    /// Ends the collection of a block: no record in it is live, or some records could not be moved.
    pub(crate) fn collected(&mut self, block: u32) {
        self.collecting = None;
        self.get_mut(block).state = BlockState::Stuck;
        self.look_at(block);
    }

    pub(crate) fn put_back(&mut self, block: u32) {
        self.collecting = None;
        self.get_mut(block).state = BlockState::Queued;
        self.queue.push_front(block);
    }

    /// Sets the state of a block with a valid header, at the cold start.
    pub(crate) fn found(&mut self, block: u32, sequence: u64, seed: u32) {
        let entry = self.get_mut(block);
        (entry.sequence, entry.seed, entry.state, entry.is_empty) =
            (sequence, seed, BlockState::Open, false);
    }

    /// Sets the state of a block with a damaged header: its records cannot be read.
    pub(crate) fn damaged(&mut self, block: u32) {
        let entry = self.get_mut(block);
        (entry.state, entry.is_empty) = (BlockState::Stuck, false);
    }

    /// Sets the state of a block that the cold start could not read.
    pub(crate) fn bad(&mut self, block: u32) {
        let entry = self.get_mut(block);
        (entry.sequence, entry.state, entry.is_empty) = (0, BlockState::Bad, false);
    }

    /// Sets the states of the blocks before `end`, which a cold start has read. `blocks_to_renew` get an empty header.
    pub(crate) fn start(&mut self, end: u32, blocks_to_renew: &BTreeSet<u32>) {
        self.used = end;
        let mut free = Vec::new();
        for block in 0..end {
            self.get_mut(block).must_renew = blocks_to_renew.contains(&block);
            let Block {
                live,
                state,
                sequence,
                must_renew,
                ..
            } = *self.get(block);
            match state {
                BlockState::Open if live > 0 => {
                    self.get_mut(block).state = BlockState::Used;
                    if must_renew || live < self.low_water {
                        self.enqueue(block);
                    }
                }
                _ if must_renew => self.set_renewing(block, state == BlockState::Bad),
                _ => {
                    self.get_mut(block).state = BlockState::Free;
                    free.push((sequence.wrapping_add(1), block));
                }
            }
            if state != BlockState::Open {
                self.headerless.insert(block);
            }
        }
        // Blocks without a header of this device come first, then all others in the order of their sequence numbers.
        free.sort_unstable();
        self.free = free.into_iter().map(|(_, block)| block).collect();
    }

    fn count_in(&self, state: BlockState) -> usize {
        let blocks = self.blocks.iter();
        blocks.filter(|block| block.state == state).count()
    }

    /// Compares the running totals with a recount. Errors: the difference.
    pub(crate) fn check(&self, live: impl Fn(u32) -> u32) -> Result<(), String> {
        let mut total = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            let number = number as u32;
            if block.live != live(number) {
                return Err(format!(
                    "block {number} has {} live units, but {} are indexed",
                    block.live,
                    live(number)
                ));
            }
            total += u64::from(block.live);
            let is_pristine = number >= self.used;
            let is_free = is_pristine || block.state == BlockState::Free;
            if is_free && block.live > 0 || is_pristine != (block.state == BlockState::Pristine) {
                return Err(format!(
                    "block {number} is {:?} with {} live units",
                    block.state, block.live
                ));
            }
        }
        let free = self.free.len() + self.freed.len();
        let queued = self.queue.len();
        if total != self.live
            || free != self.count_in(BlockState::Free)
            || queued != self.count_in(BlockState::Queued)
        {
            return Err(format!(
                "{} live units instead of {total}, or a wrong count of {free} free blocks or {queued} queued blocks",
                self.live
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::random::Random;

    #[test]
    fn oldest_sequence_is_a_lower_bound_of_the_sequence_numbers_on_the_device() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(40) as usize;
            let mut blocks = BlockTable::new(count, 0);
            // For each block the sequence numbers that a cold start may find: before and after a write in flight.
            let mut device = vec![[NOTHING; 2]; count];
            let mut sequence = 0;
            let mut open = Vec::new();
            let mut risen = 0;
            for _ in 0..2_000 {
                if random.below(2) == 0
                    && let Some(block) = blocks.allocate(sequence + 1)
                {
                    sequence += 1;
                    device[block as usize][1] = sequence;
                    open.push((block, sequence));
                } else if !open.is_empty() {
                    let (block, sequence) =
                        open.swap_remove(random.below(open.len() as u64) as usize);
                    device[block as usize] = [sequence; 2];
                    blocks.written(block, sequence);
                    blocks.close(block);
                    blocks.settle(0);
                }
                let least = device.iter().flatten().min().unwrap();
                assert!(
                    blocks.oldest_sequence <= sequence.min(*least),
                    "seed {seed}: {} of {least}",
                    blocks.oldest_sequence
                );
                risen = risen.max(blocks.oldest_sequence);
            }
            assert!(
                count == 1 || risen > sequence / 2,
                "seed {seed}: {risen} of {sequence}"
            );
        }
    }
}
