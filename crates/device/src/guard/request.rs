//! A request to write to a device or file, and the guard that decides on it.

use super::ask::erase_names;
use super::evidence::Sampling;
use super::preparation::Records;
use crate::discover::Roots;
use std::path::PathBuf;
use std::time::Duration;

/// Environment variable with the names of the only devices that this process may write to. A campaign sets it to the
/// drive of the task, so that a replaced drive is refused, empty or not.
pub const ONLY_VARIABLE: &str = "FLASHPROOF_ONLY";

/// Time without I/O before a device is claimed.
const WATCH: Duration = Duration::from_secs(1);

/// Maximum wait for a short-lived user (udev after a change, a run that just ended).
const SETTLE: Duration = Duration::from_secs(3);

/// Spots read between the ends of a device: data on 1 % of it is missed once in 30,000 times.
const SPOTS: u32 = 1024;

/// Longest time for the spots: a disk with platters reads about 100 a second.
const SPOTS_LIMIT: Duration = Duration::from_secs(5);

/// One device or file that a run wants to write to.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name as the user gave it.
    pub path: String,
    /// Required size of a file. Without it files are refused; devices ignore it.
    pub file_size_bytes: Option<u64>,
    /// True if the blocks of a file are not allocated before they are written.
    pub sparse: bool,
    /// True if the load writes at the write pointers of a zoned device.
    pub zoned: bool,
    /// Least size that the load needs: one large block.
    pub min_size_bytes: u64,
    /// True for the whole device, including the part that a preparation left unused.
    pub whole: bool,
    /// True if the run reads: write-only runs skip the warning that reads of unwritten blocks do not reach the drive.
    pub reads: bool,
    /// True if other shared runs may use it at the same time.
    pub shared: bool,
    /// True if every write must be on the medium when it completes (`O_DSYNC`).
    pub odsync: bool,
    /// True if the run uses the record store on the device, which stays: then nobody is asked. The opener of the store
    /// compares its settings, before and after.
    pub keeps_store: bool,
    /// Purpose, in words; stored in the record.
    pub purpose: String,
}

impl Request {
    /// A request for `path`: alone, to read and write, with `O_DSYNC`, of any size, and of no file.
    pub fn new(path: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            file_size_bytes: None,
            sparse: false,
            zoned: false,
            min_size_bytes: 0,
            whole: false,
            reads: true,
            shared: false,
            odsync: true,
            keeps_store: false,
            purpose: purpose.into(),
        }
    }
}

/// The guard of this machine's devices.
#[derive(Debug, Clone)]
pub struct Guard {
    pub(super) roots: Roots,
    /// The only devices that may be written to, by their names; `None`: any.
    pub(super) only: Option<Vec<String>>,
    pub(super) records: Records,
    pub(super) watch: Duration,
    pub(super) settle: Duration,
    pub(super) sampling: Sampling,
}

impl Guard {
    /// A guard with its records in `state_dir`, or in the state directory of the environment ([`Records::open`]).
    pub fn new(state_dir: Option<PathBuf>) -> Self {
        Self {
            roots: Roots::default(),
            only: std::env::var(ONLY_VARIABLE).ok().map(|names| erase_names(&[], Some(&names))),
            records: Records::open(state_dir),
            watch: WATCH,
            settle: SETTLE,
            sampling: Sampling { spots: SPOTS, seed: 0, limit: SPOTS_LIMIT },
        }
    }
}
