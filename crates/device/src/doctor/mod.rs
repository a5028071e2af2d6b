//! The doctor: finds properties of the host and the devices that spoil a result, and gives remedies.
//!
//! ```text
//! names -> DeviceState (facts, sysfs) -> one file per family of checks -> Findings -> Vec<Finding>
//! ```
//!
//! Each check leaves one [`Finding`] in any case: [`Level::Unknown`](results::finding::Level) if it cannot be done.
//! Counters (CPU, I/O of others) are read twice, a [`MOMENT`] apart, for all devices at once.
//!
//! Nothing is written, and nothing decided: [`crate::guard`] decides on erasure, and the check `in-use` uses it.
//! docs/doctor.md describes for each check what it reads and why it matters.

mod between;
mod device_state;
mod host;
mod in_use;
mod kind;
mod media;
mod placement;
#[cfg(test)]
mod tests;

pub use between::Attachment;
pub use in_use::IN_USE;
pub use media::{SmartReader, ask_drive};

use crate::discover::Roots;
use crate::guard::Records;
use crate::observe::nvme::fdp::Fdp;
use device_state::{DeviceState, Findings};
use results::finding::Finding;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between the two readings of counters.
pub const MOMENT: Duration = Duration::from_millis(300);

/// Examines the host, the devices called `devices` and the place of the run directory `run_dir`, with the means of this
/// machine. Takes well under a second, [`MOMENT`] of it asleep.
///
/// `root` is `/` but in tests; below another one, names are the kernel's (`/dev/nvme0n1`) and nothing is
/// opened. A name that leads nowhere is a finding, too.
///
/// Shape: first the host's, then each device's in the order of `devices`; within, the order of the checks.
pub fn examine<S: AsRef<str>>(root: &Path, devices: &[S], run_dir: Option<&Path>) -> Vec<Finding> {
    Doctor::new(root).examine(devices, run_dir)
}

/// Examines hosts and devices with chosen means.
pub struct Doctor<'a> {
    root: PathBuf,
    roots: Roots,
    records: Records,
    smart: SmartReader<'a>,
    moment: Duration,
}

impl<'a> Doctor<'a> {
    /// A doctor of the machine at `root`. Only of the running one are records of preparations read.
    pub fn new(root: &Path) -> Self {
        let is_here = root == Path::new("/");
        Self {
            root: root.to_path_buf(),
            roots: Roots::below(root),
            records: if is_here { Records::open(None) } else { Records::nowhere() },
            smart: smart_reader(root),
            moment: if is_here { MOMENT } else { Duration::ZERO },
        }
    }

    /// Reads SMART logs with `smart`.
    pub fn with_smart(self, smart: SmartReader<'a>) -> Self {
        Self { smart, ..self }
    }

    /// Knows of preparations from `records`.
    pub fn with_records(self, records: Records) -> Self {
        Self { records, ..self }
    }

    /// As the function [`examine`].
    pub fn examine<S: AsRef<str>>(&self, devices: &[S], run_dir: Option<&Path>) -> Vec<Finding> {
        let names: Vec<&str> = devices.iter().map(AsRef::as_ref).collect();
        let found: Vec<_> =
            names.iter().map(|name| (*name, DeviceState::find(name, &self.root, &self.roots))).collect();
        let patients: Vec<&DeviceState> = found.iter().filter_map(|(_, device)| device.as_ref().ok()).collect();

        let begun = Instant::now();
        let cpu_before = host::CpuTimes::read(&self.roots);
        let io_before: Vec<_> = patients.iter().map(|device| device.counters()).collect();

        let mut host = Findings::of_host();
        host::check(&self.root, &mut host);
        between::check_balancer(&self.roots, &mut host);
        let mut sheets: Vec<Findings> =
            found.iter().map(|(name, device)| self.check_device(name, device, run_dir)).collect();
        if let Some(dir) = run_dir {
            in_use::check_room(dir, &mut host);
        }

        std::thread::sleep(self.moment.saturating_sub(begun.elapsed()));
        let apart = begun.elapsed();
        host::check_time(cpu_before, host::CpuTimes::read(&self.roots), &mut host);
        let with_patient =
            sheets.iter_mut().zip(&found).filter_map(|(findings, (_, found))| Some((findings, found.as_ref().ok()?)));
        for ((findings, device), before) in with_patient.zip(io_before) {
            in_use::check_activity(before, device.counters(), apart, findings);
        }
        std::iter::once(host).chain(sheets).flat_map(Findings::into_findings).collect()
    }

    fn check_device(&self, name: &str, device: &Result<DeviceState, String>, run_dir: Option<&Path>) -> Findings {
        const WHY: &str = "nothing can be measured on it";
        let mut findings = Findings::of_device(name);
        let device = match device {
            Ok(device) => device,
            Err(why) => {
                let (finding, remedy) = why.split_once("; ").unwrap_or((why, "`flashproof doctor` lists what is here"));
                findings.check("device", WHY).problem(finding, remedy);
                return findings;
            }
        };
        if device.disk.is_some() && device.facts.size_bytes == 0 {
            let remedy = "attach a medium or a file, or name another device";
            findings.check("device", WHY).problem("it has no bytes: nothing is attached to it", remedy);
            return findings;
        }
        in_use::check(device, &self.roots, &mut findings);
        kind::check(device, &mut findings);
        between::check_controller(device, &mut findings);
        if device.disk.is_some() {
            kind::check_queue(device, &mut findings);
            between::check_link(device, &mut findings);
            between::check_interrupts(device, &self.root, &self.roots, &mut findings);
            between::check_node(device, &self.roots, &mut findings);
            media::check_temperature(device, &self.root, &mut findings);
            media::check_health(device, &self.smart, &mut findings);
            // Only drives of this machine can be asked.
            if self.root == Path::new("/") {
                placement::check(Fdp::of(&self.root, &device.facts), &mut findings);
            }
        }
        media::check(device, &self.records, &mut findings);
        if let Some(dir) = run_dir {
            in_use::check_place(dir, device, &mut findings);
        }
        findings
    }
}

/// Queries drives of the running machine; other trees have none.
fn smart_reader(root: &Path) -> SmartReader<'static> {
    match root == Path::new("/") {
        true => Box::new(|facts| media::ask_drive(Path::new("/"), facts)),
        false => Box::new(|_| Err("it is not a drive of this machine".to_owned())),
    }
}
