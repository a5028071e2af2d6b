//! Classifies a directory given by the user: a run, a series of runs, or something else.
//!
//! For a wrong directory the message describes the contents, and names the runs one level below.

use super::file::HlogKind;
use super::{ACT_LOG, CHECKSUMS, INTERVALS, MANIFEST, RunDirError, SERIES, TELEMETRY, TRACE, VERDICT};
use crate::files::dir_of;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs named in a message; more are counted.
const NAMED_MAX: usize = 5;

/// Contents of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Run,
    /// A series of runs, each in a directory below.
    Series,
}

/// Classifies `dir`. Errors: neither a run nor a series; the message describes the contents and names runs below.
pub fn holds(dir: &Path) -> Result<Holds, RunDirError> {
    match () {
        () if is_there(dir, SERIES) => Ok(Holds::Series),
        () if is_there(dir, MANIFEST) => Ok(Holds::Run),
        () => Err(no_run(dir)),
    }
}

/// True if `name` exists in any form; reading it shows if it is a file.
fn is_there(dir: &Path, name: &str) -> bool {
    dir.join(name).symlink_metadata().is_ok()
}

pub(super) fn files_of_a_run(dir: &Path) -> impl Iterator<Item = &'static str> {
    let names = [MANIFEST, INTERVALS, TELEMETRY, TRACE, ACT_LOG, CHECKSUMS, VERDICT].into_iter();
    names.chain(HlogKind::ALL.map(HlogKind::file_name)).filter(|name| is_there(dir, name))
}

/// True if `dir` holds a run, whole or damaged: at least two files of one. A single file may be anybody's.
pub fn is_run_dir(dir: &Path) -> bool {
    files_of_a_run(dir).nth(1).is_some()
}

/// Names of the directories in `dir` that hold a run or a series, in order; none if it cannot be listed.
pub fn run_dirs_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| is_there(path, MANIFEST) || is_there(path, SERIES)).collect();
    runs.sort();
    runs
}

/// Why `dir`, which has no manifest, cannot be read as a run.
pub(super) fn no_run(dir: &Path) -> RunDirError {
    let error = |path: PathBuf, why: String, what_to_do: String| RunDirError::NoRun { path, why, what_to_do };
    let manifest = dir.join(MANIFEST);
    let listed = match fs::metadata(dir).and_then(|_| fs::read_dir(dir)) {
        Ok(listed) => listed,
        Err(_) if dir.is_file() => {
            let what_to_do =
                match dir.file_name().filter(|name| files_of_a_run(dir_of(dir)).any(|ours| **name == *ours)) {
                    Some(_) => format!("give the directory that it is in: {}", dir_of(dir).display()),
                    None => "give the directory of a run (--out of the run)".to_owned(),
                };
            return error(dir.to_owned(), "it is a file, and a run is a directory".to_owned(), what_to_do);
        }
        Err(why) => {
            let why = format!("{why}, where {MANIFEST} of a run or {SERIES} of a series was looked for");
            return error(dir.to_owned(), why, "check the path".to_owned());
        }
    };
    let below = run_dirs_below(dir);
    if is_there(dir, SERIES) {
        let why = format!("this directory is of a series ({SERIES}), and has no {MANIFEST} of its own");
        return error(manifest, why, format!("give the directory of one of its runs{}", named(&below)));
    }
    if let Some(found) = files_of_a_run(dir).next() {
        let why = format!("it is missing, though {found} is there: without it nobody can tell what was run");
        return error(
            manifest,
            why,
            "restore it from a copy; act.log reads without it (flashproof latency)".to_owned(),
        );
    }
    if !below.is_empty() {
        let why = "there is none in this directory, but runs are below it".to_owned();
        return error(manifest, why, format!("give the directory of a run{}", named(&below)));
    }
    let what = if listed.count() == 0 { "the directory is empty" } else { "the directory holds something else" };
    error(manifest, format!("there is none: {what}"), "give the directory of a run (--out of the run)".to_owned())
}

/// `: a, b and 3 more`; empty without any.
fn named(runs: &[PathBuf]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let names: Vec<String> = runs.iter().take(NAMED_MAX).map(|run| run.display().to_string()).collect();
    let more = runs.len().saturating_sub(NAMED_MAX);
    format!(": {}{}", names.join(", "), if more > 0 { format!(" and {more} more") } else { String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(dir: &Path) -> String {
        holds(dir).unwrap_err().to_string().replace(&format!("{}", dir_of(dir).display()), "")
    }

    #[test]
    fn what_is_no_run_is_named_with_what_it_is_and_what_to_do() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("d");
        assert_eq!(
            message(&dir),
            "reading /d - No such file or directory (os error 2), where manifest.json of a run or series.json of a series was \
             looked for; check the path"
        );
        fs::create_dir(&dir).unwrap();
        assert_eq!(
            message(&dir),
            "reading /d/manifest.json - there is none: the directory is empty; give the directory of a run (--out of \
             the run)"
        );
        fs::write(dir.join("holiday.jpg"), "").unwrap();
        assert!(message(&dir).contains("there is none: the directory holds something else; give the directory of a"));
        for run in ["b", "a", "c", "not"] {
            fs::create_dir(dir.join(run)).unwrap();
        }
        for run in ["b", "a", "c"] {
            fs::write(dir.join(run).join(MANIFEST), "").unwrap();
        }
        assert!(message(&dir).ends_with("but runs are below it; give the directory of a run: /d/a, /d/b, /d/c"));
        fs::write(dir.join(INTERVALS), "").unwrap();
        assert!(message(&dir).contains("it is missing, though intervals.csv is there: without it nobody can tell"));
        let file = dir.join(INTERVALS);
        let text = holds(&file).unwrap_err().to_string();
        assert!(text.contains("it is a file, and a run is a directory; give the directory that it is in: /"), "{text}");
        fs::write(dir.join(SERIES), "").unwrap();
        assert_eq!(holds(&dir).unwrap(), Holds::Series);
        assert!(no_run(&dir).to_string().contains("this directory is of a series (series.json)"));
        assert_eq!(holds(&dir.join("a")).unwrap(), Holds::Run);
    }
}
