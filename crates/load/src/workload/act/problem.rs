//! Errors and warnings of a configuration.
//!
//! Each is one line: file and line, key, value found, allowed values, remedy. Values of the file are quoted, escaped
//! and cut, so that no input can break the line.

use super::dialect::{DEVICE_NAME_BYTES_MAX, FILE_BYTES_MAX, LineProblem, Quoted};
use super::sizes::problem::{HistogramProblem, SizesProblem};
use results::act_log::Test;
use std::fmt;
use thiserror::Error;

/// A [`Problem`] or [`Warning`] with its position.
///
/// Displays as `FILE:LINE: WHAT`, without the line when it concerns the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// Name of the file, as given.
    pub file: String,
    /// Line in the file, the first is 1.
    pub line: Option<usize>,
    pub what: T,
}

impl<T: fmt::Display> fmt::Display for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.what)
    }
}

/// All mistakes of one file, in the order of its lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Located<Problem>>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    /// One line per error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A line that cannot be parsed.
    #[error(transparent)]
    Line(#[from] LineProblem),
    /// More bytes than any configuration has.
    #[error(
        "{bytes} bytes or more are too many for a configuration, which has at most {} - name the file with the test's \
         configuration",
        FILE_BYTES_MAX
    )]
    NotAConfiguration {
        /// Size of the input.
        bytes: usize,
    },
    /// A key that is not in the table.
    #[error("unknown key {key} - {}", match nearest { Some(name) => format!("did you mean {name}?"), None => "no known key is close to it; docs/options.md lists them all".into() })]
    UnknownKey {
        key: Quoted,
        /// The known key it resembles.
        nearest: Option<&'static str>,
    },
    /// A key that only older ACTs had.
    #[error("{key} is a key of an older ACT - \"flashproof size config\" with this file writes today's equivalent")]
    OldKey { key: Quoted },
    /// A key of the other test.
    #[error(
        "{key}: a key of the {} test, which {} {} test does not have - remove the line, or run \"flashproof {}\"",
        .of.name(), if *.here == Test::Index { "an" } else { "a" }, .here.name(), .of.name()
    )]
    KeyOfOtherTest {
        key: &'static str,
        /// Test that reads the key.
        of: Test,
        /// Test that does not.
        here: Test,
    },
    /// A key for the second time.
    #[error("{key}: already given in line {first_line} - keep one of the two")]
    DuplicateKey { key: &'static str, first_line: usize },
    /// A key that has to be there is not.
    #[error("{key}: missing, and it has no default - add a line such as \"{key}: {example}\"")]
    MissingKey {
        key: &'static str,
        /// A value that could be meant.
        example: &'static str,
    },
    /// A value that its option does not take.
    #[error("{key}: {found} - give {wanted}")]
    Value {
        key: &'static str,
        /// Error of the value.
        found: ValueProblem,
        /// Allowed values.
        wanted: String,
    },
    /// An invalid description of a simulated drive; the message of its parser.
    #[error("{key}: {message}")]
    SimulatedDrive {
        key: &'static str,
        /// The cause and the remedy.
        message: String,
    },
    #[error(
        "device-names: {simulated} is simulated on virtual time and {real} is not, and one test has one clock - test \
         them one after the other"
    )]
    SimulatedWithReal {
        /// The first simulated drive.
        simulated: Quoted,
        /// First real device.
        real: Quoted,
    },
    /// Simulated drives and a file size.
    #[error(
        "file-size-mbytes: {simulated} is a simulated drive, not a file - drop file-size-mbytes and give the drive's \
         size as capacity={mbytes}MiB"
    )]
    SimulatedFile {
        /// The first simulated drive.
        simulated: Quoted,
        /// The size that was given, in MiB.
        mbytes: u32,
    },
    /// Records that cannot be packed into large blocks.
    #[error(
        "{key}: a record of {record_bytes} bytes takes {stored_bytes} bytes as stored, but a large block has only \
         {large_block_bytes} bytes and records do not straddle blocks - make {key} at most {large_block_bytes} or \
         raise large-block-op-kbytes (at most 8192)"
    )]
    RecordLargerThanLargeBlock {
        /// `record-bytes` or `record-bytes-range-max`.
        key: &'static str,
        /// The largest record, in bytes, as configured.
        record_bytes: u32,
        /// The same as stored, in bytes.
        stored_bytes: u32,
        large_block_bytes: u32,
    },
    /// A range of record sizes that does not go up.
    #[error(
        "record-bytes-range-max: {range_max_bytes} bytes is not larger than record-bytes, which is {record_bytes} - \
         give more than {record_bytes}, or 0 for records of one size"
    )]
    RangeNotAboveRecord { range_max_bytes: u32, record_bytes: u32 },
    /// Histograms, or their keys, beside keys that contradict them.
    #[error(transparent)]
    Sizes(#[from] SizesProblem),
    #[error("read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them")]
    NoLoad,
    /// Commits that would not be durable.
    #[error(
        "disable-odsync: yes contradicts commit-to-device: yes, because a commit is a write that is durable when it \
         returns - set one of the two to no"
    )]
    CommitWithoutOdsync,
    /// Commit writes larger than a large block.
    #[error(
        "commit-min-bytes: {commit_min_bytes} bytes is more than a large block of {large_block_bytes} bytes - give at \
         most {large_block_bytes} or raise large-block-op-kbytes (at most 8192)"
    )]
    CommitMinLargerThanLargeBlock {
        /// Minimum, bytes.
        commit_min_bytes: u32,
        large_block_bytes: u32,
    },
    /// A file that no ACT read whole.
    #[error(
        "{old} was last read by ACT {until} and {new} first by ACT {since}: no ACT read both - say which one the file was \
         for with --act, which then drops what it did not know"
    )]
    KeysOfTwoActs {
        old: &'static str,
        new: &'static str,
        /// Last major release that read the one.
        until: u8,
        /// First that read the other.
        since: u8,
    },
    /// ACT 4's queues give too many threads.
    #[error(
        "num-queues: {queues} queues x {threads} threads is more than {most} service-threads - give service-threads \
         instead of num-queues and threads-per-queue"
    )]
    TooManyQueueThreads {
        queues: u32,
        threads: u32,
        /// Service threads that can be configured.
        most: u64,
    },
}

impl Problem {
    /// The keys whose values contradict each other; empty for an error of a single line. The message points at the
    /// first.
    pub(crate) fn conflicting_keys(&self) -> Vec<&'static str> {
        match self {
            Self::RecordLargerThanLargeBlock { key, .. } => vec![key, "large-block-op-kbytes"],
            Self::RangeNotAboveRecord { .. } => vec!["record-bytes-range-max", "record-bytes"],
            Self::SimulatedWithReal { .. } => vec!["device-names"],
            Self::SimulatedFile { .. } => vec!["file-size-mbytes", "device-names"],
            Self::Sizes(problem) => problem.conflicting_keys(),
            Self::NoLoad => vec!["read-reqs-per-sec", "write-reqs-per-sec"],
            Self::CommitWithoutOdsync => vec!["disable-odsync", "commit-to-device"],
            Self::CommitMinLargerThanLargeBlock { .. } => vec!["commit-min-bytes", "large-block-op-kbytes"],
            Self::TooManyQueueThreads { .. } => vec!["num-queues", "threads-per-queue"],
            _ => Vec::new(),
        }
    }
}

/// Error of one value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueProblem {
    /// No text after the name.
    #[error("no value")]
    Missing,
    /// A negative number.
    #[error("{0} is negative")]
    Negative(Quoted),
    /// Not a number.
    #[error("{0} is not a number")]
    NotANumber(Quoted),
    /// A number and something else.
    #[error("{found} has {junk} after the number")]
    JunkAfterNumber {
        /// Whole value.
        found: Quoted,
        /// Text after the digits.
        junk: Quoted,
    },
    /// Below the allowed range.
    #[error("{0} is too small")]
    TooSmall(u64),
    /// Above the range; the digits, because they need not fit any integer.
    #[error("{0} is too large")]
    TooLarge(String),
    /// Within the range, but no power of two.
    #[error("{0} is no power of two")]
    NotAPowerOfTwo(u64),
    /// Values that make no histogram of sizes.
    #[error(transparent)]
    NoHistogram(#[from] HistogramProblem),
    /// Not one of the allowed words.
    #[error("{0} is none of them")]
    NotAChoice(Quoted),
    /// Neither yes nor no.
    #[error("{0} is neither yes nor no")]
    NotYesNo(Quoted),
    #[error("{0} is more than one word")]
    NotOneWord(Quoted),
    /// A device list with nothing in it.
    #[error("no device is named")]
    NoDevices,
    #[error("{0} is named twice, and each device is tested once; name=... tells simulated drives apart")]
    SameDeviceTwice(Quoted),
    /// A name longer than any path.
    #[error("the name {found} of {bytes} bytes is longer than any path, which has at most {DEVICE_NAME_BYTES_MAX}")]
    LongDeviceName {
        /// Device name.
        found: Quoted,
        /// Length of the name.
        bytes: usize,
    },
    /// A simulated drive that cannot be, with the message of its parser.
    #[error("{0}")]
    NoSuchDrive(String),
    /// More devices than a test can have.
    #[error("{0} devices are too many")]
    TooManyDevices(usize),
    /// A name that no file can hold: with a separator or a control character in it.
    #[error("{0} cannot be the name of a device here: it has a separator, a # or a control character in it")]
    BadDeviceName(Quoted),
    /// Quotes, which would be taken for a part of the name.
    #[error("{} has quotes round it, and a name is written without any", .0.bare())]
    QuotedDeviceName(Quoted),
}

/// A key whose effect may surprise its author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Warning {
    /// ACT 4's commit-min-bytes is in force.
    #[error(
        "commit-min-bytes is a key of ACT 4 that ACT 6 dropped: commit writes are rounded to {}",
        if *.0 == 0 { "the device's minimum I/O size, as without it".into() }
        else { format!("{} bytes, or to the device's minimum I/O size where that is larger", .0) }
    )]
    CommitMinBytes(u32),
    /// ACT 4's commit-min-bytes without commits.
    #[error("commit-min-bytes is a key of ACT 4 that ACT 6 dropped: it has no effect, because commit-to-device is no")]
    CommitMinBytesUnused,
    /// ACT 4's queues became threads.
    #[error(
        "num-queues and threads-per-queue are keys of ACT 4: {queues} x {threads} became service-threads: \
         {service_threads}"
    )]
    QueuesBecameServiceThreads {
        queues: u32,
        threads: u32,
        /// Product of both.
        service_threads: u32,
    },
    /// ACT 4's queues beside service-threads.
    #[error(
        "{key} is a key of ACT 4: it is ignored, because service-threads: {service_threads} is given too; if the file is \
         of ACT 5.1 to 5.3, flashproof size config FILE translates it"
    )]
    QueuesOverruled {
        /// `num-queues` or `threads-per-queue`.
        key: &'static str,
        /// Value in force.
        service_threads: u32,
    },
    /// One of `num-queues` and `threads-per-queue` without the other.
    #[error("{key} is a key of ACT 4: it is ignored, because it says nothing without {other}; give service-threads")]
    HalfOfQueues {
        /// Key in the file.
        key: &'static str,
        /// Missing key.
        other: &'static str,
    },
    #[error("scheduler-mode is a key of ACT 4: it is ignored, the device's I/O scheduler is recorded and left alone")]
    SchedulerModeIgnored,
    /// There will be one report only.
    #[error(
        "report-interval-sec: {report_interval_sec} s is longer than the test of {test_duration_sec} s: the only \
         report is the one at its end"
    )]
    OneReportOnly { report_interval_sec: u32, test_duration_sec: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_whole_file_has_no_line_number() {
        let mut located = Located { file: "a.conf".into(), line: Some(7), what: Problem::Line(LineProblem::NoKey) };
        assert_eq!(located.to_string(), "a.conf:7: no key before the colon - write \"name: value\"");
        located.line = None;
        assert_eq!(located.to_string(), "a.conf: no key before the colon - write \"name: value\"");
    }
}
