//! Computes a row of the table, and the resource that limits it, from the recorded run. Also has the servers for rows
//! that are measured over loopback.

use super::page::{LatencySummary, Row};
use super::{Backend, RowInProgress, RowsRequest};
use crate::commands::engine::client::{as_devices, check_open_files};
use load::records::{READS, WRITES};
use report::text::RunSummary;
use results::cell::Interval;
use results::format;
use results::judge::Verdict;
use results::run_dir::{Intervals, Manifest, read};
use results::telemetry::{Column, ColumnOf};
use session::console;
use session::engine::Engine;
use session::failure::Failure;
use session::recording::RunObserver;
use session::runner::OpenDevices;
use session::signals::SignalHandler;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::client::cluster::ClientCluster;
use store::client::{ClientSettings, Replica};
use store::conf::{AerospikeConf, LogLevel, NamespaceConfig};
use store::embedded::VIRTUAL_CPU_NS;
use store::nodes::Access;
use store::object::RecordSpec;
use store::observe::ServerLogLine;
use store::server::{
    ClientLimits, Cluster, ClusterNode, FormattedDevice, Server, ServerSetup, ServerState,
};
use store::{IoSnapshot, NamespaceSettings, Overload, Verification};
use sys::process::process_cpu_ns;

/// The CPU is the limit if it is busy for at least this fraction of the time.
const BUSY_MIN: f64 = 0.9;

/// Fraction of the requested rate that counts as held.
const HELD_MIN: f64 = 0.99;

/// Over loopback, the drive is the limit if at least this fraction of the transactions in flight waits for the drive;
/// otherwise the network is the limit.
const AT_DRIVE_MIN: f64 = 0.5;

/// I/O of the devices, and CPU time of this process, in a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunUsage {
    io: IoSnapshot,
    cpu_ns: u64,
}

/// Measures a run from its start to its last interval, so that the writes of a closing store are excluded.
pub(super) struct UsageObserver<'a> {
    io: &'a dyn Fn() -> IoSnapshot,
    before: RunUsage,
    after: RunUsage,
}

impl<'a> UsageObserver<'a> {
    pub(super) fn new(io: &'a dyn Fn() -> IoSnapshot) -> Self {
        Self {
            io,
            before: RunUsage::default(),
            after: RunUsage::default(),
        }
    }

    fn now(&self) -> RunUsage {
        RunUsage {
            io: (self.io)(),
            cpu_ns: process_cpu_ns().unwrap_or(0),
        }
    }

    pub(super) fn usage(&self) -> RunUsage {
        let io = self.after.io.since(&self.before.io);
        RunUsage {
            io,
            cpu_ns: self.after.cpu_ns.saturating_sub(self.before.cpu_ns),
        }
    }
}

impl RunObserver for UsageObserver<'_> {
    fn begins(&mut self, _: &Manifest) {
        self.before = self.now();
    }

    fn interval(&mut self, _: &Interval) -> Option<String> {
        self.after = self.now();
        None
    }
}

impl RowsRequest<'_> {
    pub(super) fn measured(
        &self,
        row_in_progress: &RowInProgress,
        inserted_per_sec: f64,
        verdict: &Verdict,
        dir: &Path,
        usage: &RunUsage,
    ) -> Result<Row, Failure> {
        let RowInProgress { kind, keys, .. } = *row_in_progress;
        let cores = self.cores();
        let RunUsage { io, cpu_ns } = *usage;
        let over_loopback = matches!(row_in_progress.backend, Backend::Loopback(_));
        let copies = if kind.replicated { 2 } else { 1 };
        let summary = RunSummary::read(dir).map_err(Failure::environment)?;
        let ran_sec = verdict.ran_sec.max(1e-9);
        let tps: f64 = verdict
            .streams
            .iter()
            .map(|stream| stream.achieved_iops)
            .sum();
        let host = HostCpu::read(dir)?;
        // A simulated drive takes no CPU time.
        let cpu_busy_pct = host.cpu_busy_pct.filter(|_| !self.is_simulated());
        let cpu_sec = if self.is_simulated() {
            // On a simulated core, each transaction takes the same assumed CPU time.
            tps * ran_sec * VIRTUAL_CPU_NS as f64 / 1e9
        } else if over_loopback {
            // CPU time of the servers: that of the process minus the clients' threads.
            (cpu_ns as f64 / 1e9 - host.issuing_cpu_sec).max(0.0)
        } else {
            host.issuing_cpu_sec
        };
        let all_cores = f64::from(cores) * f64::from(copies);
        let busy = cpu_sec / ran_sec / all_cores;
        let operations = (io.reads + io.writes) as f64;
        let drive_ms = if operations > 0.0 {
            io.service_ns as f64 / operations / 1e6
        } else {
            0.0
        };
        let queue = io.service_ns as f64 / 1e9 / ran_sec;
        let at_once = self.args.connections;
        let limit = if self
            .args
            .rate
            .is_some_and(|rate| tps >= HELD_MIN * rate as f64)
        {
            // A requested rate that was held is the limit, even if a CPU is busy.
            "the requested rate (-g)".to_owned()
        } else if busy >= BUSY_MIN {
            let whose = if over_loopback { "servers: " } else { "" };
            format!(
                "CPU: {whose}{} of {} busy",
                format::percent_whole(busy),
                format::count(all_cores as u64, "core")
            )
        } else if cpu_busy_pct.is_some_and(|pct| pct >= 100.0 * BUSY_MIN) && over_loopback {
            let clients = host.issuing_cpu_sec / (host.issuing_cpu_sec + cpu_sec).max(1e-9);
            format!(
                "CPU: all CPUs of this machine are busy; the clients take {} of flashproof's CPU time",
                format::percent_whole(clients)
            )
        } else if cpu_busy_pct.is_some_and(|pct| pct >= 100.0 * BUSY_MIN) {
            "CPU: all CPUs of this machine are busy".to_owned()
        } else if over_loopback && queue < AT_DRIVE_MIN * f64::from(at_once) {
            format!(
                "network between clients and servers: of {at_once} concurrent transactions (-z), only {} wait for the \
                 drive on average",
                format::number(queue)
            )
        } else {
            format!(
                "drive: {drive_ms:.3} ms per operation, at {at_once} concurrent transactions (-z)"
            )
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
            transactions_per_cpu: (cpu_sec > 0.0 && !self.is_simulated())
                .then(|| tps * ran_sec / cpu_sec),
            inserted_per_sec,
            inserts_that_waited: row_in_progress.overload.waited(),
            reads: latency_summary(READS, verdict, &summary),
            writes: latency_summary(WRITES, verdict, &summary),
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

fn latency_summary(
    stream: &str,
    verdict: &Verdict,
    summary: &RunSummary,
) -> Option<LatencySummary> {
    let group = verdict.groups.iter().find(|group| group.stream == stream)?;
    let mut over = 0;
    let mut scheduled = 0;
    for slice in &group.slices {
        over += slice.judged_over.first().copied().unwrap_or(0);
        scheduled += slice.scheduled;
    }
    let mut latencies = summary.latencies.iter();
    let service = &latencies.find(|it| it.stream == stream)?.service;
    Some(LatencySummary {
        under_first: 1.0 - over as f64 / scheduled.max(1) as f64,
        stddev_ms: service.stddev_ns as f64 / 1e6,
        mean_ms: service.mean_ns as f64 / 1e6,
    })
}

struct HostCpu {
    issuing_cpu_sec: f64,
    /// Busy fraction of all CPUs of the machine, percent.
    cpu_busy_pct: Option<f64>,
}

impl HostCpu {
    fn read(dir: &Path) -> Result<Self, Failure> {
        let manifest = read(dir).map_err(Failure::environment)?.manifest;
        let mut intervals = Intervals::open(dir, &manifest).map_err(Failure::environment)?;
        let column_index = intervals.columns().iter().position(|name: &String| {
            ColumnOf::parse(name).is_some_and(|known| known.column == Column::CpuBusyPct)
        });
        let mut cpu_ns = 0;
        let mut busy = Vec::new();
        while let Some(record) = intervals.next().map_err(Failure::environment)? {
            cpu_ns += record.counts.cpu_ns;
            busy.extend(column_index.and_then(|at| record.telemetry.get(at)?.parse::<f64>().ok()));
        }
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        Ok(Self {
            issuing_cpu_sec: cpu_ns as f64 / 1e9,
            cpu_busy_pct: (!busy.is_empty()).then_some(mean),
        })
    }
}

const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a transaction, ms: longer than any delay of a device that is merely slow.
const TIMEOUT_MS: u32 = 10_000;

/// Connections in addition to the clients' connections.
const SPARE: u32 = 100;

/// Servers, and their cluster as clients see it.
pub(super) struct Loopback {
    servers: Vec<Server>,
    cluster: Arc<ClientCluster>,
    namespace: String,
    /// Set before the shutdown, to suppress warnings about a missing peer.
    is_ending: Arc<AtomicBool>,
}

impl Loopback {
    /// Starts a server of `namespace` on each of `devices`, which are formatted. With two servers, each server has all
    /// records. At most `connections` clients connect to each server.
    pub(super) fn start(
        namespace: &NamespaceSettings,
        devices: Vec<FormattedDevice>,
        cores: u16,
        connections: u32,
    ) -> Result<Self, Failure> {
        let nodes = devices.len() as u32;
        // Both ends of each connection are in this process.
        check_open_files(connections * nodes * 2 + SPARE)?;
        let cannot =
            |why: String| Failure::environment(format!("cannot serve on 127.0.0.1 - {why}"));
        let listen = |_: &FormattedDevice| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = devices.iter().map(listen).collect::<Result<Vec<_>, _>>();
        let listeners = listeners.map_err(|error| cannot(error.to_string()))?;
        let ports = listeners
            .iter()
            .map(|listener| listener.local_addr().map(|at| at.port()))
            .collect::<Result<Vec<_>, _>>();
        let ports = ports.map_err(|error| cannot(error.to_string()))?;
        let cluster_nodes: Vec<_> = ports
            .iter()
            .map(|port| ClusterNode::new("127.0.0.1", *port))
            .collect();
        let mut servers = Vec::new();
        let is_ending = Arc::new(AtomicBool::new(false));
        for (index, (listener, device)) in listeners.into_iter().zip(devices).enumerate() {
            let config = AerospikeConf {
                service_threads: Some(cores),
                namespaces: vec![NamespaceConfig {
                    settings: namespace.clone(),
                    replication_factor: nodes as u8,
                    // Asynchronous, as in the published table.
                    answers_before_replica: true,
                    migrate_sleep_us: 0,
                    devices: vec![device.0.name().to_owned()],
                    file_bytes: None,
                    benchmarks_storage: false,
                }],
                ..AerospikeConf::default()
            };
            let setup = ServerSetup {
                accept_losses: false,
                config,
                devices: vec![vec![device]],
                listeners: vec![listener],
                address: (IpAddr::V4(Ipv4Addr::LOCALHOST), ports[index]),
                limits: ClientLimits {
                    connections: (connections + SPARE) as usize,
                    ..ClientLimits::default()
                },
                cluster: Cluster::new(cluster_nodes.clone(), index),
                log: warnings(is_ending.clone()),
            };
            servers.push(Server::start(setup).map_err(cannot)?);
        }
        let begin = Instant::now();
        while !servers
            .iter()
            .all(|server| server.state().is_ready() && server.state().is_linked())
        {
            if begin.elapsed() > READY_TIMEOUT || servers.iter().any(Server::has_ended) {
                return Err(cannot(format!(
                    "the servers were not ready within {} s",
                    READY_TIMEOUT.as_secs()
                )));
            }
            thread::sleep(Duration::from_millis(2));
        }
        let seed = store::nodes::HostPort {
            name: Ipv4Addr::LOCALHOST.to_string(),
            port: ports[0],
        };
        let cluster = ClientCluster::find(&[seed], &namespace.name, Access::default(), false)
            .map_err(Failure::environment)?;
        if cluster.map().nodes.len() != servers.len() {
            return Err(cannot("the clients did not find all servers".to_owned()));
        }
        Ok(Self {
            servers,
            cluster,
            namespace: namespace.name.clone(),
            is_ending,
        })
    }

    pub(super) fn opened(
        &self,
        object: Arc<RecordSpec>,
        verify: bool,
        overload: Arc<Overload>,
    ) -> (String, OpenDevices) {
        let (name, devices) = as_devices(&self.namespace, &self.cluster.map());
        let settings = ClientSettings {
            cluster: self.cluster.clone(),
            namespace: self.namespace.clone(),
            object,
            verification: Arc::new(Verification::new(verify)),
            batch: None,
            replica: Replica::Master,
            rack: None,
            timeout_ms: TIMEOUT_MS,
            pipeline: 1,
            overload,
        };
        (
            name,
            OpenDevices {
                devices,
                engine: Engine::client(settings),
            },
        )
    }

    /// Waits until no write block is queued, as the opening of a store does. Gives up if a device hangs.
    pub(super) fn settle(&self, signal_handler: &SignalHandler) {
        let begin = Instant::now();
        while self.servers.iter().any(|server| queued_blocks(server) > 0)
            && begin.elapsed() < READY_TIMEOUT
            && signal_handler.signal_received().is_none()
        {
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn io(&self) -> impl Fn() -> IoSnapshot + use<> {
        let states: Vec<Arc<ServerState>> = self
            .servers
            .iter()
            .map(|server| server.state().clone())
            .collect();
        move || {
            states
                .iter()
                .fold(IoSnapshot::default(), |sum, state| sum.plus(&state.io()))
        }
    }

    /// Stops the servers. Errors: data in memory was not written to their devices.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.is_ending.store(true, Ordering::Relaxed);
        self.servers
            .into_iter()
            .try_for_each(Server::stop)
            .map_err(Failure::environment)
    }
}

fn queued_blocks(server: &Server) -> u64 {
    server.state().facts(|facts| {
        let namespaces = facts.counts.namespaces.iter();
        let devices = namespaces.flat_map(|namespace| &namespace.store.devices);
        devices.map(|device| device.write_q).sum()
    })
}

/// Prints the servers' warnings, until the shutdown.
fn warnings(is_ending: Arc<AtomicBool>) -> Box<dyn Fn(ServerLogLine) + Send + Sync> {
    Box::new(move |line| {
        if line.level <= LogLevel::Warning && !is_ending.load(Ordering::Relaxed) {
            console::warning(&line.text);
        }
    })
}
