//! The random fill of writes, which options and ACT call salt: random words, or zeros followed by random words in each
//! sector, new for every write.
//!
//! The generator is xorshift128+ (Vigna, "Further scramblings of Marsaglia's xorshift generators", 2017) in eight lanes
//! side by side, which the compiler turns into vector code. Filling a large block must be far faster than writing the
//! block to any drive. Each 512-byte sector ends with a stamp, by which the guard later recognises flashproof's data.
//! Without the key a stamp looks as random as the rest.
//!
//! Filling is resumable at any sector, so that an 8 MiB block can be prepared in slices between
//! other operations.
//!
//! Layout of a stamped sector:
//!
//! ```text
//! sector of 512 bytes, as 64 little-endian words of 64 bits
//! | 0 .. 61: data | 62: nonce (random) | 63: stamp(nonce, key) |
//! ```
//!
//! The key is generated when flashproof first writes to a device, and stored in the guard's record of that device. The
//! guard mistakes a foreign sector for flashproof's data with a probability of 2^-64. A stamp protects a user's data
//! from mistakes, not from attackers, who can forge it.

use crate::random::Random;

/// Bytes of a sector of fill, for any sector size of the device; as in ACT (`INTERVAL_SIZE`). Each sector has a stamp.
pub const SECTOR_BYTES: usize = 512;

const LANES: usize = 8;
const WORDS: usize = SECTOR_BYTES / 8;

/// The generator of placed fill is seeded once per this many bytes: rarely enough to be cheap. A fill begins at a
/// multiple of this size.
pub const UNIT_BYTES: usize = 4096;

/// Random fill that never repeats.
#[derive(Debug, Clone)]
pub struct Salt {
    generator: Generator,
    zero_words: usize,
    key: u64,
}

impl Salt {
    /// Random fill for `compress_pct` (0 to 100: share of each sector that is random; the rest is zeros),
    /// stamped with `key`.
    ///
    /// The words are split as in `rand_fill` of ACT 6.6: zeros first, their number rounded down, so that 1 % gives one
    /// random word of 64.
    pub fn new(seed: u64, compress_pct: u32, key: u64) -> Self {
        let zero_words = WORDS * (100 - compress_pct.min(100) as usize) / 100;
        Self {
            generator: Generator::new(Random::new(seed)),
            zero_words,
            key,
        }
    }

    /// Fills the whole sectors of `bytes` with new data. A tail shorter than [`SECTOR_BYTES`] stays unchanged.
    // Inlined into the crate of the run loop, for speed.
    #[inline]
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let (sectors, _) = bytes.as_chunks_mut::<SECTOR_BYTES>();
        for sector in sectors {
            self.generator
                .fill_sector(sector, self.zero_words, self.key);
        }
    }
}

/// Random fill that is a function of seed, pass and offset, so that data read back can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedSalt {
    seed: u64,
    key: u64,
}

impl PlacedSalt {
    /// The fill of pass number `pass` of a preparation with `seed`, stamped with `key`.
    pub fn new(seed: u64, pass: u32, key: u64) -> Self {
        Self {
            seed: Random::for_part(seed, pass.into()).next_u64(),
            key,
        }
    }

    /// Fills `bytes` with the data of `offset`, a multiple of [`UNIT_BYTES`]. A partial sector at the end gets the
    /// first bytes of that sector, and its own stamp if it has at least [`STAMP_BYTES`].
    #[inline]
    pub fn fill(&self, bytes: &mut [u8], offset: u64) {
        debug_assert!(offset.is_multiple_of(UNIT_BYTES as u64), "{offset}");
        for (unit, unit_index) in bytes
            .chunks_mut(UNIT_BYTES)
            .zip(offset / UNIT_BYTES as u64..)
        {
            let mut generator = Generator::new(Random::for_part(self.seed, unit_index));
            let (sectors, rest) = unit.as_chunks_mut::<SECTOR_BYTES>();
            for sector in sectors {
                generator.fill_sector(sector, 0, self.key);
            }
            if !rest.is_empty() {
                let mut full_sector = [0; SECTOR_BYTES];
                generator.fill_sector(&mut full_sector, 0, self.key);
                rest.copy_from_slice(&full_sector[..rest.len()]);
                stamp_end(rest, self.key);
            }
        }
    }
}

/// State of the generator, by lane.
#[derive(Debug, Clone)]
struct Generator {
    s0: [u64; LANES],
    s1: [u64; LANES],
}

impl Generator {
    fn new(mut random: Random) -> Self {
        Self {
            s0: std::array::from_fn(|_| random.next_u64()),
            // A lane whose state is all zeros would stay zero.
            s1: std::array::from_fn(|_| random.next_u64() | 1),
        }
    }

    #[inline]
    fn fill_sector(&mut self, sector: &mut [u8; SECTOR_BYTES], zero_words: usize, key: u64) {
        let (steps, _) = sector.as_chunks_mut::<{ LANES * 8 }>();
        for step in steps {
            let words = self.step();
            for (bytes, word) in step.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
        }
        sector[..zero_words * 8].fill(0);
        // The stamp needs two random words. Without a stamp, the guard asks before erasing the data.
        if zero_words <= WORDS - 2 {
            stamp_end(sector, key);
        }
    }

    #[inline]
    fn step(&mut self) -> [u64; LANES] {
        let mut words = [0; LANES];
        for ((s0, s1), word) in self.s0.iter_mut().zip(&mut self.s1).zip(&mut words) {
            let mut x = *s0;
            let y = *s1;
            x ^= x << 23;
            x ^= y ^ (x >> 18) ^ (y >> 5);
            *s0 = y;
            *s1 = x;
            *word = x.wrapping_add(y);
        }
        words
    }
}

/// Size of nonce and stamp at the end of a sector, bytes.
pub const STAMP_BYTES: usize = 16;

/// The finaliser of splitmix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014, with Stafford's thirteenth set of constants.
#[inline]
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The stamp: word 63 of a sector with `nonce` in word 62 and the device's `key`.
#[inline]
#[must_use]
pub const fn stamp(nonce: u64, key: u64) -> u64 {
    // The added constant (the golden ratio, as in splitmix64) prevents zero from being a fixed point.
    mix(mix(nonce ^ key)
        .wrapping_add(key.rotate_left(32))
        .wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// True if a sector ends with the stamp of `key`. A sector shorter than [`SECTOR_BYTES`] is the partial sector at the
/// end of a file; below [`STAMP_BYTES`] it has no stamp.
pub fn is_stamped(sector: &[u8], key: u64) -> bool {
    match sector.as_rchunks::<8>().1 {
        [.., nonce, found] => u64::from_le_bytes(*found) == stamp(u64::from_le_bytes(*nonce), key),
        _ => false,
    }
}

/// Writes the stamp behind the nonce, at the end of a sector or partial sector of at least [`STAMP_BYTES`].
#[inline]
pub fn stamp_end(sector: &mut [u8], key: u64) {
    if let [.., nonce, found] = sector.as_rchunks_mut::<8>().1 {
        *found = stamp(u64::from_le_bytes(*nonce), key).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(compress_pct: u32) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0xaa; SECTOR_BYTES];
        Salt::new(1, compress_pct, 42).fill(&mut bytes);
        bytes
    }

    fn zero_words(bytes: &[u8]) -> usize {
        bytes
            .as_chunks::<8>()
            .0
            .iter()
            .filter(|word| **word == [0; 8])
            .count()
    }

    #[test]
    fn zeros_come_first_and_are_as_many_as_in_act() {
        for (compress_pct, zeros) in [(100, 0), (50, 32), (1, 63), (0, 64), (99, 0), (98, 1)] {
            let bytes = sector(compress_pct);
            assert_eq!(zero_words(&bytes), zeros, "compress-pct {compress_pct}");
            assert_eq!(zero_words(&bytes[..zeros * 8]), zeros, "zeros are in front");
        }
    }

    #[test]
    fn every_sector_ends_in_a_stamp() {
        let mut bytes = vec![0; 4 * SECTOR_BYTES];
        Salt::new(9, 100, 42).fill(&mut bytes);
        for sector in bytes.as_chunks::<SECTOR_BYTES>().0 {
            let words = sector.as_chunks::<8>().0;
            let found = u64::from_le_bytes(words[63]);
            assert_eq!(found, stamp(u64::from_le_bytes(words[62]), 42));
        }
    }

    #[test]
    fn filling_in_slices_gives_the_same_data_and_the_next_fill_gives_new_data() {
        let mut whole = vec![0; 8192];
        let mut sliced = vec![0; 8192];
        let mut fresh = Salt::new(3, 100, 0);
        fresh.fill(&mut whole);
        let mut again = Salt::new(3, 100, 0);
        let (head, tail) = sliced.split_at_mut(1536);
        again.fill(head);
        again.fill(tail);
        assert_eq!(whole, sliced);
        fresh.fill(&mut sliced);
        assert_ne!(whole, sliced);
    }

    #[test]
    fn half_of_the_bits_of_random_fill_are_ones() {
        let mut bytes = vec![0; 1 << 20];
        Salt::new(5, 100, 7).fill(&mut bytes);
        let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let share = ones as f64 / (bytes.len() * 8) as f64;
        assert!((share - 0.5).abs() < 0.001, "share of ones {share}");
    }

    fn placed(pass: u32, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xaa; len];
        PlacedSalt::new(7, pass, 42).fill(&mut bytes, offset);
        bytes
    }

    #[test]
    fn placed_fill_is_the_same_for_any_split_into_pieces() {
        let whole = placed(1, 0, 5 * UNIT_BYTES + 700);
        for unit in 0..6 {
            let at = unit * UNIT_BYTES;
            assert!(
                placed(1, at as u64, whole.len() - at) == whole[at..],
                "from unit {unit}"
            );
        }
        assert!(
            placed(1, 0, 4096) == whole[..4096],
            "a shorter piece is its beginning"
        );
        let found = placed(2, 0, 4096);
        assert_ne!(found, placed(1, 0, 4096), "another pass is another fill");
        let found = placed(1, 4096, 4096);
        assert_ne!(found, placed(1, 0, 4096), "another place, too");
    }

    #[test]
    fn placed_fill_has_the_same_data_in_every_version_of_flashproof() {
        // A change of this value would make every prepared drive fail its verification.
        let sum = |bytes: &[u8]| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        assert_eq!(sum(&placed(1, 1 << 40, 8192)), 16_172_894_428_542_846_873);
    }

    #[test]
    fn a_partial_sector_is_stamped_at_its_end() {
        let bytes = placed(1, 0, 1024 + 100);
        assert!(
            bytes
                .chunks(SECTOR_BYTES)
                .all(|sector| is_stamped(sector, 42))
        );
        assert!(!is_stamped(&placed(1, 0, 15), 42), "too short for a stamp");
    }

    #[test]
    fn stamps_have_the_same_values_in_every_version_of_flashproof() {
        // A change of these values would make the guard ask about every prepared drive.
        assert_eq!(stamp(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(stamp(1, 2), stamp(1, 2));
    }

    #[test]
    fn one_bit_of_nonce_or_key_changes_half_of_the_stamp() {
        let mut changed = 0;
        for bit in 0..64 {
            changed += (stamp(5, 77) ^ stamp(5 ^ (1 << bit), 77)).count_ones();
            changed += (stamp(5, 77) ^ stamp(5, 77 ^ (1 << bit))).count_ones();
        }
        assert!(
            (3_700..4_500).contains(&changed),
            "{changed} of 8192 bits changed"
        );
    }

    #[test]
    fn a_stamp_is_recognised_only_with_its_key_and_if_it_is_undamaged() {
        let mut sector = placed(1, 0, SECTOR_BYTES);
        assert!(is_stamped(&sector, 42));
        assert!(!is_stamped(&sector, 43));
        sector[511] ^= 1;
        assert!(!is_stamped(&sector, 42));
        assert!(!is_stamped(&sector[..100], 42));
        stamp_end(&mut sector[..100], 42);
        assert!(
            is_stamped(&sector[..100], 42),
            "a part at the end of a file"
        );
    }
}
