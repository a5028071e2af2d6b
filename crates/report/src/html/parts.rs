//! Pieces that pages are made of: headings, sections, charts, facts.

use super::plot::Plots;
use crate::charts::{Chart, Section};
use crate::table::{Table, look, signed};
use crate::words::{Banner, Shown};
use maud::{Markup, html};
use serde_json::Value;

/// Deepest nesting of facts that is taken apart; deeper values are shown as they are.
const DEPTH_MAX: usize = 4;

/// The outcome in a box, what decided it, and what more is to be said of it.
pub(super) fn verdict(shown: &Shown, word: Markup, decided: &str, more: Markup) -> Markup {
    html! {
        div class={ "verdict " (look(shown.look).0) } {
            p.word { (signed(shown.look, &shown.text)) (word) }
            p.decided { (decided) }
            (more)
        }
    }
}

/// Sentences as a list; nothing of none.
pub(super) fn list<T: AsRef<str>>(sentences: &[T]) -> Markup {
    html! { @if !sentences.is_empty() { ul { @for sentence in sentences { li { (sentence.as_ref()) } } } } }
}

/// Renders the most important remarks.
pub(super) fn banners(banners: &[Banner]) -> Markup {
    html! { @for banner in banners { p.banner role="note" { (banner.text) } } }
}

/// A heading of the level `level`; nothing leads to it where `id` is empty.
pub(super) fn heading(level: usize, id: &str, title: &str) -> Markup {
    let id = Some(id).filter(|id| !id.is_empty());
    html! {
        @match level {
            0 | 1 => { h1 id=[id] { (title) } }
            2 => { h2 id=[id] { (title) } }
            3 => { h3 id=[id] { (title) } }
            _ => { h4 id=[id] { (title) } }
        }
    }
}

pub(super) fn section(id: String, level: usize, title: &str, content: Markup) -> Markup {
    html! { section id=(id) { (heading(level, "", title)) (content) } }
}

pub(super) fn charts(of: &Section, place: &str, level: usize, plots: &mut Plots) -> Markup {
    let content = html! {
        p.intro { (of.intro) }
        div.charts { @for chart in of.charts.iter().filter(|chart| chart.absent.is_none()) { (figure(chart, place, plots)) } }
        @for (why, titles) in absent(&of.charts) {
            p.absent { b { "Not drawn: " (titles.join("; ")) "." } " Why: " (why) "." }
        }
    };
    section(format!("{place}{}", of.id), level, &of.title, content)
}

/// A chart: heading, key number, picture, caption.
fn figure(chart: &Chart, place: &str, plots: &mut Plots) -> Markup {
    let id = plots.add(chart, place);
    html! {
        figure.chart.wide[chart.wide] {
            figcaption.title { (chart.title) }
            p.key { (chart.key) }
            div.plot.tall[chart.heat.is_some()] id=(id) role="img" aria-label={ (chart.title) ". " (chart.key) } {}
            p.caption { (chart.caption) }
        }
    }
}

/// Charts without data, by the reason.
fn absent(charts: &[Chart]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for chart in charts {
        let Some(why) = chart.absent.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, titles)) => titles.push(&chart.title),
            None => reasons.push((why, vec![&chart.title])),
        }
    }
    reasons
}

/// A table of facts of any shape, as recorded in JSON; a sentence where there are none.
pub(super) fn facts(caption: &str, facts: &Value) -> Markup {
    let mut pairs = Vec::new();
    flatten("", facts, 0, &mut pairs);
    html! {
        @if pairs.is_empty() { p { (caption) ": nothing was recorded." } } @else { (Table::named_values(caption, pairs)) }
    }
}

fn flatten(name: &str, value: &Value, depth: usize, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if depth < DEPTH_MAX => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, depth + 1, pairs);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) && depth < DEPTH_MAX => {
            for (number, item) in items.iter().enumerate() {
                flatten(&format!("{name} {}", number + 1), item, depth + 1, pairs);
            }
        }
        Value::Null if name.is_empty() => {}
        _ => pairs.push((name.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_facts_become_lines_and_what_is_unknown_says_so() {
        let value =
            serde_json::json!({"model": "<X>", "link": {"speed": null}, "notes": ["a", 2], "parts": [{"n": 1}]});
        let html = facts("Device", &value).into_string();
        for row in
            ["model</th><td>&lt;X&gt;", "link.speed</th><td>unknown", "notes</th><td>a, 2", "parts 1.n</th><td>1"]
        {
            assert!(html.contains(row), "{row}: {html}");
        }
        assert!(facts("Host", &Value::Null).into_string().contains("nothing was recorded"));
    }
}
