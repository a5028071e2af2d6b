//! Maps host units to flash units, and back.
//!
//! Nothing else records validity: a flash unit is valid if its host unit maps to it. So an overwrite touches one
//! random entry, and garbage collection, which checks each unit of its victim, has many such loads in flight at once.
//! Superblock 0 is not part of the drive: its unit 0 means "not written".

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
