//! `flashproof rate`: the highest multiple of a load that devices hold.
//!
//! ```text
//! options, CONFIG -> RatingRequest  load, bounds, terms; nothing touched
//!                 -> SeriesDir      the directory of the series, started or resumed
//!                 -> SearchRun      the search, replayed from the steps done
//!                     next load -> an observed run -> its result -> next load ...
//!                 -> conclusion
//! ```
//! `conclusions::rate` decides the next load and the result of a step. This module connects `conclusions::rate`
//! with the runner, and saves the state before and after each step.

pub mod options;
pub mod predict;
mod search;

use crate::series::{self, Base1x, Drives, NOT_PREPARED, SeriesDir, default_name, may_erase};
use act::load_summary::LoadSummary;
use act::staged::StagedLoad;
use conclusions::rate::{
    NextRun, RECOVERY_ROUNDS_MAX, ROUNDS_MIN, SPELLS_IN_WINDOW, SearchResult, StepDetails,
    StepOutcome, conclude, three_digits,
};
use conclusions::series::{DriveIdentity, Series, SeriesPurpose, SeriesStepState, Step};
use load::factor::Factor;
use options::RateOptions;
use report::table::Table;
use results::format::span;
use results::judge::{Outcome, Sla, round_sec};
use search::SearchRun;
use session::failure::Failure;
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &RateOptions) -> Result<ExitCode, Failure> {
    let request = RatingRequest::from_options(args)?;
    let drives = Drives::inspect(&request.base.spec(), args.no_prep)?;
    let first = args
        .out
        .clone()
        .unwrap_or_else(|| default_name("rate", &drives.identities, &request.config_name));
    let new_series = request.series(drives.identities.clone(), &drives.left_unprepared);
    let mut series_dir = SeriesDir::open(
        &first,
        args.series.clone(),
        new_series,
        &[NOT_PREPARED],
        |options| may_erase(&request.base, args.no_prep, options),
    )?;
    series_dir.series.interrupt_running_steps();
    if series_dir
        .series
        .conclusion
        .as_ref()
        .is_some_and(|conclusion| conclusion.outcome != Outcome::Invalid)
    {
        console::note(&format!(
            "the search in {} is complete; --fresh starts a new one",
            series_dir.dir.display()
        ));
        return series_dir.show_conclusion("", &steps(&series_dir));
    }
    if args.series.dry_run {
        return show_plan(&series_dir, &request, &drives);
    }
    let signal_handler = SignalHandler::install(
        "run the same command to repeat the step",
        CompatMode::Native,
    )?;
    series_dir.series.conclusion = None;
    series_dir.save()?;
    if let Some(code) = series_dir.prepare(&drives, &signal_handler)? {
        return Ok(code);
    }
    series_dir.examine();
    series_dir.print_findings();
    console::note(&summary(&series_dir, &request));
    let Some(finding) = climb(&request, &mut series_dir, &signal_handler)? else {
        return series_dir.show_interruption(
            ": run the same command to repeat the interrupted step",
            &steps(&series_dir),
        );
    };
    let caveats = request.not_comparable(series_dir.term(NOT_PREPARED), &drives.virtual_kinds);
    let mut conclusion = conclude(
        &series_dir.series,
        &finding,
        &args.sla,
        &load_options(args.config.as_deref(), &args.sla, args.as_act),
        &caveats,
    );
    conclusion
        .remarks
        .extend(finding.held.and_then(|held| request.shortened(held)));
    series_dir.conclude(conclusion)?;
    series_dir.show_conclusion("", &steps(&series_dir))
}

/// The options of another command that make its load and its limits the same.
fn load_options(config: Option<&Path>, sla: &Sla, as_act: bool) -> Vec<String> {
    let config = config.map(|path| ["--config".to_owned(), path.display().to_string()]);
    let sla = (*sla != Sla::default()).then(|| ["--sla".to_owned(), sla.to_string()]);
    let as_act = as_act.then(|| "--as-act".to_owned());
    let valued = config.into_iter().chain(sla).flatten();
    valued.chain(as_act).collect()
}

/// Runs loads until the rating is found; `None`: interrupted.
fn climb(
    request: &RatingRequest,
    series_dir: &mut SeriesDir,
    signal_handler: &SignalHandler,
) -> Result<Option<SearchResult>, Failure> {
    let mut search = SearchRun::replayed(request, &series_dir.series);
    loop {
        // A signal that arrived while the last step or preparation was being recorded takes effect here.
        if signal_handler.signal_received().is_some() {
            return Ok(None);
        }
        let next_run = match search.next() {
            Ok(next_run) => next_run,
            Err(finding) => return Ok(Some(finding)),
        };
        if search.run(next_run, series_dir, signal_handler)?.is_break() {
            return Ok(None);
        }
    }
}

/// Duration of the confirmation, seconds: ACT's slice.
const SLICE_SEC: u32 = 3_600;
/// Maximum operations of a step on simulated drives without --slice: about a minute of CPU.
const SIMULATED_OPS_MAX: f64 = 250e6;
/// Minimum of a slice shortened by [`SIMULATED_OPS_MAX`], seconds: a minute shows the drive's behaviour at a rate.
const SIMULATED_SLICE_SEC_MIN: u64 = 60;

pub struct RatingRequest {
    /// The load of 1x, on all devices.
    pub base: Base1x,
    pub first_load: f64,
    pub highest_load: f64,
    /// Maximum distance of the result from the true rating, as a fraction.
    pub resolution: f64,
    /// Duration of the confirmation.
    slice: Slice,
    /// Operations per second at 1x on simulated drives, if they limit the length of a step.
    bounding_iops: Option<f64>,
    /// Maximum time under load, seconds.
    pub max_sec: Option<f64>,
    pub simulated: bool,
    /// Name of CONFIG; empty without one.
    pub config_name: String,
    sla: Sla,
    as_act: bool,
    no_prep: bool,
}

/// Time in which a load is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Seconds, in whole rounds.
    pub sec: u64,
    pub round_sec: u64,
}

impl Slice {
    /// A slice of at least `sec` in whole rounds, for a run that reports every `interval_sec`.
    fn new(sec: u64, interval_sec: u64) -> Self {
        let round_sec = round_sec(None, sec, interval_sec);
        Self {
            sec: sec.div_ceil(round_sec) * round_sec,
            round_sec,
        }
    }
}

impl RatingRequest {
    pub fn from_options(args: &RateOptions) -> Result<Self, Failure> {
        let base = series::load_1x(args.config.as_deref(), &args.devices, args.as_act, "rate")?;
        let spec = base.spec();
        let first_load = three_digits(args.from.as_f64());
        let highest_load = three_digits(args.up_to.as_f64());
        if first_load > highest_load {
            return Err(Failure::usage(format!(
                "cannot search from {first_load}x (--from) up to {highest_load}x (--up-to) - the first load is the higher one - \
                 give a lower --from"
            )));
        }
        let simulated = spec.is_simulated();
        let summary = || LoadSummary::from_config(base.config(), &[]).ok();
        let file_name = args.config.as_deref().and_then(|path| path.file_name());
        let request = Self {
            first_load,
            highest_load,
            resolution: args.resolution / 100.0,
            slice: Slice::new(
                args.slice.unwrap_or(SLICE_SEC).into(),
                spec.report_interval_sec,
            ),
            bounding_iops: if simulated && args.slice.is_none() {
                summary().map(|summary: LoadSummary| {
                    summary
                        .flows
                        .iter()
                        .map(|flow| flow.rate.per_sec_f64())
                        .sum()
                })
            } else {
                None
            },
            max_sec: args.max_duration.map(f64::from),
            simulated,
            config_name: file_name
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            sla: args.sla.clone(),
            as_act: base.is_paced_as_published(),
            no_prep: args.no_prep,
            base,
        };
        // Check the first rate now, before hours are spent.
        request.load(first_load, request.slice(first_load).sec)?;
        Ok(request)
    }

    pub fn slice(&self, multiple: f64) -> Slice {
        match self.bounding_iops {
            Some(iops) if iops * multiple * self.slice.sec as f64 > SIMULATED_OPS_MAX => {
                let sec = (SIMULATED_OPS_MAX / (iops * multiple)) as u64;
                Slice::new(
                    sec.max(SIMULATED_SLICE_SEC_MIN).min(self.slice.sec),
                    self.base.spec().report_interval_sec,
                )
            }
            _ => self.slice,
        }
    }

    /// Maximum duration of a run of the search, seconds; `wait_sec` is the longest time so far before a slow spell. On
    /// a real drive, a confirmation contains several spells.
    pub fn longest_sec(&self, next_run: NextRun, wait_sec: f64) -> u64 {
        let Slice { sec, round_sec } = self.slice(next_run.multiple());
        match next_run {
            NextRun::Recover(_) => RECOVERY_ROUNDS_MAX as u64 * round_sec,
            NextRun::Confirm(_) if !self.simulated => {
                let spells_sec = (SPELLS_IN_WINDOW as f64 * wait_sec) as u64;
                sec.max(spells_sec.div_ceil(round_sec) * round_sec)
            }
            NextRun::Try(_) | NextRun::Confirm(_) => sec,
        }
    }

    /// Minimum time in which a run of the search can have a result, seconds.
    pub fn least_sec(&self, next_run: NextRun, wait_sec: f64) -> u64 {
        match next_run {
            NextRun::Confirm(_) => self.longest_sec(next_run, wait_sec),
            NextRun::Try(_) | NextRun::Recover(_) => {
                ROUNDS_MIN as u64 * self.slice(next_run.multiple()).round_sec
            }
        }
    }

    /// Why a confirmation of `multiple` is shorter than normal; `None` if it has the normal length.
    pub fn shortened(&self, multiple: f64) -> Option<String> {
        let sec = self.slice(multiple).sec;
        (sec < self.slice.sec).then(|| {
            let sec = span(sec);
            let normal = span(self.slice.sec);
            let hours = self.slice.sec / 3_600;
            format!(
                "the load was judged over {sec}, not {normal}, to take at most a minute of CPU (--slice {hours}h judges \
                 the whole time)"
            )
        })
    }

    /// The load of `multiple` times 1x on all devices, for at most `seconds`.
    pub fn load(&self, multiple: f64, seconds: u64) -> Result<StagedLoad, Failure> {
        let mut base = self.base.clone();
        base.set_duration(u32::try_from(seconds).unwrap_or(u32::MAX));
        let devices: Vec<usize> = (0..base.spec().device_names.len()).collect();
        let factor: Factor = multiple.to_string().parse().map_err(Failure::usage)?;
        base.multiplied(factor, &devices).map_err(|errors| {
            let errors: Vec<_> = errors
                .iter()
                .map(|error| format!("{multiple}x: {error}"))
                .collect();
            Failure::usage(errors.join("\n"))
        })
    }

    pub fn series(&self, devices: Vec<DriveIdentity>, unprepared: &[String]) -> Series {
        let terms = [
            ("limits", self.sla.to_string()),
            ("first load", format!("{}x", self.first_load)),
            ("highest load", format!("{}x", self.highest_load)),
            ("resolution", format!("{} %", self.resolution * 100.0)),
            ("length of a round", span(self.slice.round_sec)),
            ("confirmed for", span(self.slice.sec)),
            (
                "pacing",
                if self.as_act { "as ACT" } else { "even" }.to_owned(),
            ),
            (
                "load of 1x",
                if self.base.is_standard() {
                    "ACT's"
                } else {
                    "its own"
                }
                .to_owned(),
            ),
            (
                "preparation",
                if self.no_prep {
                    "none (--no-prep)"
                } else {
                    "before the first step"
                }
                .to_owned(),
            ),
            (NOT_PREPARED, unprepared.join(", ")),
        ];
        series::new_series(SeriesPurpose::Rate, devices, self.base.to_text(), terms)
    }

    /// Why a rating must not be compared with published ones. `unprepared`: names of the unprepared devices;
    /// `virtual_kinds`: kinds of devices that are not drives.
    pub fn not_comparable(&self, unprepared: &str, virtual_kinds: &[String]) -> Vec<String> {
        let reasons = [
            (
                !self.as_act,
                "operations were evenly spaced, which favours a drive (--as-act paces as ACT does)",
            ),
            (!self.base.is_standard(), "the load of 1x was not ACT's"),
            (self.sla != Sla::default(), "the limits were not ACT's"),
            (self.simulated, "the drive was simulated"),
            (!unprepared.is_empty(), "the drive was not prepared"),
            (
                self.slice.sec < SLICE_SEC.into(),
                "the rating was confirmed for less than an hour",
            ),
        ];
        let reasons = reasons
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, why)| why.to_owned());
        reasons.chain(virtual_kinds.iter().cloned()).collect()
    }
}

fn show_plan(
    series_dir: &SeriesDir,
    request: &RatingRequest,
    drives: &Drives,
) -> Result<ExitCode, Failure> {
    let (least_sec, most_sec) = SearchRun::replayed(request, &series_dir.series).range_sec();
    let devices = drives.plan(&drives.to_prepare(series_dir.has_begun()));
    let time_note = if request.simulated {
        " of simulated time"
    } else {
        ""
    };
    console::page(&format!(
        "{}\n{devices}the rating is confirmed over {}\ntime under load: from {} to {}{time_note}, depending on the \
         rating; slow spells of a drive add to this time\nnothing was written\n",
        summary(series_dir, request),
        span(request.slice(request.first_load).sec),
        span(least_sec),
        span(most_sec)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(series_dir: &SeriesDir, request: &RatingRequest) -> String {
    let bound = match request.max_sec {
        Some(seconds) => format!(", at most {} under load", span(seconds as u64)),
        None => String::new(),
    };
    format!(
        "searching for the rating from {}x up, in rounds of {}{bound}; state and results: {}{}",
        request.first_load,
        span(request.slice(request.first_load).round_sec),
        series_dir.dir.display(),
        series_dir.done_before()
    )
}

fn steps(series_dir: &SeriesDir) -> String {
    let headings = ["step", "result", "rounds", "worst share", "run directory"];
    format!(
        "\n{}\n{}",
        Table::new("")
            .text(headings)
            .rows(series_dir.series.steps.iter().map(row)),
        series_dir.format_paths()
    )
}

fn row(step: &Step) -> Vec<String> {
    let details = StepDetails::from_step(step);
    let rounds = details
        .as_ref()
        .map_or(String::new(), |details| details.judged.rounds.to_string());
    // The table has only the share at the lowest threshold; the report has the others.
    let shares = details
        .iter()
        .flat_map(|details| &details.judged.shares)
        .filter_map(|shares| shares.share.first());
    let worst = shares
        .copied()
        .reduce(f64::max)
        .map_or(String::new(), |share| format!("{:.3} %", share * 100.0));
    vec![
        step.name.clone(),
        result_word(step).to_owned(),
        rounds,
        worst,
        step.dir.clone(),
    ]
}

fn result_word(step: &Step) -> &'static str {
    match (
        step.state,
        StepDetails::from_step(step).map(|details| details.judged.seen),
    ) {
        (SeriesStepState::Done, Some(StepOutcome::Held)) => "held",
        (SeriesStepState::Done, Some(StepOutcome::Failed)) => "not held",
        (SeriesStepState::Done, Some(StepOutcome::Broken)) => "operations failed",
        (SeriesStepState::Done, Some(StepOutcome::NotSteady)) => "not steady",
        (SeriesStepState::Done, Some(StepOutcome::OurLimit)) => "limited by host",
        (SeriesStepState::Running, _) => "running",
        _ => "interrupted",
    }
}
