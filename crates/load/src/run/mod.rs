//! The run loop: issues due operations, waits as configured by the pacing, records completions.
//!
//! A [`Shard`] is one thread's share of a run. It is generic over engine and streams, and knows nothing of databases.
//! A lane whose limit is full waits in the limit's queue. The lane's later operations are still in its schedule, so a
//! backlog of any length takes no memory.
//!
//! The hot path neither allocates nor locks. Time is read once for a batch, never for each operation.

mod backlog;
mod buffers;
mod calls;
mod clock;
mod completions;
mod control;
mod coordinator;
mod lanes;
mod limits;
mod pacing;
mod recorder;
mod silence;
mod slots;

pub use control::{Control, DelayOwner, EndCause, HANG_NS, Pacing, Settings};
pub use coordinator::{MakeCalls, RunConfig, RunError, Sink, SinkError, run, run_beside};
pub use recorder::{FailedOperation, Message, ShardReceiver};

use crate::plan::Plan;
use crate::stream::IoRequest;
use buffers::Buffers;
use clock::{RunClock, VIRTUAL_TURNS};
use engine::{BATCH, BlockEngine, Wait};
use lanes::Lanes;
use limits::{FreeSlot, Limits};
use pacing::Oversleep;
use recorder::Recorder;
use results::cell::GRACE_NS;
use results::format;
use results::times::OwnDelay;
use silence::Silence;
use slots::{Slot, Slots};
use std::collections::VecDeque;
use std::sync::Arc;
use sys::op::{Completion, Op};

pub struct Shard<E> {
    engine: E,
    settings: Settings,
    control: Arc<Control>,
    clock: RunClock,
    lanes: Lanes,
    limits: Limits,
    slots: Slots,
    buffers: Buffers,
    /// Operations that have a slot under their limit, but wait for a buffer with random fill.
    awaiting_fill: VecDeque<Slot>,
    completions: Vec<Completion>,
    closed_in_flight: u32,
    silence: Silence,
    oversleep: Oversleep,
    recorder: Recorder,
    end_noted: bool,
}

impl<E: BlockEngine> Shard<E> {
    /// Prepares a shard of `run` and the receiving side of its records: allocates and fills everything that the run
    /// will need. `lockstep`: an interval begins only when the interval before the previous one was consumed.
    pub fn new(
        mut engine: E,
        plan: Plan,
        run: &RunConfig,
        lockstep: bool,
    ) -> Result<(Self, ShardReceiver), RunError> {
        let slots = plan.in_flight_max();
        let no_memory = RunError::NoMemory {
            bytes: plan.buffer_bytes(),
            slots,
        };
        let (recorder, receiver) = Recorder::new(run, plan.cells, lockstep);
        let buffers = Buffers::new(plan.buffers, &mut engine).ok_or(no_memory)?;
        let stop_ns = run.settings.duration_ns;
        let shard = Self {
            engine,
            settings: run.settings,
            control: run.control.clone(),
            clock: RunClock::new(stop_ns),
            limits: Limits::new(plan.limits, &plan.lanes),
            lanes: Lanes::new(plan.lanes, slots, stop_ns),
            slots: Slots::with_capacity(slots),
            buffers,
            awaiting_fill: VecDeque::with_capacity(slots),
            completions: Vec::with_capacity(slots),
            closed_in_flight: 0,
            silence: recorder.silence(),
            oversleep: Oversleep::default(),
            recorder,
            end_noted: false,
        };
        Ok((shard, receiver))
    }

    pub fn clock_ns(&mut self) -> u64 {
        self.engine.now()
    }

    /// Runs to the end, counting time from `start_ns` on the engine's clock. The control holds the cause of the end.
    pub fn run(mut self, start_ns: u64) {
        self.begin(start_ns);
        while !self.over() {
            let wait = self.begin_turn();
            if !self.reap(wait) {
                break;
            }
        }
        self.finish();
    }

    /// Waits for completions, and takes them. False if the run ended by an error.
    #[inline]
    fn reap(&mut self, wait: Wait) -> bool {
        if let Err(error) = self.engine.reap(wait, &mut self.completions) {
            self.stop(EndCause::Failed {
                message: format!("cannot wait for completions: {error}"),
            });
            return false;
        }
        self.end_turn();
        true
    }

    fn begin(&mut self, start_ns: u64) {
        self.clock.start_ns = start_ns;
        self.await_start();
        self.recorder.begin(self.engine.is_virtual());
        self.look_at_clock();
    }

    /// First half of an iteration of the loop: submits due operations. Returns the wait before the second half.
    #[inline]
    fn begin_turn(&mut self) -> Wait {
        self.issue_due();
        self.check();
        if self.buffers.behind() {
            self.buffers.salt_slice();
            self.start_filled();
        }
        self.wait()
    }

    /// Second half of an iteration: takes the completions that the engine returned.
    #[inline]
    fn end_turn(&mut self) {
        self.look_at_clock();
        self.oversleep.woke(self.clock.now_ns);
        self.take_completions();
    }

    fn finish(mut self) {
        self.clock.stop();
        self.note_end();
        self.note_silence(self.clock.now_ns);
        self.count_unissued();
        match (self.recorder.is_ramping, self.is_done()) {
            (false, _) => {}
            // All streams ended within the ramp: without the ramp there would be no result.
            (true, true) => self.recorder.measure_ramp(),
            // The run was stopped during its ramp, whose errors still count.
            (true, false) => self.rotate(self.clock.stop_ns),
        }
        self.rotate(self.clock.stop_ns);
    }

    fn rotate(&mut self, end_ns: u64) {
        self.engine.counters(&mut self.recorder.current.counters);
        self.recorder.rotate(end_ns);
    }

    /// Waits until the start of the run. Nothing is in flight yet.
    fn await_start(&mut self) {
        while self.engine.now() < self.clock.start_ns {
            let wait = Wait::first(self.clock.start_ns);
            // Engine errors persist, so stop at the first.
            if self.engine.reap(wait, &mut self.completions).is_err() {
                return;
            }
        }
    }

    #[cold]
    fn end_stalled(&mut self, advanced_ns: u64) {
        let turns = format::Grouped(VIRTUAL_TURNS);
        let virtual_time = format::duration(self.clock.now_ns);
        let message = format!(
            "virtual time advanced by only {} in the last {turns} turns of the run loop, to {virtual_time}: the \
            simulated drive takes no time for its operations, or refuses them - give the drive service times \
            (read-us, write-us)",
            format::duration(advanced_ns)
        );
        self.stop(EndCause::Failed { message });
    }

    #[inline]
    fn read_clock(&mut self) {
        self.clock.now_ns = self.clock.since_start_ns(self.engine.now());
    }

    /// Reads the clock and does all time-dependent work.
    #[inline]
    fn look_at_clock(&mut self) {
        self.read_clock();
        while self.clock.now_ns >= self.recorder.end_ns && self.recorder.end_ns < self.clock.stop_ns
        {
            self.end_interval(self.recorder.end_ns);
        }
        if self.clock.is_over() {
            self.note_end();
        }
    }

    #[cold]
    fn end_interval(&mut self, end_ns: u64) {
        self.note_backlog(end_ns);
        // The cause is read before this interval is sent, so that the cause is never a reaction to this interval.
        let cause = if self.engine.is_virtual() {
            self.recorder.await_taken(&self.control)
        } else {
            None
        };
        self.rotate(end_ns);
        if let Some(cause) = cause {
            self.end(&cause);
        }
    }

    /// Checks the control and all lanes' lag now and then. The caller has taken all completions, and each due operation
    /// has a slot or waits for a slot.
    #[inline]
    fn check(&mut self) {
        if !self.clock.begin_turn() {
            return;
        }
        if self.engine.is_virtual()
            && let Some(advanced_ns) = self.clock.virtual_stall_ns()
        {
            self.end_stalled(advanced_ns);
        }
        self.check_lag();
        // In virtual time only a user's signal is handled within an interval. Other causes are applied at the end of a
        // later interval: an end that depends on the timing of threads would not be reproducible.
        if let Some(cause) = self.control.cause()
            && (!self.engine.is_virtual() || matches!(cause, EndCause::Requested { .. }))
        {
            self.end(&cause);
        }
    }

    /// True if nothing is left to do, or no time is left for the rest.
    fn over(&self) -> bool {
        if !self.clock.is_over() {
            return self.is_done();
        }
        !self.is_to_issue()
            && (self.engine.in_flight() == 0
                || self.clock.now_ns >= self.silence.hangs_at_ns(self.settings.hang_ns))
    }

    /// True if late or waiting operations of a run that is over may still be issued, within the grace period.
    fn is_to_issue(&self) -> bool {
        self.clock.may_issue()
            && (self.lanes.first_due_ns() < self.clock.stop_ns
                || self.limits.is_any_waiting()
                || !self.awaiting_fill.is_empty())
    }

    /// True if all streams have ended, and all their operations have completed.
    #[inline]
    fn is_done(&self) -> bool {
        self.engine.in_flight() == 0 && self.awaiting_fill.is_empty() && self.lanes.have_ended()
    }

    #[inline]
    fn issue_due(&mut self) {
        let mut issued = 0;
        while let Some((intended_ns, lane)) = self.lanes.first_due() {
            let is_due = intended_ns <= self.clock.now_ns && intended_ns < self.clock.stop_ns;
            if !is_due || !self.clock.may_issue() {
                break;
            }
            self.lanes.pop_due();
            self.issue(lane, intended_ns, false);
            issued += 1;
            if issued % BATCH == 0 && !self.engine.is_virtual() {
                self.read_clock();
                // A lane far behind must not delay the detection of completions.
                if issued == 8 * BATCH {
                    break;
                }
            }
        }
        if issued > 0 {
            self.clock.issued_ns = self.clock.now_ns;
            self.recorder.in_flight(self.engine.in_flight());
        }
    }

    /// Issues a lane's operation, or queues it for a slot or for random fill. Does nothing for a lane whose stream has
    /// ended. `waited`: true if the operation waited for a slot.
    #[inline]
    fn issue(&mut self, lane_index: u32, intended_ns: u64, waited: bool) {
        let lane = &mut self.lanes[lane_index];
        // Operations of a closed lane are due when they are issued, so none is issued after the end.
        let is_closed = lane.is_closed();
        let grace_ns = if is_closed { 0 } else { GRACE_NS };
        let now_ns = self.clock.now_ns;
        let until_ns = lane.stream.until_ns();
        let end_ns = until_ns.min(self.clock.stop_ns);
        let limit = &mut self.limits[lane.limit];
        if intended_ns >= end_ns || now_ns >= end_ns.saturating_add(grace_ns) {
            // If an operation found a free slot without waiting, only flashproof made it late.
            let own_ns = if waited || limit.free_slots.is_empty() {
                limit.own_delay.total_ns()
            } else {
                u64::MAX
            };
            self.count_schedule(lane_index, intended_ns, own_ns);
            let lane = &mut self.lanes[lane_index];
            lane.stream.stop(until_ns);
            lane.ended = true;
            return;
        }
        if limit.free_slots.is_empty() {
            self.limits.queue(lane.limit, intended_ns, lane_index);
            return;
        }
        let Some(request) = lane.stream.next() else {
            match lane.stream.stuck() {
                None => lane.ended = true,
                Some(reason) => {
                    if !self.limits.starve(lane.limit, intended_ns, lane_index) {
                        self.stop(EndCause::Stuck { reason });
                    }
                }
            }
            return;
        };
        let FreeSlot {
            freed_ns,
            unseen_ns,
        } = limit.free_slots.pop_front().unwrap_or_default();
        let intended_ns = if is_closed {
            now_ns.max(intended_ns)
        } else {
            intended_ns
        };
        let eligible_ns = freed_ns.max(intended_ns);
        lane.due.taken_ops += 1;
        self.start(Slot {
            request,
            lane: lane_index,
            intended_ns,
            eligible_ns,
            own_delay: OwnDelay {
                unseen_ns: unseen_ns.min(eligible_ns - intended_ns),
                ..OwnDelay::default()
            },
            commit: None,
        });
        self.lanes.schedule_next(lane_index, self.clock.stop_ns);
    }

    /// Hands an operation with a slot to the engine, as soon as the operation has its buffer.
    #[inline(always)]
    fn start(&mut self, mut slot: Slot) {
        let lane = &mut self.lanes[slot.lane];
        let Some(buf) = self.buffers.take(&slot.request, &mut *lane.stream) else {
            self.awaiting_fill.push_back(slot);
            return;
        };
        let now_ns = self.clock.now_ns;
        let is_closed = lane.is_closed();
        let lag_ns = if is_closed {
            0
        } else {
            now_ns.saturating_sub(slot.eligible_ns)
        };
        let cell = slot.request.cell;
        slot.own_delay.behind_ns = self.silence.submitted(cell, now_ns, lag_ns);
        if let Some(cell) = slot.request.commit {
            self.silence.begin_chain(cell, now_ns);
        }
        let token = self.slots.insert(slot);
        self.closed_in_flight += u32::from(is_closed);
        let IoRequest {
            target,
            kind,
            offset,
            len,
            sync,
            placement,
            priority,
            ..
        } = slot.request;
        self.engine.submit(Op {
            target,
            kind,
            offset,
            len,
            sync,
            placement,
            priority,
            buf,
            token,
        });
    }

    fn start_filled(&mut self) {
        for _ in 0..self.awaiting_fill.len() {
            let Some(slot) = self.awaiting_fill.pop_front() else {
                break;
            };
            self.start(slot);
        }
    }

    fn stop(&mut self, cause: EndCause) {
        self.end(&cause);
        self.control.stop(cause);
    }

    /// Ends this shard's part of the run now. If the run was asked to end, or has enough data, late operations and
    /// those in flight are still completed, as at the regular end.
    fn end(&mut self, cause: &EndCause) {
        self.clock.stop();
        if !matches!(cause, EndCause::Requested { .. } | EndCause::Enough { .. }) {
            self.clock.abandon();
        }
    }
}
