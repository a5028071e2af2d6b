//! Statistics, with the real server's names.

use super::{Facts, Pairs, cluster, configuration};
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
    pairs.add("cluster_key", cluster::key(facts));
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

pub(super) fn namespace(facts: &Facts, index: usize) -> String {
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
    format!("{};{}", pairs.0, configuration::namespace(facts, index))
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
