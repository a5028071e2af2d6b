//! Writers of one run that overwrite each other's blocks, which would look like damage.

use super::super::text::Problem;
use super::super::thread::JobClone;
use results::format::quoted;
use std::collections::HashMap;
use std::ops::Range;

/// The first job of `threads` that overwrites blocks of another job.
pub(in super::super) fn overlapping(threads: &[JobClone]) -> Option<Problem> {
    if !threads.iter().any(|thread| thread.job.reads_back()) {
        return None;
    }
    let mut writers: HashMap<String, Vec<(Range<u64>, &JobClone)>> = HashMap::new();
    for thread in threads.iter().filter(|thread| thread.job.writes()) {
        let range = range(thread);
        for name in thread.names() {
            let of_name = writers.entry(name.clone()).or_default();
            let overlapping = of_name.iter().find(|(other_range, writer)| {
                let overlaps = other_range.start < range.end && range.start < other_range.end;
                overlaps && (writer.job.reads_back() || thread.job.reads_back())
            });
            if let Some((_, writer)) = overlapping {
                let writer_name = quoted(&writer.job.name);
                let name = quoted(&name);
                let note = thread.job.io_size.map_or(
                    "",
                    |_| "; io_size limits the number of bytes, not the range",
                );
                let what = format!(
                    "this job and job {writer_name} write to the same range of {name}, so one would read back blocks that the other wrote{note} - give each job its own range (offset, offset_increment and size) or its own file"
                );
                return Some(Problem::of_job(&thread.job.name, what));
            }
            of_name.push((range.clone(), thread));
        }
    }
    None
}

/// Byte range that a clone uses of each of its files, as far as known before the files are opened.
fn range(thread: &JobClone) -> Range<u64> {
    let start = thread.start_bytes();
    let part = start
        .zip(thread.part_bytes())
        .filter(|_| !thread.job.zones.is_strided());
    start.unwrap_or(0)..part.map_or(u64::MAX, |(start, bytes)| start.saturating_add(bytes))
}
