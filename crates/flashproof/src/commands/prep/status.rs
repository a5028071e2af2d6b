//! How far the preparation of one device is: told by its job, read by whoever draws it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Share of the newest interval in the rate: what is shown covers about the last two seconds.
const NEWEST: f64 = 0.05;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Not begun.
    Waiting,
    /// Discarding.
    Discard,
    /// Writing zeros.
    Zeros,
    /// Writing salt, of this number.
    Salt(u32),
    /// Reading back a sample.
    ReadBack,
    /// All done.
    Done,
    /// Broken off, by a failure or because it was asked for.
    BrokenOff,
}

/// How far a device is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    pub step: Step,
    /// Bytes of this step that are done, and all of them.
    pub done: u64,
    pub of: u64,
    /// Bytes of later steps.
    pub later: u64,
    /// Bytes a second; none before the first interval.
    pub rate: Option<f64>,
}

impl Status {
    /// Seconds until all steps are done, at this rate.
    pub fn left_s(&self) -> Option<u64> {
        let left = (self.of.saturating_sub(self.done) + self.later) as f64;
        self.rate.filter(|rate| *rate > 0.0).map(|rate| (left / rate) as u64)
    }

    /// Share of this step that is done, percent, rounded down.
    pub fn pct(&self) -> u64 {
        (u128::from(self.done) * 100).checked_div(self.of.into()).map_or(0, |pct| pct.min(100) as u64)
    }
}

/// A status that its job writes and others read.
#[derive(Debug, Clone, Default)]
pub struct Shared(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    now: Status,
    /// Steps that were begun, in order.
    begun: Vec<Step>,
}

impl Default for Inner {
    fn default() -> Self {
        Self { now: Status { step: Step::Waiting, done: 0, of: 0, later: 0, rate: None }, begun: Vec::new() }
    }
}

impl Shared {
    /// Begins a step of `of` bytes of which `done` are done; `later` are those of steps after it.
    pub fn begin(&self, step: Step, of: u64, done: u64, later: u64) {
        let mut inner = self.lock();
        inner.now = Status { step, done, of, later, rate: None };
        inner.begun.push(step);
    }

    /// Adds what an interval of `ns` did.
    pub fn add(&self, bytes: u64, ns: u64) {
        let status = &mut self.lock().now;
        status.done = status.of.min(status.done + bytes);
        if ns > 0 {
            let newest = bytes as f64 * 1e9 / ns as f64;
            status.rate = Some(status.rate.map_or(newest, |rate| rate + (newest - rate) * NEWEST));
        }
    }

    /// Sets what is done.
    pub fn set_done(&self, done: u64) {
        self.lock().now.done = done;
    }

    /// Ends the last step.
    pub fn end(&self, done: bool) {
        self.lock().now.step = if done { Step::Done } else { Step::BrokenOff };
    }

    /// As it is now.
    pub fn now(&self) -> Status {
        self.lock().now
    }

    /// Steps begun so far, in order.
    pub fn begun(&self) -> Vec<Step> {
        self.lock().begun.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_counts_the_passes_to_come() {
        let shared = Shared::default();
        shared.begin(Step::Zeros, 1_000, 200, 1_000);
        assert_eq!(shared.now().left_s(), None, "no rate yet");
        shared.add(300, 3_000_000_000);
        let now = shared.now();
        assert_eq!((now.done, now.pct(), now.rate, now.left_s()), (500, 50, Some(100.0), Some(15)));
        shared.add(0, 1_000_000_000);
        assert_eq!(shared.now().rate, Some(95.0));
    }
}
