//! Write amplification of tenants, arrangement by arrangement: tables, JSON, a page.
//!
//! The caller fills the report: from a simulation without a clock, or from the counters of a real drive.
//!
//! * `answer`: the answer; `latency`: latencies of clients; `prepared`: preparations compared

mod answer;
mod latency;
mod prepared;

pub use latency::{Latency, Timed};
pub use prepared::Preparations;

use crate::bars::Bars;
use crate::charts::{Axis, Chart, Line, Mark, Points, Section, Style};
use crate::table::{Cell, Table};
use crate::words::{Pair, unique};
use results::bytes_written::WrittenBytes;
use results::format::{self, bytes};
use results::waf::{ArrangementResult, OCTILES_PER_FILL, TenantBytes, steady_rule};
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the fields. Raised when a field changes its meaning.
pub const FORMAT_VERSION: u32 = 1;

/// The experiment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WafReport {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Program and version.
    pub made_by: String,
    /// File that describes the tenants.
    pub tenants: String,
    /// True if all results come from a simulated drive.
    pub predicted: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Assumptions about tenants, hosts and drives.
    pub assumptions: Vec<Pair>,
    /// Results of the arrangements.
    pub arrangements: Vec<Arranged>,
    /// Sweeps: in each, one assumption varies.
    pub sweeps: Vec<Sweep>,
    /// Remarks for the reader, each a sentence.
    pub remarks: Vec<String>,
}

/// Result of one arrangement.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Arranged {
    /// Arrangement: dedicated, shared or fdp.
    pub arrangement: String,
    /// Bytes of blocks that clients filled.
    pub client_bytes: u64,
    /// Bytes of blocks that defragmentation filled.
    pub defrag_bytes: u64,
    /// Bytes written to the media.
    pub media_bytes: u64,
    /// Superblocks erased; null for a real drive that does not count them.
    pub erases: Option<u64>,
    /// Superblocks by number of erases since the drives were new; empty for a real drive, which does not report them.
    pub erase_histogram: Vec<Worn>,
    /// Engine WA: bytes that stores wrote for each byte of their clients.
    pub engine_wa: Option<f64>,
    /// WAF of the drives in steady state; null if never steady.
    pub waf: Option<f64>,
    /// Engine WA x steady device WAF.
    pub total_wa: Option<f64>,
    /// Drive fills until the WAF was steady.
    pub steady_after_fills: Option<usize>,
    /// Years until the rated endurance of the media is used up; null without a rating.
    pub years: Option<f64>,
    /// Counters by drive, octile and tenant.
    pub counted: ArrangementResult,
    /// Steady WAF of each drive, in the order of `counted`.
    pub waf_by_drive: Vec<Option<f64>>,
    /// Latencies of clients; null if not measured.
    pub timed: Option<Timed>,
}

/// Superblocks that were erased equally often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Worn {
    /// Number of erases of each.
    pub erases: u32,
    /// Number of superblocks with this many erases.
    pub superblocks: u32,
}

/// Results for several values of one assumption.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sweep {
    /// Name of the assumption: `op`.
    pub parameter: String,
    /// The values as given.
    pub values: Vec<String>,
    /// The values as numbers; null if they are words.
    pub numbers: Option<Vec<f64>>,
    /// Unit of the numbers: %, MiB or empty.
    pub unit: String,
    /// For each arrangement: the steady WAF at each value, or why the WAF is missing.
    pub waf: Vec<(String, Vec<SweepPoint>)>,
}

/// A point of a sweep.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SweepPoint {
    /// Steady WAF.
    Waf(f64),
    /// Why the WAF is missing.
    Missing(String),
}

impl SweepPoint {
    fn waf(&self) -> Option<f64> {
        if let Self::Waf(waf) = self {
            Some(*waf)
        } else {
            None
        }
    }
}

impl Arranged {
    pub fn new(arrangement: &str, counted: ArrangementResult, timed: Option<Timed>) -> Self {
        let waf = counted.steady_waf();
        let engine_wa = counted.engine_wa();
        let sum = |of: fn(&TenantBytes) -> u64| counted.tenants.iter().map(of).sum();
        Self {
            arrangement: arrangement.to_owned(),
            client_bytes: sum(|tenant| tenant.client),
            defrag_bytes: sum(|tenant| tenant.defrag),
            media_bytes: counted.total().media,
            erases: None,
            erase_histogram: Vec::new(),
            engine_wa,
            waf,
            total_wa: waf.zip(engine_wa).map(|(device, engine)| device * engine),
            steady_after_fills: counted.steady_after,
            years: None,
            waf_by_drive: (0..counted.drives.len())
                .map(|drive| counted.steady_waf_of(drive))
                .collect(),
            counted,
            timed,
        }
    }
}

impl WafReport {
    /// Bytes written, write amplification and wear, with a column per arrangement.
    pub fn table(&self) -> Table {
        let headings = self.arrangements.iter().map(|one| one.arrangement.clone());
        let mut table = Table::new("Write amplification")
            .text([""])
            .numbers(headings);
        table.row(self.row("written by clients", |one| {
            bytes(one.client_bytes as f64).into()
        }));
        table.row(self.row("by defragmentation", |one| {
            bytes(one.defrag_bytes as f64).into()
        }));
        table.row(self.row("to the media", |one| bytes(one.media_bytes as f64).into()));
        table.row(self.row("engine WA", |one| factor(one.engine_wa).into()));
        table.row(self.row("device WAF, whole experiment", |one| {
            factor(one.counted.total().waf()).into()
        }));
        table.row(self.row("device WAF, steady state", |one| {
            one.waf.map_or_else(
                || Cell::bad("not steady"),
                |waf| Cell::strong(factor(Some(waf))),
            )
        }));
        let timed = |one: &Arranged| one.timed.as_ref().and_then(|timed| timed.device_waf);
        if self.arrangements.iter().any(|one| timed(one).is_some()) {
            table.row(self.row("device WAF, latency phase", |one| factor(timed(one)).into()));
        }
        table.row(self.row("total (engine WA x steady device WAF)", |one| {
            factor(one.total_wa).into()
        }));
        table.row(self.row("steady after, drive fills", |one| {
            one.steady_after_fills
                .map_or("-".into(), |fills| fills.to_string().into())
        }));
        for (name, p999) in latency::p999_rows(&self.arrangements) {
            table.row([name].into_iter().chain(p999));
        }
        table.row(self.row("erases", |one| {
            one.erases.map_or("-".into(), |erases| {
                format::Grouped(erases).to_string().into()
            })
        }));
        if self
            .arrangements
            .iter()
            .any(|one| !one.erase_histogram.is_empty())
        {
            table.row(self.row("erases of a superblock", |one| {
                spread(&one.erase_histogram).into()
            }));
        }
        if self.arrangements.iter().any(|one| one.years.is_some()) {
            table.row(self.row("years to the rated endurance", |one| {
                one.years.map_or("-".to_owned(), format::number).into()
            }));
        }
        table
    }

    fn row(&self, name: &str, cell_of: impl Fn(&Arranged) -> Cell) -> Vec<Cell> {
        let cells = self.arrangements.iter().map(cell_of);
        [Cell::from(name)].into_iter().chain(cells).collect()
    }

    /// WAF in each eighth (octile) of each drive fill.
    pub fn fill_interval_table(&self) -> Table {
        let headings = (1..=OCTILES_PER_FILL).map(|octile| format!("{octile}/8"));
        let mut table = Table::new("Device WAF by octile of each drive fill")
            .text(["arrangement"])
            .numbers(
                ["fill".to_owned()]
                    .into_iter()
                    .chain(headings)
                    .chain(["all".to_owned()]),
            );
        for arranged in &self.arrangements {
            // The last drive fill may be incomplete.
            for fill in 0..arranged
                .counted
                .completed_octiles()
                .div_ceil(OCTILES_PER_FILL)
            {
                let octiles = (0..OCTILES_PER_FILL).map(|octile| {
                    factor(
                        arranged
                            .counted
                            .octile_sum(fill * OCTILES_PER_FILL + octile)
                            .waf(),
                    )
                });
                let name = if fill == 0 {
                    arranged.arrangement.clone()
                } else {
                    String::new()
                };
                let whole = (fill < arranged.counted.rounds())
                    .then(|| arranged.counted.fills(fill, fill + 1));
                let whole = factor(whole.and_then(WrittenBytes::waf));
                table.row(
                    [name, (fill + 1).to_string()]
                        .into_iter()
                        .chain(octiles)
                        .chain([whole]),
                );
            }
        }
        table
    }

    /// Bytes that each tenant wrote, and the write amplification of its drive.
    pub fn tenants_table(&self) -> Table {
        let numbers = ["clients", "defragmentation", "engine WA", "device WAF"];
        let mut table = Table::new("Tenants")
            .text(["arrangement", "tenant"])
            .numbers(numbers);
        for arranged in &self.arrangements {
            for (number, tenant) in arranged.counted.tenants.iter().enumerate() {
                let drive = if arranged.counted.drives.len() > 1 {
                    number
                } else {
                    0
                };
                let host = (tenant.client > 0)
                    .then(|| (tenant.client + tenant.defrag) as f64 / tenant.client as f64);
                table.row([
                    if number == 0 {
                        arranged.arrangement.clone()
                    } else {
                        String::new()
                    },
                    tenant.name.clone(),
                    bytes(tenant.client as f64),
                    bytes(tenant.defrag as f64),
                    factor(host),
                    factor(arranged.waf_by_drive.get(drive).copied().flatten()),
                ]);
            }
        }
        table
    }

    /// Effect of an assumption on the result: one row per value.
    pub fn sweep(sweep: &Sweep) -> Table {
        let title = format!("Device WAF when only {} varies", sweep.parameter);
        let headings = sweep.waf.iter().map(|(name, _)| name.clone());
        let mut table = Table::new(title)
            .text([sweep.parameter.clone()])
            .numbers(headings);
        for (at, value) in sweep.values.iter().enumerate() {
            let cells = sweep.waf.iter().map(|(_, points)| factor(points[at].waf()));
            table.row([value.clone()].into_iter().chain(cells));
        }
        table
    }

    /// Why points of a sweep are missing, each reason once.
    pub fn missing(sweep: &Sweep) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        for (at, value) in sweep.values.iter().enumerate() {
            for (_, points) in &sweep.waf {
                if let SweepPoint::Missing(reason) = &points[at] {
                    reasons.push(format!("{}={value}: {reason}", sweep.parameter));
                }
            }
        }
        unique(reasons)
    }

    pub fn text(&self) -> String {
        let tables = [
            self.table(),
            self.latencies(),
            self.fill_interval_table(),
            self.tenants_table(),
        ];
        let mut parts: Vec<(String, String)> = Vec::new();
        for table in tables {
            let rows = rows_text(&table);
            parts.push((table.title, rows));
        }
        for sweep in &self.sweeps {
            let table = Self::sweep(sweep);
            let body = rows_text(&table) + &lines(&Self::missing(sweep));
            parts.push((table.title, body));
        }
        let assumptions: Vec<_> = self
            .assumptions
            .iter()
            .map(|pair| format!("{}: {}", pair.name, pair.value))
            .collect();
        parts.push(("Assumptions".to_owned(), lines(&assumptions)));
        parts.push(("Remarks".to_owned(), lines(&self.remarks)));
        let parts = parts.into_iter().filter(|(_, body)| !body.is_empty());
        let parts = parts.map(|(title, body)| format!("\n{title}\n\n{body}"));
        self.head().text() + &parts.collect::<String>()
    }

    pub(crate) fn bars(&self) -> [Bars; 2] {
        let mut device = Bars::new(
            "Device WAF in steady state",
            "Bytes written to the media for each byte from hosts.",
        );
        let mut total = Bars::new(
            "Total write amplification",
            "Engine WA x steady device WAF.",
        );
        for one in &self.arrangements {
            device.bar(&one.arrangement, one.waf, steady(one.waf));
            total.bar(&one.arrangement, one.total_wa, steady(one.total_wa));
        }
        [device, total]
    }

    /// WAF against the bytes that hosts wrote, and the effect of varied assumptions.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let x = Axis::linear(
            "written by hosts since the drives were filled once",
            "drive fills",
        );
        let mut chart = Chart::new(
            "waf",
            "Device WAF over bytes written",
            x,
            Axis::linear("device WAF", ""),
        );
        chart.wide = true;
        let steady_texts = self
            .arrangements
            .iter()
            .map(|one| format!("{} {}", one.arrangement, steady(one.waf)));
        chart.key = steady_texts.collect::<Vec<_>>().join(", ");
        chart.caption = format!(
            "Each point is an eighth of a drive fill. A line ends in steady state: {}.",
            steady_rule()
        );
        let step = 1.0 / OCTILES_PER_FILL as f64;
        chart.lines = self
            .arrangements
            .iter()
            .enumerate()
            .map(|(number, one): (usize, &Arranged)| {
                let y = (0..one.counted.completed_octiles())
                    .map(|octile| one.counted.octile_sum(octile).waf())
                    .collect();
                Line::new(
                    &one.arrangement,
                    Points::Even { first: step, step },
                    y,
                    Style::line(number),
                )
            })
            .collect();
        let mut sections = vec![Section::new(
            "waf",
            "Over bytes written",
            "When is an experiment long enough?",
            vec![chart],
        )];
        let charts: Vec<Chart> = self.sweeps.iter().map(sweep_chart).collect();
        if !charts.is_empty() {
            let intro = "One assumption varies; all others are as listed below.";
            sections.push(Section::new(
                "sweeps",
                "Effect of the assumptions",
                intro,
                charts,
            ));
        }
        sections
    }

    pub fn html(&self) -> String {
        let mut page = self.head().page();
        page.add(&self.bars());
        self.sections().iter().for_each(|of| page.charts(of));
        for sweep in &self.sweeps {
            page.add(&[Self::sweep(sweep)]);
            page.list(&Self::missing(sweep));
        }
        page.heading("In numbers");
        let tables = [self.table(), self.latencies(), self.tenants_table()];
        tables
            .into_iter()
            .filter(|table| !table.is_empty())
            .for_each(|table| page.add(&[table]));
        page.folded(
            "Device WAF by octile of each drive fill",
            &self.fill_interval_table(),
        );
        let assumptions = self
            .assumptions
            .iter()
            .map(|pair| (pair.name.clone(), pair.value.clone()));
        page.folded("Assumptions", &Table::named_values("", assumptions));
        if !self.remarks.is_empty() {
            page.heading("Remarks");
            page.list(&self.remarks);
        }
        page.html(&self.made_by)
    }
}

/// `table` without its title; empty if it has no rows.
fn rows_text(table: &Table) -> String {
    if table.is_empty() {
        String::new()
    } else {
        table.to_string()
    }
}

fn lines(sentences: &[String]) -> String {
    sentences
        .iter()
        .map(|sentence| format!("  {sentence}\n"))
        .collect()
}

/// Minimum, median and maximum of a histogram of erases in ascending order.
fn spread(histogram: &[Worn]) -> String {
    let total: u64 = histogram
        .iter()
        .map(|worn| u64::from(worn.superblocks))
        .sum();
    let mut cumulative = 0;
    let median = histogram.iter().find(|worn| {
        cumulative += u64::from(worn.superblocks);
        2 * cumulative >= total
    });
    match (histogram, median) {
        ([least, ..], Some(median)) => {
            let most = histogram.last().unwrap_or(least);
            format!("{}-{}, median {}", least.erases, most.erases, median.erases)
        }
        _ => "-".to_owned(),
    }
}

fn factor(factor: Option<f64>) -> String {
    factor.map_or("-".to_owned(), |factor| format!("{factor:.2}"))
}

fn steady(waf: Option<f64>) -> String {
    waf.map_or("never steady".to_owned(), |waf| factor(Some(waf)))
}

/// Values that span more than this factor get a logarithmic axis.
const LOG_FROM: f64 = 16.0;

fn sweep_chart(sweep: &Sweep) -> Chart {
    let title = sweep.parameter.as_str();
    let id = format!("sweep-{}", sweep.parameter);
    // Values that are words are placed at 1, 2, 3, each with a mark that names the value.
    let value_marks = sweep.values.iter().zip(1..).map(|(value, at)| Mark {
        x: f64::from(at),
        name: value.clone(),
    });
    let (positions, marks) = match &sweep.numbers {
        Some(numbers) => (numbers.clone(), Vec::new()),
        None => (
            (1..=sweep.values.len()).map(|at| at as f64).collect(),
            value_marks.collect(),
        ),
    };
    let lowest = positions.iter().copied().fold(f64::INFINITY, f64::min);
    let is_wide = lowest > 0.0 && positions.iter().any(|place| *place > LOG_FROM * lowest);
    let x = if is_wide {
        Axis::log(title, &sweep.unit)
    } else {
        Axis::linear(title, &sweep.unit)
    };
    let lines = sweep
        .waf
        .iter()
        .enumerate()
        .map(|(number, (name, points))| {
            let y = points.iter().map(SweepPoint::waf).collect();
            Line::new(
                name,
                Points::Each(positions.clone()),
                y,
                Style::points(number),
            )
        });
    let key = format!("Device WAF at {} values", sweep.values.len());
    let chart = Chart::new(id, title, x, Axis::linear("device WAF", ""));
    Chart {
        key,
        marks,
        lines: lines.collect(),
        ..chart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(values: &[&str], numbers: Option<&[f64]>) -> Chart {
        sweep_chart(&Sweep {
            parameter: "superblock".to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            numbers: numbers.map(<[f64]>::to_vec),
            unit: "MiB".to_owned(),
            waf: vec![(
                "shared".to_owned(),
                values.iter().map(|_| SweepPoint::Waf(1.5)).collect(),
            )],
        })
    }

    #[test]
    fn a_sweep_of_numbers_is_drawn_at_their_values_and_a_sweep_of_words_in_order() {
        let sizes = sweep(&["512KiB", "1MiB", "4MiB"], Some(&[0.5, 1.0, 4.0]));
        assert_eq!(sizes.lines[0].x, Points::Each(vec![0.5, 1.0, 4.0]));
        assert!(!sizes.x.log && sizes.marks.is_empty());
        assert!(sweep(&["1MiB", "32MiB"], Some(&[1.0, 32.0])).x.log);
        let words = sweep(&["fifo", "random"], None);
        assert_eq!(words.lines[0].x, Points::Each(vec![1.0, 2.0]));
        let names: Vec<_> = words
            .marks
            .iter()
            .map(|mark| (mark.x, mark.name.as_str()))
            .collect();
        assert_eq!(names, [(1.0, "fifo"), (2.0, "random")]);
    }
}
