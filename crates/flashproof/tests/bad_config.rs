//! Invalid configurations: each mistake is reported in one line, and no file is changed.
//!
//! The runs here have consent to erase a file with data. The file would change if a mistake were overlooked.

use crate::support;

use std::os::unix::fs::symlink;
use std::process::Command;
use support::{Bench, CONFIG, OUT};

/// Common, valid lines of every configuration here. Errors begin in line 6.
const GOOD: &str = "device-names: victim\nfile-size-mbytes: 2\ntest-duration-sec: 1\nread-reqs-per-sec: 100\nwrite-reqs-per-sec: 100\n";

/// Asserts that `config` is refused with these error lines, and that its device file is unchanged.
#[track_caller]
fn refused(config: &str, errors: &[&str]) {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    bench.storage(config, &["--erase", "victim"]).expect_errors(2, errors);
    assert!(before == bench.read("victim"), "the file was written to");
    assert!(!bench.exists(OUT) && !bench.exists("state"), "a file was created");
}

/// Like [`refused`], for lines added to a valid configuration.
#[track_caller]
fn refused_line(lines: &str, errors: &[&str]) {
    refused(&format!("{GOOD}{lines}\n"), errors);
}

#[test]
fn the_good_configuration_runs_and_erases() {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    let ended = bench.storage(GOOD, &["--erase", "victim", "--sla", "99%>10s"]).expect(0);
    assert!(ended.errors().is_empty());
    assert!(before != bench.read("victim") && bench.exists(OUT), "otherwise, the tests here would show nothing");
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    refused_line(
        "read-req-per-sec: 5",
        &["test.conf:6: unknown key \"read-req-per-sec\" - did you mean read-reqs-per-sec?"],
    );
    refused_line(
        "bananas: 5",
        &["test.conf:6: unknown key \"bananas\" - no known key is similar; docs/options.md lists all keys"],
    );
}

#[test]
fn a_missing_key_is_named_with_an_example() {
    refused(
        "test-duration-sec: 1\nread-reqs-per-sec: 1\n",
        &[
            "test.conf: device-names: missing, and it has no default - add a line such as \"device-names: /dev/nvme0n1\"",
        ],
    );
    refused(
        "device-names: victim\nread-reqs-per-sec: 1\n",
        &[
            "test.conf: test-duration-sec: missing, and it has no default - add a line such as \"test-duration-sec: 86400\"",
        ],
    );
}

#[test]
fn a_key_given_twice_is_named_with_its_first_line() {
    refused_line(
        "read-reqs-per-sec: 7",
        &["test.conf:6: read-reqs-per-sec: already given in line 4 - keep one of the two"],
    );
}

#[test]
fn numbers_are_whole_positive_and_in_range() {
    refused_line(
        "max-lag-sec: -1",
        &["test.conf:6: max-lag-sec: \"-1\" is negative - give a whole number from 0 to 4294967295 (s)"],
    );
    refused_line(
        "record-bytes: 1536k",
        &[
            "test.conf:6: record-bytes: \"1536k\" has \"k\" after the number - give a whole number from 0 to 8388608 (bytes)",
        ],
    );
    refused_line(
        "report-interval-sec: 4294967296",
        &["test.conf:6: report-interval-sec: 4294967296 is too large - give a whole number from 1 to 4294967295 (s)"],
    );
    refused_line(
        "seed: 99999999999999999999999999",
        &[
            "test.conf:6: seed: 99999999999999999999999999 is too large - give a whole number from 0 to 18446744073709551615",
        ],
    );
    refused_line(
        "service-threads: many",
        &["test.conf:6: service-threads: \"many\" is not a number - give 0 or a whole number from 1 to 1048576"],
    );
}

#[test]
fn percentages_and_answers_are_what_they_say() {
    for (key, max) in [("update-pct", 100), ("compress-pct", 100), ("defrag-lwm-pct", 99)] {
        let over = max + 1;
        refused_line(
            &format!("{key}: {over}"),
            &[&format!("test.conf:6: {key}: {over} is too large - give a whole number from 0 to {max} (%)")],
        );
    }
    refused_line("tomb-raider: maybe", &["test.conf:6: tomb-raider: \"maybe\" is neither yes nor no - give yes or no"]);
}

#[test]
fn large_blocks_are_powers_of_two_that_hold_a_record() {
    let range = "a power of two from 1 to 8192 (KiB)";
    refused_line(
        "large-block-op-kbytes: 0",
        &[&format!("test.conf:6: large-block-op-kbytes: 0 is too small - give {range}")],
    );
    refused_line(
        "large-block-op-kbytes: 100",
        &[&format!("test.conf:6: large-block-op-kbytes: 100 is no power of two - give {range}")],
    );
    refused_line(
        "record-bytes: 131073",
        &[
            "test.conf:6: record-bytes: a record of 131073 bytes takes 131088 bytes as stored, but a large block has only \
           131072 bytes and records do not straddle blocks - make record-bytes at most 131072 or raise \
           large-block-op-kbytes (at most 8192)",
        ],
    );
}

#[test]
fn a_load_of_nothing_is_refused_and_a_small_one_runs() {
    refused(
        "device-names: victim\ntest-duration-sec: 1\n",
        &[
            "test.conf: read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them",
        ],
    );
    let bench = Bench::new();
    // 85 records fill a large block, and defragmentation doubles the writes: one block every 42.5 s. ACT's integer
    // arithmetic rounds this rate to zero.
    bench.storage("device-names: sim:\ntest-duration-sec: 850\nwrite-reqs-per-sec: 1\n", &[]).expect(0);
    assert_eq!(support::totals(&bench.run(), "large-block-writes"), (20, 0, 0));
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once_in_its_order() {
    let bench = Bench::new();
    let ended = bench.storage(&format!("{GOOD}bananas: 1\nseed: x\nupdate-pct: 101\n"), &[]).expect(2);
    let places: Vec<_> = ended.errors().iter().map(|error| &error[..12]).collect();
    assert_eq!(places, ["test.conf:6:", "test.conf:7:", "test.conf:8:"]);
    assert!(!bench.exists(OUT));
}

#[test]
fn a_simulated_drive_that_cannot_be_is_refused() {
    refused(
        "device-names: sim:channels=0\ntest-duration-sec: 1\nread-reqs-per-sec: 1\n",
        &[
            "test.conf:1: device-names: cannot simulate \"sim:channels=0\": channels is \"0\" - give a number from 1 to 4096",
        ],
    );
    refused(
        "device-names: sim: /dev/null\ntest-duration-sec: 1\nread-reqs-per-sec: 1\n",
        &["test.conf:1: device-names: \"sim:\" is simulated on virtual time, but \"/dev/null\" is not, and a \
           test has only one clock - test them one after the other"],
    );
}

#[test]
fn what_is_no_configuration_is_said_to_be_none() {
    let bench = Bench::new();
    let storage = |name: &str| bench.flashproof(&["storage", name, "--out", OUT]);
    storage("missing.conf").expect_errors(
        2,
        &["cannot read the configuration missing.conf - No such file or directory (os error 2) - check the path"],
    );
    bench.write("huge", vec![b'#'; 2 << 20]);
    // An endless file is not read to its end, and a FIFO is not waited for.
    symlink("/dev/zero", bench.path("endless")).unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    for (name, why) in [
        (".", "it is a directory, and only regular files are read"),
        ("huge", "it has 2097152 bytes, and at most 1048576 are read"),
        ("endless", "it is a character device, and only regular files are read"),
        ("fifo", "it is a pipe, and only regular files are read"),
    ] {
        let error =
            format!("cannot read the configuration {name} - {why} - name the file with the test's configuration");
        storage(name).expect_errors(2, &[error]);
    }
    symlink("nowhere", bench.path("dangling")).unwrap();
    storage("dangling").expect_errors(
        2,
        &["cannot read the configuration dangling - No such file or directory (os error 2) - it is a link to a missing file: check its target"],
    );
    bench.write("empty", "");
    let ended = storage("empty").expect(2);
    assert!(ended.errors()[0].starts_with("empty: device-names: missing"), "{}", ended.stderr);
    bench.write("binary", [0x7f, b'E', b'L', b'F', 0xff, 0xfe, b'\n', 0, 1, 2, b'\n']);
    let ended = storage("binary").expect(2);
    assert!(
        ended.errors()[0].starts_with("binary:1: byte 5 of the line is 0xff, which is not UTF-8"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.bytes().all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)),
        "no escapes reach a screen"
    );
    // Control characters of a command line are not printed either.
    let ended = bench.flashproof(&["storage", "a.conf", "--\u{1b}[2J"]).expect(2);
    assert!(ended.stderr.contains("\\u001b[2J") && !ended.stderr.contains('\x1b'), "{}", ended.stderr);
    assert!(!bench.exists(OUT) && !bench.exists(CONFIG));
}
