//! `flashproof report`: judges runs again, from their directories alone, and prints the report in one of four forms;
//! compares candidates, and shows the progress of runs and series.

#[cfg(feature = "export")]
mod export;

use crate::args::{CompareArgs, FormArgs, ReportArgs, StatusArgs};
use crate::commands::check::write;
use crate::commands::size::select::{compared, ratings};
use conclusions::check::{CHECK, Check};
use device::observe::process::process_state;
use fleet::campaign::CAMPAIGN;
use report::check::Checks;
use report::document::Document;
use report::status::DirStatus;
use results::judge::Outcome;
use results::run_dir::{self, RunDirError};
use results::units::{self, printable};
use serde::Serialize;
use session::console::{self, columns};
use session::failure::Failure;
use session::runner::tool;
use session::user_file::write_page;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Reads and judges the directories, prints warnings, and writes the report in the requested form.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    if let Some(out) = &args.parquet {
        return export(args, out);
    }
    if let [dir] = &args.dirs[..]
        && dir.join(CAMPAIGN).is_file()
    {
        return crate::commands::fleet::report(dir, args);
    }
    if args.anonymous {
        return Err(Failure::usage(
            "cannot use --anonymous - only the report of a campaign has pseudonyms - give the directory of a campaign",
        ));
    }
    if let Some(checks) = checks_in(&args.dirs)? {
        return write(&checks, &args.form, "");
    }
    let document = Document::read(&args.dirs).map_err(Failure::environment)?;
    for banner in document.banners() {
        console::warning(&banner);
    }
    show(
        &args.form,
        &document,
        || document.html(),
        || document.markdown(),
        || document.text(),
    )?;
    Ok(ExitCode::from(document.outcome().exit_code()))
}

#[cfg(feature = "export")]
fn export(args: &ReportArgs, out: &Path) -> Result<ExitCode, Failure> {
    export::run(&args.dirs, out, args.force)
}

#[cfg(not(feature = "export"))]
fn export(_: &ReportArgs, out: &Path) -> Result<ExitCode, Failure> {
    Err(Failure::usage(format!(
        "cannot export to {} - this build of flashproof cannot write Parquet files - use a released package, or build \
         with cargo build --release -p flashproof --features export",
        out.display()
    )))
}

/// The checks recorded in `dirs`; `None` if they are runs or series.
fn checks_in(dirs: &[PathBuf]) -> Result<Option<Checks>, Failure> {
    let mut checks = Vec::new();
    for dir in dirs {
        if !dir.join(CHECK).is_file() {
            return Ok(None);
        }
        let Some(mut check) = Check::read(dir).map_err(Failure::environment)? else {
            return Ok(None);
        };
        let runs = check
            .runs
            .iter()
            .map(|run| run_dir::read(&dir.join(&run.name)));
        let runs = runs
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::environment)?;
        check.rejudge(runs.iter().map(|run| &run.verdict));
        checks.push(check);
    }
    Ok((!checks.is_empty()).then(|| Checks::new(checks, Vec::new(), false)))
}

/// Writes the HTML page of `value`, if requested, and prints its JSON, Markdown or text.
pub(super) fn show(
    form: &FormArgs,
    value: &impl Serialize,
    html: impl FnOnce() -> String,
    markdown: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if let Some(file) = &form.html {
        let page = html();
        write_page(file, &page)?;
        console::note(&format!(
            "wrote {} ({})",
            file.display(),
            units::bytes(page.len() as f64)
        ));
    }
    if form.json {
        console::result(&crate::commands::json(value)?)
    } else if form.markdown {
        console::result(&markdown())
    } else {
        console::page(&text())
    }
}

/// Reads the candidates, prints warnings, and prints the comparison.
pub fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let ratings = ratings(args.published.as_deref())?;
    let comparison = compared(&args.dirs, &args.given.given(args.warranty), &ratings)?;
    if !args.given.dwpd.is_empty() {
        console::note(&format!(
            "drive writes per day are assumed to be rated for {} years (--warranty)",
            args.warranty
        ));
    }
    if let Some(file) = &args.form.html {
        write_page(file, &comparison.html(&tool()))?;
    }
    if args.form.json {
        console::result(&crate::commands::json(&comparison)?)?
    } else if args.form.markdown {
        console::result(&comparison.markdown())?
    } else {
        console::page(&comparison.to_string())?
    }
    let damaged = comparison
        .candidates
        .iter()
        .any(|candidate| candidate.damaged);
    Ok(ExitCode::from(if damaged {
        Outcome::Invalid.exit_code()
    } else {
        0
    }))
}

/// Refresh interval of a watched status.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Reading may take at most 1/50 of the time: the host is under test, and a day's tables are long.
const SLEEP_PER_READ: u32 = 50;

/// Shows the progress of the runs or series, once or until they end.
pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
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

/// Prints the page of `read` once. With `is_repeated`, prints it until `read` reports the end or the reader of the
/// output is gone.
pub(super) fn watch(
    is_repeated: bool,
    json: bool,
    mut read: impl FnMut() -> Result<(String, bool), Failure>,
) -> Result<(), Failure> {
    let mut drawn_lines = 0;
    loop {
        let began = Instant::now();
        let (page, is_over) = read()?;
        let is_printed = if is_repeated && !json && io::stdout().is_terminal() {
            let (drawing, lines) = drawing(&printable(&page), drawn_lines);
            drawn_lines = lines;
            console::drawing_if_read(&drawing)?
        } else {
            console::result_if_read(&page)?
        };
        if !is_repeated || !is_printed || is_over {
            return Ok(());
        }
        thread::sleep(REFRESH_INTERVAL.max(began.elapsed() * SLEEP_PER_READ));
    }
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

/// Escape sequences and text that draw `text` over the previous `drawn_lines` lines. Lines are cut to the terminal's
/// width: a wrapped line would count as one line. Also returns the number of lines.
fn drawing(text: &str, drawn_lines: usize) -> (String, usize) {
    let width = columns(io::stdout());
    let mut drawing = if drawn_lines > 0 {
        format!("\x1b[{drawn_lines}A\x1b[J")
    } else {
        String::new()
    };
    for line in text.lines() {
        drawing.extend(line.chars().take(width));
        drawing.push('\n');
    }
    (drawing, text.lines().count())
}
