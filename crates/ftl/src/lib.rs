//! The inside of an SSD: a flash translation layer, and what it makes of the writes of a host.
//!
//! ```text
//! host writes units of the logical space -> map -> append points (one a handle) -> superblocks
//!                                           garbage collection: victim -> its valid units -> append point
//! ```
//!
//! Pure and deterministic: no clock, no device; all chance comes from a seed. It counts what NVMe's FDP statistics
//! do. Whoever wants to know what is done to the flash, and in which order, gives a [`Media`].

#![forbid(unsafe_code)]

mod check;
mod collect;
mod drive;
mod map;
mod media;
pub mod over_provisioning;
mod spec;
mod valid;
mod victim;
mod wear;

pub use drive::Ftl;
pub use media::{Cause, Extent, Media};
pub use spec::{Append, Firmware, Isolation, Spec, SpecError, Victim};
