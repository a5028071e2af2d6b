//! Runs one step of a series, and records an interrupted step. Prepares the drives before the first step.

use super::{Drives, Kept};
use crate::prep::{Preparation, Style};
use load::workload::{Load, Workload};
use results::judge::{Sla, Verdict};
use results::series::{Purpose, State};
use session::console;
use session::devices::Consents;
use session::failure::Failure;
use session::recording::Watch;
use session::runner::{self, Ended, Named, Opened, Patience, RunRequest, SeriesContext};
use session::signals::Switch;
use std::process::ExitCode;

pub struct StepRun<'a, W> {
    pub load: Load<W>,
    /// Devices and engine, if they stay open for the whole series.
    pub opened: Option<&'a Opened>,
    /// Devices of the whole series, which other steps may erase.
    pub others: &'a [String],
    pub sla: &'a Sla,
    /// Requested length of a slice, seconds.
    pub slice_sec: u64,
    /// Length of a round; `None`: from the slices.
    pub round_sec: Option<u64>,
    /// Tolerance before the run ends as failed.
    pub patience: Patience,
    /// For a repetition of a step: the number of the round, with a directory within the step's.
    pub round: Option<usize>,
    /// Prefix of each line of progress.
    pub heading: String,
}

impl Kept {
    /// Runs the step `index`, which is on disk as running, into its directory. Returns the verdict.
    ///
    /// Errors: the run did not begin, or could not be recorded; the step is then on disk as interrupted.
    pub fn run_step<W: Workload>(
        &mut self,
        index: usize,
        what: StepRun<'_, W>,
        switch: &Switch,
        watch: &mut dyn Watch,
    ) -> Result<Box<Verdict>, Failure> {
        let step = &self.series.steps[index];
        let StepRun { load, opened, others, sla, slice_sec, round_sec, patience, round, heading } = what;
        load.rounded.iter().for_each(|rounded| console::note(&format!("{}: {rounded}", step.name)));
        let dir = self.dir.join(&step.dir);
        let request = RunRequest {
            dir: round.map_or(dir.clone(), |round| dir.join(format!("round-{round}"))),
            consents: Consents { erase: &self.erase, others, shared: false },
            opened,
            sla: sla.clone(),
            slice_sec,
            round_sec,
            patience,
            part: SeriesContext {
                purpose: Some(step.name.clone()),
                // The jobs of a baseline are no multiples of 1x.
                multiple: (self.series.purpose != Purpose::Baseline).then_some(step.multiple),
                findings: Some(self.series.findings.clone()),
                heading: Some(heading),
            },
            quiet: self.options.quiet,
            trace: self.options.trace,
            ..RunRequest::new(Named::alone(load.workload, load.text))
        };
        match runner::run(request, switch, watch) {
            Ok(Ended::Recorded(verdict)) => Ok(verdict),
            Ok(Ended::Unrecorded { failure, .. }) | Err(failure) => {
                let why = failure.message.lines().next().unwrap_or_default();
                // A run can be that of several steps.
                let running = self.series.steps.iter_mut().filter(|step| step.state == State::Running);
                running.for_each(|step| step.interrupt(why));
                self.save().and(Err(failure))
            }
        }
    }
}

/// Prepares the drives that are not recorded as prepared. `begun`: a run of the series has begun. Returns an exit
/// code if the preparation did not complete.
pub fn prepare(
    drives: &Drives,
    begun: bool,
    erase: &[String],
    quiet: bool,
    switch: &Switch,
) -> Result<Option<ExitCode>, Failure> {
    let names = drives.to_prepare(begun);
    if names.is_empty() {
        return Ok(None);
    }
    console::note(&format!(
        "not on record as prepared: {}; preparing first, because an empty drive is faster than it will be in use",
        names.join(", ")
    ));
    let erase: Vec<_> = erase.iter().filter(|name| names.contains(name)).cloned().collect();
    let others = drives.identities.iter().map(|drive| drive.name.clone()).collect();
    let usual = Preparation { others, ..Preparation::usual(names, &erase, Style::of(quiet)) };
    match usual.run(switch)? {
        0 => Ok(None),
        code => Ok(Some(ExitCode::from(code))),
    }
}
