//! Contents of the records that a benchmark writes, and their verification.
//!
//! ```text
//! value of a bin:  stamp XOR hash of the key | bytes derived from key, stamp and bin
//! stamp:           40 bits: start of the run, in 10 ms since 1970 | 24 bits: number of the write
//! ```
//!
//! The main idea: a record's content is a function of its key and of the number of the write, and contains that number.
//! `verification` compares the number with the numbers of the writes that were sent and acknowledged. The server's own
//! generation does not suffice: its 16 bits wrap, and a generation is unknown after a write in doubt.

use crate::ops::{self, BinEntry, operation, particle};
use crate::{Digest, Exists, Policy, RecordOp, Transaction, Write, digest};
use std::fmt;
use std::str::FromStr;
use sys::op::{OpKind, WrongRecord};
use sys::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    Integer,
    /// A string of this many letters.
    String(u32),
    /// Blob of this many bytes.
    Blob(u32),
}

impl ValueType {
    pub fn bytes(self) -> u32 {
        match self {
            Self::Integer => 8,
            Self::String(bytes) | Self::Blob(bytes) => bytes,
        }
    }

    fn stamp_bytes(self) -> u32 {
        if matches!(self, Self::String(_)) {
            16
        } else {
            8
        }
    }

    fn particle(self) -> u8 {
        match self {
            Self::Integer => particle::INTEGER,
            Self::String(_) => particle::STRING,
            Self::Blob(_) => particle::BLOB,
        }
    }
}

/// Number of bits of a stamp that hold the number of the write.
const NUMBER_BITS: u32 = 24;
pub(crate) const NUMBER_MAX: u32 = (1 << NUMBER_BITS) - 1;

/// Earliest start of a run in a valid stamp, in 10 ms since 1970: October 2019.
const BEGAN_MIN: u64 = 157_000_000_000;

/// Longest value, bytes: a write block of 8 MiB less its headers.
const VALUE_BYTES_MAX: u32 = (8 << 20) - 4096;

/// Writes the notation of Aerospike's benchmark tools: `I`, `S:24`, `B:1024`.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer => f.write_str("I"),
            Self::String(bytes) => write!(f, "S:{bytes}"),
            Self::Blob(bytes) => write!(f, "B:{bytes}"),
        }
    }
}

impl FromStr for ValueType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = match text.split_once(':') {
            None if text == "I" => Some(Self::Integer),
            Some(("S", bytes)) => parse_value_bytes(bytes).map(Self::String),
            Some(("B", bytes)) => parse_value_bytes(bytes).map(Self::Blob),
            _ => None,
        };
        value.ok_or_else(|| {
            format!("give I (integer), S:N (string of N letters) or B:N (blob of N bytes), with N from 1 to {VALUE_BYTES_MAX}")
        })
    }
}

fn parse_value_bytes(text: &str) -> Option<u32> {
    let bytes = text.parse().ok()?;
    (1..=VALUE_BYTES_MAX).contains(&bytes).then_some(bytes)
}

/// The records of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSpec {
    /// Set of the records; empty: none.
    pub set: Box<[u8]>,
    /// Bins per record. At least 1.
    pub bins: u16,
    pub value: ValueType,
    /// True in a `single-bin` namespace: the bin has no name.
    pub single_bin: bool,
    /// True if a write replaces the whole record, so that the server need not read the old record first.
    pub replace: bool,
    /// Start of the run, in 10 ms since 1970: distinguishes this run's writes from the writes of other runs.
    pub began: u64,
}

impl RecordSpec {
    /// Bytes of a record's values.
    pub fn bytes(&self) -> u32 {
        self.value.bytes().saturating_mul(self.bins.into())
    }

    /// True if values are long enough for the stamp that a verification needs.
    pub fn can_be_verified(&self) -> bool {
        self.value.bytes() >= self.value.stamp_bytes()
    }

    pub fn digest(&self, key: u64) -> Digest {
        digest(&self.set, particle::INTEGER, &key.to_be_bytes())
    }

    /// The transaction that reads the record of `key`, or writes it for the `write_number`-th time.
    pub fn transaction(&self, kind: OpKind, key: u64, write_number: u32) -> Transaction {
        let record_op = match kind {
            OpKind::Write => {
                let exists = if self.replace {
                    Exists::CreateOrReplace
                } else {
                    Exists::Any
                };
                let policy = Policy {
                    exists,
                    ..Policy::default()
                };
                let ops = self.ops(key, write_number);
                RecordOp::Write(Write {
                    policy,
                    ops,
                    ..Write::default()
                })
            }
            _ => RecordOp::ReadAll,
        };
        Transaction {
            digest: self.digest(key),
            set: self.set.clone(),
            record_op,
        }
    }

    pub(crate) fn ops(&self, key: u64, write_number: u32) -> Vec<u8> {
        let mut ops = Vec::with_capacity(
            usize::from(self.bins) * (ops::HEADER_BYTES + 8) + self.bytes() as usize,
        );
        let mut value = Vec::new();
        for bin in 0..self.bins {
            value.clear();
            self.fill(key, self.stamp(write_number), bin, &mut value);
            let operation = operation::WRITE;
            let particle = self.value.particle();
            let name = bin_name(bin, self.single_bin);
            let entry = BinEntry {
                operation,
                particle,
                name: name.as_bytes(),
                value: &value,
            };
            ops::put(&mut ops, &entry);
        }
        ops
    }

    fn stamp(&self, write_number: u32) -> u64 {
        (self.began << NUMBER_BITS) | u64::from(write_number & NUMBER_MAX)
    }

    fn fill(&self, key: u64, stamp: u64, bin: u16, out: &mut Vec<u8>) {
        let len = out.len() + self.value.bytes() as usize;
        let mut random = Random::for_part(stamp ^ mask(key), bin.into());
        let mut word = stamp ^ mask(key);
        while out.len() < len {
            match self.value {
                ValueType::String(_) => out.extend_from_slice(&letters(word)),
                _ => out.extend_from_slice(&word.to_be_bytes()),
            }
            word = random.next_u64();
        }
        out.truncate(len);
    }

    /// The start of the run that wrote the bins of `key`, and the number of the write. Errors: no write of `key`
    /// by this client leaves such bins.
    pub(crate) fn written(&self, key: u64, bins: &[u8]) -> Result<(u64, u32), WrongRecord> {
        let stamps =
            (0..self.bins).filter_map(|bin| self.stamp_of_value(key, self.value_in(bins, bin)));
        let mut valid_stamps =
            stamps.filter(|stamp| (BEGAN_MIN..=self.began).contains(&(stamp >> NUMBER_BITS)));
        let stamp = valid_stamps.next().ok_or(WrongRecord::Foreign)?;
        match self.differs(key, stamp, bins) {
            Some((torn, _)) => Err(torn),
            None => Ok((stamp >> NUMBER_BITS, stamp as u32 & NUMBER_MAX)),
        }
    }

    /// The stamp in the first word of a value of `key`. That word determines the rest of the value.
    fn stamp_of_value(&self, key: u64, value: &[u8]) -> Option<u64> {
        let word = match self.value {
            ValueType::String(_) => word_of(value.first_chunk()?)?,
            _ => u64::from_be_bytes(*value.first_chunk()?),
        };
        Some(word ^ mask(key))
    }

    /// The difference of `bins` from the `write_number`-th write of `key`, if at least half of the bytes match.
    pub(crate) fn torn_write(
        &self,
        key: u64,
        write_number: u32,
        bins: &[u8],
    ) -> Option<WrongRecord> {
        let (torn, equal) = self.differs(key, self.stamp(write_number), bins)?;
        (2 * equal >= self.bytes() as usize).then_some(torn)
    }

    /// The value of a bin of a record; empty if the bin is missing or has another type.
    fn value_in<'a>(&self, bins: &'a [u8], bin: u16) -> &'a [u8] {
        let name = bin_name(bin, self.single_bin);
        let found = ops::entries(bins).find(|entry| entry.name == name.as_bytes());
        found
            .filter(|entry| entry.particle == self.value.particle())
            .map_or(&[], |entry| entry.value)
    }

    /// The first difference of `bins` from the write of `key` with this stamp, and the number of equal bytes.
    fn differs(&self, key: u64, stamp: u64, bins: &[u8]) -> Option<(WrongRecord, usize)> {
        let mut torn = None;
        let mut equal = 0;
        let mut expected = Vec::new();
        for bin in 0..self.bins {
            expected.clear();
            self.fill(key, stamp, bin, &mut expected);
            let value = self.value_in(bins, bin);
            if expected != value {
                let is_equal = |at: &usize| expected.get(*at) == value.get(*at);
                equal += (0..expected.len()).filter(is_equal).count();
                let at = (0..).find(|at| !is_equal(at)).unwrap_or(0);
                let expected = expected.get(at).copied().unwrap_or(0);
                let found = value.get(at).copied();
                torn = torn.or(Some(WrongRecord::Torn {
                    bin: bin + 1,
                    at: at as u32,
                    expected,
                    found,
                }));
            } else {
                equal += expected.len();
            }
        }
        torn.map(|torn| (torn, equal))
    }
}

/// Hash of a key. Each stamp of the key is XORed with the hash, so that different keys have different contents.
fn mask(key: u64) -> u64 {
    Random::new(key).next_u64()
}

/// A word as 16 letters from `a` to `p`, the highest four bits first.
fn letters(word: u64) -> [u8; 16] {
    std::array::from_fn(|place| b'a' + (word >> (60 - 4 * place) & 15) as u8)
}

fn word_of(letters: &[u8; 16]) -> Option<u64> {
    letters.iter().try_fold(0, |word, letter| {
        let bits = letter.checked_sub(b'a').filter(|bits| *bits < 16)?;
        Some((word << 4) | u64::from(bits))
    })
}

/// A bin's name: `bin1`, or empty in a namespace of single bins.
fn bin_name(bin: u16, single_bin: bool) -> String {
    if single_bin {
        String::new()
    } else {
        format!("bin{}", u32::from(bin) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::records;

    #[test]
    fn value_types_are_read_and_written_in_the_notation_of_the_benchmark_tools() {
        for (text, value) in [
            ("I", ValueType::Integer),
            ("S:1024", ValueType::String(1_024)),
            ("B:1", ValueType::Blob(1)),
        ] {
            assert_eq!(text.parse(), Ok(value));
            assert_eq!(value.to_string(), text.to_owned());
        }
        for wrong in ["", "S", "S:0", "B:-1", "S:99999999999", "D", "I:8"] {
            assert!(wrong.parse::<ValueType>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_changed_byte_of_a_written_record_is_found() {
        for value in [
            ValueType::Integer,
            ValueType::String(16),
            ValueType::String(50),
            ValueType::Blob(8),
            ValueType::Blob(33),
        ] {
            let object = records(2, value);
            let bins = object.ops(7, 3);
            assert_eq!(
                object.written(7, &bins),
                Ok((170_000_000_000, 3)),
                "{value}"
            );
            assert_eq!(
                object.written(8, &bins),
                Err(WrongRecord::Foreign),
                "another record"
            );
            // Header and name of a bin are 12 bytes.
            let in_values = (0..bins.len()).filter(|at| at % (12 + value.bytes() as usize) >= 12);
            for at in in_values {
                let mut changed = bins.clone();
                changed[at] ^= 4;
                let found = object.written(7, &changed);
                assert!(
                    matches!(found, Err(WrongRecord::Torn { .. })),
                    "{value} byte {at}: {found:?}"
                );
            }
            let missing = ops::HEADER_BYTES + 4 + value.bytes() as usize;
            let torn = object.written(7, &bins[..missing]);
            assert!(
                matches!(
                    torn,
                    Err(WrongRecord::Torn {
                        bin: 2,
                        at: 0,
                        found: None,
                        ..
                    })
                ),
                "a bin is missing: {torn:?}"
            );
            let [earlier, later] = [150_000_000_000, 180_000_000_000].map(|began| RecordSpec {
                began,
                ..object.clone()
            });
            for other in [earlier.ops(7, 3), later.ops(7, 3)] {
                assert_eq!(
                    object.written(7, &other),
                    Err(WrongRecord::Foreign),
                    "{value}"
                );
            }
        }
        let can_be_verified = |value| records(2, value).can_be_verified();
        assert!(!can_be_verified(ValueType::String(15)) && can_be_verified(ValueType::Blob(8)));
    }

    #[test]
    fn string_values_have_the_requested_length_and_are_ascii() {
        let bins = records(2, ValueType::String(1_000)).ops(1, 1);
        assert!(
            ops::entries(&bins).all(|entry| entry.value.len() == 1_000 && entry.value.is_ascii())
        );
    }
}
