//! One NVMe admin command: Get Log Page, which reads and changes nothing.
//!
//! The kernel's passthrough would carry any command. Here it carries this one, and only for the pages
//! of [`LogPage`]. Source: `include/uapi/linux/nvme_ioctl.h`; NVM Express Base Specification 2.0, 5.16.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Length of both pages.
pub const LOG_PAGE_BYTES: usize = 512;

/// A page that may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPage {
    /// SMART / Health Information, which every drive has.
    Smart = 0x02,
    /// SMART / Health Information Extended of the OCP Datacenter NVMe SSD Specification. Elsewhere the number is the
    /// vendor's own, so what comes must be looked at before it is believed.
    OcpSmart = 0xc0,
}

/// Why a page did not come.
#[derive(Debug, thiserror::Error)]
pub enum LogPageError {
    /// The drive refused.
    #[error("the drive answered with NVMe status {0:#x}")]
    Status(u16),
    /// The kernel refused, or could not reach the drive.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// `struct nvme_admin_cmd`, which is `nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`; as in [`crate::ioctl`] for x86, Arm, RISC-V, s390.
const NVME_IOCTL_ADMIN_CMD: u32 = 0xc048_4e41;
const GET_LOG_PAGE: u8 = 0x02;
/// The whole controller, all namespaces.
const NSID_ALL: u32 = 0xffff_ffff;

/// Asks the controller behind `fd` (`/dev/nvme0`, or a block device of it) for `page`. Waits for it.
///
/// No timeout of our own: the kernel resets a controller that misses one.
pub fn log_page(fd: BorrowedFd<'_>, page: LogPage) -> Result<[u8; LOG_PAGE_BYTES], LogPageError> {
    let mut bytes = [0_u8; LOG_PAGE_BYTES];
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        nsid: NSID_ALL,
        addr: bytes.as_mut_ptr() as u64,
        data_len: LOG_PAGE_BYTES as u32,
        cdw10: cdw10(page),
        ..AdminCommand::default()
    };
    // SAFETY: the kernel reads and writes one `nvme_admin_cmd` (its layout, see above) and writes at most
    // `data_len` bytes at `addr`; both outlive the call, which returns when the command is over.
    match unsafe { libc::ioctl(fd.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &raw mut command) } {
        0 => Ok(bytes),
        -1 => Err(io::Error::last_os_error().into()),
        // The kernel gives the status of a command that the drive refused as a positive number.
        status => Err(LogPageError::Status(u16::try_from(status).unwrap_or(u16::MAX))),
    }
}

/// Command dword 10: the page's number, and how many dwords of it, counted from 0.
fn cdw10(page: LogPage) -> u32 {
    let dwords = LOG_PAGE_BYTES as u32 / 4 - 1;
    dwords << 16 | page as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::os::fd::AsFd;

    #[test]
    fn the_command_has_the_kernels_layout() {
        assert_eq!(size_of::<AdminCommand>(), 72);
        assert_eq!(offset_of!(AdminCommand, nsid), 4);
        assert_eq!(offset_of!(AdminCommand, metadata), 16);
        assert_eq!(offset_of!(AdminCommand, addr), 24);
        assert_eq!(offset_of!(AdminCommand, data_len), 36);
        assert_eq!(offset_of!(AdminCommand, cdw10), 40);
        assert_eq!(offset_of!(AdminCommand, timeout_ms), 64);
        assert_eq!(offset_of!(AdminCommand, result), 68);
        // Direction both ways, the size, the letter, the number.
        assert_eq!(NVME_IOCTL_ADMIN_CMD, 3 << 30 | 72 << 16 | u32::from(b'N') << 8 | 0x41);
    }

    #[test]
    fn both_pages_are_asked_for_whole() {
        assert_eq!(cdw10(LogPage::Smart), 0x007f_0002);
        assert_eq!(cdw10(LogPage::OcpSmart), 0x007f_00c0);
    }

    #[test]
    fn what_is_no_nvme_drive_answers_with_an_error() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(log_page(null.as_fd(), LogPage::Smart), Err(LogPageError::Io(_))));
    }
}
