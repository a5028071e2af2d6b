//! Checks that a model fits in memory before it is allocated: the kernel would kill the process otherwise.

use results::units;

/// More memory than there is.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{} of memory are needed, and {} are available", units::bytes(*.needed_bytes as f64), units::bytes(*.available_bytes as f64))]
pub struct Shortage {
    needed_bytes: u64,
    available_bytes: u64,
}

/// Refuses a need for more memory than is available; if the kernel does not report that, nothing is refused.
pub fn check(needed_bytes: u64) -> Result<(), Shortage> {
    match sys::buffer::available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => Err(Shortage { needed_bytes, available_bytes }),
        _ => Ok(()),
    }
}
