//! Collects the results of a run of jobs during the run: a point for each drive.

use crate::commands::baseline::plan::Job;
use conclusions::baseline::{
    DirectionResult, JobPurpose, LatencyStats, Point, Second, Watch as WatchPoint,
};
use device::discover::DeviceNumber;
use device::observe::diskstats::{self, Counters};
use fio::FioLoad;
use report::fio::{KindStats, RunHistogram, RunningTotals};
use results::cell::{Cell, Interval};
use results::run_dir::Manifest;
use results::steady::{ROUNDS_IN_WINDOW, Rounds, Steadiness};
use session::recording::RunObserver;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// If threads wait for a CPU for more than this fraction of a run, its point is unreliable.
const RUN_DELAY_MAX: f64 = 0.05;

/// If fewer operations are in flight on average than this fraction of the job's depth, the point is unreliable.
const DEPTH_KEPT: f64 = 0.8;

/// If closed-loop threads are busy for more than this fraction, they limit the rate, and the point is unreliable.
const BUSY_MAX: f64 = 0.9;

pub(super) struct JobObserver<'a> {
    load: &'a FioLoad,
    totals: RunningTotals,
    cpu_ns: u64,
    /// Time for which the issuing threads were runnable without a CPU.
    run_delay_ns: u64,
    run_state: Option<RunState>,
}

struct RunState {
    devices: usize,
    /// Name and rate of each stream.
    streams: Vec<(String, f64)>,
    is_simulated: bool,
    rounds: Rounds,
    /// By job and second: median latency of the reads (without reads, of the writes), and the longest latency.
    seconds: Vec<Vec<Option<Second>>>,
    /// Queue counters, from the first interval on, so that earlier I/O is excluded.
    queues: Option<Queues>,
}

/// Kernel counters of requests in flight on each device of a load: at the start, and now.
struct Queues {
    first_poll: Instant,
    last_poll: Instant,
    counters: Vec<Option<(Counters, Counters)>>,
}

impl<'a> JobObserver<'a> {
    pub(super) fn new(load: &'a FioLoad) -> Self {
        Self {
            load,
            totals: RunningTotals::joined(load.reported().into_iter().map(|(.., streams)| streams)),
            cpu_ns: 0,
            run_delay_ns: 0,
            run_state: None,
        }
    }

    /// The point of `job`, which has the index `job_index` in the load. The run must have begun.
    pub(super) fn point(&self, job_index: usize, job: &Job, doubt: Option<String>) -> Point {
        let ops: u64 = self.totals.kinds.iter().map(|kind| kind.ops).sum();
        let reads = self.direction_done(job_index, 0, job.bytes[0]);
        let writes = self.direction_done(job_index, 1, job.bytes[1]);
        let doubt = doubt.or_else(|| {
            self.lacked_cpu()
                .or_else(|| self.was_busy(job))
                .or_else(|| self.lost_depth(job, [&reads, &writes]))
        });
        Point {
            part: job.part,
            job: job.line(),
            random: job.random,
            read_pct: job.read_pct.into(),
            depth: job.depth * job.numjobs,
            round: job.round,
            seconds: self.ran_sec(),
            reads,
            writes,
            mean_in_flight: self
                .run_state
                .as_ref()
                .and_then(|begun| begun.queues.as_ref()?.mean(job_index)),
            cpu_us: (!self.is_simulated() && ops > 0)
                .then(|| self.cpu_ns as f64 / 1e3 / ops as f64),
            steady: self.steady(job_index),
            doubt,
            watch: self
                .run_state
                .as_ref()
                .filter(|_| job.part == JobPurpose::Watch)
                .map(|begun| WatchPoint::from_seconds(&begun.seconds[job_index])),
        }
    }

    fn ran_sec(&self) -> f64 {
        self.totals.ran_ns as f64 / 1e9
    }

    /// Results of reads (direction 0) or writes (1) of `bytes` of job number `job_index`; `None` if it has none.
    fn direction_done(
        &self,
        job_index: usize,
        direction: usize,
        bytes: u64,
    ) -> Option<DirectionResult> {
        let kind_index = self.load.reported_at(job_index, direction)?;
        let mut offered_iops = 0.0;
        if let Some(run_state) = &self.run_state {
            for (stream, (_, iops)) in self.load.streams().iter().zip(&run_state.streams) {
                if *stream == (job_index, direction) {
                    offered_iops += iops;
                }
            }
        }
        let offered_iops = (offered_iops > 0.0).then_some(offered_iops);
        let kind = &self.totals.kinds[kind_index];
        Some(done(kind, bytes, offered_iops, self.ran_sec()))
    }

    /// The point is unreliable if flashproof waited for a CPU, which may have lowered the rate.
    fn lacked_cpu(&self) -> Option<String> {
        let share = self.of_threads(self.run_delay_ns);
        (share > RUN_DELAY_MAX).then(|| {
            format!(
                "flashproof waited for a CPU for {} of the time",
                results::format::percent(share)
            )
        })
    }

    /// The point is unreliable if the threads were hardly ever idle: more threads might reach a higher rate.
    fn was_busy(&self, job: &Job) -> Option<String> {
        let share = self.of_threads(self.cpu_ns);
        (!self.is_simulated() && job.rates.is_none() && share > BUSY_MAX).then(|| {
            format!(
                "flashproof's threads ({}) were busy for {} of the time: the drive may sustain a higher rate",
                job.numjobs,
                results::format::percent(share.min(1.0))
            )
        })
    }

    /// The point is unreliable if the queue depth was not kept. By Little's law, depth = rate x mean service time.
    fn lost_depth(&self, job: &Job, directions: [&Option<DirectionResult>; 2]) -> Option<String> {
        let in_flight: f64 = directions
            .into_iter()
            .flatten()
            .map(|done| done.iops * done.service.mean_us / 1e6)
            .sum();
        let depth = f64::from(job.depth * job.numjobs);
        // A depth of one is always slightly missed: the next operation is issued after the completion was seen.
        let is_reported = !self.is_simulated()
            && job.rates.is_none()
            && depth > 1.0
            && in_flight < DEPTH_KEPT * depth;
        is_reported.then(|| {
            format!(
                "on average only {} of {depth} operations were in flight",
                results::format::number(in_flight)
            )
        })
    }

    fn is_simulated(&self) -> bool {
        self.run_state
            .as_ref()
            .is_none_or(|begun| begun.is_simulated)
    }

    /// `ns`, a sum over the issuing threads, as a fraction of their time. Each clone has a thread, up to one per CPU.
    fn of_threads(&self, ns: u64) -> f64 {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let all_ns = self
            .totals
            .ran_ns
            .max(1)
            .saturating_mul(self.load.threads.len().clamp(1, cpus) as u64);
        ns as f64 / all_ns as f64
    }

    /// True if the streams of the job with the index `job_index` were steady at the end; `None` if unknown.
    fn steady(&self, job_index: usize) -> Option<bool> {
        let run_state = self
            .run_state
            .as_ref()
            .filter(|begun| begun.rounds.count() >= ROUNDS_IN_WINDOW)?;
        let mut own_streams = Vec::new();
        for ((entry, _), (name, _)) in self.load.streams().iter().zip(&run_state.streams) {
            if *entry == job_index {
                own_streams.push(name);
            }
        }
        let windows = Steadiness::from_rounds(&run_state.rounds).windows;
        Some(
            windows
                .iter()
                .filter(|window| own_streams.contains(&&window.group.stream))
                .all(|window| window.is_steady()),
        )
    }
}

impl RunObserver for JobObserver<'_> {
    fn begins(&mut self, manifest: &Manifest) {
        self.run_state = Some(RunState {
            devices: manifest.devices.len(),
            streams: manifest
                .streams
                .iter()
                .map(|stream| (stream.name.clone(), stream.offered_iops))
                .collect(),
            is_simulated: manifest.simulated,
            rounds: Rounds::new(manifest),
            seconds: vec![Vec::new(); self.load.devices.len()],
            queues: None,
        });
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        let run_state = self.run_state.as_mut()?;
        self.totals.add(interval, run_state.devices);
        self.cpu_ns += interval.cpu_ns;
        self.run_delay_ns += interval.run_delay_ns;
        match &mut run_state.queues {
            Some(queues) => queues.poll(self.load),
            queues => *queues = Some(Queues::from_load(self.load)),
        }
        run_state.rounds.add(interval);
        let streams = self.load.streams();
        let devices = run_state.devices;
        for (job_index, seconds) in run_state.seconds.iter_mut().enumerate() {
            let own_streams = streams
                .iter()
                .enumerate()
                .filter(|(_, (entry, _))| *entry == job_index);
            let cells =
                own_streams.flat_map(|(stream, _)| &interval.cells[stream * devices..][..devices]);
            seconds.push(second(cells));
        }
        None
    }
}

/// Median latency of the first of `cells` with operations (reads come first), and maximum latency of all, in one second
/// of a job; `None` if nothing completed.
fn second<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<Second> {
    let mut median_ns = None;
    let mut max_ns = 0;
    for cell in cells.filter(|cell| cell.counts.ops > 0) {
        let waited = cell.waited.as_ref().map_or(0, |waited| waited[1].max());
        max_ns = max_ns.max(cell.service.max()).max(waited);
        median_ns = median_ns.or_else(|| Some(cell.service.value_at_quantile(0.5)));
    }
    median_ns.map(|median_ns| Second {
        median_us: median_ns as f64 / 1e3,
        max_us: max_ns as f64 / 1e3,
    })
}

impl Queues {
    fn from_load(load: &FioLoad) -> Self {
        let now = Instant::now();
        let counters = counters(load)
            .into_iter()
            .map(|counters| Some((counters?, counters?)))
            .collect();
        Self {
            first_poll: now,
            last_poll: now,
            counters,
        }
    }

    fn poll(&mut self, load: &FioLoad) {
        // Simulated drives have no kernel counters, and their seconds pass too fast to poll.
        if self.counters.iter().all(Option::is_none) {
            return;
        }
        self.last_poll = Instant::now();
        for (known, now) in self.counters.iter_mut().zip(counters(load)) {
            *known = known.and_then(|(began, _)| Some((began, now?)));
        }
    }

    /// Mean number of operations in flight on the device with the index `device_index`.
    fn mean(&self, device_index: usize) -> Option<f64> {
        let (first, last) = self.counters.get(device_index).copied().flatten()?;
        let elapsed_ms = self.last_poll.duration_since(self.first_poll).as_secs_f64() * 1e3;
        let queue_ms = last.since(&first)?.queue_ms as f64;
        (elapsed_ms > 0.0).then(|| queue_ms / elapsed_ms)
    }
}

fn counters(load: &FioLoad) -> Vec<Option<Counters>> {
    if load.devices.iter().all(|device| device.drive().is_some()) {
        return vec![None; load.devices.len()];
    }
    let disks = diskstats::read(Path::new("/")).unwrap_or_default();
    load.devices
        .iter()
        .map(|device| counters_of(device.as_str(), &disks))
        .collect()
}

fn counters_of(device: &str, disks: &[diskstats::DiskStatistics]) -> Option<Counters> {
    let number = DeviceNumber::of_stat(fs::metadata(device).ok()?.rdev());
    let disk = disks.iter().find(|disk| disk.device == number)?;
    Some(disk.counters)
}

fn done(kind: &KindStats, bytes: u64, offered_iops: Option<f64>, seconds: f64) -> DirectionResult {
    let service = latency(&kind.clat, 0);
    // Operations that never completed count as slower than all others: each was due before the last completion.
    let answer = if offered_iops.is_some() {
        latency(&kind.response_times(), kind.undone)
    } else {
        service.clone()
    };
    // Operations that completed after the end are not counted: with a deep queue, they can be a tenth of a short job.
    let in_time = kind.ops.saturating_sub(kind.overtime) as f64;
    let iops = if seconds > 0.0 {
        in_time / seconds
    } else {
        0.0
    };
    let bytes_each = if kind.ops > 0 {
        kind.bytes as f64 / kind.ops as f64
    } else {
        bytes as f64
    };
    DirectionResult {
        bytes_each,
        offered_iops,
        ops: kind.ops,
        iops,
        mbps: iops * bytes_each / 1e6,
        errors: kind.errors,
        undone: kind.undone,
        service,
        answer,
    }
}

/// Summary of `durations`, and of `unknown` further operations, which are slower than all `durations`. Percentiles that
/// fall among the further operations are left out.
fn latency(durations: &RunHistogram, unknown: u64) -> LatencyStats {
    if durations.is_empty() {
        return LatencyStats::default();
    }
    let us = |ns: f64| ns / 1e3;
    let unknown_factor = (durations.len() + unknown) as f64 / durations.len() as f64;
    let known = LatencyStats::PERCENTILES
        .iter()
        .map(|percent| percent * unknown_factor)
        .take_while(|percent| *percent <= 100.0);
    LatencyStats {
        mean_us: us(durations.mean()),
        stdev_us: us(durations.stdev()),
        min_us: us(durations.min() as f64),
        max_us: us(durations.max() as f64),
        percentiles_us: known
            .map(|percent| us(durations.value_at_percentile(percent) as f64))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_never_completed_count_as_slower_than_all_others() {
        let mut durations = RunHistogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        (1..=80).for_each(|number| durations.record(number * 1_000).unwrap());
        let near = |latency: &LatencyStats, percent, us: f64| {
            let at = latency.at(percent).unwrap();
            assert!(
                (at - us).abs() <= us / 500.0,
                "{percent} %: {at}, not {us} us"
            );
        };
        let all = latency(&durations, 0);
        near(&all, 50.0, 40.0);
        near(&all, 90.0, 72.0);
        let of_100 = latency(&durations, 20);
        near(&of_100, 40.0, 40.0);
        near(&of_100, 70.0, 70.0);
        near(&of_100, 80.0, 80.0);
        assert_eq!(of_100.at(90.0), None, "longer than all that were done");
        assert_eq!(
            latency(&RunHistogram::new_with_bounds(1, 1 << 40, 3).unwrap(), 5),
            LatencyStats::default()
        );
    }
}
