//! Campaigns are read from their records: on any machine, without Slurm, also without a valid campaign file.

use crate::support;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use support::lab::{BY_SLURM, LAB, Lab, SCREEN};
use support::{Ended, Running, tool};

/// Runs commands with a PATH that contains only scripts in place of Slurm's programs.
struct Programs<'a>(&'a Lab);

impl<'a> Programs<'a> {
    fn new(lab: &'a Lab, programs: &[(&str, &str)]) -> Self {
        let bin = lab.bench.path("bin");
        let _ = fs::remove_dir_all(&bin);
        fs::create_dir(&bin).unwrap();
        for (name, text) in programs {
            let program = format!("bin/{name}");
            lab.bench.write(&program, format!("#!/bin/sh\n{text}\n"));
            let path = lab.bench.path(program);
            tool("chmod", &["755", path.to_str().unwrap()]).unwrap();
        }
        Self(lab)
    }

    fn run(&self, line: &str) -> Ended {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.0.bench.prepare(&words);
        command
            .env_remove("SLURM_CONF")
            .env("PATH", self.0.bench.path("bin"));
        Running::start(command).end()
    }

    /// The report as JSON and in all other formats. Asserts that JSON and Parquet have the same states of the step.
    fn reported(&self, code: i32) -> (Value, Vec<Ended>) {
        let forms = ["", " --html page.html", " --markdown", " --csv"];
        let run = |form: &&str| self.run(&format!("report {LAB}{form}")).expect(code);
        let texts: Vec<Ended> = forms.iter().map(run).collect();
        let json = self.run(&format!("report {LAB} --json"));
        let json = json.expect(code).json();
        #[cfg(feature = "export")]
        {
            self.run(&format!("report {LAB} --parquet data --force"))
                .expect(0);
            let query = "SELECT list(state ORDER BY task) FROM tasks";
            if let Some(rows) = crate::export::answer(&self.0.bench, query) {
                let states = json["drives"].as_array().unwrap().iter();
                let states = states.map(|drive| drive["results"][0]["state"].as_str().unwrap());
                let states: Vec<_> = states.map(str::to_lowercase).collect();
                assert_eq!(rows, json!([[states]]));
            }
        }
        (json, texts)
    }
}

/// The recorded Slurm campaign of tests/data/campaign with the plan file of format `version`: two drives passed their
/// only step. The step's command has an option that does not exist.
fn kept(version: u32) -> Lab {
    let lab = Lab::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/campaign");
    let tasks = data.join("tasks");
    let to = lab.bench.path(LAB);
    fs::create_dir(&to).unwrap();
    tool("cp", &["-r", tasks.to_str().unwrap(), to.to_str().unwrap()]).unwrap();
    fs::copy(
        data.join(format!("plan-{version}.json")),
        to.join("plan.json"),
    )
    .unwrap();
    lab
}

#[test]
fn old_campaigns_of_each_format_are_read_without_slurm_and_campaign_file() {
    for (version, campaign) in [
        (1, None),
        (1, Some("[[step")),
        (2, None),
        (2, Some("x = 1\n")),
    ] {
        let lab = kept(version);
        if let Some(text) = campaign {
            lab.bench.write("lab/campaign.toml", text);
        }
        let without_slurm = Programs::new(&lab, &[]);
        let (json, texts) = without_slurm.reported(0);
        assert!(
            texts[0].stdout.starts_with("PASS: 2 drives: 2 good"),
            "{}",
            texts[0].stdout
        );
        assert_eq!(json["drives"][1]["results"][0]["state"], "PASS", "{json}");
        let command = json["commands"][0].as_str().unwrap();
        assert!(command.contains("--latency-limits"), "{command}");
        // With format 1, only the campaign file has the name of the campaign.
        let remarks = json["remarks"].as_array().unwrap();
        if version == 1 {
            assert_eq!((&json["name"], remarks.len()), (&json!("lab"), 1));
            let why = remarks[0].as_str().unwrap();
            assert!(why.starts_with("name, scheduler and tests of all drives"));
            assert!(why.contains("campaign.toml"), "{why}");
        } else {
            assert_eq!((&json["name"], remarks.len()), (&json!("kept"), 0));
        }
        let status = without_slurm
            .run("fleet status lab --json")
            .expect(0)
            .json();
        assert_eq!(status["tasks"][0]["steps"][0]["now"], "pass", "{status}");
        without_slurm
            .run("report status lab")
            .expect_stdout(0, &["campaign ", ": 2 drives", "read     2"]);
        let task = without_slurm.run("fleet task lab 0");
        if version == 1 {
            task.expect_error(
                2,
                &[
                    "plan.json has format 1, without limits",
                    "restore campaign.toml",
                ],
            );
        } else {
            task.expect_stderr(0, &["read: has a result already: 0 % of r-reads"]);
        }
        without_slurm
            .run("fleet run lab")
            .expect_error(2, &["campaign.toml"]);
    }
}

#[test]
fn a_campaign_of_format_1_reads_its_settings_from_the_campaign_file_if_possible() {
    let lab = kept(1);
    let plan: Value = lab.bench.json_file("lab/plan.json");
    let words: Vec<_> = plan["steps"][0][1].as_array().unwrap().iter().collect();
    let words: Vec<_> = words
        .into_iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let step = format!(
        "[[step]]\nname = \"read\"\nlimit = \"10m\"\nrun = \"{}\"\n",
        words.join(" ")
    );
    lab.campaign("old", &format!("{step}{BY_SLURM}"));
    let without_slurm = Programs::new(&lab, &[]);
    let (json, _) = without_slurm.reported(0);
    assert_eq!(
        (&json["name"], &json["remarks"]),
        (&json!("old"), &json!([]))
    );
    without_slurm
        .run("fleet task lab 0")
        .expect_stderr(0, &["read: has a result already"]);
    lab.campaign("old", &step.replace("randread", "read"));
    let (json, _) = without_slurm.reported(0);
    let why = json["remarks"][0].as_str().unwrap();
    assert!(why.contains("its step read has changed"), "{why}");
}

#[test]
fn if_slurm_does_not_answer_open_steps_are_unknown_and_only_a_start_fails() {
    for version in [1, 2] {
        let lab = kept(version);
        let journal = lab.bench.text("lab/tasks/0001/journal.jsonl");
        let begun = journal.lines().next().unwrap();
        lab.bench
            .write("lab/tasks/0001/journal.jsonl", format!("{begun}\n"));
        fs::remove_file(lab.bench.path("lab/tasks/0001/read/out/verdict.json")).unwrap();
        let programs: &[&[(&str, &str)]] = &[&[], &[("squeue", "echo no controller >&2; exit 1")]];
        for programs in programs {
            let programs = Programs::new(&lab, programs);
            let (json, texts) = programs.reported(0);
            let result = &json["drives"][1]["results"][0];
            assert_eq!(result["state"], "unknown", "{json}");
            let begun = result["sentence"].as_str().unwrap();
            assert!(begun.starts_with("begun ") && begun.ends_with(" on n2"));
            assert_eq!(json["remarks"].as_array().unwrap().len(), 1, "{json}");
            for text in &texts {
                assert!(!text.stdout.contains("lost"), "{}", text.stdout);
            }
            assert!(
                texts[0]
                    .stdout
                    .starts_with("UNFINISHED: 2 drives: 1 good, 1 not finished")
            );
            assert!(lab.bench.text("page.html").contains("1 unknown"));
            let text = programs.run("fleet status lab").expect(0).stdout;
            let reason = if version == 1 {
                "scheduler and tests of all drives together are unknown: cannot read the campaign"
            } else {
                "the state of open steps is unknown: cannot run squeue - "
            };
            assert_eq!(text.matches(reason).count(), 1, "{text}");
            assert!(
                text.contains("0001 SIM00002 read on n2 (job 100_1) unknown: begun "),
                "{text}"
            );
        }
        if version == 2 {
            // Slurm answers that the task is not in the queue.
            let answering = Programs::new(&lab, &[("squeue", "exit 0")]);
            let text = answering.run("fleet status lab").expect(3).stdout;
            assert!(text.contains("lost: begun "), "{text}");
        }
    }
}

#[test]
fn edits_of_the_campaign_file_affect_tasks_only_after_the_next_start() {
    let lab = Lab::simulated(2);
    let campaign = format!("{SCREEN}{BY_SLURM}");
    lab.campaign("edited", &campaign);
    let slurm = Programs::new(
        &lab,
        &[
            ("squeue", "exit 0"),
            ("sbatch", "/bin/cat > /dev/null; echo 100"),
        ],
    );
    slurm.run("fleet run lab").expect(0);
    let plan = |lab: &Lab| lab.bench.json_file("lab/plan.json");
    assert_eq!(plan(&lab)["steps"][0]["limit_sec"], 600);
    lab.campaign("edited", &campaign.replace("10m\"\n", "20m\"\n"));
    slurm.run("fleet run lab").expect(0);
    assert_eq!(plan(&lab)["steps"][0]["limit_sec"], 1200);
    lab.campaign("renamed", &campaign);
    slurm.run("fleet run lab").expect_error(
        2,
        &[
            "its name \"edited\" has changed since it began",
            "undo this change in campaign.toml",
        ],
    );
    lab.campaign("edited", &campaign.replace("--load 0.1", "--load 0.2"));
    slurm
        .run("fleet run lab")
        .expect_error(2, &["its step screen has changed since it began"]);
    // Tasks run the planned steps.
    slurm.run("fleet task lab 0").expect(0);
    lab.campaign("edited", "no TOML");
    slurm.run("fleet task lab 1").expect(0);
    let (json, texts) = slurm.reported(0);
    assert!(texts[0].stdout.starts_with("PASS: 2 drives: 2 good"));
    assert!(json["commands"][0].as_str().unwrap().contains("--load 0.1"));
    lab.campaign("edited", &campaign);
    fs::remove_dir_all(lab.bench.path("lab/tasks/0001")).unwrap();
    Programs::new(&lab, &[("squeue", "exit 1"), ("sbatch", "echo 100")])
        .run("fleet run lab")
        .expect_error(3, &["cannot run squeue - it failed"]);
}
