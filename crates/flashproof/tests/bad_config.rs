//! Invalid configurations: each mistake is reported in one line, and no file is changed. These runs have consent to
//! erase a file with data, so an overlooked mistake would change the file.

use crate::support;

use std::os::unix::fs::symlink;
use std::process::Command;
use support::{Bench, OUT};

/// A configuration without mistakes, of five lines.
const GOOD: &str = "device-names: victim\nfile-size-mbytes: 2\ntest-duration-sec: 1\nread-reqs-per-sec: 100\nwrite-reqs-per-sec: 100\n";

#[test]
fn the_valid_configuration_of_these_tests_runs_and_overwrites_the_file() {
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

/// A mistake of each kind; `crates/act/tests/act_bad_input.rs` tests every mistake.
#[test]
fn each_kind_of_mistake_is_reported_before_anything_is_written() {
    let bench = Bench::new();
    bench.write_victim("victim", 2);
    let before = bench.read("victim");
    for (config, errors) in [
        (
            format!("{GOOD}read-req-per-sec: 5\nseed: x\nupdate-pct: 101\n"),
            ":6: unknown key \"read-req-per-sec\" - did you mean read-reqs-per-sec?\n\
             :7: seed: \"x\" is not a number - give a whole number from 0 to 18446744073709551615\n\
             :8: update-pct: 101 is too large - give a whole number from 0 to 100 (%)",
        ),
        (
            format!("{GOOD}read-reqs-per-sec: 7\n"),
            ":6: read-reqs-per-sec: already given in line 4 - keep one of the two",
        ),
        (
            format!("{GOOD}record-bytes: 131073\n"),
            ":6: record-bytes: a record of 131073 bytes takes 131088 bytes as stored, but a large block has only \
             131072 bytes and records do not straddle blocks - make record-bytes at most 131072 or raise \
             large-block-op-kbytes (at most 8192)",
        ),
        (
            "device-names: victim\nread-reqs-per-sec: 1\n".to_owned(),
            ": test-duration-sec: missing, and it has no default - add a line such as \"test-duration-sec: 86400\"",
        ),
        (
            "device-names: victim\ntest-duration-sec: 1\n".to_owned(),
            ": read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them",
        ),
        (
            GOOD.replace("victim", "sim: victim"),
            ":1: device-names: \"sim:\" is simulated on virtual time, but \"victim\" is not, and a test has only one \
             clock - test them one after the other",
        ),
    ] {
        let errors: Vec<_> = errors
            .lines()
            .map(|error| format!("test.conf{error}"))
            .collect();
        bench
            .storage(&config, &["--erase", "victim"])
            .expect_errors(2, &errors);
        assert!(before == bench.read("victim"), "the file was written to");
        assert!(
            !bench.exists(OUT) && !bench.exists("state"),
            "a file was created"
        );
    }
}

#[test]
fn a_load_of_less_than_one_block_write_per_second_runs() {
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
    let error = "binary: its byte 8 is 0, so it is not text";
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
