//! Garbage collection alongside host writes: the less free space, the more steps run in parallel.
//!
//! Collection works in steps of one stripe each: the valid units of the stripe are read, then the stripes that they
//! fill are programmed. While the host fills a superblock, collection frees the next one. The less space is left, the
//! more steps run in parallel, up to [`STEPS`] per die. If only the reserve is left, host writes wait. So this drive
//! needs the same reserve as the FTL without time, which collects when the host finds no space.

use super::FtlModel;
use super::dies::Work;
use ftl::Append;

/// Marker: no step waits for the work.
pub(super) const NO_STEP: u16 = u16::MAX;

/// Maximum number of parallel steps per die: one programs while others read or wait for programs of other dies.
const STEPS: u64 = 4;

/// Garbage collection in progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Collection {
    steps: Vec<Step>,
    running: u32,
    /// By slot: dies that still have to erase their part of a superblock.
    erasing: Vec<u32>,
    erasing_superblocks: u32,
    /// Units that were read to be moved.
    pub(super) read_units: u64,
}

/// A step of garbage collection. It is over when no reads and programs are left.
#[derive(Debug, Clone, Default)]
struct Step {
    reads: u32,
    programs: u32,
    /// Stripes to program when all reads are done, with their number of host units.
    filled: Vec<(u32, u32)>,
}

impl Collection {
    /// Records that a die has erased its part of a superblock.
    pub(super) fn erased(&mut self, slot: u16) {
        let left = &mut self.erasing[usize::from(slot)];
        *left -= 1;
        self.erasing_superblocks -= u32::from(*left == 0);
    }
}

/// Index of a free entry of `all`; adds an entry if there is none.
fn vacant<T: Default>(all: &mut Vec<T>, is_free: impl Fn(&T) -> bool) -> u16 {
    let at = all.iter().position(is_free).unwrap_or_else(|| {
        all.push(T::default());
        all.len() - 1
    });
    at as u16
}

impl FtlModel {
    /// Maximum number of steps that may run now.
    fn steps_max(&self) -> u32 {
        let (dies, superblock) = (u64::from(self.dies.count()), i64::from(self.ftl.superblock_units()));
        let beyond_reserve = i64::from(self.ftl.free_superblocks()) - i64::from(self.ftl.spec().reserve_superblocks);
        // Target: free space beyond the reserve equal to what the handles have filled of their superblocks, so that
        // each handle finds a new superblock.
        let filled: i64 = self.handles.iter().map(|handle| superblock - i64::from(self.ftl.room(*handle))).sum();
        let short = (filled - beyond_reserve * superblock).clamp(0, superblock);
        (STEPS * dies * short as u64).div_ceil(superblock as u64) as u32
    }

    /// Units that the host can write under a handle before it waits for garbage collection, at most one superblock.
    #[inline]
    pub(super) fn room(&self, handle: u16) -> u32 {
        let (room, reserve) = (self.ftl.room(handle), self.ftl.spec().reserve_superblocks);
        let erased = self.ftl.free_superblocks().saturating_sub(self.collection.erasing_superblocks);
        let collects = self.collection.running > 0 || self.collection.erasing_superblocks > 0;
        // A shared append point that collection opened lies in the reserve.
        let in_reserve = self.ftl.spec().append == Append::Shared && erased < reserve;
        match (collects, room) {
            (true, 0) if erased <= reserve => 0,
            (true, _) if in_reserve => 0,
            (_, 0) => self.ftl.superblock_units(),
            _ => room,
        }
    }

    /// Begins as many steps as are needed now.
    #[inline]
    pub(super) fn collect(&mut self, now_ns: u64) {
        while self.collection.running < self.steps_max() {
            if self.ftl.collect_on(self.media.units_each, &mut self.media).is_none() {
                break;
            }
            let step = vacant(&mut self.collection.steps, |step| step.reads + step.programs == 0);
            self.work_of_call(step, now_ns);
        }
    }

    /// Hands the flash operations of the last FTL call to the dies. The call was collection `step`, or a write.
    #[inline]
    pub(super) fn work_of_call(&mut self, step: u16, now_ns: u64) {
        let programs = self.media.programs.len() as u32;
        let reads = self.media.reads.len() as u32;
        if let Some(step) = self.collection.steps.get_mut(usize::from(step)) {
            (step.reads, step.programs) = (reads, programs);
            self.collection.running += u32::from(reads + programs > 0);
            if reads > 0 {
                std::mem::swap(&mut step.filled, &mut self.media.programs);
            }
        }
        for index in 0..self.media.programs.len() {
            let (stripe, host_units) = self.media.programs[index];
            self.work(stripe, Work::Program { stripe, host_units, step }, now_ns);
        }
        for index in 0..self.media.reads.len() {
            let (stripe, units) = self.media.reads[index];
            self.collection.read_units += u64::from(units);
            self.work(stripe, Work::Collect { step, bytes: units * self.unit_bytes as u32 }, now_ns);
        }
        for index in 0..self.media.erases.len() {
            let stripes = self.media.superblock_stripes();
            let first = self.media.erases[index] * stripes;
            let slot = vacant(&mut self.collection.erasing, |left| *left == 0);
            let dies = stripes.min(self.dies.count());
            self.collection.erasing[usize::from(slot)] = dies;
            self.collection.erasing_superblocks += 1;
            (first..first + dies).for_each(|stripe| self.work(stripe, Work::Erase { slot }, now_ns));
        }
        self.media.programs.clear();
        self.media.reads.clear();
        self.media.erases.clear();
    }

    /// Records that a read of a step is done. The last read starts the step's programs.
    pub(super) fn collected(&mut self, step: u16, now_ns: u64) {
        let Some(of) = self.collection.steps.get_mut(usize::from(step)) else { return };
        of.reads -= 1;
        if of.reads > 0 {
            return;
        }
        let mut filled = std::mem::take(&mut of.filled);
        self.collection.running -= u32::from(of.programs == 0);
        for (stripe, host_units) in filled.drain(..) {
            self.work(stripe, Work::Program { stripe, host_units, step }, now_ns);
        }
        self.collection.steps[usize::from(step)].filled = filled;
    }

    /// Records that a stripe of a step is programmed; no effect for [`NO_STEP`].
    pub(super) fn programmed(&mut self, step: u16) {
        let Some(of) = self.collection.steps.get_mut(usize::from(step)) else { return };
        of.programs -= 1;
        self.collection.running -= u32::from(of.reads + of.programs == 0);
    }
}
