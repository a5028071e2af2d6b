//! Size and clock of an engine.

use std::time::Instant;
use sys::process::monotonic_ns;

/// Size and clock of an engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineSetup {
    /// Maximum number of operations in flight.
    pub in_flight_max: usize,
    /// Bytes of buffers for operations on devices.
    pub memory_bytes: usize,
    /// Instant 0 of the clock (CLOCK_MONOTONIC).
    pub epoch: Instant,
    /// Negligible detection delay, ns. After a shorter wait, an engine does not look up the run delay of its thread.
    pub harmless_gap_ns: u64,
}

impl EngineSetup {
    /// A setup whose clock begins now, without a negligible detection delay.
    pub fn new(in_flight_max: usize, memory_bytes: usize) -> Self {
        Self {
            in_flight_max,
            memory_bytes,
            epoch: Instant::now(),
            harmless_gap_ns: 0,
        }
    }

    #[inline]
    pub(crate) fn clock_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// `CLOCK_MONOTONIC` at instant 0.
    pub(crate) fn epoch_ns(&self) -> u64 {
        monotonic_ns() - self.clock_ns()
    }
}
