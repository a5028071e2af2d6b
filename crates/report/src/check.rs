//! Results of checks, mostly of one disk: for which databases is the disk good enough? As text, Markdown, HTML and
//! JSON.

use crate::bars::Bars;
use crate::html::HtmlPage;
use crate::table::{Cell, Table};
use crate::words::{OutcomeLabel, unique};
use conclusions::check::{CheckAnswer, CheckResult, Criterion, JudgedCriterion, for_option};
use conclusions::grouped;
use results::format::{shell_quoted, span_about, wrapped};
use results::judge::Outcome;
use schemars::JsonSchema;
use serde::Serialize;

const COLUMNS: usize = 100;

/// A check whose answer needs a longer run than this is repeated apart, seconds.
const SETTLING_SEC_MAX: u64 = 4 * 3_600;

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
    pub checks: Vec<CheckResult>,
    pub not_run: Vec<NotRun>,
}

impl Checks {
    /// `require_sustained`: limits that were held too briefly have the exit code of an invalid check.
    pub fn new(checks: Vec<CheckResult>, not_run: Vec<NotRun>, require_sustained: bool) -> Self {
        let missing = (!not_run.is_empty()).then_some(Outcome::Invalid);
        let outcome = checks
            .iter()
            .map(|check| check.outcome)
            .chain(missing)
            .max()
            .unwrap_or(Outcome::Invalid);
        let is_brief = require_sustained
            && checks
                .iter()
                .any(|check| check.answer == CheckAnswer::TooBrief);
        let exit_code = outcome
            .max(if is_brief { Outcome::Invalid } else { outcome })
            .exit_code();
        Self {
            outcome,
            exit_code,
            checks,
            not_run,
        }
    }

    /// A single check in full, several as a line each.
    pub fn text(&self) -> String {
        match (&self.checks[..], &self.not_run[..]) {
            ([check], []) => one(check),
            _ => {
                let mut text = String::new();
                for group in self.groups() {
                    text += &wrapped(&group.title, "", COLUMNS);
                    text.extend(group.to_string().lines().map(|line| format!("  {line}\n")));
                    text += "\n";
                }
                text.extend(self.missing().iter().map(|why| wrapped(why, "", COLUMNS)));
                text + &self
                    .settling_command()
                    .map_or_else(String::new, |command| format!("{command}\n"))
            }
        }
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n", self.title());
        text.extend(
            self.groups()
                .iter()
                .map(|group| format!("\n**{}**\n\n{}", group.title, group.markdown())),
        );
        let others = self.missing().into_iter().chain(self.settling_command());
        text.extend(others.map(|sentence| format!("\n* {}\n", sentence.replace('\n', " "))));
        for check in &self.checks {
            let CheckResult {
                name,
                answer,
                sentence,
                ..
            } = check;
            text += &format!(
                "\n## {name}: {answer}\n\n{sentence}\n\n{}",
                criteria(check).markdown()
            );
            sources(check)
                .iter()
                .chain(&notes(check))
                .for_each(|note| text += &format!("\n* {note}"));
            text += "\n";
        }
        text
    }

    /// A self-contained page. `made_by`: program and version.
    pub fn html(&self, made_by: &str) -> String {
        let mut page = HtmlPage::new(self.title());
        page.warnings(&self.missing());
        self.groups()
            .into_iter()
            .for_each(|group| page.add(&[group]));
        page.list(self.settling_command().as_slice());
        for check in &self.checks {
            page.heading(&format!(
                "{}: {} - {}",
                check.name, check.answer, check.question
            ));
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
        self.not_run
            .iter()
            .map(|NotRun { name, why }| format!("{name} did not run: {why}"))
            .collect()
    }

    fn title(&self) -> String {
        let first = self.checks.first();
        let path = first.map_or("", |check| &check.path);
        let disk = first
            .and_then(|check| check.disk.as_deref())
            .map_or_else(String::new, |disk| format!(" ({disk})"));
        match &self.checks[..] {
            [check] => format!("Is {path}{disk} good enough for {}?", check.database),
            _ => format!("For which databases is {path}{disk} good enough?"),
        }
    }

    /// The checks by their answers, the best first: a table for each answer, with the criterion that decides each check.
    fn groups(&self) -> Vec<Table> {
        let mut checks: Vec<_> = self
            .checks
            .iter()
            .map(|check| (check.answer, check))
            .collect();
        checks.sort_by_key(|(answer, _)| *answer);
        grouped(checks)
            .into_iter()
            .map(|(answer, checks)| group(answer, &checks))
            .collect()
    }

    /// The command that settles the open answers of several checks. Checks that need much longer are named apart.
    fn settling_command(&self) -> Option<String> {
        let is_open = |check: &&CheckResult| {
            matches!(
                check.answer,
                CheckAnswer::TooBrief | CheckAnswer::CannotTell
            )
        };
        let open = self.checks.iter().filter(is_open);
        let (long, short): (Vec<_>, Vec<_>) =
            open.filter(|_| self.checks.len() > 1)
                .partition(|check: &&CheckResult| {
                    check
                        .needed_time()
                        .is_some_and(|sec| sec > SETTLING_SEC_MAX)
                });
        let commands: Vec<_> = [short, long]
            .into_iter()
            .filter_map(|open: Vec<&CheckResult>| {
                let path = shell_quoted(&open.first()?.path);
                let names = open
                    .iter()
                    .map(|check| check.name.as_str())
                    .collect::<Vec<_>>()
                    .join(",");
                let time = open
                    .iter()
                    .filter_map(|check| check.needed_time())
                    .max()
                    .map_or_else(String::new, |sec| {
                        format!(
                            " --for {} ({} of load)",
                            for_option(sec),
                            span_about((sec * open.len() as u64) as f64)
                        )
                    });
                Some(format!("flashproof check {names} {path}{time}"))
            })
            .collect();
        (!commands.is_empty())
            .then(|| format!("To settle what is open: {}", commands.join("; then ")))
    }
}

fn group(answer: CheckAnswer, checks: &[&CheckResult]) -> Table {
    let names: Vec<_> = checks
        .iter()
        .map(|check| match check.met_tier() {
            Some((tier, _)) => format!("{} (for {tier})", check.name),
            None => check.name.clone(),
        })
        .collect();
    let which = if names.len() > 8 {
        format!("{} checks", names.len())
    } else {
        names.join(", ")
    };
    let decided = if answer == CheckAnswer::NoLimit {
        "value"
    } else {
        "decided by"
    };
    let mut table =
        Table::new(format!("{answer}: {which}")).text(["check", decided, "measured", "limit"]);
    for check in checks {
        let [subject, figure, limit] = match check.decisive_criterion() {
            Some(judged) => [
                format!(
                    "{}: {}",
                    judged.criterion.run,
                    judged.criterion.metric_and_stream()
                ),
                judged.figure_text(),
                limit_text(judged).unwrap_or_else(|| "none published".into()),
            ],
            None => [check.sentence.clone(), String::new(), String::new()],
        };
        let figure = if check.outcome == Outcome::Fail {
            Cell::bad(figure)
        } else {
            figure.into()
        };
        let name = Cell::outcome(OutcomeLabel {
            text: check.name.clone(),
            look: Some(check.outcome),
        });
        table.row([name, subject.into(), figure, limit.into()]);
    }
    table
}

/// The limit in words. If the limit does not decide, with the reason: `below 1 s (warning)`.
fn limit_text(judged: &JudgedCriterion) -> Option<String> {
    let limit = judged.criterion.limit_text()?;
    let not_met = if judged.is_beyond_shown_limit() {
        ", not held"
    } else {
        ""
    };
    let shown = judged.criterion.only_shown_as();
    Some(shown.map_or_else(
        || limit.clone(),
        |reason| format!("{limit} ({reason}{not_met})"),
    ))
}

fn one(check: &CheckResult) -> String {
    let disk = check
        .disk
        .as_deref()
        .map_or_else(String::new, |disk| format!(" ({disk})"));
    let mut text = format!(
        "{}: {} on {}{disk}\n",
        check.answer, check.database, check.path
    );
    text += &wrapped(&check.sentence, "  ", COLUMNS);
    text += &format!("\n{}\n", criteria(check));
    text.extend(
        sources(check)
            .iter()
            .chain(&notes(check))
            .map(|note| wrapped(note, "  ", COLUMNS)),
    );
    text
}

fn criteria(check: &CheckResult) -> Table {
    let mut table = Table::new("Criteria")
        .text(["run", "criterion"])
        .numbers(["measured", "limit"])
        .text(["source"]);
    let statements = statements(check);
    for judged in &check.criteria {
        let figure = judged.figure_text();
        let is_bad = judged.outcome == Outcome::Fail || judged.is_beyond_shown_limit();
        let figure = if is_bad {
            Cell::bad(figure)
        } else {
            figure.into()
        };
        let limit = limit_text(judged).unwrap_or_else(|| "-".into());
        let at = statements
            .iter()
            .position(|statement| *statement == statement_of(judged));
        let source = at.map_or_else(String::new, |at| format!("[{}]", at + 1));
        let run = judged.criterion.run.as_str();
        let what = judged.criterion.metric_and_stream();
        table.row([run.into(), what.into(), figure, limit.into(), source.into()]);
    }
    table
}

/// The statement of a source and its address; without a source, only the statement.
fn statement_of(judged: &JudgedCriterion) -> String {
    let Criterion { says, source, .. } = &judged.criterion;
    let reason = judged
        .criterion
        .only_shown_as()
        .map_or_else(String::new, |reason| format!("{reason}: "));
    source.as_ref().map_or_else(
        || says.clone(),
        |source| format!("{reason}{says} ({source})"),
    )
}

/// Statements behind the criteria, each once.
fn statements(check: &CheckResult) -> Vec<String> {
    unique(
        check
            .criteria
            .iter()
            .map(statement_of)
            .filter(|statement| !statement.is_empty()),
    )
}

fn sources(check: &CheckResult) -> Vec<String> {
    statements(check)
        .iter()
        .enumerate()
        .map(|(at, statement)| format!("[{}] {statement}", at + 1))
        .collect()
}

/// Bars of the criteria with limits: each measured value, as a part of its limit.
fn bars(check: &CheckResult) -> Bars {
    let mut bars = Bars::new(
        "Measured against the limits",
        "The dashed line is the limit: longer bars are bad. Bars are cut off at twice the limit.",
    );
    for judged in check
        .criteria
        .iter()
        .filter(|judged| judged.criterion.limit.is_some() && judged.figure.is_some())
    {
        let name = format!(
            "{}: {}",
            judged.criterion.run,
            judged.criterion.metric_and_stream()
        );
        let limit = limit_text(judged).unwrap_or_default();
        let is_over = judged.outcome == Outcome::Fail || judged.is_beyond_shown_limit();
        bars.against(
            name,
            judged.fraction_of_limit(),
            1.0,
            format!("{} ({limit})", judged.figure_text()),
            is_over,
        );
    }
    bars
}

fn notes(check: &CheckResult) -> Vec<String> {
    let mut notes: Vec<String> = check
        .note
        .iter()
        .map(|note| format!("note: {note}"))
        .collect();
    notes.extend(check.remarks.clone());
    // The sentence names the limit of a higher tier.
    let shown = check
        .criteria
        .iter()
        .filter(|judged| judged.is_beyond_shown_limit() && !judged.criterion.is_of_higher_tier);
    notes.extend(
        shown.map(|judged| format!("beyond a limit that does not decide: {}", judged.sentence())),
    );
    let runs = check
        .runs
        .iter()
        .filter(|run| matches!(run.outcome, Outcome::Fail | Outcome::Invalid));
    notes.extend(runs.map(|run| format!("run {}: {}: {}", run.name, run.outcome, run.reason)));
    if !check.cannot_see.is_empty() {
        notes.push(format!("not tested: {}", check.cannot_see.join("; ")));
    }
    notes.extend(
        check
            .files
            .iter()
            .map(|file| format!("also written, beside the record: {file}")),
    );
    notes
}
