//! Info requests: a list of names, answered by the names with their values, as text.
//!
//! ```text
//! name\nname\n   ->   name\tvalue\nname\tvalue\n
//! ```
//!
//! Names and formats are those of the real server 7.0. Values that this server does not have are left out.

use super::frame::{self, FrameKind};
use crate::ResultCode;
use crate::nodes::HostPort;
use crate::observe::{BUILD, Facts, NamespaceCounts, TransactionCounts};
use crate::server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// Maximum number of names answered per request; the rest is refused in one line. Clients ask for up to 3, asadm for 1.
const NAMES_MAX: usize = 256;

/// Names that a request without names asks for.
const DEFAULT: [&str; 6] = [
    "node",
    "build",
    "edition",
    "version",
    "service",
    "statistics",
];

/// Features that clients check: without `pscans` the Java client assumes a server before 4.9.
const FEATURES: &str = "batch-any;batch-index;cluster-stable;float;peers;pipelining;pquery;pscans;query-show;replicas;replicas-all;\
                        replicas-master;replicas-max";

/// Appends the reply to the request `body`, as a frame.
pub fn put(out: &mut Vec<u8>, body: &[u8], facts: &Facts) {
    let begin = frame::begin(out, FrameKind::Info);
    let mut names = body
        .split(|byte| *byte == b'\n')
        .filter(|name| !name.is_empty())
        .peekable();
    if names.peek().is_none() {
        DEFAULT
            .iter()
            .for_each(|name| put_value(out, name.as_bytes(), &answer(name, facts)));
    }
    for name in names.by_ref().take(NAMES_MAX) {
        let value = str::from_utf8(name).map_or_else(|_| unknown(), |name| answer(name, facts));
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

fn no_namespace() -> String {
    error(20, "namespace not found")
}

fn unknown() -> String {
    error(4, "unrecognized command")
}

fn no_index() -> String {
    "FAIL:201:NO INDEX".to_owned()
}

fn unsupported(feature: &str) -> String {
    error(
        ResultCode::UNSUPPORTED.0,
        &format!("this server does not have {feature}"),
    )
}

fn answer(name: &str, facts: &Facts) -> String {
    let (command, parameters) = name.split_once(':').unwrap_or((name, ""));
    let (command, argument) = command.split_once('/').unwrap_or((command, ""));
    match command {
        "node" => format!("{:X}", facts.node.id),
        "build" => BUILD.to_owned(),
        "edition" => "flashproof record engine".to_owned(),
        "version" => format!("flashproof {} build {BUILD}", env!("CARGO_PKG_VERSION")),
        "status" => "ok".to_owned(),
        "features" => FEATURES.to_owned(),
        "cluster-name" => facts
            .config
            .cluster_name
            .clone()
            .unwrap_or_else(|| "null".to_owned()),
        "cluster-stable" => stable(parameters, facts),
        "peers-generation" => facts.node.peers_generation.to_string(),
        "partition-generation" => facts.node.partition_generation.to_string(),
        "peers-clear-std" | "peers-clear-alt" | "alumni-clear-std" => peers(facts),
        "peers-tls-std" | "peers-tls-alt" => format!("{},,[]", facts.node.peers_generation),
        "service" | "service-clear-std" | "service-clear-alt" => {
            let (address, port) = facts.node.address;
            host_port(&address.to_string(), port)
        }
        "services" | "services-alumni" => joined(
            facts
                .node
                .peers
                .iter()
                .map(|peer| host_port(&peer.host, peer.port)),
        ),
        "replicas" => bitmaps(facts, |maps| format!("0,{},{}", maps.len(), maps.join(","))),
        "replicas-all" => bitmaps(facts, |maps| format!("{},{}", maps.len(), maps.join(","))),
        "replicas-master" => bitmaps(facts, |maps| maps[0].clone()),
        "namespaces" => joined(
            facts
                .config
                .namespaces
                .iter()
                .map(|namespace| namespace.settings.name.clone()),
        ),
        "namespace" => index_of(argument, facts)
            .map_or_else(no_namespace, |at| namespace_statistics(facts, at)),
        "statistics" => statistics(facts),
        "latencies" => latencies(parameters, facts),
        "get-config" => get_config(parameters, facts),
        // For example `0:path;1:stderr`.
        "logs" => joined(facts.config.logs.iter().enumerate().map(|(index, log)| {
            let path = log.path.as_deref().unwrap_or("stderr");
            format!("{index}:{path}")
        })),
        // Levels of a log, for example `info:INFO;drv_ssd:DETAIL`.
        "log" => match argument
            .parse()
            .ok()
            .and_then(|index: usize| facts.config.logs.get(index))
        {
            Some(log) => format!(
                "info:{};drv_ssd:{}",
                log.any.word(),
                log.drv_ssd.unwrap_or(log.any).word()
            ),
            None => error(4, "bad log id"),
        },
        "best-practices" => "failed_best_practices=none".to_owned(),
        // This server has no such objects, and does not count the records and sizes of sets.
        "sindex-stat" => no_index(),
        "sindex" if argument.contains('/') => no_index(),
        "sets" | "bins" | "sindex" | "sindex-list" | "udf-list" | "jobs" | "query-show"
        | "histogram" => String::new(),
        "health-stats" | "health-outliers" | "smd-info" | "tps" => String::new(),
        "user-agent-set" => "ok".to_owned(),
        // As in the real server, removing an object that does not exist succeeds.
        "sindex-delete" => "OK".to_owned(),
        "sindex-exists" => "false".to_owned(),
        "udf-remove" => "ok".to_owned(),
        "udf-get" => "error=not_found".to_owned(),
        "sindex-create" => unsupported("secondary indexes"),
        "udf-put" => unsupported("user-defined functions"),
        "truncate" | "truncate-namespace" | "truncate-undo" | "truncate-namespace-undo" => {
            unsupported("truncation")
        }
        "set-config" => unsupported("settings that change while it runs"),
        "feature-key" | "rack-ids" | "roster" => error(25, "enterprise only"),
        _ => unknown(),
    }
}

/// The value of `key` among `key=value;key=value`.
fn parameter<'a>(parameters: &'a str, key: &str) -> Option<&'a str> {
    parameters
        .split(';')
        .find_map(|pair| pair.trim().strip_prefix(key)?.strip_prefix('='))
}

fn index_of(namespace: &str, facts: &Facts) -> Option<usize> {
    facts
        .config
        .namespaces
        .iter()
        .position(|of| of.settings.name == namespace)
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(";")
}

/// Builds `name=value;name=value`.
#[derive(Default)]
struct Pairs(String);

impl Pairs {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let separator = if self.0.is_empty() { "" } else { ";" };
        let _ = write!(self.0, "{separator}{name}={value}");
    }
}

/// Latencies of all histograms, or of the requested histogram. This server has no benchmark histograms.
fn latencies(parameters: &str, facts: &Facts) -> String {
    let histogram = parameter(parameters, "hist");
    let entries = facts
        .latencies
        .iter()
        .filter(|(name, _)| histogram.is_none_or(|requested| name == requested));
    let entries: Vec<_> = entries
        .map(|(name, values)| format!("{name}:{values}"))
        .collect();
    match histogram {
        Some(name) if entries.is_empty() && !name.contains("benchmarks-") => {
            error(4, "bad hist name")
        }
        _ => entries.join(";"),
    }
}

fn host_port(host: &str, port: u16) -> String {
    HostPort {
        name: host.to_owned(),
        port,
    }
    .to_string()
}

/// The cluster key: the same on all nodes that see each other.
fn key(facts: &Facts) -> String {
    let all = facts
        .node
        .peers
        .iter()
        .map(|peer| peer.id)
        .chain([facts.node.id]);
    format!(
        "{:X}",
        all.fold(0u64, |key, id| key ^ id.wrapping_mul(0x9E37_79B9_7F4A_7C15)) & ((1 << 48) - 1)
    )
}

/// The cluster key, if the cluster has the requested size and no migrations. A request may ignore migrations.
fn stable(parameters: &str, facts: &Facts) -> String {
    let size = (facts.node.peers.len() + 1).to_string();
    let ignores_migrations = parameter(parameters, "ignore-migrations") == Some("true");
    if parameter(parameters, "size").is_some_and(|requested| requested != size) {
        "ERROR::cluster-not-specified-size".to_owned()
    } else if !ignores_migrations && facts.partitions_remaining() > 0 {
        "ERROR::unstable-cluster".to_owned()
    } else {
        key(facts)
    }
}

/// The list of peers: `generation,default port,[[id,,[host:port]],...]`.
fn peers(facts: &Facts) -> String {
    let peers = facts.node.peers.iter();
    let peers =
        peers.map(|peer| format!("[{:X},,[{}]]", peer.id, host_port(&peer.host, peer.port)));
    format!(
        "{},3000,[{}]",
        facts.node.peers_generation,
        peers.collect::<Vec<_>>().join(",")
    )
}

/// Each namespace's bitmaps, in Base64: the partitions of which this node is the master, then those as replica.
fn bitmaps(facts: &Facts, text: impl Fn(&[String]) -> String) -> String {
    joined(
        facts
            .config
            .namespaces
            .iter()
            .enumerate()
            .map(|(index, namespace)| {
                let maps: Vec<_> = facts
                    .columns(index)
                    .iter()
                    .map(|bitmap| STANDARD.encode(bitmap))
                    .collect();
                format!("{}:{}", namespace.settings.name, text(&maps))
            }),
    )
}

fn statistics(facts: &Facts) -> String {
    let counts = &facts.counts;
    let mut pairs = Pairs::default();
    let objects: u64 = counts
        .namespaces
        .iter()
        .map(|namespace| namespace.store.objects)
        .sum();
    let tombstones: u64 = counts
        .namespaces
        .iter()
        .map(|namespace| namespace.store.tombstones)
        .sum();
    let principal = facts
        .node
        .peers
        .iter()
        .map(|peer| peer.id)
        .chain([facts.node.id])
        .max()
        .unwrap_or(0);
    pairs.add("cluster_size", facts.node.peers.len() + 1);
    pairs.add("cluster_key", key(facts));
    pairs.add("cluster_principal", format!("{principal:X}"));
    pairs.add("cluster_integrity", true);
    pairs.add("cluster_is_member", true);
    pairs.add("cluster_clock_skew_ms", facts.node.clock_skew_ms);
    pairs.add("uptime", facts.uptime_sec);
    pairs.add("objects", objects);
    pairs.add("tombstones", tombstones);
    pairs.add("rw_in_progress", counts.in_progress);
    pairs.add(
        "client_connections",
        counts
            .connections_opened
            .saturating_sub(counts.connections_closed),
    );
    pairs.add("client_connections_opened", counts.connections_opened);
    pairs.add("client_connections_closed", counts.connections_closed);
    pairs.add("reaped_fds", counts.connections_reaped);
    pairs.add("info_complete", counts.info_requests);
    pairs.add("demarshal_error", counts.malformed);
    pairs.add("batch_index_complete", counts.batches.success);
    pairs.add("batch_index_error", counts.batches.error);
    pairs.add("batch_index_timeout", counts.batches.timeout);
    pairs.add("paxos_principal", format!("{principal:X}"));
    if let Some(takeover) = facts.node.takeover {
        pairs.add("takeover_ms", takeover.ms);
        pairs.add("takeover_requests", takeover.requests);
        pairs.add("takeover_failed", takeover.failed);
    }
    pairs.add("migrate_allowed", true);
    pairs.add("migrate_partitions_remaining", facts.partitions_remaining());
    pairs.0
}

fn namespace_statistics(facts: &Facts, index: usize) -> String {
    let default = NamespaceCounts::default();
    let counts = facts.counts.namespaces.get(index).unwrap_or(&default);
    let config = &facts.config.namespaces[index];
    let store = &counts.store;
    let [masters, replicas, others] = facts.split_objects(index);
    let mut pairs = Pairs::default();
    let nodes = facts.node.peers.len() + 1;
    pairs.add("ns_cluster_size", nodes);
    pairs.add(
        "effective_replication_factor",
        nodes.min(config.replication_factor.into()),
    );
    pairs.add("objects", store.objects);
    pairs.add("tombstones", store.tombstones);
    pairs.add("master_objects", masters);
    pairs.add("master_tombstones", store.tombstones);
    pairs.add("prole_objects", replicas);
    pairs.add("prole_tombstones", 0);
    pairs.add("non_replica_objects", others);
    pairs.add("non_replica_tombstones", 0);
    pairs.add("dead_partitions", 0);
    pairs.add(
        "unavailable_partitions",
        if config.replication_factor > 1 {
            facts.node.unavailable
        } else {
            0
        },
    );
    pairs.add(
        "clock_skew_stop_writes",
        server::stops_writes(facts.node.clock_skew_ms, &config.settings),
    );
    pairs.add("stop_writes", store.stop_writes);
    pairs.add("hwm_breached", store.hwm_breached);
    pairs.add(
        "current_time",
        (facts.wall_ms / 1_000).saturating_sub(crate::record_store::EPOCH_SEC),
    );
    pairs.add("expired_objects", store.expired);
    pairs.add("evicted_objects", 0);
    pairs.add("deleted_last_bin", store.deleted_last_bin);
    pairs.add("index_used_bytes", store.index_bytes);
    pairs.add("sindex_used_bytes", 0);
    let total: u64 = facts.device_bytes.get(index).into_iter().flatten().sum();
    let used: u64 = store.devices.iter().map(|device| device.used_bytes).sum();
    pairs.add("data_total_bytes", total);
    pairs.add("data_used_bytes", used);
    pairs.add("data_used_pct", used.min(total) * 100 / total.max(1));
    pairs.add("data_avail_pct", facts.available_pct(index));
    let reads = store.cache_reads + store.device_reads;
    pairs.add("cache_read_pct", store.cache_reads * 100 / reads.max(1));
    for (device, counters) in store.devices.iter().enumerate() {
        let kind = config.device_kind();
        for (name, value) in [
            ("used_bytes", counters.used_bytes),
            ("free_wblocks", counters.free_wblocks),
            ("write_q", counters.write_q),
            ("writes", counters.writes),
            ("defrag_q", counters.defrag_q),
            ("defrag_reads", counters.defrag_reads),
            ("defrag_writes", counters.defrag_writes),
            ("read_errors", counters.read_errors),
            ("write_errors", counters.write_errors),
        ] {
            pairs.add(&format!("storage-engine.{kind}[{device}].{name}"), value);
        }
    }
    pairs.add("corrupted_records", store.corrupted);
    pairs.add("lost_blocks", store.losses.blocks);
    pairs.add("lost_bytes", store.losses.bytes);
    pairs.add("lost_records_max", store.losses.records);
    let migration = &counts.migration;
    pairs.add("migrate_tx_partitions_remaining", migration.tx_remaining);
    pairs.add("migrate_rx_partitions_remaining", migration.rx_remaining);
    pairs.add("migrate_records_transmitted", migration.transmitted);
    pairs.add("migrate_records_skipped", migration.skipped);
    pairs.add("migrate_record_receives", migration.received);
    transactions(&mut pairs, "client", &counts.client);
    transactions(&mut pairs, "batch_sub", &counts.batch_sub);
    transactions(&mut pairs, "from_proxy", &counts.from_proxy);
    pairs.add("fail_key_busy", counts.key_busy);
    pairs.add("fail_generation", counts.generation);
    pairs.add("fail_record_too_big", counts.record_too_big);
    // As in the real server, the settings follow the counters: clients and sizing look for them there.
    format!("{};{}", pairs.0, namespace(facts, index))
}

fn transactions(pairs: &mut Pairs, origin: &str, counts: &TransactionCounts) {
    pairs.add(&format!("{origin}_tsvc_error"), counts.refused);
    if origin != "from_proxy" {
        pairs.add(&format!("{origin}_proxy_complete"), counts.proxy.success);
        pairs.add(&format!("{origin}_proxy_error"), counts.proxy.error);
        pairs.add(&format!("{origin}_proxy_timeout"), counts.proxy.timeout);
    }
    for (kind, outcomes) in [
        ("read", counts.read),
        ("write", counts.write),
        ("delete", counts.delete),
    ] {
        let mut add = |name: &str, value: u64| pairs.add(&format!("{origin}_{kind}_{name}"), value);
        add("success", outcomes.success);
        add("error", outcomes.error);
        add("timeout", outcomes.timeout);
        if kind != "write" {
            add("not_found", outcomes.not_found);
        }
    }
}

/// `get-config:` for all contexts, or for one context.
fn get_config(parameters: &str, facts: &Facts) -> String {
    match parameter(parameters, "context") {
        None => [service(facts), network(facts)].join(";"),
        Some("service") => service(facts),
        Some("network") => network(facts),
        Some("security" | "xdr") => String::new(),
        // The name of the namespace is in `id` before version 8.1, and in `namespace` since.
        Some("namespace") => {
            match parameter(parameters, "id").or(parameter(parameters, "namespace")) {
                Some(name) => {
                    index_of(name, facts).map_or_else(no_namespace, |at| namespace(facts, at))
                }
                None => error(4, "bad id"),
            }
        }
        Some(_) => error(4, "bad context"),
    }
}

fn service(facts: &Facts) -> String {
    let config = &facts.config;
    let mut pairs = Pairs::default();
    pairs.add(
        "cluster-name",
        config.cluster_name.as_deref().unwrap_or("null"),
    );
    pairs.add("node-id", format!("{:X}", facts.node.id));
    if let Some(threads) = config.service_threads {
        pairs.add("service-threads", threads);
    }
    pairs.add("proto-fd-max", config.proto_fd_max);
    pairs.add("proto-fd-idle-ms", config.proto_fd_idle_ms);
    pairs.add("batch-max-requests", config.batch_max_requests);
    pairs.add("transaction-max-ms", config.transaction_max_ms);
    pairs.add("ticker-interval", config.ticker_interval_sec);
    pairs.add("microsecond-histograms", config.microsecond_histograms);
    pairs.add("log-millis", config.log_millis);
    pairs.0
}

fn network(facts: &Facts) -> String {
    let mut pairs = Pairs::default();
    facts
        .config
        .listen
        .addresses
        .iter()
        .for_each(|address| pairs.add("service.address", address));
    pairs.add("service.port", facts.config.listen.port);
    if let Some((address, port)) = facts.config.access {
        pairs.add("service.access-address", address);
        pairs.add("service.access-port", port);
    }
    for (host, port) in &facts.config.nodes {
        pairs.add("heartbeat.mesh-seed-address-port", format!("{host}:{port}"));
    }
    pairs.0
}

fn namespace(facts: &Facts, index: usize) -> String {
    let config = &facts.config.namespaces[index];
    let settings = &config.settings;
    let mut pairs = Pairs::default();
    pairs.add("replication-factor", config.replication_factor);
    pairs.add(
        "write-commit-level-override",
        if config.answers_before_replica {
            "master"
        } else {
            "off"
        },
    );
    pairs.add("migrate-sleep", config.migrate_sleep_us);
    pairs.add("indexes-memory-budget", settings.memory_bytes);
    pairs.add("default-ttl", settings.default_ttl_sec);
    pairs.add("nsup-period", settings.nsup_period_sec);
    pairs.add("single-bin", settings.single_bin);
    pairs.add("index-type", "mem");
    pairs.add("storage-engine", "device");
    for (device, path) in config.devices.iter().enumerate() {
        pairs.add(
            &format!("storage-engine.{}[{device}]", config.device_kind()),
            path,
        );
    }
    pairs.add("storage-engine.filesize", config.file_bytes.unwrap_or(0));
    pairs.add(
        "storage-engine.write-block-size",
        settings.write_block_bytes,
    );
    pairs.add("storage-engine.defrag-lwm-pct", settings.defrag_lwm_pct);
    pairs.add("storage-engine.defrag-sleep", settings.defrag_sleep_us);
    pairs.add("storage-engine.flush-max-ms", settings.flush_max_ms);
    pairs.add(
        "storage-engine.post-write-queue",
        settings.post_write_blocks,
    );
    pairs.add(
        "storage-engine.max-write-cache",
        settings.max_write_cache_bytes,
    );
    pairs.add("storage-engine.commit-to-device", settings.commit_to_device);
    pairs.add(
        "storage-engine.stop-writes-avail-pct",
        settings.min_avail_pct,
    );
    pairs.add(
        "storage-engine.enable-benchmarks-storage",
        config.benchmarks_storage,
    );
    pairs.0
}

#[cfg(test)]
mod tests;
