//! The metrics by which drives are compared, the drives that differ from others of their model, and the conclusion of a
//! baseline.

use super::{
    AccessMix, DirectionResult, JobPurpose, Point, curves, highest, in_doubt, knee, points_of,
    saturated_at,
};
use crate::series::{Conclusion, DriveIdentity, Series, SeriesStepState};
use results::format::{self, count, milliseconds, number, span};
use results::judge::{LOOK_AT_DRIVE, Outcome};
use results::steady::median;
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct DriveMetric {
    pub kind: MetricKind,
    pub mix: AccessMix,
    /// Value, in the unit of `kind`.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricKind {
    /// Operations per second of a profile without a rate limit.
    Iops,
    /// 99th percentile of a profile's reads (of its writes, if the profile has no reads), microseconds.
    P99,
    /// Mean number of requests that the kernel had in flight under a profile.
    InFlight,
    /// CPU time of this program per operation of a profile, microseconds.
    Cpu,
    /// Queue depth above which the rate hardly grows.
    Knee,
    /// Highest IOPS without a rate limit, from the depths at and above the knee.
    Highest,
    /// Like [`Self::P99`], at about half of the highest rate.
    P99AtHalf,
    /// Operations per second at the end of write saturation.
    Sustained,
}

impl MetricKind {
    /// Minimum difference between two drives, as a fraction of the smaller value, at which it is reported. `None`: not
    /// judged, because the values have large steps (knee) or describe the host (requests in flight, CPU).
    pub fn differs_from(self) -> Option<f64> {
        match self {
            Self::Iops | Self::Highest | Self::Sustained => Some(0.05),
            Self::P99 | Self::P99AtHalf => Some(0.2),
            Self::InFlight | Self::Cpu | Self::Knee => None,
        }
    }

    fn value_text(self, value: f64) -> String {
        match self {
            Self::P99 | Self::P99AtHalf => milliseconds(value / 1e3),
            _ => format::number(value),
        }
    }
}

results::display!(MetricKind {
    Iops => "IOPS",
    P99 => "p99",
    InFlight => "mean in flight",
    Cpu => "CPU per operation",
    Knee => "queue depth at the knee",
    Highest => "highest IOPS",
    P99AtHalf => "p99 at half the highest IOPS",
    Sustained => "IOPS after saturation",
});

/// Rates, as fractions of the highest rate, that count as half of the highest rate.
const HALF: std::ops::RangeInclusive<f64> = 0.4..=0.6;

pub fn metrics(points: &[Point]) -> Vec<DriveMetric> {
    let mut values = Vec::new();
    for (mix, curve) in curves(points, JobPurpose::Depth) {
        let knee = knee(&curve).map(|knee| f64::from(knee.depth));
        values.push((MetricKind::Highest, mix, highest(&curve)));
        values.push((MetricKind::Knee, mix, knee));
    }
    // A p99 of few operations is left out, because drives would differ by chance.
    let is_comparable = |done: &&DirectionResult| done.is_compared(99.0);
    for (mix, curve) in curves(points, JobPurpose::Rate) {
        let half = at_half(&curve, highest_rate(points, mix))
            .and_then(Point::main_direction)
            .filter(is_comparable);
        let p99 = half.and_then(|done| done.answer_at(99.0).us());
        values.push((MetricKind::P99AtHalf, mix, p99));
    }
    for (mix, curve) in curves(points, JobPurpose::Profile) {
        let Some(point) = curve.last() else { continue };
        let p99 = point
            .main_direction()
            .filter(is_comparable)
            .and_then(|done| done.service_at(99.0).us());
        values.push((MetricKind::Iops, mix, Some(point.iops())));
        values.push((MetricKind::P99, mix, p99));
        values.push((MetricKind::InFlight, mix, point.mean_in_flight));
        values.push((MetricKind::Cpu, mix, point.cpu_us));
    }
    for (mix, curve) in curves(points, JobPurpose::Saturation) {
        let iops = curve.last().map(|point| point.iops());
        values.push((MetricKind::Sustained, mix, iops));
    }
    let mut metrics: Vec<DriveMetric> = values
        .into_iter()
        .filter_map(|(kind, mix, value)| {
            let value = value.filter(|value: &f64| value.is_finite())?;
            Some(DriveMetric { kind, mix, value })
        })
        .collect();
    metrics.sort_by_key(|metric| metric.kind);
    metrics
}

/// The rate of `mix` without a rate limit: from its sweep of depths, otherwise from its profile, otherwise its highest
/// rate in any part. The saturation part is ignored: while a drive has free blocks, it is faster than it can sustain.
pub fn highest_rate(points: &[Point], mix: AccessMix) -> Option<f64> {
    let of_mix: Vec<&Point> = points
        .iter()
        .filter(|point| AccessMix::from_point(point) == mix)
        .collect();
    let sweep: Vec<&Point> = of_mix
        .iter()
        .copied()
        .filter(|point| point.part == JobPurpose::Depth)
        .collect();
    let profile = of_mix
        .iter()
        .rfind(|point| point.part == JobPurpose::Profile);
    let lasting = of_mix.iter().filter(|point| {
        !matches!(
            point.part,
            JobPurpose::Saturation | JobPurpose::PtsSaturation
        )
    });
    highest(&sweep)
        .or(profile.map(|point| point.iops()))
        .or_else(|| lasting.map(|point| point.iops()).reduce(f64::max))
        .filter(|iops| *iops > 0.0)
}

fn at_half<'a>(curve: &[&'a Point], highest: Option<f64>) -> Option<&'a Point> {
    let highest = highest?;
    let share = |point: &&Point| point.offered_iops().unwrap_or(0.0) / highest;
    let near = curve
        .iter()
        .copied()
        .filter(|point| HALF.contains(&share(point)));
    near.min_by(|a, b| (share(a) - 0.5).abs().total_cmp(&(share(b) - 0.5).abs()))
}

/// Key that groups drives of a model: the name of the model, or kind and size of drives without a model.
pub fn model(drive: &DriveIdentity) -> String {
    drive.model.clone().unwrap_or_else(|| {
        let kind = if drive.simulated {
            "simulated drive"
        } else {
            "device without a model"
        };
        format!("{kind} of {}", format::bytes(drive.size_bytes as f64))
    })
}

#[derive(Debug, Clone, PartialEq)]
pub struct DriveOutlier {
    pub index: usize,
    pub value: f64,
    pub median: f64,
}

/// Minimum distance of an outlier from the median, in median absolute deviations (MAD). Source: Iglewicz and Hoaglin,
/// How to Detect and Handle Outliers (1993): 3.5 standard deviations, estimated as 1.4826 MAD each.
const DEVIATIONS: f64 = 3.5 * 1.4826;

/// Outliers are reported only among at least this many drives: of two drives, it is unknown which one is unusual.
const DRIVES_MIN: usize = 3;

/// The `values` that differ from the median by more than 3.5 standard deviations (estimated from the median absolute
/// deviation) and by more than 5 % (rates) or 20 % (latencies) of the median.
pub fn outliers(kind: MetricKind, values: &[Option<f64>]) -> Vec<DriveOutlier> {
    let known_values: Vec<f64> = values.iter().copied().flatten().collect();
    let (Some(fraction), true) = (kind.differs_from(), known_values.len() >= DRIVES_MIN) else {
        return Vec::new();
    };
    let median_value = median(&known_values);
    let spread = median(
        &known_values
            .iter()
            .map(|value| (value - median_value).abs())
            .collect::<Vec<_>>(),
    );
    let difference_min = (DEVIATIONS * spread).max(fraction * median_value.abs());
    values
        .iter()
        .enumerate()
        .filter_map(|(at, value): (usize, &Option<f64>)| {
            let value = (*value)?;
            ((value - median_value).abs() > difference_min).then_some(DriveOutlier {
                index: at,
                value,
                median: median_value,
            })
        })
        .collect()
}

/// Maximum number of unreliable jobs that are listed with a reason; the others are only counted.
const DOUBTS_SHOWN_MAX: usize = 5;

const IN_DOUBT: &str = "in_doubt";

/// Concludes a finished baseline. Only failed operations fail a baseline: rates and latencies are measured, not judged.
pub fn conclude(series: &Series) -> Conclusion {
    let failed = series
        .steps
        .iter()
        .find(|step| step.outcome == Some(Outcome::Fail) && step.state == SeriesStepState::Done);
    let several = series.devices.len() > 1;
    let mut findings = Vec::new();
    let mut remarks = Vec::new();
    for (number, device) in series.devices.iter().enumerate() {
        let points = points_of(series, number);
        let name = if several {
            format!("{}: ", device.name)
        } else {
            String::new()
        };
        let sweep_texts: Vec<_> = curves(&points, JobPurpose::Depth)
            .iter()
            .filter_map(|(mix, curve)| sweep(*mix, curve))
            .collect();
        if !sweep_texts.is_empty() {
            findings.push(format!("{name}{}", sweep_texts.join("; ")));
        }
        let rounds: Vec<_> = points
            .iter()
            .filter(|point| point.part == JobPurpose::Saturation)
            .collect();
        if !rounds.is_empty() && saturated_at(&points).is_none() {
            let seconds: f64 = rounds.iter().map(|point| point.seconds).sum();
            let after = span(seconds as u64);
            remarks.push(format!(
                "{name}not steady after {after} of random writes: the writes may become slower"
            ));
        }
    }
    remarks.extend(differences(series));
    let doubts = in_doubt(series);
    if let Some(doubts) = &doubts {
        let told = doubts.doubts.iter().take(DOUBTS_SHOWN_MAX);
        remarks.extend(told.map(|doubt| format!("in doubt: {doubt}")));
        if let Some(more @ 1..) = doubts.doubts.len().checked_sub(DOUBTS_SHOWN_MAX) {
            remarks.push(format!("and {} in doubt", count(more as u64, "other job")));
        }
    }
    let mut sentence = failed.map_or_else(String::new, |step| {
        format!("{} failed: {}; ", step.name, step.reason)
    });
    if findings.is_empty() {
        findings.push("measured".to_owned());
    }
    sentence += &findings.join(". ");
    // The number of unreliable jobs comes first, because it qualifies the rest of the sentence.
    if let Some(doubts) = &doubts {
        sentence = format!("{doubts}; {sentence}");
    }
    let outcome = if failed.is_some() {
        Outcome::Fail
    } else {
        Outcome::Measured
    };
    let action = match (failed, &doubts) {
        (Some(_), _) => Some(LOOK_AT_DRIVE),
        (None, Some(_)) => Some("stop other programs on this host, then measure again"),
        (None, None) => Some("predict the load that the drive holds: flashproof rate predict DIR"),
    };
    let details = doubts.map_or(Value::Null, |doubts| json!({ IN_DOUBT: doubts }));
    Conclusion {
        outcome,
        sentence,
        action: action.map(str::to_owned),
        remarks,
        rating: None,
        comparable: false,
        details,
    }
}

fn sweep(mix: AccessMix, curve: &[&Point]) -> Option<String> {
    let highest = highest(curve)?;
    let knee = knee(curve)?;
    Some(format!(
        "{mix}: {} IOPS, knee at depth {}",
        number(highest),
        knee.depth
    ))
}

/// A sentence for each drive and metric that differs from the other drives of the model.
fn differences(series: &Series) -> Vec<String> {
    let metrics_by_drive: Vec<Vec<DriveMetric>> = (0..series.devices.len())
        .map(|device| metrics(&points_of(series, device)))
        .collect();
    let models: Vec<String> = series.devices.iter().map(model).collect();
    let mut sentences = Vec::new();
    for (number, device) in series.devices.iter().enumerate() {
        let group: Vec<usize> = (0..models.len())
            .filter(|other| models[*other] == models[number])
            .collect();
        for DriveMetric {
            kind: metric_kind,
            mix,
            ..
        } in &metrics_by_drive[number]
        {
            let values: Vec<_> = group
                .iter()
                .map(|device: &usize| {
                    let found = metrics_by_drive[*device]
                        .iter()
                        .find(|metric| metric.kind == *metric_kind && metric.mix == *mix);
                    found.map(|metric| metric.value)
                })
                .collect();
            let own_outlier = outliers(*metric_kind, &values)
                .into_iter()
                .find(|outlier| group[outlier.index] == number);
            sentences.extend(own_outlier.map(|outlier| {
                format!(
                    "{} differs from the other drives of its model: {metric_kind} of {mix} {}, median {}",
                    device.name,
                    metric_kind.value_text(outlier.value),
                    metric_kind.value_text(outlier.median)
                )
            }));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::testing::{drive, series};
    use crate::series::{Rule, Step};
    use crate::testing::baseline;

    fn at(what: MetricKind, values: &[f64]) -> Vec<usize> {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        outliers(what, &values)
            .iter()
            .map(|outlier| outlier.index)
            .collect()
    }

    #[test]
    fn an_outlier_among_three_drives_is_found_and_among_two_is_not() {
        assert_eq!(at(MetricKind::Iops, &[100.0, 101.0, 70.0]), [2]);
        assert_eq!(at(MetricKind::Iops, &[100.0, 70.0]), [0_usize; 0]);
        assert_eq!(
            outliers(MetricKind::Iops, &[Some(100.0), None, Some(70.0)]),
            []
        );
        // The MAD is 0 because most values are equal, so the fraction of the median decides.
        assert_eq!(
            at(MetricKind::Iops, &[100.0, 100.0, 100.0, 104.9, 94.9]),
            [4]
        );
        assert_eq!(
            at(MetricKind::P99, &[100.0, 100.0, 100.0, 119.0, 121.0]),
            [4]
        );
        // Values with a large spread have no outlier.
        assert_eq!(
            at(MetricKind::Iops, &[50.0, 100.0, 150.0, 200.0]),
            [0_usize; 0]
        );
        assert_eq!(
            at(MetricKind::Knee, &[16.0, 16.0, 16.0, 256.0]),
            [0_usize; 0],
            "the knee is never judged"
        );
    }

    #[test]
    fn metrics_of_a_made_up_baseline_have_the_expected_values() {
        let made = metrics(&baseline(1.0));
        let value = |what, mix: &str| {
            let found = made
                .iter()
                .find(|metric| metric.kind == what && metric.mix.to_string() == mix);
            found.map(|metric| metric.value.round())
        };
        assert_eq!(
            value(MetricKind::Highest, "random reads, 4 KiB"),
            Some(100_000.0)
        );
        assert_eq!(
            value(MetricKind::Knee, "random reads, 4 KiB"),
            Some(32.0),
            "the swept depth above 29, the knee"
        );
        assert_eq!(value(MetricKind::Knee, "random writes, 4 KiB"), Some(4.0));
        assert_eq!(
            value(MetricKind::P99AtHalf, "random reads, 4 KiB"),
            Some(462.0),
            "80 us / 0.52 * 3"
        );
        // `P99AtHalf` is measured at half of the rate after saturation, not at half of the initial 50,000/s.
        assert_eq!(
            value(MetricKind::P99AtHalf, "random writes, 4 KiB"),
            Some(462.0)
        );
        assert_eq!(
            value(MetricKind::Sustained, "random writes, 4 KiB"),
            Some(25_000.0),
            "the last of six rounds"
        );
        assert_eq!(
            value(MetricKind::Iops, "random 95 % reads, 128 KiB"),
            Some(7_629.0)
        );
        let mut few = baseline(1.0);
        few.iter_mut()
            .flat_map(|point| [&mut point.reads, &mut point.writes])
            .flatten()
            .for_each(|done| done.ops = 999);
        assert!(
            metrics(&few)
                .iter()
                .all(|metric| !matches!(metric.kind, MetricKind::P99 | MetricKind::P99AtHalf)),
            "too few operations for a p99"
        );
        let mut points = baseline(1.0);
        points.retain(|point| {
            point.part != JobPurpose::Rate || point.offered_iops() != Some(50_000.0)
        });
        let mut metrics = metrics(&points)
            .into_iter()
            .filter(|metric| metric.kind == MetricKind::P99AtHalf);
        assert!(
            metrics.all(|metric| metric.mix.read_pct == 0),
            "no rate of reads is near half of their highest"
        );
    }

    fn measured(scales: &[f64]) -> Series {
        let mut made = series(1);
        made.devices = (0..scales.len())
            .map(|at| drive(&format!("/dev/d{at}"), Some(&format!("S{at}"))))
            .collect();
        let step = |device: usize, point: Point| Step {
            devices: vec![device],
            rule: Rule::Completes,
            details: json!(point),
            ..crate::testing::step(format!("{:?}", point.part), 1.0, Outcome::Measured)
        };
        let steps = scales.iter().enumerate();
        let steps = steps.flat_map(|(device, scale)| {
            baseline(*scale)
                .into_iter()
                .map(move |point| step(device, point))
        });
        made.steps = steps.collect();
        made
    }

    #[test]
    fn a_drive_that_differs_is_named_and_similar_drives_are_not() {
        let alike = conclude(&measured(&[1.0, 1.01, 0.99]));
        assert!(
            alike
                .remarks
                .iter()
                .all(|remark| !remark.contains("differs")),
            "{:?}",
            alike.remarks
        );
        let told = conclude(&measured(&[1.0, 1.01, 0.7])).remarks;
        let differs: Vec<_> = told
            .iter()
            .filter(|remark| remark.contains("differs"))
            .collect();
        assert!(
            !differs.is_empty() && differs.iter().all(|remark| remark.starts_with("/dev/d2 ")),
            "{differs:?}"
        );
        let mut other = measured(&[1.0, 1.01, 0.7]);
        other.devices[2].model = Some("another".into());
        assert!(
            conclude(&other)
                .remarks
                .iter()
                .all(|remark| !remark.contains("differs"))
        );
    }

    #[test]
    fn a_failed_job_fails_the_baseline_and_jobs_in_doubt_come_first_in_the_sentence() {
        let mut series = measured(&[1.0]);
        assert_eq!(conclude(&series).outcome, Outcome::Measured);
        let sentence = conclude(&series).sentence;
        let reads = "random reads, 4 KiB: 100,000 IOPS, knee at depth 32";
        assert!(sentence.starts_with(reads), "{sentence}");
        series.steps[0].details["doubt"] = json!("this program was late");
        let told = conclude(&series);
        let first = format!("1 of {} jobs in doubt; random reads, ", series.steps.len());
        assert!(told.sentence.starts_with(&first), "{}", told.sentence);
        assert!(
            told.remarks
                .contains(&"in doubt: Saturation: this program was late".to_owned()),
            "{:?}",
            told.remarks
        );
        assert_eq!(told.details["in_doubt"]["jobs"], 1);
        series.steps[3].outcome = Some(Outcome::Fail);
        assert_eq!(conclude(&series).outcome, Outcome::Fail);
    }
}
