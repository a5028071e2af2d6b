//! The protocol's format of operations on bins, and of bins. The whole crate uses this format.
//!
//! ```text
//! u32 size of what follows | u8 operation | u8 particle type | u8 0 | u8 length of name | name | value      big-endian
//! ```
//!
//! A record's bins are stored as entries of this format, too, so that reading a whole record copies its bytes into the
//! reply.
//!
//! This module also applies operations to a record's bins. It takes bytes and returns bytes, without I/O.

use crate::ResultCode;
use std::borrow::Cow;
use std::collections::HashMap;

pub mod operation {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    /// Adds to an integer or float.
    pub const ADD: u8 = 5;
    /// Appends to a string or blob.
    pub const APPEND: u8 = 9;
    /// Prepends to a string or blob.
    pub const PREPEND: u8 = 10;
    /// Updates only the record's generation and time to live.
    pub const TOUCH: u8 = 11;
    pub const DELETE: u8 = 14;
}

pub mod particle {
    /// No value: removes a bin.
    pub const NULL: u8 = 0;
    /// A signed integer of 8 bytes, big-endian.
    pub const INTEGER: u8 = 1;
    /// A float of 8 bytes, big-endian.
    pub const FLOAT: u8 = 2;
    /// UTF-8.
    pub const STRING: u8 = 3;
    pub const BLOB: u8 = 4;
}

/// Bytes of an entry before its name.
pub const HEADER_BYTES: usize = 8;

/// Longest name of a bin, bytes.
pub const NAME_BYTES_MAX: usize = 15;

/// Selects the entries of the reply to operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answers {
    /// Each operation except a touch has an entry in the reply, even an operation that reads nothing.
    pub has_each: bool,
    /// A read without a name reads all bins. Without this flag, such a read asks for generation and time to live only.
    pub has_all_bins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinEntry<'a> {
    pub operation: u8,
    /// The value's type, see [`particle`].
    pub particle: u8,
    /// The bin's name; empty: see [`Answers::has_all_bins`], or the bin of a single-bin namespace.
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl BinEntry<'_> {
    /// False for an integer or float that is not 8 bytes long.
    pub fn has_valid_length(&self) -> bool {
        let is_number = matches!(self.particle, particle::INTEGER | particle::FLOAT);
        !is_number || self.value.len() == 8
    }
}

/// Takes the first entry off `bytes`. `None` if the entry is incomplete.
pub fn take<'a>(bytes: &mut &'a [u8]) -> Option<BinEntry<'a>> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let size = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let name_bytes = usize::from(header[7]);
    let value_bytes = size.checked_sub(HEADER_BYTES - 4 + name_bytes)?;
    let (name, rest) = rest.split_at_checked(name_bytes)?;
    let (value, rest) = rest.split_at_checked(value_bytes)?;
    *bytes = rest;
    Some(BinEntry {
        operation: header[4],
        particle: header[5],
        name,
        value,
    })
}

/// All entries of `bytes`, up to the first incomplete entry.
pub fn entries(mut bytes: &[u8]) -> impl Iterator<Item = BinEntry<'_>> {
    std::iter::from_fn(move || take(&mut bytes))
}

/// Appends an entry. The name is at most 255 bytes, the value less than 4 GiB.
pub fn put(out: &mut Vec<u8>, entry: &BinEntry<'_>) {
    let size = (HEADER_BYTES - 4 + entry.name.len() + entry.value.len()) as u32;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&[entry.operation, entry.particle, 0, entry.name.len() as u8]);
    out.extend_from_slice(entry.name);
    out.extend_from_slice(entry.value);
}

/// Maximum bytes of a reply: an 8-byte operation can request a whole record; a message has up to 65,535 operations.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Maximum bins of a record, as in the server.
const BINS_MAX: usize = 32_767;

/// Limit of the bytes that a transaction's prepend operations move: each moves the whole value.
const MOVED_BYTES_MAX: usize = 64 << 20;

/// Records with at most this many bins are searched linearly.
const FEW: usize = 16;

struct RecordBin<'a> {
    name: &'a [u8],
    /// [`particle::NULL`]: the bin was removed.
    particle: u8,
    value: Cow<'a, [u8]>,
}

#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) bins: Vec<u8>,
    /// True if an operation changed or touched the record.
    pub(crate) has_written: bool,
    /// Number of bins in the reply, and their bytes.
    pub(crate) reply_bins: u16,
    pub(crate) reply: Vec<u8>,
}

struct RecordBins<'a> {
    list: Vec<RecordBin<'a>>,
    /// Index in the list by name, once the record has many bins.
    positions: HashMap<&'a [u8], usize>,
    answers: Answers,
}

impl<'a> RecordBins<'a> {
    fn find(&mut self, name: &[u8]) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().position(|bin| bin.name == name);
        }
        for at in self.positions.len()..self.list.len() {
            self.positions.insert(self.list[at].name, at);
        }
        self.positions.get(name).copied()
    }

    /// The bin of this name, created if missing.
    fn bin(&mut self, name: &'a [u8]) -> &mut RecordBin<'a> {
        let at = self.find(name).unwrap_or_else(|| {
            self.list.push(RecordBin {
                name,
                particle: particle::NULL,
                value: Cow::Borrowed(&[]),
            });
            self.list.len() - 1
        });
        &mut self.list[at]
    }
}

pub(crate) fn apply(
    old_bins: &[u8],
    ops: &[u8],
    single_bin: bool,
    answers: Answers,
) -> Result<Applied, ResultCode> {
    let list = entries(old_bins).map(|bin| RecordBin {
        name: bin.name,
        particle: bin.particle,
        value: bin.value.into(),
    });
    let mut bins = RecordBins {
        list: list.collect(),
        positions: HashMap::new(),
        answers,
    };
    let mut applied = Applied::default();
    let mut moved_bytes = 0;
    let mut operations = ops;
    while !operations.is_empty() {
        let op = take(&mut operations).ok_or(ResultCode::PARAMETER)?;
        if op.name.len() > NAME_BYTES_MAX || single_bin && !op.name.is_empty() {
            return Err(ResultCode::BIN_NAME);
        }
        applied.has_written |= op.operation != operation::READ;
        match op.operation {
            operation::READ => {
                read(&mut bins, &op, &mut applied)?;
                continue;
            }
            operation::WRITE => {
                if !op.has_valid_length() {
                    return Err(ResultCode::PARAMETER);
                }
                let bin = bins.bin(op.name);
                (bin.particle, bin.value) = (op.particle, op.value.into());
            }
            operation::ADD | operation::APPEND | operation::PREPEND => {
                let bin = bins.bin(op.name);
                moved_bytes += if op.operation == operation::PREPEND {
                    bin.value.len() + op.value.len()
                } else {
                    0
                };
                if moved_bytes > MOVED_BYTES_MAX {
                    return Err(ResultCode::TOO_BIG);
                }
                change(bin, &op)?;
            }
            operation::TOUCH => continue,
            operation::DELETE => bins
                .list
                .iter_mut()
                .for_each(|bin| bin.particle = particle::NULL),
            _ => return Err(ResultCode::UNSUPPORTED),
        }
        if answers.has_each {
            answer(&mut applied, op.name, particle::NULL, &[])?;
        }
    }
    if bins
        .list
        .iter()
        .filter(|bin| bin.particle != particle::NULL)
        .count()
        > BINS_MAX
    {
        return Err(ResultCode::PARAMETER);
    }
    for bin in bins
        .list
        .iter()
        .filter(|bin| bin.particle != particle::NULL)
    {
        let entry = BinEntry {
            operation: operation::READ,
            particle: bin.particle,
            name: bin.name,
            value: &bin.value,
        };
        put(&mut applied.bins, &entry);
    }
    Ok(applied)
}

fn read(
    bins: &mut RecordBins<'_>,
    op: &BinEntry<'_>,
    applied: &mut Applied,
) -> Result<(), ResultCode> {
    if op.name.is_empty() && bins.answers.has_all_bins {
        for bin in bins
            .list
            .iter()
            .filter(|bin| bin.particle != particle::NULL)
        {
            answer(applied, bin.name, bin.particle, &bin.value)?;
        }
        return Ok(());
    }
    match bins
        .find(op.name)
        .map(|at| &bins.list[at])
        .filter(|bin| bin.particle != particle::NULL)
    {
        Some(bin) => answer(applied, bin.name, bin.particle, &bin.value),
        None if bins.answers.has_each => answer(applied, op.name, particle::NULL, &[]),
        None => Ok(()),
    }
}

fn answer(
    applied: &mut Applied,
    name: &[u8],
    particle: u8,
    value: &[u8],
) -> Result<(), ResultCode> {
    put(
        &mut applied.reply,
        &BinEntry {
            operation: operation::READ,
            particle,
            name,
            value,
        },
    );
    applied.reply_bins = applied
        .reply_bins
        .checked_add(1)
        .ok_or(ResultCode::PARAMETER)?;
    if applied.reply.len() > REPLY_BYTES_MAX {
        Err(ResultCode::TOO_BIG)
    } else {
        Ok(())
    }
}

/// Adds, appends or prepends to a bin, or creates it from the operation's value.
fn change(bin: &mut RecordBin<'_>, op: &BinEntry<'_>) -> Result<(), ResultCode> {
    if !op.has_valid_length() {
        return Err(ResultCode::PARAMETER);
    }
    let is_add = op.operation == operation::ADD;
    if bin.particle == particle::NULL {
        (bin.particle, bin.value) = (op.particle, op.value.to_vec().into());
        return Ok(());
    }
    let is_applicable = match op.particle {
        particle::INTEGER | particle::FLOAT => is_add,
        particle::STRING | particle::BLOB => !is_add,
        _ => false,
    };
    if bin.particle != op.particle || !is_applicable {
        return Err(ResultCode::BIN_TYPE);
    }
    if is_add {
        let old = parse_number(&bin.value)?;
        let operand = parse_number(op.value)?;
        let sum = match op.particle {
            particle::FLOAT => (f64::from_bits(old) + f64::from_bits(operand)).to_bits(),
            _ => old.wrapping_add(operand),
        };
        bin.value = sum.to_be_bytes().to_vec().into();
    } else if op.operation == operation::APPEND {
        bin.value.to_mut().extend_from_slice(op.value);
    } else {
        bin.value = [op.value, &bin.value].concat().into();
    }
    Ok(())
}

fn parse_number(value: &[u8]) -> Result<u64, ResultCode> {
    match value.try_into() {
        Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
        Err(_) => Err(ResultCode::BIN_TYPE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bin_entries_are_read_as_they_were_written_and_torn_entries_are_not() {
        let entry = BinEntry {
            operation: operation::WRITE,
            particle: particle::STRING,
            name: b"bin",
            value: b"value",
        };
        let mut bytes = Vec::new();
        put(&mut bytes, &entry);
        put(
            &mut bytes,
            &BinEntry {
                name: b"",
                value: b"",
                ..entry
            },
        );
        assert_eq!(bytes[..8], [0, 0, 0, 12, 2, 3, 0, 3]);
        let found = entries(&bytes).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                entry,
                BinEntry {
                    name: b"",
                    value: b"",
                    ..entry
                }
            ]
        );
        for end in 0..bytes.len() {
            assert!(entries(&bytes[..end]).count() < 2);
        }
        let found = take(&mut &[0, 0, 0, 3, 2, 3, 0, 0][..]);
        assert_eq!(found, None, "a size that does not hold its own header");
    }
}

#[cfg(test)]
mod bins_tests {
    use super::*;

    const ALL: Answers = Answers {
        has_each: false,
        has_all_bins: true,
    };

    fn op(operation: u8, particle: u8, name: &str, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(
            &mut out,
            &BinEntry {
                operation,
                particle,
                name: name.as_bytes(),
                value,
            },
        );
        out
    }

    fn write(name: &str, value: &str) -> Vec<u8> {
        op(operation::WRITE, particle::STRING, name, value.as_bytes())
    }

    /// Bins of strings as `name=value`.
    fn text(bytes: &[u8]) -> String {
        let bin =
            |bin: BinEntry<'_>| format!("{}={}", str::from_utf8(bin.name).unwrap(), value(&bin));
        entries(bytes).map(bin).collect::<Vec<_>>().join(" ")
    }

    fn value(bin: &BinEntry<'_>) -> String {
        match bin.particle {
            particle::INTEGER => i64::from_be_bytes(bin.value.try_into().unwrap()).to_string(),
            particle::FLOAT => f64::from_be_bytes(bin.value.try_into().unwrap()).to_string(),
            particle::NULL => "-".to_owned(),
            _ => str::from_utf8(bin.value).unwrap().to_owned(),
        }
    }

    #[test]
    fn operations_are_applied_in_order() {
        let old = [write("a", "1"), write("b", "2")].concat();
        let integer = |by: i64| op(operation::ADD, particle::INTEGER, "n", &by.to_be_bytes());
        let float = |by: f64| op(operation::ADD, particle::FLOAT, "f", &by.to_be_bytes());
        let operations = [
            write("b", "3"),
            op(operation::READ, 0, "b", b""),
            op(operation::APPEND, particle::STRING, "b", b"4"),
            op(operation::PREPEND, particle::STRING, "b", b"2"),
            op(operation::READ, 0, "b", b""),
            op(operation::READ, 0, "none", b""),
            op(operation::WRITE, particle::NULL, "a", b""),
            integer(5),
            integer(-7),
            float(0.5),
            float(0.25),
            op(operation::READ, 0, "", b""),
        ]
        .concat();
        let applied = apply(&old, &operations, false, ALL).unwrap();
        assert_eq!(text(&applied.bins), "b=234 n=-2 f=0.75");
        assert_eq!(
            (text(&applied.reply), applied.reply_bins),
            ("b=3 b=234 b=234 n=-2 f=0.75".to_owned(), 5)
        );
        let applied = apply(
            &old,
            &operations,
            false,
            Answers {
                has_each: true,
                ..ALL
            },
        )
        .unwrap();
        assert_eq!(
            text(&applied.reply),
            "b=- b=3 b=- b=- b=234 none=- a=- n=- n=- f=- f=- b=234 n=-2 f=0.75"
        );
    }

    #[test]
    fn a_touch_has_no_reply_and_a_nameless_read_reads_all_bins_only_on_request() {
        let operations = [
            op(operation::TOUCH, 0, "", b""),
            op(operation::READ, 0, "", b""),
        ]
        .concat();
        for (has_each, has_all_bins, reply) in [
            (true, false, "=-"),
            (false, false, ""),
            (false, true, "a=1"),
        ] {
            let applied = apply(
                &write("a", "1"),
                &operations,
                false,
                Answers {
                    has_each,
                    has_all_bins,
                },
            )
            .unwrap();
            assert_eq!(text(&applied.reply), reply.to_owned());
            assert!(applied.has_written);
        }
    }

    #[test]
    fn values_of_the_wrong_type_or_size_are_refused() {
        let old = [
            write("s", "x"),
            op(operation::WRITE, particle::INTEGER, "n", &[0; 8]),
        ]
        .concat();
        let code = |operations: &[u8]| apply(&old, operations, false, ALL).map(|_| ()).unwrap_err();
        let found = code(&op(operation::ADD, particle::INTEGER, "s", &[0; 8]));
        assert_eq!(found, ResultCode::BIN_TYPE);
        let found = code(&op(operation::ADD, particle::FLOAT, "n", &[0; 8]));
        assert_eq!(found, ResultCode::BIN_TYPE);
        let found = code(&op(operation::ADD, particle::STRING, "s", b"x"));
        assert_eq!(found, ResultCode::BIN_TYPE);
        let found = code(&op(operation::APPEND, particle::INTEGER, "n", &[0; 8]));
        assert_eq!(found, ResultCode::BIN_TYPE);
        let created = apply(
            &old,
            &op(operation::ADD, particle::STRING, "new", b"x"),
            false,
            ALL,
        )
        .unwrap();
        assert!(
            text(&created.bins).ends_with(" new=x"),
            "as in the real server, any operation creates a missing bin"
        );
        let found = code(&op(operation::ADD, particle::INTEGER, "n", &[0; 7]));
        assert_eq!(found, ResultCode::PARAMETER);
        let found = code(&op(99, particle::STRING, "s", b"x"));
        assert_eq!(found, ResultCode::UNSUPPORTED);
        assert_eq!(code(&write("sixteen-letters-", "x")), ResultCode::BIN_NAME);
        assert_eq!(code(&write("a", "x")[..9]), ResultCode::PARAMETER, "torn");
        let found = apply(b"", &write("a", "x"), true, ALL).unwrap_err();
        assert_eq!(found, ResultCode::BIN_NAME);
        // 2,000 times a bin of 64 KiB.
        let old = write("a", &"x".repeat(65_536));
        let operations = op(operation::READ, 0, "a", b"").repeat(2_000);
        let found = apply(&old, &operations, false, ALL).unwrap_err();
        assert_eq!(found, ResultCode::TOO_BIG);
        let operations = op(operation::PREPEND, particle::STRING, "a", b"x").repeat(2_000);
        let found = apply(&old, &operations, false, ALL).unwrap_err();
        assert_eq!(found, ResultCode::TOO_BIG, "bytes moved");
    }

    #[test]
    fn a_record_of_many_bins_is_not_searched_linearly() {
        let names: Vec<_> = (0..BINS_MAX + 1).map(|n| n.to_string()).collect();
        let operations: Vec<u8> = names[1..]
            .iter()
            .flat_map(|name| write(name, "x"))
            .collect();
        let once = apply(b"", &operations, false, ALL).unwrap();
        assert_eq!(entries(&once.bins).count(), BINS_MAX);
        let found = apply(&once.bins, &write("0", "x"), false, ALL).unwrap_err();
        assert_eq!(found, ResultCode::PARAMETER);
        let gone: Vec<u8> = names[2..]
            .iter()
            .flat_map(|name| op(operation::WRITE, 0, name, b""))
            .collect();
        let applied = apply(&once.bins, &gone, false, ALL).unwrap();
        assert_eq!(text(&applied.bins), "1=x");
        assert!(applied.has_written);
        assert_eq!(
            text(
                &apply(&once.bins, &op(operation::DELETE, 0, "", b""), false, ALL)
                    .unwrap()
                    .bins
            ),
            ""
        );
    }
}
