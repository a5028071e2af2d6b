//! The drive: host commands, the observer of flash operations, and a check that recounts every unit.

use crate::map::{UnitMap, Valid, Wear};
use crate::spec::{Spec, SpecError};
use crate::victims::Victims;
use results::bytes_written::WrittenBytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use sys::random::Random;

/// A flash translation layer: page-mapped, with superblocks that are erased as a whole. Host units are numbered from 0.
/// The state depends only on the [`Spec`], the seed and the calls so far.
#[derive(Clone, PartialEq)]
pub struct Ftl {
    pub(crate) spec: Spec,
    pub(crate) map: UnitMap,
    pub(crate) valid: Valid,
    /// Erased superblocks, in the order of their use.
    pub(crate) free_list: VecDeque<u32>,
    /// Append points of the host's handles, then the append points of garbage collection.
    pub(crate) points: Vec<AppendPoint>,
    /// By superblock: the handle that wrote its units.
    pub(crate) owner: Vec<u16>,
    pub(crate) victims: Victims,
    pub(crate) wear: Wear,
    pub(crate) random: Random,
    pub(crate) host_units: u64,
    pub(crate) moved_units: u64,
    pub(crate) erases: u64,
}

/// Append point: a superblock that is being filled.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AppendPoint {
    /// Open superblock; 0 if there is none, or if the last one is full.
    pub(crate) superblock: u32,
    pub(crate) next_flash: u32,
    /// End of the superblock: the flash unit behind its last unit.
    pub(crate) end_flash: u32,
}

impl AppendPoint {
    pub(crate) fn room(&self) -> u32 {
        self.end_flash - self.next_flash
    }
}

impl Ftl {
    /// An unwritten drive.
    pub fn new(spec: &Spec, seed: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let per_superblock = (spec.superblock_bytes / u64::from(spec.unit_bytes)) as u32;
        let units = (spec.logical_bytes / u64::from(spec.unit_bytes)) as u32;
        let superblocks = spec.superblocks() as u32;
        let handles = usize::from(spec.handles);
        Ok(Self {
            spec: spec.clone(),
            map: UnitMap::new(units, superblocks, per_superblock),
            valid: Valid::new(superblocks),
            free_list: (1..=superblocks).collect(),
            points: vec![AppendPoint::default(); handles + spec.collection_points() as usize],
            owner: vec![0; superblocks as usize + 1],
            victims: Victims::new(superblocks),
            wear: Wear::new(superblocks),
            random: Random::new(seed),
            host_units: 0,
            moved_units: 0,
            erases: 0,
        })
    }

    /// As [`Self::write_on`], without an observer.
    #[inline]
    pub fn write(&mut self, first_unit: u64, units: u32, handle: u16) {
        self.write_on(first_unit, units, handle, &mut ());
    }

    /// Writes `units` host units from `first_unit` on. An unknown handle counts as the first handle. If only the
    /// reserve is free, garbage collection first frees another superblock. Panics if the units exceed the drive's
    /// capacity.
    #[inline]
    pub fn write_on(
        &mut self,
        first_unit: u64,
        units: u32,
        handle: u16,
        media: &mut impl FlashObserver,
    ) {
        self.check_range(first_unit, units);
        let handle = self.point_of(handle);
        let mut unit = first_unit as u32;
        let end = first_unit as u32 + units;
        while unit < end {
            if self.points[handle].room() == 0 {
                self.make_room(handle, media);
            }
            let point = &mut self.points[handle];
            let superblock = point.superblock;
            let at = point.next_flash;
            let count = point.room().min(end - unit);
            self.map
                .write(unit, at, count, |left| self.valid.remove_one(left));
            self.host_units += u64::from(count);
            self.appended(handle, superblock, count);
            media.program(self.extent(at, count), ProgramCause::Host);
            unit += count;
        }
    }

    /// Writes single random units as [`Self::write`], but several times as fast: map entries are prefetched in batches.
    pub fn write_each(&mut self, units: &[u32], handle: u16) {
        for batch in units.chunks(64) {
            self.map.load(batch);
            for &unit in batch {
                self.write(u64::from(unit), 1, handle);
            }
        }
    }

    /// Deallocates `units` host units (NVMe: deallocate; ATA: TRIM). Panics if the units exceed the drive's capacity.
    pub fn deallocate(&mut self, first_unit: u64, units: u32) {
        self.check_range(first_unit, units);
        for unit in first_unit as u32..first_unit as u32 + units {
            let old_superblock = self.map.forget(unit);
            self.valid.remove_one(old_superblock);
        }
    }

    #[inline]
    fn point_of(&self, handle: u16) -> usize {
        if handle < self.spec.handles {
            usize::from(handle)
        } else {
            0
        }
    }

    #[inline]
    fn check_range(&self, first_unit: u64, units: u32) {
        let drive_units = u64::from(self.map.units());
        assert!(
            first_unit <= drive_units && u64::from(units) <= drive_units - first_unit,
            "units {first_unit} + {units} of a drive of {drive_units}"
        );
    }

    /// Opens a superblock for the append point, after garbage collection if only the reserve is free.
    #[cold]
    fn make_room(&mut self, point: usize, media: &mut impl FlashObserver) {
        // Garbage collection may also open a superblock for this append point.
        while self.points[point].room() == 0 {
            if self.free_list.len() > self.spec.reserve_superblocks as usize {
                self.open(point);
            } else {
                self.collect_on(u32::MAX, media)
                    .expect("a superblock with an invalid unit, see Spec::check");
            }
        }
    }

    pub(crate) fn open(&mut self, point: usize) {
        let superblock = self
            .free_list
            .pop_front()
            .expect("the reserve has a superblock for garbage collection");
        let first_flash = superblock * self.map.per_superblock();
        self.points[point] = AppendPoint {
            superblock,
            next_flash: first_flash,
            end_flash: first_flash + self.map.per_superblock(),
        };
        self.owner[superblock as usize] = (point % usize::from(self.spec.handles)) as u16;
    }

    #[inline]
    pub(crate) fn appended(&mut self, point: usize, superblock: u32, units: u32) {
        self.valid.add(superblock, units);
        let point = &mut self.points[point];
        point.next_flash += units;
        if point.next_flash == point.end_flash {
            *point = AppendPoint::default();
            self.valid.close(superblock);
            self.victims.filled(
                superblock,
                self.host_units + self.moved_units,
                self.spec.victim,
            );
        }
    }

    #[inline]
    pub(crate) fn extent(&self, flash: u32, units: u32) -> FlashExtent {
        let superblock = self.map.superblock_of(flash);
        FlashExtent {
            superblock: superblock - 1,
            first_unit: flash - superblock * self.map.per_superblock(),
            units,
        }
    }

    /// Position of a host unit in the flash; `None` if the unit is not mapped.
    pub fn locate(&self, unit: u64) -> Option<FlashExtent> {
        self.check_range(unit, 1);
        self.map
            .flash_of(unit as u32)
            .map(|flash| self.extent(flash, 1))
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Units of the logical space.
    pub fn units(&self) -> u64 {
        u64::from(self.map.units())
    }

    pub fn mapped_units(&self) -> u64 {
        self.valid.total()
    }

    /// Valid units of each superblock that is full and not being collected.
    pub fn valid_units(&self) -> impl Iterator<Item = u32> {
        self.valid.closed().map(|(_, valid)| valid)
    }

    pub fn superblock_units(&self) -> u32 {
        self.map.per_superblock()
    }

    /// Free units in the superblock that is open for a handle.
    #[inline]
    pub fn room(&self, handle: u16) -> u32 {
        self.points[self.point_of(handle)].room()
    }

    pub fn superblocks(&self) -> u32 {
        self.owner.len() as u32 - 1
    }

    /// Erased superblocks, including the reserve, which host writes cannot use.
    pub fn free_superblocks(&self) -> u32 {
        self.free_list.len() as u32
    }

    /// Over-provisioning, (T - U) / U, where T is all flash, in whole superblocks, and U is the logical size.
    pub fn over_provisioning(&self) -> f64 {
        f64::from(self.superblocks()) * self.spec.superblock_bytes as f64
            / self.spec.logical_bytes as f64
            - 1.0
    }

    /// Counters since the drive was created.
    pub fn counters(&self) -> WrittenBytes {
        let unit_bytes = u64::from(self.spec.unit_bytes);
        WrittenBytes {
            host: self.host_units * unit_bytes,
            media: (self.host_units + self.moved_units) * unit_bytes,
            erased: self.erases * self.spec.superblock_bytes,
        }
    }

    /// Number of superblocks for each number of erases.
    pub fn erase_histogram(&self) -> &BTreeMap<u32, u32> {
        self.wear.histogram()
    }
}

impl Ftl {
    /// Recounts every unit of the drive. Errors: the first inconsistency.
    ///
    /// - Each mapped unit is in one superblock, and the number of valid units of each superblock matches its count.
    /// - Each superblock is free, open, closed or being collected.
    /// - Units programmed = units erased + units still in place.
    pub fn check(&self) -> Result<(), String> {
        let per_superblock = self.map.per_superblock();
        let mut mapped = 0;
        let mut by_superblock = vec![0_u32; self.owner.len()];
        for unit in 0..self.map.units() {
            if let Some(flash) = self.map.flash_of(unit) {
                mapped += 1;
                by_superblock[self.map.superblock_of(flash) as usize] += 1;
            }
        }
        let free: BTreeSet<u32> = self.free_list.iter().copied().collect();
        if free.len() != self.free_list.len() {
            return Err("a superblock is in the free list twice".to_owned());
        }
        let mut programmed = self.erases * u64::from(per_superblock);
        let mut erases = 0_u64;
        for superblock in 1..=self.superblocks() {
            let is_free = free.contains(&superblock);
            let written = if is_free { 0 } else { self.written(superblock) };
            programmed += u64::from(written);
            let counted = self.map.count_valid(superblock, written);
            let valid = self.valid.units_in(superblock);
            if counted != valid || counted != by_superblock[superblock as usize] {
                let mapped = by_superblock[superblock as usize];
                return Err(format!(
                    "superblock {superblock}: its counter says {valid} valid units, a scan finds {counted}, the map has {mapped}"
                ));
            }
            let states = [
                is_free,
                self.is_open(superblock),
                self.is_collecting(superblock),
            ];
            if states.iter().filter(|&&is| is).count()
                + usize::from(self.valid.is_closed(superblock))
                != 1
            {
                return Err(format!(
                    "superblock {superblock} must be in one state; free, open, collected: {states:?}"
                ));
            }
            erases += u64::from(self.wear.erases_of(superblock));
        }
        if mapped != self.mapped_units() {
            return Err(format!(
                "{mapped} units mapped, but {} valid",
                self.mapped_units()
            ));
        }
        if programmed != self.host_units + self.moved_units {
            let host = self.host_units;
            let moved = self.moved_units;
            return Err(format!(
                "{host} units written and {moved} moved, but {programmed} programmed"
            ));
        }
        if erases != self.erases {
            return Err(format!(
                "{} erases of the drive, but {erases} summed over superblocks",
                self.erases
            ));
        }
        Ok(())
    }

    fn is_open(&self, superblock: u32) -> bool {
        self.points
            .iter()
            .any(|point| point.superblock == superblock)
    }

    fn is_collecting(&self, superblock: u32) -> bool {
        self.victims
            .collecting
            .is_some_and(|collecting| collecting.superblock == superblock)
    }

    /// Units programmed in an open or full superblock since its erase.
    fn written(&self, superblock: u32) -> u32 {
        let open = self
            .points
            .iter()
            .find(|point| point.superblock == superblock);
        self.map.per_superblock() - open.map_or(0, |point| point.room())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramCause {
    Host,
    /// Garbage collection or wear levelling.
    Collection,
}

/// Consecutive units of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashExtent {
    /// Number of the superblock, from 0.
    pub superblock: u32,
    /// First unit in the superblock, from 0.
    pub first_unit: u32,
    pub units: u32,
}

/// Observer of the flash operations, in their order. `()` ignores them at no cost.
pub trait FlashObserver {
    /// False: the observer ignores all operations, so the extents of reads are not computed.
    const LISTENS: bool = true;

    fn program(&mut self, extent: FlashExtent, cause: ProgramCause);

    /// Garbage collection read valid units.
    fn read(&mut self, extent: FlashExtent);

    fn erase(&mut self, superblock: u32);
}

impl FlashObserver for () {
    const LISTENS: bool = false;

    fn program(&mut self, _: FlashExtent, _: ProgramCause) {}

    fn read(&mut self, _: FlashExtent) {}

    fn erase(&mut self, _: u32) {}
}
