//! A timing wheel in two stages: blocks by the instant at which they are due.
//!
//! A block that is due in a later span of instants is appended to the list of that span. The list is sorted by instant
//! only when the span begins. So memory is written and read in order, without random access per block, and a
//! store of millions of blocks touches only the present span.

const NONE: u32 = u32::MAX;

/// Maximum number of spans of the wheel; at least half as many are used.
const SPANS: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Wheel {
    now: u32,
    /// Number of low bits of an instant that give its position in a span.
    bits: u32,
    /// Blocks and the instants at which they are due, by span, also for later turns of the wheel.
    spans: Box<[Vec<(u32, u32)>]>,
    /// For each instant of the current span: index of its first entry. An entry is a block and the next entry's index.
    first_entries: Box<[u32]>,
    entries: Vec<(u32, u32)>,
    /// The empty list of a past span, for reuse.
    spare: Vec<(u32, u32)>,
}

impl Wheel {
    /// A wheel for typical waits of `instants`.
    pub(super) fn new(instants: f64) -> Self {
        let bits = ((instants / SPANS as f64) as u32)
            .clamp(16, 1 << 22)
            .next_power_of_two()
            .ilog2();
        Self {
            now: 0,
            bits,
            spans: vec![Vec::new(); SPANS].into(),
            first_entries: vec![NONE; 1 << bits].into(),
            entries: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Bytes for this many blocks, with vectors twice as large as needed.
    pub(super) fn memory_bytes(blocks: u64) -> u64 {
        16 * blocks
    }

    pub(super) fn now(&self) -> u32 {
        self.now
    }

    fn span(&self, instant: u32) -> usize {
        (instant >> self.bits) as usize % SPANS
    }

    /// Schedules a block to become due after `wait` instants, 1 to 2^31.
    #[inline]
    pub(super) fn push(&mut self, block: u32, wait: u32) {
        let due_instant = self.now.wrapping_add(wait);
        if due_instant >> self.bits == self.now >> self.bits {
            self.link(due_instant, block);
        } else {
            let span = self.span(due_instant);
            self.spans[span].push((due_instant, block));
        }
    }

    #[inline]
    fn link(&mut self, due_instant: u32, block: u32) {
        let slot = due_instant as usize & (self.first_entries.len() - 1);
        let next_entry =
            std::mem::replace(&mut self.first_entries[slot], self.entries.len() as u32);
        self.entries.push((block, next_entry));
    }

    /// Advances to the next instant: due blocks are appended to `due_blocks`.
    #[inline]
    pub(super) fn advance(&mut self, due_blocks: &mut Vec<u32>) {
        self.now = self.now.wrapping_add(1);
        let slot = self.now as usize & (self.first_entries.len() - 1);
        if slot == 0 {
            self.next_span();
        }
        let mut entry = std::mem::replace(&mut self.first_entries[slot], NONE);
        while entry != NONE {
            let (block, next_entry) = self.entries[entry as usize];
            due_blocks.push(block);
            entry = next_entry;
        }
    }

    fn next_span(&mut self) {
        self.entries.clear();
        let span = self.span(self.now);
        let mut waiting = std::mem::replace(&mut self.spans[span], std::mem::take(&mut self.spare));
        for (due, block) in waiting.drain(..) {
            if due >> self.bits == self.now >> self.bits {
                self.link(due, block)
            } else {
                self.spans[span].push((due, block))
            }
        }
        self.spare = waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use sys::random::Random;

    #[test]
    fn each_entry_is_due_at_its_instant_also_when_the_clock_wraps() {
        let mut random = Random::new(1);
        for instants in [1.0, 20_000.0, 1e6] {
            let mut wheel = Wheel::new(instants);
            wheel.now = u32::MAX - 50_000;
            // The test starts at the last instant of a span.
            wheel.now |= (1 << wheel.bits) - 1;
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for elapsed in 0..200_000_u32 {
                if elapsed < 30_000 {
                    // Some blocks wait for several turns of the wheel.
                    let wait =
                        1 + random.below(if elapsed % 7 == 0 { 150_000 } else { 100 }) as u32;
                    wheel.push(elapsed, wait);
                    expected.entry(elapsed + wait).or_default().push(elapsed);
                }
                let mut ready = Vec::new();
                wheel.advance(&mut ready);
                ready.sort_unstable();
                assert_eq!(ready, expected.remove(&(elapsed + 1)).unwrap_or_default());
            }
            assert!(expected.is_empty());
        }
    }
}
