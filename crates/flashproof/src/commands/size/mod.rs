//! The steps from a live cluster to the drives that it needs.

use crate::commands::size::align::options::Alignment;
use crate::commands::size::collect::options::{CollectArgs, RestoreArgs};
use crate::commands::size::config::options::ConfigArgs;
use crate::commands::size::profile::options::SizeArgs;
use crate::commands::size::select::options::SelectArgs;
use clap::Subcommand;
use engine::DeviceName;
use session::failure::Failure;
use std::process::ExitCode;
pub mod align;
pub mod collect;
pub mod config;
pub mod profile;
pub mod select;

#[derive(Subcommand)]
pub enum Sizing {
    /// Collect the data for a profile from a live cluster into one folder: statistics of each node, logs, iostat
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("collect/examples.txt")))]
    Collect(Box<CollectArgs>),
    /// Restore the nodes' settings after a collection was killed
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("collect/restore-examples.txt")))]
    Restore(Box<RestoreArgs>),
    /// Derive the load of a cluster's drives from the servers' logs, and write a test configuration with this load
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("profile/examples.txt")))]
    Profile(Box<SizeArgs>),
    /// Adjust a configuration that has histograms until a device gets the I/O of a cluster's drive; ERASES the device
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("align/examples.txt")))]
    Align(Box<Alignment>),
    /// Compute how many drives of each candidate a cluster needs, now and scaled, and which limit binds
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("select/examples.txt")))]
    Select(Box<SelectArgs>),
    /// Write the configuration of a test: by questions, by options, or from a configuration of any ACT version
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("config/examples.txt")))]
    Config(Box<ConfigArgs>),
}

/// Parses the name of a single device.
fn one_device(text: &str) -> Result<DeviceName, String> {
    let text = text.trim();
    if text.contains([',', ';', ' ']) {
        return Err(
            "several devices are named, but the option takes one - give one device".to_owned(),
        );
    }
    text.parse::<DeviceName>()
        .map_err(|error| error.to_string())
}

pub fn run(step: &Sizing) -> Result<ExitCode, Failure> {
    match step {
        Sizing::Collect(args) => collect::collect(args),
        Sizing::Restore(args) => collect::restore(args),
        Sizing::Profile(args) => profile::run(args),
        Sizing::Align(args) => align::run(args).map(|()| ExitCode::SUCCESS),
        Sizing::Select(args) => select::run::select(args),
        Sizing::Config(args) => config::run(args),
    }
}
