//! Status of one run.

use super::{StateOf, unix_ms};
use crate::latencies::add_window;
use results::cell::Layout;
use results::counts::CellCounts;
use results::judge::{End, Judge, Limit, RunResult, Verdict, WorstShare};
use results::run_dir::ProcessState;
use results::run_dir::{
    self, HlogKind, Intervals, Manifest, RunDirError, TELEMETRY, VERDICT, last_windows, time_left,
};
use results::telemetry::{Column, ColumnOf};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A run hangs if it recorded nothing for this many intervals plus [`HUNG_SEC`].
const HUNG_INTERVALS: u64 = 3;
/// Maximum time, seconds, for a sync of the run directory's disk, or until a run's last operations complete.
const HUNG_SEC: u64 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// Started, without an interval so far.
    Beginning,
    Running,
    /// The configured time is over: the last operations complete, or the verdict is being written.
    Ending,
    /// The process exists, but has recorded nothing for too long (`HUNG_INTERVALS`, `HUNG_SEC`).
    Hung,
    /// The process is stopped (SIGSTOP).
    Stopped,
    /// The process is not visible, but it is too early to tell if its files still grow.
    Gone,
    /// The process is gone, and there is no verdict.
    Killed,
    /// Ended, with a verdict.
    Ended,
    /// There is no verdict, nothing was recorded for too long, and the process is not visible.
    Unknown,
}

impl RunPhase {
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Killed | Self::Unknown)
    }

    /// True if the run proceeds normally: then it ends when its time is over.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Beginning | Self::Running | Self::Ending)
    }
}

/// Shares over the thresholds in the unfinished slice, of the judged stream and device that is nearest to a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurrentShares {
    /// Slice number, from 1.
    pub slice: u64,
    pub stream: String,
    /// The device; `None` for all devices together.
    pub device: Option<String>,
    /// For each threshold: the fraction of operations that were over the threshold so far.
    pub shares: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Temperature {
    pub device: String,
    pub celsius: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStatus {
    pub dir: PathBuf,
    /// `storage` or `index`.
    pub test: String,
    pub devices: Vec<String>,
    /// True if the devices are simulated: then seconds are of simulated time.
    pub simulated: bool,
    /// Purpose within its series.
    pub purpose: Option<String>,
    pub phase: RunPhase,
    pub seen: Option<ProcessState>,
    pub pid: Option<u32>,
    pub elapsed_sec: f64,
    /// Configured duration, seconds; an upper bound where `operations` end the run.
    pub duration_sec: u64,
    /// Number of operations that ends the run; `None`: the duration ends it.
    pub operations: Option<u64>,
    /// Operations completed or failed so far.
    pub operations_done: u64,
    /// Expected end, milliseconds since 1970; `None` on simulated drives, and if the run does not proceed normally.
    pub ends_unix_ms: Option<u64>,
    /// Seconds since the last record.
    pub recorded_ago_sec: Option<f64>,
    /// By stream; empty before the first interval and after the run.
    pub last_interval_iops: Vec<f64>,
    pub sla: String,
    /// The thresholds as text, in the order of all shares.
    pub thresholds: Vec<String>,
    pub current: Option<CurrentShares>,
    /// The share so far with the largest ratio to its limit; `None` without limits.
    pub worst: Option<WorstShare>,
    /// Fraction of their runnable time for which the issuing threads waited for a CPU; `None` if small.
    pub cpu_wait_share: Option<f64>,
    /// 99th percentile of service times in the newest window, by judged stream, nanoseconds.
    pub p99_ns: Vec<(String, u64)>,
    pub errors: u64,
    pub temperatures: Vec<Temperature>,
    /// The verdict's result; a preliminary one until the end.
    #[serde(flatten)]
    pub result: RunResult,
    pub remarks: Vec<String>,
}

impl RunStatus {
    pub fn read(dir: &Path, now: SystemTime, state_of: StateOf<'_>) -> Result<Self, RunDirError> {
        let manifest = run_dir::manifest(dir)?;
        // Check this first: a verdict that is written while the tables are read does not match the tables.
        if dir.join(VERDICT).exists() {
            return Self::ended(dir, now, &manifest);
        }
        let process_state = manifest.process.as_ref().map(state_of);
        // The run may have ended between the two checks.
        if matches!(
            process_state,
            Some(ProcessState::Gone | ProcessState::Elsewhere)
        ) && dir.join(VERDICT).exists()
        {
            return Self::ended(dir, now, &manifest);
        }
        let mut judge = manifest.judge();
        let mut intervals = Intervals::open(dir, &manifest)?;
        let last = LastInterval::read(&mut intervals, &mut judge)?;
        let verdict = judge.verdict(&End::Unrecorded);
        let mut this = Self::new(dir, &manifest, &verdict, last, now);
        this.cpu_wait_share = judge.cpu_wait_share();
        this.remarks.extend(intervals.damage().map(str::to_owned));
        if manifest.process.is_none() {
            this.remarks.push(
                "the manifest names no process: this status is from the files alone".to_owned(),
            );
        }
        this.seen = process_state;
        this.phase = this.phase_now(&manifest, process_state);
        if this.phase.is_over() {
            // No more data will come, so damage counts, as in a report.
            return Ok(Self {
                phase: this.phase,
                seen: process_state,
                ..Self::ended(dir, now, &manifest)?
            });
        }
        if !this.simulated && this.phase.is_running() {
            this.ends_unix_ms = this.left_sec().map(|left_sec| {
                manifest
                    .started_unix_ms
                    .saturating_add(((this.elapsed_sec + left_sec) * 1e3) as u64)
            });
        }
        Ok(this)
    }

    fn ended(dir: &Path, now: SystemTime, manifest: &Manifest) -> Result<Self, RunDirError> {
        let run = run_dir::read(dir)?;
        let mut judge = manifest.judge();
        let mut intervals = Intervals::open(dir, manifest)?;
        let last = LastInterval::read(&mut intervals, &mut judge)?;
        let mut this = Self::new(dir, manifest, &run.verdict, last, now);
        this.cpu_wait_share = judge.cpu_wait_share();
        this.phase = RunPhase::Ended;
        this.remarks.extend(run.remarks);
        this.current = None;
        this.last_interval_iops.clear();
        Ok(this)
    }

    fn new(
        dir: &Path,
        manifest: &Manifest,
        verdict: &Verdict,
        last: LastInterval,
        now: SystemTime,
    ) -> Self {
        let layout = manifest.layout();
        let devices = layout.devices.len().max(1);
        let (p99_ns, remarks) = p99(dir, &layout);
        let operation_streams = layout
            .streams
            .iter()
            .zip(&verdict.streams)
            .filter(|(info, _)| !info.commits);
        let done_ops = operation_streams
            .clone()
            .map(|(_, total)| total.ops + total.errors)
            .sum();
        Self {
            dir: dir.to_owned(),
            test: manifest.kind(),
            devices: manifest.devices.clone(),
            simulated: manifest.simulated,
            purpose: manifest.purpose.clone(),
            phase: RunPhase::Unknown,
            seen: None,
            pid: manifest.process.as_ref().map(|process| process.pid),
            elapsed_sec: verdict.ran_sec,
            duration_sec: manifest.duration_sec,
            operations: manifest.operations,
            operations_done: done_ops,
            ends_unix_ms: None,
            recorded_ago_sec: recorded_ago_sec(dir, now),
            last_interval_iops: last
                .cells
                .chunks(devices)
                .map(|stream: &[CellCounts]| {
                    let ops: u64 = stream
                        .iter()
                        .map(|cell| cell.ops.saturating_sub(cell.overtime))
                        .sum();
                    if last.length_sec > 0.0 {
                        ops as f64 / last.length_sec
                    } else {
                        0.0
                    }
                })
                .collect(),
            sla: manifest.sla.to_string(),
            thresholds: manifest
                .sla
                .limits()
                .iter()
                .map(|limit| limit.threshold_text())
                .collect(),
            current: current(verdict, manifest),
            worst: verdict
                .decided_by
                .clone()
                .filter(|_| !verdict.has_no_limits()),
            cpu_wait_share: None,
            p99_ns,
            errors: operation_streams.map(|(_, total)| total.errors).sum(),
            temperatures: last.temperatures,
            result: verdict.result(),
            remarks,
        }
    }

    /// Phase of a run without a verdict.
    fn phase_now(&self, manifest: &Manifest, process_state: Option<ProcessState>) -> RunPhase {
        let hung_sec =
            (manifest.report_interval_sec.saturating_mul(HUNG_INTERVALS) + HUNG_SEC) as f64;
        let fresh = self.recorded_ago_sec.is_some_and(|ago| ago < hung_sec);
        match process_state {
            Some(ProcessState::Stopped) => RunPhase::Stopped,
            Some(ProcessState::Gone) => RunPhase::Killed,
            // In another container, or on another machine that shares the directory, the process can still run: then
            // its files grow. Waiting one interval shows if they do.
            Some(ProcessState::Elsewhere)
                if self
                    .recorded_ago_sec
                    .is_some_and(|ago| ago > manifest.report_interval_sec as f64 + 2.0) =>
            {
                RunPhase::Killed
            }
            Some(ProcessState::Elsewhere) => RunPhase::Gone,
            _ if fresh && self.elapsed_sec >= manifest.duration_sec as f64 => RunPhase::Ending,
            _ if fresh && self.elapsed_sec == 0.0 => RunPhase::Beginning,
            _ if fresh => RunPhase::Running,
            Some(ProcessState::Running) => RunPhase::Hung,
            _ => RunPhase::Unknown,
        }
    }

    /// Exit code of the verdict; 0 while the run continues.
    pub(super) fn exit_code(&self) -> u8 {
        if self.phase.is_running() {
            0
        } else {
            self.result.exit_code
        }
    }

    /// Seconds until the end of the run; `None` if too few operations are done to estimate it.
    pub(super) fn left_sec(&self) -> Option<f64> {
        let most = (self.duration_sec as f64 - self.elapsed_sec).max(0.0);
        match self.operations {
            None => Some(most),
            Some(all) => {
                time_left(all, self.operations_done, self.elapsed_sec).map(|sec| sec.min(most))
            }
        }
    }
}

/// Seconds since telemetry.csv was written, by the clock of its file system; `None` without this file.
fn recorded_ago_sec(dir: &Path, now: SystemTime) -> Option<f64> {
    let written = fs::metadata(dir.join(TELEMETRY))
        .and_then(|of| of.modified())
        .ok()?;
    Some(unix_ms(now).saturating_sub(unix_ms(written)) as f64 / 1000.0)
}

#[derive(Default)]
struct LastInterval {
    length_sec: f64,
    /// Empty before the first interval.
    cells: Vec<CellCounts>,
    temperatures: Vec<Temperature>,
}

impl LastInterval {
    fn read(intervals: &mut Intervals, judge: &mut Judge) -> Result<Self, RunDirError> {
        let columns = intervals.columns().to_vec();
        let mut this = Self::default();
        let mut from_ns = 0;
        let mut telemetry = Vec::new();
        while let Some(record) = intervals.next()? {
            judge.add_counts(&record.counts);
            this.length_sec = record.counts.end_ns.saturating_sub(from_ns) as f64 / 1e9;
            from_ns = record.counts.end_ns;
            this.cells.clone_from(&record.counts.cells);
            telemetry.clone_from(&record.telemetry);
        }
        let celsius = columns.iter().zip(&telemetry).filter_map(|(column, text)| {
            let known = ColumnOf::parse(column).filter(|known| known.column == Column::Celsius)?;
            Some(Temperature {
                device: known.owner,
                celsius: text.parse().ok()?,
            })
        });
        this.temperatures = celsius.collect();
        Ok(this)
    }
}

/// Shares in the unfinished slice, of the group that is nearest to a limit.
fn current(verdict: &Verdict, manifest: &Manifest) -> Option<CurrentShares> {
    let limits = manifest.sla.limits();
    let groups = verdict.groups.iter().filter(|_| !verdict.has_no_limits());
    let newest = groups.filter_map(|group| {
        let slice = group.slices.last().filter(|slice| !slice.complete)?;
        Some((group, slice, slice.judged_share.clone()?))
    });
    let nearest = newest.max_by(|(_, _, a), (_, _, b)| {
        share_of_limit(a, limits).total_cmp(&share_of_limit(b, limits))
    });
    nearest.map(|(group, slice, shares)| CurrentShares {
        slice: slice.slice,
        stream: group.stream.clone(),
        device: group.device.clone(),
        shares,
    })
}

/// The largest ratio of a share to its limit.
fn share_of_limit(shares: &[f64], limits: &[Limit]) -> f64 {
    shares
        .iter()
        .zip(limits)
        .map(|(share, limit)| share / limit.share_max())
        .fold(0.0, f64::max)
}

/// 99th percentile of service times in the newest window, by judged stream over all devices; and remarks.
fn p99(dir: &Path, layout: &Layout) -> (Vec<(String, u64)>, Vec<String>) {
    let windows = match last_windows(dir, layout, HlogKind::Service) {
        Ok(windows) => windows,
        Err(error) => {
            return (
                Vec::new(),
                vec![format!("no quantiles of latencies: {error}")],
            );
        }
    };
    let mut streams = vec![results::cell::latencies(); layout.streams.len()];
    windows
        .iter()
        .for_each(|window| add_window(&mut streams, layout, window));
    let judged = layout
        .streams
        .iter()
        .zip(&streams)
        .filter(|(stream, all)| stream.judged && !all.is_empty());
    (
        judged
            .map(|(stream, all)| (stream.name.clone(), all.value_at_quantile(0.99)))
            .collect(),
        Vec::new(),
    )
}
