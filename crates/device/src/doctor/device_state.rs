//! One device to be examined, with its facts and sysfs directories; and the collector of findings about it or the host.

use crate::discover::{self, DevNum, DeviceFacts, Resolved, Roots, SysDir};
use crate::guard::IoCounters;
use crate::observe::DeviceNumber;
use results::finding::{Finding, Level};
use std::fs;
use std::path::{Path, PathBuf};

/// A device or file that was found.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) facts: DeviceFacts,
    /// Object that its name resolved to.
    pub(super) resolved: Resolved,
    /// Directory of the whole disk in sysfs; `None` for a file.
    pub(super) disk: Option<SysDir>,
    /// Directory of itself: of a partition, that within the disk's.
    pub(super) dir: Option<SysDir>,
}

impl DeviceState {
    /// Finds the device called `name`. Errors: cause and, after a semicolon, remedy.
    pub(super) fn find(name: &str, root: &Path, roots: &Roots) -> Result<Self, String> {
        let resolved = match root == Path::new("/") {
            true => discover::resolve(Path::new(name), roots).map_err(|error| error.to_string())?,
            false => by_kernel_name(name, roots).ok_or("there is no such device or file")?,
        };
        let facts = discover::facts_of(name, &resolved, roots).map_err(|error| error.to_string())?;
        let dir = facts.number.and_then(|number| SysDir::of_block(&roots.sys, number));
        let disk = match facts.partition {
            Some(_) => dir.as_ref().and_then(SysDir::parent),
            None => dir.clone(),
        };
        Ok(Self { facts, resolved, disk, dir })
    }

    /// The kernel's name of the whole disk: `nvme0n1`, also of `nvme0n1p2`.
    pub(super) fn disk_name(&self) -> Option<&str> {
        self.facts.disk_name()
    }

    /// Number of the whole disk.
    pub(super) fn disk_number(&self) -> Option<DeviceNumber> {
        let number = self.facts.disk_number()?;
        Some((number.major, number.minor))
    }

    /// Directories of the disk and of everything above it, from the disk upwards. For a drive with several paths, those
    /// of its first controller follow.
    pub(super) fn above(&self) -> Vec<SysDir> {
        let Some(disk) = &self.disk else { return Vec::new() };
        let up = |first: SysDir| std::iter::successors(Some(first), SysDir::parent);
        let controller = controllers(disk).into_iter().next().map(SysDir::new);
        up(disk.clone()).chain(controller.into_iter().flat_map(up)).collect()
    }

    /// Names of the drivers above the disk, from the disk outwards: `mpt3sas`, `pcieport`.
    pub(super) fn drivers(&self) -> Vec<String> {
        let device = self.disk.iter().map(|disk| disk.child("device"));
        let mut names: Vec<String> = Vec::new();
        for name in device.chain(self.above()).filter_map(|dir| dir.link_name("driver")) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// True for hardware that reports about itself, as opposed to a device made by software or a hypervisor: only for
    /// hardware a missing report is a gap.
    pub(super) fn is_hardware(&self) -> bool {
        let transport = self.facts.transport.as_deref().unwrap_or_default();
        ["nvme-pcie", "sata", "sas", "usb", "nvme"].contains(&transport)
    }

    /// I/O counters since boot; `None` if they are disabled.
    pub(super) fn counters(&self) -> Option<IoCounters> {
        IoCounters::read(self.disk.as_ref()?)
    }
}

/// In a tree that is not this machine's there are no nodes to follow, only the kernel's names.
fn by_kernel_name(name: &str, roots: &Roots) -> Option<Resolved> {
    let kernel_name = name.strip_prefix("/dev/").filter(|name| !name.is_empty() && !name.contains('/'))?;
    let number = fs::read_to_string(roots.sys.join("class/block").join(kernel_name).join("dev")).ok()?;
    // There is no node either, so nothing is opened.
    Some(Resolved::Block { number: DevNum::parse(&number)?, node: PathBuf::from("/nonexistent") })
}

/// The NVMe controllers that the subsystem of a drive with several paths links to.
fn controllers(disk: &SysDir) -> Vec<PathBuf> {
    discover::controllers(disk.path())
}

/// Findings about one thing, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings {
    device: Option<String>,
    findings: Vec<Finding>,
}

impl Findings {
    /// Findings about the host.
    pub(super) fn of_host() -> Self {
        Self::default()
    }

    /// Findings about the device with the user's `name`.
    pub(super) fn of_device(name: &str) -> Self {
        Self { device: Some(name.to_owned()), ..Self::default() }
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// Begins the check `name`, which matters for the reason `why`.
    pub(super) fn check(&mut self, name: &'static str, why: &'static str) -> Check<'_> {
        Check { findings: self, name, why }
    }
}

/// A check without its finding yet.
pub(super) struct Check<'a> {
    findings: &'a mut Findings,
    name: &'static str,
    why: &'static str,
}

impl Check<'_> {
    /// The same check, for another reason.
    pub(super) fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// As it should be.
    pub(super) fn ok(self, finding: impl Into<String>) {
        self.because("").is(Level::Ok, finding, "");
    }

    /// Harmless, but worth knowing.
    pub(super) fn note(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.is(Level::Note, finding, remedy);
    }

    /// Could not be checked.
    pub(super) fn unknown(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.is(Level::Unknown, finding, remedy);
    }

    /// Can spoil the result.
    pub(super) fn warning(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.is(Level::Warning, finding, remedy);
    }

    /// Will spoil the result.
    pub(super) fn problem(self, finding: impl Into<String>, remedy: impl Into<String>) {
        self.is(Level::Problem, finding, remedy);
    }

    pub(super) fn is(self, level: Level, finding: impl Into<String>, remedy: impl Into<String>) {
        self.findings.findings.push(Finding {
            check: self.name.to_owned(),
            level,
            device: self.findings.device.clone(),
            finding: finding.into(),
            reason: self.why.to_owned(),
            remedy: remedy.into(),
        });
    }
}
