//! Telemetry of the devices (the kernel's counters, temperature, throttling, SMART), and of the host and flashproof, to
//! see if they disturbed the run.
//!
//! For each quantity a chart says if it was measured, could not be measured, or was not requested.

use super::timeline::{BinStatistic, ColumnLine, TimeBins, Timeline};
use super::{Axis, Chart, Line, Style};
use crate::words::unique;
use results::format;
use results::telemetry::{Column, ColumnOf};

const DEVICE: [TelemetryQuantity; 9] = [
    mean("requests", "Requests at the device", "/s")
        .with_lines(&[("reads", Column::ReadsPerSec), ("writes", Column::WritesPerSec), ("flushes", Column::FlushesPerSec)])
        .with_hint(
            "The kernel's count for all processes. If it exceeds this test's load, another program uses the drive.",
        ),
    mean("throughput", "Throughput at the device", "MB/s")
        .with_lines(&[("read", Column::ReadKibPerSec), ("written", Column::WriteKibPerSec)])
        .with_hint(
            "The kernel's count. If it is near the rated throughput of the link or drive, the link or drive is the limit.",
        ),
    max("await", "Mean time of requests", "ms")
        .with_lines(&[("reads", Column::ReadAwaitMs), ("writes", Column::WriteAwaitMs), ("flushes", Column::FlushAwaitMs)])
        .with_hint(
            "Time in the kernel's queue and in the device, as in iostat: a mean, which hides rare slow requests.",
        ),
    max("queue", "Requests in the device's queue", "")
        .with_lines(&[("mean of interval (aqu-sz)", Column::AverageQueue), ("end of interval (in flight)", Column::InFlight)])
        .with_hint("If the queue grows while the rate stays the same, the device falls behind."),
    max("util", "Time with a request in flight", "%")
        .with_lines(&[("%util", Column::UtilPct)])
        .with_hint("An SSD works on many requests at once: at 100 % it may still be able to do more."),
    mean("request-size", "Mean size of requests", "kB")
        .with_lines(&[("reads", Column::ReadRequestKib), ("writes", Column::WriteRequestKib)])
        .with_hint("If requests are smaller than those of this test, the kernel split them."),
    max("temperature", "Temperature", "°C")
        .with_lines(&[("sensor", Column::Celsius), ("SMART", Column::SmartCelsius)])
        .with_hint("Many drives slow down from about 70 °C on: compare the temperature with the latencies."),
    max("throttle", "Throttling, counted by the drive", "")
        .with_lines(&[("times", Column::SmartThrottleCount), ("seconds", Column::SmartThrottleSec)])
        .with_hint("Lifetime counters of the drive: a step during the run means that the drive throttled."),
    max("interrupts", "Interrupts of the device on its busiest CPU", "%")
        .with_lines(&[("share on one CPU", Column::IrqCpuSharePct)])
        .with_hint("Near 100 % at a high rate, one CPU takes all interrupts of the device and may be the limit."),
];

const HOST: [TelemetryQuantity; 5] = [
    max("cpu", "CPU of the host", "%")
        .with_lines(&[
            ("busy, of all CPUs", Column::CpuBusyPct),
            ("busiest single CPU", Column::CpuBusiestPct),
            ("waiting for I/O", Column::CpuIowaitPct),
            ("stolen by the hypervisor", Column::CpuStealPct),
        ])
        .with_hint("Stolen time and a full CPU make any drive look slow."),
    max("psi", "Pressure: tasks that waited for I/O", "%")
        .with_lines(&[("some task", Column::PsiIoSomePct), ("all tasks", Column::PsiIoFullPct)])
        .with_hint("The kernel's PSI: share of the time in which tasks of the host were stalled on I/O."),
    mean("switches", "Context switches and interrupts of the host", "/s")
        .with_lines(&[("context switches", Column::ContextSwitchesPerSec), ("interrupts", Column::HostInterruptsPerSec)])
        .with_hint("If the level changes while the load stays the same, something else runs on the host."),
    max("process", "CPU of this program", "% of one CPU")
        .with_lines(&[("CPU", Column::ProcessCpuPct), ("waiting for a CPU", Column::RunqueueWaitPct)])
        .with_hint("If flashproof waits for a CPU, it issues operations late, which shows in the lag."),
    max("io-workers", "Runs of io_uring's workers", "/s").with_lines(&[("runs", Column::RingWorkerRunsPerSec)]).with_hint(
        "About one run for each operation that the issuing thread could not submit without blocking: the queue was \
         full, or the driver works in the caller's thread.",
    ),
];

/// Kernel names of the devices that have telemetry columns.
pub(crate) fn devices(timeline: &Timeline) -> Vec<String> {
    let known = timeline
        .columns
        .iter()
        .filter_map(|column| column.column_of.as_ref());
    unique(
        known
            .filter(|known| known.column.is_of_device())
            .map(|known| known.owner.clone()),
    )
}

/// The charts of all devices; with simulated drives no chart has data.
pub(crate) fn of_devices(timeline: &Timeline, simulated: bool) -> Vec<Chart> {
    let why = simulated.then_some("simulated drives have no kernel statistics and no SMART");
    let owners = devices(timeline);
    DEVICE
        .iter()
        .map(|quantity| quantity.chart("device", &owners, timeline, why))
        .collect()
}

/// The charts of host and program. `simulated`: the host was not sampled, because it does not affect virtual time.
pub(crate) fn of_host(timeline: &Timeline, simulated: bool) -> Vec<Chart> {
    let no_data_reason =
        simulated.then_some("simulated drives run in virtual time, which the host does not affect");
    let chart = |quantity: &TelemetryQuantity| {
        quantity.chart("host", &[String::new()], timeline, no_data_reason)
    };
    let mut charts: Vec<Chart> = HOST.iter().map(chart).collect();
    charts.push(threads(timeline));
    let run_quantities = [
        (
            "in-flight",
            "Operations in flight",
            "",
            &timeline.in_flight,
            "At the in-flight limit, operations wait.",
        ),
        (
            "gaps",
            "Longest time between two polls for completions",
            "ms",
            &timeline.gap_ms,
            "A completion may have been noticed after a delay of up to this length: a service time may be too long, \
             but never too short.",
        ),
    ];
    charts.extend(
        run_quantities
            .map(|(id, title, unit, bins, look)| of_bins(id, title, unit, bins, look, timeline)),
    );
    charts
}

struct TelemetryQuantity {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    stat: BinStatistic,
    /// Lines of the chart, each with its label.
    lines: &'static [(&'static str, Column)],
    hint: &'static str,
}

/// Factor that converts a column to its chart's unit: MB are 1,000,000 bytes, kB 1,000.
fn factor(column: Column) -> f64 {
    match column.unit() {
        "1,024 bytes/s" => 0.001_024,
        "1,024 bytes" => 1.024,
        _ => 1.0,
    }
}

struct QuantityLine<'a> {
    label: String,
    column: &'a ColumnLine,
    factor: f64,
    style: Style,
}

const fn mean(id: &'static str, title: &'static str, unit: &'static str) -> TelemetryQuantity {
    TelemetryQuantity {
        id,
        title,
        unit,
        stat: BinStatistic::Mean,
        lines: &[],
        hint: "",
    }
}

const fn max(id: &'static str, title: &'static str, unit: &'static str) -> TelemetryQuantity {
    TelemetryQuantity {
        stat: BinStatistic::Max,
        ..mean(id, title, unit)
    }
}

impl TelemetryQuantity {
    const fn with_lines(self, lines: &'static [(&'static str, Column)]) -> Self {
        Self { lines, ..self }
    }

    const fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// The chart for `owners`: kernel names of devices, or "" for the host. `no_data_reason`: why there is no data.
    fn chart(
        &self,
        prefix: &str,
        owners: &[String],
        timeline: &Timeline,
        no_data_reason: Option<&str>,
    ) -> Chart {
        let axis = if self.unit == "%" {
            Axis::percent(self.title)
        } else {
            Axis::linear(self.title, self.unit)
        };
        let mut chart = Chart::over_time(format!("{prefix}-{}", self.id), self.title, axis);
        let quantity_lines = self.found(owners, timeline);
        let measured: Vec<&QuantityLine<'_>> = quantity_lines
            .iter()
            .filter(|found| found.column.bins.any())
            .collect();
        if measured.is_empty() {
            return chart.without_data(
                no_data_reason.map_or_else(|| self.why_nothing(&quantity_lines), str::to_owned),
            );
        }
        for found in &measured {
            let values = found.column.bins.values(self.stat).into_iter();
            let y = values
                .map(|value| value.map(|value| value * found.factor))
                .collect();
            let x = timeline.points();
            chart.lines.push(Line::new(&found.label, x, y, found.style));
        }
        if chart
            .lines
            .iter()
            .flat_map(|line| &line.y)
            .flatten()
            .any(|value| *value > 100.0)
        {
            chart.y.max = None;
        }
        let point = format::span(timeline.point_sec());
        let what = if timeline.is_reduced() {
            format!("the {} value of {point}", self.stat.word())
        } else {
            point
        };
        chart.caption = format!("Each point is {what}. {}", self.hint);
        chart.key = self.key(&measured);
        chart
    }

    fn found<'a>(&self, owners: &[String], timeline: &'a Timeline) -> Vec<QuantityLine<'a>> {
        let mut quantity_lines = Vec::new();
        for (number, owner) in owners.iter().enumerate() {
            for (line_index, (label, column)) in self.lines.iter().enumerate() {
                let factor = factor(*column);
                let Some(column) = timeline.column(*column, owner) else {
                    continue;
                };
                // With one device, colours distinguish lines; with several, colours distinguish devices, dashes lines.
                let several = owners.len() > 1;
                let (colour, dash) = if several {
                    (number, line_index)
                } else {
                    (line_index, line_index)
                };
                let label = if several {
                    format!("{owner} {label}")
                } else {
                    (*label).to_owned()
                };
                let style = Style {
                    colour,
                    dash,
                    ..Style::line(0)
                };
                quantity_lines.push(QuantityLine {
                    label,
                    column,
                    factor,
                    style,
                });
            }
        }
        quantity_lines
    }

    fn why_nothing(&self, quantity_lines: &[QuantityLine<'_>]) -> String {
        if quantity_lines.is_empty() {
            let names = self.lines.iter().map(|part| part.1.name());
            return format!(
                "this run has no column {} in telemetry.csv",
                names.collect::<Vec<_>>().join(", ")
            );
        }
        "not measured: the fields of telemetry.csv are empty".to_owned()
    }

    /// The maximum of each line, or the mean if points are means.
    fn key(&self, measured: &[&QuantityLine<'_>]) -> String {
        let word = if self.stat == BinStatistic::Max {
            "Highest"
        } else {
            "Mean"
        };
        const NAMED_MAX: usize = 6;
        let mut line_texts: Vec<String> = measured
            .iter()
            .take(NAMED_MAX)
            .filter_map(|found: &&QuantityLine<'_>| {
                let value = found.column.bins.overall(self.stat)? * found.factor;
                Some(
                    format!("{} {} {}", found.label, format::number(value), self.unit)
                        .trim_end()
                        .to_owned(),
                )
            })
            .collect();
        if measured.len() > NAMED_MAX {
            line_texts.push(format!("{} more", measured.len() - NAMED_MAX));
        }
        format!("{word}: {}.", line_texts.join(", "))
    }
}

/// CPU of each issuing thread; of all threads together if the run recorded only the sum.
fn threads(timeline: &Timeline) -> Chart {
    let title = "CPU of the issuing threads";
    let mut chart = Chart::over_time("host-threads", title, Axis::linear("CPU", "% of one CPU"));
    for column in &timeline.columns {
        let known = column
            .column_of
            .as_ref()
            .filter(|known| known.column == Column::ThreadCpuPct && column.bins.any());
        let Some(ColumnOf { owner: name, .. }) = known else {
            continue;
        };
        let style = Style::line(chart.lines.len());
        let y = column.bins.values(BinStatistic::Max);
        chart
            .lines
            .push(Line::new(name, timeline.points(), y, style));
    }
    if chart.lines.is_empty() {
        let look = "The CPU of all issuing threads together; they share the work evenly.";
        return of_bins(
            "threads",
            title,
            "% of one CPU",
            &timeline.cpu_pct,
            look,
            timeline,
        );
    }
    let highest = chart
        .lines
        .iter()
        .flat_map(|line| &line.y)
        .flatten()
        .copied()
        .fold(0.0, f64::max);
    let span = format::span(timeline.point_sec());
    chart.key = format!(
        "Highest of one thread: {} % of a CPU.",
        format::number(highest)
    );
    chart.caption =
        format!("Each point is the highest value of {span}. A thread at 100 % cannot issue more.");
    chart
}

fn of_bins(
    id: &str,
    title: &str,
    unit: &str,
    bins: &TimeBins,
    hint: &str,
    timeline: &Timeline,
) -> Chart {
    let mut chart = Chart::over_time(format!("host-{id}"), title, Axis::linear(title, unit));
    let Some(highest) = bins.overall(BinStatistic::Max) else {
        return chart.without_data("no report interval was recorded");
    };
    let x = timeline.points();
    let y = bins.values(BinStatistic::Max);
    chart.lines.push(Line::new(title, x, y, Style::line(0)));
    chart.key = format!("Highest: {} {unit}", format::number(highest))
        .trim_end()
        .to_owned()
        + ".";
    chart.caption = format!(
        "Each point is the highest value of {}. {hint}",
        format::span(timeline.point_sec())
    );
    chart
}
