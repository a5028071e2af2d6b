//! Engines on a queue of the kernel, io_uring or AIO: one queue per shard, one wait for all targets.

use crate::setup::EngineSetup;
use crate::threads::Threads;
use crate::{BATCH, IoEngine};
use device::target::Target;
use std::io;
use std::sync::Arc;
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Outcome, Queue, Reaped, Wait};
use sys::process::RunDelay;

/// Maximum wait on the queue while helper threads have operations in flight, nanoseconds.
const LOOK_NS: u64 = 100_000;

/// Polling time before a thread sleeps, ns. Wait and wake-up take longer; devices in memory often complete in time.
const AWAKE_NS: u64 = 1_000;

/// Time at which the engine saw a completion.
pub(crate) struct Detection {
    pub(crate) at_ns: u64,
    /// Upper bound of the time between completion and detection, nanoseconds.
    pub(crate) unseen_ns: u64,
}

/// Operations that a queue supports. Helper threads perform the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSupport {
    pub(crate) deallocates: bool,
    pub(crate) writes_back: bool,
    /// True if the queue may return operations that would block: `EAGAIN`, `EOPNOTSUPP` (always blocks), partly done.
    pub(crate) gives_back: bool,
    /// True if each write can name its write stream. Otherwise the stream of the inode applies.
    pub(crate) names_streams: bool,
}

impl QueueSupport {
    /// No limits: the queue performs all operations.
    pub(crate) const NONE: Self = Self {
        deallocates: true,
        writes_back: true,
        gives_back: false,
        names_streams: true,
    };
}

/// A shard's queue and targets. Must stay on the thread that created it.
pub struct Queued<Q> {
    setup: EngineSetup,
    queue: Q,
    /// Last time at which the completion queue was polled, or a wait on it ended.
    last_poll_ns: u64,
    run_delay: RunDelay,
    /// Completions of refused operations, for the next reap.
    pub(crate) refused: Vec<Completion>,
    limits: QueueSupport,
    /// Threads for unsupported operations. Started on first use; with [`QueueSupport::gives_back`], before the run.
    helper_threads: Option<Threads>,
    /// Operations that the queue returned, with the times of their submission to the queue.
    given_back: Vec<(Op, u64)>,
    /// By token: submission time of an operation that the queue returned.
    submitted_ns: Vec<Option<u64>>,
    // Last field, so dropped after the queue: the targets hold the guard's claim of their devices.
    pub(crate) targets: Vec<Arc<Target>>,
}

impl<Q: Queue> Queued<Q> {
    /// An engine on `queue`. `helper_threads`: helper threads, for a queue that may return operations.
    pub(crate) fn on(
        queue: Q,
        targets: Vec<Arc<Target>>,
        limits: QueueSupport,
        helper_threads: Option<Threads>,
        setup: EngineSetup,
    ) -> Self {
        Self {
            setup,
            limits,
            queue,
            last_poll_ns: 0,
            run_delay: RunDelay::of_this_thread(),
            refused: Vec::new(),
            helper_threads,
            given_back: Vec::new(),
            submitted_ns: vec![
                None;
                if limits.gives_back {
                    setup.in_flight_max
                } else {
                    0
                }
            ],
            targets,
        }
    }

    /// Queues an operation. A full queue is submitted at once; otherwise the next wait submits it.
    pub(crate) fn queue(&mut self, mut op: Q::Op) {
        // The submission queue can be full; `enter` empties it.
        while let Err(rejected) = self.queue.push(op) {
            op = rejected;
            let now_ns = self.clock_ns();
            // The error is ignored here, because the next `reap` gets and reports it.
            if self.queue.enter(now_ns, None).is_err() {
                return;
            }
        }
    }

    /// Queues an operation, and submits the queue if it has a whole batch.
    pub(crate) fn push(&mut self, op: Q::Op) {
        self.queue(op);
        if self.queue.pushed() >= BATCH {
            let now_ns = self.clock_ns();
            let _ = self.queue.enter(now_ns, None);
        }
    }

    pub(crate) fn clock_ns(&self) -> u64 {
        self.setup.clock_ns()
    }

    /// Submits queued operations and lets the kernel post completions. Called often, mostly with nothing to do.
    fn submit_queued(&mut self, now_ns: u64) -> io::Result<()> {
        if self.queue.pushed() > 0 || self.queue.is_ready() {
            self.queue.enter(now_ns, None)
        } else {
            Ok(())
        }
    }

    /// Sleeps until a completion wakes the thread. This completion stays unseen only while the woken thread has no CPU.
    fn await_first(&mut self, until_ns: u64) -> io::Result<()> {
        let mut asleep_ns = self.clock_ns();
        // A single operation completes only after its submission, so one call submits it and waits. With several
        // operations, others may complete before or during the submission. Those completions are collected after the
        // submission, and may have been unseen since the last poll.
        if self.queue.in_flight() > 1 || self.queue.pushed() == 0 {
            self.submit_queued(asleep_ns)?;
            if self.queue.has_completions() {
                return Ok(());
            }
            asleep_ns = self.clock_ns();
            let sleeps_ns = until_ns.min(asleep_ns + AWAKE_NS);
            while asleep_ns < sleeps_ns {
                if self.queue.is_ready() {
                    return self.queue.enter(asleep_ns, None);
                }
                self.last_poll_ns = asleep_ns;
                std::hint::spin_loop();
                asleep_ns = self.clock_ns();
            }
        }
        self.queue.enter(asleep_ns, Some(Wait::first(until_ns)))?;
        let woke_ns = self.clock_ns();
        let gap_ns = match woke_ns - asleep_ns {
            slept_ns if slept_ns > self.setup.harmless_gap_ns => {
                self.run_delay.since_last_ns().min(slept_ns)
            }
            _ => 0,
        };
        self.last_poll_ns = woke_ns - gap_ns;
        Ok(())
    }

    pub(crate) fn wait(&mut self, wait: Wait) -> io::Result<()> {
        let now_ns = self.clock_ns();
        if wait.until_ns <= now_ns {
            self.submit_queued(now_ns)
        } else if wait.completions == 1 {
            self.await_first(wait.until_ns)
        } else {
            self.queue.enter(now_ns, Some(wait))
        }
    }

    pub(crate) fn reap_completions(
        &mut self,
        mut on_reaped: impl FnMut(Reaped<Q::Op, Q::Outcome>, Detection),
    ) {
        let seen_ns = self.clock_ns();
        let last_poll_ns = self.last_poll_ns;
        self.queue.reap(|reaped| {
            let unseen_ns = seen_ns - last_poll_ns.max(reaped.issued_ns).min(seen_ns);
            let at_ns = seen_ns.max(reaped.issued_ns);
            on_reaped(reaped, Detection { at_ns, unseen_ns });
        });
        self.last_poll_ns = seen_ns;
    }

    pub(crate) fn queue_mut(&mut self) -> &mut Q {
        &mut self.queue
    }

    pub(crate) fn operations(&self) -> usize {
        self.queue.in_flight()
    }

    /// Completes an operation with `errno`, without issuing the operation.
    pub(crate) fn refuse(&mut self, op: Op, errno: i32) {
        let issued_ns = self.clock_ns();
        let Op { token, buf, .. } = op;
        let outcome = Outcome::Errno(errno);
        self.refused.push(Completion {
            token,
            buf,
            outcome,
            issued_ns,
            completed_ns: issued_ns,
            unseen_ns: 0,
        });
    }
}

impl<Q: Queue<Op = Op, Outcome = Outcome>> Queued<Q> {
    /// For operations that the queue returned: sets the issue time to the first submission, when the device had no
    /// room. The time until a helper thread issued the operation may be flashproof's lag: this time counts as unseen.
    fn backdate_issue(&mut self, completions: &mut [Completion]) {
        for completion in completions {
            let submitted_ns = self
                .submitted_ns
                .get_mut(completion.token as usize)
                .and_then(Option::take);
            if let Some(submitted_ns) = submitted_ns {
                completion.unseen_ns += completion.issued_ns.saturating_sub(submitted_ns);
                completion.issued_ns = submitted_ns;
            }
        }
    }

    /// Performs an operation on a helper thread.
    fn submit_beside(&mut self, op: Op) {
        if self.helper_threads.is_none() {
            match Threads::new(
                1,
                &self.targets,
                EngineSetup {
                    memory_bytes: 0,
                    ..self.setup
                },
            ) {
                Ok(threads) => self.helper_threads = Some(threads),
                Err(error) => return self.refuse(op, error.raw_os_error().unwrap_or(libc::EAGAIN)),
            }
        }
        if let Some(threads) = &mut self.helper_threads {
            threads.submit(op);
        }
    }
}

impl<Q: Queue<Op = Op, Outcome = Outcome>> IoEngine for Queued<Q> {
    type Op = Op;
    type Completion = Completion;

    #[inline]
    fn now(&mut self) -> u64 {
        self.clock_ns()
    }

    #[inline]
    fn submit(&mut self, op: Op) {
        let target = &self.targets[usize::from(op.target)];
        if let Some(placement) = op.placement {
            let has_stream = if self.limits.names_streams {
                placement.0 <= target.write_streams()
            } else {
                placement.0 == target.write_hint()
            };
            if !has_stream {
                return self.refuse(op, libc::EOPNOTSUPP);
            }
        }
        match op.kind {
            OpKind::Deallocate if !self.limits.deallocates => self.submit_beside(op),
            OpKind::WriteBack(steps) if steps.drop_cache || !self.limits.writes_back => {
                self.submit_beside(op)
            }
            _ => self.push(op),
        }
    }

    fn reap(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let mut until_ns = wait.until_ns;
        let is_idle =
            self.queue.in_flight() == 0 && self.refused.is_empty() && completions.is_empty();
        if let Some(threads) = self
            .helper_threads
            .as_mut()
            .filter(|threads| threads.in_flight() > 0)
        {
            // Completions of helper threads do not wake the queue.
            threads.reap(if is_idle { wait } else { Wait::first(0) }, completions)?;
            self.backdate_issue(completions);
            until_ns = until_ns.min(self.clock_ns() + LOOK_NS);
        }
        if !self.refused.is_empty() || !completions.is_empty() {
            until_ns = 0;
        }
        self.wait(Wait { until_ns, ..wait })?;
        let gives_back = self.limits.gives_back;
        let mut given_back = std::mem::take(&mut self.given_back);
        self.reap_completions(
            |Reaped {
                 token,
                 op,
                 outcome,
                 issued_ns,
             },
             Detection {
                 at_ns: completed_ns,
                 unseen_ns,
             }| {
                // Operations on block devices have one completion each, so `op` is always present.
                let Some(op) = op else { return };
                match outcome {
                    Outcome::Errno(libc::EAGAIN | libc::EOPNOTSUPP) | Outcome::Short(_)
                        if gives_back =>
                    {
                        given_back.push((op, issued_ns));
                    }
                    _ => completions.push(Completion {
                        token,
                        buf: op.buf,
                        outcome,
                        issued_ns,
                        completed_ns,
                        unseen_ns,
                    }),
                }
            },
        );
        for (op, issued_ns) in given_back.drain(..) {
            self.submitted_ns[op.token as usize] = Some(issued_ns);
            self.submit_beside(op);
        }
        self.given_back = given_back;
        completions.append(&mut self.refused);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
            + self.refused.len()
            + self.helper_threads.as_ref().map_or(0, Threads::in_flight)
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.queue.buffer(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uring::Uring;
    use device::guard::{EraseAnswers, Guard, WriteRequest};
    use results::testing::modified;
    use std::os::unix::fs::FileExt;

    #[test]
    fn helper_threads_perform_operations_that_the_ring_does_not_support() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let name = path.to_str().unwrap().to_owned();
        let request = WriteRequest {
            file_size_bytes: Some(1 << 20),
            ..WriteRequest::new(&name, "test")
        };
        let guard = Guard::new(Some(dir.path().join("state")));
        let consent = guard
            .consent(&[request], &mut EraseAnswers::named([name]))
            .unwrap()
            .remove(0);
        let targets = vec![Target::writable(consent).into()];
        let Ok((mut engine, _)) = Uring::new(targets, EngineSetup::new(4, 1 << 16)) else {
            return println!("skipped: no io_uring");
        };
        engine.limits.deallocates = false;
        let buf = engine.buffer(0).unwrap();
        let kind = OpKind::Deallocate;
        let offset = 4096;
        let len = 8192;
        engine.submit(modified(Op::new(kind, offset, len, buf), |it| it.token = 2));
        assert_eq!(engine.in_flight(), 1);
        let mut out = Vec::new();
        while out.is_empty() {
            let until_ns = engine.now() + 1_000_000_000;
            engine.reap(Wait::first(until_ns), &mut out).unwrap();
        }
        assert_eq!(out[0].token, 2);
        assert_eq!(out[0].outcome, Outcome::Done);
        assert_eq!(engine.in_flight(), 0);
        let mut bytes = vec![0; 16384];
        std::fs::File::open(&path)
            .unwrap()
            .read_exact_at(&mut bytes, 0)
            .unwrap();
        let zeros: Vec<_> = bytes
            .chunks(4096)
            .map(|page| page.iter().all(|byte| *byte == 0))
            .collect();
        assert_eq!(zeros, [false, true, true, false]);
    }

    /// A queue that returns every operation, as the kernel does if the device has no free request.
    struct Full {
        ops: Vec<Op>,
        issued_ns: u64,
        answer: Outcome,
    }

    impl Queue for Full {
        type Op = Op;
        type Outcome = Outcome;

        fn buffer(&mut self, _len: usize) -> Option<Buf> {
            None
        }

        fn in_flight(&self) -> usize {
            self.ops.len()
        }

        fn pushed(&self) -> usize {
            0
        }

        fn push(&mut self, op: Op) -> Result<(), Op> {
            self.ops.push(op);
            Ok(())
        }

        fn enter(&mut self, now_ns: u64, _sleep: Option<Wait>) -> io::Result<()> {
            self.issued_ns = now_ns;
            Ok(())
        }

        fn is_ready(&mut self) -> bool {
            true
        }

        fn has_completions(&mut self) -> bool {
            !self.ops.is_empty()
        }

        fn reap(&mut self, mut each: impl FnMut(Reaped<Op, Outcome>)) {
            let outcome = self.answer;
            let issued_ns = self.issued_ns;
            self.ops.drain(..).for_each(|op| {
                each(Reaped {
                    token: op.token,
                    op: Some(op),
                    outcome,
                    issued_ns,
                })
            });
        }
    }

    #[test]
    fn a_resubmitted_operation_keeps_the_issue_time_of_its_first_submission() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let target: Arc<Target> = Target::read_only(path.to_str().unwrap(), 0).unwrap().into();
        for answer in [
            Outcome::Errno(libc::EAGAIN),
            Outcome::Errno(libc::EOPNOTSUPP),
            Outcome::Short(512),
        ] {
            let setup = EngineSetup {
                harmless_gap_ns: u64::MAX / 8,
                ..EngineSetup::new(8, 1 << 16)
            };
            let threads = Threads::new(4, std::slice::from_ref(&target), setup).unwrap();
            let limits = QueueSupport {
                gives_back: true,
                names_streams: false,
                ..QueueSupport::NONE
            };
            let full = Full {
                ops: Vec::new(),
                issued_ns: 0,
                answer,
            };
            let mut engine = Queued::on(full, vec![target.clone()], limits, Some(threads), setup);
            for token in 0..8 {
                let buf = engine
                    .helper_threads
                    .as_mut()
                    .unwrap()
                    .buffer(4096)
                    .unwrap();
                let kind = OpKind::Read;
                engine.submit(modified(Op::new(kind, 0, 4096, buf), |it| it.token = token));
            }
            let mut out = Vec::new();
            engine.reap(Wait::first(0), &mut out).unwrap();
            let submitted_ns = engine.queue.issued_ns;
            while engine.in_flight() > 0 {
                let until_ns = engine.now() + 1_000_000_000;
                engine.reap(Wait::first(until_ns), &mut out).unwrap();
            }
            assert_eq!(out.len(), 8, "{answer}");
            for Completion {
                outcome,
                issued_ns,
                completed_ns,
                unseen_ns,
                buf,
                ..
            } in &out
            {
                assert!(
                    outcome.is_done() && buf.iter().all(|byte| *byte == 7),
                    "{outcome}"
                );
                assert_eq!(*issued_ns, submitted_ns);
                assert!(
                    *unseen_ns > 0 && issued_ns + unseen_ns <= *completed_ns,
                    "{unseen_ns} before {completed_ns}"
                );
            }
        }
    }
}
