//! A preparation: fills devices, so that a test measures a used drive and not a new one, and reads a sample back.
//!
//! Before the first write to any device, the work on each device is decided, and consent for all is obtained. Then each
//! device has its own thread.

mod job;
mod ledger;
mod open;
mod resume;
mod status;

pub use resume::{PrepOptions, RandomWrites};
pub use status::ProgressStyle;

use device::guard::{PreparationRecord, unix_s};
use engine::DeviceName;
use ftl::over_provisioning::BothConventions;
use job::{INTERRUPTED, Job, JobResult, SampleResult};
use load::prepare::{BLOCK_BYTES, SPOT_BYTES};
use results::format::{self, clock};
use session::console;
use session::devices::parsed;
use session::engine::{Engine, EngineDemand};
use session::failure::Failure;
use session::progress::REFRESH_INTERVAL;
use session::runner::command;
use session::signals::SignalHandler;
use session::sleep::SleepInhibitor;
use status::ProgressBars;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Default number of 4 KiB places that are read back from each device.
pub const SAMPLES: u64 = 16_384;

/// Default interval between two records of progress, seconds.
pub const CHECKPOINT_SEC: u64 = 5;

/// Assumed write rate for the time in a plan, bytes per second: that of a slow NVMe drive over a complete fill.
const PLANNED_RATE: f64 = 1e9;

#[derive(Debug, Clone)]
pub struct Preparation {
    /// Devices or files to prepare; all their data are erased.
    pub devices: Vec<String>,
    /// Names of devices that may be erased.
    pub erase: Vec<String>,
    /// Other devices of the same configuration. `erase` may name them without a warning.
    pub others: Vec<String>,
    /// Passes, and the used part of the device.
    pub options: PrepOptions,
    /// True to write nothing, and only read a sample of devices prepared before.
    pub verify: bool,
    /// Places to read back from each device; 0 for none.
    pub samples: u64,
    /// Interval at which data are synced and progress is recorded.
    pub checkpoint: Duration,
    pub style: ProgressStyle,
}

impl Preparation {
    /// The default preparation of `devices`: zeros and one random fill. `erase` names devices that may be erased.
    pub fn with_defaults(devices: Vec<String>, erase: &[String], style: ProgressStyle) -> Self {
        Self {
            devices,
            erase: erase.to_vec(),
            others: Vec::new(),
            options: PrepOptions::DEFAULT,
            verify: false,
            samples: SAMPLES,
            checkpoint: Duration::from_secs(CHECKPOINT_SEC),
            style,
        }
    }

    /// Prepares or verifies the devices, until the end or a signal. Returns an exit code unless all succeed: 1 for a
    /// failed device, 3 for a failure of the host, 4 if interrupted.
    pub fn run(&self, signal_handler: &SignalHandler) -> Result<Option<ExitCode>, Failure> {
        if self.verify && self.samples == 0 {
            return Err(Failure::usage(
                "cannot verify with --samples 0 - nothing would be read - leave --samples out",
            ));
        }
        let simulated = self.simulated()?;
        let drives = match &simulated {
            None if self.verify => open::open_prepared(&self.devices)?,
            None => open::open(self)?,
            Some(_) if self.verify => {
                return Err(Failure::usage(
                    "cannot verify simulated drives - they keep no data - name devices or files",
                ));
            }
            Some(drives) => open::simulate(&self.options, drives)?,
        };
        let engine = Arc::new(Engine::choose(
            &EngineDemand::default(),
            &drives[0].devices,
        )?);
        let jobs: Vec<_> = drives
            .into_iter()
            .map(|drive| drive.job(self, engine.clone()))
            .collect();
        let _armed = signal_handler.arm(jobs.iter().map(|job| job.control.clone()).collect());
        if self.style == ProgressStyle::Plain {
            for PreparationRecord {
                path, size_bytes, ..
            } in jobs.iter().map(|job| &job.prepared)
            {
                console::result(&format!(
                    "{path} size = {size_bytes} bytes, {} large blocks\n",
                    size_bytes / u64::from(BLOCK_BYTES)
                ))?;
            }
        }
        let _sleep_inhibitor = simulated.is_none().then(SleepInhibitor::hold).flatten();
        let job_ends = self.work(jobs, simulated.is_some())?;
        self.print_results(&job_ends)
    }

    /// Describes the planned writes, and writes nothing. Errors: those of [`Self::run`] before its first write.
    pub fn plan(&self) -> Result<String, Failure> {
        let simulated = self.simulated()?;
        let guard = if simulated.is_some() {
            ""
        } else {
            " The guard allows the writes."
        };
        let prepared = match simulated {
            None => open::plan(self)?,
            Some(drives) => open::simulate(&self.options, &drives)?
                .into_iter()
                .map(|drive| drive.prepared)
                .collect(),
        };
        Ok(prepared
            .iter()
            .map(|prepared| planned(prepared, self.samples, guard))
            .collect())
    }

    /// The simulated drives, if all devices are simulated; `None` if all are real. Errors: a mix of both.
    fn simulated(&self) -> Result<Option<Vec<DeviceName>>, Failure> {
        let names = parsed(&self.devices)?;
        match names.iter().filter(|name| name.drive().is_some()).count() {
            0 => Ok(None),
            n if n == names.len() => Ok(Some(names)),
            _ => Err(Failure::usage(
                "cannot prepare simulated drives together with real ones - simulated drives do not run in real time - \
                 prepare them separately",
            )),
        }
    }

    /// Runs all jobs in parallel, and draws their progress.
    fn work(&self, jobs: Vec<Job>, is_simulated: bool) -> Result<Vec<JobEnd>, Failure> {
        let status = jobs.iter().map(|job| job.status.clone()).collect();
        let mut bars = ProgressBars::new(self.style, &self.devices, status, is_simulated);
        let start = Instant::now();
        let spawned: Result<Vec<_>, _> = jobs
            .into_iter()
            .map(|job| {
                let status = job.status.clone();
                let verify = self.verify;
                thread::Builder::new().name("prep".into()).spawn(move || {
                    let ended = if verify {
                        job.verify_only()
                    } else {
                        job.prepare()
                    };
                    status.end(ended.is_ok());
                    (ended, start.elapsed().as_secs())
                })
            })
            .collect();
        let threads = spawned
            .map_err(|error| Failure::environment(format!("cannot start a thread - {error}")))?;
        while threads.iter().any(|thread| !thread.is_finished()) {
            bars.draw();
            thread::sleep(REFRESH_INTERVAL);
        }
        bars.draw();
        // A panic in a job has ended the program already.
        Ok(threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect())
    }

    /// Prints the results. Returns the exit code of the failures; a failed device has precedence.
    fn print_results(&self, job_ends: &[JobEnd]) -> Result<Option<ExitCode>, Failure> {
        for ((result, seconds), name) in job_ends.iter().zip(&self.devices) {
            match result {
                Ok(done) => console::result(&summary(name, done, *seconds, self.verify))?,
                Err(failure) if failure.code() == INTERRUPTED => {
                    let command = command()
                        .into_iter()
                        .filter(|argument| argument != "--restart");
                    let command: Vec<_> = command
                        .map(|argument| console::shell_quoted(&argument))
                        .collect();
                    console::notice(&format!(
                        "{name}: interrupted; to resume: {}",
                        command.join(" ")
                    ));
                }
                Err(failure) => console::error(&failure.message),
            }
        }
        let failures = job_ends
            .iter()
            .filter_map(|(result, _)| result.as_ref().err());
        Ok(failures.map(Failure::code).min().map(ExitCode::from))
    }
}

/// Result of a device's job, and its duration in seconds.
type JobEnd = (Result<JobResult, Failure>, u64);

fn passes(prepared: &PreparationRecord) -> String {
    match prepared {
        PreparationRecord {
            random: Some(random),
            size_bytes,
            ..
        } => format!(
            "random writes of {} bytes, {} bytes in all (over-provisioning {}{})",
            random.block_bytes,
            random.pass_bytes,
            BothConventions(random.pass_bytes as f64 / *size_bytes as f64 - 1.0),
            if prepared.discard_first {
                ", after a discard"
            } else {
                ""
            },
        ),
        PreparationRecord {
            zeros: true,
            fills: 0,
            ..
        } => "zeros".to_owned(),
        PreparationRecord {
            zeros: true, fills, ..
        } => format!("zeros and {}", random_fills(*fills)),
        PreparationRecord { fills, .. } => random_fills(*fills),
    }
}

fn random_fills(fills: u32) -> String {
    format::count(fills.into(), "random fill")
}

fn part(prepared: &PreparationRecord) -> String {
    let PreparationRecord {
        used_bytes,
        size_bytes,
        ..
    } = prepared;
    if used_bytes == size_bytes {
        format::bytes(*size_bytes as f64)
    } else {
        format!(
            "{} of {} ({:.1} %)",
            format::bytes(*used_bytes as f64),
            format::bytes(*size_bytes as f64),
            prepared.use_pct()
        )
    }
}

/// Plan of a device in one line, with the time at [`PLANNED_RATE`] and the decision of the `guard`.
fn planned(prepared: &PreparationRecord, samples: u64, guard: &str) -> String {
    let total = u64::from(prepared.passes());
    let done = u64::from(prepared.passes_done);
    let left_bytes = (total - done) * prepared.pass_bytes() - prepared.mark_bytes;
    format!(
        "{}: {}, {}: {}; then {} read back.{guard} Nothing was written.\n",
        prepared.path,
        part(prepared),
        passes(prepared),
        to_write(left_bytes),
        format::count(samples, "place"),
    )
}

/// Bytes, and the time that a drive of [`PLANNED_RATE`] takes to write them.
pub(crate) fn to_write(bytes: u64) -> String {
    format!(
        "{} to write, {} at {}/s",
        format::bytes(bytes as f64),
        format::span_about((bytes as f64 / PLANNED_RATE).max(1.0)),
        format::bytes(PLANNED_RATE)
    )
}

fn summary(name: &str, result: &JobResult, seconds: u64, verify: bool) -> String {
    let JobResult {
        prepared,
        verified,
        written,
    } = result;
    let used_bytes = prepared.used_bytes;
    let part = part(prepared);
    let seed = if prepared.fills > 0 {
        format!(" (seed {})", prepared.seed)
    } else {
        String::new()
    };
    let passes = passes(prepared) + &seed;
    let read_back = match verified {
        SampleResult::Equal(sample) => {
            let share = sample.bytes as f64 * 100.0 / used_bytes.max(1) as f64;
            format!(
                "{} places of up to {SPOT_BYTES} bytes ({share:.3} % of the data) read back and correct",
                sample.spots
            )
        }
        SampleResult::Simulated => "simulated: nothing written, nothing read back".to_owned(),
        SampleResult::No => "nothing read back".to_owned(),
    };
    let rate_text = match written.ns {
        0 => String::new(),
        // Bytes per microsecond are megabytes per second.
        ns => format!(
            " written at {:.0} MB/s",
            written.bytes as f64 * 1e3 / ns as f64
        ),
    };
    let verb = if verify { "verified" } else { "prepared" };
    let age_sec = prepared
        .ended_unix_s
        .filter(|_| verify)
        .map(|ended| unix_s().saturating_sub(ended));
    let age_text = age_sec
        .map(|ago| format!(", prepared {} ago", clock(ago)))
        .unwrap_or_default();
    format!(
        "{name}: {verb}{age_text}: {part}, {passes}{rate_text}, {read_back}, in {}\n",
        clock(seconds)
    )
}
