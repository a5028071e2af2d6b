//! A heat map of latencies over time for each judged stream.
//!
//! It shows what quantiles hide: two latency clusters at once, bands that move, rare stalls.

use super::windows::Windows;
use super::{Axis, Chart, Limit};
use results::run_dir::Manifest;
use results::units;

/// A map of service times for each judged stream, over all devices.
pub(crate) fn charts(manifest: &Manifest, service: &Windows) -> Vec<Chart> {
    let streams = manifest.streams.iter().zip(&service.streams).filter(|(stream, _)| stream.judged);
    let charts = streams.map(|(stream, durations)| {
        let title = format!("When which latency was seen: {}", stream.name);
        let y = Axis::log("service time", "ms");
        let mut chart = Chart::over_time(format!("heat-map-{}", stream.name), title, y);
        chart.wide = true;
        chart.limits = super::percentiles::thresholds(manifest);
        let Some(heat) = durations.heat(service.column_sec()) else {
            return chart.without_data(super::percentiles::nothing(service));
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
