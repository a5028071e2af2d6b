//! The logs that jobs request, separate for each clone; new lines are written every second during the run.

use fio::{FioLoad, Job, JobClone, LogSample, Samples};
use results::files;
use session::failure::Failure;
use session::user_file::{is_ours, not_written, write_file};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogKind {
    /// KiB per second.
    Bandwidth,
    /// Completion latency, nanoseconds.
    Latency,
    /// Operations per second.
    Iops,
    /// Counts of completion latencies by bin.
    Histogram,
}

/// A log of a clone: the clone's index, the kind, and the files; false: the file stays empty.
type OfClone = (usize, LogKind, Vec<(PathBuf, bool)>);

/// First line of a log of operations.
const IOLOG: &str = "fio version 3 iolog";

impl LogKind {
    /// Suffixes of the files, before the job's number. False: the file stays empty, because clat includes slat here.
    fn endings(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::Bandwidth => &[("bw", true)],
            Self::Latency => &[("slat", false), ("clat", true), ("lat", true)],
            Self::Iops => &[("iops", true)],
            Self::Histogram => &[("clat_hist", true)],
        }
    }

    /// Mean and maximum of a log line. Source: fio's `add_bw_sample()` and `add_iops_sample()` for single operations.
    fn values(self, sample: &LogSample) -> [u64; 2] {
        let LogSample {
            ops,
            bytes,
            latency_ns,
            length_ns,
            max_ns,
            ..
        } = *sample;
        let per_sec = |count: u64| u128::from(count) * 1_000_000_000 / u128::from(length_ns.max(1));
        let value = match self {
            Self::Bandwidth if length_ns == 0 => {
                u128::from(bytes) * 1_000_000 / u128::from(latency_ns.max(1))
            }
            Self::Bandwidth => per_sec(bytes) / 1_024,
            Self::Latency | Self::Histogram => u128::from(latency_ns / ops.max(1)),
            Self::Iops if length_ns == 0 => 1,
            Self::Iops => per_sec(ops),
        };
        let value = u64::try_from(value).unwrap_or(u64::MAX);
        [value, if self == Self::Latency { max_ns } else { value }]
    }

    /// A line of the log. `begin_ms`: milliseconds added to the time of the line.
    fn line(self, sample: &LogSample, job: &Job, begin_ms: u64) -> String {
        let ms = begin_ms + sample.end_ns / 1_000_000;
        if self == Self::Histogram {
            let sums = sample
                .bins
                .chunks(1 << job.log.hist_coarseness)
                .map(|bins| bins.iter().sum::<u32>().to_string());
            let sums = sums.collect::<Vec<_>>().join(", ");
            return format!("{ms}, {}, {}, {sums}\n", sample.direction, sample.max_bytes);
        }
        let bytes = if sample.length_ns == 0 {
            sample.bytes
        } else {
            0
        };
        let offset = if job.log.offset {
            format!(", {}", sample.offset)
        } else {
            String::new()
        };
        let priority = if job.log.priority {
            format!("{:#06x}", sample.priority)
        } else {
            u8::from(sample.priority >> 13 == REAL_TIME).to_string()
        };
        let issued_ns = match self {
            Self::Latency if sample.length_ns == 0 => {
                sample.end_ns.saturating_sub(sample.latency_ns)
            }
            _ => 0,
        };
        let issued = if job.log.issue_time {
            format!(", {issued_ns}")
        } else {
            String::new()
        };
        let values = self
            .values(sample)
            .into_iter()
            .zip(job.log.values)
            .filter(|(_, is_logged)| *is_logged);
        let values: String = values.map(|(value, _)| format!("{value}, ")).collect();
        format!(
            "{ms}, {values}{}, {bytes}{offset}, {priority}{issued}\n",
            sample.direction
        )
    }
}

/// File of a clone's log. `prefix`: value of the log's option; if empty, the name of the job.
fn log_of(thread: &JobClone, prefix: &str, ending: &str) -> PathBuf {
    let prefix = if prefix.is_empty() {
        &thread.job.name
    } else {
        prefix
    };
    if thread.job.log.per_job {
        format!("{prefix}_{ending}.{}.log", thread.number).into()
    } else {
        format!("{prefix}_{ending}.log").into()
    }
}

/// Logs of samples of each clone.
fn logs_of(load: &FioLoad) -> impl Iterator<Item = OfClone> {
    load.threads
        .iter()
        .enumerate()
        .flat_map(|(clone_index, thread)| {
            let job = &thread.job;
            let logs = job.log.prefixes.iter().chain([&job.log.hist_prefix]);
            [
                LogKind::Bandwidth,
                LogKind::Latency,
                LogKind::Iops,
                LogKind::Histogram,
            ]
            .into_iter()
            .zip(logs)
            .filter_map(move |(log, prefix): (LogKind, &Option<String>)| {
                let prefix = prefix.as_ref()?;
                Some((
                    clone_index,
                    log,
                    log.endings()
                        .iter()
                        .map(|(ending, is_filled): &(&str, bool)| {
                            (log_of(thread, prefix, ending), *is_filled)
                        })
                        .collect(),
                ))
            })
        })
}

/// Logs of operations: index of the clone, and file. Unlike in fio, each clone has its own file.
fn iologs_of(load: &FioLoad) -> impl Iterator<Item = (usize, PathBuf)> {
    load.threads
        .iter()
        .enumerate()
        .filter_map(|(clone_index, thread)| {
            let name = thread.job.write_iolog.as_ref()?;
            let is_first = thread.clone == 0 && !thread.job.numbers_iolog;
            Some((
                clone_index,
                if is_first {
                    name.into()
                } else {
                    format!("{name}.{}", thread.number).into()
                },
            ))
        })
}

/// The real-time class of ioprio_set(2).
const REAL_TIME: u16 = 1;

/// Checks that the logs of `load` can be written.
pub fn check(load: &FioLoad, force: bool) -> Result<(), Failure> {
    let paths = logs_of(load)
        .flat_map(|(.., paths)| paths)
        .map(|(path, _)| path);
    paths
        .chain(iologs_of(load).map(|(_, path)| path))
        .try_for_each(|path| write(&path, None, force))
}

/// Writes `text` as a log to `path`; `None`: only checks. Replaces an earlier log; any other file only with `force`.
fn write(path: &Path, text: Option<&str>, force: bool) -> Result<(), Failure> {
    write_file("log", path, text, force || is_ours(path, is_log))
}

/// True if `text`, the beginning of a file, begins like a log.
fn is_log(text: &str) -> bool {
    // The text may end within a long histogram line, so only the first fields are checked.
    let mut fields = text.lines().next().unwrap_or_default().split(',').take(6);
    text.starts_with(IOLOG) || (fields.clone().count() >= 4 && fields.all(is_log_field))
}

fn is_log_field(field: &str) -> bool {
    let field = field.trim();
    let is_hex = field
        .strip_prefix("0x")
        .is_some_and(|digits| u16::from_str_radix(digits, 16).is_ok());
    is_hex || field.parse::<i64>().is_ok()
}

#[derive(Debug, Default)]
pub struct Logs {
    files: HashMap<PathBuf, File>,
    started_unix_ms: u64,
}

impl Logs {
    /// Creates or truncates the logs.
    pub fn create(load: &FioLoad, force: bool, started_unix_ms: u64) -> Result<Self, Failure> {
        let mut files = HashMap::new();
        let samples = logs_of(load)
            .flat_map(|(.., paths)| paths)
            .map(|(path, _)| (path, String::new()));
        for (path, text) in
            samples.chain(iologs_of(load).map(|(place, path)| (path, head(&load.threads[place]))))
        {
            write(&path, Some(&text), force)?;
            let file = files::open_output_to_append(&path)
                .map_err(|error| Failure::environment(not_written("log", &path, &error)))?;
            files.insert(path, file);
        }
        Ok(Self {
            files,
            started_unix_ms,
        })
    }

    /// Appends new lines. `ran_ns`: duration of the run if it has ended.
    pub fn write(&mut self, load: &FioLoad, ran_ns: Option<u64>) -> Result<(), String> {
        let take =
            |samples: &Option<Arc<Samples>>| samples.as_ref().map(|samples| samples.take(ran_ns));
        let taken_samples: Vec<_> = load
            .threads
            .iter()
            .map(|thread| [take(&thread.samples), take(&thread.histograms)])
            .collect();
        for (clone_index, log, paths) in logs_of(load) {
            let clone_samples = &taken_samples[clone_index][usize::from(log == LogKind::Histogram)];
            let Some(samples) = clone_samples.as_ref().filter(|samples| !samples.is_empty()) else {
                continue;
            };
            let job = &load.threads[clone_index].job;
            let begin_ms = if job.log.unix_epoch {
                self.started_unix_ms + job.ramp_end_ns() / 1_000_000
            } else {
                0
            };
            let text: String = samples
                .iter()
                .map(|sample| log.line(sample, job, begin_ms))
                .collect();
            for (path, _) in paths.iter().filter(|(_, is_filled)| *is_filled) {
                self.append(path, &text)?;
            }
        }
        for (clone_index, path) in iologs_of(load) {
            let thread = &load.threads[clone_index];
            let name = |target: u16| load.devices[usize::from(target)].to_string();
            if let Some(issued) = &thread.issued {
                self.append(&path, &issued.take(ran_ns.is_some(), name))?;
            }
        }
        Ok(())
    }

    fn append(&mut self, path: &Path, text: &str) -> Result<(), String> {
        let Some(file) = self.files.get_mut(path) else {
            return Ok(());
        };
        file.write_all(text.as_bytes())
            .map_err(|error| not_written("log", path, &error))
    }
}

/// Lines before the logged operations.
fn head(thread: &JobClone) -> String {
    let of_file = |name: &String| format!("0 {name} add\n0 {name} open\n");
    format!("{IOLOG}\n")
        + &thread
            .job
            .names(thread.clone)
            .iter()
            .map(of_file)
            .collect::<String>()
}

/// Number of log lines dropped because they were not written in time.
pub fn left_out(load: &FioLoad) -> u64 {
    let samples = load
        .threads
        .iter()
        .flat_map(|thread| thread.samples.iter().chain(&thread.histograms));
    let issued = load
        .threads
        .iter()
        .filter_map(|thread| thread.issued.as_ref());
    samples
        .map(|samples| samples.left_out())
        .chain(issued.map(|issued| issued.dropped.get()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fio::LogOptions;

    #[test]
    fn log_lines_equal_those_of_fio() {
        let operation = LogSample {
            end_ns: 1_999_999,
            direction: 1,
            ops: 1,
            bytes: 8_192,
            latency_ns: 152_970,
            length_ns: 0,
            offset: 40_960,
            max_ns: 152_970,
            ..LogSample::default()
        };
        let plain = Job::default();
        let with_offset = Job {
            log: LogOptions {
                offset: true,
                ..LogOptions::default()
            },
            ..Job::default()
        };
        // Lines that fio wrote for such an operation.
        assert_eq!(
            LogKind::Bandwidth.line(&operation, &with_offset, 0),
            "1, 53552, 1, 8192, 40960, 0\n"
        );
        assert_eq!(
            LogKind::Latency.line(&operation, &plain, 0),
            "1, 152970, 1, 8192, 0\n"
        );
        assert_eq!(
            LogKind::Iops.line(&operation, &plain, 0),
            "1, 1, 1, 8192, 0\n"
        );
        let mean = LogSample {
            end_ns: 500_000_000,
            ops: 100,
            latency_ns: 5_000_000,
            length_ns: 500_000_000,
            ..operation.clone()
        };
        assert_eq!(
            LogKind::Bandwidth.line(&mean, &plain, 0),
            "500, 16, 1, 0, 0\n"
        );
        assert_eq!(
            LogKind::Latency.line(
                &LogSample {
                    offset: 0,
                    ..mean.clone()
                },
                &with_offset,
                0
            ),
            "500, 50000, 1, 0, 0, 0\n"
        );
        assert_eq!(LogKind::Iops.line(&mean, &plain, 0), "500, 200, 1, 0, 0\n");
        let all = Job {
            log: LogOptions {
                values: [true, true],
                issue_time: true,
                ..with_offset.log
            },
            ..with_offset
        };
        assert_eq!(
            LogKind::Latency.line(&operation, &all, 0),
            "1, 152970, 152970, 1, 8192, 40960, 0, 1847029\n"
        );
        assert_eq!(
            LogKind::Latency.line(
                &LogSample {
                    max_ns: 90_000,
                    ..mean.clone()
                },
                &all,
                0
            ),
            "500, 50000, 90000, 1, 0, 40960, 0, 0\n"
        );
        assert_eq!(
            LogKind::Iops.line(&mean, &all, 0),
            "500, 200, 200, 1, 0, 40960, 0, 0\n"
        );
    }
}
