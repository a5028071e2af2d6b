//! Conclusions about the population, in sentences.

use super::{CONFIDENCE, Campaign, PairComparison, Quantity};
use crate::words::capital;
use conclusions::population::{ComparedDrives, ToleranceBound};
use results::format::{count, number, percent_whole};

impl Campaign {
    /// Compared drives, bounds of the population, differences between firmwares and models, evidence of slowness.
    pub(super) fn statistics(&self) -> Vec<String> {
        let step = self.compared_step.as_deref().unwrap_or_default();
        let compared = self.examination.compared.iter();
        let compared = compared.map(|drives| compared_sentence(drives, step));
        let quantities = self.quantities.iter().flat_map(Quantity::sentences);
        let slow = self.examination.slow.iter().map(ToString::to_string);
        compared.chain(quantities).chain(slow).collect()
    }
}

impl Quantity {
    fn sentences(&self) -> impl Iterator<Item = String> {
        let bounds = self.bounds.iter().map(|bound| self.bound_sentence(bound));
        let pairs = self.comparisons.iter().map(|pair| self.pair_sentence(pair));
        bounds.chain(pairs)
    }

    /// A value with its unit.
    pub(super) fn text(&self, value: f64) -> String {
        let space = if self.unit == "x" { "" } else { " " };
        format!("{}{space}{}", number(value), self.unit)
    }

    fn bound_sentence(&self, bound: &ToleranceBound) -> String {
        let name = &self.name;
        let value = self.text(bound.bound);
        let share = percent_whole(bound.share);
        let confidence = percent_whole(bound.confidence);
        let drives = count(bound.drives as u64, "drive");
        let more = if bound.confidence < CONFIDENCE {
            let requested = percent_whole(CONFIDENCE);
            format!("; {requested} confidence needs {}", bound.drives_needed)
        } else {
            String::new()
        };
        format!(
            "{share} of such drives have a {name} of at least {value}, with {confidence} confidence ({drives} measured{more})."
        )
    }

    fn pair_sentence(&self, pair: &PairComparison) -> String {
        let PairComparison {
            by, first, second, ..
        } = pair;
        let comparison = &pair.comparison;
        let subject = format!("{} of {by} {second} against {first}", capital(&self.name));
        let interval = match comparison.shift_interval {
            None => "too few drives for an interval".to_owned(),
            Some([low, high]) => format!(
                "{} to {} with {} confidence",
                number(low),
                self.text(high),
                percent_whole(CONFIDENCE)
            ),
        };
        if comparison.p_value > 1.0 - CONFIDENCE {
            return format!("{subject}: no significant difference ({interval}).");
        }
        let side = if comparison.shift > 0.0 {
            "higher"
        } else {
            "lower"
        };
        let shift = self.text(comparison.shift.abs());
        let p = number(comparison.p_value);
        format!("{subject}: {shift} {side} in the median ({interval}, p = {p}).")
    }
}

fn compared_sentence(compared: &ComparedDrives, step: &str) -> String {
    let model = &compared.model;
    let drives = count(compared.drives as u64, "drive");
    let times = number(compared.detectable);
    format!(
        "{model}: {drives} compared in the step {step}; a drive that is always {times} times slower than its peers would be \
         found in half of all cases."
    )
}
