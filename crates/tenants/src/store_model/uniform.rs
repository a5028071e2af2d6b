//! The store under uniform keys: a count for each block, and no records.
//!
//! The one idea: each record of a block is equally likely to be updated next. The instant at which a block falls below
//! the low-water mark thus depends only on its number of records, and is drawn once, when the block is written. In a
//! store of N records, of which clients update one at a time, each record lives for an exponentially distributed number
//! of updates. The mean of this number is N. A block of L records is below a mark of K when L - K + 1 of them are gone.
//! This instant is an order statistic: N ln(1 + G(L - K + 1) / G(K)), with two gamma variates. Then the block holds
//! exactly K - 1 records. The blocks wait in a [`Wheel`], whose instants count blocks of client writes.
//!
//! The drawn instants have exactly the distribution that single records would give. The model gives up two properties
//! of a real store. In a real store, one record dies for each written record; in the model, the live records of all
//! blocks are N only on average (the deviation is below the root of N). In a real store, records can die in a buffer
//! that is not yet written; in the model, none does.

use super::steady::StoreGeometry;
use super::wheel::Wheel;
use sys::random::Random;

#[derive(Debug, Clone)]
pub(super) struct UniformStore {
    random: Random,
    /// Gamma distributions. `deaths` has the shape R - K + 1, the number of deaths until a full block is collected;
    /// `mark` has the shape K.
    deaths: Gamma,
    mark: Gamma,
    survivors: u32,
    /// Number of client blocks that hold as many records as the store.
    store_blocks: f64,
    wheel: Wheel,
    ready_blocks: Vec<u32>,
}

impl UniformStore {
    /// A store in its steady state: blocks in use are taken from `blocks`, until all records have a place.
    pub(super) fn new(steady: &StoreGeometry, blocks: &mut Vec<u32>, random: Random) -> Self {
        let mut store = Self::empty(steady, random);
        let mut live = 0;
        while live < steady.records
            && let Some(block) = blocks.pop()
        {
            let of_block = age(&mut store.random, steady.mark, steady.records_per_block);
            store.schedule(block, Gamma::new(of_block - steady.mark + 1));
            live += u64::from(of_block);
        }
        store
    }

    pub(super) fn empty(steady: &StoreGeometry, random: Random) -> Self {
        let store_blocks = steady.records as f64 / f64::from(steady.records_per_block);
        // The wheel's typical wait: about the life of a block of many records, or longer.
        let life = store_blocks
            * (f64::from(steady.records_per_block) / f64::from(steady.mark))
                .ln()
                .max(0.5);
        Self {
            random,
            deaths: Gamma::new(steady.records_per_block - steady.mark + 1),
            mark: Gamma::new(steady.mark),
            survivors: steady.mark - 1,
            store_blocks,
            wheel: Wheel::new(life),
            ready_blocks: Vec::new(),
        }
    }

    /// Fills `block` with client writes. Time advances.
    #[inline]
    pub(super) fn clients(&mut self, block: u32) {
        self.wheel.advance(&mut self.ready_blocks);
        self.write(block);
    }

    /// Notes that `block` is full of live records.
    #[inline]
    pub(super) fn write(&mut self, block: u32) {
        self.schedule(block, self.deaths);
    }

    #[inline]
    fn schedule(&mut self, block: u32, deaths: Gamma) {
        let (deaths, mark) = Gamma::pair(deaths, self.mark, &mut self.random);
        let wait = (self.store_blocks * (deaths / mark).ln_1p())
            .ceil()
            .clamp(1.0, 2e9) as u32;
        self.wheel.push(block, wait);
    }

    /// The next block below the mark, and the number of its live records.
    #[inline]
    pub(super) fn collect(&mut self) -> Option<(u32, u32)> {
        self.ready_blocks.pop().map(|block| (block, self.survivors))
    }
}

/// Number of live records of a used block at a random moment of the steady state: a block holds L live records for a
/// time proportional to 1/L. Drawn from the nearest continuous distribution, with rejection of the difference.
pub(super) fn age(random: &mut Random, mark: u32, records_per_block: u32) -> u32 {
    let low = f64::from(mark);
    let high = f64::from(records_per_block) + 1.0;
    let proposed_over_target = |live: f64| live * (1.0 / live).ln_1p();
    loop {
        let live = (low * (high / low).powf(random.unit()))
            .floor()
            .clamp(low, high - 1.0);
        if random.unit() * proposed_over_target(live) <= proposed_over_target(low) {
            return live as u32;
        }
    }
}

/// The gamma distribution with a whole shape of at least 1. Source: Marsaglia, Tsang, "A simple method for generating
/// gamma variables", 2000.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gamma {
    d: f64,
    c: f64,
}

impl Gamma {
    pub(super) fn new(shape: u32) -> Self {
        let d = f64::from(shape) - 1.0 / 3.0;
        Self {
            d,
            c: 1.0 / (9.0 * d).sqrt(),
        }
    }

    /// Draws one variate of each distribution: normal variates come in pairs.
    #[inline]
    pub(super) fn pair(first: Self, second: Self, random: &mut Random) -> (f64, f64) {
        let (x, y) = normals(random);
        (first.draw(x, random), second.draw(y, random))
    }

    #[inline]
    fn draw(self, mut x: f64, random: &mut Random) -> f64 {
        loop {
            let v = 1.0 + self.c * x;
            if v > 0.0 {
                let v = v * v * v;
                let u = 1.0 - random.unit();
                let x2 = x * x;
                if u < 1.0 - 0.0331 * x2 * x2 || u.ln() < 0.5 * x2 + self.d * (1.0 - v + v.ln()) {
                    return self.d * v;
                }
            }
            x = normals(random).0;
        }
    }
}

/// Two standard normal variates, by Marsaglia's polar method.
#[inline]
fn normals(random: &mut Random) -> (f64, f64) {
    loop {
        let x = 2.0 * random.unit() - 1.0;
        let y = 2.0 * random.unit() - 1.0;
        let square = x * x + y * y;
        if square < 1.0 && square > 0.0 {
            let scale = (-2.0 * square.ln() / square).sqrt();
            return (x * scale, y * scale);
        }
    }
}
