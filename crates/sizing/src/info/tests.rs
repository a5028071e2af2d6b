//! Replies of real servers, and files without replies.

use super::*;
use results::act_log::Input;
use results::assert_contains;
use std::io::repeat;
use std::time::Duration;

const OF_4_9: &[u8] = include_bytes!("../../tests/data/info/ce-4.9.0.37.info.gz");
const OF_8_0: &[u8] = include_bytes!("../../tests/data/info/ce-8.0.0.15.info.gz");

fn read(bytes: &[u8]) -> InfoReplies {
    let mut replies = InfoReplies::default();
    replies.read("a", Input::new(bytes).unwrap()).unwrap();
    replies
}

#[test]
fn replies_of_a_server_4_9_give_the_values_of_a_profile() {
    let replies = read(OF_4_9);
    assert_eq!(replies.node_id.as_deref(), Some("32C901000000FC02"));
    assert_eq!(replies.build, Build::parse("4.9.0.37"));
    let test = &replies.namespaces["test"];
    assert_eq!(
        test.devices,
        [StorageDevice {
            name: "/dev/loop2".to_owned(),
            shadow: None
        }]
    );
    assert_eq!(test.write_block_bytes(replies.build), Some(131_072));
    assert_eq!(test.flush_bytes(replies.build), Some(131_072));
    assert_eq!(test.commit_to_device(), Some(false));
    assert_eq!(test.replication_factor(), Some(1));
    assert_eq!(test.number("defrag-lwm-pct"), Some(50));
    assert_eq!(test.flag("enable-benchmarks-storage"), Some(true));
    assert!(
        test.number("objects") > Some(202_810),
        "the newest of four samples"
    );
}

#[test]
fn replies_of_a_server_8_0_give_the_values_under_other_names() {
    let replies = read(OF_8_0);
    let test = &replies.namespaces["test"];
    assert_eq!(test.write_block_bytes(replies.build), Some(8 << 20));
    assert_eq!(test.flush_bytes(replies.build), Some(131_072));
    assert!(
        test.number("device[0].writes") > Some(108),
        "the newest of four samples"
    );
}

#[test]
fn files_of_info_replies_without_a_node_in_their_names_are_one_node() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    Input::new(OF_8_0)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let (once, timed) = text.split_at(text.find("# 2026").unwrap());
    // Files are read in the order of their names: the newer replies come first.
    let half = timed[2..].find("# 2026").unwrap() + 2;
    for (name, part) in [
        ("once.txt", once),
        ("b-first.txt", &timed[..half]),
        ("a-then.txt", &timed[half..]),
    ] {
        fs::write(dir.path().join(name), part).unwrap();
    }
    fs::write(dir.path().join("notes.md"), "node\tX\n").unwrap();
    let [together] = &read_folder(dir.path()).unwrap()[..] else {
        panic!("one node")
    };
    let alone = read(text.as_bytes());
    assert_eq!(
        together.namespaces["test"].devices,
        alone.namespaces["test"].devices
    );
    assert_eq!(&together.node_id, &alone.node_id);
    assert_eq!(together.build, alone.build);
    // If there is a NODE.info, only that file is read.
    fs::write(
        dir.path().join("BB9.info"),
        "# host [::1]:3000\n# node bb9\n",
    )
    .unwrap();
    let nodes = read_folder(dir.path()).unwrap();
    let found = nodes.iter().map(InfoReplies::name).collect::<Vec<_>>();
    assert_eq!(found, ["BB9"]);
    assert_eq!(nodes[0].host.as_deref(), Some("[::1]:3000"));
    fs::remove_file(dir.path().join("BB9.info")).unwrap();
    for name in ["once.txt", "b-first.txt", "a-then.txt"] {
        fs::write(dir.path().join(name), "any text\n").unwrap();
    }
    assert_eq!(read_folder(dir.path()).unwrap(), []);
}

#[test]
fn a_file_of_info_replies_is_read_as_it_was_written() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_679_745_125);
    let replies = [("node", "BB9"), ("namespace/a", "objects=3")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let text = header_text("flashproof 1", "db1:3000", "BB9", Build::parse("8.1.2.0"))
        + &sample_text(at, &replies);
    let read = read(text.as_bytes());
    assert_eq!(read.name(), "BB9");
    assert_eq!(read.host.as_deref(), Some("db1:3000"));
    assert_eq!(read.build, Build::parse("8.1.2.0"));
    assert_contains!(text, "# 20251120T230225.125Z\nnode\tBB9\n");
    assert_eq!(read.namespaces["a"].number("objects"), Some(3));
}

#[test]
fn replies_pasted_from_a_terminal_are_read_like_a_file_of_replies() {
    let reply = "objects=3;replication-factor=1;storage-engine=device;storage-engine.device[0]=/dev/a;\
                 storage-engine.device[1]=/dev/b;storage-engine.flush-size=131072";
    let lines = reply.replace(';', "\n");
    let table = |title: &str, columns: usize| {
        let rows = lines.split('\n').map(|line| {
            let (name, value) = line.split_once('=').unwrap();
            format!("{name:30}{}", format!("|{value:10}").repeat(columns))
        });
        let rows = Vec::from_iter(rows).join("\n");
        format!(
            "Seed:        [('127.0.0.1', 13000, None)]\n~~~{title} (2026-11-20 23:06:29 UTC)~~~\n\
             Node |{}\n{rows}\nNumber of rows: 6\n\n~~~Service Configuration~~~\nobjects |9\n",
            "a|".repeat(columns)
        )
    };
    let older = |table: String| {
        let rows = table.lines();
        let rows = rows.map(|row| row.replacen('|', ":   ", 1).replace('|', "    "));
        Vec::from_iter(rows).join("\n")
    };
    let (names, values): (Vec<_>, Vec<_>) = pairs(reply).unzip();
    let names = names.join("|");
    let values = values.join("| ");
    for (namespace, text) in [
        ("test", older(table("test Namespace Configuration", 1))),
        ("test", older(table("test Namespace Configuration", 3))),
        (
            "test",
            format!(
                "~~test Namespace Configuration~~\nNode|{names}\na:3000|{values}\nb:3000|{values}\n"
            ),
        ),
        (
            "test",
            format!("get-config:context=namespace;id=test    {reply}\n"),
        ),
        ("test", format!("'namespace/test'\t{reply}\n")),
        (
            "test",
            format!("$ asinfo -v 'namespace/test'\n{reply}\n$ asinfo -v statistics\nobjects=9\n"),
        ),
        (
            "test",
            format!("[root@db1 ~]# asinfo -v namespace/test -l\n{lines}\n[root@db1 ~]#\n"),
        ),
        (
            "test",
            format!("requested value  namespace/test\nvalue is  x=1;{reply}\n"),
        ),
        (
            "test",
            format!(
                "Admin> asinfo -v 'namespace/test'\n127.0.0.1:3000 (127.0.0.1) returned:\n{reply}\n"
            ),
        ),
        ("test", table("test Namespace Configuration", 1)),
        ("test", table("test Namespace Statistics", 2)),
        (
            "test",
            table("test Namespace Statistics", 2).replace(
                "storage-engine.device[1]",
                "x |1 |2\nstorage-engine.device[1]",
            ),
        ),
        (
            "",
            format!("127.0.0.1:3000 (127.0.0.1) returned:\n{reply}\n\n"),
        ),
        ("", format!("{reply}\n{reply}")),
        ("", lines.clone()),
    ] {
        let replies = read(text.as_bytes());
        let names = Vec::from_iter(replies.namespaces.keys());
        assert_eq!(names, [namespace], "{text}");
        let found = &replies.namespaces[namespace];
        let devices = found.devices.iter().map(|device| device.name.as_str());
        assert_eq!(Vec::from_iter(devices), ["/dev/a", "/dev/b"], "{text}");
        assert_eq!(found.flush_bytes(None), Some(131_072), "{text}");
        assert_eq!(found.replication_factor(), Some(1), "{text}");
        assert_eq!(found.number("objects"), Some(3), "{text}");
    }
    let of_node = read(b"$ asinfo -v node\nbb9\n$ asinfo -v build\n6.4.0.1\n$\n");
    assert_eq!(of_node.node_id.as_deref(), Some("BB9"));
    assert_eq!(of_node.build, Build::parse("6.4.0.1"));
    for text in [
        "a=1\nb=2;c=3\n",
        "asinfo -v\n|\n~\n~~ Namespace \n=\n",
        "namespace/\n-v -v\n",
    ] {
        assert_eq!(read(text.as_bytes()).namespaces.len(), 0, "{text}");
    }
}

#[test]
fn compressed_files_are_read_and_other_formats_are_refused_with_what_to_give() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.info.zst"), OF_8_0).unwrap();
    let nodes = read_folder(dir.path()).unwrap();
    assert_eq!(nodes[0].node_id.as_deref(), Some("32C901000000FC02"));
    let json = "this is JSON, as asadm --json and collectinfo write it";
    for (start, advice) in [
        (&b"\xfd7zXZ\0\0"[..], "use xz -dc FILE | cat > NEW.info"),
        (
            b"\xff\xfen\0",
            "use iconv -f UTF-16 -t UTF-8 FILE | cat > NEW.info",
        ),
        (b"{\n  \"groups\": [\n", json),
        (b"\n[{\"records\":[]}]", json),
    ] {
        fs::write(dir.path().join("b.info.xz"), start).unwrap();
        let error = read_folder(dir.path()).unwrap_err();
        assert_contains!(error, advice);
    }
    for text in ["[root@db1 ~]# asinfo -v node\nbb9\n", "{test} x\n"] {
        fs::write(dir.path().join("b.info.xz"), text).unwrap();
        assert_eq!(read_folder(dir.path()).unwrap().len(), 2, "{text}");
    }
}

#[test]
fn a_refused_query_gives_no_value() {
    let text = "# 20261120T230225Z\nnamespace/a\tERROR:4:no such namespace\nlatency:\tERROR:4:unrecognized command\n\
                build\tFAIL:80:not authenticated\nnode\tbb9\nnode\tcc1\n";
    let replies = read(text.as_bytes());
    assert!(replies.namespaces.is_empty() && replies.build.is_none());
    assert_eq!(replies.node_id.as_deref(), Some("BB9"));
}

#[test]
fn a_line_of_256_mib_nul_bytes_and_too_many_namespaces_cost_no_memory() {
    let mut replies = InfoReplies::default();
    let long = repeat(b'x')
        .take(1 << 28)
        .chain(&b"\nnode\tBB9\r\n\0\0\tx\n"[..]);
    replies.read("a", long).unwrap();
    assert_eq!(replies.node_id.as_deref(), Some("BB9"));
    let many: String = (0..100)
        .map(|i| format!("namespace/{i}\tobjects=1\n"))
        .collect();
    let replies = read(many.as_bytes());
    assert_eq!(replies.namespaces.len(), NAMESPACES_MAX);
}

#[test]
fn versions_are_read_with_suffixes_of_packagers() {
    let texts = [
        "8.0.0.15",
        "3.15.1.4-1-g0123abc",
        "8.1",
        "6.0.0.0-rc6",
        "3.9.0",
    ];
    let read = texts.map(|text| Build::parse(text).unwrap().to_string());
    assert_eq!(
        read,
        ["8.0.0.15", "3.15.1.4", "8.1.0.0", "6.0.0.0", "3.9.0.0"]
    );
    for text in [
        "",
        "8",
        "ERROR:4:unrecognized command",
        "99999999999.1",
        ".",
        "8..1",
    ] {
        assert_eq!(Build::parse(text), None, "{text}");
    }
}

#[test]
fn each_change_of_the_protocol_applies_from_its_version_on() {
    let of = |text| Build::parse(text).unwrap();
    assert!(!of("8.0.0.15").selects_by_namespace() && of("8.1.0.0").selects_by_namespace());
    assert!(!of("5.0.0.38").has_latencies() && of("5.1.0.3").has_latencies());
    assert_eq!(of("7.0.0.26").fixed_write_block_bytes(), None);
    assert_eq!(of("7.1.0.0").fixed_write_block_bytes(), Some(8 << 20));
}

fn namespace_from(reply: &str) -> Namespace {
    let mut namespace = Namespace::default();
    namespace.take(reply);
    namespace
}

#[test]
fn devices_keep_the_servers_order_with_their_shadows() {
    let text = "storage-engine=device;storage-engine.device[1]=/dev/b;storage-engine.device[0]=/dev/a;\
                storage-engine.device[1].shadow=/dev/s;storage-engine.device[1].writes=7;storage-engine.device[0].age=-1";
    let namespace = namespace_from(text);
    let names: Vec<_> = namespace
        .devices
        .iter()
        .map(|device| (device.name.as_str(), device.shadow.as_deref()))
        .collect();
    assert_eq!(names, [("/dev/a", None), ("/dev/b", Some("/dev/s"))]);
    assert_eq!(namespace.number("device[1].writes"), Some(7));
    assert!(namespace.is_on_devices());
}

#[test]
fn parameter_names_of_old_servers_are_found_under_the_new_names() {
    // Replies of servers 4.0 and 3.x: the key is repeated for each device, and there are no statistics of devices.
    let namespace = namespace_from(
        "storage-engine=device;storage-engine.device=/dev/a;storage-engine.device=/dev/b;\
                        storage-engine.write-block-size=131072;device_used_bytes=5;objects=3",
    );
    assert_eq!(namespace.devices.len(), 2);
    let found = namespace.flush_bytes(Build::parse("4.0.0.1"));
    assert_eq!(found, Some(131_072));
    assert_eq!(namespace.flush_bytes(None), None);
    let namespace =
        namespace_from("used-bytes-disk=5;cache-read-pct=12;repl-factor=2;dev=/dev/sdb");
    assert_eq!(namespace.devices[0].name.as_str(), "/dev/sdb");
    assert_eq!(namespace.replication_factor(), Some(2));
}

#[test]
fn write_blocks_are_8_mib_from_server_7_1_on_with_any_flush_size() {
    let namespace = namespace_from("storage-engine=device;storage-engine.flush-size=131072");
    let build = Build::parse("8.0.0.15");
    assert_eq!(namespace.write_block_bytes(build), Some(8 << 20));
    assert_eq!(namespace.flush_bytes(build), Some(131_072));
}

#[test]
fn an_impossible_block_size_is_unknown() {
    for size in ["0", "1310", "131073", "16777216", "256", "x"] {
        let namespace = namespace_from(&format!("write-block-size={size};flush-size={size}"));
        let build = Build::parse("6.4.0.1");
        let known = (
            namespace.write_block_bytes(build),
            namespace.flush_bytes(build),
        );
        assert_eq!(known, (None, None), "{size}");
    }
}

#[test]
fn a_memory_namespace_stores_on_devices_only_with_backing_devices() {
    assert!(
        !namespace_from("storage-engine=memory;storage-engine.stripe[0].used_bytes=1")
            .is_on_devices()
    );
    assert!(namespace_from("storage-engine=memory;storage-engine.file[0]=/a").is_on_devices());
}

#[test]
fn nonsense_costs_no_memory_and_no_panic() {
    let namespace = namespace_from(
        "device[99999999999]=x;device[4294967295].writes=1;device[;=;;device[]=;device[1=2;device].x=1;a;b=",
    );
    assert!(namespace.devices.is_empty());
}
