//! The run loop: issues what is due, waits as the pacing says, records what came back.
//!
//! One [`Shard`] is one thread's share of a run. It is generic over the engine it drives and the streams
//! it asks, and knows nothing of databases. A lane whose limit is full waits in the limit's queue and
//! nowhere else: its later operations are still in its schedule, so a backlog of any length takes no
//! memory.
//!
//! The hot path neither allocates nor locks. Time is read once for a batch, never for each operation.

mod backlog;
mod buffers;
mod control;
mod coordinator;
mod recorder;

pub use control::{Cause, Control, Whose};
pub use coordinator::{Run, RunError, Sink, SinkError, run};
pub use recorder::{Failure, Feed, Message, Recorder};

use crate::plan::{Arrival, Lane, Limit, Plan};
use crate::stream::{Request, Stream};
use backlog::Arrived;
use buffers::Buffers;
use engine::event_queue::EventQueue;
use engine::{BATCH, BlockEngine, Wait};
use results::times::Times;
use std::collections::VecDeque;
use std::sync::Arc;
use sys::op::{Completion, Op, OpKind};

/// How the issuing thread passes the time between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// Sleeps. With several operations in flight it wakes once every `period_ns`, issues all that is due
    /// and looks for all that is done, because waking costs far more than issuing. The price is lag,
    /// and completions that lie unseen for up to a period. With one or two in flight it wakes for the
    /// first completion.
    Sleep {
        /// Least time between two wake-ups to issue, and the longest without a look.
        period_ns: u64,
    },
    /// Never sleeps: least lag, a whole CPU.
    Spin,
}

/// The bounds of a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Operations intended before this instant are issued.
    pub duration_ns: u64,
    /// A lane further behind than this ends the run; 0: never.
    pub max_lag_ns: u64,
    /// More failed operations than this end the run.
    pub errors_max: u64,
    /// How to pass the time.
    pub pacing: Pacing,
    /// How long to go on after the end for operations that are late or in flight.
    pub drain_ns: u64,
    /// Part of the duration before anything counts.
    pub ramp_ns: u64,
    /// At the end only what is in flight is waited for: what is late is counted as not done.
    pub leaves_backlog: bool,
}

impl Settings {
    /// Those of a run that lasts until its streams have ended, however long that takes, and ends at the first error.
    pub fn until_done(pacing: Pacing) -> Self {
        Self {
            duration_ns: u64::MAX / 4,
            max_lag_ns: 0,
            errors_max: 0,
            pacing,
            drain_ns: DRAIN_UNTIL_DONE_NS,
            ramp_ns: 0,
            leaves_backlog: false,
        }
    }
}

/// How long operations may take to come back when a run that lasts until it is done is broken off.
const DRAIN_UNTIL_DONE_NS: u64 = 30_000_000_000;

/// Longest sleep, so that a signal is answered.
const SLEEP_MAX_NS: u64 = 100_000_000;

/// Turns of the loop after which the control is looked at, whatever the clock says.
const TURNS_UNCHECKED_MAX: u32 = 1 << 16;

/// Time between two looks when somebody waits for one of many operations.
const LOOK_NS: u64 = 30_000;

/// An operation that was issued, by token.
#[derive(Debug, Clone, Copy)]
struct Slot {
    request: Request,
    lane: u32,
    intended_ns: u64,
    eligible_ns: u64,
    /// Our own lag in the operations that it followed in its place under the limit.
    lag_before_ns: u64,
    /// How much earlier it could have been eligible, at most, had no completion before it on its slot lain
    /// unseen.
    unseen_before_ns: u64,
}

/// A free place under a limit.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// When it was freed, or would have been but for our own lag.
    freed_ns: u64,
    /// For how long before that the completions that freed it can have lain unseen.
    unseen_ns: u64,
}

struct LimitState {
    /// The free places, the one that was freed first before the others: whoever has waited longest has had a
    /// claim to it since then, whatever else was seen to complete in the same look.
    free: VecDeque<Place>,
    limit: Limit,
    /// Our own lag in the last operation that gave its slot back, and in those it followed.
    lag_ns: u64,
    /// How much earlier, at most, it would have given it back had no completion on the slot lain unseen.
    unseen_ns: u64,
    /// Lanes whose next operation, intended at the instant beside, waits for a slot.
    waiting: VecDeque<(u64, u32)>,
    /// Whether the first of them has free places and waits for what an operation in flight brings its stream.
    starved: bool,
}

/// How soon a completion has to be seen when the thread sleeps.
enum Awaited {
    /// At once: few are in flight, or most of them keep somebody waiting for the next.
    First,
    /// Soon: somebody waits for one of the few, and waking for each of the many would cost too much.
    Soon,
    /// With the next operation, or after a period.
    Never,
}

/// One thread's share of a run.
pub struct Shard<W, S> {
    engine: W,
    settings: Settings,
    control: Arc<Control>,
    recorder: Recorder,
    lanes: Vec<Lane<S>>,
    limits: Vec<LimitState>,
    buffers: Buffers,
    /// (intended instant, lane): the next operation of each lane that waits for nothing but time.
    due: EventQueue<(u64, u32), ()>,
    /// Operations that have a slot under their limit and wait for a salted buffer.
    unsalted: VecDeque<Slot>,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    completions: Vec<Completion>,
    /// Instant 0 of the run on the engine's clock.
    start_ns: u64,
    /// Operations intended from here on are no longer wanted.
    stop_ns: u64,
    /// The run failed: whatever is still to be issued is counted instead.
    abandoned: bool,
    issued_ns: u64,
    now_ns: u64,
    checked_ns: u64,
    turns: u32,
    /// Operations of closed lanes in flight.
    closed_out: u32,
    /// Operations that wait for a slot, over all limits.
    lanes_waiting: u32,
    /// Whether any stream has operations that follow others.
    follows: bool,
    /// Whether each lane's stream has ended.
    ended: Vec<bool>,
    /// What each lane was asked for so far.
    arrived: Vec<Arrived>,
    /// What was outstanding at the end of the run is noted.
    end_noted: bool,
}

/// What could not be prepared.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot prepare {bytes} bytes of buffers for {slots} operations in flight - lower service-threads, cache-threads or record-bytes, or free memory"
)]
pub struct NoMemory {
    /// Bytes wanted.
    pub bytes: usize,
    /// Operations in flight they are for.
    pub slots: usize,
}

impl<W: BlockEngine, S: Stream> Shard<W, S> {
    /// Prepares a shard: allocates and salts everything that the run will need.
    pub fn new(
        mut engine: W,
        plan: Plan<S>,
        settings: Settings,
        mut recorder: Recorder,
        control: Arc<Control>,
    ) -> Result<Self, NoMemory> {
        recorder.forget(settings.ramp_ns);
        let slots = plan.in_flight_max();
        let no_memory = NoMemory { bytes: plan.buffer_bytes(), slots };
        let buffers = Buffers::new(plan.buffers, &mut engine).ok_or(no_memory)?;
        let lanes = plan.lanes;
        let waiting = VecDeque::with_capacity(lanes.len());
        let limits = plan.limits.into_iter().map(|limit| LimitState {
            free: vec![Place::default(); limit.slots as usize].into(),
            limit,
            lag_ns: 0,
            unseen_ns: 0,
            waiting: waiting.clone(),
            starved: false,
        });
        let stop_ns = settings.duration_ns;
        let mut shard = Self {
            engine,
            settings,
            control,
            recorder,
            limits: limits.collect(),
            buffers,
            due: EventQueue::with_capacity(slots + lanes.len()),
            unsalted: VecDeque::with_capacity(slots),
            slots: Vec::with_capacity(slots),
            free_slots: Vec::with_capacity(slots),
            completions: Vec::with_capacity(slots),
            follows: lanes.iter().any(|lane| lane.stream.follows()),
            ended: vec![false; lanes.len()],
            arrived: lanes.iter().map(|lane| Arrived::new(&lane.arrival)).collect(),
            end_noted: false,
            lanes,
            start_ns: 0,
            stop_ns,
            abandoned: false,
            issued_ns: 0,
            now_ns: 0,
            checked_ns: 0,
            turns: 0,
            closed_out: 0,
            lanes_waiting: 0,
        };
        shard.schedule_first();
        Ok(shard)
    }

    fn schedule_first(&mut self) {
        for lane in 0..self.lanes.len() as u32 {
            match self.lanes[lane as usize].arrival {
                Arrival::Scheduled(_) => self.schedule_next(lane),
                Arrival::Closed { depth, think_ns } => {
                    (0..depth).for_each(|_| self.due.push((think_ns, lane), ()));
                }
            }
        }
    }

    /// The engine's clock, nanoseconds.
    pub fn clock_ns(&mut self) -> u64 {
        self.engine.now()
    }

    /// Puts the lane's next scheduled operation into the queue, unless the run will be over.
    #[inline]
    fn schedule_next(&mut self, lane: u32) {
        if let Arrival::Scheduled(schedule) = &mut self.lanes[lane as usize].arrival
            && let Some(intended_ns) = schedule.next_ns().filter(|ns| *ns < self.stop_ns)
        {
            self.due.push((intended_ns, lane), ());
        }
    }

    /// Runs to the end, counting time from `start_ns` on the engine's clock. How it ended is in the
    /// control.
    pub fn run(mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.await_start();
        self.recorder.begin(W::VIRTUAL);
        self.look_at_clock();
        while !self.over() {
            self.issue_due();
            self.check();
            if self.buffers.behind() {
                self.buffers.salt_slice();
                self.start_salted();
            }
            let wait = self.wait();
            if let Err(error) = self.engine.reap(wait, &mut self.completions) {
                self.stop(Cause::Failed { message: format!("cannot wait for completions: {error}") });
                break;
            }
            self.look_at_clock();
            self.take_completions();
        }
        self.stop_ns = self.stop_ns.min(self.now_ns);
        self.note_end();
        self.count_unissued();
        self.rotate(self.stop_ns);
    }

    /// Sends the current interval out, as ended at `end_ns`.
    fn rotate(&mut self, end_ns: u64) {
        self.engine.counters(self.recorder.counters());
        self.recorder.rotate(end_ns);
    }

    /// Lets the time until instant 0 pass. Nothing is in flight yet.
    fn await_start(&mut self) {
        while self.engine.now() < self.start_ns {
            let wait = Wait { until_ns: self.start_ns, completions: 1 };
            // What is wrong with the engine will be wrong with its next wait, too.
            if self.engine.reap(wait, &mut self.completions).is_err() {
                return;
            }
        }
    }

    /// Reads the clock and does what depends on time alone.
    #[inline]
    fn look_at_clock(&mut self) {
        self.now_ns = self.engine.now().saturating_sub(self.start_ns);
        while self.now_ns >= self.recorder.end_ns() && self.recorder.end_ns() < self.stop_ns {
            let end_ns = self.recorder.end_ns();
            self.note_backlog(end_ns);
            // Asked before this interval is sent, so that nothing can have come of it yet.
            let cause = if W::VIRTUAL { self.recorder.await_taken(&self.control) } else { None };
            self.rotate(end_ns);
            if let Some(cause) = cause {
                self.end(&cause);
            }
        }
        if self.now_ns >= self.stop_ns {
            self.note_end();
        }
    }

    /// Looks at the control and at how late everybody is, now and then. What completed is taken by then, and
    /// what is due has a slot or waits for one.
    #[inline]
    fn check(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        // Virtual time can stand still, and the user's patience does not.
        if self.now_ns >= self.checked_ns || self.turns.is_multiple_of(TURNS_UNCHECKED_MAX) {
            self.checked_ns = self.now_ns + SLEEP_MAX_NS / 2;
            self.check_lag();
            // In virtual time only a user is heeded in between: what comes of an interval is known at the end of
            // another, and a moment that depends on threads would give other results each time.
            if let Some(cause) = self.control.cause()
                && (!W::VIRTUAL || matches!(cause, Cause::Asked { .. }))
            {
                self.end(&cause);
            }
        }
    }

    /// Whether nothing is left to do, or no time for it.
    fn over(&self) -> bool {
        if self.now_ns < self.stop_ns {
            return self.is_done();
        }
        let late = self.next_due_ns() < self.stop_ns;
        let waiting = self.works_off() && self.limits.iter().any(|limit| !limit.waiting.is_empty());
        let waiting = waiting || !self.unsalted.is_empty();
        let wanted = (late || waiting) && !self.abandoned;
        let idle = !wanted && self.engine.in_flight() == 0;
        idle || self.now_ns >= self.stop_ns.saturating_add(self.settings.drain_ns)
    }

    /// Whether those that wait for a slot are still to get one.
    #[inline]
    fn works_off(&self) -> bool {
        !self.settings.leaves_backlog || self.now_ns < self.stop_ns
    }

    /// When the next operation is wanted of those that wait for nothing but time.
    #[inline]
    fn next_due_ns(&self) -> u64 {
        self.due.first().map_or(u64::MAX, |((intended_ns, _), ())| intended_ns)
    }

    /// Whether all streams have ended, and everything that they wanted is back.
    #[inline]
    fn is_done(&self) -> bool {
        let back = self.engine.in_flight() == 0 && self.unsalted.is_empty();
        // Without any lane a run lasts for as long as it was asked to.
        back && !self.ended.is_empty() && self.ended.iter().all(|ended| *ended)
    }

    /// Issues everything that is due.
    #[inline]
    fn issue_due(&mut self) {
        let mut issued = 0;
        while let Some(((intended_ns, lane), ())) = self.due.first() {
            if intended_ns > self.now_ns || intended_ns >= self.stop_ns || self.abandoned {
                break;
            }
            self.due.pop();
            self.issue(lane, intended_ns);
            issued += 1;
            if issued % BATCH == 0 && !W::VIRTUAL {
                self.now_ns = self.engine.now().saturating_sub(self.start_ns);
                // A lane far behind must not keep completions from being seen.
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

    /// Issues a lane's operation, or queues it for a slot or for salt. Does nothing more for a lane whose
    /// stream has ended.
    #[inline]
    fn issue(&mut self, lane: u32, intended_ns: u64) {
        let limit = &mut self.limits[self.lanes[lane as usize].limit as usize];
        if limit.free.is_empty() {
            limit.waiting.push_back((intended_ns, lane));
            self.lanes_waiting += 1;
            return;
        }
        let Some(request) = self.lanes[lane as usize].stream.next() else {
            match self.lanes[lane as usize].stream.stuck() {
                None => self.ended[lane as usize] = true,
                Some(why) => {
                    limit.waiting.push_front((intended_ns, lane));
                    limit.starved = limit.free.len() < limit.limit.slots as usize;
                    self.lanes_waiting += 1;
                    if !limit.starved {
                        self.stop(Cause::Stuck { why });
                    }
                }
            }
            return;
        };
        let Place { freed_ns, unseen_ns } = limit.free.pop_front().unwrap_or_default();
        let eligible_ns = freed_ns.max(intended_ns);
        let unseen_before_ns = unseen_ns.min(eligible_ns - intended_ns);
        self.arrived[lane as usize].taken += 1;
        self.start(Slot { request, lane, intended_ns, eligible_ns, lag_before_ns: 0, unseen_before_ns });
        self.schedule_next(lane);
    }

    /// Hands an operation that has its slot to the engine, as soon as it has its buffer.
    #[inline]
    fn start(&mut self, slot: Slot) {
        let Some(buf) = self.buffers.take(&slot.request) else {
            self.unsalted.push_back(slot);
            return;
        };
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
        self.closed_out += u32::from(self.is_closed(slot.lane));
        let Request { target, kind, offset, len, sync, placement, .. } = slot.request;
        self.engine.submit(Op { target, kind, offset, len, sync, placement, buf, token });
    }

    #[inline]
    fn is_closed(&self, lane: u32) -> bool {
        matches!(self.lanes[lane as usize].arrival, Arrival::Closed { .. })
    }

    /// Starts operations that waited for salt, as far as there is some now.
    fn start_salted(&mut self) {
        for _ in 0..self.unsalted.len() {
            let Some(slot) = self.unsalted.pop_front() else { break };
            self.start(slot);
        }
    }

    /// How long to sleep for what.
    #[inline]
    fn wait(&self) -> Wait {
        if self.buffers.behind() || self.is_done() {
            return Wait { until_ns: 0, completions: 1 };
        }
        let next_ns = self.next_due_ns();
        // Operations after the end are never issued, nor any of an abandoned run: nothing waits for them.
        let next_ns = if next_ns < self.stop_ns && !self.abandoned { next_ns } else { u64::MAX };
        if next_ns <= self.now_ns && !W::VIRTUAL {
            return Wait { until_ns: 0, completions: 1 };
        }
        // After the end the interval that was going on takes in what still completes, however long that
        // takes: its own end, which can lie behind, wakes nobody.
        let bound_ns = match self.now_ns < self.stop_ns {
            true => self.stop_ns.min(self.recorder.end_ns()),
            false => self.stop_ns.saturating_add(self.settings.drain_ns),
        };
        let (until_ns, completions) = match self.settings.pacing {
            // Whatever ends before then has nothing follow it: one turn takes it all.
            _ if W::VIRTUAL && next_ns < bound_ns && self.is_undisturbed() => (next_ns, u32::MAX),
            _ if W::VIRTUAL => (next_ns.min(bound_ns), 1),
            Pacing::Spin => (0, 1),
            Pacing::Sleep { period_ns } => {
                let wake_ns = next_ns.max(self.issued_ns + period_ns).min(bound_ns).min(self.now_ns + SLEEP_MAX_NS);
                // More completions than can come: the clock alone wakes.
                let by_clock = self.engine.in_flight() as u32 + 1;
                match self.awaited() {
                    _ if next_ns == u64::MAX => (wake_ns, 1),
                    Awaited::First => (wake_ns, 1),
                    Awaited::Soon => (wake_ns.min(self.now_ns + LOOK_NS.min(period_ns)), by_clock),
                    Awaited::Never => (wake_ns.min(self.now_ns + period_ns), by_clock),
                }
            }
        };
        Wait { until_ns: until_ns.saturating_add(self.start_ns), completions }
    }

    /// Whether no completion makes anything be issued: nobody waits for a slot, no lane is closed, and no stream
    /// has followers.
    #[inline]
    fn is_undisturbed(&self) -> bool {
        self.lanes_waiting == 0 && self.closed_out == 0 && !self.follows
    }

    /// How soon a completion has to be seen.
    #[inline]
    fn awaited(&self) -> Awaited {
        let in_flight = self.engine.in_flight() as u32;
        let waiting = self.limits.iter().filter(|limit| !limit.waiting.is_empty());
        let slots = waiting.map(|limit| limit.limit.slots).sum::<u32>() + self.closed_out;
        match slots {
            _ if in_flight <= 2 => Awaited::First,
            0 => Awaited::Never,
            slots if slots >= in_flight / 4 => Awaited::First,
            _ => Awaited::Soon,
        }
    }

    /// Records what completed, frees its slots and issues what waited for them.
    #[inline]
    fn take_completions(&mut self) {
        let now_ns = self.now_ns;
        // In the order in which they came; taking the last moves none of the others.
        self.completions.reverse();
        while let Some(completion) = self.completions.pop() {
            if W::VIRTUAL {
                // Of several in one turn each is taken at its own instant.
                self.now_ns = completion.completed_ns.saturating_sub(self.start_ns);
            }
            self.complete(completion);
        }
        self.now_ns = now_ns;
    }

    fn complete(&mut self, completion: Completion) {
        let slot = self.slots[completion.token as usize];
        self.free_slots.push(completion.token);
        self.closed_out -= u32::from(self.is_closed(slot.lane));
        let completed_ns = completion.completed_ns.saturating_sub(self.start_ns);
        let times = self.times(&slot, &completion, completed_ns);
        self.record(&slot, &completion, &times);
        let unseen_ns = slot.unseen_before_ns + completion.unseen_ns.min(times.service_ns());
        let Request { buffers, kind, len, .. } = slot.request;
        let lag_ns = slot.lag_before_ns + times.lag_ns();
        let lane = &mut self.lanes[slot.lane as usize];
        if kind == OpKind::Read && completion.outcome.is_done() {
            let data = &completion.buf;
            lane.stream.on_data(&slot.request, &data[..data.len().min(len as usize)]);
        }
        self.buffers.give(buffers, completion.buf);
        if let Some(request) = lane.stream.on_completion(&slot.request, completion.outcome) {
            // The follower keeps the slot and is wanted from now on.
            let (intended_ns, eligible_ns) = (completed_ns, completed_ns);
            let (lag_before_ns, unseen_before_ns) = (lag_ns, unseen_ns);
            let follower = Slot { request, intended_ns, eligible_ns, lag_before_ns, unseen_before_ns, ..slot };
            match self.abandoned {
                false => return self.start(follower),
                true => self.count_chain(follower.lane, request, false),
            }
        }
        let lane = &mut self.lanes[slot.lane as usize];
        if let Arrival::Closed { think_ns, .. } = lane.arrival {
            self.due.push((completed_ns + think_ns, slot.lane), ());
        }
        let limit = lane.limit;
        // Issued without our lag, the operation and those it followed would have freed their slot so much
        // earlier. Who waits for the slot waits that long for us, not for the device. For how long completions
        // lay unseen is known as an upper bound only: so long it waits for us at most.
        (self.limits[limit as usize].lag_ns, self.limits[limit as usize].unseen_ns) = (lag_ns, unseen_ns);
        self.free_slot(limit, Place { freed_ns: completed_ns.saturating_sub(lag_ns), unseen_ns });
    }

    fn times(&self, slot: &Slot, completion: &Completion, completed_ns: u64) -> Times {
        let issued_ns = completion.issued_ns.saturating_sub(self.start_ns).min(completed_ns);
        if self.is_closed(slot.lane) {
            // A closed lane wants its operation when it issues it: service only.
            return Times::new(issued_ns, issued_ns, issued_ns, completed_ns);
        }
        Times::new(slot.intended_ns.min(issued_ns), slot.eligible_ns.min(issued_ns), issued_ns, completed_ns)
            .with_held_ns(slot.unseen_before_ns)
    }

    fn record(&mut self, slot: &Slot, completion: &Completion, times: &Times) {
        let cell = slot.request.cell;
        if completion.outcome.is_done() {
            let overtime = times.completed_ns() > self.stop_ns;
            self.recorder.done(cell, times, slot.request.len, completion.unseen_ns, overtime);
            return;
        }
        self.recorder.failed(&slot.request, completion.outcome);
        let count = self.control.count_error();
        if completion.outcome.is_gone() {
            let error = completion.outcome.to_string();
            self.stop(Cause::Gone { device: slot.request.target.into(), error });
        } else if count > self.settings.errors_max {
            self.stop(Cause::Errors { count });
        }
    }

    /// Frees a slot under a limit; the lane that has waited longest gets it.
    #[inline]
    fn free_slot(&mut self, limit_index: u32, place: Place) {
        let limit = &mut self.limits[limit_index as usize];
        limit.free.push_back(place);
        if std::mem::take(&mut limit.starved) {
            // None of them was of use before.
            let freed_ns = |free: &Place| free.freed_ns.max(place.freed_ns);
            limit.free.iter_mut().for_each(|free| *free = Place { freed_ns: freed_ns(free), ..place });
        }
        // A lane that turns out to have ended leaves the slot to the next.
        while !self.abandoned
            && self.works_off()
            && let limit = &mut self.limits[limit_index as usize]
            && !limit.free.is_empty()
            && !limit.starved
            && let Some((intended_ns, lane)) = limit.waiting.pop_front()
        {
            self.lanes_waiting -= 1;
            self.issue(lane, intended_ns);
        }
    }

    fn stop(&mut self, cause: Cause) {
        self.end(&cause);
        self.control.stop(cause);
    }

    /// Ends this shard's part now. When the run was merely asked to end, or enough was seen, what is late
    /// or in flight is still done, as at the regular end.
    fn end(&mut self, cause: &Cause) {
        self.stop_ns = self.stop_ns.min(self.now_ns);
        self.abandoned |= !matches!(cause, Cause::Asked { .. } | Cause::Enough { .. });
    }

    /// Ends the run if any lane is too far behind, and says whose doing that is.
    fn check_lag(&mut self) {
        let max_lag_ns = self.settings.max_lag_ns;
        if max_lag_ns == 0 || self.now_ns >= self.stop_ns {
            return;
        }
        let behind_ns = |intended_ns: u64| self.now_ns.saturating_sub(intended_ns);
        let mut cause = None;
        for limit in &self.limits {
            if let Some(&(intended_ns, lane)) = limit.waiting.front().filter(|(ns, _)| behind_ns(*ns) > max_lag_ns) {
                cause = Some(self.blame(lane, behind_ns(intended_ns)));
            }
        }
        let due = self.due.first().map(|(due, ())| due);
        let unsalted = self.unsalted.front().map(|slot| (slot.intended_ns, slot.lane));
        for (intended_ns, lane) in due.into_iter().chain(unsalted) {
            if behind_ns(intended_ns) > max_lag_ns {
                let Lane { limit, name, .. } = &self.lanes[lane as usize];
                cause.get_or_insert(self.lag_cause(*limit, name.clone(), Whose::Ours, behind_ns(intended_ns)));
            }
        }
        if let Some(cause) = cause {
            self.stop(cause);
        }
    }

    /// Why a lane waits for a slot for so long: we ourselves, who were late with those before it; a
    /// device that holds one of the slots for about as long; or else that there are too few of them,
    /// which is the device's doing unless the user chose their number.
    fn blame(&self, lane: u32, behind_ns: u64) -> Cause {
        let Lane { limit, name, .. } = &self.lanes[lane as usize];
        let state = &self.limits[*limit as usize];
        let (whose, name) = if state.own_ns() > behind_ns / 2 {
            (Whose::Ours, name.clone())
        } else if let Some(cell) = self.holder(*limit) {
            (Whose::Device, self.recorder.cell_name(cell))
        } else if state.limit.configured {
            (Whose::Limit, name.clone())
        } else {
            (Whose::Device, name.clone())
        };
        self.lag_cause(*limit, name, whose, behind_ns)
    }

    /// The cell of the operation that has held a slot of a limit longest, if that is about the lag
    /// allowed.
    fn holder(&self, limit: u32) -> Option<u32> {
        let out = self.out().filter(|slot| self.lanes[slot.lane as usize].limit == limit);
        let oldest = out.min_by_key(|slot| slot.eligible_ns)?;
        let held_ns = self.now_ns.saturating_sub(oldest.eligible_ns);
        (held_ns > self.settings.max_lag_ns / 2).then_some(oldest.request.cell)
    }

    /// The operations that are out now. Not for the hot path.
    fn out(&self) -> impl Iterator<Item = &Slot> {
        let mut out = vec![true; self.slots.len()];
        self.free_slots.iter().for_each(|token| out[*token as usize] = false);
        self.slots.iter().zip(out).filter_map(|(slot, out)| out.then_some(slot))
    }

    fn lag_cause(&self, limit: u32, lane: String, whose: Whose, behind_ns: u64) -> Cause {
        let LimitState { free, limit, .. } = &self.limits[limit as usize];
        Cause::Lag { lane, whose, behind_ns, in_flight: limit.slots - free.len() as u32, slots: limit.slots }
    }
}
