//! Derives the load of each device from all sources.

use super::counters::{self, BlockRates, BlockSizes, HistogramCounts};
use super::devices::{NOT_LOGGED, NamespaceDevice, SHADOW};
use super::sources::{
    self, IostatMeans, IostatMismatch, NodeSources, ProfileOptions, ProfileSources, SizingError,
};
use super::{
    DeviceLoad, DriveTarget, FORMAT, LoadOrigin, LoadWindow, Profile, ProfileCheck, ProfiledNode,
    Unconfirmed, remarks, window,
};
use crate::drive_io::{DriveIo, NAMES};
use crate::server_log::{ServerLog, drive_context};
use results::format::{count, span};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum fraction of a window that histograms and drive lines must cover: dumps come every 10 s, and a window may be
/// a minute long.
const COVERED: f64 = 0.6;
/// Maximum time at the two ends of a window without drive lines, seconds: they come every 20 s.
const EDGES_SEC: f64 = 40.0;

pub fn profile(sources: &ProfileSources, options: &ProfileOptions) -> Result<Profile, SizingError> {
    if sources.logs.is_empty() {
        return Err(SizingError::NoLog);
    }
    let ids: Vec<String> = sources.logs.iter().map(id).collect();
    if let Some(stray) = sources.iostats.keys().find(|node| !ids.contains(node)) {
        return Err(SizingError::NoNode {
            requested: stray.clone(),
            found: ids,
        });
    }
    let mut known_namespaces: BTreeSet<String> = sources
        .logs
        .iter()
        .flat_map(ServerLog::namespaces)
        .collect();
    if sources.logs.iter().any(ServerLog::has_nameless_drives) {
        known_namespaces.insert(NOT_LOGGED.to_owned());
    }
    if let Some(stray) = options
        .namespaces
        .iter()
        .find(|namespace| !known_namespaces.contains(*namespace))
    {
        return Err(SizingError::NoNamespace {
            requested: stray.clone(),
            found: known_namespaces.into_iter().collect(),
        });
    }
    let mut profile = Profile {
        format: FORMAT,
        tool: sources.tool.clone(),
        sources: sources.names.clone(),
        ..Profile::default()
    };
    for log in &sources.logs {
        NodeSources {
            sources,
            options,
            log,
            id: id(log),
        }
        .add_to(&mut profile)?;
    }
    Ok(profile)
}

/// Name of a node: its id, or its log.
pub fn id(log: &ServerLog) -> String {
    log.node_id
        .clone()
        .or_else(|| log.files.first().cloned())
        .unwrap_or_else(|| "node".to_owned())
}

impl NodeSources<'_> {
    fn add_to(&self, profile: &mut Profile) -> Result<(), SizingError> {
        let log = self.log;
        let id = &self.id;
        let stored = log.namespaces();
        let mut device_remarks = Vec::new();
        let devices = self.devices(&stored, &mut device_remarks);
        let is_selected = |name: &String| self.is_selected(&stored, name);
        if !devices.keys().any(|(namespace, _)| is_selected(namespace)) {
            let why = device_remarks
                .first()
                .map_or_else(|| log.left_out(), |remark| format!(" ({remark})"));
            let covered = log
                .span
                .map_or(0, |(first, last)| last.duration_since(first).as_secs());
            if log.drives.is_empty() && (covered as f64) < EDGES_SEC {
                return Err(SizingError::NoDriveLineYet {
                    log: id.clone(),
                    covered: span(covered.unsigned_abs()),
                });
            }
            return Err(SizingError::NoDevices {
                log: id.clone(),
                why,
            });
        }
        profile.remarks.extend(device_remarks);
        let namespaces: Vec<String> = stored
            .iter()
            .filter(|namespace| is_selected(namespace))
            .filter(|namespace| !self.has_no_device(namespace, &devices))
            .cloned()
            .collect();
        let window = match (self.options.from, self.options.to) {
            _ if log.is_averages => log
                .span
                .map(|(from, to)| LoadWindow { from, to })
                .unwrap_or_default(),
            (Some(from), Some(to)) => {
                let requested = LoadWindow { from, to };
                let window = window::check(log, id, requested)?;
                if window != requested {
                    let LoadWindow {
                        from: first,
                        to: last,
                    } = window;
                    profile.remarks.push(format!(
                        "node {id}: {from} to {to} was requested, but the log covers only {first} to {last}"
                    ));
                }
                profile
                    .assumptions
                    .extend(window::unsteady(log, id, &namespaces, window));
                window
            }
            bounds => {
                // The load is needed for the time that iostat covers.
                let iostat = self.sources.iostats.get(id);
                let iostat_span =
                    iostat.map(|iostat| sources::span(iostat, log.span, self.options.iostat_zone));
                let iostat_span = iostat_span
                    .transpose()
                    .map_err(|error| self.iostat(error))?
                    .flatten();
                let bounds = (
                    bounds.0.or(iostat_span.map(|seen| seen.from)),
                    bounds.1.or(iostat_span.map(|seen| seen.to)),
                );
                let found = window::find(log, id, &namespaces, self.options.at_least_sec, bounds);
                found.map_err(|error| match iostat_span {
                    Some(LoadWindow { from, to }) => SizingError::WhileIostat {
                        error: Box::new(error),
                        from,
                        to,
                    },
                    None => error.into(),
                })?
            }
        };
        let of_iostat = self
            .sources
            .iostats
            .get(id)
            .map_or(&[][..], |iostat| &iostat.remarks);
        profile.remarks.extend(
            log.remarks
                .iter()
                .chain(of_iostat)
                .map(|remark| format!("node {id}: {remark}")),
        );
        let steps: Vec<_> = log
            .clock_steps
            .iter()
            .filter(|at| window.contains(**at))
            .collect();
        if let [first, ..] = steps[..] {
            let steps = count(steps.len() as u64, "irregular interval");
            profile.remarks.push(format!(
                "node {id}: {steps} between lines that are logged regularly, the first around {first:.0}: the clock \
                 was set, \
                 or lines are missing - the counts and the time of such intervals are left out"
            ));
        }
        let build = log.start_of(window).and_then(|start| start.build.clone());
        profile.nodes.push(ProfiledNode {
            id: id.clone(),
            build,
            window,
        });
        profile.remarks.extend(self.events(window));
        let selected_drives: BTreeSet<String> = devices
            .keys()
            .filter(|(of, _)| is_selected(of))
            .map(|(_, device)| self.drive(device))
            .collect();
        let drive_devices: BTreeSet<(String, String)> = devices
            .keys()
            .filter(|(_, device)| selected_drives.contains(&self.drive(device)))
            .cloned()
            .collect();
        let mut iostat_means = self.seen(&drive_devices, window)?;
        let mut loads = Vec::new();
        for of_device in &drive_devices {
            let (namespace, device) = of_device;
            if !is_selected(namespace) && !log.has_sizes(namespace) {
                profile.assumptions.push(format!(
                    "namespace {namespace} is also on {device}, but its storage histograms are off: the drive's \
                     predicted load lacks this namespace - turn these histograms on"
                ));
                continue;
            }
            let sharers = devices
                .keys()
                .filter(|(other, _)| other == namespace)
                .count();
            let is_alone = devices
                .keys()
                .filter(|(_, other)| self.drive(other) == self.drive(device))
                .count()
                == 1;
            let written = iostat_means
                .get(&self.drive(device))
                .filter(|_| is_alone)
                .map(IostatMeans::written_kib_per_sec);
            let (load, assumed, device_checks) =
                self.load(of_device, &devices[of_device], sharers, window, written)?;
            if !is_selected(namespace) {
                loads.push(load);
                continue;
            }
            profile.assumptions.extend(assumed);
            profile.checks.extend(device_checks);
            if load.direct_frees_per_sec.is_none() && !load.is_records_unknown {
                let driver = drive_context(load.is_memory);
                profile.remarks.push(format!(
                    "node {id}, {{{namespace}}} {device}: the log level of {driver} is not detail: direct frees are \
                     unknown, and the balance of blocks is not checked - asadm -e 'enable; manage config logging file \
                     LOG param {driver} to detail'"
                ));
            }
            loads.push(load);
        }
        let shadows: Vec<DeviceLoad> = loads
            .iter()
            .filter_map(|load| self.shadow(load, window, &mut profile.remarks))
            .collect();
        for shadow in shadows {
            // A shadow device may be missing from iostat's output, because it may be a device of another kind.
            if !iostat_means.contains_key(&shadow.drive) {
                let device = [(shadow.namespace.clone(), shadow.device.clone())].into();
                iostat_means.extend(self.seen(&device, window).unwrap_or_default());
            }
            loads.push(shadow);
        }
        let names = devices.keys().map(|(_, device)| device);
        let names = names.chain(loads.iter().map(|load| &load.device));
        profile.remarks.extend(self.unknown_drives(names));
        let drives: BTreeSet<String> = loads.iter().map(|load| load.drive.clone()).collect();
        for drive in drives {
            let of_drive: Vec<&DeviceLoad> =
                loads.iter().filter(|load| load.drive == drive).collect();
            let predicted: DriveIo = of_drive.iter().map(|load| load.io(1.0)).sum();
            let seen = iostat_means.get(&drive);
            let iostat = seen.map(|seen| seen.io(predicted.write_kib()));
            if let Some(remark) = seen.and_then(|seen| seen.flushes_remark(predicted.write_kib())) {
                profile
                    .remarks
                    .push(format!("node {id}, {drive}: {remark}"));
            }
            let other_loads = of_drive
                .iter()
                .filter(|load| !is_selected(&load.namespace))
                .map(|load| (*load).clone())
                .collect();
            let missing_sec = seen.map_or(0.0, |seen| seen.missing_sec);
            if missing_sec > 0.0 {
                let shown_sec = window.seconds() - missing_sec;
                let sec = window.seconds();
                profile.remarks.push(format!(
                    "node {id}, {drive}: iostat shows {shown_sec:.0} s of the window's {sec:.0} s: its means are \
                     compared with the server's rates over the whole window"
                ));
            }
            let target = DriveTarget {
                node: id.clone(),
                predicted,
                iostat,
                drive,
                others: other_loads,
            };
            profile
                .checks
                .extend(super::of_drive(&target, &of_drive, missing_sec > 0.0));
            profile
                .unconfirmed
                .extend(unconfirmed(&target, &of_drive, &profile.checks));
            profile.drives.push(target);
        }
        loads.retain(|load| is_selected(&load.namespace));
        let indexes = self.indexes(&loads, window);
        profile
            .remarks
            .extend(indexes.iter().map(remarks::of_index));
        profile.indexes.extend(indexes);
        profile.loads.extend(loads);
        Ok(())
    }

    /// True if the options select the namespace `name`, or the namespace whose shadow it is. `stored`: all namespaces
    /// with devices.
    fn is_selected(&self, stored: &BTreeSet<String>, name: &str) -> bool {
        let namespace = name
            .strip_suffix(SHADOW)
            .filter(|namespace| stored.contains(*namespace))
            .unwrap_or(name);
        let selected = &self.options.namespaces;
        selected.is_empty() || selected.iter().any(|asked| asked == namespace)
    }

    fn iostat(&self, error: IostatMismatch) -> SizingError {
        SizingError::Iostat {
            node: self.id.clone(),
            error,
        }
    }

    /// iostat's numbers of each drive.
    fn seen(
        &self,
        devices: &BTreeSet<(String, String)>,
        window: LoadWindow,
    ) -> Result<BTreeMap<String, IostatMeans>, SizingError> {
        let Some(iostat) = self.sources.iostats.get(&self.id) else {
            return Ok(BTreeMap::new());
        };
        let mut by_drive: BTreeMap<String, Vec<String>> = BTreeMap::new();
        devices.iter().for_each(|(_, device)| {
            by_drive
                .entry(self.drive(device))
                .or_default()
                .push(device.clone())
        });
        by_drive
            .into_iter()
            .map(|(drive, devices): (String, Vec<String>)| {
                let mean =
                    sources::mean(iostat, &drive, &devices, window, self.options.iostat_zone);
                mean.map(|seen| (drive, seen))
                    .map_err(|error| self.iostat(error))
            })
            .collect()
    }

    fn counted(&self, name: &str, window: LoadWindow) -> Option<HistogramCounts> {
        HistogramCounts::from_dumps(
            self.log.histograms.get(name)?,
            window,
            &self.log.clock_steps,
        )
    }

    fn too_short(&self, what: String, window: LoadWindow) -> SizingError {
        SizingError::TooShort {
            log: self.id.clone(),
            what: what + &self.log.left_out(),
            from: window.from,
            to: window.to,
        }
    }

    /// Counts of a histogram of sizes; a histogram that is not in the log counts as empty. The server dumps the
    /// histograms of reads and of writes together: without both, the load is marked as unknown.
    fn sizes(&self, name: String, window: LoadWindow) -> Result<HistogramCounts, SizingError> {
        if self.log.histograms.contains_key(&name) {
            self.counted(&name, window)
                .ok_or_else(|| self.too_short(name, window))
        } else {
            Ok(HistogramCounts {
                count: 0,
                seconds: window.seconds(),
                buckets: Vec::new(),
            })
        }
    }

    /// The load of a namespace on one of its `sharers` devices, whose drive lines have the `key`.
    fn load(
        &self,
        (namespace, device): &(String, String),
        key: &NamespaceDevice,
        sharers: usize,
        window: LoadWindow,
        kib_written_per_sec: Option<f64>,
    ) -> Result<(DeviceLoad, Vec<String>, Vec<ProfileCheck>), SizingError> {
        let sec = window.seconds();
        let size_histogram = |what: &str| format!("{{{namespace}}}-device-{what}-size");
        let reads = self.sizes(size_histogram("read"), window)?;
        let writes = self.sizes(size_histogram("write"), window)?;
        let id = &self.id;
        let sized_sec = reads.seconds.min(writes.seconds);
        let is_records_unknown = !self.log.has_sizes(namespace);
        let log = id.clone();
        let off_doubt = match namespace.as_str() {
            _ if !is_records_unknown => None,
            NOT_LOGGED => Some(SizingError::OldHistograms { log }.to_string()),
            _ => Some(
                SizingError::StorageHistogramsOff {
                    log,
                    namespace: namespace.clone(),
                }
                .to_string(),
            ),
        };
        let coverage_doubt = (sized_sec / sec < COVERED).then(|| {
            format!(
                "node {id}, {{{namespace}}}: its histograms of sizes cover {sized_sec:.0} s of the window's {sec:.0} \
                 s - were \
                 they turned on or off meanwhile? Choose a window in which they are on"
            )
        });
        let device_histogram = |what: &str| format!("{{{namespace}}}-{device}-{what}");
        let of_device = |what: &str| self.counted(&device_histogram(what), window);
        let facts = self.facts(namespace, window);
        let BlockSizes {
            block_bytes,
            io_bytes,
            origin,
            assumed,
        } = counters::of_device(self.log, device, key, &facts, window, kib_written_per_sec);
        let ios_a_block = block_bytes as f64 / io_bytes as f64;
        let lines = self.log.drives.get(key).map_or(&[][..], Vec::as_slice);
        let drive_rates = BlockRates::from_lines(lines, window, self.log)
            .ok_or_else(|| self.too_short(format!("the drive line of {device}"), window))?;

        let is_memory = drive_rates.is_memory;
        let driver = drive_context(is_memory);
        let device_reads = of_device("read").filter(|_| !is_memory);
        let device_lbr = of_device("large-block-read").filter(|_| !is_memory);
        let device_writes = of_device("write");
        let writes_per_sec = writes.per_sec() / sharers as f64;
        // With commit-to-device each record is a separate write, and only defragmentation writes blocks.
        let commit_to_device = facts.commit_to_device.unwrap_or_else(|| {
            device_writes.as_ref().is_some_and(|counted| {
                counted.per_sec() > 1.5 * drive_rates.writes * ios_a_block
                    && counted.per_sec() >= 0.9 * writes_per_sec
            })
        });
        let split = if sharers == 1 {
            String::new()
        } else {
            format!(", divided by {sharers} devices")
        };
        let blocks_sec = drive_rates.seconds;
        let lines_doubt = (!self.log.is_averages
            && blocks_sec / sec < COVERED
            && sec - blocks_sec > EDGES_SEC)
            .then(|| {
                format!(
                    "node {id}, {device}: its lines of {driver} cover {blocks_sec:.0} s of the window's {sec:.0} s - \
                     choose a window in which the log has them"
                )
            });
        let in_ios = format!("in {blocks_sec:.0} s, times {ios_a_block:.0} I/Os a block");
        let counter = |what: &str| format!("{driver}: {what} {in_ios}");
        let defrag_writes = drive_rates.defrag_writes.map(|blocks| blocks * ios_a_block);
        let (lbw, lbw_origin) = match &device_writes {
            _ if commit_to_device => (
                defrag_writes.unwrap_or(drive_rates.writes * ios_a_block),
                counter("defrag-write (commit-to-device)"),
            ),
            Some(counted) => (
                counted.per_sec(),
                counted.origin(&device_histogram("write")),
            ),
            None => (drive_rates.writes * ios_a_block, counter("write")),
        };
        let (lbr, lbr_origin) = match &device_lbr {
            Some(counted) => (
                counted.per_sec(),
                counted.origin(&device_histogram("large-block-read")),
            ),
            None if is_memory => (0.0, "no reads: the records are in memory".to_owned()),
            None => (
                drive_rates.blocks_read() * ios_a_block,
                counter(drive_rates.how_read()),
            ),
        };
        let of_clients = |what: &str| self.counted(&format!("{{{namespace}}}-{what}"), window);
        let load = DeviceLoad {
            node: self.id.clone(),
            namespace: namespace.to_owned(),
            device: device.to_owned(),
            drive: self.drive(device),
            is_memory,
            is_records_unknown,
            reads_per_sec: match &device_reads {
                _ if is_memory => 0.0,
                Some(counted) => counted.per_sec(),
                None => reads.per_sec() / sharers as f64,
            },
            read_sizes_pct_over: if is_memory { Vec::new() } else { reads.pct_over() },
            writes_per_sec,
            write_sizes_pct_over: writes.pct_over(),
            client_reads_per_sec: of_clients("read").map(|counted| counted.per_sec()),
            client_writes_per_sec: of_clients("write").map(|counted| counted.per_sec()),
            write_block_bytes: block_bytes,
            large_block_bytes: io_bytes,
            large_block_reads_per_sec: lbr,
            large_block_writes_per_sec: lbw,
            blocks_filled_per_sec: commit_to_device.then_some(drive_rates.writes * ios_a_block),
            tomb_raider_reads_per_sec: if is_memory { 0.0 } else { drive_rates.tomb_raider_reads },
            defrag_writes_per_sec: defrag_writes,
            direct_frees_per_sec: drive_rates.direct_frees.map(|blocks| blocks * ios_a_block),
            partial_flushes_per_sec: drive_rates.partial_flushes,
            commit_to_device,
            used_bytes: lines.iter().rev().find(|line| window.contains(line.timestamp)).map(|line| line.used_bytes),
            replication_factor: facts.replication_factor,
            origin: LoadOrigin {
                reads: match &device_reads {
                    _ if is_memory => "records are read from memory (storage-engine memory)".to_owned(),
                    Some(counted) => counted.origin(&device_histogram("read")),
                    None => format!("{}{split}", reads.origin(&size_histogram("read"))),
                },
                writes: format!("{}{split}", writes.origin(&size_histogram("write"))),
                sizes: format!("{{{namespace}}}-device-read-size and -device-write-size"),
                large_block: origin,
                large_block_reads: lbr_origin,
                large_block_writes: lbw_origin,
                direct_frees: drive_rates.direct_frees.map_or_else(
                    || format!("not logged (the log level of {driver} is not detail): computed as block writes minus block reads"),
                    |_| counter("direct-frees"),
                ),
            },
        };
        let both_reads = device_reads
            .filter(|_| sharers == 1 && !is_records_unknown)
            .map(|counted| [counted.per_sec(), reads.per_sec()]);
        let lbr = device_lbr.map(|counted| counted.per_sec());
        let writes = device_writes.map(|counted| counted.per_sec());
        let device_checks =
            super::of_device(&load, &drive_rates, ios_a_block, both_reads, lbr, writes);
        let assumed = [assumed, off_doubt, coverage_doubt, lines_doubt]
            .into_iter()
            .flatten()
            .collect();
        Ok((load, assumed, device_checks))
    }
}

/// Predicted numbers that no measurement at the device confirms. iostat confirms all numbers, drive lines confirm w/s.
fn unconfirmed(
    target: &DriveTarget,
    loads: &[&DeviceLoad],
    checks: &[ProfileCheck],
) -> Vec<Unconfirmed> {
    if target.iostat.is_some() {
        return Vec::new();
    }
    let are_writes_checked = loads.iter().all(|load| {
        let place = load.place();
        checks.iter().any(|check| {
            check.node == load.node && check.place == place && check.what == super::WRITES
        })
    });
    let numbers = NAMES.into_iter().zip(target.predicted.numbers());
    let unconfirmed = numbers.filter(|(name, _)| *name != "w/s" || !are_writes_checked);
    unconfirmed
        .map(|(name, value)| Unconfirmed {
            node: target.node.clone(),
            drive: target.drive.clone(),
            what: name.to_owned(),
            value,
        })
        .collect()
}
