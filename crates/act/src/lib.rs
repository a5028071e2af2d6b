//! ACT's configuration dialect, and its two tests: from the bytes of a file to the shards' lanes.
//!
//! ```text
//! bytes --dialect--> lines --parse--> ActConfig --check, rates--> ActWorkload --build--> streams, lanes
//!                               |                                     |
//!                             table (one row per option)            echo: what ACT 6.6 prints of both
//! ```
//!
//! The main idea: [`table`] declares each option once, and the configuration, parsing, checking, the echo, the help
//! text and the option reference follow from it. The configuration as given ([`ActConfig`]) and the load that runs
//! ([`Derived`]) are separate types, and everything here is pure: no file, device or clock is touched.
//!
//! Each module uses the modules above it:
//!
//! * [`dialect`]: a file as lines of key and value; [`sizes`]: sizes as a live database counted them
//! * [`problem`]: all errors, one line each
//! * [`options`]: the columns of the option table; [`table`]: its rows; [`config`]: the configuration
//! * [`check`](mod@check): rules for every file; [`rates`]: values derived from a configuration
//! * [`parse`](mod@parse): reads a file, reports every mistake in it
//! * [`echo`]: a configuration in ACT's log and as files; [`reference`](mod@reference): help and documentation
//! * [`scale`]: a load multiplied; [`load_summary`]: the meaning of a load
//! * `build`: the plans of the shards; [`workload`]: a test that can be run
//! * [`staged`]: the load of 1x of a series; [`legacy`]: files of old ACTs; [`act_keys`]: their keys

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod act_keys;
mod build;
pub mod check;
pub mod config;
pub mod dialect;
pub mod echo;
pub mod legacy;
pub mod load_summary;
pub mod options;
pub mod parse;
pub mod problem;
pub mod rates;
pub mod reference;
pub mod scale;
pub mod sizes;
pub mod staged;
pub mod table;
#[cfg(test)]
mod testing;
pub mod workload;

pub use check::check;
pub use config::ActConfig;
pub use load::choice::{Arrival, Engine, Pacing};
pub use parse::{Parsed, parse};
pub use problem::{ConfigErrors, ConfigProblem, Located};
pub use rates::{Derived, IndexDerived, StorageDerived, derive, derive_index, derive_storage};
pub use sizes::SizeWithinBucket;
pub use workload::ActWorkload;
