//! Block device ioctls on an open device.
//!
//! Each function is a read-only query, except [`discard`] and [`deallocate`]. The request numbers are
//! those of `include/uapi/linux/fs.h` and `loop.h`, valid where `_IOR` puts the direction into the top
//! two bits (x86, Arm, RISC-V, s390).

use crate::succeed;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const BLKROGET: u32 = 0x125e;
const BLKDISCARD: u32 = 0x1277;
const BLKGETSIZE64: u32 = 0x8008_1272;
const BLKGETDISKSEQ: u32 = 0x8008_1280;
const LOOP_GET_STATUS64: u32 = 0x4c05;

/// Issues `request`, which returns one integer.
fn query_integer<T: Copy + Default>(fd: BorrowedFd<'_>, request: u32) -> io::Result<T> {
    let mut answer = T::default();
    // SAFETY: every caller below uses the integer type that the kernel writes for the request, and `answer` lives until
    // the call returns.
    succeed(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut answer) }).map(|_| answer)
}

/// Size of a block device in bytes (`BLKGETSIZE64`).
pub fn size_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    query_integer(fd, BLKGETSIZE64)
}

/// True if the device refuses writes (`BLKROGET`). Errors: those of ioctl(2).
pub fn is_read_only(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(query_integer::<libc::c_int>(fd, BLKROGET)? != 0)
}

/// Sequence number of the disk behind the descriptor (`BLKGETDISKSEQ`, Linux 5.15), unique until the next boot. The
/// sequence number distinguishes two disks that had the same device number.
pub fn disk_sequence(fd: BorrowedFd<'_>) -> io::Result<u64> {
    query_integer(fd, BLKGETDISKSEQ)
}

/// Discards `len` bytes at `offset` of a block device (`BLKDISCARD`), both multiples of the logical sector. The
/// descriptor must be open for writing, which requires the user's consent.
pub fn discard(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the kernel reads two integers of 64 bits, which live until the call returns.
    succeed(unsafe { libc::ioctl(fd.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) }).map(drop)
}

/// Deallocates `len` bytes at `offset`: [`discard`] on a device, a punched hole in a file. Needs write access.
pub fn deallocate(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, FileType, fallocate, fstat};
    match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::BlockDevice => discard(fd, offset, len),
        _ => Ok(fallocate(
            fd,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            len,
        )?),
    }
}

/// The backing file of a loop device: `struct loop_info64` of `include/uapi/linux/loop.h`.
#[repr(C)]
#[derive(Debug)]
pub struct LoopFile {
    /// Device number of the file system that holds the file.
    pub device: u64,
    /// Inode of the file on its device.
    pub inode: u64,
    /// Device number of the file itself, if it is a block device; otherwise 0.
    pub rdevice: u64,
    /// Offset of the loop device's first byte in the file.
    pub offset_bytes: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

const _: () = assert!(size_of::<LoopFile>() == 232);

/// Backing file of a loop device. Errors: `ENXIO` if the loop device has none, `ENOTTY` for any other device.
pub fn loop_file(fd: BorrowedFd<'_>) -> io::Result<LoopFile> {
    // SAFETY: the struct holds integers only, for which all-zero bytes are a value.
    let mut file: LoopFile = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes exactly one `loop_info64` to `file`, which lives until the call returns.
    succeed(unsafe { libc::ioctl(fd.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut file) })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_is_no_block_device_answers_with_an_error() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(size_bytes(null.as_fd()).is_err());
        assert!(loop_file(null.as_fd()).is_err());
        assert!(disk_sequence(null.as_fd()).is_err());
    }
}
