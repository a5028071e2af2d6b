//! Bad configurations and their error messages: one line for each mistake.

use act::options::Test;
use act::{echo, parse};

/// A file without mistakes, to which each test adds one.
const GOOD: &str = "device-names: /dev/a\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n";

fn errors(file: impl AsRef<[u8]>) -> Vec<String> {
    let errors = parse(Test::Storage, "a.conf", file.as_ref()).expect_err("a mistake");
    errors.to_string().lines().map(str::to_owned).collect()
}

/// The cases of a text file: lines with a mistake, and below them, indented, the expected message.
fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = text
        .trim_end()
        .split("\n\n")
        .filter(|block| !block.starts_with("# "));
    blocks.map(|block| {
        block
            .rsplit_once("\n    ")
            .expect("a case has an expected message")
    })
}

/// Adds `lines` to `file`; with `replaces`, lines with the same keys are removed first. Asserts a single mistake with
/// the message `expected` (only its beginning, if `expected` ends in dots), at the line of its key.
fn assert_mistake(file: &str, replaces: bool, lines: &str, expected: &str) {
    let key = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let is_kept = |line: &&str| !(replaces && lines.lines().any(|new| key(new) == key(line)));
    let kept: Vec<_> = file.lines().filter(is_kept).collect();
    let all: Vec<_> = kept.iter().copied().chain(lines.lines()).collect();
    let has_key = |line: &&str| expected.starts_with(&format!("{}: ", key(line)));
    let place = all[kept.len()..]
        .iter()
        .position(has_key)
        .map(|place| kept.len() + place);
    let place = place
        .or_else(|| all.iter().position(has_key))
        .unwrap_or(kept.len());
    let [error] = &errors(all.join("\n"))[..] else {
        panic!("one mistake in {lines}")
    };
    let said = error
        .strip_prefix(&format!("a.conf:{}: ", place + 1))
        .unwrap_or_else(|| panic!("{lines}: {error}"));
    match expected.strip_suffix("...") {
        Some(beginning) => assert!(said.starts_with(beginning), "{lines}: {said}"),
        None => assert_eq!(said, expected, "{lines}"),
    }
}

fn warnings(file: &str) -> Vec<String> {
    parse(Test::Storage, "a.conf", file.as_bytes())
        .unwrap()
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_valid_file_gets_no_warnings_with_lf_or_crlf_line_ends() {
    assert_eq!(warnings(GOOD), [""; 0]);
    assert_eq!(warnings(&GOOD.replace('\n', "\r\n")), [""; 0]);
}

#[test]
fn each_mistake_is_reported_with_its_line_and_a_remedy() {
    for (lines, expected) in cases(include_str!("data/act/mistakes.txt")) {
        assert_mistake(GOOD, false, lines, expected);
    }
    for (lines, expected) in cases(include_str!("data/act/mistakes_of_histograms.txt")) {
        assert_mistake(HISTOGRAMS, true, lines, expected);
    }
    assert_mistake(
        HISTOGRAMS,
        true,
        "storage-read-histogram:  ",
        "storage-read-histogram: no value - ...",
    );
}

#[test]
fn a_missing_histogram_is_reported_at_the_line_of_its_rate() {
    let without = HISTOGRAMS
        .lines()
        .filter(|line| !line.starts_with("storage-write"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(
        errors(without),
        [
            "a.conf:4: storage-write-histogram: missing, though write-reqs-per-sec is 1000 and the sizes come from \
             histograms - add it, or set write-reqs-per-sec to 0"
        ]
    );
}

#[test]
fn the_largest_values_and_values_without_effect_are_accepted() {
    for line in [
        "large-block-op-kbytes: 8192",
        "lbr-req-offset: 100\ndirect-frees: 0",
    ] {
        assert_eq!(warnings(&format!("{GOOD}{line}\n")), [""; 0]);
    }
    // Records of 1,025 to 2,048 bytes fit a block of 2 KiB. In large-block writes only the mean record size counts.
    for line in [
        "large-block-op-kbytes: 2",
        "large-block-op-kbytes: 2\nwrite-size-offset: 101",
    ] {
        assert_eq!(warnings(&format!("{HISTOGRAMS}{line}\n")), [""; 0]);
    }
}

#[test]
fn every_missing_mandatory_key_is_named() {
    assert_eq!(
        errors("read-reqs-per-sec: 1"),
        [
            "a.conf: device-names: missing, and it has no default - add a line such as \"device-names: /dev/nvme0n1\"",
            "a.conf: test-duration-sec: missing, and it has no default - add a line such as \"test-duration-sec: 86400\"",
        ]
    );
}

/// A histogram load without mistakes; its last line is the tenth.
const HISTOGRAMS: &str = "device-names: /dev/a\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n\
    write-reqs-per-sec: 1000\nstorage-read-histogram: 100,100,100,100,100,100,100,100,100,100,50,0\n\
    storage-write-histogram: 100,100,100,100,100,100,100,100,100,100,50,0\ntotal-lbw-per-sec: 100\n\
    direct-frees: 100\nlbr-req-offset: 090\nlbw-req-offset: 110\n";

#[test]
fn the_valid_histogram_load_gets_no_warnings() {
    assert_eq!(warnings(HISTOGRAMS), [""; 0]);
    for line in [
        "record-bytes: 0",
        "replication-factor: 1",
        "update-pct: 0",
        "defrag-lwm-pct: 50",
        "compress-pct: 50",
    ] {
        let found = warnings(&format!("{HISTOGRAMS}{line}\n"));
        assert_eq!(found, [""; 0], "{line}");
    }
    for line in [
        "commit-to-device: yes",
        "no-defrag-reads: yes",
        "record-bytes-range-max: 0",
        "lbr-req-offset: 1",
    ] {
        let file = HISTOGRAMS.replace("lbr-req-offset: 090\n", "");
        assert_eq!(warnings(&format!("{file}{line}\n")), [""; 0], "{line}");
    }
}

#[test]
fn no_load_at_all_is_refused() {
    assert_eq!(
        errors("device-names: /dev/a\ntest-duration-sec: 60\n"),
        [
            "a.conf: read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them"
        ]
    );
}

#[test]
fn a_mistake_in_a_simulated_drive_has_its_line() {
    let rest = "test-duration-sec: 60\nread-reqs-per-sec: 2000\n";
    let message = |devices: &str| errors(format!("device-names: {devices}\n{rest}"));
    assert_eq!(
        message("sim:channels=0"),
        [
            "a.conf:1: device-names: cannot simulate \"sim:channels=0\": channels is \"0\" - give a number from 1 to 4096"
        ]
    );
    assert_eq!(
        message("/dev/a,sim:"),
        [
            "a.conf:1: device-names: \"sim:\" is simulated on virtual time, but \"/dev/a\" is not, and a test has \
          only one clock - test them one after the other"
        ]
    );
    for quoted in ["\"/dev/b\"", "'/dev/b'", "/dev/a,\"/dev/b\""] {
        let [message] = &message(quoted)[..] else {
            panic!("one message for {quoted}")
        };
        assert!(
            message.contains("/dev/b")
                && message.contains(" is in quotes, but names are written without quotes"),
            "{message}"
        );
    }
    assert!(
        message("sim: sim:")[0].starts_with("a.conf:1: device-names: \"sim:\" is named twice, ")
    );
    assert_eq!(
        errors(format!("file-size-mbytes: 64\ndevice-names: sim:\n{rest}")),
        [
            "a.conf:1: file-size-mbytes: \"sim:\" is a simulated drive, not a file - drop file-size-mbytes and give the \
          drive's size as capacity=64MiB"
        ]
    );
    let drives =
        "device-names: sim:capacity=1GiB+name=a, sim:stall-ms=9+stall-every-s=1 sim:name=b\n";
    assert_eq!(
        parse(Test::Storage, "a", format!("{drives}{rest}").as_bytes())
            .unwrap()
            .config
            .device_names
            .len(),
        3
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_in_the_order_of_its_lines() {
    let file = "device-names: ,\nbananas: 1\nread-reqs-per-sec: 1\nread-reqs-per-sec: 2\n: 5\nupdate-pct: 200\n\
                record-bytes: 999999\nseed: x\n";
    let lines: Vec<_> = errors(file)
        .iter()
        .map(|error| error.split(' ').next().unwrap().to_owned())
        .collect();
    let expected = [
        "a.conf:1:",
        "a.conf:2:",
        "a.conf:4:",
        "a.conf:5:",
        "a.conf:6:",
        "a.conf:7:",
        "a.conf:8:",
        "a.conf:",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn binary_too_large_and_json_files_are_refused() {
    assert_eq!(
        errors([GOOD.as_bytes(), b"seed: \xff1\n"].concat()),
        ["a.conf:4: byte 7 of the line is 0xff, which is not UTF-8 - save the file as UTF-8"]
    );
    assert_eq!(
        errors(vec![b'\n'; (1 << 20) + 1]),
        [
            "a.conf: the file has 1048577 bytes or more, but a configuration has at most 1048576 - name the file with \
          the test's configuration"
        ]
    );
    let utf16: Vec<u8> = "\u{feff}a: 1\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (bytes, why) in [
        (
            &utf16[..],
            "the file is UTF-16, as PowerShell writes it, but a configuration is plain text - convert it: iconv -f UTF-16 \
             -t UTF-8 FILE > NEW",
        ),
        (
            b"\x1f\x8b\x08\0",
            "the file is compressed with gzip, but a configuration is plain text - convert it: zcat FILE > NEW",
        ),
        (
            b"a: 1\n\0",
            "its byte 6 is 0, so it is not text - name the file with the test's configuration",
        ),
    ] {
        let why = format!("a.conf: {why}");
        assert_eq!(errors(bytes), [&*why]);
        let read = act::legacy::read("a.conf", bytes, &Default::default());
        assert_eq!(read.unwrap_err().to_string(), why);
    }
    let json = [
        "a.conf: this is JSON, not a configuration - write one \"name: value\" per line; flashproof size config writes such a \
         file",
    ];
    for text in [" {\"device-names\": \"sim:\"}", "[{\"a\": 1}]"] {
        assert_eq!(errors(text), json);
        let read = act::legacy::read("a.conf", text.as_bytes(), &Default::default());
        assert_eq!(read.unwrap_err().to_string(), json[0]);
    }
}

#[test]
fn keys_of_older_acts_are_translated_with_a_note() {
    let file = format!(
        "{GOOD}num-queues: 8\nthreads-per-queue: 4\nscheduler-mode: noop\ncommit-min-bytes: 4096\ncommit-to-device: yes\n"
    );
    let config = parse(Test::Storage, "a.conf", file.as_bytes())
        .unwrap()
        .config;
    assert_eq!(config.service_threads, Some(32));
    assert_eq!(config.commit_min_bytes, 4096);
    assert_eq!(
        warnings(&file),
        [
            "a.conf:4: num-queues and threads-per-queue are keys of ACT 1.0 to 5.3: 8 x 4 became service-threads: 32",
            "a.conf:6: scheduler-mode is a key of ACT 1.0 to 6.4: it is ignored; flashproof records the device's I/O scheduler \
             and does not change it",
            "a.conf:7: commit-min-bytes is a key of ACT 4.0 to 6.3: commit writes are rounded to 4096 bytes, \
             or to the device's minimum I/O size where that is larger",
        ]
    );
    assert!(
        !echo::to_text(&config).contains("queue"),
        "the written file has today's keys"
    );
    assert!(
        warnings(&format!("{GOOD}num-queues: 8\n"))[0]
            .ends_with("has no meaning without threads-per-queue; give service-threads instead")
    );
    assert!(
        warnings(&format!("{GOOD}commit-min-bytes: 0\n"))[0]
            .ends_with("no effect, because commit-to-device is no")
    );
}

#[test]
fn an_interval_longer_than_the_test_is_worth_a_warning() {
    assert_eq!(
        warnings(&format!("{GOOD}report-interval-sec: 61\n")),
        [
            "a.conf:4: report-interval-sec: 61 s is longer than the test of 60 s, so the only report comes at the end of the test"
        ]
    );
}
