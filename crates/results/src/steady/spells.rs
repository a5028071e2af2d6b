//! Slow spells: runs of report intervals with a share at a limit, and how far apart they come.
//!
//! A stall shows as one, and so does a garbage collection that is felt. The share of a window speaks for a drive
//! only if the window holds several of the drive's spells.

use serde::{Deserialize, Serialize};

const NS_PER_SEC: f64 = 1e9;

/// The slow spells of one series at one limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spells {
    /// Number of spells.
    pub count: u64,
    /// From the beginning of the run to that of the first spell, seconds; 0 without spells.
    pub first_sec: f64,
    /// Longest time from the beginning of a spell to that of the next, seconds; 0 for fewer than two spells.
    pub apart_sec: f64,
    /// End of the first interval of the latest spell, nanoseconds.
    #[serde(skip)]
    began_ns: u64,
    #[serde(skip)]
    is_slow: bool,
}

impl Spells {
    /// Takes in the interval that ended at `end_ns`. `is_slow`: its share was at the limit.
    pub(super) fn add(&mut self, end_ns: u64, is_slow: bool) {
        if is_slow && !self.is_slow {
            let after_sec = end_ns.saturating_sub(self.began_ns) as f64 / NS_PER_SEC;
            match self.count {
                0 => self.first_sec = after_sec,
                _ => self.apart_sec = self.apart_sec.max(after_sec),
            }
            self.count += 1;
            self.began_ns = end_ns;
        }
        self.is_slow = is_slow;
    }

    /// The longest time without a spell's beginning before one, seconds.
    pub fn longest_wait_sec(&self) -> f64 {
        self.first_sec.max(self.apart_sec)
    }

    /// There was one spell, and it is over: how often such spells come is not known.
    pub fn is_lone(&self) -> bool {
        self.count == 1 && !self.is_slow
    }

    /// The spells of two series: the larger number, the longer times.
    pub fn or(self, other: Self) -> Self {
        Self {
            count: self.count.max(other.count),
            first_sec: self.first_sec.max(other.first_sec),
            apart_sec: self.apart_sec.max(other.apart_sec),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_is_a_run_of_slow_intervals_and_its_distance_is_from_beginning_to_beginning() {
        let mut spells = Spells::default();
        for second in 1..=60_u64 {
            spells.add(second * 1_000_000_000, matches!(second, 5 | 6 | 25 | 26 | 27 | 35));
        }
        assert_eq!((spells.count, spells.first_sec, spells.apart_sec, spells.is_lone()), (3, 5.0, 20.0, false));
    }
}
