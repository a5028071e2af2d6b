//! Detects lanes that fall too far behind, and the cause.

use super::lanes::LimitState;
use super::{Cause, Shard, Whose};
use crate::plan::Lane;
use engine::BlockEngine;

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

    /// The cause of a lane's long wait for a slot: this program, which was late with the operations before; a device
    /// that holds one of the slots for about as long; or else too few slots, which is charged to the device unless the
    /// user chose their number.
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

    fn lag_cause(&self, limit: u32, lane: String, whose: Whose, behind_ns: u64) -> Cause {
        let LimitState { free, limit, .. } = &self.limits[limit as usize];
        Cause::Lag { lane, whose, behind_ns, in_flight: limit.slots - free.len() as u32, slots: limit.slots }
    }
}
