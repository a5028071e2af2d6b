//! The engine of threads with pread and pwrite, for systems on which io_uring and Linux AIO are impossible.
//!
//! The shard's thread queues operations. Workers take the operations, stamp issue and completion, and queue the
//! completions. Queues are lock-free rings of fixed size. A worker without work parks, and only as many workers are
//! woken as the queue needs. The worker stamps the issue time, because the wait for a worker is caused by flashproof:
//! it is lag, not service time.

use crate::calls::Caller;
use crate::setup::EngineSetup;
use crate::{IoEngine, Wait};
use crossbeam_queue::ArrayQueue;
use device::target::Target;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;
use sys::buffer::{Buf, Pool};
use sys::op::{Completion, Op};
use sys::process;

/// Maximum number of workers of a shard. Further operations wait for a worker.
pub const WORKERS_MAX: usize = 256;

const LARGE_BYTES: u32 = 64 * 1024;

/// Interval at which the number of workers is adjusted, nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// Time without completions after which a device counts as blocking its workers, ns. A busy CPU causes shorter gaps.
const HELD_NS: u64 = 10_000_000;

/// Stack of a worker, which runs only a few small functions; the default of 2 MiB would waste address space.
const STACK_BYTES: usize = 128 * 1024;

struct SharedQueues {
    setup: EngineSetup,
    /// Queue of large operations (few: one at a time per device). Workers take these first, because otherwise each
    /// would wait behind all small operations.
    large_jobs: ArrayQueue<Op>,
    jobs: ArrayQueue<Op>,
    completions: ArrayQueue<Completion>,
    /// A bit per idle worker. The lowest is woken first, so that a light load stays on few threads with warm caches.
    idle: [AtomicU64; WORKERS_MAX / 64],
    /// Number of completions that wake the shard's thread; `usize::MAX`: none.
    wake_threshold: AtomicUsize,
    /// True if a large operation has completed since the last poll of the shard's thread.
    large_done: AtomicBool,
    is_stopped: AtomicBool,
}

/// A shard's workers and targets.
pub struct Threads {
    shared: Arc<SharedQueues>,
    workers: Vec<Thread>,
    pool: Pool,
    in_flight: usize,
    /// Operations queued since workers were last woken.
    unannounced: usize,
    reaped: u64,
    worker_limit: WorkerLimit,
}

/// Number of workers that may be awake at once: the lowest that keeps the queue short, because workers compete for the
/// CPU. In measurements each superfluous worker slowed down all others, and the device got too few operations. But if a
/// device blocks all awake workers, the operations behind them need further workers.
#[derive(Debug)]
struct WorkerLimit {
    workers: usize,
    workers_min: usize,
    workers_max: usize,
    adjusted_ns: u64,
    /// Number of completions at the last progress.
    completed: u64,
    /// Last time at which a new completion was found, or no operation was queued.
    progress_ns: u64,
}

impl WorkerLimit {
    /// Adjusts the number of workers, at most once per [`STEP_NS`]. `waiting`: operations in the queue that no worker
    /// has taken since the previous call. `completed`: completions since the start.
    fn adjust(&mut self, now_ns: u64, waiting: usize, completed: u64) {
        if now_ns < self.adjusted_ns + STEP_NS {
            return;
        }
        self.adjusted_ns = now_ns;
        if completed > self.completed || waiting == 0 {
            (self.completed, self.progress_ns) = (completed, now_ns);
        }
        let workers = match waiting {
            0 => self.workers.saturating_sub(1),
            // No completions: the device blocks all workers.
            left if now_ns >= self.progress_ns + HELD_NS => self.workers + left,
            _ => self.workers + 1,
        };
        self.workers = workers.clamp(self.workers_min, self.workers_max);
    }
}

impl Threads {
    /// An engine with up to `workers_max` workers (at most [`WORKERS_MAX`]). Errors: no memory or threads available.
    pub fn new(
        workers_max: usize,
        targets: &[Arc<Target>],
        setup: EngineSetup,
    ) -> io::Result<Self> {
        let in_flight_max = setup.in_flight_max;
        let shared = Arc::new(SharedQueues {
            setup,
            large_jobs: ArrayQueue::new(in_flight_max.max(1)),
            jobs: ArrayQueue::new(in_flight_max.max(1)),
            completions: ArrayQueue::new(in_flight_max.max(1)),
            idle: Default::default(),
            wake_threshold: AtomicUsize::new(usize::MAX),
            large_done: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        });
        let thread_count = in_flight_max.clamp(1, workers_max.min(WORKERS_MAX));
        let workers_min = thread::available_parallelism()
            .map_or(1, |cpus| cpus.get())
            .min(thread_count);
        let level = WorkerLimit {
            workers: workers_min,
            workers_min,
            workers_max: thread_count,
            adjusted_ns: 0,
            completed: 0,
            progress_ns: 0,
        };
        let workers = Vec::new();
        let pool = Pool::new(setup.memory_bytes)?;
        let mut engine = Self {
            shared,
            workers,
            pool,
            in_flight: 0,
            unannounced: 0,
            reaped: 0,
            worker_limit: level,
        };
        let owner = thread::current();
        let targets: Arc<[_]> = targets.into();
        for index in 0..thread_count {
            let shared = engine.shared.clone();
            let owner = owner.clone();
            let targets = targets.clone();
            let builder = thread::Builder::new()
                .name(format!("io-{index}"))
                .stack_size(STACK_BYTES);
            // If a later thread fails to start, dropping `engine` stops the earlier ones.
            let worker = builder.spawn(move || {
                work(&shared, index, &owner, Caller::new(targets, setup));
            })?;
            engine.workers.push(worker.thread().clone());
        }
        Ok(engine)
    }

    /// Wakes an idle worker for each queued operation, up to [`WorkerLimit::workers`].
    fn announce(&mut self, now_ns: u64) {
        let queued = self.shared.queued();
        let completed = self.reaped + self.shared.completions.len() as u64;
        self.worker_limit
            .adjust(now_ns, queued.saturating_sub(self.unannounced), completed);
        self.unannounced = 0;
        // Pairs with the fence in `work`: either this thread sees the idle bit, or the worker sees the operation.
        std::sync::atomic::fence(Ordering::SeqCst);
        let idle: u32 = self
            .shared
            .idle
            .iter()
            .map(|bits| bits.load(Ordering::Relaxed).count_ones())
            .sum();
        let awake = self.workers.len() - (idle as usize).min(self.workers.len());
        let mut wake_count = queued.min(self.worker_limit.workers.saturating_sub(awake));
        for (group, bits) in self.shared.idle.iter().enumerate() {
            while wake_count > 0 {
                let idle = bits.load(Ordering::Relaxed);
                if idle == 0 {
                    break;
                }
                let lowest = idle.trailing_zeros();
                if bits.fetch_and(!(1 << lowest), Ordering::AcqRel) & (1 << lowest) != 0 {
                    self.workers[group * 64 + lowest as usize].unpark();
                    wake_count -= 1;
                }
            }
        }
        // Awake workers need no wake-up: they check the queue again before they park.
    }
}

impl SharedQueues {
    /// Operations that no worker has taken.
    fn queued(&self) -> usize {
        self.large_jobs.len() + self.jobs.len()
    }
}

impl IoEngine for Threads {
    type Op = Op;
    type Completion = Completion;

    fn now(&mut self) -> u64 {
        self.shared.setup.clock_ns()
    }

    fn submit(&mut self, op: Op) {
        let queue = if op.len >= LARGE_BYTES {
            &self.shared.large_jobs
        } else {
            &self.shared.jobs
        };
        // Each queue holds the maximum number of operations in flight, so the push never fails.
        if queue.push(op).is_ok() {
            self.in_flight += 1;
            self.unannounced += 1;
        }
    }

    fn reap(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let now_ns = self.shared.setup.clock_ns();
        self.announce(now_ns);
        let requested_completions = (wait.completions as usize).max(1);
        self.shared
            .wake_threshold
            .store(requested_completions, Ordering::SeqCst);
        loop {
            let now_ns = self.shared.setup.clock_ns();
            // Large operations are issued one at a time, and the next waits for this completion, so return at once.
            let large_done = self.shared.large_done.load(Ordering::SeqCst);
            if now_ns >= wait.until_ns
                || self.shared.completions.len() >= requested_completions
                || large_done
            {
                break;
            }
            self.announce(now_ns);
            let has_queued = self.shared.queued() > 0;
            let pause_ns = wait.until_ns - now_ns;
            thread::park_timeout(Duration::from_nanos(if has_queued {
                pause_ns.min(STEP_NS)
            } else {
                pause_ns
            }));
        }
        self.shared
            .wake_threshold
            .store(usize::MAX, Ordering::Relaxed);
        // Cleared before the completions are taken, so that a later completion is not missed.
        self.shared.large_done.store(false, Ordering::SeqCst);
        while let Some(completion) = self.shared.completions.pop() {
            self.in_flight -= 1;
            self.reaped += 1;
            completions.push(completion);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.pool.cut(len)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Workers are not joined: a worker blocked by a hung device never ends. A worker owns all memory that it uses.
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        self.workers.iter().for_each(Thread::unpark);
    }
}

fn work(shared: &SharedQueues, index: usize, owner: &Thread, mut caller: Caller) {
    process::sharpen_timers();
    let bits = &shared.idle[index / 64];
    let bit = 1_u64 << (index % 64);
    while !shared.is_stopped.load(Ordering::Relaxed) {
        if let Some(op) = shared.large_jobs.pop().or_else(|| shared.jobs.pop()) {
            let large = op.len >= LARGE_BYTES;
            let completion = caller.perform(op);
            // The queue holds the maximum number of operations, so the push never fails.
            let _ = shared.completions.push(completion);
            if large {
                shared.large_done.store(true, Ordering::SeqCst);
            }
            if large || shared.completions.len() >= shared.wake_threshold.load(Ordering::SeqCst) {
                owner.unpark();
            }
            continue;
        }
        bits.fetch_or(bit, Ordering::AcqRel);
        std::sync::atomic::fence(Ordering::SeqCst);
        if shared.queued() == 0 && !shared.is_stopped.load(Ordering::SeqCst) {
            thread::park();
        }
        bits.fetch_and(!bit, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_workers_follows_the_queue_and_jumps_when_the_device_blocks_them_all() {
        let mut level = WorkerLimit {
            workers: 2,
            workers_min: 2,
            workers_max: 256,
            adjusted_ns: 0,
            completed: 0,
            progress_ns: 0,
        };
        level.adjust(STEP_NS / 2, 10, 0);
        assert_eq!(level.workers, 2, "not before its time");
        level.adjust(STEP_NS, 10, 5);
        level.adjust(2 * STEP_NS, 10, 9);
        assert_eq!(
            level.workers, 4,
            "one more at a time while operations are left and others complete"
        );
        (3..12).for_each(|step| level.adjust(step * STEP_NS, 40, 9));
        assert_eq!(level.workers, 13);
        level.adjust(12 * STEP_NS, 40, 9);
        assert_eq!(
            level.workers, 53,
            "one for each that is left when nothing completed for 10 ms"
        );
        level.adjust(13 * STEP_NS, 1_000, 9);
        assert_eq!(level.workers, 256);
        (14..400).for_each(|step| level.adjust(step * STEP_NS, 0, 9 + step));
        assert_eq!(level.workers, 2, "and fewer again when none is left");
    }
}
