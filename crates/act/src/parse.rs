//! Reads a configuration file and reports every mistake in it, not only the first.

use super::act_keys::{self, ActKey};
use super::check::conflicts;
use super::config::{ActConfig, threads_of_queues, unknown};
use super::dialect::{lines, refusal};
use super::options::{OptionDefault, Test};
use super::problem::{ConfigErrors, ConfigProblem, Located};
use super::table::options_of;
use std::collections::HashMap;

/// A file without errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub config: ActConfig,
    pub warnings: Vec<Located<String>>,
}

/// Reads the configuration of `test` from `bytes`. `file` is only used in messages.
///
/// More than `FILE_BYTES_MAX` bytes are refused without parsing, so a caller can stop reading there, even if the file is
/// a whole drive. Errors: all errors, in the order of the file's lines; errors without a line come last.
pub fn parse(test: Test, file: &str, bytes: &[u8]) -> Result<Parsed, ConfigErrors> {
    let config = ActConfig::new(test);
    let mut reader = ConfigReader {
        config,
        seen_keys: HashMap::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    if let Some(refusal) = refusal(bytes) {
        reader.problems.push((None, ConfigProblem::Other(refusal)));
        return reader.finish(file);
    }
    for line in lines(bytes) {
        match line {
            Ok(line) => reader.line(line.number, line.key, line.value),
            Err((number, problem)) => reader
                .problems
                .push((Some(number), ConfigProblem::Other(problem))),
        }
    }
    reader.missing();
    reader.translate();
    let is_given = |key: &str| reader.seen_keys.contains_key(key);
    reader.config.apply_dependent_defaults(&is_given);
    for problem in conflicts(&reader.config) {
        reader.conflict(problem);
    }
    reader.finish(file)
}

struct ConfigReader {
    config: ActConfig,
    /// Per known key: its first line, and whether its value could be read.
    seen_keys: HashMap<&'static str, SeenKey>,
    problems: Vec<(Option<usize>, ConfigProblem)>,
    warnings: Vec<(Option<usize>, String)>,
}

struct SeenKey {
    line: usize,
    readable: bool,
}

impl ConfigReader {
    fn line(&mut self, number: usize, key: &str, value: &str) {
        let test = self.config.test;
        let Some((spec, setting)) = self.config.setting_mut(key) else {
            return self.problems.push((Some(number), unknown(key, test)));
        };
        if let Some(first) = self.seen_keys.get(spec.name) {
            return self.problems.push((
                Some(number),
                ConfigProblem::given_twice(spec.name, first.line),
            ));
        }
        let result = spec.set(setting, value);
        self.seen_keys.insert(
            spec.name,
            SeenKey {
                line: number,
                readable: result.is_ok(),
            },
        );
        self.problems
            .extend(result.err().map(|problem| (Some(number), problem)));
    }

    fn missing(&mut self) {
        for spec in options_of(self.config.test) {
            if let OptionDefault::Mandatory(example) = spec.default
                && !self.seen_keys.contains_key(spec.name)
            {
                self.problems.push((
                    None,
                    ConfigProblem::MissingKey {
                        key: spec.name,
                        example,
                    },
                ));
            }
        }
    }

    /// Translates old ACTs' threads per queue, and drops an ignored key.
    fn translate(&mut self) {
        self.config.scheduler_mode.clear();
        let queues = self.config.num_queues.take();
        let threads = self.config.threads_per_queue.take();
        if let Some(service_threads) = self.config.service_threads {
            for key in ["num-queues", "threads-per-queue"] {
                self.warn_if_given(
                    key,
                    format!(
                        "{key} is a key of {}: it is ignored, because service-threads: {service_threads} is given too; \
                         if the file is of ACT 5.1 to 5.3, flashproof size config FILE translates it",
                        releases(key)
                    ),
                );
            }
            return;
        }
        match (queues, threads) {
            (Some(queues), Some(threads)) => match threads_of_queues(queues, threads) {
                Ok(service_threads) => {
                    self.config.service_threads = Some(service_threads);
                    let warning = format!(
                        "num-queues and threads-per-queue are keys of {}: {queues} x {threads} became service-threads: \
                         {service_threads}",
                        releases("num-queues")
                    );
                    self.warn("num-queues", warning);
                }
                Err(problem) => self.conflict(problem),
            },
            (Some(_), None) => self.half_of_queues("num-queues", "threads-per-queue"),
            (None, Some(_)) => self.half_of_queues("threads-per-queue", "num-queues"),
            (None, None) => {}
        }
    }

    fn half_of_queues(&mut self, key: &'static str, other_key: &'static str) {
        if !self.seen_keys.contains_key(other_key) {
            let warning = format!(
                "{key} is a key of {}: it is ignored, because it has no meaning without {other_key}; give service-threads instead",
                releases(key)
            );
            self.warn(key, warning);
        }
    }

    /// Reports contradicting values at the line of the first. A value that could not be read was reported before.
    fn conflict(&mut self, problem: ConfigProblem) {
        let keys: &[_] = if let ConfigProblem::Conflict { keys, .. } = &problem {
            keys
        } else {
            &[]
        };
        let lines = keys.iter().filter_map(|key| self.seen_keys.get(key));
        if lines.clone().all(|seen| seen.readable) {
            let line = lines.map(|seen| seen.line).next();
            self.problems.push((line, problem));
        }
    }

    fn warn(&mut self, key: &str, warning: String) {
        self.warnings
            .push((self.seen_keys.get(key).map(|seen| seen.line), warning));
    }

    fn warn_if_given(&mut self, key: &str, warning: String) {
        if self.seen_keys.contains_key(key) {
            self.warn(key, warning);
        }
    }

    /// Warnings about values in force, for a file without errors.
    fn warn_of_values(&mut self) {
        let ActConfig {
            commit_to_device,
            commit_min_bytes,
            report_interval_sec,
            test_duration_sec,
            ..
        } = self.config;
        let commit_min = match (commit_to_device, commit_min_bytes) {
            (false, _) => "it has no effect, because commit-to-device is no".to_owned(),
            (true, 0) => {
                "commit writes are rounded to the device's minimum I/O size, as without this key"
                    .to_owned()
            }
            (true, bytes) => format!(
                "commit writes are rounded to {bytes} bytes, or to the device's minimum I/O size where that is larger"
            ),
        };
        let commit_min = format!(
            "commit-min-bytes is a key of {}: {commit_min}",
            releases("commit-min-bytes")
        );
        self.warn_if_given("commit-min-bytes", commit_min);
        let scheduler = format!(
            "scheduler-mode is a key of {}: it is ignored; flashproof records the device's I/O scheduler and does not change it",
            releases("scheduler-mode")
        );
        self.warn_if_given("scheduler-mode", scheduler);
        if report_interval_sec > test_duration_sec {
            let warning = format!(
                "report-interval-sec: {report_interval_sec} s is longer than the test of {test_duration_sec} s, so the \
                 only report comes at the end of the test"
            );
            self.warn("report-interval-sec", warning);
        }
    }

    fn finish(mut self, file: &str) -> Result<Parsed, ConfigErrors> {
        if self.problems.is_empty() {
            self.warn_of_values();
            Ok(Parsed {
                config: self.config,
                warnings: located(file, self.warnings),
            })
        } else {
            Err(ConfigErrors(located(file, self.problems)))
        }
    }
}

/// The releases of ACT that read `key`.
fn releases(key: &str) -> String {
    act_keys::find(key).map_or_else(String::new, ActKey::releases)
}

/// Sorts `messages` by line; entries without a line come last.
pub(super) fn located<T>(file: &str, mut messages: Vec<(Option<usize>, T)>) -> Vec<Located<T>> {
    messages.sort_by_key(|(line, _)| line.unwrap_or(usize::MAX));
    messages
        .into_iter()
        .map(|(line, what)| Located {
            file: file.into(),
            line,
            what,
        })
        .collect()
}
