//! `flashproof waf`: write amplification, modelled and measured, and how a drive treats placement handles.

use super::forms;
use crate::args::{OnDriveArgs, WafMeasureArgs, WafModelArgs, WafPrepArgs, WafProbeArgs};
use load::waf::Interleaving;
use procedures::configuration::read_tenants;
use procedures::prep::RandomWrites;
use procedures::waf::{Measurement, Model, Question, preparations, probe};
use report::waf::WafReport;
use results::units;
use results::waf::OCTILES;
use session::console;
use session::failure::Failure;
use session::output_file::{check_page, write_file, write_page};
use session::place::default_dir;
use std::process::ExitCode;

/// Predicts the write amplification of a file's tenants on a simulated drive.
pub fn model(args: &WafModelArgs) -> Result<ExitCode, Failure> {
    let usual = Interleaving::default();
    let model = Model {
        on: args.device.clone(),
        interleaving: Interleaving {
            command_bytes: args.command.unwrap_or(usual.command_bytes),
            in_flight: args.in_flight.unwrap_or(usual.in_flight),
        },
        timed: !args.no_latency,
        sweep: args.sweep.clone(),
    };
    let report = question(&args.on_drive)?.predict(&model)?;
    shown(&args.on_drive, report, Ok(0))
}

/// Measures the write amplification of a file's tenants on a real drive, with a prediction next to it if requested.
pub fn measure(args: &WafMeasureArgs) -> Result<ExitCode, Failure> {
    let measurement = Measurement {
        on: args.device.clone(),
        duration: args.duration,
        erase: args.erase.clone(),
        dir: args.out.clone().unwrap_or_else(|| default_dir("waf")),
    };
    let (report, ended) = question(&args.on_drive)?.measure(&measurement, args.predict.as_deref())?;
    if report.arrangements.is_empty() {
        return ended.map(ExitCode::from);
    }
    // Results before an early end are shown.
    shown(&args.on_drive, report, ended)
}

/// Compares preparations for random writes on a simulated drive.
pub fn prep(args: &WafPrepArgs) -> Result<ExitCode, Failure> {
    let ours = RandomWrites { over_provisioning: args.over_provisioning.0, block_bytes: args.block, cache_bytes: None };
    if let Some(page) = &args.form.html {
        check_page(page)?;
    }
    let found = preparations(&args.device, &ours, args.seed)?;
    forms::show(&args.form, || found.html(), || report::json(&found), || found.markdown(), || found.text())?;
    Ok(ExitCode::SUCCESS)
}

/// Probes how a drive, simulated or real, treats placement handles.
pub fn probe(args: &WafProbeArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.out {
        // Checked before hours are spent.
        write_file("result", path, None, args.force)?;
    }
    let (report, ended) = probe::run(&args.device, args.seed, &args.erase)?;
    let json = serde_json::to_string_pretty(&report).map_err(Failure::environment)? + "\n";
    // If one output fails, the other must still be written: it may hold hours of work.
    let kept = args.out.as_ref().map_or(Ok(()), |path| write_file("result", path, Some(&json), args.force));
    console::result(&if args.json { json } else { report.text() })?;
    kept?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// The question about a file's tenants, if they leave the choice of drives to the arrangement.
fn question(args: &OnDriveArgs) -> Result<Question, Failure> {
    let (tenants, text) = read_tenants(&args.tenants)?;
    if let Some(tenant) = tenants.tenants.iter().find(|tenant| tenant.device.is_some()) {
        return Err(Failure::usage(format!(
            "tenant {}: cannot use its device - an arrangement decides on which drive a tenant is - leave out device, and \
             name the drive by --device",
            units::quoted(&tenant.name)
        )));
    }
    if let Some(path) = &args.html {
        check_page(path)?;
    }
    Ok(Question {
        tenants,
        file: args.tenants.display().to_string(),
        text,
        arrange: args.arrange.clone(),
        fills_max: args.max_fills.into(),
        seed: args.seed,
        rated: args.rated.rated(),
    })
}

/// Prints `report` and writes its page. Returns the exit code of `ended`, or 4 if an arrangement was never steady.
fn shown(args: &OnDriveArgs, mut report: WafReport, ended: Result<u8, Failure>) -> Result<ExitCode, Failure> {
    report.remarks.extend(report.about_latencies());
    // If one output fails, the other is still written.
    let shown =
        console::result(&if args.json { report::json(&report).map_err(Failure::environment)? } else { report.text() });
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
