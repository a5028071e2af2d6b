//! Run directories that are occupied, that have cut or edited files, or that are on a full disk.

use super::*;
use crate::device_numbers::device_numbers;
use crate::format::count;
use crate::judge::{Outcome, StreamLimits};
use crate::testing::modified;
use crate::testing::table;
use crate::{assert_contains, assert_starts_with};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn a_directory_with_a_run_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 2, 1);
    let verdict = write_run(dir.path(), &manifest, 2);
    let error = RunWriter::create(dir.path(), &manifest, &[])
        .err()
        .expect("an error")
        .to_string();
    assert!(
        error.contains("it already holds manifest.json of another run; give another --out"),
        "{error}"
    );
    assert_eq!(read(dir.path()).unwrap().written, Some(verdict));
    // Other files in the directory are ignored.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    RunWriter::create(&dir.path().join("deep/er"), &manifest, &[]).unwrap();
    RunWriter::create(dir.path(), &manifest, &[]).unwrap();
}

#[test]
fn a_run_without_room_is_refused_with_numbers_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let error = RunWriter::create(dir.path(), &manifest(8, 1 << 50, 1), &[])
        .err()
        .expect("an error");
    let text = error.to_string();
    assert_contains!(text, " - the run needs about ", "B are free; ");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_path_that_is_no_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "").unwrap();
    let error = RunWriter::create(&path, &manifest(1, 1, 1), &[])
        .err()
        .expect("an error")
        .to_string();
    assert!(
        error.starts_with(&format!("making the directory {} - ", path.display())),
        "{error}"
    );
    let error = read(dir.path()).unwrap_err().to_string();
    assert_contains!(error, "manifest.json - ", "give the directory of a run");
}

/// Writes a killed run: all files except the verdict.
fn killed(dir: &Path, manifest: &Manifest, intervals: u64) {
    write_run(dir, manifest, intervals);
    fs::remove_file(dir.join(VERDICT)).unwrap();
}

#[test]
fn a_run_without_a_verdict_says_that_it_is_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path(), &manifest(1, 10, 1), 4);
    let run = read(dir.path()).unwrap();
    assert!(!run.is_complete());
    assert_eq!(run.agrees(), None);
    assert_eq!(run.intervals, 4);
    assert_eq!(run.verdict.end.clone(), End::Unrecorded);
    assert!(run.verdict.partial);
    assert_starts_with!(
        run.remarks[0],
        "this run is incomplete: it has no verdict.json"
    );
}

#[test]
fn tables_cut_at_any_byte_lose_only_what_the_cut_touches() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 10, 1);
    killed(dir.path(), &manifest, 4);
    let whole = read(dir.path()).unwrap();
    for table in [INTERVALS, TELEMETRY] {
        let path = dir.path().join(table);
        let bytes = fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            let run =
                read(dir.path()).unwrap_or_else(|error| panic!("{table} cut at {cut}: {error}"));
            let header_lines = 1;
            let lines_left = bytes[..cut]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                .saturating_sub(header_lines);
            let least = if table == TELEMETRY {
                lines_left as u64
            } else {
                lines_left as u64 / 4
            };
            assert!(
                run.intervals >= least && run.intervals < whole.intervals,
                "{table} cut at {cut}"
            );
            if cut > 0 {
                assert!(
                    run.remarks.len() > 1,
                    "{table} cut at {cut}: {:?}",
                    run.remarks
                );
            }
        }
        fs::remove_file(&path).unwrap();
        let run = read(dir.path()).unwrap();
        assert!(
            run.remarks
                .iter()
                .any(|remark| *remark == format!("{table} is missing")),
            "{:?}",
            run.remarks
        );
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(read(dir.path()).unwrap().verdict, whole.verdict);
}

#[test]
fn a_tail_of_zeros_as_power_cuts_leave_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 10, 1);
    killed(dir.path(), &manifest, 3);
    let path = dir.path().join(TELEMETRY);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0; 4096]);
    fs::write(&path, bytes).unwrap();
    let run = read(dir.path()).unwrap();
    assert_eq!(run.intervals, 3);
    assert_eq!(
        run.remarks[1],
        "the last line of telemetry.csv is torn and was dropped"
    );
}

/// Edits a file (and the checksum of a JSON file), reads the run, and restores the file.
fn edited(dir: &Path, name: &str, from: &str, to: &str) -> Result<Run, RunDirError> {
    let path = dir.join(name);
    let text = fs::read_to_string(&path).unwrap();
    let from = &from.replace(r"\n", "\n");
    assert!(text.contains(from), "{from} in {text}");
    let changed = text.replacen(from, &to.replace(r"\n", "\n"), 1);
    let resealed = match changed.split_once("\",\n") {
        Some((_, rest)) if name.ends_with(".json") => {
            format!(
                "{{\n  \"crc32\": \"{:08x}\",\n{rest}",
                crc32fast::hash(rest.as_bytes())
            )
        }
        _ => changed,
    };
    fs::write(&path, resealed).unwrap();
    let run = read(dir);
    fs::write(&path, text).unwrap();
    run
}

#[test]
fn an_edited_line_is_named_and_ends_the_intact_part() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path(), &manifest(2, 3, 1), 3);
    // With checksums, the edit would be detected before the line is parsed.
    fs::remove_file(dir.path().join(CHECKSUMS)).unwrap();
    let cases = r#"
        intervals.csv | \n1,reads,0, | \n1,reads,9, | 0 | line 2: expected the number of a device, counted from 0, found "1,reads,9,
        intervals.csv | \n2,reads,0, | \n2,reeds,0, | 1 | the name of a stream of the manifest
        intervals.csv | \n1,reads,0, | \n1,reads,1, | 0 | each stream and device only once
        intervals.csv | \n1,reads,0, | \n2,reads,0, | 0 | counts of the interval that ends at 1 s
        intervals.csv | \n3,reads,0, | \n3,reads,0,- | 2 | a whole number in each column
        intervals.csv | \n1,reads,0, | \n1,reads,0,1,1,0,0,0,0,0,0,2, | 0 | at most as many operations over a threshold as in total
        intervals.csv | judged_over_1ms | judged_over_2ms | 0 | line 1: expected the columns after_sec,stream
        telemetry.csv | \n1,2, | \n2,2, | 1 | line 3: expected interval 1 with a time above 1 s
        telemetry.csv | \n1,2, | \n1,1, | 1 | line 3: expected interval 1 with a time above 1 s
        telemetry.csv | ,0.5, | ,0.5 | 0 | line 2: expected 12 columns
        telemetry.csv | interval, | Interval, | 0 | line 1: expected the columns interval,after_sec
    "#;
    for [name, from, to, whole, expected] in table(cases) {
        let whole = whole.parse().unwrap();
        let run = edited(dir.path(), name, from, to)
            .unwrap_or_else(|error| panic!("{expected}: {error}"));
        let [checksums, damage] = &run.damage[..] else {
            panic!("{expected}: {:?}", run.damage)
        };
        assert_eq!(checksums, "checksums.csv is missing");
        assert!(
            damage.starts_with(name) && damage.contains(expected),
            "{expected}: {damage}"
        );
        let intact = format!(
            "intact before this line: {} ({whole} s);",
            count(whole, "interval")
        );
        assert!(damage.contains(&intact), "{damage}");
        assert!(run.remarks.contains(damage), "{:?}", run.remarks);
        assert_eq!(run.intervals, whole, "{expected}");
        assert_ne!(run.verdict.outcome, Outcome::Pass, "{expected}");
    }
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &manifest(2, 3, 1), 3);
    let cases = r#"
        manifest.json | "seed" | "seeds" | missing field `seed`
        manifest.json | 0.1%>64ms | 0.1%<64ms | no ">" between share and threshold
        manifest.json | "format_version": 3 | "format_version": 4 | it has format version 4 and this program knows
        verdict.json | "format_version": 3 | "format_version": 4 | it has format version 4 and this program knows
    "#;
    for [name, from, to, expected] in table(cases) {
        let error = edited(dir.path(), name, from, to)
            .map(|_| ())
            .expect_err(expected)
            .to_string();
        assert!(
            error.contains(expected) && error.contains(name),
            "{expected}: {error}"
        );
    }
}

fn passed(dir: &Path) -> Manifest {
    let mut manifest = Manifest {
        sla: "100%>10s".parse().unwrap(),
        ..manifest(1, 3, 1)
    };
    // Three intervals do not show whether a rate was held.
    manifest
        .streams
        .iter_mut()
        .for_each(|stream| stream.offered_iops = 0.0);
    let verdict = write_run(dir, &manifest, 3);
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(read(dir).unwrap().verdict.outcome, Outcome::Pass);
    manifest
}

#[test]
fn a_verdict_from_a_damaged_directory_is_never_a_pass() {
    let dir = tempfile::tempdir().unwrap();
    passed(dir.path());
    // The run does not pass even if all counts are intact and only foreign text follows.
    for table in [INTERVALS, TELEMETRY] {
        let path = dir.path().join(table);
        let text = fs::read(&path).unwrap();
        fs::write(&path, [&text[..], b"\xff\xfe\n"].concat()).unwrap();
        let run = read(dir.path()).unwrap();
        assert_eq!(run.intervals, 3, "{table}");
        assert_eq!(run.verdict.outcome, Outcome::Invalid, "{table}");
        assert_starts_with!(
            run.verdict.reasons[0].text,
            &format!("{table} is too long: it has ")
        );
        fs::write(&path, text).unwrap();
    }
    let path = dir.path().join(VERDICT);
    fs::write(
        &path,
        fs::read_to_string(&path).unwrap().replacen('{', "[", 1),
    )
    .unwrap();
    let run = read(dir.path()).unwrap();
    assert!(!run.is_complete());
    assert_eq!(run.intervals, 3);
    assert_eq!(run.verdict.outcome, Outcome::Invalid);
    assert!(
        run.remarks[0].starts_with("verdict.json is damaged (") && run.remarks.len() == 1,
        "{:?}",
        run.remarks
    );
}

#[test]
fn a_recorded_file_name_outside_the_directory_is_damage_and_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path(), &manifest(1, 3, 1), 3);
    for name in [
        "../other",
        "/etc/hostname",
        "..",
        "a\u{1b}[2Jb",
        &"n".repeat(300),
    ] {
        let run = edited(dir.path(), CHECKSUMS, "act.log", name).unwrap();
        let damage = run
            .damage
            .iter()
            .find(|damage| damage.ends_with(" is not the name of a file of a run"));
        assert!(
            damage.is_some_and(|damage| !damage.contains('\u{1b}')),
            "{name}: {:?}",
            run.damage
        );
    }
}

#[test]
fn results_by_device_use_current_device_names_and_damaged_runs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &manifest(2, 3, 1), 3);
    let run = read(dir.path()).unwrap();
    let numbers = device_numbers(&run, &["/dev/b", "/dev/a"]).unwrap();
    assert_eq!(&*numbers[0].device, "/dev/b");
    assert_eq!(&*numbers[1].device, "/dev/a");
    assert!(
        !numbers[0].shares.is_empty() && numbers[0].achieved_iops > 0.0,
        "{:?}",
        numbers[0]
    );
    let path = dir.path().join(INTERVALS);
    fs::write(
        &path,
        fs::read_to_string(&path)
            .unwrap()
            .replacen("\n3,reads,0,", "\n3,reeds,0,", 1),
    )
    .unwrap();
    let error = device_numbers(&run, &[]).unwrap_err().to_string();
    let changed = "intervals.csv is changed: its bytes differ from the recorded checksum; it is whole up to 2 s";
    assert!(error.contains(changed), "{error}");
}

#[test]
fn a_stream_limited_at_a_threshold_that_was_not_counted_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = manifest(1, 10, 1);
    let sla = Some("1%>8ms".parse().unwrap());
    manifest.streams[0].limits = Some(modified(StreamLimits::default(), |it| it.sla = sla));
    killed(dir.path(), &manifest, 3);
    let error = edited(dir.path(), MANIFEST, "1%>8ms\"\n", "1%>9ms\"\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has a limit at 9ms, which is not a threshold of the run"),
        "{error}"
    );
}

#[test]
fn a_failure_before_the_damage_stays_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = modified(manifest(1, 3, 1), |it| it.slice_sec = 1);
    assert_eq!(write_run(dir.path(), &manifest, 3).outcome, Outcome::Fail);
    let run = edited(dir.path(), TELEMETRY, "\n2,3,", "\n2,x,").unwrap();
    assert_eq!((run.intervals, run.verdict.outcome), (2, Outcome::Fail));
    assert_contains!(run.remarks[0], "(FAIL) does not follow from");
}

#[test]
fn a_recorded_verdict_that_does_not_follow_from_the_tables_gets_a_remark() {
    let dir = tempfile::tempdir().unwrap();
    let verdict = write_run(dir.path(), &manifest(1, 3, 1), 3);
    let from = format!(
        "\"outcome\": \"{}\"",
        verdict.outcome.to_string().to_lowercase()
    );
    let run = edited(dir.path(), VERDICT, &from, "\"outcome\": \"pass\"").unwrap();
    assert_eq!(run.agrees(), Some(false));
    assert_contains!(run.remarks[0], "do not trust this");
}

#[test]
fn fields_of_a_later_version_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &manifest(1, 3, 1), 3);
    let run = edited(dir.path(), MANIFEST, "\"seed\"", "\"new\": [1], \"seed\"").unwrap();
    assert_eq!(run.agrees(), Some(true));
}

/// A small file system, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(parent: &Path, kilobytes: u64) -> Result<Self, String> {
        let dir = parent.join("small");
        fs::create_dir(&dir).map_err(|error| error.to_string())?;
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"])
            .arg(&dir)
            .output();
        match mount {
            Ok(output) if output.status.success() => Ok(Self(dir)),
            Ok(output) => Err(format!(
                "a tmpfs cannot be mounted: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
            Err(error) => Err(format!("a tmpfs cannot be mounted: {error}")),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_fills_up_stops_the_recording_and_leaves_the_run_marked_incomplete() {
    let parent = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(parent.path(), 4096) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: {why}"),
    };
    let dir = disk.0.join("run");
    let manifest = manifest(1, 1000, 1);
    let mut writer = begin(&dir, &manifest);
    // Another file takes nearly all of the free space.
    let ballast = vec![1; 4096 * 1024 - 256 * 1024];
    fs::write(disk.0.join("ballast"), ballast).unwrap();
    let mut written = 0;
    let error = loop {
        match writer.write_interval(&interval(&manifest, written), &telemetry(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1000, "the disk never filled up");
    };
    let text = error.to_string();
    assert!(
        text.starts_with("appending ") && text.contains(&dir.display().to_string()),
        "{text}"
    );
    assert!(
        text.contains("No space left on device") && text.contains(" bytes free; free some space"),
        "{text}"
    );
    let verdict = manifest
        .judge()
        .verdict(&End::RecordingFailed { why: text.clone() });
    let stopped = writer.finish(&verdict).unwrap_err().to_string();
    assert_contains!(stopped, "stopped after an earlier error (appending ");
    assert!(!dir.join(VERDICT).exists());
    let run = read(&dir).unwrap();
    assert!(!run.is_complete());
    // The last interval counts if only data after its counts is missing.
    assert!(
        (written..=written + 1).contains(&run.intervals),
        "{} of {written}",
        run.intervals
    );
}

#[test]
fn a_missing_interval_log_is_reported_as_missing_and_not_as_edited() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 20, 1);
    write_run(dir.path(), &manifest, 20);
    fs::remove_file(dir.path().join("wait.hlog")).unwrap();
    let error = each_window(dir.path(), &manifest.layout(), HlogKind::Wait, |_| {})
        .unwrap_err()
        .to_string();
    assert!(error.ends_with(
        "wait.hlog - it is missing; copy the whole directory of the run from where it was recorded"
    ));
}
