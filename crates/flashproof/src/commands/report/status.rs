//! `flashproof report status`: the progress of runs, series, checks and campaigns.

use crate::commands::fleet::status as campaign_status;
use crate::commands::report::options::StatusArgs;
use crate::output::watch;
use device::observe::process::process_state;
use fleet::plan::is_campaign;
use report::status::DirStatus;
use results::run_dir::RunDirError;
use session::failure::Failure;
use std::process::ExitCode;
use std::time::SystemTime;

/// Shows the progress of the directories, once or until they end.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    if let [dir] = &args.dirs[..]
        && is_campaign(dir)
    {
        return campaign_status(dir, args.watch, args.json);
    }
    let mut statuses = Vec::new();
    watch(args.watch, args.json, || {
        statuses = args
            .dirs
            .iter()
            .map(|dir| DirStatus::read(dir, SystemTime::now(), &process_state))
            .collect();
        let mut texts = Vec::new();
        for status in statuses.iter().flatten() {
            texts.push(text(status, args).map_err(Failure::environment)?);
        }
        let page = texts.join(if args.json { "" } else { "\n" });
        Ok((page, statuses.iter().flatten().all(DirStatus::is_over)))
    })?;
    worst_exit_code(&statuses)
}

fn text(status: &DirStatus, args: &StatusArgs) -> serde_json::Result<String> {
    Ok(match (args.json, args.watch) {
        (true, true) => serde_json::to_string(status)? + "\n",
        (true, false) => serde_json::to_string_pretty(status)? + "\n",
        (false, _) => status.to_string(),
    })
}

/// The exit code of the worst status: a failure outweighs an invalid result. An unreadable directory outweighs both.
fn worst_exit_code(statuses: &[Result<DirStatus, RunDirError>]) -> Result<ExitCode, Failure> {
    let errors: Vec<_> = statuses
        .iter()
        .filter_map(|status| status.as_ref().err())
        .map(ToString::to_string)
        .collect();
    if !errors.is_empty() {
        return Err(Failure::environment(errors.join("\n")));
    }
    let codes: Vec<u8> = statuses
        .iter()
        .flatten()
        .map(DirStatus::exit_code)
        .collect();
    let worst = [1, 4].into_iter().find(|worst| codes.contains(worst));
    Ok(ExitCode::from(worst.unwrap_or(0)))
}
