//! `flashproof check`: is a disk good enough for a database? Lists the checks, shows one, performs one or all.

use super::forms;
use crate::args::{CheckArgs, FormArgs};
use procedures::check::{Definition, Request, builtin, perform};
use report::check::{Checks, NotRun};
use report::table::Table;
use results::units::{quoted, span, wrapped};
use session::Manner;
use session::console;
use session::failure::Failure;
use session::output_file::check_page;
use session::place::Place;
use session::runner::tool;
use session::signals::Switch;
use std::process::ExitCode;

/// Name that stands for all checks that come with flashproof.
const ALL: &str = "all";

/// Columns of a terminal for sentences.
const COLUMNS: usize = 100;

/// Lists the checks, shows one, or performs one or all.
pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let Some(name) = &args.name else {
        console::result(&list()?)?;
        return Ok(ExitCode::SUCCESS);
    };
    match name.as_str() {
        "durability" => return super::durability::run(args),
        "witness" => return super::durability::serve(args),
        _ => {}
    }
    if let Some(option) = args.durability.foreign_to(name).first() {
        return Err(Failure::usage(format!(
            "cannot use {option} with check {} - only check durability and check witness have it - leave it out",
            quoted(name)
        )));
    }
    let names: Vec<&str> = if name == ALL { builtin::names().collect() } else { vec![name] };
    let definitions = names.iter().map(|name| Definition::find(name)).collect::<Result<Vec<_>, _>>()?;
    if args.show {
        console::result(&definitions.iter().map(show).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = &args.path else {
        return Err(Failure::usage(format!(
            "cannot check {} - no disk is named - give the directory of its data, a device, or sim: for a simulated drive (--show shows the check)",
            quoted(name)
        )));
    };
    if let Some(page) = &args.form.html {
        check_page(page)?;
    }
    if args.quiet || args.form.json || args.form.markdown {
        console::be_quiet();
    }
    perform_all(args, definitions, path)
}

fn perform_all(args: &CheckArgs, definitions: Vec<Definition>, path: &str) -> Result<ExitCode, Failure> {
    let place = Place::of("check", args.out.as_deref(), Manner::Own)?;
    let switch = Switch::install("files of the check stay until the next one", Manner::Own)?;
    let (mut checks, mut not_run) = (Vec::new(), Vec::new());
    let is_alone = definitions.len() == 1;
    for definition in definitions {
        let definition = match args.lasting {
            Some(seconds) => definition.lasting(seconds.into()),
            None => definition,
        };
        let name = definition.name.clone();
        if switch.was_asked().is_some() {
            not_run.push(NotRun { name, why: "the command was stopped before".into() });
            continue;
        }
        let dir = if is_alone { place.dir().to_owned() } else { place.dir().join(&name) };
        let request = Request {
            definition,
            path,
            erase: &args.erase,
            dir,
            quiet: args.quiet || args.form.json || args.form.markdown,
        };
        match perform(&request, &switch) {
            Ok(check) => checks.push(check),
            // A disk that is not there, or not writable, stops all checks.
            Err(failure) if is_alone || checks.is_empty() && not_run.is_empty() => return Err(failure),
            Err(failure) => not_run.push(NotRun { name, why: failure.message }),
        }
    }
    write(&Checks::new(checks, not_run), &args.form, &format!("{place}\n"))
}

/// Writes the result of checks in the requested form; `last` follows the text.
pub fn write(checks: &Checks, form: &FormArgs, last: &str) -> Result<ExitCode, Failure> {
    forms::show(
        form,
        || checks.html(&tool()),
        || report::json(checks),
        || checks.markdown(),
        || format!("{}{last}", checks.text()),
    )?;
    Ok(ExitCode::from(checks.exit_code))
}

/// The checks with their questions.
fn list() -> Result<String, Failure> {
    let mut table = Table::new("").text(["check"]).numbers(["takes", "limits"]).text(["question"]);
    for name in builtin::names() {
        let check = Definition::find(name)?;
        let limits = check.runs.iter().flat_map(|run| &run.criteria).filter(|criterion| criterion.limit.is_some());
        table.row([name.to_owned(), span(check.seconds()), limits.count().to_string(), check.question]);
    }
    Ok(format!(
        "{table}\nflashproof check NAME DIRECTORY checks the disk below a directory; --show shows jobs, limits and sources.\n\
         flashproof check durability DIRECTORY --witness HOST:PORT tests if acknowledged writes survive a power cut.\n"
    ))
}

/// The file of a check, and what it says about itself.
fn show(check: &Definition) -> String {
    let mut text = format!("# {} ({} of load)\n", check.name, span(check.seconds()));
    text += &wrapped(&check.question, "# ", COLUMNS);
    text + check.text.trim_end() + "\n"
}
