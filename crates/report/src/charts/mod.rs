//! Charts as data: lines, units, and the meaning of a point.
//!
//! ```text
//! run directory -> timeline, windows (reduced on the way) -> charts of each section -> HTML | JSON
//! ```
//!
//! A chart does not depend on a plotting library: it consists of lines, limits and marks with names and units, or of
//! the reason why there is nothing to draw. Each output format draws a chart in its own way.

pub(crate) mod counters;
pub(crate) mod latency;
pub(crate) mod rates;
pub(crate) mod telemetry;
pub(crate) mod timeline;
pub(crate) mod windows;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChartResolution {
    pub points_max: usize,
    /// Maximum number of columns of a heat map.
    pub columns_max: usize,
}

impl ChartResolution {
    /// The resolution at which a page with this many runs stays readable and opens quickly.
    pub fn of_runs(runs: usize) -> Self {
        let share = |whole: usize, least: usize| (whole / runs.max(1)).max(least);
        Self {
            points_max: share(1_500, 300),
            columns_max: share(300, 120),
        }
    }
}

/// A chart, or the reason why it is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Chart {
    /// Identifier for programs, unique in the run: `percentiles-reads`.
    pub id: String,
    /// Title: the subject of the chart.
    pub title: String,
    /// The most important number of the chart, in a sentence that screen readers read instead of the picture.
    pub key: String,
    /// Explanation: the meaning of a point, and hints for the reader.
    pub caption: String,
    /// Why there is nothing to draw; null if there is a chart.
    pub absent: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
    /// The heat map, if the chart is one.
    pub heat: Option<Heat>,
    /// Horizontal lines: limits that the values should stay below.
    pub limits: Vec<Limit>,
    /// Vertical lines: events.
    pub marks: Vec<Mark>,
    /// True for a chart as wide as the page.
    #[serde(skip)]
    pub wide: bool,
}

/// An axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Axis {
    /// Name of the quantity.
    pub title: String,
    /// Unit of the values: `s`, `ms`, `%`; empty for plain numbers.
    pub unit: String,
    /// True for a logarithmic axis.
    pub log: bool,
    /// Largest possible value, if there is one: 100 for `%`.
    pub max: Option<f64>,
    /// Start of a logarithmic axis: smaller values, and zero, are drawn there. `None`: zeros are left out.
    #[serde(skip)]
    pub floor: Option<f64>,
    /// Positions with names, in place of numbers; empty: numbers.
    #[serde(skip)]
    pub ticks: Vec<(f64, String)>,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Positions of the points.
    pub x: Points,
    /// Values of the points; null for a missing value.
    #[serde(serialize_with = "rounded_all")]
    #[schemars(with = "Vec<Option<f64>>")]
    pub y: Vec<Option<f64>>,
    /// Names of the points; empty if points have no names.
    #[serde(skip)]
    pub labels: Vec<String>,
    /// Style of the line.
    #[serde(skip)]
    pub style: Style,
}

/// Positions of the points of a line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Points {
    /// At equal distances.
    Even {
        /// First position.
        first: f64,
        /// Distance between two points.
        step: f64,
    },
    /// Each point at its own position.
    Each(Vec<f64>),
}

/// Appearance of a line. Colour is never the only difference between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Style {
    pub colour: usize,
    /// Index of the dash pattern and of the marker symbol; 0 is a solid line.
    pub dash: usize,
    pub symbols: bool,
    pub joined: bool,
    /// True if a value holds for the whole period that ends at its point.
    pub stepped: bool,
    /// True if the names of the points are drawn beside them.
    pub named: bool,
}

/// A heat map: how often each value occurred in each period.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Heat {
    /// Edges of the columns, one more than columns.
    pub x_edges: Vec<f64>,
    /// Edges of the rows, one more than rows.
    #[serde(serialize_with = "rounded_plain")]
    #[schemars(with = "Vec<f64>")]
    pub y_edges: Vec<f64>,
    /// Rows, the lowest first. Each value is the row's share of a column's operations; null without operations.
    #[serde(serialize_with = "rounded_rows")]
    #[schemars(with = "Vec<Vec<Option<f64>>>")]
    pub shares: Vec<Vec<Option<f64>>>,
}

/// A horizontal line: a limit that the values should stay below.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Limit {
    /// Position on the vertical axis.
    pub y: f64,
    /// Name of the limit.
    pub name: String,
}

/// A vertical line: an event.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Mark {
    /// Position on the horizontal axis.
    pub x: f64,
    /// The event, in words.
    pub name: String,
}

impl Chart {
    /// A chart over the time since the run began, in seconds, with nothing on it.
    pub(crate) fn over_time(id: impl Into<String>, title: impl Into<String>, y: Axis) -> Self {
        Self::new(id, title, Axis::linear("time since the run began", "s"), y)
    }

    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            id: identifier(&id.into()),
            title: title.into(),
            x,
            y,
            ..Self::default()
        }
    }

    /// True if all values of the lines are 0.
    pub(crate) fn is_always_zero(&self) -> bool {
        let mut values = self
            .lines
            .iter()
            .flat_map(|line| &line.y)
            .flatten()
            .peekable();
        self.heat.is_none() && values.peek().is_some() && values.all(|value| *value == 0.0)
    }

    pub(crate) fn without_data(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            key: format!("Not drawn: {reason}"),
            absent: Some(reason),
            lines: Vec::new(),
            heat: None,
            ..self
        }
    }
}

impl Line {
    pub(crate) fn new(
        name: impl Into<String>,
        x: Points,
        y: Vec<Option<f64>>,
        style: Style,
    ) -> Self {
        Self {
            name: name.into(),
            x,
            y,
            labels: Vec::new(),
            style,
        }
    }

    /// Adds a point with a name, to a line whose points have positions of their own.
    pub(crate) fn add(&mut self, x: f64, y: f64, label: &str) {
        if let Points::Each(positions) = &mut self.x {
            positions.push(x);
            self.y.push(Some(y));
            self.labels.push(label.to_owned());
        }
    }
}

impl Axis {
    pub(crate) fn linear(title: &str, unit: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn log(title: &str, unit: &str) -> Self {
        Self {
            log: true,
            ..Self::linear(title, unit)
        }
    }

    /// A linear axis of percent, up to 100.
    pub(crate) fn percent(title: &str) -> Self {
        Self {
            max: Some(100.0),
            ..Self::linear(title, "%")
        }
    }
}

impl Style {
    /// A line of the colour `colour`. The first colour has a solid line.
    pub(crate) fn line(colour: usize) -> Self {
        Self {
            colour,
            dash: colour,
            symbols: false,
            joined: true,
            stepped: false,
            named: false,
        }
    }

    /// Symbols that are not joined. `named`: with the names of the points.
    pub(crate) fn dots(colour: usize, named: bool) -> Self {
        Self {
            joined: false,
            named,
            ..Self::points(colour)
        }
    }

    pub(crate) fn points(colour: usize) -> Self {
        Self {
            symbols: true,
            ..Self::line(colour)
        }
    }
}

/// Charts under a heading, with an introduction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Section {
    /// Identifier for programs: `latency`.
    pub id: String,
    /// The heading.
    pub title: String,
    /// Introduction: the subject of the section, one sentence.
    pub intro: String,
    /// Charts of the section.
    pub charts: Vec<Chart>,
}

impl Section {
    pub(crate) fn new(id: &str, title: &str, intro: &str, charts: Vec<Chart>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            intro: intro.to_owned(),
            charts,
        }
    }
}

/// A text as an identifier in a page: lower-case letters, digits and hyphens.
pub(crate) fn identifier(text: &str) -> String {
    let mut id = String::with_capacity(text.len());
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => id.push(c),
            _ if id.is_empty() || id.ends_with('-') => {}
            _ => id.push('-'),
        }
    }
    id.trim_end_matches('-').to_owned()
}

/// The value with four significant digits: enough for a picture, at a third of the bytes.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    // 10^digits is exact in both directions up to 10^22.
    let scale = 10_f64.powi(digits.abs().min(22));
    if digits >= 0 {
        (value * scale).round() / scale
    } else {
        (value / scale).round() * scale
    }
}

fn rounded_all<S: Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| value.map(rounded)))
}

fn rounded_plain<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| rounded(*value)))
}

fn rounded_rows<S: Serializer>(
    rows: &[Vec<Option<f64>>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(|row| {
        row.iter()
            .map(|value| value.map(rounded))
            .collect::<Vec<_>>()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_size_are_rounded_to_four_digits() {
        for (value, want) in [
            (0.0, 0.0),
            (123_456.0, 123_500.0),
            (0.001_234_56, 0.001_235),
            (-9.999_96, -10.0),
        ] {
            assert_eq!(rounded(value), want);
        }
        assert_eq!(
            serde_json::to_string(&rounded(1.0 / 3.0)).unwrap(),
            "0.3333"
        );
    }

    #[test]
    fn identifiers_have_only_lower_case_letters_digits_and_hyphens() {
        assert_eq!(
            identifier("p99 of reads@/dev/<x>\"--"),
            "p99-of-reads-dev-x"
        );
    }

    #[test]
    fn charts_of_a_page_with_many_runs_have_fewer_points_for_each_run() {
        assert_eq!(
            ChartResolution::of_runs(1),
            ChartResolution {
                points_max: 1_500,
                columns_max: 300
            }
        );
        assert_eq!(
            ChartResolution::of_runs(4),
            ChartResolution {
                points_max: 375,
                columns_max: 120
            }
        );
        assert_eq!(ChartResolution::of_runs(0), ChartResolution::of_runs(1));
    }
}
