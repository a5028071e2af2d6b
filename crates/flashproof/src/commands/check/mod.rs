//! `flashproof check`: is a disk good enough for a database? Lists the checks, shows one, performs one or all. With a path
//! alone, takes a look at the path's disk. With a witness (a second machine that logs acknowledged writes), tests
//! whether these writes survive a power cut.

mod definition;
pub mod durability;
mod file_use;
mod jobs;
mod look;
pub mod options;
mod run;
mod site;

use crate::commands::check::options::CheckArgs;
use crate::output::{FormArgs, done, show};
use conclusions::check_plan::{CHECK_PLAN, CHECK_PLAN_FORMAT_VERSION, CheckPlan, PlannedCheck};
use definition::{Definition, RunDefinition, builtin_by_kind, builtin_names};
use device::observe::process::this_process;
use durability::witness::Witness;
use look::LookRequest;
use report::check::{Checks, NotRun};
use report::table::Table;
use results::files::{self, NewDirs};
use results::format::{count, quoted, shell_quoted, span};
use results::run_dir::check_usable;
use run::{CheckRequest, perform};
use session::clock::now_unix_ms;
use session::failure::Failure;
use session::run_directory::RunDirectory;
use session::runner::tool;
use session::signals::{EndSignals, SignalHandler};
use session::{CompatMode, console};
use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Name that stands for all checks that come with flashproof.
const ALL: &str = "all";

pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let Some(name) = &args.name else {
        return console::page(&list()?).map(|()| ExitCode::SUCCESS);
    };
    if let (Some(second), [others @ .., path]) = (&args.path, &args.excess[..]) {
        let names = [&[name.clone(), second.clone()], others].concat().join(",");
        return Err(Failure::usage(format!(
            "cannot check {} - only one path is possible, and several checks are joined by commas - run flashproof check \
             {} {}",
            quoted(path),
            shell_quoted(&names),
            shell_quoted(path)
        )));
    }
    match name.as_str() {
        "durability" => return check_durability(args),
        "witness" => return serve_witness(args),
        _ => {}
    }
    if let Some(option) = args.durability.foreign_to(name).first() {
        return Err(Failure::usage(format!(
            "cannot use {option} with check {} - only check durability and check witness have this option - leave it \
             out",
            quoted(name)
        )));
    }
    let is_path = !is_builtin(name)
        && name != ALL
        && (name.starts_with("sim:") || name.contains('/') || Path::new(name).exists());
    if args.path.is_none() && is_path && !name.ends_with(".toml") {
        return look_at(args, name);
    }
    if let Some(path) = &args.path
        && is_path
        && !Path::new(name).is_file()
        && (path == ALL || path.split(',').all(is_builtin))
    {
        return Err(Failure::usage(format!(
            "cannot check {} with {} - the check comes before the path - run flashproof check {path} {}",
            quoted(path),
            quoted(name),
            shell_quoted(name)
        )));
    }
    let mut seen = HashSet::new();
    let names: Vec<&str> = match name.as_str() {
        ALL => builtin_names().collect(),
        _ if is_path || name.ends_with(".toml") => vec![name],
        _ => name.split(',').filter(|name| seen.insert(*name)).collect(),
    };
    let definitions = names
        .iter()
        .map(|name| Definition::find(name))
        .collect::<Result<Vec<_>, _>>()?;
    if args.show || args.dry_run && args.path.is_some() {
        let path = args.path.as_deref();
        definitions
            .iter()
            .try_for_each(|definition| definition.check_loads(path))?;
        return done(&definitions.iter().map(definition_text).collect::<String>());
    }
    let Some(path) = &args.path else {
        return Err(Failure::usage(format!(
            "cannot check {} - no path is given - give a directory on the disk, a device, or sim: for a simulated \
             drive (--show shows the check)",
            quoted(name)
        )));
    };
    begin_form(args)?;
    perform_all(args, definitions, path, None)
}

fn is_builtin(name: &str) -> bool {
    builtin_names().any(|known| known == name)
}

/// The doctor and a minute of light load on `path`, without a database.
fn look_at(args: &CheckArgs, path: &str) -> Result<ExitCode, Failure> {
    if args.require_sustained || !args.consent.erase.is_empty() {
        return Err(Failure::usage(format!(
            "cannot use --erase or --require-sustained with check {} - without the name of a check nothing is erased, and \
             there are no limits - leave the option out, or name a check",
            quoted(path)
        )));
    }
    begin_form(args)?;
    let look = LookRequest::at(path, args.out.as_deref().unwrap_or(Path::new(".")))?;
    let definition = look.definition()?;
    if args.show || args.dry_run {
        return done(&definition_text(&definition));
    }
    perform_all(args, vec![definition], path, Some(&look))
}

/// Refuses an HTML page that cannot be written, and suppresses messages if the output is for programs.
fn begin_form(args: &CheckArgs) -> Result<(), Failure> {
    args.form.check()?;
    if args.quiet || args.form.json || args.form.markdown {
        console::be_quiet();
    }
    Ok(())
}

fn perform_all(
    args: &CheckArgs,
    definitions: Vec<Definition>,
    path: &str,
    look: Option<&LookRequest>,
) -> Result<ExitCode, Failure> {
    let quiet = args.quiet || args.form.json || args.form.markdown;
    let run_dir = RunDirectory::choose("check", args.out.as_deref(), CompatMode::Native)?;
    let signal_handler = SignalHandler::install(
        "files of the check remain until the next check",
        CompatMode::Native,
    )?;
    let mut checks = Vec::new();
    let mut not_run = Vec::new();
    let is_alone = definitions.len() == 1;
    let definitions: Vec<_> = match args.lasting {
        Some(seconds) => definitions
            .into_iter()
            .map(|definition| definition.lasting(seconds.into()))
            .collect(),
        None => definitions,
    };
    let mut later_sec = definitions.iter().map(Definition::seconds).sum::<u64>();
    let what = if is_alone {
        definitions[0].name.clone()
    } else {
        count(definitions.len() as u64, "check")
    };
    let extra = if look.is_none_or(LookRequest::writes_files) {
        "; the time to write test files is extra"
    } else {
        ""
    };
    console::note(&format!(
        "{what}: {} of load in all{extra}",
        span(later_sec)
    ));
    let new_dirs = write_plan(run_dir.dir(), path, &definitions)?;
    for definition in definitions {
        let name = definition.name.clone();
        later_sec -= definition.seconds();
        if signal_handler.signal_received().is_some() {
            not_run.push(NotRun {
                name,
                why: "the command was stopped before this check".into(),
            });
            continue;
        }
        let dir = if is_alone {
            run_dir.dir().to_owned()
        } else {
            run_dir.dir().join(&name)
        };
        let request = CheckRequest {
            definition,
            look,
            path,
            erase: &args.consent.erase,
            dir,
            later_sec,
            // The lines of many runs would hide the answer in a log.
            quiet: quiet || !is_alone && !io::stderr().is_terminal(),
            note: args.note.text.as_deref(),
        };
        match perform(&request, &signal_handler) {
            Ok(check) => checks.push(check),
            // A missing or read-only disk stops all checks.
            Err(failure) if is_alone || checks.is_empty() && not_run.is_empty() => {
                let _ = files::remove_file(&run_dir.dir().join(CHECK_PLAN));
                new_dirs.remove();
                return Err(failure);
            }
            Err(failure) => not_run.push(NotRun {
                name,
                why: failure.message,
            }),
        }
    }
    write(
        &Checks::new(checks, not_run, args.require_sustained),
        &args.form,
        &format!("{run_dir}\n"),
    )
}

/// Writes the plan of the checks of `path` into `dir`. Returns the directories that were created for the plan.
fn write_plan(dir: &Path, path: &str, definitions: &[Definition]) -> Result<NewDirs, Failure> {
    let run = |run: &RunDefinition| (run.name.clone(), run.seconds);
    let checks = definitions.iter().map(|check| PlannedCheck {
        name: check.name.clone(),
        runs: check.runs.iter().map(run).collect(),
    });
    let plan = CheckPlan {
        format_version: CHECK_PLAN_FORMAT_VERSION,
        path: path.to_owned(),
        began_unix_ms: now_unix_ms(),
        checks: checks.collect(),
        process: this_process(),
    };
    let shown = dir.display();
    check_usable(dir).map_err(Failure::environment)?;
    if dir.join(CHECK_PLAN).exists() {
        return Err(Failure::usage(format!(
            "cannot record a check in {shown} - it holds another check - give another --out"
        )));
    }
    let new_dirs = files::create_dirs(dir).map_err(|error| {
        Failure::environment(format!(
            "cannot create {shown} - {error} - give another --out"
        ))
    })?;
    plan.write(dir).map_err(Failure::environment)?;
    Ok(new_dirs)
}

/// Writes the result of checks in the requested form; `footer` follows the text form.
pub fn write(checks: &Checks, form: &FormArgs, footer: &str) -> Result<ExitCode, Failure> {
    let text = || format!("{}{footer}", checks.text());
    show(
        form,
        checks,
        || checks.html(&tool()),
        || checks.markdown(),
        text,
    )?;
    Ok(ExitCode::from(checks.exit_code))
}

fn list() -> Result<String, Failure> {
    let mut table = Table::new("")
        .text(["check"])
        .numbers(["takes", "limits"])
        .text(["question"]);
    for (heading, checks) in builtin_by_kind()? {
        table.row(["", "", "", ""]);
        table.row([heading, "", "", ""]);
        for check in checks {
            let limits = check
                .runs
                .iter()
                .flat_map(|run| &run.criteria)
                .filter(|criterion| {
                    criterion.limit.is_some() && criterion.only_shown_as().is_none()
                });
            table.row([
                format!("  {}", check.name),
                span(check.seconds()),
                limits.count().to_string(),
                check.question,
            ]);
        }
    }
    Ok(format!(
        "{table}\nflashproof check NAME DIRECTORY checks the disk that holds DIRECTORY; --show shows jobs, limits and \
         sources.\n\
         flashproof check PATH takes a look at a disk in a minute: the doctor, and light load; it erases nothing.\n\
         flashproof check durability DIRECTORY --witness HOST:PORT tests if acknowledged writes survive a power cut.\n"
    ))
}

/// The definition of a check, below a comment with its name, duration and question.
fn definition_text(check: &Definition) -> String {
    let mut text = format!("# {} ({} of load)\n", check.name, span(check.seconds()));
    text += &format!("# {}\n", check.question);
    text + check.text.trim_end() + "\n"
}

/// Writes until the power is cut, or examines the data of the session before the cut.
fn check_durability(args: &CheckArgs) -> Result<ExitCode, Failure> {
    refuse(
        args,
        "durability",
        args.show || args.dry_run || args.out.is_some() || args.require_sustained,
    )?;
    let Some(path) = &args.path else {
        return Err(Failure::usage(
            "cannot check durability - no path is given - give a directory on the disk, or a device",
        ));
    };
    if args.durability.remove {
        let text = if durability::remove(path, &args.durability)? {
            "removed the files of check durability"
        } else {
            "there are no files of check durability"
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
    begin_form(args)?;
    let request = durability::DurabilityRequest {
        path,
        witness,
        options: &args.durability,
        erase: &args.consent.erase,
        seconds: args.lasting,
    };
    let end_signals = EndSignals::listen("the written files remain".to_owned())?;
    let result = durability::check(&request, &end_signals)?;
    show(
        &args.form,
        &result,
        || report::durability::html(&result, &tool()),
        || report::durability::markdown(&result),
        || report::durability::text(&result),
    )?;
    Ok(ExitCode::from(result.exit_code))
}

fn serve_witness(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let has_others = args.show
        || args.dry_run
        || args.out.is_some()
        || args.path.is_some()
        || args.lasting.is_some()
        || args.require_sustained;
    refuse(
        args,
        "witness",
        has_others
            || !args.consent.erase.is_empty()
            || args.form.json
            || args.form.markdown
            || args.form.html.is_some(),
    )?;
    let (Some(listen), Some(file)) = (&args.durability.listen, &args.durability.file) else {
        return Err(Failure::usage(
            "cannot start a witness - it needs an address and a file - give --listen 0.0.0.0:7070 --file sessions",
        ));
    };
    if args.quiet {
        console::be_quiet();
    }
    let end_signals = EndSignals::listen("all confirmed records are in the file".to_owned())?;
    let witness = Witness::open(listen, file)?;
    let address = witness
        .address()
        .map_err(|error| Failure::environment(format!("cannot listen at {listen} - {error}")))?;
    console::notice(&format!(
        "listening on {address}; {}",
        end_signals.stop_hint()
    ));
    witness
        .waiting()
        .iter()
        .for_each(|session| console::note(session));
    witness.serve(&end_signals)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses options that would have no effect.
fn refuse(args: &CheckArgs, name: &str, has_others: bool) -> Result<(), Failure> {
    let foreign = args.durability.foreign_to(name);
    if foreign.is_empty() && !has_others {
        Ok(())
    } else {
        Err(Failure::usage(format!(
            "cannot use {} with check {name} - it has no effect there - leave it out (options: docs/durability.md)",
            if foreign.is_empty() {
                "an option or path of other checks".to_owned()
            } else {
                foreign.join(", ")
            }
        )))
    }
}
