//! Frames: version, kind and length, then the body.
//!
//! ```text
//! u8 version 2 | u8 kind | u48 bytes of the body | body      big-endian
//! ```

use thiserror::Error;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 8;

/// The only protocol version.
const VERSION: u8 = 2;

/// Longest body that the real server accepts. Source: its `proto.h`, `PROTO_SIZE_MAX`.
pub const BODY_BYTES_MAX: usize = 128 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Text: names in the request, names and values in the reply.
    Info = 1,
    /// A login or another security message.
    Security = 2,
    /// A transaction, a batch, or an unsupported request.
    Message = 3,
    Compressed = 4,
}

/// Not a protocol frame: close the connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error(
        "expected a frame of version {VERSION}, found version {0}: the other side speaks TLS or another protocol"
    )]
    Version(u8),
    #[error("expected a frame of kind 1 to 4, found kind {0}")]
    Kind(u8),
    #[error("expected a frame of at most {limit} bytes, found a frame of {bytes} bytes")]
    Length {
        /// Length according to the frame's header.
        bytes: u64,
        limit: usize,
    },
    /// A body that contradicts the counts in it.
    #[error("a part of the message is invalid: {0}")]
    Body(&'static str),
}

/// Parses the header of a frame: its kind, and the bytes of its body, at most `limit`.
pub fn header(bytes: [u8; HEADER_BYTES], limit: usize) -> Result<(FrameKind, usize), Malformed> {
    if bytes[0] != VERSION {
        return Err(Malformed::Version(bytes[0]));
    }
    let kind = match bytes[1] {
        1 => FrameKind::Info,
        2 => FrameKind::Security,
        3 => FrameKind::Message,
        4 => FrameKind::Compressed,
        other => return Err(Malformed::Kind(other)),
    };
    let length = u64::from_be_bytes(bytes) & ((1 << 48) - 1);
    match usize::try_from(length) {
        Ok(bytes) if bytes <= limit => Ok((kind, bytes)),
        _ => Err(Malformed::Length {
            bytes: length,
            limit,
        }),
    }
}

/// Takes the first frame off `bytes`: its kind and body. `None` if the frame is incomplete.
pub fn take<'a>(
    bytes: &mut &'a [u8],
    limit: usize,
) -> Result<Option<(FrameKind, &'a [u8])>, Malformed> {
    let Some((first, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let (kind, length) = header(*first, limit)?;
    let Some((body, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    *bytes = rest;
    Ok(Some((kind, body)))
}

/// Appends the header of a frame whose body follows. Pass the returned position to [`end`], which fills in the length.
pub fn begin(out: &mut Vec<u8>, kind: FrameKind) -> usize {
    let begin = out.len();
    out.extend_from_slice(&[VERSION, kind as u8, 0, 0, 0, 0, 0, 0]);
    begin
}

/// Ends a frame: all bytes appended since [`begin`] are its body.
pub fn end(out: &mut [u8], begin: usize) {
    let length = (out.len() - begin - HEADER_BYTES) as u64;
    out[begin + 2..begin + HEADER_BYTES].copy_from_slice(&length.to_be_bytes()[2..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_once_all_of_it_has_arrived() {
        let mut bytes = b"before".to_vec();
        let at = begin(&mut bytes, FrameKind::Info);
        bytes.extend_from_slice(b"build\n");
        end(&mut bytes, at);
        assert_eq!(bytes[6..14], [2, 1, 0, 0, 0, 0, 0, 6]);
        bytes.push(2);
        for cut in 6..20 {
            assert_eq!(take(&mut &bytes[6..cut], 6), Ok(None), "{cut}");
        }
        let mut rest = &bytes[6..];
        let found = take(&mut rest, 6);
        assert_eq!(found, Ok(Some((FrameKind::Info, &b"build\n"[..]))));
        assert_eq!(rest, [2]);
    }

    #[test]
    fn bytes_of_other_protocols_are_refused_by_their_header() {
        let of = |first: [u8; 8]| take(&mut &first[..], 100).unwrap_err().to_string();
        assert_eq!(
            of(*b"GET / HT"),
            "expected a frame of version 2, found version 71: the other side speaks TLS or another protocol"
        );
        assert_eq!(
            of([2, 5, 0, 0, 0, 0, 0, 0]),
            "expected a frame of kind 1 to 4, found kind 5"
        );
        assert_eq!(
            of([2, 3, 0, 0, 0, 0, 0, 101]),
            "expected a frame of at most 100 bytes, found a frame of 101 bytes"
        );
        assert_eq!(
            of([2, 3, 255, 255, 255, 255, 255, 255]),
            "expected a frame of at most 100 bytes, found a frame of 281474976710655 bytes"
        );
    }
}
