//! Report of a series' directory: its conclusion, its steps, each step's run, and the rating curve of a search.

use crate::baseline::{Beside, BesideDrive, DriveReport};
use crate::charts::{Axis, Chart, ChartResolution, Limit, Line, Points, Section, Style};
use crate::comparison::CandidateKind;
use crate::run_report::{RunReport, StepReport, drive_text, host_text};
use crate::words::{Banner, OutcomeLabel, Pair, capital};
use conclusions::baseline::{InDoubt, in_doubt};
use conclusions::rejudge::rejudge;
use conclusions::series::{
    DriveIdentity, Rule, SERIES, Series, SeriesPurpose, SeriesStepState, Step,
};
use results::format;
use results::judge::Outcome;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Contents of the directory of a series.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SeriesReport {
    /// The directory, as the user named it.
    pub dir: String,
    /// Title with the purpose and the devices.
    pub title: String,
    /// Warnings that are shown first.
    pub banners: Vec<Banner>,
    /// The record of the series. If the series is finished, its outcomes were checked against its runs.
    pub series: Series,
    /// The jobs of a baseline that are in doubt; null if there are none, and for other series.
    pub in_doubt: Option<InDoubt>,
    /// Charts over all steps: the rating curve of a search.
    pub sections: Vec<Section>,
    /// Results of a baseline for each of its drives; empty for other series.
    pub drives: Vec<DriveReport>,
    /// The drives of a baseline side by side; null unless there are several.
    pub beside: Option<Beside>,
    /// The steps, oldest first.
    pub steps: Vec<StepReport>,
}

impl SeriesReport {
    /// Reads the runs of `series` below `dir`. An unreadable run is not an error: a banner names it.
    pub(crate) fn read(dir: &Path, mut series: Series, detail: ChartResolution) -> Self {
        let mut steps: Vec<StepReport> = series
            .steps
            .iter()
            .map(|step| StepReport::read(dir, step, detail))
            .collect();
        let doubts = rejudge(
            &mut series,
            &steps.iter().map(StepReport::evidence).collect::<Vec<_>>(),
        );
        steps
            .iter_mut()
            .zip(&series.steps)
            .for_each(|(report, step)| report.step.clone_from(step));
        let mut banners: Vec<Banner> = doubts.into_iter().map(|text| Banner { text }).collect();
        if series.conclusion.is_none() {
            let done_steps = series
                .steps
                .iter()
                .filter(|step| step.state == SeriesStepState::Done)
                .count();
            let text = format!(
                "this series is not finished: {done_steps} of {} steps are done, and {SERIES} has no conclusion yet",
                series.steps.len()
            );
            banners.push(Banner { text });
        }
        for step in &steps {
            // Banners of an interrupted attempt are left out once the series has a conclusion.
            let counts =
                step.step.state != SeriesStepState::Interrupted || series.conclusion.is_none();
            let of_run = step
                .report
                .iter()
                .filter(|_| counts)
                .flat_map(|run| &run.banners);
            banners.extend(of_run.map(|banner| Banner {
                text: format!("{}: {}", step.step.name, banner.text),
            }));
        }
        let in_doubt = (series.purpose == SeriesPurpose::Baseline)
            .then(|| in_doubt(&series))
            .flatten();
        banners.extend(in_doubt.as_ref().map(|doubts| Banner {
            text: banner(doubts),
        }));
        let sections = match series.purpose {
            SeriesPurpose::Certify | SeriesPurpose::Baseline => Vec::new(),
            SeriesPurpose::Rate => vec![Section::new(
                "rating",
                "The rating curve",
                "Shares over the thresholds and 99th percentile at each load.",
                charts(
                    steps
                        .iter()
                        .filter_map(|step| Some((&step.step, step.report.as_ref()?))),
                ),
            )],
        };
        let drives = drives(&series, &steps);
        let beside = (drives.len() > 1).then(|| {
            Beside::new(
                drives
                    .iter()
                    .zip(&series.devices)
                    .map(|(drive, identity): (&DriveReport, _)| {
                        BesideDrive::new(drive.device.clone(), identity, &drive.points)
                    })
                    .collect(),
            )
        });
        let dir = dir.display().to_string();
        let title = title(&series);
        let mut this = Self {
            dir,
            title,
            banners,
            series,
            in_doubt,
            sections,
            drives,
            beside,
            steps,
        };
        if this.series.purpose != SeriesPurpose::Certify {
            // A search or a baseline has dozens of steps: its curves replace the charts of the steps.
            this.steps
                .iter_mut()
                .filter_map(|step| step.report.as_mut())
                .for_each(|run| run.sections.clear());
        }
        this
    }

    /// Drives, host, date and length, as far as known.
    pub(crate) fn summary(&self) -> Vec<Pair> {
        let runs = || self.steps.iter().filter_map(|step| step.report.as_ref());
        let drive = |identity: &DriveIdentity| {
            let facts = runs().find_map(|run| {
                let at = run.devices.iter().position(|name| *name == identity.name)?;
                run.device_facts.get(at)
            });
            facts.map_or_else(|| identity.serial.clone().unwrap_or_default(), drive_text)
        };
        let devices = self.series.devices.iter();
        let mut pairs: Vec<Pair> = devices
            .map(|device| Pair::new(&device.name, drive(device)))
            .collect();
        let host = runs().find_map(|run| host_text(&run.host_facts));
        pairs.extend(host.map(|host| Pair::new("Host", host)));
        pairs.push(Pair::new("Began", format::date(self.series.began_unix_ms)));
        let seconds = runs().map(|run| run.verdict.ran_sec).sum();
        pairs.push(Pair::new("Under load for", format::span_of(seconds)));
        pairs
    }

    pub(crate) fn outcome_label(&self) -> OutcomeLabel {
        let shown = OutcomeLabel::from_outcome(
            self.series
                .conclusion
                .as_ref()
                .map(|conclusion| conclusion.outcome),
        );
        if self.in_doubt.is_some() {
            shown.in_doubt()
        } else {
            shown
        }
    }

    /// The headline of a page: the rating if a search found one, otherwise the outcome.
    pub(crate) fn headline(&self) -> OutcomeLabel {
        let label = self.outcome_label();
        let rating = self
            .series
            .conclusion
            .as_ref()
            .and_then(|conclusion| conclusion.rating);
        match (self.series.purpose, label.look, rating) {
            (SeriesPurpose::Rate, Some(Outcome::Pass), Some(rating)) => OutcomeLabel {
                text: format!("RATED {}", format::multiple(rating)),
                ..label
            },
            _ => label,
        }
    }
}

fn banner(doubts: &InDoubt) -> String {
    let first = doubts
        .doubts
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    format!(
        "{doubts}: their results may reflect this machine instead of the drive. The first doubt: {first}"
    )
}

fn drives(series: &Series, steps: &[StepReport]) -> Vec<DriveReport> {
    if series.purpose != SeriesPurpose::Baseline {
        return Vec::new();
    }
    (0..series.devices.len())
        .map(|device| DriveReport::from_series(series, device, steps))
        .collect()
}

fn title(series: &Series) -> String {
    let test_name = capital(CandidateKind::from_purpose(series.purpose).words().0);
    let names: Vec<&str> = series
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    format!("{test_name} of {}", names.join(", "))
}

/// Outcomes of a step, each with the name and the symbol of its line.
const OUTCOME_STYLES: [(Outcome, &str, usize); 3] = [
    (Outcome::Pass, "passed", 0),
    (Outcome::Fail, "failed", 1),
    (Outcome::Invalid, "invalid", 3),
];

/// The axis of shares begins at the limit divided by this number.
const DRAWN_OF_LIMIT: f64 = 100.0;

/// Charts against the load as a multiple of 1x: the shares over each threshold, then the 99th percentile.
pub(super) fn charts<'a>(steps: impl Iterator<Item = (&'a Step, &'a RunReport)>) -> Vec<Chart> {
    let judged: Vec<_> = steps
        .filter(|(step, _)| step.rule == Rule::Limits)
        .collect();
    let Some((_, first)) = judged.first() else {
        let chart = over_multiple(
            "rating",
            "Shares against the load",
            Axis::linear("share", "%"),
        );
        return vec![chart.without_data("no judged step has a readable run")];
    };
    let limits = first.sla.limits().to_vec();
    let mut charts: Vec<Chart> = limits.iter().enumerate().map(|(column, limit): (usize, &results::judge::Limit)| {
        let threshold = format::duration(limit.threshold_ns);
        let title = format!("Worst share over {threshold} at each load");
        // The limit may be a thousandth of a share that failed, and both must be visible.
        let floor = limit.share_max() * 100.0 / DRAWN_OF_LIMIT;
        let y = Axis {
            floor: Some(floor),
            ..Axis::log("worst share of a slice", "%")
        };
        let mut chart = over_multiple(&format!("rating-share-{column}"), &title, y);
        let name = format!("limit {}", limit.share_text());
        chart.limits.push(Limit {
            y: limit.share_max() * 100.0,
            name,
        });
        let value =
            |run: &RunReport| worst_share(run, limit.threshold_ns).map(|share| share * 100.0);
        chart.caption = format!(
            "Each point is a step of the search: the worst slice of any device. A load with a point at or above the \
             dashed line is too high. The axis is logarithmic: shares below {0} % are drawn at {0} %.",
            format::number(floor)
        );
        with_points(chart, &judged, value, "%")
    }).collect();
    let mut chart = over_multiple(
        "rating-p99",
        "p99 at each load",
        Axis::log("p99 service time", "ms"),
    );
    chart.caption =
        "Each point is a step of the search: p99 of the slowest judged stream over the whole run."
            .to_owned();
    charts.push(with_points(chart, &judged, p99_ms, "ms"));
    charts
}

fn over_multiple(id: &str, title: &str, y: Axis) -> Chart {
    Chart::new(id, title, Axis::linear("load, as a multiple of 1x", "x"), y)
}

type JudgedSteps<'a> = [(&'a Step, &'a RunReport)];

fn with_points(
    mut chart: Chart,
    judged: &JudgedSteps<'_>,
    value: impl Fn(&RunReport) -> Option<f64>,
    unit: &str,
) -> Chart {
    let points = judged
        .iter()
        .map(|(step, run)| (step.multiple, value(run), step.outcome));
    let mut points: Vec<(f64, Option<f64>, Option<Outcome>)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (x, y) = points.iter().map(|(x, y, _)| (*x, *y)).unzip();
    let style = Style {
        symbols: false,
        ..Style::line(6)
    };
    chart
        .lines
        .push(Line::new("all steps", Points::Each(x), y, style));
    for (outcome, name, number) in OUTCOME_STYLES {
        let outcome_points = points
            .iter()
            .filter(|(_, _, ended)| *ended == Some(outcome));
        let (x, y): (Vec<f64>, Vec<Option<f64>>) = outcome_points.map(|(x, y, _)| (*x, *y)).unzip();
        if !x.is_empty() {
            let style = Style {
                joined: false,
                ..Style::points(number)
            };
            chart.lines.push(Line::new(name, Points::Each(x), y, style));
        }
    }
    let passed = points
        .iter()
        .rfind(|(_, _, outcome)| *outcome == Some(Outcome::Pass));
    let passed = passed.and_then(|(x, y, _)| Some((format::multiple(*x), format::number((*y)?))));
    let passed = passed
        .map(|(load, value)| format!("{value} {unit} at {load}, the highest load that passed."));
    chart.key = passed.unwrap_or_else(|| "No load passed.".to_owned());
    chart
}

fn worst_share(run: &RunReport, threshold_ns: u64) -> Option<f64> {
    let column = run
        .verdict
        .thresholds_ns
        .iter()
        .position(|ns| *ns == threshold_ns)?;
    let slices = run.verdict.groups.iter().flat_map(|group| &group.slices);
    let shares = slices.filter_map(|slice| slice.judged_share.as_ref()?.get(column).copied());
    shares.reduce(f64::max)
}

fn p99_ms(run: &RunReport) -> Option<f64> {
    let streams = &run.verdict.streams;
    run.latencies
        .iter()
        .filter(|latencies| {
            streams
                .iter()
                .any(|stream| stream.judged && stream.name == latencies.stream)
        })
        .map(|latencies| latencies.service.p99_ns)
        .max()
        .map(|ns| ns as f64 / 1e6)
}
