//! Start delays of jobs after a stonewall.
//!
//! fio counts each `startdelay` from its own start, whatever ran since. Source: `run_threads()` in fio's backend.c.

use super::job::Job;
use super::text::Problem;
use super::workload::FioLoad;
use results::format::{duration, quoted};
use std::sync::Arc;

impl FioLoad {
    /// Shortens the start delays by the time since the first run began. With a ramp time, all delays are shortened by
    /// the same time, because the ramp time must end at the same time in all jobs.
    pub fn begin_after(&mut self, elapsed_ns: u64) {
        let has_ramp = self.jobs().any(|job| job.ramp_ns > 0);
        let elapsed_ns = if has_ramp {
            elapsed_ns.min(first_start(self).start_delay_ns)
        } else {
            elapsed_ns
        };
        let mut job = self.threads[0].job.clone();
        for thread in &mut self.threads {
            if thread.clone == 0 {
                job = Arc::new(Job {
                    start_delay_ns: thread.job.start_delay_ns.saturating_sub(elapsed_ns),
                    ..(*thread.job).clone()
                });
            }
            thread.job = job.clone();
        }
        for entry in &mut self.entries {
            entry.job = self.threads[entry.threads[0]].job.clone();
        }
        self.reset();
    }
}

fn first_start(load: &FioLoad) -> &Job {
    let jobs = load.jobs().map(Arc::as_ref);
    jobs.min_by_key(|job: &&Job| job.start_delay_ns)
        .expect("a load has a job")
}

/// Warnings of jobs that fio may start before an earlier job: at most one for each run.
pub fn overtaking(loads: &[FioLoad]) -> Vec<Problem> {
    loads.windows(2).filter_map(overtaken).collect()
}

/// Compares a run with the next: fio passes over a job until its `startdelay` is over, even a job with `stonewall`, and
/// starts the jobs after it.
fn overtaken(runs: &[FioLoad]) -> Option<Problem> {
    let next_run = &runs[1];
    let behind_stonewall = next_run.jobs().next()?;
    let earlier = first_start(&runs[0]);
    let passed_over = if behind_stonewall.start_delay_ns > earlier.start_delay_ns {
        behind_stonewall
    } else {
        earlier
    };
    let job = next_run
        .jobs()
        .find(|job| job.waits_for.is_none() && job.start_delay_ns < passed_over.start_delay_ns)?;
    let why = format!(
        "fio may start this job before job {}, whose startdelay of {} is longer; flashproof keeps the order of the jobs - \
         give this job the same startdelay, or move it up",
        quoted(&passed_over.name),
        duration(passed_over.start_delay_ns)
    );
    Some(Problem::of_job(&job.name, why))
}
