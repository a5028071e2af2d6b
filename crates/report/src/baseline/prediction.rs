//! Predictions of a baseline, in words and as a table.

use crate::table::Table;
use results::baseline::{Declined, Parameter, Prediction};
use results::units;

/// The predicted rating, or why there is none, in one sentence.
pub fn predicted(prediction: &Prediction) -> String {
    let Prediction { device, load, limits, points, in_doubt, error_pct, .. } = prediction;
    if let Some(Declined { cause, reason }) = &prediction.declined {
        return format!(
            "no rating is predicted of {device} (load of 1x: {load}; limits {limits}), because of {cause}: {reason}"
        );
    }
    let left_out = match in_doubt {
        0 => String::new(),
        jobs => format!(" without {} in doubt", units::count(*jobs, "job")),
    };
    let of = format!(
        "of {device} (load of 1x: {load}; limits {limits}; {points} points{left_out}, within {error_pct:.1} % half of the time)"
    );
    match (prediction.rating, prediction.rating_low, prediction.rating_high) {
        (Some(rating), Some(low), Some(high)) => {
            format!("the predicted rating is {rating}x, between {low}x and {high}x, {of}")
        }
        (Some(rating), ..) => format!("the predicted rating is {rating}x, {of}"),
        (None, ..) => format!("no load is predicted to be held, however small, {of}"),
    }
}

/// The parameters of the simulated drive, with their bounds.
pub fn parameters(prediction: &Prediction) -> Table {
    let bound = |end: Option<f64>| end.map_or("no bound".to_owned(), |value| value.to_string());
    let row = |parameter: &Parameter| {
        vec![parameter.name.clone(), parameter.value.to_string(), bound(parameter.low), bound(parameter.high)]
    };
    Table::new("The simulated drive that does what this one did")
        .text(["parameter"])
        .numbers(["value", "at least", "at most"])
        .rows(prediction.parameters.iter().map(row))
}

/// Everything that is said of it beside the table, each one sentence: first whether to rely on it.
pub(super) fn notes(prediction: &Prediction) -> Vec<String> {
    let Prediction { simulated, misses, remarks, unknown, .. } = prediction;
    let mut notes = vec![predicted(prediction)];
    notes.extend([unknown].into_iter().filter(|unknown| !unknown.is_empty()).cloned());
    notes.extend(remarks.iter().cloned());
    notes.extend(simulated.iter().map(|simulated| format!("As a device: {simulated}")));
    notes.extend(misses.iter().cloned());
    notes
}
