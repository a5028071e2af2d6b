//! A selection: the number of drives of each candidate that a cluster's load needs, and the limit that binds.
//!
//! `compare` and `select` read candidates in the same way; `sizing::select` does the arithmetic. A number that was not
//! measured with this exact load is called an estimate.

mod answer;
pub mod options;
pub mod run;

use crate::candidates::{compared, ratings};
use crate::commands::size::align::{balanced, read_profile};
use report::comparison::{
    Candidate, CandidateDir, DeviceWear, OperatorData, PublishedRating, ValueOrReason,
};
use report::table::Table;
use results::format::{multiple, number, percent, percent_exact, quoted};
use serde::Serialize;
use session::failure::Failure;
use session::runner::tool;
use sizing::drive_io::{DriveIo, NAMES};
use sizing::select::{self, ClusterDemand, Need, SizingTerms, Supply};
use std::path::Path;

/// How a candidate's number of drives was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Basis {
    /// Measured with this load, or a multiple of it.
    Measured,
    /// Measured with another load.
    Estimate,
    /// From a published rating.
    Published,
}

/// A candidate's worst share of slow operations, beside the limit of this share.
#[derive(Debug, Serialize)]
struct Margin {
    threshold: String,
    /// Worst share of operations over the threshold, a fraction.
    share: Option<f64>,
    /// Limit; `None` if unknown.
    share_max: Option<f64>,
}

impl Margin {
    fn text(&self) -> String {
        let share = self.share.map_or("-".to_owned(), percent);
        self.share_max.map_or(share.clone(), |max| {
            format!("{share} of {}", percent_exact(max))
        })
    }
}

#[derive(Debug, Serialize)]
struct DriveChoice {
    name: String,
    basis: ValueOrReason<Basis>,
    /// Measured I/O of one drive.
    #[serde(rename = "does")]
    supply: ValueOrReason<Supply>,
    /// Measured I/O as a multiple of the busiest drive's current load.
    times_the_busiest: ValueOrReason<f64>,
    now: ValueOrReason<Need>,
    scaled: ValueOrReason<Need>,
    margins: Vec<Margin>,
    price: Option<f64>,
    remarks: Vec<String>,
    simulated: bool,
}

#[derive(Debug, Serialize)]
pub struct Selection {
    demand: ClusterDemand,
    /// Conditions of the selection, such as the future load.
    terms: SizingTerms,
    choices: Vec<DriveChoice>,
    /// True if the record of a candidate is damaged.
    #[serde(skip)]
    pub damaged: bool,
}

#[derive(Debug, Clone)]
pub struct SelectionInput<'a> {
    /// Runs and series.
    pub candidates: &'a [CandidateDir],
    /// Published ratings to include: each entry is a part of a drive's name, or `all`.
    pub published: &'a [String],
    /// List of published ratings; `None`: the built-in list.
    pub ratings: Option<&'a Path>,
    /// Endurance and prices given by the user, for candidates and published drives.
    pub operator_data: OperatorData,
}

/// Selects for the load of the profile in the file `path` under `terms`. Prints warnings and remarks of the candidates.
/// Errors: among others, the profile does not balance (without `accept_unbalanced`); a name matches no published drive.
pub fn select(
    path: &Path,
    accept_unbalanced: bool,
    input: &SelectionInput<'_>,
    terms: SizingTerms,
) -> Result<Selection, Failure> {
    let text = path.to_string_lossy();
    if text.contains('=') && !path.exists() {
        return Err(Failure::usage(format!(
            "cannot select drives for {} - numbers of one drive do not show the nodes, their drives and their data - give \
             the profile.json of \"flashproof size profile --out DIR\"",
            quoted(&text)
        )));
    }
    let profile = read_profile(path)?;
    balanced(&profile, accept_unbalanced)?;
    let demand = ClusterDemand::from_profile(&profile);
    if demand
        .nodes
        .iter()
        .all(|node| node.drives.iter().all(|io| *io == DriveIo::default()))
    {
        return Err(Failure::usage(format!(
            "cannot select drives for the profile {} - it has no load - use a profile of a cluster under load",
            path.display()
        )));
    }
    let ratings = ratings(input.ratings)?;
    let published = chosen(&ratings, input.published)?;
    // Prices given for a published drive do not apply to candidates.
    let is_published = |name: &String| published.iter().any(|rating| rating.device == *name);
    let (published_prices, prices): (Vec<_>, Vec<_>) = input
        .operator_data
        .prices
        .iter()
        .cloned()
        .partition(|(name, _)| is_published(name));
    let operator_data = OperatorData {
        prices: prices.clone(),
        ..input.operator_data.clone()
    };
    let comparison = compared(input.candidates, &operator_data, &ratings)?;
    let candidate_choices = comparison
        .candidates
        .iter()
        .map(|candidate| candidate_choice(candidate, &demand, &terms, &prices));
    let published_choices = published
        .iter()
        .map(|rating| published_choice(rating, &demand, &terms, &published_prices));
    let choices = candidate_choices.chain(published_choices).collect();
    let damaged = comparison
        .candidates
        .iter()
        .any(|candidate| candidate.damaged);
    Ok(Selection {
        demand,
        terms,
        choices,
        damaged,
    })
}

/// Published ratings of drives whose names contain one of the given texts; all ratings for `all`.
fn chosen(
    ratings: &[PublishedRating],
    patterns: &[String],
) -> Result<Vec<PublishedRating>, Failure> {
    for words in patterns {
        if words.trim().is_empty() || !ratings.iter().any(|rating| has_words(rating, words)) {
            return Err(Failure::usage(format!(
                "no published rating has {} in its drive's name - give other words, or \"all\"",
                quoted(words)
            )));
        }
    }
    Ok(ratings
        .iter()
        .filter(|rating| patterns.iter().any(|words| has_words(rating, words)))
        .cloned()
        .collect())
}

fn has_words(rating: &PublishedRating, words: &str) -> bool {
    let device = rating.device.to_lowercase();
    words.eq_ignore_ascii_case("all") || device.contains(&words.trim().to_lowercase())
}

fn candidate_choice(
    candidate: &Candidate,
    demand: &ClusterDemand,
    terms: &SizingTerms,
    prices: &[(String, f64)],
) -> DriveChoice {
    let wear = candidate.wear.value().map_or(&[][..], |wear| &wear[..]);
    let io = candidate.load.and_then(|_| candidate.io.clone());
    let supply = io.map(|io| Supply {
        io: DriveIo {
            reads_per_sec: io.reads_per_sec,
            writes_per_sec: io.writes_per_sec,
            read_kib_per_sec: io.read_bytes_per_sec / 1024.0,
            written_kib_per_sec: io.written_bytes_per_sec / 1024.0,
        },
        capacity_bytes: min_over_devices(wear, |wear| {
            wear.capacity_bytes.value().map(|bytes| *bytes as f64)
        }),
        rated_bytes: min_over_devices(wear, |wear| wear.rated_bytes.value().copied()),
    });
    let basis = io.map(|it| {
        let same = supply
            .value()
            .is_some_and(|supply| select::is_same_mix(demand, &supply.io));
        if same && it.histograms {
            Basis::Measured
        } else {
            Basis::Estimate
        }
    });
    let mut remarks = Vec::new();
    if basis.value() == Some(&Basis::Estimate) {
        remarks.push(format!(
            "it ran another load than the cluster's ({}), so the number of drives is an estimate: the largest of the \
             numbers for reads/s, writes/s, bytes read/s and bytes written/s",
            supply.value().map(|supply| io_text(&supply.io)).unwrap_or_default()
        ));
    }
    if candidate.load.value().is_some_and(|load| !load.highest) {
        remarks.push(
            "a run shows a load that a drive holds, not its highest load: fewer drives may be enough (flashproof rate \
             finds the highest load)"
                .to_owned(),
        );
    }
    let test = candidate.test.value();
    let devices = test.map_or(&[][..], |test| &test.devices[..]);
    let device_prices: Option<Vec<f64>> = devices
        .iter()
        .map(|device| price_of(device, prices))
        .collect();
    let mean_price = device_prices
        .filter(|all| !all.is_empty())
        .map(|all| all.iter().sum::<f64>() / all.len() as f64);
    let margins = candidate
        .margins
        .value()
        .map_or(&[][..], |margins| &margins[..])
        .iter()
        .map(|margin| Margin {
            threshold: margin.threshold.clone(),
            share: margin.worst.value().map(|worst| worst.share),
            share_max: Some(margin.share_max),
        });
    DriveChoice {
        price: mean_price.or_else(|| price_of(&candidate.name, prices)),
        margins: margins.collect(),
        remarks,
        simulated: test.is_some_and(|test| test.simulated),
        ..choice(candidate.name.clone(), basis, supply, demand, terms)
    }
}

/// The smallest value of several devices; `None` if a device lacks the value.
fn min_over_devices(wear: &[DeviceWear], value_of: fn(&DeviceWear) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = wear.iter().map(value_of).collect::<Option<_>>()?;
    values.into_iter().min_by(f64::total_cmp)
}

fn price_of(name: &str, prices: &[(String, f64)]) -> Option<f64> {
    let (_, price) = prices.iter().find(|(device, _)| device == name)?;
    Some(*price)
}

fn published_choice(
    rating: &PublishedRating,
    demand: &ClusterDemand,
    terms: &SizingTerms,
    prices: &[(String, f64)],
) -> DriveChoice {
    let supply = Supply {
        io: select::published(rating.x),
        ..Supply::default()
    };
    let shares = ["1ms", "8ms", "64ms"].into_iter().zip(rating.over_pct);
    let margins = shares.filter_map(|(threshold, pct): (&str, Option<f64>)| {
        Some(Margin {
            threshold: threshold.to_owned(),
            share: Some(pct? / 100.0),
            share_max: None,
        })
    });
    let endurance_text = rating
        .endurance
        .as_ref()
        .map(|endurance| format!("; its endurance is {endurance}"))
        .unwrap_or_default();
    DriveChoice {
        price: prices
            .iter()
            .find(|(name, _)| *name == rating.device)
            .map(|(_, price)| *price),
        margins: margins.collect(),
        remarks: vec![format!(
            "published as {}{endurance_text}; its capacity and wear are not considered",
            multiple(rating.x)
        )],
        ..choice(
            rating.device.clone(),
            ValueOrReason::Value(Basis::Published),
            ValueOrReason::Value(supply),
            demand,
            terms,
        )
    }
}

fn choice(
    name: String,
    basis: ValueOrReason<Basis>,
    supply: ValueOrReason<Supply>,
    demand: &ClusterDemand,
    terms: &SizingTerms,
) -> DriveChoice {
    DriveChoice {
        name,
        basis,
        times_the_busiest: supply.and_then(|supply| {
            ValueOrReason::or_missing(
                select::times_the_busiest(demand, supply),
                "the cluster's drives have no I/O",
            )
        }),
        now: need(
            demand,
            &supply,
            &SizingTerms {
                scale: 1.0,
                data_scale: 1.0,
                ..*terms
            },
        ),
        scaled: need(demand, &supply, terms),
        supply,
        margins: Vec::new(),
        price: None,
        remarks: Vec::new(),
        simulated: false,
    }
}

fn need(
    demand: &ClusterDemand,
    supply: &ValueOrReason<Supply>,
    terms: &SizingTerms,
) -> ValueOrReason<Need> {
    supply.and_then(|supply| {
        ValueOrReason::or_missing(
            select::need(demand, supply, terms),
            "it was not measured with every kind of I/O of this load",
        )
    })
}

fn io_text(io: &DriveIo) -> String {
    let numbers = io.numbers().map(number);
    NAMES
        .iter()
        .zip(numbers)
        .map(|(name, n)| format!("{n} {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

impl Selection {
    fn table(&self) -> Table {
        let scaled = multiple(self.terms.scale);
        let mut thresholds: Vec<&str> = Vec::new();
        for Margin { threshold, .. } in self.choices.iter().flat_map(|choice| &choice.margins) {
            if !thresholds.contains(&threshold.as_str()) {
                thresholds.push(threshold);
            }
        }
        let has_prices = self.choices.iter().any(|choice| choice.price.is_some());
        let mut table = Table::new("")
            .text(["candidate", "basis"])
            .numbers(["one holds", "drives per node"])
            .text(["limited by"])
            .numbers([format!("at {scaled}")])
            .text(["limited by"])
            .numbers(
                thresholds
                    .iter()
                    .map(|threshold| format!("over {threshold}")),
            );
        if has_prices {
            table = table.numbers(["price".to_owned(), format!("at {scaled}")]);
        }
        for choice in &self.choices {
            let holds = choice
                .times_the_busiest
                .value()
                .map_or("-".to_owned(), |times| multiple(round(*times)));
            let mut row = vec![choice.name.clone(), basis_text(choice), holds];
            for need in [&choice.now, &choice.scaled] {
                row.extend(match need.value() {
                    Some(need) => [need.per_node.to_string(), need.limit.name().to_owned()],
                    None => ["-".to_owned(), "-".to_owned()],
                });
            }
            row.extend(thresholds.iter().map(|threshold: &&str| {
                let found = choice
                    .margins
                    .iter()
                    .find(|margin| margin.threshold == *threshold);
                found.map_or("-".to_owned(), Margin::text)
            }));
            if has_prices {
                for need in [&choice.now, &choice.scaled] {
                    let price = need.value().zip(choice.price);
                    row.push(price.map_or("-".to_owned(), |(need, price)| {
                        number(need.in_all as f64 * price)
                    }));
                }
            }
            table.row(row);
        }
        table
    }

    pub fn html(&self) -> String {
        let mut page = self.head().page();
        page.add(&[self.table()]);
        page.list(&self.notes());
        page.html(&tool())
    }

    pub fn markdown(&self) -> String {
        let head = self.head().markdown();
        let notes = self.notes().join("\n* ");
        format!("{head}{}\n* {notes}\n", self.table().markdown())
    }

    pub fn text(&self) -> String {
        let head = self.head().text();
        let notes = self.notes().join("\n");
        format!("{head}\n{}\n{notes}\n", self.table())
    }

    /// Explanation of the table, and remarks.
    fn notes(&self) -> Vec<String> {
        let Self {
            demand,
            terms,
            choices,
            ..
        } = self;
        let mut lines = vec![format!(
            "now: {} on {}; \"one holds\" is a multiple of the busiest drive's load; prices are for all nodes together",
            results::format::count(demand.drives() as u64, "drive"),
            results::format::count(demand.nodes.len() as u64, "node"),
        )];
        if demand.shadows > 0 {
            lines.push(format!(
                "left out, because the candidates replace only the drives that the server reads: {}",
                results::format::count(demand.shadows as u64, "shadow drive")
            ));
        }
        if choices.iter().any(|choice| {
            choice
                .supply
                .value()
                .is_some_and(|supply| supply.capacity_bytes.is_some())
        }) {
            lines.push(
                if demand.nodes.iter().any(|node| node.used_bytes.is_none()) {
                    "capacity is not checked on nodes whose data size is not in the profile"
                        .to_owned()
                } else {
                    format!(
                        "a drive is filled to {} of its capacity at most",
                        percent(terms.fill)
                    )
                },
            );
        }
        if !choices.iter().any(|choice| {
            choice
                .supply
                .value()
                .is_some_and(|supply| supply.rated_bytes.is_some())
        }) {
            lines.push("wear is not considered: give --dwpd or --tbw".to_owned());
        }
        for choice in choices {
            let prefixed = |text: &str| format!("{}: {text}", choice.name);
            if let ValueOrReason::Missing { why_not } = &choice.now {
                lines.push(prefixed(why_not));
            }
            lines.extend(choice.remarks.iter().map(|remark| prefixed(remark)));
        }
        lines
    }
}

fn basis_text(choice: &DriveChoice) -> String {
    let text = match choice.basis.value() {
        Some(Basis::Measured) => "this load",
        Some(Basis::Estimate) => "estimate",
        Some(Basis::Published) => "published",
        None => "-",
    };
    if choice.simulated {
        format!("{text}, simulated")
    } else {
        text.to_owned()
    }
}

/// Rounds to two decimals, the precision of a multiple.
fn round(times: f64) -> f64 {
    (times * 100.0).round() / 100.0
}
