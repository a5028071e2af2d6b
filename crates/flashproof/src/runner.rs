//! One test from its configuration to its verdict, for whoever wants one: a command that runs a single
//! test, a certification with its stages, a search for the highest rating.
//!
//! It opens the devices anew for each run, so that the guard looks each time at what is there. It says
//! what concerns the run itself (warnings, progress); the page at the end is the caller's.

use crate::console;
use crate::devices::{Consents, Devices};
use crate::engine::{Engine, EngineFacts};
use crate::failure::Failure;
use crate::recording::{Options, Recording};
use crate::signals::Switch;
use device::observe::host::HostFacts;
use load::act::workload::{Choices, DeviceShape, Workload};
use load::act::{Model, Terms};
use load::run::{Control, Run, Settings};
use results::cell::Interval;
use results::finding::{Finding, Level};
use results::judge::{Sla, Verdict, round_sec, whole_slice_sec};
use results::run_dir::{ActLogHead, Config, Manifest, WorkloadRecord, check_usable};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

const NS_PER_SEC: u64 = 1_000_000_000;

/// How long a run goes on after its end for operations that are late or in flight, when max-lag-sec
/// sets no bound.
const DRAIN_NS: u64 = 10 * NS_PER_SEC;

/// Sees a run while it goes on, and can end it.
pub trait Watch {
    /// The run begins that `manifest` describes.
    fn begins(&mut self, manifest: &Manifest);

    /// An interval is over; gives a phrase that says what was seen once that is enough.
    fn interval(&mut self, interval: &Interval) -> Option<String>;
}

/// Nobody watches: the run lasts its time.
pub struct Unwatched;

impl Watch for Unwatched {
    fn begins(&mut self, _: &Manifest) {}

    fn interval(&mut self, _: &Interval) -> Option<String> {
        None
    }
}

/// What to run, and how.
pub struct RunRequest<'a> {
    /// The test.
    pub model: Model,
    /// Its configuration as it was written.
    pub text: String,
    /// Where to record it. Holds no run yet.
    pub dir: PathBuf,
    /// What the user allows to be written to.
    pub consents: Consents<'a>,
    /// The limits.
    pub sla: Sla,
    /// Length of a slice as wanted, seconds.
    pub slice_sec: u64,
    /// Length of a round; `None`: that of its slices, see [`round_sec`].
    pub round_sec: Option<u64>,
    /// Most I/O errors before it stops.
    pub max_errors: u64,
    /// What it is part of.
    pub part: Part,
    /// Do not tell progress.
    pub quiet: bool,
    /// Print ACT's log on standard output.
    pub act_log: bool,
    /// Sample the block layer's tracepoints, where that can be done.
    pub trace: bool,
}

/// What a run is part of, for its manifest. Of a single run: nothing.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Its name in the series: `stage 1`.
    pub purpose: Option<String>,
    /// Its load as a multiple of 1x.
    pub multiple: Option<f64>,
    /// What was found before the series; `None`: look again.
    pub findings: Option<Vec<Finding>>,
    /// What stands before each line of progress: `stage 2 of 4, ends about 14:05 UTC`.
    pub heading: Option<String>,
}

/// How a run came to an end of which there is a verdict.
pub enum Ended {
    /// It is recorded to its end.
    Recorded(Box<Verdict>),
    /// It ran, but could not be recorded to its end.
    Unrecorded {
        /// The verdict on what was seen.
        verdict: Box<Verdict>,
        /// Why it could not be recorded.
        failure: Failure,
    },
}

/// Runs the test. `watch` may end it early. A signal ends it by way of `switch`.
///
/// Errors: the run did not begin.
pub fn run(order: RunRequest<'_>, switch: &Switch, watch: &mut dyn Watch) -> Result<Ended, Failure> {
    let RunRequest {
        mut model,
        text,
        dir,
        consents,
        sla,
        slice_sec,
        round_sec: round,
        max_errors,
        part,
        quiet,
        act_log,
        trace,
    } = order;
    // Before anybody is asked what may be erased.
    check_usable(&dir).map_err(Failure::environment)?;
    let terms = model.terms();
    let seed = terms.seed.unwrap_or_else(fresh_seed);
    model.set_seed(seed);
    let findings = part.findings.unwrap_or_else(|| findings(&terms, &dir));
    let devices = Devices::open(&terms, &consents, model.test(), model.writes(), model.unit_bytes().into())?;
    let engine = Engine::choose(terms.engine, &devices)?;
    let cpus = cpus();
    let choices = Choices {
        seed,
        cpus,
        shards_max: engine.shards_max(cpus),
        in_flight_max: engine.in_flight_max(),
        thresholds_ns: sla.thresholds_ns(),
    };
    let shapes = devices.shapes();
    let workload = model.workload(&shapes, &choices).map_err(Failure::usage)?;
    let iops = workload.layout.streams.iter().map(|stream| stream.offered_iops).sum();
    let facts = EngineFacts::new(&engine, &terms, workload.shards.len(), iops);
    let control = Arc::new(Control::default());

    // The logs show what is in force.
    model.set_service_threads(terms.service_threads.unwrap_or(workload.record_slots));
    let (duration_sec, interval_sec) = (u64::from(terms.test_duration_sec), u64::from(terms.report_interval_sec));
    let slice_sec = whole_slice_sec(slice_sec, duration_sec, interval_sec);
    let manifest = Manifest {
        slice_sec,
        round_sec: round_sec(round, slice_sec, interval_sec),
        purpose: part.purpose,
        multiple: part.multiple,
        findings,
        ..manifest(text, sla, &model, &devices, &shapes, &workload)
    };
    let settings = settings(&terms, &facts, max_errors);
    let what = Run {
        layout: workload.layout.clone(),
        settings,
        interval_ns: interval_sec * NS_PER_SEC,
        control: control.clone(),
    };
    let _armed = switch.arm(vec![control.clone()]);
    let options = Options { quiet, heading: part.heading, act_log, trace, settings };
    let mut recording = Recording::new(dir, manifest, &devices, &facts, control, options, watch);
    match engine.run(&what, workload.shards, &devices, seed, &facts, &mut recording) {
        Ok(()) => {
            let end = recording.end();
            Ok(Ended::Recorded(Box::new(recording.finish(end)?)))
        }
        // Before the first interval there is nothing to judge.
        Err(error) if !recording.has_begun() => Err(error.into()),
        Err(error) => {
            let verdict = Box::new(recording.verdict_unrecorded(&error.to_string()));
            Ok(Ended::Unrecorded { verdict, failure: Failure::environment(error) })
        }
    }
}

/// What the doctor finds about the host and the devices of `terms`; nothing where they are simulated.
pub fn findings(terms: &Terms, dir: &Path) -> Vec<Finding> {
    if terms.is_simulated() {
        return Vec::new();
    }
    let findings = device::doctor::examine(Path::new("/"), &terms.device_names, Some(dir));
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    if problems + warnings > 0 {
        console::note(&format!(
            "doctor: {problems} problems, {warnings} warnings that may spoil the result - \"flashproof doctor {}\" shows \
             them, and so does the report",
            terms.device_names.join(" ")
        ));
    }
    findings
}

fn settings(terms: &Terms, facts: &EngineFacts, max_errors: u64) -> Settings {
    let max_lag_ns = u64::from(terms.max_lag_sec) * NS_PER_SEC;
    Settings {
        duration_ns: u64::from(terms.test_duration_sec) * NS_PER_SEC,
        max_lag_ns,
        errors_max: max_errors,
        pacing: facts.pacing(),
        drain_ns: if max_lag_ns == 0 { DRAIN_NS } else { max_lag_ns },
    }
}

fn manifest(
    text: String,
    sla: Sla,
    model: &Model,
    devices: &Devices,
    shapes: &[DeviceShape],
    workload: &Workload,
) -> Manifest {
    let terms = model.terms();
    Manifest {
        tool: tool(),
        command: command(),
        seed: terms.seed.unwrap_or_default(),
        workloads: vec![WorkloadRecord {
            name: String::new(),
            kind: model.test().name().to_owned(),
            config: Config {
                as_written: text,
                resolved: model.configuration(),
                derived: model.derived(),
                settings: model.settings(),
            },
            times_1x: model.times_1x(),
            not_comparable: model.not_comparable(),
            act_log: Some(ActLogHead {
                test: model.test(),
                device_lines: shapes.iter().map(|device| model.device_line(device)).collect(),
            }),
        }],
        duration_sec: terms.test_duration_sec.into(),
        report_interval_sec: terms.report_interval_sec.into(),
        simulated: terms.is_simulated(),
        device_facts: devices.facts(),
        process: device::observe::process::this_process(),
        // A record of plain values: it cannot fail, and what is not known is null.
        host_facts: serde_json::to_value(HostFacts::read(Path::new("/"))).unwrap_or_default(),
        ..Manifest::new(&workload.layout, sla)
    }
}

/// Program and version, for what is recorded.
pub fn tool() -> String {
    format!("flashproof {}", env!("CARGO_PKG_VERSION"))
}

/// The command line, for what is recorded.
pub fn command() -> Vec<String> {
    std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// A seed for a run that names none: it only has to differ from run to run, and is in the manifest.
/// Below 2^53, so that every reader of JSON gets it whole.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 & ((1 << 53) - 1)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}
