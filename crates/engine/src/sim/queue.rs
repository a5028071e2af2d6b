//! The queueing model: channels, service times, two paths for data, stalls, errors.
//!
//! It stands for no product. Operations queue, first come first served, for one of a few equal channels,
//! hold it for a service time, then pass their data over one path that all channels share, and are done.
//!
//! Because operations are served in order and everything that will happen to the drive is known from
//! the start, an operation's end can be computed the moment it arrives; no event is needed but that one.

use super::counted::Counted;
use super::model::{Done, DriveModel};
use super::spec::{DriveSpec, Stalls};
use crate::event_queue::EventQueue;
use results::telemetry::Column;
use sys::op::{Op, OpKind, Outcome};
use sys::random::Random;

/// A drive in use.
#[derive(Debug, Clone)]
pub struct QueueModel {
    spec: DriveSpec,
    /// Operations in the drive and the instants at which they end, earliest first, those of one instant in
    /// the order in which they came. Each holds a channel until then, or waits for one.
    ends: EventQueue<u64, Done>,
    /// When the path for the data of reads, and of writes, is free again.
    path_free_ns: [u64; 2],
    random: Random,
    counted: Counted,
}

impl DriveModel for QueueModel {
    #[inline]
    fn submit(&mut self, op: &Op, now_ns: u64) {
        let (end_ns, outcome) = self.end(op, now_ns);
        self.counted.add(op.kind, op.len, outcome);
        let done = Done { token: op.token, submitted_ns: now_ns, outcome };
        self.ends.push(end_ns, done);
    }

    #[inline]
    fn next_event_ns(&self) -> u64 {
        self.ends.first().map_or(u64::MAX, |(end_ns, _)| end_ns)
    }

    #[inline]
    fn advance(&mut self) -> Option<Done> {
        self.ends.pop().map(|(_, done)| done)
    }

    fn counters(&self) -> Vec<(Column, u64)> {
        Counted::COLUMNS.into_iter().zip(self.counted.values()).collect()
    }
}

impl QueueModel {
    /// A fresh drive. Its randomness is fixed by the seed of `spec`, or by `seed` where that has none.
    pub fn new(spec: &DriveSpec, seed: u64) -> Self {
        Self {
            ends: EventQueue::with_capacity(64),
            path_free_ns: [0; 2],
            random: Random::new(spec.seed.unwrap_or(seed)),
            counted: Counted::default(),
            spec: spec.clone(),
        }
    }

    /// When and how an operation will end that arrives at `now_ns`.
    #[inline]
    fn end(&mut self, op: &Op, now_ns: u64) -> (u64, Outcome) {
        if self.spec.gone_at_ns.is_some_and(|gone_ns| now_ns >= gone_ns) {
            return (now_ns, Outcome::Errno(libc::ENODEV));
        }
        if op.offset + u64::from(op.len) > self.spec.capacity_bytes {
            return (now_ns, Outcome::Errno(libc::EINVAL));
        }
        if op.placement.is_some() {
            return (now_ns, Outcome::Errno(libc::EOPNOTSUPP));
        }
        // The operations that end last are those that have a channel last, one each: the first of them frees
        // the channel that is free first. What was refused ended at once and is never among them.
        let free_ns = self.ends.from_last(self.spec.channels as usize - 1).map_or(0, |(end_ns, _)| end_ns);
        let taken_ns = match op.kind {
            // What is done already is on the medium: a flush waits for the rest of what was taken before it.
            OpKind::Flush => self.ends.last().map_or(0, |(end_ns, _)| end_ns),
            _ => 0,
        };
        let start_ns = self.spec.stalls.thaw(free_ns.max(taken_ns).max(now_ns));
        let service_ns = self.service_ns(op.kind, start_ns);
        let served_ns = self.spec.stalls.delay(start_ns, service_ns);
        let end_ns = self.transfer(op, served_ns);
        // Nothing takes no time at all, or time would stand still for a closed load.
        let end_ns = end_ns.max(now_ns + 1);
        if self.spec.gone_at_ns.is_some_and(|gone_ns| end_ns >= gone_ns) {
            return (end_ns, Outcome::Errno(libc::ENODEV));
        }
        (end_ns, self.outcome(op))
    }

    /// Time that a channel works on an operation, without its transfer.
    fn service_ns(&mut self, kind: OpKind, start_ns: u64) -> u64 {
        let mut service_ns = match kind {
            OpKind::Read => self.spec.read_ns,
            OpKind::Write | OpKind::Flush | OpKind::Deallocate => self.spec.write_ns,
        };
        if self.spec.jitter_pct > 0 {
            let span = service_ns * u64::from(self.spec.jitter_pct) / 100;
            service_ns = service_ns - span + self.random.below(2 * span + 1);
        }
        match self.spec.slow_after_ns {
            Some(slow_ns) if start_ns >= slow_ns => (service_ns as f64 * self.spec.slow_factor) as u64,
            _ => service_ns,
        }
    }

    /// End of the transfer of data that is ready at `ready_ns`: all channels share one path each way.
    #[inline]
    fn transfer(&mut self, op: &Op, ready_ns: u64) -> u64 {
        let (path, bytes_per_us) = match op.kind {
            OpKind::Read => (0, self.spec.read_mbps),
            OpKind::Write => (1, self.spec.write_mbps),
            OpKind::Flush | OpKind::Deallocate => return ready_ns,
        };
        // 1 MB/s is 1 byte a microsecond.
        let Some(transfer_ns) = (u64::from(op.len) * 1_000).checked_div(bytes_per_us) else { return ready_ns };
        let start_ns = self.spec.stalls.thaw(ready_ns.max(self.path_free_ns[path]));
        let end_ns = self.spec.stalls.delay(start_ns, transfer_ns);
        self.path_free_ns[path] = end_ns;
        end_ns
    }

    fn outcome(&mut self, op: &Op) -> Outcome {
        let op_end = op.offset + u64::from(op.len);
        let bad = self.spec.bad_range.as_ref().is_some_and(|bad| op.offset < bad.end && bad.start < op_end);
        let unlucky = self.spec.error_rate > 0.0 && self.random.unit() < self.spec.error_rate;
        if bad || unlucky { Outcome::Errno(libc::EIO) } else { Outcome::Done }
    }
}

impl Stalls {
    /// The earliest instant from `at_ns` on at which the drive is not frozen.
    #[inline]
    fn thaw(&self, at_ns: u64) -> u64 {
        if self.length_ns == 0 { at_ns } else { self.end_of_stalls(at_ns) }
    }

    fn end_of_stalls(&self, at_ns: u64) -> u64 {
        let mut at_ns = at_ns;
        // The last stall that began by then can still be on, and another can begin before it ends.
        while let Some(end_ns) =
            self.last_begin(at_ns).map(|begin_ns| begin_ns + self.length_ns).filter(|ns| *ns > at_ns)
        {
            at_ns = end_ns;
        }
        at_ns
    }

    /// End of `work_ns` of work that starts at `start_ns`, when the drive is not frozen.
    #[inline]
    fn delay(&self, start_ns: u64, work_ns: u64) -> u64 {
        if self.length_ns == 0 { start_ns + work_ns } else { self.delayed(start_ns, work_ns) }
    }

    fn delayed(&self, start_ns: u64, work_ns: u64) -> u64 {
        let (mut start_ns, mut left_ns) = (start_ns, work_ns);
        while let Some(begin_ns) = self.next_begin(start_ns).filter(|begin_ns| *begin_ns < start_ns + left_ns) {
            left_ns -= begin_ns - start_ns;
            start_ns = self.thaw(begin_ns);
        }
        start_ns + left_ns
    }

    /// Latest stall that begins at or before `at_ns`.
    fn last_begin(&self, at_ns: u64) -> Option<u64> {
        let periodic = at_ns.checked_div(self.every_ns).filter(|n| *n > 0).map(|n| n * self.every_ns);
        let listed = self.at_ns[..self.at_ns.partition_point(|begin| *begin <= at_ns)].last().copied();
        periodic.max(listed)
    }

    /// Earliest stall that begins after `at_ns`.
    fn next_begin(&self, at_ns: u64) -> Option<u64> {
        let periodic = at_ns.checked_div(self.every_ns).map(|n| (n + 1) * self.every_ns);
        let listed = self.at_ns.get(self.at_ns.partition_point(|begin| *begin <= at_ns)).copied();
        match (periodic, listed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_delays_what_starts_in_it_and_what_runs_into_it() {
        let stalls = Stalls { length_ns: 100, every_ns: 1000, at_ns: vec![1500] };
        assert_eq!(stalls.delay(0, 50), 50, "before the first stall");
        assert_eq!(stalls.delay(990, 50), 1140, "runs into the stall at 1000");
        assert_eq!(stalls.thaw(1020), 1100, "in the stall");
        assert_eq!(stalls.thaw(1100), 1100, "when it ends");
        let overlapping = Stalls { length_ns: 100, every_ns: 0, at_ns: vec![1000, 1050, 1140] };
        assert_eq!(overlapping.thaw(1010), 1240, "the next begins before it ends");
        assert_eq!(overlapping.delay(990, 20), 1250, "and holds up what ran into the first");
        assert_eq!(stalls.delay(1100, 50), 1150, "starts when it ends");
        assert_eq!(stalls.delay(1490, 20), 1610, "runs into the one at a given time");
        assert_eq!(stalls.delay(1990, 950), 3140, "runs through two: 10 + 900 + 40");
    }
}
