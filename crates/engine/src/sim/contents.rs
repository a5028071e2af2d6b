//! Contents of a simulated drive, for tests that also check data. Unwritten pages take no memory.
//!
//! A completed write stays in the drive's volatile cache until a flush, unless the write had FUA. A power failure loses
//! each cached sector with a probability of 1/2, so writes are torn, lost and reordered.

use std::collections::HashMap;
use std::ops::Range;
use sys::op::{Op, OpKind, Outcome};
use sys::random::Random;

const PAGE: usize = 4096;

/// Bytes of one simulated drive.
#[derive(Debug, Clone)]
pub struct DriveContents {
    sector: usize,
    pages: HashMap<u64, Box<[u8; PAGE]>>,
    /// By offset: the medium's old data of each sector that has newer data in the cache.
    medium: HashMap<u64, Vec<u8>>,
    random: Random,
}

/// Splits `len` bytes at `offset` by page: page number, offset in the page, range of the bytes.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let position = offset + at as u64;
        let page_offset = (position % PAGE as u64) as usize;
        let end = len.min(at + PAGE - page_offset);
        let part = (at < len).then_some((position / PAGE as u64, page_offset, at..end));
        at = end;
        part
    })
}

impl DriveContents {
    /// A drive of zeros; sectors of `sector_bytes`, 512 to 4096, are atomic. `seed` determines the lost sectors.
    pub fn new(sector_bytes: u32, seed: u64) -> Self {
        let sector = (sector_bytes as usize).next_power_of_two().clamp(512, PAGE);
        Self {
            sector,
            pages: HashMap::new(),
            medium: HashMap::new(),
            random: Random::new(seed),
        }
    }

    /// Copies the bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (page, page_offset, range) in parts(offset, buffer.len()) {
            let slice = &mut buffer[range];
            match self.pages.get(&page) {
                Some(bytes) => {
                    slice.copy_from_slice(&bytes[page_offset..page_offset + slice.len()])
                }
                None => slice.fill(0),
            }
        }
    }

    /// Overwrites the bytes at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, page_offset, range) in parts(offset, bytes.len()) {
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE]));
            page[page_offset..page_offset + range.len()].copy_from_slice(&bytes[range]);
        }
    }

    pub(super) fn apply(&mut self, op: &mut Op, outcome: Outcome) {
        let len = op.buf.len().min(op.len as usize);
        match op.kind {
            OpKind::Write if !outcome.is_done() => self.tear(op),
            _ if !outcome.is_done() => {}
            OpKind::Read => self.read(op.offset, &mut op.buf[..len]),
            OpKind::Write => self.write_sectors(op.offset, &op.buf[..len], op.sync.is_on()),
            OpKind::Flush | OpKind::FlushFile => self.medium.clear(),
            OpKind::WriteBack(_) => {}
            OpKind::Deallocate => {
                self.write_sectors(op.offset, &vec![0; op.len as usize], false);
            }
        }
    }

    fn write_sectors(&mut self, offset: u64, bytes: &[u8], sync: bool) {
        for (index, new_bytes) in bytes.chunks(self.sector).enumerate() {
            let at = offset + (index * self.sector) as u64;
            if sync {
                self.medium.remove(&at);
            } else if !self.medium.contains_key(&at) {
                let mut old_bytes = vec![0; new_bytes.len()];
                self.read(at, &mut old_bytes);
                self.medium.insert(at, old_bytes);
            }
        }
        self.write(offset, bytes);
    }

    /// Writes a random set of the operation's sectors.
    pub(super) fn tear(&mut self, op: &Op) {
        let len = op.buf.len().min(op.len as usize);
        // Fraction of sectors written: 0 and 1 are explicit, because a random subset is hardly ever empty or complete.
        let share = [0.0, 1.0, 0.5, 0.9][self.random.below(4) as usize];
        for (index, sector) in op.buf[..len].chunks(self.sector).enumerate() {
            if self.random.unit() < share {
                self.write_sectors(
                    op.offset + (index * self.sector) as u64,
                    sector,
                    op.sync.is_on(),
                );
            }
        }
    }

    /// Loses a random set of the sectors that are only in the cache.
    pub(super) fn lose_power(&mut self) {
        let mut unsynced: Vec<_> = std::mem::take(&mut self.medium).into_iter().collect();
        unsynced.sort_unstable();
        for (offset, old_bytes) in unsynced {
            if self.random.below(2) == 0 {
                self.write(offset, &old_bytes);
            }
        }
    }
}
