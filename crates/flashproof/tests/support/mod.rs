//! Fixture of the binary's tests: a bench with its own directory, in which the binary is run as a user would run it.
//! Everything that a test makes (files, loop devices, mounts, processes) is removed when its value is dropped. A test
//! prints which resources are missing here, and continues without them.

#![allow(dead_code, unreachable_pub, unused_imports)] // each test program uses only a part of this

mod cached_drive;
pub mod info_server;
pub mod lab;
mod loop_device;
mod networks;
mod process;
mod server;
mod slurm;
mod throttled;
mod tls_front;

pub use cached_drive::{Attached, CachedDrive};
pub use loop_device::LoopDevice;
pub use networks::Networks;
pub use process::{Ended, Killed, Running};
pub use server::{Answer, ask, delete, info, listening, serve, serve_as, statistic, statistic_of};
pub use slurm::Slurm;
pub use throttled::Throttled;
pub use tls_front::TlsFront;

use results::run_dir::{self, Run};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use tempfile::TempDir;

pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

pub const FLASHPROOF: &str = env!("CARGO_BIN_EXE_flashproof");

/// Names of the configuration and of the run directory that [`Bench::storage`] uses.
pub const CONFIG: &str = "test.conf";
pub const OUT: &str = "run";

pub const MIB: u64 = 1 << 20;

/// No limits: a run of a second is too short for a verdict if a busy machine still has operations in flight at its end.
pub const LAX: [&str; 2] = ["--sla", "100%>3600s"];

/// A directory for one test. Commands run there, so that names are short and messages can be compared whole.
pub struct Bench {
    dir: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        // In memory if possible, because O_DSYNC on a slow disk would make the tests slow.
        let memory = Path::new("/dev/shm");
        Self::at(
            tempfile::tempdir_in(memory)
                .or_else(|_| tempfile::tempdir())
                .unwrap(),
        )
    }

    /// A bench on the disk that the project was built on; `None`, with a message, if that disk is in memory, too.
    pub fn on_disk() -> Option<Self> {
        let dir = env!("CARGO_TARGET_TMPDIR");
        match tool(
            "findmnt",
            &["--noheadings", "--output", "FSTYPE", "--target", dir],
        )?
        .as_str()
        {
            "tmpfs" | "ramfs" => skip(&format!("{dir} is in memory")),
            _ => Some(Self::at(tempfile::tempdir_in(dir).unwrap())),
        }
    }

    fn at(dir: TempDir) -> Self {
        default_signals();
        // Some tests run the binary as another user.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// Creates a file of `mbytes` MiB, with data in every part.
    pub fn write_victim(&self, name: &str, mbytes: usize) {
        self.write(name, b"precious".repeat(mbytes << 17));
    }

    /// Command for `program` in this directory, with its own state directory and without a terminal for questions.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env("FLASHPROOF_STATE", self.path("state"))
            .env_remove("FLASHPROOF_ERASE")
            .env_remove("FLASHPROOF_ONLY")
            .env_remove("FLASHPROOF_METRICS")
            .env_remove("FLASHPROOF_METRICS_FILE")
            .env("PATH", PATH)
            .stdin(Stdio::null());
        command
    }

    /// Command that runs `line` in bash, where flashproof is found by its name.
    pub fn shell(&self, line: &str) -> Command {
        let mut command = self.command("bash");
        let ours = Path::new(FLASHPROOF).parent().unwrap().display();
        command
            .args(["-c", line])
            .env("PATH", format!("{ours}:{PATH}"));
        command
    }

    pub fn link_examples(&self) {
        symlink(project().join("examples"), self.path("examples")).unwrap();
    }

    /// `flashproof ARGUMENTS`, not yet started.
    pub fn prepare<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = self.command(FLASHPROOF);
        command.args(arguments);
        command
    }

    /// Runs `flashproof ARGUMENTS` to its end.
    pub fn flashproof<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Ended {
        Running::start(self.prepare(arguments)).end()
    }

    /// Runs `flashproof fio` with the options of `line`, which request JSON. Returns the jobs.
    pub fn fio_jobs(&self, line: &str, code: i32) -> (Vec<Value>, Ended) {
        let ended = self
            .line(&format!("fio {line} --output-format=json"))
            .expect(code);
        (ended.json()["jobs"].as_array().unwrap().clone(), ended)
    }

    /// Runs a storage test with the configuration `config` into [`OUT`].
    pub fn storage(&self, config: &str, more: &[&str]) -> Ended {
        self.start(config, more).end()
    }

    /// Starts the test that [`Self::storage`] runs.
    pub fn start(&self, config: &str, more: &[&str]) -> Running {
        self.start_as(CONFIG, OUT, config, more)
    }

    /// Like [`Self::start`], with other names, so that several tests can run at the same time on this bench.
    pub fn start_as(&self, name: &str, out: &str, config: &str, more: &[&str]) -> Running {
        self.write(name, config);
        Running::start(self.prepare(&[&["storage", name, "--out", out], more].concat()))
    }

    /// The binary under the name of ACT's program.
    pub fn act_storage(&self) -> PathBuf {
        let link = self.path("act_storage");
        symlink(FLASHPROOF, &link).unwrap();
        link
    }

    pub fn run(&self) -> Run {
        run_dir::read(&self.path(OUT)).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn json(&self, name: &str) -> Value {
        self.json_file(&format!("{OUT}/{name}"))
    }
}

/// Makes later programs start with default signal dispositions. Under nohup, or in the background of a script, this
/// process ignores some signals, and child programs would inherit this. execve(2) resets a signal with a handler to its
/// default, so this function installs handlers.
fn default_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM]
            .into_iter()
            .filter(|signal| ignored >> (signal - 1) & 1 == 1)
        {
            // The handler has no effect on this process.
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
    });
}

/// Operations of a stream in [`Run`], over all devices: done, failed, never issued.
pub fn totals(run: &Run, stream: &str) -> (u64, u64, u64) {
    let totals = run
        .verdict
        .streams
        .iter()
        .find(|totals| totals.name == stream);
    let totals =
        totals.unwrap_or_else(|| panic!("no stream {stream} in {:?}", run.verdict.streams));
    (totals.ops, totals.errors, totals.unissued)
}

/// True if tests that take minutes are enabled, as by `make soak`.
pub fn long() -> bool {
    std::env::var_os("FLASHPROOF_LONG").is_some()
}

/// Calls `each` with all `items`, two at a time.
pub fn in_parallel<T: Sync>(items: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(item);
                }
            });
        }
    });
}

/// Prints that a test, or a part of a test, did not run. The test harness does not hide this message.
pub fn skip<T>(why: &str) -> Option<T> {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    let _ = writeln!(io::stderr(), "{test} skipped: {why}");
    None
}

/// Runs a command of the system; `None`, with a message, if the command is missing or fails.
pub fn tool(command: &str, arguments: &[&str]) -> Option<String> {
    let line = format!("{command} {}", arguments.join(" "));
    let output = Command::new(command)
        .args(arguments)
        .env("PATH", PATH)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => skip(&format!(
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
                .trim()
                .replace('\n', " ")
        )),
        Err(error) => skip(&format!("{line}: {error}")),
    }
}

/// Runs a command when dropped, such as `umount`.
pub struct Undo {
    command: &'static str,
    arguments: Vec<String>,
}

impl Undo {
    pub fn with(command: &'static str, arguments: &[&str]) -> Self {
        Self {
            command,
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        tool(self.command, &arguments);
    }
}

/// A small file system in memory, mounted in a directory of the bench; `None` if mount is forbidden.
pub fn small_disk(bench: &Bench, name: &str, kbytes: u32) -> Option<Undo> {
    let at = bench.path(name);
    fs::create_dir(&at).unwrap();
    let at = at.to_str().unwrap();
    tool(
        "mount",
        &["-t", "tmpfs", "-o", &format!("size={kbytes}k"), "tmpfs", at],
    )?;
    Some(Undo::with("umount", &["-l", at]))
}

/// Runs the binary as a user without rights.
pub struct Nobody {
    binary: PathBuf,
}

impl Nobody {
    /// `None`, with a message, if this user cannot become another one.
    pub fn new(bench: &Bench) -> Option<Self> {
        Self::named(bench, "flashproof")
    }

    /// Like [`Self::new`], with the binary called `name`.
    pub fn named(bench: &Bench, name: &str) -> Option<Self> {
        // The build directory may be closed to others.
        let binary = bench.path(name);
        fs::copy(FLASHPROOF, &binary).unwrap();
        let this = Self { binary };
        tool(
            "setpriv",
            &[
                &Self::OPTIONS[..],
                &[this.binary.to_str().unwrap(), "--version"],
            ]
            .concat(),
        )?;
        Some(this)
    }

    const OPTIONS: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

    /// The beginning of a command line that runs the binary.
    pub fn command(&self) -> Vec<&OsStr> {
        let options = Self::OPTIONS.map(OsStr::new);
        [
            &[OsStr::new("setpriv")],
            &options[..],
            &[self.binary.as_os_str()],
        ]
        .concat()
    }

    pub fn flashproof(&self, bench: &Bench, arguments: &[&str]) -> Ended {
        let line = self.command();
        let mut command = bench.command(line[0]);
        command.args(&line[1..]).args(arguments);
        Running::start(command).end()
    }
}

/// Arguments of a command line, separated by blanks.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

impl Bench {
    /// Runs `flashproof LINE` to its end. Blanks separate the arguments.
    pub fn line(&self, line: &str) -> Ended {
        self.flashproof(&words(line))
    }

    pub fn program(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Ended {
        let mut command = self.command(program);
        command.args(arguments);
        Running::start(command).end()
    }

    pub fn json_file(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
