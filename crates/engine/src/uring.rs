//! The engine of io_uring: registered files and buffers, one ring a shard, one wait for all targets.

use crate::{IoEngine, Wait};
use device::target::Target;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use sys::buffer::Buf;
use sys::op::{Completion, Op};
use sys::process::RunDelay;
use sys::ring::{Ring, RingFacts};

/// Operations handed over at once. The kernel works through a batch before the call returns, so the
/// last of a long one would be issued later than it is stamped.
const BATCH: usize = 16;

/// A call that did not sleep takes less than this.
const CALL_NS: u64 = 5_000;

/// A shard's ring and targets. Lives on the thread that made it.
pub struct Uring {
    epoch: Instant,
    ring: Ring,
    /// When the completion queue was last known to be looked at, or was being waited on.
    looked_ns: u64,
    run_delay: RunDelay,
    // The descriptors registered with the ring; last, so that they outlive it.
    _targets: Vec<Arc<Target>>,
}

impl Uring {
    /// A engine for `targets` with at most `in_flight_max` operations out and `memory_bytes` of buffers.
    ///
    /// `epoch` is instant 0 of its clock (CLOCK_MONOTONIC). Errors: those of io_uring_setup(2) and
    /// io_uring_register(2); `PermissionDenied` where io_uring is forbidden.
    pub fn new(
        targets: Vec<Arc<Target>>,
        in_flight_max: usize,
        memory_bytes: usize,
        epoch: Instant,
    ) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let (ring, facts) = Ring::new(&files, in_flight_max, memory_bytes)?;
        let run_delay = RunDelay::of_this_thread();
        Ok((Self { epoch, ring, looked_ns: 0, run_delay, _targets: targets }, facts))
    }

    fn clock_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Appends all completions that are there, as seen now.
    fn look(&mut self, out: &mut Vec<Completion>) {
        let seen_ns = self.clock_ns();
        while let Some((op, outcome, issued_ns)) = self.ring.pop() {
            let unseen_ns = seen_ns - self.looked_ns.max(issued_ns).min(seen_ns);
            out.push(Completion { op, outcome, issued_ns, completed_ns: seen_ns.max(issued_ns), unseen_ns });
        }
        self.looked_ns = seen_ns;
    }
}

impl IoEngine for Uring {
    const VIRTUAL: bool = false;

    fn now(&mut self) -> u64 {
        self.clock_ns()
    }

    fn submit(&mut self, op: Op) {
        let mut op = op;
        // The submission queue can be full for a moment; the kernel empties it in every `enter`.
        while let Err(back) = self.ring.push(op) {
            op = back;
            let now_ns = self.clock_ns();
            // An error here comes again in `reap`, which reports it.
            if self.ring.enter(now_ns, 0, 0).is_err() {
                return;
            }
        }
        if self.ring.pushed() >= BATCH {
            let now_ns = self.clock_ns();
            let _ = self.ring.enter(now_ns, 0, 0);
        }
    }

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        let now_ns = self.clock_ns();
        let timeout_ns = wait.until_ns.saturating_sub(now_ns);
        self.ring.enter(now_ns, wait.completions, timeout_ns)?;
        if timeout_ns > 0 && wait.completions == 1 {
            // The kernel was watching for us and woke us for the first, so nothing lay unseen but for as
            // long as we had no CPU. Unless it was there already: then the call did not sleep.
            let (woke_ns, waited_ns) = (self.clock_ns(), self.run_delay.since_last_ns());
            if woke_ns > now_ns + CALL_NS {
                self.looked_ns = self.looked_ns.max(woke_ns.saturating_sub(waited_ns));
            }
        }
        self.look(out);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.ring.in_flight()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.ring.buffer(len)
    }
}
