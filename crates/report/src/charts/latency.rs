//! Latency over time: percentiles of service, wait and lag with marks at change points; heat maps; and time of requests
//! by stage (kernel's queue, device), from sampled tracepoints.
//!
//! A heat map shows details that quantiles hide: two latency clusters at once, bands that move, rare stalls.

use super::windows::{MAX, P99, PointQuantiles, QUANTILE_NAMES, StreamDurations, Windows};
use super::{Axis, Chart, ChartResolution, Limit, Line, Mark, Points, Style};
use crate::words::capital;
use conclusions::grouped;
use results::format;
use results::run_dir::{Manifest, TRACE, read_trace};
use results::steady::{ChangePoint, RoundMetric, Steadiness};
use results::telemetry::TraceLine;
use std::path::Path;

/// A chart for each stream with operations, judged streams first; with several devices also the p99 of each device.
pub(crate) fn service_charts(
    manifest: &Manifest,
    service: &Windows,
    steadiness: Option<&Steadiness>,
) -> Vec<Chart> {
    let mut charts = Vec::new();
    for judged in [true, false] {
        let streams = manifest.streams.iter().zip(&service.streams).enumerate();
        for (index, (stream, durations)) in
            streams.filter(|(_, (stream, _))| stream.judged == judged)
        {
            let title = format!("Service time of {}", stream.name);
            let mut chart = over_time(
                &format!("service-{}", stream.name),
                &title,
                "service time",
                service,
                durations,
            );
            chart.wide = judged;
            chart.limits = if judged {
                thresholds(manifest)
            } else {
                Vec::new()
            };
            if let Some(steadiness) = steadiness.filter(|_| chart.absent.is_none()) {
                mark(&mut chart, steadiness, &stream.name);
            }
            charts.push(chart);
            if judged {
                charts.extend(by_device(manifest, service, index));
            }
        }
    }
    charts
}

pub(crate) fn delay_charts(manifest: &Manifest, wait: &Windows, lag: &Windows) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (index, stream) in manifest
        .streams
        .iter()
        .enumerate()
        .filter(|(_, stream)| stream.judged)
    {
        for (name, meaning, windows) in [
            (
                "wait",
                "time until a slot was free, caused by the device or by the in-flight limit",
                wait,
            ),
            (
                "lag",
                "delay by flashproof or its host, not by the device",
                lag,
            ),
        ] {
            let Some(durations) = windows.streams.get(index) else {
                continue;
            };
            let title = format!("{} of {}", capital(name), stream.name);
            let mut chart = over_time(
                &format!("{name}-{}", stream.name),
                &title,
                name,
                windows,
                durations,
            );
            if chart.absent.is_none() {
                chart.caption = format!("{}: {meaning}. {}", chart.title, chart.caption);
            }
            charts.push(chart);
        }
    }
    charts
}

fn over_time(
    id: &str,
    title: &str,
    axis_title: &str,
    windows: &Windows,
    durations: &StreamDurations,
) -> Chart {
    let mut chart = Chart::over_time(
        format!("percentiles-{id}"),
        title,
        Axis::log(axis_title, "ms"),
    );
    if durations.total.is_empty() {
        return chart.without_data(no_data_reason(windows));
    }
    for (at, name) in QUANTILE_NAMES.into_iter().enumerate() {
        chart
            .lines
            .push(quantile_line(name, at, at, windows, durations));
    }
    chart.caption = format!(
        "Each point has the percentiles of all operations in {} on all devices; max is the longest. Times below 1 us \
         are drawn at 1 us, except times of 0, which are left out.",
        format::span_of(windows.point_sec)
    );
    let total = &durations.total;
    let p50 = ms(total.value_at_quantile(0.5));
    let p99 = ms(total.value_at_quantile(0.99));
    let p999 = ms(total.value_at_quantile(0.999));
    chart.key = format!(
        "Whole run: p50 {p50}, p99 {p99}, p99.9 {p999}, longest {}.",
        ms(total.max())
    );
    chart
}

fn ms(ns: u64) -> String {
    format::milliseconds(ns as f64 / 1e6)
}

pub(crate) fn quantile_line(
    name: &str,
    moment: usize,
    style: usize,
    windows: &Windows,
    durations: &StreamDurations,
) -> Line {
    // Maxima of neighbouring points are unrelated, so they are not joined.
    let style = Style {
        joined: moment != MAX,
        symbols: moment == MAX,
        ..Style::line(style)
    };
    Line::new(
        name,
        windows.points(),
        durations
            .moments
            .iter()
            .map(|at: &Option<PointQuantiles>| {
                at.as_ref()
                    .and_then(|at: &PointQuantiles| at.get(moment))
                    .copied()
            })
            .collect(),
        style,
    )
}

/// Charts with a line for each device: the 99th percentile, and the maximum.
fn by_device(manifest: &Manifest, service: &Windows, stream: usize) -> Vec<Chart> {
    let Some(info) = manifest
        .streams
        .get(stream)
        .filter(|_| manifest.devices.len() > 1)
    else {
        return Vec::new();
    };
    let mut charts = Vec::new();
    for (moment, name) in [(P99, "p99"), (MAX, "max")] {
        let title = format!(
            "{} of {}, by device",
            if moment == MAX { "Longest" } else { "p99" },
            info.name
        );
        let id = format!("{name}-by-device-{}", info.name);
        let mut chart = Chart::over_time(id, title, Axis::log("service time", "ms"));
        let mut worst: Option<(u64, &str)> = None;
        for (number, device) in manifest.devices.iter().enumerate() {
            let Some(durations) = service.cells.get(stream * manifest.devices.len() + number)
            else {
                continue;
            };
            let total = &durations.total;
            let ns = if moment == MAX {
                total.max()
            } else {
                total.value_at_quantile(0.99)
            };
            if !total.is_empty() && worst.is_none_or(|(worst, _)| ns > worst) {
                worst = Some((ns, device));
            }
            chart
                .lines
                .push(quantile_line(device, moment, number, service, durations));
        }
        let Some((ns, device)) = worst else {
            charts.push(chart.without_data(no_data_reason(service)));
            continue;
        };
        chart.limits = thresholds(manifest);
        chart.caption = format!(
            "Each point is {} of one device.",
            format::span_of(service.point_sec)
        );
        chart.key = format!("Slowest over the whole run: {device} with {}.", ms(ns));
        charts.push(chart);
    }
    charts
}

/// The thresholds of the verdict as lines, milliseconds; empty for a run without limits.
pub(crate) fn thresholds(manifest: &Manifest) -> Vec<Limit> {
    if manifest.sla.is_unlimited() {
        return Vec::new();
    }
    let thresholds = manifest.sla.limits().iter().map(|limit| limit.threshold_ns);
    thresholds
        .map(|ns| Limit {
            y: ns as f64 / 1e6,
            name: format::duration(ns),
        })
        .collect()
}

pub(crate) fn no_data_reason(windows: &Windows) -> String {
    windows
        .damage
        .clone()
        .unwrap_or_else(|| "no operation of the stream succeeded in a recorded window".to_owned())
}

pub(crate) fn heat_maps(manifest: &Manifest, service: &Windows) -> Vec<Chart> {
    let streams = manifest
        .streams
        .iter()
        .zip(&service.streams)
        .filter(|(stream, _)| stream.judged);
    let charts = streams.map(|(stream, durations)| {
        let title = format!("Heat map of service times: {}", stream.name);
        let y = Axis::log("service time", "ms");
        let mut chart = Chart::over_time(format!("heat-map-{}", stream.name), title, y);
        chart.wide = true;
        chart.limits = thresholds(manifest);
        let Some(heat) = durations.heat(service.column_sec) else { return chart.without_data(no_data_reason(service)) };
        let span = format::span_of(service.column_sec);
        let name = &stream.name;
        let total = &durations.total;
        chart.caption = format!(
            "Each column is {span} of {name} on all devices. The stronger a field's colour, the larger its share of \
             the column's operations (logarithmic, down to a single operation). Dashed lines are the thresholds. \
             Look for bands that move, for a second band above the first, and for single fields far above: stalls."
        );
        let count = format::count(total.len(), "operation");
        let half = ms(total.value_at_quantile(0.5));
        chart.key = format!("Half of {count} took at most {half}, the slowest {}.", ms(total.max()));
        chart.heat = Some(heat);
        chart
    });
    charts.collect()
}

/// True if a limit lies within the edges of a heat map; other limits would stretch the axis of the map.
pub(crate) fn is_within(limit: &Limit, edges: &[f64]) -> bool {
    edges
        .first()
        .zip(edges.last())
        .is_some_and(|(low, high)| (*low..=*high).contains(&limit.y))
}

/// Maximum number of marks on one chart. A drive with more change points never settles; the table lists all of them.
const MARKS_MAX: usize = 12;

/// Marks the change points of `stream`, the oldest first; within a round, those over all devices come first.
pub(crate) fn mark(chart: &mut Chart, steadiness: &Steadiness, stream: &str) {
    for change in steadiness
        .change_points
        .iter()
        .filter(|change| change.group.stream == stream)
    {
        let x = change.at_sec as f64;
        // Several metrics may change at the same time; one mark is enough.
        if chart.marks.len() < MARKS_MAX && chart.marks.iter().all(|mark| mark.x != x) {
            chart.marks.push(Mark {
                x,
                name: format!("change: {}", change.metric),
            });
        }
    }
    if !chart.marks.is_empty() {
        chart.caption += " Dotted vertical lines are change points: see the steady state.";
    }
}

pub(crate) fn change_sentence(change: &ChangePoint) -> String {
    let at = format::span(change.at_sec);
    let before = value(change.metric, change.before);
    let after = value(change.metric, change.after);
    format!(
        "After {at}: {} of {} went from {before} to {after}",
        change.metric, change.group
    )
}

pub(crate) fn value(metric: RoundMetric, value: f64) -> String {
    match metric {
        RoundMetric::ShareOver { .. } => format::percent(value),
        RoundMetric::P99 => format::milliseconds(value / 1e6),
        RoundMetric::AchievedIops => format!("{}/s", format::number(value)),
    }
}

/// Reads one value of a sample, nanoseconds.
type Value = fn(&TraceLine) -> u64;

const DRAWN: [(&str, Value); 4] = [
    ("device p99", |line| line.device_time.p99_ns),
    ("kernel's queue p99", |line| line.queue.p99_ns),
    ("device max", |line| line.device_time.max_ns),
    ("kernel's queue max", |line| line.queue.max_ns),
];

/// Charts and remarks: a chart for each sampled device and kind of request, or an empty chart with the reason.
pub(crate) fn trace_charts(
    dir: &Path,
    manifest: &Manifest,
    ran_sec: f64,
    detail: ChartResolution,
) -> (Vec<Chart>, Vec<String>) {
    let limits = thresholds(manifest);
    let missing_reason = match read_trace(dir, manifest) {
        _ if !dir.join(TRACE).exists() && manifest.simulated => {
            "simulated drives do not go through the kernel".to_owned()
        }
        _ if !dir.join(TRACE).exists() => {
            format!("this run has no {TRACE}: requests were not traced")
        }
        Err(error) => error.to_string(),
        Ok(samples) if samples.lines.is_empty() => {
            format!("{TRACE} has no sample in which a request completed")
        }
        Ok(samples) => {
            let lines = samples.lines.into_iter();
            let mut groups = grouped(lines.map(|line| ((line.device, line.kind, line.size), line)));
            groups.sort_by_key(|(of, _)| *of);
            let charts = groups.iter().map(|((device, kind, size), lines)| {
                let device = manifest
                    .devices
                    .get(*device)
                    .map_or("an unknown device", String::as_str);
                chart(
                    &format!("{} {}s on {device}", size.name(), kind.name()),
                    lines,
                    ran_sec,
                    &limits,
                    detail,
                )
            });
            return (charts.collect(), samples.remarks);
        }
    };
    (
        vec![
            empty(
                "trace",
                "Time of requests in the kernel's queue and in the device",
            )
            .without_data(missing_reason),
        ],
        Vec::new(),
    )
}

fn empty(id: &str, title: &str) -> Chart {
    Chart::over_time(id, title, Axis::log("time of a request", "ms"))
}

fn chart(
    requests_name: &str,
    samples: &[TraceLine],
    ran_sec: f64,
    limits: &[Limit],
    detail: ChartResolution,
) -> Chart {
    let title = format!("Queue and device: {requests_name}");
    let mut chart = empty(&format!("trace-{requests_name}"), &title);
    // The axis covers the whole run, not only the time of the samples.
    chart.x.max = Some(ran_sec);
    let chunk_samples = samples.len().div_ceil(detail.points_max.max(1)).max(1);
    let chunks: Vec<&[TraceLine]> = samples.chunks(chunk_samples).collect();
    let x: Vec<f64> = chunks
        .iter()
        .filter_map(|chunk| chunk.last())
        .map(|line| line.at_sec)
        .collect();
    let highest = |lines: &[TraceLine], value: Value| lines.iter().map(value).max();
    for (number, (name, value)) in DRAWN.iter().enumerate() {
        let y = chunks
            .iter()
            .map(|chunk| highest(chunk, *value).map(|ns| ns as f64 / 1e6))
            .collect();
        chart.lines.push(Line::new(
            *name,
            Points::Each(x.clone()),
            y,
            Style::line(number),
        ));
    }
    chart.limits = limits.to_vec();
    let point_text = if chunk_samples > 1 {
        format!("the highest of {chunk_samples} samples")
    } else {
        "one sample".to_owned()
    };
    chart.caption = format!(
        "Each point is {point_text} of the kernel's tracepoints; between samples nothing was traced. Queue: from the \
         kernel's acceptance of a request to its dispatch to the device. Device: from dispatch to completion."
    );
    let device = ms(highest(samples, DRAWN[0].1).unwrap_or_default());
    let queue = ms(highest(samples, DRAWN[1].1).unwrap_or_default());
    chart.key = format!("Highest p99 in a sample: device {device}, kernel's queue {queue}.");
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::steady::Group;
    use results::telemetry::{TimeDistribution, TraceKind, TraceSize};

    #[test]
    fn metrics_that_change_at_the_same_time_get_one_mark() {
        let change = |metric, at_sec| ChangePoint {
            group: Group {
                stream: "reads".into(),
                device: None,
            },
            metric,
            round: 3,
            at_sec,
            before: 0.02,
            after: 0.04,
        };
        let share = RoundMetric::ShareOver {
            threshold_ns: 1_000_000,
        };
        let change_points = vec![
            change(share, 120),
            change(RoundMetric::P99, 120),
            change(share, 300),
        ];
        let steadiness = Steadiness {
            round_sec: 60,
            rounds: 9,
            reached_round: None,
            steady_since_round: None,
            steady_at_end: false,
            windows: Vec::new(),
            change_points,
        };
        let mut chart = Chart::over_time("a", "b", Axis::log("c", "ms"));
        mark(&mut chart, &steadiness, "reads");
        assert_eq!(
            chart.marks.iter().map(|mark| mark.x).collect::<Vec<_>>(),
            [120.0, 300.0]
        );
        let sentence = change_sentence(&change(share, 120));
        assert_eq!(
            sentence,
            "After 2 min: share over 1 ms of reads on all devices went from 2.00 % to 4.00 %"
        );
    }

    #[test]
    fn a_chart_of_many_samples_keeps_the_highest() {
        let spread = |p99_ns| TimeDistribution {
            p50_ns: 1,
            p99_ns,
            max_ns: p99_ns,
        };
        let line = |at_sec, p99_ns| TraceLine {
            at_sec,
            length_ms: 500,
            device: 0,
            kind: TraceKind::Read,
            size: TraceSize::Small,
            requests: 9,
            lost: 0,
            queue: spread(2_000_000),
            device_time: spread(p99_ns),
            queue_over: Vec::new(),
            device_over: Vec::new(),
            total_over: Vec::new(),
        };
        let lines = [line(30.0, 5_000_000), line(60.0, 70_000_000), line(90.0, 1)];
        let drawn = chart(
            "x",
            &lines,
            100.0,
            &[],
            ChartResolution {
                points_max: 2,
                columns_max: 1,
            },
        );
        assert_eq!(drawn.lines[0].y, [Some(70.0), Some(0.000_001)]);
        assert_eq!(drawn.lines[0].x, Points::Each(vec![60.0, 90.0]));
        assert_eq!(
            drawn.x.max,
            Some(100.0),
            "the axis covers the run, not only the samples"
        );
        assert!(
            drawn.key.contains("device 70 ms, kernel's queue 2 ms"),
            "{}",
            drawn.key
        );
    }
}
