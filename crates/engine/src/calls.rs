//! The engine of synchronous system calls: each operation is a call of the issuing thread, as databases issue their
//! pwrite and fdatasync.
//!
//! A call blocks until the device answers, however long that takes. A run loop that must go on meanwhile takes each
//! operation from the engine ([`Calls::next_call`]), and its issuing thread performs the call with its own [`Caller`].

use crate::queued::Setup;
use crate::{IoEngine, Wait};
use device::target::Target;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use sys::buffer::{Buf, Pool};
use sys::call::{Access, Mapped, carry_out};
use sys::op::{Completion, Op, Outcome, Priority, TargetId};
use sys::process::{RunDelay, set_io_priority};

/// In harmless gaps: a quarter of the tightest threshold. For shorter operations the time that the thread was without a
/// CPU is not looked up: they exceed the threshold only after a wait three times as long. A lookup costs a quarter of
/// an operation.
const LONG_GAPS: u64 = 5;

/// Interval at which the time without a CPU between operations is discarded, nanoseconds.
const DISCARD_NS: u64 = 1_000_000;

/// A thread that performs calls. Belongs to the thread that made it.
pub struct Caller {
    setup: Setup,
    targets: Arc<[Arc<Target>]>,
    /// By target: its mapping, if operations go through one.
    mapped: Arc<[Option<Mapped>]>,
    /// A lookup costs a system call. Done after long operations, and every [`DISCARD_NS`] to discard the time before an
    /// operation.
    run_delay: RunDelay,
    looked_up_ns: u64,
    /// I/O priority of the last operation, which the thread still has.
    priority: Priority,
    /// Operations shorter than this need no lookup, see [`LONG_GAPS`].
    long_ns: u64,
}

impl Caller {
    /// A caller for the calling thread.
    pub(crate) fn new(targets: Arc<[Arc<Target>]>, setup: Setup) -> Self {
        let (run_delay, long_ns) = (RunDelay::of_this_thread(), LONG_GAPS * setup.harmless_gap_ns);
        let (mapped, looked_up_ns, priority) = (Arc::default(), 0, Priority::default());
        Self { setup, targets, mapped, run_delay, looked_up_ns, priority, long_ns }
    }

    /// Performs one operation, and stamps its issue and completion.
    pub fn perform(&mut self, mut op: Op) -> Completion {
        let place = usize::from(op.target);
        let target = &self.targets[place];
        let (fd, hint) = (target.fd(), target.write_hint());
        let mut denied = None;
        if op.priority != self.priority {
            match set_io_priority(op.priority) {
                Ok(()) => self.priority = op.priority,
                Err(error) => denied = Some(error.raw_os_error().unwrap_or_default()),
            }
        }
        let mut issued_ns = self.setup.clock_ns();
        if issued_ns > self.looked_up_ns + DISCARD_NS {
            self.run_delay.since_last_ns();
            issued_ns = self.setup.clock_ns();
            self.looked_up_ns = issued_ns;
        }
        let outcome = match (denied, self.mapped.get(place)) {
            (Some(errno), _) => Outcome::Errno(errno),
            (None, Some(Some(mapped))) => mapped.carry_out(fd, &mut op),
            (None, _) => carry_out(fd, hint, &mut op),
        };
        let completed_ns = self.setup.clock_ns();
        let service_ns = completed_ns - issued_ns;
        let unseen_ns = if service_ns < self.long_ns {
            0
        } else {
            self.looked_up_ns = completed_ns;
            self.run_delay.since_last_ns().min(service_ns)
        };
        Completion { token: op.token, buf: op.buf, outcome, issued_ns, completed_ns, unseen_ns }
    }
}

/// Targets accessed as mapped memory, not by system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Targets that are mapped.
    pub targets: Vec<TargetId>,
    /// Use of the mappings.
    pub access: Access,
}

/// A shard's queue of calls, and its targets.
pub struct Calls {
    setup: Setup,
    targets: Arc<[Arc<Target>]>,
    mapped: Arc<[Option<Mapped>]>,
    pool: Pool,
    queued: VecDeque<Op>,
    /// Operations handed out by [`Calls::next_call`] and not yet finished.
    handed_out: usize,
    finished: Vec<Completion>,
    /// Time of the last completion. The next [`IoEngine::now`] returns it instead of reading the clock.
    ended_ns: Option<u64>,
    /// Last instant that [`IoEngine::now`] returned.
    now_ns: u64,
    /// Performs the calls of [`IoEngine::reap`], made on first use.
    own: Option<Caller>,
}

impl Calls {
    /// An engine for `targets`. Errors: no memory.
    pub fn new(targets: Arc<[Arc<Target>]>, setup: Setup) -> io::Result<Self> {
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
            own: None,
        })
    }

    /// Maps the targets of `mapping`, whose operations then are page faults. Errors: those of mmap(2).
    pub fn mapping(self, mapping: &Mapping) -> io::Result<Self> {
        let map = |(number, target): (TargetId, &Arc<Target>)| {
            mapping.targets.contains(&number).then(|| target.map(mapping.access)).transpose()
        };
        let mapped = (0..).zip(&*self.targets).map(map).collect::<io::Result<_>>()?;
        Ok(Self { mapped, ..self })
    }

    /// Performs this engine's calls on the calling thread.
    pub fn caller(&self) -> Caller {
        Caller { mapped: self.mapped.clone(), ..Caller::new(self.targets.clone(), self.setup) }
    }

    /// Takes the oldest submitted operation, for a [`Caller`]. Its completion goes to [`Calls::finish`].
    #[inline]
    pub fn next_call(&mut self) -> Option<Op> {
        let op = self.queued.pop_front()?;
        self.handed_out += 1;
        Some(op)
    }

    /// Takes the completion of a call; the next [`IoEngine::reap`] returns it.
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
        self.now_ns = self.ended_ns.take().unwrap_or_else(|| self.setup.clock_ns()).max(self.now_ns);
        self.now_ns
    }

    #[inline]
    fn submit(&mut self, op: Op) {
        self.queued.push_back(op);
    }

    /// Performs the next call, unless one has finished. The call itself may take longer than `wait` says.
    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        if self.finished.is_empty() {
            if let Some(op) = self.next_call() {
                let mut caller = self.own.take().unwrap_or_else(|| self.caller());
                self.finish(caller.perform(op));
                self.own = Some(caller);
            } else {
                thread::sleep(Duration::from_nanos(wait.until_ns.saturating_sub(self.now())));
            }
        }
        out.append(&mut self.finished);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.handed_out + self.finished.len()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.pool.cut(len)
    }
}
