//! A candidate: the compared numbers, or the reason for a missing number. Among the numbers are the margins to the
//! limits: for each threshold, the worst slice of any judged stream.

use super::source::{CandidateSource, setting};
use super::wear::{DeviceWear, OperatorData, is_reading, is_writing, wear};
use super::{CandidateKind, PublishedRank, PublishedRating, ValueOrReason};
use crate::latencies::{Quantiles, StreamLatencies};
use conclusions::baseline::{InDoubt, in_doubt};
use conclusions::series::SeriesStepState;
use results::judge::{
    Limit, Outcome, RunResult, Sla, StreamTotals, Verdict, VerdictClass, WorstShare,
};
use results::run_dir::{DeviceKind, Manifest, Run};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    pub name: String,
    pub dir: PathBuf,
    /// Directory of the run that represents the candidate; `dir` if there is no such run.
    #[serde(skip)]
    pub(super) run_dir: PathBuf,
    pub kind: CandidateKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub test: ValueOrReason<TestFacts>,
    /// Outcome: for a series, that of its conclusion; for a run, that of its verdict.
    pub outcome: ValueOrReason<Outcome>,
    pub reason: ValueOrReason<String>,
    /// Parts of the test that the outcome does not cover, each a phrase.
    pub not_judged: Vec<String>,
    pub result: ValueOrReason<RunResult>,
    /// The highest load that was held, found by a search.
    pub rating: ValueOrReason<f64>,
    /// The load that was held: the rating, or the load of the run.
    pub load: ValueOrReason<HeldLoad>,
    pub margins: ValueOrReason<Vec<ThresholdMargin>>,
    /// Quantiles of the judged stream's service times.
    pub service: ValueOrReason<Quantiles>,
    /// 99th percentile of the judged stream's service times.
    pub p99: ValueOrReason<StreamQuantile>,
    pub p99_9: ValueOrReason<StreamQuantile>,
    /// Rates of the judged stream.
    pub rate: ValueOrReason<StreamRate>,
    pub io: ValueOrReason<DeviceIo>,
    pub wear: ValueOrReason<Vec<DeviceWear>>,
    /// Price of the drives, divided by the load that they hold as a multiple of 1x.
    pub price_per_1x: ValueOrReason<f64>,
    pub place: ValueOrReason<PublishedRank>,
    pub in_doubt: Option<InDoubt>,
    /// True if a part of the directory is damaged or missing.
    pub damaged: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestFacts {
    /// `storage` or `index`.
    pub test: String,
    /// Devices, as the user named them.
    pub devices: Vec<String>,
    pub models: Vec<Option<String>>,
    pub simulated: bool,
    /// Configured maximum duration, seconds.
    pub duration_sec: u64,
    pub ran_sec: f64,
    /// Class by duration: screening, or a certification's load.
    pub class: VerdictClass,
    pub sla: String,
    /// Arrival of operations: `paced`, `poisson`, `act`.
    pub arrival: Option<String>,
    /// Name of the step, if this run is a step of a series.
    pub step: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldLoad {
    /// As a multiple of the series' 1x; `None` for a run without a series.
    pub multiple: Option<f64>,
    /// As a multiple of 3,000 client operations per second on one device; `None` for an index test.
    pub x_per_device: Option<f64>,
    /// True if a search found that this is the highest load. Otherwise the drive may hold more.
    pub highest: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamQuantile {
    pub stream: String,
    pub service_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamRate {
    pub stream: String,
    pub offered_iops: f64,
    /// Successful operations per second.
    pub achieved_iops: f64,
}

/// I/O of a run on one of its devices, averaged over all of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceIo {
    /// Reads per second, of all streams.
    pub reads_per_sec: f64,
    pub writes_per_sec: f64,
    pub read_bytes_per_sec: f64,
    pub written_bytes_per_sec: f64,
    /// True if sizes came from a live database's histograms.
    pub histograms: bool,
}

const UNFINISHED: &str = "the series is not finished";

impl Candidate {
    pub(super) fn new(
        source: &CandidateSource,
        operator_data: &OperatorData,
        ratings: &[PublishedRating],
    ) -> Self {
        let run = &source.run;
        let conclusion = source
            .series
            .as_ref()
            .map(|series| series.conclusion.as_ref());
        let rating = match conclusion {
            Some(Some(_)) if source.doubtful => {
                ValueOrReason::missing("the runs contradict the record of the series")
            }
            Some(Some(ended)) if source.kind == CandidateKind::Rate => {
                ValueOrReason::or_missing(ended.rating, "the search found no rating")
            }
            Some(Some(ended)) => {
                ValueOrReason::or_missing(ended.rating, "this series was not a search for a rating")
            }
            Some(None) => ValueOrReason::missing("the search is not finished"),
            None => ValueOrReason::missing("a single run has no rating (use flashproof rate)"),
        };
        let result = run.map(|run| run.verdict.result());
        let (outcome, reason) = match conclusion {
            Some(Some(ended)) => (
                ValueOrReason::Value(ended.outcome),
                ValueOrReason::Value(ended.sentence.clone()),
            ),
            Some(None) => (
                ValueOrReason::missing(UNFINISHED),
                ValueOrReason::missing(UNFINISHED),
            ),
            None => (
                run.map(|run| run.verdict.outcome),
                result.map(|result| result.reason.clone()),
            ),
        };
        let load = run.and_then(|run| match conclusion {
            Some(Some(ended)) if ended.outcome > Outcome::Pass => ValueOrReason::missing(format!(
                "the series ended {}: {}",
                ended.outcome, ended.sentence
            )),
            _ => load(run, &rating),
        });
        let endurance =
            |device: &str| OperatorData::value_for(&operator_data.endurance, &source.name, device);
        let wear = run.and_then(|run| {
            let wear = wear(
                &run.dir,
                &run.manifest,
                endurance,
                operator_data.warranty_years,
            );
            wear.map_or_else(
                |error| ValueOrReason::missing(error.to_string()),
                ValueOrReason::Value,
            )
        });
        Self {
            name: source.name.clone(),
            dir: source.dir.clone(),
            run_dir: run.value().map_or(&source.dir, |run| &run.dir).clone(),
            kind: source.kind,
            note: source.note().map(str::to_owned),
            test: run.map(|run| test(run, source)),
            outcome,
            reason,
            not_judged: not_judged(source, result.value()),
            result,
            margins: run.and_then(|run| margins(&run.verdict, &run.manifest.sla)),
            p99: quantile(source, |latencies| latencies.service.p99_ns),
            p99_9: quantile(source, |latencies| latencies.service.p999_ns),
            service: judged_stream(source).map(|latencies| latencies.service),
            rate: run.and_then(rate),
            io: run.and_then(device_io),
            price_per_1x: load
                .and_then(|load| run.and_then(|run| price(load, run, operator_data, &source.name))),
            place: load.and_then(|load| run.and_then(|run| place(load, run, source, ratings))),
            in_doubt: source
                .series
                .as_ref()
                .filter(|_| source.kind == CandidateKind::Baseline)
                .and_then(in_doubt),
            damaged: source.doubtful
                || source.kind != CandidateKind::Baseline
                    && run
                        .value()
                        .is_none_or(|run| !run.damage.is_empty() || run.agrees() == Some(false)),
            rating,
            load,
            wear,
        }
    }
}

fn test(run: &Run, source: &CandidateSource) -> TestFacts {
    let manifest = &run.manifest;
    TestFacts {
        test: manifest.kind(),
        devices: manifest.devices.clone(),
        models: (0..manifest.devices.len())
            .map(|index: usize| {
                manifest.device_facts.get(index)?["model"]
                    .as_str()
                    .map(str::to_owned)
            })
            .collect(),
        simulated: manifest.simulated,
        duration_sec: manifest.duration_sec,
        ran_sec: run.verdict.ran_sec,
        class: run.verdict.class,
        sla: manifest.sla.to_string(),
        arrival: setting(manifest, "arrival").map(str::to_owned),
        step: source.step.as_ref().map(|step| step.name.clone()),
    }
}

/// The load as a multiple of 1x, on one device.
fn x_per_device(manifest: &Manifest) -> Option<f64> {
    let times_1x: Option<f64> = manifest
        .workloads
        .iter()
        .map(|workload| workload.times_1x)
        .sum();
    times_1x
        .filter(|_| !manifest.devices.is_empty())
        .map(|x| x / manifest.devices.len() as f64)
}

fn load(run: &Run, rating: &ValueOrReason<f64>) -> ValueOrReason<HeldLoad> {
    let multiple = run.manifest.multiple;
    let x = x_per_device(&run.manifest);
    if let Some(rating) = rating.value().copied() {
        // The load of the run can differ slightly from the rating.
        let x_of_1x = x
            .zip(multiple)
            .filter(|(_, multiple)| *multiple > 0.0)
            .map(|(x, multiple)| x / multiple);
        let x_per_device = x_of_1x.map(|x_of_1x| x_of_1x * rating);
        return ValueOrReason::Value(HeldLoad {
            multiple: Some(rating),
            x_per_device,
            highest: true,
        });
    }
    match run.verdict.outcome {
        Outcome::Pass => ValueOrReason::Value(HeldLoad {
            multiple,
            x_per_device: x,
            highest: false,
        }),
        Outcome::Measured => ValueOrReason::missing(
            "the run had no latency limits: the run does not show if the load was held",
        ),
        Outcome::Fail => ValueOrReason::missing("the run did not hold the load"),
        Outcome::Invalid => {
            ValueOrReason::missing("the run is invalid: the run does not show if the load was held")
        }
    }
}

/// The latencies of the first judged stream with operations.
fn judged_stream(source: &CandidateSource) -> ValueOrReason<StreamLatencies> {
    source.run.and_then(|run| {
        let streams = &run.manifest.streams;
        source.latencies.and_then(|latencies| {
            let mut judged = latencies.iter().filter(|latencies| {
                streams
                    .iter()
                    .any(|stream| stream.judged && stream.name == latencies.stream)
            });
            ValueOrReason::or_missing(
                judged.next().cloned(),
                "no judged stream completed an operation",
            )
        })
    })
}

fn quantile(
    source: &CandidateSource,
    quantile_of: fn(&StreamLatencies) -> u64,
) -> ValueOrReason<StreamQuantile> {
    judged_stream(source).map(|latencies| StreamQuantile {
        stream: latencies.stream.clone(),
        service_ns: quantile_of(latencies),
    })
}

fn rate(run: &Run) -> ValueOrReason<StreamRate> {
    let judged = run.verdict.streams.iter().find(|stream| stream.judged);
    let rate = judged.map(|stream| StreamRate {
        stream: stream.name.clone(),
        offered_iops: stream.offered_iops,
        achieved_iops: stream.achieved_iops,
    });
    ValueOrReason::or_missing(rate, "no stream was judged")
}

fn device_io(run: &Run) -> ValueOrReason<DeviceIo> {
    if run.verdict.ran_sec <= 0.0 || run.manifest.devices.is_empty() {
        return ValueOrReason::missing("no interval of the run is complete");
    }
    let histogram = |key| setting(&run.manifest, key).is_some_and(|value| !value.is_empty());
    ValueOrReason::Value(DeviceIo {
        reads_per_sec: device_rate(run, is_reading, |stream| stream.ops),
        writes_per_sec: device_rate(run, is_writing, |stream| stream.ops),
        read_bytes_per_sec: device_rate(run, is_reading, |stream| stream.bytes),
        written_bytes_per_sec: device_rate(run, is_writing, |stream| stream.bytes),
        histograms: histogram("storage-read-histogram") || histogram("storage-write-histogram"),
    })
}

/// Sum of `value` over the streams for which `is_counted` is true, per second and device.
fn device_rate(run: &Run, is_counted: fn(&str) -> bool, value: fn(&StreamTotals) -> u64) -> f64 {
    let streams = run.verdict.streams.iter();
    let sum: f64 = streams
        .filter(|stream| is_counted(&stream.name))
        .map(|stream| {
            // Operations that completed after the end do not belong to the run's time.
            let in_time = 1.0 - stream.overtime as f64 / stream.ops.max(1) as f64;
            value(stream) as f64 * in_time
        })
        .sum();
    sum / run.verdict.ran_sec / run.manifest.devices.len() as f64
}

fn price(
    load: &HeldLoad,
    run: &Run,
    operator_data: &OperatorData,
    name: &str,
) -> ValueOrReason<f64> {
    let devices = &run.manifest.devices;
    let prices: Option<Vec<f64>> = devices
        .iter()
        .map(|device| OperatorData::value_for(&operator_data.prices, name, device))
        .collect();
    let Some(prices) = prices else {
        return ValueOrReason::missing("no price was given (--price)");
    };
    // `x_per_device` is the load of one device, `multiple` that of all devices together.
    let times_1x = match (load.x_per_device, load.multiple) {
        (Some(x), _) => x * devices.len() as f64,
        (None, Some(multiple)) => multiple,
        (None, None) => return ValueOrReason::missing("the load is not a multiple of 1x"),
    };
    if times_1x > 0.0 {
        ValueOrReason::Value(prices.iter().sum::<f64>() / times_1x)
    } else {
        ValueOrReason::missing("the load is zero")
    }
}

fn place(
    load: &HeldLoad,
    run: &Run,
    source: &CandidateSource,
    ratings: &[PublishedRating],
) -> ValueOrReason<PublishedRank> {
    let manifest = &run.manifest;
    let verdict = &run.verdict;
    let conclusion = source
        .series
        .as_ref()
        .and_then(|series| series.conclusion.as_ref());
    if conclusion.is_some_and(|ended| !ended.comparable) {
        return ValueOrReason::missing(
            "the series is marked as not comparable with published ratings",
        );
    }
    if let Some(why_not) = incomparable(manifest) {
        return ValueOrReason::missing(why_not);
    }
    let Some(x) = load.x_per_device else {
        return ValueOrReason::missing("the load is not a multiple of 1x");
    };
    let certified = source.kind == CandidateKind::Certify && conclusion.is_some();
    let sec = verdict.ran_sec;
    let caveat = (verdict.class == VerdictClass::Screening && !certified).then(|| {
        format!(
            "published ratings come from runs of 24 hours or longer; this run lasted {sec:.0} s, and drives may slow \
             down later"
        )
    });
    ValueOrReason::Value(super::place(x, ratings, caveat))
}

/// Why a run cannot be compared with published ratings; `None` if it can.
fn incomparable(manifest: &Manifest) -> Option<String> {
    if manifest.simulated {
        return Some("a simulated drive is not ranked among real drives".to_owned());
    }
    if manifest
        .device_facts
        .iter()
        .any(|facts| DeviceKind::from_facts(facts) == Some(DeviceKind::RegularFile))
    {
        return Some("a file is not ranked among drives: its drive is unknown".to_owned());
    }
    if manifest.sla != Sla::default() {
        return Some(format!("the limits are not ACT's ({})", Sla::default()));
    }
    match &manifest.workloads[..] {
        [one] => one.not_comparable.clone(),
        _ => Some("published ratings are for runs with exactly one load".to_owned()),
    }
}

/// The worst slice over one threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThresholdMargin {
    pub threshold_ns: u64,
    /// The threshold as text: `1ms`.
    pub threshold: String,
    /// Limit: the share must be below this fraction.
    pub share_max: f64,
    /// The worst share; missing if no operations were scheduled.
    pub worst: ValueOrReason<WorstShare>,
}

/// A margin for each limit of `sla`, by ascending threshold.
fn margins(verdict: &Verdict, sla: &Sla) -> ValueOrReason<Vec<ThresholdMargin>> {
    if verdict.has_no_limits() {
        return ValueOrReason::missing("the run had no latency limits");
    }
    let margin = |limit: &Limit| ThresholdMargin {
        threshold_ns: limit.threshold_ns,
        threshold: limit.threshold_text(),
        share_max: limit.share_max(),
        worst: ValueOrReason::or_missing(
            verdict
                .worst
                .iter()
                .find(|worst| worst.threshold_ns == limit.threshold_ns)
                .cloned(),
            "no operation of a judged stream was recorded",
        ),
    };
    ValueOrReason::Value(sla.limits().iter().map(margin).collect())
}

/// Parts of the test that neither the representative run of `source` nor its series judged.
fn not_judged(source: &CandidateSource, result: Option<&RunResult>) -> Vec<String> {
    let of_run = result
        .iter()
        .flat_map(|result| result.not_judged.iter().cloned());
    let steps = source.series.iter().flat_map(|series| &series.steps);
    let not_run = steps.filter(|step| {
        matches!(
            step.state,
            SeriesStepState::Planned | SeriesStepState::Interrupted
        )
    });
    of_run
        .chain(not_run.map(|step| format!("{}: not completed", step.name)))
        .collect()
}
