//! Routes to the nodes: connections, free ones, and requests waiting for one.

use super::Client;
use super::cluster::Connect;
use super::connection::Connection;
use crate::{Transaction, nodes};
use engine::IoEngine;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use sys::net::Op as NetOp;

/// Time between two looks at the cluster's map.
pub(super) const MAP_NS: u64 = 10_000_000;

/// Time between two attempts to connect to a node, and between two checks of the requests waiting for that.
const RETRY_NS: u64 = 50_000_000;

/// A transaction that has no connection.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) token: u32,
    pub(super) number: u64,
    pub(super) transaction: Transaction,
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
        if self.nodes[node].slots.len() == self.slots_each || self.connections.len() == self.slots_max {
            return None;
        }
        self.connections.push(Connection { node, ..Connection::default() });
        self.nodes[node].slots.push(self.connections.len() - 1);
        Some(self.connections.len() - 1)
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
            let Some(Waiting { token, number, transaction }) = self.nodes[node].waiting.pop_front() else { break };
            if self.out[token as usize].number == number {
                self.send(slot, token, &transaction);
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

    /// Sends a request, or queues it at its node.
    pub(super) fn route(&mut self, waiting: Waiting) {
        let Some(node) = self.map.master(&waiting.transaction.digest) else {
            self.unowned.push_back(waiting);
            return;
        };
        match self.pick(node) {
            Some(slot) => self.send(slot, waiting.token, &waiting.transaction),
            None => self.nodes[node].waiting.push_back(waiting),
        }
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
            waiting.into_iter().for_each(|waiting| self.route(waiting));
        }
        for node in 0..self.nodes.len() {
            self.supply(node, now_ns);
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
        // To a node that did not answer only one connection is attempted at a time: each may take long, and others wait
        // behind it.
        let most = if self.nodes[node].errno.is_some() { 1 } else { usize::MAX };
        while self.nodes[node].wanted < most && self.nodes[node].wanted * pipeline < self.nodes[node].waiting.len() {
            let Some(slot) = self.slot(node) else { return };
            self.connections[slot].is_wanted = true;
            self.nodes[node].wanted += 1;
            let (node, made, waker) = (self.map.nodes[node].clone(), self.tell_made.clone(), self.net.waker().clone());
            self.settings.cluster.connect(Connect { node, slot, made, waker });
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
                }
            }
        }
    }
}
