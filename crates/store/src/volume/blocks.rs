//! States and live units of write blocks, and the choice of the next one.
//!
//! ```text
//! pristine, free -> open -> used -> (live below the low-water mark) queued -> collecting -> freed -> free
//!                             \-> (nothing live) -----------------------------------------> freed
//! ```
//!
//! A freed block is not free yet: it may be overwritten only when everything that made its records obsolete is on the
//! device, or a crash would lose the new records and the old. Records that are appended are numbered; a freed block
//! notes the last number and is free when all up to it are durable. So the last durable version of a record is on the
//! device until a newer one is, and the greatest version that a cold start finds is never older than that: it need not
//! distinguish free blocks from used ones.

use std::collections::VecDeque;

pub(crate) const NO_BUFFER: u32 = u32::MAX;

/// No data on the device that a cold start would read as ours.
const NOTHING: u64 = u64::MAX;

/// Blocks that are looked at for each that is allocated, to know the oldest.
const SWEPT: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Pristine,
    Free,
    Open,
    Used,
    Queued,
    Collecting,
    /// Collected, but for records that could not be read.
    Stuck,
    /// Could not be read at the cold start: never used.
    Bad,
}

/// State of a write block in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Of the header that is on the device, for certain or until a write ends.
    pub(crate) sequence: u64,
    /// Of its records' checksums.
    pub(crate) seed: u32,
    /// Units of live records.
    pub(crate) live: u32,
    /// Its buffer, if it is in memory.
    pub(crate) buffer: u32,
    pub(crate) state: State,
}

/// Of each kind how many blocks went which way, since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flows {
    pub(crate) queued: u64,
    pub(crate) skipped: u64,
    pub(crate) direct: u64,
}

/// All write blocks of a space.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    free: VecDeque<u32>,
    /// With the number of the last record that must be durable before.
    freed: VecDeque<(u64, u32)>,
    /// The first that was never used; all after it were not either.
    pristine: u32,
    queue: VecDeque<u32>,
    /// Units; blocks with fewer live ones are collected.
    low_water: u32,
    live: u64,
    /// Number of the last record.
    pub(crate) appended: u64,
    pub(crate) flows: Flows,
    sweep: usize,
    sweep_min: u64,
    oldest: u64,
}

impl Blocks {
    pub(crate) fn new(count: usize, low_water: u32) -> Self {
        let block = Block { sequence: NOTHING, seed: 0, live: 0, buffer: NO_BUFFER, state: State::Pristine };
        Self { blocks: vec![block; count], low_water, ..Self::default() }
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

    /// Blocks never used.
    pub(crate) fn pristine(&self) -> usize {
        self.blocks.len() - self.pristine as usize
    }

    /// Blocks that were used, from the first on.
    pub(crate) fn used(&self) -> u32 {
        self.pristine
    }

    /// True if a block could not be read at the cold start.
    pub(crate) fn has_bad(&self) -> bool {
        self.blocks.iter().any(|block| block.state == State::Bad)
    }

    /// Blocks that can be allocated now.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.pristine()
    }

    /// Available blocks, and blocks that become free when the buffers are durable.
    pub(crate) fn free(&self) -> usize {
        self.available() + self.freed.len()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn live_units(&self) -> u64 {
        self.live
    }

    /// Takes a free block: the one that has been free longest, then pristine ones from the first on. Its new header
    /// gets this sequence number.
    pub(crate) fn allocate(&mut self, sequence: u64) -> Option<u32> {
        let block = self.free.pop_front().or_else(|| {
            let next = self.pristine;
            ((next as usize) < self.blocks.len()).then(|| self.pristine += 1)?;
            Some(next)
        })?;
        self.look_for_oldest(sequence);
        let of = self.get_mut(block);
        (of.state, of.sequence) = (State::Open, of.sequence.min(sequence));
        Some(block)
    }

    /// Looks at a few blocks more. Sequence numbers only grow, so the least of one pass bounds all from below.
    fn look_for_oldest(&mut self, sequence: u64) {
        let count = self.blocks.len();
        for _ in 0..SWEPT.min(count) {
            if self.sweep == 0 {
                self.sweep_min = sequence;
            }
            self.sweep_min = self.sweep_min.min(self.blocks[self.sweep].sequence);
            self.sweep += 1;
            if self.sweep == count {
                (self.oldest, self.sweep) = (self.sweep_min, 0);
            }
        }
    }

    /// No block on the device that a cold start would read has a sequence number below this.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// A record of `units` is in the block.
    pub(crate) fn add(&mut self, block: u32, units: u32) {
        self.get_mut(block).live += units;
        self.live += u64::from(units);
    }

    /// A record of `units` in the block is old.
    pub(crate) fn remove(&mut self, block: u32, units: u32) {
        let of = self.get_mut(block);
        of.live -= units;
        self.live -= u64::from(units);
        self.look_at(block);
    }

    /// All of an open block is written.
    pub(crate) fn close(&mut self, block: u32) {
        self.get_mut(block).state = State::Used;
        self.look_at(block);
    }

    fn look_at(&mut self, block: u32) {
        let Block { live, state, .. } = *self.get(block);
        match state {
            State::Used if live == 0 => {
                self.flows.direct += 1;
                self.release(block);
            }
            State::Used if live < self.low_water => self.enqueue(block),
            State::Stuck if live == 0 => self.release(block),
            _ => {}
        }
    }

    fn enqueue(&mut self, block: u32) {
        self.flows.queued += 1;
        self.get_mut(block).state = State::Queued;
        self.queue.push_back(block);
    }

    fn release(&mut self, block: u32) {
        self.get_mut(block).state = State::Free;
        self.freed.push_back((self.appended, block));
    }

    /// All records up to number `durable` are on the device.
    pub(crate) fn settle(&mut self, durable: u64) {
        while let Some((_, block)) = self.freed.front().filter(|(appended, _)| *appended <= durable) {
            self.free.push_back(*block);
            self.freed.pop_front();
        }
    }

    /// The next block to collect. Blocks without live records are freed without it.
    pub(crate) fn next_to_collect(&mut self) -> Option<u32> {
        while let Some(block) = self.queue.pop_front() {
            if self.get(block).live > 0 {
                self.get_mut(block).state = State::Collecting;
                return Some(block);
            }
            self.flows.skipped += 1;
            self.release(block);
        }
        None
    }

    /// Ends the collection of a block: nothing in it is live, or the rest could not be moved.
    pub(crate) fn collected(&mut self, block: u32) {
        self.get_mut(block).state = State::Stuck;
        self.look_at(block);
    }

    /// Puts a block back that was to be collected.
    pub(crate) fn put_back(&mut self, block: u32) {
        self.get_mut(block).state = State::Queued;
        self.queue.push_front(block);
    }

    /// A block that the cold start found by its header.
    pub(crate) fn found(&mut self, block: u32, sequence: u64, seed: u32) {
        let of = self.get_mut(block);
        (of.sequence, of.seed, of.state) = (sequence, seed, State::Open);
    }

    /// A block with a damaged header: nothing in it can be read, and it is reused after all others.
    pub(crate) fn damaged(&mut self, block: u32) {
        self.get_mut(block).state = State::Stuck;
    }

    /// A block that the cold start could not read.
    pub(crate) fn bad(&mut self, block: u32) {
        let of = self.get_mut(block);
        (of.sequence, of.state) = (0, State::Bad);
    }

    /// Sorts the blocks after the cold start has read those before `end`.
    pub(crate) fn start(&mut self, end: u32) {
        self.pristine = end;
        let mut free = Vec::new();
        for block in 0..end {
            let Block { live, state, .. } = *self.get(block);
            match state {
                State::Bad => {}
                State::Open if live > 0 => {
                    self.get_mut(block).state = State::Used;
                    if live < self.low_water {
                        self.enqueue(block);
                    }
                }
                _ => {
                    self.get_mut(block).state = State::Free;
                    free.push((state == State::Stuck, self.get(block).sequence.wrapping_add(1), block));
                }
            }
        }
        // Blocks without our header first, then in the order of their sequence.
        free.sort_unstable();
        self.free = free.into_iter().map(|(.., block)| block).collect();
    }

    /// Recounts the running totals. Errors: the difference, a sentence.
    pub(crate) fn check(&self, live: impl Fn(u32) -> u32) -> Result<(), String> {
        let mut total = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            let number = number as u32;
            if block.live != live(number) {
                return Err(format!("block {number} has {} live units, {} are indexed", block.live, live(number)));
            }
            total += u64::from(block.live);
            let is_pristine = number >= self.pristine;
            let is_free = is_pristine || block.state == State::Free;
            if is_free && block.live > 0 || is_pristine != (block.state == State::Pristine) {
                return Err(format!("block {number} is {:?} with {} live units", block.state, block.live));
            }
        }
        let state = |state| self.blocks.iter().filter(|block| block.state == state).count();
        let (free, queued) = (self.free.len() + self.freed.len(), self.queue.len());
        if total != self.live || free != state(State::Free) || queued != state(State::Queued) {
            return Err(format!("{} live units of {total}, {free} free blocks, {queued} queued", self.live));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::random::Random;

    #[test]
    fn no_block_on_the_device_is_older_than_the_oldest() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(40) as usize;
            let mut blocks = Blocks::new(count, 0);
            // For each block the possible findings of a cold start: before and after a write in flight.
            let mut device = vec![[NOTHING; 2]; count];
            let (mut sequence, mut open, mut risen) = (0, Vec::new(), 0);
            for _ in 0..2_000 {
                if random.below(2) == 0
                    && let Some(block) = blocks.allocate(sequence + 1)
                {
                    sequence += 1;
                    device[block as usize][1] = sequence;
                    open.push((block, sequence));
                } else if !open.is_empty() {
                    let (block, sequence) = open.swap_remove(random.below(open.len() as u64) as usize);
                    device[block as usize] = [sequence; 2];
                    blocks.get_mut(block).sequence = sequence;
                    blocks.close(block);
                    blocks.settle(0);
                }
                let least = device.iter().flatten().min().unwrap();
                assert!(blocks.oldest() <= sequence.min(*least), "seed {seed}: {} of {least}", blocks.oldest());
                risen = risen.max(blocks.oldest());
            }
            assert!(count == 1 || risen > sequence / 2, "seed {seed}: {risen} of {sequence}");
        }
    }
}
