//! Counters of transactions, connections and stores. Each core counts for itself; the printing thread adds the cores
//! up.

use crate::namespace::DeviceStatistics;
use crate::{Buckets, ResultCode, Statistics, Work};

/// Source of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A message of its own.
    Client,
    Batch,
}

/// Kind of a transaction, with the real server's distinction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads, or checks existence.
    Read,
    Write,
    Delete,
}

impl Kind {
    /// Kind of `work`. `None` for a transaction from another node.
    pub fn of(work: &Work) -> Option<Self> {
        match work {
            Work::Exists | Work::ReadAll | Work::Read(_) => Some(Self::Read),
            Work::Write(_) => Some(Self::Write),
            Work::Delete(_) => Some(Self::Delete),
            Work::Image(_) => None,
        }
    }
}

/// Results of transactions of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    pub success: u64,
    pub error: u64,
    /// Timed out.
    pub timeout: u64,
    /// There was no record to read or delete.
    pub not_found: u64,
}

impl Outcomes {
    fn record(&mut self, kind: Kind, result: ResultCode) {
        match result {
            ResultCode::OK => self.success += 1,
            ResultCode::NOT_FOUND if kind != Kind::Write => self.not_found += 1,
            ResultCode::TIMEOUT => self.timeout += 1,
            _ => self.error += 1,
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self { success, error, timeout, not_found } = other;
        self.success += success;
        self.error += error;
        self.timeout += timeout;
        self.not_found += not_found;
    }
}

/// Transactions of one origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transactions {
    pub read: Outcomes,
    pub write: Outcomes,
    pub delete: Outcomes,
    /// Times of reads, in the unit of the configuration (`{ns}-read`, `{ns}-batch-sub-read`).
    pub read_times: Buckets,
    /// Times of writes (`{ns}-write`, `{ns}-batch-sub-write`).
    pub write_times: Buckets,
}

impl Transactions {
    fn merge(&mut self, other: &Self) {
        let Self { read, write, delete, read_times, write_times } = other;
        self.read.merge(read);
        self.write.merge(write);
        self.delete.merge(delete);
        self.read_times.merge(read_times);
        self.write_times.merge(write_times);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// Single transactions.
    pub client: Transactions,
    /// Transactions of batches.
    pub batch_sub: Transactions,
    /// Refused because too many wait for the same record.
    pub key_busy: u64,
    /// Refused because the record is too big.
    pub record_too_big: u64,
    /// Statistics of its stores.
    pub store: Statistics,
}

impl NamespaceCounts {
    /// Counts a finished transaction. `time`: its duration, in ms or us as configured.
    #[inline]
    pub fn record(&mut self, origin: Origin, kind: Kind, result: ResultCode, time: u64) {
        match result {
            ResultCode::KEY_BUSY => self.key_busy += 1,
            ResultCode::TOO_BIG => self.record_too_big += 1,
            _ => {}
        }
        let of = match origin {
            Origin::Client => &mut self.client,
            Origin::Batch => &mut self.batch_sub,
        };
        match kind {
            Kind::Read => {
                of.read.record(kind, result);
                of.read_times.record(time);
            }
            Kind::Write => {
                of.write.record(kind, result);
                of.write_times.record(time);
            }
            Kind::Delete => of.delete.record(kind, result),
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self { client, batch_sub, key_busy, record_too_big, store } = other;
        self.client.merge(client);
        self.batch_sub.merge(batch_sub);
        self.key_busy += key_busy;
        self.record_too_big += record_too_big;
        merge_stores(&mut self.store, store);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Each namespace, in the order of the configuration.
    pub namespaces: Vec<NamespaceCounts>,
    /// Connections of clients that were opened.
    pub connections_opened: u64,
    /// Closed ones among them.
    pub connections_closed: u64,
    /// Closed ones among them, for being idle.
    pub connections_reaped: u64,
    /// Malformed frames.
    pub malformed: u64,
    /// Batches by how they ended.
    pub batches: Outcomes,
    /// Info requests answered.
    pub info_requests: u64,
    /// Transactions that are not answered yet.
    pub in_progress: u64,
}

impl Counts {
    /// Adds another core's counts.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            namespaces,
            connections_opened,
            connections_closed,
            connections_reaped,
            malformed,
            batches,
            info_requests,
            in_progress,
        } = other;
        if self.namespaces.len() < namespaces.len() {
            self.namespaces.resize_with(namespaces.len(), NamespaceCounts::default);
        }
        self.namespaces.iter_mut().zip(namespaces).for_each(|(into, from)| into.merge(from));
        self.connections_opened += connections_opened;
        self.connections_closed += connections_closed;
        self.connections_reaped += connections_reaped;
        self.malformed += malformed;
        self.batches.merge(batches);
        self.info_requests += info_requests;
        self.in_progress += in_progress;
    }
}

fn merge_stores(into: &mut Statistics, from: &Statistics) {
    let Statistics {
        objects,
        tombstones,
        devices,
        expired,
        raided,
        cache_reads,
        device_reads,
        stop_writes,
        index_bytes,
        corrupted,
        read_bytes,
        write_bytes,
    } = from;
    into.objects += objects;
    into.tombstones += tombstones;
    into.expired += expired;
    into.raided += raided;
    into.cache_reads += cache_reads;
    into.device_reads += device_reads;
    into.stop_writes |= stop_writes;
    into.index_bytes += index_bytes;
    into.corrupted += corrupted;
    into.read_bytes.merge(read_bytes);
    into.write_bytes.merge(write_bytes);
    if into.devices.len() < devices.len() {
        into.devices.resize_with(devices.len(), DeviceStatistics::default);
    }
    into.devices.iter_mut().zip(devices).for_each(|(into, from)| merge_devices(into, from));
}

fn merge_devices(into: &mut DeviceStatistics, from: &DeviceStatistics) {
    // Named one by one, so that a new one is not forgotten here.
    let DeviceStatistics {
        used_bytes,
        free_wblocks,
        pristine_wblocks,
        write_q,
        writes,
        defrag_q,
        defrag_reads,
        defrag_writes,
        defrag_io_skips,
        direct_frees,
        partial_writes,
        errors,
        read_us,
        large_block_read_us,
        write_us,
    } = from;
    for (into, from) in [
        (&mut into.used_bytes, used_bytes),
        (&mut into.free_wblocks, free_wblocks),
        (&mut into.pristine_wblocks, pristine_wblocks),
        (&mut into.write_q, write_q),
        (&mut into.writes, writes),
        (&mut into.defrag_q, defrag_q),
        (&mut into.defrag_reads, defrag_reads),
        (&mut into.defrag_writes, defrag_writes),
        (&mut into.defrag_io_skips, defrag_io_skips),
        (&mut into.direct_frees, direct_frees),
        (&mut into.partial_writes, partial_writes),
        (&mut into.errors, errors),
    ] {
        *into += from;
    }
    into.read_us.merge(read_us);
    into.large_block_read_us.merge(large_block_read_us);
    into.write_us.merge(write_us);
}
