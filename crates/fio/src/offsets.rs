//! The range of a device or file that a lane uses, and the choice of the next offset in it. With `zonemode=strided` the
//! range is a window.

use super::directions::{DIRECTIONS, READS};
use super::engine_kind::EngineKind;
use super::pattern::{OffsetSampler, RandomMap};
use super::thread::JobClone;
use super::value::Size;
use super::zones::StridedWindows;
use engine::sim::SIM_PREFIX;
use load::workload::DeviceShape;
use sys::op::TargetId;
use sys::open::drop_cached;
use sys::random::Random;

#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) target: TargetId,
    pub(super) buffers: u16,
    /// Key of the guard's stamps on the device.
    pub(super) key: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    /// Next sequential offset of each direction, relative to `start`.
    pub(super) next_offsets: [u64; DIRECTIONS],
    pub(super) order: OffsetOrder,
    /// Range written since the last flush: first byte and end.
    pub(super) written_range: Option<(u64, u64)>,
    /// Bytes of this device or file that the job uses, in all windows together.
    pub(super) used_bytes: u64,
    /// With `zonemode=strided`: the area is the current window.
    pub(super) zones: Option<StridedWindows>,
    /// Passes through the page cache; `None`: the cached pages stay.
    cached_passes: Option<CachedPasses>,
}

/// Passes of a job over its part of a file. fio opens the file again for each pass, which drops the cached pages.
#[derive(Debug, Clone)]
struct CachedPasses {
    path: String,
    start: u64,
    bytes: u64,
    /// Bytes left of this pass.
    left_bytes: u64,
}

#[derive(Debug, Clone)]
pub(super) enum OffsetOrder {
    /// Sequential, with `skip` bytes between operations; negative: backwards.
    Sequential { skip: i64 },
    /// Random order that visits each unit once before any is repeated. One map for all directions, or a map for each
    /// direction if their units differ.
    Mapped(Vec<RandomMap>),
    /// Random offsets that may repeat, with their alignment in bytes.
    Drawn(Vec<Option<(OffsetSampler, u64)>>),
}

impl Area {
    /// Counts an operation of `len` bytes, and advances the window after `zonesize` bytes of operations.
    #[inline]
    pub(super) fn advance_window(&mut self, len: u64) {
        let window_start = self
            .zones
            .as_mut()
            .and_then(|zones| zones.next_start(self.start, len, self.len));
        if let Some(start) = window_start {
            (self.start, self.next_offsets) = (start, [0; DIRECTIONS]);
            if let OffsetOrder::Mapped(maps) = &mut self.order {
                maps.iter_mut().for_each(RandomMap::clear);
            }
        }
    }

    /// Counts an operation of `len` bytes; at the first operation of a further pass, drops the cached pages.
    #[inline]
    pub(super) fn advance_pass(&mut self, len: u64) {
        let Some(passes) = &mut self.cached_passes else {
            return;
        };
        if passes.left_bytes == 0 {
            // Errors are ignored, as at the start of the run.
            let _ = drop_cached(&passes.path, passes.start, passes.bytes);
            passes.left_bytes = passes.bytes;
        }
        passes.left_bytes = passes.left_bytes.saturating_sub(len);
    }

    /// Offset and length of the next operation, at most `len_max` bytes. `is_jump`: true for a new random offset, false
    /// to continue after the last operation.
    #[inline]
    pub(super) fn next(
        &mut self,
        direction: usize,
        len_max: u64,
        is_jump: bool,
        unit: u64,
        random: &mut Random,
    ) -> (u64, u64) {
        let last_end = self.next_offsets[direction];
        let (at, len) = match &mut self.order {
            OffsetOrder::Sequential { skip } => {
                let at = if *skip == 0 {
                    last_end
                } else {
                    wrapped_offset(last_end, *skip, self.len)
                };
                let at = if self.len - at < unit { 0 } else { at };
                (at, len_max.min((self.len - at) / unit * unit))
            }
            order if !is_jump && self.len - last_end >= unit => {
                let len = len_max.min((self.len - last_end) / unit * unit);
                if let OffsetOrder::Mapped(maps) = order {
                    // This operation is sequential: its offset comes from the last operation, not from the random map.
                    // Some of its blocks may be marked in the map already.
                    map_of(maps, direction).mark_visited(last_end / unit, len.div_ceil(unit));
                }
                (last_end, len)
            }
            OffsetOrder::Mapped(maps) => {
                let map = map_of(maps, direction);
                let first_block = map.next_unvisited(random.below(self.len / unit));
                // A size that is not a multiple of the unit leaves a gap after the operation, as in fio.
                let visited = map.mark_visited(first_block, len_max.div_ceil(unit)) * unit;
                (first_block * unit, visited.min(len_max))
            }
            OffsetOrder::Drawn(draws) => {
                let at = draws[direction]
                    .as_ref()
                    .map_or(0, |(draw, align)| draw.next(random) * align);
                (at, len_max.min((self.len - at) / unit * unit))
            }
        };
        self.next_offsets[direction] = at + len;
        (self.start + at, len)
    }
}

/// The map of a direction: its own map, or the map that all directions share.
#[inline]
fn map_of(maps: &mut [RandomMap], direction: usize) -> &mut RandomMap {
    let last = maps.len() - 1;
    &mut maps[direction.min(last)]
}

/// Offset of the next operation in a range of `len` bytes: `skip` bytes after `last_end`, the end of the previous
/// operation. As in fio, the first operation begins at 0, and an operation that would leave the range wraps to the
/// other end of the range.
fn wrapped_offset(last_end: u64, skip: i64, len: u64) -> u64 {
    let next = if last_end == 0 {
        Some(0)
    } else {
        last_end.checked_add_signed(skip).filter(|at| *at < len)
    };
    let again = if skip > 0 {
        Some(0)
    } else {
        len.checked_add_signed(skip)
    };
    next.or(again).unwrap_or(0)
}

/// The area of a clone's lane of `directions` on a device. `start_override` overrides the job's `offset`. Errors: the
/// operations do not fit the device or the job's range, or are not aligned for direct I/O.
pub(super) fn new_area(
    thread: &JobClone,
    directions: &[usize],
    start_override: Option<u64>,
    shape: &DeviceShape,
    buffers: u16,
    random: &mut Random,
) -> Result<Area, String> {
    let job = &thread.job;
    let clone = thread.clone;
    let device_bytes = shape.size_bytes;
    let unit = job.unit_bytes();
    // As in fio a percentage is rounded up to whole operations.
    let rounded_bytes = |size: Size| match size {
        Size::Percent(_) => size.bytes_of(device_bytes).div_ceil(unit) * unit,
        Size::Bytes(bytes) => bytes,
    };
    let start = start_override.unwrap_or_else(|| {
        rounded_bytes(job.offset)
            .saturating_add(rounded_bytes(job.offset_increment).saturating_mul(clone))
    });
    let room = device_bytes.checked_sub(start).filter(|room| *room >= unit).ok_or_else(|| {
        format!("offset {start} leaves no room for an operation of {unit} bytes: the device or file has {device_bytes} bytes - lower offset, offset_increment, numjobs or bs")
    })?;
    // Percent of the whole device or file, limited by the room after the offset.
    let job_bytes = thread.part_bytes().unwrap_or_else(|| {
        job.size
            .map_or(room, |percent| percent.bytes_of(device_bytes).min(room))
    });
    // As in fio, a job ends at the end of the device, even if `size` is larger. Only a random job without a map moves
    // `size` bytes in any case, because its offsets may repeat.
    let is_drawn = job.random && !job.has_map();
    let used_bytes = if is_drawn {
        job_bytes
    } else {
        job_bytes.min(room)
    } / unit
        * unit;
    let zones = job.zones.windows(start, device_bytes)?;
    let (len, zones) = zones.map_or(
        (used_bytes.min(room / unit * unit), None),
        |(window, zones)| (window / unit * unit, Some(zones)),
    );
    let largest = job.largest_bytes();
    if len < largest {
        return Err(format!(
            "the job's range of {len} bytes is smaller than an operation of {largest} bytes - raise size or lower bs"
        ));
    }
    let stepped_bytes = job
        .stepped_bytes(len, device_bytes - start)
        .filter(|_| zones.is_none());
    let used_bytes = stepped_bytes.unwrap_or(used_bytes);
    let needs_alignment = job.direct || job.does[2];
    let min_io = u64::from(shape.min_io_bytes);
    let is_unaligned = |bytes: &u64| !bytes.is_multiple_of(min_io);
    let sizes = job.directions().flat_map(|direction| {
        job.sizes[direction]
            .each()
            .into_iter()
            .chain([job.align_bytes(direction)])
    });
    if let Some(bytes) = sizes
        .chain([start, unit, job.order.skip.unsigned_abs()])
        .find(|bytes| needs_alignment && is_unaligned(bytes))
    {
        return Err(format!(
            "{bytes} bytes are not a multiple of {min_io} bytes, to which direct I/O must be aligned - change bs, ba, offset or the step of rw, or set direct=0 to use the page cache"
        ));
    }
    let order = if !job.random {
        OffsetOrder::Sequential {
            skip: job.order.skip,
        }
    } else if job.has_map() {
        // The unit of a map is the smallest size of its own direction. A smaller unit could leave a gap too small for
        // an operation, and the operation would be truncated.
        let mut units = [0; DIRECTIONS];
        for direction in directions {
            units[*direction] = len / job.sizes[*direction].min_bytes();
        }
        OffsetOrder::Mapped(if job.shares_map(directions) {
            vec![RandomMap::new(units[directions[0]])]
        } else {
            units.map(RandomMap::new).into()
        })
    } else {
        let mut draws = vec![None; DIRECTIONS];
        for direction in job.directions() {
            let align = job.align_bytes(direction);
            // Number of aligned offsets at which the smallest operation fits.
            let blocks = (len - job.sizes[direction].min_bytes()) / align + 1;
            let draw =
                OffsetSampler::new(&job.order.distribution[direction], blocks, align, random)?;
            draws[direction] = Some((draw, align));
        }
        OffsetOrder::Drawn(draws)
    };
    // Pages of a mapping stay cached. For writes alone, dropping the pages would start their write-back: a check could
    // not see that only the page cache answered.
    let keeps_cache = job.direct
        || !job.does[READS]
        || job.files.keeps_cache
        || job.files.pre_reads
        || job.engine == EngineKind::Mapped
        || shape.name.starts_with(SIM_PREFIX);
    let cached_passes = (!keeps_cache).then(|| CachedPasses {
        path: shape.name.clone(),
        start,
        bytes: used_bytes,
        left_bytes: used_bytes,
    });
    Ok(Area {
        cached_passes,
        target: shape.target,
        buffers,
        key: shape.stamp_key,
        start,
        len,
        next_offsets: [0; DIRECTIONS],
        order,
        written_range: None,
        used_bytes,
        zones,
    })
}
