//! Atomic replacement of files.
//!
//! A temporary file in the same directory is written, synced and renamed, then the directory is synced. However the
//! program ends, either the old or the new file remains.

use super::dir::{Dir, PRIVATE, SHARED};
use super::only_regular;
use rustix::fs::Stat;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::Path;

/// Files that [`replace`] may overwrite. The path of another file, or of a link, is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceTarget {
    /// A new file: if the path exists, the error is of the kind [`ErrorKind::AlreadyExists`].
    NewFile,
    /// An earlier file of this program: empty, or with this text among its first bytes ([`MARK_WITHIN_BYTES`]). Other
    /// files give an error of the kind [`ErrorKind::AlreadyExists`].
    Own(&'static str),
    /// Like `Own`, but readable by this user only.
    OwnPrivate(&'static str),
    /// A file named by the user: the owner and the permissions are kept.
    UserFile,
}

/// A file's mark of ownership is within this many bytes from its start.
pub const MARK_WITHIN_BYTES: u64 = 4096;

/// Writes `bytes` to `path` atomically, also across a power cut. Errors: a failed system call, or a file that `target`
/// does not include. The old file is then unchanged.
pub fn replace(path: &Path, bytes: &[u8], target: ReplaceTarget) -> io::Result<()> {
    let (dir, name) = Dir::containing(path)?;
    let (temporary, mut file) = Temporary::create(&dir, name, target)?;
    file.write_all(bytes)?;
    temporary.publish(&file)
}

/// Checks in advance that [`replace`] can work, without a lasting change.
pub fn check_replaceable(path: &Path, target: ReplaceTarget) -> io::Result<()> {
    let (dir, name) = Dir::containing(path)?;
    check_existing(&dir, name, target)?;
    Temporary::create(&dir, name, target).map(drop)
}

/// Checks that files can be created in `dir` by creating and removing a file.
pub fn check_dir_writable(dir: &Path) -> io::Result<()> {
    Temporary::create(&Dir::open(dir)?, OsStr::new("x"), ReplaceTarget::NewFile).map(drop)
}

/// A file under a random temporary name, removed on drop unless it was published.
#[derive(Debug)]
pub struct Temporary {
    dir: Dir,
    name: OsString,
    temporary_name: OsString,
    target: ReplaceTarget,
}

impl Temporary {
    /// Creates a file that shall become `name` in `dir`.
    pub fn create(dir: &Dir, name: &OsStr, target: ReplaceTarget) -> io::Result<(Self, File)> {
        let temporary_name = OsString::from(format!(".flashproof-{:016x}.tmp", random()));
        let mode = if matches!(target, ReplaceTarget::OwnPrivate(_)) {
            PRIVATE
        } else {
            SHARED
        };
        let file = dir.create_new(&temporary_name, mode)?;
        let temporary = Self {
            dir: dir.clone(),
            name: name.to_owned(),
            temporary_name,
            target,
        };
        if target == ReplaceTarget::UserFile
            && let Some(replaced) = dir.stat(name)?
        {
            copy_owner_and_mode(&file, &replaced)?;
        }
        Ok((temporary, file))
    }

    pub fn open(&self) -> io::Result<File> {
        self.dir.open_to_read(&self.temporary_name)
    }

    /// Syncs `file`, the file that [`Self::create`] returned, and gives it its final name.
    pub fn publish(self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        match self.target {
            ReplaceTarget::NewFile => self.dir.rename_new(&self.temporary_name, &self.name)?,
            target => {
                check_existing(&self.dir, &self.name, target)?;
                self.dir.rename(&self.temporary_name, &self.name)?;
            }
        }
        self.dir.sync()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Fails after publication, because the temporary name no longer exists.
        let _ = self.dir.remove_file(&self.temporary_name);
    }
}

/// Copies owner and permissions of the replaced file before any content is written.
fn copy_owner_and_mode(file: &File, replaced: &Stat) -> io::Result<()> {
    // Only root can change the owner. Without root, the new file belongs to the user who runs this program.
    let _ = fchown(file, Some(replaced.st_uid), Some(replaced.st_gid));
    // The mode is set after the owner, because changing the owner clears some permission bits.
    file.set_permissions(Permissions::from_mode(replaced.st_mode & 0o7777))
}

/// Errors: the entry `name` is not a regular file, or flashproof did not write the file although `target` demands this.
fn check_existing(dir: &Dir, name: &OsStr, target: ReplaceTarget) -> io::Result<()> {
    let Some(stat) = dir.stat(name)? else {
        return Ok(());
    };
    only_regular(stat.st_mode, "replaced")?;
    let (ReplaceTarget::Own(mark) | ReplaceTarget::OwnPrivate(mark)) = target else {
        return Ok(());
    };
    let mut head = Vec::new();
    dir.open_to_read(name)?
        .take(MARK_WITHIN_BYTES)
        .read_to_end(&mut head)?;
    if head.is_empty() || memchr::memmem::find(&head, mark.as_bytes()).is_some() {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        "a file that flashproof did not write has this name",
    ))
}

/// A number that others cannot guess: the standard library takes the keys of its hash maps from the kernel.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
