//! A prediction: the rating of a simulated drive fitted to a real one, or why there is none.
//!
//! ```text
//! series.json -> points of each drive -> what its watch saw   seen.rs: stalls, drift
//!             -> load::baseline::fit -> drive.sim, and one at each end of what is not known
//!             -> the highest load that each holds for an hour  hour.rs
//!             -> conclusion.details.prediction, and a page
//! ```
//! A prediction has an interval that contains the true rating. If the interval would be too wide, or the simulated
//! drive differs from the real one, there is no prediction, and the reason is named.

mod hour;
mod seen;

use crate::series::Kept;
use hour::{Count, HourSearch};
use load::baseline::fit::{Fit, fit};
use results::baseline::{Declined, Point, Prediction, points_of};
use results::judge::Sla;
use results::rating::Multiple;
use results::series::{Identity, Purpose};
use results::units;
use seen::Seen;
use serde_json::json;
use session::console;
use session::failure::Failure;
use session::output_file::{is_ours, write_file};
use session::signals::Switch;
use std::path::{Path, PathBuf};

/// The load whose rating is predicted.
#[derive(Debug, Clone)]
pub struct PredictedLoad {
    /// Configuration of any ACT version, whose load is 1x; `None`: ACT's own.
    pub config: Option<PathBuf>,
    /// Latency limits for a load that is held.
    pub sla: Sla,
    /// True to pace operations as ACT does.
    pub as_act: bool,
}

/// Smallest operation of the simulated drive, bytes; a series does not record the real drive's.
const MIN_IO_BYTES: u32 = 512;

/// Margin at both ends of an interval, percent. A search names up to 2 % less than the truth, here and on the drive.
/// For a drive whose times vary by 100 %, the truth was up to 3 % beyond the ends of the parameters.
const MARGIN_PCT: f64 = 5.0;
/// Maximum ratio of an interval's ends; a wider one says nothing.
const WIDEST: f64 = 2.0;

/// Predicts each drive of the baseline in `dir`; `None`: interrupted. Writes the simulated drives and the predictions
/// into the directory; with `force`, also over files of other origin.
///
/// Errors: there is no baseline, or too few points of a drive.
pub fn predict(
    dir: &Path,
    load: &PredictedLoad,
    force: bool,
    switch: &Switch,
) -> Result<Option<Vec<Prediction>>, Failure> {
    let mut kept = Kept::there(dir)?;
    if kept.series.purpose != Purpose::Baseline {
        return Err(Failure::usage(format!(
            "cannot predict from {} - it is no baseline - make one with \"flashproof baseline\"",
            dir.display()
        )));
    }
    let predictions = of_series(&kept, load, force, switch)?;
    if let Some(predictions) = &predictions {
        keep(&mut kept, predictions)?;
    }
    Ok(predictions)
}

fn of_series(
    kept: &Kept,
    load: &PredictedLoad,
    force: bool,
    switch: &Switch,
) -> Result<Option<Vec<Prediction>>, Failure> {
    let (mut predictions, devices) = (Vec::new(), &kept.series.devices);
    let path = |number: usize| {
        let name = if devices.len() == 1 { "drive.sim".to_owned() } else { format!("drive-{}.sim", number + 1) };
        kept.dir.join(name)
    };
    let replaces = |path: &Path| force || is_ours(path, |text| text.starts_with("sim:"));
    let write = |number: usize, text: Option<&str>| {
        let path = path(number);
        write_file("simulated drive", &path, text, replaces(&path))
    };
    (0..devices.len()).try_for_each(|number| write(number, None))?;
    for (number, device) in devices.iter().enumerate() {
        let points = points_of(&kept.series, number);
        console::note(&format!(
            "fitting a simulated drive to what {} did in {}",
            device.name,
            units::count(points.len() as u64, "point")
        ));
        let Some(prediction) = of_drive(device, &points, load, switch)? else { return Ok(None) };
        match &prediction.simulated {
            Some(simulated) => write(number, Some(&format!("{simulated}\n")))?,
            // A file from an earlier prediction no longer describes the drive.
            None => drop(std::fs::remove_file(path(number))),
        }
        predictions.push(prediction);
    }
    Ok(Some(predictions))
}

/// Adds predictions to the series and its report, if the series has its conclusion.
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

/// The prediction for a drive; `None`: interrupted.
fn of_drive(
    device: &Identity,
    points: &[Point],
    load: &PredictedLoad,
    switch: &Switch,
) -> Result<Option<Prediction>, Failure> {
    let in_doubt = points.iter().filter(|point| point.doubt.is_some()).count() as u64;
    let seen = Seen::of(points);
    let blank = Prediction {
        device: device.name.clone(),
        declined: None,
        unknown: seen.unknown(device),
        simulated: None,
        parameters: Vec::new(),
        points: 0,
        in_doubt,
        error_pct: 0.0,
        misses: Vec::new(),
        load: load.config.as_ref().map_or_else(|| "ACT's".to_owned(), |path| path.display().to_string()),
        limits: load.sla.to_string(),
        rating: None,
        rating_low: None,
        rating_high: None,
        remarks: Vec::new(),
    };
    let declined = |declined: Declined| Ok(Some(Prediction { declined: Some(declined), ..blank.clone() }));
    if let Some(drift) = seen.drift() {
        return declined(drift);
    }
    let fit = fit(points, device.size_bytes, MIN_IO_BYTES, seen.stalls.as_ref())
        .map_err(|why| Failure::invalid(format!("cannot predict from the baseline of {} - {why}", device.name)))?;
    if let Some(cause) = seen.undescribed(points, &fit) {
        return Ok(Some(Prediction { declined: Some(cause), misses: fit.misses, ..blank }));
    }
    let Some(ratings) = ratings(&fit, load, switch)? else { return Ok(None) };
    let Some([rating, low, high]) = interval(ratings) else { return declined(seen.undecided(ratings)) };
    let mut remarks = vec![
        "the interval covers all parameters that still describe the points; it does not cover drives that differ from the model"
            .to_owned(),
    ];
    remarks.extend(seen.remarks(points));
    if in_doubt > 0 {
        let (all, doubts) = (units::count(points.len() as u64, "job"), units::number(in_doubt as f64));
        remarks.insert(0, format!("{doubts} of {all} of the baseline were in doubt and are not in the fit: what they alone measured is not known - measure again on a machine that does nothing else"));
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
fn ratings(fit: &Fit, load: &PredictedLoad, switch: &Switch) -> Result<Option<[Option<f64>; 3]>, Failure> {
    let mut ratings = [None; 3];
    let drives = [(&fit.nearest, Count::Mean), (&fit.slow, Count::Most), (&fit.fast, Count::Least)];
    for (number, (drive, count)) in drives.into_iter().enumerate() {
        // The ratings at both ends are near the first.
        let from = ratings[0].unwrap_or(if number == 0 { 1.0 } else { hour::LEAST });
        let Ok(highest) = HourSearch::new(drive, count, load, switch)?.highest(from)? else { return Ok(None) };
        ratings[number] = highest;
    }
    Ok(Some(ratings))
}

/// The rating and its interval, from the ratings of the fitted drive and of both ends; all `None` if no drive holds
/// any load. `None`: the interval is too wide.
fn interval(ratings: [Option<f64>; 3]) -> Option<[Option<f64>; 3]> {
    if ratings == [None; 3] {
        return Some(ratings);
    }
    let [Some(rating), Some(slow), Some(fast)] = ratings else { return None };
    // More channels can make a drive slower, because more slow operations are then in flight.
    let (low, high) = (rating.min(slow).min(fast), rating.max(slow).max(fast));
    let bounds = [low * (1.0 - MARGIN_PCT / 100.0), high * (1.0 + MARGIN_PCT / 100.0)];
    let [low, high] = bounds.map(|bound| Multiple::new(bound).get());
    (high / low <= WIDEST).then_some([Some(rating), Some(low), Some(high)])
}
