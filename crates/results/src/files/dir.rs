//! Directories that flashproof writes into, by descriptor.
//!
//! A path is resolved once: a directory that an untrusted user can change is held open, and every later path to or
//! through this directory begins at its descriptor ([`HELD`]). Such a user can rename the directory, or put a link in
//! its place, but cannot move our writes elsewhere.

use super::trust::{Changeable, walk};
use super::{dir_of, only_regular};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    /// The path by which the directory was opened, for messages.
    path: PathBuf,
    changeable: Option<Changeable>,
}

/// The directories that untrusted users can change, by absolute path.
static HELD: Mutex<BTreeMap<PathBuf, Dir>> = Mutex::new(BTreeMap::new());

fn open_dirs() -> MutexGuard<'static, BTreeMap<PathBuf, Dir>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Absolute form of `path`; links are not resolved. The working directory is read once: other processes can rename it.
fn absolute(path: &Path) -> PathBuf {
    static WORKING_DIR: LazyLock<PathBuf> =
        LazyLock::new(|| std::env::current_dir().unwrap_or_default());
    WORKING_DIR.join(path).components().collect()
}

/// The nearest held directory at or above `path`, and the rest of the path.
fn open_above(path: &Path) -> Option<(Dir, PathBuf)> {
    let open_dirs = open_dirs();
    let found = path
        .ancestors()
        .find_map(|above| Some((open_dirs.get(above)?.clone(), above)))?;
    Some((found.0, path.strip_prefix(found.1).ok()?.to_owned()))
}

/// `path`, or the same file through `/proc/self/fd/N` if a held directory is above `path`. For calls that need a path.
pub fn stable_path(path: &Path) -> Cow<'_, Path> {
    match open_above(&absolute(path)) {
        Some((dir, rest)) => Cow::Owned(
            Path::new("/proc/self/fd")
                .join(dir.fd.as_raw_fd().to_string())
                .join(rest),
        ),
        None => Cow::Borrowed(path),
    }
}

impl Dir {
    /// Opens the existing directory at `path`. Links on the way are followed once.
    pub fn open(path: &Path) -> io::Result<Self> {
        let key = absolute(path);
        let (reached, above) = match open_above(&key) {
            Some((dir, rest)) if rest.as_os_str().is_empty() => return Ok(dir),
            Some((dir, rest)) => (walk(dir.fd.as_fd(), &dir.path, &rest)?, dir.changeable),
            None => (walk(CWD, Path::new(""), path)?, None),
        };
        let dir = Self {
            fd: Arc::new(reached.fd),
            path: path.to_owned(),
            changeable: above.or(reached.changeable),
        };
        if dir.changeable.is_some() {
            open_dirs().insert(key, dir.clone());
        }
        Ok(dir)
    }

    /// The parent directory of `path`, and the last component of `path`.
    pub(super) fn containing(path: &Path) -> io::Result<(Self, &OsStr)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it names no file"))?;
        Ok((Self::open(dir_of(path))?, name))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A descriptor for fsync and for reading the entries.
    pub fn open_to_sync(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?.into())
    }

    /// Waits until the entries are on the disk, if the file system supports and permits this.
    pub fn sync(&self) -> io::Result<()> {
        match self.open_to_sync().and_then(|dir| dir.sync_all()) {
            // Some network file systems cannot sync directories. A directory may be writable, but not readable.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidInput | ErrorKind::PermissionDenied
                ) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    /// Metadata of the entry `name`, not of a link's target; `None` if there is none.
    pub fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, plain(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Names of all entries, without `.` and `..`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// True if the entry `name` of `parent` is this directory.
    pub fn is_at(&self, parent: &Self, name: &OsStr) -> bool {
        let own = rustix::fs::fstat(&self.fd);
        let entry = parent.stat(name).ok().flatten();
        own.is_ok_and(|own| {
            entry.is_some_and(|entry| (entry.st_dev, entry.st_ino) == (own.st_dev, own.st_ino))
        })
    }

    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// Creates a file to append and read. Errors: `name` exists; the directory is /dev (a mistyped device).
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.refuse_dev()?;
        self.open_regular(
            name,
            OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
            mode,
        )
    }

    /// Opens `name` to append, or creates it with `mode`. Errors: not a regular file, or a new file in /dev.
    pub fn open_to_append(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        match self.stat(name)? {
            // Checked before opening: opening a device can have side effects.
            Some(stat) => only_regular(stat.st_mode, "written")?,
            None => self.refuse_dev()?,
        }
        self.open_regular(name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE, mode)
    }

    /// Opens the file `name` to read. Errors: it is missing or not a regular file.
    pub fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
        only_regular(self.stat(name)?.ok_or(ErrorKind::NotFound)?.st_mode, "read")?;
        self.open_regular(name, OFlags::RDONLY, 0)
    }

    fn open_regular(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(
            &self.fd,
            plain(name)?,
            flags,
            Mode::from_raw_mode(mode),
        )?);
        only_regular(file.metadata()?.mode(), "used")?;
        Ok(file)
    }

    fn refuse_dev(&self) -> io::Result<()> {
        let real_path = std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
            .unwrap_or_default();
        if real_path.starts_with("/dev") && !real_path.starts_with("/dev/shm") {
            let why = "files are not created in /dev: is a device missing?";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Ok(())
    }

    /// Creates the directory `name`, and opens it. Errors: the name exists.
    pub fn create_dir(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.fd, plain(name)?, Mode::from_raw_mode(mode))?;
        // Forgets a held directory of this name, which another process has removed.
        open_dirs().remove(&absolute(&self.path.join(name)));
        let dir = self.open_dir(name)?;
        if self.changeable.is_some()
            && dir.own_stat()?.st_uid != rustix::process::geteuid().as_raw()
        {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "another user replaced it when it was created",
            ));
        }
        Ok(dir)
    }

    /// Opens the directory `name`. Errors: it is missing, a symbolic link, or no directory.
    pub fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        let dir = Self::open(&self.path.join(plain(name)?))?;
        if !dir.is_at(self, name) {
            return Err(io::Error::new(
                ErrorKind::NotADirectory,
                "it is a symbolic link",
            ));
        }
        Ok(dir)
    }

    /// Removes the regular file `name`. Errors: it is missing or not a regular file.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        only_regular(
            self.stat(name)?.ok_or(ErrorKind::NotFound)?.st_mode,
            "removed",
        )?;
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    pub fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        rustix::fs::unlinkat(&self.fd, plain(name)?, AtFlags::REMOVEDIR)?;
        open_dirs().remove(&absolute(&self.path.join(name)));
        Ok(())
    }

    /// Renames an entry, over an existing file `to`.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            &self.fd,
            plain(from)?,
            &self.fd,
            plain(to)?,
        )?)
    }

    /// Renames an entry. Errors: `to` exists.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(
            &self.fd,
            plain(from)?,
            &self.fd,
            plain(to)?,
            RenameFlags::NOREPLACE,
        ) {
            Err(Errno::INVAL | Errno::NOSYS) => self.claim_and_rename(from, to)?,
            renamed => renamed?,
        }
        open_dirs().remove(&absolute(&self.path.join(from)));
        Ok(())
    }

    /// [`Self::rename_new`] on file systems without the flag, such as NFS: creates `to` exclusively, then replaces it.
    fn claim_and_rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let stat = self.stat(from)?.ok_or(ErrorKind::NotFound)?;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let flags = if is_dir {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        if is_dir {
            rustix::fs::mkdirat(&self.fd, to, Mode::RWXU)?;
        } else {
            self.create_new(to, PRIVATE)?;
        }
        self.rename(from, to).inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&self.fd, to, flags);
        })
    }
}

/// Checks that `name` is a single component, so that it cannot lead out of its directory.
fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a plain file name",
        )),
    }
}

/// Mode of files that other users may read, less the umask.
pub const SHARED: u32 = 0o666;
/// Mode of files that only this user may read.
pub const PRIVATE: u32 = 0o600;

/// Creates the directory `path` and the missing directories above. Returns the created directories.
pub fn create_dirs(path: &Path) -> io::Result<NewDirs> {
    create_dirs_with_mode(path, 0o777)
}

/// As [`create_dirs`], for directories that only this user may read.
pub fn create_private_dirs(path: &Path) -> io::Result<NewDirs> {
    create_dirs_with_mode(path, 0o700)
}

fn create_dirs_with_mode(path: &Path, mode: u32) -> io::Result<NewDirs> {
    let mut created = NewDirs(Vec::new());
    create_missing(path, mode, &mut created)
        .inspect_err(|_| created.remove())
        .map(drop)?;
    Ok(created)
}

fn create_missing(path: &Path, mode: u32, created: &mut NewDirs) -> io::Result<Dir> {
    match Dir::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && path.file_name().is_some() => {}
        opened => return opened,
    }
    let parent = create_missing(dir_of(path), mode, created)?;
    let name = path.file_name().unwrap_or_default();
    match parent.create_dir(name, mode) {
        // Another process created the directory at the same time.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Dir::open(path),
        dir => {
            created.0.push((parent, name.to_owned()));
            dir
        }
    }
}

/// Directories that [`create_dirs`] created, the outermost first.
#[derive(Debug, Default)]
pub struct NewDirs(Vec<(Dir, OsString)>);

impl NewDirs {
    /// Removes the directories that are still empty, for an operation that was refused.
    pub fn remove(&self) {
        for (parent, name) in self.0.iter().rev() {
            let _ = parent.remove_dir(name);
        }
    }
}

/// Creates the directory `path`, whose parent exists. Errors: the path exists.
pub fn create_dir(path: &Path) -> io::Result<Dir> {
    let (parent, name) = Dir::containing(path)?;
    parent.create_dir(name, 0o777)
}

pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let (dir, name) = Dir::containing(path)?;
    dir.create_new(name, mode)
}

pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    let (dir, name) = Dir::containing(path)?;
    dir.open_to_append(name, mode)
}

pub fn remove_file(path: &Path) -> io::Result<()> {
    let (dir, name) = Dir::containing(path)?;
    dir.remove_file(name)
}

pub fn remove_dir(path: &Path) -> io::Result<()> {
    let (dir, name) = Dir::containing(path)?;
    dir.remove_dir(name)
}

/// Renames `path` within its directory. Errors: `name` exists.
pub fn rename_new(path: &Path, name: &OsStr) -> io::Result<()> {
    let (dir, old_name) = Dir::containing(path)?;
    dir.rename_new(old_name, name)
}

pub fn sync_dir(dir: &Path) -> io::Result<()> {
    Dir::open(dir)?.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory that all users can change, and its path.
    fn open_to_all() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("theirs");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        (top, dir)
    }

    #[test]
    fn a_directory_that_others_can_change_is_held_open_for_the_whole_process() {
        let (top, theirs) = open_to_all();
        let results = theirs.join("results");
        create_dirs(&results).unwrap();
        let victim = top.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::rename(&results, theirs.join("moved")).unwrap();
        symlink(&victim, &results).unwrap();
        create_new(&results.join("new"), PRIVATE).unwrap();
        create_dirs(&results.join("a/b")).unwrap();
        super::super::replace(
            &results.join("a/b/whole"),
            b"text",
            super::super::ReplaceTarget::NewFile,
        )
        .unwrap();
        fs::write(victim.join("new"), "of somebody").unwrap();
        remove_file(&results.join("new")).unwrap();
        assert!(victim.join("new").exists() && !theirs.join("moved/new").exists());
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
        assert_eq!(fs::read(theirs.join("moved/a/b/whole")).unwrap(), b"text");
        let found = fs::read(stable_path(&results.join("a/b/whole"))).unwrap();
        assert_eq!(found, b"text");
    }

    #[test]
    fn a_removed_directory_can_be_created_again() {
        let (_top, theirs) = open_to_all();
        for _ in 0..2 {
            create_dirs(&theirs.join("a/b")).unwrap().remove();
            assert!(!theirs.join("a").exists());
        }
        create_dirs(&theirs.join("a")).unwrap();
        fs::remove_dir(theirs.join("a")).unwrap();
        assert!(create_new(&theirs.join("a/x"), PRIVATE).is_err());
    }

    #[test]
    fn only_plain_names_and_regular_files_are_touched() {
        let top = tempfile::tempdir().unwrap();
        let dir = Dir::open(top.path()).unwrap();
        fs::write(top.path().join("file"), "text").unwrap();
        symlink("file", top.path().join("link")).unwrap();
        symlink("missing", top.path().join("dangling")).unwrap();
        for name in ["../x", "/tmp/x", "a/b", ".", "..", "", "x/"] {
            assert!(dir.create_new(OsStr::new(name), 0o600).is_err(), "{name}");
            assert!(dir.remove_file(OsStr::new(name)).is_err(), "{name}");
        }
        for name in ["link", "dangling"] {
            let path = top.path().join(name);
            assert!(
                create_new(&path, PRIVATE).is_err()
                    && open_to_append(&path, PRIVATE).is_err()
                    && remove_file(&path).is_err()
            );
            assert!(dir.open_to_read(OsStr::new(name)).is_err() && path.is_symlink());
        }
        assert!(!top.path().join("missing").exists());
        rename_new(&top.path().join("file"), OsStr::new("other")).unwrap();
        fs::write(top.path().join("file"), "new").unwrap();
        for renamed in [Dir::rename_new, Dir::claim_and_rename] {
            let error = renamed(&dir, OsStr::new("file"), OsStr::new("other")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(top.path().join("other")).unwrap(), b"text");
        dir.claim_and_rename(OsStr::new("file"), OsStr::new("third"))
            .unwrap();
        assert_eq!(fs::read(top.path().join("third")).unwrap(), b"new");
    }

    #[test]
    fn no_file_is_created_in_dev() {
        for path in [
            "/dev/flashproof-no-such-device",
            "/dev/../dev/flashproof-no-such-device",
        ] {
            for created in [
                create_new(Path::new(path), PRIVATE),
                open_to_append(Path::new(path), PRIVATE),
            ] {
                let text = created.unwrap_err().to_string();
                assert_eq!(text, "files are not created in /dev: is a device missing?");
            }
            assert!(!Path::new(path).exists());
        }
    }
}
