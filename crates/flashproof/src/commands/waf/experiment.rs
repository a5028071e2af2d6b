//! Tenants on a simulated drive in one arrangement.

use engine::sim::FtlDrive;
use load::waf::{Arrangement, Experiment, Interleaving, Layout, WafError};
use load::workload::tenants::Tenants;
use report::waf::Arranged;
use results::units;

/// All that an experiment depends on.
#[derive(Debug, Clone)]
pub struct Setup {
    pub tenants: Tenants,
    /// The drive as it was named, and what that says.
    pub on: String,
    pub drive: FtlDrive,
    pub interleaving: Interleaving,
    pub seed: u64,
    pub fills_max: usize,
}

/// Runs one arrangement until it is steady; what came out, and what its drives are like.
pub fn arrange(setup: &Setup, arrangement: Arrangement) -> Result<(Arranged, String), WafError> {
    let layout = Layout::new(arrangement, &setup.tenants, &setup.drive.spec)?;
    let mut experiment = Experiment::new(&layout, setup.interleaving, setup.seed)?;
    let counted = experiment.run(setup.fills_max, |_| true)?;
    let shapes = layout.drives.iter().zip(experiment.drives()).map(|(drive, ftl)| {
        format!(
            "{}: {} in {} superblocks of {}, {} over-provisioning",
            drive.name,
            units::bytes(drive.spec.logical_bytes as f64),
            ftl.superblocks(),
            units::bytes(drive.spec.superblock_bytes as f64),
            units::percent(ftl.over_provisioning())
        )
    });
    let shapes = shapes.collect::<Vec<_>>().join("; ");
    let total = counted.total();
    let (waf, engine_wa) = (counted.steady_waf(), counted.engine_wa());
    let sum = |of: fn(&results::waf::TenantBytes) -> u64| counted.tenants.iter().map(of).sum();
    let erases =
        counted.drives.iter().zip(&layout.drives).map(|(drive, of)| {
            drive.octiles.iter().map(|octile| octile.erased).sum::<u64>() / of.spec.superblock_bytes
        });
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
    };
    Ok((arranged, shapes))
}
