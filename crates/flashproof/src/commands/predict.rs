//! `flashproof predict`: the rating of a simulated drive that does what the drive did.
//!
//! ```text
//! series.json -> points of each drive -> engine::sim::fit -> drive.sim, and one at each end of what is not known
//!             -> commands::rate on the three -> conclusion.details.prediction, and a page
//! ```
//! The search for the rating is that of `flashproof rate`: nothing is rated in another way.

use crate::args::{PredictArgs, PredictedLoadArgs, RateArgs, SeriesArgs};
use crate::commands::{Manner, rate};
use crate::console;
use crate::failure::Failure;
use crate::output_file::{is_ours, write_file};
use crate::series::Kept;
use crate::signals::Switch;
use engine::sim::DriveSpec;
use engine::sim::fit::{Fit, fit};
use load::factor::Factor;
use report::baseline::{parameters, predicted};
use results::baseline::{Part, Point, Prediction, points_of};
use results::judge::Outcome;
use results::rating::{Multiple, Stop};
use results::series::Purpose;
use results::units;
use serde_json::json;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// Most sentences about what the simulated drive does otherwise.
const MISSES_TOLD: usize = 3;

/// The smallest operation of a simulated drive, bytes: what a drive's is, a series does not say.
const MIN_IO_BYTES: u32 = 512;

/// The search for a rating, as `flashproof rate` has it; rounds of a fast drive are shorter, because it does not change with time. A
/// round has so many operations as the drive does them flat out, and so many stalls, or windows of limits, at least: shares of few
/// differ by chance, and two rounds in a row with too many end a step.
const RESOLUTION_PCT: f64 = 2.0;
const UP_TO: f64 = 1000.0;
const STALLS_IN_ROUND: f64 = 4.0;
const OPS_IN_ROUND: f64 = 100_000.0;
const ROUND_SEC: RangeInclusive<f64> = 2.0..=10.0;
const ROUNDS_IN_SLICE: f64 = 12.0;
const SLICE_SEC_MAX: f64 = 720.0;
/// Where the search for a rating begins that is not far from another.
const NEAR: f64 = 0.8;

/// Predicts from the directory of a baseline.
pub fn run(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let mut kept = Kept::there(&args.dir)?;
    if kept.series.purpose != Purpose::Baseline {
        return Err(Failure::usage(format!(
            "cannot predict from {} - it is no baseline - make one with \"flashproof baseline\"",
            args.dir.display()
        )));
    }
    let switch = Switch::install("nothing is kept of it; the same command begins it again", Manner::Own)?;
    let Some(predictions) = of_series(&kept, args, &switch)? else {
        return Ok(ExitCode::from(Outcome::Invalid.exit_code()));
    };
    keep(&mut kept, &predictions)?;
    console::result(&page(&predictions))?;
    let found = |prediction: &Prediction| prediction.rating.is_some() && !prediction.doubtful;
    let outcome = if predictions.iter().all(found) { Outcome::Pass } else { Outcome::Invalid };
    Ok(ExitCode::from(outcome.exit_code()))
}

/// A prediction for each drive of a baseline; `None`: it was interrupted. Writes the simulated drives into the directory.
///
/// Errors: the points of a drive do not say enough.
fn of_series(kept: &Kept, args: &PredictArgs, switch: &Switch) -> Result<Option<Vec<Prediction>>, Failure> {
    let (mut predictions, devices) = (Vec::new(), &kept.series.devices);
    let write = |number: usize, text: Option<&str>| {
        let name = if devices.len() == 1 { "drive.sim".to_owned() } else { format!("drive-{}.sim", number + 1) };
        let path = kept.dir.join(name);
        let replaces = args.force || is_ours(&path, |text| text.starts_with("sim:"));
        write_file("simulated drive", &path, text, replaces)
    };
    (0..devices.len()).try_for_each(|number| write(number, None))?;
    for (number, device) in devices.iter().enumerate() {
        let points = points_of(&kept.series, number);
        console::note(&format!(
            "fitting a simulated drive to what {} did in {}",
            device.name,
            units::count(points.len() as u64, "point")
        ));
        let fit = fit(&points, device.size_bytes, MIN_IO_BYTES)
            .map_err(|why| Failure::invalid(format!("cannot predict from the baseline of {} - {why}", device.name)))?;
        write(number, Some(&format!("{}\n", fit.simulated)))?;
        let saturated = points.iter().any(|point| point.part == Part::Saturation && point.steady == Some(true));
        let iops = points.iter().map(Point::iops).fold(1.0, f64::max);
        let in_doubt = points.iter().filter(|point| point.doubt.is_some()).count() as u64;
        let measured = Measured { points: points.len() as u64, in_doubt, iops, saturated };
        let Some(prediction) = rated(&device.name, fit, &measured, &args.load, switch)? else { return Ok(None) };
        predictions.push(prediction);
    }
    Ok(Some(predictions))
}

/// Puts predictions into the series and its report, if it has come to its conclusion.
fn keep(kept: &mut Kept, predictions: &[Prediction]) -> Result<(), Failure> {
    let Some(conclusion) = &mut kept.series.conclusion else { return Ok(()) };
    if !conclusion.details.is_object() {
        conclusion.details = json!({});
    }
    conclusion.details["prediction"] = json!(predictions);
    kept.save()?;
    kept.write_report();
    Ok(())
}

/// What a baseline had, beside the points that a drive was fitted to.
struct Measured {
    points: u64,
    in_doubt: u64,
    /// The most that was done a second.
    iops: f64,
    /// Whether it wrote until the drive was steady.
    saturated: bool,
}

/// The ratings of the drive that was fitted and of those at both ends; `None`: interrupted.
fn rated(
    device: &str,
    fit: Fit,
    measured: &Measured,
    load: &PredictedLoadArgs,
    switch: &Switch,
) -> Result<Option<Prediction>, Failure> {
    let mut ratings = [None; 3];
    for (number, drive) in [&fit.simulated, &fit.slow, &fit.fast].into_iter().enumerate() {
        // The others are not far from the first.
        let from = ratings[0].map_or(1.0, |rating: f64| rating * NEAR);
        let Some(found) = rate::of_simulated(&search_of(drive, measured.iops, from, load)?, switch)? else {
            return Ok(None);
        };
        ratings[number] = found.held.filter(|_| matches!(found.stop, Stop::Found | Stop::Highest)).map(Multiple::get);
    }
    let [rating, slow, fast] = ratings;
    let mut remarks = vec![
        "the interval says how far the parameters could be varied until they no longer describe the points; it knows nothing of \
         drives that are unlike the model"
            .to_owned(),
        match measured.saturated {
            true => "the baseline wrote until the drive was steady, so its garbage collection is in the points; under days of another \
                     load it may be another",
            false => "the baseline did not write until the drive was steady: garbage collection is not in it, and will lower the rating",
        }
        .to_owned(),
    ];
    if fit.doubtful {
        remarks.insert(0, "this model does not describe the drive, or something else kept the machine busy while it was measured: do not rely on it".to_owned());
    }
    if measured.in_doubt > 0 {
        let (all, doubts) = (units::count(measured.points, "job"), units::number(measured.in_doubt as f64));
        remarks.insert(0, format!("{doubts} of {all} of the baseline were in doubt and are not in the fit: what they alone measured is not known - measure again on a machine that does nothing else"));
    }
    // A search names the highest load that it saw held: up to its resolution below the truth, here and on the drive.
    let order = |pick: fn(f64, f64) -> f64, apart_pct: f64| {
        let end = ratings.into_iter().flatten().reduce(pick)?;
        Some(Multiple::new(end * (1.0 + apart_pct / 100.0)).get())
    };
    Ok(Some(Prediction {
        device: device.to_owned(),
        simulated: fit.simulated,
        parameters: fit.parameters,
        points: fit.points,
        in_doubt: measured.in_doubt,
        error_pct: fit.error_pct,
        misses: fit.misses,
        doubtful: fit.doubtful,
        load: load.config.as_ref().map_or_else(|| "ACT's".to_owned(), |path| path.display().to_string()),
        limits: load.sla.to_string(),
        rating,
        // More channels can make a drive slower, by having more of what is slow in flight.
        rating_low: slow.and(order(f64::min, -RESOLUTION_PCT)),
        rating_high: fast.and(order(f64::max, RESOLUTION_PCT)),
        remarks,
    }))
}

/// The search for the rating of `drive`, which does at most `iops` flat out, from the load `from` on.
fn search_of(drive: &str, iops: f64, from: f64, load: &PredictedLoadArgs) -> Result<RateArgs, Failure> {
    let described: DriveSpec = drive.parse().map_err(Failure::usage)?;
    let period_sec = described.stalls.every_ns.max(described.window_ns) as f64 / 1e9;
    let of_ops_sec = (OPS_IN_ROUND / iops).clamp(*ROUND_SEC.start(), *ROUND_SEC.end());
    let round_sec = of_ops_sec.max(STALLS_IN_ROUND * period_sec).ceil();
    let factor = |multiple: f64| Multiple::new(multiple).to_string().parse::<Factor>().map_err(Failure::usage);
    Ok(RateArgs {
        devices: vec![drive.to_owned()],
        config: load.config.clone(),
        from: factor(from)?,
        up_to: factor(UP_TO)?,
        max_hours: None,
        resolution: RESOLUTION_PCT,
        sla: load.sla.clone(),
        slice: Some((ROUNDS_IN_SLICE * round_sec).min(SLICE_SEC_MAX) as u32),
        as_act: load.as_act,
        series: SeriesArgs { no_trace: true, erase: Vec::new(), fresh: false, quiet: true },
        no_prep: true,
        out: None,
    })
}

/// What is predicted, for people.
fn page(predictions: &[Prediction]) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    for prediction in predictions {
        let _ = writeln!(page, "\n{}", predicted(prediction));
        for miss in prediction.misses.iter().take(MISSES_TOLD) {
            let _ = writeln!(page, "  {miss}");
        }
        if let Some(more) = prediction.misses.len().checked_sub(MISSES_TOLD + 1) {
            let _ = writeln!(page, "  and {} more", more + 1);
        }
        for remark in &prediction.remarks {
            let _ = writeln!(page, "  {remark}");
        }
        let _ = writeln!(page, "\n{}", parameters(prediction));
        let _ = writeln!(page, "simulated drive: {}", prediction.simulated);
    }
    page
}
