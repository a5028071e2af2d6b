//! Percentiles over time, of service, wait and lag.

use super::windows::{Durations, MAX, MOMENT_NAMES, Moment, P99, Windows};
use super::{Axis, Chart, Limit, Line, Style};
use results::run_dir::Manifest;
use results::steady::Steadiness;
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
                super::steady::mark(&mut chart, steadiness, &stream.name);
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
