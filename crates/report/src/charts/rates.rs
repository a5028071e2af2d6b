//! Offered and achieved rates: a chart for each stream.

use super::timeline::{Stat, Timeline};
use super::{Axis, Chart, Line, Points, Style};
use results::run_dir::Manifest;
use results::units;

pub(crate) fn charts(manifest: &Manifest, timeline: &Timeline) -> Vec<Chart> {
    let streams = manifest.streams.iter().zip(&timeline.streams);
    let charts = streams.map(|(info, stream)| {
        let y = Axis::linear("operations a second", "/s");
        let mut chart = Chart::over_time(format!("rates-{}", info.name), format!("Rate of {}", info.name), y);
        let achieved = stream.achieved.values(Stat::Mean);
        let count = achieved.len();
        if !timeline.any() || count == 0 {
            return chart.without_data("no report interval was recorded");
        }
        let mut push = |name: &str, y: Vec<Option<f64>>, style: usize| {
            chart.lines.push(Line { name: name.to_owned(), x: timeline.points(), y, style: Style::line(style) });
        };
        push("achieved", achieved, 0);
        if timeline.is_reduced() {
            push("lowest achieved", stream.achieved.values(Stat::Min), 3);
        }
        let lost: f64 = stream.lost.values(Stat::Max).into_iter().flatten().sum();
        if lost > 0.0 {
            push("failed or never done, most of an interval", stream.lost.values(Stat::Max), 1);
        }
        if info.offered_iops > 0.0 {
            let span = count as f64 * timeline.point_sec() as f64;
            chart.lines.push(Line {
                name: "offered".into(),
                x: Points::Each(vec![0.0, span]),
                y: vec![Some(info.offered_iops); 2],
                style: Style::line(6),
            });
        }
        let point = units::span(timeline.point_sec());
        let least = if timeline.is_reduced() { "; the lowest is that of one report interval within it" } else { "" };
        chart.caption = format!(
            "Each point is the mean of {point} over all devices{least}. Achieved below offered means that operations \
             queued up or were lost."
        );
        let mean = stream.achieved.overall(Stat::Mean).unwrap_or_default();
        chart.key = match info.offered_iops {
            offered if offered > 0.0 => {
                format!("Offered {}/s, achieved {}/s on average.", units::number(offered), units::number(mean))
            }
            _ => format!("Achieved {}/s on average; a closed stream is offered no rate.", units::number(mean)),
        };
        chart
    });
    charts.collect()
}
