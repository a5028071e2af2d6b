//! Options of `flashproof fleet`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Campaigns: the same steps for many drives on many hosts.
#[derive(Subcommand, Debug)]
pub enum Fleet {
    /// List the drives of this host, or of all nodes of Slurm, and show which drives are free
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("inventory-examples.txt")))]
    Inventory(InventoryArgs),
    /// Write a commented campaign file from inventories
    Init(InitArgs),
    /// Show which steps would run, on which host and for how long; change nothing
    Plan(CampaignArgs),
    /// Run or resume a campaign, by Slurm or on this machine; ERASES drives with consent
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("run-examples.txt")))]
    Run(RunArgs),
    /// Show the state of each step, and the cause of failures
    Status(FleetStatusArgs),
    /// End all tasks; partial results are kept
    Cancel(CampaignArgs),
    /// Run the steps of one drive of a campaign, for your own scheduler
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("task-examples.txt")))]
    Task(TaskArgs),
}

#[derive(Args, Debug)]
pub struct InventoryArgs {
    /// Write DIR/inventory/HOST.json, for a campaign in DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Take the inventory of all Slurm nodes that are up, with a single job
    #[arg(long, requires = "out", conflicts_with = "simulated")]
    pub slurm: bool,
    /// Option of srun, such as --partition=qualify; may be repeated
    #[arg(
        long,
        value_name = "OPTION",
        requires = "slurm",
        allow_hyphen_values = true
    )]
    pub slurm_option: Vec<String>,
    /// List simulated drives of this description instead: sim:channels=4+read-us=400
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

#[derive(Args, Debug)]
pub struct CampaignArgs {
    /// Directory of the campaign, shared by all its hosts
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct InitArgs {
    #[command(flatten)]
    pub campaign: CampaignArgs,
    /// Run the campaign by Slurm
    #[arg(long)]
    pub slurm: bool,
    /// Replace an existing campaign.toml
    #[arg(long)]
    pub force: bool,
}

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
