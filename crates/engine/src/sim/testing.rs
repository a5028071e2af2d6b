//! For tests: completions of a simulated engine.

use super::{DriveModel, SimEngine};
use crate::{IoEngine, Wait};
use sys::op::Completion;

/// Waits for at least one completion, and appends all completions of the same instant to `out`.
pub(super) fn reap_next<M: DriveModel>(engine: &mut SimEngine<M>, out: &mut Vec<Completion>) {
    engine.reap(Wait::first(u64::MAX), out).unwrap();
}

pub(super) fn reap_all<M: DriveModel>(engine: &mut SimEngine<M>) -> Vec<Completion> {
    let mut out = Vec::new();
    while engine.in_flight() > 0 {
        reap_next(engine, &mut out);
    }
    out
}
