//! Watching devices and the host from outside the run: nothing here issues an operation.
//!
//! * [`trace`]: the kernel's block tracepoints, one event for each request issued and completed
//! * [`dispersion`]: evenness of events in time
//! * [`diskstats`]: /proc/diskstats, and the values that `iostat -x` derives from it
//! * [`interrupts`]: CPUs that the interrupts of a device reach
//! * [`nvme`]: an NVMe drive's health logs
//! * [`telemetry`]: one row of numbers per report interval, for the run directory
//! * [`host`]: facts about the machine
//! * [`process`]: resources used by this program
//!
//! Functions that read /proc or /sys take the root of the file system, so that tests can build their own.

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
