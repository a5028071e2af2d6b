//! Helpers shared by tests of several crates.

use crate::baseline::{DirectionResult, JobPurpose, LatencyStats, Point};
use crate::series::{
    Conclusion, DriveIdentity, Rule, SERIES_FORMAT_VERSION, Series, SeriesPurpose, SeriesStepState,
    Step,
};
use results::judge::Outcome;

/// Beginning of test series and of their runs, milliseconds since 1970 (UTC).
pub const BEGAN_UNIX_MS: u64 = 1_795_271_232_147;

/// Made-up numbers for each direction. The 99th percentile is three times the median.
pub fn point(
    part: JobPurpose,
    depth: u32,
    reads: Option<TestDirection>,
    writes: Option<TestDirection>,
) -> Point {
    let iops = |made: Option<TestDirection>| made.map_or(0.0, |(_, _, iops, _)| iops);
    Point {
        part,
        job: String::new(),
        random: true,
        read_pct: 100.0 * iops(reads) / (iops(reads) + iops(writes)),
        depth,
        round: 0,
        seconds: 10.0,
        reads: reads.map(done),
        writes: writes.map(done),
        mean_in_flight: Some(f64::from(depth)),
        cpu_us: Some(2.5),
        steady: Some(true),
        doubt: None,
        watch: None,
    }
}

/// Bytes of an operation, offered and achieved operations per second, median latency in microseconds.
pub type TestDirection = (f64, Option<f64>, f64, f64);

fn done((bytes_each, offered_iops, iops, median_us): TestDirection) -> DirectionResult {
    let service = LatencyStats {
        mean_us: median_us,
        stdev_us: median_us / 4.0,
        min_us: median_us / 50.0,
        max_us: median_us * 4.0,
        percentiles_us: LatencyStats::PERCENTILES
            .iter()
            .map(|percent: &f64| {
                median_us
                    * (percent / 50.0).max(if *percent >= 99.0 {
                        percent - 96.0
                    } else {
                        0.0
                    })
            })
            .collect(),
    };
    let ops = (iops * 10.0) as u64;
    let mbps = iops * bytes_each / 1e6;
    DirectionResult {
        bytes_each,
        offered_iops,
        ops,
        iops,
        mbps,
        errors: 0,
        undone: 0,
        answer: service.clone(),
        service,
    }
}

/// A made-up baseline of a drive that does at most `scale` times 100,000 reads or 25,000 writes of 4 KiB per second. A
/// fresh drive does twice as many writes.
pub fn baseline(scale: f64) -> Vec<Point> {
    let four_k = 4_096.0;
    let large = 131_072.0;
    let reads = 100_000.0 * scale;
    let writes = 25_000.0 * scale;
    let mb = 1_000.0 * scale;
    let mut points = Vec::new();
    for round in 0..6 {
        let iops = writes
            * if round < 3 {
                2.0 - 0.3 * f64::from(round)
            } else {
                1.0
            };
        let saturation = point(
            JobPurpose::Saturation,
            32,
            None,
            Some((four_k, None, iops, 32e6 / iops)),
        );
        points.push(Point {
            round,
            steady: Some(round == 5),
            ..saturation
        });
    }
    for depth in [1_u32, 2, 4, 8, 16, 32, 64, 128, 256] {
        // A drive with 32 channels for reads and 4 for writes.
        let rate = |highest: f64, channels: f64| highest * (f64::from(depth) / channels).min(1.0);
        let of_reads = rate(reads, 32.0);
        let of_writes = rate(writes, 4.0);
        let us = |iops: f64| f64::from(depth) * 1e6 / iops;
        points.push(point(
            JobPurpose::Depth,
            depth,
            Some((four_k, None, of_reads, us(of_reads))),
            None,
        ));
        points.push(point(
            JobPurpose::Depth,
            depth,
            None,
            Some((four_k, None, of_writes, us(of_writes))),
        ));
    }
    for (bytes, reads, writes) in [
        (four_k, reads, writes),
        (large, mb * 1e6 / large, mb * 1e6 / large),
    ] {
        for read_share in [0.0, 0.5, 0.95, 1.0] {
            let all = reads * read_share + writes * (1.0 - read_share);
            let of = |share: f64| (share > 0.0).then(|| (bytes, None, all * share, 320.0 / scale));
            points.push(point(
                JobPurpose::Profile,
                32,
                of(read_share),
                of(1.0 - read_share),
            ));
        }
    }
    for percent in [10, 25, 50, 75, 90, 95] {
        let share = f64::from(percent) / 100.0;
        let us = 80.0 / (1.02 - share);
        let at = |highest: f64| Some((four_k, Some(highest * share), highest * share, us));
        points.push(point(JobPurpose::Rate, 256, at(reads), None));
        points.push(point(JobPurpose::Rate, 256, None, at(writes)));
    }
    for write_share in [0.0, 0.2, 0.4, 0.6, 0.8] {
        for read_share in [0.0, 0.2, 0.4, 0.6, 0.8] {
            let load: f64 = read_share + write_share;
            let of_reads = grid_direction(four_k, reads * read_share, load);
            let of_writes = grid_direction(large, mb * 1e6 / large * write_share, load);
            if load > 0.0 {
                points.push(point(JobPurpose::Grid, 256, of_reads, of_writes));
            }
        }
    }
    points
}

/// Made-up numbers of one direction in a cell of the grid; `None` if its offered rate `iops` is 0. `load`: fraction of
/// the drive's highest load, over both directions.
fn grid_direction(bytes: f64, iops: f64, load: f64) -> Option<TestDirection> {
    let us = 80.0 / (1.7 - load);
    (iops > 0.0).then(|| (bytes, Some(iops), iops.min(iops / load), us))
}

/// A finished step at `multiple` times the load of 1x. The run directory has the name of the step.
pub fn step(name: impl Into<String>, multiple: f64, outcome: Outcome) -> Step {
    let name = name.into();
    let planned =
        Step::planned(name.clone(), name, multiple, vec![0], 10, Rule::Limits).begun(BEGAN_UNIX_MS);
    Step {
        state: SeriesStepState::Done,
        outcome: Some(outcome),
        ended_unix_ms: Some(BEGAN_UNIX_MS + 10_000),
        ..planned
    }
}

pub fn conclusion(outcome: Outcome, sentence: &str) -> Conclusion {
    let sentence = sentence.to_owned();
    let details = serde_json::Value::Null;
    Conclusion {
        outcome,
        sentence,
        action: None,
        remarks: Vec::new(),
        rating: None,
        comparable: false,
        details,
    }
}

/// An unfinished series with `steps`. `devices` has the names and models of the drives.
pub fn series(
    purpose: SeriesPurpose,
    devices: &[(&str, Option<&str>)],
    steps: Vec<Step>,
) -> Series {
    let identity = |(name, model): &(&str, Option<&str>)| DriveIdentity {
        name: (*name).to_owned(),
        model: model.map(str::to_owned),
        serial: Some((*name).to_owned()),
        size_bytes: 1 << 36,
        simulated: false,
    };
    Series {
        format_version: SERIES_FORMAT_VERSION,
        tool: "flashproof 0.1.0".to_owned(),
        command: vec!["flashproof".to_owned()],
        purpose,
        began_unix_ms: BEGAN_UNIX_MS,
        devices: devices.iter().map(identity).collect(),
        config_1x: String::new(),
        terms: Vec::new(),
        findings: Vec::new(),
        steps,
        conclusion: None,
        process: None,
        note: None,
    }
}

/// `drives`: name, and `scale` as in [`baseline`]. All jobs have the run directory `run`, below that of the series.
pub fn baseline_series(drives: &[(&str, f64)], run: &str) -> Series {
    let job = |(number, (device, point)): (usize, (usize, Point))| Step {
        dir: run.to_owned(),
        devices: vec![device],
        rule: Rule::Completes,
        reason: "ran to its end without an I/O error".to_owned(),
        details: serde_json::to_value(point).unwrap_or_default(),
        ..step(format!("job {}", number + 1), 1.0, Outcome::Measured)
    };
    let jobs = drives
        .iter()
        .enumerate()
        .flat_map(|(device, (_, scale)): (usize, &(&str, f64))| {
            baseline(*scale)
                .into_iter()
                .map(move |point| (device, point))
        })
        .enumerate()
        .map(job)
        .collect();
    let devices: Vec<_> = drives.iter().map(|(name, _)| (*name, Some("M1"))).collect();
    Series {
        terms: vec![("time under load".to_owned(), "10 min".to_owned())],
        conclusion: Some(conclusion(Outcome::Measured, "measured")),
        ..series(SeriesPurpose::Baseline, &devices, jobs)
    }
}
