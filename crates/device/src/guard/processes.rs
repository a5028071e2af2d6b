//! Finds other processes that have a device or file open.
//!
//! Every descriptor of every process is compared by device number (or, for a file, by device and inode): a database
//! that opens its drives without `O_EXCL` is found in no other way. This scan cannot see processes of another PID
//! namespace, descriptors that live only in an io_uring's file table, and users inside the kernel; the watch on
//! diskstats covers those.

use super::mark::Mark;
use super::subject::Found;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// A process that has a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    pub pid: u32,
    pub command: String,
    /// Device that it has open: `it`, `its partition /dev/sda1`...
    pub which: String,
    /// The lock that identifies it as a run of this program, if it is one.
    pub(super) mark: Option<Mark>,
}

/// Result of a scan of all processes.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Processes that have it open, by number.
    pub(super) openers: Vec<Opener>,
    /// Processes that could not be looked at for lack of permission.
    pub(super) unseen: u32,
}

/// Examines every process but this one. `find` returns the object of a descriptor, if it matters here.
pub(super) fn scan(proc_root: &Path, find: &dyn Fn(&Metadata) -> Option<Found>) -> io::Result<Scan> {
    let own = std::process::id();
    let mut scan = Scan::default();
    for entry in fs::read_dir(proc_root)? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == own {
            continue;
        }
        match descriptors(&entry.path(), find) {
            Ok(found) => scan.openers.extend(opener(pid, &entry.path(), found)),
            // A kernel thread has no command line, and no descriptors of its own.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_kernel_thread(&entry.path()) => {
                scan.unseen += 1;
            }
            // The process ended meanwhile.
            Err(_) => {}
        }
    }
    scan.openers.sort_by_key(|opener| opener.pid);
    Ok(scan)
}

/// The target's devices that a process has open, with the mark of each descriptor.
fn descriptors(
    process: &Path,
    find: &dyn Fn(&Metadata) -> Option<Found>,
) -> io::Result<BTreeMap<String, Option<Mark>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(process.join("fd"))?.flatten() {
        // Sockets and pipes are the most; reading the link avoids a `stat` of each.
        if !fs::read_link(entry.path()).is_ok_and(|to| to.is_absolute()) {
            continue;
        }
        let Some(Found { which, readers_count }) = fs::metadata(entry.path()).ok().as_ref().and_then(find) else {
            continue;
        };
        let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name())).unwrap_or_default();
        if !readers_count && !may_write(&info) {
            continue;
        }
        let mark: &mut Option<Mark> = found.entry(which).or_default();
        *mark = mark.or_else(|| Mark::in_fdinfo(&info));
    }
    Ok(found)
}

/// True if a descriptor may write, by its text in fdinfo; true if that is unknown.
fn may_write(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

fn opener(pid: u32, process: &Path, found: BTreeMap<String, Option<Mark>>) -> Option<Opener> {
    // A run holds its lock through one descriptor; other descriptors of the same process belong to the same run.
    let mark = found.values().find_map(|mark| *mark);
    let which = found.into_keys().collect::<Vec<_>>().join(" and ");
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let command = if command.trim().is_empty() { "name unknown".to_owned() } else { command.trim().to_owned() };
    (!which.is_empty()).then_some(Opener { pid, command, which, mark })
}

fn is_kernel_thread(process: &Path) -> bool {
    fs::read(process.join("cmdline")).is_ok_and(|line| line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn is(file: &Path, readers_count: bool) -> impl Fn(&Metadata) -> Option<Found> {
        let inode = fs::metadata(file).unwrap().ino();
        move |metadata: &Metadata| (metadata.ino() == inode).then(|| Found { which: "it".to_owned(), readers_count })
    }

    fn process(proc_root: &Path, pid: u32, opens: &Path, fdinfo: &str) {
        let dir = proc_root.join(pid.to_string());
        fs::create_dir_all(dir.join("fd")).unwrap();
        fs::create_dir_all(dir.join("fdinfo")).unwrap();
        fs::write(dir.join("comm"), format!("command-{pid}\n")).unwrap();
        fs::write(dir.join("cmdline"), "x").unwrap();
        symlink(opens, dir.join("fd/3")).unwrap();
        symlink("socket:[12]", dir.join("fd/4")).unwrap();
        fs::write(dir.join("fdinfo/3"), fdinfo).unwrap();
    }

    #[test]
    fn a_process_is_found_by_what_it_has_open_and_not_by_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let (device, other, proc_root) = (dir.path().join("device"), dir.path().join("other"), dir.path().join("proc"));
        fs::write(&device, "").unwrap();
        fs::write(&other, "").unwrap();
        fs::hard_link(&device, dir.path().join("alias")).unwrap();
        process(&proc_root, 4_100_001, &dir.path().join("alias"), "pos: 0\n");
        process(&proc_root, 4_100_002, &other, "pos: 0\n");
        process(&proc_root, std::process::id(), &device, "pos: 0\n");
        let scan = scan(&proc_root, &is(&device, true)).unwrap();
        assert_eq!(scan.openers.len(), 1, "{scan:?}");
        assert_eq!(scan.openers[0].to_string(), "it is open in process 4100001 (command-4100001)");
        assert_eq!(scan.openers[0].mark, None);
        assert_eq!(scan.unseen, 0);
    }

    #[test]
    fn who_only_reads_counts_where_readers_count() {
        let dir = tempfile::tempdir().unwrap();
        let (device, proc_root) = (dir.path().join("device"), dir.path().join("proc"));
        fs::write(&device, "").unwrap();
        for (pid, info) in [(4_100_001, "flags:\t0100000\n"), (4_100_002, "flags:\t0100002\n"), (4_100_003, "")] {
            process(&proc_root, pid, &device, info);
        }
        let pids = |readers_count| {
            let openers = scan(&proc_root, &is(&device, readers_count)).unwrap().openers;
            openers.iter().map(|opener| opener.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(true), [4_100_001, 4_100_002, 4_100_003]);
        assert_eq!(pids(false), [4_100_002, 4_100_003]);
    }

    #[test]
    fn a_process_that_ends_while_looked_at_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("4100001")).unwrap();
        let device = dir.path().join("device");
        fs::write(&device, "").unwrap();
        assert!(scan(dir.path(), &is(&device, true)).unwrap().openers.is_empty());
    }
}
