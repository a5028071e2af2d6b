//! The lanes of a shard while they run, and the queue of their next operations.

use crate::plan::{Arrival, Lane};
use crate::schedule::Schedule;
use crate::stream::Stream;
use engine::event_queue::EventQueue;
use std::ops::{Index, IndexMut};

pub(super) struct RunningLane {
    pub(super) stream: Box<dyn Stream>,
    pub(super) arrival: Arrival,
    pub(super) limit: u32,
    pub(super) name: String,
    pub(super) ended: bool,
    /// For a closed loop: operations, up to the depth, that are neither queued nor in flight, because the stream does
    /// not allow them now.
    resting_ops: u32,
    pub(super) due: DueCounter,
}

impl RunningLane {
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.arrival, Arrival::Closed { .. })
    }
}

pub(super) struct DueCounter {
    /// The lane's schedule from the last evaluated time on; `None` for a closed loop.
    schedule: Option<Schedule>,
    /// Operations due before the last evaluated time.
    due_ops: u64,
    pub(super) taken_ops: u64,
}

impl DueCounter {
    fn new(arrival: &Arrival) -> Self {
        let schedule = match arrival {
            Arrival::Scheduled(schedule) => Some(schedule.clone()),
            Arrival::Closed { .. } => None,
        };
        Self {
            schedule,
            due_ops: 0,
            taken_ops: 0,
        }
    }

    /// Operations due before `at_ns` and not taken. `at_ns` must not decrease from call to call.
    pub(super) fn behind(&mut self, at_ns: u64) -> u64 {
        self.due_ops += self
            .schedule
            .as_mut()
            .map_or(0, |ahead| ahead.count_before(at_ns));
        self.due_ops.saturating_sub(self.taken_ops)
    }
}

pub(super) struct Lanes {
    lanes: Vec<RunningLane>,
    /// Next operation of each lane that waits only for its start time, ordered by (due time, lane).
    due: EventQueue<(u64, u32), ()>,
    pub(super) has_followers: bool,
}

impl Lanes {
    /// `slots`: maximum operations in flight. Operations due from `stop_ns` on are not queued.
    pub(super) fn new(lanes: Vec<Lane>, slots: usize, stop_ns: u64) -> Self {
        let running = |lane: Lane| RunningLane {
            due: DueCounter::new(&lane.arrival),
            resting_ops: match lane.arrival {
                Arrival::Closed { depth, .. } => depth,
                Arrival::Scheduled(_) => 0,
            },
            stream: lane.stream,
            arrival: lane.arrival,
            limit: lane.limit,
            name: lane.name,
            ended: false,
        };
        let mut lanes = Self {
            due: EventQueue::with_capacity(slots + lanes.len()),
            has_followers: lanes.iter().any(|lane| lane.stream.follows()),
            lanes: lanes.into_iter().map(running).collect(),
        };
        for lane in 0..lanes.len() {
            lanes.schedule_next(lane, stop_ns);
            lanes.wake(lane, 0);
        }
        lanes
    }

    pub(super) fn len(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Queues the next operation of a lane with a schedule, unless it is due at `stop_ns` or later.
    #[inline]
    pub(super) fn schedule_next(&mut self, lane: u32, stop_ns: u64) {
        if let Arrival::Scheduled(schedule) = &mut self[lane].arrival
            && let Some(intended_ns) = schedule.next_ns().filter(|ns| *ns < stop_ns)
        {
            self.due.push((intended_ns, lane), ());
        }
    }

    /// Counts an operation of a closed lane as done at `now_ns`, and queues the next if the stream allows it.
    #[inline]
    pub(super) fn rest(&mut self, lane: u32, now_ns: u64) {
        self[lane].resting_ops += 1;
        self.wake(lane, now_ns);
    }

    /// Queues more operations of a closed lane, as many as its stream allows.
    #[inline]
    fn wake(&mut self, lane: u32, now_ns: u64) {
        let RunningLane {
            arrival: Arrival::Closed { depth, think_ns },
            stream,
            resting_ops,
            ..
        } = &mut self.lanes[lane as usize]
        else {
            return;
        };
        let (width, from_ns) = stream.width(now_ns);
        let woken_ops = width
            .saturating_sub(*depth - *resting_ops)
            .min(*resting_ops);
        *resting_ops -= woken_ops;
        let intended_ns = (now_ns + *think_ns).max(from_ns);
        (0..woken_ops).for_each(|_| self.due.push((intended_ns, lane), ()));
    }

    /// The earliest operation that waits only for its start time: when it is due, and its lane.
    #[inline]
    pub(super) fn first_due(&self) -> Option<(u64, u32)> {
        self.due.first().map(|(due, ())| due)
    }

    #[inline]
    pub(super) fn first_due_ns(&self) -> u64 {
        self.first_due()
            .map_or(u64::MAX, |(intended_ns, _)| intended_ns)
    }

    #[inline]
    pub(super) fn pop_due(&mut self) {
        self.due.pop();
    }

    pub(super) fn iter_due(&self) -> impl Iterator<Item = (u64, u32)> {
        self.due.iter().map(|(due, ())| due)
    }

    /// Without lanes a run lasts its full duration.
    #[inline]
    pub(super) fn have_ended(&self) -> bool {
        !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.ended)
    }
}

impl Index<u32> for Lanes {
    type Output = RunningLane;

    #[inline]
    fn index(&self, lane: u32) -> &RunningLane {
        &self.lanes[lane as usize]
    }
}

impl IndexMut<u32> for Lanes {
    #[inline]
    fn index_mut(&mut self, lane: u32) -> &mut RunningLane {
        &mut self.lanes[lane as usize]
    }
}
