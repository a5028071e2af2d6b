//! Marks of a volume: written at rest, so that a cold start knows where the log ended, and where nothing else announces a
//! block that is to be overwritten.

use super::blocks::State;
use super::{Buffer, Purpose, Volume};
use crate::io::{Io, Pending};
use crate::seal::{Bounds, Evidence, Mark};
use crate::{Disk, Losses};
use std::collections::BTreeSet;
use sys::op::{Completion, OpKind};

/// Time without writes after which the volume is at rest, ns.
const REST_NS: u64 = 1_000_000_000;

/// Attempts to write a mark.
const TRIES: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last one, on the device or under way.
    last: Mark,
    is_flying: bool,
    failures: u32,
    /// True if a mark has to be written as soon as the volume is at rest.
    is_hurried: bool,
    /// True if a mark has to be written before anything else.
    is_first: bool,
}

impl Volume {
    /// Starts after a cold start with what it found: the newest mark, the joined evidence, the blocks used, and those
    /// that have to get an empty header.
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

    /// The greatest number that the cold start found, of a block or mark.
    pub(crate) fn number_max(&self) -> u64 {
        self.sequence.max(self.marks.last.number)
    }

    /// All losses that were accepted.
    pub(crate) fn losses(&self) -> Losses {
        self.marks.last.losses
    }

    /// Adds losses that were accepted now.
    pub(crate) fn accept(&mut self, losses: Losses) {
        self.marks.last.losses += losses;
        self.marks.last.bounds = Bounds::default();
        // The losses are recorded before the damaged blocks are overwritten.
        self.marks.is_first = true;
    }

    /// Has a mark written as soon as the volume is at rest.
    pub(crate) fn finish(&mut self) {
        self.flush();
        self.marks.is_hurried = true;
    }

    /// True if nothing is or has to be written.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_marked =
            self.failing || self.refuses || self.marks.failures >= TRIES || !self.needs_mark(&self.bounds());
        !self.is_dirty() && self.queue.is_empty() && self.flying == 0 && !self.marks.is_flying && is_marked
    }

    /// True if the last mark says less, or the other slot is still empty.
    fn needs_mark(&self, bounds: &Bounds) -> bool {
        *bounds != self.marks.last.bounds || self.marks.last.number == 1
    }

    /// Writes a mark if one is due. Returns the time of the next work.
    pub(super) fn mark(&mut self, now: u64, io: &mut Io, disk: &mut impl Disk) -> u64 {
        if self.flying > 0 || self.marks.is_flying || self.marks.failures >= TRIES || self.refuses {
            return u64::MAX;
        }
        // Buffers that wait, and no write that could announce their blocks; the second mark follows the first at once.
        let are_unannounced = self.queue.iter().any(|number| {
            let buffer = self.buffers[*number as usize].as_ref();
            buffer.is_some_and(|buffer| buffer.retry_ns <= now && !self.may_be_written(buffer))
        });
        let is_now = are_unannounced || self.marks.is_first || self.marks.last.number == 1;
        if !is_now && (self.is_dirty() || !self.queue.is_empty()) {
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
        io.submit(Pending::Mark { volume: self.number }, (self.space.target, OpKind::Write), bytes, buf, disk);
        u64::MAX
    }

    /// True if a mark has to be written before anything else.
    pub(super) fn awaits_mark(&self) -> bool {
        self.marks.is_first
    }

    /// True if a crash during the buffer's first write can be told from damage, or marks cannot be written.
    pub(super) fn may_be_written(&self, buffer: &Buffer) -> bool {
        let is_renewal = buffer.purpose == Purpose::Renewal;
        buffer.written > 0 || is_renewal || self.blocks.may_be_torn(buffer.block) || self.marks.failures >= TRIES
    }

    /// A mark was written, or not. Returns a problem.
    pub(crate) fn on_marked(&mut self, done: &Completion) -> Option<String> {
        self.marks.is_flying = false;
        if done.outcome.is_done() {
            (self.marks.failures, self.marks.is_first) = (0, false);
            self.blocks.announce(&self.marks.last.bounds);
            return None;
        }
        self.counted.errors += 1;
        self.marks.failures += 1;
        // The slot may be torn: the next attempt writes it again.
        self.marks.last.number -= 1;
        self.marks.last.bounds = Bounds::default();
        self.marks.is_hurried = true;
        (self.marks.failures == TRIES).then(|| {
            self.marks.is_first = false;
            format!(
                "the mark of the log's end could not be written - {} - the next start may take damage for a crash",
                done.outcome
            )
        })
    }
}
