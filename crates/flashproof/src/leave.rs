//! The way out of the program from the middle of a run, where nothing is unwound.

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

/// Ends the program with exit code `code`. What of ours the kernel would keep recording is stopped, and
/// what was said last is on the screen if that takes it.
pub fn now(code: i32) -> ! {
    trace::stop_instances();
    console::flush();
    std::process::exit(code)
}
