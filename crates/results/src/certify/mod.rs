//! A certification: its stages, the criteria to pass one, the order, and the claims.
//!
//! ```text
//! Outline --stages()--> Vec<Step> --next()--> run --judge_stage()--> Step done ... --conclude()--> Conclusion
//!    |                     ^   |                                                        ^
//!    |                     |   +-- linearity(): each device in company against alone ---+
//!    |                 series.json                                                      |
//!    +---- Claim: certification or screening, and every word that depends on it --------+
//! ```
//!
//! The process is that of ACT's README: a day at N times the load on one device, a day at twice that, and with several
//! devices both again on all of them. The one idea: decisions and wording follow from the record
//! ([`crate::series::Series`]) alone, so the same command can resume after any interruption, and a reader of the
//! directory gets the same words years later.
//!
//! Nothing runs here, and no load is computed: the multiples refer to a load of 1x, which the crate `load` defines.

mod conclude;
mod linearity;
mod stage;
#[cfg(test)]
pub(crate) mod testing;

pub use conclude::{begin, conclude, next};
pub use linearity::{ACHIEVED_MIN, DeviceNumbers, Linearity, P99_RATIO_MAX, Ratio, device_numbers, linearity};
pub use stage::{Claim, Judged, Outline, STAGE_SEC, judge_stage};
