//! Over-provisioning in both conventions: T is the capacity of all flash, U the capacity that the host sees.
//!
//! JEDEC and most papers use (T - U) / U, as [`crate::Spec`] does; others use (T - U) / T. The same drive has 28 % in
//! the first and 21.9 % in the second, so every output names the convention.

use std::fmt;

/// (T - U) / U, from (T - U) / T.
pub fn from_share_of_flash(share: f64) -> f64 {
    share / (1.0 - share)
}

/// (T - U) / T, from (T - U) / U.
pub fn share_of_flash(over_provisioning: f64) -> f64 {
    over_provisioning / (1.0 + over_provisioning)
}

/// Prints both: `28.0 % of the logical capacity, (T - U) / U; 21.9 % of all flash, (T - U) / T`.
#[derive(Debug, Clone, Copy)]
pub struct Both(
    /// (T - U) / U.
    pub f64,
);

impl fmt::Display for Both {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_flash = share_of_flash(self.0) * 100.0;
        write!(
            f,
            "{:.1} % of the logical capacity, (T - U) / U; {of_flash:.1} % of all flash, (T - U) / T",
            self.0 * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_convention_follows_from_the_other() {
        assert_eq!(
            Both(0.28).to_string(),
            "28.0 % of the logical capacity, (T - U) / U; 21.9 % of all flash, (T - U) / T"
        );
        assert_eq!(from_share_of_flash(0.5), 1.0);
        assert!((from_share_of_flash(share_of_flash(0.07)) - 0.07).abs() < 1e-12);
    }
}
