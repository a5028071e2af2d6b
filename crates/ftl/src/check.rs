//! Consistency check: recounts every unit.

use crate::Ftl;
use std::collections::BTreeSet;

impl Ftl {
    /// Recounts every unit of the drive. The error is the first inconsistency found.
    ///
    /// - Each mapped unit lies in one superblock, and the valid units of each superblock match its count.
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
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        if free.len() != self.free.len() {
            return Err("a superblock is free twice".to_owned());
        }
        let mut programmed = self.erases * u64::from(per_superblock);
        let mut erases = 0_u64;
        for superblock in 1..=self.superblocks() {
            let is_free = free.contains(&superblock);
            let written = if is_free { 0 } else { self.written(superblock) };
            programmed += u64::from(written);
            let (counted, valid) = (self.map.count_valid(superblock, written), self.valid.of(superblock));
            if counted != valid || counted != by_superblock[superblock as usize] {
                let mapped = by_superblock[superblock as usize];
                return Err(format!(
                    "superblock {superblock}: {valid} units valid, {counted} found, {mapped} mapped to it"
                ));
            }
            let states = [is_free, self.is_open(superblock), self.is_collecting(superblock)];
            if states.iter().filter(|&&is| is).count() + usize::from(self.valid.is_closed(superblock)) != 1 {
                return Err(format!("superblock {superblock}: free, open, collected: {states:?}"));
            }
            erases += u64::from(self.wear.of(superblock));
        }
        if mapped != self.mapped_units() {
            return Err(format!("{mapped} units mapped, {} valid", self.mapped_units()));
        }
        if programmed != self.host_units + self.moved_units {
            let (host, moved) = (self.host_units, self.moved_units);
            return Err(format!("{host} units written and {moved} moved, {programmed} programmed"));
        }
        if erases != self.erases {
            return Err(format!("{} erases, {erases} of superblocks", self.erases));
        }
        Ok(())
    }

    fn is_open(&self, superblock: u32) -> bool {
        self.points.iter().any(|point| point.superblock == superblock)
    }

    fn is_collecting(&self, superblock: u32) -> bool {
        self.victims.collecting.is_some_and(|collecting| collecting.superblock == superblock)
    }

    /// Units programmed in an open or full superblock since its erase.
    fn written(&self, superblock: u32) -> u32 {
        let open = self.points.iter().find(|point| point.superblock == superblock);
        self.map.per_superblock() - open.map_or(0, |point| point.room())
    }
}
