//! Runs one step of a series, and records an interrupted step. Prepares the drives before the first step.

use super::{Drives, Kept};
use crate::prep::{Preparation, Style};
use load::workload::{Load, Workload};
use results::judge::Verdict;
use results::series::{Purpose, State};
use session::console;
use session::devices::Consents;
use session::failure::Failure;
use session::recording::Watch;
use session::runner::{self, Ended, Named, RunRequest, SeriesContext};
use session::signals::Switch;
use std::process::ExitCode;

/// The load of the step `name`. Rates that were rounded are told.
pub fn alone<W>(load: Load<W>, name: &str) -> Vec<Named<W>> {
    load.rounded.iter().for_each(|rounded| console::note(&format!("{name}: {rounded}")));
    Named::alone(load.workload, load.text)
}

impl Kept {
    /// Runs the step `index`, which is on disk as running, into its directory, as `asked`: with its load, limits and
    /// heading, on devices of the series that are open already, if any. `round`: the number of a repetition, with a
    /// directory within the step's. Returns the verdict.
    ///
    /// Errors: the run did not begin, or could not be recorded; the step is then on disk as interrupted.
    pub fn run_step<W: Workload>(
        &mut self,
        index: usize,
        asked: RunRequest<'_, W>,
        round: Option<usize>,
        switch: &Switch,
        watch: &mut dyn Watch,
    ) -> Result<Box<Verdict>, Failure> {
        let step = &self.series.steps[index];
        let dir = self.dir.join(&step.dir);
        let request = RunRequest {
            dir: round.map_or(dir.clone(), |round| dir.join(format!("round-{round}"))),
            consents: Consents { erase: &self.erase, ..asked.consents },
            part: SeriesContext {
                purpose: Some(step.name.clone()),
                // The jobs of a baseline are no multiples of 1x.
                multiple: (self.series.purpose != Purpose::Baseline).then_some(step.multiple),
                findings: Some(self.series.findings.clone()),
                ..asked.part
            },
            quiet: self.options.quiet,
            trace: self.options.trace,
            ..asked
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

    /// Prepares the drives that are not recorded as prepared. Returns an exit code if the preparation did not complete.
    pub fn prepare(&self, drives: &Drives, switch: &Switch) -> Result<Option<ExitCode>, Failure> {
        let names = drives.to_prepare(self.has_begun());
        if names.is_empty() {
            return Ok(None);
        }
        console::note(&format!(
            "not on record as prepared: {}; preparing first, because an empty drive is faster than it will be in use",
            names.join(", ")
        ));
        let erase: Vec<_> = self.erase.iter().filter(|name| names.contains(name)).cloned().collect();
        let others = drives.identities.iter().map(|drive| drive.name.clone()).collect();
        let usual = Preparation { others, ..Preparation::usual(names, &erase, Style::of(self.options.quiet)) };
        match usual.run(switch)? {
            0 => Ok(None),
            code => Ok(Some(ExitCode::from(code))),
        }
    }
}
