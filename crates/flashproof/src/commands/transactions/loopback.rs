//! Servers in this process, on a device each, and the data that clients need to find them over the loopback interface.
//!
//! A server is [`store::server`] as in `flashproof engine serve`, configured by values. Server and clients share the
//! CPUs of this machine, so a server with its own machine does more.

use crate::commands::client::{as_devices, check_open_files};
use session::console;
use session::engine::Engine;
use session::failure::Failure;
use session::runner::Opened;
use session::signals::Switch;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::client::cluster::Cluster as ClientCluster;
use store::client::{ClientSettings, Replica};
use store::conf::{Config, Level, NamespaceConfig};
use store::nodes::{Access, Host};
use store::object::Object;
use store::observe::{Line, NamespaceCounts};
use store::server::{Cluster, Device, Limits, Node, Server, Setup, State};
use store::{IoCounted, Namespace, Overload, Verification};

/// Timeout for servers to get ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Timeout of a transaction, ms: longer than any delay of a device that is merely slow.
const TIMEOUT_MS: u32 = 10_000;

/// Connections in addition to those of clients.
const SPARE: u32 = 100;

/// Servers, and their cluster as clients see it.
pub(super) struct Loopback {
    servers: Vec<Server>,
    cluster: Arc<ClientCluster>,
    namespace: String,
    /// Set before the shutdown, when each of two servers misses the other.
    ends: Arc<AtomicBool>,
}

impl Loopback {
    /// Starts a server of `namespace` on each of `devices`, which are formatted; with two servers each record is on
    /// both. At most `connections` clients connect to each.
    pub(super) fn start(
        namespace: &Namespace,
        devices: Vec<Device>,
        cores: u16,
        connections: u32,
    ) -> Result<Self, Failure> {
        let nodes = devices.len() as u32;
        // Both ends of each connection are in this process.
        check_open_files(connections * nodes * 2 + SPARE)?;
        let cannot = |why: String| Failure::environment(format!("cannot serve on 127.0.0.1 - {why}"));
        let listen = |_: &Device| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = devices.iter().map(listen).collect::<Result<Vec<_>, _>>();
        let listeners = listeners.map_err(|error| cannot(error.to_string()))?;
        let ports =
            listeners.iter().map(|listener| listener.local_addr().map(|at| at.port())).collect::<Result<Vec<_>, _>>();
        let ports = ports.map_err(|error| cannot(error.to_string()))?;
        let all: Vec<_> = ports.iter().map(|port| Node::new("127.0.0.1", *port)).collect();
        let (mut servers, ends) = (Vec::new(), Arc::new(AtomicBool::new(false)));
        for (own, (listener, device)) in listeners.into_iter().zip(devices).enumerate() {
            let config = Config {
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
                ..Config::default()
            };
            let setup = Setup {
                accept_losses: false,
                config,
                devices: vec![vec![device]],
                listeners: vec![listener],
                address: (IpAddr::V4(Ipv4Addr::LOCALHOST), ports[own]),
                limits: Limits { connections: (connections + SPARE) as usize, ..Limits::default() },
                cluster: Cluster::new(all.clone(), own),
                log: warnings(ends.clone()),
            };
            servers.push(Server::start(setup).map_err(cannot)?);
        }
        let begin = Instant::now();
        while !servers.iter().all(|server| server.state().is_ready() && server.state().is_linked()) {
            if begin.elapsed() > PATIENCE || servers.iter().any(Server::has_ended) {
                return Err(cannot(format!("the servers were not ready within {} s", PATIENCE.as_secs())));
            }
            thread::sleep(Duration::from_millis(2));
        }
        let seed = Host { name: Ipv4Addr::LOCALHOST.to_string(), port: ports[0] };
        let cluster =
            ClientCluster::find(&[seed], &namespace.name, Access::default(), false).map_err(Failure::environment)?;
        if cluster.map().nodes.len() != servers.len() {
            return Err(cannot("clients do not see all servers".to_owned()));
        }
        Ok(Self { servers, cluster, namespace: namespace.name.clone(), ends })
    }

    /// Name and clients for a run.
    pub(super) fn opened(&self, object: Arc<Object>, verify: bool, overload: Arc<Overload>) -> (String, Opened) {
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
        (name, Opened { devices, engine: Engine::client(settings) })
    }

    /// Waits until no write block is queued for a device, as an opening of the store does; not for a hung device.
    pub(super) fn settle(&self, switch: &Switch) {
        let blocks = |server: &Server| {
            let waiting = |of: &NamespaceCounts| of.store.devices.iter().map(|device| device.write_q).sum::<u64>();
            server.state().facts(|facts| facts.counts.namespaces.iter().map(waiting).sum::<u64>())
        };
        let begin = Instant::now();
        while self.servers.iter().any(|server| blocks(server) > 0)
            && begin.elapsed() < PATIENCE
            && switch.was_asked().is_none()
        {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Function that returns the I/O of all servers so far.
    pub(super) fn io(&self) -> impl Fn() -> IoCounted + use<> {
        let states: Vec<Arc<State>> = self.servers.iter().map(|server| server.state().clone()).collect();
        move || states.iter().fold(IoCounted::default(), |sum, state| sum.plus(&state.io()))
    }

    /// Stops the servers. Errors: data in memory was not written to their devices.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.ends.store(true, Ordering::Relaxed);
        self.servers.into_iter().try_for_each(Server::stop).map_err(Failure::environment)
    }
}

/// Prints the servers' warnings, until the shutdown.
fn warnings(ends: Arc<AtomicBool>) -> Box<dyn Fn(Line) + Send + Sync> {
    Box::new(move |line| {
        if line.level <= Level::Warning && !ends.load(Ordering::Relaxed) {
            console::warning(&line.text);
        }
    })
}
