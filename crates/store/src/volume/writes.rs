//! Writes of a volume's buffers: their times, durability, and the buffers kept afterwards.

use super::{Piece, Purpose, Volume};
use crate::index::Place;
use crate::io::{Io, Pending};
use crate::record::UNIT;
use crate::seal::Seal;
use crate::{Disk, Replies, Reply, ResultCode};
use sys::op::{Completion, OpKind};

/// Writes in flight at once.
const WRITES_MAX: usize = 4;

/// Failures of one write after which clients get an error.
const TRIES: u32 = 5;

/// Time until a write that failed is tried again, times its failures.
const RETRY_NS: u64 = 10_000_000;

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

    /// Answers once the record at `place` is on the device, and triggers its write.
    pub(crate) fn answer_when_durable(&mut self, place: Place, number: u64, reply: Reply) {
        let index = self.blocks.get(place.block).buffer;
        let Some(buffer) = self.buffers.get_mut(index as usize).and_then(Option::as_mut) else { return };
        buffer.waiting.push_back(((place.offset + place.units) as usize * UNIT, number, reply));
        self.enqueue(index);
    }

    /// Does due work: flushes by time, writes queued buffers. Returns the time of the next work.
    pub(crate) fn drive(&mut self, io: &mut Io, disk: &mut impl Disk) -> u64 {
        let now = disk.now_ns();
        let mut next = u64::MAX;
        if !self.awaits_mark() && !self.refuses {
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
            let pending = Pending::Write { volume: self.number, buffer: number };
            let bytes = begin + buffer.written as u64..begin + end as u64;
            io.submit(pending, (self.space.target, OpKind::Write), bytes, buf, disk);
        }
        next
    }

    /// A write ended. Returns a new problem, if there is one.
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
                return Some(format!("write block {block} cannot be overwritten - {} - left out", done.outcome));
            }
            buffer.first = buffer.flying_first.take();
            // The next attempt is one piece with what came meanwhile, because a write must not be torn between pieces.
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
                    "write block {} could not be written - {} - writes are refused until it is",
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

    /// Number of the record up to which all are on the device.
    pub(crate) fn durable(&self) -> u64 {
        let firsts = self.active.iter().filter_map(|number| self.buffers[*number as usize].as_ref());
        let first = firsts.filter_map(|buffer| buffer.flying_first.or(buffer.first)).min();
        first.map_or(self.blocks.appended, |first| first - 1)
    }

    /// Keeps clients' writes in memory for a while.
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
