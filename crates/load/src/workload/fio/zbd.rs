//! Zones that are written sequentially (`zonemode=zbd`): zones of a zoned device, or emulated zones of any other device
//! or file.
//!
//! ```text
//! a job's offset -> ZonedArea::decide -> ZoneDecision: the actual offset, a reset first, or wait   in_zone.rs
//!                   ZonedArea::on_completed: an operation completed
//! ```
//!
//! All jobs share one table of a device's zones, locked while an offset is chosen. A zone that is not emulated has at
//! most one write in flight: the kernel passes on one write per zone at a time, and further writes could be reordered
//! before they reach the kernel. A zone is reset only when nothing is in flight in it.

mod in_zone;

use super::job::{Job, TRIMS, WRITES};
use super::locked;
use super::pattern::Sizes;
use super::thread::{JobClone, Progress};
use super::value::Size;
use crate::workload::DeviceShape;
use device::target::Zones;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use sys::op::OpKind;

/// Maximum number of emulated zones of a device.
const ZONES_MAX: u64 = 1 << 20;

/// A job's options of `zonemode=zbd`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ZbdOptions {
    /// True for `zonemode=zbd`.
    pub is_on: bool,
    /// Bytes that can be written in an emulated zone; 0: all.
    pub capacity: u64,
    /// True if reads may go beyond the write pointer.
    pub reads_beyond: bool,
    /// Maximum number of open zones of all jobs, and of a clone; 0: only the device's limit.
    pub open_max: u64,
    pub job_open_max: u64,
    /// Fraction of the range: if more of the range holds data, some writes reset a zone that is not full.
    pub reset_threshold: f64,
    /// Fraction of the writes that reset a zone, once `reset_threshold` is reached.
    pub reset_frequency: f64,
}

/// Zones by device or file. Emulated zones keep their state from run to run, as in fio.
#[derive(Debug, Default)]
pub struct ZoneTables(pub(super) Mutex<HashMap<String, Arc<ZoneTable>>>);

/// The zones of a device.
#[derive(Debug)]
pub(super) struct ZoneTable {
    /// Zone report of the device; `None`: emulated zones.
    report: Option<Arc<Zones>>,
    zone_bytes: u64,
    /// `max_open_zones` of the jobs, and the limits in force, which include the device's.
    max_open_zones: u64,
    open_max: usize,
    active_max: usize,
    state: Mutex<ZoneTableState>,
}

#[derive(Debug, Default)]
struct ZoneTableState {
    zones: Vec<Zone>,
    /// Zones that are written to, each with the clone that opened it.
    open_zones: Vec<(usize, usize)>,
    /// Other zones that are open or partly written.
    active_zones: Vec<usize>,
    /// Zones that count toward the threshold of resets, and bytes written in them.
    reset_range: Range<usize>,
    written_bytes: u64,
    /// Writes until the next reset by `zone_reset_threshold`.
    writes_left: u64,
}

/// A zone; positions are bytes on the device.
#[derive(Debug, Clone, Copy, Default)]
struct Zone {
    start: u64,
    /// End of the capacity that can be written, and end of the zone.
    capacity_end: u64,
    end: u64,
    /// Write pointer, and end of the data that can be read.
    write_pointer: u64,
    read_end: u64,
    is_sequential: bool,
    /// False once a write or reset failed, or if the device reports the zone as unusable.
    is_usable: bool,
    /// True while a reset is in flight.
    is_resetting: bool,
    reads: u32,
    writes: u32,
    is_open: bool,
    /// True if the data are of an earlier phase or run.
    is_old: bool,
}

/// The zones of an area of a job.
#[derive(Debug, Clone)]
pub(super) struct ZonedArea {
    table: Arc<ZoneTable>,
    /// Zones of the job.
    range: Range<usize>,
    /// Number of the clone.
    owner: usize,
    progress: Arc<Progress>,
}

impl Zone {
    fn room(&self) -> u64 {
        self.capacity_end - self.write_pointer
    }

    fn is_idle(&self) -> bool {
        self.reads + self.writes == 0 && !self.is_resetting
    }

    fn has(&self, unit: u64) -> bool {
        self.is_usable && !self.is_resetting && self.read_end - self.start >= unit
    }
}

impl ZoneTable {
    fn new(shape: &DeviceShape, job: &Job) -> Result<Self, String> {
        let report =
            shape.zoned.clone().transpose().map_err(|why| format!("the zones of the device are unknown: {why}"))?;
        let zonesize = match job.zones.size {
            None => None,
            Some(Size::Bytes(bytes)) => Some(bytes),
            Some(Size::Percent(_)) => return Err("with zonemode=zbd, zonesize must be in bytes, not percent".into()),
        };
        let zone_bytes = match (&report, zonesize) {
            (Some(report), _) => report.zones.first().map_or(0, |zone| zone.len),
            (None, Some(given)) => given,
            (None, None) => return Err("the device is not zoned - give zonesize to emulate zones".into()),
        };
        let mut starts = report.iter().flat_map(|report| &report.zones).zip(0..);
        if zonesize.is_some_and(|given| given != zone_bytes)
            || starts.any(|(zone, number)| zone.start != number * zone_bytes)
        {
            return Err(format!(
                "zonesize differs from the zones of the device, {zone_bytes} bytes each - leave zonesize out"
            ));
        }
        if zone_bytes == 0 || zone_bytes > u32::MAX.into() || !zone_bytes.is_multiple_of(512) {
            return Err(format!(
                "a zone has {zone_bytes} bytes, but must have a multiple of 512 bytes, below 4 GiB - give another zonesize"
            ));
        }
        let zone_count = shape.size_bytes / zone_bytes;
        if report.is_none() && (zone_count > ZONES_MAX || !zone_bytes.is_multiple_of(shape.min_io_bytes.into())) {
            let block = shape.min_io_bytes;
            return Err(format!(
                "either {zone_count} zones of {zone_bytes} bytes are more than the maximum of {ZONES_MAX}, or zonesize \
                 is not a multiple of the block size of {block} bytes - give a larger zonesize"
            ));
        }
        let capacity = if job.zbd.capacity > 0 { job.zbd.capacity } else { zone_bytes };
        if report.is_none() && capacity > zone_bytes {
            return Err(format!("zonecapacity {capacity} is more than zonesize {zone_bytes} - lower zonecapacity"));
        }
        let emulated = |number: u64| device::target::Zone {
            start: number * zone_bytes,
            len: zone_bytes,
            capacity,
            written: 0,
            is_sequential: true,
            is_active: false,
            is_usable: true,
        };
        let reported = report.as_ref().map(|report| report.zones.clone());
        let reported = reported.unwrap_or_else(|| (0..zone_count).map(emulated).collect());
        let zone = |device_zone: &device::target::Zone| Zone {
            start: device_zone.start,
            capacity_end: device_zone.start + device_zone.capacity,
            end: device_zone.start + device_zone.len,
            write_pointer: device_zone.start + device_zone.written,
            read_end: device_zone.start + device_zone.written,
            is_sequential: device_zone.is_sequential,
            is_usable: device_zone.is_usable,
            ..Zone::default()
        };
        let zones = reported.iter().map(zone).collect();
        let active_zones = (0..reported.len()).filter(|number| reported[*number].is_active).collect();
        let limit_of = |field: &dyn Fn(&Zones) -> Option<u32>| {
            report.as_ref().and_then(|report| field(report)).map_or(usize::MAX, |most| most as usize)
        };
        let active_max = limit_of(&|report| report.active_max);
        let device_max = limit_of(&|report| report.open_max).min(active_max);
        let open_max = match job.zbd.open_max {
            0 => device_max,
            most if most as usize > device_max => {
                return Err(format!(
                    "max_open_zones is {most}, but the device allows at most {device_max} - lower max_open_zones"
                ));
            }
            most => most as usize,
        };
        let state = Mutex::new(ZoneTableState { zones, active_zones, ..ZoneTableState::default() });
        Ok(Self { report, zone_bytes, max_open_zones: job.zbd.open_max, open_max, active_max, state })
    }
}

impl ZonedArea {
    /// The whole zones in `bytes` of `shape`. Errors: the reason, a phrase.
    pub(super) fn new(shape: &DeviceShape, thread: &JobClone, bytes: Range<u64>) -> Result<Self, String> {
        let (job, Range { start, end }) = (&thread.job, bytes);
        let report = shape.zoned.as_ref().and_then(|zoned| zoned.as_ref().ok());
        let mut tables = locked(&job.zone_tables.0);
        let is_same = |table: &&Arc<ZoneTable>| table.report.as_ref().map(Arc::as_ptr) == report.map(Arc::as_ptr);
        let table = match tables.get(&shape.name).filter(is_same) {
            Some(table) => table.clone(),
            None => Arc::new(ZoneTable::new(shape, job)?),
        };
        tables.insert(shape.name.clone(), table.clone());
        let differs = job.zones.size.is_some_and(|size| size != Size::Bytes(table.zone_bytes));
        if differs || job.does[WRITES] && table.max_open_zones != job.zbd.open_max {
            return Err(
                "jobs on one device need the same zonesize and max_open_zones - give all the same values".into()
            );
        }
        // As in fio, only whole zones are used: the start is rounded up, and the end is rounded down.
        let range = start.div_ceil(table.zone_bytes) as usize..(end / table.zone_bytes) as usize;
        let (mut state, zone_bytes) = (locked(&table.state), table.zone_bytes);
        if range.is_empty() || range.end > state.zones.len() {
            return Err(format!("bytes {start} to {end} hold no whole zone of {zone_bytes} bytes - raise size"));
        }
        let (zone, unit) = (&state.zones[range.start], job.sizes[WRITES].min_bytes());
        let (capacity, writes, is_zoned) = (zone.capacity_end - zone.start, job.does[WRITES], table.report.is_some());
        let is_whole = unit <= capacity && (!is_zoned || capacity.is_multiple_of(unit));
        let is_even = !is_zoned || job.sizes[WRITES].each().iter().all(|bytes| bytes.is_multiple_of(unit));
        let trims = job.does[TRIMS] && job.sizes[TRIMS] != Sizes::same(zone_bytes);
        let is_small = job.directions().any(|of| job.sizes[of].min_bytes() > zone_bytes);
        let limits_own = job.zbd.job_open_max > 0 && table.open_max == usize::MAX;
        let conflicts = [
            is_small.then_some("a zone is smaller than an operation - give a smaller bs"),
            (writes && is_zoned && !job.direct).then_some("zones can be written only with direct I/O - give direct=1"),
            (writes && !is_whole)
                .then_some("the capacity of a zone is not a multiple of bs - give a bs that divides it"),
            (writes && !is_even).then_some(
                "the rest of a zone would be too small for a write - give bssplit multiples of its smallest size",
            ),
            trims.then_some("a trim resets a whole zone - give bs the size of a zone"),
            limits_own.then_some("job_max_open_zones needs a limit for all jobs - give max_open_zones"),
        ];
        if let Some(why) = conflicts.into_iter().flatten().next() {
            return Err(format!("{why} (zones of {zone_bytes} bytes, of which {capacity} can be written)"));
        }
        if writes && job.zbd.reset_frequency > 0.0 {
            if state.reset_range.is_empty() {
                state.written_bytes =
                    state.zones[range.clone()].iter().map(|zone| zone.write_pointer - zone.start).sum();
                (state.reset_range, state.writes_left) = (range.clone(), job.zbd.writes_between_resets());
            } else if state.reset_range != range {
                return Err("jobs with zone_reset_frequency need the same range of zones - give all of them the same offset and size".into());
            }
        }
        if job.reads_back() {
            state.age(range.clone());
        }
        if writes {
            let active = std::mem::take(&mut state.active_zones).into_iter();
            let (in_range, outside): (Vec<_>, _) = active.partition(|zone| range.contains(zone));
            state.active_zones = outside;
            in_range.into_iter().for_each(|zone| state.open(zone, usize::MAX));
            let (open_count, active_count) = (state.open_zones.len(), state.active_zones.len());
            if open_count > table.open_max || open_count == 0 && active_count >= table.active_max {
                let limit = if open_count > 0 { table.open_max } else { table.active_max };
                return Err(format!(
                    "{open_count} zones in the job's range and {active_count} outside of it are open or half full, but \
                     at most {limit} zones can be open or half full - finish or reset some of them (blkzone finish, \
                     blkzone reset), or raise max_open_zones"
                ));
            }
        }
        drop(state);
        Ok(Self { table, range, owner: thread.number, progress: thread.progress.clone() })
    }

    /// Byte range of the zones on the device.
    pub(super) fn bytes(&self) -> Range<u64> {
        self.range.start as u64 * self.table.zone_bytes..self.range.end as u64 * self.table.zone_bytes
    }

    /// Marks all data as old: a verifying job resets a zone with old data before its next write there.
    pub(super) fn age(&self) {
        locked(&self.table.state).age(self.range.clone());
    }
}

impl ZoneTableState {
    fn age(&mut self, zones: Range<usize>) {
        self.zones[zones].iter_mut().for_each(|zone| zone.is_old = zone.write_pointer > zone.start);
    }

    fn begin(&mut self, zone: usize, kind: OpKind) {
        let zone = &mut self.zones[zone];
        match kind {
            OpKind::Read => zone.reads += 1,
            OpKind::Write => zone.writes += 1,
            _ => zone.is_resetting = true,
        }
    }

    fn open(&mut self, zone: usize, owner: usize) {
        if !std::mem::replace(&mut self.zones[zone].is_open, true) {
            self.open_zones.push((zone, owner));
        }
    }

    fn close(&mut self, zone: usize) {
        self.zones[zone].is_open = false;
        self.open_zones.retain(|(open, _)| *open != zone);
    }

    /// Counts a write once the threshold is reached; true if this write resets a zone.
    fn is_reset_due(&mut self, job: &Job) -> bool {
        let bytes: u64 = self.zones[self.reset_range.clone()].first().map_or(0, |zone| zone.end - zone.start);
        let threshold_bytes = bytes as f64 * self.reset_range.len() as f64 * job.zbd.reset_threshold;
        if job.zbd.reset_frequency == 0.0 || (self.written_bytes as f64) < threshold_bytes {
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
