//! Errors of a configuration.
//!
//! Each is one line: file and line, key, value found, allowed values, remedy. Values of the file are quoted, escaped
//! and cut, so that no input can break the line.

use super::dialect::{DEVICE_NAME_BYTES_MAX, FILE_BYTES_MAX, LineProblem, Quoted};
use results::act_log::Test;
use std::fmt;
use thiserror::Error;

/// A [`Problem`] or a warning with its position.
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
    /// Values that contradict each other.
    #[error("{what}")]
    Conflict {
        /// The keys of these values; the message points at the first.
        keys: Vec<&'static str>,
        what: String,
    },
}

impl Problem {
    pub(crate) fn conflict(keys: impl Into<Vec<&'static str>>, what: impl Into<String>) -> Self {
        Self::Conflict { keys: keys.into(), what: what.into() }
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
    /// Values that make no histogram of sizes: a phrase.
    #[error("{0}")]
    NoHistogram(String),
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
