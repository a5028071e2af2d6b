//! Number of drives for a load, from runs on simulated drives with a known answer.

use crate::support;

use serde_json::Value;
use sizing::drive_io::DriveIo;
use sizing::profile::{
    DeviceLoad, DriveTarget, FORMAT, LoadWindow, Profile, ProfileCheck, ProfiledNode,
};
use std::fs;
use std::path::Path;
use support::{Bench, Ended, words};

/// iostat's numbers for the drive in the sizing paper.
pub(crate) const PAPER: DriveIo = DriveIo {
    reads_per_sec: 11_788.5,
    writes_per_sec: 1548.0,
    read_kib_per_sec: 340_545.0,
    written_kib_per_sec: 198_144.0,
};

const USED_BYTES: u64 = 300_000_000_000;

/// Two nodes with one drive each. The second drive does twice the work of the first.
pub(crate) fn profile(io: DriveIo) -> Profile {
    let at = |text: &str| text.parse().unwrap();
    let window = LoadWindow {
        from: at("2018-04-10T07:00:00Z"),
        to: at("2018-04-10T08:00:00Z"),
    };
    let drive = |node: &str, times: f64| DriveTarget {
        node: node.to_owned(),
        drive: "nvme0n1".to_owned(),
        predicted: io.map(|n| n * times),
        iostat: None,
        others: Vec::new(),
    };
    let load = |node: &str| DeviceLoad {
        node: node.to_owned(),
        namespace: "ycsb".to_owned(),
        drive: "nvme0n1".to_owned(),
        used_bytes: Some(USED_BYTES),
        ..DeviceLoad::default()
    };
    Profile {
        format: FORMAT,
        tool: "test".to_owned(),
        nodes: ["A", "B"]
            .map(|id| ProfiledNode {
                id: id.to_owned(),
                build: None,
                window,
            })
            .to_vec(),
        loads: vec![load("A"), load("B")],
        drives: vec![drive("A", 0.5), drive("B", 1.0)],
        ..Profile::default()
    }
}

pub(crate) fn write_profile(bench: &Bench, profile: &Profile) {
    bench.write("profile.json", serde_json::to_string(profile).unwrap());
}

/// The paper's example at `times` its load, on a simulated drive of 1 TB, as a run directory.
fn run_of_example(bench: &Bench, dir: &str, times: u32) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sizing-paper-sim.conf");
    let config: String = fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line: &str| {
            let rate = line
                .strip_prefix("read-reqs-per-sec: ")
                .or(line.strip_prefix("write-reqs-per-sec: "));
            match (rate, line.split_once(':')) {
                (Some(rate), Some((key, _))) => {
                    format!("{key}: {}\n", rate.parse::<u32>().unwrap() * times)
                }
                // The offsets that `size align` finds for the paper's drive.
                (_, Some(("lbr-req-offset", _))) => "lbr-req-offset: 98\n".to_owned(),
                (_, Some(("lbw-req-offset", _))) => "lbw-req-offset: 92\n".to_owned(),
                (_, Some(("device-names", _))) => {
                    "device-names: sim:capacity=1000GB+channels=64\n".to_owned()
                }
                (_, Some(("test-duration-sec", _))) => "test-duration-sec: 10\n".to_owned(),
                _ => format!("{line}\n"),
            }
        })
        .collect();
    bench.write("run.conf", format!("{config}seed: 1\n"));
    bench
        .flashproof(&["storage", "run.conf", "--out", dir])
        .expect(0);
}

fn select(bench: &Bench, more: &[&str]) -> Ended {
    bench.flashproof(&[&["size", "select", "--profile", "profile.json"], more].concat())
}

fn json(bench: &Bench, more: &[&str]) -> Value {
    select(bench, &[more, &["--json"]].concat())
        .expect(0)
        .json()
}

#[test]
fn a_run_of_the_clusters_load_counts_as_a_measurement_and_twice_the_load_needs_twice_the_drives() {
    let bench = Bench::new();
    write_profile(&bench, &profile(PAPER));
    run_of_example(&bench, "one", 1);
    run_of_example(&bench, "three", 3);
    let found = json(&bench, &["--candidate", "one", "three", "--fill", "100"]);
    for (choice, times, now, scaled) in [(0, 1.0, 1, 2), (1, 3.0, 1, 1)] {
        let choice = &found["choices"][choice];
        assert_eq!(choice["basis"], "measured", "{choice}");
        let held = choice["times_the_busiest"].as_f64().unwrap();
        // The example's rates differ slightly from those of the paper, which must not add a drive.
        assert!((held / times - 1.0).abs() < 0.01 && held != times, "{held}");
        let exact = ["now", "scaled"].map(|need| choice[need]["exact"].as_f64().unwrap());
        assert!(
            (exact[0] * times - 1.0).abs() < 0.01 && (exact[1] / exact[0] - 2.0).abs() < 1e-9,
            "{choice}"
        );
        let per_node = ["now", "scaled"].map(|need| choice[need]["per_node"].as_u64());
        assert_eq!(per_node, [Some(now), Some(scaled)], "{choice}");
        assert_eq!(choice["now"]["in_all"].as_u64(), Some(2 * now));
        let margin = &choice["margins"][0];
        assert_eq!(
            (&margin["threshold"], &margin["share_max"]),
            (&"1ms".into(), &0.05.into())
        );
    }
    // The data and the endurance decide if they need more drives than the load.
    for (options, expected) in [
        // 300 GB of data, at most 10 % of each drive of 1 TB: three drives; for three times the data, nine.
        (
            "--fill 10 --data-scale 3",
            [(3, "capacity"), (9, "capacity")],
        ),
        // 198,144 KiB/s are 32.0 PB in five years. A drive of 1 TB with 2 drive writes per day is rated for 3.65 PB.
        ("--dwpd three=2", [(9, "wear"), (18, "wear")]),
        ("--tbw three=40000", [(1, "wear"), (2, "wear")]),
    ] {
        let options = [&["--candidate", "three"], &words(options)[..]].concat();
        let found = json(&bench, &options);
        let choice = &found["choices"][0];
        for (need, (count, limit)) in ["now", "scaled"].into_iter().zip(expected) {
            let need = &choice[need];
            let found = (need["per_node"].as_u64(), need["limit"].as_str());
            assert_eq!(found, (Some(count), Some(limit)), "{choice}");
        }
    }
    // With the run's own I/O as the load, the result is exact.
    let io = &found["choices"][0]["does"]["io"];
    let r = io["r/s"].as_f64().unwrap();
    let w = io["w/s"].as_f64().unwrap();
    let rkb = io["rkB/s"].as_f64().unwrap();
    let wkb = io["wkB/s"].as_f64().unwrap();
    write_profile(&bench, &profile(DriveIo::from([r, w, rkb, wkb])));
    let candidate = ["--candidate", "a=one", "--price", "a=500"];
    let text = select(&bench, &candidate).expect(0).stdout;
    select(&bench, &[&candidate[..], &["--html", "page.html"]].concat()).expect(0);
    let page = String::from_utf8(bench.read("page.html")).unwrap();
    let answer = text
        .lines()
        .next()
        .unwrap()
        .trim_start_matches("MEASURED: ");
    assert!(
        page.contains(answer) && page.contains("<td>this load, simulated"),
        "{page}"
    );
    let row: Vec<&str> = text
        .lines()
        .find(|line| line.starts_with("a "))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        &row[..5],
        ["a", "this", "load,", "simulated", "1x"],
        "{text}"
    );
    assert_eq!(
        &row[row.len() - 2..],
        ["1,000", "2,000"],
        "two nodes, one drive each, then two: {text}"
    );
    assert!(
        text.contains("over 1ms") && text.contains("% of 5 %"),
        "{text}"
    );
}

#[test]
fn runs_of_another_load_give_an_estimate_and_failed_or_read_only_runs_give_no_number() {
    let bench = Bench::new();
    write_profile(&bench, &profile(PAPER));
    let rows: [(&str, &str, &str, i32, &[&str]); 3] = [
        // The run did 12 x 23.5 large blocks per second; 1,548 per second are needed.
        (
            "other",
            "sim:channels=64",
            "24000\nwrite-reqs-per-sec: 12000",
            0,
            &[
                "other: 6 drives per node now, 11 at 2x (limit: write",
                "estimate, simulated",
                "other: it ran another load than the cluster's",
                "fewer drives may be enough (flashproof rate finds the highest load)",
            ],
        ),
        (
            "failed",
            "sim:read-us=3000",
            "1000",
            1,
            &["failed: the run did not hold the load"],
        ),
        // A read-only run gives no information about writes.
        (
            "reads",
            "sim:",
            "1000",
            0,
            &["reads: it was not measured with every kind of I/O of this load"],
        ),
    ];
    for (dir, device, rates, code, said) in rows {
        let config =
            format!("device-names: {device}\ntest-duration-sec: 10\nread-reqs-per-sec: {rates}\n");
        bench
            .start_as("run.conf", dir, &config, &[])
            .end()
            .expect(code);
        select(&bench, &["--candidate", dir, "--fill", "100"]).expect_stdout(0, said);
    }
}

#[test]
fn published_ratings_are_estimates_with_a_warning() {
    let bench = Bench::new();
    write_profile(&bench, &profile(PAPER));
    let ended = select(
        &bench,
        &[
            "--published",
            "p4800x 375",
            "--scale",
            "3",
            "--price",
            "Intel P4800X 375G=900",
        ],
    )
    .expect(0);
    assert!(
        ended
            .warnings()
            .iter()
            .any(|line| line.contains("records of 1.5 KB and two reads per write"))
    );
    // 145x is 3,412 large blocks per second each way, 2.2 times the cluster's. Three times the load needs 1.36 drives.
    let row = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("Intel P4800X 375G "))
        .unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[3..6], ["published", "2.2x", "1"], "{row}");
    assert_eq!(words[words.len() - 2..], ["1,800", "3,600"], "{row}");
    let all = json(&bench, &["--published", "all"]);
    assert!(all["choices"].as_array().unwrap().len() > 50);
    select(&bench, &["--published", "nobody's"]).expect_error(
        2,
        &["no published rating has \"nobody's\" in its drive's name"],
    );
    select(&bench, &["--published", "P4800X", "--price", "x=1"])
        .expect_error(2, &["no candidate or device has that name"]);
}

#[test]
fn an_unbalanced_or_empty_profile_is_refused() {
    let bench = Bench::new();
    let mut unbalanced = profile(PAPER);
    unbalanced.checks.push(ProfileCheck {
        node: "A".to_owned(),
        place: "nvme0n1".to_owned(),
        what: "r/s".to_owned(),
        against: "iostat".to_owned(),
        found: 1.0,
        least: 2.0,
        most: 2.0,
        allowed_pct: 1.0,
        advice: "another hour".to_owned(),
    });
    write_profile(&bench, &unbalanced);
    let all = ["--published", "all"];
    assert!(
        select(&bench, &all)
            .expect(4)
            .errors()
            .join("\n")
            .contains("does not balance")
    );
    select(&bench, &["--published", "all", "--accept-unbalanced"]).expect(0);
    write_profile(&bench, &profile(DriveIo::default()));
    select(&bench, &all).expect_error(2, &["it has no load"]);
    write_profile(&bench, &profile(PAPER));
    select(&bench, &["--candidate", "none"]).expect(3);
    bench.write("act.log", "\nACT version 6.6\n");
    let drives = "<--candidate <DIR>...|--published <NAME>>";
    select(&bench, &[]).expect_stderr(2, &[drives]);
    let config = "device-names: a\nread-reqs-per-sec: 1\n";
    bench.write("test.conf", config);
    bench.write("iostat.txt", "Device r/s rkB/s\n");
    for (profile, why) in [
        (
            "r/s=1,w/s=1,rkB/s=2,wkB/s=2",
            "numbers of one drive do not show the nodes",
        ),
        ("test.conf", "it is a test configuration, not a profile"),
        ("iostat.txt", "it is output of iostat, not a profile"),
        ("act.log", "it is an ACT log, not a profile"),
        (
            "none",
            "No such file or directory (os error 2) - give the profile.json",
        ),
    ] {
        let args = ["size", "select", "--profile", profile, "--published", "all"];
        bench
            .flashproof(&args)
            .expect_error(2, &[why, "give the profile.json"]);
    }
    for (option, value) in [
        ("--fill", "0"),
        ("--fill", "101"),
        ("--scale", "nan"),
        ("--data-scale", "-1"),
    ] {
        select(&bench, &["--published", "all", option, value]).expect(2);
    }
}
