//! One sample: the events of half a second, paired into requests.
//!
//! Counted are the requests that were queued within the sample. Those still under way at its end are
//! waited for a little, so that slow ones are not the ones that are missing; what takes longer than
//! that is not seen here, but in the run's own times.

use super::Place;
use device::observe::DeviceNumber;
use device::observe::trace::{Event, Options, Pairing, Request, Trace, TraceError, sort_by_time};
use std::time::Duration;
use sys::usage::monotonic_ns;

/// How often the kernel's buffers are emptied during a sample.
const READ_EVERY: Duration = Duration::from_millis(10);
/// How long requests that are under way at the end are waited for: most need no more than the first.
const TAIL: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(450)];

/// A sample that has seen so many events ends: at 60x that is about half a second, and a bound for what
/// it may cost.
const EVENTS_MAX: usize = 250_000;
/// Buffers of the kernel for all CPUs together; emptied every 10 ms, a hundredth of it would mostly do.
const BUFFER_BYTES: u64 = 16 << 20;

/// Takes samples, one after the other, into the same memory.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    places: &'a [Place],
    events: Vec<Event>,
}

/// What a sample brought.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// How long it was.
    pub(super) length: Duration,
    /// Requests that were queued in it and completed.
    pub(super) requests: Vec<Request>,
    /// Events that the kernel could not keep.
    pub(super) lost: u64,
}

impl<'a> Sample<'a> {
    pub(super) fn new(places: &'a [Place]) -> Self {
        Self { places, events: Vec::new() }
    }

    /// Sees whether a sample could be taken, and takes none.
    pub(super) fn trial(places: &[Place]) -> Result<(), TraceError> {
        start(places).map(drop)
    }

    /// Takes one of `length`. `pause` waits, and says whether the run is over: then what was seen so far counts.
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
        let within = |request: &&Request| (begin_ns..end_ns).contains(&request.queued_ns);
        let requests = pairing.requests().iter().filter(within).copied().collect();
        Ok(Taken { length: Duration::from_nanos(end_ns - begin_ns), requests, lost })
    }

    /// Takes what the kernel has.
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

fn start(places: &[Place]) -> Result<Trace, TraceError> {
    let mut numbers: Vec<DeviceNumber> = places.iter().flat_map(|place| [place.own, place.disk]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Trace::start(&numbers, Options { buffer_bytes: BUFFER_BYTES, complete: true, queue: true })
}
