//! A run of fio's jobs, as it is reported during the run and afterwards.

use super::logs::Logs;
use super::{Trigger, verify_notes, write_dumps};
use conclusions::check::Figures;
use conclusions::grouped;
use device::discover::DeviceNumber;
use device::observe::diskstats::{self, Counters};
use fio::{Counter, EngineKind, FioLoad, JobClone, READS, ReportEntry, Size};
use report::fio::{
    Cpu, DiskIo, FioReport, JobReport, KINDS, KindStats, LatencyTargetResult, RunHistogram,
    RunningTotals, SteadyState, VerifyTotals,
};
use results::cell::Interval;
use results::format::{self, Grouped, count, quoted};
use results::judge::{End, RunResult};
use results::run_dir::Manifest;
use session::clock::now_unix_ms;
use session::recording::RunObserver;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use sys::process::{Usage, usage};

pub struct FioRun {
    pub load: FioLoad,
    pub totals: RunningTotals,
    devices: usize,
    usage: Option<Usage>,
    cpu: Cpu,
    /// Counters of the disks under the load: at the start, and now.
    disks: [Vec<diskstats::DiskStatistics>; 2],
    started_unix_ms: u64,
    pub logs: Logs,
    /// fio's error number, if the run could not begin.
    pub error: Option<u64>,
    /// Result of the verdict, once the run has ended.
    pub result: Option<RunResult>,
}

impl FioRun {
    pub fn new(mut load: FioLoad) -> Self {
        load.reset();
        let totals =
            RunningTotals::joined(load.reported().into_iter().map(|(.., streams)| streams));
        Self {
            devices: load.devices.len(),
            load,
            totals,
            usage: None,
            cpu: Cpu::default(),
            disks: Default::default(),
            started_unix_ms: now_unix_ms(),
            logs: Logs::default(),
            error: None,
            result: None,
        }
    }

    /// Marks the start, after the guard's examination and the layout of files.
    fn begin(&mut self, devices: usize, started_unix_ms: u64) {
        (self.devices, self.started_unix_ms) = (devices, started_unix_ms);
        self.usage = usage().ok();
        self.disks[0] = disks_under(&self.load);
    }

    fn add(&mut self, interval: &Interval) {
        self.totals.add(interval, self.devices);
        // After a search for a depth, the report covers only the time at the depth found.
        for ((entry, ..), kind) in self.load.reported().into_iter().zip(&mut self.totals.kinds) {
            let is_done = self.load.threads_of(entry).all(JobClone::is_done);
            if !is_done && interval.end_ns <= counts_from_ns(&self.load, entry) {
                *kind = KindStats::default();
            }
        }
        if let (Some(before), Ok(now)) = (self.usage, usage()) {
            self.cpu = Cpu {
                user_ns: now.user_ns.saturating_sub(before.user_ns),
                system_ns: now.system_ns.saturating_sub(before.system_ns),
                switches: now.switches.saturating_sub(before.switches),
                major_faults: now.major_faults.saturating_sub(before.major_faults),
                minor_faults: now.minor_faults.saturating_sub(before.minor_faults),
            };
        }
        self.disks[1] = disks_under(&self.load);
    }

    /// Goals that jobs missed, a sentence each. If the run is not complete, an unfinished search is no missed goal.
    pub fn missed(&self, is_complete: bool) -> Vec<String> {
        let mut sentences = Vec::new();
        for thread in &self.load.threads {
            if let Some(why) = thread.progress.failure() {
                sentences.push(format!("job {} ended: {why}", quoted(&thread.job.name)));
            }
        }
        if is_complete {
            for name in self.unmeasured(false) {
                sentences.push(format!(
                    "job {name} did not measure at the depth for latency_target: the job ran at that depth for less than \
                     a second before its runtime ended. The report covers the search, or nothing - give more runtime, \
                     a shorter latency_window or a higher latency_target"
                ));
            }
        }
        sentences
    }

    /// Jobs that ended by their size or number of operations during the search for a depth, a sentence each.
    pub fn ended_in_search(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for name in self.unmeasured(true) {
            sentences.push(format!(
                "job {name} completed its operations before it had measured at the depth for latency_target, so its \
                 report covers the search - give a larger size, or time_based with a runtime"
            ));
        }
        sentences
    }

    /// Jobs whose runtime ended before all their operations were done, a sentence each.
    pub fn cut_short(&self) -> Vec<String> {
        self.load
            .threads
            .iter()
            .filter_map(|thread: &JobClone| {
                let job = &thread.job;
                let planned_ops = job
                    .number_ios
                    .filter(|_| !job.time_based)?
                    .saturating_mul(job.loops);
                let done_ops = thread.progress.ops();
                let lanes_done = thread.progress.lanes_done.get();
                (done_ops < planned_ops && lanes_done == 0 && self.totals.ran_ns >= thread.end_ns())
                    .then(|| {
                        format!(
                            "job {} was ended by its runtime after {} of {}",
                            quoted(&job.name),
                            Grouped(done_ops),
                            count(planned_ops, "operation")
                        )
                    })
            })
            .collect()
    }

    /// Jobs that did less than their size because their devices end earlier, a sentence each.
    fn beyond_the_end(&self) -> Vec<String> {
        let entries = self
            .load
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.job.steady == Default::default());
        entries
            .filter_map(|(number, entry): (usize, &ReportEntry)| {
                let job = &entry.job;
                let is_plain = job.io_size.is_none()
                    && job.number_ios.is_none()
                    && job.order.skip == 0
                    && job.files.sizes.is_none();
                let Some(Size::Bytes(size)) = job.size.filter(|_| is_plain) else {
                    return None;
                };
                let threads = || self.load.threads_of(number);
                let done_bytes: u64 = self.kinds(number)[..KINDS - 1]
                    .iter()
                    .flatten()
                    .map(|kind| kind.bytes)
                    .sum();
                let is_alone = threads().all(|thread| Arc::ptr_eq(&thread.job, job));
                let is_measured =
                    job.ramp_ns == 0 || (self.is_done_in_ramp(number) && done_bytes > 0);
                let is_whole = is_alone
                    && is_measured
                    && threads()
                        .all(|thread| thread.is_done() && thread.progress.failure().is_none());
                let names = job.names(0).len() as u64;
                let unit = job.unit_bytes();
                let of_file = size / names;
                let planned_bytes = (of_file / unit * unit * names)
                    .saturating_mul(job.loops)
                    .saturating_mul(entry.threads.len() as u64);
                let failed = self
                    .kinds(number)
                    .into_iter()
                    .flatten()
                    .any(|kind| kind.errors > 0);
                (is_whole
                    && !job.time_based
                    && !job.trim_write
                    && !failed
                    && done_bytes < planned_bytes)
                    .then(|| {
                        format!(
                            "job {} did {} of size={}: its devices are smaller",
                            quoted(&job.name),
                            format::bytes(done_bytes as f64),
                            format::bytes(planned_bytes as f64)
                        )
                    })
            })
            .collect()
    }

    /// True if all jobs ended within their ramp time. The report then covers the ramp time.
    fn measures_ramp(&self) -> bool {
        self.load.threads.iter().all(JobClone::is_done_in_ramp)
    }

    /// Duration of the run with its ramp time, nanoseconds of the run's clock.
    pub fn elapsed_ns(&self) -> u64 {
        let ramp_ns = if self.measures_ramp() {
            0
        } else {
            self.load.threads[0].job.ramp_end_ns()
        };
        self.totals.ran_ns + ramp_ns
    }

    /// True if all clones of an entry ended within their ramp time.
    fn is_done_in_ramp(&self, entry: usize) -> bool {
        self.load.threads_of(entry).all(JobClone::is_done_in_ramp)
    }

    /// Jobs that ended within their ramp time, a sentence each.
    pub fn ended_in_ramp(&self) -> Vec<String> {
        let ended = self.load.entries.iter().enumerate().filter(|(number, _)| {
            let mut threads = self.load.threads_of(*number);
            threads.any(JobClone::is_done_in_ramp)
        });
        ended.map(|(number, entry): (usize, &ReportEntry)| {
            let name = quoted(&entry.job.name);
            let ramp = format::duration(entry.job.ramp_ns);
            if !self.is_done_in_ramp(number) {
                return format!(
                    "some clones of job {name} ended within its ramp_time of {ramp}, others later: the report covers the \
                     former from their start, and the others after the ramp time - give a shorter ramp_time, or more \
                     work"
                );
            }
            if self.ops(number) > 0 {
                format!(
                    "job {name} ended within its ramp_time of {ramp}, so its report covers the whole job, without a warm-up"
                )
            } else {
                format!(
                    "job {name} ended within its ramp_time of {ramp} while other jobs ran, so none of its operations \
                     were measured - give a shorter ramp_time, more work, or stonewall"
                )
            }
        }).collect()
    }

    /// Jobs that move no byte, a sentence each.
    fn null_jobs(&self) -> Vec<String> {
        let null = self
            .load
            .jobs()
            .filter(|job| job.engine == EngineKind::Null);
        null.map(|job| {
            format!(
                "job {} measured nothing: ioengine=null moves no data, and its numbers are those of a simulated drive \
                 with a latency of 1 us",
                quoted(&job.name)
            )
        })
        .collect()
    }

    /// Reported part of a clone, nanoseconds since counting began. The end is its last completion or, if later, the end
    /// of a runtime that the clone used up. `counts_from_ns`: end of the search for a depth.
    fn span_ns(&self, thread: &JobClone, counts_from_ns: u64) -> Range<u64> {
        let job = &thread.job;
        // If the ramp time is measured, counting begins before the start delay.
        let (from_ns, ramp_ns) = if thread.is_done_in_ramp() {
            (job.start_delay_ns, 0)
        } else {
            (job.from_ns(), job.ramp_end_ns())
        };
        // While the run goes on, a clone may be ahead of the operations that are counted.
        let counted = self.totals.kinds.iter().map(|kind| kind.last_completion_ns);
        let counted_ns = counted.max().unwrap_or(0).max(self.totals.ran_ns);
        let last_ns = thread.progress.last_completion_ns.get();
        let last_ns = last_ns.saturating_sub(ramp_ns).min(counted_ns);
        let end_ns = if thread.is_done() {
            last_ns
        } else {
            last_ns.max(thread.end_ns().min(self.totals.ran_ns))
        };
        let searched_ns = Some(counts_from_ns).filter(|from_ns| *from_ns < end_ns);
        from_ns.max(searched_ns.unwrap_or(0))..end_ns
    }

    /// Nanoseconds of each kind of operation: as in fio, those of the clone that did the kind for the longest time.
    fn kinds_ns(&self, entry: usize, counts_from_ns: u64) -> [u64; KINDS] {
        std::array::from_fn(|kind| {
            let threads = self.load.threads_of(entry);
            let does_kind = threads.filter(|thread| thread.job.has_kind(kind));
            let longest_ns = does_kind
                .map(|thread| kind_ns(thread, kind, self.span_ns(thread, counts_from_ns)))
                .max();
            longest_ns.unwrap_or(0).max(1)
        })
    }

    /// Quoted names of jobs that searched for a depth, did not measure at the depth found, and did not fail otherwise.
    /// `is_done`: if they completed their operations.
    fn unmeasured(&self, is_done: bool) -> Vec<String> {
        let entries = self.load.entries.iter().enumerate();
        let unmeasured = entries.filter(|(number, entry)| {
            let threads = || self.load.threads_of(*number);
            let counts_from_ns = counts_from_ns(&self.load, *number);
            entry.job.target().is_some()
                && threads().all(|thread| thread.progress.failure().is_none())
                && threads().all(JobClone::is_done) == is_done
                && (counts_from_ns == 0
                    || self.ops(*number) == 0
                    || threads()
                        .all(|thread| self.span_ns(thread, counts_from_ns).end <= counts_from_ns))
        });
        unmeasured
            .map(|(_, entry)| quoted(&entry.job.name))
            .collect()
    }

    pub fn kinds(&self, entry: usize) -> [Option<&KindStats>; KINDS] {
        let mut kinds = [None; KINDS];
        for ((recorded_entry, kind, _), recorded) in
            self.load.reported().into_iter().zip(&self.totals.kinds)
        {
            if let (true, Some(place)) = (recorded_entry == entry, kinds.get_mut(kind)) {
                *place = Some(recorded);
            }
        }
        kinds
    }

    fn ops(&self, entry: usize) -> u64 {
        let kinds = self.kinds(entry).into_iter().flatten();
        kinds.map(|kind| kind.ops).sum()
    }

    /// Figures of each stream, in the order of [`FioLoad::stream_names`], with the percentiles `percents`. Clones that
    /// are reported together share one set of figures. If a job counts reads of zeros separately, they are left out.
    pub fn figures(&self, percents: &[f64]) -> Vec<Figures> {
        self.load
            .reported()
            .into_iter()
            .zip(&self.totals.kinds)
            .flat_map(
                |((entry, number, streams), kind): ((usize, usize, usize), &KindStats)| {
                    let with_data = self
                        .reads_by_content(entry)
                        .filter(|_| number == READS)
                        .map(|[with_data, _]| with_data);
                    let ops = with_data.as_ref().map_or(kind.ops, RunHistogram::len);
                    let latencies = with_data.unwrap_or_else(|| kind.response_times());
                    let from_ns = counts_from_ns(&self.load, entry);
                    let figures = Figures {
                        ops,
                        bytes: kind.bytes,
                        ran_ns: self.totals.ran_ns.saturating_sub(from_ns),
                        mean_ns: latencies.mean(),
                        percentiles_ns: percents
                            .iter()
                            .map(|of| (*of, latencies.value_at_percentile(*of)))
                            .collect(),
                    };
                    std::iter::repeat_n(figures, streams)
                },
            )
            .collect()
    }

    /// Latencies of an entry's reads that returned data, and of reads that returned only zeros; `None` if the job does
    /// not count reads of zeros separately.
    fn reads_by_content(&self, entry: usize) -> Option<[RunHistogram; 2]> {
        let parts = self.load.threads_of(entry).map(JobClone::reads_by_content);
        parts.fold(None, |sum, part| {
            let mut sum =
                sum.unwrap_or_else(|| [report::fio::durations(), report::fio::durations()]);
            for (all, of_clone) in sum.iter_mut().zip(&part?) {
                report::fio::add(all, of_clone);
            }
            Some(sum)
        })
    }

    /// Number of reads that returned only zeros.
    pub fn reads_of_zeros(&self) -> u64 {
        let entries = 0..self.load.entries.len();
        entries
            .filter_map(|entry| self.reads_by_content(entry))
            .map(|[_, zeros]| zeros.len())
            .sum()
    }

    /// Bytes that the disks under the load read and wrote during the run; `None` if no disk is known.
    pub fn disk_bytes(&self) -> Option<[u64; 2]> {
        let bytes = self
            .disk_io()
            .map(|(_, io)| [io.read, io.write].map(|of| of.sectors * diskstats::SECTOR_BYTES));
        bytes.reduce(|a, b| [a[0] + b[0], a[1] + b[1]])
    }

    /// Disks under the load, each with its I/O during the run.
    fn disk_io(&self) -> impl Iterator<Item = (&diskstats::DiskStatistics, Counters)> {
        let [before, after] = &self.disks;
        after.iter().filter_map(move |disk| {
            let start = before.iter().find(|begun| begun.device == disk.device)?;
            Some((disk, disk.counters.since(&start.counters)?))
        })
    }

    /// Verification counts of an entry; `None` if nothing is compared.
    fn verified(&self, entry: usize) -> Option<VerifyTotals> {
        let mut sum = self.load.entries[entry]
            .job
            .verifies()
            .then(VerifyTotals::default)?;
        for counts in self
            .load
            .threads_of(entry)
            .map(|thread| &thread.progress.verify)
        {
            sum.bytes += counts.checked_bytes.get();
            sum.wrong_blocks += counts.wrong_blocks.get();
            sum.not_read_bytes += counts.due_bytes.get();
            sum.unknown_bytes += counts.unknown_bytes.get();
        }
        Some(sum)
    }

    fn jobs(&self) -> impl Iterator<Item = JobReport<'_>> {
        let entries = 0..self.load.entries.len();
        let total_ops: u64 = entries.map(|number| self.ops(number)).sum();
        self.load
            .entries
            .iter()
            .enumerate()
            .map(move |(number, entry)| {
                let first_thread = &self.load.threads[entry.threads[0]];
                let kinds = self.kinds(number);
                let threads = || self.load.threads_of(number);
                let counts_from_ns = counts_from_ns(&self.load, number);
                let spans = || threads().map(|thread| self.span_ns(thread, counts_from_ns));
                JobReport {
                    name: entry.job.name.clone(),
                    group: entry.group,
                    jobs: entry.threads.len(),
                    description: entry.job.description.clone(),
                    options: entry.job.given_options.clone(),
                    depth: Some(first_thread.progress.depth.get())
                        .filter(|depth| *depth > 0)
                        .unwrap_or(entry.job.in_flight_max()),
                    target: entry.job.target().map(|target| LatencyTargetResult {
                        latency_ns: target.latency_ns,
                        window_us: target.window_ns / 1_000,
                        percentile: target.percentile,
                    }),
                    begin_ns: spans().map(|span| span.start).min().unwrap_or(0),
                    end_ns: spans().map(|span| span.end).max().unwrap_or(0),
                    kinds_ns: self.kinds_ns(number, counts_from_ns),
                    error: self
                        .error
                        .or_else(|| threads().find_map(|thread| thread.progress.error())),
                    started_unix_ms: self.started_unix_ms,
                    levels: std::array::from_fn(|level: usize| {
                        threads()
                            .map(|thread| thread.progress.levels[level].get())
                            .sum()
                    }),
                    kinds,
                    verified: self.verified(number),
                    percentiles_of: entry.job.percentiles_of,
                    percentiles: entry.job.percentiles.clone(),
                    kb_base: entry.job.kb_base,
                    elapsed_ns: self.elapsed_ns(),
                    steady: steady_state(first_thread),
                    priorities: by_priority(threads()),
                    // CPU time is known only for all jobs together, and is divided in proportion to their operations.
                    cpu: self.cpu.part(self.ops(number), total_ops),
                }
            })
    }
}

fn steady_state(thread: &JobClone) -> Option<SteadyState> {
    let steady = thread.steady.as_ref()?;
    let state = steady.state();
    Some(SteadyState {
        target: steady.criterion.text(),
        duration_sec: steady.duration_ns / 1_000_000_000,
        attained: state.attained,
        criterion: state.criterion,
        deviation: state.deviation,
        slope: state.slope,
        means: state.means(),
        intervals: state.intervals.into(),
    })
}

fn by_priority<'a>(threads: impl Iterator<Item = &'a JobClone>) -> Vec<(usize, u16, RunHistogram)> {
    let mut merged = BTreeMap::new();
    for latencies in threads.filter_map(|thread| thread.by_priority.as_ref()) {
        for (key, part) in latencies.latencies().iter() {
            report::fio::add(
                merged.entry(*key).or_insert_with(report::fio::durations),
                part,
            );
        }
    }
    merged
        .into_iter()
        .map(|((direction, priority), latencies)| (direction, priority, latencies))
        .collect()
}

/// Start of the reported part of an entry, nanoseconds since counting began.
fn counts_from_ns(load: &FioLoad, entry: usize) -> u64 {
    let from_ns = load.threads_of(entry).map(|thread| {
        thread
            .progress
            .counts_from_ns
            .get()
            .saturating_sub(thread.job.ramp_end_ns())
    });
    from_ns.max().unwrap_or(0)
}

pub fn page<'a>(runs: &'a [FioRun], global: &[(String, String)]) -> FioReport<'a> {
    FioReport {
        jobs: runs.iter().flat_map(FioRun::jobs).collect(),
        global: global.to_vec(),
        disks: disks_of(runs),
        results: runs.iter().filter_map(|ran| ran.result.clone()).collect(),
        unix_ms: now_unix_ms(),
        pid: std::process::id(),
    }
}

/// Counts the operations of the last of `runs` while it runs, and shows all runs every `status_sec` seconds.
pub struct FioRunObserver<'a> {
    pub runs: &'a mut Vec<FioRun>,
    pub status_sec: Option<u64>,
    pub trigger: &'a Trigger,
    /// True if dumps of wrong blocks may replace existing files.
    pub force: bool,
    pub show: &'a dyn Fn(&[FioRun]) -> Result<(), String>,
    pub failure: Option<String>,
}

impl RunObserver for FioRunObserver<'_> {
    fn begins(&mut self, manifest: &Manifest) {
        let Some(fio_run) = self.runs.last_mut() else {
            return;
        };
        fio_run.begin(manifest.devices.len(), manifest.started_unix_ms);
        // The guard has consented by now: a refused run changes no earlier log.
        match Logs::create(&fio_run.load, self.force, manifest.started_unix_ms) {
            Ok(logs) => fio_run.logs = logs,
            Err(failure) => self.failure = Some(failure.message),
        }
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        let fio_run = self.runs.last_mut()?;
        fio_run.add(interval);
        if let Err(why) = fio_run.logs.write(&fio_run.load, None) {
            self.failure = Some(why);
        }
        write_dumps(&fio_run.load, self.force);
        let why = self.trigger.check(&fio_run.load, interval.index + 1);
        if self
            .status_sec
            .is_some_and(|every| (interval.index + 1).is_multiple_of(every))
        {
            self.failure = (self.show)(self.runs).err().or(self.failure.take());
        }
        why
    }

    fn failed(&self) -> Option<String> {
        self.failure.clone()
    }

    fn missed(&self, end: &End) -> Vec<String> {
        self.runs
            .last()
            .map_or_else(Vec::new, |ran| ran.missed(end.is_complete()))
    }

    fn notes(&self) -> Vec<String> {
        let last_run = self.runs.last();
        let by_trigger = self.trigger.pulled.get().cloned().into_iter().collect();
        last_run.map_or_else(Vec::new, |ran| {
            [
                by_trigger,
                ran.ended_in_ramp(),
                ran.ended_in_search(),
                ran.cut_short(),
                ran.beyond_the_end(),
                ran.null_jobs(),
                verify_notes(&ran.load),
            ]
            .concat()
        })
    }
}

/// Nanoseconds of a clone for a kind of operation. `span_ns`: its reported part. Writes and the read-backs at the end
/// have separate times, as in fio.
fn kind_ns(thread: &JobClone, kind: usize, span_ns: Range<u64>) -> u64 {
    let [own_ns, read_back_ns] = thread.progress.phases_ns.each_ref().map(Counter::get);
    match (thread.job.reads_back_at_end(), kind) {
        (false, _) => span_ns.end.saturating_sub(span_ns.start),
        (true, READS) if thread.job.reads_meanwhile() => own_ns + read_back_ns,
        (true, READS) => read_back_ns,
        (true, _) => own_ns,
    }
}

fn disks_under(load: &FioLoad) -> Vec<diskstats::DiskStatistics> {
    let mut numbers = HashSet::new();
    for device in &load.devices {
        let Ok(metadata) = fs::metadata(device.as_str()) else {
            continue;
        };
        let number = if metadata.file_type().is_block_device() {
            metadata.rdev()
        } else {
            metadata.dev()
        };
        numbers.insert(DeviceNumber::of_stat(number));
    }
    let disks = if numbers.is_empty() {
        Vec::new()
    } else {
        diskstats::read(Path::new("/")).unwrap_or_default()
    };
    disks
        .into_iter()
        .filter(|disk| numbers.contains(&disk.device))
        .collect()
}

fn disks_of(runs: &[FioRun]) -> Vec<DiskIo> {
    let in_runs = runs.iter().flat_map(|ran| {
        ran.disk_io()
            .map(|(disk, did)| (&disk.name, (did, ran.totals.ran_ns)))
    });
    grouped(in_runs)
        .into_iter()
        .map(|(name, in_runs): (&String, Vec<(Counters, u64)>)| {
            let mut sum = DiskIo {
                name: name.clone(),
                ..DiskIo::default()
            };
            let mut all_busy_ms = 0;
            let mut all_ran_ns = 0;
            for (
                Counters {
                    read,
                    write,
                    busy_ms,
                    queue_ms,
                    ..
                },
                ran_ns,
            ) in in_runs
            {
                for (direction, did) in [read, write].into_iter().enumerate() {
                    sum.ios[direction] += did.completed;
                    sum.merges[direction] += did.merged;
                    sum.sectors[direction] += did.sectors;
                    sum.ticks[direction] += did.time_ms;
                }
                sum.in_queue += queue_ms;
                all_busy_ms += busy_ms;
                all_ran_ns += ran_ns;
            }
            let util = (all_busy_ms as f64 * 1e8 / all_ran_ns.max(1) as f64).min(100.0);
            DiskIo { util, ..sum }
        })
        .collect()
}
