//! A private instance of the kernel's tracing: its own buffers, events and filters.
//!
//! Other traces on the machine are not affected. An instance is a directory below `instances/`. Dropping the instance
//! removes the directory. Creating an instance also removes the directories that killed processes left behind.
//!
//! This module also parses the kernel's description of its trace records: the offset of each field.
//!
//! `events/*/*/format` and `events/header_page` list fields like `field:sector_t sector; offset:16; size:8; signed:0;`.
//! Offsets differ between kernels, so they are always read. This module does not interpret the fields.

#![cfg_attr(
    not(test),
    expect(
        clippy::disallowed_methods,
        reason = "tracefs has instances, not files"
    )
)]

use crate::discover::unescape;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No device was given. A trace of all devices would bury the relevant events.
    #[error("cannot trace block requests - no device was given - name at least one block device")]
    NoDevice,
    #[error(
        "cannot trace block requests - only root (CAP_SYS_ADMIN) may read the kernel's tracepoints, and nobody under kernel \
         lockdown ({}: {source}) - run as root; /sys/kernel/security/lockdown shows the lockdown",
        path.display()
    )]
    NotPermitted { path: PathBuf, source: io::Error },
    #[error(
        "cannot trace block requests - tracefs is not mounted and mounting it failed: {source} - the kernel needs CONFIG_TRACING; before Linux 5.2: mount -t tracefs tracefs /sys/kernel/tracing"
    )]
    NoTracefs { source: io::Error },
    #[error(
        "cannot trace block requests - the kernel has no event block:{event} - it needs CONFIG_BLOCK and CONFIG_EVENT_TRACING"
    )]
    NoEvent { event: &'static str },
    #[error("cannot read the trace - {}: {reason} - this version of flashproof does not know the format of this kernel; run without the trace", path.display())]
    Format { path: PathBuf, reason: String },
    #[error(
        "cannot read the trace of CPU {cpu} - the buffer page is inconsistent at byte {at_byte} - this version of flashproof does not know the format of this kernel; run without the trace"
    )]
    Page { cpu: u32, at_byte: usize },
    /// Any other failed system call; `doing`: its purpose, such as "reading the statistics".
    #[error("cannot trace block requests - {doing} on {}: {source} - if this persists, run without the trace", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl TraceError {
    pub(super) fn from_io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { path, source },
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }
}

#[derive(Debug)]
pub(super) struct Tracefs {
    root: PathBuf,
    /// Descriptor of the private mount; `None` if the system's mount is used.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Uses the mounted tracefs, or mounts tracefs privately for this process.
    pub(super) fn find() -> Result<Self, TraceError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(root) = writable_mount(&mounts, "tracefs") {
            return Ok(Self { root, _mount: None });
        }
        let mount = mount_detached("tracefs").map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => TraceError::NotPermitted {
                path: "a private tracefs mount".into(),
                source,
            },
            _ => TraceError::NoTracefs { source },
        })?;
        Ok(Self {
            root: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(),
            _mount: Some(mount),
        })
    }

    pub(super) fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }
}

/// Mounts `fs_type` without a directory, so that nothing needs cleaning up, even after a kill. `/proc/self/fd/N/`
/// reaches the files of the returned root. Errors: EPERM without CAP_SYS_ADMIN, ENODEV for an unknown file system,
/// ENOSYS before Linux 5.2.
fn mount_detached(fs_type: &str) -> io::Result<OwnedFd> {
    let context = fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// First mount point at which a whole file system of type `fs_type` is mounted writable, from the text of mountinfo.
fn writable_mount(mountinfo: &str, fs_type: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        // Fields: id parent major:minor root mount-point options [optional...] - type source options
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let root = fields.next()?;
        let point = fields.next()?;
        let options = fields.next()?;
        let fits = kind.split(' ').next()? == fs_type
            && root == "/"
            && !options.split(',').any(|word| word == "ro");
        fits.then(|| PathBuf::from(unescape(point)))
    })
}

const NAME: &str = "flashproof-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Number of attempts to remove a busy instance, and the pause between two attempts: half a second in all.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops and removes the instances of this process, for an exit without destructors. An instance with open buffers
/// remains, without recording, until the next trace on this machine removes it.
pub fn stop_instances() {
    let live = match LIVE.try_lock() {
        Ok(live) => live,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        // Another thread is creating or removing an instance; the exit does not wait for that thread.
        Err(TryLockError::WouldBlock) => return,
    };
    stop(&live);
}

fn stop(instances: &[PathBuf]) {
    for path in instances {
        let _ = remove(path);
    }
}

/// Switches an instance off and removes its directory. EBUSY: a process has a file of the instance open. Then the
/// instance remains, without recording, and a trace that starts after the end of this process removes it.
fn remove(path: &Path) -> io::Result<()> {
    let switch = fs::OpenOptions::new()
        .write(true)
        .open(path.join("tracing_on"));
    let _ = switch.and_then(|mut file| file.write_all(b"0"));
    fs::remove_dir(path)
}

/// Dropping this value removes the instance; its buffers must be closed first.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    _tracefs: Tracefs,
}

impl Instance {
    pub(super) fn create(tracefs: Tracefs) -> Result<Self, TraceError> {
        let instances = tracefs.instances();
        remove_stale(&instances);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = instances.join(format!("{NAME}{}-{number}", std::process::id()));
        // An existing instance of this name can only be a leftover of an earlier process with the same PID.
        let _ = fs::remove_dir(&path);
        fs::create_dir(&path)
            .map_err(|source| TraceError::from_io("making the trace instance", &path, source))?;
        live().push(path.clone());
        Ok(Self {
            path,
            _tracefs: tracefs,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// `doing` is part of the error message.
    pub(super) fn set(
        &self,
        doing: &'static str,
        name: &str,
        value: &str,
    ) -> Result<(), TraceError> {
        let path = self.path(name);
        // Without O_CREAT and O_TRUNC: files of tracefs are controls, and exist already.
        let written = fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|source| TraceError::from_io(doing, &path, source))
    }

    pub(super) fn get(&self, doing: &'static str, name: &str) -> Result<String, TraceError> {
        let path = self.path(name);
        read_whole(&path).map_err(|source| TraceError::from_io(doing, &path, source))
    }
}

/// Reads a file with a large first read. Some files (`header_page`) return data only to the first read, and the
/// standard library begins with a small read.
fn read_whole(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut chunk = vec![0; 64 << 10];
    let mut text = Vec::new();
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            bytes => text.extend_from_slice(&chunk[..bytes]),
        }
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Retry: a child that another thread has just forked has copies of this process's descriptors until its exec.
        for _ in 0..REMOVALS {
            match remove(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(REMOVAL_PAUSE)
                }
                _ => break,
            }
        }
        live().retain(|path| *path != self.path);
    }
}

/// Removes the instances of ended processes.
///
/// A live process in another PID namespace looks ended here. The process keeps its instance, because the kernel refuses
/// (EBUSY) to remove an instance with open buffers.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.strip_prefix(NAME)?.split('-').next())
        else {
            continue;
        };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Maximum offset and size of a field, larger than any page of a trace.
const PAGE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordField {
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

impl RecordField {
    /// `None` if the record is too short.
    pub(super) fn slice(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.bytes)?)
    }

    /// Value of a field of 1, 2, 4 or 8 bytes in native byte order.
    pub(super) fn unsigned(self, record: &[u8]) -> Option<u64> {
        let bytes = self.slice(record)?;
        Some(match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// Value of a field with a C `int`.
    pub(super) fn int(self, record: &[u8]) -> Option<i32> {
        Some(i32::from_ne_bytes(self.slice(record)?.try_into().ok()?))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormatError {
    #[error("it has no field \"{0}\"")]
    NoField(&'static str),
    #[error("line {0:?} is not \"field:TYPE NAME; offset:N; size:N;\"")]
    Line(String),
    #[error("it has no line \"ID: N\"")]
    NoId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordFields(HashMap<String, RecordField>);

impl RecordFields {
    pub(super) fn get(&self, name: &'static str) -> Result<RecordField, FormatError> {
        self.0.get(name).copied().ok_or(FormatError::NoField(name))
    }
}

pub(super) fn parse_fields(text: &str) -> Result<RecordFields, FormatError> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("field:"));
    lines
        .map(|line| parse_field(line).ok_or_else(|| FormatError::Line(line.to_owned())))
        .collect::<Result<_, _>>()
        .map(RecordFields)
}

/// ID of an event from its `format` text. The records of the event have this ID in `common_type`.
pub(super) fn parse_id(text: &str) -> Result<u64, FormatError> {
    let number = text.lines().find_map(|line| line.strip_prefix("ID:"));
    number
        .and_then(|number| number.trim().parse().ok())
        .ok_or(FormatError::NoId)
}

fn parse_field(line: &str) -> Option<(String, RecordField)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    // The name is the last word; the length of an array follows without a blank.
    let name = declaration.split_whitespace().last()?.split('[').next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let offset = number("offset:")?;
    let bytes = number("size:")?;
    (offset.max(bytes) <= PAGE_BYTES_MAX).then(|| (name.to_owned(), RecordField { offset, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "22 26 0:21 / /sys rw,relatime shared:7 - sysfs sysfs rw
29 22 0:12 / /sys/kernel/tracing ro,nosuid - tracefs tracefs rw
30 22 0:12 / /mnt/my\\040trace rw,nosuid shared:9 master:2 - tracefs tracefs rw
";

    #[test]
    fn a_mount_is_found_by_type_and_read_only_ones_are_passed_over() {
        let found = writable_mount(MOUNTINFO, "tracefs");
        assert_eq!(found, Some("/mnt/my trace".into()));
        assert_eq!(writable_mount(MOUNTINFO, "sysfs"), Some("/sys".into()));
        assert_eq!(writable_mount(MOUNTINFO, "debugfs"), None);
        assert_eq!(writable_mount("nonsense", "tracefs"), None);
    }

    #[test]
    fn stop_switches_an_open_instance_off_and_removes_a_closed_instance() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let instance = Instance::create(Tracefs {
            root: dir.path().to_owned(),
            _mount: None,
        })
        .unwrap();
        // A directory with a file stands for an open instance: outside tracefs, it cannot be removed.
        fs::write(instance.path("tracing_on"), "1").unwrap();
        // Excludes the instances of other tests in this process.
        let own: Vec<_> = live()
            .iter()
            .filter(|path| path.starts_with(dir.path()))
            .cloned()
            .collect();
        stop(&own);
        let found = fs::read_to_string(instance.path("tracing_on")).unwrap();
        assert_eq!(found, "0");
        fs::remove_file(instance.path("tracing_on")).unwrap();
        stop(&own);
        assert!(!instance.path.exists());
        drop(instance);
        assert!(!live().iter().any(|path| path.starts_with(dir.path())));
    }

    #[test]
    fn only_instances_of_dead_processes_are_stale() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = format!("{NAME}{}-0", child.id());
        child.wait().unwrap();
        let own = format!("{NAME}{}-0", std::process::id());
        for name in [
            dead.as_str(),
            own.as_str(),
            "somebody-1",
            "flashproof-notes",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        remove_stale(dir.path());
        assert!(!dir.path().join(dead).exists());
        for name in [own.as_str(), "somebody-1", "flashproof-notes"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }

    const FORMAT: &str = "name: block_rq_complete
ID: 2107
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;

print fmt: \"%d,%d %s\", REC->rwbs
";

    #[test]
    fn fields_are_found_by_name_arrays_included() {
        let fields = parse_fields(FORMAT).unwrap();
        let found = fields.get("dev").unwrap();
        assert_eq!(
            found,
            RecordField {
                offset: 8,
                bytes: 4
            }
        );
        let found = fields.get("rwbs").unwrap();
        assert_eq!(
            found,
            RecordField {
                offset: 34,
                bytes: 10
            }
        );
        let found = fields.get("cmd").unwrap();
        assert_eq!(
            found,
            RecordField {
                offset: 44,
                bytes: 4
            }
        );
        assert_eq!(fields.get("sector"), Err(FormatError::NoField("sector")));
    }

    #[test]
    fn the_id_of_an_event_is_parsed() {
        assert_eq!(parse_id(FORMAT), Ok(2107));
        assert_eq!(parse_id("name: x"), Err(FormatError::NoId));
    }

    #[test]
    fn a_field_that_cannot_be_parsed_is_named_in_the_error() {
        let error = parse_fields("\tfield:int error;\tsize:4;").unwrap_err();
        assert!(error.to_string().contains("int error"), "{error}");
    }

    #[test]
    fn numbers_of_every_width_are_read_and_short_records_are_not() {
        let record = [1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xfb];
        let number = |offset, bytes| RecordField { offset, bytes }.unsigned(&record);
        assert_eq!(number(0, 1), Some(1));
        assert_eq!(number(0, 2), Some(u64::from(u16::from_ne_bytes([1, 0]))));
        let found = number(0, 8);
        assert_eq!(found, Some(u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0])));
        assert_eq!(number(9, 4), None);
        assert_eq!(number(0, 3), None);
        let found = RecordField {
            offset: 8,
            bytes: 4,
        }
        .int(&record);
        assert_eq!(found, Some(i32::from_ne_bytes([0xff, 0xff, 0xff, 0xfb])));
    }

    #[test]
    fn a_detached_mount_is_readable_and_attached_nowhere() {
        let mounted = match mount_detached("tmpfs") {
            Ok(mounted) => mounted,
            Err(error) => {
                eprintln!("skipped: a private mount needs root and Linux 5.2: {error}");
                return;
            }
        };
        let root = format!("/proc/self/fd/{}", mounted.as_raw_fd());
        std::fs::write(format!("{root}/file"), "bytes").unwrap();
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
    }

    #[test]
    fn an_unknown_file_system_is_an_error() {
        assert!(mount_detached("no-such-fs").is_err());
    }
}
