//! Whether a drive's job of a baseline was done: a drive is measured, so no rate and no latency is too low.

use crate::certify::Judged;
use crate::judge::{End, Outcome, Verdict};
use crate::series::{Series, State};
use crate::units;

/// What the job of the device with this number in its series is called. Names of its streams begin with it.
pub fn job_name(device: usize) -> String {
    format!("drive-{}", device + 1)
}

/// Judges the job of a drive, `name`, which has this number in its series, from the `verdict` on a run of jobs of several. It fails
/// by operations of its own that failed, and by nothing else; a rate that was not reached is what a baseline is to find. A run that
/// ended before its time is no measurement, whichever drive ended it.
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

/// Whether a job of the device with this number has failed: then it has no further ones.
pub fn has_failed(series: &Series, device: usize) -> bool {
    let mut own = series.steps.iter().filter(|step| step.devices.contains(&device));
    own.any(|step| step.state == State::Done && step.outcome == Some(Outcome::Fail))
}
