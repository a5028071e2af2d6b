//! Shows the results of checks, mostly of one disk, as text, Markdown, HTML and JSON: for which databases is the disk
//! good enough?

use crate::bars::Bars;
use crate::charts::identifier;
use crate::head::Head;
use crate::html::HtmlPage;
use crate::table::{Cell, Table};
use crate::words::unique;
use conclusions::check::{CheckAnswer, CheckResult, Criterion, JudgedCriterion, Look, for_option};
use conclusions::grouped;
use results::format::{count, date, shell_quoted, span_about, span_of};
use results::judge::{Headline, Outcome};
use schemars::JsonSchema;
use serde::Serialize;

/// Checks that need a longer run than this, seconds, get a command of their own.
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
    /// Checks with their worst outcome. With `require_sustained`, limits that were held too briefly give the exit code
    /// of an invalid check.
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

    /// A single check in full. For several checks, their names grouped by answer, and why checks failed.
    pub fn text(&self) -> String {
        if let ([check], []) = (&self.checks[..], &self.not_run[..])
            && let Some(look) = &check.look
        {
            return look_text(check, look);
        }
        let head = self.head();
        let mut text = head.text();
        match (&self.checks[..], &self.not_run[..]) {
            ([check], []) => text += &one(check),
            _ => text.extend(self.groups().iter().map(group_text)),
        }
        text.extend(self.missing().iter().map(|why| format!("{why}\n")));
        text + "\n" + &head.facts_text()
    }

    pub fn markdown(&self) -> String {
        let mut text = self.head().markdown();
        if let [check] = &self.checks[..] {
            return text + &check_markdown(check);
        }
        text.extend(
            self.groups()
                .iter()
                .map(|group| format!("**{}**\n\n{}\n", group.title, group.table.markdown())),
        );
        text.extend(self.missing().iter().map(|why| format!("* {why}\n")));
        for check in &self.checks {
            text += &format!(
                "\n## {}: {}\n\n{}",
                check.outcome,
                check.headline().sentence,
                check_markdown(check)
            );
        }
        text
    }

    /// A self-contained page. `made_by`: program and version.
    pub fn html(&self, made_by: &str) -> String {
        let mut page = self.head().page();
        page.warnings(&self.missing());
        if let [check] = &self.checks[..] {
            page.add(&[bars(check)]);
            page.add(&[criteria(check)]);
            page.list(&notes(check));
            page.fold("Sources", "sources", |page| page.list(&sources(check)));
            return page.html(made_by);
        }
        page.add(&[self.margins()]);
        self.groups()
            .into_iter()
            .for_each(|group| page.add(&[group.table]));
        page.heading("Each check");
        for check in &self.checks {
            let summary = format!("{}: {}", check.outcome, check.headline().sentence);
            page.fold(&summary, &anchor(check), |page| add_check(page, check));
        }
        page.html(made_by)
    }

    fn head(&self) -> Head {
        let mut head = Head::new(self.title(), self.shown_outcome(), self.headline());
        let Some(first) = self.checks.first() else {
            return head;
        };
        if let [check] = &self.checks[..] {
            head.details.extend(check.details().map(str::to_owned));
            let looks = check.look.iter();
            head.details.extend(
                looks.flat_map(|look| [format!("Doctor: {}", look.doctor), look.meaning.clone()]),
            );
        }
        head.fact("Path", &first.path);
        if first.circumstances.drives.is_empty() {
            first.disk.iter().for_each(|disk| head.fact("Disk", disk));
        }
        head = head.under(&first.circumstances);
        let seconds: f64 = self.checks.iter().map(CheckResult::seconds).sum();
        head.fact("Under load for", span_of(seconds));
        head.fact("Began", date(first.started_unix_ms));
        head.fact("Recorded by", &first.tool);
        head
    }

    /// The outcome, but not PASS if limits were held too briefly.
    fn shown_outcome(&self) -> Outcome {
        let is_brief = |check: &CheckResult| check.answer == CheckAnswer::TooBrief;
        if self.outcome == Outcome::Pass && self.checks.iter().any(is_brief) {
            Outcome::Measured
        } else {
            self.outcome
        }
    }

    fn headline(&self) -> Headline {
        if let ([check], []) = (&self.checks[..], &self.not_run[..]) {
            return check.headline();
        }
        let count_of = |answer| {
            let checks = self.checks.iter().filter(|check| check.answer == answer);
            checks.count()
        };
        let counts = [
            (count_of(CheckAnswer::NotGoodEnough), "failed"),
            (count_of(CheckAnswer::GoodEnough), "passed"),
            (
                count_of(CheckAnswer::TooBrief),
                "held their limits too briefly",
            ),
            (count_of(CheckAnswer::NoLimit), "without a published limit"),
            (
                count_of(CheckAnswer::CannotTell) + self.not_run.len(),
                "not judged",
            ),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts
            .map(|(count, text)| format!("{count} {text}"))
            .collect();
        let all = (self.checks.len() + self.not_run.len()) as u64;
        let sentence = format!("{}: {}", count(all, "check"), counts.join(", "));
        Headline::new(&sentence, self.settling_command().as_deref())
    }

    fn missing(&self) -> Vec<String> {
        self.not_run
            .iter()
            .map(|NotRun { name, why }| format!("{name} has no result: {why}"))
            .collect()
    }

    fn title(&self) -> String {
        let first = self.checks.first();
        let path = first.map_or("", |check| &check.path);
        let disk = first
            .and_then(|check| check.disk.as_deref())
            .map_or_else(String::new, |disk| format!(" ({disk})"));
        match &self.checks[..] {
            [check] if check.look.is_some() => format!("A look at {path}{disk}"),
            [check] => format!("Is {path}{disk} good enough for {}?", check.database),
            _ => format!("For which databases is {path}{disk} good enough?"),
        }
    }

    /// The checks by their answers, failed ones first, with the criterion that decides each check.
    fn groups(&self) -> Vec<AnswerGroup> {
        let mut checks: Vec<_> = self
            .checks
            .iter()
            .map(|check| (check.answer, check))
            .collect();
        checks.sort_by_key(|(answer, _)| answer.rank());
        grouped(checks)
            .into_iter()
            .map(|(answer, checks)| group(answer, &checks))
            .collect()
    }

    /// A row for each criterion of each check.
    pub fn table(&self) -> Table {
        let mut table = Table::new("Checks")
            .text(["check", "answer", "run", "criterion"])
            .numbers(["measured", "limit"])
            .text(["source"]);
        for check in &self.checks {
            for judged in &check.criteria {
                table.row([
                    check.name.clone(),
                    check.answer.to_string(),
                    judged.criterion.run.clone(),
                    judged.criterion.metric_and_stream(),
                    judged.figure_text(),
                    limit_text(judged).unwrap_or_default(),
                    judged.criterion.source.clone().unwrap_or_default(),
                ]);
            }
        }
        table
    }

    /// Bars of all checks with a limit, the worst first.
    fn margins(&self) -> Bars {
        let decisive = self.checks.iter().filter_map(|check| {
            let judged = check
                .decisive_criterion()
                .filter(|_| check.answer != CheckAnswer::NoLimit)?;
            (judged.criterion.limit.is_some() && judged.figure.is_some()).then_some((check, judged))
        });
        let mut decisive: Vec<_> = decisive.collect();
        decisive.sort_by(|a, b| a.1.margin().total_cmp(&b.1.margin()));
        let mut bars = Bars::new("Margin to the nearest limit of each check", MARGINS);
        for (check, judged) in decisive {
            margin(&mut bars, check.name.clone(), judged);
        }
        bars
    }

    /// Commands that get the missing answers. Checks that need much longer than the others get a second command.
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
        let mut commands: Vec<_> = [short, long]
            .into_iter()
            .filter_map(|open: Vec<&CheckResult>| {
                let path = shell_quoted(&open.first()?.path);
                let names: Vec<_> = open.iter().map(|check| check.name.as_str()).collect();
                let names = names.join(",");
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
        let not_run: Vec<_> = self
            .not_run
            .iter()
            .map(|check| check.name.as_str())
            .collect();
        if let (Some(first), false) = (self.checks.first(), not_run.is_empty()) {
            let path = shell_quoted(&first.path);
            commands.push(format!("flashproof check {} {path}", not_run.join(",")));
        }
        (!commands.is_empty())
            .then(|| format!("get the missing answers: {}", commands.join("; then ")))
    }
}

struct AnswerGroup {
    answer: CheckAnswer,
    /// Outcome, answer and names.
    title: String,
    table: Table,
}

/// Three lines and the next command.
fn look_text(check: &CheckResult, look: &Look) -> String {
    let answer = if check.outcome == Outcome::Invalid {
        check.with_answer(&check.sentence)
    } else {
        check.sentence.clone()
    };
    format!(
        "Doctor: {}\n{}: {answer}\n{}\nNext: {}\n\n",
        look.doctor, check.outcome, look.meaning, look.next
    )
}

/// The names of the checks. For checks that failed or were not judged, also the reason.
fn group_text(group: &AnswerGroup) -> String {
    let is_open = matches!(
        group.answer,
        CheckAnswer::NotGoodEnough | CheckAnswer::CannotTell
    );
    let mut text = format!("{}\n", group.title);
    if is_open {
        text.extend(
            group
                .table
                .to_string()
                .lines()
                .map(|line| format!("  {line}\n")),
        );
    }
    text
}

fn group(answer: CheckAnswer, checks: &[&CheckResult]) -> AnswerGroup {
    let names: Vec<_> = checks
        .iter()
        .map(|check| match check.met_tier() {
            Some((tier, _)) => format!("{} (for {tier})", check.name),
            None => check.name.clone(),
        })
        .collect();
    let outcome = checks
        .first()
        .map_or(Outcome::Invalid, |check| check.outcome);
    let mut seconds: Vec<f64> = checks.iter().map(|check| check.seconds().round()).collect();
    seconds.sort_by(f64::total_cmp);
    let times = unique([seconds.first(), seconds.last()].into_iter().flatten());
    let times: Vec<_> = times.into_iter().map(|seconds| span_of(*seconds)).collect();
    let words = match answer {
        CheckAnswer::NotGoodEnough => String::new(),
        CheckAnswer::TooBrief => format!(", limits held for {} only", times.join(" to ")),
        answer => format!(", {answer}"),
    };
    let decided = if answer == CheckAnswer::NoLimit {
        "value"
    } else {
        "decided by"
    };
    let title = format!("{outcome}{words}: {}", names.join(", "));
    let mut table = Table::new(&title).text(["check", decided, "measured", "limit"]);
    for check in checks {
        let [subject, figure, limit] = match check.decisive_criterion() {
            Some(judged) => [
                run_and_metric(judged),
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
        let name = Cell::link(check.name.clone(), anchor(check));
        table.row([name, subject.into(), figure, limit.into()]);
    }
    AnswerGroup {
        answer,
        title,
        table,
    }
}

fn anchor(check: &CheckResult) -> String {
    format!("check-{}", identifier(&check.name))
}

fn run_and_metric(judged: &JudgedCriterion) -> String {
    format!(
        "{}: {}",
        judged.criterion.run,
        judged.criterion.metric_and_stream()
    )
}

/// The limit in words. If the limit does not decide, with the reason: `below 1 s (warning)`.
fn limit_text(judged: &JudgedCriterion) -> Option<String> {
    let limit = judged.criterion.limit_text()?;
    if judged.outcome == Outcome::Invalid && judged.fraction_of_limit() >= 1.0 {
        return Some(format!("{limit} (not held, not judged)"));
    }
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
    let mut text = format!("\n{}\n", criteria(check));
    text.extend(
        sources(check)
            .iter()
            .chain(&notes(check))
            .map(|note| format!("  {note}\n")),
    );
    text
}

fn check_markdown(check: &CheckResult) -> String {
    let mut text = criteria(check).markdown();
    sources(check)
        .iter()
        .chain(&notes(check))
        .for_each(|note| text += &format!("\n* {note}"));
    text + "\n"
}

fn add_check(page: &mut HtmlPage, check: &CheckResult) {
    page.list(&[&check.question]);
    page.add(&[bars(check)]);
    page.add(&[criteria(check)]);
    page.list(&sources(check));
    page.list(&notes(check));
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
        let address = judged.criterion.source.as_deref().unwrap_or_default();
        let run = judged.criterion.run.as_str();
        let metric = judged.criterion.metric_and_stream();
        let source = Cell::web(source, address);
        table.row([run.into(), metric.into(), figure, limit.into(), source]);
    }
    table
}

/// The statement about the limit, and the address of its source, if there is one.
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

/// The statements about the limits, each once.
fn statements(check: &CheckResult) -> Vec<String> {
    unique(
        check
            .criteria
            .iter()
            .map(statement_of)
            .filter(|statement| !statement.is_empty()),
    )
}

/// The statements about the limits, numbered. A repeated address becomes a reference to its first statement.
fn sources(check: &CheckResult) -> Vec<String> {
    let statements = statements(check);
    let numbered = |(at, statement): (usize, &String)| {
        let begin = statement.rfind(" (https://").unwrap_or(statement.len());
        let (text, address) = statement.split_at(begin);
        let mut earlier = statements[..at].iter();
        let first = earlier.position(|one| !address.is_empty() && one.ends_with(address));
        let address = first.map_or_else(
            || address.to_owned(),
            |first| format!(" (page of [{}])", first + 1),
        );
        format!("[{}] {text}{address}", at + 1)
    };
    statements.iter().enumerate().map(numbered).collect()
}

const MARGINS: &str = "Each bar shows how many times better a value is than its limit. The dashed line is the limit: a bar \
                       that ends before the line does not hold its limit. Bars end at twice the limit.";

fn bars(check: &CheckResult) -> Bars {
    let mut bars = Bars::new("Margin to each limit", MARGINS);
    check
        .criteria
        .iter()
        .filter(|judged| judged.criterion.limit.is_some() && judged.figure.is_some())
        .for_each(|judged| margin(&mut bars, run_and_metric(judged), judged));
    bars
}

fn margin(bars: &mut Bars, name: String, judged: &JudgedCriterion) {
    let limit = limit_text(judged).unwrap_or_default();
    let is_over = judged.outcome == Outcome::Fail || judged.is_beyond_shown_limit();
    let text = format!("{} (limit: {limit})", judged.figure_text());
    bars.against(name, judged.margin(), 1.0, text, is_over);
}

fn notes(check: &CheckResult) -> Vec<String> {
    let mut notes: Vec<String> = check
        .note
        .iter()
        .map(|note| format!("note: {note}"))
        .collect();
    notes.extend(check.remarks.clone());
    if check.answer == CheckAnswer::TooBrief {
        notes.push(format!("why a longer test: {}", check.sustained.why));
    }
    // A limit of a higher tier that was not held is left out: the sentence of the check names it.
    let shown = check
        .criteria
        .iter()
        .filter(|judged| judged.is_beyond_shown_limit() && !judged.criterion.is_of_higher_tier);
    notes.extend(
        shown.map(|judged| format!("not held, no effect on the answer: {}", judged.sentence())),
    );
    let runs = check
        .runs
        .iter()
        .filter(|run| matches!(run.outcome, Outcome::Fail | Outcome::Invalid))
        .filter(|run| !check.sentence.contains(&run.reason));
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
