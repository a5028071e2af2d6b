//! Checks on fake trees: each in a bad and in a good state.

use super::*;
use crate::discover::tests::fake_nvme;
use crate::fake_tree::FakeTree;
use crate::observe::nvme::Smart;
use results::assert_contains;
use results::finding::Severity::{self, Note, Ok, Problem, Unknown, Warning};
use results::testing::modified;
use results::testing::table;
use std::fs;

/// The device is called `/dev/x`.
pub(super) fn all(check: impl FnOnce(&mut Findings)) -> Vec<Finding> {
    let mut findings = Findings {
        device: Some("/dev/x".to_owned()),
        ..Findings::default()
    };
    check(&mut findings);
    findings.findings
}

pub(super) fn only(check: impl FnOnce(&mut Findings)) -> Finding {
    let findings = all(check);
    let [finding] = &findings[..] else {
        panic!("one finding: {findings:?}")
    };
    finding.clone()
}

/// A machine with one NVMe drive and no faults. Each test adds a fault.
struct Machine(FakeTree);

/// The drive's directories below `sys`.
const DISK: &str = "devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1";
const PCI: &str = "devices/pci0000:00/0000:00:04.0";

impl Machine {
    fn new() -> Self {
        let machine = Self(FakeTree::with_files(&[]));
        let sys = machine.0.path("sys");
        fake_nvme(&machine.0);
        machine.0.link("sys/block/nvme0n1", sys.join(DISK));
        machine.0.link(
            "sys/class/block/nvme0n1p2",
            sys.join(DISK).join("nvme0n1p2"),
        );
        let files = [
            ("proc/cpuinfo", "model name\t: X\nflags\t\t: fpu\n"),
            ("proc/stat", "cpu  100 0 0 900 0 0 0 0 0 0\n"),
            ("proc/sys/kernel/io_uring_disabled", "0\n"),
            (
                "proc/self/limits",
                "Max locked memory         unlimited            unlimited            bytes\n",
            ),
            (
                "proc/self/status",
                "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t4-7\n",
            ),
            ("proc/self/mountinfo", ""),
            ("proc/1/mountinfo", ""),
            ("proc/1/comm", "systemd\n"),
            ("proc/77/comm", "irqbalance\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("sys/kernel/irq/30/actions", "nvme0q0\n"),
            ("sys/kernel/irq/31/actions", "nvme0q1\n"),
            ("sys/kernel/irq/32/actions", "nvme0q2\n"),
            ("sys/kernel/irq/30/per_cpu_count", "1,0,0,0,0,0,0,0\n"),
            ("sys/kernel/irq/31/per_cpu_count", "40000,0,0,0,0,0,0,0\n"),
            ("sys/kernel/irq/32/per_cpu_count", "0,0,0,0,41000,0,0,0\n"),
            ("proc/irq/30/effective_affinity_list", "0\n"),
            ("proc/irq/31/effective_affinity_list", "0\n"),
            ("proc/irq/32/effective_affinity_list", "4\n"),
            ("sys/devices/system/cpu/online", "0-7\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            ),
            (
                "sys/devices/system/clocksource/clocksource0/available_clocksource",
                "tsc hpet acpi_pm\n",
            ),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node1/cpulist", "4-7\n"),
            ("sys/class/hwmon/hwmon0/name", "nvme\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", "41850\n"),
            ("sys/class/hwmon/hwmon0/temp1_max", "69850\n"),
            ("sys/class/hwmon/hwmon0/temp1_crit", "79850\n"),
        ];
        machine.0.write_all("", &files);
        machine.0.link(
            "sys/class/hwmon/hwmon0/device",
            sys.join(DISK).parent().unwrap(),
        );
        let files = [
            ("msi_irqs/30", "msix\n"),
            ("msi_irqs/31", "msix\n"),
            ("msi_irqs/32", "msix\n"),
            ("current_link_speed", "16.0 GT/s PCIe\n"),
            ("current_link_width", "4\n"),
            ("max_link_speed", "16.0 GT/s PCIe\n"),
            ("max_link_width", "4\n"),
        ];
        machine.0.write_all(format!("sys/{PCI}"), &files);
        // fake_nvme puts the drive on NUMA node 1, and leaves the controller's node at -1.
        machine.write(&format!("sys/{PCI}/nvme/nvme0/numa_node"), "1\n");
        machine.write(&format!("sys/{DISK}/queue/write_cache"), "write through\n");
        machine.write(&format!("sys/{DISK}/queue/logical_block_size"), "4096\n");
        machine
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    fn doctor(&self) -> Doctor {
        // A SMART log of zeros: no warnings, and the available spare (0 %) is not below its threshold (0 %).
        Doctor {
            smart_reader: |_| std::result::Result::Ok(Smart::parse(&[0; 512])),
            ..Doctor::new(self.0.root())
        }
    }

    fn examine(&self, device: &str) -> Vec<Finding> {
        self.doctor().examine(&[device], None)
    }

    #[track_caller]
    fn finding(&self, device: &str, check: &str) -> Finding {
        let findings = self.examine(device);
        let found: Vec<&Finding> = findings
            .iter()
            .filter(|finding| finding.check == check)
            .collect();
        let [finding] = found[..] else {
            panic!("one {check}: {findings:#?}")
        };
        finding.clone()
    }
}

const DRIVE: &str = "/dev/nvme0n1";

#[track_caller]
fn assert_finding(finding: &Finding, level: &str, says: &str, case: &str) {
    let is_expected = format!("{:?}", finding.level) == level && finding.finding.contains(says);
    assert!(is_expected, "{case}: {finding:#?}");
}

#[track_caller]
fn assert_has_reason(finding: &Finding) {
    assert!(
        finding.level == Ok || !finding.reason.is_empty(),
        "no reason: {finding:#?}"
    );
}

/// `disk/`, `nvme/` and `pci/` are the directories of the drive, its controller and the controller's PCI device.
fn path_in_tree(name: &str) -> String {
    match name.split_once('/') {
        Some(("disk", file)) => format!("sys/{DISK}/{file}"),
        Some(("nvme", file)) => format!("sys/{PCI}/nvme/nvme0/{file}"),
        Some(("pci", file)) => format!("sys/{PCI}/{file}"),
        _ => name.to_owned(),
    }
}

#[test]
fn on_a_machine_without_faults_the_only_warning_is_the_missing_preparation() {
    let findings = Machine::new().examine(DRIVE);
    let worse: Vec<(&str, Severity)> = findings
        .iter()
        .filter(|finding| finding.level != Ok)
        .map(|finding| (finding.check.as_str(), finding.level))
        .collect();
    // `cpu-busy` is unknown, because /proc/stat of the fake tree does not change.
    let expected = [
        ("cpu-busy", Unknown),
        ("over-provisioning", Note),
        ("preparation", Warning),
    ];
    assert_eq!(worse, expected, "{findings:#?}");
}

/// Columns: a file of the fake tree, its line (or `missing`), the check, and the level and text of the expected finding.
const BAD_STATES: &str = r"
    proc/sys/kernel/io_uring_disabled | 2 | io-uring | Warning | kernel.io_uring_disabled is 2
    proc/sys/kernel/io_uring_disabled | missing | io-uring | Unknown | does not report
    proc/self/limits | Max locked memory         65536            65536            bytes | memlock | Warning | only 64 KiB may be locked
    proc/self/limits | missing | memlock | Unknown | cannot be read
    sys/devices/system/cpu/cpu0/cpufreq/scaling_governor | powersave | cpu-governor | Warning | governor powersave
    sys/devices/system/cpu/cpu0/cpufreq/scaling_governor | missing | cpu-governor | Unknown | no frequency governor
    sys/devices/system/clocksource/clocksource0/current_clocksource | hpet | clock-source | Warning | the clock is hpet
    sys/devices/system/clocksource/clocksource0/current_clocksource | acpi_pm | clock-source | Warning | the clock is acpi_pm
    sys/devices/system/clocksource/clocksource0/current_clocksource | kvm-clock | clock-source | Ok | kvm-clock
    sys/devices/system/clocksource/clocksource0/current_clocksource | missing | clock-source | Unknown | cannot be read
    proc/cpuinfo | flags\t\t: hypervisor | hypervisor | Note | virtual machine (unnamed)
    proc/77/comm | bash | irqbalance | Note | not running
    proc/stat | cpu  100 0 0 800 0 0 0 100 0 0 | cpu-steal | Warning | 10.0 % of CPU time
    proc/stat | missing | cpu-steal | Unknown | no CPU times
    proc/irq/32/effective_affinity_list | 0 | interrupts | Warning | to CPU 0, one of 8 CPUs
    proc/irq/32/effective_affinity_list | missing | interrupts | Unknown | are unknown
    pci/msi_irqs | missing | interrupts | Unknown | not listed
    disk/queue/scheduler | none [mq-deadline] kyber | io-scheduler | Warning | nvme0n1 is mq-deadline
    disk/queue/scheduler | missing | io-scheduler | Unknown | cannot be read
    disk/queue/write_cache | write back | write-cache | Note | volatile write cache (write back)
    disk/queue/write_cache | missing | write-cache | Unknown | does not report
    disk/queue/logical_block_size | 512 | sector-sizes | Note | its logical sectors have 512 bytes
    disk/queue/physical_block_size | missing | sector-sizes | Unknown | does not report
    disk/queue/rotational | 1 | medium | Warning | hard disk (queue/rotational is 1)
    proc/self/status | Cpus_allowed_list:\t0-3 | numa-node | Warning | may only run on CPUs 0-3
    proc/self/status | Cpus_allowed_list:\t0-7 | numa-node | Note | may run on CPUs 0-7
    proc/self/status | missing | numa-node | Unknown | cannot be read
    sys/devices/system/node/online | 0 | numa-node | Ok | one NUMA node
    pci/current_link_width | 2 | pcie-link | Warning | 16 GT/s x2 (3.9 GB/s); the drive supports 16 GT/s x4 (7.9 GB/s)
    pci/current_link_speed | 8.0 GT/s PCIe | pcie-link | Warning | 8 GT/s x4
    pci/current_link_speed | Unknown | pcie-link | Unknown | is unknown
    pci/current_link_speed | missing | pcie-link | Unknown | does not report the speed
    nvme/firmware_rev | missing | firmware | Unknown | the firmware of ACME Fast 1TB
    nvme/transport | tcp | device-kind | Warning | over a network (nvme-tcp)
    disk/size | 0 | device | Problem | nothing is attached
    nvme/model | Amazon Elastic Block Store | device-kind | Warning | over a network (model Amazon Elastic Block Store)
    nvme/model | QEMU NVMe Ctrl | device-kind | Note | a virtual disk
    sys/class/hwmon/hwmon0/temp1_input | 61000 | temperature | Warning | the temperature is 61 degrees
    sys/class/hwmon/hwmon0/temp1_input | 80000 | temperature | Problem | critical at 80
    sys/class/hwmon/hwmon0/temp1_input | ? | temperature | Unknown | does not answer
    sys/class/hwmon/hwmon0/name | k10temp | temperature | Unknown | has no temperature sensor
    disk/stat | 10 0 80 0 20 0 160 0 3 0 0 | other-activity | Warning | 3 in flight
    disk/stat | missing | other-activity | Unknown | no I/O counters
    disk/holders/md0/x |  | in-use | Problem | it is held by md0 (software RAID)
    proc/self/mountinfo | 22 1 259:2 / /data rw - ext4 /dev/nvme0n1p2 rw | in-use | Problem | its partition /dev/nvme0n1p2 is mounted at /data
    proc/self/mountinfo | missing | in-use | Unknown | could not be read
";

#[test]
fn each_bad_state_is_reported_by_its_check() {
    let as_it_should_be = Machine::new().examine(DRIVE);
    for [file, line, check, level, says] in table(BAD_STATES) {
        let machine = Machine::new();
        let path = path_in_tree(file);
        match line {
            "missing" => machine.0.remove(&path),
            _ => machine.write(&path, &format!("{}\n", line.replace("\\t", "\t"))),
        }
        let finding = machine.finding(DRIVE, check);
        assert_finding(&finding, level, says, &format!("{file} {line}"));
        assert_has_reason(&finding);
        assert!(
            !as_it_should_be.contains(&finding),
            "not by {file}: {finding:#?}"
        );
    }
}

#[test]
fn a_partition_is_reported_with_its_position_and_the_free_space_of_its_disk() {
    let machine = Machine::new();
    let part = "/dev/nvme0n1p2";
    let finding = machine.finding(part, "alignment");
    assert_eq!(
        (finding.level, finding.finding.as_str()),
        (Ok, "it begins at byte 512000, a multiple of 4096")
    );
    let finding = machine.finding(part, "over-provisioning");
    assert!(
        finding.level == Ok
            && finding
                .finding
                .starts_with("75.0 % of its disk is in no partition"),
        "{finding:?}"
    );
    machine.write(&format!("sys/{DISK}/nvme0n1p2/start"), "63\n");
    let finding = machine.finding(part, "alignment");
    assert!(
        finding.level == Warning
            && finding
                .finding
                .contains("byte 32256, which is not a multiple of 4096"),
        "{finding:?}"
    );
    machine.write(&format!("sys/{DISK}/nvme0n1p2/start"), "64\n");
    machine.write(&format!("sys/{DISK}/nvme0n1p2/alignment_offset"), "3584\n");
    assert_eq!(machine.finding(part, "alignment").level, Warning);
    machine.write(&format!("sys/{DISK}/nvme0n1p2/size"), "1999\n");
    assert_eq!(machine.finding(part, "over-provisioning").level, Note);
}

#[test]
fn a_slow_slot_is_distinguished_from_a_bad_contact() {
    let machine = Machine::new();
    machine.write(&format!("sys/{PCI}/current_link_width"), "2\n");
    let port = |speed: &str, width: &str| {
        machine.write("sys/devices/pci0000:00/max_link_speed", speed);
        machine.write("sys/devices/pci0000:00/max_link_width", width);
        machine.finding(DRIVE, "pcie-link")
    };
    let slot = port("16.0 GT/s PCIe", "2");
    assert!(
        slot.finding.contains("supports only 16 GT/s x2") && slot.remedy.contains("faster slot"),
        "{slot:?}"
    );
    let contact = port("16.0 GT/s PCIe", "16");
    assert!(
        contact.finding.contains("and the port above it") && contact.remedy.contains("reseat"),
        "{contact:?}"
    );
}

#[test]
fn controllers_between_host_and_drive_are_named_by_their_driver() {
    let controllers = r"
        megaraid_sas | Warning | a RAID controller (megaraid_sas) is between
        mpt3sas      | Note    | a host bus adapter (mpt3sas) is between
        vmd          | Note    | Intel VMD
        nvme         | Ok      | no RAID controller
    ";
    for [driver, level, says] in table(controllers) {
        let machine = Machine::new();
        machine.0.link(
            format!("sys/{PCI}/driver"),
            format!("sys/bus/pci/drivers/{driver}"),
        );
        assert_finding(&machine.finding(DRIVE, "controller"), level, says, driver);
    }
}

#[test]
fn the_attachment_of_a_device_is_recognised_by_its_path_in_sysfs() {
    let places = r"
        virtual/block/loop3 | Warning | a loop device
        virtual/block/zram1 | Warning | in memory
        virtual/block/ram0 | Warning | in memory
        virtual/block/nbd0 | Warning | over a network (nbd0)
        rbd/0/block/rbd0 | Warning | over a network (rbd0)
        virtual/block/dm-0 | Warning | on other devices (dm-0)
        virtual/block/md127 | Warning | on other devices (md127)
        platform/host3/session1/target3:0:0/3:0:0:1/block/sdb | Warning | over a network (iSCSI session1)
        pci0000:00/host7/rport-7:0-2/target7:0:0/7:0:0:0/block/sdc | Warning | Fibre Channel rport-7:0-2
        LNXSYSTM:00/VMBUS:00/host0/target0:0:0/0:0:0:0/block/sda | Note | Hyper-V VMBUS:00
        pci0000:00/0000:00:02.0/virtio1/block/vdb | Note | a virtual disk (vdb)
        pci0000:00/ata3/host2/target2:0:0/2:0:0:0/block/sdd | Ok | attached by sata
        pci0000:00/end_device-1:0/target1:0:0/1:0:0:0/block/sde | Ok | attached by sas
        something/block/xyz | Unknown | does not report how it is attached
    ";
    for [place, level, says] in table(places) {
        let machine = Machine::new();
        let name = place.rsplit('/').next().unwrap();
        let dir = format!("sys/devices/{place}");
        machine
            .0
            .write_all(&dir, &[("dev", "8:0\n"), ("size", "800\n")]);
        machine.0.link(format!("sys/class/block/{name}"), &dir);
        machine.0.block("8:0", &dir);
        let finding = machine.finding(&format!("/dev/{name}"), "device-kind");
        assert_finding(&finding, level, says, place);
    }
}

#[test]
fn a_preparation_is_recognised_by_its_record_and_its_data() {
    use crate::guard::{
        PreparationRecord, PreparedSamples, SampleReader, VerifiedSample, prepared_for_tests,
    };
    const SHOWN: SampleReader = |_, _, _| {
        std::result::Result::Ok(PreparedSamples {
            places: 100,
            stamped: 100,
            ..PreparedSamples::default()
        })
    };
    const EMPTY: SampleReader = |_, _, _| {
        std::result::Result::Ok(PreparedSamples {
            places: 100,
            empty: 100,
            ..PreparedSamples::default()
        })
    };
    const UNREAD: SampleReader = |_, _, _| Err("no permission".to_owned());
    let machine = Machine::new();
    let state = tempfile::tempdir().unwrap();
    let records = || Records::open(Some(state.path().to_path_buf()));
    let identity = "wwid eui.0025385b21404321";
    records().keep(identity, 1_024_000, "preparation").unwrap();
    let examined = |sample_reader| {
        Doctor {
            records: records(),
            sample_reader,
            ..machine.doctor()
        }
        .examine(&[DRIVE], None)
    };
    let level = |findings: &[Finding], check: &str| {
        findings.iter().find(|it| it.check == check).unwrap().level
    };
    let levels_of = |findings: Vec<Finding>| {
        (
            level(&findings, "preparation"),
            level(&findings, "over-provisioning"),
        )
    };
    let levels = || levels_of(examined(SHOWN));
    assert_eq!(levels(), (Warning, Note), "written to, but not prepared");
    let whole = PreparationRecord {
        size_bytes: 1_024_000,
        used_bytes: 1_024_000,
        ..prepared_for_tests(DRIVE, 1)
    };
    let keep = |prepared: &PreparationRecord| records().keep_prepared(identity, prepared).unwrap();
    keep(&modified(whole.clone(), |it| it.ended_unix_s = None));
    assert_eq!(levels(), (Warning, Note), "not complete");
    keep(&modified(whole.clone(), |it| it.ended_unix_s = Some(2)));
    assert_eq!(levels(), (Ok, Note));
    assert_eq!(levels_of(examined(EMPTY)), (Warning, Note));
    assert_eq!(levels_of(examined(UNREAD)), (Unknown, Note));
    keep(&PreparationRecord {
        ended_unix_s: Some(2),
        fills: 0,
        ..whole.clone()
    });
    assert_eq!(levels(), (Note, Note), "zeros only");
    keep(&PreparationRecord {
        ended_unix_s: Some(2),
        used_bytes: 819_200,
        rest_discarded: true,
        ..whole.clone()
    });
    assert_eq!(levels(), (Ok, Ok));
    keep(&PreparationRecord {
        ended_unix_s: Some(2),
        used_bytes: 819_200,
        rest_discarded: false,
        ..whole
    });
    assert_eq!(levels(), (Ok, Note), "the rest still holds data");

    let has_failed = || {
        examined(SHOWN)
            .into_iter()
            .find(|finding| finding.check == "read-back")
    };
    assert_eq!(has_failed(), None);
    let failed = VerifiedSample {
        spots: 9,
        bytes: 9,
        mismatches: 2,
        first_mismatch: Some(4096),
        unix_s: 1_795_271_232,
    };
    let recorded = records().prepared(identity, 1_024_000).unwrap();
    records().keep_sample(identity, &recorded, &failed).unwrap();
    keep(&recorded);
    let finding = has_failed().expect("a later preparation does not clear it");
    let says = "found other data than written: 2 of 9 places, the first at byte 4096 (2026-11-21 14:27 UTC)";
    assert!(
        finding.level == Problem && finding.finding.ends_with(says),
        "{finding:?}"
    );
    assert!(
        finding.remedy.contains(state.path().to_str().unwrap()),
        "{finding:?}"
    );
}

#[test]
fn an_empty_machine_and_an_absent_device_give_findings_and_no_error() {
    let empty = tempfile::tempdir().unwrap();
    let findings = examine(
        empty.path(),
        &[DRIVE, "", "../..", "/dev/"],
        Some(&empty.path().join("none/yet")),
    );
    let about = |device: &str| {
        findings
            .iter()
            .filter(|finding| finding.device.as_deref() == Some(device))
            .collect::<Vec<_>>()
    };
    for name in [DRIVE, "", "../..", "/dev/"] {
        let found = about(name);
        assert!(
            found.len() == 1 && found[0].check == "device" && found[0].level == Problem,
            "{name}: {found:?}"
        );
        assert!(
            found[0].finding.contains("no such device") && !found[0].remedy.is_empty(),
            "{found:?}"
        );
    }
    let host = findings.iter().filter(|finding| finding.device.is_none());
    assert!(host.clone().any(|finding| finding.level == Unknown) && host.count() > 5);
}

#[test]
fn this_machine_can_be_examined() {
    let (disks, _) = crate::discover::list(Path::new("/"));
    let mut names: Vec<String> = disks.into_iter().map(|listed| listed.disk).collect();
    names.extend(["/dev/null", "/tmp", "/dev/no-such-device", "/proc/self/exe"].map(str::to_owned));
    let findings = examine(Path::new("/"), &names, Some(Path::new(".")));
    let problem = |name: &str| {
        findings
            .iter()
            .find(|finding| finding.device.as_deref() == Some(name))
            .unwrap()
    };
    assert!(
        problem("/dev/null").finding.contains("a character device"),
        "{:?}",
        problem("/dev/null")
    );
    assert!(
        problem("/tmp").finding.contains("a directory"),
        "{:?}",
        problem("/tmp")
    );
    assert_contains!(problem("/dev/no-such-device").finding, "no such device");
    for finding in &findings {
        assert!(
            !finding.finding.is_empty() && !finding.finding.contains('\n'),
            "{finding:?}"
        );
        assert_has_reason(finding);
    }
}

#[test]
fn a_run_directory_on_the_device_under_test_is_reported() {
    use std::os::unix::fs::MetadataExt;
    let machine = Machine::new();
    let dir = tempfile::tempdir().unwrap();
    let place = |findings: Vec<Finding>| {
        let placed = findings
            .into_iter()
            .filter(|finding| finding.check == "run-directory-place");
        placed.map(|finding| finding.finding).collect::<String>()
    };
    assert!(
        !place(machine.doctor().examine(&[DRIVE], Some(dir.path())))
            .contains("the device under test")
    );
    let number = crate::discover::DeviceNumber::of_stat(fs::metadata(dir.path()).unwrap().dev());
    machine.write(&format!("sys/{DISK}/nvme0n1p2/dev"), &format!("{number}\n"));
    let told = place(
        machine
            .doctor()
            .examine(&[DRIVE], Some(&dir.path().join("not/yet/there"))),
    );
    assert_contains!(told, "the run directory is on the device under test");
}
