//! ACT's configuration dialect: from the bytes of a file to exact rates.
//!
//! ```text
//! bytes --dialect--> lines --setting--> StorageConfig --check--> --derive--> Derived
//!                      |                or IndexConfig                       or IndexDerived
//!                  options (one table)     echo: what ACT 6.6 prints of both
//! ```
//!
//! The one idea: [`options`] is a single table, and parsing, checking, the echo, the help text and
//! the option reference all read it. What was said ([`StorageConfig`]) and what will run
//! ([`Derived`]) are kept apart, and everything here is pure: no file, device or clock is touched.
//!
//! * [`options`]: the table and how to look things up in it
//! * [`problem`], [`warning`]: everything that can be wrong or worth a warning, one line each
//! * [`configuration`]: what the configurations of both tests have in common
//! * [`storage`], [`index`]: the typed configuration of either test
//! * [`model`]: a test of either kind, read, checked and derived
//! * [`sizes`]: histogram loads: record sizes as a live database counted them
//! * [`parse`]: reads a file, reports every mistake in it
//! * [`check`](mod@check): the rules that no file may break, whoever made the configuration
//! * [`derive`](mod@derive): rates and sizes that follow from it
//! * [`echo`]: the blocks at the top of ACT's log, and a file that parses back
//! * [`reference`](mod@reference): help text and the option reference, from the table
//! * [`any`], [`document`], [`scale`], [`meaning`], [`old`]: what `flashproof config` does with a
//!   configuration of either test: write it, multiply it, explain it, translate it from old ACTs
//! * [`staged`]: a configuration as the load of 1x, multiplied, on some of its devices
//! * `build`: what the shards run

pub mod any;
mod build;
pub mod check;
mod comparable;
pub mod configuration;
pub mod derive;
mod dialect;
pub mod document;
pub mod echo;
pub mod index;
pub mod legacy;
pub mod load_summary;
pub mod model;
pub mod options;
pub mod parse;
pub mod problem;
pub mod reference;
pub mod scale;
mod setting;
pub mod sizes;
pub mod staged;
pub mod storage;
mod table;
pub mod warning;

pub use crate::choice::{Arrival, Engine, Pacing};
pub use any::AnyConfig;
pub use check::check;
pub use configuration::{Configuration, Fields, Terms};
pub use derive::{Derived, derive};
pub use index::{IndexConfig, IndexDerived, derive_index};
pub use model::Model;
pub use parse::{Parsed, parse_index, parse_storage};
pub use problem::{ConfigErrors, Located, Problem};
pub use sizes::SizeWithinBucket;
pub use storage::StorageConfig;
pub use warning::Warning;
