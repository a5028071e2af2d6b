//! fio's jobs as runs: their files, the logs that they request, and the results so far.

mod logs;
mod run;

use engine::DeviceName;
use fio::{
    FioLoad, GivenOption, Job, JobClone, JobSection, ParseContext, Size, VerifyState, jobs, runs,
};
use load::workload::Workload;
pub use logs::{check as check_logs, left_out};
use results::files::{self, ReplaceTarget};
use results::format::{self, binary_bytes, in_one_line, quoted};
use results::judge::Outcome;
pub use run::{FioRun, FioRunObserver, page};
use session::failure::Failure;
use session::recording::NoObserver;
use session::run_directory::RunDirectory;
use session::runner::{self, RunRequest};
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Runs `layouts`, each of which writes or extends a file that is to be read. `request` creates the request for a run of
/// a load into a directory.
pub fn lay_out<'a>(
    layouts: Vec<FioLoad>,
    signal_handler: &SignalHandler,
    request: impl Fn(FioLoad, PathBuf) -> RunRequest<'a>,
) -> Result<(), Failure> {
    for load in layouts {
        let name = load.devices[0].clone();
        let bytes = load.files.values().sum();
        let old_bytes = load.threads[0].job.offset.bytes_of(bytes);
        let verb = if old_bytes > 0 {
            "extending"
        } else {
            "laying out"
        };
        let size = format::bytes(bytes as f64);
        console::notice(&format!("{verb} the file {name}: {size}"));
        let layout_result = write_layout(load, signal_handler, &request);
        let incomplete = layout_result.map_err(|failure| match old_bytes {
            0 => failure,
            // An existing file cannot be extended if the guard does not recognise its data as flashproof's.
            _ => {
                let why = too_short(&name, bytes, old_bytes);
                Failure::environment(format!(
                    "{why}; flashproof extends only its own files: {failure}"
                ))
            }
        })?;
        if let Some(why) = incomplete {
            return Err(Failure::environment(format!(
                "cannot lay out the file {name} - {why}"
            )));
        }
    }
    Ok(())
}

/// Writes the file or range of a layout; its run directory is not kept. `Some`: why the write is incomplete.
pub fn write_layout<'a>(
    load: FioLoad,
    signal_handler: &SignalHandler,
    request: impl Fn(FioLoad, PathBuf) -> RunRequest<'a>,
) -> Result<Option<String>, Failure> {
    let run_dir = RunDirectory::choose("fio-layout", None, CompatMode::Act)?;
    // The limits of `request` are for other streams than the layout's.
    let sla = load.thresholds().map_err(Failure::usage)?;
    let request = RunRequest {
        sla,
        quiet: true,
        trace: false,
        ..request(load, run_dir.dir().to_owned())
    };
    let verdict = runner::run(request, signal_handler, &mut NoObserver)?.recorded()?;
    Ok((verdict.outcome != Outcome::Measured)
        .then(|| verdict.reason().unwrap_or_default().to_owned()))
}

/// A layout keeps a file's data in whole blocks of this size, bytes.
const LAYOUT_BLOCK: u64 = 4_096;

enum PathState {
    /// A block device, or an object that the guard refuses with a reason.
    Device,
    /// A file of this size.
    File(u64),
    Nothing,
}

fn path_state(name: &str) -> PathState {
    match fs::metadata(name) {
        Ok(metadata) if metadata.is_file() => PathState::File(metadata.len()),
        // A missing name under /dev is a mistyped device.
        Err(error)
            if error.kind() == ErrorKind::NotFound
                && (!name.starts_with("/dev/") || name.starts_with("/dev/shm/")) =>
        {
            PathState::Nothing
        }
        Ok(_) | Err(_) => PathState::Device,
    }
}

fn too_short(name: &DeviceName, required_bytes: u64, len: u64) -> String {
    format!(
        "cannot read {required_bytes} bytes of {name} - it has only {len} - lower size (or leave it out to read all), or \
         name another file"
    )
}

/// Settles the file sizes of `load`, and returns the loads that write files first. `known_sizes` has the files of
/// earlier runs with their sizes; the files of this run are inserted.
/// Errors: a missing file of unknown size; a file too short for a replayed log; files and devices in one run.
pub fn resolve_file_sizes(
    load: &mut FioLoad,
    known_sizes: &mut HashMap<String, u64>,
) -> Result<Vec<FioLoad>, Failure> {
    let mut layouts = Vec::new();
    let mut device = None;
    let lays_out = load.reads() || load.jobs().any(|job| job.files.overwrite);
    for name in &load.devices.clone() {
        if name.drive().is_some() {
            continue;
        }
        let state = known_sizes
            .get(name.as_str())
            .map_or_else(|| path_state(name.as_str()), |len| PathState::File(*len));
        if load.appends_to(name) && !matches!(state, PathState::Device) {
            let end = if let PathState::File(len) = state {
                len
            } else {
                0
            };
            load.appended.insert(name.to_string(), end);
        }
        let required_bytes = load.required_file_bytes(name);
        // The layout keeps the data that the file has, in whole blocks.
        let kept_bytes = if let PathState::File(len) = state {
            len / LAYOUT_BLOCK * LAYOUT_BLOCK
        } else {
            0
        };
        let (size, is_short) = match (state, required_bytes) {
            (PathState::Device, _) => {
                if load.writes_to(name) {
                    device.get_or_insert_with(|| name.clone());
                }
                continue;
            }
            // As fio, flashproof does not extend a file for the reads of a log.
            (PathState::File(len), Some(required_bytes))
                if !load.writes_to(name) && load.replays_log() && len < required_bytes =>
            {
                return Err(Failure::usage(too_short(name, required_bytes, len)));
            }
            (PathState::File(len), required_bytes) => (
                required_bytes.unwrap_or(len).max(len),
                required_bytes.is_some_and(|requested| len < requested),
            ),
            (PathState::Nothing, Some(required_bytes)) => (required_bytes, true),
            (PathState::Nothing, None) => {
                let why = unknown_size(load, name);
                return Err(Failure::usage(format!(
                    "cannot create the file {name} - {why}"
                )));
            }
        };
        if load.writes_to(name) {
            load.files.insert(name.to_string(), size);
        }
        known_sizes.insert(name.to_string(), size);
        // As in fio, mixed loads also get a layout: reads of unwritten blocks would not reach the drive.
        if is_short && lays_out && !load.appends_to(name) {
            layouts.push(layout(name, kept_bytes, size - kept_bytes)?);
        }
    }
    match device.filter(|_| !load.files.is_empty()) {
        Some(device) => Err(Failure::usage(format!(
            "cannot write to files and to {device} in one run - run them separately (stonewall)"
        ))),
        None => Ok(layouts),
    }
}

/// Why the size of the missing file `name` is unknown, and what to do.
fn unknown_size(load: &FioLoad, name: &DeviceName) -> &'static str {
    let users = load.threads.iter().filter(|JobClone { job, clone, .. }| {
        job.names(*clone).iter().any(|file| name.as_str() == file)
    });
    let jobs: Vec<_> = users.map(|thread| &thread.job).collect();
    if jobs.iter().any(|job| job.fills_device) {
        "fill_device ignores size, and flashproof does not fill a file system - leave fill_device out, or give the size \
         of the file as filesize=4g"
    } else if jobs.iter().any(|job| uses_percent(job)) {
        "size, offset or offset_increment is in percent of the file, and the file does not exist - give the option in \
         bytes, or the size of the file as filesize=4g"
    } else {
        "no job gives its size - give a size such as size=4g, or check the name"
    }
}

fn uses_percent(job: &Job) -> bool {
    let parts = [job.size, Some(job.offset), Some(job.offset_increment)];
    parts
        .iter()
        .any(|part| matches!(part, Some(Size::Percent(_))))
}

/// The load that writes `bytes` to the file `name`, or to the device `name` from `offset` on. For a device, the caller
/// clears the load's files.
pub fn layout(name: &DeviceName, offset: u64, bytes: u64) -> Result<FioLoad, Failure> {
    // Largest operation that divides offset and size.
    let block = 1_u64 << (offset | bytes).trailing_zeros().min(20);
    let options = [
        ("filename", name.as_str().replace(':', "\\:")),
        ("rw", "write".into()),
        ("bs", block.to_string()),
        ("offset", offset.to_string()),
        ("size", bytes.to_string()),
        ("iodepth", "8".into()),
        ("end_fsync", "1".into()),
        ("direct", u8::from(block >= 4096).to_string()),
    ];
    let options = options
        .map(|(name, value)| GivenOption::new(name, value, "layout"))
        .into();
    let section = JobSection {
        name: "layout".into(),
        options,
    };
    let parsed_load = load_of(&[section], false).ok().flatten();
    Ok(FioLoad {
        files: [(name.to_string(), offset + bytes)].into(),
        ..parsed_load.ok_or_else(|| {
            Failure::usage(format!(
                "cannot create a file called {}",
                quoted(name.as_str())
            ))
        })?
    })
}

/// The load of jobs that depend on no file, variable or machine; `None` without a job.
pub fn load_of(sections: &[JobSection], readonly: bool) -> Result<Option<FioLoad>, Failure> {
    let context = ParseContext {
        readonly,
        ..ParseContext::default()
    };
    let mut loads = jobs(sections, &context, &mut Vec::new())
        .and_then(runs)
        .map_err(Failure::usages)?;
    Ok(loads.pop())
}

/// Writes a file into the working directory and prints its name. `replace_target`: files that it may replace.
fn write(description: &str, name: &str, bytes: &[u8], replace_target: ReplaceTarget) {
    match files::replace(Path::new(name), bytes, replace_target) {
        Ok(()) => console::notice(&format!("{description}: {}", in_one_line(name))),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => console::warning(&format!(
            "cannot write {description} to {} - a file of this name exists - move it, or give --force",
            quoted(name)
        )),
        Err(error) => console::warning(&format!(
            "cannot write {description} to {} - {error} - run in a directory that this user may write to",
            quoted(name)
        )),
    }
}

/// Writes blocks that failed verification to files, for jobs with verify_dump.
pub fn write_dumps(load: &FioLoad, force: bool) {
    let replace_target = if force {
        ReplaceTarget::UserFile
    } else {
        ReplaceTarget::NewFile
    };
    for thread in &load.threads {
        for damage in thread.progress.verify.take_dumps() {
            let names = thread.job.names(thread.clone);
            let file = names
                .get(damage.file)
                .and_then(|name| Path::new(name).file_name()?.to_str())
                .unwrap_or("block");
            for (version, block) in [
                ("received", Some(&damage.received)),
                ("expected", damage.expected.as_ref()),
            ] {
                let Some(block) = block else { continue };
                let name = format!("{file}.{}.{version}", damage.offset);
                write(
                    &format!("the {version} block"),
                    &name,
                    block,
                    replace_target,
                );
            }
        }
    }
}

/// Saves the state of a job's writes if the job's option requests this, or if the option is not given and the job did
/// not complete. `is_all`: for every job.
pub fn save_states(load: &FioLoad, is_all: bool) {
    for thread in &load.threads {
        let JobClone { job, number, .. } = thread;
        let is_requested = is_all || job.verify.saves_state.unwrap_or_else(|| !thread.is_done());
        let Some(state) = thread.progress.verify.state().filter(|_| is_requested) else {
            continue;
        };
        let name = VerifyState::file_name(&job.name, *number);
        let is_replaced = VerifyState::load(Path::new(&name)).is_ok();
        let replace_target = if is_replaced {
            ReplaceTarget::UserFile
        } else {
            ReplaceTarget::NewFile
        };
        let files = job.names(thread.clone).len() as u32;
        write(
            "state of the verification",
            &name,
            &state.encode(&job.name, *number, files),
            replace_target,
        );
    }
}

/// Data that were not verified, a sentence each.
fn verify_notes(load: &FioLoad) -> Vec<String> {
    let mut notes = Vec::new();
    for thread in &load.threads {
        let job = &thread.job;
        let counts = &thread.progress.verify;
        let name = quoted(&job.name);
        let bytes = |bytes: u64| binary_bytes(bytes as f64);
        if counts.due_bytes.get() > 0 {
            notes.push(format!(
                "job {name} ended before {} of its writes were read back, so these are not verified - give \
                 verify_backlog, more runtime, or verify_only=1 in a separate job",
                bytes(counts.due_bytes.get())
            ));
        }
        if counts.unknown_bytes.get() > 0 {
            notes.push(format!(
                "{} of job {name} were not verified, because two operations wrote them at once, or their writes failed \
                 - leave out norandommap, or lower iodepth",
                bytes(counts.unknown_bytes.get())
            ));
        }
    }
    notes
}

/// fio's trigger: once its condition is met, the verify states are saved, the run ends, and a command is executed.
#[derive(Debug, Clone, Default)]
pub struct Trigger {
    pub file: Option<PathBuf>,
    /// Seconds of the run.
    pub after_sec: Option<u64>,
    pub command: Option<String>,
    /// Reason for which the trigger was pulled.
    pulled: OnceLock<String>,
}

impl Trigger {
    /// Errors: the trigger file exists already.
    pub fn check_unpulled(&self) -> Result<(), Failure> {
        let existing = self
            .file
            .as_ref()
            .filter(|file| fs::symlink_metadata(file).is_ok());
        existing.map_or(Ok(()), |file| {
            Err(Failure::usage(format!(
                "cannot wait for the trigger file {} - it exists already, and fio would fire at once and remove it - \
                 name a file that does not exist yet",
                file.display()
            )))
        })
    }

    /// Pulls the trigger if its file exists or its time has come, `ran_sec` after the start; returns the reason.
    fn check(&self, load: &FioLoad, ran_sec: u64) -> Option<String> {
        if let Some(why) = self.pulled.get() {
            return Some(why.clone());
        }
        let by_file = self
            .file
            .as_ref()
            .filter(|file| fs::symlink_metadata(file).is_ok());
        let why = match (by_file, self.after_sec) {
            (Some(file), _) => {
                if let Err(error) = files::remove_file(file) {
                    console::warning(&format!(
                        "cannot remove the trigger file {} - {error}",
                        file.display()
                    ));
                }
                format!("ended by the trigger file {}", file.display())
            }
            (None, Some(after)) if ran_sec >= after => {
                format!("ended by trigger-timeout after {after} s")
            }
            _ => return None,
        };
        save_states(load, true);
        if let Some(command) = &self.command {
            match Command::new("/bin/sh").arg("-c").arg(command).status() {
                Ok(status) if status.success() => {}
                Ok(status) => console::warning(&format!("the trigger command failed: {status}")),
                Err(error) => {
                    console::warning(&format!("cannot run the trigger command - {error}"))
                }
            }
        }
        Some(self.pulled.get_or_init(|| why).clone())
    }
}
