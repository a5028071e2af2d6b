//! The counts as CSV: one line for each log, histogram, slice and threshold, nothing rounded.
//!
//! Lines and not columns for the thresholds, because logs can differ in their unit.

use super::Log;
use results::buckets::ActScale;
use std::fmt::Write;

/// Names of the columns.
pub const COLUMNS: &str = "log,histogram,slice,begin_sec,end_sec,ops,iops,threshold,unit,ops_over,share_over";

/// All slices of `logs` over the thresholds of `buckets`. Without operations the share is empty.
pub fn csv(logs: &[Log], buckets: &[usize]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for log in logs {
        let name = field(&log.name);
        for histogram in &log.histograms {
            let title = field(&histogram.name);
            for (number, slice) in log.slices_of(histogram) {
                let (begin_sec, end_sec) = ((number - 1) * log.slice_sec, number * log.slice_sec);
                for (bucket, edge) in buckets.iter().filter_map(|bucket| Some((bucket, log.edge(*bucket)?))) {
                    let share = slice.percent_over(edge).map(|_| slice.over[edge] as f64 / slice.total as f64);
                    let share = share.map(|share| share.to_string()).unwrap_or_default();
                    // Writing into a string cannot fail.
                    let _ = writeln!(
                        text,
                        "{name},{title},{number},{begin_sec},{end_sec},{},{},{},{},{},{share}",
                        slice.total,
                        slice.iops(),
                        1_u64 << bucket,
                        unit(log.scale),
                        slice.over[edge],
                    );
                }
            }
        }
    }
    text
}

/// Short name of the unit of thresholds.
pub(super) fn unit(scale: ActScale) -> &'static str {
    match scale {
        ActScale::Milliseconds => "ms",
        ActScale::Microseconds => "us",
    }
}

/// A field as RFC 4180 wants it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(field("a.log"), "a.log");
        assert_eq!(field("a,b \"c\""), "\"a,b \"\"c\"\"\"");
    }
}
