//! Checks the command of a step for usage errors, by a dry run on a simulated drive.

use results::format::in_one_line;
use session::devices::ONLY_READS;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of the dry run. A slower dry run, with a long trace or job file, counts as free of usage errors.
const PATIENCE: Duration = Duration::from_secs(20);

const USAGE: Option<i32> = Some(2);

/// Runs the command line `words`, whose drive is simulated, with `--dry-run` in the campaign's directory `dir`. Returns
/// true if the command says that it only reads. Errors: the command cannot be run, or refuses its options.
pub fn rehearse(dir: &Path, words: &[String]) -> Result<bool, String> {
    let output = run(dir, words)
        .map_err(|error| format!("cannot run its command with --dry-run - {error}"))?;
    let code = output.status.code();
    let stderr = String::from_utf8_lossy(&output.stderr);
    match stderr.split_once("error: ") {
        // Errors about the simulated drive are ignored: the real drive may have what a simulated drive lacks.
        Some((_, message)) if code == USAGE && !message.contains("simulated") => {
            Err(in_one_line(&message.trim().replace("\nerror: ", "; ")))
        }
        _ => Ok(code == Some(0) && stderr.lines().any(|line| line == ONLY_READS)),
    }
}

/// Runs the command with `--dry-run`. Captures only the exit code and standard error.
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
