//! Tracks devices with operations in flight: time of the last completion, length of silence, and delay due to
//! operations that flashproof issued late.

use std::ops::Range;

/// A device, as one shard sees it.
#[derive(Debug, Clone, Copy)]
struct DeviceActivity {
    in_flight: u32,
    /// Time of the last completion, nanoseconds since the run began.
    last_completion_ns: u64,
    /// Time since which a completion is awaited: the last completion, or a submission to the idle device.
    since_ns: u64,
    /// Operations in flight when the last punctual operation was issued.
    usual_in_flight: u32,
    /// Longest lag of the operations issued late since the last punctual operation: an upper bound of the device's
    /// delay. The lag is kept until at most `usual_in_flight` operations are in flight.
    behind_ns: u64,
}

/// A stream's operations on a device, as one shard sees them.
#[derive(Debug, Clone, Copy, Default)]
struct CellActivity {
    device: usize,
    in_flight: u32,
    /// Time since which the stream has operations in flight.
    since_ns: u64,
    /// Silence before this time is already counted.
    counted_ns: u64,
    silent_ns: u64,
    /// Start and end of the silence before the current interval that was not yet long enough to count.
    before_ns: (u64, u64),
}

/// Silence of a device towards a stream that had operations in flight on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silent {
    pub(super) cell: usize,
    /// Silence in the interval that ends.
    pub(super) silent_ns: u64,
    /// Silence before the interval. This silence became long enough to count only in the interval.
    pub(super) before_ns: Range<u64>,
}

/// The devices, as one shard sees them: an operation's device is that of its cell.
#[derive(Debug)]
pub(super) struct Silence {
    devices: Vec<DeviceActivity>,
    cells: Vec<CellActivity>,
    /// Gaps longer than this are silence, nanoseconds.
    gap_max_ns: u64,
    /// A lag longer than this puts a device behind.
    harmless_lag_ns: u64,
    began_ns: u64,
    /// End of the run: silence after it does not count.
    end_ns: u64,
}

impl CellActivity {
    #[inline]
    fn begin(&mut self, now_ns: u64) {
        if self.in_flight == 0 {
            self.since_ns = now_ns;
        }
        self.in_flight += 1;
    }

    #[inline]
    fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn count(&mut self, from_ns: u64, until_ns: u64, began_ns: u64) {
        let from_ns = from_ns.max(self.counted_ns);
        if from_ns < began_ns.min(until_ns) {
            self.before_ns = (from_ns, began_ns.min(until_ns));
        }
        self.silent_ns += until_ns.saturating_sub(from_ns.max(began_ns));
        self.counted_ns = until_ns.max(self.counted_ns);
    }
}

impl Silence {
    pub(super) fn new(devices: usize, cells: usize, gap_max_ns: u64, harmless_lag_ns: u64) -> Self {
        // The first operations may be late, and the usual number in flight is unknown yet.
        let device = DeviceActivity {
            in_flight: 0,
            last_completion_ns: 0,
            since_ns: 0,
            usual_in_flight: u32::MAX,
            behind_ns: 0,
        };
        let devices = vec![device; devices.max(1)];
        // The table avoids a division per operation, which would be noticeable on the hot path.
        let cells = (0..cells)
            .map(|cell| CellActivity {
                device: cell % devices.len(),
                ..CellActivity::default()
            })
            .collect();
        Self {
            devices,
            cells,
            gap_max_ns,
            harmless_lag_ns,
            began_ns: 0,
            end_ns: u64::MAX,
        }
    }

    /// Records an operation issued at `now_ns`, late by `lag_ns`. Returns an upper bound of the delay that late
    /// operations cause: without them, a device with a queue would have answered earlier by at most this time.
    #[inline]
    pub(super) fn submitted(&mut self, cell: u32, now_ns: u64, lag_ns: u64) -> u64 {
        let stream = &mut self.cells[cell as usize];
        let device = &mut self.devices[stream.device];
        if device.in_flight == 0 {
            device.since_ns = now_ns;
        }
        if lag_ns > self.harmless_lag_ns {
            device.behind_ns = device.behind_ns.max(lag_ns);
        } else if device.behind_ns == 0 {
            device.usual_in_flight = device.in_flight;
        }
        device.in_flight += 1;
        stream.begin(now_ns);
        device.behind_ns
    }

    /// Records that a chain of operations begins at `now_ns`. Until the chain ends, its stream waits for the device.
    #[inline]
    pub(super) fn begin_chain(&mut self, cell: u32, now_ns: u64) {
        self.cells[cell as usize].begin(now_ns);
    }

    #[inline]
    pub(super) fn end_chain(&mut self, cell: u32) {
        self.cells[cell as usize].end();
    }

    /// Records a completion that happened at `at_ns`, or up to `unseen_ns` earlier.
    #[inline]
    pub(super) fn returned(&mut self, cell: u32, at_ns: u64, unseen_ns: u64) {
        let device_index = self.cells[cell as usize].device;
        let back_ns = at_ns.saturating_sub(unseen_ns);
        if back_ns.saturating_sub(self.devices[device_index].since_ns) > self.gap_max_ns {
            self.count(device_index, back_ns);
        }
        let device = &mut self.devices[device_index];
        device.in_flight = device.in_flight.saturating_sub(1);
        if device.in_flight <= device.usual_in_flight {
            device.behind_ns = 0;
        }
        device.last_completion_ns = device.last_completion_ns.max(at_ns);
        device.since_ns = device.since_ns.max(at_ns);
        self.cells[cell as usize].end();
    }

    /// Counts a device's silence up to `until_ns`, for each stream that has operations in flight on the device.
    #[cold]
    fn count(&mut self, device: usize, until_ns: u64) {
        let device_count = self.devices.len();
        let since_ns = self.devices[device].since_ns;
        for stream in self
            .cells
            .iter_mut()
            .skip(device)
            .step_by(device_count)
            .filter(|asked| asked.in_flight > 0)
        {
            let from_ns = since_ns.max(stream.since_ns);
            if until_ns.saturating_sub(from_ns) > self.gap_max_ns {
                stream.count(from_ns, until_ns.min(self.end_ns), self.began_ns);
            }
        }
    }

    /// The silence of the interval that ends at `at_ns`.
    pub(super) fn take(&mut self, at_ns: u64) -> Vec<Silent> {
        for device in 0..self.devices.len() {
            self.count(device, at_ns);
        }
        self.began_ns = at_ns.min(self.end_ns);
        let mut silent = Vec::new();
        for (cell, stream) in self.cells.iter_mut().enumerate() {
            let silent_ns = std::mem::take(&mut stream.silent_ns);
            let before_ns = std::mem::take(&mut stream.before_ns);
            if silent_ns > 0 || before_ns != (0, 0) {
                silent.push(Silent {
                    cell,
                    silent_ns,
                    before_ns: before_ns.0..before_ns.1,
                });
            }
        }
        silent
    }

    /// Ends the run at `end_ns`. A silence in progress can still become long enough to count.
    pub(super) fn end(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    /// Time of a device's last completion; 0 if there was none.
    pub(super) fn last_completion_ns(&self, cell: u32) -> u64 {
        self.devices[self.cells[cell as usize].device].last_completion_ns
    }

    /// Time at which all devices with operations in flight will have been silent for `hang_ns`; 0 without such devices.
    pub(super) fn hangs_at_ns(&self, hang_ns: u64) -> u64 {
        let busy = self.devices.iter().filter(|device| device.in_flight > 0);
        busy.map(|device| device.since_ns.saturating_add(hang_ns))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    /// Silence of the first device as seen by the first stream: in the interval, and before the interval.
    fn silent(silent_ns: u64, before_ns: Range<u64>) -> Vec<Silent> {
        vec![Silent {
            cell: 0,
            silent_ns,
            before_ns,
        }]
    }

    #[test]
    fn a_silence_counts_from_its_start_in_the_intervals_that_it_overlaps() {
        let mut silence = Silence::new(2, 2, SEC / 2, 0);
        silence.submitted(0, 0, 0);
        silence.submitted(0, 0, 0);
        silence.returned(0, SEC / 2, 0);
        assert_eq!(silence.take(SEC), [], "half a second is allowed");
        assert_eq!(
            silence.take(2 * SEC),
            silent(SEC, SEC / 2..SEC),
            "the silence before it became too long counts"
        );
        assert_eq!(silence.take(3 * SEC), silent(SEC, 0..0));
        assert_eq!(silence.hangs_at_ns(60 * SEC), SEC / 2 + 60 * SEC);
        silence.returned(0, 7 * SEC / 2, 0);
        assert_eq!(silence.take(4 * SEC), silent(SEC / 2, 0..0));
        assert_eq!(silence.take(9 * SEC), vec![]);
        assert_eq!(silence.hangs_at_ns(60 * SEC), 0, "nothing is in flight");
    }

    #[test]
    fn a_silence_that_outlasts_the_run_counts_up_to_its_end() {
        let mut silence = Silence::new(1, 1, SEC / 2, 0);
        silence.submitted(0, 3 * SEC / 4, 0);
        silence.end(SEC);
        assert_eq!(silence.take(SEC), [], "it could still be short");
        silence.returned(0, 5 * SEC, 0);
        silence.submitted(0, 5 * SEC, 0);
        assert_eq!(silence.take(9 * SEC), silent(0, 3 * SEC / 4..SEC));
    }

    #[test]
    fn time_before_an_unseen_completion_was_detected_is_no_silence() {
        let mut silence = Silence::new(1, 1, SEC / 2, 0);
        silence.submitted(0, 0, 0);
        silence.returned(0, SEC, 3 * SEC / 4);
        assert_eq!(silence.take(SEC), []);
        assert_eq!(silence.last_completion_ns(0), SEC);
    }

    #[test]
    fn a_device_is_silent_to_the_streams_that_have_operations_in_flight() {
        let mut silence = Silence::new(1, 2, SEC / 2, 0);
        silence.submitted(0, 0, 0);
        silence.returned(0, SEC / 10, 0);
        silence.submitted(1, SEC / 10, 0);
        let of_second = vec![Silent {
            cell: 1,
            silent_ns: 9 * SEC / 10,
            before_ns: 0..0,
        }];
        assert_eq!(silence.take(SEC), of_second, "the first has ended");
        silence.submitted(0, 5 * SEC / 4, 0);
        silence.returned(1, 2 * SEC, 0);
        let silent = |cell, silent_ns| Silent {
            cell,
            silent_ns,
            before_ns: 0..0,
        };
        assert_eq!(
            silence.take(2 * SEC),
            [silent(0, 3 * SEC / 4), silent(1, SEC)],
            "the first stream submitted later"
        );
    }

    #[test]
    fn a_device_is_behind_by_the_lag_of_late_operations_until_its_queue_is_as_short_as_before() {
        let mut silence = Silence::new(1, 1, SEC, 10);
        assert_eq!(silence.submitted(0, 0, 700), 700, "the first is late");
        silence.returned(0, 1_000, 0);
        let found = silence.submitted(0, 2_000, 5);
        assert_eq!(found, 0, "the usual number in flight is unknown");
        for lag_ns in [900, 500, 100] {
            assert_eq!(silence.submitted(0, 3_000, lag_ns), 900);
        }
        let found = silence.submitted(0, 3_100, 0);
        assert_eq!(found, 900, "this operation queues behind the late ones");
        (0..4).for_each(|_| silence.returned(0, 4_000, 0));
        let found = silence.submitted(0, 4_100, 0);
        assert_eq!(found, 900, "1 is in flight, before it was 0");
        (0..2).for_each(|_| silence.returned(0, 5_000, 0));
        assert_eq!(silence.submitted(0, 5_100, 0), 0);
    }
}
