//! `flashproof size select`: the number of drives of each candidate that a cluster needs.

use crate::commands::size::select::options::SelectArgs;
use crate::output::show;
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use sizing::select::SizingTerms;
use std::process::ExitCode;

pub fn select(args: &SelectArgs) -> Result<ExitCode, Failure> {
    args.form.check()?;
    let input = super::SelectionInput {
        candidates: &args.candidates,
        published: &args.published,
        ratings: args.ratings.as_deref(),
        operator_data: args.given.given(args.warranty),
    };
    let terms = SizingTerms {
        scale: args.scale,
        data_scale: args.data_scale,
        fill: args.fill / 100.0,
        years: args.warranty,
    };
    let selection = super::select(&args.profile, args.accept_unbalanced, &input, terms)?;
    show(
        &args.form,
        &selection,
        || selection.html(),
        || selection.markdown(),
        || selection.text(),
    )?;
    if !args.published.is_empty() {
        console::warning(
            "published ratings are for records of 1.5 KB and two reads per write: the numbers for this load are \
             estimates - run the load itself before buying",
        );
    }
    Ok(ExitCode::from(if selection.damaged {
        Outcome::Invalid.exit_code()
    } else {
        0
    }))
}
