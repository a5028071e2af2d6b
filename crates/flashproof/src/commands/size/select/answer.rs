//! The answer of a selection: the cheapest candidate (without prices: the candidate that needs the fewest drives), and
//! the limit that binds.

use super::{Basis, DriveChoice, Selection};
use report::head::Head;
use results::format::{count, multiple};
use results::judge::{Headline, Outcome};
use std::cmp::Ordering;

const RUN_IT: &str = "before you buy, run this load: flashproof rate with the configuration of flashproof size profile";

impl Selection {
    pub(super) fn head(&self) -> Head {
        let has_prices = self.choices.iter().all(|choice| choice.price.is_some());
        let cost = |choice: &DriveChoice| {
            let drives = choice.scaled.value()?.in_all as f64;
            let price = choice.price.filter(|_| has_prices).unwrap_or(1.0);
            Some(price * drives)
        };
        let usable = self.choices.iter().filter(|choice| cost(choice).is_some());
        let best = usable.min_by(|a, b| cost(a).partial_cmp(&cost(b)).unwrap_or(Ordering::Equal));
        let sentence = best.and_then(|best| self.sentence(best, has_prices));
        let title = "Drives for this load".to_owned();
        let Some(sentence) = sentence else {
            let why = "no candidate was measured with every kind of I/O of this load";
            return Head::new(title, Outcome::Invalid, Headline::new(why, Some(RUN_IT)));
        };
        let is_measured = sentence.ends_with("measured");
        let headline = Headline::new(&sentence, (!is_measured).then_some(RUN_IT));
        Head::new(title, Outcome::Measured, headline)
    }

    fn sentence(&self, best: &DriveChoice, has_prices: bool) -> Option<String> {
        let now = best.now.value()?;
        let scaled = best.scaled.value()?;
        let rank = match (self.choices.len(), has_prices) {
            (1, _) => "",
            (_, true) => ", the cheapest",
            (_, false) => ", the fewest drives",
        };
        let basis = match best.basis.value()? {
            Basis::Measured => "measured",
            Basis::Estimate => "an estimate",
            Basis::Published => "by its published rating",
        };
        Some(format!(
            "{}{rank}: {} per node now, {} at {} (limit: {}), {basis}",
            best.name,
            count(now.per_node, "drive"),
            scaled.per_node,
            multiple(self.terms.scale),
            scaled.limit.name()
        ))
    }
}
