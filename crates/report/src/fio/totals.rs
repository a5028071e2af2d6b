//! Recorded data of fio jobs, summed for the report: by job and kind of operation.

use hdrhistogram::Histogram;
use results::cell::{Interval, Layout};

/// Shorter periods give no bandwidth sample, nanoseconds.
const SAMPLE_NS_MIN: u64 = 500_000_000;

/// A histogram of a whole run.
pub type Durations = Histogram<u64>;

/// Mean and spread of what one second was like after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Samples {
    pub count: u64,
    pub min: f64,
    pub max: f64,
    sum: f64,
    squares: f64,
}

impl Samples {
    fn add(&mut self, value: f64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// The mean; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Standard deviation.
    pub fn deviation(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            count => ((self.squares - self.sum * self.mean()).max(0.0) / (count - 1) as f64).sqrt(),
        }
    }
}

/// All of one kind of operation of what is reported as one.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Completion latencies: from handing over until it is seen to be done.
    pub clat: Durations,
    /// Waits for a free place under the depth, of what has a rate.
    pub wait: Durations,
    /// Completion latencies of those that waited, and the same with their waits.
    waited: [Durations; 2],
    /// Lateness of this program's issuing.
    pub lag: Durations,
    /// Operations that were done.
    pub ops: u64,
    /// Operations that came back after the end of the run.
    pub overtime: u64,
    /// Bytes of all that were done.
    pub bytes: u64,
    pub errors: u64,
    /// Operations that were wanted and never issued, or never came back.
    pub undone: u64,
    /// KiB/s.
    pub bandwidth: Samples,
    /// Operations a second.
    pub iops: Samples,
    /// When the last operation came back, nanoseconds since the run began.
    pub last_back_ns: u64,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            clat: durations(),
            wait: durations(),
            waited: [durations(), durations()],
            lag: durations(),
            ops: 0,
            overtime: 0,
            bytes: 0,
            errors: 0,
            undone: 0,
            bandwidth: Samples::default(),
            iops: Samples::default(),
            last_back_ns: 0,
        }
    }
}

/// An empty histogram of a whole run.
pub fn durations() -> Durations {
    // As those of an interval, with counts that a day does not fill.
    let like = results::cell::latencies();
    Histogram::new_with_bounds(like.low(), like.high(), like.sigfig()).expect("bounds of another histogram")
}

impl Kind {
    /// Completion latencies with the waits for a free place before them: how long the drive was waited for.
    pub fn answers(&self) -> Durations {
        let mut answers = self.clat.clone();
        let [waited, answered] = &self.waited;
        // Of equal bounds, and all that waited are among those that were done: neither can fail.
        let _ = answers.subtract(waited).is_ok() && answers.add(answered).is_ok();
        answers
    }
}

/// Data recorded so far, by stream.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// In the order of the streams.
    pub kinds: Vec<Kind>,
    /// Time run, nanoseconds.
    pub ran_ns: u64,
    /// Of how many streams each is the sum.
    streams: Vec<usize>,
}

impl Totals {
    /// Totals of this many streams.
    pub fn new(streams: usize) -> Self {
        Self::joined(std::iter::repeat_n(1, streams))
    }

    /// Of kinds that each are the sum of so many streams, which follow each other.
    pub fn joined(streams: impl IntoIterator<Item = usize>) -> Self {
        let streams: Vec<_> = streams.into_iter().collect();
        Self { kinds: vec![Kind::default(); streams.len()], ran_ns: 0, streams }
    }

    /// Adds an interval of a run with `devices` devices.
    pub fn add(&mut self, interval: &Interval, devices: usize) {
        let length_ns = interval.end_ns.saturating_sub(self.ran_ns);
        self.ran_ns = interval.end_ns;
        let mut cells = &interval.cells[..];
        for (kind, streams) in self.kinds.iter_mut().zip(&self.streams) {
            let own;
            (own, cells) = cells.split_at((streams * devices.max(1)).min(cells.len()));
            let (mut ops, mut bytes) = (0, 0);
            for cell in own {
                for (total, part) in
                    [(&mut kind.clat, &cell.service), (&mut kind.wait, &cell.wait), (&mut kind.lag, &cell.lag)]
                {
                    add(total, part);
                }
                let waited = cell.waited.iter().flat_map(|pair| pair.iter());
                kind.waited.iter_mut().zip(waited).for_each(|(total, part)| add(total, part));
                kind.errors += cell.counts.errors;
                kind.undone += cell.counts.unissued + cell.counts.lost;
                kind.overtime += cell.counts.overtime;
                ops += cell.counts.ops;
                bytes += cell.counts.bytes;
                kind.last_back_ns = kind.last_back_ns.max(cell.counts.back_ns(interval.end_ns));
            }
            kind.ops += ops;
            kind.bytes += bytes;
            if length_ns >= SAMPLE_NS_MIN {
                let seconds = length_ns as f64 / 1e9;
                kind.bandwidth.add(bytes as f64 / 1024.0 / seconds);
                kind.iops.add(ops as f64 / seconds);
            }
        }
    }

    /// Everything of an old run of `layout`, interval by interval.
    pub fn of<'i>(layout: &Layout, intervals: impl IntoIterator<Item = &'i Interval>) -> Self {
        let mut totals = Self::new(layout.streams.len());
        intervals.into_iter().for_each(|interval| totals.add(interval, layout.devices.len()));
        totals
    }
}

/// Adds counts of 32 bits to those of 64.
pub fn add(total: &mut Durations, part: &results::cell::Latencies) {
    for bucket in part.iter_recorded() {
        // Within the same bounds: it cannot fail.
        let _ = total.record_n(bucket.value_iterated_to(), bucket.count_at_value().into());
    }
}
