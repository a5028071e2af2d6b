//! `flashproof waf`: write amplification of tenants with a drive each, on one drive, and with placement handles.
//!
//! * `experiment`: tenants on a simulated drive, without time
//! * `sweep`: the same with one assumption varied
//! * `measure`: the same on a real drive, which `drive` is, asked by `watched`
//! * `probe`: what a drive's firmware does with handles
//! * `setup`: the commands that give a real drive's namespace handles

mod drive;
mod experiment;
mod measure;
pub mod probe;
pub mod setup;
mod sweep;
mod watched;

use crate::args::{OnDriveArgs, RatedArgs, WafMeasureArgs, WafModelArgs};
use crate::commands::tenants;
use engine::DeviceName;
use engine::sim::{DriveSpec, FtlDrive};
use experiment::{Setup, arrange};
use load::waf::{Arrangement, Interleaving, Layout, WafError};
use load::workload::tenants::{Tenant, Tenants};
use report::comparison::Endurance;
use report::document::Pair;
use report::waf::{Arranged, FORMAT_VERSION, Timed, WafReport};
use results::units;
use results::waf::{OCTILES, steady_rule};
use session::console;
use session::failure::Failure;
use session::output_file::{check_page, write_page};
use std::process::ExitCode;

/// Seed where nobody names one: the same command gives the same result.
const SEED: u64 = 1;

/// What a column is called that stands beside a measured one.
const PREDICTED: &str = ", predicted";

/// Predicts what the tenants of a file come to on a simulated drive.
pub fn model(args: &WafModelArgs) -> Result<ExitCode, Failure> {
    let (tenants, _) = arranged_tenants(&args.on_drive)?;
    let on = args.on.clone().unwrap_or_else(|| default_drive(tenants.tenants.len()));
    if let DeviceName::Path(path) = on.parse::<DeviceName>().map_err(Failure::usage)? {
        return Err(Failure::usage(format!(
            "cannot model {} - it is a real drive - name a simulated one (sim:ftl), or measure this one: flashproof waf measure",
            units::quoted(&path)
        )));
    }
    let mut report = empty(&args.on_drive, &tenants);
    simulate(&args.on_drive, Some(args), tenants, on, &mut report)?;
    shown(&args.on_drive, report, Ok(0))
}

/// Measures what the tenants of a file come to on a real drive, with a prediction beside it if one is wanted.
pub fn measure(args: &WafMeasureArgs) -> Result<ExitCode, Failure> {
    let (tenants, text) = arranged_tenants(&args.on_drive)?;
    let DeviceName::Path(device) = args.on.parse::<DeviceName>().map_err(Failure::usage)? else {
        return Err(Failure::usage(format!(
            "cannot measure on {} - a simulated drive is modelled - use flashproof waf model --on",
            units::quoted(&args.on)
        )));
    };
    let mut report = empty(&args.on_drive, &tenants);
    let predicted = args.predict.as_ref().map(|on| predict(&args.on_drive, &tenants, on, &report)).transpose()?;
    let ended = measure::run(args, &device, &tenants, &text, &mut report);
    if let Some(predicted) = predicted.filter(|_| !report.arrangements.is_empty()) {
        report.arrangements.extend(predicted.arrangements);
        report.assumptions.extend(predicted.assumptions);
        report.remarks.extend(predicted.remarks);
    }
    // What was found before it ended is shown.
    if report.arrangements.is_empty() {
        return ended.map(ExitCode::from);
    }
    shown(&args.on_drive, report, ended)
}

/// The tenants of the file and its text, if an arrangement may decide on which drive each is.
fn arranged_tenants(args: &OnDriveArgs) -> Result<(Tenants, String), Failure> {
    let (tenants, text) = tenants::read(&args.tenants)?;
    if let Some(tenant) = tenants.tenants.iter().find(|tenant| tenant.device.is_some()) {
        return Err(Failure::usage(format!(
            "tenant {}: cannot use its device - an arrangement decides on which drive a tenant is - leave out device, and \
             name the drive by --on",
            units::quoted(&tenant.name)
        )));
    }
    if let Some(path) = &args.html {
        check_page(path)?;
    }
    Ok((tenants, text))
}

/// A report of `tenants` without an arrangement.
fn empty(args: &OnDriveArgs, tenants: &Tenants) -> WafReport {
    WafReport {
        format_version: FORMAT_VERSION,
        made_by: session::runner::tool(),
        tenants: args.tenants.display().to_string(),
        seed: args.seed.or(tenants.seed).unwrap_or(SEED),
        assumptions: Vec::new(),
        arrangements: Vec::new(),
        sweeps: Vec::new(),
        remarks: Vec::new(),
    }
}

/// Prints `report` and writes its page; the exit code is that of `ended`, or 4 where an arrangement was never steady.
fn shown(args: &OnDriveArgs, mut report: WafReport, ended: Result<u8, Failure>) -> Result<ExitCode, Failure> {
    report.remarks.extend(report.about_latencies());
    // Neither is lost because the other cannot be written.
    let shown = console::result(&if args.json { report.json().map_err(Failure::environment)? } else { report.text() });
    if let Some(path) = &args.html {
        write_page(path, &report.html())?;
    }
    shown?;
    let code = ended?;
    let never: Vec<_> = report.arrangements.iter().filter(|one| one.waf.is_none()).collect();
    for one in &never {
        console::warning(&format!(
            "{} was not steady within {} drive fills - a result before that is of no use - give it more (--max-fills, --duration)",
            one.arrangement,
            units::number(one.counted.octiles() as f64 / OCTILES as f64)
        ));
    }
    Ok(ExitCode::from(if never.is_empty() || code != 0 { code } else { 4 }))
}

/// The order of writes that `args` ask for.
fn interleaving(args: &WafModelArgs) -> Interleaving {
    let usual = Interleaving::default();
    Interleaving {
        command_bytes: args.command.unwrap_or(usual.command_bytes),
        in_flight: args.in_flight.unwrap_or(usual.in_flight),
    }
}

/// What `tenants` come to on the simulated drive `on`, each column and assumption marked as predicted, in a report like `empty`.
fn predict(args: &OnDriveArgs, tenants: &Tenants, on: &str, empty: &WafReport) -> Result<WafReport, Failure> {
    let mut report = empty.clone();
    simulate(args, None, tenants.clone(), on.to_owned(), &mut report)?;
    report.arrangements.iter_mut().for_each(|one| one.arrangement += PREDICTED);
    // What the tenants are is the same.
    report.assumptions.drain(..tenants.tenants.len());
    report.assumptions.iter_mut().for_each(|one| one.name += PREDICTED);
    Ok(report)
}

/// Adds to `report` what `tenants` come to on the simulated drive `on`, as usual or as `model` wants.
fn simulate(
    args: &OnDriveArgs,
    model: Option<&WafModelArgs>,
    tenants: Tenants,
    on: String,
    report: &mut WafReport,
) -> Result<(), Failure> {
    let (base, drive) = simulated(&on)?;
    let setup = Setup {
        seed: report.seed,
        base,
        drive,
        timed: model.is_none_or(|model| !model.no_latency),
        tenants,
        on,
        interleaving: model.map_or_else(Interleaving::default, interleaving),
        fills_max: usize::from(args.max_fills),
    };
    let sweeps = sweep::parsed(model.map_or(&[], |model| &model.sweep), &setup)?;
    let arrangements = chosen(&args.arrange, &setup);
    report.assumptions = assumptions(&setup);
    for arrangement in &arrangements {
        let (mut arranged, shape) = arrange(&setup, *arrangement).map_err(Failure::usage)?;
        arranged.years = years(&setup.tenants, &arranged, &args.rated);
        report.assumptions.push(Pair { name: format!("drives of {arrangement}"), value: shape });
        if let Some(timed) = &arranged.timed {
            let value = covered(timed);
            report.assumptions.push(Pair { name: format!("latencies of {arrangement}"), value });
        }
        report.arrangements.push(arranged);
    }
    report.remarks = remarks(report, &args.rated);
    report.sweeps = sweeps.iter().map(|one| sweep::run(one, &setup, &arrangements)).collect();
    Ok(())
}

/// A drive for so many tenants where none is named. Superblocks are a sixteenth of those of a large drive, so that there are as many, and
/// their erases take a sixteenth of the time.
fn default_drive(tenants: usize) -> String {
    format!(
        "sim:ftl+capacity=16GiB+op=7%+unit=32KiB+superblock=16MiB+erase-us=300+reserve=1+append=per-handle+isolation=persistently+handles={}",
        tenants.clamp(1, 128)
    )
}

/// The simulated drive of this description. Errors: it is a real one, or has no FTL.
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

/// Those that were asked for; else all that the drive has handles for.
fn chosen(asked: &[Arrangement], setup: &Setup) -> Vec<Arrangement> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    match Layout::new(Arrangement::Fdp, &setup.tenants, &setup.drive) {
        Err(error @ WafError::Handles { .. }) => {
            console::note(&format!("fdp is left out - {error}"));
            vec![Arrangement::Dedicated, Arrangement::Shared]
        }
        _ => Arrangement::ALL.to_vec(),
    }
}

/// What tenants are, in words.
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

/// What was assumed, in words.
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

/// What latencies are of.
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

fn rating(args: &RatedArgs) -> Option<Endurance> {
    args.tbw.map(Endurance::TerabytesWritten).or(args.dwpd.map(Endurance::DriveWritesPerDay))
}

/// Years until the media of one of the drives took what that drive is rated for; none where it was never steady. A
/// rating is that of all flash of the arrangement: each drive has its part of it.
fn years(tenants: &Tenants, arranged: &Arranged, args: &RatedArgs) -> Option<f64> {
    let drives = &arranged.counted.drives;
    let bytes: u64 = drives.iter().map(|drive| drive.logical_bytes).sum();
    let rated = rating(args)?.bytes(Some(bytes), args.warranty)?;
    let tenants = tenants.tenants.iter();
    let clients: f64 =
        tenants.map(|tenant| tenant.client_blocks().per_sec_f64() * f64::from(tenant.write_block_bytes)).sum();
    let media_a_day = clients * arranged.total_wa? * 86_400.0;
    let end = arranged.steady_after_fills?;
    let media = |drive: usize| arranged.counted.steady_bytes_of(drive, end).media as f64;
    let all: f64 = (0..drives.len()).map(media).sum();
    let of =
        |drive: usize| rated * drives[drive].logical_bytes as f64 / bytes as f64 / (media_a_day * media(drive) / all);
    (0..drives.len()).map(of).min_by(f64::total_cmp).map(|days| days / 365.0)
}

fn remarks(report: &WafReport, args: &RatedArgs) -> Vec<String> {
    let mut remarks = vec![
        "a prediction: consistent with a measurement if that comes out alike, and validated by none - real firmware \
         does things that no description has"
            .to_owned(),
    ];
    if report.arrangements.iter().any(|one| one.years.is_some()) {
        remarks.push(format!(
            "years: at the file's rates, against {} of the simulated capacity; the rating is taken as bytes that the media \
             takes, which is the least that it can mean (makers rate host writes at an amplification that they seldom say)",
            match (args.tbw, args.dwpd) {
                (Some(tb), _) => format!("{tb} TB written"),
                (_, Some(n)) => format!("{n} drive writes a day for {} years", args.warranty),
                _ => String::new(),
            }
        ));
    }
    remarks
}
