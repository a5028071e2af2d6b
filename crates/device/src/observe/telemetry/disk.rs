//! The values of `iostat -x` for a device, under iostat's names; requests in flight; temperature.

use super::super::DeviceNumber;
use super::super::diskstats::{Counters, Rates, parse_line};
use super::super::hwmon::Thermometer;
use results::telemetry::Column;
use std::path::Path;
use std::time::Duration;

/// iostat's columns; [`Rates`] explains them. kB are 1,024 bytes, times in milliseconds.
type OfRates = fn(&Rates) -> Option<f64>;
const IOSTAT: [(Column, OfRates); 12] = [
    (Column::ReadsPerSec, |rates| Some(rates.reads_per_sec)),
    (Column::WritesPerSec, |rates| Some(rates.writes_per_sec)),
    (Column::ReadKibPerSec, |rates| Some(rates.read_kib_per_sec)),
    (Column::WriteKibPerSec, |rates| Some(rates.write_kib_per_sec)),
    (Column::ReadAwaitMs, |rates| rates.read_await_ms),
    (Column::WriteAwaitMs, |rates| rates.write_await_ms),
    (Column::FlushesPerSec, |rates| rates.flushes_per_sec),
    (Column::FlushAwaitMs, |rates| rates.flush_await_ms),
    (Column::AverageQueue, |rates| Some(rates.average_queue)),
    (Column::ReadRequestKib, |rates| rates.read_request_kib),
    (Column::WriteRequestKib, |rates| rates.write_request_kib),
    (Column::UtilPct, |rates| Some(rates.util_pct)),
];

/// iostat's columns, then the requests in flight at the sample, and the drive's temperature.
pub(super) fn columns() -> impl Iterator<Item = Column> {
    IOSTAT.into_iter().map(|(column, _)| column).chain([Column::InFlight, Column::Celsius])
}

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

    /// The values of [`columns`], from the text of /proc/diskstats.
    pub(super) fn sample(&mut self, statistics: &str, interval: Duration) -> Vec<Option<f64>> {
        let mut lines = statistics.lines().filter_map(parse_line);
        let now = lines.find_map(|(number, _, counters)| (number == self.number).then_some(counters));
        let delta = now.zip(self.counters).and_then(|(now, before)| now.since(&before));
        self.counters = now;
        let rates = delta.and_then(|delta| Rates::over(&delta, interval));
        let of_rates = IOSTAT.iter().map(|(_, of)| rates.as_ref().and_then(of));
        let own = [now.map(|now| now.in_flight as f64), self.thermometer.as_mut().and_then(Thermometer::celsius)];
        of_rates.chain(own).collect()
    }
}
