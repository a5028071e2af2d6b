//! Messages to the user, and lines and pages that fit the terminal. Write errors are ignored: the terminal may be
//! closed.

use crate::failure::Failure;
use crate::stderr::StderrWriter;
pub use results::format::shell_quoted;
use results::format::{printable, wrapped};
use results::judge::Outcome;
use rustix::fs::{FileType, fstat};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// The only writer to standard error during a run.
static STDERR: LazyLock<StderrWriter> = LazyLock::new(|| StderrWriter::new(io::stderr()));

static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes from now on; notices, warnings and errors still appear.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let was_quiet = QUIET.swap(true, Ordering::Relaxed);
    let result = work();
    QUIET.store(was_quiet, Ordering::Relaxed);
    result
}

pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// True if standard error is a terminal. Otherwise, as in the log of a script, each step of a series prints one line.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Prints a note on standard error, unless notes are suppressed.
pub fn note(text: &str) {
    if !is_quiet() {
        notice(text);
    }
}

/// Prints a note that is never suppressed: what is erased, how to resume after an interruption.
pub fn notice(text: &str) {
    let mut text = format!("{}\n", printable(text));
    if stderr_is_terminal() {
        text = laid_out(&text, columns(io::stderr()));
    }
    STDERR.print_text(text);
}

/// Draws on standard error, over the previous drawing; names in `text` must be printable. On a slow terminal only the
/// newest drawing is written. A first drawing (`is_first`) is always written, because later drawings overwrite it.
pub fn draw(text: String, is_first: bool) {
    if is_first {
        STDERR.print_text(text)
    } else {
        STDERR.draw(text)
    }
}

/// Waits up to a second for pending text to be written.
pub fn flush() {
    STDERR.flush(LAST_PATIENCE);
}

/// Warns of something that may spoil the result, one line for each line of `text`.
pub fn warning(text: &str) {
    prefixed("warning", text);
}

/// Like [`warning`], but prints the same text only once per process, because several runs may repeat a warning.
pub fn warning_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(text.to_owned())
    {
        warning(text);
    }
}

/// Prints why the work failed, one line for each line of `text`.
pub fn error(text: &str) {
    prefixed("error", text);
}

fn prefixed(prefix: &str, text: &str) {
    for line in text.lines() {
        notice(&format!("{prefix}: {line}"));
    }
}

/// Prints the result on standard output. A closed pipe or terminal is no error: the reader has read enough. Any other
/// write error means that the result is lost.
pub fn result(text: &str) -> Result<(), Failure> {
    result_if_read(text).map(|_| ())
}

/// [`result`] for people: on a terminal, lines are wrapped and outcomes have a colour.
pub fn page(text: &str) -> Result<(), Failure> {
    let mut page = printable(text).into_owned();
    if io::stdout().is_terminal() {
        page = laid_out(&page, columns(io::stdout()));
    }
    if has_colour() {
        page = coloured(&page);
    }
    drawing_if_read(&page).map(|_| ())
}

/// True if standard output shows colours: a terminal, and NO_COLOR (<https://no-color.org>) is empty.
pub fn has_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Like [`result`], but returns false if the reader is gone.
pub fn result_if_read(text: &str) -> Result<bool, Failure> {
    drawing_if_read(&printable(text))
}

/// Like [`result_if_read`], for text with cursor movements; names in `text` must be printable.
pub fn drawing_if_read(text: &str) -> Result<bool, Failure> {
    let mut output = io::stdout();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if !is_gone(&error, &output) => Err(Failure::environment(format!(
            "cannot write the result to standard output - {error} - the work itself is done: the run directory, or the record of the preparation, has the result"
        ))),
        written => Ok(written.is_ok()),
    }
}

/// True if `error` means that the reader is gone: a closed pipe, or a closed terminal, which returns EIO. For a file,
/// EIO means a failing disk. After a hang-up isatty(3) is false, but the terminal is still a character device.
fn is_gone(error: &io::Error, output: &impl AsFd) -> bool {
    match error.raw_os_error() {
        Some(libc::EPIPE) => true,
        Some(libc::EIO) => {
            fstat(output).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device())
        }
        _ => false,
    }
}

pub fn open() {
    LazyLock::force(&STDERR);
}

/// Columns of a terminal of unknown width: termcap's default.
const COLUMNS: usize = 80;

/// Columns that a line on `terminal` may currently have without wrapping.
pub fn columns(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    // On some terminals a line of the full width moves the cursor to the next line.
    columns.unwrap_or(COLUMNS) - 1
}

/// The parts that fit into `columns`, joined by two blanks, in order. The parts with the lowest weight are left out
/// first; a line that is still too long is cut.
pub fn fitted(parts: &[(u8, String)], columns: usize) -> String {
    let mut shown: Vec<&(u8, String)> = parts.iter().filter(|(_, text)| !text.is_empty()).collect();
    let mut width: usize = shown.iter().map(|(_, text)| text.chars().count() + 2).sum();
    while shown.len() > 1 && width > columns + 2 {
        let lightest = shown.iter().map(|(weight, _)| *weight).min();
        let index = shown
            .iter()
            .rposition(|(weight, _)| Some(*weight) == lightest);
        let (_, removed) = shown.remove(index.unwrap_or(0));
        width -= removed.chars().count() + 2;
    }
    let line = shown
        .iter()
        .map(|(_, text)| text.as_str())
        .collect::<Vec<_>>()
        .join("  ");
    line.chars().take(columns).collect()
}

/// Wraps a page for a terminal. A sentence wider than `columns` continues below its beginning, also in the last
/// column of a table. Other lines are unchanged, and so are next steps with a command: a user pastes the command whole.
pub fn laid_out(page: &str, columns: usize) -> String {
    page.lines()
        .map(|line: &str| {
            let indented = line.len() - line.trim_start().len();
            let (head, tail) = line.split_at(line.rfind("  ").map_or(indented, |at| at + 2));
            let width = head.chars().count();
            let is_step = line.starts_with("Do: ") || line.starts_with("Next: ");
            if line.chars().count() <= columns
                || is_step && line.contains("flashproof ")
                || !tail.contains(' ')
                || width > columns * 2 / 3
            {
                return format!("{line}\n");
            }
            let below = wrapped(tail, &" ".repeat(width), columns);
            format!("{head}{}", &below[width..])
        })
        .collect()
}

const OUTCOME_COLOURS: [(Outcome, u8); 4] = [
    (Outcome::Pass, 32),
    (Outcome::Measured, 32),
    (Outcome::Fail, 31),
    (Outcome::Invalid, 33),
];

/// Adds colour escape sequences to the outcomes in `page`.
pub fn coloured(page: &str) -> String {
    page.split_inclusive(|c: char| !c.is_alphanumeric())
        .map(coloured_word)
        .collect()
}

fn coloured_word(word: &str) -> String {
    let (name, end) = word.split_at(word.trim_end_matches(|c: char| !c.is_alphanumeric()).len());
    let outcome = OUTCOME_COLOURS
        .iter()
        .find(|(outcome, _)| outcome.to_string() == name);
    match outcome {
        Some((_, colour)) => format!("\x1b[1;{colour}m{name}\x1b[0m{end}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_a_quoted_argument_unchanged() {
        for (argument, shown) in [
            (
                "/dev/disk/by-id/nvme-eui.00:1",
                "/dev/disk/by-id/nvme-eui.00:1",
            ),
            (
                "sim:capacity=1GiB+bad=512MiB-513MiB",
                "sim:capacity=1GiB+bad=512MiB-513MiB",
            ),
            ("my disk", "'my disk'"),
            ("$HOME;it's", r"'$HOME;it'\''s'"),
            ("~/image", "'~/image'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quoted(argument), shown);
        }
    }

    #[test]
    fn long_lines_wrap_and_outcomes_have_a_colour() {
        let page = "  at least 0.1 % of reads took over 64 ms\nstage 1  ended by a signal\n    1     14.04   13.34\n";
        let narrow = "  at least 0.1 % of\n  reads took over 64\n  ms\nstage 1  ended by a\n         signal\n    1     14.04   13.34\n";
        assert_eq!(laid_out(page, 20).as_str(), narrow);
        assert_eq!(laid_out(page, 80).as_str(), page);
        let command = "Do: flashproof rate /dev/nvme0n1\n";
        assert_eq!(laid_out(command, 20), command);
        assert_eq!(
            laid_out("Do: choose another drive\n", 20),
            "Do: choose another\ndrive\n"
        );
        assert_eq!(
            coloured("FAIL (a)\nBYPASS PASS: it"),
            "\x1b[1;31mFAIL\x1b[0m (a)\nBYPASS \x1b[1;32mPASS\x1b[0m: it"
        );
    }

    #[test]
    fn a_narrow_terminal_drops_the_least_important_parts_first() {
        let parts = [
            (9, "00:00:02"),
            (5, "4 ops/s"),
            (1, ""),
            (2, "lag 1 ms"),
            (8, "00:59:58 left"),
        ];
        let parts = parts.map(|(weight, text)| (weight, text.to_owned()));
        let found = fitted(&parts, 80);
        assert_eq!(found, "00:00:02  4 ops/s  lag 1 ms  00:59:58 left");
        let found = fitted(&parts, 42);
        assert_eq!(found, "00:00:02  4 ops/s  lag 1 ms  00:59:58 left");
        assert_eq!(fitted(&parts, 41), "00:00:02  4 ops/s  00:59:58 left");
        assert_eq!(fitted(&parts, 31), "00:00:02  00:59:58 left");
        assert_eq!(fitted(&parts, 22), "00:00:02");
        assert_eq!(fitted(&parts, 5), "00:00");
    }
}
