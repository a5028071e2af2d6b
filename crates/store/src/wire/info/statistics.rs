//! Statistics and the configuration in force, with the real server's names.

use super::{Facts, Pairs, error, index_of, joined, key, parameter};
use crate::observe::{NamespaceCounts, Transactions};

/// Seconds from 1970 to 2010, where the server's time begins.
const EPOCH_SEC: u64 = 1_262_304_000;

pub(super) fn server(facts: &Facts) -> String {
    let counts = &facts.counts;
    let mut pairs = Pairs::new();
    let objects: u64 = counts.namespaces.iter().map(|namespace| namespace.store.objects).sum();
    let tombstones: u64 = counts.namespaces.iter().map(|namespace| namespace.store.tombstones).sum();
    let principal = facts.node.peers.iter().map(|peer| peer.id).chain([facts.node.id]).max().unwrap_or(0);
    pairs.add("cluster_size", facts.node.peers.len() + 1);
    pairs.add("cluster_key", key(facts));
    pairs.add("cluster_principal", format!("{principal:X}"));
    pairs.add("cluster_integrity", true);
    pairs.add("cluster_is_member", true);
    pairs.add("cluster_clock_skew_ms", 0);
    pairs.add("uptime", facts.uptime_sec);
    pairs.add("objects", objects);
    pairs.add("tombstones", tombstones);
    pairs.add("rw_in_progress", counts.in_progress);
    pairs.add("client_connections", counts.connections_opened.saturating_sub(counts.connections_closed));
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

pub(super) fn namespace_statistics(facts: &Facts, index: usize) -> String {
    let default = NamespaceCounts::default();
    let counts = facts.counts.namespaces.get(index).unwrap_or(&default);
    let config = &facts.config.namespaces[index];
    let store = &counts.store;
    let [masters, replicas, others] = facts.split_objects(index);
    let mut pairs = Pairs::new();
    let nodes = facts.node.peers.len() + 1;
    pairs.add("ns_cluster_size", nodes);
    pairs.add("effective_replication_factor", nodes.min(config.replication_factor.into()));
    pairs.add("objects", store.objects);
    pairs.add("tombstones", store.tombstones);
    pairs.add("master_objects", masters);
    pairs.add("master_tombstones", store.tombstones);
    pairs.add("prole_objects", replicas);
    pairs.add("prole_tombstones", 0);
    pairs.add("non_replica_objects", others);
    pairs.add("non_replica_tombstones", 0);
    pairs.add("dead_partitions", 0);
    pairs.add("unavailable_partitions", if config.replication_factor > 1 { facts.node.unavailable } else { 0 });
    pairs.add("clock_skew_stop_writes", false);
    pairs.add("stop_writes", store.stop_writes);
    pairs.add("hwm_breached", store.hwm_breached);
    pairs.add("current_time", (facts.wall_ms / 1_000).saturating_sub(EPOCH_SEC));
    pairs.add("expired_objects", store.expired);
    pairs.add("evicted_objects", 0);
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
    for (device, of) in store.devices.iter().enumerate() {
        let kind = config.device_kind();
        let mut add = |name: &str, value: u64| pairs.add(&format!("storage-engine.{kind}[{device}].{name}"), value);
        add("used_bytes", of.used_bytes);
        add("free_wblocks", of.free_wblocks);
        add("write_q", of.write_q);
        add("writes", of.writes);
        add("defrag_q", of.defrag_q);
        add("defrag_reads", of.defrag_reads);
        add("defrag_writes", of.defrag_writes);
        add("read_errors", of.errors);
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
    pairs.add("fail_record_too_big", counts.record_too_big);
    // As the real server: clients and sizing find the settings behind the counters.
    format!("{};{}", pairs.0, namespace(facts, index))
}

fn transactions(pairs: &mut Pairs, origin: &str, of: &Transactions) {
    pairs.add(&format!("{origin}_tsvc_error"), of.refused);
    if origin != "from_proxy" {
        pairs.add(&format!("{origin}_proxy_complete"), of.proxy.success);
        pairs.add(&format!("{origin}_proxy_error"), of.proxy.error);
        pairs.add(&format!("{origin}_proxy_timeout"), of.proxy.timeout);
    }
    for (kind, outcomes) in [("read", of.read), ("write", of.write), ("delete", of.delete)] {
        let mut add = |name: &str, value: u64| pairs.add(&format!("{origin}_{kind}_{name}"), value);
        add("success", outcomes.success);
        add("error", outcomes.error);
        add("timeout", outcomes.timeout);
        if kind != "write" {
            add("not_found", outcomes.not_found);
        }
    }
}

/// `get-config:`, of all or of a context.
pub(super) fn answer(parameters: &str, facts: &Facts) -> String {
    match parameter(parameters, "context") {
        None => [service(facts), network(facts)].join(";"),
        Some("service") => service(facts),
        Some("network") => network(facts),
        Some("security" | "xdr") => String::new(),
        // The word was another before 8.1.
        Some("namespace") => match parameter(parameters, "id").or(parameter(parameters, "namespace")) {
            Some(name) => {
                index_of(name, facts).map_or_else(|| error(20, "namespace not found"), |at| namespace(facts, at))
            }
            None => error(4, "bad id"),
        },
        Some(_) => error(4, "bad context"),
    }
}

fn service(facts: &Facts) -> String {
    let config = &facts.config;
    let mut pairs = Pairs::new();
    pairs.add("cluster-name", config.cluster_name.as_deref().unwrap_or("null"));
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
    let mut pairs = Pairs::new();
    facts.config.listen.addresses.iter().for_each(|address| pairs.add("service.address", address));
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

pub(super) fn namespace(facts: &Facts, index: usize) -> String {
    let config = &facts.config.namespaces[index];
    let settings = &config.settings;
    let mut pairs = Pairs::new();
    pairs.add("replication-factor", config.replication_factor);
    pairs.add("write-commit-level-override", if config.answers_before_replica { "master" } else { "off" });
    pairs.add("migrate-sleep", config.migrate_sleep_us);
    pairs.add("indexes-memory-budget", settings.memory_bytes);
    pairs.add("default-ttl", settings.default_ttl_sec);
    pairs.add("nsup-period", settings.nsup_period_sec);
    pairs.add("single-bin", settings.single_bin);
    pairs.add("index-type", "mem");
    pairs.add("storage-engine", "device");
    for (device, path) in config.devices.iter().enumerate() {
        pairs.add(&format!("storage-engine.{}[{device}]", config.device_kind()), path);
    }
    pairs.add("storage-engine.filesize", config.file_bytes.unwrap_or(0));
    pairs.add("storage-engine.write-block-size", settings.write_block_bytes);
    pairs.add("storage-engine.defrag-lwm-pct", settings.defrag_lwm_pct);
    pairs.add("storage-engine.defrag-sleep", settings.defrag_sleep_us);
    pairs.add("storage-engine.flush-max-ms", settings.flush_max_ms);
    pairs.add("storage-engine.post-write-queue", settings.post_write_blocks);
    pairs.add("storage-engine.max-write-cache", settings.max_write_cache_bytes);
    pairs.add("storage-engine.commit-to-device", settings.commit_to_device);
    pairs.add("storage-engine.stop-writes-avail-pct", settings.min_avail_pct);
    pairs.add("storage-engine.enable-benchmarks-storage", config.benchmarks_storage);
    pairs.0
}

/// Such as `0:path;1:stderr`.
pub(super) fn logs(facts: &Facts) -> String {
    let path = |path: &Option<String>| path.clone().unwrap_or_else(|| "stderr".to_owned());
    joined(facts.config.logs.iter().enumerate().map(|(index, log)| format!("{index}:{}", path(&log.path))))
}

/// Levels of a log: `any:INFO;drv_ssd:DETAIL`.
pub(super) fn log(index: &str, facts: &Facts) -> String {
    let Some(log) = index.parse().ok().and_then(|index: usize| facts.config.logs.get(index)) else {
        return error(4, "bad log id");
    };
    format!("info:{};drv_ssd:{}", log.any.word(), log.drv_ssd.unwrap_or(log.any).word())
}
