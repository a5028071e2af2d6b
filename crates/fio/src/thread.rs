//! A clone of a job: the devices, files and CPUs that it uses, its end, and its recorded streams.

use super::early_end::SteadyStateDetector;
use super::exit::ExitGroups;
use super::iolog::IssuedOps;
use super::job::Job;
use super::locked;
use super::priority::LatenciesByPriority;
use super::progress::Progress;
use super::samples::Samples;
use super::value::Size;
use results::cell::{Latencies, latencies};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub struct JobClone {
    pub job: Arc<Job>,
    pub clone: u64,
    /// Number among all clones, from 1.
    pub number: usize,
    /// Index of the report entry in [`super::FioLoad::entries`].
    pub entry: usize,
    pub progress: Arc<Progress>,
    /// Samples for the logs of the job, if it writes any.
    pub samples: Option<Arc<Samples>>,
    /// Histograms of periods for `write_hist_log`, if given.
    pub histograms: Option<Arc<Samples>>,
    /// Operations for `write_iolog`, if given.
    pub issued: Option<Arc<IssuedOps>>,
    /// Latencies by priority, if the operations have several priorities.
    pub by_priority: Option<Arc<LatenciesByPriority>>,
    /// Latencies of reads that returned data, and of reads that returned only zeros, if they are counted apart.
    pub(super) by_content: Option<Arc<Mutex<[Latencies; 2]>>>,
    /// Detector of the report entry's steady state, if `steadystate` is given.
    pub steady: Option<Arc<SteadyStateDetector>>,
    pub(super) exit: Option<ExitGroups>,
}

impl JobClone {
    pub(super) fn new(job: Arc<Job>, clone: u64, number: usize, entry: usize) -> Self {
        Self {
            clone,
            number,
            entry,
            progress: Arc::default(),
            samples: job
                .log
                .prefixes
                .iter()
                .any(Option::is_some)
                .then(|| new_samples(&job, job.log.avg_msec, false)),
            histograms: job
                .log
                .hist_prefix
                .is_some()
                .then(|| new_samples(&job, job.log.hist_msec, true)),
            issued: job.write_iolog.is_some().then(Arc::default),
            by_priority: job
                .priority
                .is_mixed()
                .then(|| Arc::new(LatenciesByPriority::new(job.ramp_end_ns()))),
            by_content: job
                .counts_zeros
                .then(|| Arc::new(Mutex::new([latencies(), latencies()]))),
            steady: None,
            exit: None,
            job,
        }
    }

    /// Latencies of reads that returned data, and of reads that returned only zeros; `None` if they are not counted apart.
    pub fn reads_by_content(&self) -> Option<[Latencies; 2]> {
        Some(locked(self.by_content.as_ref()?).clone())
    }

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
        let job = &self.job;
        if let Some(file_bytes) = job.file_bytes().filter(|_| !job.files.appends) {
            let increment = job.offset_increment.bytes_of(file_bytes);
            let start = job
                .offset
                .bytes_of(file_bytes)
                .saturating_add(increment.saturating_mul(self.clone));
            let room = file_bytes.saturating_sub(start);
            let of_size = job.size.map_or(room, |size| match size {
                // As in fio, random offsets are in the whole file, and size is the sum of the operations.
                Size::Bytes(_) if job.random => room,
                Size::Bytes(bytes) => bytes / self.names().len() as u64,
                Size::Percent(_) => size.bytes_of(file_bytes),
            });
            return Some(of_size.min(room));
        }
        match job.size {
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
        self.is_done() && self.progress.last_completion_ns.get() < self.job.ramp_end_ns()
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
