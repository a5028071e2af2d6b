//! The comparison as a table for a terminal: a row for each number, a column for each candidate.
//!
//! A cell without a value has a dash and a note; the reasons stand below.

use super::cell::Cell;
use super::published::Published;
use super::{Candidate, Comparison, DeviceWear, Kind};
use results::judge::{Class, Outcome};
use results::units;
use std::fmt;

/// A comparison as rows of text.
pub(super) struct Rows {
    /// Label of each row, and its cells, one for each candidate.
    pub(super) rows: Vec<(String, Vec<String>)>,
    /// The reasons why cells are empty; a cell names them by `[1]`, `[2]`...
    pub(super) notes: Vec<String>,
}

impl Rows {
    pub(super) fn of(comparison: &Comparison) -> Self {
        let mut this = Self { rows: Vec::new(), notes: Vec::new() };
        let candidates = &comparison.candidates;
        this.row("result", candidates, |of| of.outcome.map(|outcome| outcome_text(of, *outcome)));
        this.row("of", candidates, |of| of.test.map(|_| kind_text(of)));
        this.row("test", candidates, |of| {
            of.test.map(|test| {
                let arrival = test.arrival.as_deref().unwrap_or("pacing unknown");
                let simulated = if test.simulated { ", simulated" } else { "" };
                format!("{}, {arrival}, {:.0} s{simulated}", test.test, test.ran_sec)
            })
        });
        this.row("devices", candidates, |of| {
            of.test.map(|test| {
                let named = |(name, model): (&String, &Option<String>)| match model {
                    Some(model) => format!("{model} ({name})"),
                    None => name.clone(),
                };
                test.devices.iter().zip(&test.models).map(named).collect::<Vec<_>>().join(", ")
            })
        });
        this.row("rating", candidates, |of| of.rating.map(|rating| units::multiple(*rating)));
        this.row("load held", candidates, |of| {
            of.load.and_then(|load| {
                let shown = load.multiple.or(load.x_per_device).map(units::multiple);
                Cell::or_missing(shown, "its load is no multiple of 1x")
            })
        });
        this.margins(candidates);
        let time = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        this.row("service p99", candidates, |of| of.p99.map(|p99| time(p99.service_ns)));
        this.row("service p99.9", candidates, |of| of.p99_9.map(|p99_9| time(p99_9.service_ns)));
        let rate = |iops: f64| if iops > 0.0 { format!("{iops:.0}/s") } else { "closed".to_owned() };
        this.row("offered", candidates, |of| of.rate.map(|of| format!("{} {}", rate(of.offered_iops), of.stream)));
        this.row("achieved", candidates, |of| of.rate.map(|of| format!("{:.0}/s", of.achieved_iops)));
        this.wear("written a day", candidates, |wear| wear.host_bytes_per_day.map(|bytes| units::bytes(*bytes)));
        this.wear("by SMART a day", candidates, |wear| wear.smart_bytes_per_day.map(|bytes| units::bytes(*bytes)));
        this.wear("drive writes a day", candidates, |wear| wear.drive_writes_per_day.map(|n| format!("{n:.2}")));
        this.wear("years to rating", candidates, |wear| wear.years.map(|years| format!("{years:.1}")));
        this.row("price for each 1x", candidates, |of| of.price_per_1x.map(|price| units::number(*price)));
        this.row("among published", candidates, |of| {
            of.place.map(|place| format!("{} of {}", place.higher + 1, place.of + 1))
        });
        this
    }

    fn row(&mut self, label: &str, candidates: &[Candidate], of: impl Fn(&Candidate) -> Cell<String>) {
        let cells = candidates.iter().map(|candidate| match of(candidate) {
            Cell::Value(text) => text,
            Cell::Missing { why_not } => {
                let known = self.notes.iter().position(|note| *note == why_not);
                let number = known.unwrap_or_else(|| {
                    self.notes.push(why_not);
                    self.notes.len() - 1
                });
                format!("- [{}]", number + 1)
            }
        });
        let cells = cells.collect();
        self.rows.push((label.to_owned(), cells));
    }

    /// A row for each threshold of any candidate.
    fn margins(&mut self, candidates: &[Candidate]) {
        let margins = candidates.iter().filter_map(|candidate| candidate.margins.value()).flatten();
        let mut thresholds: Vec<(u64, String)> =
            margins.map(|margin| (margin.threshold_ns, margin.threshold.clone())).collect();
        thresholds.sort();
        thresholds.dedup();
        for (threshold_ns, name) in thresholds {
            self.row(&format!("worst over {name}"), candidates, |of| {
                of.margins.and_then(|margins| match margins.iter().find(|of| of.threshold_ns == threshold_ns) {
                    Some(margin) => margin.worst.map(|worst| {
                        format!("{} of {}", units::percent(worst.share), units::percent_exact(margin.share_max))
                    }),
                    None => Cell::missing(format!("{name} is not among its limits")),
                })
            });
        }
    }

    /// The device that wears most, if there are several.
    fn wear(&mut self, label: &str, candidates: &[Candidate], of: impl Fn(&DeviceWear) -> Cell<String>) {
        self.row(label, candidates, |candidate| {
            candidate.wear.and_then(|devices| {
                let bytes = |wear: &&DeviceWear| wear.drive_writes_per_day.value().copied().unwrap_or(0.0);
                let most = devices.iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
                match most {
                    Some(wear) => of(wear),
                    None => Cell::missing("it has no devices"),
                }
            })
        });
    }
}

fn outcome_text(of: &Candidate, outcome: Outcome) -> String {
    let class = match of.test.value().map(|test| test.class) {
        Some(Class::Screening) => " (screening)",
        _ => "",
    };
    format!("{outcome}{class}{}", if of.damaged { ", DAMAGED" } else { "" })
}

fn kind_text(of: &Candidate) -> String {
    let step = of.test.value().and_then(|test| test.step.as_deref());
    let step = step.map(|step| format!(", its {step}")).unwrap_or_default();
    let kind = match of.kind {
        Kind::Run => "one run",
        Kind::Certify => "certification",
        Kind::Rate => "rating",
        Kind::Series => "series",
    };
    format!("{kind}{step}")
}

/// A published rating in one line.
pub(super) fn published_text(rating: &Published) -> String {
    let over = |pct: Option<f64>| pct.map_or_else(|| "?".to_owned(), |pct| format!("{pct} %"));
    let [over_1, over_8, over_64] = rating.over_pct.map(over);
    let more = [rating.endurance.as_deref(), rating.source.as_deref()].into_iter().flatten();
    format!(
        "{}  {} ({}; over 1/8/64 ms: {over_1}, {over_8}, {over_64}{})",
        units::multiple(rating.x),
        rating.device,
        rating.class,
        more.map(|more| format!("; {more}")).collect::<String>()
    )
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rows { rows, notes } = Rows::of(self);
        let header: Vec<String> = self.candidates.iter().map(|candidate| candidate.name.clone()).collect();
        let length = |text: &str| text.chars().count();
        let labels = rows.iter().map(|(label, _)| length(label)).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| length(cell));
            cells.chain(header.get(column).map(|name| length(name))).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        for (label, cells) in std::iter::once(&(String::new(), header.clone())).chain(&rows) {
            let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}"));
            writeln!(f, "{}", format!("{label:<labels$}{}", cells.collect::<String>()).trim_end())?;
        }
        if !notes.is_empty() {
            writeln!(f)?;
        }
        for (index, note) in notes.iter().enumerate() {
            writeln!(f, "[{}] {note}", index + 1)?;
        }
        for candidate in &self.candidates {
            let Some(place) = candidate.place.value() else { continue };
            writeln!(f, "\n{} among published ratings, the highest first", candidate.name)?;
            place.above.iter().try_for_each(|rating| writeln!(f, "    {}", published_text(rating)))?;
            writeln!(f, "  > {}  {}", units::multiple(place.x), candidate.name)?;
            place.below.iter().try_for_each(|rating| writeln!(f, "    {}", published_text(rating)))?;
            if let Some(caveat) = &place.caveat {
                writeln!(f, "    ({caveat})")?;
            }
        }
        Ok(())
    }
}
