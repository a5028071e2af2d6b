//! `flashproof certify`: runs the stages of a certification on devices, one after another, across interruptions.
//!
//! ```text
//! options, CONFIG -> CertificationRequest  load, stages, terms; nothing touched
//!                 -> Drives                identities of the drives, and whether they are prepared
//!                 -> Certification         the directory of the series, its lock, its state: started or resumed
//!                 -> doctor                findings about host and drives: shown and recorded, never blocking
//!                 -> prep                  drives whose record and data do not show a preparation
//!                 -> stages                one after another; series.json before and after each
//!                 -> conclusion, report.html
//! ```
//! `conclusions::certify` defines the stages, their rules and the claims, and `act::staged` the load of
//! a stage. The runner runs this load. This module joins the three, and keeps the state on disk.

pub mod options;
use crate::series::{
    self, Base1x, Drives, NOT_PREPARED, SeriesDir, default_name, may_erase, now_unix_ms,
    single_load, utc,
};
use act::staged::StagedLoad;
use conclusions::agreement::difference;
use conclusions::certify::{self, Claim, Linearity, STAGE_SEC, StageDetails, StageResult};
use conclusions::series::{DriveIdentity, Rule, Series, SeriesPurpose, SeriesStepState, Step};
use load::factor::Factor;
use options::CertifyOptions;
use report::step_outcome;
use report::table::Table;
use results::device_numbers::{DeviceNumbers, device_numbers};
use results::format::{self, span};
use results::judge::{End, Outcome, Verdict};
use results::run_dir::{self, RunDirError};
use serde_json::json;
use session::devices::Consents;
use session::failure::Failure;
use session::recording::NoObserver;
use session::runner::{self, FailureLimits, RunRequest};
use session::signals::{self, SignalHandler};
use session::{CompatMode, console};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &CertifyOptions) -> Result<ExitCode, Failure> {
    let request = CertificationRequest::from_options(args)?;
    let drives = Drives::inspect(&request.base.spec(), args.no_prep)?;
    let mut certification = Certification::open(args, request, &drives)?;
    certification.settle();
    let series_dir = &mut certification.series_dir;
    if certify::next(&series_dir.series, args.all_stages).is_none()
        && series_dir.series.conclusion.is_some()
    {
        console::note(&format!(
            "the series in {} is complete, with the result below; --fresh starts a new one",
            series_dir.dir.display()
        ));
        return certification.show_conclusion();
    }
    if args.series.dry_run {
        return certification.show_plan(&drives);
    }
    let signal_handler = SignalHandler::install(
        "run the same command to repeat the stage from its beginning",
        CompatMode::Native,
    )?;
    series_dir.examine();
    series_dir.print_findings();
    // The preparation can take hours. Meanwhile, `flashproof report status` must not show an old conclusion.
    series_dir.series.conclusion = None;
    series_dir.save()?;
    if !drives.to_prepare(series_dir.has_begun()).is_empty() {
        if let Some(code) = series_dir.prepare(&drives, &signal_handler)? {
            return Ok(code);
        }
        // Findings about unprepared drives are no longer valid.
        series_dir.examine();
        series_dir.save()?;
    }
    console::note(&certification.summary());
    while let Some(index) = certify::next(&certification.series_dir.series, args.all_stages) {
        let name = certification.stage_name(index);
        // A signal that arrived while the last run or preparation was being recorded takes effect here.
        if let Some(signal) = signal_handler.signal_received() {
            let cause = format!("{} arrived before {name} began", signals::name(signal));
            return certification.interrupted(&cause, "starts this stage");
        }
        match certification.run_stage(index, &signal_handler)? {
            // An immediate repetition would have the same result. The user can repeat the stage later.
            Some(Outcome::Invalid) => break,
            Some(_) => {}
            None => {
                let cause = format!(
                    "{name} was ended by {}",
                    certification.steps()[index].reason
                );
                return certification.interrupted(&cause, "repeats this stage from its beginning");
            }
        }
    }
    let conclusion = certify::conclude(
        &certification.series_dir.series,
        &certification.request.claim,
    );
    certification.series_dir.conclude(conclusion)?;
    certification.show_conclusion()
}

/// Length of a stage of `--screen`. Source: ACT's README: six hours "will give you a good idea".
const SCREEN_SEC: u32 = 21_600;

/// Length of a stage on simulated drives, whose hours pass in seconds.
const SIMULATED_SEC: u32 = 3_600;

/// Term with the kind of the series: certification or screening; fixed when the series starts.
const KIND_TERM: &str = "named";

struct CertificationRequest {
    /// The load of 1x, on all devices.
    base: Base1x,
    factor: Factor,
    stages: Vec<Step>,
    /// The claim, as far as the options determine it.
    claim: Claim,
    /// Terms that must be equal to resume a series.
    terms: Vec<(&'static str, String)>,
}

impl CertificationRequest {
    fn from_options(args: &CertifyOptions) -> Result<Self, Failure> {
        let as_act = args.as_act;
        let mut base = series::load_1x(
            args.config.as_deref(),
            &args.devices,
            as_act,
            "certify for a load",
        )?;
        let spec = base.spec();
        let simulated = spec.is_simulated();
        let stage_sec = match (args.duration, args.screen, simulated) {
            (Some(seconds), ..) => seconds,
            (None, true, _) => SCREEN_SEC,
            (None, false, true) => SIMULATED_SEC,
            (None, false, false) => STAGE_SEC as u32,
        };
        base.set_duration(stage_sec);
        let has_own_load = args.config.is_some() || simulated;
        let factor = args.load.unwrap_or(if has_own_load {
            Factor::ONE
        } else {
            Factor::RECOMMENDED
        });
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
        let claim =
            Claim {
                multiple: factor.to_string(),
                config: args.config.as_deref().filter(|_| !base.is_standard()).map(
                    |path: &Path| {
                        path.file_name()
                            .unwrap_or(path.as_os_str())
                            .to_string_lossy()
                            .into_owned()
                    },
                ),
                sla: args.sla.clone(),
                // The slice that the runs use: CONFIG may have a report interval longer than a slice.
                slice_sec: runner::length_of_slices(
                    args.slice.into(),
                    stage_sec.into(),
                    spec.report_interval_sec,
                    false,
                )?,
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
            (
                "preparation",
                if args.no_prep {
                    "none (--no-prep)"
                } else {
                    "before the first stage"
                }
                .to_owned(),
            ),
        ];
        let request = Self {
            base,
            factor,
            stages,
            claim,
            terms,
        };
        // Check the rates of all stages now: an error on the third day would come too late.
        for step in &request.stages {
            request.load(step)?;
        }
        Ok(request)
    }

    fn load(&self, step: &Step) -> Result<StagedLoad, Failure> {
        let factor = match step.rule {
            Rule::Completes => self.factor.doubled().map_err(Failure::usage)?,
            Rule::Limits | Rule::Recovers => self.factor,
        };
        self.base
            .multiplied(factor, &step.devices)
            .map_err(|errors| {
                let errors: Vec<_> = errors
                    .iter()
                    .map(|error| format!("{} ({factor}x): {error}", step.name))
                    .collect();
                Failure::usage(errors.join("\n"))
            })
    }

    fn series(&self, devices: Vec<DriveIdentity>) -> Series {
        let claim = &self.claim;
        let fixed_terms = [
            (KIND_TERM, claim.noun().to_owned()),
            (NOT_PREPARED, claim.unprepared.join(", ")),
        ];
        let terms = self.terms.iter().cloned().chain(fixed_terms);
        let planned =
            series::new_series(SeriesPurpose::Certify, devices, self.base.to_text(), terms);
        Series {
            steps: self.stages.clone(),
            ..planned
        }
    }
}

struct Certification<'a> {
    args: &'a CertifyOptions,
    /// The request, with the claim that the series may make.
    request: CertificationRequest,
    series_dir: SeriesDir,
}

impl<'a> Certification<'a> {
    /// Errors: another process runs the series; the directory holds another series, or a run.
    fn open(
        args: &'a CertifyOptions,
        mut request: CertificationRequest,
        drives: &Drives,
    ) -> Result<Self, Failure> {
        let claim = &mut request.claim;
        claim.unprepared.clone_from(&drives.left_unprepared);
        claim.virtual_kinds.clone_from(&drives.virtual_kinds);
        let config = claim
            .config
            .as_deref()
            .map(|config| format!("-{config}"))
            .unwrap_or_default();
        let load = format!("{}x{config}", claim.multiple);
        let first = args
            .out
            .clone()
            .unwrap_or_else(|| default_name("certify", &drives.identities, &load));
        let new_series = request.series(drives.identities.clone());
        // Both terms keep their values from the start: a drive that was unprepared then still counts as unprepared,
        // because tests do not prepare a drive.
        let series_dir = SeriesDir::open(
            &first,
            args.series.clone(),
            new_series,
            &[KIND_TERM, NOT_PREPARED],
            |options| may_erase(&request.base, args.no_prep, options),
        )?;
        let unprepared = series_dir
            .term(NOT_PREPARED)
            .split(", ")
            .filter(|name| !name.is_empty());
        request.claim.unprepared = unprepared.map(str::to_owned).collect();
        Ok(Self {
            args,
            request,
            series_dir,
        })
    }

    fn steps(&self) -> &[Step] {
        &self.series_dir.series.steps
    }

    /// Name of a stage, such as `stage 2 of 4`.
    fn stage_name(&self, index: usize) -> String {
        format!("stage {} of {}", index + 1, self.steps().len())
    }

    /// Runs the stage `index`; `None`: a signal ended it. Errors: the stage did not begin, or could not be recorded.
    /// Then the stage is marked as interrupted, and the same command repeats it.
    fn run_stage(
        &mut self,
        index: usize,
        signal_handler: &SignalHandler,
    ) -> Result<Option<Outcome>, Failure> {
        certify::begin(&mut self.series_dir.series.steps[index], now_unix_ms());
        self.series_dir.save()?;
        self.stage_begins(index);
        let devices = self.request.base.spec().names();
        let step = &self.steps()[index];
        let failure_limits = self.args.failure_limits.limits();
        let stage_request = RunRequest {
            consents: Consents {
                erase: &[],
                other_devices: &devices,
                shared: false,
            },
            sla: self.args.sla.clone(),
            slice_sec: self.args.slice.into(),
            failure_limits: FailureLimits {
                // A stage that only has to complete runs to its end, however slow the drive is.
                stop_when_decided: failure_limits.stop_when_decided && step.rule == Rule::Limits,
                ..failure_limits
            },
            heading: Some(self.heading(index)),
            ..RunRequest::new(single_load(self.request.load(step)?, &step.name))
        };
        let verdict =
            self.series_dir
                .run_step(index, stage_request, signal_handler, &mut NoObserver)?;
        let stage_outcome = self.record_verdict(index, &verdict, now_unix_ms());
        self.series_dir.save()?;
        if stage_outcome.is_some() {
            let step = &self.steps()[index];
            console::note(&format!(
                "{}: {}: {}",
                self.stage_name(index),
                outcome(step),
                step.reason
            ));
        }
        Ok(stage_outcome)
    }

    /// Settles a stage that an earlier process left as running. The stage is done if its run is completely recorded,
    /// even if the process ended before saving the verdict in the series; otherwise the stage is interrupted.
    fn settle(&mut self) {
        for index in 0..self.steps().len() {
            let step = &self.steps()[index];
            if step.state != SeriesStepState::Running {
                continue;
            }
            let Ok(run) = run_dir::read(&self.series_dir.dir.join(&step.dir)) else {
                continue;
            };
            let series = &self.series_dir.series;
            if run.agrees() == Some(true)
                && difference(series, step, &run.manifest, &run.verdict).is_none()
            {
                let ended_unix_ms = run
                    .manifest
                    .started_unix_ms
                    .saturating_add((run.verdict.ran_sec * 1e3) as u64);
                self.record_verdict(index, &run.verdict, ended_unix_ms);
            }
        }
        self.series_dir.series.interrupt_running_steps();
        for Step { name, reason, .. } in self
            .steps()
            .iter()
            .filter(|step| step.state == SeriesStepState::Interrupted)
        {
            console::note(&format!(
                "{name} did not complete ({reason}) and is run again from its beginning"
            ));
        }
    }

    fn record_verdict(
        &mut self,
        index: usize,
        verdict: &Verdict,
        ended_unix_ms: u64,
    ) -> Option<Outcome> {
        let step = &mut self.series_dir.series.steps[index];
        step.ended_unix_ms = Some(ended_unix_ms);
        if let End::Interrupted { signal } = &verdict.end {
            step.interrupt(&format!(
                "{signal} after {:.0} of {} s",
                verdict.ran_sec, verdict.duration_sec
            ));
            return None;
        }
        let StageResult {
            outcome,
            reason,
            notes,
            headline,
        } = certify::judge_stage(step.rule, verdict);
        step.state = SeriesStepState::Done;
        step.outcome = Some(outcome);
        step.reason = reason;
        let linearity = self.linearity(index);
        if let Some(linearity) = &linearity {
            console::note(&format!("\n{linearity}"));
        }
        self.series_dir.series.steps[index].details = json!(StageDetails {
            verdict: Some(verdict.outcome),
            decided_by: verdict.decided_by.clone(),
            ran_sec: verdict.ran_sec,
            streams: verdict.streams.clone(),
            notes,
            headline,
            linearity,
        });
        Some(outcome)
    }

    /// Compares the devices of a stage with the device tested alone, if the stage has several devices.
    fn linearity(&self, index: usize) -> Option<Linearity> {
        let step = &self.steps()[index];
        if step.rule != Rule::Limits || step.devices.len() < 2 {
            return None;
        }
        let alone_step = self.steps().iter().find(|step: &&Step| {
            step.rule == Rule::Limits
                && step.devices.len() == 1
                && step.state == SeriesStepState::Done
        })?;
        let compared = self
            .device_numbers(alone_step)
            .and_then(|alone| Ok(certify::linearity(&alone, &self.device_numbers(step)?)));
        compared.unwrap_or_else(|error| {
            console::warning(&format!(
                "cannot compare the devices of this stage with the device tested alone - {error}"
            ));
            None
        })
    }

    fn device_numbers(&self, step: &Step) -> Result<Vec<DeviceNumbers>, RunDirError> {
        let run = run_dir::read(&self.series_dir.dir.join(&step.dir))?;
        // Names may have changed at a reboot between the two runs; the number in the series is permanent.
        device_numbers(&run, &self.device_names(step))
    }

    fn show_plan(&self, drives: &Drives) -> Result<ExitCode, Failure> {
        let devices = drives.plan(&drives.to_prepare(self.series_dir.has_begun()));
        let slices = span(
            self.request
                .claim
                .slice_sec
                .min(self.request.claim.stage_sec),
        );
        console::page(&format!(
            "{}\n{devices}judged in slices of {slices}\n{}nothing was written\n",
            self.summary(),
            self.stages()
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    fn summary(&self) -> String {
        let open_steps = self
            .steps()
            .iter()
            .filter(|step| step.state != SeriesStepState::Done);
        let left_sec: u64 = open_steps.map(|step| step.duration_sec).sum();
        let time = if self.request.claim.simulated {
            format!("{} of simulated time", span(left_sec))
        } else {
            format!(
                "{}, until about {}",
                span(left_sec),
                utc(now_unix_ms(), left_sec)
            )
        };
        format!(
            "{} for {} in {}: {time}; state and results: {}",
            self.request.claim.noun(),
            self.request.claim.subject(),
            format::count(self.steps().len() as u64, "stage"),
            self.series_dir.dir.display()
        )
    }

    /// Announces a stage on a terminal; the log of a script has only the stage's result.
    fn stage_begins(&self, index: usize) {
        if !console::stderr_is_terminal() {
            return;
        }
        let step = &self.steps()[index];
        let rule = match step.rule {
            Rule::Limits => "passes if it stays within the limits",
            _ => "passes if it runs to completion, at any latency",
        };
        console::note(&format!(
            "\n{}: {} on {}, {}; the stage {rule}",
            self.heading(index),
            self.load(step),
            self.devices(step),
            span(step.duration_sec)
        ));
    }

    fn heading(&self, index: usize) -> String {
        let name = self.stage_name(index);
        if self.request.claim.simulated {
            name
        } else {
            format!(
                "{name}, ends about {}",
                utc(now_unix_ms(), self.steps()[index].duration_sec)
            )
        }
    }

    fn show_conclusion(&self) -> Result<ExitCode, Failure> {
        let class = format!(" ({})", self.request.claim.noun());
        self.series_dir.show_conclusion(&class, &self.stages())
    }

    fn interrupted(&self, event: &str, advice: &str) -> Result<ExitCode, Failure> {
        let noun = self.request.claim.noun();
        let message = format!(" ({noun}): {event}; the same command {advice}");
        self.series_dir.show_interruption(&message, &self.stages())
    }

    fn stages(&self) -> String {
        let headings = [
            "stage",
            "load",
            "devices",
            "length",
            "outcome",
            "run directory",
        ];
        let rows = self.steps().iter().map(|step| {
            let dir = if step.attempts > 0 {
                step.dir.clone()
            } else {
                "-".to_owned()
            };
            [
                step.name.clone(),
                self.load(step),
                self.devices(step),
                span(step.duration_sec),
                outcome(step),
                dir,
            ]
        });
        format!(
            "\n{}\n{}",
            Table::new("").text(headings).rows(rows),
            self.series_dir.format_paths()
        )
    }

    /// The load of a stage, as a multiple.
    fn load(&self, step: &Step) -> String {
        match &self.request.claim.config {
            None => format!("{}x", step.multiple),
            Some(config) => format!("{} times {config}", step.multiple),
        }
    }

    /// Names of the devices of a stage, or their number if they are many.
    fn devices(&self, step: &Step) -> String {
        let names = self.device_names(step);
        match names.len() {
            0..=2 => names.join(", "),
            many => format!("all {many} devices"),
        }
    }

    fn device_names(&self, step: &Step) -> Vec<&str> {
        let devices = &self.series_dir.series.devices;
        step.devices
            .iter()
            .filter_map(|device| Some(devices.get(*device)?.name.as_str()))
            .collect()
    }
}

fn outcome(step: &Step) -> String {
    step_outcome(step.state, step.outcome, true, "running")
}
