//! `flashproof rate predict`: predicts the rating of a drive from its baseline, with the model of a simulated drive.

use crate::commands::rate::predict;
use crate::commands::rate::predict::options::PredictArgs;
use conclusions::baseline::Prediction;
use report::baseline::{parameters, prediction_sentence};
use results::format::shell_quoted;
use results::judge::Outcome;
use session::failure::Failure;
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Maximum number of sentences about differences between the simulated drive and the measured one.
const MISSES_SHOWN_MAX: usize = 3;

pub fn predict(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let signal_handler = SignalHandler::install(
        "no result was saved; run the same command again",
        CompatMode::Native,
    )?;
    let predictions = predict::predict(&args.dir, &args.load, args.force, &signal_handler)?;
    if let Some(predictions) = &predictions {
        console::page(&text(predictions))?;
    }
    let has_all =
        predictions.is_some_and(|all| all.iter().all(|prediction| prediction.rating.is_some()));
    let outcome = if has_all {
        Outcome::Pass
    } else {
        Outcome::Invalid
    };
    Ok(ExitCode::from(outcome.exit_code()))
}

fn text(predictions: &[Prediction]) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    for prediction in predictions {
        let sentence = prediction_sentence(prediction);
        let _ = if prediction.rating.is_some() {
            let device = shell_quoted(&prediction.device);
            writeln!(
                page,
                "\nPREDICTED: {sentence}\nDo: measure it: flashproof rate {device}"
            )
        } else {
            writeln!(page, "\n{}: {sentence}", Outcome::Invalid)
        };
        let _ = writeln!(page, "  {}", prediction.unknown);
        for miss in prediction.misses.iter().take(MISSES_SHOWN_MAX) {
            let _ = writeln!(page, "  {miss}");
        }
        if let Some(more) = prediction.misses.len().checked_sub(MISSES_SHOWN_MAX + 1) {
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
