//! The checks against fake trees of /proc and /sys.

use super::super::refusal::Refusal;
use super::*;
use crate::discover::discover_block_for_tests;
use crate::discover::tests::fake_nvme;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

/// A machine with one NVMe drive, nothing mounted and no process.
struct Machine {
    dir: TempDir,
    roots: Roots,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
        fake_nvme(&roots.sys);
        let machine = Self { dir, roots };
        machine.write("proc/self/mountinfo", "");
        machine.write("proc/1/mountinfo", "");
        machine.write("proc/swaps", "Filename Type Size Used Priority\n");
        machine
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn disk(&self) -> PathBuf {
        fs::canonicalize(self.roots.sys.join("dev/block/259:0")).unwrap()
    }

    fn subject(&self, minor: u32) -> Subject {
        let number = DevNum { major: 259, minor };
        let dir = SysDir::of_block(&self.roots.sys, number).unwrap();
        Subject::of_device(&discover_block_for_tests(number, &self.roots), number, &dir, &self.roots)
    }

    fn refusal(&self, minor: u32) -> Option<String> {
        let found = refusals(&self.subject(minor), self);
        (!found.is_empty()).then(|| found.join(" | "))
    }
}

fn refusals(subject: &Subject, machine: &Machine) -> Vec<String> {
    let mut findings = Findings::default();
    subject.check_kernel_users(&machine.roots, &mut findings);
    findings.reasons.iter().map(ToString::to_string).collect()
}

#[test]
fn a_device_that_nobody_uses_passes() {
    let machine = Machine::new();
    assert_eq!(machine.refusal(0), None);
    assert_eq!(machine.refusal(2), None);
}

#[test]
fn a_mount_counts_for_the_disk_the_partition_and_whoever_sees_it() {
    let mount = "40 1 259:2 / /data\\040one rw,relatime shared:5 - ext4 /dev/nowhere rw\n";
    for (file, seen_by) in [("proc/self/mountinfo", ";"), ("proc/1/mountinfo", ", as process 1 sees it;")] {
        let machine = Machine::new();
        machine.write(file, mount);
        let disk = machine.refusal(0).unwrap();
        assert!(disk.starts_with(&format!("its partition /dev/nvme0n1p2 is mounted at /data one{seen_by}")), "{disk}");
        let partition = machine.refusal(2).unwrap();
        assert!(partition.starts_with("it is mounted at /data one"), "{partition}");
    }
}

#[test]
fn a_disk_that_is_mounted_whole_counts_for_its_partition() {
    let machine = Machine::new();
    machine.write("proc/self/mountinfo", "40 1 259:0 / /mnt rw - xfs /dev/nowhere rw\n");
    let text = machine.refusal(2).unwrap();
    assert!(text.starts_with("the disk /dev/nvme0n1 that it lies on is mounted at /mnt"), "{text}");
}

#[test]
fn mounts_of_other_devices_do_not_count() {
    let machine = Machine::new();
    machine.write("proc/self/mountinfo", "40 1 259:1 / /mnt rw - xfs /dev/nowhere rw\n41 1 0:5 / /t rw - tmpfs t rw\n");
    assert_eq!(machine.refusal(0), None);
}

#[test]
fn holders_are_named_with_what_they_are() {
    let machine = Machine::new();
    for (holder, what, says) in [
        ("dm-3", Some(("vg-data", "LVM-abcdef")), "dm-3 (LVM vg-data)"),
        ("dm-4", Some(("secret", "CRYPT-LUKS2-1")), "dm-4 (CRYPT secret)"),
        ("md127", None, "md127 (software RAID)"),
        ("bcache0", None, "bcache0"),
    ] {
        let target = machine.dir.path().join("holders").join(holder);
        fs::create_dir_all(target.join("dm")).unwrap();
        if let Some((name, uuid)) = what {
            fs::write(target.join("dm/name"), name).unwrap();
            fs::write(target.join("dm/uuid"), uuid).unwrap();
        }
        let link = machine.disk().join("nvme0n1p2/holders").join(holder);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        let text = machine.refusal(0).unwrap();
        assert!(text.starts_with(&format!("its partition /dev/nvme0n1p2 is held by {says};")), "{text}");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_file_behind_a_loop_device_is_held() {
    let machine = Machine::new();
    let file = machine.write("image", "");
    machine.write("sys/block/loop9/loop/backing_file", &format!("{}\n", file.display()));
    let subject = Subject::of_file(&fs::metadata(&file).unwrap());
    let text = refusals(&subject, &machine).join(" | ");
    assert!(text.starts_with("it is held by the loop device loop9;"), "{text}");
}

#[test]
fn a_swap_file_is_swap() {
    let machine = Machine::new();
    let file = machine.write("swap file", "");
    let line = format!("{} file 1 0 -1\n", file.display().to_string().replace(' ', "\\040"));
    machine.write("proc/swaps", &format!("Filename Type Size Used Priority\n{line}"));
    let subject = Subject::of_file(&fs::metadata(&file).unwrap());
    let text = refusals(&subject, &machine).join(" | ");
    assert!(text.starts_with("it is used as swap; turn it off (`swapoff "), "{text}");
}

#[test]
fn what_could_not_be_read_is_said_once() {
    let machine = Machine::new();
    fs::remove_file(machine.roots.proc.join("1/mountinfo")).unwrap();
    let mut findings = Findings::default();
    machine.subject(0).check_kernel_users(&machine.roots, &mut findings);
    machine.subject(0).check_kernel_users(&machine.roots, &mut findings);
    let notes = &findings.notes;
    assert!(matches!(&notes[..], [one] if one.contains("1/mountinfo could not be read")), "{notes:?}");
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
    let mut findings = Findings::default();
    machine.subject(0).check_kernel_users(&machine.roots, &mut findings);
    let text = Refusal { device: "/dev/x".into(), reasons: findings.reasons }.to_string();
    assert!(text.starts_with("refusing to write to /dev/x - 4 reasons: (1) its partition"), "{text}");
    for says in ["mounted at /a;", "(2) its partition", "mounted at /b;", "(3) it is mounted at /c", "(4)", "md7"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(!text.contains('\n'));
}

#[test]
fn a_disk_and_its_partition_overlap_and_two_partitions_do_not() {
    let machine = Machine::new();
    let (disk, part) = (machine.subject(0), machine.subject(2));
    assert!(disk.overlaps(&part) && part.overlaps(&disk) && disk.overlaps(&disk));
    let file = |name| Subject::of_file(&fs::metadata(machine.write(name, "")).unwrap());
    assert!(file("a").overlaps(&file("a")) && !file("a").overlaps(&file("b")) && !file("a").overlaps(&disk));
}

fn opener(pid: u32, mark: Option<Mark>) -> Opener {
    Opener { pid, command: "asd".into(), which: "it".into(), mark }
}

#[test]
fn only_shared_runs_tolerate_only_shared_runs() {
    use Mark::{Alone, Shared};
    assert_eq!(sort_out(vec![], false).unwrap(), 0);
    assert_eq!(sort_out(vec![opener(1, Some(Shared)), opener(2, Some(Shared))], true).unwrap(), 2);
    for (openers, shared, says) in [
        (vec![opener(7, Some(Shared))], false, "another run is on it (process 7), shared"),
        (vec![opener(7, Some(Alone))], true, "another run is on it (process 7), alone"),
        (vec![opener(7, Some(Alone))], false, "another run is on it (process 7), alone"),
        (vec![opener(7, Some(Shared)), opener(8, None)], true, "it is open in process 8 (asd)"),
        (vec![opener(8, None)], false, "it is open in process 8 (asd)"),
    ] {
        let text = sort_out(openers, shared).unwrap_err().to_string();
        assert!(text.starts_with(says), "{text}");
    }
}

#[test]
fn mountinfo_is_read_with_its_optional_fields_and_escapes() {
    let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root\\134x rw,errors=continue";
    let mount = Mount::parse(line).unwrap();
    let number = DevNum { major: 98, minor: 0 };
    assert_eq!(mount, Mount { number, at: "/mnt 2".into(), source: "/dev/root\\x".into() });
    assert_eq!(Mount::parse("nonsense"), None);
    assert_eq!(unescape("a\\9z\\04"), "a\\9z\\04");
}
