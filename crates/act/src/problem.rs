//! Errors of a configuration.
//!
//! Each error is one line: file and line, key, value found, allowed values, remedy. Values of the file are quoted,
//! escaped and cut, so that no input can break the line.

use results::format::quoted_start;
use std::fmt;
use thiserror::Error;

/// Displays as `FILE:LINE: WHAT`, without the line for a problem of the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub file: String,
    /// Line number, from 1; `None` for a problem of the whole file.
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
pub struct ConfigErrors(pub Vec<Located<ConfigProblem>>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    /// A line for each error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Why a configuration is refused: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigProblem {
    /// A key that only older ACTs had, quoted.
    #[error(
        "{0} is a key of an older ACT - run \"flashproof size config\" on this file to write today's equivalent"
    )]
    OldKey(String),
    #[error("{key}: missing, and it has no default - add a line such as \"{key}: {example}\"")]
    MissingKey {
        key: &'static str,
        example: &'static str,
    },
    #[error("{what}")]
    Conflict {
        /// The keys of the contradicting values. The message names the line of the first key.
        keys: Vec<&'static str>,
        what: String,
    },
    #[error("{0}")]
    Other(String),
}

impl ConfigProblem {
    pub(crate) fn conflict(keys: impl Into<Vec<&'static str>>, what: impl Into<String>) -> Self {
        Self::Conflict {
            keys: keys.into(),
            what: what.into(),
        }
    }

    pub(super) fn given_twice(key: &str, first_line: usize) -> Self {
        Self::Other(format!(
            "{key}: already given in line {first_line} - keep one of the two"
        ))
    }
}

/// Why an option does not allow a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueProblem {
    #[error("{0} is too small")]
    TooSmall(u64),
    /// An invalid description of a simulated drive: a sentence with its remedy.
    #[error("{0}")]
    NoSuchDrive(String),
    /// Any other reason: a phrase.
    #[error("{0}")]
    Other(String),
}

impl ValueProblem {
    /// An error about the value `text`. `is`: the predicate of the sentence, such as "is negative".
    pub(super) fn new(text: &str, is: &str) -> Self {
        Self::Other(format!("{} {is}", quoted_start(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_whole_file_has_no_line_number() {
        let mut located = Located {
            file: "a.conf".into(),
            line: Some(7),
            what: "no key",
        };
        assert_eq!(located.to_string(), "a.conf:7: no key");
        located.line = None;
        assert_eq!(located.to_string(), "a.conf: no key");
    }
}
