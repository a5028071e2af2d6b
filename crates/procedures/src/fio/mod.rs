//! fio's jobs as runs: their files, the logs that they request, and the results so far.

mod files;
mod logs;
mod ran;
mod verify;

pub use files::{Layout, check_polled, layout, settle};
pub use logs::{Logs, check as check_logs, left_out};
pub use ran::{Counting, Ran, page};
pub use verify::{Trigger, save_states, write_dumps};

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
        if let Some(why) = write_layout(load, switch, &request)? {
            return Err(Failure::environment(format!("cannot lay out the file {name} - {why}")));
        }
    }
    Ok(())
}

/// Writes the file, or range, of a layout; its run is not kept. `Some`: why the verdict is not that all was written.
pub fn write_layout<'a>(
    load: FioLoad,
    switch: &Switch,
    request: impl Fn(FioLoad, PathBuf) -> RunRequest<'a, FioLoad>,
) -> Result<Option<String>, Failure> {
    let place = Place::of("fio-layout", None, Manner::Act)?;
    // The limits of a run are for its own streams.
    let sla = load.thresholds().map_err(Failure::usage)?;
    let request = RunRequest { sla, quiet: true, trace: false, ..request(load, place.dir().to_owned()) };
    match run(request, switch, &mut Unwatched)? {
        Ended::Recorded(verdict) if verdict.outcome == Outcome::Measured => Ok(None),
        Ended::Recorded(verdict) => Ok(Some(verdict.reason().unwrap_or_default().to_owned())),
        Ended::Unrecorded { failure, .. } => Err(failure),
    }
}
