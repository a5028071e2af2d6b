//! The conclusion of a baseline, in the words of its series.

use super::{
    Metric, Mix, Part, Point, What, curves, highest, in_doubt, knee, metrics, model, outliers, points_of, saturated_at,
};
use crate::judge::Outcome;
use crate::series::{Conclusion, Series, State};
use crate::units::{self, count, milliseconds, number, span};
use serde_json::{Value, json};

/// Maximum number of doubts listed; only the number of the others is shown.
const DOUBTS_TOLD_MAX: usize = 5;

/// Key of the doubts in the conclusion's details.
const IN_DOUBT: &str = "in_doubt";

/// Concludes a baseline that is over. Only failed operations fail it: rates and latencies are measured, not judged.
pub fn conclude(series: &Series) -> Conclusion {
    let failed = series.steps.iter().find(|step| step.outcome == Some(Outcome::Fail) && step.state == State::Done);
    let several = series.devices.len() > 1;
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for (number, device) in series.devices.iter().enumerate() {
        let points = points_of(series, number);
        let name = if several { format!("{}: ", device.name) } else { String::new() };
        let told: Vec<_> = curves(&points, Part::Depth).iter().filter_map(|(mix, curve)| sweep(*mix, curve)).collect();
        if !told.is_empty() {
            found.push(format!("{name}{}", told.join("; ")));
        }
        let rounds: Vec<_> = points.iter().filter(|point| point.part == Part::Saturation).collect();
        if !rounds.is_empty() && saturated_at(&points).is_none() {
            let seconds: f64 = rounds.iter().map(|point| point.seconds).sum();
            let after = span(seconds as u64);
            remarks.push(format!("{name}not steady after {after} of random writes: its writes may become slower"));
        }
    }
    remarks.extend(differences(series));
    let doubts = in_doubt(series);
    if let Some(doubts) = &doubts {
        let told = doubts.doubts.iter().take(DOUBTS_TOLD_MAX);
        remarks.extend(told.map(|doubt| format!("in doubt: {doubt}")));
        if let Some(more @ 1..) = doubts.doubts.len().checked_sub(DOUBTS_TOLD_MAX) {
            remarks.push(format!("and {} in doubt", count(more as u64, "other job")));
        }
    }
    let mut sentence = failed.map_or_else(String::new, |step| format!("{} failed: {}; ", step.name, step.reason));
    sentence += "measured";
    if !found.is_empty() {
        sentence += &format!(": {}", found.join(". "));
    }
    // Doubts come first, because they qualify everything else.
    if let Some(doubts) = &doubts {
        sentence = format!("{doubts}; {sentence}");
    }
    let outcome = if failed.is_some() { Outcome::Fail } else { Outcome::Pass };
    let details = doubts.map_or(Value::Null, |doubts| json!({ IN_DOUBT: doubts }));
    Conclusion { outcome, sentence, remarks, rating: None, comparable: false, details }
}

/// Highest rate and knee of a sweep of depths.
fn sweep(mix: Mix, curve: &[&Point]) -> Option<String> {
    let (highest, knee) = (highest(curve)?, knee(curve)?);
    Some(format!("{mix}: {} a second flat out, the knee is at depth {}", number(highest), knee.depth))
}

/// Drives that differ from others of their model, each a sentence.
fn differences(series: &Series) -> Vec<String> {
    let all: Vec<Vec<Metric>> = (0..series.devices.len()).map(|device| metrics(&points_of(series, device))).collect();
    let models: Vec<String> = series.devices.iter().map(model).collect();
    let mut told = Vec::new();
    for (number, device) in series.devices.iter().enumerate() {
        let group: Vec<usize> = (0..models.len()).filter(|other| models[*other] == models[number]).collect();
        for Metric { what, mix, .. } in &all[number] {
            let of = |device: &usize| {
                let found = all[*device].iter().find(|metric| metric.what == *what && metric.mix == *mix);
                found.map(|metric| metric.value)
            };
            let values: Vec<_> = group.iter().map(of).collect();
            let own = outliers(*what, &values).into_iter().find(|outlier| group[outlier.at] == number);
            told.extend(own.map(|outlier| {
                let [value, median] = [outlier.value, outlier.median].map(|value| match what {
                    What::P99 | What::P99AtHalf => milliseconds(value / 1e3),
                    _ => units::number(value),
                });
                format!(
                    "{} differs from the other drives of its model: {what} of {mix} {value}, median {median}",
                    device.name
                )
            }));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::testing::{drive, series};
    use crate::series::{Rule, Step};
    use crate::testing::baseline;
    use serde_json::json;

    fn measured(scales: &[f64]) -> Series {
        let mut made = series(1);
        made.devices = (0..scales.len()).map(|at| drive(&format!("/dev/d{at}"), Some(&format!("S{at}")))).collect();
        let step = |device: usize, point: Point| Step {
            devices: vec![device],
            rule: Rule::Completes,
            details: json!(point),
            ..crate::testing::step(format!("{:?}", point.part), 1.0, Outcome::Pass)
        };
        let steps = scales.iter().enumerate();
        let steps =
            steps.flat_map(|(device, scale)| baseline(*scale).into_iter().map(move |point| step(device, point)));
        made.steps = steps.collect();
        made
    }

    #[test]
    fn one_drive_that_differs_is_named_and_alike_ones_are_not() {
        let alike = conclude(&measured(&[1.0, 1.01, 0.99]));
        assert!(alike.remarks.iter().all(|remark| !remark.contains("differs")), "{:?}", alike.remarks);
        let told = conclude(&measured(&[1.0, 1.01, 0.7])).remarks;
        let differs: Vec<_> = told.iter().filter(|remark| remark.contains("differs")).collect();
        assert!(!differs.is_empty() && differs.iter().all(|remark| remark.starts_with("/dev/d2 ")), "{differs:?}");
        let mut other = measured(&[1.0, 1.01, 0.7]);
        other.devices[2].model = Some("another".into());
        assert!(conclude(&other).remarks.iter().all(|remark| !remark.contains("differs")));
    }

    #[test]
    fn a_failed_operation_fails_it_and_jobs_in_doubt_are_told_first() {
        let mut series = measured(&[1.0]);
        assert_eq!(conclude(&series).outcome, Outcome::Pass);
        let sentence = conclude(&series).sentence;
        let reads = "measured: random reads, 4 KiB: 100,000 a second flat out, the knee is at depth 32";
        assert!(sentence.starts_with(reads), "{sentence}");
        series.steps[0].details["doubt"] = json!("this program was late");
        let told = conclude(&series);
        let first = format!("1 of {} jobs in doubt; measured: ", series.steps.len());
        assert!(told.sentence.starts_with(&first), "{}", told.sentence);
        assert!(told.remarks.contains(&"in doubt: Saturation: this program was late".to_owned()), "{:?}", told.remarks);
        assert_eq!(told.details["in_doubt"]["jobs"], 1);
        series.steps[3].outcome = Some(Outcome::Fail);
        assert_eq!(conclude(&series).outcome, Outcome::Fail);
    }
}
