//! `flashproof status`: how a run or a series stands, from another terminal.

use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::say;
use device::observe::process::{Alive, is_alive};
use measure::run_dir::Process;
use report::status::{Seen, Status};
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
        let redraw = args.watch && !args.json && io::stdout().is_terminal();
        let over_the_last =
            if redraw && drawn_lines > 0 { format!("\x1b[{drawn_lines}A\x1b[J") } else { String::new() };
        drawn_lines = text.lines().count();
        say::result(&format!("{over_the_last}{text}"))?;
        if !args.watch || status.is_over() {
            return Ok(ExitCode::from(status.exit_code()));
        }
        thread::sleep(RENEW.max(began.elapsed() * READING_PART));
    }
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
