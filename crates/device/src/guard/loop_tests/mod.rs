//! The guard on real loop devices. Each test creates and removes its own loop device. Without root or the tools, the
//! test prints `skipped` and the reason.

mod bench;
mod beneath;
mod erase_names;
mod hidden;
mod other_process;

use super::*;
use bench::{Bench, SIZE, Undo, exists, succeed, write_through};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use sys::salt::Salt;

/// Asserts that the device is refused without consent and stays unchanged, and that its name gives consent.
fn assert_asked(bench: &Bench, why: &str) {
    let before = bench.content();
    bench.assert_refused(why);
    let text = bench.refusal();
    assert!(
        text.contains(&format!("pass `--erase {}`", bench.device)),
        "{text}"
    );
    assert!(
        before == bench.content(),
        "nothing is written before consent"
    );

    let mut asked = 0;
    let typed = bench.device.clone();
    let mut answers = EraseAnswers::default().or_ask(|question| {
        asked += 1;
        assert!(!question.evidence.is_empty());
        Some(typed.clone())
    });
    let consents = bench
        .guard()
        .consent(&[bench.request()], &mut answers)
        .unwrap();
    drop(answers);
    assert_eq!(asked, 1);
    assert!(!consents[0].erases().is_empty());
    drop(consents);
    let named = &mut EraseAnswers::named([bench.device.clone()]);
    assert!(bench.guard().consent(&[bench.request()], named).is_ok());
    assert!(before == bench.content(), "consent itself writes nothing");
}

/// Number of samples that the guard takes of a bench's device: both ends, random places, backup superblocks.
fn samples() -> usize {
    let blocks = contents::backups(SIZE)
        .into_iter()
        .map(|at| at / 4096 * 4096);
    let middle = contents::END_BYTES..SIZE - contents::END_BYTES;
    2 + SPOTS as usize
        + blocks
            .filter(|at| middle.contains(at))
            .collect::<BTreeSet<_>>()
            .len()
}

#[test]
fn an_empty_loop_device_gets_consent_without_a_question() {
    let Some(bench) = Bench::new(&[]) else { return };
    let consent = bench.consent(&bench.request()).unwrap();
    assert_eq!(
        (consent.name(), consent.size_bytes()),
        (bench.device.as_str(), SIZE)
    );
    assert!(consent.erases().is_empty() && consent.facts().serial.is_none());
    let target = crate::target::Target::writable(consent);
    assert!(target.is_direct() && target.is_odsync() && target.is_writable());
    assert!(matches!(target.min_io_bytes(), 512..=4096));
    assert_eq!(target.size_bytes(), SIZE);
}

#[test]
fn a_mounted_device_is_refused_with_its_mount_point() {
    let Some(bench) = Bench::new(&[]) else { return };
    let Some(_) = succeed("mkfs.ext4", &["-q", "-F", &bench.device]) else {
        return;
    };
    assert_asked(&bench, "an ext4 file system, UUID ");
    let at = bench.path("mount");
    std::fs::create_dir(&at).unwrap();
    let Some(_) = succeed("mount", &[&bench.device, &at]) else {
        return;
    };
    let _unmount = Undo("umount", vec![at.clone()]);
    bench.assert_refused(&format!("it is mounted at {at}; unmount it"));
    let shared = bench.consent(&bench.shared()).unwrap_err();
    assert!(
        shared.contains(&format!("it is mounted at {at}")),
        "{shared}"
    );
    let named = bench.guard().consent(
        &[bench.request()],
        &mut EraseAnswers::named([bench.device.clone()]),
    );
    assert!(
        named.unwrap_err().to_string().contains("is mounted at"),
        "no answer overrules use"
    );
}

#[test]
fn inactive_swap_space_needs_consent() {
    let Some(bench) = Bench::new(&[]) else { return };
    let Some(_) = succeed("mkswap", &[&bench.device]) else {
        return;
    };
    assert_asked(&bench, "swap space, UUID ");
}

#[test]
fn a_disk_is_refused_while_its_partition_is_in_use() {
    let Some(bench) = Bench::new(&["--partscan"]) else {
        return;
    };
    let Some((name, node, _part)) = bench.with_partition() else {
        return;
    };
    {
        let _open = other_process::hold_open(&node);
        bench.assert_refused(&format!("its partition /dev/{name} is open in process "));
    }
    let Some((at, _unmount)) = bench.mount(&node) else {
        return;
    };
    bench.assert_refused(&format!(
        "its partition /dev/{name} is mounted at {at}; unmount it"
    ));
}

#[test]
fn samples_of_a_partition_do_not_count_as_io_on_its_disk() {
    let Some(bench) = Bench::new(&["--partscan"]) else {
        return;
    };
    let Some((_, node, _part)) = bench.with_partition() else {
        return;
    };
    // Each path is a thread: the disk's watch begins well after the partition's, and would still run while the
    // partition is sampled.
    let missing = (0..1_000).map(|number| bench.path(&format!("missing-{number}")));
    let paths: Vec<_> = std::iter::once(node)
        .chain(missing)
        .chain([bench.device.clone()])
        .collect();
    let outlooks = bench.guard().examine_devices(&paths);
    for outlook in [&outlooks[0], &outlooks[paths.len() - 1]] {
        assert!(matches!(outlook.safety, EraseSafety::Yes), "{outlook:?}");
    }
}

#[test]
fn a_partition_is_refused_while_its_disk_is_in_use_or_named_too() {
    let Some(bench) = Bench::new(&["--partscan"]) else {
        return;
    };
    let Some((_, node, _part)) = bench.with_partition() else {
        return;
    };
    let part = WriteRequest::new(&node, "test");
    let both = bench
        .guard()
        .consent(
            &[bench.request(), part.clone()],
            &mut EraseAnswers::default(),
        )
        .unwrap_err();
    assert!(
        both.to_string().contains(&format!(
            "bytes in common with {}, and this run names both",
            bench.device
        )),
        "{both}"
    );
    let _open = other_process::hold_open(&bench.device);
    let text = bench.consent(&part).unwrap_err();
    assert!(
        text.contains(&format!(
            "the disk {} that it lies on is open in process",
            bench.device
        )),
        "{text}"
    );
}

#[test]
fn a_device_open_in_another_process_is_refused_with_its_number_and_name() {
    let Some(bench) = Bench::new(&[]) else { return };
    let open = other_process::hold_open(&bench.device);
    bench.assert_refused(&format!(
        "it is open in process {} (sleep); stop the program that has it open",
        open.pid()
    ));
    let shared = bench.consent(&bench.shared()).unwrap_err();
    assert!(
        shared.contains("it is open in process"),
        "a user without flashproof's mark: {shared}"
    );
    drop(open);
    assert!(bench.consent(&bench.request()).is_ok());
}

#[test]
fn a_device_with_io_of_others_is_refused_with_the_counts() {
    let Some(bench) = Bench::new(&[]) else { return };
    // The process scan skips this process, so its reads look like reads of a user that the scan cannot find.
    let device = OpenDirect::new(&bench.device);
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                device.read();
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        while reads.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let text = bench.consent(&bench.request()).map(|_| ());
        stop.store(true, Ordering::Relaxed);
        let text = text.unwrap_err();
        assert!(
            text.contains("an unknown program or driver uses it: in 200 ms it did "),
            "{text}"
        );
        assert!(
            text.contains(" reads, 0 writes and 0 discards and flushes"),
            "{text}"
        );
    });
    assert!(bench.consent(&bench.request()).is_ok());
}

struct OpenDirect(File);

impl OpenDirect {
    fn new(path: &str) -> Self {
        let target = crate::target::Target::read_only(path, 0).unwrap();
        Self(File::from(target.fd().try_clone_to_owned().unwrap()))
    }

    fn read(&self) {
        let mut buf = sys::buffer::Pool::new(4096).unwrap().cut(4096).unwrap();
        self.0.read_exact_at(&mut buf, 0).unwrap();
    }
}

#[test]
fn a_read_only_device_is_refused_and_can_still_be_read() {
    let Some(bench) = Bench::new(&["--read-only"]) else {
        return;
    };
    bench.assert_refused(
        "it is read-only (the device says so); make it writable (`blockdev --setrw`, or `mount -o remount,rw` for a file), or name another device",
    );
    let target = crate::target::Target::read_only(&bench.device, SIZE).unwrap();
    assert!(!target.is_writable() && target.is_direct() && target.size_bytes() == SIZE);
}

#[test]
fn all_reasons_are_reported_at_once() {
    let Some(bench) = Bench::new(&["--read-only"]) else {
        return;
    };
    let open = other_process::hold_open_to_read(&bench.device);
    let request = WriteRequest {
        min_size_bytes: SIZE + 1,
        ..bench.request()
    };
    let text = bench.consent(&request).unwrap_err();
    let first =
        " - 3 reasons: (1) its 33554432 bytes are less than the 33554433 bytes of one operation";
    assert!(text.contains(first), "{text}");
    assert!(
        text.contains("(2) it is read-only") && text.contains("(3) it is open in process"),
        "{text}"
    );
    drop(open);
}

#[test]
fn a_device_that_is_open_with_o_excl_is_refused() {
    let Some(bench) = Bench::new(&[]) else { return };
    // This process makes the claim, because the process scan skips it: only the kernel shows the claim.
    let claim = claim_of_nobody(&bench.device);
    bench.assert_refused("a mount, a driver or another program holds it exclusively");
    let shared = bench.consent(&bench.shared()).unwrap_err();
    assert!(shared.contains("holds it exclusively"), "{shared}");
    drop(claim);
    assert!(bench.consent(&bench.shared()).is_ok());
}

fn claim_of_nobody(device: &str) -> File {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(device)
        .unwrap()
}

#[test]
fn a_device_below_a_device_mapper_device_is_refused() {
    let Some(bench) = Bench::new(&[]) else { return };
    let name = format!("flashproof-test-{}", std::process::id());
    let table = format!("0 {} linear {} 0", SIZE / 512, bench.device);
    let Some(_) = succeed("dmsetup", &["create", &name, "--table", &table]) else {
        return;
    };
    let _remove = Undo("dmsetup", vec!["remove".into(), name.clone()]);
    let text = bench.refusal();
    assert!(
        text.contains("it is held by dm-") && text.contains(&name),
        "{text}"
    );
}

#[test]
fn a_second_run_is_refused_and_named() {
    let Some(bench) = Bench::new(&[]) else { return };
    let alone = bench.consent(&bench.request()).unwrap();
    bench.assert_refused(
        "another run of flashproof uses it, exclusively; wait until that run ends, or start all runs with --shared",
    );
    assert!(
        bench
            .consent(&bench.shared())
            .unwrap_err()
            .contains("another run of flashproof uses it, exclusively")
    );
    drop(alone);

    let other = other_process::run_on(&bench, false);
    bench.assert_refused(&format!(
        "another run of flashproof uses it (process {}), exclusively",
        other.pid()
    ));
    assert!(
        bench
            .consent(&bench.shared())
            .unwrap_err()
            .contains("), exclusively")
    );
    drop(other);
    assert!(bench.consent(&bench.request()).is_ok());
}

#[test]
fn shared_runs_share_a_device_and_keep_an_exclusive_run_out() {
    let Some(bench) = Bench::new(&[]) else { return };
    let other = other_process::run_on(&bench, true);
    let one = bench.consent(&bench.shared()).unwrap();
    let two = bench.consent(&bench.shared()).unwrap();
    assert_eq!(
        one.stamp_key(),
        two.stamp_key(),
        "fellows know each other's data"
    );
    let advice = "with --shared; wait until that run ends, or start this run with --shared, too";
    bench.assert_refused(&format!(
        "another run of flashproof uses it (process {}), {advice}",
        other.pid()
    ));
    drop((one, two, other));
    assert!(bench.consent(&bench.request()).is_ok());
}

#[test]
fn io_of_other_shared_runs_is_no_reason_to_refuse() {
    let Some(bench) = Bench::new(&[]) else { return };
    let other = other_process::run_on(&bench, true);
    let device = OpenDirect::new(&bench.device);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                device.read();
            }
        });
        let consent = bench.consent(&bench.shared());
        stop.store(true, Ordering::Relaxed);
        assert!(consent.is_ok(), "{consent:?}");
    });
    drop(other);
}

#[test]
fn a_partition_table_needs_consent() {
    let Some(bench) = Bench::new(&[]) else { return };
    let mut sector = [0; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 8, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    bench.put(0, &sector);
    assert_asked(
        &bench,
        "an MBR partition table with 1 partition; data in 1 of ",
    );
}

#[test]
fn a_file_system_without_its_partition_table_is_named_in_every_run() {
    let Some(bench) = Bench::new(&[]) else { return };
    let Some((part, detach)) = bench.attach(&bench.device, &["--offset=1048576"]) else {
        return;
    };
    let options = [
        "-q",
        "-F",
        "-L",
        "backup",
        "-M",
        "/srv",
        "-E",
        "lazy_itable_init=0,nodiscard",
        &part,
    ];
    let Some(_) = succeed("mkfs.ext4", &options) else {
        return;
    };
    // Detach only once: after that, the loop device may belong to another test.
    drop(detach);
    bench.put(0, &[0; 1 << 20]);
    for _ in 0..3 {
        let text = bench.refusal();
        let named = "an ext4 file system, label \"backup\", last mounted at \"/srv\"";
        let place = " (in a partition that began at byte 1048576); data in ";
        assert!(text.contains(named) && text.contains(place), "{text}");
        assert!(
            !text.contains("loop 2") && !text.contains("first at byte"),
            "no key of a record: {text}"
        );
    }
    // Also erases the first superblock. Its backup is 8 MiB + 1 KiB after the start of the partition.
    bench.put(1 << 20, &[0; 4 << 20]);
    let backup = "an ext4 file system, label \"backup\"";
    let at = (1 << 20) + (8 << 20) + 1024 + 0x38;
    let text = bench.refusal();
    assert!(
        text.contains(backup) && text.contains(&format!("(backup superblock at byte {at})")),
        "{text}"
    );
    bench.put(0, &[0; 1 << 20]);
    bench.put(1 << 20, b"\x0d\xd0\x01\xc0");
    assert!(bench.refusal().contains("a VMFS volume"));
}

#[test]
fn an_aerospike_header_needs_consent_and_is_named_by_its_namespace() {
    let Some(bench) = Bench::new(&[]) else { return };
    let mut header = 0x4349_7472_7573_0322_u64.to_le_bytes().to_vec();
    header.extend([4, 0, 0, 0]);
    header.extend(b"users\0");
    bench.put(0, &header);
    assert_asked(
        &bench,
        "an Aerospike device header of namespace \"users\"; data in 1 of ",
    );
}

#[test]
fn a_sample_that_is_not_zero_needs_consent() {
    let Some(bench) = Bench::new(&[]) else { return };
    bench.put(SIZE - 1, &[1]);
    let why = "flashproof has no record of a write to the device (loop ";
    bench.assert_refused(&format!(
        "data of no known format in 1 of {} samples, first at byte {}: {why}",
        samples(),
        SIZE - 512
    ));
    assert_asked(&bench, "data of no known format in 1 of ");
}

#[test]
fn a_use_that_begins_during_the_question_is_noticed() {
    let Some(bench) = Bench::new(&[]) else { return };
    bench.put(0, &[1]);
    let mut stranger = None;
    let mut answers = EraseAnswers::default().or_ask(|question| {
        stranger = Some(other_process::hold_open(&bench.device));
        Some(question.name.to_owned())
    });
    let text = bench
        .guard()
        .consent(&[bench.request()], &mut answers)
        .unwrap_err()
        .to_string();
    assert!(text.contains("it is open in process"), "{text}");
    drop(answers);
    drop(stranger);

    let mut answers = EraseAnswers::default().or_ask(|question| {
        std::fs::OpenOptions::new()
            .write(true)
            .open(bench.path("image"))
            .unwrap()
            .set_len(SIZE / 2)
            .unwrap();
        succeed("losetup", &["--set-capacity", &bench.device]);
        Some(question.name.to_owned())
    });
    let text = bench
        .guard()
        .consent(&[bench.request()], &mut answers)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(
            "it changed after it was examined: it had 33554432 bytes and has 16777216 now"
        ),
        "{text}"
    );
}

#[test]
fn data_stamped_with_the_devices_key_needs_no_consent_and_data_of_another_key_does() {
    let Some(bench) = Bench::new(&[]) else { return };
    let consent = bench.consent(&bench.request()).unwrap();
    let key = consent.stamp_key();
    let mut ours = vec![0; 4 << 20];
    Salt::new(1, 100, key).fill(&mut ours);
    write_through(consent, 0, &ours);
    let again = bench.consent(&bench.request()).unwrap();
    assert_eq!(again.stamp_key(), key);
    assert!(again.erases().is_empty());

    let mut foreign = vec![0; 4096];
    Salt::new(1, 100, key ^ 2).fill(&mut foreign);
    write_through(again, 8192, &foreign);
    let why = "the data lacks the stamp of flashproof's writes to the device (loop ";
    bench.assert_refused(&format!(
        "data of no known format in 1 of {} samples, first at byte 8192: {why}",
        samples()
    ));
}

#[test]
fn after_the_loss_of_its_record_flashproof_asks_before_it_erases_its_own_data() {
    let Some(bench) = Bench::new(&[]) else { return };
    let consent = bench.consent(&bench.request()).unwrap();
    let mut ours = vec![0; 4096];
    Salt::new(1, 100, consent.stamp_key()).fill(&mut ours);
    write_through(consent, 0, &ours);
    std::fs::remove_dir_all(bench.path("state")).unwrap();
    let why = "flashproof has no record of a write to the device (loop ";
    assert_asked(
        &bench,
        &format!(
            "data of no known format in 1 of {} samples, first at byte 0: {why}",
            samples()
        ),
    );
}

#[test]
fn one_refused_device_refuses_the_whole_request_and_no_file_is_created() {
    let Some(bench) = Bench::new(&[]) else { return };
    bench.put(0, &[1]);
    let file = bench.path("new");
    let requests = [
        WriteRequest {
            file_size_bytes: Some(1 << 20),
            ..WriteRequest::new(&file, "test")
        },
        bench.request(),
    ];
    let refused = bench
        .guard()
        .consent(&requests, &mut EraseAnswers::default())
        .unwrap_err();
    assert_eq!(refused.0.len(), 1);
    assert_eq!(refused.0[0].device, bench.device);
    assert!(!exists(&file));
}

#[test]
fn a_host_managed_zoned_device_is_never_written_to() {
    for (model, is_refused) in [
        ("none\n", false),
        ("host-aware\n", false),
        ("host-managed\n", true),
    ] {
        let Some(bench) = Bench::new(&[]) else { return };
        bench.pose(&bench.device, "sdz", &[("queue/zoned", model)]);
        let before = bench.content();
        let named = &mut EraseAnswers::named([bench.device.clone()]);
        let refusal = bench
            .guard_of_posed()
            .consent(&[bench.request()], named)
            .err()
            .map(|refused| refused.to_string());
        let why = format!(
            "refusing to write to {} - it is a zoned device (queue/zoned in sysfs is host-managed)",
            bench.device
        );
        assert_eq!(
            refusal.as_ref().is_some_and(|text| text.starts_with(&why)),
            is_refused,
            "{model}: {refusal:?}"
        );
        assert!(refusal.is_none() || is_refused, "{model}: {refusal:?}");
        assert!(before == bench.content());
    }
}
