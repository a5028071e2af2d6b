//! The place of a check: a directory (the check makes its own files there), a device, or a simulated drive.
//!
//! Files lie in one directory, [`OWN_DIR`], that is locked while the check runs and removed at its end. The next check
//! removes the files of a killed check. Only files that the lock file lists are removed.

use super::file_use::{FileState, FileUse};
use conclusions::circumstances::Circumstances;
use device::discover::{DeviceFacts, DeviceNumber, discover, disks_beneath};
use engine::DeviceName;
use engine::sim::SIM_PREFIX;
use results::files::{Dir, PRIVATE, set_len};
use results::format::{bytes, quoted};
use rustix::fs::FlockOperation;
use session::console;
use session::failure::Failure;
use session::runner::command;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use sys::open::memory_file_system;

/// Name of the directory for the files of a check.
pub const OWN_DIR: &str = "flashproof-check";

/// Lock file in [`OWN_DIR`], locked while a check runs. Lists the check's files, one name per line.
const LOCK: &str = ".lock";

/// First line of the lock file: flashproof made this directory.
const MARK: &str = "files of flashproof check; it removes them";

/// Maximum size of the lock file, bytes: the names of 10,000 files.
const LOCK_BYTES_MAX: u64 = 1 << 20;

/// Space that stays free: 1/`KEPT_FREE` of the file system, but at most `KEPT_FREE_MAX` bytes.
const KEPT_FREE: u64 = 20;
const KEPT_FREE_MAX: u64 = 10 << 30;

const RANGE_ALIGN: u64 = 1 << 20;

/// Words in the models of virtual disks, which can have burst credits: EC2, Google, Azure, VMware, QEMU, and others.
const VIRTUAL: [&str; 8] = [
    "elastic block store",
    "persistentdisk",
    "nvme_card-pd",
    "virtual",
    "msft",
    "vmware",
    "qemu",
    "volume",
];

/// Prefixes of the kernel's names of virtual disks, and of devices whose disks may be unknown.
const NAMES_OF_VIRTUAL: [&str; 7] = ["vd", "xvd", "loop", "dm-", "md", "nbd", "rbd"];

pub struct Site {
    pub path: String,
    /// The disks that hold the data, including those below LVM and md. Empty: not known, or simulated.
    disks: Vec<DeviceFacts>,
    /// Largest size of all files together, bytes; `None`: ranges on a device.
    pub files_bytes: Option<u64>,
    /// Paths of the files, which the check makes itself, so that runs may write to them; empty on a device.
    pub own_files: Vec<String>,
    targets: BTreeMap<String, (String, u64)>,
    own_dir: Option<OwnDir>,
}

impl Site {
    pub fn open(path: &str, files: &BTreeMap<String, FileUse>) -> Result<Self, Failure> {
        let cannot = |why| cannot_check(path, why);
        if path.starts_with(SIM_PREFIX) {
            let drive = path
                .parse::<DeviceName>()
                .ok()
                .and_then(|name| Some(name.drive()?.capacity_bytes));
            return Self::ranges(path, files, Vec::new(), drive.unwrap_or(u64::MAX))
                .map_err(cannot);
        }
        let metadata = directory_or_device(path).map_err(cannot)?;
        if !metadata.is_dir() {
            let facts =
                discover(path, Path::new("/")).map_err(|error| cannot(error.to_string()))?;
            let disks = facts
                .number
                .map(|number| disks_beneath(number, Path::new("/")));
            return Self::ranges(path, files, disks.unwrap_or_default(), facts.size_bytes)
                .map_err(cannot);
        }
        if files.values().any(|used| used.state == FileState::Existing) {
            return Err(cannot(
                "it is a directory, but files=existing reads a device; name a device".to_owned(),
            ));
        }
        let disks = disks_beneath(DeviceNumber::of_stat(metadata.dev()), Path::new("/"));
        let needed_bytes = needed_bytes(files);
        let names: Vec<_> = files.keys().cloned().collect();
        let own_dir =
            OwnDir::make(Path::new(path), OWN_DIR, &names, needed_bytes).map_err(cannot)?;
        let path_of = |name: &String| own_dir.dir.path().join(name).to_string_lossy().into_owned();
        let targets = files
            .keys()
            .map(|name| (name.clone(), (path_of(name), 0)))
            .collect();
        let path = path.to_owned();
        let own_files = files.keys().map(path_of).collect();
        Ok(Self {
            path,
            disks,
            files_bytes: Some(needed_bytes),
            own_files,
            targets,
            own_dir: Some(own_dir),
        })
    }

    /// The site at `path`, or in any directory if `None`, without its disk: nothing is opened or made, and any files fit.
    pub fn planned(path: Option<&str>, files: &BTreeMap<String, FileUse>) -> Result<Self, Failure> {
        if let Some(device) = path.filter(|path| !Path::new(path).is_dir()) {
            return Self::ranges(device, files, Vec::new(), u64::MAX)
                .map_err(|why| cannot_check(device, why));
        }
        let names = files.keys();
        Ok(Self {
            path: path.unwrap_or(".").to_owned(),
            disks: Vec::new(),
            files_bytes: Some(0),
            own_files: Vec::new(),
            targets: names
                .map(|name| (name.clone(), (name.clone(), 0)))
                .collect(),
            own_dir: None,
        })
    }

    /// A range on a device of `size_bytes` for each file; runs share a file's range. Errors: the device is too small.
    fn ranges(
        path: &str,
        files: &BTreeMap<String, FileUse>,
        disks: Vec<DeviceFacts>,
        size_bytes: u64,
    ) -> Result<Self, String> {
        let mut bytes_by_file = BTreeMap::<&str, u64>::new();
        for used in files.values() {
            let bytes = bytes_by_file.entry(&used.file).or_default();
            *bytes = used.bytes.max(*bytes);
        }
        let mut next_offset = 0;
        let mut offsets = BTreeMap::new();
        for (file, bytes) in bytes_by_file {
            offsets.insert(file, next_offset);
            next_offset += bytes.next_multiple_of(RANGE_ALIGN);
        }
        if next_offset > size_bytes {
            let needed = bytes(next_offset as f64);
            let size = bytes(size_bytes as f64);
            return Err(format!(
                "the files of the check need {needed}, but the device has only {size}; name a larger device"
            ));
        }
        let targets = files
            .iter()
            .map(|(name, used): (&String, &FileUse)| {
                (name.clone(), (path.to_owned(), offsets[used.file.as_str()]))
            })
            .collect();
        let own_files = Vec::new();
        Ok(Self {
            path: path.to_owned(),
            disks,
            files_bytes: None,
            own_files,
            targets,
            own_dir: None,
        })
    }

    /// Removes the files `names`, which no later run uses, and syncs the directory, so that this I/O does not slow the
    /// next run. Files that cannot be removed now are removed, or named, at the end.
    pub fn remove(&self, names: &[String]) {
        let Some(OwnDir { dir, .. }) = self.own_dir.as_ref().filter(|_| !names.is_empty()) else {
            return;
        };
        if let Err(why) =
            remove_all(dir, names).and_then(|()| dir.sync().map_err(|error| error.to_string()))
        {
            console::warning(&format!(
                "cannot remove the files of a run - {why} - trying again at the end of the check"
            ));
        }
    }

    /// Target and offset of a job's file.
    pub fn place(&self, file: &str) -> (String, u64) {
        self.targets.get(file).cloned().unwrap_or_default()
    }

    /// True if a disk is virtual or not known, so that it may have burst credits.
    pub fn may_have_credits(&self) -> bool {
        !self.path.starts_with(SIM_PREFIX)
            && (self.disks.is_empty() || self.disks.iter().any(may_have_credits))
    }

    pub fn circumstances(&self) -> Circumstances {
        circumstances(&self.disks)
    }

    /// The disks in words: `nvme0n1, Samsung SSD 990 PRO`.
    pub fn disk_text(&self) -> Option<String> {
        let names: Vec<_> = self
            .disks
            .iter()
            .filter_map(DeviceFacts::name_and_model)
            .collect();
        (!names.is_empty()).then(|| names.join("; "))
    }
}

pub(super) fn circumstances(disks: &[DeviceFacts]) -> Circumstances {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    Circumstances {
        drives: disks.iter().map(drive_text).collect(),
        host: host.map(|name| name.trim().to_owned()),
        command: command(),
    }
}

/// `nvme0n1, Samsung SSD 990 PRO, S6Z1NJ0T, 4B2QJXD7, 2 TB`.
fn drive_text(disk: &DeviceFacts) -> String {
    let names = [&disk.kernel_name, &disk.model, &disk.serial, &disk.firmware];
    let names = names
        .into_iter()
        .flatten()
        .map(|name| name.trim().to_owned());
    let size = bytes(disk.size_bytes as f64);
    names.chain([size]).collect::<Vec<_>>().join(", ")
}

/// Largest size of all files together, bytes: the shared files, and the files of the run that needs most.
pub(super) fn needed_bytes(files: &BTreeMap<String, FileUse>) -> u64 {
    let (shared, own): (Vec<_>, Vec<_>) = files
        .values()
        .partition(|used| used.state == FileState::Shared);
    let mut by_run = BTreeMap::<&str, u64>::new();
    for used in own {
        *by_run.entry(&used.run).or_default() += used.bytes;
    }
    let shared_bytes = shared
        .iter()
        .map(|used| used.bytes)
        .fold(0, u64::saturating_add);
    shared_bytes.saturating_add(by_run.into_values().max().unwrap_or(0))
}

fn may_have_credits(disk: &DeviceFacts) -> bool {
    let name = disk.kernel_name.as_deref().unwrap_or_default();
    let model = disk.model.as_deref().unwrap_or_default().to_lowercase();
    NAMES_OF_VIRTUAL.iter().any(|begin| name.starts_with(begin))
        || VIRTUAL.iter().any(|word| model.contains(word))
}

pub(super) fn cannot_check(path: &str, why: String) -> Failure {
    Failure::environment(format!("cannot check {} - {why}", quoted(path)))
}

/// Metadata of a path that can be checked. Errors: `path` does not exist, or is a regular file.
pub(crate) fn directory_or_device(path: &str) -> Result<fs::Metadata, String> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no such directory or device; check the name".to_owned(),
        _ => error.to_string(),
    })?;
    if metadata.is_file() {
        Err("it is a file; name its directory, where the check creates its own files".to_owned())
    } else {
        Ok(metadata)
    }
}

/// The directory of a check's files, locked. Removed with its files when dropped, unless `stays` is set.
pub(crate) struct OwnDir {
    pub(crate) dir: Dir,
    pub(crate) stays: bool,
    parent: Dir,
    name: OsString,
    files: Vec<String>,
    _lock: File,
}

impl OwnDir {
    /// Creates the directory `name` below `parent` for the files `files` of `needed_bytes` in total, and removes the
    /// files of an earlier check. Errors: `parent` is in memory, full or not writable; another check uses the
    /// directory; or the directory holds foreign files.
    pub(crate) fn make(
        parent: &Path,
        name: &str,
        files: &[String],
        needed_bytes: u64,
    ) -> Result<Self, String> {
        let name = OsString::from(name);
        let parent = Dir::open(parent).map_err(|error| error.to_string())?;
        refuse_memory(&parent)?;
        let path = parent.path().join(&name);
        let (dir, is_new) = match parent.create_dir(&name, 0o700) {
            Ok(dir) => (dir, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (
                parent.open_dir(&name).map_err(|_| foreign_dir(&path))?,
                false,
            ),
            Err(error) => {
                return Err(format!(
                    "cannot create {} ({error}); name a directory that this user may write to",
                    path.display()
                ));
            }
        };
        let stat = |dir: &Dir| dir.own_stat().map_err(|error| error.to_string());
        let own = stat(&dir)?;
        let above = stat(&parent)?;
        // Another owner could replace the check's files by links; a mount point would be another disk.
        let is_private = own.st_uid == sys::open::effective_user() && own.st_mode & 0o022 == 0;
        if !is_private || own.st_dev != above.st_dev {
            return Err(format!(
                "{} belongs to another user or is a mount point; remove it",
                path.display()
            ));
        }
        let names = || dir.names().map_err(|error| error.to_string());
        let had_lock = names()?.iter().any(|name| name == LOCK);
        if !is_new && !had_lock && !names()?.is_empty() {
            return Err(foreign_dir(&path));
        }
        let cannot_lock =
            |error: io::Error| format!("cannot create {} ({error})", path.join(LOCK).display());
        let mut lock = dir
            .open_to_append(LOCK.as_ref(), PRIVATE)
            .map_err(cannot_lock)?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(format!(
                "another check runs in {}; wait for its end",
                path.display()
            ));
        }
        let earlier_files = listed(&lock).ok_or_else(|| foreign_dir(&path))?;
        remove_all(&dir, &earlier_files)?;
        if let Some(foreign_file) = names()?.into_iter().find(|name| name != LOCK) {
            let name = quoted(&foreign_file.to_string_lossy()).to_string();
            return Err(format!(
                "{} holds {name}, which no check created; remove it",
                path.display()
            ));
        }
        let text = format!("{MARK}\n{}\n", files.join("\n"));
        let write_result = set_len(&lock, 0)
            .and_then(|()| lock.write_all(text.as_bytes()))
            .and_then(|()| lock.sync_all());
        let own_dir = Self {
            dir,
            stays: false,
            parent,
            name,
            files: files.to_vec(),
            _lock: lock,
        };
        write_result
            .map_err(|error| format!("cannot write {} ({error})", path.join(LOCK).display()))?;
        check_room(&own_dir.dir, needed_bytes)?;
        Ok(own_dir)
    }

    fn remove(&self) -> Result<(), String> {
        remove_all(&self.dir, &self.files)?;
        if !self.dir.is_at(&self.parent, &self.name) {
            return Err("another user moved it".to_owned());
        }
        let removed = self
            .dir
            .remove_file(LOCK.as_ref())
            .and_then(|()| self.parent.remove_dir(&self.name));
        removed.map_err(|error| error.to_string())
    }
}

impl Drop for OwnDir {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        if let Err(why) = self.remove() {
            let path = self.dir.path().display();
            console::warning(&format!("cannot remove {path} - {why} - remove it by hand"));
        }
    }
}

/// Files that the lock file of an earlier check lists; none if that check was killed before it listed any. `None`:
/// `lock` is not a lock file of flashproof.
fn listed(lock: &File) -> Option<Vec<String>> {
    let mut text = String::new();
    lock.take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    if lines.next().unwrap_or(MARK) != MARK {
        return None;
    }
    Some(
        lines
            .filter(|name| !name.is_empty() && !name.starts_with('.'))
            .map(str::to_owned)
            .collect(),
    )
}

/// Removes the files `names`; missing files are left out. Errors: the first file that cannot be removed.
fn remove_all(dir: &Dir, names: &[String]) -> Result<(), String> {
    for name in names {
        match dir.remove_file(name.as_ref()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!(
                    "cannot remove {} ({error})",
                    dir.path().join(name).display()
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn foreign_dir(path: &Path) -> String {
    format!(
        "{} exists, but no check created it; rename it",
        path.display()
    )
}

/// Refuses a directory in memory: a check there would not reach a disk.
fn refuse_memory(dir: &Dir) -> Result<(), String> {
    let name = dir
        .open_to_sync()
        .and_then(|dir| memory_file_system(dir.as_fd()))
        .map_err(|error| error.to_string())?;
    name.map_or(Ok(()), |name| {
        Err(format!(
            "it is {name}, which is in memory and not on a disk; name a directory on the disk"
        ))
    })
}

/// Refuses files of `needed_bytes` if the file system would have too little space left.
fn check_room(dir: &Dir, needed_bytes: u64) -> Result<(), String> {
    let stat = dir
        .open_to_sync()
        .and_then(|dir| Ok(rustix::fs::fstatvfs(dir)?))
        .map_err(|error| error.to_string())?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    let reserved_bytes = (total / KEPT_FREE).min(KEPT_FREE_MAX);
    let text = |count: u64| bytes(count as f64);
    if needed_bytes.saturating_add(reserved_bytes) <= free {
        Ok(())
    } else {
        Err(format!(
            "its files need {}, {} must stay free, but only {} are free; free some space, or name another directory",
            text(needed_bytes),
            text(reserved_bytes),
            text(free)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(names: &[&str], bytes: u64) -> BTreeMap<String, FileUse> {
        let used = |name: &&str| FileUse {
            file: (*name).to_owned(),
            bytes,
            ..FileUse::default()
        };
        names
            .iter()
            .map(|name| ((*name).to_owned(), used(name)))
            .collect()
    }

    /// A directory on a disk; `None` if the sources of this machine are in memory.
    fn on_disk() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).ok()?;
        refuse_memory(&Dir::open(dir.path()).ok()?)
            .is_ok()
            .then_some(dir)
    }

    #[test]
    fn only_the_files_of_this_check_and_of_a_killed_check_are_removed() {
        let Some(parent) = on_disk() else {
            return eprintln!("skipped: no directory on a disk");
        };
        let own = parent.path().join(OWN_DIR);
        let path = parent.path().to_str().unwrap();
        let site = Site::open(path, &sizes(&["wal"], 4096)).unwrap();
        fs::write(own.join("wal"), "data").unwrap();
        let busy = Site::open(path, &sizes(&["wal"], 4096))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(busy.contains("another check runs"), "{busy}");
        drop(site);
        assert!(!own.exists());

        fs::create_dir(&own).unwrap();
        fs::write(own.join(LOCK), format!("{MARK}\nleft\n../above\n")).unwrap();
        fs::write(own.join("left"), "of a killed check").unwrap();
        fs::write(parent.path().join("above"), "of somebody").unwrap();
        drop(Site::open(path, &sizes(&["wal"], 4096)).unwrap());
        assert!(!own.exists() && parent.path().join("above").exists());

        fs::create_dir(&own).unwrap();
        fs::write(own.join("precious"), "of somebody").unwrap();
        let foreign = Site::open(path, &sizes(&["wal"], 4096))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            foreign.contains("no check created it; rename it"),
            "{foreign}"
        );
        assert!(own.join("precious").exists());
    }

    #[test]
    fn a_symbolic_link_in_place_of_the_checks_directory_is_not_followed() {
        let Some(parent) = on_disk() else {
            return eprintln!("skipped: no directory on a disk");
        };
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), parent.path().join(OWN_DIR)).unwrap();
        let error = Site::open(parent.path().to_str().unwrap(), &sizes(&["wal"], 4096))
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains("no check created it"), "{error}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lack_of_space_is_reported_with_numbers_and_no_file_remains() {
        let Some(parent) = on_disk() else {
            return eprintln!("skipped: no directory on a disk");
        };
        let error = Site::open(
            parent.path().to_str().unwrap(),
            &sizes(&["wal", "db"], 1 << 60),
        )
        .map(drop)
        .unwrap_err();
        assert!(
            error.to_string().contains("its files need 2.31 EB"),
            "{error}"
        );
        assert!(!parent.path().join(OWN_DIR).exists());
    }

    #[test]
    fn each_file_has_a_range_of_its_own_on_a_device() {
        let site = Site::open(
            "sim:",
            &[sizes(&["a"], 5_000_000), sizes(&["b"], 1 << 20)]
                .into_iter()
                .flatten()
                .collect(),
        )
        .unwrap();
        assert_eq!(site.place("a"), ("sim:".to_owned(), 0));
        assert_eq!(site.place("b"), ("sim:".to_owned(), 5 << 20));
    }
}
