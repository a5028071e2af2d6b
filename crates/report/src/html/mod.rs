//! The document as one page of HTML: no network, no other file, readable without a script.
//!
//! Every text is escaped where it enters, by maud. Charts are drawn by `draw.js`, which is in the page, from JSON
//! that is in the page; a policy in its head forbids the browser to fetch anything. Whoever has no script still
//! reads all numbers that decide.

mod names;
mod page;
mod parts;
mod plot;
mod run;
mod series;

pub use page::Page;

use crate::document::{Document, HTML_MARK, Report};
use crate::table::{Cell, Table};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use results::units::is_unprintable;

const STYLE: &str = include_str!("page.css");
/// Counts errors from the first moment on.
const GUARD: &str = include_str!("guard.js");
/// Script that draws the charts.
const DRAW: &str = include_str!("draw.js");
/// The page may run what is in it, and fetch nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";

impl Document {
    /// A self-contained HTML page: no network, no other file.
    pub fn html(&self) -> String {
        page(self)
    }
}

fn page(document: &Document) -> String {
    let mut plots = plot::Plots::default();
    let several = document.reports.len() > 1;
    let articles: Vec<Markup> = document
        .reports
        .iter()
        .enumerate()
        .map(|(number, report)| {
            let place = if several { format!("report-{}-", number + 1) } else { String::new() };
            match report {
                Report::Run(run) => run::article(run, &place, 1, &mut plots),
                Report::Series(series) => series::article(series, &place, &mut plots),
            }
        })
        .collect();
    let title = match &document.reports[..] {
        [one] => format!("{}: {}", one.headline().text, said(one).0),
        several => format!("{} reports", several.len()),
    };
    let body = html! {
        @if several { (overview(document)) }
        @for article in articles { (article) }
    };
    let names = names::Names::of(document);
    let charts = names.shortened_json(&plots.json());
    shell(&title, PreEscaped(names.shortened(&body)), plots.count(), &charts, &document.made_by)
}

/// A page around what it says.
fn shell(title: &str, body: Markup, count: usize, charts: &str, made_by: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (PreEscaped(HTML_MARK))
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
                script { (PreEscaped(GUARD)) }
            }
            body data-charts-expected=(count) {
                noscript { p.banner { "This browser runs no scripts: charts are left out, all else is here." } }
                p.banner #trouble hidden {}
                main { (body) }
                footer {
                    p {
                        "Made by " (made_by) " from recorded data alone; nothing is fetched. In a chart: drag to \
                         zoom, double click to go back, click a name to hide its line."
                    }
                }
                script #charts type="application/json" { (PreEscaped(charts)) }
                script { (PreEscaped(DRAW)) }
            }
        }
    };
    // Names from files can hold what turns the text around it, too; nothing of ours does.
    page.into_string().replace(is_unprintable, "\u{fffd}")
}

/// Title of a report, and what decided it.
fn said(report: &Report) -> (&str, String) {
    match report {
        Report::Run(run) => (&run.title, run.result.reason.clone()),
        Report::Series(series) => {
            let end = series.series.conclusion.as_ref();
            (&series.title, end.map(|end| end.sentence.clone()).unwrap_or_default())
        }
    }
}

/// Several reports in a table, each with a link to its own.
fn overview(document: &Document) -> Markup {
    let rows = document.reports.iter().enumerate().map(|(number, report)| {
        let (title, decided) = said(report);
        let id = format!("report-{}-top", number + 1);
        [Cell::link(title, id), Cell::outcome(report.headline()), decided.into(), Cell::code(report.dir())]
    });
    let headings = ["what", "outcome", "what decided", "directory"];
    let table = Table::new("Reports on this page").text(headings).rows(rows);
    html! { section.overview { h1 { "Reports" } (table) } }
}
