//! Free write blocks, and the choice of the next one.

use super::super::Reuse;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use sys::random::Random;

/// Free blocks in the order in which they are reused.
#[derive(Debug, Clone)]
pub(super) enum FreeBlocks {
    Fifo(VecDeque<u32>),
    Lowest(BinaryHeap<Reverse<u32>>),
    Random(Vec<u32>, Random),
}

impl FreeBlocks {
    pub(super) fn new(reuse: Reuse, blocks: Vec<u32>, random: Random) -> Self {
        match reuse {
            Reuse::Fifo => Self::Fifo(blocks.into()),
            Reuse::Lowest => Self::Lowest(blocks.into_iter().map(Reverse).collect()),
            Reuse::Random => Self::Random(blocks, random),
        }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        match self {
            Self::Fifo(blocks) => blocks.pop_front(),
            Self::Lowest(blocks) => blocks.pop().map(|Reverse(block)| block),
            Self::Random(blocks, random) => {
                (!blocks.is_empty()).then(|| blocks.swap_remove(random.below(blocks.len() as u64) as usize))
            }
        }
    }

    #[inline]
    pub(super) fn put(&mut self, block: u32) {
        match self {
            Self::Fifo(blocks) => blocks.push_back(block),
            Self::Lowest(blocks) => blocks.push(Reverse(block)),
            Self::Random(blocks, _) => blocks.push(block),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fifo(blocks) => blocks.len(),
            Self::Lowest(blocks) => blocks.len(),
            Self::Random(blocks, _) => blocks.len(),
        }
    }
}
