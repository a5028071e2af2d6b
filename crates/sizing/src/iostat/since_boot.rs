//! The first report of a run of iostat: it covers the time since boot, or with `-y` an interval like the others.
//!
//! The output does not show which. But over an interval of n s a rate is a whole number divided by n, while a rate
//! since boot is divided by any length of time: with n = 10, `2439.60` can belong to an interval, and `2439.63` cannot.
//! The later reports show if intervals are that exact.

use super::rates::{DeviceRates, Report};
use std::collections::BTreeSet;

/// Intervals that are tried, s.
const INTERVALS_MAX: u32 = 50;
/// Chance at which numbers are believed: 0.1 for each number at 10 s.
const CHANCE_MAX: f64 = 0.02;
/// Out of ten later numbers this many have to be such fractions.
const MOST_OF_TEN: usize = 8;

/// Classification of a first report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    SinceBoot,
    OfInterval,
    Unknown,
}

/// Leaves out those of the reports at `firsts` (ascending) that are since boot, or may be. Returns what was decided.
pub(super) fn drop_firsts(reports: &mut Vec<Report>, firsts: &[usize]) -> Vec<String> {
    let mut said = Vec::new();
    let ends = firsts.iter().skip(1).copied().chain([reports.len()]);
    let mut left_out = Vec::new();
    for (begin, end) in firsts.iter().copied().zip(ends) {
        let run = &reports[begin..end];
        let what = match told(run) {
            First::OfInterval => {
                said.push("the first report is of an interval, as its numbers show, and is used (iostat -y)");
                continue;
            }
            First::SinceBoot => "the first report is since boot, as its numbers show, and is left out",
            First::Unknown if run.len() == 1 => {
                "the only report is since boot, unless iostat ran with -y, and is left out; record one with iostat -xty 10"
            }
            First::Unknown => "the first report is left out: it is since boot, unless iostat ran with -y",
        };
        said.push(what);
        left_out.push(begin);
    }
    let mut at = 0;
    reports.retain(|_| {
        at += 1;
        !left_out.contains(&(at - 1))
    });
    let mut sentences: Vec<(usize, &str)> = Vec::new();
    for sentence in said {
        match sentences.iter_mut().find(|(_, known)| *known == sentence) {
            Some((number, _)) => *number += 1,
            None => sentences.push((1, sentence)),
        }
    }
    let runs = |number| if number == 1 { String::new() } else { format!(" ({number} runs)") };
    sentences.into_iter().map(|(number, sentence)| format!("{sentence}{}", runs(number))).collect()
}

fn told(run: &[Report]) -> First {
    let [first, rest @ ..] = run else { return First::Unknown };
    let rates = |reports: &[Report]| {
        let rates = reports.iter().take(100).flat_map(|report| report.devices.iter().flat_map(counts));
        // Two decimals each; the same number twice tells no more.
        rates.map(|rate| (rate * 100.0).round() as u64).collect::<BTreeSet<u64>>()
    };
    let (first, rest) = (rates(std::slice::from_ref(first)), rates(rest));
    let fitting =
        |rates: &BTreeSet<u64>, seconds| rates.iter().filter(|rate| is_of(**rate as f64 / 100.0, seconds)).count();
    // Probability that this many numbers are such fractions by chance.
    let by_chance = |count: usize, seconds: u32| (f64::from(seconds) / 100.0).powi(count as i32);
    let printed = run.windows(2).filter_map(|pair| Some(pair[1].at?.duration_since(pair[0].at?).as_secs()));
    let tried = match printed.min() {
        Some(seconds) => {
            let seconds = u32::try_from(seconds).unwrap_or(0);
            seconds..=seconds.min(INTERVALS_MAX)
        }
        None => 1..=INTERVALS_MAX,
    };
    // A busy host measures an interval of 10.01 s now and then.
    let most = |seconds: &u32| *seconds > 0 && fitting(&rest, *seconds) * 10 >= rest.len() * MOST_OF_TEN;
    let Some(seconds) = tried.into_iter().find(most) else { return First::Unknown };
    let of_rest = fitting(&rest, seconds);
    let of_first = fitting(&first, seconds);
    if by_chance(of_rest, seconds) > CHANCE_MAX {
        return First::Unknown;
    }
    match of_first == first.len() {
        true if by_chance(of_first, seconds) <= CHANCE_MAX => First::OfInterval,
        false if of_rest == rest.len() => First::SinceBoot,
        _ => First::Unknown,
    }
}

/// Rates of whole operations; those that are nought tell nothing.
fn counts(device: &DeviceRates) -> impl Iterator<Item = f64> {
    [Some(device.r_s), Some(device.w_s), device.f_s, device.d_s].into_iter().flatten().filter(|rate| *rate > 0.0)
}

/// True if a rate, printed with two decimals, is a whole number divided by `seconds`.
fn is_of(rate: f64, seconds: u32) -> bool {
    let seconds = f64::from(seconds);
    let count = (rate * seconds).round();
    (count / seconds - rate).abs() < 0.005_001
}
