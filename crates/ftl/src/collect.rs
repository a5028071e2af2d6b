//! Garbage collection: the valid units of a victim are moved to an append point, then it is erased.

use crate::map::BATCH;
use crate::media::{Cause, Extent, Media};
use crate::{Append, Ftl, Isolation};

/// A superblock that is being collected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Collecting {
    pub(crate) superblock: u32,
    /// Units of the superblock that are examined so far.
    pub(crate) done: u32,
}

impl Ftl {
    /// [`Self::collect_on`] without an observer.
    pub fn collect(&mut self, units: u32) -> Option<u32> {
        self.collect_on(units, &mut ())
    }

    /// One step of garbage collection: moves up to `units` valid units of the victim, and erases it when none is
    /// left. Returns the units moved. With a shared append point a step can exceed `units`: if only the append point
    /// has space left, the victim is finished before the host takes that space. Returns none if no superblock has an
    /// invalid unit (FIFO: if none is closed).
    ///
    /// Writes collect when they must. Call this to collect earlier, best while [`Self::free_superblocks`] is slightly
    /// over the reserve: early collection moves more units.
    pub fn collect_on(&mut self, units: u32, media: &mut impl Media) -> Option<u32> {
        let mut victim = match self.victims.collecting.take() {
            Some(victim) => victim,
            None => Collecting { superblock: self.choose()?, done: 0 },
        };
        let mut moved = 0;
        while (moved < units || self.host_could_take_the_room()) && self.valid.of(victim.superblock) > 0 {
            moved += self.relocate(&mut victim, units.saturating_sub(moved).max(1), media);
        }
        if self.valid.of(victim.superblock) > 0 {
            self.victims.collecting = Some(victim);
        } else {
            self.free.push_back(victim.superblock);
            self.wear.erased(victim.superblock);
            self.erases += 1;
            media.erase(victim.superblock - 1);
        }
        Some(moved)
    }

    /// True if the host could fill the last append point, which it shares with garbage collection.
    fn host_could_take_the_room(&self) -> bool {
        self.spec.append == Append::Shared && self.free.is_empty()
    }

    /// Moves the valid units among the victim's next `units` units. Returns the number moved.
    fn relocate<M: Media>(&mut self, victim: &mut Collecting, units: u32, media: &mut M) -> u32 {
        let to = self.destination(self.owner[victim.superblock as usize]);
        if self.points[to].room() == 0 {
            self.open(to);
        }
        let (superblock, at) = (self.points[to].superblock, self.points[to].next);
        let left = self.map.per_superblock() - victim.done;
        let count = left.min(units).min(self.points[to].room()).min(BATCH as u32);
        let from = victim.superblock * self.map.per_superblock() + victim.done;
        let mut runs = Runs { superblock: victim.superblock - 1, next: 0, units: 0 };
        let moved = if M::LISTENS {
            let base = victim.superblock * self.map.per_superblock();
            let moved = self.map.relocate::<true>(from, count, at, |flash| runs.add(flash - base, media));
            runs.end(media);
            moved
        } else {
            self.map.relocate::<false>(from, count, at, |_| ())
        };
        victim.done += count;
        if moved > 0 {
            self.valid.remove(victim.superblock, moved);
            self.moved_units += u64::from(moved);
            let extent = self.extent(at, moved);
            self.appended(to, superblock, moved);
            media.program(extent, Cause::Collection);
        }
        moved
    }

    /// Append point for valid units moved out of a superblock of handle `owner`.
    fn destination(&self, owner: u16) -> usize {
        let (handles, owner) = (usize::from(self.spec.handles), usize::from(owner));
        let mixes = self.spec.firmware.mixes_handles;
        match self.spec.append {
            Append::Shared if mixes || self.spec.isolation == Isolation::Initially => 0,
            Append::Shared => owner,
            Append::Separate => handles,
            Append::PerHandle => handles + if mixes { 0 } else { owner },
        }
    }
}

/// Merges adjacent units that are read into extents.
struct Runs {
    superblock: u32,
    next: u32,
    units: u32,
}

impl Runs {
    fn add(&mut self, unit: u32, media: &mut impl Media) {
        if unit != self.next {
            self.end(media);
        }
        self.next = unit + 1;
        self.units += 1;
    }

    fn end(&mut self, media: &mut impl Media) {
        if self.units > 0 {
            media.read(Extent { superblock: self.superblock, first: self.next - self.units, units: self.units });
            self.units = 0;
        }
    }
}
