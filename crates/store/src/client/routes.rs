//! Routes to the nodes: connections, requests that wait for a connection, and replies. After a lost or late reply,
//! either the transaction ends, or the request is sent to another node.

use super::Client;
use super::cluster::connect_node;
use super::connection::{ConnectionSlot, IndexedDigest, PendingReply};
use super::replies::{take_entry, take_reply};
use crate::issuer::{CompletionTime, TransactionOutcome};
use crate::wire::Malformed;
use crate::{Digest, RecordOp, ResultCode, Transaction, nodes};
use engine::IoEngine;
use std::collections::VecDeque;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use sys::net::NetOp;
use sys::op::Outcome;

/// Time between two checks of the cluster's map.
pub(super) const MAP_NS: u64 = 10_000_000;

/// Time between two attempts to connect to a node, and between two checks of the requests waiting for a connection.
const RETRY_NS: u64 = 50_000_000;

/// Maximum number of concurrent attempts to connect to a node.
const ATTEMPTS_MAX: usize = 64;

/// Choice of the nodes for reads, as `Replica` in Aerospike's clients. Writes go to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replica {
    Master,
    /// The master; while the master fails, the replicas.
    Sequence,
    /// Master and replicas alternately.
    Any,
    /// Nodes of the client's rack first, then all other nodes. The master is the first node of its group.
    PreferRack,
}

/// Accepts the option values of Aerospike's benchmark.
impl FromStr for Replica {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "master" => Ok(Self::Master),
            "sequence" => Ok(Self::Sequence),
            "any" => Ok(Self::Any),
            "prefer-rack" => Ok(Self::PreferRack),
            _ => Err("give master, sequence, any or prefer-rack"),
        }
    }
}

#[derive(Debug)]
pub(super) enum NodeRequest {
    One(Transaction),
    Batch(Vec<IndexedDigest>),
}

#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) token: u32,
    pub(super) number: u64,
    /// Number of nodes that were tried before.
    pub(super) tries: usize,
    pub(super) request: NodeRequest,
}

/// An issuing thread's state for one node.
#[derive(Debug, Default)]
pub(super) struct NodeRoute {
    pub(super) slots: Vec<usize>,
    /// Connections that may accept requests. Some entries are outdated: check `takes` before use.
    pub(super) free: Vec<usize>,
    pub(super) waiting: VecDeque<WaitingRequest>,
    pub(super) connecting: usize,
    pub(super) retry_ns: u64,
    /// Error of the last attempt to connect, if it failed.
    pub(super) errno: Option<i32>,
}

impl Client {
    /// Before the first transaction, makes connections for the expected queue depth, spread over the nodes.
    pub(super) fn connect_ahead(&mut self) -> io::Result<()> {
        let map = self.map.clone();
        for node in &map.nodes {
            for _ in 0..self.slots_each.div_ceil(map.nodes.len()) {
                let connection =
                    connect_node(node, &self.settings.cluster.access).map_err(|(_, error)| {
                        io::Error::other(format!(
                            "cannot connect to node {} at {} - {error}",
                            node.name, node.host
                        ))
                    })?;
                let Some(slot) = self.slot(node.number) else {
                    break;
                };
                self.begin(slot, connection);
            }
        }
        Ok(())
    }

    fn slot(&mut self, node: usize) -> Option<usize> {
        for &slot in &self.nodes[node].slots {
            if self.connections[slot].is_vacant() {
                return Some(slot);
            }
        }
        if self.nodes[node].slots.len() == self.slots_each {
            return None;
        }
        let slot = if self.connections.len() < self.slots_max {
            self.connections.push(ConnectionSlot::default());
            self.connections.len() - 1
        } else {
            // Reuse a slot of a node that left.
            self.connections
                .iter()
                .position(ConnectionSlot::is_vacant)?
        };
        let ConnectionSlot {
            node: old_node,
            is_listed,
            ..
        } = self.connections[slot];
        self.nodes[old_node].slots.retain(|of| *of != slot);
        self.nodes[old_node].free.retain(|of| *of != slot);
        self.connections[slot] = ConnectionSlot {
            node,
            is_listed,
            ..ConnectionSlot::default()
        };
        self.nodes[node].slots.push(slot);
        Some(slot)
    }

    fn begin(&mut self, slot: usize, established: nodes::NodeConnection) {
        let (socket, tls) = established.into_parts();
        let socket = Arc::new(socket);
        let connection = &mut self.connections[slot];
        connection.tls = tls;
        connection.socket = Some(socket.clone());
        connection.is_receiving = true;
        self.net.submit(NetOp::Receive {
            token: 2 * slot as u32,
            socket,
        });
        self.free(slot);
    }

    /// Marks a connection as free, and gives it waiting requests.
    pub(super) fn free(&mut self, slot: usize) {
        let pipeline_max = self.settings.pipeline.max(1) as usize;
        let node = self.connections[slot].node;
        while self.connections[slot].takes(pipeline_max) {
            let Some(waiting) = self.nodes[node].waiting.pop_front() else {
                break;
            };
            if self.transactions[waiting.token as usize].number == waiting.number {
                self.send(slot, waiting);
            }
        }
        let connection = &mut self.connections[slot];
        if !connection.is_free && connection.takes(pipeline_max) {
            connection.is_free = true;
            self.nodes[node].free.push(slot);
        }
    }

    /// A connection to `node` that can take a request now.
    fn pick(&mut self, node: usize) -> Option<usize> {
        let pipeline_max = self.settings.pipeline.max(1) as usize;
        while let Some(slot) = self.nodes[node].free.last().copied() {
            if self.connections[slot].takes(pipeline_max) {
                return Some(slot);
            }
            self.connections[slot].is_free = false;
            self.nodes[node].free.pop();
        }
        None
    }

    /// Sends a request, or queues it for its node. A batch is split among its nodes.
    pub(super) fn route(&mut self, waiting: WaitingRequest) {
        let WaitingRequest {
            token,
            number,
            tries,
            request,
        } = waiting;
        match request {
            NodeRequest::One(transaction) => {
                let replica = match transaction.record_op {
                    RecordOp::Write(_) => Replica::Master,
                    _ => self.settings.replica,
                };
                let node = self.node_of(&transaction.digest, replica, number, tries);
                self.route_to(
                    node,
                    WaitingRequest {
                        token,
                        number,
                        tries,
                        request: NodeRequest::One(transaction),
                    },
                );
            }
            NodeRequest::Batch(keys) => {
                let mut keys: Vec<_> = keys
                    .into_iter()
                    .map(|key: IndexedDigest| {
                        (
                            self.node_of(
                                &key.1,
                                self.settings.replica,
                                number.wrapping_add(key.0.into()),
                                tries,
                            ),
                            key,
                        )
                    })
                    .collect();
                keys.sort_by_key(|(node, _)| *node);
                for part in keys.chunk_by(|(one, _), (other, _)| one == other) {
                    let request = NodeRequest::Batch(part.iter().map(|(_, key)| *key).collect());
                    self.route_to(
                        part[0].0,
                        WaitingRequest {
                            token,
                            number,
                            tries,
                            request,
                        },
                    );
                }
            }
        }
    }

    fn route_to(&mut self, node: Option<usize>, waiting: WaitingRequest) {
        let Some(node) = node else {
            return self.unowned.push_back(waiting);
        };
        match self.pick(node) {
            Some(slot) => self.send(slot, waiting),
            None => self.nodes[node].waiting.push_back(waiting),
        }
    }

    /// The node for a record's request, after `tries` other nodes. `number` spreads requests over the copies.
    fn node_of(
        &self,
        digest: &Digest,
        replica: Replica,
        number: u64,
        tries: usize,
    ) -> Option<usize> {
        if replica == Replica::Master {
            return self.map.master(digest);
        }
        let mut nodes: Vec<_> = self.map.owners(digest).collect();
        let count = nodes.len().max(1);
        match replica {
            Replica::Any => nodes.rotate_left(number as usize % count),
            // The sort is stable, so the master comes before the other nodes of its group.
            Replica::PreferRack => {
                nodes.sort_by_key(|node| self.map.nodes[*node].rack != self.settings.rack)
            }
            Replica::Master | Replica::Sequence => {}
        }
        nodes.rotate_left(tries % count);
        nodes
            .iter()
            .find(|node: &&usize| {
                let node_route = &self.nodes[**node];
                node_route.errno.is_none()
                    || node_route
                        .slots
                        .iter()
                        .any(|slot| self.connections[*slot].socket.is_some())
            })
            .or(nodes.first())
            .copied()
    }

    /// Checks the partition map, and starts to connect for waiting requests.
    pub(super) fn tend(&mut self, now_ns: u64) {
        if now_ns < self.map_ns {
            return;
        }
        self.map_ns = now_ns + MAP_NS;
        let map = self.settings.cluster.map();
        if !Arc::ptr_eq(&map, &self.map) {
            self.map = map;
            self.nodes
                .resize_with(self.map.nodes.len(), NodeRoute::default);
            let waiting = self
                .nodes
                .iter_mut()
                .flat_map(|node| node.waiting.drain(..));
            let waiting: Vec<_> = waiting.chain(self.unowned.drain(..)).collect();
            self.route_again(waiting);
        }
        for node in 0..self.nodes.len() {
            self.supply(node, now_ns);
        }
    }

    /// Routes requests again, except those of ended transactions.
    fn route_again(&mut self, waiting: Vec<WaitingRequest>) {
        for waiting in waiting {
            if self.transactions[waiting.token as usize].number == waiting.number {
                self.route(waiting);
            }
        }
    }

    fn supply(&mut self, node: usize, now_ns: u64) {
        let transactions = &self.transactions;
        let node_route = &mut self.nodes[node];
        while node_route
            .waiting
            .front()
            .is_some_and(|first| transactions[first.token as usize].number != first.number)
        {
            node_route.waiting.pop_front();
        }
        if self.nodes[node].retry_ns > now_ns {
            return;
        }
        let pipeline = self.settings.pipeline.max(1) as usize;
        // A node that did not answer gets one attempt to connect at a time, because each attempt has a thread.
        let attempts_max = if self.nodes[node].errno.is_some() {
            1
        } else {
            ATTEMPTS_MAX
        };
        while self.nodes[node].connecting < attempts_max
            && self.nodes[node].connecting * pipeline < self.nodes[node].waiting.len()
        {
            let Some(slot) = self.slot(node) else { return };
            self.connections[slot].is_connecting = true;
            self.nodes[node].connecting += 1;
            let node = self.map.nodes[node].clone();
            let connect_sender = self.connect_sender.clone();
            let waker = self.net.waker().clone();
            self.settings
                .cluster
                .connect(node, slot, connect_sender, waker);
        }
    }

    pub(super) fn take_made(&mut self) {
        while let Ok((slot, result)) = self.connect_receiver.try_recv() {
            let node = self.connections[slot].node;
            self.connections[slot].is_connecting = false;
            self.nodes[node].connecting -= 1;
            match result {
                Ok(connection) => {
                    self.nodes[node].errno = None;
                    self.begin(slot, connection);
                }
                Err((errno, _)) => {
                    self.nodes[node].errno = Some(errno);
                    self.nodes[node].retry_ns = self.net.now() + RETRY_NS;
                    // Reads may go to another node now.
                    let waiting = self.nodes[node].waiting.drain(..).collect();
                    self.route_again(waiting);
                }
            }
        }
    }
}

impl Client {
    /// Takes received bytes; returns an error number if they violate the protocol.
    pub(super) fn arrived(
        &mut self,
        slot: usize,
        bytes: &[u8],
        completion_time: CompletionTime,
    ) -> Option<i32> {
        if self.connections[slot].is_ending {
            return None;
        }
        let Ok(bytes) = self.connections[slot].received(bytes) else {
            return Some(libc::EPROTO);
        };
        if self.connections[slot].has_unsent() {
            self.list(slot);
        }
        if self.connections[slot].partial_reply.is_empty() {
            let (rest, errno) = self.replies(slot, &bytes, completion_time);
            self.connections[slot].partial_reply.extend_from_slice(rest);
            return errno;
        }
        let mut buffered = std::mem::take(&mut self.connections[slot].partial_reply);
        buffered.extend_from_slice(&bytes);
        let (rest, errno) = self.replies(slot, &buffered, completion_time);
        let consumed = buffered.len() - rest.len();
        buffered.drain(..consumed);
        self.connections[slot].partial_reply = buffered;
        errno
    }

    /// Ends the transactions whose replies are in `bytes`. Returns the rest of `bytes`.
    fn replies<'a>(
        &mut self,
        slot: usize,
        mut bytes: &'a [u8],
        completion_time: CompletionTime,
    ) -> (&'a [u8], Option<i32>) {
        loop {
            match take_reply(&mut bytes).and_then(|body| {
                body.map(|body| self.reply(slot, body, completion_time))
                    .transpose()
            }) {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(_) => return (bytes, Some(libc::EPROTO)),
            }
        }
        self.free(slot);
        (bytes, None)
    }

    /// Takes a reply to the oldest request of a connection.
    fn reply(
        &mut self,
        slot: usize,
        mut body: &[u8],
        completion_time: CompletionTime,
    ) -> Result<(), Malformed> {
        loop {
            let entry = take_entry(&mut body)?;
            let answer = TransactionOutcome::from_result(ResultCode(entry.code), entry.bins);
            let pending_reply = self.connections[slot].pending_replies.front_mut();
            let PendingReply { token, tries, part } =
                pending_reply.ok_or(Malformed::Body("reply without a request"))?;
            let token = *token;
            let tries = *tries;
            let Some(part) = part else {
                self.connections[slot].pending_replies.pop_front();
                if let Some(token) = token
                    && !(self.lacks_copy(answer.outcome) && self.retry_read(token, tries))
                {
                    self.finish(token, answer, completion_time);
                }
                return Ok(());
            };
            let keys = part.answered(&entry)?;
            if entry.is_last {
                self.connections[slot].pending_replies.pop_front();
            }
            if let Some(token) = token {
                keys.into_iter()
                    .for_each(|key| self.record(token, key, tries, answer, completion_time));
            }
            if entry.is_last || body.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends a read to another node with a copy of the record. `false`: no such node is left, or `token` is not a read.
    pub(super) fn retry_read(&mut self, token: u32, tries: usize) -> bool {
        let read = self
            .issuer
            .transaction(token)
            .filter(|transaction| matches!(transaction.record_op, RecordOp::ReadAll));
        read.is_some_and(|read| self.retry(token, tries, read.digest, NodeRequest::One(read)))
    }

    fn retry(&mut self, token: u32, tries: usize, digest: Digest, request: NodeRequest) -> bool {
        let tries = tries + 1;
        let can_retry =
            self.settings.replica != Replica::Master && tries < self.map.owners(&digest).count();
        if can_retry {
            let number = self.transactions[token as usize].number;
            self.route(WaitingRequest {
                token,
                number,
                tries,
                request,
            });
        }
        can_retry
    }

    pub(super) fn record(
        &mut self,
        token: u32,
        key: IndexedDigest,
        tries: usize,
        answer: TransactionOutcome<'_>,
        completion_time: CompletionTime,
    ) {
        let is_lost = !matches!(answer.outcome, Outcome::Done | Outcome::Result(_));
        let request = NodeRequest::Batch(vec![key]);
        if (is_lost || self.lacks_copy(answer.outcome)) && self.retry(token, tries, key.1, request)
        {
            return;
        }
        self.issuer.answer(token, key.0, answer);
        let records_left = &mut self.transactions[token as usize].records_left;
        *records_left -= 1;
        if *records_left == 0 {
            self.finish(
                token,
                TransactionOutcome::from_result(ResultCode::OK, &[]),
                completion_time,
            );
        }
    }

    /// True if the outcome says that the node has no copy of the record. In this case the nodes are queried again.
    fn lacks_copy(&self, outcome: Outcome) -> bool {
        let is_elsewhere = outcome == Outcome::Result(ResultCode::UNAVAILABLE.0);
        if is_elsewhere {
            // Sending fails only if the cluster's thread has ended.
            let _ = self.settings.cluster.refresh_sender.send(());
        }
        is_elsewhere
    }

    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((until_ns, token, number)) = self.deadlines.front().copied() {
            let current_number = self.transactions[token as usize].number;
            if current_number == number && until_ns > now_ns {
                return;
            }
            self.deadlines.pop_front();
            if current_number != number {
                continue;
            }
            let completion_time = CompletionTime {
                at_ns: now_ns,
                unseen_ns: 0,
            };
            let slots = std::mem::take(&mut self.transactions[token as usize].slots);
            if slots.is_empty() {
                // The request was certainly never sent. The reason is the node's error, if there is one.
                let connect_errno = self
                    .nodes
                    .iter()
                    .filter(|node| !node.waiting.is_empty())
                    .find_map(|node| node.errno);
                self.finish(
                    token,
                    TransactionOutcome::lost(connect_errno.unwrap_or(libc::ETIMEDOUT), false),
                    completion_time,
                );
                continue;
            }
            let mut stuck_slots = Vec::new();
            for slot in slots {
                let pending_replies = &mut self.connections[slot].pending_replies;
                let of_token = pending_replies
                    .iter_mut()
                    .filter(|one| one.token == Some(token));
                let is_in_flight = of_token.map(|one| one.token = None).count() > 0;
                if is_in_flight && pending_replies.iter().all(|one| one.token.is_none()) {
                    stuck_slots.push(slot);
                }
            }
            self.finish(
                token,
                TransactionOutcome::lost(libc::ETIMEDOUT, true),
                completion_time,
            );
            stuck_slots
                .into_iter()
                .for_each(|slot| self.end(slot, libc::ETIMEDOUT));
        }
    }
}
