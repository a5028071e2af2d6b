//! Choice of the next block: distributions of offsets and sizes, and the map of visited blocks.

use super::value::Size;
use crate::keys::Zipfian;
use sys::random::Random;

/// Sizes of the operations of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// Multiples of `min_bytes` from there to `max_bytes`, equally likely.
    Range { min_bytes: u64, max_bytes: u64 },
    /// Sizes with their percentages, which are 100 in all.
    Split(Vec<(u64, u64)>),
}

impl Sizes {
    pub fn same(bytes: u64) -> Self {
        Self::Range { min_bytes: bytes, max_bytes: bytes }
    }

    pub fn min_bytes(&self) -> u64 {
        match self {
            Self::Range { min_bytes, .. } => *min_bytes,
            Self::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).min().unwrap_or(1),
        }
    }

    pub fn max_bytes(&self) -> u64 {
        match self {
            Self::Range { min_bytes, max_bytes } => max_bytes / min_bytes * min_bytes,
            Self::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
        }
    }

    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Range { min_bytes, .. } => (min_bytes + self.max_bytes()) as f64 / 2.0,
            Self::Split(parts) => parts.iter().map(|(bytes, percent)| *bytes as f64 * *percent as f64 / 100.0).sum(),
        }
    }

    /// All sizes, if they are few enough to be listed.
    pub fn each(&self) -> Vec<u64> {
        match self {
            Self::Range { min_bytes, .. } => vec![*min_bytes],
            Self::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).collect(),
        }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Range { min_bytes, max_bytes } if max_bytes == min_bytes => *min_bytes,
            Self::Range { min_bytes, max_bytes } => min_bytes * (1 + random.below(max_bytes / min_bytes)),
            Self::Split(parts) => {
                let mut drawn = random.below(100);
                for (bytes, percent) in parts {
                    match drawn.checked_sub(*percent) {
                        Some(rest) => drawn = rest,
                        None => return *bytes,
                    }
                }
                self.max_bytes()
            }
        }
    }
}

/// Distribution of random offsets.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    Uniform,
    /// The k-th in proportion to k to the power of minus this.
    Zipf(f64),
    /// This part of the blocks gets all but this part of the operations; and so again within.
    Pareto(f64),
    /// The mean of twelve uniform offsets, moved by up to half of this percentage of the range.
    Normal(f64),
    /// Zones, from the beginning on.
    Zoned(Vec<Zone>),
}

/// A part of the range with its own share of accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Percent of the operations.
    pub access: u64,
    pub size: Size,
}

/// Number of uniform draws averaged for a normal one, as in fio: the deviation is a twelfth of the range.
const NORMAL_DRAWS: u32 = 12;

/// Draws blocks of `0..blocks`.
#[derive(Debug, Clone)]
pub(super) enum Draw {
    Uniform {
        blocks: u64,
    },
    Zipf {
        zipfian: Zipfian,
        scatter: Scatter,
    },
    Pareto {
        power: f64,
        scatter: Scatter,
    },
    Normal {
        /// Maximum shift of an offset, blocks, to either side.
        moved: f64,
        scatter: Scatter,
    },
    /// Percent of the operations, first block, number of blocks.
    Zoned(Vec<(u64, u64, u64)>),
}

impl Draw {
    /// `blocks` is not 0. Errors: a distribution that is not of this range, a phrase.
    pub(super) fn new(
        distribution: &Distribution,
        blocks: u64,
        block_bytes: u64,
        random: &mut Random,
    ) -> Result<Self, String> {
        Ok(match distribution {
            Distribution::Uniform => Self::Uniform { blocks },
            Distribution::Zipf(theta) => {
                Self::Zipf { zipfian: Zipfian::new(blocks, *theta), scatter: Scatter::new(blocks, random) }
            }
            Distribution::Pareto(h) => {
                // The beginning of length x gets x^(1/power): h gets 1 - h.
                Self::Pareto { power: h.ln() / (1.0 - h).ln(), scatter: Scatter::new(blocks, random) }
            }
            Distribution::Normal(percent) => {
                Self::Normal { moved: blocks as f64 * percent / 200.0, scatter: Scatter::new(blocks, random) }
            }
            Distribution::Zoned(zones) => {
                let (mut first, mut drawn) = (0, Vec::new());
                let mut begin = Size::Bytes(0).of(0);
                let whole = blocks * block_bytes;
                let mut percent = 0;
                for zone in zones {
                    // Percentages add up before they are rounded to blocks.
                    let end = match zone.size {
                        Size::Bytes(bytes) => begin + bytes,
                        Size::Percent(part) => {
                            percent += part;
                            Size::Percent(percent).of(whole)
                        }
                    };
                    begin = end;
                    let end = (end / block_bytes).min(blocks);
                    if end <= first && zone.access > 0 {
                        return Err(format!(
                            "a zone with {} % of the operations has no block in {whole} bytes",
                            zone.access
                        ));
                    }
                    drawn.push((zone.access, first, end - first.min(end)));
                    first = end.max(first);
                }
                Self::Zoned(drawn)
            }
        })
    }

    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform { blocks } => random.below(*blocks),
            Self::Zipf { zipfian, scatter } => scatter.place(zipfian.draw(random)),
            Self::Pareto { power, scatter } => {
                scatter.place(((random.unit().powf(*power) * scatter.blocks as f64) as u64).min(scatter.blocks - 1))
            }
            Self::Normal { moved, scatter } => {
                // Source: fio's gauss_next().
                let mean = (0..NORMAL_DRAWS).map(|_| random.unit()).sum::<f64>() / f64::from(NORMAL_DRAWS);
                let rank = mean * scatter.blocks as f64 + moved * (2.0 * random.unit() - 1.0);
                scatter.place((rank.max(0.0) as u64).min(scatter.blocks - 1))
            }
            Self::Zoned(zones) => {
                let mut drawn = random.below(100);
                for (access, first, blocks) in zones {
                    match drawn.checked_sub(*access) {
                        Some(rest) => drawn = rest,
                        None => return first + random.below(*blocks),
                    }
                }
                0
            }
        }
    }
}

/// Spreads ranks over the range, so that the popular are no neighbours: each has a place of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scatter {
    blocks: u64,
    factor: u64,
    from: u64,
}

impl Scatter {
    fn new(blocks: u64, random: &mut Random) -> Self {
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        // Near the golden section of the range, and without a common factor with it.
        let near = ((blocks as f64 * 0.618_033_988_75) as u64).max(1);
        let factor = (near..).find(|factor| gcd(*factor, blocks) == 1).unwrap_or(1);
        Self { blocks, factor, from: random.below(blocks) }
    }

    #[inline]
    fn place(&self, rank: u64) -> u64 {
        ((u128::from(rank) * u128::from(self.factor) + u128::from(self.from)) % u128::from(self.blocks)) as u64
    }
}

/// Visited units: a bit each, and above them a bit for each 64 that are all visited, up to one word.
#[derive(Debug, Clone)]
pub(super) struct Map {
    levels: Vec<Vec<u64>>,
    units: u64,
    free: u64,
}

impl Map {
    pub(super) fn new(units: u64) -> Self {
        let (mut levels, mut bits) = (Vec::new(), units);
        loop {
            let words = bits.div_ceil(64).max(1);
            let mut level = vec![0; words as usize];
            // Units beyond the end count as visited.
            if !bits.is_multiple_of(64) || bits == 0 {
                level[words as usize - 1] = u64::MAX << (bits % 64);
            }
            levels.push(level);
            if words == 1 {
                return Self { levels, units, free: units };
            }
            bits = words;
        }
    }

    /// Marks all units as unvisited.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.units);
    }

    /// Memory of a map with `units` units, bytes.
    pub(super) fn bytes_of(units: u64) -> u64 {
        units / 8 + units / 500
    }

    /// The next unvisited unit from `wanted` on, wrapping around. When all are visited, all are cleared.
    pub(super) fn free_from(&mut self, wanted: u64) -> u64 {
        if self.free == 0 {
            self.clear();
        }
        self.find(wanted).or_else(|| self.find(0)).unwrap_or(0)
    }

    fn find(&self, from: u64) -> Option<u64> {
        let (mut at, mut level) = (from, 0);
        loop {
            // Up while there is nothing behind `at` in its word.
            let words = self.levels.get(level)?;
            let word = *words.get((at / 64) as usize)?;
            let free = !word & (u64::MAX << (at % 64));
            if free == 0 {
                (at, level) = (at / 64 + 1, level + 1);
                continue;
            }
            at = at / 64 * 64 + u64::from(free.trailing_zeros());
            while level > 0 {
                level -= 1;
                at = at * 64 + u64::from((!self.levels[level][at as usize]).trailing_zeros());
            }
            return Some(at);
        }
    }

    /// Marks up to `count` unvisited units from `first` on; returns their number.
    pub(super) fn take(&mut self, first: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count && first + taken < self.units {
            let mut at = first + taken;
            if self.levels[0][(at / 64) as usize] >> (at % 64) & 1 == 1 {
                break;
            }
            taken += 1;
            for level in &mut self.levels {
                let word = &mut level[(at / 64) as usize];
                *word |= 1 << (at % 64);
                if *word != u64::MAX {
                    break;
                }
                at /= 64;
            }
        }
        self.free -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{size_range, size_split};
    use super::*;

    #[test]
    fn a_map_gives_each_unit_its_turn_and_then_begins_anew() {
        for units in [1, 63, 64, 65, 4_096, 4_097, 300_000] {
            let (mut map, mut random) = (Map::new(units), Random::new(units));
            for _lap in 0..2 {
                let mut seen = vec![false; units as usize];
                for _ in 0..units {
                    let unit = map.free_from(random.below(units));
                    assert_eq!(map.take(unit, 1), 1);
                    assert!(!std::mem::replace(&mut seen[unit as usize], true), "{unit} of {units} again");
                }
                assert_eq!(map.free, 0);
            }
        }
        let mut map = Map::new(100);
        assert_eq!((map.take(10, 5), map.take(8, 9), map.free_from(8)), (5, 2, 15));
        assert_eq!((map.take(98, 9), map.free_from(98)), (2, 0), "not beyond the end, and from the beginning again");
    }

    fn counts(distribution: &Distribution, blocks: u64, draws: u32) -> Vec<f64> {
        let mut random = Random::new(3);
        let draw = Draw::new(distribution, blocks, 4096, &mut random).unwrap();
        let mut counts = vec![0.0; blocks as usize];
        (0..draws).for_each(|_| counts[draw.next(&mut random) as usize] += 1.0);
        counts
    }

    #[test]
    fn distributions_agree_with_their_closed_forms() {
        let mut zipf = counts(&Distribution::Zipf(1.2), 100, 400_000);
        zipf.sort_by(|a, b| b.total_cmp(a));
        let weights: Vec<_> = (1..=100).map(|rank| f64::from(rank).powf(-1.2)).collect();
        let sum: f64 = weights.iter().sum();
        for (seen, weight) in zipf.iter().zip(weights).take(20) {
            let wanted = 400_000.0 * weight / sum;
            assert!((seen - wanted).abs() < 5.0 * wanted.sqrt(), "{seen} of {wanted}");
        }
        let mut pareto = counts(&Distribution::Pareto(0.2), 1_000, 400_000);
        pareto.sort_by(|a, b| b.total_cmp(a));
        for part in [0.2_f64, 0.04] {
            let seen: f64 = pareto[..(1_000.0 * part) as usize].iter().sum::<f64>() / 400_000.0;
            // 20 % of the blocks get 80 %, 20 % of these 80 % of that.
            let wanted = part.powf(0.8_f64.ln() / 0.2_f64.ln());
            assert!((seen - wanted).abs() < 0.005, "{part}: {seen}, not {wanted}");
        }
        let mut normal = counts(&Distribution::Normal(0.0), 1_000, 400_000);
        normal.sort_by(|a, b| b.total_cmp(a));
        // Within one and two deviations of 1,000 / 12 blocks to either side.
        for (deviations, share) in [(1.0_f64, 0.683), (2.0, 0.954)] {
            let seen: f64 = normal[..(2.0 * deviations * 1_000.0 / 12.0) as usize].iter().sum::<f64>() / 400_000.0;
            assert!((seen - share).abs() < 0.01, "{deviations}: {seen}, not {share}");
        }
        let zone = |access, percent| Zone { access, size: Size::Percent(percent) };
        let zoned = counts(&Distribution::Zoned(vec![zone(60, 10), zone(30, 20), zone(10, 70)]), 200, 300_000);
        for (blocks, share) in [(0..20, 0.6), (20..60, 0.3), (60..200, 0.1)] {
            let seen: f64 = zoned[blocks].iter().sum::<f64>() / 300_000.0;
            assert!((seen - share).abs() < 0.005, "{seen}, not {share}");
        }
    }

    #[test]
    fn sizes_come_in_their_proportions() {
        let mut random = Random::new(1);
        let split = size_split("4k/10:64k/50:32k/", 1024).unwrap();
        assert_eq!(split, Sizes::Split(vec![(4_096, 10), (65_536, 50), (32_768, 40)]));
        let drawn: Vec<_> = (0..100_000).map(|_| split.draw(&mut random)).collect();
        let share = |bytes| drawn.iter().filter(|drawn| **drawn == bytes).count() as f64 / 1e5;
        assert!((share(4_096) - 0.1).abs() < 0.005 && (share(65_536) - 0.5).abs() < 0.01);
        assert!((split.mean_bytes() - 46_284.8).abs() < 0.01);
        let range = size_range("4k-18k", 1024).unwrap();
        let drawn: Vec<_> = (0..10_000).map(|_| range.draw(&mut random)).collect();
        assert!(drawn.iter().all(|bytes| bytes.is_multiple_of(4_096) && *bytes <= 16_384));
        assert_eq!((range.max_bytes(), range.mean_bytes()), (16_384, 10_240.0));
        for wrong in ["4k/60:8k/50", "4k/60:8k/30", "0/", "4k/x"] {
            assert!(size_split(wrong, 1024).is_err(), "{wrong}");
        }
    }
}
