//! Quantiles of each stream over the whole run and all devices.
//!
//! Quantiles come from the interval logs, whose resolution is 1 % for service times and 6 % for wait and lag, and never
//! finer than 1 us. A verdict uses exact counts instead.

use crate::table::Table;
use results::cell::{self, Latencies as Histogram, Layout};
use results::format;
use results::judge::Verdict;
use results::run_dir::{HistogramWindow, HlogKind, RunDirError, each_window};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// The latencies of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamLatencies {
    /// Name of the stream.
    pub stream: String,
    /// Service time: from submission to observed completion.
    pub service: Quantiles,
    /// Wait for a free slot, caused by the device or by the in-flight limit.
    pub wait: Quantiles,
    /// Lag: delay of the submission by flashproof or its host.
    pub lag: Quantiles,
}

/// Some quantiles of a duration, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Quantiles {
    /// Number of durations.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// 99.99th percentile.
    pub p9999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// Standard deviation.
    pub stddev_ns: u64,
}

impl StreamLatencies {
    pub fn durations(&self) -> [(&'static str, &Quantiles); 3] {
        [
            ("service", &self.service),
            ("wait", &self.wait),
            ("lag", &self.lag),
        ]
    }
}

impl From<&Histogram> for Quantiles {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            p9999_ns: histogram.value_at_quantile(0.9999),
            max_ns: histogram.max(),
            mean_ns: histogram.mean() as u64,
            stddev_ns: histogram.stdev() as u64,
        }
    }
}

/// The names of [`Quantiles::all_ns`].
pub const QUANTILES: [&str; 8] = [
    "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "std dev",
];

impl Quantiles {
    /// Percentiles from the median to the maximum, the mean and the standard deviation.
    pub fn all_ns(&self) -> [u64; 8] {
        let Self {
            p50_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            p9999_ns,
            max_ns,
            mean_ns,
            stddev_ns,
            ..
        } = *self;
        [
            p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, max_ns, mean_ns, stddev_ns,
        ]
    }
}

/// Latencies of every stream with operations, from the run in `dir`. `layout`: cells of the run.
pub fn latencies(dir: &Path, layout: &Layout) -> Result<Vec<StreamLatencies>, RunDirError> {
    let read = |kind| by_stream(dir, layout, kind);
    let service = read(HlogKind::Service)?;
    let wait = read(HlogKind::Wait)?;
    let lag = read(HlogKind::Lag)?;
    Ok(of_streams(
        layout,
        service.iter().zip(wait.iter().zip(&lag)),
    ))
}

/// Quantiles of the streams with operations, from histograms of service, wait and lag by stream.
pub(crate) fn of_streams<'a>(
    layout: &Layout,
    durations: impl Iterator<Item = (&'a Histogram, (&'a Histogram, &'a Histogram))>,
) -> Vec<StreamLatencies> {
    let streams = layout
        .streams
        .iter()
        .zip(durations)
        .filter(|(_, (service, _))| !service.is_empty());
    let streams = streams.map(|(stream, (service, (wait, lag)))| StreamLatencies {
        stream: stream.name.clone(),
        service: service.into(),
        wait: wait.into(),
        lag: lag.into(),
    });
    streams.collect()
}

fn by_stream(dir: &Path, layout: &Layout, kind: HlogKind) -> Result<Vec<Histogram>, RunDirError> {
    let mut streams = vec![cell::latencies(); layout.streams.len()];
    each_window(dir, layout, kind, |window| {
        add_window(&mut streams, layout, &window)
    })?;
    Ok(streams)
}

pub(crate) fn add_window(streams: &mut [Histogram], layout: &Layout, window: &HistogramWindow) {
    if let Some(stream) = streams.get_mut(window.cell / layout.devices.len().max(1)) {
        // `add` fails if a log of another program contains a duration above `DURATION_MAX_NS`: the window is left out.
        let _ = stream.add(&window.histogram);
    }
}

/// A table in milliseconds, one line for each stream and duration, with the [`QUANTILES`] in `quantile_names`.
pub fn in_milliseconds(
    streams: &[StreamLatencies],
    name_width: usize,
    quantile_names: &[&str],
) -> Table {
    let rows = streams.iter().flat_map(|stream| {
        let names = [stream.stream.as_str(), "", ""];
        names
            .into_iter()
            .zip(stream.durations())
            .map(|(name, (what, quantiles))| {
                let shown_quantiles = QUANTILES
                    .iter()
                    .zip(quantiles.all_ns())
                    .filter(|(quantile, _)| quantile_names.contains(quantile));
                let ms = shown_quantiles.map(|(_, ns)| format!("{:.3}", ns as f64 / 1e6));
                [name.to_owned(), what.to_owned()].into_iter().chain(ms)
            })
    });
    let table = Table::new("")
        .text(["milliseconds", ""])
        .numbers(quantile_names.iter().copied());
    table.widths([name_width, 8, 9, 9, 9, 9, 9, 9]).rows(rows)
}

/// The table that is usual in reports on databases, for reads and writes: mean and standard deviation of service times,
/// and the share below each threshold. Shares count as in the verdict: from the scheduled start, with failures.
pub(crate) fn of_transactions(verdict: &Verdict, streams: &[StreamLatencies]) -> Table {
    let rows = verdict.groups.iter().map(|group| {
        let service = streams
            .iter()
            .find(|stream| stream.stream == group.stream)
            .map(|stream| stream.service);
        let times = service.map_or([0; 2], |service| [service.mean_ns, service.stddev_ns]);
        let scheduled_ops = group
            .slices
            .iter()
            .map(|slice| slice.scheduled)
            .sum::<u64>()
            .max(1);
        let share_texts = (0..verdict.thresholds_ns.len()).map(move |limit| {
            let over: u64 = group
                .slices
                .iter()
                .filter_map(|slice| slice.judged_over.get(limit))
                .sum();
            format::percent(1.0 - over as f64 / scheduled_ops as f64)
        });
        let times = times.map(|ns| format!("{:.3}", ns as f64 / 1e6));
        [group.stream.clone(), String::new()]
            .into_iter()
            .chain(times)
            .chain(share_texts)
    });
    let under = verdict
        .thresholds_ns
        .iter()
        .map(|ns| format!("< {}", format::duration(*ns)));
    let table = Table::new("")
        .text(["transactions", ""])
        .numbers(["mean, ms".to_owned(), "std dev".to_owned()])
        .numbers(under);
    table.widths([20, 8, 9, 9, 9, 9, 9]).rows(rows)
}

pub(crate) fn below_verdict(
    verdict: &Verdict,
    streams: &[StreamLatencies],
    are_transactions: bool,
) -> String {
    match streams {
        [] => String::new(),
        streams => {
            let more = if are_transactions {
                format!("\n{}", of_transactions(verdict, streams))
            } else {
                String::new()
            };
            format!(
                "\n{}{more}",
                in_milliseconds(streams, 20, &["p50", "p99", "p99.9", "max"])
            )
        }
    }
}

/// The kind of workload whose operations are transactions on records.
pub(crate) const TRANSACTIONS: &str = "transactions";

#[cfg(test)]
mod tests {
    use super::*;
    use results::cell::Interval;
    use results::judge::Sla;
    use results::run_dir::{Manifest, RunWriter};
    use results::times::Times;

    fn layout() -> Layout {
        results::testing::layout(
            &[("reads", true), ("idle", true), ("writes", true)],
            1.0,
            ["a", "b"],
        )
    }

    #[test]
    fn devices_and_windows_are_added_up_and_idle_streams_left_out() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("run");
        let manifest = Manifest {
            duration_sec: 30,
            ..Manifest::new(&layout(), Sla::default())
        };
        let mut writer = RunWriter::create(&dir, &manifest, &[]).unwrap();
        for index in 0..30 {
            let mut interval = Interval::new(&layout());
            (interval.index, interval.end_ns) = (index, (index + 1) * 1_000_000_000);
            // 60 reads over two devices, 59 of 1 ms and one of 5 ms; lag 50 us.
            interval.cells[0].record(&Times::new(0, 0, 50_000, 1_050_000), 0, 512);
            interval.cells[1].record(
                &Times::new(0, 0, 50_000, if index == 7 { 5_050_000 } else { 1_050_000 }),
                0,
                512,
            );
            interval.cells[5].record(&Times::new(0, 2_000_000, 2_000_000, 2_100_000), 0, 512);
            writer.write_interval(&interval, &[]).unwrap();
        }
        let verdict = manifest.judge().verdict(&results::judge::End::Completed);
        writer.finish(&verdict).unwrap();

        let streams = latencies(&dir, &layout()).unwrap();
        assert_eq!(
            streams
                .iter()
                .map(|s| (s.stream.as_str(), s.service.count))
                .collect::<Vec<_>>(),
            [("reads", 60), ("writes", 30)]
        );
        let near = |have: u64, want: u64, percent: u64| {
            assert!(have.abs_diff(want) * 100 <= want * percent, "{have} {want}")
        };
        near(streams[0].service.p50_ns, 1_000_000, 1);
        near(streams[0].service.max_ns, 5_000_000, 1);
        near(streams[0].lag.p50_ns, 50_000, 10);
        near(streams[1].wait.p99_ns, 2_000_000, 10);
        // 59 reads of 1 ms and one of 5 ms.
        near(streams[0].service.mean_ns, 64_000_000 / 60, 2);
        near(streams[0].service.stddev_ns, 512_000, 2);
        let table = below_verdict(&verdict, &streams, false);
        assert_eq!(table.lines().count(), 8, "{table}");
    }
}
