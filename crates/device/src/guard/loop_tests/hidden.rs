//! Users that /proc/PID/fd does not show: a mapping whose descriptor is closed, threads beside an ended main thread,
//! a thread with its own descriptors, a message on a socket, a file behind overlayfs.

use super::bench::{Bench, Undo, skip, succeed};
use super::other_process::Other;
use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::{fs, io};

/// Python program that keeps a file in use without a descriptor in /proc/PID/fd. Arguments: the way of use, and the
/// file. Python's module mmap keeps a descriptor of the file, so the program calls the C library directly.
const HOLDER: &str = r#"
import ctypes, os, platform, socket, sys, threading, time
way, path = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]
CLONE_FILES, PROT_READ, MAP_SHARED = 0x400, 1, 1
held = threading.Event()

def hold_in_thread():
    if way == "own table":
        assert libc.unshare(CLONE_FILES) == 0
    os.open(path, os.O_RDWR)
    held.set()
    time.sleep(600)

if way in ("mapping", "mapping and ended main thread"):
    descriptor = os.open(path, os.O_RDONLY)
    address = libc.mmap(None, 4096, PROT_READ, MAP_SHARED, descriptor, 0)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    os.close(descriptor)
    threading.Thread(target=time.sleep, args=(600,)).start()
elif way == "message":
    pair = socket.socketpair()
    descriptor = os.open(path, os.O_RDWR)
    socket.send_fds(pair[0], [b"x"], [descriptor])
    os.close(descriptor)
else:
    threading.Thread(target=hold_in_thread).start()
    held.wait()
print("held", flush=True)
if way.endswith("ended main thread"):
    libc.syscall(EXIT, 0)
time.sleep(600)
"#;

/// Another process that keeps `path` in use by `way` of [`HOLDER`]; `None`, with a message, without Python.
fn hold(way: &str, path: &str) -> Option<Other> {
    let mut python = Command::new("python3");
    python
        .args(["-c", HOLDER, way, path])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let Ok(mut child) = python.spawn() else {
        return skip("python3 is not installed");
    };
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let other = Other(child);
    assert_eq!(line, "held\n", "{way}");
    let main_thread = format!("/proc/{}/stat", other.pid());
    let is_ended = || fs::read_to_string(&main_thread).unwrap().contains(") Z ");
    while way.ends_with("ended main thread") && !is_ended() {
        thread::sleep(Duration::from_millis(1));
    }
    Some(other)
}

#[test]
fn a_use_that_proc_pid_fd_does_not_show_is_found() {
    let Some(bench) = Bench::new(&[]) else { return };
    for way in [
        "mapping",
        "mapping and ended main thread",
        "ended main thread",
        "own table",
    ] {
        let Some(other) = hold(way, &bench.device) else {
            return;
        };
        let shown = fs::read_dir(format!("/proc/{}/fd", other.pid()))
            .unwrap()
            .flatten();
        let mut shown = shown.filter_map(|entry| fs::read_link(entry.path()).ok());
        assert!(
            shown.all(|path| path.to_str() != Some(&bench.device)),
            "{way}: /proc/PID/fd shows the device"
        );
        let text = bench.refusal();
        assert!(
            text.contains(&format!("it is open in process {} (python3", other.pid())),
            "{way}: {text}"
        );
        drop(other);
        assert!(bench.consent(&bench.request()).is_ok(), "{way}");
    }
}

#[test]
fn a_mapping_of_a_device_through_a_node_outside_dev_is_found() {
    let Some(bench) = Bench::new(&["--partscan"]) else {
        return;
    };
    let Some((name, node, _part)) = bench.with_partition() else {
        return;
    };
    let Some(other) = hold("mapping", &node) else {
        return;
    };
    bench.assert_refused(&format!(
        "its partition /dev/{name} is open in process {}",
        other.pid()
    ));
}

fn of_file(path: &str, state: &str) -> (Guard, WriteRequest) {
    let guard = Guard {
        settle: Duration::from_millis(100),
        ..Guard::new(Some(state.into()))
    };
    (
        guard,
        WriteRequest {
            file_size_bytes: Some(1 << 20),
            ..WriteRequest::new(path, "test")
        },
    )
}

#[test]
fn a_file_is_refused_while_its_descriptor_is_in_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file").to_str().unwrap().to_owned();
    let state = dir.path().join("state").to_str().unwrap().to_owned();
    fs::write(&path, [0; 4096]).unwrap();
    let (guard, request) = of_file(&path, &state);
    let consent = || guard.consent(std::slice::from_ref(&request), &mut EraseAnswers::default());
    let Some(other) = hold("message", &path) else {
        return;
    };
    let text = consent().unwrap_err().to_string();
    assert!(
        text.contains("an unknown program or driver has it open for writing"),
        "{text}"
    );
    drop(other);
    assert!(consent().is_ok());
}

#[test]
fn a_file_that_is_open_through_overlayfs_is_found() -> io::Result<()> {
    let Some(bench) = Bench::new(&[]) else {
        return Ok(());
    };
    // The upper directory of overlayfs needs a file system with extended attributes.
    let Some((base, _unmount)) = bench.mount(&bench.device) else {
        return Ok(());
    };
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(format!("{base}/{name}"))?;
    }
    let file = format!("{base}/lower/file");
    fs::write(&file, [0; 4096])?;
    let options = format!("lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work");
    let merged = format!("{base}/merged");
    let Some(_) = succeed(
        "mount",
        &["-t", "overlay", "overlay", "-o", &options, &merged],
    ) else {
        return Ok(());
    };
    let _unmount_overlay = Undo("umount", vec!["--lazy".into(), merged.clone()]);
    let (guard, request) = of_file(&file, &bench.path("state"));
    let open = other_process::hold_open_to_read(&format!("{merged}/file"));
    let text = guard
        .consent(std::slice::from_ref(&request), &mut EraseAnswers::default())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(&format!("it is open in process {} (sleep)", open.pid())),
        "{text}"
    );
    drop(open);
    assert!(
        guard
            .consent(&[request], &mut EraseAnswers::default())
            .is_ok()
    );
    Ok(())
}
