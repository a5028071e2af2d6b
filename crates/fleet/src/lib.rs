//! Campaigns: the same steps for many drives on many hosts.
//!
//! A campaign is data: drives and steps. An existing scheduler runs it: Slurm, or this machine by itself. There is no
//! daemon; the only state is the campaign's directory, which all hosts share:
//!
//! ```text
//! DIR/campaign.toml           drives, steps and limits, as the user wants them
//! DIR/inventory/HOST.json     the drives of each host
//! DIR/plan.json               drives and steps, fixed by the first start
//! DIR/tasks/0001/             a task: one drive through all steps
//!     journal.jsonl           events of the task, appended and synced
//!     task.log                output of the task, and of its jobs
//!     STEP/out, STEP/output.txt    result and output of a step
//! DIR/together/STEP.1/        the agreed start of a step that all drives begin together
//! DIR/cancelled               exists: all tasks end
//! ```
//!
//! A step is a command line of flashproof, run in a process of its own, so guard, resumption and verdicts are those of
//! the command. The outcome of a step is read from its results, not from its exit code alone.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]
#![allow(unreachable_pub)]

mod barrier;
pub mod campaign;
pub mod inventory;
pub mod journal;
pub mod plan;
pub mod rehearsal;
pub mod results;
pub mod select;
pub mod slurm;
pub mod start;
pub mod status;
pub mod task;
pub mod task_status;
mod together;

use ::results::files;
use rustix::process::{Pid, Signal, kill_process};
use session::failure::Failure;
use std::fmt::Display;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sanity limit for files that are read whole, bytes: an inventory of 10,000 drives takes a tenth of it.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// This host's name without its domain; in a Slurm job, Slurm's name of the node.
pub fn host_name() -> String {
    let node = std::env::var("SLURMD_NODENAME")
        .ok()
        .filter(|name| !name.is_empty());
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let short = |name: String| name.trim().split('.').next().unwrap_or_default().to_owned();
    node.or_else(|| kernel().map(short))
        .unwrap_or_else(|| "localhost".to_owned())
}

/// A command that runs the same program as this process, even if a newer version was installed meanwhile. The command
/// appends its output to `log`, has no input, and ends with the thread that starts the command. Signals of the terminal
/// do not reach the command: the thread passes them on.
fn own_command(log: &Path) -> io::Result<Command> {
    let log = files::open_to_append(log, files::SHARED)?;
    let mut command = Command::new("/proc/self/exe");
    command
        // The run directory records this name in the command line.
        .arg0("flashproof")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    sys::process::kill_with_parent(&mut command);
    Ok(command)
}

/// Asks a process to end. Errors are ignored: the process may have ended already.
fn ask_to_end(pid: u32) {
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::TERM));
}

/// Failure of the environment: the `attempt`, and why it failed. `advice` is used unless the error has its own advice.
fn failed(attempt: impl Display, error: &io::Error, advice: &str) -> Failure {
    Failure::environment(format!(
        "{attempt} - {error} - {}",
        sys::remedy(error, advice)
    ))
}
