//! State that all threads of a server share, and the messages between them.

use super::cluster::{Cluster, Node};
use super::connection::Link;
use super::mailbox::Mailbox;
use crate::conf::Config;
use crate::observe::{self, Counts, Facts, Line, Merge, Peer};
use crate::{DeviceHeader, IoCounted, IoCounts, Losses, Reply, Transaction};
use device::target::Target;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Maximum age of the facts that answer an info request.
const FACTS_AGE: Duration = Duration::from_millis(5);

/// A message between threads.
#[derive(Debug)]
pub(super) enum Message {
    /// A new client connection.
    Accepted(TcpStream),
    /// A new connection to a node.
    Linked { node: usize, socket: TcpStream, link: Arc<Link> },
    /// To be executed here.
    Transaction { from: usize, number: u32, namespace: u16, transaction: Transaction },
    /// Result of a transaction forwarded to this core.
    Reply { number: u32, reply: Reply },
    /// Takes no more requests, and ends when all are answered.
    Stop,
    /// Fails for this reason, as when its ring does.
    #[cfg(test)]
    Fail(String),
}

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
    /// Opens damaged devices, whatever is lost.
    pub accept_losses: bool,
    /// Receives log lines.
    pub log: Box<dyn Fn(Line) + Send + Sync>,
}

/// State shared by all threads.
pub struct State {
    pub(super) setup: Setup,
    pub(super) began: Instant,
    pub(super) mailboxes: Vec<Mailbox<Message>>,
    /// Counts of each shard, at most some milliseconds old.
    pub(super) counts: Vec<Mutex<Counts>>,
    /// Facts derived from the counts, and their time.
    facts: Mutex<(Facts, Instant)>,
    pub(super) connections: AtomicUsize,
    /// Number of shards with indexed records.
    pub(super) ready: AtomicUsize,
    /// Number of shards that do not open because of damage.
    pub(super) refused: AtomicUsize,
    /// Number of shards' links to other nodes that are up.
    pub(super) links: AtomicUsize,
    /// I/O of all stores.
    pub(super) io: Arc<IoCounts>,
    /// Shards that take no more requests and have answered all.
    pub(super) quiet: AtomicUsize,
    /// True if a shard failed: then no other waits for it.
    pub(super) has_failed: AtomicBool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new(setup: Setup, cores: usize) -> Self {
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
            refused: AtomicUsize::new(0),
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

    /// Each namespace that does not open because of damage, with its losses, once all devices are read.
    pub fn damage(&self) -> Vec<(String, Losses)> {
        let refused = self.refused.load(Ordering::Acquire);
        if refused == 0 || self.ready.load(Ordering::Acquire) + refused < self.mailboxes.len() {
            return Vec::new();
        }
        let mut counts = Counts::default();
        self.counts.iter().for_each(|of| counts.merge(&lock(of)));
        let names = self.setup.config.namespaces.iter().map(|of| of.settings.name.clone());
        names.zip(counts.namespaces.iter().map(|of| of.store.damage)).filter(|(_, losses)| losses.blocks > 0).collect()
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
    pub(super) fn namespaces(&self) -> Vec<u8> {
        self.setup.config.namespaces.iter().flat_map(|of| [of.settings.name.as_bytes(), b"\n"].concat()).collect()
    }

    pub(super) fn inform(&self, context: &'static str, source: &'static str, text: String) {
        (self.setup.log)(Line::info(context, source, text));
    }

    pub(super) fn warn(&self, context: &'static str, source: &'static str, text: String) {
        (self.setup.log)(Line::warning(context, source, text));
    }

    pub(super) fn tell_all(&self, message: impl Fn() -> Message) {
        for mailbox in &self.mailboxes {
            mailbox.push(message());
            mailbox.wake();
        }
    }
}

/// Time since 1970, ms.
pub(super) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
