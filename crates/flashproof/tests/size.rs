//! `flashproof size profile`: its files, and its messages about sources that cannot be used.

use crate::support::words;
use crate::support::{Bench, Ended};
use std::path::{Path, PathBuf};

const LOG: &str = "aerospike.log.zst";
const IOSTAT: &str = "iostat-x.json.zst";

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/cluster")
        .join(name);
    path.display().to_string()
}

fn capture(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sizing/tests/data")
        .join(name);
    path.display().to_string()
}

fn log() -> String {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(example(LOG)).unwrap();
    results::act_log::Input::new(file)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn size(bench: &Bench, args: &[&str]) -> Ended {
    bench.flashproof(&[&["size", "profile"], args].concat())
}

#[test]
fn a_folder_becomes_a_profile_and_a_configuration_that_runs() {
    let bench = Bench::new();
    let options = words("--out out --device sim: --duration 60 --html page.html");
    size(&bench, &[&[example("").as_str()], &options[..]].concat()).expect(0);
    let page = bench.text("page.html");
    let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
    assert!(
        place("-0.83 % of 3.0 %") < place("Reads of test on /dev/loop2")
            && place("1 KiB to 2 KiB") < place("<table")
    );
    assert!(
        place("<table") < place("\nread-reqs-per-sec: 2080\n"),
        "the configuration is in the page"
    );
    let conf = bench.text("out/test.conf");
    assert!(
        conf.contains("\nread-reqs-per-sec: 2080\n")
            && conf.contains("\nlarge-block-op-kbytes: 128\n"),
        "{conf}"
    );
    bench
        .flashproof(&["storage", "out/test.conf", "--out", "run"])
        .expect(0);
    size(&bench, &[&example(""), "--out", "out"])
        .expect_stderr(2, &["out/profile.json - it is there already", "--force"]);
    size(
        &bench,
        &[&example(""), "--out", "out", "--force", "--scale", "2"],
    )
    .expect(0);
    assert!(
        bench
            .text("out/test.conf")
            .contains("\nread-reqs-per-sec: 4160\n")
    );
}

#[test]
fn an_unbalanced_profile_is_marked_and_used_only_on_request() {
    let bench = Bench::new();
    // Another program also writes to this drive.
    let iostat = "Device            r/s     rkB/s     w/s     wkB/s\n\
                  loop2         2267.00  62738.00  292.00  34572.00\n";
    bench.write("iostat.txt", iostat);
    let args = [
        "--log",
        &example(LOG),
        "--iostat",
        "iostat.txt",
        "--out",
        "out",
    ];
    size(&bench, &args).expect_stdout(4, &["DOES NOT BALANCE", "another program used the drive"]);
    assert!(bench.exists("out/profile.json") && !bench.exists("out/test.conf"));
    size(
        &bench,
        &[&args[..], &["--force", "--accept-unbalanced"]].concat(),
    )
    .expect(4);
    assert!(bench.text("out/test.conf").contains("IN DOUBT"));
}

#[test]
fn files_that_are_no_valid_sources_are_named() {
    let bench = Bench::new();
    bench.write("none.log", "");
    std::fs::create_dir(bench.path("empty")).unwrap();
    bench.write("text.log", "a letter\nand another line\n");
    let other_time = capture("ce-4.9.0.37/iostat-x.json.zst");
    bench.write(
        "boot.txt",
        "Linux 6.1 (db1) \t11/20/26 \t_x86_64_\t(2 CPU)\n\nDevice r/s rkB/s w/s wkB/s\nloop2 1.00 2.00 3.00 4.00\n",
    );
    bench.write(
        "sda.txt",
        "Device r/s rkB/s w/s wkB/s\nsda 1.00 2.00 3.00 4.00\n",
    );
    let example_log = example(LOG);
    for (args, told) in [
        (&["--log", "none.log"][..], "found no data"),
        (&["--log", "text.log"], "not a log of the database"),
        (&["--log", "away.log"], "check the path"),
        (
            &["--log", &example_log, "--namespace", "tset"],
            "there is no namespace tset - found: test",
        ),
        (
            &["--log", &example_log, "--iostat", &other_time],
            "give iostat's output of the load's time",
        ),
        (
            &["--log", &example_log, "--iostat", "sda.txt"],
            "iostat shows sda, but not loop2",
        ),
        (
            &["--log", &example_log, "--iostat", "boot.txt"],
            "may cover the time since boot",
        ),
        (
            &["--log", &example_log, "--iostat", "FFFF=sda.txt"],
            "there is no such node",
        ),
        (
            &[
                "--log",
                &example_log,
                "--from",
                "23:04:05",
                "--to",
                "23:04:15",
            ],
            "the window is too short",
        ),
        (
            &["--log", &example_log, "--from", "23:10", "--to", "23:04"],
            "give --to a later time",
        ),
        (
            &["--log", &example_log, "--at-least", "2h"],
            "no steady window of at least 2 h",
        ),
        (
            &["--log", &example_log, "--out", "out", "--node", "B"],
            "the profile has no node B",
        ),
        (
            &["--log", &example_log, "--info", "text.log"],
            "$(asinfo -v namespace/NS)",
        ),
        (
            &["--log", &example_log, "--device", "/dev/a, /dev/b"],
            "the option takes one - give one device",
        ),
        (&["empty"], "holds no server log"),
        (&["away"], "cannot read the folder away"),
        (&[], "no server log is given"),
    ] {
        let ended = size(&bench, args);
        assert_eq!(ended.code, Some(2), "{args:?} {ended:?}");
        assert!(ended.stderr.contains(told), "{args:?} {ended:?}");
        assert!(!bench.exists("out"), "{args:?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[test]
fn a_pasted_reply_belongs_to_the_only_namespace_and_replies_about_others_are_named() {
    let bench = Bench::new();
    let reply = "replication-factor=1;storage-engine=device;storage-engine.flush-size=131072";
    bench.write("raw.txt", reply);
    bench.write("other.info", format!("namespace/Test\t{reply}\n"));
    let log = example(LOG);
    let of = |info: &str| {
        // Ids of nodes are accepted as logs print them.
        let node = ["--node", "32c901000000fc02", "--json"];
        size(
            &bench,
            &[&["--log", &log, "--info", info][..], &node].concat(),
        )
        .expect(0)
    };
    assert!(
        of("raw.txt")
            .stdout
            .contains("flush-size, from the configuration of node raw.txt")
    );
    let ended = of("other.info");
    let warned =
        "the replies in other.info are not used: they are about Test, but the logs have test";
    assert!(ended.stderr.contains(warned), "{}", ended.stderr);
}

fn configuration(namespace: &str) -> String {
    format!(
        "namespace\t{namespace}\t{{\n\tstorage-engine device {{\n\t\tflush-size 256K\n\t}}\n}}\n"
    )
}

#[test]
fn aerospike_conf_gives_the_configuration_that_the_log_lacks() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("in")).unwrap();
    let text = log();
    let lines = text.lines().filter(|line| !line.contains("(config)"));
    bench.write("in/a.log", lines.collect::<Vec<_>>().join("\n"));
    bench.write("other.conf", configuration("other"));
    bench.write("in/aerospike.conf", configuration("test"));
    bench.write("in/test.conf", "device-names: /dev/nvme0n1\n");
    for args in [
        &["in"][..],
        &["--log", "in/a.log", "--info", "in/aerospike.conf"],
    ] {
        let ended = size(&bench, args);
        assert!(
            ended
                .stdout
                .contains("256 KiB: flush-size, from in/aerospike.conf"),
            "{ended:?}"
        );
        assert!(!ended.stderr.contains("test.conf"), "{ended:?}");
    }
    let ended = size(&bench, &["--log", "in/a.log", "--info", "other.conf"]);
    let why = "other.conf is not used: it configures other, but the log has test";
    assert!(ended.stderr.contains(why), "{ended:?}");
}

#[test]
fn a_copy_of_aerospike_conf_is_used_alone_left_out_beside_it_and_refused_if_it_contradicts() {
    let bench = Bench::new();
    let text = log();
    let lines = text.lines().filter(|line| !line.contains("(config)"));
    let lines = lines.collect::<Vec<_>>().join("\n");
    let used = configuration("test");
    let other = used.replace("256K", "128K");
    for (dir, name, says) in [
        ("copy", "aerospike.conf (1)", ""),
        (
            "backup",
            "aerospike.conf.bak",
            "backup/aerospike.conf.bak is left out: the configuration of node 32C901000000FC02 is backup/aerospike.conf -",
        ),
        (
            "two",
            "aerospike-old.conf",
            "cannot use two/aerospike.conf - for namespace test of node 32C901000000FC02, two/aerospike-old.conf has other",
        ),
    ] {
        std::fs::create_dir(bench.path(dir)).unwrap();
        bench.write(&format!("{dir}/a.log"), &lines);
        let is_alone = dir == "copy";
        let contents = if is_alone { &used } else { &other };
        bench.write(&format!("{dir}/{name}"), contents);
        if !is_alone {
            bench.write(&format!("{dir}/aerospike.conf"), &used);
        }
        // A folder of --info has the log as well, but only its configuration is read.
        for args in [&[dir][..], &["--log", "copy/a.log", "--info", dir]] {
            let ended = size(&bench, args);
            assert!(ended.stderr.contains(says), "{args:?}: {ended:?}");
            let is_used = ended.stdout.contains("256 KiB: flush-size, from ");
            assert_eq!(is_used, dir != "two", "{args:?}: {ended:?}");
        }
    }
}

#[test]
fn a_log_without_sizes_gives_unconfirmed_blocks_and_no_configuration() {
    let bench = Bench::new();
    let text = log()
        .lines()
        .filter(|line| !line.contains("device-"))
        .fold(String::new(), |text, line| text + line + "\n");
    bench.write("off.log", text);
    let ended = size(&bench, &["--log", "off.log", "--out", "out"]);
    let ended = ended.expect_stdout(
        4,
        &[
            "storage histograms are off",
            "param enable-benchmarks-storage to",
        ],
    );
    assert!(
        ended.stdout.contains("not confirmed") && !ended.stdout.contains("that reached each drive"),
        "{ended:?}"
    );
    assert!(bench.exists("out/profile.json") && !bench.exists("out/test.conf"));
    let accepted = words("--log off.log --out out --force --accept-unbalanced");
    let ended = size(&bench, &accepted)
        .expect_stderr(4, &["the log has no reads, writes and sizes of records"]);
    assert!(!ended.stderr.contains("--accept-unbalanced"), "{ended:?}");
}

#[test]
fn an_index_device_is_shown_in_a_separate_row() {
    let bench = Bench::new();
    let usage = "{test} index-usage: used-bytes 1 used-pct 1 alloc-bytes 4096 alloc-pct 1";
    let text = log().lines().fold(String::new(), |text, line| {
        match line.split_once("(ticker.c:162) NODE-ID") {
            Some((stamp, _)) => text + line + "\n" + stamp + "(ticker.c:497) " + usage + "\n",
            None => text + line + "\n",
        }
    });
    bench.write("index.log", text);
    size(&bench, &["--log", "index.log"]).expect_stdout(0, &["\nindex device  test-index.conf "]);
}

#[test]
fn a_log_with_a_prefix_on_each_line_is_read_from_standard_input() {
    let bench = Bench::new();
    let text = log().lines().fold(String::new(), |text, line| {
        text + "node-1  | 2026-11-20T23:04:05.1Z " + line + "\n"
    });
    bench.write("compose.log", text);
    let plain = size(&bench, &["--log", &example(LOG)]).expect(0);
    let piped = bench
        .shell("flashproof size profile --log - < compose.log")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&piped.stdout), plain.stdout);
}

#[test]
fn a_time_of_day_after_the_end_of_the_log_belongs_to_its_last_day() {
    let bench = Bench::new();
    let ended = size(
        &bench,
        &[
            "--log",
            &example(LOG),
            "--from",
            "23:06:25",
            "--to",
            "23:59",
        ],
    );
    assert!(
        ended
            .stdout
            .contains("2026-11-20T23:06:25Z to 2026-11-20T23:59:00Z"),
        "{ended:?}"
    );
}

#[test]
fn hostile_lines_in_a_log_are_skipped() {
    let bench = Bench::new();
    let mut text = log().into_bytes();
    let middle = text.len() / 2;
    let long = [b"x".repeat(64 << 20), b"\n".to_vec()].concat();
    text.splice(middle..middle, [&b"\0\0\0\x1b[2J\n"[..], &long].concat());
    bench.write("hostile.log", text);
    let ended = size(&bench, &["--log", "hostile.log"]).expect_stdout(0, &["2,0", "Remarks:"]);
    assert!(!ended.stdout.contains('\x1b'), "{ended:?}");
}

#[test]
fn equal_device_names_of_two_nodes_stay_separate() {
    let bench = Bench::new();
    let log = log();
    bench.write("a.log", &log);
    bench.write("b.log", log.replace("32c901000000fc02", "bb9050011ac4202"));
    size(&bench, &["--log", "a.log", "b.log"])
        .expect_stdout(0, &["loop2 (32C901000000FC02)", "loop2 (BB9050011AC4202)"]);
    size(
        &bench,
        &["--log", "a.log", "b.log", "--iostat", &example(IOSTAT)],
    )
    .expect_stderr(2, &["--iostat NODE="]);
    let of_one = format!("bb9050011ac4202={}", example(IOSTAT));
    size(&bench, &["--log", "a.log", "b.log", "--iostat", &of_one])
        .expect_stdout(0, &["\nI/O of each drive, all namespaces"]);
}
