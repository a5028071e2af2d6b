//! Writers of one run that would overwrite each other's blocks: what is read back would be taken for damage.

use super::super::text::Problem;
use super::super::thread::Thread;
use super::super::value::Size;
use results::units::quoted;
use std::collections::HashMap;
use std::ops::Range;

/// The first job of `threads` whose blocks another one overwrites.
pub(in super::super) fn overlapping(threads: &[Thread]) -> Option<Problem> {
    if !threads.iter().any(|thread| thread.job.reads_back()) {
        return None;
    }
    let mut writers: HashMap<String, Vec<(Range<u64>, &Thread)>> = HashMap::new();
    for thread in threads.iter().filter(|thread| thread.job.writes()) {
        let range = range(thread);
        for name in thread.job.names(thread.clone) {
            let of_name = writers.entry(name.clone()).or_default();
            let is_met = |(other, by): &&(Range<u64>, &Thread)| {
                let meets = other.start < range.end && range.start < other.end;
                meets && (by.job.reads_back() || thread.job.reads_back())
            };
            if let Some((_, by)) = of_name.iter().find(is_met) {
                let what = format!(
                    "it and job {} write to the same places of {}, so that blocks of each would be missing when they are read back{} - give each a part (offset, offset_increment and size) or a file of its own",
                    quoted(&by.job.name),
                    quoted(&name),
                    if thread.job.io_size.is_some() { "; io_size says how much is written, not where" } else { "" }
                );
                return Some(Problem::of_job(&thread.job.name, what));
            }
            of_name.push((range.clone(), thread));
        }
    }
    None
}

/// The part of its files that a clone uses, as far as that is known without them.
fn range(thread: &Thread) -> Range<u64> {
    let job = &thread.job;
    let (Size::Bytes(offset), Size::Bytes(increment)) = (job.offset, job.offset_increment) else {
        return 0..u64::MAX;
    };
    let start = offset.saturating_add(increment.saturating_mul(thread.clone));
    let parts = job.names(thread.clone).len().max(1) as u64;
    match job.size {
        _ if job.zones.strided => start..u64::MAX,
        Some(Size::Bytes(bytes)) => start..start.saturating_add(bytes / parts),
        _ => start..u64::MAX,
    }
}
