//! Garbage collection: chooses a victim, moves its valid units to an append point, then erases the victim.

use crate::drive::{FlashExtent, FlashObserver, ProgramCause};
use crate::map::BATCH;
use crate::spec::Victim;
use crate::victims::Collecting;
use crate::{Append, Ftl, Isolation};

impl Ftl {
    /// As [`Self::collect_on`], without an observer.
    pub fn collect(&mut self, units: u32) -> Option<u32> {
        self.collect_on(units, &mut ())
    }

    /// A step of garbage collection: moves up to `units` valid units of the victim, and erases the victim when no valid
    /// unit is left. Returns the number of units moved. With a shared append point a step can exceed `units`: if only
    /// the append point has space left, the victim is finished before the host takes that space. Returns `None` if no
    /// superblock has an invalid unit (FIFO: if no superblock is closed).
    ///
    /// Host writes collect when they need space. This function collects earlier, best while [`Self::free_superblocks`]
    /// is only slightly above the reserve: the earlier a victim is collected, the more valid units must be moved.
    pub fn collect_on(&mut self, units: u32, media: &mut impl FlashObserver) -> Option<u32> {
        let mut victim = match self.victims.collecting.take() {
            Some(victim) => victim,
            None => Collecting {
                superblock: self.choose()?,
                done_units: 0,
            },
        };
        let mut moved = 0;
        while (moved < units || self.host_could_fill_last_point())
            && self.valid.units_in(victim.superblock) > 0
        {
            moved += self.relocate(&mut victim, units.saturating_sub(moved).max(1), media);
        }
        if self.valid.units_in(victim.superblock) > 0 {
            self.victims.collecting = Some(victim);
        } else {
            self.free_list.push_back(victim.superblock);
            self.wear.erased(victim.superblock);
            self.erases += 1;
            media.erase(victim.superblock - 1);
        }
        Some(moved)
    }

    /// True if the host could fill the last open superblock, which the host shares with garbage collection.
    fn host_could_fill_last_point(&self) -> bool {
        self.spec.append == Append::Shared && self.free_list.is_empty()
    }

    /// Moves the valid units among the victim's next `units` units. Returns the number moved.
    fn relocate<M: FlashObserver>(
        &mut self,
        victim: &mut Collecting,
        units: u32,
        media: &mut M,
    ) -> u32 {
        let to_point = self.destination(self.owner[victim.superblock as usize]);
        if self.points[to_point].room() == 0 {
            self.open(to_point);
        }
        let superblock = self.points[to_point].superblock;
        let at = self.points[to_point].next_flash;
        let units_left = self.map.per_superblock() - victim.done_units;
        let count = units_left
            .min(units)
            .min(self.points[to_point].room())
            .min(BATCH as u32);
        let from_flash = victim.superblock * self.map.per_superblock() + victim.done_units;
        let mut runs = Runs {
            superblock: victim.superblock - 1,
            next_unit: 0,
            units: 0,
        };
        let moved = if M::LISTENS {
            let base = victim.superblock * self.map.per_superblock();
            let moved = self
                .map
                .relocate::<true>(from_flash, count, at, |flash| runs.add(flash - base, media));
            runs.end(media);
            moved
        } else {
            self.map.relocate::<false>(from_flash, count, at, |_| ())
        };
        victim.done_units += count;
        if moved > 0 {
            self.valid.remove(victim.superblock, moved);
            self.moved_units += u64::from(moved);
            let extent = self.extent(at, moved);
            self.appended(to_point, superblock, moved);
            media.program(extent, ProgramCause::Collection);
        }
        moved
    }

    /// Append point for valid units that are moved out of a superblock of handle `owner`.
    fn destination(&self, owner: u16) -> usize {
        let handles = usize::from(self.spec.handles);
        let owner = usize::from(owner);
        match self.spec.append {
            Append::Shared if self.spec.isolation == Isolation::Initially => 0,
            Append::Shared => owner,
            Append::Separate => handles,
            Append::PerHandle => handles + owner,
        }
    }
}

/// Merges adjacent units, which garbage collection reads, into extents.
struct Runs {
    superblock: u32,
    next_unit: u32,
    units: u32,
}

impl Runs {
    fn add(&mut self, unit: u32, media: &mut impl FlashObserver) {
        if unit != self.next_unit {
            self.end(media);
        }
        self.next_unit = unit + 1;
        self.units += 1;
    }

    fn end(&mut self, media: &mut impl FlashObserver) {
        if self.units > 0 {
            let units = std::mem::take(&mut self.units);
            media.read(FlashExtent {
                superblock: self.superblock,
                first_unit: self.next_unit - units,
                units,
            });
        }
    }
}

/// Maximum number of d-choices draws. If all draws find only fully valid superblocks, the greedy victim is taken.
const DRAWS: usize = 16;

impl Ftl {
    /// Chooses and takes the next victim; `None` if collection would free no space.
    pub(crate) fn choose(&mut self) -> Option<u32> {
        let levelling = self.least_worn();
        self.victims.levelled = levelling.is_some();
        let victim = levelling.or_else(|| self.by_policy())?;
        self.valid.take(victim);
        Some(victim)
    }

    fn by_policy(&mut self) -> Option<u32> {
        match self.spec.victim {
            Victim::Greedy => self.greedy(),
            Victim::Fifo => self.oldest(),
            Victim::CostBenefit => self.most_benefit(),
            Victim::Choices(choices) => self.best_of(choices).or_else(|| self.greedy()),
        }
    }

    fn greedy(&mut self) -> Option<u32> {
        self.valid
            .fewest()
            .filter(|&(_, valid)| valid < self.map.per_superblock())
            .map(|(superblock, _)| superblock)
    }

    fn oldest(&mut self) -> Option<u32> {
        loop {
            let (superblock, filled_at) = self.victims.order.pop_front()?;
            // Skips stale entries: a superblock collected out of turn may be closed again, with a newer entry.
            if self.valid.is_closed(superblock)
                && self.victims.filled_at[superblock as usize] == filled_at
            {
                return Some(superblock);
            }
        }
    }

    /// Scans all superblocks, because all ages change with every write.
    fn most_benefit(&self) -> Option<u32> {
        let unit_total = self.map.per_superblock();
        let now_units = self.host_units + self.moved_units;
        let with_gain = self.valid.closed().filter(|&(_, valid)| valid < unit_total);
        with_gain
            .map(|(superblock, valid): (u32, u32)| {
                let valid_share = f64::from(valid) / f64::from(unit_total);
                let age = (now_units - self.victims.filled_at[superblock as usize] + 1) as f64;
                (superblock, (1.0 - valid_share) / (2.0 * valid_share) * age)
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(superblock, _)| superblock)
    }

    fn best_of(&mut self, choices: u32) -> Option<u32> {
        let superblocks = u64::from(self.superblocks());
        for _ in 0..DRAWS {
            let drawn = (0..choices).map(|_| self.random.below(superblocks) as u32 + 1);
            let closed = drawn.filter(|&superblock| self.valid.is_closed(superblock));
            let best = closed
                .map(|superblock| (self.valid.units_in(superblock), superblock))
                .min();
            if let Some((valid, superblock)) = best
                && valid < self.map.per_superblock()
            {
                return Some(superblock);
            }
        }
        None
    }

    /// Wear levelling: the least worn superblock, if its gap to the most worn exceeds the limit. At most every second
    /// victim is chosen this way, because collection must also free space.
    fn least_worn(&self) -> Option<u32> {
        let gap = self.spec.wear_gap?;
        if self.victims.levelled || self.wear.gap() <= gap {
            return None;
        }
        let (&most_erases, _) = self.wear.histogram().last_key_value()?;
        let candidate = self
            .valid
            .closed()
            .map(|(superblock, _)| superblock)
            .min_by_key(|&superblock| self.wear.erases_of(superblock))?;
        (most_erases - self.wear.erases_of(candidate) > gap).then_some(candidate)
    }
}
