//! `flashproof storage` and `flashproof index`: one ACT test from its configuration to its verdict.

use crate::args::TestArgs;
use crate::commands::Manner;
use crate::devices::Devices;
use crate::engine::{Engine, EngineFacts};
use crate::failure::Failure;
use crate::recording::{Options, Recording};
use crate::{say, signals};
use device::observe::host::HostFacts;
use load::act::options::Test;
use load::act::parse::FILE_BYTES_MAX;
use load::act::workload::{Choices, DeviceShape, Workload};
use load::act::{Arrival, Model, Terms};
use load::run::{Control, Run, RunError, Settings};
use measure::judge::whole_slice_sec;
use measure::run_dir::{Config, Manifest, check_usable};
use report::summary::Summary;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

const NS_PER_SEC: u64 = 1_000_000_000;

/// How long a run goes on after its end for operations that are late or in flight, when max-lag-sec
/// sets no bound.
const DRAIN_NS: u64 = 10 * NS_PER_SEC;

/// Runs the test.
pub fn run(test: Test, args: &TestArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let (text, mut model) = read_config(test, args)?;
    if args.dry_run {
        say::result(&model.blocks())?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = args.out.clone().unwrap_or_else(|| default_dir(test));
    // Before anybody is asked what may be erased.
    check_usable(&dir).map_err(Failure::environment)?;
    let terms = model.terms();
    let seed = terms.seed.unwrap_or_else(fresh_seed);
    model.set_seed(seed);
    let devices = Devices::open(&terms, args, test, model.writes(), model.unit_bytes().into())?;
    let engine = Engine::choose(terms.engine, &devices)?;
    let cpus = cpus();
    let choices = Choices {
        seed,
        cpus,
        shards_max: engine.shards_max(cpus),
        in_flight_max: engine.in_flight_max(),
        thresholds_ns: args.sla.thresholds_ns(),
    };
    let shapes = devices.shapes();
    let workload = model.workload(&shapes, &choices).map_err(Failure::usage)?;
    let iops = workload.layout.streams.iter().map(|stream| stream.offered_iops).sum();
    let facts = EngineFacts::new(&engine, &terms, workload.shards.len(), iops);
    let control = Arc::new(Control::default());
    signals::end_run_on_signal(control.clone())
        .map_err(|error| Failure::environment(format!("cannot listen for signals - {error}")))?;

    // The logs show what is in force.
    model.set_service_threads(terms.service_threads.unwrap_or(workload.record_slots));
    let manifest = manifest(args, text, &model, &devices, &shapes, &workload);
    let settings = settings(args, &terms, &facts);
    let options = Options { quiet: args.quiet, act_log: manner == Manner::Act, settings };
    let what = Run {
        layout: workload.layout.clone(),
        settings,
        interval_ns: u64::from(terms.report_interval_sec) * NS_PER_SEC,
        control: control.clone(),
    };
    let mut recording = Recording::new(dir.clone(), manifest, &devices, &facts, control, options);
    match engine.run(&what, workload.shards, &devices, seed, &facts, &mut recording) {
        Ok(()) => {}
        // Before the first interval there is nothing to judge.
        Err(error) if !recording.has_begun() => return Err(error.into()),
        Err(error) => return unrecorded(recording, &error, manner),
    }
    let end = recording.end();
    let verdict = recording.finish(end)?;
    // From the directory, as anybody else will read it; what cannot be read back is no result.
    let summary = Summary::read(&dir).map_err(Failure::environment)?;
    let text = format!("\n{summary}\nrun directory: {}\n", dir.display());
    show(&text, manner)?;
    Ok(match manner {
        Manner::Own => ExitCode::from(verdict.outcome.exit_code()),
        Manner::Act => ExitCode::SUCCESS,
    })
}

/// The run could not be recorded to its end: says so, and what was seen until then.
fn unrecorded(recording: Recording<'_>, error: &RunError, manner: Manner) -> Result<ExitCode, Failure> {
    let verdict = recording.verdict_unrecorded(&error.to_string());
    show(&format!("\n{verdict}\n"), manner)?;
    Err(Failure::environment(error))
}

/// Shows the page at the end; beside ACT's log where that is the result.
fn show(page: &str, manner: Manner) -> Result<(), Failure> {
    match manner {
        Manner::Own => say::result(page),
        Manner::Act => {
            say::note(page);
            Ok(())
        }
    }
}

fn read_config(test: Test, args: &TestArgs) -> Result<(String, Model), Failure> {
    let path = &args.config;
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    // Named by mistake, a whole drive would be read otherwise; the parser refuses what is too long.
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::usage(format!("cannot read the configuration {name} - {error} - check the path")))?;
    let (mut model, warnings) = Model::parse(test, &name, &bytes).map_err(Failure::usage)?;
    for warning in &warnings {
        say::warning(&warning.to_string());
    }
    if args.as_act {
        model.set_arrival(Arrival::Act);
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), model))
}

fn settings(args: &TestArgs, terms: &Terms, facts: &EngineFacts) -> Settings {
    let max_lag_ns = u64::from(terms.max_lag_sec) * NS_PER_SEC;
    Settings {
        duration_ns: u64::from(terms.test_duration_sec) * NS_PER_SEC,
        max_lag_ns,
        errors_max: args.max_errors,
        pacing: facts.pacing(),
        drain_ns: if max_lag_ns == 0 { DRAIN_NS } else { max_lag_ns },
    }
}

fn manifest(
    args: &TestArgs,
    text: String,
    model: &Model,
    devices: &Devices,
    shapes: &[DeviceShape],
    workload: &Workload,
) -> Manifest {
    let terms = model.terms();
    let (duration_sec, report_interval_sec) =
        (u64::from(terms.test_duration_sec), u64::from(terms.report_interval_sec));
    Manifest {
        tool: format!("flashproof {}", env!("CARGO_PKG_VERSION")),
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        seed: terms.seed.unwrap_or_default(),
        test: model.test(),
        duration_sec,
        report_interval_sec,
        slice_sec: whole_slice_sec(args.slice, duration_sec, report_interval_sec),
        simulated: terms.is_simulated(),
        act_device_lines: shapes.iter().map(|device| model.device_line(device)).collect(),
        config: Config {
            as_written: text,
            resolved: model.configuration(),
            derived: model.derived(),
            settings: model.settings(),
        },
        device_facts: devices.facts(),
        // A record of plain values: it cannot fail, and what is not known is null.
        host_facts: serde_json::to_value(HostFacts::read(Path::new("/"))).unwrap_or_default(),
        ..Manifest::new(&workload.layout, args.sla.clone())
    }
}

/// Where a run is recorded when the user does not say: here, under the time and the process.
fn default_dir(test: Test) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    PathBuf::from(format!("flashproof-{}-{}-{}", test.name(), now.replace(':', "-"), std::process::id()))
}

/// A seed for a run that names none: it only has to differ from run to run, and is in the manifest.
/// Below 2^53, so that every reader of JSON gets it whole.
pub(super) fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 & ((1 << 53) - 1)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}
