//! Behaviour of a benchmark when a device is overloaded (code 18): a measurement counts a failure; an insertion waits
//! and retries, as Aerospike's clients with retries do.
//!
//! A server answers at once and does not queue, so that clients notice the overload; an insertion then runs at the
//! drive's speed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Delay before the first retry, and the maximum, ns. Each delay is twice the previous one.
const PAUSES_NS: std::ops::RangeInclusive<u64> = 1_000_000..=64_000_000;

/// A transaction that waits for longer fails: the drive hangs.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Overload behaviour of issuers on several threads, and its statistics.
#[derive(Debug, Default)]
pub struct Overload {
    waits: AtomicBool,
    waited: AtomicU64,
}

impl Overload {
    /// True from now on: transactions wait.
    pub fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Number of transactions that waited.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

/// Waiting transactions of one issuer.
#[derive(Debug)]
pub(crate) struct Held {
    overload: Arc<Overload>,
    /// When each is due, and its token.
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Held {
    pub(crate) fn new(overload: Arc<Overload>) -> Self {
        Self { overload, due: BinaryHeap::new() }
    }

    /// Holds `token` back, which was issued then and held so often before. `false`: it has failed.
    pub(crate) fn hold(&mut self, token: u32, before: u32, issued_ns: u64, now_ns: u64) -> bool {
        if !self.overload.waits.load(Ordering::Relaxed) || now_ns.saturating_sub(issued_ns) > PATIENCE_NS {
            return false;
        }
        self.overload.waited.fetch_add(u64::from(before == 0), Ordering::Relaxed);
        let pause_ns = (PAUSES_NS.start() << before.min(32)).min(*PAUSES_NS.end());
        self.due.push(Reverse((now_ns + pause_ns, token)));
        true
    }

    /// Takes a transaction that is due.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<u32> {
        self.due.peek().filter(|Reverse((due_ns, _))| *due_ns <= now_ns)?;
        self.due.pop().map(|Reverse((_, token))| token)
    }

    /// Time at which the next is due, nanoseconds.
    pub(crate) fn next_ns(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns)
    }
}
