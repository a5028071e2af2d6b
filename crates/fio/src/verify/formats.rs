//! fio's formats of verification data: the header of a verified block, and the state file, which records the progress
//! of a job's writes. flashproof writes the formats of fio 3.33, and also reads later formats. Source: `verify.h`,
//! `verify-state.h`.
//!
//! ```text
//! header  3.33                          since version 0x81
//!      0  magic, 2 bytes                magic
//!      2  method, 2                     version, 1; method, 1
//!      4  length of the block, 4        the same
//!      8  seed of its data, 8           the same
//!     16  offset of the block, 8        the same
//!     24  time: seconds, 4; ns, 4       the same
//!     32  job, 2; number of write, 2    number of write, 8
//!     36  crc32c of bytes 0 to 35, 4   job, 2; nothing, 2; 44: crc32c, 4
//!
//! state file
//! version, 8 bytes; bytes after this header, 8; crc32c of them, 8
//! version 3: number of completions, 8; depth, 4; files, 4 | version 7: depth, 4; nothing, 4
//! writes begun, 8; number of the job, 8; state of fio's generator, 56; name of the job, 64
//! version 3: file and offset of the last completions, 16 each, depth * files of them
//! version 7: numbers of the writes in flight or failed, 8 each, depth of them
//! ```
//!
//! All numbers are little-endian, as on the machines that flashproof runs on. The digest of a block follows its header.

use results::files::{self, Links};
use std::path::Path;

const MAGIC: u16 = 0xacca;

/// Bytes of the header of fio 3.33, which flashproof writes.
pub(super) const HEADER_BYTES: usize = 40;

/// Bytes of the header of later fio versions.
const LATER_HEADER_BYTES: usize = 48;
const LATER_HEADER: u8 = 0x81;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlockHeader {
    pub(super) method: u8,
    /// Bytes of the block.
    pub(super) len: u32,
    pub(super) seed: u64,
    pub(super) offset: u64,
    pub(super) sec: u32,
    pub(super) nsec: u32,
    pub(super) job: u16,
    /// Number of the write in its job; the header of fio 3.33 has only its lower 16 bits.
    pub(super) write: u64,
    /// True for the header of later fio versions.
    pub(super) is_later: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("no header of verify (bad magic {0:x}, expected acca)")]
    Magic(u16),
    #[error("a header of version {0:x}, which is unknown")]
    Version(u8),
    #[error("a damaged header (expected crc {expected:x}, found {found:x})")]
    Checksum { found: u32, expected: u32 },
}

impl BlockHeader {
    pub(super) fn bytes(&self) -> usize {
        if self.is_later {
            LATER_HEADER_BYTES
        } else {
            HEADER_BYTES
        }
    }

    /// Writes the header of fio 3.33 to the beginning of `block`.
    pub(super) fn put(&self, block: &mut [u8]) {
        let header = &mut block[..HEADER_BYTES];
        header[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        header[2..4].copy_from_slice(&u16::from(self.method).to_le_bytes());
        header[4..8].copy_from_slice(&self.len.to_le_bytes());
        header[8..16].copy_from_slice(&self.seed.to_le_bytes());
        header[16..24].copy_from_slice(&self.offset.to_le_bytes());
        header[24..28].copy_from_slice(&self.sec.to_le_bytes());
        header[28..32].copy_from_slice(&self.nsec.to_le_bytes());
        header[32..34].copy_from_slice(&self.job.to_le_bytes());
        header[34..36].copy_from_slice(&(self.write as u16).to_le_bytes());
        let sum = crc32c(&header[..36]);
        header[36..40].copy_from_slice(&sum.to_le_bytes());
    }

    /// The header at the beginning of `block`, in the format of fio 3.33 or of later versions.
    pub(super) fn parse(block: &[u8]) -> Result<Self, HeaderError> {
        let bytes = padded(block);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let is_later = bytes[2] == LATER_HEADER;
        match u16_at(0) {
            MAGIC if is_later || bytes[3] == 0 => {}
            MAGIC => return Err(HeaderError::Version(bytes[2])),
            magic => return Err(HeaderError::Magic(magic)),
        }
        let sum_at = if is_later { 44 } else { 36 };
        let found = u32_at(sum_at);
        let expected = crc32c(&bytes[..sum_at]);
        if found != expected {
            return Err(HeaderError::Checksum { found, expected });
        }
        Ok(Self {
            method: bytes[if is_later { 3 } else { 2 }],
            len: u32_at(4),
            seed: u64_at(8),
            offset: u64_at(16),
            sec: u32_at(24),
            nsec: u32_at(28),
            job: u16_at(if is_later { 40 } else { 32 }),
            write: if is_later {
                u64_at(32)
            } else {
                u16_at(34).into()
            },
            is_later,
        })
    }

    /// The header at the beginning of `block` with one flipped bit corrected, and the number of that bit in the block.
    pub(super) fn corrected(block: &[u8]) -> Option<(Self, usize)> {
        let mut bytes = padded(block);
        (0..block.len().min(LATER_HEADER_BYTES) * 8).find_map(|bit| {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let header = Self::parse(&bytes)
                .ok()
                .filter(|header| bit < header.bytes() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            header.map(|header| (header, bit))
        })
    }
}

/// The first bytes of a block, with zeros after a block that is too short for a header.
fn padded(block: &[u8]) -> [u8; LATER_HEADER_BYTES] {
    let mut bytes = [0; LATER_HEADER_BYTES];
    let len = block.len().min(LATER_HEADER_BYTES);
    bytes[..len].copy_from_slice(&block[..len]);
    bytes
}

const STATE_VERSION: u64 = 3;
const LATER_STATE: u64 = 7;
const STATE_HEAD_BYTES: usize = 24;
const GENERATOR_BYTES: usize = 56;
const NAME_BYTES: usize = 64;

/// Maximum size of a state file that is read, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyState {
    pub writes: u64,
    pub depth: u32,
    pub last_writes: LastWrites,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastWrites {
    /// Completed writes: file and offset. All earlier writes have completed.
    Done(Vec<(u64, u64)>),
    /// Numbers of the writes that have not completed.
    NotDone(Vec<u64>),
}

impl VerifyState {
    /// `number`: number of the clone among all clones, from 1.
    pub fn file_name(name: &str, number: usize) -> String {
        format!(
            "local-{}-{}-verify.state",
            name.replace('/', "."),
            number.saturating_sub(1)
        )
    }

    /// The state file of a job that writes `files` files, in fio 3.33's format.
    pub fn encode(&self, name: &str, number: usize, files: u32) -> Vec<u8> {
        let completed = if let LastWrites::Done(done) = &self.last_writes {
            done.as_slice()
        } else {
            &[]
        };
        let room = self.depth as usize * files as usize;
        let depth_and_files = u64::from(self.depth) | u64::from(files) << 32;
        let head = [
            completed.len().min(room) as u64,
            depth_and_files,
            self.writes,
            number.saturating_sub(1) as u64,
        ];
        let mut body: Vec<u8> = head.into_iter().flat_map(u64::to_le_bytes).collect();
        body.resize(body.len() + GENERATOR_BYTES, 0);
        let name = &name.as_bytes()[..name.len().min(NAME_BYTES - 1)];
        body.extend_from_slice(name);
        body.resize(body.len() + NAME_BYTES - name.len(), 0);
        let slots = completed
            .iter()
            .copied()
            .chain(std::iter::repeat((0, 0)))
            .take(room);
        body.extend(
            slots
                .flat_map(|(file, offset)| [file, offset])
                .flat_map(u64::to_le_bytes),
        );
        let header = [STATE_VERSION, body.len() as u64, crc32c(&body).into()];
        header
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .chain(body.iter().copied())
            .collect()
    }

    pub fn load(path: &Path) -> Result<Self, String> {
        let bytes =
            files::read(path, Links::Refused, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
        Self::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (header, body) = bytes
            .split_at_checked(STATE_HEAD_BYTES)
            .ok_or("the file is too short")?;
        let version = number_at(header, 0)?;
        let len = number_at(header, 8)?;
        if len != body.len() as u64 || number_at(header, 16)? != u64::from(crc32c(body)) {
            return Err("the file is damaged: its length or checksum is wrong".into());
        }
        let is_later = match version {
            STATE_VERSION => false,
            LATER_STATE => true,
            _ => {
                return Err(format!(
                    "the file has version {version}, but only {STATE_VERSION} and {LATER_STATE} are supported"
                ));
            }
        };
        let skipped = if is_later { 0 } else { 8 };
        let depth = number_at(body, skipped)? as u32;
        let writes = number_at(body, skipped + 8)?;
        let list = skipped + 24 + GENERATOR_BYTES + NAME_BYTES;
        let last_writes = if is_later {
            let numbers = (0..depth as usize).map(|at| number_at(body, list + at * 8));
            LastWrites::NotDone(numbers.collect::<Result<_, _>>()?)
        } else {
            let count = number_at(body, 0)?.min(len) as usize;
            let mut done = Vec::new();
            for slot in 0..count {
                let at = list + slot * 16;
                done.push((number_at(body, at)?, number_at(body, at + 8)?));
            }
            LastWrites::Done(done)
        };
        Ok(Self {
            writes,
            depth,
            last_writes,
        })
    }

    /// True if write number `number`, counted from 0, to `offset` of `file` is known to have completed.
    pub(super) fn was_written(&self, number: u64, file: u64, offset: u64) -> bool {
        number < self.writes
            && match &self.last_writes {
                LastWrites::Done(done) => {
                    number + u64::from(self.depth) < self.writes || done.contains(&(file, offset))
                }
                LastWrites::NotDone(numbers) => !numbers.contains(&number),
            }
    }
}

fn number_at(bytes: &[u8], at: usize) -> Result<u64, &'static str> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map(|word| u64::from_le_bytes(*word))
        .ok_or("the file is too short")
}

/// CRC-32C without the inversion at the end, as everywhere in fio.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    !crc32c::crc32c(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_fio_is_the_same_after_reading_and_writing() {
        // A block of fio 3.33 with verify=md5, up to the digest.
        let block: [u8; HEADER_BYTES] = [
            0xca, 0xac, 0x02, 0x00, 0x00, 0x10, 0x00, 0x00, 0x2e, 0x56, 0xdb, 0xf6, 0x8c, 0x0a,
            0xbb, 0x88, 0x00, 0x10, 0, 0, 0, 0, 0, 0, 0x5e, 0x01, 0, 0, 0x42, 0xf1, 0x11, 0x0f,
            0x01, 0x00, 0x01, 0x00, 0x06, 0x34, 0x7c, 0xb0,
        ];
        let header = BlockHeader::parse(&block).unwrap();
        assert_eq!(header.method, 2);
        assert_eq!(header.len, 4096);
        assert_eq!(header.offset, 4096);
        assert_eq!(header.job, 1);
        assert_eq!(header.write, 1);
        let mut written = [0xff; HEADER_BYTES];
        header.put(&mut written);
        assert_eq!(written, block);
        for bit in 0..HEADER_BYTES * 8 {
            written[bit / 8] ^= 1 << (bit % 8);
            assert!(BlockHeader::parse(&written).is_err(), "{bit}");
            assert_eq!(BlockHeader::corrected(&written), Some((header, bit)));
            written[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn the_header_of_later_versions_of_fio_is_read() {
        let mut block = [0; 64];
        block[..4].copy_from_slice(&[0xca, 0xac, LATER_HEADER, 5]);
        block[32..40].copy_from_slice(&70_000_u64.to_le_bytes());
        block[40] = 3;
        let sum = crc32c(&block[..44]);
        block[44..48].copy_from_slice(&sum.to_le_bytes());
        let header = BlockHeader::parse(&block).unwrap();
        assert_eq!(
            (header.method, header.write, header.job, header.bytes()),
            (5, 70_000, 3, 48)
        );
        block[2] = 0x82;
        block[3] = 5;
        assert_eq!(BlockHeader::parse(&block), Err(HeaderError::Version(0x82)));
        assert_eq!(BlockHeader::parse(&[0; 9]), Err(HeaderError::Magic(0)));
    }

    #[test]
    fn a_state_file_survives_a_round_trip_and_damage_is_detected() {
        let state = VerifyState {
            writes: 100,
            depth: 4,
            last_writes: LastWrites::Done(vec![(0, 4096), (0, 8192)]),
        };
        let bytes = state.encode("a/b", 2, 1);
        assert_eq!(
            (bytes.len(), VerifyState::file_name("a/b", 2).as_str()),
            (24 + 152 + 64, "local-a.b-1-verify.state")
        );
        assert_eq!(VerifyState::decode(&bytes), Ok(state.clone()));
        assert!(state.was_written(95, 0, 0) && state.was_written(97, 0, 8192));
        assert!(
            !state.was_written(97, 0, 0)
                && !state.was_written(97, 1, 8192)
                && !state.was_written(100, 0, 8192)
        );
        for len in 0..bytes.len() {
            assert!(VerifyState::decode(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            assert!(VerifyState::decode(&wrong).is_err(), "{at}");
        }
    }

    #[test]
    fn the_later_state_file_lists_writes_that_are_not_done() {
        let mut body = vec![0; 8 + 8 + 8 + GENERATOR_BYTES + NAME_BYTES];
        (body[0], body[8]) = (2, 50);
        [47, u64::MAX]
            .iter()
            .for_each(|number: &u64| body.extend_from_slice(&number.to_le_bytes()));
        let header = [LATER_STATE, body.len() as u64, crc32c(&body).into()];
        let bytes: Vec<u8> = header
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .chain(body)
            .collect();
        let state = VerifyState::decode(&bytes).unwrap();
        assert_eq!(state.writes, 50);
        assert_eq!(&state.last_writes, &LastWrites::NotDone(vec![47, u64::MAX]));
        assert!(
            state.was_written(49, 0, 0)
                && !state.was_written(47, 0, 0)
                && !state.was_written(50, 0, 0)
        );
    }
}
