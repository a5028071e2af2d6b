//! The cold start: reads every write block, and indexes the greatest version of each record.
//!
//! Blocks are read in large chunks, several at once, and examined in the order of completion. A block without a header
//! of this device is unused. Blocks are allocated from the first on, and at most `unwritten_max` of them are begun and
//! not written yet. So the search ends after more than `unwritten_max` unused blocks in a row. Then `damage` judges the
//! unreadable parts. The cold start ends with a flush, because the data may have been only in the drive's cache.

use super::Store;
use super::damage::{DamageVerdict, IncompleteBlock};
use crate::index::{IndexEntry, RecordLocation};
use crate::io::OpPurpose;
use crate::record::{UNIT, is_later, moves};
use crate::seal::{DurabilityEvidence, NUMBER_MAX, VolumeMark};
use crate::volume::unwritten_max;
use crate::write_block::{BlockItem, BlockWalk, HeaderState, UnreadablePart, WriteBlockHeader};
use crate::{MARKS_BYTES, StoreDisk};
use std::cmp::Ordering;
use std::ops::Range;
use sys::buffer::Buf;
use sys::op::{Completion, OpKind};

/// Maximum number of chunk reads in flight on one volume.
pub(super) const DEPTH: usize = 8;

/// Maximum number of retries of a failed read or flush.
const TRIES: u32 = 5;

/// Records whose index entries are prefetched together.
const BATCH: usize = 64;

pub(super) fn chunk_bytes(block_bytes: usize) -> usize {
    block_bytes.max(1 << 20)
}

#[derive(Debug)]
pub(super) struct ColdStart {
    pub(super) volumes: Vec<VolumeScan>,
    /// Records of a block that are not indexed yet.
    entries: Vec<IndexEntry>,
    pub(super) is_accepted: bool,
}

#[derive(Debug, Default, Clone)]
pub(super) struct VolumeScan {
    next_block: u32,
    /// Number of the last used block plus one.
    pub(super) used: u32,
    /// Blocks whose read failed, each with the number of the next retry.
    retries: Vec<(Range<u32>, u32)>,
    has_requested_marks: bool,
    in_flight: usize,
    pub(super) mark: Option<VolumeMark>,
    pub(super) damaged_marks: usize,
    pub(super) evidence: DurabilityEvidence,
    /// Blocks with a valid header that are damaged or incomplete.
    pub(super) suspects: Vec<IncompleteBlock>,
    pub(super) verdict: Option<DamageVerdict>,
    pub(super) is_started: bool,
    is_done: bool,
}

impl ColdStart {
    pub(super) fn new(volumes: usize) -> Self {
        Self {
            volumes: vec![VolumeScan::default(); volumes],
            entries: Vec::with_capacity(BATCH),
            is_accepted: false,
        }
    }
}

impl Store {
    /// Continues the cold start. Returns `u64::MAX`, because no work is due at a certain time.
    pub(super) fn drive_scan(&mut self, disk: &mut impl StoreDisk) -> u64 {
        for number in 0..self.volumes.len() {
            while self.read_chunk(number, disk) {}
        }
        let Some(scan) = &self.scan else {
            return u64::MAX;
        };
        if scan.volumes.iter().all(|progress| progress.is_done) {
            self.scan = None;
            if self.index.is_full() {
                let records = self.index.len();
                let what =
                    "records take all of memory-size - new records are refused - raise memory-size";
                self.remark(None, format!("{records} {what}"));
            }
        } else if scan
            .volumes
            .iter()
            .all(|progress| progress.verdict.is_some())
            && self.damage().is_none()
        {
            self.start(disk);
        }
        u64::MAX
    }

    /// Begins the next read of a volume, or judges the blocks once all are read. Returns true if a read was begun.
    fn read_chunk(&mut self, number: usize, disk: &mut impl StoreDisk) -> bool {
        let Some(scan) = &mut self.scan else {
            return false;
        };
        let progress = &mut scan.volumes[number];
        let volume = &mut self.volumes[number];
        if progress.verdict.is_some() || progress.in_flight >= DEPTH || !self.io.may_begin() {
            return false;
        }
        if !progress.has_requested_marks {
            return self.read_marks(number, 0, disk);
        }
        let scan_limit = progress
            .used
            .saturating_add(unwritten_max(volume.block_bytes) + 1);
        let end = scan_limit.min(volume.blocks.len() as u32);
        let chunk = (chunk_bytes(volume.block_bytes) / volume.block_bytes) as u32;
        let (mut blocks, tries) = match progress.retries.pop() {
            Some(again) => again,
            None if progress.next_block < end => {
                (progress.next_block..end.min(progress.next_block + chunk), 0)
            }
            None if progress.in_flight > 0 => return false,
            None => {
                self.judge(number);
                return false;
            }
        };
        let buf = self
            .io
            .buffer(blocks.len() * volume.block_bytes, disk)
            .or_else(|| {
                blocks.end = blocks.start + 1;
                self.io.buffer(volume.block_bytes, disk)
            });
        let Some(buf) = buf else {
            if tries > 0 {
                progress.retries.push((blocks, tries));
            }
            return false;
        };
        progress.next_block = progress.next_block.max(blocks.end);
        progress.in_flight += 1;
        let target = volume.space.target;
        let bytes = volume.bytes_of(blocks.clone());
        let purpose = OpPurpose::Scan {
            volume: number as u8,
            blocks,
            tries,
        };
        self.io
            .submit(purpose, (target, OpKind::Read), bytes, buf, disk);
        true
    }

    /// Begins to read the marks of a volume, if there is a buffer.
    fn read_marks(&mut self, number: usize, tries: u32, disk: &mut impl StoreDisk) -> bool {
        let Some(buf) = self.io.buffer(MARKS_BYTES as usize, disk) else {
            return false;
        };
        let space = &self.volumes[number].space;
        let target = space.target;
        let bytes = space.marks_offset..space.marks_offset + MARKS_BYTES;
        self.io.submit(
            OpPurpose::Marks {
                volume: number as u8,
                tries,
            },
            (target, OpKind::Read),
            bytes,
            buf,
            disk,
        );
        if let Some(scan) = &mut self.scan {
            let progress = &mut scan.volumes[number];
            (progress.has_requested_marks, progress.in_flight) = (true, progress.in_flight + 1);
        }
        true
    }

    pub(super) fn on_marks(
        &mut self,
        number: usize,
        tries: u32,
        completion: Completion,
        disk: &mut impl StoreDisk,
    ) {
        let volume = &mut self.volumes[number];
        let Some(scan) = &mut self.scan else {
            return;
        };
        let progress = &mut scan.volumes[number];
        progress.in_flight -= 1;
        if completion.outcome.is_done() {
            let (marks, damaged) =
                VolumeMark::read_both(&completion.buf[..MARKS_BYTES as usize], volume.space.id);
            for mark in &marks {
                progress
                    .evidence
                    .add(&mark.bounds, volume.blocks.len() as u32, NUMBER_MAX);
            }
            (progress.mark, progress.damaged_marks) = (marks.last().copied(), damaged);
        } else {
            volume.counters.read_errors += 1;
            progress.damaged_marks = 2;
        }
        self.io.recycle(completion.buf);
        if !completion.outcome.is_done() && tries < TRIES {
            self.read_marks(number, tries + 1, disk);
        }
    }

    pub(super) fn on_scanned(
        &mut self,
        number: usize,
        blocks: Range<u32>,
        tries: u32,
        completion: Completion,
    ) {
        let Some(mut scan) = self.scan.take() else {
            return;
        };
        let progress = &mut scan.volumes[number];
        progress.in_flight -= 1;
        if completion.outcome.is_done() {
            let bytes = self.volumes[number].block_bytes;
            for (block, bytes) in blocks.zip(completion.buf.chunks_exact(bytes)) {
                self.take_block(number, block, bytes, progress, &mut scan.entries);
            }
        } else {
            self.volumes[number].counters.read_errors += 1;
            if tries < TRIES {
                progress
                    .retries
                    .extend(blocks.map(|block| (block..block + 1, tries + 1)));
            } else {
                let why = completion.outcome;
                for block in blocks {
                    self.volumes[number].blocks.bad(block);
                    progress.used = progress.used.max(block + 1);
                    self.remark(
                        Some(number),
                        format!("write block {block} could not be read - {why}"),
                    );
                }
            }
        }
        self.io.recycle(completion.buf);
        self.scan = Some(scan);
    }

    /// Examines a block that was read: indexes its records, or keeps it as a suspect.
    fn take_block(
        &mut self,
        number: usize,
        block: u32,
        bytes: &[u8],
        progress: &mut VolumeScan,
        entries: &mut Vec<IndexEntry>,
    ) {
        let volume = &mut self.volumes[number];
        let header = WriteBlockHeader::read(bytes, volume.space.id, block);
        if header == HeaderState::None {
            return;
        }
        progress.used = progress.used.max(block + 1);
        let header = match header {
            // No store reaches `NUMBER_MAX`: such a sequence number comes from crafted bytes.
            HeaderState::Whole(header) if header.sequence < NUMBER_MAX => header,
            _ => return volume.blocks.damaged(block),
        };
        volume.sequence = volume.sequence.max(header.sequence);
        volume.blocks.found(block, header.sequence, header.seed());
        let blocks = volume.blocks.len() as u32;
        let mut walk = BlockWalk::new(bytes.len(), header.seed());
        let mut suspect = IncompleteBlock {
            block,
            sequence: header.sequence,
            ..IncompleteBlock::default()
        };
        loop {
            match walk.next(bytes) {
                BlockItem::Seal(seal) => {
                    progress.evidence.add(&seal.bounds, blocks, NUMBER_MAX);
                    (suspect.last_seal, suspect.pieces_end) = (seal.at, seal.end);
                }
                BlockItem::Record(record, at, len)
                    if self.volume_of(&record.digest) == number && record.version < NUMBER_MAX =>
                {
                    let offset = (at / UNIT) as u32;
                    let units = (len / UNIT) as u32;
                    let location = RecordLocation {
                        block,
                        offset,
                        units,
                        volume: number as u8,
                    };
                    let mut entry = IndexEntry::for_record(&record, location);
                    entry.moves = moves(&bytes[at..]);
                    suspect.is_torn |= at as u32 >= suspect.pieces_end;
                    entries.push(entry);
                }
                // Crafted bytes that look like a record.
                BlockItem::Record(_, at, len) => suspect.flaws.push(UnreadablePart {
                    at: at as u32,
                    bytes: len as u32,
                    records: 1,
                }),
                BlockItem::Flaw(flaw) => suspect.flaws.push(flaw),
                BlockItem::End(end) => {
                    suspect.end = end;
                    if end.is_none() && suspect.flaws.is_empty() {
                        return self.take_records(entries);
                    }
                    suspect.records = std::mem::take(entries);
                    return progress.suspects.push(suspect);
                }
            }
        }
    }

    pub(super) fn take_records(&mut self, entries: &mut Vec<IndexEntry>) {
        for (number, entry) in entries.iter().enumerate() {
            if number % BATCH == 0 {
                let batch = &entries[number..entries.len().min(number + BATCH)];
                self.index
                    .warm(batch.iter().map(|entry| &entry.digest), batch.len());
            }
            let blocks = &mut self.volumes[usize::from(entry.location.volume)].blocks;
            let old_entry = self.index.get(&entry.digest).copied();
            if let Some(known) = &old_entry {
                // A moved record is in two blocks with the same version. The copy that was moved more often is valid.
                let is_newer = match entry.version.cmp(&known.version) {
                    Ordering::Equal => is_later(entry.moves, known.moves),
                    order => order.is_gt(),
                };
                if !is_newer {
                    continue;
                }
            }
            self.version = self.version.max(entry.version);
            self.index.put(*entry);
            blocks.add(entry.location.block, entry.location.units);
            if let Some(known) = &old_entry {
                blocks.remove(known.location.block, known.location.units);
            }
            self.count(old_entry.as_ref(), Some(entry));
        }
        entries.clear();
    }

    pub(super) fn flush_device(&mut self, number: usize, tries: u32, disk: &mut impl StoreDisk) {
        let target = self.volumes[number].space.target;
        let purpose = OpPurpose::Flush {
            volume: number as u8,
            tries,
        };
        self.io
            .submit(purpose, (target, OpKind::Flush), 0..0, Buf::empty(), disk);
    }

    pub(super) fn on_scan_flushed(
        &mut self,
        number: usize,
        tries: u32,
        completion: &Completion,
        disk: &mut impl StoreDisk,
    ) {
        if !completion.outcome.is_done() {
            self.volumes[number].counters.write_errors += 1;
            if tries < TRIES {
                return self.flush_device(number, tries + 1, disk);
            }
            self.volumes[number].refuses_writes = true;
            let why = completion.outcome;
            self.remark(
                Some(number),
                format!("the device could not be flushed - {why} - writes are refused"),
            );
        }
        if let Some(scan) = &mut self.scan {
            scan.volumes[number].is_done = true;
        }
    }
}
