//! The growth of a backlog through each slice, accumulated by interval. The module `backlog` judges the growth.

use crate::counts::Backlog;

/// Backlog of a stream on a device, operations.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outstanding {
    pub(super) all: u64,
    /// Without operations that this program delayed.
    pub(super) on_device: u64,
}

impl Outstanding {
    fn from_backlog(backlog: &Backlog) -> Self {
        Self {
            all: backlog.total(),
            on_device: backlog.in_flight.saturating_add(backlog.waiting),
        }
    }

    fn combine(self, other: Self, choose: fn(u64, u64) -> u64) -> Self {
        Self {
            all: choose(self.all, other.all),
            on_device: choose(self.on_device, other.on_device),
        }
    }
}

/// Backlogs of a stream on a device at the ends of the report intervals.
#[derive(Debug, Clone, Default)]
pub(super) struct BacklogGrowth {
    pub(super) last: Backlog,
    /// The largest backlog in the first half of the current slice, its beginning included.
    early_max: Outstanding,
    /// The smallest backlog in the last quarter of the current slice.
    last_min: Option<Outstanding>,
    /// Number of report intervals of the current slice in which the stream had operations on the device.
    active_intervals: u64,
    /// By slice: growth of the backlog; 0 if the stream was not active through the whole slice.
    pub(super) by_slice: Vec<Outstanding>,
}

impl BacklogGrowth {
    /// Adds the backlog at the end of report interval `number`, from 1, of the `intervals` intervals of `slice`.
    pub(super) fn add(
        &mut self,
        slice: usize,
        number: u64,
        intervals: u64,
        backlog: &Backlog,
        is_active: bool,
    ) {
        if number == 1 {
            *self = Self {
                last: self.last,
                early_max: Outstanding::from_backlog(&self.last),
                by_slice: std::mem::take(&mut self.by_slice),
                ..Self::default()
            };
        }
        self.last = *backlog;
        let outstanding = Outstanding::from_backlog(backlog);
        self.active_intervals += u64::from(is_active);
        if 2 * number <= intervals {
            self.early_max = self.early_max.combine(outstanding, u64::max);
        }
        if 4 * number > 3 * intervals {
            let last_min = self.last_min.unwrap_or(outstanding);
            self.last_min = Some(last_min.combine(outstanding, u64::min));
        }
        if number == intervals && self.active_intervals == intervals {
            self.by_slice.resize(slice, Outstanding::default());
            self.by_slice.extend(
                self.last_min
                    .map(|last| last.combine(self.early_max, u64::saturating_sub)),
            );
        }
    }
}
