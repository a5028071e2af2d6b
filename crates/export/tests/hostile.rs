//! Directories with something other than a run, and paths to which an export cannot be written.

use crate::round_trip::{exported, rows, value};
use crate::support::{SHORT, Shape};
use export::{ExportError, export};
use results::run_dir::{HlogKind, INTERVALS, MANIFEST};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn runs_with_links_pipes_or_overlong_lines_are_reported_and_others_are_exported() {
    let parent = tempfile::tempdir().unwrap();
    let runs = parent.path().join("runs");
    fs::create_dir(&runs).unwrap();
    let names = [
        "manifest-link",
        "manifest-pipe",
        "intervals-link",
        "hlog-line",
        "random",
        "sound",
    ];
    for (seed, name) in (0..).zip(names) {
        Shape { seed, ..SHORT }.write(&runs.join(name));
    }
    let replace = |file: &str| {
        let path = runs.join(file);
        fs::rename(&path, parent.path().join(file.replace('/', "-"))).unwrap();
        path
    };
    let manifest = replace(&format!("manifest-link/{MANIFEST}"));
    symlink(
        parent.path().join(format!("manifest-link-{MANIFEST}")),
        manifest,
    )
    .unwrap();
    let pipe = replace(&format!("manifest-pipe/{MANIFEST}"));
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let intervals = replace(&format!("intervals-link/{INTERVALS}"));
    symlink("/dev/zero", intervals).unwrap();
    let service = HlogKind::Service.file_name();
    fs::write(
        replace(&format!("hlog-line/{service}")),
        vec![b'x'; 1 << 20],
    )
    .unwrap();
    let noise: Vec<u8> = (0..100_000_u64)
        .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    fs::write(replace(&format!("random/{INTERVALS}")), noise).unwrap();
    symlink(&runs, runs.join("circle")).unwrap();

    let out = parent.path().join("out");
    let exported = exported(&[&runs], &out);
    let paths: Vec<_> = rows(&out, "runs")
        .iter()
        .map(|row| value(row, "path"))
        .collect();
    assert_eq!(
        paths,
        ["runs/hlog-line", "runs/random", "runs/sound"],
        "{exported:?}"
    );
    let outcomes: Vec<_> = rows(&out, "runs")
        .iter()
        .map(|row| value(row, "outcome"))
        .collect();
    assert_eq!(outcomes[..2], ["invalid", "invalid"]);
    for (name, why) in [
        ("manifest-link", "it is a symbolic link"),
        ("manifest-pipe", "it is a pipe"),
        ("intervals-link", "it is a symbolic link"),
        ("hlog-line", "does not"),
    ] {
        let told = exported
            .unreadable
            .iter()
            .filter(|told| told.contains(name));
        let told: Vec<_> = told.collect();
        assert!(
            told.iter().any(|told| told.contains(why)) || name == "hlog-line" && !told.is_empty(),
            "{exported:?}"
        );
    }
    assert!(
        !exported
            .unreadable
            .iter()
            .any(|told| told.contains("circle") || told.contains("runs/sound"))
    );
}

#[test]
fn a_directory_with_foreign_files_is_refused_and_an_earlier_export_needs_force() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let out = parent.path().join("out");
    SHORT.write(&dir);
    let again = |force| export(std::slice::from_ref(&dir), &[], &out, force);
    fs::create_dir(&out).unwrap();
    fs::write(out.join("holiday.jpg"), "").unwrap();
    let error = again(true).unwrap_err();
    assert!(matches!(error, ExportError::Foreign { .. }));
    assert!(error.to_string().ends_with(
        "/out - the directory has holiday.jpg, which no export wrote; give another directory"
    ));
    fs::remove_file(out.join("holiday.jpg")).unwrap();

    // The file has the name of a table, but no export wrote it.
    fs::write(out.join("runs.parquet"), "PAR1").unwrap();
    assert!(matches!(again(true), Err(ExportError::Foreign { .. })));
    fs::remove_file(out.join("runs.parquet")).unwrap();
    symlink("/etc/passwd", out.join("views.sql")).unwrap();
    assert!(matches!(again(true), Err(ExportError::Foreign { .. })));
    fs::remove_file(out.join("views.sql")).unwrap();

    again(false).unwrap();
    let before = fs::read(out.join("runs.parquet")).unwrap();
    let error = again(false).unwrap_err().to_string();
    assert!(
        error.contains("of an earlier export; add --force to replace it"),
        "{error}"
    );
    let left = out.join(".flashproof-1-0-runs.parquet.tmp");
    fs::write(&left, "of a killed export, or of somebody").unwrap();
    Shape { seed: 2, ..SHORT }.write(&parent.path().join("other"));
    export(&[parent.path().join("other")], &[], &out, true).unwrap();
    assert_ne!(fs::read(out.join("runs.parquet")).unwrap(), before);
    assert_eq!(
        fs::read_dir(&out).unwrap().count(),
        export::TABLES.len() + 2
    );
    assert!(left.exists());
}

#[test]
fn an_export_without_a_run_or_to_an_unwritable_directory_creates_no_files() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("empty");
    let out = parent.path().join("out");
    fs::create_dir(&dir).unwrap();
    let error = export(&[dir], &[], &out, false).unwrap_err().to_string();
    assert!(
        error.contains(
            "manifest.json - there is no run: the directory is empty; give the directory"
        ),
        "{error}"
    );
    assert!(!out.exists());
    let run = parent.path().join("run");
    SHORT.write(&run);
    let error = export(std::slice::from_ref(&run), &[], &run.join(MANIFEST), false)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("listing ") && error.contains("Not a directory"),
        "{error}"
    );
    let error = export(&[run], &[], Path::new("/proc/flashproof"), false)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("making the directory /proc/flashproof - "),
        "{error}"
    );
}
