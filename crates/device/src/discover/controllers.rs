//! The NVMe controllers behind a block device, found in /sys.
//!
//! In sysfs a drive with one path is below its controller, a drive with several paths below its subsystem, which links
//! to all controllers that lead to it.

use std::fs;
use std::path::{Path, PathBuf};

/// The NVMe controllers that the subsystem of `block` links to, sorted; empty for any other device.
///
/// `block` is the directory of a block device in /sys, links resolved.
pub(crate) fn controllers(block: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir(block.join("device")).into_iter().flatten().flatten();
    let links = links.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let links = links.filter(|entry| entry.file_name().to_str().is_some_and(is_controller));
    let mut controllers: Vec<PathBuf> = links.filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect();
    controllers.sort_unstable();
    controllers
}

/// True for the name of a controller (`nvme0`), false for a namespace (`nvme0n1`).
pub(super) fn is_controller(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Names of the controllers of `block`, the nearest first: above it, else those of its subsystem.
pub(crate) fn controller_names(block: &Path) -> Vec<String> {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let above = block.ancestors().skip(1).filter_map(name).find(|name| is_controller(name));
    match above {
        Some(name) => vec![name],
        None => controllers(block).iter().filter_map(|path| name(path)).collect(),
    }
}
