//! Run directories with known content, written as a run writes them.

#![allow(dead_code, unreachable_pub)] // each test program uses only a part of this

use conclusions::series::{Conclusion, Series, SeriesPurpose, Step};
use conclusions::testing::{BEGAN_UNIX_MS, conclusion, series, step};
use results::cell::{Interval, Layout};
use results::finding::{Finding, Severity};
use results::judge::{End, Outcome, Sla};
use results::run_dir::{Manifest, RunWriter, WorkloadRecord};
use results::times::Times;
use serde_json::json;
use std::path::Path;

/// A name that breaks a page which does not escape it.
pub const HOSTILE: &str = "</script><script>document.body.dataset.hacked=1</script><!--\"'&";

/// Columns of telemetry, as a run on a real device has them.
const COLUMNS: &str = "loop0.r/s loop0.w/s loop0.rkB/s loop0.r_await loop0.aqu-sz loop0.%util \
    loop0.temperature_celsius loop0.smart.percentage_used host.cpu_busy_pct host.cpu_steal_pct process.cpu_pct \
    thread.issue-0.cpu_pct";

#[derive(Clone, Copy)]
pub struct Shape<'a> {
    pub intervals: u64,
    pub interval_sec: u64,
    pub devices: &'a [&'a str],
    /// In each interval whose number is a multiple of this, one operation in ten takes 100 ms. 0: no interval is slow.
    pub slow_every: u64,
    pub telemetry: bool,
}

/// A short run that passes.
pub const SHORT: Shape<'_> = Shape {
    intervals: 60,
    interval_sec: 1,
    devices: &["/dev/loop0"],
    slow_every: 0,
    telemetry: true,
};

fn layout(devices: &[&str]) -> Layout {
    results::testing::layout(
        &[("reads", true), ("large-block-writes", false)],
        100.0,
        devices.iter().copied(),
    )
}

/// A finding about `device`. `texts`: check, finding, reason and remedy.
pub fn finding(level: Severity, device: Option<&str>, texts: [&str; 4]) -> Finding {
    let [check, finding, reason, remedy] = texts.map(str::to_owned);
    Finding {
        check,
        level,
        device: device.map(str::to_owned),
        finding,
        reason,
        remedy,
    }
}

pub fn write_run(dir: &Path, shape: Shape<'_>) {
    write_step_run(dir, shape, None, None);
}

/// Like [`write_run`], for a step with the name `purpose` and the load `multiple`.
pub fn write_step_run(dir: &Path, shape: Shape<'_>, purpose: Option<&str>, multiple: Option<f64>) {
    let layout = layout(shape.devices);
    let duration_sec = shape.intervals * shape.interval_sec;
    let mut manifest = Manifest {
        tool: "flashproof 0.1.0".into(),
        command: vec!["flashproof".into(), "storage".into(), HOSTILE.into()],
        started_unix_ms: BEGAN_UNIX_MS,
        purpose: purpose.map(str::to_owned),
        multiple,
        duration_sec,
        report_interval_sec: shape.interval_sec,
        slice_sec: duration_sec.min(3_600),
        round_sec: (duration_sec / 12).clamp(1, 60),
        device_facts: shape
            .devices
            .iter()
            .map(|_| json!({"model": "M", "size_bytes": 1_u64 << 36}))
            .collect(),
        host_facts: json!({"kernel": HOSTILE}),
        findings: vec![finding(
            Severity::Warning,
            None,
            ["io-scheduler", HOSTILE, "it reorders", "echo none"],
        )],
        unmeasured: vec!["the SMART log: permission denied".into()],
        ..Manifest::new(&layout, Sla::default())
    };
    manifest.workloads = vec![WorkloadRecord {
        kind: "storage".into(),
        ..WorkloadRecord::default()
    }];
    manifest.workloads[0].config.as_written = format!("# {HOSTILE}\n");
    let columns: Vec<String> = COLUMNS
        .split(' ')
        .filter(|_| shape.telemetry)
        .map(str::to_owned)
        .collect();
    let mut writer = RunWriter::create(dir, &manifest, &columns).unwrap();
    let mut judge = manifest.judge();
    for index in 0..shape.intervals {
        let mut interval = Interval::new(&layout);
        (interval.index, interval.end_ns) =
            (index, (index + 1) * shape.interval_sec * 1_000_000_000);
        let slow = shape.slow_every > 0 && index % shape.slow_every == 0;
        for cell in &mut interval.cells {
            for op in 0..100 * shape.interval_sec {
                let service_ns = if slow && op % 10 == 0 {
                    100_000_000
                } else {
                    90_000 + 100 * op
                };
                cell.record(&Times::new(0, 0, 5_000, 5_000 + service_ns), 0, 1_536);
            }
        }
        interval.close();
        judge.add(&interval);
        let values: Vec<String> = columns.iter().map(|name| value(name, index)).collect();
        writer.write_interval(&interval, &values).unwrap();
    }
    writer.finish(&judge.verdict(&End::Completed)).unwrap();
}

/// A value that rises slowly; empty for the temperature, which cannot be read.
fn value(column: &str, index: u64) -> String {
    if column.ends_with("temperature_celsius") {
        String::new()
    } else {
        (10 + index % 50).to_string()
    }
}

/// Writes a series with a step for each of `steps`: name, multiple, outcome, and the shape of its run.
pub fn write_series(
    dir: &Path,
    purpose: SeriesPurpose,
    steps: &[(&str, f64, Outcome, Option<Shape<'_>>)],
) {
    std::fs::create_dir(dir).unwrap();
    let held = conclusion(
        Outcome::Pass,
        if purpose == SeriesPurpose::Rate {
            "it held 20x"
        } else {
            "it passed"
        },
    );
    let series = Series {
        config_1x: HOSTILE.into(),
        terms: vec![("sla".into(), "5%>1ms".into())],
        conclusion: Some(Conclusion {
            remarks: vec!["a screening".into()],
            rating: Some(20.0),
            ..held
        }),
        ..series(
            purpose,
            &[("/dev/loop0", None)],
            steps
                .iter()
                .enumerate()
                .map(
                    |(number, (name, multiple, outcome, shape)): (
                        usize,
                        &(&str, f64, Outcome, Option<Shape<'_>>),
                    )| {
                        let below = format!("step-{number}");
                        if let Some(shape) = shape {
                            write_step_run(&dir.join(&below), *shape, Some(name), Some(*multiple));
                        }
                        let duration_sec =
                            shape.map_or(60, |shape| shape.intervals * shape.interval_sec);
                        Step {
                            dir: below,
                            duration_sec,
                            reason: HOSTILE.into(),
                            ..step(*name, *multiple, *outcome)
                        }
                    },
                )
                .collect(),
        )
    };
    series.write(dir).unwrap();
}

/// Writes a finished baseline of `drives`: name, and `scale` as in `baseline_series`. All jobs share one short run.
pub fn write_baseline(dir: &Path, drives: &[(&str, f64)]) -> Series {
    std::fs::create_dir(dir).unwrap();
    let names: Vec<&str> = drives.iter().map(|(name, _)| *name).collect();
    let shape = Shape {
        devices: &names,
        intervals: 10,
        ..SHORT
    };
    write_step_run(&dir.join("001-saturation"), shape, Some("job 1"), None);
    let series = conclusions::testing::baseline_series(drives, "001-saturation");
    series.write(dir).unwrap();
    series
}
