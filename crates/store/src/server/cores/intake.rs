//! Turns received bytes into requests, and sends the bytes of replies.

use super::super::connection::{PeerConnection, Role};
use super::super::node_message::{self, INVALID_NODE_MESSAGE, MAGIC, NodeMessage};
use super::super::pair::PairMode;
use super::super::state::{ServerState, lock};
use super::batches::Batch;
use super::transactions::{ReplyAddress, Requester};
use super::{CANCEL, RECEIVE, SEND, ServerCore};
use crate::wire::{self, FrameKind, Malformed, MessageError, ParsedMessage, frame, message, query};
use crate::{Digest, RecordOp, Reply, ResultCode, Transaction};
use engine::IoEngine as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::net::{NetOp, NetOutcome};

/// Maximum bytes of waiting requests of a connection. Above this number, the connection receives nothing.
const UNTAKEN_BYTES_MAX: usize = 64 << 10;

fn hello(state: &ServerState, out: &mut Vec<u8>) {
    let id = state.setup.cluster.own_node().id;
    let greeting = state.pair.greeting(state.process);
    NodeMessage::Hello {
        id,
        greeting,
        common: &state.common(),
    }
    .put(out);
}

impl ServerCore {
    /// Adds a connection, starts to receive on it, and returns its number.
    pub(super) fn connect(&mut self, socket: TcpStream, role: Role) -> u32 {
        // Without TCP_NODELAY, a reply waits for the previous reply's ACK. The call fails if the other side is gone.
        let _ = socket.set_nodelay(true);
        self.serial = self.serial.wrapping_add(1);
        self.counts.connections_opened += u64::from(role == Role::Client);

        let at = self.connections.insert(PeerConnection::new(
            Arc::new(socket),
            self.serial,
            role,
            self.now_ns,
        ));
        self.receive(at);
        at
    }

    /// Starts to receive on a connection, if another request may be taken.
    fn receive(&mut self, at: u32) {
        let token = self.token(at, RECEIVE);
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        if !connection.is_receiving
            && !connection.is_half_closed
            && !connection.is_closed
            && connection.may_take()
        {
            connection.is_receiving = true;
            self.net.submit(NetOp::Receive {
                token,
                socket: connection.socket.clone(),
            });
        }
    }

    pub(super) fn on_received(&mut self, at: u32, outcome: NetOutcome, is_over: bool) {
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        connection.is_receiving &= !is_over;
        match outcome {
            NetOutcome::Received(buf, len) => {
                connection.arrived_ns = self.now_ns;
                self.arrived(at, &buf[..len]);
                self.net.provide(buf);
            }
            // The client may still read replies.
            NetOutcome::Closed => connection.is_half_closed = true,
            NetOutcome::Errno(libc::ENOBUFS | libc::ECANCELED) => {}
            _ => connection.end(),
        }
        self.receive(at);
        self.finish(at);
    }

    fn arrived(&mut self, at: u32, bytes: &[u8]) {
        let cancel_token = self.token(at, CANCEL);
        let receive_token = self.token(at, RECEIVE);
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        if connection.is_closed {
            return;
        }
        let consumed;
        if connection.input.is_empty() {
            consumed = self.take(at, bytes);
            let Some(connection) = self
                .connections
                .get(at)
                .filter(|connection| !connection.is_closed)
            else {
                return;
            };
            connection.input.extend_from_slice(&bytes[consumed..]);
        } else {
            let input = connection.take_input(bytes);
            consumed = self.take(at, &input);
            let Some(connection) = self
                .connections
                .get(at)
                .filter(|connection| !connection.is_closed)
            else {
                return;
            };
            connection.keep_input(input, consumed);
        }
        self.limit_memory(bytes.len());
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        let is_incomplete = !connection.input.is_empty() && connection.may_take();
        let since_ns = connection
            .incomplete_since_ns
            .filter(|_| consumed == 0)
            .unwrap_or(self.now_ns);
        connection.incomplete_since_ns = is_incomplete.then_some(since_ns);
        let is_too_long = connection.input.len() > UNTAKEN_BYTES_MAX && !connection.may_take();
        if is_too_long && connection.is_receiving && !connection.is_cancelling {
            connection.is_cancelling = true;
            self.net.submit(NetOp::Cancel {
                token: cancel_token,
                cancelled_token: receive_token,
            });
        }
    }

    /// Takes complete frames off the start of `bytes`, and returns their total length.
    fn take(&mut self, at: u32, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        loop {
            let Some(connection) = self.connections.get(at) else {
                return bytes.len();
            };
            let is_node = connection.role != Role::Client || rest.first() == Some(&MAGIC);
            // In mode `Leaving`, this node answers the other node until this node ends.
            let is_over = self.is_quiet && self.state.pair.mode() != PairMode::Leaving;
            if connection.is_closed || self.stops_ns.is_some() && (is_over || !is_node) {
                return bytes.len();
            }
            if !connection.may_take() {
                break;
            }
            let result = if is_node {
                self.take_node_message(at, &mut rest)
            } else {
                self.take_frame(at, &mut rest)
            };
            match result {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.counts.malformed += 1;
                    if let Some(connection) = self.connections.get(at) {
                        connection.end();
                    }
                    return bytes.len();
                }
            }
        }
        bytes.len() - rest.len()
    }

    /// Takes one frame and executes it. `false` if the frame is incomplete.
    fn take_frame(&mut self, at: u32, rest: &mut &[u8]) -> Result<bool, Malformed> {
        let state = self.state.clone();
        let Some((kind, body)) = frame::take(rest, state.setup.limits.frame_bytes)? else {
            return Ok(false);
        };
        let Some(connection) = self.connections.get(at) else {
            return Ok(false);
        };
        let number = connection.ask();
        let serial = connection.serial;
        let reply_address = ReplyAddress {
            connection: at,
            serial,
            number,
        };
        match kind {
            FrameKind::Info => {
                connection.answer(number, |out| {
                    state.facts(|facts| wire::info::put(out, body, facts))
                });
                self.counts.info_requests += 1;
            }
            FrameKind::Security | FrameKind::Compressed => {
                connection.answer(number, |out| query::put_unsupported(out, kind))
            }
            FrameKind::Message => match state.parse(body) {
                Ok(ParsedMessage::Single {
                    request,
                    timeout_ms,
                }) => {
                    self.start(
                        Requester::Single(reply_address),
                        request,
                        state.deadline_ns(self.now_ns, timeout_ms),
                    );
                }
                Ok(ParsedMessage::Batch {
                    requests,
                    timeout_ms,
                }) => {
                    let batch = Batch::new(
                        reply_address,
                        requests,
                        state.deadline_ns(self.now_ns, timeout_ms),
                    );
                    let batch_bytes = batch.bytes_in_use();
                    let batch = self.batches.insert(batch);
                    connection.batch = Some((batch, batch_bytes));
                    self.limit_memory(batch_bytes);
                    self.pump(batch);
                }
                Err(MessageError::Refused(code)) => {
                    connection.answer(number, |out| message::put_refusal(out, body, code))
                }
                Err(MessageError::Malformed(why)) => return Err(why),
            },
        }
        self.list(at);
        Ok(true)
    }

    fn take_node_message(&mut self, at: u32, rest: &mut &[u8]) -> Result<bool, Malformed> {
        let Some(node_message) = node_message::take(rest)? else {
            return Ok(false);
        };
        let state = self.state.clone();
        let Some(connection) = self.connections.get(at) else {
            return Ok(false);
        };
        if connection.role == Role::Inbound && state.pair.is_past(connection.greeting_changes) {
            connection.end();
            return Ok(false);
        }
        let serial = connection.serial;
        let reply_address = |number| ReplyAddress {
            connection: at,
            serial,
            number,
        };
        match (node_message, connection.role) {
            (
                NodeMessage::Hello {
                    id,
                    greeting,
                    common,
                },
                Role::Client,
            ) => {
                let is_known = state.setup.cluster.others().any(|(_, node)| node.id == id);
                if !is_known || common != state.common() {
                    if !std::mem::replace(&mut self.has_refused, true) {
                        let what = "its nodes, namespaces (name, replication-factor, write-block-size, order) or version of \
                                    flashproof differ from those of this node - make them the same";
                        state.warn("hb", "hb.c", format!("node {id:016X} was refused - {what}"));
                    }
                    return Err(INVALID_NODE_MESSAGE);
                }
                (connection.role, connection.process) = (Role::Inbound, greeting.process);
                state.on_greeting(greeting, self.now_ns);
                connection.greeting_changes = state.pair.word().changes;
                hello(&state, connection.out());
                self.list(at);
            }
            (NodeMessage::Hello { id, greeting, .. }, Role::Outbound(node))
                if id == state.setup.cluster.nodes()[node].id =>
            {
                connection.process = greeting.process;
                state.on_greeting(greeting, self.now_ns);
                state
                    .pair
                    .answered(greeting.process, greeting.mode_version, connection.heard_ns);
                self.linked(at, node);
            }
            (
                NodeMessage::Ping {
                    number,
                    mode_version,
                },
                Role::Inbound,
            ) => {
                state.on_mode_reported(connection.process, mode_version, self.now_ns);
                let mode_version = state.pair.reported_mode();
                let wall_ns = state.wall_ns(self.now_ns);
                NodeMessage::Pong {
                    number,
                    mode_version,
                    wall_ns,
                }
                .put(connection.out());
                self.list(at);
            }
            (
                NodeMessage::Pong {
                    number,
                    mode_version,
                    wall_ns,
                },
                Role::Outbound(node),
            ) => {
                state.on_mode_reported(connection.process, mode_version, self.now_ns);
                if self.core == 0 {
                    state.on_peer_time(node, wall_ns, self.now_ns, number);
                }
                // An invalid number, greater than that of the last ping, must not extend the lease.
                connection.heard_ns = connection.heard_ns.max(number.min(connection.pinged_ns));
                state
                    .pair
                    .answered(connection.process, mode_version, connection.heard_ns);
            }
            (
                NodeMessage::Image {
                    number,
                    namespace,
                    digest,
                    image,
                },
                Role::Inbound,
            ) => {
                let origin = Requester::Node(reply_address(number));
                self.start_for_node(origin, namespace, digest, RecordOp::Image(image.to_vec()))?;
            }
            (NodeMessage::Done { number, result }, Role::Outbound(node))
                if self.links[node] == Some(at) =>
            {
                self.on_done(number, result);
            }
            (
                NodeMessage::Compare {
                    number,
                    namespace,
                    digest,
                    version,
                },
                Role::Inbound,
            ) => {
                let record_op = if state.pair.mode() == PairMode::Ahead {
                    RecordOp::Compare(version)
                } else {
                    RecordOp::Version
                };
                self.start_for_node(
                    Requester::Compared(reply_address(number), namespace),
                    namespace,
                    digest,
                    record_op,
                )?;
            }
            (NodeMessage::Compared { number, version }, Role::Outbound(node))
                if self.links[node] == Some(at) =>
            {
                self.on_compared(number, version);
            }
            // The answer is for a request on an earlier link, and the transaction has failed already.
            (NodeMessage::Done { .. } | NodeMessage::Compared { .. }, Role::Outbound(_)) => {}
            (
                NodeMessage::ComparedAll {
                    comparison,
                    core,
                    cores,
                },
                Role::Inbound,
            ) => {
                if core >= cores || cores > u32::from(u16::MAX) {
                    return Err(INVALID_NODE_MESSAGE);
                }
                state.on_mode(
                    state
                        .pair
                        .other_compared(comparison, core as usize, cores as usize),
                );
            }
            (
                NodeMessage::Proxy {
                    number,
                    mode_version,
                    message,
                },
                Role::Inbound,
            ) => {
                state.on_mode_reported(connection.process, mode_version, self.now_ns);
                let origin = Requester::Proxied(reply_address(number));
                match state.parse(message) {
                    Ok(ParsedMessage::Single { .. }) if self.is_quiet => {
                        self.answer(origin, Reply::with_result(ResultCode::UNAVAILABLE));
                    }
                    Ok(ParsedMessage::Single {
                        request,
                        timeout_ms,
                    }) => {
                        self.start(origin, request, state.deadline_ns(self.now_ns, timeout_ms));
                    }
                    Err(MessageError::Refused(code)) => {
                        self.answer(origin, Reply::with_result(code))
                    }
                    _ => return Err(INVALID_NODE_MESSAGE),
                }
            }
            (NodeMessage::Answer { number, reply }, Role::Outbound(node)) => {
                let reply = message::parse_reply(reply)?;
                if self.links[node] == Some(at) {
                    self.on_answer(number, reply);
                }
            }
            _ => return Err(INVALID_NODE_MESSAGE),
        }
        Ok(true)
    }

    fn start_for_node(
        &mut self,
        origin: Requester,
        namespace: u16,
        digest: Digest,
        record_op: RecordOp,
    ) -> Result<(), Malformed> {
        if usize::from(namespace) >= self.stores.len() {
            return Err(INVALID_NODE_MESSAGE);
        }
        let transaction = Transaction {
            digest,
            set: Box::default(),
            record_op,
        };
        self.start(
            origin,
            wire::RecordRequest {
                namespace: namespace.into(),
                transaction,
                at_master: false,
            },
            u64::MAX,
        );
        Ok(())
    }

    /// Lists a connection, so that its replies are sent at the end of this pass.
    pub(super) fn list(&mut self, at: u32) {
        if let Some(connection) = self
            .connections
            .get(at)
            .filter(|connection| !connection.is_listed)
        {
            connection.is_listed = true;
            self.unsent_connections.push(at);
        }
    }

    pub(super) fn send(&mut self) {
        while let Some(at) = self.unsent_connections.pop() {
            self.send_to(at);
        }
    }

    /// Sends the last reply of a connection at once, so that its client continues while this pass handles other
    /// requests. Replies to pipelined requests are sent together at the end of the pass.
    pub(super) fn send_last(&mut self) {
        let last = self.unsent_connections.last().copied();
        if let Some(at) = last.filter(|at| {
            self.connections
                .get(*at)
                .is_some_and(|of| of.role == Role::Client && !of.awaits_reply())
        }) {
            self.unsent_connections.pop();
            self.send_to(at);
        }
    }

    /// Sends the replies of a connection. The ring sends the bytes for which the kernel has no room now.
    fn send_to(&mut self, at: u32) {
        let token = self.token(at, SEND);
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        connection.is_listed = false;
        let Some(mut bytes) = connection.take_out(self.now_ns) else {
            return;
        };
        // A send by the ring would need a second call in this pass, only to take its completion.
        let sent_bytes = sys::net::send(&connection.socket, &bytes).unwrap_or(0);
        if sent_bytes == bytes.len() {
            self.on_sent(at, &NetOutcome::Sent, bytes);
            self.handle_replies();
        } else {
            bytes.drain(..sent_bytes);
            self.net.submit(NetOp::Send {
                token,
                socket: connection.socket.clone(),
                bytes,
            });
        }
    }

    pub(super) fn on_sent(&mut self, at: u32, outcome: &NetOutcome, bytes: Vec<u8>) {
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        connection.sent(bytes);
        if !matches!(outcome, NetOutcome::Sent) {
            connection.end();
        }
        if connection.unsent() > 0 {
            self.list(at);
        }
        if let Some((batch, _)) = self
            .connections
            .get(at)
            .and_then(|connection| connection.batch)
        {
            self.pump(batch);
        }
        if self
            .connections
            .get(at)
            .is_some_and(|connection| !connection.input.is_empty() && connection.may_take())
        {
            self.arrived(at, &[]);
        }
        self.receive(at);
        self.finish(at);
    }

    pub(super) fn on_cancelled(&mut self, at: u32) {
        if let Some(connection) = self.connections.get(at) {
            connection.is_cancelling = false;
        }
        self.finish(at);
    }

    /// Removes a closed connection, once none of its operations is in the ring.
    fn finish(&mut self, at: u32) {
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        if connection.is_half_closed && connection.is_idle() {
            connection.end();
        }
        let is_in_use =
            connection.is_receiving || connection.is_cancelling || connection.is_sending();
        if !connection.is_closed || is_in_use {
            return;
        }
        let role = connection.role;
        let link = connection.link.take();
        let batch = connection.batch.take();
        self.connections.remove(at);
        self.counts.connections_closed += u64::from(!matches!(role, Role::Outbound(_)));
        if let Some((batch, _)) = batch {
            // The batch continues without a client.
            self.pump(batch);
        }
        match role {
            Role::Outbound(node) => self.lost(at, node),
            Role::Client | Role::Inbound => {
                _ = self.state.connections.fetch_sub(1, Ordering::Relaxed)
            }
        }
        link.inspect(|link| link.store(false, Ordering::Release));
    }

    pub(super) fn greet(&mut self, at: u32, link: Arc<AtomicBool>) {
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        connection.link = Some(link);
        connection.heard_ns = self.now_ns;
        hello(&self.state, connection.out());
        self.list(at);
    }

    fn linked(&mut self, at: u32, node: usize) {
        if self.links[node].replace(at).is_none() {
            self.state.links.fetch_add(1, Ordering::AcqRel);
        }
        self.state.show_cluster();
        if self.core == 0 {
            *lock(&self.state.requests_at_loss) = None;
            let peer = &self.state.setup.cluster.nodes()[node];
            let name = peer.name();
            let host = &peer.host;
            let port = peer.port;
            self.state.inform(
                "hb",
                "hb.c",
                format!("connected to node {name} at {host}:{port}"),
            );
        }
    }

    /// Handles the loss of a link: requests that wait for an answer on the link fail.
    fn lost(&mut self, at: u32, node: usize) {
        if self.links[node].take_if(|current| *current == at).is_none() {
            return;
        }
        self.end_migration();
        self.state.links.fetch_sub(1, Ordering::AcqRel);
        self.state.show_cluster();
        if self.core == 0 {
            self.state.skews[node].reset();
            *lock(&self.state.requests_at_loss) = Some(self.state.requests());
            let peer = &self.state.setup.cluster.nodes()[node];
            let name = peer.name();
            let host = &peer.host;
            let port = peer.port;
            let fail = "is disconnected - writes to records with a copy on that node fail until it returns";
            let what = match self.state.pair.mode() {
                PairMode::Ahead | PairMode::Leaving => "is disconnected".to_owned(),
                _ if self.state.pair.takes_over() => format!("{fail} or this node takes over"),
                _ => fail.to_owned(),
            };
            self.state
                .warn("hb", "hb.c", format!("node {name} at {host}:{port} {what}"));
        }
        for number in self
            .pending
            .iter()
            .filter(|(_, of)| of.waits_for(node))
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
        {
            self.unanswered(number);
        }
    }

    /// Sends a message to a node. `false` if there is no link to that node.
    pub(super) fn send_to_node(&mut self, node: usize, message: &NodeMessage<'_>) -> bool {
        let Some(at) = self.links[node] else {
            return false;
        };
        let Some(connection) = self
            .connections
            .get(at)
            .filter(|connection| !connection.is_closed)
        else {
            return false;
        };
        message.put(connection.out());
        self.list(at);
        true
    }
}
