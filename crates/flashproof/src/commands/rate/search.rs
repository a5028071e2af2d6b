//! A search in progress: the next load, its run, and the result.

use super::{RatingRequest, result_word};
use crate::series::{SeriesDir, now_unix_ms, single_load};
use conclusions::rate::{
    JudgedStep, NextRun, RatingSearch, RoundShares, SearchResult, SearchStop, StepDetails,
    StepOutcome, StepPurpose, Watcher,
};
use conclusions::series::{Rule, Series, SeriesStepState, Step};
use results::cell::Interval;
use results::format::span;
use results::judge::{End, Outcome};
use results::run_dir::Manifest;
use serde_json::json;
use session::console;
use session::failure::Failure;
use session::recording::RunObserver;
use session::runner::{FailureLimits, RunRequest};
use session::signals::SignalHandler;
use std::ops::ControlFlow;

/// I/O errors after which a step ends early. A single error fails the step, so a failing drive needs no further load.
const PATIENCE: FailureLimits = FailureLimits::with_errors(100);

/// The search ends after this many consecutive steps that flashproof or its host limited.
const OUR_LIMIT_MAX: u32 = 3;

/// Maximum number of slices to which a confirmation is lengthened.
const LENGTHENED_MAX: u64 = 4;

/// Ratings tried in a dry run: from the first load / [`RANGE_BELOW`] to the highest load x [`RANGE_ABOVE`].
const RATINGS_TRIED: u32 = 200;
const RANGE_BELOW: f64 = 100.0;
const RANGE_ABOVE: f64 = 1.1;

pub(super) struct SearchRun<'a> {
    request: &'a RatingRequest,
    search: RatingSearch,
    /// Shares of slow operations of each run that held its load, in the order of the runs.
    shares: Vec<(NextRun, Vec<RoundShares>)>,
    /// Longest time so far before a slow spell of the drive, seconds.
    wait_sec: f64,
    ran_sec: f64,
    /// Consecutive steps limited by flashproof or its host.
    our_limit: u32,
    /// True if the time limit ended a step before it had a result.
    is_time_up: bool,
    /// Minimum length of the next confirmation, slices.
    lengthened: u64,
}

impl<'a> SearchRun<'a> {
    /// The search after the steps done in `series`.
    pub(super) fn replayed(request: &'a RatingRequest, series: &Series) -> Self {
        let mut search = Self {
            request,
            search: RatingSearch::new(request.first_load, request.highest_load, request.resolution),
            shares: Vec::new(),
            wait_sec: 0.0,
            ran_sec: 0.0,
            our_limit: 0,
            is_time_up: false,
            lengthened: 1,
        };
        for step in &series.steps {
            search.ran_sec += step.details["ran_sec"].as_f64().unwrap_or(0.0);
            // A step that flashproof or its host limited is left out: the cause may be gone by now.
            if let Some(details) = StepDetails::from_step(step)
                .filter(|details| details.judged.seen != StepOutcome::OurLimit)
            {
                search.record_result(details.moved, &details.judged);
            }
        }
        search
    }

    /// The next run. `Err`: the finding of the search, if no run is needed, or none fits into the time.
    pub(super) fn next(&self) -> Result<NextRun, SearchResult> {
        let next_run = self.search.next()?;
        let needed_sec = self
            .request
            .least_sec(next_run, self.wait_sec)
            .max(self.lengthened_sec(next_run));
        match self.request.max_sec {
            Some(_) if self.is_time_up => Err(self.search.finding(SearchStop::TimeUp)),
            Some(max_sec) if self.ran_sec + needed_sec as f64 > max_sec => {
                Err(self.search.finding(SearchStop::TimeUp))
            }
            _ => Ok(next_run),
        }
    }

    /// Shortest and longest remaining time under load, seconds, over all possible ratings, without slow spells.
    pub(super) fn range_sec(&self) -> (u64, u64) {
        let request = self.request;
        let lowest = request.first_load / RANGE_BELOW;
        let highest = request.highest_load * RANGE_ABOVE;
        let ratings = (0..=RATINGS_TRIED)
            .map(|at| lowest * (highest / lowest).powf(f64::from(at) / f64::from(RATINGS_TRIED)));
        let times = ratings.map(|rating| self.time_sec(rating));
        let (least_sec, most_sec) = times
            .reduce(|(a, b), (least, most)| (a.min(least), b.max(most)))
            .unwrap_or((0, 0));
        let left_sec = request
            .max_sec
            .map_or(u64::MAX, |max_sec| (max_sec - self.ran_sec).max(0.0) as u64);
        (least_sec.min(left_sec), most_sec.min(left_sec))
    }

    /// Shortest and longest time under load, seconds, until the search finds `rating`.
    fn time_sec(&self, rating: f64) -> (u64, u64) {
        let mut search = self.search.clone();
        let mut least_sec = 0;
        let mut most_sec = 0;
        while let Ok(next_run) = search.next() {
            least_sec += self.request.least_sec(next_run, self.wait_sec);
            most_sec += self.request.longest_sec(next_run, self.wait_sec);
            if next_run.multiple() <= rating {
                search.record_held(next_run, matches!(next_run, NextRun::Confirm(_)))
            } else {
                search.record_not_held(next_run, !self.request.simulated)
            }
        }
        (least_sec, most_sec)
    }

    /// Runs the load of `next_run`, and adds the result to the search. The step is saved in `series_dir` before and
    /// after the run. `Break`: a signal ended the run.
    pub(super) fn run(
        &mut self,
        next_run: NextRun,
        series_dir: &mut SeriesDir,
        signal_handler: &SignalHandler,
    ) -> Result<ControlFlow<()>, Failure> {
        let request = self.request;
        let step = self.step(next_run, &series_dir.series);
        let duration_sec = step.duration_sec;
        let slice = request.slice(next_run.multiple());
        let longest_sec = self.longest_sec(next_run);
        let load = match request.load(next_run.multiple(), duration_sec) {
            Ok(load) => load,
            Err(failure) => {
                console::warning(&failure.message);
                self.search.out_of_range();
                return Ok(ControlFlow::Continue(()));
            }
        };
        // The log of a script has only the result.
        if console::stderr_is_terminal() {
            let left = request
                .max_sec
                .map(|max_sec| (max_sec - self.ran_sec) as u64);
            let left = left.map_or_else(String::new, |sec| {
                format!("; at most {} left in all", span(sec))
            });
            console::note(&format!(
                "\n{}: at most {}{left}",
                step.name,
                span(step.duration_sec)
            ));
        }
        let index = series_dir.series.steps.len();
        let heading = step.name.clone();
        series_dir.series.steps.push(step);
        series_dir.save()?;
        let step_request = RunRequest {
            sla: request.sla.clone(),
            slice_sec: slice.sec,
            round_sec: Some(slice.round_sec),
            failure_limits: PATIENCE,
            heading: Some(heading.clone()),
            ..RunRequest::new(single_load(load, &heading))
        };
        let mut observer = StepObserver {
            target: self.target(next_run),
            step_sec: longest_sec,
            watcher: None,
        };
        let verdict = series_dir.run_step(index, step_request, signal_handler, &mut observer)?;
        // There is no watcher if a signal came before the run began.
        let Some(watcher) = observer.watcher else {
            return Ok(ControlFlow::Break(()));
        };
        let judged = watcher.judge(&verdict);
        let step = &mut series_dir.series.steps[index];
        step.ended_unix_ms = Some(now_unix_ms());
        self.ran_sec += verdict.ran_sec;
        let is_cut_short = duration_sec < longest_sec && verdict.end == End::Completed;
        if judged.seen == StepOutcome::Interrupted || is_cut_short {
            self.is_time_up = is_cut_short;
            let why = if self.is_time_up {
                "the time limit (--max-duration) was reached"
            } else {
                judged.why.as_str()
            };
            step.interrupt(why);
            step.details = json!({ "ran_sec": verdict.ran_sec });
            series_dir.save()?;
            return Ok(if self.is_time_up {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            });
        }
        end(step, next_run, &judged, verdict.ran_sec);
        series_dir.save()?;
        let step = &series_dir.series.steps[index];
        console::note(&format!(
            "{}: {}: {}",
            step.name,
            result_word(step),
            step.reason
        ));
        self.record_result(next_run, &judged);
        Ok(ControlFlow::Continue(()))
    }

    fn longest_sec(&self, next_run: NextRun) -> u64 {
        self.request
            .longest_sec(next_run, self.wait_sec)
            .max(self.lengthened_sec(next_run))
    }

    /// Minimum duration of a confirmation, seconds; 0 for other runs.
    fn lengthened_sec(&self, next_run: NextRun) -> u64 {
        let is_confirmation = matches!(next_run, NextRun::Confirm(_));
        if is_confirmation {
            self.lengthened * self.request.slice(next_run.multiple()).sec
        } else {
            0
        }
    }

    fn target(&self, next_run: NextRun) -> StepPurpose {
        match next_run {
            // No wait for rare events on a simulated drive: the confirmation covers such events at little cost.
            NextRun::Try(_) if self.request.simulated => StepPurpose::Try {
                wait_sec: 0.0,
                exact: true,
            },
            NextRun::Try(_) => StepPurpose::Try {
                wait_sec: self.wait_sec,
                exact: false,
            },
            NextRun::Confirm(_) => StepPurpose::Whole,
            NextRun::Recover(multiple) => {
                let earlier = self
                    .shares
                    .iter()
                    .rev()
                    .find(|(at, _)| at.multiple() == multiple);
                StepPurpose::Return(
                    earlier
                        .map(|(_, shares)| shares.clone())
                        .unwrap_or_default(),
                )
            }
        }
    }

    fn record_result(&mut self, next_run: NextRun, judged: &JudgedStep) {
        self.our_limit = if judged.seen == StepOutcome::OurLimit {
            self.our_limit + 1
        } else {
            0
        };
        self.wait_sec = self.wait_sec.max(judged.longest_wait_sec());
        if self.is_undecided(next_run, judged) {
            self.lengthened *= 2;
            return;
        }
        self.lengthened = 1;
        match judged.seen {
            StepOutcome::Held => {
                self.shares.push((next_run, judged.shares.clone()));
                self.search.record_held(next_run, judged.whole);
            }
            // Simulated drives are new in each run, so they need no recovery from overload.
            StepOutcome::Failed => self
                .search
                .record_not_held(next_run, !self.request.simulated),
            // A drive that is not steady during a recovery is still slow, so another recovery follows.
            StepOutcome::NotSteady => self
                .search
                .record_not_held(next_run, matches!(next_run, NextRun::Recover(_))),
            StepOutcome::Broken => self.search.stop(SearchStop::Broken),
            // The host may be busy only for a short time, so the run is repeated.
            StepOutcome::OurLimit if self.our_limit < OUR_LIMIT_MAX => {}
            StepOutcome::OurLimit => self.search.stop(SearchStop::OurLimit),
            StepOutcome::Interrupted => {}
        }
    }

    /// True if `next_run` must be repeated longer: a confirmation was held, but ended just after the drive became slow.
    fn is_undecided(&self, next_run: NextRun, judged: &JudgedStep) -> bool {
        let is_confirmation =
            matches!(next_run, NextRun::Confirm(_)) && judged.seen == StepOutcome::Held;
        is_confirmation && judged.ends_in_new_spell && self.lengthened < LENGTHENED_MAX
    }

    /// The step of a run, marked as begun.
    fn step(&self, next_run: NextRun, series: &Series) -> Step {
        let request = self.request;
        let multiple = next_run.multiple();
        let (name, rule) = match next_run {
            NextRun::Try(_) => (format!("{multiple}x"), Rule::Limits),
            NextRun::Recover(_) => (format!("recovery at {multiple}x"), Rule::Recovers),
            NextRun::Confirm(_) => (format!("confirmation at {multiple}x"), Rule::Limits),
        };
        let left_sec = request
            .max_sec
            .map_or(u64::MAX, |max_sec| (max_sec - self.ran_sec) as u64);
        let dir = format!(
            "{:02}-{}",
            series.steps.len() + 1,
            name.replace(" at ", "-")
        );
        let devices = (0..series.devices.len()).collect();
        let round_sec = request.slice(multiple).round_sec;
        let duration_sec = self
            .longest_sec(next_run)
            .min(left_sec / round_sec * round_sec);
        Step::planned(name, dir, multiple, devices, duration_sec, rule).begun(now_unix_ms())
    }
}

fn end(step: &mut Step, next_run: NextRun, judged: &JudgedStep, ran_sec: f64) {
    step.state = SeriesStepState::Done;
    step.outcome = Some(match judged.seen {
        StepOutcome::Held => Outcome::Pass,
        StepOutcome::Failed | StepOutcome::Broken => Outcome::Fail,
        StepOutcome::NotSteady | StepOutcome::OurLimit | StepOutcome::Interrupted => {
            Outcome::Invalid
        }
    });
    step.reason.clone_from(&judged.why);
    step.details = json!(StepDetails {
        moved: next_run,
        judged: judged.clone(),
        ran_sec
    });
}

struct StepObserver {
    target: StepPurpose,
    /// Duration of the step in seconds, unless the step ends early.
    step_sec: u64,
    watcher: Option<Watcher>,
}

impl RunObserver for StepObserver {
    fn begins(&mut self, manifest: &Manifest) {
        self.watcher = Some(Watcher::new(manifest, self.target.clone(), self.step_sec));
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        self.watcher.as_mut()?.add(interval)
    }
}
