//! `flashproof fio`: jobs of fio's run, are guarded, recorded, judged and reported; beside the real fio where that is.

use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use support::{Bench, Ended, FLASHPROOF, LoopDevice, OUT, Running, tool};

const MIB: u64 = 1 << 20;

/// Options by words.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs `flashproof fio` with the options of `line`, which ask for JSON; the first of its jobs.
fn job(bench: &Bench, line: &str, code: i32) -> (Value, Ended) {
    let line = format!("fio {line} --output-format=json");
    let ended = bench.flashproof(&words(&line)).expect(code);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}", ended.stdout));
    (json["jobs"][0].clone(), ended)
}

#[test]
fn jobs_on_a_simulated_drive_are_a_run_like_any_and_reported_as_fio_does() {
    let bench = Bench::new();
    let line = "--out=run --name=mix --filename=sim: --direct=1 --rw=randrw --rate_iops=2000,500 --iodepth=32 --runtime=4 \
                --time_based --ramp_time=2 --write_iops_log=mix --log_avg_msec=2000 --percentile_list=50:99.9";
    let (job, ended) = job(&bench, line, 0);
    assert!(ended.stderr.contains("PASS") && ended.stderr.contains("open loop"), "{}", ended.stderr);
    assert_eq!((&job["read"]["total_ios"], &job["write"]["total_ios"]), (&8_000.into(), &2_000.into()));
    assert_eq!((&job["read"]["iops"], &job["read"]["runtime"]), (&2_000.0.into(), &4_000.into()));
    assert_eq!(job["read"]["clat_ns"]["percentile"].as_object().unwrap().len(), 2);
    assert_eq!(job["job options"]["rate_iops"], "2000,500");
    assert_eq!(
        bench.text("mix_iops.1.log"),
        "2000, 2000, 0, 0, 0\n2000, 500, 1, 0, 0\n4000, 2000, 0, 0, 0\n4000, 500, 1, 0, 0\n"
    );
    let run = bench.run();
    assert_eq!((run.manifest.kind().as_str(), run.manifest.duration_sec), ("fio", 4));
    assert_eq!(support::totals(&run, "mix-reads"), (8_000, 0, 0));
    let report = bench.flashproof(&["report", OUT]).expect(0);
    assert!(report.stdout.contains("mix-writes"), "{}", report.stdout);
    // The last state is that at the end, after one in the middle.
    let (line, more) =
        ("fio --name=x --filename=sim: --direct=1 --rate_iops=100 --runtime=4 --time_based", "--status-interval=3");
    let ended = bench.flashproof(&[&words(line)[..], &[more]].concat()).expect(0);
    let ran: Vec<_> = ended.stdout.lines().filter(|line| line.contains("  read: IOPS=100, ")).collect();
    assert!(ran.len() == 2 && ran[0].contains("/3000msec)") && ran[1].contains("/4000msec)"), "{}", ended.stdout);
}

#[test]
fn a_rate_that_is_not_reached_fails_with_a_culprit_and_what_was_not_done() {
    let bench = Bench::new();
    let line = "--out=run --name=a --filename=sim:channels=1+read-us=1000+jitter-pct=0 --direct=1 --rw=randread --rate_iops=2000 --iodepth=4 --runtime=3 --time_based";
    let (job, ended) = job(&bench, line, 1);
    assert!(ended.stderr.contains("FAIL"), "{}", ended.stderr);
    let [done, never] = ["total_ios", "never_issued"].map(|field| job["read"][field].as_u64().unwrap());
    assert!((2_900..3_010).contains(&done) && done + never == 6_000, "{done} {never}");
    // What waits for the depth is not service time, of which each has four.
    let wait = job["read"]["wait_ns"]["mean"].as_f64().unwrap();
    assert!(wait > 500e6, "{wait}");
}

#[test]
fn an_option_that_there_is_not_is_named_and_nothing_runs() {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    bench.write("job.fio", "[a]\nfilename=victim\nrw=write\nverify=md5\nstartdelay=5\n");
    let ended = bench.flashproof(&["fio", "job.fio", "--erase=victim"]).expect(2);
    assert_eq!(
        ended.errors(),
        [
            "job.fio:4: \"verify=md5\" - flashproof does not have this option; without it would run: the same operations, and \
             nothing that was written is compared - leave it out if that will do",
            "job.fio:5: \"startdelay=5\" - flashproof does not have this option; without it would run: all jobs begin at once - \
             leave it out if that will do",
            "nothing was run",
        ]
    );
    assert_eq!(ended.stdout, "");
    for (line, code, says) in [
        ("fio --name=a --filename=victim --rw=write", 3, "victim"),
        ("fio --name=a --filename=victim --rw=write --readonly --erase=victim", 2, "--readonly forbids that"),
        ("fio --name=a --filename=/dev/no-such", 3, "/dev/no-such"),
        ("fio --name=a --filename=absent", 2, "cannot make the file absent - no job says how large it is to be"),
        ("fio absent.fio", 2, "cannot read the job file \"absent.fio\""),
        ("fio --section=b job.fio", 2, "there is no section called \"b\""),
        ("fio --output-format=terse --name=a", 2, "there is no terse"),
        ("fio", 2, "no job is named"),
    ] {
        let ended = bench.flashproof(&words(line)).expect(code);
        assert!(ended.stderr.contains(says), "{line}: {}", ended.stderr);
    }
    assert_eq!(bench.read("victim"), before);
    let help = bench.flashproof(&["fio", "--help"]).expect(0);
    assert!(help.stdout.contains("--cmdhelp"));
    let dry = bench.flashproof(&words("fio --name=a --filename=victim --rw=write --dry-run")).expect(0);
    assert!(dry.stdout.starts_with("a: (g=0): rw=write, bs=(R) 4096B-4096B"), "{}", dry.stdout);
}

#[test]
fn a_loop_device_is_guarded_and_gets_what_the_job_says() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else { return };
    device.put(8 * MIB, &[7; 1 << 20]);
    let line = |more: &str| format!("--name=a --filename={} --direct=1 {more}", device.name);
    let refused = bench.flashproof(&words(&format!("fio {}", line("--rw=write --size=4m")))).expect(3);
    assert!(refused.stderr.contains("--erase"), "{}", refused.stderr);
    let before = device.counters();
    let write = line(&format!("--rw=randwrite --bs=16k --size=4m --iodepth=8 --erase={}", device.name));
    let (job, ended) = job(&bench, &write, 0);
    assert!(ended.stderr.contains("erasing"), "{}", ended.stderr);
    assert_eq!((&job["write"]["total_ios"], &job["write"]["io_bytes"]), (&256.into(), &(4 * MIB).into()));
    let written = device.counters().since(&before).unwrap().write;
    assert!(written.sectors >= 8_192, "{written:?}");
    let content = device.content();
    let (used, rest) = content.split_at(4 << 20);
    assert!(used.chunks(512).all(|sector| sector.iter().any(|byte| *byte != 0)), "each block has had its turn");
    assert!(rest[..4 << 20].iter().all(|byte| *byte == 0) && rest[4 << 20] == 7, "and nothing beyond");
}

/// Sets `jobs` before the real fio and before ours, on files of their own; the JSON of both.
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
        serde_json::from_slice(&bench.read("out.json")).unwrap()
    };
    Some([read("theirs", std::path::Path::new("fio")), read("ours", &link)])
}

/// Every name of fio's is there with a value of the same type; but of what is no name: percentiles and bins.
fn assert_like(theirs: &Value, ours: &Value, path: &str) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (name, value) in
                theirs.iter().filter(|(name, _)| !["bins", "percentile", "disk_util"].contains(&name.as_str()))
            {
                let of_ours = ours.get(name).unwrap_or_else(|| panic!("{path}.{name} is missing"));
                assert_like(value, of_ours, &format!("{path}.{name}"));
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            assert_eq!(theirs.len(), ours.len(), "{path}");
            theirs.iter().zip(ours).for_each(|(theirs, ours)| assert_like(theirs, ours, path));
        }
        _ => assert_eq!(std::mem::discriminant(theirs), std::mem::discriminant(ours), "{path}: {theirs} {ours}"),
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
                [thousand]\nstonewall\nrw=write\nkb_base=1000\nbs=4k\nsize=400k\nloops=2\n";
    let Some([theirs, ours]) = beside_fio(&bench, jobs) else { return };
    assert_like(&theirs, &ours, "");
    let count = |json: &Value, job: usize| {
        let job = &json["jobs"][job];
        let of = |kind: &str, field: &str| job[kind][field].as_u64().unwrap();
        let each = ["read", "write"].map(|kind| (of(kind, "total_ios"), of(kind, "io_bytes")));
        (job["jobname"].as_str().unwrap().to_owned(), job["groupid"].as_u64().unwrap(), each, of("sync", "total_ios"))
    };
    for job in 0..6 {
        let (theirs, ours) = (count(&theirs, job), count(&ours, job));
        if theirs.0 != "mixed" {
            assert_eq!(theirs, ours);
            continue;
        }
        // Which are reads is chance, of other dice; all of them together are each block once.
        let sum = |(_, _, [read, write], _): &(String, u64, [(u64, u64); 2], u64)| (read.0 + write.0, read.1 + write.1);
        assert_eq!((sum(&theirs), sum(&ours)), ((256, 2 * MIB), (256, 2 * MIB)));
        assert!(ours.2[0].0.abs_diff(179) < 37, "about 70 %: {ours:?}");
    }
}

#[test]
fn called_fio_it_prints_what_fio_prints_and_leaves_nothing_else() {
    let bench = Bench::new();
    symlink(FLASHPROOF, bench.path("fio")).unwrap();
    let mut command = bench.command(bench.path("fio"));
    command.args(words("--name=a --filename=data --rw=randread --size=1m --bs=4k"));
    let ended = Running::start(command).end().expect(0);
    assert!(ended.stderr.contains("laying out the file data: 1048576 bytes"), "{}", ended.stderr);
    for line in [
        "a: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=io_uring, iodepth=1",
        "fio-3.33",
    ] {
        assert!(ended.stdout.lines().any(|found| found == line), "{}", ended.stdout);
    }
    assert!(
        ended.stdout.contains("     issued rwts: total=256,0,0,0 short=0,0,0,0 dropped=0,0,0,0"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("Run status group 0 (all jobs):\n   READ: bw="), "{}", ended.stdout);
    assert!(bench.read("data").chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)), "it was written before");
    let mut left: Vec<_> = fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| name != "state");
    left.sort();
    assert_eq!(left, ["data", "fio"]);
}
