//! The document as one page of HTML: no network, no other file, readable without a script.
//!
//! maud escapes all text. `draw.js`, which is part of the page, draws the charts from JSON in the page. A policy in the
//! page's head forbids the browser to fetch anything. Without scripts, the page still shows all numbers except charts.
//!
//! Long names of devices, such as `sim:name=freezes+stall-ms=140+stall-every-s=60`, are replaced by short names. The
//! page has a list of the names; only headings, that list, code and files keep the long names.
//!
//! [`HtmlPage`] is built piece by piece: for comparisons and for commands without a run directory.

mod parts;
mod run;

use crate::charts::Section;
use crate::document::{Document, Report};
use crate::head::Head;
use crate::table::{Cell, Table, look};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use parts::{Plots, heading, list};
use results::files::HTML_MARK;
use results::format::is_unprintable;

const STYLE: &str = include_str!("page.css");
/// Script that counts errors. It runs before any other part of the page.
const GUARD: &str = include_str!("guard.js");
const DRAW: &str = include_str!("draw.js");
/// Content-Security-Policy: the page may run its own scripts, and may fetch nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";

impl Document {
    pub fn html(&self) -> String {
        let mut plots = Plots::default();
        let has_several = self.reports.len() > 1;
        let mut articles: Vec<Markup> = Vec::new();
        for (number, report) in (1..).zip(&self.reports) {
            let anchor_prefix = if has_several {
                format!("report-{number}-")
            } else {
                String::new()
            };
            articles.push(match report {
                Report::Run(run) => run::article(run, &anchor_prefix, 1, &mut plots),
                Report::Series(series) => run::series_article(series, &anchor_prefix, &mut plots),
            });
        }
        let title = match &self.reports[..] {
            [one] => format!("{}: {}", one.headline().text, title_and_reason(one).0),
            several => format!("{} reports", several.len()),
        };
        let body = html! {
            @if has_several { (overview(self)) }
            @for article in articles { (article) }
        };
        let names = ShortNames::from_document(self);
        let charts = names.shortened_json(&plots.json());
        complete_page(
            &title,
            PreEscaped(names.shortened(&body)),
            plots.count(),
            &charts,
            &self.made_by,
        )
    }
}

fn complete_page(title: &str, body: Markup, count: usize, charts: &str, made_by: &str) -> String {
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
                noscript { p.banner { "This browser runs no scripts: the charts are missing, the rest is complete." } }
                p.banner #trouble hidden {}
                main { (body) }
                footer {
                    p {
                        "Made by " (made_by) " from recorded data alone; nothing is fetched."
                        @if count > 0 {
                            " In a chart: drag to zoom, double click to go back, click a name to hide its line. The address keeps the zoom \
                             over time."
                        }
                    }
                }
                script #charts type="application/json" { (PreEscaped(charts)) }
                script { (PreEscaped(DRAW)) }
            }
        }
    };
    // Names from files can contain bidirectional control characters; our own text contains none.
    page.into_string().replace(is_unprintable, "\u{fffd}")
}

/// Title of a report, and the number that decided it.
fn title_and_reason(report: &Report) -> (&str, String) {
    match report {
        Report::Run(run) => (&run.title, run.result.headline.sentence.clone()),
        Report::Series(series) => {
            let end = series.series.conclusion.as_ref();
            (
                &series.title,
                end.map(|end| end.headline().sentence).unwrap_or_default(),
            )
        }
    }
}

/// A table with a row for each of several reports; each row links to its report.
fn overview(document: &Document) -> Markup {
    let rows = document.reports.iter().enumerate().map(|(number, report)| {
        let (title, decided) = title_and_reason(report);
        let id = format!("report-{}-top", number + 1);
        [
            Cell::link(title, id),
            Cell::outcome(report.headline()),
            decided.into(),
            Cell::code(report.dir()),
        ]
    });
    let headings = ["report", "outcome", "decided by", "directory"];
    let table = Table::new("Reports on this page").text(headings).rows(rows);
    html! { section.overview { h1 { "Reports" } (table) } }
}

/// Names of more characters than this are replaced by short names.
const LONG: usize = 20;

/// Elements whose text is not shortened.
const VERBATIM_ELEMENTS: [&str; 3] = ["h1", "pre", "code"];

/// Long names, each with a short name; the longest first, so that no name is replaced within a longer one.
struct ShortNames(Vec<(String, String)>);

impl ShortNames {
    fn from_document(document: &Document) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        let devices = document.reports.iter().flat_map(|report| match report {
            Report::Run(run) => run.devices.iter().map(String::as_str).collect::<Vec<_>>(),
            Report::Series(series) => series
                .series
                .devices
                .iter()
                .map(|device| device.name.as_str())
                .collect(),
        });
        for device_name in devices {
            let mut parameters = device_name
                .strip_prefix("sim:")
                .unwrap_or_default()
                .split('+');
            let sim_name = parameters
                .find_map(|part| part.strip_prefix("name="))
                .filter(|name| !name.is_empty());
            if names.iter().any(|(known, _)| known == device_name)
                || sim_name.is_none() && device_name.chars().count() <= LONG
            {
                continue;
            }
            let sim_name = sim_name.filter(|given| names.iter().all(|(_, taken)| taken != given));
            names.push((
                device_name.to_owned(),
                sim_name.map_or_else(|| format!("drive {}", names.len() + 1), str::to_owned),
            ));
        }
        names.sort_by_key(|(long, _)| std::cmp::Reverse(long.len()));
        Self(names)
    }

    /// The page with short names, and the list of names below the first heading.
    fn shortened(&self, page: &Markup) -> String {
        let mut rest = page.0.as_str();
        let mut short = String::new();
        while let Some((at, name)) = VERBATIM_ELEMENTS
            .iter()
            .filter_map(|name| Some((rest.find(&format!("<{name}"))?, name)))
            .min()
        {
            let end = rest[at..]
                .find(&format!("</{name}>"))
                .map_or(rest.len(), |end| at + end);
            short += &self.replaced(&rest[..at], |name| html! { (name) }.into_string());
            short += &rest[at..end];
            rest = &rest[end..];
        }
        short += &self.replaced(rest, |name| html! { (name) }.into_string());
        if self.0.is_empty() {
            return short;
        }
        let list = html! { dl.facts { @for (long, short) in &self.0 { div { dt { (short) } dd { code { (long) } } } } } };
        short.replacen("</h1>", &format!("</h1>{}", list.into_string()), 1)
    }

    fn shortened_json(&self, json: &str) -> String {
        // The name without quotes, escaped as in `Plots::json`.
        self.replaced(json, |name: &str| {
            let quoted = serde_json::Value::from(name)
                .to_string()
                .replace('<', "\\u003c");
            quoted[1..quoted.len() - 1].to_owned()
        })
    }

    fn replaced(&self, text: &str, escaped: impl Fn(&str) -> String) -> String {
        self.0.iter().fold(text.to_owned(), |text, (long, short)| {
            text.replace(&escaped(long), &escaped(short))
        })
    }
}

/// A self-contained HTML page: no network, no other file.
pub struct HtmlPage {
    title: String,
    plots: Plots,
    content: Vec<Markup>,
    /// The command line, shown at the end.
    command: Option<String>,
    /// Class of the outcome, which gives bars their colour.
    class: &'static str,
}

impl HtmlPage {
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            plots: Plots::default(),
            content: Vec::new(),
            command: None,
            class: "",
        }
    }

    /// Adds the box with the answer, and the facts.
    pub(crate) fn head(&mut self, head: &Head) {
        let details = list(&head.details);
        let answer = parts::verdict(&head.label, html! {}, &head.headline, details);
        self.content
            .push(html! { (answer) (parts::fact_list(&head.facts)) });
        self.command = head.command_text();
        self.class = look(head.label.look).0;
    }

    pub fn warnings(&mut self, sentences: &[String]) {
        self.content.push(html! {
            @if let [first, others @ ..] = sentences {
                p.banner role="note" { (first) @for other in others { br; (other) } }
            }
        });
    }

    pub fn heading(&mut self, title: &str) {
        self.content.push(heading(2, "", title));
    }

    /// Adds tables or bars, side by side if there is room.
    pub fn add<T: Render>(&mut self, blocks: &[T]) {
        self.content
            .push(html! { div.charts { @for one in blocks { (one) } } });
    }

    /// Adds content that is shown on demand.
    pub fn folded(&mut self, summary: &str, body: &impl Render) {
        self.content
            .push(html! { details { summary { (summary) } (body) } });
    }

    /// Folds the content that `add` adds; `id`: anchor at the start of this content.
    pub(crate) fn fold(&mut self, summary: &str, id: &str, add: impl FnOnce(&mut Self)) {
        let begin = self.content.len();
        add(self);
        let folded = self.content.split_off(begin);
        self.content.push(html! {
            details { summary { (summary) } div id=(id) { @for part in folded { (part) } } }
        });
    }

    /// Adds sentences as a list; nothing without sentences.
    pub fn list<T: AsRef<str>>(&mut self, sentences: &[T]) {
        self.content.push(list(sentences));
    }

    /// Adds sentences that are shown on demand; nothing without sentences.
    pub(crate) fn folded_list(&mut self, summary: &str, sentences: &[String]) {
        if !sentences.is_empty() {
            self.folded(summary, &list(sentences));
        }
    }

    pub fn file(&mut self, text: &str) {
        self.content.push(html! { pre { (text.trim_end()) } });
    }

    pub(crate) fn charts(&mut self, section: &Section) {
        self.content
            .push(parts::charts(section, "", 2, &mut self.plots));
    }

    /// The page. `made_by`: program and version.
    pub fn html(self, made_by: &str) -> String {
        let body = html! {
            article class=(self.class) {
                h1 { (self.title) }
                @for part in &self.content { (part) }
                @if let Some(command) = &self.command { (heading(2, "", "Command")) pre { (command) } }
            }
        };
        complete_page(
            &self.title,
            body,
            self.plots.count(),
            &self.plots.json(),
            made_by,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_device_names_are_shortened_except_in_headings_files_and_the_list_of_names() {
        let names = ShortNames(vec![
            ("sim:a=1+b=<2>+c".into(), "drive 2".into()),
            ("sim:a=1".into(), "drive 1".into()),
        ]);
        let page = html! { h1 { "sim:a=1" } p { "sim:a=1 and sim:a=1+b=<2>+c" } pre { "sim:a=1" } };
        let short = names.shortened(&page);
        assert!(
            short.ends_with("<p>drive 1 and drive 2</p><pre>sim:a=1</pre>"),
            "{short}"
        );
        assert!(
            short.starts_with("<h1>sim:a=1</h1><dl")
                && short.contains("<code>sim:a=1+b=&lt;2&gt;+c</code>"),
            "{short}"
        );
        let json = r#"{"name":"reads on sim:a=1+b=\u003c2>+c"}"#;
        assert_eq!(names.shortened_json(json), r#"{"name":"reads on drive 2"}"#);
    }
}
