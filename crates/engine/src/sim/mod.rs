//! The simulated engine: drives on virtual time.
//!
//! A drive here is a queueing model and stands for no product: operations queue, first come first
//! served, for one of a few equal channels, hold it for a service time, then pass their data over one
//! path that all channels share, and are done. Stalls, errors
//! and a slow-down can be laid over that. Time jumps from completion to completion, so a day passes
//! in seconds, and the same seed gives the same run to the last nanosecond.

mod drive;
mod spec;

pub use drive::Drive;
pub use spec::{DriveSpec, PREFIX, SpecError, size_bytes};

use crate::{IoEngine, Wait};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use sys::buffer::Buf;
use sys::op::{Completion, Op, Outcome};

/// An operation whose end is decided but lies in the virtual future.
struct Pending {
    token: u32,
    buf: Buf,
    outcome: Outcome,
    issued_ns: u64,
}

/// All simulated drives of a run and the one clock they share.
pub struct SimEngine {
    now_ns: u64,
    drives: Vec<Drive>,
    /// (completion time, order of submission, slot): the order decides ties, so runs repeat exactly.
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    submitted: u64,
    slots: Vec<Option<Pending>>,
    free: Vec<u32>,
}

impl SimEngine {
    /// A engine of `drives` at instant 0.
    pub fn new(drives: Vec<Drive>) -> Self {
        Self { now_ns: 0, drives, events: BinaryHeap::new(), submitted: 0, slots: Vec::new(), free: Vec::new() }
    }

    fn complete(&mut self, slot: u32, completed_ns: u64) -> Option<Completion> {
        let Pending { token, buf, outcome, issued_ns } = self.slots[slot as usize].take()?;
        self.free.push(slot);
        Some(Completion { token, buf, outcome, issued_ns, completed_ns, unseen_ns: 0 })
    }
}

impl IoEngine for SimEngine {
    const VIRTUAL: bool = true;
    type Op = Op;
    type Completion = Completion;

    fn now(&mut self) -> u64 {
        self.now_ns
    }

    fn submit(&mut self, op: Op) {
        let (completed_ns, outcome) = self.drives[usize::from(op.target)].take(&op, self.now_ns);
        let pending = Some(Pending { token: op.token, buf: op.buf, outcome, issued_ns: self.now_ns });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = pending;
                slot
            }
            None => {
                self.slots.push(pending);
                (self.slots.len() - 1) as u32
            }
        };
        self.events.push(Reverse((completed_ns, self.submitted, slot)));
        self.submitted += 1;
    }

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        let mut missing = wait.completions.max(1) as usize;
        while let Some(Reverse((completed_ns, _, slot))) = self.events.peek().copied() {
            let later = completed_ns > self.now_ns;
            if later && (missing == 0 || completed_ns > wait.until_ns) {
                break;
            }
            self.now_ns = self.now_ns.max(completed_ns);
            self.events.pop();
            missing = missing.saturating_sub(1);
            out.extend(self.complete(slot, completed_ns));
        }
        if missing > 0 {
            self.now_ns = self.now_ns.max(wait.until_ns);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.events.len()
    }

    fn buffer(&mut self, _len: usize) -> Option<Buf> {
        Some(Buf::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::op::OpKind;

    fn read(offset: u64, token: u32) -> Op {
        Op { target: 0, kind: OpKind::Read, offset, len: 4096, sync: false, placement: None, buf: Buf::empty(), token }
    }

    fn engine(spec: &str) -> SimEngine {
        SimEngine::new(vec![Drive::new(&spec.parse().unwrap(), 1)])
    }

    fn reap_all(engine: &mut SimEngine) -> Vec<Completion> {
        let mut out = Vec::new();
        while engine.in_flight() > 0 {
            engine.reap(Wait { until_ns: u64::MAX, completions: 1 }, &mut out).unwrap();
        }
        out
    }

    #[test]
    fn operations_queue_for_channels() {
        let mut engine = engine("sim:channels=2+read-us=100+jitter-pct=0+read-mbps=0");
        (0..3).for_each(|token| engine.submit(read(0, token)));
        let done = reap_all(&mut engine);
        let times: Vec<_> = done.iter().map(|c| c.completed_ns).collect();
        assert_eq!(times, [100_000, 100_000, 200_000]);
        assert_eq!(engine.now(), 200_000);
    }

    #[test]
    fn time_stops_at_the_limit_of_the_wait() {
        let mut engine = engine("sim:read-us=100+jitter-pct=0+read-mbps=0");
        engine.submit(read(0, 0));
        let mut out = Vec::new();
        engine.reap(Wait { until_ns: 60_000, completions: 1 }, &mut out).unwrap();
        assert!(out.is_empty());
        assert_eq!(engine.now(), 60_000);
        engine.reap(Wait { until_ns: 500_000, completions: 1 }, &mut out).unwrap();
        assert_eq!((out.len(), engine.now()), (1, 100_000));
    }

    #[test]
    fn a_stall_freezes_what_is_in_service() {
        let mut engine = engine("sim:read-us=100+jitter-pct=0+read-mbps=0+stall-ms=1000+stall-at-s=0.00005");
        engine.submit(read(0, 0));
        assert_eq!(reap_all(&mut engine)[0].completed_ns, 100_000 + 1_000_000_000);
    }
}
