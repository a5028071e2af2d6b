//! A row from the record of its run, and the limiting resource.

use super::page::{Row, Side};
use super::{Running, Site, Table};
use load::workload::records::{READS, WRITES};
use report::text::Summary;
use results::cell::Interval;
use results::judge::{SliceShares, Verdict};
use results::run_dir::{Intervals, Manifest, read};
use results::telemetry::{Column, ColumnOf};
use results::units;
use session::failure::Failure;
use session::recording::Watch;
use std::path::Path;
use store::IoCounted;
use store::embedded::VIRTUAL_CPU_NS;
use sys::process::process_cpu_ns;

/// Busy fraction from which the CPU is the limit.
const BUSY_MIN: f64 = 0.9;

/// Fraction of the requested rate that counts as held.
const HELD_MIN: f64 = 0.99;

/// Fraction of the transactions in flight that must wait for the drive to make it the limit.
const AT_DRIVE_MIN: f64 = 0.5;

/// I/O of the devices, and CPU time of this process, in a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    io: IoCounted,
    cpu_ns: u64,
}

/// Observes a run from within. The observation ends with the last interval, so the writes of a closing store are
/// excluded.
pub(super) struct Watched<'a> {
    io: &'a dyn Fn() -> IoCounted,
    before: Seen,
    after: Seen,
}

impl<'a> Watched<'a> {
    pub(super) fn new(io: &'a dyn Fn() -> IoCounted) -> Self {
        Self { io, before: Seen::default(), after: Seen::default() }
    }

    fn now(&self) -> Seen {
        Seen { io: (self.io)(), cpu_ns: process_cpu_ns().unwrap_or(0) }
    }

    pub(super) fn seen(&self) -> Seen {
        let io = self.after.io.since(&self.before.io);
        Seen { io, cpu_ns: self.after.cpu_ns.saturating_sub(self.before.cpu_ns) }
    }
}

impl Watch for Watched<'_> {
    fn begins(&mut self, _: &Manifest) {
        self.before = self.now();
    }

    fn interval(&mut self, _: &Interval) -> Option<String> {
        self.after = self.now();
        None
    }
}

impl Table<'_> {
    /// The row of the run in `dir`.
    pub(super) fn measured(
        &self,
        running: &Running,
        inserted_per_sec: f64,
        verdict: &Verdict,
        dir: &Path,
        seen: &Seen,
    ) -> Result<Row, Failure> {
        let Running { kind, keys, cores, .. } = *running;
        let Seen { io, cpu_ns } = *seen;
        let over_loopback = matches!(running.site, Site::Loopback(_));
        let copies = if kind.replicated { 2 } else { 1 };
        let summary = Summary::read(dir).map_err(Failure::environment)?;
        let side = |stream: &str| {
            let group = verdict.groups.iter().find(|group| group.stream == stream)?;
            let sum = |of: fn(&SliceShares) -> u64| group.slices.iter().map(of).sum::<u64>();
            let over = sum(|slice| slice.judged_over.first().copied().unwrap_or(0));
            let service = &summary.latencies.iter().find(|latencies| latencies.stream == stream)?.service;
            Some(Side {
                under_first: 1.0 - over as f64 / sum(|slice| slice.wanted).max(1) as f64,
                stddev_ms: service.stddev_ns as f64 / 1e6,
                mean_ms: service.mean_ns as f64 / 1e6,
            })
        };
        let ran_sec = verdict.ran_sec.max(1e-9);
        let tps: f64 = verdict.streams.iter().map(|stream| stream.achieved_iops).sum();
        let host = Host::read(dir)?;
        // A simulated drive takes no CPU time.
        let cpu_busy_pct = host.cpu_busy_pct.filter(|_| !self.is_simulated());
        let cpu_sec = match () {
            // A simulated core takes its nominal time.
            () if self.is_simulated() => tps * ran_sec * VIRTUAL_CPU_NS as f64 / 1e9,
            // The servers' CPU time is the part that is not the clients'.
            () if over_loopback => (cpu_ns as f64 / 1e9 - host.issuing_cpu_sec).max(0.0),
            () => host.issuing_cpu_sec,
        };
        let all_cores = f64::from(cores) * f64::from(copies);
        let busy = cpu_sec / ran_sec / all_cores;
        let operations = (io.reads + io.writes) as f64;
        let drive_ms = if operations > 0.0 { io.service_ns as f64 / operations / 1e6 } else { 0.0 };
        let queue = io.service_ns as f64 / 1e9 / ran_sec;
        let at_once = self.args.connections;
        let limit = match () {
            // A requested rate that was held is the limit, even if a CPU is busy.
            () if self.args.rate.is_some_and(|rate| tps >= HELD_MIN * rate as f64) => {
                "the rate that was asked for (-g)".to_owned()
            }
            () if busy >= BUSY_MIN => {
                let whose = if over_loopback { "servers: " } else { "" };
                format!("CPU: {whose}{} of {} busy", units::percent_whole(busy), units::count(all_cores as u64, "core"))
            }
            () if cpu_busy_pct.is_some_and(|pct| pct >= 100.0 * BUSY_MIN) && over_loopback => {
                let clients = host.issuing_cpu_sec / (host.issuing_cpu_sec + cpu_sec).max(1e-9);
                format!(
                    "CPU: all of this machine is busy, with {} of this program's time for the clients",
                    units::percent_whole(clients)
                )
            }
            () if cpu_busy_pct.is_some_and(|pct| pct >= 100.0 * BUSY_MIN) => {
                "CPU: all of this machine is busy".to_owned()
            }
            () if over_loopback && queue < AT_DRIVE_MIN * f64::from(at_once) => format!(
                "the way between clients and servers: of {at_once} transactions at once (-z) {} are at the drive",
                units::number(queue)
            ),
            () => format!("drive: {drive_ms:.3} ms each, at {at_once} transactions at once (-z)"),
        };
        Ok(Row {
            record_size: kind.to_string(),
            record_bytes: kind.bytes,
            copies,
            over_loopback,
            keys,
            transactions_at_once: at_once,
            cores,
            transactions_per_sec: tps,
            transactions_per_cpu: (cpu_sec > 0.0 && !self.is_simulated()).then(|| tps * ran_sec / cpu_sec),
            inserted_per_sec,
            inserts_that_waited: running.overload.waited(),
            reads: side(READS),
            writes: side(WRITES),
            database_bytes: u64::from(keys) * u64::from(kind.bytes) * u64::from(copies),
            read_mb_per_sec: io.read_bytes as f64 / 1e6 / ran_sec,
            write_mb_per_sec: io.write_bytes as f64 / 1e6 / ran_sec,
            average_queue: queue,
            average_drive_ms: drive_ms,
            cpu_busy_pct,
            limit,
            outcome: verdict.outcome.to_string(),
            run_directory: dir.display().to_string(),
            exit_code: verdict.outcome.exit_code(),
            threshold_ns: verdict.thresholds_ns.first().copied().unwrap_or(0),
        })
    }
}

/// CPU usage of the host during a run.
struct Host {
    /// CPU time of the issuing threads, seconds.
    issuing_cpu_sec: f64,
    /// Busy fraction of all CPUs of the machine, percent.
    cpu_busy_pct: Option<f64>,
}

impl Host {
    /// Reads the values from the tables of the run in `dir`.
    fn read(dir: &Path) -> Result<Self, Failure> {
        let manifest = read(dir).map_err(Failure::environment)?.manifest;
        let mut intervals = Intervals::open(dir, &manifest).map_err(Failure::environment)?;
        let is_busy = |name: &String| ColumnOf::parse(name).is_some_and(|known| known.column == Column::CpuBusyPct);
        let at = intervals.columns().iter().position(is_busy);
        let (mut cpu_ns, mut busy) = (0, Vec::new());
        while let Some(record) = intervals.next().map_err(Failure::environment)? {
            cpu_ns += record.counts.cpu_ns;
            busy.extend(at.and_then(|at| record.telemetry.get(at)?.parse::<f64>().ok()));
        }
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        Ok(Self { issuing_cpu_sec: cpu_ns as f64 / 1e9, cpu_busy_pct: (!busy.is_empty()).then_some(mean) })
    }
}
