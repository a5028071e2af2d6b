//! Handles completions: records the operation, starts its follower, and gives its slot to the longest waiting lane.

use super::backlog::{Commit, FreeSlot, Slot};
use super::recorder::Lateness;
use super::{EndCause, Shard};
use crate::stream::Request;
use engine::BlockEngine;
use results::cell::GRACE_NS;
use results::times::Times;
use sys::op::{Completion, OpKind, Outcome};

impl<W: BlockEngine> Shard<W> {
    /// Records completed operations, frees their slots and issues operations waiting for them.
    #[inline]
    pub(super) fn take_completions(&mut self) {
        let now_ns = self.now_ns;
        let mut completions = std::mem::take(&mut self.completions);
        for completion in &mut completions {
            if self.engine.is_virtual() {
                // In virtual time, one turn can have several completions: each is handled at its own instant.
                self.now_ns = completion.completed_ns.saturating_sub(self.start_ns);
            }
            self.complete(completion);
        }
        completions.clear();
        self.completions = completions;
        self.now_ns = now_ns;
    }

    fn complete(&mut self, completion: &mut Completion) {
        let slot = self.slots[completion.token as usize];
        self.free_slots.push(completion.token);
        self.closed_in_flight -= u32::from(self.is_closed(slot.lane));
        let completed_ns = completion.completed_ns.saturating_sub(self.start_ns);
        self.silence
            .returned(slot.request.cell, completed_ns, completion.unseen_ns);
        let times = self.times(&slot, completion, completed_ns);
        let mut wrong_data = None;
        if slot.request.kind == OpKind::Read && completion.outcome.is_done() {
            let data = &completion.buf[..completion.buf.len().min(slot.request.len as usize)];
            wrong_data = self.lanes[slot.lane as usize]
                .stream
                .on_data(&slot.request, data)
                .err();
        }
        if wrong_data.is_some() {
            completion.outcome = Outcome::WRONG_DATA;
        }
        self.record(&slot, completion, &times, wrong_data);
        let unseen_ns = slot.unseen_before_ns + completion.unseen_ns.min(times.service_ns());
        let Request { buffers, .. } = slot.request;
        let lag_ns = slot.lag_before_ns + times.lag_ns();
        let lane = &mut self.lanes[slot.lane as usize];
        if completion.outcome.is_done() {
            lane.stream.on_times(&slot.request, &times);
        }
        self.buffers.give(buffers, &mut completion.buf);
        if let Some(request) = lane.stream.on_completion(&slot.request, completion.outcome) {
            // The follower keeps the slot and is due now.
            let intended_ns = completed_ns;
            let eligible_ns = completed_ns;
            let lag_before_ns = lag_ns;
            let unseen_before_ns = unseen_ns;
            let commit = self.continue_commit(&slot, completion, &times);
            let follower = Slot {
                request,
                intended_ns,
                eligible_ns,
                lag_before_ns,
                unseen_before_ns,
                commit,
                ..slot
            };
            // A commit can be long: after the end of the run and its grace period it is not continued.
            let is_cut =
                slot.commit.is_some() && completed_ns >= self.stop_ns.saturating_add(GRACE_NS);
            if self.abandoned || is_cut {
                self.drop_follower(&follower)
            } else {
                return self.start(follower);
            }
        } else if slot.commit.is_some() || slot.request.commit.is_some() {
            self.end_commit(&slot, completion, &times);
        }
        if self.is_closed(slot.lane) {
            self.resting[slot.lane as usize] += 1;
            self.wake(slot.lane, completed_ns);
        }
        let limit = self.lanes[slot.lane as usize].limit;
        // Without flashproof's lag, this operation and those before it would have freed their slot earlier, by
        // `lag_ns`. For that time the next lane on the slot waits for flashproof, not for the device. `unseen_ns` is
        // only an upper bound of the time for which completions were unseen.
        (
            self.limits[limit as usize].lag_ns,
            self.limits[limit as usize].unseen_ns,
        ) = (lag_ns, unseen_ns);
        self.free_slot(
            limit,
            FreeSlot {
                freed_ns: completed_ns.saturating_sub(lag_ns),
                unseen_ns,
            },
        );
    }

    fn times(&self, slot: &Slot, completion: &Completion, completed_ns: u64) -> Times {
        let issued_ns = completion
            .issued_ns
            .saturating_sub(self.start_ns)
            .min(completed_ns);
        if self.is_closed(slot.lane) {
            // Operations of a closed lane are due when they are issued: only service counts.
            return Times::new(issued_ns, issued_ns, issued_ns, completed_ns)
                .with_behind_ns(slot.behind_ns);
        }
        Times::new(
            slot.intended_ns.min(issued_ns),
            slot.eligible_ns.min(issued_ns),
            issued_ns,
            completed_ns,
        )
        .with_held_ns(slot.unseen_before_ns)
        .with_behind_ns(slot.behind_ns)
    }

    fn record(
        &mut self,
        slot: &Slot,
        completion: &Completion,
        times: &Times,
        wrong_data: Option<String>,
    ) {
        let cell = slot.request.cell;
        if completion.outcome.is_done() {
            let lateness = self.lateness(slot, times, completion.unseen_ns);
            self.recorder.done(
                cell,
                times,
                slot.request.len,
                completion.unseen_ns,
                lateness,
            );
            self.recorder.current.record_gap(completion.unseen_ns);
            return;
        }
        self.recorder.failed(
            &slot.request,
            times.intended_ns(),
            completion.outcome,
            wrong_data,
        );
        let count = self.control.count_error();
        if completion.outcome.is_gone() {
            let error = completion.outcome.to_string();
            self.stop(EndCause::Gone {
                device: slot.request.target.into(),
                error,
            });
        } else if count > self.settings.errors_max {
            self.stop(EndCause::Errors { count });
        }
    }

    /// The commit that the operation in `slot` begins or continues, with this operation.
    fn commit_with(&self, slot: &Slot, completion: &Completion, times: &Times) -> Option<Commit> {
        let so_far = slot.commit.map(|index| self.commits[index as usize]);
        let commit = match so_far {
            Some(commit) => commit,
            None => Commit {
                cell: slot.request.commit?,
                first: *times,
                gaps_ns: 0,
                unseen_ns: 0,
                behind_ns: 0,
                failed: false,
            },
        };
        let issued_ns = times.completed_ns() - times.service_ns();
        let gap_ns = so_far.map_or(0, |_| issued_ns.saturating_sub(slot.eligible_ns));
        Some(Commit {
            gaps_ns: commit.gaps_ns + gap_ns,
            unseen_ns: commit.unseen_ns + completion.unseen_ns.min(times.service_ns()),
            behind_ns: commit.behind_ns.max(slot.behind_ns),
            failed: commit.failed || !completion.outcome.is_done(),
            ..commit
        })
    }

    /// Keeps the commit of the operation in `slot` for its follower. Returns its index.
    fn continue_commit(
        &mut self,
        slot: &Slot,
        completion: &Completion,
        times: &Times,
    ) -> Option<u32> {
        let commit = self.commit_with(slot, completion, times)?;
        let index = slot
            .commit
            .or_else(|| self.free_commits.pop())
            .unwrap_or(self.commits.len() as u32);
        match self.commits.get_mut(index as usize) {
            Some(kept) => *kept = commit,
            None => self.commits.push(commit),
        }
        Some(index)
    }

    /// Counts the follower in `slot`, which is not issued any more, and its commit.
    fn drop_follower(&mut self, slot: &Slot) {
        self.count_chain(slot, false);
        if let Some(index) = slot.commit {
            self.silence.end_chain(self.commits[index as usize].cell);
            self.free_commits.push(index);
        }
    }

    /// Records a commit whose last operation is in `slot`.
    fn end_commit(&mut self, slot: &Slot, completion: &Completion, times: &Times) {
        let Some(commit) = self.commit_with(slot, completion, times) else {
            return;
        };
        self.free_commits.extend(slot.commit);
        self.silence.end_chain(commit.cell);
        let times = commit.times(times.completed_ns());
        let intended_ns = times.intended_ns();
        if commit.failed {
            // The failed operation is logged in its own cell.
            return self
                .recorder
                .record(commit.cell, intended_ns, |cell| cell.record_errors(1, 0));
        }
        let lateness = self.lateness(
            &Slot {
                intended_ns,
                lag_before_ns: 0,
                ..*slot
            },
            &times,
            commit.unseen_ns,
        );
        self.recorder
            .done(commit.cell, &times, 0, commit.unseen_ns, lateness);
    }

    #[inline]
    fn lateness(&self, slot: &Slot, times: &Times, unseen_ns: u64) -> Lateness {
        if times.response_ns() > GRACE_NS || times.completed_ns() > self.end_ns(slot.lane) {
            self.late(slot, times, unseen_ns)
        } else {
            Lateness::default()
        }
    }

    /// Classifies the lateness of an operation that succeeded.
    #[cold]
    fn late(&self, slot: &Slot, times: &Times, unseen_ns: u64) -> Lateness {
        let completed_ns = times.completed_ns();
        let overtime = completed_ns > self.end_ns(slot.lane);
        if self.is_closed(slot.lane) {
            return Lateness {
                overtime,
                ..Lateness::default()
            };
        }
        let deadline_ns = self.deadline_ns(slot.lane, slot.intended_ns);
        let own_ns =
            slot.lag_before_ns + times.lag_ns() + times.held_ns() + times.behind_ns() + unseen_ns;
        let missed = completed_ns > deadline_ns;
        Lateness {
            overtime,
            missed,
            is_ours: missed && completed_ns.saturating_sub(own_ns) <= deadline_ns,
        }
    }

    /// Deadline of an operation due at `intended_ns`: the end of its slice, or of its stream if earlier, plus the grace
    /// period. For a follower due after that end, the grace period begins when the follower is due.
    fn deadline_ns(&self, lane: u32, intended_ns: u64) -> u64 {
        let end_ns = self.lanes[lane as usize]
            .stream
            .last_ns()
            .min(self.end_ns(lane));
        let end_ns = end_ns.min(self.recorder.slice_end_ns(intended_ns));
        end_ns.max(intended_ns).saturating_add(GRACE_NS)
    }

    /// End of a lane's stream, or of the run if that is earlier.
    #[inline]
    fn end_ns(&self, lane: u32) -> u64 {
        self.lanes[lane as usize]
            .stream
            .until_ns()
            .min(self.stop_ns)
    }

    /// Frees a slot under a limit; the lane that has waited longest gets it.
    #[inline]
    fn free_slot(&mut self, limit_index: u32, slot: FreeSlot) {
        let limit = &mut self.limits[limit_index as usize];
        limit.free_slots.push_back(slot);
        if std::mem::take(&mut limit.starved) {
            // While starved, the limit could not use its free slots: all count as freed now.
            let freed_ns = |free: &FreeSlot| free.freed_ns.max(slot.freed_ns);
            limit.free_slots.iter_mut().for_each(|free| {
                *free = FreeSlot {
                    freed_ns: freed_ns(free),
                    ..slot
                }
            });
        }
        // If a lane's stream has ended, the next lane gets the slot.
        while !self.abandoned
            && self.now_ns < self.stop_ns.saturating_add(GRACE_NS)
            && let limit = &mut self.limits[limit_index as usize]
            && !limit.free_slots.is_empty()
            && !limit.starved
            && let Some((intended_ns, lane)) = limit.waiting.pop_front()
        {
            self.lanes_waiting -= 1;
            self.issue(lane, intended_ns, true);
        }
    }
}
