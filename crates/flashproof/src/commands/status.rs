//! `flashproof status`: how a run or a series stands, from another terminal.

use crate::args::StatusArgs;
use crate::console;
use crate::failure::Failure;
use crate::screen::columns;
use device::observe::process::{Alive, is_alive};
use report::status::{Seen, Status};
use results::run_dir::Process;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How often a watched status is renewed.
const RENEW: Duration = Duration::from_secs(1);

/// Reading may take at most this part of the time: the host is under test, and a day's tables are long.
const READING_PART: u32 = 50;

/// Shows how the run or series stands, once or until it ends.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut drawn_lines = 0;
    loop {
        let began = Instant::now();
        let status = Status::read(&args.dir, SystemTime::now(), &look).map_err(Failure::environment)?;
        let text = match (args.json, args.watch) {
            (true, true) => serde_json::to_string(&status).map_err(Failure::environment)? + "\n",
            (true, false) => serde_json::to_string_pretty(&status).map_err(Failure::environment)? + "\n",
            (false, _) => status.to_string(),
        };
        let read = if args.watch && !args.json && io::stdout().is_terminal() {
            let (drawing, lines) = drawing(&text, drawn_lines);
            drawn_lines = lines;
            console::result_if_read(&drawing)?
        } else {
            console::result_if_read(&text)?
        };
        if !args.watch || !read || status.is_over() {
            return Ok(ExitCode::from(status.exit_code()));
        }
        thread::sleep(RENEW.max(began.elapsed() * READING_PART));
    }
}

/// `text` over the `drawn` lines of the time before, cut to the terminal: a line that is broken in two
/// would be counted as one. Gives its lines, too.
fn drawing(text: &str, drawn: usize) -> (String, usize) {
    let width = columns(io::stdout());
    let mut drawing = if drawn > 0 { format!("\x1b[{drawn}A\x1b[J") } else { String::new() };
    for line in text.lines() {
        drawing.extend(line.chars().take(width));
        drawing.push('\n');
    }
    (drawing, text.lines().count())
}

/// What is known here of a process.
fn look(process: &Process) -> Seen {
    match is_alive(process, Path::new("/")) {
        Alive::Running => Seen::Running,
        Alive::Stopped => Seen::Stopped,
        Alive::Gone | Alive::OtherBoot => Seen::Gone,
        Alive::Unknown => Seen::Unknown,
    }
}
