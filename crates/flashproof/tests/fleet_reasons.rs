//! `flashproof fleet`: each fault of a campaign has its reason in the status, and no fault repeats for ever.

use crate::support::lab::{BY_SLURM, LAB, Lab, REAL, SCREEN, host};
use crate::support::{Bench, LoopDevice, Running, small_disk, tool};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_plan_finds_the_mistakes_of_a_command_without_running_it() {
    let lab = Lab::simulated(1);
    lab.bench.write(
        "lab/cluster.conf",
        "device-names: /dev/x\nread-reqs-per-sec: 100\ntest-duration-sec: 60\n",
    );
    let step = |run: &str| format!("\n[[step]]\nname = \"a\"\nlimit = \"1h\"\nrun = \"{run}\"\n");
    let files = || tool("find", &[lab.bench.path("").to_str().unwrap()]);
    let fio = "fio --name=r --filename={drive} --bs=4k --size=1m --out {out} --rw=";
    for (run, part) in [
        (&*format!("{fio}randraed"), "randtrimwrite; nothing was run"),
        ("check nosuchdb {drive} --out {out}", "nosuchdb"),
        ("baseline {drive} --duration 1s --out {out}", "duration"),
        (
            "storage none.conf --device {drive} --out {out}",
            "none.conf",
        ),
        (
            "certify {drive} --config none.conf --out {out}",
            "none.conf",
        ),
    ] {
        lab.campaign("x", &step(run));
        let before = files();
        lab.fleet(&["plan", LAB]).expect_error(
            2,
            &[
                "campaign.toml:3: step a: flashproof refuses \"run\" - ",
                part,
            ],
        );
        assert_eq!(files(), before, "{run}");
    }
    for run in [
        &*format!("{fio}randread"),
        "check etcd {drive} --out {out}",
        "prep {drive} --verify",
        "doctor {drive}",
        "baseline {drive} --out {out}",
        "storage cluster.conf --device {drive} --out {out}",
        "storage cluster.conf --device {drive} --duration 24h --out {out}",
        "certify {drive} --config cluster.conf --out {out}",
    ] {
        lab.campaign("x", &step(run));
        let before = files();
        lab.fleet(&["plan", LAB]).expect(0);
        assert_eq!(files(), before, "{run}");
    }
}

#[test]
fn the_plan_begins_with_the_drives_that_a_step_erases() {
    let lab = Lab::new();
    lab.drives(Some("n1"), &[("S1", "/dev/x1"), ("/dev/x2", "/dev/x2")]);
    for (name, writes) in [("reads", 0), ("writes", 50)] {
        let text = format!(
            "device-names: /dev/x\nread-reqs-per-sec: 100\nwrite-reqs-per-sec: {writes}\ntest-duration-sec: 60\n"
        );
        lab.bench.write(&format!("lab/{name}.conf"), text);
    }
    let fio = "fio --name=r --filename={drive} --bs=4k --size=1m --out {out} --rw=";
    for (run, erases) in [
        ("doctor {drive}", false),
        ("prep {drive}", true),
        ("prep {drive} --verify", false),
        (&*format!("{fio}randread"), false),
        (&*format!("{fio}randrw"), true),
        ("storage reads.conf --device {drive} --out {out}", false),
        ("storage writes.conf --device {drive} --out {out}", true),
        ("certify {drive} --config reads.conf --out {out}", true),
        (
            "certify {drive} --config reads.conf --no-prep --out {out}",
            false,
        ),
        ("baseline {drive} --out {out}", true),
        ("baseline {drive} --read-only --out {out}", false),
        ("check etcd {drive} --out {out}", true),
        ("engine bench {drive}", true),
    ] {
        let step = format!("[[step]]\nname = \"a\"\nlimit = \"1h\"\nrun = \"{run}\"\n");
        lab.campaign("x", &step);
        let plan = lab.fleet(&["plan", LAB]).expect(0).stdout;
        let line = "ERASES 2 drives: /dev/x1 (S1), /dev/x2\ncampaign x: ";
        assert_eq!(plan.starts_with(line), erases, "{run}\n{plan}");
        assert_eq!(plan.contains("ERASES"), erases, "{run}\n{plan}");
    }
}

#[test]
fn drives_refused_for_the_same_reason_share_a_line_in_status_and_report() {
    let lab = Lab::simulated(40);
    let refused = "[[step]]\nname = \"load\"\nlimit = \"1m\"\nrun = \"storage none.conf --device {drive} --out {out}\"\n";
    lab.campaign("same", &format!("{refused}[limits]\nper_host = 4\n"));
    let run = lab.fleet(&["run", LAB]).expect(2 + 1);
    let status = lab.fleet(&["status", LAB]).expect(3).stdout;
    let report = lab.bench.line("report lab").expect(3).stdout;
    assert!(
        status.contains("\n  0000-0039: load on 40 drives refused: cannot read"),
        "{status}"
    );
    assert!(status.lines().count() < 15, "{status}");
    let rows: Vec<&str> = report
        .lines()
        .filter(|line| line.contains("load refused: "))
        .collect();
    assert!(
        rows.len() == 1
            && rows[0].starts_with("SIM00001, SIM00002, ")
            && rows[0].contains(" and 36 more "),
        "{report}"
    );
    let answer = status.find("\nINVALID: 40 drives: 40 without a verdict\n");
    let counts = &status[..answer.unwrap()];
    assert!(run.stdout.starts_with(counts), "{}", run.stdout);
}

#[test]
fn each_task_has_its_own_metrics_port_and_metrics_file() {
    let lab = Lab::simulated(2);
    lab.campaign("metrics", &format!("{SCREEN}[limits]\nper_host = 2\n"));
    let metrics = |index: usize| {
        let journal = fs::read_to_string(lab.journal(index)).unwrap();
        let mut entries = journal
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let begun = entries.rfind(|entry| entry["event"] == "begun").unwrap();
        begun["metrics"].as_str().unwrap().to_owned()
    };
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        - 1;
    let run = |address: &str| {
        let mut command = lab.prepare(&["run", LAB]);
        command
            .env("FLASHPROOF_METRICS", address)
            .env("FLASHPROOF_METRICS_FILE", "m.prom");
        Running::start(command).end()
    };
    run(&port.to_string()).expect(0);
    assert_eq!(
        [metrics(0), metrics(1)],
        [port.to_string(), (port + 1).to_string()]
    );
    for index in 0..2 {
        let text = lab.bench.text(&format!("lab/m-{index:04}.prom"));
        assert!(
            text.contains(&format!("tasks/{index:04}/screen/out")),
            "{text}"
        );
    }
    fs::remove_dir_all(lab.bench.path("lab/tasks")).unwrap();
    run("127.0.0.1:0").expect(0);
    assert_eq!(metrics(1), "127.0.0.1:0");
    fs::remove_dir_all(lab.bench.path("lab/tasks")).unwrap();
    run("65535").expect(3);
    assert_eq!(lab.step(0, "screen").0, "pass");
    let (now, why) = lab.step(1, "screen");
    assert!(
        now == "refused" && why.contains("cannot serve metrics on \"65536\" "),
        "{why}"
    );
}

#[test]
fn a_step_that_does_not_resume_ends_after_two_equal_time_limits() {
    let lab = Lab::new();
    let Some(device) = LoopDevice::new(&lab.bench, 64 << 20, &[]) else {
        return;
    };
    lab.drives(Some(&host()), &[(&device.name, &device.name)]);
    lab.campaign("limit", "[[step]]\nname = \"read\"\nlimit = \"3s\"\nrun = \"fio --name=r --filename={drive} --rw=randread --bs=4k --rate_iops=100 \
        --runtime=60 --time_based --out {out}\"\n");
    lab.fleet(&["task", LAB, "0"]).expect(75);
    assert_eq!(
        lab.step(0, "read"),
        (
            "stopped".to_owned(),
            "the time limit of 3 s was reached".to_owned()
        )
    );
    lab.fleet(&["task", LAB, "0"]).expect(3);
    let (now, why) = lab.step(0, "read");
    assert!(
        now == "refused" && why.starts_with("the time limit of 3 s was reached, twice: "),
        "{why}"
    );
    assert!(
        why.ends_with(" - raise the limit of the step read") && why.contains("of 60 s"),
        "{why}"
    );
    lab.fleet(&["run", LAB]).expect(3);
    assert_eq!(
        lab.events(0, "read", "begun"),
        2,
        "only --failed repeats the step"
    );
}

/// Scripts in place of Slurm's programs: an empty queue, and a log of the calls of scancel.
fn without_queue(lab: &Lab) -> String {
    let bin = lab.bench.path("bin");
    fs::create_dir(&bin).unwrap();
    let log = lab.bench.path("log").display().to_string();
    for (name, text) in [
        ("squeue", String::new()),
        ("scancel", format!("echo \"$@\" >> {log}")),
        ("sbatch", "cat > /dev/null; echo 7".to_owned()),
    ] {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:/usr/bin:/bin", bin.display())
}

#[test]
fn in_a_read_only_directory_cancel_works_and_names_the_file_that_was_not_written() {
    let lab = Lab::new();
    let Some(_disk) = small_disk(&lab.bench, LAB, 4_096) else {
        return;
    };
    let path = without_queue(&lab);
    let fleet = |arguments: &[&str]| {
        let mut command = lab.prepare(arguments);
        Running::start({
            command.env("PATH", &path);
            command
        })
        .end()
    };
    lab.simulate(1);
    lab.campaign("full", &format!("{SCREEN}{BY_SLURM}"));
    fleet(&["run", LAB]).expect(0);
    let dir = lab.bench.path(LAB).display().to_string();
    tool("mount", &["-o", "remount,ro", &dir]).unwrap();
    let cancel = fleet(&["cancel", LAB]);
    assert!(
        cancel
            .stderr
            .contains("cancelled the jobs in Slurm's queue\n"),
        "{}",
        cancel.stderr
    );
    cancel.expect_error(
        3,
        &["cannot write ", "lab/cancelled - Read-only file system"],
    );
    tool("mount", &["-o", "remount,rw", &dir]).unwrap();
    fleet(&["cancel", LAB]).expect(0);
    let name = lab.job_name();
    assert_eq!(
        lab.bench.text("log"),
        format!("--name={name}\n--state=PENDING --name={name}\n")
    );
}

/// Submits a campaign of two simulated drives to the cluster, and waits until the queue is empty.
fn submitted(name: &str, slurm_settings: &str) -> Option<Lab> {
    let lab = Lab::on_slurm()?;
    lab.simulate(2);
    lab.campaign(
        name,
        &format!("{SCREEN}[limits]\nper_host = 2\n{slurm_settings}"),
    );
    lab.fleet(&["run", LAB]).expect(0);
    let slurm = lab.slurm?;
    slurm.until("the queue is empty", || {
        slurm
            .run("squeue", &["-h", "-a", "--name", &lab.job_name()])
            .is_empty()
    });
    Some(lab)
}

#[test]
fn a_task_that_cannot_start_is_reported_as_lost_with_the_last_line_of_its_log() {
    let reason = |name: &str, slurm_settings: &str| {
        let lab = submitted(name, slurm_settings)?;
        let reason = "its job ended before the step began; task.log ends with: ";
        let status = lab.fleet(&["status", LAB]).expect(3).stdout;
        let mut report = lab.bench.prepare(&["report", LAB, "--json"]);
        report.env("SLURM_CONF", lab.slurm?.conf());
        let report = Running::start(report).end().expect(3).stdout;
        let of = |text: &str| {
            text.split(reason)
                .nth(1)
                .unwrap_or_else(|| panic!("{text}"))
                .to_owned()
        };
        of(&report);
        Some(of(&status))
    };
    let Some(no_program) = reason(
        "none",
        &format!("{BY_SLURM}program = \"/none/flash proof\"\n"),
    ) else {
        return;
    };
    assert!(
        no_program
            .starts_with("cannot run /none/flash proof - there is no such program on this node"),
        "{no_program}"
    );
    let programs = Bench::new();
    programs.write(
        "refuses",
        "#!/bin/sh\necho error: unknown option --new >&2\nexit 2\n",
    );
    fs::set_permissions(programs.path("refuses"), fs::Permissions::from_mode(0o755)).unwrap();
    let program = programs.path("refuses").display().to_string();
    let usage = reason("usage", &format!("{BY_SLURM}program = \"{program}\"\n")).unwrap();
    assert!(usage.starts_with("unknown option --new\n"), "{usage}");
    let no_output = BY_SLURM.replace("=main", "=main\", \"--output=/none/job.log");
    let no_output = reason("output", &no_output).unwrap();
    assert!(
        no_output.contains(" submitting the task to Slurm\n"),
        "{no_output}"
    );
}

#[test]
fn a_job_cancelled_by_a_user_is_not_requeued_and_other_steps_keep_their_state() {
    let Some(lab) = Lab::on_slurm() else { return };
    let Some(device) = LoopDevice::new(&lab.bench, 64 << 20, &[]) else {
        return;
    };
    lab.drives(Some("n6"), &[(&device.name, &device.name)]);
    let refused = "[[step]]\nname = \"load\"\nlimit = \"1m\"\nrun = \"storage none.conf --device {drive} --out {out}\"\n";
    lab.campaign("users", &format!("{refused}{REAL}after = []\n{BY_SLURM}"));
    lab.fleet(&["run", LAB]).expect(0);
    let slurm = lab.slurm.unwrap();
    slurm.until("the certification runs", || {
        fs::metadata(lab.out(0, "certify/out/stage-1/intervals.csv"))
            .is_ok_and(|file| file.len() > 200)
    });
    let steps = |of: &Lab| ["load", "certify"].map(|step| of.step(0, step).0);
    assert_eq!(steps(&lab), ["refused", "running"]);
    let jobs = || {
        slurm.run(
            "squeue",
            &["-h", "-r", "--name", &lab.job_name(), "-o", "%i"],
        )
    };
    let job = jobs().trim().to_owned();
    slurm.run("scancel", &[&job]);
    slurm.until("the job has left the queue", || jobs().is_empty());
    assert_eq!(lab.events(0, "certify", "stopped"), 1);
    let status = lab.fleet(&["status", LAB]).expect(3).stdout;
    let line = format!(
        "certify on n6 (job {job}) stopped: SIGTERM; its job ended and was not queued again\n"
    );
    assert!(status.contains(&line), "{status}");
    lab.fleet(&["run", LAB]).expect(0);
    slurm.until("the certification passed", || {
        lab.step(0, "certify").0 == "pass"
    });
}

#[test]
fn the_status_shows_why_a_task_is_queued() {
    let Some(lab) = Lab::on_slurm() else { return };
    lab.simulate(3);
    let held = BY_SLURM.replace("=main", "=main\", \"--hold");
    lab.campaign("held", &format!("{SCREEN}{held}"));
    lab.fleet(&["run", LAB]).expect(0);
    let status = lab.fleet(&["status", LAB]).expect(0).stdout;
    assert!(
        status.contains("\nqueued:\n  0000-0002: screen on 3 drives queued: JobHeldUser\n"),
        "{status}"
    );
    lab.fleet(&["cancel", LAB]).expect(0);
}
