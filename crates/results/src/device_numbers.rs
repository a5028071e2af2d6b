//! Shares, rates and percentiles of each device in a run on several devices.

use crate::cell::{Latencies, latencies};
use crate::counts::CellCounts;
use crate::judge::Sla;
use crate::run_dir::{HlogKind, Intervals, Run, RunDirError, each_window};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceNumbers {
    pub device: String,
    pub stream: String,
    /// For each threshold: the worst share of the complete slices, or of the incomplete slice if none is complete.
    pub shares: Vec<f64>,
    pub within_limits: bool,
    /// 99th percentile of service times, nanoseconds; `None` if nothing succeeded.
    pub service_p99_ns: Option<u64>,
    /// Operations per second that succeeded before the end of the run.
    pub achieved_iops: f64,
}

/// The numbers of every judged stream on every device of a run, ordered by stream, then by device. `names` are the
/// current names of the run's devices, in the order of the manifest: a drive can have another name in each run. Errors:
/// a table or the log of service times is missing or damaged.
pub fn device_numbers(run: &Run, names: &[&str]) -> Result<Vec<DeviceNumbers>, RunDirError> {
    let manifest = &run.manifest;
    let layout = manifest.layout();
    let mut totals = vec![CellCounts::default(); layout.cells()];
    let mut intervals = Intervals::open(&run.dir, manifest)?;
    while let Some(record) = intervals.next()? {
        totals
            .iter_mut()
            .zip(&record.counts.cells)
            .for_each(|(total, cell)| total.add(cell));
    }
    if let Some(damage) = intervals.damage() {
        return Err(RunDirError::Damaged {
            path: run.dir.clone(),
            why: damage.to_owned(),
        });
    }
    let mut service: Vec<Latencies> = vec![latencies(); layout.cells()];
    each_window(&run.dir, &layout, HlogKind::Service, |window| {
        // `add` fails if a log of another program contains a duration above `DURATION_MAX_NS`: the window is left out.
        let _ = service[window.cell].add(&window.histogram);
    })?;
    let devices = layout.devices.len();
    let judged = (0..layout.cells()).filter(|cell| layout.streams[cell / devices].judged);
    Ok(judged
        .map(|cell| {
            let stream = &layout.streams[cell / devices].name;
            let device = &layout.devices[cell % devices];
            let (shares, within_limits) = shares(run, stream, device);
            let total = &totals[cell];
            DeviceNumbers {
                device: names
                    .get(cell % devices)
                    .map_or_else(|| device.clone(), |name| (*name).to_owned()),
                stream: stream.clone(),
                shares,
                within_limits,
                service_p99_ns: (!service[cell].is_empty())
                    .then(|| service[cell].value_at_quantile(0.99)),
                achieved_iops: match run.verdict.ran_sec {
                    sec if sec > 0.0 => total.ops.saturating_sub(total.overtime) as f64 / sec,
                    _ => 0.0,
                },
            }
        })
        .collect())
}

/// Worst shares of a stream on a device, and true if none reaches its limit.
fn shares(run: &Run, stream: &str, device: &str) -> (Vec<f64>, bool) {
    let sla: &Sla = &run.manifest.sla;
    let mut worst = vec![0.0_f64; sla.limits().len()];
    let mut is_within_limits = true;
    let group = run
        .verdict
        .groups
        .iter()
        .find(|group| group.stream == stream && group.device.as_deref() == Some(device));
    let slices = group.map(|group| &group.slices[..]).unwrap_or_default();
    let none_complete = slices.iter().all(|slice| !slice.complete);
    for slice in slices
        .iter()
        .filter(|slice| (slice.complete || none_complete) && slice.scheduled > 0)
    {
        for ((worst, over), limit) in worst.iter_mut().zip(&slice.judged_over).zip(sla.limits()) {
            *worst = worst.max(*over as f64 / slice.scheduled as f64);
            is_within_limits &= !limit.is_exceeded(*over, slice.scheduled);
        }
    }
    (worst, is_within_limits)
}
