//! fio's jobs as runs: their files, the logs that they request, and the results so far.

mod files;
mod logs;
mod ran;

pub use files::{Layout, settle};
pub use logs::{Logs, check as check_logs, left_out};
pub use ran::{Counting, Ran, page};

use load::workload::fio::FioLoad;
use results::judge::Outcome;
use session::Manner;
use session::console;
use session::failure::Failure;
use session::place::Place;
use session::recording::Unwatched;
use session::runner::{Ended, RunRequest, run};
use session::signals::Switch;
use std::path::PathBuf;

/// Writes the missing files of `layouts`, which are to be read. `request` makes the run of a load in a directory.
pub fn lay_out<'a>(
    layouts: Vec<Layout>,
    switch: &Switch,
    request: impl Fn(FioLoad, PathBuf) -> RunRequest<'a, FioLoad>,
) -> Result<(), Failure> {
    for Layout { name, bytes, load } in layouts {
        console::notice(&format!("laying out the file {name}: {bytes} bytes"));
        let place = Place::of("fio-layout", None, Manner::Act)?;
        match run(
            RunRequest { quiet: true, trace: false, ..request(load, place.dir().to_owned()) },
            switch,
            &mut Unwatched,
        )? {
            Ended::Recorded(verdict) if verdict.outcome == Outcome::Measured => {}
            Ended::Recorded(verdict) => {
                return Err(Failure::environment(format!(
                    "cannot lay out the file {name} - {}",
                    verdict.reason().unwrap_or_default()
                )));
            }
            Ended::Unrecorded { failure, .. } => return Err(failure),
        }
    }
    Ok(())
}
