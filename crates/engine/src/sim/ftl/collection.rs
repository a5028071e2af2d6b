//! Garbage collection in parallel to host writes.
//!
//! Collection works in steps of one stripe: a step reads the valid units of the stripe, then programs the stripes that
//! these units fill. While the host fills a superblock, collection frees the next superblock. The less free space
//! remains, the more steps run in parallel, up to [`STEPS`] per die. If only the reserve remains, host writes wait. So
//! this drive needs the same reserve as the untimed FTL, which collects when the host finds no space.

use ftl::{Append, Ftl};

/// Value of `step` for work that no step waits for.
pub(super) const NO_STEP: u16 = u16::MAX;

/// Maximum number of parallel steps per die: while one step programs, others read or wait for programs of other dies.
const STEPS: u64 = 4;

#[derive(Debug, Clone, Default)]
pub(super) struct GarbageCollection {
    steps: Vec<CollectionStep>,
    running: u32,
    /// By slot: number of dies that still have to erase their part of a superblock.
    erasing: Vec<u32>,
    erasing_superblocks: u32,
    pub(super) read_units: u64,
}

/// A step of garbage collection, which ends with its last read or program.
#[derive(Debug, Clone, Default)]
struct CollectionStep {
    reads: u32,
    programs: u32,
    /// Stripes to program when all reads are done, each with its number of host units.
    filled: Vec<(u32, u32)>,
}

impl GarbageCollection {
    /// True if another step is due on a drive with `dies` dies, whose host writes with `handles`.
    #[inline]
    pub(super) fn is_due(&self, ftl: &Ftl, handles: &[u16], dies: u32) -> bool {
        let superblock = i64::from(ftl.superblock_units());
        let beyond_reserve =
            i64::from(ftl.free_superblocks()) - i64::from(ftl.spec().reserve_superblocks);
        // Target: the free space beyond the reserve equals the filled space of the handles' open superblocks. So each
        // handle finds a free superblock when its open superblock is full.
        let filled: i64 = handles
            .iter()
            .map(|handle| superblock - i64::from(ftl.room(*handle)))
            .sum();
        let shortfall = (filled - beyond_reserve * superblock).clamp(0, superblock);
        let steps_max =
            (STEPS * u64::from(dies) * shortfall as u64).div_ceil(superblock as u64) as u32;
        self.running < steps_max
    }

    /// Units that the host can write with a handle before it waits for garbage collection; at most one superblock.
    #[inline]
    pub(super) fn room(&self, ftl: &Ftl, handle: u16) -> u32 {
        let room = ftl.room(handle);
        let reserve = ftl.spec().reserve_superblocks;
        let erased = ftl
            .free_superblocks()
            .saturating_sub(self.erasing_superblocks);
        let collects = self.running > 0 || self.erasing_superblocks > 0;
        // With a shared append point, an open superblock that garbage collection opened belongs to the reserve.
        let in_reserve = ftl.spec().append == Append::Shared && erased < reserve;
        match (collects, room) {
            (true, 0) if erased <= reserve => 0,
            (true, _) if in_reserve => 0,
            (_, 0) => ftl.superblock_units(),
            _ => room,
        }
    }

    /// Index of a new step.
    pub(super) fn step(&mut self) -> u16 {
        vacant(&mut self.steps, |step| step.reads + step.programs == 0)
    }

    /// Starts `step` (unless [`NO_STEP`]): `reads` reads, then `programs`. If there are reads, moves `programs` into
    /// the step; [`Self::collected`] returns them after the last read.
    pub(super) fn begin(&mut self, step: u16, reads: usize, programs: &mut Vec<(u32, u32)>) {
        let Some(step) = self.steps.get_mut(usize::from(step)) else {
            return;
        };
        (step.reads, step.programs) = (reads as u32, programs.len() as u32);
        self.running += u32::from(step.reads + step.programs > 0);
        if reads > 0 {
            std::mem::swap(&mut step.filled, programs);
        }
    }

    /// Records a finished read of `step`. After the last read, returns the stripes to program, for [`Self::give_back`].
    pub(super) fn collected(&mut self, step: u16) -> Option<Vec<(u32, u32)>> {
        let step_counts = self.steps.get_mut(usize::from(step))?;
        step_counts.reads -= 1;
        if step_counts.reads > 0 {
            return None;
        }
        self.running -= u32::from(step_counts.programs == 0);
        Some(std::mem::take(&mut step_counts.filled))
    }

    pub(super) fn give_back(&mut self, step: u16, mut filled: Vec<(u32, u32)>) {
        filled.clear();
        self.steps[usize::from(step)].filled = filled;
    }

    pub(super) fn programmed(&mut self, step: u16) {
        let Some(step_counts) = self.steps.get_mut(usize::from(step)) else {
            return;
        };
        step_counts.programs -= 1;
        self.running -= u32::from(step_counts.reads + step_counts.programs == 0);
    }

    pub(super) fn erase(&mut self, dies: u32) -> u16 {
        let slot = vacant(&mut self.erasing, |left| *left == 0);
        self.erasing[usize::from(slot)] = dies;
        self.erasing_superblocks += 1;
        slot
    }

    pub(super) fn erased(&mut self, slot: u16) {
        let dies_left = &mut self.erasing[usize::from(slot)];
        *dies_left -= 1;
        self.erasing_superblocks -= u32::from(*dies_left == 0);
    }
}

/// Index of a free entry of `slots`; adds an entry if there is none.
fn vacant<T: Default>(slots: &mut Vec<T>, is_free: impl Fn(&T) -> bool) -> u16 {
    let index = slots.iter().position(is_free).unwrap_or_else(|| {
        slots.push(T::default());
        slots.len() - 1
    });
    index as u16
}
