//! Read-only NVMe queries to a drive.
//!
//! The kernel's passthrough accepts any command. This module sends only the commands of [`Query`], so that its callers
//! can neither format a drive nor write to it. Sources: `include/uapi/linux/nvme_ioctl.h`; NVM Express Base
//! Specification 2.1: Get Log Page 5.1.12, Identify 5.1.13, Get Features 5.1.11, I/O Management Receive 7.3.
//!
//! [`ring`] reads and writes data through io_uring. Names of [`NvmeStatus`]: NVM Express Base Specification 2.1,
//! figures 98 to 107; NVM Command Set Specification 1.1; Linux `include/linux/nvme.h` (`NVME_SC_...`), whose
//! path-related codes come from the kernel after it has lost the drive.

pub mod ring;

use crate::succeed;
use std::fmt;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a SMART log page; pages 02h and C0h have the same size.
pub const LOG_PAGE_BYTES: usize = 512;

/// Bytes of every Identify structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// A read-only query to a drive. `u16`: identifier of an endurance group; `u32`: identifier of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Log page 02h, SMART / Health Information; mandatory.
    Smart,
    /// Log page C0h, SMART / Health Information Extended of the OCP Datacenter NVMe SSD Specification. On other drives
    /// the page is vendor-specific, so check the page's GUID.
    OcpSmart,
    /// Log page 20h: the FDP configurations of an endurance group.
    FdpConfigurations(u16),
    /// Log page 21h: usage of the reclaim unit handles of an endurance group.
    FdpUsage(u16),
    /// Log page 22h: bytes that hosts wrote to an endurance group, and bytes that the drive wrote to the group's media.
    FdpStatistics(u16),
    /// Feature 1Dh: state of FDP in an endurance group. The answer has no bytes; the state is the command's result.
    FdpFeature(u16),
    /// Identify Controller.
    Controller,
    /// Identify Namespace, for an attached namespace.
    Namespace(u32),
    /// Identify: an allocated namespace, attached or not. Only drives with namespace management.
    AllocatedNamespace(u32),
    /// Identify: namespace identifiers. True: also unattached ones, only for drives with namespace management.
    NamespaceNumbers(bool),
    /// Identify: unique identifiers of a namespace.
    NamespaceNames(u32),
    /// I/O Management Receive: a namespace's reclaim unit handles. Send this query to the namespace's device.
    ReclaimUnitHandles(u32),
}

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The drive refused the command.
    #[error("the drive answered with {0}")]
    Status(NvmeStatus),
    /// The kernel refused the command or could not reach the drive.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// `struct nvme_passthru_cmd`; also `struct nvme_uring_cmd`, in which the last field (here `result`) is reserved.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct NvmeCommand {
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

const _: () = assert!(size_of::<NvmeCommand>() == 72 && offset_of!(NvmeCommand, addr) == 24);
const _: () =
    assert!(offset_of!(NvmeCommand, data_len) == 36 && offset_of!(NvmeCommand, cdw10) == 40);

/// `_IO('N', 0x40)`, `_IOWR('N', ..., struct nvme_passthru_cmd)`; valid on x86, Arm, RISC-V and s390, see
/// [`crate::ioctl`].
const NVME_IOCTL_ID: u32 = 0x4e40;
const NVME_IOCTL_ADMIN_CMD: u32 = 0xc048_4e41;
const NVME_IOCTL_IO_CMD: u32 = 0xc048_4e43;

const GET_LOG_PAGE: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const GET_FEATURES: u8 = 0x0a;
const IO_MANAGEMENT_RECEIVE: u8 = 0x12;
/// Namespace identifier for all namespaces of the controller.
const NSID_ALL: u32 = 0xffff_ffff;

impl Query {
    fn request(self) -> u32 {
        if matches!(self, Self::ReclaimUnitHandles(_)) {
            NVME_IOCTL_IO_CMD
        } else {
            NVME_IOCTL_ADMIN_CMD
        }
    }

    /// The command that returns the first `len` bytes of the answer.
    fn command(self, len: u32) -> NvmeCommand {
        // Zero-based number of dwords.
        let dwords = (len / 4).saturating_sub(1);
        match self {
            Self::Smart => get_log_page(0x02, 0, NSID_ALL, dwords),
            Self::OcpSmart => get_log_page(0xc0, 0, NSID_ALL, dwords),
            Self::FdpConfigurations(group) => get_log_page(0x20, group, 0, dwords),
            Self::FdpUsage(group) => get_log_page(0x21, group, 0, dwords),
            Self::FdpStatistics(group) => get_log_page(0x22, group, 0, dwords),
            Self::FdpFeature(group) => NvmeCommand {
                opcode: GET_FEATURES,
                cdw10: 0x1d,
                cdw11: group.into(),
                ..NvmeCommand::default()
            },
            Self::Controller => identify(0x01, 0),
            Self::Namespace(nsid) => identify(0x00, nsid),
            Self::AllocatedNamespace(nsid) => identify(0x11, nsid),
            Self::NamespaceNumbers(allocated) => identify(if allocated { 0x10 } else { 0x02 }, 0),
            Self::NamespaceNames(nsid) => identify(0x03, nsid),
            Self::ReclaimUnitHandles(nsid) => NvmeCommand {
                opcode: IO_MANAGEMENT_RECEIVE,
                nsid,
                cdw10: 0x01,
                cdw11: dwords,
                ..NvmeCommand::default()
            },
        }
    }
}

fn get_log_page(page: u32, endurance_group: u16, nsid: u32, dwords: u32) -> NvmeCommand {
    NvmeCommand {
        opcode: GET_LOG_PAGE,
        nsid,
        cdw10: dwords << 16 | page,
        cdw11: u32::from(endurance_group) << 16 | dwords >> 16,
        ..NvmeCommand::default()
    }
}

fn identify(cns: u32, nsid: u32) -> NvmeCommand {
    NvmeCommand {
        opcode: IDENTIFY,
        nsid,
        cdw10: cns,
        ..NvmeCommand::default()
    }
}

/// Sends the query to the drive behind `fd` (`/dev/nvme0`, or a namespace device), waits, and stores the first bytes
/// of the answer in `answer`. `answer` must have whole dwords, for Identify exactly [`IDENTIFY_BYTES`]; only a feature
/// has no bytes. Returns the command's result.
///
/// The call has no timeout, because the kernel resets a controller that does not answer in time.
pub fn send_query(fd: BorrowedFd<'_>, query: Query, answer: &mut [u8]) -> Result<u32, QueryError> {
    // A drive sends the whole Identify structure whatever was requested, and at least one dword of a log page.
    let fits = match query.command(0).opcode {
        IDENTIFY => answer.len() == IDENTIFY_BYTES,
        GET_FEATURES => true,
        _ => !answer.is_empty(),
    };
    let Some(len) = u32::try_from(answer.len())
        .ok()
        .filter(|len| len % 4 == 0 && fits)
    else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
    };
    let addr = if answer.is_empty() {
        0
    } else {
        answer.as_mut_ptr() as u64
    };
    let mut command = NvmeCommand {
        addr,
        data_len: len,
        ..query.command(len)
    };
    // SAFETY: the kernel reads and writes one `nvme_passthru_cmd`. The drive writes as many bytes as the command
    // requests, which are the `data_len` bytes at `addr` (`fits`). Both outlive the call, which returns when the
    // command has ended.
    match succeed(unsafe { libc::ioctl(fd.as_raw_fd(), query.request() as _, &raw mut command) })? {
        0 => Ok(command.result),
        // The kernel returns the status of a refused command as a positive number.
        status => Err(QueryError::Status(NvmeStatus::of_field(status as u16))),
    }
}

/// [`send_query`] for an answer of `len` bytes.
pub fn query_bytes(fd: BorrowedFd<'_>, query: Query, len: usize) -> Result<Vec<u8>, QueryError> {
    let mut bytes = vec![0; len];
    send_query(fd, query, &mut bytes).map(|_| bytes)
}

/// Identifier of the namespace behind a block or character device (`NVME_IOCTL_ID`).
pub fn namespace_id(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: the request takes no argument.
    succeed(unsafe { libc::ioctl(fd.as_raw_fd(), NVME_IOCTL_ID as _) }).map(|nsid| nsid as u32)
}

/// The status of a completed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NvmeStatus {
    /// Status code type (SCT).
    pub sct: u8,
    /// Status code (SC), within its type.
    pub sc: u8,
}

impl NvmeStatus {
    /// Parses the status field without the phase bit, as Linux reports it: code, three bits of type, retry bits.
    pub fn of_field(field: u16) -> Self {
        Self {
            sct: (field >> 8 & 0x7) as u8,
            sc: field as u8,
        }
    }

    /// Name in the specification; `None` for a reserved or vendor-specific code.
    pub fn name(self) -> Option<&'static str> {
        Some(match (self.sct, self.sc) {
            (0, 0x00) => "Successful Completion",
            (0, 0x01) => "Invalid Command Opcode",
            (0, 0x02) => "Invalid Field in Command",
            (0, 0x03) => "Command ID Conflict",
            (0, 0x04) => "Data Transfer Error",
            (0, 0x05) => "Commands Aborted due to Power Loss Notification",
            (0, 0x06) => "Internal Error",
            (0, 0x07) => "Command Abort Requested",
            (0, 0x08) => "Command Aborted due to SQ Deletion",
            (0, 0x0b) => "Invalid Namespace or Format",
            (0, 0x0c) => "Command Sequence Error",
            (0, 0x0d) => "Invalid SGL Segment Descriptor",
            (0, 0x0e) => "Invalid Number of SGL Descriptors",
            (0, 0x0f) => "Data SGL Length Invalid",
            (0, 0x11) => "SGL Descriptor Type Invalid",
            (0, 0x13) => "PRP Offset Invalid",
            (0, 0x15) => "Operation Denied",
            (0, 0x1c) => "Sanitize Failed",
            (0, 0x1d) => "Sanitize In Progress",
            (0, 0x20) => "Namespace is Write Protected",
            (0, 0x21) => "Command Interrupted",
            (0, 0x22) => "Transient Transport Error",
            (0, 0x24) => "Admin Command Media Not Ready",
            (0, 0x29) => "FDP Disabled",
            (0, 0x2a) => "Invalid Placement Handle List",
            (0, 0x80) => "LBA Out of Range",
            (0, 0x81) => "Capacity Exceeded",
            (0, 0x82) => "Namespace Not Ready",
            (0, 0x83) => "Reservation Conflict",
            (0, 0x84) => "Format In Progress",
            (1, 0x09) => "Invalid Log Page",
            (1, 0x0a) => "Invalid Format",
            (1, 0x80) => "Conflicting Attributes",
            (1, 0x81) => "Invalid Protection Information",
            (1, 0x82) => "Attempted Write to Read Only Range",
            (1, 0x83) => "Command Size Limit Exceeded",
            (1, 0xb8) => "Zone Boundary Error",
            (1, 0xb9) => "Zone Is Full",
            (1, 0xba) => "Zone Is Read Only",
            (1, 0xbb) => "Zone Is Offline",
            (1, 0xbc) => "Zone Invalid Write",
            (1, 0xbd) => "Too Many Active Zones",
            (1, 0xbe) => "Too Many Open Zones",
            (1, 0xbf) => "Invalid Zone State Transition",
            (2, 0x80) => "Write Fault",
            (2, 0x81) => "Unrecovered Read Error",
            (2, 0x82) => "End-to-end Guard Check Error",
            (2, 0x83) => "End-to-end Application Tag Check Error",
            (2, 0x84) => "End-to-end Reference Tag Check Error",
            (2, 0x85) => "Compare Failure",
            (2, 0x86) => "Access Denied",
            (2, 0x87) => "Deallocated or Unwritten Logical Block",
            (3, 0x00) => "Internal Path Error",
            (3, 0x01) => "Asymmetric Access Persistent Loss",
            (3, 0x02) => "Asymmetric Access Inaccessible",
            (3, 0x03) => "Asymmetric Access Transition",
            (3, 0x60) => "Controller Pathing Error",
            (3, 0x70) => "Host Pathing Error",
            (3, 0x71) => "Command Aborted By Host",
            _ => return None,
        })
    }
}

/// Text such as `NVMe status Write Fault (type 0x2, code 0x80)`.
impl fmt::Display for NvmeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sct, sc } = self;
        let name = self.name().unwrap_or(if *sct == 7 {
            "vendor-specific"
        } else {
            "unknown"
        });
        write!(f, "NVMe status {name} (type {sct:#x}, code {sc:#04x})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_ioctl_numbers_equal_those_of_the_kernel() {
        // Each number has four parts: direction (3: both), size of the struct (72), letter, number of the request.
        assert_eq!(
            NVME_IOCTL_ADMIN_CMD,
            3 << 30 | 72 << 16 | u32::from(b'N') << 8 | 0x41
        );
        assert_eq!(
            NVME_IOCTL_IO_CMD,
            3 << 30 | 72 << 16 | u32::from(b'N') << 8 | 0x43
        );
    }

    #[test]
    fn log_pages_are_requested_whole_and_for_their_endurance_group() {
        let dwords = |query: Query, len| (query.command(len).cdw10, query.command(len).cdw11);
        assert_eq!(dwords(Query::Smart, 512), (0x007f_0002, 0));
        assert_eq!(dwords(Query::OcpSmart, 512), (0x007f_00c0, 0));
        let found = dwords(Query::FdpStatistics(3), 64);
        assert_eq!(found, (0x000f_0022, 0x0003_0000));
        // 1 MiB are 262,144 dwords: the upper 16 bits of the count are in the next dword.
        let found = dwords(Query::FdpConfigurations(1), 1 << 20);
        assert_eq!(found, (0xffff_0020, 0x0001_0003));
        assert_eq!(dwords(Query::ReclaimUnitHandles(2), 4096), (1, 1023));
        assert_eq!(dwords(Query::FdpFeature(7), 0), (0x1d, 7));
    }

    #[test]
    fn no_query_has_an_opcode_that_transfers_data_to_the_drive() {
        // The lowest two bits of an opcode are the data direction; 01b and 11b transfer data to the drive.
        for query in [
            Query::Smart,
            Query::OcpSmart,
            Query::FdpConfigurations(1),
            Query::FdpUsage(1),
            Query::FdpStatistics(1),
            Query::FdpFeature(1),
            Query::Controller,
            Query::Namespace(1),
            Query::AllocatedNamespace(1),
            Query::NamespaceNumbers(true),
            Query::NamespaceNames(1),
            Query::ReclaimUnitHandles(1),
        ] {
            assert_eq!(query.command(512).opcode & 1, 0, "{query:?}");
        }
    }

    #[test]
    fn a_query_to_a_device_that_is_no_nvme_drive_is_an_error() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(
            query_bytes(null.as_fd(), Query::Smart, LOG_PAGE_BYTES),
            Err(QueryError::Io(_))
        ));
        assert!(namespace_id(null.as_fd()).is_err());
    }

    #[test]
    fn a_query_whose_answer_would_not_fit_is_not_sent() {
        let null = std::fs::File::open("/dev/null").unwrap();
        for (query, len) in [
            (Query::Controller, 512),
            (Query::Smart, 0),
            (Query::Smart, 510),
            (Query::ReclaimUnitHandles(1), 0),
        ] {
            let error = query_bytes(null.as_fd(), query, len).unwrap_err();
            assert!(
                matches!(error, QueryError::Io(error) if error.kind() == io::ErrorKind::InvalidInput),
                "{query:?}"
            );
        }
    }

    #[test]
    fn a_status_is_printed_with_its_name_and_its_numbers() {
        // Linux and drives also report do-not-retry and further bits.
        let found = NvmeStatus::of_field(0x4280 | 0x2000);
        assert_eq!(found, NvmeStatus { sct: 2, sc: 0x80 });
        let found = NvmeStatus::of_field(0x0280).to_string();
        assert_eq!(found, "NVMe status Write Fault (type 0x2, code 0x80)");
        let found = NvmeStatus::of_field(0x07c1).to_string();
        assert_eq!(found, "NVMe status vendor-specific (type 0x7, code 0xc1)");
        let found = NvmeStatus { sct: 0, sc: 0x7f }.to_string();
        assert_eq!(found, "NVMe status unknown (type 0x0, code 0x7f)");
    }
}
