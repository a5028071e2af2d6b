//! The SMART / Health Information log page (02h), byte by byte.
//!
//! Source of all offsets: NVM Express Base Specification 2.0, figure 207. Counters of 16 bytes never
//! wrap in a drive's life.

use super::little_endian;
use std::fmt;
use sys::nvme::LOG_PAGE_BYTES;

/// Bytes in one data unit: a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;

/// 0 degrees Celsius in whole kelvin, as drives count.
const KELVIN: i32 = 273;

/// The SMART log of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smart {
    /// Bits of the current warnings; see [`Smart::warnings`].
    pub critical_warning: u8,
    /// Composite temperature; `None` if not reported.
    pub temperature_celsius: Option<i32>,
    /// Spare capacity left, percent.
    pub available_spare_pct: u8,
    /// Below this much spare the drive warns, percent.
    pub available_spare_threshold_pct: u8,
    /// The vendor's estimate of the life used, percent; may exceed 100, 255 means more than 254.
    pub percentage_used: u8,
    /// Data units of 512,000 bytes read by hosts, rounded up.
    pub data_units_read: u128,
    /// Data units of 512,000 bytes written by hosts, rounded up.
    pub data_units_written: u128,
    pub power_cycles: u128,
    /// Losses of power without notice.
    pub unsafe_shutdowns: u128,
    /// Errors that the drive could not correct.
    pub media_errors: u128,
    /// Times that the drive went into light and into heavy throttling because of heat.
    pub thermal_transitions: [u32; 2],
    /// Seconds that it stayed in each.
    pub thermal_seconds: [u32; 2],
}

/// One bit of the critical warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CriticalWarning {
    /// Spare capacity is below its threshold.
    SpareLow,
    /// Too hot or too cold.
    Temperature,
    /// Unreliable, because of errors of the medium or inside.
    Reliability,
    /// No longer writable.
    ReadOnly,
    /// The backup of volatile memory (capacitors) failed.
    BackupFailed,
    /// The persistent memory region is unreliable.
    PersistentMemory,
}

impl fmt::Display for CriticalWarning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::SpareLow => "its spare capacity is below the threshold",
            Self::Temperature => "its temperature is beyond a threshold",
            Self::Reliability => "it is unreliable because of media or internal errors",
            Self::ReadOnly => "it takes no writes any more",
            Self::BackupFailed => "its backup of volatile memory failed",
            Self::PersistentMemory => "its persistent memory region is unreliable",
        })
    }
}

impl Smart {
    /// Reads a page. Every page is valid: unknown bits are left alone.
    pub fn parse(page: &[u8; LOG_PAGE_BYTES]) -> Self {
        let number = |at| little_endian::<16>(page, at);
        // Fields of four bytes fit.
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
    pub fn warnings(&self) -> Vec<CriticalWarning> {
        use CriticalWarning as Warning;
        let bits = [
            Warning::SpareLow,
            Warning::Temperature,
            Warning::Reliability,
            Warning::ReadOnly,
            Warning::BackupFailed,
            Warning::PersistentMemory,
        ];
        let set = |(bit, _): &(usize, Warning)| self.critical_warning >> bit & 1 == 1;
        bits.into_iter().enumerate().filter(set).map(|(_, warning)| warning).collect()
    }

    /// Bytes that hosts wrote in the drive's life, to half a megabyte.
    pub fn bytes_written(&self) -> u128 {
        self.data_units_written.saturating_mul(DATA_UNIT_BYTES)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page with a number of its own in each field, built from the offsets of the specification.
    pub(crate) const PAGE: &[u8; LOG_PAGE_BYTES] = include_bytes!("../../../tests/data/nvme-smart-02h.bin");

    #[test]
    fn each_field_is_read_from_its_place() {
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
        assert_eq!(expected.warnings(), [CriticalWarning::Temperature]);
    }

    #[test]
    fn a_drive_that_tells_no_temperature_has_none() {
        let blank = Smart::parse(&[0; LOG_PAGE_BYTES]);
        assert_eq!((blank.temperature_celsius, blank.warnings()), (None, vec![]));
    }

    #[test]
    fn a_page_of_ones_breaks_nothing() {
        let full = Smart::parse(&[0xff; LOG_PAGE_BYTES]);
        assert_eq!(full.warnings().len(), 6);
        assert_eq!((full.bytes_written(), full.percentage_used), (u128::MAX, 255));
    }
}
