//! Where a result goes that somebody named a file for: whole, never into a run, never over what is not ours.
//!
//! A path is typed at two in the morning: `report DIR --html DIR/manifest.json`, `config --out /dev/nvme0n1`.
//! What is there is looked at first. A report takes the place of a report of this program; a configuration takes
//! the place of a file by `--force` alone; neither is ever put into the directory of a run.

use crate::console;
use crate::failure::Failure;
use report::document::HTML_MARK;
use results::files::{self, Links, Over, name_of};
use results::run_dir::is_run_dir;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A report begins like this: its mark is among the first bytes.
const MARK_WITHIN_BYTES: u64 = 4096;

/// Where a configuration goes.
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
        match look(path, "leave --out away for standard output")? {
            There::Nothing => Ok(()),
            There::Special(what) => Err(refused(
                path,
                &format!("it is {what}, and only regular files are replaced"),
                "name another file, or leave --out away for standard output",
            )),
            There::File if *force => Ok(()),
            There::File => Err(exists(path)),
        }
    }

    /// Writes all of `text`, or leaves everything as it was.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let Self::File { path, force } = self else { return console::result(text) };
        self.check()?;
        match files::replace(path, text.as_bytes(), if *force { Over::Named } else { Over::Nothing }) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
            Err(error) => Err(Failure::environment(format!(
                "cannot write the configuration to {} - {error} - nothing was written; name another file",
                path.display()
            ))),
            Ok(()) => Ok(()),
        }
    }
}

/// Writes the page of a report to `path`; a terminal or a pipe is written to, too.
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    let name_another = "give --html another file";
    let written = match look(path, name_another)? {
        There::Special("a drive") => {
            return Err(refused(path, "it is a drive", name_another));
        }
        There::Special(_) => fs::write(path, page),
        There::File if !is_report(path) => {
            let why = "it is there already and is no report of flashproof";
            return Err(refused(path, why, "give --html another file, or move that one away"));
        }
        There::File | There::Nothing => files::replace(path, page.as_bytes(), Over::Named),
    };
    written.map_err(|error| {
        Failure::environment(format!(
            "cannot write the page to {} - {error} - give --html a file in a directory that this user may write to",
            path.display()
        ))
    })
}

/// What is at a path.
enum There {
    Nothing,
    /// A regular file.
    File,
    /// What else, in words.
    Special(&'static str),
}

/// Looks what is at `path`. Errors: it is a directory, or in the directory of a run; `advice` says what to do.
fn look(path: &Path, advice: &str) -> Result<There, Failure> {
    // By both names: the path may be a link into a run.
    let real = fs::canonicalize(path).ok();
    for path in [Some(path), real.as_deref()].into_iter().flatten() {
        if is_run_dir(files::dir_of(path)) {
            return Err(refused(path, "a run is recorded in that directory, and nothing else is put there", advice));
        }
    }
    let Ok(metadata) = fs::metadata(path) else { return Ok(There::Nothing) };
    let kind = metadata.file_type();
    match kind {
        _ if kind.is_dir() => {
            Err(Failure::usage(format!("cannot write to {} - it is a directory - name a file in it", path.display())))
        }
        _ if kind.is_file() => Ok(There::File),
        _ => Ok(There::Special(name_of(kind))),
    }
}

/// Whether the file is a report of this program, or empty.
fn is_report(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = files::open(path, Links::Followed).and_then(|file| file.take(MARK_WITHIN_BYTES).read_to_end(&mut first));
    let text = String::from_utf8_lossy(&first);
    read.is_ok() && (text.is_empty() || text.contains(HTML_MARK))
}

fn refused(path: &Path, why: &str, advice: &str) -> Failure {
    Failure::usage(format!("refusing to write to {} - {why} - {advice}", path.display()))
}

fn exists(path: &Path) -> Failure {
    refused(path, "it is there already", "name another file, or give --force to replace it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::run_dir::{INTERVALS, MANIFEST};
    use std::os::unix::fs::symlink;

    const PAGE: &str =
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"flashproof\">";

    fn message(written: Result<(), Failure>) -> String {
        written.unwrap_err().message
    }

    #[test]
    fn nothing_is_written_into_a_run_by_any_name() {
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
            assert!(text.contains("a run is recorded in that directory, and nothing else is put there"), "{text}");
            assert!(Output::File { path, force: true }.write("x").is_err());
        }
        assert_eq!(fs::read_to_string(run.join(MANIFEST)).unwrap(), "recorded");
        assert_eq!(fs::read_dir(&run).unwrap().count(), 2);
        write_page(&parent.path().join("report.html"), PAGE).unwrap();
    }

    #[test]
    fn a_report_takes_the_place_of_a_report_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        fs::write(&path, "<!DOCTYPE html><p>my thesis").unwrap();
        let text = message(write_page(&path, PAGE));
        assert!(
            text.contains("it is there already and is no report of flashproof - give --html another file"),
            "{text}"
        );
        // An empty file, as mktemp makes it, and a report.
        for before in ["", PAGE] {
            fs::write(&path, before).unwrap();
            write_page(&path, &format!("{PAGE}new")).unwrap();
            assert!(fs::read_to_string(&path).unwrap().ends_with("new"));
        }
        write_page(Path::new("/dev/null"), PAGE).unwrap();
        assert!(message(write_page(dir.path(), PAGE)).contains("it is a directory"));
    }

    #[test]
    fn a_configuration_replaces_a_file_by_force_alone_and_no_device_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.conf");
        let to = |force| Output::File { path: path.clone(), force };
        to(false).write("one\n").unwrap();
        assert!(message(to(false).write("two\n")).contains("--force"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        to(true).write("three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        for path in [dir.path().to_owned(), PathBuf::from("/dev/null")] {
            assert!(Output::File { path, force: true }.write("x").is_err());
        }
    }
}
