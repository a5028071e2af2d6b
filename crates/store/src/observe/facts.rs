//! The server's state for its log and its info replies.

use super::Counts;
use crate::conf::Config;
use std::net::IpAddr;

/// The version of the real server with this protocol, log and statistics; clients and tools check it.
pub const BUILD: &str = "7.0.0.26";

/// A bit for each partition, the first in the highest bit.
pub type Bitmap = [u8; 512];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub id: u64,
    /// Host and port for clients.
    pub address: (String, u16),
}

/// This node in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub id: u64,
    /// Host and port for clients.
    pub address: (IpAddr, u16),
    /// The other nodes that are there.
    pub peers: Vec<Peer>,
    /// Incremented when the peers change.
    pub peers_generation: u32,
    /// Goes up when partitions change hands.
    pub partition_generation: u32,
    /// Partitions of which this node is the master, then those of which it is the replica.
    pub partitions: Vec<Bitmap>,
    /// Partitions of this node in namespaces with one copy of each record.
    pub own: Bitmap,
    /// Number of partitions whose writes are refused.
    pub unavailable: u64,
    pub takeover: Option<Takeover>,
}

/// The last time that this node took over the partitions of another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takeover {
    /// Time since the other node's last word, ms.
    pub ms: u64,
    /// Clients' requests since the link was lost, and those among them that were refused or timed out.
    pub requests: u64,
    pub failed: u64,
}

impl Node {
    /// A node without others.
    pub fn alone(id: u64, address: (IpAddr, u16)) -> Self {
        Self {
            id,
            address,
            peers: Vec::new(),
            peers_generation: 0,
            partition_generation: 0,
            partitions: vec![[0xff; 512]],
            own: [0xff; 512],
            unavailable: 0,
            takeover: None,
        }
    }
}

/// Thresholds of a latency: 1, 2, 4 and so on, of its unit.
pub(super) const COLUMNS: usize = 17;

/// Latencies of one kind of transactions in the last interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Such as `{test}-read`.
    pub name: String,
    /// `None`: no transactions since the start.
    pub values: Option<LatencyValues>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LatencyValues {
    /// `msec` or `usec`.
    pub unit: &'static str,
    /// Transactions a second.
    pub per_sec: f64,
    /// Percent that took at least 1, 2, 4 and so on of the unit.
    pub over_pct: [f64; COLUMNS],
}

/// The state of the server at an instant.
#[derive(Debug, Clone)]
pub struct Facts {
    pub config: Config,
    pub node: Node,
    /// Bytes of each device of each namespace, in the order of the configuration.
    pub device_bytes: Vec<Vec<u64>>,
    /// Time since the start, s.
    pub uptime_sec: u64,
    /// Time since 1970, ms.
    pub wall_ms: u64,
    /// Counts of all cores.
    pub counts: Counts,
    /// Latencies of the last interval, as the ticker found them.
    pub latencies: Vec<Latency>,
}

impl Facts {
    /// Records of which this node is the master, those of which it is the replica, and others: by its shares of the
    /// partitions, because stores do not distinguish them.
    pub(crate) fn split_objects(&self, namespace: usize) -> [u64; 3] {
        let objects = self.counts.namespaces.get(namespace).map_or(0, |counts| counts.store.objects);
        let count = |bitmap: &Bitmap| bitmap.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let owned: Vec<u64> = self.columns(namespace).iter().map(count).collect();
        match owned.iter().sum() {
            0 => [0, 0, objects],
            all => {
                let masters = objects * owned[0] / all;
                [masters, objects - masters, 0]
            }
        }
    }

    /// Partitions of this node in a namespace: those of which it is the master, then those of which it is the replica.
    pub(crate) fn columns(&self, namespace: usize) -> &[Bitmap] {
        match self.config.namespaces[namespace].replication_factor {
            1 => std::slice::from_ref(&self.node.own),
            _ => &self.node.partitions,
        }
    }

    /// Partitions of all namespaces that are not compared yet with the other node's.
    pub(crate) fn partitions_remaining(&self) -> u64 {
        let migrations = self.counts.namespaces.iter().map(|counts| &counts.migration);
        migrations.map(|migration| migration.tx_remaining + migration.rx_remaining).sum()
    }

    pub(crate) fn wblocks(&self, namespace: usize, device: usize) -> u64 {
        let bytes = self.device_bytes.get(namespace).and_then(|devices| devices.get(device)).copied().unwrap_or(0);
        bytes / u64::from(self.config.namespaces[namespace].settings.write_block_bytes)
    }

    /// Free write blocks of a namespace, percent.
    pub(crate) fn available_pct(&self, namespace: usize) -> u64 {
        let devices = self.device_bytes.get(namespace).map_or(0, Vec::len);
        let all: u64 = (0..devices).map(|device| self.wblocks(namespace, device)).sum();
        let store = self.counts.namespaces.get(namespace).map(|counts| &counts.store);
        let free: u64 = store.into_iter().flat_map(|store| &store.devices).map(|device| device.free_wblocks).sum();
        free.min(all) * 100 / all.max(1)
    }
}
