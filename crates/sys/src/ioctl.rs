//! Block device ioctls on an open device.
//!
//! Each function is a read-only query, except [`discard`], [`deallocate`] and [`reset_zones`]. The request numbers are
//! those of `include/uapi/linux/fs.h`, `blkzoned.h` and `loop.h`, valid where `_IOR` puts the direction into the top
//! two bits (x86, Arm, RISC-V, s390).

use crate::succeed;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const BLKROGET: u32 = 0x125e;
const BLKDISCARD: u32 = 0x1277;
const BLKGETSIZE64: u32 = 0x8008_1272;
const BLKGETDISKSEQ: u32 = 0x8008_1280;
const BLKREPORTZONE: u32 = 0xc010_1282;
const BLKRESETZONE: u32 = 0x4010_1283;
const LOOP_GET_STATUS64: u32 = 0x4c05;

/// Unit of zone requests, for any logical sector size.
const ZONE_SECTOR_BYTES: u64 = 512;

/// Maximum number of zones per report.
const ZONES: usize = 1_024;

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
    change(fd, BLKDISCARD, [offset, len])
}

/// Issues `request`, which changes a range, given as start and length.
fn change(fd: BorrowedFd<'_>, request: u32, range: [u64; 2]) -> io::Result<()> {
    // SAFETY: the kernel reads two integers of 64 bits, which live until the call returns.
    succeed(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, range.as_ptr()) }).map(drop)
}

/// Deallocates `len` bytes at `offset`: [`discard`] on a block device, a punched hole in a file. The descriptor must
/// be open for writing.
pub fn deallocate(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, FileType, fallocate, fstat};
    match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::BlockDevice => discard(fd, offset, len),
        _ => Ok(fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?),
    }
}

/// Resets the zones in `len` bytes at `offset` of a zoned block device (`BLKRESETZONE`). The range consists of whole
/// zones. The descriptor must be open for writing, which requires the user's consent.
pub fn reset_zones(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    change(fd, BLKRESETZONE, [offset / ZONE_SECTOR_BYTES, len / ZONE_SECTOR_BYTES])
}

/// `struct blk_zone`, with positions in units of [`ZONE_SECTOR_BYTES`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct BlkZone {
    start: u64,
    len: u64,
    write_pointer: u64,
    kind: u8,
    condition: u8,
    non_sequential: u8,
    reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    reserved_too: [u64; 3],
}

/// `struct blk_zone_report` with its zones.
#[repr(C)]
struct ZoneReport {
    sector: u64,
    count: u32,
    /// Bit 0: the field `capacity` of the zones is valid.
    flags: u32,
    zones: [BlkZone; ZONES],
}

const _: () = assert!(size_of::<BlkZone>() == 64 && size_of::<ZoneReport>() == 16 + 64 * ZONES);

/// A zone of a zoned block device, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// First byte on the device.
    pub start: u64,
    /// Distance from the start to the next zone, bytes.
    pub len: u64,
    /// Bytes that can be written.
    pub capacity: u64,
    /// Bytes before the write pointer.
    pub written: u64,
    /// True if writes must go to the write pointer; false for a conventional zone.
    pub is_sequential: bool,
    /// True if the device counts the zone as active: open or closed.
    pub is_active: bool,
    /// False for a zone that is read-only or offline.
    pub is_usable: bool,
}

/// All zones of a zoned block device (`BLKREPORTZONE`), in order. Errors: those of ioctl(2); `InvalidData` for an
/// inconsistent report.
pub fn zones(fd: BorrowedFd<'_>) -> io::Result<Vec<Zone>> {
    let mut zones = Vec::new();
    let mut report = Box::new(ZoneReport { sector: 0, count: 0, flags: 0, zones: [BlkZone::default(); ZONES] });
    loop {
        (report.count, report.flags) = (ZONES as u32, 0);
        // SAFETY: the kernel writes at most `count` zones behind the header. The report has room for them, and lives
        // until the call returns.
        succeed(unsafe { libc::ioctl(fd.as_raw_fd(), BLKREPORTZONE as _, &raw mut *report) })?;
        let reported = &report.zones[..(report.count as usize).min(ZONES)];
        let Some(last) = reported.last() else { return Ok(zones) };
        for zone in reported {
            zones.push(of_report(zone, report.flags & 1 == 1).ok_or(io::ErrorKind::InvalidData)?);
        }
        // `of_report` has checked the sum.
        let next_sector = last.start + last.len;
        report.sector = Some(next_sector).filter(|next| *next > report.sector).ok_or(io::ErrorKind::InvalidData)?;
    }
}

/// `None` if the end of the zone is beyond 2^64 bytes. No number of the zone in bytes exceeds that end.
fn of_report(zone: &BlkZone, has_capacity: bool) -> Option<Zone> {
    // Source: include/uapi/linux/blkzoned.h.
    const CONVENTIONAL: u8 = 1;
    const ACTIVE: std::ops::RangeInclusive<u8> = 2..=4;
    const READ_ONLY: u8 = 0xd;
    const FULL: u8 = 0xe;
    const OFFLINE: u8 = 0xf;
    zone.start.checked_add(zone.len)?.checked_mul(ZONE_SECTOR_BYTES)?;
    let capacity = if has_capacity { zone.capacity.min(zone.len) } else { zone.len } * ZONE_SECTOR_BYTES;
    let is_sequential = zone.kind != CONVENTIONAL;
    let before_pointer = zone.write_pointer.saturating_sub(zone.start).saturating_mul(ZONE_SECTOR_BYTES);
    let is_full = zone.condition == FULL || !is_sequential;
    Some(Zone {
        start: zone.start * ZONE_SECTOR_BYTES,
        len: zone.len * ZONE_SECTOR_BYTES,
        capacity,
        written: if is_full { capacity } else { before_pointer.min(capacity) },
        is_sequential,
        is_active: ACTIVE.contains(&zone.condition),
        is_usable: zone.condition != READ_ONLY && zone.condition != OFFLINE,
    })
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

/// Backing file of a loop device. Errors: `ENXIO` for a loop device without a backing file, `ENOTTY` for any other
/// device.
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
    fn a_zone_that_ends_beyond_the_range_of_bytes_is_refused() {
        let zone = |start, len| of_report(&BlkZone { start, len, ..BlkZone::default() }, true);
        let last = u64::MAX / ZONE_SECTOR_BYTES;
        assert_eq!(zone(last - 8, 8).map(|zone| zone.start), Some((last - 8) * ZONE_SECTOR_BYTES));
        for (start, len) in [(last - 8, 9), (0, last + 1), (last + 1, 0), (u64::MAX, 8)] {
            assert_eq!(zone(start, len), None, "{start} + {len}");
        }
    }

    #[test]
    fn a_file_that_is_no_block_device_answers_with_an_error() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(size_bytes(null.as_fd()).is_err());
        assert!(loop_file(null.as_fd()).is_err());
        assert!(disk_sequence(null.as_fd()).is_err());
    }
}
