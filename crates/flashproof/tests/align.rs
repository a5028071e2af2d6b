//! `flashproof size align`: configurations are adjusted to a cluster's I/O, on simulated drives and on a loop device.

use crate::support;

use sizing::drive_io::DriveIo;
use sizing::profile::{
    DeviceLoad, DriveTarget, FORMAT, LoadWindow, Profile, ProfileCheck, ProfiledNode,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Bench, Ended, LoopDevice, Running, words};

/// iostat's numbers for the cluster in the sizing paper.
const CLUSTER: &str = "r/s=11788.5,w/s=1548,rkB/s=340545,wkB/s=198144";

/// The paper's example as printed, without the keys that begin with an entry of `without`.
fn example(without: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sizing-paper.conf");
    let text = fs::read_to_string(path).unwrap();
    let kept = text
        .lines()
        .filter(|line| !without.iter().any(|key| line.starts_with(key)));
    kept.map(|line| format!("{line}\n")).collect()
}

/// Aligns `config` with a target on a simulated drive, into `out.conf`.
fn align(bench: &Bench, config: &str, target: &str, more: &[&str]) -> Ended {
    bench.write("in.conf", config);
    let arguments = [
        "size", "align", "in.conf", "--target", target, "--device", "sim:", "--out", "out.conf",
    ];
    bench.flashproof(&[&arguments[..], more].concat())
}

/// Offsets in a file, in the order lbr, lbw, read size, write size; 100 for a missing offset.
fn offsets(text: &str) -> [u32; 4] {
    [
        "lbr-req-offset:",
        "lbw-req-offset:",
        "read-size-offset:",
        "write-size-offset:",
    ]
    .map(|key| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map_or(100, |value| {
            value.split('#').next().unwrap().trim().parse().unwrap()
        })
    })
}

/// Numbers in the table row that begins with `name`: cluster, before, after.
fn row(ended: &Ended, name: &str) -> [f64; 3] {
    let line = ended
        .stdout
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_else(|| panic!("{}", ended.stdout));
    let words: Vec<&str> = line.split_whitespace().collect();
    [1, 2, 5].map(|at| words[at].replace(',', "").parse().unwrap())
}

#[test]
fn align_fits_the_sizing_papers_example_to_the_clusters_io_and_keeps_all_lines() {
    let bench = Bench::new();
    let config = example(&["lbr-req", "lbw-req"]);
    // Half of the writes that iostat counted are flushes.
    let target = CLUSTER.replace("w/s=1548", "w/s=3096,f/s=1548");
    let ended = align(&bench, &config, &target, &[]).expect(0);
    for (name, cluster) in [
        ("r/s", 11_789.0),
        ("w/s", 1548.0),
        ("rkB/s", 340_545.0),
        ("wkB/s", 198_144.0),
    ] {
        let [there, before, after] = row(&ended, name);
        assert_eq!(there, cluster);
        assert!((after / cluster - 1.0).abs() <= 0.02, "{}", ended.stdout);
        // Before the alignment, the load has more large blocks than the cluster: 8.5 % in the paper, 10 % here
        // (1,702/s).
        assert!(
            !name.starts_with('w') || before / cluster > 1.08,
            "{}",
            ended.stdout
        );
    }
    let aligned = bench.text("out.conf");
    let [reads, writes, size, unchanged] = offsets(&aligned);
    assert!(
        (97..=99).contains(&reads)
            && writes == 92
            && (96..=101).contains(&size)
            && unchanged == 100,
        "{aligned}"
    );
    assert!(
        aligned.starts_with(&config),
        "all lines are unchanged, with more lines at the end"
    );
    let has = |part| aligned.contains(part);
    assert!(
        has("\n# By flashproof size align, ") && has("iostat's numbers as typed"),
        "{aligned}"
    );
}

#[test]
fn align_finds_the_offsets_that_generated_a_load_with_commits() {
    let bench = Bench::new();
    let truth = [110, 85, 95, 90];
    let plain = example(&["lbr-req", "lbw-req"])
        .replace("7200", "5")
        .replace("/dev/disk/by-id/PUT-YOUR-DRIVE-HERE", "sim:min-io=4096");
    let config = format!("{plain}commit-to-device: yes\nseed: 3\n");
    let lines: String = ["lbr-req", "lbw-req", "read-size", "write-size"]
        .iter()
        .zip(truth)
        .map(|(key, pct)| format!("{key}-offset: {pct}\n"))
        .collect();
    bench.storage(&format!("{config}{lines}"), &[]).expect(0);
    let streams = bench.run().verdict.streams;
    let per_sec = |ending: &str, of: &dyn Fn(&results::judge::StreamTotals) -> u64| {
        streams
            .iter()
            .filter(|it| it.name.ends_with(ending))
            .map(of)
            .sum::<u64>() as f64
            / 5.0
    };
    let target = format!(
        "r/s={},w/s={},rkB/s={},wkB/s={}",
        per_sec("reads", &|it| it.ops),
        per_sec("writes", &|it| it.ops),
        per_sec("reads", &|it| it.bytes / 1024),
        per_sec("writes", &|it| it.bytes / 1024)
    );
    bench.write("in.conf", &config);
    // --within 0.5 is small enough to distinguish offsets that differ by one percent.
    bench
        .line(&format!(
            "size align in.conf --target {target} --out out.conf --within 0.5"
        ))
        .expect(0);
    let found = offsets(&bench.text("out.conf"));
    // Read sizes are rounded up to 4 KiB, so several offsets have the same effect. Commit sizes are random, and the
    // number of large blocks depends on the mean commit size.
    for ((found, truth), slack) in found.into_iter().zip(truth).zip([4, 4, 4, 3]) {
        assert!(
            found.abs_diff(truth) <= slack,
            "{found} for {truth}: {:?}",
            bench.text("out.conf")
        );
    }
}

#[test]
fn align_refuses_a_drive_that_does_not_hold_the_load() {
    let bench = Bench::new();
    bench.write("in.conf", example(&[]));
    let on = |device: &str| {
        bench.line(&format!(
            "size align in.conf --target {CLUSTER} --device {device} --out out.conf"
        ))
    };
    on("sim:channels=1").expect_error(
        4,
        &[
            "the load was not held",
            "does not represent the configuration",
        ],
    );
    on("sim:channels=1+read-us=20000").expect(4);
    assert!(!bench.exists("out.conf"));
}

#[test]
fn a_wrong_block_size_is_reported_and_not_fitted() {
    let bench = Bench::new();
    let target = CLUSTER.replace("w/s=1548", "w/s=3096");
    let ended = align(&bench, &example(&[]), &target, &[]).expect(4);
    let errors = ended.errors().join("\n");
    assert!(
        errors
            .contains("the cluster's drive had writes of 64 KiB, but large-block-op-kbytes is 128"),
        "{errors}"
    );
    assert!(
        errors.contains("the block size is wrong") && !bench.exists("out.conf"),
        "{errors}"
    );
}

#[test]
fn a_suspicious_offset_needs_a_reason_which_the_configuration_keeps() {
    let bench = Bench::new();
    // With sizes distributed log-uniformly in their buckets, the paper's rule gives too many large blocks.
    let config = format!("{}seed: 1\n", example(&["lbr-req", "lbw-req"]));
    let target = "r/s=11443,w/s=1211,rkB/s=374552,wkB/s=155056";
    let ended = align(&bench, &config, target, &[]).expect(4);
    let errors = ended.errors().join("\n");
    assert!(
        errors.contains("lbw-req-offset: 72") && errors.contains("hides another problem"),
        "{errors}"
    );
    let rule = errors
        .lines()
        .find(|line| line.contains("with size-within-bucket: log-uniform, these offsets"));
    assert!(
        rule.is_some_and(|line| line.contains("lbr-req-offset 100, lbw-req-offset 100")),
        "{errors}"
    );
    assert!(!bench.exists("out.conf"));
    align(
        &bench,
        &config,
        target,
        &["--because", "the log was cut\nrecord-bytes: 7"],
    )
    .expect(0);
    let written = bench.text("out.conf");
    assert!(
        written.contains("because the log was cut\\u000arecord-bytes: 7"),
        "{written}"
    );
    // No file is written for a target that cannot be reached.
    let target = CLUSTER.replace("r/s=11788.5", "r/s=9000");
    let ended = align(&bench, &config, &target, &["--force"]).expect(4);
    let errors = ended.errors().join("\n");
    let hint = "r/s: large-block reads cannot close the difference - set read-reqs-per-sec: 7,6";
    assert!(errors.contains(hint), "{errors}");
}

/// A profile of two drives of one node. Two namespaces share the second drive.
fn profile() -> Profile {
    let io = |part: f64| DriveIo {
        reads_per_sec: 11_788.5 * part,
        writes_per_sec: 1548.0 * part,
        read_kib_per_sec: 340_545.0 * part,
        written_kib_per_sec: 198_144.0 * part,
    };
    let load = |namespace: &str, drive: &str| DeviceLoad {
        node: "BB9".to_owned(),
        namespace: namespace.to_owned(),
        drive: drive.to_owned(),
        reads_per_sec: 10_470.0,
        writes_per_sec: 5957.0,
        large_block_bytes: 131_072,
        large_block_reads_per_sec: 1318.5,
        large_block_writes_per_sec: 1548.0,
        ..DeviceLoad::default()
    };
    let drive = |drive: &str, predicted: DriveIo, iostat| DriveTarget {
        node: "BB9".to_owned(),
        drive: drive.to_owned(),
        predicted,
        iostat,
        others: Vec::new(),
    };
    let check = ProfileCheck {
        node: "BB9".to_owned(),
        place: "nvme0n1".to_owned(),
        what: "r/s".to_owned(),
        against: "iostat".to_owned(),
        found: 100.0,
        least: 100.5,
        most: 100.5,
        allowed_pct: 1.0,
        advice: "iostat is of another hour".to_owned(),
    };
    let at = |text: &str| text.parse().unwrap();
    let window = LoadWindow {
        from: at("2018-04-10T07:00:00Z"),
        to: at("2018-04-10T08:00:00Z"),
    };
    Profile {
        format: FORMAT,
        tool: "test".to_owned(),
        nodes: vec![ProfiledNode {
            id: "BB9".to_owned(),
            build: None,
            window,
        }],
        loads: vec![
            load("ycsb", "nvme0n1"),
            load("ycsb", "nvme1n1"),
            load("other", "nvme1n1"),
        ],
        drives: vec![
            drive("nvme0n1", io(0.5), Some(io(1.0))),
            drive("nvme1n1", io(2.0), None),
        ],
        checks: vec![check],
        ..Profile::default()
    }
}

fn json(profile: &Profile) -> String {
    serde_json::to_string(profile).unwrap()
}

#[test]
fn a_profile_is_a_target_only_if_its_counts_balance() {
    let bench = Bench::new();
    let config = example(&["lbr-req", "lbw-req"]);
    let aligned = |more: &[&str]| align(&bench, &config, "profile.json", more);
    bench.write("profile.json", json(&profile()));
    aligned(&[]).expect_error(
        2,
        &[
            "these drives have 2 namespaces (other, ycsb)",
            "--namespace",
        ],
    );
    aligned(&["--drive", "sda"]).expect_error(
        2,
        &[
            "no such drive",
            "--node BB9 --drive nvme0n1, --node BB9 --drive nvme1n1",
        ],
    );
    aligned(&["--drive", "/dev/nvme1n1"]).expect_error(2, &["these drives have 2 namespaces"]);
    for (more, source) in [
        (
            "--drive nvme0n1",
            "cluster: drive nvme0n1 of node BB9 in profile.json",
        ),
        (
            "--drive nvme1n1 --namespace ycsb",
            "namespace ycsb's share (server counters) of drive",
        ),
        (
            "--namespace ycsb",
            "ycsb's share (server counters) of one drive, the mean of 2, of node BB9",
        ),
    ] {
        let ended = aligned(&[&words(more)[..], &["--force"]].concat()).expect(0);
        ended.shows(&[source]);
        assert_eq!(
            (offsets(&bench.text("out.conf"))[1], row(&ended, "w/s")[0]),
            (92, 1548.0)
        );
    }
    let none = aligned(&["--drive", "nvme1n1", "--namespace", "none", "--force"]);
    none.expect_error(2, &["the drive has no namespace \"none\""]);
    // A configuration that "flashproof size profile" wrote contains the name of its namespace.
    bench.write("ycsb.conf", &config);
    let ended = bench
        .line("size align ycsb.conf --target profile.json --device sim:")
        .expect(0);
    assert!(
        ended.stdout.contains("namespace ycsb") && ended.stderr.contains("--out FILE"),
        "{}",
        ended.stdout
    );

    // The tomb raider has no fixed rate. Therefore its reads are excluded from the target and from the bursts.
    let plain = bench.text("out.conf");
    let mut raided = profile();
    raided.loads[0].tomb_raider_reads_per_sec = 100.0;
    let [r, w, read_kib, kib_written] = raided.drives[0].io().numbers();
    raided.drives[0].iostat = Some(DriveIo::from([
        r + 100.0,
        w,
        read_kib + 12_800.0,
        kib_written,
    ]));
    bench.write("profile.json", json(&raided));
    let raider = format!("{config}tomb-raider: yes\ntomb-raider-sleep-usec: 9000\n");
    let ended = align(
        &bench,
        &raider,
        "profile.json",
        &["--drive", "nvme0n1", "--force"],
    )
    .expect(0);
    ended.shows(&["drive nvme0n1 without the tomb raider's reads of node BB9"]);
    // Each burst draws new random sizes, so the offsets differ by a few.
    let raided_offsets = offsets(&bench.text("out.conf"));
    let plain_offsets = offsets(&plain);
    let is_near = |(one, two): (&u32, &u32)| one.abs_diff(*two) <= 8;
    assert!(
        raided_offsets.iter().zip(&plain_offsets).all(is_near),
        "{raided_offsets:?} {plain_offsets:?}"
    );
    assert!(bench.text("out.conf").contains("\ntomb-raider: yes\n"));

    let mut unbalanced = profile();
    (unbalanced.checks[0].most, unbalanced.checks[0].least) = (150.0, 150.0);
    bench.write("profile.json", json(&unbalanced));
    let ended = aligned(&["--drive", "nvme0n1", "--force"]).expect(4);
    let errors = ended.errors().join("\n");
    assert!(
        errors.contains("does not balance") && errors.contains("iostat is of another hour"),
        "{errors}"
    );
    let ended = aligned(&["--drive", "nvme0n1", "--force", "--accept-unbalanced"]).expect(0);
    assert!(
        ended
            .warnings()
            .iter()
            .any(|line| line.contains("iostat is of another hour")),
        "{}",
        ended.stderr
    );
    let mut negative = profile();
    negative.drives[0].iostat = Some(DriveIo {
        writes_per_sec: -1.0,
        ..DriveIo::default()
    });
    bench.write("profile.json", json(&negative));
    aligned(&["--force"]).expect_error(2, &["drive nvme0n1 of node BB9 has a number below 0"]);
    bench.write("profile.json", "{\"format\": 2}");
    aligned(&["--force"]).expect_error(2, &["its format is 2, but this flashproof reads up to 1"]);
    let no_iostat = "it has no table of iostat -x";
    for (text, why) in [
        ("{}", "it is not a profile"),
        ("{\"format\": \"x\"}", "it is not a profile"),
        ("", no_iostat),
        ("[1]", no_iostat),
        ("\0\u{1b}[2J", no_iostat),
    ] {
        bench.write("profile.json", text);
        aligned(&["--force"]).expect_error(2, &[why]);
    }
}

#[test]
fn iostats_output_is_accepted_as_a_target_and_flushes_are_subtracted_from_its_writes() {
    let bench = Bench::new();
    let report = |r: f64, w: f64| {
        format!(
            "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await \
             wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n\
             nvme0n1      {r:.2} 340545.00     0.00   0.00    0.00     0.00 {w:.2} 198144.00     0.00   0.00    0.00     \
             0.00    0.00      0.00     0.00   0.00    0.00     0.00  {w:.2}    0.00    0.00   0.00\n\
             nvme1n1         0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     \
             0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.00   0.00\n\n"
        )
    };
    let head = "Linux 6.1.0 (db1)  11/20/26  _x86_64_  (8 CPU)\n\n";
    bench.write(
        "iostat.txt",
        format!(
            "{head}{}{}",
            report(11_700.0, 3090.0),
            report(11_877.0, 3102.0)
        ),
    );
    let ended = align(&bench, &example(&[]), "iostat.txt", &[]).expect(0);
    ended.shows(&["drive nvme0n1 in 2 reports of iostat.txt"]);
    assert_eq!(
        (row(&ended, "r/s")[0], row(&ended, "w/s")[0]),
        (11_789.0, 1548.0),
        "{}",
        ended.stdout
    );
    for (more, why) in [
        (["--drive", "nvme1n1"], "these devices: nvme0n1, nvme1n1"),
        (
            ["--node", "A"],
            "cannot use --node - it selects from a profile",
        ),
    ] {
        align(
            &bench,
            &example(&[]),
            "iostat.txt",
            &[&more[..], &["--force"]].concat(),
        )
        .expect_error(2, &[why]);
    }
    bench.write("iostat.txt", format!("{head}{}", report(11_700.0, 3090.0)));
    align(&bench, &example(&[]), "iostat.txt", &["--force"]).expect_error(
        2,
        &[
            "a single report may cover the time since boot",
            "iostat -xty 10",
        ],
    );
}

#[test]
fn invalid_targets_are_refused_before_anything_runs() {
    let bench = Bench::new();
    let plain = "device-names: sim:\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n";
    align(&bench, plain, CLUSTER, &[]).expect_error(2, &["it has no histograms"]);
    align(
        &bench,
        &format!("{}arrival: closed\n", example(&[])),
        CLUSTER,
        &[],
    )
    .expect_error(2, &["arrival: closed"]);
    align(
        &bench,
        &format!("{}tomb-raider: yes\n", example(&[])),
        CLUSTER,
        &[],
    )
    .expect_error(2, &["tomb-raider"]);
    align(&bench, &example(&[]), CLUSTER, &["--device", "sim:"])
        .expect_error(2, &["--device names 2 - name 1 device with --device"]);
    align(&bench, &example(&[]), CLUSTER, &["--node", "BB9"])
        .expect_error(2, &["cannot use --node - it selects from a profile"]);
    align(&bench, &example(&[]), "r/s=1", &[]).expect_error(2, &["w/s is missing"]);
    align(&bench, &example(&[]), "none.json", &[])
        .expect_error(2, &["cannot read the profile none.json"]);
    align(&bench, &example(&[]), "/dev/zero", &[]).expect_error(2, &["it is a character device"]);
    bench.write("out.conf", "precious");
    align(&bench, &example(&[]), CLUSTER, &[]).expect_error(2, &["it is there already"]);
    assert_eq!(bench.text("out.conf"), "precious");
    assert!(!bench.exists("bursts"));
}

/// A small load with one size of reads, so that few seconds are enough.
fn small(device: &str) -> String {
    let over = |power: usize| vec!["100"; power].join(",");
    format!(
        "device-names: {device}\ntest-duration-sec: 60\nread-reqs-per-sec: 400\nwrite-reqs-per-sec: 800\n\
         storage-read-histogram: {},0\nstorage-write-histogram: {},0\nengine: threads\n",
        over(13),
        over(14)
    )
}

#[test]
fn align_on_a_loop_device_does_not_count_flushes_and_reports_split_blocks() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
        return;
    };
    bench.write("in.conf", small(&device.name));
    // Per second: 400 reads of 4 KiB, 100 large-block reads, 100 large-block writes. The target has fewer large blocks.
    let align = |target: &str, more: &[&str]| {
        let fixed =
            format!("size align in.conf --target {target} --within 10 --burst 3 --out out.conf");
        // Only an eighth of the read bytes are record reads, so one request more or less changes their mean size much.
        let short = [
            "--because",
            "a short burst",
            "--out-dir",
            "bursts",
            "--force",
        ];
        bench.flashproof(&[&words(&fixed), &short[..], more].concat())
    };
    let target = "r/s=485,w/s=85,rkB/s=12480,wkB/s=10880";
    let ended = align(target, &[]).expect(0);
    let [_, before, after] = row(&ended, "w/s");
    assert!(
        (95.0..105.0).contains(&before) && (80.0..90.0).contains(&after),
        "{}",
        ended.stdout
    );
    let [.., written] = row(&ended, "wkB/s");
    assert!(
        (written / 128.0 - after).abs() < 2.0,
        "flushes are no writes: {}",
        ended.stdout
    );
    assert!(
        bench.exists("bursts/burst-1/verdict.json") && bench.exists("bursts/burst-2/verdict.json")
    );
    let [_, writes, _, unchanged] = offsets(&bench.text("out.conf"));
    assert!(
        (81..=89).contains(&writes) && unchanged == 100,
        "{}",
        bench.text("out.conf")
    );
    // From here on, the kernel splits each large block into two requests.
    let _restored = device.set_queue("max_sectors_kb", "64");
    fs::remove_dir_all(bench.path("bursts")).unwrap();
    let errors = align(target, &[]).expect(4).errors().join("\n");
    // The kernel may count the sectors of a request during the burst and its completion later: the mean size shifts.
    let reached = errors
        .split_once("reach this device in writes of ")
        .and_then(|it| it.1.split_once(" KiB"));
    let kib: Option<f64> = reached.and_then(|it| it.0.parse().ok());
    assert!(
        kib.is_some_and(|kib| (56.0..72.0).contains(&kib))
            && errors.contains("max_sectors_kb is 64"),
        "{errors}"
    );
    // If the cluster's requests were split, too, the split causes only a warning.
    fs::remove_dir_all(bench.path("bursts")).unwrap();
    align("r/s=600,w/s=200,rkB/s=14400,wkB/s=12800", &[])
        .expect(0)
        .says(&["the kernel splits requests"]);
}

#[test]
fn io_of_another_program_fails_an_alignment() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
        return;
    };
    bench.write("in.conf", small(&device.name));
    let target = "r/s=500,w/s=100,rkB/s=14400,wkB/s=12800";
    let arguments = [
        "size", "align", "in.conf", "--target", target, "--within", "20", "--burst", "4",
    ];
    let mut running = Running::start(bench.prepare(&arguments));
    running.wait_to_hear("burst 1");
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut command = Command::new("dd");
            command.args([
                "of=/dev/null",
                "bs=64k",
                "iflag=direct",
                &format!("if={}", device.name),
            ]);
            while !over.load(Ordering::Relaxed) {
                let _ = command.output();
            }
        });
        let ended = running.end();
        over.store(true, Ordering::Relaxed);
        ended
    });
    let errors = ended.expect(4).errors().join("\n");
    assert!(
        errors.contains("rkB/s: ") && errors.contains("another program uses the device"),
        "{errors}"
    );
}

#[test]
fn a_signal_ends_align_without_writing_a_configuration() {
    let bench = Bench::new();
    bench.write(
        "in.conf",
        format!("{}file-size-mbytes: 64\n", small("file")),
    );
    let target = "r/s=500,w/s=100,rkB/s=14400,wkB/s=12800";
    let line =
        format!("size align in.conf --target {target} --burst 60 --out out.conf --out-dir bursts");
    let mut running = Running::start(bench.prepare(&words(&line)));
    running.wait_until("it runs", || bench.exists("bursts/burst-1/intervals.csv"));
    let ended = running.end_by("INT").expect(4);
    assert!(
        ended
            .errors()
            .join("\n")
            .contains("ended by SIGINT - no configuration was written"),
        "{}",
        ended.stderr
    );
    let left: Vec<_> = fs::read_dir(bench.path("."))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name == "out.conf" || name.to_string_lossy().ends_with(".tmp")),
        "{left:?}"
    );
}
