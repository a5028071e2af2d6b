//! Whether a job of a baseline was done: a drive is measured, so no rate and no latency is too low.

use crate::certify::Judged;
use crate::judge::{End, Outcome, Verdict};
use crate::units;

/// Judges the jobs of a run from its `verdict`. They fail by operations that failed, and by nothing else; a rate that was not
/// reached is what a baseline is to find. A run that ended before its time is no measurement.
pub fn judge_job(verdict: &Verdict) -> Judged {
    let errors: u64 = verdict.streams.iter().map(|stream| stream.errors).sum();
    let (outcome, reason) = match &verdict.end {
        end if errors > 0 => (Outcome::Fail, format!("{} ({end})", units::count(errors, "I/O error"))),
        end @ (End::DeviceGone { .. } | End::TooManyErrors { .. }) => (Outcome::Fail, end.to_string()),
        End::Completed | End::Enough { .. } => (Outcome::Pass, "ran to its end without an I/O error".to_owned()),
        end => (Outcome::Invalid, format!("{end} after {:.0} of {} s", verdict.ran_sec, verdict.duration_sec)),
    };
    Judged { outcome, reason, notes: Vec::new() }
}
