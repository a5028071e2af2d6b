//! Passes a run's records to the run directory, the judge, the screen and, for ACT's scripts, standard output.

use crate::clock::now_unix_ms;
use crate::devices::Devices;
use crate::engine::EngineFacts;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::progress::RunProgress;
use crate::sleep::{SleepInhibitor, SleepWatch};
use crate::tracing::{self, Tracing};
use crate::{console, signals};
use device::observe::telemetry::{Sampler, TelemetryRow};
use load::records::{BATCH_SIZE, TRANSACTIONS};
use load::run::{
    Control, DelayOwner, EndCause, FailedOperation as FailedOp, RunConfig, Settings, Sink,
    SinkError,
};
use results::cell::Interval;
use results::format::quoted;
use results::judge::{End, Judge, Outcome, Reason, ReasonCode, RecordsRead, Verdict};
use results::run_dir::{self, Manifest, RunWriter};
use results::telemetry::Column;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use sys::ioctl;
use sys::op::OpKind;

/// Observer of a run. Can end the run.
pub trait RunObserver {
    fn begins(&mut self, _manifest: &Manifest) {}

    /// Called after each interval. Returns a reason to end the run, once enough was observed.
    fn interval(&mut self, _interval: &Interval) -> Option<String> {
        None
    }

    /// Reason why the run cannot serve its purpose, if any. The run then does not begin, or ends as failed. Called at
    /// the start and after each interval.
    fn failed(&self) -> Option<String> {
        None
    }

    /// Goals of the caller that the run missed; a missed goal fails the run, even if all operations were done. Called
    /// when the run has ended as `end`.
    fn missed(&self, _end: &End) -> Vec<String> {
        Vec::new()
    }

    /// Notes for the verdict, a sentence each. Called when the run has ended.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

pub struct NoObserver;

impl RunObserver for NoObserver {}

/// Maximum time for a stopped run to finish, beyond the hang limit. After that the run is abandoned, because an
/// operation can hang in the kernel forever.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Number of times per second that io-wq workers may run without a warning: they run a few times during setup.
const RING_WORKER_RUNS_TOLD: f64 = 10.0;

/// Maximum number of failed operations printed. All failures are counted, and ACT's log lists more.
const FAILURES_TOLD_MAX: usize = 5;

pub struct Recording<'a> {
    dir: PathBuf,
    manifest: Manifest,
    devices: &'a Devices,
    engine: &'a EngineFacts,
    settings: Settings,
    control: Arc<Control>,
    judge: Judge,
    progress: RunProgress,
    options: RecordingOptions,
    writer: Option<RunWriter>,
    /// Samples the host and the block devices; `None` on simulated drives, and if sampling cannot start.
    sampler: Option<Sampler>,
    tracing: Option<Tracing>,
    /// Measurements missing at the end of the run, a sentence each.
    unmeasured: Vec<String>,
    failures: Vec<String>,
    wrong_data_failures: Vec<String>,
    /// Records read from a database, if they were counted.
    pub records_read: Option<RecordsRead>,
    has_warned_of_workers: bool,
    stopped_at: Option<Instant>,
    /// Detects a sleep of the machine; `None` on simulated drives, whose time is virtual.
    sleep_watch: Option<SleepWatch>,
    _sleep_inhibitor: Option<SleepInhibitor>,
    suspended: Option<End>,
    observer: &'a mut dyn RunObserver,
}

impl<'a> Recording<'a> {
    pub fn new(
        dir: PathBuf,
        manifest: Manifest,
        devices: &'a Devices,
        engine: &'a EngineFacts,
        config: &RunConfig,
        options: RecordingOptions,
        observer: &'a mut dyn RunObserver,
    ) -> Self {
        Self {
            dir,
            judge: manifest.judge(),
            progress: RunProgress::new(&manifest, options.quiet, options.heading.clone()),
            tracing: None,
            manifest,
            devices,
            engine,
            settings: config.settings,
            control: config.control.clone(),
            options,
            unmeasured: Vec::new(),
            writer: None,
            sampler: None,
            failures: Vec::new(),
            wrong_data_failures: Vec::new(),
            records_read: None,
            has_warned_of_workers: false,
            stopped_at: None,
            sleep_watch: None,
            _sleep_inhibitor: None,
            suspended: None,
            observer,
        }
    }

    pub fn has_begun(&self) -> bool {
        self.writer.is_some()
    }

    /// Writes the end of the run and the verdict. Errors: the run directory could not be completed.
    pub fn finish(mut self, end: End) -> Result<Verdict, Failure> {
        self.progress.end();
        for line in lines_of_act(&end) {
            self.act_error(&line);
        }
        // The last trace sample must be in the directory before the verdict.
        if let Some(tracing) = self.tracing.take() {
            tracing.finish(tracing::PATIENCE, &mut self.unmeasured);
        }
        let verdict = self.verdict(&end);
        if let Some(writer) = self.writer.take() {
            writer.finish(&verdict).map_err(Failure::environment)?;
        }
        Ok(verdict)
    }

    /// Verdict on a run whose directory cannot be completed.
    pub fn verdict_unrecorded(mut self, why: &str) -> Verdict {
        self.progress.end();
        self.verdict(&End::RecordingFailed {
            why: why.to_owned(),
        })
    }

    /// The verdict with its explanations. The explanations are read from the directory, because the trace samples are
    /// there. After a read error the verdict has no explanations.
    fn verdict(&mut self, end: &End) -> Verdict {
        let blame = if self.has_begun() {
            run_dir::blame(&self.dir).unwrap_or_default()
        } else {
            Vec::new()
        };
        let records_read = self.records_read;
        let unmeasured = std::mem::take(&mut self.unmeasured);
        let mut verdict = Verdict {
            blame,
            records_read,
            unmeasured,
            ..self.judge.verdict(end)
        };
        verdict.describe_failures(self.failures.clone(), self.wrong_data_failures.clone());
        if self.suspended.is_none() {
            verdict.fail_for(self.observer.missed(end));
        }
        verdict.note(self.observer.notes());
        if let (End::Enough { .. }, true) = (end, self.options.stop_when_decided) {
            let ran_sec = verdict.ran_sec;
            let planned_sec = self.manifest.duration_sec;
            verdict.note(vec![format!(
                "ended after {ran_sec:.0} of {planned_sec} s, because the rest of the run could not change the outcome \
                 (--stop-when-decided)"
            )]);
        }
        if let Some(metrics) = &mut self.options.metrics {
            metrics.publish(&self.judge, Some(verdict.outcome));
        }
        verdict
    }

    /// End of the run, as the verdict records it. A sleep of the machine takes precedence, as a possible cause.
    pub fn end(&self) -> End {
        if let Some(suspended) = &self.suspended {
            return suspended.clone();
        }
        match self.control.cause() {
            None => End::Completed,
            Some(EndCause::Requested { signal }) => End::interrupted(signals::name(signal)),
            Some(EndCause::Enough { reason: why }) => End::Enough { why },
            Some(EndCause::Lag {
                lane,
                whose,
                behind_ns,
                in_flight,
                slots,
            }) => End::LagExceeded {
                lane,
                whose,
                lag_ms: behind_ns / 1_000_000,
                lag_max_ms: self.settings.max_lag_ns / 1_000_000,
                in_flight: in_flight.into(),
                in_flight_max: slots.into(),
            },
            Some(EndCause::Gone { device, .. }) => End::DeviceGone {
                device: self.manifest.devices[device].clone(),
            },
            Some(EndCause::Errors { count }) => End::TooManyErrors {
                errors: count,
                errors_max: self.settings.errors_max,
            },
            Some(EndCause::Stuck { reason: why }) => End::LoadStuck { why },
            Some(EndCause::Failed { message }) => End::EngineFailed { why: message },
        }
    }

    fn check_sleep(&mut self) {
        let Some(asleep_ns) = self.sleep_watch.as_ref().and_then(SleepWatch::asleep_ns) else {
            return;
        };
        let asleep_ms = asleep_ns / 1_000_000;
        let errors_before = self.judge.errors();
        let suspended = self.suspended.get_or_insert(End::Suspended {
            asleep_ms,
            errors_before,
        });
        self.control.stop(EndCause::Failed {
            message: suspended.to_string(),
        });
    }

    /// Adds an error line to ACT's log and prints it on standard output.
    fn act_error(&mut self, line: &str) {
        if let Some(writer) = &mut self.writer {
            // Errors are ignored here: the next interval has the same error, and ends the run.
            if writer.write_error(line).is_ok() {
                let _ = print_act(self.options.act_log, writer);
            }
        }
    }
}

pub struct RecordingOptions {
    pub quiet: bool,
    /// Prefix of each line of progress.
    pub heading: Option<String>,
    /// Print ACT's log on standard output.
    pub act_log: bool,
    /// End the run as soon as it can only fail.
    pub stop_when_decided: bool,
    /// Sample the block layer's tracepoints, if possible.
    pub trace: bool,
    pub metrics: Option<Metrics>,
}

impl Recording<'_> {
    /// The reason why the run can no longer pass, if any. In an unfinished slice, the slow operations so far are
    /// compared with the operations due in the whole slice. Delays by this program do not count.
    fn decided(&self) -> Option<String> {
        let verdict = self.judge.verdict(&End::Unrecorded);
        let is_final = |reason: &&Reason| {
            use ReasonCode::{IoError, Lost, OverLimit, WrongData};
            matches!(reason.code, IoError | Lost | OverLimit | WrongData)
        };
        let reason = verdict.reasons.iter().find(is_final)?;
        (verdict.outcome == Outcome::Fail).then(|| format!("the run can only fail: {reason}"))
    }
}

/// Environment variable: common start time of a run on several hosts, milliseconds since 1970 by this host's clock.
pub const START_VARIABLE: &str = "FLASHPROOF_START_AT";

/// Waits until the time in [`START_VARIABLE`], if it is set. Errors: not a number, or the time has passed.
fn await_start() -> Result<(), SinkError> {
    let Ok(text) = std::env::var(START_VARIABLE) else {
        return Ok(());
    };
    let start_unix_ms = text.parse().map_err(|_| {
        format!(
            "{START_VARIABLE} is {}, not a number of milliseconds",
            quoted(&text)
        )
    })?;
    let start_time = UNIX_EPOCH + Duration::from_millis(start_unix_ms);
    let wait = start_time
        .duration_since(SystemTime::now())
        .map_err(|error| {
            format!(
                "the agreed start was {} ms ago - the devices of this host took too long to open - set a longer time \
                 for \"together\"",
                error.duration().as_millis()
            )
        })?;
    std::thread::sleep(wait);
    Ok(())
}

impl Sink for Recording<'_> {
    fn ready(&mut self) -> Result<(), SinkError> {
        self.manifest.engine_facts = self.engine.value();
        let is_real = !matches!(self.devices, Devices::Simulated(_));
        if is_real {
            self._sleep_inhibitor = SleepInhibitor::hold();
            await_start()?;
        }
        self.manifest.started_unix_ms = now_unix_ms();
        if is_real {
            let sampler = Sampler::new(&self.devices.numbers());
            self.sampler = sampler
                .inspect_err(|error| {
                    console::warning(&format!("telemetry.csv will be empty: {error}"))
                })
                .ok();
        }
        self.observer.begins(&self.manifest);
        if let Some(why) = self.observer.failed() {
            return Err(why.into());
        }
        let plan = tracing::plan(
            self.devices,
            self.options.trace,
            &mut self.manifest.unmeasured,
        );
        let columns = match &self.sampler {
            Some(sampler) => sampler.columns().to_vec(),
            None => self.devices.counter_columns(),
        };
        let writer = RunWriter::create(&self.dir, &self.manifest, &columns)?;
        // With ACT's log, the directory is printed only at the end, if at all.
        if !self.options.quiet && !self.options.act_log && !self.progress.is_step() {
            console::note(&format!("run directory: {}", self.dir.display()));
        }
        print_act(self.options.act_log, &writer)?;
        self.writer = Some(writer);
        self.tracing = plan.and_then(|plan| Tracing::start(plan, &self.dir, &self.manifest));
        self.sleep_watch = is_real.then(SleepWatch::start);
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        self.check_sleep();
        let telemetry: Vec<_> = match &mut self.sampler {
            Some(sampler) => {
                let is_last = interval.end_ns >= self.settings.duration_ns - self.settings.ramp_ns
                    || self.control.stopped();
                let row = if is_last {
                    sampler.sample_last()
                } else {
                    sampler.sample()
                };
                self.has_warned_of_workers = self.has_warned_of_workers
                    || warn_of_workers(sampler.columns(), &row, interval);
                row.cells()
            }
            None => interval.counters.iter().map(u64::to_string).collect(),
        };
        self.judge.add(interval);
        if let Some(metrics) = &mut self.options.metrics {
            let columns = self.sampler.as_ref().map_or(&[][..], Sampler::columns);
            metrics.interval(interval, &self.judge, columns, &telemetry);
        }
        self.progress.interval(interval);
        self.tracing.take_if(|tracing| !tracing.write_samples());
        if let Some(writer) = &mut self.writer {
            writer.write_interval(interval, &telemetry)?;
            print_act(self.options.act_log, writer)?;
            if !matches!(self.devices, Devices::Simulated(_)) {
                writer.sync()?;
            }
        }
        let mut enough = self.observer.interval(interval);
        if self.options.stop_when_decided {
            enough = enough.or_else(|| self.decided());
        }
        match (self.observer.failed(), enough) {
            (Some(message), _) => self.control.stop(EndCause::Failed { message }),
            (None, Some(why)) => self.control.stop(EndCause::Enough { reason: why }),
            (None, None) => {}
        }
        Ok(())
    }

    fn failure(&mut self, failure: &FailedOp) {
        self.check_sleep();
        let FailedOp {
            device,
            kind,
            offset,
            len,
            error,
            is_wrong_data,
        } = failure;
        let name = &self.manifest.devices[*device];
        let line = match self.manifest.kind().as_str() {
            TRANSACTIONS => {
                let mut settings = self
                    .manifest
                    .workloads
                    .iter()
                    .flat_map(|workload| &workload.config.settings);
                let is_batch = !is_wrong_data
                    && *kind == OpKind::Read
                    && settings.any(|(name, _)| name == BATCH_SIZE);
                let record_text = if is_batch {
                    "a batch that begins"
                } else {
                    "the record"
                };
                format!("{kind} of {record_text} with key {offset} of {name} failed: {error}")
            }
            _ => format!("{kind} of {len} bytes at byte {offset} of {name} failed: {error}"),
        };
        self.act_error(&line);
        let messages = if *is_wrong_data {
            &mut self.wrong_data_failures
        } else {
            &mut self.failures
        };
        if messages.len() < FAILURES_TOLD_MAX {
            let is_last = messages.len() + 1 == FAILURES_TOLD_MAX;
            let has_act_log = self
                .manifest
                .workloads
                .iter()
                .any(|workload| workload.act_log.is_some());
            let suffix = if !is_last {
                ""
            } else if has_act_log {
                " (further failures are in act.log)"
            } else {
                " (further failures are only counted)"
            };
            console::warning(&format!("{line}{suffix}"));
            messages.push(line);
        }
        // An unplugged device still has a descriptor, but its size is 0.
        if let Devices::Real(targets) = self.devices
            && targets[*device].facts().number.is_some()
            && !ioctl::size_bytes(targets[*device].fd()).is_ok_and(|size| size > 0)
        {
            self.control.stop(EndCause::Gone {
                device: *device,
                error: error.clone(),
            });
        }
    }

    fn idle(&mut self) {
        self.check_sleep();
        if !self.control.stopped() {
            return;
        }
        let stopped_at = *self.stopped_at.get_or_insert_with(Instant::now);
        let patience = Duration::from_nanos(self.settings.hang_ns) + STOP_TIMEOUT;
        if stopped_at.elapsed() > patience {
            self.progress.end();
            console::error(&format!(
                "abandoned the run: operations on {} did not complete within {} s after the end of the run - the \
                 kernel still waits for the device - the run directory {} has no verdict; check the device (dmesg)",
                self.manifest.devices.join(", "),
                patience.as_secs(),
                self.dir.display()
            ));
            signals::exit(3);
        }
    }
}

/// Warns if io-wq workers of the kernel issue operations on our behalf; true if it warned.
fn warn_of_workers(columns: &[String], row: &TelemetryRow, interval: &Interval) -> bool {
    let column = Column::RingWorkerRunsPerSec.for_object("").to_string();
    let column_index = columns.iter().position(|name| *name == column);
    let Some(runs_per_sec) = column_index.and_then(|at| row.values()[at]) else {
        return false;
    };
    let in_flight_max = interval.in_flight_max;
    if runs_per_sec < RING_WORKER_RUNS_TOLD {
        return false;
    }
    console::warning(&format!(
        "io-wq workers submit operations on behalf of flashproof, about {runs_per_sec:.0} per second with up to {in_flight_max} in \
         flight: submission would block, because the device's queue is full or its driver works in the caller's thread \
         (zram) - latencies are correct, but CPU usage is higher and pacing less even - reduce the operations in flight \
         (service-threads, iodepth), or raise queue/nr_requests if the driver has a queue; see {column} in telemetry.csv"
    ));
    true
}

fn lines_of_act(end: &End) -> Vec<String> {
    match end {
        End::LagExceeded { lane, whose, .. } => {
            let stream = lane.split('@').next().unwrap_or(lane);
            let stream_name = match stream {
                "large-block-reads" => "large block reads",
                "large-block-writes" => "large block writes",
                _ => "service thread",
            };
            let consequence = match whose {
                DelayOwner::Device => "drive(s) can't keep up - test stopped",
                DelayOwner::Limit => "try configuring more 'service-threads' - test stopped",
                DelayOwner::Ours => "ACT can't do requested load - test stopped",
            };
            vec![
                format!("{stream_name} can't keep up"),
                consequence.to_owned(),
                end.to_string(),
            ]
        }
        End::Completed | End::Enough { .. } | End::Interrupted { .. } => Vec::new(),
        other => vec![other.to_string()],
    }
}

/// Prints, if `is_enabled`, the last addition to ACT's log. A reader that closed the pipe does not end the run.
fn print_act(is_enabled: bool, writer: &RunWriter) -> Result<(), SinkError> {
    if !is_enabled {
        return Ok(());
    }
    console::result(&String::from_utf8_lossy(writer.act_text()))
        .map_err(|failure| failure.message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineDemand};
    use load::run::Pacing;
    use results::judge::{Outcome, ReasonCode, Sla};
    use std::sync::atomic::{AtomicU64, Ordering};

    const SEC: u64 = 1_000_000_000;

    static ASLEEP_NS: AtomicU64 = AtomicU64::new(0);

    /// The verdict on a run with `errors` failed reads, then a sleep of the machine, then a thousand failed reads.
    fn slept(errors: u64) -> Verdict {
        let layout = results::testing::layout(&[("reads", true)], 1_000.0, ["d".to_owned()]);
        let manifest = Manifest {
            duration_sec: 9,
            slice_sec: 9,
            simulated: true,
            ..Manifest::new(&layout, Sla::default())
        };
        let devices = Devices::Simulated(Vec::new());
        let engine =
            EngineFacts::unpaced(&Engine::choose(&EngineDemand::default(), &devices).unwrap());
        let control = Arc::new(Control::default());
        let config = RunConfig {
            layout: layout.clone(),
            settings: Settings::until_done(Pacing::Spin),
            interval_ns: SEC,
            slice_ns: 9 * SEC,
            step_ns: 9 * SEC,
            control: control.clone(),
        };
        let options = RecordingOptions {
            quiet: true,
            heading: None,
            act_log: false,
            stop_when_decided: false,
            trace: false,
            metrics: None,
        };
        let parent = tempfile::tempdir().unwrap();
        let mut observer = NoObserver;
        let dir = parent.path().join("run");
        let mut recording = Recording::new(
            dir.clone(),
            manifest,
            &devices,
            &engine,
            &config,
            options,
            &mut observer,
        );
        recording.ready().unwrap();
        recording.sleep_watch = Some(SleepWatch::with_clock(|| ASLEEP_NS.load(Ordering::Relaxed)));
        let mut interval = Interval::new(&layout);
        interval.end_ns = SEC;
        interval.cells[0].record_errors(errors, 0);
        recording.interval(&interval).unwrap();
        assert_eq!(control.cause(), None);
        ASLEEP_NS.fetch_add(90 * SEC, Ordering::Relaxed);
        // An issuing thread ends the run for its errors before the recording looks at the clocks.
        control.stop(EndCause::Errors { count: 1_000 });
        interval.clear();
        (interval.index, interval.end_ns) = (1, 3 * SEC / 2);
        interval.cells[0].record_errors(1_000, 0);
        recording.interval(&interval).unwrap();
        let end = recording.end();
        assert_eq!(
            end,
            End::Suspended {
                asleep_ms: 90_000,
                errors_before: errors
            }
        );
        let verdict = recording.finish(end).unwrap();
        assert_eq!(run_dir::read(&dir).unwrap().agrees(), Some(true));
        verdict
    }

    #[test]
    fn io_errors_count_only_if_they_precede_a_sleep_of_the_machine() {
        let verdict = slept(0);
        assert_eq!(verdict.outcome, Outcome::Invalid, "{verdict}");
        assert_eq!(verdict.reasons[0].code, ReasonCode::Suspended, "{verdict}");
        let verdict = slept(1);
        assert_eq!(verdict.outcome, Outcome::Fail, "{verdict}");
        assert_eq!(verdict.reasons[0].code, ReasonCode::IoError, "{verdict}");
    }
}
