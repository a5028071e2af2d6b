//! The store under skewed keys: a time of death for each record, no places.
//!
//! The one idea: if each update hits a key with probability p, the key's record lives for an exponentially distributed
//! time of mean 1/p, whatever happened before. So a record's death can be drawn when the record is written, and after
//! that neither its key nor its place matters. The lives of all records that clients write have one distribution: a
//! mixture of Exp(p) over the keys, each key with weight p. So the share of a block's records that are alive when the
//! block falls below the low-water mark is an order statistic of one uniform variate per record. A block's survivors
//! are drawn when the block is collected. Records that defragmentation writes keep their times of death.
//!
//! As under uniform keys ([`super::uniform`]), one record dies for each written record only on average. Time is in
//! blocks of client writes: records that are overwritten within one block die in the next.

use super::steady::StoreGeometry;
use super::uniform::{Gamma, age};
use super::wheel::Wheel;
use load::keys::{KeyClass, Keys};
use std::collections::VecDeque;
use sys::random::Random;

/// Maximum life, in blocks of client writes.
const LIFE_MAX: f64 = 2e9;

#[derive(Debug, Clone)]
pub(super) struct SkewedStore {
    random: Random,
    records_per_block: usize,
    /// Maximum live records in a block when it is collected.
    survivors: usize,
    lives: Lives,
    deaths: Gamma,
    mark: Gamma,
    wheel: Wheel,
    /// By block: the time of its write, and the share of all lives that are longer than the time until the block is
    /// collected. For blocks of defragmentation the share is 0, and `death_times` has the deaths of the survivors.
    block_writes: Box<[(u32, f32)]>,
    death_times: Box<[u32]>,
    /// Deaths of records that wait to be written by defragmentation.
    moving: VecDeque<u32>,
    ready_blocks: Vec<u32>,
    /// Remaining lives of the records in the block being written.
    lives_left: Vec<i32>,
    sorted: Vec<i32>,
}

impl SkewedStore {
    pub(super) fn memory_bytes(steady: &StoreGeometry) -> u64 {
        Wheel::memory_bytes(steady.blocks) + steady.blocks * (8 + 4 * u64::from(steady.mark - 1))
    }

    pub(super) fn new(
        steady: &StoreGeometry,
        keys: Keys,
        spread: bool,
        blocks: &mut Vec<u32>,
        random: Random,
    ) -> Self {
        let classes = KeyClass::for_keys(keys, steady.records as u32);
        let survivors = steady.mark as usize - 1;
        let count = steady.blocks as usize;
        let per_block = f64::from(steady.records_per_block);
        let mut store = Self {
            random,
            records_per_block: steady.records_per_block as usize,
            survivors,
            lives: Lives::new(&classes, |class| class.updates, per_block),
            deaths: Gamma::new(steady.records_per_block - steady.mark + 1),
            mark: Gamma::new(steady.mark),
            wheel: Wheel::new(steady.records as f64 / per_block),
            block_writes: vec![(0, 0.0); count].into(),
            death_times: vec![0; count * survivors].into(),
            moving: VecDeque::new(),
            ready_blocks: Vec::new(),
            lives_left: Vec::new(),
            sorted: Vec::new(),
        };
        // The store holds one live record per key.
        let initial_lives = Lives::new(
            &classes,
            |class| class.keys / steady.records as f64,
            per_block,
        );
        let mut records_left = steady.records as usize;
        while records_left > 0
            && let Some(block) = blocks.pop()
        {
            let live = if spread {
                age(&mut store.random, steady.mark, steady.records_per_block) as usize
            } else {
                store.records_per_block
            };
            let live = live.min(records_left);
            records_left -= live;
            store.lives_left.clear();
            store
                .lives_left
                .extend((0..live).map(|_| initial_lives.after(store.random.unit()) as i32));
            store.lives_left.resize(store.records_per_block, 0);
            store.keep(block);
        }
        store
    }

    /// Fills `block` with client writes. Time advances.
    pub(super) fn clients(&mut self, block: u32) {
        self.wheel.advance(&mut self.ready_blocks);
        let (deaths, mark) = Gamma::pair(self.deaths, self.mark, &mut self.random);
        let share = mark / (mark + deaths);
        self.block_writes[block as usize] = (self.wheel.now(), share as f32);
        self.wheel.push(block, self.lives.after(share));
    }

    /// Writes waiting records to `block`, as many as fit; records updated meanwhile become dead copies.
    pub(super) fn write(&mut self, block: u32) {
        let now = self.wheel.now();
        self.lives_left.clear();
        self.lives_left.extend(
            self.moving
                .drain(..self.records_per_block)
                .map(|end| end.wrapping_sub(now) as i32),
        );
        self.keep(block);
    }

    /// Stores the remaining lives of the records in `block`; a record with 0 or less is dead.
    fn keep(&mut self, block: u32) {
        let below_mark = self.records_per_block - self.survivors - 1;
        self.sorted.clone_from(&self.lives_left);
        let wait = *self.sorted.select_nth_unstable(below_mark).1;
        let now = self.wheel.now();
        // Survivors stay in order of arrival: in order of death, records that die together would share the next block.
        let survivors = self
            .lives_left
            .iter()
            .filter(|left| **left > wait)
            .chain(std::iter::repeat(&0));
        let deaths = &mut self.death_times[block as usize * self.survivors..][..self.survivors];
        deaths
            .iter_mut()
            .zip(survivors)
            .for_each(|(end, left)| *end = now.wrapping_add_signed(*left));
        self.block_writes[block as usize] = (now, 0.0);
        if wait > 0 {
            self.wheel.push(block, wait as u32)
        } else {
            self.ready_blocks.push(block)
        }
    }

    /// The next block below the mark, and the number of its live records, which wait to be written from now on.
    pub(super) fn collect(&mut self) -> Option<(u32, u32)> {
        let block = self.ready_blocks.pop()?;
        let now = self.wheel.now();
        let count_before = self.moving.len();
        let (write_time, share) = self.block_writes[block as usize];
        if share > 0.0 {
            for _ in 0..self.survivors {
                let life = self.lives.after(self.random.unit() * f64::from(share));
                self.moving.push_back(write_time.wrapping_add(life));
            }
        } else {
            let deaths = &self.death_times[block as usize * self.survivors..][..self.survivors];
            self.moving
                .extend(deaths.iter().filter(|end| end.wrapping_sub(now) as i32 > 0));
        }
        Some((block, (self.moving.len() - count_before) as u32))
    }
}

/// Lifetimes of records, in blocks of client writes: a table by the share of records that live longer, with 128 steps
/// for each halving of the share, linear in between.
#[derive(Debug, Clone)]
struct Lives {
    lives: Box<[f32]>,
}

/// Low bits of a share that are dropped: its sign, exponent and 7 more bits remain.
const STEP_BITS: u32 = 52 - 7;

/// Shares below 2^-32 count as this share.
const LEAST: f64 = 1.0 / (1_u64 << 32) as f64;

impl Lives {
    /// Lives for classes of keys with probability `weight` each; clients write `per_block` records in a block.
    fn new(classes: &[KeyClass], weight: impl Fn(&KeyClass) -> f64, per_block: f64) -> Self {
        // By class: probability, and death rate per block of client writes.
        let classes: Vec<_> = classes
            .iter()
            .map(|class| (weight(class), class.updates / class.keys * per_block))
            .collect();
        let fastest = classes.iter().map(|class| class.1).fold(0.0, f64::max);
        let steps = (1.0_f64.to_bits() - LEAST.to_bits()) >> STEP_BITS;
        let mut lives = vec![0.0; steps as usize + 1];
        // The loop goes from short lives to long lives in steps of 1 %, and interpolates the logarithm of the life.
        let mut life = 1e-4 / fastest;
        let mut share = 1.0;
        for (step, entry) in lives.iter_mut().enumerate().rev().skip(1) {
            let target_share = f64::from_bits(LEAST.to_bits() + ((step as u64) << STEP_BITS));
            let mut previous = (life, share);
            while share > target_share && life < LIFE_MAX {
                previous = (life, share);
                life *= 1.01;
                share = classes
                    .iter()
                    .map(|(weight, rate)| weight * (-rate * life).exp())
                    .sum::<f64>();
            }
            let fraction = if previous.1 > share {
                (previous.1 - target_share) / (previous.1 - share)
            } else {
                1.0
            };
            *entry = (previous.0 * (life / previous.0).powf(fraction)).min(LIFE_MAX) as f32;
            // The search for the next entry continues one step back.
            (life, share) = previous;
        }
        Self {
            lives: lives.into(),
        }
    }

    /// The life that a fraction `share` of all records exceeds, at least 1.
    #[inline]
    fn after(&self, share: f64) -> u32 {
        let bits = share.max(LEAST).to_bits() - LEAST.to_bits();
        let index = (bits >> STEP_BITS) as usize;
        let [Some(&life), next_life] = [self.lives.get(index), self.lives.get(index + 1)] else {
            return 1;
        };
        let fraction = (bits & ((1 << STEP_BITS) - 1)) as f32 / (1_u64 << STEP_BITS) as f32;
        (life + (next_life.unwrap_or(&0.0) - life) * fraction)
            .ceil()
            .max(1.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_follow_the_distribution_of_the_keys() {
        let cases = [
            Keys::HotCold {
                keys_pct: 10.0,
                traffic_pct: 90.0,
            },
            Keys::Zipfian { theta: 0.99 },
        ];
        for (keys, count, per_block) in cases
            .into_iter()
            .flat_map(|keys| [(keys, 300, 0.01), (keys, 100_000, 1.0)])
        {
            let classes = KeyClass::for_keys(keys, count);
            let lives = Lives::new(&classes, |class| class.updates, per_block);
            for share in [0.999, 0.9, 0.5, 0.3, 0.01, 1e-4] {
                let life = f64::from(lives.after(share));
                let outlive = |life: f64| {
                    classes
                        .iter()
                        .map(|class: &KeyClass| {
                            class.updates * (-life * per_block * class.updates / class.keys).exp()
                        })
                        .sum::<f64>()
                };
                // Lives are rounded up to whole instants.
                assert!(
                    outlive(life * 1.002) <= share && share <= outlive(life * 0.998 - 1.0),
                    "{keys}, {count}: {share} live longer than {life}, not {}",
                    outlive(life)
                );
            }
        }
    }
}
