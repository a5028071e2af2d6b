//! Telemetry of the devices: what the kernel counted, temperature, throttling, SMART.
//!
//! A quantity says which of three things is so: it was measured, it could not be, or nobody asked for it.

use super::timeline::{ColumnLine, Stat, Timeline};
use super::{Axis, Chart, Line, Style};
use results::telemetry::{Column, ColumnOf};
use results::units;

/// kB of iostat are 1,024 bytes; MB here are 1,000,000.
const MB_PER_KIB: f64 = 0.001_024;

const QUANTITIES: [Quantity; 9] = [
    Quantity {
        id: "requests",
        title: "Requests at the device",
        unit: "/s",
        stat: Stat::Mean,
        parts: &[
            Curve { label: "reads", column: Column::ReadsPerSec, factor: 1.0 },
            Curve { label: "writes", column: Column::WritesPerSec, factor: 1.0 },
            Curve { label: "flushes", column: Column::FlushesPerSec, factor: 1.0 },
        ],
        look: "Counted by the kernel for all processes: more than this test offered means another user of the drive.",
    },
    Quantity {
        id: "throughput",
        title: "Throughput at the device",
        unit: "MB/s",
        stat: Stat::Mean,
        parts: &[
            Curve { label: "read", column: Column::ReadKibPerSec, factor: MB_PER_KIB },
            Curve { label: "written", column: Column::WriteKibPerSec, factor: MB_PER_KIB },
        ],
        look: "The kernel's count; a level near the link's or the drive's rated throughput is a limit of its own.",
    },
    Quantity {
        id: "await",
        title: "Mean time of requests",
        unit: "ms",
        stat: Stat::Max,
        parts: &[
            Curve { label: "reads", column: Column::ReadAwaitMs, factor: 1.0 },
            Curve { label: "writes", column: Column::WriteAwaitMs, factor: 1.0 },
            Curve { label: "flushes", column: Column::FlushAwaitMs, factor: 1.0 },
        ],
        look: "Time in the kernel's queue and in the device, as iostat shows it: a mean, which hides rare slow ones.",
    },
    Quantity {
        id: "queue",
        title: "Requests in the device's queue",
        unit: "",
        stat: Stat::Max,
        parts: &[
            Curve { label: "mean of an interval (aqu-sz)", column: Column::AverageQueue, factor: 1.0 },
            Curve { label: "at its end (in flight)", column: Column::InFlight, factor: 1.0 },
        ],
        look: "A queue that grows while the rate stays the same: the device falls behind.",
    },
    Quantity {
        id: "util",
        title: "Time with a request in flight",
        unit: "%",
        stat: Stat::Max,
        parts: &[Curve { label: "%util", column: Column::UtilPct, factor: 1.0 }],
        look: "An SSD works on many requests at once, so 100 % does not mean that it can do no more.",
    },
    Quantity {
        id: "request-size",
        title: "Mean size of requests",
        unit: "kB",
        stat: Stat::Mean,
        parts: &[
            Curve { label: "reads", column: Column::ReadRequestKib, factor: 1.024 },
            Curve { label: "writes", column: Column::WriteRequestKib, factor: 1.024 },
        ],
        look: "Requests smaller than this test makes were split on their way to the device.",
    },
    Quantity {
        id: "temperature",
        title: "Temperature",
        unit: "°C",
        stat: Stat::Max,
        parts: &[
            Curve { label: "sensor", column: Column::Celsius, factor: 1.0 },
            Curve { label: "SMART", column: Column::SmartCelsius, factor: 1.0 },
        ],
        look: "Many drives slow down from about 70 °C on: compare its rise with that of the latencies.",
    },
    Quantity {
        id: "throttle",
        title: "Throttling, counted by the drive",
        unit: "",
        stat: Stat::Max,
        parts: &[
            Curve { label: "times", column: Column::SmartThrottleCount, factor: 1.0 },
            Curve { label: "seconds", column: Column::SmartThrottleSec, factor: 1.0 },
        ],
        look: "The drive's own counters since it was made: a step during the run is throttling during the run.",
    },
    Quantity {
        id: "interrupts",
        title: "Interrupts on the busiest CPU for it",
        unit: "%",
        stat: Stat::Max,
        parts: &[Curve { label: "share on one CPU", column: Column::IrqCpuSharePct, factor: 1.0 }],
        look: "Near 100 % at a high rate, one CPU takes all interrupts of the device and may be the limit.",
    },
];

/// Kernel names of the devices that telemetry has columns of.
pub(crate) fn devices(timeline: &Timeline) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let known = timeline.columns.iter().filter_map(|column| column.known.as_ref());
    for ColumnOf { of, .. } in known.filter(|known| known.column.is_of_device()) {
        if !names.contains(of) {
            names.push(of.clone());
        }
    }
    names
}

/// The charts of all devices; on simulated drives none of them has data.
pub(crate) fn charts(timeline: &Timeline, simulated: bool) -> Vec<Chart> {
    let devices = devices(timeline);
    let charts = QUANTITIES.iter().map(|quantity| {
        let chart = quantity.chart("device", &devices, timeline);
        match simulated && chart.absent.is_some() {
            true => chart.without_data("simulated drives have no statistics of the kernel and no SMART"),
            false => chart,
        }
    });
    charts.collect()
}

#[derive(Debug)]
pub(crate) struct Quantity {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// Meaning of a point.
    pub(crate) stat: Stat,
    pub(crate) parts: &'static [Curve],
    pub(crate) look: &'static str,
}

/// One line of the chart.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) label: &'static str,
    pub(crate) column: Column,
    /// Factor that converts the column to the chart's unit.
    pub(crate) factor: f64,
}

/// A line of a quantity: whose (a device, or empty), which part.
struct Found<'a> {
    label: String,
    column: &'a ColumnLine,
    factor: f64,
    style: Style,
}

impl Quantity {
    /// The chart for `owners` (devices by their kernel names); a single empty one for the host.
    pub(crate) fn chart(&self, prefix: &str, owners: &[String], timeline: &Timeline) -> Chart {
        let axis = if self.unit == "%" { Axis::percent(self.title) } else { Axis::linear(self.title, self.unit) };
        let mut chart = Chart::over_time(format!("{prefix}-{}", self.id), self.title, axis);
        let found = self.found(owners, timeline);
        let measured: Vec<&Found<'_>> = found.iter().filter(|found| found.column.bins.any()).collect();
        if measured.is_empty() {
            return chart.without_data(self.why_nothing(&found));
        }
        for found in &measured {
            let values = found.column.bins.values(self.stat).into_iter();
            let y = values.map(|value| value.map(|value| value * found.factor)).collect();
            chart.lines.push(Line { name: found.label.clone(), x: timeline.points(), y, style: found.style });
        }
        if chart.lines.iter().flat_map(|line| &line.y).flatten().any(|value| *value > 100.0) {
            chart.y.max = None;
        }
        let point = units::span(timeline.point_sec());
        let what = if timeline.is_reduced() { format!("the {} value of {point}", self.stat.word()) } else { point };
        chart.caption = format!("Each point is {what}. {}", self.look);
        chart.key = self.key(&measured);
        chart
    }

    fn found<'a>(&self, owners: &[String], timeline: &'a Timeline) -> Vec<Found<'a>> {
        let mut all = Vec::new();
        for (number, owner) in owners.iter().enumerate() {
            for (part, Curve { label, column, factor }) in self.parts.iter().enumerate() {
                let Some(column) = timeline.column(*column, owner) else { continue };
                // With one device, colours distinguish its lines. With several, colours distinguish devices and dashes
                // distinguish lines.
                let several = owners.len() > 1;
                let (colour, dash) = if several { (number, part) } else { (part, part) };
                let label = if several { format!("{owner} {label}") } else { (*label).to_owned() };
                let style = Style { colour, dash, ..Style::line(0) };
                all.push(Found { label, column, factor: *factor, style });
            }
        }
        all
    }

    fn why_nothing(&self, found: &[Found<'_>]) -> String {
        if found.is_empty() {
            let names = self.parts.iter().map(|part| part.column.name());
            return format!("this run has no column {} in telemetry.csv", names.collect::<Vec<_>>().join(", "));
        }
        "it could not be measured: the fields of telemetry.csv are empty".to_owned()
    }

    /// The highest of each line, or the mean where points are means.
    fn key(&self, measured: &[&Found<'_>]) -> String {
        let part = |found: &&Found<'_>| {
            let value = found.column.bins.overall(self.stat)? * found.factor;
            Some(format!("{} {} {}", found.label, units::number(value), self.unit).trim_end().to_owned())
        };
        let word = if self.stat == Stat::Max { "Highest" } else { "Mean" };
        const NAMED_MAX: usize = 6;
        let mut parts: Vec<String> = measured.iter().take(NAMED_MAX).filter_map(part).collect();
        if measured.len() > NAMED_MAX {
            parts.push(format!("{} more", measured.len() - NAMED_MAX));
        }
        format!("{word}: {}.", parts.join(", "))
    }
}
