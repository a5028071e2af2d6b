//! Contents of written buffers that are not simply new random data. Source: `lib/rand.c` and `fill_io_buffer()` of fio.

use super::filler::Filler;
use crate::choice::with_defaults;
use device::salt::{SECTOR_BYTES, STAMP_BYTES, stamp_end};
use sys::random::Random;

/// fio's multiplier from one random word to the next: the golden ratio.
const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;

/// The choice of buffers that repeat others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DedupeMode {
    /// The buffer before.
    #[default]
    Repeat,
    /// Any of a set of buffers.
    WorkingSet,
}

with_defaults! {
    /// The options on the contents of writes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Content {
        pub zeros: bool = false,
        pub pattern: Option<Filler> = None,
        /// Percent of each chunk that is zeros, or the pattern.
        pub compress_pct: u64 = 0,
        /// Bytes of a chunk; 0: the smallest write.
        pub chunk_bytes: u64 = 0,
        /// Percent of the buffers that repeat others.
        pub dedupe_pct: u64 = 0,
        pub dedupe_mode: DedupeMode = DedupeMode::Repeat,
        /// Size of the set of buffers that are repeated, percent of the job's size.
        pub working_set_pct: u64 = 5,
        /// True if jobs repeat each other's buffers.
        pub dedupe_global: bool = false,
    }
}

impl Content {
    /// True if each write is new random data all over, for which there is [`device::salt::Salt`].
    pub(super) fn is_random(&self) -> bool {
        !self.zeros && self.pattern.is_none() && self.compress_pct == 0 && self.dedupe_pct == 0
    }

    /// Fills `data` as fio does with `seed`, the first part of each `segment` bytes at random and the rest not. `key`:
    /// whole sectors of the random part get the guard's stamp.
    pub(super) fn fill_mixed(&self, data: &mut [u8], seed: u64, segment: usize, key: Option<u64>) {
        for chunk in data.chunks_mut(segment.max(1)) {
            let random = (segment as u64 * (100 - self.compress_pct) / 100) as usize;
            let (random, rest) = chunk.split_at_mut(random.min(chunk.len()));
            fill_random(random, seed, key);
            match &self.pattern {
                Some(pattern) => pattern.fill(rest, 0, 0),
                None => rest.fill(0),
            }
        }
    }
}

/// Fills `data` with the random words that fio makes of `seed`, and with stamps of `key` at the ends of sectors.
pub(super) fn fill_random(data: &mut [u8], seed: u64, key: Option<u64>) {
    let mut words = [1, 2, 3, 5].map(|prime: u64| seed.wrapping_mul(prime));
    let (groups, rest) = data.as_chunks_mut::<32>();
    for group in groups {
        for (bytes, word) in group.as_chunks_mut::<8>().0.iter_mut().zip(&mut words) {
            *bytes = word.to_le_bytes();
            *word = word.wrapping_mul(GOLDEN);
        }
    }
    for bytes in rest.chunks_mut(8) {
        bytes.copy_from_slice(&words[0].to_le_bytes()[..bytes.len()]);
        words[0] = words[0].wrapping_mul(GOLDEN);
    }
    if let Some(key) = key {
        let sectors = data.as_chunks_mut::<SECTOR_BYTES>().0;
        sectors.iter_mut().for_each(|sector| stamp_end(&mut sector[SECTOR_BYTES - STAMP_BYTES..], key));
    }
}

/// The contents of one stream's writes, in their order.
#[derive(Debug)]
pub(super) struct Contents {
    content: Content,
    segment: usize,
    random: Random,
    /// Seed of the last buffer that repeats none.
    last: u64,
    /// Seed and number of the buffers in the working set.
    set: (u64, u64),
}

impl Contents {
    /// Contents of writes of at least `min_bytes` to `area_bytes`.
    pub(super) fn new(content: Content, min_bytes: u64, area_bytes: u64, seed: u64, shared_seed: u64) -> Self {
        let chunk = if content.chunk_bytes == 0 { min_bytes } else { content.chunk_bytes.min(min_bytes) };
        let set = (area_bytes.saturating_mul(content.working_set_pct) / 100 / min_bytes.max(1)).max(1);
        let set_seed = if content.dedupe_global { shared_seed } else { seed };
        let mut random = Random::new(seed);
        let last = random.next_u64();
        Self { content, segment: chunk as usize, random, last, set: (set_seed, set) }
    }

    pub(super) fn fill(&mut self, data: &mut [u8], key: u64) {
        let Content { zeros, pattern, compress_pct, dedupe_pct, dedupe_mode, .. } = &self.content;
        match pattern {
            _ if *compress_pct > 0 || *dedupe_pct > 0 => {}
            Some(pattern) => return pattern.fill(data, 0, 0),
            None if *zeros => return data.fill(0),
            None => {}
        }
        let repeats = self.random.below(100) < *dedupe_pct;
        let seed = match dedupe_mode {
            DedupeMode::Repeat if repeats => self.last,
            DedupeMode::WorkingSet if repeats => Random::for_part(self.set.0, self.random.below(self.set.1)).next_u64(),
            _ => {
                self.last = self.random.next_u64();
                self.last
            }
        };
        for (chunk, at) in data.chunks_mut(self.segment.max(1)).zip(0..) {
            // Each chunk differs from the one before, and a repeated buffer has the same.
            let seed = Random::for_part(seed, at).next_u64();
            self.content.fill_mixed(chunk, seed, self.segment, Some(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn random_data_is_what_fio_makes_of_the_seed() {
        // A block of fio 3.33 (verify=crc32c, bs=4k) whose header has this seed, from byte 0xa8 and from its end.
        let mut data = [0; 4096];
        fill_random(&mut data, 0x88bb_0a8c_f6db_562e, None);
        assert_eq!(data[0xa8..0xb0], [0x34, 0x88, 0x01, 0x06, 0xbf, 0xff, 0xae, 0x50]);
        assert_eq!(data[0x70..0x78], [0xbe, 0xdd, 0x33, 0xea, 0x88, 0x07, 0x3d, 0x71]);
        // A part is its beginning, down to bytes.
        let mut part = [0; 4091];
        fill_random(&mut part, 0x88bb_0a8c_f6db_562e, None);
        assert_eq!(part[..4064], data[..4064]);
    }

    #[test]
    fn chunks_have_their_share_of_zeros_or_of_the_pattern_at_the_end() {
        let content = Content { compress_pct: 25, ..Content::default() };
        let mut data = [0xaa; 8192];
        content.fill_mixed(&mut data, 7, 4096, Some(42));
        for chunk in data.chunks(4096) {
            assert!(
                chunk[3072..].iter().all(|byte| *byte == 0)
                    && chunk[..3072].iter().filter(|byte| **byte == 0).count() < 60
            );
            assert!(chunk[..3072].chunks(512).all(|sector| device::salt::is_stamped(sector, 42)));
        }
        let pattern = Filler::parse("\"ab\"", false).ok();
        Content { compress_pct: 100, pattern, ..Content::default() }.fill_mixed(&mut data, 7, 4096, None);
        assert!(data.chunks(2).all(|pair| pair == b"ab"));
    }

    #[test]
    fn buffers_repeat_as_often_as_they_are_to() {
        let distinct = |content: Content| {
            let mut contents = Contents::new(content, 4096, 400 * 4096, 1, 9);
            let mut buffers = HashSet::new();
            let mut data = vec![0; 8192];
            (0..2_000).for_each(|_| {
                contents.fill(&mut data, 42);
                assert_ne!(data[..4096], data[4096..]);
                buffers.insert(data.clone());
            });
            buffers.len()
        };
        let repeat = Content { dedupe_pct: 75, ..Content::default() };
        let seen = distinct(repeat.clone());
        assert!((430..570).contains(&seen), "{seen} of 2,000, a quarter");
        // 1,500 draws from a set of 100.
        let set = distinct(Content { dedupe_mode: DedupeMode::WorkingSet, working_set_pct: 25, ..repeat });
        assert!((530..670).contains(&set), "{set}");
        assert_eq!(distinct(Content { dedupe_pct: 100, ..Content::default() }), 1);
    }
}
