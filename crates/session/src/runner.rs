//! Runs one test from its configuration to its verdict: a single test, a stage of a certification, or a step of a
//! search.
//!
//! The devices are opened again for each run, so that the guard examines them each time. The runner prints warnings
//! and progress; the caller prints the final page.

use crate::clock::fresh_seed;
use crate::console;
use crate::devices::{Consents, Devices};
use crate::engine::{Engine, EngineDemand, EngineFacts};
use crate::failure::Failure;
use crate::metrics::{Metrics, Publisher};
use crate::recording::{Recording, RecordingOptions, RunObserver};
use crate::signals::SignalHandler;
use device::doctor::IN_USE;
use device::guard::PREPARATION;
use device::observe::host::HostFacts;
use engine::DeviceName;
use load::rate::Rate;
use load::run::{RunConfig, Settings};
use load::workload::{BuildContext, RunPlan, RunSpec, Workload};
use results::finding::{Finding, Severity};
use results::format;
use results::judge::{Sla, Verdict, round_sec, stretched_slice, whole_slice_sec, window_step_sec};
use results::run_dir::{Manifest, RecordedConfig, WorkloadRecord, check_usable};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sys::process;

const NS_PER_SEC: u64 = 1_000_000_000;

/// Distance between the seeds of a run's workloads: odd, so that all differ (the golden section of 2^64).
const SEEDS_APART: u64 = 0x9e37_79b9_7f4a_7c15;

/// Limits beyond which a run ends as failed.
#[derive(Debug, Clone, Copy)]
pub struct FailureLimits {
    /// More failed operations than this stop the run; even one failed operation fails the run.
    pub max_errors: u64,
    /// After the end of the run, a device that completes no operation for this time is given up, seconds.
    pub hang_sec: u32,
    /// End a run as soon as it can only fail.
    pub stop_when_decided: bool,
}

impl FailureLimits {
    /// Limits with `max_errors` errors, and twice the kernel's default I/O timeout.
    pub const fn with_errors(max_errors: u64) -> Self {
        Self {
            max_errors,
            hang_sec: (load::run::HANG_NS / NS_PER_SEC) as u32,
            stop_when_decided: false,
        }
    }
}

impl Default for FailureLimits {
    fn default() -> Self {
        Self::with_errors(1_000)
    }
}

pub struct RunRequest<'a> {
    pub workloads: Vec<NamedWorkload>,
    /// Run directory. Must not hold a run yet.
    pub dir: PathBuf,
    pub consents: Consents<'a>,
    pub opened: Option<&'a OpenDevices>,
    pub sla: Sla,
    pub slice_sec: u64,
    /// Length of a round; `None`: derived from the length of a slice, see [`round_sec`].
    pub round_sec: Option<u64>,
    pub failure_limits: FailureLimits,
    /// Name in a series: `stage 1`.
    pub purpose: Option<String>,
    /// Load as a multiple of 1x.
    pub multiple: Option<f64>,
    /// Findings made before a series; `None`: host and devices are examined again.
    pub findings: Option<Vec<Finding>>,
    pub note: Option<String>,
    pub heading: Option<String>,
    pub quiet: bool,
    pub act_log: bool,
    pub trace: bool,
}

impl RunRequest<'_> {
    /// A run of `workloads` with defaults: default limits, slices of an hour, nothing to erase, no directory yet.
    pub fn new(workloads: Vec<NamedWorkload>) -> Self {
        Self {
            workloads,
            dir: PathBuf::new(),
            consents: Consents::erasing(&[]),
            opened: None,
            sla: Sla::default(),
            slice_sec: 3_600,
            round_sec: None,
            failure_limits: FailureLimits::default(),
            purpose: None,
            multiple: None,
            findings: None,
            note: None,
            heading: None,
            quiet: false,
            act_log: false,
            trace: true,
        }
    }
}

pub struct OpenDevices {
    pub devices: Devices,
    pub engine: Engine,
}

impl OpenDevices {
    pub fn open(
        spec: &RunSpec,
        workloads: &[&dyn Workload],
        consents: &Consents<'_>,
    ) -> Result<Self, Failure> {
        let devices = Devices::open(spec, workloads, consents)?;
        devices.use_page_cache(spec, workloads)?;
        let engine = Engine::choose(&EngineDemand::new(spec, workloads), &devices)?;
        Ok(Self { devices, engine })
    }
}

pub struct NamedWorkload {
    /// Name of the workload within the run; empty if the run has only one workload.
    pub name: String,
    pub workload: Box<dyn Workload>,
    pub text: String,
}

impl NamedWorkload {
    pub fn new(name: String, workload: impl Workload + 'static, text: String) -> Self {
        Self {
            name,
            workload: Box::new(workload),
            text,
        }
    }

    pub fn alone(workload: impl Workload + 'static, text: String) -> Vec<Self> {
        vec![Self::new(String::new(), workload, text)]
    }
}

/// End of a run that has a verdict.
pub enum RunOutcome {
    Recorded(Box<Verdict>),
    /// The run took place, but its record is incomplete.
    Unrecorded {
        verdict: Box<Verdict>,
        failure: Failure,
    },
}

impl RunOutcome {
    /// The verdict. Errors: the record is incomplete.
    pub fn recorded(self) -> Result<Box<Verdict>, Failure> {
        match self {
            Self::Recorded(verdict) => Ok(verdict),
            Self::Unrecorded { failure, .. } => Err(failure),
        }
    }
}

/// `observer` may end the run early; a signal ends it through `signal_handler`. Errors: the run did not begin.
pub fn run(
    request: RunRequest<'_>,
    signal_handler: &SignalHandler,
    observer: &mut dyn RunObserver,
) -> Result<RunOutcome, Failure> {
    let RunRequest {
        workloads,
        dir,
        sla,
        act_log,
        ..
    } = request;
    // The directory is checked before any question about erasing.
    check_usable(&dir).map_err(Failure::environment)?;
    let publisher = Publisher::from_environment()?;
    let specs: Vec<_> = workloads
        .iter()
        .map(|named| named.workload.spec())
        .collect();
    let spec = RunSpec::joined(&specs)
        .map_err(|why| Failure::usage(format!("cannot run these workloads together - {why}")))?;
    let slice_sec = length_of_slices(
        request.slice_sec,
        spec.duration_sec,
        spec.report_interval_sec,
        act_log,
    )?;
    let window_step_sec = if spec.aligned_slices {
        slice_sec
    } else {
        window_step_sec(slice_sec, spec.report_interval_sec)
    };
    let seed = spec.seed.unwrap_or_else(fresh_seed);
    let findings = request.findings.unwrap_or_else(|| findings(&spec, &dir));
    let opened_here;
    let OpenDevices { devices, engine } = match request.opened {
        Some(opened) => opened,
        None => {
            let loads: Vec<_> = workloads.iter().map(|named| &*named.workload).collect();
            opened_here = OpenDevices::open(&spec, &loads, &request.consents)?;
            &opened_here
        }
    };
    let (plan, records) = plan(workloads, &specs, engine, devices, seed, &sla)?;
    let streams = &plan.layout.streams;
    if let Some(stream) = streams
        .iter()
        .find(|stream| stream.offered_iops > Rate::MAX_PER_SEC)
    {
        return Err(Failure::usage(format!(
            "cannot run {} {} per second - the maximum is one per nanosecond, the resolution of the clock - lower the rate",
            format::number(stream.offered_iops),
            stream.name
        )));
    }
    let iops = streams
        .iter()
        .filter(|stream| !stream.commits)
        .map(|stream| stream.offered_iops)
        .sum();
    let synchronous = plan.shards.iter().filter(|shard| shard.synchronous).count();
    let facts = EngineFacts::new(engine, &spec, plan.shards.len(), synchronous, iops);

    let manifest = Manifest {
        tool: tool(),
        command: command(),
        seed,
        workloads: records,
        duration_sec: spec.duration_sec,
        operations: spec.operations,
        report_interval_sec: spec.report_interval_sec,
        slice_sec,
        window_step_sec,
        round_sec: round_sec(request.round_sec, slice_sec, spec.report_interval_sec),
        simulated: spec.is_simulated(),
        device_facts: devices.facts(),
        process: device::observe::process::this_process(),
        // This cannot fail, because the facts are plain values. Unknown values are null.
        host_facts: serde_json::to_value(HostFacts::read(Path::new("/"))).unwrap_or_default(),
        purpose: request.purpose,
        note: request.note,
        multiple: request.multiple,
        findings,
        ..Manifest::new(&plan.layout, sla)
    };
    let settings = Settings {
        duration_ns: (spec.duration_sec * NS_PER_SEC).saturating_add(spec.ramp_ns),
        max_lag_ns: spec.max_lag_sec * NS_PER_SEC,
        errors_max: request.failure_limits.max_errors,
        pacing: facts.pacing(),
        hang_ns: u64::from(request.failure_limits.hang_sec) * NS_PER_SEC,
        ramp_ns: spec.ramp_ns,
    };
    let config = RunConfig {
        layout: plan.layout,
        settings,
        interval_ns: spec.report_interval_sec * NS_PER_SEC,
        slice_ns: slice_sec * NS_PER_SEC,
        step_ns: window_step_sec * NS_PER_SEC,
        control: Arc::default(),
    };
    let _armed = signal_handler.arm(vec![config.control.clone()]);
    let options = RecordingOptions {
        quiet: request.quiet,
        heading: request.heading,
        act_log,
        stop_when_decided: request.failure_limits.stop_when_decided,
        trace: request.trace,
        metrics: publisher.map(|publisher| Metrics::new(publisher, &manifest, &dir)),
    };
    let mut recording = Recording::new(dir, manifest, devices, &facts, &config, options, observer);
    let run_result = engine.run(&config, plan.shards, devices, seed, &facts, &mut recording);
    recording.records_read = engine.take_records_read();
    match run_result {
        Ok(()) => {
            let end = recording.end();
            Ok(RunOutcome::Recorded(Box::new(recording.finish(end)?)))
        }
        // Nothing was recorded, so there is nothing to judge.
        Err(error) if !recording.has_begun() => Err(error.into()),
        Err(error) => {
            let verdict = Box::new(recording.verdict_unrecorded(&error.to_string()));
            Ok(RunOutcome::Unrecorded {
                verdict,
                failure: Failure::environment(error),
            })
        }
    }
}

/// Length of a run's slices, seconds; `requested_sec`: the requested length. Prints a note if the report interval makes
/// the slices longer. Errors: the slices would be more than a tenth longer; with `is_act_mode`, only a note.
pub fn length_of_slices(
    requested_sec: u64,
    duration_sec: u64,
    report_sec: u64,
    is_act_mode: bool,
) -> Result<u64, Failure> {
    match stretched_slice(requested_sec, duration_sec, report_sec) {
        Some(Err(why)) if !is_act_mode => {
            return Err(Failure::usage(format!("cannot judge this run - {why}")));
        }
        Some(Ok(what) | Err(what)) => console::note(&what),
        None => {}
    }
    Ok(whole_slice_sec(requested_sec, duration_sec, report_sec))
}

/// Plans the run of all `workloads` with `specs` on `devices`, and returns the records for the manifest.
fn plan(
    workloads: Vec<NamedWorkload>,
    specs: &[RunSpec],
    engine: &Engine,
    devices: &Devices,
    seed: u64,
    sla: &Sla,
) -> Result<(RunPlan, Vec<WorkloadRecord>), Failure> {
    let mut shapes = devices.shapes();
    // Workloads that share a device share its queue.
    for shape in &mut shapes {
        let names = specs.iter().flat_map(|spec| &spec.device_names);
        let sharers = names.filter(|name| name.as_str() == shape.name).count() as u32;
        shape.queue_requests = shape
            .queue_requests
            .map(|all| (all / sharers.max(1)).max(1));
    }
    let names = shapes.iter().map(|shape| shape.name.clone()).collect();
    let cpus = cpus();
    let workload_count = workloads.len() as u32;
    let mut plan = RunPlan::new(names, sla.thresholds_ns());
    let mut records = Vec::new();
    for (
        workload_index,
        (
            NamedWorkload {
                name,
                workload,
                text,
            },
            spec,
        ),
    ) in workloads.into_iter().zip(specs).enumerate()
    {
        let build_context = BuildContext {
            seed: seed.wrapping_add((workload_index as u64).wrapping_mul(SEEDS_APART)),
            cpus,
            shards_max: engine.shards_max(cpus),
            in_flight_max: engine.in_flight_max().map(|most| most / workload_count),
        };
        let workload_shapes: Vec<_> = spec
            .device_names
            .iter()
            .filter_map(|name: &DeviceName| {
                shapes
                    .iter()
                    .find(|shape| shape.name == name.as_str())
                    .cloned()
            })
            .collect();
        plan.begin(workload_index, &name);
        let record = workload
            .build(&workload_shapes, &build_context, &mut plan)
            .map_err(Failure::usage)?;
        let config = RecordedConfig {
            as_written: text,
            ..record.config
        };
        records.push(WorkloadRecord {
            name,
            config,
            ..record
        });
    }
    if engine.is_bare_ring() {
        // If the allowed CPUs are unknown, the kernel places the threads.
        plan.spread(&process::allowed_cpus().unwrap_or_default());
    }
    Ok((plan, records))
}

/// The doctor's findings about the host and the devices of `spec`; none for simulated devices.
pub fn findings(spec: &RunSpec, dir: &Path) -> Vec<Finding> {
    if spec.is_simulated() {
        return Vec::new();
    }
    // Files that the run will create cannot be examined yet. Missing devices are refused when they are opened.
    let existing_names: Vec<String> = spec
        .names()
        .into_iter()
        .filter(|name| Path::new(name).try_exists().unwrap_or(true))
        .collect();
    findings_about(&existing_names, dir)
}

pub fn findings_about(devices: &[String], dir: &Path) -> Vec<Finding> {
    let findings = device::doctor::examine(Path::new("/"), devices, Some(dir));
    let mut problems = 0;
    let mut warnings = 0;
    for Finding {
        check,
        level,
        device,
        finding,
        ..
    } in &findings
    {
        problems += u64::from(*level == Severity::Problem);
        warnings += u64::from(*level == Severity::Warning);
        let text = format!("{}: {finding}", device.as_deref().unwrap_or("this host"));
        match (check.as_str(), level) {
            // The guard reports devices that are in use.
            (IN_USE, _) => {}
            (_, Severity::Problem) => console::warning(&text),
            (PREPARATION, Severity::Warning) => console::note(&text),
            _ => {}
        }
    }
    if problems + warnings > 0 {
        console::note(&format!(
            "doctor: {}, {} that may spoil the result - \"{}\" and the report show them",
            format::count(problems, "problem"),
            format::count(warnings, "warning"),
            format!("flashproof doctor {}", devices.join(" ")).trim_end()
        ));
    }
    findings
}

/// Program and version, as runs record them.
pub fn tool() -> String {
    format!("flashproof {}", env!("CARGO_PKG_VERSION"))
}

/// The command line, as runs record it.
pub fn command() -> Vec<String> {
    std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}

pub fn cpus() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}
