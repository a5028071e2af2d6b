//! The logs that jobs request, separate for each clone; new lines are written every second during the run.

use load::workload::fio::{FioLoad, Sample};
use session::failure::Failure;
use session::output_file::{is_ours, not_written, write_file};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// KiB per second.
    Bandwidth,
    /// Completion latency, nanoseconds.
    Latency,
    /// Operations per second.
    Iops,
}

impl Log {
    /// Suffixes of its files, before the number of the job. False: the file stays empty, because fio's slat is part of
    /// clat here.
    fn endings(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::Bandwidth => &[("bw", true)],
            Self::Latency => &[("slat", false), ("clat", true), ("lat", true)],
            Self::Iops => &[("iops", true)],
        }
    }

    /// Value of a log line. Source: fio's `add_bw_sample()` and `add_iops_sample()` for single operations.
    fn value(self, sample: &Sample) -> u64 {
        let Sample { ops, bytes, latency_ns, length_ns, .. } = *sample;
        let in_a_second = |count: u64| u128::from(count) * 1_000_000_000 / u128::from(length_ns.max(1));
        let value = match self {
            Self::Bandwidth if length_ns == 0 => u128::from(bytes) * 1_000_000 / u128::from(latency_ns.max(1)),
            Self::Bandwidth => in_a_second(bytes) / 1_024,
            Self::Latency => u128::from(latency_ns / ops.max(1)),
            Self::Iops if length_ns == 0 => 1,
            Self::Iops => in_a_second(ops),
        };
        u64::try_from(value).unwrap_or(u64::MAX)
    }

    fn line(self, sample: &Sample, with_offset: bool) -> String {
        let bytes = if sample.length_ns == 0 { sample.bytes } else { 0 };
        let offset = if with_offset { format!(", {}", sample.offset) } else { String::new() };
        let (ms, value) = (sample.end_ns / 1_000_000, self.value(sample));
        format!("{ms}, {value}, {}, {bytes}{offset}, 0\n", sample.direction)
    }
}

/// Logs of each clone: position of the clone, kind of log, and files.
fn logs_of(load: &FioLoad) -> impl Iterator<Item = (usize, Log, Vec<(PathBuf, bool)>)> {
    load.threads.iter().enumerate().flat_map(|(place, thread)| {
        let job = &thread.job;
        let of_log = move |(log, prefix): (Log, &Option<String>)| {
            let prefix = prefix.as_ref()?;
            let prefix = if prefix.is_empty() { &job.name } else { prefix };
            let path = |(ending, is_filled): &(&str, bool)| {
                let path = match job.per_job_logs {
                    true => format!("{prefix}_{ending}.{}.log", thread.number),
                    false => format!("{prefix}_{ending}.log"),
                };
                (path.into(), *is_filled)
            };
            Some((place, log, log.endings().iter().map(path).collect()))
        };
        [Log::Bandwidth, Log::Latency, Log::Iops].into_iter().zip(&job.logs).filter_map(of_log)
    })
}

/// Checks that the logs of `load` can be written.
pub fn check(load: &FioLoad, force: bool) -> Result<(), Failure> {
    logs_of(load).flat_map(|(.., paths)| paths).try_for_each(|(path, _)| write(&path, None, force))
}

/// Replaces earlier logs; other files only with `force`.
fn write(path: &Path, text: Option<&str>, force: bool) -> Result<(), Failure> {
    let is_number = |field: &str| field.trim().parse::<i64>().is_ok();
    let is_log = |text: &str| {
        let fields = text.lines().next().unwrap_or_default().split(',');
        fields.clone().count() >= 4 && fields.into_iter().all(is_number)
    };
    write_file("log", path, text, force || is_ours(path, is_log))
}

#[derive(Debug, Default)]
pub struct Logs {
    files: HashMap<PathBuf, File>,
}

impl Logs {
    /// Creates or truncates the logs.
    pub fn create(load: &FioLoad, force: bool) -> Result<Self, Failure> {
        let mut files = HashMap::new();
        for (path, _) in logs_of(load).flat_map(|(.., paths)| paths) {
            write(&path, Some(""), force)?;
            let file = OpenOptions::new()
                .append(true)
                .open(&path)
                .map_err(|error| Failure::environment(not_written("log", &path, &error)))?;
            files.insert(path, file);
        }
        Ok(Self { files })
    }

    /// Appends new lines; `ran_ns` is the end of a finished run. Errors: why writing failed.
    pub fn write(&mut self, load: &FioLoad, ran_ns: Option<u64>) -> Result<(), String> {
        let taken: Vec<_> =
            load.threads.iter().map(|thread| thread.samples.as_ref().map(|samples| samples.take(ran_ns))).collect();
        for (place, log, paths) in logs_of(load) {
            let Some(samples) = taken[place].as_ref().filter(|samples| !samples.is_empty()) else { continue };
            let with_offset = load.threads[place].job.log_offset;
            let text: String = samples.iter().map(|sample| log.line(sample, with_offset)).collect();
            for (path, _) in paths.iter().filter(|(_, is_filled)| *is_filled) {
                if let Some(file) = self.files.get_mut(path) {
                    file.write_all(text.as_bytes()).map_err(|error| not_written("log", path, &error))?;
                }
            }
        }
        Ok(())
    }
}

/// Number of log lines dropped because they were not written in time.
pub fn left_out(load: &FioLoad) -> u64 {
    load.threads.iter().filter_map(|thread| thread.samples.as_ref()).map(|samples| samples.left_out()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_fios() {
        let operation = Sample {
            end_ns: 1_999_999,
            direction: 1,
            ops: 1,
            bytes: 8_192,
            latency_ns: 152_970,
            length_ns: 0,
            offset: 40_960,
        };
        // As fio itself wrote them for such an operation.
        assert_eq!(Log::Bandwidth.line(&operation, true), "1, 53552, 1, 8192, 40960, 0\n");
        assert_eq!(Log::Latency.line(&operation, false), "1, 152970, 1, 8192, 0\n");
        assert_eq!(Log::Iops.line(&operation, false), "1, 1, 1, 8192, 0\n");
        let mean = Sample { end_ns: 500_000_000, ops: 100, latency_ns: 5_000_000, length_ns: 500_000_000, ..operation };
        assert_eq!(Log::Bandwidth.line(&mean, false), "500, 16, 1, 0, 0\n");
        assert_eq!(Log::Latency.line(&Sample { offset: 0, ..mean }, true), "500, 50000, 1, 0, 0, 0\n");
        assert_eq!(Log::Iops.line(&mean, false), "500, 200, 1, 0, 0\n");
    }
}
