//! Whether a device is mounted, swapped to, held by another kernel device, or open in a process.
//!
//! The [`Subject`] is everything that shares bytes with the target: a disk with its partitions, a
//! partition with its disk, an NVMe disk with its character device, or one file. Each check asks
//! one table of the kernel about all of it.

use super::mark::Mark;
use super::processes::{Opener, scan};
use super::refusal::{Findings, Reason};
use crate::discover::{DevNum, DeviceFacts, Resolved, Roots, SysDir, generic_of_block};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A block device that shares bytes with the target.
#[derive(Debug)]
pub(super) struct Node {
    number: DevNum,
    /// How to speak of it: `it`, `its partition /dev/sda1`, `the disk /dev/sda that it lies on`.
    which: String,
    dir: SysDir,
}

/// Everything that shares bytes with the target.
#[derive(Debug)]
pub(super) enum Subject {
    /// Block devices, and the number of the NVMe character device, the other door to the disk.
    Device { nodes: Vec<Node>, generic: Option<DevNum> },
    /// A file, by device and inode.
    File { device: u64, inode: u64 },
}

impl Subject {
    /// What shares bytes with the device or file of `facts`; `None` of a device that sysfs does not know.
    pub(super) fn of(resolved: &Resolved, facts: &DeviceFacts, roots: &Roots) -> Option<Self> {
        match resolved {
            Resolved::Block { number, .. } => {
                Some(Self::of_device(facts, *number, &SysDir::of_block(&roots.sys, *number)?, roots))
            }
            Resolved::File { metadata } => Some(Self::of_file(metadata)),
        }
    }

    /// What shares bytes with the block device of `facts`, whose directory in sysfs is `dir`.
    pub(super) fn of_device(facts: &DeviceFacts, number: DevNum, dir: &SysDir, roots: &Roots) -> Self {
        let mut nodes = vec![Node { number, which: "it".to_owned(), dir: dir.clone() }];
        let disk = match &facts.partition {
            Some(part) => {
                let which = format!("the disk /dev/{} that it lies on", part.disk);
                nodes.extend(dir.parent().map(|dir| Node { number: part.disk_number, which, dir }));
                &part.disk
            }
            None => {
                nodes.extend(partitions(dir));
                &dir.name()
            }
        };
        Self::Device { generic: generic_of_block(disk, roots), nodes }
    }

    /// The file that `metadata` describes.
    pub(super) fn of_file(metadata: &Metadata) -> Self {
        Self::File { device: metadata.dev(), inode: metadata.ino() }
    }

    fn nodes(&self) -> &[Node] {
        match self {
            Self::Device { nodes, .. } => nodes,
            Self::File { .. } => &[],
        }
    }

    /// How to speak of what `metadata` describes, if it is part of this.
    fn which(&self, metadata: &Metadata) -> Option<String> {
        let number = DevNum::of_stat(metadata.rdev());
        match self {
            Self::File { device, inode } => {
                ((metadata.dev(), metadata.ino()) == (*device, *inode)).then(|| "it".to_owned())
            }
            Self::Device { nodes, .. } if metadata.file_type().is_block_device() => {
                nodes.iter().find(|node| node.number == number).map(|node| node.which.clone())
            }
            Self::Device { generic, .. } if metadata.file_type().is_char_device() => {
                (*generic == Some(number)).then(|| "its NVMe character device".to_owned())
            }
            Self::Device { .. } => None,
        }
    }

    fn which_path(&self, path: &str) -> Option<String> {
        path.starts_with('/').then(|| fs::metadata(path).ok()).flatten().and_then(|metadata| self.which(&metadata))
    }

    /// Finds what is mounted, swapped to or held.
    pub(super) fn check_kernel_users(&self, roots: &Roots, findings: &mut Findings) {
        self.check_mounts(&roots.proc.join("self/mountinfo"), "", findings);
        self.check_mounts(&roots.proc.join("1/mountinfo"), ", as process 1 sees it", findings);
        self.check_swap(&roots.proc, findings);
        self.check_holders(findings);
        self.check_loops(&roots.sys, findings);
    }

    fn check_mounts(&self, mountinfo: &Path, seen_by: &'static str, findings: &mut Findings) {
        let text = match fs::read_to_string(mountinfo) {
            Ok(text) => text,
            Err(error) => {
                return findings.note(format!("mounts in {} could not be read ({error})", mountinfo.display()));
            }
        };
        for mount in text.lines().filter_map(Mount::parse) {
            let by_number = self.nodes().iter().find(|node| node.number == mount.number);
            // btrfs and others show a number of their own; their source is the device then.
            let which = by_number.map(|node| node.which.clone()).or_else(|| self.device_which(&mount.source));
            if let Some(which) = which {
                findings.mounted(which, mount.at, seen_by);
            }
        }
    }

    /// As [`Self::which_path`], for devices only: a file that is the source of a mount is mounted
    /// through a loop device, which is its own check.
    fn device_which(&self, path: &str) -> Option<String> {
        matches!(self, Self::Device { .. }).then(|| self.which_path(path)).flatten()
    }

    fn check_swap(&self, proc_root: &Path, findings: &mut Findings) {
        let path = proc_root.join("swaps");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => return findings.note(format!("swap in {} could not be read ({error})", path.display())),
        };
        for path in text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape) {
            if let Some(which) = self.which_path(&path) {
                findings.refuse(Reason::Swap { which, path });
            }
        }
    }

    fn check_holders(&self, findings: &mut Findings) {
        for node in self.nodes() {
            let holders: Vec<String> =
                node.dir.child("holders").children().iter().map(|name| describe_holder(&node.dir, name)).collect();
            if !holders.is_empty() {
                findings.refuse(Reason::Held { which: node.which.clone(), holders: holders.join(", ") });
            }
        }
    }

    /// Loop devices keep their file open inside the kernel, where no process shows it.
    fn check_loops(&self, sys_root: &Path, findings: &mut Findings) {
        for entry in fs::read_dir(sys_root.join("block")).into_iter().flatten().flatten() {
            let Ok(file) = fs::read_to_string(entry.path().join("loop/backing_file")) else { continue };
            if let Some(which) = self.which_path(file.trim_end_matches('\n')) {
                let holders = format!("the loop device {}", entry.file_name().to_string_lossy());
                findings.refuse(Reason::Held { which, holders });
            }
        }
    }

    /// Finds what other processes have it open, but for fellow runs when this one is `shared`, and
    /// returns the number of those.
    ///
    /// Whoever has it open may let go within `settle`: udev looks at a disk for a moment whenever
    /// a writer closed it, a run may just be ending, and a process being started holds copies of
    /// its parent's descriptors until it executes.
    pub(super) fn check_processes(
        &self,
        roots: &Roots,
        shared: bool,
        settle: Duration,
        findings: &mut Findings,
    ) -> usize {
        let deadline = Instant::now() + settle;
        loop {
            let found = match scan(&roots.proc, &|metadata| self.which(metadata)) {
                Ok(found) => found,
                Err(source) => {
                    findings.refuse(Reason::io("list the processes", source));
                    return 0;
                }
            };
            let verdict = sort_out(found.openers, shared);
            if verdict.is_err() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            if found.unseen > 0 {
                findings.note(format!(
                    "{} processes could not be looked at for lack of permission; run as root to see whether they have it open",
                    found.unseen
                ));
            }
            return verdict.unwrap_or_else(|reason| {
                findings.refuse(reason);
                0
            });
        }
    }

    /// Whether the two have bytes in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { device, inode }, Self::File { device: other_device, inode: other_inode }) => {
                (device, inode) == (other_device, other_inode)
            }
            // The first node is the target itself, the others what shares bytes with it.
            (Self::Device { nodes, .. }, Self::Device { nodes: others, .. }) => {
                others.first().is_some_and(|other| nodes.iter().any(|node| node.number == other.number))
            }
            _ => false,
        }
    }
}

/// Fellows are counted, another run is named as such, and anyone else is a stranger.
fn sort_out(openers: Vec<Opener>, shared: bool) -> Result<usize, Reason> {
    let (fellows, strangers): (Vec<_>, Vec<_>) =
        openers.into_iter().partition(|opener| shared && opener.mark == Some(Mark::Shared));
    if let Some(run) = strangers.iter().find(|opener| opener.mark.is_some()) {
        return Err(second_run(run.mark == Some(Mark::Shared), format!(" (process {})", run.pid)));
    }
    if strangers.is_empty() { Ok(fellows.len()) } else { Err(Reason::OpenElsewhere(strangers)) }
}

/// The refusal for another run that holds the device.
pub(super) fn second_run(theirs_is_shared: bool, who: String) -> Reason {
    let (how, advice) = match theirs_is_shared {
        true => ("shared", "start this one with --shared too"),
        false => ("alone", "start every one of them with --shared"),
    };
    Reason::SecondRun { who, how, advice }
}

fn partitions(dir: &SysDir) -> impl Iterator<Item = Node> + '_ {
    dir.children().into_iter().filter_map(|name| {
        let part = dir.child(&name);
        part.text("partition")?;
        Some(Node { number: part.dev()?, which: format!("its partition /dev/{name}"), dir: part })
    })
}

/// Name of a holder, with what it is: `dm-0 (LVM vg-data)`, `md127 (software RAID)`.
fn describe_holder(dir: &SysDir, holder: &str) -> String {
    let dm = dir.child("holders").child(holder).child("dm");
    match (dm.text("name"), dm.text("uuid")) {
        (Some(name), uuid) => {
            let kind = uuid.as_deref().and_then(|uuid| uuid.split_once('-')).map_or("device-mapper", |(kind, _)| kind);
            format!("{holder} ({kind} {name})")
        }
        (None, _) if holder.starts_with("md") => format!("{holder} (software RAID)"),
        (None, _) => holder.to_owned(),
    }
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    number: DevNum,
    at: String,
    source: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let number = DevNum::parse(fields.next()?)?;
        let at = unescape(fields.nth(1)?);
        Some(Self { number, at, source: unescape(file_system.split(' ').nth(1)?) })
    }
}

/// Undoes the kernel's `\040` for bytes that would break a line into other fields.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
