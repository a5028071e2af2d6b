//! Turns expired records into tombstones, a part of the index at a time: an older version with a longer life may still
//! be on the device.

use super::transact::tombstone;
use super::{NOBODY, Store};
use crate::{Disk, Reply, ResultCode};

/// Entries that are looked at in one turn.
const TURN: u32 = 2_000;

/// Until the next turn of a search.
const PAUSE_NS: u64 = 1_000_000;

/// A search through the index.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// The next entry to look at.
    next: u32,
    next_ns: u64,
}

impl Store {
    /// Continues the search. Returns the time of the next step.
    pub(super) fn expire(&mut self, disk: &mut impl Disk) -> u64 {
        let (now, period) = (disk.now_ns(), u64::from(self.namespace.nsup_period_sec));
        if period == 0 || self.draining {
            return u64::MAX;
        }
        if now < self.expiry.next_ns {
            return self.expiry.next_ns;
        }
        let (begin, now_sec) = (self.expiry.next, self.now_sec(now));
        let end = self.index.end().min(begin.saturating_add(TURN));
        let mut refused = None;
        for number in begin..end {
            let over = |void_time| void_time != 0 && void_time <= now_sec;
            let entry = self.index.nth(number).filter(|entry| over(entry.void_time) && !entry.is_tombstone());
            let Some(entry) = entry.copied() else { continue };
            let digest = entry.digest;
            if self.busy.contains_key(&digest) {
                continue;
            }
            // Just above the record's: the other node may know of a write after that, by another clock.
            let body = self.tombstone_body(&digest);
            let tombstone = tombstone(digest, entry.version + 1, entry.generation, &body);
            self.version = self.version.max(tombstone.version);
            if self.save(NOBODY, &tombstone, false, Reply::of(ResultCode::OK), now).is_err() {
                refused = Some(number);
                break;
            }
            self.statistics.expired += 1;
        }
        self.expiry.next = refused.unwrap_or(end);
        self.expiry.next_ns = now + PAUSE_NS;
        if end == self.index.end() && refused.is_none() {
            self.expiry = Expiry { next: 0, next_ns: now + period * 1_000_000_000 };
        }
        self.expiry.next_ns
    }
}
