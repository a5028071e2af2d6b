//! `flashproof size collect`: collects data about a live cluster's load into a folder, for a sizing anywhere.
//!
//! ```text
//! --host -> nodes, walked by their peers              store::nodes
//!        -> settings that a sizing needs, changed     put_back.rs
//!        -> samples, a file per node                  collect.rs, folder.rs
//!        -> settings put back, also after a signal    put_back.rs
//! ```
//!
//! `sizing::info` interprets the replies; this module opens no device.

mod by_hand;
mod collect;
mod folder;
mod put_back;

use crate::args::{CollectArgs, NodeArgs, RestoreArgs};
use put_back::{Lock, PutBack};
use session::console::{self, shell};
use session::failure::Failure;
use session::signals::Ending;
use sizing::info::Build;
use std::process::ExitCode;
use std::time::Duration;
use store::nodes::{Access, Node};

/// Collects, or prints the commands to do so by hand.
pub fn collect(args: &CollectArgs) -> Result<ExitCode, Failure> {
    if args.print_commands { by_hand::print(args) } else { collect::run(args) }
}

/// Restores the settings that a killed collection had changed.
pub fn restore(args: &RestoreArgs) -> Result<ExitCode, Failure> {
    let dir = args.dir.display();
    if !args.dir.is_dir() {
        return Err(Failure::usage(format!(
            "cannot restore from {dir} - it is no folder - name that of the collection"
        )));
    }
    let lock = Lock::take(&args.dir)?;
    let Some(put_back) = PutBack::read(&args.dir)? else {
        console::note(&format!("nothing is to be put back: there is no {} in {dir}", put_back::FILE));
        return Ok(ExitCode::SUCCESS);
    };
    let access = access(&args.nodes)?;
    let _listening = Ending::listen(format!(
        "settings still to restore are recorded in {dir} - restore them: flashproof size restore {dir}"
    ))?;
    put_back.put_back(&access, retry(&args.nodes))?;
    drop(lock);
    console::note("everything is put back");
    Ok(ExitCode::SUCCESS)
}

fn access(args: &NodeArgs) -> Result<Access, Failure> {
    Ok(Access { timeout: Duration::from_secs(args.timeout.into()), ..crate::access::access(&args.access)? })
}

fn retry(args: &NodeArgs) -> Duration {
    Duration::from_secs(args.retry.into())
}

fn build(node: &Node) -> Option<Build> {
    Build::parse(&node.build)
}
