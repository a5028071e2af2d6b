//! Steps that all drives begin at one instant: the agreement on it, and the result as one test.
//!
//! Each task writes a file when it is ready. The first task waits for all of them and writes the start, by the clock of
//! the file server; each host converts it to its own.

use crate::journal::StepState;
use crate::now_unix_ms;
use crate::plan::Plan;
use crate::status::TaskStatus;
use crate::task::{RESULTS, read_journal};
use results::files::{self, Links, Over};
use results::together::{Part, Together, judge};
use session::failure::Failure;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks for the others.
const TICK: Duration = Duration::from_millis(200);

/// The file with the agreed start.
const START: &str = "start";

/// The meeting place of the tasks of one step.
pub(crate) struct Barrier {
    dir: PathBuf,
    tasks: usize,
}

impl Barrier {
    /// The place for the start after `resets` repetitions, each of which is of all tasks.
    pub(crate) fn new(plan: &Plan, step: &str, resets: usize) -> Self {
        let dir = plan.dir.join("together").join(format!("{step}.{}", resets + 1));
        Self { dir, tasks: plan.drives.len() }
    }

    /// Tells the others that task `index` is ready, and waits until all are. Returns the start, milliseconds since 1970
    /// by the file server's clock. `ahead_ms`: this host's clock against that.
    ///
    /// Errors: the others did not come within `patience`, the start has passed, or `is_over`; one sentence.
    pub(crate) fn agree(
        &self,
        index: usize,
        lead_sec: u32,
        ahead_ms: i64,
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<u64, String> {
        let agreed = self.meet(index, lead_sec, ahead_ms, patience, is_over);
        if agreed.is_err() {
            // The others do not count on this task any more.
            let _ = fs::remove_file(self.ready(index));
        }
        agreed
    }

    fn ready(&self, index: usize) -> PathBuf {
        self.dir.join(format!("ready-{index:04}"))
    }

    fn meet(
        &self,
        index: usize,
        lead_sec: u32,
        ahead_ms: i64,
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<u64, String> {
        let cannot = |error: io::Error| format!("agreeing on a start in {} - {error}", self.dir.display());
        let ready = |index: usize| self.ready(index);
        let server_now = || now_unix_ms().saturating_add_signed(ahead_ms.saturating_neg());
        fs::create_dir_all(&self.dir).and_then(|()| files::replace(&ready(index), b"", Over::Own)).map_err(cannot)?;
        let began = Instant::now();
        loop {
            if let Ok(text) = files::read(&self.dir.join(START), Links::Refused, 64) {
                let start: Option<u64> = String::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
                let start = start.ok_or_else(|| format!("{} holds no time", self.dir.join(START).display()))?;
                return match start.checked_sub(server_now()) {
                    Some(_) => Ok(start),
                    None => {
                        Err("the other drives began without it; \"fleet run --failed\" repeats the step on all"
                            .to_owned())
                    }
                };
            }
            let absent: Vec<usize> = (0..self.tasks).filter(|other| !ready(*other).exists()).collect();
            if absent.is_empty() && index == 0 {
                let start = server_now().saturating_add(u64::from(lead_sec) * 1_000);
                files::replace(&self.dir.join(START), start.to_string().as_bytes(), Over::Own).map_err(cannot)?;
                continue;
            }
            if is_over() || began.elapsed() > patience {
                let why = if is_over() { "the task was stopped" } else { "the time limit of the step is over" };
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

/// Results of the steps that all drives began together, where none runs any more.
///
/// Errors: a journal cannot be read.
pub(crate) fn results(plan: &Plan, tasks: &[TaskStatus]) -> Result<Vec<(String, Together)>, Failure> {
    let mut results = Vec::new();
    for step in plan.campaign.steps.iter().filter(|step| step.together_sec.is_some()) {
        let of = |task: &TaskStatus| task.steps.iter().find(|other| other.step == step.name).map(|step| step.now);
        let is_open = tasks.iter().any(|task| of(task).is_none_or(crate::status::Now::is_open));
        if is_open {
            continue;
        }
        let (mut parts, mut agreed) = (Vec::new(), 0);
        for task in tasks {
            let dir = plan.task_dir(task.index);
            let journal = read_journal(&dir)?;
            let begun = journal.last_begun(&step.name);
            agreed = begun.and_then(|begun| begun.agreed_unix_ms).unwrap_or(agreed);
            let missing = match journal.state(&step.name) {
                StepState::Ended(_) => None,
                StepState::Stopped(why) | StepState::Refused(why) | StepState::Skipped(why) => Some(why),
                StepState::Waiting | StepState::Begun(..) => Some("its process is gone".to_owned()),
            };
            // Several drives of one host are told apart.
            let host = begun.map(|begun| begun.host.clone()).or_else(|| task.host.clone()).unwrap_or_default();
            parts.push(Part {
                host: format!("{host} ({})", task.drive),
                dir: dir.join(&step.name).join(RESULTS),
                clock_ahead_ms: begun.and_then(|begun| begun.clock_ahead_ms).unwrap_or(0),
                missing,
            });
        }
        match judge(&parts, agreed) {
            Ok(together) => results.push((step.name.clone(), together)),
            Err(error) => results.push((step.name.clone(), Together::undecided(error.to_string()))),
        }
    }
    Ok(results)
}
