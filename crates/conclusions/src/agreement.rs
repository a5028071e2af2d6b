//! Compares each step of a series with the run in its directory, and the conclusion of the series with the steps.
//!
//! A directory can be replaced by that of another run, and a record can be edited. A run belongs to a step only if its
//! manifest agrees with the record in load, devices, duration, limits, purpose and time. Checksums protect the manifest
//! itself.
//!
//! Limits: a device without a serial number is compared by its size. The latencies of a baseline's points are not
//! compared with the interval logs.

use crate::baseline::{DirectionResult, Point, job_name, point_of};
use crate::certify::STAGE_SEC;
use crate::series::{
    Conclusion, DriveIdentity, Rule, SERIES, Series, SeriesPurpose, SeriesStepState, Step, keys,
};
use results::format::{self, Grouped, count, date, span};
use results::judge::{Outcome, StreamTotals, Verdict, whole_slice_sec};
use results::run_dir::{DeviceKind, Manifest, text_fact};
use serde_json::Value;
use std::fmt;

/// Largest relative difference of two equal loads: loads are rounded when they are written.
const ROUNDING: f64 = 1e-6;

/// Largest relative difference of two sums of the same rates.
const RATE_ROUNDING: f64 = 1e-3;

/// Tolerance for the beginning of a run, milliseconds: the clock of the machine may be set during a series.
const CLOCK_MS: u64 = 3_600_000;

/// Keys that may differ between the configuration of 1x and that of a run.
const KEYS_OF_RUN: [&str; 4] = [
    "device-names",
    "test-duration-sec",
    "service-threads",
    "cache-threads",
];

const RATES: [&str; 2] = ["read-reqs-per-sec", "write-reqs-per-sec"];

struct Difference {
    /// Subject and verb of the sentence: `the load was`.
    name: String,
    recorded: String,
    ran: String,
}

impl Difference {
    fn new(name: &str, recorded: impl Into<String>, ran: impl Into<String>) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            recorded: recorded.into(),
            ran: ran.into(),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            recorded,
            ran,
        } = self;
        write!(
            f,
            "{SERIES} says that {name} {recorded}, but the run says {ran}"
        )
    }
}

/// Returns a sentence about the first difference if `run`, with its `verdict`, is not the run of `step`.
pub fn difference(
    series: &Series,
    step: &Step,
    run: &Manifest,
    verdict: &Verdict,
) -> Option<String> {
    let of_load = match series.purpose {
        SeriesPurpose::Baseline => of_job(step, run, &verdict.streams),
        SeriesPurpose::Certify | SeriesPurpose::Rate => of_load(series, step, run),
    };
    let found = of_load
        .or_else(|| of_devices(series, step, run))
        .or_else(|| of_duration(series, step, run))
        .or_else(|| {
            of_limits(series, step, run)
                .or_else(|| of_purpose(series, step, run))
                .or_else(|| of_time(step, run))
        });
    found.map(|difference| difference.to_string())
}

fn of_load(series: &Series, step: &Step, run: &Manifest) -> Option<Difference> {
    if let Some(ran) = run.multiple.filter(|ran| !is_equal(*ran, step.multiple)) {
        return Difference::new(
            "the load was",
            format::multiple(step.multiple),
            format::multiple(ran),
        );
    }
    let config = &run.workloads.first()?.config;
    let recorded = keys(&series.config_1x);
    let written = keys(&config.as_written);
    // A configuration file may omit keys; the resolved settings have all keys.
    let ran: Vec<_> = config
        .resolved
        .iter()
        .chain(&config.settings)
        .chain(&written)
        .collect();
    let more = written.iter().filter(|_| !recorded.is_empty());
    let is_compared = |key: &&String| !KEYS_OF_RUN.contains(&key.as_str());
    let mut names = recorded
        .iter()
        .chain(more)
        .map(|(key, _)| key)
        .filter(is_compared);
    names.find_map(|key| {
        let recorded = value_of(&recorded, key);
        let ran = value_of(ran.iter().copied(), key);
        let per_sec = rate(series, step, key, recorded);
        let recorded = per_sec.map_or_else(
            || recorded.to_owned(),
            |per_sec| per_sec.round().to_string(),
        );
        let is_same = per_sec.map_or(recorded == ran, |per_sec: f64| {
            // Tolerance: the rate of 1x was rounded before its multiplication, the rate of the run after it.
            ran.parse()
                .is_ok_and(|ran: f64| (ran - per_sec).abs() <= 1.0 + step.multiple)
        });
        if is_same {
            None
        } else {
            Difference::new(
                &format!("{key} was"),
                or_nothing(&recorded),
                or_nothing(ran),
            )
        }
    })
}

fn value_of<'a>(keys: impl IntoIterator<Item = &'a (String, String)>, key: &str) -> &'a str {
    keys.into_iter()
        .find(|(other, _)| other == key)
        .map_or("", |(_, value)| value)
}

fn or_nothing(value: &str) -> &str {
    if value.is_empty() { "not set" } else { value }
}

/// The rate of `key` in a run of `step`; `None` if the key is not a rate. `value`: the rate of 1x on all devices.
fn rate(series: &Series, step: &Step, key: &str, value: &str) -> Option<f64> {
    let share = step.devices.len() as f64 / series.devices.len().max(1) as f64;
    let per_sec: f64 = value.parse().ok().filter(|_| RATES.contains(&key))?;
    Some(per_sec * step.multiple * share)
}

fn of_job(step: &Step, run: &Manifest, streams: &[StreamTotals]) -> Option<Difference> {
    let Point {
        job, reads, writes, ..
    } = point_of(step)?;
    let text = run
        .workloads
        .first()
        .map_or("", |workload| &workload.config.as_written);
    // `text` has a line `DEVICE: JOB` for each device.
    if !job.is_empty() && !text.lines().any(|line| line.ends_with(&format!(": {job}"))) {
        return Difference::new("the job was", job, text.trim_end().replace('\n', "; "));
    }
    let prefix = format!(
        "{}-",
        job_name(step.devices.first().copied().unwrap_or_default())
    );
    let of_drive: Vec<_> = streams
        .iter()
        .filter(|stream| stream.name.starts_with(&prefix))
        .collect();
    if of_drive.is_empty() {
        return None;
    }
    let done: Vec<&DirectionResult> = [&reads, &writes].into_iter().flatten().collect();
    let recorded: u64 = done.iter().map(|done| done.ops).sum();
    let ran: u64 = of_drive.iter().map(|stream| stream.ops).sum();
    if recorded != ran {
        return Difference::new(
            "the drive completed",
            count(recorded, "operation"),
            Grouped(ran).to_string(),
        );
    }
    let recorded: f64 = done.iter().map(|done| done.iops).sum();
    let ran: f64 = of_drive.iter().map(|stream| stream.achieved_iops).sum();
    let per_sec = |iops: f64| format!("{}/s", format::number(iops));
    let is_same = (recorded - ran).abs() <= RATE_ROUNDING * ran;
    if is_same {
        None
    } else {
        Difference::new("the rate was", per_sec(recorded), per_sec(ran))
    }
}

fn of_devices(series: &Series, step: &Step, run: &Manifest) -> Option<Difference> {
    let recorded = step.devices.len();
    let ran = run.device_facts.len();
    // A run of a baseline tests several drives; each of its steps has one of them.
    if series.purpose != SeriesPurpose::Baseline && recorded != ran {
        return Difference::new(
            "the number of devices was",
            recorded.to_string(),
            ran.to_string(),
        );
    }
    let mut devices = step
        .devices
        .iter()
        .filter_map(|device| series.devices.get(*device));
    let missing = devices.find(|device| {
        !run.device_facts
            .iter()
            .any(|facts| is_same_drive(device, facts))
    })?;
    let names: Vec<_> = run.device_facts.iter().map(name_of).collect();
    let name = missing
        .serial
        .as_deref()
        .map_or_else(|| missing.name.clone(), |serial| format!("serial {serial}"));
    Difference::new("the drive was", name, names.join(" and "))
}

/// The serial number of a drive, or the name of a device without one.
fn name_of(facts: &Value) -> String {
    let serial = text_fact(facts, "serial").map(|serial| format!("serial {serial}"));
    serial
        .or_else(|| text_fact(facts, "path").map(str::to_owned))
        .unwrap_or_else(|| "an unknown drive".to_owned())
}

fn is_same_drive(device: &DriveIdentity, facts: &Value) -> bool {
    let is_simulated = DeviceKind::from_facts(facts) == Some(DeviceKind::Simulated);
    if device.simulated || is_simulated {
        return device.simulated == is_simulated && text_fact(facts, "path") == Some(&device.name);
    }
    if DeviceKind::from_facts(facts) == Some(DeviceKind::RegularFile) {
        return text_fact(facts, "path") == Some(&device.name);
    }
    if facts
        .get("size_bytes")
        .and_then(Value::as_u64)
        .is_some_and(|bytes| bytes != device.size_bytes)
    {
        return false;
    }
    match (&device.serial, text_fact(facts, "serial")) {
        // The identity of a partition or namespace begins with the serial number of its drive.
        (Some(recorded), Some(serial)) => recorded
            .strip_prefix(serial)
            .is_some_and(|part| is_part(part, facts)),
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => text_fact(facts, "path").is_none_or(|path| path == device.name),
    }
}

/// True if `part`, the rest of an identity after the serial number, is the partition or namespace of `facts`.
fn is_part(part: &str, facts: &Value) -> bool {
    let partition = facts
        .get("partition")
        .filter(|partition| !partition.is_null());
    match (
        part.strip_prefix(" partition "),
        part.strip_prefix(" namespace "),
    ) {
        (Some(at), _) => partition
            .is_some_and(|found| at == format!("{} at {}", found["index"], found["start_bytes"])),
        (_, Some(number)) => facts
            .get("nsid")
            .and_then(Value::as_u64)
            .is_some_and(|nsid| number.parse() == Ok(nsid)),
        (None, None) => part.is_empty(),
    }
}

fn of_duration(series: &Series, step: &Step, run: &Manifest) -> Option<Difference> {
    if run.duration_sec != step.duration_sec {
        return Difference::new(
            "the duration was",
            span(step.duration_sec),
            span(run.duration_sec),
        );
    }
    let length = series
        .term("length of a stage")
        .filter(|length| *length != span(run.duration_sec))?;
    Difference::new("the length of a stage was", length, span(run.duration_sec))
}

fn of_limits(series: &Series, step: &Step, run: &Manifest) -> Option<Difference> {
    let limits = run.sla.to_string();
    if let Some(recorded) = series.term("limits").filter(|recorded| *recorded != limits) {
        return Difference::new("the limits were", recorded, limits);
    }
    let recorded = series.term("length of a slice")?;
    let requested_sec = format::seconds(recorded).ok()?.into();
    let slice_sec = whole_slice_sec(requested_sec, step.duration_sec, run.report_interval_sec);
    let is_other = slice_sec != run.slice_sec;
    is_other
        .then(|| Difference::new("a slice lasted", span(slice_sec), span(run.slice_sec)))
        .flatten()
}

fn of_purpose(series: &Series, step: &Step, run: &Manifest) -> Option<Difference> {
    let Some(purpose) = &run.purpose else {
        return Difference::new(
            "the run was",
            &step.name,
            "that it does not belong to a series",
        );
    };
    // Several steps of a baseline share a run. The run's purpose is the name of one of them.
    let is_known = series
        .steps
        .iter()
        .any(|other| other.dir == step.dir && other.name == *purpose);
    if is_known {
        None
    } else {
        Difference::new("the run was", &step.name, purpose)
    }
}

fn of_time(step: &Step, run: &Manifest) -> Option<Difference> {
    let begin = step.began_unix_ms?;
    let end = step.ended_unix_ms.unwrap_or(u64::MAX);
    let is_within = (begin.saturating_sub(CLOCK_MS)..=end.saturating_add(CLOCK_MS))
        .contains(&run.started_unix_ms);
    if is_within {
        None
    } else {
        Difference::new("the run began", date(begin), date(run.started_unix_ms))
    }
}

/// Returns a sentence if the steps in the record of the series contradict a conclusion that says PASS.
pub fn contradiction(series: &Series, conclusion: &Conclusion) -> Option<String> {
    if conclusion.outcome != Outcome::Pass {
        return None;
    }
    let load_in_sentence = first_multiple(&conclusion.sentence);
    let passed =
        |step: &&Step| step.state == SeriesStepState::Done && step.outcome == Some(Outcome::Pass);
    match series.purpose {
        SeriesPurpose::Certify => {
            let Some(first) = series.steps.first() else {
                return Some(format!("{SERIES} says PASS, but it has no stages"));
            };
            if let Some(other) = series.steps.iter().find(|step| !passed(step)) {
                return Some(format!(
                    "{SERIES} says PASS, but {} did not pass",
                    other.name
                ));
            }
            if let Some(said) = load_in_sentence.filter(|said| !is_equal(*said, first.multiple)) {
                let said = format::multiple(said);
                let ran = format::multiple(first.multiple);
                return Some(format!(
                    "{SERIES} says that {said} passed, but {} had {ran}",
                    first.name
                ));
            }
            let why =
                why_not_certified(series).filter(|_| conclusion.sentence.contains("certified"))?;
            Some(format!(
                "{SERIES} says that the drive is certified, but {why}"
            ))
        }
        SeriesPurpose::Rate => {
            let rating = conclusion.rating?;
            let mut held = series
                .steps
                .iter()
                .filter(passed)
                .filter(|step| step.rule == Rule::Limits);
            if !held.any(|step| is_equal(step.multiple, rating)) {
                let rating = format::multiple(rating);
                return Some(format!(
                    "{SERIES} says that {rating} was held, but no step held {rating}"
                ));
            }
            let said = load_in_sentence.filter(|said| !is_equal(*said, rating))?;
            let said = format::multiple(said);
            let rating = format::multiple(rating);
            Some(format!(
                "{SERIES} says that the rating is {said}, but its steps say {rating}"
            ))
        }
        SeriesPurpose::Baseline => None,
    }
}

fn is_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= ROUNDING * other.abs()
}

/// The first multiple in a sentence: `30x`, or `30 times CONFIG`.
fn first_multiple(sentence: &str) -> Option<f64> {
    let words: Vec<&str> = sentence.split(' ').collect();
    words.iter().enumerate().find_map(|(index, word)| {
        let is_factor = words.get(index + 1) == Some(&"times");
        let number = if is_factor {
            Some(*word)
        } else {
            word.trim_end_matches([':', ',']).strip_suffix('x')
        };
        number?.parse().ok()
    })
}

fn why_not_certified(series: &Series) -> Option<String> {
    if series.devices.iter().any(|device| device.simulated) {
        return Some("its drives are simulated".to_owned());
    }
    if let Some(unprepared) = series
        .term("not prepared")
        .filter(|names| !names.is_empty())
    {
        return Some(format!("{unprepared} was not prepared"));
    }
    let short = series
        .steps
        .iter()
        .find(|step| step.duration_sec < STAGE_SEC)?;
    Some(format!(
        "{} lasted {}, not {}",
        short.name,
        span(short.duration_sec),
        span(STAGE_SEC)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::testing::{series, verdict};
    use crate::testing::BEGAN_UNIX_MS;
    use results::judge::{End, Sla};
    use results::run_dir::WorkloadRecord;
    use serde_json::json;

    const CONFIG: &str = "device-names: /dev/a /dev/b\nread-reqs-per-sec: 4000\nwrite-reqs-per-sec: 2001\n\
                          record-bytes: 1536\n";

    /// A certification of the drives S0 and S1: stages 1 and 2 on S0, stages 3 and 4 on both drives.
    fn certification() -> Series {
        let mut series = Series {
            config_1x: CONFIG.into(),
            ..series(2)
        };
        series
            .terms
            .push(("length of a stage".into(), "24 h".into()));
        series
            .terms
            .push(("length of a slice".into(), "1 h".into()));
        for step in &mut series.steps {
            step.state = SeriesStepState::Done;
            step.began_unix_ms = Some(BEGAN_UNIX_MS);
            step.ended_unix_ms = Some(BEGAN_UNIX_MS + 86_400_000);
        }
        series
    }

    /// Facts about the drive S`number`, which had another name when its run began.
    fn facts(number: usize) -> Value {
        json!({"path": format!("/dev/nvme{}n1", number + 5), "kind": "whole_disk", "serial": format!("S{number} "),
            "size_bytes": 960_197_124_096_u64, "nsid": 1, "partition": null})
    }

    fn run_of(series: &Series, stage: usize) -> Manifest {
        let step = &series.steps[stage];
        let rate = |per_sec: f64| per_sec * step.multiple * step.devices.len() as f64 / 2.0;
        let mut workload = WorkloadRecord::default();
        workload.config.as_written = format!(
            "device-names: /dev/x\nread-reqs-per-sec: {}\nwrite-reqs-per-sec: {:.0}\nrecord-bytes: 1536\n",
            rate(4_000.0),
            rate(2_001.0)
        );
        Manifest {
            purpose: Some(step.name.clone()),
            multiple: Some(step.multiple),
            duration_sec: step.duration_sec,
            slice_sec: 3_600,
            report_interval_sec: 1,
            started_unix_ms: BEGAN_UNIX_MS + 100,
            sla: Sla::default(),
            workloads: vec![workload],
            device_facts: step.devices.iter().map(|device| facts(*device)).collect(),
            ..Manifest::default()
        }
    }

    type Change = Box<dyn Fn(&mut Manifest)>;

    fn found(series: &Series, stage: usize, run: &Manifest) -> Option<String> {
        difference(
            series,
            &series.steps[stage],
            run,
            &verdict(Outcome::Pass, End::Completed, 0.01),
        )
    }

    #[test]
    fn the_runs_of_a_series_agree_with_it_also_if_the_drives_have_other_names() {
        let series = certification();
        for stage in 0..4 {
            assert_eq!(found(&series, stage, &run_of(&series, stage)), None);
        }
    }

    #[test]
    fn each_difference_between_a_series_and_its_run_is_reported_with_both_values() {
        let series = certification();
        let changed = |change: &dyn Fn(&mut Manifest)| {
            let mut run = run_of(&series, 2);
            change(&mut run);
            let sentence = found(&series, 2, &run).expect("a difference");
            sentence
                .strip_prefix("series.json says that ")
                .expect("a sentence about the record")
                .to_owned()
        };
        let written = |text: &str| -> Change {
            let text = text.to_owned();
            Box::new(move |run| run.workloads[0].config.as_written.clone_from(&text))
        };
        let cases: [(Change, &str); 11] = [
            (
                Box::new(|run| run.multiple = Some(0.01)),
                "the load was 30x, but the run says 0.01x",
            ),
            (
                written(&CONFIG.replace("4000", "1200")),
                "read-reqs-per-sec was 120000, but the run says 1200",
            ),
            (
                written("read-reqs-per-sec: 120000\nwrite-reqs-per-sec: 60030\nrecord-bytes: 512"),
                "record-bytes was 1536, but the run says 512",
            ),
            (
                written(
                    "read-reqs-per-sec: 120000\nwrite-reqs-per-sec: 60030\nrecord-bytes: 1536\narrival: act",
                ),
                "arrival was not set, but the run says act",
            ),
            (
                Box::new(|run| run.device_facts.truncate(1)),
                "the number of devices was 2, but the run says 1",
            ),
            (
                Box::new(|run| run.device_facts[1] = facts(7)),
                "the drive was serial S1, but the run says serial S0 and serial S7",
            ),
            (
                Box::new(|run| run.duration_sec = 150),
                "the duration was 24 h, but the run says 2 min 30 s",
            ),
            (
                Box::new(|run| run.sla = "9%>1ms".parse().unwrap()),
                "the limits were 5%>1ms,1%>8ms,0.1%>64ms, but the run says 9%>1ms",
            ),
            (
                Box::new(|run| run.slice_sec = 86_400),
                "a slice lasted 1 h, but the run says 24 h",
            ),
            (
                Box::new(|run| run.purpose = Some("stage 4".into())),
                "the run was stage 3, but the run says stage 4",
            ),
            (
                Box::new(|run| run.started_unix_ms -= 86_400_000),
                "the run began 2026-11-21 14:27:12 UTC, but the run says 2026-11-20 14:27:12 UTC",
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(changed(&*change), expected);
        }
        let plain = changed(&|run: &mut Manifest| run.purpose = None);
        assert_eq!(
            plain,
            "the run was stage 3, but the run says that it does not belong to a series"
        );
        let mut other = certification();
        other.terms[2].1 = "6 h".into();
        let sentence = found(&other, 0, &run_of(&other, 0)).unwrap();
        assert!(
            sentence.ends_with("the length of a stage was 6 h, but the run says 24 h"),
            "{sentence}"
        );
    }

    #[test]
    fn partitions_namespaces_and_drives_without_serial_numbers_are_distinguished() {
        let device = |serial: Option<&str>| DriveIdentity {
            name: "/dev/a".into(),
            model: None,
            serial: serial.map(str::to_owned),
            size_bytes: 7,
            simulated: false,
        };
        let part = json!({"serial": "S0", "size_bytes": 7, "partition": {"index": 2, "start_bytes": 1_048_576}});
        assert!(is_same_drive(
            &device(Some("S0 partition 2 at 1048576")),
            &part
        ));
        assert!(!is_same_drive(
            &device(Some("S0 partition 3 at 1048576")),
            &part
        ));
        assert!(!is_same_drive(
            &device(Some("S01")),
            &json!({"serial": "S0", "size_bytes": 7})
        ));
        let namespace = json!({"serial": "S0", "size_bytes": 7, "nsid": 2});
        assert!(is_same_drive(&device(Some("S0 namespace 2")), &namespace));
        assert!(!is_same_drive(&device(Some("S0 namespace 3")), &namespace));
        let looped = |size: u64| json!({"path": "/dev/loop9", "serial": null, "size_bytes": size});
        assert!(is_same_drive(&device(Some("loop 7:1:5")), &looped(7)));
        assert!(!is_same_drive(&device(Some("loop 7:1:5")), &looped(8)));
        assert!(!is_same_drive(&device(None), &looped(7)), "another name");
        let simulated = DriveIdentity {
            simulated: true,
            name: "sim:".into(),
            ..device(Some("sim:"))
        };
        assert!(is_same_drive(
            &simulated,
            &json!({"path": "sim:", "kind": "simulated"})
        ));
        assert!(!is_same_drive(
            &simulated,
            &json!({"path": "sim:seed=2", "kind": "simulated"})
        ));
        assert!(!is_same_drive(
            &device(Some("sim:")),
            &json!({"path": "/dev/a", "kind": "simulated"})
        ));
    }

    #[test]
    fn a_baseline_job_that_differs_from_its_run_in_options_operations_or_rate_is_reported() {
        let mut series = crate::testing::baseline_series(&[("/dev/nvme0n1", 1.0)], "run");
        series.steps[0].details["job"] = "--rw=randwrite".into();
        let mut run = Manifest {
            purpose: Some("job 1".into()),
            duration_sec: 10,
            started_unix_ms: BEGAN_UNIX_MS,
            device_facts: vec![json!({"serial": "/dev/nvme0n1", "size_bytes": 1_u64 << 36})],
            workloads: vec![WorkloadRecord::default()],
            ..Manifest::default()
        };
        run.workloads[0].config.as_written = "/dev/nvme9n1: --rw=randwrite\n".into();
        let ops = series.steps[0].details["writes"]["ops"].as_u64().unwrap();
        let with = |series: &Series, name: &str, ops: u64| {
            let mut verdict = verdict(Outcome::Pass, End::Completed, 0.0);
            let stream = &mut verdict.streams[0];
            (stream.name, stream.ops, stream.achieved_iops) = (name.into(), ops, ops as f64 / 10.0);
            difference(series, &series.steps[0], &run, &verdict)
        };
        assert_eq!(with(&series, "drive-1-writes", ops), None);
        let fewer = with(&series, "drive-1-writes", ops - 1).unwrap();
        assert!(
            fewer.starts_with("series.json says that the drive completed "),
            "{fewer}"
        );
        series.steps[0].details["writes"]["iops"] = (ops as f64).into();
        let faster = with(&series, "drive-1-writes", ops).unwrap();
        assert!(
            faster.starts_with("series.json says that the rate was "),
            "{faster}"
        );
        series.steps[0].details["job"] = "--rw=randread".into();
        let other = with(&series, "drive-1-writes", ops).unwrap();
        assert!(
            other.ends_with(
                "the job was --rw=randread, but the run says /dev/nvme9n1: --rw=randwrite"
            ),
            "{other}"
        );
    }

    #[test]
    fn a_conclusion_that_names_another_load_than_the_steps_is_reported() {
        let mut series = certification();
        series
            .steps
            .iter_mut()
            .for_each(|step| step.outcome = Some(Outcome::Pass));
        let said = |series: &Series, sentence: &str| {
            contradiction(series, &crate::testing::conclusion(Outcome::Pass, sentence))
        };
        for sentence in [
            "certified for 30x: stage 1: 2 % of reads",
            "certified for 30 times my.conf in slices of 2 h",
        ] {
            assert_eq!(said(&series, sentence), None);
        }
        for sentence in [
            "certified for 90x: stage 1",
            "certified for 90 times my.conf",
        ] {
            let expected = "series.json says that 90x passed, but stage 1 had 30x";
            assert_eq!(said(&series, sentence).as_deref(), Some(expected));
        }
        series.steps[3].duration_sec = 3_600;
        let expected =
            "series.json says that the drive is certified, but stage 4 lasted 1 h, not 24 h";
        assert_eq!(
            said(&series, "certified for 30x").as_deref(),
            Some(expected)
        );
        assert_eq!(said(&series, "passed the screening for 30x"), None);
        series.terms.push(("not prepared".into(), "/dev/a".into()));
        assert!(
            said(&series, "certified for 30x")
                .unwrap()
                .ends_with("but /dev/a was not prepared")
        );
    }
}
