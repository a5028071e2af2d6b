//! Bad configurations, and what their writer is told: one line for each mistake.

use load::workload::act::options::Test;
use load::workload::act::{echo, parse};

/// A file without mistakes, to which each test adds one.
const GOOD: &str = "device-names: /dev/a\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n";

fn errors(file: impl AsRef<[u8]>) -> Vec<String> {
    let errors = parse(Test::Storage, "a.conf", file.as_ref()).expect_err("a mistake");
    errors.to_string().lines().map(str::to_owned).collect()
}

fn error_of_line_4(line: &str) -> String {
    let errors = errors(format!("{GOOD}{line}\n"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].strip_prefix("a.conf:4: ").unwrap_or_else(|| panic!("not of line 4: {}", errors[0])).to_owned()
}

fn warnings(file: &str) -> Vec<String> {
    parse(Test::Storage, "a.conf", file.as_bytes()).unwrap().warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_good_file_is_good() {
    assert_eq!(warnings(GOOD), [""; 0]);
    assert_eq!(warnings(&GOOD.replace('\n', "\r\n")), [""; 0]);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_one() {
    assert_eq!(error_of_line_4("recod-bytes: 1536"), "unknown key \"recod-bytes\" - did you mean record-bytes?");
    assert_eq!(
        error_of_line_4("queue-depth: 8"),
        "unknown key \"queue-depth\" - no known key is close to it; docs/options.md lists them all"
    );
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

#[test]
fn a_second_value_is_refused_not_preferred() {
    assert_eq!(error_of_line_4("device-names: /dev/b"), "device-names: already given in line 1 - keep one of the two");
}

#[test]
fn numbers_are_whole_and_nothing_follows_them() {
    let allowed = "give a whole number from 0 to 4294967295 (requests/s)";
    for (value, found) in [
        ("-5", "\"-5\" is negative"),
        ("20x", "\"20x\" has \"x\" after the number"),
        ("1.5", "\"1.5\" has \".5\" after the number"),
        ("20 30", "\"20 30\" has \" 30\" after the number"),
        ("many", "\"many\" is not a number"),
        ("", "no value"),
        ("# 20", "no value"),
        ("4294967296", "4294967296 is too large"),
        ("99999999999999999999999", "99999999999999999999999 is too large"),
    ] {
        let message = error_of_line_4(&format!("write-reqs-per-sec: {value}"));
        assert_eq!(message, format!("write-reqs-per-sec: {found} - {allowed}"));
    }
}

#[test]
fn a_flag_is_yes_or_no() {
    assert_eq!(error_of_line_4("tomb-raider: yeah"), "tomb-raider: \"yeah\" is neither yes nor no - give yes or no");
    assert_eq!(error_of_line_4("tomb-raider:"), "tomb-raider: no value - give yes or no");
}

#[test]
fn a_choice_lists_its_words() {
    assert_eq!(
        error_of_line_4("arrival: random"),
        "arrival: \"random\" is none of them - give one of paced, poisson, act, closed"
    );
}

#[test]
fn percentages_stay_within_theirs() {
    assert_eq!(
        error_of_line_4("update-pct: 101"),
        "update-pct: 101 is too large - give a whole number from 0 to 100 (%)"
    );
    assert_eq!(
        error_of_line_4("compress-pct: 101"),
        "compress-pct: 101 is too large - give a whole number from 0 to 100 (%)"
    );
    assert_eq!(
        error_of_line_4("defrag-lwm-pct: 100"),
        "defrag-lwm-pct: 100 is too large - give a whole number from 0 to 99 (%)"
    );
}

#[test]
fn a_large_block_is_a_power_of_two_up_to_8_mib() {
    let allowed = "give a power of two from 1 to 8192 (KiB)";
    for (value, found) in [
        ("0", "0 is too small"),
        ("3", "3 is no power of two"),
        ("16384", "16384 is too large"),
        // 2^22 KiB is 0 bytes in the 32 bits of ACT, which then divides by it.
        ("4194304", "4194304 is too large"),
    ] {
        let message = error_of_line_4(&format!("large-block-op-kbytes: {value}"));
        assert_eq!(message, format!("large-block-op-kbytes: {found} - {allowed}"));
    }
    assert_eq!(warnings(&format!("{GOOD}large-block-op-kbytes: 8192\n")), [""; 0]);
}

#[test]
fn a_record_larger_than_its_large_block_is_refused() {
    assert_eq!(
        error_of_line_4("record-bytes: 131073"),
        "record-bytes: a record of 131073 bytes takes 131088 bytes as stored, but a large block has only 131072 bytes \
         and records do not straddle blocks - make record-bytes at most 131072 or raise large-block-op-kbytes (at most \
         8192)"
    );
    assert!(
        error_of_line_4("record-bytes-range-max: 200000").starts_with("record-bytes-range-max: a record of 200000 ")
    );
    assert_eq!(
        error_of_line_4("record-bytes: 8388609"),
        "record-bytes: 8388609 is too large - give a whole number from 0 to 8388608 (bytes)"
    );
}

#[test]
fn a_range_of_sizes_goes_up() {
    assert_eq!(
        error_of_line_4("record-bytes-range-max: 1536"),
        "record-bytes-range-max: 1536 bytes is not larger than record-bytes, which is 1536 - give more than 1536, or 0 \
         for records of one size"
    );
}

/// A histogram load without mistakes; its last line is the tenth.
const HISTOGRAMS: &str = "device-names: /dev/a\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n\
    write-reqs-per-sec: 1000\nstorage-read-histogram: 100,100,100,100,100,100,100,100,100,100,50,0\n\
    storage-write-histogram: 100,100,100,100,100,100,100,100,100,100,50,0\ntotal-lbw-per-sec: 100\n\
    direct-frees: 100\nlbr-req-offset: 090\nlbw-req-offset: 110\n";

/// The only mistake of the histogram load with this line changed, or added as the eleventh.
fn error_with(line: &str) -> String {
    let (key, _) = line.split_once(':').unwrap();
    let kept = HISTOGRAMS.lines().filter(|kept| !kept.starts_with(&format!("{key}:")));
    let errors = errors(kept.chain([line]).collect::<Vec<_>>().join("\n"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    let message = errors[0].splitn(3, ':').nth(2).unwrap();
    message.trim_start().to_owned()
}

#[test]
fn the_histogram_load_is_good() {
    assert_eq!(warnings(HISTOGRAMS), [""; 0]);
    for line in ["record-bytes: 0", "replication-factor: 1", "update-pct: 0", "defrag-lwm-pct: 50", "compress-pct: 50"]
    {
        assert_eq!(warnings(&format!("{HISTOGRAMS}{line}\n")), [""; 0], "{line}");
    }
    for line in ["commit-to-device: yes", "no-defrag-reads: yes", "record-bytes-range-max: 0", "lbr-req-offset: 1"] {
        let file = HISTOGRAMS.replace("lbr-req-offset: 090\n", "");
        assert_eq!(warnings(&format!("{file}{line}\n")), [""; 0], "{line}");
    }
}

#[test]
fn a_histogram_is_percentages_that_never_rise_and_end_in_0() {
    let allowed = "give 1 to 27 percentages separated by commas, of the sizes over 1, 2, 4, ... bytes, that do not rise \
                   and end in 0";
    let long = "100,".repeat(27) + "0";
    for (value, found) in [
        ("100,50,60,0", "value 3 is \"60\", more than the \"50\" before it"),
        ("100,50", "the last value is \"50\", not 0, so that the largest sizes have no bound"),
        (&long, "28 values are too many"),
        ("", "no value"),
        (" ", "no value"),
        (",", "value 1 is empty"),
        ("100,,0", "value 2 is empty"),
        ("100.01,0", "value 1 is \"100.01\", not within 0 to 100"),
        ("-1,0", "value 1 is \"-1\", not within 0 to 100"),
        ("100,x,0", "value 2 is \"x\", no number"),
        ("100 50 0", "value 1 is \"100 50 0\", no number"),
        ("50.00001,0", "value 1 is \"50.00001\", with more than four decimals"),
    ] {
        for key in ["storage-read-histogram", "storage-write-histogram"] {
            assert_eq!(error_with(&format!("{key}: {value}")), format!("{key}: {found} - {allowed}"));
        }
    }
}

#[test]
fn sizes_come_from_one_source() {
    assert_eq!(
        error_with("record-bytes: 1536"),
        "record-bytes: 1536 contradicts storage-read-histogram, which gives the sizes already - set it to 0, or drop the \
         histogram"
    );
    assert_eq!(
        error_with("record-bytes-range-max: 3000"),
        "record-bytes-range-max: 3000 contradicts storage-read-histogram, which gives the sizes already - drop it, or \
         drop the histogram"
    );
    let without = HISTOGRAMS.lines().filter(|line| !line.starts_with("storage-write")).collect::<Vec<_>>().join("\n");
    assert_eq!(
        errors(without),
        ["a.conf:4: storage-write-histogram: missing, though write-reqs-per-sec is 1000 and the sizes come from \
             histograms - add it, or set write-reqs-per-sec to 0"]
    );
}

#[test]
fn what_is_inside_a_live_databases_counts_is_not_counted_again() {
    for (line, what, default) in [
        ("replication-factor: 2", "the replicas", 1),
        ("update-pct: 10", "the reads of updates", 0),
        ("defrag-lwm-pct: 60", "the writes of defragmentation", 50),
    ] {
        assert_eq!(
            error_with(line),
            format!(
                "{line} would count {what} twice, because the rates and sizes of a live database have them in already - \
                 drop it (the default is {default})"
            )
        );
    }
}

#[test]
fn keys_of_histograms_need_one() {
    let unused = "it only works with storage-read-histogram and storage-write-histogram, and neither is given - drop it, \
                  or add them";
    for line in ["total-lbw-per-sec: 9", "lbr-req-offset: 90", "lbw-req-offset: 90", "read-size-offset: 90"]
        .into_iter()
        .chain(["write-size-offset: 90", "size-within-bucket: upper", "direct-frees: 1"])
    {
        let (key, _) = line.split_once(':').unwrap();
        assert_eq!(error_of_line_4(line), format!("{key}: {unused}"));
    }
    assert_eq!(warnings(&format!("{GOOD}lbr-req-offset: 100\ndirect-frees: 0\n")), [""; 0]);
    let broken = errors(format!("{GOOD}lbr-req-offset: 90\nstorage-read-histogram: 5\n"));
    assert_eq!(broken.len(), 1, "the histogram is there, only wrong: {broken:?}");
}

#[test]
fn offsets_are_at_least_1_percent_and_at_most_what_makes_sense() {
    for (key, most) in
        [("lbr-req-offset", 1000), ("lbw-req-offset", 1000), ("read-size-offset", 200), ("write-size-offset", 200)]
    {
        let allowed = format!("give a whole number from 1 to {most} (%)");
        assert_eq!(error_with(&format!("{key}: 0")), format!("{key}: 0 is too small - {allowed}"));
        assert_eq!(
            error_with(&format!("{key}: {}", most + 1)),
            format!("{key}: {} is too large - {allowed}", most + 1)
        );
        assert_eq!(
            error_with(&format!("{key}: 90.5")),
            format!("{key}: \"90.5\" has \".5\" after the number - {allowed}")
        );
    }
    assert_eq!(
        error_with("size-within-bucket: middle"),
        "size-within-bucket: \"middle\" is none of them - give one of paper, lower, upper, uniform, log-uniform"
    );
}

#[test]
fn direct_frees_are_a_part_of_all_blocks() {
    let wanted = "of which they are a part - take both from the same moment of the database's log";
    assert_eq!(
        error_with("direct-frees: 101"),
        format!("direct-frees: 101 blocks/s are more than total-lbw-per-sec, 100, {wanted}")
    );
    assert_eq!(
        error_with("total-lbw-per-sec: 0"),
        format!("direct-frees: 100 blocks/s are more than total-lbw-per-sec, 0, {wanted}")
    );
}

#[test]
fn records_of_a_histogram_fit_a_large_block() {
    let large = "storage-write-histogram: 100,100,100,100,100,100,100,100,100,100,100,100,100,100,100,100,100,1,0";
    assert_eq!(
        error_with(large),
        "storage-write-histogram: it has sizes over 131072 bytes, but a large block has only 131072 bytes and records do \
         not straddle blocks - raise large-block-op-kbytes to the database's write-block size (at most 8192)"
    );
    assert_eq!(warnings(&format!("{HISTOGRAMS}large-block-op-kbytes: 2\n")), [""; 0], "(1024, 2048] fits 2 KiB");
    let file = format!("{HISTOGRAMS}large-block-op-kbytes: 2\nsize-within-bucket: upper\nread-size-offset: 101\n");
    assert_eq!(
        errors(file),
        ["a.conf:13: read-size-offset: at 101 % the largest records have 2069 bytes, more than a large block of 2048 \
             bytes - lower it, choose another size-within-bucket, or raise large-block-op-kbytes (at most 8192)"]
    );
    // Written in large blocks only their mean counts; committed one by one each has to fit.
    let writes = format!("{HISTOGRAMS}large-block-op-kbytes: 2\nwrite-size-offset: 101\n");
    assert_eq!(warnings(&writes), [""; 0]);
    assert!(
        errors(format!("{writes}commit-to-device: yes\n"))[0].starts_with("a.conf:12: write-size-offset: at 101 %")
    );
}

#[test]
fn no_load_at_all_is_refused() {
    assert_eq!(
        errors("device-names: /dev/a\ntest-duration-sec: 60\n"),
        ["a.conf: read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them"]
    );
}

#[test]
fn commits_need_odsync_and_fit_their_block() {
    assert!(
        errors(format!("{GOOD}commit-to-device: yes\ndisable-odsync: yes\n"))[0]
            .starts_with("a.conf:5: disable-odsync: yes contradicts commit-to-device: yes, ")
    );
    assert_eq!(
        error_of_line_4("commit-min-bytes: 262144"),
        "commit-min-bytes: 262144 bytes is more than a large block of 131072 bytes - give at most 131072 or raise \
         large-block-op-kbytes (at most 8192)"
    );
    assert_eq!(
        error_of_line_4("commit-min-bytes: 1000"),
        "commit-min-bytes: 1000 is no power of two - give 0 or a power of two from 1 to 8388608 (bytes)"
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
        ["a.conf:1: device-names: \"sim:\" is simulated on virtual time and \"/dev/a\" is not, and one test has one \
          clock - test them one after the other"]
    );
    for quoted in ["\"/dev/b\"", "'/dev/b'", "/dev/a,\"/dev/b\""] {
        let [message] = &message(quoted)[..] else { panic!("one message for {quoted}") };
        assert!(
            message.contains("/dev/b") && message.contains(" has quotes round it, and a name is written without"),
            "{message}"
        );
    }
    assert!(message("sim: sim:")[0].starts_with("a.conf:1: device-names: \"sim:\" is named twice, "));
    assert_eq!(
        errors(format!("file-size-mbytes: 64\ndevice-names: sim:\n{rest}")),
        ["a.conf:1: file-size-mbytes: \"sim:\" is a simulated drive, not a file - drop file-size-mbytes and give the \
          drive's size as capacity=64MiB"]
    );
    let drives = "device-names: sim:capacity=1GiB+name=a, sim:stall-ms=9+stall-every-s=1 sim:name=b\n";
    assert_eq!(parse(Test::Storage, "a", format!("{drives}{rest}").as_bytes()).unwrap().config.device_names.len(), 3);
}

#[test]
fn all_mistakes_of_a_file_are_reported_in_the_order_of_its_lines() {
    let file = "device-names: ,\nbananas: 1\nread-reqs-per-sec: 1\nread-reqs-per-sec: 2\n: 5\nupdate-pct: 200\n\
                record-bytes: 999999\nseed: x\n";
    let lines: Vec<_> = errors(file).iter().map(|error| error.split(' ').next().unwrap().to_owned()).collect();
    let expected =
        ["a.conf:1:", "a.conf:2:", "a.conf:4:", "a.conf:5:", "a.conf:6:", "a.conf:7:", "a.conf:8:", "a.conf:"];
    assert_eq!(lines, expected);
}

#[test]
fn a_value_that_could_not_be_read_contradicts_nothing() {
    assert_eq!(errors(format!("{GOOD}record-bytes: 999999\nlarge-block-op-kbytes: x\n")).len(), 1);
}

#[test]
fn what_is_no_text_or_no_configuration_is_said_to_be_none() {
    assert_eq!(
        errors([GOOD.as_bytes(), b"seed: \xff1\n"].concat()),
        ["a.conf:4: byte 7 of the line is 0xff, which is not UTF-8 - save the file as UTF-8"]
    );
    assert_eq!(
        errors(vec![b'\n'; (1 << 20) + 1]),
        [
            "a.conf: 1048577 bytes or more are too many for a configuration, which has at most 1048576 - name the file with \
          the test's configuration"
        ]
    );
}

#[test]
fn keys_of_act_4_are_translated_and_said_to_be() {
    let file = format!(
        "{GOOD}num-queues: 8\nthreads-per-queue: 4\nscheduler-mode: noop\ncommit-min-bytes: 4096\ncommit-to-device: yes\n"
    );
    let config = parse(Test::Storage, "a.conf", file.as_bytes()).unwrap().config;
    assert_eq!((config.service_threads, config.commit_min_bytes), (Some(32), 4096));
    assert_eq!(
        warnings(&file),
        [
            "a.conf:4: num-queues and threads-per-queue are keys of ACT 4: 8 x 4 became service-threads: 32",
            "a.conf:6: scheduler-mode is a key of ACT 4: it is ignored, the device's I/O scheduler is recorded and left \
             alone",
            "a.conf:7: commit-min-bytes is a key of ACT 4 that ACT 6 dropped: commit writes are rounded to 4096 bytes, \
             or to the device's minimum I/O size where that is larger",
        ]
    );
    assert!(!echo::to_text(&config).contains("queue"), "what is written back is in today's keys");
    assert!(
        warnings(&format!("{GOOD}num-queues: 8\n"))[0]
            .ends_with("says nothing without threads-per-queue; give service-threads")
    );
    assert!(
        warnings(&format!("{GOOD}commit-min-bytes: 0\n"))[0].ends_with("no effect, because commit-to-device is no")
    );
    assert_eq!(
        errors(format!("{GOOD}num-queues: 100000\nthreads-per-queue: 100000\n")),
        ["a.conf:4: num-queues: 100000 queues x 100000 threads is more than 1048576 service-threads - give \
          service-threads instead of num-queues and threads-per-queue"]
    );
}

#[test]
fn an_interval_longer_than_the_test_is_worth_a_warning() {
    assert_eq!(
        warnings(&format!("{GOOD}report-interval-sec: 61\n")),
        ["a.conf:4: report-interval-sec: 61 s is longer than the test of 60 s: the only report is the one at its end"]
    );
}
