//! The only place that reads files given by others, and that replaces this program's own files as a whole.
//!
//! A path given as a configuration, a log or a run can be anything: a FIFO that never ends a read, `/dev/zero` that
//! never ends, a link out of the directory. So only regular files are read, as a rule, and never more than the caller
//! can use.
//!
//! A file is replaced atomically by one that is already on the disk: written beside it, synced, renamed, and the
//! directory synced. Whatever ends the program leaves the old file or the new one.

use rustix::fs::OFlags;
use std::fs::{self, File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Handling of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Somebody named the path, and may have linked it.
    Followed,
    /// This program writes the file, and it writes no links.
    Refused,
}

/// Opens a regular file to read. Errors: a failed system call; another type of file, which the message names.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let (metadata, flags) = match links {
        Links::Followed => (fs::metadata(path)?, OFlags::empty()),
        Links::Refused => (fs::symlink_metadata(path)?, OFlags::NOFOLLOW),
    };
    // Checked first: opening a device can have side effects, and opening a FIFO waits for its writer.
    only_regular(&metadata)?;
    let flags = (flags | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    only_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file of this program's own to append, and creates it if it is missing. Links are refused.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().append(true).read(true).create(true).custom_flags(flags).open(path)?;
    only_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads the next line without its end. Of a longer line the first `bytes_max` bytes are kept; the rest is skipped
/// without buffering it. False at the end of `input`.
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

/// As [`open`], for a path given by a user: a shell's process substitution (`--log <(zcat LOG)`) may be a pipe.
pub fn open_given(path: &Path, links: Links) -> io::Result<File> {
    if path.starts_with("/dev/fd") || path.starts_with("/dev/stdin") { File::open(path) } else { open(path, links) }
}

/// Reads a regular file of at most `bytes_max` bytes. Errors: those of [`open`]; the file is longer.
pub fn read(path: &Path, links: Links, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open(path, links)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    // A file that grows meanwhile is read no further than one that was too long from the beginning.
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
            format!("it is {}, and only regular files are read", name_of(kind)),
        )),
    }
}

/// Describes the type of a file.
pub fn name_of(kind: FileType) -> &'static str {
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
pub enum Over {
    /// Nothing: a file that is there is an error of the kind [`ErrorKind::AlreadyExists`].
    Nothing,
    /// A file of this program's own, or a link in its place.
    Own,
    /// Likewise, readable by this user only.
    OwnPrivate,
    /// A file that somebody named: a link to it stays one, and its owner and permissions stay.
    Named,
}

/// Writes `bytes` to `path`, whole or not at all, after a power cut too.
///
/// Errors: a failed system call; then the old file is unchanged.
pub fn replace(path: &Path, bytes: &[u8], over: Over) -> io::Result<()> {
    let path = match over {
        Over::Named => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        _ => path.to_owned(),
    };
    if path.file_name().is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it names no file"));
    }
    let dir = dir_of(&path);
    let temporary = Temporary::create(dir, if over == Over::OwnPrivate { 0o600 } else { 0o666 })?;
    if over == Over::Named
        && let Ok(replaced) = fs::metadata(&path)
    {
        temporary.stand_in_for(&replaced)?;
    }
    (&temporary.file).write_all(bytes)?;
    temporary.file.sync_all()?;
    if over == Over::Nothing {
        // Claims the name: of two writers one gets it, on every file system.
        OpenOptions::new().write(true).create_new(true).open(&path)?;
    }
    fs::rename(&temporary.path, &path).inspect_err(|_| {
        if over == Over::Nothing {
            let _ = fs::remove_file(&path);
        }
    })?;
    sync_dir(dir)
}

/// Writes to an open descriptor named by a path: `/dev/stdout`, `/dev/fd/63`. Errors: a failed system call; a pipe
/// without a reader, which is not waited for.
pub fn write_to_open(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    // Only opening must not wait; a reader that is there may be slow.
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    (&file).write_all(bytes)
}

/// The directory that `path` is in.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the names in `dir` are on the disk, where the file system can do that and lets us.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        // Some network file systems sync no directories; a directory may be writable and not readable.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

/// Checks by trial that files can be created in `dir`; leaves nothing behind.
pub fn try_dir(dir: &Path) -> io::Result<()> {
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
        // Left by a killed process with the same PID: in a container PIDs recur.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        Ok(Self { path, file })
    }

    /// Copies owner and permissions of the replaced file before any content is written.
    fn stand_in_for(&self, replaced: &Metadata) -> io::Result<()> {
        // Only root can change the owner; for other users the file stays their own, as any file that they create.
        let _ = fchown(&self.file, Some(replaced.uid()), Some(replaced.gid()));
        // After the owner: changing it clears some permission bits.
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
        replace(&path, b"one", Over::Nothing).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(replace(&path, b"two", Over::Nothing).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        for over in [Over::Own, Over::OwnPrivate, Over::Named] {
            replace(&path, b"two", over).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"two");
        }
        assert_eq!(io::read_to_string(reader).unwrap(), "one", "whoever reads the older one is not torn away from it");
        assert!(replace(&dir.path().join("none/report.html"), b"x", Over::Own).is_err());
        assert!(replace(Path::new("/"), b"x", Over::Own).is_err());
        assert_eq!(names(dir.path()), ["report.html"]);
    }

    #[test]
    fn what_a_killed_process_of_the_same_number_left_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..200 {
            fs::write(dir.path().join(format!(".flashproof-{}-{number}.tmp", std::process::id())), "half").unwrap();
        }
        replace(&dir.path().join("a"), b"whole", Over::Nothing).unwrap();
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
            replace(&link, b"new", Over::Named).unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, mode);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            fs::remove_file(&file).unwrap();
        }
        // Our own file replaces a link, and the link's target stays unchanged.
        fs::write(&file, "foreign").unwrap();
        replace(&link, b"own", Over::OwnPrivate).unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read(&link).unwrap()), (b"foreign".to_vec(), b"own".to_vec()));
        assert_eq!(fs::symlink_metadata(&link).unwrap().mode() & 0o777, 0o600);
    }
}
