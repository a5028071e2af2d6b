//! A run of fio's jobs while it goes on and afterwards, as it is reported.

use crate::recording::Watch;
use device::observe::DeviceNumber;
use device::observe::diskstats::{self, Counters};
use load::workload::fio::FioLoad;
use report::fio::{Cpu, Disk, JobPage, KINDS, Page, Totals};
use results::cell::Interval;
use results::run_dir::Manifest;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::usage::{Usage, usage};

/// A run and what it yielded up to now.
pub struct Ran {
    pub load: FioLoad,
    pub totals: Totals,
    devices: usize,
    usage: Option<Usage>,
    cpu: Cpu,
}

impl Ran {
    pub fn new(load: FioLoad) -> Self {
        let keeps_points = load.jobs().any(|job| job.logs.iter().any(Option::is_some));
        let totals = Totals::new(load.streams().len(), keeps_points);
        Self { devices: load.devices.len(), load, totals, usage: None, cpu: Cpu::default() }
    }

    fn add(&mut self, interval: &Interval) {
        self.totals.add(interval, self.devices);
        if let (Some(before), Ok(now)) = (self.usage, usage()) {
            self.cpu = Cpu {
                user_ns: now.user_ns.saturating_sub(before.user_ns),
                system_ns: now.system_ns.saturating_sub(before.system_ns),
            };
        }
    }

    /// The kinds of an entry, as they were recorded.
    pub fn kinds(&self, entry: usize) -> [Option<&report::fio::Kind>; KINDS] {
        let mut kinds = [None; KINDS];
        for ((of, kind), recorded) in self.load.streams().into_iter().zip(&self.totals.kinds) {
            if of == entry {
                kinds[kind] = Some(recorded);
            }
        }
        kinds
    }

    fn jobs(&self) -> impl Iterator<Item = JobPage<'_>> {
        self.load.entries.iter().enumerate().map(|(number, entry)| {
            let mut levels = [0; 7];
            for thread in &entry.threads {
                levels
                    .iter_mut()
                    .zip(self.load.threads[*thread].depths.levels())
                    .for_each(|(sum, level)| *sum += level);
            }
            JobPage {
                name: entry.job.name.clone(),
                group: entry.group,
                jobs: entry.threads.len(),
                description: entry.job.description.clone(),
                options: entry.job.given.clone(),
                depth: entry.job.slots(),
                levels,
                kinds: self.kinds(number),
                percentiles_of: entry.job.percentiles_of,
                percentiles: entry.job.percentiles.clone(),
                kb_base: entry.job.kb_base,
                ran_ns: self.totals.ran_ns,
                cpu: self.cpu,
            }
        })
    }
}

/// The report on `runs`.
pub fn page<'a>(runs: &'a [Ran], global: &[(String, String)], disks: Vec<Disk>) -> Page<'a> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Page {
        jobs: runs.iter().flat_map(Ran::jobs).collect(),
        global: global.to_vec(),
        disks,
        unix_ms: since_1970.as_millis() as u64,
        pid: std::process::id(),
    }
}

/// Counts the last of `runs` while it goes on, and shows all of them every `status_sec` seconds.
pub struct Counting<'a> {
    pub runs: &'a mut Vec<Ran>,
    pub status_sec: Option<u64>,
    pub show: &'a mut dyn FnMut(&[Ran]) -> Result<(), String>,
    pub failed: Option<String>,
}

impl Watch for Counting<'_> {
    fn begins(&mut self, manifest: &Manifest) {
        if let Some(ran) = self.runs.last_mut() {
            ran.devices = manifest.devices.len();
            ran.usage = usage().ok();
        }
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        self.runs.last_mut()?.add(interval);
        if self.status_sec.is_some_and(|every| (interval.index + 1).is_multiple_of(every)) {
            self.failed = (self.show)(self.runs).err();
        }
        None
    }

    fn failed(&self) -> Option<String> {
        self.failed.clone()
    }
}

/// What the disks under all runs had counted when they began.
pub struct Disks(Vec<diskstats::Disk>);

impl Disks {
    /// Those of `loads`.
    pub fn of(loads: &[FioLoad]) -> Self {
        let number = |name: &str| -> Option<DeviceNumber> {
            let metadata = fs::metadata(name).ok()?;
            let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
            Some((libc::major(device), libc::minor(device)))
        };
        let numbers: Vec<_> =
            loads.iter().flat_map(|load| &load.devices).filter_map(|name| number(name.as_str())).collect();
        let disks = diskstats::read(Path::new("/")).unwrap_or_default();
        Self(disks.into_iter().filter(|disk| numbers.contains(&disk.device)).collect())
    }

    /// What they did since then, in `ran_ns`.
    pub fn since(&self, ran_ns: u64) -> Vec<Disk> {
        let now = diskstats::read(Path::new("/")).unwrap_or_default();
        let change = |disk: &diskstats::Disk| -> Option<Disk> {
            let now = now.iter().find(|now| now.device == disk.device)?;
            let Counters { read, write, busy_ms, queue_ms, .. } = now.counters.since(&disk.counters)?;
            Some(Disk {
                name: disk.name.clone(),
                ios: [read.completed, write.completed],
                merges: [read.merged, write.merged],
                ticks: [read.time_ms, write.time_ms],
                in_queue: queue_ms,
                util: (busy_ms as f64 * 1e8 / ran_ns.max(1) as f64).min(100.0),
            })
        };
        self.0.iter().filter_map(change).collect()
    }
}
