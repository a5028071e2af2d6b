//! Offered and achieved rates: a chart for each stream. Shares over each threshold, slice by slice: the basis of the
//! verdict.

use super::timeline::{BinStatistic, StreamLine, Timeline};
use super::{Axis, Chart, Limit, Line, Points, Style};
use crate::words;
use results::cell::StreamInfo;
use results::format;
use results::judge::{GroupShares, Sla, Verdict};
use results::run_dir::Manifest;

pub(crate) fn rate_charts(manifest: &Manifest, timeline: &Timeline) -> Vec<Chart> {
    let streams = manifest.streams.iter().zip(&timeline.streams);
    streams
        .map(|(info, stream)| rate_chart(info, stream, timeline))
        .collect()
}

fn rate_chart(info: &StreamInfo, stream: &StreamLine, timeline: &Timeline) -> Chart {
    let y = Axis::linear("operations per second", "/s");
    let mut chart = Chart::over_time(
        format!("rates-{}", info.name),
        format!("Rate of {}", info.name),
        y,
    );
    let achieved = stream.achieved.values(BinStatistic::Mean);
    let count = achieved.len();
    if !timeline.any() || count == 0 {
        return chart.without_data("no report interval was recorded");
    }
    chart.lines.push(timeline.line("achieved", achieved, 0));
    if timeline.is_reduced() {
        let lowest = stream.achieved.values(BinStatistic::Min);
        chart
            .lines
            .push(timeline.line("lowest achieved", lowest, 3));
    }
    let lost = stream.lost.values(BinStatistic::Max);
    if lost.iter().flatten().sum::<f64>() > 0.0 {
        let name = "failed or never completed, maximum of an interval";
        chart.lines.push(timeline.line(name, lost, 1));
    }
    if info.offered_iops > 0.0 {
        let span = count as f64 * timeline.point_sec() as f64;
        let y = vec![Some(info.offered_iops); 2];
        chart.lines.push(Line::new(
            "offered",
            Points::Each(vec![0.0, span]),
            y,
            Style::line(6),
        ));
    }
    let point = format::span(timeline.point_sec());
    let lowest_note = if timeline.is_reduced() {
        "; lowest achieved is the minimum of a report interval"
    } else {
        ""
    };
    chart.caption = format!(
        "Each point is the mean of {point} over all devices{lowest_note}. Achieved below offered means that operations \
         queued up or were lost."
    );
    let mean = format::number(
        stream
            .achieved
            .overall(BinStatistic::Mean)
            .unwrap_or_default(),
    );
    chart.key = match info.offered_iops {
        offered if offered > 0.0 => format!(
            "Offered {}/s, achieved {mean}/s on average.",
            format::number(offered)
        ),
        _ => format!("Achieved {mean}/s on average; a closed loop has no offered rate."),
    };
    chart
}

/// A chart for each threshold, with a line for each judged stream and device.
pub(crate) fn share_charts(verdict: &Verdict, sla: &Sla) -> Vec<Chart> {
    let limits = sla.limits().iter().enumerate();
    limits
        .map(|(column, limit)| chart(verdict, column, limit.threshold_ns, limit.share_max()))
        .collect()
}

fn chart(verdict: &Verdict, column: usize, threshold_ns: u64, share_max: f64) -> Chart {
    let threshold = format::duration(threshold_ns);
    let x = Axis::linear(
        &format!("slice of {} each", format::span(verdict.slice_sec)),
        "",
    );
    let title = format!("Share over {threshold}");
    let y = Axis::linear("share", "%");
    let mut chart = Chart::new(format!("shares-{column}"), title, x, y);
    chart.caption = format!(
        "Each point is one slice: the exact share of operations that took {threshold} or longer, wait included. A \
         slice at the dashed line or above it fails the run."
    );
    chart.limits.push(Limit {
        y: share_max * 100.0,
        name: format!("limit {}", format::percent_exact(share_max)),
    });
    let mut worst: Option<(f64, u64, &GroupShares)> = None;
    for (index, group) in verdict.groups.iter().enumerate() {
        for complete in [true, false] {
            let slices = group
                .slices
                .iter()
                .filter(|slice| slice.complete == complete);
            let points: Vec<(f64, Option<f64>)> = slices
                .map(|slice| {
                    let share = slice
                        .judged_share
                        .as_ref()
                        .and_then(|shares| shares.get(column))
                        .copied();
                    if let Some(share) =
                        share.filter(|share| worst.is_none_or(|(worst, ..)| *share > worst))
                    {
                        worst = Some((share, slice.slice, group));
                    }
                    (slice.slice as f64, share.map(|share| share * 100.0))
                })
                .collect();
            if points.iter().all(|(_, share)| share.is_none()) {
                continue;
            }
            let note = if complete { "" } else { " (incomplete slice)" };
            let (x, y) = points.into_iter().unzip();
            let name = format!(
                "{} on {}{note}",
                group.stream,
                words::device(group.device.as_deref())
            );
            let style = Style {
                joined: complete,
                ..Style::points(index)
            };
            chart.lines.push(Line::new(name, Points::Each(x), y, style));
        }
    }
    let Some((share, slice, GroupShares { stream, device, .. })) = worst else {
        return chart.without_data("no operation of a judged stream was recorded in any slice");
    };
    let share = format::percent(share);
    let device = words::device(device.as_deref());
    let limit = format::percent_exact(share_max);
    chart.key =
        format!("Worst: {share} of {stream} on {device} in slice {slice}; the limit is {limit}.");
    chart
}
