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
mod completions;
mod control;
mod coordinator;
mod pacing;
mod recorder;
mod silence;

pub use control::{Control, DelayOwner, EndCause, HANG_NS, Pacing, Settings};
pub use coordinator::{MakeCalls, RunConfig, RunError, Sink, SinkError, run, run_beside};
pub use recorder::{FailedOperation, Feed, Message};

use crate::plan::{Arrival, Lane, Plan};
use crate::stream::Request;
use backlog::{Commit, DueCounter, FreeSlot, LimitState, Slot};
use buffers::Buffers;
use control::SLEEP_MAX_NS;
use engine::event_queue::EventQueue;
use engine::{BATCH, BlockEngine, Wait};
use pacing::Oversleep;
use recorder::Recorder;
use results::cell::GRACE_NS;
use results::units;
use silence::Silence;
use std::collections::VecDeque;
use std::sync::Arc;
use sys::op::{Completion, Op};

/// Turns of the loop after which the control is checked even if no time has passed.
const TURNS_UNCHECKED_MAX: u64 = 1 << 16;

/// The share of a thread in a run.
pub struct Shard<W> {
    engine: W,
    settings: Settings,
    control: Arc<Control>,
    recorder: Recorder,
    lanes: Vec<Lane>,
    limits: Vec<LimitState>,
    buffers: Buffers,
    /// Next operation of each lane that waits only for its start time, ordered by (intended instant, lane).
    due_lanes: EventQueue<(u64, u32), ()>,
    /// Operations that have a slot under their limit, but wait for a salted buffer.
    unsalted: VecDeque<Slot>,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// Commits whose first operation completed, and the indices that are not in use.
    commits: Vec<Commit>,
    free_commits: Vec<u32>,
    completions: Vec<Completion>,
    /// Instant 0 of the run on the engine's clock.
    start_ns: u64,
    /// Operations due from this instant on are not issued.
    stop_ns: u64,
    /// The run failed: remaining operations are counted instead of issued.
    abandoned: bool,
    issued_ns: u64,
    now_ns: u64,
    checked_ns: u64,
    turns: u64,
    /// Operations of closed lanes in flight.
    closed_in_flight: u32,
    /// Operations that wait for a slot, over all limits.
    lanes_waiting: u32,
    /// True if the operations of any stream can have followers.
    has_followers: bool,
    /// Per lane: true if the stream has ended.
    ended_lanes: Vec<bool>,
    /// For each lane of a closed loop: the number of operations by which the stream keeps the lane below its depth now.
    resting: Vec<u32>,
    silence: Silence,
    oversleep: Oversleep,
    /// Per lane: operations that became due.
    due_counters: Vec<DueCounter>,
    /// True once the backlog at the end of the run is recorded.
    end_noted: bool,
    /// Virtual time at the last check for progress.
    virtual_ns: u64,
}

/// Turns of the loop in which virtual time has to advance by [`VIRTUAL_NS_MIN`]. Each turn handles all completions of
/// an instant: no drive has completions at a hundred million instants per second.
const VIRTUAL_TURNS: u64 = 1_000_000;
const VIRTUAL_NS_MIN: u64 = 10_000_000;

impl<W: BlockEngine> Shard<W> {
    /// Prepares a shard of `run` and the receiving side of its records: allocates and salts everything that the run
    /// will need. `patient`: an interval begins only when the interval before the previous one was consumed.
    pub fn new(
        mut engine: W,
        plan: Plan,
        run: &RunConfig,
        patient: bool,
    ) -> Result<(Self, Feed), RunError> {
        let slots = plan.in_flight_max();
        let no_memory = RunError::NoMemory {
            bytes: plan.buffer_bytes(),
            slots,
        };
        let (recorder, feed) = Recorder::new(run, plan.cells, patient);
        let buffers = Buffers::new(plan.buffers, &mut engine).ok_or(no_memory)?;
        let lanes = plan.lanes;
        let waiting = VecDeque::with_capacity(lanes.len());
        let limits = plan.limits.into_iter().map(|limit| LimitState {
            free_slots: vec![FreeSlot::default(); limit.slots as usize].into(),
            limit,
            lag_ns: 0,
            unseen_ns: 0,
            waiting: waiting.clone(),
            starved: false,
        });
        let mut shard = Self {
            engine,
            settings: run.settings,
            control: run.control.clone(),
            limits: limits.collect(),
            buffers,
            due_lanes: EventQueue::with_capacity(slots + lanes.len()),
            unsalted: VecDeque::with_capacity(slots),
            slots: Vec::with_capacity(slots),
            free_slots: Vec::with_capacity(slots),
            commits: Vec::with_capacity(slots),
            free_commits: Vec::with_capacity(slots),
            completions: Vec::with_capacity(slots),
            has_followers: lanes.iter().any(|lane| lane.stream.follows()),
            ended_lanes: vec![false; lanes.len()],
            resting: vec![0; lanes.len()],
            silence: recorder.silence(),
            oversleep: Oversleep::default(),
            due_counters: lanes
                .iter()
                .map(|lane| DueCounter::new(&lane.arrival))
                .collect(),
            end_noted: false,
            virtual_ns: 0,
            recorder,
            lanes,
            start_ns: 0,
            stop_ns: run.settings.duration_ns,
            abandoned: false,
            issued_ns: 0,
            now_ns: 0,
            checked_ns: 0,
            turns: 0,
            closed_in_flight: 0,
            lanes_waiting: 0,
        };
        for lane in 0..shard.lanes.len() as u32 {
            match shard.lanes[lane as usize].arrival {
                Arrival::Scheduled(_) => shard.schedule_next(lane),
                Arrival::Closed { depth, .. } => {
                    shard.resting[lane as usize] = depth;
                    shard.wake(lane, 0);
                }
            }
        }
        Ok((shard, feed))
    }

    /// Schedules more operations of a closed lane, as many as its stream allows.
    #[inline]
    fn wake(&mut self, lane: u32, now_ns: u64) {
        let Lane {
            arrival: Arrival::Closed { depth, think_ns },
            stream,
            ..
        } = &mut self.lanes[lane as usize]
        else {
            return;
        };
        let (width, from_ns) = stream.width(now_ns);
        let resting = &mut self.resting[lane as usize];
        let woken_ops = width.saturating_sub(*depth - *resting).min(*resting);
        *resting -= woken_ops;
        let intended_ns = (now_ns + *think_ns).max(from_ns);
        (0..woken_ops).for_each(|_| self.due_lanes.push((intended_ns, lane), ()));
    }

    /// The engine's clock, nanoseconds.
    pub fn clock_ns(&mut self) -> u64 {
        self.engine.now()
    }

    /// Queues the lane's next scheduled operation, unless it is due after the end of the run.
    #[inline]
    fn schedule_next(&mut self, lane: u32) {
        if let Arrival::Scheduled(schedule) = &mut self.lanes[lane as usize].arrival
            && let Some(intended_ns) = schedule.next_ns().filter(|ns| *ns < self.stop_ns)
        {
            self.due_lanes.push((intended_ns, lane), ());
        }
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
        self.start_ns = start_ns;
        self.await_start();
        self.recorder.begin(self.engine.is_virtual());
        self.look_at_clock();
    }

    /// First half of a turn: submits due operations. Returns the wait before the second half.
    #[inline]
    fn begin_turn(&mut self) -> Wait {
        self.issue_due();
        self.check();
        if self.buffers.behind() {
            self.buffers.salt_slice();
            self.start_salted();
        }
        self.wait()
    }

    /// Second half of a turn: takes the completions that the engine returned.
    #[inline]
    fn end_turn(&mut self) {
        self.look_at_clock();
        self.oversleep.woke(self.now_ns);
        self.take_completions();
    }

    /// Records the end of the run.
    fn finish(mut self) {
        self.stop_ns = self.stop_ns.min(self.now_ns);
        self.note_end();
        self.note_silence(self.now_ns);
        self.count_unissued();
        match (self.recorder.is_ramping, self.is_done()) {
            (false, _) => {}
            // Streams that end within the ramp would have no result without it.
            (true, true) => self.recorder.measure_ramp(),
            // The run was stopped during its ramp, whose errors still count.
            (true, false) => self.rotate(self.stop_ns),
        }
        self.rotate(self.stop_ns);
    }

    /// Sends the current interval, which ends at `end_ns`.
    fn rotate(&mut self, end_ns: u64) {
        self.engine.counters(&mut self.recorder.current.counters);
        self.recorder.rotate(end_ns);
    }

    /// Lets the time until instant 0 pass. Nothing is in flight yet.
    fn await_start(&mut self) {
        while self.engine.now() < self.start_ns {
            let wait = Wait {
                until_ns: self.start_ns,
                completions: 1,
            };
            // Engine errors persist, so stop at the first.
            if self.engine.reap(wait, &mut self.completions).is_err() {
                return;
            }
        }
    }

    /// Ends a run whose virtual time does not advance.
    #[cold]
    fn check_virtual_time(&mut self) {
        let advanced_ns = self.now_ns - std::mem::replace(&mut self.virtual_ns, self.now_ns);
        if advanced_ns < VIRTUAL_NS_MIN {
            let turns = units::Grouped(VIRTUAL_TURNS);
            let virtual_time = units::duration(self.now_ns);
            let message = format!(
                "virtual time advanced by only {} in the last {turns} turns of the run loop, to {virtual_time}: the \
                simulated drive takes no time for its operations, or refuses them - give the drive service times \
                (read-us, write-us)",
                units::duration(advanced_ns)
            );
            self.stop(EndCause::Failed { message });
        }
    }

    /// Reads the clock and does all time-dependent work.
    #[inline]
    fn look_at_clock(&mut self) {
        self.now_ns = self.engine.now().saturating_sub(self.start_ns);
        while self.now_ns >= self.recorder.end_ns && self.recorder.end_ns < self.stop_ns {
            let end_ns = self.recorder.end_ns;
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
        if self.now_ns >= self.stop_ns {
            self.note_end();
        }
    }

    /// Checks the control and all lanes' lag now and then. The caller has taken all completions, and each due operation
    /// has a slot or waits for a slot.
    #[inline]
    fn check(&mut self) {
        self.turns += 1;
        if self.engine.is_virtual() && self.turns.is_multiple_of(VIRTUAL_TURNS) {
            self.check_virtual_time();
        }
        // Virtual time can stand still, but the user's signal must be seen.
        if self.now_ns >= self.checked_ns || self.turns.is_multiple_of(TURNS_UNCHECKED_MAX) {
            self.checked_ns = self.now_ns + SLEEP_MAX_NS / 2;
            self.check_lag();
            // In virtual time only a user's signal is handled within an interval. Other causes are applied at the end
            // of a later interval: an instant that depends on threads would not be reproducible.
            if let Some(cause) = self.control.cause()
                && (!self.engine.is_virtual() || matches!(cause, EndCause::Requested { .. }))
            {
                self.end(&cause);
            }
        }
    }

    /// True if nothing is left to do, or no time is left for the rest.
    fn over(&self) -> bool {
        if self.now_ns < self.stop_ns {
            return self.is_done();
        }
        !self.is_to_issue()
            && (self.engine.in_flight() == 0
                || self.now_ns >= self.silence.hangs_at_ns(self.settings.hang_ns))
    }

    /// True if operations of a run that is over may still be issued: those that are late or wait for a slot, within the
    /// grace period.
    fn is_to_issue(&self) -> bool {
        if self.abandoned || self.now_ns >= self.stop_ns.saturating_add(GRACE_NS) {
            return false;
        }
        self.next_due_ns() < self.stop_ns || self.lanes_waiting > 0 || !self.unsalted.is_empty()
    }

    /// Time of the next operation that waits only for its start time.
    #[inline]
    fn next_due_ns(&self) -> u64 {
        self.due_lanes
            .first()
            .map_or(u64::MAX, |((intended_ns, _), ())| intended_ns)
    }

    /// True if all streams have ended, and all their operations are back.
    #[inline]
    fn is_done(&self) -> bool {
        let is_idle = self.engine.in_flight() == 0 && self.unsalted.is_empty();
        // Without lanes a run lasts its full duration.
        is_idle && !self.ended_lanes.is_empty() && self.ended_lanes.iter().all(|ended| *ended)
    }

    /// Issues everything that is due.
    #[inline]
    fn issue_due(&mut self) {
        let mut issued = 0;
        while let Some(((intended_ns, lane), ())) = self.due_lanes.first() {
            let is_late = self.now_ns >= self.stop_ns.saturating_add(GRACE_NS);
            if intended_ns > self.now_ns || intended_ns >= self.stop_ns || is_late || self.abandoned
            {
                break;
            }
            self.due_lanes.pop();
            self.issue(lane, intended_ns, false);
            issued += 1;
            if issued % BATCH == 0 && !self.engine.is_virtual() {
                self.now_ns = self.engine.now().saturating_sub(self.start_ns);
                // A lane far behind must not delay the detection of completions.
                if issued == 8 * BATCH {
                    break;
                }
            }
        }
        if issued > 0 {
            self.issued_ns = self.now_ns;
            self.recorder.in_flight(self.engine.in_flight());
        }
    }

    /// Issues a lane's operation, or queues it for a slot or for salt. Does nothing for a lane whose stream has ended.
    /// `waited`: true if the operation waited for a slot.
    #[inline]
    fn issue(&mut self, lane: u32, intended_ns: u64, waited: bool) {
        // Operations of a closed lane are due when they are issued, so none is issued after the end.
        let is_closed = self.is_closed(lane);
        let grace_ns = if is_closed { 0 } else { GRACE_NS };
        let until_ns = self.lanes[lane as usize].stream.until_ns();
        let end_ns = until_ns.min(self.stop_ns);
        if intended_ns >= end_ns || self.now_ns >= end_ns.saturating_add(grace_ns) {
            // If an operation found a free slot without waiting, only flashproof made it late.
            let limit = &self.limits[self.lanes[lane as usize].limit as usize];
            let own_ns = if waited || limit.free_slots.is_empty() {
                limit.own_ns()
            } else {
                u64::MAX
            };
            self.count_schedule(lane, intended_ns, own_ns);
            self.lanes[lane as usize].stream.stop(until_ns);
            self.ended_lanes[lane as usize] = true;
            return;
        }
        let limit = &mut self.limits[self.lanes[lane as usize].limit as usize];
        if limit.free_slots.is_empty() {
            limit.waiting.push_back((intended_ns, lane));
            self.lanes_waiting += 1;
            return;
        }
        let Some(request) = self.lanes[lane as usize].stream.next() else {
            match self.lanes[lane as usize].stream.stuck() {
                None => self.ended_lanes[lane as usize] = true,
                Some(why) => {
                    limit.waiting.push_front((intended_ns, lane));
                    limit.starved = limit.free_slots.len() < limit.limit.slots as usize;
                    self.lanes_waiting += 1;
                    if !limit.starved {
                        self.stop(EndCause::Stuck { reason: why });
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
            self.now_ns.max(intended_ns)
        } else {
            intended_ns
        };
        let eligible_ns = freed_ns.max(intended_ns);
        let unseen_before_ns = unseen_ns.min(eligible_ns - intended_ns);
        self.due_counters[lane as usize].taken_ops += 1;
        self.start(Slot {
            request,
            lane,
            intended_ns,
            eligible_ns,
            lag_before_ns: 0,
            unseen_before_ns,
            behind_ns: 0,
            commit: None,
        });
        self.schedule_next(lane);
    }

    /// Hands an operation with a slot to the engine, as soon as the operation has its buffer.
    #[inline(always)]
    fn start(&mut self, mut slot: Slot) {
        let Some(mut buf) = self.buffers.take(&slot.request) else {
            self.unsalted.push_back(slot);
            return;
        };
        if self.buffers.are_made(&slot.request) {
            let len = buf.len().min(slot.request.len as usize);
            self.lanes[slot.lane as usize]
                .stream
                .fill(&slot.request, &mut buf[..len]);
        }
        let is_closed = self.is_closed(slot.lane);
        let lag_ns = if is_closed {
            0
        } else {
            self.now_ns.saturating_sub(slot.eligible_ns)
        };
        slot.behind_ns = self
            .silence
            .submitted(slot.request.cell, self.now_ns, lag_ns);
        if let Some(cell) = slot.request.commit {
            self.silence.begin_chain(cell, self.now_ns);
        }
        let token = match self.free_slots.pop() {
            Some(token) => {
                self.slots[token as usize] = slot;
                token
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.closed_in_flight += u32::from(is_closed);
        let Request {
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

    #[inline]
    fn is_closed(&self, lane: u32) -> bool {
        matches!(self.lanes[lane as usize].arrival, Arrival::Closed { .. })
    }

    /// Starts operations that waited for a salted buffer, as many as buffers are ready.
    fn start_salted(&mut self) {
        for _ in 0..self.unsalted.len() {
            let Some(slot) = self.unsalted.pop_front() else {
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
        self.stop_ns = self.stop_ns.min(self.now_ns);
        self.abandoned |= !matches!(cause, EndCause::Requested { .. } | EndCause::Enough { .. });
    }

    /// Operations that hold a slot now. Not for the hot path.
    fn slots_in_flight(&self) -> impl Iterator<Item = &Slot> {
        let mut is_in_flight = vec![true; self.slots.len()];
        self.free_slots
            .iter()
            .for_each(|token| is_in_flight[*token as usize] = false);
        self.slots
            .iter()
            .zip(is_in_flight)
            .filter_map(|(slot, out)| out.then_some(slot))
    }
}
