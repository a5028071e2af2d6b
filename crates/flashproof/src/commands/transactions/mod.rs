//! `flashproof transactions [DEVICE]`: how many transactions a record engine does on a drive, and what limits them.
//!
//! ```text
//! a row: format -> insert -> warm up -> measure      each a run of its own, with its directory and report
//! ```
//!
//! On a device each run opens the store anew, as a restart of a database does; on a simulated drive, which lives as long as this
//! process, it goes on with the one before.

mod page;

use crate::args::TransactionsArgs;
use crate::commands::client::test_args;
use crate::commands::test::default_dir;
use crate::console;
use crate::devices::{Consents, Devices};
use crate::engine::{Demand, Engine};
use crate::failure::Failure;
use crate::in_process::{InProcess, began};
use crate::output_file::write_page;
use crate::recording::Watch;
use crate::runner::{Ended, Named, Opened, RunRequest, SeriesContext, findings, fresh_seed, run as run_request};
use crate::signals::Switch;
use engine::DeviceName;
use load::choice::Engine as Wanted;
use load::keys::Keys;
use load::rate::Rate;
use load::workload::Workload;
use load::workload::records::{Mix, READS, Records, WRITES};
use page::{Row, Side};
use report::latencies::Summary;
use results::cell::Interval;
use results::finding::Finding;
use results::judge::Verdict;
use results::run_dir::{Intervals, Manifest, read};
use results::telemetry::{Column, ColumnOf};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use store::embedded::{IoCounted, IoCounts, VIRTUAL_CPU_NS};
use store::object::{Object, Value};
use store::{DEVICE_HEADER_BYTES, DeviceHeader, Namespace};

/// Share of the device that the records of a row fill by default: below the mark at which blocks are collected.
const FILL: f64 = 0.4;

/// Most records by default, as in the table beside which a row is laid.
const KEYS_MAX: u64 = 100_000_000;

/// What a record takes beside its value: its header on the device, rounded.
const RECORD_HEADER_BYTES: u64 = 96;

/// Fewest blocks of a core's space.
const BLOCKS_MIN: u64 = 16;

/// Longest insertion, seconds.
const INSERT_SEC: u64 = 30 * 86_400;

/// From this share of the time on, the CPU is what limits.
const BUSY_MIN: f64 = 0.9;

/// From this share of a rate on it was held.
const HELD_MIN: f64 = 0.99;

/// Runs the rows, and shows the table.
pub fn run(args: &TransactionsArgs) -> Result<ExitCode, Failure> {
    if args.workload == Mix::Insert {
        return Err(Failure::usage("cannot measure an insertion - each row begins with one - give RU,PCT"));
    }
    let dir = args.record.out.clone().unwrap_or_else(|| default_dir("transactions"));
    std::fs::create_dir_all(&dir)
        .map_err(|error| Failure::environment(format!("cannot create {} - {error}", dir.display())))?;
    let table = Table { args, dir: &dir, seed: args.seed.unwrap_or_else(fresh_seed) };
    let (device, file) = table.device()?;
    let switch = Switch::install("the table has no further row", crate::commands::Manner::Own)?;
    let rows = table.rows(&device, &switch);
    if let Some(file) = file {
        // Nobody asked for it to stay; that it does is no reason to fail.
        let _ = std::fs::remove_file(file);
    }
    let rows = rows?;
    if let Some(path) = &args.json {
        write_page(path, &page::json(&rows)?)?;
    }
    console::result(&format!("\n{}\nrun directories: {}\n", page::text(&rows), dir.display()))?;
    let codes = rows.iter().map(|row| row.exit_code);
    Ok(ExitCode::from(codes.max().unwrap_or(0)))
}

struct Table<'a> {
    args: &'a TransactionsArgs,
    dir: &'a Path,
    seed: u64,
}

/// What a run is to do.
struct Phase<'a> {
    name: &'a str,
    mix: Mix,
    rate: Option<u64>,
    duration_sec: u64,
}

/// The first of a row.
const INSERT: Phase<'static> = Phase { name: "insert", mix: Mix::Insert, rate: None, duration_sec: INSERT_SEC };

/// What is seen of a run from within: what was done to the device before it began.
#[derive(Default)]
struct Seen {
    counts: Arc<IoCounts>,
    before: IoCounted,
    /// With the last interval: what the store writes when it is closed is no part of the run.
    after: IoCounted,
}

impl Watch for Seen {
    fn begins(&mut self, _: &Manifest) {
        self.before = self.counts.now();
    }

    fn interval(&mut self, _: &Interval) -> Option<String> {
        self.after = self.counts.now();
        None
    }
}

impl Table<'_> {
    /// The device, and a file that is to go in the end.
    fn device(&self) -> Result<(DeviceName, Option<PathBuf>), Failure> {
        match &self.args.device {
            Some(name) => Ok((name.parse().map_err(|error: engine::sim::SpecError| Failure::usage(error))?, None)),
            None => {
                let file = self.dir.join("store");
                let name =
                    file.to_str().ok_or_else(|| Failure::usage("cannot use a directory whose name is no text"))?;
                Ok((DeviceName::Path(name.to_owned()), Some(file)))
            }
        }
    }

    fn is_file(&self, device: &DeviceName) -> bool {
        let kind = std::fs::metadata(device.as_str()).map(|metadata| metadata.is_file());
        device.drive().is_none() && kind.unwrap_or(true)
    }

    /// All rows, on devices that are opened once: the user is asked once.
    fn rows(&self, device: &DeviceName, switch: &Switch) -> Result<Vec<Row>, Failure> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u16);
        let cores = if device.drive().is_some() { 1 } else { self.args.threads.unwrap_or(cpus) };
        let probe = self.workload(device, cores, 16, 1, &INSERT);
        let consents = Consents { erase: &self.args.erase, others: &[], shared: false };
        let mut devices = Devices::open(&probe.spec(), std::iter::once(&probe), &consents)?;
        let findings = findings(&probe.spec(), self.dir);
        let mut rows = Vec::new();
        for bytes in &self.args.rows {
            let (row, same) = self.row(*bytes, device, cores, devices, &findings, switch)?;
            rows.push(row);
            devices = same;
        }
        Ok(rows)
    }

    fn workload(&self, device: &DeviceName, cores: u16, record_bytes: u32, keys: u32, phase: &Phase<'_>) -> Records {
        let block = u64::from(Namespace::new("").write_block_bytes);
        Records {
            target: device.clone(),
            file_size_bytes: self.is_file(device).then_some(self.args.size),
            device_bytes_min: DEVICE_HEADER_BYTES + u64::from(cores) * BLOCKS_MIN * block,
            keys,
            first_key: 0,
            mix: phase.mix,
            next_key: Keys::Uniform,
            record_bytes,
            depth: self.args.connections.max(cores.into()),
            rate: phase.rate.map(Rate::per_sec),
            threads: cores.into(),
            duration_sec: phase.duration_sec,
            seed: Some(self.seed),
        }
    }

    fn row(
        &self,
        record_bytes: u32,
        device: &DeviceName,
        cores: u16,
        devices: Devices,
        findings: &[Finding],
        switch: &Switch,
    ) -> Result<(Row, Devices), Failure> {
        let args = self.args;
        let is_simulated = device.drive().is_some();
        let mut namespace = Namespace::new("test");
        namespace.single_bin = true;
        namespace.commit_to_device = args.commit_to_device;
        namespace.post_write_blocks = args.post_write_queue;
        let mut shape = devices.shapes().remove(0);
        if is_simulated {
            // Its bytes are in memory, and in time the log has been everywhere.
            shape.size_bytes = shape.size_bytes.min(args.size);
            load::memory::check(shape.size_bytes).map_err(|why| {
                Failure::environment(format!("cannot keep what is written to {device} - {why} - give a smaller --size"))
            })?;
        }
        let stored = (u64::from(record_bytes) + RECORD_HEADER_BYTES).next_multiple_of(16);
        let room = ((shape.size_bytes - DEVICE_HEADER_BYTES) as f64 * FILL) as u64 / stored;
        let keys = args.keys.unwrap_or(room.clamp(1, KEYS_MAX) as u32).max(cores.into());
        namespace.memory_bytes = u64::from(keys) * 64 * 4 + (64 << 20);
        let object = Object {
            set: [].into(),
            bins: 1,
            value: Value::String(record_bytes),
            single_bin: true,
            replace: true,
            began: began(is_simulated),
        };
        let id = if is_simulated { self.seed } else { fresh_seed() } | 1;
        let header = DeviceHeader::new(&namespace, 1, 0, cores, id).sized(shape.size_bytes);
        if let Devices::Real(targets) = &devices {
            let write = |target: &Arc<device::target::Target>| target.write_remainder(&header.to_bytes(), 0);
            targets.iter().try_for_each(write).map_err(|error| {
                Failure::environment(format!("cannot write the header of the store to {device} - {error}"))
            })?;
        }
        let counts = Arc::new(IoCounts::default());
        let store = InProcess {
            namespace,
            header,
            device: shape,
            object: Arc::new(object),
            verify: args.verify,
            counts: counts.clone(),
            seed: self.seed,
            pool: Arc::default(),
        };
        let demand = Demand { engine: Wanted::Auto, ..Demand::default() };
        let engine = Engine::choose(&demand, &devices)?.with_store(store);
        let opened = Opened { devices, engine };
        let name = page::size_name(record_bytes);
        let measured = |sec: u32, name| Phase { name, mix: args.workload, rate: args.rate, duration_sec: sec.into() };
        let phases = [INSERT, measured(args.warm_up, "warm-up"), measured(args.duration, "measure")];
        let mut inserted_per_sec = 0.0;
        let mut last = None;
        for phase in &phases {
            let run_dir = self.dir.join(&name).join(phase.name);
            let mut seen = Seen { counts: counts.clone(), ..Seen::default() };
            let verdict = self.run(
                self.workload(device, cores, record_bytes, keys, phase),
                run_dir.clone(),
                &opened,
                findings.to_vec(),
                &mut seen,
                switch,
                &name,
                phase,
            )?;
            let failed: u64 = verdict.streams.iter().map(|stream| stream.errors + stream.unissued).sum();
            if phase.mix == Mix::Insert {
                inserted_per_sec = verdict.streams.iter().map(|stream| stream.achieved_iops).sum();
                if failed > 0 || switch.was_asked().is_some() {
                    let first = verdict.failures.first().map(|first| format!(": {first}")).unwrap_or_default();
                    return Err(Failure::device(format!(
                        "cannot go on with records of {name} - not all of them could be inserted{first} - what was recorded is in {}",
                        run_dir.display()
                    )));
                }
            }
            last = Some((verdict, run_dir, seen));
        }
        let Some((verdict, run_dir, seen)) = last else { unreachable!("a row has phases") };
        let io = seen.after.since(&seen.before);
        let row =
            self.measured(name, record_bytes, keys, cores, is_simulated, inserted_per_sec, &verdict, &run_dir, io)?;
        Ok((row, opened.devices))
    }

    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        workload: Records,
        dir: PathBuf,
        opened: &Opened,
        findings: Vec<Finding>,
        seen: &mut Seen,
        switch: &Switch,
        row: &str,
        phase: &Phase<'_>,
    ) -> Result<Verdict, Failure> {
        let args = test_args(&self.args.record, dir.clone());
        let purpose = format!("{row}, {}", phase.name);
        let request = RunRequest {
            workloads: Named::alone(workload, std::env::args().skip(1).collect::<Vec<_>>().join(" ")),
            dir,
            consents: Consents { erase: &[], others: &[], shared: false },
            opened: Some(opened),
            sla: args.sla,
            slice_sec: args.slice.into(),
            round_sec: None,
            max_errors: args.max_errors,
            part: SeriesContext {
                purpose: Some(purpose.clone()),
                findings: Some(findings),
                heading: Some(purpose),
                ..SeriesContext::default()
            },
            quiet: args.quiet,
            act_log: false,
            trace: phase.name == "measure",
        };
        match run_request(request, switch, seen)? {
            Ended::Recorded(verdict) => Ok(*verdict),
            Ended::Unrecorded { failure, .. } => Err(failure),
        }
    }

    /// The row that follows from the run in `dir`.
    #[allow(clippy::too_many_arguments)]
    fn measured(
        &self,
        name: String,
        record_bytes: u32,
        keys: u32,
        cores: u16,
        is_simulated: bool,
        inserted_per_sec: f64,
        verdict: &Verdict,
        dir: &Path,
        io: IoCounted,
    ) -> Result<Row, Failure> {
        let summary = Summary::read(dir).map_err(Failure::environment)?;
        let side = |stream: &str| {
            let group = verdict.groups.iter().find(|group| group.stream == stream)?;
            let sum = |of: fn(&results::judge::SliceShares) -> u64| group.slices.iter().map(of).sum::<u64>();
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
        // What a simulated core does takes the time that it is said to take.
        let cpu_sec = if is_simulated { tps * ran_sec * VIRTUAL_CPU_NS as f64 / 1e9 } else { host.issuing_cpu_sec };
        let busy = cpu_sec / ran_sec / f64::from(cores);
        let operations = (io.reads + io.writes) as f64;
        let drive_ms = if operations > 0.0 { io.service_ns as f64 / operations / 1e6 } else { 0.0 };
        let queue = io.service_ns as f64 / 1e9 / ran_sec;
        let limit = match () {
            // Whoever else is busy: it was done.
            () if self.args.rate.is_some_and(|rate| tps >= HELD_MIN * rate as f64) => {
                "the rate that was asked for (-g)".to_owned()
            }
            () if busy >= BUSY_MIN => {
                format!(
                    "CPU: {} of {cores} {} busy",
                    results::units::percent_whole(busy),
                    if cores == 1 { "core" } else { "cores" }
                )
            }
            () if host.cpu_busy_pct.is_some_and(|pct| pct >= 100.0 * BUSY_MIN) => {
                "CPU: all of this machine is busy".to_owned()
            }
            () => format!("drive: {drive_ms:.3} ms each, at {} transactions at once (-z)", self.args.connections),
        };
        Ok(Row {
            record_size: name,
            record_bytes,
            keys,
            transactions_at_once: self.args.connections,
            cores,
            transactions_per_sec: tps,
            transactions_per_cpu: if cpu_sec > 0.0 { tps * ran_sec / cpu_sec } else { 0.0 },
            inserted_per_sec,
            reads: side(READS),
            writes: side(WRITES),
            database_bytes: u64::from(keys) * u64::from(record_bytes),
            read_mb_per_sec: io.read_bytes as f64 / 1e6 / ran_sec,
            write_mb_per_sec: io.write_bytes as f64 / 1e6 / ran_sec,
            average_queue: queue,
            average_drive_ms: drive_ms,
            cpu_busy_pct: if is_simulated { Some(100.0 * busy) } else { host.cpu_busy_pct },
            limit,
            outcome: verdict.outcome.to_string(),
            run_directory: dir.display().to_string(),
            exit_code: verdict.outcome.exit_code(),
            threshold_ns: verdict.thresholds_ns.first().copied().unwrap_or(0),
        })
    }
}

/// What the host did during a run.
struct Host {
    /// CPU time of the issuing threads, seconds.
    issuing_cpu_sec: f64,
    /// Of all CPUs of the machine, percent.
    cpu_busy_pct: Option<f64>,
}

impl Host {
    /// From the tables of the run in `dir`.
    fn read(dir: &Path) -> Result<Self, Failure> {
        let manifest = read(dir).map_err(Failure::environment)?.manifest;
        let mut intervals = Intervals::open(dir, &manifest).map_err(Failure::environment)?;
        let is_busy = |name: &String| ColumnOf::parse(name).is_some_and(|known| known.column == Column::CpuBusyPct);
        let at = intervals.columns().iter().position(is_busy);
        let (mut cpu_ns, mut busy) = (0, Vec::new());
        while let Some(record) = intervals.next().map_err(Failure::environment)? {
            cpu_ns += record.cpu_ns;
            busy.extend(at.and_then(|at| record.telemetry.get(at)?.parse::<f64>().ok()));
        }
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        Ok(Self { issuing_cpu_sec: cpu_ns as f64 / 1e9, cpu_busy_pct: (!busy.is_empty()).then_some(mean) })
    }
}
