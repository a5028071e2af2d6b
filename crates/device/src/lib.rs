//! Devices: how they are found, guarded, driven and watched.
//!
//! * [`op`]: an operation and its outcome
//! * [`world`]: the seam; a clock and all targets behind one interface
//! * [`uring`], [`threads`]: the real worlds; [`sim`]: the simulated one
//! * [`discover`]: what a device is; [`guard`]: whether it may be erased
//! * [`doctor`]: what about host and devices will spoil a result
//! * [`salt`]: the bytes that are written; [`random`]: where chance comes from
//! * [`observe`]: diskstats, block tracepoints, host facts
//! * [`sys`]: the only folder with `unsafe` code in the whole project

#![deny(unsafe_code)]

pub mod discover;
pub mod doctor;
pub mod guard;
pub mod observe;
pub mod op;
pub mod random;
pub mod salt;
pub mod sim;
pub mod sys;
pub mod target;
pub mod threads;
pub mod uring;
pub mod world;
