//! A campaign with its results, and its report: which drives are good or bad, and which comparisons are undecided.
//!
//! * `answer`: the state of each drive, the head, the bad drives, the table of drives
//! * `statistics`: conclusions about the population, in sentences
//! * `page`: text, Markdown and HTML; the charts

mod answer;
mod page;
mod statistics;

use conclusions::population::{
    Examination, PopulationComparison, ToleranceBound, compare, tolerance_bound,
};
use results::judge::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON. Raised when a field changes its meaning or is removed.
pub const CAMPAIGN_FORMAT_VERSION: u32 = 1;

/// Shares of the population for which a bound is stated.
const SHARES: [f64; 3] = [0.5, 0.9, 0.95];

const CONFIDENCE: f64 = 0.95;

/// A campaign with its results.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Campaign {
    /// [`CAMPAIGN_FORMAT_VERSION`].
    pub format_version: u32,
    /// Program and version.
    pub made_by: String,
    pub name: String,
    /// True if names of drives and hosts are pseudonyms.
    pub anonymous: bool,
    pub steps: Vec<String>,
    /// Commands of the steps, in the order of `steps`. Empty in documents of earlier versions.
    #[serde(default)]
    pub commands: Vec<String>,
    /// First and last event of any task, milliseconds since 1970; null before the first event.
    #[serde(default)]
    pub began_and_last_unix_ms: Option<[u64; 2]>,
    pub drives: Vec<CampaignDrive>,
    /// Measured values by drive, of each quantity that several drives have.
    pub quantities: Vec<Quantity>,
    /// Step whose latencies were compared; `None` if no step has any.
    pub compared_step: Option<String>,
    /// Other campaigns whose drives are further peers, and the number of these drives.
    #[serde(default)]
    pub peers: Vec<(String, usize)>,
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
    /// Start of the compared run, milliseconds since 1970; null if the drive was not compared.
    #[serde(default)]
    pub compared_unix_ms: Option<u64>,
    /// True if the doctor found no complete preparation before the compared run.
    #[serde(default)]
    pub not_prepared: bool,
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
    /// Last event of the step, milliseconds since 1970; null if the step did not begin.
    #[serde(default)]
    pub last_unix_ms: Option<u64>,
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
                groups.entry(label(drive)).or_default().push(value);
            }
        }
        groups
            .values_mut()
            .for_each(|values| values.sort_by(f64::total_cmp));
        groups
    }
}

/// A property of drives by which a population is divided, and its name.
type Label = (&'static str, fn(&CampaignDrive) -> String);

const FIRMWARE: Label = ("firmware", |drive| drive.firmware.clone());
const MODEL: Label = ("model", |drive| drive.model.clone());

impl StepResult {
    /// True if later steps may follow.
    fn is_good(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Pass | Outcome::Measured)) || self.state == "done"
    }

    /// True if the step ended badly. A skipped step never began.
    fn is_bad(&self) -> bool {
        !self.is_good() && !self.is_open() && self.state != "skipped"
    }

    /// True if the step is waiting, queued or running, or if its state is unknown.
    fn is_open(&self) -> bool {
        matches!(&*self.state, "waiting" | "queued" | "running" | "unknown")
    }
}

#[cfg(test)]
mod tests;
