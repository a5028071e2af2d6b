//! Number of valid units per superblock, and a search for the minimum.
//!
//! The count of a closed superblock only falls. So the minimum of each group of 256 needs one comparison per
//! overwrite, which is almost never true, and the overall minimum needs a scan of the groups and of one group. No
//! list is relinked on an overwrite.

/// Marks the count of a superblock that must not be collected: free, open, being collected, or number 0.
const NOT_CLOSED: u32 = 1 << 31;

/// Superblocks of a group.
const GROUP: usize = 256;

/// Counts by superblock.
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
