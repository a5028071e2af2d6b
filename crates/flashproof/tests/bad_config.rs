//! Invalid configurations: each mistake is reported in one line, and no file is changed. These runs have consent to
//! erase a file with data, so an overlooked mistake would change the file.

use crate::support;

use std::os::unix::fs::symlink;
use std::process::Command;
use support::{Bench, OUT};

/// Valid lines at the start of every configuration here. Line 6 is the first with an error.
const GOOD: &str = "device-names: victim\nfile-size-mbytes: 2\ntest-duration-sec: 1\nread-reqs-per-sec: 100\nwrite-reqs-per-sec: 100\n";

/// Asserts that `config` is refused with one error line, and its file is unchanged. `error` follows the file's name.
#[track_caller]
fn refused(config: &str, error: &str) {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    bench
        .storage(config, &["--erase", "victim"])
        .expect_errors(2, &[format!("test.conf{error}")]);
    assert!(before == bench.read("victim"), "the file was written to");
    assert!(
        !bench.exists(OUT) && !bench.exists("state"),
        "a file was created"
    );
}

/// Like [`refused`], for `KEY: VALUE` added as line 6 to a valid configuration. `error` follows the name of the key.
#[track_caller]
fn refused_line(key: &str, value: &str, error: &str) {
    refused(
        &format!("{GOOD}{key}: {value}\n"),
        &format!(":6: {key}: {error}"),
    );
}

#[test]
fn the_good_configuration_runs_and_erases() {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    let ended = bench
        .storage(GOOD, &["--erase", "victim", "--sla", "100%>3600s"])
        .expect(0);
    assert!(ended.errors().is_empty());
    assert!(
        before != bench.read("victim") && bench.exists(OUT),
        "otherwise, the tests here would show nothing"
    );
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    for (key, advice) in [
        ("read-req-per-sec", "did you mean read-reqs-per-sec?"),
        (
            "bananas",
            "no known key is similar; docs/options.md lists all keys",
        ),
    ] {
        refused(
            &format!("{GOOD}{key}: 5\n"),
            &format!(":6: unknown key \"{key}\" - {advice}"),
        );
    }
}

#[test]
fn a_missing_key_is_named_with_an_example() {
    for (config, key, example) in [
        (
            "test-duration-sec: 1\nread-reqs-per-sec: 1\n",
            "device-names",
            "/dev/nvme0n1",
        ),
        (
            "device-names: victim\nread-reqs-per-sec: 1\n",
            "test-duration-sec",
            "86400",
        ),
    ] {
        let advice = format!("add a line such as \"{key}: {example}\"");
        refused(
            config,
            &format!(": {key}: missing, and it has no default - {advice}"),
        );
    }
}

#[test]
fn a_key_given_twice_is_named_with_its_first_line() {
    refused_line(
        "read-reqs-per-sec",
        "7",
        "already given in line 4 - keep one of the two",
    );
}

#[test]
fn numbers_are_whole_positive_and_in_range() {
    for (key, value, why, numbers) in [
        (
            "max-lag-sec",
            "-1",
            "\"-1\" is negative",
            "a whole number from 0 to 4294967295 (s)",
        ),
        (
            "record-bytes",
            "1536k",
            "\"1536k\" has \"k\" after the number",
            "a whole number from 0 to 8388608 (bytes)",
        ),
        (
            "report-interval-sec",
            "4294967296",
            "4294967296 is too large",
            "a whole number from 1 to 4294967295 (s)",
        ),
        (
            "seed",
            "99999999999999999999999999",
            "99999999999999999999999999 is too large",
            "a whole number from 0 to 18446744073709551615",
        ),
        (
            "service-threads",
            "many",
            "\"many\" is not a number",
            "0 or a whole number from 1 to 1048576",
        ),
    ] {
        refused_line(key, value, &format!("{why} - give {numbers}"));
    }
}

#[test]
fn percentages_and_yes_or_no_values_are_checked() {
    for (key, max) in [
        ("update-pct", 100),
        ("compress-pct", 100),
        ("defrag-lwm-pct", 99),
    ] {
        let over = (max + 1).to_string();
        refused_line(
            key,
            &over,
            &format!("{over} is too large - give a whole number from 0 to {max} (%)"),
        );
    }
    refused_line(
        "tomb-raider",
        "maybe",
        "\"maybe\" is neither yes nor no - give yes or no",
    );
}

#[test]
fn large_blocks_must_be_powers_of_two_and_fit_a_record() {
    for (value, why) in [("0", "0 is too small"), ("100", "100 is no power of two")] {
        let error = format!("{why} - give a power of two from 1 to 8192 (KiB)");
        refused_line("large-block-op-kbytes", value, &error);
    }
    refused_line(
        "record-bytes",
        "131073",
        "a record of 131073 bytes takes 131088 bytes as stored, but a large block has only 131072 bytes and records do \
         not straddle blocks - make record-bytes at most 131072 or raise large-block-op-kbytes (at most 8192)",
    );
}

#[test]
fn a_load_without_operations_is_refused_and_a_tiny_load_runs() {
    refused(
        "device-names: victim\ntest-duration-sec: 1\n",
        ": read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them",
    );
    let bench = Bench::new();
    // 85 records fill a block, and defragmentation doubles the writes: a block every 42.5 s. ACT rounds this rate to 0.
    bench
        .storage(
            "device-names: sim:\ntest-duration-sec: 850\nwrite-reqs-per-sec: 1\n",
            &[],
        )
        .expect(0);
    assert_eq!(
        support::totals(&bench.run(), "large-block-writes"),
        (20, 0, 0)
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_in_line_order() {
    let bench = Bench::new();
    let ended = bench
        .storage(
            &format!("{GOOD}bananas: 1\nseed: x\nupdate-pct: 101\n"),
            &[],
        )
        .expect(2);
    let places: Vec<_> = ended.errors().iter().map(|error| &error[..12]).collect();
    assert_eq!(places, ["test.conf:6:", "test.conf:7:", "test.conf:8:"]);
    assert!(!bench.exists(OUT));
}

#[test]
fn invalid_simulated_drives_are_refused() {
    for (names, error) in [
        (
            "sim:channels=0",
            "cannot simulate \"sim:channels=0\": channels is \"0\" - give a number from 1 to 4096",
        ),
        (
            "sim: /dev/null",
            "\"sim:\" is simulated on virtual time, but \"/dev/null\" is not, and a test has only one clock - test \
             them one after the other",
        ),
    ] {
        let config = format!("device-names: {names}\ntest-duration-sec: 1\nread-reqs-per-sec: 1\n");
        refused(&config, &format!(":1: device-names: {error}"));
    }
}

#[test]
fn files_that_are_no_configurations_are_refused() {
    let bench = Bench::new();
    let storage = |name: &str| bench.flashproof(&["storage", name, "--out", OUT]);
    let unreadable = |name: &str, why: &str| {
        storage(name).expect_errors(
            2,
            &[format!("cannot read the configuration {name} - {why}")],
        );
    };
    unreadable(
        "missing.conf",
        "No such file or directory (os error 2) - check the path",
    );
    bench.write("huge", vec![b'#'; 2 << 20]);
    // An endless file is not read to its end, and a FIFO is not waited for.
    symlink("/dev/zero", bench.path("endless")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(bench.path("fifo"))
            .status()
            .unwrap()
            .success()
    );
    for (name, why) in [
        (".", "it is a directory, and only regular files are read"),
        ("huge", "it has 2097152 bytes, and at most 1048576 are read"),
        (
            "endless",
            "it is a character device, and only regular files are read",
        ),
        ("fifo", "it is a pipe, and only regular files are read"),
    ] {
        unreadable(
            name,
            &format!("{why} - name the file with the test's configuration"),
        );
    }
    symlink("nowhere", bench.path("dangling")).unwrap();
    let why =
        "No such file or directory (os error 2) - it is a link to a missing file: check its target";
    unreadable("dangling", why);
    bench.write("empty", "");
    let ended = storage("empty").expect(2);
    assert!(
        ended.errors()[0].starts_with("empty: device-names: missing"),
        "{}",
        ended.stderr
    );
    bench.write(
        "binary",
        [0x7f, b'E', b'L', b'F', 0xff, 0xfe, b'\n', 0, 1, 2, b'\n'],
    );
    let ended = storage("binary").expect(2);
    let error = "binary:1: byte 5 of the line is 0xff, which is not UTF-8";
    assert!(ended.errors()[0].starts_with(error), "{}", ended.stderr);
    let mut bytes = ended.stderr.bytes();
    assert!(
        bytes.all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)),
        "no escapes reach a screen"
    );
    // Control characters of a command line are not printed either.
    let ended = bench
        .flashproof(&["storage", "a.conf", "--\u{1b}[2J"])
        .expect(2);
    assert!(
        ended.stderr.contains("\\u001b[2J") && !ended.stderr.contains('\x1b'),
        "{}",
        ended.stderr
    );
    assert!(!bench.exists(OUT));
}
