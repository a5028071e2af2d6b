//! Exports of generated run directories, read back with `parquet` and queried with DuckDB.

mod docs;
mod hostile;
mod round_trip;
mod sql;
mod support;
