//! `flashproof rate predict`: predicts the rating of a drive from its baseline, with the model of a simulated drive.

use crate::commands::rate::load_options;
use crate::commands::rate::predict::options::PredictArgs;
use crate::commands::rate::predict::{self, PredictedLoad};
use conclusions::baseline::Prediction;
use report::baseline::{parameters, prediction_sentence};
use results::format::shell_quoted;
use results::judge::Outcome;
use session::failure::Failure;
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::fmt::Write as _;
use std::iter::once;
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
        console::page(&text(predictions, &args.load))?;
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

fn text(predictions: &[Prediction], load: &PredictedLoad) -> String {
    let options = load_options(load.config.as_deref(), &load.sla, load.as_act);
    let mut page = String::new();
    // Writing to a string cannot fail.
    for prediction in predictions {
        let sentence = prediction_sentence(prediction);
        let _ = if prediction.rating.is_some() {
            let arguments = once(&prediction.device).chain(&options);
            let arguments: Vec<_> = arguments.map(|argument| shell_quoted(argument)).collect();
            writeln!(
                page,
                "\nPREDICTED: {sentence}\nDo: measure it: flashproof rate {}",
                arguments.join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_search_has_the_predicted_load_and_limits() {
        let prediction = Prediction {
            device: "/dev/x".to_owned(),
            rating: Some(2.0),
            ..Prediction::default()
        };
        let load = PredictedLoad {
            config: Some("my load.conf".into()),
            sla: "5%>2ms".parse().unwrap(),
            as_act: true,
        };
        let page = text(&[prediction], &load);
        let search = "flashproof rate /dev/x --config 'my load.conf' --sla '5%>2ms' --as-act\n";
        assert!(page.contains(search), "{page}");
    }
}
