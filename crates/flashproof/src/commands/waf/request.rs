//! Write amplification of tenants on dedicated drives, on a shared drive, and with placement handles.

use super::experiment::{self, Setup, arrange, assumed_of_tenants, simulated};
use crate::configuration::positive;
use clap::Args;
use engine::DeviceName;
use engine::sim::size_bytes;
use report::comparison::Endurance;
use report::document::Pair;
use report::waf::{Arranged, FORMAT_VERSION, Timed, WafReport};
use results::format;
use results::waf::steady_rule;
use session::failure::Failure;
use session::{console, runner};
use tenants::Tenants;
use tenants::waf::{Arrangement, Interleaving, TenantLayout, with_handles};

/// Default seed: the same command gives the same result.
const SEED: u64 = 1;

/// Suffix of the name of a predicted column next to a measured one.
const PREDICTED: &str = ", predicted";

#[derive(Debug, Clone)]
pub struct WafRequest {
    /// Tenants without devices: the arrangement assigns drives.
    pub tenants: Tenants,
    /// Name of the tenants' file as given, and the file's text.
    pub file: String,
    pub text: String,
    /// Arrangements; empty: all that the drive supports.
    pub arrange: Vec<Arrangement>,
    /// Maximum number of drive fills of an arrangement that does not become steady.
    pub fills_max: usize,
    /// Seed of all random choices; `None`: the file's, or 1.
    pub seed: Option<u64>,
    pub rating: EnduranceRating,
}

#[derive(Args, Debug, Clone, Copy)]
pub struct EnduranceRating {
    /// Rated drive writes per day
    #[arg(long, value_name = "N", value_parser = positive)]
    pub dwpd: Option<f64>,
    /// Rated terabytes written
    #[arg(long, value_name = "TB", value_parser = positive, conflicts_with = "dwpd")]
    pub tbw: Option<f64>,
    /// Years of warranty for which drive writes per day are rated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
}

/// A simulated drive for the tenants, and assumptions about the host.
#[derive(Args, Debug, Clone, Default)]
pub struct Model {
    /// The simulated drive: sim:ftl+... [default: 16 GiB with 7 % over-provisioning, 32 KiB units and a handle per
    /// tenant]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Writes of blocks are split into commands of this size (the kernel: queue/max_sectors_kb) [default: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = command)]
    pub command: Option<u32>,
    /// Number of blocks written at the same time; the drive takes one command of each block in turn [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub in_flight: Option<u32>,
    /// Do not measure clients' latencies; compute only write amplification and wear
    #[arg(long)]
    pub no_latency: bool,
    /// Vary assumptions one by one: op=7%:14.5%:28%,fill=40:50:60,handles=1:2:4; a name alone takes default values.
    /// Also lwm, record, keys, reuse, rates, command, in-flight and every parameter of the simulated drive
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sweep: Vec<String>,
}

fn command(text: &str) -> Result<u32, String> {
    let fits = |bytes: &u64| (4 << 10..=64 << 20).contains(bytes) && bytes.is_multiple_of(4 << 10);
    match size_bytes(text).filter(fits) {
        Some(bytes) => Ok(bytes as u32),
        None => Err("give a multiple of 4KiB up to 64MiB, such as 128KiB".to_owned()),
    }
}

impl WafRequest {
    pub fn predict(&self, model: &Model) -> Result<WafReport, Failure> {
        let drive_text = model
            .device
            .clone()
            .unwrap_or_else(|| default_drive(self.tenants.tenants.len()));
        if let DeviceName::Path(path) = drive_text.parse::<DeviceName>().map_err(Failure::usage)? {
            return Err(Failure::usage(format!(
                "cannot model {} - it is a real drive - name a simulated drive (sim:ftl), or measure this drive: \
                 flashproof waf measure",
                format::quoted(&path)
            )));
        }
        let mut report = self.report();
        report.predicted = true;
        self.simulate(model, drive_text, &mut report)?;
        Ok(report)
    }

    pub(super) fn report(&self) -> WafReport {
        WafReport {
            format_version: FORMAT_VERSION,
            made_by: runner::tool(),
            tenants: self.file.clone(),
            predicted: false,
            seed: self.seed.or(self.tenants.seed).unwrap_or(SEED),
            assumptions: Vec::new(),
            arrangements: Vec::new(),
            sweeps: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Result of the tenants on the simulated drive `drive_text`, with each column and assumption marked as predicted.
    pub(super) fn predicted(
        &self,
        drive_text: &str,
        empty: &WafReport,
    ) -> Result<WafReport, Failure> {
        let mut report = empty.clone();
        self.simulate(&Model::default(), drive_text.to_owned(), &mut report)?;
        report
            .arrangements
            .iter_mut()
            .for_each(|one| one.arrangement += PREDICTED);
        // Drop the tenants' own assumptions, which are the same in both reports.
        report.assumptions.drain(..self.tenants.tenants.len());
        report
            .assumptions
            .iter_mut()
            .for_each(|one| one.name += PREDICTED);
        Ok(report)
    }

    fn simulate(
        &self,
        model: &Model,
        drive_text: String,
        report: &mut WafReport,
    ) -> Result<(), Failure> {
        let (base, drive) = simulated(&drive_text)?;
        let defaults = Interleaving::default();
        let setup = Setup {
            seed: report.seed,
            base,
            drive,
            is_timed: !model.no_latency,
            tenants: self.tenants.clone(),
            drive_text,
            interleaving: Interleaving {
                command_bytes: model.command.unwrap_or(defaults.command_bytes),
                in_flight: model.in_flight.unwrap_or(defaults.in_flight),
            },
            fills_max: self.fills_max,
        };
        let sweeps = experiment::parsed(&model.sweep, &setup)?;
        let arrangements = chosen(&self.arrange, &setup);
        report.assumptions = assumptions(&setup);
        for arrangement in &arrangements {
            let (mut arranged, shape) = arrange(&setup, *arrangement).map_err(Failure::usage)?;
            arranged.years = self.rating.years(&setup.tenants, &arranged);
            report
                .assumptions
                .push(Pair::new(&format!("drives of {arrangement}"), shape));
            if let Some(timed) = &arranged.timed {
                report.assumptions.push(Pair::new(
                    &format!("latencies of {arrangement}"),
                    covered(timed),
                ));
            }
            report.arrangements.push(arranged);
        }
        report.remarks = remarks(report, &self.rating);
        report.sweeps = sweeps
            .iter()
            .map(|one| experiment::swept(one, &arrangements))
            .collect();
        Ok(())
    }
}

/// Default drive for this number of tenants. Its superblocks have a sixteenth of the size of a large drive's, so that
/// the default drive has as many superblocks as a large drive. An erase takes a sixteenth of the time.
fn default_drive(tenants: usize) -> String {
    format!(
        "sim:ftl+capacity=16GiB+op=7%+unit=32KiB+superblock=16MiB+erase-us=300+reserve=1+append=per-handle+isolation=persistently+handles={}",
        tenants.clamp(1, 128)
    )
}

/// Requested arrangements; if none, all for which the drive has handles.
fn chosen(requested: &[Arrangement], setup: &Setup) -> Vec<Arrangement> {
    if !requested.is_empty() {
        return requested.to_vec();
    }
    // An error that also occurs without handles concerns every arrangement, so the first arrangement reports the error.
    let is_possible = TenantLayout::new(Arrangement::Shared, &setup.tenants, &setup.drive).is_ok();
    match with_handles(&setup.tenants, setup.drive.spec.handles) {
        Err(error) if is_possible => {
            console::note(&format!("fdp is left out - {error}"));
            vec![Arrangement::Dedicated, Arrangement::Shared]
        }
        _ => Arrangement::ALL.to_vec(),
    }
}

fn assumptions(setup: &Setup) -> Vec<Pair> {
    let Interleaving {
        command_bytes,
        in_flight,
    } = setup.interleaving;
    let mut pairs = assumed_of_tenants(&setup.tenants);
    let spec = &setup.drive.spec;
    let over_provisioning = ftl::over_provisioning::BothConventions(spec.over_provisioning);
    let order = format!(
        "by the tenants' rates; blocks are split into commands of {} KiB, and {in_flight} blocks are written at once, \
         one command of each block in turn; blocks of defragmentation follow the client's block that caused them",
        command_bytes >> 10
    );
    let start = "stores in long use, on drives whose tenants' spaces were written once from end to end; no block is \
                 ever deallocated";
    pairs.extend([
        Pair::new(
            "drive",
            format!(
                "{}; over-provisioning {over_provisioning}",
                setup.drive_text
            ),
        ),
        Pair::new("order of writes", order),
        Pair::new("start", start.to_owned()),
        Pair::new("steady", steady_rule()),
    ]);
    pairs
}

/// Description of the operations and the time that the latencies cover.
fn covered(timed: &Timed) -> String {
    let operations: u64 = timed.latencies.iter().map(|of| of.service.count).sum();
    format!(
        "of {} client operations (open loop, timed from their scheduled times) in {} of virtual time ({} drive fills), \
         beginning in the steady state",
        format::Grouped(operations),
        format::span_of(timed.seconds),
        format::number(timed.drive_fills)
    )
}

impl EnduranceRating {
    fn endurance(&self) -> Option<Endurance> {
        self.tbw
            .map(Endurance::TerabytesWritten)
            .or(self.dwpd.map(Endurance::DriveWritesPerDay))
    }

    /// Years until the first drive reaches its rated media writes; `None` without a rating, or if the amplification
    /// was never steady. The rating is for all flash of the arrangement, divided among its drives.
    pub(super) fn years(&self, tenants: &Tenants, arranged: &Arranged) -> Option<f64> {
        let drives = &arranged.counted.drives;
        let bytes: u64 = drives.iter().map(|drive| drive.logical_bytes).sum();
        let rated_bytes = self.endurance()?.bytes(Some(bytes), self.warranty)?;
        let tenants = tenants.tenants.iter();
        let clients: f64 = tenants
            .map(|tenant| {
                tenant.client_blocks().per_sec_f64() * f64::from(tenant.write_block_bytes)
            })
            .sum();
        let media_a_day = clients * arranged.total_wa? * 86_400.0;
        let end = arranged.steady_after_fills?;
        let media = |drive: usize| arranged.counted.steady_bytes_of(drive, end).media as f64;
        let total_media: f64 = (0..drives.len()).map(media).sum();
        (0..drives.len())
            .map(|drive: usize| {
                rated_bytes * drives[drive].logical_bytes as f64
                    / bytes as f64
                    / (media_a_day * media(drive) / total_media)
            })
            .min_by(f64::total_cmp)
            .map(|days| days / 365.0)
    }
}

fn remarks(report: &WafReport, rating: &EnduranceRating) -> Vec<String> {
    let mut remarks = vec![
        "this is a prediction that no measurement has validated - real firmware behaves in ways that the model does \
         not describe"
            .to_owned(),
    ];
    if report.arrangements.iter().any(|one| one.years.is_some()) {
        remarks.push(format!(
            "years: time until media writes at the file's rates use up the rated endurance ({} for the simulated \
             capacity). This is pessimistic: manufacturers rate host writes, at a write amplification that they seldom \
             state",
            match rating.endurance() {
                Some(Endurance::TerabytesWritten(tb)) => format!("{tb} TB written"),
                Some(Endurance::DriveWritesPerDay(n)) =>
                    format!("{n} drive writes per day for {} years", rating.warranty),
                None => String::new(),
            }
        ));
    }
    remarks
}
