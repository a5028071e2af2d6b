//! `flashproof report status`: the progress of runs, series, checks and campaigns.

use crate::commands::fleet::{StatusPage, status_page};
use crate::commands::report::options::StatusArgs;
use crate::output::watch;
use device::observe::process::process_state;
use fleet::plan::is_campaign;
use report::status::DirStatus;
use session::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Shows the progress of the directories, once or until they end.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut pages = Vec::new();
    watch(args.watch, args.json, || {
        pages = args.dirs.iter().map(|dir| page(dir, args)).collect();
        let shown = pages.iter().flatten();
        let texts: Vec<&str> = shown.clone().map(|page| &*page.text).collect();
        let text = if args.json {
            texts.concat()
        } else {
            summary(&args.dirs, &pages) + &texts.join("\n")
        };
        Ok((text, shown.clone().all(|page| page.is_over)))
    })?;
    worst_exit_code(&pages)
}

fn page(dir: &Path, args: &StatusArgs) -> Result<StatusPage, Failure> {
    if is_campaign(dir) {
        return status_page(dir, args.json);
    }
    let status = DirStatus::read(dir, SystemTime::now(), &process_state);
    let status = status.map_err(Failure::environment)?;
    Ok(StatusPage {
        text: text(&status, args).map_err(Failure::environment)?,
        is_over: status.is_over(),
        exit_code: status.exit_code(),
    })
}

fn text(status: &DirStatus, args: &StatusArgs) -> serde_json::Result<String> {
    Ok(match (args.json, args.watch) {
        (true, true) => serde_json::to_string(status)? + "\n",
        (true, false) => serde_json::to_string_pretty(status)? + "\n",
        (false, _) => status.to_string(),
    })
}

/// Exit codes of directories that need attention, the worst first, each with its state in the summary.
const WORST_FIRST: [(u8, &str); 3] = [
    (3, "unreadable or incomplete"),
    (1, "failed"),
    (4, "invalid"),
];

/// The number of directories in each state, and the names of those that need attention. Empty for one directory.
fn summary(dirs: &[PathBuf], pages: &[Result<StatusPage, Failure>]) -> String {
    if dirs.len() < 2 {
        return String::new();
    }
    let mut parts = Vec::new();
    for (code, state) in WORST_FIRST {
        let names: Vec<String> = dirs
            .iter()
            .zip(pages)
            .filter(|(_, page)| page.as_ref().map_or(3, |page| page.exit_code) == code)
            .map(|(dir, _)| dir.display().to_string())
            .collect();
        if !names.is_empty() {
            parts.push(format!("{} {state} ({})", names.len(), names.join(", ")));
        }
    }
    for (is_over, state) in [(false, "running"), (true, "passed or not judged")] {
        let is_of_state = |page: &&StatusPage| page.exit_code == 0 && page.is_over == is_over;
        let number = pages.iter().flatten().filter(is_of_state).count();
        if number > 0 {
            parts.push(format!("{number} {state}"));
        }
    }
    format!("{} directories: {}\n\n", dirs.len(), parts.join("; "))
}

/// The exit code of the worst status: a failure outweighs an invalid result. An unreadable directory, or a step of a
/// campaign that could not be run, outweighs both.
fn worst_exit_code(pages: &[Result<StatusPage, Failure>]) -> Result<ExitCode, Failure> {
    let failures: Vec<&Failure> = pages
        .iter()
        .filter_map(|page| page.as_ref().err())
        .collect();
    if let [failure] = failures[..] {
        return Err(failure.clone());
    }
    if !failures.is_empty() {
        let messages: Vec<_> = failures.iter().map(ToString::to_string).collect();
        return Err(Failure::environment(messages.join("\n")));
    }
    let codes: Vec<u8> = pages.iter().flatten().map(|page| page.exit_code).collect();
    let worst = WORST_FIRST.iter().find(|(code, _)| codes.contains(code));
    Ok(ExitCode::from(worst.map_or(0, |(code, _)| *code)))
}
