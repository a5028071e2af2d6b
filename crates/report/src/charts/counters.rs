//! Drives' own counters before and after a run, and the resulting write amplification.

use super::telemetry::devices;
use super::timeline::{Fall, Timeline};
use results::bytes_written::{WentBack, WrittenBytes};
use results::format;
use results::telemetry::{Column, ColumnSource};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Columns shown as two values, the first and the last, instead of a line; each with its name in words.
const CHANGES: [(Column, &str); 24] = [
    (Column::SmartPercentageUsed, "rated endurance used, %"),
    (Column::SmartCriticalWarning, "critical warning, bits"),
    (Column::SmartMediaErrors, "media errors"),
    (
        Column::SmartUnitsWritten,
        "data units written, 512,000 bytes each",
    ),
    (
        Column::SmartUnitsRead,
        "data units read, 512,000 bytes each",
    ),
    (Column::OcpMediaBytesWritten, "bytes written to the media"),
    (
        Column::FdpHostBytes,
        "bytes written by hosts to the endurance group",
    ),
    (
        Column::FdpMediaBytes,
        "bytes written to the media of the endurance group",
    ),
    (
        Column::FdpErasedBytes,
        "bytes erased on the media of the endurance group",
    ),
    (Column::SmartThrottleCount, "times throttled"),
    (Column::SmartThrottleSec, "seconds throttled"),
    (Column::IrqCpu, "CPU that took most interrupts"),
    (Column::SimReads, "reads"),
    (Column::SimReadBytes, "bytes read"),
    (Column::SimWrites, "writes"),
    (Column::SimWriteBytes, "bytes written by the host"),
    (Column::SimFlushes, "flushes"),
    (Column::SimDeallocates, "deallocations"),
    (Column::SimDeallocatedBytes, "bytes deallocated"),
    (Column::SimFailed, "operations that failed"),
    (Column::SimHbmw, "bytes written by the host (HBMW)"),
    (Column::SimMbmw, "bytes written to the media (MBMW)"),
    (Column::SimMbe, "bytes erased (MBE)"),
    (
        Column::SimCollectionReadBytes,
        "bytes read by garbage collection",
    ),
];

/// How a counter of a drive changed during the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Kernel name of the device.
    pub device: String,
    /// Name of the column in telemetry.csv, without the device.
    pub column: String,
    /// Name of the counter, in words.
    pub name: String,
    /// The first value measured.
    pub first: f64,
    /// The last value measured.
    pub last: f64,
    /// First fall of the counter, for example because the drive was reset; null if the counter never fell.
    pub fell: Option<Fall>,
}

/// Write amplification of a drive during the run, by its own counters.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceWaf {
    /// Kernel name of the device.
    pub device: String,
    /// Bytes written to the media for each byte from the host; null if unknown.
    pub waf: Option<f64>,
    /// Bytes written by hosts, between the first reading and the last.
    pub host_bytes: u64,
    /// Bytes written to the media.
    pub media_bytes: u64,
    /// Source of the counters.
    pub source: &'static str,
    /// Why the WAF is unknown.
    pub why_not: Option<String>,
}

impl fmt::Display for DeviceWaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device,
            waf,
            host_bytes,
            media_bytes,
            source,
            why_not,
        } = self;
        let host = format::bytes(*host_bytes as f64);
        let media = format::bytes(*media_bytes as f64);
        match waf {
            Some(waf) => {
                write!(
                    f,
                    "device WAF of {device}: {waf:.2} ({source}: {host} from hosts, {media} to the media)"
                )
            }
            None => write!(
                f,
                "device WAF of {device}: unknown - {}",
                why_not.as_deref().unwrap_or(source)
            ),
        }
    }
}

pub(crate) fn changes(timeline: &Timeline) -> Vec<Change> {
    let mut all_changes = Vec::new();
    for device in devices(timeline) {
        for (column, name) in CHANGES {
            let Some(line) = timeline.column(column, &device) else {
                continue;
            };
            let Some((first, last)) = line.first_and_last else {
                continue;
            };
            // The first row is the end of the first interval; counters of a simulated drive start at 0 with the run.
            let first = if column.source() == ColumnSource::Simulated {
                0.0
            } else {
                first
            };
            let device = device.clone();
            let column = column.name().into();
            let name = name.into();
            all_changes.push(Change {
                device,
                column,
                name,
                first,
                last,
                fell: line.first_fall,
            });
        }
    }
    all_changes
}

struct WafCounters {
    source: &'static str,
    media: Column,
    host: Column,
    /// Unit of the host's counter, bytes.
    unit_bytes: f64,
    /// Minimum number of host bytes for an accurate ratio.
    least_bytes: u64,
}

impl WafCounters {
    const fn bytes(source: &'static str, media: Column, host: Column) -> Self {
        Self {
            source,
            media,
            host,
            unit_bytes: 1.0,
            least_bytes: 1,
        }
    }
}

/// Pairs of counters, in order of preference.
const WRITTEN: [WafCounters; 3] = [
    WafCounters::bytes(
        "counted by the simulated drive",
        Column::SimMbmw,
        Column::SimHbmw,
    ),
    WafCounters::bytes(
        "FDP statistics",
        Column::FdpMediaBytes,
        Column::FdpHostBytes,
    ),
    WafCounters {
        unit_bytes: 512_000.0,
        least_bytes: 512_000_000,
        ..WafCounters::bytes(
            "OCP and SMART logs",
            Column::OcpMediaBytesWritten,
            Column::SmartUnitsWritten,
        )
    },
];

/// Write amplification of each drive that hosts wrote to, and that counts the bytes written to its media.
pub(crate) fn device_waf(changes: &[Change]) -> Vec<DeviceWaf> {
    let mut wafs: Vec<DeviceWaf> = Vec::new();
    for written in &WRITTEN {
        for media in changes
            .iter()
            .filter(|change| change.column == written.media.name())
        {
            if wafs.iter().any(|waf| waf.device == media.device) {
                continue;
            }
            let host = changes.iter().find(|change| {
                change.device == media.device && change.column == written.host.name()
            });
            if let Some(host) = host {
                wafs.extend(written.waf(host, media));
            }
        }
    }
    wafs
}

impl WafCounters {
    /// The write amplification between two changes; `None` if no host bytes were written.
    fn waf(&self, host: &Change, media: &Change) -> Option<DeviceWaf> {
        let counters = [
            ("bytes written by hosts", host, self.unit_bytes),
            ("bytes written to the media", media, 1.0),
        ];
        let fell = counters.iter().find_map(|(counter, change, unit)| {
            let Fall { before, after } = change.fell?;
            let bytes = |value: f64| (value * unit) as u64;
            Some(WentBack {
                counter,
                before: bytes(before),
                now: bytes(after),
            })
        });
        let [host, media] =
            counters.map(|(_, change, unit)| ((change.last - change.first) * unit).max(0.0) as u64);
        if host == 0 && fell.is_none() {
            return None;
        }
        let too_few = (host < self.least_bytes).then(|| {
            let written = format::bytes(host as f64);
            let step = format::bytes(self.unit_bytes);
            let least = format::bytes(self.least_bytes as f64);
            format!("only {written} were written, but {} count in steps of {step}: write at least {least}", self.source)
        });
        let why_not = fell.map(|fell| fell.to_string()).or(too_few);
        let waf = WrittenBytes {
            host,
            media,
            erased: 0,
        }
        .waf()
        .filter(|_| why_not.is_none());
        let device = counters[0].1.device.clone();
        Some(DeviceWaf {
            device,
            waf,
            host_bytes: host,
            media_bytes: media,
            source: self.source,
            why_not,
        })
    }
}

/// A line for each drive, below a verdict; empty without drives.
pub(crate) fn waf_lines(wafs: &[DeviceWaf]) -> String {
    let lines: String = wafs.iter().map(|one| format!("{one}\n")).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// A value of a counter in words, rounded to a whole number unless below 1.
pub(crate) fn counter(value: f64) -> String {
    if value.abs() >= 1.0 {
        format::number(value.round())
    } else {
        format::number(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(column: Column, first: f64, last: f64) -> Change {
        let column = column.name().to_owned();
        Change {
            device: "nvme0n1".into(),
            name: column.clone(),
            column,
            first,
            last,
            fell: None,
        }
    }

    #[test]
    fn the_waf_of_a_drive_comes_from_its_best_source() {
        let fdp = [
            change(Column::FdpMediaBytes, 150.0, 450.0),
            change(Column::FdpHostBytes, 100.0, 300.0),
        ];
        let smart = [
            change(Column::OcpMediaBytesWritten, 0.0, 5e9),
            change(Column::SmartUnitsWritten, 0.0, 2000.0),
        ];
        let told = |changes: &[Change]| {
            device_waf(changes)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let both: Vec<Change> = smart.iter().chain(&fdp).cloned().collect();
        assert_eq!(
            told(&both),
            ["device WAF of nvme0n1: 1.50 (FDP statistics: 200 B from hosts, 300 B to the media)"]
        );
        assert_eq!(
            told(&smart),
            [
                "device WAF of nvme0n1: 4.88 (OCP and SMART logs: 1.02 GB from hosts, 5 GB to the media)"
            ]
        );
        assert_eq!(told(&fdp[..1]), [""; 0], "the host bytes are unknown");
    }

    #[test]
    fn a_waf_that_the_counters_cannot_give_is_unknown_with_a_reason() {
        let few = [
            change(Column::OcpMediaBytesWritten, 0.0, 5e6),
            change(Column::SmartUnitsWritten, 7.0, 9.0),
        ];
        let told = device_waf(&few).remove(0);
        assert_eq!((told.waf, told.host_bytes), (None, 1_024_000));
        assert!(
            told.to_string()
                .contains("count in steps of 512 kB: write at least 512 MB"),
            "{told}"
        );
        // The counter rose further than it fell, so first and last value alone would look normal.
        let mut reset = [
            change(Column::FdpMediaBytes, 100.0, 900.0),
            change(Column::FdpHostBytes, 100.0, 800.0),
        ];
        reset[0].fell = Some(Fall {
            before: 700.0,
            after: 10.0,
        });
        let told = device_waf(&reset).remove(0);
        assert_eq!(told.waf, None);
        assert!(
            told.to_string()
                .contains("bytes written to the media went back from 700 to 10 bytes"),
            "{told}"
        );
        let idle = [
            change(Column::FdpMediaBytes, 5.0, 9.0),
            change(Column::FdpHostBytes, 5.0, 5.0),
        ];
        assert_eq!(device_waf(&idle), []);
    }
}
