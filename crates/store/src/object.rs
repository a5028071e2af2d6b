//! Contents of the records that a benchmark writes, and their verification.
//!
//! ```text
//! value of a bin:  stamp XOR hash of the key | bytes that follow from key, stamp and bin
//! stamp:           40 bits: when the run began, in 10 ms since 1970 | 24 bits: number of the write
//! ```
//!
//! The one idea: the content is a function of the key and of the number of its write, and contains that number. The
//! server's own generation has 16 bits that wrap, and is unknown after a write in doubt. [`Verifier`] records for each
//! key the writes sent and acknowledged: a read must return one of the possible writes, and whole.

use crate::ops::{self, Entry, operation, particle};
use crate::{Digest, Exists, Policy, Transaction, Work, Write, digest};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use sys::op::{OpKind, Outcome};
use sys::random::Random;

/// Type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Integer,
    /// A string of this many letters.
    String(u32),
    /// Blob of this many bytes.
    Blob(u32),
}

impl Value {
    pub fn bytes(self) -> u32 {
        match self {
            Self::Integer => 8,
            Self::String(bytes) | Self::Blob(bytes) => bytes,
        }
    }

    /// Bytes of the stamp in a value.
    fn stamp_bytes(self) -> u32 {
        if matches!(self, Self::String(_)) { 16 } else { 8 }
    }

    fn particle(self) -> u8 {
        match self {
            Self::Integer => particle::INTEGER,
            Self::String(_) => particle::STRING,
            Self::Blob(_) => particle::BLOB,
        }
    }
}

/// Bits of a stamp that number the write.
const NUMBER_BITS: u32 = 24;
const NUMBER_MAX: u32 = (1 << NUMBER_BITS) - 1;

/// Longest value, bytes: a write block of 8 MiB less its headers.
const VALUE_BYTES_MAX: u32 = (8 << 20) - 4096;

/// As Aerospike's benchmarks write it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer => f.write_str("I"),
            Self::String(bytes) => write!(f, "S:{bytes}"),
            Self::Blob(bytes) => write!(f, "B:{bytes}"),
        }
    }
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = |text: &str| text.parse().ok().filter(|bytes| (1..=VALUE_BYTES_MAX).contains(bytes));
        let value = match text.split_once(':') {
            None if text == "I" => Some(Self::Integer),
            Some(("S", letters)) => bytes(letters).map(Self::String),
            Some(("B", count)) => bytes(count).map(Self::Blob),
            _ => None,
        };
        value.ok_or_else(|| {
            format!("give I (integer), S:N (string of N letters) or B:N (N bytes), with N from 1 to {VALUE_BYTES_MAX}")
        })
    }
}

/// The records of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Set of the records; empty: none.
    pub set: Box<[u8]>,
    /// Bins per record. At least 1.
    pub bins: u16,
    pub value: Value,
    /// The namespace has single bins: they have no name.
    pub single_bin: bool,
    /// A write leaves no bin that it does not write, so that the server need not read the record before.
    pub replace: bool,
    /// Start of the run, in 10 ms since 1970: distinguishes its writes from others.
    pub began: u64,
}

impl Object {
    /// Bytes of a record's values.
    pub fn bytes(&self) -> u32 {
        self.value.bytes().saturating_mul(self.bins.into())
    }

    /// True if values are long enough for the stamp that a [`Verifier`] checks.
    pub fn can_be_verified(&self) -> bool {
        self.value.bytes() >= self.value.stamp_bytes()
    }

    /// Digest of the integer key `key`.
    pub fn digest(&self, key: u64) -> Digest {
        digest(&self.set, particle::INTEGER, &key.to_be_bytes())
    }

    /// The transaction that reads the record of `key`, or writes it for the `write`-th time.
    pub fn transaction(&self, kind: OpKind, key: u64, write: u32) -> Transaction {
        let work = match kind {
            OpKind::Write => Work::Write(Write {
                policy: Policy {
                    exists: if self.replace { Exists::CreateOrReplace } else { Exists::Any },
                    ..Policy::default()
                },
                ops: self.ops(key, write),
                ..Write::default()
            }),
            _ => Work::ReadAll,
        };
        Transaction { digest: self.digest(key), set: self.set.clone(), work }
    }

    fn ops(&self, key: u64, write: u32) -> Vec<u8> {
        let mut ops = Vec::with_capacity(usize::from(self.bins) * (ops::HEADER_BYTES + 8) + self.bytes() as usize);
        let mut value = Vec::new();
        for bin in 0..self.bins {
            value.clear();
            self.fill(key, self.stamp(write), bin, &mut value);
            let name = Name::of(bin, self.single_bin);
            let entry =
                Entry { operation: operation::WRITE, particle: self.value.particle(), name: name.get(), value: &value };
            ops::put(&mut ops, &entry);
        }
        ops
    }

    fn stamp(&self, write: u32) -> u64 {
        (self.began << NUMBER_BITS) | u64::from(write & NUMBER_MAX)
    }

    /// Appends the contents of a bin.
    fn fill(&self, key: u64, stamp: u64, bin: u16, out: &mut Vec<u8>) {
        let len = out.len() + self.value.bytes() as usize;
        let mut random = Random::for_part(stamp ^ mask(key), bin.into());
        let mut word = stamp ^ mask(key);
        while out.len() < len {
            match self.value {
                Value::String(_) => out.extend_from_slice(&letters(word)),
                _ => out.extend_from_slice(&word.to_be_bytes()),
            }
            word = random.next_u64();
        }
        out.truncate(len);
    }

    /// Stamp at the start of a value; `None` if the value is too short, or has no stamp.
    fn stamp_of(&self, key: u64, value: &[u8]) -> Option<u64> {
        let word = match self.value {
            Value::String(_) => word_of(value.first_chunk()?)?,
            _ => u64::from_be_bytes(*value.first_chunk()?),
        };
        Some(word ^ mask(key))
    }

    /// The number of the write in the bins of `key`, and the start of its run.
    ///
    /// Errors: the first byte that no write could have put there.
    fn written(&self, key: u64, bins: &[u8]) -> Result<(u64, u32), Outcome> {
        let (mut stamp, mut expected) = (None, Vec::new());
        for bin in 0..self.bins {
            let name = Name::of(bin, self.single_bin);
            let found = ops::entries(bins).find(|entry| entry.name == name.get());
            let value =
                found.filter(|entry| entry.particle == self.value.particle()).map_or(&[][..], |entry| entry.value);
            // An invalid stamp yields bytes that differ, or a time at which no run began.
            let stamp = *stamp.get_or_insert_with(|| self.stamp_of(key, value).unwrap_or(self.stamp(0)));
            expected.clear();
            let known = if stamp >> NUMBER_BITS > self.began { self.stamp(0) } else { stamp };
            self.fill(key, known, bin, &mut expected);
            if let Some(outcome) = differs(&expected, value) {
                return Err(outcome);
            }
        }
        let stamp = stamp.unwrap_or(0);
        Ok((stamp >> NUMBER_BITS, stamp as u32 & NUMBER_MAX))
    }
}

/// The first difference of a value from the expected one.
fn differs(expected: &[u8], value: &[u8]) -> Option<Outcome> {
    if expected == value {
        return None;
    }
    let at = expected.iter().zip(value).position(|(expected, found)| expected != found);
    let at = at.unwrap_or(expected.len().min(value.len()));
    let expected = expected.get(at).copied().unwrap_or(0);
    Some(Outcome::Differs { at: at as u32, expected, found: value.get(at).copied() })
}

/// Makes stamps of different keys differ.
fn mask(key: u64) -> u64 {
    Random::new(key).next_u64()
}

/// 16 letters of four bits each.
fn letters(word: u64) -> [u8; 16] {
    std::array::from_fn(|place| b'a' + (word >> (60 - 4 * place) & 15) as u8)
}

fn word_of(letters: &[u8; 16]) -> Option<u64> {
    letters.iter().try_fold(0, |word, letter| {
        let bits = letter.checked_sub(b'a').filter(|bits| *bits < 16)?;
        Some((word << 4) | u64::from(bits))
    })
}

/// A bin's name: `bin1`, or none in a namespace of single bins.
struct Name([u8; 8], usize);

impl Name {
    fn of(bin: u16, single: bool) -> Self {
        let mut name = Self(*b"bin\0\0\0\0\0", 0);
        if !single {
            name.1 = 3;
            for digit in (u32::from(bin) + 1).to_string().bytes() {
                name.0[name.1] = digit;
                name.1 += 1;
            }
        }
        name
    }

    fn get(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// One issuer's knowledge of the keys that only it writes: the possible writes of each.
#[derive(Debug, Default)]
pub struct Verifier {
    keys: HashMap<u64, Writes>,
    /// Writes that may have been done and may still be: their answer never came.
    in_doubt: HashMap<u64, Vec<u32>>,
    /// Writes that wait for the one before them on their key, by the issuer's numbers.
    waiting: HashMap<u64, VecDeque<u32>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Writes {
    sent: u32,
    acknowledged: u32,
    /// True if the last write sent has no answer yet.
    is_out: bool,
}

impl Verifier {
    /// The number of a new write of `key`; `None` if another write is in flight, for which the new one, `token` to the
    /// issuer, has to wait. With two in flight the last one would be unknown.
    pub fn begin_write(&mut self, key: u64, token: u32) -> Option<u32> {
        let writes = self.keys.entry(key).or_default();
        if writes.is_out {
            self.waiting.entry(key).or_default().push_back(token);
            return None;
        }
        writes.is_out = true;
        // More writes of a key than that are no run of a benchmark.
        writes.sent = (writes.sent + 1).min(NUMBER_MAX);
        Some(writes.sent)
    }

    /// A write was answered; `done`: with success; `in_doubt`: it may still be done. Returns the write that waited for
    /// it.
    pub fn end_write(&mut self, key: u64, done: bool, in_doubt: bool) -> Option<u32> {
        let writes = self.keys.entry(key).or_default();
        writes.is_out = false;
        if done {
            writes.acknowledged = writes.sent;
        } else if in_doubt {
            self.in_doubt.entry(key).or_default().push(writes.sent);
        }
        let waiting = self.waiting.get_mut(&key)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&key);
        }
        next
    }

    /// The last acknowledged write of `key`: a read that begins now must return at least this one.
    pub fn acknowledged(&self, key: u64) -> u32 {
        self.keys.get(&key).map_or(0, |writes| writes.acknowledged)
    }

    /// Checks that `bins` of `key` are a possible result of a read that began when `acknowledged` was. Returns the
    /// difference otherwise.
    pub fn check(&self, object: &Object, key: u64, acknowledged: u32, bins: &[u8]) -> Outcome {
        let (began, found) = match object.written(key, bins) {
            Ok(written) => written,
            Err(outcome) => return outcome,
        };
        let sent = self.keys.get(&key).map_or(0, |writes| writes.sent);
        let of_this_run = began == object.began && found > 0;
        let may_stand = match of_this_run {
            false => acknowledged == 0,
            true if found >= acknowledged => found <= sent,
            true => self.in_doubt.get(&key).is_some_and(|numbers| numbers.contains(&found)),
        };
        match may_stand {
            true => Outcome::Done,
            false => Outcome::Older { acknowledged, found: if of_this_run { found } else { 0 } },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object { set: (*b"set").into(), bins: 2, value, single_bin: false, replace: false, began: 170_000_000_000 }
    }

    #[test]
    fn values_are_written_as_the_benchmarks_write_them() {
        for (text, value) in [("I", Value::Integer), ("S:1024", Value::String(1_024)), ("B:1", Value::Blob(1))] {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_owned()));
        }
        for wrong in ["", "S", "S:0", "B:-1", "S:99999999999", "D", "I:8"] {
            assert!(wrong.parse::<Value>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_written_is_found_and_every_changed_byte_of_it() {
        for value in [Value::Integer, Value::String(16), Value::String(50), Value::Blob(8), Value::Blob(33)] {
            let object = object(value);
            let bins = object.ops(7, 3);
            assert_eq!(object.written(7, &bins), Ok((170_000_000_000, 3)), "{value}");
            assert!(object.written(8, &bins).is_err(), "another record");
            // Header and name of a bin are 12 bytes.
            let in_values = (0..bins.len()).filter(|at| at % (12 + value.bytes() as usize) >= 12);
            for at in in_values {
                let mut changed = bins.clone();
                changed[at] ^= 4;
                let found = object.written(7, &changed);
                assert!(
                    found.is_err_and(|outcome| matches!(outcome, Outcome::Differs { .. })),
                    "{value} byte {at}: {found:?}"
                );
            }
            let missing = ops::HEADER_BYTES + 4 + value.bytes() as usize;
            assert!(object.written(7, &bins[..missing]).is_err(), "a bin is missing");
        }
        assert!(!object(Value::String(15)).can_be_verified() && object(Value::Blob(8)).can_be_verified());
    }

    #[test]
    fn strings_are_letters() {
        let bins = object(Value::String(1_000)).ops(1, 1);
        assert!(ops::entries(&bins).all(|entry| entry.value.len() == 1_000 && entry.value.is_ascii()));
    }

    #[test]
    fn an_older_write_than_was_acknowledged_is_told_unless_it_is_in_doubt() {
        let object = object(Value::Blob(64));
        let mut verifier = Verifier::default();
        let check =
            |verifier: &Verifier, write| verifier.check(&object, 5, verifier.acknowledged(5), &object.ops(5, write));
        assert_eq!(verifier.begin_write(5, 0), Some(1));
        assert_eq!(verifier.begin_write(5, 1), None, "one at a time");
        assert_eq!(check(&verifier, 1), Outcome::Done, "it may be done before it is answered");
        assert_eq!(verifier.end_write(5, true, false), Some(1));
        assert_eq!(verifier.begin_write(5, 1), Some(2));
        assert_eq!(check(&verifier, 1), Outcome::Done);
        assert_eq!(verifier.end_write(5, false, true), None);
        assert_eq!((check(&verifier, 1), check(&verifier, 2)), (Outcome::Done, Outcome::Done), "nobody knows");
        assert_eq!(verifier.begin_write(5, 2), Some(3));
        verifier.end_write(5, true, false);
        assert_eq!(check(&verifier, 2), Outcome::Done, "it may be done late");
        assert_eq!(check(&verifier, 1), Outcome::Older { acknowledged: 3, found: 1 });
        assert_eq!(check(&verifier, 4), Outcome::Older { acknowledged: 3, found: 4 }, "never written");
        let earlier = Object { began: 160_000_000_000, ..object.clone() }.ops(5, 9);
        assert_eq!(verifier.check(&object, 5, 3, &earlier), Outcome::Older { acknowledged: 3, found: 0 });
        let others = Object { began: 160_000_000_000, ..object.clone() }.ops(6, 9);
        assert_eq!(verifier.check(&object, 6, 0, &others), Outcome::Done, "what a run before wrote");
    }
}
