//! `flashproof rate predict`.

use crate::args::PredictArgs;
use procedures::predict::predict;
use report::baseline::{parameters, predicted};
use results::baseline::Prediction;
use results::judge::Outcome;
use session::Manner;
use session::console;
use session::failure::Failure;
use session::signals::Switch;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Maximum number of sentences about differences of the simulated drive.
const MISSES_TOLD: usize = 3;

/// Predicts from the directory of a baseline.
pub fn run(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let switch = Switch::install("no result was saved; the same command starts it again", Manner::Own)?;
    let predictions = predict(&args.dir, &args.load.load(), args.force, &switch)?;
    let outcome = match &predictions {
        Some(predictions) => {
            console::result(&page(predictions))?;
            let found = |prediction: &Prediction| prediction.rating.is_some();
            if predictions.iter().all(found) { Outcome::Pass } else { Outcome::Invalid }
        }
        None => Outcome::Invalid,
    };
    Ok(ExitCode::from(outcome.exit_code()))
}

/// The predictions, for people.
fn page(predictions: &[Prediction]) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    for prediction in predictions {
        let _ = writeln!(page, "\n{}", predicted(prediction));
        let _ = writeln!(page, "  {}", prediction.unknown);
        for miss in prediction.misses.iter().take(MISSES_TOLD) {
            let _ = writeln!(page, "  {miss}");
        }
        if let Some(more) = prediction.misses.len().checked_sub(MISSES_TOLD + 1) {
            let _ = writeln!(page, "  and {} more", more + 1);
        }
        for remark in &prediction.remarks {
            let _ = writeln!(page, "  {remark}");
        }
        if let Some(simulated) = &prediction.simulated {
            let _ = writeln!(page, "\n{}", parameters(prediction));
            let _ = writeln!(page, "simulated drive: {simulated}");
        }
    }
    page
}
