//! Directives that this server only recognises: blocks, directives without effect, and directives of missing features.
//! Source: the real server's `cfg.c`, `log.c` and `fault.c`, versions 4.0 to 8.1. All names are sorted.

/// Valid blocks: the parent, and the block's name.
pub(super) const BLOCKS: [(&str, &str); 10] = [
    ("the file", "service"),
    ("the file", "logging"),
    ("the file", "network"),
    ("the file", "namespace"),
    ("logging", "file"),
    ("logging", "console"),
    ("network", "service"),
    ("network", "heartbeat"),
    ("namespace", "set"),
    ("namespace", "storage-engine"),
];

/// Directives of the real server that have no effect in this server, grouped by block: they tune features that only
/// clients can ask for, resources that this server does not have, eviction, or old versions that ignore them, too.
pub(super) const NO_EFFECT: [(&str, &str); 8] = [
    ("the file", "mod-lua"),
    (
        "service",
        "advertise-ipv6 allow-inline-transactions auto-dun auto-pin auto-undun batch-index-threads \
         batch-max-buffers-per-queue batch-max-unused-buffers batch-priority batch-retransmit batch-threads \
         batch-without-digests cgroup-mem-tracking clib-library debug-allocations defrag-queue-escape \
         defrag-queue-hwm defrag-queue-lwm defrag-queue-priority disable-udf-execution dump-message-above-size \
         enable-benchmarks-fabric enable-benchmarks-svc enable-health-check enable-hist-info enforce-best-practices \
         fabric-dump-msgs fabric-workers fb-health-bad-pct fb-health-good-pct fb-health-msg-per-burst \
         fb-health-msg-timeout feature-key-file generation-disable group hist-track-back hist-track-slice \
         hist-track-thresholds indent-allocations info-max-ms info-threads keep-caps-ssd-health log-local-time \
         max-msgs-per-type migrate-fill-delay migrate-max-num-incoming migrate-priority migrate-read-priority \
         migrate-read-sleep migrate-rx-lifetime-ms migrate-threads migrate-xmit-hwm migrate-xmit-lwm \
         migrate-xmit-priority migrate-xmit-sleep min-cluster-size node-id-interface nsup-auto-hwm nsup-auto-hwm-pct \
         nsup-delete-sleep nsup-max-deletes nsup-queue-escape nsup-queue-hwm nsup-queue-lwm nsup-reduce-priority \
         nsup-reduce-sleep nsup-startup-evict nsup-threads object-size-hist-period os-group-perms \
         paxos-max-cluster-size paxos-protocol paxos-recovery-policy paxos-retransmit-period \
         paxos-single-replica-limit pidfile poison-allocations prole-extra-ttl quarantine-allocations \
         query-batch-size query-bufpool-size query-in-transaction-thread query-long-q-max-size query-max-done \
         query-pre-reserve-partitions query-priority query-priority-sleep-us query-rec-count-bound \
         query-req-in-query-thread query-req-max-inflight query-short-q-max-size query-threads query-threads-limit \
         query-threshold query-untracked-time-ms query-worker-threads replication-fire-and-forget run-as-daemon \
         salt-allocations scan-max-active scan-max-done scan-max-udf-transactions scan-memory scan-priority \
         scan-retransmit scan-threads scan-threads-limit scheduler-priority scheduler-type secrets-address-port \
         secrets-tls-context secrets-uds-path sindex-builder-threads sindex-gc-max-rate sindex-gc-period \
         tls-refresh-period transaction-duplicate-threads transaction-pending-limit transaction-queues \
         transaction-retry-ms transaction-threads-per-queue trial-account-key udf-runtime-max-gmemory \
         udf-runtime-max-memory use-queue-per-device user vault-ca vault-namespace vault-path vault-token-file \
         vault-url work-directory write-duplicate-resolution-disable",
    ),
    ("network", "admin fabric info"),
    (
        "service of network",
        "alternate-access-address alternate-access-port alternate-address disable-localhost network-interface-name \
         reuse-address",
    ),
    (
        "heartbeat",
        "address connect-timeout-ms interface-address interval mcast-ttl mtu multicast-ttl port protocol timeout",
    ),
    (
        "namespace",
        "allow-ttl-without-nsup allow-versions allow-xdr-writes apply-ttl-reductions background-query-max-rps \
         background-scan-max-rps cold-start-evict-ttl conflict-resolution-policy convert-single-bin \
         demo-read-multiplier demo-write-multiplier disable-cold-start-eviction disable-mrt-writes \
         disable-write-dup-res enable-benchmarks-batch-sub enable-benchmarks-ops-sub enable-benchmarks-read \
         enable-benchmarks-udf enable-benchmarks-udf-sub enable-benchmarks-write enable-hist-proxy \
         evict-hist-buckets evict-indexes-memory-pct evict-sys-memory-pct evict-tenths-pct geo2dsphere-within \
         high-water-disk-pct high-water-memory-pct high-water-pct ignore-migrate-fill-delay index-stage-size \
         inline-short-queries low-water-pct max-record-size max-ttl migrate-order migrate-retransmit-ms mrt-duration \
         nsup-hist-period nsup-threads obj-size-hist-max partition-tree-locks partition-tree-sprigs \
         prefer-uniform-balance reject-xdr-writes sets-enable-xdr si sindex sindex-stage-size single-query-threads \
         single-scan-threads stop-writes-pct stop-writes-sys-memory-pct tomb-raider-eligible-age \
         tomb-raider-unmark-threads transaction-pending-limit truncate-threads xdr-bin-tombstone-ttl \
         xdr-tomb-raider-period xdr-tomb-raider-threads",
    ),
    (
        "set",
        "disable-eviction enable-index set-disable-eviction set-enable-xdr set-evict-hwm-count set-evict-hwm-pct \
         set-stop-write-pct",
    ),
    (
        "storage-engine",
        "cache-replica-writes compression-acceleration compression-level defrag-max-blocks defrag-period \
         defrag-queue-min defrag-startup-minimum direct-files enable-osync evict-used-pct fsync-max-sec \
         load-at-startup max-used-pct persist readonly scheduler-mode serialize-tomb-raider signature \
         sindex-startup-device-scan stop-writes-used-pct write-smoothing-period write-threads",
    ),
];

/// Missing features: the block, the feature, and the directives that ask for the feature.
pub(super) const MISSING: [(&str, &str, &str); 34] = [
    (
        "the file",
        "logins: anybody who can connect may read and write",
        "security",
    ),
    ("the file", "racks", "cluster"),
    ("the file", "replication to other clusters", "xdr"),
    (
        "service",
        "a period for all namespaces: give nsup-period in each namespace",
        "nsup-period",
    ),
    ("service", "quiesced nodes", "stay-quiesced"),
    (
        "service",
        "reads of all copies by configuration: set the read policy of the clients",
        "transaction-repeatable-read",
    ),
    (
        "service",
        "this setting for all namespaces: give write-commit-level-override master in each namespace",
        "respond-client-on-master-completion",
    ),
    (
        "logging",
        "logging to syslog: give console or file",
        "syslog",
    ),
    ("network", "TLS", "tls"),
    (
        "service of network",
        "TLS",
        "tls-access-address tls-access-port tls-address tls-alternate-access-address tls-alternate-access-port \
         tls-authenticate-client tls-name tls-port",
    ),
    (
        "heartbeat",
        "TLS",
        "tls-address tls-mesh-seed-address-port tls-name tls-port",
    ),
    ("heartbeat", "multicast: give mode mesh", "multicast-group"),
    ("namespace", "a check of deletions", "disallow-expunge"),
    ("namespace", "a check of set names", "disallow-null-setname"),
    (
        "namespace",
        "a switch for the writes of clients: remove the line",
        "allow-nonxdr-writes",
    ),
    (
        "namespace",
        "an index outside memory",
        "index-type sindex-type",
    ),
    (
        "namespace",
        "longer times to live after reads",
        "default-read-touch-ttl-pct",
    ),
    (
        "namespace",
        "migrations that skip unreadable records",
        "migrate-skip-unreadable",
    ),
    ("namespace", "racks", "active-rack rack-id"),
    (
        "namespace",
        "reads of all copies by configuration: set the read policy of the clients",
        "read-consistency-level-override",
    ),
    ("namespace", "records in memory", "data-in-index"),
    (
        "namespace",
        "replication to other clusters",
        "conflict-resolve-writes enable-xdr ns-forward-xdr-writes reject-non-xdr-writes xdr-remote-datacenter",
    ),
    (
        "namespace",
        "strong consistency",
        "auto-revive strong-consistency strong-consistency-allow-expunge",
    ),
    (
        "namespace",
        "this switch: give nsup-period 0",
        "disable-nsup",
    ),
    (
        "set",
        "limits of sets",
        "set-stop-write-count set-stop-writes-count stop-writes-count stop-writes-size",
    ),
    (
        "set",
        "times to live of sets",
        "default-read-touch-ttl-pct default-ttl",
    ),
    (
        "storage-engine",
        "a minimum size of commits",
        "commit-min-size",
    ),
    ("storage-engine", "compression", "compression"),
    (
        "storage-engine",
        "encryption",
        "encryption encryption-key-file encryption-old-key-file",
    ),
    (
        "storage-engine",
        "reads and writes through the page cache",
        "disable-odirect",
    ),
    (
        "storage-engine",
        "reads through the page cache",
        "read-page-cache",
    ),
    (
        "storage-engine",
        "records in memory",
        "data-in-memory memory-all",
    ),
    (
        "storage-engine",
        "starts that ignore the records on a device",
        "cold-start-empty",
    ),
    (
        "storage-engine",
        "unsynced writes (without O_DSYNC)",
        "disable-odsync",
    ),
];

/// Values that switch a missing feature off, or choose what this server does. Such directives are accepted.
pub(super) const OFF: [&str; 6] = ["0", "false", "no", "none", "off", "shmem"];

/// Log contexts of the real server, except `any` and `drv_ssd`.
pub(super) const CONTEXTS: &str = "aggr alloc appeal arenax as audit batch batch-sub bin clustering compression config \
     demarshal deprecation drv-mem drv_pmem exchange exp fabric flat geo hardware hb health hlc index info info-command \
     info-port job key-busy ldt masking migrate misc mon mrt-audit mrt-monitor msg namespace nsup os particle partition \
     paxos predexp proto proxy proxy-divert query rbuffer record roster rw rw-client scan secrets security service \
     service-list sindex skew smd socket storage tls truncate tsvc udf vault vmapx xdr xdr-client xdr-http xmem";

/// True if the list `names` contains `name`.
pub(super) fn lists(names: &str, name: &str) -> bool {
    names.split(' ').any(|listed| listed == name)
}
