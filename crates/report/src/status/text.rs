//! The status for a terminal: the current state, then progress, then numbers.

use super::{CurrentShares, DirStatus, RunPhase, RunStatus, SeriesStatus, SeriesStepStatus};
use crate::comparison::CandidateKind;
use crate::words;
use conclusions::series::{SeriesPurpose, SeriesStepState};
use results::format;
use results::judge::{Outcome, ReasonCode};
use results::run_dir::ProcessState;
use std::fmt;

/// Maximum number of steps shown. Earlier steps are only counted.
const STEPS_SHOWN: usize = 12;

impl fmt::Display for DirStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => run.fmt(f),
            Self::Series(series) => series.fmt(f),
            Self::Checks(checks) => checks.fmt(f),
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = self
            .purpose
            .as_ref()
            .map(|purpose| format!(", {purpose}"))
            .unwrap_or_default();
        writeln!(
            f,
            "{}{purpose}  {}",
            self.dir.display(),
            self.devices.join(", ")
        )?;
        writeln!(f, "  {}", self.phase_text())?;
        if matches!(self.phase, RunPhase::Killed | RunPhase::Unknown) {
            writeln!(f, "  {}", self.result_text())?;
        }
        if self.phase.is_over() {
            self.result
                .details()
                .try_for_each(|other| writeln!(f, "  {other}"))?;
        }
        let time_note = if self.simulated {
            " of simulated time"
        } else {
            ""
        };
        let left = self
            .left_sec()
            .map_or_else(|| "--:--:--".to_owned(), |sec| format::clock(sec as u64));
        let end = match (self.phase.is_running(), self.ends_unix_ms) {
            (false, _) => String::new(),
            (true, Some(ends)) => format!("  {left} left, ends {}", format::date_to_minute(ends)),
            (true, None) => format!("  {left} left"),
        };
        let elapsed = format::clock(self.elapsed_sec as u64);
        match self.operations {
            None => writeln!(
                f,
                "  {elapsed} of {}{time_note}{end}",
                format::clock(self.duration_sec)
            )?,
            Some(all) => {
                let done = format::Grouped(self.operations_done);
                let all = format::count(all, "operation");
                writeln!(f, "  {elapsed}{time_note}, {done} of {all}{end}")?;
            }
        }
        for (number, stream) in self.result.streams.iter().enumerate() {
            let is_open = stream.offered_iops > 0.0;
            let offered = if is_open {
                format!("{}/s offered", format::number(stream.offered_iops))
            } else {
                "closed".into()
            };
            let last = self
                .last_interval_iops
                .get(number)
                .map(|iops| format::number(*iops));
            let last = last
                .map(|iops| format!(", {iops}/s in the last interval"))
                .unwrap_or_default();
            let achieved = format::number(stream.achieved_iops);
            writeln!(
                f,
                "  {:<18} {offered}, {achieved}/s achieved{last}",
                stream.name
            )?;
        }
        for (stream, p99_ns) in &self.p99_ns {
            writeln!(
                f,
                "  {stream:<18} service p99 {:.3} ms in the newest window",
                *p99_ns as f64 / 1e6
            )?;
        }
        if let Some(shares) = &self.current {
            writeln!(f, "  {:<18} {}", "slice so far", self.shares_text(shares))?;
        }
        // A finished run has its verdict above instead.
        if !self.phase.is_over() {
            self.fmt_so_far(f)?;
        }
        writeln!(f, "  {:<18} {}", "errors", self.errors)?;
        let celsius = self
            .temperatures
            .iter()
            .map(|at| format!("{} {:.0} C", at.device, at.celsius));
        let celsius = celsius.collect::<Vec<_>>().join(", ");
        if !celsius.is_empty() {
            writeln!(f, "  {:<18} {celsius}", "temperature")?;
        }
        self.remarks
            .iter()
            .try_for_each(|remark| writeln!(f, "  note: {remark}"))
    }
}

impl RunStatus {
    /// Writes the worst share so far, and this program's own delays. By the rules of the verdict, a share that reached
    /// its limit only because of own delays is not the device's.
    fn fmt_so_far(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own_lag = self
            .result
            .reasons
            .first()
            .filter(|reason| reason.code == ReasonCode::OwnLag);
        if let Some(worst) = &self.worst {
            let reached = match self.result.outcome {
                Outcome::Fail if worst.is_over() => "OVER A LIMIT: ",
                _ if worst.is_over() => "with this program's own delays, ",
                _ => "",
            };
            writeln!(f, "  {:<18} {reached}{worst}", "worst slice")?;
        }
        let waited = self
            .cpu_wait_share
            .map(|share| format!("waited for a CPU {} of the time", format::percent(share)));
        match (own_lag, waited) {
            (Some(_), Some(waited)) => writeln!(f, "  {:<18} INVALID: {waited}", "so far"),
            (Some(reason), None) => writeln!(f, "  {:<18} INVALID: {reason}", "so far"),
            (None, Some(waited)) => writeln!(f, "  {:<18} {waited}", "this program"),
            (None, None) => Ok(()),
        }
    }

    fn phase_text(&self) -> String {
        let pid = self
            .pid
            .map(|pid| format!(" (process {pid})"))
            .unwrap_or_default();
        let ago = self.recorded_ago_sec.map(format::span_about);
        let span_text = ago.clone().unwrap_or_else(|| "long".to_owned());
        let ago = ago.map_or_else(
            || "no interval yet".to_owned(),
            |ago| format!("last interval {ago} ago"),
        );
        match self.phase {
            RunPhase::Beginning => format!("beginning{pid}: no interval yet"),
            RunPhase::Running => format!("running{pid}: {ago}"),
            RunPhase::Ending => {
                format!("ending{pid}: the time is over, but the verdict is not written yet; {ago}")
            }
            RunPhase::Hung => format!(
                "HUNG{pid}: the process exists, but recorded nothing for {span_text}: check the device (dmesg) and the \
                 disk of \
                 the run directory"
            ),
            RunPhase::Stopped => {
                format!("STOPPED{pid}: the process is stopped (kill -CONT resumes it); {ago}")
            }
            RunPhase::Gone => format!(
                "GONE{pid}: the process is not visible: killed, or in another container; {ago}"
            ),
            RunPhase::Killed => {
                format!("KILLED{pid}: the process is gone and left no verdict; {ago}")
            }
            RunPhase::Unknown => {
                format!("NOT RUNNING, as far as the files show: there is no verdict; {ago}")
            }
            RunPhase::Ended => self.result_text(),
        }
    }

    fn result_text(&self) -> String {
        let text = format!("{}: {}", self.result.outcome, self.result.headline);
        text.replace('\n', "\n  ")
    }

    fn shares_text(&self, shares: &CurrentShares) -> String {
        let columns = self.thresholds.iter().zip(&shares.shares);
        let columns = columns
            .map(|(threshold, share)| format!("{} over {threshold}", format::percent(*share)));
        let on = words::device(shares.device.as_deref());
        let over = columns.collect::<Vec<_>>().join(", ");
        let slice = shares.slice;
        format!("{over} (slice {slice}, {} on {on})", shares.stream)
    }
}

impl fmt::Display for SeriesStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = CandidateKind::from_purpose(self.purpose).words().1;
        writeln!(f, "{}  {purpose}: {}", self.dir.display(), self.progress())?;
        match self.outcome {
            Some(outcome) => writeln!(f, "  {outcome}: {}", self.conclusion)?,
            None if self.is_over() => writeln!(
                f,
                "  NOT RUNNING: the series is not finished; the same command resumes it"
            )?,
            None if self.seen == Some(ProcessState::Elsewhere) => writeln!(
                f,
                "  the process is not visible: gone, or in another container"
            )?,
            None => {
                let end = self.ends_unix_ms.map(format::date_to_minute);
                let end = end.map(|end| format!(", ends {end}")).unwrap_or_default();
                let more = match self.purpose {
                    SeriesPurpose::Rate => "; a search can add steps",
                    SeriesPurpose::Baseline => "; jobs are planned one after the other",
                    SeriesPurpose::Certify => "",
                };
                writeln!(
                    f,
                    "  {} left in the planned steps{end}{more}",
                    format::clock(self.left_sec as u64)
                )?;
            }
        }
        let hidden_steps = self.steps.len().saturating_sub(STEPS_SHOWN);
        if hidden_steps > 0 {
            writeln!(f, "  ({hidden_steps} earlier steps)")?;
        }
        let mut shown_steps = self.steps.iter().skip(hidden_steps);
        let is_ended = self.outcome.is_some();
        shown_steps.try_for_each(|step| writeln!(f, "  {}", step_text(step, is_ended)))?;
        self.remarks
            .iter()
            .try_for_each(|remark| writeln!(f, "  note: {remark}"))?;
        match &self.run {
            Some(run) if self.outcome.is_none() => write!(f, "\n{run}"),
            _ => Ok(()),
        }
    }
}

impl SeriesStatus {
    /// How many steps are finished; for a finished series, also how many were interrupted or not run.
    fn progress(&self) -> String {
        let count = |state| self.steps.iter().filter(|step| step.state == state).count();
        let done_steps = count(SeriesStepState::Done);
        if let (None, Some(left)) = (self.outcome, self.jobs_left) {
            return format!(
                "{} done, at least {left} to come",
                format::count(done_steps as u64, "job")
            );
        }
        if self.outcome.is_none() {
            return format!(
                "{done_steps} of {} done",
                format::count(self.steps.len() as u64, "step")
            );
        }
        let others = [
            (SeriesStepState::Interrupted, "interrupted"),
            (SeriesStepState::Planned, "not run"),
        ];
        let others = others.map(|(state, word)| (count(state), word));
        let others = others
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!(", {count} {word}"));
        format!(
            "{} done{}",
            format::count(done_steps as u64, "step"),
            others.collect::<String>()
        )
    }
}

fn step_text(step: &SeriesStepStatus, is_ended: bool) -> String {
    let state = words::step_outcome(step.state, step.outcome, is_ended, "begun");
    format!("{:<18} {state:<12} {}", step.name, step.reason)
        .trim_end()
        .to_owned()
}
