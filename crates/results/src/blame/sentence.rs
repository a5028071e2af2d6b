//! Blame in words: one sentence for a verdict, with its numbers.

use super::explain::Subject;
use super::{Cause, Part};
use crate::judge::ThresholdText;
use crate::units::{Grouped, count, duration, percent, percent_exact, percent_whole};

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
        "{text}: {} of {} over {:#}{lag} (limit {}): ",
        percent(over as f64 / wanted.max(1) as f64),
        subject.plan.streams[subject.group.stream].name,
        ThresholdText(subject.limit.threshold_ns),
        percent_exact(subject.limit.share_max())
    );
    let mut separator = "";
    for part in parts {
        match part.share {
            Some(share) if share >= SHARE_TOLD_MIN => {
                let of_the_time = if separator.is_empty() { " of the time" } else { "" };
                text = format!("{text}{separator}{}{of_the_time} {}", percent_whole(share), told(part));
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
    let holder = subject.blamer.holder(subject.slice, subject.devices());
    if let Some((stream, part)) = holder.filter(|(stream, _)| *stream != subject.group.stream) {
        let name = &subject.plan.streams[stream].name;
        text = format!("{text}, and {name} held the slots: {} of the operations in flight", percent(part));
    }
    if subject.counts.unissued > 0 {
        let were = if subject.counts.unissued == 1 { "was" } else { "were" };
        text = format!("{text}, and {} {were} never issued or never came back", Grouped(subject.counts.unissued));
    }
    text
}

/// How many would be over the threshold without the largest part.
pub(super) fn over_without(subject: &Subject<'_>, over: u64) -> String {
    format!(
        "without it {} would be over {:#}, which reaches the limit as well",
        percent(over as f64 / subject.counts.wanted().max(1) as f64),
        ThresholdText(subject.limit.threshold_ns)
    )
}

/// What failed.
pub(super) fn failed(subject: &Subject<'_>) -> String {
    format!("{} failed", count(subject.counts.errors, "operation"))
}
