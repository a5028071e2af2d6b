//! The server's state for observers: counters, log lines, and facts for info requests.
//!
//! ```text
//! a core: ServerCounts --copied now and then--> Facts (all cores) --Ticker--> LogLines --LogWriter--> files, console
//!                                           \--wire::info--> replies
//! ```
//!
//! The log has the format of the real server 7.0, so that the same tools can read it.
//!
//! Each core has its own counts. `ServerState::facts` adds them up.

mod ticker;

use crate::conf::AerospikeConf;
use crate::namespace::DeviceStatistics;
use crate::{Buckets, Losses, RecordOp, ResultCode, StoreStatistics, server};
use std::net::IpAddr;
pub use ticker::{LogWriter, ServerLogLine, Ticker, start_lines};

/// The version of the real server whose protocol, log and statistics this server has. Clients and tools check it.
pub const BUILD: &str = "7.0.0.26";

/// A bit for each partition, the most significant bit first.
pub type Bitmap = [u8; 512];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub id: u64,
    /// Host and port for clients.
    pub address: (IpAddr, u16),
    /// The other nodes that are up.
    pub peers: Vec<server::ClusterNode>,
    /// Incremented when the peers change.
    pub peers_generation: u32,
    /// Incremented when the partitions of this node change.
    pub partition_generation: u32,
    /// Partitions of which this node is the master, then those of which it is the replica.
    pub partitions: Vec<Bitmap>,
    /// Partitions of this node in namespaces with one copy of each record.
    pub single_copy_partitions: Bitmap,
    /// Number of partitions whose writes are refused.
    pub unavailable: u64,
    /// Difference between the clocks of this node and the other node, ms.
    pub clock_skew_ms: u64,
    pub takeover: Option<Takeover>,
}

/// The last time that this node took over the partitions of another node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takeover {
    /// Time since the other node's last message, ms.
    pub ms: u64,
    /// Clients' requests since the link was lost. `failed`: requests that were refused or timed out.
    pub requests: u64,
    pub failed: u64,
}

impl NodeView {
    pub fn alone(id: u64, address: (IpAddr, u16)) -> Self {
        Self {
            id,
            address,
            peers: Vec::new(),
            peers_generation: 0,
            partition_generation: 0,
            partitions: vec![[0xff; 512]],
            single_copy_partitions: [0xff; 512],
            unavailable: 0,
            clock_skew_ms: 0,
            takeover: None,
        }
    }
}

/// Snapshot of the server's state.
#[derive(Debug, Clone)]
pub struct Facts {
    pub config: AerospikeConf,
    pub node: NodeView,
    /// Bytes of each device of each namespace, in the order of the configuration.
    pub device_bytes: Vec<Vec<u64>>,
    pub uptime_sec: u64,
    /// Time since 1970, ms.
    pub wall_ms: u64,
    pub counts: ServerCounts,
    /// Latencies of the last ticker interval: a name such as `{test}-read`, and a text with the unit, the transactions
    /// per second, and the percentages of the transactions that took at least 1, 2, 4 ... 65,536 units. The text is
    /// empty if there was no transaction since the start.
    pub latencies: Vec<(String, String)>,
}

impl Facts {
    /// Number of records of which this node is the master, of which it is the replica, and of all other records.
    /// Estimated from the node's shares of the partitions, because stores do not distinguish these records.
    pub(crate) fn split_objects(&self, namespace: usize) -> [u64; 3] {
        let objects = self
            .counts
            .namespaces
            .get(namespace)
            .map_or(0, |counts| counts.store.objects);
        let count = |bitmap: &Bitmap| bitmap.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let partition_counts: Vec<u64> = self.columns(namespace).iter().map(count).collect();
        match partition_counts.iter().sum() {
            0 => [0, 0, objects],
            total => {
                let masters = objects * partition_counts[0] / total;
                [masters, objects - masters, 0]
            }
        }
    }

    /// Partitions of this node in a namespace: those of which it is the master, then those of which it is the replica.
    pub(crate) fn columns(&self, namespace: usize) -> &[Bitmap] {
        match self.config.namespaces[namespace].replication_factor {
            1 => std::slice::from_ref(&self.node.single_copy_partitions),
            _ => &self.node.partitions,
        }
    }

    /// Number of partitions of all namespaces that are not compared yet with the other node.
    pub(crate) fn partitions_remaining(&self) -> u64 {
        let migrations = self
            .counts
            .namespaces
            .iter()
            .map(|counts| &counts.migration);
        migrations
            .map(|migration| migration.tx_remaining + migration.rx_remaining)
            .sum()
    }

    pub(crate) fn wblocks(&self, namespace: usize, device: usize) -> u64 {
        let bytes = self
            .device_bytes
            .get(namespace)
            .and_then(|devices| devices.get(device))
            .copied()
            .unwrap_or(0);
        bytes / u64::from(self.config.namespaces[namespace].settings.write_block_bytes)
    }

    /// Free write blocks of a namespace, percent.
    pub(crate) fn available_pct(&self, namespace: usize) -> u64 {
        let devices = self.device_bytes.get(namespace).map_or(0, Vec::len);
        let total_wblocks: u64 = (0..devices)
            .map(|device| self.wblocks(namespace, device))
            .sum();
        let store = self
            .counts
            .namespaces
            .get(namespace)
            .map(|counts| &counts.store);
        let free: u64 = store
            .into_iter()
            .flat_map(|store| &store.devices)
            .map(|device| device.free_wblocks)
            .sum();
        free.min(total_wblocks) * 100 / total_wblocks.max(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionSource {
    /// A client's message for one record.
    Client,
    Batch,
    /// A client of another node.
    Proxy,
}

/// Kind of a transaction. The real server distinguishes the same kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionKind {
    /// Reads, or checks existence.
    Read,
    Write,
    Delete,
}

impl TransactionKind {
    /// `None` for a write or comparison that another node requests.
    pub fn from_op(record_op: &RecordOp) -> Option<Self> {
        match record_op {
            RecordOp::Exists | RecordOp::ReadAll | RecordOp::Read(..) => Some(Self::Read),
            RecordOp::Write(_) => Some(Self::Write),
            RecordOp::Delete(_) => Some(Self::Delete),
            RecordOp::Image(_) | RecordOp::Version | RecordOp::Compare(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    pub success: u64,
    pub error: u64,
    pub timeout: u64,
    /// The record to read or delete did not exist.
    pub not_found: u64,
}

impl Outcomes {
    fn record(&mut self, kind: TransactionKind, result: ResultCode) {
        match result {
            ResultCode::OK => self.success += 1,
            ResultCode::NOT_FOUND if kind != TransactionKind::Write => self.not_found += 1,
            ResultCode::TIMEOUT => self.timeout += 1,
            _ => self.error += 1,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionCounts {
    pub read: Outcomes,
    pub write: Outcomes,
    pub delete: Outcomes,
    /// Transactions that another node executed.
    pub proxy: Outcomes,
    /// Number of transactions whose partition no node could serve (`tsvc_error`).
    pub refused: u64,
    /// Times of reads, in the unit of the configuration (`{ns}-read`, `{ns}-batch-sub-read`).
    pub read_times: Buckets,
    /// Times of writes (`{ns}-write`, `{ns}-batch-sub-write`).
    pub write_times: Buckets,
}

impl TransactionCounts {
    /// Number of transactions, and number of failures: timeouts, and transactions whose partition no node could serve.
    pub(crate) fn requests(&self) -> [u64; 2] {
        let kinds = [self.read, self.write, self.delete, self.proxy];
        let completed: u64 = kinds
            .iter()
            .map(|of| of.success + of.error + of.not_found)
            .sum();
        let failed = self.refused + kinds.iter().map(|of| of.timeout).sum::<u64>();
        [completed + failed, failed]
    }
}

/// Counts of records that are copied to or from the other node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Migration {
    /// Partitions that are not compared yet, at the sending node and at the receiving node.
    pub tx_remaining: u64,
    pub rx_remaining: u64,
    pub transmitted: u64,
    /// Records that the other node already had.
    pub skipped: u64,
    pub received: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// Transactions of clients for one record each.
    pub client: TransactionCounts,
    pub batch_sub: TransactionCounts,
    /// Transactions of clients of other nodes.
    pub from_proxy: TransactionCounts,
    /// Transactions refused because too many transactions wait for the same record.
    pub key_busy: u64,
    /// Transactions refused because of the record's generation.
    pub generation: u64,
    pub record_too_big: u64,
    pub migration: Migration,
    pub store: StoreStatistics,
}

impl NamespaceCounts {
    /// Counts a finished transaction. `time`: its duration, in ms or us as configured.
    #[inline]
    pub fn record(
        &mut self,
        origin: TransactionSource,
        kind: TransactionKind,
        result: ResultCode,
        time: u64,
    ) {
        match result {
            ResultCode::KEY_BUSY => self.key_busy += 1,
            ResultCode::GENERATION => self.generation += 1,
            ResultCode::TOO_BIG => self.record_too_big += 1,
            _ => {}
        }
        let transactions = self.transactions_from(origin);
        match kind {
            _ if result == ResultCode::UNAVAILABLE => transactions.refused += 1,
            TransactionKind::Read => {
                transactions.read.record(kind, result);
                transactions.read_times.record(time);
            }
            TransactionKind::Write => {
                transactions.write.record(kind, result);
                transactions.write_times.record(time);
            }
            TransactionKind::Delete => transactions.delete.record(kind, result),
        }
    }

    pub fn record_proxied(&mut self, origin: TransactionSource, result: ResultCode) {
        let transactions = self.transactions_from(origin);
        match result {
            ResultCode::UNAVAILABLE => transactions.refused += 1,
            ResultCode::NOT_FOUND => transactions.proxy.success += 1,
            _ => transactions.proxy.record(TransactionKind::Write, result),
        }
    }

    fn transactions_from(&mut self, origin: TransactionSource) -> &mut TransactionCounts {
        match origin {
            TransactionSource::Client => &mut self.client,
            TransactionSource::Batch => &mut self.batch_sub,
            TransactionSource::Proxy => &mut self.from_proxy,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Each namespace, in the order of the configuration.
    pub namespaces: Vec<NamespaceCounts>,
    pub connections_opened: u64,
    pub connections_closed: u64,
    /// Number of connections that the server closed because they were idle or stalled, or to free memory.
    pub connections_reaped: u64,
    pub malformed: u64,
    pub batches: Outcomes,
    pub info_requests: u64,
    pub in_progress: u64,
}

/// Counters that can be summed over cores.
pub(crate) trait Merge {
    fn merge(&mut self, other: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

impl Merge for bool {
    fn merge(&mut self, other: &Self) {
        *self |= other;
    }
}

impl Merge for Buckets {
    fn merge(&mut self, other: &Self) {
        self.counts
            .iter_mut()
            .zip(other.counts)
            .for_each(|(count, more)| *count += more);
    }
}

impl<T: Merge + Default> Merge for Vec<T> {
    fn merge(&mut self, other: &Self) {
        if self.len() < other.len() {
            self.resize_with(other.len(), T::default);
        }
        self.iter_mut()
            .zip(other)
            .for_each(|(into, from)| into.merge(from));
    }
}

/// Implements [`Merge`] field by field. All fields have to be listed.
macro_rules! merged {
    ($type:ident: $($field:ident),*) => {
        impl Merge for $type {
            fn merge(&mut self, other: &Self) {
                let Self { $($field),* } = other;
                $(self.$field.merge($field);)*
            }
        }
    };
}

merged!(Losses: blocks, bytes, records);
merged!(Outcomes: success, error, timeout, not_found);
merged!(TransactionCounts: read, write, delete, proxy, refused, read_times, write_times);
merged!(NamespaceCounts: client, batch_sub, from_proxy, key_busy, generation, record_too_big, migration, store);
merged!(Migration: tx_remaining, rx_remaining, transmitted, skipped, received);
merged!(ServerCounts: namespaces, connections_opened, connections_closed, connections_reaped, malformed, batches, info_requests,
    in_progress);
merged!(StoreStatistics: objects, tombstones, devices, expired, deleted_last_bin, raided, cache_reads, device_reads, stop_writes, hwm_breached, index_bytes,
    corrupted, damage, losses, read_bytes, write_bytes);
merged!(DeviceStatistics: used_bytes, free_wblocks, pristine_wblocks, write_q, writes, defrag_q, defrag_reads,
    defrag_writes, defrag_io_skips, direct_frees, partial_writes, read_errors, write_errors, read_us, large_block_read_us, write_us);

#[cfg(test)]
pub(crate) mod tests;
