//! Common parts of every series of runs: the load of 1x, the drives, their preparation, and the directory of the
//! series.
//!
//! A certification and a search for a rating add their choice of runs and their conclusions.

mod drives;
mod kept;
mod step;

pub use drives::Drives;
pub use kept::{Kept, default_name};
pub use step::alone;

use crate::configuration;
use engine::DeviceName;
use load::workload::Workload;
pub use load::workload::act::staged::Base as Base1x;
use load::workload::act::{ActWorkload, Arrival};
use results::series::{Identity, Purpose, SERIES_FORMAT_VERSION, Series};
use results::units::date_to_minute;
use session::console;
use session::devices::{erasable, parsed};
use session::failure::Failure;
use session::runner;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Options of the runs of a series.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Sample the block layer's tracepoints, if possible.
    pub trace: bool,
    /// Names of devices that may be erased.
    pub erase: Vec<String>,
    /// True to print what would run, without questions and changes.
    pub dry_run: bool,
    /// True to start a new series next to the existing one.
    pub fresh: bool,
    /// Second file for the report.
    pub html: Option<PathBuf>,
    /// Suppress progress.
    pub quiet: bool,
}

/// Term that lists the devices that were not prepared; fixed at the start of a series.
pub const NOT_PREPARED: &str = "not prepared";

/// The load of 1x: from the file `config`, or ACT's on `devices`, or on a simulated drive; paced `as_act`. `task`
/// names the purpose, for the error message if the load cannot be multiplied.
pub fn base(config: Option<&Path>, devices: &[String], as_act: bool, task: &str) -> Result<Base1x, Failure> {
    let mut devices = parsed(devices)?;
    let base = match config {
        Some(path) => {
            let config = configuration::read_any(path, as_act)?;
            Base1x::of_config(config, &devices).map_err(Failure::usages)?
        }
        None => {
            if devices.is_empty() {
                console::note("no device is named: a simulated drive is taken, whose hours pass in seconds");
                devices.push(DeviceName::simulated());
            }
            let arrival = if as_act { Arrival::Act } else { Arrival::default() };
            Base1x::of_act(&devices, arrival)
        }
    };
    if base.config().arrival == Arrival::Closed {
        return Err(Failure::usage(format!(
            "cannot {task} with arrival: closed - it has no rate that could be multiplied - give another arrival, and \
             rates"
        )));
    }
    Ok(base)
}

/// A series with nothing run yet.
pub fn planned(purpose: Purpose, devices: Vec<Identity>, config_1x: String, terms: Vec<(String, String)>) -> Series {
    Series {
        format_version: SERIES_FORMAT_VERSION,
        tool: runner::tool(),
        command: runner::command(),
        purpose,
        began_unix_ms: now_unix_ms(),
        devices,
        config_1x,
        terms,
        findings: Vec::new(),
        steps: Vec::new(),
        conclusion: None,
        process: None,
    }
}

/// Names of devices that a series of loads like `base` may erase: [`erasable`].
pub fn may_erase(base: &Base1x, no_prep: bool, options: &Options) -> Result<Vec<String>, Failure> {
    let writes = |workload: ActWorkload| workload.writes();
    let writes = !no_prep || ActWorkload::of(base.config().clone()).map_or(true, writes);
    erasable(&base.spec(), writes, &options.erase, !options.dry_run)
}

/// Now, milliseconds since 1970; 0 if the clock is before 1970, which does not prevent a test.
pub fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// The time `seconds` after `now_unix_ms` in UTC, with the date if it is another day.
pub fn utc(now_unix_ms: u64, seconds: u64) -> String {
    let [today, then] = [0, seconds].map(|sec| date_to_minute(now_unix_ms.saturating_add(sec.saturating_mul(1_000))));
    match then.split_once(' ') {
        Some((day, clock)) if !today.starts_with(day) => format!("{clock} on {day}"),
        Some((_, clock)) => clock.to_owned(),
        None => then,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_by_the_minute_and_by_its_day_if_that_is_another() {
        let now = (3_600 * 14 + 309) * 1_000;
        assert_eq!(utc(now, 60), "14:06 UTC");
        assert_eq!(utc(now, 86_400), "14:05 UTC on 1970-01-02");
    }
}
