//! The document as one page of HTML: no network, no other file, readable without a script.
//!
//! Plain functions instead of templates: the page is a dozen headings, tables and figures, each a few
//! lines, and every text passes [`escape::text`] where it enters. Charts are drawn by `draw.js`, which is in
//! the page, from JSON that is in the page; a policy in its head forbids the browser to fetch anything.
//! Whoever has no script still reads all numbers that decide.

mod chart;
mod escape;
mod facts;
mod parts;
mod plot;
mod run;
mod series;

use crate::document::{Document, Report};
use escape::text;

pub(crate) use series::step_outcome;

const STYLE: &str = include_str!("page.css");
/// Counts errors from the first moment on.
const GUARD: &str = include_str!("guard.js");
/// Draws the charts.
const DRAW: &str = include_str!("draw.js");
/// What every page has near its beginning, so that one is told from other files.
pub(crate) const MARK: &str = "<meta name=\"generator\" content=\"flashproof\">";
/// The page may run what is in it, and fetch nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";

/// The page.
pub(crate) fn page(document: &Document) -> String {
    let mut plots = plot::Plots::default();
    let mut content = String::new();
    for (number, report) in document.reports.iter().enumerate() {
        let place = if document.reports.len() > 1 { format!("report-{}-", number + 1) } else { String::new() };
        content += &match report {
            Report::Run(run) => run::article(run, &place, 1, &mut plots),
            Report::Series(series) => series::article(series, &place, &mut plots),
        };
    }
    let title = match &document.reports[..] {
        [one] => title(one),
        several => format!("{} reports", several.len()),
    };
    let expected = plots.count();
    let overview = if document.reports.len() > 1 { overview(document) } else { String::new() };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{MARK}\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<script>\n{GUARD}</script>\n</head>\n\
         <body data-charts-expected=\"{expected}\">\n\
         <noscript><p class=\"banner\">This browser runs no scripts: charts are left out, all else is here.</p></noscript>\n\
         <p class=\"banner\" id=\"trouble\" hidden></p>\n<main>\n{overview}{content}</main>\n\
         <footer><p>Made by {made_by} from recorded data alone; nothing is fetched. In a chart: drag to zoom, double \
         click to go back, click a name to hide its line.</p></footer>\n\
         <script type=\"application/json\" id=\"charts\">{data}</script>\n\
         <script>\n{DRAW}</script>\n</body>\n</html>\n",
        title = text(&title),
        made_by = text(&document.made_by),
        data = plots.json(),
    )
}

fn title(report: &Report) -> String {
    let (title, outcome) = match report {
        Report::Run(run) => (&run.title, Some(run.verdict.outcome)),
        Report::Series(series) => (&series.title, series.series.conclusion.as_ref().map(|end| end.outcome)),
    };
    let outcome = outcome.map_or("UNFINISHED", crate::words::outcome);
    format!("{outcome}: {title}")
}

/// Several reports in a table, each with a link to its own.
fn overview(document: &Document) -> String {
    let mut rows = Vec::new();
    for (number, report) in document.reports.iter().enumerate() {
        let (title, outcome, decided) = match report {
            Report::Run(run) => (&run.title, Some(run.verdict.outcome), Some(run.reasons().0)),
            Report::Series(series) => {
                let end = series.series.conclusion.as_ref();
                (&series.title, end.map(|end| end.outcome), end.map(|end| end.sentence.clone()))
            }
        };
        rows.push(vec![
            format!("<a href=\"#report-{}-top\">{}</a>", number + 1, text(title)),
            parts::badge(outcome),
            text(&decided.unwrap_or_default()),
            format!("<code>{}</code>", text(report.dir())),
        ]);
    }
    let table = parts::table("Reports on this page", &["what", "outcome", "what decided", "directory"], &rows);
    format!("<section class=\"overview\"><h1>Reports</h1>{table}</section>\n")
}
