//! Lists block devices by sysfs; nothing is opened.

use super::facts::{serial, wwid};
use super::{DevNum, Roots, SysDir};
use std::fs;

/// A whole disk and its partitions, by the names of their nodes: `/dev/sda`, `/dev/cciss/c0d0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub disk: String,
    /// Partitions, in their order on the disk.
    pub partitions: Vec<String>,
}

/// All block devices with contents, in the order of their names, numbers compared as such. The second value is the
/// number of empty ones: drives without a medium, loop devices without a file.
///
/// Shape: empty also without sysfs.
pub fn list(roots: &Roots) -> (Vec<Listed>, usize) {
    let entries = fs::read_dir(roots.sys.join("block")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // The paths of an NVMe drive that has several: no node leads to them.
    names.retain(|name| SysDir::new(roots.sys.join("block").join(name)).flag("hidden") != Some(true));
    names.sort_by_cached_key(|name| natural(name));
    let all = names.len();
    let listed: Vec<Listed> = names.iter().filter_map(|name| listed(name, roots)).collect();
    let empty = all - listed.len();
    (listed, empty)
}

fn listed(name: &str, roots: &Roots) -> Option<Listed> {
    let dir = SysDir::new(roots.sys.join("block").join(name));
    dir.number::<u64>("size").filter(|sectors| *sectors > 0)?;
    let node = |dir: &SysDir| format!("/dev/{}", dir.node_name());
    let mut partitions: Vec<(u64, String)> =
        dir.partitions().map(|part| (part.number("start").unwrap_or(0), node(&part))).collect();
    partitions.sort();
    Some(Listed { disk: node(&dir), partitions: partitions.into_iter().map(|(_, node)| node).collect() })
}

/// A whole disk that has a node.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) number: DevNum,
    /// Directory in sysfs.
    pub(crate) dir: SysDir,
    /// Serial number of the drive.
    pub(crate) serial: Option<String>,
    pub(crate) wwid: Option<String>,
}

impl Disk {
    /// The disk at `dir`; `None` for a disk without a number: a path of an NVMe drive with several (`nvme0c1n1`), which
    /// is used through another device only.
    pub(crate) fn at(dir: SysDir) -> Option<Self> {
        Some(Self { number: dir.dev()?, serial: serial(&dir), wwid: wwid(&dir), dir })
    }

    /// True if both are paths to one drive: two ports of it, or multipath that is off.
    ///
    /// The world-wide name decides. All zeros means that the drive has none. Equal names with different serial numbers
    /// come from vendors that give all drives the same name.
    pub(crate) fn is_same_drive(&self, other: &Self) -> bool {
        let is_name = |wwid: &str| wwid.rsplit('.').next().is_some_and(|id| id.chars().any(|c| c != '0'));
        let same_name = self.wwid.is_some() && self.wwid == other.wwid && self.wwid.as_deref().is_some_and(is_name);
        same_name && (self.serial == other.serial || self.serial.is_none() || other.serial.is_none())
    }
}

/// All whole disks that have a node.
pub(crate) fn disks(roots: &Roots) -> Vec<Disk> {
    let entries = fs::read_dir(roots.sys.join("block")).into_iter().flatten().flatten();
    let dirs = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    dirs.filter_map(|dir| Disk::at(SysDir::new(dir))).collect()
}

/// A key that puts `nvme2n1` before `nvme10n1`: texts and numbers in turn.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits_at);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        parts.push((text.to_owned(), tail[..end].parse().unwrap_or(0)));
        rest = &tail[end..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    #[test]
    fn disks_come_in_the_order_of_their_numbers_with_their_partitions() {
        let tree = FakeTree::of(&[]);
        let files = [
            ("nvme10n1/size", "8"),
            ("nvme2n1/size", "8"),
            ("nvme2n1/nvme2n1p2/partition", "2"),
            ("nvme2n1/nvme2n1p2/start", "2"),
            ("nvme2n1/nvme2n1p10/partition", "10"),
            ("nvme2n1/nvme2n1p10/start", "4"),
            ("nvme2n1/queue/scheduler", "none"),
            ("cciss!c0d0/size", "8"),
            ("nvme2c1n1/size", "8"),
            ("nvme2c1n1/hidden", "1"),
            ("loop0/size", "0"),
        ];
        tree.write_all("sys/block", &files);
        let (disks, empty) = list(&Roots::below(tree.root()));
        let names: Vec<&str> = disks.iter().map(|listed| listed.disk.as_str()).collect();
        assert_eq!((names, empty), (vec!["/dev/cciss/c0d0", "/dev/nvme2n1", "/dev/nvme10n1"], 1));
        assert_eq!(disks[1].partitions, ["/dev/nvme2n1p2", "/dev/nvme2n1p10"]);
        assert_eq!(list(&Roots::below(&tree.path("none"))), (Vec::new(), 0));
    }
}
