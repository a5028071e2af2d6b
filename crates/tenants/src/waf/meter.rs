//! Measures a real drive's write amplification while tenants write to it, until the amplification is steady. An octile
//! is an eighth of a drive fill.
//!
//! The progress of a fill follows from the bytes that flashproof writes. The drive's counters, read after each octile,
//! give the bytes that the drive wrote to its media.

use results::bytes_written::WrittenBytes;
use results::waf::{ArrangementResult, DriveWrites, OCTILES_PER_FILL};

#[derive(Debug)]
pub struct Meter {
    found: ArrangementResult,
    fills_max: usize,
    bytes_written: u64,
    first_counters: WrittenBytes,
    last_counters: WrittenBytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasurementEnd {
    Steady,
    /// The maximum number of drive fills was written.
    Fills,
}

impl Meter {
    /// A meter for at most `fills_max` fills of the drive `name`. `counters`: the drive's counters at the start.
    pub fn new(name: &str, logical_bytes: u64, fills_max: usize, counters: WrittenBytes) -> Self {
        let drive = DriveWrites {
            name: name.to_owned(),
            logical_bytes,
            octiles: Vec::new(),
        };
        let found = ArrangementResult {
            drives: vec![drive],
            tenants: Vec::new(),
            steady_after: None,
        };
        Self {
            found,
            fills_max,
            bytes_written: 0,
            first_counters: counters,
            last_counters: counters,
        }
    }

    /// Adds `bytes` written to the drive. `count` reads the drive's counters each time that another eighth of its
    /// capacity was written. Errors: those of `count`, and counters that went backwards.
    pub fn written(
        &mut self,
        bytes: u64,
        count: impl FnOnce() -> Result<WrittenBytes, String>,
    ) -> Result<Option<MeasurementEnd>, String> {
        self.bytes_written += bytes;
        let drive = &mut self.found.drives[0];
        let reached_octiles = octile_of(self.bytes_written, drive.logical_bytes);
        let done_octiles = drive.octiles.len() as u64;
        if reached_octiles <= done_octiles {
            return Ok(None);
        }
        let counters = count()?;
        let difference = counters
            .since(self.last_counters)
            .map_err(|error| error.to_string())?;
        self.last_counters = counters;
        // The difference of the counters over several octiles is divided evenly among these octiles.
        let new_octiles = reached_octiles - done_octiles;
        for index in 0..new_octiles {
            let share = |all: u64| all / new_octiles + u64::from(index < all % new_octiles);
            drive.octiles.push(WrittenBytes {
                host: share(difference.host),
                media: share(difference.media),
                erased: share(difference.erased),
            });
        }
        // Only whole drive fills are compared.
        let fills_before = done_octiles as usize / OCTILES_PER_FILL;
        let fills_after = reached_octiles as usize / OCTILES_PER_FILL;
        if fills_before == fills_after {
            return Ok(None);
        }
        if self.found.is_steady() {
            self.found.steady_after = Some(fills_after);
            return Ok(Some(MeasurementEnd::Steady));
        }
        Ok((fills_after >= self.fills_max).then_some(MeasurementEnd::Fills))
    }

    pub fn found(&self) -> &ArrangementResult {
        &self.found
    }

    /// Bytes written by flashproof so far, and host bytes that the drive counted up to the last whole octile.
    pub fn host_bytes(&self) -> (u64, u64) {
        let counted = self
            .last_counters
            .since(self.first_counters)
            .map_or(0, |since| since.host);
        (self.bytes_written, counted)
    }
}

/// Number of completed octiles of drive fills.
fn octile_of(bytes_written: u64, logical_bytes: u64) -> u64 {
    (u128::from(bytes_written) * OCTILES_PER_FILL as u128 / u128::from(logical_bytes.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;

    const SIZE: u64 = 800;

    /// Writes `step` bytes at a time to a drive that counts `waf` media bytes per host byte.
    fn run(step: u64, fills: usize, waf: impl Fn(u64) -> f64) -> (Meter, Option<MeasurementEnd>) {
        let mut drive = WrittenBytes {
            host: 1_000,
            media: 5_000,
            erased: 0,
        };
        let mut meter = Meter::new("drive", SIZE, fills, drive);
        for _ in 0..100_000 {
            let at = drive.host - 1_000;
            drive.host += step;
            drive.media += (step as f64 * waf(at)).round() as u64;
            if let Some(enough) = meter.written(step, || Ok(drive)).unwrap() {
                return (meter, Some(enough));
            }
        }
        (meter, None)
    }

    #[test]
    fn the_meter_ends_after_five_drive_fills_of_equal_write_amplification() {
        let (meter, enough) = run(10, 40, |at| if at < SIZE { 1.0 } else { 1.5 });
        assert_eq!(enough, Some(MeasurementEnd::Steady));
        assert_eq!(meter.found().steady_after, Some(6));
        assert_eq!(meter.found().steady_waf(), Some(1.5));
        assert_eq!(
            meter.found().octile_sum(3),
            WrittenBytes {
                host: 100,
                media: 100,
                erased: 0
            }
        );
        assert_eq!(meter.host_bytes(), (6 * SIZE, 6 * SIZE));
    }

    #[test]
    fn the_meter_ends_without_a_steady_state_at_its_limit_of_drive_fills() {
        let (meter, enough) = run(10, 7, |at| 1.0 + (at / SIZE) as f64);
        assert_eq!(enough, Some(MeasurementEnd::Fills));
        assert_eq!(meter.found().rounds(), 7);
        assert_eq!(meter.found().steady_waf(), None);
    }

    #[test]
    fn bytes_counted_between_two_readings_are_divided_among_the_intervals_between() {
        let (meter, enough) = run(250, 40, |_| 2.0);
        assert_eq!(enough, Some(MeasurementEnd::Steady));
        assert_eq!(meter.found().steady_after, Some(5));
        assert_eq!(meter.found().steady_waf(), Some(2.0));
        assert_eq!(
            meter.found().octile_sum(0).host + meter.found().octile_sum(1).host,
            250
        );
    }

    #[test]
    fn counters_that_go_back_and_drives_that_do_not_answer_are_errors() {
        let start = WrittenBytes {
            host: 1_000,
            media: 5_000,
            erased: 0,
        };
        let mut meter = Meter::new("drive", SIZE, 40, start);
        assert_eq!(
            meter.written(99, || panic!("asked before an octile is over")),
            Ok(None)
        );
        let why = meter
            .written(1, || {
                Ok(WrittenBytes {
                    host: 1_100,
                    media: 100,
                    erased: 0,
                })
            })
            .unwrap_err();
        assert_contains!(why, "bytes written to the media went back from 5000 to 100");
        assert_eq!(
            meter.written(0, || Err("gone".to_owned())),
            Err("gone".to_owned())
        );
        assert_eq!(meter.found().rounds(), 0);
    }
}
