//! Samples for a job's logs: each operation, or sums over periods.
//!
//! The issuing thread adds samples, and the log writer takes them every second, so that memory does not grow with the
//! run.

use super::locked;
use load::choice::with_defaults;
use load::stream::IoRequest;
use results::times::Times;
use std::sync::Mutex;

/// Maximum number of samples that wait for the log writer: more than a fast drive completes in a second.
const KEPT_MAX: usize = 4 << 20;

with_defaults! {
    #[derive(Debug, Clone)]
    pub struct LogOptions {
        /// Name prefixes of the logs of bandwidth, latency and operations; empty: the name of the job.
        pub prefixes: [Option<String>; 3] = [None, None, None],
        /// True if names of log files contain the job's number.
        pub per_job: bool = true,
        /// Averaging period of log lines, milliseconds.
        pub avg_msec: u64 = 0,
        /// True if log lines have the operation's offset.
        pub offset: bool = false,
        /// True if log lines have the operation's priority.
        pub priority: bool = false,
        /// True if log lines have the time since 1970.
        pub unix_epoch: bool = false,
        /// True if lines of latency logs have the mean, and the maximum, of their period.
        pub values: [bool; 2] = [true, false],
        /// True if lines of latency logs have the time of the operation's issue.
        pub issue_time: bool = false,
        /// Log of histograms: prefix; period, milliseconds; number of bins that are merged, as a power of two.
        pub hist_prefix: Option<String> = None,
        pub hist_msec: u64 = 0,
        pub hist_coarseness: u64 = 0,
    }
}

/// An operation, or all operations of a direction in a period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSample {
    /// End of the operation or period, nanoseconds since the measurement began.
    pub end_ns: u64,
    /// Index of the direction: reads, writes, trims.
    pub direction: usize,
    pub ops: u64,
    pub bytes: u64,
    /// Sum of latencies, nanoseconds.
    pub latency_ns: u64,
    /// Length of the period, nanoseconds; 0: a single operation.
    pub length_ns: u64,
    pub offset: u64,
    /// I/O priority of the operation, as the kernel's value.
    pub priority: u16,
    /// Largest operation, bytes, and greatest latency, nanoseconds.
    pub max_bytes: u64,
    pub max_ns: u64,
    /// Operations by latency, in [`BINS`] bins, for a log of histograms; otherwise empty.
    pub bins: Vec<u32>,
}

/// Bins of fio's histograms: 29 powers of two, in 64 parts each.
pub const BINS: usize = 29 << BIN_BITS;
const BIN_BITS: u32 = 6;

/// The bin of a latency. Source: fio's `plat_val_to_idx()`.
fn bin(latency_ns: u64) -> usize {
    let bits = latency_ns
        .checked_ilog2()
        .unwrap_or(0)
        .saturating_sub(BIN_BITS);
    let part = (latency_ns >> bits) as usize & ((1 << BIN_BITS) - 1);
    match bits {
        0 => latency_ns as usize,
        _ => (((bits as usize + 1) << BIN_BITS) + part).min(BINS - 1),
    }
}

#[derive(Debug)]
pub struct Samples {
    /// Length of a period, nanoseconds; 0: each operation is a sample.
    every_ns: u64,
    /// Start and end of the measurement, nanoseconds.
    from_ns: u64,
    until_ns: u64,
    has_bins: bool,
    buffer: Mutex<SampleBuffer>,
}

#[derive(Debug, Default)]
struct SampleBuffer {
    samples: Vec<LogSample>,
    /// Sums of the current period by direction, and the number of the period.
    current: [LogSample; 3],
    number: u64,
    left_out: u64,
}

impl Samples {
    pub(super) fn new(every_ns: u64, from_ns: u64, until_ns: u64, has_bins: bool) -> Self {
        Self {
            every_ns,
            from_ns,
            until_ns,
            has_bins,
            buffer: Mutex::default(),
        }
    }

    pub(super) fn add(&self, direction: usize, request: &IoRequest, times: &Times) {
        // Operations that complete after the end count in the last period.
        let Some(end_ns) = times
            .completed_ns()
            .min(self.until_ns - 1)
            .checked_sub(self.from_ns)
        else {
            return;
        };
        let bytes = request.len.into();
        let latency_ns = times.service_ns();
        let mut buffer = locked(&self.buffer);
        let Some(number) = end_ns.checked_div(self.every_ns) else {
            return buffer.push(LogSample {
                end_ns,
                direction,
                ops: 1,
                bytes,
                latency_ns,
                offset: request.offset,
                priority: request.priority.value(),
                max_bytes: bytes,
                max_ns: latency_ns,
                ..LogSample::default()
            });
        };
        if number > buffer.number {
            let closed_ns = (buffer.number + 1) * self.every_ns;
            buffer.close(closed_ns, self.every_ns);
            buffer.number = number;
        }
        let current = &mut buffer.current[direction];
        current.ops += 1;
        current.bytes += bytes;
        current.latency_ns += latency_ns;
        (current.max_bytes, current.max_ns) =
            (current.max_bytes.max(bytes), current.max_ns.max(latency_ns));
        if self.has_bins {
            current.bins.resize(BINS, 0);
            current.bins[bin(latency_ns)] += 1;
        }
    }

    /// `ran_ns`: duration of the run if it has ended; the current period is then closed.
    pub fn take(&self, ran_ns: Option<u64>) -> Vec<LogSample> {
        let mut buffer = locked(&self.buffer);
        if let Some(ran_ns) = ran_ns.filter(|_| self.every_ns > 0) {
            let begin_ns = buffer.number * self.every_ns;
            // The job may have ended long before the run.
            let length_ns = ran_ns.saturating_sub(begin_ns).clamp(1, self.every_ns);
            buffer.close(begin_ns + length_ns, length_ns);
        }
        let like = Vec::with_capacity(buffer.samples.len());
        std::mem::replace(&mut buffer.samples, like)
    }

    /// Samples dropped because they were not taken in time.
    pub fn left_out(&self) -> u64 {
        locked(&self.buffer).left_out
    }
}

impl SampleBuffer {
    fn push(&mut self, sample: LogSample) {
        if self.samples.len() < KEPT_MAX {
            self.samples.push(sample)
        } else {
            self.left_out += 1
        }
    }

    fn close(&mut self, end_ns: u64, length_ns: u64) {
        for direction in 0..self.current.len() {
            let sum = std::mem::take(&mut self.current[direction]);
            if sum.ops > 0 {
                self.push(LogSample {
                    end_ns,
                    direction,
                    length_ns,
                    ..sum
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::modified;
    use sys::op::OpKind;

    fn add(samples: &Samples, direction: usize, completed_ns: u64) {
        let request = IoRequest {
            offset: 8_192,
            len: 4_096,
            ..IoRequest::new(OpKind::Read, 0, 0, 0)
        };
        samples.add(
            direction,
            &request,
            &Times::new(0, 0, completed_ns - 10, completed_ns),
        );
    }

    #[test]
    fn a_log_sample_is_one_operation_or_the_sum_over_a_period() {
        let each = Samples::new(0, 1_000, 9_000, false);
        [999, 1_500, 9_500]
            .into_iter()
            .for_each(|at| add(&each, 1, at));
        let taken = each.take(None);
        let sample = LogSample {
            direction: 1,
            ops: 1,
            bytes: 4_096,
            latency_ns: 10,
            offset: 8_192,
            max_bytes: 4_096,
            max_ns: 10,
            ..LogSample::default()
        };
        assert_eq!(
            taken,
            [
                modified(sample.clone(), |it| it.end_ns = 500),
                modified(sample, |it| it.end_ns = 7_999)
            ]
        );
        assert_eq!(each.take(Some(8_000)), []);

        let sums = Samples::new(3_000, 1_000, 9_000, false);
        [1_100, 3_999, 4_000, 8_500, 9_100]
            .into_iter()
            .for_each(|at| add(&sums, 0, at));
        add(&sums, 2, 8_600);
        let ended: Vec<_> = sums
            .take(None)
            .iter()
            .map(|sum| (sum.end_ns, sum.ops, sum.length_ns))
            .collect();
        assert_eq!(ended, [(3_000, 2, 3_000), (6_000, 1, 3_000)]);
        let last: Vec<_> = sums
            .take(Some(8_000))
            .iter()
            .map(|sum| (sum.end_ns, sum.direction, sum.ops, sum.length_ns))
            .collect();
        assert_eq!(last, [(8_000, 0, 2, 2_000), (8_000, 2, 1, 2_000)]);
    }

    #[test]
    fn latency_bins_equal_fios() {
        // Pairs of latency and bin, as fio's plat_val_to_idx() computes them.
        for (ns, index) in [
            (0, 0),
            (63, 63),
            (64, 64),
            (127, 127),
            (128, 128),
            (130, 129),
            (255, 191),
            (256, 192),
            (u64::MAX, BINS - 1),
        ] {
            assert_eq!(bin(ns), index, "{ns}");
        }
        let sums = Samples::new(1_000_000, 0, 9_000_000, true);
        [100, 200, 300].into_iter().for_each(|at| add(&sums, 0, at));
        let taken = sums.take(Some(1_000));
        assert_eq!(taken[0].bins[10], 3);
        assert_eq!(taken[0].bins.iter().sum::<u32>(), 3);
        assert_eq!(taken[0].max_bytes, 4_096);
    }

    #[test]
    fn samples_that_are_not_taken_in_time_are_dropped_and_counted() {
        let samples = Samples::new(0, 0, 1 << 40, false);
        let mut kept = locked(&samples.buffer);
        kept.samples = vec![LogSample::default(); KEPT_MAX];
        kept.push(LogSample::default());
        drop(kept);
        assert_eq!(samples.take(None).len(), KEPT_MAX);
        assert_eq!(samples.left_out(), 1);
    }
}
