//! Garbage collection beside the host: how much of it at once, by how few superblocks are free.
//!
//! It goes in steps, of a stripe each: the valid units of it are read, then what they filled is programmed.
//! Below the reserve steps begin, the more at once the fewer superblocks are free, up to one for each die; with the last
//! one the host's writes wait. So collection takes the dies from the host's reads in bursts, as on a real drive.

use super::FtlModel;
use super::dies::Work;
use ftl::Spec;

/// Of what no step waits for.
pub(super) const NO_STEP: u16 = u16::MAX;

/// So many superblocks are left to garbage collection: without one it could not go on.
const LAST: u32 = 1;

/// What is under way.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    /// So many superblocks are to be free.
    wanted: u32,
    dies: u32,
    steps: Vec<Step>,
    running: u32,
    /// By slot: dies that have not erased their part of a superblock yet.
    erasing: Vec<u32>,
    erasing_superblocks: u32,
    /// Units that were read to be moved.
    pub(super) read_units: u64,
}

/// A step of garbage collection, over when nothing is left of either.
#[derive(Debug, Clone, Default)]
struct Step {
    reads: u32,
    programs: u32,
    /// Begin when all is read: stripes with the host's units in them.
    filled: Vec<(u32, u32)>,
}

/// The layer below collects by itself only what would not work otherwise: the reserve is kept here.
pub(super) fn spec(spec: &Spec) -> Spec {
    Spec { reserve_superblocks: LAST, ..spec.clone() }
}

impl Collection {
    pub(super) fn new(reserve_superblocks: u32, dies: u32) -> Self {
        let wanted = reserve_superblocks.max(LAST + 2);
        Self { wanted, dies, steps: Vec::new(), running: 0, erasing: Vec::new(), erasing_superblocks: 0, read_units: 0 }
    }

    /// So many superblocks are to be free.
    pub(super) fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Steps that may run at once while so many superblocks are free.
    fn steps_max(&self, free: u32) -> u32 {
        let short = self.wanted.saturating_sub(free);
        (self.dies * short).div_ceil(self.wanted - LAST).min(self.dies)
    }

    /// Whether the host's writes wait: none but the last superblock is free, and another will be.
    #[inline]
    pub(super) fn holds_up_host(&self, free: u32) -> bool {
        free - self.erasing_superblocks.min(free) <= LAST && (self.running > 0 || self.erasing_superblocks > 0)
    }

    /// A die has erased its part of a superblock.
    pub(super) fn erased(&mut self, slot: u16) {
        let left = &mut self.erasing[usize::from(slot)];
        *left -= 1;
        self.erasing_superblocks -= u32::from(*left == 0);
    }
}

/// A place of `all` that is free, a new one if need be.
fn vacant<T: Default>(all: &mut Vec<T>, is_free: impl Fn(&T) -> bool) -> u16 {
    let at = all.iter().position(is_free).unwrap_or_else(|| {
        all.push(T::default());
        all.len() - 1
    });
    at as u16
}

impl FtlModel {
    /// Begins as many steps as are due.
    #[inline]
    pub(super) fn collect(&mut self, now_ns: u64) {
        while self.collection.running < self.collection.steps_max(self.ftl.free_superblocks()) {
            if self.ftl.collect_on(self.media.units_each, &mut self.media).is_none() {
                break;
            }
            let step = vacant(&mut self.collection.steps, |step| step.reads + step.programs == 0);
            self.work_of_call(step, now_ns);
        }
    }

    /// Gives the dies what the layer did to the flash in its last call, which was that `step` or a write.
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

    /// A read of a step is done.
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

    /// A stripe is programmed that a step, or none, has filled.
    pub(super) fn programmed(&mut self, step: u16) {
        let Some(of) = self.collection.steps.get_mut(usize::from(step)) else { return };
        of.programs -= 1;
        self.collection.running -= u32::from(of.reads + of.programs == 0);
    }
}
