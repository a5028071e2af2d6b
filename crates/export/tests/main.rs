//! Exports of runs that were written as a run writes them, read back with `parquet` and queried with DuckDB.

mod docs;
mod hostile;
mod round_trip;
mod sql;
mod support;
