//! The options of `flashproof doctor`.

use clap::Args;
use std::path::PathBuf;

/// Options of the list of devices, and of an examination.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Devices, partitions or files to examine [default: none; the devices of this machine are listed]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Examine every disk of this machine
    #[arg(long, conflicts_with = "devices")]
    pub every: bool,
    /// Where runs are to be recorded: whether there is room [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show what is as it should be, too
    #[arg(long)]
    pub all: bool,
    /// Print all that is known as JSON
    #[arg(long)]
    pub json: bool,
}

impl DoctorArgs {
    /// True if nothing of an examination was given: the devices are listed.
    pub fn lists(&self) -> bool {
        self.devices.is_empty() && !self.every && !self.all && self.out.is_none()
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof doctor                               the devices, what is on them, which are safe to test (as root)
  flashproof doctor --json | jq -r '.devices[] | select(.safe == \"yes\").path'
  flashproof doctor /dev/nvme1n1                  before a test: what about host and drive will spoil it
  flashproof doctor --every --all                 every disk, and what is as it should be
  flashproof doctor /dev/nvme1n1 --out /data/runs     is there room for the recording?
  flashproof doctor --every --json | jq '.findings[] | .finding'

Safe to test: \"yes\" nothing stands against it; \"asks\" something is on it that would be asked about, and erased only
with consent; \"no\" it would be refused. It is the safety guard that says so (docs/guard.md).

Reads only, and changes nothing. Exit codes: 0 listed, or no problem; 1 a problem, 2 usage. Warnings, unknowns and
notes do not count. Every check is explained in docs/doctor.md.";
