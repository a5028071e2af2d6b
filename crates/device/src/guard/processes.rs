//! Finds other processes that have the device or file open, or mapped into their memory.
//!
//! The scan compares every descriptor and every mapped file of every process by device number (a file: by device and
//! inode). No other check finds a database that opens its drives without `O_EXCL`.
//!
//! | Use | Where the kernel shows it |
//! |---|---|
//! | descriptors | /proc/PID/fd |
//! | descriptors after the main thread ended, or of a thread with a table of its own | /proc/PID/task/TID/fd of each table (kcmp) |
//! | a mapping whose descriptor is closed | /proc/PID/maps; /proc/PID/map_files has a link to each mapped file |
//!
//! Threads share their memory, so one thread of a process shows all mappings. /proc/PID/maps shows the inode of a
//! device's node in place of the device number. So the scan follows map_files, but only once for each file: most
//! processes map the same libraries.
//!
//! The scan cannot see processes of other PID namespaces, descriptors that exist only in the file table of an io_uring
//! or in a message on a Unix socket, and users inside the kernel. The watch on the I/O counters covers these users of a
//! device; the lease ([`sys::users::has_other_writer`]) covers writers of a file.

use super::mark::mark_in_fdinfo;
use super::target_devices::TargetPart;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fmt, fs};
use sys::open::ByteLock;
use sys::users::share_descriptors;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    pub pid: u32,
    pub command: String,
    /// The device that the process has open, relative to the target: `it`, `its partition /dev/sda1`...
    pub description: String,
    /// The mark of a run of this program; `None` for other programs.
    pub(super) mark: Option<ByteLock>,
}

impl fmt::Display for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is open in process {} ({})",
            self.description, self.pid, self.command
        )
    }
}

/// Examines all processes except this one. `find` returns the part of the target that a path in /proc leads to. Returns
/// the processes that have the target open, sorted by process ID, and the number of processes that could not be
/// examined (no permission).
pub(super) fn scan(
    proc_root: &Path,
    find: &dyn Fn(&Path) -> Option<TargetPart>,
) -> io::Result<(Vec<Opener>, u32)> {
    let mut scan = ProcessScan {
        proc_root,
        find,
        other_mappings: HashSet::new(),
    };
    let mut openers = Vec::new();
    let mut unseen = 0;
    for pid in numbers_in(proc_root)?.filter(|pid| *pid != std::process::id()) {
        let process = proc_root.join(pid.to_string());
        let mut uses = Uses::new();
        match scan.add_process(pid, &mut uses) {
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && may_have_files(&process) =>
            {
                unseen += 1
            }
            // Any other error: the process has ended during the scan.
            Ok(()) | Err(_) => {}
        }
        openers.extend(opener(pid, &process, uses));
    }
    openers.sort_by_key(|opener: &Opener| opener.pid);
    Ok((openers, unseen))
}

fn numbers_in(dir: &Path) -> io::Result<impl Iterator<Item = u32>> {
    Ok(fs::read_dir(dir)?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// The parts of the target that a process uses, with the mark of each.
type Uses = BTreeMap<String, Option<ByteLock>>;

struct ProcessScan<'a> {
    proc_root: &'a Path,
    find: &'a dyn Fn(&Path) -> Option<TargetPart>,
    /// Mapped files that are no part of the target: device, inode and path, as in /proc/PID/maps.
    other_mappings: HashSet<Vec<u8>>,
}

impl ProcessScan<'_> {
    fn add_process(&mut self, pid: u32, uses: &mut Uses) -> io::Result<()> {
        let process = self.proc_root.join(pid.to_string());
        self.add_descriptors(&process, uses)?;
        let mut has_memory = self.add_mappings(&process, uses)?;
        let mut tables = vec![pid];
        for thread in numbers_in(&process.join("task"))?.filter(|thread| *thread != pid) {
            // If kcmp fails, examine the thread, because it may have a table of its own.
            let is_known = |table: &u32| share_descriptors(*table, thread).unwrap_or(false);
            if !tables.iter().any(is_known) {
                tables.push(thread);
                let _ended =
                    self.add_descriptors(&process.join("task").join(thread.to_string()), uses);
            }
            // The main thread has no memory if it ended before the others. Only /proc/TID has the links of a thread.
            if !has_memory {
                has_memory = self.add_mappings(&self.proc_root.join(thread.to_string()), uses)?;
            }
        }
        Ok(())
    }

    fn add_descriptors(&self, thread: &Path, uses: &mut Uses) -> io::Result<()> {
        for entry in fs::read_dir(thread.join("fd"))?.flatten() {
            // Most descriptors are sockets and pipes, which the link shows without a `stat`.
            if !fs::read_link(entry.path()).is_ok_and(|to| to.is_absolute()) {
                continue;
            }
            let Some(part) = (self.find)(&entry.path()) else {
                continue;
            };
            let info = fs::read_to_string(thread.join("fdinfo").join(entry.file_name()))
                .unwrap_or_default();
            if part.readers_count || may_write(&info) {
                let mark = uses.entry(part.description).or_default();
                *mark = mark.or_else(|| mark_in_fdinfo(&info));
            }
        }
        Ok(())
    }

    /// Returns true if the process or thread has memory.
    fn add_mappings(&mut self, thread: &Path, uses: &mut Uses) -> io::Result<bool> {
        let mut maps = match fs::File::open(thread.join("maps")) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Ok(false),
            opened => BufReader::new(opened?),
        };
        let mut has_memory = false;
        let mut line = Vec::new();
        while maps.read_until(b'\n', &mut line)? > 0 {
            has_memory = true;
            if let Some(mapping) = MappedFile::parse(&line)
                .filter(|mapping| !self.other_mappings.contains(mapping.file))
            {
                let link = thread.join("map_files").join(&mapping.range);
                match self.part_of(&mapping, &link) {
                    None => drop(self.other_mappings.insert(mapping.file.to_vec())),
                    Some(part) if part.readers_count || is_writable(&link) => {
                        uses.entry(part.description).or_default();
                    }
                    Some(_) => {}
                }
            }
            line.clear();
        }
        Ok(has_memory)
    }

    /// The part of the target that is mapped. Without the right to follow `link` (`CAP_CHECKPOINT_RESTORE`), the part
    /// is found by the path in maps.
    fn part_of(&self, mapping: &MappedFile<'_>, link: &Path) -> Option<TargetPart> {
        (self.find)(link).or_else(|| {
            let may_follow = fs::metadata(link).map_or_else(
                |error| error.kind() != io::ErrorKind::PermissionDenied,
                |_| true,
            );
            if may_follow {
                None
            } else {
                (self.find)(mapping.path)
            }
        })
    }
}

/// A mapped file: a line of /proc/PID/maps (proc_pid_maps(5)), such as `00400000-00452000 r-xp 0 08:02 173 /bin/cat`.
struct MappedFile<'a> {
    /// Name of the link in map_files.
    range: String,
    /// Device, inode and path.
    file: &'a [u8],
    path: &'a Path,
}

impl<'a> MappedFile<'a> {
    /// `None` for memory without a file, which has inode 0.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.trim_ascii_end().splitn(4, |byte| *byte == b' ');
        let range = std::str::from_utf8(fields.next()?).ok()?;
        let file = fields.nth(2)?;
        // After the offset: device, inode, and the path behind spaces.
        let mut fields = file.splitn(3, |byte| *byte == b' ').skip(1);
        fields.next().filter(|inode| *inode != b"0")?;
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        let (start, end) = range.split_once('-')?;
        let range = format!(
            "{}-{}",
            start.trim_start_matches('0'),
            end.trim_start_matches('0')
        );
        Some(Self {
            range,
            file,
            path: Path::new(std::ffi::OsStr::from_bytes(path)),
        })
    }
}

/// True if a mapped file was opened for writing, by the mode of its link; true if unknown.
fn is_writable(link: &Path) -> bool {
    fs::symlink_metadata(link).map_or(true, |link| link.permissions().mode() & 0o200 != 0)
}

/// True if a descriptor is open for writing, by its text in fdinfo; true if unknown.
fn may_write(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

fn opener(
    pid: u32,
    process: &Path,
    marks_by_part: BTreeMap<String, Option<ByteLock>>,
) -> Option<Opener> {
    // A run sets its mark on one descriptor only; the other descriptors of the process belong to the same run.
    let mark = marks_by_part.values().find_map(|mark| *mark);
    let description = marks_by_part.into_keys().collect::<Vec<_>>().join(" and ");
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let command = if command.trim().is_empty() {
        "name unknown".to_owned()
    } else {
        command.trim().to_owned()
    };
    (!description.is_empty()).then_some(Opener {
        pid,
        command,
        description,
        mark,
    })
}

/// False for a process that ended meanwhile, and for a kernel thread, which has no command line.
fn may_have_files(process: &Path) -> bool {
    match fs::read(process.join("cmdline")) {
        Ok(line) => !line.is_empty(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn is(file: &Path, readers_count: bool) -> impl Fn(&Path) -> Option<TargetPart> {
        let inode = fs::metadata(file).unwrap().ino();
        move |path: &Path| {
            let is_it = fs::metadata(path).is_ok_and(|metadata| metadata.ino() == inode);
            is_it.then(|| TargetPart {
                description: "it".to_owned(),
                readers_count,
            })
        }
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
    fn a_process_is_found_by_its_open_file_and_not_by_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let other = dir.path().join("other");
        let proc_root = dir.path().join("proc");
        fs::write(&device, "").unwrap();
        fs::write(&other, "").unwrap();
        fs::hard_link(&device, dir.path().join("alias")).unwrap();
        process(&proc_root, 4_100_001, &dir.path().join("alias"), "pos: 0\n");
        process(&proc_root, 4_100_002, &other, "pos: 0\n");
        process(&proc_root, std::process::id(), &device, "pos: 0\n");
        let (openers, unseen) = scan(&proc_root, &is(&device, true)).unwrap();
        assert_eq!(openers.len(), 1, "{openers:?}");
        let found = openers[0].to_string();
        assert_eq!(found, "it is open in process 4100001 (command-4100001)");
        assert_eq!(openers[0].mark, None);
        assert_eq!(unseen, 0);
    }

    #[test]
    fn processes_that_opened_a_device_read_only_are_ignored_unless_readers_count() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let proc_root = dir.path().join("proc");
        fs::write(&device, "").unwrap();
        for (pid, info) in [
            (4_100_001, "flags:\t0100000\n"),
            (4_100_002, "flags:\t0100002\n"),
            (4_100_003, ""),
        ] {
            process(&proc_root, pid, &device, info);
        }
        let pids = |readers_count| {
            let openers = scan(&proc_root, &is(&device, readers_count)).unwrap().0;
            openers.iter().map(|opener| opener.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(true), [4_100_001, 4_100_002, 4_100_003]);
        assert_eq!(pids(false), [4_100_002, 4_100_003]);
    }

    #[test]
    fn a_process_that_ends_during_the_scan_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("4100001")).unwrap();
        let device = dir.path().join("device");
        fs::write(&device, "").unwrap();
        assert!(scan(dir.path(), &is(&device, true)).unwrap().0.is_empty());
    }
}
