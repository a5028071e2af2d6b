//! fio's jobs at the same time and one after another; their steady states, priorities and logs.

use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use support::{Bench, Ended, FLASHPROOF, LoopDevice, MIB, tool, words};

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn fallocate_decides_if_blocks_are_allocated_before_the_run_or_by_its_writes() {
    let bench = Bench::new();
    let allocated = |fallocate: &str| {
        let line = format!(
            "--name={fallocate} --filename={fallocate} --size=4m --rw=write --bs=64k --number_ios=2"
        );
        let (_, ended) = bench.fio_jobs(
            &format!("--out=run-{fallocate} {line} --fallocate={fallocate}"),
            0,
        );
        let file = fs::metadata(bench.path(fallocate)).unwrap();
        assert_eq!(file.len(), 4 * MIB);
        (file.blocks() * 512, ended.stderr)
    };
    let (all, of_native) = allocated("native");
    let (some, told) = allocated("none");
    assert!(
        (128 << 10..1 << 20).contains(&some) && told.contains("no space is reserved for it"),
        "{some}: {told}"
    );
    if of_native.contains("its file system cannot reserve space") {
        println!(
            "skipped: the file system of {} reserves no space",
            bench.path("native").display()
        )
    } else {
        assert!(all >= 4 * MIB, "{all}")
    }
    let ended = bench
        .flashproof(&words(
            "fio --name=a --filename=a --size=1m --fallocate=full",
        ))
        .expect(2);
    assert!(
        ended
            .stderr
            .contains("the value must be one of native, posix, keep"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_job_ends_in_steady_state_and_reports_it() {
    let bench = Bench::new();
    let line = "--filename=sim:channels=4+read-us=1000+jitter-pct=0 --direct=1 --rw=randread --iodepth=4 --time_based --runtime=60";
    let steady = "--steadystate=iops:1% --ss_dur=4 --ss_ramp=3";
    let (job, ended) = bench.fio_jobs(
        &format!("--out=run --name=a --numjobs=2 --group_reporting {line} {steady}"),
        0,
    );
    let state = &job[0]["steadystate"];
    assert_eq!(
        (&state["attained"], &state["duration"], &state["ss"]),
        (&1.into(), &4.into(), &"iops:1.000000%".into())
    );
    // The last operations complete shortly after the end.
    assert!(
        (7_000.0..7_003.0).contains(&number(&job[0]["read"]["runtime"])),
        "{}",
        ended.stderr
    );
    let seconds: Vec<_> = state["data"]["iops"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect();
    assert!(
        seconds.len() == 4 && seconds.iter().all(|iops| (3_950.0..4_050.0).contains(iops)),
        "{seconds:?}"
    );
    // A drive that slows down delays the steady state. Without a steady state, the job runs for its whole runtime.
    let slow = line
        .replace("jitter-pct=0", "jitter-pct=0+slow-after-s=5")
        .replace("60", "30");
    let (job, _) = bench.fio_jobs(&format!("--out=slow --name=a {slow} {steady}"), 0);
    let ran = number(&job[0]["read"]["runtime"]);
    assert!(
        (9_000.0..9_003.0).contains(&ran),
        "the four seconds after the change, not {ran}"
    );
    let (job, _) = bench.fio_jobs(
        &format!("--out=never --name=a {line} --runtime=6 --steadystate=iops:0 --ss_dur=2"),
        0,
    );
    assert_eq!(
        (
            &job[0]["read"]["runtime"],
            &job[0]["steadystate"]["attained"]
        ),
        (&6_000.into(), &0.into())
    );
    bench
        .line("fio --name=a --filename=sim: --direct=1 --time_based --runtime=30 --ss=bw_slope:9% --ss_dur=2")
        .expect_stdout(0, &["  steadystate  : attained=yes, bw=", ", bw slope="]);
}

#[test]
fn a_runtime_may_be_fractional_and_wait_for_starts_a_job_after_another() {
    let bench = Bench::new();
    let line = "--filename=sim: --direct=1 --rw=randread --time_based --name=a --runtime=1.5 --name=b --runtime=250ms --wait_for=a";
    let (jobs_of, ended) = bench.fio_jobs(&format!("--out=run {line}"), 0);
    let ran: Vec<_> = jobs_of
        .iter()
        .map(|job| number(&job["read"]["runtime"]))
        .collect();
    assert_eq!(ran, [1_500.0, 250.0], "{}", ended.stderr);
    assert!(bench.exists("run/run-2/verdict.json"), "a run of its own");
    // As in fio, the start delay counts from the start of the first run: here 0.5 s are left.
    let line = line.replace("--wait_for=a", "--stonewall --startdelay=2");
    bench.fio_jobs(&format!("--out=delayed {line}"), 0);
    let manifest = bench.json_file("delayed/run-2/manifest.json");
    assert_eq!(manifest["duration_sec"], 1, "{manifest}");
    bench
        .line(&format!("fio {line} --dry-run"))
        .expect_stdout(0, &["for 250 ms, 2 s after the start or later"]);
    let (paced, _) = bench
        .fio_jobs("--out=paced --filename=sim: --direct=1 --time_based --name=a --runtime=1.5 --rate_iops=1000", 0);
    assert_eq!(
        (&paced[0]["read"]["total_ios"], &paced[0]["read"]["iops"]),
        (&1_500.into(), &1_000.0.into())
    );
}

#[test]
fn the_null_engine_measures_nothing_and_a_warning_says_so() {
    let bench = Bench::new();
    let (job, ended) = bench.fio_jobs(
        "--out=run --name=a --ioengine=null --size=64m --rw=randrw",
        0,
    );
    let done = ["read", "write"].map(|kind| number(&job[0][kind]["total_ios"]));
    assert_eq!(done.iter().sum::<f64>(), 16_384.0);
    assert!(
        ended
            .stderr
            .contains("measured nothing: ioengine=null moves no data"),
        "{}",
        ended.stderr
    );
}

#[test]
fn cmdprio_percentage_gives_a_share_of_the_operations_another_priority() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 8 * MIB, &[]) else {
        return;
    };
    let line = format!(
        "--name=a --filename={} --direct=1 --rw=randread --bs=4k --iodepth=4 --prioclass=2 --prio=7 --cmdprio_percentage=25 --cmdprio_class=3 --write_lat_log=p --log_prio=1",
        device.name
    );
    for engine in ["io_uring", "psync"] {
        let (job, _) = bench.fio_jobs(&format!("--out={engine} --ioengine={engine} {line}"), 0);
        let prios = job[0]["read"]["prios"].as_array().unwrap();
        let of = |at: usize| {
            (
                &prios[at]["prioclass"],
                &prios[at]["prio"],
                number(&prios[at]["clat_ns"]["N"]),
            )
        };
        let (class, level, idle) = of(1);
        assert_eq!((class, level), (&3.into(), &0.into()));
        assert_eq!(
            (of(0).0, of(0).1, of(0).2 + idle),
            (&2.into(), &7.into(), 2_048.0)
        );
        assert!((420.0..600.0).contains(&idle), "{idle}");
        let log = bench.text("p_clat.1.log");
        let ending = |with: &str| log.lines().filter(|line| line.ends_with(with)).count() as f64;
        assert_eq!(
            (ending(", 0x6000"), ending(", 0x4007")),
            (idle, 2_048.0 - idle),
            "{engine}"
        );
    }
}

#[test]
fn iodepth_low_drains_a_full_queue_before_it_is_refilled() {
    let bench = Bench::new();
    let line = "--out=run --name=a --filename=sim:jitter-pct=0 --direct=1 --rw=randread --iodepth=16 --size=4m";
    let (job, _) = bench.fio_jobs(&format!("{line} --iodepth_low=1"), 0);
    let levels = &job[0]["iodepth_level"];
    assert_eq!(job[0]["read"]["total_ios"], 1_024);
    assert!(
        number(&levels["16"]) > 99.0,
        "all but one are issued together: {levels}"
    );
}

#[test]
fn an_iolog_is_written_and_replayed() {
    let bench = Bench::new();
    let write = "--out=first --name=a --filename=data --rw=randrw --bs=4k --size=256k --rate_iops=100,100 --fdatasync=4 --write_iolog=log";
    let (first, _) = bench.fio_jobs(write, 0);
    let counts =
        |job: &Value| ["read", "write", "sync"].map(|kind| number(&job[kind]["total_ios"]));
    let log = bench.text("log");
    assert!(
        log.starts_with("fio version 3 iolog\n0 data add\n0 data open\n"),
        "{log}"
    );
    let lines = |action: &str| log.lines().filter(|line| line.contains(action)).count() as f64;
    assert_eq!(
        [lines(" read "), lines(" write "), lines(" datasync ")],
        counts(&first[0])
    );
    let (again, ended) = bench.fio_jobs(
        "--out=again --name=b --read_iolog=log --iodepth=4 --write_iolog=log-2",
        0,
    );
    assert_eq!(counts(&again[0]), counts(&first[0]));
    assert!(ended.stderr.contains("open loop"), "{}", ended.stderr);
    let places = |log: &str| -> Vec<String> {
        let lines = log
            .lines()
            .skip(3)
            .map(|line| line.split_once(' ').unwrap().1.to_owned());
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    };
    assert_eq!(places(&bench.text("log-2")), places(&log));
    let (fast, _) = bench.fio_jobs(
        "--out=fast --name=b --read_iolog=log --replay_no_stall=1 --iodepth=8",
        0,
    );
    assert_eq!(counts(&fast[0]), counts(&first[0]));
    // fio replays the log that flashproof has written.
    if tool("fio", &["--version"]).is_some() {
        let line = "fio --name=a --read_iolog=log --replay_no_stall=1 --output-format=json --output=theirs.json";
        assert!(bench.shell(line).status().unwrap().success());
        let theirs = bench.json_file("theirs.json");
        assert_eq!(counts(&theirs["jobs"][0])[..2], counts(&first[0])[..2]);
    }
    bench.write("bad", "fio version 3 iolog\n0 /dev/null read zero 4096\n");
    bench
        .line("fio --name=a --read_iolog=bad")
        .expect_stderr(2, &["cannot replay the log \"bad\" - line 2"]);
    bench.write("beyond", "fio version 2 iolog\ndata read 1048576 4096\n");
    let short = bench.flashproof(&["fio", "--name=a", "--read_iolog=beyond"]);
    short.expect_error(
        2,
        &["cannot read 1052672 bytes of data", "it has only 262144"],
    );
}

#[test]
fn logs_have_histograms_maxima_and_unix_times() {
    let bench = Bench::new();
    let line = "--name=a --filename=sim: --direct=1 --rw=randrw --rate_iops=1000,500 --time_based --runtime=2";
    let logs = "--write_hist_log=h --log_hist_msec=500 --write_lat_log=l --log_avg_msec=500";
    let lines = |name: &str| -> Vec<Vec<u64>> {
        bench
            .text(name)
            .lines()
            .map(|line: &str| {
                line.split(", ")
                    .map(|field| field.parse().unwrap())
                    .collect()
            })
            .collect()
    };
    bench.fio_jobs(&format!("--out=mean {line} {logs}"), 0);
    let histograms = lines("h_clat_hist.1.log");
    assert_eq!(histograms.len(), 8, "four periods of reads and writes");
    for fields in &histograms {
        assert_eq!(
            (fields.len(), fields[2], fields[0] % 500),
            (3 + 1_856, 4_096, 0)
        );
        assert_eq!(
            fields[3..].iter().sum::<u64>(),
            if fields[1] == 0 { 500 } else { 250 }
        );
    }
    let mean = lines("l_clat.1.log");
    // The logs of the previous run are replaced.
    bench.fio_jobs(
        &format!(
            "--out=max {line} {logs} --log_max_value=1 --log_hist_coarseness=3 --log_unix_epoch=1"
        ),
        0,
    );
    let max = lines("l_clat.1.log");
    assert!(
        mean.iter().zip(&max).all(|(mean, max)| mean[1] < max[1]),
        "{mean:?} {max:?}"
    );
    let coarse = lines("h_clat_hist.1.log");
    assert!(coarse.iter().all(|fields| fields.len() == 3 + 1_856 / 8));
    let sum = |fields: &[u64]| {
        fields[3..]
            .chunks(8)
            .map(|bins| bins.iter().sum())
            .collect::<Vec<u64>>()
    };
    assert_eq!(sum(&histograms[0]), coarse[0][3..], "the same seed");
    let run = results::run_dir::read(&bench.path("max")).unwrap();
    assert_eq!(max[0][0], run.manifest.started_unix_ms + 500);
}

/// A script of fio's repository, in `FLASHPROOF_FIO_TOOLS`; `None`, with a message, without this directory.
fn script(name: &str) -> Option<String> {
    let missing = || {
        support::skip(&format!(
            "{name}: FLASHPROOF_FIO_TOOLS names no directory with fio's tools"
        ))
    };
    let dir = std::env::var("FLASHPROOF_FIO_TOOLS")
        .ok()
        .or_else(missing)?;
    let path = format!("{dir}/{name}");
    if fs::exists(&path).unwrap_or(false) {
        Some(path)
    } else {
        missing()
    }
}

#[test]
fn scripts_of_fio_read_the_logs_and_the_json() {
    let bench = Bench::new();
    let line = "--filename=sim: --direct=1 --rw=randread --rate_iops=2000 --time_based --runtime=4";
    let logs = "--write_hist_log=h --log_hist_msec=1000 --write_lat_log=l --log_avg_msec=1000";
    let words =
        format!("fio --out=run --name=a {line} {logs} --output-format=json+ --output=plus.json");
    bench.line(&words).expect(0);
    let python = |arguments: &str| {
        let output = bench
            .shell(&format!("python3 {arguments}"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    if let Some(path) = script("fiologparser.py") {
        let means = python(&format!("{path} -i 1000 -a l_clat.1.log"));
        let ms: Vec<_> = means
            .lines()
            .filter_map(|line| line.split(',').next())
            .collect();
        assert_eq!(ms, ["1000", "2000", "3000", "4000"], "{means}");
    }
    let has = |modules: &str| tool("python3", &["-c", &format!("import {modules}")]).is_some();
    if let Some(path) = script("fio_jsonplus_clat2csv").filter(|_| has("six")) {
        python(&format!("{path} plus.json out.csv"));
        let csv = bench.text("out_job0.csv");
        assert!(
            csv.lines().count() > 50 && csv.contains("8000"),
            "the file has all 8,000 reads: {csv}"
        );
    }
    if let Some(path) = script("hist/fiologparser_hist.py").filter(|_| has("numpy, pandas")) {
        let table = python(&format!("{path} --group_nr 29 -i 1000 h_clat_hist.1.log"));
        let samples: Vec<_> = table
            .lines()
            .skip(1)
            .filter_map(|line| line.split(", ").nth(1))
            .collect();
        assert_eq!(samples, ["2000"; 4], "{table}");
    }
}

/// Runs the program under the name fio. Returns the jobs of its JSON output.
fn as_fio(bench: &Bench, line: &str, code: i32) -> (Vec<Value>, Ended) {
    if !bench.exists("fio") {
        symlink(FLASHPROOF, bench.path("fio")).unwrap();
    }
    let ended = bench
        .program(
            bench.path("fio"),
            &words(&format!("{line} --output-format=json")),
        )
        .expect(code);
    (ended.json()["jobs"].as_array().unwrap().clone(), ended)
}

#[test]
fn jobs_of_one_command_may_overwrite_each_others_data_and_a_refused_job_keeps_earlier_results() {
    let bench = Bench::new();
    // Verify blocks and buffer patterns do not contain the guard's stamps.
    for (file, data) in [("v", "--verify=md5"), ("p", "--buffer_pattern=0xdeadbeef")] {
        let line = format!(
            "--size=1m --filename={file} --name=w1 --rw=write {data} --do_verify=0 --name=w2 --stonewall --rw=randwrite {data}"
        );
        let (jobs, _) = as_fio(&bench, &line, 0);
        assert_eq!(
            [0, 1].map(|job: usize| jobs[job]["write"]["total_ios"].as_u64()),
            [Some(256); 2],
            "{data}"
        );
        let bytes = bench.read(file);
        // Another command needs consent.
        let line = format!("--size=1m --filename={file} --name=w --rw=write");
        let ended = bench.program(bench.path("fio"), &words(&line)).expect(1);
        assert!(ended.stderr.contains(file), "{}", ended.stderr);
        assert_eq!(bench.read(file), bytes);
    }
    // `my file` is one file, and not the files `my` and `file`.
    bench.write_victim("my", 1);
    let before = bench.read("my");
    let parts = "[a]\nfilename=my file\nrw=write\nsize=1m\n[b]\nstonewall\nfilename=my file:my\nrw=write\nsize=2m\n";
    bench.write("parts.fio", parts);
    let ended = bench.program(bench.path("fio"), &["parts.fio"]).expect(1);
    assert!(
        ended.stderr.contains("refusing to write to my -"),
        "{}",
        ended.stderr
    );
    assert_eq!(bench.read("my"), before);
    let line = "--size=1m --name=w1 --filename=new --rw=write --name=w2 --stonewall --filename=v --rw=write";
    let ended = bench
        .program(
            bench.path("fio"),
            &words(&format!("{line} --output-format=json")),
        )
        .expect(1);
    let jobs = ended.json()["jobs"].as_array().unwrap().clone();
    assert_eq!(
        (jobs.len(), &jobs[0]["write"]["total_ios"]),
        (2, &256.into()),
        "{}",
        ended.stderr
    );
    assert_eq!(
        (&jobs[0]["error"], &jobs[1]["error"]),
        (&0.into(), &22.into()),
        "as fio reports a job that cannot run"
    );
    let line = "--name=a --filename=nofile --rw=read --output=o.json --output-format=json";
    bench.program(bench.path("fio"), &words(line)).expect(1);
    assert_eq!(bench.json_file("o.json")["jobs"][0]["error"], 22);
    assert_eq!(
        bench.json_file("o.json")["jobs"][0]["job options"]["name"],
        "a"
    );
}

#[test]
fn a_run_reads_one_device_and_writes_another() {
    let bench = Bench::new();
    let rate = "--direct=1 --rate_iops=100 --time_based --runtime=2";
    let line = format!(
        "{rate} --name=r --filename=sim:name=a --rw=randread --name=w --filename=sim:name=b --rw=randwrite"
    );
    let (jobs, _) = as_fio(&bench, &line, 0);
    let counts = |job: &Value| ["read", "write"].map(|kind| job[kind]["total_ios"].as_u64());
    assert_eq!(
        [counts(&jobs[0]), counts(&jobs[1])],
        [[Some(200), Some(0)], [Some(0), Some(200)]]
    );
    // A file that is only read keeps its data and size, although the job writes another, longer file.
    bench.write_victim("log", 1);
    let before = bench.read("log");
    let line =
        "--bs=64k --name=r --filename=log --rw=read --name=w --filename=data --rw=write --size=4m";
    let (jobs, _) = as_fio(&bench, line, 0);
    assert_eq!(
        [counts(&jobs[0]), counts(&jobs[1])],
        [[Some(16), Some(0)], [Some(0), Some(64)]]
    );
    assert!(bench.read("log") == before && bench.read("data").len() == 4 << 20);
    symlink(bench.path("data"), bench.path("link")).unwrap();
    let line =
        "--bs=64k --size=4m --name=r --filename=link --rw=read --name=w --filename=data --rw=write";
    let ended = bench.program(bench.path("fio"), &words(line)).expect(1);
    assert!(
        ended.stderr.contains("has bytes in common with"),
        "{}",
        ended.stderr
    );
}

#[test]
fn iolog_files_are_numbered_only_if_jobs_or_clones_share_the_name_of_the_file() {
    let bench = Bench::new();
    let line = "--filename=sim: --direct=1 --number_ios=3 --rw=read --name=a --write_iolog=one --numjobs=2 --name=b \
                --write_iolog=other --name=c --stonewall --write_iolog=one";
    as_fio(&bench, line, 0);
    let logs = ["one", "one.2", "other", "one.4"].map(|log| bench.text(log).lines().count());
    assert_eq!(logs, [6; 4], "three operations after three lines");
    assert!(!bench.exists("other.3") && !bench.exists("one.3"));
}

#[test]
fn a_job_that_misses_its_latency_or_rate_has_fios_error_number() {
    let bench = Bench::new();
    let sim = "--name=a --filename=sim:read-us=100+jitter-pct=0 --direct=1 --rw=randread --time_based --runtime=10";
    for (goal, error) in [
        ("--max_latency=50", 110),
        ("--latency_target=50 --latency_window=100ms", 110),
        ("--rate_iops_min=100000", 5),
        ("--rate_min=1g", 5),
    ] {
        let (jobs, _) = as_fio(&bench, &format!("{sim} {goal}"), 1);
        assert_eq!(jobs[0]["error"], error, "{goal}");
        let line = format!("{sim} {goal} --minimal");
        let ended = bench.program(bench.path("fio"), &words(&line)).expect(1);
        assert_eq!(
            ended.stdout.split(';').nth(4),
            Some(&*error.to_string()),
            "{goal}: {}",
            ended.stdout
        );
    }
}

#[test]
fn a_job_that_ends_within_its_ramp_time_is_reported_whole() {
    let bench = Bench::new();
    let line = "--name=r --filename=sim:write-us=1000+jitter-pct=0 --direct=1 --size=32m --rw=write --bs=1m --ramp_time=5 --runtime=10";
    let (jobs, ended) = as_fio(&bench, line, 0);
    assert_eq!(
        (
            &jobs[0]["write"]["total_ios"],
            &jobs[0]["write"]["clat_ns"]["N"]
        ),
        (&32.into(), &32.into())
    );
    let runtime_ms = jobs[0]["write"]["runtime"].as_u64().unwrap();
    assert!((32..5_000).contains(&runtime_ms), "{runtime_ms}");
    assert!(
        ended
            .stderr
            .contains("job \"r\" ended within its ramp_time of 5 s"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("smaller"), "{}", ended.stderr);
    // A start delay does not count as runtime.
    let (report, _) = as_fio(&bench, &format!("{line} --startdelay=2"), 0);
    assert!(
        report[0]["write"]["runtime"]
            .as_u64()
            .unwrap()
            .abs_diff(runtime_ms)
            < 10,
        "{}",
        report[0]["write"]["runtime"]
    );
    let (_, ended) = as_fio(&bench, &line.replace("ramp_time=5", "ramp_time=20ms"), 0);
    assert!(
        !ended.stderr.contains("smaller") && !ended.stderr.contains("ended within"),
        "{}",
        ended.stderr
    );
    let both = "--filename=sim: --direct=1 --ramp_time=1 --runtime=2 --group_reporting --name=a --number_ios=4 --name=b --rate_iops=10 --time_based";
    let (_, ended) = as_fio(&bench, both, 0);
    assert!(
        ended
            .stderr
            .contains("some clones of job \"a\" ended within its ramp_time of 1 s"),
        "{}",
        ended.stderr
    );
    // A job longer than its ramp time is measured from the end of the ramp, also after a start delay.
    let paced = line.replace("--size=32m", "--size=1g --rate_iops=10 --startdelay=2");
    let (jobs, ended) = as_fio(&bench, &paced, 0);
    assert_eq!(
        (&jobs[0]["write"]["total_ios"], &jobs[0]["write"]["runtime"]),
        (&100.into(), &10_000.into())
    );
    assert!(!ended.stderr.contains("ramp_time"), "{}", ended.stderr);
}

#[test]
fn the_runtime_of_reads_or_writes_is_that_of_the_jobs_that_read_or_write() {
    let bench = Bench::new();
    let milliseconds = |job: &Value| ["read", "write"].map(|kind| number(&job[kind]["runtime"]));
    let timed = "--direct=1 --time_based --rw=randread";
    let line = format!(
        "{timed} --filename=sim: --group_reporting --rate_iops=500 --name=r --runtime=1 --name=w --rw=randwrite --runtime=3"
    );
    let (jobs, _) = as_fio(&bench, &line, 0);
    assert_eq!(milliseconds(&jobs[0]), [1_000.0, 3_000.0]);
    assert_eq!(jobs[0]["read"]["iops"], 500.0);
    let line = format!(
        "{timed} --filename=sim: --group_reporting --name=r --size=1m --time_based=0 --name=w --rw=randwrite --rate_iops=100 --runtime=3"
    );
    let (jobs, _) = as_fio(&bench, &line, 0);
    let [read_ms, write_ms] = milliseconds(&jobs[0]);
    assert!(
        read_ms < 100.0 && write_ms == 3_000.0,
        "{read_ms} {write_ms}"
    );
    // The last read of the first job completes shortly after its runtime, long before the end of the interval.
    let line = format!(
        "{timed} --name=a --filename=sim:name=a --runtime=5 --name=b --filename=sim:name=b --startdelay=10 --runtime=2"
    );
    let (jobs, _) = as_fio(&bench, &line, 0);
    let read_ms: Vec<_> = jobs.iter().map(|job| milliseconds(job)[0]).collect();
    assert_eq!(read_ms, [5_000.0, 2_000.0]);
}

#[test]
fn a_job_that_completes_its_operations_during_the_search_for_a_depth_does_not_fail() {
    let bench = Bench::new();
    let line = "--name=a --filename=sim:jitter-pct=0 --direct=1 --rw=randread --size=1m --iodepth=8 --latency_target=1000 --latency_window=100ms";
    let (jobs, ended) = as_fio(&bench, line, 0);
    assert_eq!(jobs[0]["read"]["total_ios"], 256, "{}", ended.stderr);
    let says = "job \"a\" completed its operations before it had measured at the depth";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}
