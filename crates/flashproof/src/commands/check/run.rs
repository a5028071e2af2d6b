//! Performs a check on one disk: lays out files that are read, runs the jobs, judges the criteria.

use super::definition::{Definition, RunDefinition};
use super::file_use::{FileState, FileUse};
use super::jobs::{CheckJob, LAYOUT_BLOCK};
use super::look::{self, LookRequest};
use super::site::{OWN_DIR, Site};
use crate::fio_run::{FioRun, FioRunObserver, Trigger, layout, write_layout};
use conclusions::check::{
    CHECK_FORMAT_VERSION, CheckAnswer, CheckMetric, CheckResult, CheckedRun, Figures,
    JudgedCriterion, burst_ends, for_option, judge, outcome_of_run,
};
use fio::FioLoad;
use results::files::{self, ReplaceTarget};
use results::format;
use results::judge::{Outcome, StreamTotals};
use results::run_dir::{self, Intervals, Manifest, check_usable};
use results::steady::{ChangePoint, Rounds, Steadiness};
use session::clock::now_unix_ms;
use session::console;
use session::devices::Consents;
use session::failure::Failure;
use session::runner::{NamedWorkload, RunRequest, run, tool};
use session::signals::SignalHandler;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Seconds of load that use up the burst credits of a cloud volume (30 minutes), and leave time to measure.
const CREDITS_SEC: u64 = 2_400;

/// If the disk moved less than this fraction of the jobs' bytes, a cache or another layer above the disk answered.
const DISK_BYTES_MIN: f64 = 0.5;

/// A thread may wait for a CPU for at most this fraction of the time; above, the host may cause slow operations.
const WAIT_SHARE_MAX: f64 = 0.1;

#[derive(Debug)]
pub struct CheckRequest<'a> {
    pub definition: Definition,
    /// `None`: the check of a database.
    pub look: Option<&'a LookRequest>,
    /// Directory, device or simulated drive.
    pub path: &'a str,
    pub erase: &'a [String],
    /// Directory for the record and its runs.
    pub dir: PathBuf,
    /// Seconds of load in the checks after this one.
    pub later_sec: u64,
    pub quiet: bool,
    pub note: Option<&'a str>,
}

pub fn perform(
    request: &CheckRequest<'_>,
    signal_handler: &SignalHandler,
) -> Result<CheckResult, Failure> {
    check_usable(&request.dir).map_err(Failure::environment)?;
    let new_dirs = files::create_dirs(&request.dir).map_err(|error| {
        Failure::environment(format!("cannot create {} - {error}", request.dir.display()))
    })?;
    // A check that was refused before its first run leaves no directory. A directory with a run is not removed.
    performed(request, signal_handler).inspect_err(|_| new_dirs.remove())
}

fn performed(
    request: &CheckRequest<'_>,
    signal_handler: &SignalHandler,
) -> Result<CheckResult, Failure> {
    let CheckRequest {
        definition, path, ..
    } = request;
    let started_unix_ms = now_unix_ms();
    let file_uses = definition.files()?;
    let site = Site::open(path, &file_uses)?;
    warn_of_credits(definition, &site);
    if let Some(bytes) = site.files_bytes {
        let bytes = format::bytes(bytes as f64);
        console::note(&format!(
            "{}: files of up to {bytes} in {path}/{}; removed at the end",
            definition.name, OWN_DIR
        ));
    }
    // Find mistakes in all runs before anything is written.
    let loads = definition.loads(&site)?;
    lay_out(
        request,
        &site,
        &file_uses,
        FileState::Shared,
        "",
        signal_handler,
    )?;
    let mut completed = Vec::new();
    let mut stop_reason = None;
    for (number, (run, load)) in definition.runs.iter().zip(loads).enumerate() {
        let stopped = || signal_handler.signal_received().is_some();
        match lay_out(
            request,
            &site,
            &file_uses,
            FileState::Rewritten,
            &run.name,
            signal_handler,
        ) {
            Err(_) if stopped() && number > 0 => {
                stop_reason = Some(format!("the check was stopped before its run {}", run.name));
                break;
            }
            laid_out => laid_out?,
        }
        completed.push(perform_run(request, &site, run, load, signal_handler)?);
        let is_own = |used: &FileUse| used.state != FileState::Shared && used.run == run.name;
        let own_files: Vec<_> = file_uses
            .iter()
            .filter(|(_, used)| is_own(used))
            .map(|(name, _)| name.clone())
            .collect();
        site.remove(&own_files);
        if stopped() {
            let next = definition.runs.get(number + 1);
            stop_reason =
                next.map(|next| format!("the check was stopped before its run {}", next.name));
            break;
        }
    }
    let mut sustained = definition.sustained.clone();
    if site.may_have_credits() && sustained.seconds < CREDITS_SEC {
        sustained.seconds = CREDITS_SEC;
        sustained.why = format!(
            "{} A virtual disk can have burst credits for 30 minutes.",
            sustained.why
        );
    }
    // A failing disk also writes little, which does not prove that a cache answered.
    let is_broken = completed.iter().any(|done| done.is_broken);
    let cached = completed
        .iter()
        .find_map(|done| done.cached.clone())
        .filter(|_| !is_broken);
    let has_failed = completed
        .iter()
        .any(|done| done.run.outcome == Outcome::Fail);
    let look = request.look.zip(completed.first());
    let why_invalid = look
        .and_then(|(look, run)| look.why_invalid(run))
        .or(cached)
        .or(stop_reason.filter(|_| !has_failed));
    let check = CheckResult {
        format_version: CHECK_FORMAT_VERSION,
        tool: tool(),
        name: definition.name.clone(),
        database: definition.database.clone(),
        question: definition.question.clone(),
        path: (*path).to_owned(),
        disk: site.disk_text(),
        started_unix_ms,
        outcome: Outcome::Invalid,
        answer: CheckAnswer::default(),
        sentence: String::new(),
        remarks: remarks(&site, &file_uses, &completed),
        tiers: definition.tiers.clone(),
        criteria: completed
            .iter()
            .flat_map(|done| done.criteria.clone())
            .collect(),
        runs: completed.iter().map(|done| done.run.clone()).collect(),
        sustained,
        cannot_see: definition.cannot_see.clone(),
        files: Vec::new(),
        look: None,
        note: request.note.map(str::to_owned),
        circumstances: site.circumstances(),
    };
    let mut check = check.concluded(why_invalid);
    if let Some((look, run)) = look {
        look.conclude(&mut check, run);
    }
    write_files(request, &completed, &mut check)?;
    check.write(&request.dir).map_err(Failure::environment)?;
    Ok(check)
}

/// Warns that a test which is shorter than burst credits last cannot pass.
fn warn_of_credits(definition: &Definition, site: &Site) {
    let mut criteria = definition.runs.iter().flat_map(|run| &run.criteria);
    if site.may_have_credits()
        && definition.seconds() < CREDITS_SEC
        && criteria.any(|criterion| criterion.deciding_limit().is_some())
    {
        let path = &site.path;
        let time = for_option(CREDITS_SEC);
        console::warning_once(&format!(
            "the disk of {path} may have burst credits: the answer \"good enough\" needs at least --for {time}"
        ));
    }
}

pub(super) struct CompletedRun {
    pub(super) run: CheckedRun,
    criteria: Vec<JudgedCriterion>,
    /// Jobs that wrote more than their new file holds, a sentence each.
    overwritten: Vec<String>,
    /// Evidence that the host was too busy; `None` if there is none.
    pub(super) busy_host: Option<String>,
    /// A goal that the run missed, although no criterion failed.
    missed_goal: Option<String>,
    figures: Vec<(String, Figures)>,
    pub(super) streams: Vec<StreamTotals>,
    /// Number of reads that returned only zeros; 0 if the jobs do not count such reads separately.
    pub(super) reads_of_zeros: u64,
    /// Evidence that a layer above the disk answered; `None` if there is none, or the disk is not known.
    cached: Option<String>,
    is_disk_known: bool,
    /// True if operations failed or were lost, or the device disappeared.
    is_broken: bool,
}

impl CompletedRun {
    pub(super) fn figures(&self, stream: &str) -> Option<&Figures> {
        let (_, figures) = self.figures.iter().find(|(name, _)| name == stream)?;
        Some(figures)
    }
}

impl CheckRequest<'_> {
    fn run_request<'r>(&'r self, site: &'r Site, load: FioLoad, dir: PathBuf) -> RunRequest<'r> {
        let erase = if site.own_files.is_empty() {
            self.erase
        } else {
            &site.own_files
        };
        RunRequest {
            dir,
            consents: Consents {
                erase,
                other_devices: &site.own_files,
                shared: false,
            },
            quiet: self.quiet,
            note: self.note.map(str::to_owned),
            // No block trace: a check needs no root, and is too short for samples.
            trace: false,
            // The doctor's advice would name a file that the check removes at its end.
            findings: Some(
                self.look
                    .map_or_else(Vec::new, |look| look.findings.clone()),
            ),
            ..RunRequest::new(NamedWorkload::alone(load, self.definition.text.clone()))
        }
    }
}

/// Writes the files in `state`: the shared files, or those of `run`. Reads of unwritten blocks would not reach the drive,
/// and the first writes of a block cost more than later ones. On a device, only the ranges that a job reads are written.
fn lay_out(
    request: &CheckRequest<'_>,
    site: &Site,
    files: &BTreeMap<String, FileUse>,
    state: FileState,
    run: &str,
    signal_handler: &SignalHandler,
) -> Result<(), Failure> {
    for (file, used) in files {
        let is_due = used.state == state
            && (state == FileState::Shared || used.run == run)
            && (site.files_bytes.is_some() || used.is_read);
        if !is_due {
            continue;
        }
        let bytes = used.bytes.next_multiple_of(LAYOUT_BLOCK);
        let (target, offset) = site.place(file);
        let mut load = layout(&target.parse().map_err(Failure::usage)?, offset, bytes)?;
        if site.files_bytes.is_none() {
            load.files.clear();
        }
        let text = format::bytes(bytes as f64);
        console::note(&format!(
            "{}: writing {file}, {text}, before the test",
            request.definition.name
        ));
        match write_layout(load, signal_handler, |load, dir| {
            request.run_request(site, load, dir)
        })? {
            None => {}
            Some(_) if signal_handler.signal_received().is_some() => {
                return Err(Failure::invalid(format!(
                    "stopped while {file} was written, before its run"
                )));
            }
            Some(why) => {
                return Err(Failure::device(format!(
                    "cannot write {text} to {} - {why}",
                    site.path
                )));
            }
        }
    }
    Ok(())
}

fn perform_run(
    request: &CheckRequest<'_>,
    site: &Site,
    definition: &RunDefinition,
    load: FioLoad,
    signal_handler: &SignalHandler,
) -> Result<CompletedRun, Failure> {
    let jobs = definition.check_jobs(&request.definition)?;
    load.check_buffers()
        .map_err(|error| Failure::environment(error.to_string()))?;
    let left = request
        .definition
        .runs
        .iter()
        .skip_while(|run| run.name != definition.name)
        .map(|run| run.seconds);
    console::note(&format!(
        "{}, run {}: {}; {} left in all",
        request.definition.name,
        definition.name,
        format::span(definition.seconds),
        format::span(left.sum::<u64>() + request.later_sec)
    ));
    let names = load.stream_names();
    let dir = request.dir.join(&definition.name);
    let fio_run = FioRun::new(load);
    // This clone and `fio_run` share the progress of the jobs.
    let load = fio_run.load.clone();
    let mut runs = vec![fio_run];
    let trigger = Trigger::default();
    let observer = &mut FioRunObserver {
        runs: &mut runs,
        status_sec: None,
        trigger: &trigger,
        force: false,
        show: &|_| Ok(()),
        failure: None,
    };
    let sla = load.thresholds().map_err(Failure::usage)?;
    let full_request = RunRequest {
        sla,
        slice_sec: definition.slice_sec(),
        ..request.run_request(site, load, dir.clone())
    };
    let verdict = run(full_request, signal_handler, observer)?.recorded()?;
    let Some(fio_run) = runs.pop() else {
        return Err(Failure::environment("a run without results"));
    };
    let percents: Vec<_> = definition
        .criteria
        .iter()
        .filter_map(|criterion| criterion.metric.percent())
        .chain([50.0, 99.0, 100.0])
        .chain(look::PERCENTS)
        .collect();
    let figures: Vec<_> = names.into_iter().zip(fio_run.figures(&percents)).collect();
    let manifest = run_dir::manifest(&dir).map_err(Failure::environment)?;
    let waits = cpu_waits(&dir, &manifest)?;
    let change_points = burst_ends_in(&dir, &manifest, &waits, verdict.ran_sec)?;
    let judged = definition.criteria.iter().filter_map(|criterion| {
        let (_, figures) = figures.iter().find(|(name, _)| *name == criterion.stream)?;
        Some(judge(criterion, &verdict, figures, &change_points))
    });
    let mut criteria: Vec<JudgedCriterion> = judged.collect();
    let waited = wait_share(&waits, 0, &manifest);
    let busy_host = (waited > WAIT_SHARE_MAX).then(|| {
        format!(
            "the host was too busy (flashproof waited for a CPU for {} of the time)",
            format::percent(waited)
        )
    });
    let outcome = outcome_of_run(&verdict, definition.criteria.iter(), busy_host.is_some());
    // The verdict failed, but no criterion did: no depth met the latency goal, or a rate that no criterion limits was
    // not held.
    let is_goal_alone = outcome == Outcome::Measured && verdict.outcome == Outcome::Fail;
    let is_in_doubt = outcome == Outcome::Invalid && verdict.outcome == Outcome::Fail;
    for judged in criteria
        .iter_mut()
        .filter(|judged| is_in_doubt && judged.outcome == Outcome::Fail)
    {
        judged.outcome = Outcome::Invalid;
    }
    let headline = verdict.headline().sentence;
    let read_bytes = bytes_moved(&figures, "-reads");
    let bytes_written = bytes_moved(&figures, "-writes");
    let disk = fio_run.disk_bytes();
    let cached = disk.and_then(|by_disk| {
        let each = [
            ("read", read_bytes, by_disk[0]),
            ("wrote", bytes_written, by_disk[1]),
        ]
        .into_iter();
        each.filter_map(|(did, moved, by_disk)| cache_evidence(definition, did, moved, by_disk))
            .next()
    });
    let new_files = jobs.iter().filter(|_| site.files_bytes.is_some());
    let overwritten = new_files
        .filter_map(|job| overwritten(definition, job, &figures))
        .collect();
    Ok(CompletedRun {
        run: CheckedRun {
            name: definition.name.clone(),
            outcome,
            reason: busy_host
                .as_ref()
                .filter(|_| is_in_doubt)
                .map_or(headline, |busy| format!("{busy}; the disk was not judged")),
            seconds: verdict.ran_sec,
            bytes_written,
            burst_ends: change_points.iter().map(ToString::to_string).collect(),
            is_host_busy: busy_host.is_some(),
        },
        criteria,
        figures,
        streams: verdict.streams.clone(),
        reads_of_zeros: fio_run.reads_of_zeros(),
        overwritten,
        busy_host,
        missed_goal: is_goal_alone
            .then(|| format!("run {}: {}", definition.name, verdict.headline().sentence)),
        cached,
        is_disk_known: disk.is_some(),
        is_broken: verdict.is_broken(),
    })
}

/// Bytes of all streams whose name contains `kind`.
fn bytes_moved(figures: &[(String, Figures)], kind: &str) -> u64 {
    figures
        .iter()
        .filter(|(name, _)| name.contains(kind))
        .map(|(_, figures)| figures.bytes)
        .sum()
}

/// A sentence if a job wrote its new file more than once.
fn overwritten(
    definition: &RunDefinition,
    job: &CheckJob,
    figures: &[(String, Figures)],
) -> Option<String> {
    let name = format!("{}-writes", job.job.name);
    let (_, written) = figures.iter().find(|(stream, _)| *stream == name)?;
    let is_new = matches!(job.state, FileState::Fresh | FileState::Appended);
    (is_new && written.bytes > job.bytes).then(|| {
        format!(
            "run {}: the job {} wrote {} to a file of {file}. After the first {file} the writes overwrote blocks, but the \
             database writes new blocks: give a larger size, or rate_iops",
            definition.name,
            job.job.name,
            format::bytes(written.bytes as f64),
            file = format::bytes(job.bytes as f64)
        )
    })
}

/// For each interval of the run in `dir` on a real disk: start in seconds, and the threads' waits for a CPU.
fn cpu_waits(dir: &Path, manifest: &Manifest) -> Result<Vec<(u64, u64)>, Failure> {
    let mut waits = Vec::new();
    let mut intervals = Intervals::open(dir, manifest).map_err(Failure::environment)?;
    while let Some(record) = intervals.next().map_err(Failure::environment)? {
        waits.push((record.counts.after_sec, record.counts.run_delay_ns));
    }
    Ok(if manifest.simulated {
        Vec::new()
    } else {
        waits
    })
}

/// Mean share of the time after `from_sec` in which an issuing thread waited for a CPU.
fn wait_share(waits: &[(u64, u64)], from_sec: u64, manifest: &Manifest) -> f64 {
    let later: Vec<_> = waits
        .iter()
        .filter(|(after_sec, _)| *after_sec > from_sec)
        .collect();
    let waited_ns: u64 = later.iter().map(|(_, ns)| ns).sum();
    let threads = manifest.engine_facts["issuing_threads"]
        .as_u64()
        .unwrap_or(1)
        .max(1);
    let seconds = later.len().max(1) as u64 * manifest.report_interval_sec;
    waited_ns as f64 / ((threads * seconds) as f64 * 1e9)
}

/// Ends of bursts in the run in `dir`, except those after which flashproof's threads waited for a CPU.
fn burst_ends_in(
    dir: &Path,
    manifest: &Manifest,
    waits: &[(u64, u64)],
    ran_sec: f64,
) -> Result<Vec<ChangePoint>, Failure> {
    let rounds = Rounds::read(dir, manifest).map_err(Failure::environment)?;
    let is_ours = |end: &ChangePoint| wait_share(waits, end.at_sec, manifest) > WAIT_SHARE_MAX;
    let mut ends = burst_ends(Steadiness::from_rounds(&rounds).change_points, ran_sec);
    ends.retain(|end| !is_ours(end));
    Ok(ends)
}

/// A sentence if the page cache or another layer answered instead of the disk; `None` if the disk answered.
fn cache_evidence(
    definition: &RunDefinition,
    verb: &str,
    job_bytes: u64,
    disk_bytes: u64,
) -> Option<String> {
    ((disk_bytes as f64) < job_bytes as f64 * DISK_BYTES_MIN).then(|| {
        let text = |count: u64| format::bytes(count as f64);
        format!(
            "run {}: the jobs {verb} {}, but the disk only {}: the page cache or another layer answered instead of the disk",
            definition.name,
            text(job_bytes),
            text(disk_bytes)
        )
    })
}

fn remarks(site: &Site, files: &BTreeMap<String, FileUse>, runs: &[CompletedRun]) -> Vec<String> {
    let mut remarks: Vec<_> = runs
        .iter()
        .filter_map(|done| done.missed_goal.clone())
        .collect();
    remarks.extend(
        runs.iter()
            .flat_map(|done| &done.run.burst_ends)
            .map(|end| format!("a burst ended: {end}")),
    );
    remarks.extend(runs.iter().flat_map(|done| done.overwritten.clone()));
    let judged = runs
        .iter()
        .filter(|done| done.run.outcome != Outcome::Invalid);
    let busy = judged.filter_map(|done| {
        Some(format!(
            "run {}: {}; its values were measured on a busy host",
            done.run.name,
            done.busy_host.as_ref()?
        ))
    });
    remarks.extend(busy);
    let is_state_missing =
        |used: &FileUse| !matches!(used.state, FileState::Shared | FileState::Existing);
    if site.files_bytes.is_none() && files.values().any(is_state_missing) {
        remarks.push(
            "no file system was tested: a database's writes to new, rewritten or growing files cost more than these \
             writes to a device"
                .to_owned(),
        );
    }
    if site.files_bytes.is_some() && runs.iter().any(|done| !done.is_disk_known) {
        remarks.push(
            "the disk of this directory is unknown (overlay, network or multi-device file system), so a cache may have \
             answered instead of the disk"
                .to_owned(),
        );
    }
    remarks
}

/// Writes the files of the check with the figures in their placeholders: `{RUN/STREAM.METRIC}`, `{path}`.
fn write_files(
    request: &CheckRequest<'_>,
    runs: &[CompletedRun],
    check: &mut CheckResult,
) -> Result<(), Failure> {
    for (name, template) in &request.definition.files {
        let text = match fill_template(template, request.path, runs) {
            Ok(text) => text,
            Err(missing) => {
                check
                    .remarks
                    .push(format!("{name} was not written: {missing}"));
                continue;
            }
        };
        let path = request.dir.join(name);
        files::replace(&path, text.as_bytes(), ReplaceTarget::NewFile).map_err(|error| {
            Failure::environment(format!("cannot write {} - {error}", path.display()))
        })?;
        check.files.push(name.clone());
    }
    let path = request.dir.join("check.toml");
    files::replace(
        &path,
        request.definition.text.as_bytes(),
        ReplaceTarget::NewFile,
    )
    .map_err(|error| Failure::environment(format!("cannot write {} - {error}", path.display())))
}

/// Fills placeholders with figures. A comment line (#) with a missing figure is left out. In another line, a missing
/// figure is an error.
fn fill_template(template: &str, path: &str, runs: &[CompletedRun]) -> Result<String, String> {
    let mut text = String::new();
    for line in template.trim_start().split_inclusive('\n') {
        match fill_line(line, path, runs) {
            Err(_) if line.trim_start().starts_with('#') => {}
            filled => text += &filled?,
        }
    }
    Ok(text)
}

fn fill_line(template: &str, path: &str, runs: &[CompletedRun]) -> Result<String, String> {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (placeholder, rest) = part.split_once('}').ok_or("its text has a { without }")?;
        text += &match placeholder {
            "path" => fs::canonicalize(path).map_or_else(
                |_| path.to_owned(),
                |path| path.to_string_lossy().into_owned(),
            ),
            _ => {
                let value = placeholder_value(placeholder, runs)
                    .ok_or_else(|| format!("there is no value for {placeholder}"))?;
                (value as u64).to_string()
            }
        };
        text += rest;
    }
    Ok(text)
}

/// Value of the placeholder `RUN/STREAM.METRIC`; `None` if there is none, or if it is less than 1.
fn placeholder_value(placeholder: &str, runs: &[CompletedRun]) -> Option<f64> {
    let (run, of_stream) = placeholder.split_once('/')?;
    let (stream, metric) = of_stream.split_once('.')?;
    let completed_run = runs
        .iter()
        .find(|done| done.run.name == run && done.missed_goal.is_none())?;
    completed_run
        .figures(stream)?
        .value(CheckMetric::try_from(metric.to_owned()).ok()?)
        .filter(|value| *value >= 1.0)
}
