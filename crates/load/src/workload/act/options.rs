//! The option table: its columns, and how to look things up in it.
//!
//! The rows are in `table.rs`. A row says all there is to say about an option once: what may be
//! written, in which unit, what happens when nothing is, which program knew it first, and when to
//! change it. Nothing else in this crate repeats any of it.

use super::sizes::BUCKETS_MAX;
use super::table::TABLE;
pub use results::act_log::Test;
use std::fmt;

/// Which program knew an option first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// ACT 6.6 reads it.
    Act66,
    /// Only ACT 4 read it; using it is answered with a warning.
    Act4,
    /// The sizing paper announced it for ACT 4; no released ACT reads it. For histogram loads only.
    Paper,
    /// Ours: ACT refuses a file that has it.
    Flashproof,
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Act66 => "ACT 6.6",
            Self::Act4 => "ACT 4",
            Self::Paper => "the sizing paper",
            Self::Flashproof => "flashproof",
        })
    }
}

/// What may be written as the value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Device names separated by commas, semicolons or white space; at most [`DEVICES_MAX`].
    Devices,
    /// A whole number.
    Whole {
        /// Smallest allowed value, in the option's unit.
        min: u64,
        /// Largest allowed value, in the option's unit.
        max: u64,
        /// Whether it must be a power of two. Zero is fine where `min` allows it.
        power_of_two: bool,
    },
    /// Exactly `yes` or `no`.
    YesNo,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// Percentages of sizes over powers of two, at most [`BUCKETS_MAX`], that do not rise and end in 0.
    Histogram,
    /// One word of any kind; for keys that are read and ignored.
    Word,
}

/// Largest number of devices in one test. Source: ACT 6.6, `cfg_storage.h`.
pub const DEVICES_MAX: usize = 128;

/// Longest name of a device, in bytes: `PATH_MAX` of Linux. ACT 6.6 takes 127.
pub const DEVICE_NAME_BYTES_MAX: usize = 4095;

/// One option: a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// The key, as written in a file.
    pub name: &'static str,
    /// Unit of the value, empty where it has none.
    pub unit: &'static str,
    /// What may be written.
    pub kind: Kind,
    /// Value when the key is missing, as text for people. The text parses to the default value
    /// unless the option has none.
    pub default: Default,
    /// The program that knew it first.
    pub since: Since,
    /// The tests that read it.
    pub tests: &'static [Test],
    /// The effect in one line.
    pub help: &'static str,
    /// When to change it, and what to know before.
    pub advice: &'static str,
}

/// What happens when a key is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// The file is refused. The text is an example value.
    Mandatory(&'static str),
    /// This value is used.
    Value(&'static str),
    /// The option counts as not set, and `what` then happens. Writing `word` says the same.
    Unset {
        /// The word or number that stands for "not set" in a file, if there is one.
        word: Option<&'static str>,
        /// What then happens.
        what: &'static str,
    },
}

impl OptionSpec {
    /// The word or number that stands for "not set" in a file.
    pub(crate) fn unset_word(&self) -> Option<&'static str> {
        match self.default {
            Default::Unset { word, .. } => word,
            _ => None,
        }
    }

    /// Whether it says nothing in a load without histograms.
    pub(crate) fn is_of_histograms(&self) -> bool {
        self.since == Since::Paper || self.name == "size-within-bucket"
    }

    /// Allowed values, as text: `0 to 100`, `yes, no`.
    pub fn range(&self) -> String {
        match self.kind {
            Kind::Devices => format!("1 to {DEVICES_MAX} names"),
            Kind::Whole { min, max, power_of_two } => {
                let min = if self.unset_word() == Some("0") { 0 } else { min };
                format!("{min} to {max}{}", if power_of_two { ", a power of two" } else { "" })
            }
            Kind::YesNo => "yes, no".into(),
            Kind::Choice(words) => words.join(", "),
            Kind::Histogram => format!("up to {BUCKETS_MAX} percentages, the last 0"),
            Kind::Word => "any word".into(),
        }
    }

    /// What to write, as the end of a sentence that starts with "give".
    pub fn wanted(&self) -> String {
        match self.kind {
            Kind::Devices => format!("1 to {DEVICES_MAX} device names separated by commas or spaces"),
            Kind::Whole { min, max, power_of_two } => {
                let number = if power_of_two { "a power of two" } else { "a whole number" };
                let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
                let zero = power_of_two && min == 0 || self.unset_word() == Some("0");
                let zero = if zero { "0 or " } else { "" };
                let min = if power_of_two { min.max(1) } else { min };
                format!("{zero}{number} from {min} to {max}{unit}")
            }
            Kind::YesNo => "yes or no".into(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Histogram => format!(
                "1 to {BUCKETS_MAX} percentages separated by commas, of the sizes over 1, 2, 4, ... bytes, that do not \
                 rise and end in 0"
            ),
            Kind::Word => "one word".into(),
        }
    }
}

/// All options, of whatever test.
pub(crate) fn all() -> impl Iterator<Item = &'static OptionSpec> {
    TABLE.iter()
}

/// The options that `test` reads, in the order in which ACT prints them, then ours.
pub fn options_of(test: Test) -> impl Iterator<Item = &'static OptionSpec> {
    TABLE.iter().filter(move |spec| spec.tests.contains(&test))
}

/// The option of `test` with exactly this name.
pub fn find(test: Test, name: &str) -> Option<&'static OptionSpec> {
    options_of(test).find(|spec| spec.name == name)
}

/// The name of `test` that someone who wrote `unknown` most likely meant.
///
/// `None` when nothing is close: more than a third of the letters would have to change and no name
/// begins with it. Case and `_` for `-` do not count as mistakes.
pub fn nearest(test: Test, unknown: &str) -> Option<&'static str> {
    let meant = unknown.to_lowercase().replace('_', "-");
    let begins = |name: &str| meant.len() >= 4 && name.starts_with(&meant);
    options_of(test)
        .map(|spec| (if begins(spec.name) { 1 } else { edit_distance(&meant, spec.name) }, spec.name))
        .filter(|(distance, name)| distance * 3 <= name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Number of characters to insert, delete or replace to turn `a` into `b` (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    // Nothing that long is near any name, and the work grows with the product of the lengths.
    const LEN_MAX: usize = 64;
    if a.len() > LEN_MAX {
        return a.len();
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_single_character_changes() {
        for (a, b, distance) in [("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("ab", "ba", 2)] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }

    #[test]
    fn a_slip_finds_its_key_and_nonsense_finds_none() {
        let near = |name| nearest(Test::Storage, name);
        assert_eq!(near("recod-bytes"), Some("record-bytes"));
        assert_eq!(near("read_reqs_per_sec"), Some("read-reqs-per-sec"));
        assert_eq!(near("Test-Duration-Sec"), Some("test-duration-sec"));
        assert_eq!(near("device-name"), Some("device-names"));
        assert_eq!(near("write-reqs"), Some("write-reqs-per-sec"));
        assert_eq!(near("defrag-lwm"), Some("defrag-lwm-pct"));
        assert_eq!(near("bananas"), None);
        assert_eq!(near("x"), None);
        assert_eq!(near(&"y".repeat(5000)), None);
    }

    #[test]
    fn names_are_unique_and_texts_are_one_line() {
        let mut names: Vec<_> = TABLE.iter().map(|spec| spec.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for spec in TABLE {
            assert!(!spec.help.is_empty() && !spec.help.contains('\n'), "{}", spec.name);
            assert!(!spec.advice.is_empty() && !spec.advice.contains('\n'), "{}", spec.name);
            assert!(!spec.tests.is_empty(), "{}", spec.name);
        }
    }
}
