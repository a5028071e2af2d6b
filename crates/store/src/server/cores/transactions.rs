//! Transactions in progress: origin, core or node of execution, replica; and their counts for observers.

use super::super::node_message::{BODY_BYTES_MAX, NodeMessage};
use super::super::pair::{LEASE_NS, PairMode};
use super::super::skew::stops_writes;
use super::super::state::{CoreMessage, LentStores};
use super::{LentDisk, MS, REPORT_NS, RingDisk, ServerCore, lock};
use crate::observe::{self, TransactionKind};
use crate::wire::{RecordRequest, message, request};
use crate::{Digest, RecordOp, Reply, ResultCode, Transaction, ops, partition};
use engine::IoEngine as _;

/// Maximum number of bytes that wait to be sent to a node. Above this number, writes are refused.
const LINK_BYTES_MAX: usize = 8 << 20;

/// Marker in place of a number: no answer is expected.
const NO_ANSWER: u64 = u64::MAX;

/// Number and serial of the connection that gets the reply, and number of the request or message on that connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyAddress {
    pub(super) connection: u32,
    pub(super) serial: u32,
    pub(super) number: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Requester {
    /// A client.
    Single(ReplyAddress),
    /// A client, for one key of a batch.
    Batch { batch: u32, index: u32 },
    /// Another core, by its number.
    Core { core: usize, number: u32 },
    /// Another node.
    Node(ReplyAddress),
    /// Another node's client.
    Proxied(ReplyAddress),
    /// Another node that compares its records, in this namespace.
    Compared(ReplyAddress, u16),
    /// This node, which compares a record with the other node's.
    Comparison { serial: u32 },
    /// This node, which sends a record to the other node again.
    CopyAgain,
    /// No client waits any more.
    #[default]
    NoClient,
}

#[derive(Debug, Default)]
pub(super) struct PendingTransaction {
    pub(super) origin: Requester,
    pub(super) namespace: u16,
    /// `None` for another node's write or comparison, or a transaction that another core counts.
    pub(super) kind: Option<TransactionKind>,
    pub(super) began_ns: u64,
    pub(super) digest: Digest,
    deadline_ns: u64,
    /// The other node that must get the write, or that executes the transaction.
    pub(super) node: Option<usize>,
    pub(super) is_proxied: bool,
    /// Reply to send once the other node has the write.
    pub(super) reply: Option<Reply>,
    /// True for a write or a linearizable read: the reply must not reveal another write that may be undone.
    is_careful: bool,
    is_writing: bool,
    /// True if it is unknown whether the other node has the write.
    pub(super) has_failed: bool,
    /// Transactions that are answered together with this transaction.
    pub(super) readers: Vec<(u32, Reply)>,
}

impl PendingTransaction {
    /// A transaction without a deadline, which no counter counts.
    fn new(origin: Requester, namespace: u16, digest: Digest, began_ns: u64) -> Self {
        Self {
            origin,
            namespace,
            began_ns,
            digest,
            deadline_ns: u64::MAX,
            ..Self::default()
        }
    }

    pub(super) fn waits_for(&self, node: usize) -> bool {
        self.node == Some(node) && (self.is_proxied || self.reply.is_some())
    }

    pub(super) fn is_comparison(&self) -> bool {
        matches!(
            self.origin,
            Requester::Comparison { .. } | Requester::CopyAgain
        )
    }

    /// Marks the transaction as one that `node` answers.
    pub(super) fn is_sent_to(&mut self, node: usize) {
        (self.node, self.is_proxied) = (Some(node), true);
    }

    /// True if the other node must get this pending write before it has its partitions back.
    pub(super) fn may_write(&self) -> bool {
        self.is_writing || self.node.is_some() && !self.is_proxied
    }
}

/// True if a value to write is longer than any record. Such writes are refused at once.
fn is_too_big(record_op: &RecordOp, block_bytes: usize) -> bool {
    let RecordOp::Write(write) = record_op else {
        return false;
    };
    write.ops.len() > block_bytes
        && ops::entries(&write.ops).any(|entry| entry.value.len() > block_bytes)
}

impl ServerCore {
    /// Adds a transaction without a deadline, and returns its number.
    pub(super) fn pend(&mut self, origin: Requester, namespace: u16, digest: Digest) -> u32 {
        self.pending.insert(PendingTransaction::new(
            origin,
            namespace,
            digest,
            self.now_ns,
        ))
    }

    /// Begins a transaction, on this core or on the core or node that has the partition.
    pub(super) fn start(&mut self, origin: Requester, request: RecordRequest, deadline_ns: u64) {
        let RecordRequest {
            namespace,
            transaction,
            at_master,
        } = request;
        let namespace = namespace as u16;
        let kind = TransactionKind::from_op(&transaction.record_op);
        let digest = transaction.digest;
        let pending = PendingTransaction::new(origin, namespace, digest, self.now_ns);
        let number = self.pending.insert(PendingTransaction {
            kind,
            deadline_ns,
            ..pending
        });
        let settings = &self.state.setup.config.namespaces[usize::from(namespace)].settings;
        if is_too_big(&transaction.record_op, settings.write_block_bytes as usize) {
            return self
                .replies
                .push((number.into(), Reply::with_result(ResultCode::TOO_BIG)));
        }
        if kind == Some(TransactionKind::Write) && stops_writes(self.state.skew_ms(), settings) {
            return self
                .replies
                .push((number.into(), Reply::with_result(ResultCode::FORBIDDEN)));
        }
        self.route(number, namespace, transaction, at_master);
    }

    /// Executes a transaction on this core, or passes it to the core or node that has the partition.
    pub(super) fn route(
        &mut self,
        number: u32,
        namespace: u16,
        transaction: Transaction,
        at_master: bool,
    ) {
        let kind = TransactionKind::from_op(&transaction.record_op);
        let partition = partition(&transaction.digest);
        let cluster = &self.state.setup.cluster;
        let pair = &self.state.pair;
        let has_copies = self.has_copies(namespace);
        let role = pair.role(cluster, partition, has_copies);
        let is_here = match kind {
            None => true,
            Some(TransactionKind::Read) if !at_master => role.is_some(),
            Some(_) => role == Some(0),
        };
        if !is_here {
            return self.proxy(number, &transaction, at_master);
        }
        // Without a lease, the other node may have taken over and executed writes that this node does not have.
        let replica = cluster
            .replica(partition)
            .filter(|_| at_master && has_copies && pair.mode() == PairMode::Paired);
        if replica.is_some_and(|node| !self.has_lease(node)) {
            return self
                .replies
                .push((number.into(), Reply::with_result(ResultCode::UNAVAILABLE)));
        }
        let target_core = usize::from(partition) % self.state.mailboxes.len();
        if target_core == self.core {
            self.execute(number, namespace, transaction, at_master);
        } else if let Some(transaction) =
            self.execute_there(target_core, number, namespace, transaction)
        {
            let from_core = self.core;
            self.mail(
                target_core,
                CoreMessage::Transaction {
                    from_core,
                    number,
                    namespace,
                    transaction,
                    at_master,
                },
            );
        }
    }

    /// Executes a transaction in a sleeping core's store. Returns the transaction if only that core's thread can.
    fn execute_there(
        &mut self,
        core: usize,
        number: u32,
        namespace: u16,
        transaction: Transaction,
    ) -> Option<Transaction> {
        if self.has_copies(namespace) {
            return Some(transaction);
        }
        let store_number = self.store_number(number);
        let Ok(mut lent) = self.state.lent[core].try_lock() else {
            return Some(transaction);
        };
        let LentStores {
            stores,
            ops,
            is_touched,
            until_ns,
        } = &mut *lent;
        // Earlier requests of the connection may still be in the mailbox.
        let store = stores
            .get_mut(usize::from(namespace))
            .filter(|_| self.state.mailboxes[core].is_empty());
        let Some((store, _)) = store else {
            return Some(transaction);
        };
        // The time of this pass may be too early: the other thread may have used the store since then.
        let now_ns = self.net.now();
        let replies_before = self.replies.len();
        store.execute(
            store_number,
            transaction,
            &mut LentDisk(ops, now_ns),
            &mut self.replies,
        );
        *is_touched = true;
        // Wake the thread if it has I/O to do, if the transaction has no reply yet, or if the counts would be late.
        self.cores_to_wake[core] |= !ops.is_empty()
            || self.replies.len() == replies_before
            || *until_ns > now_ns + REPORT_NS;
        None
    }

    /// Number of a transaction in a store: the waiting core plus 1 in the upper 32 bits (0: the store's own
    /// transaction), and the transaction's number on the waiting core in the lower 32 bits.
    fn store_number(&self, number: u32) -> u64 {
        (self.core as u64 + 1) << 32 | u64::from(number)
    }

    pub(super) fn has_copies(&self, namespace: u16) -> bool {
        self.state.setup.config.namespaces[usize::from(namespace)].replication_factor > 1
    }

    /// True if a node answered so recently that it cannot have taken over.
    fn has_lease(&mut self, node: usize) -> bool {
        let now_ns = self.net.now();
        let link = self.links[node].and_then(|link| self.connections.get(link));
        let is_alive =
            link.is_some_and(|link| !link.is_closed && now_ns < link.heard_ns + LEASE_NS);
        is_alive && self.state.pair.has_lease(now_ns)
    }

    /// Passes a transaction to the node that is the master of its partition.
    fn proxy(&mut self, number: u32, transaction: &Transaction, at_master: bool) {
        let cluster = &self.state.setup.cluster;
        let node = match self.state.pair.mode() {
            PairMode::Behind => cluster.others().next().map(|(node, _)| node),
            _ => Some(cluster.master(partition(&transaction.digest))),
        };
        let Some(node) = node else { return };
        let refusal = self.refusal(node);
        let Some(pending) = self.pending.get(number) else {
            return;
        };
        // If each node considers the other the master, they would pass the transaction back and forth.
        let is_again = matches!(pending.origin, Requester::Proxied(_));
        if let Some(code) = if is_again {
            Some(ResultCode::UNAVAILABLE)
        } else {
            refusal
        } {
            return self.replies.push((number.into(), Reply::with_result(code)));
        }
        let timeout_ms =
            (pending.deadline_ns.saturating_sub(self.now_ns) / MS).clamp(1, u32::MAX.into()) as u32;
        let name = self.state.setup.config.namespaces[usize::from(pending.namespace)]
            .settings
            .name
            .as_bytes();
        let mut message = Vec::new();
        request::put(&mut message, name, transaction, at_master, timeout_ms);
        if message.len() > BODY_BYTES_MAX {
            return self
                .replies
                .push((number.into(), Reply::with_result(ResultCode::TOO_BIG)));
        }
        pending.is_sent_to(node);
        let mode_version = self.state.pair.reported_mode();
        self.send_to_node(
            node,
            &NodeMessage::Proxy {
                number: number.into(),
                mode_version,
                message: &message,
            },
        );
    }

    /// Reason why no message can be sent to a node now, if there is one.
    pub(super) fn refusal(&mut self, node: usize) -> Option<ResultCode> {
        match self.links[node].and_then(|link| self.connections.get(link)) {
            None => Some(ResultCode::UNAVAILABLE),
            Some(link) if link.is_closed || self.now_ns >= link.heard_ns + LEASE_NS => {
                Some(ResultCode::UNAVAILABLE)
            }
            Some(link) => (link.unsent() > LINK_BYTES_MAX).then_some(ResultCode::DEVICE_OVERLOAD),
        }
    }

    pub(super) fn execute(
        &mut self,
        number: u32,
        namespace: u16,
        mut transaction: Transaction,
        at_master: bool,
    ) {
        let mut replica = None;
        let mut is_writing = false;
        let mut is_linearizable = false;
        if self.has_copies(namespace) {
            // The mode may have changed since the transaction was routed. The current mode counts, because this core
            // executes all transactions of the partition, one after another.
            let is_write = matches!(
                transaction.record_op,
                RecordOp::Write(_) | RecordOp::Delete(_)
            );
            let mode_version = self.state.pair.word();
            // A linearizable read could return a write that is undone if this node dies before its mode is recorded.
            if (is_write || at_master && mode_version.mode == PairMode::Ahead)
                && self.state.pair.must_wait(mode_version)
            {
                return self.park(number, transaction, at_master);
            }
            // Since the transaction was routed, the other node may have got its partitions back.
            let is_paired = mode_version.mode == PairMode::Paired && (is_write || at_master);
            if is_paired
                && !self
                    .state
                    .setup
                    .cluster
                    .has(partition(&transaction.digest), 0)
            {
                return self.route(number, namespace, transaction, at_master);
            }
            let refusal = match (&transaction.record_op, mode_version.mode) {
                (RecordOp::Compare(_), PairMode::Ahead) if !self.compares() => {
                    Some(ResultCode::UNAVAILABLE)
                }
                (
                    RecordOp::Write(_) | RecordOp::Delete(_) | RecordOp::Compare(_),
                    PairMode::Paired | PairMode::Ahead,
                ) => match self.receiver(mode_version, &transaction.digest) {
                    Ok(None) if !is_write => Some(ResultCode::UNAVAILABLE),
                    receiver => receiver.map(|receiver| replica = receiver).err(),
                },
                (RecordOp::Version | RecordOp::Image(_), PairMode::Behind)
                    if self.state.pair.is_recorded() =>
                {
                    let counts = &mut self.counts.namespaces[usize::from(namespace)].migration;
                    counts.received +=
                        u64::from(matches!(transaction.record_op, RecordOp::Image(_)));
                    None
                }
                (RecordOp::Version | RecordOp::Image(_), PairMode::Paired | PairMode::Leaving) => {
                    None
                }
                (
                    RecordOp::Exists | RecordOp::ReadAll | RecordOp::Read(..),
                    PairMode::Paired | PairMode::Ahead | PairMode::Handing,
                ) => None,
                _ => Some(ResultCode::UNAVAILABLE),
            };
            if let Some(code) = refusal {
                return self.replies.push((number.into(), Reply::with_result(code)));
            }
            (is_writing, is_linearizable) = (is_write, at_master);
            if is_write {
                self.copies.begin((namespace, transaction.digest), number);
            }
        }
        match &mut transaction.record_op {
            RecordOp::Write(write) => write.wants_image = replica.is_some(),
            RecordOp::Delete(delete) => delete.wants_image = replica.is_some(),
            _ => {}
        }
        if let Some(pending) = self.pending.get(number) {
            (pending.node, pending.is_proxied) = (replica, false);
            (pending.is_careful, pending.is_writing) = (is_writing || is_linearizable, is_writing);
        }
        let store_number = self.store_number(number);
        let (store, _) = &mut self.stores[usize::from(namespace)];
        store.execute(
            store_number,
            transaction,
            &mut RingDisk(&mut self.net, self.now_ns),
            &mut self.replies,
        );
    }

    pub(super) fn handle_replies(&mut self) {
        while !self.replies.is_empty() {
            let mut replies = std::mem::take(&mut self.replies);
            for (store_number, reply) in replies.drain(..) {
                let core = (store_number >> 32) as usize;
                let number = store_number as u32;
                match core.checked_sub(1).filter(|core| *core != self.core) {
                    None => self.stored(number, reply),
                    Some(core) if core < self.cores_to_wake.len() => {
                        self.mail(core, CoreMessage::Reply { number, reply })
                    }
                    // The store began this transaction itself: nobody waits for the reply.
                    Some(_) => {}
                }
            }
            if self.replies.is_empty() {
                self.replies = replies;
            }
        }
    }

    /// Handles the reply of a store. A write goes to its replica before the client gets the reply.
    fn stored(&mut self, number: u32, mut reply: Reply) {
        let Some(pending) = self.pending.get(number) else {
            return;
        };
        let namespace = pending.namespace;
        let digest = pending.digest;
        // A write with a replica has changed nothing if the store's reply has no image.
        let has_changed = reply.image.is_some() || pending.node.is_none();
        let is_written = pending.is_writing && reply.result == ResultCode::OK && has_changed;
        // The device may or may not get the write, and the other node does not have it.
        if pending.is_writing && reply.result == ResultCode::TIMEOUT {
            let reply = self.not_copied(number, (namespace, digest), reply, ResultCode::TIMEOUT);
            return self.complete(number, reply);
        }
        if pending.is_careful && !is_written {
            let Some(reply) = self.settle(number, (namespace, digest), reply) else {
                return;
            };
            return self.complete(number, reply);
        }
        if let (Some(node), Some(image)) = (pending.node, reply.image.take()) {
            let is_paired = self.state.pair.mode() == PairMode::Paired;
            let settings = &self.state.setup.config.namespaces[usize::from(namespace)];
            let is_asynchronous = settings.answers_before_replica && is_paired;
            let answer_number = if is_asynchronous {
                NO_ANSWER
            } else {
                number.into()
            };
            let is_sent = self.send_to_node(
                node,
                &NodeMessage::Image {
                    number: answer_number,
                    namespace,
                    digest,
                    image: &image,
                },
            );
            if !is_sent || is_asynchronous && !self.has_lease(node) {
                reply = self.not_copied(number, (namespace, digest), reply, ResultCode::TIMEOUT);
            } else if !is_asynchronous && let Some(pending) = self.pending.get(number) {
                pending.reply = Some(reply);
                return;
            }
        }
        self.complete(number, reply);
    }

    /// Handles the reply of the node that executed a transaction.
    pub(super) fn on_answer(&mut self, number: u64, reply: Reply) {
        let Ok(number) = u32::try_from(number) else {
            return;
        };
        if self
            .pending
            .get(number)
            .is_some_and(|pending| pending.is_proxied)
        {
            self.complete(number, reply);
        }
    }

    pub(super) fn complete(&mut self, number: u32, reply: Reply) {
        let Some(mut pending) = self.pending.remove(number) else {
            return;
        };
        let key = (pending.namespace, pending.digest);
        if pending.is_careful {
            self.copies.end(key, number);
        }
        self.count(&pending, reply.result);
        let readers = std::mem::take(&mut pending.readers);
        match pending.origin {
            Requester::Comparison { serial } => self.on_comparison(serial, key, &reply),
            Requester::CopyAgain => self.on_copied_again(key, reply.result),
            origin => self.answer(origin, reply),
        }
        self.answer_readers(readers, pending.has_failed);
    }

    pub(super) fn answer(&mut self, origin: Requester, reply: Reply) {
        let ReplyAddress {
            connection: at,
            serial,
            number,
        } = match origin {
            Requester::Single(asker) | Requester::Node(asker) | Requester::Proxied(asker) => asker,
            Requester::Compared(asker, namespace) => {
                if reply.result == ResultCode::OK && self.state.pair.mode() == PairMode::Ahead {
                    self.count_copied(namespace, reply.version > 0);
                }
                asker
            }
            Requester::Batch { batch, index } => return self.answer_key(batch, index, &reply),
            Requester::Core { core, number } => {
                return self.mail(core, CoreMessage::Reply { number, reply });
            }
            Requester::Comparison { .. } | Requester::CopyAgain | Requester::NoClient => return,
        };
        let Some(connection) = self
            .connections
            .get(at)
            .filter(|of| of.serial == serial && !of.is_closed)
        else {
            return;
        };
        match origin {
            Requester::Single(_) => {
                connection.answer(number, |out| message::put_reply(out, &reply));
                self.limit_memory(reply.ops.len());
            }
            Requester::Node(_) if number == NO_ANSWER => {}
            Requester::Proxied(_) => {
                let mut entry = Vec::new();
                message::put_entry(&mut entry, 0, &reply);
                if entry.len() > BODY_BYTES_MAX {
                    entry.clear();
                    message::put_entry(&mut entry, 0, &Reply::with_result(ResultCode::TOO_BIG));
                }
                NodeMessage::Answer {
                    number,
                    reply: &entry,
                }
                .put(connection.out());
            }
            Requester::Compared(..) if reply.result == ResultCode::OK => {
                NodeMessage::Compared {
                    number,
                    version: reply.version,
                }
                .put(connection.out());
            }
            _ => NodeMessage::Done {
                number,
                result: reply.result,
            }
            .put(connection.out()),
        }
        self.list(at);
    }

    /// Answers transactions that have timed out. The transactions continue without a client.
    pub(super) fn time_out(&mut self) {
        let now_ns = self.now_ns;
        let mut timed_out = Vec::new();
        for (number, pending) in self.pending.iter() {
            if pending.deadline_ns <= now_ns && pending.origin != Requester::NoClient {
                timed_out.push(number);
            }
        }
        for number in timed_out {
            let Some(pending) = self.pending.get(number) else {
                continue;
            };
            let reply = pending.reply.take();
            let readers = std::mem::take(&mut pending.readers);
            let nobody = PendingTransaction {
                origin: Requester::NoClient,
                reply,
                readers,
                ..*pending
            };
            let pending = std::mem::replace(pending, nobody);
            self.count(&pending, ResultCode::TIMEOUT);
            self.answer(pending.origin, Reply::with_result(ResultCode::TIMEOUT));
        }
        self.handle_replies();
    }
}

#[derive(Debug)]
pub(super) struct AnsweredTransaction {
    namespace: u16,
    origin: observe::TransactionSource,
    kind: TransactionKind,
    result: ResultCode,
    began_ns: u64,
    is_proxied: bool,
}

impl ServerCore {
    pub(super) fn publish(&mut self) {
        self.reported_ns = self.now_ns;
        self.has_changed = false;
        for (counts, (store, _)) in self.counts.namespaces.iter_mut().zip(&self.stores) {
            counts.store = store.statistics();
        }
        self.count_remaining();
        self.counts.in_progress = self.pending.len() as u64;
        lock(&self.state.counts[self.core]).clone_from(&self.counts);
    }

    pub(super) fn count(&mut self, pending: &PendingTransaction, result: ResultCode) {
        let origin = match pending.origin {
            Requester::Single(_) => observe::TransactionSource::Client,
            Requester::Batch { .. } => observe::TransactionSource::Batch,
            Requester::Proxied(_) => observe::TransactionSource::Proxy,
            _ => return,
        };
        let PendingTransaction {
            namespace,
            began_ns,
            is_proxied,
            ..
        } = *pending;
        let Some(kind) = pending.kind else { return };
        self.answered.push(AnsweredTransaction {
            namespace,
            origin,
            kind,
            result,
            began_ns,
            is_proxied,
        });
    }

    /// Counts the transactions answered in this pass, after their replies were passed to the ring.
    pub(super) fn count_answered(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let now_ns = self.net.now();
        let unit_ns = if self.state.setup.config.microsecond_histograms {
            1_000
        } else {
            MS
        };
        for AnsweredTransaction {
            namespace,
            origin,
            kind,
            result,
            began_ns,
            is_proxied,
        } in self.answered.drain(..)
        {
            let counts = &mut self.counts.namespaces[usize::from(namespace)];
            if is_proxied {
                counts.record_proxied(origin, result)
            } else {
                counts.record(
                    origin,
                    kind,
                    result,
                    now_ns.saturating_sub(began_ns) / unit_ns,
                )
            }
        }
    }
}
