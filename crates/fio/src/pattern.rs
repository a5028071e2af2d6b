//! Choice of the next block: distributions of offsets and sizes, and the map of visited blocks.

use super::directions::DIRECTIONS;
use super::value::Size;
use load::choice::with_defaults;
use load::keys::Zipfian;
use results::format::greatest_divisor;
use sys::random::Random;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// Multiples of `min_bytes` up to `max_bytes`, equally likely.
    Range { min_bytes: u64, max_bytes: u64 },
    /// Sizes with their percentages, which add up to 100.
    Split(Vec<(u64, u64)>),
}

impl Sizes {
    pub fn same(bytes: u64) -> Self {
        Self::Range {
            min_bytes: bytes,
            max_bytes: bytes,
        }
    }

    pub fn min_bytes(&self) -> u64 {
        match self {
            Self::Range { min_bytes, .. } => *min_bytes,
            Self::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).min().unwrap_or(1),
        }
    }

    pub fn max_bytes(&self) -> u64 {
        match self {
            Self::Range {
                min_bytes,
                max_bytes,
            } => max_bytes / min_bytes * min_bytes,
            Self::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
        }
    }

    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Range { min_bytes, .. } => (min_bytes + self.max_bytes()) as f64 / 2.0,
            Self::Split(parts) => parts
                .iter()
                .map(|(bytes, percent)| *bytes as f64 * *percent as f64 / 100.0)
                .sum(),
        }
    }

    /// All sizes of a split. For a range only the smallest size, of which all others are multiples.
    pub fn each(&self) -> Vec<u64> {
        match self {
            Self::Range { min_bytes, .. } => vec![*min_bytes],
            Self::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).collect(),
        }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Range {
                min_bytes,
                max_bytes,
            } if max_bytes == min_bytes => *min_bytes,
            Self::Range {
                min_bytes,
                max_bytes,
            } => min_bytes * (1 + random.below(max_bytes / min_bytes)),
            Self::Split(parts) => {
                let drawn = by_percent(
                    parts.iter().map(|(bytes, percent)| (*percent, *bytes)),
                    random,
                );
                drawn.unwrap_or_else(|| self.max_bytes())
            }
        }
    }
}

/// Draws one of `parts` by their percentages. `None`: the draw fell into the rest up to 100 %.
#[inline]
pub(super) fn by_percent<T>(
    parts: impl Iterator<Item = (u64, T)>,
    random: &mut Random,
) -> Option<T> {
    let mut drawn = random.below(100);
    for (percent, part) in parts {
        match drawn.checked_sub(percent) {
            Some(rest) => drawn = rest,
            None => return Some(part),
        }
    }
    None
}

#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    Uniform,
    /// The k-th most popular block gets operations in proportion to k^-theta, for this theta.
    Zipf(f64),
    /// For this h, a fraction h of the blocks gets 1 - h of the operations. The same holds within these blocks.
    Pareto(f64),
    /// The mean of twelve uniform offsets, shifted by up to half of this percentage of the range to either side.
    Normal(f64),
    /// Consecutive zones of the range, with their percent of the operations and their size.
    Zoned(Vec<(u64, Size)>),
}

with_defaults! {
    /// A job's options for the order of its offsets.
    #[derive(Debug, Clone)]
    pub struct OrderOptions {
        /// Alignment of random offsets, bytes.
        pub align: [Option<u64>; DIRECTIONS] = [None; DIRECTIONS],
        /// True if random offsets may repeat before every block was visited.
        pub norandommap: bool = false,
        /// True for `random_generator=lfsr`, which visits every block once even with `norandommap`.
        pub lfsr: bool = false,
        pub distribution: [Distribution; DIRECTIONS] = std::array::from_fn(|_| Distribution::Uniform),
        /// Bytes skipped between sequential operations; negative: backwards.
        pub skip: i64 = 0,
        /// Number of operations in each sequential run that begins at a random offset.
        pub run_length: u64 = 1,
        /// Percent of the operations of a random job that have random offsets.
        pub random_pct: [u64; DIRECTIONS] = [100; DIRECTIONS],
    }
}

/// Uniform draws averaged for a normally distributed offset, as in fio. Standard deviation: 1/12 of the range.
const NORMAL_DRAWS: u32 = 12;

/// Draws blocks of `0..blocks`.
#[derive(Debug, Clone)]
pub(super) struct OffsetSampler {
    ranks: Ranks,
    blocks: u64,
    /// Multiplier that spreads ranks over the range, so that popular blocks are not neighbours. The multiplier and
    /// `blocks` are coprime, so no two ranks share a block.
    factor: u64,
    /// Block of the most popular rank.
    shift: u64,
}

/// Draws blocks for uniform and zoned distributions, and ranks of blocks by popularity for other distributions.
#[derive(Debug, Clone)]
enum Ranks {
    Uniform,
    Zipf(Zipfian),
    /// Exponent that is applied to a uniform draw from 0 to 1.
    Pareto(f64),
    /// Maximum shift of an offset to either side, in blocks.
    Normal(f64),
    /// Percent of the operations, first block, number of blocks.
    Zoned(Vec<(u64, u64, u64)>),
}

impl OffsetSampler {
    /// `blocks` must not be 0. Errors: a zone has no whole block in the range.
    pub(super) fn new(
        distribution: &Distribution,
        blocks: u64,
        block_bytes: u64,
        random: &mut Random,
    ) -> Result<Self, String> {
        let ranks = match distribution {
            Distribution::Uniform => Ranks::Uniform,
            Distribution::Zipf(theta) => Ranks::Zipf(Zipfian::new(blocks, *theta)),
            // The first fraction x of the ranks gets x^(1/exponent) of the operations, so the fraction h gets 1 - h.
            Distribution::Pareto(h) => Ranks::Pareto(h.ln() / (1.0 - h).ln()),
            Distribution::Normal(percent) => Ranks::Normal(blocks as f64 * percent / 200.0),
            Distribution::Zoned(zones) => {
                Ranks::Zoned(zones_in_blocks(zones, blocks, block_bytes)?)
            }
        };
        let (factor, shift) = match ranks {
            Ranks::Uniform | Ranks::Zoned(_) => (1, 0),
            _ => {
                // The factor is near the golden section of `blocks`, and coprime with `blocks`.
                let near = ((blocks as f64 * 0.618_033_988_75) as u64).max(1);
                let factor = (near..)
                    .find(|factor| greatest_divisor(*factor, blocks) == 1)
                    .unwrap_or(1);
                (factor, random.below(blocks))
            }
        };
        Ok(Self {
            ranks,
            blocks,
            factor,
            shift,
        })
    }

    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        let blocks = self.blocks as f64;
        let rank = match &self.ranks {
            Ranks::Uniform => return random.below(self.blocks),
            Ranks::Zoned(zones) => {
                let zone = by_percent(
                    zones
                        .iter()
                        .map(|(access, first, blocks)| (*access, (first, blocks))),
                    random,
                );
                return zone.map_or(0, |(first, blocks)| first + random.below(*blocks));
            }
            Ranks::Zipf(zipfian) => zipfian.draw(random),
            Ranks::Pareto(power) => (random.unit().powf(*power) * blocks) as u64,
            Ranks::Normal(moved) => {
                // Source: fio's gauss_next().
                let mean =
                    (0..NORMAL_DRAWS).map(|_| random.unit()).sum::<f64>() / f64::from(NORMAL_DRAWS);
                (mean * blocks + moved * (2.0 * random.unit() - 1.0)) as u64
            }
        };
        let rank = u128::from(rank.min(self.blocks - 1));
        ((rank * u128::from(self.factor) + u128::from(self.shift)) % u128::from(self.blocks)) as u64
    }
}

/// Percent of the operations, first block and number of blocks of each zone.
fn zones_in_blocks(
    zones: &[(u64, Size)],
    blocks: u64,
    block_bytes: u64,
) -> Result<Vec<(u64, u64, u64)>, String> {
    let range_bytes = blocks * block_bytes;
    let mut first_block = 0;
    let mut end_bytes = 0_u64;
    let mut percent = 0;
    let mut zone_blocks = Vec::new();
    for (access, size) in zones {
        // Percentages add up before they are rounded to blocks.
        end_bytes = match *size {
            Size::Bytes(bytes) => end_bytes.saturating_add(bytes),
            Size::Percent(part) => {
                percent += part;
                Size::Percent(percent).bytes_of(range_bytes)
            }
        };
        let end = (end_bytes / block_bytes).min(blocks);
        if end <= first_block && *access > 0 {
            return Err(format!(
                "a zone of random_distribution with {access} % of the operations has no whole block of {block_bytes} bytes in the range of {range_bytes} bytes - enlarge the zone"
            ));
        }
        zone_blocks.push((*access, first_block, end - first_block.min(end)));
        first_block = end.max(first_block);
    }
    Ok(zone_blocks)
}

/// Visited units as levels of bitmaps. The lowest level has a bit per unit; each higher level has a bit per full word
/// of the level below, up to a single word.
#[derive(Debug, Clone)]
pub(super) struct RandomMap {
    levels: Vec<Vec<u64>>,
    units: u64,
    unvisited: u64,
}

impl RandomMap {
    pub(super) fn new(units: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = units;
        loop {
            let words = bits.div_ceil(64).max(1);
            let mut level = vec![0; words as usize];
            // Units beyond the end count as visited.
            if !bits.is_multiple_of(64) || bits == 0 {
                level[words as usize - 1] = u64::MAX << (bits % 64);
            }
            levels.push(level);
            if words == 1 {
                return Self {
                    levels,
                    units,
                    unvisited: units,
                };
            }
            bits = words;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.units);
    }

    /// Memory of a map with `units` units, bytes.
    pub(super) fn bytes_of(units: u64) -> u64 {
        units / 8 + units / 500
    }

    /// The next unvisited unit from `start` on, wrapping around. Once all units are visited, the map is cleared.
    pub(super) fn next_unvisited(&mut self, start: u64) -> u64 {
        if self.unvisited == 0 {
            self.clear();
        }
        self.find(start).or_else(|| self.find(0)).unwrap_or(0)
    }

    fn find(&self, start: u64) -> Option<u64> {
        let mut at = start;
        let mut level = 0;
        loop {
            // Go up a level while the word has no unvisited bit from `at` on.
            let words = self.levels.get(level)?;
            let word = *words.get((at / 64) as usize)?;
            let unvisited_bits = !word & (u64::MAX << (at % 64));
            if unvisited_bits == 0 {
                (at, level) = (at / 64 + 1, level + 1);
                continue;
            }
            at = at / 64 * 64 + u64::from(unvisited_bits.trailing_zeros());
            while level > 0 {
                level -= 1;
                at = at * 64 + u64::from((!self.levels[level][at as usize]).trailing_zeros());
            }
            return Some(at);
        }
    }

    /// Marks up to `count` unvisited units from `first` on; returns their number.
    pub(super) fn mark_visited(&mut self, first: u64, count: u64) -> u64 {
        let mut visited_count = 0;
        while visited_count < count && first + visited_count < self.units {
            let mut at = first + visited_count;
            if self.levels[0][(at / 64) as usize] >> (at % 64) & 1 == 1 {
                break;
            }
            visited_count += 1;
            for level in &mut self.levels {
                let word = &mut level[(at / 64) as usize];
                *word |= 1 << (at % 64);
                if *word != u64::MAX {
                    break;
                }
                at /= 64;
            }
        }
        self.unvisited -= visited_count;
        visited_count
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{OptionValue, size_range, size_split};
    use super::*;

    #[test]
    fn a_random_map_visits_each_block_once_and_then_begins_again() {
        for units in [1, 63, 64, 65, 4_096, 4_097, 300_000] {
            let mut map = RandomMap::new(units);
            let mut random = Random::new(units);
            for _lap in 0..2 {
                let mut seen = vec![false; units as usize];
                for _ in 0..units {
                    let unit = map.next_unvisited(random.below(units));
                    assert_eq!(map.mark_visited(unit, 1), 1);
                    assert!(
                        !std::mem::replace(&mut seen[unit as usize], true),
                        "{unit} of {units} again"
                    );
                }
                assert_eq!(map.unvisited, 0);
            }
        }
        let mut map = RandomMap::new(100);
        assert_eq!(map.mark_visited(10, 5), 5);
        assert_eq!(map.mark_visited(8, 9), 2);
        assert_eq!(map.next_unvisited(8), 15);
        assert_eq!(
            (map.mark_visited(98, 9), map.next_unvisited(98)),
            (2, 0),
            "marks stop at the end, and the search wraps around"
        );
    }

    fn counts(distribution: &Distribution, blocks: u64, draws: u32) -> Vec<f64> {
        let mut random = Random::new(3);
        let draw = OffsetSampler::new(distribution, blocks, 4096, &mut random).unwrap();
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
            let expected = 400_000.0 * weight / sum;
            assert!(
                (seen - expected).abs() < 5.0 * expected.sqrt(),
                "{seen} of {expected}"
            );
        }
        let mut pareto = counts(&Distribution::Pareto(0.2), 1_000, 400_000);
        pareto.sort_by(|a, b| b.total_cmp(a));
        for part in [0.2_f64, 0.04] {
            let seen: f64 = pareto[..(1_000.0 * part) as usize].iter().sum::<f64>() / 400_000.0;
            // 20 % of the blocks get 80 % of the operations, and 20 % of those blocks get 80 % of those operations.
            let expected = part.powf(0.8_f64.ln() / 0.2_f64.ln());
            assert!(
                (seen - expected).abs() < 0.005,
                "{part}: {seen}, not {expected}"
            );
        }
        let mut normal = counts(&Distribution::Normal(0.0), 1_000, 400_000);
        normal.sort_by(|a, b| b.total_cmp(a));
        // Offsets within one and within two standard deviations of the mean. A standard deviation is 1,000 / 12 blocks.
        for (deviations, share) in [(1.0_f64, 0.683), (2.0, 0.954)] {
            let seen: f64 = normal[..(2.0 * deviations * 1_000.0 / 12.0) as usize]
                .iter()
                .sum::<f64>()
                / 400_000.0;
            assert!(
                (seen - share).abs() < 0.01,
                "{deviations}: {seen}, not {share}"
            );
        }
        let zone = |access, percent| (access, Size::Percent(percent));
        let zoned = counts(
            &Distribution::Zoned(vec![zone(60, 10), zone(30, 20), zone(10, 70)]),
            200,
            300_000,
        );
        for (blocks, share) in [(0..20, 0.6), (20..60, 0.3), (60..200, 0.1)] {
            let seen: f64 = zoned[blocks].iter().sum::<f64>() / 300_000.0;
            assert!((seen - share).abs() < 0.005, "{seen}, not {share}");
        }
    }

    #[test]
    fn block_sizes_of_bssplit_and_bsrange_are_drawn_in_their_proportions() {
        let mut random = Random::new(1);
        let value = |text| OptionValue {
            text,
            kb_base: 1024,
        };
        let split = size_split(value("4k/10:64k/50:32k/")).unwrap();
        assert_eq!(
            split,
            Sizes::Split(vec![(4_096, 10), (65_536, 50), (32_768, 40)])
        );
        let drawn: Vec<_> = (0..100_000).map(|_| split.draw(&mut random)).collect();
        let share = |bytes| drawn.iter().filter(|drawn| **drawn == bytes).count() as f64 / 1e5;
        assert!((share(4_096) - 0.1).abs() < 0.005 && (share(65_536) - 0.5).abs() < 0.01);
        assert!((split.mean_bytes() - 46_284.8).abs() < 0.01);
        let range = size_range(value("4k-18k")).unwrap();
        let drawn: Vec<_> = (0..10_000).map(|_| range.draw(&mut random)).collect();
        assert!(
            drawn
                .iter()
                .all(|bytes| bytes.is_multiple_of(4_096) && *bytes <= 16_384)
        );
        assert_eq!((range.max_bytes(), range.mean_bytes()), (16_384, 10_240.0));
        for (text, percents) in [
            ("4k/33:64k/33:8k/33", [33, 33, 34]),
            ("4k/30:64k/50:8k/1", [30, 69, 1]),
            ("4k/0:64k/50:8k/30", [20, 50, 30]),
        ] {
            let Sizes::Split(parts) = size_split(value(text)).unwrap() else {
                panic!("{text}")
            };
            let found: Vec<_> = parts.iter().map(|(_, percent)| *percent).collect();
            assert_eq!(found, percents, "{text}");
        }
        for wrong in ["4k/60:8k/50", "0/", "4k/x"] {
            assert!(size_split(value(wrong)).is_err(), "{wrong}");
        }
    }
}
