//! Splits service time between kernel and device.
//!
//! Between submission and completion, an operation is in the kernel and then in the device. Three sources separate the
//! two times; without any of them the split is reported as unknown:
//!
//! * the kind of target: a simulated drive has no kernel before it, and behind a server neither time is visible;
//! * the kernel's disk statistics (`r_await`, `w_await`) cover the whole lifetime of requests, in the I/O scheduler and
//!   in the device. The rest of the service time passed before the requests existed, for example under a cgroup's
//!   limit;
//! * the trace shows both stages of each request, in samples.
//!
//! Time in the kernel while the device was full is charged to the device: see [`FullDeviceSums`].

use super::Cause;
use super::accumulate::FullDeviceSums;
use super::samples::{SampledOps, SampledRequests};
use super::{BlamedWindow, CauseShares};
use crate::counts::CellCounts;
use crate::format::{Grouped, count, duration, percent_whole};
use crate::judge::TestedObject;
use crate::telemetry::{TraceKind, TraceSize};

/// Minimum share of service time outside all requests at which the kernel is blamed. A smaller share can result from
/// merging: the kernel merges neighbouring operations, so that requests carry two operations each.
const OUTSIDE_MIN: f64 = 0.5;

/// Minimum share of this program's operations in the kernel's statistics; below, the statistics count as switched off.
const COUNTED_MIN: f64 = 0.5;

/// Minimum number of slow operations in the samples for a conclusion about all slow operations.
const SAMPLED_SLOW_MIN: u64 = 10;

/// From this number of samples on, slow operations that the sampled requests do not explain count as slow before their
/// requests existed. Fewer samples are enough if they are long: if each interval has a burst, the probability that all
/// samples miss the bursts must be at most [`MISSED_MAX`].
const SAMPLES_MIN: u64 = 8;
const MISSED_MAX: f64 = 0.1;

pub(super) fn service_causes(
    subject: &BlamedWindow<'_>,
    shares: &CauseShares,
) -> Vec<(Cause, f64, String)> {
    let behind_note = behind_text(subject, shares);
    if subject.plan.tested == TestedObject::Server {
        return vec![(
            Cause::Server,
            1.0,
            format!(
                "including the network: {}{behind_note}",
                service_time_text(subject)
            ),
        )];
    }
    if subject.plan.simulated {
        let simulated =
            "a simulated device has no kernel before it, so all service time is the device's";
        return vec![(
            Cause::Device,
            1.0,
            format!("{simulated}: {}{behind_note}", service_time_text(subject)),
        )];
    }
    let outside_requests =
        OutsideRequests::from_window(subject).filter(|outside| outside.fraction >= OUTSIDE_MIN);
    let (full, behind_full) = behind_full(subject).unwrap_or_default();
    match SampleEstimate::from_window(subject) {
        Ok(sampled) => {
            let outside_fraction = outside_requests
                .as_ref()
                .map_or(0.0, |outside| outside.fraction);
            let device = sampled.device.min(1.0 - outside_fraction);
            let unseen = sampled.unseen.min(1.0 - outside_fraction - device);
            let mut kernel = (1.0 - device - unseen).max(0.0);
            if kernel < sampled.noise && outside_fraction == 0.0 {
                kernel = 0.0;
            }
            let full = full.min(kernel);
            kernel -= full;
            let mut evidence = sampled.kernel_evidence(subject);
            if let Some(outside) = outside_requests.as_ref().filter(|_| full == 0.0) {
                evidence = format!("{evidence}; {}", outside.evidence);
            }
            let mut device_evidence = sampled.device_evidence(subject);
            if full > 0.0 {
                device_evidence = format!("{device_evidence}; {behind_full}");
            }
            let device = device + full;
            let unknown = (1.0 - device - kernel).max(0.0);
            let (unseen, device) = if unseen > 0.0 {
                (unknown, device)
            } else {
                (0.0, device + unknown)
            };
            vec![
                (Cause::Device, device, device_evidence + &behind_note),
                (Cause::KernelQueue, kernel, evidence),
                (
                    Cause::Unknown,
                    unseen,
                    undivided_text("the trace samples are too few and too short to catch bursts"),
                ),
            ]
        }
        Err(reason) => match outside_requests {
            Some(outside) => {
                let full = full.min(outside.fraction);
                // A share below [`OUTSIDE_MIN`] is no proof of time before the requests.
                let kernel = Some(outside.fraction - full)
                    .filter(|rest| *rest >= OUTSIDE_MIN)
                    .unwrap_or(0.0);
                let (behind_device, behind_kernel) = if full > kernel {
                    (&*behind_note, "")
                } else {
                    ("", &*behind_note)
                };
                vec![
                    (Cause::Device, full, behind_full + behind_device),
                    (Cause::KernelQueue, kernel, outside.evidence + behind_kernel),
                    (Cause::Unknown, 1.0 - full - kernel, undivided_text(&reason)),
                ]
            }
            None => vec![(Cause::Unknown, 1.0, undivided_text(&reason) + &behind_note)],
        },
    }
}

fn service_time_text(subject: &BlamedWindow<'_>) -> String {
    let slowly = subject.at(&subject.counts.service_over);
    match slowly {
        0 => format!(
            "{} on average",
            duration(subject.mean_ns(&subject.counts.slow.service_ns))
        ),
        _ => format!(
            "{} on average in {}",
            duration(subject.served_slowly_ns()),
            count(slowly, "operation")
        ),
    }
}

fn undivided_text(reason: &str) -> String {
    format!("in the device or in the kernel queue, which cannot be told apart because {reason}")
}

/// Describes the waits that are counted as service.
fn behind_text(subject: &BlamedWindow<'_>, shares: &CauseShares) -> String {
    if shares.behind_slow_ops <= 0.0 {
        return String::new();
    }
    let wait = duration(subject.mean_ns(&subject.counts.slow.wait_ns));
    format!(
        ", including {} spent waiting ({wait} on average) for slots that slow operations held",
        percent_whole(shares.behind_slow_ops)
    )
}

fn kind(subject: &BlamedWindow<'_>) -> Option<TraceKind> {
    let name = &subject.plan.streams[subject.group.stream].name;
    if name.contains("read") {
        Some(TraceKind::Read)
    } else if name.contains("write") {
        Some(TraceKind::Write)
    } else {
        None
    }
}

/// Service time that was spent outside all requests.
struct OutsideRequests {
    /// Lower bound of the time outside all requests, as a fraction of the service time of slow operations.
    fraction: f64,
    evidence: String,
}

impl OutsideRequests {
    /// `None` if the kernel's statistics are unknown, or do not include this program's operations.
    fn from_window(subject: &BlamedWindow<'_>) -> Option<Self> {
        let kind = kind(subject)?;
        let mut requests_ms = 0.0;
        let mut completed = 0.0;
        for device in subject.devices() {
            let requests = subject.blamer.device(&subject.steps, device).requests[kind as usize];
            requests_ms += requests.time_ms;
            completed += requests.completed;
        }
        let slow = &subject.counts.slow;
        let service_ns = subject
            .at(&slow.service_ns)
            .saturating_sub(subject.at(&slow.unseen_ns));
        let CellCounts { ops, overtime, .. } = &subject.counts;
        if service_ns == 0
            || completed <= 0.0
            || completed < ops.saturating_sub(*overtime) as f64 * COUNTED_MIN
        {
            return None;
        }
        // No interval has the requests that completed after the run's end: assume that they took as long as the others.
        requests_ms *= (*ops as f64 / completed).max(1.0);
        let fraction = (1.0 - requests_ms * 1e6 / service_ns as f64).max(0.0);
        let column = if kind == TraceKind::Read {
            "r_await"
        } else {
            "w_await"
        };
        let evidence = format!(
            "{} (lower bound) of the {} of service time passed before the kernel created requests, as under a cgroup's limit: \
             the kernel's statistics ({column}) show only {} for all requests",
            percent_whole(fraction),
            duration(service_ns),
            duration((requests_ms * 1e6) as u64)
        );
        Some(Self { fraction, evidence })
    }
}

struct SampleEstimate {
    traced: SampledRequests,
    /// Fraction of the operations slow in service that were slow because of the device alone.
    device: f64,
    /// Fraction of the operations slow in service for which the samples cannot show if they were slow within requests.
    unseen: f64,
    /// Sampling error: a smaller fraction proves nothing.
    noise: f64,
}

impl SampleEstimate {
    /// `Err` gives the reason why the samples allow no conclusion.
    fn from_window(subject: &BlamedWindow<'_>) -> Result<Self, String> {
        let kind = kind(subject).ok_or("the stream consists of neither reads nor writes")?;
        let mean_bytes = subject
            .counts
            .bytes
            .checked_div(subject.counts.ops)
            .unwrap_or(0);
        let size = TraceSize::from_bytes(mean_bytes);
        let mut traced = SampledRequests::default();
        let mut sampled_ops = SampledOps::default();
        let steps = subject
            .blamer
            .step_samples
            .iter()
            .take(subject.steps.end)
            .skip(subject.steps.start);
        for (samples, device) in
            steps.flat_map(|samples| subject.devices().map(move |device| (samples, device)))
        {
            traced.merge(&samples.traced(device, kind, size));
            if let Some(position) = subject.blamer.position(subject.group.stream, device) {
                sampled_ops.merge(&samples.touched(position));
            }
        }
        if traced.samples == 0 {
            return Err("no trace sample has requests of this stream".to_owned());
        }
        let slow = subject.at(&sampled_ops.service_over);
        if slow < SAMPLED_SLOW_MIN {
            let samples = count(traced.samples, "sample");
            return Err(match slow {
                0 => format!("no slow operation fell into the trace ({samples})"),
                _ => format!(
                    "only {} fell into the trace ({samples})",
                    count(slow, "slow operation")
                ),
            });
        }
        let sample_ms = traced.length_ms / traced.samples as f64;
        let slow_service_ns = subject.served_slowly_ns();
        if slow_service_ns as f64 / 1e6 * 2.0 > sample_ms {
            return Err(format!(
                "slow operations took {}, too long for trace samples of {sample_ms:.0} ms",
                duration(slow_service_ns)
            ));
        }
        let expected = traced.requests as f64 * slow as f64 / sampled_ops.ops.max(1) as f64;
        if expected < SAMPLED_SLOW_MIN as f64 {
            let samples = count(traced.samples, "sample");
            let s = if traced.samples == 1 { "s" } else { "" };
            return Err(format!(
                "{samples} of the trace hold{s} too few slow operations"
            ));
        }
        let device = (subject.at(&traced.device_over) as f64 / expected).min(1.0);
        let total = (subject.at(&traced.total_over) as f64 / expected).min(1.0);
        let covered = traced.length_ms / sampled_ops.length_ms.max(1.0);
        let missed = (1.0 - covered).max(0.0).powf(traced.samples as f64);
        let trusted = missed <= MISSED_MAX || traced.samples >= SAMPLES_MIN;
        let unseen = if trusted { 0.0 } else { (1.0 - total).max(0.0) };
        // Noise: two standard deviations of a random count, relative to the expected count.
        Ok(Self {
            traced,
            device,
            unseen,
            noise: 2.0 / expected.sqrt(),
        })
    }

    fn device_evidence(&self, subject: &BlamedWindow<'_>) -> String {
        let SampledRequests {
            samples,
            requests,
            device_p99_ns,
            ..
        } = self.traced;
        format!(
            "time from issue to completion: p99 up to {}, and over {} in {} of {} requests, in {}{}",
            duration(device_p99_ns),
            duration(subject.limit.threshold_ns),
            Grouped(subject.at(&self.traced.device_over)),
            Grouped(requests),
            count(samples, "sample"),
            self.lost()
        )
    }

    fn kernel_evidence(&self, subject: &BlamedWindow<'_>) -> String {
        let SampledRequests {
            samples,
            requests,
            queue_p99_ns,
            ..
        } = self.traced;
        format!(
            "time from block_bio_queue to block_rq_issue: p99 up to {}; {} of {} requests took over {} from block_bio_queue \
             to completion, in {}; the other time passed before block_bio_queue, or until this program saw the completion{}",
            duration(queue_p99_ns),
            Grouped(subject.at(&self.traced.total_over)),
            Grouped(requests),
            duration(subject.limit.threshold_ns),
            count(samples, "sample"),
            self.lost()
        )
    }

    fn lost(&self) -> String {
        match self.traced.lost {
            0 => String::new(),
            1 => " (1 event was lost)".to_owned(),
            lost => format!(" ({} events were lost)", Grouped(lost)),
        }
    }
}

/// Fraction of the slow operations' service time spent behind a full device, before they were requests; with evidence.
fn behind_full(subject: &BlamedWindow<'_>) -> Option<(f64, String)> {
    let slow = &subject.counts.slow;
    let service_ns = subject
        .at(&slow.service_ns)
        .saturating_sub(subject.at(&slow.unseen_ns));
    let mut behind_sec = 0.0;
    let mut device_sums = FullDeviceSums::default();
    for device in subject.devices() {
        let full = subject.blamer.device(&subject.steps, device).full;
        let Some(position) = subject.blamer.position(subject.group.stream, device) else {
            continue;
        };
        let meanwhile = subject
            .blamer
            .meanwhile(&subject.steps, position, subject.threshold);
        let beyond_requests_sec = meanwhile.full_service_ns as f64 / 1e9 - full.requests_sec;
        behind_sec += beyond_requests_sec.min(full.waited_sec_max).max(0.0);
        device_sums.merge(&full);
    }
    if service_ns == 0 || behind_sec <= 0.0 {
        return None;
    }
    let fraction = (behind_sec * 1e9 / service_ns as f64).min(1.0);
    let evidence = format!(
        "{} (upper bound) of the {} of service time passed before the kernel created requests, while the device held its \
         maximum of {} requests",
        percent_whole(fraction),
        duration(service_ns),
        Grouped(device_sums.requests_max),
    );
    Some((fraction, evidence))
}
