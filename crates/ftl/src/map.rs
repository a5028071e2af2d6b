//! Maps the host's units to units of the flash, and back.
//!
//! Nothing else records validity: a unit of the flash is valid if the map of its host unit points to it. So an
//! overwrite touches one entry at random, and garbage collection, which asks for each unit of its victim, has many such
//! loads in flight at once. Superblock 0 is not part of the drive: unit 0 of it means "not written".

/// Number of a unit of the flash that holds nothing: what an unmapped unit of the host maps to.
const NOWHERE: u32 = 0;

/// Units that garbage collection examines at once.
pub(crate) const BATCH: usize = 256;

#[derive(Clone, PartialEq)]
pub(crate) struct Map {
    /// By unit of the host: its unit of the flash.
    flash_of: Vec<u32>,
    /// By unit of the flash: the host's unit that was written there last, valid or not.
    host_of: Vec<u32>,
    /// Units of a superblock.
    per_superblock: u32,
    /// 2^64 / `per_superblock`, rounded up: a division by multiplication, exact for 32 bits (Lemire, Kaser, Kurz,
    /// "Faster remainder by direct computation", 2019).
    reciprocal: u64,
}

impl Map {
    /// `superblocks` are the drive's, numbered from 1.
    pub(crate) fn new(units: u32, superblocks: u32, per_superblock: u32) -> Self {
        // Zeroed memory costs nothing until it is written to.
        let map = Self {
            flash_of: vec![NOWHERE; units as usize],
            host_of: vec![0; (superblocks as usize + 1) * per_superblock as usize],
            per_superblock,
            reciprocal: u64::MAX / u64::from(per_superblock) + 1,
        };
        sys::memory::advise_huge_pages(&map.flash_of);
        sys::memory::advise_huge_pages(&map.host_of);
        map
    }

    pub(crate) fn units(&self) -> u32 {
        self.flash_of.len() as u32
    }

    pub(crate) fn per_superblock(&self) -> u32 {
        self.per_superblock
    }

    /// The superblock of a unit of the flash.
    #[inline]
    pub(crate) fn superblock_of(&self, flash: u32) -> u32 {
        ((u128::from(flash) * u128::from(self.reciprocal)) >> 64) as u32
    }

    /// Flash unit of a host unit, if it was written.
    pub(crate) fn flash_of(&self, unit: u32) -> Option<u32> {
        Some(self.flash_of[unit as usize]).filter(|&flash| flash != NOWHERE)
    }

    /// Writes `count` units of the host from `unit` on to the flash from `flash` on. `left` is told the superblock that
    /// each has left; 0 for one that lay nowhere.
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

    /// Has the entries of units in the cache, for those who will soon need them: these loads wait for nothing, so many are
    /// on their way at once.
    pub(crate) fn load(&self, units: &[u32]) {
        let entries = units.iter().filter_map(|&unit| self.flash_of.get(unit as usize));
        std::hint::black_box(entries.fold(0, |any, &flash| any | flash));
    }

    /// The unit lies nowhere from now on; the superblock that it has left, or 0.
    pub(crate) fn forget(&mut self, unit: u32) -> u32 {
        let place = std::mem::replace(&mut self.flash_of[unit as usize], NOWHERE);
        self.superblock_of(place)
    }

    /// Moves those that are valid of `count` units of the flash from `from` on to `to`, one behind the other; how many
    /// there were. `read` is told each, if `LISTENS`.
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
        // Without a branch on validity, which nobody can predict; and every load independent of those before it.
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

    /// Units that are valid in a superblock, counted one by one.
    pub(crate) fn count_valid(&self, superblock: u32, written: u32) -> u32 {
        let first = superblock * self.per_superblock;
        (first..first + written).filter(|&flash| self.flash_of[self.host_of[flash as usize] as usize] == flash).count()
            as u32
    }
}
