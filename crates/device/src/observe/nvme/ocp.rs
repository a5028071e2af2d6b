//! OCP's SMART log page (C0h): bytes really written to the flash.
//!
//! Source of all offsets: OCP Datacenter NVMe SSD Specification 2.5, "SMART / Health Information Extended". Any vendor
//! may use the number C0h, so a page counts only with the specification's GUID.

use super::little_endian;
use sys::nvme::LOG_PAGE_BYTES;

/// AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5, the lowest byte first, at byte 496.
const GUID: [u8; 16] = [0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5, 0xaf];
const GUID_AT: usize = 496;

/// The OCP SMART log: the state of a drive's flash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcpSmart {
    /// Bytes written to the flash, for hosts and for itself. Over the bytes that hosts wrote in the same time,
    /// this is the write amplification.
    pub physical_media_units_written_bytes: u128,
    /// Times that heat throttled the drive; it stays at 255.
    pub throttle_count: u8,
}

impl OcpSmart {
    /// Parses a page; `None` if it is not this one.
    pub fn parse(page: &[u8; LOG_PAGE_BYTES]) -> Option<Self> {
        (page[GUID_AT..] == GUID).then(|| Self {
            physical_media_units_written_bytes: little_endian::<16>(page, 0),
            throttle_count: page[96],
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page with a number of its own in each field, built from the offsets of the specification.
    pub(crate) const PAGE: &[u8; LOG_PAGE_BYTES] = include_bytes!("../../../tests/data/nvme-ocp-c0h.bin");

    #[test]
    fn each_field_is_read_from_its_place() {
        let expected =
            OcpSmart { physical_media_units_written_bytes: (1 << 64) + 1_234_567_890_123, throttle_count: 96 };
        assert_eq!(OcpSmart::parse(PAGE), Some(expected));
    }

    #[test]
    fn a_page_with_another_guid_is_the_vendors_own() {
        for byte in 0..GUID.len() {
            let mut page = *PAGE;
            page[GUID_AT + byte] ^= 1;
            assert_eq!(OcpSmart::parse(&page), None, "byte {byte}");
        }
        assert_eq!(OcpSmart::parse(&[0; LOG_PAGE_BYTES]), None);
    }
}
