//! The engine of synchronous system calls: each operation is a call of the issuing thread, like the pwrite and
//! fdatasync calls of databases.
//!
//! A call blocks until the device answers, without a time limit. A run loop that must continue meanwhile takes each
//! operation from the engine ([`Calls::next_call`]), and an issuing thread performs the call with its own [`Caller`].

use crate::setup::EngineSetup;
use crate::{IoEngine, Wait};
use device::target::Target;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use sys::buffer::{Buf, Pool};
use sys::call::{MapAccess, Mapped, perform_call};
use sys::op::{Completion, Op, Outcome, Priority, TargetId};
use sys::process::{RunDelay, set_io_priority};

/// Minimum service time after which the thread's run delay (its time without a CPU) is read, in units of
/// [`EngineSetup::harmless_gap_ns`]. The tightest threshold is 20 units. An operation shorter than 5 units exceeds that
/// threshold only with a lag of more than 15 units. Reading the run delay costs a quarter of an operation.
const LONG_GAPS: u64 = 5;

/// Interval at which the run delay between operations is discarded, nanoseconds.
const DISCARD_NS: u64 = 1_000_000;

/// Performs calls on the thread that created it.
pub struct Caller {
    setup: EngineSetup,
    targets: Arc<[Arc<Target>]>,
    /// By target: its mapping; `None`: system calls.
    mapped: Arc<[Option<Mapped>]>,
    /// Time that the thread lacked a CPU. Reading costs a system call: read only after long operations, and every
    /// [`DISCARD_NS`] to discard earlier delay.
    run_delay: RunDelay,
    run_delay_read_ns: u64,
    /// Current I/O priority of the thread: the priority of the last operation.
    priority: Priority,
    /// After operations shorter than this, the run delay is not looked up, see [`LONG_GAPS`].
    long_ns: u64,
}

impl Caller {
    pub(crate) fn new(targets: Arc<[Arc<Target>]>, setup: EngineSetup) -> Self {
        let run_delay = RunDelay::of_this_thread();
        let long_ns = LONG_GAPS * setup.harmless_gap_ns;
        let mapped = Arc::default();
        let run_delay_read_ns = 0;
        let priority = Priority::default();
        Self {
            setup,
            targets,
            mapped,
            run_delay,
            run_delay_read_ns,
            priority,
            long_ns,
        }
    }

    /// Performs an operation, with time stamps of issue and completion.
    pub fn perform(&mut self, mut op: Op) -> Completion {
        let target_index = usize::from(op.target);
        let target = &self.targets[target_index];
        let fd = target.fd();
        let hint = target.write_hint();
        let mut denied_errno = None;
        if op.priority != self.priority {
            match set_io_priority(op.priority) {
                Ok(()) => self.priority = op.priority,
                Err(error) => denied_errno = Some(error.raw_os_error().unwrap_or_default()),
            }
        }
        let mut issued_ns = self.setup.clock_ns();
        if issued_ns > self.run_delay_read_ns + DISCARD_NS {
            self.run_delay.since_last_ns();
            issued_ns = self.setup.clock_ns();
            self.run_delay_read_ns = issued_ns;
        }
        let outcome = match (denied_errno, self.mapped.get(target_index)) {
            (Some(errno), _) => Outcome::Errno(errno),
            (None, Some(Some(mapped))) => mapped.perform_call(fd, &mut op),
            (None, _) => perform_call(fd, hint, &mut op),
        };
        let completed_ns = self.setup.clock_ns();
        let service_ns = completed_ns - issued_ns;
        let unseen_ns = if service_ns < self.long_ns {
            0
        } else {
            self.run_delay_read_ns = completed_ns;
            self.run_delay.since_last_ns().min(service_ns)
        };
        Completion {
            token: op.token,
            buf: op.buf,
            outcome,
            issued_ns,
            completed_ns,
            unseen_ns,
        }
    }
}

/// Targets that are accessed as mapped memory instead of by system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedTargets {
    /// Targets that are mapped.
    pub targets: Vec<TargetId>,
    /// Access pattern and durability of the mappings.
    pub access: MapAccess,
}

/// A shard's queue of calls, and its targets.
pub struct Calls {
    setup: EngineSetup,
    targets: Arc<[Arc<Target>]>,
    mapped: Arc<[Option<Mapped>]>,
    pool: Pool,
    queued: VecDeque<Op>,
    /// Operations returned by [`Calls::next_call`] and not yet finished.
    handed_out: usize,
    finished: Vec<Completion>,
    /// Time of the last completion, which the next [`IoEngine::now`] returns without reading the clock.
    ended_ns: Option<u64>,
    now_ns: u64,
    /// Performs the calls in [`IoEngine::reap`]; created on first use.
    own_caller: Option<Caller>,
}

impl Calls {
    /// An engine for `targets`. Errors: no memory.
    pub fn new(targets: Arc<[Arc<Target>]>, setup: EngineSetup) -> io::Result<Self> {
        Ok(Self {
            setup,
            targets,
            mapped: Arc::default(),
            pool: Pool::new(setup.memory_bytes)?,
            queued: VecDeque::new(),
            handed_out: 0,
            finished: Vec::new(),
            ended_ns: None,
            now_ns: 0,
            own_caller: None,
        })
    }

    /// Maps the targets of `mapping`, so that their operations are page faults. Errors: those of mmap(2).
    pub fn mapping(self, mapping: &MappedTargets) -> io::Result<Self> {
        let mapped = (0..)
            .zip(&*self.targets)
            .map(|(number, target): (TargetId, &Arc<Target>)| {
                mapping
                    .targets
                    .contains(&number)
                    .then(|| target.map(mapping.access))
                    .transpose()
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { mapped, ..self })
    }

    /// A caller for this engine's operations, on the calling thread.
    pub fn caller(&self) -> Caller {
        Caller {
            mapped: self.mapped.clone(),
            ..Caller::new(self.targets.clone(), self.setup)
        }
    }

    /// Takes the oldest submitted operation, for a [`Caller`]. Its completion goes to [`Calls::finish`].
    #[inline]
    pub fn next_call(&mut self) -> Option<Op> {
        let op = self.queued.pop_front()?;
        self.handed_out += 1;
        Some(op)
    }

    /// Accepts the completion of a call, which the next [`IoEngine::reap`] returns.
    #[inline]
    pub fn finish(&mut self, completion: Completion) {
        self.handed_out -= 1;
        self.ended_ns = Some(completion.completed_ns);
        self.finished.push(completion);
    }
}

impl IoEngine for Calls {
    type Op = Op;
    type Completion = Completion;

    #[inline]
    fn now(&mut self) -> u64 {
        self.now_ns = self
            .ended_ns
            .take()
            .unwrap_or_else(|| self.setup.clock_ns())
            .max(self.now_ns);
        self.now_ns
    }

    #[inline]
    fn submit(&mut self, op: Op) {
        self.queued.push_back(op);
    }

    /// Performs the next call, unless earlier completions wait. The call may exceed the bounds of `wait`.
    fn reap(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.finished.is_empty() {
            if let Some(op) = self.next_call() {
                let mut caller = self.own_caller.take().unwrap_or_else(|| self.caller());
                self.finish(caller.perform(op));
                self.own_caller = Some(caller);
            } else {
                thread::sleep(Duration::from_nanos(
                    wait.until_ns.saturating_sub(self.now()),
                ));
            }
        }
        completions.append(&mut self.finished);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.handed_out + self.finished.len()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.pool.cut(len)
    }
}
