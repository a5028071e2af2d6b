//! Zones that are written from start to end: fio's `zonemode=zbd`. Those of a zoned device, or emulated ones of any other
//! device or file.
//!
//! ```text
//! a job's place -> ZonedArea::turn -> Turn: where the operation goes instead, a reset before it, or none now
//!                  ZonedArea::done    the operation is back
//! ```
//!
//! The zones of a device are one table for all jobs, with a lock that is held for the choice of a place. The kernel
//! gives a zoned device one write of a zone at a time, so a zone that is not emulated has one in flight: further
//! ones could overtake each other before they reach the kernel. A zone is reset when nothing is in flight in it.
//!
//! Source: fio's `zbd_adjust_block()` and what it calls.

use super::job::{Job, READS, TRIMS, WRITES};
use super::pattern::Sizes;
use super::progress::Progress;
use super::thread::Thread;
use super::value::Size;
use crate::stream::Request;
use crate::workload::DeviceShape;
use device::target::Zones;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sys::op::{OpKind, Outcome};

/// Most emulated zones of a device.
const ZONES_MAX: u64 = 1 << 20;

/// Options of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ZbdOptions {
    /// True for `zonemode=zbd`.
    pub is_on: bool,
    /// Bytes that can be written in an emulated zone; 0: all.
    pub capacity: u64,
    /// Reads go beyond the write pointer.
    pub reads_beyond: bool,
    /// Zones that are written to at once, by all jobs and by a clone; 0: any number.
    pub open_max: u64,
    pub job_open_max: u64,
    /// Share of the range that has data from which on zones are reset, and resets for each write then.
    pub reset_threshold: f64,
    pub reset_frequency: f64,
}

/// Zones by device or file. Emulated ones last from run to run, as in fio.
#[derive(Debug, Default)]
pub struct ZoneTables(Mutex<HashMap<String, Arc<Table>>>);

/// The zones of a device.
#[derive(Debug)]
struct Table {
    /// The report of the device; `None`: emulated zones.
    report: Option<Arc<Zones>>,
    zone_bytes: u64,
    /// Option of the jobs, and what the device allows as well.
    wanted_open: u64,
    open_max: usize,
    active_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    zones: Vec<Zone>,
    /// Zones that are written to, each with the clone that opened it.
    open: Vec<(usize, usize)>,
    /// Zones that are open or half full beside those.
    others: Vec<usize>,
    /// Zones whose data count for the threshold of resets, and these bytes.
    counted: Range<usize>,
    written: u64,
    /// Writes until the next of these resets.
    writes_left: u64,
}

/// Places are bytes on the device.
#[derive(Debug, Clone, Copy)]
struct Zone {
    start: u64,
    /// End of what can be written, and of the zone.
    full_at: u64,
    end: u64,
    /// Where the next write goes, and what can be read.
    at: u64,
    read_end: u64,
    is_sequential: bool,
    /// False once it failed, or if the device says so.
    is_usable: bool,
    /// A reset is in flight.
    is_reset: bool,
    reads: u32,
    writes: u32,
    is_open: bool,
    /// The data are those of an earlier phase or run.
    is_old: bool,
}

/// The place that an operation gets instead of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Kind, offset and bytes. An [`OpKind::ResetZone`] of a job that writes is followed by its write.
    Go(OpKind, u64, u64),
    /// Operations in flight occupy the zones.
    Wait,
    /// No zone takes this operation.
    Over,
}

/// The zones of an area of a job.
#[derive(Debug, Clone)]
pub(super) struct ZonedArea {
    table: Arc<Table>,
    /// Zones of the job.
    range: Range<usize>,
    /// Number of the clone.
    owner: usize,
    progress: Arc<Progress>,
}

impl Zone {
    fn room(&self) -> u64 {
        self.full_at - self.at
    }

    fn is_quiet(&self) -> bool {
        self.reads + self.writes == 0 && !self.is_reset
    }

    fn has(&self, unit: u64) -> bool {
        self.is_usable && !self.is_reset && self.read_end - self.start >= unit
    }
}

impl ZoneTables {
    fn tables(&self) -> MutexGuard<'_, HashMap<String, Arc<Table>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties emulated zones.
    pub(super) fn forget(&self) {
        self.tables().clear();
    }
}

impl Table {
    fn new(shape: &DeviceShape, job: &Job) -> Result<Self, String> {
        let report = shape.zoned.clone().transpose().map_err(|why| format!("its zones are not known: {why}"))?;
        let given = match job.zones.size {
            None => None,
            Some(Size::Bytes(bytes)) => Some(bytes),
            Some(Size::Percent(_)) => return Err("zonesize is in bytes with zonemode=zbd".into()),
        };
        let zone_bytes = match (&report, given) {
            (Some(report), _) => report.zones.first().map_or(0, |zone| zone.len),
            (None, Some(given)) => given,
            (None, None) => return Err("it is no zoned device - give zonesize, and zones are emulated".into()),
        };
        let mut starts = report.iter().flat_map(|report| &report.zones).zip(0..);
        if given.is_some_and(|given| given != zone_bytes)
            || starts.any(|(zone, number)| zone.start != number * zone_bytes)
        {
            return Err(format!("zonesize is not that of the device, {zone_bytes} bytes for each - leave it out"));
        }
        if zone_bytes == 0 || zone_bytes > u32::MAX.into() || !zone_bytes.is_multiple_of(512) {
            return Err(format!("zones of {zone_bytes} bytes are none of 512 bytes to 4 GiB - give another zonesize"));
        }
        let wanted = shape.size_bytes / zone_bytes;
        if report.is_none() && (wanted > ZONES_MAX || !zone_bytes.is_multiple_of(shape.min_io_bytes.into())) {
            return Err(format!(
                "{wanted} zones of {zone_bytes} bytes are more than {ZONES_MAX}, or not of its blocks of {} bytes - give a larger zonesize",
                shape.min_io_bytes
            ));
        }
        let zone = |start: u64, end, capacity: u64, written: u64| Zone {
            start,
            full_at: start + capacity,
            end,
            at: start + written,
            read_end: start + written,
            is_sequential: true,
            is_usable: true,
            is_reset: false,
            reads: 0,
            writes: 0,
            is_open: false,
            is_old: false,
        };
        let zones: Vec<_> = match &report {
            Some(report) => {
                let of_report = |of: &device::target::Zone| Zone {
                    is_sequential: of.is_sequential,
                    is_usable: of.is_usable,
                    ..zone(of.start, of.start + of.len, of.capacity, of.written)
                };
                report.zones.iter().map(of_report).collect()
            }
            None => {
                let capacity = if job.zbd.capacity > 0 { job.zbd.capacity } else { zone_bytes };
                if capacity > zone_bytes {
                    return Err(format!("zonecapacity {capacity} is more than zonesize {zone_bytes} - lower it"));
                }
                let starts = (0..shape.size_bytes / zone_bytes).map(|number| number * zone_bytes);
                starts.map(|start| zone(start, start + zone_bytes, capacity, 0)).collect()
            }
        };
        let most = |of: &dyn Fn(&Zones) -> Option<u32>| {
            report.as_ref().and_then(|report| of(report)).map_or(usize::MAX, |most| most as usize)
        };
        let active_max = most(&|report| report.active_max);
        let device_max = most(&|report| report.open_max).min(active_max);
        let open_max = match job.zbd.open_max {
            0 => device_max,
            most if most as usize > device_max => {
                return Err(format!("max_open_zones is {most}, and the device allows {device_max} - lower it"));
            }
            most => most as usize,
        };
        let active = report.iter().flat_map(|report| report.zones.iter().zip(0..)).filter(|(zone, _)| zone.is_active);
        let others = active.map(|(_, number)| number).collect();
        let state = Mutex::new(State { zones, open: Vec::new(), others, counted: 0..0, written: 0, writes_left: 0 });
        Ok(Self { report, zone_bytes, wanted_open: job.zbd.open_max, open_max, active_max, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ZonedArea {
    /// The whole zones in `bytes` of `shape`. Error: what is wrong, a phrase.
    pub(super) fn new(shape: &DeviceShape, thread: &Thread, bytes: Range<u64>) -> Result<Self, String> {
        let (job, Range { start, end }) = (&thread.job, bytes);
        let report = shape.zoned.as_ref().and_then(|zoned| zoned.as_ref().ok());
        let mut tables = job.zone_tables.tables();
        let is_same = |table: &&Arc<Table>| match (&table.report, report) {
            (Some(known), Some(report)) => Arc::ptr_eq(known, report),
            (known, report) => known.is_none() && report.is_none(),
        };
        let table = match tables.get(&shape.name).filter(is_same) {
            Some(table) => table.clone(),
            None => Arc::new(Table::new(shape, job)?),
        };
        tables.insert(shape.name.clone(), table.clone());
        let other = job.zones.size.is_some_and(|size| size != Size::Bytes(table.zone_bytes));
        if other || job.does[WRITES] && table.wanted_open != job.zbd.open_max {
            return Err("jobs on one device have the same zonesize and max_open_zones - give them the same".into());
        }
        // As fio does: whole zones, of which the first and the last begin within.
        let range = start.div_ceil(table.zone_bytes) as usize..(end / table.zone_bytes) as usize;
        let mut state = table.state();
        if range.is_empty() || range.end > state.zones.len() {
            return Err(format!(
                "bytes {start} to {end} hold no whole zone of {} bytes - give more size",
                table.zone_bytes
            ));
        }
        let (zone, unit) = (&state.zones[range.start], job.sizes[WRITES].min_bytes());
        let (capacity, writes, is_zoned) = (zone.full_at - zone.start, job.does[WRITES], table.report.is_some());
        let is_whole = unit <= capacity && (!is_zoned || capacity.is_multiple_of(unit));
        let is_even = !is_zoned || job.sizes[WRITES].each().iter().all(|bytes| bytes.is_multiple_of(unit));
        let trims = job.does[TRIMS] && job.sizes[TRIMS] != Sizes::same(table.zone_bytes);
        let mut units = job.directions().map(|of| job.sizes[of].min_bytes());
        let wrong = [
            (units.any(|unit| unit > table.zone_bytes), "a zone is smaller than an operation - give a smaller bs"),
            (writes && is_zoned && !job.direct, "zones are written past the page cache only - give direct=1"),
            (writes && !is_whole, "whole writes do not fill a zone - give a bs that divides its capacity"),
            (writes && !is_even, "the rest of a zone would fit no write - give bssplit multiples of its smallest size"),
            (trims, "a trim resets a whole zone - give bs the size of a zone"),
            (
                job.zbd.job_open_max > 0 && table.open_max == usize::MAX,
                "job_max_open_zones needs a limit for all jobs - give max_open_zones",
            ),
        ];
        if let Some((_, why)) = wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(format!("{why} (zones of {} bytes, of which {capacity} can be written)", table.zone_bytes));
        }
        if job.does[WRITES] && job.zbd.reset_frequency > 0.0 {
            if !state.counted.is_empty() && state.counted != range {
                return Err("jobs with zone_reset_frequency have one range of zones - give them the same".into());
            }
            if state.counted.is_empty() {
                state.written = state.zones[range.clone()].iter().map(|zone| zone.at - zone.start).sum();
                (state.counted, state.writes_left) = (range.clone(), job.zbd.writes_between_resets());
            }
        }
        if job.reads_back() {
            state.age(range.clone());
        }
        if job.does[WRITES] {
            let (within, others) = std::mem::take(&mut state.others).into_iter().partition(|zone| range.contains(zone));
            let within: Vec<_> = within;
            state.others = others;
            within.into_iter().for_each(|zone| state.open(zone, usize::MAX));
            let (open, others) = (state.open.len(), state.others.len());
            if open > table.open_max || open == 0 && others >= table.active_max {
                let most = if open > 0 { table.open_max } else { table.active_max };
                return Err(format!(
                    "{open} of its zones and {others} beside them are open or half full, and {most} can be - finish or reset some of them (blkzone finish, blkzone reset), or give a higher max_open_zones"
                ));
            }
        }
        drop(state);
        Ok(Self { table, range, owner: thread.number, progress: thread.progress.clone() })
    }

    /// First and last byte of the zones on the device.
    pub(super) fn bytes(&self) -> Range<u64> {
        self.range.start as u64 * self.table.zone_bytes..self.range.end as u64 * self.table.zone_bytes
    }

    /// Marks all data as old: the next write to a zone of a verifying job resets the zone first.
    pub(super) fn age(&self) {
        self.table.state().age(self.range.clone());
    }

    fn index(&self, offset: u64) -> usize {
        ((offset / self.table.zone_bytes) as usize).clamp(self.range.start, self.range.end - 1)
    }

    /// Where an operation of `job` goes that would be at `at`, about `wanted` bytes in whole `unit`s.
    pub(super) fn turn(&self, job: &Job, direction: usize, at: u64, wanted: u64, unit: u64) -> Turn {
        let mut state = self.table.state();
        let zone = &state.zones[self.index(at)];
        let is_free = !zone.is_sequential || direction == READS && job.zbd.reads_beyond && zone.is_usable;
        match direction {
            _ if is_free && zone.end - at >= unit => {
                let len = wanted.min((zone.end - at) / unit * unit);
                let kind = [OpKind::Read, OpKind::Write, OpKind::Deallocate][direction];
                state.begin(self.index(at), kind);
                Turn::Go(kind, at, len)
            }
            // The rest of a zone is too small: its beginning instead.
            _ if is_free => {
                let (start, len) = (zone.start, wanted.min((zone.end - zone.start) / unit * unit));
                drop(state);
                self.turn(job, direction, start, len, unit)
            }
            READS => self.read(&mut state, job, at, wanted, unit),
            WRITES => self.write(&mut state, job, at, wanted, unit),
            _ => self.trim(&mut state, job, at),
        }
    }

    /// The zone nearest to `from`, or the next one if places are in sequence, that `is_right`.
    fn nearest(&self, state: &State, job: &Job, from: usize, is_right: impl Fn(&Zone) -> bool) -> Option<usize> {
        let is_right = |zone: &usize| is_right(&state.zones[*zone]);
        let after = (from + 1..self.range.end).find(is_right);
        let before = (self.range.start..from).rev().find(is_right).filter(|_| job.random);
        [after, before].into_iter().flatten().min_by_key(|zone| zone.abs_diff(from))
    }

    fn read(&self, state: &mut State, job: &Job, at: u64, wanted: u64, unit: u64) -> Turn {
        let first = self.index(at);
        let here = &state.zones[first];
        let is_here = here.has(unit) && (job.random || at + unit <= here.read_end);
        let Some(zone) = (if is_here { Some(first) } else { self.nearest(state, job, first, |zone| zone.has(unit)) })
        else {
            // The first writes of a job that reads, too, are on their way.
            let is_coming = |zone: &Zone| zone.writes > 0 || zone.is_reset;
            let waits = job.does[WRITES] && state.zones[self.range.clone()].iter().any(is_coming);
            return if waits { Turn::Wait } else { Turn::Over };
        };
        let (from, Zone { start, read_end, .. }) = (state.zones[first].start, state.zones[zone]);
        let there = read_end - start;
        let at = match is_here && !job.random {
            true => at,
            _ if there <= wanted || !job.random => start,
            _ => start + (at - from) % (there - wanted) / unit * unit,
        };
        state.begin(zone, OpKind::Read);
        Turn::Go(OpKind::Read, at, wanted.min((read_end - at) / unit * unit))
    }

    fn trim(&self, state: &mut State, job: &Job, at: u64) -> Turn {
        let first = self.index(at);
        let is_here = !job.random || state.zones[first].at > state.zones[first].start;
        let has_data = |zone: &Zone| zone.is_sequential && zone.has(1);
        let Some(zone) = (if is_here { Some(first) } else { self.nearest(state, job, first, has_data) }) else {
            return if job.time_based && !job.has_rates() { Turn::Wait } else { Turn::Over };
        };
        if !state.zones[zone].is_quiet() {
            return Turn::Wait;
        }
        let Zone { start, end, .. } = state.zones[zone];
        self.empty(state, zone);
        state.begin(zone, OpKind::ResetZone);
        let kind = if self.table.report.is_some() { OpKind::ResetZone } else { OpKind::Deallocate };
        Turn::Go(kind, start, end - start)
    }

    fn write(&self, state: &mut State, job: &Job, at: u64, wanted: u64, unit: u64) -> Turn {
        let first = self.index(at);
        let limit = self.table.open_max;
        let keeps_data = job.reads_back();
        let own = state.open.iter().filter(|(_, owner)| *owner == self.owner).count() as u64;
        let active = state.open.len().saturating_add(state.others.len());
        let is_full = state.open.len() >= limit
            || active >= self.table.active_max
            || job.zbd.job_open_max > 0 && own >= job.zbd.job_open_max;
        let may_open = |zone: &Zone| zone.is_open || !is_full;
        let has_room = |zone: &Zone| zone.is_usable && zone.room() >= unit && !(keeps_data && zone.is_old);
        let is_alone = |zone: &Zone| zone.writes == 0 || self.table.report.is_none();
        let takes = |zone: &Zone| {
            zone.is_sequential
                && zone.is_usable
                && !zone.is_reset
                && match has_room(zone) {
                    true => is_alone(zone),
                    // The zone is reset before.
                    false => zone.is_quiet() && (!keeps_data || zone.is_old),
                }
        };
        let zones = &state.zones;
        let open = || state.open.iter().map(|(zone, _)| *zone).filter(|zone| self.range.contains(zone));
        let zone = match &zones[first] {
            here if may_open(here) && takes(here) => Some(first),
            here if !job.random && may_open(here) && !here.is_quiet() => return Turn::Wait,
            _ => {
                // As far into the open zones as the place is into the range.
                let Range { start, end } = self.range;
                let from = (first - start) * open().count() / (end - start);
                let mut ready =
                    open().skip(from).chain(open()).filter(|zone| has_room(&zones[*zone]) && takes(&zones[*zone]));
                let mut others = open().chain((first + 1..end).chain(start..first).filter(|_| !is_full));
                ready.next().or_else(|| others.find(|zone| takes(&zones[*zone])))
            }
        };
        let Some(zone) = zone else {
            let is_busy = |zone: usize| zones[zone].is_sequential && !zones[zone].is_quiet();
            let waits = if is_full { open().any(is_busy) } else { self.range.clone().any(is_busy) };
            return if waits { Turn::Wait } else { Turn::Over };
        };
        let chosen = zones[zone];
        let is_due = !keeps_data && state.is_reset_due(job) && chosen.is_quiet() && chosen.at > chosen.start;
        let resets = is_due || !has_room(&chosen);
        if limit < usize::MAX {
            state.open(zone, self.owner);
        }
        if is_due {
            state.writes_left = job.zbd.writes_between_resets();
        }
        if resets {
            self.empty(state, zone);
            if self.table.report.is_some() {
                state.begin(zone, OpKind::ResetZone);
                return Turn::Go(OpKind::ResetZone, chosen.start, chosen.end - chosen.start);
            }
        }
        let (at, len) = self.put(state, zone, wanted, unit);
        Turn::Go(OpKind::Write, at, len)
    }

    /// Forgets the data of a zone.
    fn empty(&self, state: &mut State, index: usize) {
        let zone = &mut state.zones[index];
        if zone.at > zone.start {
            self.progress.count_zone_reset();
        }
        if state.counted.contains(&index) {
            state.written -= zone.at - zone.start;
        }
        (zone.at, zone.read_end, zone.is_old) = (zone.start, zone.start, false);
    }

    /// Place and bytes of a write at the write pointer.
    fn put(&self, state: &mut State, zone: usize, wanted: u64, unit: u64) -> (u64, u64) {
        let (at, len) = (state.zones[zone].at, wanted.min(state.zones[zone].room() / unit * unit));
        state.begin(zone, OpKind::Write);
        state.zones[zone].at += len;
        if self.table.report.is_none() {
            state.zones[zone].read_end = at + len;
        }
        if state.counted.contains(&zone) {
            state.written += len;
        }
        (at, len)
    }

    /// Where a sequence of writes of `unit` bytes or more goes on after one that ended at `at`, and the bytes that it
    /// leaves out because the zone has no room for them.
    pub(super) fn next_after(&self, at: u64, unit: u64) -> (u64, u64) {
        let state = self.table.state();
        let zone = &state.zones[self.index(at.saturating_sub(1))];
        match zone.is_sequential && zone.full_at.saturating_sub(at) < unit {
            true => (zone.end, zone.end - zone.full_at),
            false => (at, 0),
        }
    }

    /// An operation is back. After a reset for a write of `wanted` bytes, if there is one: its place, which nobody else gets.
    ///
    /// Error: why the zone cannot be used any more.
    pub(super) fn done(
        &self,
        job: &Job,
        request: &Request,
        outcome: Outcome,
        wanted: Option<u64>,
    ) -> Result<Option<(u64, u64)>, String> {
        let Request { kind, offset, .. } = *request;
        let end = offset + u64::from(request.len);
        let mut state = self.table.state();
        let index = self.index(offset);
        let zone = &mut state.zones[index];
        match kind {
            OpKind::Read => zone.reads = zone.reads.saturating_sub(1),
            OpKind::Write => zone.writes -= 1,
            OpKind::Deallocate | OpKind::ResetZone => zone.is_reset = false,
            _ => return Ok(None),
        }
        let is_emulated = self.table.report.is_none() || !zone.is_sequential;
        match kind {
            OpKind::Write if outcome.is_done() => zone.read_end = zone.read_end.max(end),
            OpKind::Write | OpKind::ResetZone if !outcome.is_done() && !is_emulated => {
                zone.is_usable = false;
                return Err(failure(kind, offset, zone, outcome));
            }
            _ => {}
        }
        let is_full = zone.writes == 0 && zone.room() < job.sizes[WRITES].min_bytes();
        // Not before: meanwhile the device counts it.
        if job.does[TRIMS] && kind != OpKind::Read || kind == OpKind::Write && is_full {
            state.close(index);
        }
        let wanted = wanted.filter(|_| outcome.is_done());
        Ok(wanted.map(|wanted| self.put(&mut state, index, wanted, job.sizes[WRITES].min_bytes())))
    }
}

impl State {
    fn age(&mut self, zones: Range<usize>) {
        self.zones[zones].iter_mut().for_each(|zone| zone.is_old = zone.at > zone.start);
    }

    fn begin(&mut self, zone: usize, kind: OpKind) {
        let zone = &mut self.zones[zone];
        match kind {
            OpKind::Read => zone.reads += 1,
            OpKind::Write => zone.writes += 1,
            _ => zone.is_reset = true,
        }
    }

    fn open(&mut self, zone: usize, owner: usize) {
        if !std::mem::replace(&mut self.zones[zone].is_open, true) {
            self.open.push((zone, owner));
        }
    }

    fn close(&mut self, zone: usize) {
        self.zones[zone].is_open = false;
        self.open.retain(|(open, _)| *open != zone);
    }

    /// True if so much is written that a zone is reset with this write.
    fn is_reset_due(&mut self, job: &Job) -> bool {
        let bytes: u64 = self.zones[self.counted.clone()].first().map_or(0, |zone| zone.end - zone.start);
        let most = bytes as f64 * self.counted.len() as f64 * job.zbd.reset_threshold;
        if job.zbd.reset_frequency == 0.0 || (self.written as f64) < most {
            return false;
        }
        self.writes_left = self.writes_left.saturating_sub(1);
        self.writes_left == 0
    }
}

impl ZbdOptions {
    fn writes_between_resets(&self) -> u64 {
        (1.0 / self.reset_frequency) as u64
    }
}

/// Why an operation on a zone at `offset` failed.
fn failure(kind: OpKind, offset: u64, zone: &Zone, outcome: Outcome) -> String {
    let why = outcome.zone_refusal().filter(|_| kind == OpKind::Write).unwrap_or("the device refused it");
    let start = zone.start;
    format!("the {kind} at byte {offset} of the zone at byte {start} failed: {why} ({outcome})")
}
