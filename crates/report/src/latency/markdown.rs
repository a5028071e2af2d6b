//! The table as Markdown, one for each log and histogram: for tickets and wikis.

use super::log::unit;
use super::table::{Summary, average, maximum};
use super::{Choice, Histogram, Log, Slice};
use crate::table::{Cell, Table, escaped};

/// A table for each histogram of each log: a line for each slice, then average and maximum.
///
/// Averages are of the unrounded percentages, and leave out slices without operations.
pub fn markdown(logs: &[Log], choice: &Choice) -> String {
    let mut text = String::new();
    for log in logs {
        for histogram in &log.histograms {
            text += &format!(
                "{}**{}**, {}: % of operations over, in slices of {} s\n\n",
                if text.is_empty() { "" } else { "\n" },
                escaped(&histogram.name),
                escaped(&log.name),
                log.slice_sec
            );
            text += &one(log, histogram, choice).markdown();
        }
    }
    text
}

fn one(log: &Log, histogram: &Histogram, choice: &Choice) -> Table {
    let buckets = choice.buckets();
    let edges: Vec<usize> = buckets.iter().filter_map(|bucket| log.edge(*bucket)).collect();
    let slices: Vec<(u64, Slice<'_>)> = log.slices_of(histogram).collect();

    let thresholds = buckets.iter().map(|bucket| format!("{} {}", 1_u64 << bucket, unit(log.scale)));
    let mut table = Table::new("").numbers(["slice"]).numbers(thresholds).numbers(choice.extra.then_some("ops/s"));
    for (number, slice) in &slices {
        let percents = edges.iter().map(|edge| cell(slice.percent_over(*edge), 2));
        let rate = choice.extra.then(|| cell(Some(slice.iops()), 1));
        table.row([number.to_string().into()].into_iter().chain(percents).chain(rate));
    }
    let mut summary = |name: &str, of: Summary| {
        let percent = |edge: &usize| of(&mut slices.iter().filter_map(|(_, slice)| slice.percent_over(*edge)));
        let percents = edges.iter().map(|edge| cell(percent(edge), 2));
        let rate = choice.extra.then(|| cell(of(&mut slices.iter().map(|(_, slice)| slice.iops())), 1));
        table.row([Cell::strong(name)].into_iter().chain(percents).chain(rate));
    };
    summary("avg", average);
    summary("max", maximum);
    table
}

fn cell(value: Option<f64>, decimals: usize) -> Cell {
    value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}").into())
}
