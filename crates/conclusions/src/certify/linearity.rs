//! Compares devices tested together with a device tested alone.
//!
//! According to ACT's README, the second half of a certification should "make sure that performance scales linearly
//! when you add devices". Here this means that each device still achieves its rate and stays within the limits. A
//! higher p99 is not a failure, but usually the first sign of a shared bus or controller.

use results::device_numbers::DeviceNumbers;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Minimum rate of a device tested together with others, as a fraction of the rate achieved alone. Both runs offer the
/// same rate, so a lower achieved rate means a backlog. The end of a run can cut off 1 %.
const ACHIEVED_MIN: f64 = 0.99;

/// The p99 of a device tested together with others is reported if it is more than this many times the p99 alone. A
/// convention: between equal drives, or between different hours of one drive, the p99 differs by some tens of percent,
/// but rarely by 50 %.
const P99_RATIO_MAX: f64 = 1.5;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub together: DeviceNumbers,
    /// Numbers of the same device when it was tested alone; otherwise, of the only device that was tested alone.
    pub alone: DeviceNumbers,
    /// Rate achieved together, divided by the rate alone; `None` if nothing was achieved alone.
    pub achieved: Option<f64>,
    /// p99 together, divided by the p99 alone; `None` if either is unknown.
    pub p99: Option<f64>,
}

impl Ratio {
    fn is_behind(&self) -> bool {
        self.achieved
            .is_some_and(|achieved| achieved < ACHIEVED_MIN)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linearity {
    /// True if every device achieved its rate within the limits.
    pub linear: bool,
    pub sentence: String,
    /// An entry for each judged stream and device.
    pub ratios: Vec<Ratio>,
}

/// Compares the devices tested together with those `alone`; `None` if there is nothing to compare.
pub fn linearity(alone: &[DeviceNumbers], together: &[DeviceNumbers]) -> Option<Linearity> {
    let ratios: Vec<Ratio> = together
        .iter()
        .filter_map(|together| compare_with_alone(alone, together))
        .collect();
    if ratios.is_empty() {
        return None;
    }
    let linear = ratios
        .iter()
        .all(|ratio| !ratio.is_behind() && ratio.together.within_limits);
    Some(Linearity {
        linear,
        sentence: sentence(&ratios, linear),
        ratios,
    })
}

fn compare_with_alone(alone: &[DeviceNumbers], together: &DeviceNumbers) -> Option<Ratio> {
    let same_stream = || alone.iter().filter(|alone| alone.stream == together.stream);
    let alone = same_stream()
        .find(|alone| alone.device == together.device)
        .or_else(|| same_stream().next())?;
    let p99 = together
        .service_p99_ns
        .zip(alone.service_p99_ns)
        .filter(|(_, alone)| *alone > 0);
    Some(Ratio {
        achieved: (alone.achieved_iops > 0.0).then(|| together.achieved_iops / alone.achieved_iops),
        p99: p99.map(|(together, alone)| together as f64 / alone as f64),
        together: together.clone(),
        alone: alone.clone(),
    })
}

fn sentence(ratios: &[Ratio], linear: bool) -> String {
    let achieved_of = |ratio: &&Ratio| ratio.achieved.unwrap_or(1.0);
    let worst = ratios
        .iter()
        .min_by(|one, other| achieved_of(one).total_cmp(&achieved_of(other)));
    let slowest = ratios
        .iter()
        .filter(|ratio| ratio.p99.is_some_and(|p99| p99 > P99_RATIO_MAX));
    let slowest =
        slowest.max_by(|one, other| one.p99.unwrap_or(0.0).total_cmp(&other.p99.unwrap_or(0.0)));
    let achieved = worst.and_then(|ratio| Some((ratio, ratio.achieved?)));
    let over_limit = ratios.iter().find(|ratio| !ratio.together.within_limits);
    let rate = match achieved {
        Some((worst, achieved)) => {
            let device = &worst.together.device;
            let percent = achieved * 100.0;
            let alone = if is_itself(worst) {
                "it"
            } else {
                &worst.alone.device
            };
            format!("{device} achieves {percent:.1} % of the rate that {alone} achieved alone")
        }
        None => "the rate of the device, tested alone, is unknown".to_owned(),
    };
    let p99 = slowest.map(|ratio| {
        let device = &ratio.together.device;
        let factor = ratio.p99.unwrap_or(1.0);
        if is_itself(ratio) {
            format!(
                "; the p99 of {device} is {factor:.1} times its p99 alone: a sign that the bus, the controller or \
                 the power is shared"
            )
        } else {
            // This device was not tested alone, so nothing follows about a shared bus.
            format!(
                "; {device} was not tested alone; its p99 is {factor:.1} times the p99 of {} alone",
                ratio.alone.device
            )
        }
    });
    let head = match (linear, over_limit) {
        (true, _) => format!(
            "linear: with all devices under load, every device stays within the limits; the slowest device: {rate}"
        ),
        (false, Some(first)) => {
            format!(
                "not linear: with all devices under load, {} is over the limits; {rate}",
                first.together.device
            )
        }
        (false, None) => format!("not linear: {rate}"),
    };
    head + &p99.unwrap_or_default()
}

fn is_itself(ratio: &Ratio) -> bool {
    ratio.alone.device == ratio.together.device
}

impl fmt::Display for Linearity {
    /// A table with a line for each stream and device, followed by the sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .ratios
            .iter()
            .map(|ratio| ratio.together.device.len())
            .max()
            .unwrap_or(0)
            .max("device".len());
        writeln!(
            f,
            "{:width$} {:<14} {:>12} {:>8} {:>10} {:>8}  compared with",
            "device", "stream", "achieved/s", "ratio", "p99 ms", "ratio"
        )?;
        let factor_text = |value: f64| format!("{value:.2}");
        for ratio in &self.ratios {
            let Ratio {
                together,
                alone,
                achieved,
                p99,
            } = ratio;
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            writeln!(
                f,
                "{:width$} {:<14} {:>12.0} {:>8} {:>10} {:>8}  {} alone",
                together.device,
                together.stream,
                together.achieved_iops,
                or_dash(achieved.map(factor_text)),
                or_dash(
                    together
                        .service_p99_ns
                        .map(|ns| format!("{:.3}", ns as f64 / 1e6))
                ),
                or_dash(p99.map(factor_text)),
                if is_itself(ratio) {
                    "itself"
                } else {
                    &alone.device
                }
            )?;
        }
        writeln!(f, "{}", self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(
        device: &str,
        achieved_iops: f64,
        p99_ns: u64,
        within_limits: bool,
    ) -> DeviceNumbers {
        DeviceNumbers {
            device: device.into(),
            stream: "reads".into(),
            shares: vec![0.01],
            within_limits,
            service_p99_ns: Some(p99_ns),
            achieved_iops,
        }
    }

    const ALONE_NS: u64 = 400_000;

    fn alone() -> Vec<DeviceNumbers> {
        vec![numbers("/dev/a", 60_000.0, ALONE_NS, true)]
    }

    #[test]
    fn devices_that_keep_their_rate_within_the_limits_are_linear() {
        let together = [
            numbers("/dev/a", 60_000.0, 420_000, true),
            numbers("/dev/b", 59_700.0, ALONE_NS, true),
        ];
        let found = linearity(&alone(), &together).unwrap();
        assert!(found.linear);
        assert_eq!(
            found.sentence,
            "linear: with all devices under load, every device stays within the limits; the slowest device: /dev/b achieves \
             99.5 % of the rate that /dev/a achieved alone"
        );
        assert_eq!(found.ratios[0].p99, Some(1.05));
    }

    #[test]
    fn a_rate_that_is_not_held_is_not_linear_and_the_slowest_is_named() {
        let together = [
            numbers("/dev/a", 60_000.0, ALONE_NS, true),
            numbers("/dev/b", 54_000.0, ALONE_NS, true),
        ];
        let found = linearity(&alone(), &together).unwrap();
        assert!(!found.linear);
        assert_eq!(
            found.sentence,
            "not linear: /dev/b achieves 90.0 % of the rate that /dev/a achieved alone"
        );
    }

    #[test]
    fn a_device_over_the_limits_together_with_others_is_not_linear() {
        let found = linearity(&alone(), &[numbers("/dev/a", 60_000.0, ALONE_NS, false)]).unwrap();
        let begin = "not linear: with all devices under load, /dev/a is over the limits";
        assert!(!found.linear && found.sentence.starts_with(begin));
    }

    #[test]
    fn a_higher_p99_is_reported_with_its_ratio_and_its_likely_cause() {
        let found = linearity(&alone(), &[numbers("/dev/a", 60_000.0, 720_000, true)]).unwrap();
        assert!(found.linear, "it is within the limits all the same");
        let sign = "the p99 of /dev/a is 1.8 times its p99 alone: a sign that the bus";
        assert!(found.sentence.contains(sign), "{}", found.sentence);
        assert!(found.to_string().contains("1.80"), "{found}");
    }

    #[test]
    fn a_device_that_was_not_tested_alone_is_no_sign_of_a_shared_bus() {
        let together = [
            numbers("/dev/a", 60_000.0, ALONE_NS, true),
            numbers("/dev/b", 60_000.0, 4_520_000, true),
        ];
        let sentence = linearity(&alone(), &together).unwrap().sentence;
        let words = "; /dev/b was not tested alone; its p99 is 11.3 times the p99 of /dev/a alone";
        assert!(sentence.ends_with(words), "{sentence}");
    }

    #[test]
    fn without_devices_alone_or_together_nothing_is_compared() {
        assert_eq!(linearity(&alone(), &[]), None);
        assert_eq!(linearity(&[], &alone()), None);
        let idle = [numbers("/dev/a", 0.0, ALONE_NS, true)];
        assert_eq!(linearity(&idle, &alone()).unwrap().ratios[0].achieved, None);
    }
}
