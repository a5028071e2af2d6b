//! Info requests: names, and for each its value, as text.
//!
//! ```text
//! name\nname\n   ->   name\tvalue\nname\tvalue\n
//! ```
//!
//! Names and forms are those of the real server of 7.0; missing data is left out, not made up.
//!
//! Nodes and their partitions.

mod statistics;

use super::frame::{self, Kind};
use crate::nodes::Host;
use crate::observe::{BUILD, Facts, Latency};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// Maximum number of names answered per request; the rest is refused in one line. The clients send up to three at once,
/// asadm one.
const NAMES_MAX: usize = 256;

/// Names that a request without names asks for.
const DEFAULT: [&str; 6] = ["node", "build", "edition", "version", "service", "statistics"];

/// Features that clients check: without `pscans` the Java client assumes a server before 4.9.
const FEATURES: &str = "batch-any;batch-index;cluster-stable;float;peers;pipelining;pquery;pscans;query-show;replicas;replicas-all;\
                        replicas-master;replicas-max";

/// Appends the reply to the request `body`, a frame.
pub fn put(out: &mut Vec<u8>, body: &[u8], facts: &Facts) {
    let begin = frame::begin(out, Kind::Info);
    let mut names = body.split(|byte| *byte == b'\n').filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        DEFAULT.iter().for_each(|name| put_value(out, name.as_bytes(), &answer(name, facts)));
    }
    for name in names.by_ref().take(NAMES_MAX) {
        let value = match std::str::from_utf8(name) {
            Ok(name) => answer(name, facts),
            Err(_) => unknown(),
        };
        put_value(out, name, &value);
    }
    if names.next().is_some() {
        put_value(out, b"", &error(4, "too many names in one request"));
    }
    frame::end(out, begin);
}

fn put_value(out: &mut Vec<u8>, name: &[u8], value: &str) {
    out.extend_from_slice(name);
    out.push(b'\t');
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

fn error(code: u8, text: &str) -> String {
    format!("ERROR:{code}:{text}")
}

fn unknown() -> String {
    error(4, "unrecognized command")
}

fn answer(name: &str, facts: &Facts) -> String {
    let (command, parameters) = name.split_once(':').unwrap_or((name, ""));
    let (command, of) = command.split_once('/').unwrap_or((command, ""));
    match command {
        "node" => format!("{:X}", facts.node.id),
        "build" => BUILD.to_owned(),
        "edition" => "flashproof record engine".to_owned(),
        "version" => format!("flashproof {} build {BUILD}", env!("CARGO_PKG_VERSION")),
        "status" => "ok".to_owned(),
        "features" => FEATURES.to_owned(),
        "cluster-name" => facts.config.cluster_name.clone().unwrap_or_else(|| "null".to_owned()),
        "cluster-stable" => stable(parameters, facts),
        "peers-generation" => facts.node.peers_generation.to_string(),
        "partition-generation" => facts.node.partition_generation.to_string(),
        "peers-clear-std" | "peers-clear-alt" | "alumni-clear-std" => peers(facts),
        "peers-tls-std" | "peers-tls-alt" => format!("{},,[]", facts.node.peers_generation),
        "service" | "service-clear-std" | "service-clear-alt" => service(facts),
        "services" | "services-alumni" => services(facts),
        "replicas" => replicas(facts),
        "replicas-all" => replicas_all(facts),
        "replicas-master" => replicas_master(facts),
        "namespaces" => joined(facts.config.namespaces.iter().map(|namespace| namespace.settings.name.clone())),
        "namespace" => match index_of(of, facts) {
            Some(index) => statistics::namespace_statistics(facts, index),
            None => error(20, "namespace not found"),
        },
        "statistics" => statistics::server(facts),
        "latencies" => latencies(parameters, facts),
        "get-config" => statistics::answer(parameters, facts),
        "logs" => statistics::logs(facts),
        "log" => statistics::log(of, facts),
        "best-practices" => "failed_best_practices=none".to_owned(),
        // These do not exist; sets and sizes of records are not counted.
        "sets" | "bins" | "sindex" | "sindex-list" | "udf-list" | "jobs" | "query-show" | "histogram" => String::new(),
        "health-stats" | "health-outliers" | "smd-info" | "tps" => String::new(),
        "user-agent-set" => "ok".to_owned(),
        "feature-key" | "rack-ids" | "roster" => error(25, "enterprise only"),
        _ => unknown(),
    }
}

/// The value of `key` among `key=value;key=value`.
fn parameter<'a>(parameters: &'a str, key: &str) -> Option<&'a str> {
    parameters.split(';').find_map(|pair| pair.split_once('=').filter(|(name, _)| *name == key)).map(|(_, value)| value)
}

fn index_of(namespace: &str, facts: &Facts) -> Option<usize> {
    facts.config.namespaces.iter().position(|of| of.settings.name == namespace)
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(";")
}

/// Builds `name=value;name=value`.
struct Pairs(String);

impl Pairs {
    fn new() -> Self {
        Self(String::new())
    }

    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let separator = if self.0.is_empty() { "" } else { ";" };
        let _ = write!(self.0, "{separator}{name}={value}");
    }
}

/// Latencies of all histograms, or of the requested one; none of the benchmarks' exist.
fn latencies(parameters: &str, facts: &Facts) -> String {
    let wanted = parameter(parameters, "hist");
    let found: Vec<_> =
        facts.latencies.iter().filter(|latency| wanted.is_none_or(|name| latency.name == name)).map(latency).collect();
    match wanted {
        Some(name) if found.is_empty() && !name.contains("benchmarks-") => error(4, "bad hist name"),
        _ => found.join(";"),
    }
}

fn latency(of: &Latency) -> String {
    let mut text = format!("{}:", of.name);
    if let Some(values) = &of.values {
        let _ = write!(text, "{},{:.1}", values.unit, values.per_sec);
        values.over_pct.iter().for_each(|pct| _ = write!(text, ",{pct:.2}"));
    }
    text
}

fn host_port(host: &str, port: u16) -> String {
    Host { name: host.to_owned(), port }.to_string()
}

/// A number that is the same on all nodes that see each other.
fn key(facts: &Facts) -> String {
    let all = facts.node.peers.iter().map(|peer| peer.id).chain([facts.node.id]);
    format!("{:X}", all.fold(0u64, |key, id| key ^ id.wrapping_mul(0x9E37_79B9_7F4A_7C15)) & ((1 << 48) - 1))
}

/// The key of a cluster of the size that is asked for, without migrations unless those may be.
fn stable(parameters: &str, facts: &Facts) -> String {
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
fn peers(facts: &Facts) -> String {
    let peers = facts.node.peers.iter().map(|peer| {
        let (host, port) = &peer.address;
        format!("[{:X},,[{}]]", peer.id, host_port(host, *port))
    });
    format!("{},3000,[{}]", facts.node.peers_generation, peers.collect::<Vec<_>>().join(","))
}

fn service(facts: &Facts) -> String {
    let (address, port) = facts.node.address;
    host_port(&address.to_string(), port)
}

fn services(facts: &Facts) -> String {
    joined(facts.node.peers.iter().map(|peer| host_port(&peer.address.0, peer.address.1)))
}

/// Each namespace's bitmaps: the partitions that this node is master of, and those that it is the replica of.
fn bitmaps(facts: &Facts) -> impl Iterator<Item = (&str, Vec<String>)> {
    facts.config.namespaces.iter().enumerate().map(|(index, namespace)| {
        let columns = facts.columns(index).iter();
        (&*namespace.settings.name, columns.map(|bitmap| STANDARD.encode(bitmap)).collect())
    })
}

fn replicas(facts: &Facts) -> String {
    joined(bitmaps(facts).map(|(name, bitmaps)| format!("{name}:0,{},{}", bitmaps.len(), bitmaps.join(","))))
}

fn replicas_all(facts: &Facts) -> String {
    joined(bitmaps(facts).map(|(name, bitmaps)| format!("{name}:{},{}", bitmaps.len(), bitmaps.join(","))))
}

fn replicas_master(facts: &Facts) -> String {
    joined(bitmaps(facts).map(|(name, bitmaps)| format!("{name}:{}", bitmaps[0])))
}

#[cfg(test)]
mod tests;
