//! State that all threads of a server share, and the messages between them.

use super::cluster::{Cluster, Node};
use super::connection::Link;
use super::mailbox::Mailbox;
use super::pair::{self, Found, Mode, Pair, Word};
use crate::conf::Config;
use crate::observe::{self, Bitmap, Counts, Facts, Line, Merge, Peer, Takeover, Transactions};
use crate::wire::{self, Command, Fault};
use crate::{DeviceHeader, Digest, IoCounted, IoCounts, Losses, PARTITIONS, Reply, Transaction, partition};
use device::target::Target;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Maximum age of the facts that answer an info request.
const FACTS_AGE: Duration = Duration::from_millis(5);

/// Log text when the only node with all records is gone.
const NO_COPY: &str = "start the node that has them with its devices, or this one without `heartbeat` and with \
                       `replication-factor 1` to use what it has";

/// A message between threads.
#[derive(Debug)]
pub(super) enum Message {
    /// A new client connection.
    Accepted(TcpStream),
    /// A new connection to a node.
    Linked { node: usize, socket: TcpStream, link: Arc<Link> },
    /// To be executed here.
    Transaction { from: usize, number: u32, namespace: u16, transaction: Transaction, at_master: bool },
    /// Result of a transaction forwarded to this core.
    Reply { number: u32, reply: Reply },
    /// Record this node's mode.
    Record,
    /// It is recorded.
    Recorded,
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
    /// A namespace with two copies of each record is on a device that was formatted just now.
    pub has_new_devices: bool,
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
    pub(super) start: Mutex<Start>,
    /// Number of shards that do not open because of damage.
    pub(super) refused: AtomicUsize,
    /// Number of shards' links to other nodes that are up.
    pub(super) links: AtomicUsize,
    pub(super) pair: Pair,
    /// Number of the other node's process, and both modes, when the log last said that they do not come together.
    warned: Mutex<Option<(u64, Mode, Mode)>>,
    /// Number of this process: the time of its start.
    pub(super) process: u64,
    /// Digest of the record with this node's mode, which no client writes.
    pub(super) record_digest: Digest,
    /// Requests, and failed ones among them, when the link to a node was lost.
    pub(super) cut: Mutex<Option<[u64; 2]>>,
    /// I/O of all stores.
    pub(super) io: Arc<IoCounts>,
    /// Shards that take no more requests and have answered all.
    pub(super) quiet: AtomicUsize,
    /// True if a shard failed: then no other waits for it.
    pub(super) has_failed: AtomicBool,
}

/// What the shards found on their devices.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub(super) shards: usize,
    pub(super) recorded: Option<Mode>,
    /// Bits of namespaces with records of which the other node has copies.
    pub(super) full: u32,
    pub(super) is_damaged: bool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new(setup: Setup, cores: usize) -> Self {
        let cluster = &setup.cluster;
        let facts = Facts {
            config: setup.config.clone(),
            node: observe::Node {
                own: bitmap(|partition| cluster.has(partition, 0)),
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
        let has_copies = setup.config.namespaces.iter().any(|namespace| namespace.replication_factor > 1);
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let state = Self {
            pair: Pair::new(&setup.cluster, has_copies, cores),
            warned: Mutex::default(),
            process: since_1970.as_nanos() as u64,
            record_digest: pair::record_digest(),
            cut: Mutex::default(),
            began,
            mailboxes: (0..cores).map(|_| Mailbox::new()).collect(),
            counts: (0..cores).map(|_| Mutex::default()).collect(),
            facts: Mutex::new((facts, began)),
            connections: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            start: Mutex::default(),
            refused: AtomicUsize::new(0),
            links: AtomicUsize::new(0),
            io: Arc::default(),
            quiet: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            setup,
        };
        state.show_cluster();
        state
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

    /// True if each core has its link to each other node, and no node lacks records: before that, writes of two copies
    /// are refused or wait.
    pub fn is_linked(&self) -> bool {
        let wanted = self.mailboxes.len() * self.setup.cluster.others().count();
        self.links.load(Ordering::Acquire) == wanted && self.pair.mode() == Mode::Paired
    }

    /// I/O of its stores.
    pub fn io(&self) -> IoCounted {
        self.io.now()
    }

    /// The transactions of a client's message.
    pub(super) fn parse(&self, message: &[u8]) -> Result<Command, Fault> {
        let namespaces = &self.setup.config.namespaces;
        let namespace_of = |name: &[u8]| namespaces.iter().position(|of| of.settings.name.as_bytes() == name);
        wire::parse(message, self.setup.limits.batch, namespace_of)
    }

    /// Properties that all nodes must have in common, a line each: the nodes in order, the namespaces with their copies
    /// and the bytes of their write blocks.
    pub(super) fn common(&self) -> Vec<u8> {
        let nodes = self.setup.cluster.nodes().iter().map(|node| format!("{}\n", node.name()));
        let namespaces = self.setup.config.namespaces.iter();
        let namespaces = namespaces
            .map(|of| format!("{} {} {}\n", of.settings.name, of.replication_factor, of.settings.write_block_bytes));
        nodes.chain(namespaces).collect::<String>().into_bytes()
    }

    /// Namespace and core of the record with this node's mode. `None`: this node never takes over.
    pub(super) fn record_place(&self) -> Option<(usize, usize)> {
        let namespace = self.setup.config.namespaces.iter().position(|of| of.replication_factor > 1)?;
        let core = usize::from(partition(&self.record_digest)) % self.mailboxes.len();
        self.pair.takes_over().then_some((namespace, core))
    }

    /// Time since the start, ns: the clock of the shards.
    pub(super) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Takes over if the other node is gone; see [`Pair::look`].
    pub(super) fn look(&self, refused_ns: Option<u64>) {
        let now_ns = self.now_ns();
        let Some(since_ns) = self.pair.look(now_ns, refused_ns) else { return };
        let ([before, failed_before], [all, failed]) = (lock(&self.cut).unwrap_or_default(), self.requests());
        let takeover = Takeover {
            ms: now_ns.saturating_sub(since_ns) / 1_000_000,
            requests: all.saturating_sub(before),
            failed: failed.saturating_sub(failed_before),
        };
        self.facts(|facts| facts.node.takeover = Some(takeover));
        let other = self.other_node();
        let Takeover { ms, requests, failed } = takeover;
        let pct = failed as f64 * 100.0 / requests.max(1) as f64;
        let text = format!(
            "took over the partitions of node {other}, {ms} ms after its last word - {failed} of {requests} requests failed \
             meanwhile ({pct:.1} %)"
        );
        self.warn("hb", "hb.c", text);
        self.on_mode(Some(Mode::Ahead));
    }

    /// Requests of clients so far, and those among them that were refused for want of a node or timed out.
    pub(super) fn requests(&self) -> [u64; 2] {
        let mut sums = [0; 2];
        for counts in &self.counts {
            for namespace in &lock(counts).namespaces {
                let origins = [&namespace.client, &namespace.batch_sub, &namespace.from_proxy];
                for [all, failed] in origins.map(Transactions::requests) {
                    sums = [sums[0] + all, sums[1] + failed];
                }
            }
        }
        sums
    }

    /// A process of another node has said its mode on a connection that it began before.
    pub(super) fn heard(&self, process: u64, word: Word, now_ns: u64) {
        self.on_mode(self.pair.heard(process, word, now_ns));
    }

    /// A process of another node has begun a connection; `empty` are its namespaces without records.
    pub(super) fn greeted(&self, process: u64, word: Word, empty: u32, now_ns: u64) {
        self.on_mode(self.pair.greeted(process, word, empty, now_ns));
        let mode = self.pair.mode();
        let clear = |which| format!("stop {which} and clear its devices: it gets the records of the other");
        let text = match (mode, word.mode) {
            (Mode::Ahead | Mode::NewAhead, Mode::Ahead | Mode::NewAhead) => {
                format!("both nodes took over, and each has writes that the other lacks - {}", clear("one"))
            }
            (own, other) if self.pair.is_stuck(other) => format!(
                "both nodes lack records (damage, or new devices), and each may have those of the other - {}",
                clear(match (own, other) {
                    // The one that was ahead, or was paired when the other was behind, has the newer records.
                    (Mode::NewAhead, _) | (Mode::New, Mode::Behind) => "the other node",
                    (_, Mode::NewAhead) | (Mode::Behind, Mode::New) => "this node",
                    _ => "one",
                })
            ),
            (Mode::Behind, Mode::Behind | Mode::Fresh | Mode::Damaged)
            | (Mode::Fresh | Mode::Damaged, Mode::Behind) => format!("no node has all records - {NO_COPY}"),
            _ => return,
        };
        // Each core has two connections with the other node.
        let event = Some((process, mode, word.mode));
        if std::mem::replace(&mut *lock(&self.warned), event) != event {
            self.warn("hb", "hb.c", text);
        }
    }

    /// Tells each core what this shard found. The last sets this node's mode.
    pub(super) fn started(&self, recorded: Option<Mode>, full: u32, is_damaged: bool) {
        let mut start = lock(&self.start);
        start.shards += 1;
        start.recorded = start.recorded.or(recorded);
        start.full |= full;
        start.is_damaged |= is_damaged;
        if start.shards == self.mailboxes.len() {
            let copied = self.setup.config.namespaces.iter().zip(0..).filter(|(of, _)| of.replication_factor > 1);
            let found = Found {
                recorded: start.recorded,
                has_records: start.full != 0,
                is_damaged: start.is_damaged,
                has_new: self.setup.has_new_devices,
                empty: copied.fold(0, |bits, (_, at)| bits | 1 << at) & !start.full,
            };
            drop(start);
            self.on_mode(self.pair.started(found));
        }
    }

    /// Has this node's mode recorded, if it is not.
    pub(super) fn record(&self) {
        if let Some((_, core)) = self.record_place()
            && self.pair.must_record()
        {
            self.mailboxes[core].push(Message::Record);
            self.mailboxes[core].wake();
        }
    }

    /// Tells clients and the log of this node's new mode, if it has one.
    pub(super) fn on_mode(&self, mode: Option<Mode>) {
        let Some(mode) = mode else { return };
        self.record();
        self.show_cluster();
        self.mailboxes.iter().for_each(Mailbox::wake);
        let other = self.other_node();
        let was_fresh = self.pair.was_fresh();
        let text = match mode {
            Mode::Starting | Mode::Handing | Mode::Deciding => return,
            Mode::Fresh => format!("has no records: waits for node {other}, which may have some"),
            Mode::Damaged | Mode::New | Mode::NewAhead => {
                format!("lacks records (damage, or a new device): waits for node {other}, which may have them")
            }
            Mode::Paired => format!("paired with node {other}: each node has all records"),
            Mode::Ahead if was_fresh => format!("begins without records, as node {other} does"),
            Mode::Behind if was_fresh => format!("has no records: gets those of node {other}"),
            Mode::Ahead => format!("answers all requests until node {other} is there and has all records"),
            Mode::Behind => {
                format!("passes all requests on to node {other}, and gets the records that it lacks")
            }
        };
        match mode {
            Mode::Paired | Mode::Fresh => self.inform("hb", "hb.c", text),
            _ if was_fresh => self.inform("hb", "hb.c", text),
            _ => self.warn("hb", "hb.c", text),
        }
    }

    /// The name of the other node.
    fn other_node(&self) -> String {
        self.setup.cluster.others().map(|(_, node)| node.name()).collect()
    }

    /// Tells clients which partitions this node has now, and which nodes there are.
    pub(super) fn show_cluster(&self) {
        let (cluster, mode) = (&self.setup.cluster, self.pair.mode());
        let is_linked = self.links.load(Ordering::Acquire) > 0;
        let places = cluster.nodes().len().min(2);
        let partitions: Vec<_> = (0..places)
            .map(|place| bitmap(|partition| self.pair.place(cluster, partition, true) == Some(place)))
            .collect();
        let is_alone = matches!(mode, Mode::Ahead | Mode::Handing) && !is_linked;
        let peer = |(_, node): (usize, &Node)| Peer { id: node.id, address: (node.host.clone(), node.port) };
        let peers: Vec<_> = cluster.others().filter(|_| !is_alone).map(peer).collect();
        let is_starting = mode.is_starting();
        let is_available = !self.pair.takes_over() || is_alone || is_linked && !is_starting;
        self.facts(|facts| {
            let node = &mut facts.node;
            node.peers_generation += u32::from(node.peers != peers);
            node.partition_generation += u32::from(node.partitions != partitions);
            node.unavailable = if is_available { 0 } else { PARTITIONS.into() };
            (node.peers, node.partitions) = (peers, partitions);
        });
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

fn bitmap(has: impl Fn(u16) -> bool) -> Bitmap {
    let mut bitmap = [0; PARTITIONS as usize / 8];
    for partition in (0..PARTITIONS).filter(|partition| has(*partition)) {
        bitmap[usize::from(partition / 8)] |= 0x80 >> (partition % 8);
    }
    bitmap
}

/// Time since 1970, ms.
pub(super) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
