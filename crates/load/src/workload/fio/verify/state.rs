//! fio's state file: how far the writes of a job came before it was ended. That of fio 3.33 (version 3) is written, and
//! that of later ones (version 7) is read too. Source: `verify-state.h`.
//!
//! ```text
//! version, 8 bytes; bytes behind this header, 8; crc32c of them, 8
//! version 3: completions below, 8; depth, 4; files, 4 | version 7: depth, 4; nothing, 4
//! writes begun, 8; number of the job, 8; state of fio's generator, 56; name of the job, 64
//! version 3: file and offset of the last completions, 16 for each of depth * files
//! version 7: numbers of the writes in flight or failed, 8 for each of depth
//! ```

use super::method::crc32c;
use results::files::{self, Links};
use std::path::Path;

const VERSION: u64 = 3;
const LATER_VERSION: u64 = 7;
const HEADER_BYTES: usize = 24;
const GENERATOR_BYTES: usize = 56;
const NAME_BYTES: usize = 64;

/// A state file is of a depth of some thousands at most.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How far the writes of a clone came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Writes begun.
    pub writes: u64,
    pub depth: u32,
    pub last: LastWrites,
}

/// The outcome of the last writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastWrites {
    /// Completed: file and offset. Earlier ones are all done.
    Done(Vec<(u64, u64)>),
    /// Not completed: their numbers.
    NotDone(Vec<u64>),
}

impl State {
    /// Name of the file for the job `name`, clone number `number` of all, from 1.
    pub fn file_name(name: &str, number: usize) -> String {
        format!("local-{}-{}-verify.state", name.replace('/', "."), number.saturating_sub(1))
    }

    /// The file of a job that writes `files` files, as fio 3.33 has it.
    pub fn encode(&self, name: &str, number: usize, files: u32) -> Vec<u8> {
        let done = if let LastWrites::Done(done) = &self.last { done.as_slice() } else { &[] };
        let room = self.depth as usize * files as usize;
        let mut body = Vec::new();
        let mut put = |value: u64| body.extend_from_slice(&value.to_le_bytes());
        put(done.len().min(room) as u64);
        put(u64::from(self.depth) | u64::from(files) << 32);
        put(self.writes);
        put(number.saturating_sub(1) as u64);
        body.resize(body.len() + GENERATOR_BYTES, 0);
        let name = &name.as_bytes()[..name.len().min(NAME_BYTES - 1)];
        body.extend_from_slice(name);
        body.resize(body.len() + NAME_BYTES - name.len(), 0);
        let all = done.iter().copied().chain(std::iter::repeat((0, 0))).take(room);
        all.for_each(|(file, offset)| {
            body.extend_from_slice(&file.to_le_bytes());
            body.extend_from_slice(&offset.to_le_bytes());
        });
        let header = [VERSION, body.len() as u64, crc32c(&body).into()];
        header.iter().flat_map(|value| value.to_le_bytes()).chain(body.iter().copied()).collect()
    }

    /// Reads the file at `path`.
    pub fn load(path: &Path) -> Result<Self, String> {
        let bytes = files::read(path, Links::Refused, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
        Self::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or("it is too short")?;
        let word = |bytes: &[u8], at: usize| {
            let word = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            word.map(u64::from_le_bytes).ok_or("it is too short")
        };
        let (version, len) = (word(header, 0)?, word(header, 8)?);
        if len != body.len() as u64 || word(header, 16)? != u64::from(crc32c(body)) {
            return Err("it is damaged: its length or its checksum is wrong".into());
        }
        let is_later = match version {
            VERSION => false,
            LATER_VERSION => true,
            _ => return Err(format!("it is of version {version}, and {VERSION} and {LATER_VERSION} are known")),
        };
        let skipped = if is_later { 0 } else { 8 };
        let depth = word(body, skipped)? as u32;
        let writes = word(body, skipped + 8)?;
        let list = skipped + 24 + GENERATOR_BYTES + NAME_BYTES;
        let last = if is_later {
            let numbers = (0..depth as usize).map(|at| word(body, list + at * 8));
            LastWrites::NotDone(numbers.collect::<Result<_, _>>()?)
        } else {
            let count = word(body, 0)?.min(len) as usize;
            let pair = |at: usize| Ok((word(body, list + at * 16)?, word(body, list + at * 16 + 8)?));
            LastWrites::Done((0..count).map(pair).collect::<Result<_, &str>>()?)
        };
        Ok(Self { writes, depth, last })
    }

    /// True if the write of this number, from 0, to `offset` of `file` is known to be done.
    pub(super) fn was_written(&self, number: u64, file: u64, offset: u64) -> bool {
        number < self.writes
            && match &self.last {
                LastWrites::Done(done) => {
                    number + u64::from(self.depth) < self.writes || done.contains(&(file, offset))
                }
                LastWrites::NotDone(numbers) => !numbers.contains(&number),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written_and_damage_is_seen() {
        let state = State { writes: 100, depth: 4, last: LastWrites::Done(vec![(0, 4096), (0, 8192)]) };
        let bytes = state.encode("a/b", 2, 1);
        assert_eq!((bytes.len(), State::file_name("a/b", 2).as_str()), (24 + 152 + 64, "local-a.b-1-verify.state"));
        assert_eq!(State::decode(&bytes), Ok(state.clone()));
        assert!(state.was_written(95, 0, 0) && state.was_written(97, 0, 8192));
        assert!(!state.was_written(97, 0, 0) && !state.was_written(97, 1, 8192) && !state.was_written(100, 0, 8192));
        for len in 0..bytes.len() {
            assert!(State::decode(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            assert!(State::decode(&wrong).is_err(), "{at}");
        }
    }

    #[test]
    fn the_later_form_names_writes_that_are_not_done() {
        let mut body = vec![0; 8 + 8 + 8 + GENERATOR_BYTES + NAME_BYTES];
        (body[0], body[8]) = (2, 50);
        [47, u64::MAX].iter().for_each(|number: &u64| body.extend_from_slice(&number.to_le_bytes()));
        let header = [LATER_VERSION, body.len() as u64, crc32c(&body).into()];
        let bytes: Vec<u8> = header.iter().flat_map(|value| value.to_le_bytes()).chain(body).collect();
        let state = State::decode(&bytes).unwrap();
        assert_eq!((state.writes, &state.last), (50, &LastWrites::NotDone(vec![47, u64::MAX])));
        assert!(state.was_written(49, 0, 0) && !state.was_written(47, 0, 0) && !state.was_written(50, 0, 0));
    }
}
