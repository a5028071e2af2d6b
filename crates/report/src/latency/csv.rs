//! The counts as CSV: one line for each log, histogram, slice and threshold, nothing rounded.
//!
//! Lines and not columns for the thresholds, because logs can differ in their unit. Each line says what of its
//! log is damaged: lines are cut out and put together, and a warning beside them is lost then.

use super::Log;
use super::log::unit;
use super::run::RunLatencies;
use crate::table::Table;

const COLUMNS: &str = "log,histogram,slice,begin_sec,end_sec,ops,iops,threshold,unit,ops_over,share_over,damage";

/// All slices of `logs` over the thresholds of `buckets`. Without operations the share is empty. `runs` has an entry
/// for each log, or none at all.
pub fn csv(logs: &[Log], runs: &[Option<RunLatencies>], buckets: &[usize]) -> Result<String, ::csv::Error> {
    let mut table = Table::new("").text(COLUMNS.split(','));
    for (at, log) in logs.iter().enumerate() {
        let run = runs.get(at).and_then(Option::as_ref).into_iter().flat_map(|run| run.damage.iter().cloned());
        let damage = log.damage.iter().map(ToString::to_string).chain(run).collect::<Vec<_>>().join("; ");
        for histogram in &log.histograms {
            for (number, slice) in log.slices_of(histogram) {
                let (begin_sec, end_sec) = ((number - 1) * log.slice_sec, number * log.slice_sec);
                for (bucket, edge) in buckets.iter().filter_map(|bucket| Some((bucket, log.edge(*bucket)?))) {
                    let share = slice.percent_over(edge).map(|_| slice.over[edge] as f64 / slice.total as f64);
                    table.row([
                        log.name.clone(),
                        histogram.name.clone(),
                        number.to_string(),
                        begin_sec.to_string(),
                        end_sec.to_string(),
                        slice.total.to_string(),
                        slice.iops().to_string(),
                        (1_u64 << bucket).to_string(),
                        unit(log.scale).to_owned(),
                        slice.over[edge].to_string(),
                        share.map(|share| share.to_string()).unwrap_or_default(),
                        damage.clone(),
                    ]);
                }
            }
        }
    }
    table.csv()
}
