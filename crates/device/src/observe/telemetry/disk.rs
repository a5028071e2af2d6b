//! The values of `iostat -x` for a device, under iostat's names; requests in flight; temperature.

use super::super::DeviceNumber;
use super::super::diskstats::{Counters, Rates, parse_line};
use super::super::hwmon::Thermometer;
use results::telemetry::Column;
use std::path::Path;
use std::time::Duration;

/// iostat's columns ([`Rates`] explains them; kB are 1,024 bytes, times in milliseconds), then the requests in flight
/// at the sample, and the drive's temperature.
pub(super) const COLUMNS: [Column; 14] = [
    Column::ReadsPerSec,
    Column::WritesPerSec,
    Column::ReadKibPerSec,
    Column::WriteKibPerSec,
    Column::ReadAwaitMs,
    Column::WriteAwaitMs,
    Column::FlushesPerSec,
    Column::FlushAwaitMs,
    Column::AverageQueue,
    Column::ReadRequestKib,
    Column::WriteRequestKib,
    Column::UtilPct,
    Column::InFlight,
    Column::Celsius,
];

#[derive(Debug)]
pub(super) struct Disk {
    number: DeviceNumber,
    /// `None` while the statistics lack the device.
    counters: Option<Counters>,
    thermometer: Option<Thermometer>,
}

impl Disk {
    pub(super) fn new(root: &Path, number: DeviceNumber) -> Self {
        Self { number, counters: None, thermometer: Thermometer::find(root, number) }
    }

    /// The values of [`COLUMNS`], from the text of /proc/diskstats.
    pub(super) fn sample(&mut self, statistics: &str, interval: Duration) -> [Option<f64>; COLUMNS.len()] {
        let mut lines = statistics.lines().filter_map(parse_line);
        let now = lines.find_map(|(number, _, counters)| (number == self.number).then_some(counters));
        let delta = now.zip(self.counters).and_then(|(now, before)| now.since(&before));
        self.counters = now;
        let rates = delta.and_then(|delta| Rates::over(&delta, interval));
        let rate = |of: fn(&Rates) -> f64| rates.as_ref().map(of);
        let maybe = |of: fn(&Rates) -> Option<f64>| rates.as_ref().and_then(of);
        [
            rate(|rates| rates.reads_per_sec),
            rate(|rates| rates.writes_per_sec),
            rate(|rates| rates.read_kib_per_sec),
            rate(|rates| rates.write_kib_per_sec),
            maybe(|rates| rates.read_await_ms),
            maybe(|rates| rates.write_await_ms),
            maybe(|rates| rates.flushes_per_sec),
            maybe(|rates| rates.flush_await_ms),
            rate(|rates| rates.average_queue),
            maybe(|rates| rates.read_request_kib),
            maybe(|rates| rates.write_request_kib),
            rate(|rates| rates.util_pct),
            now.map(|now| now.in_flight as f64),
            self.thermometer.as_mut().and_then(Thermometer::celsius),
        ]
    }
}
