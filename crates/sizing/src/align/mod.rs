//! Computes the offsets with which a histogram load reproduces a cluster's I/O; pure arithmetic, without a drive.
//!
//! ```text
//! ActConfig --Load::of--> what it asks of a drive --.
//!                                                    >-- distortion = reached / asked
//! a burst   ------------> what reached the drive  --'         |
//! cluster   ------------> what has to reach it ---------> solve --> Offsets, the next burst's
//! ```
//!
//! The one idea: the derived rates are exact, so the effect of a drive and its kernel (rounding to sectors, merges,
//! splits) is a factor on each of the four numbers; the offsets are solved for the target divided by it. Offsets are
//! whole percents, so all values are tried where no formula is exact.
//!
//! Without `commit-to-device` three offsets are solved for: `lbw-req-offset` (w/s and wkB/s, which are one number when
//! large blocks have one size), `lbr-req-offset` (r/s), `read-size-offset` (rkB/s). `write-size-offset` stays: there it
//! only multiplies the other two, and the paper, too, changes those. With `commit-to-device` it scales the size of a
//! write, and is solved for together with `lbw-req-offset`.
//!
//! * `asked`: the load of a configuration, and the required length of a burst
//! * `solve`: the offsets
//! * `rewrite`: a configuration file with other offsets, otherwise unchanged

mod asked;
mod rewrite;
mod solve;

pub use asked::Load;
pub use rewrite::rewrite;
pub use solve::{Distortion, other_rules, solve};

use crate::drive_io::DriveIo;
use load::workload::act::ActConfig;

/// Offsets in this range, percent, can be explained by sizes within their buckets. Values outside need a reason.
pub const PLAUSIBLE_PCT: std::ops::RangeInclusive<u32> = 80..=125;

/// The offsets of a configuration, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// `lbr-req-offset`
    pub large_block_reads: u32,
    /// `lbw-req-offset`
    pub large_block_writes: u32,
    /// `read-size-offset`
    pub read_size: u32,
    /// `write-size-offset`
    pub write_size: u32,
}

impl Offsets {
    pub fn of(config: &ActConfig) -> Self {
        Self {
            large_block_reads: config.lbr_req_offset,
            large_block_writes: config.lbw_req_offset,
            read_size: config.read_size_offset,
            write_size: config.write_size_offset,
        }
    }

    /// `config` with these offsets.
    pub fn applied(self, config: &ActConfig) -> ActConfig {
        ActConfig {
            lbr_req_offset: self.large_block_reads,
            lbw_req_offset: self.large_block_writes,
            read_size_offset: self.read_size,
            write_size_offset: self.write_size,
            ..config.clone()
        }
    }

    /// Each with its key, in the order of the numbers that they are for: r/s, w/s, rkB/s, wkB/s.
    pub fn by_key(self) -> [(&'static str, u32); 4] {
        [
            ("lbr-req-offset", self.large_block_reads),
            ("lbw-req-offset", self.large_block_writes),
            ("read-size-offset", self.read_size),
            ("write-size-offset", self.write_size),
        ]
    }
}

/// By how much each of the four numbers is off its target, a fraction of that; what should be 0 and is not is off by
/// all of it.
pub fn errors(target: &DriveIo, found: &DriveIo) -> [f64; 4] {
    let (target, found) = (target.numbers(), found.numbers());
    std::array::from_fn(|n| relative(target[n], found[n]))
}

/// The largest of [`errors`], whichever way.
pub fn worst(target: &DriveIo, found: &DriveIo) -> f64 {
    errors(target, found).into_iter().map(f64::abs).fold(0.0, f64::max)
}

fn relative(target: f64, found: f64) -> f64 {
    match target {
        0.0 if found == 0.0 => 0.0,
        0.0 => 1.0,
        target => found / target - 1.0,
    }
}

#[cfg(test)]
mod tests;
