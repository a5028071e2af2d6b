//! Exports of generated run directories, read back with `parquet` and queried with DuckDB.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod docs;
#[path = "../../results/tests/common/docs_page.rs"]
mod docs_page;
mod hostile;
mod round_trip;
mod sql;
mod support;
