//! `flashproof size select`.

use crate::args::SelectArgs;
use procedures::select::{Shelf, select};
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use sizing::select::Terms;
use std::process::ExitCode;

pub fn run(args: &SelectArgs) -> Result<ExitCode, Failure> {
    let shelf = Shelf {
        candidates: &args.candidates,
        published: &args.published,
        ratings: args.ratings.as_deref(),
        given: args.given.given(args.warranty),
    };
    let terms = Terms { scale: args.scale, data_scale: args.data_scale, fill: args.fill / 100.0, years: args.warranty };
    let selection = select(&args.profile, args.accept_unbalanced, &shelf, terms)?;
    console::result(&match () {
        () if args.json => serde_json::to_string_pretty(&selection).map_err(Failure::environment)? + "\n",
        () if args.markdown => format!("{}\n{}", selection.table().markdown(), selection.notes("* ")),
        () => format!("{}\n{}", selection.table(), selection.notes("")),
    })?;
    if !args.published.is_empty() {
        console::warning(
            "published ratings are for records of 1.5 KB at two reads to a write: what follows from \
             them for this load is an estimate - run the load itself before buying",
        );
    }
    Ok(ExitCode::from(if selection.damaged { Outcome::Invalid.exit_code() } else { 0 }))
}
