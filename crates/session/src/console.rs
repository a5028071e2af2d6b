//! Messages to the user. Write errors are ignored: the terminal may be closed.

use crate::failure::Failure;
use crate::screen;
use crate::stderr::StderrWriter;
use results::units::printable;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// Maximum wait at exit for the last messages to be written.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Nothing is written to standard error while a run goes on but through this.
static STDERR: LazyLock<StderrWriter> = LazyLock::new(|| StderrWriter::new(io::stderr()));

/// True if notes are suppressed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out notes from now on; what matters is said nevertheless.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Leaves out notes for as long as `work` takes.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let was = QUIET.swap(true, Ordering::Relaxed);
    let result = work();
    QUIET.store(was, Ordering::Relaxed);
    result
}

/// True if notes are suppressed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// True if somebody follows the work on a terminal. The log of a script has a line for each step instead.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Says something that is not an error, on standard error, unless the user wants it quiet.
pub fn note(text: &str) {
    if !is_quiet() {
        notice(text);
    }
}

/// As [`note`], what a user has to know: what is erased, how to go on after an interruption.
pub fn notice(text: &str) {
    STDERR.say(format!("{}\n", printable(text)));
}

/// Draws on standard error, over what is there; names in `text` must be printable. Of drawings that a
/// terminal does not take as fast as they come, the newest is drawn. The `first` is not left out: others go
/// over it.
pub fn draw(text: String, first: bool) {
    if first { STDERR.say(text) } else { STDERR.draw(text) }
}

/// Waits a moment for what was said to be on the screen.
pub fn flush() {
    STDERR.flush(LAST_PATIENCE);
}

/// Says what may spoil the result, one line for each line of `text`.
pub fn warning(text: &str) {
    prefixed("warning", text);
}

/// As [`warning`], unless it was said already: what each run of several would say alike.
pub fn warning_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned()) {
        warning(text);
    }
}

/// Says why the work was not done, one line for each line of `text`.
pub fn error(text: &str) {
    prefixed("error", text);
}

fn prefixed(what: &str, text: &str) {
    for line in text.lines() {
        notice(&format!("{what}: {line}"));
    }
}

/// The result, on standard output. A reader or a terminal that went away has read enough; any other
/// error means that the result is not where it was wanted.
pub fn result(text: &str) -> Result<(), Failure> {
    result_if_read(text).map(|_| ())
}

/// As [`result`], of a page for people: on a terminal it fits, and outcomes have a colour.
pub fn page(text: &str) -> Result<(), Failure> {
    let mut page = printable(text).into_owned();
    if io::stdout().is_terminal() {
        page = screen::laid_out(&page, screen::columns(io::stdout()));
    }
    if has_colour() {
        page = screen::coloured(&page);
    }
    drawing_if_read(&page).map(|_| ())
}

/// True if standard output shows colours: a terminal, and NO_COLOR (<https://no-color.org>) is empty.
pub fn has_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// As [`result`]; tells whether somebody still reads.
pub fn result_if_read(text: &str) -> Result<bool, Failure> {
    drawing_if_read(&printable(text))
}

/// As [`result_if_read`], of a text that moves the cursor; names in it must be printable.
pub fn drawing_if_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if !is_gone(&error, &out) => Err(Failure::environment(format!(
            "cannot write the result to standard output - {error} - the work itself is done, and what it recorded (a run directory, the record of a preparation) has the result"
        ))),
        written => Ok(written.is_ok()),
    }
}

/// True if `error` means that there is no reader any more: a closed pipe, or a terminal that is gone, which answers
/// with EIO. For a file EIO means a failing disk.
fn is_gone(error: &io::Error, out: &impl AsFd) -> bool {
    match error.raw_os_error() {
        Some(libc::EPIPE) => true,
        Some(libc::EIO) => is_character_device(out),
        _ => false,
    }
}

/// A terminal that hung up no longer says that it is one; that it is a character device it still does.
fn is_character_device(out: &impl AsFd) -> bool {
    let file = out.as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// Starts the thread that writes to standard error.
pub fn open() {
    LazyLock::force(&STDERR);
}
