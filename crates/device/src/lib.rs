//! A drive: how it is found, guarded and watched.
//!
//! * [`discover`]: what a device is; [`guard`]: whether it may be erased; [`target`]: a device, open;
//!   [`generic`]: the character device beside it
//! * [`doctor`]: what about host and devices will spoil a result
//! * [`salt`]: the bytes that are written
//! * [`observe`]: diskstats, block tracepoints, host facts
//!
//! Simulated drives are the engine's: nothing here knows of them.

#![forbid(unsafe_code)]

pub mod discover;
pub mod doctor;
pub mod generic;
pub mod guard;
pub mod observe;
pub mod salt;
pub mod target;
