//! Charts in the format of `draw.js`: time in the most readable unit, values rounded, without values that a logarithmic
//! axis cannot show. `draw.js` sets the appearance (colours, dashes, fonts).

use crate::charts::{Axis, Chart, Heat, Limit, Line, Points, Style, latency, rounded};
use serde::Serialize;

/// Durations on logarithmic axes are drawn at least so long, milliseconds: the logs know nothing finer.
const DRAWN_MS_MIN: f64 = 0.001;

/// The charts of a page.
#[derive(Default)]
pub(super) struct Plots(Vec<Plot>);

#[derive(Serialize)]
struct Plot {
    /// Id of its HTML element.
    id: String,
    x: Horizontal,
    y: Vertical,
    lines: Vec<PlotLine>,
    heat: Option<PlotHeat>,
    limits: Vec<Limit>,
    /// Positions of vertical lines. They have no names: several would cover each other, and the caption explains them.
    marks: Vec<f64>,
}

#[derive(Serialize)]
struct Horizontal {
    title: String,
    unit: String,
    /// True for a logarithmic axis: it has a tick at each point.
    log: bool,
    /// True if only whole numbers are meaningful.
    whole: bool,
    /// End, if the axis begins at 0; otherwise the values decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<f64>,
}

#[derive(Serialize)]
struct Vertical {
    title: String,
    unit: String,
    log: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
}

#[derive(Serialize)]
struct PlotLine {
    name: String,
    #[serde(flatten)]
    style: Style,
    #[serde(flatten)]
    x: PlotX,
    y: Vec<Option<f64>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PlotX {
    Even { first: f64, step: f64 },
    Each { x: Vec<f64> },
}

/// Colours are by the logarithm of the share.
#[derive(Serialize)]
struct PlotHeat {
    x: Vec<f64>,
    y: Vec<f64>,
    shares: Vec<Vec<Option<f64>>>,
    /// The power of ten below all shares, -1 at most.
    least: i32,
}

impl Plots {
    /// Takes `chart` in; gives the id of its element, unique in the page.
    pub(super) fn add(&mut self, chart: &Chart, place: &str) -> String {
        let id = format!("chart-{}-{place}{}", self.0.len() + 1, chart.id);
        self.0.push(plot(id.clone(), chart));
        id
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them, for the content of a script element: no `<` in it (in JSON it stands in strings only), so
    /// nothing of it can end the element or begin a comment.
    pub(super) fn json(&self) -> String {
        // Names, numbers and lists: nothing that could not be written.
        serde_json::to_string(&self.0).unwrap_or_default().replace('<', "\\u003c")
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

/// Largest place on the horizontal axis: of what is drawn, or of what there could be.
fn span(chart: &Chart) -> f64 {
    let of = |line: &Line| match &line.x {
        Points::Even { first, step } => first + step * line.y.len().saturating_sub(1) as f64,
        Points::Each(points) => points.iter().copied().fold(0.0, f64::max),
    };
    let heat = chart.heat.iter().filter_map(|heat| heat.x_edges.last().copied());
    chart.lines.iter().map(of).chain(heat).chain(chart.x.max).fold(0.0, f64::max)
}

fn plot(id: String, chart: &Chart) -> Plot {
    let span = span(chart);
    let is_time = chart.x.unit == "s";
    let (unit, scale) = if is_time { time_unit(span) } else { (chart.x.unit.as_str(), 1.0) };
    let titled = |axis: &Axis, unit: &str| match unit {
        "" => axis.title.clone(),
        unit => format!("{} ({unit})", axis.title),
    };
    let is_shown = |limit: &&Limit| chart.heat.as_ref().is_none_or(|heat| latency::is_within(limit, &heat.y_edges));
    let limit = |limit: &Limit| Limit { y: rounded(limit.y), name: limit.name.clone() };
    Plot {
        id,
        x: Horizontal {
            title: titled(&chart.x, unit),
            unit: unit.to_owned(),
            log: chart.x.log,
            // Slices.
            whole: chart.x.unit.is_empty(),
            end: is_time.then(|| rounded(span / scale)),
        },
        y: Vertical {
            title: titled(&chart.y, &chart.y.unit),
            unit: chart.y.unit.clone(),
            log: chart.y.log,
            max: chart.y.max,
        },
        lines: chart.lines.iter().map(|line| plot_line(line, &chart.y, scale)).collect(),
        heat: chart.heat.as_ref().map(|heat| plot_heat(heat, scale)),
        limits: chart.limits.iter().filter(is_shown).map(limit).collect(),
        marks: chart.marks.iter().map(|mark| rounded(mark.x / scale)).collect(),
    }
}

fn plot_line(line: &Line, y: &Axis, scale: f64) -> PlotLine {
    let drawn = |value: f64| match (y.log, y.floor) {
        (false, _) => Some(rounded(value)),
        (true, Some(floor)) => Some(rounded(value.max(floor))),
        // A logarithmic axis has no zero.
        (true, None) => (value > 0.0).then(|| rounded(value.max(DRAWN_MS_MIN))),
    };
    let values: Vec<Option<f64>> = line.y.iter().map(|value| value.and_then(drawn)).collect();
    let is_zero = values.iter().all(Option::is_none) && line.y.iter().any(Option::is_some);
    PlotLine {
        name: if is_zero { format!("{} (always 0)", line.name) } else { line.name.clone() },
        style: Style { symbols: line.style.symbols || !line.style.joined || line.y.len() == 1, ..line.style },
        x: match &line.x {
            Points::Even { first, step } => PlotX::Even { first: first / scale, step: step / scale },
            Points::Each(points) => PlotX::Each { x: points.iter().map(|x| rounded(x / scale)).collect() },
        },
        y: values,
    }
}

fn plot_heat(heat: &Heat, scale: f64) -> PlotHeat {
    let thousandth = |value: f64| (value * 1_000.0).round() / 1_000.0;
    let log = |share: &Option<f64>| share.filter(|share| *share > 0.0).map(|share| thousandth(share.log10()));
    let shares = heat.shares.iter().flatten().flatten().copied().filter(|share| *share > 0.0);
    PlotHeat {
        x: heat.x_edges.iter().map(|x| thousandth(x / scale)).collect(),
        y: heat.y_edges.iter().map(|y| rounded(*y)).collect(),
        least: shares.fold(1.0, f64::min).log10().floor().min(-1.0) as i32,
        shares: heat.shares.iter().map(|row| row.iter().map(log).collect()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
        assert!(!json.contains('<') && json.contains("\\u003c/script>"), "{json}");
        let parsed: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed[0]["lines"][0]["y"], json!([0.001, null, 2.0]), "gaps stay gaps");
        let never = &parsed[0]["lines"][1];
        assert_eq!(
            (&never["name"], &never["y"]),
            (&json!("p50 (always 0)"), &json!([null])),
            "zero is no line at 1 us"
        );
        assert_eq!((&never["first"], &never["symbols"]), (&json!(10.0), &json!(true)), "a single point has a symbol");
        assert_eq!(
            (&parsed[0]["x"]["end"], &parsed[0]["x"]["title"]),
            (&json!(30.0), &json!("time since the run began (s)"))
        );
        chart.x.max = Some(6_000.0);
        let plot = serde_json::to_value(super::plot("b".into(), &chart)).unwrap();
        assert_eq!((&plot["x"]["end"], &plot["x"]["unit"]), (&json!(100.0), &json!("min")), "as long as the run");
    }
}
