//! The highest load that a simulated drive holds for an hour, from runs of seconds.
//!
//! Without rare stalls, every second of the drive is alike, so a short run represents the hour. With rare stalls, the
//! hour consists of windows with and without a stall. One run measures the shares of slow operations in windows with a
//! stall, another run the shares in windows without a stall. The hour's shares are the mix of both, weighted by the
//! number of stalls per hour.

use super::PredictedLoad;
use crate::commands::rate::predict::fit::FittedDrive;
use crate::series::{self, Base1x};
use conclusions::rate::three_digits;
use engine::sim::DriveSpec;
use results::files;
use results::judge::{Outcome, Verdict};
use results::run_dir::Manifest;
use session::console;
use session::failure::Failure;
use session::recording::RunObserver;
use session::runner::{self, FailureLimits, NamedWorkload, RunRequest};
use session::signals::SignalHandler;

const HOUR_SEC: f64 = 3_600.0;

/// Bounds of the loads tried, multiples of 1x.
pub(super) const LEAST: f64 = 1.0 / 64.0;
const MOST: f64 = 1_000.0;
/// The search ends when the lowest load not held is within this factor of the highest load held.
const NEAR: f64 = 1.01;
/// First step factor of a search. Each further factor is the square of the previous one, up to 4.
const FIRST_STEP: f64 = 1.05;

/// Minimum operations of a run without rare stalls: of all streams, and of the slowest stream, so that a backlog that
/// grows by 0.3 % of a stream's rate is found. [`OPS_MAX`] limits the operations of all streams if one stream is slow.
const OPS: f64 = 300_000.0;
const STREAM_OPS: f64 = 2_000.0;
const OPS_MAX: f64 = 4.0 * OPS;
/// Report intervals of a run without rare stalls. Growth of a backlog shows best between intervals that are far apart.
const INTERVALS: u64 = 8;
/// Length of a run without rare stalls, seconds. Operations may be up to 1 s late, which would hide a growing backlog
/// in shorter runs.
const RUN_SEC: std::ops::RangeInclusive<f64> = 8.0..=1_000.0;
/// Number of windows of the drive's rate limit, or of frequent stalls, in a run without rare stalls: [`PERIODS`], or as
/// many as take [`PERIODS_SEC`]. The backlog grows and shrinks in each window.
const PERIODS: f64 = 80.0;
const PERIODS_MIN: f64 = 2.0;
const PERIODS_SEC: f64 = 240.0;

/// Length of a window with a stall as a multiple of the stall, so that the backlog is gone before the next stall.
const WINDOW_STALLS: f64 = 100.0;
const WINDOW_SEC: std::ops::RangeInclusive<f64> = 2.0..=30.0;
/// Number of windows in a run with stalls.
const WINDOWS: std::ops::RangeInclusive<f64> = 3.0..=12.0;

pub(super) struct HourSearch<'a> {
    steady: Base1x,
    /// 1x on the drive with a stall in each window, the length of a window in seconds, and the number of stalls in the
    /// hour.
    stalled: Option<(Base1x, f64, f64)>,
    /// Period of the drive's rate limit, or of frequent stalls, seconds.
    period_sec: f64,
    load: &'a PredictedLoad,
    signal_handler: &'a SignalHandler,
    offered_1x: Offered,
}

impl<'a> HourSearch<'a> {
    /// `stalls_from_mean` computes the number of stalls to assume in the hour (the fewest, the most, or the mean) from
    /// the mean number of stalls.
    pub(super) fn new(
        drive: &FittedDrive,
        stalls_from_mean: fn(f64) -> f64,
        load: &'a PredictedLoad,
        signal_handler: &'a SignalHandler,
    ) -> Result<Self, Failure> {
        let steady = base_1x(&drive.steady, load)?;
        let period_sec = period_sec(drive)?;
        let mut stalled = None;
        if let Some((ms, every_s)) = drive.stalls {
            let window_sec = (WINDOW_STALLS * ms / 1e3)
                .clamp(*WINDOW_SEC.start(), *WINDOW_SEC.end())
                .max(2.0 * ms / 1e3);
            let window_sec = window_sec.min(every_s.max(1.0)).ceil();
            let name = format!(
                "{}+stall-ms={ms:.3}+stall-every-s={window_sec}",
                drive.steady
            );
            let base = base_1x(&name, load)?;
            let stalls = stalls_from_mean(HOUR_SEC / every_s);
            if stalls > 0.0 {
                stalled = Some((base, window_sec, stalls));
            }
        }
        let mut search = Self {
            steady,
            stalled,
            period_sec,
            load,
            signal_handler,
            offered_1x: Offered::default(),
        };
        // A first run determines the rates of 1x.
        search.run(&search.steady.clone(), 1.0, 1)?;
        Ok(search)
    }

    /// The highest load held, starting the search at `start`; `None`: not even [`LEAST`] is held, or a signal came.
    pub(super) fn highest(&mut self, start: f64) -> Result<Option<f64>, Failure> {
        let mut held = None::<f64>;
        let mut not_held = None::<f64>;
        let mut multiple = start.clamp(LEAST, MOST);
        let mut step = FIRST_STEP;
        loop {
            let bound = if self.holds(multiple)? {
                &mut held
            } else {
                &mut not_held
            };
            *bound = Some(multiple);
            if self.signal_handler.signal_received().is_some() {
                return Ok(None);
            }
            multiple = match (held, not_held) {
                (Some(held), Some(not_held)) if not_held / held <= NEAR => break,
                (Some(held), Some(not_held)) => (held * not_held).sqrt(),
                (Some(held), None) if held >= MOST => break,
                (None, Some(not_held)) if not_held <= LEAST => break,
                (Some(held), None) => (held * step).min(MOST),
                (None, _) => (multiple / step).max(LEAST),
            };
            step = (step * step).min(4.0);
        }
        Ok(held.map(three_digits))
    }

    /// True if the drive holds `multiple` times 1x for an hour.
    fn holds(&mut self, multiple: f64) -> Result<bool, Failure> {
        let multiple = three_digits(multiple);
        let steady = self.run(&self.steady.clone(), multiple, self.steady_sec(multiple))?;
        if steady.outcome != Outcome::Pass {
            return Ok(false);
        }
        let Some((base, window_sec, stalls)) = self.stalled.clone() else {
            return Ok(true);
        };
        let windows = (OPS / self.offered_1x.iops / multiple / window_sec)
            .clamp(*WINDOWS.start(), *WINDOWS.end())
            .ceil();
        let stalled = self.run(&base, multiple, (windows * window_sec) as u64)?;
        // The first window does not start with a stall.
        let part = stalls * windows * window_sec / (windows - 1.0) / HOUR_SEC;
        Ok(stalled.end.is_complete() && self.mixed_holds(&steady, &stalled, part))
    }

    /// Length of a run without rare stalls at `multiple` times 1x, seconds.
    fn steady_sec(&self, multiple: f64) -> u64 {
        let Offered { iops, stream_iops } = self.offered_1x;
        let seconds = (OPS / iops)
            .max(STREAM_OPS / stream_iops)
            .min(OPS_MAX / iops)
            / multiple;
        let seconds =
            (seconds.clamp(*RUN_SEC.start(), *RUN_SEC.end()) as u64).next_multiple_of(INTERVALS);
        seconds.max((periods(self.period_sec) * self.period_sec).ceil() as u64)
    }

    /// True if an hour is within the limits when `part` of it is like `stalled` and the remainder like `steady`.
    fn mixed_holds(&self, steady: &Verdict, stalled: &Verdict, part: f64) -> bool {
        let mut groups = judged_shares(steady)
            .into_iter()
            .zip(judged_shares(stalled));
        groups.all(|(steady, stalled)| {
            let mixed = steady
                .iter()
                .zip(&stalled)
                .map(|(steady, stalled)| steady + (stalled - steady) * part);
            mixed
                .zip(self.load.sla.limits())
                .all(|(share, limit)| share < limit.share_max())
        })
    }

    /// Verdict on `seconds` at `multiple` times the load of `base`.
    fn run(&mut self, base: &Base1x, multiple: f64, seconds: u64) -> Result<Box<Verdict>, Failure> {
        let mut base = base.clone();
        base.set_duration(u32::try_from(seconds).unwrap_or(u32::MAX));
        let interval_sec = if seconds.is_multiple_of(INTERVALS) {
            seconds / INTERVALS
        } else {
            1
        };
        base.set_report_interval(u32::try_from(interval_sec).unwrap_or(u32::MAX));
        let devices: Vec<usize> = (0..base.spec().device_names.len()).collect();
        let factor = multiple.to_string().parse().map_err(Failure::usage)?;
        let load = base.multiplied(factor, &devices).map_err(Failure::usages)?;
        // There are many runs, and only their verdicts are needed.
        let temp_dir = files::temporary_dir("flashproof-predict-", &std::env::temp_dir()).map_err(|error| {
            Failure::environment(format!(
                "cannot create a directory for the search - {error} - check the free space in TMPDIR"
            ))
        })?;
        let request = RunRequest {
            dir: temp_dir.path().to_owned(),
            sla: self.load.sla.clone(),
            slice_sec: seconds,
            failure_limits: FailureLimits::with_errors(0),
            findings: Some(Vec::new()),
            quiet: true,
            trace: false,
            ..RunRequest::new(NamedWorkload::alone(load.workload, load.text))
        };
        let mut offered = Offered::default();
        let outcome = console::quietly(|| runner::run(request, self.signal_handler, &mut offered))?;
        if self.offered_1x.iops == 0.0 {
            self.offered_1x = offered;
        }
        outcome.recorded()
    }
}

/// Operations per second that a run offers: of all streams, and of the slowest stream that has a rate.
#[derive(Default)]
struct Offered {
    iops: f64,
    stream_iops: f64,
}

impl RunObserver for Offered {
    fn begins(&mut self, manifest: &Manifest) {
        let rates = manifest
            .streams
            .iter()
            .map(|stream| stream.offered_iops)
            .filter(|iops| *iops > 0.0);
        self.iops = rates.clone().sum();
        self.stream_iops = rates.fold(self.iops, f64::min);
    }
}

fn base_1x(name: &str, load: &PredictedLoad) -> Result<Base1x, Failure> {
    // A fixed seed, so that the same baseline predicts the same rating.
    let devices = [format!("{name}+seed=1")];
    console::quietly(|| series::load_1x(load.config.as_deref(), &devices, load.as_act, "predict"))
}

/// Shares of operations over each limit, in the first slice of each stream.
fn judged_shares(verdict: &Verdict) -> Vec<Vec<f64>> {
    let first_slices = verdict.groups.iter().map(|group| group.slices.first());
    let shares = first_slices.map(|slice| slice?.judged_share.clone());
    shares.map(Option::unwrap_or_default).collect()
}

/// Period of the rate limit of `drive`, or of its frequent stalls, seconds.
fn period_sec(drive: &FittedDrive) -> Result<f64, Failure> {
    let spec: DriveSpec = drive.steady.parse().map_err(Failure::usage)?;
    Ok(spec.stalls.every_ns.max(spec.window_ns) as f64 / 1e9)
}

/// Number of periods of `period_sec` in a run.
fn periods(period_sec: f64) -> f64 {
    (PERIODS_SEC / period_sec)
        .floor()
        .clamp(PERIODS_MIN, PERIODS)
}

/// A sentence about the periods of `drive` if a run has fewer than [`PERIODS`] of them.
pub(super) fn few_periods(drive: &FittedDrive) -> Result<Option<String>, Failure> {
    let period_sec = period_sec(drive)?;
    Ok((periods(period_sec) < PERIODS).then(|| {
        format!(
            "the simulated drive has a rate limit or a stall with a period of {period_sec:.1} s: a simulated run has only {} \
             periods instead of {PERIODS}, so the interval may be too narrow",
            periods(period_sec)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::judge::Sla;

    fn drive(steady: &str) -> FittedDrive {
        FittedDrive {
            steady: steady.to_owned(),
            stalls: None,
        }
    }

    #[test]
    fn a_drive_is_not_rated_above_the_bandwidth_of_its_large_blocks() {
        let load = PredictedLoad {
            config: None,
            sla: Sla::default(),
            as_act: false,
        };
        let signal_handler = SignalHandler::default();
        let drive = drive("sim:channels=64+write-mbps=50");
        let mut search = HourSearch::new(&drive, |mean| mean, &load, &signal_handler).unwrap();
        let highest = search.highest(17.7).unwrap().unwrap();
        // 1x writes 23.53 blocks of 128 KiB per second, so 50 MB/s are enough for 16.2x.
        assert!((15.9..=16.3).contains(&highest), "{highest}");
    }

    #[test]
    fn a_simulated_run_with_too_few_windows_of_the_rate_limit_is_reported() {
        assert_eq!(
            few_periods(&drive("sim:read-iops=600+window-ms=3000")).unwrap(),
            None
        );
        let sentence = few_periods(&drive("sim:read-iops=600+window-ms=100000"))
            .unwrap()
            .unwrap();
        assert!(
            sentence.contains("a period of 100.0 s: a simulated run has only 2 periods"),
            "{sentence}"
        );
    }
}
