//! The highest load that a simulated drive holds for an hour, from runs of seconds.
//!
//! Without rare stalls, every second of the drive is alike, so a short run represents the hour. With rare stalls, the
//! hour consists of windows with and without a stall. One run measures the shares of slow operations in windows with a
//! stall, another run the shares in windows without a stall. The hour's shares are the mix of both, weighted by the
//! number of stalls per hour.

use super::PredictedLoad;
use crate::series::{self, Base1x};
use conclusions::rating::three_digits;
use engine::sim::DriveSpec;
use load::baseline::fit::FittedDrive;
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
/// First step factor of a search. Each further step is the square of the previous one.
const FIRST_STEP: f64 = 1.05;

/// Operations of a run without rare stalls, and bounds of its length, seconds.
const OPS: f64 = 300_000.0;
const RUN_SEC: std::ops::RangeInclusive<f64> = 2.0..=120.0;
/// Minimum number of windows of the drive's rate limit, or of frequent stalls, in a run without rare stalls.
const PERIODS: f64 = 20.0;

/// Length of a window with a stall as a multiple of the stall, so that the backlog is gone before the next stall.
const WINDOW_STALLS: f64 = 100.0;
const WINDOW_SEC: std::ops::RangeInclusive<f64> = 2.0..=30.0;
/// Number of windows in a run with stalls.
const WINDOWS: std::ops::RangeInclusive<f64> = 3.0..=12.0;

/// A search for the highest load that a drive holds.
pub(super) struct HourSearch<'a> {
    steady: Base1x,
    /// The drive with a stall in each window, the length of a window in seconds, and the number of stalls in the hour.
    stalled: Option<(Base1x, f64, f64)>,
    /// Minimum length of a run without rare stalls that covers the drive's periodic behaviour, seconds.
    period_sec: f64,
    load: &'a PredictedLoad,
    signal_handler: &'a SignalHandler,
    /// Operations per second at 1x.
    iops: f64,
    runs: u32,
}

impl<'a> HourSearch<'a> {
    /// A search on `drive`. `stalls_from_mean`: the number of stalls in the hour, from the mean number: the fewest that
    /// an hour can have, the most, or the mean.
    pub(super) fn new(
        drive: &FittedDrive,
        stalls_from_mean: fn(f64) -> f64,
        load: &'a PredictedLoad,
        signal_handler: &'a SignalHandler,
    ) -> Result<Self, Failure> {
        // A fixed seed, so that the same baseline predicts the same rating.
        let base =
            |name: &str| series::load_1x(load.config.as_deref(), &[format!("{name}+seed=1")], load.as_act, "predict");
        let steady = console::quietly(|| base(&drive.steady))?;
        let spec: DriveSpec = drive.steady.parse().map_err(Failure::usage)?;
        let period_sec = spec.stalls.every_ns.max(spec.window_ns) as f64 / 1e9;
        let stalled = |(ms, every_s): (f64, f64)| {
            let window_sec =
                (WINDOW_STALLS * ms / 1e3).clamp(*WINDOW_SEC.start(), *WINDOW_SEC.end()).max(2.0 * ms / 1e3);
            let window_sec = window_sec.min(every_s.max(1.0)).ceil();
            let name = format!("{}+stall-ms={ms:.3}+stall-every-s={window_sec}", drive.steady);
            Ok::<_, Failure>((console::quietly(|| base(&name))?, window_sec, stalls_from_mean(HOUR_SEC / every_s)))
        };
        let stalled = drive.stalls.map(stalled).transpose()?.filter(|(_, _, stalls)| *stalls > 0.0);
        Ok(Self { steady, stalled, period_sec, load, signal_handler, iops: 0.0, runs: 0 })
    }

    /// The highest load held, starting the search at `start`; `None`: not even [`LEAST`] is held, or a signal came.
    pub(super) fn highest(&mut self, start: f64) -> Result<Option<f64>, Failure> {
        let (mut held, mut not_held, mut multiple, mut step) =
            (None::<f64>, None::<f64>, start.clamp(LEAST, MOST), FIRST_STEP);
        loop {
            let bound = if self.holds(multiple)? { &mut held } else { &mut not_held };
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
        if self.iops == 0.0 {
            // A first run determines the rates of 1x.
            self.run(&self.steady.clone(), 1.0, 1)?;
        }
        let iops = (self.iops * multiple).max(1.0);
        let seconds = (OPS / iops).clamp(*RUN_SEC.start(), *RUN_SEC.end()).max(PERIODS * self.period_sec);
        let steady = self.run(&self.steady.clone(), multiple, seconds.ceil() as u64)?;
        if steady.outcome != Outcome::Pass {
            return Ok(false);
        }
        let Some((base, window_sec, stalls)) = self.stalled.clone() else { return Ok(true) };
        let windows = (OPS / iops / window_sec).clamp(*WINDOWS.start(), *WINDOWS.end()).ceil();
        let stalled = self.run(&base, multiple, (windows * window_sec) as u64)?;
        // The first window does not start with a stall.
        let part = stalls * windows * window_sec / (windows - 1.0) / HOUR_SEC;
        Ok(stalled.end.is_complete() && self.mixed_holds(&steady, &stalled, part))
    }

    /// True if an hour is within the limits when `part` of it is like `stalled` and the remainder like `steady`.
    fn mixed_holds(&self, steady: &Verdict, stalled: &Verdict, part: f64) -> bool {
        let shares = |verdict: &Verdict| -> Vec<Vec<f64>> {
            let of = verdict.groups.iter().map(|group| group.slices.first()?.judged_share.clone());
            of.map(Option::unwrap_or_default).collect()
        };
        let is_within = |steady: &Vec<f64>, stalled: &Vec<f64>| {
            let mixed = steady.iter().zip(stalled).map(|(steady, stalled)| steady + (stalled - steady) * part);
            mixed.zip(self.load.sla.limits()).all(|(share, limit)| share < limit.share_max())
        };
        shares(steady).iter().zip(&shares(stalled)).all(|(steady, stalled)| is_within(steady, stalled))
    }

    /// Verdict on `seconds` at `multiple` times the load of `base`.
    fn run(&mut self, base: &Base1x, multiple: f64, seconds: u64) -> Result<Box<Verdict>, Failure> {
        let mut base = base.clone();
        base.set_duration(u32::try_from(seconds).unwrap_or(u32::MAX));
        let devices: Vec<usize> = (0..base.spec().device_names.len()).collect();
        let factor = multiple.to_string().parse().map_err(Failure::usage)?;
        let load = base.multiplied(factor, &devices).map_err(Failure::usages)?;
        self.runs += 1;
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
        let mut offered = Offered(0.0);
        let outcome = console::quietly(|| runner::run(request, self.signal_handler, &mut offered))?;
        self.iops = if self.iops == 0.0 { offered.0 / multiple } else { self.iops };
        outcome.recorded()
    }
}

/// Operations per second that a run offers.
struct Offered(f64);

impl RunObserver for Offered {
    fn begins(&mut self, manifest: &Manifest) {
        self.0 = manifest.streams.iter().map(|stream| stream.offered_iops).sum();
    }
}
