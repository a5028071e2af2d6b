//! Logs of latencies and histograms that both programs wrote: lines, operations, means.

use crate::fio::log_of;
use load::workload::fio::{FioLoad, Thread};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Logs of one direction of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Logged {
    /// Lines of logs of completion latencies, and the mean of their values, nanoseconds.
    pub lines: u64,
    pub mean_ns: f64,
    /// Operations counted in histograms.
    pub binned: u64,
}

/// Prefix of the logs that fio writes in its directory.
const PREFIX: &str = "log";

/// Options of `thread` for the logs that it has, in a directory of their own.
pub(super) fn words(thread: &Thread, dir: &Path) -> Vec<String> {
    let (job, prefix) = (&thread.job, dir.join(PREFIX));
    let mut words = Vec::new();
    if job.logs[1].is_some() {
        words.push(format!("--write_lat_log={}", prefix.display()));
    }
    if job.hist_log.is_some() {
        words.push(format!("--write_hist_log={}", prefix.display()));
        words.push(format!("--log_hist_msec={}", job.log_hist_msec));
    }
    if job.log_avg_msec > 0 {
        words.push(format!("--log_avg_msec={}", job.log_avg_msec));
    }
    words
}

/// Logs of an entry of `load`, of a direction: flashproof's own, or those that fio wrote in `dir`. `None`: it has none.
pub(super) fn logged(load: &FioLoad, entry: usize, direction: usize, dir: Option<&Path>) -> Option<Logged> {
    let threads = load.entries[entry].threads.iter().map(|thread| &load.threads[*thread]);
    let (mut all, mut sum, mut any) = (Logged::default(), 0.0, false);
    for thread in threads {
        let job = &thread.job;
        let path = |prefix: &str, ending: &str| match dir {
            // fio numbers the jobs of this run alone.
            Some(dir) => dir.join(format!("{PREFIX}_{ending}.{}.log", thread.number + 1 - load.threads[0].number)),
            None => log_of(thread, prefix, ending),
        };
        for (prefix, ending) in [(&job.logs[1], "clat"), (&job.hist_log, "clat_hist")] {
            let Some(prefix) = prefix else { continue };
            any = true;
            // A log that cannot be read has no lines, and differs.
            let file = File::open(path(prefix, ending)).map(BufReader::new);
            for line in file.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                let fields: Vec<_> = line.split(',').map_while(|field| field.trim().parse::<f64>().ok()).collect();
                match (ending, &fields[..]) {
                    ("clat", [_, value, of, ..]) if *of == direction as f64 => {
                        (all.lines, sum) = (all.lines + 1, sum + value);
                    }
                    ("clat_hist", [_, of, _, bins @ ..]) if *of == direction as f64 => {
                        all.binned += bins.iter().sum::<f64>() as u64;
                    }
                    _ => {}
                }
            }
        }
    }
    all.mean_ns = sum / all.lines.max(1) as f64;
    any.then_some(all)
}
