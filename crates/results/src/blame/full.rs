//! Devices that hold as many requests as they can, and what waits behind them.
//!
//! A device takes a limited number of requests (`nr_requests`; 32 on SATA). While it holds them all, the
//! kernel keeps further operations back before it makes requests of them, just as a cgroup's limit does;
//! but it is the device that they wait for, so that time is the device's.
//!
//! The one idea: a full device shows in the kernel's statistics (requests held at the end of an interval,
//! or in its mean), and how long it was full can be bounded: of T seconds that all requests together
//! existed, N at once, no more than T / N. Nothing else can have waited longer behind it than all other
//! operations in flight did in that time. A device that a limit feeds in bursts is full for moments, and
//! gets no more than these.

use super::explain::Subject;
use super::telemetry::DeviceRow;
use crate::units::{Grouped, duration, percent_whole};

/// From this part of its requests on a device is full: some are always on their way in or out.
const FULL_MIN: f64 = 0.9;

/// What was seen of a device while it was full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Full {
    /// Sum of the times of the requests that it held, seconds.
    requests_sec: f64,
    /// Most that other operations in flight can have waited behind those, the sum of their times, seconds.
    waited_sec_max: f64,
    /// Most requests that it holds.
    requests_max: u64,
}

impl Full {
    /// Adds what was seen at another time, or of another device.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests_sec += other.requests_sec;
        self.waited_sec_max += other.waited_sec_max;
        self.requests_max = self.requests_max.max(other.requests_max);
    }
}

/// Whether a device is full, from interval to interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fill {
    /// Most requests that it holds; without that nothing is known.
    pub(super) requests_max: Option<u64>,
    /// In the last interval, or at one of its ends.
    pub(super) is_full: bool,
    ended_full: bool,
}

impl Fill {
    /// Takes in an interval of so many seconds; what was seen of the device, if it was full.
    pub(super) fn interval(&mut self, row: &DeviceRow, seconds: f64, in_flight_max: u64) -> Option<Full> {
        let requests_max = self.requests_max?;
        let most = requests_max as f64;
        let is_full = |held: Option<f64>| held.is_some_and(|held| held >= most * FULL_MIN);
        let began_full = std::mem::replace(&mut self.ended_full, is_full(row.in_flight));
        self.is_full = began_full || self.ended_full || is_full(row.queue_mean);
        let requests_sec = row.queue_mean.filter(|_| self.is_full)? * seconds;
        let others = in_flight_max.saturating_sub(requests_max) as f64;
        Some(Full { requests_sec, waited_sec_max: requests_sec / most * others, requests_max })
    }
}

/// Of the service time of slow operations, the fraction that they waited behind a full device before they
/// were requests, and the evidence; `None` where there was no such time.
pub(super) fn behind(subject: &Subject<'_>) -> Option<(f64, String)> {
    let slow = &subject.counts.slow;
    let service_ns = subject.at(&slow.service_ns).saturating_sub(subject.at(&slow.unseen_ns));
    let (mut behind_sec, mut all) = (0.0, Full::default());
    for device in subject.devices() {
        let full = subject.blamer.device(subject.slice, device).full;
        let Some(position) = subject.blamer.position(subject.group.stream, device) else { continue };
        let meanwhile = subject.blamer.meanwhile(subject.slice, position, subject.threshold);
        let beyond_requests_sec = meanwhile.full_service_ns as f64 / 1e9 - full.requests_sec;
        behind_sec += beyond_requests_sec.min(full.waited_sec_max).max(0.0);
        all.merge(&full);
    }
    if service_ns == 0 || behind_sec <= 0.0 {
        return None;
    }
    let fraction = (behind_sec * 1e9 / service_ns as f64).min(1.0);
    let evidence = format!(
        "of {} of service up to {} was spent before it, while it held all {} requests that it takes at once",
        duration(service_ns),
        percent_whole(fraction),
        Grouped(all.requests_max),
    );
    Some((fraction, evidence))
}
