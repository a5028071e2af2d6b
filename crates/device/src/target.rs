//! An open device or file that operations can be issued to.
//!
//! A writable target is made only from a [`WriteConsent`]. Every other target is opened read-only, so that the kernel
//! refuses writes.

use crate::discover::{self, DeviceFacts, Kind};
use crate::guard::{
    self, OpenError, OpenedTarget, Records, RefusalReason, STAT_BLOCK_BYTES, UsedPart,
    WriteConsent, check_size, finish,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use sys::call::{MapAccess, Mapped};
use sys::{ioctl, open};
use thiserror::Error;

/// Bytes per discard call, so that a call takes about a second even on slow drives.
const DISCARD_BYTES: u64 = 16 << 30;

#[derive(Debug)]
pub struct Target {
    opened: OpenedTarget,
    stamp_key: Option<u64>,
    /// Write stream of all writes that name no stream; 0: none.
    write_hint: AtomicU16,
    /// True if operations go through the page cache, although direct I/O is possible.
    is_cached: AtomicBool,
}

/// Clears the write hint, which would otherwise stay on the inode and apply to the writes of the next program.
impl Drop for Target {
    fn drop(&mut self) {
        if self.write_hint() != 0 {
            let _ = open::set_write_hint(self.fd(), 0);
        }
    }
}

impl Target {
    pub fn writable(consent: WriteConsent) -> Self {
        let (opened, stamp_key) = consent.into_opened();
        Self {
            opened,
            stamp_key: Some(stamp_key),
            write_hint: AtomicU16::new(0),
            is_cached: AtomicBool::new(false),
        }
    }

    /// Opens `path` read-only, with direct I/O; needs no consent, and takes no claim. Errors: the path is missing, is
    /// neither device nor file, needs a permission, or has fewer than `min_size_bytes`.
    pub fn read_only(path: &str, min_size_bytes: u64) -> Result<Self, OpenError> {
        let opened = open_to_read(path, min_size_bytes);
        let opened = opened.map_err(|reason| OpenError {
            device: path.to_owned(),
            reason,
        })?;
        Ok(Self {
            opened,
            stamp_key: None,
            write_hint: AtomicU16::new(0),
            is_cached: AtomicBool::new(false),
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.opened.file.as_fd()
    }

    pub fn name(&self) -> &str {
        &self.opened.facts.path
    }

    pub fn facts(&self) -> &DeviceFacts {
        &self.opened.facts
    }

    /// Usable bytes, from offset 0. For a writable file: the requested size, which can be less than the file's length.
    pub fn size_bytes(&self) -> u64 {
        self.opened.size_bytes
    }

    /// Offsets, lengths and buffer addresses must be multiples of this number: 512, 1024, 2048 or 4096 bytes.
    pub fn min_io_bytes(&self) -> u32 {
        self.opened.min_io_bytes
    }

    pub fn is_writable(&self) -> bool {
        self.stamp_key.is_some()
    }

    /// True if operations bypass the page cache. Otherwise the run measures the page cache.
    pub fn is_direct(&self) -> bool {
        self.opened.direct && !self.is_cached.load(Ordering::Relaxed)
    }

    /// True if every write is on the medium when it completes (`O_DSYNC`).
    pub fn is_odsync(&self) -> bool {
        self.opened.odsync
    }

    /// Key for the stamp of every written sector ([`sys::salt`]); `None` for a read-only target.
    pub fn stamp_key(&self) -> Option<u64> {
        self.stamp_key
    }

    /// Number of streams that a write can name, from 1 on; 0 if the kernel (before Linux 6.16) or the drive has none.
    pub fn write_streams(&self) -> u16 {
        self.opened.facts.max_write_streams.unwrap_or(0)
    }

    /// Directs every write that names no stream to `stream` (1 to [`Self::write_streams`]), for engines whose writes
    /// cannot name a stream. The device has a single hint, which all writes share. Errors: `EINVAL` for a stream above
    /// 5.
    pub fn set_write_hint(&self, stream: u16) -> io::Result<()> {
        open::set_write_hint(self.fd(), stream.into())?;
        self.write_hint.store(stream, Ordering::Relaxed);
        Ok(())
    }

    /// The write hint in force; 0: none.
    pub fn write_hint(&self) -> u16 {
        self.write_hint.load(Ordering::Relaxed)
    }

    /// Limitations that the user should see.
    pub fn notes(&self) -> &[String] {
        &self.opened.notes
    }

    /// Directs all later operations through the page cache. `drops_cache`: drops the target's cached pages first.
    pub fn use_page_cache(&self, drops_cache: bool) -> io::Result<()> {
        if drops_cache {
            self.drop_cached();
        }
        let flags = rustix::fs::fcntl_getfl(&self.opened.file)?;
        rustix::fs::fcntl_setfl(&self.opened.file, flags - rustix::fs::OFlags::DIRECT)?;
        self.is_cached.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Another descriptor of the target, for writes through the page cache. With `odsync`, each write is on the medium
    /// when it completes.
    ///
    /// Errors: `PermissionDenied` if the target was not opened for writing.
    pub fn cached_writer(&self, odsync: bool) -> io::Result<File> {
        if !self.is_writable() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let flags = if odsync { libc::O_DSYNC } else { 0 };
        let own_fd_path = format!("/proc/self/fd/{}", self.fd().as_raw_fd());
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(own_fd_path)
    }

    /// Maps the target; for writing only if it was opened with the guard's consent.
    pub fn map(&self, access: MapAccess) -> io::Result<Mapped> {
        Mapped::new(self.fd(), self.size_bytes(), self.is_writable(), access)
    }

    /// Drops the kernel's page cache of a block device, after writes through its character device.
    pub fn drop_cached(&self) {
        // Errors are ignored: at worst a later read of the block device returns old bytes.
        let _ = rustix::fs::fadvise(self.fd(), 0, None, rustix::fs::Advice::DontNeed);
    }

    pub fn sync(&self) -> io::Result<()> {
        self.opened.file.sync_data()
    }

    /// Discards `range` (whole logical sectors) in pieces, so that the caller can show progress and handle signals
    /// between the pieces. Yields the end of each finished piece.
    ///
    /// Errors: `Unsupported` or `EOPNOTSUPP` if the target cannot discard; `PermissionDenied` if it was not opened for
    /// writing.
    pub fn discard(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = Result<u64, DiscardError>> + '_ {
        let Range { start: mut at, end } = range;
        std::iter::from_fn(move || {
            let offset = at;
            let len = DISCARD_BYTES.min(end - at);
            at += len;
            if len == 0 {
                return None;
            }
            match self.discard_piece(offset, len) {
                Ok(()) => Some(Ok(at)),
                Err(error) => Some(Err(DiscardError { offset, len, error })),
            }
        })
    }

    fn discard_piece(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.is_writable() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match self.opened.facts.kind {
            Kind::RegularFile => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a file has nothing to discard",
            )),
            Kind::WholeDisk | Kind::Partition | Kind::Simulated => {
                ioctl::discard(self.fd(), offset, len)
            }
        }
    }

    /// Writes the end of a file that direct I/O cannot write: fewer than [`Self::min_io_bytes`] bytes. No other
    /// operation may be in flight.
    pub fn write_remainder(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.through_page_cache(|file| {
            file.write_all_at(bytes, offset)
                .and_then(|()| file.sync_data())
        })
    }

    pub fn read_remainder(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.through_page_cache(|file| file.read_exact_at(bytes, offset))
    }

    fn through_page_cache<T>(&self, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let file = &self.opened.file;
        let flags = rustix::fs::fcntl_getfl(file)?;
        rustix::fs::fcntl_setfl(file, flags - rustix::fs::OFlags::DIRECT)?;
        let result = act(file);
        rustix::fs::fcntl_setfl(file, flags)?;
        result
    }
}

#[derive(Debug, Error)]
#[error("discard of {len} bytes at byte {offset} failed: {error}")]
pub struct DiscardError {
    offset: u64,
    len: u64,
    error: io::Error,
}

impl DiscardError {
    pub fn is_unsupported(&self) -> bool {
        self.error.kind() == io::ErrorKind::Unsupported
            || self.error.raw_os_error() == Some(libc::EOPNOTSUPP)
    }
}

fn open_to_read(path: &str, min_size_bytes: u64) -> Result<OpenedTarget, RefusalReason> {
    let root = Path::new("/");
    let resolved = discover::resolve(Path::new(path), root)?;
    let facts = discover::facts_of(path, &resolved, root)?;
    let (file, direct) = guard::open_to_read(path, &resolved)?;
    let failed = |source| RefusalReason::io("read its size", source);
    let mut notes = Vec::new();
    let size_bytes = match facts.kind {
        Kind::RegularFile => {
            let metadata = file.metadata().map_err(failed)?;
            notes.extend(note_on_holes(
                metadata.len(),
                metadata.blocks() * STAT_BLOCK_BYTES,
            ));
            metadata.len()
        }
        Kind::WholeDisk | Kind::Partition | Kind::Simulated => {
            ioctl::size_bytes(file.as_fd()).map_err(failed)?
        }
    };
    // A part that a preparation left unused is excluded, because reads of unwritten data do not reach the medium.
    let used_part = UsedPart::from_records(&facts, &Records::open(None));
    notes.extend(used_part.as_ref().map(ToString::to_string));
    let size_bytes = used_part.map_or(size_bytes, |part| part.used_bytes.min(size_bytes));
    check_size(size_bytes, min_size_bytes)?;
    finish(file, facts, size_bytes, direct, false, notes)
}

fn note_on_holes(len_bytes: u64, allocated_bytes: u64) -> Option<String> {
    let hole_bytes = len_bytes.saturating_sub(allocated_bytes);
    (hole_bytes > 0)
        .then(|| format!("{hole_bytes} of its {len_bytes} bytes are holes, and reads of holes do not reach the drive; write the whole file before you measure reads"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{assert_any_contains, assert_starts_with};
    use std::io::Write;
    use sys::op::{Op, OpKind, Outcome};

    #[test]
    fn a_read_only_target_has_name_and_size_and_refuses_writes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        let path = file.path().to_str().unwrap();
        let target = Target::read_only(path, 8192).unwrap();
        assert_eq!((target.name(), target.size_bytes()), (path, 8192));
        assert!(matches!(target.min_io_bytes(), 512 | 1024 | 2048 | 4096));
        assert!(!target.is_writable() && !target.is_odsync() && target.stamp_key().is_none());
        let error = target.opened.file.write_at(&[0; 512], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let found = target.cached_writer(true).unwrap_err().kind();
        assert_eq!(found, io::ErrorKind::PermissionDenied);
        let mapped = target.map(MapAccess::default()).unwrap();
        let buf = sys::buffer::Pool::new(512).unwrap().cut(512).unwrap();
        let mut write = Op::new(OpKind::Write, 0, 512, buf);
        // The kernel's copy to a read-only page fails with EFAULT, which the mapping reports as EIO.
        let found = mapped.perform_call(target.fd(), &mut write);
        assert_eq!(found, Outcome::Errno(libc::EIO));
    }

    #[test]
    fn a_target_that_cannot_be_opened_is_named_with_a_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let small = file.path().to_str().unwrap();
        for (path, says) in [
            (
                "/dev/no-such-device",
                "there is no such device or file; check the name",
            ),
            ("/dev/null", "it is a character device, not a block device"),
            ("/tmp", "it is a directory, not a block device"),
            (
                small,
                "its 4096 bytes are less than the 8192 bytes of one operation",
            ),
        ] {
            let text = Target::read_only(path, 8192).unwrap_err().to_string();
            assert_starts_with!(text, &format!("cannot read {path} - {says}"));
            assert!(!text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn holes_in_a_file_are_noted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let target = Target::read_only(file.path().to_str().unwrap(), 512).unwrap();
        assert_any_contains!(target.notes(), "1048576 of its 1048576 bytes are holes");
        assert_eq!(note_on_holes(4096, 8192), None);
    }
}
