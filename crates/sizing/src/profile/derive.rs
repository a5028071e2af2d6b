//! Derives the load of each device from all sources.

use super::counters::{self, BlockRates, BlockSizes, HistogramCounts};
use super::sources::{self, IostatMeans, IostatMismatch, NamespaceFacts, ProfileOptions, SizingError, Sources};
use super::{Check, DeviceLoad, DriveTarget, FORMAT, Node, Origin, Profile, Window, window};
use crate::drive_io::DriveIo;
use crate::server_log::{DriveLine, ServerLog, Start};
use results::units::count;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum fraction of a window that histograms must cover: dumps come every 10 s, and a window may be a minute long.
const COVERED: f64 = 0.6;

/// Suffix of a namespace that stands for the shadow devices of another namespace.
const SHADOW: &str = "-shadow";

pub fn profile(sources: &Sources, options: &ProfileOptions) -> Result<Profile, SizingError> {
    if sources.logs.is_empty() {
        return Err(SizingError::NoLog);
    }
    let ids: Vec<String> = sources.logs.iter().map(id).collect();
    if let Some(stray) = sources.iostats.keys().find(|node| !ids.contains(node)) {
        return Err(SizingError::NoNode { wanted: stray.clone(), found: ids });
    }
    let known_namespaces: BTreeSet<String> = sources.logs.iter().flat_map(ServerLog::namespaces).collect();
    if let Some(stray) = options.namespaces.iter().find(|namespace| !known_namespaces.contains(*namespace)) {
        return Err(SizingError::NoNamespace { wanted: stray.clone(), found: known_namespaces.into_iter().collect() });
    }
    let mut profile =
        Profile { format: FORMAT, tool: sources.tool.clone(), sources: sources.names.clone(), ..Profile::default() };
    for log in &sources.logs {
        NodeSources { sources, options, log, id: id(log) }.add_to(&mut profile)?;
    }
    Ok(profile)
}

/// Name of a node: its id, or its log.
pub fn id(log: &ServerLog) -> String {
    log.node_id.clone().or_else(|| log.files.first().cloned()).unwrap_or_else(|| "node".to_owned())
}

impl ServerLog {
    /// The server's last start before the end of `window`; `None`: it is not in the log.
    pub fn start_of(&self, window: Window) -> Option<&Start> {
        self.starts.iter().rev().find(|start| start.timestamp < window.to)
    }

    /// The namespaces that are on devices, according to the log. In old versions, drv_ssd lines name no namespace.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let lines = self.drives.keys().map(|(namespace, _)| namespace.as_str()).filter(|name| !name.is_empty());
        let sized =
            self.histograms.keys().filter_map(|name| name.strip_prefix('{')?.strip_suffix("}-device-read-size"));
        lines.chain(sized).map(str::to_owned).collect()
    }
}

/// The drive of a device, by the kernel's names of partitions: `/dev/nvme0n1p2` is on `nvme0n1`.
pub fn drive_of(device: &str) -> String {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let disk_name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    // If the drive's name ends in a digit, a p comes before the partition's number.
    let numbered = disk_name.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()));
    let is_lettered = ["sd", "vd", "xvd", "hd"]
        .iter()
        .filter_map(|kind| disk_name.strip_prefix(kind))
        .any(|letters| !letters.is_empty() && letters.chars().all(|c| c.is_ascii_lowercase()));
    match numbered {
        Some(disk) if disk_name != name => disk.to_owned(),
        _ if is_lettered => disk_name.to_owned(),
        _ => name.to_owned(),
    }
}

/// Sources of one node.
struct NodeSources<'a> {
    sources: &'a Sources,
    options: &'a ProfileOptions,
    log: &'a ServerLog,
    id: String,
}

impl NodeSources<'_> {
    fn add_to(&self, profile: &mut Profile) -> Result<(), SizingError> {
        let (log, id) = (self.log, &self.id);
        let stored = log.namespaces();
        let devices = self.devices(&stored, &mut profile.remarks);
        let is_selected = |name: &String| {
            let namespace = name.strip_suffix(SHADOW).filter(|namespace| stored.contains(*namespace)).unwrap_or(name);
            self.options.namespaces.is_empty() || self.options.namespaces.iter().any(|asked| asked == namespace)
        };
        let has_sizes = |namespace: &String| log.histograms.contains_key(&format!("{{{namespace}}}-device-read-size"));
        if !devices.iter().any(|(namespace, _)| is_selected(namespace)) {
            return Err(SizingError::NoDevices { log: id.clone() });
        }
        let namespaces: Vec<String> = stored.iter().filter(|namespace| is_selected(namespace)).cloned().collect();
        if let Some(namespace) = namespaces.iter().find(|namespace| !has_sizes(namespace)) {
            return Err(SizingError::StorageHistogramsOff { log: id.clone(), namespace: namespace.clone() });
        }
        let window = match (self.options.from, self.options.to) {
            _ if log.is_averages => log.span.map(|(from, to)| Window { from, to }).unwrap_or_default(),
            (Some(from), Some(to)) => {
                let requested = Window { from, to };
                let window = window::check(log, id, requested)?;
                if window != requested {
                    let Window { from: first, to: last } = window;
                    profile.remarks.push(format!(
                        "node {id}: {from} to {to} was requested, but the log covers only {first} to {last}"
                    ));
                }
                profile.assumptions.extend(window::unsteady(log, id, &namespaces, window));
                window
            }
            bounds => {
                // The load is needed for the time that iostat covers.
                let iostat = self.sources.iostats.get(id);
                let iostat_span = iostat.map(|iostat| sources::span(iostat, log.span, self.options.iostat_zone));
                let iostat_span = iostat_span.transpose().map_err(|error| self.iostat(error))?.flatten();
                let bounds =
                    (bounds.0.or(iostat_span.map(|seen| seen.from)), bounds.1.or(iostat_span.map(|seen| seen.to)));
                let found = window::find(log, id, &namespaces, self.options.at_least_sec, bounds);
                found.map_err(|error| match iostat_span {
                    Some(Window { from, to }) => SizingError::WhileIostat { error: Box::new(error), from, to },
                    None => error.into(),
                })?
            }
        };
        let of_iostat = self.sources.iostats.get(id).map_or(&[][..], |iostat| &iostat.remarks);
        profile.remarks.extend(log.remarks.iter().chain(of_iostat).map(|remark| format!("node {id}: {remark}")));
        let steps: Vec<_> = log.clock_steps.iter().filter(|at| window.contains(**at)).collect();
        if let [first, ..] = steps[..] {
            let steps = count(steps.len() as u64, "irregular interval");
            profile.remarks.push(format!(
                "node {id}: {steps} between lines that are logged regularly, the first around {first:.0}: the clock \
                 was set, \
                 or lines are missing - the counts and the time of such intervals are left out"
            ));
        }
        let build = log.start_of(window).and_then(|start| start.build.clone());
        profile.nodes.push(Node { id: id.clone(), build, window });
        let selected_drives: BTreeSet<String> =
            devices.iter().filter(|(of, _)| is_selected(of)).map(|(_, device)| self.drive(device)).collect();
        let drive_devices: BTreeSet<(String, String)> =
            devices.iter().filter(|(_, device)| selected_drives.contains(&self.drive(device))).cloned().collect();
        let mut iostat_means = self.seen(&drive_devices, window)?;
        let mut loads = Vec::new();
        for (namespace, device) in &drive_devices {
            if !is_selected(namespace) && !has_sizes(namespace) {
                profile.assumptions.push(format!(
                    "namespace {namespace} is also on {device}, but its storage histograms are off: the drive's \
                     predicted load lacks this namespace - turn these histograms on"
                ));
                continue;
            }
            let sharers = devices.iter().filter(|(other, _)| other == namespace).count();
            let is_alone = devices.iter().filter(|(_, other)| self.drive(other) == self.drive(device)).count() == 1;
            let written =
                iostat_means.get(&self.drive(device)).filter(|_| is_alone).map(IostatMeans::written_kib_per_sec);
            let (load, assumed, device_checks) = self.load(namespace, device, sharers, window, written)?;
            if !is_selected(namespace) {
                loads.push(load);
                continue;
            }
            profile.assumptions.extend(assumed);
            profile.checks.extend(device_checks);
            if load.direct_frees_per_sec.is_none() {
                profile.remarks.push(format!(
                    "node {id}, {{{namespace}}} {device}: drv_ssd is not at detail: direct frees are unknown and the \
                     balance of blocks is not checked - asadm -e 'enable; manage config logging file LOG param drv_ssd \
                     to detail'"
                ));
            }
            loads.push(load);
        }
        let shadows: Vec<DeviceLoad> =
            loads.iter().filter_map(|load| self.shadow(load, window, &mut profile.remarks)).collect();
        for shadow in shadows {
            // A shadow device may be missing from iostat's output, because it may be a device of another kind.
            if !iostat_means.contains_key(&shadow.drive) {
                let device = [(shadow.namespace.clone(), shadow.device.clone())].into();
                iostat_means.extend(self.seen(&device, window).unwrap_or_default());
            }
            loads.push(shadow);
        }
        let drives: BTreeSet<String> = loads.iter().map(|load| load.drive.clone()).collect();
        for drive in drives {
            let of_drive: Vec<&DeviceLoad> = loads.iter().filter(|load| load.drive == drive).collect();
            let predicted: DriveIo = of_drive.iter().map(|load| load.io(1.0)).sum();
            let iostat = iostat_means.get(&drive).map(|seen| seen.io(predicted.write_kib()));
            let other_loads =
                of_drive.iter().filter(|load| !is_selected(&load.namespace)).map(|load| (*load).clone()).collect();
            let missing_sec = iostat_means.get(&drive).map_or(0.0, |seen| seen.missing_sec);
            if missing_sec > 0.0 {
                let (shown_sec, sec) = (window.seconds() - missing_sec, window.seconds());
                profile.remarks.push(format!(
                    "node {id}, {drive}: iostat shows {shown_sec:.0} s of the window's {sec:.0} s: its means are \
                     compared with the server's rates over the whole window"
                ));
            }
            let target = DriveTarget { node: id.clone(), predicted, iostat, drive, others: other_loads };
            profile.checks.extend(super::of_drive(&target, &of_drive, missing_sec > 0.0));
            profile.drives.push(target);
        }
        profile.loads.extend(loads.into_iter().filter(|load| is_selected(&load.namespace)));
        Ok(())
    }

    /// The load on the shadow device of `load`'s device, as a separate namespace: each block is written, and nothing is
    /// read.
    fn shadow(&self, load: &DeviceLoad, window: Window, remarks: &mut Vec<String>) -> Option<DeviceLoad> {
        let (DeviceLoad { namespace, device, .. }, id) = (load, &self.id);
        let has_queue = |((of, name), lines): (&(String, String), &Vec<DriveLine>)| {
            name == device && (of == namespace || of.is_empty()) && lines.iter().any(|it| it.shadow_write_q.is_some())
        };
        let shadow = match self.facts(namespace, window).shadows.remove(device) {
            Some(shadow) => shadow,
            None if self.log.drives.iter().any(has_queue) => {
                remarks.push(format!(
                    "node {id}, {{{namespace}}} {device}: has a shadow device, but no source names it - give the log \
                     with the \
                     server's start, or the server's configuration by --info"
                ));
                format!("shadow of {device}")
            }
            None => return None,
        };
        let as_there = format!("as on {device}, because this device is its shadow");
        Some(DeviceLoad {
            namespace: format!("{namespace}{SHADOW}"),
            drive: self.drive(&shadow),
            device: shadow,
            reads_per_sec: 0.0,
            read_sizes_pct_over: Vec::new(),
            client_reads_per_sec: None,
            client_writes_per_sec: None,
            large_block_reads_per_sec: 0.0,
            direct_frees_per_sec: None,
            origin: Origin {
                reads: "a shadow device is not read".to_owned(),
                writes: as_there.clone(),
                large_block_reads: "a shadow device is not read".to_owned(),
                large_block_writes: as_there.clone(),
                direct_frees: as_there,
                ..load.origin.clone()
            },
            ..load.clone()
        })
    }

    /// Namespaces and their devices. A line without a namespace belongs to the only namespace; if there are several,
    /// the line is left out.
    fn devices(&self, stored: &BTreeSet<String>, remarks: &mut Vec<String>) -> BTreeSet<(String, String)> {
        let only_namespace = stored.first().filter(|_| stored.len() == 1);
        let (id, mut devices) = (&self.id, BTreeSet::new());
        for (namespace, device) in self.log.drives.keys() {
            let namespace = if namespace.is_empty() { only_namespace } else { Some(namespace) };
            devices.extend(namespace.map(|namespace| (namespace.clone(), device.clone())));
            if namespace.is_none() {
                let why = "name no namespace, but the log has several namespaces: these lines are left out";
                remarks.push(format!("node {id}: drv_ssd lines of {device} {why}"));
            }
        }
        devices
    }

    fn iostat(&self, error: IostatMismatch) -> SizingError {
        SizingError::Iostat { node: self.id.clone(), error }
    }

    fn drive(&self, device: &str) -> String {
        self.options.drives.get(device).cloned().unwrap_or_else(|| drive_of(device))
    }

    /// iostat's numbers of each drive.
    fn seen(
        &self,
        devices: &BTreeSet<(String, String)>,
        window: Window,
    ) -> Result<BTreeMap<String, IostatMeans>, SizingError> {
        let Some(iostat) = self.sources.iostats.get(&self.id) else { return Ok(BTreeMap::new()) };
        let mut by_drive: BTreeMap<String, Vec<String>> = BTreeMap::new();
        devices.iter().for_each(|(_, device)| by_drive.entry(self.drive(device)).or_default().push(device.clone()));
        let mean = |(drive, devices): (String, Vec<String>)| {
            let mean = sources::mean(iostat, &drive, &devices, window, self.options.iostat_zone);
            mean.map(|seen| (drive, seen)).map_err(|error| self.iostat(error))
        };
        by_drive.into_iter().map(mean).collect()
    }

    fn counted(&self, name: &str, window: Window) -> Option<HistogramCounts> {
        HistogramCounts::of(self.log.histograms.get(name)?, window, &self.log.clock_steps)
    }

    fn facts(&self, namespace: &str, window: Window) -> NamespaceFacts {
        let facts_of = |node: &str| self.sources.facts.get(&(node.to_owned(), namespace.to_owned())).cloned();
        let stated_facts = facts_of(&self.id).or_else(|| facts_of("")).unwrap_or_default();
        match self.log.start_of(window) {
            Some(start) => stated_facts.or(NamespaceFacts::of_start(start, namespace)),
            None => stated_facts,
        }
    }

    /// The load of a namespace on one of its `sharers` devices.
    fn load(
        &self,
        namespace: &str,
        device: &str,
        sharers: usize,
        window: Window,
        kib_written_per_sec: Option<f64>,
    ) -> Result<(DeviceLoad, Vec<String>, Vec<Check>), SizingError> {
        let too_short = |what: String| {
            let Window { from, to } = window;
            SizingError::TooShort { log: self.id.clone(), what, from, to }
        };
        let sized = |what: &str| {
            let name = format!("{{{namespace}}}-device-{what}-size");
            let counted = self.counted(&name, window);
            counted.ok_or_else(|| too_short(name))
        };
        let (reads, writes) = (sized("read")?, sized("write")?);
        let (id, sized_sec, sec) = (&self.id, reads.seconds, window.seconds());
        let coverage_doubt = (sized_sec / sec < COVERED).then(|| {
            format!(
                "node {id}, {{{namespace}}}: its histograms of sizes cover {sized_sec:.0} s of the window's {sec:.0} \
                 s - were \
                 they turned on or off meanwhile? Choose a window in which they are on"
            )
        });
        let of_device = |what: &str| self.counted(&format!("{{{namespace}}}-{device}-{what}"), window);
        let keys = [(namespace.to_owned(), device.to_owned()), (String::new(), device.to_owned())];
        let key = keys.into_iter().find(|key| self.log.drives.contains_key(key)).unwrap_or_default();
        let facts = self.facts(namespace, window);
        let BlockSizes { block_bytes, io_bytes, origin, assumed } =
            counters::of_device(self.log, &key, &facts, window, kib_written_per_sec);
        let ios_a_block = block_bytes as f64 / io_bytes as f64;
        let lines = self.log.drives.get(&key).map_or(&[][..], Vec::as_slice);
        let drive_rates = BlockRates::of(lines, window, self.log)
            .ok_or_else(|| too_short(format!("the drv_ssd line of {device}")))?;

        let device_reads = of_device("read");
        let (device_lbr, device_writes) = (of_device("large-block-read"), of_device("write"));
        let writes_per_sec = writes.per_sec() / sharers as f64;
        // With commit-to-device each record is a separate write, and only defragmentation writes blocks.
        let commit_to_device = facts.commit_to_device.unwrap_or_else(|| {
            device_writes.as_ref().is_some_and(|counted| {
                counted.per_sec() > 1.5 * drive_rates.writes * ios_a_block && counted.per_sec() >= 0.9 * writes_per_sec
            })
        });
        let split = if sharers == 1 { String::new() } else { format!(", divided by {sharers} devices") };
        let logged =
            |counted: &HistogramCounts, name: &str| format!("{name}: {} in {:.0} s", counted.count, counted.seconds);
        let counter = |what: &str| {
            format!("drv_ssd: {what} in {:.0} s, times {ios_a_block:.0} I/Os a block", drive_rates.seconds)
        };
        let of_sizes = |what: &str, counted: &HistogramCounts| {
            format!("{}{split}", logged(counted, &format!("{{{namespace}}}-device-{what}-size")))
        };
        let of_histogram =
            |what: &str, counted: &HistogramCounts| logged(counted, &format!("{{{namespace}}}-{device}-{what}"));
        let defrag_writes = drive_rates.defrag_writes.map(|blocks| blocks * ios_a_block);
        let (lbw, lbw_origin) = match &device_writes {
            _ if commit_to_device => {
                (defrag_writes.unwrap_or(drive_rates.writes * ios_a_block), counter("defrag-write (commit-to-device)"))
            }
            Some(counted) => (counted.per_sec(), of_histogram("write", counted)),
            None => (drive_rates.writes * ios_a_block, counter("write")),
        };
        let (lbr, lbr_origin) = match &device_lbr {
            Some(counted) => (counted.per_sec(), of_histogram("large-block-read", counted)),
            None => (drive_rates.blocks_read() * ios_a_block, counter(drive_rates.how_read())),
        };
        let of_clients = |what: &str| Some(self.counted(&format!("{{{namespace}}}-{what}"), window)?.per_sec());
        let load = DeviceLoad {
            node: self.id.clone(),
            namespace: namespace.to_owned(),
            device: device.to_owned(),
            drive: self.drive(device),
            reads_per_sec: device_reads.as_ref().map_or(reads.per_sec() / sharers as f64, HistogramCounts::per_sec),
            read_sizes_pct_over: reads.pct_over(),
            writes_per_sec,
            write_sizes_pct_over: writes.pct_over(),
            client_reads_per_sec: of_clients("read"),
            client_writes_per_sec: of_clients("write"),
            write_block_bytes: block_bytes,
            large_block_bytes: io_bytes,
            large_block_reads_per_sec: lbr,
            large_block_writes_per_sec: lbw,
            defrag_writes_per_sec: defrag_writes,
            direct_frees_per_sec: drive_rates.direct_frees.map(|blocks| blocks * ios_a_block),
            partial_flushes_per_sec: drive_rates.partial_flushes,
            commit_to_device,
            used_bytes: lines.iter().rev().find(|line| window.contains(line.timestamp)).map(|line| line.used_bytes),
            replication_factor: facts.replication_factor,
            origin: Origin {
                reads: device_reads
                    .as_ref()
                    .map_or_else(|| of_sizes("read", &reads), |counted| of_histogram("read", counted)),
                writes: of_sizes("write", &writes),
                sizes: format!("{{{namespace}}}-device-read-size and -device-write-size"),
                large_block: origin,
                large_block_reads: lbr_origin,
                large_block_writes: lbw_origin,
                direct_frees: drive_rates.direct_frees.map_or_else(
                    || "not logged (drv_ssd is not at detail): computed as block writes minus block reads".to_owned(),
                    |_| counter("direct-frees"),
                ),
            },
        };
        let both_reads = device_reads.filter(|_| sharers == 1).map(|counted| [counted.per_sec(), reads.per_sec()]);
        let [lbr, writes] = [device_lbr, device_writes].map(|counted| Some(counted?.per_sec()));
        let device_checks = super::of_device(&load, &drive_rates, ios_a_block, both_reads, lbr, writes);
        let assumed = [assumed, coverage_doubt].into_iter().flatten().collect();
        Ok((load, assumed, device_checks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_on_the_drive_whose_name_they_extend() {
        for (device, drive) in [
            ("/dev/nvme0n1", "nvme0n1"),
            ("/dev/nvme10n1p12", "nvme10n1"),
            ("/dev/sdb", "sdb"),
            ("/dev/sdab3", "sdab"),
            ("/dev/xvdc1", "xvdc"),
            ("/dev/loop2", "loop2"),
            ("/dev/loop2p1", "loop2"),
            ("/dev/md0", "md0"),
            ("/dev/dm-3", "dm-3"),
            ("/dev/mmcblk0p2", "mmcblk0"),
            ("/opt/aerospike/data/test.dat", "/opt/aerospike/data/test.dat"),
        ] {
            assert_eq!(drive_of(device), drive);
        }
    }
}
