//! A prediction: the rating of a simulated drive fitted to a real one, or why there is none.
//!
//! ```text
//! series.json -> points of each drive -> observations of its watch: stalls, drift
//!             -> crate::commands::rate::predict::fit -> drive.sim, and a drive at each end of the uncertainty
//!             -> the highest load that each holds for an hour  hour.rs
//!             -> conclusion.details.prediction, and a page
//! ```
//! A prediction has an interval that contains the true rating. If the interval would be too wide, or the simulated
//! drive differs from the real one, there is no prediction, and the reason is named.

mod fit;
mod hour;
pub mod options;
pub mod run;

use crate::commands::baseline::plan::BaselineRequest;
use crate::commands::rate::predict::fit::{Fit, fit};
use crate::series::SeriesDir;
use clap::Args;
use conclusions::baseline::{
    Declined, DeclinedBy, DirectionResult, JobPurpose, PAUSES_MIN, Point, Prediction,
    RecurringStalls, Watch, points_of,
};
use conclusions::rate::three_digits;
use conclusions::series::{DriveIdentity, SeriesPurpose};
use hour::HourSearch;
use results::judge::Sla;
use results::{files, format};
use serde_json::json;
use session::console;
use session::failure::Failure;
use session::signals::SignalHandler;
use session::user_file::{is_ours, write_file};
use std::convert::identity;
use std::path::{Path, PathBuf};

/// The load whose rating is predicted.
#[derive(Args, Debug, Clone)]
pub struct PredictedLoad {
    /// Configuration (of any ACT version) that defines the load of 1x [default: ACT's, 2000 reads and 1000 writes per
    /// second]
    #[arg(long, value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Latency limits of a load that is held: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::requested)]
    pub sla: Sla,
    /// Pace and distribute operations as ACT 6 does (arrival: act)
    #[arg(long)]
    pub as_act: bool,
}

/// Smallest operation of the simulated drive, bytes; a series does not record the value of the real drive.
const MIN_IO_BYTES: u32 = 512;

/// Margin at both ends of an interval, percent. A search finds up to 2 % less than the true rating, on the simulated
/// and on the real drive. For a drive whose times vary by 100 %, the true rating was up to 3 % beyond the ratings of
/// the two end drives.
const MARGIN_PCT: f64 = 5.0;
/// Maximum ratio of an interval's ends; a wider interval says nothing.
const WIDEST: f64 = 2.0;

/// Predicts each drive of the baseline in `dir`; `None`: interrupted. Writes the simulated drives and the predictions
/// into the directory; with `force`, also over files that flashproof did not write.
/// Errors: there is no baseline, or too few points of a drive.
pub fn predict(
    dir: &Path,
    load: &PredictedLoad,
    force: bool,
    signal_handler: &SignalHandler,
) -> Result<Option<Vec<Prediction>>, Failure> {
    let mut series_dir = SeriesDir::open_existing(dir)?;
    if series_dir.series.purpose != SeriesPurpose::Baseline {
        return Err(Failure::usage(format!(
            "cannot predict from {} - it is not a baseline - create one with \"flashproof baseline\"",
            dir.display()
        )));
    }
    let mut predictions = Vec::new();
    let devices = &series_dir.series.devices;
    let paths = simulated_paths(&series_dir);
    for path in &paths {
        write_simulated(path, None, force)?;
    }
    for (number, (device, path)) in devices.iter().zip(&paths).enumerate() {
        let points = points_of(&series_dir.series, number);
        console::note(&format!(
            "fitting a simulated drive to the behaviour of {} in {}",
            device.name,
            format::count(points.len() as u64, "point")
        ));
        let Some(prediction) = of_drive(device, &points, load, signal_handler)? else {
            return Ok(None);
        };
        match &prediction.simulated {
            Some(simulated) => write_simulated(path, Some(&format!("{simulated}\n")), force)?,
            // A file from an earlier prediction no longer describes the drive.
            None if is_replaceable(path, force) => drop(files::remove_file(path)),
            None => {}
        }
        predictions.push(prediction);
    }
    if let Some(conclusion) = &mut series_dir.series.conclusion {
        if !conclusion.details.is_object() {
            conclusion.details = json!({});
        }
        conclusion.details["prediction"] = json!(predictions);
        series_dir.save()?;
        series_dir.write_report();
    }
    Ok(Some(predictions))
}

fn simulated_paths(series_dir: &SeriesDir) -> Vec<PathBuf> {
    let dir = &series_dir.dir;
    match series_dir.series.devices.len() {
        1 => vec![dir.join("drive.sim")],
        drives => (1..=drives)
            .map(|number| dir.join(format!("drive-{number}.sim")))
            .collect(),
    }
}

/// Writes `text` as a simulated drive to `path`; `None`: only checks.
fn write_simulated(path: &Path, text: Option<&str>, force: bool) -> Result<(), Failure> {
    write_file("simulated drive", path, text, is_replaceable(path, force))
}

fn is_replaceable(path: &Path, force: bool) -> bool {
    force || is_ours(path, |text| text.starts_with("sim:"))
}

/// The prediction for a drive; `None`: interrupted.
fn of_drive(
    device: &DriveIdentity,
    points: &[Point],
    load: &PredictedLoad,
    signal_handler: &SignalHandler,
) -> Result<Option<Prediction>, Failure> {
    let in_doubt = points.iter().filter(|point| point.doubt.is_some()).count() as u64;
    let observations = Observations::from_points(points);
    let blank = Prediction {
        device: device.name.clone(),
        unknown: observations.unknown(device),
        in_doubt,
        load: load
            .config
            .as_ref()
            .map_or_else(|| "ACT's".to_owned(), |path| path.display().to_string()),
        limits: load.sla.to_string(),
        ..Prediction::default()
    };
    if let Some(drift) = observations.drift() {
        return Ok(Some(Prediction {
            declined: Some(drift),
            ..blank
        }));
    }
    let fit = fit(
        points,
        device.size_bytes,
        MIN_IO_BYTES,
        observations.stalls.as_ref(),
    )
    .map_err(|why| {
        Failure::invalid(format!(
            "cannot predict from the baseline of {} - {why}",
            device.name
        ))
    })?;
    if let Some(cause) = observations.unfit_reason(points, &fit) {
        return Ok(Some(Prediction {
            declined: Some(cause),
            misses: fit.misses,
            ..blank
        }));
    }
    let Some(ratings) = ratings(&fit, load, signal_handler)? else {
        return Ok(None);
    };
    let Some([rating, low, high]) = interval(ratings) else {
        return Ok(Some(Prediction {
            declined: Some(observations.undecided(&fit, ratings)),
            ..blank
        }));
    };
    let mut remarks = vec![
        "the interval covers all parameters that fit the points; it does not cover drives that differ from the model"
            .to_owned(),
    ];
    remarks.extend(hour::few_periods(&fit.nearest)?);
    remarks.extend(observations.remarks(points));
    if in_doubt > 0 {
        let all = format::count(points.len() as u64, "job");
        let doubts = format::number(in_doubt as f64);
        remarks.insert(
            0,
            format!(
                "{doubts} of {all} of the baseline were in doubt and are left out of the fit, so their results are \
                 missing - measure again on an idle machine"
            ),
        );
    }
    Ok(Some(Prediction {
        simulated: Some(fit.nearest.to_string()),
        parameters: fit.parameters,
        points: fit.points,
        error_pct: fit.error_pct,
        misses: fit.misses,
        rating,
        rating_low: low,
        rating_high: high,
        remarks,
        ..blank
    }))
}

/// Ratings of the fitted drive and of the drives at both ends; `None`: interrupted.
fn ratings(
    fit: &Fit,
    load: &PredictedLoad,
    signal_handler: &SignalHandler,
) -> Result<Option<[Option<f64>; 3]>, Failure> {
    let mut ratings = [None; 3];
    let stalls_from_means: [fn(f64) -> f64; 3] = [identity, f64::ceil, f64::floor];
    for (number, drive) in [&fit.nearest, &fit.slow, &fit.fast].into_iter().enumerate() {
        // Start the searches for both end drives at the rating of the fitted drive, which is near their ratings.
        let start = ratings[0].unwrap_or(if number == 0 { 1.0 } else { hour::LEAST });
        ratings[number] = HourSearch::new(drive, stalls_from_means[number], load, signal_handler)?
            .highest(start)?;
        if signal_handler.signal_received().is_some() {
            return Ok(None);
        }
    }
    Ok(Some(ratings))
}

/// The rating and its interval, from the ratings of the fitted drive and of both ends. If no drive holds any load, all
/// three numbers are `None`. If the interval is too wide, the result is `None`.
fn interval(ratings: [Option<f64>; 3]) -> Option<[Option<f64>; 3]> {
    if ratings == [None; 3] {
        return Some(ratings);
    }
    let [Some(rating), Some(slow), Some(fast)] = ratings else {
        return None;
    };
    // More channels can make a drive slower, because more slow operations are then in flight.
    let low = rating.min(slow).min(fast);
    let high = rating.max(slow).max(fast);
    let bounds = [
        low * (1.0 - MARGIN_PCT / 100.0),
        high * (1.0 + MARGIN_PCT / 100.0),
    ];
    let [low, high] = bounds.map(three_digits);
    (high / low <= WIDEST).then_some([Some(rating), Some(low), Some(high)])
}

/// An event's period is known if the watch lasts this many periods.
const TIMES_SEEN: u64 = PAUSES_MIN;

/// Period of the rarest events that matter, seconds: once an hour.
const HOUR_SEC: u64 = 3_600;

/// Garbage collection is assumed if the last [`LAST_ROUNDS`] rounds are slower than the fastest by this fraction.
const FELL: f64 = 0.1;
const LAST_ROUNDS: usize = 3;

/// A drive drifts if the medians of its two watches differ by more than this factor and this difference. Both are
/// large, because the second watch is short.
const DRIFT_FACTOR: f64 = 1.2;
const DRIFT_US: f64 = 5.0;

pub(super) struct Observations<'a> {
    watch: Option<&'a Watch>,
    second_watch: Option<&'a Watch>,
    /// Stalls that occur less often than once a second.
    pub stalls: Option<RecurringStalls>,
    /// Time under load, seconds.
    loaded_sec: f64,
    /// Bytes written in this time.
    bytes_written: f64,
}

impl<'a> Observations<'a> {
    pub(super) fn from_points(points: &'a [Point]) -> Self {
        let first_watch = points
            .iter()
            .find(|point| point.part == JobPurpose::Watch && point.round == 0);
        let stalls = first_watch.and_then(|point| {
            let sum_of = |value_of: fn(&DirectionResult) -> f64| {
                point.directions().map(value_of).sum::<f64>()
            };
            let mean_us = sum_of(|done| done.answer.mean_us * done.ops as f64)
                / sum_of(|done| done.ops as f64);
            point
                .watch
                .as_ref()?
                .stalls(sum_of(|done| done.iops), mean_us)
        });
        Self {
            watch: watch_in(points, 0),
            second_watch: watch_in(points, 1),
            stalls,
            loaded_sec: points.iter().map(|point| point.seconds).sum(),
            bytes_written: points
                .iter()
                .map(|point: &Point| {
                    point
                        .writes
                        .as_ref()
                        .map_or(0.0, |done| done.ops as f64 * done.bytes_each)
                })
                .sum(),
        }
    }

    /// Why a drive that drifts has no prediction; `None`: the drive does not drift.
    pub(super) fn drift(&self) -> Option<Declined> {
        let watch = self.watch?;
        let drift_text = watch
            .drift()
            .or_else(|| drift_between(watch, self.second_watch?))?;
        let reason = format!(
            "{drift_text}: the drive's behaviour after an hour is unknown - measure the drive again once it has settled"
        );
        Some(Declined {
            cause: DeclinedBy::Drift,
            reason,
        })
    }

    /// Why a drive that `fit` does not describe has no prediction; `None`: `fit` describes the drive.
    pub(super) fn unfit_reason(&self, points: &[Point], fit: &Fit) -> Option<Declined> {
        if let Some(fell) = fell(points) {
            return Some(garbage_collection(fell));
        }
        if !fit.doubtful {
            return None;
        }
        let missed = format!(
            "a model of channels and service times does not fit {} of {}",
            format::number(fit.misses.len() as f64),
            format::count(fit.points as u64, "point")
        );
        Some(
            match self.stalls.as_ref().filter(|stalls| !stalls.regular) {
                Some(stalls) => garbage_collection(format!(
                    "{missed}, and a light load had {}",
                    describe_stalls(stalls)
                )),
                None => Declined {
                    cause: DeclinedBy::Model,
                    reason: format!(
                        "{missed}: reads may wait for writes or for a cache, or another program kept the machine busy - \
                     rate the drive itself"
                    ),
                },
            },
        )
    }

    /// Why there is no prediction if the drives at both ends differ too much.
    pub(super) fn undecided(&self, fit: &Fit, [_, slow, fast]: [Option<f64>; 3]) -> Declined {
        let rating = |rating: Option<f64>| rating.map_or("no load".to_owned(), format::multiple);
        let ends = format!(
            "anything from {} to {} is possible",
            rating(slow),
            rating(fast)
        );
        match &self.stalls {
            Some(stalls) => Declined {
                cause: DeclinedBy::Stalls,
                reason: format!(
                    "the baseline had {}, so {ends} - rate the drive itself",
                    describe_stalls(stalls)
                ),
            },
            None => Declined {
                cause: DeclinedBy::Model,
                reason: format!(
                    "the points determine the drive's parameters too loosely{}: {ends} - measure with the sizes of the \
                     load's records (flashproof baseline --bs) and for longer, or rate the drive itself",
                    without_bound(fit)
                ),
            },
        }
    }

    /// Events that the baseline of `device` cannot have observed.
    pub(super) fn unknown(&self, device: &DriveIdentity) -> String {
        let simulated = device.simulated;
        // A real drive is filled before its baseline.
        let unwritten = simulated && self.bytes_written < device.size_bytes as f64;
        let unwritten = if unwritten {
            format!(
                ", garbage collection once more than {} are written",
                format::bytes(self.bytes_written)
            )
        } else {
            String::new()
        };
        let load_span = format::span_about(self.loaded_sec);
        let longer = format!("flashproof baseline {}", format::shell_quoted(&device.name));
        let Some(watch) = self.watch else {
            return format!(
                "unknown: stalls, drift, and the drive's behaviour after {load_span} of load: this baseline has no watch \
                 (a light load that shows stalls and drift) - measure longer: {longer} --quick"
            );
        };
        let rarer_sec = watch.seconds / TIMES_SEEN;
        let longer_hint = if rarer_sec < HOUR_SEC {
            let needed = BaselineRequest::seconds_for_watch(simulated, TIMES_SEEN * HOUR_SEC);
            needed.map_or(String::new(), |seconds| {
                format!(
                    "; to see events that occur once an hour: {longer} --duration {}",
                    format::span(seconds).replace(' ', "")
                )
            })
        } else {
            String::new()
        };
        let few_stalls = self
            .stalls
            .as_ref()
            .filter(|stalls| stalls.count < PAUSES_MIN);
        let few_text = few_stalls.map_or(String::new(), |stalls| {
            format!("how often the drive stalls ({}), ", describe_stalls(stalls))
        });
        format!(
            "unknown: {few_text}events rarer than one in {}{unwritten}, and the drive's behaviour after {load_span} of \
             load{longer_hint}",
            format::span_about(rarer_sec as f64)
        )
    }

    pub(super) fn remarks(&self, points: &[Point]) -> Vec<String> {
        let mut remarks: Vec<_> = self
            .stalls
            .iter()
            .map(|stalls| format!("the watch saw {}", describe_stalls(stalls)))
            .collect();
        let saturated = points
            .iter()
            .any(|point| point.part == JobPurpose::Saturation && point.steady == Some(true));
        remarks.push(
            if saturated { "the baseline wrote until the drive was steady, and writes did not become slower: no garbage collection was seen" } else { "the baseline did not write until the drive was steady, so the prediction lacks garbage \
                          collection, which will lower the rating" }
            .to_owned(),
        );
        remarks
    }
}

/// The parameters that no point bounds at one end, in parentheses; empty if there are none.
fn without_bound(fit: &Fit) -> String {
    let unbounded = fit
        .parameters
        .iter()
        .filter(|parameter| parameter.low.is_none() || parameter.high.is_none());
    let names: Vec<&str> = unbounded.map(|parameter| parameter.name.as_str()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" (no bound: {})", names.join(", "))
    }
}

/// Why a drive that collects garbage has no prediction. `evidence`: the first part of the reason.
fn garbage_collection(evidence: String) -> Declined {
    Declined {
        cause: DeclinedBy::GarbageCollection,
        reason: format!(
            "{evidence}, and the cost of garbage collection depends on the load - rate the drive itself"
        ),
    }
}

/// The last watch in `round`.
fn watch_in(points: &[Point], round: u32) -> Option<&Watch> {
    let mut watches = points
        .iter()
        .filter(|point| point.part == JobPurpose::Watch);
    let last = watches.rfind(|point| point.round == round)?;
    last.watch.as_ref()
}

/// Describes how the median latency changed from one watch to a `later` watch; `None` if it did not change.
fn drift_between(watch: &Watch, later: &Watch) -> Option<String> {
    let before_us = *watch.medians_us.last()?;
    let after_us = later.medians_us.iter().sum::<f64>() / later.medians_us.len().max(1) as f64;
    let factor = before_us.max(after_us) / before_us.min(after_us);
    (factor > DRIFT_FACTOR && (before_us - after_us).abs() > DRIFT_US).then(|| {
        let before = format::duration((before_us * 1e3) as u64);
        let after = format::duration((after_us * 1e3) as u64);
        format!("the median latency under a light load was {before} before the jobs and {after} after them")
    })
}

fn describe_stalls(
    RecurringStalls {
        count: stall_count,
        ms,
        every_s,
        regular,
    }: &RecurringStalls,
) -> String {
    let length = format::milliseconds(ms.value);
    match (*stall_count < PAUSES_MIN, regular) {
        (true, _) => format!("{} of {length}", format::count(*stall_count, "stall")),
        (_, true) => {
            format!(
                "{} of {length}, one every {}",
                format::count(*stall_count, "stall"),
                seconds(every_s.value)
            )
        }
        (_, false) => format!(
            "{} of up to {length}, at irregular intervals, one in {} on average",
            format::count(*stall_count, "stall"),
            seconds(every_s.value)
        ),
    }
}

fn seconds(sec: f64) -> String {
    if sec < 60.0 {
        format!("{} s", format::number(sec))
    } else {
        format::span_about(sec)
    }
}

/// Describes how the writes of the saturation became slower; `None` if they did not become slower.
fn fell(points: &[Point]) -> Option<String> {
    let rounds: Vec<_> = points
        .iter()
        .filter(|point| point.part == JobPurpose::Saturation)
        .collect();
    let max_iops = |rounds: &[&Point]| rounds.iter().map(|point| point.iops()).fold(0.0, f64::max);
    // A stall slows a single round; garbage collection slows all of the last rounds.
    let first = max_iops(&rounds);
    let last = max_iops(&rounds[rounds.len().saturating_sub(LAST_ROUNDS)..]);
    (last < (1.0 - FELL) * first).then(|| {
        let seconds: f64 = rounds.iter().map(|point| point.seconds).sum();
        format!(
            "random writes fell from {} to {} per second within {}",
            format::number(first),
            format::number(last),
            format::span_about(seconds)
        )
    })
}
