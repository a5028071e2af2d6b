//! This process: its identity, its resource usage, and its waiting time for a CPU. Also the state of a recorded
//! process.
//!
//! A PID alone does not identify a process, because the kernel reuses PIDs. PID, start time and boot ID together do.
//! PIDs differ between containers, so a missing process has certainly ended only if it was in this PID namespace. For
//! another namespace the caller has to check if the files of the process still grow.
//!
//! Threads that issue operations are recognised by name ([`ISSUING_PREFIX`]); each has a column. The CPU time of the
//! process includes all threads.

use super::{ProcFile, TelemetryError, TelemetryValue, share_pct};
use results::run_dir::{Process, ProcessState};
use results::telemetry::Column;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::process::{page_bytes, process_cpu_ns};

/// The kernel's identifier of the current boot. Source: random(4).
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// The PID namespace of this process. Source: pid_namespaces(7), namespaces(7).
const NAMESPACE: &str = "proc/self/ns/pid";

/// `None` if `/proc` is not mounted.
pub fn this_process() -> Option<Process> {
    let root = Path::new("/");
    let pid = std::process::id();
    let start_ticks = stat(root, pid).ok()??.start_ticks;
    Some(Process {
        pid,
        start_ticks,
        boot_id: boot_id(root)?,
        pid_namespace: pid_namespace(root),
    })
}

pub fn process_state(process: &Process) -> ProcessState {
    state_below(process, Path::new("/"))
}

fn state_below(process: &Process, root: &Path) -> ProcessState {
    match boot_id(root) {
        None => return ProcessState::Unknown,
        Some(boot_id) if boot_id != process.boot_id => return ProcessState::Elsewhere,
        Some(_) => {}
    }
    let same_numbers =
        process.pid_namespace.is_some() && process.pid_namespace == pid_namespace(root);
    let gone_state = if same_numbers {
        ProcessState::Gone
    } else {
        ProcessState::Elsewhere
    };
    match stat(root, process.pid) {
        Ok(Some(stat)) if stat.start_ticks != process.start_ticks => gone_state,
        // A zombie: its parent has not collected its exit code. Source: proc_pid_stat(5), field 3.
        Ok(Some(ProcessStat {
            state: 'Z' | 'X' | 'x',
            ..
        })) => ProcessState::Gone,
        Ok(Some(ProcessStat {
            state: 'T' | 't', ..
        })) => ProcessState::Stopped,
        Ok(Some(_)) => ProcessState::Running,
        Ok(None) => ProcessState::Unknown,
        Err(ErrorKind::NotFound) if hides_others(root) => ProcessState::Unknown,
        Err(ErrorKind::NotFound) => gone_state,
        Err(_) => ProcessState::Unknown,
    }
}

/// True if `/proc` hides the processes of other users (`hidepid`): a process may then run although it is not visible.
/// The sign is a hidden process 1, which belongs to another user unless this user is root.
fn hides_others(root: &Path) -> bool {
    !root.join("proc/1").exists()
}

fn boot_id(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(BOOT_ID)).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

fn pid_namespace(root: &Path) -> Option<String> {
    fs::read_link(root.join(NAMESPACE))
        .ok()?
        .into_os_string()
        .into_string()
        .ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    state: char,
    start_ticks: u64,
}

/// `Ok(None)` if the file cannot be parsed.
fn stat(root: &Path, pid: u32) -> Result<Option<ProcessStat>, ErrorKind> {
    // The program name can contain any bytes.
    let bytes = fs::read(root.join(format!("proc/{pid}/stat"))).map_err(|error| {
        match error.raw_os_error() {
            // The process ended between opening and reading.
            Some(libc::ESRCH) => ErrorKind::NotFound,
            _ => error.kind(),
        }
    })?;
    Ok(parse_stat(&String::from_utf8_lossy(&bytes)))
}

/// Source: proc_pid_stat(5). The program's name can contain blanks and `)`, so parsing starts after the last `)`.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Field 22; the state is field 3.
    let start_ticks = fields.nth(22 - 4)?.parse().ok()?;
    Some(ProcessStat { state, start_ticks })
}

/// Prefix of the names of issuing threads: `issue-0`.
pub(super) const ISSUING_PREFIX: &str = "issue-";

/// Prefix of the names of the kernel's workers for blocking io_uring operations: `iou-wrk-4711`. The number is the ID
/// of the issuing thread.
const RING_WORKER_PREFIX: &str = "iou-wrk-";

#[derive(Debug)]
pub(super) struct OwnProcess {
    statm: ProcFile,
    cpu_ns: Option<u64>,
    threads: Vec<Thread>,
    workers: RingWorkers,
}

impl OwnProcess {
    pub(super) fn open(root: &Path) -> Result<Self, TelemetryError> {
        let statm = ProcFile::open(root, "proc/self/statm")?;
        let workers = RingWorkers {
            tasks: root.join("proc/self/task"),
            threads_by_id: HashMap::new(),
        };
        Ok(Self {
            statm,
            cpu_ns: None,
            threads: issuing_threads(root),
            workers,
        })
    }

    /// `cpu_pct` counts one CPU as 100. `runqueue_wait_pct` is the time for which issuing threads were runnable without
    /// a CPU, summed over these threads, as a share of the interval; empty without issuing threads.
    ///
    /// `io_worker_runs/s`: runs of io_uring workers per second. A worker runs about once for each operation that it
    /// performs.
    pub(super) fn sample(&mut self, interval: Duration) -> Vec<TelemetryValue> {
        let cpu_ns = process_cpu_ns().ok();
        let used_ns = cpu_ns
            .zip(self.cpu_ns)
            .map(|(now, before)| now.saturating_sub(before));
        self.cpu_ns = cpu_ns;
        let thread_times: Vec<_> = self.threads.iter_mut().map(Thread::sample).collect();
        // If a thread has ended, its time is unknown, and so is the sum.
        let waited_ns = thread_times
            .iter()
            .map(|used| used.map(|used| used.waited_ns))
            .sum::<Option<u64>>();
        let waited_ns = waited_ns.filter(|_| !thread_times.is_empty());
        let runs_per_sec = self.workers.runs() as f64 / interval.as_secs_f64();
        let own_cells = [
            (
                Column::ProcessResidentBytes,
                self.statm.read().ok().and_then(resident_bytes),
            ),
            (
                Column::ProcessCpuPct,
                used_ns.and_then(|ns| share_pct(ns, interval)),
            ),
            (
                Column::RunqueueWaitPct,
                waited_ns.and_then(|ns| share_pct(ns, interval)),
            ),
            (
                Column::RingWorkerRunsPerSec,
                Some(runs_per_sec).filter(|rate| rate.is_finite()),
            ),
        ];
        let threads = self.threads.iter().zip(thread_times).map(|(thread, used)| {
            (
                Column::ThreadCpuPct.for_object(&thread.name),
                used.and_then(|used| share_pct(used.ran_ns, interval)),
            )
        });
        own_cells
            .into_iter()
            .map(|(column, value)| (column.for_object(""), value))
            .chain(threads)
            .collect()
    }
}

/// Resident memory: the second number of statm, in pages (proc_pid_statm(5)).
fn resident_bytes(statm: &str) -> Option<f64> {
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some((pages * page_bytes()) as f64)
}

/// The issuing threads of this process, in the order of their numbers.
fn issuing_threads(root: &Path) -> Vec<Thread> {
    let tasks = fs::read_dir(root.join("proc/self/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut threads: Vec<_> = tasks
        .filter_map(|task| issuing_thread(&task.path()))
        .collect();
    threads.sort_by_key(|(number, _)| *number);
    threads.into_iter().map(|(_, thread)| thread).collect()
}

/// The thread of the task at `dir` and its number, if the thread issues operations.
fn issuing_thread(dir: &Path) -> Option<(u32, Thread)> {
    let comm = fs::read_to_string(dir.join("comm")).ok()?;
    let name = comm.trim().to_owned();
    let number = name.strip_prefix(ISSUING_PREFIX)?.parse().ok()?;
    Some((number, Thread::open(dir, name, None)?))
}

/// The io_uring workers of this process. The kernel starts and ends workers at any time, so each sample lists all
/// threads again; the name of a thread is read once.
#[derive(Debug)]
struct RingWorkers {
    tasks: PathBuf,
    /// All current threads by ID; `Some` for workers.
    threads_by_id: HashMap<u32, Option<Thread>>,
}

impl RingWorkers {
    /// Runs since the last sample. When a worker ends, its runs since its last sample are lost.
    fn runs(&mut self) -> u64 {
        let tasks = fs::read_dir(&self.tasks).into_iter().flatten().flatten();
        let ids: Vec<u32> = tasks
            .filter_map(|task| task.file_name().to_str()?.parse().ok())
            .collect();
        self.threads_by_id.retain(|id, _| ids.contains(id));
        let mut runs = 0;
        for id in ids {
            let worker = self.threads_by_id.entry(id).or_insert_with(|| {
                let task = self.tasks.join(id.to_string());
                let name = fs::read_to_string(task.join("comm")).ok()?;
                // The worker started after the last sample, so all its runs count.
                let before = Some(Scheduled::default());
                name.starts_with(RING_WORKER_PREFIX)
                    .then(|| Thread::open(&task, name, before))
                    .flatten()
            });
            runs += worker
                .as_mut()
                .and_then(Thread::sample)
                .map_or(0, |since| since.runs);
        }
        runs
    }
}

#[derive(Debug)]
struct Thread {
    name: String,
    schedstat: ProcFile,
    previous: Option<Scheduled>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Scheduled {
    /// Time on a CPU.
    ran_ns: u64,
    /// Time runnable without a CPU.
    waited_ns: u64,
    /// Number of times that the thread got a CPU.
    runs: u64,
}

impl Thread {
    fn open(task: &Path, name: String, previous: Option<Scheduled>) -> Option<Self> {
        Some(Self {
            name,
            schedstat: ProcFile::open(task, "schedstat").ok()?,
            previous,
        })
    }

    /// Difference to the last sample; `None` if this is the first sample, or if the thread ended.
    fn sample(&mut self) -> Option<Scheduled> {
        let current = self.schedstat.read().ok().and_then(Scheduled::parse);
        let delta = current.zip(self.previous).map(|(now, before)| Scheduled {
            ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: now.waited_ns.saturating_sub(before.waited_ns),
            runs: now.runs.saturating_sub(before.runs),
        });
        self.previous = current;
        delta
    }
}

impl Scheduled {
    /// Parses schedstat: two times in nanoseconds and a count (Documentation/scheduler/sched-stats.rst).
    fn parse(schedstat: &str) -> Option<Self> {
        let mut words = schedstat.split_ascii_whitespace();
        let mut next = || words.next()?.parse().ok();
        Some(Self {
            ran_ns: next()?,
            waited_ns: next()?,
            runs: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;
    use ProcessState::{Elsewhere, Gone, Running, Stopped, Unknown};
    use results::testing::modified;
    use std::process::{Command, Stdio};

    #[test]
    fn resident_memory_is_the_second_number_in_pages() {
        let found = resident_bytes("900 100 50 1 0 80 0\n");
        assert_eq!(found, Some((100 * page_bytes()) as f64));
        assert_eq!(resident_bytes("900"), None);
    }

    #[test]
    fn memory_that_is_touched_is_resident() {
        let mut process = OwnProcess::open("/".as_ref()).unwrap();
        let memory = std::hint::black_box(vec![1_u8; 256 << 20]);
        let cells = process.sample(Duration::from_secs(1));
        assert!(cells[0].1.unwrap() >= f64::from(256 << 20));
        drop(memory);
    }

    const LINE: &str = "77 (a) b (c) R 1 77 77 0 -1 4194304 107 0 0 0 5 6 7 8 20 0 1 0 4242 8192 210 18446744073709551615";

    fn machine(line: &str) -> FakeTree {
        let root = FakeTree::with_files(&[
            (BOOT_ID, "b00t\n"),
            ("proc/1/stat", "1 (init) S 0"),
            ("proc/77/stat", line),
        ]);
        std::os::unix::fs::symlink("pid:[4]", root.dir("proc/self/ns").join("pid")).unwrap();
        root
    }

    fn process() -> Process {
        Process {
            pid: 77,
            start_ticks: 4242,
            boot_id: "b00t".to_owned(),
            pid_namespace: Some("pid:[4]".to_owned()),
        }
    }

    #[test]
    fn a_process_is_identified_by_pid_start_time_and_boot() {
        let root = machine(LINE);
        let alive = |process: &Process| state_below(process, root.root());
        assert_eq!(alive(&process()), Running);
        let found = alive(&modified(process(), |it| it.start_ticks = 4243));
        assert_eq!(found, Gone, "the number was given again");
        assert_eq!(alive(&modified(process(), |it| it.pid = 78)), Gone);
        for pid_namespace in [Some("pid:[5]".to_owned()), None] {
            let elsewhere = modified(process(), |it| it.pid_namespace = pid_namespace);
            let other = modified(elsewhere.clone(), |it| it.pid = 78);
            assert_eq!(alive(&other), Elsewhere, "numbers of another container");
            let found = alive(&modified(elsewhere, |it| it.start_ticks = 1));
            assert_eq!(found, Elsewhere);
        }
        assert_eq!(
            alive(&modified(process(), |it| it.boot_id = "other".to_owned())),
            Elsewhere
        );
        root.remove("proc/1");
        let found = alive(&modified(process(), |it| it.pid = 78));
        assert_eq!(found, Unknown, "others are hidden");
        assert_eq!(state_below(&process(), Path::new("/nowhere")), Unknown);
    }

    #[test]
    fn a_stopped_process_and_a_zombie_are_distinguished() {
        for (state, alive) in [("T", Stopped), ("t", Stopped), ("Z", Gone), ("D", Running)] {
            let root = machine(&LINE.replacen(" R ", &format!(" {state} "), 1));
            assert_eq!(state_below(&process(), root.root()), alive, "{state}");
        }
        let root = machine("77 (torn");
        assert_eq!(state_below(&process(), root.root()), Unknown);
    }

    #[test]
    fn this_process_runs_and_a_child_is_gone_once_it_ended() {
        let Some(this) = this_process() else {
            return println!("skipped: /proc is not mounted");
        };
        let root = Path::new("/");
        assert_eq!(state_below(&this, root), Running);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let start_ticks = stat(root, child.id()).unwrap().unwrap().start_ticks;
        let process = Process {
            pid: child.id(),
            start_ticks,
            ..this
        };
        assert_eq!(state_below(&process, root), Running);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(state_below(&process, root), Gone);
    }
}

#[cfg(test)]
mod process_tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    const STATM: (&str, &str) = ("proc/self/statm", "900 100 50 1 0 80 0\n");

    fn task(root: &FakeTree, id: u32, name: &str, schedstat: &str) {
        root.write_all(
            format!("proc/self/task/{id}"),
            &[("comm", name), ("schedstat", schedstat)],
        );
    }

    #[test]
    fn each_issuing_thread_has_a_column_and_their_waits_add_up() {
        let root = FakeTree::with_files(&[STATM]);
        task(&root, 10, "flashproof", "1 1 1\n");
        task(&root, 12, "issue-10", "1000000000 5000000 7\n");
        task(&root, 11, "issue-2", "2000000000 0 7\n");
        let mut process = OwnProcess::open(root.root()).unwrap();
        let columns: Vec<_> = process
            .sample(Duration::ZERO)
            .into_iter()
            .map(|(column, _)| column.to_string())
            .collect();
        let names = "process.runqueue_wait_pct process.io_worker_runs/s thread.issue-2.cpu_pct thread.issue-10.cpu_pct";
        assert_eq!(columns[2..].join(" "), names);
        task(&root, 12, "issue-10", "1500000000 105000000 9\n");
        task(&root, 11, "issue-2", "2100000000 20000000 9\n");
        let mut values = || -> Vec<_> {
            process
                .sample(Duration::from_secs(1))
                .into_iter()
                .map(|(_, value)| value)
                .collect()
        };
        assert_eq!(
            values()[2..],
            [Some(12.0), Some(0.0), Some(10.0), Some(50.0)]
        );
        task(&root, 11, "issue-2", "");
        assert_eq!(
            values()[2..],
            [None, Some(0.0), None, Some(0.0)],
            "a thread that ended is unknown"
        );
    }

    #[test]
    fn runs_of_an_io_uring_worker_count_from_its_start() {
        let root = FakeTree::with_files(&[STATM]);
        task(&root, 11, "issue-0", "2000000000 0 700\n");
        let mut process = OwnProcess::open(root.root()).unwrap();
        let mut runs = |seconds| process.sample(Duration::from_secs(seconds))[3].1.unwrap();
        assert_eq!(runs(1), 0.0);
        task(&root, 20, "iou-wrk-11", "5000 0 30\n");
        task(&root, 21, "iou-wrk-11", "5000 0 12\n");
        assert_eq!(runs(2), 21.0);
        root.remove("proc/self/task/21");
        task(&root, 20, "iou-wrk-11", "9000 0 40\n");
        assert_eq!(runs(1), 10.0);
    }

    #[test]
    fn a_thread_with_the_prefix_of_issuing_threads_is_measured() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let busy = move || while told.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {};
        let thread = std::thread::Builder::new()
            .name("issue-4711".to_owned())
            .spawn(busy)
            .unwrap();
        let named = |process: &mut OwnProcess| {
            let column = Column::ThreadCpuPct.for_object("issue-4711");
            process
                .sample(Duration::ZERO)
                .iter()
                .position(|cell| cell.0 == column)
        };
        let mut process = OwnProcess::open("/".as_ref()).unwrap();
        // A thread sets its own name when it starts to run.
        while named(&mut process).is_none() {
            process = OwnProcess::open("/".as_ref()).unwrap();
        }
        let at = named(&mut process).unwrap();
        let mut ran = 0.0;
        for _ in 0..1_000 {
            ran += process.sample(Duration::from_secs(1))[at].1.unwrap_or(0.0);
            if ran > 0.0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        tell.send(()).unwrap();
        thread.join().unwrap();
        assert!(
            ran > 0.0 || !Path::new("/proc/self/schedstat").exists(),
            "it ran and it does not show"
        );
    }
}
