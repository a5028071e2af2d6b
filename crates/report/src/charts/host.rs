//! The host and this program: whether either was in the way.

use super::telemetry::{Curve, Quantity};
use super::timeline::Timeline;
use super::timeline::{Bins, Stat};
use super::{Axis, Chart, Line, Style};
use results::telemetry::{Column, ColumnOf};
use results::units;

const HOST: [Quantity; 5] = [
    Quantity {
        id: "cpu",
        title: "CPU of the host",
        unit: "%",
        stat: Stat::Max,
        parts: &[
            Curve { label: "busy, of all CPUs", column: Column::CpuBusyPct, factor: 1.0 },
            Curve { label: "busiest single CPU", column: Column::CpuBusiestPct, factor: 1.0 },
            Curve { label: "waiting for I/O", column: Column::CpuIowaitPct, factor: 1.0 },
            Curve { label: "stolen by the hypervisor", column: Column::CpuStealPct, factor: 1.0 },
        ],
        look: "Stolen time and a full CPU make any drive look slow.",
    },
    Quantity {
        id: "psi",
        title: "Pressure: tasks that waited for I/O",
        unit: "%",
        stat: Stat::Max,
        parts: &[
            Curve { label: "some task", column: Column::PsiIoSomePct, factor: 1.0 },
            Curve { label: "all tasks", column: Column::PsiIoFullPct, factor: 1.0 },
        ],
        look: "The kernel's PSI: share of the time in which tasks of the whole host stood still for I/O.",
    },
    Quantity {
        id: "switches",
        title: "Context switches and interrupts of the host",
        unit: "/s",
        stat: Stat::Mean,
        parts: &[
            Curve { label: "context switches", column: Column::ContextSwitchesPerSec, factor: 1.0 },
            Curve { label: "interrupts", column: Column::HostInterruptsPerSec, factor: 1.0 },
        ],
        look: "A level that changes while the load stays the same: something else runs here.",
    },
    Quantity {
        id: "process",
        title: "CPU of this program",
        unit: "% of one CPU",
        stat: Stat::Max,
        parts: &[
            Curve { label: "CPU", column: Column::ProcessCpuPct, factor: 1.0 },
            Curve { label: "waiting for a CPU", column: Column::RunqueueWaitPct, factor: 1.0 },
        ],
        look: "Waiting for a CPU makes us issue late; it shows in the lag above.",
    },
    Quantity {
        id: "io-workers",
        title: "Runs of io_uring's workers",
        unit: "/s",
        stat: Stat::Max,
        parts: &[Curve { label: "runs", column: Column::RingWorkerRunsPerSec, factor: 1.0 }],
        look: "About one for each operation that the issuing thread could not hand over without blocking: a full queue, or a driver \
               that works in the caller's thread.",
    },
];

/// The charts of host and program. `simulated`: nothing was asked of the host, because nothing of it
/// matters on virtual time.
pub(crate) fn charts(timeline: &Timeline, simulated: bool) -> Vec<Chart> {
    let host = HOST.iter().map(|quantity| {
        let chart = quantity.chart("host", &[String::new()], timeline);
        match simulated && chart.absent.is_some() {
            true => chart.without_data("the run was on virtual time, where the host does not matter"),
            false => chart,
        }
    });
    let mut charts: Vec<Chart> = host.collect();
    charts.extend(threads(timeline));
    let own = [
        ("in-flight", "Operations in flight", "", &timeline.in_flight, "Most at once; at the limit, operations wait."),
        (
            "gaps",
            "Longest time between two looks for completions",
            "ms",
            &timeline.gap_ms,
            "A completion can have lain unseen for this long: service times may be overstated by it, never understated.",
        ),
    ];
    charts.extend(own.map(|(id, title, unit, bins, look)| of_bins(id, title, unit, bins, look, timeline)));
    charts
}

/// CPU of each issuing thread; of all together where the run has only that.
fn threads(timeline: &Timeline) -> Option<Chart> {
    let title = "CPU of the issuing threads";
    let mut chart = Chart::over_time("host-threads", title, Axis::linear("CPU", "% of one CPU"));
    for column in &timeline.columns {
        let known = column.known.as_ref().filter(|known| known.column == Column::ThreadCpuPct && column.bins.any());
        let Some(ColumnOf { of: name, .. }) = known else { continue };
        let style = Style::line(chart.lines.len());
        let y = column.bins.values(Stat::Max);
        chart.lines.push(Line { name: name.clone(), x: timeline.points(), y, style });
    }
    if chart.lines.is_empty() {
        return Some(of_bins(
            "threads",
            title,
            "% of one CPU",
            &timeline.cpu_pct,
            "All issuing threads together, which share the work evenly.",
            timeline,
        ));
    }
    let highest = chart.lines.iter().flat_map(|line| &line.y).flatten().copied().fold(0.0, f64::max);
    chart.key = format!("Highest of one thread: {} % of a CPU.", units::number(highest));
    chart.caption = format!(
        "Each point is the highest value of {}. A thread at 100 % cannot issue more.",
        units::span(timeline.point_sec())
    );
    Some(chart)
}

fn of_bins(id: &str, title: &str, unit: &str, bins: &Bins, look: &str, timeline: &Timeline) -> Chart {
    let mut chart = Chart::over_time(format!("host-{id}"), title, Axis::linear(title, unit));
    let Some(highest) = bins.overall(Stat::Max) else {
        return chart.without_data("no report interval was recorded");
    };
    let (x, y) = (timeline.points(), bins.values(Stat::Max));
    chart.lines.push(Line { name: title.to_owned(), x, y, style: Style::line(0) });
    chart.key = format!("Highest: {} {unit}", units::number(highest)).trim_end().to_owned() + ".";
    chart.caption = format!("Each point is the highest value of {}. {look}", units::span(timeline.point_sec()));
    chart
}
