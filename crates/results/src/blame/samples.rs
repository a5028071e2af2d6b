//! Trace samples, matched with the run's counts of the same intervals.
//!
//! A stall of one second in an hour can lie between two samples. So the requests of a sample are compared with the
//! operations of the intervals that the sample overlaps, not of the whole window. For this, the latest intervals are
//! kept.

use crate::buckets::THRESHOLDS_MAX;
use crate::telemetry::{TraceKind, TraceLine, TraceSize};
use std::collections::{BTreeMap, VecDeque};

/// Number of intervals kept for samples that arrive late.
const RECENT_MAX: usize = 8;

/// Requests of one kind and size on one device, summed over samples.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SampledRequests {
    pub(super) samples: u64,
    pub(super) length_ms: f64,
    pub(super) requests: u64,
    pub(super) lost: u64,
    pub(super) queue_p99_ns: u64,
    pub(super) device_p99_ns: u64,
    pub(super) device_over: [u64; THRESHOLDS_MAX],
    pub(super) total_over: [u64; THRESHOLDS_MAX],
}

impl SampledRequests {
    fn add_line(&mut self, line: &TraceLine) {
        let sample = Self {
            samples: 1,
            length_ms: line.length_ms as f64,
            requests: line.requests,
            lost: line.lost,
            queue_p99_ns: line.queue.p99_ns,
            device_p99_ns: line.device_time.p99_ns,
            device_over: padded(&line.device_over),
            total_over: padded(&line.total_over),
        };
        self.merge(&sample);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.length_ms += other.length_ms;
        self.requests = self.requests.saturating_add(other.requests);
        self.lost = self.lost.saturating_add(other.lost);
        self.queue_p99_ns = self.queue_p99_ns.max(other.queue_p99_ns);
        self.device_p99_ns = self.device_p99_ns.max(other.device_p99_ns);
        add_all(&mut self.device_over, &other.device_over);
        add_all(&mut self.total_over, &other.total_over);
    }
}

/// Counts of a stream on a device, from the run, in the sampled intervals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SampledOps {
    pub(super) length_ms: f64,
    pub(super) ops: u64,
    pub(super) service_over: [u64; THRESHOLDS_MAX],
}

impl SampledOps {
    pub(super) fn merge(&mut self, other: &Self) {
        self.length_ms += other.length_ms;
        self.ops = self.ops.saturating_add(other.ops);
        add_all(&mut self.service_over, &other.service_over);
    }
}

fn padded(counts: &[u64]) -> [u64; THRESHOLDS_MAX] {
    let mut all = [0; THRESHOLDS_MAX];
    all.iter_mut()
        .zip(counts)
        .for_each(|(all, count)| *all = *count);
    all
}

fn add_all(sums: &mut [u64], addends: &[u64]) {
    sums.iter_mut()
        .zip(addends)
        .for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
}

#[derive(Debug)]
struct RecentInterval {
    from_ns: u64,
    end_ns: u64,
    step: usize,
    cells: Vec<SampledOps>,
    is_sampled: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct StepSamples {
    traced: BTreeMap<(usize, TraceKind, TraceSize), SampledRequests>,
    /// For each judged cell: counts of the intervals that samples overlap.
    sampled: Vec<SampledOps>,
}

impl StepSamples {
    pub(super) fn traced(
        &self,
        device: usize,
        kind: TraceKind,
        size: TraceSize,
    ) -> SampledRequests {
        self.traced
            .get(&(device, kind, size))
            .copied()
            .unwrap_or_default()
    }

    /// The run's counts of a judged cell in the sampled intervals.
    pub(super) fn touched(&self, cell: usize) -> SampledOps {
        self.sampled.get(cell).copied().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub(super) struct SampleMatcher {
    recent_intervals: VecDeque<RecentInterval>,
    /// Samples that end after the last known interval.
    pending_lines: Vec<TraceLine>,
}

impl SampleMatcher {
    /// Adds an interval; `cells` are its judged cells.
    pub(super) fn interval(
        &mut self,
        (from_ns, end_ns): (u64, u64),
        cells: Vec<SampledOps>,
        step: usize,
        steps: &mut [StepSamples],
    ) {
        if self.recent_intervals.len() >= RECENT_MAX {
            self.recent_intervals.pop_front();
        }
        self.recent_intervals.push_back(RecentInterval {
            from_ns,
            end_ns,
            step,
            cells,
            is_sampled: false,
        });
        let pending = std::mem::take(&mut self.pending_lines);
        pending.iter().for_each(|line| self.line(line, steps));
    }

    /// Adds a line of the trace, or queues it until the interval in which the sample ends is known.
    pub(super) fn line(&mut self, line: &TraceLine, steps: &mut [StepSamples]) {
        let from_ns = (line.at_sec * 1e9) as u64;
        let end_ns = from_ns.saturating_add(line.length_ms.saturating_mul(1_000_000));
        if self
            .recent_intervals
            .back()
            .is_none_or(|last| last.end_ns < end_ns)
        {
            self.pending_lines.push(line.clone());
            return;
        }
        // The sample arrived after its intervals were dropped, so it cannot be compared.
        if self
            .recent_intervals
            .front()
            .is_none_or(|first| from_ns < first.from_ns)
        {
            return;
        }
        for interval in self
            .recent_intervals
            .iter_mut()
            .filter(|recent| recent.from_ns < end_ns && from_ns < recent.end_ns)
        {
            let Some(step) = steps.get_mut(interval.step) else {
                continue;
            };
            if !std::mem::replace(&mut interval.is_sampled, true) {
                step.sampled
                    .resize(interval.cells.len(), SampledOps::default());
                step.sampled
                    .iter_mut()
                    .zip(&interval.cells)
                    .for_each(|(sum, cell)| sum.merge(cell));
            }
        }
        let step = self
            .recent_intervals
            .iter()
            .find(|recent| from_ns < recent.end_ns)
            .map(|recent| recent.step);
        if let Some(step) = step.and_then(|step| steps.get_mut(step)) {
            step.traced
                .entry((line.device, line.kind, line.size))
                .or_default()
                .add_line(line);
        }
    }
}
