//! Compares exported rows with the recorded counts.

use crate::support::{Drive, SHORT, SOUND, Shape};
use conclusions::series::{Conclusion, Series, SeriesPurpose, Step};
use conclusions::testing::{conclusion, series, step};
use export::{ExportError, Exported, SCHEMA_VERSION, TABLES, VERSION_KEY, VIEWS, export};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use results::cell::Interval;
use results::counts::{Backlog, CellCounts, SlowTimes};
use results::judge::{End, Outcome};
use results::run_dir::{self, INTERVALS, Intervals, RunWriter, VERDICT};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub(crate) fn exported(dirs: &[&Path], out: &Path) -> Exported {
    let dirs: Vec<PathBuf> = dirs.iter().map(|dir| dir.to_path_buf()).collect();
    export(&dirs, &[], out, false).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn rows(out: &Path, table: &str) -> Vec<Row> {
    let file = File::open(out.join(format!("{table}.parquet"))).unwrap();
    SerializedFileReader::new(file)
        .unwrap()
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

/// A value of a row as text; `-` for NULL.
pub(crate) fn value(row: &Row, column: &str) -> String {
    let (_, field) = row
        .get_column_iter()
        .find(|(name, _)| *name == column)
        .unwrap_or_else(|| panic!("no {column}"));
    match field {
        Field::Null => "-".to_owned(),
        Field::Str(text) => text.clone(),
        other => other.to_string(),
    }
}

fn number(row: &Row, column: &str) -> u64 {
    value(row, column)
        .parse()
        .unwrap_or_else(|_| panic!("{column} is {}", value(row, column)))
}

fn sums(rows: &[Row], of: &str) -> BTreeMap<(String, u64), u64> {
    let mut sums = BTreeMap::new();
    for row in rows {
        *sums
            .entry((value(row, "stream"), number(row, "device")))
            .or_default() += number(row, of);
    }
    sums
}

const SLOW: Drive = Drive {
    serial: "S01",
    service_us: |_, op| if op % 20 == 0 { 9_000 } else { 120 },
    ..SOUND
};

#[test]
fn counts_of_every_table_are_those_of_the_run() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let out = parent.path().join("out");
    Shape {
        drives: &[SOUND, SLOW],
        ..SHORT
    }
    .write(&dir);
    let exported = exported(&[&dir], &out);
    assert_eq!(
        (exported.runs, exported.series, exported.unreadable.len()),
        (1, 0, 0),
        "{exported:?}"
    );

    let run = run_dir::read(&dir).unwrap();
    let layout = run.manifest.layout();
    let mut ops = BTreeMap::new();
    let mut bytes = BTreeMap::new();
    let mut over = BTreeMap::new();
    let mut service_ns = 0;
    let mut intervals = Intervals::open(&dir, &run.manifest).unwrap();
    while let Some(record) = intervals.next().unwrap() {
        for (at, cell) in record.counts.cells.iter().enumerate() {
            let key = (layout.streams[at / 2].name.clone(), at as u64 % 2);
            *ops.entry(key.clone()).or_default() += cell.ops;
            *bytes.entry(key.clone()).or_default() += cell.bytes;
            if cell.response_over[1] > 0 {
                *over.entry(key).or_default() += cell.judged_over[1];
                service_ns += cell.slow.service_ns[1];
            }
        }
    }
    assert_eq!(ops.values().sum::<u64>(), 60 * 2 * 150);
    let recorded = rows(&out, "intervals");
    assert_eq!(recorded.len(), 60 * 4);
    assert_eq!(
        (sums(&recorded, "ops"), sums(&recorded, "bytes")),
        (ops.clone(), bytes)
    );
    let slow = rows(&out, "slow");
    let of_8_ms: Vec<Row> = slow
        .into_iter()
        .filter(|row| number(row, "threshold_ns") == 8_000_000)
        .collect();
    assert_eq!(sums(&of_8_ms, "judged_over"), over);
    assert_eq!(
        of_8_ms
            .iter()
            .map(|row| number(row, "service_ns"))
            .sum::<u64>(),
        service_ns
    );
    assert_eq!(service_ns, (60 * (5 + 3)) * 9_000_000);

    // The histograms of each kind count every operation once.
    let histograms = rows(&out, "histograms");
    for kind in ["service", "wait", "lag"] {
        let of_kind: Vec<Row> = histograms
            .iter()
            .filter(|row| value(row, "kind") == kind)
            .cloned()
            .collect();
        assert_eq!(sums(&of_kind, "count"), ops, "{kind}");
    }
    let of_slow = histograms
        .iter()
        .filter(|row| value(row, "kind") == "service" && value(row, "serial") == "S01");
    let upper: std::collections::BTreeSet<u64> =
        of_slow.map(|row| number(row, "upper_ns")).collect();
    assert_eq!(
        upper.into_iter().collect::<Vec<_>>(),
        [120_319, 9_043_967],
        "120 us and 9 ms, to 1 %"
    );

    let slices = rows(&out, "slices");
    let groups: usize = run
        .verdict
        .groups
        .iter()
        .map(|group| group.slices.len() * 3)
        .sum();
    assert_eq!(slices.len(), groups);
    let decided: Vec<&Row> = slices
        .iter()
        .filter(|row| value(row, "decided") == "true")
        .collect();
    let [decided] = decided[..] else {
        panic!("one decides: {decided:?}")
    };
    let over = run.verdict.decided_by.as_ref().unwrap().over;
    assert_eq!(
        (
            number(decided, "judged_over"),
            number(decided, "threshold_ns")
        ),
        (over, 8_000_000)
    );
    assert_eq!(
        ["serial", "share_max"].map(|column| value(decided, column)),
        ["S01", "0.01"]
    );
    let [row] = &rows(&out, "runs")[..] else {
        panic!("one run")
    };
    for (column, expected) in [
        ("path", "run"),
        ("outcome", "fail"),
        ("reason_code", "over-limit"),
        ("test", "storage"),
        ("series_id", "-"),
        ("damage", "-"),
        ("complete", "true"),
        ("ended", "completed"),
        ("intervals", "60"),
        ("decided_device", "1"),
        ("decided_share", "0.06"),
    ] {
        assert_eq!(value(row, column), expected, "{column}");
    }
    let reasons = rows(&out, "reasons");
    assert_eq!(value(&reasons[0], "reason"), run.verdict.result().reason);
    let [finding] = &rows(&out, "findings")[..] else {
        panic!("one finding")
    };
    assert_eq!(
        (value(finding, "serial"), value(finding, "level")),
        ("S00".into(), "warning".into())
    );
    let drives = rows(&out, "drives");
    let facts = [
        "serial",
        "model",
        "firmware",
        "size_bytes",
        "kernel_name",
        "used_bytes",
        "wwid",
    ];
    let facts = facts.map(|fact| value(&drives[1], fact));
    assert_eq!(
        facts,
        ["S01", "M1", "A1", "960197124096", "nvme1n1", "-", "eui.S01"]
    );
    assert_eq!(
        ["hostname", "kernel_release"].map(|fact| value(&rows(&out, "hosts")[0], fact)),
        ["h1", "6.12"]
    );
    let streams = rows(&out, "streams");
    assert_eq!(
        (value(&streams[0], "stream"), number(&streams[0], "ops")),
        ("reads".into(), 12_000)
    );
}

#[test]
fn telemetry_has_each_measured_value_and_its_device() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let out = parent.path().join("out");
    Shape {
        drives: &[SOUND, SLOW],
        intervals: 3,
        interval_sec: 5,
        ..SHORT
    }
    .write(&dir);
    exported(&[&dir], &out);
    let telemetry = rows(&out, "telemetry");
    let of = |metric: &str| {
        let rows = telemetry
            .iter()
            .filter(|row| value(row, "metric") == metric);
        rows.map(|row| {
            ["object", "serial", "after_sec", "value"]
                .map(|column| value(row, column))
                .join(" ")
        })
        .collect::<Vec<_>>()
    };
    let temperature = [
        "nvme0n1 S00 5",
        "nvme0n1 S00 10",
        "nvme0n1 S00 15",
        "nvme1n1 S01 5",
        "nvme1n1 S01 10",
        "nvme1n1 S01 15",
    ];
    assert_eq!(
        of("temperature_celsius"),
        temperature.map(|row| format!("{row} 45.0"))
    );
    // The SMART log is read every 10 s, so only every second interval of 5 s has a value.
    assert_eq!(
        of("smart.data_units_written"),
        ["nvme0n1 S00 10 240.0", "nvme1n1 S01 10 240.0"]
    );
    assert!(of("f_await").is_empty());
    assert_eq!(of("rss_bytes")[0], "process - 5 61440000.0");
    assert_eq!(of("cpu_pct").len(), 6, "of the process, and of its thread");
    assert_eq!(
        of("gaps_over"),
        ["run - 5 0E0", "run - 10 0E0", "run - 15 0E0"]
    );
}

#[test]
fn an_export_does_not_depend_on_the_directory_of_the_runs_and_skips_copies_of_a_run() {
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join(name);
    for (name, seed) in [
        ("a/runs/1", 1),
        ("a/runs/deeper/2", 2),
        ("b/runs/1", 1),
        ("b/runs/deeper/2", 2),
    ] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        Shape { seed, ..SHORT }.write(&at(name));
    }
    assert_eq!(exported(&[&at("a/runs")], &at("out-a")).runs, 2);
    exported(&[&at("b/runs")], &at("out-b"));
    let names = TABLES
        .iter()
        .map(export::TableSchema::file_name)
        .chain([VIEWS.to_owned()]);
    for name in names {
        assert_eq!(
            fs::read(at("out-a").join(&name)).unwrap(),
            fs::read(at("out-b").join(&name)).unwrap(),
            "{name}"
        );
    }
    let metadata =
        SerializedFileReader::new(File::open(at("out-a/runs.parquet")).unwrap()).unwrap();
    let pairs = metadata
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .clone();
    let version = pairs
        .iter()
        .find(|pair| pair.key == VERSION_KEY)
        .and_then(|pair| pair.value.clone());
    assert_eq!(version, Some(SCHEMA_VERSION.to_string()));
    let paths: Vec<_> = rows(&at("out-a"), "runs")
        .iter()
        .map(|row| value(row, "path"))
        .collect();
    assert_eq!(paths, ["runs/1", "runs/deeper/2"]);

    let both = exported(&[&at("a/runs"), &at("b/runs/1")], &at("both"));
    assert_eq!((both.runs, both.repeated), (2, vec!["1".to_owned()]));
    assert_eq!(rows(&at("both"), "intervals").len(), 2 * 60 * 2);
}

#[test]
fn several_parts_are_joined_in_the_order_of_the_runs() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("runs");
    let out = parent.path().join("out");
    fs::create_dir(&dir).unwrap();
    for seed in 0..3 {
        let run = dir.join(format!("{seed}"));
        Shape { seed, ..SHORT }.write(&run);
        // Makes the run as large as a part, so that each run is a part.
        File::create(run.join("notes"))
            .unwrap()
            .set_len(65 << 20)
            .unwrap();
    }
    exported(&[&dir], &out);
    let file =
        SerializedFileReader::new(File::open(out.join("histograms.parquet")).unwrap()).unwrap();
    assert_eq!(file.metadata().num_row_groups(), 3);
    let runs: Vec<String> = rows(&out, "runs")
        .iter()
        .map(|row| value(row, "path"))
        .collect();
    assert_eq!(runs, ["runs/0", "runs/1", "runs/2"]);
    assert_eq!(
        sums(&rows(&out, "intervals"), "ops")[&("reads".to_owned(), 0)],
        3 * 6_000
    );
    assert_eq!(
        fs::read_dir(&out).unwrap().count(),
        TABLES.len() + 1,
        "nothing temporary is left"
    );
}

#[test]
fn a_killed_run_and_a_damaged_run_are_exported_with_outcome_and_intact_rows() {
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join("runs").join(name);
    fs::create_dir(parent.path().join("runs")).unwrap();
    Shape { end: None, ..SHORT }.write(&at("killed"));
    Shape { seed: 2, ..SHORT }.write(&at("damaged"));
    Shape { seed: 3, ..SHORT }.write(&at("cut"));
    // In `damaged`, a value in the middle is changed; `cut` ends in the middle of a line.
    let text = fs::read_to_string(at("damaged").join(INTERVALS)).unwrap();
    fs::write(
        at("damaged").join(INTERVALS),
        text.replacen("\n300,reads,0,100,", "\n300,reads,0,101,", 1),
    )
    .unwrap();
    let text = fs::read(at("cut").join(INTERVALS)).unwrap();
    fs::write(at("cut").join(INTERVALS), &text[..text.len() / 2]).unwrap();
    let out = parent.path().join("out");
    assert_eq!(exported(&[&parent.path().join("runs")], &out).runs, 3);
    for row in rows(&out, "runs") {
        let path = value(&row, "path");
        let dir = parent.path().join(&path);
        let run = run_dir::read(&dir).unwrap();
        assert_eq!(run.verdict.outcome, Outcome::Invalid);
        assert_eq!(value(&row, "outcome"), "invalid", "{path}");
        assert_eq!(
            value(&row, "damage") != "-",
            path != "runs/killed",
            "{path}"
        );
        assert_eq!(value(&row, "complete"), (path != "runs/killed").to_string());
        let id = value(&row, "run_id");
        let recorded = rows(&out, "intervals")
            .into_iter()
            .filter(|row| value(row, "run_id") == id)
            .count() as u64;
        assert_eq!(recorded, 2 * run.intervals, "{path}");
        assert!(
            recorded > 0 && (recorded < 120 || path == "runs/killed"),
            "{path}: {recorded}"
        );
    }
}

/// Writes a search with one step into `dir`, in which the drive held the load `rating`.
pub(crate) fn write_rating(dir: &Path, drive: Drive, rating: f64, began_unix_ms: u64) {
    fs::create_dir_all(dir).unwrap();
    let serial = drive.serial;
    let of_step = Shape {
        multiple: Some(rating),
        purpose: Some("step 1"),
        ..SHORT
    };
    Shape {
        drives: &[drive],
        seed: began_unix_ms,
        ..of_step
    }
    .write(&dir.join("step-1"));
    let held = Step {
        dir: "step-1".into(),
        duration_sec: 600,
        ..step("step 1", rating, Outcome::Pass)
    };
    let conclusion = Conclusion {
        rating: Some(rating),
        comparable: true,
        ..conclusion(Outcome::Pass, "held")
    };
    let mut series = series(SeriesPurpose::Rate, &[(serial, None)], vec![held]);
    series.devices[0].size_bytes = 960_197_124_096;
    Series {
        conclusion: Some(conclusion),
        began_unix_ms,
        ..series
    }
    .write(dir)
    .unwrap();
}

#[test]
fn the_result_of_a_series_is_exported_only_if_its_runs_confirm_it() {
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join("series").join(name);
    write_rating(&at("true"), SOUND, 20.0, 1);
    write_rating(&at("without-verdict"), SOUND, 30.0, 2);
    fs::remove_file(at("without-verdict/step-1").join(VERDICT)).unwrap();
    write_rating(&at("without-run"), SOUND, 40.0, 3);
    fs::remove_dir_all(at("without-run/step-1")).unwrap();
    write_rating(&at("linked"), SOUND, 50.0, 4);
    fs::rename(at("linked/step-1"), parent.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(parent.path().join("elsewhere"), at("linked/step-1")).unwrap();
    write_rating(&at("other-drive"), SOUND, 60.0, 5);
    let mut record = Series::read(&at("other-drive")).unwrap().unwrap();
    record.devices[0].serial = Some("S99".into());
    record.write(&at("other-drive")).unwrap();
    let out = parent.path().join("out");
    let exported = exported(&[&parent.path().join("series")], &out);
    assert_eq!((exported.runs, exported.series), (3, 5), "{exported:?}");
    let columns = ["path", "outcome", "rating_x", "comparable"];
    let told: Vec<_> = rows(&out, "series")
        .iter()
        .map(|row| columns.map(|column| value(row, column)))
        .collect();
    assert_eq!(
        told,
        [
            ["series/linked", "invalid", "-", "false"],
            ["series/other-drive", "invalid", "-", "false"],
            ["series/true", "pass", "20.0", "true"],
            ["series/without-run", "invalid", "-", "false"],
            ["series/without-verdict", "invalid", "-", "false"],
        ]
    );
    let steps = rows(&out, "steps");
    let runs: BTreeMap<String, String> = rows(&out, "runs")
        .iter()
        .map(|row| (value(row, "path"), value(row, "run_id")))
        .collect();
    let told: Vec<_> = steps
        .iter()
        .map(|row| (value(row, "run_id"), value(row, "outcome")))
        .collect();
    assert_eq!(
        told[2],
        (runs["series/true/step-1"].clone(), "pass".to_owned())
    );
    assert_eq!((told[0].0.as_str(), told[0].1.as_str()), ("-", "invalid"));
    assert_eq!(
        told[4],
        (
            runs["series/without-verdict/step-1"].clone(),
            "invalid".to_owned()
        )
    );
}

#[test]
fn an_interrupted_run_is_partial() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let out = parent.path().join("out");
    Shape {
        end: Some(End::interrupted("SIGINT")),
        ..SHORT
    }
    .write(&dir);
    exported(&[&dir], &out);
    let [row] = &rows(&out, "runs")[..] else {
        panic!("one run")
    };
    assert_eq!(
        (value(row, "ended"), value(row, "partial")),
        ("interrupted".to_owned(), "true".to_owned())
    );
    assert!(matches!(
        export(&[dir], &[], &out, false),
        Err(ExportError::Occupied { .. })
    ));
}

#[test]
fn every_count_stands_in_its_own_column() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let out = parent.path().join("out");
    let manifest = Shape {
        intervals: 1,
        ops: &[("reads", 1)],
        ..SHORT
    }
    .manifest();
    let mut interval = Interval::new(&manifest.layout());
    interval.end_ns = 10_000_000_000;
    let at_first =
        |number: u64| std::array::from_fn(|threshold| if threshold == 0 { number } else { 0 });
    let slow = SlowTimes {
        wait_ns: at_first(31),
        lag_ns: at_first(32),
        service_ns: at_first(33),
        ..SlowTimes::default()
    };
    interval.cells[0].counts = CellCounts {
        ops: 101,
        bytes: 102,
        errors: 3,
        overtime: 4,
        unissued: 5,
        lost: 6,
        missed: 17,
        late: 8,
        late_max_ns: 9,
        judged_over: at_first(21),
        judged_over_lower_bound: at_first(20),
        response_over: at_first(23),
        service_over: at_first(19),
        slow,
        backlog: Backlog {
            in_flight: 10,
            waiting: 11,
            late: 12,
        },
        ..CellCounts::default()
    };
    let mut judge = manifest.judge();
    judge.add(&interval);
    let mut writer = RunWriter::create(&dir, &manifest, &[]).unwrap();
    writer.write_interval(&interval, &[]).unwrap();
    writer.finish(&judge.verdict(&End::Completed)).unwrap();
    exported(&[&dir], &out);
    let one = |table: &str, columns: &[&str]| -> Vec<String> {
        let rows = rows(&out, table);
        columns
            .iter()
            .map(|column| value(&rows[0], column))
            .collect()
    };
    let columns = [
        "after_sec",
        "ops",
        "bytes",
        "errors",
        "overtime",
        "unissued",
        "lost",
        "missed",
    ];
    assert_eq!(
        one("intervals", &columns),
        ["10", "101", "102", "3", "4", "5", "6", "17"]
    );
    let columns = ["in_flight", "waiting", "late", "late_max_ns", "device"];
    assert_eq!(one("intervals", &columns), ["10", "11", "12", "9", "0"]);
    let columns = [
        "threshold_ns",
        "judged_over",
        "judged_least_over",
        "response_over",
        "service_over",
    ];
    assert_eq!(one("slow", &columns), ["1000000", "21", "20", "23", "19"]);
    assert_eq!(
        one("slow", &["wait_ns", "lag_ns", "service_ns"]),
        ["31", "32", "33"]
    );
    let columns = [
        "ops",
        "bytes",
        "errors",
        "unissued",
        "lost",
        "offered_iops",
        "achieved_iops",
        "judged",
    ];
    assert_eq!(
        one("streams", &columns),
        ["101", "102", "3", "5", "6", "0.1", "9.7", "true"]
    );
    let columns = [
        "wanted",
        "judged_over",
        "response_over",
        "slice",
        "complete",
    ];
    assert_eq!(one("slices", &columns), ["115", "21", "23", "1", "false"]);
    let columns = [
        "duration_sec",
        "report_interval_sec",
        "slice_sec",
        "ran_sec",
        "devices",
        "simulated",
        "engine",
    ];
    assert_eq!(
        one("runs", &columns),
        ["10", "10", "300", "10.0", "1", "false", "io_uring"]
    );
}

#[test]
fn drives_without_serial_number_get_wwid_or_path_and_equal_directory_names_get_whole_paths() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let dirs = ["a/lab", "b/lab", "c"].map(|dir| parent.path().join(dir));
    for (seed, (dir, without)) in
        (1..).zip(dirs.iter().zip([&[][..], &["serial"], &["serial", "wwid"]]))
    {
        let mut manifest = Shape { seed, ..SHORT }.manifest();
        let facts = manifest.device_facts[0].as_object_mut().unwrap();
        facts.retain(|name, _| !without.contains(&name.as_str()));
        let mut writer = RunWriter::create(dir, &manifest, &[]).unwrap();
        let mut interval = Interval::new(&manifest.layout());
        interval.end_ns = 10_000_000_000;
        interval.close();
        writer.write_interval(&interval, &[]).unwrap();
    }
    exported(&[&dirs[0], &dirs[1], &dirs[2]], &out);
    let serials = rows(&out, "drives")
        .iter()
        .map(|row| value(row, "serial"))
        .collect::<Vec<_>>();
    assert_eq!(serials, ["S00", "eui.S00", "/dev/nvme0n1"]);
    let paths = rows(&out, "runs")
        .iter()
        .map(|row| value(row, "path"))
        .collect::<Vec<_>>();
    assert_eq!(
        paths,
        [
            &dirs[0].display().to_string(),
            &dirs[1].display().to_string(),
            "c"
        ]
    );
}
