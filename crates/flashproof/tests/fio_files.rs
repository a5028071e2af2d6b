//! Files of fio's jobs: mapped into memory, grown, read before the run, or only created; compared with the real fio.

use crate::support;

use serde_json::Value;
use std::fs::{self, OpenOptions};
use support::{Bench, LoopDevice, MIB, Running, tool, words};

/// Report of the real fio for `line`; `None`, with a message, without fio.
fn fio(bench: &Bench, line: &str) -> Option<Value> {
    tool("fio", &["--version"])?;
    let mut command = bench.command("fio");
    command
        .args(line.split_whitespace())
        .args(["--output-format=json", "--output=theirs.json"]);
    Running::start(command).end().expect(0);
    Some(bench.json_file("theirs.json"))
}

fn counts(job: &Value) -> [u64; 4] {
    ["read", "write", "trim", "sync"].map(|kind| job[kind]["total_ios"].as_u64().unwrap())
}

/// Bytes of `file` in the page cache; `None`, with a message, without fincore.
fn cached_bytes(bench: &Bench, file: &str) -> Option<u64> {
    let path = bench.path(file);
    tool(
        "fincore",
        &["--bytes", "--noheadings", "--output", "RES", path.to_str()?],
    )?
    .parse()
    .ok()
}

/// Asserts that the options of `line` are refused before anything runs, with exit code `code` and the text `says`.
fn refused(bench: &Bench, line: &str, code: i32, says: &str) {
    let words = format!("fio --out=refused {line}");
    let ended = bench.line(&words).expect(code);
    assert!(ended.stderr.contains(says), "{line}: {}", ended.stderr);
    assert!(!bench.exists("refused"));
}

#[test]
fn a_mapped_device_is_read_and_written_by_page_faults_as_by_fio() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    // `emptied_bytes`: fio 3.33 clears the whole mapping (MADV_REMOVE) if a block device is mapped for writing.
    for (number, (options, emptied_bytes)) in [
        ("--rw=randread --number_ios=100", 0),
        ("--rw=randread --number_ios=50 --direct=1", 0),
        ("--rw=randwrite --number_ios=64 --fsync=8", 16 * MIB),
        ("--rw=write --size=1m --direct=1", MIB),
        ("--rw=randtrim --size=1m --bs=64k", MIB),
    ]
    .into_iter()
    .enumerate()
    {
        let agrees = |attempt: usize| {
            // Operations of the job, and the kernel's reads and writes for them.
            let did = |run: &dyn Fn() -> Value| {
                let before = device.counters();
                let report = run();
                let did = device.counters().since(&before).unwrap();
                (
                    counts(&report["jobs"][0]),
                    report["disk_util"][0]["read_ios"].as_u64(),
                    did,
                )
            };
            let line = format!(
                "--name=a --filename={} --bs=4k --ioengine=mmap {options}",
                device.name
            );
            let (ours, ours_read, kernel) = did(&|| {
                let line = format!(
                    "fio --out=run-{number}-{attempt} --erase={} {line} --output-format=json",
                    device.name
                );
                bench
                    .line(&line)
                    .expect_stderr(0, &["mapped into memory"])
                    .json()
            });
            let facts = results::run_dir::read(&bench.path(format!("run-{number}-{attempt}")))
                .unwrap()
                .manifest
                .engine_facts;
            assert_eq!(facts["engine"], "sync");
            if tool("fio", &["--version"]).is_none() {
                return true;
            }
            let (theirs, _, fios) = did(&|| fio(&bench, &line).unwrap());
            assert_eq!(ours, theirs, "{options}");
            assert_eq!(
                kernel.write.sectors,
                fios.write.sectors - emptied_bytes / 512,
                "{options}"
            );
            // disk_util does not include the reads of the guard.
            ours_read.unwrap().abs_diff(fios.read.completed) <= 4
        };
        // Other programs may read the device meanwhile, so there are several attempts.
        assert!((0..12).any(agrees), "{options}: other reads than fio's");
    }
    let line = format!(
        "--name=a --filename={} --rw=write --ioengine=mmap --sync=dsync",
        device.name
    );
    refused(
        &bench,
        &line,
        2,
        "ioengine=mmap the kernel decides when pages are written back",
    );
}

#[test]
fn a_file_truncated_under_its_mapping_fails_reads_without_ending_the_process() {
    let bench = Bench::new();
    bench.write_victim("data", 8);
    let line = "fio --out=run --name=a --filename=data --rw=randread --bs=4k --ioengine=mmap --time_based --runtime=60";
    let mut running = Running::start(bench.prepare(&words(line)));
    running.wait_for_interval(&bench, "run");
    OpenOptions::new()
        .write(true)
        .open(bench.path("data"))
        .unwrap()
        .set_len(4096)
        .unwrap();
    running
        .end()
        .expect_stderr(1, &["of data failed: only 0 bytes moved"]);
    assert!(bench.exists("run/verdict.json"));
}

#[test]
fn appending_writes_keep_the_existing_data() {
    let bench = Bench::new();
    bench.fio_jobs(
        "--out=made --name=a --filename=ours --rw=write --size=1m --bs=64k",
        0,
    );
    let before = bench.read("ours");
    bench.write("theirs", &before);
    let line = "--rw=randwrite --size=512k --bs=4k --file_append=1 --offset=64k";
    let (job, _) = bench.fio_jobs(&format!("--out=more --name=a --filename=ours {line}"), 0);
    let after = bench.read("ours");
    assert_eq!(
        (after.len(), after[..before.len()] == before),
        (3 << 19, true)
    );
    assert!(
        after[before.len()..]
            .chunks(4096)
            .all(|block| block.iter().any(|byte| *byte != 0))
    );
    // Two jobs of one call append to a new file.
    bench.fio_jobs(
        &format!("--out=twice {line} --name=a --filename=new --name=b --filename=new --stonewall"),
        0,
    );
    assert_eq!(bench.read("new").len() as u64, MIB);
    if let Some(theirs) = fio(&bench, &format!("--name=a --filename=theirs {line}")) {
        let left = bench.read("theirs");
        assert_eq!(
            (left.len(), left[..before.len()] == before),
            (3 << 19, true)
        );
        assert_eq!(counts(&job[0]), counts(&theirs["jobs"][0]));
    }
    for (options, says) in [
        (
            "--rw=read --file_append=1",
            "with file_append, size is the number of bytes added to the end of each file",
        ),
        (
            "--rw=write --file_append=1 --numjobs=2",
            "only one job can write to a file",
        ),
    ] {
        refused(
            &bench,
            &format!("--name=a --filename=ours --size=64k {options}"),
            2,
            says,
        );
    }
    assert_eq!(bench.read("ours"), after);
    bench.line("fio --name=a --filename=ours:third --rw=write --bs=4k --size=64k --file_append=1 --out=two").expect(0);
    let ours = bench.read("ours");
    assert!(
        ours.len() > after.len() && ours.starts_with(&after),
        "files of different sizes grow: {}",
        ours.len()
    );
    assert_eq!(bench.read("third").len(), ours.len() - after.len());
}

#[test]
fn the_page_cache_of_a_file_is_dropped_kept_or_filled_before_a_job() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    bench.write_victim("data", 4);
    tool("sync", &[bench.path("data").to_str().unwrap()]);
    let all = 4 * MIB;
    for (number, (options, expected)) in [
        ("--invalidate=1", 0..MIB),
        ("--invalidate=0", all..all + 1),
        ("--pre_read=1", all..all + 1),
        ("--pre_read=1 --offset=1m --size=1m", MIB..2 * MIB),
    ]
    .into_iter()
    .enumerate()
    {
        let line =
            format!("--name=a --filename=data --rw=randread --bs=4k --number_ios=1 {options}");
        let run = |is_fio: bool| -> Option<u64> {
            // This job empties the page cache. For invalidate=0, the following read fills the cache.
            bench
                .line(&format!(
                    "fio --out=empty-{number}-{is_fio} --name=a --filename=data --number_ios=1"
                ))
                .expect(0);
            if options == "--invalidate=0" {
                bench.read("data");
            }
            if is_fio {
                drop(fio(&bench, &line)?)
            } else {
                drop(bench.fio_jobs(&format!("--out=run-{number} {line}"), 0))
            }
            cached_bytes(&bench, "data")
        };
        let Some(cached) = run(false) else { return };
        assert!(
            expected.contains(&cached),
            "{options}: {cached} bytes are cached"
        );
        if let Some(theirs) = run(true) {
            // fio's small reads before the run cause readahead by the kernel.
            let is_near = options.contains("offset") && theirs >= cached
                || theirs.abs_diff(cached) <= 256 << 10;
            assert!(is_near, "{options}: {cached} of ours, {theirs} of fio");
        }
    }
    refused(
        &bench,
        "--name=a --filename=data --pre_read=1 --direct=1",
        2,
        "pre_read fills the page cache",
    );
}

#[test]
fn create_only_creates_the_files_and_does_no_io() {
    let bench = Bench::new();
    let line = "--nrfiles=3 --size=3m --create_only=1";
    for rw in ["write", "read"] {
        let (job, _) = bench.fio_jobs(&format!("--out={rw} --name={rw} --rw={rw} {line}"), 0);
        let theirs = fio(&bench, &format!("--name=their-{rw} --rw={rw} {line}"));
        let their_counts = theirs.map_or([0; 4], |theirs| counts(&theirs["jobs"][0]));
        assert_eq!((counts(&job[0]), their_counts), ([0; 4], [0; 4]));
        for name in
            (0..3).flat_map(|file| [format!("{rw}.0.{file}"), format!("their-{rw}.0.{file}")])
        {
            match fs::metadata(bench.path(&name)) {
                Ok(file) => assert_eq!(file.len(), MIB, "{name}"),
                Err(_) => assert!(
                    name.starts_with("their") && tool("fio", &["--version"]).is_none(),
                    "{name}"
                ),
            }
        }
    }
    let mixed = "--name=a --filename=x --size=1m --create_only=1 --name=b --filename=y --size=1m --create_only=0";
    refused(&bench, mixed, 2, "create_only is 1 in \"a\" and 0 in \"b\"");
}

#[test]
fn a_file_of_an_earlier_job_is_extended_for_reads_but_a_users_file_is_not() {
    let bench = Bench::new();
    let (_, _) = bench.fio_jobs(
        "--out=write --name=w --filename=data --rw=write --bs=64k --size=4m",
        0,
    );
    let before = bench.read("data");
    let reads =
        "--name=r --rw=read --bs=64k --numjobs=4 --offset_increment=1m --size=4m --group_reporting";
    let (jobs, ended) = bench.fio_jobs(&format!("--out=read --filename=data {reads}"), 0);
    assert_eq!(jobs[0]["read"]["io_bytes"], 4 * 4 * MIB);
    assert!(
        ended.stderr.contains("extending the file data: 7.34 MB"),
        "{}",
        ended.stderr
    );
    let after = bench.read("data");
    assert!(after.len() as u64 == 7 * MIB && after.starts_with(&before));
    bench.write_victim("victim", 4);
    let victim = bench.read("victim");
    refused(
        &bench,
        &format!("--filename=victim {reads}"),
        3,
        "cannot read 7340032 bytes of victim - it has only 4194304",
    );
    assert_eq!(bench.read("victim"), victim);
}

#[test]
fn filesize_limits_the_range_and_the_operations_as_in_fio() {
    let bench = Bench::new();
    for (number, (options, operations)) in [
        ("--rw=write --filename=FILE --filesize=1m --size=2m", 16),
        ("--rw=read --filename=FILE --filesize=1m --size=2m", 16),
        ("--rw=read --nrfiles=2 --filesize=512k --size=2m", 16),
        (
            "--rw=write --filename=FILE --filesize=1m --size=2m --offset=256k",
            12,
        ),
        (
            "--rw=write --filename=FILE --filesize=1m --size=2m --io_size=3m",
            48,
        ),
        (
            "--rw=randwrite --filename=FILE --filesize=4m --size=1m --loops=2",
            32,
        ),
        ("--rw=write --filename=FILE --filesize=1m --size=50%", 8),
    ]
    .into_iter()
    .enumerate()
    {
        let line = |file: &str| {
            let options = options.replace("FILE", file);
            format!("--name={file} --bs=64k {options}")
        };
        let (job, _) = bench.fio_jobs(
            &format!("--out=run-{number} {}", line(&format!("our{number}"))),
            0,
        );
        let ours = counts(&job[0]);
        assert_eq!(ours[0] + ours[1], operations, "{options}");
        if let Some(theirs) = fio(&bench, &line(&format!("their{number}"))) {
            assert_eq!(ours, counts(&theirs["jobs"][0]), "{options}");
        }
    }
    assert_eq!(fs::metadata(bench.path("our0")).unwrap().len(), MIB);
}

#[test]
fn each_pass_over_a_file_begins_with_an_empty_page_cache_unless_invalidate_is_0() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    bench.write_victim("data", 4);
    tool("sync", &[bench.path("data").to_str().unwrap()]);
    for (options, expected) in [
        ("--io_size=4100k", 0..MIB),
        ("--io_size=4100k --invalidate=0", 4 * MIB..5 * MIB),
        ("--io_size=4100k --ioengine=psync", 0..MIB),
    ] {
        let out = options.len();
        let line = format!("--out=run-{out} --name=a --filename=data --rw=randread {options}");
        bench.fio_jobs(&line, 0);
        let Some(cached) = cached_bytes(&bench, "data") else {
            return;
        };
        assert!(expected.contains(&cached), "{options}: {cached}");
    }
}
