//! `flashproof report --parquet`: runs and series as tables, for SQL.

use export::{VIEWS, export};
use results::units::{bytes, count};
use session::console;
use session::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exports `dirs` to `out`, prints warnings about what could not be read, and what was written.
pub fn run(dirs: &[PathBuf], out: &Path, force: bool) -> Result<ExitCode, Failure> {
    let exported = export(dirs, out, force).map_err(Failure::environment)?;
    for path in &exported.repeated {
        console::warning(&format!("{path} is a copy of a run or series that is exported already: left out"));
    }
    exported.unreadable.iter().for_each(|why| console::warning(why));
    console::result(&format!(
        "exported {} and {} to {}: {}, {}; to query: cd {} && duckdb -init {VIEWS}\n",
        count(exported.runs, "run"),
        match exported.series {
            1 => "1 series".to_owned(),
            series => format!("{series} series"),
        },
        out.display(),
        count(exported.rows, "row"),
        bytes(exported.bytes as f64),
        console::shell(&out.to_string_lossy()),
    ))?;
    Ok(ExitCode::from(if exported.unreadable.is_empty() { 0 } else { 3 }))
}
