//! Oddities of a log: each kind once, with its count and first position.

use results::units::{count, quoted};
use std::collections::BTreeMap;

/// Characters of a line that a remark quotes.
const QUOTED_CHARS: usize = 80;

/// A kind of what is strange. In the order of remarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A line with neither a stamp nor what one would continue.
    Unstamped,
    /// A histogram without all of its buckets.
    IncompleteDump,
    /// A histogram whose buckets count a little less or more than its total.
    UnevenDump,
    /// Buckets before any histogram.
    LostBuckets,
    /// A line of a histogram or a drive that does not read.
    Unread,
    /// A histogram in a unit that is not known.
    UnknownUnit,
    /// A histogram in another unit than before.
    UnitChanged,
    /// Counts whose time is not later than that of the last ones.
    NotLater,
    /// Lines of two files in one.
    Joined,
    /// A line of a histogram or a drive that is there twice in a row.
    Repeated,
}

impl Kind {
    fn text(self, number: u64) -> String {
        let (what, then) = match self {
            Self::Unstamped => ("line", "without a time, left out"),
            Self::IncompleteDump => ("histogram", "without all of its buckets, left out"),
            Self::UnevenDump => {
                ("histogram", "whose buckets differ from its total by less than 0.1 %, used as printed")
            }
            Self::LostBuckets => ("line", "of buckets without the line that names their histogram, left out"),
            Self::Unread => ("line", "of a histogram or a drive that cannot be read, left out"),
            Self::UnknownUnit => ("histogram", "in a unit that is not known, left out"),
            Self::UnitChanged => ("histogram", "in another unit than before, each read in its own"),
            Self::NotLater => (
                "histogram or drive line",
                "not later than the one before (the clock went back, or the \
                                log is there twice), left out",
            ),
            Self::Repeated => ("line", "of a histogram or a drive, equal to the one before, left out"),
            Self::Joined => ("line", "in two parts, at the end of a file and the begin of the next, joined"),
        };
        format!("{} {then}", count(number, what))
    }
}

/// Position of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub file: &'a str,
    pub line: u64,
}

#[derive(Debug, Default)]
pub(super) struct Strange {
    kinds: BTreeMap<Kind, (u64, String)>,
    /// Of a kind that is there once, as a sentence.
    said: Vec<String>,
    left_out: u64,
}

/// Most sentences that are kept.
const SAID_MAX: usize = 200;

impl Strange {
    /// Counts one of `kind`, and keeps where the first one was.
    pub(super) fn count(&mut self, kind: Kind, place: Place<'_>, what: &[u8]) {
        let (number, _) = self.kinds.entry(kind).or_insert_with(|| {
            let text: String = String::from_utf8_lossy(what).chars().take(QUOTED_CHARS).collect();
            (0, format!("{} line {}: {}", place.file, place.line, quoted(&text)))
        });
        *number += 1;
    }

    /// Number of oddities of `kind`.
    pub(super) fn number(&self, kind: Kind) -> u64 {
        self.kinds.get(&kind).map_or(0, |(number, _)| *number)
    }

    /// Adds a remark.
    pub(super) fn say(&mut self, sentence: String) {
        match self.said.len() < SAID_MAX {
            true => self.said.push(sentence),
            false => self.left_out += 1,
        }
    }

    pub(super) fn remarks(self) -> Vec<String> {
        let mut remarks = self.said;
        if self.left_out > 0 {
            remarks.push(format!("and {} more of such remarks", self.left_out));
        }
        remarks.extend(
            self.kinds.into_iter().map(|(kind, (number, first))| format!("{}; the first: {first}", kind.text(number))),
        );
        remarks
    }
}
