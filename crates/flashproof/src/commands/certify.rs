//! `flashproof certify`: runs the stages of a certification on devices, one after another, across interruptions.
//!
//! ```text
//! options, CONFIG -> Request     load, devices, terms; nothing touched
//!                 -> Drives      identities of the drives, and whether they are prepared
//!                 -> Certification  the directory of the series, its lock, its state: started or resumed
//!                 -> doctor      findings about host and drives: shown and recorded, never blocking
//!                 -> prep        drives that are not recorded as prepared
//!                 -> stages      one after another; series.json before and after each
//!                 -> conclusion, report.html
//! ```
//! `conclusions::certify` defines the stages, their rules and the claims, and `load::workload::act::staged` the load of
//! a stage. The runner runs this load. This module joins the three, and keeps the state on disk.

use crate::args::CertifyArgs;
use conclusions::certify::{self, Claim, Linearity, STAGE_SEC, StageResult};
use conclusions::series::{Identity, Purpose, Rule, Series, State, Step};
use load::factor::Factor;
use load::workload::Load;
use load::workload::act::ActWorkload;
use procedures::series::{
    self, Base1x, Drives, NOT_PREPARED, SeriesDir, default_name, may_erase, now_unix_ms, single_load, utc,
};
use report::table::Table;
use results::judge::{End, Outcome, Verdict};
use results::run_dir;
use results::units::{self, span};
use serde_json::json;
use session::devices::Consents;
use session::failure::Failure;
use session::recording::NoObserver;
use session::runner::RunRequest;
use session::signals::{self, SignalHandler};
use session::{CompatMode, console, runner};
use std::path::Path;
use std::process::ExitCode;

/// Certifies devices, resuming from the state on disk.
pub fn run(args: &CertifyArgs) -> Result<ExitCode, Failure> {
    let request = Request::of(args)?;
    let drives = Drives::inspect(&request.base.spec(), args.no_prep)?;
    let mut place = Certification::open(args, &request, &drives)?;
    settle(&mut place);
    if certify::next(&place.kept.series, args.all_stages).is_none() && place.kept.series.conclusion.is_some() {
        console::note(&format!(
            "the series in {} is complete, with the result below; --fresh starts a new one",
            place.kept.dir.display()
        ));
        return show_conclusion(&place);
    }
    if args.series.dry_run {
        return show_plan(&place, &drives);
    }
    let switch =
        SignalHandler::install("run the same command to repeat the stage from its beginning", CompatMode::Native)?;
    place.kept.examine();
    place.kept.print_findings();
    // The preparation can take hours, in which `flashproof report status` may be called.
    place.kept.series.conclusion = None;
    place.kept.save()?;
    if !args.no_prep && !drives.to_prepare(place.kept.has_begun()).is_empty() {
        if let Some(code) = place.kept.prepare(&drives, &switch)? {
            return Ok(code);
        }
        // Findings about unprepared drives are no longer valid.
        place.kept.examine();
        place.kept.save()?;
    }
    console::note(&summary(&place));
    while let Some(index) = certify::next(&place.kept.series, args.all_stages) {
        // A signal that arrived while the last run or preparation was being recorded takes effect here.
        if let Some(signal) = switch.signal_received() {
            return interrupted(
                &place,
                &format!("{} arrived before {} began", signals::name(signal), place.stage_name(index)),
                "starts this stage",
            );
        }
        match run_stage(args, &request, &mut place, index, &switch)? {
            // An immediate repetition would have the same result. The user can repeat the stage later.
            Some(Outcome::Invalid) => break,
            Some(_) => {}
            None => {
                let reason = &place.kept.series.steps[index].reason;
                let what = format!("{} was ended by {reason}", place.stage_name(index));
                return interrupted(&place, &what, "repeats this stage from its beginning");
            }
        }
    }
    place.kept.conclude(certify::conclude(&place.kept.series, &place.claim))?;
    show_conclusion(&place)
}

/// Length of a stage of `--screen`. Source: ACT's README: six hours "will give you a good idea".
const SCREEN_SEC: u32 = 21_600;

/// Length of a stage on simulated drives, whose hours pass in seconds.
const SIMULATED_SEC: u32 = 3_600;

/// Term with the kind of the series: certification or screening; fixed when the series starts.
const KIND_TERM: &str = "named";

/// The requested certification.
struct Request {
    /// The load of 1x, on all devices.
    base: Base1x,
    /// Multiple of the load.
    factor: Factor,
    stages: Vec<Step>,
    /// The claim, as far as the options determine it.
    claim: Claim,
    /// Terms that must be equal to resume a series.
    terms: Vec<(&'static str, String)>,
}

impl Request {
    /// The request in `args`. Errors: invalid options or files.
    fn of(args: &CertifyArgs) -> Result<Self, Failure> {
        let as_act = args.as_act;
        let mut base = series::load_1x(args.config.as_deref(), &args.devices, as_act, "certify for a load")?;
        let spec = base.spec();
        let simulated = spec.is_simulated();
        let stage_sec = match (args.duration, args.screen, simulated) {
            (Some(seconds), ..) => seconds,
            (None, true, _) => SCREEN_SEC,
            (None, false, true) => SIMULATED_SEC,
            (None, false, false) => STAGE_SEC as u32,
        };
        base.set_duration(stage_sec);
        let own = args.config.is_some() || simulated;
        let factor = args.load.unwrap_or(if own { Factor::ONE } else { Factor::RECOMMENDED });
        let names = spec.names();
        let single = match &args.single {
            None => 0,
            Some(single) => names.iter().position(|name| name == single).ok_or_else(|| {
                Failure::usage(format!(
                    "cannot test {single} alone (--single) - it is not among the devices - name one of: {}",
                    names.join(", ")
                ))
            })?,
        };
        let file_name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let claim = Claim {
            multiple: factor.to_string(),
            config: args.config.as_deref().filter(|_| !base.is_standard()).map(file_name),
            sla: args.sla.clone(),
            // The slice that the runs use: CONFIG may have a report interval longer than a slice.
            slice_sec: runner::length_of_slices(args.slice.into(), stage_sec.into(), spec.report_interval_sec, false)?,
            stage_sec: stage_sec.into(),
            simulated,
            files: spec.file_size_bytes.is_some(),
            virtual_kinds: Vec::new(),
            unprepared: Vec::new(),
            as_act: base.is_paced_as_published(),
        };
        let stages = certify::stages(factor.as_f64(), names.len(), single, stage_sec.into());
        let terms = vec![
            ("load", claim.load()),
            ("limits", args.sla.to_string()),
            ("length of a stage", span(stage_sec.into())),
            ("length of a slice", span(args.slice.into())),
            ("tested alone", (single + 1).to_string()),
            ("preparation", if args.no_prep { "none (--no-prep)" } else { "before the first stage" }.to_owned()),
        ];
        let request = Self { base, factor, stages, claim, terms };
        // Check the rates of all stages now: an error on the third day would come too late.
        for step in &request.stages {
            request.load(step)?;
        }
        Ok(request)
    }

    /// Load of a stage.
    fn load(&self, step: &Step) -> Result<Load<ActWorkload>, Failure> {
        let factor = match step.rule {
            Rule::Completes => self.factor.doubled().map_err(Failure::usage)?,
            Rule::Limits | Rule::Recovers => self.factor,
        };
        self.base.multiplied(factor, &step.devices).map_err(|errors| {
            let errors: Vec<_> = errors.iter().map(|error| format!("{} ({factor}x): {error}", step.name)).collect();
            Failure::usage(errors.join("\n"))
        })
    }

    /// A new series of this request on `devices`.
    fn series(&self, devices: Vec<Identity>, claim: &Claim) -> Series {
        let last = [(KIND_TERM, claim.noun().to_owned()), (NOT_PREPARED, claim.unprepared.join(", "))];
        let terms = self.terms.iter().cloned().chain(last);
        let planned = series::new_series(Purpose::Certify, devices, self.base.to_text(), terms);
        Series { steps: self.stages.clone(), ..planned }
    }
}

/// The certification, its directory, and the lock to run it.
struct Certification {
    /// Directory and state.
    kept: SeriesDir,
    /// The claim that the series may make.
    claim: Claim,
}

impl Certification {
    /// Opens the directory of the series of `request`.
    ///
    /// Errors: another process runs it; the directory holds another series, or a run.
    fn open(args: &CertifyArgs, request: &Request, drives: &Drives) -> Result<Self, Failure> {
        let claim = Claim {
            unprepared: drives.left_unprepared.clone(),
            virtual_kinds: drives.virtual_kinds.clone(),
            ..request.claim.clone()
        };
        let config = claim.config.as_deref().map(|config| format!("-{config}")).unwrap_or_default();
        let load = format!("{}x{config}", claim.multiple);
        let first = args.out.clone().unwrap_or_else(|| default_name("certify", &drives.identities, &load));
        let now = request.series(drives.identities.clone(), &claim);
        // Tests do not prepare a drive: a drive that was unprepared at the start still counts as unprepared.
        let kept = SeriesDir::open(&first, args.series.clone(), now, &[KIND_TERM, NOT_PREPARED], |options| {
            may_erase(&request.base, args.no_prep, options)
        })?;
        let unprepared = kept.term(NOT_PREPARED).split(", ").filter(|name| !name.is_empty());
        let claim = Claim { unprepared: unprepared.map(str::to_owned).collect(), ..claim };
        Ok(Self { kept, claim })
    }

    /// Name of a stage, such as `stage 2 of 4`.
    fn stage_name(&self, index: usize) -> String {
        format!("stage {} of {}", index + 1, self.kept.series.steps.len())
    }
}

/// Runs the stage `index`; `None`: a signal ended it. Errors: the stage did not begin, or could not be recorded. Then
/// the stage is marked as interrupted, and the same command repeats it.
fn run_stage(
    args: &CertifyArgs,
    request: &Request,
    place: &mut Certification,
    index: usize,
    switch: &SignalHandler,
) -> Result<Option<Outcome>, Failure> {
    certify::begin(&mut place.kept.series.steps[index], now_unix_ms());
    place.kept.save()?;
    stage_begins(place, index);
    let devices = request.base.spec().names();
    let step = &place.kept.series.steps[index];
    let asked = RunRequest {
        consents: Consents { erase: &[], others: &devices, shared: false },
        sla: args.sla.clone(),
        slice_sec: args.slice.into(),
        patience: args.patience.into(),
        heading: Some(heading(place, index)),
        ..RunRequest::new(single_load(request.load(step)?, &step.name))
    };
    let verdict = place.kept.run_step(index, asked, None, switch, &mut NoObserver)?;
    let ended = record_verdict(place, index, &verdict, now_unix_ms());
    place.kept.save()?;
    if ended.is_some() {
        let step = &place.kept.series.steps[index];
        console::note(&format!("{}: {}: {}", place.stage_name(index), outcome(step), step.reason));
    }
    Ok(ended)
}

/// Settles a stage that an earlier process left as running. The stage is done if its run is completely recorded, even
/// if the process ended before saving the verdict in the series; otherwise the stage is interrupted.
fn settle(place: &mut Certification) {
    for index in 0..place.kept.series.steps.len() {
        let step = &place.kept.series.steps[index];
        if step.state != State::Running {
            continue;
        }
        let run = run_dir::read(&place.kept.dir.join(&step.dir));
        if let Some(run) = run.ok().filter(|run| run.agrees() == Some(true)) {
            let ended_unix_ms = run.manifest.started_unix_ms.saturating_add((run.verdict.ran_sec * 1e3) as u64);
            record_verdict(place, index, &run.verdict, ended_unix_ms);
        }
    }
    place.kept.series.interrupt_running_steps();
    for step in place.kept.series.steps.iter().filter(|step| step.state == State::Interrupted) {
        console::note(&format!("{} did not complete ({}): it is run again from its beginning", step.name, step.reason));
    }
}

/// Records the verdict on the run of a stage.
fn record_verdict(place: &mut Certification, index: usize, verdict: &Verdict, ended_unix_ms: u64) -> Option<Outcome> {
    let step = &mut place.kept.series.steps[index];
    step.ended_unix_ms = Some(ended_unix_ms);
    if let End::Interrupted { signal } = &verdict.end {
        step.interrupt(&format!("{signal} after {:.0} of {} s", verdict.ran_sec, verdict.duration_sec));
        return None;
    }
    let StageResult { outcome, reason, notes } = certify::judge_stage(step.rule, verdict);
    step.state = State::Done;
    step.outcome = Some(outcome);
    step.reason = reason;
    // For the conclusion and the report, so that they need not read the run's directory.
    step.details = json!({
        "verdict": verdict.outcome,
        "decided_by": verdict.decided_by,
        "ran_sec": verdict.ran_sec,
        "streams": verdict.streams,
        "notes": notes,
    });
    if let Some(linearity) = linearity(place, index) {
        console::note(&format!("\n{linearity}"));
        place.kept.series.steps[index].details["linearity"] = json!(linearity);
    }
    Some(outcome)
}

/// Compares the devices of a stage with the device tested alone, if the stage has several.
fn linearity(place: &Certification, index: usize) -> Option<Linearity> {
    let step = &place.kept.series.steps[index];
    if step.rule != Rule::Limits || step.devices.len() < 2 {
        return None;
    }
    let is_alone = |step: &&Step| step.rule == Rule::Limits && step.devices.len() == 1 && step.state == State::Done;
    let alone = place.kept.series.steps.iter().find(is_alone)?;
    // Names may have changed at a reboot between the two runs; the number in the series is permanent.
    let numbers = |step: &Step| {
        let devices = step.devices.iter().filter_map(|device| place.kept.series.devices.get(*device));
        let names: Vec<_> = devices.map(|device| device.name.as_str()).collect();
        results::device_numbers::device_numbers(&run_dir::read(&place.kept.dir.join(&step.dir))?, &names)
    };
    let compared = numbers(alone).and_then(|alone| Ok(certify::linearity(&alone, &numbers(step)?)));
    compared.unwrap_or_else(|error| {
        console::warning(&format!("cannot compare the devices of this stage with the device tested alone - {error}"));
        None
    })
}

/// Prints the plan of a dry run. Returns the exit code.
fn show_plan(place: &Certification, drives: &Drives) -> Result<ExitCode, Failure> {
    let devices = drives.plan(&drives.to_prepare(place.kept.has_begun()));
    let slices = span(place.claim.slice_sec.min(place.claim.stage_sec));
    console::page(&format!(
        "{}\n{devices}judged in slices of {slices}\n{}nothing was written\n",
        summary(place),
        stages(place)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(place: &Certification) -> String {
    let steps = &place.kept.series.steps;
    let left = steps.iter().filter(|step| step.state != State::Done);
    let left_sec: u64 = left.map(|step| step.duration_sec).sum();
    let time = match place.claim.simulated {
        true => format!("{} of simulated time", span(left_sec)),
        false => format!("{}, until about {}", span(left_sec), utc(now_unix_ms(), left_sec)),
    };
    format!(
        "{} for {} in {}: {time}; state and results: {}",
        place.claim.noun(),
        place.claim.subject(),
        units::count(steps.len() as u64, "stage"),
        place.kept.dir.display()
    )
}

/// Announces a stage on a terminal; the log of a script has only its result.
fn stage_begins(place: &Certification, index: usize) {
    if !console::stderr_is_terminal() {
        return;
    }
    let step = &place.kept.series.steps[index];
    let rule = match step.rule {
        Rule::Limits => "passes within the limits",
        _ => "passes if it runs to completion, at any latency",
    };
    console::note(&format!(
        "\n{}: {} on {}, {}; the stage {rule}",
        heading(place, index),
        load(place, step),
        devices(place, step),
        span(step.duration_sec)
    ));
}

/// Heading of each line of progress.
fn heading(place: &Certification, index: usize) -> String {
    let which = place.stage_name(index);
    match place.claim.simulated {
        true => which,
        false => format!("{which}, ends about {}", utc(now_unix_ms(), place.kept.series.steps[index].duration_sec)),
    }
}

/// Prints the result of a finished series. Returns the exit code.
fn show_conclusion(place: &Certification) -> Result<ExitCode, Failure> {
    let outcome = place.kept.series.conclusion.as_ref().map(|conclusion| conclusion.outcome);
    let head = outcome.map(|outcome| format!("{outcome} ({}): ", place.claim.noun()));
    place.kept.show_conclusion(&head.unwrap_or_default(), &stages(place))
}

/// Prints the state of an interrupted series. Returns the exit code.
fn interrupted(place: &Certification, what: &str, how: &str) -> Result<ExitCode, Failure> {
    let noun = place.claim.noun();
    place.kept.show_interruption(&format!(" ({noun}): {what}; the same command {how}"), &stages(place))
}

/// Table of the stages, and their directories.
fn stages(place: &Certification) -> String {
    let headings = ["stage", "load", "devices", "length", "outcome", "run directory"];
    let rows = place.kept.series.steps.iter().map(|step| {
        let dir = if step.attempts > 0 { step.dir.clone() } else { "-".to_owned() };
        [step.name.clone(), load(place, step), devices(place, step), span(step.duration_sec), outcome(step), dir]
    });
    format!("\n{}\n{}", Table::new("").text(headings).rows(rows), place.kept.format_paths())
}

/// The load of a stage, as a multiple.
fn load(place: &Certification, step: &Step) -> String {
    match &place.claim.config {
        None => format!("{}x", step.multiple),
        Some(config) => format!("{} times {config}", step.multiple),
    }
}

/// Names of the devices of a stage, or their number if they are many.
fn devices(place: &Certification, step: &Step) -> String {
    let named = step.devices.iter().filter_map(|device| place.kept.series.devices.get(*device));
    let names: Vec<_> = named.map(|device| device.name.as_str()).collect();
    match names.len() {
        0..=2 => names.join(", "),
        many => format!("all {many} devices"),
    }
}

fn outcome(step: &Step) -> String {
    match (step.state, step.outcome) {
        (State::Done, Some(outcome)) => outcome.to_string(),
        (State::Planned, _) => "not run".to_owned(),
        (State::Running, _) => "running".to_owned(),
        _ => "interrupted".to_owned(),
    }
}
