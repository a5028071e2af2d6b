//! Prints a result as text, JSON, Markdown or HTML; and prints a page repeatedly, for `--watch`.

use clap::Args;
use report::document::Document;
use report::table::Table;
use results::format::{self, printable};
use serde::Serialize;
use session::console::{self, columns, laid_out};
use session::failure::Failure;
use session::user_file::{check_page, write_page};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args, Debug, Clone, Default)]
pub struct FormArgs {
    /// Write one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print as JSON (schemas: docs/*.schema.json)
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print as Markdown, for a ticket or a wiki
    #[arg(long)]
    pub markdown: bool,
}

/// Prints the result of a command that succeeded.
pub fn done(text: &str) -> Result<ExitCode, Failure> {
    console::result(text).map(|()| ExitCode::SUCCESS)
}

/// `value` as JSON, with a newline at the end.
pub fn json(value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    report::json(value).map_err(Failure::environment)
}

pub fn csv(table: &Table) -> Result<String, Failure> {
    table.csv().map_err(Failure::environment)
}

/// Writes the HTML page of `value`, if requested, and prints its JSON, Markdown or text.
pub fn show(
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
            format::bytes(page.len() as f64)
        ));
    }
    if form.json {
        console::result(&json(value)?)
    } else if form.markdown {
        console::result(&markdown())
    } else {
        console::page(&text())
    }
}

impl FormArgs {
    /// True if a form other than text is requested.
    pub fn is_given(&self) -> bool {
        self.html.is_some() || self.json || self.markdown
    }

    /// Refuses a page that cannot be written, before anything runs.
    pub fn check(&self) -> Result<(), Failure> {
        self.html.as_deref().map(check_page).transpose().map(drop)
    }

    /// `text`, or nothing if an HTML page is written instead.
    pub fn unless_page(&self, text: impl FnOnce() -> String) -> String {
        if self.html.is_some() {
            String::new()
        } else {
            text()
        }
    }
}

/// Shows the report of the run or series in `dir` in the requested form, or `text`.
pub fn show_report(form: &FormArgs, dir: &Path, text: &str) -> Result<(), Failure> {
    if !form.is_given() {
        return console::page(text);
    }
    let document = Document::read(&[dir]).map_err(Failure::environment)?;
    show(
        form,
        &document,
        || document.html(),
        || document.markdown(),
        || text.to_owned(),
    )
}

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// `--watch` sleeps at least this many times as long as a read took: a day's tables are long, and the host is under
/// test.
const SLEEP_PER_READ: u32 = 50;

/// Prints the page of `read` once; if `is_repeated`, until `read` reports the end or the output's reader is gone.
pub fn watch(
    is_repeated: bool,
    json: bool,
    mut read: impl FnMut() -> Result<(String, bool), Failure>,
) -> Result<(), Failure> {
    let mut drawn_lines = 0;
    loop {
        let began = Instant::now();
        let (page, is_over) = read()?;
        let is_printed = if json || !io::stdout().is_terminal() {
            console::result_if_read(&page)?
        } else {
            let page = laid_out(&printable(&page), columns(io::stdout()));
            let drawing = drawing(&page, drawn_lines);
            drawn_lines = page.lines().count();
            console::drawing_if_read(&drawing)?
        };
        if !is_repeated || !is_printed || is_over {
            return Ok(());
        }
        thread::sleep(REFRESH_INTERVAL.max(began.elapsed() * SLEEP_PER_READ));
    }
}

/// Escape sequences and text that draw `text` over the previous `drawn_lines` lines. Lines are cut to the terminal's
/// width: a wrapped line would count as one line.
fn drawing(text: &str, drawn_lines: usize) -> String {
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
    drawing
}
