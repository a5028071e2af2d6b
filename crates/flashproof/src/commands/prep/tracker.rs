//! What a run tells while it goes on: progress for the screen and for the record, and the first failure.
//!
//! It is called on the job's thread, beside the one that issues: a sync delays no write.

use super::ledger::{Broken, Ledger};
use super::status::Shared;
use device::guard::Prepared;
use load::run::{Failure, Sink, SinkError};
use results::cell::Interval;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Takes what a run yields: progress for the screen and for the record, and the first failure.
pub struct Tracker<'a> {
    prepared: &'a mut Prepared,
    ledger: &'a Ledger,
    status: &'a Shared,
    mark: Option<&'a AtomicU64>,
    recorded: Instant,
    /// End of the last interval, by the run's clock.
    pub ended_ns: u64,
    /// The first operation that failed.
    pub failure: Option<String>,
    /// Why recording failed.
    pub broken: Option<Broken>,
}

impl<'a> Tracker<'a> {
    /// A tracker of a run on the device of `prepared`. With a `mark` it records how far that is.
    pub fn new(
        prepared: &'a mut Prepared,
        ledger: &'a Ledger,
        status: &'a Shared,
        mark: Option<&'a AtomicU64>,
    ) -> Self {
        Self { prepared, ledger, status, mark, recorded: Instant::now(), ended_ns: 0, failure: None, broken: None }
    }
}

impl Sink for Tracker<'_> {
    fn ready(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        let bytes = interval.cells.iter().map(|cell| cell.bytes).sum();
        self.status.add(bytes, interval.end_ns.saturating_sub(self.ended_ns));
        self.ended_ns = interval.end_ns;
        let Some(mark) = self.mark.map(|mark| mark.load(Ordering::Acquire)) else { return Ok(()) };
        if self.recorded.elapsed() < self.ledger.every || self.ledger.target.is_none() {
            return Ok(());
        }
        // What the mark says was written before the sync in there.
        let kept = self.ledger.checkpoint(self.prepared, mark);
        self.recorded = Instant::now();
        kept.map_err(|broken| {
            let why = format!("{broken:?}");
            self.broken = Some(broken);
            why.into()
        })
    }

    fn failure(&mut self, failure: &Failure) {
        let Failure { kind, offset, len, error, .. } = failure;
        let kind = format!("{kind:?}").to_lowercase();
        let line = || format!("{kind} of {len} bytes at byte {offset} of {} failed: {error}", self.prepared.path);
        self.failure.get_or_insert_with(line);
    }

    fn idle(&mut self) {}
}
