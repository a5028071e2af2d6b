//! Shares over each threshold, slice by slice: what the verdict is made of.

use super::{Axis, Chart, Limit, Line, Points, Style};
use crate::words;
use results::judge::{Group, Sla, Verdict};
use results::units;

/// A chart for each threshold, with a line for each judged stream and device.
pub(crate) fn charts(verdict: &Verdict, sla: &Sla) -> Vec<Chart> {
    let limits = sla.limits().iter().enumerate();
    limits.map(|(column, limit)| chart(verdict, column, limit.threshold_ns, limit.share_max())).collect()
}

fn chart(verdict: &Verdict, column: usize, threshold_ns: u64, share_max: f64) -> Chart {
    let threshold = units::duration(threshold_ns);
    let x = Axis::linear(&format!("slice of {} each", units::span(verdict.slice_sec)), "");
    let mut chart =
        Chart::new(format!("shares-{column}"), format!("Share over {threshold}"), x, Axis::linear("share", "%"));
    chart.caption = format!(
        "Each point is one slice: the exact share of operations that took {threshold} or longer, wait included. A \
         slice at the dashed line or above it fails the run."
    );
    chart.limits.push(Limit { y: share_max * 100.0, name: format!("limit {}", units::percent_exact(share_max)) });
    let mut worst: Option<(f64, u64, &Group)> = None;
    for (index, group) in verdict.groups.iter().enumerate() {
        for complete in [true, false] {
            let slices = group.slices.iter().filter(|slice| slice.complete == complete);
            let points: Vec<(f64, Option<f64>)> = slices
                .map(|slice| {
                    let share = slice.judged_share.as_ref().and_then(|shares| shares.get(column)).copied();
                    if let Some(share) = share.filter(|share| worst.is_none_or(|(worst, ..)| *share > worst)) {
                        worst = Some((share, slice.slice, group));
                    }
                    (slice.slice as f64, share.map(|share| share * 100.0))
                })
                .collect();
            if points.iter().all(|(_, share)| share.is_none()) {
                continue;
            }
            let note = if complete { "" } else { " (incomplete slice: of what ran)" };
            let (x, y) = points.into_iter().unzip();
            chart.lines.push(Line {
                name: format!("{} on {}{note}", group.stream, words::device(group.device.as_deref())),
                x: Points::Each(x),
                y,
                style: Style { joined: complete, ..Style::points(index) },
            });
        }
    }
    match worst {
        None => chart.without_data("no operation of a judged stream was recorded in any slice"),
        Some((share, slice, group)) => {
            chart.key = format!(
                "Worst: {} of {} on {} in slice {slice}; the limit is {}.",
                units::percent(share),
                group.stream,
                words::device(group.device.as_deref()),
                units::percent_exact(share_max)
            );
            chart
        }
    }
}
