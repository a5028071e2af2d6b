//! The engine of a server or client: sockets and devices share one ring and one wait, which other threads can end. The
//! engine is a [`Queued`] ring with the operations of [`sys::net`], submitted with the next wait.

use crate::queued::{Detection, QueueSupport, Queued};
use crate::setup::EngineSetup;
use crate::{IoEngine, Wait};
use device::target::Target;
use std::io;
use std::sync::Arc;
use sys::buffer::Buf;
use sys::net::{NetOp, NetOutcome, NetworkForm, Waker};
use sys::op::{self, Queue, Reaped};
use sys::ring::{FileForm, Ring, RingFacts};

/// Completion of a device or socket operation.
#[derive(Debug)]
pub enum NetCompletion {
    /// Completion of a device operation.
    Block(op::Completion),
    /// Completion of a socket operation.
    Net(SocketCompletion),
}

/// Result of a socket operation.
#[derive(Debug)]
pub struct SocketCompletion {
    /// Token of the operation.
    pub token: u32,
    /// Result of the operation.
    pub outcome: NetOutcome,
    /// The operation, with its bytes; `None`: the operation is multishot, continues, and keeps its token.
    pub op: Option<NetOp>,
    /// Time of submission to the kernel, on the engine's clock.
    pub issued_ns: u64,
    /// Time at which the completion was polled, on the engine's clock.
    pub seen_ns: u64,
    /// Upper bound of the time between completion and poll, nanoseconds.
    pub unseen_ns: u64,
}

/// Receive buffers.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveBuffers {
    /// Number of buffers, a power of two, at most 32,768.
    pub buffers: u16,
    /// Bytes per buffer.
    pub bytes: usize,
}

/// A thread's ring, devices and sockets. Must stay on the thread that created it.
pub struct NetEngine {
    uring: Queued<Ring<NetworkForm>>,
    waker: Waker,
    discards: bool,
    /// False: each wait is one call, which submits and sleeps, so the delay until a completion is seen is unknown.
    is_measured: bool,
}

impl NetEngine {
    /// An engine for `targets` and sockets, with `arrivals` as receive buffers. Servers do not need the detection delay
    /// of completions: with an unlimited [`EngineSetup::harmless_gap_ns`] the engine never looks up the run delay.
    /// Errors: as [`crate::uring::Uring::new`]; `Unsupported` before Linux 6.0.
    pub fn new(
        targets: Vec<Arc<Target>>,
        arrivals: ReceiveBuffers,
        setup: EngineSetup,
    ) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let form = NetworkForm::new(FileForm::new(&files)?, arrivals.buffers, arrivals.bytes);
        let (ring, facts) = Ring::new(
            &files,
            form,
            setup.in_flight_max + 1,
            setup.memory_bytes,
            setup.epoch_ns(),
        )?;
        let discards = ring.discards();
        let mut uring = Queued::on(ring, targets, QueueSupport::NONE, None, setup);
        let waker = Waker::new()?;
        // The caller's tokens are below `in_flight_max`, so this token is free.
        uring.queue(NetOp::Wake {
            token: setup.in_flight_max as u32,
            waker: waker.clone(),
        });
        Ok((
            Self {
                uring,
                waker,
                discards,
                is_measured: setup.harmless_gap_ns < u64::MAX,
            },
            facts,
        ))
    }

    /// Lets another thread end a sleep of this engine in [`IoEngine::reap`], by [`Waker::wake`].
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the buffer of an [`NetOutcome::Received`] to the engine.
    pub fn provide(&mut self, buf: Buf) {
        self.uring.queue_mut().provide(buf);
    }

    /// True if the device or kernel lacks the operation. The kernel would silently ignore an unknown write stream.
    fn is_refused(&self, op: &op::Op) -> bool {
        let streams = self.uring.targets[usize::from(op.target)].write_streams();
        op.placement.is_some_and(|placement| placement.0 > streams)
            || (op.kind == op::OpKind::Deallocate && !self.discards)
    }
}

impl IoEngine for NetEngine {
    type Op = NetOp;
    type Completion = NetCompletion;

    #[inline]
    fn now(&mut self) -> u64 {
        self.uring.clock_ns()
    }

    #[inline]
    fn submit(&mut self, op: NetOp) {
        match op {
            NetOp::Block(op) if self.is_refused(&op) => self.uring.refuse(op, libc::EOPNOTSUPP),
            op => self.uring.queue(op),
        }
    }

    fn reap(&mut self, wait: Wait, completions: &mut Vec<NetCompletion>) -> io::Result<()> {
        let until_ns = if self.uring.refused.is_empty() {
            wait.until_ns
        } else {
            0
        };
        let wait = Wait { until_ns, ..wait };
        let now_ns = self.uring.clock_ns();
        if self.is_measured || until_ns <= now_ns {
            self.uring.wait(wait)?;
        } else {
            self.uring.queue_mut().enter(now_ns, Some(wait))?;
        }
        completions.extend(self.uring.refused.drain(..).map(NetCompletion::Block));
        let mut sleeps_on = None;
        self.uring.reap_completions(
            |Reaped {
                 token,
                 op,
                 outcome,
                 issued_ns,
             },
             Detection {
                 at_ns: seen_ns,
                 unseen_ns,
             }| match (op, outcome) {
                (None, NetOutcome::Woken) => {}
                (Some(wake @ NetOp::Wake { .. }), _) => sleeps_on = Some(wake),
                (Some(NetOp::Block(op::Op { buf, .. })), NetOutcome::Block(outcome)) => {
                    let completed_ns = seen_ns;
                    let completion = op::Completion {
                        token,
                        buf,
                        outcome,
                        issued_ns,
                        completed_ns,
                        unseen_ns,
                    };
                    completions.push(NetCompletion::Block(completion));
                }
                (op, outcome) => {
                    let completion = SocketCompletion {
                        token,
                        outcome,
                        op,
                        issued_ns,
                        seen_ns,
                        unseen_ns,
                    };
                    completions.push(NetCompletion::Net(completion));
                }
            },
        );
        if let Some(wake) = sleeps_on {
            self.uring.queue(wake);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        // The waker's operation does not count.
        self.uring.operations() - 1 + self.uring.refused.len()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.uring.queue_mut().buffer(len)
    }
}
