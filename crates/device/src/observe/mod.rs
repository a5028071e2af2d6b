//! Watching devices and the host from outside the run: nothing here issues an operation.
//!
//! * [`trace`]: the kernel's block tracepoints, one event for each request issued and completed
//! * [`diskstats`]: /proc/diskstats, and the values that `iostat -x` derives from it
//! * [`interrupts`]: CPUs that the interrupts of a device reach
//! * [`nvme`]: an NVMe drive's health logs
//! * [`telemetry`]: one row of numbers per report interval, for the run directory
//! * [`host`]: facts about the machine
//! * [`process`]: resources used by this program
//!
//! Functions that read /proc or /sys take the root of the file system, so that tests can build their own.

pub mod diskstats;
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

pub(crate) use hwmon::drive_monitor;

use std::fs;
use std::path::{Path, PathBuf};

/// A block device's number: major, minor.
pub type DeviceNumber = (u32, u32);

/// Directory of the block device `number` in /sys below `root`, links resolved.
fn block_dir(root: &Path, (major, minor): DeviceNumber) -> Option<PathBuf> {
    fs::canonicalize(root.join(format!("sys/dev/block/{major}:{minor}"))).ok()
}
