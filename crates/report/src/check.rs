//! Results of checks: as text, Markdown, HTML and JSON. Of one disk mostly: for which databases it is good enough.

use crate::bars::Bars;
use crate::html::Page;
use crate::table::{Cell, Table};
use crate::words::Shown;
use results::check::{Check, Judged, Standing};
use results::judge::Outcome;
use results::units::wrapped;
use schemars::JsonSchema;
use serde::Serialize;

/// Columns of a terminal for sentences.
const COLUMNS: usize = 100;

/// A check that could not be performed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NotRun {
    pub name: String,
    /// What failed, why, and the remedy.
    pub why: String,
}

/// Checks of one disk.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Checks {
    /// The worst outcome; invalid if a check could not be performed and none failed.
    pub outcome: Outcome,
    /// Exit code of the command.
    pub exit_code: u8,
    pub checks: Vec<Check>,
    pub not_run: Vec<NotRun>,
}

impl Checks {
    pub fn new(checks: Vec<Check>, not_run: Vec<NotRun>) -> Self {
        let missing = (!not_run.is_empty()).then_some(Outcome::Invalid);
        let outcome = checks.iter().map(|check| check.outcome).chain(missing).max().unwrap_or(Outcome::Invalid);
        Self { outcome, exit_code: outcome.exit_code(), checks, not_run }
    }

    /// One check in full, several as a table.
    pub fn text(&self) -> String {
        match (&self.checks[..], &self.not_run[..]) {
            ([check], []) => one(check),
            _ => {
                let mut text = self.overview().to_string();
                for NotRun { name, why } in &self.not_run {
                    text += &wrapped(&format!("{name}: {why}"), "  ", COLUMNS);
                }
                text
            }
        }
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}", self.title(), self.overview().markdown());
        for NotRun { name, why } in &self.not_run {
            text += &format!("\n* {name}: {}\n", why.replace('\n', " "));
        }
        for check in &self.checks {
            text += &format!(
                "\n## {}: {}\n\n{}\n\n{}",
                check.name,
                check.outcome,
                check.sentence,
                criteria(check, origin).markdown()
            );
            notes(check).iter().for_each(|note| text += &format!("\n* {note}"));
            text += "\n";
        }
        text
    }

    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// A self-contained page. `made_by`: program and version.
    pub fn html(&self, made_by: &str) -> String {
        let mut page = Page::new(self.title());
        let not_run: Vec<_> = self.not_run.iter().map(|NotRun { name, why }| format!("{name}: {why}")).collect();
        page.warnings(&not_run);
        page.add(&[self.overview()]);
        for check in &self.checks {
            page.heading(&format!("{}: {} - {}", check.name, check.outcome, check.question));
            page.list(&[&check.sentence]);
            let bars = bars(check);
            if !bars.is_empty() {
                page.add(&[bars]);
            }
            page.add(&[criteria(check, origin)]);
            page.list(&notes(check));
        }
        page.html(made_by)
    }

    fn title(&self) -> String {
        let path = self.checks.first().map_or("", |check| &check.path);
        let disk = self
            .checks
            .first()
            .and_then(|check| check.disk.as_deref())
            .map_or_else(String::new, |disk| format!(" ({disk})"));
        match &self.checks[..] {
            [check] => format!("Is {path}{disk} good enough for {}?", check.database),
            _ => format!("For which databases is {path}{disk} good enough?"),
        }
    }

    /// A row for each check: the verdict, and the criterion that decides it.
    fn overview(&self) -> Table {
        let mut table = Table::new("").text(["check", "verdict", "decided by", "measured", "limit"]);
        for check in &self.checks {
            let decisive = check.decisive_criterion();
            let [what, figure, limit] = match decisive {
                Some(judged) => [
                    format!("{}: {}", judged.criterion.run, judged.criterion.what()),
                    judged.figure_text(),
                    judged.criterion.limit_text().unwrap_or_else(|| "none published".into()),
                ],
                None => [check.sentence.clone(), String::new(), String::new()],
            };
            let figure = if check.outcome == Outcome::Fail { Cell::bad(figure) } else { figure.into() };
            table.row([
                check.name.as_str().into(),
                Cell::outcome(Shown::of(Some(check.outcome))),
                what.into(),
                figure,
                limit.into(),
            ]);
        }
        for NotRun { name, .. } in &self.not_run {
            table.row([name.as_str(), "not run", "", "", ""]);
        }
        table
    }
}

/// A check on a terminal.
fn one(check: &Check) -> String {
    let disk = check.disk.as_deref().map_or_else(String::new, |disk| format!(" ({disk})"));
    let mut text = format!("{} {} on {}{disk}\n", check.outcome, check.database, check.path);
    text += &wrapped(&check.sentence, "  ", COLUMNS);
    let sources = sources(check);
    let numbered = |judged: &Judged| match sources.iter().position(|source| *source == origin(judged)) {
        Some(at) => format!("[{}]", at + 1),
        None => String::new(),
    };
    text += &format!("\n{}\n", criteria(check, numbered));
    for (at, source) in sources.iter().enumerate() {
        text += &format!("  [{}] {source}\n", at + 1);
    }
    notes(check).iter().for_each(|note| text += &wrapped(note, "  ", COLUMNS));
    text
}

/// Sources of the limits, each once.
fn sources(check: &Check) -> Vec<String> {
    let mut sources = Vec::new();
    for source in check.criteria.iter().map(origin).filter(|source| !source.is_empty()) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources
}

/// The criteria; `origin` fills the last column.
fn criteria(check: &Check, origin: impl Fn(&Judged) -> String) -> Table {
    let mut table = Table::new("Criteria").text(["run", "criterion"]).numbers(["measured", "limit"]).text(["from"]);
    for judged in &check.criteria {
        let figure = judged.figure_text();
        let figure = if judged.outcome == Outcome::Fail { Cell::bad(figure) } else { figure.into() };
        let limit = judged.criterion.limit_text().unwrap_or_else(|| "-".into());
        let what = judged.criterion.what();
        table.row([judged.criterion.run.as_str().into(), what.into(), figure, limit.into(), origin(judged).into()]);
    }
    table
}

/// Source of a limit: published or folklore, and where.
fn origin(judged: &Judged) -> String {
    match (&judged.criterion.source, judged.criterion.standing) {
        (Some(source), Some(Standing::Folklore)) => format!("folklore, {source}"),
        (Some(source), _) => source.clone(),
        (None, _) => String::new(),
    }
}

/// Bars of the criteria with limits: how much of its limit each uses.
fn bars(check: &Check) -> Bars {
    let mut bars = Bars::new(
        "Measured against the limits",
        "The dashed line is the limit; a bar ends at twice that. Right of the line is bad.",
    );
    for judged in check.criteria.iter().filter(|judged| judged.criterion.limit.is_some() && judged.figure.is_some()) {
        let name = format!("{}: {}", judged.criterion.run, judged.criterion.what());
        let limit = judged.criterion.limit_text().unwrap_or_default();
        let is_over = judged.outcome == Outcome::Fail;
        bars.against(name, judged.used(), 1.0, format!("{} ({limit})", judged.figure_text()), is_over);
    }
    bars
}

/// Sentences below the criteria.
fn notes(check: &Check) -> Vec<String> {
    let mut notes = check.remarks.clone();
    let runs = check.runs.iter().filter(|run| matches!(run.outcome, Outcome::Fail | Outcome::Invalid));
    notes.extend(runs.map(|run| format!("run {}: {}: {}", run.name, run.outcome, run.reason)));
    if !check.cannot_see.is_empty() {
        notes.push(format!("not tested: {}", check.cannot_see.join("; ")));
    }
    notes.extend(check.files.iter().map(|file| format!("wrote {file} beside the record")));
    notes
}
