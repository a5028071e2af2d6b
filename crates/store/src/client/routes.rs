//! Routes to the nodes: connections, free ones, and requests waiting for one.

use super::Client;
use super::connection::{Connection, Key};
use crate::{Digest, Transaction, Work, nodes};
use engine::IoEngine;
use std::collections::VecDeque;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use sys::net::Op as NetOp;

/// Time between two looks at the cluster's map.
pub(super) const MAP_NS: u64 = 10_000_000;

/// Time between two attempts to connect to a node, and between two checks of the requests waiting for that.
const RETRY_NS: u64 = 50_000_000;

/// Attempts to connect to a node at once.
const ATTEMPTS_MAX: usize = 64;

/// Nodes that reads go to; writes go to the master. As `Replica` of Aerospike's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replica {
    Master,
    /// The master; while it fails, the replicas.
    Sequence,
    /// Master and replicas in turn.
    Any,
    /// Nodes of the client's rack first, then as [`Self::Sequence`].
    PreferRack,
}

/// As Aerospike's benchmark writes it.
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

/// A message to one node.
#[derive(Debug)]
pub(super) enum Request {
    One(Transaction),
    Batch(Vec<Key>),
}

/// A request that has no connection.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) token: u32,
    pub(super) number: u64,
    /// Nodes that were tried before.
    pub(super) tries: usize,
    pub(super) request: Request,
}

/// An issuing thread's state for one node.
#[derive(Debug, Default)]
pub(super) struct ToNode {
    /// Slots of its connections.
    pub(super) slots: Vec<usize>,
    /// Connections that may accept requests; some entries are stale.
    pub(super) free: Vec<usize>,
    /// Requests waiting for a connection.
    pub(super) waiting: VecDeque<Waiting>,
    /// Connections that are being made.
    pub(super) wanted: usize,
    /// No attempt before this instant.
    pub(super) retry_ns: u64,
    /// Why the last attempt failed.
    pub(super) errno: Option<i32>,
}

impl Client {
    /// Makes connections for the expected depth, spread over the nodes, before the first transaction.
    pub(super) fn connect_ahead(&mut self) -> io::Result<()> {
        let map = self.map.clone();
        for node in &map.nodes {
            for _ in 0..self.slots_each.div_ceil(map.nodes.len()) {
                let made = self.settings.cluster.connect_now(node).map_err(|(_, error)| {
                    io::Error::other(format!("cannot connect to node {} at {}: {error}", node.name, node.host))
                })?;
                let Some(slot) = self.slot(node.number) else { break };
                self.begin(slot, made);
            }
        }
        Ok(())
    }

    /// A place for a connection to `node`.
    fn slot(&mut self, node: usize) -> Option<usize> {
        let is_empty = |slot: &usize| self.connections[*slot].socket.is_none() && !self.connections[*slot].is_wanted;
        if let Some(slot) = self.nodes[node].slots.iter().copied().find(is_empty) {
            return Some(slot);
        }
        if self.nodes[node].slots.len() == self.slots_each {
            return None;
        }
        let slot = match self.connections.len() < self.slots_max {
            true => {
                self.connections.push(Connection::default());
                self.connections.len() - 1
            }
            // Of a node that left.
            false => (0..self.connections.len()).find(is_empty)?,
        };
        let Connection { node: before, is_listed, .. } = self.connections[slot];
        self.nodes[before].slots.retain(|of| *of != slot);
        self.nodes[before].free.retain(|of| *of != slot);
        self.connections[slot] = Connection { node, is_listed, ..Connection::default() };
        self.nodes[node].slots.push(slot);
        Some(slot)
    }

    fn begin(&mut self, slot: usize, made: nodes::Connection) {
        let (socket, tls) = made.into_parts();
        let socket = Arc::new(socket);
        let connection = &mut self.connections[slot];
        connection.tls = tls;
        connection.socket = Some(socket.clone());
        connection.is_receiving = true;
        self.net.submit(NetOp::Receive { token: 2 * slot as u32, socket });
        self.free(slot);
    }

    /// Marks a connection as free, and gives it waiting requests.
    pub(super) fn free(&mut self, slot: usize) {
        let most = self.settings.pipeline.max(1) as usize;
        let node = self.connections[slot].node;
        while self.connections[slot].takes(most) {
            let Some(waiting) = self.nodes[node].waiting.pop_front() else { break };
            if self.out[waiting.token as usize].number == waiting.number {
                self.send(slot, waiting);
            }
        }
        let connection = &mut self.connections[slot];
        if !connection.is_free && connection.takes(most) {
            connection.is_free = true;
            self.nodes[node].free.push(slot);
        }
    }

    /// A connection to `node` that takes a request.
    fn pick(&mut self, node: usize) -> Option<usize> {
        let most = self.settings.pipeline.max(1) as usize;
        while let Some(slot) = self.nodes[node].free.last().copied() {
            if self.connections[slot].takes(most) {
                return Some(slot);
            }
            self.connections[slot].is_free = false;
            self.nodes[node].free.pop();
        }
        None
    }

    /// Sends a request, or queues it at its node; a batch in parts to several nodes.
    pub(super) fn route(&mut self, waiting: Waiting) {
        let Waiting { token, number, tries, request } = waiting;
        match request {
            Request::One(transaction) => {
                let replica = match transaction.work {
                    Work::Write(_) => Replica::Master,
                    _ => self.settings.replica,
                };
                let node = self.node_of(&transaction.digest, replica, number, tries);
                self.route_to(node, Waiting { token, number, tries, request: Request::One(transaction) });
            }
            Request::Batch(keys) => {
                let node_of = |key: Key| {
                    (self.node_of(&key.1, self.settings.replica, number.wrapping_add(key.0.into()), tries), key)
                };
                let mut keys: Vec<_> = keys.into_iter().map(node_of).collect();
                keys.sort_by_key(|(node, _)| *node);
                for part in keys.chunk_by(|(one, _), (other, _)| one == other) {
                    let request = Request::Batch(part.iter().map(|(_, key)| *key).collect());
                    self.route_to(part[0].0, Waiting { token, number, tries, request });
                }
            }
        }
    }

    fn route_to(&mut self, node: Option<usize>, waiting: Waiting) {
        let Some(node) = node else { return self.unowned.push_back(waiting) };
        match self.pick(node) {
            Some(slot) => self.send(slot, waiting),
            None => self.nodes[node].waiting.push_back(waiting),
        }
    }

    /// The node for a request about a record, after `tries` others; `number` spreads requests over copies.
    fn node_of(&self, digest: &Digest, replica: Replica, number: u64, tries: usize) -> Option<usize> {
        if replica == Replica::Master {
            return self.map.master(digest);
        }
        let mut nodes: Vec<_> = self.map.owners(digest).collect();
        let count = nodes.len().max(1);
        match replica {
            Replica::Any => nodes.rotate_left(number as usize % count),
            // The sort is stable: the master of the rest comes first.
            Replica::PreferRack => nodes.sort_by_key(|node| self.map.nodes[*node].rack != self.settings.rack),
            Replica::Master | Replica::Sequence => {}
        }
        nodes.rotate_left(tries % count);
        let is_up = |node: &&usize| {
            let to = &self.nodes[**node];
            to.errno.is_none() || to.slots.iter().any(|slot| self.connections[*slot].socket.is_some())
        };
        nodes.iter().find(is_up).or(nodes.first()).copied()
    }

    /// Checks the partition map, and requests connections for waiting requests.
    pub(super) fn tend(&mut self, now_ns: u64) {
        if now_ns < self.map_ns {
            return;
        }
        self.map_ns = now_ns + MAP_NS;
        let map = self.settings.cluster.map();
        if !Arc::ptr_eq(&map, &self.map) {
            self.map = map;
            self.nodes.resize_with(self.map.nodes.len(), ToNode::default);
            let waiting = self.nodes.iter_mut().flat_map(|node| node.waiting.drain(..));
            let waiting: Vec<_> = waiting.chain(self.unowned.drain(..)).collect();
            self.route_again(waiting);
        }
        for node in 0..self.nodes.len() {
            self.supply(node, now_ns);
        }
    }

    /// Routes requests anew, except those that have ended.
    fn route_again(&mut self, waiting: Vec<Waiting>) {
        for waiting in waiting {
            if self.out[waiting.token as usize].number == waiting.number {
                self.route(waiting);
            }
        }
    }

    fn supply(&mut self, node: usize, now_ns: u64) {
        let out = &self.out;
        let to = &mut self.nodes[node];
        while to.waiting.front().is_some_and(|first| out[first.token as usize].number != first.number) {
            to.waiting.pop_front();
        }
        if self.nodes[node].retry_ns > now_ns {
            return;
        }
        let pipeline = self.settings.pipeline.max(1) as usize;
        // To a node that did not answer only one connection is attempted at a time. Each attempt has a thread.
        let most = if self.nodes[node].errno.is_some() { 1 } else { ATTEMPTS_MAX };
        while self.nodes[node].wanted < most && self.nodes[node].wanted * pipeline < self.nodes[node].waiting.len() {
            let Some(slot) = self.slot(node) else { return };
            self.connections[slot].is_wanted = true;
            self.nodes[node].wanted += 1;
            let (node, made, waker) = (self.map.nodes[node].clone(), self.tell_made.clone(), self.net.waker().clone());
            self.settings.cluster.connect(node, slot, made, waker);
        }
    }

    pub(super) fn take_made(&mut self) {
        while let Ok((slot, made)) = self.made.try_recv() {
            let node = self.connections[slot].node;
            self.connections[slot].is_wanted = false;
            self.nodes[node].wanted -= 1;
            match made {
                Ok(made) => {
                    self.nodes[node].errno = None;
                    self.begin(slot, made);
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
