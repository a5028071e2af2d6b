//! Status of the checks of one command.

use super::{RunStatus, StateOf};
use conclusions::check::CheckResult;
use conclusions::check_plan::{CheckPlan, PlannedCheck};
use conclusions::grouped;
use results::format::{clock, count};
use results::judge::{Outcome, brief};
use results::run_dir::{ProcessState, RunDirError};
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckStatus {
    pub name: String,
    /// Directory of the check's result and runs.
    pub dir: PathBuf,
    pub result: Option<CheckResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChecksStatus {
    pub dir: PathBuf,
    /// Directory, device or simulated drive.
    pub path: String,
    /// Beginning, milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Checks in their order.
    pub checks: Vec<CheckStatus>,
    /// Index of the first check after the last result; `None` if all checks are done.
    pub current: Option<usize>,
    /// The newest run of the check `current`.
    pub run: Option<RunStatus>,
    /// Seconds of load until the end of all checks. The time to write test files is extra.
    pub left_sec: f64,
    /// State of the command's process; `None` if unknown.
    pub seen: Option<ProcessState>,
}

impl ChecksStatus {
    /// Reads the status of the checks in `dir` at `now`; `None` if there are none.
    pub fn read(
        dir: &Path,
        now: SystemTime,
        state_of: StateOf<'_>,
    ) -> Result<Option<Self>, RunDirError> {
        let plan = match CheckPlan::read(dir)? {
            Some(plan) => plan,
            // Earlier versions recorded no plan.
            None => match CheckResult::read(dir)? {
                Some(check) => CheckPlan::of_result(&check),
                None => return Ok(None),
            },
        };
        let mut checks = Vec::new();
        for PlannedCheck { name, .. } in &plan.checks {
            let dir = plan.dir_of(dir, name);
            checks.push(CheckStatus {
                name: name.clone(),
                result: CheckResult::read(&dir)?,
                dir,
            });
        }
        let done = checks.iter().rposition(|check| check.result.is_some());
        let next = done.map_or(0, |last| last + 1);
        let mut this = Self {
            dir: dir.to_owned(),
            path: plan.path.clone(),
            began_unix_ms: plan.began_unix_ms,
            current: (next < checks.len()).then_some(next),
            checks,
            run: None,
            left_sec: 0.0,
            seen: plan.process.as_ref().map(state_of),
        };
        for (at, check) in plan.checks.iter().enumerate().skip(next) {
            for (run, seconds) in &check.runs {
                let run = RunStatus::read(&this.checks[at].dir.join(run), now, state_of).ok();
                this.left_sec += match &run {
                    Some(run) if run.phase.is_over() => 0.0,
                    Some(run) => run.left_sec().unwrap_or_default(),
                    None => *seconds as f64,
                };
                this.run = run.or(this.run);
            }
        }
        Ok(Some(this))
    }

    pub fn results(&self) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter_map(|check| check.result.as_ref())
    }

    pub(crate) fn command(&self) -> String {
        match &self.checks[..] {
            [one] => format!("check {}", one.name),
            several => format!("{} checks", several.len()),
        }
    }

    /// The names of the checks by their answers, the worst first; for a single check, its sentence.
    pub fn summary(&self) -> String {
        let mut results = self.results();
        if let (1, Some(check)) = (self.checks.len(), results.next()) {
            return check.with_answer(&check.sentence);
        }
        let mut checks: Vec<_> = self
            .results()
            .map(|check| (check.answer, &*check.name))
            .collect();
        checks.sort_by_key(|(answer, _)| Reverse(*answer));
        let answers = grouped(checks)
            .into_iter()
            .map(|(answer, names)| format!("{answer}: {}", names.join(", ")));
        let mut answers: Vec<String> = answers.collect();
        if self.current.is_some() {
            answers.insert(0, self.progress());
        }
        answers.join("; ")
    }

    /// The outcome or state in a word.
    pub(crate) fn outcome_text(&self) -> String {
        match self.outcome() {
            Some(outcome) => outcome.to_string(),
            None if self.is_over() => "unfinished".to_owned(),
            None => "running".to_owned(),
        }
    }

    fn progress(&self) -> String {
        let all = count(self.checks.len() as u64, "check");
        format!("{} of {all} done", self.results().count())
    }

    /// The worst outcome, if all checks are done; a check that could not run is invalid.
    pub fn outcome(&self) -> Option<Outcome> {
        let outcomes = self.checks.iter().map(|check| match &check.result {
            Some(result) => result.outcome,
            None => Outcome::Invalid,
        });
        outcomes.max().filter(|_| self.current.is_none())
    }

    /// True if no more results will come.
    pub(super) fn is_over(&self) -> bool {
        match self.seen {
            _ if self.current.is_none() => true,
            Some(ProcessState::Running | ProcessState::Stopped) => false,
            Some(ProcessState::Gone) => true,
            // A process in another container is invisible; then the state of its run decides.
            _ => self.run.as_ref().is_none_or(|run| run.phase.is_over()),
        }
    }

    /// Exit code of the worst outcome; 0 while the checks continue.
    pub(super) fn exit_code(&self) -> u8 {
        match self.outcome() {
            Some(outcome) => outcome.exit_code(),
            None if self.is_over() => Outcome::Invalid.exit_code(),
            None => 0,
        }
    }
}

impl fmt::Display for ChecksStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.dir.display();
        writeln!(f, "{dir}  check of {}, {}", self.path, self.progress())?;
        let is_running = !self.is_over();
        if is_running {
            let left = clock(self.left_sec as u64);
            writeln!(
                f,
                "  {left} under load remaining for all checks, plus the time to write test files"
            )?;
        } else if self.current.is_some() {
            writeln!(f, "  NOT RUNNING: the command ended before its last check")?;
        }
        for (at, check) in self.checks.iter().enumerate() {
            let text = match &check.result {
                Some(check) => check.with_answer(&brief(&check.sentence)),
                None if is_running && self.current == Some(at) => "runs now".to_owned(),
                None => "no result".to_owned(),
            };
            writeln!(f, "  {:<18} {text}", check.name)?;
        }
        match &self.run {
            Some(run) if is_running => write!(f, "\n{run}"),
            _ => Ok(()),
        }
    }
}
