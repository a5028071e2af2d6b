//! The requested baseline: form, devices and settings, all checked before any device is touched.

use crate::commands::baseline::plan::{
    BaselineRequest, Job, LARGE_BYTES, PTS_DEPTH, PTS_THREADS, size,
};
use crate::fio_run;
use crate::series::{self, NOT_PREPARED, SeriesOptions};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use conclusions::baseline::{JOBS, Pts, job_name};
use conclusions::series::{DriveIdentity, Series, SeriesPurpose};
use fio::{BYTES, FioLoad, parse_number};
use load::workload::{RunSpec, Workload};
use results::format::{quoted, seconds, span};
use session::devices::{Consents, Devices, parsed};
use session::engine::{Engine, EngineDemand};
use session::failure::Failure;
use session::runner::{OpenDevices, cpus};
use std::path::PathBuf;

/// Length of a job of SNIA's tests, seconds; shorter on simulated drives, which do not change over time.
const PTS_SEC: u64 = 60;
const SIMULATED_PTS_SEC: u64 = 2;

/// Length of a quick baseline in seconds: the shortest baseline that contains every job.
const QUICK_SEC: u32 = 600;

#[derive(Args, Debug)]
pub struct BaselineOptions {
    /// Device to measure: ALL its data is erased. Several devices are measured at the same time, each with its own jobs
    #[arg(value_name = "DEVICE", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// Time under load: 24h to characterise a drive, 6h for a first result; at least about a minute, because each job
    /// takes a second or more
    #[arg(long = "duration", value_name = "TIME", default_value = "6h", allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: u32,
    /// Same as --duration 10m
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// Sizes of the database's operations, separated by commas; depths, rates and grid use only the first size
    #[arg(long, value_name = "SIZES", default_value = "4k", value_delimiter = ',', value_parser = block_bytes)]
    pub bs: Vec<u64>,
    /// Largest queue depth to try, a power of two
    #[arg(long, value_name = "DEPTH", default_value_t = 256, allow_hyphen_values = true, value_parser = depth)]
    pub max_depth: u32,
    /// Only read: erases nothing, needs no consent, and works on a device in use
    #[arg(long)]
    pub read_only: bool,
    /// Run these tests of SNIA's PTS 2.0.2 instead: iops, throughput, latency, saturation; before each test,
    /// the whole device is discarded, and then written twice (before saturation, only discarded)
    #[arg(long, value_name = "TESTS", value_delimiter = ',', value_parser = pts, conflicts_with_all = ["seconds", "quick", "bs", "max_depth", "read_only", "no_prep"])]
    pub pts: Vec<Pts>,
    /// Length of a job of --pts [default: 60 as SNIA specifies; on simulated drives 2]
    #[arg(long, value_name = "TIME", requires = "pts", allow_hyphen_values = true, value_parser = seconds)]
    pub pts_round: Option<u32>,
    #[command(flatten)]
    pub series: SeriesOptions,
    /// Do not prepare devices; an empty drive is faster than a used drive
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each job
    /// [default: flashproof-results/baseline-SERIAL-TIME, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl BaselineOptions {
    /// Time under load, seconds.
    pub fn seconds(&self) -> u64 {
        u64::from(if self.quick { QUICK_SEC } else { self.seconds })
    }
}

/// Parses the size of an operation in fio's syntax.
fn block_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_number(text, BYTES)?;
    match bytes {
        512..=LARGE_BYTES if bytes.is_multiple_of(512) => Ok(bytes),
        _ => Err(format!(
            "give a multiple of 512 up to {LARGE_BYTES}, such as 4k or 1536"
        )),
    }
}

fn pts(text: &str) -> Result<Pts, String> {
    let test = Pts::ALL
        .into_iter()
        .find(|test| test.option_name() == text.trim());
    test.ok_or_else(|| "the tests are iops, throughput, latency and saturation".to_owned())
}

/// Parses the maximum depth of the sweep.
fn depth(text: &str) -> Result<u32, String> {
    let depth = text
        .trim()
        .parse()
        .ok()
        .filter(|depth: &u32| depth.is_power_of_two() && *depth <= 4_096);
    depth.ok_or_else(|| "give a power of two from 1 to 4096".to_owned())
}

pub(super) struct BaselineSetup {
    /// Jobs and their times.
    pub form: BaselineRequest,
    /// Devices by the user's names.
    pub devices: Vec<String>,
    no_prep: bool,
    /// Load that contains the operations of all jobs, on each device.
    widest: FioLoad,
}

impl BaselineSetup {
    /// The request in `args`. Errors: invalid options or files.
    pub(super) fn from_options(args: &BaselineOptions) -> Result<Self, Failure> {
        let simulated: Vec<_> = parsed(&args.devices)?
            .iter()
            .map(|name| name.drive().is_some())
            .collect();
        if let Some(duplicate) =
            (1..args.devices.len()).find(|at| args.devices[..*at].contains(&args.devices[*at]))
        {
            return Err(Failure::usage(format!(
                "cannot measure {} twice at the same time - name each device once",
                quoted(&args.devices[duplicate])
            )));
        }
        let is_simulated = simulated.contains(&true);
        if is_simulated && simulated.contains(&false) {
            return Err(Failure::usage(
                "cannot measure simulated and real drives at the same time - simulated drives do not run in real time \
                 - measure them separately",
            ));
        }
        if let Some(file) = args
            .devices
            .iter()
            .find(|name| std::fs::metadata(name).is_ok_and(|of| of.is_file()))
        {
            return Err(Failure::usage(format!(
                "cannot measure {} - it is a file, so the result would include the file system - name a block device, \
                 or run single jobs with flashproof fio",
                quoted(file)
            )));
        }
        let mut block_sizes = Vec::new();
        for bytes in &args.bs {
            if !block_sizes.contains(bytes) {
                block_sizes.push(*bytes);
            }
        }
        let pts_sec = if is_simulated {
            SIMULATED_PTS_SEC
        } else {
            PTS_SEC
        };
        let form = BaselineRequest {
            seconds: args.seconds(),
            simulated: is_simulated,
            read_only: args.read_only,
            block_sizes,
            depth_max: args.max_depth,
            pts: Pts::ALL
                .into_iter()
                .filter(|test| {
                    args.pts
                        .iter()
                        .any(|asked| asked.option_name() == test.option_name())
                })
                .collect(),
            pts_sec: args.pts_round.map_or(pts_sec, u64::from),
            // A power of two, so that every depth can be divided among the threads.
            threads: if is_simulated {
                1
            } else {
                1 << cpus().min(PTS_THREADS).ilog2()
            },
            // Replaced when the devices are examined.
            min_io_bytes: 512,
        };
        if form.pts.is_empty() && form.seconds < form.seconds_min() {
            return Err(Failure::usage(format!(
                "cannot measure a drive in {} - its jobs take at least {} - give --duration {}s or more",
                span(form.seconds),
                span(form.seconds_min()),
                form.seconds_min()
            )));
        }
        let read_pct = if form.read_only { 100 } else { 50 };
        let widest = Job {
            read_pct,
            bytes: [largest(&form); 2],
            ..Job::default()
        };
        let on_all: Vec<_> = (0..args.devices.len())
            .map(|device| (device, widest.clone()))
            .collect();
        let widest = load_of(&args.devices, form.read_only, &on_all)?;
        Ok(Self {
            form,
            devices: args.devices.clone(),
            no_prep: args.no_prep || args.read_only,
            widest,
        })
    }

    /// Duration or SNIA tests, as part of a directory's name.
    pub(super) fn name(&self) -> String {
        if !self.form.pts.is_empty() {
            return format!("pts-{}", self.tests().join("-"));
        }
        let reads = if self.form.read_only { "-reads" } else { "" };
        format!("{}{reads}", span(self.form.seconds).replace(' ', ""))
    }

    /// Names of the requested SNIA tests.
    fn tests(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self
            .form
            .pts
            .iter()
            .map(|test| test.option_name())
            .collect();
        names.dedup();
        names
    }

    /// Remarks for readers of SNIA's tests: the procedure, and deviations from it.
    pub(super) fn remarks(&self) -> Vec<String> {
        if self.form.pts.is_empty() {
            return Vec::new();
        }
        let mut remarks = vec![format!(
            "run by the procedure of SNIA's PTS 2.0.2 with {PTS_THREADS} threads of queue depth {PTS_DEPTH} \
             (throughput: one thread); not a result certified by SNIA"
        )];
        if self.form.pts_sec != PTS_SEC {
            remarks.push(format!(
                "the jobs lasted {}, not {} as SNIA specifies",
                span(self.form.pts_sec),
                span(PTS_SEC)
            ));
        }
        if self.form.simulated {
            remarks.push(
                "the drive is simulated: it was neither purged nor preconditioned".to_owned(),
            );
        }
        if self.form.min_io_bytes > 512 {
            remarks.push(format!(
                "operations smaller than {} were left out: the drive does not support them",
                size(self.form.min_io_bytes)
            ));
        }
        remarks
    }

    pub(super) fn spec(&self) -> RunSpec {
        self.widest.spec()
    }

    /// The load of `jobs`, run at the same time, each with the number of its device.
    pub(super) fn load(&self, jobs: &[(usize, Job)]) -> Result<FioLoad, Failure> {
        load_of(&self.devices, self.form.read_only, jobs)
    }

    /// Opens the devices read-only, before hours are spent, to find their smallest I/O. Errors: a device cannot be
    /// opened, is too small, or does not support one of the sizes.
    pub(super) fn probe_devices(&mut self) -> Result<(), Failure> {
        let reads = Job {
            read_pct: 100,
            ..Job::default()
        };
        let on_all: Vec<_> = (0..self.devices.len())
            .map(|device| (device, reads.clone()))
            .collect();
        let reads = load_of(&self.devices, true, &on_all)?;
        let consents = Consents {
            erase: &[],
            other_devices: &[],
            shared: true,
        };
        let devices = Devices::open(&reads.spec(), &[&reads], &consents)?;
        for shape in devices.shapes() {
            let min_io = u64::from(shape.min_io_bytes);
            if let Some(bytes) = self
                .form
                .block_sizes
                .iter()
                .find(|bytes| !bytes.is_multiple_of(min_io) && self.form.pts.is_empty())
            {
                return Err(Failure::usage(format!(
                    "cannot measure {} with operations of {bytes} bytes - direct I/O on this device needs multiples of \
                     {min_io} bytes - give such a size (--bs)",
                    shape.name
                )));
            }
        }
        self.form.min_io_bytes = devices
            .shapes()
            .iter()
            .map(|shape| shape.min_io_bytes.into())
            .max()
            .unwrap_or(self.form.min_io_bytes);
        if let Some(test) = self.form.untracked() {
            return Err(Failure::usage(format!(
                "cannot run the {} test of SNIA's PTS - a drive supports no operations below {} bytes, and the test \
                 needs smaller ones - leave the test out of --pts",
                test.option_name(),
                self.form.min_io_bytes
            )));
        }
        let largest = largest(&self.form);
        if let Some(small) = devices
            .shapes()
            .iter()
            .find(|shape| shape.size_bytes < largest)
        {
            return Err(Failure::usage(format!(
                "cannot measure {} - it has {} bytes, too few for jobs with operations of {largest} bytes - use a \
                 larger device",
                small.name, small.size_bytes
            )));
        }
        Ok(())
    }

    /// Opens the devices for the whole series; with the guard's consent, unless read-only.
    pub(super) fn open(&self, erase: &[String]) -> Result<OpenDevices, Failure> {
        let spec = self.spec();
        let consents = Consents::erasing(erase);
        let devices = Devices::open(&spec, &[&self.widest], &consents)?;
        let engine = Engine::choose(&EngineDemand::new(&spec, &[&self.widest]), &devices)?
            .with_persistent_drives();
        Ok(OpenDevices { devices, engine })
    }

    pub(super) fn series(&self, devices: Vec<DriveIdentity>, unprepared: &[String]) -> Series {
        let sizes: Vec<_> = self
            .form
            .block_sizes
            .iter()
            .map(|bytes| size(*bytes))
            .collect();
        let access = if self.form.read_only {
            "reads only"
        } else {
            "reads and writes"
        };
        let prepared = if self.no_prep {
            "none"
        } else {
            "before the first job"
        };
        let tests = if self.form.pts.is_empty() {
            "none".to_owned()
        } else {
            format!(
                "{}, in jobs of {}",
                self.tests().join(", "),
                span(self.form.pts_sec)
            )
        };
        let terms = [
            ("time under load", span(self.form.seconds)),
            ("sizes", sizes.join(", ")),
            ("largest depth", self.form.depth_max.to_string()),
            ("tests of SNIA's PTS 2.0.2", tests),
            ("access", access.to_owned()),
            ("preparation", prepared.to_owned()),
            (JOBS, self.form.jobs_min().to_string()),
            (NOT_PREPARED, unprepared.join(", ")),
        ];
        series::new_series(SeriesPurpose::Baseline, devices, String::new(), terms)
    }
}

/// Largest operation of the jobs, bytes.
fn largest(form: &BaselineRequest) -> u64 {
    form.pts
        .iter()
        .flat_map(|test| test.jobs())
        .map(|(_, bytes)| bytes)
        .max()
        .unwrap_or(LARGE_BYTES)
}

/// The load of `jobs`. Each job has the index of its device in `devices`.
fn load_of(devices: &[String], readonly: bool, jobs: &[(usize, Job)]) -> Result<FioLoad, Failure> {
    let section = |(device, job): &(usize, Job)| job.section(&job_name(*device), &devices[*device]);
    let sections: Vec<_> = jobs.iter().map(section).collect();
    fio_run::load_of(&sections, readonly)?
        .ok_or_else(|| Failure::usage("there is no device to measure"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_are_multiples_of_512_bytes_and_depths_are_powers_of_two_up_to_4096() {
        assert_eq!(
            (block_bytes("4k"), block_bytes("1536"), block_bytes("128k")),
            (Ok(4096), Ok(1536), Ok(131_072))
        );
        assert!(
            ["0", "100", "4k4", "1m", "", "-4k", "4097"]
                .iter()
                .all(|text| block_bytes(text).is_err())
        );
        assert_eq!((depth("1"), depth("4096")), (Ok(1), Ok(4096)));
        assert!(
            ["0", "3", "8192", "-1", "x"]
                .iter()
                .all(|text| depth(text).is_err())
        );
    }
}
