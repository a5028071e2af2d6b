//! Signals: the first ends the work cleanly, the second at once. SIGHUP ends no run. This module also exits the
//! process, without unwinding, after signals and panics.

use crate::failure::Failure;
use crate::{CompatMode, console};
use device::observe::trace;
use load::run::{Control, EndCause};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Exit code of an interrupted run, which is invalid.
const BROKEN_OFF: i32 = 4;

/// Two SIGTERM within this time are one request: a batch scheduler signals every process of a job, and the parent of
/// a process passes the signal on.
const ECHO: Duration = Duration::from_secs(2);

/// Distinguishes the first signal, its echo, and a second signal.
#[derive(Default)]
struct Received(Option<(i32, Instant)>);

impl Received {
    /// Registers a signal. True for the first signal, false for a second one, `None` for an echo.
    fn is_first(&mut self, signal: i32) -> Option<bool> {
        match self.0 {
            None => {
                self.0 = Some((signal, Instant::now()));
                Some(true)
            }
            Some((SIGTERM, at)) if signal == SIGTERM && at.elapsed() < ECHO => None,
            Some(_) => Some(false),
        }
    }
}

/// Printed after SIGHUP. Visible only if standard error is not the lost terminal.
const HUNG_UP: &str = "the terminal is gone; the work continues without it (flashproof report status DIR shows the progress)";

/// Ends the armed runs on a signal. Installed once per command, for all of its runs.
#[derive(Clone, Default)]
pub struct SignalHandler {
    armed: Arc<Mutex<Vec<Arc<Control>>>>,
    /// The first signal; 0: none yet.
    received_signal: Arc<AtomicI32>,
}

/// A guard: while this value lives, a signal ends the runs.
pub struct Armed(SignalHandler);

impl SignalHandler {
    /// Handles SIGINT and SIGTERM. A signal ignored at program start stays ignored, as nohup and a shell's `&`
    /// intend. `abort_note`: the state after a second signal, for the message.
    ///
    /// SIGHUP means that the terminal is gone, and ends nothing: the results of a day's run are in its run directory,
    /// and `flashproof report status` shows its progress. A pending question gets an end of file from the terminal.
    ///
    /// `compat_mode`: with ACT's and fio's behaviour the program is killed by the signal's default action.
    pub fn install(abort_note: &'static str, compat_mode: CompatMode) -> Result<Self, Failure> {
        let handler = Self::default();
        let listening = handler.clone();
        handle_signals(abort_note.to_owned(), compat_mode, true, move |signal| {
            if !listening.stop_runs(signal) {
                // Nothing runs: a question waits for its answer, or a run is being set up.
                console::notice(&format!(
                    "\n{}: ended before a run began - repeat the command to start or resume the work",
                    name(signal)
                ));
                exit_interrupted(signal, compat_mode);
            }
            console::note(&format!(
                "\n{}: ending the run; a second signal ends it at once",
                name(signal)
            ));
        })?;
        Ok(handler)
    }

    /// Makes the next signal end the runs of `controls`. If nothing is armed, a signal ends the program.
    pub fn arm(&self, controls: Vec<Arc<Control>>) -> Armed {
        *self.lock() = controls;
        Armed(self.clone())
    }

    /// The first signal received, if any. Check this before the next run: if a signal arrives while a completed run is
    /// being recorded, that run's record does not mention the signal.
    pub fn signal_received(&self) -> Option<i32> {
        Some(self.received_signal.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// Stops the armed runs; false if there are none.
    fn stop_runs(&self, signal: i32) -> bool {
        self.received_signal.store(signal, Ordering::Release);
        let controls = self.lock();
        controls
            .iter()
            .for_each(|control| control.stop(EndCause::Requested { signal }));
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

/// Signals that end a command that must restore something. Includes SIGHUP: without a terminal nobody could end it.
pub struct EndSignals {
    signals: Receiver<i32>,
    first_signal: Cell<Option<i32>>,
}

impl EndSignals {
    /// Handles SIGINT, SIGTERM and SIGHUP, except those ignored at program start. A second signal ends the program at
    /// once. `abort_note`: the state after a second signal, for the message.
    pub fn listen(abort_note: String) -> Result<Self, Failure> {
        let (sender, signals) = mpsc::channel();
        handle_signals(abort_note, CompatMode::Native, false, move |signal| {
            console::note(&format!(
                "\n{}: ending the work; a second signal ends it at once",
                name(signal)
            ));
            // Send errors are ignored: without a receiver the program is about to end.
            let _ = sender.send(signal);
        })?;
        Ok(Self {
            signals,
            first_signal: Cell::new(None),
        })
    }

    /// Text that tells how to end the work. With `&` a shell starts commands with SIGINT ignored.
    pub fn stop_hint(&self) -> String {
        let ctrl_c = if is_ignored(SIGINT) { "" } else { "Ctrl-C or " };
        format!("{ctrl_c}\"kill {}\" ends it", std::process::id())
    }

    /// Waits up to `time` for a signal. Returns this signal, or a signal that was received earlier.
    pub fn wait(&self, time: Duration) -> Option<i32> {
        if self.first_signal.get().is_none() {
            self.first_signal.set(self.signals.recv_timeout(time).ok());
        }
        self.first_signal.get()
    }

    pub fn received(&self) -> Option<i32> {
        self.wait(Duration::ZERO)
    }

    /// Exit code of work ended early by a signal.
    pub fn exit_code() -> ExitCode {
        ExitCode::from(BROKEN_OFF as u8)
    }
}

/// Calls `on_first_signal` on the first signal not ignored at program start. A second signal ends the program as
/// `compat_mode` requires. `abort_note`: the state after a second signal, for the message. `outlives_terminal`: SIGHUP
/// only causes a note.
fn handle_signals(
    abort_note: String,
    compat_mode: CompatMode,
    outlives_terminal: bool,
    on_first_signal: impl Fn(i32) + Send + 'static,
) -> Result<(), Failure> {
    let handled_signals = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(handled_signals).map_err(|error| {
        let advice = sys::remedy(&error, "look at the kernel log (dmesg) for the reason");
        Failure::environment(format!("cannot listen for signals - {error} - {advice}"))
    })?;
    thread::spawn(move || {
        let mut received = Received::default();
        for signal in signals.forever() {
            if signal == SIGHUP && outlives_terminal {
                console::note(&format!("\n{HUNG_UP}"));
                continue;
            }
            match received.is_first(signal) {
                Some(true) => on_first_signal(signal),
                Some(false) => {
                    console::error(&format!("ended at once by a second signal - {abort_note}"));
                    exit_interrupted(signal, compat_mode);
                }
                None => {}
            }
        }
    });
    Ok(())
}

fn exit_interrupted(signal: i32, compat_mode: CompatMode) -> ! {
    match compat_mode {
        CompatMode::Native => exit(BROKEN_OFF),
        CompatMode::Act | CompatMode::Fio => end_by_signal(signal),
    }
}

/// Makes writes beyond `ulimit -f` fail with an error. By default SIGXFSZ kills the program, and no reason is recorded.
pub fn outlive_file_size_limit() {
    // The flag is unused: a handler is enough. If the handler cannot be installed, nothing changes.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// True if this process ignores `signal`: signal n is bit n - 1. Source: proc_pid_status(5), `SigIgn`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

pub fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Exit code of a bug: EX_SOFTWARE of sysexits.h.
const BUG: i32 = 70;

/// Ends the program by the default action of `signal`, as ACT's programs end: the parent process sees this signal, and
/// a shell returns 128 + the signal's number.
pub fn end_by_signal(signal: i32) -> ! {
    trace::stop_instances();
    console::flush();
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // Fallback if the signal did not end the program.
    std::process::exit(128 + signal)
}

/// Stops kernel traces of this process, flushes pending messages if the screen accepts them, and exits.
pub fn exit(code: i32) -> ! {
    trace::stop_instances();
    console::flush();
    std::process::exit(code)
}

/// Makes a panic print one line that calls it a bug, and exit with code 70; with RUST_BACKTRACE, also a backtrace.
pub fn report_panics_as_bugs() {
    // Starts the thread for standard error early, at normal priority, so that it works when memory is short.
    console::open();
    std::panic::set_hook(Box::new(|info| {
        let source_position = info
            .location()
            .map(|at| format!(" at {}:{}", at.file(), at.line()))
            .unwrap_or_default();
        let payload = info.payload();
        let static_message = payload.downcast_ref::<&str>().copied();
        let panic_message = static_message
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no reason given");
        console::error(&format!(
            "this is a bug in flashproof{source_position}: {} - \"flashproof report DIR\" shows the data recorded until then; please report the bug",
            panic_message.lines().next().unwrap_or_default()
        ));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            console::notice(&backtrace.to_string());
        }
        exit(BUG);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;
    use std::process::Command;

    #[test]
    fn a_signal_to_a_run_that_already_ended_is_remembered() {
        let switch = SignalHandler::default();
        assert_eq!(switch.signal_received(), None);
        let control = Arc::new(Control::default());
        control.stop(EndCause::Enough {
            reason: "steady".to_owned(),
        });
        let armed = switch.arm(vec![control.clone()]);
        assert!(switch.stop_runs(SIGTERM));
        drop(armed);
        assert!(matches!(control.cause(), Some(EndCause::Enough { .. })));
        assert_eq!(switch.signal_received(), Some(SIGTERM));
    }

    #[test]
    fn a_repeated_sigterm_within_two_seconds_is_no_second_signal() {
        let mut received = Received::default();
        let told = [SIGTERM, SIGTERM, SIGINT, SIGTERM].map(|signal| received.is_first(signal));
        assert_eq!(told, [Some(true), None, Some(false), None]);
        received.0 = Some((SIGTERM, Instant::now() - ECHO));
        assert_eq!(received.is_first(SIGTERM), Some(false));
        let mut ctrl_c = Received::default();
        assert_eq!(
            [SIGINT, SIGINT].map(|signal| ctrl_c.is_first(signal)),
            [Some(true), Some(false)]
        );
    }

    #[test]
    fn a_signal_before_the_first_run_finds_no_run_to_stop() {
        assert!(!SignalHandler::default().stop_runs(SIGINT));
    }

    #[test]
    #[ignore = "ends the process: it is started by the test below"]
    fn helper_process_panics() {
        report_panics_as_bugs();
        panic!("two and two are five");
    }

    #[test]
    fn a_panic_is_reported_as_a_bug_with_exit_code_70() {
        let ended = |backtrace: &str| {
            let mut program = Command::new(std::env::current_exe().unwrap());
            program.args([
                "--ignored",
                "--exact",
                "signals::tests::helper_process_panics",
                "--nocapture",
            ]);
            let output = program.env("RUST_BACKTRACE", backtrace).output().unwrap();
            assert_eq!(output.status.code(), Some(BUG));
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let plain = ended("0");
        assert_contains!(plain, "this is a bug in flashproof", "two and two are five");
        assert!(!plain.contains("panic_fmt") && ended("1").contains("panic_fmt"));
    }
}
