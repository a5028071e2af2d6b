//! Signals: the first ends the run cleanly, the second at once.

use crate::say;
use load::run::{Cause, Control};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::thread;

/// Exit code of a run that was broken off: it is invalid.
const BROKEN_OFF: i32 = 4;

/// Has SIGINT, SIGTERM and SIGHUP end the run that `control` controls.
pub fn end_run_on_signal(control: Arc<Control>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                say::error("ended at once by a second signal - the run directory has no verdict and says so");
                std::process::exit(BROKEN_OFF);
            }
            say::note(&format!("\n{}: ending the run; once more to end it at once", name(signal)));
            control.stop(Cause::Asked { signal });
        }
    });
    Ok(())
}

/// A signal's name.
pub fn name(signal: i32) -> String {
    match signal {
        SIGINT => "SIGINT".to_owned(),
        SIGTERM => "SIGTERM".to_owned(),
        SIGHUP => "SIGHUP".to_owned(),
        other => format!("signal {other}"),
    }
}
