//! Common parts of every series of runs: the load of 1x, the drives, their preparation, and the directory of the
//! series.
//!
//! A certification and a search for a rating add their choice of runs and their conclusions.

mod lock;
mod series_dir;

use crate::configuration;
use crate::output::FormArgs;
use crate::preparation::{PrepOptions, to_write};
use crate::record::{EraseArgs, NoteArgs};
pub use act::staged::BaseLoad as Base1x;
use act::{ActWorkload, Arrival};
use clap::Args;
use conclusions::series::{DriveIdentity, SERIES_FORMAT_VERSION, Series, SeriesPurpose};
use device::discover::{DeviceFacts, Kind, discover, drives_of, why_not_a_drive};
use device::guard::{PreparationState, Records};
use engine::DeviceName;
use engine::sim::DriveSpec;
use load::workload::{RunSpec, Workload};
use results::format::{bytes, date_to_minute};
pub use series_dir::{SeriesDir, default_name, single_load};
pub use session::clock::now_unix_ms;
use session::devices::{erasable, parsed};
use session::failure::Failure;
use session::{console, runner};
use std::path::Path;

#[derive(Args, Debug, Clone, Default)]
pub struct SeriesOptions {
    /// Do not sample the block tracepoints (0.5 s in every 30, as root) that separate kernel and device latency
    #[arg(long, hide_short_help = true)]
    pub no_trace: bool,
    #[command(flatten)]
    pub consent: EraseArgs,
    /// Show the planned runs and their length, or why they are refused; write nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub form: FormArgs,
    /// Start a new series, in a new directory next to the existing one; nothing is deleted
    #[arg(long, hide_short_help = true)]
    pub fresh: bool,
    #[command(flatten)]
    pub note: NoteArgs,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Term that lists the devices that were not prepared; fixed at the start of a series.
pub const NOT_PREPARED: &str = "not prepared";

/// The load of 1x: from the file `config`; without a file, ACT's load on `devices`, or on a simulated drive if there
/// are none. `as_act`: with ACT's pacing. `task`: the purpose, for the message if the load cannot be multiplied.
pub fn load_1x(
    config: Option<&Path>,
    devices: &[String],
    as_act: bool,
    task: &str,
) -> Result<Base1x, Failure> {
    let mut devices = parsed(devices)?;
    let base = match config {
        Some(path) => {
            let config = configuration::read_any(path, as_act)?;
            Base1x::of_config(config, &devices).map_err(Failure::usages)?
        }
        None => {
            if devices.is_empty() {
                console::note(
                    "no device is named: using a simulated drive, whose hours pass in seconds",
                );
                devices.push(DeviceName::simulated());
            }
            let arrival = if as_act {
                Arrival::Act
            } else {
                Arrival::default()
            };
            Base1x::of_act(&devices, arrival)
        }
    };
    if base.config().arrival == Arrival::Closed {
        return Err(Failure::usage(format!(
            "cannot {task} with arrival: closed - a closed loop has no rate to multiply - give another arrival, and \
             rates"
        )));
    }
    Ok(base)
}

pub fn new_series(
    purpose: SeriesPurpose,
    devices: Vec<DriveIdentity>,
    config_1x: String,
    terms: impl IntoIterator<Item = (&'static str, String)>,
) -> Series {
    Series {
        format_version: SERIES_FORMAT_VERSION,
        tool: runner::tool(),
        command: runner::command(),
        purpose,
        began_unix_ms: now_unix_ms(),
        devices,
        config_1x,
        terms: terms
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        findings: Vec::new(),
        steps: Vec::new(),
        conclusion: None,
        process: None,
        note: None,
    }
}

/// Names of devices that a series of loads like `base` may erase: see [`erasable`].
pub fn may_erase(
    base: &Base1x,
    no_prep: bool,
    options: &SeriesOptions,
) -> Result<Vec<String>, Failure> {
    let writes = |workload: ActWorkload| workload.writes();
    let writes = !no_prep || ActWorkload::from_config(base.config().clone()).map_or(true, writes);
    erasable(
        &base.spec(),
        writes,
        &options.consent.erase,
        !options.dry_run,
    )
}

/// The time `seconds` after `now_unix_ms` in UTC, with the date if it is another day.
pub fn utc(now_unix_ms: u64, seconds: u64) -> String {
    let today = date_to_minute(now_unix_ms);
    let then = date_to_minute(now_unix_ms.saturating_add(seconds.saturating_mul(1_000)));
    match then.split_once(' ') {
        Some((day, clock)) if !today.starts_with(day) => format!("{clock} on {day}"),
        Some((_, clock)) => clock.to_owned(),
        None => then,
    }
}

/// The drives of a series, in the order of its devices.
#[derive(Default)]
pub struct Drives {
    pub identities: Vec<DriveIdentity>,
    /// Devices whose record and data do not show a preparation, and that will not be prepared.
    pub left_unprepared: Vec<String>,
    /// Devices that are not physical drives, each a phrase with the name and kind: `/dev/loop3 is a loop device, which
    /// is a file`. Without simulated drives and files.
    pub virtual_kinds: Vec<String>,
    /// Devices to prepare; true if the device has a lasting name, so that its preparation can be recorded.
    unprepared: Vec<(String, bool)>,
}

impl Drives {
    /// Examines the devices of `spec`, without opening them. `no_prep`: do not prepare them.
    pub fn inspect(spec: &RunSpec, no_prep: bool) -> Result<Self, Failure> {
        let mut drives = Self::default();
        for name in &spec.device_names {
            let name = match name {
                DeviceName::Simulated(name, drive) => {
                    drives.identities.push(simulated(name, drive));
                    continue;
                }
                DeviceName::Path(name) => name,
            };
            if let Some(size_bytes) = spec.file_size_bytes {
                drives.identities.push(file(name, size_bytes));
                drives.left_unprepared.push(name.clone());
            } else {
                let facts = discover(name, Path::new("/")).map_err(|error| {
                    Failure::environment(format!("cannot test {name} - {error}"))
                })?;
                if facts.kind == Kind::RegularFile {
                    return Err(Failure::usage(format!(
                        "cannot test {name} - it is a file, not a device - to screen files give a --config with \
                         file-size-mbytes in it"
                    )));
                }
                drives.add(&facts, no_prep);
            }
        }
        if !spec.is_simulated() {
            warn_of_shared_drives(&spec.names());
        }
        Ok(drives)
    }

    fn add(&mut self, facts: &DeviceFacts, no_prep: bool) {
        self.identities.push(identity(facts));
        self.virtual_kinds
            .extend(why_not_a_drive(facts, Path::new("/")));
        if PreparationState::from_records(facts, &Records::open(None)).is_prepared() {
            return;
        }
        if no_prep {
            self.left_unprepared.push(facts.path.clone())
        } else {
            self.unprepared
                .push((facts.path.clone(), facts.identity().is_some()))
        }
    }

    /// Devices to prepare now. The preparation of a device without a lasting name is not recorded, so such a device is
    /// prepared only at the start of the series.
    pub fn to_prepare(&self, has_begun: bool) -> Vec<String> {
        let now = self
            .unprepared
            .iter()
            .filter(|(_, is_recordable)| *is_recordable || !has_begun);
        now.map(|(name, _)| name.clone()).collect()
    }

    /// A line for each drive: its size, and the preparation if the drive is in `to_prepare`.
    pub fn plan(&self, to_prepare: &[String]) -> String {
        self.identities
            .iter()
            .map(|drive: &DriveIdentity| {
                let first = if to_prepare.contains(&drive.name) {
                    format!(
                        ", prepared first: {}",
                        to_write(drive.size_bytes * PrepOptions::DEFAULT.passes())
                    )
                } else {
                    String::new()
                };
                format!(
                    "device {}, {}{first}\n",
                    drive.name,
                    bytes(drive.size_bytes as f64)
                )
            })
            .collect()
    }
}

fn simulated(name: &str, drive: &DriveSpec) -> DriveIdentity {
    DriveIdentity {
        serial: Some(name.to_owned()),
        simulated: true,
        ..file(name, drive.capacity_bytes)
    }
}

fn file(name: &str, size_bytes: u64) -> DriveIdentity {
    DriveIdentity {
        name: name.to_owned(),
        model: None,
        serial: None,
        size_bytes,
        simulated: false,
    }
}

/// Identity of a device: serial number, with the partition or namespace; without a serial number, another lasting name.
fn identity(facts: &DeviceFacts) -> DriveIdentity {
    let part = match (&facts.partition, facts.nsid) {
        (Some(part), _) => format!(" partition {} at {}", part.index, part.start_bytes),
        (None, Some(nsid)) if nsid > 1 => format!(" namespace {nsid}"),
        _ => String::new(),
    };
    let serial = facts
        .serial
        .as_ref()
        .map(|serial| format!("{}{part}", serial.trim()));
    DriveIdentity {
        name: facts.path.clone(),
        model: facts.model.clone(),
        serial: serial.or_else(|| facts.identity()),
        size_bytes: facts.size_bytes,
        simulated: false,
    }
}

/// Warns if several devices are parts of one drive, which then carries the load of each.
fn warn_of_shared_drives(names: &[String]) {
    for drive in drives_of(names, Path::new("/"))
        .iter()
        .filter(|drive| drive.members.len() > 1)
    {
        console::warning(&format!(
            "{} are on one drive, {}, and each of them gets the whole load",
            drive.members.join(" and "),
            drive.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_minute_with_the_date_if_it_is_another_day() {
        let now = (3_600 * 14 + 309) * 1_000;
        assert_eq!(utc(now, 60), "14:06 UTC");
        assert_eq!(utc(now, 86_400), "14:05 UTC on 1970-01-02");
    }
}
