//! What the record of a device says of its preparation: what was wanted, how far it is, what was read
//! back.
//!
//! ```text
//! | pass 1: zeros | pass 2: salt | ... |     passes_done counts those that are over and synced;
//!           ^ mark_bytes                     of the one that was going on, all before the mark is
//! ```
//! The record is written only after a sync of the device, so what it claims survived whatever ended the
//! program. With seed, key and pass every byte below the mark can be computed again ([`crate::salt`]).

use super::preparation::{PREPARATION, Records, StateError};
use crate::discover::DeviceFacts;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The preparation of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Version of the program that began it.
    pub tool: String,
    /// The name under which the device was given.
    pub path: String,
    /// Serial number of the drive, where it tells one.
    pub serial: Option<String>,
    /// Size of the device or file.
    pub size_bytes: u64,
    /// What of it is prepared, from 0; later runs use no more.
    pub used_bytes: u64,
    /// Whether all of it was to be discarded first.
    pub discard_first: bool,
    /// Whether the part that is not used was discarded.
    pub rest_discarded: bool,
    /// Whether the first pass writes zeros.
    pub zeros: bool,
    /// Passes of salt.
    pub fills: u32,
    /// From which the salt follows.
    pub seed: u64,
    /// Beginning, seconds since 1970.
    pub started_unix_s: u64,
    /// End, seconds since 1970; none while it is not complete.
    pub ended_unix_s: Option<u64>,
    /// Passes that are complete and on the medium.
    pub passes_done: u32,
    /// Of the next pass, all before this byte is on the medium.
    pub mark_bytes: u64,
    /// What was read back last.
    pub sample: Option<Sampled>,
    /// What of this program wrote to the device after the preparation, so that its content is no longer
    /// known to the byte.
    pub written_since: Option<String>,
}

/// What was read back and compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Places.
    pub spots: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Places that were not as written.
    pub mismatches: u64,
    /// When, seconds since 1970.
    pub unix_s: u64,
}

impl Prepared {
    /// Number of passes.
    pub fn passes(&self) -> u32 {
        u32::from(self.zeros) + self.fills
    }

    /// Number of the salt that is written in pass `pass` (from 0); `None` for the pass of zeros.
    pub fn fill_of(&self, pass: u32) -> Option<u32> {
        // The first salt is number 1 with zeros before it and without.
        (pass + 1).checked_sub(u32::from(self.zeros)).filter(|fill| *fill > 0)
    }

    /// Whether it is complete.
    pub fn is_complete(&self) -> bool {
        self.ended_unix_s.is_some()
    }

    /// How far it is, in words.
    pub fn progress(&self) -> String {
        match self.is_complete() {
            true => "complete".to_owned(),
            false if self.passes_done >= self.passes() => {
                "after its last pass, before a sample was found as written".to_owned()
            }
            false => format!(
                "at byte {} of {} of pass {} of {}",
                self.mark_bytes,
                self.used_bytes,
                self.passes_done + 1,
                self.passes()
            ),
        }
    }

    /// Share of the device that is used, percent.
    pub fn use_pct(&self) -> f64 {
        self.used_bytes as f64 * 100.0 / self.size_bytes.max(1) as f64
    }
}

/// The part of a device that a preparation left for use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Bytes, from 0.
    pub(crate) used_bytes: u64,
    use_pct: f64,
}

impl Part {
    /// The part of the device that `facts` describe; `None` when all of it may be used.
    pub(crate) fn of(facts: &DeviceFacts, records: &Records) -> Option<Self> {
        let prepared = records.prepared(&facts.identity()?, facts.size_bytes)?;
        let used_bytes = prepared.used_bytes;
        (used_bytes < facts.size_bytes).then_some(Self { used_bytes, use_pct: prepared.use_pct() })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used_bytes, use_pct } = self;
        write!(
            f,
            "only its first {used_bytes} bytes ({use_pct:.1} %) are used, as it was prepared with --use-pct; prepare it without to use all"
        )
    }
}

impl Records {
    /// The preparation of the device `identity`, if there was one while it had `size_bytes`.
    pub fn prepared(&self, identity: &str, size_bytes: u64) -> Option<Prepared> {
        self.find(identity)?.prepared.filter(|prepared| prepared.size_bytes == size_bytes)
    }

    /// Keeps how a preparation goes. The record of the device itself exists already: consent made it.
    pub fn keep_prepared(&self, identity: &str, prepared: &Prepared) -> Result<(), StateError> {
        self.change(identity, |record| record.prepared = Some(prepared.clone()))
    }

    /// Keeps what was read back of `prepared`, and nothing else. Says whether that is still what is on
    /// record: if another preparation or a test came in between, nothing is changed.
    pub fn keep_sample(&self, identity: &str, prepared: &Prepared, sample: &Sampled) -> Result<bool, StateError> {
        let mut is_same = false;
        self.change(identity, |record| {
            let same = |now: &&mut Prepared| {
                (now.seed, now.started_unix_s, &now.written_since)
                    == (prepared.seed, prepared.started_unix_s, &prepared.written_since)
            };
            if let Some(now) = record.prepared.as_mut().filter(same) {
                now.sample = Some(sample.clone());
                is_same = true;
            }
        })?;
        Ok(is_same)
    }

    /// Notes that `what` is about to write to a device, so that its preparation, if there was one, no longer
    /// tells its content.
    pub(super) fn note_writing(&self, identity: &str, what: &str) -> Result<(), StateError> {
        let was_prepared = self.find(identity).is_some_and(|record| record.prepared.is_some());
        if what == PREPARATION || !was_prepared {
            return Ok(());
        }
        self.change(identity, |record| {
            if let Some(prepared) = &mut record.prepared {
                prepared.written_since = Some(what.to_owned());
            }
        })
    }

    /// The preparation begun last under the name `path`, and the identity of its device.
    pub fn last_under(&self, path: &str) -> Option<(String, Prepared)> {
        let under = self.all().into_iter().filter_map(|record| Some((record.identity, record.prepared?)));
        under.filter(|(_, prepared)| prepared.path == path).max_by_key(|(_, prepared)| prepared.started_unix_s)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn prepared(path: &str, started_unix_s: u64) -> Prepared {
        Prepared {
            tool: "flashproof 0".into(),
            path: path.into(),
            serial: None,
            size_bytes: 1000,
            used_bytes: 1000,
            discard_first: false,
            rest_discarded: false,
            zeros: true,
            fills: 2,
            seed: 9,
            started_unix_s,
            ended_unix_s: None,
            passes_done: 1,
            mark_bytes: 250,
            sample: None,
            written_since: None,
        }
    }

    #[test]
    fn passes_count_zeros_and_salt_has_the_same_number_without_them() {
        let with = prepared("x", 1);
        assert_eq!(with.passes(), 3);
        assert_eq!([0, 1, 2].map(|pass| with.fill_of(pass)), [None, Some(1), Some(2)]);
        let without = Prepared { zeros: false, ..with };
        assert_eq!([0, 1].map(|pass| without.fill_of(pass)), [Some(1), Some(2)]);
        assert_eq!(without.progress(), "at byte 250 of 1000 of pass 2 of 2");
    }

    #[test]
    fn a_preparation_is_found_by_device_and_size_and_the_last_one_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        for (identity, started) in [("serial a", 5), ("serial b", 7)] {
            records.keep(identity, 1000, "preparation").unwrap();
            records.keep_prepared(identity, &prepared("/dev/x", started)).unwrap();
        }
        assert_eq!(records.prepared("serial a", 1000), Some(prepared("/dev/x", 5)));
        assert_eq!(records.prepared("serial a", 2000), None);
        assert_eq!(records.last_under("/dev/x").unwrap().0, "serial b");
        assert!(records.last_under("/dev/y").is_none());
    }

    #[test]
    fn a_sample_changes_nothing_else_and_no_other_preparation() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let sample = Sampled { spots: 3, bytes: 4, mismatches: 0, unix_s: 5 };
        let read = prepared("/dev/x", 5);
        records.keep("serial a", 1000, "preparation").unwrap();
        let meanwhile = Prepared { mark_bytes: 777, ..read.clone() };
        records.keep_prepared("serial a", &meanwhile).unwrap();
        assert!(records.keep_sample("serial a", &read, &sample).unwrap());
        let expected = Prepared { sample: Some(sample.clone()), ..meanwhile };
        assert_eq!(records.prepared("serial a", 1000), Some(expected.clone()));

        let written = Prepared { written_since: Some("storage test".into()), ..read.clone() };
        for other in [Prepared { seed: 10, ..read.clone() }, prepared("/dev/x", 6), written] {
            records.keep_prepared("serial a", &other).unwrap();
            assert!(!records.keep_sample("serial a", &read, &sample).unwrap());
            assert_eq!(records.prepared("serial a", 1000), Some(other));
        }
    }

    #[test]
    fn a_run_that_writes_is_noted_and_a_preparation_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let key = records.keep("serial a", 1000, "preparation").unwrap();
        records.note_writing("serial a", "storage test").unwrap();
        records.keep_prepared("serial a", &prepared("/dev/x", 5)).unwrap();
        records.keep("serial a", 1000, "storage test").unwrap();
        records.note_writing("serial a", "preparation").unwrap();
        assert_eq!(records.prepared("serial a", 1000).unwrap().written_since, None);
        records.note_writing("serial a", "storage test").unwrap();
        assert_eq!(records.prepared("serial a", 1000).unwrap().written_since.as_deref(), Some("storage test"));
        records.note_writing("serial b", "storage test").unwrap();
        assert_eq!(records.find("serial a").unwrap().key, key);
    }
}
