//! Lanes and limits while a shard runs them, and operations that are due but not done: the lag of lanes, the backlog at
//! an instant, and lost operations.
//!
//! No counter is kept of due operations: their number follows from a lane's schedule. Operations that are due but not
//! yet taken wait for a slot, or for flashproof. Part of a wait for a slot is charged to flashproof. If flashproof had
//! issued all earlier operations on time and seen all completions at once, the slot would have been free earlier: this
//! difference is charged.

use super::{DelayOwner, EndCause, Shard};
use crate::plan::{Arrival, Lane, Limit};
use crate::schedule::Schedule;
use crate::stream::Request;
use engine::BlockEngine;
use results::counts::Backlog;
use results::times::Times;
use std::collections::{BTreeMap, VecDeque};

/// An issued operation, by token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) lane: u32,
    pub(super) intended_ns: u64,
    pub(super) eligible_ns: u64,
    /// flashproof's lag, accumulated over the earlier operations on the same slot.
    pub(super) lag_before_ns: u64,
    /// Upper bound of how much earlier the operation could have been issued if earlier completions on its slot had been
    /// seen at once.
    pub(super) unseen_before_ns: u64,
    /// Upper bound of this operation's delay at its device because flashproof issued earlier operations late.
    pub(super) behind_ns: u64,
    /// Index of the commit of earlier operations on the slot, if this operation is part of it.
    pub(super) commit: Option<u32>,
}

/// The operations of a commit that completed: they follow each other in a slot, and the commit is recorded in its own
/// cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commit {
    pub(super) cell: u32,
    /// Times of the first operation.
    pub(super) first: Times,
    /// Sum of the times between a completion and the issue of the next operation.
    pub(super) gaps_ns: u64,
    /// Upper bound on the time for which completions were unseen.
    pub(super) unseen_ns: u64,
    /// Upper bound of the delay in the device by earlier operations that this program issued late.
    pub(super) behind_ns: u64,
    /// True if an operation failed.
    pub(super) failed: bool,
}

impl Commit {
    /// The times of the commit whose last operation completed at `completed_ns`. The gaps are lag, not service.
    pub(super) fn times(&self, completed_ns: u64) -> Times {
        let intended_ns = self.first.intended_ns();
        let eligible_ns = intended_ns + self.first.wait_ns();
        let issued_ns = (eligible_ns + self.first.lag_ns() + self.gaps_ns).min(completed_ns);
        Times::new(intended_ns, eligible_ns, issued_ns, completed_ns)
            .with_held_ns(self.first.held_ns())
            .with_behind_ns(self.behind_ns)
    }
}

/// A free slot under a limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FreeSlot {
    /// Instant at which the slot would have become free without flashproof's lag.
    pub(super) freed_ns: u64,
    /// Upper bound on the time for which the completions that freed the slot were unseen.
    pub(super) unseen_ns: u64,
}

pub(super) struct LimitState {
    /// Free slots in the order in which they became free. The lane that has waited longest is entitled to the first
    /// slot from the instant at which that slot became free, even if other completions were seen in the same poll.
    pub(super) free_slots: VecDeque<FreeSlot>,
    pub(super) limit: Limit,
    /// flashproof's lag in the operation that last freed a slot, and in the earlier operations on that slot.
    pub(super) lag_ns: u64,
    /// Upper bound of how much earlier the last freed slot would have been free if all completions had been seen at
    /// once.
    pub(super) unseen_ns: u64,
    /// Lanes that wait for a slot, each with the intended start of its next operation.
    pub(super) waiting: VecDeque<(u64, u32)>,
    /// True if slots are free, but the stream of the first waiting lane has no next operation until an operation in
    /// flight completes.
    pub(super) starved: bool,
}

impl LimitState {
    /// Upper bound of how much earlier the last freed slot would have been free without flashproof's delays,
    /// nanoseconds.
    pub(super) fn own_ns(&self) -> u64 {
        self.lag_ns + self.unseen_ns
    }

    /// Number of operations charged to flashproof, out of `count` waiting operations. Their fraction is flashproof's
    /// share of the longest wait, which lasts from `intended_ns` to `at_ns`.
    pub(super) fn ours(&self, count: u64, intended_ns: u64, at_ns: u64) -> u64 {
        let wait_ns = at_ns.saturating_sub(intended_ns).max(1);
        let charged =
            u128::from(count) * u128::from(self.own_ns().min(wait_ns)) / u128::from(wait_ns);
        u64::try_from(charged).unwrap_or(count)
    }
}

/// Operations that became due on a lane.
#[derive(Debug)]
pub(super) struct DueCounter {
    /// The lane's schedule from the last evaluated instant on; `None` for a closed loop.
    schedule: Option<Schedule>,
    /// Operations due before the last evaluated instant.
    due_ops: u64,
    /// Operations taken from the lane's stream.
    pub(super) taken_ops: u64,
}

impl DueCounter {
    pub(super) fn new(arrival: &Arrival) -> Self {
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

impl<W: BlockEngine> Shard<W> {
    /// Ends the run if any lane is too far behind, and determines the cause.
    pub(super) fn check_lag(&mut self) {
        let max_lag_ns = self.settings.max_lag_ns;
        if max_lag_ns == 0 || self.now_ns >= self.stop_ns {
            return;
        }
        let behind_ns = |intended_ns: u64| self.now_ns.saturating_sub(intended_ns);
        let mut cause = None;
        for limit in &self.limits {
            if let Some(&(intended_ns, lane)) = limit
                .waiting
                .front()
                .filter(|(ns, _)| behind_ns(*ns) > max_lag_ns)
            {
                cause = Some(self.blame(lane, behind_ns(intended_ns)));
            }
        }
        let next_due = self.due_lanes.first().map(|(due, ())| due);
        let unsalted = self
            .unsalted
            .front()
            .map(|slot| (slot.intended_ns, slot.lane));
        for (intended_ns, lane) in next_due.into_iter().chain(unsalted) {
            if behind_ns(intended_ns) > max_lag_ns {
                let Lane { limit, name, .. } = &self.lanes[lane as usize];
                cause.get_or_insert(self.lag_cause(
                    *limit,
                    name.clone(),
                    DelayOwner::Ours,
                    behind_ns(intended_ns),
                ));
            }
        }
        if let Some(cause) = cause {
            self.stop(cause);
        }
    }

    /// Cause of a lane's long wait for a slot: flashproof, if it caused over half of the wait; else a device that has
    /// held a slot for long; else too few slots. If the user did not choose the number of slots, the device is charged.
    fn blame(&self, lane: u32, behind_ns: u64) -> EndCause {
        let Lane { limit, name, .. } = &self.lanes[lane as usize];
        let state = &self.limits[*limit as usize];
        let (whose, name) = if state.own_ns() > behind_ns / 2 {
            (DelayOwner::Ours, name.clone())
        } else if let Some(cell) = self.holder(*limit) {
            (
                DelayOwner::Device,
                self.recorder.layout.cell_name(cell as usize),
            )
        } else if state.limit.configured {
            (DelayOwner::Limit, name.clone())
        } else {
            (DelayOwner::Device, name.clone())
        };
        self.lag_cause(*limit, name, whose, behind_ns)
    }

    /// Among the operations with a slot of `limit`, the cell of the oldest. `None` if this operation has had its slot for
    /// half of the allowed lag or less.
    fn holder(&self, limit: u32) -> Option<u32> {
        let in_flight = self
            .slots_in_flight()
            .filter(|slot| self.lanes[slot.lane as usize].limit == limit);
        let oldest = in_flight.min_by_key(|slot| slot.eligible_ns)?;
        let held_ns = self.now_ns.saturating_sub(oldest.eligible_ns);
        (held_ns > self.settings.max_lag_ns / 2).then_some(oldest.request.cell)
    }

    fn lag_cause(&self, limit: u32, lane: String, whose: DelayOwner, behind_ns: u64) -> EndCause {
        let LimitState {
            free_slots: free,
            limit,
            ..
        } = &self.limits[limit as usize];
        EndCause::Lag {
            lane,
            whose,
            behind_ns,
            in_flight: limit.slots - free.len() as u32,
            slots: limit.slots,
        }
    }

    /// Records the silence of devices until `at_ns`.
    pub(super) fn note_silence(&mut self, at_ns: u64) {
        for silent in self.silence.take(at_ns) {
            self.recorder.silent(&silent);
        }
    }

    /// Records the backlog at `at_ns`, and the silence of devices until then. Not for the hot path.
    pub(super) fn note_backlog(&mut self, at_ns: u64) {
        self.note_silence(at_ns);
        let in_flight = Backlog {
            in_flight: 1,
            ..Backlog::default()
        };
        let late_backlog = Backlog {
            late: 1,
            ..Backlog::default()
        };
        let cells_in_flight: Vec<u32> = self
            .slots_in_flight()
            .flat_map(|slot| self.cells_of(slot))
            .collect();
        let unsalted_cells: Vec<u32> = self
            .unsalted
            .iter()
            .flat_map(|slot| self.cells_of(slot))
            .collect();
        for cell in cells_in_flight {
            self.recorder.outstanding(cell, &in_flight);
        }
        for cell in unsalted_cells {
            self.recorder.outstanding(cell, &late_backlog);
        }
        for lane in 0..self.lanes.len() {
            let until_ns = at_ns.min(self.lanes[lane].stream.until_ns());
            let count = if self.ended_lanes[lane] {
                0
            } else {
                self.due_counters[lane].behind(until_ns)
            };
            if count == 0 {
                continue;
            }
            let holder = self.holder_of(self.lanes[lane].limit);
            let Lane { stream, limit, .. } = &self.lanes[lane];
            let limit = &self.limits[*limit as usize];
            let waiting = limit
                .waiting
                .iter()
                .find(|(_, waiting)| *waiting as usize == lane);
            let devices = self.recorder.layout.devices.len();
            let is_waiting = waiting.is_some();
            let late_ops = waiting.map_or(count, |(intended_ns, _)| {
                limit.ours(count, *intended_ns, at_ns)
            });
            let mut late_left = late_ops;
            let recorder = &mut self.recorder;
            let mut cell_late_ops = 0;
            stream.expect(count, &mut |cell, count| {
                // A commit is late if its write, which comes before it, is late.
                if !recorder.layout.streams[cell as usize / devices].commits {
                    cell_late_ops = late_left.min(count);
                    late_left -= cell_late_ops;
                }
                let backlog = Backlog {
                    waiting: count - cell_late_ops,
                    late: cell_late_ops,
                    ..Backlog::default()
                };
                recorder.outstanding(cell, &backlog);
                // Slots held by operations of the same device are charged to that device anyway.
                if let Some(holder) = holder.filter(|holder| {
                    is_waiting && *holder as usize % devices != cell as usize % devices
                }) {
                    recorder.held_by(cell, holder);
                }
            });
        }
    }

    /// The cell whose operations hold more than half of a limit's slots, if there is one.
    fn holder_of(&self, limit: u32) -> Option<u32> {
        let mut slots_by_cell = BTreeMap::<u32, u32>::new();
        let in_flight = self
            .slots_in_flight()
            .filter(|slot| self.lanes[slot.lane as usize].limit == limit);
        in_flight.for_each(|slot| *slots_by_cell.entry(slot.request.cell).or_default() += 1);
        let (cell, count) = slots_by_cell.into_iter().max_by_key(|(_, count)| *count)?;
        (count * 2 > self.limits[limit as usize].limit.slots).then_some(cell)
    }

    /// Records, once, the backlog at the end of the run. The operations of this backlog may still complete.
    pub(super) fn note_end(&mut self) {
        if !std::mem::replace(&mut self.end_noted, true) {
            self.silence.end(self.stop_ns);
            self.note_backlog(self.stop_ns);
        }
    }

    /// Counts the due operations that never completed: in flight, waiting, or still in a schedule.
    pub(super) fn count_unissued(&mut self) {
        let in_flight: Vec<_> = self.slots_in_flight().copied().collect();
        for slot in in_flight {
            let last_back_ns = self.silence.last_back_ns(slot.request.cell);
            self.recorder
                .lost(slot.request.cell, slot.intended_ns, last_back_ns);
            if let Some((cell, intended_ns)) = self.commit_of(&slot) {
                self.recorder.lost(cell, intended_ns, last_back_ns);
            }
            let follower = self.lanes[slot.lane as usize].stream.on_loss(&slot.request);
            follower.into_iter().for_each(|request| {
                self.count_chain(
                    &Slot {
                        request,
                        commit: None,
                        ..slot
                    },
                    false,
                )
            });
        }
        for slot in std::mem::take(&mut self.unsalted) {
            self.count_chain(&slot, true);
        }
        let waiting = self.limits.iter().flat_map(|limit| {
            limit
                .waiting
                .iter()
                .map(|waiting| (*waiting, limit.own_ns()))
        });
        let due_lanes = self.due_lanes.iter().map(|(due, ())| (due, u64::MAX));
        for ((intended_ns, lane), own_ns) in waiting.chain(due_lanes).collect::<Vec<_>>() {
            self.count_schedule(lane, intended_ns, own_ns);
        }
    }

    /// Counts, step by step, the operations of a lane that are due at `intended_ns` or later. Without flashproof's
    /// delays, the operations due within the first `own_ns` would have been issued.
    pub(super) fn count_schedule(&mut self, lane: u32, mut intended_ns: u64, own_ns: u64) {
        let Lane {
            arrival: Arrival::Scheduled(schedule),
            stream,
            ..
        } = &mut self.lanes[lane as usize]
        else {
            return;
        };
        let recorder = &mut self.recorder;
        let end_ns = self.stop_ns.min(stream.until_ns());
        let own_until_ns = intended_ns.saturating_add(own_ns);
        while intended_ns < end_ns {
            let step_end_ns = recorder.step_end_ns(intended_ns).min(end_ns);
            // The 1 is the current operation, which is already taken from the schedule.
            let own_arrivals = match own_until_ns.min(step_end_ns) {
                own_until_ns if own_until_ns <= intended_ns => 0,
                own_until_ns => 1 + schedule.clone().count_before(own_until_ns),
            };
            let arrivals = 1 + schedule.count_before(step_end_ns);
            let own = u128::from(own_arrivals);
            let all = u128::from(arrivals);
            let own_share = |count: u64| (u128::from(count) * own / all) as u64;
            let mut lost_ops = 0;
            stream.lose(arrivals, &mut |cell, count| {
                recorder.unissued(
                    cell,
                    intended_ns,
                    count,
                    own_share(lost_ops + count) - own_share(lost_ops),
                );
                lost_ops += count;
            });
            intended_ns = schedule.next_ns().unwrap_or(u64::MAX);
        }
    }

    /// Cells of the operation in `slot`: its own, and that of its commit.
    fn cells_of(&self, slot: &Slot) -> impl Iterator<Item = u32> {
        let commit_cell = self.commit_of(slot).map(|(cell, _)| cell);
        std::iter::once(slot.request.cell).chain(commit_cell)
    }

    /// Cell and scheduled start of the commit that the operation in `slot` is part of.
    fn commit_of(&self, slot: &Slot) -> Option<(u32, u64)> {
        let begun = slot.commit.map(|index| &self.commits[index as usize]);
        let begun = begun.map(|commit| (commit.cell, commit.first.intended_ns()));
        begun.or_else(|| Some((slot.request.commit?, slot.intended_ns)))
    }

    /// Counts the operation of `slot`, which was never issued, its followers, and its commit. The lane's stream learns
    /// that no byte moved.
    pub(super) fn count_chain(&mut self, slot: &Slot, is_ours: bool) {
        let ours = u64::from(is_ours);
        if let Some((cell, intended_ns)) = self.commit_of(slot) {
            self.recorder.unissued(cell, intended_ns, 1, ours);
        }
        let mut follower = Some(slot.request);
        while let Some(request) = follower {
            self.recorder
                .unissued(request.cell, slot.intended_ns, 1, ours);
            follower = self.lanes[slot.lane as usize].stream.on_loss(&request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_this_program_within_a_commit_are_lag_and_not_service() {
        // Due at 100, with a slot at 150, issued at 180. A gap of 20, then of 5 before the last operation.
        let first = Times::new(100, 150, 180, 400);
        let commit = Commit {
            cell: 0,
            first,
            gaps_ns: 25,
            unseen_ns: 0,
            behind_ns: 0,
            failed: false,
        };
        let times = commit.times(1_000);
        assert_eq!(
            [times.wait_ns(), times.lag_ns(), times.service_ns()],
            [50, 55, 795]
        );
        assert_eq!(
            (
                times.intended_ns(),
                times.completed_ns(),
                times.response_ns()
            ),
            (100, 1_000, 900)
        );
    }
}
