//! Opens a target, with the kernel's exclusive claim and flashproof's mark.
//!
//! | run       | kernel's claim (`O_EXCL`)                | mark ([`super::mark`]) |
//! |-----------|------------------------------------------|--------------------|
//! | exclusive | held for as long as the descriptor lives | exclusive          |
//! | shared    | taken for a moment, then released        | shared             |
//!
//! The kernel grants one claim at a time, so several shared runs cannot hold claims. Instead, a momentary claim shows
//! that no file system, RAID or driver holds the device. The shared mark keeps out exclusive runs. A shared run cannot
//! prevent a later mount.

use super::mark::{MARK_BYTE, mark_of};
use super::refusal::RefusalReason;
use super::{Guard, WriteRequest};
use crate::discover::{self, DeviceFacts, DeviceNumber, Resolved};
use results::files;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use sys::ioctl;
use sys::open::{ByteLock, conflicting_lock, try_lock_byte};
use sys::users::has_other_writer;

/// Unit of `st_blocks`, for any block size of the file system (stat(2)).
pub(crate) const STAT_BLOCK_BYTES: u64 = 512;

/// An open device or file with its facts. Inside a `WriteConsent` it may be written to.
#[derive(Debug)]
pub(crate) struct OpenedTarget {
    pub(crate) file: File,
    pub(crate) facts: DeviceFacts,
    pub(crate) size_bytes: u64,
    pub(crate) min_io_bytes: u32,
    pub(crate) direct: bool,
    pub(crate) odsync: bool,
    pub(crate) notes: Vec<String>,
    /// Claims on the other paths to the drive, held as long as the descriptor is open.
    pub(crate) _claims: Vec<File>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OpenMode {
    pub(super) shared: bool,
    pub(super) odsync: bool,
    /// Maximum wait for an earlier user to release the device: the kernel closes the files of an io_uring some time
    /// after its process has ended.
    pub(super) settle: Duration,
}

impl OpenMode {
    pub(super) fn from_request(request: &WriteRequest, guard: &Guard) -> Self {
        Self {
            shared: request.shared,
            odsync: request.odsync,
            settle: guard.settle,
        }
    }

    fn flags(self) -> i32 {
        if self.odsync { libc::O_DSYNC } else { 0 }
    }
}

/// Opens the block device at `node` for direct writes, and claims it. The device must match `facts`.
pub(super) fn open_device(
    node: &Path,
    facts: &DeviceFacts,
    root: &Path,
    open_mode: OpenMode,
) -> Result<File, RefusalReason> {
    let file = claimed(node, open_mode)?;
    check_same(facts, &file, root)?;
    if ioctl::is_read_only(file.as_fd())
        .map_err(|source| RefusalReason::io("check if it is writable", source))?
    {
        return Err(RefusalReason::ReadOnly {
            how: "the device says so",
        });
    }
    Ok(file)
}

pub(super) fn check_same(
    facts: &DeviceFacts,
    file: &File,
    root: &Path,
) -> Result<(), RefusalReason> {
    discover::changes_since(facts, file, root)
        .map_or(Ok(()), |what| Err(RefusalReason::Changed { what }))
}

fn claimed(node: &Path, open_mode: OpenMode) -> Result<File, RefusalReason> {
    let direct = open_mode.flags() | libc::O_DIRECT;
    if open_mode.shared {
        let file = open(node, true, direct)
            .map_err(|source| RefusalReason::io("open it for writing", source))?;
        mark(&file, open_mode)?;
        retry(open_mode.settle, is_busy, || {
            open(node, false, libc::O_EXCL)
        })
        .map_err(|source| busy(node, source))?;
        return Ok(file);
    }
    let exclusive = direct | libc::O_EXCL;
    let file = retry(open_mode.settle, is_busy, || open(node, true, exclusive))
        .map_err(|source| busy(node, source))?;
    mark(&file, open_mode)?;
    Ok(file)
}

/// Opens `node` for direct reads. A momentary claim from the kernel shows that nobody else holds the device.
pub(super) fn open_for_examination(node: &Path, settle: Duration) -> Result<File, RefusalReason> {
    let failed = |source| RefusalReason::io("open it for reading", source);
    retry(settle, is_busy, || open(node, false, libc::O_EXCL)).map_err(|source| {
        if is_busy(&source) {
            busy(node, source)
        } else {
            failed(source)
        }
    })?;
    open(node, false, libc::O_DIRECT).map_err(failed)
}

/// Claims `node`, another path to a drive that will be written to. `None` if it is not the device `number`.
pub(super) fn other_path(
    node: &Path,
    number: DeviceNumber,
    open_mode: OpenMode,
) -> Result<Option<File>, RefusalReason> {
    match fs::metadata(node) {
        Ok(metadata)
            if metadata.file_type().is_block_device()
                && DeviceNumber::of_stat(metadata.rdev()) == number => {}
        _ => return Ok(None),
    }
    let claim = retry(open_mode.settle, is_busy, || {
        open(node, false, libc::O_EXCL)
    });
    claim.map(Some).map_err(|source| {
        if is_busy(&source) {
            RefusalReason::OtherPathClaimed {
                path: node.display().to_string(),
            }
        } else {
            RefusalReason::io("claim another path to its drive", source)
        }
    })
}

fn open(node: &Path, write: bool, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(flags)
        .open(node)
}

pub(super) fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// Why a claim failed: another run of flashproof, if the device has an exclusive mark; otherwise the kernel's error.
fn busy(node: &Path, source: io::Error) -> RefusalReason {
    if is_busy(&source) && mark_of_other_run(node) == Some(ByteLock::Exclusive) {
        RefusalReason::second_run(false, String::new())
    } else {
        RefusalReason::io("open it for writing", source)
    }
}

fn mark_of_other_run(node: &Path) -> Option<ByteLock> {
    let file = open(node, false, 0).ok()?;
    conflicting_lock(file.as_fd(), MARK_BYTE, ByteLock::Exclusive).ok()?
}

/// Opens and marks the file, which must have the device and inode in `metadata`. Returns true if the descriptor
/// bypasses the page cache.
pub(super) fn file(
    path: &Path,
    metadata: &Metadata,
    open_mode: OpenMode,
) -> Result<(File, bool), RefusalReason> {
    let (file, direct) = open_direct(
        &files::stable_path(path),
        OpenOptions::new().read(true).write(true),
        open_mode.flags(),
    )
    .map_err(|source| RefusalReason::io("open it for writing", source))?;
    let opened_metadata = file
        .metadata()
        .map_err(|source| RefusalReason::io("read its metadata", source))?;
    if (opened_metadata.dev(), opened_metadata.ino()) != (metadata.dev(), metadata.ino()) {
        return Err(RefusalReason::Changed {
            what: "another file took its place".to_owned(),
        });
    }
    mark(&file, open_mode)?;
    check_sole_writer(&file, open_mode)?;
    Ok((file, direct))
}

/// Refuses a file with another writer that the process scan did not find, unless other shared runs may write to it.
pub(super) fn check_sole_writer(file: &File, open_mode: OpenMode) -> Result<(), RefusalReason> {
    if open_mode.shared {
        return Ok(());
    }
    let sole = || match has_other_writer(file.as_fd())? {
        Some(true) => Err(io::ErrorKind::WouldBlock.into()),
        Some(false) | None => Ok(()),
    };
    retry(
        open_mode.settle,
        |error| error.kind() == io::ErrorKind::WouldBlock,
        sole,
    )
    .map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => RefusalReason::UnknownWriter,
        _ => RefusalReason::io("check that nobody else writes to it", source),
    })
}

/// Creates a file and marks it. Returns true if the descriptor bypasses the page cache. On an error no file remains.
pub(super) fn new_file(path: &Path, open_mode: OpenMode) -> Result<(File, bool), RefusalReason> {
    // open(2) with O_CREAT and O_DIRECT may create the file and then fail, on a file system without O_DIRECT. So create
    // the file without O_DIRECT, and open it again.
    let made = files::create_new(path, files::PRIVATE);
    let metadata = made
        .and_then(|made| made.metadata())
        .map_err(|source| RefusalReason::io("create the file", source))?;
    file(path, &metadata, open_mode).inspect_err(|_| {
        let _ = files::remove_file(path);
    })
}

fn mark(file: &File, open_mode: OpenMode) -> Result<(), RefusalReason> {
    let byte_lock = mark_of(open_mode.shared);
    let failed = |source| RefusalReason::io("lock it against a second run", source);
    let lock_result = retry(
        open_mode.settle,
        |error| error.kind() == io::ErrorKind::WouldBlock,
        || {
            if try_lock_byte(file.as_fd(), MARK_BYTE, byte_lock)? {
                Ok(())
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            }
        },
    );
    match lock_result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let theirs = conflicting_lock(file.as_fd(), MARK_BYTE, byte_lock).map_err(failed)?;
            Err(RefusalReason::second_run(
                theirs == Some(ByteLock::Shared),
                String::new(),
            ))
        }
        set => set.map_err(failed),
    }
}

/// Repeats `attempt` until it succeeds, until an error for which `is_retryable` is false, or until `limit` has passed.
pub(super) fn retry<T>(
    limit: Duration,
    is_retryable: impl Fn(&io::Error) -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match attempt() {
            Err(error) if is_retryable(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20))
            }
            result => return result,
        }
    }
}

/// Probes the minimum direct I/O size, and makes the [`OpenedTarget`] of `file`.
pub(crate) fn finish(
    file: File,
    facts: DeviceFacts,
    size_bytes: u64,
    direct: bool,
    odsync: bool,
    mut notes: Vec<String>,
) -> Result<OpenedTarget, RefusalReason> {
    let probed = discover::min_direct_io_bytes(file.as_fd())
        .map_err(|source| RefusalReason::io("read its start", source))?;
    // Reads of unwritten blocks do not reach the disk, so the probe may find a smaller size than the disk accepts.
    let min_io_bytes = if direct {
        probed.max(facts.logical_sector_bytes.unwrap_or(0))
    } else {
        probed
    };
    if !direct {
        notes.push(
            "its file system does not support direct I/O, so the test also measures the page cache"
                .to_owned(),
        );
    }
    Ok(OpenedTarget {
        file,
        facts,
        size_bytes,
        min_io_bytes,
        direct,
        odsync,
        notes,
        _claims: Vec::new(),
    })
}

/// Opens `path` for reading only, without a claim. Returns the file, and true if it was opened with `O_DIRECT`.
pub(crate) fn open_to_read(path: &str, resolved: &Resolved) -> Result<(File, bool), RefusalReason> {
    let node = match resolved {
        Resolved::Block { node, .. } => node.as_path(),
        Resolved::File { .. } => Path::new(path),
    };
    open_direct(&files::stable_path(node), OpenOptions::new().read(true), 0)
        .map_err(|source| RefusalReason::io("open it for reading", source))
}

/// As for [`open_to_read`]; without `O_DIRECT` if the file system does not support it (open(2): `EINVAL`).
fn open_direct(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<(File, bool)> {
    match options.custom_flags(flags | libc::O_DIRECT).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Ok((options.custom_flags(flags).open(path)?, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// Refuses a target that is smaller than needed, or empty.
pub(crate) fn check_size(size_bytes: u64, min_size_bytes: u64) -> Result<(), RefusalReason> {
    let min_size_bytes = min_size_bytes.max(1);
    if size_bytes < min_size_bytes {
        Err(RefusalReason::TooSmall {
            size_bytes,
            min_size_bytes,
        })
    } else {
        Ok(())
    }
}
