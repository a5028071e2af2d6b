//! Configurations for all ways in which namespaces share drives, and drives serve namespaces.

use act::ActConfig;
use act::options::Test as Kind;
use act::parse::parse;
use jiff::Timestamp;
use results::testing::modified;
use results::{assert_any_contains, assert_contains};
use sizing::align::{RequestedLoad, worst};
use sizing::configuration::{
    ConfigurationError, TestConfiguration, TestOptions, busiest_node, configurations,
};
use sizing::drive_io::DriveIo;
use sizing::profile::counters::mean_bytes;
use sizing::profile::{DeviceLoad, DriveTarget, FORMAT, LoadWindow, Profile, ProfiledNode};

/// The load of a namespace on a device: half of the reads are 1 KiB and half 4 KiB, writes 2 KiB.
fn load(namespace: &str, device: &str, drive: &str, reads_per_sec: f64) -> DeviceLoad {
    let sizes = |over: &[(usize, f64)]| {
        over.iter()
            .flat_map(|(n, pct)| std::iter::repeat_n(*pct, *n))
            .collect()
    };
    DeviceLoad {
        node: "A1".to_owned(),
        namespace: namespace.to_owned(),
        device: device.to_owned(),
        drive: drive.to_owned(),
        reads_per_sec,
        read_sizes_pct_over: sizes(&[(11, 100.0), (2, 50.0), (1, 0.0)]),
        writes_per_sec: reads_per_sec / 2.0,
        write_sizes_pct_over: sizes(&[(12, 100.0), (1, 0.0)]),
        write_block_bytes: 128 << 10,
        large_block_bytes: 128 << 10,
        large_block_reads_per_sec: reads_per_sec / 50.0,
        large_block_writes_per_sec: reads_per_sec / 40.0,
        direct_frees_per_sec: Some(reads_per_sec / 200.0),
        ..DeviceLoad::default()
    }
}

fn profile(loads: Vec<DeviceLoad>) -> Profile {
    let window = LoadWindow {
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::from_second(600).unwrap(),
    };
    let mut drives: Vec<String> = loads.iter().map(|load| load.drive.clone()).collect();
    drives.sort();
    drives.dedup();
    Profile {
        format: FORMAT,
        tool: "a test".to_owned(),
        sources: vec!["a.log".to_owned()],
        nodes: vec![ProfiledNode {
            id: "A1".to_owned(),
            build: None,
            window,
        }],
        drives: drives
            .into_iter()
            .map(|drive: String| {
                let of_drive = loads.iter().filter(|load| load.drive == drive);
                let mut predicted = DriveIo::default();
                for load in of_drive {
                    predicted.reads_per_sec += load.reads_per_sec + load.large_block_reads_per_sec;
                    predicted.writes_per_sec += load.large_block_writes_per_sec;
                    predicted.read_kib_per_sec +=
                        load.reads_per_sec * mean_bytes(&load.read_sizes_pct_over).0 / 1024.0
                            + load.large_block_reads_per_sec * 128.0;
                    predicted.written_kib_per_sec += load.large_block_writes_per_sec * 128.0;
                }
                DriveTarget {
                    node: "A1".to_owned(),
                    drive,
                    predicted,
                    iostat: None,
                    others: Vec::new(),
                }
            })
            .collect(),
        loads,
        ..Profile::default()
    }
}

fn test(factor: &str) -> TestOptions {
    TestOptions {
        device: "sim:".parse().ok(),
        duration_sec: 60,
        factor: factor.parse().unwrap(),
    }
}

fn configured(loads: Vec<DeviceLoad>, factor: &str) -> Vec<(TestConfiguration, ActConfig)> {
    let profile = profile(loads);
    let configurations = configurations(&profile, "A1", &test(factor)).unwrap();
    let parsed = configurations.into_iter().map(|configuration| {
        let parsed = parse(Kind::Storage, "a", configuration.text.as_bytes()).unwrap();
        assert_eq!(parsed.warnings.len(), 0, "{}", configuration.text);
        (configuration, parsed.config)
    });
    parsed.collect()
}

/// Each namespace's number of drives, and its configured reads and writes per second.
fn rates(configured: &[(TestConfiguration, ActConfig)]) -> Vec<(&str, usize, u32, u32)> {
    let rates = configured.iter().map(|(configuration, config)| {
        (
            configuration.namespace.as_str(),
            configuration.drives,
            config.read_reqs_per_sec,
            config.write_reqs_per_sec,
        )
    });
    rates.collect()
}

#[test]
fn configured_rates_are_divided_among_drives_however_namespaces_share_the_drives() {
    let one = || load("a", "/dev/nvme0n1", "nvme0n1", 8000.0);
    assert_eq!(
        rates(&configured(vec![one()], "1")),
        [("a", 1, 8000, 4000)],
        "one drive"
    );
    let blocks = modified(one(), |it| it.large_block_writes_per_sec = 191.3);
    assert_eq!(
        configured(vec![blocks], "1")[0].1.total_lbw_per_sec,
        191,
        "the nearest whole number"
    );
    let second = load("a", "/dev/nvme1n1", "nvme1n1", 6000.0);
    assert_eq!(
        rates(&configured(vec![one(), second.clone()], "1")),
        [("a", 2, 7000, 3500)],
        "several drives"
    );
    let shared = load("b", "/dev/nvme0n1p2", "nvme0n1", 1000.0);
    let two = configured(vec![one(), shared.clone()], "1");
    assert_eq!(
        rates(&two),
        [("a", 1, 8000, 4000), ("b", 1, 1000, 500)],
        "several namespaces on a drive"
    );
    assert_contains!(two[0].0.text, "run them at the same time");
    let both = vec![
        one(),
        second,
        shared,
        load("b", "/dev/nvme1n1p2", "nvme1n1", 3000.0),
    ];
    assert_eq!(
        rates(&configured(both, "1")),
        [("a", 2, 7000, 3500), ("b", 2, 2000, 1000)],
        "both"
    );
    let partitions = vec![
        load("a", "/dev/sda1", "sda", 500.0),
        load("a", "/dev/sda2", "sda", 700.0),
    ];
    let parts = configured(partitions, "1");
    assert_eq!(
        rates(&parts),
        [("a", 1, 1200, 600)],
        "partitions of one drive are added up"
    );
    assert_contains!(parts[0].0.text, "the sum of 2 devices on one drive");
}

#[test]
fn a_configuration_requests_the_io_of_the_clusters_drive() {
    let mut eight = load("a", "/dev/nvme0n1", "nvme0n1", 3000.0);
    // Blocks of 8 MiB, moved by I/Os of 1 MiB.
    (eight.write_block_bytes, eight.large_block_bytes) = (8 << 20, 1 << 20);
    (
        eight.large_block_reads_per_sec,
        eight.large_block_writes_per_sec,
    ) = (7.0, 8.0);
    eight.direct_frees_per_sec = Some(1.2);
    for asked in [
        load("a", "/dev/nvme0n1", "nvme0n1", 3000.0),
        load("a", "/dev/nvme0n1", "nvme0n1", 90_000.0),
        eight,
    ] {
        for factor in ["1", "2"] {
            let configured = configured(vec![asked.clone()], factor);
            let (configuration, config) = &configured[0];
            let TestConfiguration {
                cluster_io,
                requested_io,
                remarks,
                ..
            } = configuration;
            let most = if factor == "1" { 0.02 } else { 1.1 };
            assert!(worst(cluster_io, requested_io) < most, "{configuration:?}");
            assert!(
                remarks
                    .iter()
                    .all(|remark| remark.contains("far from 100 %")),
                "{remarks:?}"
            );
            let by_hand = RequestedLoad::from_config(config, 512).unwrap().io();
            assert_eq!(by_hand, *requested_io, "the file requests this I/O");
            if factor == "2" {
                let twice = requested_io.written_kib_per_sec / cluster_io.written_kib_per_sec;
                assert!((twice - 2.0).abs() < 0.04, "{twice}");
            }
        }
    }
}

#[test]
fn with_commit_to_device_each_record_is_a_separate_write() {
    let mut commits = load("a", "/dev/nvme0n1", "nvme0n1", 3000.0);
    commits.commit_to_device = true;
    let configured = configured(vec![commits], "1");
    assert!(configured[0].1.commit_to_device);
    let DriveIo { writes_per_sec, .. } = configured[0].0.cluster_io;
    assert_eq!(writes_per_sec, 1500.0 + 75.0);
    assert!(
        worst(&configured[0].0.cluster_io, &configured[0].0.requested_io) < 0.02,
        "{:?}",
        configured[0].0
    );
}

#[test]
fn more_direct_frees_than_blocks_written_are_reported() {
    let mut freed = load("a", "/dev/nvme0n1", "nvme0n1", 3000.0);
    freed.direct_frees_per_sec = Some(100.0);
    let configured = configured(vec![freed], "1");
    assert_any_contains!(
        configured[0].0.remarks,
        "direct-frees is 74, although the server freed 100.0 blocks/s: more than the 75.0 blocks/s"
    );
}

#[test]
fn a_load_that_no_offset_can_match_is_reported() {
    let mut flushed = load("a", "/dev/nvme0n1", "nvme0n1", 3000.0);
    // 75 large-block writes of 8 MiB per second at 1,500 record writes per second need an offset beyond 1000 %.
    (flushed.write_block_bytes, flushed.large_block_bytes) = (8 << 20, 8 << 20);
    let remarks = &configured(vec![flushed], "1")[0].0.remarks;
    assert_any_contains!(remarks, "lbw-req-offset is 1000 %");
    assert_any_contains!(remarks, "no offset makes the two equal");
}

#[test]
fn with_iostat_the_mean_size_of_reads_is_that_of_iostat() {
    let mut profile = profile(vec![load("a", "/dev/nvme0n1", "nvme0n1", 8000.0)]);
    let seen = DriveIo {
        read_kib_per_sec: profile.drives[0].predicted.read_kib_per_sec * 1.2,
        ..profile.drives[0].predicted
    };
    profile.drives[0].iostat = Some(seen);
    let configuration = configurations(&profile, "A1", &test("1"))
        .unwrap()
        .remove(0);
    assert!(
        worst(&seen, &configuration.requested_io) < 0.02,
        "{:?} {:?}",
        configuration.requested_io,
        seen
    );
    let text = configuration.text.replace("\n# ", " ");
    assert_contains!(text, "kB/s; the cluster's drive read", "kB/s by iostat");
}

#[test]
fn read_only_write_only_and_records_larger_than_a_large_block_can_be_configured() {
    let mut reads_only = load("a", "/dev/nvme0n1", "nvme0n1", 5000.0);
    (
        reads_only.writes_per_sec,
        reads_only.large_block_writes_per_sec,
    ) = (0.0, 0.0);
    (
        reads_only.large_block_reads_per_sec,
        reads_only.direct_frees_per_sec,
    ) = (0.0, None);
    reads_only.write_sizes_pct_over.clear();
    let only = configured(vec![reads_only.clone()], "1");
    assert_eq!(only[0].1.write_reqs_per_sec, 0);
    assert_eq!(only[0].1.storage_write_histogram, None);
    let mut writes_only = load("a", "/dev/nvme0n1", "nvme0n1", 5000.0);
    writes_only.reads_per_sec = 0.0;
    writes_only.read_sizes_pct_over.clear();
    let only = configured(vec![writes_only], "1");
    assert_eq!(only[0].1.read_reqs_per_sec, 0);
    assert_eq!(only[0].1.storage_read_histogram, None);
    assert!(worst(&only[0].0.cluster_io, &only[0].0.requested_io) < 0.02);
    let mut large = load("a", "/dev/nvme0n1", "nvme0n1", 5000.0);
    large
        .read_sizes_pct_over
        .splice(13.., [20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 0.0]);
    let configured = configured(vec![large], "1");
    assert_eq!(
        configured[0].1.large_block_op_kbytes, 512,
        "a read of 256 KiB to 512 KiB has to fit"
    );
    assert_contains!(configured[0].0.text, "some records do not fit it");
    reads_only.reads_per_sec = 0.0;
    let none = configurations(&profile(vec![reads_only]), "A1", &test("1")).unwrap_err();
    assert!(matches!(none, ConfigurationError::NoLoad { .. }), "{none}");
}

#[test]
fn the_node_with_the_highest_throughput_is_chosen() {
    let mut profile = profile(vec![load("a", "/dev/sda", "sda", 500.0)]);
    let node = modified(profile.nodes[0].clone(), |it| it.id = "B2".to_owned());
    profile.nodes.push(node);
    let mut busy = load("a", "/dev/sda", "sda", 5000.0);
    busy.node = "B2".to_owned();
    profile.loads.push(busy);
    let predicted = modified(DriveIo::default(), |it| it.written_kib_per_sec = 1e6);
    let target = DriveTarget {
        node: "B2".to_owned(),
        predicted,
        ..profile.drives[0].clone()
    };
    profile.drives.push(target);
    assert_eq!(busiest_node(&profile), Some("B2"));
    let text = configurations(&profile, "B2", &test("1"))
        .unwrap()
        .remove(0)
        .text;
    assert!(
        text.contains("read-reqs-per-sec: 5000"),
        "devices of the same name on two nodes are different devices"
    );
    let error = configurations(&profile, "C3", &test("1"))
        .unwrap_err()
        .to_string();
    assert_contains!(error, "no node C3", "A1, B2");
}

#[test]
fn doubts_of_a_profile_are_written_into_its_configurations() {
    let mut profile = profile(vec![load("a", "/dev/sda", "sda", 500.0)]);
    profile
        .assumptions
        .push("flush-size is taken for 1 MiB".to_owned());
    let text = configurations(&profile, "A1", &test("1"))
        .unwrap()
        .remove(0)
        .text;
    assert_contains!(text, "IN DOUBT: flush-size is taken for 1 MiB");
    let again: Profile = serde_json::from_str(&serde_json::to_string(&profile).unwrap()).unwrap();
    assert_eq!(again, profile, "read back from a file");
    assert_eq!(again.doubts().len(), 1);
}
