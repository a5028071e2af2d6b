//! `flashproof storage`: one ACT storage test from its configuration to its verdict.

use crate::args::StorageArgs;
use crate::devices::Devices;
use crate::engine::{Engine, EngineFacts};
use crate::failure::Failure;
use crate::recording::{Options, Recording};
use crate::{say, signals};
use device::observe::host::HostFacts;
use load::act::parse::FILE_BYTES_MAX;
use load::act::workload::{Choices, DeviceShape, Workload};
use load::act::{Arrival, Derived, StorageConfig, derive, echo, parse_storage};
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

/// How the command behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The verdict on standard output and in the exit code.
    Verdict,
    /// ACT's log on standard output, exit code 0 on completion whatever the verdict.
    ActLog,
}

const NS_PER_SEC: u64 = 1_000_000_000;

/// How long a run goes on after its end for operations that are late or in flight, when max-lag-sec
/// sets no bound.
const DRAIN_NS: u64 = 10 * NS_PER_SEC;

/// Runs the test.
pub fn run(args: &StorageArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let (text, mut config) = read_config(args)?;
    let derived = derive(&config).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(|problem| format!("{}: {problem}", args.config.display())).collect();
        Failure::usage(lines.join("\n"))
    })?;
    if args.dry_run {
        say::result(&echo::blocks(&config, &derived))?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = args.out.clone().unwrap_or_else(default_dir);
    // Before anybody is asked what may be erased.
    check_usable(&dir).map_err(Failure::environment)?;
    let seed = *config.seed.get_or_insert_with(fresh_seed);
    let devices = Devices::open(&config, args, writes(&derived), derived.large_block_bytes.into())?;
    let engine = Engine::choose(config.engine, &devices)?;
    let cpus = cpus();
    let choices = Choices {
        seed,
        cpus,
        shards_max: engine.shards_max(cpus),
        in_flight_max: engine.in_flight_max(),
        thresholds_ns: args.sla.thresholds_ns(),
    };
    let shapes = devices.shapes();
    let workload = Workload::new(&config, &derived, &shapes, &choices).map_err(Failure::usage)?;
    let iops = workload.layout.streams.iter().map(|stream| stream.offered_iops).sum();
    let facts = EngineFacts::new(&engine, &config, workload.shards.len(), iops);
    let control = Arc::new(Control::default());
    signals::end_run_on_signal(control.clone())
        .map_err(|error| Failure::environment(format!("cannot listen for signals - {error}")))?;

    // The logs show what is in force.
    config.service_threads.get_or_insert(workload.record_slots);
    let manifest = manifest(args, text, &config, &derived, &devices, &shapes, &workload);
    let settings = settings(args, &config, &facts);
    let options = Options { quiet: args.quiet, act_log: manner == Manner::ActLog, settings };
    let what = Run {
        layout: workload.layout.clone(),
        settings,
        interval_ns: u64::from(config.report_interval_sec) * NS_PER_SEC,
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
        Manner::Verdict => ExitCode::from(verdict.outcome.exit_code()),
        Manner::ActLog => ExitCode::SUCCESS,
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
        Manner::Verdict => say::result(page),
        Manner::ActLog => {
            say::note(page);
            Ok(())
        }
    }
}

fn read_config(args: &StorageArgs) -> Result<(String, StorageConfig), Failure> {
    let path = &args.config;
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    // Named by mistake, a whole drive would be read otherwise; the parser refuses what is too long.
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::usage(format!("cannot read the configuration {name} - {error} - check the path")))?;
    let parsed = parse_storage(&name, &bytes).map_err(Failure::usage)?;
    for warning in &parsed.warnings {
        say::warning(&warning.to_string());
    }
    let mut config = parsed.config;
    if args.as_act {
        config.arrival = Arrival::Act;
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), config))
}

/// Whether the load writes at all. One that does not needs nobody's consent.
fn writes(derived: &Derived) -> bool {
    !derived.commit_write_rate.is_zero() || !derived.large_block_write_rate.is_zero()
}

fn settings(args: &StorageArgs, config: &StorageConfig, facts: &EngineFacts) -> Settings {
    let max_lag_ns = u64::from(config.max_lag_sec) * NS_PER_SEC;
    Settings {
        duration_ns: u64::from(config.test_duration_sec) * NS_PER_SEC,
        max_lag_ns,
        errors_max: args.max_errors,
        pacing: facts.pacing(),
        drain_ns: if max_lag_ns == 0 { DRAIN_NS } else { max_lag_ns },
    }
}

fn manifest(
    args: &StorageArgs,
    text: String,
    config: &StorageConfig,
    derived: &Derived,
    devices: &Devices,
    shapes: &[DeviceShape],
    workload: &Workload,
) -> Manifest {
    let duration_sec = u64::from(config.test_duration_sec);
    let report_interval_sec = u64::from(config.report_interval_sec);
    let block_bytes = u64::from(derived.large_block_bytes);
    let device_lines = shapes.iter().map(|device| {
        let (size_bytes, blocks) = (device.size_bytes, device.size_bytes / block_bytes);
        let min_io_bytes = device.min_io_bytes;
        format!(
            "{} size = {size_bytes} bytes, {blocks} large blocks, minimum IO size = {min_io_bytes} bytes",
            device.name
        )
    });
    Manifest {
        tool: format!("flashproof {}", env!("CARGO_PKG_VERSION")),
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        seed: config.seed.unwrap_or_default(),
        duration_sec,
        report_interval_sec,
        slice_sec: whole_slice_sec(args.slice, duration_sec, report_interval_sec),
        simulated: config.is_simulated(),
        act_device_lines: device_lines.collect(),
        config: Config {
            as_written: text,
            resolved: echo::configuration(config),
            derived: echo::derived(config, derived),
            settings: echo::settings(config),
        },
        device_facts: devices.facts(),
        // A record of plain values: it cannot fail, and what is not known is null.
        host_facts: serde_json::to_value(HostFacts::read(Path::new("/"))).unwrap_or_default(),
        ..Manifest::new(&workload.layout, args.sla.clone())
    }
}

/// Where a run is recorded when the user does not say: here, under the time and the process.
fn default_dir() -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    PathBuf::from(format!("flashproof-storage-{}-{}", now.replace(':', "-"), std::process::id()))
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
