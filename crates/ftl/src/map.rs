//! The map of host units to flash units and back; of each superblock, the number of valid units and of erases.
//!
//! Nothing else records validity: a flash unit is valid if its host unit maps to it. So an overwrite touches one
//! random entry, and garbage collection, which checks each unit of its victim, has many such loads in flight at once.
//! Superblock 0 is not part of the drive: its unit 0 means "not written".
//!
//! The count of valid units of a closed superblock only falls. So an overwrite updates the minimum of its group of 256
//! with one comparison, which is almost never true. The overall minimum needs a scan of the group minima and of one
//! group. No list is relinked on an overwrite.

use std::collections::BTreeMap;

/// Flash unit of an unmapped host unit.
const NOWHERE: u32 = 0;

/// Units that garbage collection examines at once.
pub(crate) const BATCH: usize = 256;

#[derive(Clone, PartialEq)]
pub(crate) struct Map {
    /// By host unit: its flash unit.
    flash_of: Vec<u32>,
    /// By flash unit: the host unit last written there, valid or not.
    host_of: Vec<u32>,
    /// Units per superblock.
    per_superblock: u32,
    /// 2^64 / `per_superblock`, rounded up: a division by multiplication, exact for 32 bits (Lemire, Kaser, Kurz,
    /// "Faster remainder by direct computation", 2019).
    reciprocal: u64,
}

impl Map {
    /// `superblocks`: their number on the drive, without superblock 0.
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

    /// Superblock of a flash unit.
    #[inline]
    pub(crate) fn superblock_of(&self, flash: u32) -> u32 {
        ((u128::from(flash) * u128::from(self.reciprocal)) >> 64) as u32
    }

    /// Flash unit of a host unit, if it was written.
    pub(crate) fn flash_of(&self, unit: u32) -> Option<u32> {
        Some(self.flash_of[unit as usize]).filter(|&flash| flash != NOWHERE)
    }

    /// Maps `count` host units from `unit` on to flash units from `flash` on. `left` gets the superblock that each
    /// unit was in before; 0 if it was not mapped.
    #[inline]
    pub(crate) fn write(&mut self, unit: u32, flash: u32, count: u32, mut left: impl FnMut(u32)) {
        let (reciprocal, first) = (self.reciprocal, flash as usize);
        let places = &mut self.flash_of[unit as usize..][..count as usize];
        let contents = &mut self.host_of[first..][..count as usize];
        for ((place, content), index) in places.iter_mut().zip(contents).zip(0..) {
            left(((u128::from(*place) * u128::from(reciprocal)) >> 64) as u32);
            *place = flash + index;
            *content = unit + index;
        }
    }

    /// Prefetches the map entries of units. The loads are independent of each other, so many are in flight at once.
    pub(crate) fn load(&self, units: &[u32]) {
        let entries = units.iter().filter_map(|&unit| self.flash_of.get(unit as usize));
        std::hint::black_box(entries.fold(0, |any, &flash| any | flash));
    }

    /// Unmaps a host unit. Returns the superblock it was in, or 0.
    pub(crate) fn forget(&mut self, unit: u32) -> u32 {
        let place = std::mem::replace(&mut self.flash_of[unit as usize], NOWHERE);
        self.superblock_of(place)
    }

    /// Moves the valid units among `count` flash units from `from` on to consecutive units from `to` on. Returns the
    /// number moved. `read` gets each of them, if `LISTENS`.
    #[inline]
    pub(crate) fn relocate<const LISTENS: bool>(
        &mut self,
        from: u32,
        count: u32,
        to: u32,
        mut read: impl FnMut(u32),
    ) -> u32 {
        debug_assert!(count as usize <= BATCH);
        self.load(&self.host_of[from as usize..][..count as usize]);
        // No branch on validity, which is unpredictable; and no load depends on an earlier one.
        let mut units = [0_u32; BATCH];
        let mut valid = 0;
        for (&unit, flash) in self.host_of[from as usize..][..count as usize].iter().zip(from..) {
            let lies_here = self.flash_of[unit as usize] == flash;
            units[valid % BATCH] = unit;
            valid += usize::from(lies_here);
            if LISTENS && lies_here {
                read(flash);
            }
        }
        let units = &units[..valid];
        self.host_of[to as usize..][..valid].copy_from_slice(units);
        for (&unit, flash) in units.iter().zip(to..) {
            self.flash_of[unit as usize] = flash;
        }
        valid as u32
    }

    /// Valid units of a superblock, counted one by one.
    pub(crate) fn count_valid(&self, superblock: u32, written: u32) -> u32 {
        let first = superblock * self.per_superblock;
        (first..first + written).filter(|&flash| self.flash_of[self.host_of[flash as usize] as usize] == flash).count()
            as u32
    }
}

/// Marks the count of a superblock that must not be collected: free, open, being collected, or number 0.
const NOT_CLOSED: u32 = 1 << 31;

/// Superblocks of a group.
const GROUP: usize = 256;

/// Valid units by superblock.
#[derive(Clone, PartialEq)]
pub(crate) struct Valid {
    /// Valid units, with the bit [`NOT_CLOSED`] unless the superblock is closed.
    counts: Vec<u32>,
    /// Minimum of each group.
    least: Vec<u32>,
    /// First group of the next search, one after the last victim's: superblocks with equal counts take turns.
    hand: usize,
}

impl Valid {
    pub(crate) fn new(superblocks: u32) -> Self {
        let counts = vec![NOT_CLOSED; superblocks as usize + 1];
        let least = vec![u32::MAX; counts.len().div_ceil(GROUP)];
        Self { counts, least, hand: 0 }
    }

    /// Valid units of a superblock.
    #[inline]
    pub(crate) fn of(&self, superblock: u32) -> u32 {
        self.counts[superblock as usize] & !NOT_CLOSED
    }

    /// True if the superblock is full and was not collected.
    #[inline]
    pub(crate) fn is_closed(&self, superblock: u32) -> bool {
        self.counts[superblock as usize] & NOT_CLOSED == 0
    }

    /// Adds units written to the superblock.
    #[inline]
    pub(crate) fn add(&mut self, superblock: u32, units: u32) {
        self.counts[superblock as usize] += units;
    }

    /// Invalidates one unit. Superblock 0 has no count: it stands for unwritten units.
    #[inline]
    pub(crate) fn remove_one(&mut self, superblock: u32) {
        let count = &mut self.counts[superblock as usize];
        // Superblock 0 keeps the mark: its count never changes.
        *count -= u32::from(superblock != 0);
        let least = &mut self.least[superblock as usize / GROUP];
        if *count < *least {
            *least = *count;
        }
    }

    /// Records that units were moved out of a superblock that is being collected.
    pub(crate) fn remove(&mut self, superblock: u32, units: u32) {
        debug_assert!(!self.is_closed(superblock));
        self.counts[superblock as usize] -= units;
    }

    /// Marks the superblock as full: it can be collected from now on.
    pub(crate) fn close(&mut self, superblock: u32) {
        self.counts[superblock as usize] &= !NOT_CLOSED;
        let least = &mut self.least[superblock as usize / GROUP];
        *least = self.counts[superblock as usize].min(*least);
    }

    /// Marks the superblock as being collected.
    pub(crate) fn take(&mut self, superblock: u32) {
        self.counts[superblock as usize] |= NOT_CLOSED;
        let group = superblock as usize / GROUP;
        self.least[group] = self.group(group).iter().copied().min().unwrap_or(u32::MAX);
    }

    /// The closed superblock with the fewest valid units, and their number.
    pub(crate) fn fewest(&mut self) -> Option<(u32, u32)> {
        let least = self.least.iter().copied().min()?;
        if least >= NOT_CLOSED {
            return None;
        }
        let from_hand = self.least[self.hand..].iter().position(|&of_group| of_group == least);
        let group =
            from_hand.map(|at| at + self.hand).or_else(|| self.least.iter().position(|&of_group| of_group == least))?;
        self.hand = (group + 1) % self.least.len();
        let at = self.group(group).iter().position(|&count| count == least)?;
        Some(((group * GROUP + at) as u32, least))
    }

    fn group(&self, group: usize) -> &[u32] {
        let end = ((group + 1) * GROUP).min(self.counts.len());
        &self.counts[group * GROUP..end]
    }

    /// The closed superblocks and their counts.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (u32, u32)> {
        self.counts
            .iter()
            .zip(0..)
            .filter(|(count, _)| **count < NOT_CLOSED)
            .map(|(&count, superblock)| (superblock, count))
    }

    /// Valid units of the whole drive.
    pub(crate) fn total(&self) -> u64 {
        (1..self.counts.len() as u32).map(|superblock| u64::from(self.of(superblock))).sum()
    }
}

/// Erases by superblock.
#[derive(Clone, PartialEq)]
pub(crate) struct Wear {
    erases: Vec<u32>,
    /// Number of superblocks by number of erases.
    histogram: BTreeMap<u32, u32>,
}

impl Wear {
    pub(crate) fn new(superblocks: u32) -> Self {
        Self { erases: vec![0; superblocks as usize + 1], histogram: BTreeMap::from([(0, superblocks)]) }
    }

    pub(crate) fn of(&self, superblock: u32) -> u32 {
        self.erases[superblock as usize]
    }

    pub(crate) fn histogram(&self) -> &BTreeMap<u32, u32> {
        &self.histogram
    }

    /// Erases of the most worn superblock minus those of the least worn.
    pub(crate) fn gap(&self) -> u32 {
        let least = self.histogram.first_key_value().map_or(0, |(&erases, _)| erases);
        self.histogram.last_key_value().map_or(0, |(&erases, _)| erases - least)
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
