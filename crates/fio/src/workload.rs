//! All jobs that run at once, as a [`Workload`].

use super::NS_PER_SEC;
use super::directions::{COMMITS, FLUSHES, WRITES};
use super::early_end::SteadyStateDetector;
use super::engine_kind::EngineKind;
use super::exit::{ExitGroups, ExitWhat};
use super::job::{DEPTH_MAX, Job};
use super::lanes::LaneBuilder;
use super::pattern::RandomMap;
use super::text::{COMMAND_LINE, Problem};
use super::thread::{JobClone, RecordedStream};
use super::verify::ENTRY_BYTES;
use super::verify::overlap::overlapping;
use engine::DeviceName;
use engine::calls::MappedTargets;
use load::choice::Engine;
use load::plan::{Plan, SALTED_AHEAD};
use load::workload::{
    BuildContext, CannotRun, DeviceShape, FilePlan, RunPlan, RunSpec, Workload, stream_info,
};
use results::cell::StreamInfo;
use results::format::{self, quoted};
use results::judge::{Sla, StreamLimits};
use results::run_dir::{RecordedConfig, WorkloadRecord};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::call::MapAccess;
use sys::process;

/// Maximum number of files and devices of a run: each is open, and has its own write buffers and counters.
const FILES_MAX: u64 = 1_024;

/// Approximate memory of a cell, for all interval buffers that are in use at once, bytes.
const CELL_BYTES: u64 = 768 << 10;

/// Approximate memory of a cell that no shard records, bytes: in the merged interval and in the totals.
const IDLE_CELL_BYTES: u64 = 4 << 10;

/// Approximate memory of a cell in the tables of each shard, bytes.
const TABLE_CELL_BYTES: u64 = 64;

/// A unit of reporting: a clone, or with `group_reporting` a whole group.
#[derive(Debug, Clone)]
pub struct ReportEntry {
    /// First job of the entry.
    pub job: Arc<Job>,
    pub group: usize,
    /// Clones of the entry: indices into [`FioLoad::threads`].
    pub threads: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct FioLoad {
    pub threads: Vec<JobClone>,
    pub entries: Vec<ReportEntry>,
    /// Devices and files, each once.
    pub devices: Vec<DeviceName>,
    /// Sizes of the files that are written, bytes.
    pub files: BTreeMap<String, u64>,
    /// Lengths of the files that jobs append to, before the run.
    pub appended: HashMap<String, u64>,
    /// Limits by stream. If there are any, streams without limits are not judged.
    pub limits: BTreeMap<String, StreamLimits>,
}

/// Divides `jobs` into runs: each has all jobs up to the next stonewall. Errors: no job; jobs that cannot run together.
pub fn runs(jobs: Vec<Job>) -> Result<Vec<FioLoad>, Vec<Problem>> {
    if jobs.is_empty() {
        let why = "there is no job - give --name=NAME with its options, or a job file";
        return Err(vec![Problem::new(COMMAND_LINE, why)]);
    }
    let mut runs = Vec::new();
    let mut problems = Vec::new();
    let mut group = 0;
    let mut number = 0;
    let mut jobs = jobs.into_iter().peekable();
    let mut together = Vec::new();
    while let Some(first) = jobs.next() {
        let others = std::iter::from_fn(|| jobs.next_if(|job| !job.stonewall));
        let at_once = std::iter::once(first).chain(others).collect();
        together.extend(split_by_wait_for(at_once, &together)?);
    }
    for of_run in together {
        match FioLoad::new(of_run, &mut group, &mut number) {
            Ok(run) => runs.push(run),
            Err(more) => problems.extend(more),
        }
        group += 1;
    }
    if problems.is_empty() {
        Ok(runs)
    } else {
        Err(problems)
    }
}

/// Splits the jobs between two stonewalls into runs by `wait_for`. `earlier_runs`: jobs of earlier runs.
fn split_by_wait_for(
    jobs: Vec<Job>,
    earlier_runs: &[Vec<Job>],
) -> Result<Vec<Vec<Job>>, Vec<Problem>> {
    let mut runs: Vec<Vec<Job>> = vec![Vec::new()];
    for job in jobs {
        let run_index = match &job.waits_for {
            None => 0,
            Some(name) => match runs.iter().position(|turn| has_job(turn, name)) {
                Some(turn) => turn + 1,
                None if earlier_runs.iter().any(|run| has_job(run, name)) => 0,
                None => {
                    let why = format!(
                        "wait_for={} - no earlier job has this name - check the name",
                        quoted(name)
                    );
                    return Err(vec![Problem::of_job(&job.name, why)]);
                }
            },
        };
        runs.resize_with(runs.len().max(run_index + 1), Vec::new);
        runs[run_index].push(job);
    }
    for (run, next_run) in runs.iter().zip(&runs[1..]) {
        for job in next_run {
            let Some(name) = job.waits_for.as_ref().filter(|name| has_job(run, name)) else {
                continue;
            };
            if let Some(other) = run.iter().find(|other| other.name != *name) {
                let name = quoted(name);
                let other = quoted(&other.name);
                let why = format!(
                    "flashproof cannot wait for {name} alone, because {other} runs together with {name} - give {other} a wait_for too, or give this job stonewall instead of wait_for"
                );
                return Err(vec![Problem::of_job(&job.name, why)]);
            }
        }
    }
    Ok(runs)
}

fn has_job(jobs: &[Job], name: &str) -> bool {
    jobs.iter().any(|job| job.name == name)
}

impl FioLoad {
    fn new(jobs: Vec<Job>, group: &mut usize, number: &mut usize) -> Result<Self, Vec<Problem>> {
        let mut threads = Vec::new();
        let mut entries = Vec::<ReportEntry>::new();
        let mut devices = Vec::<DeviceName>::new();
        let mut problems = differing_settings(&jobs);
        let mut names = HashSet::new();
        for (index, job) in jobs.into_iter().map(Arc::new).enumerate() {
            *group += usize::from(job.new_group && index > 0);
            let job_files = if job.files.names.is_empty() {
                job.numjobs * job.files.count
            } else {
                job.files.names.len() as u64
            };
            let files = names.len() as u64 + job_files;
            if files > FILES_MAX {
                let why = format!(
                    "with this job the run has {files} files or more, but at most {FILES_MAX} can be open - lower nrfiles or numjobs"
                );
                problems.push(Problem::of_job(&job.name, why));
                continue;
            }
            // Named files are shared by all clones.
            let clones = if job.files.names.is_empty() {
                job.numjobs
            } else {
                1
            };
            for name in (0..clones).flat_map(|clone| job.names(clone)) {
                if names.insert(name.clone()) {
                    match name.parse::<DeviceName>() {
                        Ok(device) => devices.push(device),
                        Err(error) => problems.push(Problem::of_job(&job.name, error.to_string())),
                    }
                }
            }
            for clone in 0..job.numjobs {
                let entry = entries
                    .iter()
                    .position(|entry: &ReportEntry| {
                        job.group_reporting && entry.job.group_reporting && entry.group == *group
                    })
                    .unwrap_or_else(|| {
                        entries.push(ReportEntry {
                            job: job.clone(),
                            group: *group,
                            threads: Vec::new(),
                        });
                        entries.len() - 1
                    });
                if entries[entry].job.steady != job.steady && clone == 0 {
                    let why = "jobs that are reported together end together, so they need the same steadystate options - give all of them the same options, or give new_group";
                    problems.push(Problem::of_job(&job.name, why));
                }
                entries[entry].threads.push(threads.len());
                *number += 1;
                threads.push(JobClone::new(job.clone(), clone, *number, entry));
            }
        }
        let (files, appended, limits) = Default::default();
        let mut load = Self {
            threads,
            entries,
            devices,
            files,
            appended,
            limits,
        };
        load.reset();
        let is_simulated = load.is_simulated();
        let is_mixed = load
            .jobs()
            .any(|job| job.direct != load.threads[0].job.direct);
        let unfit = [
            load.first_unfit(
                |thread| is_simulated && thread.job.flush.every[2] > 0,
                "sync_file_range needs a page cache, which simulated drives do not have - leave it out",
            ),
            load.first_unfit(
                |thread| is_simulated && thread.job.files.pre_reads,
                "pre_read needs a page cache, which simulated drives do not have - leave it out",
            ),
            load.first_unfit(
                |thread| is_simulated && thread.job.verifies(),
                "verify compares stored data, but simulated drives store no data - leave verify out, or name a device or a file",
            ),
            load.first_unfit(
                |thread| is_mixed && thread.job.direct && load.is_cached_by_others(thread),
                "direct=1, but another job uses the same file or device with direct=0 - give both the same, give each a file of its own, or separate them with stonewall",
            ),
            load.first_unfit(
                |thread| thread.job.files.appends && load.has_shared_file(thread),
                "with file_append, only one job can write to a file - leave out numjobs, or give each job its own file",
            ),
        ];
        problems.extend(unfit.into_iter().flatten());
        problems.extend(overlapping(&load.threads));
        if problems.is_empty() {
            Ok(load)
        } else {
            Err(problems)
        }
    }

    fn first_unfit(
        &self,
        is_unfit: impl Fn(&JobClone) -> bool,
        why: &'static str,
    ) -> Option<Problem> {
        let thread = self.threads.iter().find(|thread| is_unfit(thread))?;
        Some(Problem::of_job(&thread.job.name, why))
    }

    /// True if another clone uses a file or device of `thread`.
    fn has_shared_file(&self, thread: &JobClone) -> bool {
        thread.names().iter().any(|name| {
            let users = self
                .threads
                .iter()
                .filter(|other| other.names().contains(name));
            users.count() > 1
        })
    }

    /// True if `thread` moves data of a file or device whose data another job moves through the page cache.
    fn is_cached_by_others(&self, thread: &JobClone) -> bool {
        let names = thread.names();
        thread.job.moves_data()
            && self.threads.iter().any(|other| {
                !other.job.direct
                    && other.job.moves_data()
                    && other.names().iter().any(|name| names.contains(name))
            })
    }

    pub fn reset(&mut self) {
        let groups = self.entries.iter().map(|entry| entry.group);
        let first_group = groups.clone().min().unwrap_or(0);
        let last_group = groups.max().unwrap_or(0);
        // The last entry is for later runs.
        let group_ends_ns: Arc<[AtomicU64]> = (first_group..=last_group + 1)
            .map(|_| AtomicU64::new(u64::MAX))
            .collect();
        let any_exits = self.jobs().any(|job| job.exit.ends_others());
        let by_entry: Vec<_> = self
            .entries
            .iter()
            .map(|entry| {
                let job = &entry.job;
                let begin_ns = job.start_delay_ns.saturating_add(job.ramp_ns);
                SteadyStateDetector::new(job.steady, begin_ns).map(Arc::new)
            })
            .collect();
        for thread in &mut self.threads {
            let job = &thread.job;
            let own_group = self.entries[thread.entry].group - first_group;
            let ended_groups = match job.exit.what {
                _ if !job.exit.ends_others() => 0..0,
                ExitWhat::Group => own_group..own_group + 1,
                ExitWhat::Stonewall => 0..group_ends_ns.len() - 1,
                ExitWhat::All => 0..group_ends_ns.len(),
            };
            *thread = JobClone {
                steady: by_entry[thread.entry].clone(),
                exit: any_exits.then(|| ExitGroups {
                    groups: group_ends_ns.clone(),
                    own_group,
                    ended_groups,
                }),
                ..JobClone::new(job.clone(), thread.clone, thread.number, thread.entry)
            };
        }
    }

    /// True if a job ended this run and all later runs (`exit_what=all`).
    pub fn ends_all_runs(&self) -> bool {
        self.jobs()
            .any(|job| job.exit.all && job.exit.what == ExitWhat::All)
            || self
                .threads
                .iter()
                .filter_map(|thread| thread.exit.as_ref())
                .any(|exit: &ExitGroups| {
                    exit.groups
                        .last()
                        .is_some_and(|end_ns| end_ns.load(Ordering::Relaxed) < u64::MAX)
                })
    }

    fn clones_on(&self, device: &DeviceName) -> impl Iterator<Item = &JobClone> {
        let device = device.as_str().to_owned();
        self.threads
            .iter()
            .filter(move |thread| thread.names().contains(&device))
    }

    pub fn threads_of(&self, entry: usize) -> impl Iterator<Item = &JobClone> {
        self.entries[entry]
            .threads
            .iter()
            .map(move |thread| &self.threads[*thread])
    }

    pub fn replays_log(&self) -> bool {
        self.jobs().any(|job| job.iolog.is_some())
    }

    pub fn appends_to(&self, device: &DeviceName) -> bool {
        self.clones_on(device)
            .any(|thread| thread.job.files.appends)
    }

    /// `None` if no job requires a size.
    pub fn required_file_bytes(&self, device: &DeviceName) -> Option<u64> {
        self.clones_on(device)
            .filter_map(|thread: &JobClone| {
                let job = &thread.job;
                if let Some(log) = &job.iolog {
                    return log.end_bytes(device.as_str());
                }
                let start = self
                    .appended
                    .get(device.as_str())
                    .copied()
                    .or_else(|| thread.start_bytes());
                let used = start
                    .zip(thread.part_bytes())
                    .map(|(start, bytes)| start.saturating_add(bytes));
                job.file_bytes().max(used)
            })
            .max()
    }

    /// The jobs, without clones.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.threads
            .iter()
            .filter(|thread| thread.clone == 0)
            .map(|thread| &thread.job)
    }

    /// Recorded streams: entry and kind, once for each clone.
    pub fn streams(&self) -> Vec<(usize, usize)> {
        self.recorded_streams()
            .into_iter()
            .map(|RecordedStream { thread, kind }| (self.threads[thread].entry, kind))
            .collect()
    }

    fn recorded_streams(&self) -> Vec<RecordedStream> {
        let all = self.entries.iter().flat_map(|entry| {
            (0..=COMMITS).flat_map(move |kind| {
                entry.threads.iter().map(move |thread| RecordedStream {
                    thread: *thread,
                    kind,
                })
            })
        });
        all.filter(|recorded| self.threads[recorded.thread].job.has_kind(recorded.kind))
            .collect()
    }

    /// Reported streams, in order: entry, kind, and number of recorded streams summed in it.
    pub fn reported(&self) -> Vec<(usize, usize, usize)> {
        let streams = self.streams();
        streams
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0].0, same[0].1, same.len()))
            .collect()
    }

    pub fn stream_names(&self) -> Vec<String> {
        self.stream_infos()
            .into_iter()
            .map(|stream| stream.name)
            .collect()
    }

    /// Sets limits: `of` by stream name, `others` for all other judged streams. Ignores names that this load lacks.
    pub fn set_limits(&mut self, of: &BTreeMap<String, Sla>, others: &Sla) {
        for StreamInfo { name, judged, .. } in self.stream_infos() {
            let sla = of
                .get(&name)
                .or(Some(others).filter(|others| judged && !others.is_unlimited()))
                .cloned();
            if sla.is_some() {
                self.limits.insert(
                    name,
                    StreamLimits {
                        sla,
                        ..StreamLimits::default()
                    },
                );
            }
        }
    }

    /// The thresholds of all streams, which the run counts. Errors: more thresholds than a cell can count.
    pub fn thresholds(&self) -> Result<Sla, String> {
        Sla::joined(
            self.limits
                .values()
                .filter_map(|limits| limits.sla.as_ref()),
            u64::max,
        )
    }

    /// Names of the streams: the job's name, with its number if the name is not unique.
    pub(super) fn stream_infos(&self) -> Vec<StreamInfo> {
        let streams = self.recorded_streams();
        let names: Vec<_> = streams
            .iter()
            .map(|RecordedStream { thread, kind }| {
                let job = self.threads[*thread].job.name.replace(
                    |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-'),
                    "_",
                );
                let kind = ["reads", "writes", "trims", "flushes", "commits"][*kind];
                format!("{job}-{kind}")
            })
            .collect();
        streams
            .iter()
            .enumerate()
            .map(
                |(index, RecordedStream { thread, kind }): (usize, &RecordedStream)| {
                    let job = &self.threads[*thread].job;
                    let until_ns = job.end_ns().saturating_sub(job.ramp_end_ns());
                    let count_same =
                        |of: &[String]| of.iter().filter(|name| **name == names[index]).count();
                    let name = &names[index];
                    let name = if count_same(&names) == 1 {
                        name.clone()
                    } else {
                        format!("{name}~{}", count_same(&names[..=index]))
                    };
                    let limits = self.limits.get(&name).cloned();
                    let judged = if self.limits.is_empty() {
                        *kind != FLUSHES
                    } else {
                        limits.is_some()
                    };
                    StreamInfo {
                        limits,
                        commits: *kind == COMMITS,
                        from_ns: job.from_ns(),
                        until_ns: Some(until_ns).filter(|_| job.runtime_ns.is_some()),
                        ..stream_info(
                            &name,
                            judged,
                            job.iops(*kind).unwrap_or(0.0),
                            job.arrivals(*kind),
                        )
                    }
                },
            )
            .collect()
    }

    /// Index in [`Self::reported`] of the stream that has this entry and kind.
    pub fn reported_at(&self, entry: usize, kind: usize) -> Option<usize> {
        self.reported()
            .iter()
            .position(|(of, known, _)| (*of, *known) == (entry, kind))
    }

    /// Refuses a load whose buffers need more memory than available, before devices are opened.
    pub fn check_buffers(&self) -> Result<(), CannotRun> {
        self.check_memory(&[], &[])
    }

    fn check_memory(&self, shards: &[Plan], devices: &[DeviceShape]) -> Result<(), CannotRun> {
        let all_cells = self.streams().len() as u64 * devices.len() as u64;
        // A shard records only the files of its clones.
        let own = |recorded: &RecordedStream| self.threads[recorded.thread].names().len() as u64;
        let recorded = self
            .recorded_streams()
            .iter()
            .map(own)
            .sum::<u64>()
            .min(all_cells);
        let idle_bytes = IDLE_CELL_BYTES + TABLE_CELL_BYTES * shards.len() as u64;
        let cells = 2 * recorded * CELL_BYTES + all_cells * idle_bytes;
        let bytes = self
            .threads
            .iter()
            .map(|thread: &JobClone| {
                let job = &thread.job;
                let names = thread.names();
                let used: u64 = devices
                    .iter()
                    .filter(|device| names.contains(&device.name))
                    .map(|device| {
                        let whole = device.size_bytes;
                        job.size
                            .map_or(whole, |size| size.bytes_of(whole).min(whole))
                    })
                    .sum();
                let maps: usize = job
                    .lanes()
                    .iter()
                    .map(|lane| if job.shares_map(lane) { 1 } else { lane.len() })
                    .sum();
                let map_bytes = if job.has_map() {
                    RandomMap::bytes_of(used / job.unit_bytes()) * maps as u64
                } else {
                    0
                };
                let read_back = if job.reads_back() {
                    used / job.size_divisor() * ENTRY_BYTES
                } else {
                    0
                };
                // Each further device or file has its own class of write buffers.
                let of_writes = if job.does[WRITES] { names.len() - 1 } else { 0 };
                let classes = job.directions().count() + usize::from(job.reads_back()) + of_writes;
                let class_bytes =
                    job.buffer_bytes() * (job.in_flight_max() + u64::from(SALTED_AHEAD));
                class_bytes
                    .saturating_mul(classes as u64)
                    .saturating_add(map_bytes)
                    .saturating_add(read_back)
            })
            .fold(cells, u64::saturating_add);
        load::memory::check(bytes).map_err(|why| {
            let jobs = format::count(self.threads.len() as u64, "job");
            let has_map = self.jobs().any(|job| job.has_map());
            let maps = if has_map { ", or give norandommap" } else { "" };
            CannotRun(format!(
                "cannot run {jobs} at once - {why} - lower numjobs, nrfiles, iodepth or bs{maps}"
            ))
        })
    }
}

/// Finds settings that must be equal in all jobs of a run, but differ.
fn differing_settings(jobs: &[Job]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let settings: Vec<_> = jobs.iter().map(settings_of_run).collect();
    for (index, (setting, value)) in settings[0].iter().enumerate() {
        if let Some(other) = settings.iter().position(|others| others[index].1 != *value) {
            let why = format!(
                "{setting} is {value} in {} and {} in {}, but must be equal - give both the same, or separate them with stonewall",
                quoted(&jobs[0].name),
                settings[other][index].1,
                quoted(&jobs[other].name)
            );
            problems.push(Problem::new("jobs that run at once", why));
        }
    }
    let last_ns = jobs.iter().map(Job::end_ns).max().unwrap_or(0);
    let uneven = jobs
        .iter()
        .find(|job| job.rates.poisson && (job.start_delay_ns > 0 || job.end_ns() < last_ns));
    let why = "a job with rate_process=poisson must begin and end together with the other jobs of its run - give all of them the same runtime and no startdelay, or rate_process=linear";
    problems.extend(uneven.map(|job| Problem::of_job(&job.name, why)));
    problems
}

/// Settings that must be equal in all jobs of a run: name and value.
fn settings_of_run(job: &Job) -> [(&'static str, String); 4] {
    let engine = if job.engine == EngineKind::Passthrough {
        "io_uring_cmd"
    } else {
        "not io_uring_cmd"
    };
    let seed = job
        .seed()
        .map_or("random in each run".into(), |seed| seed.to_string());
    [
        ("the end of ramp_time", format::duration(job.ramp_end_ns())),
        ("create_only", u8::from(job.files.creates_only).to_string()),
        ("ioengine", engine.into()),
        ("the seed", seed),
    ]
}

impl Workload for FioLoad {
    fn kind(&self) -> &'static str {
        "fio"
    }

    fn spec(&self) -> RunSpec {
        let job = &self.threads[0].job;
        let end_ns = self.jobs().map(|job| job.end_ns()).max().unwrap_or(0);
        let duration_sec = (end_ns - job.ramp_end_ns()).div_ceil(NS_PER_SEC);
        let mut operations = self.threads.iter().map(|thread| thread.job.operations());
        RunSpec {
            file_size_bytes: self.files.values().max().copied(),
            seed: job.seed(),
            engine: if job.engine == EngineKind::Passthrough {
                Engine::Passthrough
            } else {
                Engine::Auto
            },
            ramp_ns: job.ramp_end_ns(),
            // The sum is unknown if the number of any job is unknown.
            operations: operations.try_fold(0_u64, |all, of| all.checked_add(of?)),
            synchronous: !self.is_simulated() && self.jobs().all(|job| job.engine.is_synchronous()),
            ..RunSpec::new(self.devices.clone(), duration_sec)
        }
    }

    fn file_plan(&self, device: &DeviceName) -> FilePlan {
        let any = |is: fn(&Job) -> bool| self.clones_on(device).any(|thread| is(&thread.job));
        FilePlan {
            size_bytes: self.files.get(device.as_str()).copied(),
            is_read: any(|job| job.does[0]),
            sparse: any(|job| job.files.sparse),
            grows: any(|job| job.files.grows),
        }
    }

    fn is_buffered(&self, device: &DeviceName) -> bool {
        // A job with only trims has no data that could go through the page cache.
        let clones = || self.clones_on(device).map(|thread| &thread.job);
        clones()
            .find(|job| job.moves_data())
            .or_else(|| clones().next())
            .is_some_and(|job| !job.direct)
    }

    fn cached_range(&self, device: &DeviceName, size_bytes: u64) -> Option<Range<u64>> {
        let is_cached = self
            .clones_on(device)
            .any(|thread| thread.job.files.keeps_cache || thread.job.files.pre_reads);
        let pre_read = self
            .clones_on(device)
            .filter(|thread| thread.job.files.pre_reads)
            .map(|thread: &JobClone| {
                let job = &thread.job;
                let increment = job
                    .offset_increment
                    .bytes_of(size_bytes)
                    .saturating_mul(thread.clone);
                let start = job.offset.bytes_of(size_bytes).saturating_add(increment);
                let len = thread.part_bytes().unwrap_or_else(|| {
                    job.size
                        .map_or(size_bytes, |part| part.bytes_of(size_bytes))
                });
                start.min(size_bytes)..start.saturating_add(len).min(size_bytes)
            });
        let pre_read_range = pre_read.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        is_cached.then(|| pre_read_range.unwrap_or(0..0))
    }

    fn writes(&self) -> bool {
        self.threads.iter().any(|thread| thread.job.writes())
    }

    fn writes_to(&self, device: &DeviceName) -> bool {
        self.clones_on(device).any(|thread| thread.job.writes())
    }

    fn reads(&self) -> bool {
        self.threads.iter().any(|thread| thread.job.does[0])
    }

    fn unit_bytes(&self) -> u64 {
        self.threads
            .iter()
            .map(|thread| thread.job.unit_bytes())
            .max()
            .unwrap_or(0)
    }

    fn build(
        &self,
        devices: &[DeviceShape],
        choices: &BuildContext,
        run: &mut RunPlan,
    ) -> Result<WorkloadRecord, CannotRun> {
        let (shard_of, shards) = self.shards(choices.shards_max.max(1) as usize);
        self.check_memory(&shards, devices)?;
        let plan_offsets = &run.add(self.stream_infos(), shards.len());
        for (
            plan,
            Plan {
                cpus, synchronous, ..
            },
        ) in run.shards.iter_mut().zip(shards)
        {
            (plan.cpus, plan.synchronous) = (cpus, synchronous);
        }
        let streams = self.recorded_streams();
        let seed = choices.seed;
        let appended = &self.appended;
        let lanes = LaneBuilder {
            devices,
            appended,
            seed,
            plan_offsets,
            streams: &streams,
        };
        for (thread_index, thread) in self.threads.iter().enumerate() {
            let plan = &mut run.shards[shard_of[thread_index]];
            lanes.add(thread, thread_index, plan)?;
            let names = thread.names();
            let targets = || devices.iter().filter(|device| names.contains(&device.name));
            let own_streams =
                (0..streams.len()).filter(|stream| streams[*stream].thread == thread_index);
            let cells =
                |stream| targets().map(move |device| plan_offsets.cell(stream, device.target));
            plan.cells
                .get_or_insert_default()
                .extend(own_streams.flat_map(cells));
            if plan.synchronous {
                let is_mapped = thread.job.engine == EngineKind::Mapped;
                plan.mapping = is_mapped.then(|| MappedTargets {
                    targets: targets().map(|device| device.target).collect(),
                    access: MapAccess {
                        random: thread.job.random,
                        syncs: thread.job.syncs_mapped,
                    },
                });
            }
        }
        for cells in run.shards.iter_mut().filter_map(|plan| plan.cells.as_mut()) {
            cells.sort_unstable();
        }
        let depth_max = choices.in_flight_max.map_or(DEPTH_MAX, u64::from);
        if let Some(depth) = run
            .shards
            .iter()
            .map(|plan| plan.in_flight_max() as u64)
            .find(|depth| *depth > depth_max)
        {
            return Err(CannotRun(format!(
                "cannot have {depth} operations in flight on one issuing thread - the engine supports at most {depth_max} - lower iodepth or numjobs"
            )));
        }
        Ok(WorkloadRecord {
            kind: self.kind().to_owned(),
            config: self.record(),
            ..WorkloadRecord::default()
        })
    }
}

impl FioLoad {
    /// Index of each clone's issuing thread, and the plans of all issuing threads, without lanes yet. A clone with a
    /// synchronous engine has its own thread. Other clones with the same CPU set share up to `shards_max` threads, or
    /// one thread per CPU of the set.
    pub(super) fn shards(&self, shards_max: usize) -> (Vec<usize>, Vec<Plan>) {
        let is_simulated = self.is_simulated();
        let cpu_sets: Vec<_> = self
            .threads
            .iter()
            .map(|thread| {
                if is_simulated {
                    Vec::new()
                } else {
                    thread.cpus()
                }
            })
            .collect();
        let is_synchronous =
            |thread: &JobClone| thread.job.engine.is_synchronous() && !is_simulated;
        let mut shard_of = Vec::new();
        let mut shards = Vec::new();
        // Issuing threads of each CPU set, used in turn.
        let mut shard_cycles = HashMap::new();
        for (thread, cpus) in self.threads.iter().zip(&cpu_sets) {
            if is_synchronous(thread) {
                shard_of.push(shards.len());
                shards.push(Plan {
                    cpus: cpus.clone(),
                    synchronous: true,
                    ..Plan::default()
                });
                continue;
            }
            let shard_cycle = shard_cycles.entry(cpus.clone()).or_insert_with(|| {
                let thread_limit = if cpus.is_empty() {
                    shards_max
                } else {
                    cpus.len()
                };
                let sharers = self
                    .threads
                    .iter()
                    .zip(&cpu_sets)
                    .filter(|(other, other_cpus)| !is_synchronous(other) && *other_cpus == cpus);
                let first_shard = shards.len();
                let count = sharers.take(thread_limit).count();
                shards.resize_with(first_shard + count, || Plan {
                    cpus: cpus.clone(),
                    ..Plan::default()
                });
                (first_shard..first_shard + count).cycle()
            });
            shard_of.extend(shard_cycle.next());
        }
        (shard_of, shards)
    }

    pub fn is_simulated(&self) -> bool {
        self.devices.iter().any(|device| device.drive().is_some())
    }

    /// Checks that the machine allows issuing threads on the CPUs that jobs name.
    pub fn check_cpus(&self) -> Result<(), CannotRun> {
        let mut cpus: Vec<_> = self
            .jobs()
            .flat_map(|job| job.cpus.iter().copied())
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        // The check runs in a separate thread, so that this thread's CPU affinity is not changed.
        let result = std::thread::spawn(move || process::run_on(&cpus)).join();
        result.unwrap_or_else(|_| Err(std::io::Error::other("the thread for this check panicked"))).map_err(|error| {
            CannotRun(format!(
                "cannot issue operations from the CPUs of cpus_allowed - {error} - give other CPUs, or leave cpus_allowed out"
            ))
        })
    }

    fn record(&self) -> RecordedConfig {
        let mut settings = Vec::new();
        for job in self.jobs() {
            settings.push((
                format!("{}: in-flight-max", job.name),
                job.in_flight_max().to_string(),
            ));
            settings.push((format!("{}: jobs", job.name), job.numjobs.to_string()));
            settings.extend(
                job.given_options
                    .iter()
                    .map(|(name, value)| (format!("{}: {name}", job.name), value.clone())),
            );
        }
        RecordedConfig {
            settings,
            ..RecordedConfig::default()
        }
    }
}
