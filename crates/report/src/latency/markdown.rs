//! The table as Markdown, one for each log and histogram: for tickets and wikis.

use super::csv::unit;
use super::{Choice, Histogram, Log, Slice};

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
            text += &one(log, histogram, choice);
        }
    }
    text
}

fn one(log: &Log, histogram: &Histogram, choice: &Choice) -> String {
    let buckets = choice.buckets();
    let mut titles = vec!["slice".to_owned()];
    titles.extend(buckets.iter().map(|bucket| format!("{} {}", 1_u64 << bucket, unit(log.scale))));
    titles.extend(choice.extra.then(|| "ops/s".to_owned()));
    let edges: Vec<usize> = buckets.iter().filter_map(|bucket| log.edge(*bucket)).collect();
    let slices: Vec<(u64, Slice<'_>)> = log.slices_of(histogram).collect();

    let mut text = format!("| {} |\n|{}\n", titles.join(" | "), "---:|".repeat(titles.len()));
    for (number, slice) in &slices {
        let percents = edges.iter().map(|edge| cell(slice.percent_over(*edge), 2));
        let rate = choice.extra.then(|| cell(Some(slice.iops()), 1));
        text += &row(&number.to_string(), percents.chain(rate));
    }
    let summary = |name: &str, of: fn(&[f64]) -> Option<f64>| {
        let percents = edges.iter().map(|edge| {
            let values: Vec<f64> = slices.iter().filter_map(|(_, slice)| slice.percent_over(*edge)).collect();
            cell(of(&values), 2)
        });
        let rates: Vec<f64> = slices.iter().map(|(_, slice)| slice.iops()).collect();
        row(name, percents.chain(choice.extra.then(|| cell(of(&rates), 1))))
    };
    text += &summary("**avg**", mean);
    text += &summary("**max**", |values| values.iter().copied().reduce(f64::max));
    text
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Text that no character of is taken for markup of a table.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('*', "\\*").replace('_', "\\_")
}
