//! `flashproof check durability` and `flashproof check witness`: does acknowledged mean durable?

use super::forms;
use crate::args::CheckArgs;
use procedures::durability::witness::Witness;
use procedures::durability::{Request, check, remove};
use report::durability;
use results::units::quoted;
use session::console;
use session::failure::Failure;
use session::output_file::check_page;
use session::runner::tool;
use session::signals::Ending;
use std::process::ExitCode;

/// Writes until the power is cut, or examines what a session left.
pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    refuse(args, "durability", args.show || args.out.is_some())?;
    let Some(path) = &args.path else {
        return Err(Failure::usage("cannot check durability - no disk is named - give a directory on it, or a device"));
    };
    if args.durability.remove {
        let text = if remove(path, args.durability.witness.as_deref())? {
            "removed its files"
        } else {
            "it has no files of check durability"
        };
        console::note(&format!("{}: {text}", quoted(path)));
        return Ok(ExitCode::SUCCESS);
    }
    let Some(witness) = &args.durability.witness else {
        return Err(Failure::usage(
            "cannot check durability - no witness is named - start one on another machine (flashproof check witness --listen \
             0.0.0.0:7070 --file sessions), then give --witness HOST:7070",
        ));
    };
    if let Some(page) = &args.form.html {
        check_page(page)?;
    }
    if args.quiet || args.form.json || args.form.markdown {
        console::be_quiet();
    }
    let request = Request {
        path,
        witness,
        modes: &args.durability.modes,
        erase: &args.erase,
        seconds: args.lasting,
        is_drive_cut: args.durability.drive_cut,
        is_new: args.durability.new,
    };
    let ending = Ending::listen("what was written stays".to_owned())?;
    let result = check(&request, &ending)?;
    forms::show(
        &args.form,
        || durability::html(&result, &tool()),
        || report::json(&result),
        || durability::markdown(&result),
        || durability::text(&result),
    )?;
    Ok(ExitCode::from(result.exit_code))
}

/// Serves as the witness until a signal comes.
pub fn serve(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let has_others = args.show || args.out.is_some() || args.path.is_some() || args.lasting.is_some();
    refuse(
        args,
        "witness",
        has_others || !args.erase.is_empty() || args.form.json || args.form.markdown || args.form.html.is_some(),
    )?;
    let (Some(listen), Some(file)) = (&args.durability.listen, &args.durability.file) else {
        return Err(Failure::usage(
            "cannot start a witness - it needs an address and a file - give --listen 0.0.0.0:7070 --file sessions",
        ));
    };
    if args.quiet {
        console::be_quiet();
    }
    let ending = Ending::listen("all that was confirmed is in the file".to_owned())?;
    let witness = Witness::open(listen, file)?;
    let address =
        witness.address().map_err(|error| Failure::environment(format!("cannot listen at {listen} - {error}")))?;
    console::notice(&format!("listening on {address}; {}", ending.how()));
    witness.waiting().iter().for_each(|session| console::note(session));
    witness.serve(&ending)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses options that would have no effect.
fn refuse(args: &CheckArgs, name: &str, has_others: bool) -> Result<(), Failure> {
    let foreign = args.durability.foreign_to(name);
    match foreign.is_empty() && !has_others {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "cannot use {} with check {name} - it has no effect there - leave it out (docs/durability.md has the options)",
            if foreign.is_empty() { "an option or path of other checks".to_owned() } else { foreign.join(", ") }
        ))),
    }
}
