//! Sizes drawn from any distribution, in one step each: Walker's alias method, in integers.
//!
//! ```text
//! column      0        1        2        one random number picks the column, and its other bits pick
//!          +------+ +------+ +------+    the part: below `keep_below` the column's own size,
//!   other  |  C   | |      | |  A   |    above it the other size. All columns are equally high.
//!          |------| |  B   | |------|
//!    own   |  A   | |      | |  C   |
//!          +------+ +------+ +------+
//! ```
//!
//! Source: A. J. Walker, 1977; the table is built as by M. D. Vose, "A linear algorithm for generating random numbers
//! with a given distribution", 1991.

use std::collections::BTreeMap;
use sys::random::Random;

/// Step of the size of a stored record, in bytes. Source: ACT 6.6, `RBLOCK_SIZE`.
pub const RECORD_STEP_BYTES: u32 = 16;

pub fn stored_bytes(record_bytes: u32) -> u32 {
    record_bytes
        .checked_next_multiple_of(RECORD_STEP_BYTES)
        .unwrap_or(u32::MAX)
}

/// Sizes with their probabilities. Drawing takes one random number and no floating point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeTable {
    columns: Box<[Column]>,
    bytes_max: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    /// Below this random fraction of a column the size is `own_bytes`, above it `other_bytes`; in units of 2^-64.
    keep_below: u64,
    own_bytes: u32,
    other_bytes: u32,
}

/// Threshold of a column with a single size.
const ALWAYS: u64 = u64::MAX;

impl SizeTable {
    /// `weights` by size in bytes: a size's share is its weight / the sum of all, to within 2^-63. Weight 0: never
    /// drawn. Without any weight the only size is 0.
    pub fn new(weights: BTreeMap<u32, u64>) -> Self {
        let weights: Vec<_> = weights
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .collect();
        let total_weight: u128 = weights.iter().map(|(_, weight)| u128::from(*weight)).sum();
        let bytes_max = weights.last().map_or(0, |(bytes, _)| *bytes);
        let count = weights.len() as u128;
        // The height of a column is `total_weight`, and the heights of all columns add up to `total_weight * count`.
        let (mut small, mut large): (Vec<_>, Vec<_>) = weights
            .iter()
            .map(|(bytes, weight)| (*bytes, u128::from(*weight) * count))
            .partition(|(_, height)| *height < total_weight);
        let mut columns = Vec::with_capacity(weights.len());
        while let Some((own_bytes, height)) = small.pop() {
            // The deficits of small columns add up to the excesses of large ones, so no small column lacks a large one.
            let Some((other_bytes, other_height)) = large.pop() else {
                break;
            };
            let keep_below = fraction_of_64_bits(height, total_weight);
            columns.push(Column {
                keep_below,
                own_bytes,
                other_bytes,
            });
            let left = other_height - (total_weight - height);
            if left < total_weight {
                small.push((other_bytes, left))
            } else {
                large.push((other_bytes, left))
            }
        }
        columns.extend(large.into_iter().map(|(bytes, _)| Column {
            keep_below: ALWAYS,
            own_bytes: bytes,
            other_bytes: bytes,
        }));
        if columns.is_empty() {
            columns.push(Column {
                keep_below: ALWAYS,
                own_bytes: 0,
                other_bytes: 0,
            });
        }
        Self {
            columns: columns.into(),
            bytes_max,
        }
    }

    /// Draws a size, bytes.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        // As in `Random::below`: the product's high half is uniform over the columns, its low half within the column.
        let product = u128::from(random.next_u64()) * self.columns.len() as u128;
        let column = &self.columns[(product >> 64) as usize];
        if product as u64 <= column.keep_below {
            column.own_bytes
        } else {
            column.other_bytes
        }
    }

    pub fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// The mean size, in bytes; for printing only.
    pub fn mean_bytes(&self) -> f64 {
        self.columns
            .iter()
            .map(|column: &Column| {
                let own_share = column.keep_below as f64 / ALWAYS as f64;
                own_share * f64::from(column.own_bytes)
                    + (1.0 - own_share) * f64::from(column.other_bytes)
            })
            .sum::<f64>()
            / self.columns.len() as f64
    }

    /// Every size that can be drawn, ascending, in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        let all = self
            .columns
            .iter()
            .flat_map(|column| [column.own_bytes, column.other_bytes]);
        all.collect::<std::collections::BTreeSet<_>>().into_iter()
    }
}

/// `part / whole` in units of 2^-64, `part` below `whole`. Exact for weights below 2^64 and fewer than 2^32 of them.
fn fraction_of_64_bits(part: u128, whole: u128) -> u64 {
    let excess = (u128::BITS - whole.leading_zeros()).saturating_sub(u64::BITS);
    (((part >> excess) << u64::BITS) / (whole >> excess).max(1)).min(u128::from(ALWAYS)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(weights: &[(u32, u64)], draws: u32) -> BTreeMap<u32, u32> {
        let table = SizeTable::new(weights.iter().copied().collect());
        let mut random = Random::new(11);
        let mut counts = BTreeMap::new();
        (0..draws).for_each(|_| *counts.entry(table.draw(&mut random)).or_default() += 1);
        counts
    }

    #[test]
    fn sizes_come_in_proportion_to_their_weights() {
        let weights = [(512, 1), (1024, 2), (4096, 3), (65_536, 94)];
        for ((bytes, count), (_, weight)) in counts(&weights, 1_000_000).into_iter().zip(weights) {
            let expected = 10_000.0 * weight as f64;
            // Four standard deviations of a binomial count.
            assert!(
                (f64::from(count) - expected).abs() < 4.0 * expected.sqrt(),
                "{bytes}: {count} of {expected}"
            );
        }
    }

    #[test]
    fn a_weight_of_zero_is_never_drawn() {
        assert_eq!(
            counts(&[(512, 0), (1024, 7)], 10_000)
                .into_iter()
                .collect::<Vec<_>>(),
            [(1024, 10_000)]
        );
        let table = SizeTable::new([(512, 5), (1024, 0)].into());
        assert_eq!(table.sizes().collect::<Vec<_>>(), vec![512]);
        assert_eq!(table.bytes_max(), 512);
    }

    #[test]
    fn a_size_table_without_weights_does_not_panic() {
        assert_eq!(SizeTable::new(BTreeMap::new()).draw(&mut Random::new(1)), 0);
    }

    #[test]
    fn extreme_weights_keep_their_proportion() {
        let weights: BTreeMap<_, _> = (1..=1000)
            .map(|n| (n, if n == 1 { u64::MAX } else { 1 }))
            .collect();
        let table = SizeTable::new(weights);
        let mut random = Random::new(2);
        assert!((0..100_000).all(|_| table.draw(&mut random) == 1));
    }

    #[test]
    fn a_size_table_of_every_sector_from_4_to_8_mib_takes_little_memory() {
        let table = SizeTable::new((8192..16_384).map(|sectors| (512 * sectors, 1)).collect());
        assert!(
            size_of_val(&*table.columns) <= 128 << 10,
            "{} bytes",
            size_of_val(&*table.columns)
        );
    }
}
