//! The model of a drive with a flash translation layer inside.

mod spec;

pub(super) use spec::FTL_NAMES;
pub use spec::{Flash, FtlDrive};
