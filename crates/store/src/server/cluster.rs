//! The nodes, and their partitions. The list of nodes never changes, and is the same on each node. Partitions are
//! assigned by rendezvous hashing: the node with the highest hash of node and partition is the master, the next node is
//! the replica.

use crate::{PARTITIONS, digest};
use sys::random::Random;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    pub host: String,
    pub port: u16,
    /// Number of the node. Determines the node's partitions.
    pub id: u64,
}

impl ClusterNode {
    /// The node at `host` and `port`. Its number is a hash of both.
    pub fn new(host: &str, port: u16) -> Self {
        let hash = digest(b"node", 0, format!("{host}:{port}").as_bytes());
        // The id is never 0, because some clients treat 0 as missing.
        let id = hash[..8]
            .iter()
            .fold(0, |id, byte| id << 8 | u64::from(*byte))
            .max(1);
        Self {
            host: host.to_owned(),
            port,
            id,
        }
    }

    /// The number in the format of the protocol.
    pub fn name(&self) -> String {
        format!("{:016X}", self.id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    nodes: Vec<ClusterNode>,
    own_index: usize,
    /// Master and replica of each partition.
    owners: Vec<[usize; 2]>,
}

impl Cluster {
    pub fn new(nodes: Vec<ClusterNode>, own_index: usize) -> Self {
        let owners = (0..PARTITIONS)
            .map(|partition| owners(&nodes, partition))
            .collect();
        Self {
            nodes,
            own_index,
            owners,
        }
    }

    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    pub fn own_node(&self) -> &ClusterNode {
        &self.nodes[self.own_index]
    }

    pub fn others(&self) -> impl Iterator<Item = (usize, &ClusterNode)> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != self.own_index)
    }

    pub(super) fn master(&self, partition: u16) -> usize {
        self.owners[usize::from(partition)][0]
    }

    /// True if this node is the master of `partition` (`copy` 0) or its replica (1).
    pub fn has(&self, partition: u16, copy: usize) -> bool {
        copy < self.nodes.len().min(2)
            && self.owners[usize::from(partition)][copy] == self.own_index
    }

    /// The replica of `partition`, if this node is its master and there is another node.
    pub(super) fn replica(&self, partition: u16) -> Option<usize> {
        let [master, replica] = self.owners[usize::from(partition)];
        (master == self.own_index && replica != master).then_some(replica)
    }
}

fn owners(nodes: &[ClusterNode], partition: u16) -> [usize; 2] {
    let mut order: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (hash(node.id ^ hash(partition.into())), at))
        .collect();
    order.sort_by(|a, b| b.cmp(a));
    [order[0].1, order.get(1).unwrap_or(&order[0]).1]
}

fn hash(number: u64) -> u64 {
    Random::new(number).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(nodes: u16, own: usize) -> Cluster {
        Cluster::new(
            (0..nodes)
                .map(|at| ClusterNode::new("127.0.0.1", 3000 + at))
                .collect(),
            own,
        )
    }

    #[test]
    fn each_partition_has_one_master_and_one_replica_and_they_are_spread() {
        let nodes: Vec<_> = (0..3).map(|own| cluster(3, own)).collect();
        let mut masters = [0; 3];
        for partition in 0..PARTITIONS {
            let with = |place| {
                (0..3)
                    .filter(|at| nodes[*at].has(partition, place))
                    .collect::<Vec<_>>()
            };
            let master = with(0);
            let replica = with(1);
            assert!(master.len() == 1 && replica.len() == 1 && master != replica);
            assert_eq!(nodes[master[0]].replica(partition), Some(replica[0]));
            assert_eq!(nodes[replica[0]].replica(partition), None);
            masters[master[0]] += 1;
        }
        assert!(
            masters.iter().all(|count| (1200..1530).contains(count)),
            "{masters:?}"
        );
        let alone = cluster(1, 0);
        assert!(
            (0..PARTITIONS)
                .all(|p| alone.has(p, 0) && !alone.has(p, 1) && alone.replica(p).is_none())
        );
    }
}
