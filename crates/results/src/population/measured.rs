//! Latencies of a drive, read from the directory of a run.

use super::Window;
use crate::cell::{Latencies, latencies};
use crate::run_dir::{Bucket, HlogKind, RunDirError, each_buckets, manifest};
use std::collections::BTreeMap;
use std::path::Path;

/// Latencies of a drive in a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    pub windows: Vec<Window>,
    /// Median and 99th percentile over the whole run, nanoseconds.
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
}

impl Measured {
    /// Service times in `dir` of the judged stream with the highest rate, as it was wanted or, of closed loops, done; of
    /// reads, in the usual tests. Errors: no manifest, or the log is missing or damaged.
    pub fn read(dir: &Path) -> Result<Self, RunDirError> {
        let layout = manifest(dir)?.layout();
        let any_judged = layout.streams.iter().any(|info| info.judged);
        let compared = || layout.streams.iter().enumerate().filter(|(_, info)| info.judged == any_judged);
        // The first of several with the same rate.
        let highest = compared().rev().max_by(|(_, a), (_, b)| a.offered_iops.total_cmp(&b.offered_iops));
        let all_paced = compared().all(|(_, info)| info.offered_iops > 0.0);
        let stream = highest.filter(|_| all_paced).map(|(stream, _)| stream);
        let devices = layout.devices.len().max(1);
        let mut by_stream: BTreeMap<usize, (Latencies, Vec<Window>)> = BTreeMap::new();
        each_buckets(dir, &layout, HlogKind::Service, stream, |window| {
            let stream = window.cell / devices;
            let Some(info) = layout.streams.get(stream).filter(|info| info.judged == any_judged) else { return };
            let (all, windows) = by_stream.entry(stream).or_insert_with(|| (latencies(), Vec::new()));
            let (mut sum_ns, mut count) = (0.0, 0);
            for bucket in window.buckets {
                // Another program may write longer durations; those that fit are counted.
                let _ = all.record_n(bucket.least_ns, bucket.count);
                sum_ns +=
                    (bucket.least_ns + (bucket.most_ns - bucket.least_ns).div_ceil(2)) as f64 * f64::from(bucket.count);
                count += u64::from(bucket.count);
            }
            let quantile = |quantile: f64| {
                let (wanted, mut below) = ((quantile * count as f64).ceil() as u64, 0);
                let reaches = |bucket: &&Bucket| {
                    below += u64::from(bucket.count);
                    below >= wanted
                };
                window.buckets.iter().find(reaches).map_or(0.0, |bucket| bucket.most_ns as f64)
            };
            windows.push(Window {
                start_s: window.from_sec,
                load: if info.offered_iops > 0.0 { info.offered_iops } else { 1.0 },
                mean_ns: if count > 0 { sum_ns / count as f64 } else { 0.0 },
                p50_ns: quantile(0.5),
                p99_ns: quantile(0.99),
            });
        })?;
        let most = by_stream.into_values().max_by_key(|(all, _)| all.len());
        Ok(most.map_or_else(Self::default, |(all, windows)| Self {
            windows,
            p50_ns: Some(all.value_at_quantile(0.5) as f64),
            p99_ns: Some(all.value_at_quantile(0.99) as f64),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Interval;
    use crate::judge::Sla;
    use crate::run_dir::{Manifest, Writer};
    use crate::testing::layout;
    use crate::times::Times;

    #[test]
    fn a_drive_has_the_latencies_of_its_judged_stream_with_the_highest_rate() {
        // Without rates, as in closed loops, the operations are counted.
        for rates in [[100.0, 30.0, 500.0], [0.0, 0.0, 0.0], [100.0, 100.0, 0.0]] {
            check(rates);
        }
    }

    fn check(rates: [f64; 3]) {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let streams = [("reads", true), ("large-block-reads", true), ("large-block-writes", false)];
        let mut layout = layout(&streams, 0.0, ["/dev/nvme0n1"]);
        layout.streams.iter_mut().zip(rates).for_each(|(stream, rate)| stream.offered_iops = rate);
        let manifest = Manifest { report_interval_sec: 10, ..Manifest::new(&layout, Sla::default()) };
        let mut writer = Writer::create(&run, &manifest, &[]).unwrap();
        for index in 0..3 {
            let mut interval = Interval::new(&layout);
            (interval.index, interval.end_ns) = (index, (index + 1) * 10_000_000_000);
            for (cell, ops, us) in [(0, 100, 200 * (index + 1)), (1, 10, 3_000), (2, 900, 7_000)] {
                (0..ops).for_each(|_| interval.cells[cell].record(&Times::new(0, 0, 0, us * 1_000), 0, 4_096));
            }
            interval.close();
            writer.write_interval(&interval, &[]).unwrap();
        }
        drop(writer);
        let measured = Measured::read(&run).unwrap();
        let near = |value: f64, us: f64| (value / us / 1e3 - 1.0).abs() < 0.01;
        assert!(near(measured.p50_ns.unwrap(), 400.0) && near(measured.p99_ns.unwrap(), 600.0), "{measured:?}");
        let [a, b, c] = measured.windows[..] else { panic!("{measured:?}") };
        assert_eq!([a.start_s, b.start_s, c.start_s, a.load], [0.0, 10.0, 20.0, f64::max(rates[0], 1.0)]);
        assert!(near(a.p50_ns, 200.0) && near(b.mean_ns, 400.0) && near(c.p99_ns, 600.0), "{measured:?}");
        assert!(Measured::read(dir.path()).is_err());
    }
}
