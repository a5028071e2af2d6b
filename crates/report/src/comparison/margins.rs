//! How far from its limits a run stayed: the worst slice of any judged stream, threshold by threshold.

use super::cell::Cell;
use results::judge::{Limit, Sla, SliceShares, Verdict};
use serde::Serialize;

/// The worst slice over one threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Margin {
    /// The threshold, nanoseconds.
    pub threshold_ns: u64,
    /// The threshold as text: `1ms`.
    pub threshold: String,
    /// The share must be below this, a fraction.
    pub share_max: f64,
    /// The worst share; missing where nothing was wanted.
    pub worst: Cell<Worst>,
}

/// A share of one slice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worst {
    /// Operations over the threshold by those wanted, a fraction.
    pub share: f64,
    /// The share by its limit: below 1 it was held.
    pub of_limit: f64,
    /// The stream.
    pub stream: String,
    /// The device; `None` for all together.
    pub device: Option<String>,
    /// The slice, from 1.
    pub slice: u64,
}

/// One margin for each limit of `sla`, by ascending threshold.
pub(super) fn margins(verdict: &Verdict, sla: &Sla) -> Vec<Margin> {
    sla.limits().iter().enumerate().map(|(column, limit)| margin(verdict, column, limit)).collect()
}

fn margin(verdict: &Verdict, column: usize, limit: &Limit) -> Margin {
    // As the judge does: complete slices only, unless there is none.
    let complete = verdict.groups.iter().flat_map(|group| &group.slices).any(|slice| slice.complete);
    let shares = verdict.groups.iter().flat_map(|group| {
        let judged = group.slices.iter().filter(move |slice| slice.complete || !complete);
        judged.filter_map(move |slice| Some((share(slice, column)?, group, slice.slice)))
    });
    let worst = shares.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(share, group, slice)| Worst {
        share,
        of_limit: share / limit.share_max(),
        stream: group.stream.clone(),
        device: group.device.clone(),
        slice,
    });
    Margin {
        threshold_ns: limit.threshold_ns,
        threshold: limit.threshold_text(),
        share_max: limit.share_max(),
        worst: Cell::or_missing(worst, "no operation of a judged stream was recorded"),
    }
}

fn share(slice: &SliceShares, column: usize) -> Option<f64> {
    slice.judged_share.as_ref()?.get(column).copied()
}
