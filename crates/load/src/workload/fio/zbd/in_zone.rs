//! Moves operations of `zonemode=zbd` to offsets that the zones accept. A write can follow the reset of its zone.
//!
//! Source: fio's `zbd_adjust_block()` and its callees.

use super::super::job::{Job, KIND_OF, READS, TRIMS, WRITES};
use super::super::locked;
use super::super::stream::FioStream;
use super::super::thread::RATE_MISSED;
use super::{Zone, ZoneTableState, ZonedArea};
use crate::stream::Request;
use std::ops::Range;
use sys::op::{OpKind, Outcome};

/// Decision about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneDecision {
    /// Kind, offset and bytes. An [`OpKind::ResetZone`] of a job that writes is followed by its write.
    Issue(OpKind, u64, u64),
    /// Operations in flight occupy the zones.
    Wait,
    /// No zone takes this operation.
    NoZone,
}

impl ZonedArea {
    fn index(&self, offset: u64) -> usize {
        ((offset / self.table.zone_bytes) as usize).clamp(self.range.start, self.range.end - 1)
    }

    /// Chooses the actual offset of an operation that `job` generated for `at`. Reads and writes get at most `len_max`
    /// bytes, in whole `unit`s.
    fn decide(&self, job: &Job, direction: usize, at: u64, len_max: u64, unit: u64) -> ZoneDecision {
        let mut state = locked(&self.table.state);
        let zone = &state.zones[self.index(at)];
        let is_free = !zone.is_sequential || direction == READS && job.zbd.reads_beyond && zone.is_usable;
        match direction {
            _ if is_free => {
                // If the rest of the zone is too small, use the beginning of the zone.
                let at = if zone.end - at >= unit { at } else { zone.start };
                let (kind, len) = (KIND_OF[direction], len_max.min((zone.end - at) / unit * unit));
                state.begin(self.index(at), kind);
                ZoneDecision::Issue(kind, at, len)
            }
            READS => self.read(&mut state, job, at, len_max, unit),
            WRITES => self.write(&mut state, job, at, len_max, unit),
            _ => self.trim(&mut state, job, at),
        }
    }

    /// The zone nearest to `from` that `is_right`; for sequential jobs, the next such zone after `from`.
    fn nearest(
        &self,
        state: &ZoneTableState,
        job: &Job,
        from: usize,
        is_right: impl Fn(&Zone) -> bool,
    ) -> Option<usize> {
        let is_right = |zone: &usize| is_right(&state.zones[*zone]);
        let after = (from + 1..self.range.end).find(is_right);
        let before = (self.range.start..from).rev().find(is_right).filter(|_| job.random);
        [after, before].into_iter().flatten().min_by_key(|zone| zone.abs_diff(from))
    }

    fn read(&self, state: &mut ZoneTableState, job: &Job, at: u64, len_max: u64, unit: u64) -> ZoneDecision {
        let start_zone = self.index(at);
        let here = &state.zones[start_zone];
        let is_here = here.has(unit) && (job.random || at + unit <= here.read_end);
        let nearest = || self.nearest(state, job, start_zone, |zone| zone.has(unit));
        let Some(zone) = is_here.then_some(start_zone).or_else(nearest) else {
            // A mixed job waits for its own first writes.
            let is_coming = |zone: &Zone| zone.writes > 0 || zone.is_resetting;
            let waits = job.does[WRITES] && state.zones[self.range.clone()].iter().any(is_coming);
            return if waits { ZoneDecision::Wait } else { ZoneDecision::NoZone };
        };
        let (zone_start, Zone { start, read_end, .. }) = (state.zones[start_zone].start, state.zones[zone]);
        let readable_bytes = read_end - start;
        let at = match is_here && !job.random {
            true => at,
            _ if readable_bytes <= len_max || !job.random => start,
            _ => start + (at - zone_start) % (readable_bytes - len_max) / unit * unit,
        };
        state.begin(zone, OpKind::Read);
        ZoneDecision::Issue(OpKind::Read, at, len_max.min((read_end - at) / unit * unit))
    }

    fn trim(&self, state: &mut ZoneTableState, job: &Job, at: u64) -> ZoneDecision {
        let start_zone = self.index(at);
        let is_here = !job.random || state.zones[start_zone].write_pointer > state.zones[start_zone].start;
        let has_data = |zone: &Zone| zone.is_sequential && zone.has(1);
        let Some(zone) = (if is_here { Some(start_zone) } else { self.nearest(state, job, start_zone, has_data) })
        else {
            return if job.time_based && !job.has_rates() { ZoneDecision::Wait } else { ZoneDecision::NoZone };
        };
        if !state.zones[zone].is_idle() {
            return ZoneDecision::Wait;
        }
        let Zone { start, end, .. } = state.zones[zone];
        self.forget_data(state, zone);
        state.begin(zone, OpKind::ResetZone);
        let kind = if self.table.report.is_some() { OpKind::ResetZone } else { OpKind::Deallocate };
        ZoneDecision::Issue(kind, start, end - start)
    }

    fn write(&self, state: &mut ZoneTableState, job: &Job, at: u64, len_max: u64, unit: u64) -> ZoneDecision {
        let start_zone = self.index(at);
        let limit = self.table.open_max;
        let keeps_data = job.reads_back();
        let own_open = state.open_zones.iter().filter(|(_, owner)| *owner == self.owner).count() as u64;
        let active = state.open_zones.len().saturating_add(state.active_zones.len());
        let is_full = state.open_zones.len() >= limit
            || active >= self.table.active_max
            || job.zbd.job_open_max > 0 && own_open >= job.zbd.job_open_max;
        let may_open = |zone: &Zone| zone.is_open || !is_full;
        let has_room = |zone: &Zone| zone.is_usable && zone.room() >= unit && !(keeps_data && zone.is_old);
        let is_alone = |zone: &Zone| zone.writes == 0 || self.table.report.is_none();
        let can_take = |zone: &Zone| {
            zone.is_sequential
                && zone.is_usable
                && !zone.is_resetting
                && match has_room(zone) {
                    true => is_alone(zone),
                    // A zone without room, or with old data, is reset first.
                    false => zone.is_idle() && (!keeps_data || zone.is_old),
                }
        };
        let zones = &state.zones;
        let open_zones = || state.open_zones.iter().map(|(zone, _)| *zone).filter(|zone| self.range.contains(zone));
        let zone = match &zones[start_zone] {
            here if may_open(here) && can_take(here) => Some(start_zone),
            here if !job.random && may_open(here) && !here.is_idle() => return ZoneDecision::Wait,
            _ => {
                // Start with the open zone whose position among the open zones corresponds to the position of the
                // offset in the range.
                let Range { start, end } = self.range;
                let position = (start_zone - start) * open_zones().count() / (end - start);
                let mut ready = open_zones()
                    .skip(position)
                    .chain(open_zones())
                    .filter(|zone| has_room(&zones[*zone]) && can_take(&zones[*zone]));
                let mut others =
                    open_zones().chain((start_zone + 1..end).chain(start..start_zone).filter(|_| !is_full));
                ready.next().or_else(|| others.find(|zone| can_take(&zones[*zone])))
            }
        };
        let Some(zone) = zone else {
            let is_busy = |zone: usize| zones[zone].is_sequential && !zones[zone].is_idle();
            let waits = if is_full { open_zones().any(is_busy) } else { self.range.clone().any(is_busy) };
            return if waits { ZoneDecision::Wait } else { ZoneDecision::NoZone };
        };
        let chosen = zones[zone];
        let is_due = !keeps_data && state.is_reset_due(job) && chosen.is_idle() && chosen.write_pointer > chosen.start;
        let resets = is_due || !has_room(&chosen);
        if limit < usize::MAX {
            state.open(zone, self.owner);
        }
        if is_due {
            state.writes_left = job.zbd.writes_between_resets();
        }
        if resets {
            self.forget_data(state, zone);
            if self.table.report.is_some() {
                state.begin(zone, OpKind::ResetZone);
                return ZoneDecision::Issue(OpKind::ResetZone, chosen.start, chosen.end - chosen.start);
            }
        }
        let (at, len) = self.put(state, zone, len_max, unit);
        ZoneDecision::Issue(OpKind::Write, at, len)
    }

    /// Forgets the data of a zone.
    fn forget_data(&self, state: &mut ZoneTableState, index: usize) {
        let zone = &mut state.zones[index];
        if zone.write_pointer > zone.start {
            self.progress.zone_resets.add(1);
        }
        if state.reset_range.contains(&index) {
            state.written_bytes -= zone.write_pointer - zone.start;
        }
        (zone.write_pointer, zone.read_end, zone.is_old) = (zone.start, zone.start, false);
    }

    /// Places a write at the write pointer; returns its offset and length.
    fn put(&self, state: &mut ZoneTableState, zone: usize, len_max: u64, unit: u64) -> (u64, u64) {
        let (at, len) = (state.zones[zone].write_pointer, len_max.min(state.zones[zone].room() / unit * unit));
        state.begin(zone, OpKind::Write);
        state.zones[zone].write_pointer += len;
        if self.table.report.is_none() {
            state.zones[zone].read_end = at + len;
        }
        if state.reset_range.contains(&zone) {
            state.written_bytes += len;
        }
        (at, len)
    }

    /// Next offset of sequential writes of at least `unit` bytes after `at`: the start of the next zone if this zone is
    /// full. Also returns the bytes skipped between the zone's capacity and its end.
    fn next_after(&self, at: u64, unit: u64) -> (u64, u64) {
        let state = locked(&self.table.state);
        let zone = &state.zones[self.index(at.saturating_sub(1))];
        match zone.is_sequential && zone.capacity_end.saturating_sub(at) < unit {
            true => (zone.end, zone.end - zone.capacity_end),
            false => (at, 0),
        }
    }

    /// An operation completed. After a reset for a write of `write_len` bytes, returns the offset and length reserved
    /// for the write.
    ///
    /// Error: why the zone cannot be used any more.
    fn on_completed(
        &self,
        job: &Job,
        request: &Request,
        outcome: Outcome,
        write_len: Option<u64>,
    ) -> Result<Option<(u64, u64)>, String> {
        let Request { kind, offset, .. } = *request;
        let end = offset + u64::from(request.len);
        let mut state = locked(&self.table.state);
        let index = self.index(offset);
        let zone = &mut state.zones[index];
        match kind {
            OpKind::Read => zone.reads = zone.reads.saturating_sub(1),
            OpKind::Write => zone.writes -= 1,
            OpKind::Deallocate | OpKind::ResetZone => zone.is_resetting = false,
            _ => return Ok(None),
        }
        let is_emulated = self.table.report.is_none() || !zone.is_sequential;
        match kind {
            OpKind::Write if outcome.is_done() => zone.read_end = zone.read_end.max(end),
            OpKind::Write | OpKind::ResetZone if !outcome.is_done() && !is_emulated => {
                zone.is_usable = false;
                let why = outcome.zone_refusal().filter(|_| kind == OpKind::Write).unwrap_or("the device refused it");
                let start = zone.start;
                return Err(format!(
                    "the {kind} at byte {offset} of the zone at byte {start} failed: {why} ({outcome})"
                ));
            }
            _ => {}
        }
        let is_full = zone.writes == 0 && zone.room() < job.sizes[WRITES].min_bytes();
        // The zone is closed only now, because the device counts it as open until the completion.
        if job.does[TRIMS] && kind != OpKind::Read || kind == OpKind::Write && is_full {
            state.close(index);
        }
        let write_len = write_len.filter(|_| outcome.is_done());
        Ok(write_len.map(|wanted| self.put(&mut state, index, wanted, job.sizes[WRITES].min_bytes())))
    }
}

impl FioStream {
    /// The operation of `waiting_op`, at an offset that the zones accept. `None`: the operation has to wait, or no zone
    /// accepts it.
    pub(in super::super) fn make_in_zone(&mut self, waiting_op: (usize, usize, u64, u64)) -> Option<(usize, Request)> {
        let (direction, area, offset, len_max) = waiting_op;
        let unit = self.units[direction];
        let end = self.areas[area].start + self.areas[area].len;
        let zoned = self.areas[area].zbd.as_ref()?;
        match zoned.decide(&self.thread.job, direction, offset, len_max, unit) {
            ZoneDecision::Issue(OpKind::ResetZone, at, len) if direction == WRITES => {
                // The write is counted as soon as its reset is issued.
                self.bytes_left = self.bytes_left.saturating_sub(len_max);
                self.state.resets.push((at, len_max));
                let request = self.request(TRIMS, area, at, len as u32);
                Some((area, Request { kind: OpKind::ResetZone, ..request }))
            }
            ZoneDecision::Issue(kind, at, len) => {
                self.count_placed(direction, area, offset, (at, len));
                Some((area, Request { kind, ..self.prioritized(direction, area, at, len) }))
            }
            ZoneDecision::Wait => {
                (self.state.waiting_op, self.ops_left) = (Some(waiting_op), self.ops_left + 1);
                None
            }
            // No zone from this offset on takes a sequential operation: try again from the beginning.
            ZoneDecision::NoZone if !self.thread.job.random && offset > self.areas[area].start => {
                if self.directions.len() == 1 {
                    self.bytes_left = self.bytes_left.saturating_sub(end - offset);
                }
                self.areas[area].next_offsets[direction] = 0;
                let start = self.areas[area].start;
                if self.bytes_left == 0 { None } else { self.make_in_zone((direction, area, start, len_max)) }
            }
            ZoneDecision::NoZone => {
                if self.thread.progress.ops() == 0 || direction == WRITES && self.verify.is_none() {
                    self.thread.progress.set_failure(RATE_MISSED, "no zone of the job's range accepts an operation: for reads, no zone has enough data; for writes, other jobs use all zones that may be open - write first, or give read_beyond_wp=1, a larger size or a higher max_open_zones".into());
                }
                self.bytes_left = 0;
                None
            }
        }
    }

    /// Counts an operation that was generated for `offset`. In sequential jobs skipped bytes count as well, except if
    /// `io_size` is given, as in fio.
    fn count_placed(&mut self, direction: usize, area: usize, offset: u64, (at, len): (u64, u64)) {
        let (unit, start) = (self.units[direction], self.areas[area].start);
        self.state.has_written |= direction == WRITES;
        let mut counted_bytes = len;
        if !self.thread.job.random {
            let zoned = self.areas[area].zbd.as_ref().filter(|_| direction == WRITES);
            let (next_offset, skipped_bytes) = zoned.map_or((at + len, 0), |zoned| zoned.next_after(at + len, unit));
            if self.thread.job.io_size.is_none() {
                counted_bytes += skipped_bytes + at.saturating_sub(offset);
            }
            self.areas[area].next_offsets[direction] = next_offset - start;
        }
        self.bytes_left = self.bytes_left.saturating_sub(counted_bytes);
    }

    /// An operation on a zone completed. Returns the write that follows a reset.
    pub(in super::super) fn on_zone_completion(&mut self, request: &Request, outcome: Outcome) -> Option<Request> {
        if !self.thread.job.zbd.is_on {
            return None;
        }
        let area = self.area_of(request)?;
        let zoned = self.areas[area].zbd.as_ref()?;
        if request.kind == OpKind::Read && self.checked_buffers == Some(request.buffers) {
            return None;
        }
        let is_reset = |of: &(u64, u64)| request.kind == OpKind::ResetZone && of.0 == request.offset;
        let number = self.state.resets.iter().position(is_reset);
        let write_len = number.map(|number| self.state.resets.swap_remove(number).1);
        self.bytes_left += write_len.unwrap_or(0);
        match zoned.on_completed(&self.thread.job, request, outcome, write_len) {
            Ok(write) => {
                let (at, len) = write?;
                self.count_placed(WRITES, area, request.offset, (at, len));
                Some(self.prioritized(WRITES, area, at, len))
            }
            Err(why) => {
                self.thread.progress.set_failure(RATE_MISSED, why);
                self.finish(self.state.now_ns);
                None
            }
        }
    }
}
