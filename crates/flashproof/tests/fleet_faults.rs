//! Random faults while a campaign runs on the cluster: only time is lost. Part of `make soak`.

use crate::support;
use results::run_dir;
use serde_json::Value;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use support::lab::{BY_SLURM, LAB, Lab, REAL, kill};
use support::{Bench, LoopDevice};
use sys::random::Random;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Timeout of the campaign after the last fault.
const PATIENCE: Duration = Duration::from_secs(600);

/// FLASHPROOF_FLEET_FAULTS sets the number of faults, FLASHPROOF_FLEET_SEED their choice.
#[test]
#[ignore = "minutes: make soak"]
fn a_campaign_completes_without_overlapping_tests_of_a_drive_whatever_is_killed() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let faults = number("FLASHPROOF_FLEET_FAULTS", 20);
    let seed = number("FLASHPROOF_FLEET_SEED", 1);
    let Some(lab) = Lab::on_slurm() else { return };
    let mut devices = Vec::new();
    for node in NODES {
        let bench = Bench::new();
        let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
            return;
        };
        lab.drives(Some(node), &[(&device.name, &device.name)]);
        devices.push((bench, device));
    }
    lab.campaign(
        "drawn",
        &format!(
            "{}{}{BY_SLURM}",
            REAL.replace("5s", "8s"),
            REAL.replace("\"certify\"", "\"again\"")
        ),
    );
    lab.fleet(&["run", LAB]).expect(0);
    let mut random = Random::new(seed);
    for fault in 0..faults {
        thread::sleep(Duration::from_millis(500 + random.below(4_000)));
        let task = random.below(NODES.len() as u64) as usize;
        let what = random.below(7);
        eprintln!("fault {fault} of seed {seed}: {what} on task {task}");
        make(&lab, task, what);
    }
    let began = Instant::now();
    while !is_over(&lab) {
        assert!(
            began.elapsed() < PATIENCE,
            "seed {seed}: {}",
            lab.fleet(&["status", LAB]).stdout
        );
        let slurm = lab.slurm.unwrap();
        slurm.hurry("drawn");
        // A killed controller may forget a started job and then drain the node, which an administrator would resume.
        for node in slurm
            .run("sinfo", &["-h", "-N", "-t", "drain", "-o", "%N"])
            .lines()
        {
            slurm.run(
                "scontrol",
                &["update", &format!("nodename={node}"), "state=resume"],
            );
        }
        lab.fleet(&["run", LAB, "--failed"]);
        thread::sleep(Duration::from_secs(2));
    }
    (0..NODES.len()).for_each(|task| check(&lab, task, seed));
}

fn make(lab: &Lab, task: usize, what: u64) {
    let slurm = lab.slurm.unwrap();
    let node = NODES[task];
    let dir = lab.bench.path(LAB).canonicalize().unwrap();
    let of_task = lab.processes(&format!("fleet task {} .*{task}$", dir.display()));
    let of_command = lab.processes(&format!("{}/tasks/{task:04}/", dir.display()));
    let end = |name: &str, pids: &[String]| {
        if !pids.is_empty() {
            kill(name, pids);
        }
    };
    match what {
        0 => end("KILL", &of_task),
        1 => end("KILL", &of_command),
        2 => end("TERM", &of_task),
        3 => {
            slurm.kill(node);
            end("KILL", &[of_task, of_command].concat());
            slurm.node(node);
        }
        4 => {
            slurm.kill("controller");
            slurm.controller();
        }
        // Starts the campaign twice at once, and also starts a task without the scheduler.
        5 => {
            let runs = [
                lab.start(&["run", LAB]),
                lab.start(&["run", LAB]),
                lab.start(&["task", LAB, &task.to_string()]),
            ];
            thread::sleep(Duration::from_secs(2));
            runs[2].signal("TERM");
            runs.into_iter().for_each(|run| drop(run.end()));
        }
        _ => {
            lab.fleet(&["cancel", LAB]).expect(0);
            thread::sleep(Duration::from_secs(3));
            lab.fleet(&["run", LAB]);
        }
    }
}

fn is_over(lab: &Lab) -> bool {
    let status = lab.status();
    let mut steps = status["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|task| task["steps"].as_array().unwrap());
    steps.all(|step| step["now"] == "pass")
}

/// Checks that each step of the drive ended once, with two completed stages, and that no two runs overlapped.
fn check(lab: &Lab, task: usize, seed: u64) {
    let mut times = Vec::new();
    for step in ["certify", "again"] {
        assert_eq!(
            lab.events(task, step, "ended"),
            1,
            "seed {seed}, task {task}, {step}"
        );
        let out = lab.out(task, &format!("{step}/out"));
        let series: Value =
            serde_json::from_str(&fs::read_to_string(out.join("series.json")).unwrap()).unwrap();
        let done = series["steps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|step| step["state"] == "done")
            .count();
        assert_eq!(done, 2, "seed {seed}, task {task}: {series}");
        let step_dir = lab.out(task, step);
        let outs = fs::read_dir(step_dir)
            .unwrap()
            .flatten()
            .filter(|entry| entry.path().is_dir());
        let stages = outs
            .flat_map(|out| fs::read_dir(out.path()).unwrap().flatten())
            .map(|stage| stage.path());
        for stage in stages.filter(|stage| stage.join("manifest.json").exists()) {
            let began = run_dir::manifest(&stage).unwrap().started_unix_ms;
            let intervals = run_dir::read(&stage).map_or(0, |run| run.intervals);
            times.push((began, began + 1_000 * intervals, stage));
        }
    }
    times.sort();
    for pair in times.windows(2) {
        let before = &pair[0];
        let after = &pair[1];
        // The clock may be adjusted by some milliseconds between two runs.
        assert!(
            before.1 <= after.0 + 100,
            "seed {seed}: {before:?} and {after:?} at the same time"
        );
    }
    assert!(times.len() >= 4, "{times:?}");
}
