//! Jobs that end other jobs (`exitall`, `exitall_on_error`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[derive(Debug, Clone, Copy, Default)]
pub struct ExitOptions {
    /// True if other jobs end when this job ends.
    pub all: bool,
    /// True if other jobs end when this job fails.
    pub all_on_error: bool,
    pub what: ExitWhat,
}

impl ExitOptions {
    pub(super) fn ends_others(self) -> bool {
        self.all || self.all_on_error
    }
}

/// The jobs that `exitall` ends (`exit_what`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExitWhat {
    /// Jobs of the same group.
    #[default]
    Group,
    /// Jobs that run at the same time.
    Stonewall,
    /// Jobs that run at the same time, and all later jobs.
    All,
}

#[derive(Debug, Clone)]
pub(super) struct ExitGroups {
    /// End of the jobs, nanoseconds since the run began: an entry for each group, and a last entry for all later runs.
    pub(super) groups: Arc<[AtomicU64]>,
    pub(super) own_group: usize,
    /// Groups whose jobs end with this job.
    pub(super) ended_groups: std::ops::Range<usize>,
}
