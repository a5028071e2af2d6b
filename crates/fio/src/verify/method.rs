//! The methods of `verify`, and the digests that fio stores after its headers.
//!
//! Several digests differ from the algorithms after which they are named: this module reproduces the bytes that fio
//! 3.33 stores, including the effects of its errors. Source: `crc/` and `verify.c` of fio 3.33.

use super::formats::{HEADER_BYTES, crc32c};
use crc::{Algorithm, CRC_32_CKSUM, Crc, Table};
use md5::Md5;
use sha2::Sha512;
use sha2::block_api::compress256;
use sha2::digest::Digest;
use twox_hash::XxHash32;

/// The longest digest, bytes.
pub(in super::super) const DIGEST_MAX: usize = 128;

/// A method of `verify`. The numbers are those in fio's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    #[default]
    None = 0,
    /// The header alone.
    Meta = 1,
    Md5 = 2,
    Crc32 = 4,
    Crc32c = 5,
    Sha256 = 9,
    Sha512 = 10,
    XxHash = 15,
    /// A header, and then a pattern.
    PatternHeader = 17,
    /// A pattern without headers.
    Pattern = 18,
    /// No comparison at all.
    Null = 19,
}

/// Each method with its names in fio and the bytes of its digest.
const METHODS: [(Method, &[&str], usize); 11] = [
    (Method::None, &["0", "none"], 0),
    (Method::Meta, &["meta"], 0),
    (Method::Md5, &["md5"], 16),
    (Method::Crc32, &["crc32"], 4),
    (Method::Crc32c, &["crc32c", "crc32c-intel"], 4),
    (Method::Sha256, &["sha256"], 64),
    (Method::Sha512, &["sha512"], 128),
    (Method::XxHash, &["xxhash"], 4),
    (Method::PatternHeader, &["pattern_hdr"], 0),
    (Method::Pattern, &["pattern"], 0),
    (Method::Null, &["null"], 0),
];

/// CRC-32 without the inversion at the end.
static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&Algorithm {
    xorout: 0,
    ..CRC_32_CKSUM
});

impl Method {
    pub(in super::super) fn parse(text: &str) -> Result<Self, String> {
        let known = METHODS.iter().find(|(_, names, _)| names.contains(&text));
        known.map(|(method, ..)| *method).ok_or_else(|| {
            let names: Vec<_> = METHODS[1..]
                .iter()
                .flat_map(|(_, names, _)| names.iter().copied())
                .collect();
            format!(
                "flashproof does not support this method - give one of {}",
                names.join(", ")
            )
        })
    }

    /// The method with this number in a header.
    pub(super) fn from_code(code: u8) -> Option<Self> {
        // In older versions of fio, 6 was crc32c computed by a CPU instruction.
        let code = if code == 6 { Self::Crc32c as u8 } else { code };
        METHODS
            .iter()
            .map(|(method, ..)| *method)
            .find(|method| *method as u8 == code)
    }

    pub(in super::super) fn name(self) -> &'static str {
        self.entry().1[0]
    }

    pub(in super::super) fn head_bytes(self) -> u64 {
        if self.has_header() {
            (HEADER_BYTES + self.digest_bytes()) as u64
        } else {
            0
        }
    }

    pub(super) fn digest_bytes(self) -> usize {
        self.entry().2
    }

    fn entry(self) -> &'static (Self, &'static [&'static str], usize) {
        METHODS
            .iter()
            .find(|(method, ..)| *method == self)
            .unwrap_or(&METHODS[0])
    }

    pub(super) fn has_header(self) -> bool {
        !matches!(self, Self::None | Self::Null | Self::Pattern)
    }

    pub(in super::super) fn compares(self) -> bool {
        !matches!(self, Self::None | Self::Null)
    }

    /// The digest of `data` as fio stores it, in the first [`Self::digest_bytes`] bytes of the array.
    pub(super) fn digest(self, data: &[u8]) -> [u8; DIGEST_MAX] {
        let mut out = [0; DIGEST_MAX];
        let mut put = |bytes: &[u8]| out[..bytes.len()].copy_from_slice(bytes);
        match self {
            Self::Md5 => put(&Md5::digest(data)),
            Self::Crc32 => put(&CRC32.checksum(data).to_le_bytes()),
            Self::Crc32c => put(&crc32c(data).to_le_bytes()),
            Self::XxHash => put(&XxHash32::oneshot(1, data).to_le_bytes()),
            Self::Sha256 => put(&sha256(data)),
            Self::Sha512 => put(&sha512_unfinished(data)),
            Self::None | Self::Meta | Self::PatternHeader | Self::Pattern | Self::Null => {}
        }
        out
    }

    /// The digest of `data` as fio 3.34 and later store it; `None` if fio 3.33 stores the same.
    pub(super) fn later_digest(self, data: &[u8]) -> Option<[u8; DIGEST_MAX]> {
        (self == Self::Sha512).then(|| sha512(data))
    }
}

/// fio's sha256: fio computes a SHA-256 with the length in the wrong byte order, and stores the lowest byte of each of
/// its words, followed by the rest of the last block.
fn sha256(data: &[u8]) -> [u8; 64] {
    let mut state: [u32; 8] = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    let (blocks, rest) = data.as_chunks::<64>();
    compress256(&mut state, blocks);
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    if rest.len() >= 56 {
        compress256(&mut state, &[last]);
        last = [0; 64];
    }
    // fio counts the length in 32 bits.
    last[56..].copy_from_slice(&u64::from(data.len() as u32).wrapping_mul(8).to_le_bytes());
    compress256(&mut state, &[last]);
    last.iter_mut()
        .zip(state)
        .for_each(|(byte, word)| *byte = word as u8);
    last
}

/// fio 3.33's sha512: the working buffer after all data was read. fio 3.33 never computes the digest, so only 128 bytes
/// of the data count.
fn sha512_unfinished(data: &[u8]) -> [u8; 128] {
    let mut buffer = [0; 128];
    let (blocks, rest) = data.as_chunks::<128>();
    if let Some(first) = blocks.first() {
        buffer = *first;
    }
    buffer[..rest.len()].copy_from_slice(rest);
    buffer
}

/// sha512 of fio 3.34 and later: SHA-512, followed by the second half of the last block.
fn sha512(data: &[u8]) -> [u8; 128] {
    let mut last = [0; 128];
    let rest = data.as_chunks::<128>().1;
    if rest.len() < 112 {
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x80;
    }
    last[120..].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    last[..64].copy_from_slice(&Sha512::digest(data));
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;

    #[test]
    fn names_and_codes_of_methods_survive_a_round_trip() {
        for (method, names, bytes) in METHODS {
            assert!(
                names.iter().all(|name| Method::parse(name) == Ok(method)),
                "{names:?}"
            );
            assert_eq!(Method::from_code(method as u8), Some(method));
            assert_eq!(method.digest_bytes(), bytes);
            assert!(
                method.digest(b"x")[bytes..].iter().all(|byte| *byte == 0),
                "{method:?}"
            );
        }
        assert_eq!(Method::from_code(6), Some(Method::Crc32c));
        assert_eq!(Method::from_code(20), None);
        assert_contains!(
            Method::parse("crc33").unwrap_err(),
            "one of meta, md5, crc32, crc32c"
        );
    }

    #[test]
    fn digests_equal_the_standards_where_fio_follows_them() {
        // CRC check values are from the CRC catalogue, without the inversions that fio omits; others from standards.
        let check = b"123456789";
        let first = |method: Method, bytes: usize| method.digest(check)[..bytes].to_vec();
        assert_eq!(first(Method::Crc32c, 4), (!0xe306_9283_u32).to_le_bytes());
        assert_eq!(first(Method::Crc32, 4), (!0x765e_7680_u32).to_le_bytes());
        assert_eq!(first(Method::Md5, 4), [0x25, 0xf9, 0xe7, 0x94]);
        assert_eq!(sha512(check)[..4], [0xd9, 0xe6, 0x76, 0x2d]);
    }

    #[test]
    fn one_bit_anywhere_changes_the_digest_except_that_of_sha512() {
        let data: Vec<u8> = (0..1000_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        for (method, _, bytes) in METHODS.into_iter().filter(|(_, _, bytes)| *bytes > 0) {
            let changes = |at: usize| {
                let mut changed = data.clone();
                changed[at] ^= 1 << (at % 8);
                method.digest(&changed)[..bytes] != method.digest(&data)[..bytes]
            };
            let unseen = (0..data.len()).filter(|at| !changes(*at)).count();
            let expected = if method == Method::Sha512 {
                1000 - 128
            } else {
                0
            };
            assert_eq!(unseen, expected, "{method:?}");
        }
    }
}
