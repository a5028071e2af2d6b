//! `flashproof engine bench [DEVICE]`: measures the transactions of a record engine on a drive, and finds the limit.
//!
//! ```text
//! a row: format -> insert -> warm up -> measure      each is a run with its own directory and report
//! ```
//!
//! On a device each run opens the store again, like a restart of a database. On a simulated drive, which exists only in
//! this process, each run continues with the store of the previous run. With `--loopback` a server keeps the store open
//! for the whole row (`Loopback`).

mod measured;
pub mod options;
mod page;

use crate::commands::engine::bench::options::{RowKind, TransactionsArgs};
use crate::commands::engine::client::{command_line, threads};
use crate::commands::engine::formatting;
use engine::DeviceName;
use load::choice::Engine as Wanted;
use load::keys::Keys;
use load::rate::Rate;
use load::records::{Mix, RecordWorkload};
use load::workload::{DeviceShape, RunSpec, Workload};
use measured::{Loopback, RunUsage, UsageObserver};
use page::Row;
use results::files;
use results::finding::Finding;
use results::judge::Verdict;
use session::clock::fresh_seed;
use session::devices::{Consents, Devices};
use session::engine::{Engine, EngineDemand};
use session::failure::Failure;
use session::in_process::{InProcess, began};
use session::run_directory::default_dir;
use session::runner::{NamedWorkload, OpenDevices, RunRequest, cpus, findings, run as run_request};
use session::signals::SignalHandler;
use session::user_file::write_file;
use session::{CompatMode, console};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use store::object::{RecordSpec, ValueType};
use store::{
    DEVICE_HEADER_BYTES, DeviceHeader, IoCounts, IoSnapshot, NamespaceSettings, Overload,
    Verification,
};

/// Default fill of the device by the records of a row: below the fill at which defragmentation starts.
const FILL: f64 = 0.4;

/// Maximum of the default number of records, as in the published table.
const KEYS_MAX: u64 = 100_000_000;

/// Overhead of a record on the device, rounded, bytes.
const RECORD_HEADER_BYTES: u64 = 96;

/// Minimum number of blocks in a core's space.
const BLOCKS_MIN: u64 = 16;

/// Maximum duration of the insertion, seconds.
const INSERT_SEC: u64 = 30 * 86_400;

fn requested_rows(
    args: &TransactionsArgs,
    dir: &Path,
) -> Result<(Vec<RowKind>, Vec<DeviceName>), Failure> {
    let devices = args
        .devices
        .iter()
        .map(|name| name.parse::<DeviceName>())
        .collect::<Result<Vec<_>, _>>();
    let devices = devices.map_err(Failure::usage)?;
    if args.loopback
        && let Some(simulated) = devices.iter().find(|name| name.drive().is_some())
    {
        return Err(Failure::usage(format!(
            "cannot run a server on {simulated} - a simulated drive has simulated time, but a server runs in real time \
             - name a device or file, or leave out --loopback"
        )));
    }
    let default_kinds = [1_024, 2_048, 4_096].map(|bytes| RowKind {
        bytes,
        replicated: false,
    });
    let replicated = RowKind {
        bytes: 1_024,
        replicated: true,
    };
    let kinds = args.rows.clone().unwrap_or_else(|| {
        let more = (args.loopback && devices.len() != 1).then_some(replicated);
        default_kinds.into_iter().chain(more).collect()
    });
    let is_again = |(at, kind): (usize, &RowKind)| kinds[..at].contains(kind).then_some(*kind);
    if let Some(kind) = kinds.iter().enumerate().find_map(is_again) {
        return Err(Failure::usage(format!(
            "cannot measure row {kind} twice - both would use the same run directory - name the row once, and repeat \
             the command"
        )));
    }
    let block_bytes = NamespaceSettings::new("").write_block_bytes;
    if let Some(kind) = kinds
        .iter()
        .find(|kind| u64::from(kind.bytes) + RECORD_HEADER_BYTES > block_bytes.into())
    {
        return Err(Failure::usage(format!(
            "cannot measure row {kind} - a record with its header of about {RECORD_HEADER_BYTES} bytes is larger than \
             a write block of {block_bytes} bytes - give a smaller record size"
        )));
    }
    let replicates = kinds.iter().find(|kind| kind.replicated);
    match (replicates, devices.len()) {
        (Some(kind), _) if !args.loopback => Err(Failure::usage(format!(
            "cannot measure row {kind} in one store - replication needs two servers - give --loopback, or leave out \
             the row"
        ))),
        (Some(kind), 1..) if devices.first() == devices.last() => Err(Failure::usage(format!(
            "cannot measure row {kind} on {} alone - each of the two servers needs its own device - name two devices, \
             or none to use two files, or leave out the row",
            devices[0]
        ))),
        (None, 2) => Err(Failure::usage(format!(
            "cannot use {} - only rows with replication use a second device - add 1k-replicated to --rows and \
             give --loopback, or leave out the device",
            devices[1]
        ))),
        (_, 0) => {
            let names = ["store", "store-2"]
                .into_iter()
                .take(if replicates.is_some() { 2 } else { 1 });
            let names = names
                .map(|name| {
                    dir.join(name)
                        .to_str()
                        .map(|name| DeviceName::Path(name.to_owned()))
                })
                .collect::<Option<Vec<_>>>();
            Ok((
                kinds,
                names.ok_or_else(|| {
                    Failure::usage(
                        "cannot use this run directory - its name is not UTF-8 text - give another --out",
                    )
                })?,
            ))
        }
        _ => Ok((kinds, devices)),
    }
}

pub fn run(args: &TransactionsArgs) -> Result<ExitCode, Failure> {
    if args.workload == Mix::Insert {
        return Err(Failure::usage(
            "cannot measure insertions (-w I) - each row begins with an insertion anyway - give -w RU,PCT",
        ));
    }
    // Check the file before hours are spent.
    write_table(args, None)?;
    let dir = args
        .record
        .out
        .clone()
        .unwrap_or_else(|| default_dir("transactions"));
    let (kinds, names) = requested_rows(args, &dir)?;
    // Check the names before a store is formatted.
    let existing = kinds
        .iter()
        .map(|kind| dir.join(kind.to_string()))
        .find(|row| fs::symlink_metadata(row).is_ok());
    if let Some(row) = existing {
        return Err(Failure::usage(format!(
            "cannot record a row in {} - it exists already - give --out another directory",
            row.display()
        )));
    }
    let new_dirs = files::create_dirs(&dir).map_err(|error| {
        Failure::environment(format!("cannot create {} - {error}", dir.display()))
    })?;
    // The user did not name the files of the store, so the files that this command creates are removed at the end.
    let created: Vec<_> = names
        .iter()
        .filter(|name: &&DeviceName| {
            args.devices.is_empty() && fs::symlink_metadata(name.as_str()).is_err()
        })
        .cloned()
        .collect();
    let signal_handler = SignalHandler::install(
        "no table is shown; finished runs are recorded",
        CompatMode::Native,
    )?;
    let rows_request = RowsRequest {
        args,
        dir: &dir,
        names,
        seed: args.seed.unwrap_or_else(fresh_seed),
        signal_handler,
    };
    let rows = rows_request.rows(&kinds);
    for name in &created {
        // Missing if the guard refused to create the file.
        let _ = files::remove_file(Path::new(name.as_str()));
    }
    let rows = rows.inspect_err(|_| new_dirs.remove())?;
    write_table(args, Some(&crate::output::json(&rows)?))?;
    let row_dirs: Vec<_> = kinds
        .iter()
        .map(|kind| dir.join(kind.to_string()).display().to_string())
        .collect();
    console::page(&format!(
        "\n{}\nthe runs of a row: flashproof report {}\n",
        page::text(&rows),
        row_dirs.join(", or ")
    ))?;
    let codes = rows.iter().map(|row| row.exit_code);
    Ok(ExitCode::from(codes.max().unwrap_or(0)))
}

/// Writes `text` to the file of --json, if given; `None`: only checks.
fn write_table(args: &TransactionsArgs, text: Option<&str>) -> Result<(), Failure> {
    match &args.json {
        Some(path) => write_file("table", path, text, args.force),
        None => Ok(()),
    }
}

struct RowsRequest<'a> {
    args: &'a TransactionsArgs,
    dir: &'a Path,
    /// Devices; only rows with replication use the second.
    names: Vec<DeviceName>,
    seed: u64,
    signal_handler: SignalHandler,
}

struct Phase<'a> {
    name: &'a str,
    mix: Mix,
    rate: Option<u64>,
    duration_sec: u64,
}

/// The first run of a row.
const INSERT: Phase<'static> = Phase {
    name: "insert",
    mix: Mix::Insert,
    rate: None,
    duration_sec: INSERT_SEC,
};

/// The store or the servers, in this process, that perform the transactions of a row.
enum Backend {
    Store(Box<OpenDevices>),
    Loopback(Loopback),
}

struct RowInProgress {
    kind: RowKind,
    keys: u32,
    backend: Backend,
    object: RecordSpec,
    /// Enabled during insertions: transactions then wait while a device is overloaded, and are counted.
    overload: Arc<Overload>,
    io: Box<dyn Fn() -> IoSnapshot>,
}

impl RowsRequest<'_> {
    fn is_simulated(&self) -> bool {
        self.names[0].drive().is_some()
    }

    fn is_file(&self) -> bool {
        let kind = std::fs::metadata(self.names[0].as_str()).map(|metadata| metadata.is_file());
        !self.is_simulated() && kind.unwrap_or(true)
    }

    /// Cores of the store, or of each server.
    fn cores(&self) -> u16 {
        if self.is_simulated() {
            1
        } else {
            self.args.threads.unwrap_or(cpus() as u16)
        }
    }

    /// All rows. The devices are opened once, so that the user is asked for consent once.
    fn rows(&self, kinds: &[RowKind]) -> Result<Vec<Row>, Failure> {
        let mut probes = Vec::new();
        for name in &self.names {
            probes.push(self.workload(name.clone(), self.cores().into(), 16, 1, &INSERT));
        }
        let specs: Vec<_> = probes.iter().map(Workload::spec).collect();
        let spec = RunSpec::joined(&specs)
            .map_err(|why| Failure::usage(format!("cannot use these devices together - {why}")))?;
        let consents = Consents::erasing(&self.args.consent.erase);
        let loads: Vec<&dyn Workload> = probes.iter().map(|probe| probe as _).collect();
        let mut devices = Devices::open(&spec, &loads, &consents)?;
        let findings = findings(&spec, self.dir);
        let mut rows = Vec::new();
        for kind in kinds {
            let row;
            (row, devices) = self.row(*kind, devices, &findings)?;
            rows.push(row);
        }
        Ok(rows)
    }

    fn workload(
        &self,
        target: DeviceName,
        threads: u32,
        record_bytes: u32,
        keys: u32,
        phase: &Phase<'_>,
    ) -> RecordWorkload {
        let block = u64::from(NamespaceSettings::new("").write_block_bytes);
        let is_device = self.names.contains(&target);
        RecordWorkload {
            file_size_bytes: (is_device && self.is_file()).then_some(self.args.size),
            device_bytes_min: if is_device {
                DEVICE_HEADER_BYTES + u64::from(threads) * BLOCKS_MIN * block
            } else {
                0
            },
            target,
            keys,
            first_key: 0,
            mix: phase.mix,
            next_key: Keys::Uniform,
            record_bytes,
            batch_records: 1,
            depth: self.args.connections.max(threads),
            rate: phase.rate.map(Rate::per_sec),
            threads,
            duration_sec: phase.duration_sec,
            seed: Some(self.seed),
        }
    }

    fn row(
        &self,
        kind: RowKind,
        devices: Devices,
        findings: &[Finding],
    ) -> Result<(Row, Devices), Failure> {
        let (row_in_progress, devices) = self.format(kind, devices)?;
        let run = |phase: &Phase<'_>| self.run(&row_in_progress, findings.to_vec(), phase);
        let (insertion, insertion_dir, _) = run(&INSERT)?;
        let inserted_per_sec = insertion
            .streams
            .iter()
            .map(|stream| stream.achieved_iops)
            .sum();
        let failed_count: u64 = insertion
            .streams
            .iter()
            .map(|stream| stream.errors + stream.unissued)
            .sum();
        if let Backend::Loopback(loopback) = &row_in_progress.backend {
            loopback.settle(&self.signal_handler);
        }
        if failed_count > 0 || self.signal_handler.signal_received().is_some() {
            let first = insertion
                .failures
                .first()
                .map(|first| format!(": {first}"))
                .unwrap_or_default();
            return Err(Failure::device(format!(
                "cannot measure row {kind} - not all of its records could be inserted{first} - the insertion is \
                 recorded in {}",
                insertion_dir.display()
            )));
        }
        let args = self.args;
        let measured = |sec: u32, name| Phase {
            name,
            mix: args.workload,
            rate: args.rate,
            duration_sec: sec.into(),
        };
        run(&measured(args.warm_up, "warm-up"))?;
        let (verdict, run_dir, usage) = run(&measured(args.duration, "measure"))?;
        let row = self.measured(
            &row_in_progress,
            inserted_per_sec,
            &verdict,
            &run_dir,
            &usage,
        )?;
        let devices = match row_in_progress.backend {
            Backend::Store(opened) => Some(opened.devices),
            Backend::Loopback(loopback) => {
                loopback.stop()?;
                devices
            }
        };
        Ok((
            row,
            devices.expect("the store or the caller has the devices"),
        ))
    }

    /// Formats a row's devices, opens the store or starts servers. Returns the devices unless the store owns them.
    fn format(
        &self,
        kind: RowKind,
        devices: Devices,
    ) -> Result<(RowInProgress, Option<Devices>), Failure> {
        let args = self.args;
        let cores = self.cores();
        let is_simulated = self.is_simulated();
        let mut namespace = NamespaceSettings::new("test");
        namespace.single_bin = true;
        namespace.commit_to_device = args.commit_to_device;
        namespace.post_write_blocks = args.post_write_queue;
        let mut shapes = devices.shapes();
        shapes.truncate(if kind.replicated { 2 } else { 1 });
        if is_simulated {
            // A simulated drive keeps its bytes in memory, and the store's log eventually fills them all.
            shapes[0].size_bytes = shapes[0].size_bytes.min(args.size);
            load::memory::check(shapes[0].size_bytes).map_err(|why| {
                let name = &self.names[0];
                Failure::environment(format!(
                    "cannot keep the data of {name} in memory - {why} - give a smaller --size"
                ))
            })?;
        }
        let least_bytes = shapes
            .iter()
            .map(|shape| shape.size_bytes)
            .min()
            .unwrap_or(0);
        let stored_bytes = (u64::from(kind.bytes) + RECORD_HEADER_BYTES).next_multiple_of(16);
        let capacity_records =
            (least_bytes.saturating_sub(DEVICE_HEADER_BYTES) as f64 * FILL) as u64 / stored_bytes;
        let keys = args
            .keys
            .unwrap_or(capacity_records.clamp(1, KEYS_MAX) as u32)
            .max(cores.into());
        namespace.memory_bytes = u64::from(keys) * 64 * 4 + (64 << 20);
        let object = RecordSpec {
            set: [].into(),
            bins: 1,
            value: ValueType::String(kind.bytes),
            single_bin: true,
            replace: true,
            began: began(is_simulated),
        };
        let headers: Vec<_> = shapes
            .iter()
            .map(|shape: &DeviceShape| {
                let set = if is_simulated {
                    self.seed
                } else {
                    fresh_seed()
                };
                DeviceHeader::new(&namespace, 1, 0, cores, set).sized(shape.size_bytes)
            })
            .collect();
        let mut formatted = Vec::new();
        if let Devices::Real(targets) = &devices {
            formatted = targets
                .iter()
                .cloned()
                .zip(headers.iter().cloned())
                .collect();
            formatting::format(&formatted).map_err(Failure::environment)?;
        }
        let overload = Arc::new(Overload::default());
        if args.loopback {
            let loopback = Loopback::start(&namespace, formatted, cores, args.connections)?;
            let io = Box::new(loopback.io());
            let running = RowInProgress {
                kind,
                keys,
                backend: Backend::Loopback(loopback),
                object,
                overload,
                io,
            };
            return Ok((running, Some(devices)));
        }
        let counts = Arc::new(IoCounts::default());
        let write_unit_bytes = formatted
            .first()
            .map(|(target, _)| store::write_unit_bytes(target));
        let store = InProcess {
            write_unit_bytes: write_unit_bytes.unwrap_or(shapes[0].min_io_bytes),
            namespace,
            header: headers[0].clone(),
            device: shapes.remove(0),
            object: Arc::new(object.clone()),
            verification: Arc::new(Verification::new(args.verify)),
            counts: counts.clone(),
            overload: overload.clone(),
            seed: self.seed,
            pool: Arc::default(),
        };
        let demand = EngineDemand {
            engine: Wanted::Auto,
            ..EngineDemand::default()
        };
        let engine = Engine::choose(&demand, &devices)?.with_store(store);
        let site = Backend::Store(Box::new(OpenDevices { devices, engine }));
        Ok((
            RowInProgress {
                kind,
                keys,
                backend: site,
                object,
                overload,
                io: Box::new(move || counts.now()),
            },
            None,
        ))
    }

    /// A run of a row. Returns its verdict, directory, and observations.
    fn run(
        &self,
        row_in_progress: &RowInProgress,
        findings: Vec<Finding>,
        phase: &Phase<'_>,
    ) -> Result<(Verdict, PathBuf, RunUsage), Failure> {
        let RowInProgress { kind, keys, .. } = *row_in_progress;
        let dir = self.dir.join(kind.to_string()).join(phase.name);
        let clients;
        let (target, issuing, opened) = match &row_in_progress.backend {
            Backend::Store(opened) => (self.names[0].clone(), self.cores().into(), &**opened),
            Backend::Loopback(loopback) => {
                // With a new start time, clients treat earlier records as records of another run.
                let object = RecordSpec {
                    began: began(false),
                    ..row_in_progress.object.clone()
                };
                let (name, opened) = loopback.opened(
                    Arc::new(object),
                    self.args.verify,
                    row_in_progress.overload.clone(),
                );
                clients = opened;
                (
                    DeviceName::Path(name),
                    threads(self.args.connections),
                    &clients,
                )
            }
        };
        let workload = self.workload(target, issuing, kind.bytes, keys, phase);
        let purpose = format!("{kind}, {}", phase.name);
        let request = RunRequest {
            dir: dir.clone(),
            opened: Some(opened),
            purpose: Some(purpose.clone()),
            findings: Some(findings),
            heading: Some(purpose),
            trace: phase.name == "measure",
            ..self
                .args
                .record
                .request(NamedWorkload::alone(workload, command_line()))
        };
        row_in_progress.overload.set_waits(phase.mix == Mix::Insert);
        let mut observer = UsageObserver::new(&row_in_progress.io);
        let verdict = run_request(request, &self.signal_handler, &mut observer)?.recorded()?;
        Ok((*verdict, dir, observer.usage()))
    }
}
