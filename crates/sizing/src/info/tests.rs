//! Replies of real servers, and files that are none.

use super::*;
use std::io::repeat;
use std::time::Duration;

const OF_4_9: &[u8] = include_bytes!("../../tests/data/info/ce-4.9.0.37.info.gz");
const OF_8_0: &[u8] = include_bytes!("../../tests/data/info/ce-8.0.0.15.info.gz");

fn read(bytes: &[u8]) -> InfoReplies {
    let mut replies = InfoReplies::default();
    replies.read("a", Input::new(bytes).unwrap()).unwrap();
    replies
}

fn seconds(samples: &[NamespaceSample]) -> Vec<i64> {
    samples.iter().map(|sample| sample.at.as_second() - samples[0].at.as_second()).collect()
}

#[test]
fn a_server_of_4_9_says_what_a_profile_needs() {
    let replies = read(OF_4_9);
    assert_eq!(replies.node_id.as_deref(), Some("32C901000000FC02"));
    assert_eq!(replies.build, Build::parse("4.9.0.37"));
    assert_eq!(replies.logs, BTreeMap::from([(0, "/opt/capture/run/4.9/aerospike.log".to_owned())]));
    assert_eq!(replies.remarks, [""; 0]);
    let test = &replies.namespaces["test"];
    assert_eq!(test.devices, [StorageDevice { name: "/dev/loop2".to_owned(), shadow: None, is_file: false }]);
    assert_eq!(test.write_block_bytes(replies.build), Some(131_072));
    assert_eq!(test.flush_bytes(replies.build), Some(131_072));
    assert_eq!(
        (test.commit_to_device(), test.replication_factor(), test.defrag_lwm_pct()),
        (Some(false), Some(1), Some(50))
    );
    assert_eq!((test.post_write_blocks(replies.build), test.benchmarks_storage()), (Some(64), Some(true)));
    assert_eq!(seconds(&test.samples), [0, 63, 157, 251]);
    let sample = &test.samples[0];
    assert_eq!((sample.counters["objects"], sample.counters["data_used_bytes"]), (202_810, 740_308_640));
    let device = sample.devices[0];
    assert_eq!((device.free_wblocks, device.write_q, device.writes), (Some(8_714), Some(2_363), Some(7_684)));
    assert_eq!((device.defrag_reads, device.defrag_writes, device.partial_writes), (Some(26), Some(8), None));
    assert_eq!(replies.cluster_size, Some(1));
    assert!(replies.uptime.len() == 4 && replies.uptime.is_sorted());
}

#[test]
fn a_server_of_8_0_says_it_by_other_names() {
    let replies = read(OF_8_0);
    let test = &replies.namespaces["test"];
    assert_eq!(
        (test.write_block_bytes(replies.build), test.flush_bytes(replies.build)),
        (Some(8 << 20), Some(131_072))
    );
    assert_eq!(test.post_write_blocks(replies.build), Some(8));
    assert_eq!(replies.remarks, [""; 0], "that latency: is not known any more is of no importance");
    let [first, .., last] = &test.samples[..] else { panic!("{:?}", test.samples) };
    assert_eq!((first.devices[0].writes, first.devices[0].partial_writes), (Some(108), Some(6)));
    assert!(last.devices[0].writes > first.devices[0].writes);
    assert!(last.counters["client_read_success"] > first.counters["client_read_success"]);
    assert_eq!(first.counters["data_used_bytes"], 893_760_160);
    // The reply starts with "failed_best_practices=true", which is not a refusal.
    assert_eq!((replies.cluster_size, replies.uptime.len(), replies.uptime[0].1), (Some(1), 4, 100));
}

#[test]
fn files_of_a_script_that_keeps_one_for_each_name_are_one_node_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    Input::new(OF_8_0).unwrap().read_to_string(&mut text).unwrap();
    let (once, timed) = text.split_at(text.find("# 2026").unwrap());
    // Read in the order of names: what is newer comes first.
    let half = timed[2..].find("# 2026").unwrap() + 2;
    for (name, part) in [("once.txt", once), ("b-first.txt", &timed[..half]), ("a-then.txt", &timed[half..])] {
        fs::write(dir.path().join(name), part).unwrap();
    }
    fs::write(dir.path().join("notes.md"), "node\tX\n").unwrap();
    let [together] = &read_folder(dir.path()).unwrap()[..] else { panic!("one node") };
    let alone = read(text.as_bytes());
    assert_eq!(together.namespaces["test"].samples, alone.namespaces["test"].samples);
    assert_eq!((&together.node_id, &together.uptime), (&alone.node_id, &alone.uptime));
    // A file of a node beside them is the node.
    fs::write(dir.path().join("BB9.info"), "# host [::1]:3000\n# node bb9\n").unwrap();
    let nodes = read_folder(dir.path()).unwrap();
    assert_eq!(nodes.iter().map(InfoReplies::name).collect::<Vec<_>>(), ["BB9"]);
    assert_eq!(nodes[0].host.as_deref(), Some("[::1]:3000"));
    fs::remove_file(dir.path().join("BB9.info")).unwrap();
    for name in ["once.txt", "b-first.txt", "a-then.txt"] {
        fs::write(dir.path().join(name), "any text\n").unwrap();
    }
    assert_eq!(read_folder(dir.path()).unwrap(), []);
}

#[test]
fn a_time_is_read_as_it_is_written_with_or_without_digits_of_a_second() {
    let at = time("20261120T230225Z").unwrap();
    assert_eq!((at.to_string(), time_text(at)), ("2026-11-20T23:02:25Z".to_owned(), "20261120T230225.000Z".to_owned()));
    let at = time("20261120T230225.125Z").unwrap();
    assert_eq!(time(&time_text(at)), Some(at));
    for text in ["", "20261120", "20261120T230225", "20261320T230225Z", "20261120T230225Z x", "99999999T999999Z"] {
        assert_eq!(time(text), None, "{text}");
    }
}

#[test]
fn a_file_is_read_as_it_is_written() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_679_745_125);
    let replies =
        [("node", "BB9"), ("namespace/a", "objects=3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let text = header_text("flashproof 1", "db1:3000", "BB9", Build::parse("8.1.2.0")) + &sample_text(at, &replies);
    let read = read(text.as_bytes());
    assert_eq!((read.name(), read.host.as_deref(), read.build), ("BB9", Some("db1:3000"), Build::parse("8.1.2.0")));
    let samples = &read.namespaces["a"].samples;
    assert_eq!((samples.len(), samples[0].at.as_millisecond()), (1, 1_763_679_745_125));
}

#[test]
fn what_a_server_refused_is_no_value() {
    let text = "# 20261120T230225Z\nnamespace/a\tERROR:4:no such namespace\nlatency:\tERROR:4:unrecognized command\n\
                build\tFAIL:80:not authenticated\nnode\tbb9\nnode\tcc1\n";
    let replies = read(text.as_bytes());
    assert!(replies.namespaces.is_empty() && replies.build.is_none());
    assert_eq!(
        replies.remarks,
        [
            "a line 2: \"namespace/a\" was answered by \"ERROR:4:no such namespace\"",
            "a line 6: it is of node \"CC1\", and the lines before are of another",
        ]
    );
    assert_eq!(replies.node_id.as_deref(), Some("BB9"));
}

#[test]
fn a_line_of_a_gigabyte_nul_bytes_and_too_many_namespaces_cost_no_memory() {
    let mut replies = InfoReplies::default();
    let long = repeat(b'x').take(1 << 30).chain(&b"\nnode\tBB9\r\n\0\0\tx\n"[..]);
    replies.read("a", long).unwrap();
    assert_eq!(replies.remarks, ["a line 1: it has more than 16777216 bytes; left out"]);
    assert_eq!(replies.node_id.as_deref(), Some("BB9"));
    let many: String = (0..100).map(|i| format!("namespace/{i}\tobjects=1\n")).collect();
    let replies = read(many.as_bytes());
    assert_eq!((replies.namespaces.len(), replies.remarks.len()), (NAMESPACES_MAX, REMARKS_MAX + 1));
    assert_eq!(replies.remarks[REMARKS_MAX], "a: 48 more remarks of this kind");
}
