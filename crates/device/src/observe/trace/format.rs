//! The kernel's description of its trace records: which field lies where.
//!
//! `events/*/*/format` and `events/header_page` list fields like
//! `field:sector_t sector; offset:16; size:8; signed:0;`. Offsets differ between kernels, so they
//! are read and never assumed. This module does not know what the fields mean.

use std::collections::HashMap;

/// Position of one field in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// First byte.
    pub(super) offset: usize,
    /// Length.
    pub(super) bytes: usize,
}

impl Field {
    /// The field's bytes; `None` if the record is too short.
    pub(super) fn slice(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.bytes)?)
    }

    /// The field as a number of 1, 2, 4 or 8 bytes in the machine's order.
    pub(super) fn unsigned(self, record: &[u8]) -> Option<u64> {
        let bytes = self.slice(record)?;
        Some(match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The field as a C `int`.
    pub(super) fn int(self, record: &[u8]) -> Option<i32> {
        Some(i32::from_ne_bytes(self.slice(record)?.try_into().ok()?))
    }
}

/// A description that does not say what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormatError {
    /// A field that is always there is missing.
    #[error("it has no field \"{0}\"")]
    NoField(&'static str),
    /// A line of the description has another shape.
    #[error("line \"{0}\" is not \"field:TYPE NAME; offset:N; size:N;\"")]
    Line(String),
    /// No number of the event.
    #[error("it has no line \"ID: N\"")]
    NoId,
}

/// The fields of a description, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields(HashMap<String, Field>);

impl Fields {
    /// The field of this name.
    pub(super) fn get(&self, name: &'static str) -> Result<Field, FormatError> {
        self.0.get(name).copied().ok_or(FormatError::NoField(name))
    }
}

/// Reads all `field:` lines.
pub(super) fn parse_fields(text: &str) -> Result<Fields, FormatError> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("field:"));
    lines
        .map(|line| parse_field(line).ok_or_else(|| FormatError::Line(line.to_owned())))
        .collect::<Result<_, _>>()
        .map(Fields)
}

/// Reads the event's number, which its records carry in `common_type`.
pub(super) fn parse_id(text: &str) -> Result<u64, FormatError> {
    let number = text.lines().find_map(|line| line.strip_prefix("ID:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or(FormatError::NoId)
}

fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    // The name is the last word; an array's length is glued to it.
    let name = declaration.split_whitespace().last()?.split('[').next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    let offset = number("offset:")?;
    let bytes = number("size:")?;
    Some((name.to_owned(), Field { offset, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_complete
ID: 2107
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;

print fmt: \"%d,%d %s\", REC->rwbs
";

    #[test]
    fn fields_are_found_by_name_arrays_included() {
        let fields = parse_fields(FORMAT).unwrap();
        assert_eq!(fields.get("dev").unwrap(), Field { offset: 8, bytes: 4 });
        assert_eq!(fields.get("rwbs").unwrap(), Field { offset: 34, bytes: 10 });
        assert_eq!(fields.get("cmd").unwrap(), Field { offset: 44, bytes: 4 });
        assert_eq!(fields.get("sector"), Err(FormatError::NoField("sector")));
    }

    #[test]
    fn the_number_of_the_event_is_read() {
        assert_eq!(parse_id(FORMAT), Ok(2107));
        assert_eq!(parse_id("name: x"), Err(FormatError::NoId));
    }

    #[test]
    fn a_line_of_another_shape_is_named() {
        let error = parse_fields("\tfield:int error;\tsize:4;").unwrap_err();
        assert!(error.to_string().contains("int error"), "{error}");
    }

    #[test]
    fn numbers_of_every_width_are_read_and_short_records_are_not() {
        let record = [1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xfb];
        let number = |offset, bytes| Field { offset, bytes }.unsigned(&record);
        assert_eq!(number(0, 1), Some(1));
        assert_eq!(number(0, 2), Some(u64::from(u16::from_ne_bytes([1, 0]))));
        assert_eq!(number(0, 8), Some(u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0])));
        assert_eq!(number(9, 4), None);
        assert_eq!(number(0, 3), None);
        assert_eq!(Field { offset: 8, bytes: 4 }.int(&record), Some(i32::from_ne_bytes([0xff, 0xff, 0xff, 0xfb])));
    }
}
