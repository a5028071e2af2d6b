//! The options of `flashproof doctor` and `flashproof devices`.

use clap::Args;
use std::path::PathBuf;

/// Options of an examination.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Devices, partitions or files to examine [default: every disk of this machine]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Where runs are to be recorded: whether there is room
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Show what is as it should be, too
    #[arg(long)]
    pub all: bool,
    /// Print all findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of the list of devices.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Print all that is known of each as JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  flashproof doctor /dev/nvme1n1                  before a test: what about host and drive will spoil it
  flashproof doctor --all                         every disk, and what is as it should be
  flashproof doctor /dev/nvme1n1 --out /data/runs     is there room for the recording?
  flashproof doctor --json | jq '.findings[] | select(.level == \"problem\")'

Reads only, and changes nothing. Exit codes: 0 no problem, 1 a problem, 2 usage. Warnings, unknowns and
notes do not count. Every check is explained in docs/doctor.md.";

pub(super) const DEVICES_EXAMPLES: &str = "\
Examples:
  flashproof devices                              run as root: others cannot look at what is on a device
  flashproof devices --json | jq -r '.devices[] | select(.safe == \"yes\").path'

Safe to test: \"yes\" nothing stands against it; \"asks\" something is on it that would be asked about, and
erased only with consent; \"no\" it would be refused. It is the safety guard that says so (docs/guard.md),
by reading only.";
