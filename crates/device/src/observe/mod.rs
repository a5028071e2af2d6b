//! Watching devices and the host from outside the run: nothing here issues an operation.
//!
//! * [`trace`]: the kernel's block tracepoints, one event for each request issued and completed
//! * [`dispersion`]: how evenly events are spread over time
//! * [`diskstats`]: /proc/diskstats, and what `iostat -x` derives from it
//! * [`interrupts`]: which CPUs the interrupts of a device reach
//! * [`nvme`]: what an NVMe drive says of its own health
//! * [`telemetry`]: one row of numbers a report interval, for the run directory
//! * [`host`]: what machine this is
//! * [`process`]: what this program itself uses
//!
//! Whatever reads /proc or /sys takes the root of the file system, so that tests can build their own.

mod controllers;
pub mod diskstats;
pub mod dispersion;
pub mod host;
mod hwmon;
pub mod interrupts;
pub mod nvme;
pub mod process;
mod procfile;
pub mod telemetry;
#[cfg(test)]
mod test_loop;
pub mod trace;

pub(crate) use controllers::{controller_names, controllers};
pub(crate) use hwmon::drive_monitor;

/// A block device's number: major, minor.
pub type DeviceNumber = (u32, u32);
