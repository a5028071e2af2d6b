//! Whether a run can be recorded where it is to be: room, and not on the device under test.

use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::DevNum;
use results::units;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sys::open::free_bytes;

const CHECK: &str = "run-directory";
const PLACE: &str = "run-directory-place";

/// A day of one device takes about 100 MB (docs/run-directory.md); a run also asks for its own need.
const ENOUGH_BYTES: u64 = 1 << 30;

/// Less than this does not last an hour with several devices.
const LEAST_BYTES: u64 = 16 << 20;

/// `f_type` of file systems in memory (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;

/// Looks at the file system that `dir` is on, or will be.
pub(super) fn check(dir: &Path, findings: &mut Findings) {
    let place = existing(dir);
    let opened = File::open(&place).and_then(|file| Ok((free_bytes(file.as_fd())?, file)));
    let (free, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let finding = format!("the free space of {} cannot be read ({error})", place.display());
            return findings.unknown(
                CHECK,
                finding,
                "a run that cannot be recorded is no result",
                "name another directory",
            );
        }
    };
    let name = dir.display();
    let free_mib = free >> 20;
    if free < LEAST_BYTES {
        let finding = format!("only {free_mib} MiB are free for {name}");
        findings.problem(
            CHECK,
            finding,
            "the recording ends when the disk is full, and the run with it",
            "free space, or name another directory",
        );
    } else if free < ENOUGH_BYTES {
        let finding = format!("{free_mib} MiB are free for {name}");
        findings.warning(
            CHECK,
            finding,
            "a day takes about 100 MB for each device, more with telemetry",
            "free space, or name another directory",
        );
    } else {
        findings.ok(CHECK, format!("{} are free for {name}", units::bytes(free as f64)));
    }
    #[allow(clippy::unnecessary_cast, reason = "its type differs between architectures")]
    let kind = rustix::fs::fstatfs(file.as_fd()).map(|stat| stat.f_type as i64);
    if kind.is_ok_and(|kind| kind == TMPFS_MAGIC || kind == RAMFS_MAGIC) {
        findings.note(
            PLACE,
            format!("{name} is in memory"),
            "it is gone after a restart, and takes memory from the test",
            "name a directory on a disk for a run that matters",
        );
    }
}

/// Whether the recording goes to the device under test.
pub(super) fn check_place(dir: &Path, device: &DeviceState, findings: &mut Findings) {
    let Ok(metadata) = existing(dir).metadata() else { return };
    let place = Some(DevNum::of_stat(metadata.dev()));
    let parts = device.disk.iter().flat_map(|disk| disk.children().into_iter().map(|name| disk.child(&name)));
    if device.disk.iter().cloned().chain(parts).any(|dir| dir.dev() == place) {
        findings.warning(
            PLACE,
            "the run directory is on the device under test",
            "each report interval is written and synced there, which is in the latencies",
            "name a directory on another device (--out)",
        );
    }
}

/// The nearest directory above `dir` that exists, `dir` included.
fn existing(dir: &Path) -> PathBuf {
    let here = || PathBuf::from(".");
    dir.ancestors()
        .find(|place| place.exists())
        .map_or_else(here, |place| if place.as_os_str().is_empty() { here() } else { place.to_path_buf() })
}
