//! The curves of a drive: rates and latencies against the queue depth, latency against throughput, saturation.

use super::{SHOWN, p99, rate};
use crate::charts::{Axis, Chart, Line, Mark, Points, Style};
use crate::run_report::StepReport;
use conclusions::baseline::{
    AccessMix, DirectionResult, JobPurpose, Percentile, Point, curves, highest_rate, knee,
};

/// A chart of the rates at each depth, and for each mix a chart of the latencies.
pub(super) fn depth(points: &[Point]) -> Vec<Chart> {
    let curves = curves(points, JobPurpose::Depth);
    let x = || Axis::log("queue depth", "");
    let y = Axis::linear("operations per second", "/s");
    let mut chart = Chart::new("depth-iops", "IOPS at each queue depth", x(), y);
    let mut keys = Vec::new();
    for (number, (mix, curve)) in curves.iter().enumerate() {
        let y = curve.iter().map(|point| Some(point.iops())).collect();
        chart.lines.push(Line::new(
            mix.to_string(),
            depths(curve),
            y,
            Style::points(number),
        ));
        if let Some(knee) = knee(curve) {
            keys.push(format!(
                "{mix}: knee at depth {}, {}",
                knee.depth,
                rate(knee.iops())
            ));
            chart.marks.push(Mark {
                x: knee.depth.into(),
                name: format!("knee of {mix}"),
            });
        }
    }
    chart.key = format!("{}.", keys.join("; "));
    chart.caption =
        "Each point is a job, closed loop. Dotted vertical lines are the knees: the smallest depths that reach \
                     90 % of the highest rate. The highest rate is the median of all rates within 10 % of the best."
            .to_owned();
    for (mix, curve) in &curves {
        if let Some(depths) = in_doubt(curve, |point| point.depth.to_string()) {
            chart.caption += &format!(" In doubt: {mix} at depth {depths}.");
        }
    }
    let latencies = curves.iter().map(|(mix, curve)| {
        let title = format!("Latency at each queue depth: {mix}");
        let mut chart = Chart::new(
            format!("depth-latency-{mix}"),
            title,
            x(),
            Axis::log("service time", "ms"),
        );
        chart.lines = lines(curve, &depths(curve), |point, percent| {
            Some(point.main_direction()?.service_at(percent))
        });
        chart.caption =
            "Service time of each job, from submission to completion: fio's slat + clat."
                .to_owned();
        if let Some(depths) = in_doubt(curve, |point| point.depth.to_string()) {
            chart.caption += &format!(" In doubt: depth {depths}.");
        }
        if let Some(knee) = knee(curve) {
            let p99 = p99(knee, DirectionResult::service_at);
            chart.key = format!("p99 {p99} at the knee, depth {}.", knee.depth);
            chart.marks.push(Mark {
                x: knee.depth.into(),
                name: "knee".to_owned(),
            });
            chart.caption += " The dotted vertical line is the knee.";
        }
        chart
    });
    [latency_against_iops(&curves), chart]
        .into_iter()
        .chain(latencies)
        .collect()
}

/// The answer to a sweep of depths in one picture: the rate gained and the latency paid at each depth.
fn latency_against_iops(curves: &[(AccessMix, Vec<&Point>)]) -> Chart {
    let x = Axis::linear("operations per second", "/s");
    let mut chart = Chart::new(
        "iops-latency",
        "Latency against IOPS",
        x,
        Axis::log("p99 service time", "ms"),
    );
    for (number, (mix, curve)) in curves.iter().enumerate() {
        let x = Points::Each(curve.iter().map(|point| point.iops()).collect());
        let p99_ms = |point: &Point| Some(point.main_direction()?.service_at(99.0).us()? / 1e3);
        let y = curve.iter().map(|point| p99_ms(point)).collect();
        chart
            .lines
            .push(Line::new(mix.to_string(), x, y, Style::points(number)));
    }
    let knees = curves
        .iter()
        .filter_map(|(mix, curve)| Some((mix, knee(curve)?)));
    let keys = knees.map(|(mix, knee)| {
        let p99 = p99(knee, DirectionResult::service_at);
        format!("{mix}: {} at p99 {p99}", rate(knee.iops()))
    });
    chart.key = format!("At the knee: {}.", keys.collect::<Vec<_>>().join("; "));
    chart.caption = "Each point is a job at one queue depth; the depth grows along the line. Where the line turns \
                     upwards, more depth only adds latency."
        .to_owned();
    chart
}

/// A chart for each mix: percentiles against the achieved rate.
pub(super) fn rates(points: &[Point]) -> Vec<Chart> {
    let curves = curves(points, JobPurpose::Rate);
    let charts = curves.iter().map(|(mix, curve): &(AccessMix, Vec<&Point>)| {
        let title = format!("Latency against throughput: {mix}");
        let x = Axis::linear("achieved operations per second", "/s");
        let mut chart = Chart::new(format!("throughput-{mix}"), title, x, Axis::log("wait + service", "ms"));
        let iops_points = Points::Each(curve.iter().map(|point| point.iops()).collect());
        chart.lines = lines(curve, &iops_points, |point, percent| Some(point.main_direction()?.answer_at(percent)));
        let missed_rates = curve.iter().filter(|point| !point.is_reached()).count();
        let fastest = curve.iter().rfind(|point| point.is_reached());
        chart.key = fastest.map_or("No rate was reached.".to_owned(), |point| {
            let p99 = p99(point, DirectionResult::answer_at);
            let reached = rate(point.iops());
            format!("p99 {p99} at {reached}, the highest rate that was reached.")
        });
        chart.caption =
            "Each point is a job at a fraction of the highest rate. The time that operations wait for a place in the \
                         queue is included."
                .to_owned();
        if missed_rates > 0 {
            chart.caption += &format!(" Not reached: {missed_rates} of {} rates.", curve.len());
        }
        if curve.iter().any(|point| point.directions().any(|done| done.undone > 0)) {
            chart.caption += " A percentile that falls among operations that never completed has no point.";
        }
        if let Some(rates) = in_doubt(curve, |point| rate(point.offered_iops().unwrap_or_default())) {
            chart.caption += &format!(" In doubt: the jobs at {rates}.");
        }
        if let Some(highest) = highest_rate(points, *mix) {
            chart.marks.push(Mark { x: highest, name: "highest rate, at saturation".to_owned() });
            chart.caption += " The dotted vertical line is the highest rate, at saturation.";
        }
        chart
    });
    charts.collect()
}

/// The timeline of the write saturation: a point for each round. A single round is drawn by its recorded intervals.
pub(super) fn saturation<'a>(
    points: &[Point],
    steps: impl Iterator<Item = &'a StepReport>,
    device: usize,
    devices: usize,
) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (mix, curve) in curves(points, JobPurpose::Saturation)
        .iter()
        .filter(|(_, curve)| curve.len() > 1)
    {
        let y = Axis::linear("operations per second", "/s");
        let title = format!("Rate of each round: {mix}");
        let mut chart = Chart::new(
            format!("saturation-{mix}"),
            title,
            Axis::linear("round", ""),
            y,
        );
        let x = Points::Each(
            curve
                .iter()
                .map(|point| f64::from(point.round) + 1.0)
                .collect(),
        );
        let y = curve.iter().map(|point| Some(point.iops())).collect();
        chart
            .lines
            .push(Line::new(mix.to_string(), x, y, Style::points(0)));
        if let [first, .., last] = curve[..] {
            chart.key = format!(
                "From {} in the first round to {} in the last.",
                rate(first.iops()),
                rate(last.iops())
            );
        }
        chart.caption = "Each point is a round.".to_owned();
        charts.push(chart);
    }
    // With several rounds, each round is a run of its own, and the charts of the rounds above are the timeline.
    if !charts.is_empty() {
        return charts;
    }
    for (number, run) in steps.filter_map(|step| step.report.as_ref()).enumerate() {
        // With several drives, the names of streams contain the number of the drive.
        let id_part = format!("-drive-{}-", device + 1);
        let is_own = |chart: &&Chart| devices == 1 || format!("{}-", chart.id).contains(&id_part);
        let drive_charts = run.sections.iter().flat_map(|section| &section.charts);
        let drive_charts = drive_charts
            .filter(|chart: &&Chart| {
                ["rates-", "percentiles-service-"]
                    .iter()
                    .any(|kind| chart.id.starts_with(kind))
            })
            .filter(is_own)
            .filter(|chart| chart.absent.is_none());
        // A baseline has no limits.
        charts.extend(drive_charts.map(|chart| {
            let id = format!("saturation-{}-{}", number + 1, chart.id);
            Chart {
                id,
                limits: Vec::new(),
                ..chart.clone()
            }
        }));
    }
    charts
}

/// Names of the unreliable points of a curve; `None` if there are none.
fn in_doubt(curve: &[&Point], name: impl Fn(&Point) -> String) -> Option<String> {
    let names: Vec<_> = curve
        .iter()
        .filter(|point| point.doubt.is_some())
        .map(|point| name(point))
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn depths(curve: &[&Point]) -> Points {
    // A logarithmic axis has no zero.
    Points::Each(
        curve
            .iter()
            .map(|point| point.depth.max(1).into())
            .collect(),
    )
}

/// A line for each percentile, with gaps if too few operations were measured.
fn lines(
    curve: &[&Point],
    x: &Points,
    percentile_of: impl Fn(&Point, f64) -> Option<Percentile>,
) -> Vec<Line> {
    SHOWN
        .into_iter()
        .enumerate()
        .map(|(number, (name, percent)): (usize, (&str, f64))| {
            let y = curve
                .iter()
                .map(|point| percentile_of(point, percent)?.us().map(|us| us / 1e3))
                .collect();
            Line::new(name, x.clone(), y, Style::points(number))
        })
        .collect()
}
