//! Choice of the next superblock to collect.

use crate::Ftl;
use crate::collect::Collecting;
use crate::spec::Victim;
use std::collections::VecDeque;

/// Maximum number of d-choices draws that find only fully valid superblocks; after them the greedy victim is taken.
const DRAWS: usize = 16;

/// State of the victim selection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Victims {
    /// Superblock that is being collected.
    pub(crate) collecting: Option<Collecting>,
    /// By superblock: total units programmed on the drive when it became full.
    filled_at: Vec<u64>,
    /// Filled superblocks, oldest first, some of them collected since then. Used by `Victim::Fifo` only.
    order: VecDeque<(u32, u64)>,
    /// Superblocks of other handles, to be collected with the last victim.
    together: Vec<u32>,
    /// The last victim was chosen by wear levelling.
    levelled: bool,
    /// By handle: the unit after the last one written, and the length of the sequential stream that ends there.
    sequences: Vec<(u32, u32)>,
    /// The superblock that a long sequential stream is overwriting.
    overwritten: u32,
}

impl Victims {
    pub(crate) fn new(superblocks: u32, handles: usize) -> Self {
        Self {
            collecting: None,
            filled_at: vec![0; superblocks as usize + 1],
            order: VecDeque::new(),
            together: Vec::new(),
            levelled: false,
            sequences: vec![(0, 0); handles],
            overwritten: 0,
        }
    }

    /// Records that a superblock became full.
    pub(crate) fn filled(&mut self, superblock: u32, now_units: u64, policy: Victim) {
        self.filled_at[superblock as usize] = now_units;
        if policy == Victim::Fifo {
            self.order.push_back((superblock, now_units));
        }
    }
}

impl Ftl {
    /// Takes the next victim; none if collection would free no space.
    pub(crate) fn choose(&mut self) -> Option<u32> {
        let victim = match self.victims.together.pop() {
            Some(superblock) => superblock,
            None => {
                let levelling = self.least_worn();
                self.victims.levelled = levelling.is_some();
                let victim = levelling.or_else(|| self.overwritten()).or_else(|| self.by_policy())?;
                if self.spec.firmware.collects_all_handles {
                    self.victims.together = self.of_other_handles(self.owner[victim as usize]);
                }
                victim
            }
        };
        self.valid.take(victim);
        Some(victim)
    }

    fn by_policy(&mut self) -> Option<u32> {
        match self.spec.victim {
            Victim::Greedy => self.greedy(),
            Victim::Fifo => self.oldest(),
            Victim::CostBenefit => self.most_benefit(),
            Victim::Choices(choices) => self.best_of(choices).or_else(|| self.greedy()),
        }
    }

    fn greedy(&mut self) -> Option<u32> {
        self.valid.fewest().filter(|&(_, valid)| valid < self.map.per_superblock()).map(|(superblock, _)| superblock)
    }

    fn oldest(&mut self) -> Option<u32> {
        loop {
            let (superblock, filled_at) = self.victims.order.pop_front()?;
            // A superblock that was collected out of turn may be closed again, with a newer entry.
            if self.valid.is_closed(superblock) && self.victims.filled_at[superblock as usize] == filled_at {
                return Some(superblock);
            }
        }
    }

    /// Scans every superblock: all ages change with every write.
    fn most_benefit(&self) -> Option<u32> {
        let (all, now) = (self.map.per_superblock(), self.host_units + self.moved_units);
        let benefit = |(superblock, valid): (u32, u32)| {
            let used = f64::from(valid) / f64::from(all);
            let age = (now - self.victims.filled_at[superblock as usize] + 1) as f64;
            (superblock, (1.0 - used) / (2.0 * used) * age)
        };
        let with_gain = self.valid.closed().filter(|&(_, valid)| valid < all);
        with_gain.map(benefit).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(superblock, _)| superblock)
    }

    fn best_of(&mut self, choices: u32) -> Option<u32> {
        let superblocks = u64::from(self.superblocks());
        for _ in 0..DRAWS {
            let drawn = (0..choices).map(|_| self.random.below(superblocks) as u32 + 1);
            let closed = drawn.filter(|&superblock| self.valid.is_closed(superblock));
            let best = closed.map(|superblock| (self.valid.of(superblock), superblock)).min();
            if let Some((valid, superblock)) = best
                && valid < self.map.per_superblock()
            {
                return Some(superblock);
            }
        }
        None
    }

    /// Wear levelling: the least worn superblock, if the most worn one exceeds it by more than the allowed gap. At
    /// most every second victim, so that collection still frees space.
    fn least_worn(&self) -> Option<u32> {
        let gap = self.spec.wear_gap?;
        if self.victims.levelled || self.wear.gap() <= gap {
            return None;
        }
        let (&most, _) = self.wear.histogram().last_key_value()?;
        let least =
            self.valid.closed().map(|(superblock, _)| superblock).min_by_key(|&superblock| self.wear.of(superblock))?;
        (most - self.wear.of(least) > gap).then_some(least)
    }

    /// Firmware that collects sequential streams early: the superblock that a stream is overwriting.
    fn overwritten(&mut self) -> Option<u32> {
        let superblock = std::mem::take(&mut self.victims.overwritten);
        let partly = superblock != 0
            && self.valid.is_closed(superblock)
            && (1..self.map.per_superblock()).contains(&self.valid.of(superblock));
        partly.then_some(superblock)
    }

    /// Records the superblock that a stream longer than a superblock is overwriting.
    pub(crate) fn watch_sequential(&mut self, unit: u32, units: u32, handle: usize) {
        let (next, length) = &mut self.victims.sequences[handle];
        *length = if unit == *next { length.saturating_add(units) } else { units };
        *next = unit + units;
        if units > 0 && *length > self.map.per_superblock() {
            self.victims.overwritten =
                self.map.flash_of(unit + units - 1).map_or(0, |flash| self.map.superblock_of(flash));
        }
    }

    /// For every other handle, its superblock with the fewest valid units.
    fn of_other_handles(&self, owner: u16) -> Vec<u32> {
        let of = |handle| {
            let closed = self.valid.closed().filter(move |&(superblock, _)| self.owner[superblock as usize] == handle);
            closed.min_by_key(|&(_, valid)| valid).map(|(superblock, _)| superblock)
        };
        (0..self.spec.handles).filter(|&handle| handle != owner).filter_map(of).collect()
    }
}
