//! Directives of the real server's configuration, those without effect here, and those that need a missing feature.

/// Blocks, and their parents.
pub(super) const BLOCKS: [(&str, &str); 9] = [
    ("the file", "service"),
    ("the file", "logging"),
    ("the file", "network"),
    ("the file", "namespace"),
    ("logging", "file"),
    ("logging", "console"),
    ("network", "service"),
    ("network", "heartbeat"),
    ("namespace", "storage-engine"),
];

/// Directives of the real server that change nothing here, by their block.
pub(super) const NO_EFFECT: [(&str, &str); 6] = [
    (
        "service",
        "user group pidfile work-directory run-as-daemon info-threads batch-index-threads migrate-threads \
         query-threads-limit transaction-retry-ms advertise-ipv6 auto-pin node-id-interface min-cluster-size \
         enforce-best-practices enable-health-check",
    ),
    ("network", "fabric info admin"),
    ("service of network", "reuse-address alternate-access-address alternate-access-port"),
    ("heartbeat", "address port interval timeout protocol"),
    (
        "namespace",
        "enable-benchmarks-read enable-benchmarks-write enable-benchmarks-batch-sub enable-benchmarks-ops-sub \
         enable-hist-proxy high-water-disk-pct high-water-memory-pct evict-tenths-pct partition-tree-sprigs \
         index-stage-size nsup-threads conflict-resolution-policy transaction-pending-limit",
    ),
    (
        "storage-engine",
        "direct-files defrag-queue-min defrag-startup-minimum stop-writes-used-pct evict-used-pct \
         cache-replica-writes scheduler-mode",
    ),
];

/// Blocks and directives of features that are not there.
pub(super) const MISSING: [(&str, &str); 24] = [
    ("security", "logins: anybody who can connect may read and write"),
    ("xdr", "replication to other clusters"),
    ("mod-lua", "user-defined functions"),
    ("tls", "TLS"),
    ("tls-address", "TLS"),
    ("tls-port", "TLS"),
    ("tls-name", "TLS"),
    ("syslog", "logging to syslog: give console or file"),
    ("multicast-group", "multicast: give mode mesh"),
    ("index-type", "an index outside memory"),
    ("sindex-type", "secondary indexes"),
    ("sindex", "secondary indexes"),
    ("set", "settings of sets"),
    ("strong-consistency", "strong consistency"),
    ("rack-id", "racks"),
    ("data-in-memory", "records in memory"),
    ("compression", "compression"),
    ("encryption", "encryption"),
    ("encryption-key-file", "encryption"),
    ("read-page-cache", "reads through the page cache"),
    ("disable-odsync", "writes that are not synchronous"),
    ("disable-odirect", "reads and writes through the page cache"),
    ("cold-start-empty", "starting empty on a device with records"),
    ("feature-key-file", "features of the Enterprise Edition"),
];

/// Values with which a feature that is not there is not wanted either.
pub(super) const OFF: [&str; 4] = ["false", "no", "none", "0"];
