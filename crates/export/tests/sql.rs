//! The queries of docs/data.md, run by DuckDB on a population of drives for which the answers are known.

use crate::docs::PATH;
use crate::round_trip::{exported, write_rating};
use crate::support::{Drive, SHORT, SOUND, Shape};
use export::{TaskRow, export};
use results::cell::{Latencies, latencies};
use results::run_dir::{HlogKind, each_window, manifest};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HOUR_SEC: u64 = 3_600;
const MODEL: Drive = SOUND;

/// Service time of a sound drive: 80 to 128 us.
fn sound(op: u64) -> u64 {
    80 + op % 49
}

/// Median of [`sound`] over 600 operations: the first 12 values have 13 operations, all others 12.
const MEDIAN_US: u64 = 80 + 23;

const OF_H1: [Drive; 4] = [
    // 2 % of the operations take 100 ms: 20 times the limit of 0.1 % over 64 ms.
    Drive {
        serial: "S01",
        service_us: |_, op| if op % 50 == 0 { 100_000 } else { sound(op) },
        ..MODEL
    },
    Drive {
        serial: "S02",
        ..MODEL
    },
    // Twice as slow from hour 20 on.
    Drive {
        serial: "S03",
        service_us: |sec, op| sound(op) * if sec >= 19 * HOUR_SEC { 2 } else { 1 },
        ..MODEL
    },
    Drive {
        serial: "S04",
        ..MODEL
    },
];
const OF_H2: [Drive; 4] = [
    // Another firmware, with a tail of 0.5 %.
    Drive {
        serial: "S05",
        firmware: "B2",
        service_us: |_, op| if op % 200 == 0 { 900 } else { sound(op) },
        ..MODEL
    },
    Drive {
        serial: "S06",
        firmware: "B2",
        service_us: |_, op| if op % 200 == 0 { 900 } else { sound(op) },
        ..MODEL
    },
    // Three times as slow while the drive is hot, in hours 10 and 11.
    Drive {
        serial: "S07",
        service_us: |sec, op| sound(op) * if is_hot(sec) { 3 } else { 1 },
        celsius: |after_sec| if is_hot(after_sec - 1) { 75 } else { 45 },
        ..MODEL
    },
    // 400 us more from hour 13 on.
    Drive {
        serial: "S08",
        service_us: |sec, op| sound(op) + if sec >= 12 * HOUR_SEC { 400 } else { 0 },
        ..MODEL
    },
];
const OF_H3: [Drive; 4] = [
    Drive {
        serial: "S09",
        service_us: |_, op| 220 + sound(op),
        ..MODEL
    },
    Drive {
        serial: "S10",
        service_us: |_, op| 220 + sound(op),
        ..MODEL
    },
    Drive {
        serial: "S11",
        service_us: |_, op| 220 + sound(op),
        amplification: 3,
        ..MODEL
    },
    Drive {
        serial: "S12",
        service_us: |_, op| 220 + sound(op),
        ..MODEL
    },
];

fn is_hot(sec: u64) -> bool {
    (9 * HOUR_SEC..11 * HOUR_SEC).contains(&sec)
}

/// Writes runs of a day on three hosts, a killed run, and six ratings.
fn write_population(dir: &Path) {
    let ops = &[("reads", 600)];
    let day = || Shape {
        intervals: 144,
        interval_sec: 600,
        slice_sec: HOUR_SEC,
        ops,
        ..SHORT
    };
    for (seed, (host, drives)) in (1..).zip([("h1", &OF_H1), ("h2", &OF_H2), ("h3", &OF_H3)]) {
        let lag_us = if host == "h2" { |_, _| 600 } else { |_, _| 4 };
        Shape {
            host,
            drives,
            seed,
            lag_us,
            ..day()
        }
        .write(&dir.join(host));
    }
    Shape {
        drives: &OF_H1[1..2],
        seed: 4,
        end: None,
        ..SHORT
    }
    .write(&dir.join("killed"));
    for (at, (model, rating)) in (10..).zip([
        ("M1", 20.0),
        ("M1", 30.0),
        ("M1", 24.0),
        ("M2", 40.0),
        ("M2", 80.0),
        ("M2", 60.0),
    ]) {
        let serial = if model == "M1" { "R1" } else { "R2" };
        write_rating(
            &dir.join(format!("rate-{at}")),
            Drive {
                serial,
                model,
                ..SOUND
            },
            rating,
            at,
        );
    }
}

/// DuckDB for Python, installed by scripts/client-setup. Without DuckDB: prints a message and returns `None`.
fn duckdb() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let module = target.join("duckdb");
    if module.exists() {
        return Some(module);
    }
    let why = fs::read_to_string(target.join("duckdb.missing"))
        .unwrap_or("run scripts/setup test".into());
    println!("skipped: no DuckDB for Python: {}", why.trim());
    None
}

fn answers(duckdb: &Path, out: &Path, queries: &[String]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/query.py");
    let mut python = Command::new("python3")
        .arg(script)
        .arg(out)
        .env("PYTHONPATH", duckdb)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    python
        .stdin
        .take()
        .unwrap()
        .write_all(json!(queries).to_string().as_bytes())
        .unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn queries() -> Vec<String> {
    let page = fs::read_to_string(PATH).unwrap();
    page.split("```sql\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// The durations that reports show, summed over the devices for which `is_of` is true. `is_of` gets a device's index.
fn recorded(dir: &Path, kind: HlogKind, is_of: impl Fn(usize) -> bool) -> Latencies {
    let manifest = manifest(dir).unwrap();
    let mut sum = latencies();
    each_window(dir, &manifest.layout(), kind, |window| {
        if is_of(window.cell % manifest.devices.len()) {
            sum.add(&window.histogram).unwrap();
        }
    })
    .unwrap();
    sum
}

#[test]
fn percentiles_in_sql_fall_into_the_same_bucket_as_in_reports() {
    let Some(duckdb) = duckdb() else { return };
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let out = parent.path().join("out");
    let service_us =
        |sec: u64, op: u64| (1 + (sec * 131 + op * op * 7) % 997) * (1 << (op % 13)) / 8;
    let lag_us = |sec: u64, op: u64| (sec + op * 3) % 113;
    let drive = Drive {
        service_us,
        ..SOUND
    };
    Shape {
        drives: &[drive],
        lag_us,
        ops: &[("reads", 997)],
        ..SHORT
    }
    .write(&dir);
    exported(&[&dir], &out);
    let quantiles = [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
    for kind in HlogKind::ALL {
        let recorded = recorded(&dir, kind, |_| true);
        assert_eq!(recorded.len(), 60 * 997);
        let name = kind.file_name().trim_end_matches(".hlog");
        let answers = answers(
            &duckdb,
            &out,
            &quantiles.iter().map(|q: &f64| {
            format!(
                "SELECT percentile_ns(upper_ns, count, {q:?}) FROM histograms WHERE kind = '{name}' GROUP BY run_id"
            )
        }).collect::<Vec<_>>(),
        );
        // The minimum (q = 0) is shown as the lower end of its bucket.
        let expected = quantiles.map(|q| json!([[recorded.value_at_quantile(f64::max(q, 1e-9))]]));
        assert_eq!(answers, expected, "{name}");
    }
}

#[test]
fn every_query_in_data_md_returns_the_known_answer() {
    let Some(duckdb) = duckdb() else { return };
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("runs");
    let out = parent.path().join("out");
    fs::create_dir(&dir).unwrap();
    write_population(&dir);
    let exported = exported(&[&dir], &out);
    assert_eq!(
        (exported.runs, exported.series, exported.unreadable.len()),
        (10, 6, 0),
        "{exported:?}"
    );
    let queries = queries();
    assert_eq!(queries.len(), 13, "one for percentiles, and twelve");
    let answers = answers(&duckdb, &out, &queries);
    let serials = |answer: &Value| -> Vec<String> {
        answer
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[0].as_str().unwrap().to_owned())
            .collect()
    };
    /// The bucket that holds this many microseconds.
    fn bucket_us(us: u64) -> f64 {
        let ns = latencies().highest_equivalent(us * 1_000 / 1_024 * 1_024);
        ns as f64 / 1e3
    }

    // Query 1: 12 of 600 operations, 2 %, take over 64 ms: 20 times the limit of 0.1 %.
    let worst = &answers[1];
    assert_eq!(serials(worst)[..2], ["S01", "R1"]);
    assert!(
        (worst[0][1].as_f64().unwrap() - 20.0).abs() < 1e-9 && worst[1][1] == 0.0,
        "{worst}"
    );

    // Query 2: the percentile of each firmware. For A1, the expected value comes from the runs' histogram logs.
    let mut a1 = recorded(&dir.join("h1"), HlogKind::Service, |_| true);
    a1.add(recorded(&dir.join("h2"), HlogKind::Service, |device| {
        device >= 2
    }))
    .unwrap();
    a1.add(recorded(&dir.join("h3"), HlogKind::Service, |_| true))
        .unwrap();
    for run in [
        "killed",
        "rate-10/step-1",
        "rate-11/step-1",
        "rate-12/step-1",
    ] {
        let manifest = manifest(&dir.join(run)).unwrap();
        each_window(
            &dir.join(run),
            &manifest.layout(),
            HlogKind::Service,
            |window| {
                if manifest.streams[window.cell].name == "reads" {
                    a1.add(&window.histogram).unwrap();
                }
            },
        )
        .unwrap();
    }
    let of_a1 = a1.value_at_quantile(0.999) as f64 / 1e3;
    assert_eq!(
        answers[2],
        json!([
            ["M1", "A1", of_a1],
            ["M1", "B2", bucket_us(900)],
            ["M2", "A1", bucket_us(128)]
        ])
    );

    // Query 3: minimum, median and maximum rating of each model.
    assert_eq!(
        answers[3],
        json!([["M1", 3, 20.0, 24.0, 30.0], ["M2", 3, 40.0, 60.0, 80.0]])
    );

    // Query 4: the 99th percentile rose from 128 us to 256 us on S03, and to 528 us on S08.
    let later = json!([
        ["S03", bucket_us(128), bucket_us(256)],
        ["S08", bucket_us(128), bucket_us(528)]
    ]);
    assert_eq!(answers[4], later);

    // Query 5: the drive was hot for 2 of 24 hours.
    let hot = json!([
        ["S07", 40.0, 22 * 3_600, bucket_us(128)],
        ["S07", 70.0, 2 * 3_600, bucket_us(384)],
    ]);
    assert_eq!(answers[5], hot);

    // Query 6: the median of h3 is 220 us higher than the median of all other hosts.
    assert_eq!(answers[6], json!([["h3", 4, bucket_us(220 + MEDIAN_US)]]));

    // Query 7: the lag of host h2 makes the run of S08 invalid.
    let outcomes = json!([
        ["pass", "held", 7],
        ["fail", "over-limit", 1],
        ["invalid", "own-lag", 1],
        ["invalid", "stopped", 1],
    ]);
    assert_eq!(answers[7], outcomes);

    // Query 8: host h2 has a lag of about 600 us, and service times of 80 to 128 us.
    let late = &answers[8];
    assert_eq!(serials(late), ["h2"]);
    let lag = recorded(&dir.join("h2"), HlogKind::Lag, |_| true).value_at_quantile(0.5);
    let service = recorded(&dir.join("h2"), HlogKind::Service, |_| true).value_at_quantile(0.5);
    assert_eq!(
        late[0],
        json!(["h2", lag as f64 / 1e3, service as f64 / 1e3])
    );

    // Query 9: the first hour in which a drive was slower than in the hour before, and the medians of both hours.
    assert_eq!(
        answers[9],
        json!([
            ["S07", 10.0, bucket_us(MEDIAN_US), bucket_us(3 * MEDIAN_US)],
            [
                "S08",
                13.0,
                bucket_us(MEDIAN_US),
                bucket_us(400 + MEDIAN_US)
            ],
        ])
    );

    // Query 10: 24 data units per second, from the first report to the last.
    let host_gb = (24 * (86_400 - 600) * 512_000_u64) as f64 / 1e9;
    let amplification = &answers[10];
    assert_eq!(serials(amplification)[..2], ["S11", "R1"]);
    assert_eq!(amplification[0], json!(["S11", host_gb, 3.0]));
    assert_eq!(amplification[1][2], json!(1.0));
}

/// Exports three drives that two campaigns measured: with the firmware A1 by fio, then with B2 by the storage test.
fn export_two_campaigns(parent: &Path, out: &Path) {
    let slow: fn(u64, u64) -> u64 = |_, op| 2 * sound(op);
    let drives = [("S03", slow), ("S04", |_, op| sound(op)), ("S05", slow)];
    let mut paths = Vec::new();
    for (index, (serial, with_b2)) in drives.into_iter().enumerate() {
        for (campaign, host, firmware, stream) in [
            ("lab-2025", "h1", "A1", "r-reads"),
            ("lab-2026", "h2", "B2", "reads"),
        ] {
            let path = format!("{campaign}/tasks/{index:04}/read/out");
            let service_us = if firmware == "A1" {
                |_, op| sound(op)
            } else {
                with_b2
            };
            Shape {
                host,
                drives: &[Drive {
                    serial,
                    firmware,
                    service_us,
                    ..SOUND
                }],
                ops: &[(stream, 600), ("large-block-reads", 600), ("writes", 600)],
                seed: paths.len() as u64,
                ..SHORT
            }
            .write(&parent.join(&path));
            paths.push((campaign, index, path, host, serial, firmware));
        }
    }
    let tasks = paths
        .iter()
        .map(|(campaign, index, path, host, drive, firmware)| TaskRow {
            campaign,
            task: *index as u64,
            step: "read",
            path,
            hostname: Some(host),
            drive,
            model: None,
            serial: Some(drive),
            firmware: Some(firmware),
            slot: None,
            state: "pass",
            note: "",
            attempts: 1,
        });
    let dirs = ["lab-2025", "lab-2026"].map(|dir| parent.join(dir));
    export(&dirs, &tasks.collect::<Vec<_>>(), out, false).unwrap();
}

#[test]
fn drive_history_and_firmware_pair_queries_return_the_rows_in_data_md() {
    let Some(duckdb) = duckdb() else { return };
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    export_two_campaigns(parent.path(), &out);
    let answers = answers(&duckdb, &out, &queries()[11..]);
    let page = fs::read_to_string(PATH).unwrap();
    for answer in answers {
        for row in answer.as_array().unwrap() {
            let cells = row.as_array().unwrap().iter().map(|cell| match cell {
                Value::String(text) => text.clone(),
                number if number.is_u64() => number.to_string(),
                number => format!("{:.2}", number.as_f64().unwrap()),
            });
            let line = format!("\n| {} |\n", cells.collect::<Vec<_>>().join(" | "));
            assert!(page.contains(&line), "{line}");
        }
        assert!(!answer.as_array().unwrap().is_empty());
    }
}
