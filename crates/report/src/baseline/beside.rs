//! Drives side by side: a row for each number, a column for each drive, and the drives that differ from others of their
//! model.

use super::{rate, time};
use crate::bars::Bars;
use crate::table::Table;
use crate::words::unique;
use conclusions::baseline::{AccessMix, DriveMetric, MetricKind, Point, metrics, model, outliers};
use conclusions::series::DriveIdentity;
use results::format::number;
use schemars::JsonSchema;
use serde::Serialize;

/// Drives side by side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Beside {
    /// Drives in the order of the request.
    pub drives: Vec<BesideDrive>,
    /// A sentence for each drive that differs from the others of its model.
    pub outliers: Vec<String>,
}

/// A drive among others.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BesideDrive {
    /// Name of the drive in the comparison.
    pub name: String,
    /// Model of the drive. Drives of unknown model and equal size count as one model.
    pub model: String,
    /// Numbers of the drive.
    pub numbers: Vec<Number>,
    #[serde(skip)]
    metrics: Vec<DriveMetric>,
}

/// A number by which drives are compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Number {
    /// Name of the quantity: `IOPS`, `p99`.
    pub what: String,
    /// The operations: `random reads, 4 KiB`.
    pub of: String,
    /// The value, in operations per second, operations in flight, or microseconds.
    pub value: f64,
}

impl BesideDrive {
    pub(crate) fn new(name: String, identity: &DriveIdentity, points: &[Point]) -> Self {
        let metrics = metrics(points);
        let number = |metric: &DriveMetric| Number {
            what: metric.kind.to_string(),
            of: metric.mix.to_string(),
            value: metric.value,
        };
        Self {
            name,
            model: model(identity),
            numbers: metrics.iter().map(number).collect(),
            metrics,
        }
    }

    fn value(&self, kind: MetricKind, mix: AccessMix) -> Option<f64> {
        let found = self
            .metrics
            .iter()
            .find(|metric| (metric.kind, metric.mix) == (kind, mix));
        found.map(|metric| metric.value)
    }

    fn text(&self, kind: MetricKind, mix: AccessMix) -> String {
        self.value(kind, mix)
            .map_or_else(|| "-".to_owned(), |value| text(kind, value))
    }
}

impl Beside {
    pub(crate) fn new(drives: Vec<BesideDrive>) -> Self {
        let mut this = Self {
            drives,
            outliers: Vec::new(),
        };
        let mut models: Vec<String> = this
            .drives
            .iter()
            .map(|drive| drive.model.clone())
            .collect();
        models.sort();
        models.dedup();
        for model in models {
            let of_model: Vec<&BesideDrive> = this
                .drives
                .iter()
                .filter(|drive| drive.model == model)
                .collect();
            let mut differences: Vec<Vec<String>> = vec![Vec::new(); of_model.len()];
            for (kind, mix) in this.rows() {
                let values: Vec<Option<f64>> = of_model
                    .iter()
                    .map(|drive| drive.value(kind, mix))
                    .collect();
                for outlier in outliers(kind, &values) {
                    let value = text(kind, outlier.value);
                    let off_pct = 100.0 * (outlier.value / outlier.median - 1.0);
                    differences[outlier.index]
                        .push(format!("{kind} of {mix} {value} ({off_pct:+.0} %)"));
                }
            }
            let differing = of_model
                .iter()
                .zip(differences)
                .filter(|(_, told)| !told.is_empty());
            let sentences: Vec<String> = differing
                .map(|(drive, told)| {
                    format!(
                        "{} differs from the median of its model ({model}): {}",
                        drive.name,
                        told.join("; ")
                    )
                })
                .collect();
            this.outliers.extend(sentences);
        }
        this
    }

    fn rows(&self) -> Vec<(MetricKind, AccessMix)> {
        let metrics = self.drives.iter().flat_map(|drive| &drive.metrics);
        let mut rows = unique(metrics.map(|metric| (metric.kind, metric.mix)));
        // A stable sort: mixes stay in the order in which they were run.
        rows.sort_by_key(|(what, _)| *what);
        rows
    }

    /// `A reaches 1.3 times the highest IOPS of B`, for the first mix; drives of equal IOPS have no winner. `None` with
    /// fewer than two drives.
    pub(crate) fn answer(&self) -> Option<String> {
        let mut rows = self.rows().into_iter();
        let (kind, mix) = rows.find(|(kind, _)| *kind == MetricKind::Highest)?;
        let drives = self.drives.iter();
        let values = drives.filter_map(|drive| Some((drive.value(kind, mix)?, &drive.name)));
        let mut values: Vec<(f64, &String)> = values.collect();
        values.sort_by(|a, b| b.0.total_cmp(&a.0));
        let [(most, a), (less, b), ..] = values[..] else {
            return None;
        };
        let figures = format!("{} against {}", text(kind, most), text(kind, less));
        let off = most / less - 1.0;
        if kind.differs_from().is_some_and(|fraction| off <= fraction) {
            return Some(format!(
                "{a} and {b} reach the same {kind} within {} % ({mix}: {figures})",
                number(100.0 * off)
            ));
        }
        let times = number(most / less);
        Some(format!(
            "{a} reaches {times} times the {kind} of {b} ({mix}: {figures})"
        ))
    }

    pub(crate) fn bars(&self) -> Vec<Bars> {
        let rows = self.rows().into_iter().map(|(kind, mix)| {
            let mut bars = Bars::new(format!("{kind}: {mix}"), "");
            for drive in &self.drives {
                bars.bar(&drive.name, drive.value(kind, mix), drive.text(kind, mix));
            }
            bars
        });
        rows.collect()
    }

    pub(crate) fn table(&self, title: &str) -> Table {
        let rows = self.rows().into_iter().map(|(what, mix)| {
            let cells = self.drives.iter().map(|drive| drive.text(what, mix));
            std::iter::once(format!("{what}: {mix}"))
                .chain(cells)
                .collect::<Vec<_>>()
        });
        let names = self.drives.iter().map(|drive| drive.name.clone());
        let models = self.drives.iter().map(|drive| drive.model.clone());
        let models = std::iter::once("model".to_owned()).chain(models);
        Table::new(title)
            .text([""])
            .numbers(names)
            .rows([models])
            .rows(rows)
    }
}

fn text(kind: MetricKind, value: f64) -> String {
    match kind {
        MetricKind::Iops | MetricKind::Highest | MetricKind::Sustained => rate(value),
        MetricKind::P99 | MetricKind::P99AtHalf | MetricKind::Cpu => time(Some(value)),
        MetricKind::InFlight | MetricKind::Knee => number(value),
    }
}
