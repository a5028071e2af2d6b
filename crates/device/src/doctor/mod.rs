//! The doctor: finds properties of the host and the devices that distort results, and gives remedies.
//!
//! ```text
//! names -> DeviceState (facts, sysfs) -> one file per family of checks -> Findings -> Vec<Finding>
//! ```
//!
//! A check adds one [`Finding`], or one for each user of a device (`in-use`). A check that cannot be made adds a
//! finding of [`Severity::Unknown`](results::finding::Severity). Counters (CPU time, I/O of other programs) are read
//! twice, [`MOMENT`] apart, for all devices together.
//!
//! The doctor writes nothing and decides nothing: [`crate::guard`] decides on erasure, and the check `in-use` uses the
//! guard. docs/doctor.md describes each check: its sources, and why it matters.

mod attachment;
mod host;
mod in_use;
mod kind;
mod media;

use crate::discover::{self, DeviceFacts, Resolved, SysDir};
use crate::guard::{PreparationState, PreparedSamples, Records, SampleReader};
use crate::observe::diskstats::Counters;
use crate::observe::host::{Ticks, value_of_key};
use crate::observe::nvme::fdp::Fdp;
pub use attachment::Attachment;
pub use in_use::IN_USE;
use media::SmartReader;
pub use media::{WORN_PCT, read_smart};
use results::finding::{Finding, Severity};
use results::parallel::in_parallel;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between the two readings of counters.
const MOMENT: Duration = Duration::from_millis(300);

/// Examines the host, the devices named in `devices`, and the file system of the run directory `run_dir`. Takes well
/// under a second, including a sleep of [`MOMENT`].
///
/// `root` is `/` except in tests. With another root, names are kernel names (`/dev/nvme0n1`), and nothing is opened. A
/// name that leads nowhere gives a finding, too.
///
/// Order: the host, then each device in the order of `devices`; for each, in the order of the checks.
pub fn examine<S: AsRef<str>>(root: &Path, devices: &[S], run_dir: Option<&Path>) -> Vec<Finding> {
    Doctor::new(root).examine(devices, run_dir)
}

/// Findings worth showing about disks that will not be written. For such a disk, the finding that it is in use is only
/// a note. For a disk in use, findings that matter only for a test (preparation, other activity) are dropped.
pub fn without_tests(findings: Vec<Finding>) -> Vec<Finding> {
    const OF_TESTS: [&str; 4] = [
        "preparation",
        "over-provisioning",
        "other-activity",
        "run-directory-place",
    ];
    let is_refused =
        |finding: &Finding| finding.check == IN_USE && finding.level == Severity::Problem;
    let in_use: Vec<String> = findings
        .iter()
        .filter(|it| is_refused(it))
        .filter_map(|it| it.device.clone())
        .collect();
    let mut shown = Vec::new();
    for finding in findings {
        let is_in_use = finding
            .device
            .as_ref()
            .is_some_and(|device| in_use.contains(device));
        if is_in_use && OF_TESTS.contains(&finding.check.as_str()) {
            continue;
        }
        shown.push(if is_refused(&finding) {
            Finding {
                level: Severity::Note,
                reason: "the disk cannot be tested while it is in use".to_owned(),
                ..finding
            }
        } else {
            finding
        });
    }
    shown
}

/// Everything that the checks use and that tests replace: records, readers and waiting time.
struct Doctor {
    root: PathBuf,
    records: Records,
    smart_reader: SmartReader,
    sample_reader: SampleReader,
    counter_interval: Duration,
}

impl Doctor {
    /// Preparation records are used only if `root` is `/`.
    fn new(root: &Path) -> Self {
        let is_here = root == Path::new("/");
        Self {
            root: root.to_path_buf(),
            records: if is_here {
                Records::open(None)
            } else {
                Records::without_dir()
            },
            // The drives of a fake tree cannot be queried.
            smart_reader: if is_here {
                |facts| read_smart(Path::new("/"), facts)
            } else {
                |_| Err("it is not a drive of this machine".to_owned())
            },
            sample_reader: PreparedSamples::read,
            counter_interval: if is_here { MOMENT } else { Duration::ZERO },
        }
    }

    fn examine<S: AsRef<str>>(&self, devices: &[S], run_dir: Option<&Path>) -> Vec<Finding> {
        let find = |name: &S| DeviceState::find(name.as_ref(), &self.root);
        let lookups: Vec<_> = devices
            .iter()
            .map(|name| (name.as_ref(), find(name)))
            .collect();
        let found_devices: Vec<&DeviceState> = lookups
            .iter()
            .filter_map(|(_, device)| device.as_ref().ok())
            .collect();
        // The counters are read after these samples, so that the samples do not count as I/O of another program.
        let states = in_parallel(&lookups, |(_, device)| {
            let facts = &device.as_ref().ok()?.facts;
            Some(PreparationState::with(
                facts,
                &self.records,
                self.sample_reader,
            ))
        });

        let started = Instant::now();
        let cpu_before = Ticks::read(&self.root);
        let io_before: Vec<_> = found_devices
            .iter()
            .map(|device| device.counters())
            .collect();

        let mut host = Findings::default();
        host::check(&self.root, &mut host);
        attachment::check_balancer(&self.root, &mut host);
        let mut device_findings: Vec<Findings> = lookups
            .iter()
            .zip(states)
            .map(|((name, device), state)| self.check_device(name, device, state, run_dir))
            .collect();
        if let Some(dir) = run_dir {
            in_use::check_free_space(dir, &mut host);
        }

        std::thread::sleep(self.counter_interval.saturating_sub(started.elapsed()));
        let interval = started.elapsed();
        host::check_time(cpu_before, Ticks::read(&self.root), &mut host);
        let findings_with_device = device_findings
            .iter_mut()
            .zip(&lookups)
            .filter_map(|(findings, (_, found))| Some((findings, found.as_ref().ok()?)));
        for ((findings, device), before) in findings_with_device.zip(io_before) {
            in_use::check_activity(before, device.counters(), interval, findings);
        }
        std::iter::once(host)
            .chain(device_findings)
            .flat_map(|about| about.findings)
            .collect()
    }

    fn check_device(
        &self,
        name: &str,
        device: &Result<DeviceState, String>,
        state: Option<PreparationState>,
        run_dir: Option<&Path>,
    ) -> Findings {
        const WHY: &str = "nothing can be measured on it";
        let mut findings = Findings {
            device: Some(name.to_owned()),
            ..Findings::default()
        };
        let device = match device {
            Ok(device) => device,
            Err(why) => {
                let (finding, remedy) = why
                    .split_once("; ")
                    .unwrap_or((why, "`flashproof doctor` lists the devices"));
                findings.check("device", WHY).problem(finding, remedy);
                return findings;
            }
        };
        if device.disk.is_some() && device.facts.size_bytes == 0 {
            let remedy = "attach a medium or a file, or name another device";
            findings
                .check("device", WHY)
                .problem("it has no bytes: nothing is attached to it", remedy);
            return findings;
        }
        in_use::check(device, &self.root, &mut findings);
        kind::check(device, &mut findings);
        attachment::check_controller(device, &mut findings);
        if device.disk.is_some() {
            kind::check_queue(device, &mut findings);
            attachment::check_link(device, &mut findings);
            attachment::check_interrupts(device, &self.root, &mut findings);
            attachment::check_node(device, &self.root, &mut findings);
            media::check_temperature(device, &self.root, &mut findings);
            media::check_health(device, self.smart_reader, &mut findings);
            // Only drives of this machine can be queried.
            if self.root == Path::new("/") {
                media::check_placement(Fdp::read(&self.root, &device.facts), &mut findings);
            }
        }
        if let Some(state) = state {
            media::check(device, &state, &self.records, &mut findings);
        }
        if let Some(dir) = run_dir {
            in_use::check_place(dir, device, &mut findings);
        }
        findings
    }
}

#[derive(Debug)]
struct DeviceState {
    facts: DeviceFacts,
    resolved: Resolved,
    /// `None` for a file.
    disk: Option<SysDir>,
    /// Directory of the device; for a partition, a subdirectory of the disk's directory.
    dir: Option<SysDir>,
}

impl DeviceState {
    /// Errors: no such device or file; the text has the remedy after a semicolon.
    fn find(name: &str, root: &Path) -> Result<Self, String> {
        let resolved = if root == Path::new("/") {
            discover::resolve(Path::new(name), root).map_err(|error| error.to_string())?
        } else {
            by_kernel_name(name, root).ok_or("there is no such device or file")?
        };
        let facts = discover::facts_of(name, &resolved, root).map_err(|error| error.to_string())?;
        let dir = facts
            .number
            .and_then(|number| SysDir::of_block(root, number));
        Ok(Self {
            facts,
            resolved,
            disk: dir.as_ref().map(SysDir::disk),
            dir,
        })
    }

    /// Directories in sysfs from the disk upwards; if the drive has several paths, also from the first controller up.
    fn above(&self) -> Vec<SysDir> {
        let Some(disk) = &self.disk else {
            return Vec::new();
        };
        let controllers = discover::controllers(disk);
        disk.ancestors()
            .chain(controllers.iter().take(1).flat_map(SysDir::ancestors))
            .collect()
    }

    fn linked(&self) -> Option<SysDir> {
        self.above()
            .into_iter()
            .find(|dir| dir.text("current_link_speed").is_some())
    }

    /// Names of the drivers above the disk, from the disk outwards: `mpt3sas`, `pcieport`.
    fn drivers(&self) -> Vec<String> {
        let device = self.disk.iter().map(|disk| disk.child("device"));
        let mut names: Vec<String> = Vec::new();
        for name in device
            .chain(self.above())
            .filter_map(|dir| dir.link_name("driver"))
        {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// False for a device made by software or a hypervisor: a missing fact is worth a finding only for hardware.
    fn is_hardware(&self) -> bool {
        let transport = self.facts.transport.as_deref().unwrap_or_default();
        ["nvme-pcie", "sata", "sas", "usb", "nvme"].contains(&transport)
    }

    /// I/O counters since boot; `None` if they are disabled.
    fn counters(&self) -> Option<Counters> {
        Counters::read(self.disk.as_ref()?)
    }
}

fn by_kernel_name(name: &str, root: &Path) -> Option<Resolved> {
    let kernel_name = name
        .strip_prefix("/dev/")
        .filter(|name| !name.is_empty() && !name.contains('/'))?;
    // The node does not exist, so nothing is opened.
    Some(Resolved::Block {
        number: SysDir::of_name(kernel_name, root).dev()?,
        node: PathBuf::from("/nonexistent"),
    })
}

/// Source: proc_pid_status(5).
fn own_status(key: &str, root: &Path) -> Option<String> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    value_of_key(&status, key, ':').map(str::to_owned)
}

/// Findings about a device (as the user named it) or about the host, in the order of the checks.
#[derive(Debug, Default)]
struct Findings {
    device: Option<String>,
    findings: Vec<Finding>,
}

impl Findings {
    /// `reason`: why the check matters.
    fn check(&mut self, name: &'static str, reason: &'static str) -> HostCheck<'_> {
        HostCheck {
            findings: self,
            name,
            reason,
        }
    }
}

struct HostCheck<'a> {
    findings: &'a mut Findings,
    name: &'static str,
    reason: &'static str,
}

impl HostCheck<'_> {
    fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    /// Adds the finding of a passed check, which needs neither reason nor remedy.
    fn ok(self, finding: impl Into<String>) {
        self.because("").add_finding(Severity::Ok, finding, "");
    }

    /// Adds a finding about a property that is harmless, but worth knowing.
    fn note(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.add_finding(Severity::Note, finding, remedy);
    }

    /// Adds the finding that the check could not be made.
    fn unknown(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.add_finding(Severity::Unknown, finding, remedy);
    }

    /// Adds a finding about a property that can distort the result of a run.
    fn warning(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.add_finding(Severity::Warning, finding, remedy);
    }

    /// Adds a finding about a property that will distort the result of a run.
    fn problem(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.add_finding(Severity::Problem, finding, remedy);
    }

    fn add_finding(self, level: Severity, finding: impl Into<String>, remedy: impl Into<String>) {
        self.findings.findings.push(Finding {
            check: self.name.to_owned(),
            level,
            device: self.findings.device.clone(),
            finding: finding.into(),
            reason: self.reason.to_owned(),
            remedy: remedy.into(),
        });
    }
}

#[cfg(test)]
mod tests;
