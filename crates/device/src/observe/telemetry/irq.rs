//! Interrupts of a device: rate, and share of the busiest CPU.

use super::super::DeviceNumber;
use super::super::interrupts::{ByCpu, Counters, lines_of};
use super::super::procfile::per_sec;
use results::telemetry::Column;
use std::path::Path;
use std::time::Duration;

/// The CPU with most of the device's interrupts, its share of them in percent, and interrupts a second on all CPUs. The
/// first two are empty without interrupts.
pub(super) const COLUMNS: [Column; 3] = [Column::IrqCpu, Column::IrqCpuSharePct, Column::IrqsPerSec];

/// One device whose controller has interrupt lines.
#[derive(Debug)]
pub(super) struct Irq {
    counters: Counters,
    before: Option<ByCpu>,
}

impl Irq {
    /// Counters of the device `number`; `None` if it has no lines, or the kernel does not count them.
    pub(super) fn find(root: &Path, number: DeviceNumber) -> Option<Self> {
        let counters = Counters::new(root, &lines_of(root, number));
        counters.read().map(|_| Self { counters, before: None })
    }

    /// The values of [`COLUMNS`].
    pub(super) fn sample(&mut self, interval: Duration) -> [Option<f64>; COLUMNS.len()] {
        let now = self.counters.read();
        let since = now.as_ref().zip(self.before.as_ref()).map(|(now, before)| now.since(before));
        self.before = now;
        let Some(since) = since else { return [None; COLUMNS.len()] };
        let busiest = since.busiest();
        [
            busiest.map(|busiest| busiest.cpu as f64),
            busiest.map(|busiest| busiest.share_pct),
            per_sec(since.total(), interval),
        ]
    }
}
