//! Operations on bins, and bins themselves, in the protocol's format, which the whole crate uses.
//!
//! ```text
//! u32 size of what follows | u8 operation | u8 particle type | u8 0 | u8 length of name | name | value      big-endian
//! ```
//!
//! A record's bins are stored as such entries, too, so that reading a whole record copies its bytes into the reply.

/// Operations on bins.
pub mod operation {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    /// Adds to an integer or float.
    pub const ADD: u8 = 5;
    /// Appends to a string or blob.
    pub const APPEND: u8 = 9;
    /// Puts before a string or blob.
    pub const PREPEND: u8 = 10;
    /// Touches the record.
    pub const TOUCH: u8 = 11;
    /// Deletes the record.
    pub const DELETE: u8 = 14;
}

/// Types of values.
pub mod particle {
    /// No value: removes a bin.
    pub const NULL: u8 = 0;
    /// A signed integer of 8 bytes, big-endian.
    pub const INTEGER: u8 = 1;
    /// A float of 8 bytes, big-endian.
    pub const FLOAT: u8 = 2;
    /// UTF-8.
    pub const STRING: u8 = 3;
    /// Bytes.
    pub const BLOB: u8 = 4;
}

/// Bytes of an entry before its name.
pub const HEADER_BYTES: usize = 8;

/// Longest name of a bin, bytes.
pub const NAME_BYTES_MAX: usize = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// See [`operation`].
    pub operation: u8,
    /// The value's type, see [`particle`].
    pub particle: u8,
    /// The bin's name; empty: all bins, or the bin of a single-bin namespace.
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Takes the first entry off `bytes`. `None` if it is incomplete.
pub fn take<'a>(bytes: &mut &'a [u8]) -> Option<Entry<'a>> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let size = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let name_bytes = usize::from(header[7]);
    let value_bytes = size.checked_sub(HEADER_BYTES - 4 + name_bytes)?;
    let (name, rest) = rest.split_at_checked(name_bytes)?;
    let (value, rest) = rest.split_at_checked(value_bytes)?;
    *bytes = rest;
    Some(Entry { operation: header[4], particle: header[5], name, value })
}

/// All entries of `bytes`, up to the first that is not whole.
pub fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || take(&mut bytes))
}

/// Appends an entry. The name is at most 255 bytes, the value less than 4 GiB.
pub fn put(out: &mut Vec<u8>, entry: &Entry<'_>) {
    let size = (HEADER_BYTES - 4 + entry.name.len() + entry.value.len()) as u32;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&[entry.operation, entry.particle, 0, entry.name.len() as u8]);
    out.extend_from_slice(entry.name);
    out.extend_from_slice(entry.value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_and_a_torn_entry_is_none() {
        let entry = Entry { operation: operation::WRITE, particle: particle::STRING, name: b"bin", value: b"value" };
        let mut bytes = Vec::new();
        put(&mut bytes, &entry);
        put(&mut bytes, &Entry { name: b"", value: b"", ..entry });
        assert_eq!(bytes[..8], [0, 0, 0, 12, 2, 3, 0, 3]);
        assert_eq!(entries(&bytes).collect::<Vec<_>>(), [entry, Entry { name: b"", value: b"", ..entry }]);
        for end in 0..bytes.len() {
            assert!(entries(&bytes[..end]).count() < 2);
        }
        assert_eq!(take(&mut &[0, 0, 0, 3, 2, 3, 0, 0][..]), None, "a size that does not hold its own header");
    }
}
