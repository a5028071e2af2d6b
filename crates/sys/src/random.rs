//! A small, fast random generator. The same seed gives the same run on every machine.
//!
//! splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014) passes
//! BigCrush, has one word of state and no bad seeds. Not for secrets.

/// A stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Stream for `seed`. Adjacent seeds give unrelated streams.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Stream for part `part` (a load, a device, a shard) of a common `seed`.
    pub fn for_part(seed: u64, part: u64) -> Self {
        let mut parts = Self::new(seed ^ part.wrapping_mul(0xd605_bbb5_8c8a_bc25));
        Self::new(parts.next_u64())
    }

    /// 64 uniform random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`, 0 for an empty range. Computed by multiplication (Lemire, "Fast random integer
    /// generation in an interval", 2019) without the rejection step: the bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_its_published_numbers() {
        // From the reference implementation by Vigna (prng.di.unimi.it/splitmix64.c), seed 1234567.
        let mut random = Random::new(1_234_567);
        let numbers: Vec<_> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn below_covers_the_whole_range_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_600..10_400).contains(count)),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn parts_of_a_seed_have_different_streams() {
        let found = Random::for_part(1, 0).next_u64();
        assert_ne!(found, Random::for_part(1, 1).next_u64());
    }
}
