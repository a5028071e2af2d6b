//! Charts in the words of plotly.js.
//!
//! What all charts have in common (fonts, margins, colours of the grid) is set by `draw.js`; here is
//! what differs. Colours are those of Okabe and Ito, told apart by people of every colour vision; dashes
//! and symbols say the same once more.

use super::escape;
use crate::charts::{Axis, Chart, Heat, Limit, Line, Mark, Points, heat_map, rounded};
use serde_json::{Value, json};

/// Okabe and Ito's colours; yellow is left out, as it cannot be seen on white.
/// Source: Okabe, Ito: Color Universal Design, 2008.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DASHES: [&str; 6] = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const SYMBOLS: [&str; 6] = ["circle", "x", "square", "diamond", "triangle-up", "cross"];
/// Light to dark in one hue: few to many.
const SHADES: [(f64, &str); 4] = [(0.0, "#bcd9ee"), (0.4, "#5a9fd0"), (0.75, "#1c5f9e"), (1.0, "#08254a")];
/// Symbols of more points than these are small.
const MANY_POINTS: usize = 60;
const LIMIT_COLOUR: &str = "#a03c00";
/// Durations on logarithmic axes are drawn at least so long, milliseconds: the logs know nothing finer.
const DRAWN_MS_MIN: f64 = 0.001;

/// The charts of a page.
#[derive(Default)]
pub(super) struct Plots(Vec<Value>);

impl Plots {
    /// Takes `chart` in; gives the id of its element, unique in the page.
    pub(super) fn add(&mut self, chart: &Chart, place: &str) -> String {
        let id = format!("chart-{}-{place}{}", self.0.len() + 1, chart.id);
        self.0.push(plot(&id, chart));
        id
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them, for the content of a script element.
    pub(super) fn json(&self) -> String {
        escape::json(&Value::from(self.0.clone()).to_string())
    }
}

/// The unit in which a time axis reads best, and its length in seconds.
fn time_unit(span_sec: f64) -> (&'static str, f64) {
    match span_sec {
        span if span > 2.0 * 3_600.0 => ("h", 3_600.0),
        span if span > 5.0 * 60.0 => ("min", 60.0),
        _ => ("s", 1.0),
    }
}

/// Largest place on the horizontal axis.
fn span(chart: &Chart) -> f64 {
    let of = |line: &Line| match &line.x {
        Points::Even { first, step } => first + step * line.y.len().saturating_sub(1) as f64,
        Points::Each(points) => points.iter().copied().fold(0.0, f64::max),
    };
    let heat = chart.heat.iter().filter_map(|heat| heat.x_edges.last().copied());
    chart.lines.iter().map(of).chain(heat).fold(0.0, f64::max)
}

fn plot(id: &str, chart: &Chart) -> Value {
    let span = span(chart);
    let is_time = chart.x.unit == "s";
    let (unit, scale) = if is_time { time_unit(span) } else { (chart.x.unit.as_str(), 1.0) };
    let mut data: Vec<Value> = chart.lines.iter().map(|line| trace(line, &chart.y, scale)).collect();
    let mut limits = chart.limits.clone();
    if let Some(heat) = &chart.heat {
        limits.retain(|limit| heat_map::is_within(limit, &heat.y_edges));
        data.push(heat_trace(heat, scale));
    }
    let titled = |axis: &Axis, unit: &str| {
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        escape::plot_text(&format!("{}{unit}", axis.title))
    };
    let mut y = json!({"title": {"text": titled(&chart.y, &chart.y.unit)}});
    if chart.y.log {
        y["type"] = "log".into();
    } else {
        y["rangemode"] = "tozero".into();
        let most = chart.lines.iter().flat_map(|line| &line.y).flatten().copied().fold(0.0, f64::max);
        if let Some(max) = chart.y.max {
            y["range"] = json!([0, max]);
        } else if let Some(limit) = limits.iter().map(|limit| limit.y).reduce(f64::max) {
            // Room for the limit's name above its line.
            y["range"] = json!([0, rounded(limit.max(most) * 1.15)]);
        }
    }
    let mut x = json!({"title": {"text": titled(&chart.x, unit)}});
    if is_time {
        x["range"] = json!([0, rounded(span / scale)]);
    } else if chart.x.unit.is_empty() {
        // Slices: whole numbers.
        x["tickformat"] = "d".into();
        x["dtick"] = if span <= 12.0 { json!(1) } else { Value::Null };
    }
    let (mut shapes, mut notes) = (Vec::new(), Vec::new());
    limits.iter().for_each(|limit| limit_line(limit, chart.y.log, &mut shapes, &mut notes));
    shapes.extend(chart.marks.iter().map(|mark| mark_line(mark, scale)));
    let layout = json!({
        "xaxis": x, "yaxis": y, "shapes": shapes, "annotations": notes,
        "showlegend": data.len() > 1 && chart.heat.is_none(),
    });
    json!({"id": id, "data": data, "layout": layout})
}

fn trace(line: &Line, y: &Axis, scale: f64) -> Value {
    let drawn = |value: f64| match (y.log, y.floor) {
        (false, _) => Some(rounded(value)),
        (true, Some(floor)) => Some(rounded(value.max(floor))),
        // A logarithmic axis has no zero.
        (true, None) => (value > 0.0).then(|| rounded(value.max(DRAWN_MS_MIN))),
    };
    let values: Vec<Option<f64>> = line.y.iter().map(|value| value.and_then(drawn)).collect();
    let is_zero = values.iter().all(Option::is_none) && line.y.iter().any(Option::is_some);
    let name = if is_zero { format!("{} (always 0)", line.name) } else { line.name.clone() };
    let style = line.style;
    let pick = |from: &[&'static str], at: usize| from.get(at % from.len()).copied().unwrap_or_default();
    let colour = pick(&COLOURS, style.colour);
    let mode = match (style.joined, style.symbols || line.y.len() == 1) {
        (true, true) => "lines+markers",
        (true, false) => "lines",
        (false, _) => "markers",
    };
    let mut trace = json!({
        "type": "scatter", "mode": mode, "name": escape::plot_text(&name), "y": values, "connectgaps": false,
        "line": {"color": colour, "dash": pick(&DASHES, style.dash), "width": 1.5},
        "hovertemplate": format!("%{{y:.4~g}} {}", escape::plot_text(&y.unit)),
    });
    if mode != "lines" {
        trace["marker"] = json!({"color": colour, "symbol": pick(&SYMBOLS, style.dash),
            "size": if line.y.len() > MANY_POINTS { 4 } else { 8 }});
    }
    match &line.x {
        Points::Even { first, step } => (trace["x0"], trace["dx"]) = (json!(first / scale), json!(step / scale)),
        Points::Each(points) => trace["x"] = points.iter().map(|x| rounded(x / scale)).collect(),
    }
    trace
}

/// Colours are by the logarithm of the share; `draw.js` writes the shares for who points at a field.
fn heat_trace(heat: &Heat, scale: f64) -> Value {
    let thousandth = |value: f64| (value * 1_000.0).round() / 1_000.0;
    let log = |share: &Option<f64>| share.filter(|share| *share > 0.0).map(|share| thousandth(share.log10()));
    let shares = || heat.shares.iter().flatten().flatten().copied().filter(|share| *share > 0.0);
    let least = shares().fold(1.0, f64::min).log10().floor().min(-1.0) as i32;
    let ticks: Vec<i32> = (least..=0).collect();
    let texts: Vec<String> = ticks.iter().map(|power| tick(*power)).collect();
    json!({
        "type": "heatmap",
        "x": heat.x_edges.iter().map(|x| thousandth(x / scale)).collect::<Vec<f64>>(),
        "y": heat.y_edges.iter().map(|y| rounded(*y)).collect::<Vec<f64>>(),
        "z": heat.shares.iter().map(|row| row.iter().map(log).collect()).collect::<Vec<Vec<Option<f64>>>>(),
        "zmin": least, "zmax": 0,
        "colorscale": SHADES,
        "colorbar": {"tickvals": ticks, "ticktext": texts, "title": {"text": "share of the column", "side": "right"}},
    })
}

/// A power of ten as percent: `1 %` of -2.
fn tick(power: i32) -> String {
    match power {
        -2..=0 => format!("{} %", 10_u32.pow((power + 2) as u32)),
        _ => format!("{:.*} %", (-2 - power) as usize, 10_f64.powi(power + 2)),
    }
}

fn limit_line(limit: &Limit, log: bool, shapes: &mut Vec<Value>, notes: &mut Vec<Value>) {
    let y = rounded(limit.y);
    // Shapes take the value itself, annotations on a logarithmic axis its logarithm.
    let at = if log { y.log10() } else { y };
    shapes.push(json!({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y,
        "line": {"color": LIMIT_COLOUR, "dash": "dash", "width": 1.5}}));
    notes.push(json!({"xref": "paper", "x": 1, "xanchor": "right", "y": at, "yanchor": "bottom", "showarrow": false,
        "text": escape::plot_text(&limit.name), "font": {"color": LIMIT_COLOUR, "size": 11},
        "bgcolor": "rgba(255,255,255,0.7)"}));
}

/// A line without a name: several would cover each other. The chart's caption says what they are.
fn mark_line(mark: &Mark, scale: f64) -> Value {
    let x = rounded(mark.x / scale);
    json!({"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x,
        "line": {"color": "#000000", "dash": "dot", "width": 1.5}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::Style;

    #[test]
    fn names_from_files_stay_text() {
        let mut chart = Chart::over_time("a", "b", Axis::log("latency", "ms"));
        let x = Points::Even { first: 10.0, step: 10.0 };
        let name = "</script><img src=x>".to_owned();
        chart.lines.push(Line { name, x, y: vec![Some(0.0001), None, Some(2.0)], style: Style::line(0) });
        let x = Points::Even { first: 10.0, step: 10.0 };
        chart.lines.push(Line { name: "p50".into(), x, y: vec![Some(0.0)], style: Style::line(0) });
        let mut plots = Plots::default();
        assert_eq!(plots.add(&chart, ""), "chart-1-a");
        let json = plots.json();
        assert!(!json.contains('<') && json.contains("&lt;/script&gt;"), "{json}");
        let parsed: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed[0]["data"][0]["y"], json!([0.001, null, 2.0]), "gaps stay gaps");
        let never = &parsed[0]["data"][1];
        assert_eq!(
            (&never["name"], &never["y"]),
            (&json!("p50 (always 0)"), &json!([null])),
            "zero is no line at 1 us"
        );
        assert_eq!(parsed[0]["layout"]["xaxis"]["range"], json!([0, 30.0]));
    }

    #[test]
    fn powers_of_ten_are_percentages() {
        assert_eq!([0, -1, -2, -3, -6].map(tick), ["100 %", "10 %", "1 %", "0.1 %", "0.0001 %"]);
    }
}
