//! The files that a verification leaves, wrong blocks and the state of the writes; and the trigger that saves the state
//! and ends the run.

use load::workload::fio::{FioLoad, Thread, VerifyState};
use results::files::{self, Over};
use results::units::{binary_bytes, in_one_line, quoted};
use session::console;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Writes a file into the working directory, over none but the same program's with `over`, and tells of it.
fn write(what: &str, name: &str, bytes: &[u8], over: Over) {
    match files::replace(Path::new(name), bytes, over) {
        Ok(()) => console::notice(&format!("{what}: {}", in_one_line(name))),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => console::warning(&format!(
            "cannot write {what} to {} - a file of this name is there - move it, or say --force",
            quoted(name)
        )),
        Err(error) => console::warning(&format!(
            "cannot write {what} to {} - {error} - run in a directory that this user may write to",
            quoted(name)
        )),
    }
}

/// Writes the wrong blocks of jobs with verify_dump.
pub fn write_dumps(load: &FioLoad, force: bool) {
    for thread in &load.threads {
        for damage in thread.progress.verify.take_dumps() {
            let names = thread.job.names(thread.clone);
            let file = names.get(damage.file).and_then(|name| Path::new(name).file_name()?.to_str()).unwrap_or("block");
            let over = if force { Over::Own } else { Over::Nothing };
            write("a wrong block", &format!("{file}.{}.received", damage.offset), &damage.received, over);
            if let Some(expected) = &damage.expected {
                write("the right block", &format!("{file}.{}.expected", damage.offset), expected, over);
            }
        }
    }
}

/// Saves the states of the writes: of jobs that want that, or did not come to their end; or `all`.
pub fn save_states(load: &FioLoad, all: bool) {
    for thread in &load.threads {
        let Thread { job, number, .. } = thread;
        let is_wanted = match job.verify.saves_state {
            _ if all => true,
            Some(saves) => saves,
            None => !thread.is_done(),
        };
        let Some(state) = thread.progress.verify.state().filter(|_| is_wanted) else { continue };
        let name = VerifyState::file_name(&job.name, *number);
        let over = match VerifyState::load(Path::new(&name)) {
            Ok(_) => Over::Own,
            Err(_) => Over::Nothing,
        };
        let files = job.names(thread.clone).len() as u32;
        write("state of the verification", &name, &state.encode(&job.name, *number, files), over);
    }
}

/// Data that a verification left open, a sentence each.
pub(super) fn notes(load: &FioLoad) -> Vec<String> {
    let mut notes = Vec::new();
    for thread in &load.threads {
        let (job, counts) = (&thread.job, &thread.progress.verify);
        let name = quoted(&job.name);
        let bytes = |bytes: u64| binary_bytes(bytes as f64);
        if counts.due_bytes.get() > 0 {
            notes.push(format!(
                "job {name} ended before {} that it wrote were read back: they are not verified - give verify_backlog, more runtime, or verify_only=1 in a job of its own",
                bytes(counts.due_bytes.get())
            ));
        }
        if counts.unknown_bytes.get() > 0 {
            notes.push(format!(
                "{} of job {name} were written by two operations at once, or by writes that failed, so that they were not compared - leave out norandommap, or lower iodepth",
                bytes(counts.unknown_bytes.get())
            ));
        }
    }
    notes
}

/// A condition that saves the states, ends the run and executes a command.
#[derive(Debug, Clone, Default)]
pub struct Trigger {
    pub file: Option<PathBuf>,
    /// Seconds of the run.
    pub after_sec: Option<u64>,
    pub command: Option<String>,
    /// Reason for which it was pulled.
    pulled: OnceLock<String>,
}

impl Trigger {
    /// Reason for which it was pulled, if it was.
    pub(super) fn pulled(&self) -> Option<&String> {
        self.pulled.get()
    }

    /// Pulls the trigger if its time has come, `ran_sec` after the start; returns the reason.
    pub(super) fn check(&self, load: &FioLoad, ran_sec: u64) -> Option<String> {
        if let Some(why) = self.pulled() {
            return Some(why.clone());
        }
        let by_file = self.file.as_ref().filter(|file| fs::symlink_metadata(file).is_ok());
        let why = match (by_file, self.after_sec) {
            (Some(file), _) => {
                if let Err(error) = fs::remove_file(file) {
                    console::warning(&format!("cannot remove the trigger file {} - {error}", file.display()));
                }
                format!("ended by the trigger file {}", file.display())
            }
            (None, Some(after)) if ran_sec >= after => format!("ended by trigger-timeout after {after} s"),
            _ => return None,
        };
        save_states(load, true);
        if let Some(command) = &self.command {
            match Command::new("/bin/sh").arg("-c").arg(command).status() {
                Ok(status) if status.success() => {}
                Ok(status) => console::warning(&format!("the trigger command failed: {status}")),
                Err(error) => console::warning(&format!("cannot run the trigger command - {error}")),
            }
        }
        Some(self.pulled.get_or_init(|| why).clone())
    }
}
