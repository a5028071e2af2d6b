//! Profiles of logs that the captured servers did not write: other storage engines, versions, prefixes. Each log is made
//! from a captured log by the changes in which the server's source differs.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

use jiff::tz::Offset;
use load::factor::Factor;
use results::{assert_any_contains, assert_contains};
use sizing::configuration::{TestConfiguration, TestOptions, configurations};
use sizing::iostat;
use sizing::profile::Profile;
use sizing::profile::derive::{id, profile};
use sizing::profile::sources::{ProfileOptions, ProfileSources};
use sizing::server_log;
use sizing::source::InputFile;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{Cursor, Read};

/// Formats a log line, given its number and text, with a prefix.
type Format<'a> = &'a dyn Fn(usize, &str) -> String;

fn captured() -> String {
    let path = format!(
        "{}/tests/data/ce-8.0.0.15/aerospike.log.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    results::act_log::Input::new(file)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// `text` without the dumps of histograms whose names `drops` accepts, with their buckets.
fn without_dumps(text: &str, drops: impl Fn(&str) -> bool) -> String {
    let mut is_dropped = false;
    text.lines()
        .filter(|line: &&str| {
            if let Some((_, name)) = line.split_once("histogram dump: ") {
                is_dropped = drops(name.split(" (").next().unwrap());
            } else if !line.contains("(hist.c:") {
                is_dropped = false;
            }
            !is_dropped
        })
        .fold(String::new(), |text, line| text + line + "\n")
}

fn sources(logs: &[(&str, String)]) -> Result<ProfileSources, String> {
    let logs = server_log::read(
        logs.iter()
            .map(|(name, text): &(&str, String)| {
                InputFile::new(name, Box::new(Cursor::new(text.clone())), "a test").unwrap()
            })
            .collect(),
    )
    .map_err(|error| error.to_string())?;
    Ok(ProfileSources {
        logs,
        ..ProfileSources::default()
    })
}

fn options() -> ProfileOptions {
    ProfileOptions {
        namespaces: Vec::new(),
        from: None,
        to: None,
        at_least_sec: 180,
        drives: BTreeMap::new(),
        iostat_zone: Offset::UTC,
    }
}

fn try_profile(sources: &ProfileSources) -> Result<Profile, String> {
    profile(sources, &options()).map_err(|error| error.to_string())
}

fn profile_of(text: String) -> Profile {
    try_profile(&sources(&[("a.log", text)]).unwrap()).unwrap()
}

fn configured(profile: &Profile) -> Vec<TestConfiguration> {
    let test = TestOptions {
        device: None,
        duration_sec: 60,
        factor: Factor::ONE,
    };
    configurations(profile, &profile.nodes[0].id, &test).unwrap()
}

/// The log of storage-engine memory with a device: the server reads nothing from the device.
fn in_memory() -> String {
    let text = without_dumps(&captured(), |name| {
        name.ends_with("-/dev/loop2-read") || name.ends_with("-large-block-read")
    });
    let text = text
        .replace("(drv_ssd): (drv_ssd.c", "(drv-mem): (drv_mem.c")
        .replace(" write-q 0", "");
    text.replace("{test} /dev/loop2: ", "{test} stripe-0: ")
        .replace("storage-engine device {", "storage-engine memory {")
}

#[test]
fn a_storage_engine_in_memory_only_writes_to_its_backing_device() {
    let silent = without_dumps(&in_memory(), |name| name.ends_with("-device-read-size"));
    let without_start = |text: &str| {
        let is_start = |line: &&str| !line.contains("(config)") && !line.contains("<><>");
        text.lines()
            .filter(is_start)
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let logs = [
        in_memory(),
        in_memory().replace("(drv-mem)", "(drv_mem)"),
        silent.clone(),
        without_start(&silent),
    ];
    for text in logs {
        let profile = profile_of(text);
        let load = &profile.loads[0];
        assert_eq!(&*load.device, "/dev/loop2");
        assert!(load.is_memory);
        assert!(!load.is_records_unknown);
        assert_eq!(load.reads_per_sec, 0.0);
        assert_eq!(load.large_block_reads_per_sec, 0.0);
        assert!(load.direct_frees_per_sec.is_some());
        assert!(
            (load.large_block_writes_per_sec - 192.1).abs() < 1.0,
            "{load:?}"
        );
        let io = profile.drives[0].predicted.numbers();
        assert_eq!(
            (io[0], io[1].round(), io[2], (io[3] / 1000.0).round()),
            (0.0, 192.0, 0.0, 25.0)
        );
        // Of the four numbers, only the writes have a second source.
        let unconfirmed: Vec<&str> = profile
            .unconfirmed
            .iter()
            .map(|it| it.what.as_str())
            .collect();
        assert_eq!(unconfirmed, ["r/s", "rkB/s", "wkB/s"]);
        let conf = &configured(&profile)[0].text;
        for line in [
            "\nread-reqs-per-sec: 0\n",
            "\nno-defrag-reads: yes\n",
            "\nlarge-block-op-kbytes: 128\n",
        ] {
            assert!(conf.contains(line), "{line} {conf}");
        }
    }
    let brief = in_memory().replace(" defrag-io-skips ", " ");
    assert_any_contains!(profile_of(brief).remarks, "param drv-mem to detail");
    let nameless = without_dumps(&without_start(&silent), |name| name.contains("/dev/"));
    let backed = profile_of(nameless.clone());
    assert_eq!(backed.loads[0].device, "stripe-0");
    assert_any_contains!(backed.remarks, "no source says on which");
    let partial = nameless
        .split(" partial-writes ")
        .map(|part| part.split_once('\n').map_or(part, |(_, rest)| rest));
    let unbacked = partial.collect::<Vec<_>>().join("\n");
    let error = try_profile(&sources(&[("a.log", unbacked)]).unwrap()).unwrap_err();
    assert_contains!(error, "without a device there is no I/O");
}

#[test]
fn a_changing_load_of_records_only_in_memory_does_not_affect_the_window() {
    let mut text = String::new();
    for (n, line) in captured().lines().enumerate() {
        text += line;
        text.push('\n');
        if line.contains(": used-bytes ") {
            let in_memory = line
                .replace("(drv_ssd)", "(drv-mem)")
                .replace("{test} /dev/loop2", "{cache} stripe-0")
                .replace(" write-q 0", "")
                .replace(" write (", &format!(" write ({n}"));
            text += &in_memory;
            text.push('\n');
        }
    }
    let profile = profile_of(text);
    assert_any_contains!(profile.remarks, "without a device there is no I/O");
    let expected = profile_of(captured());
    assert_eq!(profile.nodes, expected.nodes);
    assert_eq!(profile.loads, expected.loads);
}

#[test]
fn reads_of_the_tomb_raider_are_part_of_the_load_and_of_the_configuration() {
    let mut reads = 0;
    let mut text = String::new();
    for line in captured().lines() {
        text += line;
        if line.contains(" write-q ") {
            reads += 598 * 20;
            // The counter of the tomb raider starts again from 0 with each round.
            reads %= 598 * 20 * 9;
            let _ = write!(text, " shadow-write-q 0 tomb-raider-read ({reads},598.0)");
        }
        text.push('\n');
    }
    let mut sources = sources(&[("a.log", text)]).unwrap();
    let profile = try_profile(&sources).unwrap();
    let load = &profile.loads[0];
    assert!(
        (load.tomb_raider_reads_per_sec / 598.0 - 1.0).abs() < 0.01,
        "{load:?}"
    );
    let raider = load.tomb_raider_io().numbers();
    let plain = profile_of(captured()).drives[0].predicted.numbers();
    let io = profile.drives[0].predicted.numbers();
    assert!(
        (io[0] - plain[0] - raider[0]).abs() < 1e-6 && (io[2] - plain[2] - raider[2]).abs() < 1e-6,
        "{io:?}"
    );
    let conf = &configured(&profile)[0];
    assert!(
        (conf.requested_io.reads_per_sec / io[0] - 1.0).abs() < 0.01,
        "{:?}",
        conf.requested_io
    );
    let sleep = (1e6 / load.tomb_raider_reads_per_sec) as u32;
    assert!(conf.text.contains("\ntomb-raider: yes\n"), "{}", conf.text);
    let most = format!("at most {:.1} blocks/s", load.tomb_raider_reads_per_sec);
    assert!(
        conf.remarks.iter().any(|remark| remark.contains(&most)),
        "{:?}",
        conf.remarks
    );
    assert_contains!(conf.text, &format!("\ntomb-raider-sleep-usec: {sleep}\n"));
    // This iostat output was recorded without a tomb raider, so the check of the reads fails.
    let path = format!(
        "{}/tests/data/ce-8.0.0.15/iostat-x.txt.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let iostat = iostat::read(InputFile::open(path.as_ref(), "a test").unwrap(), None).unwrap();
    sources.iostats.insert(id(&sources.logs[0]), iostat);
    let doubts = try_profile(&sources).unwrap().doubts();
    assert!(
        doubts
            .iter()
            .any(|doubt| doubt.contains("iostat's r/s") && doubt.contains("tomb raider")),
        "{doubts:?}"
    );
    // A counter that is 0 or the largest number.
    let mut counter = 0_u64;
    let extreme = captured().lines().fold(String::new(), |text, line| {
        let is_drive = line.contains(" write-q ");
        counter = if is_drive { !counter } else { counter };
        let raider = if is_drive {
            format!(" tomb-raider-read ({counter},1.0)")
        } else {
            String::new()
        };
        text + line + &raider + "\n"
    });
    let reads_per_sec = profile_of(extreme).loads[0].tomb_raider_reads_per_sec;
    assert!(
        (reads_per_sec / (u64::MAX as f64 / 20.0) - 1.0).abs() < 0.01,
        "{reads_per_sec}"
    );
}

/// The captured log with `message` as an additional line of the ticker, each 10 s.
fn with_ticker(message: &str) -> String {
    captured().lines().fold(String::new(), |text, line| {
        match line.split_once("(ticker.c:162) NODE-ID") {
            Some((stamp, _)) => text + line + "\n" + stamp + "(ticker.c:497) " + message + "\n",
            None => text + line + "\n",
        }
    })
}

#[test]
fn an_index_on_flash_gets_a_separate_test() {
    for message in [
        "{test} index-flash-usage: used-bytes 5502926848 used-pct 1",
        "{test} index-usage: used-bytes 1 used-pct 1 alloc-bytes 4096 alloc-pct 1",
    ] {
        let profile = profile_of(with_ticker(message));
        let [index] = &profile.indexes[..] else {
            panic!("{message} {:?}", profile.indexes)
        };
        assert!(!index.is_secondary && index.mounts.is_empty());
        let told = |remark: &String| remark.contains("the index device needs an index test");
        assert!(profile.remarks.iter().any(told), "{:?}", profile.remarks);
        let all = configured(&profile);
        let conf = all
            .iter()
            .find(|conf| conf.namespace == "test-index")
            .unwrap();
        let reads = profile.loads[0].client_reads_per_sec.unwrap().round();
        let writes = profile.loads[0].writes_per_sec.round();
        for line in [
            format!("\nread-reqs-per-sec: {reads}\n"),
            format!("\nwrite-reqs-per-sec: {writes}\n"),
        ] {
            assert!(conf.text.contains(&line), "{line} {}", conf.text);
        }
        assert_eq!(all.len(), 2);
    }
    for message in [
        "{test} sindex-flash-usage: used-bytes 1 used-pct 1",
        "{test} sindex-usage: used-bytes 1 used-pct 1",
    ] {
        let secondary = profile_of(with_ticker(message));
        assert!(
            secondary.indexes[0].is_secondary && configured(&secondary).len() == 1,
            "{message}"
        );
    }
    for message in [
        "{test} index-usage: used-bytes 1 used-pct 1",
        "{test} sindex-usage: used-bytes 1",
    ] {
        assert_eq!(profile_of(with_ticker(message)).indexes, [], "{message}");
    }
    let in_file = captured().replace(
        "namespace test {\n",
        "namespace test {\nNov 20 2026 23:00:45.406 GMT: INFO (config): (cfg.c:1) index-type flash {\n\
         Nov 20 2026 23:00:45.406 GMT: INFO (config): (cfg.c:1) mount /mnt/a\n\
         Nov 20 2026 23:00:45.406 GMT: INFO (config): (cfg.c:1) mount /mnt/b\n\
         Nov 20 2026 23:00:45.406 GMT: INFO (config): (cfg.c:1) }\n",
    );
    let profile = profile_of(in_file);
    assert_eq!(profile.indexes[0].mounts, ["/mnt/a", "/mnt/b"]);
    let half = (profile.loads[0].client_reads_per_sec.unwrap() / 2.0).round();
    let conf = configured(&profile).remove(1);
    assert!(
        conf.drives == 2
            && conf
                .text
                .contains(&format!("\nread-reqs-per-sec: {half}\n")),
        "{}",
        conf.text
    );
}

#[test]
fn migrations_cold_starts_and_unknown_events_are_reported_with_their_times() {
    let profile = profile_of(with_ticker(
        "{test} migrations: remaining (10,20,30) active (1,1,0) complete-pct 1.00",
    ));
    let told = |profile: &Profile, words: [&str; 2]| {
        let is_told = profile
            .remarks
            .iter()
            .any(|remark| words.iter().all(|word| remark.contains(word)));
        assert!(is_told, "{words:?} {:?}", profile.remarks);
    };
    told(
        &profile,
        [
            "{test}: partitions were migrated",
            "partly within the window",
        ],
    );
    let cold = captured().replace(
        "{test} loading free & defrag queues",
        "/dev/loop2: read complete: UNIQUE 7 (REPLACED 0)",
    );
    told(
        &profile_of(cold),
        [
            "a cold start reads the devices from end to end",
            "outside the window",
        ],
    );
    let later = profile_of(with_ticker("{test} a line of a later version"));
    told(
        &later,
        [
            "of a kind that this version of flashproof does not know",
            "a line of a later version",
        ],
    );
    let deep = profile_of(with_ticker("{test} x").replace(
        "(info): (ticker.c:497) {test} x",
        "(drv_ssd): (drv_ssd.c:9) (repeated:7) {test} write fail: queue too deep: exceeds max 64",
    ));
    told(
        &deep,
        ["{test}: the server refused writes", "within the window"],
    );
}

#[test]
fn drive_lines_of_old_servers_give_large_block_rates_without_a_namespace() {
    let lines = (0..41_u64).fold(String::new(), |text, n| {
        let minute = n * 20 / 60;
        let second = n * 20 % 60;
        text + &format!(
            "Jun 16 2016 13:{minute:02}:{second:02} GMT: INFO (drv_ssd): (drv_ssd.c::2088) device /dev/sdc: used {}, \
             contig-free 110637M (885103 wblocks), swb-free 16, w-q 0 w-tot {} (43.3/s), defrag-q 0 defrag-tot {} \
             (39.1/s) defrag-w-tot {} (10.2/s)\n",
            296_160_983_424 + n,
            12_659_541 + n * 866,
            11_936_852 + n * 782,
            3_586_533 + n * 204
        )
    });
    let mut options = options();
    options.namespaces = vec!["test".to_owned()];
    let error = profile(&sources(&[("a.log", lines.clone())]).unwrap(), &options)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "there is no namespace test - found: (not logged)");
    options.namespaces = vec!["(not logged)".to_owned()];
    let selected = profile(&sources(&[("a.log", lines.clone())]).unwrap(), &options).unwrap();
    let profile = profile_of(lines);
    assert_eq!(selected.loads, profile.loads);
    let load = &profile.loads[0];
    assert_eq!(&*load.namespace, "(not logged)");
    assert_eq!(&*load.device, "/dev/sdc");
    assert!(load.is_records_unknown);
    assert_eq!(load.large_block_writes_per_sec, 43.3);
    assert_eq!(load.large_block_reads_per_sec, 39.1);
    assert_eq!(load.large_block_bytes, 128 << 10);
    assert_eq!(&*load.origin.large_block, "contig-free of the drive line");
    let doubts = profile.doubts();
    assert!(
        doubts.len() == 1 && doubts[0].contains("name no namespace"),
        "{doubts:?}"
    );
    assert_any_contains!(profile.remarks, "name no namespace");
}

/// A field of RFC 4180 with as few quotes as possible.
fn csv(field: &str) -> String {
    let quote = if field.contains(',') { "\"" } else { "" };
    format!("{quote}{field}{quote}")
}

#[test]
fn prefixes_do_not_change_the_profile_and_distinguish_nodes() {
    let whole = captured();
    let expected = profile_of(whole.clone());
    let prefixed = |prefix: &dyn Fn(usize, &str) -> String| {
        whole
            .lines()
            .enumerate()
            .fold(String::new(), |text, (n, line)| {
                text + &prefix(n, line) + "\n"
            })
    };
    let stamp = |n: usize| {
        format!(
            "2026-11-20T23:{:02}:{:02}.{n:09}Z",
            n / 600 % 60,
            n / 10 % 60
        )
    };
    let compose = |n: usize, line: &str| format!("aerospike-1  | {} {line}", stamp(n));
    let json = |n: usize, line: &str| {
        serde_json::json!({"log": format!("{line}\n"), "time": stamp(n)}).to_string()
    };
    let formats: [Format<'_>; 20] = [
        &|n, line| format!("{},{},db1", stamp(n), csv(line)),
        &|n, line| format!("{},{}", csv(line), stamp(n)),
        &|n, line| format!("{};{line};\"db;1\"", stamp(n)),
        &|n, line| format!("{}\tdb1\t{line}\tINFO\t", stamp(n)),
        &|n, line| format!("\"q{n}z\",\"{line}\",{n}"),
        &|n, line| format!("q{n}z,{},{}", csv(line), stamp(n)),
        &|n, line| format!("{} {n}q {line}", stamp(n)),
        &|_, line| line.replace(' ', "\u{a0}"),
        &|_, line| line.replace("drv_ssd", "\x1b[01;31m\x1b[Kdrv_ssd\x1b[m\x1b[K"),
        &|_, line| format!("\x1b[36maerospike-1  | \x1b[0m{line}"),
        &|_, line| format!("aerospike-1  | {line}"),
        &|n, line| format!("{} stdout F {line}", stamp(n)),
        &|_, line| format!("[pod/aerospike-0/aerospike-server] {line}"),
        &|n, line| {
            format!(
                "Nov 20 23:04:{:02} host asd[{}]: {line}",
                n % 60,
                4242 + n / 3000
            )
        },
        &|n, line| format!("<30>1 {} host asd 4242 - - {line}", stamp(n)),
        &json,
        &|n, line| json(n, &format!("{} stdout F {line}", stamp(n))),
        &|n, line| {
            json(
                n,
                &format!("Nov 20 23:04:{:02} host asd[42]: {line}", n % 60),
            )
        },
        &|n, line| format!("{n}:{line}"),
        &|n, line| format!("compose.log:{n}:{}", compose(n, line)),
    ];
    for format in formats {
        let profile = profile_of(prefixed(format));
        assert_eq!(
            (&profile.loads, &profile.nodes),
            (&expected.loads, &expected.nodes),
            "{}",
            format(7, "LINE")
        );
    }
    // The server's syslog sink: the time is that of syslog.
    let sink = whole
        .replace(" GMT: ", "+00:00 host1 asd: ")
        .replace("Nov 20 2026 ", "2026-11-20T");
    let profile = profile_of(sink);
    assert_eq!(
        (&profile.loads, &profile.nodes),
        (&expected.loads, &expected.nodes)
    );
    // Torn and quoted lines that hold the id of this node or of another one.
    for (before, id) in [
        ("some text ", "32c901000000fc02"),
        ("  peer said: ", "bb9050011ac4202"),
    ] {
        let line = "Nov 20 2026 23:05:00.000 GMT: INFO (info): (ticker.c:162) NODE-ID";
        let text = format!("{whole}{before}{line} {id} CLUSTER-SIZE 1\n");
        let profile = profile_of(text);
        assert_eq!(&profile.loads, &expected.loads, "{before}");
        assert_eq!(&profile.nodes, &expected.nodes, "{before}");
    }
    // Two nodes in one stream, line by line.
    let other = whole
        .replace("32c901000000fc02", "bb9050011ac4202")
        .replace("32C901000000FC02", "BB9050011AC4202");
    let both = |second: &str| {
        let pairs = whole.lines().zip(second.lines());
        pairs.fold(String::new(), |text, (a, b)| {
            text + "node-1  | " + a + "\nnode-2  | " + b + "\n"
        })
    };
    let profile = try_profile(&sources(&[("compose.log", both(&other))]).unwrap()).unwrap();
    let ids = ["32C901000000FC02", "BB9050011AC4202"];
    assert_eq!(
        profile
            .nodes
            .iter()
            .map(|node| &*node.id)
            .collect::<Vec<_>>(),
        ids
    );
    for (load, n) in profile.loads.iter().zip(0..) {
        assert_eq!(
            load.reads_per_sec, expected.loads[0].reads_per_sec,
            "node {n}"
        );
    }
    // Addresses tell nodes apart, also without their ids.
    let nameless = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| !line.contains("NODE-ID") && !line.contains("node-id"));
        lines.fold(String::new(), |text, line| text + line + "\n")
    };
    let addressed = nameless(&both(&other))
        .replace("node-1  |", "10.0.0.1")
        .replace("node-2  |", "10.0.0.2");
    let loads = try_profile(&sources(&[("syslog", addressed)]).unwrap())
        .unwrap()
        .loads;
    assert_eq!(
        loads
            .iter()
            .map(|load| load.reads_per_sec)
            .collect::<Vec<_>>(),
        [expected.loads[0].reads_per_sec; 2]
    );
    // A second file, with later lines of the second node, none of which contains its id.
    let stream = both(&other);
    let (first, later) = stream.split_at(stream[..stream.len() / 2].rfind("node-1  | ").unwrap());
    let later = later.lines().filter(|line| line.starts_with("node-2"));
    let later = nameless(&later.fold(String::new(), |text, line| text + line + "\n"));
    let rotated = sources(&[("g1.log", first.to_owned()), ("g2.log", later)]).unwrap();
    let counted = |log: &server_log::ServerLog| log.drives.values().map(Vec::len).sum::<usize>();
    assert_eq!(
        rotated
            .logs
            .iter()
            .map(|log| log.node_id.as_deref().unwrap())
            .collect::<Vec<_>>(),
        ids
    );
    assert!(
        counted(&rotated.logs[0]) < 20 && counted(&rotated.logs[1]) == 31,
        "{:?}",
        rotated.logs.len()
    );
    let error = sources(&[("compose.log", both(&whole))]).unwrap_err();
    assert_contains!(error, "several prefixes (\"node-1\", \"node-2\")");
    let unmarked = both(&other)
        .replace("node-1  | ", "")
        .replace("node-2  | ", "");
    assert_contains!(
        sources(&[("mixed.log", unmarked)]).unwrap_err(),
        "is of node"
    );
    // Rotated files of two nodes, and lines of a program that is no node.
    let stream = both(&other) + "proxy  | Nov 20 2026 23:30:00 GMT: INFO (x): (x.c:1) hello\n";
    let (first, second) = stream.split_at(stream.len() / 2);
    let second_begin = second.find('\n').unwrap() + 1;
    let first = [first, &second[..second_begin]].concat();
    let second = second[second_begin..].to_owned();
    let rotated = sources(&[("2.log", second), ("1.log", first)]).unwrap();
    assert_eq!(try_profile(&rotated).unwrap().loads, profile.loads);
    assert_any_contains!(rotated.logs[0].remarks, "prefix \"proxy\"");
}

#[test]
fn a_missing_drive_line_is_no_change_of_the_load() {
    // A log of server 3.10 from a forum. The line of xvdc at 22:59:18 and the line of xvdb at 22:59:38 are missing.
    let lines: String = [(58, "c", 34322), (58, "b", 34351), (78, "b", 36027), (98, "c", 37653)]
        .iter()
        .map(|(second, device, writes)| {
            format!(
                "Dec 21 2016 22:{:02}:{:02} GMT: INFO (drv_ssd): (drv_ssd.c:2093) {{Cache}} /dev/xvd{device}: \
                 used-bytes 1633063296 free-wblocks 1237274 write-q 0 write ({writes},84.8) defrag-q 0 \
                 defrag-read ({writes},74.6) defrag-write (17354,59.5)\n",
                58 + second / 60,
                second % 60
            )
        })
        .collect();
    let sources = sources(&[("a.log", lines)]).unwrap();
    let window = ProfileOptions {
        from: "2016-12-21T22:58:58Z".parse().ok(),
        to: "2016-12-21T22:59:38Z".parse().ok(),
        ..options()
    };
    let doubts = profile(&sources, &window).unwrap().doubts().join("\n");
    assert!(!doubts.contains("not steady"), "{doubts}");
    let error = try_profile(&sources).unwrap_err();
    assert_contains!(error, "no steady window of at least 3 min", "a longer log");
    assert!(
        !error.contains("--at-least") && !error.contains("changed from"),
        "{error}"
    );
}

#[test]
fn an_error_names_the_lines_that_were_left_out() {
    let wrapped = captured().lines().fold(String::new(), |mut text, line| {
        let (line, rest) = line.split_at(line.len().min(120));
        let _ = write!(
            text,
            "{line}\n{rest}{}",
            if rest.is_empty() { "" } else { "\n" }
        );
        text
    });
    let error = sources(&[("a.log", wrapped)]).err().unwrap();
    assert_contains!(error, "cut or wrapped at column 120", "give the uncut log");
    for column in [180, 190] {
        let cut = captured()
            .lines()
            .map(|line| line[..line.len().min(column)].to_owned() + "\n")
            .collect();
        let error = sources(&[("a.log", cut)]).err().unwrap();
        assert_contains!(error, &format!("cut or wrapped at column {column}"));
    }
    let start = captured().lines().take(110).collect::<Vec<_>>().join("\n");
    let error = try_profile(&sources(&[("a.log", start + "\n")]).unwrap()).unwrap_err();
    assert_contains!(
        error,
        "the log covers only 1 s",
        "every 20 s",
        "several minutes"
    );
    let unfilled = captured()
        .lines()
        .filter(|line| !line.contains("  ("))
        .fold(String::new(), |text, line| text + line + "\n");
    let error = try_profile(&sources(&[("a.log", unfilled)]).unwrap()).unwrap_err();
    assert_contains!(error, "histograms without all of its buckets, left out");
}

#[test]
fn drive_lines_that_are_missing_for_half_of_the_window_are_a_doubt() {
    let begin = "2026-11-20T23:04:05Z";
    let end = "2026-11-20T23:10:05Z";
    let (head, tail) = captured()
        .split_once("Nov 20 2026 23:06:45")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let tail = tail.lines().filter(|line| !line.contains("(drv_ssd)"));
    let text =
        head + "Nov 20 2026 23:06:45" + &tail.fold(String::new(), |text, line| text + line + "\n");
    let window = ProfileOptions {
        from: begin.parse().ok(),
        to: end.parse().ok(),
        ..options()
    };
    let doubts = profile(&sources(&[("a.log", text)]).unwrap(), &window)
        .unwrap()
        .doubts();
    assert_any_contains!(
        doubts,
        "its lines of drv_ssd cover 140 s of the window's 360 s"
    );
}
