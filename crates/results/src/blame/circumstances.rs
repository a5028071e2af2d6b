//! Host and heat: why time went where it went. They have no share of their own, because what was
//! measured of them (CPU time, degrees) is not time of operations.

use super::accumulate::While;
use super::explain::{Shares, Subject};
use super::{Cause, Part};

/// Stolen CPU time that is evidence. When 5 % of the time is stolen, every twentieth operation meets a
/// stolen moment: as many as the default limit allows over its tightest threshold.
const STEAL_PCT_MIN: f64 = 5.0;

/// Time for which our threads wanted to run and had no CPU: likewise.
const RUNQUEUE_WAIT_PCT_MIN: f64 = 5.0;

/// All CPUs together are full from here on: what becomes runnable mostly finds none idle.
const BUSY_PCT_MIN: f64 = 90.0;

/// A single CPU is full from here on: what queues for it waits some twenty times as long as it runs.
const BUSIEST_PCT_MIN: f64 = 95.0;

/// Nearly all interrupts of a device on one CPU.
const IRQ_SHARE_PCT_MIN: f64 = 90.0;

/// Fewer interrupts than this fill no CPU, wherever they go: at 5 us each, 0.5 % of one.
const IRQS_PER_SEC_MIN: f64 = 1_000.0;

/// Below this no drive throttles itself: the warning temperatures of NVMe drives begin about here.
const HOT_CELSIUS: f64 = 70.0;

/// So much hotter than while operations were fast must a drive have been while they were slow: twice
/// the resolution of most sensors, and more than a load alone makes in minutes.
const HOTTER_CELSIUS: f64 = 3.0;

/// Heat slows the drive and nothing else: service has to be the larger part.
const SERVICE_SHARE_MIN: f64 = 0.5;

/// The parts without a share.
pub(super) fn all(subject: &Subject<'_>, shares: &Shares) -> Vec<Part> {
    let part = |cause, evidence| Part { cause, share: None, evidence };
    let host = host(subject).map(|evidence| part(Cause::Host, evidence));
    let heat = heat(subject, shares).map(|evidence| part(Cause::Heat, evidence));
    host.into_iter().chain(heat).collect()
}

fn host(subject: &Subject<'_>) -> Option<String> {
    let mut meanwhile = While::default();
    for device in subject.devices() {
        if let Some(position) = subject.blamer.position(subject.group.stream, device) {
            meanwhile.merge(&subject.blamer.meanwhile(subject.slice, position, subject.threshold));
        }
    }
    let at_least = |mean: &super::telemetry::Mean, min: f64| mean.value().filter(|value| *value >= min);
    let mut evidence = Vec::new();
    if let Some(pct) = at_least(&meanwhile.steal_pct, STEAL_PCT_MIN) {
        evidence.push(format!("the hypervisor stole {pct:.0} % of the CPU time"));
    }
    if let Some(pct) = at_least(&meanwhile.runqueue_wait_pct, RUNQUEUE_WAIT_PCT_MIN) {
        evidence.push(format!("this program's threads wanted to run for {pct:.0} % of the time and had no CPU"));
    }
    if let Some(pct) = at_least(&meanwhile.busy_pct, BUSY_PCT_MIN) {
        evidence.push(format!("all CPUs were {pct:.0} % busy"));
    }
    let busiest = at_least(&meanwhile.busiest_pct, BUSIEST_PCT_MIN);
    let many = at_least(&meanwhile.irqs_per_sec, IRQS_PER_SEC_MIN);
    if let (Some(share), Some(busiest), Some(_)) =
        (at_least(&meanwhile.irq_share_pct, IRQ_SHARE_PCT_MIN), busiest, many)
    {
        evidence.push(format!(
            "{share:.0} % of the device's interrupts went to one CPU while the busiest CPU was {busiest:.0} % busy"
        ));
    }
    (!evidence.is_empty()).then(|| format!("while they were slow, {}", evidence.join(", ")))
}

fn heat(subject: &Subject<'_>, shares: &Shares) -> Option<String> {
    if shares.service < SERVICE_SHARE_MIN {
        return None;
    }
    let found = subject.devices().filter_map(|device| {
        let evidence = heat_of(subject, device)?;
        let name = if subject.plan.devices.len() > 1 { &subject.plan.devices[device] } else { "drive" };
        Some(format!("{name} {evidence}"))
    });
    let found: Vec<_> = found.collect();
    (!found.is_empty()).then(|| found.join("; "))
}

/// What speaks for heat on one device: it says that it throttled itself, and service was slower than
/// before; or it was hot, and hotter while operations were slow than while they were fast.
fn heat_of(subject: &Subject<'_>, device: usize) -> Option<String> {
    let Subject { blamer, slice, threshold, counts, .. } = subject;
    let position = blamer.position(subject.group.stream, device)?;
    let slice_facts = blamer.device(*slice, device);
    let celsius = blamer.meanwhile(*slice, position, *threshold).celsius.value();
    let at = celsius.map_or_else(String::new, |celsius| format!("at {celsius:.0} C"));
    let calm = blamer.calm(position);
    // Across multiplied: of the slice more than of the time before, if there was any.
    let grew = u128::from(subject.at(&counts.service_over)) * u128::from(calm.ops)
        > u128::from(calm.service_over[*threshold]) * u128::from(counts.ops);
    if slice_facts.throttled > 0.0 || slice_facts.throttled_sec > 0.0 {
        if calm.ops > 0 && !grew {
            return None;
        }
        let mut words = Vec::from_iter((!at.is_empty()).then_some(at));
        if slice_facts.throttled > 0.0 {
            let times = if slice_facts.throttled < 1.5 { "time" } else { "times" };
            words.push(format!("throttled {:.0} {times}", slice_facts.throttled));
        }
        if slice_facts.throttled_sec > 0.0 {
            words.push(format!("throttled for {:.0} s", slice_facts.throttled_sec));
        }
        return Some(words.join(", "));
    }
    let (celsius, fast) = (celsius?, blamer.fast_celsius(position, *threshold)?);
    (celsius >= HOT_CELSIUS && celsius >= fast + HOTTER_CELSIUS)
        .then(|| format!("{at} while operations were slow and {fast:.0} C while they were fast"))
}
