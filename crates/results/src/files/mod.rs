//! All access to files: every file that flashproof reads for a user, writes, renames or removes goes through this
//! module. `clippy.toml` forbids other access; each exception names its reason.
//!
//! A path given as a configuration, a log or a run can be a FIFO that blocks a read forever, `/dev/zero` that never
//! ends, or a link to another directory. So this module usually reads only regular files, and only up to a maximum
//! size.
//!
//! * Directories are held by descriptor (`dir`), if users that are not trusted (`trust`) can change them.
//! * The last component of a written path is never a link. Only regular files are replaced or removed.
//! * A file is replaced atomically (`replace`), and only if flashproof wrote it, or if the user named it.

#![cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "this is the door")
)]

mod dir;
mod replace;
mod trust;

pub use dir::{
    Dir, NewDirs, PRIVATE, SHARED, create_dir, create_dirs, create_new, create_private_dirs,
    open_to_append, remove_dir, remove_file, rename_new, stable_path, sync_dir,
};
pub use replace::{
    MARK_WITHIN_BYTES, ReplaceTarget, Temporary, check_dir_writable, check_replaceable, replace,
};
pub use tempfile::TempDir;
pub use trust::{Instructions, require_trusted, require_trusted_file};

use rustix::fs::{FileType, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Marker at the start of an HTML report, by which flashproof recognises its own files.
pub const HTML_MARK: &str = "<meta name=\"generator\" content=\"flashproof\">";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// For paths given by a user, which may be links.
    Followed,
    /// For files of this program, which are never links.
    Refused,
}

/// Errors: a failed system call, or the path is not a regular file; the error names the type.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let path = &*stable_path(path);
    let (metadata, flags) = match links {
        Links::Followed => (fs::metadata(path)?, OFlags::empty()),
        Links::Refused => (fs::symlink_metadata(path)?, OFlags::NOFOLLOW),
    };
    // Checked before opening: opening a device can have side effects, and opening a FIFO waits for its writer.
    only_regular(metadata.mode(), "read")?;
    let flags = (flags | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    only_regular(file.metadata()?.mode(), "read")?;
    Ok(file)
}

/// Reads the next line into `line`, without newline. Bytes after `bytes_max` are skipped unbuffered. False at the end.
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
    if path.starts_with("/dev/fd") || path.starts_with("/dev/stdin") {
        File::open(path)
    } else {
        open(path, links)
    }
}

/// Reads at most `bytes_max` bytes of a user's path. Errors: as [`open_user_path`], or the input is longer.
pub fn read_user_path(path: &Path, links: Links, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_open(open_user_path(path, links)?, bytes_max)
}

/// Reads a regular file of at most `bytes_max` bytes. Errors: as [`open`], or the file is longer.
pub fn read(path: &Path, links: Links, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_open(open(path, links)?, bytes_max)
}

/// Opens a file that flashproof follows: a campaign, a journal, a record. Errors: as [`open`], or an untrusted user can
/// change the file or its name.
pub fn open_instructions(path: &Path, links: Links, kind: Instructions) -> io::Result<File> {
    let file = open(path, links)?;
    trust::check_instructions(path, &file, kind)?;
    Ok(file)
}

/// Reads a file that flashproof follows. Errors: as [`open_instructions`] and [`read`].
pub fn read_instructions(
    path: &Path,
    links: Links,
    kind: Instructions,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    read_open(open_instructions(path, links, kind)?, bytes_max)
}

fn read_open(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    // The limit also holds for a file that grows during the read.
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!(
            "it has {} bytes, and at most {bytes_max} are read",
            length.max(bytes.len() as u64)
        );
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

/// Errors: the file with this `st_mode` is not a regular file; the error names its type. `used`: "read", "written".
fn only_regular(mode: u32, used: &str) -> io::Result<()> {
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => ErrorKind::IsADirectory,
        _ => ErrorKind::InvalidInput,
    };
    Err(io::Error::new(
        kind,
        format!(
            "it is {}, and only regular files are {used}",
            file_type_name(mode)
        ),
    ))
}

pub fn file_type_name(mode: u32) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::BlockDevice => "a drive",
        FileType::CharacterDevice => "a character device",
        FileType::Socket | FileType::Unknown => "a socket",
    }
}

/// Writes to an open descriptor named by a path: `/dev/stdout`, `/dev/fd/63`. Errors: a failed system call, or a pipe
/// without a reader; the function does not wait for a reader.
pub fn write_to_open(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    // Only the open must not block; an existing reader may be slow.
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    (&file).write_all(bytes)
}

/// True for a writable path other than a file: an open descriptor (`/dev/fd/63`, a shell's pipe), terminal, /dev/null.
pub fn is_open_path(path: &Path) -> bool {
    [
        "/dev/stdout",
        "/dev/stderr",
        "/dev/fd",
        "/dev/tty",
        "/dev/null",
    ]
    .iter()
    .any(|open| path.starts_with(open))
}

/// Opens a user's output to append: a regular file, created if it is missing, or a path of [`is_open_path`].
pub fn open_output_to_append(path: &Path) -> io::Result<File> {
    if is_open_path(path) {
        return OpenOptions::new().append(true).open(path);
    }
    open_to_append(path, SHARED)
}

pub fn dir_of(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A temporary directory with a random name in `parent`, removed with its content when dropped. Errors: another user
/// could replace the directory: `parent` needs the sticky bit, as /tmp has it.
pub fn temporary_dir(prefix: &str, parent: &Path) -> io::Result<TempDir> {
    if let Some(changeable) = trust::changeable(parent)? {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            changeable.to_string(),
        ));
    }
    tempfile::Builder::new().prefix(prefix).tempdir_in(parent)
}

pub fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    only_regular(file.metadata()?.mode(), "written")?;
    file.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::process::Command;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn only_regular_files_are_read_and_a_pipe_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(at("fifo"))
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(read(&at("file"), Links::Refused, 4).unwrap(), b"text");
        assert_eq!(read(&at("link"), Links::Followed, 4).unwrap(), b"text");
        for (path, links, what) in [
            (
                at("link"),
                Links::Refused,
                "it is a symbolic link, and only regular files are read",
            ),
            (
                at("fifo"),
                Links::Followed,
                "it is a pipe, and only regular files are read",
            ),
            (
                dir.path().to_owned(),
                Links::Followed,
                "it is a directory, and only",
            ),
            (
                PathBuf::from("/dev/zero"),
                Links::Followed,
                "it is a character device, and only",
            ),
        ] {
            let error = open(&path, links).unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
        let found = open(&at("none"), Links::Followed).unwrap_err().kind();
        assert_eq!(found, ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, Links::Followed, 1000).unwrap_err().to_string();
        assert_eq!(
            error,
            "it has 1099511627776 bytes, and at most 1000 are read"
        );
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        replace(&path, b"one", ReplaceTarget::NewFile).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(
            replace(&path, b"two", ReplaceTarget::NewFile)
                .unwrap_err()
                .kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&path).unwrap(), b"one");
        for over in [
            ReplaceTarget::Own("one"),
            ReplaceTarget::OwnPrivate("two"),
            ReplaceTarget::UserFile,
        ] {
            replace(&path, b"two", over).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"two");
        }
        assert_eq!(
            io::read_to_string(reader).unwrap(),
            "one",
            "a reader of the replaced file still gets its content"
        );
        assert!(
            replace(
                &dir.path().join("none/report.html"),
                b"x",
                ReplaceTarget::UserFile
            )
            .is_err()
        );
        assert!(replace(Path::new("/"), b"x", ReplaceTarget::UserFile).is_err());
        assert_eq!(names(dir.path()), ["report.html"]);
    }

    #[test]
    fn a_file_named_by_the_user_keeps_its_owner_and_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        for mode in [0o600, 0o664, 0o444] {
            fs::write(&file, "old").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            replace(&file, b"new", ReplaceTarget::UserFile).unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, mode);
            fs::remove_file(&file).unwrap();
        }
        fs::write(&file, "old").unwrap();
        replace(&file, b"own", ReplaceTarget::OwnPrivate("old")).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn neither_links_nor_files_of_others_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let link = dir.path().join("link");
        symlink("file", &link).unwrap();
        for before in [None, Some("of somebody")] {
            before
                .into_iter()
                .for_each(|text| fs::write(&file, text).unwrap());
            for target in [
                ReplaceTarget::NewFile,
                ReplaceTarget::Own("mark"),
                ReplaceTarget::UserFile,
            ] {
                replace(&link, b"x", target).unwrap_err();
                assert!(link.is_symlink());
                assert_eq!(fs::read_to_string(&file).ok().as_deref(), before);
            }
        }
        for target in [
            ReplaceTarget::Own("mark"),
            ReplaceTarget::OwnPrivate("mark"),
        ] {
            let error = replace(&file, b"x", target).unwrap_err();
            let found = error.to_string();
            assert_eq!(found, "a file that flashproof did not write has this name");
        }
        assert_eq!(names(dir.path()), ["file", "link"]);
    }
}
