//! Tenants on a simulated drive in one arrangement.

use engine::sim::{DriveSpec, FtlDrive};
use load::run::Cause;
use load::waf::{self, Arrangement, Experiment, Interleaving, Layout, WafError};
use load::workload::tenants::{self, Tenants};
use report::waf::{Arranged, Latency, Timed};
use results::units;

/// All that an experiment depends on.
#[derive(Debug, Clone)]
pub struct Setup {
    pub tenants: Tenants,
    /// The drive as it was named, and what that says.
    pub on: String,
    pub base: DriveSpec,
    pub drive: FtlDrive,
    pub interleaving: Interleaving,
    pub seed: u64,
    pub fills_max: usize,
    /// Whether what clients wait for is measured, too.
    pub timed: bool,
}

/// Runs one arrangement until it is steady; what came out, and what its drives are like.
pub fn arrange(setup: &Setup, arrangement: Arrangement) -> Result<(Arranged, String), WafError> {
    let layout = Layout::new(arrangement, &setup.tenants, &setup.drive)?;
    let mut experiment = Experiment::new(&layout, setup.interleaving, setup.seed)?;
    let counted = experiment.run(setup.fills_max, |_| true)?;
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
    let total = counted.total();
    let (waf, engine_wa) = (counted.steady_waf(), counted.engine_wa());
    let sum = |of: fn(&results::waf::TenantBytes) -> u64| counted.tenants.iter().map(of).sum();
    let erases = counted.drives.iter().zip(&layout.drives).map(|(drive, of)| {
        drive.octiles.iter().map(|octile| octile.erased).sum::<u64>() / of.drive.spec.superblock_bytes
    });
    let timed = match counted.steady_after {
        Some(_) if setup.timed => Some(with_time(waf::timed(experiment, &layout, &setup.base, setup.seed)?)),
        _ => None,
    };
    let arranged = Arranged {
        arrangement: arrangement.to_string(),
        client_bytes: sum(|tenant| tenant.client),
        defrag_bytes: sum(|tenant| tenant.defrag),
        media_bytes: total.media,
        erases: erases.sum(),
        engine_wa,
        waf,
        total_wa: waf.zip(engine_wa).map(|(drive, host)| drive * host),
        steady_after_fills: counted.steady_after,
        years: None,
        waf_by_drive: (0..counted.drives.len()).map(|drive| counted.steady_waf_of(drive)).collect(),
        counted,
        timed,
    };
    Ok((arranged, shapes))
}

/// What clients waited for.
fn with_time(seen: waf::Timed) -> Timed {
    let latencies = seen.streams.iter().filter_map(|(stream, cell)| {
        let (tenant, operation) = tenants::client_stream(&stream.name)?;
        Some(Latency {
            tenant: tenant.to_owned(),
            operation: operation.to_owned(),
            wanted_per_sec: cell.wanted() as f64 / seen.seconds,
            done_per_sec: (cell.ops - cell.overtime) as f64 / seen.seconds,
            service: (&cell.service).into(),
            wait: (&cell.wait).into(),
        })
    });
    Timed {
        latencies: latencies.collect(),
        seconds: seen.seconds,
        drive_fills: seen.fills,
        device_waf: seen.bytes.waf(),
        ended_early: seen.ended.map(|cause| match cause {
            Cause::Lag { lane, behind_ns, .. } => {
                format!("{lane} was {} behind what was intended", units::duration(behind_ns))
            }
            other => format!("{other:?}"),
        }),
    }
}
