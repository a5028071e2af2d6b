//! The server: a thread per core, each with a ring for its connections and devices and its part of every namespace.
//!
//! ```text
//!  connection -> Shard (frames, replies in order) -> own Store, or the Mailbox of the shard that has the partition
//!                                                     -> Link: what a master wrote goes to its replica on another node
//! ```
//!
//! Only mailboxes and observers' data are shared. Partition p belongs to shard p modulo the number of shards, on any
//! device, so the devices' headers contain the number of shards.

mod cluster;
mod connection;
mod links;
mod mailbox;
mod shard;
mod slab;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, Node};

use crate::conf::Config;
use crate::observe::{self, Counts, Facts, Line, Merge, Peer};
use crate::{DeviceHeader, IoCounted, IoCounts};
use device::target::Target;
use mailbox::Mailbox;
use shard::{Message, Shard};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Maximum age of the facts that answer an info request.
const FACTS_AGE: Duration = Duration::from_millis(5);

/// Limits on clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `proto-fd-max`: connections.
    pub connections: usize,
    /// `proto-fd-idle-ms`: how long a connection may say nothing; 0: for ever.
    pub idle_ms: u64,
    /// Timeout for the rest of a frame, and for a client to read its reply, ms.
    pub stalled_ms: u64,
    /// Timeout for writing buffers when the server ends, ms.
    pub flush_ms: u64,
    /// Longest body of a frame, bytes.
    pub frame_bytes: usize,
    /// Limit on all bytes received and not handled, or to be sent. Beyond it the connections with the most bytes are
    /// closed.
    pub memory_bytes: usize,
    /// Limits of batches.
    pub batch: crate::wire::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 15_000,
            idle_ms: 0,
            stalled_ms: 60_000,
            flush_ms: 30_000,
            frame_bytes: 64 << 20,
            memory_bytes: 1 << 30,
            batch: crate::wire::Limits::default(),
        }
    }
}

/// A device, formatted and open for writing, with its header.
pub type Device = (Arc<Target>, DeviceHeader);

/// Configuration and resources of a server.
pub struct Setup {
    pub config: Config,
    /// Devices of each namespace.
    pub devices: Vec<Vec<Device>>,
    /// Listeners for clients.
    pub listeners: Vec<TcpListener>,
    /// Address advertised to clients.
    pub address: (IpAddr, u16),
    /// Limits on clients.
    pub limits: Limits,
    pub cluster: Cluster,
    /// Receives log lines.
    pub log: Box<dyn Fn(Line) + Send + Sync>,
}

/// State shared by all threads.
pub struct State {
    setup: Setup,
    began: Instant,
    mailboxes: Vec<Mailbox<Message>>,
    /// Counts of each shard, at most some milliseconds old.
    counts: Vec<Mutex<Counts>>,
    /// Facts derived from the counts, and their time.
    facts: Mutex<(Facts, Instant)>,
    connections: AtomicUsize,
    /// Number of shards with indexed records.
    ready: AtomicUsize,
    /// Number of shards' links to other nodes that are up.
    links: AtomicUsize,
    /// I/O of all stores.
    io: Arc<IoCounts>,
    /// Shards that take no more requests and have answered all.
    quiet: AtomicUsize,
    /// True if a shard failed: then no other waits for it.
    has_failed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn new(setup: Setup, cores: usize) -> Self {
        let cluster = &setup.cluster;
        let is_alone = cluster.nodes().len() == 1;
        let peer = |(_, node): (usize, &Node)| Peer { id: node.id, address: (node.host.clone(), node.port) };
        let facts = Facts {
            config: setup.config.clone(),
            node: observe::Node {
                peers: cluster.others().map(peer).collect(),
                partitions: (0..if is_alone { 1 } else { 2 }).map(|place| cluster.bitmap(place)).collect(),
                ..observe::Node::alone(cluster.own().id, setup.address)
            },
            device_bytes: setup
                .devices
                .iter()
                .map(|of| of.iter().map(|(device, _)| device.size_bytes()).collect())
                .collect(),
            uptime_sec: 0,
            wall_ms: 0,
            counts: Counts::default(),
            latencies: Vec::new(),
        };
        let began = Instant::now();
        Self {
            began,
            mailboxes: (0..cores).map(|_| Mailbox::new()).collect(),
            counts: (0..cores).map(|_| Mutex::default()).collect(),
            facts: Mutex::new((facts, began)),
            connections: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            links: AtomicUsize::new(0),
            io: Arc::default(),
            quiet: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            setup,
        }
    }

    /// Calls `read` with the current facts; its changes are kept.
    pub fn facts<T>(&self, read: impl FnOnce(&mut Facts) -> T) -> T {
        let (facts, at) = &mut *lock(&self.facts);
        if facts.wall_ms == 0 || at.elapsed() >= FACTS_AGE {
            *at = Instant::now();
            facts.uptime_sec = self.began.elapsed().as_secs();
            facts.wall_ms = wall_ms();
            facts.counts = Counts::default();
            self.counts.iter().for_each(|counts| facts.counts.merge(&lock(counts)));
        }
        read(facts)
    }

    /// Current connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// True if all records are indexed.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) == self.mailboxes.len()
    }

    /// True if each core has its link to each other node: before that, writes of two copies are refused.
    pub fn is_linked(&self) -> bool {
        let wanted = self.mailboxes.len() * self.setup.cluster.others().count();
        self.links.load(Ordering::Acquire) == wanted
    }

    /// I/O of its stores.
    pub fn io(&self) -> IoCounted {
        self.io.now()
    }

    /// Names of the namespaces, a line each.
    fn namespaces(&self) -> Vec<u8> {
        self.setup.config.namespaces.iter().flat_map(|of| [of.settings.name.as_bytes(), b"\n"].concat()).collect()
    }

    fn inform(&self, context: &'static str, source: &'static str, text: String) {
        (self.setup.log)(Line::info(context, source, text));
    }

    fn warn(&self, context: &'static str, source: &'static str, text: String) {
        (self.setup.log)(Line::warning(context, source, text));
    }

    fn tell_all(&self, message: impl Fn() -> Message) {
        for mailbox in &self.mailboxes {
            mailbox.push(message());
            mailbox.wake();
        }
    }
}

/// Cores that serve by `config`, which their devices' headers say, too.
pub fn cores(config: &Config) -> u16 {
    let all = || std::thread::available_parallelism().map_or(1, |all| all.get().min(u16::MAX.into()) as u16);
    config.service_threads.unwrap_or_else(all).max(1)
}

/// Time since 1970, ms.
fn wall_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// No shard can continue without the part of one that fails or panics.
struct Failure<'a>(&'a State);

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        self.0.has_failed.store(true, Ordering::Release);
        self.0.tell_all(|| Message::Stop);
    }
}

/// A running server.
pub struct Server {
    state: Arc<State>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Server {
    /// Starts the threads of a server. The server accepts transactions once [`State::is_ready`].
    ///
    /// Errors: a ring or a store cannot be set up, a sentence.
    pub fn start(mut setup: Setup) -> Result<Self, String> {
        for listener in &setup.listeners {
            sys::net::set_backlog(listener, BACKLOG).map_err(|error| format!("cannot listen - {error}"))?;
        }
        let cores = usize::from(cores(&setup.config));
        // The first core accepts for all; its ring owns the listeners.
        let mut listeners: Vec<_> = setup.listeners.drain(..).map(Arc::new).collect();
        let state = Arc::new(State::new(setup, cores));
        let wall_ms = wall_ms();
        let (tell, told) = mpsc::channel();
        let thread = |core: usize, listeners| {
            let (state, tell) = (state.clone(), tell.clone());
            let run = move || {
                let failure = Failure(&state);
                let made = Shard::new(core, &state, listeners, wall_ms);
                let _ = tell.send(made.as_ref().map(|_| ()).map_err(String::clone));
                drop(tell);
                made?.run()?;
                std::mem::forget(failure);
                Ok(())
            };
            std::thread::Builder::new().name(format!("shard-{core}")).spawn(run)
        };
        let mut server = Self { state: state.clone(), threads: Vec::new() };
        for core in 0..cores {
            let spawned = thread(core, std::mem::take(&mut listeners))
                .map_err(|error| format!("cannot start a thread - {error}"))?;
            server.threads.push(spawned);
        }
        for _ in 0..cores {
            told.recv().unwrap_or_else(|_| Err("a thread ended".to_owned()))?;
        }
        links::start(&server.state);
        Ok(server)
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// True if a thread has ended, which happens by itself only when its ring fails.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Answers pending requests, writes the buffers, and ends. Errors: a ring failed, a sentence.
    pub fn stop(mut self) -> Result<(), String> {
        self.state.tell_all(|| Message::Stop);
        let ended =
            self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())));
        ended.collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.tell_all(|| Message::Stop);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}
