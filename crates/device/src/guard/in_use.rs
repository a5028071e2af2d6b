//! Detects users of a device: mounts, swap, devices built on it, exports, processes.
//!
//! Each check searches one table of the kernel for all devices that share bytes with the target ([`TargetDevices`]).
//!
//! The kernel exports devices and files as namespaces of NVMe over Fabrics, and as LIO backstores (iSCSI, Fibre
//! Channel, vhost). The NVMe target and LIO's fileio open a device without a claim, and no process has the device open:
//! only configfs shows the export. Programs that export a device themselves (nbd-server, qemu-nbd, ublk) have the
//! device open, so the process scan finds them. Sources: `drivers/nvme/target/`, `drivers/target/target_core_*.c`.
//!
//! Other processes that have the device or file open are found by [`scan`].

use super::processes::{Opener, scan};
use super::refusal::{Objections, RefusalReason};
use super::target_devices::TargetDevices;
use crate::discover::{
    Backing, DeviceNumber, LoopDevice, SysDir, controller_names, loops, unescape,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use sys::open::{ByteLock, effective_user};

struct KernelUsers {
    mounts: Vec<(Mount, &'static str)>,
    swaps: Vec<String>,
    loops: Vec<LoopDevice>,
}

impl KernelUsers {
    /// Reads the tables of the kernel. Adds a note for each table that cannot be read.
    fn now(root: &Path, findings: &mut Objections) -> Self {
        let proc_dir = root.join("proc");
        let own_mounts = read_table("mounts", &proc_dir.join("self/mountinfo"), findings);
        let init_mounts = read_table("mounts", &proc_dir.join("1/mountinfo"), findings);
        let mounts = [(own_mounts, ""), (init_mounts, ", as process 1 sees it")];
        let swaps = read_table("swap", &proc_dir.join("swaps"), findings);
        Self {
            mounts: mounts
                .iter()
                .flat_map(|(text, by)| {
                    text.lines()
                        .filter_map(Mount::parse)
                        .map(|mount| (mount, *by))
                })
                .collect(),
            swaps: swaps
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().next())
                .map(unescape)
                .collect(),
            loops: loops(root),
        }
    }

    /// Uses of the device at `dir`, of its partitions and of all devices built on them: `mounted at /data`.
    fn uses_of(&self, dir: &SysDir) -> Vec<String> {
        let mut numbers = Vec::new();
        let mut dirs = vec![dir.clone()];
        while let Some(dir) = dirs.pop() {
            let Some(number) = dir.dev().filter(|number| !numbers.contains(number)) else {
                continue;
            };
            numbers.push(number);
            dirs.extend(dir.below("holders"));
            dirs.extend(dir.partitions());
            let loop_devices = self
                .loops
                .iter()
                .filter(|of| of.backing == Backing::Device(number));
            dirs.extend(loop_devices.map(|of| of.dir.clone()));
        }
        let mut uses: Vec<String> = Vec::new();
        for (mount, _) in self
            .mounts
            .iter()
            .filter(|(mount, _)| numbers.contains(&mount.number))
        {
            let text = format!("mounted at {}", mount.mount_point);
            if !uses.contains(&text) {
                uses.push(text);
            }
        }
        uses.extend(
            self.swaps
                .iter()
                .filter(|path: &&String| {
                    fs::metadata(path).is_ok_and(|metadata| {
                        numbers.contains(&DeviceNumber::of_stat(metadata.rdev()))
                    })
                })
                .map(|_| "used as swap".to_owned()),
        );
        uses
    }

    /// `name` with its kind and uses: `dm-0 (LVM vg-data, mounted at /data)`.
    fn describe(&self, name: &str, kind: Option<String>, dir: &SysDir) -> String {
        let words: Vec<String> = kind.into_iter().chain(self.uses_of(dir)).collect();
        if words.is_empty() {
            name.to_owned()
        } else {
            format!("{name} ({})", words.join(", "))
        }
    }
}

/// The text of the table; empty, with a note, if the table cannot be read.
fn read_table(list_name: &str, path: &Path, findings: &mut Objections) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        findings.note(format!(
            "{list_name} in {} could not be read ({error})",
            path.display()
        ));
        String::new()
    })
}

impl TargetDevices {
    pub(super) fn check_users(
        &self,
        root: &Path,
        shared: bool,
        settle: Duration,
        findings: &mut Objections,
    ) {
        self.check_kernel_users(root, findings);
        self.check_processes(root, shared, settle, findings);
    }

    /// Finds mounts, swap, devices built on the target, and exports.
    fn check_kernel_users(&self, root: &Path, findings: &mut Objections) {
        let users = KernelUsers::now(root, findings);
        self.check_mounts(&users, root, findings);
        self.check_swap(&users, root, findings);
        self.check_holders(&users, findings);
        self.check_loops(&users, root, findings);
        check_exports(self, root, findings);
    }

    fn check_mounts(&self, users: &KernelUsers, root: &Path, findings: &mut Objections) {
        for (mount, seen_by) in &users.mounts {
            let description = if let Some(node) = self.node(mount.number) {
                Some(node.description.clone())
            } else if fs::metadata(&mount.source).is_ok_and(|source| source.is_file()) {
                // The source is a file, so the mount uses a loop device: see `check_loops`.
                None
            } else {
                // Such as btrfs, whose mounts have their own device number: the source names the block device.
                self.find_path(&mount.source, root)
            };
            if let Some(description) = description {
                findings.mounted(description, mount.mount_point.clone(), seen_by);
            }
        }
    }

    fn check_swap(&self, users: &KernelUsers, root: &Path, findings: &mut Objections) {
        for path in &users.swaps {
            if let Some(description) = self.find_path(path, root) {
                findings.refuse(RefusalReason::Swap {
                    which: description,
                    path: path.clone(),
                });
            }
        }
    }

    /// Description of the device of the file system `number`. `None` if the device shares no bytes with the target, or
    /// if its mount is already reported: users of the mounted files then add no information.
    fn file_system_on(&self, number: DeviceNumber, findings: &Objections) -> Option<String> {
        self.node(number)
            .map(|node| node.description.clone())
            .filter(|which| !findings.is_mounted(which))
    }

    fn check_holders(&self, users: &KernelUsers, findings: &mut Objections) {
        for node in &self.nodes {
            let describe = |dir: SysDir| users.describe(&dir.name(), kind_of_holder(&dir), &dir);
            let holders: Vec<String> = node.holders().map(describe).collect();
            if !holders.is_empty() {
                findings.refuse(RefusalReason::HasHolders {
                    which: node.description.clone(),
                    holders: holders.join(", "),
                });
            }
        }
    }

    /// Finds loop devices on the target's bytes. No process shows their backing files, which the kernel keeps open.
    fn check_loops(&self, users: &KernelUsers, root: &Path, findings: &mut Objections) {
        for loop_device in &users.loops {
            let in_file_system = || match loop_device.backing {
                Backing::File { device, .. } => Some((
                    self.file_system_on(device, findings)?,
                    Some(format!(
                        "its file {} is on that file system",
                        loop_device.path
                    )),
                )),
                Backing::Device(_) | Backing::Unknown => None,
            };
            let by_backing = self
                .find_behind(loop_device, root)
                .map(|which| (which, None));
            let Some((description, kind)) = by_backing.or_else(in_file_system) else {
                continue;
            };
            let holders = users.describe(
                &format!("the loop device {}", loop_device.dir.name()),
                kind,
                &loop_device.dir,
            );
            findings.refuse(RefusalReason::HasHolders {
                which: description,
                holders,
            });
        }
    }

    /// Finds other processes that have the target open. If this run is `shared`, accepts other shared runs and returns
    /// their number.
    ///
    /// Waits up to `settle` for processes to close the target. Examples: udev opens a disk for a moment after a writer
    /// has closed the disk; a run is just ending; a child has copies of its parent's descriptors until its exec.
    pub(super) fn check_processes(
        &self,
        root: &Path,
        shared: bool,
        settle: Duration,
        findings: &mut Objections,
    ) -> usize {
        let deadline = Instant::now() + settle;
        loop {
            let (openers, unseen) = match scan(&root.join("proc"), &|path| self.find_at(path)) {
                Ok(found) => found,
                Err(source) => {
                    findings.refuse(RefusalReason::io("list the processes", source));
                    return 0;
                }
            };
            let verdict = sort_out(openers, shared);
            if verdict.is_err() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            if unseen > 0 {
                let remedy = match effective_user() {
                    0 => {
                        "a security module or a container denies this even to root: check on the host for other users of the device"
                    }
                    _ => "run as root to examine all processes",
                };
                let noun = if unseen == 1 { "process" } else { "processes" };
                findings.note(format!(
                    "{unseen} {noun} could not be examined (no permission); {remedy}"
                ));
            }
            return verdict.unwrap_or_else(|reason| {
                findings.refuse(reason);
                0
            });
        }
    }
}

/// Number of other shared runs, if this run is `shared`. Errors: a run of flashproof that excludes this run, or
/// processes of other programs.
fn sort_out(openers: Vec<Opener>, shared: bool) -> Result<usize, RefusalReason> {
    let (fellows, strangers): (Vec<_>, Vec<_>) = openers
        .into_iter()
        .partition(|opener| shared && opener.mark == Some(ByteLock::Shared));
    if let Some(run) = strangers.iter().find(|opener| opener.mark.is_some()) {
        return Err(RefusalReason::second_run(
            run.mark == Some(ByteLock::Shared),
            format!(" (process {})", run.pid),
        ));
    }
    if strangers.is_empty() {
        Ok(fellows.len())
    } else {
        Err(RefusalReason::OpenElsewhere(strangers))
    }
}

/// Kind and name of a device built on the target: `LVM vg-data`, `software RAID`.
fn kind_of_holder(dir: &SysDir) -> Option<String> {
    let dm = dir.child("dm");
    match (dm.text("name"), dm.text("uuid")) {
        (Some(name), uuid) => {
            let kind = uuid
                .as_deref()
                .and_then(|uuid| uuid.split_once('-'))
                .map_or("device-mapper", |(kind, _)| kind);
            Some(format!("{kind} {name}"))
        }
        (None, _) => dir
            .name()
            .starts_with("md")
            .then(|| "software RAID".to_owned()),
    }
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    number: DeviceNumber,
    mount_point: String,
    source: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let number = DeviceNumber::parse(fields.next()?)?;
        let mount_point = unescape(fields.nth(1)?);
        Some(Self {
            number,
            mount_point,
            source: unescape(file_system.split(' ').nth(1)?),
        })
    }
}

/// A device or file that the kernel exports, as configfs describes it.
#[derive(Default)]
struct Export {
    export_name: String,
    stop_hint: String,
    paths: Vec<String>,
    number: Option<DeviceNumber>,
    /// Path of an NVMe controller, whose namespaces are all exported.
    controller: Option<String>,
}

pub(super) fn check_exports(devices: &TargetDevices, root: &Path, findings: &mut Objections) {
    let config = SysDir::new(root.join("sys/kernel/config"));
    for (module, config_dir) in [
        ("nvmet", config.child("nvmet")),
        ("target_core_mod", config.child("target")),
    ] {
        if root.join("sys/module").join(module).is_dir() && !config_dir.path().is_dir() {
            let dir_path = config_dir.path().display();
            findings
                .note(format!("exports of {module} could not be examined: {dir_path} does not exist (mount configfs)"));
        }
    }
    for export in namespaces(&config).into_iter().chain(backstores(&config)) {
        if let Some(description) = export.find(devices, root) {
            findings.refuse(RefusalReason::Exported {
                which: description,
                what: export.export_name,
                end: export.stop_hint,
            });
        }
    }
}

impl Export {
    fn find(&self, devices: &TargetDevices, root: &Path) -> Option<String> {
        let by_number = self.number.and_then(|number| devices.node(number));
        by_number
            .or_else(|| {
                let name = Path::new(self.controller.as_ref()?).file_name()?.to_str()?;
                devices.nodes.iter().find(|node| {
                    controller_names(&node.dir)
                        .iter()
                        .any(|controller| controller == name)
                })
            })
            .map(|node| node.description.clone())
            .or_else(|| {
                self.paths
                    .iter()
                    .find_map(|path| devices.find_path(path, root))
            })
    }
}

/// Exports of the NVMe target: namespaces, and whole controllers (passthru).
fn namespaces(config: &SysDir) -> Vec<Export> {
    let mut exports = Vec::new();
    for subsystem in config.below("nvmet/subsystems") {
        let subsystem_name = subsystem.name();
        for dir in subsystem.below("namespaces").filter(is_enabled) {
            exports.push(Export {
                export_name: format!(
                    "namespace {} of NVMe-oF subsystem {subsystem_name}",
                    dir.name()
                ),
                stop_hint: disable_hint(&dir),
                paths: dir.text("device_path").into_iter().collect(),
                ..Export::default()
            });
        }
        let dir = subsystem.child("passthru");
        if is_enabled(&dir) {
            exports.push(Export {
                export_name: format!(
                    "the passed-through controller of NVMe-oF subsystem {subsystem_name}"
                ),
                stop_hint: disable_hint(&dir),
                controller: dir.text("device_path"),
                ..Export::default()
            });
        }
    }
    exports
}

fn is_enabled(dir: &SysDir) -> bool {
    dir.flag("enable") == Some(true)
}

fn disable_hint(dir: &SysDir) -> String {
    let path = dir.path().join("enable");
    format!("disable the export (`echo 0 > {}`)", path.display())
}

/// Active LIO backstores. The device is in `info`, and in `udev_path` if the creating tool set this attribute.
fn backstores(config: &SysDir) -> Vec<Export> {
    let mut exports = Vec::new();
    for plugin in config.below("target/core") {
        for dir in plugin.below("").filter(is_enabled) {
            let info = dir.text("info").unwrap_or_default();
            let mut paths = Vec::new();
            paths.extend(dir.text("udev_path"));
            paths.extend(word_after(&info, "UDEV PATH:").map(str::to_owned));
            paths.extend(word_after(&info, "File:").map(str::to_owned));
            exports.push(Export {
                paths,
                number: backstore_number(&info),
                controller: None,
                export_name: format!("LIO backstore {}/{}", plugin.name(), dir.name()),
                stop_hint: "delete the backstore (`targetcli`, /backstores)".to_owned(),
            });
        }
    }
    exports
}

fn backstore_number(info: &str) -> Option<DeviceNumber> {
    let major = word_after(info, "Major:")?;
    let minor = word_after(info, "Minor:")?;
    DeviceNumber::parse(&format!("{major}:{minor}"))
}

fn word_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.split_once(label)?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests;
