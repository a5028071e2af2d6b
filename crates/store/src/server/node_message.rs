//! The protocol between nodes.
//!
//! ```text
//! u8 0xfb | u8 kind | u16 namespace, result or mode | u32 bytes of the body | u64 number | body      little-endian
//! ```

use super::pair::{Greeting, ModeVersion};
use crate::wire::Malformed;
use crate::{Digest, ResultCode, Version};

/// First byte of messages between nodes. Frames of clients begin with their version, 2.
pub(super) const MAGIC: u8 = 0xfb;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 16;

/// Longest body, bytes: a record and its digest, or a client's message about a record.
pub const BODY_BYTES_MAX: usize = (8 << 20) + 4096;

#[derive(Debug, PartialEq, Eq)]
pub enum NodeMessage<'a> {
    /// Node id, state of the node, and the settings that all nodes must share.
    Hello {
        id: u64,
        greeting: Greeting,
        common: &'a [u8],
    },
    /// Asks for an answer with the same number.
    Ping {
        number: u64,
        mode_version: ModeVersion,
    },
    /// The answer to a ping, with the sender's time since 1970, ns.
    Pong {
        number: u64,
        mode_version: ModeVersion,
        wall_ns: u64,
    },
    /// A record written by the sender.
    Image {
        number: u64,
        namespace: u16,
        digest: Digest,
        image: &'a [u8],
    },
    /// Result of an `Image`.
    Done { number: u64, result: ResultCode },
    /// A client's transaction on a partition of the receiver, in the format of the client protocol.
    Proxy {
        number: u64,
        mode_version: ModeVersion,
        message: &'a [u8],
    },
    /// The reply to a `Proxy`, in the format of the client protocol.
    Answer { number: u64, reply: &'a [u8] },
    /// The version that the sender has of a record.
    Compare {
        number: u64,
        namespace: u16,
        digest: Digest,
        version: Version,
    },
    /// Answer to a `Compare`: the version that the answering node has now, possibly a copy that it just received.
    Compared { number: u64, version: u64 },
    /// Core `core` of the sender's `cores` has compared all its records, in the comparison of this number.
    ComparedAll {
        comparison: u16,
        core: u32,
        cores: u32,
    },
}

/// Not a valid message: close the connection.
pub(super) const INVALID_NODE_MESSAGE: Malformed = Malformed::Body("fields");

impl NodeMessage<'_> {
    pub fn put(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let (kind, word, number) = match *self {
            NodeMessage::Hello {
                id,
                greeting,
                common,
            } => {
                let Greeting {
                    process,
                    mode_version,
                    empty_namespaces,
                    pairings,
                } = greeting;
                out.extend_from_slice(&process.to_le_bytes());
                out.extend_from_slice(&pairings.to_le_bytes());
                out.extend_from_slice(&empty_namespaces.to_le_bytes());
                out.extend_from_slice(common);
                (0, mode_version.number(), id)
            }
            NodeMessage::Image {
                number,
                namespace,
                digest,
                image,
            } => {
                out.extend_from_slice(&digest);
                out.extend_from_slice(image);
                (1, namespace, number)
            }
            NodeMessage::Done { number, result } => (2, result.0.into(), number),
            NodeMessage::Proxy {
                number,
                mode_version,
                message,
            } => {
                out.extend_from_slice(message);
                (3, mode_version.number(), number)
            }
            NodeMessage::Answer { number, reply } => {
                out.extend_from_slice(reply);
                (4, 0, number)
            }
            NodeMessage::Ping {
                number,
                mode_version,
            } => (5, mode_version.number(), number),
            NodeMessage::Pong {
                number,
                mode_version,
                wall_ns,
            } => {
                out.extend_from_slice(&wall_ns.to_le_bytes());
                (6, mode_version.number(), number)
            }
            NodeMessage::Compare {
                number,
                namespace,
                digest,
                version,
            } => {
                let version = version.number << 1 | u64::from(version.is_tombstone);
                out.extend_from_slice(&digest);
                out.extend_from_slice(&version.to_le_bytes());
                (7, namespace, number)
            }
            NodeMessage::Compared { number, version } => {
                out.extend_from_slice(&version.to_le_bytes());
                (8, 0, number)
            }
            NodeMessage::ComparedAll {
                comparison,
                core,
                cores,
            } => (9, comparison, u64::from(core) << 32 | u64::from(cores)),
        };
        let (header, body) = out[begin..].split_at_mut(HEADER_BYTES);
        header[..2].copy_from_slice(&[MAGIC, kind]);
        header[2..4].copy_from_slice(&u16::to_le_bytes(word));
        header[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[8..].copy_from_slice(&number.to_le_bytes());
    }
}

fn take_field<const N: usize>(body: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (field, rest) = body.split_first_chunk().ok_or(INVALID_NODE_MESSAGE)?;
    *body = rest;
    Ok(*field)
}

/// Takes the first message off `bytes`. `None` if the message is incomplete.
pub fn take<'a>(bytes: &mut &'a [u8]) -> Result<Option<NodeMessage<'a>>, Malformed> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let [magic, kind, w0, w1, l0, l1, l2, l3, number @ ..] = *header;
    let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if magic != MAGIC || len > BODY_BYTES_MAX {
        return Err(INVALID_NODE_MESSAGE);
    }
    let Some((mut body, rest)) = rest.split_at_checked(len) else {
        return Ok(None);
    };
    let word = u16::from_le_bytes([w0, w1]);
    let number = u64::from_le_bytes(number);
    let parse_mode_version = || ModeVersion::from_number(word).ok_or(INVALID_NODE_MESSAGE);
    let message = match kind {
        0 => {
            let greeting = Greeting {
                process: u64::from_le_bytes(take_field(&mut body)?),
                pairings: u64::from_le_bytes(take_field(&mut body)?),
                empty_namespaces: u32::from_le_bytes(take_field(&mut body)?),
                mode_version: parse_mode_version()?,
            };
            NodeMessage::Hello {
                id: number,
                greeting,
                common: body,
            }
        }
        1 => NodeMessage::Image {
            number,
            namespace: word,
            digest: take_field(&mut body)?,
            image: body,
        },
        2 => NodeMessage::Done {
            number,
            result: ResultCode(word as u8),
        },
        3 => NodeMessage::Proxy {
            number,
            mode_version: parse_mode_version()?,
            message: body,
        },
        4 => NodeMessage::Answer {
            number,
            reply: body,
        },
        5 => NodeMessage::Ping {
            number,
            mode_version: parse_mode_version()?,
        },
        6 => {
            let wall_ns = u64::from_le_bytes(take_field(&mut body)?);
            NodeMessage::Pong {
                number,
                mode_version: parse_mode_version()?,
                wall_ns,
            }
        }
        7 => {
            let digest = take_field(&mut body)?;
            let version = u64::from_le_bytes(take_field(&mut body)?);
            let version = Version {
                number: version >> 1,
                is_tombstone: version & 1 != 0,
            };
            NodeMessage::Compare {
                number,
                namespace: word,
                digest,
                version,
            }
        }
        8 => NodeMessage::Compared {
            number,
            version: u64::from_le_bytes(take_field(&mut body)?),
        },
        9 => NodeMessage::ComparedAll {
            comparison: word,
            core: (number >> 32) as u32,
            cores: number as u32,
        },
        _ => return Err(INVALID_NODE_MESSAGE),
    };
    *bytes = rest;
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::pair::PairMode;

    #[test]
    fn messages_are_read_as_they_were_written_and_invalid_messages_are_refused() {
        let word = |mode| ModeVersion {
            mode,
            changes: 4095,
        };
        let all = [
            NodeMessage::Hello {
                id: 7,
                greeting: Greeting {
                    process: 5,
                    mode_version: word(PairMode::Leaving),
                    empty_namespaces: 6,
                    pairings: 1 << 50,
                },
                common: b"a\nb",
            },
            NodeMessage::Ping {
                number: 8,
                mode_version: word(PairMode::Paired),
            },
            NodeMessage::Pong {
                number: 8,
                mode_version: word(PairMode::Handing),
                wall_ns: 1 << 60,
            },
            NodeMessage::Image {
                number: 1 << 40,
                namespace: 1,
                digest: [3; 20],
                image: b"image",
            },
            NodeMessage::Done {
                number: 5,
                result: ResultCode::OUT_OF_SPACE,
            },
            NodeMessage::Proxy {
                number: 6,
                mode_version: word(PairMode::Behind),
                message: b"message",
            },
            NodeMessage::Answer {
                number: 6,
                reply: b"",
            },
            NodeMessage::Compare {
                number: 7,
                namespace: 2,
                digest: [4; 20],
                version: Version {
                    number: 1 << 60,
                    is_tombstone: true,
                },
            },
            NodeMessage::Compared {
                number: 7,
                version: 9,
            },
            NodeMessage::ComparedAll {
                comparison: 4095,
                core: 3,
                cores: 4,
            },
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|said| said.put(&mut bytes));
        let mut rest = &bytes[..];
        for said in &all {
            assert_eq!(take(&mut rest).unwrap().as_ref(), Some(said));
        }
        assert_eq!(take(&mut rest), Ok(None));
        for cut in 0..HEADER_BYTES + 3 {
            assert_eq!(take(&mut &bytes[..cut]), Ok(None));
        }
        let header = |what, len: u32| {
            let mut header = vec![MAGIC, what, 0, 0];
            header.extend_from_slice(&len.to_le_bytes());
            header.resize(64, 0);
            header
        };
        let no_mode = [&[MAGIC, 5, 13][..], &[0; 61]].concat();
        for wrong in [
            no_mode,
            header(0, 11),
            header(1, 19),
            header(6, 7),
            header(7, 27),
            header(8, 0),
            header(10, 0),
            header(1, u32::MAX),
            vec![2; 64],
        ] {
            assert_eq!(take(&mut &wrong[..]), Err(INVALID_NODE_MESSAGE));
        }
    }
}
