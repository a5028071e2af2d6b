//! Parses a drive's SMART logs: the SMART / Health Information page (02h), and OCP's page C0h with the bytes written to
//! the flash. Reads two totals over the drive's life from these logs: bytes that hosts wrote, and bytes written to the
//! media.
//!
//! Source of the offsets of page 02h: NVM Express Base Specification 2.0, figure 207. Counters of 16 bytes never wrap
//! in a drive's life.
//!
//! Source of the offsets of page C0h: OCP Datacenter NVMe SSD Specification 2.5, "SMART / Health Information Extended".
//! Any vendor may use the number C0h, so a page is accepted only if it has the GUID of the specification.

use super::{Controller, QueryError, little_endian};
use results::bytes_written::WrittenBytes;
use serde::Serialize;
use sys::nvme::LOG_PAGE_BYTES;

/// Bytes in one data unit: a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;

/// 0 degrees Celsius in whole kelvin, the drives' unit.
const KELVIN: i32 = 273;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smart {
    /// Bits of the current warnings; see [`Smart::warnings`].
    pub critical_warning: u8,
    /// Composite temperature; `None` if not reported.
    pub temperature_celsius: Option<i32>,
    pub available_spare_pct: u8,
    /// The drive warns below this spare capacity, percent.
    pub available_spare_threshold_pct: u8,
    /// Used life by the vendor's estimate, percent; may exceed 100; 255 means more than 254.
    pub percentage_used: u8,
    /// Data units of 512,000 bytes read by hosts, rounded up.
    pub data_units_read: u128,
    /// Data units of 512,000 bytes written by hosts, rounded up.
    pub data_units_written: u128,
    pub power_cycles: u128,
    /// Power losses without prior notification.
    pub unsafe_shutdowns: u128,
    /// Uncorrectable errors.
    pub media_errors: u128,
    /// Number of transitions into light and into heavy thermal throttling.
    pub thermal_transitions: [u32; 2],
    /// Seconds in light and in heavy thermal throttling.
    pub thermal_seconds: [u32; 2],
}

/// Meanings of the bits of the critical warning, from the lowest.
const WARNINGS: [&str; 6] = [
    "its spare capacity is below the threshold",
    "its temperature is beyond a threshold",
    "it is unreliable because of media or internal errors",
    "its media are read-only",
    "its backup of volatile memory failed",
    "its persistent memory region is unreliable",
];

impl Smart {
    /// Parses a page. Every page is valid; unknown bits are ignored.
    pub fn parse(page: &[u8; LOG_PAGE_BYTES]) -> Self {
        let number = |at| little_endian::<16>(page, at);
        // The fields have four bytes, so the cast loses nothing.
        let short = |at| little_endian::<4>(page, at) as u32;
        let kelvin = little_endian::<2>(page, 1) as i32;
        Self {
            critical_warning: page[0],
            temperature_celsius: (kelvin != 0).then_some(kelvin - KELVIN),
            available_spare_pct: page[3],
            available_spare_threshold_pct: page[4],
            percentage_used: page[5],
            data_units_read: number(32),
            data_units_written: number(48),
            power_cycles: number(112),
            unsafe_shutdowns: number(144),
            media_errors: number(160),
            thermal_transitions: [short(216), short(220)],
            thermal_seconds: [short(224), short(228)],
        }
    }

    /// Current warnings, in the order of the bits.
    pub fn warnings(&self) -> Vec<&'static str> {
        let is_set = |(bit, _): &(usize, &str)| self.critical_warning >> bit & 1 == 1;
        WARNINGS
            .into_iter()
            .enumerate()
            .filter(is_set)
            .map(|(_, warning)| warning)
            .collect()
    }

    /// Bytes that hosts wrote over the drive's life, in steps of 512,000 bytes.
    pub fn bytes_written(&self) -> u128 {
        self.data_units_written.saturating_mul(DATA_UNIT_BYTES)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterSource {
    /// Log page 22h: bytes of the namespace's endurance group.
    FdpStatistics,
    /// OCP's log page C0h for the media, and SMART's data units of 512,000 bytes for hosts. Neither counts erased
    /// bytes, so [`WrittenBytes::erased`] is 0.
    OcpSmart,
}

results::display!(CounterSource {
    FdpStatistics => "FDP statistics (log page 22h)",
    OcpSmart => "OCP's SMART log (C0h) for the media, SMART (02h) for hosts",
});

impl Controller {
    /// Bytes written over the drive's life, by all namespaces that share the counters; `Ok(None)` if no log counts
    /// media bytes. Errors: the kernel or the drive refused a mandatory query.
    pub fn lifetime_bytes(&self) -> Result<Option<(WrittenBytes, CounterSource)>, QueryError> {
        if let Some(bytes) = unless_refused(self.fdp_statistics())? {
            return Ok(Some((bytes, CounterSource::FdpStatistics)));
        }
        match unless_refused(self.ocp_smart())? {
            Some(ocp) => Ok(Some((
                by_ocp(&ocp, &self.smart()?),
                CounterSource::OcpSmart,
            ))),
            None => Ok(None),
        }
    }
}

/// `Ok(None)` if the drive refused the query because it lacks the log.
fn unless_refused<T>(answer: Result<Option<T>, QueryError>) -> Result<Option<T>, QueryError> {
    match answer {
        Err(QueryError::Status(_)) => Ok(None),
        answer => answer,
    }
}

fn by_ocp(ocp: &OcpSmart, smart: &Smart) -> WrittenBytes {
    let counter = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    WrittenBytes {
        host: counter(smart.bytes_written()),
        media: counter(ocp.physical_media_units_written_bytes),
        erased: 0,
    }
}

/// GUID of OCP's page: AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5, lowest byte first.
const GUID: [u8; 16] = [
    0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5, 0xaf,
];
const GUID_AT: usize = 496;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcpSmart {
    /// Bytes written to the flash, for hosts and by garbage collection. Divided by the bytes that hosts wrote in the
    /// same time, this gives the write amplification.
    pub physical_media_units_written_bytes: u128,
    /// Number of thermal throttling events; saturates at 255.
    pub throttle_count: u8,
}

impl OcpSmart {
    /// `None` if the page lacks the GUID of this log.
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

    /// A page with a different number in each field, built from the offsets of the specification.
    pub(crate) const PAGE: &[u8; LOG_PAGE_BYTES] =
        include_bytes!("../../../tests/data/nvme-smart-02h.bin");

    #[test]
    fn all_fields_of_the_smart_page_are_read_at_their_offsets() {
        let expected = Smart {
            critical_warning: 0b10,
            temperature_celsius: Some(68),
            available_spare_pct: 97,
            available_spare_threshold_pct: 10,
            percentage_used: 13,
            data_units_read: (1 << 64) + 5,
            data_units_written: 987_654_321,
            power_cycles: 112,
            unsafe_shutdowns: 144,
            media_errors: 2,
            thermal_transitions: [216, 220],
            thermal_seconds: [224, 228],
        };
        assert_eq!(Smart::parse(PAGE), expected);
        assert_eq!(expected.bytes_written(), 505_679_012_352_000);
        assert_eq!(
            expected.warnings(),
            ["its temperature is beyond a threshold"]
        );
    }

    #[test]
    fn a_drive_without_a_temperature_reports_none() {
        let blank = Smart::parse(&[0; LOG_PAGE_BYTES]);
        assert_eq!(
            (blank.temperature_celsius, blank.warnings()),
            (None, vec![])
        );
    }

    #[test]
    fn a_page_with_all_bits_set_saturates_and_does_not_panic() {
        let full = Smart::parse(&[0xff; LOG_PAGE_BYTES]);
        assert_eq!(full.warnings().len(), 6);
        assert_eq!(
            (full.bytes_written(), full.percentage_used),
            (u128::MAX, 255)
        );
    }
}

#[cfg(test)]
pub(crate) mod ocp_tests {
    use super::*;

    /// A page with a different number in each field, built from the offsets of the specification.
    pub(crate) const PAGE: &[u8; LOG_PAGE_BYTES] =
        include_bytes!("../../../tests/data/nvme-ocp-c0h.bin");

    #[test]
    fn all_fields_of_ocps_page_are_read_at_their_offsets() {
        let expected = OcpSmart {
            physical_media_units_written_bytes: (1 << 64) + 1_234_567_890_123,
            throttle_count: 96,
        };
        assert_eq!(OcpSmart::parse(PAGE), Some(expected));
    }

    #[test]
    fn a_page_without_ocps_guid_is_not_ocps_page() {
        for byte in 0..GUID.len() {
            let mut page = *PAGE;
            page[GUID_AT + byte] ^= 1;
            assert_eq!(OcpSmart::parse(&page), None, "byte {byte}");
        }
        assert_eq!(OcpSmart::parse(&[0; LOG_PAGE_BYTES]), None);
    }
}

#[cfg(test)]
mod counted_tests {
    use super::*;
    use std::io;
    use sys::nvme::NvmeStatus;

    #[test]
    fn a_refused_log_is_none_and_a_missing_drive_is_an_error() {
        assert_eq!(unless_refused(Ok(Some(1))).unwrap(), Some(1));
        assert_eq!(
            unless_refused::<u32>(Err(QueryError::Status(NvmeStatus { sct: 1, sc: 9 }))).unwrap(),
            None
        );
        assert!(
            unless_refused::<u32>(Err(QueryError::Io(io::Error::from_raw_os_error(
                libc::ENODEV
            ))))
            .is_err()
        );
    }

    #[test]
    fn media_bytes_come_from_ocps_page_and_host_bytes_from_smart() {
        let mut ocp = OcpSmart::parse(ocp_tests::PAGE).unwrap();
        ocp.physical_media_units_written_bytes = 5 << 40;
        let smart = Smart {
            data_units_written: 7,
            ..Smart::parse(tests::PAGE)
        };
        assert_eq!(
            by_ocp(&ocp, &smart),
            WrittenBytes {
                host: 7 * 512_000,
                media: 5 << 40,
                erased: 0
            }
        );
        ocp.physical_media_units_written_bytes = 1 << 70;
        assert_eq!(by_ocp(&ocp, &smart).media, u64::MAX);
    }
}
