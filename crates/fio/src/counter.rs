//! Counters of one thread that other threads read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread changes while others read it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets the counter to `value`, if that is greater.
    #[inline]
    pub(super) fn raise(&self, value: u64) {
        self.set(self.get().max(value));
    }

    #[inline]
    pub(super) fn add(&self, value: u64) {
        self.set(self.get() + value);
    }
}
