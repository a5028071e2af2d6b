//! The place of a check: a directory (the check makes its own files there), a device, or a simulated drive.
//!
//! Files lie in one directory, [`OWN_DIR`], that is locked while the check runs and removed at its end. The next check
//! removes the files of a killed check. Only files that the lock file lists are removed.

use super::FileUse;
use device::discover::{DeviceFacts, DeviceNumber, discover, disks_beneath};
use engine::sim::SIM_PREFIX;
use results::units::{bytes, quoted};
use rustix::fs::{FlockOperation, Mode, OFlags};
use session::console;
use session::failure::Failure;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use sys::open::memory_file_system;

/// Name of the directory for the files of a check.
pub const OWN_DIR: &str = "flashproof-check";

/// Lock file in [`OWN_DIR`], locked while a check runs. Lists the check's files, one name per line.
const LOCK: &str = ".lock";

/// First line of the lock file: flashproof made this directory.
const MARK: &str = "files of flashproof check; it removes them";

/// Space of a file system that stays free: 1/`KEPT_FREE` of it, and at most `KEPT_FREE_MAX` bytes.
const KEPT_FREE: u64 = 20;
const KEPT_FREE_MAX: u64 = 10 << 30;

/// Alignment of ranges on a device, bytes.
const RANGE_ALIGN: u64 = 1 << 20;

/// Words in the models of virtual disks, which can have burst credits: EC2, Google, Azure, VMware, QEMU, and others.
const VIRTUAL: [&str; 8] =
    ["elastic block store", "persistentdisk", "nvme_card-pd", "virtual", "msft", "vmware", "qemu", "volume"];

/// Prefixes of the kernel's names of virtual disks, and of devices whose disks may be unknown.
const NAMES_OF_VIRTUAL: [&str; 7] = ["vd", "xvd", "loop", "dm-", "md", "nbd", "rbd"];

/// The place of a check.
pub struct Site {
    pub path: String,
    /// The disks that hold the data, including those below LVM and md. Empty: not known, or simulated.
    disks: Vec<DeviceFacts>,
    /// Size of each file; `None`: ranges on a device.
    pub file_bytes: Option<u64>,
    targets: BTreeMap<String, (String, u64)>,
    _own_dir: Option<OwnDir>,
}

impl Site {
    /// Prepares the place `path` for `files`.
    pub fn open(path: &str, files: &BTreeMap<String, FileUse>) -> Result<Self, Failure> {
        let cannot = |why: String| Failure::environment(format!("cannot check {} - {why}", quoted(path)));
        if path.starts_with(SIM_PREFIX) {
            return Ok(Self::ranges(path, files, Vec::new()));
        }
        let metadata = directory_or_device(path).map_err(cannot)?;
        if !metadata.is_dir() {
            let facts = discover(path, Path::new("/")).map_err(|error| cannot(error.to_string()))?;
            let disks = facts.number.map(|number| disks_beneath(number, Path::new("/")));
            return Ok(Self::ranges(path, files, disks.unwrap_or_default()));
        }
        let disks = disks_beneath(DeviceNumber::of_stat(metadata.dev()), Path::new("/"));
        // All files have the size of the largest.
        let file_bytes = files.values().map(|used| used.bytes).max().unwrap_or(0);
        let needed_bytes = file_bytes.saturating_mul(files.len() as u64);
        let names: Vec<_> = files.keys().cloned().collect();
        let own_dir = OwnDir::make(Path::new(path), OWN_DIR, &names, needed_bytes).map_err(cannot)?;
        let target_of = |name: &String| (name.clone(), (own_dir.dir.join(name).to_string_lossy().into_owned(), 0));
        let targets = files.keys().map(target_of).collect();
        Ok(Self { path: path.to_owned(), disks, file_bytes: Some(file_bytes), targets, _own_dir: Some(own_dir) })
    }

    /// A range on a device for each file.
    fn ranges(path: &str, files: &BTreeMap<String, FileUse>, disks: Vec<DeviceFacts>) -> Self {
        let mut next_offset = 0;
        let target_of = |(name, used): (&String, &FileUse)| {
            let offset = next_offset;
            next_offset += used.bytes.next_multiple_of(RANGE_ALIGN);
            (name.clone(), (path.to_owned(), offset))
        };
        let targets = files.iter().map(target_of).collect();
        Self { path: path.to_owned(), disks, file_bytes: None, targets, _own_dir: None }
    }

    /// Target and offset of a file of the jobs.
    pub fn place(&self, file: &str) -> (String, u64) {
        self.targets.get(file).cloned().unwrap_or_default()
    }

    /// True if a disk is virtual or not known, so that it may have burst credits.
    pub fn may_have_credits(&self) -> bool {
        !self.path.starts_with(SIM_PREFIX) && (self.disks.is_empty() || self.disks.iter().any(may_have_credits))
    }

    /// The disks in words: `nvme0n1, Samsung SSD 990 PRO`.
    pub fn disk_text(&self) -> Option<String> {
        let names: Vec<_> = self.disks.iter().filter_map(DeviceFacts::name_and_model).collect();
        (!names.is_empty()).then(|| names.join("; "))
    }
}

fn may_have_credits(disk: &DeviceFacts) -> bool {
    let name = disk.kernel_name.as_deref().unwrap_or_default();
    let model = disk.model.as_deref().unwrap_or_default().to_lowercase();
    NAMES_OF_VIRTUAL.iter().any(|begin| name.starts_with(begin)) || VIRTUAL.iter().any(|word| model.contains(word))
}

/// Metadata of a path that can be checked. Errors: the reason, a phrase with a remedy.
pub(crate) fn directory_or_device(path: &str) -> Result<fs::Metadata, String> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no such directory or device; check the name".to_owned(),
        _ => error.to_string(),
    })?;
    match metadata.is_file() {
        true => Err("it is a file; name its directory, where the check creates its own files".to_owned()),
        false => Ok(metadata),
    }
}

/// The directory of a check's files, locked. Removed with its files when dropped, unless `stays` is set.
pub(crate) struct OwnDir {
    pub(crate) dir: PathBuf,
    pub(crate) stays: bool,
    _lock: File,
}

impl OwnDir {
    /// Creates the directory `name` below `parent` for the files `names` of `needed_bytes` in total, and removes the
    /// files of an earlier check. Errors: the reason, a phrase with a remedy.
    pub(crate) fn make(parent: &Path, name: &str, names: &[String], needed_bytes: u64) -> Result<Self, String> {
        refuse_memory(parent)?;
        let dir = parent.join(name);
        let is_new = match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => {
                return Err(format!(
                    "cannot create {} ({error}); name a directory that this user may write to",
                    dir.display()
                ));
            }
        };
        let foreign = || format!("{} exists, but no check created it; rename it", dir.display());
        let dir_metadata = fs::symlink_metadata(&dir).ok().filter(|own| own.is_dir()).ok_or_else(foreign)?;
        let parent_metadata = fs::metadata(parent).map_err(|error| error.to_string())?;
        // Another owner could replace the check's files by links; a mount point would be another disk.
        let is_private = dir_metadata.uid() == sys::open::effective_user() && dir_metadata.mode() & 0o022 == 0;
        if !is_private || dir_metadata.dev() != parent_metadata.dev() {
            return Err(format!("{} belongs to another user or is a mount point; remove it", dir.display()));
        }
        let path = dir.join(LOCK);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).map(File::from);
        let had_lock = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        if !is_new && !had_lock && fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(foreign());
        }
        let mut lock = open().map_err(|error| format!("cannot create {} ({error})", path.display()))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(format!("another check runs in {}; wait for its end", dir.display()));
        }
        if had_lock {
            remove_left(&dir, &path)?;
        }
        let entries = fs::read_dir(&dir).map_err(|error| error.to_string())?.flatten();
        if let Some(foreign_file) = entries.map(|entry| entry.file_name()).find(|name| name != LOCK) {
            let name = quoted(&foreign_file.to_string_lossy()).to_string();
            return Err(format!("{} holds {name}, which no check created; remove it", dir.display()));
        }
        let text = format!("{MARK}\n{}\n", names.join("\n"));
        let write_result =
            lock.set_len(0).and_then(|()| lock.write_all(text.as_bytes())).and_then(|()| lock.sync_all());
        let own_dir = Self { dir, stays: false, _lock: lock };
        write_result.map_err(|error| format!("cannot write {} ({error})", path.display()))?;
        check_room(parent, needed_bytes)?;
        Ok(own_dir)
    }
}

impl Drop for OwnDir {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let path = self.dir.join(LOCK);
        let removed = remove_left(&self.dir, &path);
        let removed = removed.and_then(|_| fs::remove_file(&path).map_err(|error| error.to_string()));
        if let Err(why) = removed.and_then(|()| fs::remove_dir(&self.dir).map_err(|error| error.to_string())) {
            console::warning(&format!("cannot remove {} - {why} - remove it by hand", self.dir.display()));
        }
    }
}

/// Removes the files that the lock at `path` lists. Errors: the lock is not flashproof's, or a file cannot be removed.
fn remove_left(dir: &Path, path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {} ({error})", path.display()))?;
    let mut lines = text.lines();
    match lines.next() {
        // A check was killed before it wrote the lock's first line, so it had no files yet.
        None => return Ok(()),
        Some(MARK) => {}
        Some(_) => return Err(format!("{} exists, but no check created it; rename it", dir.display())),
    }
    for name in lines.filter(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('.')) {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("cannot remove {} ({error})", dir.join(name).display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a directory in memory: a check there would not reach a disk.
fn refuse_memory(dir: &Path) -> Result<(), String> {
    let name = File::open(dir).and_then(|dir| memory_file_system(dir.as_fd())).map_err(|error| error.to_string())?;
    name.map_or(Ok(()), |name| {
        Err(format!("it is {name}, which is in memory and not on a disk; name a directory on the disk"))
    })
}

/// Refuses files of `needed_bytes` if the file system would have too little space left.
fn check_room(dir: &Path, needed_bytes: u64) -> Result<(), String> {
    let stat = rustix::fs::statvfs(dir).map_err(|error| error.to_string())?;
    let (free, total) = (stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize));
    let reserved_bytes = (total / KEPT_FREE).min(KEPT_FREE_MAX);
    let text = |count: u64| bytes(count as f64);
    match needed_bytes.saturating_add(reserved_bytes) <= free {
        true => Ok(()),
        false => Err(format!(
            "its files need {}, {} must stay free, but only {} are free; free some space, or name another directory",
            text(needed_bytes),
            text(reserved_bytes),
            text(free)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(names: &[&str], bytes: u64) -> BTreeMap<String, FileUse> {
        names.iter().map(|name| ((*name).to_owned(), FileUse { bytes, is_read: false })).collect()
    }

    /// A directory on a disk; `None` if the sources of this machine are in memory.
    fn on_disk() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).ok()?;
        refuse_memory(dir.path()).is_ok().then_some(dir)
    }

    #[test]
    fn files_of_a_check_and_those_that_a_killed_one_left_are_removed_and_no_others() {
        let Some(parent) = on_disk() else { return eprintln!("skipped: no directory on a disk") };
        let own = parent.path().join(OWN_DIR);
        let path = parent.path().to_str().unwrap();
        let site = Site::open(path, &sizes(&["wal"], 4096)).unwrap();
        fs::write(own.join("wal"), "data").unwrap();
        let busy = Site::open(path, &sizes(&["wal"], 4096)).map(drop).unwrap_err().to_string();
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
        let foreign = Site::open(path, &sizes(&["wal"], 4096)).map(drop).unwrap_err().to_string();
        assert!(foreign.contains("no check created it; rename it"), "{foreign}");
        assert!(own.join("precious").exists());
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let Some(parent) = on_disk() else { return eprintln!("skipped: no directory on a disk") };
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), parent.path().join(OWN_DIR)).unwrap();
        let error = Site::open(parent.path().to_str().unwrap(), &sizes(&["wal"], 4096)).map(drop).unwrap_err();
        assert!(error.to_string().contains("no check created it"), "{error}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn too_little_room_is_said_with_numbers_and_nothing_is_left() {
        let Some(parent) = on_disk() else { return eprintln!("skipped: no directory on a disk") };
        let error = Site::open(parent.path().to_str().unwrap(), &sizes(&["wal", "db"], 1 << 60)).map(drop).unwrap_err();
        assert!(error.to_string().contains("its files need 2.31 EB"), "{error}");
        assert!(!parent.path().join(OWN_DIR).exists());
    }

    #[test]
    fn each_file_has_a_range_of_its_own_on_a_device() {
        let site =
            Site::open("sim:", &[sizes(&["a"], 5_000_000), sizes(&["b"], 1 << 20)].into_iter().flatten().collect())
                .unwrap();
        assert_eq!(site.place("a"), ("sim:".to_owned(), 0));
        assert_eq!(site.place("b"), ("sim:".to_owned(), 5 << 20));
    }
}
