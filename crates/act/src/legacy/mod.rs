//! Translates configurations of old ACT releases to the current format, with the same meaning.
//!
//! ```text
//! bytes --lines--> lines --recognise--> ACT 1 to 6 --translate--> today's lines --parse--> ActConfig
//!                                                        |
//!                                                     changes, each with its reason
//! ```
//!
//! Translation keeps the line numbers, and the parser that reads all files reads the result. Old defaults that differ
//! from today's are written out. Settings that cannot be kept are reported.

mod lines;
mod translate;

use super::act_keys::{self, ActKey};
use super::config::ActConfig;
use super::dialect::refusal;
use super::options::{INDEX, Since, Test};
use super::parse::{Parsed, parse};
use super::problem::{ConfigErrors, ConfigProblem, Located};
use super::table::{all, options_of};
use lines::LegacyLines;
use std::ops::RangeInclusive;

/// Major numbers of ACT that can be read.
pub const MAJORS: RangeInclusive<u8> = 1..=6;

#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// The test; `None`: recognised by the keys.
    pub test: Option<Test>,
    /// Major ACT version; `None`: recognised by the keys.
    pub act: Option<u8>,
    /// CPUs of the machine on which ACT ran, for defaults that depended on the number of CPUs.
    pub cpus: Option<u32>,
}

/// A file in the current format.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    pub config: ActConfig,
    /// Major ACT version by whose rules the file was read.
    pub act: u8,
    /// True for a file of flashproof: nothing in it is translated.
    pub is_flashproof_file: bool,
    /// True if neither the file nor the user gave the test.
    pub test_by_default: bool,
    /// Major versions that fit the keys of the file; `None` if the version was given.
    pub candidates: Option<RangeInclusive<u8>>,
    /// Current keys in the file; all others have their default.
    pub given_keys: Vec<&'static str>,
    /// Changes, each with the current key that it concerns.
    pub changes: Vec<(&'static str, String)>,
    pub warnings: Vec<Located<String>>,
}

/// `file`: name for messages. Errors: every mistake of the file.
pub fn read(file: &str, bytes: &[u8], reading: &ReadOptions) -> Result<Translation, ConfigErrors> {
    let mut lines = LegacyLines::new(bytes);
    let test_in_file = test_of(&lines);
    let test = reading.test.or(test_in_file).unwrap_or_default();
    let is_refused = refusal(bytes).is_some();
    if is_refused {
        // The parser reports the refusal; no other error is needed.
        lines = LegacyLines::new(b"");
    }
    let candidates = candidates(&lines);
    let is_own_file = reading.act.is_none()
        && candidates
            .as_ref()
            .is_ok_and(|acts| is_own(bytes, &lines, acts));
    let newest = *MAJORS.end();
    let act = match (reading.act, &candidates) {
        _ if is_own_file => newest,
        (Some(act), _) => act,
        (None, Ok(candidates)) => likeliest(&lines, candidates),
        (None, Err((old, new))) => {
            let what = format!(
                "{} was last read by ACT {}, but {} first by ACT {}: no ACT reads both keys - give the version of the file with \
                 --act; keys that this version did not know are then dropped",
                old.name,
                old.until.map_or(newest, |until| until.0),
                new.name,
                new.since.0
            );
            lines.problem(None, ConfigProblem::conflict([old.name, new.name], what));
            newest
        }
    };
    if !is_own_file && (reading.act.is_some() || candidates.is_ok()) {
        translate::translate(&mut lines, test, act, reading.cpus);
    }
    let text = lines.text();
    let parsed = parse(test, file, if is_refused { bytes } else { text.as_bytes() });
    let mut parse_problems = parsed
        .as_ref()
        .err()
        .map(|errors| errors.0.clone())
        .unwrap_or_default();
    if reading.act.is_none() && candidates.is_err() {
        // Only the release is in question, so errors about old keys or missing keys would mislead.
        parse_problems.retain(|problem| {
            !matches!(
                problem.what,
                ConfigProblem::OldKey(_) | ConfigProblem::MissingKey { .. }
            )
        });
    }
    let given_keys = options_of(test)
        .map(|spec| spec.name)
        .filter(|key| lines.gives(key))
        .collect();
    let changes = std::mem::take(&mut lines.changes);
    let problems = lines.problems(file, parse_problems);
    match parsed {
        Ok(Parsed { config, warnings }) if problems.is_empty() => {
            let candidates = if reading.act.is_some() {
                None
            } else {
                candidates.ok()
            };
            let test_by_default = reading.test.is_none() && test_in_file.is_none();
            Ok(Translation {
                config,
                act,
                is_flashproof_file: is_own_file,
                test_by_default,
                candidates,
                given_keys,
                changes,
                warnings,
            })
        }
        _ => Err(ConfigErrors(problems)),
    }
}

/// First words of the files that `flashproof size config` writes.
pub const WRITTEN_BY: &str = "Written by flashproof";

/// A file of flashproof has its header or one of its own keys, and no key that only ACT releases before 6 read.
fn is_own(bytes: &[u8], lines: &LegacyLines, candidates: &RangeInclusive<u8>) -> bool {
    let is_own_key =
        |key: &str| all().any(|spec| spec.name == key && spec.since == Since::Flashproof);
    candidates.contains(MAJORS.end())
        && (lines.keys().any(is_own_key)
            || String::from_utf8_lossy(bytes)
                .lines()
                .any(|line| line.trim_start_matches('#').contains(WRITTEN_BY)))
}

/// The test by the keys that only one test has (keys of old ACTs: only of the index test); `None` without such a key.
fn test_of(lines: &LegacyLines) -> Option<Test> {
    let is_of_index = |key: &str| act_keys::find(key).is_some_and(|key| key.tests == INDEX);
    // If keys of both tests are present, the parser reports the keys of the wrong test.
    match (
        has_own_key(lines, Test::Storage),
        has_own_key(lines, Test::Index) || lines.keys().any(is_of_index),
    ) {
        (true, _) => Some(Test::Storage),
        (false, true) => Some(Test::Index),
        (false, false) => None,
    }
}

/// True if the file has a key that only `test` has. Keys of old ACTs do not count: `act_keys` has their tests.
fn has_own_key(lines: &LegacyLines, test: Test) -> bool {
    options_of(test)
        .filter(|spec| spec.tests.len() == 1 && spec.since != Since::OldAct)
        .any(|spec| lines.has(spec.name))
}

/// The major versions that read every ACT key of the file. Errors: two keys that no version read together.
fn candidates(
    lines: &LegacyLines,
) -> Result<RangeInclusive<u8>, (&'static ActKey, &'static ActKey)> {
    let known_keys: Vec<_> = lines.keys().filter_map(act_keys::find).collect();
    let newest = known_keys.iter().max_by_key(|key| key.since.0);
    let oldest = known_keys
        .iter()
        .filter(|key| key.until.is_some())
        .min_by_key(|key| key.until.map(|until| until.0));
    let first_major = newest.map_or(*MAJORS.start(), |key| key.since.0);
    let last_major = oldest
        .and_then(|key| key.until)
        .map_or(*MAJORS.end(), |until| until.0);
    match (oldest, newest) {
        (Some(oldest), Some(newest)) if first_major > last_major => Err((oldest, newest)),
        _ => Ok(first_major..=last_major),
    }
}

/// The newest candidate. ACT 4 instead of 5 if the file has all keys below, which ACT 5 no longer requires.
fn likeliest(lines: &LegacyLines, candidates: &RangeInclusive<u8>) -> u8 {
    let newest = *candidates.end();
    let mandatory_keys = [
        "num-queues",
        "threads-per-queue",
        "report-interval-sec",
        "large-block-op-kbytes",
        "record-bytes",
    ];
    if newest == 5 && candidates.contains(&4) && mandatory_keys.iter().all(|key| lines.has(key)) {
        4
    } else {
        newest
    }
}

#[cfg(test)]
mod tests;
