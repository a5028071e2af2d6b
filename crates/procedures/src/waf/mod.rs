//! Write amplification of tenants with a drive each, on one drive, and with placement handles.
//!
//! * `experiment`: tenants on a simulated drive, without time; with one assumption varied; preparations compared
//! * `measure`: tenants on a real drive (`drive`), observed during their run
//! * [`probe`]: how a drive's firmware treats handles

mod drive;
mod experiment;
mod measure;
pub mod probe;

pub use experiment::preparations;
pub use measure::Measurement;

use engine::DeviceName;
use engine::sim::{DriveSpec, FtlDrive};
use experiment::{Setup, arrange};
use load::waf::{Arrangement, Interleaving, Layout, with_handles};
use load::workload::tenants::{Tenant, Tenants};
use report::comparison::Endurance;
use report::document::Pair;
use report::waf::{Arranged, FORMAT_VERSION, Timed, WafReport};
use results::units;
use results::waf::steady_rule;
use session::failure::Failure;
use session::{console, runner};

/// Default seed: the same command gives the same result.
const SEED: u64 = 1;

/// Suffix of the name of a predicted column next to a measured one.
const PREDICTED: &str = ", predicted";

/// Question: which write amplification do these tenants cause?
#[derive(Debug, Clone)]
pub struct Question {
    /// Tenants without devices: the arrangement assigns drives.
    pub tenants: Tenants,
    /// Name of their file as given, and its text.
    pub file: String,
    pub text: String,
    /// Arrangements; empty: all that the drive supports.
    pub arrange: Vec<Arrangement>,
    /// Maximum number of drive fills of an arrangement that does not become steady.
    pub fills_max: usize,
    /// Seed of all random choices; `None`: the file's, or 1.
    pub seed: Option<u64>,
    pub rated: Rated,
}

/// Endurance rating of a drive.
#[derive(Debug, Clone, Copy)]
pub struct Rated {
    pub endurance: Option<Endurance>,
    /// Years for which drive writes per day are rated.
    pub warranty: f64,
}

/// A simulated drive for the tenants, and assumptions about the host.
#[derive(Debug, Clone)]
pub struct Model {
    /// The drive, `sim:ftl+...`; `None` for one of 16 GiB with a handle for each tenant.
    pub on: Option<String>,
    pub interleaving: Interleaving,
    /// True to measure the latencies of clients, too.
    pub timed: bool,
    /// Assumptions to vary, each NAME or NAME=VALUE:VALUE:...
    pub sweep: Vec<String>,
}

impl Model {
    /// The drive `on` with default assumptions.
    fn usual(on: &str) -> Self {
        Self { on: Some(on.to_owned()), interleaving: Interleaving::default(), timed: true, sweep: Vec::new() }
    }
}

impl Question {
    /// Answers by simulation.
    pub fn predict(&self, model: &Model) -> Result<WafReport, Failure> {
        let on = model.on.clone().unwrap_or_else(|| default_drive(self.tenants.tenants.len()));
        if let DeviceName::Path(path) = on.parse::<DeviceName>().map_err(Failure::usage)? {
            return Err(Failure::usage(format!(
                "cannot model {} - it is a real drive - name a simulated one (sim:ftl), or measure this one: flashproof waf measure",
                units::quoted(&path)
            )));
        }
        let mut report = self.report();
        self.simulate(model, on, &mut report)?;
        Ok(report)
    }

    /// Answers by measurement on a real drive. Returns what was found, and how the measurement ended: its exit code.
    /// `predicted`: a simulated drive whose answer is added for comparison.
    ///
    /// Errors: nothing was measured.
    pub fn measure(
        &self,
        measurement: &Measurement,
        predicted: Option<&str>,
    ) -> Result<(WafReport, Result<u8, Failure>), Failure> {
        let DeviceName::Path(device) = measurement.on.parse::<DeviceName>().map_err(Failure::usage)? else {
            return Err(Failure::usage(format!(
                "cannot measure on {} - a simulated drive is modelled - use flashproof waf model --device",
                units::quoted(&measurement.on)
            )));
        };
        let mut report = self.report();
        let predicted = predicted.map(|on| self.predicted(on, &report)).transpose()?;
        let ended = measure::run(self, measurement, &device, &mut report);
        if report.arrangements.is_empty() {
            return ended.map(|code| (report, Ok(code)));
        }
        if let Some(predicted) = predicted {
            report.arrangements.extend(predicted.arrangements);
            report.assumptions.extend(predicted.assumptions);
            report.remarks.extend(predicted.remarks);
        }
        Ok((report, ended))
    }

    /// An empty report.
    fn report(&self) -> WafReport {
        WafReport {
            format_version: FORMAT_VERSION,
            made_by: runner::tool(),
            tenants: self.file.clone(),
            seed: self.seed.or(self.tenants.seed).unwrap_or(SEED),
            assumptions: Vec::new(),
            arrangements: Vec::new(),
            sweeps: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Result of the tenants on the simulated drive `on`, with each column and assumption marked as predicted.
    fn predicted(&self, on: &str, empty: &WafReport) -> Result<WafReport, Failure> {
        let mut report = empty.clone();
        self.simulate(&Model::usual(on), on.to_owned(), &mut report)?;
        report.arrangements.iter_mut().for_each(|one| one.arrangement += PREDICTED);
        // The tenants' own assumptions are the same.
        report.assumptions.drain(..self.tenants.tenants.len());
        report.assumptions.iter_mut().for_each(|one| one.name += PREDICTED);
        Ok(report)
    }

    /// Adds to `report` the results of the tenants on the simulated drive `on`.
    fn simulate(&self, model: &Model, on: String, report: &mut WafReport) -> Result<(), Failure> {
        let (base, drive) = simulated(&on)?;
        let setup = Setup {
            seed: report.seed,
            base,
            drive,
            timed: model.timed,
            tenants: self.tenants.clone(),
            on,
            interleaving: model.interleaving,
            fills_max: self.fills_max,
        };
        let sweeps = experiment::parsed(&model.sweep, &setup)?;
        let arrangements = chosen(&self.arrange, &setup);
        report.assumptions = assumptions(&setup);
        for arrangement in &arrangements {
            let (mut arranged, shape) = arrange(&setup, *arrangement).map_err(Failure::usage)?;
            arranged.years = self.rated.years(&setup.tenants, &arranged);
            report.assumptions.push(Pair { name: format!("drives of {arrangement}"), value: shape });
            if let Some(timed) = &arranged.timed {
                let value = covered(timed);
                report.assumptions.push(Pair { name: format!("latencies of {arrangement}"), value });
            }
            report.arrangements.push(arranged);
        }
        report.remarks = remarks(report, &self.rated);
        report.sweeps = sweeps.iter().map(|one| experiment::swept(one, &setup, &arrangements)).collect();
        Ok(())
    }
}

/// Default drive for this number of tenants. Superblocks have a sixteenth of the size on a large drive, so that there
/// are as many, and their erases take a sixteenth of the time.
fn default_drive(tenants: usize) -> String {
    format!(
        "sim:ftl+capacity=16GiB+op=7%+unit=32KiB+superblock=16MiB+erase-us=300+reserve=1+append=per-handle+isolation=persistently+handles={}",
        tenants.clamp(1, 128)
    )
}

/// The simulated drive of this description. Errors: a real drive, or no FTL.
fn simulated(name: &str) -> Result<(DriveSpec, FtlDrive), Failure> {
    let device: DeviceName = name.parse().map_err(Failure::usage)?;
    match device.drive() {
        Some(drive) => match &drive.ftl {
            Some(ftl) => Ok((drive.clone(), ftl.clone())),
            None => Err(Failure::usage(format!(
                "cannot tell the amplification of {device} - it has no FTL inside - describe one: sim:ftl+..."
            ))),
        },
        None => {
            Err(Failure::usage(format!("{} is no simulated drive - describe one: sim:ftl+...", units::quoted(name))))
        }
    }
}

/// Requested arrangements; if none, all for which the drive has handles.
fn chosen(asked: &[Arrangement], setup: &Setup) -> Vec<Arrangement> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    // Other faults of the tenants are those of every arrangement, and told when the first is made.
    let is_possible = Layout::new(Arrangement::Shared, &setup.tenants, &setup.drive).is_ok();
    match with_handles(&setup.tenants, setup.drive.spec.handles) {
        Err(error) if is_possible => {
            console::note(&format!("fdp is left out - {error}"));
            vec![Arrangement::Dedicated, Arrangement::Shared]
        }
        _ => Arrangement::ALL.to_vec(),
    }
}

/// Description of the tenants.
fn assumed_of_tenants(tenants: &Tenants) -> Vec<Pair> {
    let of = |tenant: &Tenant| Pair {
        name: tenant.name.clone(),
        value: format!(
            "write block {} KiB, records of {} bytes, keys {}, fill {}, low-water mark {} %, free blocks reused {}, {} records \
             written a second",
            tenant.write_block_bytes >> 10,
            tenant.record_bytes,
            tenant.keys,
            units::percent_exact(tenant.fill),
            tenant.defrag_lwm_pct,
            tenant.reuse,
            units::number(tenant.writes.per_sec_f64()),
        ),
    };
    tenants.tenants.iter().map(of).collect()
}

/// Description of the assumptions.
fn assumptions(setup: &Setup) -> Vec<Pair> {
    let Interleaving { command_bytes, in_flight } = setup.interleaving;
    let mut pairs = assumed_of_tenants(&setup.tenants);
    let spec = &setup.drive.spec;
    pairs.extend([
        Pair {
            name: "drive".to_owned(),
            value: format!("{}; over-provisioning {}", setup.on, ftl::over_provisioning::Both(spec.over_provisioning)),
        },
        Pair {
            name: "order of writes".to_owned(),
            value: format!(
                "by the tenants' rates; blocks are split into commands of {} KiB, and {in_flight} blocks are written at once, a \
                 command of each in turn; what defragmentation writes follows the client's block that caused it",
                command_bytes >> 10
            ),
        },
        Pair {
            name: "start".to_owned(),
            value: "stores in use for long, on drives whose tenants' spaces were written once from end to end; no block is \
                    ever deallocated"
                .to_owned(),
        },
        Pair {
            name: "steady".to_owned(),
            value: steady_rule(),
        },
    ]);
    pairs
}

/// Description of what the latencies cover.
fn covered(timed: &Timed) -> String {
    let operations: u64 = timed.latencies.iter().map(|of| of.service.count).sum();
    format!(
        "of {} operations of clients in {} of virtual time, {} drive fills, beginning as it was when steady; open loop, from \
         their intended instants on",
        units::Grouped(operations),
        units::span_of(timed.seconds),
        units::number(timed.drive_fills)
    )
}

impl Rated {
    /// Years until the first drive reaches its rated media writes; none if the amplification was never steady. The
    /// rating is for all flash of the arrangement, and each drive has its share.
    fn years(&self, tenants: &Tenants, arranged: &Arranged) -> Option<f64> {
        let drives = &arranged.counted.drives;
        let bytes: u64 = drives.iter().map(|drive| drive.logical_bytes).sum();
        let rated = self.endurance?.bytes(Some(bytes), self.warranty)?;
        let tenants = tenants.tenants.iter();
        let clients: f64 =
            tenants.map(|tenant| tenant.client_blocks().per_sec_f64() * f64::from(tenant.write_block_bytes)).sum();
        let media_a_day = clients * arranged.total_wa? * 86_400.0;
        let end = arranged.steady_after_fills?;
        let media = |drive: usize| arranged.counted.steady_bytes_of(drive, end).media as f64;
        let all: f64 = (0..drives.len()).map(media).sum();
        let of = |drive: usize| {
            rated * drives[drive].logical_bytes as f64 / bytes as f64 / (media_a_day * media(drive) / all)
        };
        (0..drives.len()).map(of).min_by(f64::total_cmp).map(|days| days / 365.0)
    }
}

fn remarks(report: &WafReport, rated: &Rated) -> Vec<String> {
    let mut remarks = vec![
        "a prediction: consistent with a measurement if that comes out alike, and validated by none - real firmware \
         does things that no description has"
            .to_owned(),
    ];
    if report.arrangements.iter().any(|one| one.years.is_some()) {
        remarks.push(format!(
            "years: at the file's rates, against {} of the simulated capacity; the rating is taken as bytes that the media \
             takes, which is the least that it can mean (makers rate host writes at an amplification that they seldom say)",
            match rated.endurance {
                Some(Endurance::TerabytesWritten(tb)) => format!("{tb} TB written"),
                Some(Endurance::DriveWritesPerDay(n)) => format!("{n} drive writes a day for {} years", rated.warranty),
                None => String::new(),
            }
        ));
    }
    remarks
}
