//! The options of `flashproof check`.

use super::reports::FormArgs;
use super::values::seconds;
use clap::Args;
use results::durability::session::Mode;
use std::path::PathBuf;

/// Options of a check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// A check, "all", or a TOML file of your own; without it the checks are listed
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with = "path")]
    pub show: bool,
    /// Go on for this time instead of about a minute, to see what comes after a burst: 40m, 1h
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub lasting: Option<u32>,
    #[command(flatten)]
    pub form: FormArgs,
    /// Directory for the record [default: flashproof-results/check-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Print only the result, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub durability: DurabilityArgs,
}

/// Options of `check durability` and of `check witness`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of check durability, and of check witness on another machine")]
pub struct DurabilityArgs {
    /// The witness, which keeps what was acknowledged
    #[arg(long, value_name = "HOST:PORT")]
    pub witness: Option<String>,
    /// Test only this mode: fdatasync, fua, dsync, fsync, rename; may be repeated
    #[arg(long = "mode", value_name = "MODE")]
    pub modes: Vec<Mode>,
    /// Judge without a restart of this machine: only the drive lost its power
    #[arg(long)]
    pub drive_cut: bool,
    /// Begin a session although the target has one that the witness does not know
    #[arg(long)]
    pub new: bool,
    /// Remove the files of check durability below a directory
    #[arg(long)]
    pub remove: bool,
    /// Of the witness: where to listen
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Of the witness: the file of its sessions
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl DurabilityArgs {
    /// Options given that the check `name` does not have.
    pub fn foreign_to(&self, name: &str) -> Vec<&'static str> {
        let (is_durability, is_witness) = (name == "durability", name == "witness");
        [
            ("--witness", self.witness.is_some(), is_durability),
            ("--mode", !self.modes.is_empty(), is_durability),
            ("--drive-cut", self.drive_cut, is_durability),
            ("--new", self.new, is_durability),
            ("--remove", self.remove, is_durability),
            ("--listen", self.listen.is_some(), is_witness),
            ("--file", self.file.is_some(), is_witness),
        ]
        .into_iter()
        .filter_map(|(option, is_given, is_known)| (is_given && !is_known).then_some(option))
        .collect()
    }
}

/// A file, because the code names no database.
pub(super) const CHECK_EXAMPLES: &str = include_str!("check-examples.txt");
