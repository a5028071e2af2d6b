//! The barrier of a step that all drives begin at the same instant.
//!
//! Each task writes a file when it is ready. The first task waits for the files of all tasks and writes the start time,
//! by the clock of the file server. Each host converts the start time to its own clock.

use crate::plan::CampaignPlan;
use results::files::{self, Links, ReplaceTarget};
use session::clock::now_unix_ms;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval while waiting for the other tasks.
const TICK: Duration = Duration::from_millis(200);

const START: &str = "start";

pub(crate) struct Barrier {
    dir: PathBuf,
    tasks: usize,
    index: usize,
    /// Milliseconds by which this host's clock is ahead of the file server's.
    ahead_ms: i64,
}

impl Barrier {
    /// The barrier of task `index` at `step`. `resets`: how often the step was repeated. Each repetition covers all
    /// tasks, and has its own directory.
    pub(crate) fn new(
        plan: &CampaignPlan,
        step: &str,
        resets: usize,
        index: usize,
        ahead_ms: i64,
    ) -> Self {
        let dir = plan
            .dir
            .join("together")
            .join(format!("{step}.{}", resets + 1));
        Self {
            dir,
            tasks: plan.drives.len(),
            index,
            ahead_ms,
        }
    }

    /// Waits until all tasks are ready. Returns the start time, milliseconds since 1970 by the file server's clock.
    /// Errors, as one sentence: `patience` has passed, the start has passed, or `is_over` returns true.
    pub(crate) fn agree(
        &self,
        lead_sec: u32,
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<u64, String> {
        let agreed = self.meet(lead_sec, patience, is_over);
        if agreed.is_err() {
            // The other tasks must not count this task as ready.
            let _ = files::remove_file(&self.ready(self.index));
        }
        agreed
    }

    fn ready(&self, index: usize) -> PathBuf {
        self.dir.join(format!("ready-{index:04}"))
    }

    fn cannot_agree(&self, error: io::Error) -> String {
        format!(
            "cannot agree on a start in {} - {error} - check the permissions of this directory",
            self.dir.display()
        )
    }

    fn meet(
        &self,
        lead_sec: u32,
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<u64, String> {
        let server_now = || now_unix_ms().saturating_add_signed(self.ahead_ms.saturating_neg());
        files::create_dirs(&self.dir)
            .and_then(|_| files::replace(&self.ready(self.index), b"", ReplaceTarget::Own("ready")))
            .map_err(|error| self.cannot_agree(error))?;
        let began = Instant::now();
        loop {
            if let Ok(text) = files::read(&self.dir.join(START), Links::Refused, 64) {
                let start: Option<u64> = String::from_utf8(text)
                    .ok()
                    .and_then(|text| text.trim().parse().ok());
                let start = start.ok_or_else(|| {
                    format!(
                        "{} does not contain a time - repeat the step with \"fleet run --failed\"",
                        self.dir.join(START).display()
                    )
                })?;
                return match start.checked_sub(server_now()) {
                    Some(_) => Ok(start),
                    None => Err(
                        "the other drives began without this drive; \"fleet run --failed\" repeats the step on all \
                         drives"
                            .to_owned(),
                    ),
                };
            }
            let absent: Vec<usize> = (0..self.tasks)
                .filter(|other| !self.ready(*other).exists())
                .collect();
            if absent.is_empty() && self.index == 0 {
                let start = server_now().saturating_add(u64::from(lead_sec) * 1_000);
                files::replace(
                    &self.dir.join(START),
                    start.to_string().as_bytes(),
                    ReplaceTarget::NewFile,
                )
                .map_err(|error| self.cannot_agree(error))?;
                continue;
            }
            if is_over() || began.elapsed() > patience {
                let why = if is_over() {
                    "the task was stopped"
                } else {
                    "the time limit of the step was reached"
                };
                return Err(format!(
                    "{why} while waiting for {} of {} drives: tasks {absent:?}",
                    absent.len(),
                    self.tasks
                ));
            }
            thread::sleep(TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;
    use std::fs;

    fn barrier(dir: &std::path::Path, ahead_ms: i64) -> Barrier {
        Barrier {
            dir: dir.to_owned(),
            tasks: 2,
            index: 0,
            ahead_ms,
        }
    }

    #[test]
    fn all_tasks_agree_on_a_start_in_the_future() {
        let dir = tempfile::tempdir().unwrap();
        let meet = |ahead_ms| barrier(dir.path(), ahead_ms).agree(30, Duration::ZERO, &|| false);
        assert_contains!(meet(0).unwrap_err(), "waiting for 1 of 2 drives: tasks [1]");
        let found = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(found, 0, "the task that gave up is no longer ready");
        fs::write(barrier(dir.path(), 0).ready(1), "").unwrap();
        let start = meet(0).unwrap();
        assert_eq!(meet(0).unwrap(), start);
        assert!(start > now_unix_ms());
        // This host's clock counts as a minute behind, so by the file server's clock the start has passed.
        assert_contains!(
            meet(-60_000).unwrap_err(),
            "the other drives began without this drive"
        );
        assert_eq!(meet(60_000).unwrap(), start);
    }
}
