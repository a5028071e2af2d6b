//! A rehearsal of a step: its command on a simulated drive, as far as usage errors.

use results::format::in_one_line;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A dry run that takes longer, because a trace or a job file is long, has found no usage error.
const PATIENCE: Duration = Duration::from_secs(20);

const USAGE: Option<i32> = Some(2);

/// Runs the command `words`, which name a simulated drive, with `--dry-run` in the campaign's directory `dir`. Errors:
/// the command refuses its options.
pub fn rehearse(dir: &Path, words: &[String]) -> Result<(), String> {
    let refusal = refusal(dir, words)
        .map_err(|error| format!("cannot run its command with --dry-run - {error}"))?;
    match refusal.split_once("error: ") {
        // The real drive has what a simulated drive lacks.
        Some((_, message)) if !message.contains("simulated") => {
            Err(in_one_line(&message.trim().replace("\nerror: ", "; ")))
        }
        _ => Ok(()),
    }
}

/// Standard error of the command if it refuses its options, otherwise empty.
fn refusal(dir: &Path, words: &[String]) -> io::Result<String> {
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
    let code = child.wait()?.code();
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.filter(|_| code == USAGE) {
        stderr.read_to_string(&mut text)?;
    }
    Ok(text)
}
