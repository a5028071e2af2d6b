//! Contents of writes other than new random data, and the byte patterns of `verify_pattern` and `buffer_pattern`.
//! Source: `lib/rand.c`, `fill_io_buffer()` and `lib/pattern.c` of fio.

use load::choice::with_defaults;
use results::files::{self, Links};
use std::path::Path;
use sys::random::Random;
use sys::salt::{SECTOR_BYTES, STAMP_BYTES, stamp_end};

/// fio's multiplier from one random word to the next: the golden ratio.
const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;

with_defaults! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ContentOptions {
        pub zeros: bool = false,
        pub pattern: Option<BytePattern> = None,
        /// Percent of each chunk that is zeros, or the pattern.
        pub compress_pct: u64 = 0,
        /// Bytes of a chunk; 0: the smallest write.
        pub chunk_bytes: u64 = 0,
        /// Percent of the buffers that repeat another buffer.
        pub dedupe_pct: u64 = 0,
        /// True if repeats come from a working set of buffers, not from the last new buffer.
        pub dedupe_from_set: bool = false,
    }
}

impl ContentOptions {
    /// True if all data of each write is new and random: [`sys::salt::Salt`] then provides it.
    pub(super) fn is_random(&self) -> bool {
        !self.zeros && self.pattern.is_none() && self.compress_pct == 0 && self.dedupe_pct == 0
    }

    /// Fills `data` as fio does with `seed`: each `segment` begins with random bytes and ends with zeros or the
    /// pattern. Whole sectors of random bytes get the guard's stamp of `key`.
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

/// Fills `data` with the random words that fio derives from `seed`, and stamps the ends of sectors with `key`.
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
        sectors
            .iter_mut()
            .for_each(|sector| stamp_end(&mut sector[SECTOR_BYTES - STAMP_BYTES..], key));
    }
}

/// Size of the working set of repeated buffers, percent of the job's size.
const WORKING_SET_PCT: u64 = 5;

/// The contents of one stream's writes, in the order of the writes.
#[derive(Debug)]
pub(super) struct ContentSource {
    content: ContentOptions,
    segment: usize,
    random: Random,
    /// Seed of the last buffer that was not a repeat.
    last_seed: u64,
    /// Seed of the working set, and its number of buffers.
    working_set: (u64, u64),
}

impl ContentSource {
    /// Contents of writes of at least `min_bytes` to an area of `area_bytes`.
    pub(super) fn new(content: ContentOptions, min_bytes: u64, area_bytes: u64, seed: u64) -> Self {
        let chunk = if content.chunk_bytes == 0 {
            min_bytes
        } else {
            content.chunk_bytes.min(min_bytes)
        };
        let set_buffers =
            (area_bytes.saturating_mul(WORKING_SET_PCT) / 100 / min_bytes.max(1)).max(1);
        let mut random = Random::new(seed);
        let last_seed = random.next_u64();
        Self {
            content,
            segment: chunk as usize,
            random,
            last_seed,
            working_set: (seed, set_buffers),
        }
    }

    pub(super) fn fill(&mut self, data: &mut [u8], key: u64) {
        let ContentOptions {
            zeros,
            pattern,
            compress_pct,
            dedupe_pct,
            dedupe_from_set,
            ..
        } = &self.content;
        match pattern {
            _ if *compress_pct > 0 || *dedupe_pct > 0 => {}
            Some(pattern) => return pattern.fill(data, 0, 0),
            None if *zeros => return data.fill(0),
            None => {}
        }
        let is_repeat = self.random.below(100) < *dedupe_pct;
        if !is_repeat {
            self.last_seed = self.random.next_u64();
        }
        let seed = if is_repeat && *dedupe_from_set {
            let (set_seed, set_buffers) = self.working_set;
            Random::for_part(set_seed, self.random.below(set_buffers)).next_u64()
        } else {
            self.last_seed
        };
        for (chunk, at) in data.chunks_mut(self.segment.max(1)).zip(0..) {
            // Chunks of a buffer differ from each other; a repeated buffer has the same chunks.
            let seed = Random::for_part(seed, at).next_u64();
            self.content
                .fill_mixed(chunk, seed, self.segment, Some(key));
        }
    }
}

/// Maximum length of a pattern, bytes. fio 3.33 has a maximum of 512 bytes, later versions of 128 MiB.
const BYTES_MAX: usize = 1 << 20;

const OFFSET_BYTES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BytePattern {
    bytes: Vec<u8>,
    /// Positions in the pattern that the block's offset replaces.
    pub(super) offsets: Vec<usize>,
}

impl BytePattern {
    /// Parses a sequence of strings in quotes, file names between apostrophes, decimal and hexadecimal numbers, and,
    /// if `has_offsets`, `%o`.
    pub(super) fn parse(text: &str, has_offsets: bool) -> Result<Self, String> {
        let mut pattern = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            rest = match rest.as_bytes()[0] {
                b'\'' => {
                    let (path, rest) = rest[1..]
                        .split_once('\'')
                        .ok_or("the name of a file has no closing apostrophe")?;
                    let bytes = files::read(Path::new(path), Links::Followed, BYTES_MAX as u64)
                        .map_err(|error| format!("cannot read the pattern - {error}"))?;
                    pattern.bytes.extend(bytes);
                    rest
                }
                b'"' => {
                    let (string, rest) = rest[1..]
                        .split_once('"')
                        .ok_or("a string has no closing quote")?;
                    pattern.bytes.extend_from_slice(string.as_bytes());
                    rest
                }
                b'%' if has_offsets && rest.starts_with("%o") => {
                    pattern.offsets.push(pattern.bytes.len());
                    pattern.bytes.extend_from_slice(&[0; OFFSET_BYTES]);
                    &rest[2..]
                }
                _ => pattern.number(rest)?,
            };
            if pattern.bytes.len() > BYTES_MAX {
                return Err(format!("the pattern has more than {BYTES_MAX} bytes"));
            }
        }
        if pattern.bytes.is_empty() {
            Err("the pattern is empty".into())
        } else {
            Ok(pattern)
        }
    }

    /// Appends the bytes of the number at the start of `text`. Returns the rest of `text`.
    fn number<'a>(&mut self, text: &'a str) -> Result<&'a str, String> {
        let is_next_hex = |rest: &str| rest.starts_with(['x', 'X']);
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let mut end = digits
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(digits.len());
            // In 0xff0x14, the 0 before the second x begins a new number.
            end -= usize::from(is_next_hex(&digits[end..]) && digits[..end].ends_with('0'));
            if end == 0 {
                return Err("there is no hexadecimal digit after 0x".into());
            }
            let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
            // With an odd number of digits, the first digit is a byte by itself.
            let (odd, pairs) = digits.as_bytes()[..end].split_at(end % 2);
            self.bytes.extend(odd.iter().map(|digit| value(*digit)));
            self.bytes.extend(
                pairs
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|[high, low]| value(*high) << 4 | value(*low)),
            );
            return Ok(&digits[end..]);
        }
        let sign = usize::from(text.starts_with(['-', '+']));
        let digits = &text[sign..];
        let mut end = sign
            + digits
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(digits.len());
        end -= usize::from(is_next_hex(&text[end..]) && end > 1 && text[..end].ends_with('0'));
        let number = text[..end].parse::<i32>().map_err(
            |_| "a pattern is a sequence of \"strings\", numbers, 0xHEX and, only in verify_pattern, %o, without separators",
        )?;
        // Little-endian, without the zero bytes at the end.
        let bytes = number.to_le_bytes();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(1, |last| last + 1);
        self.bytes.extend_from_slice(&bytes[..used]);
        Ok(&text[end..])
    }

    /// Fills `data` with the pattern, from byte `start_byte` of the block at `offset` on.
    pub(super) fn fill(&self, data: &mut [u8], start_byte: usize, offset: u64) {
        let len = self.bytes.len();
        let mut at = 0;
        while at < data.len() {
            let position = (start_byte + at) % len;
            let count = (len - position).min(data.len() - at);
            data[at..at + count].copy_from_slice(&self.bytes[position..position + count]);
            at += count;
        }
        let value = offset.to_le_bytes();
        for place in self
            .offsets
            .iter()
            .flat_map(|start| (0..OFFSET_BYTES).map(move |byte| (start + byte, byte)))
        {
            let first = (place.0 + len - start_byte % len) % len;
            data.iter_mut()
                .skip(first)
                .step_by(len)
                .for_each(|byte| *byte = value[place.1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::modified;
    use std::collections::HashSet;

    #[test]
    fn random_data_of_a_seed_equals_fios() {
        // Two words of a block of fio 3.33 (verify=crc32c, bs=4k) whose header has this seed.
        let mut data = [0; 4096];
        fill_random(&mut data, 0x88bb_0a8c_f6db_562e, None);
        assert_eq!(
            data[0xa8..0xb0],
            [0x34, 0x88, 0x01, 0x06, 0xbf, 0xff, 0xae, 0x50]
        );
        assert_eq!(
            data[0x70..0x78],
            [0xbe, 0xdd, 0x33, 0xea, 0x88, 0x07, 0x3d, 0x71]
        );
        // A shorter buffer gets the same bytes from its beginning on.
        let mut part = [0; 4091];
        fill_random(&mut part, 0x88bb_0a8c_f6db_562e, None);
        assert_eq!(part[..4064], data[..4064]);
    }

    #[test]
    fn each_chunk_ends_in_its_compressible_share_of_zeros_or_of_the_pattern() {
        let content = modified(ContentOptions::default(), |it| it.compress_pct = 25);
        let mut data = [0xaa; 8192];
        content.fill_mixed(&mut data, 7, 4096, Some(42));
        for chunk in data.chunks(4096) {
            assert!(
                chunk[3072..].iter().all(|byte| *byte == 0)
                    && chunk[..3072].iter().filter(|byte| **byte == 0).count() < 60
            );
            assert!(
                chunk[..3072]
                    .chunks(512)
                    .all(|sector| sys::salt::is_stamped(sector, 42))
            );
        }
        let pattern = BytePattern::parse("\"ab\"", false).ok();
        ContentOptions {
            compress_pct: 100,
            pattern,
            ..ContentOptions::default()
        }
        .fill_mixed(&mut data, 7, 4096, None);
        assert!(data.chunks(2).all(|pair| pair == b"ab"));
    }

    #[test]
    fn buffers_repeat_as_often_as_dedupe_percentage_says() {
        let distinct = |content: ContentOptions| {
            let mut contents = ContentSource::new(content, 4096, 2_000 * 4096, 1);
            let mut buffers = HashSet::new();
            let mut data = vec![0; 8192];
            (0..2_000).for_each(|_| {
                contents.fill(&mut data, 42);
                assert_ne!(data[..4096], data[4096..]);
                buffers.insert(data.clone());
            });
            buffers.len()
        };
        let repeat = modified(ContentOptions::default(), |it| it.dedupe_pct = 75);
        let seen = distinct(repeat.clone());
        assert!(
            (430..570).contains(&seen),
            "{seen} of 2,000 are new, not a quarter"
        );
        // 1,500 draws from a set of 100.
        let set = distinct(modified(repeat, |it| it.dedupe_from_set = true));
        assert!((530..670).contains(&set), "{set}");
        let found = distinct(modified(ContentOptions::default(), |it| {
            it.dedupe_pct = 100
        }));
        assert_eq!(found, 1);
    }

    fn bytes(text: &str) -> Vec<u8> {
        BytePattern::parse(text, true)
            .unwrap_or_else(|why| panic!("{text}: {why}"))
            .bytes
    }

    #[test]
    fn fios_example_patterns_are_parsed_to_the_same_bytes() {
        // The examples in the comment on parse_and_fill_pattern().
        assert_eq!(bytes("\"abcd\""), *b"abcd");
        assert_eq!(bytes("-1024"), [0x00, 0xfc, 0xff, 0xff]);
        assert_eq!(bytes("66"), [0x42]);
        assert_eq!(bytes("0xFF0X1"), [0xff, 0x01]);
        assert_eq!(bytes("%o"), [0; 8]);
        let found = bytes("\"123\"0xFFeeCC");
        assert_eq!(found, [0x31, 0x32, 0x33, 0xff, 0xee, 0xcc]);
        assert_eq!(
            bytes("-100xab\"1\"%o\"2\""),
            [
                0xf6, 0xff, 0xff, 0xff, 0xab, 0x31, 0, 0, 0, 0, 0, 0, 0, 0, 0x32
            ]
        );
        assert_eq!(bytes("%o0xdeadbeef%o").len(), 20);
        assert_eq!(bytes(&format!("0x{}", "fe".repeat(21))), [0xfe; 21]);
        assert_eq!(bytes("0"), vec![0]);
        assert_eq!(bytes("256"), vec![0, 1]);
        assert_eq!(bytes("0xabc"), vec![0x0a, 0xbc]);
        for wrong in [
            "",
            "\"a",
            "0x",
            "%p",
            "1 2",
            "99999999999",
            "'no-such-file'",
            "'file",
            "'/dev/zero'",
            "-",
            "é",
        ] {
            assert!(BytePattern::parse(wrong, true).is_err(), "{wrong}");
        }
        assert!(
            BytePattern::parse("%o", false).is_err()
                && BytePattern::parse(&"1".repeat(9), true).is_ok()
        );
        assert!(BytePattern::parse(&format!("0x{}", "00".repeat(BYTES_MAX + 1)), true).is_err());
    }

    #[test]
    fn a_pattern_can_be_filled_in_from_any_byte_of_the_block() {
        let pattern = BytePattern::parse("\"ab\"%o", true).unwrap();
        let mut whole = [0; 95];
        pattern.fill(&mut whole, 0, 0x1122);
        assert_eq!(
            whole[..14],
            [
                b'a', b'b', 0x22, 0x11, 0, 0, 0, 0, 0, 0, b'a', b'b', 0x22, 0x11
            ]
        );
        for from in 0..30 {
            let mut part = [9; 65];
            pattern.fill(&mut part, from, 0x1122);
            assert_eq!(part, whole[from..from + 65], "{from}");
        }
    }
}
