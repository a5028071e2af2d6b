//! One simulated drive: channels, service times, stalls, errors.
//!
//! Because operations are served in order and everything that will happen to the drive is known from
//! the start, an operation's end can be computed the moment it arrives; no event is needed but that one.

use super::spec::DriveSpec;
use crate::op::{Kind, Op, Outcome};
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A drive in use.
#[derive(Debug)]
pub struct Drive {
    spec: DriveSpec,
    /// When each channel is free again, earliest first.
    channels: BinaryHeap<Reverse<u64>>,
    random: Random,
}

impl Drive {
    /// A fresh drive. Its randomness is fixed by the seed of `spec`, or by `seed` where that has none.
    pub fn new(spec: &DriveSpec, seed: u64) -> Self {
        let channels = (0..spec.channels).map(|_| Reverse(0)).collect();
        Self { channels, random: Random::new(spec.seed.unwrap_or(seed)), spec: spec.clone() }
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.spec.capacity_bytes
    }

    /// Takes an operation at `now_ns`; tells when and how it will end.
    pub fn take(&mut self, op: &Op, now_ns: u64) -> (u64, Outcome) {
        if self.spec.gone_at_ns.is_some_and(|gone_ns| now_ns >= gone_ns) {
            return (now_ns, Outcome::Errno(libc::ENODEV));
        }
        if op.offset + u64::from(op.len) > self.spec.capacity_bytes {
            return (now_ns, Outcome::Errno(libc::EINVAL));
        }
        let Reverse(free_ns) = self.channels.pop().unwrap_or(Reverse(0));
        let start_ns = free_ns.max(now_ns);
        let service_ns = self.service_ns(op, start_ns);
        let end_ns = self.spec.stalls.delay(start_ns, service_ns);
        self.channels.push(Reverse(end_ns));
        if self.spec.gone_at_ns.is_some_and(|gone_ns| end_ns >= gone_ns) {
            return (end_ns, Outcome::Errno(libc::ENODEV));
        }
        (end_ns, self.outcome(op))
    }

    fn service_ns(&mut self, op: &Op, start_ns: u64) -> u64 {
        let (base_ns, bytes_per_us) = match op.kind {
            Kind::Read => (self.spec.read_ns, self.spec.read_mbps),
            Kind::Write => (self.spec.write_ns, self.spec.write_mbps),
        };
        // 1 MB/s is 1 byte a microsecond. The bandwidth is the drive's, so a channel has its share.
        let transfer_ns = match bytes_per_us {
            0 => 0,
            _ => u64::from(op.len) * 1_000 * u64::from(self.spec.channels) / bytes_per_us,
        };
        let mut service_ns = base_ns + transfer_ns;
        if self.spec.jitter_pct > 0 {
            let span = service_ns * u64::from(self.spec.jitter_pct) / 100;
            service_ns = service_ns - span + self.random.below(2 * span + 1);
        }
        match self.spec.slow_after_ns {
            Some(slow_ns) if start_ns >= slow_ns => (service_ns as f64 * self.spec.slow_factor) as u64,
            _ => service_ns,
        }
    }

    fn outcome(&mut self, op: &Op) -> Outcome {
        let op_end = op.offset + u64::from(op.len);
        let bad = self.spec.bad_range.as_ref().is_some_and(|bad| op.offset < bad.end && bad.start < op_end);
        let unlucky = self.spec.error_rate > 0.0 && self.random.unit() < self.spec.error_rate;
        if bad || unlucky { Outcome::Errno(libc::EIO) } else { Outcome::Done }
    }
}

/// When the drive is frozen: nothing starts, nothing goes on, everything resumes afterwards.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stalls {
    /// Length of each stall.
    pub length_ns: u64,
    /// Stalls begin at every multiple of this, the first after one period; 0: none such.
    pub every_ns: u64,
    /// Stalls begin at these instants too, ascending.
    pub at_ns: Vec<u64>,
}

impl Stalls {
    /// End of a service of `service_ns` that would start at `start_ns` if the drive were not frozen.
    fn delay(&self, start_ns: u64, service_ns: u64) -> u64 {
        if self.length_ns == 0 {
            return start_ns + service_ns;
        }
        let mut start_ns = start_ns;
        // The last stall that began at or before the start can still be on.
        if let Some(begin_ns) = self.last_begin(start_ns) {
            start_ns = start_ns.max(begin_ns + self.length_ns);
        }
        let mut left_ns = service_ns;
        while let Some(begin_ns) = self.next_begin(start_ns) {
            if begin_ns >= start_ns + left_ns {
                break;
            }
            left_ns -= begin_ns - start_ns;
            start_ns = begin_ns + self.length_ns;
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
        assert_eq!(stalls.delay(1020, 50), 1150, "starts in the stall");
        assert_eq!(stalls.delay(1100, 50), 1150, "starts when it ends");
        assert_eq!(stalls.delay(1490, 20), 1610, "runs into the one at a given time");
        assert_eq!(stalls.delay(1990, 950), 3140, "runs through two: 10 + 900 + 40");
    }
}
