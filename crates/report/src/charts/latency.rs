//! Latency over time: percentiles of service, wait and lag with marks where levels moved, and heat maps.
//!
//! A heat map shows what quantiles hide: two latency clusters at once, bands that move, rare stalls.

use super::windows::{Durations, MAX, MOMENT_NAMES, Moment, P99, Windows};
use super::{Axis, Chart, Limit, Line, Mark, Style};
use results::run_dir::Manifest;
use results::steady::{ChangePoint, Metric, Steadiness};
use results::units;

/// Service times: a chart for each stream that did something, the judged ones first, and with several
/// devices their 99th percentiles beside each other.
pub(crate) fn service_charts(manifest: &Manifest, service: &Windows, steadiness: Option<&Steadiness>) -> Vec<Chart> {
    let mut charts = Vec::new();
    for judged in [true, false] {
        let streams = manifest.streams.iter().zip(&service.streams).enumerate();
        for (index, (stream, durations)) in streams.filter(|(_, (stream, _))| stream.judged == judged) {
            let title = format!("Service time of {}", stream.name);
            let mut chart = over_time(&format!("service-{}", stream.name), &title, "service time", service, durations);
            chart.wide = judged;
            chart.limits = if judged { thresholds(manifest) } else { Vec::new() };
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

/// Wait and lag of the judged streams.
pub(crate) fn delay_charts(manifest: &Manifest, wait: &Windows, lag: &Windows) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (index, stream) in manifest.streams.iter().enumerate().filter(|(_, stream)| stream.judged) {
        for (name, what, windows) in [
            ("wait", "for a free slot: the device's doing, or the configured limit's", wait),
            ("lag", "how late this program issued: ours, not the device's", lag),
        ] {
            let Some(durations) = windows.streams.get(index) else { continue };
            let title = format!("{} of {}", if name == "wait" { "Wait" } else { "Lag" }, stream.name);
            let mut chart = over_time(&format!("{name}-{}", stream.name), &title, name, windows, durations);
            if chart.absent.is_none() {
                chart.caption = format!("{}: {what}. {}", chart.title, chart.caption);
            }
            charts.push(chart);
        }
    }
    charts
}

fn over_time(id: &str, title: &str, what: &str, windows: &Windows, durations: &Durations) -> Chart {
    let mut chart = Chart::over_time(format!("percentiles-{id}"), title, Axis::log(what, "ms"));
    if durations.total.is_empty() {
        return chart.without_data(nothing(windows));
    }
    for (at, name) in MOMENT_NAMES.into_iter().enumerate() {
        chart.lines.push(line(name, at, at, windows, durations));
    }
    chart.caption = format!(
        "Each point has the percentiles of all operations of {}, on all devices; max is the longest of them. What took \
         less than 1 us is drawn at 1 us; 0 is left out.",
        units::span_of(windows.point_sec)
    );
    let ms = |quantile| units::milliseconds(durations.total.value_at_quantile(quantile) as f64 / 1e6);
    chart.key = format!(
        "Whole run: p50 {}, p99 {}, p99.9 {}, longest {}.",
        ms(0.5),
        ms(0.99),
        ms(0.999),
        units::milliseconds(durations.total.max() as f64 / 1e6)
    );
    chart
}

fn line(name: &str, moment: usize, style: usize, windows: &Windows, durations: &Durations) -> Line {
    let value = |at: &Option<Moment>| at.as_ref().and_then(|at: &Moment| at.get(moment)).copied();
    Line {
        name: name.to_owned(),
        x: windows.points(),
        y: durations.moments.iter().map(value).collect(),
        // The longest of neighbouring points have little to do with each other.
        style: Style { joined: moment != MAX, symbols: moment == MAX, ..Style::line(style) },
    }
}

/// The devices beside each other: the 99th percentile, and the longest.
fn by_device(manifest: &Manifest, service: &Windows, stream: usize) -> Vec<Chart> {
    let Some(info) = manifest.streams.get(stream).filter(|_| manifest.devices.len() > 1) else { return Vec::new() };
    let chart = |moment: usize, name: &str| {
        let title = format!("{} of {}, by device", if moment == MAX { "Longest" } else { "p99" }, info.name);
        let mut chart =
            Chart::over_time(format!("{name}-by-device-{}", info.name), title, Axis::log("service time", "ms"));
        let mut worst: Option<(f64, &str)> = None;
        for (number, device) in manifest.devices.iter().enumerate() {
            let Some(durations) = service.cells.get(stream * manifest.devices.len() + number) else { continue };
            let whole = &durations.total;
            let ns = if moment == MAX { whole.max() } else { whole.value_at_quantile(0.99) };
            if !whole.is_empty() && worst.is_none_or(|(worst, _)| ns as f64 > worst) {
                worst = Some((ns as f64, device));
            }
            chart.lines.push(line(device, moment, number, service, durations));
        }
        let Some((ns, device)) = worst else { return chart.without_data(nothing(service)) };
        chart.limits = thresholds(manifest);
        chart.caption = format!("Each point is {} of one device.", units::span_of(service.point_sec));
        chart.key = format!("Slowest over the whole run: {device} with {}.", units::milliseconds(ns / 1e6));
        chart
    };
    vec![chart(P99, "p99"), chart(MAX, "max")]
}

/// The thresholds of the verdict as lines, milliseconds.
pub(crate) fn thresholds(manifest: &Manifest) -> Vec<Limit> {
    let limits = manifest.sla.limits().iter();
    let limit = |ns: u64| Limit { y: ns as f64 / 1e6, name: units::duration(ns) };
    limits.map(|each| limit(each.threshold_ns)).collect()
}

/// Reason for an empty chart.
pub(crate) fn nothing(windows: &Windows) -> String {
    windows.damage.clone().unwrap_or_else(|| "no operation of the stream succeeded in a recorded window".to_owned())
}

/// A map of service times for each judged stream, over all devices.
pub(crate) fn heat_maps(manifest: &Manifest, service: &Windows) -> Vec<Chart> {
    let streams = manifest.streams.iter().zip(&service.streams).filter(|(stream, _)| stream.judged);
    let charts = streams.map(|(stream, durations)| {
        let title = format!("When which latency was seen: {}", stream.name);
        let y = Axis::log("service time", "ms");
        let mut chart = Chart::over_time(format!("heat-map-{}", stream.name), title, y);
        chart.wide = true;
        chart.limits = thresholds(manifest);
        let Some(heat) = durations.heat(service.column_sec()) else {
            return chart.without_data(nothing(service));
        };
        chart.caption = format!(
            "Each column is {} of {} over all devices; the darker a field, the larger the part of the column's \
             operations in it (logarithmic, down to a single operation). Dashed lines are the thresholds. Look for \
             bands that move, for a second crowd above the first, and for lone fields high up: stalls.",
            units::span_of(service.column_sec()),
            stream.name
        );
        let total = &durations.total;
        chart.key = format!(
            "Half of {} took at most {}; the slowest {}.",
            units::count(total.len(), "operation"),
            units::milliseconds(total.value_at_quantile(0.5) as f64 / 1e6),
            units::milliseconds(total.max() as f64 / 1e6)
        );
        chart.heat = Some(heat);
        chart
    });
    charts.collect()
}

/// True if a limit lies within the edges of a map; other limits would stretch its axis.
pub(crate) fn is_within(limit: &Limit, edges: &[f64]) -> bool {
    edges.first().zip(edges.last()).is_some_and(|(low, high)| (*low..=*high).contains(&limit.y))
}

/// Most marks on one chart: more than these are a drive that never settles, and the table has them all.
const MARKS_MAX: usize = 12;

/// Puts the change points of `stream` on its chart: all together first, where there are several devices.
pub(crate) fn mark(chart: &mut Chart, steadiness: &Steadiness, stream: &str) {
    let of_stream = steadiness.change_points.iter().filter(|change| change.group.stream == stream);
    let mut seen: Vec<u64> = Vec::new();
    for change in of_stream {
        // Several metrics move at once; one mark says so.
        if seen.contains(&change.at_sec) || seen.len() >= MARKS_MAX {
            continue;
        }
        seen.push(change.at_sec);
        chart.marks.push(Mark { x: change.at_sec as f64, name: format!("change: {}", change.metric) });
    }
    if !chart.marks.is_empty() {
        chart.caption += " Dotted vertical lines are change points: see the steady state.";
    }
}

pub(crate) fn change_sentence(change: &ChangePoint) -> String {
    let at = units::span(change.at_sec);
    let (before, after) = (value(change.metric, change.before), value(change.metric, change.after));
    format!("After {at}: {} of {} went from {before} to {after}", change.metric, change.group)
}

/// A value of a metric with its unit.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ShareOver { .. } => units::percent(value),
        Metric::P99 => units::milliseconds(value / 1e6),
        Metric::AchievedIops => format!("{}/s", units::number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::Axis;
    use results::steady::Group;

    #[test]
    fn metrics_that_move_at_once_make_one_mark() {
        let change = |metric, at_sec| ChangePoint {
            group: Group { stream: "reads".into(), device: None },
            metric,
            round: 3,
            at_sec,
            before: 0.02,
            after: 0.04,
        };
        let share = Metric::ShareOver { threshold_ns: 1_000_000 };
        let change_points = vec![change(share, 120), change(Metric::P99, 120), change(share, 300)];
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
        assert_eq!(chart.marks.iter().map(|mark| mark.x).collect::<Vec<_>>(), [120.0, 300.0]);
        let sentence = change_sentence(&change(share, 120));
        assert_eq!(sentence, "After 2 min: share over 1 ms of reads on all devices went from 2.00 % to 4.00 %");
    }
}
