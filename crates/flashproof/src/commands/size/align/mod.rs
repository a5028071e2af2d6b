//! An alignment: adjusts a configuration until a device receives the I/O that a cluster's drive received.
//!
//! ```text
//! CONFIG unchanged -> burst -> I/O that reached the device, and I/O issued
//!                               -> sizing::align::solve -> offsets -> burst -> ...   within 2 %, or no nearer
//! ```
//!
//! A burst is an ordinary run: guarded, recorded, ended by a signal. An offset may compensate only for what a
//! histogram lacks: the position of a size in its bucket. Other causes of a difference are a drive that did not hold
//! the load, another user of the device, requests that are split here but not in the cluster, and a wrong profile.
//! These causes are searched for and reported, and end the alignment without a configuration.

mod burst;
pub mod options;
mod page;
mod target;

use crate::configuration::read_test;
use act::options::Test;
use act::{ActConfig, ActWorkload, Arrival};
use burst::{BEGINS_SEC, BurstMeasurement, BurstObserver, ENDS_SEC, furthest};
use device::guard::unix_s;
use engine::DeviceName;
use options::Alignment;
use page::Page;
use results::files::{self, TempDir};
use results::finding::Finding;
use results::format::{self, in_one_line};
use results::run_dir::check_usable;
use session::devices::Consents;
use session::failure::Failure;
use session::runner::{self, NamedWorkload, RunRequest};
use session::signals::{self, SignalHandler};
use session::tracing::BlockPosition;
use session::user_file::OutputFile;
use session::{CompatMode, console};
use sizing::align::{self, Distortion, Offsets, RequestedLoad};
use sizing::drive_io::{DriveIo, NAMES};
use std::path::PathBuf;
use target::AlignmentTarget;
pub use target::{balanced, read_profile};

/// Bounds of the default length of a burst, seconds.
const BURST_SEC: [f64; 2] = [5.0, 300.0];
/// Allowed standard deviation of a number, as a fraction of the tolerance, which is four standard deviations.
const NOISE_PART: f64 = 0.25;
/// Allowed difference between issued and counted I/O: a fraction, plus the I/O of [`UNSEEN_SEC`], because the kernel's
/// counters are read some milliseconds after the end of an interval.
const UNSEEN: f64 = 0.01;
const UNSEEN_SEC: f64 = 0.05;
/// Maximum number of attempts for a burst that is disturbed by a lack of CPU.
const DISTURBED_MAX: usize = 4;
/// Assumed smallest I/O of a device, bytes, until the real size is known.
const SECTOR_BYTES: u32 = 512;

#[derive(Debug)]
pub struct AlignmentRound {
    config: ActConfig,
    /// I/O that follows from the configured rates and sizes.
    requested: DriveIo,
    measurement: BurstMeasurement,
    min_io_bytes: u32,
}

impl AlignmentRound {
    fn offsets(&self) -> Offsets {
        Offsets::from_config(&self.config)
    }

    fn distortion(&self) -> Distortion {
        Distortion::between(&self.requested, &self.measurement.reached)
    }
}

/// Largest difference between reached and issued I/O that is ignored, a fraction.
fn unseen(measurement: &BurstMeasurement) -> f64 {
    UNSEEN + UNSEEN_SEC / measurement.seconds
}

/// Runs bursts until the offsets reproduce the target, shows the remaining differences, and writes the configuration.
/// Errors: the target is not met, or only by offsets that hide a problem.
pub fn run(args: &Alignment) -> Result<(), Failure> {
    let (text, original_config) = read_test(Test::Storage, &args.config)?;
    let output = args.out.clone().map(|path| OutputFile {
        path,
        force: args.force,
    });
    output.iter().try_for_each(OutputFile::check)?;
    let config = on_devices(&original_config, &args.device)?;
    can_be_aligned(&config)?;
    let mut target = AlignmentTarget::from_args(args, &config)?;
    if config.tomb_raider && !target.excludes_tomb_raider {
        return Err(Failure::usage(
            "cannot align this configuration - with \"tomb-raider: yes\" a device is read as fast as possible, and the \
             target does not say how many of the reads are the tomb raider's - give the profile as --target, or align \
             without tomb-raider, then set it again",
        ));
    }
    // The tomb raider has no rate that an offset could scale.
    let config = ActConfig {
        tomb_raider: false,
        ..config
    };
    let devices = config.device_names.len();
    if devices > 1 {
        // The rates of a configuration cover all its devices together.
        target.io = target.io.map(|n| n * devices as f64);
        target.large_block_reads = target.large_block_reads.map(|n| n * devices as f64);
        target.source = format!("{devices} times {}", target.source);
    }
    let tolerance = args.within;
    let signal_handler =
        SignalHandler::install("no configuration was written", CompatMode::Native)?;
    let mut bursts = Bursts::new(args, &config, &signal_handler)?;
    let rounds = bursts.rounds(config, &target)?;
    let page = Page {
        target: &target,
        rounds: &rounds,
        tolerance,
    };
    console::result(&page.to_string())?;
    page.notes().iter().for_each(|note| console::note(note));
    let best_round = page.best();
    if let Some(why) = page.not_aligned() {
        return Err(Failure::invalid(why));
    }
    let reason = match (page.implausible(), &args.because) {
        (None, _) => String::new(),
        (Some(_), Some(because)) => format!(", because {}", in_one_line(because)),
        (Some(why), None) => return Err(Failure::invalid(why)),
    };
    let Some(output) = &output else {
        console::note("--out FILE writes the aligned configuration");
        return Ok(());
    };
    let day = format::rfc3339(unix_s());
    let names = best_round
        .config
        .device_names
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let note = in_one_line(&format!(
        "flashproof size align, {}, on {names} for {}{reason}",
        day.split('T').next().unwrap_or_default(),
        target.source
    ));
    output.write(&align::rewrite(
        &text,
        Offsets::from_config(&original_config),
        best_round.offsets(),
        &note,
    ))?;
    console::note(&format!(
        "{} is written; run it with: flashproof storage {0}",
        output.path.display()
    ));
    Ok(())
}

/// `config` on `devices`; unchanged if `devices` is empty.
fn on_devices(config: &ActConfig, devices: &[DeviceName]) -> Result<ActConfig, Failure> {
    if devices.is_empty() {
        return Ok(config.clone());
    }
    if devices.len() != config.device_names.len() {
        return Err(Failure::usage(format!(
            "cannot run on these devices - the rates of the configuration are for its {count} together, but --device \
             names {} - name {count} with --device",
            devices.len(),
            count = format::count(config.device_names.len() as u64, "device")
        )));
    }
    let config = ActConfig {
        device_names: devices.to_vec(),
        ..config.clone()
    };
    ActWorkload::from_config(config.clone()).map_err(Failure::usages)?;
    Ok(config)
}

/// Checks that offsets affect the configuration, and that the configuration determines the I/O of a device.
fn can_be_aligned(config: &ActConfig) -> Result<(), Failure> {
    let why = if !config.has_histograms() {
        "it has no histograms, which offsets need - \"flashproof size profile\" writes such a configuration from a \
         cluster's log"
    } else if config.arrival == Arrival::Closed {
        "\"arrival: closed\" lets the device determine the rates, so they cannot be configured - leave arrival out"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "cannot align this configuration - {why}"
    )))
}

struct Bursts<'a> {
    args: &'a Alignment,
    signal_handler: &'a SignalHandler,
    dir: PathBuf,
    _temp_dir: Option<TempDir>,
    positions: Vec<BlockPosition>,
    /// Measured time, seconds.
    seconds: u64,
    findings: Option<Vec<Finding>>,
    count: usize,
}

impl<'a> Bursts<'a> {
    fn new(
        args: &'a Alignment,
        config: &ActConfig,
        signal_handler: &'a SignalHandler,
    ) -> Result<Self, Failure> {
        let is_file = config.file_size_mbytes.is_some();
        let names = config.device_names.iter().enumerate();
        let positions = names.map(|(index, name)| burst::place(index, name, is_file));
        let positions: Vec<Option<BlockPosition>> = positions.collect::<Result<_, _>>()?;
        let load = RequestedLoad::from_config(config, SECTOR_BYTES).map_err(Failure::usages)?;
        let needed_sec = load.seconds_for(args.within * NOISE_PART);
        let seconds = args.burst.map_or_else(
            || needed_sec.clamp(BURST_SEC[0], BURST_SEC[1]).ceil() as u64,
            u64::from,
        );
        let noise = args.within * NOISE_PART * 100.0;
        let noise_text = if (seconds as f64) < needed_sec {
            String::new()
        } else {
            format!(
                ": long enough for a random error of at most {noise:.2} % in each of the four numbers"
            )
        };
        if noise_text.is_empty() {
            console::warning(&format!(
                "a burst of {} is too short for so few operations per second: the random error of a number exceeds \
                 {noise:.2} % - give --burst {}s or more",
                format::span(seconds),
                needed_sec.ceil() as u64
            ));
        }
        console::note(&format!(
            "at most {} of {} each, of which {} are measured{noise_text}",
            format::count(u64::from(args.rounds) + 1, "burst"),
            format::span(seconds + BEGINS_SEC + ENDS_SEC),
            format::span(seconds),
        ));
        let positions = positions
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .unwrap_or_default();
        let (dir, _temp_dir) = parent_dir(args)?;
        Ok(Self {
            args,
            signal_handler,
            dir,
            _temp_dir,
            positions,
            seconds,
            findings: None,
            count: 0,
        })
    }

    /// Runs bursts until the target is met, no whole-percent offset comes nearer, or the rounds are used up.
    fn rounds(
        &mut self,
        config: ActConfig,
        target: &AlignmentTarget,
    ) -> Result<Vec<AlignmentRound>, Failure> {
        let tolerance = self.args.within;
        let mut rounds = vec![self.run(config)?];
        for _ in 0..self.args.rounds {
            let last = &rounds[rounds.len() - 1];
            if align::worst(&target.io, &last.measurement.reached) <= tolerance
                || page::other_size_of_writes(target, last, tolerance).is_some()
            {
                break;
            }
            let next = align::solve(
                &last.config,
                last.min_io_bytes,
                &target.io,
                &last.distortion(),
            );
            if rounds.iter().any(|round| round.offsets() == next) {
                break;
            }
            let config = next.applied(&last.config);
            rounds.push(self.run(config)?);
        }
        Ok(rounds)
    }

    /// Runs a burst, and repeats the burst while it is disturbed. Errors: as [`Self::run_burst`].
    fn run(&mut self, config: ActConfig) -> Result<AlignmentRound, Failure> {
        for _ in 1..DISTURBED_MAX {
            let round = self.run_burst(config.clone())?;
            let Err(failure) = self.check_burst(&round) else {
                return Ok(round);
            };
            if !round.measurement.is_disturbed() {
                return Err(failure);
            }
            console::warning(&format!(
                "{} - but flashproof had to wait for a CPU: repeating the burst",
                failure.message
            ));
        }
        let round = self.run_burst(config)?;
        self.check_burst(&round).map(|()| round)
    }

    /// Runs a burst once. Errors: the burst did not complete.
    fn run_burst(&mut self, config: ActConfig) -> Result<AlignmentRound, Failure> {
        self.count += 1;
        let seconds = u32::try_from(self.seconds + BEGINS_SEC + ENDS_SEC).unwrap_or(u32::MAX);
        let config = ActConfig {
            test_duration_sec: seconds,
            report_interval_sec: 1,
            ..config
        };
        let min_io_bytes = config.device_names[0]
            .drive()
            .map_or(SECTOR_BYTES, |drive| drive.min_io_bytes);
        let workload = ActWorkload::from_config(config.clone()).map_err(Failure::usages)?;
        let dir = self.dir.join(format!("burst-{}", self.count));
        let spec = config.spec();
        let findings = self
            .findings
            .get_or_insert_with(|| runner::findings(&spec, &dir))
            .clone();
        let name = match self.count {
            1 => "burst 1, CONFIG unchanged".to_owned(),
            n => format!("burst {n}"),
        };
        let request = RunRequest {
            dir,
            consents: Consents::erasing(&self.args.consent.erase),
            slice_sec: u64::from(seconds),
            purpose: Some(format!("align, {name}")),
            findings: Some(findings),
            heading: Some(name),
            quiet: self.args.quiet,
            // The burst itself traces requests during the whole measured time.
            trace: false,
            ..RunRequest::new(NamedWorkload::alone(workload, act::echo::to_text(&config)))
        };
        let block_bytes = config.large_block_op_kbytes * 1024;
        let mut observer = BurstObserver::new(
            self.positions.clone(),
            self.seconds,
            block_bytes,
            min_io_bytes,
        );
        let verdict = runner::run(request, self.signal_handler, &mut observer)?.recorded()?;
        if let Some(signal) = self.signal_handler.signal_received() {
            return Err(Failure::invalid(format!(
                "ended by {} - no configuration was written",
                signals::name(signal)
            )));
        }
        let min_io_bytes = observer.min_io_bytes;
        let measurement = observer.measure()?.filter(|_| verdict.end.is_complete());
        let Some(measurement) = measurement else {
            return Err(Failure::invalid(format!(
                "the burst ended early: {} - so its I/O does not represent the configuration - align on a device that \
                 holds the load, as the cluster's drive did",
                verdict.end
            )));
        };
        let requested = RequestedLoad::from_config(&config, min_io_bytes)
            .map_err(Failure::usages)?
            .io();
        Ok(AlignmentRound {
            config,
            requested,
            measurement,
            min_io_bytes,
        })
    }

    /// Checks that only the load caused the measured I/O, and that nothing is missing.
    fn check_burst(
        &self,
        AlignmentRound {
            config,
            measurement,
            ..
        }: &AlignmentRound,
    ) -> Result<(), Failure> {
        if let Some(slowest) =
            measurement.not_held(self.args.within / 2.0, config.arrival == Arrival::Poisson)
        {
            return Err(Failure::invalid(format!(
                "the load was not held: of {} {} per second, {} were done - so the I/O does not represent the \
                 configuration - align on a device that holds the load, as the cluster's drive did",
                format::number(slowest.offered_per_sec),
                slowest.stream,
                format::number(slowest.per_sec)
            )));
        }
        let issued_rates = measurement.issued_io();
        let (n, difference) = furthest(&issued_rates, &measurement.reached, 2..4);
        if difference.abs() > unseen(measurement) {
            let issued = format::number(issued_rates.numbers()[n]);
            let reached = format::number(measurement.reached.numbers()[n]);
            return Err(Failure::invalid(format!(
                "{}: {issued} were issued, but {reached} reached the device - another program uses the device, or a \
                 page cache answered - stop that program, or bypass the cache; an offset would only hide the \
                 difference",
                NAMES[n]
            )));
        }
        Ok(())
    }
}

/// Parent of the bursts' directories. Without `--out-dir`, a temporary directory, with the guard that deletes it.
fn parent_dir(args: &Alignment) -> Result<(PathBuf, Option<TempDir>), Failure> {
    let Some(dir) = &args.out_dir else {
        let temp_dir = files::temporary_dir("flashproof-align-", &std::env::temp_dir()).map_err(|error| {
            Failure::environment(format!(
                "cannot create a temporary directory for the bursts - {error} - set TMPDIR, or give --out-dir"
            ))
        })?;
        return Ok((temp_dir.path().to_owned(), Some(temp_dir)));
    };
    check_usable(dir).map_err(Failure::environment)?;
    files::create_dir(dir).map_err(|error| {
        Failure::environment(format!(
            "cannot create {} for the bursts - {error} - name a directory that does not exist yet",
            dir.display()
        ))
    })?;
    Ok((dir.clone(), None))
}
