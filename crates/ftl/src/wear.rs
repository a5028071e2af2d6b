//! Number of erases of each superblock.

use std::collections::BTreeMap;

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
