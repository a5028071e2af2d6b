//! What differs between the logs of ACT 3 and 4, 5, and 6.
//!
//! The reports are the same but for their first line, the length of a queue that ACT 6 no longer has,
//! and the names of histograms, which ACT 3 and 4 pad with blanks and list nowhere else. Source: the
//! `act.c` of ACT 3.0 and 4.0, `src/storage/act_storage.c` of ACT 5.0 to 6.6.

use super::number;

/// Histograms that ACT 6.1 names and does not report.
const NAMED_IN_VAIN: [&str; 2] = ["device-reads", "device-writes"];

/// A generation of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// ACT 3 and 4: `Aerospike act version`.
    Act3,
    /// ACT 5.
    Act5,
    /// ACT 6.1.
    Act6Point1,
    /// ACT 6 apart from 6.1, and our own logs.
    Act6,
}

impl Dialect {
    /// What begins the line with the version in ACT 5 and 6, and before.
    pub(super) const VERSION: &str = "ACT version ";
    pub(super) const OLD_VERSION: &str = "Aerospike act version ";

    /// The dialect of a version; `None` when it is not known.
    pub(super) fn of(version: &str, old_banner: bool) -> Option<Self> {
        let (major, minor) = version.split_once('.')?;
        number(minor)?;
        match (number(major)?, old_banner) {
            (3 | 4, true) => Some(Self::Act3),
            (5, false) => Some(Self::Act5),
            (6, false) if minor == "1" => Some(Self::Act6Point1),
            (6, false) => Some(Self::Act6),
            _ => None,
        }
    }

    /// The beginning of a report's first line, before its time.
    pub(super) fn after(self) -> &'static str {
        if self == Self::Act3 { "After " } else { "after " }
    }

    /// Whether the names of the histograms stand in the reports alone.
    pub(super) fn names_stand_in_reports(self) -> bool {
        self == Self::Act3
    }

    /// The histograms that are reported, of those that the header names.
    pub(super) fn names(self, named: &[String]) -> Vec<String> {
        let reported = |name: &&String| self != Self::Act6Point1 || !NAMED_IN_VAIN.contains(&name.as_str());
        named.iter().filter(reported).cloned().collect()
    }

    /// Whether a report's line is the length of a queue.
    pub(super) fn is_queue_length(self, line: &str) -> bool {
        matches!(self, Self::Act3 | Self::Act5)
            && ["requests-queued: ", "requests queued: ", "read-reqs queued: "].iter().any(|tag| line.starts_with(tag))
    }

    /// Name and total of a histogram, by its first line.
    pub(super) fn total(self, line: &str) -> Option<(&str, u64)> {
        let (name, total) = line.strip_suffix(" total)")?.rsplit_once(" (")?;
        let name = if self == Self::Act3 { name.trim_end_matches(' ') } else { name };
        Some((name, number(total)?))
    }
}
