//! Reads a configuration file and reports every mistake in it, not only the first.

use super::configuration::Configuration;
use super::dialect::lines;
use super::index::IndexConfig;
use super::legacy;
use super::options::{self, OptionSpec, Test, all, find, nearest, options_of};
use super::problem::{ConfigErrors, Located, Problem, Quoted, ValueProblem};
use super::storage::{Act4Keys, StorageConfig};
use super::table::SERVICE_THREADS_MAX;
use super::warning::Warning;
use std::collections::HashMap;

/// A file without mistakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<C> {
    /// What it says.
    pub config: C,
    /// What deserves to be said about it, in the order of its lines.
    pub warnings: Vec<Located<Warning>>,
}

/// Most bytes that a configuration can have. 128 devices with the longest of names fit twice.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Reads the configuration of a storage test from `bytes`; see [`parse`].
pub fn parse_storage(file: &str, bytes: &[u8]) -> Result<Parsed<StorageConfig>, ConfigErrors> {
    parse(file, bytes)
}

/// Reads the configuration of an index test from `bytes`; see [`parse`].
pub fn parse_index(file: &str, bytes: &[u8]) -> Result<Parsed<IndexConfig>, ConfigErrors> {
    parse(file, bytes)
}

/// Reads the configuration of a test from `bytes`.
///
/// `file` is only named in messages. More than [`FILE_BYTES_MAX`] bytes are refused unread, so a caller
/// need not read further into a file that may be a whole drive. Errors: every mistake of the file, one line each, in the order
/// of its lines and then those that concern no single line. A value that contradicts another one is
/// only reported when both could be read.
pub fn parse<C: Configuration>(file: &str, bytes: &[u8]) -> Result<Parsed<C>, ConfigErrors> {
    let mut reader = Reader::<C>::default();
    if bytes.len() > FILE_BYTES_MAX {
        reader.problems.push((None, Problem::NotAConfiguration { bytes: bytes.len() }));
        return reader.finish(file);
    }
    for line in lines(bytes) {
        match line {
            Ok(line) => reader.line(line.number, line.key, line.value),
            Err((number, problem)) => reader.problems.push((Some(number), problem)),
        }
    }
    reader.missing();
    reader.translate_queues();
    reader.settle();
    for problem in reader.config.conflicts() {
        reader.conflict(problem);
    }
    reader.finish(file)
}

/// The line of `bytes` that gives `key`, from 1; `None` when it is left to its default.
pub fn line_of(bytes: &[u8], key: &str) -> Option<usize> {
    lines(bytes).flatten().find(|line| line.key == key).map(|line| line.number)
}

/// The file as far as it has been read.
#[derive(Default)]
struct Reader<C> {
    config: C,
    act4: Act4Keys,
    /// Where each known key was first seen, and whether its value could be read.
    seen: HashMap<&'static str, Seen>,
    problems: Vec<(Option<usize>, Problem)>,
    warnings: Vec<(Option<usize>, Warning)>,
}

struct Seen {
    line: usize,
    readable: bool,
}

impl<C: Configuration> Reader<C> {
    fn line(&mut self, number: usize, key: &str, value: &str) {
        let Some(spec) = find(C::TEST, key) else {
            return self.problems.push((Some(number), unknown(key, C::TEST)));
        };
        if let Some(Seen { line: first_line, .. }) = self.seen.get(spec.name) {
            let problem = Problem::DuplicateKey { key: spec.name, first_line: *first_line };
            return self.problems.push((Some(number), problem));
        }
        let setting = match self.config.setting_mut(spec.name) {
            Some(setting) => Some(setting),
            None => self.act4.setting_mut(spec.name),
        };
        // A test proves that every option has a field; a missing value is the closest true thing to say.
        let result = setting.map_or(Err(ValueProblem::Missing), |setting| setting.set(spec, value));
        self.seen.insert(spec.name, Seen { line: number, readable: result.is_ok() });
        if let Err(found) = result {
            self.problems.push((Some(number), Problem::value(spec, found)));
        }
    }

    /// Keys that have to be there and are not.
    fn missing(&mut self) {
        for spec in options_of(C::TEST) {
            if let options::Default::Mandatory(example) = spec.default
                && !self.seen.contains_key(spec.name)
            {
                self.problems.push((None, Problem::MissingKey { key: spec.name, example }));
            }
        }
    }

    /// ACT 4 counted its threads by queue.
    fn translate_queues(&mut self) {
        let (queues, threads) = (self.act4.num_queues, self.act4.threads_per_queue);
        if let Some(service_threads) = self.config.terms().service_threads {
            for key in ["num-queues", "threads-per-queue"] {
                if self.seen.contains_key(key) {
                    self.warn(key, Warning::QueuesOverruled { key, service_threads });
                }
            }
            return;
        }
        match (queues, threads) {
            (Some(queues), Some(threads)) => {
                match queues.checked_mul(threads).filter(|n| u64::from(*n) <= SERVICE_THREADS_MAX) {
                    Some(service_threads) => {
                        self.config.set_service_threads(service_threads);
                        let warning = Warning::QueuesBecameServiceThreads { queues, threads, service_threads };
                        self.warn("num-queues", warning);
                    }
                    None => self.conflict(Problem::TooManyQueueThreads { queues, threads }),
                }
            }
            (Some(_), None) => self.half_of_queues("num-queues", "threads-per-queue"),
            (None, Some(_)) => self.half_of_queues("threads-per-queue", "num-queues"),
            (None, None) => {}
        }
    }

    /// What a key that is not there means.
    fn settle(&mut self) {
        let given = |key: &str| self.seen.contains_key(key);
        self.config.settle(&given);
    }

    fn half_of_queues(&mut self, key: &'static str, other: &'static str) {
        if !self.seen.contains_key(other) {
            self.warn(key, Warning::HalfOfQueues { key, other });
        }
    }

    /// Reports values that contradict each other, at the line of the first of them that is there,
    /// unless one of them could not be read and was reported already.
    fn conflict(&mut self, problem: Problem) {
        let lines = problem.conflicting_keys().iter().filter_map(|key| self.seen.get(key));
        if lines.clone().all(|seen| seen.readable) {
            let line = lines.map(|seen| seen.line).next();
            self.problems.push((line, problem));
        }
    }

    fn warn(&mut self, key: &str, warning: Warning) {
        self.warnings.push((self.seen.get(key).map(|seen| seen.line), warning));
    }

    /// Warnings about what is in force, for a file without mistakes.
    fn warn_of_values(&mut self) {
        let given = |key: &str| self.seen.contains_key(key);
        for (key, warning) in self.config.warnings(&given) {
            self.warn(key, warning);
        }
    }

    fn finish(mut self, file: &str) -> Result<Parsed<C>, ConfigErrors> {
        if self.problems.is_empty() {
            self.warn_of_values();
            Ok(Parsed { config: self.config, warnings: located(file, self.warnings) })
        } else {
            Err(ConfigErrors(located(file, self.problems)))
        }
    }
}

/// A key that `test` does not have.
pub(super) fn unknown(key: &str, test: Test) -> Problem {
    match all().find(|spec| spec.name == key) {
        Some(OptionSpec { name, tests: [of, ..], .. }) => Problem::KeyOfOtherTest { key: name, of: *of, here: test },
        _ if legacy::keys::find(key).is_some() => Problem::OldKey { key: Quoted::new(key) },
        _ => Problem::UnknownKey { key: Quoted::new(key), nearest: nearest(test, key) },
    }
}

/// In the order of the lines; what concerns no single line comes last.
fn located<T>(file: &str, mut found: Vec<(Option<usize>, T)>) -> Vec<Located<T>> {
    found.sort_by_key(|(line, _)| line.unwrap_or(usize::MAX));
    found.into_iter().map(|(line, what)| Located { file: file.into(), line, what }).collect()
}
