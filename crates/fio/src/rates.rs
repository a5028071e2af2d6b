//! Rates of a job, in operations or in bytes per second.

use super::NS_PER_SEC;
use super::directions::DIRECTIONS;
use super::parse::unless_zero;
use load::choice::with_defaults;
use load::rate::Rate;
use std::mem::discriminant;

with_defaults! {
    #[derive(Debug, Clone)]
    pub struct RateOptions {
        pub targets: [RateTarget; DIRECTIONS] = [RateTarget::Unlimited; DIRECTIONS],
        /// Minimum rates, checked in each cycle.
        pub min: [RateTarget; DIRECTIONS] = [RateTarget::Unlimited; DIRECTIONS],
        pub cycle_ns: u64 = NS_PER_SEC,
        /// True for exponentially distributed gaps between operations.
        pub poisson: bool = false,
        /// True if each pause delays all later operations; false if the job then catches up.
        pub ignores_thinktime: bool = false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateTarget {
    #[default]
    Unlimited,
    Iops(u64),
    Bytes(u64),
}

impl RateTarget {
    /// Rate of operations that have `mean_bytes` on average; `None` if unlimited.
    pub fn rate(self, mean_bytes: f64) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Iops(iops) => Some(Rate::per_sec(iops)),
            // A mean size needs no more precision than thousandths of a byte.
            Self::Bytes(bytes) => {
                Rate::new(u128::from(bytes) * 1_000, (mean_bytes * 1_000.0) as u128)
            }
        }
    }
}

/// Sets rates by direction. An empty entry and 0 leave a direction unlimited, unless the other option of the pair (in
/// bytes, in operations) gave it a rate.
pub(super) fn set_targets(
    targets: &mut [RateTarget; DIRECTIONS],
    given: [u64; DIRECTIONS],
    to_target: fn(u64) -> RateTarget,
) {
    for (target, given) in targets.iter_mut().zip(given) {
        match unless_zero(given) {
            Some(given) => *target = to_target(given),
            None if discriminant(target) == discriminant(&to_target(0)) => {
                *target = RateTarget::Unlimited
            }
            None => {}
        }
    }
}
