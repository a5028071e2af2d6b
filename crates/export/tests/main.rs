//! Exports of generated run directories, read back with `parquet` and queried with DuckDB.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod docs;
mod hostile;
mod round_trip;
mod sql;
mod support;
