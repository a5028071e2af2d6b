//! `flashproof fio`: jobs are run, guarded, recorded, judged and reported; outputs are compared with those of fio.

use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use support::{Bench, Ended, FLASHPROOF, LoopDevice, MIB, OUT, Running, Throttled, tool, words};

/// Runs `flashproof fio` with the options of `line`, which request JSON. Returns the first job.
fn job(bench: &Bench, line: &str, code: i32) -> (Value, Ended) {
    let (mut jobs, ended) = bench.fio_jobs(line, code);
    (jobs.swap_remove(0), ended)
}

#[test]
fn jobs_on_a_simulated_drive_are_recorded_as_a_run_and_reported_in_fios_formats() {
    let bench = Bench::new();
    let line = "--out=run --name=mix --filename=sim: --direct=1 --rw=randrw --rate_iops=2000,500 --iodepth=32 --runtime=4 \
                --time_based --ramp_time=2 --write_iops_log=mix --log_avg_msec=2000 --percentile_list=50:99.9";
    let (job, ended) = job(&bench, line, 0);
    ended.says(&["MEASURED: all operations completed; no latency limits were given\nDo: for a verdict, give limits: --sla '5%>1ms'\n  screening, no limits\n", "open loop"]);
    ended.says(&["no latency limits were given, so latencies were not judged"]);
    assert_eq!(
        (&job["read"]["total_ios"], &job["write"]["total_ios"]),
        (&8_000.into(), &2_000.into())
    );
    assert_eq!(
        (&job["read"]["iops"], &job["read"]["runtime"]),
        (&2_000.0.into(), &4_000.into())
    );
    assert_eq!(
        job["read"]["clat_ns"]["percentile"]
            .as_object()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(job["job options"]["rate_iops"], "2000,500");
    assert_eq!(
        bench.text("mix_iops.1.log"),
        "2000, 2000, 0, 0, 0\n2000, 500, 1, 0, 0\n4000, 2000, 0, 0, 0\n4000, 500, 1, 0, 0\n"
    );
    let run = bench.run();
    assert_eq!(
        (run.manifest.kind().as_str(), run.manifest.duration_sec),
        ("fio", 4)
    );
    assert_eq!(support::totals(&run, "mix-reads"), (8_000, 0, 0));
    bench
        .flashproof(&["latency", "-l", OUT])
        .expect_stderr(2, &["\"flashproof report run\" shows its percentiles"]);
    bench
        .flashproof(&["report", OUT])
        .expect_stdout(0, &["mix-writes"]);
    // The output has a state in the middle of the run, then the final state.
    let line = "fio --name=x --filename=sim: --direct=1 --rate_iops=100 --runtime=4 --time_based --status-interval=3";
    let ended = bench.line(line).expect(0);
    let ran: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| line.contains("  read: IOPS=100, "))
        .collect();
    assert!(
        ran.len() == 2 && ran[0].contains("/3000msec)") && ran[1].contains("/4000msec)"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_missed_rate_fails_and_operations_that_were_never_issued_are_counted() {
    let bench = Bench::new();
    let line = "--out=run --name=a --filename=sim:channels=1+read-us=1000+jitter-pct=0 --direct=1 --rw=randread --rate_iops=2000 --iodepth=4 --runtime=3 --time_based";
    let (job, ended) = job(&bench, line, 1);
    assert!(ended.stderr.contains("FAIL"), "{}", ended.stderr);
    let done = job["read"]["total_ios"].as_u64().unwrap();
    let never = job["read"]["never_issued"].as_u64().unwrap();
    // For a second after the end, operations that waited for a free slot are still issued.
    assert!(
        (3_900..4_010).contains(&done) && done + never == 6_000,
        "{done} {never}"
    );
    // The wait for a free slot does not count as service time, which is 4 ms for each operation.
    let wait = job["read"]["wait_ns"]["mean"].as_f64().unwrap();
    assert!(wait > 500e6, "{wait}");
}

#[test]
fn a_rate_is_judged_although_other_jobs_of_the_group_have_none() {
    let bench = Bench::new();
    let slow = "sim:channels=1+read-us=1000+jitter-pct=0";
    let line = format!(
        "--out=run --group_reporting --direct=1 --rw=randread --runtime=2 --time_based --name=a --filename=sim: --name=b --filename={slow} --rate_iops=5000"
    );
    let (job, ended) = job(&bench, &line, 1);
    assert!(ended.stderr.contains("FAIL"), "{}", ended.stderr);
    // The report combines both jobs into one.
    let done = job["read"]["total_ios"].as_u64().unwrap();
    let never = job["read"]["never_issued"].as_u64().unwrap();
    let a = support::totals(&bench.run(), "a-reads");
    let b = support::totals(&bench.run(), "b-reads");
    assert_eq!((done, never), (a.0 + b.0, b.2));
    assert!(
        (2_980..3_010).contains(&b.0) && b.0 + b.2 == 10_000 && a.0 > b.0,
        "{a:?} {b:?}"
    );
}

#[test]
fn flushes_and_writes_after_trims_do_not_count_towards_the_rate() {
    let bench = Bench::new();
    let paced = "--name=a --filename=sim: --direct=1 --time_based --runtime=4";
    let (fsync, _) = job(
        &bench,
        &format!("--out=fsync --rw=write --rate_iops=100 --fsync=1 {paced}"),
        0,
    );
    assert_eq!(
        (&fsync["write"]["total_ios"], &fsync["sync"]["total_ios"]),
        (&400.into(), &400.into())
    );
    let (trims, _) = job(
        &bench,
        &format!("--out=trims --rw=randtrimwrite --rate_iops=100 --bs=8k {paced}"),
        0,
    );
    assert_eq!(
        (&trims["trim"]["total_ios"], &trims["write"]["total_ios"]),
        (&400.into(), &400.into())
    );
    assert_eq!(trims["write"]["io_bytes"], 400 * 8_192);
    let Some(device) = LoopDevice::new(&bench, 4 * MIB, &[]) else {
        return;
    };
    let discards = fs::read_to_string(format!(
        "/sys/block/{}/queue/discard_max_bytes",
        &device.name[5..]
    ))
    .unwrap_or_default();
    if discards.trim() == "0" {
        return support::skip("the file system under the loop device cannot forget").unwrap_or(());
    }
    let line = format!(
        "--out=real --name=a --filename={0} --erase={0} --direct=1 --rw=trimwrite --bs=64k --iodepth=4",
        device.name
    );
    let (real, _) = job(&bench, &line, 0);
    assert_eq!(
        (&real["trim"]["total_ios"], &real["write"]["total_ios"]),
        (&64.into(), &64.into())
    );
    assert!(
        device
            .content()
            .chunks(512)
            .all(|sector| sector.iter().any(|byte| *byte != 0)),
        "written after it was trimmed"
    );
    let json = job(&bench, &line.replace("out=real", "out=disk"), 0)
        .1
        .json();
    // Programs that watch for devices may read a few sectors meanwhile.
    assert!(
        json["disk_util"][0]["read_ios"].as_u64().unwrap() < 500,
        "reads of the guard do not count for the job"
    );
}

#[test]
fn the_next_run_overwrites_each_file_of_a_job_without_consent() {
    let bench = Bench::new();
    let line = "--name=a --filename=one:two --rw=write --bs=64k --size=1m";
    job(&bench, &format!("--out=first {line}"), 0);
    job(&bench, &format!("--out=second {line}"), 0);
    assert!(
        [bench.read("one"), bench.read("two")]
            .iter()
            .all(|data| data.len() == 512 << 10)
    );
}

#[test]
fn size_in_percent_is_rounded_to_whole_operations_and_number_ios_is_split_by_the_rates() {
    let bench = Bench::new();
    let sim = "--name=a --filename=sim:capacity=256MiB --direct=1";
    let (percent, _) = job(
        &bench,
        &format!("--out=percent --rw=read --bs=64k --size=10% --offset=5% {sim}"),
        0,
    );
    // 10 % of the drive are 25.6 MiB: 409 operations of 64 KiB.
    assert_eq!(percent["read"]["total_ios"], 409);
    let mixed = "--out=mixed --rw=randrw --rate_iops=1000,250 --bs=8k,32k --number_ios=100";
    let (mixed, _) = job(&bench, &format!("{mixed} {sim}"), 0);
    assert_eq!(
        (&mixed["read"]["total_ios"], &mixed["write"]["total_ios"]),
        (&80.into(), &20.into())
    );
}

/// A drive that serves eight operations at once, each in 100 us. Further operations wait.
const EIGHT: &str =
    "--filename=sim:channels=8+read-us=100+jitter-pct=0+read-mbps=0 --direct=1 --rw=randread";

#[test]
fn latency_target_finds_a_queue_depth_and_the_report_covers_only_this_depth() {
    let bench = Bench::new();
    let run = |out: &str, more: &str, code| {
        job(
            &bench,
            &format!("--out={out} --name=a {EIGHT} --time_based --runtime=60 {more}"),
            code,
        )
    };
    let target = "--iodepth=64 --latency_target=150 --latency_window=200ms --latency_percentile=99";
    let (found, _) = run("run", target, 0);
    assert_eq!(
        (&found["latency_depth"], &found["latency_target"]),
        (&8.into(), &150_000.into())
    );
    assert_eq!(
        (&found["latency_window"], &found["latency_percentile"]),
        (&200_000.into(), &99.0.into())
    );
    // The report covers one second at the depth found, and not the search.
    assert_eq!(found["read"]["runtime"], 1_000, "{}", found["read"]);
    let ops = found["read"]["total_ios"].as_u64().unwrap();
    let slowest = found["read"]["clat_ns"]["max"].as_u64().unwrap();
    assert!(
        (79_900..80_100).contains(&ops) && slowest < 102_000,
        "{ops} {slowest}"
    );
    let (never, ended) = run(
        "never",
        "--iodepth=64 --latency_target=50 --latency_window=1s",
        1,
    );
    assert_eq!(never["latency_depth"], 1, "{}", ended.stderr);
    ended.says(&["job \"a\" ended: at queue depth 1 an operation took longer"]);
    // The search alone takes longer than this runtime.
    let (_, short) = run("short", &format!("{target} --runtime=1"), 1);
    short.says(&["job \"a\" did not measure at the depth"]);
    let (_, slow) = run("max", "--max_latency=99", 1);
    slow.says(&["longer than max_latency (99 us)"]);
    for (dir, outcome) in [
        ("run", "measured"),
        ("never", "fail"),
        ("short", "fail"),
        ("max", "fail"),
    ] {
        let verdict = bench.json_file(&format!("{dir}/verdict.json"));
        assert_eq!(verdict["outcome"], outcome, "{dir}: {verdict}");
    }
}

#[test]
fn a_file_is_laid_out_first_only_if_the_job_reads_it() {
    let bench = Bench::new();
    let made = |rw: &str| {
        let line =
            format!("fio --out=run-{rw} --name=a --filename={rw} --rw={rw} --size=1m --bs=4k");
        bench.line(&line).expect(0).stderr
    };
    let mixed = made("randrw");
    let written = made("randwrite");
    assert!(
        mixed.contains("laying out the file randrw: 1.05 MB"),
        "{mixed}"
    );
    assert!(!mixed.contains("never written"), "{mixed}");
    assert!(!written.contains("laying out"), "{written}");
}

#[test]
fn thinktime_pauses_after_a_number_of_operations_or_a_time() {
    let bench = Bench::new();
    // Four operations at once take 100 us, then the job idles for 900 us.
    let blocks = "--thinktime=900 --thinktime_blocks=4 --iodepth=32 --time_based --runtime=2";
    let (blocks, _) = job(
        &bench,
        &format!("--out=blocks --name=a {EIGHT} {blocks}"),
        0,
    );
    let ops = blocks["read"]["total_ios"].as_u64().unwrap();
    assert!(
        (7_990..8_010).contains(&ops),
        "{ops}, not 4 in each millisecond"
    );
    assert_eq!(
        blocks["iodepth_level"]["4"], 100.0,
        "{}",
        blocks["iodepth_level"]
    );
    // In each half second, the job runs for 100 ms at 80,000 operations per second.
    let time = "--thinktime=400ms --thinktime_iotime=100ms --iodepth=8 --time_based --runtime=5";
    let (time, _) = job(&bench, &format!("--out=time --name=a {EIGHT} {time}"), 0);
    let ops = time["read"]["total_ios"].as_u64().unwrap();
    assert!((79_500..80_500).contains(&ops), "{ops}, not 10 times 8,000");
}

#[test]
fn each_clone_logs_each_operation_in_its_own_logs() {
    let bench = Bench::new();
    let logs = "--write_lat_log=x --write_bw_log=x --log_offset=1 --numjobs=2 --group_reporting";
    job(
        &bench,
        &format!("--out=run --name=a --rate_iops=100 --time_based --runtime=2 {EIGHT} {logs}"),
        0,
    );
    for (log, value) in [("clat", 100_000), ("lat", 100_000), ("bw", 40_960)] {
        for number in 1..=2 {
            let text = bench.text(&format!("x_{log}.{number}.log"));
            let lines: Vec<Vec<u64>> = text
                .lines()
                .map(|line| {
                    line.split(", ")
                        .map(|field| field.parse().unwrap())
                        .collect()
                })
                .collect();
            assert_eq!(lines.len(), 200, "{log}");
            assert!(
                lines.windows(2).all(|pair| pair[1][0] - pair[0][0] <= 11),
                "in their order, 10 ms apart"
            );
            for line in &lines {
                let [_, seen, 0, 4_096, offset, 0] = line[..] else {
                    panic!("{line:?}")
                };
                assert!(seen == value && offset.is_multiple_of(4_096), "{line:?}");
            }
        }
        assert_eq!(bench.text("x_slat.1.log"), "");
    }
    // As in the real fio, log_avg_msec may be any time, not only whole seconds.
    let means = "--write_iops_log=y --log_avg_msec=250 --rate_iops=100 --time_based --runtime=1";
    job(&bench, &format!("--out=means --name=a {means} {EIGHT}"), 0);
    assert_eq!(
        bench.text("y_iops.1.log"),
        "250, 100, 0, 0, 0\n500, 100, 0, 0, 0\n750, 100, 0, 0, 0\n1000, 100, 0, 0, 0\n"
    );
}

#[test]
fn exitall_ends_all_jobs_and_delayed_jobs_are_reported_for_their_own_runtime() {
    let bench = Bench::new();
    let rated = "--rate_iops=100 --time_based";
    let line = format!(
        "fio --out=run {EIGHT} {rated} --name=a --runtime=1 --name=b --startdelay=2 --runtime=3 --output-format=json"
    );
    let json = bench.line(&line).expect(0).json();
    let job = |number: usize| {
        [
            &json["jobs"][number]["read"]["total_ios"],
            &json["jobs"][number]["read"]["runtime"],
        ]
        .map(Value::as_u64)
    };
    assert_eq!(
        [job(0), job(1)],
        [[Some(100), Some(1_000)], [Some(300), Some(3_000)]]
    );
    let line = format!(
        "fio --out=exit {EIGHT} --exitall --exit_what=all --name=a --rate_iops=100 --number_ios=200 --name=b --time_based --runtime=60 --name=c --stonewall --output-format=json"
    );
    let json = bench.line(&line).expect(0).json();
    assert_eq!(
        json["jobs"].as_array().unwrap().len(),
        2,
        "the third never runs"
    );
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 200);
    let ops = json["jobs"][1]["read"]["total_ios"].as_u64().unwrap();
    assert!(
        (18_000..21_000).contains(&ops),
        "{ops}: two seconds of one in flight"
    );
}

#[test]
fn unsupported_options_and_invalid_jobs_are_refused_with_the_reason_and_nothing_runs() {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    bench.write(
        "job.fio",
        "[a]\nfilename=victim\nrw=write\nverify_policy=fsynced\nlockfile=readwrite\n",
    );
    let ended = bench
        .flashproof(&["fio", "job.fio", "--erase=victim"])
        .expect(2);
    assert_eq!(
        ended.errors(),
        [
            "job.fio:4: \"verify_policy=fsynced\" - flashproof does not support this option; without the option, \
             flashproof would run: the same job; %o is the offset of the whole operation, and all completed writes are \
             compared - leave the option out if that is acceptable",
            "job.fio:5: \"lockfile=readwrite\" - flashproof does not support this option; without the option, \
             flashproof would run: the load on the files of filename, without locks, with fsync instead of syncfs, and \
             with the same files in each loop - leave the option out if that is acceptable",
            "nothing was run",
        ]
    );
    assert_eq!(ended.stdout, "");
    for (line, code, says) in [
        ("fio --name=a --filename=victim --rw=write", 3, "victim"),
        (
            "fio --name=a --filename=victim --rw=write --readonly --erase=victim",
            2,
            "which --readonly forbids",
        ),
        (
            "fio --name=a --filename=absent --size=1m --readonly",
            3,
            "--readonly forbids to write it",
        ),
        ("fio --name=a --filename=/dev/no-such", 3, "/dev/no-such"),
        (
            "fio --name=a --filename=absent",
            2,
            "cannot create the file absent - no job gives its size",
        ),
        (
            "fio --name=a --filename=absent --rw=write --size=8m --fill_fs=1",
            2,
            "cannot create the file absent - fill_device ignores size",
        ),
        (
            "fio --name=a --filename=absent --rw=write --size=1m --offset_increment=25% --numjobs=4",
            2,
            "offset_increment is in percent of the file, and the file does not exist",
        ),
        ("fio --cmdhelp=nosuch", 2, "No such command: nosuch"),
        (
            "fio --name=a --minimal --terse-version=4",
            2,
            "cannot print version 4 of fio's terse output",
        ),
        (
            "fio absent.fio",
            2,
            "cannot read the job file \"absent.fio\"",
        ),
        (
            "fio --section=b job.fio",
            2,
            "there is no section called \"b\"",
        ),
        (
            "fio --name=a --filename=victim --rw=randread --size=64m",
            3,
            "cannot read 67108864 bytes of victim - it has only 2097152 - lower size",
        ),
        (
            "fio --name=a --filename=victim --write_bw_log=absent/x --log_avg_msec=1000",
            3,
            "absent/x_bw.1.log",
        ),
        (
            "fio --name=a --numjobs=512 --nrfiles=128 --size=1m",
            2,
            "65536 files or more, but at most 1024 can be open",
        ),
        (
            "fio --output-format=xml --name=a",
            2,
            "give normal, json, json+ or terse",
        ),
        ("fio", 2, "there is no job"),
    ] {
        let ended = bench.line(line).expect(code);
        assert!(ended.stderr.contains(says), "{line}: {}", ended.stderr);
    }
    assert_eq!(bench.read("victim"), before);
    let help = bench.flashproof(&["fio", "--help"]).expect(0);
    assert!(help.stdout.contains("--cmdhelp"));
    let dry = bench
        .line("fio --name=a --filename=victim --rw=write --dry-run")
        .expect(0);
    assert!(
        dry.stdout
            .starts_with("a: (g=0): rw=write, bs=(R) 4096B-4096B"),
        "{}",
        dry.stdout
    );
}

#[test]
fn a_job_file_is_read_from_standard_input_or_a_pipe_up_to_4_mib() {
    let bench = Bench::new();
    bench.write("more.fio", "[b]\n");
    let job = "printf '[a]\nfilename=sim:\ninclude more.fio\nfilename=sim:\n'";
    for line in [
        format!("{job} | flashproof fio --dry-run -"),
        format!("{job} | sed s/include.*// | flashproof fio --dry-run /dev/stdin"),
        format!("flashproof fio --dry-run <({job} | sed s/include.*//)"),
    ] {
        let ended = Running::start(bench.shell(&line)).end().expect(0);
        ended.expect_stdout(0, &["a: (g=0): rw=read"]);
    }
    let line = "yes x | flashproof fio -";
    let ended = Running::start(bench.shell(line)).end();
    ended.expect_error(
        2,
        &[
            "cannot read the job file \"stdin\" - it has ",
            "at most 4194304 are read",
        ],
    );
    let line = "fio --parse-only --terse-version=4 --name=a --filename=sim:";
    bench.line(line).expect(0);
}

#[test]
fn each_stream_may_have_separate_limits_and_the_layout_of_a_file_is_not_judged() {
    let bench = Bench::new();
    let line = "--name=log --filename=sim:write-us=50 --direct=1 --rw=write --fdatasync=1 --runtime=2 --time_based --sla=";
    for (limits, code, says) in [
        ("log-flushes:50%>1ns", 1, "log-flushes"),
        ("log-flushes:50%>10s", 0, "PASS"),
        // Other streams have the limits of the whole run.
        ("log-flushes:50%>10s --sla=50%>1ns", 1, "log-writes"),
        ("50%>10s --sla=log-flushes:50%>1ns", 1, "log-flushes"),
    ] {
        let ended = bench
            .line(&format!("fio {line}{limits} --out={OUT} --quiet"))
            .expect(code);
        assert!(ended.stderr.contains(says), "{limits}: {}", ended.stderr);
        let again = bench.flashproof(&["report", OUT]).expect(code);
        assert!(again.stdout.contains(says), "{limits}: {}", again.stdout);
        fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
    let unknown = bench
        .line(&format!("fio {line}wal-flushes:1%>1ms"))
        .expect(2);
    let says = "cannot judge the stream \"wal-flushes\" - no job has this stream - the streams are log-writes, log-flushes";
    assert!(unknown.stderr.contains(says), "{}", unknown.stderr);
    bench.line(&format!("fio {line}log-flushes:1ms")).expect(2);

    bench
        .line("fio --name=a --filename=new --size=1m --rw=read --sla=50%>100s --quiet")
        .expect(0);
    assert_eq!(bench.read("new").len() as u64, MIB);
}

#[test]
fn a_loop_device_is_guarded_and_receives_exactly_the_jobs_writes() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    device.put(8 * MIB, &[7; 1 << 20]);
    let line = |more: &str| format!("--name=a --filename={} --direct=1 {more}", device.name);
    bench
        .line(&format!("fio {}", line("--rw=write --size=4m")))
        .expect_stderr(3, &["--erase"]);
    let before = device.counters();
    let write = line(&format!(
        "--rw=randwrite --bs=16k --size=4m --iodepth=8 --erase={}",
        device.name
    ));
    let (job, ended) = job(&bench, &write, 0);
    assert!(ended.stderr.contains("erasing"), "{}", ended.stderr);
    assert_eq!(
        (&job["write"]["total_ios"], &job["write"]["io_bytes"]),
        (&256.into(), &(4 * MIB).into())
    );
    let written = device.counters().since(&before).unwrap().write;
    assert!(written.sectors >= 8_192, "{written:?}");
    let content = device.content();
    let (used, rest) = content.split_at(4 << 20);
    assert!(
        used.chunks(512)
            .all(|sector| sector.iter().any(|byte| *byte != 0)),
        "each block was written"
    );
    assert!(
        rest[..4 << 20].iter().all(|byte| *byte == 0) && rest[4 << 20] == 7,
        "no other block was"
    );
}

#[test]
fn cpus_allowed_accepts_an_existing_cpu_and_a_missing_cpu_is_refused_before_files_are_created() {
    let bench = Bench::new();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let all = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let last = all.trim().rsplit(['-', ',']).next().unwrap();
    let line =
        format!("fio --name=a --filename=f --size=1m --rw=write --cpus_allowed={last} --out=run");
    bench.line(&line).expect(0);
    let line = format!(
        "fio --name=a --filename=g --size=1m --rw=write --cpus_allowed={last},1023 --out=more"
    );
    bench
        .line(&line)
        .expect_stderr(3, &["there is no CPU 1023 to run on - give other CPUs"]);
    assert!(!bench.path("g").exists(), "no file is created before");
}

#[test]
fn files_that_are_no_earlier_output_are_replaced_only_with_force() {
    let bench = Bench::new();
    let line = "fio --name=a --filename=sim: --direct=1 --rw=randread --rate_iops=100 --runtime=2 --time_based --quiet \
                --output=out.txt --write_iops_log=a";
    let fio = |more: &str| bench.line(&format!("{line} {more}"));
    for (number, format) in ["normal", "json", "terse", "normal"]
        .into_iter()
        .enumerate()
    {
        fio(&format!("--out=run{number} --output-format={format}")).expect(0);
    }
    for foreign in ["out.txt", "a_iops.1.log"] {
        let before = bench.read(foreign);
        bench.write(foreign, "my thesis");
        fio("--out=x").expect_error(2, &[foreign, "it is there already", "--force"]);
        assert_eq!(bench.text(foreign), "my thesis");
        bench.write(foreign, before);
    }
    bench.write("out.txt", "my thesis");
    fio("--out=forced --force").expect(0);
    std::fs::rename(bench.path("out.txt"), bench.path("elsewhere")).unwrap();
    symlink(bench.path("elsewhere"), bench.path("out.txt")).unwrap();
    fio("--out=y --force").expect_error(2, &["it is a symbolic link"]);
}

/// Runs `jobs` by the real fio and by flashproof, each on separate files. Returns the JSON of both.
fn beside_fio(bench: &Bench, jobs: &str) -> Option<[Value; 2]> {
    tool("fio", &["--version"])?;
    let link = bench.path("fio");
    if !link.exists() {
        symlink(FLASHPROOF, &link).unwrap();
    }
    let read = |file: &str, program: &std::path::Path| {
        bench.write("jobs.fio", jobs.replace("FILE", file));
        let mut command = bench.command(program);
        command
            .args(["--output-format=json+", "jobs.fio", "--output=out.json"])
            .env("FLASHPROOF_ERASE", bench.path(file));
        let ended = Running::start(command).end().expect(0);
        assert_eq!(ended.stdout, "", "{}", ended.stderr);
        bench.json_file("out.json")
    };
    Some([
        read("theirs", std::path::Path::new("fio")),
        read("ours", &link),
    ])
}

/// Asserts that `ours` has each name of fio's JSON with a value of its type; percentiles and bins are not compared.
fn assert_like(theirs: &Value, ours: &Value, path: &str) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (name, value) in theirs
                .iter()
                .filter(|(name, _)| !["bins", "percentile", "disk_util"].contains(&name.as_str()))
            {
                let of_ours = ours
                    .get(name)
                    .unwrap_or_else(|| panic!("{path}.{name} is missing"));
                assert_like(value, of_ours, &format!("{path}.{name}"));
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            assert_eq!(theirs.len(), ours.len(), "{path}");
            theirs
                .iter()
                .zip(ours)
                .for_each(|(theirs, ours)| assert_like(theirs, ours, path));
        }
        _ => assert_eq!(
            std::mem::discriminant(theirs),
            std::mem::discriminant(ours),
            "{path}: {theirs} {ours}"
        ),
    }
}

#[test]
fn the_real_fio_reports_the_same_fields_and_the_same_counts() {
    let bench = Bench::new();
    let jobs = "[global]\nfilename=FILE\nsize=2m\nioengine=psync\n\
                [fill]\nrw=write\nbs=64k\nfsync=8\n\
                [all]\nstonewall\nrw=randread\nbs=4k\nnumjobs=2\ngroup_reporting\n\
                [mixed]\nstonewall\nrw=randrw\nbs=8k\nrwmixread=70\n\
                [some]\nstonewall\nrw=read\nbs=4k,8k\nnumber_ios=100\n\
                [over]\nstonewall\nrw=read\nbs=16k\nsize=50%\nio_size=3m\noffset=512k\n\
                [windows]\nstonewall\nrw=read\nbs=16k\nzonemode=strided\nzonesize=256k\nzoneskip=256k\n\
                [checked]\nstonewall\nrw=write\nbs=4k\nsize=1m\nverify=crc32c\nverify_backlog=64\n\
                [thousand]\nstonewall\nrw=write\nkb_base=1000\nbs=4k\nsize=400k\nloops=2\n";
    let Some([theirs, ours]) = beside_fio(&bench, jobs) else {
        return;
    };
    assert_like(&theirs, &ours, "");
    let count = |json: &Value, job: usize| {
        let job = &json["jobs"][job];
        let of = |kind: &str, field: &str| job[kind][field].as_u64().unwrap();
        let each = ["read", "write"].map(|kind| (of(kind, "total_ios"), of(kind, "io_bytes")));
        (
            job["jobname"].as_str().unwrap().to_owned(),
            job["groupid"].as_u64().unwrap(),
            each,
            of("sync", "total_ios"),
        )
    };
    for job in 0..8 {
        let theirs = count(&theirs, job);
        let ours = count(&ours, job);
        if theirs.0 == "checked" {
            // flashproof also counts its flushes before the read-back.
            assert_eq!(theirs.2, ours.2);
            continue;
        }
        if theirs.0 != "mixed" {
            assert_eq!(theirs, ours);
            continue;
        }
        // Random numbers differ, so the split into reads and writes differs. In total, each block is accessed once.
        let sum = |(_, _, [read, write], _): &(String, u64, [(u64, u64); 2], u64)| {
            (read.0 + write.0, read.1 + write.1)
        };
        assert_eq!((sum(&theirs), sum(&ours)), ((256, 2 * MIB), (256, 2 * MIB)));
        assert!(ours.2[0].0.abs_diff(179) < 37, "about 70 %: {ours:?}");
    }
}

#[test]
fn the_terse_line_has_the_fields_of_the_real_fio() {
    let bench = Bench::new();
    let Some(_) = tool("fio", &["--version"]) else {
        return;
    };
    let line = "--name=a --filename=data --size=1m --rw=randread --bs=4k --ioengine=psync --minimal --percentile_list=50:99";
    let fields = |program: std::path::PathBuf| -> Vec<String> {
        let ended = bench.program(program, &words(line)).expect(0);
        ended
            .stdout
            .trim_end()
            .split(';')
            .map(str::to_owned)
            .collect()
    };
    let theirs = fields("fio".into());
    symlink(FLASHPROOF, bench.path("fio")).unwrap();
    let ours = fields(bench.path("fio"));
    // Later fields describe disks. A container may see no disk.
    assert!(theirs.len() >= 121 && ours.len() >= 121, "{ours:?}");
    for place in [0, 1, 2, 3, 4, 5, 46, 49, 92] {
        assert_eq!(theirs[place], ours[place], "field {place}");
    }
    for (place, (theirs, ours)) in theirs.iter().zip(&ours).enumerate().take(121) {
        let shape = |field: &str| field.split('=').next().unwrap_or_default().ends_with('%');
        assert_eq!(shape(theirs), shape(ours), "field {place}: {theirs} {ours}");
    }
}

#[test]
fn called_as_fio_flashproof_prints_fios_output_and_leaves_no_other_files() {
    let bench = Bench::new();
    symlink(FLASHPROOF, bench.path("fio")).unwrap();
    let fio = |line: &str| bench.program(bench.path("fio"), &words(line));
    let ended = fio("--name=a --ioengine=libaio --filename=data --rw=randread --size=1m --bs=4k")
        .expect_stderr(0, &["laying out the file data: 1.05 MB"])
        .expect_stdout(
            0,
            &["     issued rwts: total=256,0,0,0 short=0,0,0,0 dropped=0,0,0,0"],
        )
        .expect_stdout(0, &["Run status group 0 (all jobs):\n   READ: bw="]);
    assert_eq!(
        ended
            .stderr
            .matches("ioengine=libaio is replaced by io_uring\n")
            .count(),
        1,
        "{}",
        ended.stderr
    );
    for line in [
        "a: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=io_uring, iodepth=1",
        concat!(
            "flashproof ",
            env!("CARGO_PKG_VERSION"),
            ", in the format of fio-3.33"
        ),
    ] {
        assert!(
            ended.stdout.lines().any(|found| found == line),
            "{}",
            ended.stdout
        );
    }
    assert!(
        bench
            .read("data")
            .chunks(4096)
            .all(|block| block.iter().any(|byte| *byte != 0)),
        "data is written"
    );
    let mut left: Vec<_> = fs::read_dir(bench.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.retain(|name| name != "state");
    left.sort();
    assert_eq!(left, ["data", "fio"]);
    assert_eq!(
        fio("--version").expect(0).stdout,
        "fio-3.33\n",
        "scripts read this line"
    );
    // Test suites ask fio in these ways whether it has an option.
    fio("--parse-only --terse-version=4").expect(0);
    fio("--cmdhelp=nosuch").expect_stderr(0, &["No such command: nosuch - "]);
    let help = fio("--cmdhelp=zonemode").expect(0).stdout;
    assert!(
        help.starts_with("zonemode  ") && !help.contains("zonesize   "),
        "{help}"
    );
    // For an error, flashproof also has the exit code of fio.
    for line in [
        "--name=a --bogus=1",
        "no-such.fio",
        "--parse-only --bogus=1",
        "--name=a --filename=/dev/null --rw=read",
    ] {
        fio(line).expect(1);
    }
}

#[test]
fn a_synchronous_engine_issues_system_calls_from_a_thread_per_clone() {
    let bench = Bench::new();
    let device = LoopDevice::new(&bench, 4 * MIB, &[]);
    for engine in ["sync", "psync", "vsync", "pvsync", "pvsync2"] {
        let each = format!(
            "--name=a --rw=write --bs=64k --size=1m --fsync=8 --fdatasync=4 --ioengine={engine}"
        );
        let on_files = format!(
            "--out=files-{engine} --directory={} --numjobs=3 {each}",
            bench.path("").display()
        );
        let (_, ended) = job(&bench, &on_files, 0);
        for job in ended.json()["jobs"].as_array().unwrap() {
            // No sync follows the last of the 16 writes.
            assert_eq!(
                (&job["write"]["total_ios"], &job["sync"]["total_ios"]),
                (&16.into(), &3.into())
            );
        }
        let run = results::run_dir::read(&bench.path(format!("files-{engine}"))).unwrap();
        let facts = &run.manifest.engine_facts;
        assert_eq!(
            (&facts["engine"], &facts["issuing_threads"]),
            (&"sync".into(), &3.into()),
            "{facts}"
        );
        let is_replaced = ended
            .stderr
            .contains(&format!("ioengine={engine} is replaced by psync\n"));
        assert_eq!(is_replaced, engine != "psync", "{}", ended.stderr);
        let Some(device) = &device else { continue };
        let on_device = format!(
            "--out=device-{engine} --filename={0} --erase={0} --direct=1 {each}",
            device.name
        );
        let (job, _) = job(&bench, &on_device, 0);
        assert_eq!(
            (&job["write"]["total_ios"], &job["sync"]["total_ios"]),
            (&16.into(), &3.into())
        );
        assert!(
            device.content()[..MIB as usize]
                .chunks(512)
                .all(|sector| sector.iter().any(|byte| *byte != 0))
        );
    }
}

#[test]
fn synchronous_and_asynchronous_jobs_run_at_the_same_time() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 4 * MIB, &[]) else {
        return;
    };
    let line = format!(
        "fio --out=run --filename={} --direct=1 --rw=randread --bs=4k --name=calls --ioengine=psync --numjobs=2 --name=queue --ioengine=libaio --iodepth=4",
        device.name
    );
    bench
        .line(&line)
        .expect_stderr(0, &["ioengine=libaio is replaced by io_uring\n"])
        .shows(&[
            "calls: (g=0): rw=randread",
            "ioengine=psync, iodepth=1",
            "ioengine=io_uring, iodepth=4",
        ]);
    let facts = bench.run().manifest.engine_facts;
    assert_ne!(facts["engine"], "sync");
    assert_eq!(facts["synchronous_threads"], 2, "{facts}");
    assert_eq!(support::totals(&bench.run(), "queue-reads"), (1024, 0, 0));
}

/// Starts a run whose writes hang, because its cgroup may write only one byte per second. Also returns the cgroup.
fn hanging(bench: &Bench, device: &LoopDevice, line: &str) -> Option<(Throttled, Running)> {
    let throttled = Throttled::new(bench, device, &[("write_bps", 1)])?;
    let mut command = throttled.command(bench);
    let line = format!(
        "fio --out=run --name=a --filename={0} --erase={0} --bs=64k --ioengine=psync --time_based --hang=2 {line}",
        device.name
    );
    command.args(words(&line));
    Some((throttled, Running::start(command)))
}

#[test]
fn an_operation_that_hangs_in_a_system_call_is_reported_as_never_completed() {
    for (line, stream) in [
        ("--rw=randwrite --direct=1", "a-writes"),
        ("--rw=write --fdatasync=1", "a-flushes"),
    ] {
        let bench = Bench::new();
        let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
            return;
        };
        let Some((throttled, mut running)) =
            hanging(&bench, &device, &format!("--runtime=2 {line}"))
        else {
            return;
        };
        running.wait_to_hear(&format!("1 {stream} never completed"));
        // The kernel cannot end a process that waits for a device.
        running.wait_to_hear("this process can exit only when");
        throttled.lift();
        running.end().expect_stderr(1, &["FAIL"]);
        let run = bench.run();
        assert_eq!(run.intervals, 2, "the report did not wait for the call");
    }
}

#[test]
fn a_signal_ends_a_run_with_a_hanging_system_call() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let Some((throttled, mut running)) =
        hanging(&bench, &device, "--rw=randwrite --direct=1 --runtime=600")
    else {
        return;
    };
    running.wait_for_interval(&bench, OUT);
    running.signal("TERM");
    running.wait_to_hear("stopped by SIGTERM");
    running.wait_to_hear("this process can exit only when");
    throttled.lift();
    running.end().expect(1);
}
