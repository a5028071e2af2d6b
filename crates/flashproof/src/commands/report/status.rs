//! `flashproof report status`: the progress of runs, series, checks and campaigns.

use crate::commands::fleet::{StatusPage, status_page};
use crate::commands::report::options::StatusArgs;
use crate::output::watch;
use device::observe::process::process_state;
use fleet::plan::is_campaign;
use report::status::DirStatus;
use session::failure::Failure;
use std::fmt::Write as _;
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

/// States that the summary names, the most urgent first.
const STATES: [&str; 5] = [UNREADABLE, FAILED, INVALID, RUNNING, PASSED];
const UNREADABLE: &str = "unreadable or not all run";
const FAILED: &str = "failed";
const INVALID: &str = "invalid";
const RUNNING: &str = "running";
const PASSED: &str = "passed or not judged";

fn state(page: &Result<StatusPage, Failure>) -> &'static str {
    match page {
        Ok(page) if page.exit_code == 1 => FAILED,
        Ok(page) if page.exit_code == 4 => INVALID,
        Ok(page) if page.exit_code == 0 && page.is_over => PASSED,
        Ok(page) if page.exit_code == 0 => RUNNING,
        Ok(_) | Err(_) => UNREADABLE,
    }
}

/// The number of directories in each state, and the names of those that need attention. Empty for one directory.
fn summary(dirs: &[PathBuf], pages: &[Result<StatusPage, Failure>]) -> String {
    if dirs.len() < 2 {
        return String::new();
    }
    let mut parts = Vec::new();
    for label in STATES {
        let found = dirs
            .iter()
            .zip(pages)
            .filter(|(_, page)| state(page) == label);
        let names: Vec<String> = found.map(|(dir, _)| dir.display().to_string()).collect();
        if names.is_empty() {
            continue;
        }
        let mut part = format!("{} {label}", names.len());
        if ![RUNNING, PASSED].contains(&label) {
            let _ = write!(part, " ({})", names.join(", "));
        }
        parts.push(part);
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
    let worst = [3, 1, 4].into_iter().find(|worst| codes.contains(worst));
    Ok(ExitCode::from(worst.unwrap_or(0)))
}
