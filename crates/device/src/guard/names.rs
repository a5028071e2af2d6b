//! The names by which a device may be given up for erasure, and which of them stay with the drive.
//!
//! `/dev/nvme1n1` is whatever drive the kernel found second this time. Its serial number, its world-wide name and
//! the links that udev makes of them (`/dev/disk/by-id/`) are the same after a reboot and on another port.

use crate::discover::{DeviceFacts, Disk, Resolved, Roots, SysDir, disks, resolve};
use std::path::{Path, PathBuf};

/// Directories below /dev whose links are made of what a drive or its content says of itself.
const LASTING_LINKS: [&str; 3] = ["disk/by-id", "disk/by-uuid", "disk/by-partuuid"];

/// What a name is to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Match {
    /// Not its name.
    Other,
    /// A path that leads to it today.
    Path,
    /// A name that stays with it.
    Lasting,
    /// A name that it has together with these.
    Ambiguous(Vec<String>),
}

/// A name that stays with a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lasting {
    /// As it is to be typed: without spaces.
    pub(super) text: String,
    /// What it is: `its serial number`.
    pub(super) what: &'static str,
    /// Other drives with that name.
    others: Vec<String>,
}

/// The names of one device.
#[derive(Debug)]
pub(super) struct Names<'a> {
    facts: &'a DeviceFacts,
    roots: &'a Roots,
    lasting: Vec<Lasting>,
}

impl<'a> Names<'a> {
    /// The names of the device or file of `facts`.
    pub(super) fn of(facts: &'a DeviceFacts, roots: &'a Roots) -> Self {
        Self { lasting: lasting(facts, roots), facts, roots }
    }

    /// The name that stays with it to ask for; `None` where it has none, and none that is its own.
    pub(super) fn lasting(&self) -> Option<&Lasting> {
        self.lasting.iter().find(|name| name.others.is_empty())
    }

    /// The name to give it up by, if it was `given` as that.
    pub(super) fn to_give<'b>(&'b self, given: &'b str) -> &'b str {
        self.lasting().map_or(given, |name| &name.text)
    }

    /// What `name` is to it.
    pub(super) fn matches(&self, name: &str) -> Match {
        if let Some(lasting) = self.lasting.iter().find(|lasting| lasting.text == typed(name)) {
            return match lasting.others.is_empty() {
                true => Match::Lasting,
                false => Match::Ambiguous(lasting.others.clone()),
            };
        }
        let by_id = self.roots.dev.join(LASTING_LINKS[0]).join(name);
        let is_id = !name.contains('/') && self.leads_here(&by_id);
        let path = if is_id { by_id } else { PathBuf::from(name) };
        match name == self.facts.path || self.leads_here(&path) {
            true if self.is_lasting(&path) => Match::Lasting,
            true => Match::Path,
            false => Match::Other,
        }
    }

    fn leads_here(&self, path: &Path) -> bool {
        match resolve(path, self.roots) {
            Ok(Resolved::Block { number, .. }) => Some(number) == self.facts.number,
            Ok(found @ Resolved::File { .. }) => {
                let identity = found.file_identity();
                identity.is_some() && identity == self.facts.file_identity
            }
            Err(_) => false,
        }
    }

    /// Whether a path to it leads to it after a reboot, too.
    fn is_lasting(&self, path: &Path) -> bool {
        let is_in = |dir: &str| path.parent() == Some(&self.roots.dev.join(dir));
        let kernel_name = self.facts.kernel_name.as_deref().unwrap_or_default();
        LASTING_LINKS.into_iter().any(is_in)
            || (kernel_name.starts_with("dm-") && is_in("mapper"))
            || (kernel_name.starts_with("md") && is_in("md"))
    }
}

/// A name as it is typed: options are separated by spaces, and udev writes `_` for them as well.
fn typed(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_")
}

/// The names that stay with the device of `facts`, the one that stands on the drive's label first.
fn lasting(facts: &DeviceFacts, roots: &Roots) -> Vec<Lasting> {
    let disk_number = facts.partition.as_ref().map(|part| part.disk_number).or(facts.number);
    let disk = disk_number.and_then(|number| SysDir::of_block(&roots.sys, number)).and_then(Disk::at);
    let part = facts.partition.as_ref().map(|part| format!("-part{}", part.index)).unwrap_or_default();
    let all = disks(roots);
    let name = |what, text: &Option<String>, of: fn(&Disk) -> &Option<String>| {
        let text = typed(text.as_deref()?);
        let this = disk.as_ref()?;
        let is_same = |other: &&Disk| of(other).as_deref().map(typed).as_ref() == Some(&text);
        let others = all.iter().filter(|other| other.number != this.number && !other.is_same_drive(this));
        let others = others.filter(is_same).map(|other| format!("/dev/{}", other.dir.node_name())).collect();
        Some(Lasting { text: format!("{text}{part}"), what, others })
    };
    let mapped = facts.dm_uuid.as_ref().and(disk.as_ref()).and_then(|disk| disk.dir.child("dm").text("name"));
    let mapped = mapped.map(|name| roots.dev.join("mapper").join(name)).filter(|path| path.exists());
    let mapped = mapped.map(|path| Lasting {
        text: path.display().to_string(),
        what: "its name among the mapped devices",
        others: Vec::new(),
    });
    let serial = name("its serial number", &facts.serial, |disk| &disk.serial);
    let wwid = name("its world-wide name", &facts.wwid, |disk| &disk.wwid);
    [serial, wwid, mapped].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::tests::fake_nvme;
    use crate::discover::{DevNum, discover_block_for_tests};

    #[test]
    fn a_partition_is_named_as_the_part_of_its_drive() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        fake_nvme(&roots.sys);
        for (minor, names, others) in [
            (0, ["S123", "eui.0025385b21404321"], ["S123-part2", "S12"]),
            (2, ["S123-part2", "eui.0025385b21404321-part2"], ["S123", "S123-part1"]),
        ] {
            let facts = discover_block_for_tests(DevNum { major: 259, minor }, &roots);
            let of = Names::of(&facts, &roots);
            assert_eq!(of.lasting().unwrap().text, names[0]);
            names.iter().for_each(|name| assert_eq!(of.matches(name), Match::Lasting, "{name}"));
            others.iter().for_each(|name| assert_eq!(of.matches(name), Match::Other, "{name}"));
        }
    }

    #[test]
    fn a_volume_has_its_name_among_the_mapped_devices() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        let dm = roots.sys.join("devices/dm-3");
        for (path, text) in [
            (dm.join("dev"), "252:3"),
            (dm.join("dm/name"), "vg-data"),
            (dm.join("dm/uuid"), "LVM-x"),
            (roots.dev.join("mapper/vg-data"), ""),
            (roots.sys.join("dev/block/nothing"), ""),
        ] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink(&dm, roots.sys.join("dev/block/252:3")).unwrap();
        let facts = discover_block_for_tests(DevNum { major: 252, minor: 3 }, &roots);
        let of = Names::of(&facts, &roots);
        let name = roots.dev.join("mapper/vg-data").display().to_string();
        assert_eq!(of.lasting().map(|lasting| &lasting.text), Some(&name));
        assert_eq!((of.matches(&name), of.matches("/dev/dm-3")), (Match::Lasting, Match::Other));
    }
}
