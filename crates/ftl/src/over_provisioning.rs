//! Over-provisioning in both conventions: T is the capacity of all flash, U the capacity that the host sees. JEDEC,
//! most papers and [`crate::Spec`] use (T - U) / U; others use (T - U) / T. The same drive has 28 % by the first
//! convention and 21.9 % by the second, so every output names the convention.

use std::fmt;

/// (T - U) / U, from (T - U) / T.
pub fn from_share_of_flash(share: f64) -> f64 {
    share / (1.0 - share)
}

/// (T - U) / T, from (T - U) / U.
pub fn share_of_flash(over_provisioning: f64) -> f64 {
    over_provisioning / (1.0 + over_provisioning)
}

/// Estimated over-provisioning of a drive of `logical_bytes`. The raw flash is assumed to have the next usual size, 2^n
/// or 3 x 2^n bytes, that is 5 % to 45 % larger. If there is no such size (as for many files), the estimate is 7 %. The
/// estimate is an upper bound, because firmware, parity and spare blocks use a part of the flash.
pub fn estimate_from_capacity(logical_bytes: u64) -> f64 {
    let sizes = (0..63).flat_map(|power| [1_u128 << power, 3 << power]);
    let extra = sizes
        .map(|size| size as f64 / logical_bytes as f64 - 1.0)
        .filter(|extra| (0.05..=0.45).contains(extra));
    extra.min_by(f64::total_cmp).unwrap_or(0.07)
}

/// Prints both conventions: `28.0 % of the capacity, which is 21.9 % of all flash`.
#[derive(Debug, Clone, Copy)]
pub struct BothConventions(
    /// (T - U) / U.
    pub f64,
);

impl fmt::Display for BothConventions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logical = self.0 * 100.0;
        let flash = share_of_flash(self.0) * 100.0;
        write!(
            f,
            "{logical:.1} % of the capacity, which is {flash:.1} % of all flash"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_assumes_raw_flash_of_2_n_or_3_times_2_n_bytes() {
        for (bytes, pct) in [
            (960_197_124_096, 14.5),
            (800_166_076_416, 37.4),
            (1_000_204_886_016, 9.9),
            (7_681_501_126_656, 14.5),
            (6_401_252_745_216, 37.4),
            (2_400_476_553_216, 37.4),
            (1 << 30, 7.0),
        ] {
            let estimated_pct = estimate_from_capacity(bytes) * 100.0;
            assert!(
                (estimated_pct - pct).abs() < 0.1,
                "{bytes}: {estimated_pct} %"
            );
        }
    }

    #[test]
    fn both_conventions_of_over_provisioning_are_printed_and_can_be_converted() {
        let both = "28.0 % of the capacity, which is 21.9 % of all flash";
        assert_eq!(BothConventions(0.28).to_string(), both);
        assert_eq!(from_share_of_flash(0.5), 1.0);
        assert!((from_share_of_flash(share_of_flash(0.07)) - 0.07).abs() < 1e-12);
    }
}
