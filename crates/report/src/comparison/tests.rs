//! Candidates with known numbers, compared.

use super::*;
use conclusions::series::{Conclusion, Series, SeriesPurpose, Step};
use results::cell::Interval;
use results::finding::{Finding, Severity};
use results::judge::{End, Outcome, Sla, whole_slice_sec};
use results::run_dir::{Manifest, RecordedConfig, RunWriter, WorkloadRecord};
use results::testing::layout;
use results::times::Times;
use results::{assert_contains, assert_starts_with};
use serde_json::json;
use std::fs;

const SEC: u64 = 1_000_000_000;
const SECONDS: u64 = 10;

/// A run of ten seconds with 100 reads per second, `slow` of which take 2 ms, and 10 large writes per second.
struct Bench {
    manifest: Manifest,
    slow: u64,
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A bench like a run with `--as-act` of the standard mix at `x`, on a drive of 1 GB.
fn bench(x: u64) -> Bench {
    let streams = [
        ("reads", true),
        ("large-block-reads", false),
        ("large-block-writes", false),
    ];
    let layout = layout(&streams, 100.0, ["/dev/nvme1n1"]);
    let reads = (2000 * x).to_string();
    let writes = (1000 * x).to_string();
    let mut resolved = pairs(&[
        ("read-reqs-per-sec", &reads),
        ("write-reqs-per-sec", &writes),
    ]);
    let others = "record-bytes: 1536, record-bytes-range-max: 0, large-block-op-kbytes: 128, replication-factor: 1, \
                  update-pct: 0, defrag-lwm-pct: 50, no-defrag-reads: no, compress-pct: 100, commit-to-device: no, \
                  tomb-raider: no";
    resolved.extend(pairs(
        &others
            .split(", ")
            .map(|pair| pair.split_once(": ").unwrap())
            .collect::<Vec<_>>(),
    ));
    let manifest = Manifest {
        started_unix_ms: conclusions::testing::BEGAN_UNIX_MS,
        duration_sec: SECONDS,
        slice_sec: whole_slice_sec(3600, SECONDS, 1),
        workloads: vec![WorkloadRecord {
            kind: "storage".into(),
            config: RecordedConfig {
                resolved,
                settings: pairs(&[("arrival", "act")]),
                ..RecordedConfig::default()
            },
            times_1x: Some(x as f64),
            ..WorkloadRecord::default()
        }],
        device_facts: vec![
            json!({"kind": "whole_disk", "kernel_name": "nvme1n1", "model": "M1", "size_bytes": 1_000_000_000}),
        ],
        ..Manifest::new(&layout, Sla::default())
    };
    Bench { manifest, slow: 0 }
}

impl Bench {
    fn set(mut self, key: &str, value: &str) -> Self {
        let RecordedConfig {
            resolved, settings, ..
        } = &mut self.manifest.workloads[0].config;
        for pair in resolved
            .iter_mut()
            .chain(settings)
            .filter(|(known, _)| known == key)
        {
            pair.1 = value.to_owned();
        }
        self
    }

    fn write(&self, dir: &Path) {
        let columns = ["nvme1n1.smart.data_units_written".to_owned()];
        let mut writer = RunWriter::create(dir, &self.manifest, &columns).unwrap();
        let mut judge = self.manifest.judge();
        for index in 0..SECONDS {
            let mut interval = Interval::new(&self.manifest.layout());
            (interval.index, interval.end_ns) = (index, (index + 1) * SEC);
            for read in 0..100 {
                let service_ns = if read < self.slow { 2_000_000 } else { 100_000 };
                interval.cells[0].record(&Times::new(0, 0, 0, service_ns), 0, 1536);
            }
            (0..5)
                .for_each(|_| interval.cells[1].record(&Times::new(0, 0, 0, 100_000), 0, 1 << 17));
            (0..10)
                .for_each(|_| interval.cells[2].record(&Times::new(0, 0, 0, 100_000), 0, 100_000));
            judge.add(&interval);
            // 2 MB/s in units of 512,000 bytes.
            writer
                .write_interval(&interval, &[(index as f64 * 2e6 / 512e3).to_string()])
                .unwrap();
        }
        writer.finish(&judge.verdict(&End::Completed)).unwrap();
    }
}

fn named(dir: &Path) -> CandidateDir {
    CandidateDir {
        name: None,
        dir: dir.to_owned(),
    }
}

fn ratings() -> Vec<PublishedRating> {
    built_in().unwrap()
}

fn one(dir: &Path) -> Candidate {
    compare(&[named(dir)], &OperatorData::default(), &ratings())
        .unwrap()
        .candidates
        .remove(0)
}

fn why<T: std::fmt::Debug>(cell: &ValueOrReason<T>) -> &str {
    match cell {
        ValueOrReason::Missing { why_not } => why_not,
        ValueOrReason::Value(value) => panic!("{value:?}"),
    }
}

#[test]
fn the_io_of_a_device_is_the_sum_over_all_streams() {
    let parent = tempfile::tempdir().unwrap();
    bench(30).write(parent.path());
    let io = one(parent.path()).io;
    // Per second: 100 record reads of 1,536 bytes, 5 large-block reads of 128 KiB, 10 writes of 100,000 bytes.
    let expected = DeviceIo {
        reads_per_sec: 105.0,
        writes_per_sec: 10.0,
        read_bytes_per_sec: 100.0 * 1536.0 + 5.0 * 131_072.0,
        written_bytes_per_sec: 1e6,
        histograms: false,
    };
    assert_eq!(io.value(), Some(&expected));
}

#[test]
fn flushes_and_discards_of_a_replay_are_neither_reads_nor_writes() {
    for neither in ["flushes", "discards", "r.flushes"] {
        let parent = tempfile::tempdir().unwrap();
        let mut replay = bench(30);
        replay.manifest.streams[1].name = neither.into();
        replay.write(parent.path());
        let io = one(parent.path()).io;
        let io = io.value().unwrap();
        let counted = (io.reads_per_sec, io.writes_per_sec, io.read_bytes_per_sec);
        assert_eq!(counted, (100.0, 10.0, 100.0 * 1536.0), "{neither}");
    }
}

#[test]
fn the_comparison_of_a_run_has_its_load_margins_wear_price_and_rank() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a");
    Bench {
        slow: 2,
        ..bench(30)
    }
    .write(&dir);
    let given = OperatorData {
        endurance: vec![("a".into(), Endurance::DriveWritesPerDay(0.5))],
        prices: vec![("/dev/nvme1n1".into(), 600.0)],
        ..OperatorData::default()
    };
    let comparison = compare(&[named(&dir)], &given, &ratings()).unwrap();
    assert_eq!(comparison.warnings, [""; 0]);
    let a = &comparison.candidates[0];
    assert_eq!(
        (a.name.as_str(), a.damaged, a.outcome.value()),
        ("a", false, Some(&Outcome::Pass))
    );
    assert_eq!(a.load.value().unwrap().x_per_device, Some(30.0));
    let margins = a.margins.value().unwrap();
    let worst = margins[0].worst.value().unwrap();
    assert_eq!(
        (
            worst.share,
            worst.slice,
            margins[1].worst.value().unwrap().share
        ),
        (0.02, 1, 0.0)
    );
    assert_eq!(
        (worst.over, worst.scheduled, worst.is_over()),
        (20, 1_000, false)
    );
    assert_eq!(a.p99.value().unwrap().service_ns / 100_000, 20);
    assert_eq!(a.rate.value().unwrap().achieved_iops, 100.0);
    // 10 writes of 100,000 bytes a second: 86.4 GB a day on 1 GB, rated for half a drive write a day for
    // five years. The drive counted twice as many bytes.
    let wear = &a.wear.value().unwrap()[0];
    assert_eq!(wear.host_bytes_per_day, ValueOrReason::Value(86.4e9));
    assert_eq!(wear.drive_writes_per_day, ValueOrReason::Value(86.4));
    assert!((wear.years.value().unwrap() - 0.5 * 5.0 / 86.4).abs() < 1e-9);
    assert!((wear.smart_bytes_per_day.value().unwrap() - 2.0 * 86.4e9).abs() < 1e3);
    assert_eq!(a.price_per_1x, ValueOrReason::Value(20.0));
    // The next higher ratings are two at 32x; the next one that is not higher is 30x.
    let place = a.place.value().unwrap();
    assert_eq!(
        (place.above.last().unwrap().x, place.below[0].x),
        (32.0, 30.0)
    );
    assert!(
        place
            .caveat
            .as_ref()
            .unwrap()
            .contains("this run lasted 10 s")
    );
    let text = comparison.to_string();
    for part in [
        "PASS (screening)",
        "M1 (/dev/nvme1n1)",
        "2.00 % of 5 %",
        "86.4 GB",
        "  > 30x  a",
        "Micron P420m",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(
        comparison
            .markdown()
            .contains("| worst over 1ms | 2.00 % of 5 % |"),
        "{}",
        comparison.markdown()
    );
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!(json["candidates"][0]["price_per_1x"], 20.0);
    assert_eq!(
        json["candidates"][0]["rating"]["why_not"],
        "a single run has no rating (use flashproof rate)"
    );
}

/// A load in multiples of 1x; `highest`: found by a search.
fn held(x: f64, highest: bool) -> ValueOrReason<HeldLoad> {
    ValueOrReason::Value(HeldLoad {
        multiple: None,
        x_per_device: Some(x),
        highest,
    })
}

#[test]
fn the_first_line_names_the_winner_or_why_there_is_none() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a");
    bench(30).write(&dir);
    let run = one(&dir);
    let answer = |loads: [ValueOrReason<HeldLoad>; 2], offered_iops: f64, p99_ns: [u64; 2]| {
        let candidates = ["A", "B"].into_iter().zip(loads.into_iter().zip(p99_ns));
        let candidates = candidates.map(|(name, (load, service_ns))| {
            let mut candidate = run.clone();
            candidate.name = name.to_owned();
            candidate.load = load;
            candidate.rate = candidate.rate.map(|rate| StreamRate {
                offered_iops,
                achieved_iops: 1e10 / service_ns as f64,
                ..rate.clone()
            });
            candidate.p99 = candidate.p99.map(|p99| StreamQuantile {
                service_ns,
                ..p99.clone()
            });
            candidate
        });
        let comparison = CandidateComparison {
            candidates: candidates.collect(),
            warnings: Vec::new(),
            remarks: Vec::new(),
            baselines: None,
            warranty_years: 5.0,
        };
        comparison.to_string().lines().next().unwrap().to_owned()
    };
    let missing = || ValueOrReason::missing("no limits");
    let p99 = [100_000, 200_000];
    for (loads, offered, p99, expected) in [
        (
            [held(36.0, true), held(48.0, true)],
            1.0,
            p99,
            "B holds 1.33 times A's load (48x against 36x)",
        ),
        (
            [held(48.0, false), held(36.0, true)],
            1.0,
            p99,
            "A holds at least 1.33 times B's load (48x against 36x)",
        ),
        (
            [held(48.0, true), held(36.0, false)],
            1.0,
            p99,
            "A held more than B (48x against 36x); the highest load was not searched for",
        ),
        (
            [held(48.0, true), held(48.0, true)],
            1.0,
            p99,
            "A and B hold the same load, 48x",
        ),
        (
            [held(1.0, false), held(1.0, false)],
            1.0,
            p99,
            "A and B held the same load, 1x (p99 100 us against 200 us); the highest load was not searched for",
        ),
        (
            [held(1.0, false), missing()],
            1.0,
            p99,
            "only A is known to hold its load",
        ),
        (
            [missing(), missing()],
            0.0,
            p99,
            "A reaches 2 times B's rate (100,000/s against 50,000/s)",
        ),
        (
            [missing(), missing()],
            1.0,
            p99,
            "A has the shortest p99 at the same rate (p99 100 us against 200 us)",
        ),
        (
            [missing(), missing()],
            0.0,
            [100_000, 101_000],
            "A and B reach the same rate, 100,000/s",
        ),
    ] {
        assert_eq!(answer(loads, offered, p99), format!("COMPARED: {expected}"));
    }
}

#[test]
fn equal_runs_have_no_winner_and_their_failure_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = ["a", "b"].map(|name| parent.path().join(name));
    let failed = Bench {
        slow: 10,
        ..bench(1)
    };
    dirs.iter().for_each(|dir| failed.write(dir));
    let candidates = dirs.map(|dir| named(&dir));
    let compared = compare(&candidates, &OperatorData::default(), &ratings()).unwrap();
    let text = compared.to_string();
    let answer = "COMPARED: a and b have the same p99 at the same rate (p99 2.01 ms against 2.01 ms); a and b failed\n";
    assert_starts_with!(text, answer);
}

#[test]
fn rows_without_values_are_omitted_and_curves_lack_percentiles_of_few_operations() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = ["a", "b"].map(|name| parent.path().join(name));
    dirs.iter().for_each(|dir| bench(30).write(dir));
    let comparison = compare(
        &dirs.each_ref().map(|dir| named(dir)),
        &OperatorData::default(),
        &ratings(),
    )
    .unwrap();
    let text = comparison.to_string();
    assert!(
        text.contains("load held")
            && !text.contains("price for each 1x")
            && !text.contains("no price was given"),
        "{text}"
    );
    let csv = comparison.table().csv().unwrap();
    assert!(
        csv.starts_with(",a,b\nresult,PASS (screening),PASS (screening)\n"),
        "{csv}"
    );
    let page = comparison.html("flashproof");
    // 1,000 reads: the 99.9th percentile is the last one that an operation exceeds.
    let points = "\"x\":[0.301,1.0,2.0,3.0,4.0]";
    assert!(page.contains(points) && page.contains(",null]"), "{page}");
    assert!(
        page.contains("badge pass"),
        "outcomes have a colour: {page}"
    );
}

#[test]
fn charts_over_time_have_a_line_for_each_of_eight_runs_and_name_those_not_drawn() {
    let parent = tempfile::tempdir().unwrap();
    let series = parent.path().join("0-base");
    baseline(&series, &[("/dev/nvme0n1", 1.0)]);
    let mut dirs = vec![named(&series)];
    for number in 1..=10 {
        let dir = parent.path().join(format!("r{number}"));
        let mut one = bench(30);
        one.slow = if number == 3 { 5 } else { 0 };
        one.write(&dir);
        dirs.push(named(&dir));
    }
    let comparison = compare(&dirs, &OperatorData::default(), &ratings()).unwrap();
    let [latency, rate] = &over_time::charts(&comparison.candidates)[..] else {
        panic!("two charts");
    };
    for chart in [latency, rate] {
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]);
        // The first colour is that of the baseline, which has no line here, as in the chart of percentiles.
        assert_eq!(
            chart.lines.iter().map(|line| line.style.colour).next(),
            Some(1)
        );
        for rest in [
            "Not drawn: 0-base: a baseline has many jobs",
            "Not drawn: r9, r10: only 8 candidates are drawn; ",
        ] {
            assert!(chart.caption.contains(rest), "{}", chart.caption);
        }
        assert_eq!(chart.x.title, "time since the run began");
    }
    assert!(latency.key.starts_with("Longest: 2") && latency.key.contains("ms of r3, at"));
    // 10 s of 100 reads per second.
    assert_eq!(rate.lines[0].y, [Some(100.0); 10]);
    assert_eq!(rate.key, "Lowest: 100/s of r1, at 1 s.");
    let page = comparison.html("flashproof");
    assert!(page.contains("p99.9 over time") && page.contains("\"second\":1.0"));
    let only_baseline = compare(&dirs[..1], &OperatorData::default(), &ratings()).unwrap();
    assert_eq!(over_time::charts(&only_baseline.candidates), []);
}

#[test]
fn only_runs_like_those_of_published_ratings_are_ranked_among_them() {
    let parent = tempfile::tempdir().unwrap();
    let mut simulated = bench(30);
    simulated.manifest.simulated = true;
    let mut file = bench(30);
    file.manifest.device_facts = vec![json!({"kind": "regular_file"})];
    let mut lax = bench(30);
    lax.manifest.sla = "50%>1ms,40%>8ms,30%>64ms".parse().unwrap();
    let mut odd = bench(30);
    odd.manifest.workloads[0].not_comparable =
        Some("published ratings are of storage tests".into());
    let mut shared = bench(30);
    shared
        .manifest
        .workloads
        .push(shared.manifest.workloads[0].clone());
    for (name, bench, expected) in [
        ("file", file, "a file is not ranked among drives"),
        (
            "simulated",
            simulated,
            "a simulated drive is not ranked among real drives",
        ),
        ("lax", lax, "the limits are not ACT's"),
        ("odd", odd, "published ratings are of storage tests"),
        (
            "shared",
            shared,
            "published ratings are for runs with exactly one load",
        ),
        (
            "failed",
            Bench {
                slow: 5,
                ..bench(30)
            },
            "the run did not hold the load",
        ),
    ] {
        let dir = parent.path().join(name);
        bench.write(&dir);
        let candidate = one(&dir);
        assert!(
            why(&candidate.place).contains(expected),
            "{name}: {}",
            why(&candidate.place)
        );
    }
}

fn preparation(level: Severity) -> Finding {
    let device = str::to_owned("/dev/x");
    let finding = str::to_owned("f");
    let reason = str::to_owned("");
    let remedy = str::to_owned("");
    Finding {
        check: "preparation".into(),
        level,
        device: Some(device),
        finding,
        reason,
        remedy,
    }
}

#[test]
fn comparing_different_tests_warns_of_each_difference_except_the_load() {
    let parent = tempfile::tempdir().unwrap();
    let a = parent.path().join("a");
    let b = parent.path().join("b");
    let mut first = bench(30);
    first.manifest.findings = vec![preparation(Severity::Ok)];
    first.write(&a);
    let mut other = bench(40).set("record-bytes", "512").set("arrival", "paced");
    other.manifest.sla = "5%>2ms".parse().unwrap();
    other.manifest.simulated = true;
    other.manifest.findings = [Severity::Ok, Severity::Warning].map(preparation).into();
    other.write(&b);
    let comparison = compare(
        &[named(&a), named(&b)],
        &OperatorData::default(),
        &ratings(),
    )
    .unwrap();
    for said in [
        "different tests: the drives: real (a); simulated (b)",
        "different tests: the preparation: not prepared (b); prepared (a)",
        "different tests: the limits: 5%>1ms,1%>8ms,0.1%>64ms (a); 5%>2ms (b)",
        "different tests: record-bytes: 1536 (a); 512 (b)",
        "different tests: arrival: act (a); paced (b)",
    ] {
        assert!(
            comparison.warnings.iter().any(|warning| warning == said),
            "{said}: {:?}",
            comparison.warnings
        );
    }
    // Different loads are no warning: the load is the compared quantity.
    assert_eq!(comparison.warnings.len(), 5, "{:?}", comparison.warnings);
    let text = comparison.to_string();
    assert!(
        text.contains("the run has no limit at 2ms")
            && text.contains("the run has no limit at 1ms"),
        "{text}"
    );
}

#[test]
fn the_undamaged_part_of_a_damaged_candidate_is_shown_and_marked() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "c"].map(|name| parent.path().join(name));
    dirs.iter().for_each(|dir| bench(30).write(dir));
    let telemetry = dirs[1].join("telemetry.csv");
    let text = fs::read_to_string(&telemetry).unwrap();
    fs::write(&telemetry, text.replace("\n4,5,", "\n4,x,")).unwrap();
    fs::write(dirs[2].join("manifest.json"), "{").unwrap();
    fs::write(dirs[0].join("service.hlog"), "rubbish\n").unwrap();
    let comparison = compare(
        &dirs.each_ref().map(|dir| named(dir)),
        &OperatorData::default(),
        &ratings(),
    )
    .unwrap();
    let [a, b, c] = &comparison.candidates[..] else {
        panic!()
    };
    assert!(a.damaged && a.p99.value().is_none() && a.outcome.value() == Some(&Outcome::Invalid));
    assert!(
        b.damaged && b.outcome.value() == Some(&Outcome::Invalid) && b.margins.value().is_some()
    );
    let bytes_per_day = &b.wear.value().unwrap()[0].host_bytes_per_day;
    assert_eq!(
        bytes_per_day,
        &ValueOrReason::Value(86.4e9),
        "from the four undamaged seconds"
    );
    assert!(
        c.damaged && why(&c.outcome).contains("manifest.json"),
        "{c:?}"
    );
    for said in [
        "b: telemetry.csv is changed: ",
        "c: reading ",
        "a: no quantiles of latencies: ",
    ] {
        assert!(
            comparison
                .warnings
                .iter()
                .any(|warning| warning.starts_with(said)),
            "{:?}",
            comparison.warnings
        );
    }
    assert!(
        comparison
            .to_string()
            .contains("INVALID (screening), DAMAGED"),
        "{comparison}"
    );
}

#[test]
fn repeated_results_directories_without_a_run_and_unknown_names_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a");
    bench(1).write(&dir);
    let refused = |dirs: &[CandidateDir], given: &OperatorData| {
        compare(dirs, given, &ratings()).unwrap_err().to_string()
    };
    let again = parent.path().join(".").join("a");
    let error = refused(&[named(&dir), named(&again)], &OperatorData::default());
    assert!(
        error.contains(" - both are ") && error.ends_with("give each result once"),
        "{error}"
    );
    let error = refused(&[named(parent.path())], &OperatorData::default());
    assert!(
        error.contains("but there are runs below it: a; give one of them; "),
        "{error}"
    );
    let given = OperatorData {
        prices: vec![("b".into(), 1.0)],
        ..OperatorData::default()
    };
    let error = refused(&[named(&dir)], &given);
    assert!(
        error.ends_with("no candidate or device has that name; the names are /dev/nvme1n1, a"),
        "{error}"
    );
    let other = parent.path().join("b");
    bench(1).write(&other);
    let name = |dir: &Path| CandidateDir {
        name: Some("n".into()),
        dir: dir.to_owned(),
    };
    let error = refused(&[name(&dir), name(&other)], &OperatorData::default());
    assert!(error.contains("two candidates have that name"), "{error}");
}

fn step(multiple: f64, outcome: Outcome) -> Step {
    conclusions::testing::step(format!("{multiple}x"), multiple, outcome)
}

/// A search that found 30x: it held 10x, 20x and 30x, and not 40x.
fn searched(dir: &Path) -> Series {
    fs::create_dir(dir).unwrap();
    for multiple in [10, 20, 30, 40] {
        let mut bench = bench(multiple);
        bench.manifest.multiple = Some(multiple as f64);
        bench.manifest.purpose = Some(format!("{multiple}x"));
        bench.slow = if multiple == 40 { 9 } else { 1 };
        bench.write(&dir.join(format!("{multiple}x")));
    }
    let pass = [10.0, 20.0, 30.0].map(|multiple| step(multiple, Outcome::Pass));
    let steps = [&pass[..], &[step(40.0, Outcome::Fail)]].concat();
    let held = conclusions::testing::conclusion(Outcome::Pass, "held");
    let conclusion = Some(Conclusion {
        rating: Some(30.0),
        comparable: true,
        ..held
    });
    let series = Series {
        conclusion,
        ..conclusions::testing::series(SeriesPurpose::Rate, &[], steps)
    };
    series.write(dir).unwrap();
    series
}

#[test]
fn a_search_is_compared_by_its_rating_and_the_run_of_the_highest_load_held() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("s");
    let mut series = searched(&dir);
    let candidate = one(&dir);
    assert_eq!(
        (candidate.kind, candidate.rating.value()),
        (CandidateKind::Rate, Some(&30.0))
    );
    assert_eq!(candidate.test.value().unwrap().step.as_deref(), Some("30x"));
    assert_eq!(candidate.load.value().unwrap().x_per_device, Some(30.0));
    assert_eq!(candidate.place.value().unwrap().x, 30.0);
    // A series whose result is not comparable has no rank; a search that found no rating has no rating.
    let rated = series.conclusion.clone().unwrap();
    series.conclusion = Some(Conclusion {
        comparable: false,
        rating: None,
        ..rated
    });
    series.write(&dir).unwrap();
    let candidate = one(&dir);
    assert_eq!(
        why(&candidate.place),
        "the series is marked as not comparable with published ratings"
    );
    assert_eq!(why(&candidate.rating), "the search found no rating");
    assert!(!candidate.load.value().unwrap().highest);
    // The representative run cannot be a second candidate.
    let error = compare(
        &[named(&dir), named(&dir.join("30x"))],
        &OperatorData::default(),
        &ratings(),
    )
    .unwrap_err();
    assert!(matches!(error, CompareError::Twice { .. }), "{error}");
    // A missing step gets a warning, and the next step represents the series.
    fs::remove_dir_all(dir.join("30x")).unwrap();
    let comparison = compare(&[named(&dir)], &OperatorData::default(), &ratings()).unwrap();
    let begin = "s: 30x: there is no run to judge again: reading ";
    assert!(
        comparison.warnings[0].starts_with(begin),
        "{:?}",
        comparison.warnings
    );
    assert_eq!(
        comparison.candidates[0]
            .test
            .value()
            .unwrap()
            .step
            .as_deref(),
        Some("20x")
    );
    assert_eq!(
        why(&comparison.candidates[0].rating),
        "the runs contradict the record of the series"
    );
    // An unfinished series has no rating yet, but the load held so far.
    series.conclusion = None;
    series.write(&dir).unwrap();
    let candidate = one(&dir);
    assert_eq!(why(&candidate.rating), "the search is not finished");
    assert_eq!(candidate.load.value().unwrap().multiple, Some(20.0));
    // Without any run, cells are empty and have a reason.
    ["10x", "20x", "40x"]
        .iter()
        .for_each(|step| fs::remove_dir_all(dir.join(step)).unwrap());
    let candidate = one(&dir);
    assert_eq!(why(&candidate.margins), "no run of the series can be read");
}

#[test]
fn a_load_whose_confirmation_failed_is_not_called_held_and_has_no_price_and_no_rank() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("s");
    let mut series = searched(&dir);
    let confirmation = Step {
        name: "confirmation at 30x".into(),
        ..step(30.0, Outcome::Fail)
    };
    series.steps.push(confirmation);
    let conclusion = series.conclusion.as_mut().unwrap();
    (conclusion.outcome, conclusion.rating, conclusion.comparable) =
        (Outcome::Invalid, None, false);
    conclusion.sentence = "the rating was not found in the time given".into();
    series.write(&dir).unwrap();
    let given = OperatorData {
        prices: vec![("s".into(), 600.0)],
        ..OperatorData::default()
    };
    let comparison = compare(&[named(&dir)], &given, &ratings()).unwrap();
    let candidate = &comparison.candidates[0];
    let not_held = "the series ended INVALID: the rating was not found in the time given";
    assert_eq!(
        [
            why(&candidate.load),
            why(&candidate.price_per_1x),
            why(&candidate.place)
        ],
        [not_held; 3]
    );
    assert_eq!(
        candidate.test.value().unwrap().step.as_deref(),
        Some("20x"),
        "30x held once, and then not"
    );
    let text = comparison.to_string();
    assert!(
        text.contains("s: INVALID: the rating was not found"),
        "{text}"
    );
    assert!(
        text.contains("s: not judged: latencies of large-block-reads, large-block-writes"),
        "{text}"
    );
}

#[test]
fn a_search_is_compared_by_the_confirmation_of_its_rating_and_its_remarks_are_no_warnings() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("s");
    let mut series = searched(&dir);
    // 20x and 30x were held at first. Then the confirmation at 30x failed, and the one at 20x passed.
    let confirmation = |of: f64, outcome| Step {
        name: format!("confirmation at {of}x"),
        ..step(of, outcome)
    };
    series.steps.extend([
        confirmation(30.0, Outcome::Fail),
        confirmation(20.0, Outcome::Pass),
    ]);
    let conclusion = series.conclusion.as_mut().unwrap();
    conclusion.rating = Some(20.0);
    conclusion.remarks = vec!["at 20x: steady".into()];
    series.write(&dir).unwrap();
    let comparison = compare(&[named(&dir)], &OperatorData::default(), &ratings()).unwrap();
    let test = comparison.candidates[0].test.value().unwrap();
    assert_eq!(
        (test.step.as_deref(), test.ran_sec),
        (Some("confirmation at 20x"), 10.0)
    );
    assert_eq!(
        (&comparison.warnings[..], &comparison.remarks[..]),
        (&[][..], &["s: at 20x: steady".to_owned()][..])
    );
}

/// A baseline of `drives`; all jobs share one run of a bench.
fn baseline(dir: &Path, drives: &[(&str, f64)]) -> Series {
    fs::create_dir(dir).unwrap();
    let mut job = bench(1);
    job.manifest.purpose = Some("job 1".into());
    job.manifest.device_facts[0]["size_bytes"] = (1_u64 << 36).into();
    job.write(&dir.join("job"));
    let series = conclusions::testing::baseline_series(drives, "job");
    series.write(dir).unwrap();
    series
}

#[test]
fn baselines_are_compared_drive_by_drive_and_an_outlier_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let place = |name: &str| parent.path().join(name);
    baseline(
        &place("a"),
        &[("/dev/nvme0n1", 1.0), ("/dev/nvme1n1", 1.02)],
    );
    let mut slow = baseline(&place("slow"), &[("/dev/nvme0n1", 0.8)]);
    let both = [named(&place("a")), named(&place("slow"))];
    let comparison = compare(&both, &OperatorData::default(), &ratings()).unwrap();
    assert_eq!(comparison.warnings, Vec::<String>::new());
    assert!(
        comparison
            .candidates
            .iter()
            .all(|candidate| !candidate.damaged)
    );
    let beside = comparison.baselines.as_ref().unwrap();
    let names: Vec<&str> = beside
        .drives
        .iter()
        .map(|drive| drive.name.as_str())
        .collect();
    assert_eq!(names, ["a /dev/nvme0n1", "a /dev/nvme1n1", "slow"]);
    assert!(
        beside
            .outliers
            .iter()
            .all(|outlier| outlier.starts_with("slow differs"))
            && !beside.outliers.is_empty()
    );
    for text in [comparison.to_string(), comparison.markdown()] {
        assert!(
            text.contains("highest IOPS: random reads, 4 KiB") && text.contains("80,000/s"),
            "{text}"
        );
        assert!(!text.contains("load held"), "no rows of loads: {text}");
        assert_contains!(
            text,
            "a /dev/nvme1n1 and a /dev/nvme0n1 reach the same highest IOPS within 2 %"
        );
    }
    // Different terms get a warning; a drive of another model is not an outlier; a run adds the rows of a load.
    (slow.terms[0].1, slow.devices[0].model) = ("24 h".to_owned(), Some("M2".to_owned()));
    slow.write(&place("slow")).unwrap();
    bench(1).write(&place("run"));
    let comparison = compare(
        &[both.as_slice(), &[named(&place("run"))]].concat(),
        &OperatorData::default(),
        &ratings(),
    )
    .unwrap();
    let differs = "different baselines: time under load: 10 min (a); 24 h (slow)";
    assert!(
        comparison.warnings.iter().any(|warning| warning == differs),
        "{:?}",
        comparison.warnings
    );
    assert_eq!(
        comparison.baselines.as_ref().unwrap().outliers,
        Vec::<String>::new()
    );
    assert!(comparison.to_string().contains("load held"));
}

#[test]
fn the_built_in_list_of_published_ratings_is_read_completely() {
    let list = built_in().unwrap();
    assert_eq!(list.len(), LIST.lines().count() - 1);
    assert_eq!(
        (list[0].device.as_str(), list[0].x),
        ("SmartIOPS DataEngine 6.4TB", 275.0)
    );
    let huawei = list
        .iter()
        .find(|rating| rating.device.starts_with("Huawei es3000"))
        .unwrap();
    assert_eq!(
        (huawei.over_pct, &huawei.endurance),
        ([Some(1.18), Some(0.0), Some(0.0)], &None)
    );
    assert!(
        list.iter()
            .all(|rating| rating.source.is_some() && rating.x > 0.0)
    );
    // The column x is rounded to a tenth.
    let tps = LIST
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(2).unwrap().parse::<f64>().unwrap());
    let mut by_tps: Vec<f64> = tps.map(|tps| tps / TPS_OF_1X).collect();
    by_tps.sort_by(|a, b| b.total_cmp(a));
    assert!(
        list.iter()
            .zip(by_tps)
            .all(|(rating, x)| (rating.x - x).abs() <= 0.05)
    );
}

#[test]
fn a_rating_is_ranked_between_its_neighbours_and_equal_ratings_are_not_higher() {
    let place = |x| {
        let PublishedRank {
            higher,
            above,
            below,
            ..
        } = super::place(x, &built_in().unwrap(), None);
        let names = |list: Vec<PublishedRating>| {
            list.into_iter().map(|rating| rating.x).collect::<Vec<_>>()
        };
        (higher, names(above), names(below))
    };
    assert_eq!(place(1000.0), (0, vec![], vec![275.0, 210.0]));
    assert_eq!(place(106.0), (7, vec![128.0, 108.0], vec![105.5, 100.0]));
    assert_eq!(place(100.0), (8, vec![108.0, 105.5], vec![100.0, 100.0]));
    assert_eq!(place(1.0), (53, vec![3.0, 3.0], vec![]));
}

#[test]
fn a_csv_of_ratings_may_have_quotes_and_empty_cells_and_mistakes_are_reported() {
    let header = COLUMNS;
    let list = parse(
        "x.csv",
        format!("{header}\nnvme,\"A, B\",6000,,0,0.00,,,,\n\n").as_bytes(),
    )
    .unwrap();
    assert_eq!((list[0].device.as_str(), list[0].x), ("A, B", 2.0));
    assert_eq!(list[0].over_pct, [Some(0.0), Some(0.0), None]);
    for (text, why) in [
        (
            "a,b\n1,2\n".to_owned(),
            "x.csv line 1 - there is no column class",
        ),
        (
            format!("{header}\nnvme,A,many,,,,,,,\n"),
            "line 2 - tps is not a number: \"many\"",
        ),
        (
            format!("{header}\nnvme,A,,,,,,,,\n"),
            "line 2 - \"A\" has neither tps nor x",
        ),
        (format!("{header}\nnvme,A\n"), "line 2 - CSV error"),
        (String::new(), "line 1 - there is no column class"),
    ] {
        let error = parse("x.csv", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}
