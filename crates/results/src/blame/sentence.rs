//! Blame in words: one sentence for a verdict, with its numbers.

use super::explain::Subject;
use super::{Cause, Part};
use crate::judge::{Grouped, ThresholdText, percent as share_percent};
use std::fmt;

/// Parts below this share of the time are left out of the sentence; they are in the data.
const SHARE_TOLD_MIN: f64 = 0.01;

/// `slice 3: 7.1 % of reads over 1 ms (limit 5 %): 92 % of the time in the device (...), ...; drive at 78 C`.
pub(super) fn whole(subject: &Subject<'_>, parts: &[Part]) -> String {
    let mut text = format!("slice {}", subject.slice + 1);
    if subject.plan.devices.len() > 1 {
        let device = subject.group.device.map(|device| subject.plan.devices[device].as_str());
        text = format!("{text} on {}", device.unwrap_or("all devices together"));
    }
    let (over, wanted) = (subject.over(), subject.counts.wanted());
    let lag = if over > subject.at(&subject.counts.judged_over) { ", with our own lag" } else { "" };
    text = format!(
        "{text}: {} % of {} over {:#}{lag} (limit {} %): ",
        share_percent(over as f64 / wanted.max(1) as f64),
        subject.plan.streams[subject.group.stream].name,
        ThresholdText(subject.limit.threshold_ns),
        crate::judge::plain(subject.limit.share_max() * 100.0)
    );
    let mut separator = "";
    for part in parts {
        match part.share {
            Some(share) if share >= SHARE_TOLD_MIN => {
                let of_the_time = if separator.is_empty() { " of the time" } else { "" };
                text = format!("{text}{separator}{}{of_the_time} {}", percent(share), told(part));
                separator = ", ";
            }
            Some(_) => {}
            None => {
                text = format!("{text}{}{}", if separator.is_empty() { "" } else { "; " }, part.evidence);
                separator = "; ";
            }
        }
    }
    text
}

fn told(part: &Part) -> String {
    let evidence = &part.evidence;
    match part.cause {
        Cause::OurLag => format!("in this program ({evidence})"),
        Cause::SlotWait => format!("waiting for a slot ({evidence})"),
        Cause::KernelQueue => format!("in the kernel before the device ({evidence})"),
        Cause::Device => format!("in the device ({evidence})"),
        Cause::Unknown | Cause::Host | Cause::Heat => evidence.clone(),
    }
}

/// What this program did.
pub(super) fn ours(subject: &Subject<'_>) -> String {
    let slow = &subject.counts.slow;
    let mean = |sums| Some(subject.mean_ns(sums)).filter(|ns| *ns > 0).map(duration);
    let parts = [
        mean(&slow.lag_ns).map(|time| format!("issued {time} late")),
        mean(&slow.unseen_ns).map(|time| format!("completions may have lain unseen for {time}")),
        mean(&slow.held_ns).map(|time| format!("slots may have been held by completions unseen for {time}")),
    ];
    format!("{} on average", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// How long slots were waited for, and how quick service was.
pub(super) fn wait(subject: &Subject<'_>) -> String {
    let slow = &subject.counts.slow;
    let mut text = format!(
        "{} on average under the limit of operations in flight, while service took {}",
        duration(subject.mean_ns(&slow.wait_ns).saturating_sub(subject.mean_ns(&slow.held_ns))),
        duration(subject.mean_ns(&slow.service_ns))
    );
    if subject.counts.unissued > 0 {
        let were = if subject.counts.unissued == 1 { "was" } else { "were" };
        text = format!("{text}, and {} {were} never issued or never came back", number(subject.counts.unissued));
    }
    text
}

/// How many would be over the threshold without the largest part.
pub(super) fn over_without(subject: &Subject<'_>, over: u64) -> String {
    format!(
        "without it {} % would be over {:#}, which reaches the limit as well",
        share_percent(over as f64 / subject.counts.wanted().max(1) as f64),
        ThresholdText(subject.limit.threshold_ns)
    )
}

/// What failed.
pub(super) fn failed(subject: &Subject<'_>) -> String {
    format!("{} failed", Count(subject.counts.errors, "operation"))
}

/// A fraction in whole percent; never 0 nor 100 if it is not.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "below 1 %".to_owned(),
        percent if percent < 100.0 && percent > 99.5 => "over 99 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// Nanoseconds with two or three digits, in the unit that suits.
pub(super) fn duration(ns: u64) -> String {
    let (value, unit) = match ns as f64 {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e3, "us"),
    };
    if value < 9.95 && value.fract() != 0.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// So many of something: `1 sample`, `2,000 samples`.
pub(super) struct Count(pub(super) u64, pub(super) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", number(self.0), self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// A number with commas between thousands.
pub(super) fn number(number: u64) -> Grouped {
    Grouped(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_percents_have_as_many_digits_as_help() {
        let texts: Vec<_> = [0, 900, 80_000, 4_200_000, 1_000_000, 78_400_000, 1_250_000_000].map(duration).into();
        assert_eq!(texts, ["0 us", "0.9 us", "80 us", "4.2 ms", "1 ms", "78 ms", "1.2 s"]);
        let texts: Vec<_> = [0.0, 0.001, 0.924, 0.999, 1.0].map(percent).into();
        assert_eq!(texts, ["0 %", "below 1 %", "92 %", "over 99 %", "100 %"]);
    }
}
