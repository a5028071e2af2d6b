//! Results of checks, mostly of one disk: for which databases is the disk good enough? As text, Markdown, HTML and
//! JSON.

use crate::bars::Bars;
use crate::html::Page;
use crate::table::{Cell, Table};
use crate::words::{OutcomeLabel, unique};
use conclusions::check::{Check, Criterion, Judged, Standing};
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
    /// Failed action, cause and remedy.
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

    /// A single check in full, several as a table.
    pub fn text(&self) -> String {
        match (&self.checks[..], &self.not_run[..]) {
            ([check], []) => one(check),
            _ => {
                let mut text = self.overview().to_string();
                text.extend(self.missing().iter().map(|why| wrapped(why, "  ", COLUMNS)));
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
            let Check { name, outcome, sentence, .. } = check;
            text += &format!("\n## {name}: {outcome}\n\n{sentence}\n\n{}", criteria(check).markdown());
            sources(check).iter().chain(&notes(check)).for_each(|note| text += &format!("\n* {note}"));
            text += "\n";
        }
        text
    }

    /// A self-contained page. `made_by`: program and version.
    pub fn html(&self, made_by: &str) -> String {
        let mut page = Page::new(self.title());
        page.warnings(&self.missing());
        page.add(&[self.overview()]);
        for check in &self.checks {
            page.heading(&format!("{}: {} - {}", check.name, check.outcome, check.question));
            page.list(&[&check.sentence]);
            let bars = bars(check);
            if !bars.is_empty() {
                page.add(&[bars]);
            }
            page.add(&[criteria(check)]);
            page.list(&sources(check));
            page.list(&notes(check));
        }
        page.html(made_by)
    }

    fn missing(&self) -> Vec<String> {
        self.not_run.iter().map(|NotRun { name, why }| format!("{name}: {why}")).collect()
    }

    fn title(&self) -> String {
        let first = self.checks.first();
        let path = first.map_or("", |check| &check.path);
        let disk = first.and_then(|check| check.disk.as_deref()).map_or_else(String::new, |disk| format!(" ({disk})"));
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
            let [subject, figure, limit] = match decisive {
                Some(judged) => [
                    format!("{}: {}", judged.criterion.run, judged.criterion.metric_and_stream()),
                    judged.figure_text(),
                    judged.criterion.limit_text().unwrap_or_else(|| "none published".into()),
                ],
                None => [check.sentence.clone(), String::new(), String::new()],
            };
            let figure = if check.outcome == Outcome::Fail { Cell::bad(figure) } else { figure.into() };
            let verdict = Cell::outcome(OutcomeLabel::of(Some(check.outcome)));
            table.row([check.name.as_str().into(), verdict, subject.into(), figure, limit.into()]);
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
    text += &format!("\n{}\n", criteria(check));
    text.extend(sources(check).iter().chain(&notes(check)).map(|note| wrapped(note, "  ", COLUMNS)));
    text
}

fn criteria(check: &Check) -> Table {
    let mut table = Table::new("Criteria").text(["run", "criterion"]).numbers(["measured", "limit"]).text(["source"]);
    let statements = statements(check);
    for judged in &check.criteria {
        let figure = judged.figure_text();
        let is_bad = judged.outcome == Outcome::Fail || judged.is_beyond_folklore();
        let figure = if is_bad { Cell::bad(figure) } else { figure.into() };
        let limit = judged.criterion.limit_text().unwrap_or_else(|| "-".into());
        let at = statements.iter().position(|statement| *statement == statement_of(judged));
        let source = at.map_or_else(String::new, |at| format!("[{}]", at + 1));
        let (run, what) = (judged.criterion.run.as_str(), judged.criterion.metric_and_stream());
        table.row([run.into(), what.into(), figure, limit.into(), source.into()]);
    }
    table
}

/// The statement of a source and its address; without a source, only the statement.
fn statement_of(judged: &Judged) -> String {
    let Criterion { says, source, standing, .. } = &judged.criterion;
    let folklore = if *standing == Some(Standing::Folklore) { "folklore: " } else { "" };
    source.as_ref().map_or_else(|| says.clone(), |source| format!("{folklore}{says} ({source})"))
}

/// Statements behind the criteria, each once.
fn statements(check: &Check) -> Vec<String> {
    unique(check.criteria.iter().map(statement_of).filter(|statement| !statement.is_empty()))
}

/// Sources, each with its number.
fn sources(check: &Check) -> Vec<String> {
    statements(check).iter().enumerate().map(|(at, statement)| format!("[{}] {statement}", at + 1)).collect()
}

/// Bars of the criteria with limits: each measured value, as a part of its limit.
fn bars(check: &Check) -> Bars {
    let mut bars = Bars::new(
        "Measured against the limits",
        "The dashed line is the limit: longer bars are bad. Bars are cut off at twice the limit.",
    );
    for judged in check.criteria.iter().filter(|judged| judged.criterion.limit.is_some() && judged.figure.is_some()) {
        let name = format!("{}: {}", judged.criterion.run, judged.criterion.metric_and_stream());
        let limit = judged.criterion.limit_text().unwrap_or_default();
        let is_over = judged.outcome == Outcome::Fail || judged.is_beyond_folklore();
        bars.against(name, judged.fraction_of_limit(), 1.0, format!("{} ({limit})", judged.figure_text()), is_over);
    }
    bars
}

/// Sentences below the criteria.
fn notes(check: &Check) -> Vec<String> {
    let mut notes = check.remarks.clone();
    let folklore = check.criteria.iter().filter(|judged| judged.is_beyond_folklore());
    notes.extend(
        folklore.map(|judged| format!("over a folklore limit, and such limits do not count: {}", judged.sentence())),
    );
    let runs = check.runs.iter().filter(|run| matches!(run.outcome, Outcome::Fail | Outcome::Invalid));
    notes.extend(runs.map(|run| format!("run {}: {}: {}", run.name, run.outcome, run.reason)));
    if !check.cannot_see.is_empty() {
        notes.push(format!("not tested: {}", check.cannot_see.join("; ")));
    }
    notes.extend(check.files.iter().map(|file| format!("also written, beside the record: {file}")));
    notes
}
