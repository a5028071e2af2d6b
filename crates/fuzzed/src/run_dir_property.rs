//! Properties of the files of a run directory and of a series, with arbitrary bytes.
//!
//! An input is a sequence of files, each below a line `== NAME`. Checksums in JSON are corrected, so that the data
//! after them is parsed, too.

use crate::assert_one_line;
use conclusions::series::Series;
use results::judge::Outcome;
use results::run_dir::{HlogKind, Intervals, blame, each_window, manifest, read, read_trace};
use results::steady::Rounds;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Files of a run or a series. Other files are ignored.
const NAMES: [&str; 10] = [
    "act.log",
    "checksums.csv",
    "intervals.csv",
    "lag.hlog",
    "manifest.json",
    "series.json",
    "service.hlog",
    "telemetry.csv",
    "trace.csv",
    "verdict.json",
];

/// Reads `bytes` as the files of a directory. Returns true for a run or a series.
pub(crate) fn assert_run_dir_property(bytes: &[u8]) -> bool {
    let dir = TempDir::new().expect("a directory for the files");
    let dir = dir.path();
    for (name, contents) in files(bytes) {
        fs::write(dir.join(name), contents).expect("files can be written");
    }
    assert_series(dir) | assert_run(dir)
}

fn assert_run(dir: &Path) -> bool {
    let manifest = match manifest(dir) {
        Ok(manifest) => manifest,
        Err(error) => {
            assert_one_line(&error.to_string());
            assert!(
                read(dir).is_err() && blame(dir).is_err(),
                "there is no manifest"
            );
            return false;
        }
    };
    match read(dir) {
        Err(error) => assert_one_line(&error.to_string()),
        Ok(run) => {
            run.remarks
                .iter()
                .chain(&run.damage)
                .for_each(|sentence| assert_one_line(sentence));
            run.verdict
                .reasons
                .iter()
                .for_each(|reason| assert_one_line(&reason.text));
            let is_good = matches!(run.verdict.outcome, Outcome::Pass | Outcome::Measured);
            assert!(
                !is_good || run.is_complete() && run.damage.is_empty(),
                "{:?}",
                run.verdict
            );
            assert_eq!(blame(dir).expect("it was read before"), run.verdict.blame);
        }
    }
    if let Ok(mut intervals) = Intervals::open(dir, &manifest) {
        let columns = intervals.columns().len();
        while let Ok(Some(record)) = intervals.next() {
            assert_eq!(record.telemetry.len(), columns);
        }
        intervals
            .remarks()
            .iter()
            .map(String::as_str)
            .chain(intervals.damage())
            .for_each(assert_one_line);
    }
    for error in [
        each_window(dir, &manifest.layout(), HlogKind::Service, |_| {}).err(),
        read_trace(dir, &manifest).err(),
        Rounds::read(dir, &manifest).err(),
    ] {
        error
            .iter()
            .for_each(|error| assert_one_line(&error.to_string()));
    }
    true
}

/// Asserts that a series is equal after it was written and read back. Returns true for a series.
fn assert_series(dir: &Path) -> bool {
    match Series::read(dir) {
        Err(error) => assert_one_line(&error.to_string()),
        Ok(None) => {}
        Ok(Some(series)) => {
            series.write(dir).expect("a series is written");
            assert_eq!(
                Series::read(dir).expect("a series is read back"),
                Some(series)
            );
            return true;
        }
    }
    false
}

fn files(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut files: Vec<(&str, Vec<u8>)> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let name = line.strip_prefix(b"== ").map(<[u8]>::trim_ascii_end);
        match (name, files.last_mut()) {
            (Some(name), _) => {
                let known = NAMES.into_iter().find(|known| known.as_bytes() == name);
                files.extend(known.map(|known| (known, Vec::new())));
            }
            (None, Some((_, contents))) => contents.extend_from_slice(line),
            (None, None) => {}
        }
    }
    files
        .iter_mut()
        .filter(|(name, _)| name.ends_with(".json"))
        .for_each(|(_, contents)| put_checksum(contents));
    files
}

/// Corrects the checksum at the beginning of a JSON file, if there is one.
fn put_checksum(contents: &mut [u8]) {
    const BEFORE: &[u8] = b"{\n  \"crc32\": \"";
    let digits = BEFORE.len()..BEFORE.len() + 8;
    if contents.starts_with(BEFORE)
        && contents
            .get(digits.end..)
            .is_some_and(|rest| rest.starts_with(b"\",\n"))
    {
        let sum = crc32fast::hash(&contents[digits.end + 3..]);
        contents[digits].copy_from_slice(format!("{sum:08x}").as_bytes());
    }
}
