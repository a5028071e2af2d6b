//! Verification of the records that are read: each must completely hold one of the possible writes of its key. Each key
//! has one issuer, which sends one write of the key at a time, and so knows which writes of the key were sent,
//! acknowledged, and in doubt.

use crate::ResultCode;
use crate::object::{NUMBER_MAX, RecordSpec};
use results::judge::{RecordsRead, Refused};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use sys::op::{Outcome, WrongRecord};

/// Counts of the records that the issuers of a run read, and of those that failed the verification.
#[derive(Debug, Default)]
pub struct Verification {
    is_on: bool,
    records: AtomicU64,
    refused: Mutex<Refused>,
}

impl Verification {
    /// With `is_on`, records that are read are verified, too.
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns the counts of the run that ends now, and resets them.
    pub fn take(&self) -> RecordsRead {
        let refused =
            std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        RecordsRead {
            records: self.records.swap(0, Ordering::Relaxed),
            refused: self.is_on.then_some(refused),
        }
    }
}

/// The possible writes of each key of one issuer. No other issuer writes these keys.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    verification: Arc<Verification>,
    /// Without verification: number of the last write of any key.
    writes: u32,
    keys: HashMap<u64, Writes>,
    /// Writes without an answer, or whose answer leaves the outcome open, by key. Each may have been executed, or may
    /// still be executed.
    in_doubt: HashMap<u64, Vec<u32>>,
    /// Tokens of writes that wait for an earlier write of their key.
    waiting: HashMap<u64, VecDeque<u32>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Writes {
    sent: u32,
    acknowledged: u32,
    /// True if the last write sent has no answer yet.
    is_in_flight: bool,
    /// True if a wrong record was counted since the last acknowledged write.
    is_refused: bool,
}

impl Verifier {
    pub(crate) fn new(verification: Arc<Verification>) -> Self {
        Self {
            verification,
            ..Self::default()
        }
    }

    /// Number of a new write of `key`. `None`: another write of the key is in flight, and the new write, `token`, has
    /// to wait. With two writes in flight, the order of their execution would be unknown.
    pub(crate) fn begin_write(&mut self, key: u64, token: u32) -> Option<u32> {
        if !self.verification.is_on {
            self.writes = self.writes.wrapping_add(1);
            return Some(self.writes);
        }
        let writes = self.keys.entry(key).or_default();
        if writes.is_in_flight {
            self.waiting.entry(key).or_default().push_back(token);
            return None;
        }
        writes.is_in_flight = true;
        // No benchmark writes a key `NUMBER_MAX` times.
        writes.sent = (writes.sent + 1).min(NUMBER_MAX);
        Some(writes.sent)
    }

    /// Handles the answer to a write. `in_doubt`: the write may still be executed. Returns the token of the
    /// key's next waiting write.
    pub(crate) fn end_write(&mut self, key: u64, is_done: bool, in_doubt: bool) -> Option<u32> {
        let writes = self.keys.get_mut(&key)?;
        writes.is_in_flight = false;
        if is_done {
            writes.acknowledged = writes.sent;
            writes.is_refused = false;
        } else if in_doubt {
            self.in_doubt.entry(key).or_default().push(writes.sent);
        }
        let waiting = self.waiting.get_mut(&key)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&key);
        }
        next
    }

    /// The last acknowledged write of `key`: a read that begins now must return this write or a later write.
    pub(crate) fn acknowledged(&self, key: u64) -> u32 {
        self.keys.get(&key).map_or(0, |writes| writes.acknowledged)
    }

    /// Outcome of a read of `key` that began when `acknowledged` was the last acknowledged write.
    pub(crate) fn check(
        &mut self,
        object: &RecordSpec,
        (key, acknowledged): (u64, u32),
        (outcome, bins): (Outcome, &[u8]),
    ) -> Outcome {
        if outcome.is_done() {
            self.verification.records.fetch_add(1, Ordering::Relaxed);
        }
        if !self.verification.is_on {
            return outcome;
        }
        let sent = self.keys.get(&key).map_or(0, |writes| writes.sent);
        let wrong = match outcome {
            Outcome::Done => self.wrong(object, (key, acknowledged, sent), bins),
            // If no write is acknowledged yet, the first write may be in doubt, and the record need not exist.
            Outcome::Result(code)
                if code == ResultCode::NOT_FOUND.0 && (acknowledged > 0 || sent == 0) =>
            {
                Some(WrongRecord::Missing { acknowledged })
            }
            _ => None,
        };
        let Some(wrong) = wrong else { return outcome };
        let is_counted = &mut self.keys.entry(key).or_default().is_refused;
        if !std::mem::replace(is_counted, true) {
            let mut refused = self
                .verification
                .refused
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *match wrong {
                WrongRecord::Old { .. } => &mut refused.old,
                WrongRecord::Missing { .. } => &mut refused.missing,
                WrongRecord::Foreign => &mut refused.foreign,
                WrongRecord::Torn { .. } => &mut refused.torn,
            } += 1;
        }
        Outcome::Wrong { key, wrong }
    }

    fn wrong(
        &self,
        object: &RecordSpec,
        (key, acknowledged, sent): (u64, u32, u32),
        bins: &[u8],
    ) -> Option<WrongRecord> {
        let (began, write_number) = match object.written(key, bins) {
            Ok(written) => written,
            Err(WrongRecord::Foreign) => {
                // The damage may be in the stamp itself.
                let writes = [acknowledged, sent].into_iter().filter(|write| *write > 0);
                let torn = writes
                    .filter_map(|write| object.torn_write(key, write, bins))
                    .next();
                return Some(torn.unwrap_or(WrongRecord::Foreign));
            }
            Err(torn) => return Some(torn),
        };
        let is_earlier = began < object.began;
        if !is_earlier && (write_number == 0 || write_number > sent) {
            // The record comes from a write that this run never sent.
            Some(WrongRecord::Foreign)
        } else if is_earlier && acknowledged == 0 {
            None
        } else if is_earlier {
            Some(WrongRecord::Old {
                acknowledged,
                found: 0,
            })
        } else if write_number >= acknowledged
            || self
                .in_doubt
                .get(&key)
                .is_some_and(|of| of.contains(&write_number))
        {
            None
        } else {
            Some(WrongRecord::Old {
                acknowledged,
                found: write_number,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ValueType;
    use crate::ops;
    use crate::testing::records;
    use results::testing::modified;

    fn object() -> RecordSpec {
        records(2, ValueType::Blob(64))
    }

    /// A verifier with acknowledged writes of key 5.
    struct Bench {
        object: RecordSpec,
        verifier: Verifier,
    }

    impl Bench {
        fn new(acknowledged: u32) -> Self {
            let mut verifier = Verifier::new(Arc::new(Verification::new(true)));
            for write in 1..=acknowledged {
                assert_eq!(verifier.begin_write(5, 0), Some(write));
                verifier.end_write(5, true, false);
            }
            Self {
                object: object(),
                verifier,
            }
        }

        fn check(&mut self, bins: &[u8]) -> Option<WrongRecord> {
            let begun = (5, self.verifier.acknowledged(5));
            match self
                .verifier
                .check(&self.object, begun, (Outcome::Done, bins))
            {
                Outcome::Done => None,
                Outcome::Wrong { key: 5, wrong } => Some(wrong),
                other => panic!("{other:?}"),
            }
        }

        fn check_write(&mut self, write: u32) -> Option<WrongRecord> {
            let bins = self.object.ops(5, write);
            self.check(&bins)
        }
    }

    #[test]
    fn a_record_older_than_the_acknowledged_write_is_reported_unless_in_doubt() {
        let mut bench = Bench::new(0);
        assert_eq!(bench.verifier.begin_write(5, 0), Some(1));
        assert_eq!(bench.verifier.begin_write(5, 1), None, "one at a time");
        assert_eq!(
            bench.check_write(1),
            None,
            "it may be done before it is answered"
        );
        assert_eq!(bench.verifier.end_write(5, true, false), Some(1));
        assert_eq!(bench.verifier.begin_write(5, 1), Some(2));
        assert_eq!(bench.check_write(1), None);
        assert_eq!(bench.verifier.end_write(5, false, true), None);
        assert_eq!(bench.check_write(1), None);
        assert_eq!(bench.check_write(2), None, "nobody knows");
        assert_eq!(bench.verifier.begin_write(5, 2), Some(3));
        bench.verifier.end_write(5, true, false);
        assert_eq!(bench.check_write(2), None, "it may be done late");
        assert_eq!(
            bench.check_write(1),
            Some(WrongRecord::Old {
                acknowledged: 3,
                found: 1
            })
        );
        assert_eq!(
            bench.check_write(4),
            Some(WrongRecord::Foreign),
            "never written"
        );
    }

    #[test]
    fn old_missing_foreign_and_torn_records_are_counted_separately_and_once() {
        let mut bench = Bench::new(3);
        let earlier = modified(object(), |it| it.began = 160_000_000_000);
        assert_eq!(
            bench.check(&earlier.ops(5, 9)),
            Some(WrongRecord::Old {
                acknowledged: 3,
                found: 0
            })
        );
        assert_eq!(
            bench.check_write(2),
            Some(WrongRecord::Old {
                acknowledged: 3,
                found: 2
            })
        );
        assert_eq!(
            bench.check(&earlier.ops(6, 9)),
            Some(WrongRecord::Foreign),
            "another key"
        );
        let noise = ops::entries(&bench.object.ops(5, 3)).fold(Vec::new(), |mut bins, entry| {
            ops::put(
                &mut bins,
                &ops::BinEntry {
                    value: &[0x5a; 64],
                    ..entry
                },
            );
            bins
        });
        assert_eq!(bench.check(&noise), Some(WrongRecord::Foreign));
        let third = bench.object.ops(5, 3);
        let second = bench.object.ops(5, 2);
        // Header and name of a bin are 12 bytes.
        for (cut, torn_bin) in [(12 + 40, 1), (12 + 64, 2)] {
            let mixed = [&third[..cut], &second[cut..]].concat();
            let found = bench.check(&mixed);
            assert!(
                matches!(found, Some(WrongRecord::Torn { bin, .. }) if bin == torn_bin),
                "{cut}: {found:?}"
            );
        }
        let mut damaged = third.clone();
        for at in [12, 88] {
            damaged[at] ^= 0x80;
        }
        let found = bench.check(&damaged);
        assert!(
            matches!(found, Some(WrongRecord::Torn { bin: 1, at: 0, .. })),
            "in both stamps: {found:?}"
        );
        let missing = Outcome::Result(ResultCode::NOT_FOUND.0);
        for (key, acknowledged) in [(5, 3), (8, 0)] {
            let outcome = bench
                .verifier
                .check(&bench.object, (key, acknowledged), (missing, &[]));
            assert_eq!(
                outcome,
                Outcome::Wrong {
                    key,
                    wrong: WrongRecord::Missing { acknowledged }
                }
            );
        }
        assert_eq!(bench.verifier.begin_write(9, 0), Some(1));
        bench.verifier.end_write(9, false, true);
        assert_eq!(
            bench.verifier.check(&bench.object, (9, 0), (missing, &[])),
            missing,
            "in doubt"
        );
        assert_eq!(bench.verifier.begin_write(5, 0), Some(4));
        bench.verifier.end_write(5, true, false);
        assert!(bench.check_write(3).is_some() && bench.check_write(4).is_none());
        let counts = bench.verifier.verification.take().refused;
        assert_eq!(
            counts,
            Some(Refused {
                old: 2,
                missing: 1,
                ..Refused::default()
            }),
            "of keys 5 and 8"
        );
        assert_eq!(
            bench.verifier.verification.take().refused,
            Some(Refused::default()),
            "of the next run"
        );
    }

    #[test]
    fn records_of_an_earlier_run_are_valid_until_they_are_overwritten() {
        let mut bench = Bench::new(0);
        let earlier = modified(object(), |it| it.began = 160_000_000_000);
        assert_eq!(bench.check(&earlier.ops(5, 9)), None);
    }
}
