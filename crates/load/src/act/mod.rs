//! ACT's configuration dialect: from the bytes of a file to exact rates.
//!
//! ```text
//! bytes --dialect--> lines --setting--> StorageConfig --check--> --derive--> Derived
//!                      |                     |
//!                  options (one table)     echo: what ACT 6.6 prints of both
//! ```
//!
//! The one idea: [`options`] is a single table, and parsing, checking, the echo, the help text and
//! the option reference all read it. What was said ([`StorageConfig`]) and what will run
//! ([`Derived`]) are kept apart, and everything here is pure: no file, device or clock is touched.
//!
//! * [`options`]: the table and how to look things up in it
//! * [`problem`], [`warning`]: everything that can be wrong or worth a warning, one line each
//! * [`storage`]: the typed configuration of a storage test
//! * [`parse`]: reads a file, reports every mistake in it
//! * [`check`](mod@check): the rules that no file may break, whoever made the configuration
//! * [`derive`](mod@derive): rates and sizes that follow from it
//! * [`echo`]: the blocks at the top of ACT's log, and a file that parses back
//! * [`reference`](mod@reference): help text and the option reference, from the table
//! * [`any`], [`document`], [`scale`], [`meaning`], [`old`]: what `flashproof config` does with a
//!   configuration of either test: write it, multiply it, explain it, translate it from old ACTs
//! * [`workload`]: what the shards run

pub mod any;
pub mod check;
pub mod choice;
pub mod derive;
mod dialect;
pub mod document;
pub mod echo;
pub mod meaning;
pub mod old;
pub mod options;
pub mod parse;
pub mod problem;
pub mod reference;
pub mod scale;
mod setting;
pub mod storage;
mod table;
pub mod warning;
pub mod workload;

pub use any::AnyConfig;
pub use check::check;
pub use choice::{Arrival, Engine, Pacing};
pub use derive::{Derived, derive};
pub use parse::{Parsed, parse_storage};
pub use problem::{ConfigErrors, Located, Problem};
pub use storage::StorageConfig;
pub use warning::Warning;
