//! Fits a simulated drive to a real one: its parameters from the points of a baseline.
//!
//! ```text
//! points -> first estimates of the drive's parameters              first.rs
//!        -> run the points' jobs on a simulated drive of each      points.rs, load::model_job
//!        -> take the best estimate, and vary its parameters one by one until no change improves the fit
//!        -> vary each parameter until the fit is clearly worse: the parameter's interval
//! ```
//! Stalls too rare for short jobs are not fitted: a watch, the baseline's long job at a light load, has measured these
//! stalls ([`RecurringStalls`]). Jobs that met a stall are compared only by values that a stall does not affect.
//!
//! The one idea: any model that reproduces the points may represent the drive, because the model is used only between
//! these points. A parameter that no point determines gets an open interval.

mod first;
mod points;

use conclusions::baseline::{Estimate, JobPurpose, Parameter, Point, RecurringStalls};
use conclusions::percentile::BEYOND_COMPARED;
use engine::sim::DriveSpec;
use load::model_job::{JobResults, ModelJob, PERCENTS};
use points::{job_of, measured};
use results::format;
use std::ops::RangeInclusive;

/// A parameter of the queueing model.
struct ParameterKind {
    /// Name in a `sim:` description.
    name: &'static str,
    is_integer: bool,
    /// The ends of the range. At the fast end, the parameter does not limit the drive.
    slowest: f64,
    fastest: f64,
}

const fn kind(name: &'static str, is_integer: bool, slowest: f64, fastest: f64) -> ParameterKind {
    ParameterKind {
        name,
        is_integer,
        slowest,
        fastest,
    }
}

impl ParameterKind {
    fn range(&self) -> RangeInclusive<f64> {
        self.slowest.min(self.fastest)..=self.slowest.max(self.fastest)
    }
}

const COUNT: usize = 11;

/// A value for each of [`KINDS`]; 0: the drive has no such property.
type Values = [f64; COUNT];

const KINDS: [ParameterKind; COUNT] = [
    kind("channels", true, 1.0, 4096.0),
    kind("read-us", false, 1e7, 1e-3),
    kind("write-us", false, 1e7, 1e-3),
    kind("read-mbps", false, 1e-3, 1e6),
    kind("write-mbps", false, 1e-3, 1e6),
    kind("read-iops", true, 1.0, 1e9),
    kind("write-iops", true, 1.0, 1e9),
    kind("window-ms", false, 1e5, 1e-3),
    kind("jitter-pct", true, 100.0, 1.0),
    kind("stall-ms", false, 1e5, 1e-3),
    kind("stall-every-s", false, 1e-3, 1e6),
];

const CHANNELS: usize = 0;
const READ: usize = 1;
const WRITE: usize = 2;
const WINDOW: usize = 7;
const JITTER: usize = 8;
const STALL_MS: usize = 9;
const STALL_EVERY: usize = 10;

/// Indices of a direction's parameters.
struct OfWay {
    us: usize,
    mbps: usize,
    iops: usize,
}

const WAY: [OfWay; 2] = [
    OfWay {
        us: READ,
        mbps: 3,
        iops: 5,
    },
    OfWay {
        us: WRITE,
        mbps: 4,
        iops: 6,
    },
];

/// Minimum capacity, so that every job fits.
const CAPACITY_MIN: u64 = 8 << 30;

/// Below this fraction of the offered rate a point is not compared: its backlog grows without end.
const DONE_OF_OFFERED: f64 = 0.97;

/// Expected deviation, as a fraction: IOPS, then times at [`PERCENTS`].
const IOPS_NEAR: f64 = 0.01;
const TIMES_NEAR: [f64; PERCENTS.len()] = [0.05, 0.01, 0.03, 0.06, 0.20];
/// Times are known to about a microsecond.
const RESOLUTION_US: f64 = 1.0;

/// Resolution of the latency histograms, as a fraction: all percentiles of a distribution may be off by this fraction.
const STEP_OF_TIMES: f64 = 0.01;

/// Steps of the search, as fractions of a parameter.
const STEP_ROUGH: f64 = 0.2;
const STEP_FINE: f64 = 0.005;
/// More points would take too long; a baseline has some 100.
const POINTS_MAX: usize = 1_000;

/// Number of best starting points for the rough search. The fine search begins at the best result of the rough search.
const STARTS: usize = 2;
/// Maximum number of drives that one search compares with all points.
const LOOKS_MAX: usize = 120;

/// The fit misses a point if the rate is off by more than this fraction.
const MISS_IOPS: f64 = 0.15;
/// The fit misses a point if a time is off by more than this factor and by more than [`MISS_US`] microseconds.
const MISS_FACTOR: f64 = 2.0;
const MISS_US: f64 = 250.0;
/// If more than this fraction of the points is missed, the fit does not describe the drive.
const MISSED_MAX: f64 = 0.25;

/// Of a closed loop that met a stall, only lower percentiles than this are compared. The rate is not compared.
const UNSTALLED_PERCENT: f64 = 99.0;
/// A job met a stall if an operation took longer than the median by this fraction of a stall's length.
const STALL_MET: f64 = 0.2;
/// A job that lasted this many stall periods certainly met a stall.
const STALLS_SURE: f64 = 2.0;

/// A simulated drive, and the stalls that a watch has measured.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedDrive {
    /// Device name without the measured stalls: `sim:...`.
    pub steady: String,
    /// Length of a stall, milliseconds, and period of the stalls, seconds.
    pub stalls: Option<(f64, f64)>,
}

/// The drive with its stalls, as a device argument names it.
impl std::fmt::Display for FittedDrive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.steady)?;
        match self.stalls {
            Some((ms, every_s)) => write!(
                f,
                "+stall-ms={}+stall-every-s={}",
                rounded(ms),
                rounded(every_s)
            ),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The best fit.
    pub nearest: FittedDrive,
    /// The drive with all parameters at the slow ends of their intervals.
    pub slow: FittedDrive,
    /// The drive with all parameters at the fast ends.
    pub fast: FittedDrive,
    pub parameters: Vec<Parameter>,
    /// Number of points that were fitted.
    pub points: usize,
    /// Median deviation from the points, percent. Rates, median latencies and 99th percentiles are compared.
    pub error_pct: f64,
    /// Points that the fit misses, a sentence each, the worst first.
    pub misses: Vec<String>,
    /// True if the misses are so many that the fit does not describe the drive.
    pub doubtful: bool,
}

/// Fits a drive of `capacity_bytes`, with smallest operations of `min_io_bytes` and with `stalls`, to `points`.
pub fn fit(
    points: &[Point],
    capacity_bytes: u64,
    min_io_bytes: u32,
    stalls: Option<&RecurringStalls>,
) -> Result<Fit, String> {
    let data: Vec<_> = points
        .iter()
        .filter_map(|point| ComparedPoint::from_point(point, stalls))
        .collect();
    if data.len() > POINTS_MAX {
        return Err(format!(
            "{} are too many for a fit, which uses at most {}",
            format::count(data.len() as u64, "point"),
            format::number(POINTS_MAX as f64)
        ));
    }
    let starts = first::starts(&data, stalls.is_some());
    if starts.is_empty() {
        let all = format::count(points.len() as u64, "point");
        let usable = data.len();
        let mut doubts = points.iter().filter_map(|point| point.doubt.as_ref());
        return Err(match doubts.next() {
            Some(first) => format!(
                "{usable} of {all} can be compared with a simulated drive, {} are in doubt (the first because {}) - \
                 measure again on an idle machine",
                doubts.count() + 1,
                format::in_one_line(first)
            ),
            None => format!(
                "{usable} of {all} can be compared with a simulated drive - a fit needs closed loops of reads alone and of \
                 writes alone - measure both"
            ),
        });
    }
    let base = format!(
        "sim:capacity={}+min-io={min_io_bytes}",
        capacity_bytes.max(CAPACITY_MIN)
    );
    let search = Search {
        data: &data,
        base,
        stalls,
    };
    let mut starts: Vec<_> = starts
        .into_iter()
        .map(|values| (search.cost(&values), values))
        .collect();
    starts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let roughly = starts
        .into_iter()
        .take(STARTS)
        .map(|start| search.nearest(start, STEP_ROUGH, STEP_ROUGH / 4.0));
    let Some(rough) = roughly
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(cost, _)| cost.is_finite())
    else {
        return Err("no simulated drive fits the points - rate the drive itself".into());
    };
    let (cost, values) = search.nearest(rough, STEP_ROUGH / 8.0, STEP_FINE);
    Ok(search.conclude(cost, values))
}

struct ComparedPoint<'a> {
    point: &'a Point,
    job: ModelJob,
    measured: [Option<JobResults>; 2],
    /// The job met a stall that the simulated job does not meet.
    met_stall: bool,
}

impl<'a> ComparedPoint<'a> {
    fn from_point(point: &'a Point, stalls: Option<&RecurringStalls>) -> Option<Self> {
        let is_compared_part = matches!(
            point.part,
            JobPurpose::Depth | JobPurpose::Profile | JobPurpose::Rate | JobPurpose::Grid
        );
        let ways = [point.reads.as_ref(), point.writes.as_ref()];
        let is_usable = is_compared_part
            && point.doubt.is_none()
            && ways
                .into_iter()
                .flatten()
                .all(|done: &conclusions::baseline::DirectionResult| {
                    done.errors == 0
                        && done
                            .offered_iops
                            .is_none_or(|offered| done.iops >= DONE_OF_OFFERED * offered)
                });
        let job = job_of(point).filter(|_| is_usable)?;
        let measured = ways.map(|done| done.and_then(measured));
        let met_stall = stalls.is_some_and(|stalls| met_stall(point, stalls));
        // In an open loop everything behind a stall is late: the point says nothing about the drive without stalls.
        (!met_stall || job.is_closed()).then_some(Self {
            point,
            job,
            measured,
            met_stall,
        })
    }

    /// Logarithm of each simulated value divided by the measured value, with its expected deviation.
    fn compared(&self, simulated: &[Option<JobResults>; 2]) -> Vec<(f64, f64)> {
        let mut deviations = Vec::with_capacity(12);
        let by_direction = [&self.point.reads, &self.point.writes];
        let pairs = self.measured.iter().zip(simulated).zip(by_direction);
        for ((measured, simulated), done) in
            pairs.filter_map(|((a, b), done)| Some((a.as_ref().zip(b.as_ref())?, done.as_ref()?)))
        {
            if self.job.is_closed() && !self.met_stall {
                deviations.push(((simulated.iops / measured.iops).ln(), IOPS_NEAR));
            }
            let times = measured
                .times_us
                .iter()
                .zip(simulated.times_us)
                .zip(PERCENTS.into_iter().zip(TIMES_NEAR));
            let times =
                times.filter(|(_, (percent, _))| !self.met_stall || *percent < UNSTALLED_PERCENT);
            deviations.extend(
                times.filter_map(|((measured, simulated), (percent, deviation))| {
                    // A percentile with few operations beyond it has a larger random error.
                    let by_chance = (BEYOND_COMPARED / done.beyond(percent)).sqrt().max(1.0);
                    Some((
                        ((simulated? + RESOLUTION_US) / ((*measured)? + RESOLUTION_US)).ln(),
                        deviation * by_chance,
                    ))
                }),
            );
        }
        deviations
    }
}

fn met_stall(point: &Point, stalls: &RecurringStalls) -> bool {
    let ways = [&point.reads, &point.writes];
    let longest_us = ways
        .into_iter()
        .flatten()
        .filter_map(|done| {
            Some(done.answer.max_us.max(done.service.max_us) - done.answer_at(50.0).us()?)
        })
        .fold(0.0, f64::max);
    point.seconds >= STALLS_SURE * stalls.every_s.high
        || longest_us >= STALL_MET * stalls.ms.low * 1e3
}

struct Search<'a> {
    data: &'a [ComparedPoint<'a>],
    base: String,
    stalls: Option<&'a RecurringStalls>,
}

impl Search<'_> {
    fn text(&self, values: &Values) -> String {
        let mut text = self.base.clone();
        let has_limits = WAY
            .iter()
            .any(|way| values[way.mbps] > 0.0 || values[way.iops] > 0.0);
        for (index, (kind, value)) in KINDS.iter().zip(values).enumerate() {
            let is_set = match index {
                WINDOW => has_limits && *value > 0.0,
                STALL_MS | STALL_EVERY => values[STALL_MS] > 0.0 && values[STALL_EVERY] > 0.0,
                _ => *value > 0.0 || WAY.iter().any(|way| way.mbps == index) || index == JITTER,
            };
            if is_set {
                let value = if kind.is_integer {
                    value.round().to_string()
                } else {
                    rounded(*value)
                };
                text.push_str(&format!("+{}={value}", kind.name));
            }
        }
        text
    }

    /// Distance of a drive from the points; infinite for an invalid drive.
    fn cost(&self, values: &Values) -> f64 {
        let Ok(drive) = self.text(values).parse::<DriveSpec>() else {
            return f64::INFINITY;
        };
        self.data
            .iter()
            .map(|datum: &ComparedPoint<'_>| {
                let simulated = datum.job.run(&drive);
                // The drive is too slow to complete any operation of the job.
                if simulated == [None, None] {
                    return f64::INFINITY;
                }
                let compared = datum.compared(&simulated);
                // Quadratic for small deviations, linear for large ones: a single outlier must not dominate the fit.
                compared
                    .iter()
                    .map(|(off, near)| 2.0 * ((1.0 + (off / near).powi(2)).sqrt() - 1.0))
                    .sum::<f64>()
            })
            .sum()
    }

    /// Varies parameters one by one, by `step`, then by smaller steps down to `last`, until nothing reduces the cost.
    fn nearest(
        &self,
        (mut cost, mut values): (f64, Values),
        mut step: f64,
        last: f64,
    ) -> (f64, Values) {
        let mut looks = 0;
        while step >= last && looks < LOOKS_MAX {
            let before = cost;
            for index in 0..COUNT {
                for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                    while let Some(varied) =
                        varied(&values, index, factor).filter(|_| looks < LOOKS_MAX)
                    {
                        looks += 1;
                        let now = self.cost(&varied);
                        if now >= cost {
                            break;
                        }
                        (cost, values) = (now, varied);
                    }
                }
            }
            if cost > before * 0.999 {
                step /= 2.0;
            }
        }
        (cost, values)
    }

    /// The value between `values[index]` and `edge`, an end of the parameter's range, at which the fit becomes clearly
    /// worse; `None` if it does not become worse, even at the edge.
    fn end(&self, values: &Values, index: usize, worse: f64, edge: f64) -> Option<f64> {
        let mut good = values[index];
        let mut good_cost = self.cost(values);
        let mut step = 0.01;
        let at_edge = with(values, index, edge);
        if self.cost(&at_edge) < worse {
            return None;
        }
        loop {
            let factor = if edge > values[index] {
                1.0 + step
            } else {
                1.0 / (1.0 + step)
            };
            let varied = varied(values, index, factor).unwrap_or(at_edge);
            let cost = self.cost(&varied);
            if cost >= worse {
                let fraction = ((worse - good_cost) / (cost - good_cost)).clamp(0.0, 1.0);
                return Some(
                    good + (varied[index] - good) * if cost.is_finite() { fraction } else { 0.0 },
                );
            }
            (good, good_cost) = (varied[index], cost);
            step *= 2.0;
        }
    }

    /// Fraction by which the rate of a job may differ from the limit of a drive with windows: a job has the operations of
    /// up to one window too many or too few. In a closed loop, an operation waits for almost a whole window.
    fn window_fraction(&self) -> f64 {
        let closed = self
            .data
            .iter()
            .filter(|datum| datum.job.is_closed() && !datum.met_stall);
        closed
            .map(|datum: &ComparedPoint<'_>| {
                let longest_us = datum
                    .point
                    .directions()
                    .map(|done| done.answer.max_us)
                    .fold(0.0, f64::max);
                longest_us / 1e6 / datum.point.seconds.max(1.0)
            })
            .fold(0.0, f64::max)
    }

    fn conclude(&self, cost: f64, values: Values) -> Fit {
        let drive = self.text(&values).parse::<DriveSpec>().unwrap_or_default();
        let simulations: Vec<_> = self
            .data
            .iter()
            .map(|datum| (datum, datum.job.run(&drive)))
            .collect();
        let compared = simulations
            .iter()
            .flat_map(|(datum, shown)| datum.compared(shown));
        let (compared, tolerances): (Vec<f64>, Vec<f64>) = compared
            .map(|(off, near)| (off.abs(), (STEP_OF_TIMES / near).powi(2)))
            .unzip();
        // 95 % confidence, if the residuals are random: the cost rises by 4 times the variance of one observation.
        let free_parameters = values.iter().filter(|value| **value > 0.0).count();
        let variance = cost / compared.len().saturating_sub(free_parameters).max(1) as f64;
        // Histogram resolution shifts all numbers together, so more points do not reduce its error.
        let worse = cost + (4.0 * variance).max(tolerances.iter().sum());
        let window_factor = if values[WINDOW] > 0.0 {
            1.0 + self.window_fraction()
        } else {
            1.0
        };
        let mut slow = values;
        let mut fast = values;
        let mut parameters = Vec::new();
        for (index, kind) in KINDS
            .iter()
            .enumerate()
            .filter(|(place, _)| values[*place] > 0.0)
        {
            let mut ends =
                [kind.slowest, kind.fastest].map(|edge| self.end(&values, index, worse, edge));
            if WAY.iter().any(|way| way.mbps == index || way.iops == index) {
                let [slow_end, fast_end] = ends;
                ends = [
                    slow_end.map(|end| end.min(values[index] / window_factor)),
                    fast_end.map(|end| end.max(values[index] * window_factor)),
                ];
            }
            // A parameter without a bound gets the end of its range: the simulated hour shows if the parameter matters.
            slow[index] = ends[0].unwrap_or(kind.slowest);
            fast[index] = ends[1].unwrap_or(kind.fastest);
            let [slow_end, fast_end] = ends;
            let low_high = if kind.slowest < kind.fastest {
                [slow_end, fast_end]
            } else {
                [fast_end, slow_end]
            };
            parameters.push(parameter(
                kind.name,
                kind.is_integer,
                values[index],
                low_high,
            ));
        }
        let fitted = |values: &Values, stalls: Option<(f64, f64)>| FittedDrive {
            steady: self.text(values),
            stalls,
        };
        let mut stalls_of = [None; 3];
        if let Some(RecurringStalls { ms, every_s, .. }) = self.stalls {
            stalls_of = [
                (ms.value, every_s.value),
                (ms.high, every_s.low),
                (ms.low, every_s.high),
            ]
            .map(|(ms, every_s)| {
                every_s
                    .is_finite()
                    .then_some((ms, every_s.max(1.1 * ms / 1e3)))
            });
            for (name, Estimate { value, low, high }) in
                [("stall-ms", ms), ("stall-every-s", every_s)]
            {
                let ends = [*low, *high].map(|end| Some(end).filter(|end| end.is_finite()));
                parameters.push(parameter(name, false, *value, ends));
            }
        }
        let mut misses: Vec<_> = simulations
            .iter()
            .filter_map(|(datum, shown)| datum.miss(shown))
            .collect();
        misses.sort_by(|one, other| other.0.total_cmp(&one.0));
        Fit {
            nearest: fitted(&values, stalls_of[0]),
            slow: fitted(&slow, stalls_of[1]),
            fast: fitted(&fast, stalls_of[2]),
            parameters,
            points: self.data.len(),
            error_pct: median(compared) * 100.0,
            doubtful: misses.len() as f64 > MISSED_MAX * self.data.len() as f64,
            misses: misses.into_iter().map(|(_, sentence)| sentence).collect(),
        }
    }
}

impl ComparedPoint<'_> {
    /// The deviation and a sentence about it, if the fit misses the point.
    fn miss(&self, simulated: &[Option<JobResults>; 2]) -> Option<(f64, String)> {
        self.measured
            .iter()
            .zip(simulated)
            .enumerate()
            .filter_map(
                |(direction, (measured, simulated)): (
                    usize,
                    (&Option<JobResults>, &Option<JobResults>),
                )| {
                    let measured = measured.as_ref()?;
                    let simulated = simulated.as_ref()?;
                    let iops_error = if self.job.is_closed() && !self.met_stall {
                        (simulated.iops / measured.iops).ln().abs()
                    } else {
                        0.0
                    };
                    // The median and the 99th percentile, where both are known.
                    let compared: &[usize] = if self.met_stall { &[1] } else { &[1, 3] };
                    let times = compared
                        .iter()
                        .filter_map(|&at| measured.times_us[at].zip(simulated.times_us[at]));
                    let far_times =
                        times.filter(|(measured, shown)| (measured - shown).abs() > MISS_US);
                    let time_error = far_times
                        .map(|(measured, shown)| (shown / measured).ln().abs())
                        .fold(0.0, f64::max);
                    let worst = (iops_error / MISS_IOPS.ln_1p()).max(time_error / MISS_FACTOR.ln());
                    (worst > 1.0).then(|| {
                        let direction_name = ["reads", "writes"][direction];
                        (
                            worst,
                            format!(
                                "at {}, {direction_name}: measured {}; simulated {}",
                                format::in_one_line(&self.point.job),
                                format_results(measured),
                                format_results(simulated)
                            ),
                        )
                    })
                },
            )
            .max_by(|one, other| one.0.total_cmp(&other.0))
    }
}

fn format_results(results: &JobResults) -> String {
    let mut text = format!("{} per second", format::number(results.iops));
    for (name, at) in [("median", 1), ("99 % within", 3)] {
        if let Some(us) = results.times_us[at] {
            text += &format!(", {name} {}", format::duration((us * 1e3) as u64));
        }
    }
    text
}

/// `values` with one parameter multiplied by `factor`; `None` if the parameter is absent or leaves its range.
fn varied(values: &Values, index: usize, factor: f64) -> Option<Values> {
    let kind = &KINDS[index];
    let value = values[index];
    let mut new_value = value * factor;
    if kind.is_integer {
        new_value = if factor > 1.0 {
            new_value.round().max(value + 1.0)
        } else {
            new_value.round().min(value - 1.0)
        };
    }
    (value > 0.0 && kind.range().contains(&new_value)).then(|| with(values, index, new_value))
}

fn with(values: &Values, index: usize, value: f64) -> Values {
    let mut values = *values;
    values[index] = value;
    values
}

/// The nearest values that a drive can have.
fn normal(values: &Values) -> Values {
    std::array::from_fn(|index: usize| {
        let kind = &KINDS[index];
        let value = values[index];
        let value = if kind.is_integer {
            value.round()
        } else {
            value
        };
        if values[index] > 0.0 {
            value.clamp(*kind.range().start(), *kind.range().end())
        } else {
            0.0
        }
    })
}

/// A parameter with the ends of its interval, rounded as they are printed.
fn parameter(name: &str, is_integer: bool, value: f64, ends: [Option<f64>; 2]) -> Parameter {
    let [low, high] = ends.map(|end| end.map(|end| as_printed(end, is_integer)));
    Parameter {
        name: name.to_owned(),
        value: as_printed(value, is_integer),
        low,
        high,
    }
}

fn as_printed(value: f64, is_integer: bool) -> f64 {
    if is_integer {
        value.round()
    } else {
        rounded(value).parse().unwrap_or(value)
    }
}

/// Rounds a number above 0 to four significant digits.
fn rounded(value: f64) -> String {
    let decimals = (3 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.decimals$}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
