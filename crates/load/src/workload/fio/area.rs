//! The range of a device or file that a lane uses, and the choice of the next offset in it. With `zonemode=strided` the
//! range is a window that moves on after `zonesize` bytes of operations.
//!
//! Source: fio's `setup_strided_zone_mode()`.

use super::job::DIRECTIONS;
use super::pattern::{Draw, Map};
use super::thread::Thread;
use super::value::Size;
use super::zbd::ZonedArea;
use crate::workload::{CannotRun, DeviceShape};
use results::units::quoted;
use sys::op::TargetId;
use sys::random::Random;

/// The range of a device or file that a job uses.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) target: TargetId,
    /// Buffer class of writes to the area.
    pub(super) buffers: u16,
    /// Key of the guard's stamps on the device.
    pub(super) key: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    /// Next sequential offset of each direction, relative to `start`.
    pub(super) next: [u64; DIRECTIONS],
    pub(super) order: Order,
    /// Range written since the last flush: first byte and end.
    pub(super) written: Option<(u64, u64)>,
    /// Bytes of this device or file that the job uses, in all windows together.
    pub(super) used: u64,
    /// With `zonemode=strided`: the area is the current window.
    pub(super) zones: Option<Zones>,
    /// With `zonemode=zbd`: the zones of the area, which are written from start to end.
    pub(super) zbd: Option<ZonedArea>,
}

/// Selects the next block of an area.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Sequential, with `skip` bytes between operations; negative: backwards.
    Sequential { skip: i64 },
    /// Random order, each unit once before any is repeated: a map for all directions, or one for each if their units
    /// differ.
    Mapped(Vec<Map>),
    /// Random offsets that may repeat, with their alignment in bytes.
    Drawn(Vec<Option<(Draw, u64)>>),
}

impl Area {
    /// Counts an operation of `len` bytes, and moves the window on if it is used up.
    #[inline]
    pub(super) fn stride(&mut self, len: u64) {
        let next = self.zones.as_mut().and_then(|zones| zones.next_start(self.start, len, self.len));
        if let Some(start) = next {
            (self.start, self.next) = (start, [0; DIRECTIONS]);
            if let Order::Mapped(maps) = &mut self.order {
                maps.iter_mut().for_each(Map::clear);
            }
        }
    }

    /// Offset and length of the next operation, at most `wanted` bytes.
    #[inline]
    pub(super) fn next(
        &mut self,
        direction: usize,
        wanted: u64,
        jumps: bool,
        unit: u64,
        random: &mut Random,
    ) -> (u64, u64) {
        let last = self.next[direction];
        let (at, len) = match &mut self.order {
            Order::Sequential { skip } => {
                let at = if *skip == 0 { last } else { skipped(last, *skip, self.len) };
                // Wrap around at the end.
                let at = if self.len - at < unit { 0 } else { at };
                (at, wanted.min((self.len - at) / unit * unit))
            }
            order if !jumps && self.len - last >= unit => {
                let len = wanted.min((self.len - last) / unit * unit);
                if let Order::Mapped(maps) = order {
                    // This operation is sequential: its offset comes from the last operation, not from the random map,
                    // where its blocks may be marked already.
                    map_of(maps, direction).take(last / unit, len / unit);
                }
                (last, len)
            }
            Order::Mapped(maps) => {
                let map = map_of(maps, direction);
                let first = map.free_from(random.below(self.len / unit));
                (first * unit, map.take(first, wanted / unit) * unit)
            }
            Order::Drawn(draws) => {
                let at = draws[direction].as_ref().map_or(0, |(draw, align)| draw.next(random) * align);
                (at, wanted.min((self.len - at) / unit * unit))
            }
        };
        self.next[direction] = at + len;
        (self.start + at, len)
    }
}

/// The map of a direction: its own, or the one of all directions.
#[inline]
fn map_of(maps: &mut [Map], direction: usize) -> &mut Map {
    let last = maps.len() - 1;
    &mut maps[direction.min(last)]
}

/// Offset of the operation after one that ended at `last`, with `skip` bytes in between, in a range of `len` bytes. As
/// in fio, the first operation begins at 0, and an operation that would leave the range wraps to its other end.
fn skipped(last: u64, skip: i64, len: u64) -> u64 {
    let next = if last == 0 { Some(0) } else { last.checked_add_signed(skip).filter(|at| *at < len) };
    let again = if skip > 0 { Some(0) } else { len.checked_add_signed(skip) };
    next.or(again).unwrap_or(0)
}

/// The area of `shape` for a lane of a clone, with these `directions`. `parts`: number of devices or files that share
/// the job's `size`. `begin` overrides the start that `offset` gives.
pub(super) fn area(
    thread: &Thread,
    directions: &[usize],
    parts: u64,
    begin: Option<u64>,
    shape: &DeviceShape,
    buffers: u16,
    random: &mut Random,
) -> Result<Area, CannotRun> {
    let (job, clone) = (&thread.job, thread.clone);
    let cannot = |why: String| CannotRun(format!("cannot run job {} on {} - {why}", quoted(&job.name), shape.name));
    let whole = shape.size_bytes;
    let unit = job.unit_bytes();
    // As in fio a percentage is rounded up to whole operations.
    let first = |size: Size| match size {
        Size::Percent(_) => size.of(whole).div_ceil(unit) * unit,
        Size::Bytes(bytes) => bytes,
    };
    let given = || first(job.offset).saturating_add(first(job.offset_increment).saturating_mul(clone));
    let start = begin.unwrap_or_else(given);
    let room = whole.checked_sub(start).filter(|room| *room >= unit).ok_or_else(|| {
        cannot(format!("offset {start} leaves no room for an operation of {unit} bytes in its {whole} bytes - lower offset, offset_increment or numjobs"))
    })?;
    let wanted = match job.size {
        None => room,
        // Percent of the whole device or file, limited by the room after the offset.
        Some(percent @ Size::Percent(_)) => percent.of(whole).min(room),
        Some(Size::Bytes(bytes)) => bytes / parts,
    };
    // As in fio, a job ends at the end of the device. Only random offsets without a map, which may repeat, still move
    // `size` bytes.
    let is_drawn = job.random && !job.has_map();
    let mut used = if is_drawn { wanted } else { wanted.min(room) } / unit * unit;
    let (mut start, mut room, mut zbd) = (start, room, None);
    if job.zbd.is_on {
        let zoned = ZonedArea::new(shape, thread, start..start + wanted.min(room)).map_err(cannot)?;
        (start, room) = (zoned.bytes().start, zoned.bytes().end - zoned.bytes().start);
        (used, zbd) = (room, Some(zoned));
    } else if job.writes() && matches!(shape.zoned, Some(Ok(_))) {
        return Err(cannot("it is a zoned device, which takes writes in order only - give zonemode=zbd".into()));
    }
    let zones = job.zones.of(start, whole).map_err(cannot)?;
    let (len, zones) = zones
        .map_or((if zbd.is_some() { room } else { used.min(room / unit * unit) }, None), |(window, zones)| {
            (window / unit * unit, Some(zones))
        });
    let largest = job.largest_bytes();
    if len < largest {
        return Err(cannot(format!(
            "{len} bytes do not hold an operation of {largest} bytes - give more size, or a smaller bs"
        )));
    }
    let coarse = job.direct || job.does[2];
    let min_io = u64::from(shape.min_io_bytes);
    let uneven = |bytes: &u64| !bytes.is_multiple_of(min_io);
    let sizes = job
        .directions()
        .flat_map(|direction| job.sizes[direction].each().into_iter().chain([job.align_bytes(direction)]));
    if let Some(bytes) = sizes.chain([start, unit, job.skip.unsigned_abs()]).find(|bytes| coarse && uneven(bytes)) {
        return Err(cannot(format!(
            "{bytes} bytes are no multiple of {min_io}: direct I/O must be aligned to it - round it, or set direct=0 to use the page cache"
        )));
    }
    // Sizes of a split that are not multiples of the smallest would leave gaps in a map.
    let order = match job.random {
        false => Order::Sequential { skip: job.skip },
        true if job.has_map() => {
            for sizes in directions.iter().map(|direction| &job.sizes[*direction]) {
                let unit = sizes.min_bytes();
                if sizes.each().iter().any(|bytes| !bytes.is_multiple_of(unit)) {
                    return Err(cannot(format!(
                        "sizes that are no multiples of the smallest, {unit}, go with no random map - add norandommap"
                    )));
                }
            }
            // The units of a map are the smallest size of its own direction. With smaller units, gaps would be too
            // small for an operation and cut it short.
            let units =
                |direction| if directions.contains(&direction) { len / job.sizes[direction].min_bytes() } else { 0 };
            Order::Mapped(match job.shares_map(directions) {
                true => vec![Map::new(units(directions[0]))],
                false => (0..DIRECTIONS).map(|direction| Map::new(units(direction))).collect(),
            })
        }
        true => {
            let mut draws = vec![None; DIRECTIONS];
            for direction in job.directions() {
                let align = job.align_bytes(direction);
                // The last block has room for the smallest operation.
                let blocks = (len - job.sizes[direction].min_bytes()) / align + 1;
                let draw = Draw::new(&job.distribution[direction], blocks, align, random).map_err(cannot)?;
                draws[direction] = Some((draw, align));
            }
            Order::Drawn(draws)
        }
    };
    Ok(Area {
        target: shape.target,
        buffers,
        key: shape.stamp_key,
        start,
        len,
        next: [0; DIRECTIONS],
        order,
        written: None,
        used,
        zones,
        zbd,
    })
}

/// A job's options of `zonemode=strided`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneOptions {
    /// True for `zonemode=strided`.
    pub strided: bool,
    /// Bytes of operations before the window moves on.
    pub size: Option<Size>,
    /// Bytes of the window; default: `size`.
    pub range: Option<Size>,
    /// Bytes between a window and the next.
    pub skip: Option<Size>,
}

/// Movement of an area's window.
#[derive(Debug, Clone)]
pub(super) struct Zones {
    size: u64,
    step: u64,
    /// Start of the first window, and end of the device or file.
    first: u64,
    end: u64,
    done: u64,
}

impl ZoneOptions {
    /// Length of a window and its movement, from byte `first` on, on a device of `whole` bytes. Errors: sizes that do
    /// not fit.
    pub(super) fn of(self, first: u64, whole: u64) -> Result<Option<(u64, Zones)>, String> {
        if !self.strided {
            return Ok(None);
        }
        let size = self.size.map_or(0, |size| size.of(whole));
        let range = self.range.map_or(size, |range| range.of(whole));
        let skip = self.skip.map_or(0, |skip| skip.of(whole));
        let room = whole.saturating_sub(first);
        match range.min(size) {
            0 => Err("zonemode=strided moves on after zonesize bytes - give zonesize".into()),
            _ if range > room => {
                Err(format!("a zone of {range} bytes is larger than the {room} bytes there are - lower zonerange"))
            }
            _ => Ok(Some((range, Zones { size, step: range.saturating_add(skip), first, end: whole, done: 0 }))),
        }
    }
}

impl Zones {
    /// Counts `len` bytes of operations in the window at `start`. Returns the start of the next window once this one is
    /// used up.
    pub(super) fn next_start(&mut self, start: u64, len: u64, window: u64) -> Option<u64> {
        self.done += len;
        if self.done < self.size {
            return None;
        }
        self.done = 0;
        // fio cuts the last window short. Here the first window follows instead of one that does not fit.
        let next = start.checked_add(self.step);
        next.filter(|next| next.checked_add(window).is_some_and(|end| end <= self.end)).or(Some(self.first))
    }
}
