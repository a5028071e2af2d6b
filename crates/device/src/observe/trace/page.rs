//! The pages of the kernel's trace ring buffer, as read from `trace_pipe_raw`.
//!
//! ```text
//! page    | time stamp u64 | commit long | data ...                                        |
//! commit  | bit 31: events were lost before this page | bit 30: their number follows the data
//!         | low bits: bytes of data
//! record  | u32: type_len (5 bits), time_delta (27 bits) | by type_len:
//!     1-28  data, type_len * 4 bytes
//!     0     data, length in the next u32 (length includes this u32)
//!     29    padding; delta 0: rest of the page, else length in the next u32
//!     30    time extend: the next u32 is the upper part of the delta
//!     31    time stamp: the next u32 is the upper part of an absolute time
//! ```
//!
//! Source: `include/linux/ring_buffer.h` and `kernel/trace/ring_buffer.c` of Linux 6.x. `events/header_page` has the
//! offsets of the page header. This module does not interpret the records.

use super::tracefs::{FormatError, RecordField, parse_fields};

const RECORD_HEADER_BYTES: usize = 4;
const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
const COMMIT_LOST: u64 = 1 << 31;
const COMMIT_BYTES_MASK: u64 = (1 << DELTA_BITS) - 1;
/// Bits of an absolute time stamp in a record. The time stamp of the page has 64 bits.
const ABSOLUTE_BITS: u32 = 59;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLayout {
    timestamp: RecordField,
    commit: RecordField,
    data: RecordField,
}

impl PageLayout {
    pub(super) fn parse(text: &str) -> Result<Self, FormatError> {
        let fields = parse_fields(text)?;
        Ok(Self {
            timestamp: fields.get("timestamp")?,
            commit: fields.get("commit")?,
            data: fields.get("data")?,
        })
    }

    /// Size of a page, bytes. A smaller read would split a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.data.offset + self.data.bytes
    }

    /// Calls `sink` with the time and bytes of each record, oldest first. Returns true if events were lost before the
    /// page. Errors: offset of the first inconsistency in the page.
    pub(super) fn records(
        &self,
        page: &[u8],
        mut sink: impl FnMut(u64, &[u8]),
    ) -> Result<bool, usize> {
        let later = |time_ns: u64, delta: u64, at| time_ns.checked_add(delta).ok_or(at);
        let mut time_ns = self.timestamp.unsigned(page).ok_or(self.timestamp.offset)?;
        let commit = self.commit.unsigned(page).ok_or(self.commit.offset)?;
        let start = self.data.offset;
        let end = start + (commit & COMMIT_BYTES_MASK) as usize;
        if end > page.len() {
            return Err(self.commit.offset);
        }

        let data = &page[..end];
        let mut at = start;
        while at + RECORD_HEADER_BYTES <= end {
            let (type_len, delta) = split_header(word(data, at).ok_or(at)?);
            let body = at + RECORD_HEADER_BYTES;
            match type_len {
                TYPE_PADDING if delta == 0 => break,
                TYPE_PADDING => {
                    // The delta of a discarded record advances the time. A delta of 1 does not: it only distinguishes
                    // the record from the end of the page.
                    time_ns = later(time_ns, if delta == 1 { 0 } else { delta }, at)?;
                    at = body + word(data, body).ok_or(at)? as usize;
                }
                TYPE_TIME_EXTEND => {
                    let delta = delta | u64::from(word(data, body).ok_or(at)?) << DELTA_BITS;
                    time_ns = later(time_ns, delta, at)?;
                    at = body + 4;
                }
                TYPE_TIME_STAMP => {
                    let low = delta | u64::from(word(data, body).ok_or(at)?) << DELTA_BITS;
                    time_ns = absolute(low, time_ns).ok_or(at)?;
                    at = body + 4;
                }
                _ => {
                    time_ns = later(time_ns, delta, at)?;
                    let (record_start, record_end) = match type_len {
                        0 => (body + 4, body + word(data, body).ok_or(at)? as usize),
                        words => (body, body + words as usize * 4),
                    };
                    sink(time_ns, data.get(record_start..record_end).ok_or(at)?);
                    at = record_end.next_multiple_of(4);
                }
            }
        }
        Ok(commit & COMMIT_LOST != 0)
    }
}

/// `type_len` and `time_delta`. On little-endian machines C puts the first bit field into the low bits.
fn split_header(header: u32) -> (u32, u64) {
    if cfg!(target_endian = "little") {
        (header & 0x1f, u64::from(header >> 5))
    } else {
        (
            header >> DELTA_BITS,
            u64::from(header & ((1 << DELTA_BITS) - 1)),
        )
    }
}

/// Completes an absolute time stamp with the upper bits of the preceding time.
fn absolute(low: u64, before_ns: u64) -> Option<u64> {
    let high = before_ns >> ABSOLUTE_BITS << ABSOLUTE_BITS;
    let time = high | low;
    // If the result is before the preceding time, the low bits have wrapped.
    if high != 0 && time < before_ns {
        time.checked_add(1 << ABSOLUTE_BITS)
    } else {
        Some(time)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
