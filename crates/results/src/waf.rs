//! Write amplification in an experiment: bytes written by clients, by hosts and to the media, and the steady state.
//!
//! A round is a drive fill: hosts write as many bytes as the capacity of all drives of the arrangement. The
//! steady-state rule is SNIA's rule of five rounds ([`crate::steady`]) with tighter limits. SNIA's 20 % and 10 % are
//! meant for the IOPS of real drives, which scatter; write amplification hardly scatters, but creeps. The range must be
//! at most [`RANGE_MAX`] of the average, and the move of the best straight line at most [`SLOPE_MAX`] of the average,
//! for all drives together and for each drive.

use crate::bytes_written::WrittenBytes;
use crate::format::percent_exact;
use crate::steady::{ROUNDS_IN_WINDOW, RoundSpread};
use schemars::JsonSchema;
use serde::Serialize;

/// Number of parts of a drive fill that are counted separately.
pub const OCTILES_PER_FILL: usize = 8;
/// Maximum range of the five rounds of a steady window, as a fraction of their average.
pub const RANGE_MAX: f64 = 0.05;
/// Maximum move of the best straight line over the five rounds of a steady window, as a fraction of their average.
pub const SLOPE_MAX: f64 = 0.02;

pub fn steady_rule() -> String {
    format!(
        "over {ROUNDS_IN_WINDOW} drive fills, the range of write amplification is at most {} of its average, and its best-fit line moves \
         by at most {} of the average, for all drives together and for each drive",
        percent_exact(RANGE_MAX),
        percent_exact(SLOPE_MAX)
    )
}

/// A drive after a preparation for random writes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Prepared")]
pub struct PreparedDrive {
    /// Name of the preparation.
    pub preparation: String,
    /// Number of drive fills that the preparation wrote.
    pub fills: f64,
    /// Write amplification in each octile of the following drive fills of random overwrites, divided by the
    /// steady-state value.
    pub after: Vec<f64>,
    /// Shares of valid data in the superblocks, ascending, sampled at equal fractions of the flash.
    pub valid: Vec<f64>,
    /// Mean difference of `valid` from the steady-state distribution.
    pub distance: f64,
}

impl PreparedDrive {
    /// Largest relative difference of an octile's write amplification from the steady-state value.
    pub fn error(&self) -> f64 {
        self.after
            .iter()
            .map(|waf| (waf - 1.0).abs())
            .fold(0.0, f64::max)
    }

    /// Number of octiles until the write amplification stays within `error` of the steady-state value; `None`: never.
    pub fn octiles_until(&self, error: f64) -> Option<usize> {
        let until = self
            .after
            .iter()
            .rposition(|waf| (waf - 1.0).abs() > error)
            .map_or(0, |last| last + 1);
        Some(until).filter(|until| *until < self.after.len())
    }
}

/// A drive of an arrangement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Drive")]
pub struct DriveWrites {
    /// Name of the tenant that uses the drive, or `all`.
    pub name: String,
    /// Capacity that the host sees, bytes.
    pub logical_bytes: u64,
    /// Counters of the drive in each octile.
    pub octiles: Vec<WrittenBytes>,
}

/// Bytes that a tenant wrote.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TenantBytes {
    /// Name of the tenant.
    pub name: String,
    /// Bytes of blocks that clients filled.
    pub client: u64,
    /// Bytes of blocks that defragmentation filled.
    pub defrag: u64,
}

/// Result of one arrangement of tenants.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Found")]
pub struct ArrangementResult {
    /// Drives of the arrangement.
    pub drives: Vec<DriveWrites>,
    /// Tenants of the arrangement.
    pub tenants: Vec<TenantBytes>,
    /// Number of drive fills at the end of the first steady window; null: never steady.
    pub steady_after: Option<usize>,
}

impl ArrangementResult {
    pub fn rounds(&self) -> usize {
        self.completed_octiles() / OCTILES_PER_FILL
    }

    pub fn completed_octiles(&self) -> usize {
        self.drives.first().map_or(0, |drive| drive.octiles.len())
    }

    pub fn octile_sum(&self, octile: usize) -> WrittenBytes {
        self.drives
            .iter()
            .filter_map(|drive| drive.octiles.get(octile).copied())
            .sum()
    }

    /// Sum over all drives in the drive fills `from..to`, counted from 0.
    pub fn fills(&self, from: usize, to: usize) -> WrittenBytes {
        (from * OCTILES_PER_FILL..to * OCTILES_PER_FILL)
            .map(|octile| self.octile_sum(octile))
            .sum()
    }

    pub fn total(&self) -> WrittenBytes {
        self.drives
            .iter()
            .flat_map(|drive| drive.octiles.iter().copied())
            .sum()
    }

    /// WAF over the five drive fills of the first steady window.
    pub fn steady_waf(&self) -> Option<f64> {
        let end = self.steady_after?;
        self.fills(end - ROUNDS_IN_WINDOW, end).waf()
    }

    /// WAF of one drive over the first steady window.
    pub fn steady_waf_of(&self, drive: usize) -> Option<f64> {
        self.steady_bytes_of(drive, self.steady_after?).waf()
    }

    /// Sum of one drive over the five drive fills up to `end`; zero if there is no such drive.
    pub fn steady_bytes_of(&self, drive: usize, end: usize) -> WrittenBytes {
        let window =
            end.saturating_sub(ROUNDS_IN_WINDOW) * OCTILES_PER_FILL..end * OCTILES_PER_FILL;
        let octiles = self
            .drives
            .get(drive)
            .and_then(|drive| drive.octiles.get(window))
            .unwrap_or_default();
        octiles.iter().copied().sum()
    }

    /// Write amplification of the stores: bytes written per byte of their clients.
    pub fn engine_wa(&self) -> Option<f64> {
        let (client, defrag) = self.tenants.iter().fold((0, 0), |sum, tenant| {
            (sum.0 + tenant.client, sum.1 + tenant.defrag)
        });
        (client > 0).then(|| (client + defrag) as f64 / client as f64)
    }

    /// True if the last five drive fills are steady, for all drives together and for each drive.
    pub fn is_steady(&self) -> bool {
        let last = self.rounds();
        let Some(first) = last.checked_sub(ROUNDS_IN_WINDOW) else {
            return false;
        };
        let octiles = first * OCTILES_PER_FILL..last * OCTILES_PER_FILL;
        let sums: Vec<WrittenBytes> = octiles
            .clone()
            .map(|octile| self.octile_sum(octile))
            .collect();
        is_waf_steady(&sums)
            && self.drives.iter().all(|drive| {
                let host: u64 = drive.octiles.iter().map(|octile| octile.host).sum();
                // A read-only tenant's drive is ignored. With less than one fill, garbage collection has not begun.
                host == 0
                    || host >= drive.logical_bytes && is_waf_steady(&drive.octiles[octiles.clone()])
            })
    }
}

/// True if the WAF is steady in the drive fills to which `octiles` belong: five whole fills.
fn is_waf_steady(octiles: &[WrittenBytes]) -> bool {
    let rounds: Vec<f64> = octiles
        .chunks(OCTILES_PER_FILL)
        .filter_map(|fill| fill.iter().copied().sum::<WrittenBytes>().waf())
        .collect();
    let spread = RoundSpread::from_values(&rounds);
    rounds.len() == ROUNDS_IN_WINDOW
        && spread.range <= RANGE_MAX * spread.average
        && spread.slope_excursion <= SLOPE_MAX * spread.average
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_since_are_a_difference_unless_a_counter_fell() {
        let before = WrittenBytes {
            host: 10,
            media: 15,
            erased: 20,
        };
        let now = WrittenBytes {
            host: 14,
            media: 23,
            erased: 20,
        };
        let found = now.since(before);
        assert_eq!(
            found,
            Ok(WrittenBytes {
                host: 4,
                media: 8,
                erased: 0
            })
        );
        assert_eq!(now.since(before).unwrap().waf(), Some(2.0));
        assert_eq!(before.since(before).unwrap().waf(), None);
        for (changed, counter) in [
            (
                WrittenBytes { host: 9, ..now },
                "bytes written by hosts went back from 10 to 9",
            ),
            (
                WrittenBytes { media: 14, ..now },
                "bytes written to the media went back from 15 to 14",
            ),
            (
                WrittenBytes { erased: 19, ..now },
                "bytes erased went back from 20 to 19",
            ),
        ] {
            let why = changed.since(before).unwrap_err().to_string();
            assert!(why.contains(counter), "{why}");
        }
    }
}
