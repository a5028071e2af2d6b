//! What load to put on a device, and the loop that puts it there.
//!
//! * [`act`]: ACT's configuration dialect: the option table, parsing, checking, derived rates
//! * [`rate`]: exact rates
#![forbid(unsafe_code)]

pub mod act;
pub mod rate;
