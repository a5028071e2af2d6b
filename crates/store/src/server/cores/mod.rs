//! The thread of one core: its ring, its connections and its part of every namespace.
//!
//! ```text
//! loop: messages -> timers -> send all replies -> wait in the ring -> handle completions
//! ```
//!
//! Each pass makes one system call to receive and to wait, and one for each connection that gets replies. `intake`
//! parses requests; `transactions` executes them, on this core or on another core or node; `batches` executes requests
//! for many keys. `modes` handles this node's mode and the record of the mode; `migration` copies records to the other
//! node.

mod batches;
mod intake;
mod migration;
mod modes;
mod transactions;

use super::connection::{PeerConnection, Role, Slab};
use super::node_message::NodeMessage;
use super::pair::{LEASE_NS, ModeRecord, ModeVersion, PING_NS, PairMode};
use super::state::{CoreMessage, ServerState, lock};
use crate::conf::NamespaceConfig;
use crate::observe::{NamespaceCounts, ServerCounts};
use crate::{
    NamespaceSettings, Replies, Store, StoreDisk, StoreSpace, Transaction, write_unit_bytes,
};
use batches::Batch;
use engine::EngineSetup;
use engine::net::{NetCompletion, NetEngine, ReceiveBuffers, SocketCompletion};
use engine::{IoEngine, Wait};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sys::buffer::Buf;
use sys::net::{NetOp, NetOutcome};
use sys::op;
use transactions::{AnsweredTransaction, PendingTransaction, Requester};

const ARRIVALS: ReceiveBuffers = ReceiveBuffers {
    buffers: 512,
    bytes: 8 << 10,
};

const MS: u64 = 1_000_000;

/// Time between two checks for timeouts, ns.
const SWEEP_NS: u64 = 100 * MS;

/// Maximum age of the published counts while the core is active, ns.
const REPORT_NS: u64 = 20 * MS;

/// Pause of a listener after a failed accept, such as for lack of file descriptors, ns.
const REST_NS: u64 = 100 * MS;

/// Timeout for clients to read replies when the server ends, ns.
const PARTING_NS: u64 = 2_000 * MS;

/// Tokens per connection: one for each kind of operation.
const TOKENS_EACH: u32 = 3;
const RECEIVE: u32 = 0;
const SEND: u32 = 1;
const CANCEL: u32 = 2;

/// The disk of another core's store: operations for that core's ring, and the time.
struct LentDisk<'a>(&'a mut Vec<op::Op>, u64);

impl StoreDisk for LentDisk<'_> {
    fn now_ns(&mut self) -> u64 {
        self.1
    }

    fn submit(&mut self, op: op::Op) {
        self.0.push(op);
    }

    /// Only the owning core's thread can allocate from its ring's memory. The store waits for a buffer until that
    /// thread runs.
    fn buffer(&mut self, _len: usize) -> Option<Buf> {
        None
    }
}

/// The ring as a store's disk, with the time of the current pass.
struct RingDisk<'a>(&'a mut NetEngine, u64);

impl StoreDisk for RingDisk<'_> {
    fn now_ns(&mut self) -> u64 {
        self.1
    }

    fn submit(&mut self, op: op::Op) {
        self.0.submit(NetOp::Block(op));
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.0.buffer(len)
    }
}

pub(super) struct ServerCore {
    core: usize,
    state: Arc<ServerState>,
    net: NetEngine,
    stores: Vec<(Store, Range<u32>)>,
    /// First token of the listeners. The tokens of connections follow.
    first_token: u32,
    listeners: Vec<Arc<TcpListener>>,
    /// Listeners that pause, each with the end of the pause.
    paused_listeners: Vec<(usize, u64)>,
    next_core: usize,
    connections: Slab<PeerConnection>,
    serial: u32,
    pending: Slab<PendingTransaction>,
    /// Transactions that wait until this node's mode is recorded: number, transaction, `at_master`.
    parked: Vec<(u32, Transaction, bool)>,
    copies: migration::CopiesInFlight,
    batches: Slab<Batch>,
    replies: Replies,
    answered: Vec<AnsweredTransaction>,
    unsent_connections: Vec<u32>,
    /// True for cores that got messages in this pass.
    cores_to_wake: Vec<bool>,
    /// This core's connection to each node.
    links: Vec<Option<u32>>,
    /// The mode that was last sent on all links.
    sent_mode_version: ModeVersion,
    /// True once the log says that this core refused another node.
    has_refused: bool,
    migration: Option<migration::CoreComparison>,
    /// Earliest time of the next log line about a failed comparison.
    next_warning_ns: u64,
    /// After a failed copy of a record: earliest start of the next comparison.
    next_comparison_ns: u64,
    recording: Option<PairMode>,
    /// The record of the mode that was found at the start, while it is written to all devices again.
    found_record: Option<ModeRecord>,
    record_number: u64,
    /// Bytes of requests and replies since the last check of memory.
    moved_bytes: usize,
    now_ns: u64,
    swept_ns: u64,
    reported_ns: u64,
    /// True if the counts may have changed since `reported_ns`.
    has_changed: bool,
    counts: ServerCounts,
    is_ready: bool,
    /// True once all devices are read and a store does not open because of damage.
    is_refused: bool,
    /// Names of the devices, by their numbers in the ring.
    devices: Vec<String>,
    /// Time since which the core takes no more requests.
    stops_ns: Option<u64>,
    /// Time when all requests were answered for the first time since `stops_ns`.
    answered_ns: Option<u64>,
    /// Reason why this core stops the server.
    failure: Option<String>,
    is_quiet: bool,
}

impl ServerCore {
    /// Created on the thread of core number `core`.
    pub(super) fn new(
        core: usize,
        state: &Arc<ServerState>,
        listeners: Vec<Arc<TcpListener>>,
    ) -> Result<Self, String> {
        let setup = &state.setup;
        // Time since 1970 when the clock showed 0. All cores have the same clock.
        let wall_ms = state.process / 1_000_000;
        let mut targets = Vec::new();
        let mut plans = Vec::new();
        let mut first_token = 0;
        let mut memory_bytes = 0;
        let cores = state.mailboxes.len() as u16;
        for (
            NamespaceConfig {
                settings: namespace,
                ..
            },
            devices,
        ) in setup.config.namespaces.iter().zip(&setup.devices)
        {
            let mut spaces = Vec::new();
            for (target, header) in devices {
                let target_id = targets.len() as u16;
                let space = header.space(
                    target.size_bytes(),
                    target_id,
                    core as u16,
                    target.min_io_bytes(),
                );
                let space =
                    space.map_err(|error| format!("cannot open {} - {error}", target.name()))?;
                spaces.push(StoreSpace {
                    write_unit_bytes: write_unit_bytes(target),
                    ..space
                });
                targets.push(target.clone());
            }
            let namespace = namespace.per_core(cores);
            let (tokens, bytes) = Store::needs(&namespace, spaces.len());
            let tokens = first_token..first_token + tokens;
            (first_token, memory_bytes) = (tokens.end, memory_bytes + bytes);
            plans.push((namespace, spaces, tokens));
        }
        let connections = setup.limits.connections + setup.cluster.nodes().len();
        let tokens = first_token as usize + listeners.len() + connections * TOKENS_EACH as usize;
        let devices = targets
            .iter()
            .map(|target| target.name().to_string())
            .collect();
        let size = EngineSetup {
            in_flight_max: tokens,
            memory_bytes,
            epoch: state.began,
            harmless_gap_ns: u64::MAX,
        };
        let (mut net, _) = NetEngine::new(targets, ARRIVALS, size).map_err(|error| {
            let advice = "allow io_uring, or raise the limit of locked memory (ulimit -l)";
            format!(
                "cannot make a ring - {error} - {}",
                sys::remedy(&error, advice)
            )
        })?;
        state.mailboxes[core].set_waker(net.waker().clone());
        let stores = plans
            .into_iter()
            .map(
                |(namespace, spaces, tokens): (NamespaceSettings, Vec<_>, Range<u32>)| {
                    let seed = wall_ms << 8 | core as u64;
                    let now_ns = net.now();
                    let store = Store::open(
                        &namespace,
                        &spaces,
                        tokens.clone(),
                        wall_ms,
                        seed,
                        &mut RingDisk(&mut net, now_ns),
                    );
                    let mut store = store.map_err(|error| {
                        format!("cannot open namespace {} - {error}", namespace.name)
                    })?;
                    store.count_into(state.io.clone());
                    Ok((store, tokens))
                },
            )
            .collect::<Result<_, String>>()?;
        Ok(Self {
            core,
            state: state.clone(),
            net,
            stores,
            first_token,
            listeners,
            paused_listeners: Vec::new(),
            next_core: 0,
            connections: Slab::new(),
            serial: 0,
            pending: Slab::new(),
            parked: Vec::new(),
            copies: migration::CopiesInFlight::default(),
            batches: Slab::new(),
            replies: Vec::new(),
            answered: Vec::new(),
            unsent_connections: Vec::new(),
            cores_to_wake: vec![false; state.mailboxes.len()],
            links: vec![None; setup.cluster.nodes().len()],
            sent_mode_version: state.pair.reported_mode(),
            has_refused: false,
            migration: None,
            next_warning_ns: 0,
            next_comparison_ns: 0,
            recording: None,
            found_record: None,
            record_number: 0,
            moved_bytes: 0,
            now_ns: 0,
            swept_ns: 0,
            reported_ns: 0,
            has_changed: false,
            counts: ServerCounts {
                namespaces: vec![NamespaceCounts::default(); setup.config.namespaces.len()],
                ..ServerCounts::default()
            },
            is_ready: false,
            is_refused: false,
            devices,
            stops_ns: None,
            answered_ns: None,
            failure: None,
            is_quiet: false,
        })
    }

    /// Serves until the server stops. Errors: the ring fails, or a device fails and the other node takes over.
    pub(super) fn run(mut self) -> Result<(), String> {
        let mut completions = Vec::new();
        let mut is_accepting = false;
        loop {
            self.now_ns = self.net.now();
            while let Some(message) = self.state.mailboxes[self.core].take() {
                #[cfg(test)]
                if let CoreMessage::Fail(why) = message {
                    return Err(why);
                }
                self.on_message(message);
            }
            let due_ns = self.poll();
            self.handle_replies();
            if !is_accepting && self.state.is_ready() {
                is_accepting = true;
                (0..self.listeners.len()).for_each(|at| self.accept(at));
            }
            self.send();
            self.count_answered();
            if self.has_ended() {
                self.publish();
                return self.failure.map_or(Ok(()), Err);
            }
            for (core, mailed) in self
                .cores_to_wake
                .iter_mut()
                .enumerate()
                .filter(|(_, mailed)| **mailed)
            {
                *mailed = false;
                self.state.mailboxes[core].wake();
            }
            let until_ns = if self.state.mailboxes[self.core].may_sleep() {
                due_ns
            } else {
                0
            };
            self.lend(until_ns);
            let reaped = self.net.reap(Wait::first(until_ns), &mut completions);
            self.take_back();
            self.state.mailboxes[self.core].is_awake();
            reaped.map_err(|error| format!("the ring of core {} failed - {error}", self.core))?;
            self.now_ns = self.net.now();
            self.has_changed |= !completions.is_empty();
            for completion in completions.drain(..) {
                match completion {
                    NetCompletion::Block(completion) => {
                        let of = self
                            .stores
                            .iter_mut()
                            .find(|(_, tokens)| tokens.contains(&completion.token));
                        if let Some((store, _)) = of {
                            let disk = &mut RingDisk(&mut self.net, self.now_ns);
                            store.on_completion(completion, disk, &mut self.replies);
                        }
                    }
                    NetCompletion::Net(event) => self.on_event(event),
                }
                self.handle_replies();
                self.send_last();
            }
        }
    }

    fn on_message(&mut self, message: CoreMessage) {
        self.has_changed = true;
        match message {
            CoreMessage::Accepted(socket) => _ = self.connect(socket, Role::Client),
            CoreMessage::Linked { node, socket, link } => {
                let at = self.connect(socket, Role::Outbound(node));
                self.greet(at, link);
            }
            CoreMessage::Transaction {
                from_core,
                number,
                namespace,
                transaction,
                at_master,
            } => {
                let origin = Requester::Core {
                    core: from_core,
                    number,
                };
                let number = self.pend(origin, namespace, transaction.digest);
                self.execute(number, namespace, transaction, at_master);
            }
            CoreMessage::Reply { number, reply } => self.complete(number, reply),
            CoreMessage::Record => self.record(),
            CoreMessage::Recorded => self.resume(),
            CoreMessage::Stop => _ = self.stops_ns.get_or_insert(self.now_ns),
            #[cfg(test)]
            CoreMessage::Fail(_) => unreachable!("it ends the thread"),
        }
        self.handle_replies();
    }

    fn on_event(&mut self, event: SocketCompletion) {
        let SocketCompletion {
            token, outcome, op, ..
        } = event;
        let number = token - self.first_token;
        let listeners = self.listeners.len() as u32;
        if number < listeners {
            match outcome {
                NetOutcome::Accepted(socket) => self.assign_connection(socket),
                NetOutcome::Errno(errno) if op.is_some() => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    let what = sys::remedy(&error, "the server tries again");
                    self.state.warn(
                        "service",
                        "service.c",
                        format!("cannot accept a connection - {error} - {what}"),
                    );
                    self.paused_listeners
                        .push((number as usize, self.now_ns + REST_NS));
                    return;
                }
                _ => {}
            }
            if op.is_some() {
                self.accept(number as usize);
            }
            return;
        }
        let at = (number - listeners) / TOKENS_EACH;
        let kind = (number - listeners) % TOKENS_EACH;
        let is_over = op.is_some();
        match (kind, outcome, op) {
            (RECEIVE, outcome, _) => self.on_received(at, outcome, is_over),
            (SEND, outcome, Some(NetOp::Send { bytes, .. })) => self.on_sent(at, &outcome, bytes),
            _ => self.on_cancelled(at),
        }
    }

    fn token(&self, connection: u32, kind: u32) -> u32 {
        self.first_token + self.listeners.len() as u32 + connection * TOKENS_EACH + kind
    }

    fn accept(&mut self, at: usize) {
        let token = self.first_token + at as u32;
        let listener = self.listeners[at].clone();
        self.net.submit(NetOp::Accept { token, listener });
    }

    /// Gives a connection to the next core (round robin), if the limit allows one more.
    fn assign_connection(&mut self, socket: TcpStream) {
        let state = self.state.clone();
        if self.stops_ns.is_some()
            || state.connections.load(Ordering::Relaxed) >= state.setup.limits.connections
        {
            return;
        }
        state.connections.fetch_add(1, Ordering::Relaxed);
        let target_core = self.next_core;
        self.next_core = (target_core + 1) % state.mailboxes.len();
        if target_core == self.core {
            let _at = self.connect(socket, Role::Client);
        } else {
            self.mail(target_core, CoreMessage::Accepted(socket));
        }
    }

    fn mail(&mut self, target_core: usize, message: CoreMessage) {
        self.state.mailboxes[target_core].push(message);
        self.cores_to_wake[target_core] = true;
    }

    /// Lends this core's stores to other threads. This thread must have announced its sleep before, so that the I/O of
    /// the other threads wakes it.
    fn lend(&mut self, until_ns: u64) {
        let mut lent = lock(&self.state.lent[self.core]);
        (lent.stores, lent.until_ns) = (std::mem::take(&mut self.stores), until_ns);
    }

    /// Ends [`Self::lend`], and starts the I/O of the other threads' transactions.
    fn take_back(&mut self) {
        let mut lent = lock(&self.state.lent[self.core]);
        self.stores = std::mem::take(&mut lent.stores);
        self.has_changed |= std::mem::take(&mut lent.is_touched);
        lent.ops
            .drain(..)
            .for_each(|op| self.net.submit(NetOp::Block(op)));
    }

    /// Does due work. Returns the time of the next call.
    fn poll(&mut self) -> u64 {
        let mut due_ns = u64::MAX;
        let mut all_ready = true;
        let mut any_damaged = false;
        let mut all_read = true;
        for (store, _) in &mut self.stores {
            let disk = &mut RingDisk(&mut self.net, self.now_ns);
            due_ns = due_ns.min(store.poll(disk, &mut self.replies));
            let mut is_damaged = store.damage().is_some();
            if is_damaged && self.state.setup.accept_losses {
                store.accept_losses(disk);
                is_damaged = false;
            }
            (all_ready, any_damaged) = (all_ready && store.is_ready(), any_damaged || is_damaged);
            all_read &= store.is_ready() || is_damaged;
        }
        if any_damaged && all_read && !self.is_refused {
            self.is_refused = true;
            self.publish();
            self.state.damaged_cores.fetch_add(1, Ordering::AcqRel);
        }
        if all_ready && !self.is_ready {
            self.is_ready = true;
            self.indexed();
        }
        self.check_record();
        due_ns = due_ns.min(self.migrate()).min(self.copy_again());
        for at in 0..self.stores.len() {
            while let Some(remark) = self.stores[at].0.take_remark() {
                let name = &self.state.setup.config.namespaces[at].settings.name;
                let device = remark
                    .device
                    .and_then(|target| self.devices.get(usize::from(target)));
                let device = device.map_or(String::new(), |device| format!(" {device}:"));
                self.state.warn(
                    "drv_ssd",
                    "drv_ssd.c",
                    format!("{{{name}}}{device} {}", remark.text),
                );
            }
        }
        self.leave_failing_device();
        for (at, _) in self
            .paused_listeners
            .extract_if(.., |(_, until_ns)| *until_ns <= self.now_ns)
            .collect::<Vec<_>>()
        {
            self.accept(at);
        }
        due_ns = self
            .paused_listeners
            .iter()
            .fold(due_ns, |due_ns, (_, until_ns)| due_ns.min(*until_ns));
        let is_busy = self.connections.len() + self.pending.len() > 0 || self.stops_ns.is_some();
        let is_busy = is_busy || self.core == 0 && self.state.pair.takes_over();
        // Report a new mode at once: until then, the other node passes requests on to this node, which refuses them.
        let mode_version = self.state.pair.reported_mode();
        if std::mem::replace(&mut self.sent_mode_version, mode_version) != mode_version {
            self.links
                .clone()
                .into_iter()
                .flatten()
                .for_each(|at| self.ping(at));
        }
        if self.swept_ns + SWEEP_NS <= self.now_ns {
            self.swept_ns = self.now_ns;
            self.sweep();
        }
        if self.has_changed {
            match self.reported_ns + REPORT_NS {
                at_ns if at_ns <= self.now_ns => self.publish(),
                at_ns => due_ns = due_ns.min(at_ns),
            }
        }
        if is_busy {
            due_ns.min(self.now_ns + SWEEP_NS)
        } else {
            due_ns
        }
    }

    /// Ends the server if a device fails and the other node can take over.
    fn leave_failing_device(&mut self) {
        if self.failure.is_some() || self.stops_ns.is_some() || !self.state.pair.takes_over() {
            return;
        }
        let failing = self
            .stores
            .iter()
            .zip(0..)
            .find_map(|((store, _), at)| Some((at, store.failing_device()?)));
        let Some((_, device)) = failing.filter(|(at, _)| self.has_copies(*at)) else {
            return;
        };
        if !self.state.pair.may_leave(self.now_ns) {
            return;
        }
        let name = self
            .devices
            .get(usize::from(device))
            .map_or("", String::as_str);
        self.failure = Some(format!(
            "cannot write to {name} - the log has the error - this node ends, so that the other node answers all \
             requests - replace the drive, then start this node again: it gets all records from the other node"
        ));
        self.state.send_to_all(|| CoreMessage::Stop);
    }

    /// Counts bytes that may stay in memory. After each 1/16 of the limit, checks all connections; above the limit,
    /// closes the largest.
    fn limit_memory(&mut self, bytes: usize) {
        self.moved_bytes += bytes;
        let limit = self.state.setup.limits.memory_bytes / self.state.mailboxes.len();
        if self.moved_bytes < limit / 16 {
            return;
        }
        self.moved_bytes = 0;
        // The batch of a closed connection, and bytes that the kernel sends, stay allocated for a moment. Closing other
        // connections would not free them.
        let mut open: Vec<&mut PeerConnection> = self
            .connections
            .iter()
            .map(|(_, connection)| connection)
            .filter(|connection| !connection.is_closed)
            .collect();
        open.sort_by_key(|connection| connection.bytes_in_use());
        let mut total_bytes: usize = open.iter().map(|one| one.bytes_in_use()).sum();
        while total_bytes > limit
            && let Some(largest) = open.pop()
        {
            total_bytes -= largest.bytes_in_use();
            largest.end();
            self.counts.connections_reaped += 1;
        }
    }

    /// Ends connections and transactions that have timed out, and pings the other nodes.
    fn sweep(&mut self) {
        if self.core == 0 && self.stops_ns.is_none() {
            self.state.check_takeover(None);
            self.state.record();
        }
        if !self.parked.is_empty() && !self.state.pair.must_wait(self.state.pair.word()) {
            self.resume();
        }
        self.time_out();
        let limits = &self.state.setup.limits;
        let idle_ns = limit_ns(limits.idle_ms);
        let stalled_ns = limit_ns(limits.stalled_ms);
        let now_ns = self.now_ns;
        let age_ns = |since_ns: u64| now_ns.saturating_sub(since_ns);
        let mut reaped = 0;
        let mut due = Vec::new();
        for (at, connection) in self
            .connections
            .iter()
            .filter(|(_, connection)| !connection.is_closed)
        {
            // The node does not answer: another program uses its port, its process hangs, or the network is broken.
            let is_deaf = matches!(connection.role, Role::Outbound(_))
                && age_ns(connection.heard_ns) > LEASE_NS;
            let is_stalled = connection
                .incomplete_since_ns
                .is_some_and(|since_ns| age_ns(since_ns) > stalled_ns)
                || (connection.is_sending() && age_ns(connection.sending_since_ns) > stalled_ns);
            let idles = connection.role == Role::Client
                && connection.is_idle()
                && age_ns(connection.arrived_ns) > idle_ns;
            if is_stalled || idles || is_deaf {
                reaped += 1;
                connection.end();
            } else if self.links.contains(&Some(at)) && age_ns(connection.pinged_ns) > PING_NS {
                due.push(at);
            }
        }
        due.into_iter().for_each(|at| self.ping(at));
        self.counts.connections_reaped += reaped;
    }

    /// Asks a node for an answer, and reports this node's mode.
    fn ping(&mut self, at: u32) {
        let mode_version = self.state.pair.reported_mode();
        let number = self.now_ns;
        let Some(connection) = self.connections.get(at).filter(|of| !of.is_closed) else {
            return;
        };
        connection.pinged_ns = number;
        NodeMessage::Ping {
            number,
            mode_version,
        }
        .put(connection.out());
        self.list(at);
    }

    /// True if the core has to stop, and no work is left.
    fn has_ended(&mut self) -> bool {
        let Some(since_ns) = self.stops_ns else {
            return false;
        };
        let stopping_ns = self.now_ns.saturating_sub(since_ns);
        let is_parting = stopping_ns < PARTING_NS;
        let all_answered = self
            .pending
            .iter()
            .all(|(_, of)| matches!(of.origin, Requester::Node(_)))
            && self
                .connections
                .iter()
                .all(|(_, of)| of.is_closed || of.role != Role::Client || of.is_idle());
        if all_answered && self.answered_ns.is_none() {
            self.answered_ns = Some(self.now_ns);
            self.links
                .clone()
                .into_iter()
                .flatten()
                .for_each(|at| self.ping(at));
        }
        // An answer to this ping proves that the other node has all writes sent before the ping, including writes for
        // which no client waits.
        let answered_ns = self.answered_ns.unwrap_or(u64::MAX);
        let are_copied = self.links.iter().flatten().all(|at| {
            self.connections
                .get(*at)
                .is_none_or(|link| link.is_closed || link.heard_ns >= answered_ns)
        });
        let may_leave = all_answered && are_copied && !self.state.pair.is_handing_back();
        if !self.is_quiet && (may_leave || !is_parting) {
            self.is_quiet = true;
            // Closed connections make the clients continue with another node, if there is one.
            self.connections
                .iter()
                .filter(|(_, of)| of.role == Role::Client)
                .for_each(|(_, of)| of.end());
            if self.state.quiet_cores.fetch_add(1, Ordering::AcqRel) + 1
                == self.state.mailboxes.len()
            {
                self.state.on_mode(self.state.pair.leave());
                self.cores_to_wake.fill(true);
            }
        }
        let all_quiet =
            self.state.quiet_cores.load(Ordering::Acquire) >= self.state.mailboxes.len();
        if !all_quiet && !self.state.has_failed.load(Ordering::Acquire) {
            return false;
        }
        let is_leaving = self.state.pair.mode() == PairMode::Leaving;
        let is_alone = self.state.links.load(Ordering::Acquire) == 0;
        let mut all_idle =
            is_alone || self.state.pair.is_relieved() || stopping_ns >= 2 * PARTING_NS;
        // A store in its cold start has nothing to write.
        for (store, _) in self
            .stores
            .iter_mut()
            .filter(|(store, _)| store.is_ready() && !store.is_idle())
        {
            store.flush(&mut RingDisk(&mut self.net, self.now_ns));
            // The buffers of a failing device may be lost: the other node has their records.
            all_idle &= store.is_idle() || is_leaving && store.failing_device().is_some();
        }
        let flush_ms = self.state.setup.limits.flush_ms;
        if !all_idle && stopping_ns > flush_ms * MS {
            let what = format!(
                "write buffers were not written within {} s - the device fails or hangs - the data in these buffers is lost",
                flush_ms as f64 / 1_000.0
            );
            self.state.warn(
                "drv_ssd",
                "drv_ssd.c",
                format!("core {}: {what}", self.core),
            );
            return true;
        }
        all_idle
    }
}

/// Time limit in ns of a setting in ms; 0: unlimited.
fn limit_ns(limit_ms: u64) -> u64 {
    match limit_ms {
        0 => u64::MAX,
        limit_ms => limit_ms * MS,
    }
}
