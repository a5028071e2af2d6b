//! The records of a shard. The hot path sends each full interval through a channel, and gets an empty interval back.

use super::silence::{Silence, Silent};
use super::{Control, EndCause, RunConfig};
use crate::stream::IoRequest;
use results::cell::{Cell, EarlierOps, GRACE_NS, Interval, Layout, add_carried, harmless_gap_ns};
use results::counts::{Backlog, CellCounts};
use results::times::Times;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use sys::op::{OpKind, Outcome};
use sys::process::{RunDelay, ThreadClock};

/// Number of spare intervals that circulate between a shard and the merging thread.
const SPARES: usize = 3;

/// Maximum number of failed operations reported one by one in each interval; all further failures are only counted.
const FAILURES_TOLD_MAX: u32 = 8;

/// If a thread lacks a CPU for this fraction of the time, the result is unreliable. The default limits allow the same
/// fraction of operations above their tightest threshold. On an idle machine, a thread lacks a CPU far less.
const RUN_DELAY_MIN: f64 = 0.05;

/// Operations of a cell that this thread may have delayed because it lacked a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct CpuWait {
    /// Operations possibly delayed since the end of the last interval without a backlog.
    ops: f64,
    /// Backlog at the end of the last interval.
    backlog: u64,
    /// Operations in the backlog that flashproof delayed.
    late_ops: u64,
}

#[derive(Debug)]
pub enum Message {
    Interval(Box<Interval>),
    Failure(FailedOperation),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedOperation {
    pub device: usize,
    pub kind: OpKind,
    pub offset: u64,
    pub len: u32,
    pub error: String,
    /// True if the data read differ from the data written: worse than any error.
    pub is_wrong_data: bool,
}

#[derive(Debug)]
pub struct ShardReceiver {
    /// Messages of the shard, in order. The channel closes when the shard is done.
    pub messages: Receiver<Message>,
    clean: Sender<Box<Interval>>,
}

impl ShardReceiver {
    /// Clears an interval and returns it to the shard.
    pub fn give_back(&self, mut interval: Box<Interval>) {
        interval.clear();
        // The shard may be done already.
        let _ = self.clean.send(interval);
    }
}

#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) current: Box<Interval>,
    pub(super) layout: Layout,
    /// Index in `current.cells` of each cell of the layout; `u32::MAX`: the shard does not record the cell.
    slots: Vec<u32>,
    messages: Sender<Message>,
    clean_intervals: Receiver<Box<Interval>>,
    interval_ns: u64,
    slice_ns: u64,
    step_ns: u64,
    /// Start of the current interval's step, nanoseconds since the run began.
    step_start_ns: u64,
    duration_ns: u64,
    /// Ramp: initial part of the duration that does not count.
    ramp_ns: u64,
    /// True during the ramp, when nothing but errors counts.
    pub(super) is_ramping: bool,
    /// End of the current interval, or of the ramp.
    pub(super) end_ns: u64,
    /// True in virtual time, which never waits: an interval begins only when the interval before the previous one was
    /// consumed. So one interval is simulated while the previous interval is consumed, and a stop takes effect at a
    /// reproducible time: the end of the next interval.
    is_lockstep: bool,
    /// A clean interval that the merging thread has returned.
    spare_interval: Option<Box<Interval>>,
    failures_logged: u32,
    wrong_data_logged: u32,
    /// CPU clock of the issuing thread; `None` before the run.
    cpu_clock: Option<ThreadClock>,
    cpu_ns: u64,
    /// Run delay of the issuing thread since the run began; `None` in virtual time.
    run_delay: Option<RunDelay>,
    /// By cell: operations possibly delayed by the lack of a CPU.
    cpu_waits: Vec<CpuWait>,
    /// Intervals allocated in addition to the spares.
    extra_intervals: u32,
}

impl Recorder {
    /// A recorder for one shard of `run`, and the receiving side. Only the cells `recorded` are recorded (`None`: all). The
    /// last interval ends with the run and includes later completions. Slices and steps are whole intervals.
    pub(super) fn new(
        run: &RunConfig,
        recorded: Option<Vec<u32>>,
        lockstep: bool,
    ) -> (Self, ShardReceiver) {
        let RunConfig {
            layout,
            settings,
            interval_ns,
            slice_ns,
            step_ns,
            ..
        } = run;
        let recorded: Option<Arc<[u32]>> = recorded.map(Into::into);
        let mut slots: Vec<_> = (0..layout.cells() as u32).collect();
        if let Some(recorded) = &recorded {
            slots.fill(u32::MAX);
            for (slot, cell) in (0..).zip(recorded.iter()) {
                slots[*cell as usize] = slot;
            }
        }
        let current = Box::new(Interval::of_cells(layout, recorded));
        let (messages, from_shard) = channel();
        let (to_shard, clean) = channel();
        // A recorder in lockstep fills one interval while the coordinator merges the other.
        for _ in 0..if lockstep { 1 } else { SPARES } {
            // Cannot fail: `clean`, the receiver, still exists.
            let _ = to_shard.send(current.clone());
        }
        let mut recorder = Self {
            cpu_waits: vec![CpuWait::default(); current.cells.len()],
            current,
            layout: layout.clone(),
            slots,
            messages,
            clean_intervals: clean,
            interval_ns: *interval_ns,
            slice_ns: (*slice_ns).max(1),
            step_ns: (*step_ns).max(1),
            step_start_ns: 0,
            duration_ns: settings.duration_ns,
            ramp_ns: settings.ramp_ns,
            is_ramping: settings.ramp_ns > 0,
            end_ns: 0,
            is_lockstep: lockstep,
            spare_interval: None,
            failures_logged: 0,
            wrong_data_logged: 0,
            cpu_clock: None,
            cpu_ns: 0,
            run_delay: None,
            extra_intervals: 0,
        };
        recorder.set_end();
        (
            recorder,
            ShardReceiver {
                messages: from_shard,
                clean: to_shard,
            },
        )
    }

    fn set_end(&mut self) {
        let intervals = if self.is_ramping {
            0
        } else {
            self.current.index + 1
        };
        let end_ns = self.ramp_ns + intervals * self.interval_ns;
        self.end_ns = if end_ns >= self.duration_ns {
            u64::MAX
        } else {
            end_ns
        };
        self.step_start_ns =
            self.ramp_ns + self.current.index * self.interval_ns / self.step_ns * self.step_ns;
    }

    /// Number of the step of an operation due at `intended_ns`. Step 0 includes operations due before the measurement.
    fn step(&self, intended_ns: u64) -> u64 {
        intended_ns.saturating_sub(self.ramp_ns) / self.step_ns
    }

    pub(super) fn step_end_ns(&self, intended_ns: u64) -> u64 {
        self.end_of_period_ns(intended_ns, self.step_ns)
    }

    pub(super) fn slice_end_ns(&self, intended_ns: u64) -> u64 {
        self.end_of_period_ns(intended_ns, self.slice_ns)
    }

    fn end_of_period_ns(&self, intended_ns: u64, period_ns: u64) -> u64 {
        let number = intended_ns.saturating_sub(self.ramp_ns) / period_ns;
        self.ramp_ns
            .saturating_add((number + 1).saturating_mul(period_ns))
    }

    #[inline]
    fn cell(&mut self, cell: u32) -> &mut Cell {
        &mut self.current.cells[self.slots[cell as usize] as usize]
    }

    /// Applies `change` to a cell for operations due at `intended_ns`, with separate counts for an earlier step.
    #[inline]
    pub(super) fn record(&mut self, cell: u32, intended_ns: u64, change: impl FnOnce(&mut Cell)) {
        if intended_ns >= self.step_start_ns {
            change(self.cell(cell))
        } else {
            self.record_carried(cell, self.step(intended_ns), change)
        }
    }

    #[cold]
    fn record_carried(&mut self, cell: u32, step: u64, change: impl FnOnce(&mut Cell)) {
        let recorded = self.cell(cell);
        let counts_before = recorded.counts;
        // The cell's maximum also covers earlier operations, so the maximum is set aside during `change`.
        let late_max_ns = std::mem::take(&mut recorded.counts.late_max_ns);
        change(recorded);
        let mut counts = recorded.counts;
        counts.subtract(&counts_before);
        recorded.counts.late_max_ns = recorded.counts.late_max_ns.max(late_max_ns);
        (
            counts.backlog,
            counts.silent_ns,
            counts.last_completion_ns,
            counts.slots_used_by,
        ) = (Backlog::default(), 0, 0, 0);
        add_carried(
            &mut self.current.carried,
            EarlierOps {
                cell: cell as usize,
                step,
                counts,
            },
        );
    }

    /// Begins the first interval. Earlier CPU time does not count; in virtual time no operation waits for a CPU.
    pub(super) fn begin(&mut self, is_virtual: bool) {
        self.cpu_clock = Some(ThreadClock::of_this_thread());
        self.cpu_ns = self.used_cpu_ns();
        self.run_delay = (!is_virtual).then(RunDelay::of_this_thread);
    }

    #[inline]
    pub(super) fn done(&mut self, cell: u32, times: &Times, bytes: u32, unseen_ns: u64) {
        let back_ns =
            times
                .completed_ns()
                .saturating_sub(if self.is_ramping { 0 } else { self.ramp_ns });
        self.record(cell, times.intended_ns(), |cell| {
            cell.record(times, unseen_ns, bytes);
            cell.counts.last_completion_ns = cell.counts.last_completion_ns.max(back_ns);
        });
    }

    /// Records a failed operation due at `intended_ns`. `data_error`: what is wrong with the data, if anything.
    pub(super) fn failed(
        &mut self,
        request: &IoRequest,
        intended_ns: u64,
        outcome: Outcome,
        data_error: Option<String>,
    ) {
        let &IoRequest {
            cell,
            kind,
            offset,
            len,
            ..
        } = request;
        let is_wrong_data = outcome.is_wrong_data() || data_error.is_some();
        self.record(cell, intended_ns, |cell| {
            cell.record_errors(1, u64::from(is_wrong_data))
        });
        // Wrong data is reported regardless of the number of other failures.
        let logged = if is_wrong_data {
            &mut self.wrong_data_logged
        } else {
            &mut self.failures_logged
        };
        if *logged < FAILURES_TOLD_MAX {
            *logged += 1;
            let device = cell as usize % self.layout.devices.len();
            let offset = if let Outcome::Wrong { key, .. } = outcome {
                key
            } else {
                offset
            };
            let error = data_error.unwrap_or_else(|| outcome.to_string());
            let failure = FailedOperation {
                device,
                kind,
                offset,
                len,
                error,
                is_wrong_data,
            };
            let _ = self.messages.send(Message::Failure(failure));
        }
    }

    /// Records `n` operations, due at `intended_ns` or later in its step, that were never issued; flashproof delayed
    /// `own_delayed` of them.
    pub(super) fn unissued(&mut self, cell: u32, intended_ns: u64, n: u64, own_delayed: u64) {
        self.record(cell, intended_ns, |cell| {
            cell.record_unissued(n, own_delayed)
        });
    }

    /// Records an operation that never completed. `last_completion_ns`: time of the last completion of its device.
    pub(super) fn lost(&mut self, cell: u32, intended_ns: u64, last_completion_ns: u64) {
        let last_completion_ns = last_completion_ns.saturating_sub(self.ramp_ns);
        self.record(cell, intended_ns, |cell| {
            cell.record_lost(last_completion_ns)
        });
    }

    /// Records that the waiting operations of `cell` wait for slots that operations of the cell `holder` hold.
    pub(super) fn slots_used_by(&mut self, cell: u32, holder: u32) {
        self.cell(cell).counts.slots_used_by = u64::from(holder) + 1;
    }

    /// Adds a time in which a judged closed loop got no completion to each step that the time overlaps.
    pub(super) fn silent(&mut self, silent: &Silent) {
        let Silent {
            cell,
            silent_ns,
            before_ns,
        } = silent;
        let info = &self.layout.streams[cell / self.layout.devices.len()];
        if !info.is_judged_loop() {
            return;
        }
        let before_ns = before_ns.start.max(self.ramp_ns)..before_ns.end;
        self.cell(*cell as u32).counts.silent_ns +=
            silent_ns + before_ns.end.saturating_sub(before_ns.start);
        let mut from_ns = before_ns.start;
        let end_ns = before_ns.end.min(self.step_start_ns);
        while from_ns < end_ns {
            let to_ns = self.step_end_ns(from_ns).min(end_ns);
            let counts = CellCounts {
                silent_ns: to_ns - from_ns,
                ..CellCounts::default()
            };
            let carried = EarlierOps {
                cell: *cell,
                step: self.step(from_ns),
                counts,
            };
            add_carried(&mut self.current.carried, carried);
            from_ns = to_ns;
        }
    }

    /// Detector of silent devices. A device is silent after a gap longer than the largest threshold. A device is behind
    /// after a lag of more than 5 % of the tightest threshold, or of the grace period if that is shorter.
    pub(super) fn silence(&self) -> Silence {
        let thresholds_ns = &self.layout.thresholds_ns;
        let tightest_ns = thresholds_ns.first().copied().unwrap_or(u64::MAX);
        let largest_ns = thresholds_ns.last().copied().unwrap_or(u64::MAX);
        let harmless_ns = harmless_gap_ns(tightest_ns.min(GRACE_NS));
        Silence::new(
            self.layout.devices.len(),
            self.layout.cells(),
            largest_ns,
            harmless_ns,
        )
    }

    pub(super) fn outstanding(&mut self, cell: u32, backlog: &Backlog) {
        self.cell(cell).counts.backlog.add(backlog);
    }

    #[inline]
    pub(super) fn in_flight(&mut self, in_flight: usize) {
        self.current.in_flight_max = self.current.in_flight_max.max(in_flight as u64);
    }

    /// In virtual time, waits until all sent intervals are consumed. Returns the cause to end the run, if there is one.
    pub(super) fn await_taken(&mut self, control: &Control) -> Option<EndCause> {
        if self.is_lockstep && self.spare_interval.is_none() {
            self.spare_interval = self.clean_intervals.recv().ok();
        }
        control.cause()
    }

    /// CPU time of the issuing thread so far; 0 without /proc (in sandboxes), which the run reports.
    fn used_cpu_ns(&self) -> u64 {
        self.cpu_clock
            .as_ref()
            .and_then(|clock| clock.ns().ok())
            .unwrap_or(0)
    }

    /// Counts the ramp as part of the measurement: all of it is in the first interval.
    pub(super) fn measure_ramp(&mut self) {
        (self.ramp_ns, self.is_ramping) = (0, false);
        self.current.carried.clear();
    }

    pub(super) fn rotate(&mut self, end_ns: u64) {
        let next_index = self.current.index + 1;
        let cpu_ns = self.used_cpu_ns();
        if std::mem::take(&mut self.is_ramping) {
            // Failed operations count even during the ramp.
            let failed: Vec<_> = self
                .current
                .cells
                .iter()
                .map(|cell| (cell.counts.errors, cell.counts.wrong_data))
                .collect();
            self.current.clear();
            for (cell, (errors, wrong_data)) in self.current.cells.iter_mut().zip(failed) {
                cell.record_errors(errors, wrong_data);
            }
            self.cpu_ns = cpu_ns;
            self.run_delay.as_mut().map(RunDelay::since_last_ns);
            return self.set_end();
        }
        let end_ns = end_ns.saturating_sub(self.ramp_ns);
        self.current.cpu_ns = cpu_ns - self.cpu_ns.min(cpu_ns);
        self.current.end_ns = end_ns;
        self.current.close();
        self.cpu_ns = cpu_ns;
        self.current.run_delay_ns = self.run_delay.as_mut().map_or(0, RunDelay::since_last_ns);
        let length_ns = end_ns
            .saturating_sub(self.current.index * self.interval_ns)
            .max(1);
        let share = (self.current.run_delay_ns as f64 / length_ns as f64).min(1.0);
        self.charge_cpu_wait(if share >= RUN_DELAY_MIN { share } else { 0.0 });
        (self.failures_logged, self.wrong_data_logged) = (0, 0);
        let mut clean = self.take_clean();
        clean.index = next_index;
        let finished = std::mem::replace(&mut self.current, clean);
        self.set_end();
        let _ = self.messages.send(Message::Interval(finished));
    }

    /// Charges flashproof for the lack of a CPU. The thread had no CPU in the fraction `share` of the interval, so the
    /// same fraction of the operations may have been delayed. Of the operations that still wait, up to `CpuWait::ops`
    /// are charged. The operations that were late when the interval began are charged too, because they are done first.
    fn charge_cpu_wait(&mut self, share: f64) {
        for (cell, wait) in self.current.cells.iter_mut().zip(&mut self.cpu_waits) {
            let scheduled_ops = cell
                .counts
                .counted_ops()
                .saturating_add(cell.counts.backlog.total())
                .saturating_sub(wait.backlog);
            wait.backlog = cell.counts.backlog.total();
            wait.ops = if cell.counts.backlog.waiting == 0 {
                0.0
            } else {
                wait.ops + share * scheduled_ops as f64
            };
            let charged_ops = cell.counts.backlog.waiting.min(wait.ops as u64);
            cell.counts.backlog.waiting -= charged_ops;
            cell.counts.backlog.late += charged_ops;
            let late_before = std::mem::replace(&mut wait.late_ops, cell.counts.backlog.late)
                .min(cell.counts.counted_ops());
            let charged_ops =
                cell.counts.counted_ops() as f64 * share + late_before as f64 * (1.0 - share);
            cell.lower_least_bounds(charged_ops.ceil() as u64);
        }
    }

    fn take_clean(&mut self) -> Box<Interval> {
        let clean = self
            .spare_interval
            .take()
            .or_else(|| self.clean_intervals.try_recv().ok());
        if clean.is_some() && self.extra_intervals > 0 && self.clean_intervals.try_recv().is_ok() {
            // The disk is fast again: removes the extra intervals, one at a time.
            self.extra_intervals -= 1;
        }
        // In real time a slow disk under the run directory must not delay an operation.
        clean.unwrap_or_else(|| {
            self.extra_intervals += 1;
            let recorded = self.current.recorded_cells.clone();
            Box::new(Interval::of_cells(&self.layout, recorded))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Pacing, Settings};
    use super::*;
    use results::cell::StreamInfo;

    const MS: u64 = 1_000_000;

    #[test]
    fn operations_late_when_an_interval_began_are_not_charged_to_the_device() {
        let reads = StreamInfo {
            name: "reads".into(),
            judged: true,
            offered_iops: 1.0,
            workload: 0,
            ..StreamInfo::default()
        };
        let layout = Layout {
            streams: vec![reads],
            devices: vec!["d".into()],
            thresholds_ns: [MS].into(),
        };
        let settings = Settings {
            duration_ns: 9_000 * MS,
            ..Settings::until_done(Pacing::Spin)
        };
        let interval_ns = 1_000 * MS;
        let slice_ns = 9_000 * MS;
        let control = Arc::default();
        let run = RunConfig {
            layout,
            settings,
            interval_ns,
            slice_ns,
            step_ns: slice_ns,
            control,
        };
        let (mut recorder, _receiver) = Recorder::new(&run, None, false);
        // An interval with 100 operations that waited 10 ms each, and with this backlog at its end.
        let mut least = |backlog: Backlog, share: f64| {
            let times = Times::new(0, 10 * MS, 10 * MS, 11 * MS);
            (0..100).for_each(|_| recorder.done(0, &times, 512, 0));
            recorder.outstanding(0, &backlog);
            recorder.charge_cpu_wait(share);
            let least = recorder.current.cells[0].counts.judged_over_lower_bound[0];
            recorder.current.clear();
            least
        };
        let none = Backlog::default();
        assert_eq!(least(Backlog { late: 60, ..none }, 0.0), 100);
        let found = least(
            Backlog {
                waiting: 60,
                ..none
            },
            0.0,
        );
        assert_eq!(found, 40, "60 of the 100 were late when the interval began");
        let found = least(Backlog { late: 300, ..none }, 0.0);
        assert_eq!(found, 100, "a wait for a slot is charged to the device");
        let found = least(none, 0.0);
        assert_eq!(found, 0, "all 100 were late when the interval began");
        assert_eq!(least(none, 0.25), 75);
    }
}
