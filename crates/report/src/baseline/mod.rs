//! Report of a baseline: curves, tables and warnings for each drive, and the drives side by side.
//!
//! ```text
//! points of a drive -> sections (charts) + tables of each section -> every form of a report
//!                   -> numbers -> Beside: drives in columns, outliers named -> reports and comparisons
//! ```
//!
//! All data comes from the points in `series.json`, except the timeline of the saturation, which comes from its run.

mod beside;
mod charts;
mod grid;

pub use beside::{Beside, BesideDrive, Number};
pub use grid::pts_table;

use crate::charts::Section;
use crate::run_report::{RunReport, StepReport};
use crate::table::{Cell, Table};
use crate::words::Pair;
use conclusions::baseline::{
    AccessMix, Declined, DirectionResult, DriveMetric, JobPurpose, MetricKind, Parameter,
    Percentile, Point, Prediction, Pts, curves, highest, knee, metrics, point_of, points_of,
};
use conclusions::series::{DriveIdentity, Series};
use results::finding::Finding;
use results::format::{self, milliseconds, number};
use results::judge::Sla;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Results of a baseline for one drive.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DriveReport {
    /// The device, as the user named it.
    pub device: String,
    /// The most important numbers.
    pub summary: Vec<Pair>,
    /// Reasons to doubt the numbers, in addition to single jobs in doubt, each one sentence.
    pub doubts: Vec<String>,
    /// Charts by subject.
    pub sections: Vec<Section>,
    /// The predicted rating; null if not requested.
    pub prediction: Option<Prediction>,
    /// The part of the drive in use, and the possible gain from another part, each one sentence.
    pub layout: Vec<String>,
    /// Findings about over-provisioning, alignment and preparation.
    pub findings: Vec<Finding>,
    /// Measurements of each job.
    pub points: Vec<Point>,
}

/// A section of a drive's report: id, heading, introduction.
type SectionHead = (&'static str, &'static str, &'static str);

const DEPTH: SectionHead = (
    "depth",
    "Queue depth",
    "Rate and latency at each number of operations in flight.",
);
const RATES: SectionHead = (
    "throughput",
    "Latency against throughput",
    "Latency at fractions of the highest rate. Open loop: operations start by the schedule, however slow earlier ones \
     are.",
);
const GRID: SectionHead = (
    "grid",
    "Reads together with writes",
    "Latency of reads and writes at the same time, each at a fraction of its own highest rate. The stronger the colour, \
     the longer the time.",
);
const PROFILES: SectionHead = (
    "profiles",
    "Profiles",
    "The highest rates of mixes of reads and writes, in a closed loop.",
);
const SATURATION: SectionHead = (
    "saturation",
    "Write saturation",
    "Rate of random writes after all erased space was used up.",
);
const PTS: SectionHead = (
    "pts",
    "SNIA's tests",
    "Performance in steady state, by SNIA's standard procedure.",
);
const PREDICTION: SectionHead = (
    "prediction",
    "Prediction",
    "The rating predicted for this drive: the rating of a simulated drive that behaves as this drive did.",
);
const LAYOUT: SectionHead = (
    "layout",
    "Over-provisioning and partitions",
    "The part of the drive that was in use. The smaller this part, the less data the drive copies for writes.",
);

impl DriveReport {
    /// The results of device number `device` of `series`. `steps`: all steps of the series, with their runs.
    pub(crate) fn from_series(series: &Series, device: usize, steps: &[StepReport]) -> Self {
        let identity = &series.devices[device];
        let drive_steps: Vec<&StepReport> = steps
            .iter()
            .filter(|step| step.step.devices.contains(&device))
            .collect();
        let points = points_of(series, device);
        let has_part = |part| points.iter().any(|point: &Point| point.part == part);
        // The predictions are in the order of the drives.
        let predictions = series
            .conclusion
            .as_ref()
            .and_then(|ended| ended.details.get("prediction")?.as_array());
        let prediction: Option<Prediction> =
            predictions.and_then(|all| serde_json::from_value(all.get(device)?.clone()).ok());
        let saturation_steps = drive_steps.iter().copied().filter(|step| {
            point_of(&step.step).is_some_and(|point| point.part == JobPurpose::Saturation)
        });
        let saturation =
            charts::saturation(&points, saturation_steps, device, series.devices.len());
        let has_pts = Pts::ALL.iter().any(|test| has_part(test.part()));
        let sections = [
            (DEPTH, has_part(JobPurpose::Depth), charts::depth(&points)),
            (RATES, has_part(JobPurpose::Rate), charts::rates(&points)),
            (GRID, has_part(JobPurpose::Grid), Vec::new()),
            (PROFILES, has_part(JobPurpose::Profile), Vec::new()),
            (SATURATION, has_part(JobPurpose::Saturation), saturation),
            (PTS, has_pts, Vec::new()),
            (PREDICTION, prediction.is_some(), Vec::new()),
            (LAYOUT, true, Vec::new()),
        ];
        let sections = sections
            .into_iter()
            .filter(|(_, is_there, _)| *is_there)
            .map(|((id, title, intro), _, charts)| Section::new(id, title, intro, charts))
            .collect();
        let of_run = drive_steps.iter().find_map(|step| step.report.as_ref());
        Self {
            device: identity.name.clone(),
            summary: summary(&points, series.devices[device].simulated),
            doubts: doubts(&points),
            sections,
            prediction,
            layout: layout_notes(identity, of_run, &points),
            findings: series
                .findings
                .iter()
                .filter(|finding: &&Finding| {
                    finding.device.as_deref() == Some(&identity.name)
                        && CHECKS.contains(&finding.check.as_str())
                })
                .cloned()
                .collect(),
            points,
        }
    }

    pub(crate) fn tables(&self, section: &str) -> Vec<Table> {
        let curves_of = |part| curves(&self.points, part);
        match section {
            "depth" => curves_of(JobPurpose::Depth)
                .iter()
                .map(|(mix, curve)| depth_table(*mix, curve))
                .collect(),
            "throughput" => curves_of(JobPurpose::Rate)
                .iter()
                .map(|(mix, curve)| rate_table(*mix, curve))
                .collect(),
            "grid" => grid::tables(&self.points),
            "profiles" => vec![profile_table(&self.points)],
            "saturation" => curves_of(JobPurpose::Saturation)
                .iter()
                .map(|(mix, curve)| saturation_table(*mix, curve))
                .collect(),
            "pts" => Pts::ALL
                .iter()
                .filter_map(|test| test.table(&self.points))
                .map(|test| pts_table(&test))
                .collect(),
            "prediction" => self
                .prediction
                .iter()
                .filter(|told| !told.parameters.is_empty())
                .map(parameters)
                .collect(),
            "layout" if self.findings.is_empty() => Vec::new(),
            "layout" => vec![Table::findings(
                "Found before the first job",
                self.findings.iter(),
            )],
            _ => Vec::new(),
        }
    }

    /// Notes on the section with this id, beside its charts and tables, each one sentence.
    pub(crate) fn notes(&self, section: &str) -> Vec<String> {
        match section {
            "depth" => self.too_few_note(JobPurpose::Depth),
            "throughput" => self.too_few_note(JobPurpose::Rate),
            "grid" => self.too_few_note(JobPurpose::Grid),
            "profiles" => self.too_few_note(JobPurpose::Profile),
            "saturation" => self.too_few_note(JobPurpose::Saturation),
            "pts" => vec![grid::PROCEDURE.to_owned()],
            "prediction" => self.prediction.iter().flat_map(prediction_notes).collect(),
            "layout" => self.layout.clone(),
            _ => Vec::new(),
        }
    }

    /// A note if `part` has too few operations for some percentiles.
    fn too_few_note(&self, part: JobPurpose) -> Vec<String> {
        let mut done = self
            .points
            .iter()
            .filter(|point| point.part == part)
            .flat_map(Point::directions);
        let has_too_few = done.any(|done| {
            SHOWN
                .iter()
                .any(|(_, percent)| done.answer_at(*percent) == Percentile::TooFew)
        });
        if has_too_few {
            vec![TOO_FEW.to_owned()]
        } else {
            Vec::new()
        }
    }
}

/// Microseconds in the most readable unit; a dash for `None`.
fn time(us: Option<f64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| milliseconds(us / 1e3))
}

fn rate(iops: f64) -> String {
    format!("{}/s", number(iops))
}

fn summary(points: &[Point], is_simulated: bool) -> Vec<Pair> {
    let pair = |name: String, value: String| Pair { name, value };
    let mut pairs = Vec::new();
    for (mix, curve) in curves(points, JobPurpose::Depth) {
        let (Some(highest), Some(knee)) = (highest(&curve), knee(&curve)) else {
            continue;
        };
        let p99 = p99(knee, DirectionResult::service_at);
        let highest = rate(highest);
        let depth = knee.depth;
        let at_knee = rate(knee.iops());
        let value =
            format!("{highest} at saturation; knee at queue depth {depth}: {at_knee}, p99 {p99}");
        pairs.push(pair(mix.to_string(), value));
    }
    for DriveMetric {
        kind: what,
        mix,
        value,
    } in metrics(points)
    {
        match what {
            MetricKind::Sustained => {
                pairs.push(pair(format!("{mix} after saturation"), rate(value)))
            }
            MetricKind::P99AtHalf => {
                pairs.push(pair(
                    format!("{mix} at half of the highest rate"),
                    format!("p99 {}", time(Some(value))),
                ));
            }
            _ => {}
        }
    }
    let clock = if is_simulated {
        " of simulated time"
    } else {
        ""
    };
    let seconds = points.iter().map(|point| point.seconds).sum();
    let jobs = format::count(points.len() as u64, "job");
    pairs.push(pair(
        "measured".to_owned(),
        format!("{}{clock} in {jobs}", format::span_of(seconds)),
    ));
    pairs
}

fn doubts(points: &[Point]) -> Vec<String> {
    let mut doubts = Vec::new();
    for (mix, curve) in curves(points, JobPurpose::Depth) {
        let (Some(knee), Some(last)) = (knee(&curve), curve.last()) else {
            continue;
        };
        let depth = last.depth;
        if curve.len() > 1 && knee.depth == depth {
            doubts.push(format!(
                "{mix}: the knee is at the largest depth of the sweep, {depth}: larger depths may reach a higher rate"
            ));
        }
    }
    for (mix, curve) in curves(points, JobPurpose::Saturation) {
        if curve.last().is_some_and(|last| last.steady == Some(false)) {
            doubts.push(format!(
                "{mix} were not steady at the end of the saturation: their rate may fall further"
            ));
        }
    }
    doubts
}

/// Suffix that marks an unreliable job in tables.
fn in_doubt(point: &Point) -> &'static str {
    if point.doubt.is_some() {
        " (in doubt)"
    } else {
        ""
    }
}

/// Percentiles shown in tables, in percent, under the names of fio's `percentile_list`.
const SHOWN: [(&str, f64); 4] = [
    ("p50", 50.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("p99.99", 99.99),
];

const TOO_FEW: &str = "A percentile is a dash in a table, and has no point in a chart, if too few operations were \
                       measured for this percentile.";

/// Names of the columns with a job's numbers: `before`, the percentiles, `after`.
fn columns(before: &[&'static str], after: &[&'static str]) -> Vec<&'static str> {
    [before, &SHOWN.map(|(name, _)| name), after].concat()
}

fn percentiles<'a>(
    done: &'a DirectionResult,
    percentile_at: impl Fn(&DirectionResult, f64) -> Percentile + 'a,
) -> impl Iterator<Item = Cell> + 'a {
    SHOWN
        .into_iter()
        .map(move |(_, percent)| percentile_at(done, percent).to_string().into())
}

/// Cells of a job: rate, throughput, and the percentiles of its reads (of its writes, if it has no reads).
fn numbers(
    point: &Point,
    iops: Cell,
    percentile_at: fn(&DirectionResult, f64) -> Percentile,
) -> impl Iterator<Item = Cell> {
    let latencies = point
        .main_direction()
        .into_iter()
        .flat_map(move |done| percentiles(done, percentile_at));
    [iops, number(point.mbps()).into()]
        .into_iter()
        .chain(latencies)
}

/// The 99th percentile of a job's reads (of its writes, if it has no reads).
fn p99(point: &Point, percentile_at: impl Fn(&DirectionResult, f64) -> Percentile) -> Percentile {
    point
        .main_direction()
        .map_or(Percentile::TooFew, |done| percentile_at(done, 99.0))
}

fn depth_table(mix: AccessMix, curve: &[&Point]) -> Table {
    let knee = knee(curve).map(|knee| knee.depth);
    let rows = curve.iter().map(|point| {
        let is_knee = Some(point.depth) == knee;
        let depth = format!(
            "{}{}{}",
            point.depth,
            if is_knee { " (knee)" } else { "" },
            in_doubt(point)
        );
        let depth = if is_knee {
            Cell::strong(depth)
        } else {
            depth.into()
        };
        let numbers = numbers(
            point,
            number(point.iops()).into(),
            DirectionResult::service_at,
        );
        [depth]
            .into_iter()
            .chain(numbers)
            .chain([in_flight(point).into(), cpu(point).into()])
    });
    let columns = columns(&["IOPS", "MB/s"], &["mean in flight", "CPU per op"]);
    Table::new(format!("{mix}, closed loop"))
        .text(["depth"])
        .numbers(columns)
        .rows(rows)
}

fn in_flight(point: &Point) -> String {
    point.mean_in_flight.map_or_else(|| "-".to_owned(), number)
}

fn cpu(point: &Point) -> String {
    time(point.cpu_us)
}

fn rate_table(mix: AccessMix, curve: &[&Point]) -> Table {
    let rows = curve.iter().map(|point| {
        let iops_cell = if point.is_reached() {
            number(point.iops()).into()
        } else {
            Cell::bad(format!("✘ {}", number(point.iops())))
        };
        let offered = format!(
            "{}{}",
            number(point.offered_iops().unwrap_or_default()),
            in_doubt(point)
        );
        let numbers = numbers(point, iops_cell, DirectionResult::answer_at);
        [Cell::from(offered)]
            .into_iter()
            .chain(numbers)
            .chain([in_flight(point).into(), cpu(point).into()])
    });
    let title = format!("{mix}, open loop, wait + service (✘: the rate was not reached)");
    let columns = columns(&["done/s", "MB/s"], &["mean in flight", "CPU per op"]);
    Table::new(title)
        .text(["wanted/s"])
        .numbers(columns)
        .rows(rows)
}

fn profile_table(points: &[Point]) -> Table {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for point in points
        .iter()
        .filter(|point| point.part == JobPurpose::Profile)
    {
        let mix = format!("{}{}", AccessMix::from_point(point), in_doubt(point));
        let is_mixed = point.reads.is_some() && point.writes.is_some();
        for (index, done) in point.directions().enumerate() {
            let DirectionResult { iops, mbps, .. } = done;
            let direction = if index == 0 { "reads" } else { "writes" };
            let name = if is_mixed {
                format!("{mix}: {direction}")
            } else {
                mix.clone()
            };
            let job_cells = if index == 0 {
                [point.depth.to_string(), in_flight(point), cpu(point)]
            } else {
                Default::default()
            };
            let first = [name, number(*iops), number(*mbps)].map(Cell::from);
            let row = first
                .into_iter()
                .chain(percentiles(done, DirectionResult::service_at));
            rows.push(row.chain(job_cells.map(Cell::from)).collect());
        }
    }
    let columns = columns(
        &["IOPS", "MB/s"],
        &["depth", "mean in flight", "CPU per op"],
    );
    Table::new("Closed loop, at the depth of the knee")
        .text(["profile"])
        .numbers(columns)
        .rows(rows)
}

fn saturation_table(mix: AccessMix, curve: &[&Point]) -> Table {
    let rows = curve.iter().map(|point| {
        let steady = match point.steady {
            Some(true) => "✔ yes",
            Some(false) => "✘ no",
            None => "too short to tell",
        };
        let first = [
            format!("{}{}", point.round + 1, in_doubt(point)),
            format::span_of(point.seconds),
        ]
        .map(Cell::from);
        let numbers = numbers(
            point,
            number(point.iops()).into(),
            DirectionResult::service_at,
        );
        first.into_iter().chain(numbers).chain([steady.into()])
    });
    Table::new(mix.to_string())
        .text(["round"])
        .numbers(columns(&["lasted", "IOPS", "MB/s"], &["steady"]))
        .rows(rows)
}

pub fn prediction_sentence(prediction: &Prediction) -> String {
    let Prediction {
        device,
        load,
        limits,
        points,
        in_doubt,
        error_pct,
        rating_low,
        rating_high,
        ..
    } = prediction;
    let limits = limits
        .parse()
        .map_or_else(|_| limits.clone(), |sla: Sla| sla.words());
    let basis = format!("for {device} (load of 1x: {load}; limits: {limits}");
    if let Some(Declined { cause, reason }) = &prediction.declined {
        return format!("no rating is predicted {basis}), because of {cause}: {reason}");
    }
    let jobs = format::count(*in_doubt, "job");
    let without_doubtful = if *in_doubt > 0 {
        format!(" without {jobs} in doubt")
    } else {
        String::new()
    };
    let basis =
        format!("{basis}; {points} points{without_doubtful}, median error {error_pct:.1} %)");
    let Some(rating) = prediction.rating else {
        return format!("even the smallest load is predicted to be too high {basis}");
    };
    let range_text = rating_low
        .zip(*rating_high)
        .map(|(low, high)| format!(", between {low}x and {high}x"));
    format!("{rating}x{}, {basis}", range_text.unwrap_or_default())
}

pub fn parameters(prediction: &Prediction) -> Table {
    let bound = |end: Option<f64>| end.map_or("no bound".to_owned(), |value| value.to_string());
    Table::new("Parameters of the simulated drive")
        .text(["parameter"])
        .numbers(["value", "at least", "at most"])
        .rows(prediction.parameters.iter().map(|parameter: &Parameter| {
            vec![
                parameter.name.clone(),
                parameter.value.to_string(),
                bound(parameter.low),
                bound(parameter.high),
            ]
        }))
}

/// Notes beside the table of a prediction, each one sentence: the rating, what is unknown, then details.
fn prediction_notes(prediction: &Prediction) -> Vec<String> {
    let Prediction {
        simulated,
        misses,
        remarks,
        unknown,
        ..
    } = prediction;
    let sentence = prediction_sentence(prediction);
    let mut notes = vec![if prediction.rating.is_some() {
        format!("the predicted rating is {sentence}")
    } else {
        sentence
    }];
    notes.extend(
        [unknown]
            .into_iter()
            .filter(|unknown| !unknown.is_empty())
            .cloned(),
    );
    notes.extend(remarks.iter().cloned());
    notes.extend(
        simulated
            .iter()
            .map(|simulated| format!("As a device: {simulated}")),
    );
    notes.extend(misses.iter().cloned());
    notes
}

/// The doctor's checks that concern the layout of a drive.
const CHECKS: [&str; 5] = [
    "over-provisioning",
    "alignment",
    "sector-sizes",
    "preparation",
    "device-kind",
];

/// If the write rate falls below this fraction of the first round's rate, more spare space would probably help.
const FALLEN_RATE: f64 = 0.8;

/// Notes on the used part of a drive and its effect. `run`: any run of the drive, for the drive's facts.
fn layout_notes(device: &DriveIdentity, run: Option<&RunReport>, points: &[Point]) -> Vec<String> {
    let size = format::bytes(device.size_bytes as f64);
    let mut notes = Vec::new();
    let facts = run.and_then(|run| {
        let at = run.devices.iter().position(|name| *name == device.name)?;
        run.device_facts.get(at)
    });
    let name = &device.name;
    notes.push(match facts {
        _ if device.simulated => {
            format!("The drive of {size} is simulated: its description, {name}, sets its over-provisioning.")
        }
        Some(facts) => in_use(facts, &size),
        None => format!("{size} were in use; the size of the drive was not recorded."),
    });
    for (mix, curve) in curves(points, JobPurpose::Saturation) {
        let (Some(first), Some(last)) = (curve.first(), curve.last()) else {
            continue;
        };
        let is_sure = first.doubt.is_none() && last.doubt.is_none() && last.steady == Some(true);
        if is_sure && first.round < last.round && last.iops() < FALLEN_RATE * first.iops() {
            let first_rate = rate(first.iops());
            let last_rate = rate(last.iops());
            notes.push(format!(
                "{mix} fell from {first_rate} to {last_rate}: the drive copies data to make room. To see how much more \
                 over-provisioning \
                 helps, prepare a smaller part of the drive (flashproof prep --use-pct 80), repeat the baseline, and \
                 compare both (flashproof report compare)."
            ));
        }
    }
    notes
}

fn in_use(facts: &Value, size: &str) -> String {
    let partition = &facts["partition"];
    match (facts["kind"].as_str(), partition["disk"].as_str()) {
        (_, Some(disk)) => {
            let begins = partition["start_bytes"].as_u64().unwrap_or(0);
            let aligned = if begins.is_multiple_of(1 << 20) {
                "a multiple of 1 MiB"
            } else {
                "not a multiple of 1 MiB"
            };
            let index = partition["index"].as_u64().unwrap_or(0);
            format!(
                "Partition {index} of {disk} was in use, {size}; it begins at byte {begins}, {aligned}."
            )
        }
        (Some("whole_disk"), _) => {
            format!("The whole device was in use, {size}, without a partition.")
        }
        _ => format!("{size} were in use."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclusions::testing::{baseline, baseline_series};

    #[test]
    fn the_note_that_a_drive_copies_data_needs_reliable_rounds() {
        let drive = &baseline_series(&[("/dev/nvme0n1", 1.0)], "run").devices[0];
        let told = |points: &[Point]| {
            layout_notes(drive, None, points)
                .iter()
                .any(|note| note.contains("copies data"))
        };
        let mut points = baseline(1.0);
        assert!(told(&points));
        points[5].steady = Some(false);
        assert!(!told(&points), "the final rate is unknown");
        points[5] = Point {
            steady: Some(true),
            doubt: Some("this program was late".to_owned()),
            ..points[5].clone()
        };
        assert!(!told(&points));
    }
}
