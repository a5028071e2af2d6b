//! What the load wears a drive by: bytes written a day, drive writes a day, years to its rated endurance.
//!
//! Counted are the bytes that the run itself wrote to each device, which is what makers' ratings are in
//! (host writes). What the drive counted meanwhile stands beside it where telemetry has it; it knows of
//! other programs, too.

use super::cell::Cell;
use super::given::{DAYS_PER_YEAR, Endurance};
use results::run_dir::{DeviceKind, Intervals, Manifest, RunDirError};
use results::telemetry::{Column, ColumnOf};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Seconds of a day.
const DAY_SEC: f64 = 86_400.0;
/// Bytes of an NVMe data unit. Source: NVM Express base specification, SMART / Health Information log:
/// "reported in thousands (i.e., a value of 1 corresponds to 1000 units of 512 bytes)".
const DATA_UNIT_BYTES: f64 = 512_000.0;
/// Of runs shorter than this nothing is said of a day.
const RAN_SEC_MIN: f64 = 1.0;

/// The wear of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceWear {
    /// The device, as the user named it.
    pub device: String,
    /// Bytes that the run wrote to it, per day.
    pub host_bytes_per_day: Cell<f64>,
    /// Bytes that the drive counted as written by any host, per day.
    pub smart_bytes_per_day: Cell<f64>,
    /// Capacity of the drive.
    pub capacity_bytes: Cell<u64>,
    /// Its capacity written so often a day.
    pub drive_writes_per_day: Cell<f64>,
    /// Bytes that it is rated for, by what the operator gave.
    pub rated_bytes: Cell<f64>,
    /// Years of this load until then.
    pub years: Cell<f64>,
}

/// The wear of each device of the run in `dir`. `endurance` knows what a device is rated for.
///
/// Errors: the tables cannot be read at all.
pub(super) fn wear(
    dir: &Path,
    manifest: &Manifest,
    endurance: impl Fn(&str) -> Option<Endurance>,
    warranty_years: f64,
) -> Result<Vec<DeviceWear>, RunDirError> {
    let counted = Counted::read(dir, manifest)?;
    let device = |(index, name): (usize, &String)| {
        let facts = manifest.device_facts.get(index).unwrap_or(&Value::Null);
        let capacity_bytes = capacity_bytes(name, facts);
        let host_bytes_per_day = counted.per_day(counted.host_bytes.get(index).map(|bytes| *bytes as f64));
        let rated_bytes = match endurance(name) {
            None => Cell::missing("no rated endurance was given (--dwpd or --tbw)"),
            Some(rated) => Cell::or_missing(
                rated.bytes(capacity_bytes.value().copied(), warranty_years),
                "a rating in drive writes per day needs the capacity of the drive: give --tbw",
            ),
        };
        DeviceWear {
            device: name.clone(),
            smart_bytes_per_day: counted.smart(facts),
            drive_writes_per_day: host_bytes_per_day
                .and_then(|bytes| capacity_bytes.map(|capacity| bytes / *capacity as f64)),
            years: host_bytes_per_day.and_then(|bytes| match *bytes {
                bytes if bytes > 0.0 => rated_bytes.map(|rated| rated / bytes / DAYS_PER_YEAR),
                _ => Cell::missing("nothing was written"),
            }),
            host_bytes_per_day,
            capacity_bytes,
            rated_bytes,
        }
    };
    Ok(manifest.devices.iter().enumerate().map(device).collect())
}

/// Capacity of a whole drive; a part of one does not tell.
fn capacity_bytes(name: &str, facts: &Value) -> Cell<u64> {
    let capacity = match DeviceKind::of(facts) {
        Some(DeviceKind::Simulated) => {
            facts["queueing_model"]["capacity_bytes"].as_u64().or(facts["capacity_bytes"].as_u64())
        }
        Some(DeviceKind::Partition) => {
            return Cell::missing(format!("{name} is a partition: the size of its drive is not known"));
        }
        Some(DeviceKind::RegularFile) => {
            return Cell::missing(format!("{name} is a file: the size of its drive is not known"));
        }
        Some(DeviceKind::WholeDisk) | None => facts["size_bytes"].as_u64(),
    };
    Cell::or_missing(capacity.filter(|bytes| *bytes > 0), format!("the size of {name} is not in the manifest"))
}

/// What the tables tell of a run.
struct Counted {
    ran_sec: f64,
    /// By device: bytes of the streams that write.
    host_bytes: Vec<u64>,
    columns: Vec<Option<ColumnOf>>,
    /// By telemetry column: the first value and the last, with their seconds.
    ends: Vec<Option<[(f64, f64); 2]>>,
}

impl Counted {
    fn read(dir: &Path, manifest: &Manifest) -> Result<Self, RunDirError> {
        let layout = manifest.layout();
        let mut intervals = Intervals::open(dir, manifest)?;
        let columns: Vec<_> = intervals.columns().iter().map(|name| ColumnOf::parse(name)).collect();
        let is_units =
            |known: &Option<ColumnOf>| known.as_ref().is_some_and(|it| it.column == Column::SmartUnitsWritten);
        let counts_units: Vec<bool> = columns.iter().map(is_units).collect();
        let mut this =
            Self { ran_sec: 0.0, host_bytes: vec![0; layout.devices.len()], ends: vec![None; columns.len()], columns };
        while let Some(record) = intervals.next()? {
            let end_sec = record.counts.end_ns as f64 / 1e9;
            this.ran_sec = end_sec;
            for (stream, _) in layout.streams.iter().enumerate().filter(|(_, stream)| is_writing(&stream.name)) {
                for (device, bytes) in this.host_bytes.iter_mut().enumerate() {
                    *bytes = bytes.saturating_add(record.counts.cells[layout.cell(stream, device)].bytes);
                }
            }
            let values = record.telemetry.iter().zip(&mut this.ends).zip(&counts_units);
            for ((text, ends), _) in values.filter(|(_, counts_units)| **counts_units) {
                let Ok(value) = text.parse::<f64>() else { continue };
                let first = ends.map_or((end_sec, value), |ends| ends[0]);
                *ends = Some([first, (end_sec, value)]);
            }
        }
        Ok(this)
    }

    fn per_day(&self, bytes: Option<f64>) -> Cell<f64> {
        if self.ran_sec < RAN_SEC_MIN {
            return Cell::missing("no interval of the run is whole");
        }
        Cell::or_missing(bytes.map(|bytes| bytes / self.ran_sec * DAY_SEC), "it is not in the tables")
    }

    fn smart(&self, facts: &Value) -> Cell<f64> {
        let named = |name: &str| {
            let column = Some(Column::SmartUnitsWritten.of(name));
            self.columns.iter().position(|known| *known == column).and_then(|at| self.ends[at])
        };
        let ends = facts["kernel_name"].as_str().and_then(named);
        let Some([(from_sec, from), (to_sec, to)]) = ends else {
            return Cell::missing("telemetry has no SMART data units of it");
        };
        if to_sec <= from_sec || to < from {
            return Cell::missing("its SMART data units were read only once, or went backwards");
        }
        Cell::Value((to - from) * DATA_UNIT_BYTES / (to_sec - from_sec) * DAY_SEC)
    }
}

/// Whether a stream writes: by its name, which is all that a run directory tells.
fn is_writing(stream: &str) -> bool {
    stream.contains("write")
}
