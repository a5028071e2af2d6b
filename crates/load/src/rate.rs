//! Rates as exact fractions: no rate is ever truncated.

use results::format::greatest_divisor;

/// Operations per second, as a reduced fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    ops: u64,
    seconds: u64,
}

impl Rate {
    /// Upper bound: a higher rate would need several operations in one nanosecond.
    pub const MAX_PER_SEC: f64 = 1e9;

    pub const ZERO: Self = Self { ops: 0, seconds: 1 };

    /// `None` if the reduced fraction does not fit 64 bits or `seconds` is zero.
    pub fn new(ops: u128, seconds: u128) -> Option<Self> {
        if seconds == 0 {
            return None;
        }
        let divisor = greatest_divisor(ops, seconds).max(1);
        Some(Self {
            ops: (ops / divisor).try_into().ok()?,
            seconds: (seconds / divisor).try_into().ok()?,
        })
    }

    /// `seconds` is not 0. Exact if both parts of the reduced fraction are below 2^56, as for any rate that a drive can
    /// do; otherwise the nearest such fraction. 56 bits leave room to divide the rate over 128 devices.
    pub fn nearest(ops: u128, seconds: u128) -> Self {
        const BITS: u32 = 56;
        let divisor = greatest_divisor(ops, seconds).max(1);
        let ops = ops / divisor;
        let seconds = (seconds / divisor).max(1);
        let excess = (u128::BITS - (ops | seconds).leading_zeros()).saturating_sub(BITS);
        let parts = (ops >> excess, (seconds >> excess).max(1));
        Self::new(parts.0, parts.1).unwrap_or(Self::ZERO)
    }

    pub fn pct(self, pct: u32) -> Self {
        Self::nearest(
            u128::from(self.ops) * u128::from(pct),
            u128::from(self.seconds) * 100,
        )
    }

    pub const fn per_sec(ops: u64) -> Self {
        Self { ops, seconds: 1 }
    }

    /// Numerator of the reduced fraction.
    pub fn ops(self) -> u64 {
        self.ops
    }

    /// Denominator of the reduced fraction, never 0.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    pub fn is_zero(self) -> bool {
        self.ops == 0
    }

    pub fn divided(self, parts: u64) -> Option<Self> {
        Self::new(
            u128::from(self.ops),
            u128::from(self.seconds) * u128::from(parts),
        )
    }

    /// Nearest double, for printing only.
    pub fn per_sec_f64(self) -> f64 {
        self.ops as f64 / self.seconds as f64
    }

    /// Whole operations per second, rounded down, as ACT prints them.
    pub fn per_sec_floor(self) -> u64 {
        self.ops / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_exact_if_its_parts_are_below_2_to_the_56_and_otherwise_the_nearest() {
        let found = Rate::nearest(369_502_208 * 5957, 10_000 << 17);
        assert_eq!(found, Rate::new(369_502_208 * 5957, 10_000 << 17).unwrap());
        let odd = Rate::nearest((1 << 100) + 1, (1 << 97) + 1);
        assert!((odd.per_sec_f64() / 8.0 - 1.0).abs() < 1e-15 && odd.divided(128).is_some());
        assert_eq!(
            Rate::nearest(u128::MAX, 1).ops() >> 55,
            1,
            "no panic where nothing fits"
        );
    }

    #[test]
    fn rates_are_reduced_and_exact() {
        let rate = Rate::new(700, 300).unwrap();
        assert_eq!((rate.ops(), rate.seconds()), (7, 3));
        assert_eq!(rate.divided(2), Rate::new(7, 6));
        assert_eq!(rate.per_sec_floor(), 2);
        assert!(Rate::new(1, 0).is_none());
        assert!(Rate::new(0, 9).unwrap().is_zero());
        assert_eq!(Rate::per_sec(7).pct(90), Rate::new(63, 10).unwrap());
    }
}
