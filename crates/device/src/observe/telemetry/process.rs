//! Resources used by this program, and the CPU time that it waited for.
//!
//! Threads that issue operations are recognised by name ([`ISSUING_PREFIX`]); each has a column. The CPU time of the
//! process includes the other threads.

use super::super::process::{CpuTime, ResidentMemory};
use super::super::procfile::{ProcFile, TelemetryError, share_pct};
use results::telemetry::{Column, ColumnOf};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of issuing threads begin so: `issue-0`.
pub(super) const ISSUING_PREFIX: &str = "issue-";

/// Prefix of the kernel threads that do io_uring's blocking work: `iou-wrk-4711`, with the issuing thread's number.
const RING_WORKER_PREFIX: &str = "iou-wrk-";

/// `cpu_pct` counts one CPU as 100. `runqueue_wait_pct` is the time for which issuing threads were ready to
/// run and had no CPU, over all of them together, as a share of the interval; empty without such threads.
///
/// `io_worker_runs/s`: number of times that io_uring's workers ran, about once for each operation passed to them.
const COLUMNS: [Column; 4] =
    [Column::ProcessResidentBytes, Column::ProcessCpuPct, Column::RunqueueWaitPct, Column::RingWorkerRunsPerSec];

#[derive(Debug)]
pub(super) struct OwnProcess {
    resident: ResidentMemory,
    cpu: Option<CpuTime>,
    threads: Vec<Thread>,
    workers: RingWorkers,
}

impl OwnProcess {
    /// Finds the issuing threads that are there now.
    pub(super) fn open(root: &Path) -> Result<Self, TelemetryError> {
        let failed = |source| TelemetryError { path: root.join("proc/self/statm"), source };
        let resident = ResidentMemory::open(root).map_err(failed)?;
        let workers = RingWorkers { tasks: root.join("proc/self/task"), known: HashMap::new() };
        Ok(Self { resident, cpu: None, threads: issuing_threads(root), workers })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = ColumnOf> {
        let threads = self.threads.iter().map(|thread| Column::ThreadCpuPct.of(&thread.name));
        COLUMNS.into_iter().map(|column| column.of("")).chain(threads)
    }

    /// Adds the values of [`OwnProcess::columns`].
    pub(super) fn sample(&mut self, interval: Duration, values: &mut Vec<Option<f64>>) {
        let cpu = CpuTime::now().ok();
        let used_ns = cpu.zip(self.cpu).map(|(now, before)| now.since(before).total_ns());
        self.cpu = cpu;
        let used: Vec<_> = self.threads.iter_mut().map(Thread::sample).collect();
        // A thread that ended takes its part of the sum along: then the sum is unknown.
        let waited_ns = used.iter().map(|used| used.map(|used| used.waited_ns)).sum::<Option<u64>>();
        let waited_ns = waited_ns.filter(|_| !used.is_empty());
        values.push(self.resident.bytes().ok().map(|bytes| bytes as f64));
        values.push(used_ns.and_then(|ns| share_pct(ns, interval)));
        values.push(waited_ns.and_then(|ns| share_pct(ns, interval)));
        let runs = self.workers.runs();
        values.push(Some(runs as f64 / interval.as_secs_f64()).filter(|rate| rate.is_finite()));
        values.extend(used.iter().map(|used| used.and_then(|used| share_pct(used.ran_ns, interval))));
    }
}

/// The issuing threads of this process, in the order of their numbers.
fn issuing_threads(root: &Path) -> Vec<Thread> {
    let tasks = fs::read_dir(root.join("proc/self/task")).into_iter().flatten().flatten();
    let thread = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
        let number = name.strip_prefix(ISSUING_PREFIX)?.parse::<u32>().ok()?;
        let schedstat = ProcFile::open(&task.path(), "schedstat").ok()?;
        Some((number, Thread { name, schedstat, before: None }))
    };
    let mut threads: Vec<_> = tasks.filter_map(thread).collect();
    threads.sort_by_key(|(number, _)| *number);
    threads.into_iter().map(|(_, thread)| thread).collect()
}

/// The workers of io_uring. They come and go, so each sample lists them again; a thread's name is read once.
#[derive(Debug)]
struct RingWorkers {
    tasks: PathBuf,
    /// By number, of all threads that are there: the counter of a worker and how often it had run.
    known: HashMap<u32, Option<(ProcFile, u64)>>,
}

impl RingWorkers {
    /// Number of times that workers ran since the last sample. Runs of a worker between its last sample and its end are
    /// lost.
    fn runs(&mut self) -> u64 {
        let tasks = fs::read_dir(&self.tasks).into_iter().flatten().flatten();
        let ids: Vec<u32> = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        self.known.retain(|id, _| ids.contains(id));
        let mut runs = 0;
        for id in ids {
            let worker = self.known.entry(id).or_insert_with(|| {
                let task = self.tasks.join(id.to_string());
                let name = fs::read_to_string(task.join("comm")).ok()?;
                name.starts_with(RING_WORKER_PREFIX).then(|| Some((ProcFile::open(&task, "schedstat").ok()?, 0)))?
            });
            let Some((schedstat, before)) = worker else { continue };
            if let Some(Scheduled { runs: now, .. }) = schedstat.read().ok().and_then(Scheduled::parse) {
                runs += now - (*before).min(now);
                *before = now;
            }
        }
        runs
    }
}

#[derive(Debug)]
struct Thread {
    name: String,
    schedstat: ProcFile,
    before: Option<Scheduled>,
}

/// Scheduler statistics of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scheduled {
    /// Time on a CPU.
    ran_ns: u64,
    /// Time ready to run and without a CPU.
    waited_ns: u64,
    /// Number of times it got a CPU.
    runs: u64,
}

impl Thread {
    /// Difference to the last sample; `None` if this is the first, or the thread ended.
    fn sample(&mut self) -> Option<Scheduled> {
        let now = self.schedstat.read().ok().and_then(Scheduled::parse);
        let since = now.zip(self.before).map(|(now, before)| Scheduled {
            ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: now.waited_ns.saturating_sub(before.waited_ns),
            runs: now.runs.saturating_sub(before.runs),
        });
        self.before = now;
        since
    }
}

impl Scheduled {
    /// The numbers of schedstat: two in nanoseconds and a count (Documentation/scheduler/sched-stats.rst).
    fn parse(schedstat: &str) -> Option<Self> {
        let mut words = schedstat.split_ascii_whitespace();
        let mut next = || words.next()?.parse().ok();
        Some(Self { ran_ns: next()?, waited_ns: next()?, runs: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    const STATM: (&str, &str) = ("proc/self/statm", "900 100 50 1 0 80 0\n");

    fn task(root: &FakeTree, id: u32, name: &str, schedstat: &str) {
        root.write_all(format!("proc/self/task/{id}"), &[("comm", name), ("schedstat", schedstat)]);
    }

    #[test]
    fn each_issuing_thread_has_a_column_and_their_waits_add_up() {
        let root = FakeTree::of(&[STATM]);
        task(&root, 10, "flashproof", "1 1 1\n");
        task(&root, 12, "issue-10", "1000000000 5000000 7\n");
        task(&root, 11, "issue-2", "2000000000 0 7\n");
        let mut process = OwnProcess::open(root.root()).unwrap();
        let columns: Vec<_> = process.columns().map(|column| column.to_string()).collect();
        assert_eq!(
            columns[2..],
            [
                "process.runqueue_wait_pct",
                "process.io_worker_runs/s",
                "thread.issue-2.cpu_pct",
                "thread.issue-10.cpu_pct"
            ]
        );
        process.sample(Duration::ZERO, &mut Vec::new());
        task(&root, 12, "issue-10", "1500000000 105000000 9\n");
        task(&root, 11, "issue-2", "2100000000 20000000 9\n");
        let mut values = Vec::new();
        process.sample(Duration::from_secs(1), &mut values);
        assert_eq!(values[2..], [Some(12.0), Some(0.0), Some(10.0), Some(50.0)]);
        task(&root, 11, "issue-2", "");
        values.clear();
        process.sample(Duration::from_secs(1), &mut values);
        assert_eq!(values[2..], [None, Some(0.0), None, Some(0.0)], "a thread that ended is unknown");
    }

    #[test]
    fn what_the_workers_of_the_ring_did_is_counted_from_their_first_run() {
        let root = FakeTree::of(&[STATM]);
        task(&root, 11, "issue-0", "2000000000 0 700\n");
        let mut process = OwnProcess::open(root.root()).unwrap();
        let mut runs = |seconds| {
            let mut values = Vec::new();
            process.sample(Duration::from_secs(seconds), &mut values);
            values[3].unwrap()
        };
        assert_eq!(runs(1), 0.0);
        task(&root, 20, "iou-wrk-11", "5000 0 30\n");
        task(&root, 21, "iou-wrk-11", "5000 0 12\n");
        assert_eq!(runs(2), 21.0);
        root.remove("proc/self/task/21");
        task(&root, 20, "iou-wrk-11", "9000 0 40\n");
        assert_eq!(runs(1), 10.0);
    }

    #[test]
    fn a_thread_of_that_name_is_seen_and_its_work_shows() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let busy = move || while told.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {};
        let thread = std::thread::Builder::new().name("issue-4711".to_owned()).spawn(busy).unwrap();
        let named =
            |process: &OwnProcess| process.columns().position(|column| column == Column::ThreadCpuPct.of("issue-4711"));
        let mut process = OwnProcess::open("/".as_ref()).unwrap();
        // The name is set by the thread itself, when it first runs.
        while named(&process).is_none() {
            process = OwnProcess::open("/".as_ref()).unwrap();
        }
        let (at, mut ran) = (named(&process).unwrap(), 0.0);
        for _ in 0..1_000 {
            let mut values = Vec::new();
            process.sample(Duration::from_secs(1), &mut values);
            ran += values[at].unwrap_or(0.0);
            if ran > 0.0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        tell.send(()).unwrap();
        thread.join().unwrap();
        assert!(ran > 0.0 || !Path::new("/proc/self/schedstat").exists(), "it ran and it does not show");
    }
}
