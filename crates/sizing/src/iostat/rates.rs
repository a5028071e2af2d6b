//! Reports of iostat, and the rates of each device.

use jiff::civil::DateTime;
use jiff::tz::Offset;

/// iostat's output of one machine.
#[derive(Debug, Clone, Default)]
pub struct Iostat {
    /// Reports in order. The first of a run of iostat is dropped if it is recognised as covering the time since boot.
    pub reports: Vec<Report>,
    /// Oddities, each a sentence.
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Report {
    /// When it was printed, by the clock and zone of the machine; `None`: it has no time (iostat without -t).
    pub at: Option<DateTime>,
    /// The zone of that clock, where the time says it (S_TIME_FORMAT=ISO).
    pub offset: Option<Offset>,
    /// One line per device.
    pub devices: Vec<DeviceRates>,
}

/// Rates of one device, under iostat's names.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRates {
    /// Name without `/dev/`.
    pub device: String,
    /// Reads completed a second.
    pub r_s: f64,
    /// Writes completed a second, flushes that the kernel counts as writes included.
    pub w_s: f64,
    /// KiB read a second.
    pub rkb_s: f64,
    /// KiB written a second.
    pub wkb_s: f64,
    /// Flushes a second; `None` where a version does not print them.
    pub f_s: Option<f64>,
    /// Discards a second, likewise.
    pub d_s: Option<f64>,
}

/// Writes with data a second, out of `writes`, given the number of flushes.
///
/// A synchronous write and its flush are two writes and two flushes on a drive with a volatile cache and no FUA, two
/// and one with FUA. The size of writes decides between the cases, if all are large blocks of `block_kib`.
pub fn writes_with_data(writes: f64, flushes: f64, written_kib: f64, block_kib: Option<f64>) -> f64 {
    let off = |writes: f64| block_kib.map_or(0.0, |block_kib| (written_kib / writes / block_kib).ln().abs());
    let possible = [writes - flushes / 2.0, writes - flushes, writes].into_iter().filter(|writes| *writes >= 0.0);
    possible.min_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(writes)
}
