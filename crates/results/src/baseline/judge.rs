//! The outcome of one drive's job in a baseline. Rates and latencies are measured, so none is too low.

use crate::certify::Judged;
use crate::judge::{End, Outcome, Verdict};
use crate::series::{Series, State};
use crate::units;

/// Name of the job of device number `device` of the series. Names of its streams begin with it.
pub fn job_name(device: usize) -> String {
    format!("drive-{}", device + 1)
}

/// Judges the job `name` of device number `device` of the series, from the `verdict` on a run of several jobs. Only
/// failed operations of the job fail it; the reached rate is the result of a baseline. A run that ended early is no
/// measurement, whichever drive ended it.
pub fn judge_job(verdict: &Verdict, device: usize, name: &str) -> Judged {
    let prefix = format!("{}-", job_name(device));
    let own = verdict.streams.iter().filter(|stream| stream.name.starts_with(&prefix));
    let errors: u64 = own.map(|stream| stream.errors).sum();
    let (outcome, reason) = match &verdict.end {
        end if errors > 0 => (Outcome::Fail, format!("{} ({end})", units::count(errors, "I/O error"))),
        end @ End::DeviceGone { device } if device == name => (Outcome::Fail, end.to_string()),
        End::Completed | End::Enough { .. } => (Outcome::Pass, "ran to its end without an I/O error".to_owned()),
        end @ (End::DeviceGone { .. } | End::TooManyErrors { .. }) => {
            (Outcome::Invalid, format!("its run ended with that of another drive: {end}"))
        }
        end => (Outcome::Invalid, format!("{end} after {:.0} of {} s", verdict.ran_sec, verdict.duration_sec)),
    };
    Judged { outcome, reason, notes: Vec::new() }
}

/// True if a job of this device has failed: no further jobs run on it.
pub fn has_failed(series: &Series, device: usize) -> bool {
    let mut own = series.steps.iter().filter(|step| step.devices.contains(&device));
    own.any(|step| step.state == State::Done && step.outcome == Some(Outcome::Fail))
}
