//! The way out of the program from the middle of a run, where nothing is unwound; by a bug, too.

use crate::console;
use device::observe::trace;

/// Ends the program as `signal` ends one that does not listen to it, which is what ACT's programs are: who
/// started it sees that signal, and a shell 128 and its number.
pub fn by_signal(signal: i32) -> ! {
    trace::stop_instances();
    console::flush();
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // Should it not have come through.
    std::process::exit(128 + signal)
}

/// Exits with code `code`. Stops kernel traces of this process, and flushes pending messages if the screen accepts
/// them.
pub fn now(code: i32) -> ! {
    trace::stop_instances();
    console::flush();
    std::process::exit(code)
}

/// A bug ends in one line that says so, not in a trace of our insides.
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
        now(3);
    }));
}
