//! A campaign in a directory of the bench, on this machine or on the Slurm cluster.

use super::{Bench, Ended, FLASHPROOF, LoopDevice, Running, Slurm};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::MutexGuard;

pub const LAB: &str = "lab";

/// A step with 10 minutes of simulated load per stage, which takes less than a second.
pub const SCREEN: &str = "[[step]]\nname = \"screen\"\nrun = \"certify {drive} --load 0.1 --duration 10m --out {out}\"\nlimit = \"10m\"\n";

/// A step of two stages of 5 real seconds.
pub const REAL: &str = "[[step]]\nname = \"certify\"\n\
    run = \"certify {drive} --load 0.02 --duration 5s --no-prep --no-trace --sla 50%>1s --out {out}\"\nlimit = \"10m\"\n";

pub const BY_SLURM: &str = "[slurm]\ngres = \"flash:1\"\noptions = [\"--partition=main\"]\n";

pub struct Lab {
    pub bench: Bench,
    pub slurm: Option<&'static Slurm>,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Lab {
    pub fn new() -> Self {
        Self {
            bench: Bench::new(),
            slurm: None,
            _turn: None,
        }
    }

    /// A campaign on the cluster; `None`, with a message, without a cluster.
    pub fn on_slurm() -> Option<Self> {
        let turn = Slurm::turn();
        Some(Self {
            slurm: Some(Slurm::cluster()?),
            _turn: Some(turn),
            ..Self::new()
        })
    }

    pub fn simulated(count: u32) -> Self {
        let this = Self::new();
        this.simulate(count);
        this
    }

    pub fn simulate(&self, count: u32) {
        let count = count.to_string();
        self.fleet(&[
            "inventory",
            "--out",
            LAB,
            "--simulated",
            "sim:channels=4",
            "--count",
            &count,
            "--quiet",
        ])
        .expect(0);
    }

    /// Writes the inventory of `host`: identifier and path of each drive.
    pub fn drives(&self, host: Option<&str>, drives: &[(&str, &str)]) {
        let drives: Vec<Value> = drives.iter().map(|(id, path): &(&str, &str)| {
            json!({"id": id, "path": path, "model": "M", "serial": id, "wwid": null, "firmware": "F", "size_bytes": 1 << 28,
                "slot": null, "link": null, "numa_node": null, "wear_percent": null, "state": "free", "why": null})
        }).collect();
        let text = json!({"format_version": 1, "host": host, "taken_unix_ms": 0, "drives": drives})
            .to_string();
        fs::create_dir_all(self.bench.path("lab/inventory")).unwrap();
        self.bench.write(
            &format!("lab/inventory/{}.json", host.unwrap_or("simulated")),
            text,
        );
    }

    pub fn campaign(&self, name: &str, text: &str) {
        fs::create_dir_all(self.bench.path(LAB)).unwrap();
        self.bench
            .write("lab/campaign.toml", format!("name = \"{name}\"\n{text}"));
    }

    /// Makes a campaign with the real-time step on a loop device of this host.
    pub fn real(&self) -> Option<LoopDevice> {
        let device = LoopDevice::new(&self.bench, 64 << 20, &[])?;
        self.drives(Some(&host()), &[(&device.name, &device.name)]);
        self.campaign("real", REAL);
        Some(device)
    }

    pub fn prepare<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = self.bench.command(FLASHPROOF);
        command.arg("fleet").args(arguments);
        match self.slurm {
            Some(slurm) => command.env("SLURM_CONF", slurm.conf()),
            None => command
                .env_remove("SLURM_CONF")
                .env_remove("SLURM_JOB_ID")
                .env_remove("SLURMD_NODENAME"),
        };
        command
    }

    pub fn fleet<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Ended {
        Running::start(self.prepare(arguments)).end()
    }

    pub fn start<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        Running::start(self.prepare(arguments))
    }

    pub fn job_name(&self) -> String {
        let plan: Value = serde_json::from_str(&self.bench.text("lab/plan.json")).unwrap();
        let campaign = self.bench.text("lab/campaign.toml");
        let name = campaign
            .lines()
            .next()
            .and_then(|line| line.split('"').nth(1))
            .unwrap();
        format!("flashproof-{name}-{}", plan["id"].as_str().unwrap())
    }

    pub fn status(&self) -> Value {
        self.fleet(&["status", LAB, "--json"]).json()
    }

    /// State of a step of a task, and its note.
    pub fn step(&self, index: usize, name: &str) -> (String, String) {
        let status = self.status();
        let steps = status["tasks"][index]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["step"] == name).unwrap();
        let text = |key: &str| step[key].as_str().unwrap().to_owned();
        (text("now"), text("note"))
    }

    pub fn events(&self, index: usize, step: &str, event: &str) -> usize {
        let text = fs::read_to_string(self.journal(index)).unwrap_or_default();
        let entries = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries
            .filter(|entry| entry["step"] == step && entry["event"] == event)
            .count()
    }

    pub fn journal(&self, index: usize) -> PathBuf {
        self.bench
            .path(format!("lab/tasks/{index:04}/journal.jsonl"))
    }

    /// A file in the directory of a task.
    pub fn out(&self, index: usize, name: &str) -> PathBuf {
        self.bench.path(format!("lab/tasks/{index:04}/{name}"))
    }

    /// Ids of the processes whose command line matches `part` (pgrep -f).
    pub fn processes(&self, part: &str) -> Vec<String> {
        let text = Command::new("pgrep")
            .args(["-f", part])
            .output()
            .unwrap()
            .stdout;
        String::from_utf8(text)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

pub fn kill(name: &str, pids: &[String]) {
    assert!(!pids.is_empty(), "nothing to kill");
    Command::new("kill")
        .arg(format!("-{name}"))
        .args(pids)
        .status()
        .unwrap();
}

pub fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap()
        .trim()
        .to_owned()
}
