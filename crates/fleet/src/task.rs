//! A task: one drive through its steps, each a command of flashproof in a separate process.
//!
//! Any scheduler with job arrays can run tasks. A task that was stopped resumes when it is run again: the journal says
//! which steps ended, and the commands resume their series by themselves.

use crate::barrier::Barrier;
use crate::campaign::{CampaignStep, DRIVE, OUT};
use crate::inventory::{Inventory, InventoryDrive};
use crate::journal::{Journal, LockError, StepEnd, StepEvent, StepStart, TaskLock, create_own_dir};
use crate::plan::{CampaignPlan, RESULTS};
use crate::select::PlannedDrive;
use crate::{ask_to_end, failed, host_name, own_command};
use conclusions::series::{Series, SeriesStepState};
use device::discover::{self, DeviceFacts};
use device::guard::{Guard, ONLY_VARIABLE};
use device::observe::process::{process_state, this_process};
use report::status::DirStatus;
use results::files;
use results::format::{count, date, in_one_line, quoted, span};
use results::judge::Outcome;
use results::run_dir::{DirKind, ProcessState, dir_kind};
use session::clock::now_unix_ms;
use session::console;
use session::devices::ERASE_VARIABLE;
use session::failure::Failure;
use session::metrics::{ADDRESS_VARIABLE, FILE_VARIABLE};
use session::recording::START_VARIABLE;
use session::signals::{EndSignals, name as signal_name};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Exit code of a stopped task that resumes when it is run again: sysexits' `EX_TEMPFAIL`.
pub const STOPPED: u8 = 75;

/// Output of the task and of its jobs, in the task's directory.
pub(crate) const LOG: &str = "task.log";

const OUTPUT: &str = "output.txt";

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Poll interval for the cancellation of the campaign.
const CANCEL_TICK: Duration = Duration::from_secs(2);

/// Maximum wait for the end of an orphan: an older process of the same job.
const ORPHAN_WAIT: Duration = Duration::from_secs(120);

/// Bytes at the end of a step's output that are searched for its last line.
const TAIL_BYTES: u64 = 8 << 10;

const SENTENCE_CHARS_MAX: usize = 300;

/// Runs the steps of task `index` that have not ended; with `only`, just the step of this name.
/// Exit code: 0 if each step has a result, whatever the result is; 3 if a step could not run; or [`STOPPED`].
pub fn run(plan: &CampaignPlan, index: usize, only: Option<&str>) -> Result<ExitCode, Failure> {
    let Some(planned) = plan.drives.get(index) else {
        let last = plan.drives.len().saturating_sub(1);
        return Err(Failure::usage(format!(
            "cannot run task {index} - the campaign has the tasks 0 to {last} - give one of them"
        )));
    };
    if let Some(unknown) =
        only.filter(|name| plan.campaign.steps.iter().all(|step| step.name != **name))
    {
        let known: Vec<_> = plan
            .campaign
            .steps
            .iter()
            .map(|step| step.name.as_str())
            .collect();
        return Err(Failure::usage(format!(
            "cannot run the step {} - the campaign has no such step - its steps are {}",
            quoted(unknown),
            known.join(", ")
        )));
    }
    let dir = plan.task_dir(index);
    let job = plan.campaign.slurm.as_ref().and_then(|_| job());
    let lock = lock(&dir, planned, job.as_deref())?;
    let end_signals = EndSignals::listen(
        "the step's command was killed; run the task again to resume the step".to_owned(),
    )?;
    let mut task = RunningTask {
        plan,
        index,
        planned,
        lock,
        dir,
        end_signals,
        job,
    };
    let mut code = 0;
    for step in plan
        .campaign
        .steps
        .iter()
        .filter(|step| only.is_none_or(|only| step.name == only))
    {
        match task.step(step)? {
            AfterStep::Go => {}
            // Steps that do not depend on this step still run.
            AfterStep::Refused => code = 3,
            AfterStep::Exit(code) => return Ok(ExitCode::from(code)),
        }
    }
    Ok(ExitCode::from(code))
}

enum AfterStep {
    Go,
    Refused,
    Exit(u8),
}

struct RunningTask<'a> {
    plan: &'a CampaignPlan,
    index: usize,
    planned: &'a PlannedDrive,
    dir: PathBuf,
    lock: TaskLock,
    end_signals: EndSignals,
    job: Option<String>,
}

impl RunningTask<'_> {
    fn step(&mut self, step: &CampaignStep) -> Result<AfterStep, Failure> {
        let journal = read_journal(&self.dir)?;
        if let StepEvent::Ended(ended) = journal.state(&step.name) {
            self.note(step, &format!("has a result already: {}", ended.sentence));
            return Ok(AfterStep::Go);
        }
        for earlier_step in &step.after {
            let why = match journal.state(earlier_step) {
                StepEvent::Ended(ended) if ended.is_good() => continue,
                StepEvent::Ended(ended) => {
                    format!("{earlier_step} did not succeed: {}", ended.sentence)
                }
                StepEvent::Skipped { .. } => format!("{earlier_step} was not run"),
                _ => {
                    console::error(&format!(
                        "cannot run the step {} of drive {} - {earlier_step} has no result yet - run {earlier_step} first",
                        step.name,
                        quoted(&self.planned.drive.id)
                    ));
                    return Ok(AfterStep::Refused);
                }
            };
            self.note(step, &format!("not run: {why}"));
            self.append(step, StepEvent::Skipped { why })?;
            return Ok(AfterStep::Go);
        }
        if self.plan.is_cancelled() {
            self.note(step, "not run: the campaign is cancelled");
            return Ok(AfterStep::Exit(0));
        }
        let path = match find(self.plan, self.planned) {
            Ok(path) => path,
            Err(why) => return self.refuse(step, why),
        };
        let dir = self.dir.join(&step.name);
        let clock_ahead_ms = self.lock.clock_ahead_ms();
        let agreed_unix_ms = match step.together_sec {
            None => None,
            Some(lead_sec) => {
                match self.agree(step, lead_sec, journal.resets(&step.name), clock_ahead_ms) {
                    Ok(agreed) => Some(agreed),
                    Err(why) if self.is_over() => return self.stop(step, why),
                    Err(why) => return self.refuse(step, why),
                }
            }
        };
        let step_start = StepStart {
            host: host_name(),
            process: this_process(),
            job: self.job.clone(),
            path: path.clone(),
            clock_ahead_ms,
            agreed_unix_ms,
            metrics: metrics_address(self.index),
        };
        let is_repeated =
            *journal.state(&step.name) == StepEvent::Reset && journal.attempts(&step.name) > 0;
        let results_dir =
            create_own_dir(&dir).and_then(|()| set_aside(&dir.join(RESULTS), is_repeated));
        let results_dir = results_dir
            .map_err(|error| cannot("cannot create the step's directory", &dir, &error))?;
        self.append(step, StepEvent::Begun(step_start))?;
        let words: Vec<String> = step
            .words
            .iter()
            .map(|word| {
                word.replace(DRIVE, &path)
                    .replace(OUT, &results_dir.display().to_string())
            })
            .collect();
        self.note(step, &format!("begun on {path}"));
        let output = dir.join(OUTPUT);
        let start =
            agreed_unix_ms.map(|agreed| agreed.saturating_add_signed(clock_ahead_ms.unwrap_or(0)));
        let (status, stop_reason) = match self
            .command(&words, &output, start)
            .and_then(|child| self.watch(child, step))
        {
            Ok(ended) => ended,
            Err(error) => {
                return self.refuse(
                    step,
                    format!("cannot run flashproof {} - {error}", words.join(" ")),
                );
            }
        };
        self.conclude(step, status, stop_reason, &results_dir, &output)
    }

    fn agree(
        &self,
        step: &CampaignStep,
        lead_sec: u32,
        resets: usize,
        clock_ahead_ms: Option<i64>,
    ) -> Result<u64, String> {
        let ahead_ms = clock_ahead_ms
            .ok_or("the host's clock could not be compared with the file server's")?;
        let patience = Duration::from_secs(step.limit_sec.into());
        self.note(step, "ready; waiting for the other drives");
        let barrier = Barrier::new(self.plan, &step.name, resets, self.index, ahead_ms);
        barrier.agree(lead_sec, patience, &|| self.is_over())
    }

    fn is_over(&self) -> bool {
        self.end_signals.received().is_some() || self.plan.is_cancelled()
    }

    /// Starts the command, which ends with this process and asks no questions.
    fn command(
        &self,
        words: &[String],
        output: &Path,
        start_unix_ms: Option<u64>,
    ) -> io::Result<Child> {
        let mut command = own_command(output)?;
        command.args(words).current_dir(&self.plan.dir);
        command
            .env_remove(ERASE_VARIABLE)
            .env_remove(ONLY_VARIABLE)
            .env_remove(START_VARIABLE)
            .envs(metrics_address(self.index).map(|address| (ADDRESS_VARIABLE, address)))
            .envs(metrics_file(self.index).map(|file| (FILE_VARIABLE, file)));
        if let Some(start) = start_unix_ms {
            command.env(START_VARIABLE, start.to_string());
        }
        let id = &self.planned.drive.id;
        if !self.planned.drive.is_simulated() {
            command.env(ONLY_VARIABLE, id);
        }
        if self.plan.may_erase(id) {
            command.env(ERASE_VARIABLE, id);
        }
        command.spawn()
    }

    /// Waits for the command. Asks it to end on a signal, at the time limit, and when the campaign is cancelled.
    /// Returns the command's status, and why it was asked to end.
    fn watch(
        &self,
        mut child: Child,
        step: &CampaignStep,
    ) -> io::Result<(ExitStatus, Option<String>)> {
        let began = Instant::now();
        let mut last_check = began;
        let mut stop_reason = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, stop_reason));
            }
            if stop_reason.is_some() {
                thread::sleep(POLL_INTERVAL);
                continue;
            }
            stop_reason = self.end_signals.wait(POLL_INTERVAL).map(signal_name);
            let limit = Duration::from_secs(step.limit_sec.into());
            if began.elapsed() > limit {
                stop_reason = Some(limit_reached(step));
            }
            if last_check.elapsed() > CANCEL_TICK {
                last_check = Instant::now();
                if self.plan.is_cancelled() {
                    stop_reason = Some("the campaign was cancelled".to_owned());
                }
            }
            if stop_reason.is_some() {
                ask_to_end(child.id());
            }
        }
    }

    fn conclude(
        &mut self,
        step: &CampaignStep,
        status: ExitStatus,
        stop_reason: Option<String>,
        results_dir: &Path,
        output: &Path,
    ) -> Result<AfterStep, Failure> {
        let keeps_results = step.words.iter().any(|word| word.contains(OUT));
        let last_line =
            || last_line(output).unwrap_or_else(|| "the command printed nothing".to_owned());
        let is_drive = |name: &str| self.is_drive(name);
        let recorded = result_in(results_dir);
        match conclusion(
            status,
            stop_reason,
            recorded.clone(),
            keeps_results,
            &is_drive,
            &last_line,
        ) {
            StepEvent::Stopped { why } if why.starts_with(&limit_reached(step)) => {
                let why = why + &progress(step, results_dir);
                let journal = read_journal(&self.dir)?;
                let mut entries = journal.entries.iter().filter(|of| of.step == step.name);
                let same = StepEvent::Stopped { why: why.clone() };
                // The last entry is the beginning of this attempt.
                if entries
                    .nth_back(1)
                    .is_none_or(|before| before.event != same)
                {
                    return self.stop(step, why);
                }
                let done = recorded.map_or_else(last_line, |(_, _, sentence)| sentence);
                let advice = format!("raise the limit of the step {}", step.name);
                self.refuse(step, format!("{why}, twice: {done} - {advice}"))
            }
            StepEvent::Stopped { why } => self.stop(step, why),
            StepEvent::Refused { why } => self.refuse(step, why),
            event => {
                if let StepEvent::Ended(StepEnd { exit, sentence, .. }) = &event {
                    self.note(step, &format!("ended with exit code {exit}: {sentence}"));
                }
                self.append(step, event)?;
                Ok(AfterStep::Go)
            }
        }
    }

    /// True if `name`, from the results, names this task's drive.
    fn is_drive(&self, name: &str) -> bool {
        let InventoryDrive {
            id, serial, path, ..
        } = &self.planned.drive;
        let identity = || discover::discover(path, Path::new("/")).ok()?.identity();
        self.planned.drive.is_simulated()
            || [Some(id), Some(path), serial.as_ref()].into_iter().flatten().any(|known| known == name)
            // A namespace or partition may follow the serial number.
            || serial.as_ref().is_some_and(|serial| name.starts_with(&format!("{serial} ")))
            || identity().as_deref() == Some(name)
    }

    fn stop(&mut self, step: &CampaignStep, why: String) -> Result<AfterStep, Failure> {
        self.note(
            step,
            &format!("stopped: {why}; run the task again to resume the step"),
        );
        self.append(step, StepEvent::Stopped { why })?;
        Ok(AfterStep::Exit(if self.plan.is_cancelled() {
            0
        } else {
            STOPPED
        }))
    }

    fn refuse(&mut self, step: &CampaignStep, why: String) -> Result<AfterStep, Failure> {
        console::error(&format!("{} {}: {why}", self.planned.drive.id, step.name));
        self.append(step, StepEvent::Refused { why })?;
        Ok(AfterStep::Refused)
    }

    fn append(&self, step: &CampaignStep, event: StepEvent) -> Result<(), Failure> {
        self.lock
            .append(&step.name, event)
            .map_err(|error| cannot("cannot write the journal of the task", &self.dir, &error))
    }

    fn note(&self, step: &CampaignStep, text: &str) {
        console::notice(&format!(
            "{} {} {}: {text}",
            date(now_unix_ms()),
            self.planned.drive.id,
            step.name
        ));
    }
}

fn limit_reached(step: &CampaignStep) -> String {
    let limit = span(step.limit_sec.into());
    format!("the time limit of {limit} was reached")
}

/// Describes the progress that the next attempt of a stopped step keeps. If two attempts in a row stop at the same
/// progress, more attempts would not help.
fn progress(step: &CampaignStep, results_dir: &Path) -> String {
    let series = Series::read(results_dir).ok().flatten();
    let steps = series.map_or_else(Vec::new, |series| series.steps);
    let has_begun = steps
        .iter()
        .any(|step| step.state != SeriesStepState::Planned);
    if has_begun {
        let done = steps
            .iter()
            .filter(|step| step.state == SeriesStepState::Done);
        return format!(" after {}", count(done.count() as u64, "complete run"));
    }
    // Before its first run, a series prepares its drive. A preparation resumes at its checkpoint.
    let command = step.words.first().map_or("", String::as_str);
    if ["prep", "certify", "rate", "baseline"].contains(&command) {
        return format!(" during the preparation, at {}", date(now_unix_ms()));
    }
    String::new()
}

/// Address on which the commands of task `index` serve metrics: the user's port plus the number of the task, because
/// tasks of one host cannot share a port. With port 0, each command chooses a free port. The command refuses a wrong
/// address.
fn metrics_address(index: usize) -> Option<String> {
    let given = variable(ADDRESS_VARIABLE)?;
    let host = given.rfind(':').map_or("", |colon| &given[..=colon]);
    match given[host.len()..].parse::<u16>() {
        Ok(port @ 1..) => Some(format!("{host}{}", usize::from(port) + index)),
        _ => Some(given),
    }
}

/// File for the metrics of task `index`: the user's file, with the number of the task in its name.
fn metrics_file(index: usize) -> Option<PathBuf> {
    let given = PathBuf::from(variable(FILE_VARIABLE)?);
    let mut name = format!("{}-{index:04}", given.file_stem()?.display());
    if let Some(extension) = given.extension() {
        name += &format!(".{}", extension.display());
    }
    Some(given.with_file_name(name))
}

/// Outcome of a run or series, the serial number of its drive if known, and its conclusion.
type RecordedResult = (Outcome, Option<String>, String);

/// The event at the end of a command, from its `status`, the task's `stop_reason`, and its `recorded` result.
fn conclusion(
    status: ExitStatus,
    stop_reason: Option<String>,
    recorded: Option<RecordedResult>,
    keeps_results: bool,
    is_drive: &dyn Fn(&str) -> bool,
    last_line: &dyn Fn() -> String,
) -> StepEvent {
    let Some(exit) = status.code() else {
        return StepEvent::Stopped {
            why: stop_reason.unwrap_or_else(|| format!("the command was killed ({status})")),
        };
    };
    match (exit, stop_reason, recorded) {
        // The task's signal ended the command without a verdict: the step is resumed later.
        (4, Some(why), _) => StepEvent::Stopped { why },
        (2 | 3 | 70, Some(why), None) => StepEvent::Stopped {
            why: format!("{why}; {}", last_line()),
        },
        (2 | 3 | 70, ..) => StepEvent::Refused { why: last_line() },
        (_, _, Some((_, Some(serial), _))) if !is_drive(&serial) => StepEvent::Refused {
            why: format!("the results are of another drive: {}", quoted(&serial)),
        },
        (_, _, None) if keeps_results => StepEvent::Refused {
            why: format!(
                "the results of the step cannot be read; its command printed: {}",
                last_line()
            ),
        },
        (exit, _, Some((outcome, _, sentence))) => StepEvent::Ended(StepEnd {
            exit,
            outcome: Some(outcome),
            sentence,
        }),
        (exit, _, None) => StepEvent::Ended(StepEnd {
            exit,
            outcome: None,
            sentence: last_line(),
        }),
    }
}

pub(crate) fn cannot(attempt: &str, dir: &Path, error: &io::Error) -> Failure {
    let advice = "check that the host can write the campaign's directory, then run the task again";
    failed(format!("{attempt} in {}", dir.display()), error, advice)
}

pub(crate) fn read_journal(dir: &Path) -> Result<Journal, Failure> {
    Journal::read(dir).map_err(|error| cannot("cannot read the journal of the task", dir, &error))
}

/// Slurm's name of the task; `None` outside a job of Slurm.
fn job() -> Option<String> {
    match (
        variable("SLURM_ARRAY_JOB_ID"),
        variable("SLURM_ARRAY_TASK_ID"),
    ) {
        (Some(job), Some(task)) => Some(format!("{job}_{task}")),
        _ => variable("SLURM_JOB_ID"),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Takes the lock of the task in `dir`. The scheduler runs a requeued job only once, so an older process of the same
/// job on this host is an orphan, and is asked to end.
fn lock(dir: &Path, planned: &PlannedDrive, job: Option<&str>) -> Result<TaskLock, Failure> {
    let began = Instant::now();
    let mut has_asked = false;
    loop {
        match TaskLock::take(dir) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held(_)) => {}
            Err(error) => return Err(Failure::environment(error)),
        }
        let journal = read_journal(dir)?;
        let holder = journal
            .entries
            .iter()
            .rev()
            .find_map(|entry| match &entry.event {
                StepEvent::Begun(begun) => Some((entry.unix_ms, begun)),
                _ => None,
            });
        let orphan = holder.filter(|(_, begun)| begun.job.is_some() && begun.job.as_deref() == job);
        let pid = orphan
            .and_then(|(_, begun)| begun.process.as_ref())
            .filter(|process| {
                process_state(process) == ProcessState::Running && process.pid != std::process::id()
            });
        match pid {
            Some(process) if began.elapsed() < ORPHAN_WAIT => {
                if !std::mem::replace(&mut has_asked, true) {
                    console::notice(&format!(
                        "process {} of an earlier start of this job still runs: ending the process",
                        process.pid
                    ));
                    ask_to_end(process.pid);
                }
                thread::sleep(POLL_INTERVAL);
            }
            // According to /proc, the orphan has ended, but its lock is not released yet.
            None if has_asked && began.elapsed() < ORPHAN_WAIT => thread::sleep(POLL_INTERVAL),
            _ => {
                let holder_text = holder.map_or_else(String::new, |(at, begun)| {
                    let pid = begun.process.as_ref().map_or_else(String::new, |process| {
                        format!(" by process {}", process.pid)
                    });
                    format!("{pid} on {} since {}", begun.host, date(at))
                });
                return Err(Failure::environment(format!(
                    "cannot run the task of drive {} - another process runs it{holder_text} - wait for that process, or end it \
                     with \"flashproof fleet cancel\"",
                    quoted(&planned.drive.id)
                )));
            }
        }
    }
}

/// The path of the task's drive on this host. Errors, as one sentence: the drive belongs to another host, or is
/// missing. The sentence names the drive found at the path, if any.
fn find(plan: &CampaignPlan, planned: &PlannedDrive) -> Result<String, String> {
    let InventoryDrive { id, path, .. } = &planned.drive;
    let this_host = host_name();
    if let Some(host) = planned.host.as_ref().filter(|host| **host != this_host) {
        return Err(format!(
            "the drive is on host {host}, but this host is {this_host}"
        ));
    }
    if planned.drive.is_simulated() {
        // A new inventory may have given a simulated drive another path since the start of the campaign.
        let inventories = Inventory::read_all(&plan.dir).map_err(|failure| failure.message)?;
        let drives = inventories
            .iter()
            .filter(|(_, of)| of.host.is_none() || of.host == planned.host);
        let drives = drives.flat_map(|(_, inventory)| &inventory.drives);
        let drives: Vec<&InventoryDrive> = drives.filter(|drive| drive.is_simulated()).collect();
        let replaced = drives.iter().find(|drive| drive.path == *path);
        return match drives.iter().find(|drive| drive.id == *id) {
            Some(drive) => Ok(drive.path.clone()),
            None => Err(missing(path, replaced.map(|drive| drive.id.clone()))),
        };
    }
    let guard = Guard::new(None);
    // The recorded path is tried first, because a scan briefly opens every device.
    if guard.is_name_of(id, path) {
        return Ok(path.clone());
    }
    let (disks, _) = discover::list(Path::new("/"));
    if let Some(listed) = disks
        .iter()
        .find(|listed| guard.is_name_of(id, &listed.disk))
    {
        return Ok(listed.disk.clone());
    }
    let present = discover::discover(path, Path::new("/")).ok();
    let name = |facts: DeviceFacts| facts.serial.or(facts.wwid);
    Err(missing(
        path,
        present.map(|facts| {
            name(facts).unwrap_or_else(|| "a drive without a serial number".to_owned())
        }),
    ))
}

fn missing(path: &str, replaced: Option<String>) -> String {
    match replaced {
        Some(other) => {
            format!("the drive is not on this host: {path} is now {other}; put the drive back")
        }
        None => {
            format!("the drive is not on this host, and there is no {path}; put the drive back")
        }
    }
}

/// Sets aside results that cannot be resumed, as `out.1`, `out.2`... A single run starts again. A series is resumed,
/// unless `is_repeated` is set because the user wants the step repeated.
fn set_aside(results_dir: &Path, is_repeated: bool) -> io::Result<PathBuf> {
    if fs::symlink_metadata(results_dir).is_ok_and(|found| found.is_symlink()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the results are a symbolic link",
        ));
    }
    let is_resumable = !is_repeated && matches!(dir_kind(results_dir), Ok(DirKind::Series));
    if results_dir.exists() && !is_resumable && files::remove_dir(results_dir).is_err() {
        let free_name = (1..)
            .map(|number| results_dir.with_extension(number.to_string()))
            .find(|name| fs::symlink_metadata(name).is_err());
        let free_name = free_name.as_deref().and_then(Path::file_name);
        free_name.map_or(Ok(()), |free| files::rename_new(results_dir, free))?;
    }
    Ok(results_dir.to_owned())
}

fn result_in(results_dir: &Path) -> Option<RecordedResult> {
    match DirStatus::read(results_dir, SystemTime::now(), &process_state).ok()? {
        DirStatus::Run(run) => {
            let manifest = results::run_dir::manifest(results_dir).ok()?;
            let serial = manifest.serial(0).map(str::to_owned);
            Some((run.result.outcome, serial, run.result.reason.clone()))
        }
        DirStatus::Series(series) => {
            let serial = Series::read(results_dir)
                .ok()??
                .devices
                .first()?
                .serial
                .clone();
            Some((series.outcome?, serial, series.conclusion.clone()))
        }
        DirStatus::Checks(checks) => Some((checks.outcome()?, None, checks.summary())),
    }
}

pub(crate) fn last_line(output: &Path) -> Option<String> {
    let mut file = files::open(output, files::Links::Refused).ok()?;
    let bytes = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let line = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    let line = line.trim_start_matches("error: ");
    Some(in_one_line(line).chars().take(SENTENCE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn progress_reports_the_preparation_before_the_first_run_of_a_series() {
        let dir = tempfile::tempdir().unwrap();
        let found = |command: &str| {
            let words = vec![command.to_owned(), DRIVE.to_owned()];
            let step = CampaignStep {
                words,
                ..CampaignStep::default()
            };
            progress(&step, dir.path())
        };
        for command in ["prep", "certify", "rate", "baseline"] {
            assert!(found(command).starts_with(" during the preparation, at "));
        }
        assert_eq!(found("storage"), "");
    }

    #[test]
    fn an_exit_code_alone_never_decides_how_a_step_ended() {
        let end = |raw: i32, stopped: bool, found: Option<(Outcome, &str)>, keeps_results: bool| {
            let found = found
                .map(|(outcome, serial)| (outcome, Some(serial.to_owned()), "said".to_owned()));
            let status = ExitStatus::from_raw(raw);
            let stopped = stopped.then(|| "asked".to_owned());
            match conclusion(
                status,
                stopped,
                found,
                keeps_results,
                &|name| name == "S1",
                &|| "printed".to_owned(),
            ) {
                StepEvent::Ended(ended) => format!(
                    "ended {} {:?} {}",
                    ended.exit, ended.outcome, ended.sentence
                ),
                StepEvent::Stopped { why } => format!("stopped {why}"),
                StepEvent::Refused { why } => format!("refused {why}"),
                other => panic!("{other:?}"),
            }
        };
        let pass = Some((Outcome::Pass, "S1"));
        let fail = (Outcome::Fail, "S1");
        let invalid = (Outcome::Invalid, "S1");
        for (event, is) in [
            (end(0, false, pass, true), "ended 0 Some(Pass) said"),
            (
                end(1 << 8, false, Some(fail), true),
                "ended 1 Some(Fail) said",
            ),
            (end(0, true, pass, true), "ended 0 Some(Pass) said"),
            (
                end(0, false, None, true),
                "refused the results of the step cannot be read; its command printed: printed",
            ),
            (end(0, false, None, false), "ended 0 None printed"),
            (
                end(0, false, Some((Outcome::Pass, "S2")), true),
                "refused the results are of another drive: \"S2\"",
            ),
            (
                end(4 << 8, false, Some(invalid), true),
                "ended 4 Some(Invalid) said",
            ),
            (end(4 << 8, true, Some(invalid), true), "stopped asked"),
            // Results of an earlier start of the step are ignored.
            (end(3 << 8, false, pass, true), "refused printed"),
            (end(3 << 8, true, None, true), "stopped asked; printed"),
            (end(9, true, pass, true), "stopped asked"),
            (
                end(9, false, pass, true),
                "stopped the command was killed (signal: 9 (SIGKILL))",
            ),
        ] {
            assert_eq!(event, is);
        }
    }

    #[test]
    fn a_repeated_step_starts_again_and_an_interrupted_series_resumes() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join(RESULTS);
        let begin = |file: &str, is_repeated: bool| {
            fs::create_dir_all(&out).unwrap();
            fs::write(out.join(file), "").unwrap();
            set_aside(&out, is_repeated).unwrap();
            out.exists()
        };
        assert!(begin("series.json", false), "a series goes on");
        assert!(!begin("series.json", true) && !begin("manifest.json", false));
        assert!(
            dir.path().join("out.1/series.json").exists()
                && dir.path().join("out.2/manifest.json").exists()
        );
    }
}
