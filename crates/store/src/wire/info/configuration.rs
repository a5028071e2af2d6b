//! The configuration in force.

use super::{Facts, Pairs, error, index_of, joined, parameter};

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
