//! A test's configuration for each namespace: the load of one of its drives, each value with its source.
//!
//! A configuration has the load of one namespace on one drive: the namespace's load on all of its devices, divided by
//! the number of drives. If namespaces share a drive, each has its own configuration, and all of them are run on that
//! drive at the same time. With its offsets, in whole percents, a configuration requests the I/O of the cluster's
//! drive. If the drive under test distorts that I/O, use `align`.

mod index;

use crate::align::{Distortion, Offsets, PLAUSIBLE_PCT, RequestedLoad, solve};
use crate::drive_io::{DriveIo, NAMES};
use crate::profile::counters::kib;
use crate::profile::{DeviceLoad, Profile};
use crate::server_log::drive_context;
use act::ActConfig;
use act::options::Test;
use act::reference::AnnotatedConfig;
use act::scale::scale;
use engine::DeviceName;
use load::factor::Factor;
use std::collections::BTreeSet;

/// Assumed smallest I/O of a drive, bytes: the last percent of an offset depends on this size.
const MIN_IO_BYTES: u32 = 512;

#[derive(Debug, Clone)]
pub struct TestOptions {
    /// The device to be tested; `None`: a placeholder.
    pub device: Option<DeviceName>,
    pub duration_sec: u32,
    /// The load as a multiple of the cluster's load.
    pub factor: Factor,
}

#[derive(Debug, Clone)]
pub struct TestConfiguration {
    pub test: Test,
    pub namespace: String,
    /// Number of drives by which the namespace's load was divided.
    pub drives: usize,
    pub text: String,
    pub requested_io: DriveIo,
    /// I/O of the cluster's drive for this namespace.
    pub cluster_io: DriveIo,
    pub remarks: Vec<String>,
}

/// Maximum deviation from the load of the cluster's drive, as a fraction: whole-percent offsets are not exact.
const NEAR: f64 = 0.02;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("the profile has no node {requested} - found: {}", .found.join(", "))]
    NoNode {
        requested: String,
        found: Vec<String>,
    },
    #[error(
        "namespace {namespace}: has no load to test: no record was read or written in the window - choose another \
         window"
    )]
    NoLoad { namespace: String },
    #[error(
        "namespace {namespace}: no configuration: the log has no reads, writes and sizes of records - turn the storage \
         histograms on, and give a later log"
    )]
    RecordsUnknown { namespace: String },
    #[error("namespace {namespace}: no valid configuration - {problems}")]
    Refused { namespace: String, problems: String },
}

/// The node whose drives have the highest throughput, bytes per second: a drive is sized for the busiest node.
pub fn busiest_node(profile: &Profile) -> Option<&str> {
    let nodes = profile.nodes.iter().map(|node| node.id.as_str());
    nodes.max_by(|one, other| {
        kib_per_sec_of_node(profile, one).total_cmp(&kib_per_sec_of_node(profile, other))
    })
}

/// The node with the id `requested`, which logs print in lower case.
pub fn requested_node<'a>(
    profile: &'a Profile,
    requested: &str,
) -> Result<&'a str, ConfigurationError> {
    let mut ids = profile.nodes.iter().map(|node| node.id.as_str());
    ids.find(|id| id.eq_ignore_ascii_case(requested))
        .ok_or_else(|| no_node(profile, requested))
}

fn no_node(profile: &Profile, requested: &str) -> ConfigurationError {
    ConfigurationError::NoNode {
        requested: requested.to_owned(),
        found: profile.nodes.iter().map(|node| node.id.clone()).collect(),
    }
}

fn kib_per_sec_of_node(profile: &Profile, node: &str) -> f64 {
    let drives = profile.drives.iter().filter(|drive| drive.node == node);
    drives
        .map(|drive| drive.io())
        .map(|io| io.read_kib_per_sec + io.written_kib_per_sec)
        .sum()
}

pub fn configurations(
    profile: &Profile,
    node: &str,
    test: &TestOptions,
) -> Result<Vec<TestConfiguration>, ConfigurationError> {
    let of_node: Vec<&DeviceLoad> = profile
        .loads
        .iter()
        .filter(|load| load.node == node)
        .collect();
    if of_node.is_empty() {
        return Err(no_node(profile, node));
    }
    let namespaces: BTreeSet<&str> = of_node.iter().map(|load| load.namespace.as_str()).collect();
    let mut configurations = Vec::new();
    for namespace in namespaces {
        let mut loads = of_node.clone();
        loads.retain(|load| load.namespace == namespace);
        configurations.push(NamespaceLoad::new(profile, loads).configuration(profile, test));
    }
    for index in profile.indexes.iter().filter(|index| index.node == node) {
        configurations.extend(index::configuration(index, profile, test));
    }
    // An idle namespace must not prevent the configurations of the others.
    let (idle, configurations): (Vec<_>, Vec<_>) = configurations.into_iter().partition(|made| {
        made.as_ref().is_err_and(|error: &ConfigurationError| {
            matches!(
                error,
                ConfigurationError::NoLoad { .. } | ConfigurationError::RecordsUnknown { .. }
            )
        })
    });
    if configurations.is_empty() {
        idle.into_iter().collect()
    } else {
        configurations.into_iter().collect()
    }
}

/// The load of a namespace on one of its drives: an average over the drives.
struct NamespaceLoad<'a> {
    loads: Vec<&'a DeviceLoad>,
    drives: BTreeSet<&'a str>,
    /// Factor: bytes of record reads that iostat counted, divided by the bytes that these reads would have with every
    /// size at the lower edge of its bucket. `None` without iostat, or if large-block reads exceed iostat's bytes.
    read_bytes: Option<f64>,
}

impl<'a> NamespaceLoad<'a> {
    fn new(profile: &'a Profile, loads: Vec<&'a DeviceLoad>) -> Self {
        let drives: BTreeSet<&str> = loads.iter().map(|load| load.drive.as_str()).collect();
        // `read_bytes` assumes the same factor for all namespaces of a drive.
        let targets = drives
            .iter()
            .map(|drive: &&str| {
                profile
                    .drives
                    .iter()
                    .find(|target| target.node == loads[0].node && target.drive == **drive)
            })
            .collect::<Option<Vec<_>>>()
            .unwrap_or_default();
        let iostat_kib: Option<f64> = targets
            .iter()
            .map(|target| target.iostat.map(|io| io.read_kib_per_sec))
            .sum();
        let all_loads = targets.iter().flat_map(|target| profile.loads_on(target));
        let large_kib: f64 = all_loads.map(|load| load.io(0.0).read_kib_per_sec).sum();
        let lower_kib: f64 = targets
            .iter()
            .map(|target| target.predicted.read_kib_per_sec)
            .sum::<f64>()
            - large_kib;
        let read_bytes = iostat_kib
            .map(|seen| (seen - large_kib) / lower_kib)
            .filter(|factor| factor.is_finite() && *factor > 0.0);
        Self {
            loads,
            drives,
            read_bytes,
        }
    }

    /// Average per drive.
    fn sum(&self, rate_of: impl Fn(&DeviceLoad) -> f64) -> f64 {
        self.loads.iter().map(|load| rate_of(load)).sum::<f64>() / self.drives.len() as f64
    }

    /// I/O of this namespace on one drive, under iostat's names, without the reads of the tomb raider.
    fn cluster_io(&self) -> DriveIo {
        let all: DriveIo = self
            .loads
            .iter()
            .map(|load| load.io(self.read_bytes.unwrap_or(1.0)))
            .sum();
        let all = all.map(|n| n / self.drives.len() as f64).numbers();
        let raider = self.tomb_raider_io().numbers();
        DriveIo::from(std::array::from_fn(|n| all[n] - raider[n]))
    }

    fn tomb_raider_io(&self) -> DriveIo {
        let all: DriveIo = self.loads.iter().map(|load| load.tomb_raider_io()).sum();
        all.map(|n| n / self.drives.len() as f64)
    }

    /// Time between two reads of the tomb raider on a drive, microseconds; `None` if it does not read.
    fn tomb_raider_sleep_us(&self) -> Option<u32> {
        let per_sec = self.sum(|load| load.tomb_raider_reads_per_sec);
        (per_sec > 0.0).then_some((1e6 / per_sec) as u32)
    }

    fn configuration(
        &self,
        profile: &Profile,
        test: &TestOptions,
    ) -> Result<TestConfiguration, ConfigurationError> {
        let first = self.loads[0];
        let namespace = || first.namespace.clone();
        let refused_error = |problems: String| ConfigurationError::Refused {
            namespace: namespace(),
            problems,
        };
        if self.loads.iter().any(|load| load.is_records_unknown) {
            return Err(ConfigurationError::RecordsUnknown {
                namespace: namespace(),
            });
        }
        let reads = self.sum(|load| load.reads_per_sec);
        let writes = self.sum(|load| load.writes_per_sec);
        let lbr = self.sum(|l| l.large_block_reads_per_sec);
        let filled = self.sum(DeviceLoad::filled_per_sec);
        if whole_rate(reads) == 0 && whole_rate(writes) == 0 {
            return Err(ConfigurationError::NoLoad {
                namespace: namespace(),
            });
        }
        // In a steady state, blocks that are written but not read for defragmentation are freed directly.
        let direct_frees = self.sum(|load| {
            let rest = load.filled_per_sec() - load.large_block_reads_per_sec;
            load.direct_frees_per_sec.unwrap_or(rest.max(0.0))
        });
        let large_block_bytes = large_block_bytes(first);
        let mut config = ActConfig {
            test_duration_sec: test.duration_sec,
            read_reqs_per_sec: whole_rate(reads),
            write_reqs_per_sec: whole_rate(writes),
            record_bytes: 0,
            large_block_op_kbytes: u32::try_from(large_block_bytes / 1024).unwrap_or(u32::MAX),
            // If no large-block reads were counted (records in memory, a shadow device, no writes), the model must not
            // derive any from the writes.
            no_defrag_reads: lbr <= 0.0,
            total_lbw_per_sec: whole_rate(filled),
            // If all blocks were freed directly, there would be no large-block reads for the offset to scale.
            direct_frees: whole_rate(direct_frees)
                .min(whole_rate(filled).saturating_sub(u32::from(lbr > 0.0))),
            commit_to_device: first.commit_to_device,
            tomb_raider: self.tomb_raider_sleep_us().is_some(),
            tomb_raider_sleep_usec: self.tomb_raider_sleep_us().unwrap_or(0),
            device_names: device_names(test).map_err(refused_error)?,
            ..ActConfig::default()
        };
        for (key, ops_per_sec, sizes) in [
            (
                "storage-read-histogram",
                config.read_reqs_per_sec,
                &first.read_sizes_pct_over,
            ),
            (
                "storage-write-histogram",
                config.write_reqs_per_sec,
                &first.write_sizes_pct_over,
            ),
        ] {
            if ops_per_sec > 0 {
                config
                    .set(key, &histogram(sizes))
                    .map_err(|problem| refused_error(problem.to_string()))?;
            }
        }
        // A configuration sets the sleep of the tomb raider, not its rate: no offset scales its reads, so they are left out.
        let measured_io = self.cluster_io();
        let offsets = solve(&config, MIN_IO_BYTES, &measured_io, &Distortion::NONE);
        config = offsets.applied(&config);
        let baseline = requested_io(&config).map_err(refused_error)?;
        let mut remarks = remarks(first, &offsets, &measured_io, &baseline);
        if direct_frees > filled {
            remarks.push(format!(
                "{}.conf: direct-frees is {}, although the server freed {direct_frees:.1} blocks/s: more than the \
                 {filled:.1} blocks/s that it wrote (total-lbw-per-sec) - choose a window without deletions or truncations",
                first.namespace, config.direct_frees
            ));
        }
        let raider_per_sec = self.sum(|load| load.tomb_raider_reads_per_sec);
        if raider_per_sec > 0.0 {
            remarks.push(format!(
                "{}.conf: the tomb raider reads at most {raider_per_sec:.1} blocks/s, the cluster's rate: in the test, the \
                 time of each read is added to the pause",
                first.namespace
            ));
        }
        let unscaled_load = RequestedLoad::from_config(
            &Offsets {
                read_size: 100,
                ..offsets
            }
            .applied(&config),
            MIN_IO_BYTES,
        );
        let reads = unscaled_load.map_or_else(
            |_| "too many".to_owned(),
            |load| rate(load.io().read_kib_per_sec),
        );
        let read_rate = rate(measured_io.read_kib_per_sec);
        let source_note = match self.read_bytes {
            Some(_) => " by iostat",
            None => {
                " if each read has the smallest size of its bucket (--iostat gives the real number)"
            }
        };
        let sizes = format!(
            "at 100 % the model reads {reads} kB/s; the cluster's drive read {read_rate} kB/s{source_note}"
        );
        scale(&mut config, test.factor).map_err(|errors| refused_error(sentences(errors)))?;
        let tomb_raider_io = self.tomb_raider_io();
        let storage_io = requested_io(&config).map_err(refused_error)?;
        let requested_io = [storage_io, tomb_raider_io].into_iter().sum();
        let cluster_io = [measured_io, tomb_raider_io].into_iter().sum();
        let text = self.document(profile, test, config, &sizes).to_string();
        Ok(TestConfiguration {
            test: Test::Storage,
            namespace: namespace(),
            drives: self.drives.len(),
            text,
            requested_io,
            cluster_io,
            remarks,
        })
    }

    /// `config` with comments. `sizes`: reason for `read-size-offset`.
    fn document(
        &self,
        profile: &Profile,
        test: &TestOptions,
        config: ActConfig,
        sizes: &str,
    ) -> AnnotatedConfig {
        let first = self.loads[0];
        let offsets = Offsets::from_config(&config);
        let mut document = AnnotatedConfig::new(config);
        let node = profile.nodes.iter().find(|node| node.id == first.node);
        let window_text = node
            .map(|node| format!(", {} to {}", node.window.from, node.window.to))
            .unwrap_or_default();
        let times = if test.factor == Factor::ONE {
            String::new()
        } else {
            format!("{} times ", test.factor)
        };
        let (
            DeviceLoad {
                namespace, node, ..
            },
            tool,
        ) = (first, &profile.tool);
        let load = format!(
            "{times}the load of namespace {namespace} on one drive of node {node}{window_text}. Written by {tool}."
        );
        document.paragraph(&load);
        let devices: Vec<&str> = self.loads.iter().map(|load| load.device.as_str()).collect();
        document.paragraph(&format!(
            "From {} ({}).",
            profile.sources.join(", "),
            devices.join(", ")
        ));
        for doubt in profile.doubts() {
            document.paragraph(&format!("IN DOUBT: {doubt}"));
        }
        if self.sharers(profile) > 1 {
            document.paragraph(
                "Other namespaces share this drive. Each has its own configuration: run them at the same time \
                 (flashproof storage A.conf B.conf).",
            );
        }
        document.paragraph(
            "ERASES THE DRIVE in device-names. flashproof asks first, and refuses a drive in use.",
        );
        let count = self.loads.len();
        let drives = self.drives.len();
        let sum_note = match (count, drives) {
            (1, _) => String::new(),
            (_, 1) => format!("; the value is the sum of {count} devices on one drive"),
            _ => format!("; the value is the sum of {count} devices, divided by {drives} drives"),
        };
        let origin = &first.origin;
        let device_note = if count == 1 {
            String::new()
        } else {
            format!(" (only {}){sum_note}", first.device)
        };
        let per_device = |what: &str| format!("{what}{device_note}");
        let mut note = |key, text: String| document.note(key, &format!("Here: {text}."));
        note("read-reqs-per-sec", per_device(&origin.reads));
        note("write-reqs-per-sec", format!("{}{sum_note}", origin.writes));
        note("storage-read-histogram", origin.sizes.clone());
        note("storage-write-histogram", origin.sizes.clone());
        let mut block = origin.large_block.clone();
        if large_block_bytes(first) != first.large_block_bytes {
            let size = kib(first.large_block_bytes);
            block = format!(
                "{size}, {block}; enlarged here because some records do not fit it; the offsets reduce the number of \
                 blocks"
            );
        }
        note("large-block-op-kbytes", block);
        let lbw = self.sum(|l| l.large_block_writes_per_sec);
        let lbw_origin = per_device(&origin.large_block_writes);
        let filled = self.sum(DeviceLoad::filled_per_sec);
        let by_commits = first.blocks_filled_per_sec.map_or_else(String::new, |_| {
            let context = drive_context(first.is_memory);
            format!("{filled:.1}, {context}: write; the large-block writes among them: ")
        });
        note(
            "total-lbw-per-sec",
            format!("{by_commits}{lbw:.1}, {lbw_origin}"),
        );
        note("direct-frees", per_device(&origin.direct_frees));
        let lbr = offset_note(offsets.large_block_reads, "large-block reads");
        note(
            "lbr-req-offset",
            format!("{lbr} ({})", per_device(&origin.large_block_reads)),
        );
        if self.tomb_raider_sleep_us().is_some() {
            let per_sec = self.sum(|load| load.tomb_raider_reads_per_sec);
            note(
                "tomb-raider",
                format!(
                    "the cluster's tomb raider read {per_sec:.1} blocks/s (drv_ssd: tomb-raider-read)"
                ),
            );
            let sleep = "mean time between two tomb raider reads of the cluster; in the test, the time of each read is added";
            note("tomb-raider-sleep-usec", sleep.to_owned());
        }
        note(
            "lbw-req-offset",
            offset_note(offsets.large_block_writes, "large-block writes"),
        );
        note("read-size-offset", sizes.to_owned());
        document
    }

    /// Number of namespaces on this namespace's drives, itself included.
    fn sharers(&self, profile: &Profile) -> usize {
        let node = &self.loads[0].node;
        let on = profile
            .drives
            .iter()
            .filter(|it| it.node == *node && self.drives.contains(it.drive.as_str()));
        on.flat_map(|drive| profile.loads_on(drive))
            .map(|load| &load.namespace)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

/// A rate in the file: whole, and not 0 if there is a load.
fn whole_rate(per_sec: f64) -> u32 {
    (per_sec.round() as u32).max(u32::from(per_sec > 0.0))
}

fn device_names(test: &TestOptions) -> Result<Vec<DeviceName>, String> {
    let device = test
        .device
        .clone()
        .map_or_else(|| "/dev/disk/by-id/PUT-YOUR-DRIVE-HERE".parse(), Ok);
    match device {
        Ok(device) => Ok(vec![device]),
        Err(error) => Err(error.to_string()),
    }
}

/// Size of a large block of the test, bytes: the cluster's size, or a larger size if the largest record needs more.
fn large_block_bytes(load: &DeviceLoad) -> u64 {
    let largest = [&load.read_sizes_pct_over, &load.write_sizes_pct_over]
        .map(|sizes| 1_u64 << sizes.len().saturating_sub(1).min(62));
    largest.into_iter().fold(load.large_block_bytes, u64::max)
}

/// Remarks on offsets too far from 100 % to come from the sizes within a bucket, and on numbers that no offset can match.
fn remarks(
    load: &DeviceLoad,
    offsets: &Offsets,
    measured_io: &DriveIo,
    requested_io: &DriveIo,
) -> Vec<String> {
    let namespace = &load.namespace;
    let is_used = |key: &str| match key {
        "read-size-offset" => load.reads_per_sec > 0.0,
        "lbr-req-offset" => load.large_block_reads_per_sec > 0.0,
        _ => load.writes_per_sec > 0.0,
    };
    let implausible = offsets
        .by_key()
        .into_iter()
        .filter(|(key, pct)| is_used(key) && !PLAUSIBLE_PCT.contains(pct));
    let implausible = implausible.map(|(key, pct)| {
        let cause = match key {
            "lbw-req-offset" => "blocks flushed before they were full, or filled again by defragmentation",
            "lbr-req-offset" => "defragmentation that did not keep pace with the writes",
            _ => "sizes concentrated at one end of their buckets",
        };
        format!(
            "{namespace}.conf: {key} is {pct} %, far from 100 % - possible cause: {cause}. Check the cluster for this cause"
        )
    });
    let pairs = measured_io
        .numbers()
        .into_iter()
        .zip(requested_io.numbers())
        .zip(NAMES);
    let mismatches =
        pairs.filter(|((did, asks), _)| (did - asks).abs() > NEAR * did.abs().max(asks.abs()));
    let mismatches = mismatches.map(|((did, asks), name)| {
        format!(
            "{namespace}.conf: requests {asks:.1} {name}, but the cluster's drive did {did:.1} - no offset makes the two \
             equal: check the sizes of records and of large blocks"
        )
    });
    implausible.chain(mismatches).collect()
}

fn requested_io(config: &ActConfig) -> Result<DriveIo, String> {
    let load = RequestedLoad::from_config(config, MIN_IO_BYTES).map_err(sentences)?;
    Ok(load.io())
}

fn offset_note(pct: u32, what: &str) -> String {
    let share_pct = 1e4 / f64::from(pct);
    format!("at 100 % the model issues {share_pct:.1} % of the cluster's {what}")
}

fn rate(per_sec: f64) -> String {
    results::format::number(per_sec.round())
}

/// Percentages over 2^i, in the format of a histogram key.
fn histogram(pct_over: &[f64]) -> String {
    pct_over
        .iter()
        .map(|pct| format!("{pct:.2}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn sentences<T: ToString>(items: Vec<T>) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
