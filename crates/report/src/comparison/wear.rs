//! Wear of a drive under the load: bytes written per day, drive writes per day, years to its rated endurance.
//!
//! Wear is based on the bytes that the run itself wrote to each device, because endurance ratings count host writes.
//! The drive's own count in telemetry, which includes other programs, is a second number. The operator gives the price
//! and the endurance rating of a candidate.

use super::{CompareError, ValueOrReason};
use conclusions::direction;
use results::run_dir::{DeviceKind, Intervals, Manifest, RunDirError};
use results::telemetry::{Column, ColumnOf};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const DAY_SEC: f64 = 86_400.0;
/// Bytes of an NVMe data unit. Source: NVM Express base specification, SMART / Health Information log:
/// "reported in thousands (i.e., a value of 1 corresponds to 1000 units of 512 bytes)".
const DATA_UNIT_BYTES: f64 = 512_000.0;
/// Runs shorter than this are not extrapolated to a day.
const RAN_SEC_MIN: f64 = 1.0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceWear {
    /// The device, as the user named it.
    pub device: String,
    /// Bytes that the run wrote to the device, per day.
    pub host_bytes_per_day: ValueOrReason<f64>,
    /// Bytes that the drive counted as written by any host, per day.
    pub smart_bytes_per_day: ValueOrReason<f64>,
    pub capacity_bytes: ValueOrReason<u64>,
    pub drive_writes_per_day: ValueOrReason<f64>,
    /// Rated endurance of the device, bytes; from the operator's data.
    pub rated_bytes: ValueOrReason<f64>,
    /// Years until this load has written the rated bytes.
    pub years: ValueOrReason<f64>,
}

/// The wear of each device of the run in `dir`. `endurance` returns the rated endurance of a device.
pub(super) fn wear(
    dir: &Path,
    manifest: &Manifest,
    endurance: impl Fn(&str) -> Option<Endurance>,
    warranty_years: f64,
) -> Result<Vec<DeviceWear>, RunDirError> {
    let totals = RunTotals::read(dir, manifest)?;
    Ok(manifest
        .devices
        .iter()
        .enumerate()
        .map(|(index, name): (usize, &String)| {
            let facts = manifest.device_facts.get(index).unwrap_or(&Value::Null);
            let capacity_bytes = capacity_bytes(name, facts);
            let host_bytes_per_day =
                totals.per_day(totals.host_bytes.get(index).map(|bytes| *bytes as f64));
            let rated = ValueOrReason::or_missing(
                endurance(name),
                "no rated endurance was given (--dwpd or --tbw)",
            );
            let rated_bytes = rated.and_then(|rated| {
                let bytes = rated.bytes(capacity_bytes.value().copied(), warranty_years);
                ValueOrReason::or_missing(
                    bytes,
                    "--dwpd needs the capacity of the drive, which is not known here: give --tbw",
                )
            });
            DeviceWear {
                device: name.clone(),
                smart_bytes_per_day: totals.smart(facts),
                drive_writes_per_day: host_bytes_per_day
                    .and_then(|bytes| capacity_bytes.map(|capacity| bytes / *capacity as f64)),
                years: host_bytes_per_day.and_then(|bytes| match *bytes {
                    bytes if bytes > 0.0 => rated_bytes.map(|rated| rated / bytes / DAYS_PER_YEAR),
                    _ => ValueOrReason::missing("nothing was written"),
                }),
                host_bytes_per_day,
                capacity_bytes,
                rated_bytes,
            }
        })
        .collect())
}

/// Capacity of a whole drive; missing for a part of a drive.
fn capacity_bytes(name: &str, facts: &Value) -> ValueOrReason<u64> {
    let capacity = match DeviceKind::from_facts(facts) {
        Some(DeviceKind::Simulated) => facts["queueing_model"]["capacity_bytes"]
            .as_u64()
            .or(facts["capacity_bytes"].as_u64()),
        Some(DeviceKind::Partition) => {
            return ValueOrReason::missing(format!(
                "{name} is a partition: the size of its drive is not known"
            ));
        }
        Some(DeviceKind::RegularFile) => {
            return ValueOrReason::missing(format!(
                "{name} is a file: the size of its drive is not known"
            ));
        }
        Some(DeviceKind::WholeDisk) | None => facts["size_bytes"].as_u64(),
    };
    ValueOrReason::or_missing(
        capacity.filter(|bytes| *bytes > 0),
        format!("the size of {name} is not in the manifest"),
    )
}

struct RunTotals {
    ran_sec: f64,
    /// For each device: bytes of the streams that write.
    host_bytes: Vec<u64>,
    units: Vec<Units>,
}

/// A column of telemetry with the data units written to a device.
struct Units {
    column_index: usize,
    /// Kernel name.
    device: String,
    /// The first and the last value, each with its time in seconds.
    first_and_last: Option<[(f64, f64); 2]>,
}

impl RunTotals {
    fn read(dir: &Path, manifest: &Manifest) -> Result<Self, RunDirError> {
        let layout = manifest.layout();
        let mut intervals = Intervals::open(dir, manifest)?;
        let mut this = Self {
            ran_sec: 0.0,
            host_bytes: vec![0; layout.devices.len()],
            units: Vec::new(),
        };
        for (at, name) in intervals.columns().iter().enumerate() {
            let known =
                ColumnOf::parse(name).filter(|known| known.column == Column::SmartUnitsWritten);
            this.units.extend(known.map(|known| Units {
                column_index: at,
                device: known.owner,
                first_and_last: None,
            }));
        }
        while let Some(record) = intervals.next()? {
            let end_sec = record.counts.end_ns as f64 / 1e9;
            this.ran_sec = end_sec;
            for (stream, _) in layout
                .streams
                .iter()
                .enumerate()
                .filter(|(_, stream)| is_writing(&stream.name))
            {
                for (device, bytes) in this.host_bytes.iter_mut().enumerate() {
                    *bytes = bytes
                        .saturating_add(record.counts.cells[layout.cell(stream, device)].bytes);
                }
            }
            for Units {
                column_index: at,
                first_and_last: ends,
                ..
            } in &mut this.units
            {
                let Some(value) = record.telemetry.get(*at).and_then(|text| text.parse().ok())
                else {
                    continue;
                };
                let first = ends.map_or((end_sec, value), |ends| ends[0]);
                *ends = Some([first, (end_sec, value)]);
            }
        }
        Ok(this)
    }

    fn per_day(&self, bytes: Option<f64>) -> ValueOrReason<f64> {
        if self.ran_sec < RAN_SEC_MIN {
            return ValueOrReason::missing("no interval of the run is complete");
        }
        ValueOrReason::or_missing(
            bytes.map(|bytes| bytes / self.ran_sec * DAY_SEC),
            "the tables do not have this device",
        )
    }

    fn smart(&self, facts: &Value) -> ValueOrReason<f64> {
        let name = facts["kernel_name"].as_str();
        let units = self
            .units
            .iter()
            .find(|units| Some(units.device.as_str()) == name);
        let Some([(from_sec, first_units), (to_sec, last_units)]) =
            units.and_then(|units| units.first_and_last)
        else {
            return ValueOrReason::missing("telemetry has no SMART data units of this device");
        };
        if to_sec <= from_sec || last_units < first_units {
            return ValueOrReason::missing(
                "the SMART data units of the device were read only once, or decreased",
            );
        }
        ValueOrReason::Value(
            (last_units - first_units) * DATA_UNIT_BYTES / (to_sec - from_sec) * DAY_SEC,
        )
    }
}

pub(super) fn is_writing(stream: &str) -> bool {
    direction(stream) == Some("write")
}

pub(super) fn is_reading(stream: &str) -> bool {
    direction(stream) == Some("read")
}

/// Days of a year, as drive makers count them in a rating.
pub(super) const DAYS_PER_YEAR: f64 = 365.0;
const TB_BYTES: f64 = 1e12;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Endurance {
    /// Drive writes per day, for each day of the warranty.
    DriveWritesPerDay(f64),
    /// Terabytes (10^12 bytes) written.
    TerabytesWritten(f64),
}

impl Endurance {
    /// Bytes that a drive of `capacity_bytes` is rated for; `None` if the capacity is needed and unknown.
    pub fn bytes(self, capacity_bytes: Option<u64>, warranty_years: f64) -> Option<f64> {
        match self {
            Self::DriveWritesPerDay(dwpd) => {
                Some(dwpd * capacity_bytes? as f64 * DAYS_PER_YEAR * warranty_years)
            }
            Self::TerabytesWritten(tb) => Some(tb * TB_BYTES),
        }
    }
}

/// Data from the operator, by the name of a candidate or of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorData {
    pub endurance: Vec<(String, Endurance)>,
    /// Prices of one drive, all in the same currency.
    pub prices: Vec<(String, f64)>,
    /// Warranty in years, for ratings in drive writes per day.
    pub warranty_years: f64,
}

impl Default for OperatorData {
    /// No data; drive writes per day apply to five years, the usual warranty of server drives.
    fn default() -> Self {
        Self {
            endurance: Vec::new(),
            prices: Vec::new(),
            warranty_years: 5.0,
        }
    }
}

impl OperatorData {
    /// The value given for `device` of `candidate`; a value for the device itself takes precedence.
    pub(super) fn value_for<T: Copy>(
        given_values: &[(String, T)],
        candidate: &str,
        device: &str,
    ) -> Option<T> {
        [device, candidate].into_iter().find_map(|name| {
            let given = given_values.iter().find(|(given, _)| given == name);
            given.map(|(_, value)| *value)
        })
    }

    /// Errors: a name belongs to neither a candidate nor a device.
    pub(super) fn check(&self, known_names: &BTreeSet<&str>) -> Result<(), CompareError> {
        let mut names = self
            .endurance
            .iter()
            .map(|(name, _)| name)
            .chain(self.prices.iter().map(|(name, _)| name));
        let Some(name) = names.find(|name| !known_names.contains(name.as_str())) else {
            return Ok(());
        };
        let known = known_names.iter().copied().collect::<Vec<_>>().join(", ");
        Err(CompareError::UnknownName {
            name: name.clone(),
            known,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_in_drive_writes_per_day_and_in_terabytes_become_bytes() {
        // 1 DWPD of 1.92 TB over 5 years is what makers call 3504 TBW.
        let dwpd = Endurance::DriveWritesPerDay(1.0)
            .bytes(Some(1_920_000_000_000), 5.0)
            .unwrap();
        assert_eq!(dwpd, 3504e12);
        assert_eq!(
            Endurance::TerabytesWritten(3504.0).bytes(None, 5.0),
            Some(dwpd)
        );
        assert_eq!(Endurance::DriveWritesPerDay(1.0).bytes(None, 5.0), None);
    }

    #[test]
    fn a_value_for_a_device_takes_precedence_over_one_for_its_candidate() {
        let said = [("a".to_owned(), 1), ("/dev/x".to_owned(), 2)];
        assert_eq!(OperatorData::value_for(&said, "a", "/dev/y"), Some(1));
        assert_eq!(OperatorData::value_for(&said, "a", "/dev/x"), Some(2));
        assert_eq!(OperatorData::value_for(&said, "b", "/dev/y"), None);
    }
}
