//! Rating predicted from the points of a baseline, before any search for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A simulated drive that does what a drive did in its baseline, and the rating which that drive has. In a series they
/// stand in `conclusion.details.prediction`, one for each drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The drive that was measured.
    pub device: String,
    /// Why there is no rating, if the baseline cannot tell one. Then there is no other number of the simulated drive either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
    /// Events that the baseline cannot know: rarer than what, later than when; and how long a baseline would have to run for them.
    #[serde(default)]
    pub unknown: String,
    /// The simulated drive as a device argument: `sim:capacity=...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<String>,
    /// Its parameters, and how surely they are known.
    pub parameters: Vec<Parameter>,
    /// Points that it was fitted to.
    pub points: usize,
    /// Jobs of the baseline that were in doubt, which it was not fitted to.
    #[serde(default)]
    pub in_doubt: u64,
    /// How far its rates and percentiles are from those measured, percent: the median of all.
    pub error_pct: f64,
    /// Where it does something else than the drive did, a sentence each, the worst first.
    pub misses: Vec<String>,
    /// The load of 1x: `ACT's`, or the name of a configuration.
    pub load: String,
    /// The limits that a load had to meet.
    pub limits: String,
    /// The rating of the simulated drive, a multiple of 1x; `None`: it was declined, or the drive held nothing that was tried.
    pub rating: Option<f64>,
    /// Rating of a drive with all parameters at the slow ends of their intervals.
    pub rating_low: Option<f64>,
    /// Rating of a drive with all parameters at their fast ends.
    pub rating_high: Option<f64>,
    /// Remarks for the reader, a sentence each.
    pub remarks: Vec<String>,
}

/// Why no rating is predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Declined {
    /// By name.
    pub cause: DeclinedBy,
    /// Observation, a clause with its numbers, and what to do.
    pub reason: String,
}

/// Reason why no rating is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeclinedBy {
    /// The drive becomes slower, or faster, as time goes by.
    Drift,
    /// Stalls decide, and too little is known of them.
    Stalls,
    /// The drive collects garbage, and how much depends on the load.
    GarbageCollection,
    /// The simulated drive does something else than the real one did.
    Model,
}

impl std::fmt::Display for DeclinedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Drift => "drift",
            Self::Stalls => "stalls",
            Self::GarbageCollection => "garbage collection",
            Self::Model => "the model",
        })
    }
}

/// A parameter of a simulated drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// As the description of a simulated drive has it: `read-us`.
    pub name: String,
    /// Value that describes the points best.
    pub value: f64,
    /// The least that describes them nearly as well; `None`: the points set no bound.
    pub low: Option<f64>,
    /// The most that does.
    pub high: Option<f64>,
}
