//! Summary of a trace: requests by device, operation and size, and by process.
//!
//! Memory does not depend on the length of the trace. Sizes are counted exactly while the requests of a kind and device
//! have few different sizes, as with a database. With more, sizes are grouped by powers of two.

use super::heat::OffsetHeat;
use device::discover::DeviceNumber;
use device::observe::trace::{BlockRequest, EventOp, TracedTask};
use results::cell::{Latencies, latencies};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of exact sizes per kind and device; with more, sizes are grouped by powers of two.
const SIZES_MAX: usize = 32;

/// Maximum number of sizes, summed over all kinds and devices (36 KB of counts each). Requests of further sizes are
/// left out.
const SIZES_ALL_MAX: usize = 8_192;

/// Maximum number of separate processes; further ones are counted together.
const TASKS_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct Summary {
    pub kinds: BTreeMap<(DeviceNumber, EventOp), Kind>,
    tasks: HashMap<TracedTask, RequestTotals>,
    sizes: usize,
    /// Requests of kinds or sizes that exceeded the limits; not counted elsewhere.
    pub left_out: u64,
    /// Requests whose completion has an error.
    pub failed: u64,
    /// Device times of the requests, by start time.
    pub heat: OffsetHeat,
    /// Time at which the first request was queued, and time of the last event; `None` if no times are known.
    span_ns: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTotals {
    pub count: u64,
    /// Bytes moved or discarded.
    pub bytes: u64,
}

impl RequestTotals {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// Requests of a device with the same operation.
#[derive(Debug, Default)]
pub struct Kind {
    /// Requests of each size in bytes. If sizes are grouped: from each power of two up to the next.
    pub sizes: BTreeMap<u64, SizeTotals>,
    pub is_grouped: bool,
    pub totals: RequestTotals,
    /// Requests for which a process waits.
    pub sync: u64,
    /// Writes with FUA.
    pub fua: u64,
    /// Requests that flush the cache first.
    pub preflush: u64,
    /// Requests for file system metadata.
    pub meta: u64,
    /// Requests that start where another request ended.
    pub sequential: u64,
}

#[derive(Debug, Default)]
pub struct SizeTotals {
    pub totals: RequestTotals,
    /// Times from the block layer to the driver, where known.
    pub queue: RequestTimes,
    /// Times from the driver to completion, where known.
    pub device: RequestTimes,
}

/// Times in nanoseconds: a histogram, and the exact maximum.
#[derive(Debug)]
pub struct RequestTimes {
    buckets: Latencies,
    longest_ns: u64,
}

impl Default for RequestTimes {
    fn default() -> Self {
        Self {
            buckets: latencies(),
            longest_ns: 0,
        }
    }
}

impl RequestTimes {
    fn record(&mut self, ns: u64) {
        self.buckets.saturating_record(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    fn add(&mut self, other: &Self) {
        // Adding cannot fail: all histograms have the same layout.
        let _ = self.buckets.add(&other.buckets);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    pub fn len(&self) -> u64 {
        self.buckets.len()
    }

    /// A quantile, as the upper edge of its bucket; `None` without times.
    pub fn quantile(&self, at: f64) -> Option<u64> {
        (self.len() > 0).then(|| {
            self.longest_ns.min(if at < 1.0 {
                self.buckets.value_at_quantile(at)
            } else {
                u64::MAX
            })
        })
    }
}

impl Summary {
    pub fn add(&mut self, request: &BlockRequest) {
        let totals = RequestTotals {
            count: 1,
            bytes: request.bytes(),
        };
        let key = (request.device, request.op);
        if self.sizes >= SIZES_ALL_MAX
            && !self
                .kinds
                .get(&key)
                .is_some_and(|kind| kind.has(request.bytes()))
        {
            self.left_out += 1;
            return;
        }
        let kind = self.kinds.entry(key).or_default();
        let sizes_before = kind.sizes.len();
        kind.add(request, totals);
        self.sizes = self.sizes + kind.sizes.len() - sizes_before;
        let task = if self.tasks.len() < TASKS_MAX || self.tasks.contains_key(&request.task) {
            request.task
        } else {
            TracedTask::new(0, b"(others)")
        };
        self.tasks.entry(task).or_default().add(totals);
        self.failed += u64::from(request.error != 0);
        let Some(issued_ns) = request.issued_ns else {
            return;
        };
        let start_ns = request.queued_ns.unwrap_or(issued_ns);
        let end_ns = issued_ns.saturating_add(request.device_ns.unwrap_or(0));
        let (first, last) = self.span_ns.unwrap_or((u64::MAX, 0));
        self.span_ns = Some((first.min(start_ns), last.max(end_ns)));
        if let Some(device_ns) = request.device_ns {
            self.heat.add(issued_ns, device_ns);
        }
    }

    /// Seconds from the first request to the last event; `None` if no times are known.
    pub fn span_sec(&self) -> Option<f64> {
        self.span_ns
            .map(|(first, last)| last.saturating_sub(first) as f64 / 1e9)
    }

    pub fn count(&self) -> u64 {
        self.kinds.values().map(|kind| kind.totals.count).sum()
    }

    /// Requests without a completion.
    pub fn unfinished(&self) -> u64 {
        let sizes = self.kinds.values().flat_map(|kind| kind.sizes.values());
        sizes
            .map(|size| size.totals.count - size.device.len().min(size.totals.count))
            .sum()
    }

    /// Processes with the most requests, descending.
    pub fn top_tasks(&self, limit: usize) -> Vec<(TracedTask, RequestTotals)> {
        let mut tasks: Vec<_> = self
            .tasks
            .iter()
            .map(|(task, requested)| (*task, *requested))
            .collect();
        tasks.sort_by_key(|(task, requested)| {
            (std::cmp::Reverse((requested.count, requested.bytes)), *task)
        });
        tasks.truncate(limit);
        tasks
    }
}

impl Kind {
    /// True if a request of this size needs no new entry in `sizes`.
    fn has(&self, bytes: u64) -> bool {
        self.sizes.contains_key(&if self.is_grouped {
            power_of_two(bytes)
        } else {
            bytes
        })
    }

    fn add(&mut self, request: &BlockRequest, totals: RequestTotals) {
        self.totals.add(totals);
        self.sync += u64::from(request.flags.sync);
        self.fua += u64::from(request.flags.fua);
        // Not counted for flush requests, which only flush.
        self.preflush += u64::from(request.flags.preflush && request.op != EventOp::Flush);
        self.meta += u64::from(request.flags.meta);
        self.sequential += u64::from(request.sequential);
        let bytes = request.bytes();
        if !self.is_grouped && self.sizes.len() == SIZES_MAX && !self.sizes.contains_key(&bytes) {
            self.gather();
        }
        let size = self
            .sizes
            .entry(if self.is_grouped {
                power_of_two(bytes)
            } else {
                bytes
            })
            .or_default();
        size.totals.add(totals);
        if let Some(queue_ns) = request.queue_ns() {
            size.queue.record(queue_ns);
        }
        if let Some(device_ns) = request.device_ns {
            size.device.record(device_ns);
        }
    }

    fn gather(&mut self) {
        self.is_grouped = true;
        for (bytes, size) in std::mem::take(&mut self.sizes) {
            let group = self.sizes.entry(power_of_two(bytes)).or_default();
            group.totals.add(size.totals);
            group.queue.add(&size.queue);
            group.device.add(&size.device);
        }
    }
}

/// The largest power of two up to a number of bytes; 0 for 0.
fn power_of_two(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |log| 1 << log)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sectors: u32, pid: u32) -> BlockRequest {
        BlockRequest {
            device: DeviceNumber::new(7, 0),
            op: EventOp::Read,
            sectors,
            task: TracedTask::new(pid, b"fio"),
            queued_ns: Some(1_000_000),
            issued_ns: Some(1_000_400),
            device_ns: Some(1_000),
            ..BlockRequest::default()
        }
    }

    #[test]
    fn up_to_32_request_sizes_are_counted_exactly_and_more_are_grouped_by_powers_of_two() {
        let mut summary = Summary::default();
        (1..=32).for_each(|sectors| summary.add(&request(sectors, 1)));
        let key = (DeviceNumber::new(7, 0), EventOp::Read);
        assert!(!summary.kinds[&key].is_grouped);
        assert_eq!(
            summary.kinds[&key]
                .sizes
                .keys()
                .copied()
                .collect::<Vec<_>>()[..3],
            [512, 1024, 1536]
        );
        summary.add(&request(33, 1));
        let kind = &summary.kinds[&key];
        let sizes: Vec<_> = kind
            .sizes
            .iter()
            .map(|(bytes, size)| (*bytes, size.totals.count, size.device.len()))
            .collect();
        assert_eq!(
            sizes,
            [
                (512, 1, 1),
                (1024, 2, 2),
                (2048, 4, 4),
                (4096, 8, 8),
                (8192, 16, 16),
                (16384, 2, 2)
            ]
        );
        assert_eq!(
            kind.totals,
            RequestTotals {
                count: 33,
                bytes: 33 * 34 / 2 * 512
            }
        );
    }

    #[test]
    fn the_longest_device_time_is_exact_and_not_rounded_to_a_histogram_bucket() {
        let mut summary = Summary::default();
        let took = |ns: u64| BlockRequest {
            device_ns: Some(ns),
            ..request(8, 1)
        };
        [1_000, 1_234_567, 98_765_432_101]
            .into_iter()
            .for_each(|ns| summary.add(&took(ns)));
        (1..=33).for_each(|sectors| summary.add(&request(sectors, 1)));
        let kind = &summary.kinds[&(DeviceNumber::new(7, 0), EventOp::Read)];
        let longest = kind
            .sizes
            .values()
            .filter_map(|size| size.device.quantile(1.0))
            .max();
        assert_eq!((kind.is_grouped, longest), (true, Some(98_765_432_101)));
        assert_eq!(RequestTimes::default().quantile(1.0), None);
    }

    #[test]
    fn the_number_of_traced_sizes_is_bounded_for_any_number_of_devices() {
        let mut summary = Summary::default();
        (0..20_000).for_each(|minor| {
            summary.add(&BlockRequest {
                device: DeviceNumber::new(8, minor),
                ..request(8, 1)
            })
        });
        summary.add(&request(8, 1));
        assert_eq!(
            (summary.kinds.len(), summary.left_out),
            (SIZES_ALL_MAX, 20_001 - SIZES_ALL_MAX as u64)
        );
        summary.add(&BlockRequest {
            device: DeviceNumber::new(8, 0),
            ..request(8, 1)
        });
        assert_eq!(summary.count(), SIZES_ALL_MAX as u64 + 1);
    }

    #[test]
    fn processes_above_the_maximum_are_counted_together_as_others() {
        let mut summary = Summary::default();
        (0..10_000).for_each(|pid| summary.add(&request(8, pid + 1)));
        assert!(summary.tasks.len() <= TASKS_MAX + 1);
        let (others, requested) = summary.top_tasks(1)[0];
        assert_eq!(
            (others.comm().as_ref(), requested.count),
            ("(others)", 10_000 - TASKS_MAX as u64)
        );
        assert_eq!(
            summary
                .top_tasks(usize::MAX)
                .iter()
                .map(|(_, requested)| requested.count)
                .sum::<u64>(),
            summary.count()
        );
    }

    #[test]
    fn a_request_without_a_completion_counts_as_unfinished_and_the_trace_lasts_until_its_issue() {
        let mut summary = Summary::default();
        summary.add(&request(8, 1));
        summary.add(&BlockRequest {
            device_ns: None,
            queued_ns: None,
            issued_ns: Some(3_001_400),
            ..request(8, 1)
        });
        assert_eq!((summary.count(), summary.unfinished()), (2, 1));
        assert_eq!(summary.span_sec(), Some(0.002_001_4));
    }

    #[test]
    fn the_time_0_is_a_start_time_and_a_request_with_an_error_counts_as_failed() {
        let mut summary = Summary::default();
        summary.add(&request(8, 1));
        summary.add(&BlockRequest {
            queued_ns: None,
            issued_ns: Some(0),
            error: -5,
            ..request(8, 1)
        });
        assert_eq!(summary.span_sec(), Some(0.001_001_4));
        assert_eq!(summary.failed, 1);
    }
}
