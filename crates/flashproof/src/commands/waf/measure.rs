//! Tenants on a real drive: one arrangement after another, each from the same state of the drive.
//!
//! ```text
//! all deallocated -> each space written once -> the load, open loop, in the run loop -> steady, or an early end
//!                                               counters read after each eighth of a drive fill
//! ```
//!
//! The load is that of `flashproof storage tenants`, with a run directory for each arrangement. An observer of the run
//! polls the drive's counters, and ends the run in the steady state.

use super::drive::MeasuredDrive;
use super::experiment::{assumed_of_tenants, latencies};
use super::request::WafRequest;
use crate::record::EraseArgs;
use clap::Args;
use device::guard::Records;
use engine::DeviceName;
use load::run::{
    Control, EndCause, FailedOperation as FailedOp, RunConfig, Settings, Sink, SinkError,
};
use load::workload::{BuildContext, RunPlan, RunSpec, Workload};
use report::document::Pair;
use report::waf::{Arranged, Timed, WafReport};
use results::cell::{Cell, Interval, Layout};
use results::counts::Backlog;
use results::format::{self, bytes, seconds};
use results::judge::End;
use results::run_dir::{Manifest, check_usable};
use results::steady::ROUNDS_IN_WINDOW;
use results::waf::{ArrangementResult, TenantBytes, steady_rule};
use session::devices::{Consents, Devices, ERASE_VARIABLE};
use session::engine::{Engine, EngineDemand, EngineFacts};
use session::failure::Failure;
use session::progress::WriteProgress;
use session::recording::RunObserver;
use session::run_directory::default_dir;
use session::runner::{self, NamedWorkload, RunRequest};
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenants::waf::{Arrangement, MeasurementEnd, Meter};
use tenants::{TenantFill, TenantLoad, Tenants};

/// Maximum fraction of host writes that may come from other programs.
const OTHERS: f64 = 0.02;

/// A measurement on a real drive, which is erased.
#[derive(Args, Debug)]
pub struct Measurement {
    /// Drive that counts its media writes: it is ERASED
    #[arg(long, value_name = "DEVICE")]
    pub device: String,
    /// Also predict the result for this simulated drive, for comparison: sim:ftl+...
    #[arg(long, value_name = "DEVICE")]
    pub predict: Option<String>,
    /// Give up after this time, for each arrangement: 8h, 30m, or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<u32>,
    #[command(flatten)]
    pub consent: EraseArgs,
    /// Parent of the run directories, one for each arrangement [default: flashproof-results/waf-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl WafRequest {
    /// Measures on a real drive. Returns the results and the exit code. Errors: nothing was measured.
    pub fn measure(
        &self,
        measurement: &Measurement,
    ) -> Result<(WafReport, Result<u8, Failure>), Failure> {
        let DeviceName::Path(device) = measurement
            .device
            .parse::<DeviceName>()
            .map_err(Failure::usage)?
        else {
            return Err(Failure::usage(format!(
                "cannot measure on {} - it is a simulated drive - use flashproof waf model --device",
                format::quoted(&measurement.device)
            )));
        };
        let mut report = self.report();
        let predicted = measurement
            .predict
            .as_ref()
            .map(|on| self.predicted(on, &report))
            .transpose()?;
        let result = measure_arrangements(self, measurement, &device, &mut report);
        if report.arrangements.is_empty() {
            return result.map(|code| (report, Ok(code)));
        }
        if let Some(predicted) = predicted {
            report.arrangements.extend(predicted.arrangements);
            report.assumptions.extend(predicted.assumptions);
            report.remarks.extend(predicted.remarks);
        }
        Ok((report, result))
    }
}

/// Measures the tenants of `waf_request` on the drive at `path`, and adds each result to `report` when it arrives.
/// Returns the exit code, or why the measurement ended early.
fn measure_arrangements(
    waf_request: &WafRequest,
    measurement: &Measurement,
    path: &str,
    report: &mut WafReport,
) -> Result<u8, Failure> {
    let tenants = &waf_request.tenants;
    let drive = MeasuredDrive::from_path(path, tenants)?;
    let plans = arrangements(&waf_request.arrange, &drive, tenants)?;
    if measurement.consent.erase.is_empty() && std::env::var_os(ERASE_VARIABLE).is_none() {
        return Err(Failure::usage(format!(
            "cannot measure on {path} without --erase - the device is opened before each of {}, hours apart, and nobody \
             may be there to consent - give --erase with the serial number of the drive",
            format::count(2 * plans.len() as u64, "step")
        )));
    }
    let pace = drive.pace(waf_request.fills_max)?;
    let dir = measurement
        .out
        .clone()
        .unwrap_or_else(|| default_dir("waf"));
    let dirs: Vec<PathBuf> = plans
        .iter()
        .map(|(arrangement, _)| dir.join(arrangement.to_string()))
        .collect();
    for dir in &dirs {
        check_usable(dir).map_err(Failure::environment)?;
    }
    report.remarks = drive.remarks();
    console::notice(&pace.describe(&drive, plans.len(), measurement.duration));
    report.assumptions = assumed_of_tenants(tenants);
    report.assumptions.extend(drive.about());
    report.assumptions.push(Pair::new("steady", steady_rule()));
    let signal_handler = SignalHandler::install(
        "the results so far are in the run directory",
        CompatMode::Native,
    )?;
    let control = Arc::new(Control::default());
    let mut code = 0;
    for ((arrangement, mut tenants), dir) in plans.into_iter().zip(dirs) {
        tenants.seed = Some(report.seed);
        tenants.duration_sec = measurement.duration.unwrap_or(pace.seconds_max);
        // A signal between two runs also ends the measurement and keeps its results.
        let armed = signal_handler.arm(vec![control.clone()]);
        let drive = &drive;
        let signal_handler = &signal_handler;
        let control = &control;
        let arrangement_run = ArrangementRun {
            waf_request,
            measurement,
            drive,
            arrangement,
            tenants: &tenants,
            dir: &dir,
            signal_handler,
            control,
        };
        let (mut arranged, exit_code) = arrangement_run.run(report)?;
        arranged.years = waf_request.rating.years(&tenants, &arranged);
        code = code.max(exit_code);
        report.arrangements.push(arranged);
        drop(armed);
        if let Some(signal) = signal_handler.signal_received() {
            report.remarks.push(format!(
                "ended by {} - the remaining arrangements were not run",
                session::signals::name(signal)
            ));
            return Ok(4);
        }
    }
    Ok(code)
}

/// Arrangements to run, with the tenants' handles. Errors: a requested arrangement is impossible.
fn arrangements(
    requested: &[Arrangement],
    drive: &MeasuredDrive,
    tenants: &Tenants,
) -> Result<Vec<(Arrangement, Tenants)>, Failure> {
    let is_unrestricted = requested.is_empty();
    let mut plans = Vec::new();
    for arrangement in if is_unrestricted {
        &Arrangement::ALL[..]
    } else {
        requested
    } {
        match drive.arranged(*arrangement, tenants) {
            Ok(tenants) => plans.push((*arrangement, tenants)),
            Err(why) if is_unrestricted => {
                console::note(&format!("{arrangement} is left out - {why}"))
            }
            Err(why) => {
                return Err(Failure::usage(format!(
                    "cannot run {arrangement} on {} - {why}",
                    drive.facts.path
                )));
            }
        }
    }
    Ok(plans)
}

struct ArrangementRun<'a> {
    waf_request: &'a WafRequest,
    measurement: &'a Measurement,
    drive: &'a MeasuredDrive,
    arrangement: Arrangement,
    tenants: &'a Tenants,
    dir: &'a Path,
    signal_handler: &'a SignalHandler,
    /// Control for a signal between two runs, or while the spaces are written.
    control: &'a Arc<Control>,
}

impl ArrangementRun<'_> {
    fn consents(&self) -> Consents<'_> {
        Consents::erasing(&self.measurement.consent.erase)
    }

    fn run(&self, report: &mut WafReport) -> Result<(Arranged, u8), Failure> {
        let device = DeviceName::Path(self.drive.facts.path.clone());
        let loads = TenantLoad::all(self.tenants.clone(), Some(&device)).map_err(Failure::usage)?;
        self.fill(loads.iter().cloned().map(TenantFill).collect())?;
        let workloads = loads.into_iter().map(|load| {
            let name = load.tenant().name.clone();
            NamedWorkload::new(name, load, self.waf_request.text.clone())
        });
        let request = RunRequest {
            dir: self.dir.to_owned(),
            consents: self.consents(),
            purpose: Some(format!("waf, {}", self.arrangement)),
            ..RunRequest::new(workloads.collect())
        };
        let mut observer = WafObserver::new(self);
        let verdict = runner::run(request, self.signal_handler, &mut observer)?.recorded()?;
        let name = self.arrangement;
        let dir = self.dir.display();
        report
            .assumptions
            .push(Pair::new(&format!("run of {name}"), dir.to_string()));
        if let Some(why) = observer.failed() {
            return Err(Failure::environment(format!(
                "cannot compute the write amplification of {} - {why} - start again without other users of the drive; \
                 the runs are in {dir}",
                self.drive.facts.path
            )));
        }
        let mut code = match &verdict.end {
            End::Enough { .. } | End::Completed => 0,
            End::Interrupted { .. } => 4,
            end => {
                report.remarks.push(format!("{name}: {end}"));
                verdict.outcome.exit_code().max(1)
            }
        };
        let Some(meter) = &observer.meter else {
            return Err(Failure::environment(format!(
                "the counters of {} were not polled - see {dir}",
                self.drive.facts.path
            )));
        };
        let mut found = ArrangementResult {
            tenants: observer.tenants.clone(),
            ..meter.found().clone()
        };
        let (own_bytes, all_bytes) = meter.host_bytes();
        if all_bytes as f64 > own_bytes as f64 * (1.0 + OTHERS)
            && all_bytes > own_bytes + self.drive.facts.size_bytes / 64
        {
            // The amplification includes writes of other programs, so it does not count as steady.
            found.steady_after = None;
            code = 4;
            report.remarks.push(format!(
                "{name}: {} counted {} of host writes, but flashproof wrote {}: another program wrote to the drive, or \
                 to another namespace or partition of it, so there is no result - stop that program, and start again",
                self.drive.facts.path,
                bytes(all_bytes as f64),
                bytes(own_bytes as f64)
            ));
        }
        let counted = found.total();
        if found.steady_after.is_some()
            && counted.media as f64 <= counted.host as f64 * (1.0 + OTHERS)
        {
            report.remarks.push(format!(
                "{name}: write amplification is close to 1: either blocks become invalid together, or the drive had \
                 enough free flash and has not collected garbage yet, for example if the namespace or partition is a \
                 small part of the drive"
            ));
        }
        let timed = observer.timed(self.drive.facts.size_bytes);
        let mut arranged = Arranged::new(&name.to_string(), found, Some(timed));
        arranged.erases = self.drive.erases(arranged.counted.total());
        Ok((arranged, code))
    }

    /// Brings the drive to the initial state of every arrangement.
    fn fill(&self, fills: Vec<TenantFill>) -> Result<(), Failure> {
        let specs: Vec<_> = fills.iter().map(Workload::spec).collect();
        let spec = RunSpec::joined(&specs).map_err(Failure::usage)?;
        let loads: Vec<&dyn Workload> = fills.iter().map(|fill| fill as _).collect();
        let devices = Devices::open(&spec, &loads, &self.consents())?;
        let engine = Engine::choose(&EngineDemand::new(&spec, &loads), &devices)?;
        let shapes = devices.shapes();
        let identity = devices
            .real_facts()
            .first()
            .and_then(|(_, facts)| facts.identity());
        self.drive
            .check_same(identity.as_deref(), shapes[0].size_bytes)?;
        if let Some(identity) = &identity {
            // A deallocated drive no longer counts as prepared, whatever happens later.
            Records::open(None)
                .forget_prepared(identity)
                .map_err(Failure::environment)?;
        }
        self.deallocate(&devices)?;
        let size_bytes = shapes[0].size_bytes;
        let mut plan = RunPlan::new(vec![shapes[0].name.clone()], [].into());
        let mut total_bytes = 0;
        for (number, fill) in fills.iter().enumerate() {
            let context = BuildContext {
                seed: spec.seed.unwrap_or(0).wrapping_add(number as u64),
                shards_max: 1,
                cpus: 1,
                in_flight_max: engine.in_flight_max(),
            };
            plan.begin(number, &fill.0.tenant().name);
            fill.build(&shapes, &context, &mut plan)
                .map_err(Failure::usage)?;
            total_bytes += fill.bytes(size_bytes).map_err(Failure::usage)?;
        }
        let facts = EngineFacts::unpaced(&engine);
        let settings = Settings::until_done(facts.pacing());
        let layout = plan.layout;
        let interval_ns = 1_000_000_000;
        let run_config = RunConfig {
            layout,
            settings,
            interval_ns,
            slice_ns: u64::MAX,
            step_ns: u64::MAX,
            control: self.control.clone(),
        };
        let progress_text = format!("{}: writing each space once", self.arrangement);
        let mut filling = Filling {
            progress: WriteProgress::new(progress_text, total_bytes),
            failure: None,
        };
        engine.run(&run_config, plan.shards, &devices, 1, &facts, &mut filling)?;
        filling.progress.end();
        let why = match (self.control.cause(), filling.failure) {
            (None, None) => return Ok(()),
            (Some(EndCause::Requested { .. }), _) => return Err(self.interrupted()),
            (_, Some(why)) => why,
            (Some(cause), None) => cause.to_string(),
        };
        Err(Failure::device(format!(
            "{}: {why} - nothing was measured",
            self.arrangement
        )))
    }

    fn interrupted(&self) -> Failure {
        Failure::invalid(format!(
            "{}: interrupted while {} was brought to its initial state - nothing was measured",
            self.arrangement, self.drive.facts.path
        ))
    }

    fn deallocate(&self, devices: &Devices) -> Result<(), Failure> {
        let Devices::Real(targets) = devices else {
            return Ok(());
        };
        for target in targets {
            let size_bytes = target.size_bytes();
            console::notice(&format!(
                "{}: discarding all {} of {}, then each tenant's space is written once",
                self.arrangement,
                bytes(size_bytes as f64),
                target.name()
            ));
            for piece in target.discard(0..size_bytes) {
                piece.map_err(|error| {
                    Failure::device(format!(
                        "cannot discard {} - {error} - name another drive: without a discard, the arrangements \
                         would begin in different states",
                        target.name()
                    ))
                })?;
                if self.control.stopped() {
                    return Err(self.interrupted());
                }
            }
        }
        Ok(())
    }
}

struct Filling {
    progress: WriteProgress,
    failure: Option<String>,
}

impl Sink for Filling {
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        self.progress
            .add(interval.cells.iter().map(|cell| cell.counts.bytes).sum());
        Ok(())
    }

    fn failure(&mut self, failed: &FailedOp) {
        let FailedOp {
            offset, len, error, ..
        } = failed;
        self.failure.get_or_insert_with(|| {
            format!("write of {len} bytes at byte {offset} failed: {error}")
        });
    }
}

struct WafObserver<'a> {
    run: &'a ArrangementRun<'a>,
    /// Counters of the drive; none before the first poll.
    meter: Option<Meter>,
    layout: Option<Layout>,
    tenants: Vec<TenantBytes>,
    /// Measurements of the last drive fills, so that latencies cover the same period as the amplification.
    window: VecDeque<DriveFill>,
    ended_ns: u64,
    failure: Option<String>,
}

#[derive(Default)]
struct DriveFill {
    cells: Vec<Cell>,
    backlogs: Vec<Backlog>,
    ns: u64,
}

impl DriveFill {
    fn add(&mut self, interval: &Interval, ns: u64) {
        if self.cells.is_empty() {
            self.cells = interval.cells.clone()
        } else {
            self.cells
                .iter_mut()
                .zip(&interval.cells)
                .for_each(|(all, cell)| all.merge(cell))
        }
        self.backlogs = interval
            .cells
            .iter()
            .map(|cell| cell.counts.backlog)
            .collect();
        self.ns += ns;
    }
}

impl<'a> WafObserver<'a> {
    fn new(run: &'a ArrangementRun<'a>) -> Self {
        let tenants = run.tenants.tenants.iter().map(|tenant| TenantBytes {
            name: tenant.name.clone(),
            client: 0,
            defrag: 0,
        });
        Self {
            run,
            meter: None,
            layout: None,
            tenants: tenants.collect(),
            window: VecDeque::new(),
            ended_ns: 0,
            failure: None,
        }
    }

    /// Adds an interval. Returns the bytes that tenants wrote during the interval.
    fn add(&mut self, interval: &Interval) -> u64 {
        let Some(layout) = &self.layout else { return 0 };
        let mut bytes_written = 0;
        for (stream_index, stream) in layout.streams.iter().enumerate() {
            let Some((tenant, kind)) = stream.name.rsplit_once('/') else {
                continue;
            };
            let Some(tenant) = self.tenants.iter_mut().find(|one| one.name == tenant) else {
                continue;
            };
            let bytes = interval.cells[layout.cell(stream_index, 0)].counts.bytes;
            match kind {
                "writes" => tenant.client += bytes,
                "defrag-writes" => tenant.defrag += bytes,
                _ => continue,
            }
            bytes_written += bytes;
        }
        bytes_written
    }

    /// Latencies of clients in at most the last five drive fills.
    fn timed(&self, size_bytes: u64) -> Timed {
        let begun = self
            .window
            .iter()
            .rev()
            .filter(|fill| !fill.cells.is_empty());
        let mut fills = begun.take(ROUNDS_IN_WINDOW);
        let Some(last) = fills.next() else {
            return Timed::default();
        };
        let mut cells = last.cells.clone();
        let mut ns = last.ns;
        for fill in fills {
            cells
                .iter_mut()
                .zip(&fill.cells)
                .for_each(|(all, cell)| all.merge(cell));
            ns += fill.ns;
        }
        let seconds = ns as f64 / 1e9;
        let layouts = self.layout.iter();
        let streams: Vec<_> = layouts
            .flat_map(|layout| &layout.streams)
            .zip(&cells)
            .collect();
        let cell_streams = streams
            .iter()
            .zip(&last.backlogs)
            .map(|((stream, cell), end)| (*stream, *cell, *end));
        let writes = streams
            .iter()
            .filter(|(stream, _)| stream.name.ends_with("writes"));
        let bytes_written: u64 = writes.map(|(_, cell)| cell.counts.bytes).sum();
        Timed {
            seconds,
            drive_fills: bytes_written as f64 / size_bytes as f64,
            device_waf: None,
            ended_early: None,
            latencies: latencies(cell_streams, seconds),
        }
    }
}

impl RunObserver for WafObserver<'_> {
    fn begins(&mut self, manifest: &Manifest) {
        self.layout = Some(manifest.layout());
        let ArrangementRun {
            drive, waf_request, ..
        } = self.run;
        // Detects a swapped drive.
        if !manifest
            .device_facts
            .first()
            .is_some_and(|facts| drive.is_same(facts))
        {
            self.failure =
                Some("another drive took its place; nothing was written to that drive".to_owned());
            return;
        }
        match drive.read_counters() {
            Ok(now) => {
                self.meter = Some(Meter::new(
                    "all",
                    drive.facts.size_bytes,
                    waf_request.fills_max,
                    now,
                ))
            }
            Err(why) => self.failure = Some(why),
        }
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        if self.failure.is_some() {
            return None;
        }
        let bytes_written = self.add(interval);
        let meter = self.meter.as_mut()?;
        let rounds = meter.found().rounds();
        if self.window.is_empty() {
            self.window.push_back(DriveFill::default());
        }
        if let Some(fill) = self.window.back_mut() {
            fill.add(interval, interval.end_ns.saturating_sub(self.ended_ns));
        }
        self.ended_ns = interval.end_ns;
        let end = meter.written(bytes_written, || self.run.drive.read_counters());
        let is_over = meter.found().rounds() > rounds;
        match end {
            Ok(None) if self.run.signal_handler.signal_received().is_some() => {
                Some("a signal arrived".to_owned())
            }
            Ok(None) => {
                if is_over {
                    self.window.push_back(DriveFill::default());
                    // The window also holds the current drive fill.
                    while self.window.len() > ROUNDS_IN_WINDOW + 1 {
                        self.window.pop_front();
                    }
                }
                None
            }
            Ok(Some(MeasurementEnd::Steady)) => Some(format!(
                "write amplification was steady after {} drive fills",
                meter.found().rounds()
            )),
            Ok(Some(MeasurementEnd::Fills)) => {
                let fills_max = self.run.waf_request.fills_max;
                Some(format!(
                    "{fills_max} drive fills were written, but write amplification is not steady"
                ))
            }
            Err(why) => {
                self.failure = Some(why);
                None
            }
        }
    }

    fn failed(&self) -> Option<String> {
        self.failure.clone()
    }
}
