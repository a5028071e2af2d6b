//! Inputs of a profile, options, and errors; iostat's mean numbers of a drive within a window.

use super::window::{LoadWindow, WindowError};
use crate::drive_io::DriveIo;
use crate::info::{Build, InfoReplies, Namespace};
use crate::iostat::{DeviceRates, Iostat, IostatReport, writes_with_data};
use crate::server_log::text::is_block_size;
use crate::server_log::{ServerLog, Start, flag, size_bytes};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use results::format::{in_one_line, number};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default)]
pub struct ProfileSources {
    pub tool: String,
    pub names: Vec<String>,
    pub logs: Vec<ServerLog>,
    /// iostat's output, by the node's id.
    pub iostats: BTreeMap<String, Iostat>,
    /// Configuration, by the node's id (empty: all nodes) and the namespace.
    pub facts: BTreeMap<(String, String), NamespaceFacts>,
}

/// Configuration of a namespace, from the user or the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    pub origin: String,
    pub build: Option<Build>,
    pub write_block_bytes: Option<u64>,
    pub flush_bytes: Option<u64>,
    /// True for a configuration of devices without either size: the server uses the default.
    pub are_sizes_unset: bool,
    pub commit_to_device: Option<bool>,
    /// The replication factor in force.
    pub replication_factor: Option<u64>,
    /// Devices or files, in the server's order.
    pub devices: Vec<String>,
    /// Shadow devices, by device.
    pub shadows: BTreeMap<String, String>,
    pub defrag_lwm_pct: Option<u32>,
    /// Index types that are on flash (`index-type`, `sindex-type`), each with its mount points.
    pub flash_indexes: BTreeMap<String, Vec<String>>,
}

/// Keys of the configuration for the types of the primary and of secondary indexes.
pub const INDEX_TYPES: [&str; 2] = ["index-type", "sindex-type"];

impl NamespaceFacts {
    pub fn from_node(node: &InfoReplies, namespace: &Namespace) -> Self {
        Self {
            origin: format!("the configuration of node {}", node.name()),
            build: node.build,
            write_block_bytes: namespace.write_block_bytes(node.build),
            flush_bytes: namespace.flush_bytes(node.build),
            are_sizes_unset: false,
            commit_to_device: namespace.commit_to_device(),
            replication_factor: namespace.replication_factor(),
            devices: namespace
                .devices
                .iter()
                .map(|device| device.name.clone())
                .collect(),
            shadows: namespace
                .devices
                .iter()
                .filter_map(|it| Some((it.name.clone(), it.shadow.clone()?)))
                .collect(),
            defrag_lwm_pct: namespace
                .number("defrag-lwm-pct")
                .and_then(|pct| pct.try_into().ok()),
            flash_indexes: INDEX_TYPES
                .into_iter()
                .filter(|kind| namespace.value(kind) == Some("flash"))
                .map(|kind| (kind.to_owned(), namespace.mounts(kind)))
                .collect(),
        }
    }

    /// Facts about `namespace` in the configuration that the server logged at its start, or in its file; empty if it has
    /// none.
    pub fn of_start(start: &Start, namespace: &str) -> Self {
        let Some(keys) = start.configuration.get(namespace) else {
            return Self::default();
        };
        let last = |key: &str| Some(keys.get(key)?.last()?.as_str());
        let block = |key: &str| size_bytes(last(key)?).filter(|bytes| is_block_size(*bytes));
        let values = |key: &str| keys.get(key).into_iter().flatten();
        let names = || values("device").chain(values("file"));
        let shadows = names().filter_map(|names| names.split_once(' '));
        let is_size_set = ["write-block-size", "flush-size"]
            .iter()
            .any(|key| keys.contains_key(*key));
        Self {
            origin: start.origin.clone(),
            build: start.build.as_deref().and_then(Build::parse),
            write_block_bytes: block("write-block-size"),
            flush_bytes: block("flush-size"),
            are_sizes_unset: !is_size_set && names().next().is_some(),
            commit_to_device: last("commit-to-device").map_or(Some(false), flag),
            replication_factor: last("replication-factor").and_then(|factor| factor.parse().ok()),
            devices: names()
                .filter_map(|names| names.split_whitespace().next())
                .map(str::to_owned)
                .collect(),
            shadows: shadows
                .map(|(device, shadow)| (device.to_owned(), shadow.to_owned()))
                .collect(),
            defrag_lwm_pct: last("defrag-lwm-pct").and_then(|pct| pct.parse().ok()),
            flash_indexes: INDEX_TYPES
                .into_iter()
                .filter(|kind| last(kind) == Some("flash"))
                .map(|kind| {
                    (
                        kind.to_owned(),
                        values(&format!("{kind} mount")).cloned().collect(),
                    )
                })
                .collect(),
        }
    }

    /// These facts; values that are missing here are taken from `other`.
    pub fn or(self, other: Self) -> Self {
        let says_sizes =
            self.write_block_bytes.is_some() || self.flush_bytes.is_some() || self.are_sizes_unset;
        Self {
            origin: if says_sizes {
                self.origin
            } else {
                other.origin
            },
            build: self.build.or(other.build),
            write_block_bytes: self.write_block_bytes.or(other.write_block_bytes),
            flush_bytes: self.flush_bytes.or(other.flush_bytes),
            are_sizes_unset: self.are_sizes_unset || !says_sizes && other.are_sizes_unset,
            commit_to_device: self.commit_to_device.or(other.commit_to_device),
            replication_factor: self.replication_factor.or(other.replication_factor),
            devices: if self.devices.is_empty() {
                other.devices
            } else {
                self.devices
            },
            shadows: if self.shadows.is_empty() {
                other.shadows
            } else {
                self.shadows
            },
            defrag_lwm_pct: self.defrag_lwm_pct.or(other.defrag_lwm_pct),
            flash_indexes: if self.flash_indexes.is_empty() {
                other.flash_indexes
            } else {
                self.flash_indexes
            },
        }
    }
}

impl Start {
    /// The facts about `namespace`, without their origin.
    fn values(&self, namespace: &str) -> NamespaceFacts {
        NamespaceFacts {
            origin: String::new(),
            ..NamespaceFacts::of_start(self, namespace)
        }
    }

    /// Adds `file`, a second configuration file of the same node. Errors: a namespace that the two files configure with
    /// different values.
    pub fn add_file(&mut self, file: Self) -> std::result::Result<(), String> {
        for namespace in file.configuration.keys() {
            let is_known = self.configuration.contains_key(namespace);
            if is_known && self.values(namespace) != file.values(namespace) {
                return Err(namespace.clone());
            }
        }
        let mut new = file.configuration;
        new.retain(|namespace, _| !self.configuration.contains_key(namespace));
        if !new.is_empty() {
            self.origin = format!("{}, {}", self.origin, file.origin);
            self.configuration.extend(new);
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub struct ProfileOptions {
    /// Only these namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// Only log lines from this time on.
    pub from: Option<Timestamp>,
    /// Only log lines up to this time.
    pub to: Option<Timestamp>,
    /// Minimum length of the window to find, seconds.
    pub at_least_sec: u32,
    /// The drive of each device whose name does not show the drive, by device.
    pub drives: BTreeMap<String, String>,
    pub iostat_zone: Offset,
}

pub(super) struct NodeSources<'a> {
    pub(super) sources: &'a ProfileSources,
    pub(super) options: &'a ProfileOptions,
    pub(super) log: &'a ServerLog,
    pub(super) id: String,
}

impl NodeSources<'_> {
    pub(super) fn facts(&self, namespace: &str, window: LoadWindow) -> NamespaceFacts {
        let stated_facts = self
            .stated_facts(&self.id, namespace)
            .or_else(|| self.stated_facts("", namespace))
            .cloned()
            .unwrap_or_default();
        match self.log.start_of(window) {
            Some(start) => stated_facts.or(NamespaceFacts::of_start(start, namespace)),
            None => stated_facts,
        }
    }

    /// Facts from the user or the server's configuration about a namespace on `node`; on all nodes if `node` is empty.
    fn stated_facts(&self, node: &str, namespace: &str) -> Option<&NamespaceFacts> {
        self.sources
            .facts
            .get(&(node.to_owned(), namespace.to_owned()))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SizingError {
    #[error("there is no server log: only a log has the sizes of records - give --log FILE")]
    NoLog,
    #[error(
        "{log}: has no histograms of the sizes of reads and writes of namespace {namespace} (such as \
         {{{namespace}}}-device-read-size) - storage histograms are off: turn them on, and fetch the log again after \
         some minutes: asadm -e 'enable; manage config namespace {namespace} storage-engine param \
         enable-benchmarks-storage to true' (or \"flashproof size collect --enable\")"
    )]
    StorageHistogramsOff { log: String, namespace: String },
    #[error(
        "{log}: has no histograms of the sizes of reads and writes, and its drive lines name no namespace (server 3.8 and \
         older): only blocks are counted - give a log of server 3.9 or later, with storage histograms on, for a \
         configuration"
    )]
    OldHistograms { log: String },
    #[error("there is no namespace {requested} - found: {}", .found.join(", "))]
    NoNamespace {
        requested: String,
        found: Vec<String>,
    },
    #[error(
        "{log}: has no drive line (drv_ssd, drv-mem) of a namespace on devices{why} - give the log of a node that stores \
         records on devices"
    )]
    NoDevices { log: String, why: String },
    #[error(
        "{log}: has no drive line (drv_ssd, drv-mem): the log covers only {covered}, and the server logs these lines \
         every 20 s - give a log of several minutes"
    )]
    NoDriveLineYet { log: String, covered: String },
    #[error(
        "{log}: {what} was logged fewer than twice from {from} to {to} - the window is too short: take a longer one"
    )]
    TooShort {
        log: String,
        what: String,
        from: Timestamp,
        to: Timestamp,
    },
    #[error(transparent)]
    Window(#[from] WindowError),
    /// No window while iostat was running.
    #[error(
        "{error} (searched only while iostat was running, from {from} to {to}; without --iostat the whole log is \
         searched)"
    )]
    WhileIostat {
        error: Box<WindowError>,
        from: Timestamp,
        to: Timestamp,
    },
    #[error("node {node}: {error}")]
    Iostat { node: String, error: IostatMismatch },
    #[error("--iostat {requested}=...: there is no such node - found: {}", .found.join(", "))]
    NoNode {
        requested: String,
        found: Vec<String>,
    },
}

/// Maximum error of a report's time, which is printed in whole seconds.
const CLOCK_SEC: i64 = 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IostatMismatch {
    #[error(
        "iostat's reports cover {first} to {last}, but the load is from {from} to {to} - give iostat's output of the \
         load's time, or --iostat-zone if the clock of iostat's machine is not in UTC"
    )]
    OtherTime {
        first: Timestamp,
        last: Timestamp,
        from: Timestamp,
        to: Timestamp,
    },
    #[error("iostat shows {}, but not {drive} - give iostat's output of the node, or --drive NAME=DEVICE with \
             iostat's name of the drive", in_one_line(&.found.join(", ")))]
    OtherDevices { drive: String, found: Vec<String> },
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct IostatMeans {
    /// iostat's counts, which include flushes.
    io: DriveIo,
    /// `None` if this version of iostat does not print them.
    flushes_per_sec: Option<f64>,
    /// Seconds of the window that iostat does not cover; 0 if only the incomplete intervals at its ends are missing.
    pub missing_sec: f64,
}

/// Maximum difference between the mean size of a write and the expected size, as a share.
const SIZE_TOLERANCE: f64 = 0.1;

impl IostatMeans {
    pub fn written_kib_per_sec(&self) -> f64 {
        self.io.written_kib_per_sec
    }

    /// The rates without flushes, if a write is `write_kib` on average.
    pub fn io(&self, write_kib: Option<f64>) -> DriveIo {
        let DriveIo {
            writes_per_sec,
            written_kib_per_sec,
            ..
        } = self.io;
        // If the mean size shows that half of w/s are flushes, f/s would equal w/s: each synchronous write counts as
        // two writes and two flushes.
        let kib_of_half = 2.0 * written_kib_per_sec / writes_per_sec;
        let is_half = write_kib.is_some_and(|kib| (kib_of_half / kib - 1.0).abs() < SIZE_TOLERANCE);
        let unknown_flushes = if is_half { writes_per_sec } else { 0.0 };
        DriveIo {
            writes_per_sec: writes_with_data(
                writes_per_sec,
                self.flushes_per_sec.unwrap_or(unknown_flushes),
                written_kib_per_sec,
                write_kib,
            ),
            ..self.io
        }
    }

    /// A remark if [`io`](Self::io) took counted writes for flushes that iostat does not print.
    pub fn flushes_remark(&self, write_kib: Option<f64>) -> Option<String> {
        let counted = self.io.writes_per_sec;
        let with_data = self.io(write_kib).writes_per_sec;
        (self.flushes_per_sec.is_none() && with_data < counted).then(|| {
            format!(
                "this version of iostat does not print flushes (f/s), but w/s includes them: by the mean size of a \
                 write, {} of {} w/s carry data",
                number(with_data),
                number(counted)
            )
        })
    }
}

type Result<T> = std::result::Result<T, IostatMismatch>;

/// The mean of the reports within `window` for `drive`, or for the `devices` on it. Reports without a time are all
/// included.
pub fn mean(
    iostat: &Iostat,
    drive: &str,
    devices: &[String],
    window: LoadWindow,
    zone: Offset,
) -> Result<IostatMeans> {
    let (reports, missing_sec) = within(iostat, window, zone)?;
    // The line of the drive, else the lines of its partitions.
    let lines = iostat.reports.iter().flat_map(|report| &report.devices);
    let shown_devices: BTreeSet<&str> = lines.map(|rates| &*rates.device).collect();
    let partitions = devices
        .iter()
        .map(|device| device.trim_start_matches("/dev/"))
        .collect();
    let names: Vec<&str> = if shown_devices.contains(drive) {
        vec![drive]
    } else {
        partitions
    };
    if names.is_empty() || !names.iter().all(|name| shown_devices.contains(name)) {
        let found = shown_devices.into_iter().map(str::to_owned).collect();
        return Err(IostatMismatch::OtherDevices {
            drive: drive.to_owned(),
            found,
        });
    }
    Ok(IostatMeans {
        missing_sec,
        ..mean_of(&reports, &names)
    })
}

/// Mean of `reports` (at least one) for all `devices` together. A missing line is 0: iostat -z omits idle devices.
pub fn mean_of(reports: &[&IostatReport], devices: &[&str]) -> IostatMeans {
    let lines: Vec<&DeviceRates> = reports
        .iter()
        .flat_map(|report| &report.devices)
        .filter(|rates| devices.contains(&&*rates.device))
        .collect();
    let count = reports.len() as f64;
    let io = lines
        .iter()
        .map(|rates| rates.io)
        .sum::<DriveIo>()
        .map(|sum| sum / count);
    let flushes: Vec<f64> = lines
        .iter()
        .filter_map(|rates| rates.flushes_per_sec)
        .collect();
    IostatMeans {
        io,
        flushes_per_sec: (!flushes.is_empty()).then(|| flushes.iter().sum::<f64>() / count),
        missing_sec: 0.0,
    }
}

/// Period that iostat covers; `None`: its reports have no time.
/// Errors: the period does not overlap `of_log`, the period of the log.
pub fn span(
    iostat: &Iostat,
    of_log: Option<(Timestamp, Timestamp)>,
    zone: Offset,
) -> Result<Option<LoadWindow>> {
    let times = times(iostat, zone);
    let (Some(first), Some(last)) = (times.iter().min().copied(), times.iter().max().copied())
    else {
        return Ok(None);
    };
    // The first report covers an interval before it, probably as long as the next interval.
    let begin = first
        - times.get(1).map_or(SignedDuration::ZERO, |next| {
            next.duration_since(first).abs()
        });
    match of_log {
        Some((from, to)) if last < from || first > to => Err(IostatMismatch::OtherTime {
            first,
            last,
            from,
            to,
        }),
        _ => Ok(Some(LoadWindow {
            from: begin,
            to: last,
        })),
    }
}

/// Print times of the reports, by their own zone if known, else by `zone`; empty if one of them has no time.
fn times(iostat: &Iostat, zone: Offset) -> Vec<Timestamp> {
    iostat
        .reports
        .iter()
        .map(|report: &IostatReport| {
            report
                .timestamp
                .and_then(|at| report.offset.unwrap_or(zone).to_timestamp(at).ok())
        })
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// The reports whose whole interval is within `window`, and the seconds of the window that these reports do not cover.
fn within(iostat: &Iostat, window: LoadWindow, zone: Offset) -> Result<(Vec<&IostatReport>, f64)> {
    let times = times(iostat, zone);
    if times.is_empty() {
        return Ok((iostat.reports.iter().collect(), 0.0));
    }
    let mut lengths: Vec<_> = times
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]))
        .collect();
    // A report covers the time since the previous one; the first probably as long a time as the second.
    lengths.insert(0, lengths.first().copied().unwrap_or_default());
    let clock = SignedDuration::from_secs(CLOCK_SEC);
    let indices: Vec<usize> = (0..times.len())
        .filter(|index: &usize| {
            times[*index] - lengths[*index] >= window.from - clock
                && times[*index] <= window.to + clock
        })
        .collect();
    let reports: Vec<&IostatReport> = indices
        .iter()
        .map(|index| &iostat.reports[*index])
        .collect();
    let seconds = |index: usize| lengths[index].as_secs_f64();
    let covered_sec: f64 = indices.iter().map(|index| seconds(*index)).sum();
    let longest = indices
        .iter()
        .map(|index| seconds(*index))
        .fold(0.0, f64::max);
    if reports.is_empty() {
        let first = times[0];
        let last = times[times.len() - 1];
        return Err(IostatMismatch::OtherTime {
            first,
            last,
            from: window.from,
            to: window.to,
        });
    }
    // Up to one interval may be missing at each end.
    let missing = window.seconds() - covered_sec;
    Ok((
        reports,
        if missing > 2.0 * (longest + CLOCK_SEC as f64) {
            missing
        } else {
            0.0
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_starts_with;

    /// Output of `iostat -z`: a report for each of `reports`, with the devices that were busy.
    fn iostat(reports: &[&[(&str, f64)]]) -> Iostat {
        let rates = |&(device, r_s): &(&str, f64)| DeviceRates {
            device: device.to_owned(),
            io: [r_s, 2.0 * r_s, 4.0 * r_s, 8.0 * r_s].into(),
            flushes_per_sec: None,
            discards_per_sec: None,
        };
        let report = |devices: &&[(&str, f64)]| IostatReport {
            timestamp: None,
            offset: None,
            devices: devices.iter().map(rates).collect(),
        };
        Iostat {
            reports: reports.iter().map(report).collect(),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn control_characters_in_a_name_from_iostat_are_escaped() {
        let window = LoadWindow {
            from: Timestamp::UNIX_EPOCH,
            to: Timestamp::UNIX_EPOCH,
        };
        let error = mean(
            &iostat(&[&[("nvme0\u{1b}[2J", 1.0)]]),
            "sdb",
            &[],
            window,
            Offset::UTC,
        )
        .unwrap_err();
        assert_starts_with!(error, "iostat shows nvme0\\u001b[2J, but not sdb");
    }

    #[test]
    fn a_drive_missing_from_a_report_counts_as_zeros() {
        let window = LoadWindow {
            from: Timestamp::UNIX_EPOCH,
            to: Timestamp::UNIX_EPOCH,
        };
        let iostat = iostat(&[
            &[("sda", 30.0)],
            &[("sdb", 6.0)],
            &[("sda", 60.0), ("sdc", 3.0)],
        ]);
        let of = |drive: &str, devices: &[&str]| {
            let devices: Vec<String> = devices
                .iter()
                .map(|device| format!("/dev/{device}"))
                .collect();
            mean(&iostat, drive, &devices, window, Offset::UTC).map(|seen| seen.io(None))
        };
        let io = |n: f64| DriveIo {
            reads_per_sec: n,
            writes_per_sec: 2.0 * n,
            read_kib_per_sec: 4.0 * n,
            written_kib_per_sec: 8.0 * n,
        };
        assert_eq!(of("sda", &[]).unwrap(), io(30.0));
        assert_eq!(of("sdb", &["sda"]).unwrap(), io(2.0));
        // Partitions whose drive has no line are added up, also if a report lacks some of them.
        assert_eq!(of("sd", &["sdb", "sdc"]).unwrap(), io(3.0));
        let found = ["sda", "sdb", "sdc"].map(str::to_owned).to_vec();
        for devices in [&[][..], &["sda", "sdx"]] {
            let other = Err(IostatMismatch::OtherDevices {
                drive: "sdd".to_owned(),
                found: found.clone(),
            });
            assert_eq!(of("sdd", devices), other);
        }
    }
}
