//! The page of a campaign: verdicts, ratings of the population, drives that differ from their peers.

use crate::charts::{Axis, Chart, Line, Points, Section, Style};
use crate::html::HtmlPage;
use crate::table::{Cell, Table};
use crate::words::capital;
use conclusions::population::{
    ComparedDrives, Examination, PopulationComparison, PopulationLevel, ToleranceBound, compare,
    tolerance_bound,
};
use results::format::{count, number, percent_whole};
use results::judge::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the JSON. Raised when a field changes its meaning or is removed.
pub const CAMPAIGN_FORMAT_VERSION: u32 = 1;

/// Shares of the population for which a bound is stated.
const SHARES: [f64; 3] = [0.5, 0.9, 0.95];

const CONFIDENCE: f64 = 0.95;

/// Maximum number of groups in a chart; more could not be distinguished.
const GROUPS_MAX: usize = 12;

/// Maximum number of drives in the table of the text form.
const TEXT_ROWS: usize = 60;

/// A campaign with its results.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Campaign {
    /// [`CAMPAIGN_FORMAT_VERSION`].
    pub format_version: u32,
    /// Program and version.
    pub made_by: String,
    pub name: String,
    /// True if names of drives and hosts are pseudonyms.
    pub anonymous: bool,
    pub steps: Vec<String>,
    pub drives: Vec<CampaignDrive>,
    /// Measured values by drive, of each quantity that several drives have.
    pub quantities: Vec<Quantity>,
    /// Step whose latencies were compared; `None` if no step has any.
    pub compared_step: Option<String>,
    /// Drives, hosts, slots and firmwares that are slow among their peers.
    pub examination: Examination,
    /// Other remarks, each one sentence.
    pub remarks: Vec<String>,
}

/// A drive of a campaign.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CampaignDrive {
    pub drive: String,
    pub model: String,
    pub firmware: String,
    pub host: String,
    pub slot: String,
    pub link: String,
    /// Results by step, in the order of [`Campaign::steps`].
    pub results: Vec<StepResult>,
}

/// Result of a step on a drive.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepResult {
    /// State of the step, such as `PASS`, `FAIL`, `running` or `lost`.
    pub state: String,
    pub outcome: Option<Outcome>,
    pub sentence: String,
    /// Path of the step's own report, relative to the campaign's directory.
    pub report: Option<String>,
}

/// A quantity of the population.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Quantity {
    /// Name of the quantity: `rating`, `99th percentile of reads`.
    pub name: String,
    /// Unit of the values: `x`, `us`.
    pub unit: String,
    /// True if a larger value is better.
    pub larger_is_better: bool,
    /// Values by drive; null where the quantity was not measured.
    pub values: Vec<Option<f64>>,
    /// Lower bounds that most drives reach; only for quantities whose larger values are better.
    pub bounds: Vec<ToleranceBound>,
    /// Comparisons of pairs of firmwares or models.
    pub comparisons: Vec<PairComparison>,
}

/// Two groups of drives compared by ranks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PairComparison {
    /// Property by which drives are grouped: `firmware` or `model`.
    pub by: String,
    pub first: String,
    pub second: String,
    pub comparison: PopulationComparison,
}

impl Quantity {
    /// Values by drive with bounds, and comparisons of firmwares and models. `None` with fewer than two values.
    pub fn new(
        name: &str,
        unit: &str,
        larger_is_better: bool,
        values: Vec<Option<f64>>,
        drives: &[CampaignDrive],
    ) -> Option<Self> {
        let known_values: Vec<f64> = values.iter().flatten().copied().collect();
        if known_values.len() < 2 {
            return None;
        }
        let bounded = SHARES.iter().filter(|_| larger_is_better);
        let bounds = bounded
            .filter_map(|share| tolerance_bound(&known_values, *share, CONFIDENCE))
            .collect();
        let name = name.to_owned();
        let unit = unit.to_owned();
        let mut this = Self {
            name,
            unit,
            larger_is_better,
            values,
            bounds,
            comparisons: Vec::new(),
        };
        for label in [FIRMWARE, MODEL] {
            let groups: Vec<(String, Vec<f64>)> = this.groups(drives, label).into_iter().collect();
            for (index, (first, of_first)) in groups.iter().enumerate() {
                for (second, of_second) in &groups[index + 1..] {
                    let Some(comparison) = compare(of_first, of_second, CONFIDENCE) else {
                        continue;
                    };
                    let by = label.0.to_owned();
                    let first = first.clone();
                    let second = second.clone();
                    this.comparisons.push(PairComparison {
                        by,
                        first,
                        second,
                        comparison,
                    });
                }
            }
        }
        Some(this)
    }

    /// Values by group, ascending; drives without this label are left out.
    fn groups(&self, drives: &[CampaignDrive], (_, label): Label) -> BTreeMap<String, Vec<f64>> {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (drive, value) in drives.iter().zip(&self.values) {
            if let Some(value) = value.filter(|_| !label(drive).is_empty()) {
                groups
                    .entry(label(drive).to_owned())
                    .or_default()
                    .push(value);
            }
        }
        groups
            .values_mut()
            .for_each(|values| values.sort_by(f64::total_cmp));
        groups
    }

    fn text(&self, value: f64) -> String {
        let space = if self.unit == "x" { "" } else { " " };
        format!("{}{space}{}", number(value), self.unit)
    }

    fn quantile_text(&self, sorted: &[f64], share: f64) -> String {
        quantile(sorted, share).map_or_else(String::new, |value| self.text(value))
    }
}

/// A property of drives by which a population is divided, and its name.
type Label = (&'static str, fn(&CampaignDrive) -> &str);

const FIRMWARE: Label = ("firmware", |drive| &drive.firmware);
const MODEL: Label = ("model", |drive| &drive.model);
const LABELS: [Label; 5] = [
    FIRMWARE,
    ("host", |drive| &drive.host),
    ("slot", |drive| &drive.slot),
    ("link", |drive| &drive.link),
    MODEL,
];

impl Campaign {
    fn summary(&self) -> Vec<String> {
        let mut sentences = vec![format!(
            "{} in the campaign {}.",
            count(self.drives.len() as u64, "drive"),
            self.name
        )];
        for (at, step) in self.steps.iter().enumerate() {
            let mut states: BTreeMap<&str, u64> = BTreeMap::new();
            self.drives
                .iter()
                .for_each(|drive| *states.entry(&drive.results[at].state).or_default() += 1);
            let states: Vec<_> = states
                .iter()
                .map(|(state, count)| format!("{count} {state}"))
                .collect();
            sentences.push(format!("{step}: {}.", states.join(", ")));
        }
        for quantity in &self.quantities {
            sentences.extend(quantity.bounds.iter().map(|bound| {
                let name = &quantity.name;
                let bound_text = quantity.text(bound.bound);
                let drives = count(bound.drives as u64, "drive");
                let share = percent_whole(bound.share);
                let confidence = percent_whole(bound.confidence);
                let required_confidence = percent_whole(CONFIDENCE);
                let is_less = bound.confidence < CONFIDENCE;
                let more = if is_less {
                    format!("; {required_confidence} confidence needs {}", bound.drives_needed)
                } else {
                    String::new()
                };
                format!(
                    "{share} of such drives have a {name} of at least {bound_text}, with {confidence} confidence ({drives} measured{more})."
                )
            }));
            sentences.extend(
                quantity
                    .comparisons
                    .iter()
                    .map(|pair| pair_sentence(quantity, pair)),
            );
        }
        sentences
    }

    /// Drives that differ from their peers, and comparisons that are undecided.
    fn differing(&self) -> Vec<String> {
        let Some(step) = &self.compared_step else {
            return vec!["No step has latencies to compare.".to_owned()];
        };
        let Examination {
            slow,
            undecided,
            compared,
        } = &self.examination;
        let mut sentences: Vec<String> = slow.iter().map(ToString::to_string).collect();
        if slow.is_empty() && !compared.is_empty() {
            sentences.push(format!(
                "No drive is slow among its peers in the step {step}."
            ));
        }
        sentences.extend(compared.iter().map(|ComparedDrives { model, drives, detectable }| {
            let drives = count(*drives as u64, "drive");
            let times = number(*detectable);
            format!(
                "{model}: {drives} compared in the step {step}; this comparison finds half of the drives that are \
                 always {times} times slower than their peers."
            )
        }));
        sentences.extend(undecided.iter().map(ToString::to_string));
        sentences
    }

    fn table(&self, rows_max: usize) -> Table {
        let drives =
            self.drives
                .iter()
                .take(rows_max)
                .enumerate()
                .map(|(index, drive)| {
                    let labels = [
                        &drive.drive,
                        &drive.model,
                        &drive.firmware,
                        &drive.host,
                        &drive.slot,
                    ]
                    .map(Cell::from);
                    let results = drive.results.iter().map(
                        |StepResult { state, outcome, .. }| match outcome {
                            Some(Outcome::Fail) => Cell::bad(state),
                            _ => Cell::from(state),
                        },
                    );
                    let values = self.quantities.iter().map(|quantity| {
                        Cell::from(
                            quantity.values[index]
                                .map_or_else(|| "-".to_owned(), |value| quantity.text(value)),
                        )
                    });
                    labels
                        .into_iter()
                        .chain(results)
                        .chain(values)
                        .collect::<Vec<_>>()
                });
        Table::new("Drives")
            .text(["drive", "model", "firmware", "host", "slot"])
            .text(self.steps.iter().cloned())
            .numbers(self.quantities.iter().map(|quantity| quantity.name.clone()))
            .rows(drives)
    }

    /// Reasons of all results other than success.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for drive in &self.drives {
            for (step, result) in self.steps.iter().zip(&drive.results) {
                let StepResult {
                    state,
                    outcome,
                    sentence,
                    ..
                } = result;
                let is_good = matches!(outcome, Some(Outcome::Pass | Outcome::Measured));
                if !is_good && !sentence.is_empty() && state != "done" {
                    reasons.push(format!("{} {step} {state}: {sentence}", drive.drive));
                }
            }
        }
        reasons
    }

    pub fn text(&self) -> String {
        let lines =
            |title: &str, sentences: &[String]| listed(&format!("{title}:"), "  ", sentences);
        let more = match self.drives.len().saturating_sub(TEXT_ROWS) {
            0 => String::new(),
            more => format!("and {more} more drives (--html and --json list all)\n"),
        };
        let summary: String = self
            .summary()
            .iter()
            .map(|sentence| format!("{sentence}\n"))
            .collect();
        format!(
            "{summary}{}{}{}\n{}{more}",
            lines("drives that differ", &self.differing()),
            lines("not passed", &self.reasons()),
            lines("remarks", &self.remarks),
            self.table(TEXT_ROWS)
        )
    }

    pub fn markdown(&self) -> String {
        let list =
            |title: &str, sentences: &[String]| listed(&format!("## {title}\n"), "* ", sentences);
        format!(
            "# Campaign {}\n{}{}{}{}\n## Drives\n\n{}",
            self.name,
            list("Summary", &self.summary()),
            list("Drives that differ", &self.differing()),
            list("Not passed", &self.reasons()),
            list("Remarks", &self.remarks),
            self.table(usize::MAX).markdown()
        )
    }

    /// A self-contained HTML page. `base`: path of the campaign's directory in links to the reports of single drives.
    pub fn html(&self, base: &str) -> String {
        let mut page = HtmlPage::new(format!("Campaign {}", self.name));
        let slow: Vec<String> = self
            .examination
            .slow
            .iter()
            .map(ToString::to_string)
            .collect();
        page.warnings(&slow);
        page.list(&self.summary());
        for (number, quantity) in self.quantities.iter().enumerate() {
            let charts = self.charts(number, quantity);
            let intro = "Each point is a drive. If groups of drives lie apart, look for a cause that a group has in \
                         common. A single point far off is an odd drive.";
            page.charts(&Section::new(
                &format!("quantity-{number}"),
                &capital(&quantity.name),
                intro,
                charts,
            ));
        }
        page.heading("Drives that differ from their peers");
        page.list(&self.differing());
        page.heading("Drives");
        page.add(&[self.table(usize::MAX)]);
        page.list(&self.reasons());
        let mut reports = Vec::new();
        for drive in &self.drives {
            for (step, result) in self.steps.iter().zip(&drive.results) {
                let path = result.report.iter();
                reports.extend(
                    path.map(|path| (format!("{}, {step}", drive.drive), format!("{base}/{path}"))),
                );
            }
        }
        page.links("Certificates and reports of single drives", &reports);
        page.list(&self.remarks);
        page.html(&self.made_by)
    }

    /// The distribution of a quantity over all drives, and the values by each label with several values.
    fn charts(&self, number: usize, quantity: &Quantity) -> Vec<Chart> {
        let mut labels = LABELS.to_vec();
        labels.retain(|(_, label)| {
            let groups: BTreeSet<&str> = self
                .drives
                .iter()
                .map(label)
                .filter(|name| !name.is_empty())
                .collect();
            (2..=GROUPS_MAX).contains(&groups.len())
        });
        let grouping = labels.first().copied();
        let strips = labels
            .into_iter()
            .map(|label| self.strip(number, quantity, label));
        std::iter::once(self.cdf(number, quantity, grouping))
            .chain(strips)
            .collect()
    }

    fn cdf(&self, number: usize, quantity: &Quantity, grouping: Option<Label>) -> Chart {
        let mut all_values: Vec<f64> = quantity.values.iter().flatten().copied().collect();
        all_values.sort_by(f64::total_cmp);
        let mut groups = vec![("all drives".to_owned(), all_values.clone())];
        groups.extend(
            grouping
                .into_iter()
                .flat_map(|label| quantity.groups(&self.drives, label)),
        );
        let mut lines = Vec::new();
        for (index, (name, values)) in groups.into_iter().enumerate() {
            let share = |rank: usize| Some(100.0 * rank as f64 / values.len() as f64);
            let y = (1..=values.len()).map(share).collect();
            lines.push(Line::new(name, Points::Each(values), y, Style::line(index)));
        }
        let x = Axis::linear(&quantity.name, &quantity.unit);
        let y = Axis::percent("drives at or below");
        let chart = Chart::new(
            format!("cdf-{number}"),
            format!("Distribution of the {}", quantity.name),
            x,
            y,
        );
        let key = format!(
            "Half of the drives are at or below {}, 5 % at or below {}.",
            quantity.quantile_text(&all_values, 0.5),
            quantity.quantile_text(&all_values, 0.05)
        );
        let grouping_text = grouping.map_or(String::new(), |(name, _)| {
            format!(", for all drives and by {name}")
        });
        let caption = format!("Share of the drives with at most this value{grouping_text}.");
        Chart {
            key,
            caption,
            lines,
            wide: true,
            ..chart
        }
    }

    fn strip(&self, number: usize, quantity: &Quantity, label: Label) -> Chart {
        let groups = quantity.groups(&self.drives, label);
        let name = label.0;
        let slow = self
            .examination
            .slow
            .iter()
            .filter(|slow| slow.level == PopulationLevel::Drive);
        let slow: BTreeSet<&str> = slow.map(|slow| slow.name.as_str()).collect();
        let lines = groups
            .iter()
            .enumerate()
            .map(|(at, (group, values)): (usize, (&String, &Vec<f64>))| {
                // Points side by side within the group's column, so that equal values stay visible.
                let width = values.len().max(2) as f64;
                let place =
                    |rank: usize| at as f64 + 1.0 + 0.6 * (rank as f64 / (width - 1.0) - 0.5);
                let x = (0..values.len()).map(place).collect();
                let y = values.iter().copied().map(Some).collect();
                Line::new(
                    group,
                    Points::Each(x),
                    y,
                    Style {
                        symbols: true,
                        joined: false,
                        ..Style::line(at)
                    },
                )
            })
            .collect();
        let x = Axis::linear(&format!("{name}, in the order of the legend"), "");
        let y = Axis::linear(&quantity.name, &quantity.unit);
        let title = format!("{} by {name}", capital(&quantity.name));
        let chart = Chart::new(format!("strip-{number}-{name}"), title, x, y);
        let medians = groups
            .iter()
            .filter_map(|(group, values)| Some((quantile(values, 0.5)?, group)));
        let mut medians: Vec<(f64, &String)> = medians.collect();
        medians.sort_by(|a, b| a.0.total_cmp(&b.0));
        let key = medians
            .first()
            .zip(medians.last())
            .map_or_else(String::new, |(low, high)| {
                format!(
                    "Medians from {} ({}) to {} ({}).",
                    quantity.text(low.0),
                    low.1,
                    quantity.text(high.0),
                    high.1
                )
            });
        let slow = slow.into_iter().collect::<Vec<_>>().join(", ");
        let odd = if slow.is_empty() {
            slow
        } else {
            format!(" Slow drives: {slow}.")
        };
        let caption = format!("Each point is a drive. Drives are sorted within each {name}.{odd}");
        Chart {
            key,
            caption,
            lines,
            ..chart
        }
    }
}

fn pair_sentence(quantity: &Quantity, pair: &PairComparison) -> String {
    let PairComparison {
        by,
        first,
        second,
        comparison,
    } = pair;
    let confidence = percent_whole(CONFIDENCE);
    let shift = number(comparison.shift);
    let p = comparison.p_value;
    let interval = match comparison.shift_interval {
        None => "; too few drives for an interval".to_owned(),
        Some([low, high]) => format!(
            " ({} to {} with {confidence} confidence)",
            number(low),
            number(high)
        ),
    };
    let name = capital(&quantity.name);
    let unit = &quantity.unit;
    format!(
        "{name} of {by} {second} against {first}: median difference {shift} {unit}{interval}, p = {p:.1e}."
    )
}

fn listed(head: &str, bullet: &str, sentences: &[String]) -> String {
    let items: String = sentences
        .iter()
        .map(|sentence| format!("{bullet}{sentence}\n"))
        .collect();
    if items.is_empty() {
        items
    } else {
        format!("\n{head}\n{items}")
    }
}

/// The value at `share` of ascending values, by nearest rank; `None` without any.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclusions::population::{Undecided, UndecidedReason};

    #[test]
    fn the_text_has_bounds_failures_and_the_limits_of_the_comparison() {
        let drive = |number: u32, outcome: Outcome| CampaignDrive {
            drive: format!("S{number}"),
            model: "M".to_owned(),
            firmware: "F".to_owned(),
            host: "n1".to_owned(),
            slot: String::new(),
            link: String::new(),
            results: vec![StepResult {
                state: outcome.to_string(),
                outcome: Some(outcome),
                sentence: format!("reason {number}"),
                report: None,
            }],
        };
        let drives = vec![
            drive(1, Outcome::Pass),
            drive(2, Outcome::Fail),
            drive(3, Outcome::Invalid),
        ];
        let rating = |values| Quantity::new("rating", "x", true, values, &drives);
        assert!(
            rating(vec![Some(48.0), None, None]).is_none(),
            "a single drive has no distribution"
        );
        let model = || "M".to_owned();
        let reason = UndecidedReason::Insensitive {
            factor: 3.0,
            drives: 3,
        };
        let campaign = Campaign {
            format_version: CAMPAIGN_FORMAT_VERSION,
            made_by: String::new(),
            name: "lab".to_owned(),
            anonymous: false,
            steps: vec!["certify".to_owned()],
            quantities: rating(vec![Some(48.0), Some(50.0), None])
                .into_iter()
                .collect(),
            drives,
            compared_step: Some("certify".to_owned()),
            examination: Examination {
                slow: Vec::new(),
                undecided: vec![Undecided {
                    model: model(),
                    of: None,
                    reason,
                }],
                compared: vec![ComparedDrives {
                    model: model(),
                    drives: 3,
                    detectable: 3.0,
                }],
            },
            remarks: Vec::new(),
        };
        let text = campaign.text();
        for part in [
            "95 % of such drives have a rating of at least 48x, with 10 % confidence (2 drives measured; 95 % \
             confidence needs 59).",
            "No drive is slow among its peers in the step certify.",
            "cannot tell for M: among 3 drives with this spread, only a drive at least 3 times as slow as the others can \
             be found",
            "S2 certify FAIL: reason 2",
            "S3 certify INVALID: reason 3",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
        assert!(!text.contains("reason 1"), "{text}");
    }
}
