//! The rounds of a run: intervals combined to a series of values for each metric.
//!
//! The intervals come from a live run or a run directory. Percentiles need histograms: a live run has them per
//! interval, a run directory per window, and a round is a whole number of windows.

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::{Interval, Latencies, cells_of, latencies};
use crate::counts::{Backlog, CellCounts};
use crate::format::ThresholdText;
use crate::judge::{IntervalCounts, Shortfall, Sla, shortfall};
use crate::run_dir::{HlogKind, Intervals, Manifest, RunDirError, each_window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

const NS_PER_SEC: u64 = 1_000_000_000;
/// Tolerance for the start of a window, which is recorded with three decimals.
const TOLERANCE_SEC: f64 = 0.01;

/// Metric of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "what")]
#[schemars(rename = "Metric")]
pub enum RoundMetric {
    /// The share of operations whose `wait + service` was over a threshold, a fraction.
    ShareOver {
        /// The threshold, nanoseconds.
        threshold_ns: u64,
    },
    /// The 99th percentile of service times, nanoseconds.
    P99,
    /// Successful operations per second.
    AchievedIops,
}

impl fmt::Display for RoundMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShareOver { threshold_ns } => {
                write!(f, "share over {:#}", ThresholdText(*threshold_ns))
            }
            Self::P99 => f.write_str("p99 of service times"),
            Self::AchievedIops => f.write_str("achieved rate"),
        }
    }
}

/// A judged stream on a device, or on all devices together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SteadyGroup")]
pub struct Group {
    /// Name of the judged stream.
    pub stream: String,
    /// The device; `None` for all devices together.
    pub device: Option<String>,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{} on {device}", self.stream),
            None => write!(f, "{} on all devices", self.stream),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Round {
    pub scheduled_ops: u64,
    pub achieved_iops: f64,
    /// For each threshold: operations whose `wait + service` was over the threshold.
    pub judged_over: [u64; THRESHOLDS_MAX],
    /// Lower bound of `judged_over`: without delays that this program may have caused.
    pub judged_over_lower_bound: [u64; THRESHOLDS_MAX],
    /// For each threshold: operations whose `wait + lag + service` was over the threshold.
    pub response_over: [u64; THRESHOLDS_MAX],
    /// The 99th percentile of service times, nanoseconds; `None` if nothing succeeded or no histogram could be read.
    pub p99_ns: Option<u64>,
}

/// The rounds of a judged stream on a device, or on all devices together.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundSeries {
    pub group: Group,
    /// Oldest first; whole rounds only.
    pub rounds: Vec<Round>,
    /// For each limit: slow spells up to the latest interval.
    pub spells: Vec<Spells>,
    stream: usize,
    device: Option<usize>,
}

impl RoundSeries {
    /// The value of a metric in each round; `None` if it could not be measured.
    pub fn values(&self, metric: RoundMetric, sla: &Sla) -> Vec<Option<f64>> {
        self.rounds
            .iter()
            .map(|round| metric.value_in(round, sla))
            .collect()
    }
}

impl RoundMetric {
    pub fn value_in(self, round: &Round, sla: &Sla) -> Option<f64> {
        match self {
            Self::ShareOver { threshold_ns } => {
                let index = sla
                    .limits()
                    .iter()
                    .position(|limit| limit.threshold_ns == threshold_ns)?;
                (round.scheduled_ops > 0)
                    .then(|| round.judged_over[index] as f64 / round.scheduled_ops as f64)
            }
            Self::P99 => round.p99_ns.map(|ns| ns as f64),
            Self::AchievedIops => Some(round.achieved_iops),
        }
    }
}

/// Slow spells of a series at a limit: consecutive report intervals whose share reaches the limit, by stalls or
/// noticeable garbage collection. The share in a window represents a drive only if the window has several spells.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spells {
    pub count: u64,
    /// Time from the start of the run to the start of the first spell, seconds; 0 without spells.
    pub first_sec: f64,
    /// Longest time from the start of a spell to the start of the next spell, seconds; 0 for fewer than two spells.
    pub apart_sec: f64,
    /// End of the first interval of the latest spell, nanoseconds.
    #[serde(skip)]
    began_ns: u64,
    #[serde(skip)]
    is_slow: bool,
}

impl Spells {
    /// Adds the interval that ended at `end_ns`. `is_slow`: the share in the interval reached the limit.
    pub(super) fn add(&mut self, end_ns: u64, is_slow: bool) {
        if is_slow && !self.is_slow {
            let after_sec = end_ns.saturating_sub(self.began_ns) as f64 / NS_PER_SEC as f64;
            match self.count {
                0 => self.first_sec = after_sec,
                _ => self.apart_sec = self.apart_sec.max(after_sec),
            }
            self.count += 1;
            self.began_ns = end_ns;
        }
        self.is_slow = is_slow;
    }

    /// The longest time from the start of the run, or of a spell, to the start of the next spell, seconds.
    pub fn longest_wait_sec(&self) -> f64 {
        self.first_sec.max(self.apart_sec)
    }

    /// True if there was exactly one spell, which has ended: the period of such spells is unknown.
    pub fn is_lone(&self) -> bool {
        self.count == 1 && !self.is_slow
    }

    /// True if the first spell still lasts, and began less than `sec` seconds before `now_sec`.
    pub fn has_just_begun(&self, now_sec: f64, sec: f64) -> bool {
        self.count == 1 && self.is_slow && now_sec - self.first_sec < sec
    }

    /// For each field, the worse value of `self` and `other`: the larger number, the longer times.
    pub fn worse_of(self, other: Self) -> Self {
        Self {
            count: self.count.max(other.count),
            first_sec: self.first_sec.max(other.first_sec),
            apart_sec: self.apart_sec.max(other.apart_sec),
            ..self
        }
    }
}

#[derive(Debug, Clone)]
struct StreamRounds {
    group: Group,
    cell: usize,
    per_sec: f64,
    /// For each round: the number of operations that came due, and the backlog at the end of the round.
    rounds: Vec<(u64, Backlog)>,
    done_ops: u64,
    backlog: Backlog,
}

#[derive(Debug, Clone)]
pub struct Rounds {
    pub sla: Sla,
    pub round_sec: u64,
    devices: usize,
    /// For each judged stream: with several devices, a series for all of them; then a series for each device.
    pub series: Vec<RoundSeries>,
    /// For each series: the data of the current round so far.
    current: Vec<(CellCounts, Latencies)>,
    /// A load for each device and each stream with a rate, judged or not.
    loads: Vec<StreamRounds>,
    counts: IntervalCounts,
}

impl Rounds {
    pub fn new(manifest: &Manifest) -> Self {
        let devices = &manifest.devices;
        let judged = manifest
            .streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.judged);
        let series: Vec<_> = judged
            .flat_map(|(stream, info)| {
                let all = (devices.len() > 1).then_some(None);
                let each = all.into_iter().chain((0..devices.len()).map(Some));
                each.map(move |device| RoundSeries {
                    group: Group {
                        stream: info.name.clone(),
                        device: device.map(|device| devices[device].clone()),
                    },
                    rounds: Vec::new(),
                    spells: vec![Spells::default(); manifest.sla.limits().len()],
                    stream,
                    device,
                })
            })
            .collect();
        Self {
            sla: manifest.sla.clone(),
            round_sec: manifest.round_sec.max(1),
            devices: devices.len(),
            current: series
                .iter()
                .map(|_| (CellCounts::default(), latencies()))
                .collect(),
            series,
            loads: (0..manifest.layout().cells())
                .filter_map(|cell: usize| {
                    let stream = &manifest.streams[cell / devices.len()];
                    let device = &devices[cell % devices.len()];
                    (stream.offered_iops > 0.0).then(|| StreamRounds {
                        group: Group {
                            stream: stream.name.clone(),
                            device: Some(device.clone()),
                        },
                        cell,
                        per_sec: stream.offered_iops / devices.len() as f64,
                        rounds: Vec::new(),
                        done_ops: 0,
                        backlog: Backlog::default(),
                    })
                })
                .collect(),
            counts: IntervalCounts::default(),
        }
    }

    /// The complete rounds of the run in `dir`, which may still be running. Damaged tables are read up to the damage;
    /// without readable interval logs there are no percentiles. Errors: the tables cannot be read at all.
    pub fn read(dir: &Path, manifest: &Manifest) -> Result<Self, RunDirError> {
        let mut rounds = Self::new(manifest);
        let mut intervals = Intervals::open(dir, manifest)?;
        while let Some(record) = intervals.next()? {
            rounds.add_counts(&record.counts);
            rounds.end_round(record.counts.end_ns);
        }
        // Percentiles read before an error cover whole windows, so they are valid.
        let _ = rounds.read_percentiles(dir, manifest);
        Ok(rounds)
    }

    /// Adds an interval of a live run; true if it completes a round.
    pub fn add(&mut self, interval: &Interval) -> bool {
        let mut counts = std::mem::take(&mut self.counts);
        counts.set(interval, self.sla.tightest_ns());
        self.add_counts(&counts);
        self.counts = counts;
        for (series, (_, service)) in self.series.iter().zip(&mut self.current) {
            let cells = &interval.cells[cells_of(series.stream, series.device, self.devices)];
            for cell in cells.iter().filter(|cell| cell.counts.ops > 0) {
                service
                    .add(&cell.service)
                    .expect("histograms of one run have equal bounds");
            }
        }
        self.end_round(interval.end_ns)
    }

    fn add_counts(&mut self, counts: &IntervalCounts) {
        for (series, (sum, _)) in self.series.iter_mut().zip(&mut self.current) {
            let mut interval = CellCounts::default();
            cells_of(series.stream, series.device, self.devices)
                .for_each(|cell| interval.add(&counts.cells[cell]));
            for (index, (limit, spells)) in
                self.sla.limits().iter().zip(&mut series.spells).enumerate()
            {
                spells.add(
                    counts.end_ns,
                    limit.is_exceeded(
                        interval.judged_over_lower_bound[index],
                        interval.counted_ops(),
                    ),
                );
            }
            sum.add(&interval);
        }
        for load in &mut self.loads {
            let cell = &counts.cells[load.cell];
            load.done_ops = load.done_ops.saturating_add(cell.counted_ops());
            load.backlog = cell.backlog;
        }
    }

    /// Ends the current round if the round is complete at `end_ns`; returns true if it is.
    fn end_round(&mut self, end_ns: u64) -> bool {
        let round_ns = self.round_sec.saturating_mul(NS_PER_SEC);
        if end_ns < round_ns.saturating_mul(self.count() as u64 + 1) {
            return false;
        }
        for (series, (sum, service)) in self.series.iter_mut().zip(&mut self.current) {
            let p99_ns = (!service.is_empty()).then(|| service.value_at_quantile(0.99));
            let achieved_iops = sum.ops as f64 / self.round_sec as f64;
            series.rounds.push(Round {
                scheduled_ops: sum.counted_ops(),
                achieved_iops,
                judged_over: sum.judged_over,
                judged_over_lower_bound: sum.judged_over_lower_bound,
                response_over: sum.response_over,
                p99_ns,
            });
            *sum = CellCounts::default();
            service.reset();
        }
        for load in &mut self.loads {
            let before = load.rounds.last().map_or(0, |(_, backlog)| backlog.total());
            let scheduled = std::mem::take(&mut load.done_ops)
                .saturating_add(load.backlog.total())
                .saturating_sub(before);
            load.rounds.push((scheduled, load.backlog));
        }
        true
    }

    fn read_percentiles(&mut self, dir: &Path, manifest: &Manifest) -> Result<(), RunDirError> {
        let round_sec = self.round_sec as f64;
        let devices = self.devices;
        let mut under_way = 0;
        let current = &mut self.current;
        current.iter_mut().for_each(|(_, service)| service.reset());
        let read = each_window(dir, &manifest.layout(), HlogKind::Service, |window| {
            let round = ((window.from_sec + TOLERANCE_SEC) / round_sec) as usize;
            if round != under_way {
                close(&mut self.series, current, under_way);
                under_way = round;
            }
            for (series, (_, service)) in self.series.iter().zip(current.iter_mut()) {
                if cells_of(series.stream, series.device, devices).contains(&window.cell) {
                    // `add` fails if a log of another program contains a duration above `DURATION_MAX_NS`: the window
                    // is left out.
                    let _ = service.add(&window.histogram);
                }
            }
        });
        close(&mut self.series, current, under_way);
        read
    }

    /// A stream, judged or not, that has overdue operations after the last `count` rounds. A stream delayed by the
    /// device or a limit is preferred to a stream delayed by this program.
    pub fn undone(&self, count: usize) -> Option<(&Group, Shortfall)> {
        let undone = self.loads.iter().filter_map(|load| {
            let last = &load.rounds[load.rounds.len().saturating_sub(count)..];
            let scheduled = last
                .iter()
                .map(|(scheduled, _)| scheduled)
                .fold(0, |sum: u64, scheduled| sum.saturating_add(*scheduled));
            Some((
                &load.group,
                shortfall(scheduled, &last.last()?.1, load.per_sec)?,
            ))
        });
        undone.min_by_key(|(_, found)| found.is_own_delay)
    }

    pub fn count(&self) -> usize {
        self.series.first().map_or(0, |series| series.rounds.len())
    }
}

/// Sets the percentiles of round number `round` from the collected histograms, and clears the histograms.
fn close(series: &mut [RoundSeries], current: &mut [(CellCounts, Latencies)], round: usize) {
    for (series, (_, service)) in series.iter_mut().zip(current) {
        if let Some(round) = series.rounds.get_mut(round).filter(|_| !service.is_empty()) {
            round.p99_ns = Some(service.value_at_quantile(0.99));
        }
        service.reset();
    }
}
