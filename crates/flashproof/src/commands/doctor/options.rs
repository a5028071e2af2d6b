//! Options of `flashproof doctor`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Devices, partitions or files to examine [default: none; the devices of this machine are listed]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Examine every disk of this machine
    #[arg(long, conflicts_with = "devices")]
    pub every: bool,
    /// Directory for run directories, checked for space [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also show checks that passed
    #[arg(long)]
    pub all: bool,
    /// Print all facts as JSON
    #[arg(long)]
    pub json: bool,
    /// Print one line for Nagios, Icinga or Slurm, with their exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub plugin: bool,
}

impl DoctorArgs {
    /// True if no option of an examination was given: the devices are listed.
    pub fn lists(&self) -> bool {
        self.devices.is_empty() && !self.every && !self.all && self.out.is_none()
    }
}
