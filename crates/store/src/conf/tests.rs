//! Tests with whole configuration files.

use super::*;
use results::assert_ends_with;

fn problems(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

fn minimal(storage: &str) -> String {
    format!("namespace test {{\nstorage-engine device {{\n{storage}\n}}\n}}\n")
}

#[test]
fn the_example_configuration_has_the_expected_settings() {
    let parsed = parse(include_bytes!("../../../../examples/serve.conf")).unwrap();
    let AerospikeConf {
        namespaces,
        listen,
        logs,
        ..
    } = &parsed.config;
    assert_eq!(parsed.notes, []);
    assert!(listen.addresses[0].is_loopback());
    assert_eq!(listen.port, 3_000);
    assert_eq!(
        logs,
        &[LogSink {
            path: None,
            any: LogLevel::Info,
            drv_ssd: Some(LogLevel::Detail)
        }]
    );
    let [namespace] = &namespaces[..] else {
        panic!("{namespaces:?}")
    };
    let expected = NamespaceSettings {
        memory_bytes: 1 << 30,
        nsup_period_sec: 0,
        ..NamespaceSettings::new("test")
    };
    assert_eq!(&namespace.settings, &expected);
    assert_eq!(namespace.replication_factor, 1);
    assert_eq!(namespace.devices, ["/tmp/flashproof.dat"]);
    assert_eq!(namespace.file_bytes, Some(4 << 30));
}

#[test]
fn directives_of_the_real_server_without_effect_get_a_note() {
    let text = include_str!("../../tests/data/two-namespaces.conf");
    let ParsedConfig { config, notes } = parse(text.as_bytes()).unwrap();
    let said: Vec<_> = notes.iter().map(ToString::to_string).collect();
    let expected = [
        (3, "user"),
        (13, "interval"),
        (18, "fabric"),
        (35, "compression"),
    ];
    let expected =
        expected.map(|(line, name)| format!("line {line}: {name} has no effect in this server"));
    let node_id = "node-id has no effect beside mesh-seed-address-port lines: the id of each node follows from its host and port";
    assert_eq!(said, [&expected[..], &[node_id.to_owned()]].concat());
    assert_eq!(config.cluster_name.as_deref(), Some("pair"));
    assert_eq!(config.node_id, Some(0xA1));
    assert_eq!(config.service_threads, Some(2));
    assert_eq!(config.proto_fd_max, 10_000);
    assert_eq!(config.ticker_interval_sec, 60);
    assert!(config.log_millis);
    let addresses = ["0.0.0.0", "::1"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    assert_eq!(
        config.listen,
        Listen {
            addresses,
            port: 3_100
        }
    );
    assert_eq!(config.access, Some(("10.0.0.1".parse().unwrap(), 3_100)));
    assert_eq!(
        config.nodes,
        [([10, 0, 0, 1].into(), 3_100), ([10, 0, 0, 2].into(), 3_003)]
    );
    assert_eq!(config.own_node(), Some(0));
    let [test, other] = &config.namespaces[..] else {
        panic!()
    };
    assert_eq!(test.replication_factor, 2);
    assert!(test.answers_before_replica);
    assert_eq!(test.devices, ["/dev/a", "/dev/b"]);
    let settings = NamespaceSettings {
        write_block_bytes: 1 << 20,
        defrag_lwm_pct: 40,
        post_write_blocks: 64,
        commit_to_device: true,
        default_ttl_sec: 2_592_000,
        max_write_cache_bytes: 128 << 20,
        min_avail_pct: 7,
        ..NamespaceSettings::new("test")
    };
    assert_eq!((&test.settings, test.benchmarks_storage), (&settings, true));
    let NamespaceSettings {
        single_bin,
        memory_bytes,
        ..
    } = other.settings;
    assert!(single_bin);
    assert_eq!(memory_bytes, 2 << 30);
    assert_eq!(other.file_bytes, Some(1 << 30));
}

#[test]
fn lists_of_directives_are_sorted_and_name_each_directive_once() {
    use directives::{MISSING, NO_EFFECT};
    let lists = NO_EFFECT.iter().map(|(of, names)| (of, names));
    let lists = lists.chain(MISSING.iter().map(|(of, _, names)| (of, names)));
    let mut known = std::collections::HashSet::new();
    for (of, names) in lists {
        let names: Vec<_> = names.split(' ').collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.iter().all(|name| known.insert((of, *name))), "{of}");
    }
}

#[test]
fn spellings_and_directives_of_old_and_new_servers_are_accepted_with_notes() {
    let text = "\u{feff}service {\n paxos-single-replica-limit 1\n transaction-queues 4\n client-fd-max 1K\n}\n\
                logging {\n console {\n context any INFO\n context hb debug\n}\n}\n\
                network {\n service {\n access-address 10.0.0.1\n access-address 10.0.0.2\n}\n\
                heartbeat {\n mode mesh\n address 10.0.0.1\n address 10.0.0.2\n}\n}\n\
                namespace test {\n stop-writes-pct 90\n index-type shmem\n strong-consistency FALSE\n\
                set users {\n disable-eviction true\n}\n set sessions {\n}\n\
                storage-engine device {\n device /dev/a\n flush-size 1m\n commit-to-device TRUE\n defrag-sleep 2K\n}\n}\n\
                mod-lua {\n user-path /opt\n}\n";
    let ParsedConfig { config, notes } = parse(text.as_bytes()).unwrap();
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    let expected = [
        "line 2: paxos-single-replica-limit has no effect in this server",
        "line 3: transaction-queues has no effect in this server",
        "line 9: context hb has no effect in this server",
        "line 15: access-address has no effect: clients get only the first one",
        "line 19: address has no effect in this server",
        "line 20: address has no effect in this server",
        "line 24: stop-writes-pct has no effect in this server",
        "line 25: index-type has no effect in this server",
        "line 26: strong-consistency has no effect in this server",
        "line 28: disable-eviction has no effect in this server",
        "line 34: flush-size is read as write-block-size: this server writes each block at once",
        "line 39: mod-lua has no effect in this server",
    ];
    assert_eq!(notes, expected);
    assert_eq!(config.proto_fd_max, 1_024);
    assert_eq!(config.logs[0].any, LogLevel::Info);
    assert_eq!(config.access, Some(([10, 0, 0, 1].into(), 3_000)));
    let settings = NamespaceSettings {
        write_block_bytes: 1 << 20,
        commit_to_device: true,
        defrag_sleep_us: 2_048,
        ..NamespaceSettings::new("test")
    };
    assert_eq!(config.namespaces[0].settings, settings);
}

#[test]
fn a_node_needs_a_line_of_its_own_among_at_most_two() {
    let of = |service: &str, nodes: &str| {
        let network =
            format!("network {{\nservice {{\n{service}\n}}\nheartbeat {{\n{nodes}\n}}\n}}\n");
        problems(&(network + &minimal("device a")))
    };
    let node = |node: &str| format!("mesh-seed-address-port {node}\n");
    let pair = node("10.0.0.1 3000") + &node("10.0.0.2 3000");
    let own = "line 6: no mesh-seed-address-port line has 127.0.0.1 3000, where clients reach this node - give on \
               both nodes the address and the service port of each node; a single node needs no line";
    assert_eq!(of("port 3000", &pair), own);
    let any = "line 6: address any does not tell which mesh-seed-address-port line stands for this node - give a \
               single address, or add access-address";
    assert_eq!(of("address any", &pair), any);
    let three = node("127.0.0.1 3000") + &pair;
    assert_eq!(
        of("port 3000", &three),
        "line 8: too many nodes - give at most 2 mesh-seed-address-port lines, one for each node"
    );
    let twice = node("127.0.0.1 3000").repeat(2);
    assert_eq!(
        of("port 3000", &twice),
        "line 7: this node was already given"
    );
    assert_eq!(
        of("port 3000", &node("db1 3000")),
        "line 6: mesh-seed-address-port: expected the IP address and the service port of a node, found \"db1 3000\""
    );
}

#[test]
fn all_errors_are_reported_at_once_each_with_its_line() {
    let text = "service {\n  proto-fd-max many\n  proto-fd-max 5\n  colour red\n}\n\
                security {\n}\n\
                namespace test {\n  storage-engine memory {\n  }\n}\n";
    let expected = "line 2: proto-fd-max: expected a whole number, found \"many\"\n\
                    line 3: proto-fd-max was already given in line 2\n\
                    line 4: unknown directive \"colour\" in service\n\
                    line 6: security: this server does not have logins: anybody who can connect may read and write\n\
                    line 9: storage-engine \"memory\": this server supports only device";
    assert_eq!(problems(text), expected);
}

#[test]
fn contradictions_and_values_out_of_range_are_errors() {
    let of = |storage: &str| problems(&minimal(storage));
    assert_eq!(
        of(""),
        "line 2: give device PATH, or file PATH and filesize"
    );
    assert_eq!(of("file a"), "line 2: a file needs filesize");
    assert_eq!(
        of("device a\nfile b\nfilesize 1G"),
        "line 2: give devices or files, not both"
    );
    let full_size = "line 2: filesize applies only to files - a device is used with its full size";
    assert_eq!(of("device a\nfilesize 1G"), full_size);
    assert_eq!(of("device a\ndevice a"), "line 4: \"a\" was already given");
    assert_eq!(
        of("device a b"),
        "line 3: this server does not have shadow devices - remove the second path"
    );
    assert_eq!(
        of("device a\nwrite-block-size 100K"),
        "line 4: write-block-size: 102400 is not a power of two"
    );
    assert_eq!(
        of("device a\nwrite-block-size 16M"),
        "line 4: write-block-size: 16M is out of range: 32768 to 8388608"
    );
    let no_cache =
        "line 4: read-page-cache: this server does not have reads through the page cache";
    assert_eq!(of("device a\nread-page-cache true"), no_cache);
    assert!(
        parse(minimal("device a\nread-page-cache false").as_bytes())
            .is_ok_and(|parsed| parsed.notes.len() == 1)
    );
    assert_eq!(
        problems("namespace a b {\n}\n"),
        "line 1: namespace: expected one value, found 2"
    );
    let invalid =
        "line 1: namespace: \"a;b\" is not a valid name - give at most 31 letters, digits and _-.$";
    assert_eq!(problems("namespace a;b {\n}\n"), invalid);
    let twice = minimal("device a").repeat(2);
    assert_eq!(
        problems(&twice),
        "line 6: namespace \"test\" was already given"
    );
    let shared = minimal("device a") + &minimal("device a").replace("test", "other");
    assert_eq!(problems(&shared), "line 8: \"a\" was already given");
    assert_eq!(
        problems(""),
        "the configuration has no namespace - add a namespace block, with a storage-engine device block that names a device"
    );
    let no_block = "line 1: namespace needs a block - give namespace {, and } on a separate line";
    assert_eq!(problems("namespace test"), no_block);
    let no_engine = "line 1: namespace \"test\" has no storage-engine - give storage-engine device { with a device";
    assert_eq!(problems("namespace test {\n}"), no_engine);
}

#[test]
fn hostile_files_are_refused_in_one_harmless_line() {
    let unknown = r#"line 2: unknown directive "\u001b[2J\u0007" in service"#;
    assert_eq!(
        problems("service {\n\u{1b}[2J\u{7} 1\n}\n")
            .lines()
            .next()
            .unwrap(),
        unknown
    );
    assert_eq!(
        problems("\u{1b}\n\u{1b}\n").lines().nth(1).unwrap(),
        r#"line 2: unknown directive "\u001b" in the file"#
    );
    let found = parse(b"a\n\xff").unwrap_err().to_string();
    assert_eq!(found, "line 2: invalid UTF-8");
    let long = vec![b'a'; (1 << 20) + 1];
    assert_ends_with!(
        parse(&long).unwrap_err(),
        "bytes - at most 1048576 bytes are read"
    );
}
