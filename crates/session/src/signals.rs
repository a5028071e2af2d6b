//! Signals: the first ends the work cleanly, the second at once. A terminal that goes away ends no run.

use crate::Manner;
use crate::console;
use crate::failure::Failure;
use crate::leave;
use load::run::{Cause, Control};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Exit code of a run that was broken off: it is invalid.
const BROKEN_OFF: i32 = 4;

/// Printed after SIGHUP if standard error is not the terminal, because then somebody can read it.
const HUNG_UP: &str =
    "the terminal is gone; the work goes on without it (flashproof report status DIR tells how it goes)";

/// The runs that a signal ends now: those that are armed. Installed once for a command, whose runs come one after
/// another.
#[derive(Clone, Default)]
pub struct Switch {
    armed: Arc<Mutex<Vec<Arc<Control>>>>,
    /// The signal that came first; 0 before.
    asked: Arc<AtomicI32>,
}

/// Runs that a signal ends, for as long as this lives.
pub struct Armed(Switch);

impl Switch {
    /// Handles SIGINT and SIGTERM. A signal that was ignored at the start of the program stays ignored, as nohup and a
    /// shell's `&` intend. `left` describes the state after a second signal, for the message.
    ///
    /// SIGHUP means that the terminal is gone, and ends nothing: the results of a day's run are in its run directory,
    /// and `flashproof report status` shows its progress. A pending question gets an end of file from the terminal.
    ///
    /// `manner`: a program of ACT dies by the signal itself.
    pub fn install(left: &'static str, manner: Manner) -> Result<Self, Failure> {
        let switch = Self::default();
        let mut signals = listen()?;
        let listening = switch.clone();
        thread::spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                if signal == SIGHUP {
                    console::note(&format!("\n{HUNG_UP}"));
                    continue;
                }
                if std::mem::replace(&mut asked, true) {
                    console::error(&format!("ended at once by a second signal - {left}"));
                    broken_off(signal, manner);
                }
                if !listening.ask(signal) {
                    // Nothing runs: a question waits for its answer, or a run is being set up.
                    console::notice(&format!(
                        "\n{}: ended before a run began - the same command begins it, or goes on where it was",
                        name(signal)
                    ));
                    broken_off(signal, manner);
                }
                console::note(&format!("\n{}: ending the run; once more to end it at once", name(signal)));
            }
        });
        Ok(switch)
    }

    /// Makes the next signal end the runs of `controls`. A signal while nothing is armed ends the program.
    pub fn arm(&self, controls: Vec<Arc<Control>>) -> Armed {
        *self.lock() = controls;
        Armed(self.clone())
    }

    /// The signal that asked for the end, if one did. A run hears of it as its cause only if it has no other
    /// by then: one whose time is over stays armed until it is recorded, and ends as it would have. Whoever
    /// begins the next run asks here first.
    pub fn was_asked(&self) -> Option<i32> {
        Some(self.asked.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// Ends the runs that are armed; tells whether there are any.
    fn ask(&self, signal: i32) -> bool {
        self.asked.store(signal, Ordering::Release);
        let controls = self.lock();
        controls.iter().for_each(|control| control.stop(Cause::Asked { signal }));
        !controls.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Control>>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}

/// Signals that end the work of a command early, which then has something to put back. A terminal that goes away
/// is one of them: nobody is left to end it.
pub struct Ending {
    signals: Receiver<i32>,
    came: Cell<Option<i32>>,
}

impl Ending {
    /// Listens to SIGINT, SIGTERM and SIGHUP, but for those that were ignored when the program began. A second one
    /// ends the program at once; `left` says what that leaves behind.
    pub fn listen(left: String) -> Result<Self, Failure> {
        let mut signals = listen()?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                if std::mem::replace(&mut asked, true) {
                    console::error(&format!("ended at once by a second signal - {left}"));
                    broken_off(signal, Manner::Own);
                }
                console::note(&format!("\n{}: ending; once more to end it at once", name(signal)));
                // Nobody waits for it any more: the program is about to end.
                let _ = sender.send(signal);
            }
        });
        Ok(Self { signals: receiver, came: Cell::new(None) })
    }

    /// How a user ends the work: a shell starts what stands before `&` with SIGINT ignored.
    pub fn how(&self) -> String {
        let ctrl_c = if is_ignored(SIGINT) { "" } else { "Ctrl-C or " };
        format!("{ctrl_c}\"kill {}\" ends it", std::process::id())
    }

    /// Waits until a signal comes, or has come, or for `time`; gives the signal.
    pub fn wait(&self, time: Duration) -> Option<i32> {
        if self.came.get().is_none() {
            self.came.set(self.signals.recv_timeout(time).ok());
        }
        self.came.get()
    }

    /// The signal that came, if one did.
    pub fn came(&self) -> Option<i32> {
        self.wait(Duration::ZERO)
    }

    /// The exit code of work that a signal ended early.
    pub fn exit_code() -> ExitCode {
        ExitCode::from(BROKEN_OFF as u8)
    }
}

/// Catches the signals that were not ignored when the program began.
fn listen() -> Result<Signals, Failure> {
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    Signals::new(heard).map_err(|error| {
        let advice = sys::remedy(&error, "look at the kernel log (dmesg) for the reason");
        Failure::environment(format!("cannot listen for signals - {error} - {advice}"))
    })
}

/// The end of a program that a signal broke off.
fn broken_off(signal: i32, manner: Manner) -> ! {
    match manner {
        Manner::Own => leave::now(BROKEN_OFF),
        Manner::Act | Manner::Fio => leave::by_signal(signal),
    }
}

/// Lets a write beyond the limit of the size of a file (`ulimit -f`) fail with an error that can be told.
/// Without this the signal ends the program, and a run leaves no word of why.
pub fn outlive_file_size_limit() {
    // A flag that nobody reads: that there is a handler is enough. If there can be none, nothing is lost.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// True if this process ignores `signal`: signal n is bit n - 1. Source: proc_pid_status(5), `SigIgn`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

pub fn name(signal: i32) -> String {
    match signal {
        SIGINT => "SIGINT".to_owned(),
        SIGTERM => "SIGTERM".to_owned(),
        SIGHUP => "SIGHUP".to_owned(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_at_the_end_of_a_run_that_has_another_cause_is_not_lost() {
        let switch = Switch::default();
        assert_eq!(switch.was_asked(), None);
        let control = Arc::new(Control::default());
        control.stop(Cause::Enough { why: "steady".to_owned() });
        let armed = switch.arm(vec![control.clone()]);
        assert!(switch.ask(SIGTERM));
        drop(armed);
        assert!(matches!(control.cause(), Some(Cause::Enough { .. })));
        assert_eq!(switch.was_asked(), Some(SIGTERM));
    }

    #[test]
    fn a_signal_while_nothing_is_armed_ends_nothing_here() {
        assert!(!Switch::default().ask(SIGINT));
    }
}
