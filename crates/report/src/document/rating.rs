//! The rating curve of a search: what each load did to the shares and to the 99th percentile.

use super::RunReport;
use crate::charts::{Axis, Chart, Limit, Line, Points, Style};
use results::judge::Outcome;
use results::series::{Rule, Step};
use results::units;

/// Outcomes of a step, with the name and the symbol of their lines.
const ENDS: [(Outcome, &str, usize); 3] =
    [(Outcome::Pass, "passed", 0), (Outcome::Fail, "failed", 1), (Outcome::Invalid, "invalid", 3)];

/// Shares are drawn down to this part of their limit.
const DRAWN_OF_LIMIT: f64 = 100.0;

/// A chart for each threshold, then one of the 99th percentile, against the multiple of 1x.
pub(super) fn charts<'a>(steps: impl Iterator<Item = (&'a Step, &'a RunReport)>) -> Vec<Chart> {
    let judged: Vec<_> = steps.filter(|(step, _)| step.rule == Rule::Limits).collect();
    let Some((_, first)) = judged.first() else {
        let chart = over_multiple("rating", "Shares against the load", Axis::linear("share", "%"));
        return vec![chart.without_data("no step that is judged has a run that can be read")];
    };
    let limits = first.sla.limits().to_vec();
    let mut charts: Vec<Chart> = limits
        .iter()
        .enumerate()
        .map(|(column, limit)| {
            let threshold = units::duration(limit.threshold_ns);
            let title = format!("Worst share over {threshold} at each load");
            // The limit may be a thousandth of a share that failed: both are to be seen.
            let floor = limit.share_max() * 100.0 / DRAWN_OF_LIMIT;
            let y = Axis { floor: Some(floor), ..Axis::log("worst share of a slice", "%") };
            let mut chart = over_multiple(&format!("rating-share-{column}"), &title, y);
            let name = format!("limit {}", limit.share_text());
            chart.limits.push(Limit { y: limit.share_max() * 100.0, name });
            let value = |run: &RunReport| worst_share(run, limit.threshold_ns).map(|share| share * 100.0);
            chart.caption = format!(
                "Each point is a step of the search: its worst slice of any device. At the dashed line or above it, a load \
                 is too much. The axis is logarithmic: what is below {} %, and 0, is drawn there.",
                units::number(floor)
            );
            with_points(chart, &judged, value, "%")
        })
        .collect();
    let mut chart = over_multiple("rating-p99", "p99 at each load", Axis::log("p99 service time", "ms"));
    chart.caption = "Each point is a step of the search: p99 of the judged operations over its whole run, the slowest \
                     stream of them."
        .to_owned();
    charts.push(with_points(chart, &judged, p99_ms, "ms"));
    charts
}

fn over_multiple(id: &str, title: &str, y: Axis) -> Chart {
    Chart::new(id, title, Axis::linear("load, as a multiple of 1x", "x"), y)
}

fn with_points(
    mut chart: Chart,
    judged: &[(&Step, &RunReport)],
    value: impl Fn(&RunReport) -> Option<f64>,
    unit: &str,
) -> Chart {
    let mut points: Vec<(f64, Option<f64>, Option<Outcome>)> =
        judged.iter().map(|(step, run)| (step.multiple, value(run), step.outcome)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (x, y) = points.iter().map(|(x, y, _)| (*x, *y)).unzip();
    let style = Style { symbols: false, ..Style::line(6) };
    chart.lines.push(Line { name: "all steps".into(), x: Points::Each(x), y, style });
    for (outcome, name, number) in ENDS {
        let of = points.iter().filter(|(_, _, ended)| *ended == Some(outcome));
        let (x, y): (Vec<f64>, Vec<Option<f64>>) = of.map(|(x, y, _)| (*x, *y)).unzip();
        if !x.is_empty() {
            let style = Style { joined: false, ..Style::points(number) };
            chart.lines.push(Line { name: name.to_owned(), x: Points::Each(x), y, style });
        }
    }
    let passed = points.iter().rfind(|(_, _, outcome)| *outcome == Some(Outcome::Pass));
    chart.key = match passed {
        Some((x, Some(y), _)) => {
            format!("{} {unit} at {}, the highest load that passed.", units::number(*y), units::multiple(*x))
        }
        _ => "No load passed.".to_owned(),
    };
    chart
}

fn worst_share(run: &RunReport, threshold_ns: u64) -> Option<f64> {
    let column = run.verdict.thresholds_ns.iter().position(|ns| *ns == threshold_ns)?;
    let slices = run.verdict.groups.iter().flat_map(|group| &group.slices);
    let shares = slices.filter_map(|slice| slice.judged_share.as_ref()?.get(column).copied());
    shares.reduce(f64::max)
}

fn p99_ms(run: &RunReport) -> Option<f64> {
    let judged = |name: &str| run.verdict.streams.iter().any(|stream| stream.judged && stream.name == name);
    let streams = run.latencies.iter().filter(|stream| judged(&stream.stream));
    streams.map(|stream| stream.service.p99_ns).max().map(|ns| ns as f64 / 1e6)
}
