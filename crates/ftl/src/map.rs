//! The map between host units and flash units; for each superblock, the numbers of valid units and of erases.
//!
//! Validity is not stored: a flash unit is valid if its host unit maps to it. So an overwrite accesses only one random
//! entry. Garbage collection looks up the host unit of each unit of its victim, with many of these loads in flight at
//! once. Superblock 0 is not part of the drive: its unit 0 means "not written".
//!
//! The number of valid units of a closed superblock only falls. So an overwrite needs only one comparison, which is
//! almost never true, to update the minimum of a group of 256 superblocks. To find the overall minimum, the group
//! minima and one group are scanned. An overwrite moves no entry between lists.

use std::collections::BTreeMap;

/// Flash unit of an unmapped host unit.
const NOWHERE: u32 = 0;

/// Number of units that garbage collection examines at once.
pub(crate) const BATCH: usize = 256;

#[derive(Clone, PartialEq)]
pub(crate) struct UnitMap {
    /// By host unit: its flash unit.
    flash_of: Vec<u32>,
    /// By flash unit: the host unit last written there, valid or not.
    host_of: Vec<u32>,
    per_superblock: u32,
    /// 2^64 / `per_superblock`, rounded up: a division by multiplication, exact for 32 bits (Lemire, Kaser, Kurz,
    /// "Faster remainder by direct computation", 2019).
    reciprocal: u64,
}

impl UnitMap {
    /// `superblocks`: number of superblocks, without superblock 0.
    pub(crate) fn new(units: u32, superblocks: u32, per_superblock: u32) -> Self {
        // Zeroed memory costs nothing until it is written to.
        let map = Self {
            flash_of: vec![NOWHERE; units as usize],
            host_of: vec![0; (superblocks as usize + 1) * per_superblock as usize],
            per_superblock,
            reciprocal: u64::MAX / u64::from(per_superblock) + 1,
        };
        sys::buffer::advise_huge_pages(&map.flash_of);
        sys::buffer::advise_huge_pages(&map.host_of);
        map
    }

    pub(crate) fn units(&self) -> u32 {
        self.flash_of.len() as u32
    }

    pub(crate) fn per_superblock(&self) -> u32 {
        self.per_superblock
    }

    #[inline]
    pub(crate) fn superblock_of(&self, flash: u32) -> u32 {
        ((u128::from(flash) * u128::from(self.reciprocal)) >> 64) as u32
    }

    pub(crate) fn flash_of(&self, unit: u32) -> Option<u32> {
        Some(self.flash_of[unit as usize]).filter(|&flash| flash != NOWHERE)
    }

    /// Maps `count` units from `unit` on to `flash` on. `release` gets each unit's old superblock; 0 if unmapped.
    #[inline]
    pub(crate) fn write(
        &mut self,
        unit: u32,
        flash: u32,
        count: u32,
        mut release: impl FnMut(u32),
    ) {
        let reciprocal = self.reciprocal;
        let first = flash as usize;
        let flash_slots = &mut self.flash_of[unit as usize..][..count as usize];
        let host_slots = &mut self.host_of[first..][..count as usize];
        for ((place, content), index) in flash_slots.iter_mut().zip(host_slots).zip(0..) {
            release(((u128::from(*place) * u128::from(reciprocal)) >> 64) as u32);
            *place = flash + index;
            *content = unit + index;
        }
    }

    /// Prefetches the map entries of units. The loads are independent of each other, so many are in flight at once.
    pub(crate) fn load(&self, units: &[u32]) {
        let entries = units
            .iter()
            .filter_map(|&unit| self.flash_of.get(unit as usize));
        std::hint::black_box(entries.fold(0, |any, &flash| any | flash));
    }

    /// Unmaps a host unit. Returns its previous superblock; 0 if the unit was not mapped.
    pub(crate) fn forget(&mut self, unit: u32) -> u32 {
        let place = std::mem::replace(&mut self.flash_of[unit as usize], NOWHERE);
        self.superblock_of(place)
    }

    /// Moves the valid units among `count` flash units, from `from_flash` on, to consecutive flash units, from
    /// `to_flash` on. Returns the number of moved units. If `LISTENS`, `on_read` gets each moved unit.
    #[inline]
    pub(crate) fn relocate<const LISTENS: bool>(
        &mut self,
        from_flash: u32,
        count: u32,
        to_flash: u32,
        mut on_read: impl FnMut(u32),
    ) -> u32 {
        debug_assert!(count as usize <= BATCH);
        self.load(&self.host_of[from_flash as usize..][..count as usize]);
        // The loop has no branch on validity, which would be unpredictable, and no dependent loads.
        let mut units = [0_u32; BATCH];
        let mut valid = 0;
        for (&unit, flash) in self.host_of[from_flash as usize..][..count as usize]
            .iter()
            .zip(from_flash..)
        {
            let lies_here = self.flash_of[unit as usize] == flash;
            units[valid % BATCH] = unit;
            valid += usize::from(lies_here);
            if LISTENS && lies_here {
                on_read(flash);
            }
        }
        let units = &units[..valid];
        self.host_of[to_flash as usize..][..valid].copy_from_slice(units);
        for (&unit, flash) in units.iter().zip(to_flash..) {
            self.flash_of[unit as usize] = flash;
        }
        valid as u32
    }

    pub(crate) fn count_valid(&self, superblock: u32, written: u32) -> u32 {
        let first = superblock * self.per_superblock;
        (first..first + written)
            .filter(|&flash| self.flash_of[self.host_of[flash as usize] as usize] == flash)
            .count() as u32
    }
}

/// Bit in the count of a superblock that must not be collected: free, open, being collected, or superblock 0.
const NOT_CLOSED: u32 = 1 << 31;

const GROUP: usize = 256;

/// Number of valid units of each superblock.
#[derive(Clone, PartialEq)]
pub(crate) struct Valid {
    /// By superblock: number of valid units, with the bit [`NOT_CLOSED`] unless the superblock is closed.
    counts: Vec<u32>,
    group_minima: Vec<u32>,
    /// First group of the next search: after the last victim's group, so that groups with equal minima take turns.
    next_group: usize,
}

impl Valid {
    pub(crate) fn new(superblocks: u32) -> Self {
        let counts = vec![NOT_CLOSED; superblocks as usize + 1];
        let group_minima = vec![u32::MAX; counts.len().div_ceil(GROUP)];
        Self {
            counts,
            group_minima,
            next_group: 0,
        }
    }

    #[inline]
    pub(crate) fn units_in(&self, superblock: u32) -> u32 {
        self.counts[superblock as usize] & !NOT_CLOSED
    }

    /// True if the superblock is full and not being collected.
    #[inline]
    pub(crate) fn is_closed(&self, superblock: u32) -> bool {
        self.counts[superblock as usize] & NOT_CLOSED == 0
    }

    #[inline]
    pub(crate) fn add(&mut self, superblock: u32, units: u32) {
        self.counts[superblock as usize] += units;
    }

    /// Removes one valid unit. No effect for superblock 0, which stands for unmapped units.
    #[inline]
    pub(crate) fn remove_one(&mut self, superblock: u32) {
        let count = &mut self.counts[superblock as usize];
        *count -= u32::from(superblock != 0);
        let group_minimum = &mut self.group_minima[superblock as usize / GROUP];
        if *count < *group_minimum {
            *group_minimum = *count;
        }
    }

    /// Removes units that were moved out of a superblock being collected.
    pub(crate) fn remove(&mut self, superblock: u32, units: u32) {
        debug_assert!(!self.is_closed(superblock));
        self.counts[superblock as usize] -= units;
    }

    pub(crate) fn close(&mut self, superblock: u32) {
        self.counts[superblock as usize] &= !NOT_CLOSED;
        let group_minimum = &mut self.group_minima[superblock as usize / GROUP];
        *group_minimum = self.counts[superblock as usize].min(*group_minimum);
    }

    pub(crate) fn take(&mut self, superblock: u32) {
        self.counts[superblock as usize] |= NOT_CLOSED;
        let group = superblock as usize / GROUP;
        self.group_minima[group] = self.group(group).iter().copied().min().unwrap_or(u32::MAX);
    }

    /// The closed superblock with the fewest valid units, and the number of these units.
    pub(crate) fn fewest(&mut self) -> Option<(u32, u32)> {
        let minimum = self.group_minima.iter().copied().min()?;
        if minimum >= NOT_CLOSED {
            return None;
        }
        let from_hand = self.group_minima[self.next_group..]
            .iter()
            .position(|&of_group| of_group == minimum);
        let group = from_hand.map(|at| at + self.next_group).or_else(|| {
            self.group_minima
                .iter()
                .position(|&of_group| of_group == minimum)
        })?;
        self.next_group = (group + 1) % self.group_minima.len();
        let index = self
            .group(group)
            .iter()
            .position(|&count| count == minimum)?;
        Some(((group * GROUP + index) as u32, minimum))
    }

    fn group(&self, group: usize) -> &[u32] {
        let end = ((group + 1) * GROUP).min(self.counts.len());
        &self.counts[group * GROUP..end]
    }

    pub(crate) fn closed(&self) -> impl Iterator<Item = (u32, u32)> {
        self.counts
            .iter()
            .zip(0..)
            .filter(|(count, _)| **count < NOT_CLOSED)
            .map(|(&count, superblock)| (superblock, count))
    }

    pub(crate) fn total(&self) -> u64 {
        (1..self.counts.len() as u32)
            .map(|superblock| u64::from(self.units_in(superblock)))
            .sum()
    }
}

/// Number of erases of each superblock.
#[derive(Clone, PartialEq)]
pub(crate) struct Wear {
    erases: Vec<u32>,
    /// Number of superblocks for each number of erases.
    histogram: BTreeMap<u32, u32>,
}

impl Wear {
    pub(crate) fn new(superblocks: u32) -> Self {
        Self {
            erases: vec![0; superblocks as usize + 1],
            histogram: BTreeMap::from([(0, superblocks)]),
        }
    }

    pub(crate) fn erases_of(&self, superblock: u32) -> u32 {
        self.erases[superblock as usize]
    }

    pub(crate) fn histogram(&self) -> &BTreeMap<u32, u32> {
        &self.histogram
    }

    /// Difference in erases between the most worn and the least worn superblock.
    pub(crate) fn gap(&self) -> u32 {
        let least = self
            .histogram
            .first_key_value()
            .map_or(0, |(&erases, _)| erases);
        self.histogram
            .last_key_value()
            .map_or(0, |(&erases, _)| erases - least)
    }

    pub(crate) fn erased(&mut self, superblock: u32) {
        let erases = &mut self.erases[superblock as usize];
        if let Some(before) = self.histogram.get_mut(erases) {
            *before -= 1;
            if *before == 0 {
                self.histogram.remove(erases);
            }
        }
        *erases += 1;
        *self.histogram.entry(*erases).or_default() += 1;
    }
}
