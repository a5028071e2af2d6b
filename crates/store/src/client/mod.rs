//! A client with Aerospike's protocol, as an engine of the run loop, for this crate's server or any real server.
//!
//! ```text
//! operation -> TransactionIssuer -> Transaction -> node of its partition -> connection -> NetEngine (a ring per thread)
//! ClientCluster (threads): owners of the partitions; new connections
//! ```
//!
//! * [`cluster`]: nodes and partitions; `routes`: connections to nodes, and requests waiting for a connection
//! * `connection`: requests for one record or several; [`replies`]: parses replies, which `routes` then handles
//!
//! The main idea: an issuing thread waits only in its ring. Requests for a missing node wait for a connection until
//! their timeout. So a server that returns is used at once, and a missing server does not cause a storm of failures. A
//! read whose node fails goes to another node with a copy, if [`Replica`] allows it; a write never does. On each
//! connection, replies come in the order of the requests. A connection has one request in flight, as in Aerospike's own
//! clients, or several if the server supports that.

pub mod cluster;
mod connection;
pub mod replies;
mod routes;
mod stored_record;

pub use connection::{BatchReads, KeySource};
pub use routes::Replica;
pub use stored_record::StoredRecord;

use crate::issuer::{CompletionTime, TransactionIssuer, TransactionOutcome};
use crate::object::RecordSpec;
use crate::{Overload, Verification};
use cluster::{ClientCluster, ConnectResult, PartitionMap};
use connection::{BatchPart, ConnectionSlot, PendingReply, put_batch, put_request};
use engine::EngineSetup;
use engine::net::{NetCompletion, NetEngine, ReceiveBuffers, SocketCompletion};
use engine::{IoEngine, Wait};
use routes::{MAP_NS, NodeRequest, NodeRoute, WaitingRequest};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use sys::buffer::Buf;
use sys::net::{NetOp, NetOutcome};
use sys::op::{Completion, Op, OpKind};

/// Number of nodes that may join during a run, for which connections are reserved.
const NODES_SPARE: usize = 2;

/// Number of receive buffers.
const ARRIVALS: std::ops::RangeInclusive<usize> = 16..=1_024;
const ARRIVAL_BYTES: usize = 16 << 10;

#[derive(Clone)]
pub struct ClientSettings {
    pub cluster: Arc<ClientCluster>,
    pub namespace: String,
    pub object: Arc<RecordSpec>,
    pub verification: Arc<Verification>,
    /// Settings of batch reads; `None`: each read is for one record.
    pub batch: Option<BatchReads>,
    pub replica: Replica,
    pub rack: Option<u32>,
    /// Timeout of a transaction, ms. At least 1.
    pub timeout_ms: u32,
    /// Maximum number of requests in flight on a connection. At least 1.
    pub pipeline: u32,
    pub overload: Arc<Overload>,
}

#[derive(Debug, Default)]
struct TransactionInFlight {
    /// Distinguishes the transaction from earlier transactions with the same token; 0: unused.
    number: u64,
    records_left: u32,
    /// Connections on which the transaction's requests were sent.
    slots: Vec<usize>,
}

pub struct Client {
    net: NetEngine,
    settings: ClientSettings,
    map: Arc<PartitionMap>,
    map_ns: u64,
    issuer: TransactionIssuer,
    keys: Option<KeySource>,
    connections: Vec<ConnectionSlot>,
    slots_max: usize,
    slots_each: usize,
    nodes: Vec<NodeRoute>,
    /// Requests whose partition has no known owner.
    unowned: VecDeque<WaitingRequest>,
    /// Indexed by token.
    transactions: Vec<TransactionInFlight>,
    last_number: u64,
    /// Deadline (ns), token and number of each transaction, in the order of issue.
    deadlines: VecDeque<(u64, u32, u64)>,
    completions: Vec<Completion>,
    events: Vec<NetCompletion>,
    slots_to_flush: Vec<usize>,
    connect_receiver: Receiver<(usize, ConnectResult)>,
    connect_sender: Sender<(usize, ConnectResult)>,
}

impl Client {
    /// Client number `shard.0` of `shard.1` clients. Makes enough connections for `setup.in_flight_max` transactions.
    /// Errors: a node refuses the connection, or the kernel has no io_uring.
    pub fn new(
        settings: ClientSettings,
        shard: (usize, usize),
        setup: EngineSetup,
    ) -> io::Result<Self> {
        let map = settings.cluster.map();
        let depth = setup.in_flight_max;
        let slots_each = depth.div_ceil(settings.pipeline.max(1) as usize).max(1);
        let slots_max = slots_each * (map.nodes.len() + NODES_SPARE);
        let buffers = depth
            .next_power_of_two()
            .clamp(*ARRIVALS.start(), *ARRIVALS.end());
        let arrivals = ReceiveBuffers {
            buffers: buffers as u16,
            bytes: ARRIVAL_BYTES,
        };
        let setup = EngineSetup {
            in_flight_max: 2 * slots_max,
            memory_bytes: 0,
            ..setup
        };
        let (net, _) = NetEngine::new(Vec::new(), arrivals, setup)?;
        let (connect_sender, connect_receiver) = channel();
        let mut client = Self {
            net,
            issuer: TransactionIssuer::new(
                settings.object.clone(),
                settings.verification.clone(),
                settings.overload.clone(),
            ),
            keys: settings
                .batch
                .as_ref()
                .map(|batch| (batch.keys)(shard.0, shard.1)),
            settings,
            map_ns: 0,
            connections: Vec::new(),
            slots_max,
            slots_each,
            nodes: Vec::new(),
            unowned: VecDeque::new(),
            transactions: Vec::new(),
            last_number: 0,
            deadlines: VecDeque::new(),
            completions: Vec::new(),
            events: Vec::new(),
            slots_to_flush: Vec::new(),
            connect_receiver,
            connect_sender,
            map,
        };
        client
            .nodes
            .resize_with(client.map.nodes.len(), NodeRoute::default);
        client.connect_ahead()?;
        Ok(client)
    }

    fn send(&mut self, slot: usize, waiting: WaitingRequest) {
        let WaitingRequest {
            token,
            tries,
            request,
            ..
        } = waiting;
        let Self {
            settings,
            transactions,
            connections,
            ..
        } = self;
        let namespace = settings.namespace.as_bytes();
        let unsent = &mut connections[slot].unsent;
        let part = match request {
            NodeRequest::One(transaction) => {
                put_request(unsent, namespace, &transaction, settings.timeout_ms);
                None
            }
            NodeRequest::Batch(keys) => {
                put_batch(
                    unsent,
                    namespace,
                    &settings.object.set,
                    &keys,
                    settings.timeout_ms,
                );
                Some(BatchPart::new(keys))
            }
        };
        connections[slot].pending_replies.push_back(PendingReply {
            token: Some(token),
            tries,
            part,
        });
        transactions[token as usize].slots.push(slot);
        self.list(slot);
    }

    /// Lists the connection, so that its bytes are sent with the next flush.
    fn list(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.is_listed {
            connection.is_listed = true;
            self.slots_to_flush.push(slot);
        }
    }

    fn start(&mut self, token: u32, request: NodeRequest) {
        self.last_number += 1;
        let number = self.last_number;
        if self.transactions.len() <= token as usize {
            self.transactions
                .resize_with(token as usize + 1, TransactionInFlight::default);
        }
        let transaction = &mut self.transactions[token as usize];
        let records = if let NodeRequest::Batch(keys) = &request {
            keys.len() as u32
        } else {
            1
        };
        (transaction.number, transaction.records_left) = (number, records);
        transaction.slots.clear();
        let until_ns = self.net.now() + u64::from(self.settings.timeout_ms.max(1)) * 1_000_000;
        self.deadlines.push_back((until_ns, token, number));
        self.route(WaitingRequest {
            token,
            number,
            tries: 0,
            request,
        });
    }

    fn finish(
        &mut self,
        token: u32,
        answer: TransactionOutcome<'_>,
        completion_time: CompletionTime,
    ) {
        self.transactions[token as usize].number = 0;
        if let Some((completion, next)) = self.issuer.end(token, answer, completion_time) {
            self.completions.push(completion);
            if let Some((token, transaction)) = next {
                self.start(token, NodeRequest::One(transaction));
            }
        }
    }

    /// Ends a connection: its outstanding replies are lost.
    fn end(&mut self, slot: usize, errno: i32) {
        let connection = &mut self.connections[slot];
        connection.end();
        connection.unsent.clear();
        let completion_time = CompletionTime {
            at_ns: self.net.now(),
            unseen_ns: 0,
        };
        for PendingReply { token, tries, part } in
            std::mem::take(&mut self.connections[slot].pending_replies)
        {
            let Some(token) = token else { continue };
            // In doubt: the request may have been sent.
            let lost = TransactionOutcome::lost(errno, true);
            match part {
                Some(part) => part
                    .rest()
                    .for_each(|key| self.record(token, key, tries, lost, completion_time)),
                None if self.retry_read(token, tries) => {}
                None => self.finish(token, lost, completion_time),
            }
        }
        self.vacate(slot);
    }

    /// Frees the slot of a connection that has ended, once all its operations are complete.
    fn vacate(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.is_over() {
            let ConnectionSlot {
                node,
                is_free,
                is_listed,
                ..
            } = *connection;
            *connection = ConnectionSlot {
                node,
                is_free,
                is_listed,
                ..ConnectionSlot::default()
            };
        }
    }

    fn event(&mut self, event: SocketCompletion) {
        let SocketCompletion {
            token,
            outcome,
            op,
            seen_ns,
            unseen_ns,
            ..
        } = event;
        let slot = token as usize / 2;
        let completion_time = CompletionTime {
            at_ns: seen_ns,
            unseen_ns,
        };
        match op {
            Some(NetOp::Send { mut bytes, .. }) => {
                let connection = &mut self.connections[slot];
                connection.is_sending = false;
                if connection.is_ending {
                    return self.vacate(slot);
                }
                if let NetOutcome::Errno(errno) = outcome {
                    return self.end(slot, errno);
                }
                if connection.unsent.is_empty() {
                    bytes.clear();
                    connection.unsent = bytes;
                }
                if connection.has_unsent() {
                    self.list(slot);
                }
            }
            receive => {
                let is_still_receiving = receive.is_none();
                self.connections[slot].is_receiving = is_still_receiving;
                let errno = match outcome {
                    NetOutcome::Received(buf, len) => {
                        let errno = self.arrived(slot, &buf[..len], completion_time);
                        self.net.provide(buf);
                        errno
                    }
                    NetOutcome::Errno(libc::ENOBUFS) => None,
                    NetOutcome::Errno(errno) => Some(errno),
                    _ => Some(libc::ECONNRESET),
                };
                match (errno, receive) {
                    _ if self.connections[slot].is_ending => self.vacate(slot),
                    (Some(errno), _) => self.end(slot, errno),
                    (None, Some(receive)) => {
                        self.connections[slot].is_receiving = true;
                        self.net.submit(receive);
                    }
                    (None, None) => {}
                }
            }
        }
    }

    fn flush(&mut self) {
        for slot in std::mem::take(&mut self.slots_to_flush) {
            let connection = &mut self.connections[slot];
            connection.is_listed = false;
            let Some(socket) = &connection.socket else {
                continue;
            };
            if !connection.is_sending && !connection.is_ending && connection.has_unsent() {
                let socket = socket.clone();
                let Ok(bytes) = connection.take_unsent() else {
                    self.end(slot, libc::EPROTO);
                    continue;
                };
                connection.is_sending = true;
                self.net.submit(NetOp::Send {
                    token: 2 * slot as u32 + 1,
                    socket,
                    bytes,
                });
            }
        }
    }

    /// Time of the next action if nothing arrives.
    fn timer_ns(&self, now_ns: u64) -> u64 {
        let deadline_ns = self
            .deadlines
            .front()
            .map_or(u64::MAX, |(until_ns, ..)| *until_ns);
        let deadline_ns = deadline_ns.min(self.issuer.again_ns());
        let is_waiting =
            !self.unowned.is_empty() || self.nodes.iter().any(|node| !node.waiting.is_empty());
        if is_waiting {
            deadline_ns.min(now_ns + MAP_NS)
        } else {
            deadline_ns
        }
    }
}

impl IoEngine for Client {
    type Op = Op;
    type Completion = Completion;

    #[inline]
    fn now(&mut self) -> u64 {
        self.net.now()
    }

    fn submit(&mut self, op: Op) {
        let token = op.token;
        let now_ns = self.net.now();
        let batch = self
            .settings
            .batch
            .as_ref()
            .filter(|_| op.kind == OpKind::Read);
        if let (Some(BatchReads { records, .. }), Some(next_key)) = (batch, &mut self.keys) {
            let first = op.offset;
            let keys = std::iter::once(first)
                .chain(std::iter::repeat_with(next_key))
                .take(*records as usize);
            let digests = self.issuer.begin_batch(op, keys, now_ns);
            self.start(token, NodeRequest::Batch((0..).zip(digests).collect()));
        } else if let Some(transaction) = self.issuer.begin(op, now_ns) {
            self.start(token, NodeRequest::One(transaction));
        }
    }

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        let enough = out.len().saturating_add(wait.completions.max(1) as usize);
        loop {
            out.append(&mut self.completions);
            let now_ns = self.net.now();
            self.expire(now_ns);
            self.tend(now_ns);
            while let Some((token, transaction)) = self.issuer.again(now_ns) {
                self.start(token, NodeRequest::One(transaction));
            }
            self.flush();
            let until_ns = if out.len() >= enough {
                0
            } else {
                wait.until_ns.min(self.timer_ns(now_ns))
            };
            let mut events = std::mem::take(&mut self.events);
            self.net.reap(Wait { until_ns, ..wait }, &mut events)?;
            let seen_ns = self.net.now();
            for completion in events.drain(..) {
                if let NetCompletion::Net(event) = completion {
                    self.event(event);
                }
            }
            self.events = events;
            self.take_made();
            out.append(&mut self.completions);
            if out.len() >= enough || seen_ns >= wait.until_ns {
                return Ok(());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.issuer.in_flight() + self.completions.len()
    }

    fn buffer(&mut self, _len: usize) -> Option<Buf> {
        // The engine has its own memory for records.
        Some(Buf::empty())
    }
}

#[cfg(test)]
mod tests;
