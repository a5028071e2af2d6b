//! Parts of pages: headings, sections, charts, facts.
//!
//! Charts are written in the format of `draw.js`: time in the most readable unit, values rounded, without values that a
//! logarithmic axis cannot show. `draw.js` sets the appearance (colours, dashes, fonts).

use crate::charts::{Axis, Chart, Heat, Limit, Line, Points, Section, Style, latency, rounded};
use crate::table::{Table, look, signed};
use crate::words::{Banner, OutcomeLabel, Pair};
use conclusions::grouped;
use maud::{Markup, html};
use results::judge::Headline;
use serde_json::{Value, json};

/// Maximum nesting of facts that is expanded; deeper values are shown as JSON.
const DEPTH_MAX: usize = 4;

/// The outcome in a box, the answer, the next step, and additional text.
pub(super) fn verdict(
    label: &OutcomeLabel,
    word: Markup,
    headline: &Headline,
    more: Markup,
) -> Markup {
    html! {
        div class={ "verdict " (look(label.look).0) } {
            p.word { (signed(label.look, &label.text)) (word) }
            p.decided { (headline.sentence) "." }
            @if let Some(action) = &headline.action { p.action { b { "Do: " } (action) "." } }
            (more)
        }
    }
}

pub(super) fn list<T: AsRef<str>>(sentences: &[T]) -> Markup {
    html! { @if !sentences.is_empty() { ul { @for sentence in sentences { li { (linked(sentence.as_ref())) } } } } }
}

/// Text whose web addresses are links.
fn linked(text: &str) -> Markup {
    let Some(at) = text.find("https://") else {
        return html! { (text) };
    };
    let end = text[at..].find([' ', ')', ';']);
    let end = end.map_or(text.len(), |end| at + end);
    let address = &text[at..end];
    html! { (text[..at]) a href=(address) { (address) } (linked(&text[end..])) }
}

pub(super) fn fact_list(facts: &[Pair]) -> Markup {
    html! { dl.facts { @for fact in facts { div { dt { (fact.name) } dd { (fact.value) } } } } }
}

pub(super) fn banners(banners: &[Banner]) -> Markup {
    html! { @for banner in banners { p.banner role="note" { (banner.text) } } }
}

/// A heading of the level `level`; without an anchor if `id` is empty.
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

pub(super) fn charts(
    charts_section: &Section,
    anchor_prefix: &str,
    level: usize,
    plots: &mut Plots,
) -> Markup {
    let absent = charts_section
        .charts
        .iter()
        .filter_map(|chart| Some((chart.absent.as_deref()?, chart.title.as_str())));
    let present = charts_section
        .charts
        .iter()
        .filter(|chart| chart.absent.is_none());
    let (zero, drawn): (Vec<&Chart>, Vec<&Chart>) =
        present.partition(|chart| chart.is_always_zero());
    let zero: Vec<&str> = zero.iter().map(|chart| chart.title.as_str()).collect();
    let content = html! {
        p.intro { (charts_section.intro) }
        div.charts { @for chart in drawn { (figure(chart, anchor_prefix, plots)) } }
        @if !zero.is_empty() { p.absent { b { "Always 0: " } (zero.join("; ")) "." } }
        @for (why, titles) in grouped(absent) {
            p.absent { b { "Not drawn: " (titles.join("; ")) "." } " Why: " (why) "." }
        }
    };
    section(
        format!("{anchor_prefix}{}", charts_section.id),
        level,
        &charts_section.title,
        content,
    )
}

fn figure(chart: &Chart, anchor_prefix: &str, plots: &mut Plots) -> Markup {
    let id = plots.add(chart, anchor_prefix);
    html! {
        figure.chart.wide[chart.wide] {
            figcaption.title { (chart.title) }
            p.key { (chart.key) }
            div.plot.tall[chart.heat.is_some()] id=(id) role="img" aria-label={ (chart.title) ". " (chart.key) } {}
            p.caption { (chart.caption) }
        }
    }
}

/// A table of facts from any JSON; a sentence if there are none.
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
                let name = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
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

/// Minimum duration drawn on logarithmic axes, milliseconds: the resolution of the logs.
const DRAWN_MS_MIN: f64 = 0.001;

#[derive(Default)]
pub(super) struct Plots(Vec<Value>);

impl Plots {
    /// Adds `chart` and returns the id of its element, unique in the page.
    pub(super) fn add(&mut self, chart: &Chart, anchor_prefix: &str) -> String {
        let id = format!("chart-{}-{anchor_prefix}{}", self.0.len() + 1, chart.id);
        self.0.push(plot(&id, chart));
        id
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// All charts, as script content. `<` (in strings only) is escaped: no text ends the element or begins a comment.
    pub(super) fn json(&self) -> String {
        // Cannot fail: the JSON has only names, numbers and lists.
        serde_json::to_string(&self.0)
            .unwrap_or_default()
            .replace('<', "\\u003c")
    }
}

/// End of the horizontal axis: the largest position of the points, or the fixed maximum of the axis if that is larger.
fn span(chart: &Chart) -> f64 {
    let last_x = |line: &Line| match &line.x {
        Points::Even { first, step } => first + step * line.y.len().saturating_sub(1) as f64,
        Points::Each(points) => points.iter().copied().fold(0.0, f64::max),
    };
    let heat = chart
        .heat
        .iter()
        .filter_map(|heat| heat.x_edges.last().copied());
    chart
        .lines
        .iter()
        .map(last_x)
        .chain(heat)
        .chain(chart.x.max)
        .fold(0.0, f64::max)
}

fn plot(id: &str, chart: &Chart) -> Value {
    let span = span(chart);
    let is_time = chart.x.unit == "s";
    // The unit in which a time axis reads best, and its length in seconds.
    let (unit, scale) = match span {
        span if is_time && span > 2.0 * 3_600.0 => ("h", 3_600.0),
        span if is_time && span > 5.0 * 60.0 => ("min", 60.0),
        _ => (chart.x.unit.as_str(), 1.0),
    };
    let titled = |axis: &Axis, unit: &str| match unit {
        "" => axis.title.clone(),
        unit => format!("{} ({unit})", axis.title),
    };
    let heat = chart.heat.as_ref();
    let limits: Vec<Limit> = chart
        .limits
        .iter()
        .filter(|limit| heat.is_none_or(|heat| latency::is_within(limit, &heat.y_edges)))
        .map(|limit| Limit {
            y: rounded(limit.y),
            name: limit.name.clone(),
        })
        .collect();
    // An axis without a unit has whole numbers, such as slices.
    let is_whole = chart.x.unit.is_empty();
    let mut x = json!({ "title": titled(&chart.x, unit), "unit": unit, "log": chart.x.log, "whole": is_whole });
    if !chart.x.ticks.is_empty() {
        x["ticks"] = json!(chart.x.ticks);
    }
    if is_time {
        // An axis with a given end begins at 0; otherwise the values set its range.
        x["end"] = rounded(span / scale).into();
        x["second"] = scale.into();
    }
    let y = &chart.y;
    json!({
        "id": id,
        "x": x,
        "y": { "title": titled(y, &y.unit), "unit": y.unit, "log": y.log, "max": y.max },
        "lines": chart.lines.iter().map(|line| plot_line(line, y, scale)).collect::<Vec<_>>(),
        "heat": heat.map(|heat| plot_heat(heat, scale)),
        "limits": limits,
        // Marks have no names in the chart: names would overlap, and the caption explains the marks.
        "marks": chart.marks.iter().map(|mark| rounded(mark.x / scale)).collect::<Vec<_>>(),
    })
}

fn plot_line(line: &Line, y: &Axis, scale: f64) -> Value {
    let drawn_value = |value: f64| match (y.log, y.floor) {
        (false, _) => Some(rounded(value)),
        (true, Some(floor)) => Some(rounded(value.max(floor))),
        // A logarithmic axis has no zero.
        (true, None) => (value > 0.0).then(|| rounded(value.max(DRAWN_MS_MIN))),
    };
    let values: Vec<Option<f64>> = line
        .y
        .iter()
        .map(|value| value.and_then(drawn_value))
        .collect();
    let is_zero = values.iter().all(Option::is_none) && line.y.iter().any(Option::is_some);
    let symbols = line.style.symbols || !line.style.joined || line.y.len() == 1;
    let mut plot = json!(Style {
        symbols,
        ..line.style
    });
    plot["name"] = if is_zero {
        format!("{} (always 0)", line.name)
    } else {
        line.name.clone()
    }
    .into();
    plot["y"] = values.into();
    if !line.labels.is_empty() {
        plot["labels"] = json!(line.labels);
    }
    match &line.x {
        Points::Even { first, step } => {
            (plot["first"], plot["step"]) = ((first / scale).into(), (step / scale).into())
        }
        Points::Each(points) => plot["x"] = points.iter().map(|x| rounded(x / scale)).collect(),
    }
    plot
}

/// A heat map for `draw.js`. Colours follow the logarithm of the share and begin at 10^`least`: the largest power of
/// ten that is not above any share, at most 0.1.
fn plot_heat(heat: &Heat, scale: f64) -> Value {
    let thousandth = |value: f64| (value * 1_000.0).round() / 1_000.0;
    let log = |share: f64| (share > 0.0).then(|| thousandth(share.log10()));
    let shares = heat
        .shares
        .iter()
        .flatten()
        .flatten()
        .copied()
        .filter(|share| *share > 0.0);
    json!({
        "x": heat.x_edges.iter().map(|x| thousandth(x / scale)).collect::<Vec<_>>(),
        "y": heat.y_edges.iter().map(|y| rounded(*y)).collect::<Vec<_>>(),
        "least": shares.fold(1.0, f64::min).log10().floor().min(-1.0) as i32,
        "shares": heat.shares.iter().map(|row| row.iter().map(|share| share.and_then(log)).collect::<Value>()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_facts_become_lines_and_missing_facts_become_a_sentence() {
        let value = serde_json::json!({"model": "<X>", "link": {"speed": null}, "notes": ["a", 2], "parts": [{"n": 1}]});
        let html = facts("Device", &value).into_string();
        for row in [
            "model</th><td>&lt;X&gt;",
            "link.speed</th><td>unknown",
            "notes</th><td>a, 2",
            "parts 1.n</th><td>1",
        ] {
            assert!(html.contains(row), "{row}: {html}");
        }
        assert!(
            facts("Host", &Value::Null)
                .into_string()
                .contains("nothing was recorded")
        );
    }

    #[test]
    fn a_chart_that_is_always_0_is_a_line_of_text() {
        let with = |title: &str, y: Vec<Option<f64>>| {
            let mut chart = Chart::over_time(title, title, Axis::log("latency", "ms"));
            let x = Points::Even {
                first: 1.0,
                step: 1.0,
            };
            chart.lines.push(Line::new("p50", x, y, Style::line(0)));
            chart
        };
        let charts_of_section = vec![
            with("Wait", vec![Some(0.0), None, Some(0.0)]),
            with("Lag", vec![Some(0.0), Some(0.1)]),
            with("Nothing", vec![None]),
        ];
        let section = Section::new("delays", "Delays", "", charts_of_section);
        let mut plots = Plots::default();
        let html = charts(&section, "", 2, &mut plots).into_string();
        assert!(html.contains("<b>Always 0: </b>Wait."), "{html}");
        assert_eq!(plots.count(), 2, "{html}");
    }

    #[test]
    fn names_from_files_are_escaped_in_the_json_of_charts() {
        let mut chart = Chart::over_time("a", "b", Axis::log("latency", "ms"));
        let x = Points::Even {
            first: 10.0,
            step: 10.0,
        };
        let name = "</script><img src=x>".to_owned();
        let y = vec![Some(0.0001), None, Some(2.0)];
        chart.lines.push(Line::new(name, x, y, Style::line(0)));
        let x = Points::Even {
            first: 10.0,
            step: 10.0,
        };
        let never = Line::new("p50", x, vec![Some(0.0)], Style::line(0));
        chart.lines.push(never);
        let mut plots = Plots::default();
        assert_eq!(plots.add(&chart, ""), "chart-1-a");
        let json = plots.json();
        assert!(
            !json.contains('<') && json.contains("\\u003c/script>"),
            "{json}"
        );
        let parsed: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            parsed[0]["lines"][0]["y"],
            json!([0.001, null, 2.0]),
            "gaps stay gaps"
        );
        let never = &parsed[0]["lines"][1];
        assert_eq!(never["name"], json!("p50 (always 0)"));
        assert_eq!(never["y"], json!([null]), "zeros are not drawn at 1 us");
        assert_eq!(
            (&never["first"], &never["symbols"]),
            (&json!(10.0), &json!(true)),
            "a single point has a symbol"
        );
        assert_eq!(parsed[0]["x"]["end"], json!(30.0));
        assert_eq!(
            parsed[0]["x"]["title"],
            json!("time since the run began (s)")
        );
        chart.x.max = Some(6_000.0);
        let plot = serde_json::to_value(super::plot("b", &chart)).unwrap();
        assert_eq!(
            (&plot["x"]["end"], &plot["x"]["unit"]),
            (&json!(100.0), &json!("min")),
            "as long as the run"
        );
    }
}
