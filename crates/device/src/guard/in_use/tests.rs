//! The checks against fake trees of /proc and /sys.

use super::super::refusal::Refusal;
use super::super::target_devices::Overlap;
use super::*;
use crate::discover::tests::fake_nvme;
use crate::fake_tree::FakeTree;
use results::assert_starts_with;
use std::path::{Path, PathBuf};

/// A machine with one NVMe drive, nothing mounted and no process.
struct Machine {
    tree: FakeTree,
}

impl Machine {
    fn new() -> Self {
        let tree = FakeTree::with_files(&[
            ("proc/self/mountinfo", ""),
            ("proc/1/mountinfo", ""),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
        ]);
        fake_nvme(&tree);
        Self { tree }
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        self.tree.write(path, text)
    }

    fn disk(&self) -> PathBuf {
        fs::canonicalize(self.tree.root().join("sys/dev/block/259:0")).unwrap()
    }

    /// Adds a block device of 1 MiB; a partition if `name` is `disk/partition`.
    fn add_device(&self, name: &str, number: &str, attributes: &[(&str, &str)]) -> PathBuf {
        let dir = format!("sys/devices/fake/{name}");
        self.tree
            .write_all(&dir, &[("dev", number), ("size", "2048")]);
        self.tree.write_all(&dir, attributes);
        self.tree.block(number, &dir);
        if !name.contains('/') {
            self.tree.link(format!("sys/block/{name}"), &dir);
        }
        self.tree.path(dir)
    }

    /// Builds `upper` on `lower`, with the kernel's links in both directions.
    fn stack(&self, upper: &Path, lower: &Path) {
        self.tree.link(
            lower.join("holders").join(upper.file_name().unwrap()),
            upper,
        );
        self.tree
            .link(upper.join("slaves").join(lower.file_name().unwrap()), lower);
    }

    fn mount(&self, number: &str, at: &str) {
        self.write(
            "proc/self/mountinfo",
            &format!("40 1 {number} / {at} rw - ext4 x rw\n"),
        );
    }

    fn subject(&self, minor: u32) -> TargetDevices {
        self.subject_of(DeviceNumber { major: 259, minor })
    }

    fn subject_of(&self, number: DeviceNumber) -> TargetDevices {
        TargetDevices::of_device(number, self.tree.root()).unwrap()
    }

    fn refused(&self, number: &str) -> String {
        refusals(&self.subject_of(DeviceNumber::parse(number).unwrap()), self).join(" | ")
    }

    fn refusal(&self, minor: u32) -> Option<String> {
        let found = refusals(&self.subject(minor), self);
        (!found.is_empty()).then(|| found.join(" | "))
    }
}

fn refusals(subject: &TargetDevices, machine: &Machine) -> Vec<String> {
    let mut findings = Objections::default();
    subject.check_kernel_users(machine.tree.root(), &mut findings);
    findings.reasons.iter().map(ToString::to_string).collect()
}

#[test]
fn an_unused_device_has_no_reason_to_refuse() {
    let machine = Machine::new();
    assert_eq!(machine.refusal(0), None);
    assert_eq!(machine.refusal(2), None);
}

#[test]
fn a_mounted_partition_is_found_for_its_disk_too_in_both_mount_tables() {
    let mount = "40 1 259:2 / /data\\040one rw,relatime shared:5 - ext4 /dev/nowhere rw\n";
    for (file, seen_by) in [
        ("proc/self/mountinfo", ";"),
        ("proc/1/mountinfo", ", as process 1 sees it;"),
    ] {
        let machine = Machine::new();
        machine.write(file, mount);
        let disk = machine.refusal(0).unwrap();
        assert_starts_with!(
            disk,
            &format!("its partition /dev/nvme0n1p2 is mounted at /data one{seen_by}")
        );
        let partition = machine.refusal(2).unwrap();
        assert_starts_with!(partition, "it is mounted at /data one");
    }
}

#[test]
fn a_partition_is_refused_if_its_whole_disk_is_mounted() {
    let machine = Machine::new();
    machine.write(
        "proc/self/mountinfo",
        "40 1 259:0 / /mnt rw - xfs /dev/nowhere rw\n",
    );
    let text = machine.refusal(2).unwrap();
    assert!(
        text.starts_with("the disk /dev/nvme0n1 that it lies on is mounted at /mnt"),
        "{text}"
    );
}

#[test]
fn mounts_of_other_devices_do_not_count() {
    let machine = Machine::new();
    machine.write(
        "proc/self/mountinfo",
        "40 1 259:1 / /mnt rw - xfs /dev/nowhere rw\n41 1 0:5 / /t rw - tmpfs t rw\n",
    );
    assert_eq!(machine.refusal(0), None);
}

#[test]
fn devices_built_on_the_target_are_named_with_their_kind() {
    let machine = Machine::new();
    for (holder, what, says) in [
        (
            "dm-3",
            Some(("vg-data", "LVM-abcdef")),
            "dm-3 (LVM vg-data)",
        ),
        (
            "dm-4",
            Some(("secret", "CRYPT-LUKS2-1")),
            "dm-4 (CRYPT secret)",
        ),
        ("md127", None, "md127 (software RAID)"),
        ("bcache0", None, "bcache0"),
    ] {
        let target = machine.tree.dir(format!("holders/{holder}"));
        if let Some((name, uuid)) = what {
            machine
                .tree
                .write_all(&target, &[("dm/name", name), ("dm/uuid", uuid)]);
        }
        let link = machine.disk().join("nvme0n1p2/holders").join(holder);
        machine.tree.link(&link, target);
        let text = machine.refusal(0).unwrap();
        assert!(
            text.starts_with(&format!("its partition /dev/nvme0n1p2 is held by {says};")),
            "{text}"
        );
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn the_backing_file_of_a_loop_device_is_refused() {
    let machine = Machine::new();
    let file = machine.write("image", "");
    machine.add_device(
        "loop9",
        "7:9",
        &[("loop/backing_file", &format!("{}\n", file.display()))],
    );
    let subject = TargetDevices::of_file(&fs::metadata(&file).unwrap());
    let text = refusals(&subject, &machine).join(" | ");
    assert_starts_with!(text, "it is held by the loop device loop9;");
    machine.mount("7:9", "/mnt");
    let text = refusals(&subject, &machine).join(" | ");
    assert!(
        text.starts_with("it is held by the loop device loop9 (mounted at /mnt);"),
        "{text}"
    );
}

#[test]
fn the_use_of_a_holder_is_reported_at_any_depth_of_the_stack() {
    let machine = Machine::new();
    let group = "LVM-0123456789abcdef0123456789abcdef";
    let md = machine.add_device("md7", "9:7", &[("md/level", "raid1")]);
    let dm = machine.add_device(
        "dm-3",
        "252:3",
        &[("dm/name", "vg-data"), ("dm/uuid", &format!("{group}A"))],
    );
    machine.stack(&md, &machine.disk().join("nvme0n1p2"));
    machine.stack(&dm, &md);
    machine.mount("252:3", "/data");
    assert!(machine.refused("259:0").starts_with(
        "its partition /dev/nvme0n1p2 is held by md7 (software RAID, mounted at /data); unmount or stop the holder first"
    ));
    assert_starts_with!(
        machine.refused("9:7"),
        "it is held by dm-3 (LVM vg-data, mounted at /data);"
    );
    machine.add_device("loop8", "7:8", &[("loop/backing_file", "/dev/dm-3\n")]);
    machine.tree.link("sys/class/block/dm-3", &dm);
    machine.write("proc/self/mountinfo", "");
    assert_starts_with!(
        machine.refused("252:3"),
        "it is held by the loop device loop8;"
    );
}

#[test]
fn mounts_of_devices_below_the_target_are_found() {
    let machine = Machine::new();
    let md = machine.add_device("md7", "9:7", &[("md/level", "raid1")]);
    let part = machine.disk().join("nvme0n1p2");
    machine.stack(&md, &part);
    assert_eq!(machine.refused("9:7"), "");
    machine.mount("259:2", "/data");
    assert_starts_with!(
        machine.refused("9:7"),
        "/dev/nvme0n1p2 beneath it is mounted at /data;"
    );
    machine.mount("259:0", "/whole");
    assert_starts_with!(
        machine.refused("9:7"),
        "the disk /dev/nvme0n1 beneath it is mounted at /whole;"
    );
    machine.mount("0:0", "/");

    // A mount two layers below the target, also through another path to the drive at the bottom.
    let dm = machine.add_device("dm-1", "252:1", &[("dm/name", "x")]);
    machine.stack(&dm, &md);
    machine.mount("259:2", "/data");
    assert_starts_with!(
        machine.refused("252:1"),
        "/dev/nvme0n1p2 beneath it is mounted at /data;"
    );
    machine.mount("0:0", "/");
    assert_eq!(machine.refused("252:1"), "");
    machine.add_device(
        "nvme1n1",
        "259:8",
        &[("wwid", "eui.0025385b21404321\n"), ("size", "2000")],
    );
    machine.mount("259:8", "/other");
    let text = machine.refused("252:1");
    assert!(
        text.starts_with("/dev/nvme1n1, another path to the same drive, is mounted at /other;"),
        "{text}"
    );
}

#[test]
fn another_volume_of_the_same_group_does_not_count_but_other_mappings_on_the_disk_do() {
    let group = "LVM-0123456789abcdef0123456789abcdef";
    let other_group = "LVM-1123456789abcdef0123456789abcdef";
    for (target, beside, lie_apart) in [
        (format!("{group}A"), format!("{group}B"), true),
        (format!("{group}A"), format!("{group}B-tpool"), true),
        (format!("{group}A"), format!("{other_group}B"), false),
        ("part1-mpath-3600".into(), "part2-mpath-3600".into(), true),
        ("CRYPT-PLAIN-x".into(), "CRYPT-PLAIN-y".into(), false),
        (String::new(), String::new(), false),
    ] {
        let machine = Machine::new();
        for (name, number, uuid) in [("dm-1", "252:1", &target), ("dm-2", "252:2", &beside)] {
            let dm = machine.add_device(name, number, &[("dm/name", name), ("dm/uuid", uuid)]);
            machine.stack(&dm, &machine.disk().join("nvme0n1p2"));
        }
        machine.mount("252:2", "/beside");
        let text = machine.refused("252:1");
        let found = text.is_empty();
        assert_eq!(found, lie_apart, "{target} beside {beside}: {text}");
        let says = "/dev/nvme0n1p2 beneath it is held by dm-2 (";
        assert!(
            lie_apart || (text.starts_with(says) && text.contains("mounted at /beside)")),
            "{text}"
        );
        let overlap = machine
            .subject_of(DeviceNumber::parse("252:1").unwrap())
            .overlaps(&machine.subject(2));
        assert_eq!(
            overlap,
            Some(Overlap::Bytes),
            "a volume and what it is made of"
        );
        let volumes = ["252:1", "252:2"]
            .map(|number| machine.subject_of(DeviceNumber::parse(number).unwrap()));
        assert_eq!(volumes[0].overlaps(&volumes[1]), None);
    }
}

#[test]
fn md_arrays_of_one_container_do_not_overlap() {
    let machine = Machine::new();
    for (name, number) in [("md126", "9:126"), ("md127", "9:127")] {
        let md = machine.add_device(name, number, &[("md/level", "raid1")]);
        machine.stack(&md, &machine.disk());
    }
    assert_eq!(machine.refused("9:126"), "");
}

/// A second path to the fake NVMe drive, with its partition 2.
fn other_path(machine: &Machine, attributes: &[(&str, &str)]) {
    let wwid = [
        ("wwid", "eui.0025385b21404321\n"),
        ("size", "2000"),
        ("device/serial", "S123\n"),
    ];
    machine.add_device("nvme1n1", "259:8", &[&wwid, attributes].concat());
    let part = [("partition", "2"), ("start", "1000"), ("size", "500")];
    machine.add_device("nvme1n1/nvme1n1p2", "259:9", &part);
    machine.add_device(
        "nvme1n1/nvme1n1p3",
        "259:10",
        &[("partition", "3"), ("start", "1500"), ("size", "400")],
    );
}

#[test]
fn a_mount_on_another_path_to_a_drive_counts_as_a_use_of_the_drive() {
    let machine = Machine::new();
    other_path(&machine, &[]);
    assert_eq!(machine.refused("259:0"), "");
    for (mounted, disk, partition) in [
        (
            "259:8",
            "/dev/nvme1n1, another path to the same drive, is mounted",
            "/dev/nvme1n1, another path to the same",
        ),
        (
            "259:9",
            "/dev/nvme1n1p2 on another path to the same drive is mounted",
            "/dev/nvme1n1p2 on another path",
        ),
        (
            "259:10",
            "/dev/nvme1n1p3 on another path to the same drive is mounted",
            "",
        ),
    ] {
        machine.mount(mounted, "/data");
        assert!(
            machine.refused("259:0").starts_with(disk),
            "{}",
            machine.refused("259:0")
        );
        let text = machine.refused("259:2");
        assert!(
            text.starts_with(partition) && text.is_empty() == partition.is_empty(),
            "{text}"
        );
    }
    let paths = |minor| {
        let subject = machine.subject(minor);
        subject
            .access_nodes()
            .map(|node| node.description.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(0), ["it", "/dev/nvme1n1,"]);
    assert_eq!(paths(2), ["it", "/dev/nvme1n1p2"]);
    let found = machine.subject(0).overlaps(&machine.subject(8));
    assert_eq!(found, Some(Overlap::Drive));
    let found = machine.subject(2).overlaps(&machine.subject(9));
    assert_eq!(found, Some(Overlap::Drive));
    let found = machine.subject(2).overlaps(&machine.subject(8));
    assert_eq!(found, Some(Overlap::Bytes));
    assert_eq!(machine.subject(2).overlaps(&machine.subject(10)), None);
}

#[test]
fn two_disks_are_one_drive_only_with_equal_wwids_and_equal_serial_numbers() {
    for (what, attributes) in [
        (
            "another namespace",
            &[("wwid", "eui.0025385b21404322\n")][..],
        ),
        (
            "another serial number under the name that a vendor gave to all",
            &[("device/serial", "S124\n")][..],
        ),
        ("no name", &[("wwid", "")][..]),
    ] {
        let machine = Machine::new();
        other_path(&machine, attributes);
        machine.mount("259:8", "/data");
        assert_eq!(machine.refused("259:0"), "", "{what}");
        let found = machine.subject(0).overlaps(&machine.subject(8));
        assert_eq!(found, None, "{what}");
    }
    let machine = Machine::new();
    fs::write(machine.disk().join("wwid"), "eui.0000000000000000\n").unwrap();
    other_path(&machine, &[("wwid", "eui.0000000000000000\n")]);
    machine.mount("259:8", "/data");
    assert_eq!(machine.refused("259:0"), "", "a name of zeros is none");
}

#[test]
fn an_exported_device_is_in_use() {
    let nvmet = "sys/kernel/config/nvmet/subsystems/nqn.test";
    let lio = "sys/kernel/config/target/core";
    let device = |machine: &Machine| {
        machine.tree.link(
            "sys/class/block/nvme0n1p2-of-the-test",
            machine.disk().join("nvme0n1p2"),
        );
        "/dev/nvme0n1p2-of-the-test\n"
    };
    let of_nvmet = "namespace 7 of NVMe-oF subsystem nqn.test; disable the export (`echo 0 > /";
    for (dir, attribute, what) in [
        (format!("{nvmet}/namespaces/7"), "device_path", of_nvmet),
        (
            format!("{lio}/iblock_0/data"),
            "udev_path",
            "LIO backstore iblock_0/data; delete the backstore (`targetcli`",
        ),
    ] {
        let machine = Machine::new();
        let path = device(&machine);
        machine.write(&format!("{dir}/{attribute}"), path);
        machine.write(&format!("{dir}/enable"), "0\n");
        assert_eq!(machine.refused("259:0"), "");
        machine.write(&format!("{dir}/enable"), "1\n");
        let text = machine.refused("259:0");
        assert_starts_with!(
            text,
            &format!("its partition /dev/nvme0n1p2 is exported as {what}")
        );
        machine.write(&format!("{dir}/{attribute}"), "/dev/another\n");
        assert_eq!(machine.refused("259:0"), "");
    }

    let machine = Machine::new();
    machine.write(&format!("{nvmet}/passthru/enable"), "1\n");
    machine.write(&format!("{nvmet}/passthru/device_path"), "/dev/nvme0\n");
    let text = machine.refused("259:0");
    assert_starts_with!(
        text,
        "it is exported as the passed-through controller of NVMe-oF subsystem nqn.test;"
    );
    machine.write(&format!("{nvmet}/passthru/device_path"), "/dev/nvme1\n");
    assert_eq!(machine.refused("259:0"), "");

    let file = machine.write("image", "");
    let subject = TargetDevices::of_file(&fs::metadata(&file).unwrap());
    let of_device = "iBlock device: nvme0n1p2  UDEV PATH: /dev/none  readonly: 0\n        Major: 259 Minor: 2  CLAIMED: IBLOCK\n";
    let of_image = format!(
        "TCM FILEIO ID: 0        File: {}  Size: 1048576  Mode: O_DSYNC Async: 0\n",
        file.display()
    );
    for (info, expected) in [(of_device, [true, false]), (&of_image, [false, true])] {
        machine.write(&format!("{lio}/fileio_3/x/enable"), "1\n");
        let info = format!("Status: ACTIVATED  Max Queue Depth: 0\n        {info}");
        machine.write(&format!("{lio}/fileio_3/x/info"), &info);
        let found = [
            machine.refused("259:0"),
            refusals(&subject, &machine).join(""),
        ];
        let in_use = found
            .each_ref()
            .map(|text| text.contains("LIO backstore fileio_3/x"));
        assert_eq!(in_use, expected, "{found:?}");
    }
}

#[test]
fn exports_that_cannot_be_examined_are_noted() {
    let machine = Machine::new();
    machine.write("sys/module/nvmet/refcnt", "0\n");
    let mut findings = Objections::default();
    machine
        .subject(0)
        .check_kernel_users(machine.tree.root(), &mut findings);
    assert!(
        matches!(&findings.notes[..], [one] if one.starts_with("exports of nvmet could not be examined"))
    );
}

#[test]
fn a_file_used_as_swap_is_refused() {
    let machine = Machine::new();
    let file = machine.write("swap file", "");
    let line = format!(
        "{} file 1 0 -1\n",
        file.display().to_string().replace(' ', "\\040")
    );
    machine.write(
        "proc/swaps",
        &format!("Filename Type Size Used Priority\n{line}"),
    );
    let subject = TargetDevices::of_file(&fs::metadata(&file).unwrap());
    let text = refusals(&subject, &machine).join(" | ");
    assert_starts_with!(text, "it is used as swap; turn it off (`swapoff ");
}

#[test]
fn a_mount_table_that_cannot_be_read_is_noted_once() {
    let machine = Machine::new();
    fs::remove_file(machine.tree.root().join("proc/1/mountinfo")).unwrap();
    let mut findings = Objections::default();
    machine
        .subject(0)
        .check_kernel_users(machine.tree.root(), &mut findings);
    machine
        .subject(0)
        .check_kernel_users(machine.tree.root(), &mut findings);
    let notes = &findings.notes;
    assert!(
        matches!(&notes[..], [one] if one.contains("1/mountinfo could not be read")),
        "{notes:?}"
    );
    assert!(findings.reasons.is_empty());
}

#[test]
fn all_reasons_are_listed_at_once_and_each_mount_once() {
    let machine = Machine::new();
    let mounts = "40 1 259:2 / /a rw - ext4 x rw\n41 1 259:2 /sub /b rw - ext4 x rw\n42 1 259:0 / /c rw - ext4 x rw\n";
    machine.write("proc/self/mountinfo", mounts);
    machine.write("proc/1/mountinfo", mounts);
    let holder = machine.disk().join("nvme0n1p2/holders/md7");
    fs::create_dir_all(holder).unwrap();
    let mut findings = Objections::default();
    machine
        .subject(0)
        .check_kernel_users(machine.tree.root(), &mut findings);
    let text = Refusal {
        device: "/dev/x".into(),
        reasons: findings.reasons,
    }
    .to_string();
    assert!(
        text.starts_with("refusing to write to /dev/x - 4 reasons: (1) its partition"),
        "{text}"
    );
    for says in [
        "mounted at /a;",
        "(2) its partition",
        "mounted at /b;",
        "(3) it is mounted at /c",
        "(4)",
        "md7",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(!text.contains('\n'));
}

#[test]
fn a_disk_and_its_partition_overlap_and_two_partitions_do_not() {
    let machine = Machine::new();
    let disk = machine.subject(0);
    let part = machine.subject(2);
    let bytes = Some(Overlap::Bytes);
    assert_eq!(
        [
            disk.overlaps(&part),
            part.overlaps(&disk),
            disk.overlaps(&disk)
        ],
        [bytes; 3]
    );
    let file = |name| TargetDevices::of_file(&fs::metadata(machine.write(name, "")).unwrap());
    assert_eq!(file("a").overlaps(&file("a")), bytes);
    assert_eq!(file("a").overlaps(&file("b")), None);
    assert_eq!(file("a").overlaps(&disk), None);
}

fn opener(pid: u32, mark: Option<ByteLock>) -> Opener {
    Opener {
        pid,
        command: "asd".into(),
        description: "it".into(),
        mark,
    }
}

#[test]
fn a_shared_run_accepts_other_shared_runs_and_no_other_process() {
    use ByteLock::{Exclusive, Shared};
    assert_eq!(sort_out(vec![], false).unwrap(), 0);
    let found = sort_out(vec![opener(1, Some(Shared)), opener(2, Some(Shared))], true).unwrap();
    assert_eq!(found, 2);
    for (openers, shared, says) in [
        (
            vec![opener(7, Some(Shared))],
            false,
            "another run of flashproof uses it (process 7), with --shared",
        ),
        (
            vec![opener(7, Some(Exclusive))],
            true,
            "another run of flashproof uses it (process 7), exclusively",
        ),
        (
            vec![opener(7, Some(Exclusive))],
            false,
            "another run of flashproof uses it (process 7), exclusively",
        ),
        (
            vec![opener(7, Some(Shared)), opener(8, None)],
            true,
            "it is open in process 8 (asd)",
        ),
        (
            vec![opener(8, None)],
            false,
            "it is open in process 8 (asd)",
        ),
    ] {
        let text = sort_out(openers, shared).unwrap_err().to_string();
        assert!(text.starts_with(says), "{text}");
    }
}

#[test]
fn mountinfo_is_read_with_its_optional_fields_and_escapes() {
    let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root\\134x rw,errors=continue";
    let mount = Mount::parse(line).unwrap();
    let number = DeviceNumber {
        major: 98,
        minor: 0,
    };
    assert_eq!(
        mount,
        Mount {
            number,
            mount_point: "/mnt 2".into(),
            source: "/dev/root\\x".into()
        }
    );
    assert_eq!(Mount::parse("nonsense"), None);
    assert_eq!(unescape("a\\9z\\04"), "a\\9z\\04");
}
