//! A clone of a job: its live statistics, the kinds of its operations that are recorded, and the clones that end with
//! it.

use super::early_end::SteadyStateDetector;
use super::iolog::IssuedOps;
use super::job::Job;
use super::priority::LatenciesByPriority;
use super::samples::Samples;
use super::value::Size;
use super::verify::VerifyCounts;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A clone of a job.
#[derive(Debug, Clone)]
pub struct JobClone {
    pub job: Arc<Job>,
    pub clone: u64,
    /// Number among all clones, from 1.
    pub number: usize,
    /// Index of the report entry in [`super::FioLoad::entries`].
    pub entry: usize,
    /// Live statistics of the clone.
    pub progress: Arc<Progress>,
    /// Samples for the logs of the job, if it writes any.
    pub samples: Option<Arc<Samples>>,
    /// Histograms of periods for `write_hist_log`, if given.
    pub histograms: Option<Arc<Samples>>,
    /// Operations for `write_iolog`, if given.
    pub issued: Option<Arc<IssuedOps>>,
    /// Latencies by priority, if the operations have several priorities.
    pub by_priority: Option<Arc<LatenciesByPriority>>,
    /// End of the entry by `steadystate`, if given.
    pub steady: Option<Arc<SteadyStateDetector>>,
    pub(super) exit: Option<ExitGroups>,
}

impl JobClone {
    /// A new clone, without `exitall` and `steadystate`.
    pub(super) fn new(job: Arc<Job>, clone: u64, number: usize, entry: usize) -> Self {
        Self {
            clone,
            number,
            entry,
            progress: Arc::default(),
            samples: job
                .logs
                .iter()
                .any(Option::is_some)
                .then(|| new_samples(&job, job.log_avg_msec, false)),
            histograms: job
                .hist_log
                .is_some()
                .then(|| new_samples(&job, job.log_hist_msec, true)),
            issued: job.write_iolog.is_some().then(Arc::default),
            by_priority: job
                .priority
                .is_mixed()
                .then(|| Arc::new(LatenciesByPriority::new(job.ramp_end_ns()))),
            steady: None,
            exit: None,
            job,
        }
    }

    /// Names of the clone's devices or files.
    pub(super) fn names(&self) -> Vec<String> {
        self.job.names(self.clone)
    }

    /// First byte that the clone uses of each file; `None` if it depends on the size of the file.
    pub(super) fn start_bytes(&self) -> Option<u64> {
        match (self.job.offset, self.job.offset_increment) {
            (Size::Bytes(offset), Size::Bytes(increment)) => {
                Some(offset.saturating_add(increment.saturating_mul(self.clone)))
            }
            _ => None,
        }
    }

    /// Bytes that the clone uses of each file; `None` if they depend on the size of the file.
    pub(super) fn part_bytes(&self) -> Option<u64> {
        match self.job.size {
            Some(Size::Bytes(bytes)) => Some(bytes / self.names().len() as u64),
            _ => None,
        }
    }

    /// CPUs for the clone's operations; empty: any.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let all = &self.job.cpus;
        if self.job.splits_cpus && !all.is_empty() {
            vec![all[(self.number - 1) % all.len()]]
        } else {
            all.clone()
        }
    }

    /// End of the clone by its own conditions or by other jobs, nanoseconds of the run; `u64::MAX`: not yet.
    #[inline]
    pub(super) fn ended_ns(&self) -> u64 {
        let exit_ns = self.exit.as_ref().map_or(u64::MAX, |exit| {
            exit.groups[exit.own_group].load(Ordering::Relaxed)
        });
        self.steady
            .as_ref()
            .map_or(exit_ns, |steady| exit_ns.min(steady.ended_ns()))
    }

    /// Latest end of the clone, nanoseconds since the measurement began: by its runtime, or with another job.
    pub fn end_ns(&self) -> u64 {
        self.job
            .end_ns()
            .min(self.ended_ns())
            .saturating_sub(self.job.ramp_end_ns())
    }

    /// True if the clone completed its work within its ramp time.
    pub fn is_done_in_ramp(&self) -> bool {
        self.is_done() && self.progress.done_ns.get() < self.job.ramp_end_ns()
    }

    /// True if the clone completed its work, or met an end condition, before its time was over.
    pub fn is_done(&self) -> bool {
        self.progress.lanes_done.get() as usize >= self.job.lanes().len()
    }
}

fn new_samples(job: &Job, every_ms: u64, has_bins: bool) -> Arc<Samples> {
    Arc::new(Samples::new(
        every_ms * 1_000_000,
        job.ramp_end_ns(),
        job.end_ns(),
        has_bins,
    ))
}

/// A recorded stream, which is counted and judged separately: one kind of operation of a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordedStream {
    /// Index into [`super::FioLoad::threads`].
    pub(super) thread: usize,
    /// A direction, [`super::FLUSHES`] or commits.
    pub(super) kind: usize,
}

/// Error numbers that fio reports for jobs that missed a goal: a rate (EIO), a latency (ETIMEDOUT).
pub(super) const RATE_MISSED: u64 = 5;
pub(super) const LATENCY_MISSED: u64 = 110;

/// A counter that one thread changes while others read it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets the counter to `value`, if that is greater.
    #[inline]
    pub(super) fn raise(&self, value: u64) {
        self.set(self.get().max(value));
    }

    #[inline]
    pub(super) fn add(&self, value: u64) {
        self.set(self.get() + value);
    }
}

/// Live statistics of a clone, which only its own thread changes.
#[derive(Debug, Default)]
pub struct Progress {
    in_flight: Counter,
    /// Operations begun since the last completion: they are counted at the depth that they reach together.
    begun_since_completion: Counter,
    /// Number of operations by depth at submission, including the operation itself. The classes of depth are 1, 2 to 3,
    /// 4 to 7, and so on, up to 64 or more.
    pub levels: [Counter; 7],
    /// Depth found so far by the search; 0: no search.
    pub depth: Counter,
    /// Start of the measured result, nanoseconds of the run. Before this time the job searched for its depth.
    pub counts_from_ns: Counter,
    /// Why the job ended and failed, with fio's error number.
    failure: OnceLock<(u64, String)>,
    /// Operations begun.
    begun_ops: Counter,
    /// Read-backs begun.
    pub(super) read_back: Counter,
    /// Counts of the clone's verification.
    pub verify: VerifyCounts,
    /// Of a job that reads its writes back at the end: time spent on the job's own operations, and time spent on the
    /// read-backs, nanoseconds without the ramp time.
    pub phases_ns: [Counter; 2],
    /// Lanes that completed their work before their time was over.
    pub lanes_done: Counter,
    /// End of the last of these lanes, nanoseconds of the run.
    pub done_ns: Counter,
}

impl Progress {
    /// Why the job ended and failed: the latency target or rate that it missed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(|(_, reason)| reason.as_str())
    }

    /// The error number that fio gives to the failure.
    pub fn error(&self) -> Option<u64> {
        self.failure.get().map(|(error, _)| *error)
    }

    /// Records the first reason; later reasons are ignored.
    pub(super) fn set_failure(&self, error: u64, reason: String) {
        let _ = self.failure.set((error, reason));
    }

    /// Operations begun, without read-backs and operations that follow in the same slot.
    pub fn ops(&self) -> u64 {
        self.begun_ops.get() - self.read_back.get()
    }

    #[inline]
    pub(super) fn begin(&self) {
        [
            &self.in_flight,
            &self.begun_since_completion,
            &self.begun_ops,
        ]
        .into_iter()
        .for_each(|count| count.add(1));
    }

    #[inline]
    pub(super) fn end(&self) {
        let in_flight = self.in_flight.get();
        let begun = self.begun_since_completion.get();
        if begun > 0 {
            self.levels[(in_flight.max(1).ilog2() as usize).min(6)].add(begun);
            self.begun_since_completion.set(0);
        }
        self.in_flight.set(in_flight.saturating_sub(1));
    }
}

/// Ends jobs together (`exitall`).
#[derive(Debug, Clone)]
pub(super) struct ExitGroups {
    /// For each group of the run, and last for all later runs: the end of the jobs, nanoseconds since the run began.
    pub(super) groups: Arc<[AtomicU64]>,
    /// Index of this job's group in `groups`.
    pub(super) own_group: usize,
    /// Groups whose jobs end with this job.
    pub(super) ended_groups: std::ops::Range<usize>,
}
