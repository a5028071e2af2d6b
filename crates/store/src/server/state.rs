//! State that all threads of a server share, and the messages between these threads. A mailbox is a lock-free queue of
//! messages for the thread of a core, with a wake-up if the thread sleeps.

use super::cluster::Cluster;
use super::pair::{DeviceContents, NodePair, PairMode};
use super::skew::ClockSkew;
use crate::conf::AerospikeConf;
use crate::observe::{self, Bitmap, Facts, Merge, ServerCounts, ServerLogLine, TransactionCounts};
use crate::wire::{self, MessageError, ParsedMessage};
use crate::{DeviceHeader, IoCounts, IoSnapshot, Losses, PARTITIONS, Reply, Store, Transaction};
use crossbeam_queue::SegQueue;
use device::target::Target;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use sys::net::Waker;
use sys::op;

/// Maximum age of the facts that answer an info request.
const FACTS_AGE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) enum CoreMessage {
    Accepted(TcpStream),
    /// A new connection to a node. The receiving core clears `link` when the connection is lost.
    Linked {
        node: usize,
        socket: TcpStream,
        link: Arc<AtomicBool>,
    },
    Transaction {
        from_core: usize,
        number: u32,
        namespace: u16,
        transaction: Transaction,
        at_master: bool,
    },
    Reply {
        number: u32,
        reply: Reply,
    },
    /// Write the record of this node's mode.
    Record,
    /// The record of this node's mode is on the device.
    Recorded,
    /// Take no more requests, and end when all requests are answered.
    Stop,
    /// End with this error, as after a failure of the ring.
    #[cfg(test)]
    Fail(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// `proto-fd-max`: maximum number of connections.
    pub connections: usize,
    /// `proto-fd-idle-ms`: longest time that a connection may be idle; 0: unlimited.
    pub idle_ms: u64,
    /// Timeout for the rest of a frame, and for a client to read a reply, ms.
    pub stalled_ms: u64,
    /// Timeout for writing buffers when the server ends, ms.
    pub flush_ms: u64,
    /// Longest body of a frame, bytes.
    pub frame_bytes: usize,
    /// Limit of received and unsent bytes in memory. Above it, the connections with the most bytes are closed.
    pub memory_bytes: usize,
    pub batch: crate::wire::BatchLimits,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connections: 15_000,
            idle_ms: 0,
            stalled_ms: 60_000,
            flush_ms: 30_000,
            frame_bytes: 64 << 20,
            memory_bytes: 1 << 30,
            batch: crate::wire::BatchLimits::default(),
        }
    }
}

/// A device, formatted and open for writing, with its header.
pub type FormattedDevice = (Arc<Target>, DeviceHeader);

pub struct ServerSetup {
    pub config: AerospikeConf,
    pub devices: Vec<Vec<FormattedDevice>>,
    pub listeners: Vec<TcpListener>,
    /// Address advertised to clients.
    pub address: (IpAddr, u16),
    pub limits: ClientLimits,
    pub cluster: Cluster,
    /// True: open damaged devices, and accept all losses.
    pub accept_losses: bool,
    pub log: Box<dyn Fn(ServerLogLine) + Send + Sync>,
}

/// Stores of a sleeping core, in which other cores execute transactions: saves two wake-ups for each transaction.
#[derive(Default)]
pub(super) struct LentStores {
    /// Empty while the thread of the core is awake. The range: the tokens of the store's operations.
    pub(super) stores: Vec<(Store, Range<u32>)>,
    /// I/O for the ring of the core.
    pub(super) ops: Vec<op::Op>,
    /// True if another thread executed a transaction.
    pub(super) is_touched: bool,
    /// The time until which the thread of the core sleeps.
    pub(super) until_ns: u64,
}

pub struct ServerState {
    pub(super) setup: ServerSetup,
    pub(super) began: Instant,
    pub(super) mailboxes: Vec<Mailbox<CoreMessage>>,
    /// By core: the core's stores, which other threads may use while the core's thread sleeps.
    pub(super) lent: Vec<Mutex<LentStores>>,
    /// Counts of each core, updated every 20 ms if they have changed.
    pub(super) counts: Vec<Mutex<ServerCounts>>,
    /// Facts derived from the counts, and the time of their last update.
    facts: Mutex<(Facts, Instant)>,
    pub(super) connections: AtomicUsize,
    /// Number of cores that have indexed all their records.
    pub(super) ready: AtomicUsize,
    /// Number of cores that have reported the contents of their devices, and all these contents together.
    pub(super) reported_contents: Mutex<(usize, DeviceContents)>,
    /// Number of cores with a store that does not open because of damage.
    pub(super) damaged_cores: AtomicUsize,
    /// Number of links that are up. Each core has a link to each other node.
    pub(super) links: AtomicUsize,
    pub(super) pair: NodePair,
    /// The clocks of all nodes, compared with the clock of this node.
    pub(super) skews: Vec<ClockSkew>,
    /// Process of the other node, and both modes, when the log last said that the nodes cannot pair.
    pub(super) last_warning: Mutex<Option<(u64, PairMode, PairMode)>>,
    /// Number of this process: the time of its start, ns since 1970.
    pub(super) process: u64,
    /// Numbers of requests and of failed requests, when the link to a node was lost.
    pub(super) requests_at_loss: Mutex<Option<[u64; 2]>>,
    pub(super) io: Arc<IoCounts>,
    /// Number of cores that take no more requests and have answered all requests.
    pub(super) quiet_cores: AtomicUsize,
    /// True if a core failed. The other cores then do not wait for it.
    pub(super) has_failed: AtomicBool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerState {
    pub(super) fn new(setup: ServerSetup, cores: usize) -> Self {
        let cluster = &setup.cluster;
        let facts = Facts {
            config: setup.config.clone(),
            node: observe::NodeView {
                single_copy_partitions: bitmap(|partition| cluster.has(partition, 0)),
                ..observe::NodeView::alone(cluster.own_node().id, setup.address)
            },
            device_bytes: setup
                .devices
                .iter()
                .map(|devices: &Vec<FormattedDevice>| {
                    devices
                        .iter()
                        .map(|(device, _)| device.size_bytes())
                        .collect()
                })
                .collect(),
            uptime_sec: 0,
            wall_ms: 0,
            counts: ServerCounts::default(),
            latencies: Vec::new(),
        };
        let began = Instant::now();
        let has_copies = setup
            .config
            .namespaces
            .iter()
            .any(|namespace| namespace.replication_factor > 1);
        let since_1970 = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let state = Self {
            pair: NodePair::new(&setup.cluster, has_copies, cores),
            skews: setup
                .cluster
                .nodes()
                .iter()
                .map(|_| ClockSkew::default())
                .collect(),
            last_warning: Mutex::default(),
            process: since_1970.as_nanos() as u64,
            requests_at_loss: Mutex::default(),
            began,
            mailboxes: (0..cores).map(|_| Mailbox::new()).collect(),
            lent: (0..cores).map(|_| Mutex::default()).collect(),
            counts: (0..cores).map(|_| Mutex::default()).collect(),
            facts: Mutex::new((facts, began)),
            connections: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            reported_contents: Mutex::default(),
            damaged_cores: AtomicUsize::new(0),
            links: AtomicUsize::new(0),
            io: Arc::default(),
            quiet_cores: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            setup,
        };
        state.show_cluster();
        state
    }

    /// Calls `read` with facts that are at most [`FACTS_AGE`] old. Changes of the facts by `read` are kept.
    pub fn facts<T>(&self, read: impl FnOnce(&mut Facts) -> T) -> T {
        let (facts, updated_at) = &mut *lock(&self.facts);
        if facts.wall_ms == 0 || updated_at.elapsed() >= FACTS_AGE {
            *updated_at = Instant::now();
            facts.uptime_sec = self.began.elapsed().as_secs();
            facts.wall_ms = wall_ms();
            facts.node.clock_skew_ms = self.skew_ms();
            facts.counts = ServerCounts::default();
            self.counts
                .iter()
                .for_each(|counts| facts.counts.merge(&lock(counts)));
        }
        read(facts)
    }

    /// True if all records are indexed.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) == self.mailboxes.len()
    }

    /// Each namespace that does not open because of damage, with its losses, once all devices are read.
    pub fn damage(&self) -> Vec<(String, Losses)> {
        let damaged_cores = self.damaged_cores.load(Ordering::Acquire);
        if damaged_cores == 0
            || self.ready.load(Ordering::Acquire) + damaged_cores < self.mailboxes.len()
        {
            return Vec::new();
        }
        let mut counts = ServerCounts::default();
        self.counts.iter().for_each(|of| counts.merge(&lock(of)));
        let names = self
            .setup
            .config
            .namespaces
            .iter()
            .map(|of| of.settings.name.clone());
        names
            .zip(counts.namespaces.iter().map(|of| of.store.damage))
            .filter(|(_, losses)| losses.blocks > 0)
            .collect()
    }

    /// True if all links are up and no node lacks records. Before that, writes with two copies are refused or wait.
    pub fn is_linked(&self) -> bool {
        let link_count = self.mailboxes.len() * self.setup.cluster.others().count();
        self.links.load(Ordering::Acquire) == link_count && self.pair.mode() == PairMode::Paired
    }

    pub fn io(&self) -> IoSnapshot {
        self.io.now()
    }

    pub(super) fn parse(&self, message: &[u8]) -> Result<ParsedMessage, MessageError> {
        let namespaces = &self.setup.config.namespaces;
        wire::parse(message, self.setup.limits.batch, |name: &[u8]| {
            namespaces
                .iter()
                .position(|of| of.settings.name.as_bytes() == name)
        })
    }

    /// Settings that all nodes must share, one per line: nodes, then namespaces with replication factor and block size.
    pub(super) fn common(&self) -> Vec<u8> {
        let nodes = self
            .setup
            .cluster
            .nodes()
            .iter()
            .map(|node| format!("{}\n", node.name()));
        let namespaces = self.setup.config.namespaces.iter();
        let namespaces = namespaces.map(|of| {
            format!(
                "{} {} {}\n",
                of.settings.name, of.replication_factor, of.settings.write_block_bytes
            )
        });
        nodes.chain(namespaces).collect::<String>().into_bytes()
    }

    /// Time since the start, ns: the clock of the cores.
    pub(super) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Time since 1970, ns, when the cores' clock shows `now_ns`. Records expire by this time.
    pub(super) fn wall_ns(&self, now_ns: u64) -> u64 {
        self.process + now_ns
    }

    /// Deadline of a transaction that begins now. `timeout_ms`: the client's timeout; 0: the client gave none.
    pub(super) fn deadline_ns(&self, now_ns: u64, timeout_ms: u32) -> u64 {
        match if timeout_ms > 0 {
            timeout_ms
        } else {
            self.setup.config.transaction_max_ms
        } {
            0 => u64::MAX,
            ms => now_ns + u64::from(ms) * 1_000_000,
        }
    }

    /// Clients' requests so far, and failures: timeouts, and requests whose partition no node could serve.
    pub(super) fn requests(&self) -> [u64; 2] {
        let mut sums = [0; 2];
        for counts in &self.counts {
            for namespace in &lock(counts).namespaces {
                let origins = [
                    &namespace.client,
                    &namespace.batch_sub,
                    &namespace.from_proxy,
                ];
                for [all, failed] in origins.map(TransactionCounts::requests) {
                    sums = [sums[0] + all, sums[1] + failed];
                }
            }
        }
        sums
    }

    /// Updates the partitions and nodes that this node reports to clients.
    pub(super) fn show_cluster(&self) {
        let cluster = &self.setup.cluster;
        let mode = self.pair.mode();
        let is_linked = self.links.load(Ordering::Acquire) > 0;
        let copy_count = cluster.nodes().len().min(2);
        let partitions: Vec<_> = (0..copy_count)
            .map(|place| {
                bitmap(|partition| self.pair.role(cluster, partition, true) == Some(place))
            })
            .collect();
        let is_alone = matches!(mode, PairMode::Ahead | PairMode::Handing) && !is_linked;
        let peers: Vec<_> = cluster
            .others()
            .filter(|_| !is_alone)
            .map(|(_, node)| node.clone())
            .collect();
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

    /// Greatest difference between the clock of this node and the clock of another node, ms.
    pub(super) fn skew_ms(&self) -> u64 {
        self.skews.iter().map(ClockSkew::ms).max().unwrap_or(0)
    }

    /// Takes the time in the answer to a ping that was sent at `pinged_ns`.
    pub(super) fn on_peer_time(&self, node: usize, peer_ns: u64, now_ns: u64, pinged_ns: u64) {
        let report = self.skews[node].measure(
            peer_ns,
            self.wall_ns(now_ns),
            now_ns.saturating_sub(pinged_ns),
        );
        let Some((warns, skew)) = report else { return };
        let text = format!(
            "the clock of node {} {skew}",
            self.setup.cluster.nodes()[node].name()
        );
        let line = if warns {
            ServerLogLine::warning
        } else {
            ServerLogLine::info
        };
        (self.setup.log)(line("skew", "skew_monitor.c", text));
    }

    pub(super) fn inform(&self, context: &'static str, source: &'static str, text: String) {
        (self.setup.log)(ServerLogLine::info(context, source, text));
    }

    pub(super) fn warn(&self, context: &'static str, source: &'static str, text: String) {
        (self.setup.log)(ServerLogLine::warning(context, source, text));
    }

    pub(super) fn send_to_all(&self, message: impl Fn() -> CoreMessage) {
        for mailbox in &self.mailboxes {
            mailbox.push(message());
            mailbox.wake();
        }
    }
}

fn bitmap(has_partition: impl Fn(u16) -> bool) -> Bitmap {
    let mut bitmap = [0; PARTITIONS as usize / 8];
    for partition in (0..PARTITIONS).filter(|partition| has_partition(*partition)) {
        bitmap[usize::from(partition / 8)] |= 0x80 >> (partition % 8);
    }
    bitmap
}

fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64
}

#[derive(Debug)]
pub(super) struct Mailbox<T> {
    queue: SegQueue<T>,
    asleep: AtomicBool,
    waker: OnceLock<Waker>,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self {
            queue: SegQueue::new(),
            asleep: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }

    /// Sets the waker of the mailbox's thread. Called once, by that thread.
    pub(super) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Adds a message. After the last message, call [`Self::wake`].
    pub(super) fn push(&self, message: T) {
        self.queue.push(message);
    }

    /// Wakes the thread if it sleeps or is about to sleep.
    pub(super) fn wake(&self) {
        // Pairs with the fence in `may_sleep`: this thread sees that the other sleeps, or the other sees the message.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.waker.get().inspect(|waker| waker.wake());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn take(&self) -> Option<T> {
        self.queue.pop()
    }

    /// Announces that the mailbox's thread will sleep; `false` if it must not, because there are messages.
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.queue.is_empty()
    }

    /// Announces that the mailbox's thread is awake.
    pub(super) fn is_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod mailbox_tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_thread_sleeps_only_without_messages_and_the_next_message_wakes_it() {
        let mailbox = Arc::new(Mailbox::new());
        mailbox.push(1);
        assert!(!mailbox.may_sleep());
        assert_eq!((mailbox.take(), mailbox.take()), (Some(1), None));
        assert!(mailbox.may_sleep());
        mailbox.push(2);
        mailbox.wake();
        assert!(
            !mailbox.asleep.load(Ordering::Relaxed),
            "only the first message wakes"
        );
    }
}
