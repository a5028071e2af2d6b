//! The answer of an experiment: the write amplification that sharing a drive costs, and the part that handles avoid.

use super::{WafReport, factor};
use crate::head::Head;
use results::judge::{Headline, Outcome};

/// Word in place of MEASURED for a simulated drive.
pub(super) const PREDICTED: &str = "PREDICTED";

/// Two write amplifications count as equal up to this relative difference.
const SAME: f64 = 0.02;

impl WafReport {
    pub(super) fn head(&self) -> Head {
        let unsteady = self.arrangements.iter().find(|one| one.waf.is_none());
        let outcome = unsteady.map_or(Outcome::Measured, |_| Outcome::Invalid);
        let headline = match unsteady {
            Some(one) => Headline::new(
                &format!(
                    "{} did not reach a steady state, and has no result",
                    one.arrangement
                ),
                Some("allow more drive fills (--max-fills, --duration)"),
            ),
            None => self.headline(),
        };
        let title = format!("Write amplification of {}", self.tenants);
        let mut head = if self.predicted && unsteady.is_none() {
            Head::labelled(title, PREDICTED, Some(outcome), headline)
        } else {
            Head::new(title, outcome, headline)
        };
        let drive = self.assumptions.iter().find(|pair| pair.name == "drive");
        head.facts.extend(drive.cloned());
        head.fact("Seed", self.seed.to_string());
        head.fact("Made by", &self.made_by);
        head
    }

    fn headline(&self) -> Headline {
        let each = self
            .arrangements
            .iter()
            .map(|one| format!("{} {}", one.arrangement, factor(one.waf)));
        let each = format!("device WAF {}", each.collect::<Vec<_>>().join(", "));
        let cost = self.waf_of("dedicated").zip(self.waf_of("shared"));
        let Some((dedicated, shared)) = cost else {
            return Headline::new(&each, None);
        };
        let (sentence, action) = sharing(dedicated, shared, self.waf_of("fdp"));
        Headline::new(&sentence, action)
    }

    /// Steady write amplification of the drives of an arrangement.
    fn waf_of(&self, arrangement: &str) -> Option<f64> {
        let mut arrangements = self.arrangements.iter();
        arrangements
            .find(|one| one.arrangement == arrangement)
            .and_then(|one| one.waf)
    }
}

/// The cost of sharing, the part of this cost that handles avoid, and the next step.
fn sharing(dedicated: f64, shared: f64, fdp: Option<f64>) -> (String, Option<&'static str>) {
    let figures = format!("device WAF: {shared:.2} against {dedicated:.2} on dedicated drives");
    if shared <= dedicated * (1.0 + SAME) {
        return (format!("sharing does not raise {figures}"), None);
    }
    let cost = format!("sharing raises {figures}");
    let own_drives = Some("give the tenants drives of their own");
    let Some(fdp) = fdp else {
        return (cost, own_drives);
    };
    let use_handles = Some("give each tenant a placement handle (flashproof waf setup DEVICE)");
    let (effect, action) = match (fdp - dedicated) / (shared - dedicated) {
        ..0.1 => ("placement handles avoid this cost", use_handles),
        ..0.9 => ("placement handles avoid a part of this cost", use_handles),
        _ => ("placement handles do not help", own_drives),
    };
    (format!("{cost}; {effect} ({fdp:.2})"), action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_cost_of_sharing_and_the_effect_of_handles() {
        let cases = [
            (
                1.87,
                Some(1.10),
                "raises device WAF: 1.87 against 1.08 on dedicated drives; placement handles avoid this cost (1.10)",
            ),
            (
                1.87,
                Some(1.50),
                "raises device WAF: 1.87 against 1.08 on dedicated drives; placement handles avoid a part of this cost (1.50)",
            ),
            (
                1.87,
                Some(1.86),
                "raises device WAF: 1.87 against 1.08 on dedicated drives; placement handles do not help (1.86)",
            ),
            (
                1.87,
                None,
                "raises device WAF: 1.87 against 1.08 on dedicated drives",
            ),
            (
                1.09,
                Some(1.08),
                "does not raise device WAF: 1.09 against 1.08 on dedicated drives",
            ),
        ];
        for (shared, fdp, expected) in cases {
            let (sentence, _) = sharing(1.08, shared, fdp);
            assert_eq!(sentence, format!("sharing {expected}"));
        }
    }
}
