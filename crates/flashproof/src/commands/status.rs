//! `flashproof report status`: shows the progress of runs and series, from another terminal.

use crate::args::StatusArgs;
use report::status::Status;
use results::run_dir::RunDirError;
use results::units::printable;
use session::console;
use session::failure::Failure;
use session::screen::columns;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Refresh interval of a watched status.
const RENEW: Duration = Duration::from_secs(1);

/// Reading may take at most 1/50 of the time: the host is under test, and a day's tables are long.
const READING_PART: u32 = 50;

/// Shows the progress of the runs or series, once or until they end.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut read = Vec::new();
    watch(args.watch, args.json, || {
        read = args.dirs.iter().map(|dir| Status::read(dir, SystemTime::now(), &session::look)).collect();
        let mut texts = Vec::new();
        for status in read.iter().flatten() {
            texts.push(text(status, args).map_err(Failure::environment)?);
        }
        let page = texts.join(if args.json { "" } else { "\n" });
        Ok((page, read.iter().flatten().all(Status::is_over)))
    })?;
    end(&read)
}

/// Prints the page of `read` once, or again and again until `read` says that all is over or nobody reads it.
pub(super) fn watch(
    again: bool,
    json: bool,
    mut read: impl FnMut() -> Result<(String, bool), Failure>,
) -> Result<(), Failure> {
    let mut drawn_lines = 0;
    loop {
        let began = Instant::now();
        let (page, is_over) = read()?;
        let shown = if again && !json && io::stdout().is_terminal() {
            let (drawing, lines) = drawing(&printable(&page), drawn_lines);
            drawn_lines = lines;
            console::drawing_if_read(&drawing)?
        } else {
            console::result_if_read(&page)?
        };
        if !again || !shown || is_over {
            return Ok(());
        }
        thread::sleep(RENEW.max(began.elapsed() * READING_PART));
    }
}

fn text(status: &Status, args: &StatusArgs) -> serde_json::Result<String> {
    Ok(match (args.json, args.watch) {
        (true, true) => serde_json::to_string(status)? + "\n",
        (true, false) => serde_json::to_string_pretty(status)? + "\n",
        (false, _) => status.to_string(),
    })
}

/// The exit code of the worst status: a failure outweighs an invalid result. An unreadable directory outweighs both.
fn end(read: &[Result<Status, RunDirError>]) -> Result<ExitCode, Failure> {
    let errors: Vec<_> = read.iter().filter_map(|status| status.as_ref().err()).map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(Failure::environment(errors.join("\n")));
    }
    let codes: Vec<u8> = read.iter().flatten().map(Status::exit_code).collect();
    let worst = [1, 4].into_iter().find(|worst| codes.contains(worst));
    Ok(ExitCode::from(worst.unwrap_or(0)))
}

/// `text` drawn over the previous `drawn` lines, cut to the terminal's width, because a wrapped line would be counted
/// as one. Also returns the number of lines.
fn drawing(text: &str, drawn: usize) -> (String, usize) {
    let width = columns(io::stdout());
    let mut drawing = if drawn > 0 { format!("\x1b[{drawn}A\x1b[J") } else { String::new() };
    for line in text.lines() {
        drawing.extend(line.chars().take(width));
        drawing.push('\n');
    }
    (drawing, text.lines().count())
}
