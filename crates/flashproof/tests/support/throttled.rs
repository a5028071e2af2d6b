//! A group of processes whose I/O on one device is limited by the kernel.

use super::{Bench, FLASHPROOF, LoopDevice, Undo, skip, tool};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A cgroup with I/O limits, removed when dropped.
pub struct Throttled {
    group: PathBuf,
    /// Each file with a limit, and the text that removes the limit.
    lifted: Vec<(PathBuf, String)>,
    _mounted: Option<Undo>,
}

impl Throttled {
    /// `limits`: `read_iops`, `write_iops`, `read_bps` or `write_bps`, and the value per second. `None`, with a
    /// message, if the kernel has no such limits or forbids them.
    pub fn new(bench: &Bench, device: &LoopDevice, limits: &[(&str, u64)]) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mounted = |kind: &str, option: &str| {
            let fields = mounts
                .lines()
                .map(|line| line.split(' ').collect::<Vec<_>>());
            let mut found = fields.filter(|fields| fields.len() > 3 && fields[2] == kind);
            found
                .find(|fields| fields[3].split(',').any(|has| has == option))
                .map(|fields| PathBuf::from(fields[1]))
        };
        let number = device.number();
        // Several tests of this process have groups at the same time, each for another device.
        let name = format!("flashproof-test-{}-{}", std::process::id(), number.minor);
        let of_v1 = |(limit, value): &(&str, u64)| {
            (
                format!("blkio.throttle.{limit}_device"),
                format!("{number} {value}"),
            )
        };
        let of_v1: Vec<_> = limits.iter().map(of_v1).collect();
        if let Some(root) = mounted("cgroup", "blkio") {
            return Self::make(root.join(name), &of_v1, None);
        }
        let unified = mounted("cgroup2", "rw");
        let has_io = |root: &PathBuf| {
            let controllers =
                fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            // A group has a controller only if its parent enables it.
            controllers.split_whitespace().any(|name| name == "io")
                && fs::write(root.join("cgroup.subtree_control"), "+io").is_ok()
        };
        if let Some(root) = unified.filter(has_io) {
            return Self::make(
                root.join(name),
                &limits
                    .iter()
                    .map(|(limit, value): &(&str, u64)| {
                        let (way, what) = limit
                            .split_once('_')
                            .expect("a direction and what is limited");
                        (
                            "io.max".to_owned(),
                            format!("{number} {}{what}={value}", &way[..1]),
                        )
                    })
                    .collect::<Vec<_>>(),
                None,
            );
        }
        let at = bench.path("blkio");
        fs::create_dir(&at).unwrap();
        let at_text = at.to_str().unwrap();
        tool("mount", &["-t", "cgroup", "-o", "blkio", "cgroup", at_text])?;
        let mounted = Undo::with("umount", &[at_text]);
        Self::make(at.join(name), &of_v1, Some(mounted))
    }

    /// `limits`: files of the group, and the text to write to each.
    fn make(group: PathBuf, limits: &[(String, String)], mounted: Option<Undo>) -> Option<Self> {
        if let Err(error) = fs::create_dir(&group) {
            return skip(&format!("making the cgroup {}: {error}", group.display()));
        }
        let none = |limit: &str| match limit.split_once('=') {
            Some((what, _)) => format!("{what}=max"),
            None => format!("{} 0", limit.split(' ').next().unwrap_or_default()),
        };
        let lifted = limits
            .iter()
            .map(|(file, limit)| (group.join(file), none(limit)))
            .collect();
        let this = Self {
            group,
            lifted,
            _mounted: mounted,
        };
        for (file, limit) in limits {
            if let Err(error) = fs::write(this.group.join(file), limit) {
                return skip(&format!("writing {limit:?} to {file} of a cgroup: {error}"));
            }
        }
        Some(this)
    }

    pub fn lift(&self) {
        self.lifted
            .iter()
            .for_each(|(file, none)| fs::write(file, none).unwrap());
    }

    /// A command that runs flashproof in the group, without arguments so far.
    pub fn command(&self, bench: &Bench) -> Command {
        let mut command = bench.command("sh");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        command
            .args(["-c", script])
            .arg(self.group.join("cgroup.procs"))
            .arg(FLASHPROOF);
        command
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("{} is left behind: {error}", self.group.display());
        }
    }
}
