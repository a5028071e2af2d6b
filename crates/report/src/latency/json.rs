//! All latency tables as JSON, unrounded. `docs/latency.md` lists the fields.

use super::run::RunLatencies;
use super::sla::Judgement;
use super::table::{self, average, maximum};
use results::sliced_log::{SlicedHistogram, SlicedLog};
use serde::Serialize;

/// Version of the fields. Raised when a field changes its meaning.
pub const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Serialize)]
pub struct LatencyDocument<'a> {
    format_version: u32,
    logs: Vec<LogJson<'a>>,
    /// A judgement per log if an SLA was given.
    judgements: &'a [Judgement],
}

#[derive(Debug, Serialize)]
struct LogJson<'a> {
    log: &'a str,
    act_version: &'a str,
    test: results::act_log::Test,
    written_by: &'a str,
    report_interval_sec: u64,
    slice_sec: u64,
    complete_sec: u64,
    truncated: bool,
    damage: Option<String>,
    remarks: Vec<String>,
    unit: &'static str,
    thresholds: Vec<u64>,
    histograms: Vec<HistogramJson<'a>>,
    run: Option<&'a RunLatencies>,
}

#[derive(Debug, Serialize)]
struct HistogramJson<'a> {
    histogram: &'a str,
    found: Option<&'a str>,
    slices: Vec<SliceJson>,
    average: SummaryJson,
    maximum: SummaryJson,
}

#[derive(Debug, Serialize)]
struct SliceJson {
    slice: u64,
    begin_sec: u64,
    end_sec: u64,
    ops: u64,
    iops: f64,
    ops_over: Vec<u64>,
    share_over: Option<Vec<f64>>,
}

#[derive(Debug, Serialize)]
struct SummaryJson {
    iops: Option<f64>,
    share_over: Option<Vec<f64>>,
}

/// The JSON of `logs`, with the thresholds of `buckets`. `runs`, `judgements`: empty, or an entry for each log.
pub fn document<'a>(
    logs: &'a [SlicedLog],
    buckets: &[usize],
    runs: &'a [Option<RunLatencies>],
    judgements: &'a [Judgement],
) -> LatencyDocument<'a> {
    let logs = logs.iter().enumerate().map(|(index, log)| LogJson {
        log: &log.name,
        act_version: &log.header.act_version,
        test: log.header.test,
        written_by: &log.header.written_by,
        report_interval_sec: log.interval_sec,
        slice_sec: log.slice_sec,
        complete_sec: log.complete_sec,
        truncated: log.truncation.is_some(),
        damage: log.damage.as_ref().map(ToString::to_string),
        remarks: log.remarks(),
        unit: log.scale.unit(),
        thresholds: buckets.iter().map(|bucket| 1 << bucket).collect(),
        histograms: log
            .histograms
            .iter()
            .map(|histogram| histogram_json(log, histogram, buckets))
            .collect(),
        run: runs.get(index).and_then(Option::as_ref),
    });
    LatencyDocument {
        format_version: FORMAT_VERSION,
        logs: logs.collect(),
        judgements,
    }
}

fn histogram_json<'a>(
    log: &'a SlicedLog,
    histogram: &'a SlicedHistogram,
    buckets: &[usize],
) -> HistogramJson<'a> {
    let edges: Vec<usize> = buckets
        .iter()
        .filter_map(|bucket| log.edge(*bucket))
        .collect();
    let slices: Vec<SliceJson> = log
        .slices_of(histogram)
        .map(|(number, slice)| {
            let ops_over: Vec<u64> = edges.iter().map(|edge| slice.ops_over[*edge]).collect();
            let share = |over: &u64| *over as f64 / slice.total as f64;
            SliceJson {
                slice: number,
                begin_sec: (number - 1) * log.slice_sec,
                end_sec: number * log.slice_sec,
                ops: slice.total,
                iops: slice.iops(),
                share_over: (slice.total > 0).then(|| ops_over.iter().map(share).collect()),
                ops_over,
            }
        })
        .collect();
    let summary = |statistic: table::Statistic| SummaryJson {
        iops: statistic(&mut slices.iter().map(|slice| slice.iops)),
        share_over: (0..edges.len())
            .map(|at: usize| {
                statistic(
                    &mut slices
                        .iter()
                        .filter_map(|slice| Some(slice.share_over.as_ref()?[at])),
                )
            })
            .collect(),
    };
    let average = summary(average);
    let maximum = summary(maximum);
    let found = histogram
        .index
        .and_then(|index| log.names.get(index))
        .map(String::as_str);
    HistogramJson {
        histogram: &histogram.name,
        found,
        slices,
        average,
        maximum,
    }
}
