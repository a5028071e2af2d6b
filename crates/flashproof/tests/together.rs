//! A test on several hosts: runs that begin at one instant are judged as one.

use crate::support;

use crate::two_nodes::{PATIENT, Pair};
use conclusions::together::{HostRun, judge};
use results::cell::{Latencies, latencies};
use results::judge::Outcome;
use results::run_dir::{HlogKind, each_window, manifest};
use std::fs;
use std::path::PathBuf;
use support::lab::{BY_SLURM, LAB, Lab, kill};
use support::{Bench, LoopDevice, Running, statistic};

/// Command of 20 simulated seconds.
const READS: &str = "fio --name=r --rw=randread --bs=4k --iodepth=16 --runtime=20 --time_based";

/// The run of a host: 20 simulated seconds on a drive with the seed `seed`.
fn part(bench: &Bench, host: &str, seed: u32, rate: u32) -> HostRun {
    part_of(bench, host, seed, rate, "5%>1ms")
}

fn part_of(bench: &Bench, host: &str, seed: u32, rate: u32, limits: &str) -> HostRun {
    let drive = format!("sim:channels=4+read-us=200+seed={seed}");
    let out = format!("of-{host}");
    bench
        .line(&format!(
            "{READS} --filename={drive} --rate_iops={rate} --sla {limits} --out {out}"
        ))
        .expect(0);
    recorded(host, bench.path(out))
}

fn recorded(host: &str, dir: PathBuf) -> HostRun {
    // Simulated runs do not begin at the agreed time, so the difference is declared as a clock offset.
    let clock_ahead_ms = manifest(&dir).unwrap().started_unix_ms as i64 - AGREED as i64;
    HostRun {
        host: host.to_owned(),
        dir,
        clock_ahead_ms,
        missing: None,
    }
}

const AGREED: u64 = 1_000_000;

fn service(part: &HostRun) -> Latencies {
    let layout = manifest(&part.dir).unwrap().layout();
    let mut all = latencies();
    each_window(&part.dir, &layout, HlogKind::Service, |window| {
        all.add(&window.histogram).unwrap()
    })
    .unwrap();
    all
}

#[test]
fn the_combined_histogram_is_the_sum_of_the_hosts_histograms() {
    let bench = Bench::new();
    let parts = [
        part(&bench, "n1", 1, 2_000),
        part(&bench, "n2", 2, 2_000),
        part(&bench, "n3", 3, 2_000),
    ];
    let together = judge(&parts, AGREED).unwrap();
    assert_eq!(
        (together.outcome, together.start_skew_ms),
        (Outcome::Pass, 0),
        "{}",
        together.text()
    );
    let mut sum = latencies();
    parts
        .iter()
        .for_each(|part| sum.add(service(part)).unwrap());
    let [stream] = &together.streams[..] else {
        panic!("{}", together.text())
    };
    let buckets = |of: &Latencies| {
        of.iter_recorded()
            .map(|at| (at.value_iterated_to(), at.count_at_value()))
            .collect::<Vec<_>>()
    };
    assert_eq!(buckets(&stream.service), buckets(&sum));
    assert_eq!(
        (stream.ops, stream.p99_ns),
        (sum.len(), sum.value_at_quantile(0.99))
    );
    assert_eq!(stream.ops, 3 * 2_000 * 20);
}

#[test]
fn a_lost_or_late_host_makes_the_combined_result_invalid_and_is_named() {
    let bench = Bench::new();
    let parts = [part(&bench, "n1", 1, 2_000), part(&bench, "n2", 2, 2_000)];
    let with = |change: &dyn Fn(&mut HostRun)| {
        let mut parts = parts.clone();
        change(&mut parts[1]);
        let together = judge(&parts, AGREED).unwrap();
        (together.outcome, together.reasons[0].clone())
    };
    let lost = with(&|part| part.missing = Some("its process is gone".to_owned()));
    assert_eq!(
        lost,
        (
            Outcome::Invalid,
            "n2 has no result: its process is gone".to_owned()
        )
    );
    let delayed = with(&|part| part.clock_ahead_ms -= 700);
    let why = "n2 began 700 ms after the agreed start; at most 500 ms are allowed";
    assert_eq!(delayed, (Outcome::Invalid, why.to_owned()));
    // Without its verdict, the run of a host counts as killed.
    let killed = bench.path("killed");
    support::tool(
        "cp",
        &[
            "-r",
            parts[1].dir.to_str().unwrap(),
            killed.to_str().unwrap(),
        ],
    )
    .unwrap();
    fs::remove_file(killed.join("verdict.json")).unwrap();
    let (outcome, why) = with(&|part| part.dir.clone_from(&killed));
    assert!(
        outcome == Outcome::Invalid && why.starts_with("n2 did not finish: "),
        "{why}"
    );
    // The lost host has only the first third of its intervals. The other host has all.
    let table = fs::read_to_string(killed.join("intervals.csv")).unwrap();
    let third: Vec<&str> = table.lines().take(table.lines().count() / 3).collect();
    fs::write(killed.join("intervals.csv"), third.join("\n") + "\n").unwrap();
    let lost = HostRun {
        dir: killed,
        ..parts[1].clone()
    };
    let ops = judge(&[lost, parts[0].clone()], AGREED).unwrap().streams[0].ops;
    assert!((42_000..60_000).contains(&ops), "{ops}");
    let other = part(&bench, "n3", 3, 2_000);
    fs::remove_dir_all(&other.dir).unwrap();
    bench
        .line("fio --name=w --filename=sim: --rw=randwrite --runtime=20 --time_based --out of-n3")
        .expect(0);
    let limits = part_of(&bench, "n4", 4, 2_000, "6%>1ms");
    let error = judge(&[parts[0].clone(), limits], AGREED)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("n4 ran a different test: other limits"),
        "{error}"
    );
    let error = judge(&[parts[0].clone(), other], AGREED)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "cannot judge the hosts as one test - n3 ran a different test: other streams - run the same command on all hosts"
    );
}

#[test]
fn one_slow_host_among_three_fails_the_combined_result() {
    let bench = Bench::new();
    let mut parts = vec![part(&bench, "n1", 1, 2_000), part(&bench, "n2", 2, 2_000)];
    fs::create_dir(bench.path("slow")).unwrap();
    let slow =
        "--rate_iops=2000 --filename=sim:channels=4+read-us=1500 --sla 5%>1ms --out slow/run";
    bench.line(&format!("{READS} {slow}")).expect(1);
    parts.push(recorded("n3", bench.path("slow/run")));
    let together = judge(&parts, AGREED).unwrap();
    assert_eq!(together.outcome, Outcome::Fail, "{}", together.text());
    assert!(
        together.reasons[0].contains("n3:sim:"),
        "{}",
        together.text()
    );
}

#[test]
fn slurm_hosts_read_a_shared_device_simultaneously_and_a_killed_host_is_named() {
    let Some(lab) = Lab::on_slurm() else { return };
    let Some(device) = LoopDevice::new(&lab.bench, 64 << 20, &[]) else {
        return;
    };
    let nodes = ["n6", "n7", "n8"];
    nodes
        .iter()
        .for_each(|node| lab.drives(Some(node), &[(&device.name, &device.name)]));
    let step = "[[step]]\nname = \"read\"\nlimit = \"1m\"\ntogether = \"4s\"\nrun = \"fio --name=r --filename={drive} --rw=randread \
        --bs=4k --direct=1 --rate_iops=100 --iodepth=8 --runtime=6 --time_based --out {out}\"\n";
    lab.campaign(
        "together",
        &format!("[drives]\nshared = true\n{step}{BY_SLURM}"),
    );
    lab.fleet(&["run", LAB]).expect(0);
    let slurm = lab.slurm.unwrap();
    let is_over = || {
        lab.status()["together"]
            .as_array()
            .is_some_and(|steps| !steps.is_empty())
    };
    slurm.until("the step runs", || {
        lab.events(0, "read", "begun") == 1 && lab.events(2, "read", "begun") == 1
    });
    support::tool("sleep", &["6"]);
    let task = lab.processes(&format!(
        "fleet task {} .*2$",
        lab.bench.path(LAB).canonicalize().unwrap().display()
    ));
    kill("KILL", &task);
    slurm.run("scancel", &["--name", &lab.job_name(), "--state=PENDING"]);
    slurm.until("the step is over", || {
        slurm.run("scancel", &["--name", &lab.job_name(), "--state=PENDING"]);
        is_over()
    });
    let invalid = format!("INVALID over 3 hosts: n8 ({}) has no result: ", device.name);
    lab.fleet(&["status", LAB]).expect_stdout(4, &[&invalid]);
    lab.fleet(&["run", LAB, "--failed"]).expect(0);
    slurm.until("the step is over again", || {
        lab.events(2, "read", "ended") == 1 && is_over()
    });
    let status = lab.status();
    let [of_step] = &status["together"].as_array().unwrap()[..] else {
        panic!("{status}")
    };
    let result = &of_step[1];
    let ops = result["streams"][0]["ops"].as_u64().unwrap();
    assert!(
        result["hosts"].as_array().unwrap().len() == 3 && ops == 1_800,
        "{status}"
    );
    assert!(result["start_skew_ms"].as_u64().unwrap() < 500, "{status}");
}

#[test]
fn four_clients_of_two_record_engines_are_judged_as_one_load() {
    let Some(lab) = Lab::on_slurm() else { return };
    let pair = Pair::new([PATIENT, "", ""]);
    let Some(nodes) = pair.start_both() else {
        return;
    };
    pair.client(&["-w", "I", "-T", "20000", "--out", "inserted"])
        .end()
        .expect(0);
    lab.simulate(4);
    let at = pair.addresses[0];
    let client = format!(
        "engine client -h {} -p {} -s '' -k 1000 -o B:500 -z 2 -w RU,50 -T 20000",
        at.ip(),
        at.port()
    );
    let step = format!(
        "[[step]]\nname = \"load\"\nlimit = \"1m\"\ntogether = \"4s\"\n\
         run = \"{client} -g 150 --duration 4 --sla '99%>10s' --out {{out}}\"\n"
    );
    lab.campaign(
        "clients",
        &format!("{step}[limits]\nper_host = 4\n{BY_SLURM}"),
    );
    lab.fleet(&["run", LAB]).expect(0);
    lab.slurm.unwrap().until("the step is over", || {
        (0..4).all(|task| lab.events(task, "load", "ended") == 1)
            && lab.status()["together"]
                .as_array()
                .is_some_and(|steps| !steps.is_empty())
    });
    let status = lab.status();
    let result = &status["together"][0][1];
    assert_eq!(result["outcome"], "pass", "{status}");
    assert_eq!(result["hosts"].as_array().unwrap().len(), 4, "{status}");
    let ops = |name: &str| {
        result["streams"]
            .as_array()
            .unwrap()
            .iter()
            .find(|stream: &&serde_json::Value| {
                stream["name"]
                    .as_str()
                    .is_some_and(|stream| stream.contains(name))
            })
            .unwrap_or_else(|| panic!("{status}"))["ops"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(ops("read") + ops("write"), 4 * 150 * 4, "{status}");
    // Each operation was carried out once, by one of the nodes.
    let counted = |name: &str| {
        pair.addresses
            .iter()
            .map(|at| statistic(at, name))
            .sum::<u64>()
    };
    assert_eq!(counted("client_read_success"), ops("read"), "{status}");
    assert_eq!(
        counted("client_write_success"),
        ops("write") + 1_000,
        "{status}"
    );
    nodes.into_iter().for_each(Running::terminate);
}
