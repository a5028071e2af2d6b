//! The queueing model of a drive: channels, service times, two data paths, limits, stalls, errors.
//!
//! The model represents no product. Operations wait in FIFO order for one of several equal channels, hold the channel
//! for a service time, then transfer their data over a path that all channels share (one path per direction).
//!
//! Operations are served in order, and stalls and faults are known from the start. So the end of an operation is
//! computed when the operation reaches the channels: one event per operation. With limits per window there is a second
//! event, when an operation that waited for its window proceeds to the channels.

use super::model::{DriveModel, HostOpCounters, SimCompletion};
use super::spec::{DriveSpec, StallSpec};
use crate::event_queue::EventQueue;
use results::telemetry::Column;
use std::collections::VecDeque;
use sys::op::{Op, OpKind};
use sys::random::Random;

/// A simulated drive with its operations in flight.
#[derive(Debug, Clone)]
pub struct QueueModel {
    spec: DriveSpec,
    /// Operations in the drive by end, then arrival. Each holds a channel until its end, or waits for a channel.
    completions: EventQueue<u64, SimCompletion>,
    /// By direction, reads first: end of the last transfer; with windows, end of the time charged to the limit.
    path_free_ns: [u64; 2],
    /// By direction: operations that wait for a window, each with the window's start, in ascending order.
    limited: [VecDeque<(u64, QueuedOp)>; 2],
    random: Random,
    op_counters: HostOpCounters,
    /// By direction: bytes and cost of the last operation. The next of the same size needs no slow division.
    last_cost: [(u64, u64); 2],
}

#[derive(Debug, Clone, Copy)]
struct QueuedOp {
    kind: OpKind,
    offset: u64,
    len: u64,
    token: u32,
    has_placement: bool,
    submitted_ns: u64,
}

impl DriveModel for QueueModel {
    #[inline]
    fn submit(&mut self, op: &Op, now_ns: u64) {
        let &Op {
            kind,
            offset,
            len,
            token,
            ..
        } = op;
        let queued_op = QueuedOp {
            kind,
            offset,
            len: len.into(),
            token,
            has_placement: op.placement.is_some(),
            submitted_ns: now_ns,
        };
        if self.spec.window_ns == 0 || !self.has_to_wait(queued_op) {
            self.serve(queued_op, now_ns);
        }
    }

    #[inline]
    fn next_event_ns(&self) -> u64 {
        let end_ns = self
            .completions
            .first()
            .map_or(u64::MAX, |(end_ns, _)| end_ns);
        if self.spec.window_ns == 0 {
            end_ns
        } else {
            end_ns.min(self.next_window().1)
        }
    }

    #[inline]
    fn advance(&mut self) -> Option<SimCompletion> {
        if self.spec.window_ns > 0 {
            let (path, begin_ns) = self.next_window();
            if self
                .completions
                .first()
                .is_none_or(|(end_ns, _)| begin_ns < end_ns)
                && let Some((_, queued_op)) = self.limited[path].pop_front()
            {
                self.serve(queued_op, begin_ns);
                return None;
            }
        }
        self.completions.pop().map(|(_, done)| done)
    }

    fn counters(&self) -> Vec<(Column, u64)> {
        HostOpCounters::COLUMNS
            .into_iter()
            .zip(self.op_counters.values())
            .collect()
    }
}

impl QueueModel {
    /// A fresh drive. Uses the seed of `spec`, or `seed` if `spec` has none.
    pub fn new(spec: &DriveSpec, seed: u64) -> Self {
        Self {
            completions: EventQueue::with_capacity(64),
            path_free_ns: [0; 2],
            limited: Default::default(),
            random: Random::new(spec.seed.unwrap_or(seed)),
            op_counters: HostOpCounters::default(),
            last_cost: [(0, 0); 2],
            spec: spec.clone(),
        }
    }

    /// Charges the operation to its limit. If the operation must wait for a later window, queues it and returns true.
    fn has_to_wait(&mut self, op: QueuedOp) -> bool {
        let Some((path, cost_ns)) = self.cost_ns(&op) else {
            return false;
        };
        let begin_ns = |at_ns: u64| at_ns - at_ns % self.spec.window_ns;
        let used_ns = self.path_free_ns[path].max(begin_ns(op.submitted_ns));
        self.path_free_ns[path] = used_ns + cost_ns;
        let waits = begin_ns(used_ns) > op.submitted_ns;
        if waits {
            self.limited[path].push_back((begin_ns(used_ns), op));
        }
        waits
    }

    /// Direction and start time of the first operation that waits for its window.
    fn next_window(&self) -> (usize, u64) {
        let first = [&self.limited[0], &self.limited[1]].map(VecDeque::front);
        let [read_ns, write_ns] =
            first.map(|waiting| waiting.map_or(u64::MAX, |(begin_ns, _)| *begin_ns));
        if write_ns < read_ns {
            (1, write_ns)
        } else {
            (0, read_ns)
        }
    }

    /// Direction of a read or write, and its cost: the time that the bandwidth and rate limits assign to the operation.
    #[inline]
    fn cost_ns(&mut self, op: &QueuedOp) -> Option<(usize, u64)> {
        let (path, kbps, iops) = match op.kind {
            OpKind::Read => (0, self.spec.read_kbps, self.spec.read_iops),
            OpKind::Write => (1, self.spec.write_kbps, self.spec.write_iops),
            OpKind::Flush | OpKind::FlushFile | OpKind::WriteBack(_) => return None,
            OpKind::Deallocate => return None,
        };
        if kbps == 0 && iops == 0 {
            return None;
        }
        let (last_bytes, cost_ns) = &mut self.last_cost[path];
        if *last_bytes != op.len || op.len == 0 {
            // 1 kB/s is 1 byte per millisecond.
            let of_bytes = (op.len * 1_000_000).checked_div(kbps);
            (*last_bytes, *cost_ns) = (
                op.len,
                of_bytes
                    .max(1_000_000_000_u64.checked_div(iops))
                    .unwrap_or(0),
            );
        }
        Some((path, *cost_ns))
    }

    /// Passes the operation to the channels at `now_ns`.
    #[inline]
    fn serve(&mut self, op: QueuedOp, now_ns: u64) {
        let (end_ns, errno) = self.end(&op, now_ns);
        self.op_counters.add(op.kind, op.len, errno);
        self.completions.push(
            end_ns,
            SimCompletion {
                token: op.token,
                submitted_ns: op.submitted_ns,
                errno,
            },
        );
    }

    /// End time and error number of an operation that reaches the channels at `now_ns`.
    #[inline]
    fn end(&mut self, op: &QueuedOp, now_ns: u64) -> (u64, i32) {
        if self.spec.is_gone(now_ns) {
            return (now_ns, libc::ENODEV);
        }
        if op.offset + op.len > self.spec.capacity_bytes {
            return (now_ns, libc::EINVAL);
        }
        // WriteBack (sync_file_range) writes out the page cache, which a simulated drive does not have.
        if op.has_placement || matches!(op.kind, OpKind::WriteBack(_)) {
            return (now_ns, libc::EOPNOTSUPP);
        }
        // The N operations that end last hold the N channels; the earliest end frees one. Refused operations hold none.
        let free_ns = self
            .completions
            .from_last(self.spec.channels as usize - 1)
            .map_or(0, |(end_ns, _)| end_ns);
        let taken_ns = match op.kind {
            // A flush begins when all operations accepted before it have ended.
            OpKind::Flush | OpKind::FlushFile => self
                .completions
                .from_last(0)
                .map_or(0, |(end_ns, _)| end_ns),
            _ => 0,
        };
        let start_ns = self.spec.stalls.thaw(free_ns.max(taken_ns).max(now_ns));
        let service_ns = self.service_ns(op.kind, start_ns);
        let served_ns = self.spec.stalls.delay(start_ns, service_ns);
        let end_ns = self.transfer(op, served_ns);
        // Every operation takes at least 1 ns, because otherwise a closed loop would never advance time.
        let end_ns = end_ns.max(now_ns + 1);
        let errno = if self.spec.is_gone(end_ns) {
            libc::ENODEV
        } else if self
            .spec
            .fails(op.offset..op.offset + op.len, &mut self.random)
        {
            libc::EIO
        } else {
            0
        };
        (end_ns, errno)
    }

    /// Service time of an operation on a channel, without the transfer.
    fn service_ns(&mut self, kind: OpKind, start_ns: u64) -> u64 {
        let mut service_ns = match kind {
            OpKind::Read => self.spec.read_ns,
            _ => self.spec.write_ns,
        };
        if self.spec.jitter_pct > 0 {
            let span = service_ns * u64::from(self.spec.jitter_pct) / 100;
            service_ns = service_ns - span + self.random.below(2 * span + 1);
        }
        match self.spec.slow_after_ns {
            Some(slow_ns) if start_ns >= slow_ns => {
                (service_ns as f64 * self.spec.slow_factor) as u64
            }
            _ => service_ns,
        }
    }

    /// End of the transfer of data that is ready at `ready_ns`. All channels share one path per direction.
    #[inline]
    fn transfer(&mut self, op: &QueuedOp, ready_ns: u64) -> u64 {
        if self.spec.window_ns > 0 {
            // The cost was charged in `has_to_wait`.
            return ready_ns;
        }
        let Some((path, cost_ns)) = self.cost_ns(op) else {
            return ready_ns;
        };
        let start_ns = self.spec.stalls.thaw(ready_ns.max(self.path_free_ns[path]));
        let end_ns = self.spec.stalls.delay(start_ns, cost_ns);
        self.path_free_ns[path] = end_ns;
        end_ns
    }
}

impl StallSpec {
    /// Earliest instant at or after `at_ns` outside all stalls.
    #[inline]
    fn thaw(&self, at_ns: u64) -> u64 {
        if self.length_ns == 0 {
            at_ns
        } else {
            self.end_of_stalls(at_ns)
        }
    }

    fn end_of_stalls(&self, at_ns: u64) -> u64 {
        let mut at_ns = at_ns;
        // The last stall before `at_ns` may still last. The next stall may begin before the last stall ends.
        while let Some(end_ns) = self
            .last_begin(at_ns)
            .map(|begin_ns| begin_ns + self.length_ns)
            .filter(|ns| *ns > at_ns)
        {
            at_ns = end_ns;
        }
        at_ns
    }

    /// End of `work_ns` of work that starts at `start_ns`; stalls interrupt the work.
    #[inline]
    fn delay(&self, start_ns: u64, work_ns: u64) -> u64 {
        if self.length_ns == 0 {
            start_ns + work_ns
        } else {
            self.delayed(start_ns, work_ns)
        }
    }

    fn delayed(&self, start_ns: u64, work_ns: u64) -> u64 {
        let mut start_ns = start_ns;
        let mut left_ns = work_ns;
        while let Some(begin_ns) = self
            .next_begin(start_ns)
            .filter(|begin_ns| *begin_ns < start_ns + left_ns)
        {
            left_ns -= begin_ns - start_ns;
            start_ns = self.thaw(begin_ns);
        }
        start_ns + left_ns
    }

    /// Begin of the latest stall at or before `at_ns`.
    fn last_begin(&self, at_ns: u64) -> Option<u64> {
        let periodic = at_ns
            .checked_div(self.every_ns)
            .filter(|n| *n > 0)
            .map(|n| n * self.every_ns);
        let listed = self.at_ns[..self.at_ns.partition_point(|begin| *begin <= at_ns)]
            .last()
            .copied();
        periodic.max(listed)
    }

    /// Begin of the earliest stall after `at_ns`.
    fn next_begin(&self, at_ns: u64) -> Option<u64> {
        let periodic = at_ns
            .checked_div(self.every_ns)
            .map(|n| (n + 1) * self.every_ns);
        let listed = self
            .at_ns
            .get(self.at_ns.partition_point(|begin| *begin <= at_ns))
            .copied();
        periodic.into_iter().chain(listed).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::buffer::Buf;

    fn ends(drive: &str, count: u32, now_ns: u64) -> Vec<u64> {
        let mut model = QueueModel::new(&drive.parse().unwrap(), 1);
        for token in 0..count {
            let kind = OpKind::Read;
            let buf = Buf::empty();
            model.submit(
                &Op {
                    token,
                    ..Op::new(kind, 0, 4096, buf)
                },
                now_ns,
            );
        }
        let mut ends = Vec::new();
        while ends.len() < count as usize {
            let at_ns = model.next_event_ns();
            if let Some(done) = model.advance() {
                assert_eq!(done.submitted_ns, now_ns);
                ends.push(at_ns);
            }
        }
        ends
    }

    #[test]
    fn a_limit_per_window_delays_only_the_operations_beyond_the_limit() {
        const MS: u64 = 1_000_000;
        let drive = "sim:channels=4+read-us=10+jitter-pct=0+read-mbps=0+read-iops=400+window-ms=10";
        let expected = [12, 12, 12, 12, 20, 20, 20, 20, 30].map(|ms| ms * MS + 10_000);
        let found = ends(drive, 9, 12 * MS);
        assert_eq!(found, expected, "four in a window of 10 ms");
        // A 4 KiB read at 1 MB/s costs 4.096 ms of a window of 8.192 ms. By 300 reads/s alone, it would cost 3.3 ms.
        let bytes =
            "sim:channels=4+read-us=10+jitter-pct=0+read-mbps=1+read-iops=300+window-ms=8.192";
        assert_eq!(ends(bytes, 4, 0), [10_000, 10_000, 8_202_000, 8_202_000]);
        let even = "sim:channels=4+read-us=10+jitter-pct=0+read-mbps=0+read-iops=1000";
        let found = ends(even, 3, 0);
        assert_eq!(found, [10_000 + MS, 10_000 + 2 * MS, 10_000 + 3 * MS]);
        // 4 KiB at 8.192 MB/s take half a millisecond; the lowest limit is 1 kB/s.
        let decimals = "sim:channels=4+read-us=10+jitter-pct=0+read-mbps=8.192";
        assert_eq!(ends(decimals, 2, 0), [10_000 + MS / 2, 10_000 + MS]);
        for wrong in ["0.0001", "-1", "nan", "inf", "fast"] {
            assert!(
                format!("sim:read-mbps={wrong}")
                    .parse::<DriveSpec>()
                    .is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_stall_delays_work_that_starts_in_it_or_runs_into_it() {
        let stalls = StallSpec {
            length_ns: 100,
            every_ns: 1000,
            at_ns: vec![1500],
        };
        assert_eq!(stalls.delay(0, 50), 50, "before the first stall");
        assert_eq!(stalls.delay(990, 50), 1140, "runs into the stall at 1000");
        assert_eq!(stalls.thaw(1020), 1100, "in the stall");
        assert_eq!(stalls.thaw(1100), 1100, "when it ends");
        let overlapping = StallSpec {
            length_ns: 100,
            every_ns: 0,
            at_ns: vec![1000, 1050, 1140],
        };
        let found = overlapping.thaw(1010);
        assert_eq!(found, 1240, "the next begins before it ends");
        let found = overlapping.delay(990, 20);
        assert_eq!(found, 1250, "and holds up what ran into the first");
        assert_eq!(stalls.delay(1100, 50), 1150, "starts when it ends");
        let found = stalls.delay(1490, 20);
        assert_eq!(found, 1610, "runs into the one at a given time");
        let found = stalls.delay(1990, 950);
        assert_eq!(found, 3140, "runs through two: 10 + 900 + 40");
    }
}
