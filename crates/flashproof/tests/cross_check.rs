//! `flashproof fio --cross-check`: flashproof and the real fio run in turns, only on devices that the guard permits.

use crate::support;

use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use support::{Bench, FLASHPROOF, LoopDevice, MIB, Running, tool, words};

/// `flashproof fio --cross-check WORDS`, with `dir` first in PATH.
fn with_path(bench: &Bench, dir: &Path, words: &[&str]) -> Command {
    let mut command = bench.prepare(&[&["fio", "--cross-check"], words].concat());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", dir.display()));
    command
}

/// The output of [`with_path`] with the directory `bin`, and with the job's words `more`.
fn checked(bench: &Bench, words: &[&str], more: &str) -> Value {
    let words = [words, &support::words(more)].concat();
    Running::start(with_path(bench, &bench.path("bin"), &words)).end().expect(0).json()
}

/// A program called fio in a separate directory: it prints a version, writes its arguments to `told`, and runs `rest`.
fn fake_fio(bench: &Bench, rest: &str) -> std::path::PathBuf {
    let dir = bench.path("bin");
    std::fs::create_dir_all(&dir).unwrap();
    let told = bench.path("told");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo fio-9.9 && exit\nprintf '%s\\0' \"$@\" >{0}\necho $$ >{0}.pid\n{rest}\n",
        told.display()
    );
    bench.write("bin/fio", script);
    std::fs::set_permissions(dir.join("fio"), Permissions::from_mode(0o755)).unwrap();
    dir
}

/// A loop device, and `bin/fio`, a link to flashproof that must not be taken for the real fio. `None` without the real
/// fio or without loop devices.
fn beside_fio() -> Option<(Bench, LoopDevice)> {
    tool("fio", &["--version"])?;
    let bench = Bench::new();
    let device = LoopDevice::new(&bench, 16 * MIB, &[])?;
    std::fs::create_dir(bench.path("bin")).unwrap();
    symlink(FLASHPROOF, bench.path("bin/fio")).unwrap();
    Some((bench, device))
}

#[test]
fn both_run_the_same_job_on_the_same_device_and_stand_side_by_side() {
    let Some((bench, device)) = beside_fio() else { return };
    device.put(8 * MIB, &[7; 1 << 20]);
    let (name, erase) = (format!("--filename={}", device.name), format!("--erase={}", device.name));
    let more = "--direct=1 --rw=randrw --bs=4k --size=4m --iodepth=8 --out=run --output-format=json";
    let before = device.counters();
    let json = checked(&bench, &["--name=a", &name, &erase], more);
    let check = &json["cross_check"][0];
    assert!(check["fio"].as_str().unwrap().starts_with("fio-"), "{check}");
    let names: Vec<_> = check["streams"].as_array().unwrap().iter().map(|stream| &stream["name"]).collect();
    assert_eq!(names, ["a reads", "a writes"]);
    for number in ["IOPS", "p50", "p99.99", "CPU each"] {
        for of in ["flashproof", "fio"] {
            let rounds = check["streams"][0]["numbers"][number][of].as_array().unwrap();
            let are_positive = rounds.iter().all(|value| value.as_f64().unwrap() > 0.0);
            assert!(rounds.len() == 3 && are_positive, "{number}: {rounds:?}");
        }
    }
    // By the kernel's counters, each block was read or written once in each of six rounds.
    let done = device.counters().since(&before).unwrap();
    assert!(done.read.sectors + done.write.sectors >= 6 * 8_192, "{done:?}");
    assert_eq!(device.content()[4 << 20..].iter().filter(|byte| **byte != 0).count(), 1 << 20, "nothing beyond --size");
    assert!(bench.exists("run/round-3/verdict.json"));
    // The report of flashproof covers one round, not the sum of the rounds.
    let [reads, writes] = ["read", "write"].map(|kind| json["jobs"][0][kind]["total_ios"].as_u64().unwrap());
    assert_eq!(reads + writes, 1_024);
}

#[test]
fn both_do_as_many_operations_of_windows_refills_priorities_and_shares() {
    let Some((bench, device)) = beside_fio() else { return };
    let name = format!("--filename={}", device.name);
    let each = ["--direct=1", "--rw=randread", "--bs=16k", "--iodepth=8", &name, "--output-format=json"];
    let cases = [
        "--size=4m --zonemode=strided --zonesize=512k --zonerange=1m --zoneskip=1m",
        "--size=4m --iodepth_low=2 --iodepth_batch_complete_min=4",
        "--size=4m --prioclass=2 --prio=5 --cmdprio_percentage=25 --cmdprio_class=3",
        "--size=4m --name=b --number_ios=64 --wait_for=a",
        "--size=4m --zonemode=zbd --zonesize=1m --read_beyond_wp=1",
    ];
    for (number, options) in cases.into_iter().enumerate() {
        let before = device.counters();
        let json = checked(&bench, &each, &format!("--name=a --out=run-{number} {options}"));
        let done = device.counters().since(&before).unwrap();
        // There are three rounds of each program. In case 3, job b does 64 operations after job a.
        let bytes = if number == 3 { 4 * MIB + (64 << 14) } else { 4 * MIB };
        let (sectors, expected) = (done.read.sectors, 6 * bytes / 512);
        // Programs that watch for devices may read a few sectors meanwhile.
        assert!((expected..expected + 2_000).contains(&sectors), "{options}: {sectors} of {expected}");
        let check = &json["cross_check"][0]["streams"][0]["numbers"]["IOPS"];
        for of in ["flashproof", "fio"] {
            assert_eq!(check[of].as_array().unwrap().len(), 3, "{options}: {check}");
        }
    }
}

#[test]
fn both_write_as_many_zones_as_each_other() {
    let Some((bench, device)) = beside_fio() else { return };
    let (name, erase) = (format!("--filename={}", device.name), format!("--erase={}", device.name));
    let each = ["--name=a", "--direct=1", "--bs=16k", &name, &erase, "--output-format=json", "--zonemode=zbd"];
    // Operations and zone resets of one round, as counted by fio 3.33.
    let cases = [
        ("--rw=write --zonesize=1m --zonecapacity=768k --loops=2 --iodepth=4", 1_536, Some(16)),
        ("--rw=randwrite --zonesize=1m --max_open_zones=4 --io_size=32m --iodepth=8", 2_048, None),
        ("--rw=write --zonesize=512k --offset=100k --size=10z --ioengine=psync", 288, Some(0)),
    ];
    for (number, (options, ops, resets)) in cases.into_iter().enumerate() {
        let before = device.counters();
        let json = checked(&bench, &each, &format!("--out=run-{number} {options}"));
        let done = device.counters().since(&before).unwrap();
        assert_eq!(done.write.sectors, 6 * ops * 32, "{options}: three rounds of each");
        let job = &json["jobs"][0];
        assert_eq!(job["write"]["total_ios"], ops, "{options}");
        let found = job["zone_resets"].as_u64().unwrap();
        assert!(resets.map_or(found > 0, |resets| found == resets), "{options}: {found}");
    }
}

#[test]
fn both_verify_map_and_log_as_many_operations() {
    let Some((bench, device)) = beside_fio() else { return };
    let (name, erase) = (format!("--filename={}", device.name), format!("--erase={}", device.name));
    let each = ["--name=a", "--bs=4k", "--size=1m", &name, &erase, "--output-format=json"];
    let cases = [
        ("--rw=randwrite --direct=1 --verify=crc32c --write_lat_log=l --write_hist_log=h --log_hist_msec=50", 2),
        ("--rw=write --direct=1 --verify=md5 --verify_backlog=64 --iodepth=4", 2),
        ("--rw=randread --ioengine=mmap --write_lat_log=l", 1),
    ];
    for (number, (options, streams)) in cases.into_iter().enumerate() {
        let json = checked(&bench, &each, &format!("--out=run-{number} {options}"));
        let found = json["cross_check"][0]["streams"].as_array().unwrap();
        assert_eq!(found.len(), streams, "{options}");
        for stream in found {
            let numbers = &stream["numbers"];
            let rounds = |what: &str, of: &str| numbers[what][of].as_array().unwrap().clone();
            let logs = options.contains("--write_lat_log");
            for what in ["operations", "lines logged"].iter().take(if logs { 2 } else { 1 }) {
                for of in ["flashproof", "fio"] {
                    assert_eq!(rounds(what, of), [256.0; 3], "{options}: {what} of {of}");
                }
                assert_eq!(numbers[*what]["agrees"], true);
            }
            if options.contains("--write_hist_log=h") {
                assert_eq!(rounds("in histograms", "flashproof"), [256.0; 3]);
                assert!(rounds("in histograms", "fio").iter().all(|count| count.as_f64() <= Some(256.0)));
            }
        }
    }
    assert!(!bench.exists("l_clat.2.log"), "fio's logs are only in a separate directory");
}

#[test]
fn fio_is_given_our_descriptors_and_no_word_can_name_another_file() {
    let bench = Bench::new();
    bench.write_victim("victim", 1);
    bench.write_victim("data", 1);
    let dir = fake_fio(&bench, "echo 'fio: this is a fake' >&2; exit 1");
    let job = words("--filename=data --rw=write --size=1m --write_bw_log=victim --log_avg_msec=1000");
    let rest = ["--mem=mmap:victim", "--unlink=1", "--description=x filename=victim", "--erase=data", "--out=run"];
    let all = [&["--name=a\nfilename=victim"], &job[..], &rest].concat();
    let ended = Running::start(with_path(&bench, &dir, &all)).end().expect(3);
    ended.says(&["fio failed in the cross-check - exit status: 1: fio: this is a fake"]);
    let told = bench.text("told");
    let told: Vec<_> = told.trim_end_matches('\0').split('\0').collect();
    let files: Vec<_> = told.iter().filter(|word| word.contains("filename=") && !word.contains('\n')).collect();
    assert!(files[0].starts_with("--filename=/proc/") && files[0].contains("/fd/"), "{told:?}");
    assert_eq!(files[1..], [&"--description=x filename=victim"]);
    assert!(told.contains(&"--thread=1"), "fio runs as one process, so a kill ends all its jobs: {told:?}");
    assert!(told.contains(&"--name=a\nfilename=victim"), "the name is a single word: {told:?}");
    let never = ["--write_", "--mem", "--unlink"];
    assert!(!told.iter().any(|word| never.iter().any(|of| word.starts_with(of))), "{told:?}");
}

#[test]
fn fio_ends_when_this_program_ends() {
    for (signal, code) in [("KILL", None), ("INT", Some(4))] {
        let bench = Bench::new();
        bench.write_victim("data", 1);
        let dir = fake_fio(&bench, "exec sleep 600");
        let words = ["--name=a", "--filename=data", "--rw=write", "--size=1m", "--erase=data", "--out=run"];
        let mut running = Running::start(with_path(&bench, &dir, &words));
        running.wait_until("fio runs", || bench.exists("told.pid") && bench.text("told.pid").ends_with('\n'));
        let fio = format!("/proc/{}/cmdline", bench.text("told.pid").trim());
        let ended = running.end_by(signal);
        if let Some(code) = code {
            ended.expect(code);
        }
        let is_there = || std::fs::read(&fio).is_ok_and(|words| words.starts_with(b"sleep\x00600"));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while is_there() {
            assert!(std::time::Instant::now() < until, "fio goes on after {signal}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn what_cannot_be_cross_checked_is_refused_before_anything_is_written() {
    let bench = Bench::new();
    bench.write_victim("data", 1);
    let before = bench.read("data");
    let mut none = bench.prepare(&words("fio --cross-check --name=a --filename=data --rw=write --erase=data"));
    none.env("PATH", bench.path(""));
    Running::start(none).end().expect_error(3, &["no directory of PATH has it", "apt-get install fio"]);
    let dir = fake_fio(&bench, "exit 1");
    for (words, says) in [
        (&["--name=a", "--filename=sim:"][..], "fio has no simulated drives"),
        (&["--name=a", "--size=1m"], "a job has no filename"),
    ] {
        Running::start(with_path(&bench, &dir, words)).end().expect_error(2, &[says]);
    }
    assert_eq!(bench.read("data"), before);
    assert!(!bench.exists("told"), "fio was only asked for its version");
}
