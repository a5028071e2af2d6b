//! Other processes that have a device open: another program (`sleep`), or a run of this program. For a run of this
//! program, the test binary starts itself with one test, which holds a consent until it is stopped.

use super::bench::Bench;
use super::*;
use std::env;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Variables that give [`helper_process_holds_a_write_consent`] its device and state directory.
const HOLD: [&str; 3] = [
    "FLASHPROOF_TEST_HOLD",
    "FLASHPROOF_TEST_HOLD_STATE",
    "FLASHPROOF_TEST_HOLD_SHARED",
];

/// A process that is killed when this value is dropped.
pub(super) struct Other(pub(super) Child);

impl Other {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another program that has `path` open for writing, as a database would.
pub(super) fn hold_open(path: &str) -> Other {
    stranger(
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap(),
    )
}

pub(super) fn hold_open_to_read(path: &str) -> Other {
    stranger(File::open(path).unwrap())
}

fn stranger(file: File) -> Other {
    Other(
        Command::new("sleep")
            .arg("600")
            .stdin(file)
            .spawn()
            .unwrap(),
    )
}

/// A program that serves the file at `path` as a drive; `None`, with a message, if it is not installed.
pub(super) fn serve(path: &str) -> Option<Other> {
    let socket = format!("{path}.socket");
    let mut command = Command::new("qemu-nbd");
    command
        .args(["--format=raw", "--socket", &socket, path])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        return super::bench::skip("qemu-nbd is not installed");
    };
    let other = Other(child);
    // The process opens the file before it listens.
    let listens = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        std::path::Path::new(&socket).exists()
    });
    if listens {
        Some(other)
    } else {
        super::bench::skip("qemu-nbd does not serve the file")
    }
}

/// Starts another run of this program on the device of `bench`; returns when that run has its consent.
pub(super) fn run_on(bench: &Bench, shared: bool) -> Other {
    let [device, state, how] = HOLD;
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "guard::loop_tests::other_process::helper_process_holds_a_write_consent",
            "--nocapture",
        ])
        .env(device, &bench.device)
        .env(state, bench.path("state"))
        .env(how, if shared { "yes" } else { "no" })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let other = Other(child);
    let ready = lines
        .map_while(Result::ok)
        .any(|line| line.contains("consent is held"));
    assert!(ready, "the other run got no consent");
    other
}

#[test]
fn helper_process_holds_a_write_consent() {
    let [device, state, shared] = HOLD.map(env::var);
    let (Ok(device), Ok(state), Ok(shared)) = (device, state, shared) else {
        return;
    };
    let guard = Guard {
        watch_time: Duration::ZERO,
        ..Guard::new(Some(state.into()))
    };
    let request = WriteRequest {
        shared: shared == "yes",
        ..WriteRequest::new(device, "test")
    };
    let consents = guard
        .consent(&[request], &mut EraseAnswers::default())
        .unwrap();
    println!("consent is held");
    let _ = std::io::stdin().read(&mut [0]);
    drop(consents);
}
