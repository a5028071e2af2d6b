//! The state that the lanes, the phases and the thread that reports to the witness share.

use conclusions::durability::session::{DurabilityMethod, Secret, Session};
use conclusions::grouped;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use sys::op::Outcome;

#[derive(Debug, Clone)]
pub(super) struct LaneError {
    pub lane: usize,
    pub mode: DurabilityMethod,
    pub operation: String,
    pub outcome: Outcome,
}

/// Phrases for the distinct errors, joined. An error of a vanished drive comes first.
pub(super) fn in_words(errors: &[LaneError]) -> String {
    let mut groups = grouped(errors.iter().map(|error| (error.outcome, error)));
    groups.sort_by_key(|(outcome, _)| !outcome.is_of_vanished_drive());
    groups
        .into_iter()
        .map(|(outcome, same): (Outcome, Vec<&LaneError>)| {
            let LaneError {
                lane,
                mode,
                operation,
                ..
            } = same[0];
            let others = match same.len() - 1 {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            format!("lane {lane} ({mode}): {operation} failed: {outcome}{others}")
        })
        .collect::<Vec<_>>()
        .join("; ")
}

/// Why the writes ended before any cut.
#[derive(Debug, Clone)]
pub(super) enum Stop {
    /// Requested by the user, or the time of `--for` has passed.
    Requested(String),
    Witness(String),
    /// A lane failed, or the device node is gone.
    Device,
}

#[derive(Default)]
pub(super) struct State {
    /// Last durable write of each lane.
    pub durable: Vec<u64>,
    /// Last write of each lane that the witness has confirmed as durable.
    pub confirmed: Vec<u64>,
    pub phase: u64,
    /// True while a change of phase is due or not confirmed: no lane begins a batch.
    pub is_changing: bool,
    /// Number of lanes within a batch.
    pub busy: usize,
    pub stop: Option<Stop>,
    pub errors: Vec<LaneError>,
    /// Number of lanes that could read after a lane failed.
    pub answered: usize,
    /// True once no lane writes any more.
    pub is_over: bool,
}

impl State {
    pub(super) fn has_error_of_vanished_drive(&self) -> bool {
        self.errors
            .iter()
            .any(|error| error.outcome.is_of_vanished_drive())
    }
}

pub(super) struct Shared {
    pub session: Session,
    pub secret: Secret,
    pub sysfs_dir: Option<PathBuf>,
    pub state: Mutex<State>,
    pub changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the writes; the first reason wins.
    pub(super) fn stop(&self, cause: Stop) {
        self.lock().stop.get_or_insert(cause);
        self.changed.notify_all();
    }

    /// True if both modes with flushes and modes without flushes are tested.
    pub(super) fn has_phases(&self) -> bool {
        let fua_lanes = self
            .session
            .lanes
            .iter()
            .filter(|lane| lane.mode == DurabilityMethod::Fua)
            .count();
        fua_lanes > 0 && fua_lanes < self.session.lanes.len()
    }

    pub(super) fn is_turn_of(&self, mode: DurabilityMethod, phase: u64) -> bool {
        !self.has_phases() || (mode == DurabilityMethod::Fua) == (phase % 2 == 1)
    }
}
