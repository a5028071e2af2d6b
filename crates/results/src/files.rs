//! Reading of files given by users, and atomic replacement of this program's files.
//!
//! A path given as a configuration, a log or a run can be a FIFO that blocks a read forever, `/dev/zero` that never
//! ends, or a link to another directory. So this module usually reads only regular files, and only up to a maximum
//! size.
//!
//! Atomic replacement: a temporary file in the same directory is written, synced and renamed, then the directory is
//! synced. However the program ends, either the old or the new file remains.

use rustix::fs::OFlags;
use std::fs::{self, File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Marker within the first kilobyte of an HTML report: flashproof recognises its own files by it.
pub const HTML_MARK: &str = "<meta name=\"generator\" content=\"flashproof\">";

/// Handling of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// For paths given by a user, which may be links.
    Followed,
    /// For files of this program, which are never links.
    Refused,
}

/// Opens a regular file to read. Errors: a failed system call, or the path is not a regular file; the error names the
/// type.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let (metadata, flags) = match links {
        Links::Followed => (fs::metadata(path)?, OFlags::empty()),
        Links::Refused => (fs::symlink_metadata(path)?, OFlags::NOFOLLOW),
    };
    // Checked before opening: opening a device can have side effects, and opening a FIFO waits for its writer.
    only_regular(&metadata)?;
    let flags = (flags | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    only_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file of this program to append, and creates the file if it is missing. Links are refused.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().append(true).read(true).create(true).custom_flags(flags).open(path)?;
    only_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads the next line into `line`, without the newline. Of a line longer than `bytes_max` bytes, the rest is skipped
/// unbuffered. Returns false at the end of `input`.
pub fn next_line(input: &mut impl BufRead, bytes_max: u64, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if input.by_ref().take(bytes_max).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
    } else if line.len() as u64 == bytes_max {
        input.skip_until(b'\n')?;
    }
    Ok(true)
}

/// Like [`open`], for a user's path. `/dev/stdin` and `/dev/fd/N` (`--log <(zcat LOG)`) may be pipes.
pub fn open_user_path(path: &Path, links: Links) -> io::Result<File> {
    if path.starts_with("/dev/fd") || path.starts_with("/dev/stdin") { File::open(path) } else { open(path, links) }
}

/// Reads a regular file of at most `bytes_max` bytes. Errors: as [`open`], or the file is longer.
pub fn read(path: &Path, links: Links, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open(path, links)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    // The limit also holds for a file that grows during the read.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("it has {} bytes, and at most {bytes_max} are read", length.max(bytes.len() as u64));
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

fn only_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    match kind.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            if kind.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput },
            format!("it is {}, and only regular files are read", file_type_name(kind)),
        )),
    }
}

/// The type of a file in words.
pub fn file_type_name(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_file() => "a regular file",
        _ if kind.is_dir() => "a directory",
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_block_device() => "a drive",
        _ if kind.is_char_device() => "a character device",
        _ => "a socket",
    }
}

/// Files that [`replace`] may overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceTarget {
    /// A new file: if the path exists, the error is of the kind [`ErrorKind::AlreadyExists`].
    NewFile,
    /// A file of this program, or a link at its path.
    Own,
    /// Like `Own`, but readable by this user only.
    OwnPrivate,
    /// A file named by the user: the owner, the permissions, and links to the file are kept.
    UserFile,
}

/// Writes `bytes` to `path` atomically, also across a power cut.
///
/// Errors: a failed system call. The old file is then unchanged.
pub fn replace(path: &Path, bytes: &[u8], target: ReplaceTarget) -> io::Result<()> {
    let path = match target {
        ReplaceTarget::UserFile => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        _ => path.to_owned(),
    };
    if path.file_name().is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it names no file"));
    }
    let dir = dir_of(&path);
    let temporary = Temporary::create(dir, if target == ReplaceTarget::OwnPrivate { 0o600 } else { 0o666 })?;
    if target == ReplaceTarget::UserFile
        && let Ok(replaced) = fs::metadata(&path)
    {
        temporary.copy_owner_and_mode(&replaced)?;
    }
    (&temporary.file).write_all(bytes)?;
    temporary.file.sync_all()?;
    if target == ReplaceTarget::NewFile {
        // Claims the name exclusively: of two writers, only one succeeds, on every file system.
        OpenOptions::new().write(true).create_new(true).open(&path)?;
    }
    fs::rename(&temporary.path, &path).inspect_err(|_| {
        if target == ReplaceTarget::NewFile {
            let _ = fs::remove_file(&path);
        }
    })?;
    sync_dir(dir)
}

/// Writes to an open descriptor named by a path: `/dev/stdout`, `/dev/fd/63`. Errors: a failed system call, or a pipe
/// without a reader; the function does not wait for a reader.
pub fn write_to_open(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    // Only the open must not block; an existing reader may be slow.
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    (&file).write_all(bytes)
}

/// The directory that contains `path`.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the entries of `dir` are on the disk, if the file system supports and permits this.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        // Some network file systems cannot sync directories. A directory may be writable, but not readable.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

/// Checks that files can be created in `dir` by creating and removing a file.
pub fn check_dir_writable(dir: &Path) -> io::Result<()> {
    Temporary::create(dir, 0o600).map(drop)
}

/// A temporary file, removed on drop unless it was renamed.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(dir: &Path, mode: u32) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".flashproof-{}-{number}.tmp", std::process::id()));
        // A killed process with the same PID may have left the file: in a container, PIDs recur.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        Ok(Self { path, file })
    }

    /// Copies owner and permissions of the replaced file before any content is written.
    fn copy_owner_and_mode(&self, replaced: &Metadata) -> io::Result<()> {
        // Only root can change the owner. Without root, the new file belongs to the user who runs this program.
        let _ = fchown(&self.file, Some(replaced.uid()), Some(replaced.gid()));
        // The mode is set after the owner, because changing the owner clears some permission bits.
        self.file.set_permissions(Permissions::from_mode(replaced.mode() & 0o7777))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn only_regular_files_are_read_and_none_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        assert_eq!(read(&at("file"), Links::Refused, 4).unwrap(), b"text");
        assert_eq!(read(&at("link"), Links::Followed, 4).unwrap(), b"text");
        for (path, links, what) in [
            (at("link"), Links::Refused, "it is a symbolic link, and only regular files are read"),
            (at("fifo"), Links::Followed, "it is a pipe, and only regular files are read"),
            (dir.path().to_owned(), Links::Followed, "it is a directory, and only"),
            (PathBuf::from("/dev/zero"), Links::Followed, "it is a character device, and only"),
        ] {
            let error = open(&path, links).unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
        assert_eq!(open(&at("none"), Links::Followed).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, Links::Followed, 1000).unwrap_err().to_string();
        assert_eq!(error, "it has 1099511627776 bytes, and at most 1000 are read");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        replace(&path, b"one", ReplaceTarget::NewFile).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(replace(&path, b"two", ReplaceTarget::NewFile).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        for over in [ReplaceTarget::Own, ReplaceTarget::OwnPrivate, ReplaceTarget::UserFile] {
            replace(&path, b"two", over).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"two");
        }
        assert_eq!(io::read_to_string(reader).unwrap(), "one", "whoever reads the older one is not torn away from it");
        assert!(replace(&dir.path().join("none/report.html"), b"x", ReplaceTarget::Own).is_err());
        assert!(replace(Path::new("/"), b"x", ReplaceTarget::Own).is_err());
        assert_eq!(names(dir.path()), ["report.html"]);
    }

    #[test]
    fn what_a_killed_process_of_the_same_number_left_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..200 {
            fs::write(dir.path().join(format!(".flashproof-{}-{number}.tmp", std::process::id())), "half").unwrap();
        }
        replace(&dir.path().join("a"), b"whole", ReplaceTarget::NewFile).unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"whole");
    }

    #[test]
    fn a_named_file_keeps_who_may_read_it_and_a_link_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("b"));
        symlink(&file, &link).unwrap();
        for mode in [0o600, 0o664, 0o444] {
            fs::write(&file, "old").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            replace(&link, b"new", ReplaceTarget::UserFile).unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, mode);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            fs::remove_file(&file).unwrap();
        }
        // A file of this program replaces a link, and the target of the link stays unchanged.
        fs::write(&file, "foreign").unwrap();
        replace(&link, b"own", ReplaceTarget::OwnPrivate).unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read(&link).unwrap()), (b"foreign".to_vec(), b"own".to_vec()));
        assert_eq!(fs::symlink_metadata(&link).unwrap().mode() & 0o777, 0o600);
    }
}
