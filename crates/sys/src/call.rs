//! Performs an operation as a system call of the calling thread, which blocks until the device answers; or by page
//! faults, on a file or device mapped into memory.
//!
//! No thread of this process accesses the mapping directly: the kernel copies between the mapping and the operation's
//! buffer (process_vm_readv(2) and process_vm_writev(2) on this process). The page faults are the same as for a memory
//! access by the issuing thread. If another program truncated the file or the device failed, a memory access would
//! raise SIGBUS; the copy returns an error instead. The alternatives are worse: a SIGBUS handler would have to longjmp
//! out of the copy, and a size that was checked before can change during the copy.

use crate::buffer::Mapping;
use crate::ioctl::deallocate;
use crate::op::{Op, OpKind, Outcome, WriteBack, WriteSync};
use crate::succeed;
use rustix::fs::{Advice, FileType, fadvise, fdatasync, fstat, fsync};
use rustix::io::{ReadWriteFlags, pread, pwrite, pwritev2};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Performs `op` on `fd`, whose inode has the write stream `hint` (0: none).
pub fn perform_call(fd: BorrowedFd<'_>, hint: u16, op: &mut Op) -> Outcome {
    loop {
        match call(fd, hint, op) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Outcome::Errno(error.raw_os_error().unwrap_or(libc::EIO)),
            Ok(bytes) => return Outcome::from_result(bytes as i64, op),
        }
    }
}

/// Returns the number of bytes transferred.
fn call(fd: BorrowedFd<'_>, hint: u16, op: &mut Op) -> io::Result<usize> {
    let len = (op.len as usize).min(op.buf.len());
    match op.kind {
        // pwritev2(2) has no parameter for a write stream; every write gets the stream of the inode.
        OpKind::Write if op.placement.is_some_and(|placement| placement.0 != hint) => {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        OpKind::Read => return Ok(pread(fd, &mut op.buf[..len], op.offset)?),
        OpKind::Write if op.sync == WriteSync::No => {
            return Ok(pwrite(fd, &op.buf[..len], op.offset)?);
        }
        OpKind::Write => {
            let flags = ReadWriteFlags::from_bits_retain(op.sync.flags() as u32);
            return Ok(pwritev2(
                fd,
                &[IoSlice::new(&op.buf[..len])],
                op.offset,
                flags,
            )?);
        }
        OpKind::Flush => fdatasync(fd)?,
        OpKind::FlushFile => fsync(fd)?,
        OpKind::WriteBack(WriteBack {
            drop_cache: true, ..
        }) => fadvise(fd, 0, None, Advice::DontNeed)?,
        OpKind::WriteBack(steps) => write_back(fd, op.offset, op.len.into(), steps)?,
        OpKind::Deallocate => deallocate(fd, op.offset, op.len.into())?,
    }
    Ok(0)
}

/// Writes back the modified pages of `len` bytes at `offset` (sync_file_range(2)); `len` 0: to the end of the file.
fn write_back(fd: BorrowedFd<'_>, offset: u64, len: u64, steps: WriteBack) -> io::Result<()> {
    // SAFETY: plain numbers; the descriptor is open for as long as it is borrowed.
    succeed(unsafe { libc::sync_file_range(fd.as_raw_fd(), offset as _, len as _, steps.flags()) })
        .map(drop)
}

/// Access pattern and durability of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapAccess {
    /// True for random offsets: a page fault reads only its page, without read-ahead.
    pub random: bool,
    /// True to follow each read and write with msync(2) of its pages.
    pub syncs: bool,
}

/// A shared mapping of the first bytes of a file or device.
#[derive(Debug)]
pub struct Mapped {
    mapping: Mapping,
    access: MapAccess,
}

impl Mapped {
    /// Maps the first `len` bytes of `fd`. Errors: those of mmap(2), such as `EACCES` for a `writable` mapping of a
    /// read-only descriptor; the kernel or a container forbids process_vm_readv(2).
    pub fn new(
        fd: BorrowedFd<'_>,
        len: u64,
        writable: bool,
        access: MapAccess,
    ) -> io::Result<Self> {
        copy_within_process().map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("process_vm_readv(2) is not allowed ({error}; see a container's seccomp profile)"),
            )
        })?;
        let len =
            usize::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let mapping = Mapping::new(len, protection, libc::MAP_SHARED, fd.as_raw_fd())?;
        mapping.advise(if access.random {
            libc::MADV_RANDOM
        } else {
            libc::MADV_SEQUENTIAL
        })?;
        Ok(Self { mapping, access })
    }

    /// Performs `op` on the mapping of `fd`.
    pub fn perform_call(&self, fd: BorrowedFd<'_>, op: &mut Op) -> Outcome {
        let result = match op.kind {
            OpKind::Read | OpKind::Write => match self.copy(op) {
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                    self.why_faulted(fd, op)
                }
                Ok(bytes) if bytes == op.len as usize && self.access.syncs => {
                    self.sync(op.offset as usize, bytes).map(|()| bytes)
                }
                copied => copied,
            },
            OpKind::Flush
            | OpKind::FlushFile
            | OpKind::WriteBack(WriteBack {
                drop_cache: false, ..
            }) => self.sync(0, self.mapping.len).map(|()| 0),
            // Drops the page cache. Mapped pages would stay in the cache, so they are unmapped first; the bytes of a
            // shared mapping survive MADV_DONTNEED.
            OpKind::WriteBack(_) => match self.mapping.advise(libc::MADV_DONTNEED) {
                Ok(()) => return perform_call(fd, 0, op),
                Err(error) => Err(error),
            },
            OpKind::Deallocate => return perform_call(fd, 0, op),
        };
        match result {
            Ok(bytes) => Outcome::from_result(bytes as i64, op),
            Err(error) => Outcome::Errno(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Returns the number of bytes copied before the first inaccessible page.
    fn copy(&self, op: &mut Op) -> io::Result<usize> {
        let len = (op.len as usize).min(op.buf.len());
        let at = usize::try_from(op.offset).ok().filter(|at| {
            at.checked_add(len)
                .is_some_and(|end| end <= self.mapping.len)
        });
        let Some(at) = at else { return Ok(0) };
        let buffer_iovec = libc::iovec {
            iov_base: op.buf.address().cast(),
            iov_len: len,
        };
        let mapped = libc::iovec {
            iov_base: self.mapping.start.as_ptr().wrapping_add(at).cast(),
            iov_len: len,
        };
        // The mapping is the local side, which the kernel accesses by page faults. The pages of the remote side (the
        // buffer) are pinned.
        let call = if op.kind == OpKind::Read {
            libc::process_vm_writev
        } else {
            libc::process_vm_readv
        };
        // SAFETY: `buffer_iovec` lies in the buffer that `op` owns, and no reference to its bytes lives during the
        // call. `mapped` lies in the mapping, to which no references exist.
        succeed(unsafe { call(libc::getpid(), &mapped, 1, &buffer_iovec, 1, 0) } as i64)
    }

    /// Result of a copy that failed at its first page: `Ok(0)` at the end of the file, otherwise EIO.
    fn why_faulted(&self, fd: BorrowedFd<'_>, op: &Op) -> io::Result<usize> {
        let stat = fstat(fd)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && (stat.st_size as u64) < op.offset + u64::from(op.len) {
            Ok(0)
        } else {
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
    }

    /// Writes modified pages of a range back and flushes the drive's cache.
    fn sync(&self, at: usize, len: usize) -> io::Result<()> {
        let page = crate::process::page_bytes() as usize;
        let start = at / page * page;
        // SAFETY: the pages belong to the mapping; the call changes no byte of them.
        let pages = unsafe { self.mapping.start.as_ptr().add(start).cast() };
        // SAFETY: as above.
        succeed(unsafe { libc::msync(pages, at + len - start, libc::MS_SYNC) }).map(drop)
    }
}

/// Checks that the kernel allows process_vm_readv(2) on this process.
fn copy_within_process() -> io::Result<()> {
    let source = [1_u8];
    let mut copy = [0_u8];
    let from = libc::iovec {
        iov_base: source.as_ptr().cast_mut().cast(),
        iov_len: 1,
    };
    let to = libc::iovec {
        iov_base: copy.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: copies one byte between two arrays, which both live until the call returns.
    succeed(unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) } as i64).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = 4096;

    /// A file of four pages of zeros.
    fn mapped(access: MapAccess) -> (File, Mapped) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * PAGE).unwrap();
        let mapped = Mapped::new(file.as_fd(), 4 * PAGE, true, access).unwrap();
        (file, mapped)
    }

    /// Fills a buffer with `byte`, performs an operation, and returns its outcome and the buffer's first byte.
    fn act(file: &File, mapped: &Mapped, kind: OpKind, offset: u64, byte: u8) -> (Outcome, u8) {
        let mut buf = Pool::new(8192).unwrap().cut(8192).unwrap();
        buf.fill(byte);
        let mut op = Op::new(kind, offset, 8192, buf);
        let outcome = mapped.perform_call(file.as_fd(), &mut op);
        (outcome, op.buf[0])
    }

    #[test]
    fn reads_and_writes_through_the_mapping_reach_the_file() {
        for syncs in [false, true] {
            let (file, mapped) = mapped(MapAccess {
                random: true,
                syncs,
            });
            let found = act(&file, &mapped, OpKind::Write, 1_000, 7);
            assert_eq!(found, (Outcome::Done, 7));
            let found = act(&file, &mapped, OpKind::Read, 1_000, 0);
            assert_eq!(found, (Outcome::Done, 7));
            let mut bytes = vec![0; 4 * PAGE as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), 8192);
            assert!(bytes[1_000] == 7 && bytes[999] == 0 && bytes[9_192] == 0);
            for kind in [
                OpKind::Flush,
                OpKind::WriteBack(WriteBack {
                    drop_cache: true,
                    ..WriteBack::default()
                }),
            ] {
                assert_eq!(act(&file, &mapped, kind, 0, 0).0, Outcome::Done);
            }
            assert_eq!(
                act(&file, &mapped, OpKind::Read, 3 * PAGE, 0).0,
                Outcome::Short(0),
                "beyond the mapping"
            );
        }
    }

    #[test]
    fn operations_beyond_the_end_of_a_truncated_mapped_file_are_short_and_raise_no_signal() {
        let (file, mapped) = mapped(MapAccess::default());
        assert_eq!(act(&file, &mapped, OpKind::Write, 0, 7).0, Outcome::Done);
        file.set_len(PAGE).unwrap();
        for kind in [OpKind::Read, OpKind::Write] {
            assert_eq!(
                act(&file, &mapped, kind, PAGE, 1).0,
                Outcome::Short(0),
                "{kind}"
            );
            assert_eq!(
                act(&file, &mapped, kind, 0, 1).0,
                Outcome::Short(PAGE as u32),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_mapping_for_writing_needs_a_descriptor_for_writing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(PAGE).unwrap();
        let read_only = File::open(file.path()).unwrap();
        let error = Mapped::new(read_only.as_fd(), PAGE, true, MapAccess::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(Mapped::new(read_only.as_fd(), PAGE, false, MapAccess::default()).is_ok());
    }
}
