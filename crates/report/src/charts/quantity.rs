//! Charts made of columns of telemetry, by a table: which columns, in which unit, mean or highest.
//!
//! A quantity says which of three things is so: it was measured, it could not be, or nobody asked for it.

use super::bins::Stat;
use super::timeline::{ColumnLine, Timeline};
use super::{Axis, Chart, Line, Style};
use results::telemetry::Column;
use results::units;

/// A chart of telemetry.
#[derive(Debug)]
pub(crate) struct Quantity {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// What a point is.
    pub(crate) stat: Stat,
    pub(crate) parts: &'static [Part],
    /// What to look for.
    pub(crate) look: &'static str,
}

/// One line of it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) label: &'static str,
    pub(crate) column: Column,
    /// What makes it the chart's unit.
    pub(crate) factor: f64,
}

/// A line of a quantity: whose (a device, or empty), which part.
struct Found<'a> {
    label: String,
    column: &'a ColumnLine,
    factor: f64,
    style: Style,
}

impl Quantity {
    /// The chart for `owners` (devices by their kernel names); a single empty one for the host.
    pub(crate) fn chart(&self, prefix: &str, owners: &[String], timeline: &Timeline) -> Chart {
        let axis = if self.unit == "%" { Axis::percent(self.title) } else { Axis::linear(self.title, self.unit) };
        let mut chart = Chart::over_time(format!("{prefix}-{}", self.id), self.title, axis);
        let found = self.found(owners, timeline);
        let measured: Vec<&Found<'_>> = found.iter().filter(|found| found.column.bins.any()).collect();
        if measured.is_empty() {
            return chart.without_data(self.why_nothing(&found));
        }
        for found in &measured {
            let values = found.column.bins.values(self.stat).into_iter();
            let y = values.map(|value| value.map(|value| value * found.factor)).collect();
            chart.lines.push(Line { name: found.label.clone(), x: timeline.points(), y, style: found.style });
        }
        if chart.lines.iter().flat_map(|line| &line.y).flatten().any(|value| *value > 100.0) {
            chart.y.max = None;
        }
        let point = units::span(timeline.point_sec());
        let what = if timeline.is_reduced() { format!("the {} value of {point}", self.stat.word()) } else { point };
        chart.caption = format!("Each point is {what}. {}", self.look);
        chart.key = self.key(&measured);
        chart
    }

    fn found<'a>(&self, owners: &[String], timeline: &'a Timeline) -> Vec<Found<'a>> {
        let mut all = Vec::new();
        for (number, owner) in owners.iter().enumerate() {
            for (part, Part { label, column, factor }) in self.parts.iter().enumerate() {
                let Some(column) = timeline.column(*column, owner) else { continue };
                // One device: colours tell its lines apart. Several: colours tell devices, dashes lines.
                let several = owners.len() > 1;
                let (colour, dash) = if several { (number, part) } else { (part, part) };
                let label = if several { format!("{owner} {label}") } else { (*label).to_owned() };
                let style = Style { colour, dash, ..Style::line(0) };
                all.push(Found { label, column, factor: *factor, style });
            }
        }
        all
    }

    fn why_nothing(&self, found: &[Found<'_>]) -> String {
        if found.is_empty() {
            let names = self.parts.iter().map(|part| part.column.name());
            return format!("this run has no column {} in telemetry.csv", names.collect::<Vec<_>>().join(", "));
        }
        "it could not be measured: the fields of telemetry.csv are empty".to_owned()
    }

    /// The highest of each line, or the mean where points are means.
    fn key(&self, measured: &[&Found<'_>]) -> String {
        let part = |found: &&Found<'_>| {
            let value = found.column.bins.overall(self.stat)? * found.factor;
            Some(format!("{} {} {}", found.label, units::number(value), self.unit).trim_end().to_owned())
        };
        let word = if self.stat == Stat::Max { "Highest" } else { "Mean" };
        const NAMED_MAX: usize = 6;
        let mut parts: Vec<String> = measured.iter().take(NAMED_MAX).filter_map(part).collect();
        if measured.len() > NAMED_MAX {
            parts.push(format!("{} more", measured.len() - NAMED_MAX));
        }
        format!("{word}: {}.", parts.join(", "))
    }
}
