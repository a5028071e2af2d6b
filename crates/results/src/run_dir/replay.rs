//! A recorded run, fed once more to whoever judges and explains it.

use super::read::Intervals;
use super::trace::{Samples, read_trace};
use super::{Manifest, RunDirError, manifest};
use crate::blame::{Blame, Blamer};
use crate::judge::Judge;
use std::path::Path;

/// A judge and a blamer that have seen all of a run that is whole.
pub(super) struct Replay {
    pub(super) judge: Judge,
    pub(super) blamer: Blamer,
    /// The tables, read to their end.
    pub(super) records: Intervals,
    /// Intervals that were recorded completely.
    pub(super) intervals: u64,
    /// What was wrong with the samples. They only explain, so a run is read without them.
    pub(super) remarks: Vec<String>,
}

/// Feeds the run in `dir`. Memory does not grow with its intervals. Errors: the system refuses.
pub(super) fn replay(dir: &Path, manifest: &Manifest) -> Result<Replay, RunDirError> {
    let mut records = Intervals::open(dir, manifest)?;
    let mut judge = manifest.judge();
    let mut blamer = manifest.blamer(&judge, records.columns());
    let Samples { lines, remarks } = read_trace(dir, manifest)
        .unwrap_or_else(|error| Samples { lines: Vec::new(), remarks: vec![error.to_string()] });
    let mut lines = lines.iter().peekable();
    let mut intervals = 0;
    while let Some(record) = records.next()? {
        // Each sample with the intervals that it lies in, as if both came live.
        while let Some(line) = lines.next_if(|line| line.at_sec * 1e9 < record.counts.end_ns as f64) {
            blamer.trace(line);
        }
        judge.add_counts(&record.counts);
        blamer.interval(&record.counts, &record.telemetry);
        intervals += 1;
    }
    Ok(Replay { judge, blamer, records, intervals, remarks })
}

/// Where the time went in the slices over a limit of the run recorded in `dir`, finished or not.
///
/// Errors: no manifest or a damaged one, a later format, or the system refuses.
pub fn blame(dir: &Path) -> Result<Vec<Blame>, RunDirError> {
    let Replay { judge, blamer, .. } = replay(dir, &manifest(dir)?)?;
    Ok(blamer.blame(&judge))
}
