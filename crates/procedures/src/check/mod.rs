//! Checks: is a disk good enough for a database? A check is data: a file with fio's jobs, limits and their sources.
//!
//! ```text
//! checks/NAME.toml -> Definition -> one FioLoad a run -> Verdict, Figures -> Judged criteria -> Check
//!                         directory, device -> Site ^
//! ```

pub mod builtin;
mod definition;
mod run;
mod site;

pub use definition::{Definition, FileUse, RunDefinition};
pub use run::{Request, perform};
pub(crate) use site::OwnDir;
pub use site::{OWN_DIR, Site};
