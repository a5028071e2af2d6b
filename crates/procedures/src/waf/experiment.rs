//! Tenants on a simulated drive in one arrangement.

use engine::sim::{DriveSpec, FtlDrive};
use ftl::Ftl;
use load::waf::{self, Arrangement, Experiment, Interleaving, Layout, WafError};
use load::workload::tenants::{self, Tenants};
use report::waf::{Arranged, Latency, Timed, Worn};
use results::cell::{Cell, StreamInfo};
use results::counts::Backlog;
use results::units;
use session::console;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval between progress messages.
const TOLD: Duration = Duration::from_secs(10);

/// Inputs of an experiment.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub tenants: Tenants,
    /// Description of the drive as given, and its parsed parts.
    pub on: String,
    pub base: DriveSpec,
    pub drive: FtlDrive,
    pub interleaving: Interleaving,
    pub seed: u64,
    pub fills_max: usize,
    /// True to measure the latencies of clients, too.
    pub timed: bool,
}

/// Runs one arrangement until it is steady. Returns the result, and a description of the drives.
pub(super) fn arrange(setup: &Setup, arrangement: Arrangement) -> Result<(Arranged, String), WafError> {
    let layout = Layout::new(arrangement, &setup.tenants, &setup.drive)?;
    let mut experiment = Experiment::new(&layout, setup.interleaving, setup.seed)?;
    let mut told = Instant::now();
    let counted = experiment.run(setup.fills_max, |found| {
        if told.elapsed() >= TOLD {
            told = Instant::now();
            let last = found.fills(found.rounds() - 1, found.rounds()).waf().unwrap_or(1.0);
            console::note(&format!(
                "{arrangement}: {}, WAF of the last {last:.2}",
                units::count(found.rounds() as u64, "drive fill")
            ));
        }
        true
    })?;
    let shapes = layout.drives.iter().zip(experiment.drives()).map(|(drive, ftl)| {
        format!(
            "{}: {} in {} superblocks of {}, {} over-provisioning, {} dies",
            drive.name,
            units::bytes(drive.drive.spec.logical_bytes as f64),
            ftl.superblocks(),
            units::bytes(drive.drive.spec.superblock_bytes as f64),
            units::percent(ftl.over_provisioning()),
            drive.drive.flash.dies_total()
        )
    });
    let shapes = shapes.collect::<Vec<_>>().join("; ");
    let erases = counted.drives.iter().zip(&layout.drives).map(|(drive, of)| {
        drive.octiles.iter().map(|octile| octile.erased).sum::<u64>() / of.drive.spec.superblock_bytes
    });
    let mut worn = BTreeMap::new();
    for (erases, superblocks) in experiment.drives().iter().flat_map(Ftl::erase_histogram) {
        *worn.entry(*erases).or_default() += superblocks;
    }
    let erase_histogram = worn.into_iter().map(|(erases, superblocks)| Worn { erases, superblocks }).collect();
    let timed = match counted.steady_after {
        Some(_) if setup.timed => Some(with_time(waf::timed(experiment, &layout, &setup.base, setup.seed)?)),
        _ => None,
    };
    let arranged = Arranged {
        erases: Some(erases.sum()),
        erase_histogram,
        ..Arranged::of(&arrangement.to_string(), counted, timed)
    };
    Ok((arranged, shapes))
}

/// Latencies of clients, and the amplification in the same time.
fn with_time(seen: waf::Timed) -> Timed {
    Timed {
        latencies: latencies(seen.streams.iter().map(|(stream, cell, end)| (stream, cell, *end)), seen.seconds),
        seconds: seen.seconds,
        drive_fills: seen.fills,
        device_waf: seen.bytes.waf(),
        ended_early: seen.ended.map(|cause| cause.to_string()),
    }
}

/// Latencies of client streams.
pub(super) fn latencies<'a>(
    streams: impl Iterator<Item = (&'a StreamInfo, &'a Cell, Backlog)>,
    seconds: f64,
) -> Vec<Latency> {
    let of = |(stream, cell, end): (&'a StreamInfo, &'a Cell, Backlog)| {
        Some(Latency::new(tenants::client_stream(&stream.name)?, cell, end, seconds))
    };
    streams.filter(|(_, cell, _)| cell.counts.wanted() > 0).filter_map(of).collect()
}
