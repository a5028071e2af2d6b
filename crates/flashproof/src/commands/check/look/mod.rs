//! A look at a disk, `flashproof check PATH`: the doctor's answer, and a minute of light load. A look erases nothing:
//! its job on a device only reads, so the device is opened read-only. In a directory the look has files of its own.

use super::definition::Definition;
use super::run::CompletedRun;
use super::site::{cannot_check, directory_or_device};
use conclusions::check::{CheckMetric, CheckResult, Figures, Look};
use device::discover::{DeviceFacts, DeviceNumber, discover, disks_beneath};
use device::doctor::{self, IN_USE};
use engine::sim::SIM_PREFIX;
use report::findings::{count, headline};
use results::finding::{Finding, Severity};
use results::format::{Grouped, duration, number, shell_quoted, span_of};
use results::judge::Outcome;
use session::failure::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const ON_DEVICE: &str = include_str!("device.toml");
const IN_DIRECTORY: &str = include_str!("directory.toml");

/// Operations per second that even the slowest SSD or hard disk sustains.
const SSD_RATE: u64 = 1_000;
const HARD_DISK_RATE: u64 = 100;

/// On a disk in use, the rate is divided by this number, so that other users are hardly disturbed.
const PART_IN_USE: u64 = 10;

const IS_IN_USE: &str = "is in use";
const MAY_BE_IN_USE: &str = "may be in use";

/// The answer names each stream that completed less than this fraction of its rate.
const CARRIED_OUT: f64 = 0.99;

/// Percentiles, highest first. The answer has the first percentile for which there are enough operations.
pub const PERCENTS: [f64; 3] = [99.9, 99.0, 90.0];

#[derive(Debug)]
pub struct LookRequest {
    path: String,
    is_directory: bool,
    /// `is in use`, or `may be in use` if the doctor cannot exclude it; `None` if nobody uses the disk.
    in_use: Option<&'static str>,
    /// Operations per second of each job.
    rate: u64,
    /// The doctor's findings about the host and the disks.
    pub findings: Vec<Finding>,
    /// Directory at which the device is mounted.
    mount_point: Option<String>,
}

impl LookRequest {
    /// Examines the disks beneath `path`, a directory, a device or a simulated drive.
    pub fn at(path: &str, run_dir: &Path) -> Result<Self, Failure> {
        let mut look = Self {
            path: path.to_owned(),
            is_directory: false,
            in_use: None,
            rate: SSD_RATE,
            findings: Vec::new(),
            mount_point: None,
        };
        if path.starts_with(SIM_PREFIX) {
            return Ok(look);
        }
        let metadata = directory_or_device(path).map_err(|why| cannot_check(path, why))?;
        look.is_directory = metadata.is_dir();
        let mut devices = Vec::new();
        let number = if look.is_directory {
            Some(DeviceNumber::of_stat(metadata.dev()))
        } else {
            devices.push(path.to_owned());
            let facts = discover(path, Path::new("/"));
            facts
                .map_err(|error| cannot_check(path, error.to_string()))?
                .number
        };
        let disks = number.map_or_else(Vec::new, |number| disks_beneath(number, Path::new("/")));
        // Also examine the whole disks: other partitions or volumes on them may be in use.
        let names = disks.iter().filter_map(DeviceFacts::disk_name);
        for name in names.map(|name| format!("/dev/{name}")) {
            if fs::canonicalize(path).ok().as_deref() != Some(Path::new(&name)) {
                devices.push(name);
            }
        }
        let findings = doctor::examine(Path::new("/"), &devices, Some(run_dir));
        look.in_use = if look.is_directory {
            Some(IS_IN_USE)
        } else {
            let uses = findings.iter().filter_map(use_by_others);
            // "is in use" sorts before "may be in use": certainty wins.
            uses.min()
        };
        let is_hard_disk = disks.iter().any(|disk| disk.rotational == Some(true));
        let full = if is_hard_disk {
            HARD_DISK_RATE
        } else {
            SSD_RATE
        };
        look.rate = look.in_use.map_or(full, |_| full / PART_IN_USE);
        look.findings = doctor::without_tests(findings);
        look.mount_point = number.and_then(mount_point);
        Ok(look)
    }

    pub fn definition(&self) -> Result<Definition, Failure> {
        let text = if self.is_directory {
            IN_DIRECTORY
        } else {
            ON_DEVICE
        };
        Definition::parse("look", &text.replace("=RATE", &format!("={}", self.rate)))
    }

    pub fn writes_files(&self) -> bool {
        self.is_directory
    }

    /// Why a complete run does not show the disk's performance; `None` if the run is valid.
    pub fn why_invalid(&self, run: &CompletedRun) -> Option<String> {
        let zeros = run.reads_of_zeros;
        let is_blank = zeros > 0
            && run
                .figures("data-reads")
                .is_some_and(|reads| reads.ops == 0);
        let never_written = is_blank.then(|| {
            format!(
                "never written (all {} sampled blocks are zeros): a new or trimmed drive answers without \
                 reading its flash",
                Grouped(zeros)
            )
        });
        never_written
            .or_else(|| run.busy_host.clone())
            .filter(|_| run.run.outcome == Outcome::Measured)
    }

    /// Adds the lines of the look to the concluded `check`.
    pub fn conclude(&self, check: &mut CheckResult, run: &CompletedRun) {
        if check.outcome == Outcome::Measured {
            check.sentence = self.measured(run);
        }
        let doctor = if self.path.starts_with(SIM_PREFIX) {
            "the drive is simulated: there is nothing to examine".to_owned()
        } else {
            headline(&self.findings).sentence
        };
        check.look = Some(Look {
            doctor,
            meaning: self.meaning(check, run),
            next: self.next(check.outcome),
        });
    }

    /// Latencies, rate and failures, in one sentence.
    fn measured(&self, run: &CompletedRun) -> String {
        let mut parts = Vec::new();
        if let Some(reads) = run.figures("data-reads") {
            let all = reads.ops + run.reads_of_zeros;
            let of = if run.reads_of_zeros > 0 {
                format!(
                    " of written blocks ({} of {}; the others are zeros)",
                    Grouped(reads.ops),
                    Grouped(all)
                )
            } else {
                String::new()
            };
            parts.push(format!("reads of 4 KiB{of}: {}", latencies(reads)));
        }
        if let Some(commits) = run.figures("log-commits") {
            parts.push(format!("commits of 4 KiB: {}", latencies(commits)));
        }
        let mut rates = not_carried_out(run);
        if rates.is_empty() {
            rates.push(format!("{}/s", Grouped(self.rate)));
        }
        let cap = self.in_use.map_or_else(String::new, |in_use| {
            format!(", a tenth of the usual rate, because the disk {in_use}")
        });
        parts.push(format!(
            "{} for {}{cap}",
            rates.join(", "),
            span_of(run.run.seconds)
        ));
        parts.push("nothing failed".to_owned());
        parts.join("; ")
    }

    fn meaning(&self, check: &CheckResult, run: &CompletedRun) -> String {
        let [noun, stream] = if self.is_directory {
            ["commit", "log-commits"]
        } else {
            ["read", "data-reads"]
        };
        let figures = run.figures(stream).filter(|figures| figures.ops > 0);
        let untested = check.cannot_see.join(", ");
        match (check.outcome, figures) {
            (Outcome::Fail, _) => "The disk does not carry out even a light load: save its data, then look for the cause \
                                   in the kernel log (dmesg)"
                .to_owned(),
            (Outcome::Measured, Some(_)) if !not_carried_out(run).is_empty() => format!(
                "The disk is too slow for this load, so most of each latency is time in a queue. Not tested: {untested}"
            ),
            (Outcome::Measured, Some(figures)) => format!(
                "A program that waits for each {noun} gets about {}/s, except while the disk stalls (up to {}). Not \
                 tested: {untested}",
                number(two_digits(1e9 / median_ns(figures).max(1.0))),
                slowest(figures)
            ),
            (_, None) if run.reads_of_zeros > 0 => format!(
                "Only the controller was measured: to measure the flash, first write the drive (flashproof prep {}: it \
                 ERASES the drive)",
                shell_quoted(&self.path)
            ),
            _ => "The disk was not judged: remove the cause above, then look again".to_owned(),
        }
    }

    fn next(&self, outcome: Outcome) -> String {
        let path = shell_quoted(&self.path);
        let has_problem = count(&self.findings, Severity::Problem) > 0;
        match &self.mount_point {
            _ if outcome == Outcome::Fail || has_problem => {
                let mut devices = self
                    .findings
                    .iter()
                    .filter_map(|finding| finding.device.as_deref());
                let last = devices.next_back();
                format!("flashproof doctor {}", last.map_or(path, shell_quoted))
            }
            _ if self.is_directory => format!("flashproof check all {path}"),
            Some(directory) => format!("flashproof check all {}", shell_quoted(directory)),
            None => format!("flashproof certify {path} --dry-run"),
        }
    }
}

/// Streams that completed fewer operations than their rate, a phrase each.
fn not_carried_out(run: &CompletedRun) -> Vec<String> {
    let late = run
        .streams
        .iter()
        .filter(|stream| stream.achieved_iops < stream.offered_iops * CARRIED_OUT);
    late.map(|stream| {
        let [done, offered] = [stream.achieved_iops, stream.offered_iops].map(number);
        format!("only {done} of {offered}/s of {}", stream.name)
    })
    .collect()
}

/// `is in use` or `may be in use`, if `finding` is about other users of the disk.
fn use_by_others(finding: &Finding) -> Option<&'static str> {
    match (finding.check.as_str(), finding.level) {
        (IN_USE, Severity::Ok) => None,
        (IN_USE, Severity::Unknown) => Some(MAY_BE_IN_USE),
        (IN_USE, _) | ("other-activity", Severity::Warning) => Some(IS_IN_USE),
        _ => None,
    }
}

/// A directory at which the file system of the device `number` is mounted, if its name needs no escape.
fn mount_point(number: DeviceNumber) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let is_it = DeviceNumber::parse(fields.next()?) == Some(number);
        let at = fields.nth(1).filter(|at| is_it && Path::new(at).is_dir())?;
        Some(at.to_owned())
    })
}

fn median_ns(figures: &Figures) -> f64 {
    figures.percentile_ns(50.0).unwrap_or_default()
}

/// Rounds a value of at least 1 to two significant digits.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

fn slowest(figures: &Figures) -> String {
    duration(figures.percentile_ns(100.0).unwrap_or_default() as u64)
}

/// `median 92 us, 99.9 % below 1.1 ms, slowest 4 ms`.
fn latencies(figures: &Figures) -> String {
    let resolved = PERCENTS.into_iter().find_map(|percent| {
        let below = figures.value(CheckMetric::Percentile(percent))?;
        Some(format!("{percent} % below {}, ", duration(below as u64)))
    });
    format!(
        "median {}, {}slowest {}",
        duration(median_ns(figures) as u64),
        resolved.unwrap_or_default(),
        slowest(figures)
    )
}
