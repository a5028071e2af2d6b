//! Tests of devices below and beside the target: backing files of loop devices, and other users of these files.

use super::super::claim::{is_busy, retry};
use super::super::target_devices::Relation;
use super::*;
use crate::discover::DeviceNumber;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

fn kernel_name(device: &str) -> &str {
    device.trim_start_matches("/dev/")
}

/// Asserts that `request` is refused although the user consents to the erasure, and that the bench's file is unchanged.
#[track_caller]
fn assert_refused_whatever_is_said(bench: &Bench, request: &WriteRequest, why: &[&str]) {
    let before = fs::read(bench.path("image")).unwrap();
    let answers = &mut EraseAnswers::named([request.path.clone()]);
    let text = bench
        .guard()
        .consent(std::slice::from_ref(request), answers)
        .unwrap_err()
        .to_string();
    why.iter()
        .for_each(|why| assert!(text.contains(why), "`{why}` is not in `{text}`"));
    assert!(before == fs::read(bench.path("image")).unwrap());
}

fn file_request(path: &str) -> WriteRequest {
    WriteRequest {
        file_size_bytes: Some(SIZE),
        ..WriteRequest::new(path, "test")
    }
}

#[test]
fn a_file_system_that_is_mounted_through_another_loop_device_is_not_written_to() {
    let Some(bench) = Bench::new(&[]) else { return };
    let image = bench.path("image");
    let Some((other, _detach)) = bench.attach(&image, &[]) else {
        return;
    };
    let Some((at, _unmount)) = bench.mount(&other) else {
        return;
    };
    fs::write(format!("{at}/precious"), "data").unwrap();
    let file = format!("its backing file {image} is held by");
    let holder = kernel_name(&other);
    let why = format!(
        "{file} the loop device {holder} (mounted at {at}); unmount or stop the holder first, or name another device"
    );
    assert_refused_whatever_is_said(&bench, &bench.request(), &[&why]);
    assert_refused_whatever_is_said(&bench, &bench.shared(), &[&why]);
    // Also refused: the file itself, and the mounted loop device.
    let why = format!(
        "it is held by the loop device {}",
        kernel_name(&bench.device)
    );
    let mounted = format!("it is held by the loop device {holder} (mounted at {at})");
    assert_refused_whatever_is_said(&bench, &file_request(&image), &[&why, &mounted]);
    assert_refused_whatever_is_said(
        &bench,
        &WriteRequest::new(&other, "test"),
        &[&format!("it is mounted at {at}")],
    );
}

#[test]
fn loop_devices_on_one_file_are_distinguished_by_their_ranges() {
    let Some(bench) = Bench::new(&["--sizelimit", "16777216"]) else {
        return;
    };
    let image = bench.path("image");
    let half = ["--offset", "16777216"];
    let Some((other, detach)) = bench.attach(&image, &half) else {
        return;
    };
    assert!(
        bench.consent(&bench.request()).is_ok(),
        "the other one shows the other half"
    );
    let both = [bench.request(), WriteRequest::new(&other, "test")];
    assert!(
        bench
            .guard()
            .consent(&both, &mut EraseAnswers::default())
            .is_ok()
    );
    drop(detach);

    let Some((other, _detach)) = bench.attach(&image, &["--offset", "16776704"]) else {
        return;
    };
    bench.assert_refused(&format!(
        "its backing file {image} is held by the loop device {}",
        kernel_name(&other)
    ));
    let both = [bench.request(), WriteRequest::new(&other, "test")];
    bench.assert_shares_bytes(&both, &other);
    let both = [bench.request(), file_request(&image)];
    bench.assert_shares_bytes(&both, &image);
}

#[test]
fn a_backing_file_is_recognised_by_its_inode_and_not_by_its_name() {
    let Some(bench) = Bench::new(&[]) else { return };
    let image = bench.path("image");
    let link = bench.path("link");
    fs::hard_link(&image, &link).unwrap();
    let Some((other, _detach)) = bench.attach(&link, &[]) else {
        return;
    };
    // The name now leads to another file; only the loop devices still have the old file open.
    fs::remove_file(&image).unwrap();
    fs::write(&image, vec![0; SIZE as usize]).unwrap();
    fs::remove_file(&link).unwrap();
    let text = bench.refusal();
    assert!(
        text.contains(&format!(
            "is held by the loop device {}",
            kernel_name(&other)
        )),
        "{text}"
    );
}

#[test]
fn the_process_with_the_backing_file_open_is_named() {
    let Some(bench) = Bench::new(&[]) else { return };
    let image = bench.path("image");
    let open = other_process::hold_open(&image);
    let why = format!(
        "its backing file {image} is open in process {} (sleep); stop the program that has it open",
        open.pid()
    );
    assert_refused_whatever_is_said(&bench, &bench.request(), &[&why]);
    drop(open);
    assert!(bench.consent(&bench.request()).is_ok());

    let Some(server) = other_process::serve(&image) else {
        return;
    };
    let why = format!(
        "its backing file {image} is open in process {} (qemu-nbd)",
        server.pid()
    );
    assert_refused_whatever_is_said(&bench, &bench.request(), &[&why]);
}

#[test]
fn a_backing_file_that_is_swapped_to_is_in_use() {
    let Some(bench) = Bench::new(&["--sizelimit", "16777216"]) else {
        return;
    };
    let image = bench.path("image");
    // swapon refuses a file with holes.
    fs::write(&image, vec![0; SIZE as usize]).unwrap();
    fs::set_permissions(&image, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    if succeed("mkswap", &[&image]).is_none() || succeed("swapon", &[&image]).is_none() {
        return;
    }
    let _off = Undo("swapoff", vec![image.clone()]);
    bench.assert_refused(&format!(
        "its backing file {image} is used as swap; turn it off (`swapoff {image}`)"
    ));
}

#[test]
fn a_loop_device_on_a_block_device_shares_bytes_and_users_with_that_device() {
    let Some(bench) = Bench::new(&[]) else { return };
    let Some((upper, _detach)) = bench.attach(&bench.device, &[]) else {
        return;
    };
    let in_use = format!("it is held by the loop device {}", kernel_name(&upper));
    bench.assert_refused(&in_use);
    assert!(
        bench.consent(&WriteRequest::new(&upper, "test")).is_ok(),
        "nobody uses the upper device"
    );
    let both = [bench.request(), WriteRequest::new(&upper, "test")];
    bench.assert_shares_bytes(&both, &upper);
    {
        let open = other_process::hold_open(&bench.device);
        let text = bench
            .consent(&WriteRequest::new(&upper, "test"))
            .unwrap_err();
        let why = format!(
            "{} beneath it is open in process {} (sleep)",
            bench.device,
            open.pid()
        );
        assert!(text.contains(&why), "{text}");
    }
    {
        let _reader = other_process::hold_open_to_read(&bench.device);
        assert!(
            bench.consent(&WriteRequest::new(&upper, "test")).is_ok(),
            "daemons read what they look after"
        );
    }
    let Some((at, unmount)) = bench.mount(&upper) else {
        return;
    };
    bench.assert_refused(&format!("{in_use} (mounted at {at})"));
    drop(unmount);
    fs::remove_dir(&at).unwrap();
    let Some((at, _unmount)) = bench.mount(&bench.device) else {
        return;
    };
    let text = bench
        .consent(&WriteRequest::new(&upper, "test"))
        .unwrap_err();
    assert!(
        text.contains(&format!(
            "{} beneath it is mounted at {at}; unmount it",
            bench.device
        )),
        "{text}"
    );
}

#[test]
fn a_hidden_file_system_is_found_by_the_loop_device_on_its_file() {
    let Some(bench) = Bench::new(&[]) else { return };
    let Some((at, unmount)) = bench.mount(&bench.device) else {
        return;
    };
    let inner = format!("{at}/inner");
    File::create(&inner).unwrap().set_len(1 << 20).unwrap();
    let Some((upper, _detach)) = bench.attach(&inner, &[]) else {
        return;
    };
    assert!(
        bench
            .refusal()
            .ends_with("unmount it, or name another device"),
        "one reason: {}",
        bench.refusal()
    );
    assert!(
        bench.consent(&WriteRequest::new(&upper, "test")).is_ok(),
        "a file system beneath may be in use"
    );
    drop(unmount);
    bench.assert_refused(&format!(
        "it is held by the loop device {} (its file ",
        kernel_name(&upper)
    ));
}

/// A guard that sees both loop devices as paths to one drive.
fn one_drive(bench: &Bench, devices: [&str; 2]) -> Guard {
    let wwid = [("device/wwid", "naa.5000c500a1b2c3d4")];
    devices
        .into_iter()
        .zip(["sdx", "sdy"])
        .for_each(|(device, name)| bench.pose(device, name, &wwid));
    bench.guard_of_posed()
}

#[test]
fn two_paths_to_one_drive_are_not_written_to_together_and_share_their_users() {
    let Some(bench) = Bench::new(&[]) else { return };
    File::create(bench.path("other image"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let Some((other, _detach)) = bench.attach(&bench.path("other image"), &[]) else {
        return;
    };
    let guard = one_drive(&bench, [&bench.device, &other]);
    let refused = |requests: &[WriteRequest]| {
        guard
            .consent(requests, &mut EraseAnswers::default())
            .unwrap_err()
            .to_string()
    };

    let both = refused(&[bench.request(), WriteRequest::new(&other, "test")]);
    let why = format!(
        "refusing to write to {other} - it is another path to the drive of {} (both have",
        bench.device
    );
    assert!(
        both.starts_with(&why) && both.contains("wwid naa.5000c500a1b2c3d4"),
        "{both}"
    );

    {
        let open = other_process::hold_open(&other);
        let text = refused(&[bench.request()]);
        let why = format!(
            "/dev/sdy, another path to the same drive, is open in process {} (sleep)",
            open.pid()
        );
        assert!(text.contains(&why), "{text}");
    }
    // While flashproof writes through one path, nobody can claim the other path.
    let consent = guard
        .consent(&[bench.request()], &mut EraseAnswers::default())
        .unwrap();
    assert!(claim(&other).is_err(), "the other path is claimed");
    let consent = crate::target::Target::writable(consent.into_iter().next().unwrap());
    assert!(claim(&other).is_err(), "and stays so");
    drop(consent);
    // Retry: a child that another test has just forked has a copy of the consent's descriptor until its exec.
    let claimed = retry(Duration::from_secs(1), is_busy, || claim(&other)).unwrap();
    let text = refused(&[bench.request()]);
    assert!(
        text.contains("/dev/sdy, another path to the same drive, exclusively"),
        "{text}"
    );
    drop(claimed);
    drop(
        guard
            .consent(&[bench.shared()], &mut EraseAnswers::default())
            .unwrap(),
    );
    assert!(
        guard
            .consent(&[bench.request()], &mut EraseAnswers::default())
            .is_ok()
    );
}

fn claim(device: &str) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(device)
}

#[test]
fn io_on_the_other_path_is_noticed() {
    let Some(bench) = Bench::new(&[]) else { return };
    File::create(bench.path("other image"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let Some((other, _detach)) = bench.attach(&bench.path("other image"), &[]) else {
        return;
    };
    let guard = one_drive(&bench, [&bench.device, &other]);
    let number = DeviceNumber::of_stat(fs::metadata(&bench.device).unwrap().rdev());
    let subject =
        super::super::target_devices::TargetDevices::of_device(number, &guard.root).unwrap();
    assert_eq!(
        subject
            .access_nodes()
            .map(|node| node.relation)
            .collect::<Vec<_>>(),
        [Relation::Itself, Relation::OtherPath]
    );
    let device = OpenDirect::new(&other);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                device.read();
            }
        });
        let consent = guard
            .consent(&[bench.request()], &mut EraseAnswers::default())
            .map(|_| ());
        stop.store(true, Ordering::Relaxed);
        let text = consent.unwrap_err().to_string();
        assert!(
            text.contains("an unknown program or driver uses it"),
            "{text}"
        );
    });
}
