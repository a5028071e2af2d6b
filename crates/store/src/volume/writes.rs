//! Writes of a volume's buffers: their schedule, durability, and the buffers that are kept afterwards.
//!
//! A mark is written when the volume is at rest, so that a cold start knows where the log ended. A mark is also written
//! to announce a block that will be overwritten, if no seal announces it.

use super::blocks::State;
use super::{Buffer, Piece, Purpose, Volume};
use crate::index::RecordLocation;
use crate::io::{Io, OpPurpose};
use crate::record::UNIT;
use crate::seal::{Bounds, Evidence, Mark, Seal};
use crate::{Disk, Losses, Replies, Reply, ResultCode};
use std::collections::BTreeSet;
use sys::op::{Completion, OpKind};

/// Maximum number of writes in flight.
const WRITES_MAX: usize = 4;

/// Number of failures of a write after which clients get an error, and maximum number of attempts to write a mark.
const TRIES: u32 = 5;

/// Delay before the retry of a failed write, ns: multiplied by the number of failures.
const RETRY_NS: u64 = 10_000_000;

/// Time without writes after which the volume is at rest, ns.
const REST_NS: u64 = 1_000_000_000;

impl Volume {
    pub(super) fn enqueue(&mut self, number: u32) {
        let Some(buffer) = &mut self.buffers[number as usize] else { return };
        if !buffer.queued && buffer.flying.is_none() {
            buffer.queued = true;
            self.queue.push_back(number);
        }
    }

    /// Queues all buffers for a write.
    pub(crate) fn flush(&mut self) {
        for number in self.current.into_iter().flatten() {
            if self.buffers[number as usize].as_ref().is_some_and(|buffer| buffer.first.is_some()) {
                self.enqueue(number);
            }
        }
    }

    /// Triggers the write of the record at `place`, and sends `reply` once the record is on the device.
    pub(crate) fn answer_when_durable(&mut self, place: RecordLocation, number: u64, reply: Reply) {
        let index = self.blocks.get(place.block).buffer;
        let Some(buffer) = self.buffers.get_mut(index as usize).and_then(Option::as_mut) else { return };
        buffer.waiting.push_back(((place.offset + place.units) as usize * UNIT, number, reply));
        self.enqueue(index);
    }

    /// Does due work: flushes by time, writes queued buffers. Returns the time of the next work.
    pub(crate) fn drive(&mut self, io: &mut Io, disk: &mut impl Disk) -> u64 {
        let now = disk.now_ns();
        let mut next = u64::MAX;
        if !self.marks.is_first && !self.refuses {
            self.renew();
        }
        for number in self.current.into_iter().flatten() {
            let Some(buffer) = &self.buffers[number as usize] else { continue };
            if buffer.first.is_some() && !buffer.queued && buffer.flying.is_none() {
                let due = buffer.since_ns.saturating_add(self.flush_max_ns);
                if due <= now {
                    self.enqueue(number);
                } else {
                    next = next.min(due);
                }
            }
        }
        next = next.min(self.write(now, io, disk));
        next.min(self.mark(now, io, disk))
    }

    /// Starts queued writes.
    fn write(&mut self, now: u64, io: &mut Io, disk: &mut impl Disk) -> u64 {
        let mut next = u64::MAX;
        let mut at = 0;
        while self.flying < WRITES_MAX && io.may_begin() {
            let Some(number) = self.queue.get(at).copied() else { break };
            let Some(buffer) = &self.buffers[number as usize] else {
                self.queue.remove(at);
                continue;
            };
            let is_late = buffer.retry_ns <= now;
            if !is_late || !self.may_be_written(buffer) {
                next = if is_late { next } else { next.min(buffer.retry_ns) };
                at += 1;
                continue;
            }
            self.queue.remove(at);
            let bounds = self.bounds();
            let Some(buffer) = &mut self.buffers[number as usize] else { continue };
            let end = buffer.filled.next_multiple_of(self.sector);
            let len = end - buffer.written;
            let Some(mut buf) = io.buffer(len, disk) else {
                self.queue.push_front(number);
                break;
            };
            buffer.bytes[buffer.filled..end].fill(0);
            buffer.filled = end;
            let piece = buffer.piece.take();
            if let Some(Piece { at, used, records }) = piece {
                let end = if buffer.closed { self.block_bytes } else { end };
                let (at, used, end) = (at as u32, used as u32, end as u32);
                Seal { at, end, used, records, bounds }.write(&mut buffer.bytes, buffer.header.seed());
            }
            buffer.flying_piece = piece.map(|piece| (piece, bounds));
            buf[..len].copy_from_slice(&buffer.bytes[buffer.written..end]);
            (buffer.queued, buffer.flying, buffer.flying_first) = (false, Some(end), buffer.first.take());
            self.flying += 1;
            self.counted.partial_writes += u64::from(!buffer.closed);
            let begin = self.space.range.start + u64::from(buffer.block) * self.block_bytes as u64;
            let pending = OpPurpose::Write { volume: self.number, buffer: number };
            let bytes = begin + buffer.written as u64..begin + end as u64;
            io.submit(pending, (self.space.target, OpKind::Write), bytes, buf, disk);
        }
        next
    }

    /// Handles the completion of a write. Returns a log line if there is a new problem.
    pub(crate) fn on_written(&mut self, number: u32, done: &Completion, replies: &mut Replies) -> Option<String> {
        self.flying -= 1;
        let buffer = self.buffers.get_mut(number as usize)?.as_mut()?;
        let end = buffer.flying.take()?;
        self.counted.write_us.record((done.completed_ns - done.issued_ns) / 1_000);
        if !done.outcome.is_done() {
            self.counted.errors += 1;
            buffer.failures += 1;
            if buffer.purpose == Purpose::Renewal && buffer.failures >= TRIES {
                let (block, sequence) = (buffer.block, buffer.header.sequence);
                let before = self.blocks.get(block).sequence;
                self.incomplete.retain(|incomplete| ![before, sequence].contains(incomplete));
                self.renewals -= 1;
                self.blocks.give_up(block);
                self.drop_buffer(number);
                return Some(format!(
                    "write block {block} cannot be overwritten - {} - the block is not used any more",
                    done.outcome
                ));
            }
            buffer.first = buffer.flying_first.take();
            // The retry writes one piece, including the records appended meanwhile: a torn write must not end between
            // two pieces.
            if let Some((piece, _)) = buffer.flying_piece.take() {
                let (used, records) = buffer.piece.map_or((piece.used, 0), |more| (more.used, more.records));
                buffer.piece = Some(Piece { used, records: piece.records + records, ..piece });
            }
            buffer.retry_ns = done.completed_ns + RETRY_NS * u64::from(buffer.failures.min(100));
            let failing = buffer.failures >= TRIES && buffer.purpose != Purpose::Renewal;
            if failing {
                replies.extend(
                    buffer.waiting.drain(..).map(|(_, number, _)| (number, Reply::of(ResultCode::SERVER_ERROR))),
                );
            }
            let remark = (failing && !self.failing).then(|| {
                format!(
                    "write block {} could not be written - {} - writes are refused until a retry succeeds",
                    buffer.block, done.outcome
                )
            });
            self.failing |= failing;
            self.enqueue(number);
            return remark;
        }
        let (is_first, sequence) = (buffer.written == 0, buffer.header.sequence);
        (buffer.written, buffer.flying_first, buffer.failures) = (end, None, 0);
        self.failing = false;
        self.rested_ns = done.completed_ns;
        if let Some((_, bounds)) = buffer.flying_piece.take() {
            self.blocks.announce(&bounds);
        }
        let durable = buffer.waiting.partition_point(|(wanted, ..)| *wanted <= end);
        replies.extend(buffer.waiting.drain(..durable).map(|(_, number, reply)| (number, reply)));
        let (block, purpose, is_full) = (buffer.block, buffer.purpose, buffer.closed && end == buffer.bytes.len());
        let more = buffer.closed && !is_full || !buffer.waiting.is_empty();
        let clean = buffer.first.is_none();
        if is_first {
            // The first write overwrites the header of an earlier use.
            let before = self.blocks.get(block).sequence;
            self.incomplete.retain(|incomplete| *incomplete != before || before == sequence);
            self.blocks.written(block, sequence);
        }
        if clean {
            self.active.retain(|active| *active != number);
        }
        if more {
            self.enqueue(number);
        }
        self.blocks.settle(self.durable());
        if is_full {
            self.incomplete.retain(|incomplete| *incomplete != sequence);
            match purpose {
                Purpose::Collected => self.counted.defrag_writes += 1,
                Purpose::Renewal => {
                    self.renewals -= 1;
                    self.drop_buffer(number);
                    self.blocks.renewed(block);
                    return None;
                }
                _ => self.counted.writes += 1,
            }
            self.closed -= 1;
            self.keep(number, purpose);
            self.blocks.close(block);
        }
        None
    }

    /// The number up to which all records are on the device.
    pub(crate) fn durable(&self) -> u64 {
        let firsts = self.active.iter().filter_map(|number| self.buffers[*number as usize].as_ref());
        let first = firsts.filter_map(|buffer| buffer.flying_first.or(buffer.first)).min();
        first.map_or(self.blocks.appended, |first| first - 1)
    }

    /// Keeps a written buffer in memory for reads, if clients filled it.
    fn keep(&mut self, number: u32, purpose: Purpose) {
        if purpose == Purpose::Collected {
            return self.drop_buffer(number);
        }
        self.kept.push_back(number);
        if self.kept.len() > self.post_write_blocks
            && let Some(oldest) = self.kept.pop_front()
        {
            self.drop_buffer(oldest);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last mark, on the device or in flight.
    last: Mark,
    is_flying: bool,
    failures: u32,
    /// True if a mark has to be written as soon as the volume is at rest.
    is_hurried: bool,
    /// True if a mark has to be written at once, before any block gets an empty header.
    is_first: bool,
}

impl Volume {
    /// Starts after a cold start, with its findings: the newest mark, the joined evidence, the end of the used blocks,
    /// and the blocks that have to get an empty header.
    pub(crate) fn start(&mut self, mark: Option<Mark>, evidence: &Evidence, used: u32, renew: &BTreeSet<u32>) {
        self.sequence = self.sequence.max(evidence.sequence);
        let sequences = renew.iter().map(|block| self.blocks.get(*block));
        // A block that could not be read has no sequence number.
        let known = sequences.filter(|block| block.state == State::Open);
        self.incomplete = known.map(|block| block.sequence).collect();
        self.blocks.start(used, renew);
        self.marks.last = mark.unwrap_or_default();
        self.marks.is_first = used == 0;
        self.blocks.announce(&self.marks.last.bounds);
    }

    /// The greatest number of a block or mark that the cold start found.
    pub(crate) fn number_max(&self) -> u64 {
        self.sequence.max(self.marks.last.number)
    }

    /// All losses that were accepted.
    pub(crate) fn losses(&self) -> Losses {
        self.marks.last.losses
    }

    /// Adds newly accepted losses.
    pub(crate) fn accept(&mut self, losses: Losses) {
        self.marks.last.losses += losses;
        self.marks.last.bounds = Bounds::default();
        // The losses are recorded before the damaged blocks are overwritten.
        self.marks.is_first = true;
    }

    /// Writes all buffers, then a mark, as soon as possible.
    pub(crate) fn finish(&mut self) {
        self.flush();
        self.marks.is_hurried = true;
    }

    /// True if no write is in flight or needed.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_marked =
            self.failing || self.refuses || self.marks.failures >= TRIES || !self.needs_mark(&self.bounds());
        self.active.is_empty() && self.queue.is_empty() && self.flying == 0 && !self.marks.is_flying && is_marked
    }

    /// True if the bounds differ from those of the last mark, or if the second slot is still empty.
    fn needs_mark(&self, bounds: &Bounds) -> bool {
        *bounds != self.marks.last.bounds || self.marks.last.number == 1
    }

    /// Writes a mark if one is due. Returns the time of the next work.
    fn mark(&mut self, now: u64, io: &mut Io, disk: &mut impl Disk) -> u64 {
        if self.flying > 0 || self.marks.is_flying || self.marks.failures >= TRIES || self.refuses {
            return u64::MAX;
        }
        // A mark is urgent if buffers wait for the announcement of their blocks. The second mark directly follows the
        // first.
        let are_unannounced = self.queue.iter().any(|number| {
            let buffer = self.buffers[*number as usize].as_ref();
            buffer.is_some_and(|buffer| buffer.retry_ns <= now && !self.may_be_written(buffer))
        });
        let is_now = are_unannounced || self.marks.is_first || self.marks.last.number == 1;
        if !is_now && (!self.active.is_empty() || !self.queue.is_empty()) {
            return u64::MAX;
        }
        let bounds = self.bounds();
        if !self.needs_mark(&bounds) {
            return u64::MAX;
        }
        let due = self.rested_ns + REST_NS;
        if !is_now && !self.marks.is_hurried && now < due {
            return due;
        }
        let buf = if io.may_begin() { io.buffer(self.sector, disk) } else { None };
        let Some(mut buf) = buf else { return now + REST_NS / 100 };
        self.marks.last = Mark { number: self.marks.last.number + 1, bounds, losses: self.marks.last.losses };
        self.marks.last.write(&mut buf[..self.sector], self.space.id);
        (self.marks.is_flying, self.marks.is_hurried) = (true, false);
        let begin = self.space.marks + self.marks.last.slot();
        let bytes = begin..begin + self.sector as u64;
        io.submit(OpPurpose::Mark { volume: self.number }, (self.space.target, OpKind::Write), bytes, buf, disk);
        u64::MAX
    }

    /// True if a crash during the buffer's first write can be distinguished from damage, or if marks cannot be written.
    fn may_be_written(&self, buffer: &Buffer) -> bool {
        let is_renewal = buffer.purpose == Purpose::Renewal;
        buffer.written > 0 || is_renewal || self.blocks.may_be_torn(buffer.block) || self.marks.failures >= TRIES
    }

    /// Handles the completion of a mark's write. Returns a log line if the write failed too often.
    pub(crate) fn on_marked(&mut self, done: &Completion) -> Option<String> {
        self.marks.is_flying = false;
        if done.outcome.is_done() {
            (self.marks.failures, self.marks.is_first) = (0, false);
            self.blocks.announce(&self.marks.last.bounds);
            return None;
        }
        self.counted.errors += 1;
        self.marks.failures += 1;
        // The slot may be torn: the next attempt writes the same slot again.
        self.marks.last.number -= 1;
        self.marks.last.bounds = Bounds::default();
        self.marks.is_hurried = true;
        (self.marks.failures == TRIES).then(|| {
            self.marks.is_first = false;
            format!(
                "the end-of-log mark could not be written - {} - the next start may mistake damage for a crash",
                done.outcome
            )
        })
    }
}
