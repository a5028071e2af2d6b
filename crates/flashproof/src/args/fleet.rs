//! The options of `flashproof fleet`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Campaigns: the same steps for many drives on many hosts.
#[derive(Subcommand, Debug)]
pub enum Fleet {
    /// List the drives of this host, or of every node of Slurm, and which are free
    #[command(after_long_help = super::help::laid_out(INVENTORY_EXAMPLES))]
    Inventory(InventoryArgs),
    /// Write a commented campaign file from inventories
    Init(InitArgs),
    /// Show what would run where and for how long; change nothing
    Plan(CampaignArgs),
    /// Run a campaign, or go on with it: by Slurm, or on this machine; ERASES drives with consent
    #[command(after_long_help = super::help::laid_out(RUN_EXAMPLES))]
    Run(RunArgs),
    /// Show what is queued, running, done and failed, and why
    Status(FleetStatusArgs),
    /// End all tasks, with partial results
    Cancel(CampaignArgs),
    /// Run one drive of a campaign through its steps, for a scheduler of your own
    #[command(after_long_help = super::help::laid_out(TASK_EXAMPLES))]
    Task(TaskArgs),
}

/// Options of an inventory.
#[derive(Args, Debug)]
pub struct InventoryArgs {
    /// Write DIR/inventory/HOST.json, for a campaign in DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Take the inventory of every node of Slurm that is up, by one job
    #[arg(long, requires = "out", conflicts_with = "simulated")]
    pub slurm: bool,
    /// Option of srun, such as --partition=qualify; may be repeated
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    pub slurm_option: Vec<String>,
    /// Invent simulated drives by this description instead: sim:channels=4+read-us=400
    #[arg(long, value_name = "SPEC")]
    pub simulated: Option<String>,
    /// Number of simulated drives
    #[arg(long, value_name = "N", default_value_t = 8, requires = "simulated", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// The directory of a campaign.
#[derive(Args, Debug)]
pub struct CampaignArgs {
    /// Directory of the campaign, which all its hosts share
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Options of a new campaign file.
#[derive(Args, Debug)]
pub struct InitArgs {
    #[command(flatten)]
    pub campaign: CampaignArgs,
    /// Let Slurm run it
    #[arg(long)]
    pub slurm: bool,
    /// Replace an existing campaign.toml
    #[arg(long)]
    pub force: bool,
}

/// Options of a start.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub campaign: CampaignArgs,
    /// Also repeat steps that could not run, failed without a verdict, or are invalid
    #[arg(long)]
    pub failed: bool,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of a campaign's status.
#[derive(Args, Debug)]
pub struct FleetStatusArgs {
    #[command(flatten)]
    pub campaign: CampaignArgs,
    /// Refresh every few seconds until nothing runs
    #[arg(long)]
    pub watch: bool,
    /// Print all steps of all drives as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of a task.
#[derive(Args, Debug)]
pub struct TaskArgs {
    #[command(flatten)]
    pub campaign: CampaignArgs,
    /// Number of the task: drives are numbered from 0
    #[arg(value_name = "INDEX")]
    pub index: usize,
    /// Run this step only
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
}

const INVENTORY_EXAMPLES: &str = "\
Examples:
  flashproof fleet inventory                          the drives of this host
  flashproof fleet inventory --out lab                the same as lab/inventory/HOST.json
  flashproof fleet inventory --out lab --slurm        of every node, by one job
  flashproof fleet inventory --out lab --simulated sim:channels=4+read-us=400 --count 8     to try a campaign

Reads only. More in docs/fleet.md.";

const RUN_EXAMPLES: &str = "\
Examples:
  flashproof fleet run lab                            submit to Slurm, or run here; again after any kill
  flashproof fleet run lab --failed                   repeat what has no result
  flashproof fleet status lab                         from any host that sees the directory

What erases needs the drive's serial number under [consent] of lab/campaign.toml, and the guard's agreement on the
host. Exit codes: 0 submitted, or all steps ended well; 1 a drive failed, 2 usage, 3 something could not run, 4 a
result is invalid. More in docs/fleet.md.";

const TASK_EXAMPLES: &str = "\
Examples:
  flashproof fleet task lab 0                         all steps of the first drive
  flashproof fleet task lab 7 --step certify
  seq 0 49 | parallel -j4 flashproof fleet task lab   GNU parallel instead of Slurm

Steps that ended are not repeated. Exit codes: 0 each step has a result, 2 usage, 3 a step could not be run,
75 stopped: run it again. More in docs/fleet.md.";
