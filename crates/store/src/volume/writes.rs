//! Writes of a volume's buffers: their schedule, durability, and the buffers that are kept afterwards. A mark is
//! written when the volume is at rest, so that a cold start knows where the log ended. A mark also announces a block
//! that will be overwritten, if no seal announces it.

use super::blocks::BlockState;
use super::{AppendPurpose, Buffer, BufferedPiece, Volume};
use crate::index::RecordLocation;
use crate::io::{Io, OpPurpose};
use crate::record::UNIT;
use crate::seal::{DurabilityEvidence, DurableBounds, Note, SLOTS, Seal, VolumeMark};
use crate::{Losses, Replies, Reply, ResultCode, StoreDisk};
use std::collections::BTreeSet;
use sys::op::{Completion, OpKind};

const WRITES_MAX: usize = 4;

/// Number of failures of a write after which clients get an error, and maximum number of attempts to write a mark.
const TRIES: u32 = 5;

/// Delay before the retry of a failed write, ns: multiplied by the number of failures.
const RETRY_NS: u64 = 10_000_000;

/// Time without writes after which the volume is at rest, ns.
const REST_NS: u64 = 1_000_000_000;

impl Volume {
    pub(super) fn enqueue(&mut self, number: u32) {
        let Some(buffer) = &mut self.buffers[number as usize] else {
            return;
        };
        if !buffer.is_queued && buffer.in_flight_end.is_none() {
            buffer.is_queued = true;
            self.queue.push_back(number);
        }
    }

    pub(crate) fn flush(&mut self) {
        for number in self.current.into_iter().flatten() {
            if self.buffers[number as usize]
                .as_ref()
                .is_some_and(|buffer| buffer.first_unwritten.is_some())
            {
                self.enqueue(number);
            }
        }
    }

    /// Triggers the write of the record at `location`, and sends `reply` once the record is on the device.
    pub(crate) fn answer_when_durable(
        &mut self,
        location: RecordLocation,
        number: u64,
        reply: Reply,
    ) {
        let index = self.blocks.get(location.block).buffer;
        let Some(buffer) = self
            .buffers
            .get_mut(index as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        buffer.replies.push_back((
            (location.offset + location.units) as usize * UNIT,
            number,
            reply,
        ));
        self.enqueue(index);
    }

    /// Does due work: queues buffers whose time limit has passed, writes queued buffers. Returns the next work's time.
    pub(crate) fn drive(&mut self, io: &mut Io, disk: &mut impl StoreDisk) -> u64 {
        let now_ns = disk.now_ns();
        let mut next_ns = u64::MAX;
        if !self.marks.is_urgent && !self.refuses_writes {
            self.renew();
        }
        for number in self.current.into_iter().flatten() {
            let Some(buffer) = &self.buffers[number as usize] else {
                continue;
            };
            if buffer.first_unwritten.is_some()
                && !buffer.is_queued
                && buffer.in_flight_end.is_none()
            {
                let due_ns = buffer.since_ns.saturating_add(self.flush_max_ns);
                if due_ns <= now_ns {
                    self.enqueue(number);
                } else {
                    next_ns = next_ns.min(due_ns);
                }
            }
        }
        next_ns = next_ns.min(self.write(now_ns, io, disk));
        next_ns.min(self.mark(now_ns, io, disk))
    }

    fn write(&mut self, now_ns: u64, io: &mut Io, disk: &mut impl StoreDisk) -> u64 {
        let mut next_ns = u64::MAX;
        let mut at = 0;
        // A mark is written while no write is in flight, so new writes wait for a mark with a new note.
        if self.has_news() && self.is_noted().is_ok() {
            return next_ns;
        }
        while self.writes_in_flight < WRITES_MAX && io.may_begin() {
            let Some(number) = self.queue.get(at).copied() else {
                break;
            };
            let Some(buffer) = &self.buffers[number as usize] else {
                self.queue.remove(at);
                continue;
            };
            let is_due = buffer.retry_ns <= now_ns;
            if !is_due || !self.may_be_written(buffer) {
                next_ns = if is_due {
                    next_ns
                } else {
                    next_ns.min(buffer.retry_ns)
                };
                at += 1;
                continue;
            }
            self.queue.remove(at);
            let bounds = self.bounds();
            let Some(buffer) = &mut self.buffers[number as usize] else {
                continue;
            };
            let end = buffer.used_bytes.next_multiple_of(self.sector_bytes);
            let len = end - buffer.durable_bytes;
            let Some(mut buf) = io.buffer(len, disk) else {
                self.queue.push_front(number);
                break;
            };
            buffer.bytes[buffer.used_bytes..end].fill(0);
            buffer.used_bytes = end;
            let piece = buffer.piece.take();
            if let Some(BufferedPiece { at, used, records }) = piece {
                let end = if buffer.is_closed {
                    self.block_bytes
                } else {
                    end
                };
                let at = at as u32;
                let used = used as u32;
                let end = end as u32;
                Seal {
                    at,
                    end,
                    used,
                    records,
                    bounds,
                }
                .write(&mut buffer.bytes, buffer.header.seed());
            }
            buffer.in_flight_piece = piece.map(|piece| (piece, bounds));
            buf[..len].copy_from_slice(&buffer.bytes[buffer.durable_bytes..end]);
            (
                buffer.is_queued,
                buffer.in_flight_end,
                buffer.first_in_flight,
            ) = (false, Some(end), buffer.first_unwritten.take());
            self.writes_in_flight += 1;
            self.counters.partial_writes += u64::from(!buffer.is_closed);
            let begin = self.space.range.start + u64::from(buffer.block) * self.block_bytes as u64;
            let purpose = OpPurpose::Write {
                volume: self.number,
                buffer: number,
            };
            let bytes = begin + buffer.durable_bytes as u64..begin + end as u64;
            io.submit(
                purpose,
                (self.space.target, OpKind::Write),
                bytes,
                buf,
                disk,
            );
        }
        next_ns
    }

    /// Handles the completion of a write. Returns a log line if there is a new problem.
    pub(crate) fn on_written(
        &mut self,
        number: u32,
        completion: &Completion,
        replies: &mut Replies,
    ) -> Option<String> {
        self.writes_in_flight -= 1;
        let buffer = self.buffers.get_mut(number as usize)?.as_mut()?;
        let end = buffer.in_flight_end.take()?;
        self.counters
            .write_us
            .record((completion.completed_ns - completion.issued_ns) / 1_000);
        if !completion.outcome.is_done() {
            self.counters.write_errors += 1;
            buffer.failures += 1;
            if buffer.purpose == AppendPurpose::Renewal && buffer.failures >= TRIES {
                let block = buffer.block;
                let sequence = buffer.header.sequence;
                let old_sequence = self.blocks.get(block).sequence;
                self.incomplete_sequences
                    .retain(|incomplete| ![old_sequence, sequence].contains(incomplete));
                self.renewals -= 1;
                self.blocks.give_up(block);
                self.drop_buffer(number);
                return Some(format!(
                    "write block {block} cannot be overwritten - {} - the block is not used any more",
                    completion.outcome
                ));
            }
            buffer.first_unwritten = buffer.first_in_flight.take();
            // The retry also writes later records, all as one piece: a torn write must not end between pieces.
            if let Some((piece, _)) = buffer.in_flight_piece.take() {
                let (used, records) = buffer
                    .piece
                    .map_or((piece.used, 0), |more| (more.used, more.records));
                buffer.piece = Some(BufferedPiece {
                    used,
                    records: piece.records + records,
                    ..piece
                });
            }
            buffer.retry_ns =
                completion.completed_ns + RETRY_NS * u64::from(buffer.failures.min(100));
            let is_failing = buffer.failures >= TRIES && buffer.purpose != AppendPurpose::Renewal;
            if is_failing {
                // In doubt: reads already see the record, and a retry may still write it.
                let in_doubt = Reply::with_result(ResultCode::TIMEOUT);
                replies.extend(
                    buffer
                        .replies
                        .drain(..)
                        .map(|(_, number, _)| (number, in_doubt.clone())),
                );
            }
            let remark = (is_failing && !self.is_failing).then(|| {
                format!(
                    "write block {} could not be written - {} - writes are refused until a retry succeeds",
                    buffer.block, completion.outcome
                )
            });
            self.is_failing |= is_failing;
            self.enqueue(number);
            return remark;
        }
        let is_first = buffer.durable_bytes == 0;
        let sequence = buffer.header.sequence;
        (
            buffer.durable_bytes,
            buffer.first_in_flight,
            buffer.failures,
        ) = (end, None, 0);
        self.is_failing = false;
        self.idle_since_ns = completion.completed_ns;
        if let Some((_, bounds)) = buffer.in_flight_piece.take() {
            self.blocks.announce(&bounds);
        }
        let durable_count = buffer
            .replies
            .partition_point(|(requested, ..)| *requested <= end);
        replies.extend(
            buffer
                .replies
                .drain(..durable_count)
                .map(|(_, number, reply)| (number, reply)),
        );
        let block = buffer.block;
        let purpose = buffer.purpose;
        let is_full = buffer.is_closed && end == buffer.bytes.len();
        let needs_write = buffer.is_closed && !is_full || !buffer.replies.is_empty();
        let is_clean = buffer.first_unwritten.is_none();
        if is_first {
            // The first write overwrites the header of an earlier use.
            let old_sequence = self.blocks.get(block).sequence;
            self.incomplete_sequences
                .retain(|incomplete| *incomplete != old_sequence || old_sequence == sequence);
            self.blocks.written(block, sequence);
        }
        if is_clean {
            self.active.retain(|active| *active != number);
        }
        if needs_write {
            self.enqueue(number);
        }
        self.blocks.settle(self.durable());
        if is_full {
            self.incomplete_sequences
                .retain(|incomplete| *incomplete != sequence);
            match purpose {
                AppendPurpose::Collected => self.counters.defrag_writes += 1,
                AppendPurpose::Renewal => {
                    self.renewals -= 1;
                    self.drop_buffer(number);
                    self.blocks.renewed(block);
                    return None;
                }
                _ => self.counters.writes += 1,
            }
            self.closed_buffers -= 1;
            self.keep(number, purpose);
            self.blocks.close(block);
        }
        None
    }

    /// Number of a record: all records up to this record are on the device.
    pub(crate) fn durable(&self) -> u64 {
        let firsts = self
            .active
            .iter()
            .filter_map(|number| self.buffers[*number as usize].as_ref());
        let first = firsts
            .filter_map(|buffer| buffer.first_in_flight.or(buffer.first_unwritten))
            .min();
        first.map_or(self.blocks.appended, |first| first - 1)
    }

    /// Keeps a written buffer in memory for reads, if clients filled it.
    fn keep(&mut self, number: u32, purpose: AppendPurpose) {
        if purpose == AppendPurpose::Collected {
            return self.drop_buffer(number);
        }
        self.post_write_queue.push_back(number);
        if self.post_write_queue.len() > self.post_write_blocks
            && let Some(oldest) = self.post_write_queue.pop_front()
        {
            self.drop_buffer(oldest);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last mark, on the device or in flight.
    last_mark: VolumeMark,
    is_in_flight: bool,
    failures: u32,
    /// The note that the marks must hold, and the number of slots that have it.
    note: Note,
    noted_slots: usize,
    /// True if the cold start found no valid mark, although there was one.
    are_lost: bool,
    /// True if the log already has a line about the failures since the last successful mark.
    are_logged: bool,
    /// True if a mark has to be written as soon as the volume is at rest.
    is_hurried: bool,
    /// True if a mark has to be written at once, before any block gets an empty header.
    is_urgent: bool,
}

impl Volume {
    /// Starts the volume with the cold start's findings: newest mark, evidence, end of used blocks, blocks to renew.
    pub(crate) fn start(
        &mut self,
        (mark, damaged_marks): (Option<VolumeMark>, usize),
        evidence: &DurabilityEvidence,
        used: u32,
        blocks_to_renew: &BTreeSet<u32>,
    ) {
        self.sequence = self.sequence.max(evidence.sequence);
        let sequences = blocks_to_renew.iter().map(|block| self.blocks.get(*block));
        // A block that could not be read has no sequence number.
        let open_blocks = sequences.filter(|block| block.state == BlockState::Open);
        self.incomplete_sequences = open_blocks.map(|block| block.sequence).collect();
        self.blocks.start(used, blocks_to_renew);
        self.marks.last_mark = mark.unwrap_or_default();
        (self.marks.note, self.marks.noted_slots) = (self.marks.last_mark.note, SLOTS);
        self.marks.are_lost = mark.is_none() && (used > 0 || damaged_marks > 0);
        self.marks.is_urgent = used == 0;
        self.blocks.announce(&self.marks.last_mark.bounds);
    }

    /// The greatest number of a block or mark that the cold start found.
    pub(crate) fn number_max(&self) -> u64 {
        self.sequence.max(self.marks.last_mark.number)
    }

    pub(crate) fn note(&self) -> Option<Note> {
        (!self.marks.are_lost).then_some(self.marks.note)
    }

    /// Starts to write a note into both slots of the marks.
    pub(crate) fn set_note(&mut self, note: Note) {
        (self.marks.note, self.marks.noted_slots, self.marks.failures) = (note, 0, 0);
    }

    /// True once both slots have the note. Errors: the marks cannot be written.
    pub(crate) fn is_noted(&self) -> Result<bool, ()> {
        let fails = self.refuses_writes || self.marks.failures >= TRIES;
        if fails && self.marks.noted_slots < SLOTS {
            Err(())
        } else {
            Ok(self.marks.noted_slots >= SLOTS)
        }
    }

    pub(crate) fn losses(&self) -> Losses {
        self.marks.last_mark.losses
    }

    pub(crate) fn accept(&mut self, losses: Losses) {
        self.marks.last_mark.losses += losses;
        self.marks.last_mark.bounds = DurableBounds::default();
        // The losses are recorded before the damaged blocks are overwritten.
        self.marks.is_urgent = true;
    }

    /// Writes all buffers, then a mark, as soon as possible.
    pub(crate) fn finish(&mut self) {
        self.flush();
        self.marks.is_hurried = true;
    }

    /// True if no write is in flight or needed.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_marked = self.is_failing
            || self.refuses_writes
            || self.marks.failures >= TRIES
            || !self.needs_mark(&self.bounds());
        self.active.is_empty()
            && self.queue.is_empty()
            && self.writes_in_flight == 0
            && !self.marks.is_in_flight
            && is_marked
    }

    /// True if the bounds differ from those of the last mark, or if a slot is still empty or has an earlier note.
    fn needs_mark(&self, bounds: &DurableBounds) -> bool {
        *bounds != self.marks.last_mark.bounds
            || self.marks.last_mark.number == 1
            || self.has_news()
    }

    /// True if a slot of the marks has an earlier note.
    fn has_news(&self) -> bool {
        self.marks.noted_slots < SLOTS && self.marks.note.number > 0
    }

    /// Writes a mark if one is due. Returns the time of the next work.
    fn mark(&mut self, now_ns: u64, io: &mut Io, disk: &mut impl StoreDisk) -> u64 {
        if self.writes_in_flight > 0
            || self.marks.is_in_flight
            || self.marks.failures >= TRIES
            || self.refuses_writes
        {
            return u64::MAX;
        }
        // A mark is written at once if a buffer waits for the announcement of its block. After the first mark ever, the
        // second is written at once, so that both slots are filled.
        let are_unannounced = self.queue.iter().any(|number| {
            let buffer = self.buffers[*number as usize].as_ref();
            buffer.is_some_and(|buffer| buffer.retry_ns <= now_ns && !self.may_be_written(buffer))
        });
        let is_now = are_unannounced
            || self.marks.is_urgent
            || self.marks.last_mark.number == 1
            || self.has_news();
        if !is_now && (!self.active.is_empty() || !self.queue.is_empty()) {
            return u64::MAX;
        }
        let bounds = self.bounds();
        if !self.needs_mark(&bounds) {
            return u64::MAX;
        }
        let due_ns = self.idle_since_ns + REST_NS;
        if !is_now && !self.marks.is_hurried && now_ns < due_ns {
            return due_ns;
        }
        let buf = if io.may_begin() {
            io.buffer(self.sector_bytes, disk)
        } else {
            None
        };
        let Some(mut buf) = buf else {
            return now_ns + REST_NS / 100;
        };
        let VolumeMark { number, losses, .. } = self.marks.last_mark;
        self.marks.last_mark = VolumeMark {
            number: number + 1,
            bounds,
            losses,
            note: self.marks.note,
        };
        self.marks
            .last_mark
            .write(&mut buf[..self.sector_bytes], self.space.id);
        (self.marks.is_in_flight, self.marks.is_hurried) = (true, false);
        let begin = self.space.marks_offset + self.marks.last_mark.slot();
        let bytes = begin..begin + self.sector_bytes as u64;
        io.submit(
            OpPurpose::Mark {
                volume: self.number,
            },
            (self.space.target, OpKind::Write),
            bytes,
            buf,
            disk,
        );
        u64::MAX
    }

    /// False if a crash during the buffer's first write would look like damage. True if marks cannot be written.
    fn may_be_written(&self, buffer: &Buffer) -> bool {
        let is_renewal = buffer.purpose == AppendPurpose::Renewal;
        buffer.durable_bytes > 0
            || is_renewal
            || self.blocks.may_be_torn(buffer.block)
            || self.marks.failures >= TRIES
    }

    /// Handles the completion of a mark's write. Returns a log line if the write failed too often.
    pub(crate) fn on_marked(&mut self, completion: &Completion) -> Option<String> {
        self.marks.is_in_flight = false;
        if completion.outcome.is_done() {
            (
                self.marks.failures,
                self.marks.is_urgent,
                self.marks.are_logged,
            ) = (0, false, false);
            self.marks.noted_slots += usize::from(self.marks.last_mark.note == self.marks.note);
            self.blocks.announce(&self.marks.last_mark.bounds);
            return None;
        }
        self.counters.write_errors += 1;
        self.marks.failures += 1;
        // The slot may be torn: the next attempt writes the same slot again.
        self.marks.last_mark.number -= 1;
        self.marks.last_mark.bounds = DurableBounds::default();
        self.marks.is_hurried = true;
        let is_logged =
            self.marks.failures < TRIES || std::mem::replace(&mut self.marks.are_logged, true);
        (!is_logged).then(|| {
            self.marks.is_urgent = false;
            format!(
                "the end-of-log mark could not be written - {} - the next start may mistake damage for a crash",
                completion.outcome
            )
        })
    }
}
