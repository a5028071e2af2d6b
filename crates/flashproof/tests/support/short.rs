//! Short forms of what many tests do.

use super::{Bench, Ended, Running};
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Child;

pub const MIB: u64 = 1 << 20;

/// Limits that any working machine holds.
pub const LAX: [&str; 2] = ["--sla", "99%>10s"];

impl Bench {
    /// Runs `program ARGUMENTS` to its end.
    pub fn program(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Ended {
        let mut command = self.command(program);
        command.args(arguments);
        Running::start(command).end()
    }

    /// The JSON file `name`.
    pub fn json_file(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Running {
    /// Waits until the run in `dir` has recorded its first interval.
    pub fn wait_for_interval(&mut self, bench: &Bench, dir: &str) {
        let telemetry = format!("{dir}/telemetry.csv");
        self.wait_until("its first interval", || {
            bench.exists(&telemetry) && bench.text(&telemetry).lines().count() > 1
        });
    }

    /// Ends the process by SIGTERM, as one that shuts down cleanly.
    #[track_caller]
    pub fn terminate(self) {
        self.end_by("TERM").expect(0);
    }
}

impl Ended {
    /// Asserts the exit code, and that standard output contains all `parts`.
    #[track_caller]
    pub fn expect_stdout(self, code: i32, parts: &[&str]) -> Self {
        let ended = self.expect(code);
        ended.shows(parts);
        ended
    }

    /// Asserts the exit code, and that standard error contains all `parts`.
    #[track_caller]
    pub fn expect_stderr(self, code: i32, parts: &[&str]) -> Self {
        let ended = self.expect(code);
        ended.says(parts);
        ended
    }
}

/// A process that is killed when dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
