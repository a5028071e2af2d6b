//! `flashproof fleet`: campaigns on one machine and through Slurm, also when something fails.

use crate::support;
use crate::support::words;

use std::fs;
use std::thread;
use std::time::Duration;
use support::lab::{BY_SLURM, LAB, Lab, REAL, SCREEN, host, kill};
use support::{Bench, Ended, FLASHPROOF, LoopDevice, Running, tool};

#[test]
fn a_campaign_runs_on_this_machine_and_a_second_start_repeats_nothing() {
    let lab = Lab::simulated(3);
    lab.fleet(&["init", LAB]).expect(0);
    lab.fleet(&["plan", LAB])
        .expect_stdout(0, &["3 drives on 1 host", "certify {drive} --load 1"]);
    assert!(
        !lab.bench.exists("lab/plan.json") && !lab.bench.exists("lab/tasks"),
        "a plan changes nothing"
    );
    lab.fleet(&["status", LAB])
        .expect_stdout(0, &["\"flashproof fleet run lab\" starts the campaign"]);
    let ended = lab
        .fleet(&["run", LAB])
        .expect_stderr(0, &["[3/3] SIM0000"]);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert!(
        words
            .windows(4)
            .any(|words| words == ["STEP", "PASS", "certify", "3"]),
        "{}",
        ended.stdout
    );
    lab.fleet(&["run", LAB]).expect(0);
    let report = lab.bench.line("report lab").expect(0);
    assert!(
        report.stdout.starts_with("PASS: 3 drives: 3 good"),
        "{}",
        report.stdout
    );
    lab.bench
        .line("report lab/tasks/0000/certify/out --csv")
        .expect_error(
            2,
            &["cannot use --csv - only campaigns and checks have CSV output"],
        );
    for index in 0..3 {
        assert_eq!(
            (
                lab.events(index, "certify", "begun"),
                lab.events(index, "certify", "ended")
            ),
            (1, 1)
        );
    }
    lab.fleet(&["init", LAB])
        .expect_error(2, &["campaign.toml"]);
    lab.bench.write(
        "lab/campaign.toml",
        lab.bench
            .text("lab/campaign.toml")
            .replace("--load 1", "--load 2"),
    );
    lab.fleet(&["run", LAB])
        .expect_error(2, &["its step certify has changed since it began"]);
}

#[test]
fn a_failed_step_skips_the_steps_after_it_on_this_drive_only() {
    let lab = Lab::new();
    lab.drives(
        None,
        &[("GOOD", "sim:"), ("BAD", "sim:channels=1+read-us=2000")],
    );
    let after = SCREEN.replace("\"screen\"", "\"more\"");
    let aside = SCREEN.replace("\"screen\"", "\"aside\"") + "after = []\n";
    let last = SCREEN.replace("\"screen\"", "\"last\"");
    lab.campaign("steps", &format!("{SCREEN}{after}{last}{aside}"));
    lab.fleet(&["run", LAB])
        .expect_stdout(1, &["drives that failed:\n  0001 BAD screen on "]);
    assert_eq!(lab.step(0, "more").0, "pass");
    let (now, why) = lab.step(1, "more");
    assert!(
        now == "skipped" && why.starts_with("screen did not succeed: "),
        "{now} {why}"
    );
    assert_eq!(
        lab.step(1, "last"),
        ("skipped".to_owned(), "more was not run".to_owned())
    );
    assert_eq!(
        lab.step(1, "aside").0,
        "fail",
        "a verdict on the drive is not repeated"
    );
    let again = lab.fleet(&["run", LAB, "--failed"]).expect(1);
    assert!(
        lab.events(1, "screen", "begun") == 1 && !again.stderr.contains("[1/"),
        "{}",
        again.stderr
    );
}

#[test]
fn mistakes_in_campaign_files_are_reported_with_place_and_advice_and_nothing_runs() {
    let lab = Lab::simulated(2);
    let wrong = |text: &str, parts: &[&str]| {
        lab.campaign("x", text);
        for command in ["plan", "run"] {
            lab.fleet(&[command, LAB]).expect_error(2, parts);
        }
        assert!(!lab.bench.exists("lab/tasks") && !lab.bench.exists("lab/plan.json"));
    };
    wrong(
        &format!("{SCREEN}sped = 1\n"),
        &["campaign.toml:6: unknown field `sped`"],
    );
    wrong(
        &SCREEN.replace("--load", "--laod"),
        &[
            "campaign.toml:2: step screen: flashproof refuses \"run\" - unexpected argument '--laod'",
        ],
    );
    wrong(
        &SCREEN.replace(" --out {out}", ""),
        &["\"run\" keeps no results - add --out {out}"],
    );
    wrong(
        &format!("{SCREEN}[drives]\nmodels = [\"none\"]\n"),
        &[
            "cannot choose the drives of the campaign - [drives] models lists \"none\", but no drive",
        ],
    );
    let typo = "[drives]\nserials = [\"SIM00001\", \"SIM0002\"]\n";
    lab.campaign("x", &format!("{SCREEN}{typo}"));
    lab.fleet(&["plan", LAB]).expect(0).says(&[
        "warning: [drives] serials lists \"SIM0002\", but no drive in the inventories matches - correct or remove",
    ]);
    wrong(
        &format!("{SCREEN}after = [\"screen\"]\n"),
        &["the steps screen wait for one another"],
    );
    lab.drives(Some("n1"), &[("SIM00001", "sim:")]);
    wrong(
        SCREEN,
        &[
            "the drive \"SIM00001\" is in two inventories, ",
            "n1.json and ",
            "two tasks would test one drive",
        ],
    );
    for (text, part) in [
        (
            "{\"format_version\": 9, \"host\": null, \"taken_unix_ms\": 0, \"drives\": []}",
            "its format version is 9",
        ),
        (
            "{\"format_version\": 1, \"hst\": null}",
            "n1.json: unknown field `hst`",
        ),
        ("{\"format_version\": 1,", "n1.json: EOF while parsing"),
        (
            "{\"format_version\": 1, \"host\": \"a\\u001b\", \"taken_unix_ms\": 0, \"drives\": []}",
            "is not a valid name of a host",
        ),
    ] {
        lab.bench.write("lab/inventory/n1.json", text);
        wrong(SCREEN, &[part, "create it again with"]);
    }
    fs::remove_file(lab.bench.path("lab/inventory/n1.json")).unwrap();
    tool(
        "mkfifo",
        &[lab.bench.path("lab/inventory/n1.json").to_str().unwrap()],
    )
    .unwrap();
    lab.fleet(&["plan", LAB]).expect_error(
        3,
        &["n1.json - it is a pipe, and only regular files are read"],
    );
    fs::remove_file(lab.bench.path("lab/inventory/n1.json")).unwrap();
    lab.campaign("x", SCREEN);
    lab.fleet(&["task", LAB, "2"]).expect_error(
        2,
        &["cannot run task 2 - the campaign has the tasks 0 to 1"],
    );
    lab.fleet(&["task", LAB, "0", "--step", "sreen"])
        .expect_error(2, &["its steps are screen"]);
    lab.bench.write("lab/plan.json", "{}");
    lab.fleet(&["status", LAB])
        .expect_error(3, &["plan.json: missing field", "restore it from a backup"]);
    lab.fleet(&["plan", "nowhere"]).expect_error(
        2,
        &[
            "cannot open the campaign nowhere",
            "fleet inventory --out DIR",
        ],
    );
}

#[test]
fn symbolic_links_in_the_results_are_refused() {
    let lab = Lab::simulated(1);
    lab.campaign("links", SCREEN);
    let elsewhere = lab.bench.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(lab.bench.path("lab/tasks")).unwrap();
    let task = lab.bench.path("lab/tasks/0000");
    std::os::unix::fs::symlink(&elsewhere, &task).unwrap();
    lab.fleet(&["task", LAB, "0"])
        .expect_error(3, &["tasks/0000 - it is a symbolic link"]);
    fs::remove_file(&task).unwrap();
    fs::create_dir_all(&task).unwrap();
    std::os::unix::fs::symlink(&elsewhere, task.join("screen")).unwrap();
    lab.fleet(&["task", LAB, "0"])
        .expect_error(3, &["tasks/0000/screen - it is a symbolic link"]);
    fs::remove_file(task.join("screen")).unwrap();
    fs::create_dir(task.join("screen")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, task.join("screen/out")).unwrap();
    lab.fleet(&["task", LAB, "0"])
        .expect_error(3, &["the results are a symbolic link"]);
    std::os::unix::fs::symlink("/dev/zero", task.join("journal.jsonl")).unwrap();
    lab.fleet(&["task", LAB, "0"]).expect_error(
        3,
        &[
            "cannot read the journal",
            "a symbolic link, and only regular files",
        ],
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn replaced_and_missing_drives_are_refused_and_resume_when_they_are_back() {
    let lab = Lab::new();
    lab.drives(None, &[("S1", "sim:channels=2"), ("S2", "sim:channels=3")]);
    lab.campaign(
        "swap",
        &format!("{SCREEN}{}", SCREEN.replace("\"screen\"", "\"second\"")),
    );
    for index in ["0", "1"] {
        lab.fleet(&["task", LAB, index, "--step", "screen"])
            .expect(0);
    }
    lab.drives(None, &[("S9", "sim:channels=2")]);
    lab.fleet(&["run", LAB]).expect(3);
    let why = "the drive is not on this host: sim:channels=2 is now S9; put the drive back";
    assert_eq!(
        lab.step(0, "second"),
        ("refused".to_owned(), why.to_owned())
    );
    let (now, why) = lab.step(1, "second");
    assert!(
        now == "refused" && why.contains("and there is no sim:channels=3"),
        "{now} {why}"
    );
    let text = lab.fleet(&["status", LAB]).expect(3).stdout;
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("refused: the drive is not on this host"))
            .count(),
        2,
        "{text}"
    );
    lab.drives(None, &[("S1", "sim:channels=2"), ("S2", "sim:channels=3")]);
    lab.fleet(&["run", LAB]).expect(3);
    lab.fleet(&["run", LAB, "--failed"]).expect(0);
    assert_eq!(
        (
            lab.events(0, "screen", "begun"),
            lab.events(0, "second", "begun")
        ),
        (1, 1)
    );
}

fn real() -> Option<(Lab, LoopDevice)> {
    let lab = Lab::new();
    let device = lab.real()?;
    Some((lab, device))
}

#[test]
fn a_killed_task_resumes_at_its_stage_and_a_second_task_for_the_drive_is_refused() {
    let Some((lab, _device)) = real() else { return };
    let mut task = lab.start(&["task", LAB, "0"]);
    let stage_2 = lab.out(0, "certify/out/stage-2/intervals.csv");
    task.wait_until("the second stage runs", || {
        fs::metadata(&stage_2).is_ok_and(|file| file.len() > 200)
    });
    lab.fleet(&["task", LAB, "0"]).expect_error(
        3,
        &[
            "another process runs it by process",
            "wait for that process",
        ],
    );
    task.end_by("KILL");
    until("the command is gone", || {
        lab.processes(&lab.out(0, "certify/out").display().to_string())
            .is_empty()
    });
    let (now, why) = lab.step(0, "certify");
    assert!(
        now == "lost" && why.ends_with("but its process is gone"),
        "{now} {why}"
    );
    assert!(
        lab.fleet(&["status", LAB])
            .expect(3)
            .stdout
            .contains("lost: begun ")
    );
    lab.fleet(&["run", LAB]).expect(0);
    assert_eq!(lab.step(0, "certify").0, "pass");
    let output = fs::read_to_string(lab.out(0, "certify/output.txt")).unwrap();
    assert!(
        !lab.out(0, "certify/out/stage-1.2").exists(),
        "the first stage was not repeated"
    );
    assert!(
        output.contains("stage 2 was begun 2 times; the last attempt counts"),
        "{output}"
    );
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("not until {what}");
}

#[test]
fn a_cancelled_campaign_has_partial_results_and_can_be_resumed() {
    let Some((lab, _device)) = real() else { return };
    let mut run = lab.start(&["run", LAB]);
    let stage_1 = lab.out(0, "certify/out/stage-1/intervals.csv");
    run.wait_until("the first stage runs", || {
        fs::metadata(&stage_1).is_ok_and(|file| file.len() > 200)
    });
    lab.fleet(&["cancel", LAB]).expect(0);
    run.end()
        .expect_stdout(3, &["certify on ", "stopped: the campaign was cancelled"]);
    assert!(
        lab.out(0, "certify/out/stage-1/verdict.json").exists(),
        "a partial verdict"
    );
    lab.fleet(&["run", LAB]).expect(0);
    assert_eq!(
        (
            lab.step(0, "certify").0.as_str(),
            lab.events(0, "certify", "stopped")
        ),
        ("pass", 1)
    );
}

#[test]
fn a_time_limit_stops_a_step_and_the_next_start_resumes_it() {
    let Some((lab, _device)) = real() else { return };
    lab.campaign("real", &REAL.replace("\"10m\"", "\"10s\""));
    lab.fleet(&["task", LAB, "0"]).expect(75);
    let (now, why) = lab.step(0, "certify");
    assert!(
        now == "stopped" && why.starts_with("the time limit of 10 s was reached after "),
        "{now} {why}"
    );
    let again = (0..5)
        .map(|_| lab.fleet(&["task", LAB, "0"]).code)
        .find(|code| *code != Some(75));
    assert_eq!(again, Some(Some(0)));
    // On a busy machine, a loop device may be too slow.
    let state = lab.step(0, "certify").0;
    assert!(["pass", "fail"].contains(&&*state), "{state}");
}

#[test]
fn only_a_drive_with_consent_is_erased() {
    let lab = Lab::new();
    let Some(device) = LoopDevice::new(&lab.bench, 64 << 20, &[]) else {
        return;
    };
    if tool("mkfs.ext4", &["-q", &device.name]).is_none() {
        return;
    }
    let before = device.content();
    lab.drives(Some(&host()), &[(&device.name, &device.name)]);
    let write = "[[step]]\nname = \"write\"\nlimit = \"1m\"\nrun = \"fio --name=w --filename={drive} --rw=write --bs=64k --size=1m --out {out}\"\n";
    lab.campaign("erase", write);
    // FLASHPROOF_ERASE gives consent to a manual run, but not to a campaign.
    let mut command = lab.prepare(&["run", LAB]);
    command.env("FLASHPROOF_ERASE", &device.name);
    Running::start(command).end().expect(3);
    let (now, why) = lab.step(0, "write");
    assert!(
        now == "refused" && why.contains("it would be erased"),
        "{now} {why}"
    );
    lab.campaign("erase", &format!("{write}[consent]\nerase = [\"S123\"]\n"));
    lab.fleet(&["plan", LAB])
        .expect_stdout(0, &["lists \"S123\", but the campaign has no such drive"]);
    lab.fleet(&["run", LAB, "--failed"]).expect(3);
    assert!(device.content() == before, "the device was written to");
    lab.campaign(
        "erase",
        &format!("{write}[consent]\nerase = [\"{}\"]\n", device.name),
    );
    lab.fleet(&["task", LAB, "0"]).expect(3);
    assert!(device.content() == before, "a start confirms the consent");
    lab.fleet(&["run", LAB, "--failed"])
        .expect_stderr(0, &[&format!("ERASES 1 drive: {}\n", device.name)]);
    assert!(device.content() != before);
    let again = lab.fleet(&["run", LAB]).expect(0).stderr;
    assert!(!again.contains("ERASES"), "nothing is left to run: {again}");
}

#[test]
fn a_task_tests_and_writes_only_its_own_drive() {
    let lab = Lab::new();
    let aside = Bench::new();
    let (Some(device), Some(other)) = (
        LoopDevice::new(&lab.bench, 64 << 20, &[]),
        LoopDevice::new(&aside, 64 << 20, &[]),
    ) else {
        return;
    };
    let step = |more: &str| {
        format!(
            "[[step]]\nname = \"io\"\nlimit = \"1m\"\nrun = \"fio --name=w --bs=64k --size=1m {more} --out {{out}}\"\n\
             [consent]\nerase = [\"{}\"]\n",
            device.name
        )
    };
    // The second drive of the command line is empty and needs no consent, but is not the task's drive.
    lab.drives(Some(&host()), &[(&device.name, &device.name)]);
    lab.campaign(
        "other",
        &step(&format!("--rw=write --filename={{drive}}:{}", other.name)),
    );
    lab.fleet(&["task", LAB, "0"]).expect(3);
    let (now, why) = lab.step(0, "io");
    assert!(
        now == "refused" && why.contains("FLASHPROOF_ONLY allows writes only to"),
        "{now} {why}"
    );
    assert!(
        other.content().iter().all(|byte| *byte == 0),
        "the device was written to"
    );
    // Another drive is at the path of the task's drive.
    let lab = Lab::new();
    lab.campaign("other", &step("--rw=read --filename={drive}"));
    lab.drives(Some(&host()), &[("S1", &other.name)]);
    lab.fleet(&["task", LAB, "0"]).expect(3);
    let (now, why) = lab.step(0, "io");
    assert!(
        now == "refused" && why.starts_with("the drive is not on this host: /dev/loop"),
        "{now} {why}"
    );
    // The task's drive belongs to another host, on which it has the same path.
    let lab = Lab::new();
    lab.campaign("other", &step("--rw=read --filename={drive}"));
    lab.drives(Some("elsewhere"), &[(&other.name, &other.name)]);
    lab.fleet(&["run", LAB])
        .expect_error(2, &["it has drives of elsewhere"]);
    lab.fleet(&["task", LAB, "0"]).expect(3);
    assert!(
        lab.step(0, "io")
            .1
            .starts_with("the drive is on host elsewhere, but this host is ")
    );
}

#[test]
fn a_task_of_a_cancelled_campaign_starts_no_step() {
    let lab = Lab::simulated(1);
    lab.campaign("cancelled", SCREEN);
    lab.fleet(&["cancel", LAB]).expect(0);
    lab.fleet(&["task", LAB, "0"]).expect(0);
    assert_eq!(lab.events(0, "screen", "begun"), 0);
    lab.fleet(&["run", LAB]).expect(0);
    assert_eq!(lab.step(0, "screen").0, "pass");
}

#[test]
fn a_full_or_read_only_results_directory_loses_no_earlier_results() {
    let lab = Lab::new();
    let Some(_disk) = support::small_disk(&lab.bench, LAB, 4_096) else {
        return;
    };
    let dir = lab.bench.path(LAB).display().to_string();
    let Some(_device) = lab.real() else { return };
    let mut run = lab.start(&["run", LAB]);
    let stage_1 = lab.out(0, "certify/out/stage-1/intervals.csv");
    run.wait_until("the first stage runs", || {
        fs::metadata(&stage_1).is_ok_and(|file| file.len() > 200)
    });
    let filler = lab.bench.path("lab/filler");
    let _ = fs::write(&filler, vec![0; 8 << 20]);
    run.end().expect(3);
    let (now, why) = lab.step(0, "certify");
    assert!(["refused", "lost"].contains(&now.as_str()), "{now} {why}");
    fs::remove_file(&filler).unwrap();
    tool("mount", &["-o", "remount,ro", &dir]).unwrap();
    lab.fleet(&["run", LAB, "--failed"])
        .expect_error(3, &["Read-only file system"]);
    tool("mount", &["-o", "remount,rw", &dir]).unwrap();
    lab.fleet(&["run", LAB, "--failed"]).expect(0);
    assert_eq!(lab.step(0, "certify").0, "pass");
}

#[test]
fn a_host_whose_clock_is_an_hour_ahead_is_named_in_the_status() {
    let lab = Lab::simulated(1);
    if tool("faketime", &["--version"]).is_none() {
        return;
    }
    lab.campaign("clock", SCREEN);
    let mut command = lab.bench.command("faketime");
    command
        .args(["-f", "+1h", FLASHPROOF, "fleet", "task", LAB, "0"])
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Running::start(command).end().expect(0);
    let faults = lab.status()["faults"].to_string();
    assert!(
        faults.contains(&format!(
            "the clock of {} is 60 min ahead of the file server's",
            host()
        )),
        "{faults}"
    );
}

#[test]
fn tasks_can_be_run_by_xargs() {
    let lab = Lab::simulated(4);
    lab.campaign("xargs", SCREEN);
    Running::start(
        lab.bench
            .shell("seq 0 3 | xargs -n1 -P2 flashproof fleet task lab"),
    )
    .end()
    .expect(0);
    assert!((0..4).all(|index| lab.step(index, "screen").0 == "pass"));
}

#[test]
fn slurm_jobs_have_the_campaigns_limits_and_depend_on_earlier_jobs() {
    let lab = Lab::new();
    fs::create_dir(lab.bench.path("bin")).unwrap();
    let log = lab.bench.path("log").display().to_string();
    // Scripts in place of Slurm's programs log their arguments. Task 1 is in the queue.
    for (name, text) in [
        ("squeue", "echo '1|7|PENDING||Dependency|0 n1'".to_owned()),
        ("scancel", format!("echo scancel \"$@\" >> {log}")),
        (
            "sbatch",
            format!("cat > /dev/null; echo sbatch \"$@\" >> {log}; expr 100 + $(wc -l < {log})"),
        ),
    ] {
        lab.bench
            .write(&format!("bin/{name}"), format!("#!/bin/sh\n{text}\n"));
        tool(
            "chmod",
            &[
                "755",
                lab.bench.path(format!("bin/{name}")).to_str().unwrap(),
            ],
        )
        .unwrap();
    }
    let fleet = |arguments: &[&str]| {
        let mut command = lab.prepare(arguments);
        command.env(
            "PATH",
            format!("{}:/usr/bin:/bin", lab.bench.path("bin").display()),
        );
        Running::start(command).end()
    };
    lab.drives(
        Some("n1"),
        &[("A", "/dev/a"), ("B", "/dev/b"), ("C", "/dev/c")],
    );
    lab.drives(Some("n2"), &[("D", "/dev/d")]);
    let aside = SCREEN.replace("\"screen\"", "\"aside\"") + "after = []\n";
    lab.campaign(
        "jobs",
        &format!("{SCREEN}{aside}[[domain]]\nname = \"rack\"\nhosts = [\"n1\", \"n2\"]\nat_once = 1\n{BY_SLURM}"),
    );
    fleet(&["run", LAB]).expect(0);
    // The other tasks are in no queue.
    let status = fleet(&["status", LAB, "--json"]).expect(3).json();
    let steps = status["tasks"][1]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["now"])
        .collect::<Vec<_>>();
    assert_eq!(steps, ["queued", "waiting"]);
    fleet(&["cancel", LAB]).expect(0);
    let said = lab.bench.text("log");
    let [first, second, cancel] = &said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    for (job, parts) in [
        (
            first,
            [
                "--array=0,2%1 ",
                "--nodelist=n1 ",
                "--dependency=afterany:7 ",
            ],
        ),
        (
            second,
            [
                "--array=3%1 ",
                "--nodelist=n2 ",
                "--dependency=afterany:101:7 ",
            ],
        ),
    ] {
        let all = [
            "--requeue ",
            "--time=23 ",
            "--signal=B:TERM@120 ",
            "--gres=flash:1 ",
            "--partition=main",
        ];
        parts
            .iter()
            .chain(&all)
            .for_each(|part| assert!(job.contains(part), "{part}: {job}"));
    }
    assert_eq!(
        *cancel,
        format!("scancel --state=PENDING --name={}", lab.job_name())
    );
}

#[test]
fn slurm_runs_every_step_of_every_drive_once_although_the_campaign_is_started_twice() {
    let Some(lab) = Lab::on_slurm() else { return };
    lab.simulate(8);
    let more = SCREEN.replace("\"screen\"", "\"more\"");
    lab.campaign(
        "twice",
        &format!(
            "{SCREEN}{more}[limits]\nper_host = 8\n{}",
            BY_SLURM.replace("=main", "=main\", \"--exclude=n[1-5]")
        ),
    );
    let one = lab.start(&["run", LAB]);
    let other = lab.start(&["run", LAB]);
    let said = one.end().expect(0).stdout + &other.end().expect(0).stdout;
    assert!(
        said.contains("submitted 8 tasks") && said.contains("nothing to submit"),
        "{said}"
    );
    lab.slurm.unwrap().until("all steps passed", || {
        let status = lab.status();
        let steps = status["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|task| task["steps"].as_array().unwrap());
        steps.filter(|step| step["now"] == "pass").count() == 16
    });
    for (index, step) in (0..8).flat_map(|index| [(index, "screen"), (index, "more")]) {
        assert_eq!(
            (
                lab.events(index, step, "begun"),
                lab.events(index, step, "ended")
            ),
            (1, 1),
            "{index} {step}"
        );
    }
}

fn on_nodes(name: &str, nodes: &[&str]) -> Option<(Lab, Vec<(Bench, LoopDevice)>)> {
    let lab = Lab::on_slurm()?;
    let mut devices = Vec::new();
    for node in nodes {
        let bench = Bench::new();
        let device = LoopDevice::new(&bench, 64 << 20, &[])?;
        lab.drives(Some(node), &[(&device.name, &device.name)]);
        devices.push((bench, device));
    }
    lab.campaign(name, &format!("{REAL}{BY_SLURM}"));
    lab.fleet(&["run", LAB]).expect(0);
    lab.slurm?.until("all drives are under test", || {
        (0..nodes.len()).all(|index: usize| {
            fs::metadata(lab.out(index, "certify/out/stage-1/intervals.csv"))
                .is_ok_and(|file| file.len() > 200)
        })
    });
    Some((lab, devices))
}

/// Waits until the certification of each drive has passed. Requeued jobs begin at once.
fn all_pass(lab: &Lab, name: &str, drives: usize) {
    let slurm = lab.slurm.unwrap();
    slurm.until("all drives passed", || {
        slurm.hurry(name);
        (0..drives).all(|index| lab.step(index, "certify").0 == "pass")
    });
    for index in 0..drives {
        assert_eq!(lab.events(index, "certify", "ended"), 1);
    }
}

#[test]
fn killing_a_task_a_node_or_the_controller_repeats_at_most_one_stage() {
    let Some((lab, _devices)) = on_nodes("killed", &["n1", "n2", "n3"]) else {
        return;
    };
    let slurm = lab.slurm.unwrap();
    let task = |index: usize| {
        lab.processes(&format!(
            "fleet task {} .*{index}$",
            lab.bench.path(LAB).canonicalize().unwrap().display()
        ))
    };
    let job = slurm.run(
        "squeue",
        &["-h", "-w", "n3", "--name", &lab.job_name(), "-o", "%A"],
    );
    slurm.kill("controller");
    kill("KILL", &task(0));
    // Kill the node's daemon, then everything that this daemon started.
    slurm.kill("n2");
    slurm.kill("n3");
    kill(
        "KILL",
        &[
            task(2),
            lab.processes(&format!("slurmstepd: .{}.batch", job.trim())),
        ]
        .concat(),
    );
    slurm.controller();
    slurm.until("the task is put back", || {
        lab.step(0, "certify").0 == "queued"
    });
    ["n2", "n3"].iter().for_each(|node| slurm.node(node));
    all_pass(&lab, "killed", 3);
    assert!(
        lab.events(0, "certify", "begun") == 2 && lab.events(2, "certify", "begun") == 2,
        "both tasks began again"
    );
}

#[test]
fn after_preemption_or_the_time_limit_a_step_is_resumed() {
    let Some((lab, _devices)) = on_nodes("preempted", &["n4", "n5"]) else {
        return;
    };
    let slurm = lab.slurm.unwrap();
    let urgent = words("--partition=urgent --nodelist=n4 --gres=flash:2 --exclusive");
    let submitted = slurm.run(
        "sbatch",
        &[&urgent[..], &["--output=/dev/null", "--wrap=sleep 4"]].concat(),
    );
    assert!(submitted.contains("Submitted"), "{submitted}");
    // SIGTERM, as Slurm sends it before the time limit.
    let job = slurm.run(
        "squeue",
        &[
            "-h",
            "-r",
            "-w",
            "n5",
            "--name",
            &lab.job_name(),
            "-o",
            "%i",
        ],
    );
    slurm.run("scancel", &["--batch", "--signal=TERM", job.trim()]);
    slurm.until("the step was stopped", || {
        lab.events(1, "certify", "stopped") == 1
    });
    all_pass(&lab, "preempted", 2);
    assert!(
        lab.events(0, "certify", "begun") >= 2,
        "the task was preempted"
    );
}

#[test]
fn the_report_of_a_campaign_names_the_slow_drive_and_can_be_anonymous() {
    let lab = Lab::new();
    let drives: Vec<(u32, u32)> = (1..=12)
        .map(|number| (number, if number == 7 { 600 } else { 300 + number }))
        .collect();
    let run = run_campaign(&lab, "odd", &drives, SCREEN);
    let report = |more: &[&str]| {
        lab.bench
            .flashproof(&[&["report", LAB], more].concat())
            .expect(0)
            .stdout
    };
    let text = report(&[]);
    let (answer, _) = text.split_once("\nall drives, ").unwrap();
    assert!(run.stdout.ends_with(answer), "{}\n{text}", run.stdout);
    let slow: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" is slow: "))
        .collect();
    assert!(
        slow.len() == 1 && slow[0].contains("drive \"SER07\" (M) is slow: "),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let slow = &json["examination"]["slow"][0];
    assert!(
        (1.6..2.4).contains(&slow["evidence"]["factor"].as_f64().unwrap()),
        "{slow}"
    );
    let medians = json["quantities"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["name"] == "median latency")
        .unwrap();
    let slowest = medians["values"][6].as_f64().unwrap();
    assert!((550.0..700.0).contains(&slowest), "{medians}");
    report(&["--html", "page.html"]);
    let alone = lab.bench.text("page.html");
    assert!(
        alone.contains("SER07") && !alone.contains("tasks/0006"),
        "no dead links"
    );
    report(&["--html", "lab/page.html"]);
    let page = lab.bench.text("lab/page.html");
    assert!(page.contains("href=\"./tasks/0006/screen/out/report.html\">SER07</a>"));
    assert!(
        text.starts_with("SLOW: 12 drives: 11 good, 1 passed but slow\nDo: "),
        "{text}"
    );
    let headline = "12 drives: 11 good, 1 passed but slow";
    let status = lab.fleet(&["status", LAB]).expect(0).stdout;
    assert!(
        status.ends_with(&format!("\nSLOW: {headline}\nDo: flashproof report lab\n")),
        "{status}"
    );
    let listed = lab.bench.line("report . --json").expect(0).json();
    let lab_listed = &listed["results"][0];
    assert_eq!(
        [&lab_listed["outcome"], &lab_listed["headline"]],
        ["slow", headline]
    );
    let several = "report status lab/tasks/0000/screen/out lab";
    let several = lab.bench.line(several).expect(0).stdout;
    assert!(
        several.contains("lab/tasks/0000/screen/out") && several.ends_with(&status),
        "{several}"
    );
    let csv = report(&["--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines.len() == 2
            && lines[0] == "host,slot,serial,reason,since"
            && lines[1].contains(",,SER07,")
            && lines[1].ends_with(" UTC"),
        "{csv}"
    );
    let shared = [
        report(&["--anonymous"]),
        report(&["--anonymous", "--json"]),
        report(&["--anonymous", "--markdown"]),
    ]
    .concat();
    assert!(
        !shared.contains("SER0") && !shared.contains(&host()) && !shared.contains("sim:channels"),
        "{shared}"
    );
    assert!(
        shared.contains("drive \"drive-0007\" (M) is slow: "),
        "{shared}"
    );
    lab.bench
        .line("report --anonymous lab/tasks/0000/screen/out")
        .expect_error(2, &["only to the report of one campaign"]);
}

/// Runs a campaign with the drives `(number, read-us)` on this machine.
fn run_campaign(lab: &Lab, name: &str, drives: &[(u32, u32)], step: &str) -> Ended {
    let drives: Vec<(String, String)> = drives
        .iter()
        .map(|(number, us)| {
            let path = format!("sim:channels=4+read-us={us}+seed={number}");
            (format!("SER{number:02}"), path)
        })
        .collect();
    let drives: Vec<(&str, &str)> = drives
        .iter()
        .map(|(id, path)| (id.as_str(), path.as_str()))
        .collect();
    lab.drives(None, &drives);
    lab.campaign(name, &format!("{step}[limits]\nper_host = 2\n"));
    lab.fleet(&["run", LAB]).expect(0)
}

#[test]
fn peers_from_earlier_campaigns_are_compared_only_if_the_command_is_the_same() {
    let lab = Lab::new();
    let step = SCREEN.replace("10m --out", "5m --out");
    let old: Vec<(u32, u32)> = (1..=8).map(|number| (number, 300 + number)).collect();
    run_campaign(&lab, "earlier", &old, &step);
    fs::rename(lab.bench.path(LAB), lab.bench.path("old")).unwrap();
    // Drive 8 is in both campaigns, and does not count as its own peer.
    run_campaign(&lab, "batch", &[(8, 308), (21, 305), (22, 600)], &step);
    lab.bench
        .line("report lab --peers old")
        .expect_stdout(0, &["SLOW: 3 drives: 2 good, 1 passed but slow\n"])
        .shows(&[
            "drive \"SER22\" (M) is slow: ",
            "7 drives of the campaign earlier",
        ]);
    let json = lab
        .bench
        .line("report lab --peers old --json")
        .expect(0)
        .json();
    assert_eq!(json["peers"], serde_json::json!([["earlier", 7]]));
    assert_eq!(json["examination"]["factors"].as_array().unwrap().len(), 3);
    lab.bench
        .line("report lab/tasks/0000/screen/out --peers old")
        .expect_error(2, &["only to the report of one campaign"]);

    let listed = lab.bench.line("report old lab --json").expect(0).json();
    let listed = listed["results"].as_array().unwrap();
    let field = |result: &serde_json::Value, name: &str| result[name].as_str().unwrap().to_owned();
    let shown: Vec<_> = listed
        .iter()
        .map(|result| ["dir", "test", "outcome", "headline"].map(|name| field(result, name)))
        .collect();
    let expected = [["lab", "fleet batch"], ["old", "fleet earlier"]].map(|[dir, test]| {
        let report = lab.bench.line(&format!("report {dir}")).expect(0).stdout;
        let answer = report.lines().next().unwrap().split_once(": ").unwrap();
        [dir, test, &answer.0.to_lowercase(), answer.1].map(str::to_owned)
    });
    assert_eq!(shown, expected);
    lab.bench
        .line("report . --json")
        .expect(0)
        .shows(&["fleet batch", "fleet earlier"]);

    fs::rename(lab.bench.path(LAB), lab.bench.path("new")).unwrap();
    run_campaign(
        &lab,
        "other",
        &[(31, 300)],
        &step.replace("--load 0.1", "--load 0.2"),
    );
    lab.bench.line("report new --peers old lab").expect_error(
        2,
        &[
            "cannot compare with the campaign other in ",
            " --load 0.2 --duration 5m ",
            " --load 0.1 --duration 5m ",
        ],
    );
}
