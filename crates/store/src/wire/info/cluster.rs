//! Nodes and their partitions.

use super::{Facts, joined};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

fn host_port(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// A number that is the same on all nodes that see each other.
pub(super) fn key(facts: &Facts) -> String {
    let all = facts.node.peers.iter().map(|peer| peer.id).chain([facts.node.id]);
    format!("{:X}", all.fold(0u64, |key, id| key ^ id.wrapping_mul(0x9E37_79B9_7F4A_7C15)) & ((1 << 48) - 1))
}

/// The key of a cluster of the size that is asked for, without migrations unless those may be.
pub(super) fn stable(parameters: &str, facts: &Facts) -> String {
    let asked = |name: &str| parameters.split(';').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='));
    let size = (facts.node.peers.len() + 1).to_string();
    if asked("size").is_some_and(|wanted| wanted != size) {
        "ERROR::cluster-not-specified-size".to_owned()
    } else if asked("ignore-migrations") != Some("true") && facts.partitions_remaining() > 0 {
        "ERROR::unstable-cluster".to_owned()
    } else {
        key(facts)
    }
}

/// `generation,default port,[[id,,[host:port]],...]`.
pub(super) fn peers(facts: &Facts) -> String {
    let peers = facts.node.peers.iter().map(|peer| {
        let (host, port) = &peer.address;
        format!("[{:X},,[{}]]", peer.id, host_port(host, *port))
    });
    format!("{},3000,[{}]", facts.node.peers_generation, peers.collect::<Vec<_>>().join(","))
}

pub(super) fn service(facts: &Facts) -> String {
    let (address, port) = facts.node.address;
    host_port(&address.to_string(), port)
}

pub(super) fn services(facts: &Facts) -> String {
    joined(facts.node.peers.iter().map(|peer| host_port(&peer.address.0, peer.address.1)))
}

/// Each namespace's bitmaps: the partitions that this node is master of, and those that it is the replica of.
fn bitmaps(facts: &Facts) -> impl Iterator<Item = (&str, Vec<String>)> {
    facts.config.namespaces.iter().enumerate().map(|(index, namespace)| {
        let columns = facts.columns(index).iter();
        (&*namespace.settings.name, columns.map(|bitmap| STANDARD.encode(bitmap)).collect())
    })
}

pub(super) fn replicas(facts: &Facts) -> String {
    joined(bitmaps(facts).map(|(name, bitmaps)| format!("{name}:0,{},{}", bitmaps.len(), bitmaps.join(","))))
}

pub(super) fn replicas_all(facts: &Facts) -> String {
    joined(bitmaps(facts).map(|(name, bitmaps)| format!("{name}:{},{}", bitmaps.len(), bitmaps.join(","))))
}

pub(super) fn replicas_master(facts: &Facts) -> String {
    joined(bitmaps(facts).map(|(name, bitmaps)| format!("{name}:{}", bitmaps[0])))
}
