//! An instance of the kernel's tracing of our own: its own buffers, events and filters.
//!
//! Whatever somebody else traces on the machine is not touched. The instance is a directory below
//! `instances/`; it is removed when dropped, and those that dead processes left behind are removed
//! when the next one is made.

use super::TraceError;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::{fs, io};
use sys::mount::mount_detached;

/// Where tracefs is reached.
#[derive(Debug)]
pub(super) struct Tracefs {
    root: PathBuf,
    /// Holds the mount when it is ours alone.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Takes the mounted tracefs, or mounts it where only this process sees it.
    pub(super) fn find() -> Result<Self, TraceError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(root) = writable_mount(&mounts, "tracefs") {
            return Ok(Self { root, _mount: None });
        }
        let mount = mount_detached(c"tracefs").map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                TraceError::NotPermitted { path: "a private tracefs mount".into(), source }
            }
            _ => TraceError::NoTracefs { source },
        })?;
        Ok(Self { root: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), _mount: Some(mount) })
    }

    /// The directory of all instances.
    pub(super) fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }
}

/// The first mount point of a whole `fs_type` in the text of mountinfo that is not read-only.
fn writable_mount(mountinfo: &str, fs_type: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        // id parent major:minor root mount-point options [optional...] - type source options
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
        let fits = kind.split(' ').next()? == fs_type && root == "/" && !options.split(',').any(|word| word == "ro");
        fits.then(|| PathBuf::from(unescape(point)))
    })
}

/// Undoes the octal escapes (`\040` for a space) of mountinfo.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

const NAME: &str = "flashproof-";
/// Several traces of one process get several instances.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Those of this process that are there.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops and removes the instances of this process, for an end that drops nothing. One whose buffers are
/// open stays, without recording, until the next trace on this machine removes it.
pub fn stop_instances() {
    let live = match LIVE.try_lock() {
        Ok(live) => live,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        // Another thread makes or removes one; an end does not wait for it.
        Err(TryLockError::WouldBlock) => return,
    };
    live.iter().for_each(|path| remove(path));
}

fn remove(path: &Path) {
    // Nobody is left to tell. If it stays (somebody has it open), it stops recording, and the next run
    // removes it.
    let switch = fs::OpenOptions::new().write(true).open(path.join("tracing_on"));
    let _ = switch.and_then(|mut file| file.write_all(b"0"));
    let _ = fs::remove_dir(path);
}

/// One instance; dropping it removes it. Whoever reads its buffers must have closed them before.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    _tracefs: Tracefs,
}

impl Instance {
    /// Makes an instance, named after this process.
    pub(super) fn create(tracefs: Tracefs) -> Result<Self, TraceError> {
        let instances = tracefs.instances();
        remove_stale(&instances);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = instances.join(format!("{NAME}{}-{number}", std::process::id()));
        // Of this name there can only be one that an earlier process with our number left behind.
        let _ = fs::remove_dir(&path);
        fs::create_dir(&path).map_err(|source| TraceError::from_io("making the trace instance", &path, source))?;
        live().push(path.clone());
        Ok(Self { path, _tracefs: tracefs })
    }

    /// A path in the instance.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Sets `name` to `value`. `doing` is said if it fails.
    pub(super) fn set(&self, doing: &'static str, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path(name);
        // No O_TRUNC or O_CREAT: these are switches, not files.
        let written =
            fs::OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|source| TraceError::from_io(doing, &path, source))
    }

    /// Reads `name` as text.
    pub(super) fn get(&self, doing: &'static str, name: &str) -> Result<String, TraceError> {
        let path = self.path(name);
        read_whole(&path).map_err(|source| TraceError::from_io(doing, &path, source))
    }
}

/// Reads a file of tracefs. Some of them (`header_page`) answer only the first read, so it has to be
/// large enough for all; the standard library would begin with a small one.
fn read_whole(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut step = vec![0; 64 << 10];
    let mut text = Vec::new();
    loop {
        match file.read(&mut step)? {
            0 => break,
            bytes => text.extend_from_slice(&step[..bytes]),
        }
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.path);
        live().retain(|path| *path != self.path);
    }
}

/// Removes instances of processes that are gone.
///
/// A live process in another PID namespace looks gone from here; the kernel refuses (EBUSY) to remove
/// an instance whose buffers are open, so it keeps its instance.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next()) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
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
        assert_eq!(writable_mount(MOUNTINFO, "tracefs"), Some("/mnt/my trace".into()));
        assert_eq!(writable_mount(MOUNTINFO, "sysfs"), Some("/sys".into()));
        assert_eq!(writable_mount(MOUNTINFO, "debugfs"), None);
        assert_eq!(writable_mount("nonsense", "tracefs"), None);
    }

    #[test]
    fn an_end_that_drops_nothing_stops_and_removes_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let instance = Instance::create(Tracefs { root: dir.path().to_owned(), _mount: None }).unwrap();
        // Outside tracefs a directory with a file in it stays, as an instance does that is open.
        fs::write(instance.path("tracing_on"), "1").unwrap();
        stop_instances();
        assert_eq!(fs::read_to_string(instance.path("tracing_on")).unwrap(), "0");
        fs::remove_file(instance.path("tracing_on")).unwrap();
        stop_instances();
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
        for name in [dead.as_str(), own.as_str(), "somebody-1", "flashproof-notes"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        remove_stale(dir.path());
        assert!(!dir.path().join(dead).exists());
        for name in [own.as_str(), "somebody-1", "flashproof-notes"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }
}
