//! A process of the binary: started, watched, signalled, ended. All waits have a timeout.

use super::{Bench, tool};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(10);

/// A running process, killed when dropped.
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    /// Starts `command`. Its output goes to files, so that the program never waits for a reader.
    pub fn start(mut command: Command) -> Self {
        let stdout = tempfile::tempfile().unwrap();
        let stderr = tempfile::tempfile().unwrap();
        command
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap());
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self {
            child,
            stdout,
            stderr,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Output on stderr so far.
    pub fn said(&self) -> String {
        text(&self.stderr.try_clone().unwrap())
    }

    /// Writes a line to the standard input of the process, which must be a pipe.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("standard input is a pipe");
        writeln!(stdin, "{line}")
            .unwrap_or_else(|error| panic!("{line}: {error}\n{}", text(&self.stderr)));
    }

    /// Sends a signal by its name (`INT`).
    pub fn signal(&self, name: &str) {
        // The shell's builtin, because the program kill is not installed everywhere.
        tool("sh", &["-c", &format!("kill -{name} {}", self.pid())]).expect("the process is there");
    }

    /// Waits until `is_so`; fails if the process ends before. `what` names the condition in messages.
    pub fn wait_until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            let ended = self.child.try_wait().unwrap();
            let timed_out = started.elapsed() > PATIENCE;
            assert!(
                ended.is_none() && !timed_out,
                "not until {what}; it ended: {ended:?}\n{}",
                text(&self.stderr)
            );
            thread::sleep(POLL);
        }
    }

    pub fn wait_to_hear(&mut self, words: &str) {
        let stderr = self.stderr.try_clone().unwrap();
        self.wait_until(words, || text(&stderr).contains(words));
    }

    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    pub fn end_within(mut self, patience: Duration) -> Ended {
        let started = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if started.elapsed() > patience => {
                    panic!("it does not end\n{}", text(&self.stderr))
                }
                None => thread::sleep(POLL),
            }
        };
        Ended {
            code: status.code(),
            signal: status.signal(),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Contents of a file, read without moving the offset of its writer.
fn text(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Debug)]
pub struct Ended {
    /// Exit code, unless a signal ended the process.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The lines on standard error that begin with `error: `, without this prefix.
    pub fn errors(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter_map(|line| line.strip_prefix("error: "))
            .collect()
    }

    /// The lines on standard error that begin with `warning: `, without this prefix.
    pub fn warnings(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter_map(|line| line.strip_prefix("warning: "))
            .collect()
    }

    /// Asserts the exit code, and shows both outputs if it differs.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "signal {:?}\n{}\n{}",
            self.signal,
            self.stdout,
            self.stderr
        );
        assert!(!self.stderr.contains("this is a bug"), "{}", self.stderr);
        self
    }

    /// Asserts any verdict (exit code 0, 1 or 4), for tests that must not depend on the speed of a device or machine.
    #[track_caller]
    pub fn expect_judged(self) -> Self {
        let code = self.code.filter(|code| [1, 4].contains(code)).unwrap_or(0);
        self.expect(code)
    }

    /// Asserts the exit code, exactly these error lines, and no standard output.
    #[track_caller]
    pub fn expect_errors<T: AsRef<str>>(self, code: i32, errors: &[T]) -> Self {
        let ended = self.expect(code);
        let expected: Vec<&str> = errors.iter().map(AsRef::as_ref).collect();
        assert_eq!(ended.errors(), expected);
        assert_eq!(ended.stdout, "", "nothing on standard output");
        ended
    }

    /// Like [`Self::expect_errors`], with one line that contains all `parts`.
    #[track_caller]
    pub fn expect_error(self, code: i32, parts: &[&str]) -> Self {
        let ended = self.expect(code);
        let errors = ended.errors();
        let [error] = errors[..] else {
            panic!("one line: {}", ended.stderr)
        };
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in `{error}`");
        }
        assert_eq!(ended.stdout, "", "nothing on standard output");
        ended
    }
}

/// Assertions about the two outputs. A failed assertion prints the whole output.
impl Ended {
    /// Asserts that standard output contains all `parts`.
    #[track_caller]
    pub fn shows<T: AsRef<str>>(&self, parts: &[T]) {
        let missing: Vec<&str> = parts
            .iter()
            .map(AsRef::as_ref)
            .filter(|part| !self.stdout.contains(part))
            .collect();
        assert!(
            missing.is_empty(),
            "no {missing:?} on standard output\n{}\n{}",
            self.stdout,
            self.stderr
        );
    }

    /// Asserts that standard error contains all `parts`.
    #[track_caller]
    pub fn says<T: AsRef<str>>(&self, parts: &[T]) {
        let missing: Vec<&str> = parts
            .iter()
            .map(AsRef::as_ref)
            .filter(|part| !self.stderr.contains(part))
            .collect();
        assert!(
            missing.is_empty(),
            "no {missing:?} on standard error\n{}\n{}",
            self.stdout,
            self.stderr
        );
    }

    #[track_caller]
    pub fn expect_stdout(self, code: i32, parts: &[&str]) -> Self {
        let ended = self.expect(code);
        ended.shows(parts);
        ended
    }

    #[track_caller]
    pub fn expect_stderr(self, code: i32, parts: &[&str]) -> Self {
        let ended = self.expect(code);
        ended.says(parts);
        ended
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }
}

impl Running {
    pub fn end_by(self, signal: &str) -> Ended {
        self.signal(signal);
        self.end()
    }

    pub fn wait_for_interval(&mut self, bench: &Bench, dir: &str) {
        let telemetry = format!("{dir}/telemetry.csv");
        self.wait_until("its first interval", || {
            bench.exists(&telemetry) && bench.text(&telemetry).lines().count() > 1
        });
    }

    /// Ends the process by SIGTERM, and asserts a clean shutdown (exit code 0).
    #[track_caller]
    pub fn terminate(self) {
        self.end_by("TERM").expect(0);
    }
}

pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
