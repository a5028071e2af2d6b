//! Operations of a job whose zones are written from start to end: each goes where the zones take it, and a write can
//! follow the reset of its zone.

use super::job::{TRIMS, WRITES};
use super::stream::FioStream;
use super::zbd::Turn;
use crate::stream::Request;
use sys::op::{OpKind, Outcome};

impl FioStream {
    /// The operation instead of one at `offset`, where the zones take it.
    pub(super) fn make_in_zone(&mut self, held: (usize, usize, u64, u64)) -> Option<(usize, Request)> {
        let (direction, area, offset, wanted) = held;
        let unit = self.units[direction];
        let end = self.areas[area].start + self.areas[area].len;
        let zoned = self.areas[area].zbd.as_ref()?;
        match zoned.turn(&self.job, direction, offset, wanted, unit) {
            Turn::Go(OpKind::ResetZone, at, len) if direction == WRITES => {
                // The write counts from here on.
                self.bytes_left = self.bytes_left.saturating_sub(wanted);
                self.resets.push((at, wanted));
                let request = self.request(TRIMS, area, at, len as u32);
                Some((area, Request { kind: OpKind::ResetZone, ..request }))
            }
            Turn::Go(kind, at, len) => {
                self.went(direction, area, offset, (at, len));
                Some((area, Request { kind, ..self.prioritized(direction, area, at, len) }))
            }
            Turn::Wait => {
                (self.held, self.ops_left) = (Some(held), self.ops_left + 1);
                None
            }
            // In a sequence nothing is behind this place, and perhaps before it.
            Turn::Over if !self.job.random && offset > self.areas[area].start => {
                if self.directions.len() == 1 {
                    self.bytes_left = self.bytes_left.saturating_sub(end - offset);
                }
                self.areas[area].next[direction] = 0;
                let start = self.areas[area].start;
                if self.bytes_left == 0 { None } else { self.make_in_zone((direction, area, start, wanted)) }
            }
            Turn::Over => {
                if self.progress.ops() == 0 || direction == WRITES && self.verify.is_none() {
                    self.progress.set_missed("no zone of its range takes its operations: for reads none has enough data, for writes all that may be open are those of others - write first, or give read_beyond_wp=1, more size or a higher max_open_zones".into());
                }
                self.bytes_left = 0;
                None
            }
        }
    }

    /// Counts an operation of zones that was to be at `offset`. In a sequence the places that it left out count as well, as in
    /// fio not for io_size.
    fn went(&mut self, direction: usize, area: usize, offset: u64, (at, len): (u64, u64)) {
        let (unit, start) = (self.units[direction], self.areas[area].start);
        self.has_written |= direction == WRITES;
        let mut counted = len;
        if !self.job.random {
            let zoned = self.areas[area].zbd.as_ref().filter(|_| direction == WRITES);
            let (next, left_out) = zoned.map_or((at + len, 0), |zoned| zoned.next_after(at + len, unit));
            if self.job.io_size.is_none() {
                counted += left_out + at.saturating_sub(offset);
            }
            self.areas[area].next[direction] = next - start;
        }
        self.bytes_left = self.bytes_left.saturating_sub(counted);
    }

    /// A zone of the job has an operation back. The write that follows a reset.
    pub(super) fn zone_is_back(&mut self, request: &Request, outcome: Outcome) -> Option<Request> {
        if !self.job.zbd.is_on {
            return None;
        }
        let area = self.area_of(request)?;
        let zoned = self.areas[area].zbd.as_ref()?;
        if request.kind == OpKind::Read && self.checked_buffers == Some(request.buffers) {
            return None;
        }
        let is_reset = |of: &(u64, u64)| request.kind == OpKind::ResetZone && of.0 == request.offset;
        let number = self.resets.iter().position(is_reset);
        let wanted = number.map(|number| self.resets.swap_remove(number).1);
        self.bytes_left += wanted.unwrap_or(0);
        match zoned.done(&self.job, request, outcome, wanted) {
            Ok(write) => {
                let (at, len) = write?;
                self.went(WRITES, area, request.offset, (at, len));
                Some(self.prioritized(WRITES, area, at, len))
            }
            Err(why) => {
                self.progress.set_missed(why);
                self.end_itself(self.now_ns);
                None
            }
        }
    }
}
