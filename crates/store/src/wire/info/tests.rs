//! Tests with requests of the clients and asadm.

use super::*;
use crate::conf::LogSink;
use crate::namespace::DeviceStatistics;
use crate::observe::tests::facts;
use crate::observe::{TransactionKind, TransactionSource};
use crate::server::ClusterNode;
use crate::{ResultCode, StoreStatistics};
use results::{assert_contains, assert_ends_with};

/// Requests as the clients and asadm sent them.
const REQUESTS: &str = include_str!("../../../tests/data/info-requests.txt");

fn reply(request: &[u8], facts: &Facts) -> String {
    let mut out = Vec::new();
    put(&mut out, request, facts);
    let (kind, body) = frame::take(&mut &out[..], 4 << 20).unwrap().unwrap();
    assert_eq!(kind, FrameKind::Info);
    String::from_utf8_lossy(body).into_owned()
}

#[test]
fn all_info_names_of_clients_and_asadm_are_answered_in_order() {
    let facts = facts();
    for request in REQUESTS.lines().map(|line| line.replace("\\n", "\n")) {
        let reply = reply(request.as_bytes(), &facts);
        let names: Vec<_> = reply
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .collect();
        let found = names.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(found, request.lines().collect::<Vec<_>>());
        for (name, value) in names {
            let is_refused = matches!(
                name,
                "feature-key" | "rack-ids" | "latencies:hist={test}-proxy"
            );
            assert_eq!(value.starts_with("ERROR"), is_refused, "{name} {value}");
        }
    }
}

#[test]
fn a_single_node_answers_info_requests_as_the_real_server_did() {
    let facts = facts();
    let names = format!("node\t32C901000000FC02\npartition-generation\t0\nbuild\t{BUILD}\n");
    assert_eq!(reply(b"node\npartition-generation\nbuild\n", &facts), names);
    let found = reply(b"peers-clear-std\n", &facts);
    assert_eq!(found, "peers-clear-std\t0,3000,[]\n");
    let all = format!("replicas\ttest:0,1,{}8=\n", "/".repeat(682));
    assert_eq!(reply(b"replicas", &facts), all);
    let found = reply(b"service\nservices\nlogs\n", &facts);
    assert_eq!(found, "service\t127.0.0.1:3000\nservices\t\nlogs\t\n");
    assert!(reply(b"", &facts).starts_with("node\t"));
    // Clients look for single-bin among the counters.
    assert!(reply(b"namespace/test\n", &facts).contains(";single-bin=false;"));
}

#[test]
fn the_clock_skew_is_shown_and_stops_the_writes_of_namespaces_with_expiration() {
    let mut facts = facts();
    for (skew_ms, nsup_period_sec, stops) in [
        (0, 120, false),
        (40_000, 120, false),
        (40_001, 120, true),
        (40_001, 0, false),
    ] {
        facts.node.clock_skew_ms = skew_ms;
        facts.config.namespaces[0].settings.nsup_period_sec = nsup_period_sec;
        assert!(
            reply(b"statistics\n", &facts).contains(&format!(";cluster_clock_skew_ms={skew_ms};"))
        );
        assert!(
            reply(b"namespace/test\n", &facts)
                .contains(&format!(";clock_skew_stop_writes={stops};"))
        );
    }
}

#[test]
fn errors_and_deletions_are_counted_under_the_real_server_s_names() {
    let mut facts = facts();
    let device = DeviceStatistics {
        read_errors: 3,
        write_errors: 4,
        ..DeviceStatistics::default()
    };
    let store = StoreStatistics {
        deleted_last_bin: 5,
        devices: vec![device; 2],
        ..StoreStatistics::default()
    };
    let mut counts = NamespaceCounts {
        store,
        ..NamespaceCounts::default()
    };
    counts.record(
        TransactionSource::Client,
        TransactionKind::Write,
        ResultCode::GENERATION,
        1,
    );
    facts.counts.namespaces = vec![counts];
    let reply = reply(b"namespace/test", &facts);
    let device = "storage-engine.device[1]";
    for pair in [
        format!("{device}.read_errors=3"),
        format!("{device}.write_errors=4"),
    ] {
        assert!(reply.contains(&format!(";{pair};")), "{reply}");
    }
    assert_contains!(reply, ";deleted_last_bin=5;", ";fail_generation=1;");
}

#[test]
fn info_requests_about_missing_indexes_and_udfs_are_answered_as_by_the_real_server() {
    let value = |name: &str| {
        reply(name.as_bytes(), &facts())
            .trim_end_matches('\n')
            .split_once('\t')
            .unwrap()
            .1
            .to_owned()
    };
    assert_eq!(value("sindex-delete:ns=test;indexname=i"), "OK");
    assert_eq!(value("sindex-exists:ns=test;indexname=i"), "false");
    assert_eq!(
        [
            value("sindex/test/i"),
            value("sindex-stat:ns=test;indexname=i")
        ],
        ["FAIL:201:NO INDEX"; 2]
    );
    assert_eq!(value("udf-remove:filename=f.lua"), "ok");
    assert_eq!(value("udf-get:filename=f.lua"), "error=not_found");
    assert_eq!(
        [value("sindex"), value("sindex/test"), value("udf-list")],
        [""; 3]
    );
}

#[test]
fn two_nodes_report_each_other_and_their_partitions() {
    let mut facts = facts();
    facts.config.namespaces[0].replication_factor = 2;
    facts.node.peers = vec![
        ClusterNode {
            id: 0xB9,
            host: "db2".to_owned(),
            port: 3_000,
        },
        ClusterNode {
            id: 0xC9,
            host: "fe80::1".to_owned(),
            port: 3_100,
        },
    ];
    facts.node.peers_generation = 4;
    let mut masters = [0; 512];
    masters[0] = 0x80;
    facts.node.partitions = vec![masters, [0xff; 512]];
    let value = reply(b"peers-clear-std\n", &facts);
    let peers = crate::nodes::peers(value.trim_end().split_once('\t').unwrap().1).unwrap();
    let hosts: Vec<_> = peers
        .iter()
        .map(|peer| (peer.node.as_str(), peer.hosts[0].to_string()))
        .collect();
    assert_eq!(
        hosts,
        [
            ("B9", "db2:3000".to_owned()),
            ("C9", "[fe80::1]:3100".to_owned())
        ]
    );
    let found = reply(b"services\n", &facts);
    assert_eq!(found, "services\tdb2:3000;[fe80::1]:3100\n");
    let first = format!("gA{}=", "A".repeat(681));
    assert_eq!(
        reply(b"replicas\n", &facts),
        format!("replicas\ttest:0,2,{first},{}8=\n", "/".repeat(682))
    );
    let found = reply(b"replicas-master\n", &facts);
    assert_eq!(found, format!("replicas-master\ttest:{first}\n"));
    assert!(reply(b"statistics\n", &facts).contains("cluster_size=3;"));
    // Both nodes compute the same key.
    let key = reply(b"cluster-stable:\n", &facts);
    std::mem::swap(&mut facts.node.id, &mut facts.node.peers[0].id);
    assert_eq!(reply(b"cluster-stable:\n", &facts), key);
}

#[test]
fn statistics_configuration_and_latencies_are_read_as_those_of_a_real_server() {
    let mut facts = facts();
    let counts = crate::observe::NamespaceCounts::default();
    facts.counts.namespaces = vec![counts];
    let store = &mut facts.counts.namespaces[0].store;
    store.objects = 7;
    store.devices.resize_with(2, Default::default);
    store.devices[1].writes = 11;
    store.devices[1].free_wblocks = 500;
    facts.latencies.push((
        "{test}-read".to_owned(),
        format!("usec,1404.2{}", ",12.50".repeat(17)),
    ));
    facts
        .latencies
        .push(("{test}-write".to_owned(), String::new()));
    let names = [
        &b"namespace/test\nget-config:context=namespace;id=test\nlatencies:\nbuild\nnode\n"[..],
        b"latencies:hist={test}-read",
    ];
    let file = format!("# 20261120T230225Z\n{}", reply(names[0], &facts));
    let mut read = sizing::info::InfoReplies::default();
    read.read("node.info", file.as_bytes()).unwrap();
    let namespace = &read.namespaces["test"];
    assert_eq!(
        namespace
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect::<Vec<_>>(),
        ["/dev/x", "/dev/y"]
    );
    let numbers = [
        "objects",
        "device[1].writes",
        "data_avail_pct",
        "defrag-lwm-pct",
        "post-write-queue",
    ];
    let found = numbers.map(|name| namespace.number(name));
    assert_eq!(found, [7, 11, 25, 50, 256].map(Some));
    assert_eq!(namespace.write_block_bytes(read.build), Some(128 << 10));
    assert_eq!(namespace.flag("enable-benchmarks-storage"), Some(true));
    let read = format!("{{test}}-read:usec,1404.2{}", ",12.50".repeat(17));
    let found = reply(names[1], &facts);
    assert_eq!(found, format!("latencies:hist={{test}}-read\t{read}\n"));
    let found = reply(b"latencies:\n", &facts);
    assert_eq!(found, format!("latencies:\t{read};{{test}}-write:\n"));
}

#[test]
fn file_devices_are_reported_as_files_and_each_log_has_a_number() {
    let mut facts = facts();
    facts.config.namespaces[0].file_bytes = Some(1 << 30);
    facts.config.logs = vec![LogSink {
        path: None,
        any: crate::conf::LogLevel::Info,
        drv_ssd: None,
    }];
    let config = reply(b"get-config:context=namespace;namespace=test", &facts);
    assert!(
        config.contains("storage-engine.file[1]=/dev/y;storage-engine.filesize=1073741824;"),
        "{config}"
    );
    let logs = "logs\t0:stderr\nlog/0\tinfo:INFO;drv_ssd:INFO\nlog/1\tERROR:4:bad log id\n";
    assert_eq!(reply(b"logs\nlog/0\nlog/1\n", &facts), logs);
}

#[test]
fn unknown_names_get_an_error_and_the_reply_is_limited() {
    let facts = facts();
    for name in [
        "no-such",
        "namespace/other",
        "get-config:context=nothing",
        "latencies:hist=x",
        "log/-1",
        "log/99999999999999999999",
    ] {
        let reply = reply(name.as_bytes(), &facts);
        assert!(reply.starts_with(&format!("{name}\tERROR:")), "{reply}");
    }
    let found = reply(b"\xff\xfe\n", &facts);
    assert_eq!(found, "\u{fffd}\u{fffd}\tERROR:4:unrecognized command\n");
    let reply = reply(&b"a\n".repeat(500_000), &facts);
    assert_ends_with!(
        reply,
        "a\tERROR:4:unrecognized command\n\tERROR:4:too many names in one request\n"
    );
    assert_eq!(reply.lines().count(), 257);
}
