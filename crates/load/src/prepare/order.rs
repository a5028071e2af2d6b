//! An order of writes that leaves a drive in the state of steady random overwrites, after one physical pass.
//!
//! ```text
//! writes    0 ......................... 1 + over-provisioning   bytes written, in units of the capacity
//! lasting   1 - 1/WAF ... rising ... 1                          share of the writes that no later write overwrites
//! ```
//!
//! In the steady state of a drive that collects its oldest or emptiest superblock, the probability that a unit is still
//! valid falls exponentially with the fraction of the flash that was written after it (Desnoyers, "Analytic modeling of
//! SSD write performance", 2012). The mean probability is capacity / flash, which fixes the exponent. So the pass is
//! cut into regions. Each region has its share of lasting writes, and all writes go to random places. A write that does
//! not last is the first of the two writes of its block; the second is in a later region.
//!
//! The offset of a write is a function of its number, so a pass resumes anywhere. The counts before each region are the only table.
//! Counting uses additions and multiplications alone, which give the same bits on every machine.

use super::SPOT_BYTES;
use sys::random::Random;

/// Regions of a pass, each with one share of lasting writes: steps of 0.1 % of the flash.
const REGIONS: u64 = 1024;

/// The cache may have at most 1/`CACHE_SHARE` of the bytes of the pass, because the newest writes, as many as fit the
/// cache, are all lasting, unlike in the steady state.
const CACHE_SHARE: u64 = 8;

/// Rounds of the Feistel network in [`permuted`].
const ROUNDS: u64 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderSpec {
    pub block_bytes: u32,
    /// Bytes that the pass writes, a multiple of the block: the assumed capacity of the flash.
    pub pass_bytes: u64,
    /// The two writes of a block are farther apart than this, so that no cache merges them.
    pub cache_bytes: u64,
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    spec: OrderSpec,
    blocks: u64,
    /// Writes in a region; fewer in the last.
    region: u64,
    /// The second write of a block comes at least this many regions after the first.
    lead: u64,
    /// Counts before each region, and after the last.
    region_counts: Vec<Counts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    writes: u64,
    /// Writes that no later write overwrites.
    lasting: u64,
    /// Lasting writes of blocks that were written before.
    rewrites: u64,
}

impl Counts {
    fn first(self) -> u64 {
        self.writes - self.lasting
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedWrite {
    pub offset: u64,
    /// False if a later write overwrites the same block.
    pub is_lasting: bool,
}

impl Order {
    pub fn new(bytes: u64, spec: OrderSpec) -> Result<Self, String> {
        if spec.block_bytes == 0 || !spec.block_bytes.is_multiple_of(SPOT_BYTES as u32) {
            return Err(format!(
                "a block of {} bytes is not a multiple of {SPOT_BYTES} - give a multiple",
                spec.block_bytes
            ));
        }
        if spec.cache_bytes > spec.pass_bytes / CACHE_SHARE {
            return Err(format!(
                "a cache of {} bytes is more than 1/{CACHE_SHARE} of the {} bytes to write - lower the cache size",
                spec.cache_bytes, spec.pass_bytes
            ));
        }
        let blocks = bytes.div_ceil(spec.block_bytes.into());
        let total_writes = spec.pass_bytes / u64::from(spec.block_bytes);
        let region = total_writes.div_ceil(REGIONS).max(1);
        let lead = (spec.cache_bytes / u64::from(spec.block_bytes)).div_ceil(region) + 1;
        let region_counts = counts(blocks, total_writes, region, lead);
        match region_counts.last() {
            Some(end) if blocks > 0 && (end.lasting, end.rewrites) == (blocks, end.first()) => {
                Ok(Self {
                    spec,
                    blocks,
                    region,
                    lead,
                    region_counts,
                })
            }
            _ => Err(format!(
                "{total_writes} writes are too many for {blocks} blocks of {} bytes: each block is written at most twice, and more than \
                 the cache size must be written between the two writes - lower the over-provisioning or the cache size, or \
                 use a larger part of the drive",
                spec.block_bytes
            )),
        }
    }

    pub fn writes(&self) -> u64 {
        self.end().writes
    }

    /// Bytes of a write. The last block of the device may have fewer.
    pub fn block_bytes(&self) -> u32 {
        self.spec.block_bytes
    }

    /// The two writes of a block have at least this many other writes between them.
    pub fn gap(&self) -> u64 {
        (self.lead - 1) * self.region
    }

    #[inline]
    pub fn write(&self, index: u64) -> OrderedWrite {
        let region = index / self.region;
        let region_start = self.region_counts[region as usize];
        let region_end = self.region_counts[region as usize + 1];
        let key = Random::for_part(self.spec.seed, region).next_u64();
        let slot = permuted(
            index - region_start.writes,
            region_end.writes - region_start.writes,
            key,
        );
        let first_writes = region_end.first() - region_start.first();
        let second_writes = region_end.rewrites - region_start.rewrites;
        // Blocks are numbered by their first write: first the blocks that are written twice, then the others.
        let (number, is_lasting) = match slot.checked_sub(first_writes) {
            None => (region_start.first() + slot, false),
            Some(slot) if slot < second_writes => (region_start.rewrites + slot, true),
            Some(slot) => (
                self.end().rewrites + region_start.lasting - region_start.rewrites + slot
                    - second_writes,
                true,
            ),
        };
        OrderedWrite {
            offset: self.offset(number),
            is_lasting,
        }
    }

    /// Number of blocks whose lasting write is certainly among the first `writes`.
    pub fn lasting(&self, writes: u64) -> u64 {
        self.region_counts[(writes / self.region) as usize].lasting
    }

    /// Offset of block number `number` among the `counted` blocks that [`Self::lasting`] counted.
    pub fn lasting_offset(&self, number: u64, counted: u64) -> u64 {
        let region = self
            .region_counts
            .partition_point(|counts| counts.lasting < counted);
        let second = self.region_counts[region.min(self.region_counts.len() - 1)].rewrites;
        self.offset(if number < second {
            number
        } else {
            self.end().rewrites + number - second
        })
    }

    fn offset(&self, number: u64) -> u64 {
        permuted(number, self.blocks, self.spec.seed) * u64::from(self.spec.block_bytes)
    }

    fn end(&self) -> Counts {
        self.region_counts[self.region_counts.len() - 1]
    }
}

fn counts(blocks: u64, total_writes: u64, region: u64, lead: u64) -> Vec<Counts> {
    let regions = total_writes.div_ceil(region);
    // The newest region first.
    let region_writes: Vec<f64> = (0..regions)
        .rev()
        .map(|number| region.min(total_writes - number * region) as f64)
        .collect();
    let mut low = 0.0;
    let mut high = 1.0;
    for _ in 0..64 {
        let factor = f64::midpoint(low, high);
        if lasting_writes(&region_writes, lead, factor).sum::<f64>() < blocks as f64 {
            low = factor;
        } else {
            high = factor;
        }
    }
    let shares: Vec<f64> = lasting_writes(&region_writes, lead, high).collect();
    let mut counts_before = vec![Counts::default()];
    let mut sum = 0.0;
    for (end, share) in (1..=regions).zip(shares.into_iter().rev()) {
        let last_counts = counts_before[counts_before.len() - 1];
        sum += share;
        let total = total_writes;
        let writes = total.min(end * region);
        let lasting = if regions - end > lead {
            (sum.round() as u64).clamp(
                last_counts.lasting,
                last_counts.lasting + writes - last_counts.writes,
            )
        } else {
            // In the last `lead` regions all writes are lasting; the lasting writes before them make up the difference.
            blocks.saturating_sub(total - writes)
        };
        let due = end
            .checked_sub(lead)
            .map_or(0, |end| counts_before[end as usize].first());
        let rewrites =
            last_counts.rewrites + (due - last_counts.rewrites).min(lasting - last_counts.lasting);
        counts_before.push(Counts {
            writes,
            lasting,
            rewrites,
        });
    }
    counts_before
}

/// Lasting writes of each region, the newest first, if their share falls by `factor` from region to region. In the newest
/// `lead` regions all writes last, because a block first written there could not be written again.
fn lasting_writes(region_writes: &[f64], lead: u64, factor: f64) -> impl Iterator<Item = f64> {
    let mut share = f64::midpoint(1.0, factor);
    (0..).zip(region_writes).map(move |(age, writes)| {
        let lasting = if age < lead { *writes } else { writes * share };
        share *= factor;
        lasting
    })
}

/// A pseudo-random permutation below `n`: a Feistel network over the next power of two, repeated until below `n`.
#[inline]
pub fn permuted(mut value: u64, n: u64, key: u64) -> u64 {
    let bits = (64 - (n - 1).leading_zeros()).max(2);
    let low_bits = bits / 2;
    let low_mask = (1 << low_bits) - 1;
    let high_mask = (1 << (bits - low_bits)) - 1;
    loop {
        let mut low = value & low_mask;
        let mut high = value >> low_bits;
        for round in 0..ROUNDS {
            let mixed = |half: u64| Random::new(key ^ round << 56 ^ half).next_u64();
            if round % 2 == 0 {
                high ^= mixed(low) & high_mask;
            } else {
                low ^= mixed(high) & low_mask;
            }
        }
        value = high << low_bits | low;
        if value < n {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;
    use std::collections::BTreeSet;

    const BLOCK: u32 = 4096;

    fn order(blocks: u64, over_provisioning: f64, cache: u64, seed: u64) -> Result<Order, String> {
        let block = u64::from(BLOCK);
        let pass_bytes = (blocks as f64 * (1.0 + over_provisioning)).round() as u64 * block;
        let spec = OrderSpec {
            block_bytes: BLOCK,
            pass_bytes,
            cache_bytes: cache * block,
            seed,
        };
        Order::new(blocks * block - 512, spec)
    }

    fn number(write: OrderedWrite) -> usize {
        (write.offset / u64::from(BLOCK)) as usize
    }

    #[test]
    fn each_block_has_one_lasting_write_and_any_earlier_write_is_farther_back_than_the_cache() {
        for (blocks, cache) in [
            (1, 0),
            (2, 0),
            (300, 4),
            (2048, 32),
            (100_000, 0),
            (100_000, 1_500),
            (70_001, 8_000),
        ] {
            for over_provisioning in [0.0, 0.01, 0.07, 0.10, 0.15, 0.20, 0.28, 0.374, 0.5, 0.75] {
                let order = order(blocks, over_provisioning, cache, blocks).unwrap();
                assert!(order.gap() >= cache && order.writes() >= blocks);
                let mut written: Vec<[Option<u64>; 2]> = vec![[None; 2]; blocks as usize];
                for index in 0..order.writes() {
                    let write = order.write(index);
                    let was = written[number(write)][usize::from(write.is_lasting)].replace(index);
                    assert_eq!(was, None, "block {} at {index}", number(write));
                }
                for [first, lasting] in &written {
                    let lasting = lasting.expect("a lasting write");
                    assert!(
                        first.is_none_or(|first| first + order.gap() < lasting),
                        "{first:?} {lasting}"
                    );
                }
                // In completed regions, the blocks with a lasting write are known.
                for writes in [
                    0,
                    order.writes() / 3,
                    order.writes() / 2 + 7,
                    order.writes(),
                ] {
                    let of = order.lasting(writes.min(order.writes()));
                    let known: BTreeSet<_> =
                        (0..of).map(|at| order.lasting_offset(at, of)).collect();
                    assert_eq!(known.len() as u64, of);
                    let before = |offset: &u64| {
                        written[(offset / 4096) as usize][1].is_some_and(|at| at < writes)
                    };
                    assert!(
                        known.iter().all(before),
                        "{blocks} {over_provisioning} {writes}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_share_of_lasting_writes_in_the_oldest_region_matches_the_closed_formula() {
        // WAF of FIFO under uniform writes (Desnoyers 2012), computed separately with Lambert's W.
        for (over_provisioning, waf) in [(0.07, 7.785_2), (0.15, 4.007_1), (0.28, 2.480_1)] {
            let order = order(1 << 20, over_provisioning, 0, 1).unwrap();
            let lasting = order.region_counts[1].lasting as f64 / order.region as f64;
            assert!(
                (lasting / (1.0 - 1.0 / waf) - 1.0).abs() < 2e-3,
                "{over_provisioning}: {lasting}"
            );
        }
    }

    #[test]
    fn different_seeds_give_different_orders_and_an_order_never_changes() {
        let sum = |seed| {
            let order = order(1 << 16, 0.15, 1_000, seed).unwrap();
            (0..order.writes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, index| {
                (hash ^ order.write(index).offset).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        // A change here breaks the resumption of every preparation that was interrupted.
        assert_eq!(sum(1), 13_781_511_448_570_365_117);
        assert_ne!(sum(1), sum(2));
    }

    #[test]
    fn an_order_with_too_large_a_cache_or_too_many_writes_is_refused() {
        let why = order(1000, 0.28, 161, 1).unwrap_err();
        assert_eq!(
            why,
            "a cache of 659456 bytes is more than 1/8 of the 5242880 bytes to write - lower the cache size"
        );
        let found = order(1000, 0.28, 160, 1).map(|order| order.writes());
        assert_eq!(found, Ok(1280));
        let why = order(1000, 1.5, 0, 1).unwrap_err();
        assert_contains!(
            why,
            "2500 writes are too many for 1000 blocks of 4096 bytes",
            " - lower the over-provisioning or the cache size, or use a larger part of the drive"
        );
        let spec = OrderSpec {
            block_bytes: 0,
            pass_bytes: 4096,
            cache_bytes: 0,
            seed: 1,
        };
        assert_contains!(
            Order::new(4096, spec).unwrap_err(),
            "not a multiple of 4096 - give a multiple"
        );
        assert!(
            Order::new(
                0,
                OrderSpec {
                    block_bytes: BLOCK,
                    ..spec
                }
            )
            .is_err()
        );
    }

    #[test]
    fn a_drive_of_petabytes_has_an_order() {
        let order = order(1 << 40, 0.07, 1 << 20, 3).unwrap();
        let write = order.write(order.writes() - 1);
        assert!(write.is_lasting && write.offset < 1 << 52);
    }
}
