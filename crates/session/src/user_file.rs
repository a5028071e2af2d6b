//! Files named by the user: inputs and outputs. An output is written whole, or not at all.
//!
//! The checks protect against typing errors such as `report DIR --html DIR/manifest.json` or `config --out
//! /dev/nvme0n1`. The path is checked first. An output replaces an earlier output of its kind, or any file with
//! `--force`; it is never written into a run directory, or through a link. The only other destinations are open
//! descriptors such as `/dev/stdout`: opening a FIFO may wait forever for a reader.

use crate::failure::Failure;
use results::files::{self, HTML_MARK, Links, MARK_WITHIN_BYTES, ReplaceTarget, file_type_name};
use results::run_dir::is_run_dir;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// File to which a configuration is written.
#[derive(Debug, Clone)]
pub struct OutputFile {
    pub path: PathBuf,
    pub force: bool,
}

impl OutputFile {
    /// Checks in advance, as far as possible, that writing can work.
    pub fn check(&self) -> Result<(), Failure> {
        let path = &self.path;
        match path_kind(
            path,
            "name another file, or leave out --out for standard output",
        )? {
            PathKind::Nothing => Ok(()),
            PathKind::Open => Err(refused(
                path,
                "only regular files are replaced",
                "leave out --out for standard output",
            )),
            PathKind::File if self.force => Ok(()),
            PathKind::File => Err(exists(path)),
        }
    }

    /// Writes all of `text`, or changes nothing.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        self.check()?;
        let path = &self.path;
        let target = if self.force {
            ReplaceTarget::UserFile
        } else {
            ReplaceTarget::NewFile
        };
        match files::replace(path, text.as_bytes(), target) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
            Err(error) => Err(Failure::environment(format!(
                "cannot write the configuration to {} - {error} - nothing was written; name another file",
                path.display()
            ))),
            Ok(()) => Ok(()),
        }
    }
}

/// Writes the page of a report to `path`: a regular file or a path of [`files::is_open_path`].
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    let written = match check_page(path)? {
        PathKind::Open => files::write_to_open(path, page.as_bytes()),
        PathKind::File | PathKind::Nothing => {
            files::replace(path, page.as_bytes(), ReplaceTarget::UserFile)
        }
    };
    written.map_err(|error| {
        Failure::environment(format!(
            "cannot write the page to {} - {error} - give --html a file in a directory that this user may write to",
            path.display()
        ))
    })
}

/// Checks in advance that [`write_page`] can write to `path`, before the content is known.
pub fn check_page(path: &Path) -> Result<PathKind, Failure> {
    match path_kind(path, "give --html another file")? {
        PathKind::File if !is_ours(path, |text| text.contains(HTML_MARK)) => {
            let why = "it is there already and is no report of flashproof";
            Err(refused(
                path,
                why,
                "give --html another file, or move the existing one",
            ))
        }
        there => Ok(there),
    }
}

/// Writes `text` to `path`; `content_name` names the content in messages. Without `text`, this only checks whether
/// writing could work. An existing file is replaced only with `force`.
pub fn write_file(
    content_name: &str,
    path: &Path,
    text: Option<&str>,
    force: bool,
) -> Result<(), Failure> {
    let existing = path_kind(path, "name another file")?;
    let written = match (existing, text) {
        (PathKind::File, _) if !force => return Err(exists(path)),
        (_, None) => return Ok(()),
        (PathKind::Open, Some(text)) => files::write_to_open(path, text.as_bytes()),
        (PathKind::File | PathKind::Nothing, Some(text)) => {
            files::replace(path, text.as_bytes(), ReplaceTarget::UserFile)
        }
    };
    written.map_err(|error| Failure::environment(not_written(content_name, path, &error)))
}

pub fn not_written(content_name: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space there, or name a file on another file system"
        }
        _ => "name a file in a directory that this user may write to",
    };
    format!(
        "cannot write the {content_name} to {} - {error} - {remedy}",
        path.display()
    )
}

#[derive(Debug, Clone, Copy)]
pub enum PathKind {
    Nothing,
    File,
    Open,
}

/// Determines the kind of the object at `path`. Errors: `path` is neither a regular file nor a path of
/// [`files::is_open_path`], or lies in a run directory. `advice`: the remedy, for the error message.
fn path_kind(path: &Path, advice: &str) -> Result<PathKind, Failure> {
    if path.as_os_str() == "-" {
        let why = "it would be a file of this name, not standard output";
        return Err(refused(path, why, advice));
    }
    // Checks the path and the target of a link: the target may be in a run directory.
    let real_path = fs::canonicalize(path).ok();
    for path in [Some(path), real_path.as_deref()].into_iter().flatten() {
        if is_run_dir(files::dir_of(path)) {
            return Err(refused(
                path,
                "that directory holds a recorded run, and other files are not written there",
                advice,
            ));
        }
    }
    // Paths of open descriptors are links themselves.
    let is_open = files::is_open_path(path);
    let Ok(metadata) = (if is_open {
        fs::metadata(path)
    } else {
        fs::symlink_metadata(path)
    }) else {
        return Ok(PathKind::Nothing);
    };
    let kind = metadata.file_type();
    match kind {
        _ if kind.is_dir() => Err(Failure::usage(format!(
            "cannot write to {} - it is a directory - name a file in it",
            path.display()
        ))),
        _ if kind.is_file() => Ok(PathKind::File),
        _ if is_open && !kind.is_block_device() => Ok(PathKind::Open),
        _ => Err(refused(
            path,
            &format!(
                "it is {}, and only regular files are written",
                file_type_name(metadata.mode())
            ),
            advice,
        )),
    }
}

/// True if the file is empty or an earlier output, which `has_mark` recognises by the file's first bytes.
pub fn is_ours(path: &Path, has_mark: impl Fn(&str) -> bool) -> bool {
    let mut head = Vec::new();
    let read_result = files::open(path, Links::Refused)
        .and_then(|file| file.take(MARK_WITHIN_BYTES).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    read_result.is_ok() && (text.is_empty() || has_mark(&text))
}

fn refused(path: &Path, why: &str, advice: &str) -> Failure {
    Failure::usage(format!(
        "refusing to write to {} - {why} - {advice}",
        path.display()
    ))
}

fn exists(path: &Path) -> Failure {
    refused(
        path,
        "it is there already",
        "name another file, or give --force to replace it",
    )
}

/// Opens `name`; "-" is standard input. `content_name` describes the input in messages; `on_stdin` tells the user how
/// to name standard input. Opens only regular files and descriptors that are open already: a FIFO in a directory could
/// block forever.
pub fn open(name: &str, content_name: &str, on_stdin: &str) -> Result<Box<dyn Read>, Failure> {
    match name {
        "-" => Ok(Box::new(io::stdin())),
        name => open_file(Path::new(name), Links::Followed, content_name, on_stdin),
    }
}

pub fn open_file(
    path: &Path,
    links: Links,
    content_name: &str,
    on_stdin: &str,
) -> Result<Box<dyn Read>, Failure> {
    match files::open_user_path(path, links) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::NotFound if path.is_symlink() => {
                    "it is a link whose target does not exist: check the link".to_owned()
                }
                ErrorKind::InvalidInput => {
                    format!(
                        "name the {content_name} itself, or send it to standard input with {on_stdin}"
                    )
                }
                ErrorKind::PermissionDenied => {
                    "read it as the user who owns it, or let this user read it (chmod)".to_owned()
                }
                _ => "check the path".to_owned(),
            };
            Err(Failure::usage(format!(
                "reading {} - {error} - {advice}",
                path.display()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::run_dir::{INTERVALS, MANIFEST};
    use results::{assert_contains, assert_starts_with};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    const PAGE: &str = "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"flashproof\">";

    fn message(written: Result<(), Failure>) -> String {
        written.unwrap_err().message
    }

    #[test]
    fn no_path_leads_an_output_into_a_run_directory() {
        let parent = tempfile::tempdir().unwrap();
        let run = parent.path().join("run");
        fs::create_dir(&run).unwrap();
        for name in [MANIFEST, INTERVALS] {
            fs::write(run.join(name), "recorded").unwrap();
        }
        let link = parent.path().join("link.html");
        symlink(run.join(MANIFEST), &link).unwrap();
        for path in [run.join(MANIFEST), run.join("report.html"), link] {
            let text = message(write_page(&path, PAGE));
            assert!(
                text.contains(
                    "that directory holds a recorded run, and other files are not written there"
                ),
                "{text}"
            );
            assert!(OutputFile { path, force: true }.write("x").is_err());
        }
        assert_eq!(fs::read_to_string(run.join(MANIFEST)).unwrap(), "recorded");
        assert_eq!(fs::read_dir(&run).unwrap().count(), 2);
        write_page(&parent.path().join("report.html"), PAGE).unwrap();
    }

    #[test]
    fn a_report_replaces_only_a_report() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        fs::write(&path, "<!DOCTYPE html><p>my thesis").unwrap();
        let text = message(write_page(&path, PAGE));
        assert_contains!(
            text,
            "it is there already and is no report of flashproof - give --html another file"
        );
        // Existing files that are replaced: an empty file, as mktemp makes it, and a report.
        for before in ["", PAGE] {
            fs::write(&path, before).unwrap();
            write_page(&path, &format!("{PAGE}new")).unwrap();
            assert!(fs::read_to_string(&path).unwrap().ends_with("new"));
        }
        write_page(Path::new("/dev/null"), PAGE).unwrap();
        assert_contains!(
            message(write_page(Path::new("-"), PAGE)),
            "it would be a file of this name, not standard output - give --html another file"
        );
        assert!(message(write_page(dir.path(), PAGE)).contains("it is a directory"));
    }

    #[test]
    fn a_link_is_never_followed_even_with_force() {
        let dir = tempfile::tempdir().unwrap();
        let thesis = dir.path().join("thesis");
        let link = dir.path().join("link");
        symlink(&thesis, &link).unwrap();
        for before in [None, Some("my thesis"), Some(PAGE)] {
            before
                .into_iter()
                .for_each(|text| fs::write(&thesis, text).unwrap());
            let by_force = write_file("table", &link, Some("x"), true);
            for written in [
                write_page(&link, PAGE),
                by_force,
                OutputFile {
                    path: link.clone(),
                    force: true,
                }
                .write("x"),
            ] {
                assert!(
                    message(written)
                        .contains("it is a symbolic link, and only regular files are written")
                );
            }
            assert_eq!(fs::read_to_string(&thesis).ok().as_deref(), before);
        }
    }

    #[test]
    fn a_fifo_or_a_device_is_never_written() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        let link = dir.path().join("link.html");
        symlink(&fifo, &link).unwrap();
        for (path, what) in [
            (fifo, "a pipe"),
            (link, "a symbolic link"),
            ("/dev/zero".into(), "a character device"),
        ] {
            for written in [
                write_page(&path, PAGE),
                OutputFile {
                    path: path.clone(),
                    force: true,
                }
                .write("x"),
            ] {
                let text = message(written);
                assert!(
                    text.contains(&format!("it is {what}, and only regular files are written")),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_pipe_of_the_shell_is_written_and_fails_without_a_reader() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        write_page(&path, PAGE).unwrap();
        let mut first = vec![0; PAGE.len()];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(first, PAGE.as_bytes());
        drop(reader);
        // A program started by another test inherits all open files, including the reader, until its exec.
        let error = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            write_page(&path, PAGE).err()
        });
        assert_starts_with!(error.unwrap().message, "cannot write the page to /dev/fd/");
    }

    #[test]
    fn a_configuration_replaces_a_file_only_with_force_and_never_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.conf");
        let to = |force| OutputFile {
            path: path.clone(),
            force,
        };
        to(false).write("one\n").unwrap();
        assert!(message(to(false).write("two\n")).contains("--force"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        to(true).write("three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        for path in [dir.path().to_owned(), PathBuf::from("/dev/null")] {
            assert!(OutputFile { path, force: true }.write("x").is_err());
        }
    }
}
