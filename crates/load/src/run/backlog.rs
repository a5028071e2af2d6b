//! Operations that are due but not done: the lag of lanes, the backlog at a given time, and lost operations.
//!
//! No counter is kept of due operations: their number follows from a lane's schedule. Operations that are due but not
//! yet taken wait for a slot, or for flashproof. Of a wait for a slot, flashproof is charged for the time by which the
//! slot would have been free earlier, had flashproof issued all operations on time and seen all completions at once.

use super::lanes::RunningLane;
use super::limits::RunningLimit;
use super::slots::Slot;
use super::{DelayOwner, EndCause, Shard};
use crate::plan::Arrival;
use engine::BlockEngine;
use results::counts::Backlog;
use std::collections::BTreeMap;

impl<E: BlockEngine> Shard<E> {
    /// Ends the run if any lane is too far behind, and determines the cause.
    pub(super) fn check_lag(&mut self) {
        let max_lag_ns = self.settings.max_lag_ns;
        if max_lag_ns == 0 || self.clock.is_over() {
            return;
        }
        let behind_ns = |intended_ns: u64| self.clock.now_ns.saturating_sub(intended_ns);
        let mut cause = None;
        for limit in self.limits.iter() {
            if let Some(&(intended_ns, lane)) = limit
                .waiting
                .front()
                .filter(|(ns, _)| behind_ns(*ns) > max_lag_ns)
            {
                cause = Some(self.blame(lane, behind_ns(intended_ns)));
            }
        }
        let next_due = self.lanes.first_due();
        let awaiting_fill = self
            .awaiting_fill
            .front()
            .map(|slot| (slot.intended_ns, slot.lane));
        for (intended_ns, lane) in next_due.into_iter().chain(awaiting_fill) {
            if behind_ns(intended_ns) > max_lag_ns {
                let RunningLane { limit, name, .. } = &self.lanes[lane];
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
        let RunningLane { limit, name, .. } = &self.lanes[lane];
        let state = &self.limits[*limit];
        let (whose, name) = if state.own_delay.total_ns() > behind_ns / 2 {
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

    /// The cell of the oldest operation with a slot of `limit`. `None` if this operation has had its slot for half of
    /// the allowed lag or less.
    fn holder(&self, limit: u32) -> Option<u32> {
        let in_flight = self
            .slots
            .iter()
            .filter(|slot| self.lanes[slot.lane].limit == limit);
        let oldest = in_flight.min_by_key(|slot| slot.eligible_ns)?;
        let queued_ns = self.clock.now_ns.saturating_sub(oldest.eligible_ns);
        (queued_ns > self.settings.max_lag_ns / 2).then_some(oldest.request.cell)
    }

    fn lag_cause(&self, limit: u32, lane: String, whose: DelayOwner, behind_ns: u64) -> EndCause {
        let RunningLimit {
            free_slots, limit, ..
        } = &self.limits[limit];
        EndCause::Lag {
            lane,
            whose,
            behind_ns,
            in_flight: limit.slots - free_slots.len() as u32,
            slots: limit.slots,
        }
    }

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
            .slots
            .iter()
            .flat_map(|slot| self.cells_of(slot))
            .collect();
        let awaiting_fill_cells: Vec<u32> = self
            .awaiting_fill
            .iter()
            .flat_map(|slot| self.cells_of(slot))
            .collect();
        for cell in cells_in_flight {
            self.recorder.outstanding(cell, &in_flight);
        }
        for cell in awaiting_fill_cells {
            self.recorder.outstanding(cell, &late_backlog);
        }
        for lane in 0..self.lanes.len() {
            let running = &mut self.lanes[lane];
            let until_ns = at_ns.min(running.stream.until_ns());
            let count = if running.ended {
                0
            } else {
                running.due.behind(until_ns)
            };
            if count == 0 {
                continue;
            }
            let holder = self.holder_of(self.lanes[lane].limit);
            let RunningLane { stream, limit, .. } = &self.lanes[lane];
            let limit = &self.limits[*limit];
            let waiting = limit.waiting.iter().find(|(_, waiting)| *waiting == lane);
            let devices = self.recorder.layout.devices.len();
            let is_waiting = waiting.is_some();
            let late_ops = waiting.map_or(count, |(intended_ns, _)| {
                limit.own_delayed(count, *intended_ns, at_ns)
            });
            let mut late_left = late_ops;
            let recorder = &mut self.recorder;
            let mut cell_late_ops = 0;
            stream.expect(count, &mut |cell, count| {
                // A commit is late if its write is late; `expect` passes the cell of the write first.
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
                    recorder.slots_used_by(cell, holder);
                }
            });
        }
    }

    /// The cell whose operations hold more than half of a limit's slots, if there is one.
    fn holder_of(&self, limit: u32) -> Option<u32> {
        let mut slots_by_cell = BTreeMap::<u32, u32>::new();
        let in_flight = self
            .slots
            .iter()
            .filter(|slot| self.lanes[slot.lane].limit == limit);
        in_flight.for_each(|slot| *slots_by_cell.entry(slot.request.cell).or_default() += 1);
        let (cell, count) = slots_by_cell.into_iter().max_by_key(|(_, count)| *count)?;
        (count * 2 > self.limits[limit].limit.slots).then_some(cell)
    }

    /// Records, once, the backlog at the end of the run. The operations of this backlog may still complete.
    pub(super) fn note_end(&mut self) {
        if !std::mem::replace(&mut self.end_noted, true) {
            self.silence.end(self.clock.stop_ns);
            self.note_backlog(self.clock.stop_ns);
        }
    }

    /// Counts the due operations that never completed: in flight, waiting, or still in a schedule.
    pub(super) fn count_unissued(&mut self) {
        let in_flight: Vec<_> = self.slots.iter().copied().collect();
        for slot in in_flight {
            let last_completion_ns = self.silence.last_completion_ns(slot.request.cell);
            self.recorder
                .lost(slot.request.cell, slot.intended_ns, last_completion_ns);
            if let Some((cell, intended_ns)) = self.slots.commit_of(&slot) {
                self.recorder.lost(cell, intended_ns, last_completion_ns);
            }
            let follower = self.lanes[slot.lane].stream.on_loss(&slot.request);
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
        for slot in std::mem::take(&mut self.awaiting_fill) {
            self.count_chain(&slot, true);
        }
        let waiting = self.limits.iter().flat_map(|limit| {
            limit
                .waiting
                .iter()
                .map(|waiting| (*waiting, limit.own_delay.total_ns()))
        });
        let due_lanes = self.lanes.iter_due().map(|due| (due, u64::MAX));
        for ((intended_ns, lane), own_ns) in waiting.chain(due_lanes).collect::<Vec<_>>() {
            self.count_schedule(lane, intended_ns, own_ns);
        }
    }

    /// Counts a lane's operations due at `intended_ns` or later as never issued, step by step. Operations due within
    /// the first `own_ns` are charged to flashproof: without its delays they would have been issued.
    pub(super) fn count_schedule(&mut self, lane: u32, mut intended_ns: u64, own_ns: u64) {
        let RunningLane {
            arrival: Arrival::Scheduled(schedule),
            stream,
            ..
        } = &mut self.lanes[lane]
        else {
            return;
        };
        let recorder = &mut self.recorder;
        let end_ns = self.clock.stop_ns.min(stream.until_ns());
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
        let commit_cell = self.slots.commit_of(slot).map(|(cell, _)| cell);
        std::iter::once(slot.request.cell).chain(commit_cell)
    }

    /// Counts the operation of `slot`, which was never issued, with its followers and its commit. Reports to the stream
    /// that no byte moved.
    pub(super) fn count_chain(&mut self, slot: &Slot, is_own: bool) {
        let own_delayed = u64::from(is_own);
        if let Some((cell, intended_ns)) = self.slots.commit_of(slot) {
            self.recorder.unissued(cell, intended_ns, 1, own_delayed);
        }
        let mut follower = Some(slot.request);
        while let Some(request) = follower {
            self.recorder
                .unissued(request.cell, slot.intended_ns, 1, own_delayed);
            follower = self.lanes[slot.lane].stream.on_loss(&request);
        }
    }
}
