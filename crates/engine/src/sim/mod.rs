//! The simulated engine: drives on virtual time.
//!
//! A model ([`DriveModel`]) simulates the inside of a drive. The engine has the clock, which jumps from event to event:
//! a day passes in seconds, and the same seed gives the same run to the nanosecond. Events at the same instant happen
//! drive by drive, and for each drive in the order of its model.
//!
//! Drives store data only if the engine is created with [`DriveContents`]. Then operations have buffers, and reads
//! return the data written.
//!
//! * `contents`: stored data; `model`: interface of a model, and a drive with any model; `queue`: queueing model
//! * `ftl`: model with flash and garbage collection; `spec`: text form of a drive

mod contents;
mod ftl;
mod model;
mod queue;
mod spec;

pub use self::ftl::FtlModel;
pub use contents::DriveContents;
pub use model::{DriveModel, SimCompletion, SimulatedDrive};
pub use queue::QueueModel;
pub use spec::{DriveSpec, DriveSpecError, Flash, FtlDrive, SIM_PREFIX, size_bytes};

use crate::{IoEngine, Wait};
use std::io;
use sys::buffer::{Buf, Pool};
use sys::op::{Completion, Op, OpKind};

/// All simulated drives of a run, and their common clock.
#[derive(Debug)]
pub struct SimEngine<M = QueueModel> {
    now_ns: u64,
    drives: Vec<M>,
    /// By drive: time of its next event.
    next_ns: Vec<u64>,
    in_flight: usize,
    /// By drive: its data; empty if drives store no data.
    contents: Vec<DriveContents>,
    /// Operations in flight by token, if drives store data.
    ops: Vec<Option<Op>>,
}

impl<M: DriveModel> SimEngine<M> {
    /// An engine of `drives` at instant 0.
    pub fn new(drives: Vec<M>) -> Self {
        Self::holding(drives, Vec::new())
    }

    /// An engine of `drives`. Each drive stores the contents with the same index.
    pub fn holding(drives: Vec<M>, contents: Vec<DriveContents>) -> Self {
        let next_ns = drives.iter().map(M::next_event_ns).collect();
        Self {
            now_ns: 0,
            next_ns,
            drives,
            in_flight: 0,
            contents,
            ops: Vec::new(),
        }
    }

    /// Ends the run; returns the contents. Tears writes in flight; if `power_fails`, loses unflushed sectors at random.
    pub fn stop(mut self, power_fails: bool) -> Vec<DriveContents> {
        for op in self
            .ops
            .iter()
            .flatten()
            .filter(|op| op.kind == OpKind::Write)
        {
            self.contents[usize::from(op.target)].tear(op);
        }
        if power_fails {
            self.contents.iter_mut().for_each(DriveContents::lose_power);
        }
        self.contents
    }

    /// Completes all operations in flight and drops the completions, at the end of a run.
    pub fn drain(&mut self) {
        let mut dropped = Vec::new();
        while self.in_flight > 0 && self.reap(Wait::first(u64::MAX - 1), &mut dropped).is_ok() {
            dropped.clear();
        }
    }

    fn apply(&mut self, drive: usize, completion: SimCompletion) -> Buf {
        let op = self
            .ops
            .get_mut(completion.token as usize)
            .and_then(Option::take);
        op.map_or(Buf::empty(), |mut op| {
            self.contents[drive].apply(&mut op, completion.outcome());
            op.buf
        })
    }

    /// The drive with the next event, and the time of this event. `None` if no drive has an event by `until_ns`.
    #[inline]
    fn next_by(&self, until_ns: u64) -> Option<(usize, u64)> {
        let times = self.next_ns.iter().copied().enumerate();
        let next = times.min_by_key(|(_, at_ns)| *at_ns)?;
        (next.1 <= until_ns).then_some(next)
    }
}

impl<M: DriveModel> IoEngine for SimEngine<M> {
    type Op = Op;
    type Completion = Completion;

    #[inline]
    fn is_virtual(&self) -> bool {
        true
    }

    #[inline]
    fn now(&mut self) -> u64 {
        self.now_ns
    }

    /// Drops the operation with its empty buffer, unless drives store data.
    #[inline]
    fn submit(&mut self, op: Op) {
        let target = usize::from(op.target);
        let drive = &mut self.drives[target];
        drive.submit(&op, self.now_ns);
        self.next_ns[target] = drive.next_event_ns();
        self.in_flight += 1;
        if !self.contents.is_empty() {
            let token = op.token as usize;
            if self.ops.len() <= token {
                self.ops.resize_with(token + 1, || None);
            }
            self.ops[token] = Some(op);
        }
    }

    #[inline]
    fn reap(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let enough = completions.len() + wait.completions.max(1) as usize;
        let mut until_ns = wait.until_ns.max(self.now_ns).min(u64::MAX - 1);
        while let Some((index, at_ns)) = self.next_by(until_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            let drive = &mut self.drives[index];
            let advanced = drive.advance();
            self.next_ns[index] = drive.next_event_ns();
            if let Some(completion) = advanced {
                self.in_flight -= 1;
                let buf = if self.contents.is_empty() {
                    Buf::empty()
                } else {
                    self.apply(index, completion)
                };
                completions.push(Completion {
                    token: completion.token,
                    buf,
                    outcome: completion.outcome(),
                    issued_ns: completion.submitted_ns,
                    completed_ns: self.now_ns,
                    unseen_ns: 0,
                });
                if completions.len() >= enough {
                    // Processes all other events of this instant before the return.
                    until_ns = self.now_ns;
                }
            }
        }
        if completions.len() < enough {
            self.now_ns = self.now_ns.max(wait.until_ns);
        }
        Ok(())
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        if self.contents.is_empty() {
            Some(Buf::empty())
        } else {
            Pool::new(len).ok()?.cut(len)
        }
    }

    fn counters(&self, counters: &mut Vec<u64>) {
        counters.extend(
            self.drives
                .iter()
                .flat_map(|drive| drive.counters())
                .map(|(_, value)| value),
        );
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{reap_all, reap_next};
    use super::*;
    use results::telemetry::Column;
    use sys::op::{OpKind, Outcome, WriteBack, WriteSync};

    fn read(offset: u64, token: u32) -> Op {
        Op {
            token,
            ..Op::new(OpKind::Read, offset, 4096, Buf::empty())
        }
    }

    fn engine(spec: &str) -> SimEngine {
        SimEngine::new(vec![QueueModel::new(&spec.parse().unwrap(), 1)])
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
    fn a_power_failure_loses_unflushed_sectors_and_tears_writes_in_flight() {
        let write =
            |engine: &mut SimEngine, offset: u64, value: u8, sync: WriteSync, token: u32| {
                let mut buf = engine.buffer(8192).unwrap();
                buf.fill(value);
                engine.submit(Op {
                    kind: OpKind::Write,
                    len: 8192,
                    sync,
                    buf,
                    ..read(offset, token)
                });
            };
        let mut kinds = [0; 3];
        for seed in 0..200 {
            let model = QueueModel::new(&"sim:capacity=1MiB".parse().unwrap(), 1);
            let mut engine = SimEngine::holding(vec![model], vec![DriveContents::new(512, seed)]);
            write(&mut engine, 512, 1, WriteSync::Data, 0);
            write(&mut engine, 65_536, 2, WriteSync::No, 1);
            reap_all(&mut engine);
            write(&mut engine, 131_072, 3, WriteSync::Data, 2);
            let buf = engine.buffer(8192).unwrap();
            engine.submit(Op {
                buf,
                len: 8192,
                ..read(4096, 3)
            });
            let mut out = Vec::new();
            while !out.iter().any(|done: &Completion| done.token == 3) {
                reap_next(&mut engine, &mut out);
            }
            let done = out.into_iter().find(|done| done.token == 3).unwrap();
            assert!(
                done.buf[..4608].iter().all(|byte| *byte == 1)
                    && done.buf[4608..].iter().all(|byte| *byte == 0)
            );
            write(&mut engine, 262_144, 4, WriteSync::Data, 4);
            let contents = engine.stop(seed % 2 == 0).remove(0);
            let sectors = |offset: u64| {
                let mut bytes = vec![0; 8192];
                contents.read(offset, &mut bytes);
                let whole = bytes
                    .chunks(512)
                    .all(|sector| sector.iter().all(|byte| *byte == sector[0]));
                assert!(whole, "sectors are whole");
                bytes.chunks(512).filter(|sector| sector[0] != 0).count()
            };
            assert_eq!(sectors(512), 16, "synchronous");
            assert!(
                seed % 2 == 0 || sectors(65_536) == 16,
                "in a cache that has power"
            );
            kinds[0] += u32::from(seed % 2 == 0 && (1..16).contains(&sectors(65_536)));
            let torn = sectors(262_144);
            kinds[1] += u32::from(torn == 0 || torn == 16);
            kinds[2] += u32::from((1..16).contains(&torn));
        }
        assert!(kinds.iter().all(|kind| *kind > 20), "{kinds:?}");
    }

    #[test]
    fn virtual_time_advances_at_most_to_the_end_of_the_wait() {
        let mut engine = engine("sim:read-us=100+jitter-pct=0+read-mbps=0");
        engine.submit(read(0, 0));
        let mut out = Vec::new();
        engine.reap(Wait::first(60_000), &mut out).unwrap();
        assert!(out.is_empty());
        assert_eq!(engine.now(), 60_000);
        engine.reap(Wait::first(500_000), &mut out).unwrap();
        assert_eq!((out.len(), engine.now()), (1, 100_000));
    }

    #[test]
    fn a_stall_freezes_operations_in_service() {
        let mut engine =
            engine("sim:read-us=100+jitter-pct=0+read-mbps=0+stall-ms=1000+stall-at-s=0.00005");
        engine.submit(read(0, 0));
        assert_eq!(
            reap_all(&mut engine)[0].completed_ns,
            100_000 + 1_000_000_000
        );
    }

    /// A drive with an event every 10 us; every third event ends an operation.
    struct Wheel {
        turns: u64,
        taken: Vec<SimCompletion>,
    }

    impl DriveModel for Wheel {
        fn submit(&mut self, op: &Op, now_ns: u64) {
            self.taken.push(SimCompletion {
                token: op.token,
                submitted_ns: now_ns,
                errno: 0,
            });
        }

        fn next_event_ns(&self) -> u64 {
            (self.turns + 1) * 10_000
        }

        fn advance(&mut self) -> Option<SimCompletion> {
            self.turns += 1;
            if self.turns.is_multiple_of(3) {
                self.taken.pop()
            } else {
                None
            }
        }

        fn counters(&self) -> Vec<(Column, u64)> {
            vec![(Column::SimFlushes, self.turns)]
        }
    }

    #[test]
    fn an_event_inside_a_drive_advances_the_clock_without_a_completion() {
        let wheel = || Wheel {
            turns: 0,
            taken: Vec::new(),
        };
        let mut engine = SimEngine::new(vec![wheel(), wheel()]);
        let mut out = Vec::new();
        engine.reap(Wait::first(25_000), &mut out).unwrap();
        assert_eq!(out.len(), 0);
        assert_eq!(engine.now(), 25_000, "nothing was submitted");
        for target in [1, 0] {
            engine.submit(Op {
                target,
                ..read(0, u32::from(target))
            });
        }
        reap_next(&mut engine, &mut out);
        let ends: Vec<_> = out
            .iter()
            .map(|done| (done.token, done.issued_ns, done.completed_ns))
            .collect();
        assert_eq!(
            ends,
            [(0, 25_000, 30_000), (1, 25_000, 30_000)],
            "of one instant, in the order of the drives"
        );
        let mut counters = Vec::new();
        engine.counters(&mut counters);
        assert_eq!(counters, [3, 3]);
        engine.reap(Wait::first(45_000), &mut out).unwrap();
        assert_eq!(out.len(), 2);
        assert_eq!(engine.now(), 45_000);
        assert_eq!(engine.in_flight(), 0);
    }

    #[test]
    fn an_operation_takes_the_channel_that_becomes_free_first() {
        for channels in [1, 3, 64] {
            let mut engine = engine(&format!(
                "sim:channels={channels}+read-us=100+jitter-pct=100+read-mbps=0"
            ));
            let mut free_ns = vec![0_u64; channels];
            let mut expected = Vec::new();
            let mut random = sys::random::Random::new(1);
            for token in 0..500 {
                engine.submit(read(0, token));
                free_ns.sort_unstable();
                free_ns[0] = (free_ns[0] + random.below(200_001)).max(1);
                expected.push((free_ns[0], token));
            }
            expected.sort_unstable();
            let done = reap_all(&mut engine);
            let ends: Vec<_> = done
                .iter()
                .map(|done| (done.completed_ns, done.token))
                .collect();
            assert_eq!(ends, expected, "{channels} channels");
        }
    }

    #[test]
    fn a_flush_waits_for_earlier_writes_and_counters_count_all_operations() {
        let mut engine = engine(
            "sim:capacity=1MiB+channels=8+read-us=100+write-us=30+jitter-pct=0+read-mbps=0+write-mbps=0",
        );
        let op = |kind, len, token| Op {
            kind,
            len,
            ..read(0, token)
        };
        engine.submit(op(OpKind::Read, 4096, 0));
        engine.submit(op(OpKind::Flush, 0, 1));
        engine.submit(op(OpKind::Write, 512, 2));
        engine.submit(op(OpKind::Deallocate, 1 << 20, 3));
        engine.submit(op(OpKind::Deallocate, (1 << 20) + 1, 4));
        engine.submit(Op {
            placement: Some(sys::op::Placement(1)),
            ..op(OpKind::Write, 512, 5)
        });
        engine.submit(op(OpKind::WriteBack(WriteBack::default()), 512, 6));
        engine.submit(op(OpKind::FlushFile, 0, 7));
        let done = reap_all(&mut engine);
        let ends: Vec<_> = done
            .iter()
            .map(|done| (done.token, done.completed_ns / 1_000, done.outcome))
            .collect();
        let refused = [
            (4, libc::EINVAL),
            (5, libc::EOPNOTSUPP),
            (6, libc::EOPNOTSUPP),
        ];
        let refused = refused.map(|(token, errno)| (token, 0, Outcome::Errno(errno)));
        let done = [(2, 30), (3, 30), (0, 100), (1, 130), (7, 160)]
            .map(|(token, us)| (token, us, Outcome::Done));
        assert_eq!(ends, [&refused[..], &done].concat());
        let counters = engine.drives[0].counters();
        let counters: Vec<_> = counters
            .iter()
            .map(|(column, value)| format!("{} {value}", column.name()))
            .collect();
        let expected = "sim.host_reads 1, sim.host_read_bytes 4096, sim.host_writes 1, sim.host_write_bytes 512, \
            sim.host_flushes 2, sim.host_deallocates 1, sim.host_deallocated_bytes 1048576, sim.failed 3";
        assert_eq!(counters.join(", "), expected);
    }
}
