//! A configuration goes to standard output, or to a file: whole, and over another one only by force.

use crate::console;
use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// Where the text goes.
#[derive(Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether one that is there is replaced.
        force: bool,
    },
}

impl Output {
    /// Whether writing could work, as far as it can be told before.
    pub fn check(&self) -> Result<(), Failure> {
        let Self::File { path, force } = self else { return Ok(()) };
        let name = path.display();
        let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(Failure::usage(format!("cannot write to {name} - it is a directory - name a file in it")));
        }
        if !kind.is_file() {
            let what = if kind.is_block_device() { "a drive" } else { "no regular file" };
            return Err(Failure::usage(format!(
                "refusing to write to {name} - it is {what}, and only regular files are replaced - name another file, or \
                 leave --out away for standard output"
            )));
        }
        if *force { Ok(()) } else { Err(exists(path)) }
    }

    /// Writes all of `text`, or leaves everything as it was.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Stdout => console::result(text),
            Self::File { path, force } => {
                self.check()?;
                match replace(path, text.as_bytes(), *force) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
                    Err(error) => Err(Failure::environment(format!(
                        "cannot write the configuration to {} - {error} - nothing was written; name another file",
                        path.display()
                    ))),
                    Ok(()) => Ok(()),
                }
            }
        }
    }
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "refusing to write to {} - it is there already - name another file, or give --force to replace it",
        path.display()
    ))
}

/// Puts a new file in the place of `path`: all of it or nothing, after a power cut too.
fn replace(path: &Path, bytes: &[u8], force: bool) -> io::Result<()> {
    // Through a symbolic link, so that the link stays one.
    let path = if force { fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it names no file"))?);
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = Temporary::create(dir.join(name))?;
    if force && let Ok(replaced) = fs::metadata(&path) {
        temporary.stand_in_for(&replaced)?;
    }
    (&temporary.file).write_all(bytes)?;
    temporary.file.sync_all()?;
    if !force {
        // Claims the name: of two writers one gets it, on every file system.
        OpenOptions::new().write(true).create_new(true).open(&path)?;
    }
    fs::rename(&temporary.path, &path)?;
    File::open(dir).and_then(|dir| dir.sync_all())
}

/// A file that is gone again unless it was renamed.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }

    /// Takes over who may read and write, before there is anything to read.
    fn stand_in_for(&self, replaced: &Metadata) -> io::Result<()> {
        // Only root can give a file to its owner; anybody else's becomes theirs, as any file they make.
        let _ = fchown(&self.file, Some(replaced.uid()), Some(replaced.gid()));
        // After the owner, which takes some bits away when it changes.
        self.file.set_permissions(replaced.permissions())
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
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_by_force_alone_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.conf");
        let to = |force| Output::File { path: path.clone(), force };
        to(false).write("one\n").unwrap();
        assert!(to(false).write("two\n").unwrap_err().message.contains("--force"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        to(true).write("three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_file_keeps_who_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.conf");
        for mode in [0o600, 0o664, 0o444] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Output::File { path: path.clone(), force: true }.write("new").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_link_stays_a_link_and_what_is_no_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Output::File { path: link.clone(), force: true }.write("new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        for path in [dir.path().to_owned(), PathBuf::from("/dev/null")] {
            assert!(Output::File { path, force: true }.write("x").is_err());
        }
    }
}
