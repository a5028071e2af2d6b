//! The cold start: reads every write block, and indexes the greatest version of each record.
//!
//! Blocks are read in large chunks, several at once, in whatever order they come. A block whose header is not of this
//! device is unused. Blocks are allocated from the first on, so the search ends after more unused blocks in a row than
//! can have been begun and not written. A flush ends the cold start, because the data may have been in the drive's
//! cache only.

use super::Store;
use crate::Disk;
use crate::block_header::{BlockHeader, Header};
use crate::index::{Entry, Place};
use crate::io::Pending;
use crate::record::{Found, UNIT, Walk};
use crate::volume::unwritten_max;
use std::ops::Range;
use sys::buffer::Buf;
use sys::op::{Completion, OpKind};

/// Chunks of one volume that are read at once.
pub(super) const DEPTH: usize = 8;

/// Number of attempts to read an unreadable block.
const TRIES: u32 = 5;

/// Versions and sequence numbers are below this.
const NUMBER_MAX: u64 = 1 << 62;

/// Records that are looked up at once.
const BATCH: usize = 64;

/// Bytes that are read at once.
pub(super) fn chunk_bytes(block_bytes: usize) -> usize {
    block_bytes.max(1 << 20)
}

/// A cold start in progress.
#[derive(Debug)]
pub(super) struct Scan {
    volumes: Vec<Progress>,
    /// Records of a block that are not indexed yet.
    found: Vec<Entry>,
}

#[derive(Debug, Default, Clone)]
struct Progress {
    /// Next block to read.
    next: u32,
    /// One past the last used block.
    used: u32,
    /// Unreadable blocks, and the number of attempts.
    again: Vec<(Range<u32>, u32)>,
    flying: usize,
    damaged: u64,
    is_misplaced: bool,
    is_sorted: bool,
    is_done: bool,
}

impl Scan {
    pub(super) fn new(volumes: usize) -> Self {
        Self { volumes: vec![Progress::default(); volumes], found: Vec::with_capacity(BATCH) }
    }
}

impl Store {
    /// Reads on. Nothing is due by time.
    pub(super) fn drive_scan(&mut self, disk: &mut impl Disk) -> u64 {
        for number in 0..self.volumes.len() {
            while self.read_chunk(number, disk) {}
        }
        if self.scan.as_ref().is_some_and(|scan| scan.volumes.iter().all(|progress| progress.is_done)) {
            self.scan = None;
            if self.index.is_full() {
                self.remark(format!(
                    "{} records take all of memory-size - no new ones are written; raise it",
                    self.index.len()
                ));
            }
        }
        u64::MAX
    }

    /// Begins the next read of a volume, or ends its scan.
    fn read_chunk(&mut self, number: usize, disk: &mut impl Disk) -> bool {
        let Some(scan) = &mut self.scan else { return false };
        let (progress, volume) = (&mut scan.volumes[number], &mut self.volumes[number]);
        if progress.is_sorted || progress.flying >= DEPTH || !self.io.may_begin() {
            return false;
        }
        let behind = progress.used.saturating_add(unwritten_max(volume.block_bytes()) + 1);
        let end = behind.min(volume.blocks.len() as u32);
        let chunk = (chunk_bytes(volume.block_bytes()) / volume.block_bytes()) as u32;
        let (mut blocks, tries) = match progress.again.pop() {
            Some(again) => again,
            None if progress.next < end => (progress.next..end.min(progress.next + chunk), 0),
            None if progress.flying > 0 => return false,
            None => {
                progress.is_sorted = true;
                volume.blocks.start(progress.used);
                let (target, damaged) = (volume.space().target, progress.damaged);
                self.flush_device(number, 0, disk);
                if damaged > 0 {
                    self.remark(format!(
                        "device {target}: {damaged} write blocks are damaged - what could not be read was skipped"
                    ));
                }
                return false;
            }
        };
        let mut buf = self.io.buffer(blocks.len() * volume.block_bytes(), disk);
        if buf.is_none() {
            buf = self.io.buffer(volume.block_bytes(), disk);
            if blocks.len() > 1 && buf.is_some() && tries > 0 {
                progress.again.push((blocks.start + 1..blocks.end, tries));
            }
            blocks.end = blocks.start + 1;
        }
        let Some(buf) = buf else {
            if tries > 0 {
                progress.again.push((blocks, tries));
            }
            return false;
        };
        progress.next = progress.next.max(blocks.end);
        progress.flying += 1;
        let (target, bytes) = (volume.space().target, volume.bytes_of(blocks.clone()));
        self.io.submit(Pending::Scan { volume: number as u8, blocks, tries }, (target, OpKind::Read), bytes, buf, disk);
        true
    }

    pub(super) fn on_scanned(&mut self, number: usize, blocks: Range<u32>, tries: u32, done: Completion) {
        let Some(mut scan) = self.scan.take() else { return };
        let progress = &mut scan.volumes[number];
        progress.flying -= 1;
        if done.outcome.is_done() {
            let bytes = self.volumes[number].block_bytes();
            for (block, bytes) in blocks.zip(done.buf.chunks_exact(bytes)) {
                self.take_block(number, block, bytes, progress, &mut scan.found);
            }
        } else {
            self.volumes[number].counted.errors += 1;
            if tries < TRIES {
                progress.again.extend(blocks.map(|block| (block..block + 1, tries + 1)));
            } else {
                for block in blocks {
                    self.volumes[number].blocks.bad(block);
                    progress.used = progress.used.max(block + 1);
                    let target = self.volumes[number].space().target;
                    self.remark(format!(
                        "device {target}: write block {block} could not be read - {} - skipped",
                        done.outcome
                    ));
                }
            }
        }
        self.io.recycle(done.buf);
        self.scan = Some(scan);
    }

    /// Indexes the records of a block.
    fn take_block(&mut self, number: usize, block: u32, bytes: &[u8], progress: &mut Progress, batch: &mut Vec<Entry>) {
        let volume = &mut self.volumes[number];
        let header = match BlockHeader::read(bytes, volume.space().id, block) {
            Header::None => return,
            Header::Damaged => {
                progress.used = progress.used.max(block + 1);
                progress.damaged += 1;
                return volume.blocks.damaged(block);
            }
            Header::Misplaced(is) => {
                progress.used = progress.used.max(block + 1);
                if !progress.is_misplaced {
                    progress.is_misplaced = true;
                    volume.refuse_writes();
                    let target = volume.space().target;
                    self.remark(format!(
                        "device {target}: where write block {block} should be is block {is} - the device was formatted with \
                         another size - writes are refused, so that nothing is lost: give it that size again"
                    ));
                }
                return;
            }
            // Numbers that no store reaches: bytes made to look like a block.
            Header::Whole(header) if header.sequence >= NUMBER_MAX => {
                progress.used = progress.used.max(block + 1);
                progress.damaged += 1;
                return volume.blocks.damaged(block);
            }
            Header::Whole(header) => header,
        };
        progress.used = progress.used.max(block + 1);
        volume.sequence = volume.sequence.max(header.sequence);
        volume.blocks.found(block, header.sequence, header.seed());
        let mut walk = Walk::new(bytes.len(), header.seed());
        loop {
            match walk.next(bytes) {
                Found::Record(record, at, len)
                    if self.volume_of(&record.digest) == number && record.version < NUMBER_MAX =>
                {
                    let (offset, units) = ((at / UNIT) as u32, (len / UNIT) as u32);
                    let place = Place { block, offset, units, volume: number as u8 };
                    let (version, generation) = (record.version, record.generation);
                    let entry = Entry::new(record.digest, version, place, record.void_time, generation);
                    batch.push(entry.with(record.tombstone, !record.key.is_empty()));
                    if batch.len() == BATCH {
                        self.take_records(batch, header.sequence);
                    }
                }
                Found::Record(..) => progress.damaged += 1,
                Found::End { damaged } => {
                    progress.damaged += u64::from(damaged);
                    return self.take_records(batch, header.sequence);
                }
            }
        }
    }

    /// Indexes records of a block of this sequence number.
    fn take_records(&mut self, batch: &mut Vec<Entry>, sequence: u64) {
        self.index.warm(batch.iter().map(|entry| &entry.digest));
        for entry in batch.drain(..) {
            let blocks = &mut self.volumes[usize::from(entry.place.volume)].blocks;
            let known = self.index.get(&entry.digest).copied();
            // A moved record is in two blocks as the same version; the later block is valid.
            let is_newer =
                |known: &Entry| (entry.version, sequence) > (known.version, blocks.get(known.place.block).sequence);
            if !known.as_ref().is_none_or(is_newer) {
                continue;
            }
            self.version = self.version.max(entry.version);
            self.index.put(entry);
            blocks.add(entry.place.block, entry.place.units);
            if let Some(known) = &known {
                blocks.remove(known.place.block, known.place.units);
            }
            self.count(known.as_ref(), Some(&entry));
        }
    }

    fn flush_device(&mut self, number: usize, tries: u32, disk: &mut impl Disk) {
        let target = self.volumes[number].space().target;
        let pending = Pending::Flush { volume: number as u8, tries };
        self.io.submit(pending, (target, OpKind::Flush), 0..0, Buf::empty(), disk);
    }

    pub(super) fn on_scan_flushed(&mut self, number: usize, tries: u32, done: &Completion, disk: &mut impl Disk) {
        if !done.outcome.is_done() {
            self.volumes[number].counted.errors += 1;
            if tries < TRIES {
                return self.flush_device(number, tries + 1, disk);
            }
            self.volumes[number].refuse_writes();
            let target = self.volumes[number].space().target;
            self.remark(format!("device {target} could not be flushed - {} - writes are refused", done.outcome));
        }
        if let Some(scan) = &mut self.scan {
            scan.volumes[number].is_done = true;
        }
    }
}
