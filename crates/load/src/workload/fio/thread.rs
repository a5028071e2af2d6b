//! A clone of a job, and the kinds of operations that are recorded of it.

use super::iolog::Issued;
use super::job::Job;
use super::priority::ByPriority;
use super::progress::{Exit, Progress};
use super::samples::Samples;
use super::steady::Steady;
use std::sync::Arc;

/// One clone of a job.
#[derive(Debug, Clone)]
pub struct Thread {
    pub job: Arc<Job>,
    pub clone: u64,
    /// Number among all clones, from 1.
    pub number: usize,
    /// Its report entry: index into [`super::FioLoad::entries`].
    pub entry: usize,
    /// Live statistics of the clone.
    pub progress: Arc<Progress>,
    /// Samples for its logs, if it has any.
    pub samples: Option<Arc<Samples>>,
    /// Histograms of periods for its log, if it has one.
    pub histograms: Option<Arc<Samples>>,
    /// Operations for the log that it writes, if it does.
    pub issued: Option<Arc<Issued>>,
    /// Latencies by priority, if its operations have several.
    pub by_priority: Option<Arc<ByPriority>>,
    /// The end of its entry by steadiness, if it has one.
    pub steady: Option<Arc<Steady>>,
    pub(super) exit: Option<Exit>,
}

impl Thread {
    /// The CPUs for its operations; empty: any.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let all = &self.job.cpus;
        match self.job.splits_cpus && !all.is_empty() {
            true => vec![all[(self.number - 1) % all.len()]],
            false => all.clone(),
        }
    }

    /// Latest end, nanoseconds since the measurement began: by its runtime, or with another job.
    pub fn end_ns(&self) -> u64 {
        let exit_ns = self.exit.as_ref().map_or(u64::MAX, Exit::at_ns);
        let steady_ns = self.steady.as_ref().map_or(u64::MAX, |steady| steady.ended_ns());
        self.job.end_ns().min(exit_ns).min(steady_ns).saturating_sub(self.job.ramp_ns)
    }

    /// True if it completed its work, or met a condition that ends it, before its time.
    pub fn is_done(&self) -> bool {
        self.progress.lanes_done() >= self.job.lanes().len()
    }
}

/// A unit of counting and judging: one kind of operation of a clone, in whatever entry it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Index into [`super::FioLoad::threads`].
    pub(super) thread: usize,
    /// A direction, or [`super::FLUSHES`].
    pub(super) kind: usize,
}
