//! Devices that no test can use: each is refused in one line, and none is written to.

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use support::{Bench, LAX, LoopDevice, MIB, Nobody, OUT, tool};

/// A load of reads on `devices`, with `writes` also of writes.
fn load(devices: &str, writes: bool) -> String {
    let writes = if writes {
        "write-reqs-per-sec: 100\n"
    } else {
        ""
    };
    format!("device-names: {devices}\ntest-duration-sec: 1\nread-reqs-per-sec: 100\n{writes}")
}

/// Asserts that a writing load and a load that only reads are refused on `devices`, even with consent to erase them.
#[track_caller]
fn refused(bench: &Bench, devices: &str, why: &str) {
    for (writes, what) in [(true, "refusing to write to"), (false, "cannot read")] {
        let ended = bench.storage(&load(devices, writes), &["--erase", devices]);
        ended.expect_errors(3, &[format!("{what} {devices} - {why}")]);
        assert!(
            !bench.exists(OUT) && !bench.exists("state"),
            "a file was created"
        );
    }
}

#[test]
fn missing_paths_and_dangling_links_are_refused() {
    let bench = Bench::new();
    let why = "there is no such device or file; check the name (`lsblk -d` lists the disks)";
    refused(&bench, "/dev/flashproof-has-none", why);
    let why = "its folder no/folder does not exist; create it, or check the path";
    refused(&bench, "no/folder/file", why);
    symlink("nowhere", bench.path("dangling")).unwrap();
    let why = "it is a link to nowhere, which does not exist; correct the link, or remove it";
    refused(&bench, "dangling", why);
    // With file-size-mbytes, a missing file would be created; but not through a dangling link, nor in a missing folder.
    for (name, why) in [
        ("no/folder/file", "its folder no/folder does not exist"),
        ("dangling", why),
    ] {
        let config = format!("{}file-size-mbytes: 16\n", load(name, true));
        bench
            .storage(&config, &[])
            .expect_error(3, &[&format!("refusing to write to {name} - {why}")]);
    }
    assert!(!bench.exists("nowhere"));
}

#[test]
fn one_device_under_two_names_is_refused() {
    let bench = Bench::new();
    bench.write_victim("one", 16);
    fs::hard_link(bench.path("one"), bench.path("two")).unwrap();
    symlink("one", bench.path("three")).unwrap();
    bench.write_victim("other", 16);
    let why = |other: &str| {
        format!(
            "it has bytes in common with {other}, and this run names both; name each device once, and never a partition together with its disk"
        )
    };
    for second in ["two", "three", "./one"] {
        let ended = bench.storage(&load(&format!("other,one,{second}"), false), &[]);
        ended.expect_errors(3, &[format!("cannot read {second} - {}", why("one"))]);
    }
    let loops = [(); 2].map(|()| LoopDevice::new(&bench, 16 * MIB, &[]));
    if let [Some(first), Some(second)] = &loops {
        let ended = bench.storage(
            &load(&format!("{},{}", first.name, second.name), false),
            &[],
        );
        ended.expect_errors(
            3,
            &[format!(
                "cannot read {} - {}",
                second.name,
                why(&first.name)
            )],
        );
    }
    bench.storage(&load("other,one", false), &LAX).expect(0);
}

#[test]
fn the_placeholder_device_name_of_the_examples_is_refused_with_advice() {
    let bench = Bench::new();
    bench.link_examples();
    let why = "PUT-YOUR-DRIVE-HERE is a placeholder from flashproof's examples, not a device";
    let doctor = "(`flashproof doctor` lists the devices)";
    bench
        .line("storage examples/device-1x.conf --out run")
        .expect_error(3, &[why, doctor]);
    let advice = format!("{why}; replace it with your device's name {doctor}");
    refused(&bench, "/dev/disk/by-id/PUT-YOUR-DRIVE-HERE", &advice);
    bench
        .flashproof(&["doctor", "PUT-YOUR-DRIVE-HERE"])
        .expect(1)
        .shows(&[why]);
}

#[test]
fn file_size_mbytes_is_refused_for_devices() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    for writes in [true, false] {
        let config = format!("{}file-size-mbytes: 8\n", load(&device.name, writes));
        let why = format!(
            "cannot use file-size-mbytes with {} - it is a block device",
            device.name
        );
        bench
            .storage(&config, &["--erase", &device.name])
            .expect_error(2, &[&why, "leave out"]);
    }
    assert!(device.content().iter().all(|byte| *byte == 0));
}

#[test]
fn a_lack_of_file_descriptors_is_reported_as_the_cause() {
    let bench = Bench::new();
    fs::File::create(bench.path("file"))
        .unwrap()
        .set_len(16 * MIB)
        .unwrap();
    bench.write("a.conf", load("file", false).replace(": 1\n", ": 2\n"));
    // With each higher limit of open files, a later operation of the run is the first to fail.
    let mut told = 0;
    for limit in 4..40 {
        let mut command = bench.command("sh");
        let line = format!(
            "ulimit -n {limit}; exec {} storage a.conf --out run-{limit} --sla '100%>3600s'",
            support::FLASHPROOF
        );
        command.args(["-c", &line]);
        let ended = support::Running::start(command).end();
        for line in ended
            .stderr
            .lines()
            .filter(|line| line.contains("os error 24"))
        {
            assert!(
                line.contains("(ulimit -n)") && !line.contains("mount"),
                "with {limit}: {line}"
            );
            told += 1;
        }
        if ended.code == Some(0)
            && ended
                .warnings()
                .iter()
                .all(|warning| !warning.contains("open files"))
        {
            break;
        }
    }
    assert!(told > 3, "{told}");
}

#[test]
fn a_path_that_is_no_block_device_is_refused() {
    let bench = Bench::new();
    let advice = "not a block device; name a whole disk, a partition, or a file with its size (file-size-mbytes, or size in a fio job)";
    refused(
        &bench,
        "/dev/null",
        &format!("it is a character device, {advice}"),
    );
    fs::create_dir(bench.path("dir")).unwrap();
    refused(&bench, "dir", &format!("it is a directory, {advice}"));
    if tool("mkfifo", &[bench.path("pipe").to_str().unwrap()]).is_some() {
        refused(&bench, "pipe", &format!("it is a pipe, {advice}"));
    }
}

#[test]
fn a_file_is_not_written_to_without_file_size_mbytes() {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    let advice =
        "to test a file give its size with file-size-mbytes, or name a block device instead";
    let ended = bench.storage(&load("victim", true), &["--erase", "victim"]);
    ended.expect_errors(
        3,
        &[format!(
            "refusing to write to victim - it is a regular file; {advice}"
        )],
    );
    assert!(before == bench.read("victim"));
}

#[test]
fn a_file_larger_than_the_free_space_is_refused_and_not_created() {
    let bench = Bench::new();
    let Some(_disk) = support::small_disk(&bench, "disk", 4096) else {
        return;
    };
    let config = load("disk/file", true) + "file-size-mbytes: 8\n";
    let parts = [
        "refusing to write to disk/file - the file needs 8388608 more bytes and its file system has ",
    ];
    bench.storage(&config, &[]).expect_error(3, &parts);
    assert!(!bench.exists("disk/file") && !bench.exists(OUT));
}

#[test]
fn a_read_only_device_is_read_but_not_written_to() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &["--read-only"]) else {
        return;
    };
    let name = device.name.as_str();
    let ended = bench.storage(&load(name, true), &["--erase", name]);
    ended.expect_error(3, &["refusing to write to ", " - it is read-only"]);
    assert!(!bench.exists(OUT));
    bench
        .storage(&load(name, false), &["--sla", "100%>3600s"])
        .expect(0);
    assert!(device.content().iter().all(|&byte| byte == 0));
}

#[test]
fn a_device_smaller_than_a_large_block_is_refused() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 65_536, &[]) else {
        return;
    };
    let why = "its 65536 bytes are less than the 131072 bytes of one operation; name a larger device, or make \
               this operation smaller (large-block-op-kbytes, or bs of a fio job)";
    refused(&bench, &device.name, why);
    assert!(device.content().iter().all(|&byte| byte == 0));
    let smaller = load(&device.name, true) + "large-block-op-kbytes: 64\n";
    bench.storage(&smaller, &["--sla", "100%>3600s"]).expect(0);
}

#[test]
fn a_missing_permission_is_reported() {
    let bench = Bench::new();
    let Some(nobody) = Nobody::new(&bench) else {
        return;
    };
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let name = &device.name;
    let theirs = bench.path("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o777)).unwrap();
    for (writes, what) in [(true, "refusing to write to"), (false, "cannot read")] {
        bench.write(support::CONFIG, load(name, writes));
        let ended = nobody.flashproof(
            &bench,
            &[
                "storage",
                support::CONFIG,
                "--erase",
                name,
                "--out",
                "theirs/run",
            ],
        );
        let start = format!("{what} {name} - no permission to open it");
        let advice = "run as root, or as a member of the group that owns the device";
        ended.expect_error(3, &[&start, "Permission denied (os error 13)", advice]);
    }
    assert!(device.content().iter().all(|&byte| byte == 0));
}

#[test]
fn if_any_device_is_refused_no_device_is_written_to() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let config = load(
        &format!("{} /dev/null /dev/flashproof-has-none", device.name),
        true,
    );
    let ended = bench.storage(&config, &[]).expect(3);
    assert_eq!(
        ended.errors().len(),
        2,
        "one line for each: {}",
        ended.stderr
    );
    assert!(device.content().iter().all(|&byte| byte == 0) && !bench.exists(OUT));
}

#[test]
fn a_missing_read_device_is_found_before_written_files_are_created() {
    let bench = Bench::new();
    for (name, writes) in [("new", true), ("gone", false)] {
        bench.write(
            &format!("{name}.conf"),
            format!("{}file-size-mbytes: 16\n", load(name, writes)),
        );
    }
    let ended = bench.flashproof(&["storage", "new.conf", "gone.conf", "--out", OUT]);
    ended.expect_error(3, &["cannot read gone - there is no such device or file"]);
    assert!(!bench.exists("new") && !bench.exists(OUT));
}
