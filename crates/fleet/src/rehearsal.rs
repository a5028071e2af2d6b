//! A rehearsal of a step: its command on a simulated drive, as far as usage errors.

use results::format::in_one_line;
use session::devices::ONLY_READS;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A dry run that takes longer, because a trace or a job file is long, has found no usage error.
const PATIENCE: Duration = Duration::from_secs(20);

const USAGE: Option<i32> = Some(2);

/// Runs the command `words`, which name a simulated drive, with `--dry-run` in the campaign's directory `dir`. Returns
/// true if the command says that it only reads. Errors: the command refuses its options.
pub fn rehearse(dir: &Path, words: &[String]) -> Result<bool, String> {
    let output = run(dir, words)
        .map_err(|error| format!("cannot run its command with --dry-run - {error}"))?;
    let code = output.status.code();
    let stderr = String::from_utf8_lossy(&output.stderr);
    match stderr.split_once("error: ") {
        // The real drive has what a simulated drive lacks.
        Some((_, message)) if code == USAGE && !message.contains("simulated") => {
            Err(in_one_line(&message.trim().replace("\nerror: ", "; ")))
        }
        _ => Ok(code == Some(0) && stderr.lines().any(|line| line == ONLY_READS)),
    }
}

/// Exit code and standard error of the dry run.
fn run(dir: &Path, words: &[String]) -> io::Result<Output> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).arg("--dry-run").current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    sys::process::kill_with_parent(&mut command);
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let began = Instant::now();
    while child.try_wait()?.is_none() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait_with_output()
}
