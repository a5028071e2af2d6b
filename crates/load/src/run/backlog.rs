//! Operations wanted and not done: the backlog at an instant, and the lost ones.
//!
//! No counter runs as operations become due: the number due follows from a lane's schedule, the number taken is known.
//! The difference waits for a slot, or for this program. Operations that wait for a slot are partly charged to this
//! program: for the time by which the slots would have been free earlier, had completions been seen at once and earlier
//! operations been issued in time.

use super::Shard;
use crate::plan::{Arrival, Lane};
use crate::stream::{LOST, Request};
use engine::BlockEngine;
use results::counts::Backlog;

impl<W: BlockEngine> Shard<W> {
    /// Records the silent devices until `at_ns`.
    pub(super) fn note_silence(&mut self, at_ns: u64) {
        for silent in self.silence.take(at_ns) {
            self.recorder.silent(&silent);
        }
    }

    /// Records the backlog at `at_ns`, and the silent devices until then. Not for the hot path.
    pub(super) fn note_backlog(&mut self, at_ns: u64) {
        self.note_silence(at_ns);
        let in_flight = Backlog { in_flight: 1, ..Backlog::default() };
        let late = Backlog { late: 1, ..Backlog::default() };
        let out: Vec<u32> = self.out().map(|slot| slot.request.cell).collect();
        out.into_iter().for_each(|cell| self.recorder.outstanding(cell, &in_flight));
        self.unsalted.iter().for_each(|slot| self.recorder.outstanding(slot.request.cell, &late));
        for lane in 0..self.lanes.len() {
            let until_ns = at_ns.min(self.lanes[lane].stream.until_ns());
            let count = if self.ended[lane] { 0 } else { self.arrived[lane].behind(until_ns) };
            if count == 0 {
                continue;
            }
            let holder = self.holder_of(self.lanes[lane].limit);
            let Lane { stream, limit, .. } = &self.lanes[lane];
            let limit = &self.limits[*limit as usize];
            let waiting = limit.waiting.iter().find(|(_, waiting)| *waiting as usize == lane);
            let (devices, waits) = (self.recorder.devices(), waiting.is_some());
            let ours = waiting.map_or(count, |(intended_ns, _)| limit.ours(count, *intended_ns, at_ns));
            let (mut late, recorder) = (ours, &mut self.recorder);
            stream.expect(count, &mut |cell, count| {
                let ours = late.min(count);
                late -= ours;
                let backlog = Backlog { waiting: count - ours, late: ours, ..Backlog::default() };
                recorder.outstanding(cell, &backlog);
                // Slots held by operations of the same device are charged to that device anyway.
                if let Some(holder) =
                    holder.filter(|holder| waits && *holder as usize % devices != cell as usize % devices)
                {
                    recorder.held_by(cell, holder);
                }
            });
        }
    }

    /// The cell whose operations hold more than half of a limit's slots, if there is one.
    fn holder_of(&self, limit: u32) -> Option<u32> {
        let mut held = std::collections::BTreeMap::<u32, u32>::new();
        let out = self.out().filter(|slot| self.lanes[slot.lane as usize].limit == limit);
        out.for_each(|slot| *held.entry(slot.request.cell).or_default() += 1);
        let (cell, count) = held.into_iter().max_by_key(|(_, count)| *count)?;
        (count * 2 > self.limits[limit as usize].limit.slots).then_some(cell)
    }

    /// Records, once, the backlog at the end of the run; its operations may still complete.
    pub(super) fn note_end(&mut self) {
        if !std::mem::replace(&mut self.end_noted, true) {
            self.silence.end(self.stop_ns);
            self.note_backlog(self.stop_ns);
        }
    }

    /// Counts the wanted operations that never came back: in flight, waiting, or still in a schedule.
    pub(super) fn count_unissued(&mut self) {
        let out: Vec<_> = self.out().copied().collect();
        for slot in out {
            let last_back_ns = self.silence.last_back_ns(slot.request.cell);
            self.recorder.lost(slot.request.cell, slot.intended_ns, last_back_ns);
            let follower = self.lanes[slot.lane as usize].stream.on_completion(&slot.request, LOST);
            follower.into_iter().for_each(|request| self.count_chain(slot.lane, request, slot.intended_ns, false));
        }
        for slot in std::mem::take(&mut self.unsalted) {
            self.count_chain(slot.lane, slot.request, slot.intended_ns, true);
        }
        let waiting =
            self.limits.iter().flat_map(|limit| limit.waiting.iter().map(|waiting| (*waiting, limit.own_ns())));
        let due = self.due.iter().map(|(due, ())| (due, u64::MAX));
        for ((intended_ns, lane), own_ns) in waiting.chain(due).collect::<Vec<_>>() {
            self.count_schedule(lane, intended_ns, own_ns);
        }
    }

    /// Counts the operations of a lane from the one wanted at `intended_ns` on, slice by slice. Without this program
    /// the lane would have been less behind by `own_ns`: the operations due first would have been issued.
    pub(super) fn count_schedule(&mut self, lane: u32, mut intended_ns: u64, own_ns: u64) {
        let Lane { arrival: Arrival::Scheduled(schedule), stream, .. } = &mut self.lanes[lane as usize] else {
            return;
        };
        let recorder = &mut self.recorder;
        let (end_ns, own_until_ns) = (self.stop_ns.min(stream.until_ns()), intended_ns.saturating_add(own_ns));
        while intended_ns < end_ns {
            let slice_end_ns = recorder.slice_end_ns(intended_ns).min(end_ns);
            // The current one, already taken from the schedule, and those after it.
            let ours = match own_until_ns.min(slice_end_ns) {
                own_until_ns if own_until_ns <= intended_ns => 0,
                own_until_ns => 1 + schedule.clone().count_before(own_until_ns),
            };
            let arrivals = 1 + schedule.count_before(slice_end_ns);
            let ours_of = |count: u64| (u128::from(count) * u128::from(ours) / u128::from(arrivals)) as u64;
            let mut lost = 0;
            stream.lose(arrivals, &mut |cell, count| {
                recorder.unissued(cell, intended_ns, count, ours_of(lost + count) - ours_of(lost));
                lost += count;
            });
            intended_ns = schedule.next_ns().unwrap_or(u64::MAX);
        }
    }

    /// Counts an operation wanted at `intended_ns` that was never issued, and its followers: its stream is told that no
    /// byte moved.
    pub(super) fn count_chain(&mut self, lane: u32, request: Request, intended_ns: u64, ours: bool) {
        let mut next = Some(request);
        while let Some(request) = next {
            self.recorder.unissued(request.cell, intended_ns, 1, u64::from(ours));
            next = self.lanes[lane as usize].stream.on_completion(&request, LOST);
        }
    }
}
