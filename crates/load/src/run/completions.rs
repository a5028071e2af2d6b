//! Handles completions: records the operation, starts its follower, and gives its slot to the longest waiting lane.

use super::slots::{Commit, Slot};
use super::{EndCause, Shard};
use engine::BlockEngine;
use results::cell::GRACE_NS;
use results::times::{OwnDelay, Times};
use sys::op::{Completion, OpKind, Outcome};

impl<E: BlockEngine> Shard<E> {
    #[inline]
    pub(super) fn take_completions(&mut self) {
        let now_ns = self.clock.now_ns;
        let mut completions = std::mem::take(&mut self.completions);
        for completion in &mut completions {
            if self.engine.is_virtual() {
                // In virtual time, one iteration can take several completions: each is handled at its own completion
                // time.
                self.clock.now_ns = self.clock.since_start_ns(completion.completed_ns);
            }
            self.complete(completion);
        }
        completions.clear();
        self.completions = completions;
        self.clock.now_ns = now_ns;
    }

    fn complete(&mut self, completion: &mut Completion) {
        let slot = self.slots.remove(completion.token);
        let completed_ns = self.clock.since_start_ns(completion.completed_ns);
        self.silence
            .returned(slot.request.cell, completed_ns, completion.unseen_ns);
        let lane = &mut self.lanes[slot.lane];
        let is_closed = lane.is_closed();
        self.closed_in_flight -= u32::from(is_closed);
        let issued_ns = self
            .clock
            .since_start_ns(completion.issued_ns)
            .min(completed_ns);
        let times = slot.times(is_closed, issued_ns, completed_ns);
        let mut wrong_data = None;
        if slot.request.kind == OpKind::Read && completion.outcome.is_done() {
            let data = &completion.buf[..completion.buf.len().min(slot.request.len as usize)];
            wrong_data = lane.stream.on_data(&slot.request, data).err();
        }
        if wrong_data.is_some() {
            completion.outcome = Outcome::WRONG_DATA;
        }
        self.record(&slot, completion, &times, wrong_data);
        let own_delay = OwnDelay {
            lag_ns: slot.own_delay.lag_ns + times.lag_ns(),
            unseen_ns: slot.own_delay.unseen_ns + completion.unseen_ns.min(times.service_ns()),
            behind_ns: 0,
        };
        let lane = &mut self.lanes[slot.lane];
        let limit = lane.limit;
        if completion.outcome.is_done() {
            lane.stream.on_times(&slot.request, &times);
        }
        self.buffers.give(slot.request.buffers, &mut completion.buf);
        if let Some(request) = lane.stream.on_completion(&slot.request, completion.outcome) {
            // The follower keeps the slot and is due now.
            let follower = Slot {
                request,
                intended_ns: completed_ns,
                eligible_ns: completed_ns,
                own_delay,
                commit: self
                    .commit_with(&slot, completion, &times)
                    .map(|commit| self.slots.keep_commit(&slot, commit)),
                ..slot
            };
            // A commit can be long: after the end of the run and its grace period it is not continued.
            let is_cut = slot.commit.is_some() && completed_ns >= self.clock.issue_end_ns;
            if self.clock.is_abandoned() || is_cut {
                self.drop_follower(&follower)
            } else {
                return self.start(follower);
            }
        } else if slot.commit.is_some() || slot.request.commit.is_some() {
            self.end_commit(&slot, completion, &times);
        }
        if is_closed {
            self.lanes.rest(slot.lane, completed_ns);
        }
        self.limits.free(limit, completed_ns, own_delay);
        // If a lane's stream has ended, the next lane gets the slot.
        while self.limits.is_any_waiting()
            && self.clock.may_issue()
            && let Some((intended_ns, lane)) = self.limits.next_waiting(limit)
        {
            self.issue(lane, intended_ns, true);
        }
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
            let unseen_ns = completion.unseen_ns;
            self.record_done(slot.lane, cell, times, slot.request.len, unseen_ns);
            self.recorder.current.record_gap(unseen_ns);
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
        let so_far = self.slots.begun_commit(slot).copied();
        let commit = match so_far {
            Some(commit) => commit,
            None => Commit {
                cell: slot.request.commit?,
                first: *times,
                own_delay: OwnDelay::default(),
                failed: false,
            },
        };
        let before = commit.own_delay;
        let issued_ns = times.completed_ns() - times.service_ns();
        let gap_ns = so_far.map_or(0, |_| issued_ns.saturating_sub(slot.eligible_ns));
        Some(Commit {
            own_delay: OwnDelay {
                lag_ns: before.lag_ns + gap_ns,
                unseen_ns: before.unseen_ns + completion.unseen_ns.min(times.service_ns()),
                behind_ns: before.behind_ns.max(slot.own_delay.behind_ns),
            },
            failed: commit.failed || !completion.outcome.is_done(),
            ..commit
        })
    }

    /// Counts the follower in `slot`, which is not issued any more, and its commit.
    fn drop_follower(&mut self, slot: &Slot) {
        self.count_chain(slot, false);
        if let Some(commit) = self.slots.begun_commit(slot) {
            self.silence.end_chain(commit.cell);
            self.slots.drop_commit(slot);
        }
    }

    fn end_commit(&mut self, slot: &Slot, completion: &Completion, times: &Times) {
        let Some(commit) = self.commit_with(slot, completion, times) else {
            return;
        };
        self.slots.drop_commit(slot);
        self.silence.end_chain(commit.cell);
        let times = commit.times(times.completed_ns());
        let intended_ns = times.intended_ns();
        if commit.failed {
            // The failed operation is logged in its own cell.
            return self
                .recorder
                .record(commit.cell, intended_ns, |cell| cell.record_errors(1, 0));
        }
        let unseen_ns = commit.own_delay.unseen_ns;
        self.record_done(slot.lane, commit.cell, &times, 0, unseen_ns);
    }

    #[inline]
    fn record_done(&mut self, lane: u32, cell: u32, times: &Times, bytes: u32, unseen_ns: u64) {
        self.recorder.done(cell, times, bytes, unseen_ns);
        if times.response_ns() > GRACE_NS || times.completed_ns() > self.end_ns(lane) {
            self.record_late(lane, cell, times, unseen_ns);
        }
    }

    /// Records an operation that completed after the end of its stream or of the run, or after its deadline. A miss of
    /// the deadline is charged to flashproof if the operation would have met the deadline without flashproof's delays.
    #[cold]
    fn record_late(&mut self, lane: u32, cell: u32, times: &Times, unseen_ns: u64) {
        let completed_ns = times.completed_ns();
        let is_overtime = completed_ns > self.end_ns(lane);
        let deadline_ns = self.deadline_ns(lane, times.intended_ns());
        let is_missed = completed_ns > deadline_ns;
        let own_ns = times.own_delay().total_ns() + times.lag_ns() + unseen_ns;
        let is_own = is_missed && completed_ns.saturating_sub(own_ns) <= deadline_ns;
        self.recorder.record(cell, times.intended_ns(), |cell| {
            cell.counts.overtime += u64::from(is_overtime);
            cell.record_missed(u64::from(is_missed), u64::from(is_own));
        });
    }

    /// Deadline of an operation due at `intended_ns`: the end of its slice, or of its stream if earlier, plus the grace
    /// period. For a follower due after that end, the grace period begins when the follower is due. None in a closed
    /// loop.
    fn deadline_ns(&self, lane: u32, intended_ns: u64) -> u64 {
        if self.lanes[lane].is_closed() {
            return u64::MAX;
        }
        let end_ns = self.lanes[lane].stream.last_ns().min(self.end_ns(lane));
        let end_ns = end_ns.min(self.recorder.slice_end_ns(intended_ns));
        end_ns.max(intended_ns).saturating_add(GRACE_NS)
    }

    /// End of a lane's stream, or of the run if that is earlier.
    #[inline]
    fn end_ns(&self, lane: u32) -> u64 {
        self.lanes[lane].stream.until_ns().min(self.clock.stop_ns)
    }
}
