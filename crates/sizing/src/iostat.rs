//! What sysstat's iostat printed, as text or JSON: rates of each device, report by report.

use jiff::civil::DateTime;

/// What iostat printed of one machine.
#[derive(Debug, Clone, Default)]
pub struct Iostat {
    /// Its reports in their order. The first of a run of iostat, which is since boot, is left out when it can
    /// be told.
    pub reports: Vec<Report>,
    /// What was strange, each a sentence.
    pub remarks: Vec<String>,
}

/// One report.
#[derive(Debug, Clone)]
pub struct Report {
    /// When it was printed, by the clock and zone of the machine; `None`: it has no time (iostat without -t).
    pub at: Option<DateTime>,
    /// A line a device.
    pub devices: Vec<DeviceRates>,
}

/// Rates of one device, under iostat's names.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRates {
    /// Its name without `/dev/`.
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
