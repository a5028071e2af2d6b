//! The inside of an SSD: a flash translation layer (FTL), which maps host writes to flash.
//!
//! ```text
//! host writes units of the logical space -> map -> append points (one per handle) -> superblocks
//!                                           garbage collection: victim -> its valid units -> append point
//! ```
//!
//! Pure and deterministic: no clock, no device, all randomness from a seed. The counters are those of NVMe's FDP
//! statistics. A [`FlashObserver`] observes the operations on the flash.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

mod collect;
mod drive;
mod map;
pub mod over_provisioning;
mod spec;
mod victims;

pub use drive::{FlashExtent, FlashObserver, Ftl, ProgramCause};
pub use spec::{Append, Isolation, Spec, SpecError, Victim};
