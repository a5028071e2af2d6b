//! The comparison for a terminal and as Markdown: the answer, then a row for each number that any candidate has, and a
//! column for each candidate. A cell without a value has a dash and the number of a note; the notes follow the table.
//!
//! The HTML page has charts first, then the same tables.

use super::answer::devices_text;
use super::{
    Candidate, CandidateComparison, CandidateKind, DeviceWear, PublishedRating, ValueOrReason,
    over_time,
};
use crate::bars::Bars;
use crate::charts::{Axis, Chart, Line, Points, Section, Style};
use crate::latencies::Quantiles;
use crate::table::{Cell, Table, escaped};
use crate::words::OutcomeLabel;
use results::format;
use results::judge::{Outcome, VerdictClass};
use std::collections::BTreeMap;
use std::fmt;

struct Rows {
    table: Table,
    /// The reasons for empty cells. A cell refers to its reason as `[1]`, `[2]`...
    notes: Vec<String>,
}

impl Rows {
    /// The rows of `comparison`; `columns` adds the columns of the candidates, as text or as numbers.
    fn from_comparison(
        comparison: &CandidateComparison,
        columns: fn(Table, Vec<String>) -> Table,
    ) -> Self {
        let candidates = &comparison.candidates;
        let names = candidates.iter().map(|candidate| candidate.name.clone());
        let mut this = Self {
            table: columns(Table::new("").text([""]), names.collect()),
            notes: Vec::new(),
        };
        this.row("result", candidates, |of| {
            of.outcome.map(|outcome| outcome_cell(of, *outcome))
        });
        this.row("kind", candidates, |of| match of.kind {
            CandidateKind::Baseline => ValueOrReason::Value(kind_text(of)),
            _ => of.test.map(|_| kind_text(of)),
        });
        if candidates.iter().any(|of| of.note.is_some()) {
            this.row("note", candidates, |of| {
                ValueOrReason::or_missing(of.note.clone(), "no --note was given")
            });
        }
        if candidates.iter().all(is_baseline) {
            // Baselines have no load, which the rows below need.
            return this;
        }
        this.row("test", candidates, |candidate| {
            candidate.test.map(|test| {
                let arrival = test.arrival.as_deref().unwrap_or("pacing unknown");
                let simulated = if test.simulated { ", simulated" } else { "" };
                format!("{}, {arrival}, {:.0} s{simulated}", test.test, test.ran_sec)
            })
        });
        this.row("devices", candidates, |candidate| {
            candidate.test.map(devices_text)
        });
        this.row("rating", candidates, |of| {
            of.rating.map(|rating| format::multiple(*rating))
        });
        this.row("load held", candidates, |of| {
            of.load.and_then(|load| {
                let shown = load.multiple.or(load.x_per_device).map(format::multiple);
                ValueOrReason::or_missing(shown, "the load is not a multiple of 1x")
            })
        });
        this.margins(candidates);
        let time = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        this.row("service p99", candidates, |of| {
            of.p99.map(|p99| time(p99.service_ns))
        });
        this.row("service p99.9", candidates, |of| {
            of.p99_9.map(|p99_9| time(p99_9.service_ns))
        });
        this.row("offered", candidates, |of| {
            of.rate.map(|rate| {
                if rate.offered_iops > 0.0 {
                    format!("{}/s {}", format::number(rate.offered_iops), rate.stream)
                } else {
                    format!("closed {}", rate.stream)
                }
            })
        });
        this.row("achieved", candidates, |of| {
            of.rate
                .map(|of| format!("{}/s", format::number(of.achieved_iops)))
        });
        this.wear("written a day", candidates, |wear| {
            wear.host_bytes_per_day.map(|bytes| format::bytes(*bytes))
        });
        this.wear("by SMART a day", candidates, |wear| {
            wear.smart_bytes_per_day.map(|bytes| format::bytes(*bytes))
        });
        this.wear("drive writes a day", candidates, |wear| {
            wear.drive_writes_per_day.map(|n| format!("{n:.2}"))
        });
        this.wear("years to rating", candidates, |wear| {
            wear.years.map(|years| format!("{years:.1}"))
        });
        this.row("price for each 1x", candidates, |of| {
            of.price_per_1x.map(|price| format::number(*price))
        });
        this.row("among published", candidates, |of| {
            of.place
                .map(|place| format!("{} of {}", place.higher + 1, place.of + 1))
        });
        this
    }

    /// Adds a row, unless no candidate has a value.
    fn row<C: Into<Cell>>(
        &mut self,
        label: &str,
        candidates: &[Candidate],
        value_of: impl Fn(&Candidate) -> ValueOrReason<C>,
    ) {
        let values: Vec<ValueOrReason<C>> = candidates.iter().map(value_of).collect();
        if values.iter().all(|value| value.value().is_none()) {
            return;
        }
        let cells = values.into_iter().map(|value| match value {
            ValueOrReason::Value(value) => value.into(),
            ValueOrReason::Missing { why_not } => {
                let known = self.notes.iter().position(|note| *note == why_not);
                let number = known.unwrap_or_else(|| {
                    self.notes.push(why_not);
                    self.notes.len() - 1
                });
                Cell::missing(format!("- [{}]", number + 1))
            }
        });
        let cells: Vec<Cell> = std::iter::once(label.into()).chain(cells).collect();
        self.table.row(cells);
    }

    fn margins(&mut self, candidates: &[Candidate]) {
        let margins = candidates
            .iter()
            .filter_map(|candidate| candidate.margins.value())
            .flatten();
        let thresholds: BTreeMap<u64, &str> = margins
            .map(|margin| (margin.threshold_ns, margin.threshold.as_str()))
            .collect();
        for (threshold_ns, name) in thresholds {
            self.row(&format!("worst over {name}"), candidates, |candidate| {
                candidate.margins.and_then(|margins| {
                    match margins.iter().find(|of| of.threshold_ns == threshold_ns) {
                        Some(margin) => margin.worst.map(|worst| {
                            let slices = if worst.is_over() {
                                format!(" {}", worst.slices())
                            } else {
                                String::new()
                            };
                            format!(
                                "{} of {}{slices}",
                                format::percent(worst.share),
                                format::percent_exact(margin.share_max)
                            )
                        }),
                        None => ValueOrReason::missing(format!("the run has no limit at {name}")),
                    }
                })
            });
        }
    }

    /// A row with a value of the device that wears most.
    fn wear(
        &mut self,
        label: &str,
        candidates: &[Candidate],
        text_of: impl Fn(&DeviceWear) -> ValueOrReason<String>,
    ) {
        self.row(label, candidates, |candidate| {
            candidate.wear.and_then(|devices| {
                let bytes =
                    |wear: &&DeviceWear| wear.drive_writes_per_day.value().copied().unwrap_or(0.0);
                let most = devices.iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
                most.map_or_else(
                    || ValueOrReason::missing("the run has no devices"),
                    &text_of,
                )
            })
        });
    }
}

fn outcome_cell(candidate: &Candidate, outcome: Outcome) -> Cell {
    let is_screening = candidate
        .test
        .value()
        .is_some_and(|test| test.class == VerdictClass::Screening);
    let class = if is_screening { " (screening)" } else { "" };
    let doubts = candidate
        .in_doubt
        .as_ref()
        .map_or_else(String::new, |doubts| format!(", {doubts}"));
    let damaged = if candidate.damaged { ", DAMAGED" } else { "" };
    Cell::outcome(OutcomeLabel {
        text: format!("{outcome}{class}{doubts}{damaged}"),
        look: Some(outcome),
    })
}

/// The reason for each candidate's outcome, and what the outcome does not cover.
fn results(candidate: &Candidate) -> Vec<String> {
    let why = candidate
        .outcome
        .value()
        .zip(candidate.reason.value())
        .map(|(outcome, reason)| format!("{outcome}: {reason}"));
    let not_judged = candidate
        .not_judged
        .iter()
        .map(|what| format!("not judged: {what}"));
    why.into_iter()
        .chain(not_judged)
        .map(|line| format!("{}: {line}", candidate.name))
        .collect()
}

fn is_baseline(candidate: &Candidate) -> bool {
    candidate.kind == CandidateKind::Baseline
}

/// Positions and names of quantiles on the axis: -log10(1 - quantile), so that each further nine is one step.
const NINES: [(f64, &str); 5] = [
    (0.301, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
];

/// The values of [`NINES`] in milliseconds; `None` where not even one operation took longer.
fn nines_ms(service: &Quantiles) -> Vec<Option<f64>> {
    let known = service.all_ns().into_iter().zip(NINES);
    let ms = known.map(|(ns, (place, _))| {
        let beyond = service.count as f64 / 10_f64.powf(place);
        (beyond >= 1.0).then_some(ns as f64 / 1e6)
    });
    ms.collect()
}

fn kind_text(candidate: &Candidate) -> String {
    let step = candidate.test.value().and_then(|test| test.step.as_deref());
    let step = step
        .map(|step| format!(", step {step}"))
        .unwrap_or_default();
    format!("{}{step}", candidate.kind.words().0)
}

fn neighbours(candidate: &Candidate) -> Option<(String, Vec<String>)> {
    let placement = candidate.place.value()?;
    let own_line = format!("> {}  {}", format::multiple(placement.x), candidate.name);
    let above = placement.above.iter().map(published_text).chain([own_line]);
    let lines = above
        .chain(placement.below.iter().map(published_text))
        .chain(placement.caveat.clone().map(|why| format!("({why})")));
    Some((
        format!(
            "{} among published ratings, the highest first",
            candidate.name
        ),
        lines.collect(),
    ))
}

fn published_item(rating: &PublishedRating) -> String {
    format!("- {}\n", escaped(&published_text(rating)))
}

fn published_text(rating: &PublishedRating) -> String {
    let percent_text =
        |pct: Option<f64>| pct.map_or_else(|| "?".to_owned(), |pct| format!("{pct} %"));
    let [over_1, over_8, over_64] = rating.over_pct.map(percent_text);
    let PublishedRating {
        device,
        class,
        endurance,
        source,
        ..
    } = rating;
    let more: String = [endurance, source]
        .into_iter()
        .flatten()
        .map(|more| format!("; {more}"))
        .collect();
    let x = format::multiple(rating.x);
    format!("{x}  {device} ({class}; over 1/8/64 ms: {over_1}, {over_8}, {over_64}{more})")
}

impl fmt::Display for CandidateComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rows { table, notes } = Rows::from_comparison(self, Table::text);
        write!(f, "{}\n{table}", self.head().text())?;
        if !notes.is_empty() {
            writeln!(f)?;
        }
        for (index, note) in notes.iter().enumerate() {
            writeln!(f, "[{}] {note}", index + 1)?;
        }
        writeln!(f)?;
        self.candidates
            .iter()
            .flat_map(results)
            .try_for_each(|line| writeln!(f, "{line}"))?;
        if let Some(baselines) = &self.baselines {
            write!(f, "\nbaselines\n{}", baselines.table(""))?;
            baselines
                .outliers
                .iter()
                .try_for_each(|outlier| writeln!(f, "  {outlier}"))?;
        }
        for (title, lines) in self.candidates.iter().filter_map(neighbours) {
            writeln!(f, "\n{title}")?;
            let indent = |line: &str| if line.starts_with('>') { "  " } else { "    " };
            lines
                .iter()
                .try_for_each(|line| writeln!(f, "{}{line}", indent(line)))?;
        }
        Ok(())
    }
}

impl CandidateComparison {
    pub fn markdown(&self) -> String {
        let Rows { table, notes } = Rows::from_comparison(self, Table::numbers);
        let mut text = self.head().markdown() + "\n";
        text.extend(
            self.warnings
                .iter()
                .map(|warning| format!("> **Warning:** {}\n\n", escaped(warning))),
        );
        text.extend(
            self.remarks
                .iter()
                .map(|remark| format!("> {}\n\n", escaped(remark))),
        );
        text += &table.markdown();
        text.extend(
            (1..)
                .zip(&notes)
                .map(|(number, note)| format!("\n\\[{number}\\] {}\n", escaped(note))),
        );
        text.push('\n');
        text.extend(
            self.candidates
                .iter()
                .flat_map(results)
                .map(|line| format!("- {}\n", escaped(&line))),
        );
        if let Some(baselines) = &self.baselines {
            text += &format!("\n**Baselines**\n\n{}\n", baselines.table("").markdown());
            text.extend(
                baselines
                    .outliers
                    .iter()
                    .map(|outlier| format!("- {}\n", escaped(outlier))),
            );
        }
        for candidate in &self.candidates {
            let Some(placement) = candidate.place.value() else {
                continue;
            };
            text += &format!(
                "\n**{}** among published ratings, the highest first:\n\n",
                escaped(&candidate.name)
            );
            text.extend(placement.above.iter().map(published_item));
            text += &format!(
                "- **{} {}**\n",
                format::multiple(placement.x),
                escaped(&candidate.name)
            );
            text.extend(placement.below.iter().map(published_item));
            text.extend(
                placement
                    .caveat
                    .iter()
                    .map(|caveat| format!("\n{}\n", escaped(caveat))),
            );
        }
        text
    }

    pub fn html(&self, made_by: &str) -> String {
        let mut page = self.head().page();
        page.warnings(&self.warnings);
        if let Some(curves) = self.curves() {
            let intro = "The judged stream of each candidate, over the whole run.";
            let section = Section::new("latency", "Service times", intro, vec![curves]);
            page.charts(&section);
        }
        let over_time = over_time::charts(&self.candidates);
        if !over_time.is_empty() {
            let intro = "The judged stream of each candidate. Time 0 is the start of each run.";
            page.charts(&Section::new("over-time", "Over time", intro, over_time));
        }
        page.heading("Side by side");
        page.add(&self.bars());
        page.heading("In numbers");
        let Rows { table, notes } = Rows::from_comparison(self, Table::text);
        page.add(&[table]);
        let notes = notes
            .iter()
            .zip(1..)
            .map(|(note, number)| format!("[{number}] {note}"));
        page.list(
            &notes
                .chain(self.candidates.iter().flat_map(results))
                .collect::<Vec<_>>(),
        );
        if let Some(baselines) = &self.baselines {
            page.add(&[baselines.table("Baselines")]);
            page.list(&baselines.outliers);
        }
        for (title, ratings) in self.candidates.iter().filter_map(neighbours) {
            page.heading(&title);
            page.list(&ratings);
        }
        if !self.remarks.is_empty() {
            page.heading("Remarks");
            page.list(&self.remarks);
        }
        page.html(made_by)
    }

    /// The numbers of the candidates, for a spreadsheet.
    pub fn table(&self) -> Table {
        match &self.baselines {
            Some(baselines) if self.candidates.iter().all(is_baseline) => baselines.table(""),
            _ => Rows::from_comparison(self, Table::text).table,
        }
    }

    /// The percentiles of all candidates in one chart; `None` if no candidate has any.
    fn curves(&self) -> Option<Chart> {
        let known = self.candidates.iter().enumerate();
        let known = known.filter_map(|(index, of)| Some((index, &of.name, of.service.value()?)));
        let lines = known.map(|(index, name, service)| {
            let places = NINES.iter().map(|(place, _)| *place).collect();
            let style = Style::points(index);
            Line::new(name, Points::Each(places), nines_ms(service), style)
        });
        let lines: Vec<Line> = lines.collect();
        if lines.is_empty() {
            return None;
        }
        let x = Axis {
            ticks: NINES.map(|(place, name)| (place, name.to_owned())).into(),
            ..Axis::linear("share of the operations", "")
        };
        let y = Axis::log("service time", "ms");
        Some(Chart {
            key: "Lower is better; a line that rises early has many slow operations.".to_owned(),
            caption: "A percentile that less than one operation exceeds is left out.".to_owned(),
            lines,
            wide: true,
            ..Chart::new("percentiles", "Percentiles of the service time", x, y)
        })
    }

    /// Bars of load held, worst share over each threshold and p99 of each candidate, and of baselines' numbers.
    fn bars(&self) -> Vec<Bars> {
        let mut load = Bars::new("Load held", "As a multiple of 1x.");
        let mut p99 = Bars::new("Service p99", "Of the judged stream over the whole run.");
        let mut worst: BTreeMap<u64, Bars> = BTreeMap::new();
        for candidate in &self.candidates {
            let held_load = candidate
                .load
                .value()
                .and_then(|load| load.multiple.or(load.x_per_device));
            load.bar(
                &candidate.name,
                held_load,
                held_load.map_or_else(|| "-".to_owned(), format::multiple),
            );
            let ns = candidate.p99.value().map(|p99| p99.service_ns);
            p99.bar(
                &candidate.name,
                ns.map(|ns| ns as f64),
                ns.map_or_else(|| "-".to_owned(), format::duration),
            );
            for margin in candidate.margins.value().into_iter().flatten() {
                let ValueOrReason::Value(share) = &margin.worst else {
                    continue;
                };
                let bars = worst.entry(margin.threshold_ns).or_insert_with(|| {
                    let title = format!("Worst share over {}", margin.threshold);
                    Bars::new(
                        title,
                        "The dashed line is the limit. Bars are cut off at twice the limit.",
                    )
                });
                let text = format!(
                    "{} of {}",
                    format::percent(share.share),
                    format::percent_exact(margin.share_max)
                );
                bars.against(
                    &candidate.name,
                    share.share,
                    margin.share_max,
                    text,
                    share.is_over(),
                );
            }
        }
        let of_runs = std::iter::once(load)
            .chain(worst.into_values())
            .chain([p99]);
        let of_baselines = self.baselines.iter().flat_map(|baselines| baselines.bars());
        of_runs
            .chain(of_baselines)
            .filter(|bars| !bars.is_empty())
            .collect()
    }
}
