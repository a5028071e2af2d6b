//! One sample: the block layer's events of half a second, paired into requests, as lines of trace.csv.
//!
//! A sample counts the requests queued within it. Requests in flight at its end get up to half a second more, so that
//! slow ones are included; still slower ones show only in the run's own latencies.

use device::discover::Partition;
use device::observe::DeviceNumber;
use device::observe::diskstats::SECTOR_BYTES;
use device::observe::trace::{Event, EventOp, Options, Pairing, Request, Trace, TraceError, sort_by_time};
use results::trace::{Spread, TraceKind, TraceLine, TraceSize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use sys::usage::monotonic_ns;

/// Interval at which the kernel's buffers are emptied during a sample.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Waits for requests in flight at the end: most need only the first.
const TAIL: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(450)];

/// A sample ends after this many events: about half a second at 60x, and a bound on its cost.
const EVENTS_MAX: usize = 250_000;
/// Kernel buffers of all CPUs together, bytes. They are emptied every 10 ms; a hundredth would mostly be enough.
const BUFFER_BYTES: u64 = 16 << 20;

/// Takes samples, one after another, into the same memory.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    places: &'a [Place],
    events: Vec<Event>,
}

/// Position of a device of the run in the block layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Index among the devices: in the manifest, or in the order that the user gave.
    pub index: usize,
    /// Number of the device itself, as in bios.
    pub own: DeviceNumber,
    /// Number of the disk, as in requests.
    pub disk: DeviceNumber,
    /// Sectors of the device on the disk.
    pub sectors: Range<u64>,
}

impl Place {
    pub fn of(index: usize, own: DeviceNumber, partition: Option<&Partition>, size_bytes: u64) -> Self {
        let Some(Partition { start_bytes, disk_number, .. }) = partition else {
            return Self { index, own, disk: own, sectors: 0..u64::MAX };
        };
        let first = start_bytes / SECTOR_BYTES;
        let sectors = first..first + size_bytes / SECTOR_BYTES;
        Self { index, own, disk: (disk_number.major, disk_number.minor), sectors }
    }
}

/// A finished sample.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Length of the sample.
    pub(super) length: Duration,
    /// Requests that were queued in it and completed.
    pub(super) requests: Vec<Request>,
    /// Events that the kernel dropped.
    pub(super) lost: u64,
}

impl<'a> Sample<'a> {
    pub(super) fn new(places: &'a [Place]) -> Self {
        Self { places, events: Vec::new() }
    }

    /// Checks that a sample could be taken, without taking one.
    pub(super) fn trial(places: &[Place]) -> Result<(), TraceError> {
        start(places).map(drop)
    }

    /// Takes a sample of `length`. `pause` waits and returns true if the run is over; the sample then ends early.
    pub(super) fn take(&mut self, length: Duration, pause: impl Fn(Duration) -> bool) -> Result<Taken, TraceError> {
        self.events.clear();
        let mut trace = start(self.places)?;
        let begin_ns = monotonic_ns();
        let mut end_ns = begin_ns + length.as_nanos() as u64;
        let mut over = false;
        while monotonic_ns() < end_ns && !over {
            over = pause(READ_EVERY);
            self.read(&mut trace)?;
            if over || self.events.len() > EVENTS_MAX {
                end_ns = end_ns.min(monotonic_ns());
            }
        }
        let mut pairing = Pairing::default();
        for tail in TAIL {
            let tail_end_ns = monotonic_ns() + tail.as_nanos() as u64;
            while monotonic_ns() < tail_end_ns && !over && self.events.len() <= 2 * EVENTS_MAX {
                over = pause(READ_EVERY);
                self.read(&mut trace)?;
            }
            sort_by_time(&mut self.events);
            pairing = Pairing::default();
            self.events.iter().for_each(|event| pairing.add(event));
            if over || pairing.under_way(end_ns) == 0 {
                break;
            }
        }
        let lost = trace.stop()?.events();
        let requests = pairing.drain().filter(|request| is_whole(request, begin_ns..end_ns)).collect();
        Ok(Taken { length: Duration::from_nanos(end_ns - begin_ns), requests, lost })
    }

    /// Reads all available events.
    fn read(&mut self, trace: &mut Trace) -> Result<(), TraceError> {
        let Self { places, events } = self;
        trace.read(&mut |mut event| {
            if let Some(place) = places.iter().find(|place| place.own == event.device) {
                event.device = place.disk;
            }
            events.push(event);
        })?;
        Ok(())
    }
}

/// True if all three times of a request are known, its queueing is `within` the sample, and it moves data.
fn is_whole(request: &Request, within: Range<u64>) -> bool {
    let moves_data = matches!(request.op, EventOp::Read | EventOp::Write) && request.sectors > 0;
    moves_data && request.completed_ns.is_some() && request.queued_ns.is_some_and(|ns| within.contains(&ns))
}

fn start(places: &[Place]) -> Result<Trace, TraceError> {
    let mut numbers: Vec<DeviceNumber> = places.iter().flat_map(|place| [place.own, place.disk]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Trace::start(&numbers, Options { buffer_bytes: BUFFER_BYTES, queue: true, ..Options::default() })
}

/// Queue and device times of requests of one device, kind and size.
#[derive(Default)]
struct Times {
    queue_ns: Vec<u64>,
    device_ns: Vec<u64>,
    queue_over: Vec<u64>,
    device_over: Vec<u64>,
    total_over: Vec<u64>,
}

/// Lines of one sample that began `at_sec` into the run: by device, kind and size.
///
/// Requests on a disk outside the run's own sectors come from other programs and are left out.
pub(super) fn lines(taken: &Taken, at_sec: f64, places: &[Place], thresholds_ns: &[u64]) -> Vec<TraceLine> {
    let mut groups: BTreeMap<(usize, TraceKind, TraceSize), Times> = BTreeMap::new();
    for request in &taken.requests {
        let own = |place: &&Place| place.disk == request.device && place.sectors.contains(&request.sector);
        let Some(place) = places.iter().find(own) else { continue };
        groups.entry((place.index, kind(request), size(request))).or_default().add(request, thresholds_ns);
    }
    let line = |((device, kind, size), mut times): ((usize, TraceKind, TraceSize), Times)| TraceLine {
        at_sec,
        length_ms: taken.length.as_millis() as u64,
        device,
        kind,
        size,
        requests: times.queue_ns.len() as u64,
        lost: taken.lost,
        queue: spread(&mut times.queue_ns),
        device_time: spread(&mut times.device_ns),
        queue_over: times.queue_over,
        device_over: times.device_over,
        total_over: times.total_over,
    };
    groups.into_iter().map(line).collect()
}

fn kind(request: &Request) -> TraceKind {
    match request.op {
        EventOp::Read => TraceKind::Read,
        _ => TraceKind::Write,
    }
}

fn size(request: &Request) -> TraceSize {
    TraceSize::of(u64::from(request.sectors) * SECTOR_BYTES)
}

impl Times {
    fn add(&mut self, request: &Request, thresholds_ns: &[u64]) {
        let (queue_ns, device_ns) = (request.queue_ns().unwrap_or(0), request.device_ns().unwrap_or(0));
        self.queue_ns.push(queue_ns);
        self.device_ns.push(device_ns);
        let counts = [&mut self.queue_over, &mut self.device_over, &mut self.total_over];
        for (over, ns) in counts.into_iter().zip([queue_ns, device_ns, queue_ns + device_ns]) {
            over.resize(thresholds_ns.len(), 0);
            // Reaching a threshold counts as over it, as everywhere in a run.
            over.iter_mut().zip(thresholds_ns).for_each(|(over, threshold)| *over += u64::from(ns >= *threshold));
        }
    }
}

/// Median, 99th percentile (nearest rank) and maximum.
fn spread(times_ns: &mut [u64]) -> Spread {
    times_ns.sort_unstable();
    let rank = |percent: usize| times_ns.get((times_ns.len() * percent).div_ceil(100).saturating_sub(1));
    let at = |percent| rank(percent).copied().unwrap_or(0);
    Spread { p50_ns: at(50), p99_ns: at(99), max_ns: at(100) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn request(sector: u64, sectors: u32, op: EventOp, queue_ns: u64, device_ns: u64) -> Request {
        let (queued_ns, issued_ns) = (Some(1_000), 1_000 + queue_ns);
        let completed_ns = Some(issued_ns + device_ns);
        Request { device: (8, 0), sector, sectors, op, queued_ns, issued_ns, completed_ns, ..Request::default() }
    }

    fn place(index: usize, sectors: std::ops::Range<u64>) -> Place {
        Place { index, own: (8, 1 + index as u32), disk: (8, 0), sectors }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut times: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(spread(&mut times), Spread { p50_ns: 100, p99_ns: 198, max_ns: 200 });
        assert_eq!(spread(&mut [7]), Spread { p50_ns: 7, p99_ns: 7, max_ns: 7 });
        assert_eq!(spread(&mut []), Spread::default());
    }

    #[test]
    fn requests_are_told_apart_by_device_kind_and_size() {
        let requests = vec![
            request(10, 127, EventOp::Read, 5, 50),
            request(20, 128, EventOp::Read, 6, 60),
            request(30, 8, EventOp::Write, 7, 70),
            request(1_000, 8, EventOp::Read, 8, 80),
            request(9_000, 8, EventOp::Read, 9, 90),
        ];
        let taken = Taken { length: Duration::from_millis(250), requests, lost: 4 };
        let lines = lines(&taken, 31.5, &[place(0, 0..1_000), place(1, 1_000..2_000)], &[100]);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| (line.device, line.kind, line.size, line.requests, line.device_time.max_ns))
            .collect();
        let expected = [
            (0, TraceKind::Read, TraceSize::Small, 1, 50),
            (0, TraceKind::Read, TraceSize::Large, 1, 60),
            (0, TraceKind::Write, TraceSize::Small, 1, 70),
            (1, TraceKind::Read, TraceSize::Small, 1, 80),
        ];
        assert_eq!(seen, expected, "and what lies on no device of the run is left out");
        assert!(lines.iter().all(|line| (line.at_sec, line.length_ms, line.lost) == (31.5, 250, 4)));
    }

    #[test]
    fn a_request_is_over_where_its_part_reaches_the_threshold() {
        let requests = vec![
            request(0, 8, EventOp::Read, 600, 500),
            request(0, 8, EventOp::Read, 1_000, 10),
            request(0, 8, EventOp::Read, 10, 9_000),
            request(0, 8, EventOp::Read, 10, 10),
        ];
        let taken = Taken { requests, ..Taken::default() };
        let lines = lines(&taken, 0.0, &[place(0, 0..8)], &[1_000, 8_000]);
        assert_eq!(lines[0].queue_over, [1, 0]);
        assert_eq!(lines[0].device_over, [1, 1]);
        assert_eq!(lines[0].total_over, [3, 1]);
    }
}
