//! An operation as a system call of the calling thread, which blocks until the device answers.

use crate::ioctl::{deallocate, reset_zones};
use crate::op::{Op, OpKind, Outcome, WriteBack, WriteSync};
use crate::succeed;
use rustix::fs::{Advice, fadvise, fdatasync, fsync};
use rustix::io::{ReadWriteFlags, pread, pwrite, pwritev2};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Carries `op` out on `fd`, whose inode has the write stream `hint` (0: none).
pub fn carry_out(fd: BorrowedFd<'_>, hint: u16, op: &mut Op) -> Outcome {
    loop {
        match call(fd, hint, op) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Outcome::Errno(error.raw_os_error().unwrap_or(libc::EIO)),
            Ok(bytes) => return Outcome::of(bytes as i64, op),
        }
    }
}

/// Returns the bytes moved.
fn call(fd: BorrowedFd<'_>, hint: u16, op: &mut Op) -> io::Result<usize> {
    let len = (op.len as usize).min(op.buf.len());
    match op.kind {
        // pwritev2(2) takes no write stream; every write has the stream of the inode.
        OpKind::Write if op.placement.is_some_and(|placement| placement.0 != hint) => {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        OpKind::Read => return Ok(pread(fd, &mut op.buf[..len], op.offset)?),
        OpKind::Write if op.sync == WriteSync::No => return Ok(pwrite(fd, &op.buf[..len], op.offset)?),
        OpKind::Write => {
            let flags = ReadWriteFlags::from_bits_retain(op.sync.flags() as u32);
            return Ok(pwritev2(fd, &[IoSlice::new(&op.buf[..len])], op.offset, flags)?);
        }
        OpKind::Flush => fdatasync(fd)?,
        OpKind::FlushFile => fsync(fd)?,
        OpKind::WriteBack(WriteBack { drop_cache: true, .. }) => fadvise(fd, 0, None, Advice::DontNeed)?,
        OpKind::WriteBack(steps) => write_back(fd, op.offset, op.len.into(), steps)?,
        OpKind::Deallocate => deallocate(fd, op.offset, op.len.into())?,
        OpKind::ResetZone => reset_zones(fd, op.offset, op.len.into())?,
    }
    Ok(0)
}

/// Writes back modified pages of `len` bytes at `offset`; 0: all from there on (sync_file_range(2)).
fn write_back(fd: BorrowedFd<'_>, offset: u64, len: u64, steps: WriteBack) -> io::Result<()> {
    // SAFETY: plain numbers; the descriptor is open for as long as it is borrowed.
    succeed(unsafe { libc::sync_file_range(fd.as_raw_fd(), offset as _, len as _, steps.flags()) }).map(drop)
}
