//! When each device last returned something, and for how long it was silent.

use std::ops::Range;

/// What one shard sees of a device.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    in_flight: u32,
    /// When it last returned something, nanoseconds since the run began.
    last_back_ns: u64,
    /// From then on it owes an answer: it returned something, or an operation was handed to it that had none before.
    since_ns: u64,
    /// Silence up to here is counted.
    counted_ns: u64,
    /// Silence in the interval under way.
    silent_ns: u64,
    /// Silence before that which was too short to be one when its interval ended.
    before_ns: (u64, u64),
}

/// For how long a device was silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silent {
    pub(super) device: usize,
    /// In the interval that ends.
    pub(super) silent_ns: u64,
    /// And before it, from and to: it became too long in this interval.
    pub(super) before_ns: Range<u64>,
}

/// What one shard sees of its devices: an operation's is that of its cell.
#[derive(Debug)]
pub(super) struct Silence {
    devices: Vec<Watched>,
    /// What lasts longer is silence.
    longest_ns: u64,
    /// When the interval under way began.
    began_ns: u64,
    /// When the run ends: silence after that does not count.
    end_ns: u64,
}

impl Watched {
    /// Counts the silence that lasts until `until_ns`.
    fn count(&mut self, until_ns: u64, began_ns: u64) {
        let from_ns = self.since_ns.max(self.counted_ns);
        if from_ns < began_ns.min(until_ns) {
            self.before_ns = (from_ns, began_ns.min(until_ns));
        }
        self.silent_ns += until_ns.saturating_sub(from_ns.max(began_ns));
        self.counted_ns = until_ns.max(self.counted_ns);
    }
}

impl Silence {
    pub(super) fn new(devices: usize, longest_ns: u64) -> Self {
        Self { devices: vec![Watched::default(); devices.max(1)], longest_ns, began_ns: 0, end_ns: u64::MAX }
    }

    #[inline]
    fn device(&self, cell: u32) -> usize {
        cell as usize % self.devices.len()
    }

    /// An operation is handed over at `now_ns`.
    #[inline]
    pub(super) fn submitted(&mut self, cell: u32, now_ns: u64) {
        let device = self.device(cell);
        let device = &mut self.devices[device];
        if device.in_flight == 0 {
            device.since_ns = now_ns;
        }
        device.in_flight += 1;
    }

    /// An operation came back at `at_ns`, or up to `unseen_ns` before that.
    #[inline]
    pub(super) fn returned(&mut self, cell: u32, at_ns: u64, unseen_ns: u64) {
        let device = self.device(cell);
        let device = &mut self.devices[device];
        let back_ns = at_ns.saturating_sub(unseen_ns).max(device.since_ns);
        if back_ns - device.since_ns > self.longest_ns {
            device.count(back_ns.min(self.end_ns), self.began_ns);
        }
        device.in_flight = device.in_flight.saturating_sub(1);
        device.last_back_ns = device.last_back_ns.max(at_ns);
        device.since_ns = device.since_ns.max(at_ns);
    }

    /// The devices that were silent in the interval that ends at `at_ns`, and for how long.
    pub(super) fn take(&mut self, at_ns: u64) -> Vec<Silent> {
        let (end_ns, began_ns) = (self.end_ns, std::mem::replace(&mut self.began_ns, at_ns.min(self.end_ns)));
        let mut silent = Vec::new();
        for (number, device) in self.devices.iter_mut().enumerate() {
            if device.in_flight > 0 && at_ns.saturating_sub(device.since_ns) > self.longest_ns {
                device.count(at_ns.min(end_ns), began_ns);
            }
            let (silent_ns, before_ns) = (std::mem::take(&mut device.silent_ns), std::mem::take(&mut device.before_ns));
            if silent_ns > 0 || before_ns != (0, 0) {
                silent.push(Silent { device: number, silent_ns, before_ns: before_ns.0..before_ns.1 });
            }
        }
        silent
    }

    /// The run ends at `end_ns`. What is silent then can still become too long.
    pub(super) fn end(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    /// When a device last returned something; 0 if it never did.
    pub(super) fn last_back_ns(&self, cell: u32) -> u64 {
        self.devices[self.device(cell)].last_back_ns
    }

    /// When the last device with operations in flight will have been silent for `hang_ns`; 0 where none are in flight.
    pub(super) fn hangs_at_ns(&self, hang_ns: u64) -> u64 {
        let busy = self.devices.iter().filter(|device| device.in_flight > 0);
        busy.map(|device| device.since_ns.saturating_add(hang_ns)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    /// The first device, silent for so long in the interval and before it.
    fn silent(silent_ns: u64, before_ns: Range<u64>) -> Vec<Silent> {
        vec![Silent { device: 0, silent_ns, before_ns }]
    }

    #[test]
    fn a_silence_counts_whole_and_in_the_intervals_that_it_lies_in() {
        let mut silence = Silence::new(2, SEC / 2);
        silence.submitted(0, 0);
        silence.submitted(0, 0);
        silence.returned(0, SEC / 2, 0);
        assert_eq!(silence.take(SEC), [], "half a second is allowed");
        assert_eq!(silence.take(2 * SEC), silent(SEC, SEC / 2..SEC), "what came before it was too long counts, too");
        assert_eq!(silence.take(3 * SEC), silent(SEC, 0..0));
        assert_eq!(silence.hangs_at_ns(60 * SEC), SEC / 2 + 60 * SEC);
        silence.returned(0, 7 * SEC / 2, 0);
        assert_eq!(silence.take(4 * SEC), silent(SEC / 2, 0..0));
        assert_eq!((silence.take(9 * SEC), silence.hangs_at_ns(60 * SEC)), (vec![], 0), "nothing is in flight");
    }

    #[test]
    fn a_silence_that_outlasts_the_run_counts_up_to_its_end() {
        let mut silence = Silence::new(1, SEC / 2);
        silence.submitted(0, 3 * SEC / 4);
        silence.end(SEC);
        assert_eq!(silence.take(SEC), [], "it could still be short");
        silence.returned(0, 5 * SEC, 0);
        silence.submitted(0, 5 * SEC);
        assert_eq!(silence.take(9 * SEC), silent(0, 3 * SEC / 4..SEC));
    }

    #[test]
    fn what_lay_unseen_is_no_silence() {
        let mut silence = Silence::new(1, SEC / 2);
        silence.submitted(0, 0);
        silence.returned(0, SEC, 3 * SEC / 4);
        assert_eq!(silence.take(SEC), []);
        assert_eq!(silence.last_back_ns(0), SEC);
    }
}
