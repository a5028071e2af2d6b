//! Status of an NVMe command: status code type and status code, with the specification's names.
//!
//! Sources: NVM Express Base Specification 2.1, figures 98 to 107; NVM Command Set Specification 1.1; Linux
//! `include/linux/nvme.h` (`NVME_SC_...`), whose path-related codes come from the kernel when it lost the drive.

use std::fmt;

/// The status of a completed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status {
    /// Status code type (SCT).
    pub sct: u8,
    /// Status code (SC), within its type.
    pub sc: u8,
}

impl Status {
    /// From the status field of a completion without its phase bit, as Linux reports it: the code, its type in three
    /// bits, then retry bits.
    pub fn of_field(field: u16) -> Self {
        Self { sct: (field >> 8 & 0x7) as u8, sc: field as u8 }
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

/// `NVMe status Write Fault (type 0x2, code 0x80)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sct, sc } = self;
        let name = self.name().unwrap_or(if *sct == 7 { "of the vendor's own" } else { "without a name" });
        write!(f, "NVMe status {name} (type {sct:#x}, code {sc:#04x})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_named_and_its_numbers_stand_beside() {
        // Linux and drives also report do-not-retry and further bits.
        assert_eq!(Status::of_field(0x4280 | 0x2000), Status { sct: 2, sc: 0x80 });
        assert_eq!(Status::of_field(0x0280).to_string(), "NVMe status Write Fault (type 0x2, code 0x80)");
        assert_eq!(Status::of_field(0x07c1).to_string(), "NVMe status of the vendor's own (type 0x7, code 0xc1)");
        assert_eq!(Status { sct: 0, sc: 0x7f }.to_string(), "NVMe status without a name (type 0x0, code 0x7f)");
    }
}
