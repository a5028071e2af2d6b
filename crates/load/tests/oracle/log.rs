//! Log of every operation that a simulated drive received and completed, recorded independently of the run loop.

use super::draw::{Drive, LaneDraw};
use engine::sim::{DriveModel, QueueModel, SimCompletion, SimEngine};
use engine::{IoEngine, Wait};
use load::run::{Control, EndCause};
use load::stream::{IoRequest, Stream};
use results::telemetry::Column;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind};

/// Bytes of an operation. The offset, in units of this size, encodes lane and number of the operation.
pub(crate) const STEP_BYTES: u64 = 512;
pub(crate) const LANES_MAX: u64 = 16;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Logged {
    pub(crate) lane: usize,
    /// Number in its lane, from 0.
    pub(crate) index: usize,
    pub(crate) device: usize,
    pub(crate) issued_ns: u64,
    /// Time at which the drive completed the operation.
    pub(crate) back_ns: Option<u64>,
    pub(crate) failed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) ops: Vec<Logged>,
    /// By token: index in `ops` of the operation in flight with this token.
    by_token: Vec<usize>,
    /// Time of the run loop's last reading of the clock.
    pub(crate) ended_ns: u64,
}

/// Operations whose offset encodes their lane and number.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    pub(crate) lane: usize,
    pub(crate) of: LaneDraw,
    /// The number of devices, to find the cell.
    pub(crate) devices: usize,
    pub(crate) next: usize,
}

impl Stream for Numbered {
    fn next(&mut self) -> Option<IoRequest> {
        let index = self.next;
        let device = self.of.device(self.next);
        self.next += 1;
        let cell = (self.of.stream * self.devices + device) as u32;
        let offset = (index as u64 * LANES_MAX + self.lane as u64) * STEP_BYTES;
        Some(IoRequest {
            offset,
            len: STEP_BYTES as u32,
            ..IoRequest::new(OpKind::Read, device as u16, cell, 0)
        })
    }

    fn until_ns(&self) -> u64 {
        self.of.until_ns
    }

    fn follows(&self) -> bool {
        false
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        let mut ahead = self.clone();
        (0..arrivals)
            .filter_map(|_| ahead.next())
            .for_each(|request| cells(request.cell, 1));
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Model {
    Queue(Box<QueueModel>),
    /// Serves all operations in parallel. `others` has the service times of some operations.
    Listed {
        base_ns: u64,
        /// By lane and number: service time of the operation; `None`: infinite.
        others: BTreeMap<(usize, usize), Option<u64>>,
        ends: BTreeMap<(u64, u64), SimCompletion>,
        taken: u64,
    },
}

impl Model {
    pub(crate) fn new(drive: &Drive, seed: u64) -> Self {
        match drive {
            Drive::Queue(spec) => {
                Self::Queue(Box::new(QueueModel::new(&spec.parse().unwrap(), seed)))
            }
            Drive::Listed { base_ns, others } => Self::Listed {
                base_ns: *base_ns,
                others: others.clone(),
                ends: BTreeMap::new(),
                taken: 0,
            },
        }
    }
}

/// Lane and number of an operation.
fn name_of(op: &Op) -> (usize, usize) {
    let number = op.offset / STEP_BYTES;
    ((number % LANES_MAX) as usize, (number / LANES_MAX) as usize)
}

impl DriveModel for Model {
    fn submit(&mut self, op: &Op, now_ns: u64) {
        match self {
            Self::Queue(model) => model.submit(op, now_ns),
            Self::Listed {
                base_ns,
                others,
                ends,
                taken,
            } => {
                let Some(service_ns) = others.get(&name_of(op)).copied().unwrap_or(Some(*base_ns))
                else {
                    return;
                };
                *taken += 1;
                let done = SimCompletion {
                    token: op.token,
                    submitted_ns: now_ns,
                    errno: 0,
                };
                ends.insert((now_ns + service_ns.max(1), *taken), done);
            }
        }
    }

    fn next_event_ns(&self) -> u64 {
        match self {
            Self::Queue(model) => model.next_event_ns(),
            Self::Listed { ends, .. } => ends.keys().next().map_or(u64::MAX, |(end_ns, _)| *end_ns),
        }
    }

    fn advance(&mut self) -> Option<SimCompletion> {
        match self {
            Self::Queue(model) => model.advance(),
            Self::Listed { ends, .. } => ends.pop_first().map(|(_, done)| done),
        }
    }

    fn counters(&self) -> Vec<(Column, u64)> {
        Vec::new()
    }
}

/// The simulator with a log of its operations. Can also simulate a signal, and times without a CPU.
pub(crate) struct Watched {
    pub(crate) engine: SimEngine<Model>,
    pub(crate) log: Rc<RefCell<Log>>,
    pub(crate) control: Arc<Control>,
    /// Time of a signal that ends the run.
    pub(crate) signal_ns: Option<u64>,
    /// Times in which this program has no CPU, from and to. A wait that would end within such a time lasts to its end.
    pub(crate) away_ns: Vec<(u64, u64)>,
    /// Time of the run loop's last poll for completions.
    pub(crate) looked_ns: u64,
}

impl IoEngine for Watched {
    type Op = Op;
    type Completion = Completion;

    fn is_virtual(&self) -> bool {
        true
    }

    fn now(&mut self) -> u64 {
        let now_ns = self.engine.now();
        if self.signal_ns.is_some_and(|at_ns| now_ns >= at_ns) {
            self.control.stop(EndCause::Requested { signal: 15 });
        }
        self.log.borrow_mut().ended_ns = now_ns;
        now_ns
    }

    fn submit(&mut self, op: Op) {
        let (lane, index) = name_of(&op);
        let mut log = self.log.borrow_mut();
        let token = op.token as usize;
        let place = log.ops.len();
        let device = op.target.into();
        let issued_ns = self.engine.now();
        log.ops.push(Logged {
            lane,
            index,
            device,
            issued_ns,
            back_ns: None,
            failed: false,
        });
        if log.by_token.len() <= token {
            log.by_token.resize(token + 1, usize::MAX);
        }
        log.by_token[token] = place;
        self.engine.submit(op);
    }

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        let first = out.len();
        self.engine.reap(wait, out)?;
        let now_ns = self.engine.now();
        let until_ns = self
            .away_ns
            .iter()
            .find(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&now_ns))
            .map(|at| at.1);
        if let Some(until_ns) = until_ns {
            while self.engine.now() < until_ns {
                self.engine.reap(
                    Wait {
                        until_ns,
                        completions: u32::MAX,
                    },
                    out,
                )?;
            }
        }
        let mut log = self.log.borrow_mut();
        for completion in &mut out[first..] {
            let place = log.by_token[completion.token as usize];
            let op = &mut log.ops[place];
            (op.back_ns, op.failed) =
                (Some(completion.completed_ns), !completion.outcome.is_done());
            if let Some(until_ns) = until_ns {
                (completion.completed_ns, completion.unseen_ns) =
                    (until_ns, until_ns - self.looked_ns);
            }
        }
        self.looked_ns = self.engine.now();
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.engine.buffer(len)
    }
}
