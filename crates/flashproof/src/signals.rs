//! Signals: the first ends the run cleanly, the second at once. A terminal that goes away ends nothing.

use crate::say;
use load::run::{Cause, Control};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::thread;

/// Exit code of a run that was broken off: it is invalid.
const BROKEN_OFF: i32 = 4;

/// Has SIGINT and SIGTERM end the run that `control` controls. One that was ignored when the program
/// began stays so: that is what nohup and a shell's `&` are for.
///
/// SIGHUP says that the terminal is gone. A day's run goes on without: what it finds is in its run
/// directory, and `flashproof status` tells how it goes.
pub fn end_run_on_signal(control: Arc<Control>) -> io::Result<()> {
    end_runs_on_signal(vec![control], "the run directory has no verdict and says so")
}

/// As [`end_run_on_signal`] for several runs. `left` says what a second signal leaves behind.
pub fn end_runs_on_signal(controls: Vec<Arc<Control>>, left: &'static str) -> io::Result<()> {
    let ignored = ignored();
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heard)?;
    thread::spawn(move || {
        let mut ends = 0;
        for signal in signals.forever() {
            if signal == SIGHUP {
                say::note(
                    "\nthe terminal is gone; the work goes on without it (flashproof status DIR tells how it goes)",
                );
                continue;
            }
            ends += 1;
            if ends > 1 {
                say::error(&format!("ended at once by a second signal - {left}"));
                std::process::exit(BROKEN_OFF);
            }
            say::note(&format!("\n{}: ending the run; once more to end it at once", name(signal)));
            controls.iter().for_each(|control| control.stop(Cause::Asked { signal }));
        }
    });
    Ok(())
}

/// The signals that this process ignores, signal n as bit n - 1. Source: proc_pid_status(5), `SigIgn`.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A signal's name; one that ended a run in older versions included.
pub fn name(signal: i32) -> String {
    match signal {
        SIGINT => "SIGINT".to_owned(),
        SIGTERM => "SIGTERM".to_owned(),
        SIGHUP => "SIGHUP".to_owned(),
        other => format!("signal {other}"),
    }
}
