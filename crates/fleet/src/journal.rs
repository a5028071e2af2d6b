//! The journal of a task: the events of each step, appended and synced, and readable at any time from any host.
//!
//! Only the holder of the task's lock appends. The kernel releases the lock when the process ends, for whatever reason.

use results::files::{self, Dir, Instructions, Links, ReplaceTarget, Temporary};
use results::format::in_one_line;
use results::judge::Outcome;
use results::run_dir::Process;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use session::clock::now_unix_ms;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub const JOURNAL: &str = "journal.jsonl";

/// File whose lock is the task's lock.
pub(crate) const LOCK: &str = ".lock";

/// Maximum line length, bytes. A longer line counts as damage.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Maximum number of lines read of one journal: a step has three lines, and three more for each repetition.
const LINES_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Entry")]
pub struct JournalEntry {
    /// Time of the event by the clock of the host, milliseconds since 1970.
    pub unix_ms: u64,
    pub step: String,
    #[serde(flatten)]
    pub event: StepEvent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum StepEvent {
    Begun(StepStart),
    /// The step's command ended by itself.
    Ended(StepEnd),
    /// The step's command was stopped; the next start of the task resumes the step.
    Stopped {
        why: String,
    },
    /// The step could not begin or resume: a missing drive, or an error of the environment.
    Refused {
        why: String,
    },
    /// The step is not run, because of the result of an earlier step.
    Skipped {
        why: String,
    },
    /// A user wants the step repeated.
    Reset,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStart {
    pub host: String,
    pub process: Option<Process>,
    /// The scheduler's name of the task: `123_4` in Slurm.
    pub job: Option<String>,
    pub path: String,
    /// Milliseconds by which the host's clock is ahead of the file server's; `None` if not measured.
    pub clock_ahead_ms: Option<i64>,
    /// The start that all drives agreed on, milliseconds since 1970 by the file server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed_unix_ms: Option<u64>,
    /// Address on which the step's command serves metrics: `9190`, or `0.0.0.0:9190`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    pub exit: i32,
    /// Outcome according to the results; `None` for steps without a verdict.
    pub outcome: Option<Outcome>,
    /// Conclusion, one sentence.
    pub sentence: String,
}

impl StepEnd {
    /// True if later steps may follow.
    pub fn is_good(&self) -> bool {
        self.exit == 0
            && self
                .outcome
                .is_none_or(|outcome| matches!(outcome, Outcome::Pass | Outcome::Measured))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Journal {
    pub entries: Vec<JournalEntry>,
    /// Why entries could not be read; `None` if all were read.
    pub damage: Option<String>,
}

impl Journal {
    /// Reads the journal of the task in `dir`; empty if there is none. A torn last line is left out.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let path = dir.join(JOURNAL);
        let mut input = match files::open_instructions(&path, Links::Refused, Instructions::Data) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut journal = Self::default();
        let mut line = Vec::new();
        for number in 1.. {
            if !files::next_line(&mut input, LINE_BYTES_MAX, &mut line)? {
                break;
            }
            if number > LINES_MAX {
                journal.damage = Some(format!(
                    "{} has more than {LINES_MAX} entries",
                    path.display()
                ));
                break;
            }
            match serde_json::from_slice(&line) {
                Ok(entry) => journal.entries.push(entry),
                // A kill or a full disk cut this line. Reading continues: a later append begins a new line.
                Err(error) => {
                    journal.damage = Some(format!(
                        "{}: entry {number} cannot be read ({})",
                        path.display(),
                        in_one_line(&error.to_string())
                    ));
                }
            }
        }
        Ok(journal)
    }

    pub fn last(&self, step: &str) -> Option<&JournalEntry> {
        self.entries.iter().rev().find(|entry| entry.step == step)
    }

    /// The last event of `step`; `Reset` if there is none. Only the host or the scheduler knows if a begun step still
    /// runs.
    pub fn state(&self, step: &str) -> &StepEvent {
        self.last(step)
            .map_or(&StepEvent::Reset, |entry| &entry.event)
    }

    /// Number of repetitions of `step` that users requested.
    pub fn resets(&self, step: &str) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.step == step && entry.event == StepEvent::Reset)
            .count()
    }

    pub fn attempts(&self, step: &str) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.step == step && matches!(entry.event, StepEvent::Begun(_)))
            .count()
    }

    pub fn last_begun(&self, step: &str) -> Option<&StepStart> {
        self.entries
            .iter()
            .rev()
            .filter(|entry| entry.step == step)
            .find_map(|entry| match &entry.event {
                StepEvent::Begun(begun) => Some(begun),
                _ => None,
            })
    }
}

#[derive(Debug, Error)]
pub enum LockError {
    #[error(
        "another process holds the lock of the task in {} - wait for that process, or end it with \"flashproof fleet cancel\"",
        .0.display()
    )]
    Held(PathBuf),
    #[error(
        "cannot open the task's directory {} - {source} - {}",
        .dir.display(),
        sys::remedy(.source, "check the file system")
    )]
    Io { dir: PathBuf, source: io::Error },
}

#[derive(Debug)]
pub struct TaskLock {
    dir: PathBuf,
    /// Closing the file releases the lock.
    _lock: File,
}

impl TaskLock {
    /// Creates the directory and takes its lock.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io {
            dir: dir.to_owned(),
            source,
        };
        create_own_dir(dir).map_err(failed)?;
        // The lock is on a file, because network file systems have no locks on directories.
        let lock = files::open_to_append(&dir.join(LOCK), files::SHARED).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                dir: dir.to_owned(),
                _lock: lock,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held(dir.to_owned())),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Appends an entry and syncs it.
    pub fn append(&self, step: &str, event: StepEvent) -> io::Result<()> {
        let entry = JournalEntry {
            unix_ms: now_unix_ms(),
            step: step.to_owned(),
            event,
        };
        let path = self.dir.join(JOURNAL);
        let mut file = files::open_to_append(&path, files::SHARED)?;
        if !begins_as_journal(&file)? {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "a file that flashproof did not write has this name",
            ));
        }
        let mut line = serde_json::to_string(&entry)? + "\n";
        // After a torn line, start a new line.
        if !ends_with_newline(&file)? {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())?;
        file.sync_data()
    }

    pub fn clock_ahead_ms(&self) -> Option<i64> {
        let dir = Dir::open(&self.dir).ok()?;
        let new_file = Temporary::create(&dir, OsStr::new("clock"), ReplaceTarget::NewFile);
        let written = new_file.and_then(|(_, file)| file.metadata()?.modified());
        let now = now_unix_ms();
        let server = written
            .ok()?
            .duration_since(std::time::UNIX_EPOCH)
            .ok()?
            .as_millis();
        i64::try_from(i128::from(now) - i128::try_from(server).ok()?).ok()
    }
}

/// Creates the directory `dir` of a task or a step. Errors: the path is a symbolic link.
pub(crate) fn create_own_dir(dir: &Path) -> io::Result<()> {
    files::create_dirs(dir)?;
    Dir::open(files::dir_of(dir))?
        .open_dir(dir.file_name().unwrap_or_default())
        .map(drop)
}

/// True for a journal, also if a kill cut its first entry.
fn begins_as_journal(file: &File) -> io::Result<bool> {
    const BEGIN: &[u8] = b"{\"unix_ms\":";
    let mut head = [0; BEGIN.len()];
    let bytes = file.read_at(&mut head, 0)?;
    Ok(BEGIN.starts_with(&head[..bytes]))
}

fn ends_with_newline(file: &File) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    let mut last = [b'\n'];
    if bytes > 0 {
        file.read_exact_at(&mut last, bytes - 1)?;
    }
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;
    use std::fs;

    #[test]
    fn a_torn_line_damages_no_other_line() {
        let dir = tempfile::tempdir().unwrap();
        let lock = TaskLock::take(dir.path()).unwrap();
        let stopped = || StepEvent::Stopped {
            why: "SIGTERM".to_owned(),
        };
        lock.append("a", stopped()).unwrap();
        let path = dir.path().join(JOURNAL);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();
        assert_eq!(Journal::read(dir.path()).unwrap().entries.len(), 1);
        lock.append(
            "a",
            StepEvent::Refused {
                why: "no drive".to_owned(),
            },
        )
        .unwrap();
        let journal = Journal::read(dir.path()).unwrap();
        let found = journal.state("a");
        assert_eq!(
            found,
            &StepEvent::Refused {
                why: "no drive".to_owned()
            }
        );
        assert!(journal.damage.unwrap().contains("entry 2"));
        assert_eq!(journal.entries.len(), 2);
        let text = fs::read(&path).unwrap();
        fs::write(&path, [&text[..], b"damaged\n"].concat()).unwrap();
        assert_contains!(
            Journal::read(dir.path()).unwrap().damage.unwrap(),
            "entry 4"
        );
        fs::write(&path, "damaged\n".repeat(LINES_MAX + 1)).unwrap();
        assert_contains!(
            Journal::read(dir.path()).unwrap().damage.unwrap(),
            "more than 100000 entries"
        );
    }

    #[test]
    fn a_task_has_one_lock_holder_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let lock = TaskLock::take(dir.path()).unwrap();
        assert!(matches!(
            TaskLock::take(dir.path()),
            Err(LockError::Held(_))
        ));
        drop(lock);
        assert!(TaskLock::take(dir.path()).is_ok());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(matches!(TaskLock::take(&link), Err(LockError::Io { .. })));
    }
}
