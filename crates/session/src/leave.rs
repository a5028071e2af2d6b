//! Exits from the middle of a run without unwinding: on signals and on bugs.

use crate::console;
use device::observe::trace;
use std::backtrace::{Backtrace, BacktraceStatus};

/// Exit code of a bug: EX_SOFTWARE of sysexits.h.
const BUG: i32 = 70;

/// Ends the program by the default action of `signal`, as ACT's programs end: the parent sees that signal, and a
/// shell returns 128 + its number.
pub fn by_signal(signal: i32) -> ! {
    trace::stop_instances();
    console::flush();
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // Fallback if the signal did not end the program.
    std::process::exit(128 + signal)
}

/// Exits with code `code`. Stops kernel traces of this process, and flushes pending messages if the screen accepts
/// them.
pub fn now(code: i32) -> ! {
    trace::stop_instances();
    console::flush();
    std::process::exit(code)
}

/// Makes a panic exit with code 70 and one line that calls it a bug; with a backtrace if RUST_BACKTRACE is set.
pub fn tame_panics() {
    // Started early, at normal priority, so that it works when memory is short.
    console::open();
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let payload = info.payload();
        let why = payload.downcast_ref::<&str>().copied();
        let why = why.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
        console::error(&format!(
            "this is a bug in flashproof{place}: {} - what was recorded before can be read with \"flashproof report DIR\"; please report the bug",
            why.lines().next().unwrap_or_default()
        ));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            console::notice(&trace.to_string());
        }
        now(BUG);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[ignore = "ends the process: it is started by the test below"]
    fn a_bug() {
        tame_panics();
        panic!("two and two are five");
    }

    #[test]
    fn a_bug_is_called_one_with_its_own_exit_code_and_a_backtrace_on_request() {
        let ended = |backtrace: &str| {
            let mut program = Command::new(std::env::current_exe().unwrap());
            program.args(["--ignored", "--exact", "leave::tests::a_bug", "--nocapture"]);
            let output = program.env("RUST_BACKTRACE", backtrace).output().unwrap();
            assert_eq!(output.status.code(), Some(BUG));
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let plain = ended("0");
        assert!(plain.contains("this is a bug in flashproof") && plain.contains("two and two are five"), "{plain}");
        assert!(!plain.contains("panic_fmt") && ended("1").contains("panic_fmt"));
    }
}
