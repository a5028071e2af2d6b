//! The highest load that a simulated drive holds for an hour, from runs of seconds.
//!
//! Without rare stalls one second of the drive is like the next, so a short run stands for the hour. With rare stalls the hour
//! consists of windows with a stall and of others without: one run shows the shares with a stall in each window, another
//! the shares without any, and the hour's shares are both, mixed by how many stalls the hour has.

use super::PredictedLoad;
use crate::series::{self, Base1x};
use engine::sim::DriveSpec;
use load::baseline::fit::FittedDrive;
use results::cell::Interval;
use results::judge::{End, Outcome, Verdict};
use results::rating::Multiple;
use results::run_dir::Manifest;
use session::console;
use session::failure::Failure;
use session::recording::Watch;
use session::runner::{self, Ended, Named, Patience, RunRequest, SeriesContext};
use session::signals::Switch;
use tempfile::TempDir;

const HOUR_SEC: f64 = 3_600.0;

/// Loads that are tried, multiples of 1x.
pub(super) const LEAST: f64 = 1.0 / 64.0;
const MOST: f64 = 1_000.0;
/// The highest load held and the lowest not held are as near as this.
const NEAR: f64 = 1.01;
/// The first step away from where a search begins. Each further step is the square of the one before.
const FIRST_STEP: f64 = 1.05;

/// A run without stalls has so many operations, and lasts so long, seconds.
const OPS: f64 = 300_000.0;
const RUN_SEC: std::ops::RangeInclusive<f64> = 2.0..=120.0;
/// Windows of limits, or frequent stalls, in such a run.
const PERIODS: f64 = 20.0;

/// A window with a stall is so many times longer than the stall, so that what waited is done before the next.
const WINDOW_STALLS: f64 = 100.0;
const WINDOW_SEC: std::ops::RangeInclusive<f64> = 2.0..=30.0;
/// Windows in a run with stalls.
const WINDOWS: std::ops::RangeInclusive<f64> = 3.0..=12.0;

/// Estimate of the number of stalls in an hour, if stalls come every `every_s`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// The mean number.
    Mean,
    /// As few as an hour can have.
    Least,
    /// As many as an hour can have.
    Most,
}

impl Count {
    fn of(self, every_s: f64) -> f64 {
        let mean = HOUR_SEC / every_s;
        match self {
            Self::Mean => mean,
            Self::Least => mean.floor(),
            Self::Most => mean.ceil(),
        }
    }
}

/// A search for the highest load that a drive holds.
pub(super) struct HourSearch<'a> {
    steady: Base1x,
    /// The drive with a stall in each window, how long a window is, and how many stalls the hour has.
    stalled: Option<(Base1x, f64, f64)>,
    /// Time that a run without stalls has to last for what the drive does periodically, seconds.
    period_sec: f64,
    load: &'a PredictedLoad,
    switch: &'a Switch,
    place: TempDir,
    /// Operations a second of 1x.
    iops: f64,
    runs: u32,
}

/// The search was ended by a signal.
pub(super) struct Interrupted;

impl<'a> HourSearch<'a> {
    /// A search on `drive`, with `count` stalls in the hour.
    pub(super) fn new(
        drive: &FittedDrive,
        count: Count,
        load: &'a PredictedLoad,
        switch: &'a Switch,
    ) -> Result<Self, Failure> {
        let place = tempfile::tempdir().map_err(|error| {
            Failure::environment(format!("cannot make a directory for a search - {error} - is there room in TMPDIR?"))
        })?;
        // The same baseline predicts the same rating.
        let base =
            |name: &str| series::base(load.config.as_deref(), &[format!("{name}+seed=1")], load.as_act, "predict");
        let steady = console::quietly(|| base(&drive.steady))?;
        let spec: DriveSpec = drive.steady.parse().map_err(Failure::usage)?;
        let period_sec = spec.stalls.every_ns.max(spec.window_ns) as f64 / 1e9;
        let stalled = |(ms, every_s): (f64, f64)| {
            let window_sec =
                (WINDOW_STALLS * ms / 1e3).clamp(*WINDOW_SEC.start(), *WINDOW_SEC.end()).max(2.0 * ms / 1e3);
            let window_sec = window_sec.min(every_s.max(1.0)).ceil();
            let name = format!("{}+stall-ms={ms:.3}+stall-every-s={window_sec}", drive.steady);
            Ok::<_, Failure>((console::quietly(|| base(&name))?, window_sec, count.of(every_s)))
        };
        let stalled = drive.stalls.map(stalled).transpose()?.filter(|(_, _, stalls)| *stalls > 0.0);
        Ok(Self { steady, stalled, period_sec, load, switch, place, iops: 0.0, runs: 0 })
    }

    /// The highest load held, searched from the load `from` on; `Ok(None)`: not even the least that is tried.
    pub(super) fn highest(&mut self, from: f64) -> Result<Result<Option<f64>, Interrupted>, Failure> {
        let (mut held, mut not_held, mut at, mut step) =
            (None::<f64>, None::<f64>, from.clamp(LEAST, MOST), FIRST_STEP);
        loop {
            let Ok(holds) = self.holds(at)? else { return Ok(Err(Interrupted)) };
            let bound = if holds { &mut held } else { &mut not_held };
            *bound = Some(at);
            at = match (held, not_held) {
                (Some(held), Some(not_held)) if not_held / held <= NEAR => break,
                (Some(held), Some(not_held)) => (held * not_held).sqrt(),
                (Some(held), None) if held >= MOST => break,
                (None, Some(not_held)) if not_held <= LEAST => break,
                (Some(held), None) => (held * step).min(MOST),
                (None, _) => (at / step).max(LEAST),
            };
            step = (step * step).min(4.0);
        }
        Ok(Ok(held.map(|held| Multiple::new(held).get())))
    }

    /// True where the drive holds `multiple` times 1x for an hour.
    fn holds(&mut self, multiple: f64) -> Result<Result<bool, Interrupted>, Failure> {
        let multiple = Multiple::new(multiple);
        if self.iops == 0.0 {
            // A run tells the rates of 1x.
            self.run(&self.steady.clone(), Multiple::new(1.0), 1)?;
        }
        let iops = (self.iops * multiple.get()).max(1.0);
        let seconds = (OPS / iops).clamp(*RUN_SEC.start(), *RUN_SEC.end()).max(PERIODS * self.period_sec);
        let steady = self.run(&self.steady.clone(), multiple, seconds.ceil() as u64)?;
        if let End::Interrupted { .. } = steady.end {
            return Ok(Err(Interrupted));
        }
        if steady.outcome != Outcome::Pass {
            return Ok(Ok(false));
        }
        let Some((base, window_sec, stalls)) = self.stalled.clone() else { return Ok(Ok(true)) };
        let windows = (OPS / iops / window_sec).clamp(*WINDOWS.start(), *WINDOWS.end()).ceil();
        let stalled = self.run(&base, multiple, (windows * window_sec) as u64)?;
        if let End::Interrupted { .. } = stalled.end {
            return Ok(Err(Interrupted));
        }
        // The first window has no stall at its begin.
        let part = stalls * windows * window_sec / (windows - 1.0) / HOUR_SEC;
        Ok(Ok(stalled.end.is_complete() && self.mixed_holds(&steady, &stalled, part)))
    }

    /// True where an hour is within the limits, a part of it as `stalled` and the rest as `steady`.
    fn mixed_holds(&self, steady: &Verdict, stalled: &Verdict, part: f64) -> bool {
        let shares = |verdict: &Verdict| -> Vec<Vec<f64>> {
            let of = verdict.groups.iter().map(|group| group.slices.first()?.judged_share.clone());
            of.map(Option::unwrap_or_default).collect()
        };
        let within = |steady: &Vec<f64>, stalled: &Vec<f64>| {
            let mixed = steady.iter().zip(stalled).map(|(steady, stalled)| steady + (stalled - steady) * part);
            mixed.zip(self.load.sla.limits()).all(|(share, limit)| share < limit.share_max())
        };
        shares(steady).iter().zip(&shares(stalled)).all(|(steady, stalled)| within(steady, stalled))
    }

    /// The verdict on `seconds` of `multiple` times the load of `base`.
    fn run(&mut self, base: &Base1x, multiple: Multiple, seconds: u64) -> Result<Box<Verdict>, Failure> {
        let mut base = base.clone();
        base.set_duration(u32::try_from(seconds).unwrap_or(u32::MAX));
        let devices: Vec<usize> = (0..base.spec().device_names.len()).collect();
        let factor = multiple.to_string().parse().map_err(Failure::usage)?;
        let load = base.at(factor, &devices).map_err(Failure::usages)?;
        self.runs += 1;
        let dir = self.place.path().join(self.runs.to_string());
        let request = RunRequest {
            dir: dir.clone(),
            sla: self.load.sla.clone(),
            slice_sec: seconds,
            patience: Patience::with_errors(0),
            part: SeriesContext { findings: Some(Vec::new()), ..SeriesContext::default() },
            quiet: true,
            trace: false,
            ..RunRequest::new(Named::alone(load.workload, load.text))
        };
        let mut offered = Offered(0.0);
        let ended = console::quietly(|| runner::run(request, self.switch, &mut offered))?;
        self.iops = if self.iops == 0.0 { offered.0 / multiple.get() } else { self.iops };
        // Runs are many, and of each only its verdict is wanted.
        let _ = std::fs::remove_dir_all(dir);
        match ended {
            Ended::Recorded(verdict) => Ok(verdict),
            Ended::Unrecorded { failure, .. } => Err(failure),
        }
    }
}

/// Operations a second that a run is asked for.
struct Offered(f64);

impl Watch for Offered {
    fn begins(&mut self, manifest: &Manifest) {
        self.0 = manifest.streams.iter().map(|stream| stream.offered_iops).sum();
    }

    fn interval(&mut self, _: &Interval) -> Option<String> {
        None
    }
}
