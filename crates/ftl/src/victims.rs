//! Inputs of the choice of the next victim of garbage collection.

use crate::spec::Victim;
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Collecting {
    pub(crate) superblock: u32,
    /// Units of the superblock examined so far.
    pub(crate) done_units: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Victims {
    pub(crate) collecting: Option<Collecting>,
    /// By superblock: total number of units programmed on the drive when the superblock became full.
    pub(crate) filled_at: Vec<u64>,
    /// Filled superblocks, oldest first, including superblocks that were collected since. Used only by `Victim::Fifo`.
    pub(crate) order: VecDeque<(u32, u64)>,
    /// True if wear levelling chose the last victim.
    pub(crate) levelled: bool,
}

impl Victims {
    pub(crate) fn new(superblocks: u32) -> Self {
        Self {
            collecting: None,
            filled_at: vec![0; superblocks as usize + 1],
            order: VecDeque::new(),
            levelled: false,
        }
    }

    pub(crate) fn filled(&mut self, superblock: u32, now_units: u64, policy: Victim) {
        self.filled_at[superblock as usize] = now_units;
        if policy == Victim::Fifo {
            self.order.push_back((superblock, now_units));
        }
    }
}
