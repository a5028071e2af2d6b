//! Facts from fake sysfs trees and from real files.

use super::*;
use crate::fake_tree::FakeTree;
use std::os::fd::AsFd;

/// Adds an NVMe drive (259:0), its partition 2 (259:2), and its character device (240:0).
pub(crate) fn fake_nvme(tree: &FakeTree) {
    let disk = tree.path("sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1");
    let attributes = [
        ("dev", "259:0\n"),
        ("size", "2000\n"),
        ("ro", "0\n"),
        ("diskseq", "7\n"),
        ("wwid", "eui.0025385b21404321\n"),
        ("nsid", "1\n"),
        ("queue/logical_block_size", "512\n"),
        ("queue/physical_block_size", "4096\n"),
        ("queue/rotational", "0\n"),
        ("queue/scheduler", "[none] mq-deadline kyber\n"),
        ("queue/nr_requests", "1023\n"),
        ("mq/0/nr_tags", "1023\n"),
        ("mq/1/nr_tags", "1023\n"),
        ("queue/write_cache", "write back\n"),
        ("queue/max_hw_sectors_kb", "2048\n"),
        ("stat", "10 0 80 0 20 0 160 0 0 0 0\n"),
        ("nvme0n1p2/dev", "259:2\n"),
        ("nvme0n1p2/partition", "2\n"),
        ("nvme0n1p2/start", "1000\n"),
        ("nvme0n1p2/size", "500\n"),
        ("nvme0n1p2/ro", "0\n"),
    ];
    tree.write_all(&disk, &attributes);
    let controller = disk.parent().unwrap();
    let attributes = [
        ("model", "ACME Fast 1TB                \n"),
        ("serial", "S123\n"),
        ("firmware_rev", "1B2Q\n"),
        ("transport", "pcie\n"),
        ("numa_node", "-1\n"),
        ("ng0n1/dev", "240:0\n"),
    ];
    tree.write_all(controller, &attributes);
    tree.write(
        controller
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .join("numa_node"),
        "1\n",
    );
    tree.link(disk.join("device"), controller);
    for (link, to) in [
        ("dev/block/259:0", &disk),
        ("dev/block/259:2", &disk.join("nvme0n1p2")),
        ("class/block/nvme0n1", &disk),
        ("dev/char/240:0", &controller.join("ng0n1")),
        ("class/nvme-generic/ng0n1", &controller.join("ng0n1")),
    ] {
        tree.link(format!("sys/{link}"), to);
    }
}

fn nvme() -> FakeTree {
    let tree = FakeTree::with_files(&[]);
    fake_nvme(&tree);
    tree
}

fn facts_in(tree: &FakeTree, name: &str, number: &str) -> DeviceFacts {
    let block = Resolved::Block {
        number: DeviceNumber::parse(number).unwrap(),
        node: PathBuf::from("/nowhere"),
    };
    facts_of(name, &block, tree.root()).unwrap()
}

#[test]
fn all_facts_of_an_nvme_drive_are_found() {
    let facts = facts_in(&nvme(), "/dev/nvme0n1", "259:0");
    assert_eq!(facts.kind, Kind::WholeDisk);
    assert_eq!(facts.size_bytes, 2000 * 512);
    assert_eq!(facts.max_hw_io_bytes, Some(2 << 20));
    assert_eq!(facts.logical_sector_bytes, Some(512));
    assert_eq!(facts.physical_sector_bytes, Some(4096));
    assert_eq!(facts.queue_requests_max, Some(1023));
    assert_eq!(facts.hardware_queues, Some(2));
    assert_eq!(facts.rotational, Some(false));
    assert_eq!(facts.disk_sequence, Some(7));
    let DeviceFacts {
        kernel_name,
        model,
        serial,
        firmware,
        transport,
        scheduler,
        write_cache,
        ..
    } = &facts;
    let texts = [
        kernel_name,
        model,
        serial,
        firmware,
        transport,
        scheduler,
        write_cache,
    ]
    .map(Option::as_deref);
    let expected = [
        "nvme0n1",
        "ACME Fast 1TB",
        "S123",
        "1B2Q",
        "nvme-pcie",
        "none",
        "write back",
    ];
    assert_eq!(texts, expected.map(Some));
    assert_eq!(
        facts.identity().as_deref(),
        Some("wwid eui.0025385b21404321")
    );
}

#[test]
fn a_partition_shows_its_own_size_and_the_disks_hardware() {
    let facts = facts_in(&nvme(), "/dev/nvme0n1p2", "259:2");
    assert_eq!(facts.kind, Kind::Partition);
    assert_eq!(facts.size_bytes, 500 * 512);
    assert_eq!(facts.serial.as_deref(), Some("S123"));
    let partition = facts.partition.as_ref().unwrap();
    assert_eq!((partition.index, partition.start_bytes), (2, 512_000));
    assert_eq!(partition.disk.as_str(), "nvme0n1");
    assert_eq!(partition.disk_number.to_string(), "259:0".to_owned());
    assert_eq!(
        facts.identity().as_deref(),
        Some("wwid eui.0025385b21404321 partition 2 at 512000")
    );
}

#[test]
fn a_numa_node_of_minus_one_is_unknown() {
    let tree = nvme();
    assert_eq!(facts_in(&tree, "x", "259:0").numa_node, None);
    tree.write(
        "sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/numa_node",
        "3\n",
    );
    assert_eq!(facts_in(&tree, "x", "259:0").numa_node, Some(3));
}

#[test]
fn facts_missing_in_sysfs_are_unknown_and_give_no_identity() {
    let tree = FakeTree::with_files(&[("sys/devices/virtual/block/zram7/size", "16\n")]);
    tree.block("253:7", "sys/devices/virtual/block/zram7");
    let facts = facts_in(&tree, "/dev/zram7", "253:7");
    assert_eq!(facts.size_bytes, 8192);
    assert_eq!(&facts.model, &None);
    assert_eq!(&facts.serial, &None);
    assert_eq!(&facts.transport, &None);
    assert_eq!(facts.rotational, None);
    assert_eq!(facts.identity(), None);
}

#[test]
fn a_namespace_without_a_world_wide_name_is_identified_by_serial_number_and_nsid() {
    let facts = DeviceFacts {
        serial: Some("S1".into()),
        nsid: Some(2),
        wwid: None,
        ..facts::unknown_facts("/dev/nvme0n2", Kind::WholeDisk)
    };
    assert_eq!(facts.identity().as_deref(), Some("serial S1 nsid 2"));
}

#[test]
fn a_loop_device_is_identified_by_its_file_and_not_by_its_number() {
    let backing = LoopBacking {
        file: "/x".into(),
        identity: Some("8:1:99+0".into()),
        direct_io: Some(true),
    };
    let facts = DeviceFacts {
        loop_backing: Some(backing.clone()),
        ..facts::unknown_facts("/dev/loop3", Kind::WholeDisk)
    };
    assert_eq!(facts.identity().as_deref(), Some("loop 8:1:99+0"));
    let unasked = LoopBacking {
        identity: None,
        ..backing
    };
    let facts = DeviceFacts {
        loop_backing: Some(unasked),
        serial: Some("x".into()),
        ..facts
    };
    assert_eq!(facts.identity(), None);
}

#[test]
fn a_multipath_namespace_has_the_request_limit_and_the_bus_of_its_first_path() {
    let tree = FakeTree::with_files(&[]);
    // Layout of the kernel: the multipath device is below the subsystem, its paths are below the controllers.
    let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    let head = format!("{subsystem}/nvme0n1");
    let attributes = [
        ("dev", "259:1"),
        ("size", "2000"),
        ("queue/logical_block_size", "512"),
        ("nsid", "1"),
    ];
    tree.write_all(&head, &attributes);
    tree.write(format!("{subsystem}/serial"), "S123\n");
    tree.link(format!("{head}/device"), subsystem);
    for (number, requests) in [(2, "1023"), (3, "127")] {
        let controller = format!("sys/devices/pci0000:00/0000:0{number}:00.0/nvme/nvme{number}");
        tree.write_all(
            &controller,
            &[("transport", "pcie\n"), ("numa_node", "1\n")],
        );
        // `nvme0cNn11` is a path of namespace 11, and must not be taken for a path of namespace 1.
        for (name, requests) in [
            (format!("nvme0c{number}n11"), "1"),
            (format!("nvme0c{number}n1"), requests),
        ] {
            let path = format!("{controller}/{name}");
            tree.write_all(
                &path,
                &[("queue/nr_requests", requests), ("mq/0/nr_tags", requests)],
            );
            tree.link(format!("{path}/device"), &controller);
        }
        tree.link(format!("{subsystem}/nvme{number}"), &controller);
    }
    tree.block("259:1", &head);
    let facts = facts_in(&tree, "/dev/nvme0n1", "259:1");
    assert_eq!(facts.serial.as_deref(), Some("S123"));
    assert_eq!(facts.transport.as_deref(), Some("nvme-pcie"));
    assert_eq!(facts.queue_requests_max, Some(1023));
    assert_eq!(facts.hardware_queues, Some(1));
    assert_eq!(facts.numa_node, Some(1));
}

#[test]
fn the_block_device_and_the_character_device_of_an_nvme_drive_are_found() {
    let tree = nvme();
    let root = tree.root();
    let generic = DeviceNumber {
        major: 240,
        minor: 0,
    };
    assert_eq!(
        block_name_of_generic(generic, root).as_deref(),
        Some("nvme0n1")
    );
    assert_eq!(generic_of_block("nvme0n1", root), Some(generic));
    let found = block_name_of_generic(DeviceNumber { major: 1, minor: 3 }, root);
    assert_eq!(found, None);
}

#[test]
fn a_missing_path_and_a_path_of_another_file_type_are_refused_with_the_reason() {
    let root = Path::new("/");
    assert!(matches!(
        discover("/dev/no-such-device", root),
        Err(DiscoverError::NotFound)
    ));
    assert!(matches!(
        discover("/dev/null", root),
        Err(DiscoverError::NotADevice {
            what: "a character device"
        })
    ));
    assert!(matches!(
        discover("/tmp", root),
        Err(DiscoverError::NotADevice {
            what: "a directory"
        })
    ));
}

#[test]
fn a_regular_file_is_identified_by_device_and_inode() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(12_345).unwrap();
    let facts = discover(file.path().to_str().unwrap(), Path::new("/")).unwrap();
    assert_eq!((facts.kind, facts.size_bytes), (Kind::RegularFile, 12_345));
    assert!(facts.identity().unwrap().starts_with("file "));
}

#[test]
fn the_minimum_io_size_of_a_file_without_o_direct_is_512_bytes() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(min_direct_io_bytes(file.as_fd()).unwrap(), 512);
}

#[test]
fn a_file_has_the_sectors_of_the_disk_beneath_its_file_system() {
    let tree = FakeTree::with_files(&[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let root = tree.root();
    let sector = || {
        discover(file.path().to_str().unwrap(), root)
            .unwrap()
            .logical_sector_bytes
    };
    assert_eq!(sector(), None);
    let number = DeviceNumber::of_stat(std::os::unix::fs::MetadataExt::dev(
        &file.as_file().metadata().unwrap(),
    ));
    tree.block(&number.to_string(), "sys/devices/disk/part");
    tree.write("sys/devices/disk/queue/logical_block_size", "4096\n");
    assert_eq!(sector(), Some(4096));
}
