//! Logs of ACT, logs of flashproof, and damaged logs.

use super::*;
use crate::act_log::{Test, write_chunk, write_error_line, write_header};
use crate::assert_contains;
use crate::testing::table;
use proptest::prelude::*;

const STORAGE: &str = include_str!("../../../tests/data/act-storage-two-devices.log");
const COMMIT: &str = include_str!("../../../tests/data/act-storage-interval2.log");
const INDEX: &str = include_str!("../../../tests/data/act-index-us.log");
/// Written by hand, following the sources of ACT 5.3 and 4.0.
const ACT5: &str = include_str!("../../../tests/data/act5-storage.log");
const ACT4: &str = include_str!("../../../tests/data/act4.log");

fn read(text: &str) -> (ActLogReader<'_>, Vec<Chunk>) {
    let mut reader = ActLogReader::new(text.as_bytes()).unwrap();
    let chunks = reader.by_ref().map(Result::unwrap).collect();
    (reader, chunks)
}

fn error(text: &str) -> String {
    match ActLogReader::new(text.as_bytes()) {
        Ok(reader) => reader
            .filter_map(Result::err)
            .next()
            .expect("an error")
            .to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_storage_log_of_act_is_read() {
    let (reader, chunks) = read(STORAGE);
    let header = reader.header();
    assert_eq!(header.test, Test::Storage);
    assert_eq!(header.act_version.as_str(), "6.6");
    assert_eq!(header.written_by.as_str(), "");
    let found = header.configured("device-names");
    assert_eq!(found, Some("/dev/loop0 /dev/zram0"));
    assert_eq!(header.derived_rates.last().unwrap().1, "23.53");
    assert_eq!(header.device_lines.len(), 2);
    assert_eq!(header.histogram_names[2], "/dev/zram0-reads");
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].after_sec, 1);
    assert_eq!(chunks[0].histograms[0].counts()[..5], [1914, 48, 30, 9, 1]);
    assert_eq!(reader.truncation(), None);
}

#[test]
fn a_log_with_ten_reports_is_read() {
    let (_, chunks) = read(COMMIT);
    let times: Vec<_> = chunks.iter().map(|chunk| chunk.after_sec).collect();
    assert_eq!(times, [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
    assert_eq!(chunks[9].histograms[3].total(), 942);
}

#[test]
fn an_index_log_in_microseconds_is_read() {
    let (reader, chunks) = read(INDEX);
    assert_eq!(reader.header().test, Test::Index);
    assert_eq!(reader.scale(), ActScale::Microseconds);
    assert_eq!(chunks[0].histograms[0].counts()[8], 2516);
}

#[test]
fn a_log_of_act_5_is_read_and_its_queue_length_is_skipped() {
    let (reader, chunks) = read(ACT5);
    assert_eq!(reader.header().act_version, "5.3");
    assert_eq!(reader.names()[..2], ["reads", "device-reads"]);
    assert_eq!(
        chunks[1].histograms[0].counts()[..6],
        [7700, 180, 95, 0, 24, 1]
    );
}

#[test]
fn a_log_of_act_4_is_read_with_the_names_of_its_first_report() {
    let (reader, chunks) = read(ACT4);
    assert!(reader.header().histogram_names.is_empty());
    assert_eq!(
        reader.names(),
        [
            "LARGE BLOCK READS",
            "LARGE BLOCK WRITES",
            "RAW READS",
            "/dev/sdb",
            "READS"
        ]
    );
    assert_eq!(reader.header().derived_rates.len(), 5);
    assert_eq!(
        chunks
            .iter()
            .map(|chunk| chunk.after_sec)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(chunks[1].histograms[4].counts()[..2], [3960, 40]);
    let torn = &ACT4[..ACT4.find("RAW READS").unwrap()];
    let (reader, chunks) = read(torn);
    assert!(
        chunks.is_empty()
            && reader
                .truncation()
                .is_some_and(|truncation| truncation.complete_sec == 0)
    );
}

#[test]
fn a_devices_commit_writes_in_a_log_of_act_4_get_a_name_of_their_own() {
    fn writes(count: u64) -> String {
        let buckets = format!("({count} total)\n (00: {count:010})\n");
        format!("RAW WRITES {buckets}/dev/sdb {buckets}")
    }
    let log = ACT4
        .replace(
            "READS              (2000 total)\n (00: 0000001980)",
            &(writes(1) + "READS (2000 total)\n (00: 0000001980)"),
        )
        .replace(
            "READS              (4000 total)\n (00: 0000003960)",
            &(writes(2) + "READS (4000 total)\n (00: 0000003960)"),
        );
    let (reader, chunks) = read(&log);
    assert_eq!(
        reader.names()[3..6],
        ["/dev/sdb", "RAW WRITES", "/dev/sdb-writes"]
    );
    assert_eq!(chunks[1].histograms[5].total(), 2);
}

#[test]
fn an_unknown_version_is_shown_up_to_its_60th_character() {
    let long = error(&format!("ACT version 6.{}\n", "A".repeat(10_000)));
    assert!(
        long.contains("found ACT version \"6.AAA") && long.len() < 200,
        "{long}"
    );
}

#[test]
fn a_log_that_begins_with_failed_starts_is_read_from_the_last_header() {
    let (clean, chunks) = read(STORAGE);
    let names = STORAGE.find("HISTOGRAM NAMES").unwrap();
    for length in [STORAGE.find("ACT-STORAGE").unwrap(), names] {
        let failed = format!(
            "{}ERROR: couldn't open device /dev/sdb\n",
            &STORAGE[..length]
        );
        let text = format!("{failed}{failed}{STORAGE}");
        let (reader, found) = read(&text);
        assert_eq!((reader.header(), &found), (clean.header(), &chunks));
    }
    let many = "x 1 y\n".repeat(2_000);
    assert_eq!(read(&format!("{many}{STORAGE}")).1, chunks);
}

#[test]
fn act_6_1_names_histograms_that_it_does_not_report() {
    let named = INDEX
        .replace("version 6.6", "version 6.1")
        .replace("NAMES\nreads\n", "NAMES\nreads\ndevice-reads\n");
    let (reader, chunks) = read(&named);
    let found = reader.header().histogram_names.len();
    assert_eq!(found, reader.names().len() + 1);
    assert_eq!(chunks, read(INDEX).1);
}

#[test]
fn a_reader_that_skips_reports_finds_the_selected_reports_and_unordered_times() {
    let all = read(COMMIT).1;
    let is_selected = |after_sec: u64| after_sec.is_multiple_of(6);
    let passing = |text: &str| {
        let mut reader = ActLogReader::new(text.as_bytes()).unwrap();
        let found: Vec<_> = std::iter::from_fn(|| reader.next_chunk_at(is_selected)).collect();
        (found, reader.complete_sec(), reader.truncation())
    };
    let (found, complete_sec, truncation) = passing(COMMIT);
    let found: Vec<Chunk> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found, [2, 5, 8].map(|at| all[at].clone()));
    assert_eq!((complete_sec, truncation), (20, None));

    let (found, ..) = passing(&COMMIT.replace("after 10 sec:", "after 3 sec:"));
    assert!(found[0].is_ok());
    let error = found[1].as_ref().unwrap_err().to_string();
    let said = "a time after 8 sec, found \"after 3 sec:\"; the 8 s before this line are complete";
    assert!(error.contains(said), "{error}");
    // The last report is not selected, but is still read, because it can be torn.
    let (_, complete_sec, truncation) = passing(&COMMIT[..COMMIT.len() - 20]);
    assert_eq!(complete_sec, 18);
    assert_eq!(
        truncation.map(|truncation| truncation.complete_sec),
        Some(18)
    );
    // A report without its end is accepted, too.
    let (found, ..) = passing(&COMMIT.replacen(
        "(01: 0000001099)\n\nafter 6",
        "(01: 0000001099)\nafter 6",
        1,
    ));
    assert!(found.iter().all(Result::is_ok));
    let lost = COMMIT.find("after 8 sec:").unwrap()..COMMIT.find("after 10 sec:").unwrap();
    let (found, ..) = passing(&[&COMMIT[..lost.start + 60], "\n", &COMMIT[lost.end..]].concat());
    assert!(found.iter().any(Result::is_err), "{found:?}");
}

#[test]
fn an_overlong_report_is_an_error_before_it_fills_the_memory() {
    let mut text = COMMIT.as_bytes().to_vec();
    text.extend(b"after 22 sec:\n");
    text.extend(std::iter::repeat_n(b"x\n", 3 << 20).flatten());
    let mut reader = ActLogReader::new(&text[..]).unwrap();
    let error = std::iter::from_fn(|| reader.next_chunk_at(|_| false))
        .next()
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a report of at most 4194304 bytes, found a longer one; the 20 s before"),
        "{error}"
    );
}

#[test]
fn a_flood_of_messages_is_skipped() {
    let messages = "ERROR: reading /dev/loop0: 5 'Input/output error'\n".repeat(200_000);
    for place in [
        "ACT version",
        "DERIVED",
        "/dev/loop0-reads (",
        "after 1 sec",
    ] {
        let at = STORAGE.find(place).unwrap();
        let text = [&STORAGE[..at], &messages, &STORAGE[at..]].concat();
        assert_eq!(read(&text).1, read(STORAGE).1, "{place}");
    }
}

#[test]
fn endless_headers_and_lists_of_names_are_errors() {
    for (before, line, expected) in [
        (
            "num-devices: 2\n",
            "name: value\n",
            "a header of at most 1048576 bytes, found a longer one; this line is before",
        ),
        ("DERIVED", "\n", "a header of at most 1048576 bytes"),
        (
            "\nHISTOGRAM",
            "/dev/x size = 1 bytes\n",
            "a header of at most 1048576 bytes",
        ),
        (
            "/dev/loop0-reads\n",
            "reads\n",
            "at most 2048 histograms, found",
        ),
    ] {
        let at = STORAGE.find(before).unwrap();
        let error = error(&[&STORAGE[..at], &line.repeat(100_000), &STORAGE[at..]].concat());
        assert!(error.contains(expected), "{error}");
    }
    let at = ACT4.find("LARGE BLOCK READS").unwrap();
    let error = error(&[&ACT4[..at], &"READS (0 total)\n".repeat(3_000), &ACT4[at..]].concat());
    assert_contains!(error, "at most 2048 histograms, found \"READS (0 total)\"");
}

#[test]
fn messages_of_the_test_may_stand_between_any_two_lines() {
    let lines: Vec<&str> = STORAGE.lines().collect();
    let clean = read(STORAGE).1;
    for at in 0..lines.len() {
        let mut text = lines.clone();
        text.insert(at, "ERROR: reading /dev/loop0: 5 'Input/output error'");
        let (_, chunks) = read(&(text.join("\n") + "\n"));
        assert_eq!(chunks, clean, "message before line {}", at + 1);
    }
}

/// Lines that standard error can add to a log: a warning, a progress line, a table.
const NOISE: [&str; 5] = [
    "warning: telemetry.csv will be empty",
    "00:00:12  201 ops/s  service p99 0.241 ms  lag p99 0.169 ms  00:00:00 left",
    "slice       1ms     8ms    64ms",
    "    1      0.04    0.00    0.00",
    "(all of it: flashproof doctor)",
];

#[test]
fn foreign_lines_are_skipped_anywhere_among_reports() {
    for log in [COMMIT, ACT5, ACT4] {
        let clean = read(log).1;
        let lines: Vec<&str> = log.lines().collect();
        let header = lines
            .iter()
            .position(|line| line.to_lowercase().starts_with("after "))
            .unwrap();
        let last = clean.last().unwrap().after_sec;
        for at in header..=lines.len() {
            let mut text = lines.clone();
            NOISE.iter().for_each(|noise| text.insert(at, noise));
            let text = text.join("\n") + "\n";
            let (reader, chunks) = read(&text);
            assert_eq!(chunks, clean, "noise before line {}", at + 1);
            assert_eq!(reader.truncation(), None);
            let mut reader = ActLogReader::new(text.as_bytes()).unwrap();
            let is_selected: Vec<_> =
                std::iter::from_fn(|| reader.next_chunk_at(|sec| sec == last)).collect();
            assert_eq!(
                is_selected.into_iter().map(Result::unwrap).count(),
                1,
                "noise before line {}",
                at + 1
            );
        }
    }
}

/// `text` with `prefix` before each line; N in the prefix is the number of the line.
fn prefixed(prefix: &str, text: &str) -> String {
    let lines = text.lines().enumerate();
    lines
        .map(|(n, line)| format!("{}{line}\n", prefix.replace('N', &n.to_string())))
        .collect()
}

#[test]
fn a_log_behind_the_prefixes_of_containers_and_journals_is_read() {
    for log in [COMMIT, ACT5, ACT4] {
        let (clean, chunks) = read(log);
        for prefix in [
            "[pod/act-0/act] ",
            "2026-11-20T23:04:05.Nz ",
            "Nov 20 23:04:N ",
            "Dec  1 23:04:N host act_storage[42]: ",
            "act-1  | ",
            "> ",
            "    ",
        ] {
            let text = prefixed(prefix, log);
            let (reader, found) = read(&text);
            assert_eq!(
                (reader.header(), &found),
                (clean.header(), &chunks),
                "{prefix}"
            );
            // An editor or a mail program can remove blanks at the ends of lines.
            let trimmed: String = text
                .lines()
                .map(|line| format!("{}\n", line.trim_end()))
                .collect();
            assert_eq!(read(&trimmed).1, chunks, "{prefix}");
        }
    }
}

#[test]
fn a_log_without_its_empty_lines_is_read() {
    for log in [STORAGE, COMMIT, INDEX, ACT5] {
        let (clean, chunks) = read(log);
        let lines: Vec<_> = log.lines().filter(|line| !line.is_empty()).collect();
        let text = lines.join("\n") + "\n";
        for text in [
            text.clone(),
            prefixed("Nov 20 23:04:05 host act[N]: ", &text),
        ] {
            let (reader, found) = read(&text);
            assert_eq!((reader.header(), &found), (clean.header(), &chunks));
            let (_, found) = read(&text[..text.len() - 20]);
            assert!(chunks.starts_with(&found) && found.len() + 1 >= chunks.len());
        }
    }
}

#[test]
fn a_log_of_another_program_is_refused_with_the_command_that_reads_it() {
    let cases = r#"
        Nov 20 2026 23:12:17 GMT: INFO (info): (hist.c:319) x | a log of the database, which "flashproof latency server" reads
        Device  r/s  rkB/s  %util | output of iostat, which "flashproof size profile --iostat" reads
        see ACT version 6 for that | the end of the file
    "#;
    for [line, found] in table(cases) {
        assert_contains!(
            error(&format!("\n{line}\n")),
            "expected a log of ACT 3, 4, 5 or 6 with the line \"ACT version N.N\"",
            found
        );
    }
}

#[test]
fn a_damaged_line_of_a_report_is_not_skipped_as_a_foreign_line() {
    let damaged = |from: &str, to: &str| {
        assert!(STORAGE.contains(from), "{from}");
        error(&STORAGE.replacen(from, to, 1))
    };
    assert!(
        damaged("after 1 sec:", "xfter 1 sec:")
            .contains("\"after N sec:\", found \"reads (2002 total)\"")
    );
    assert!(
        damaged("/dev/loop0-reads (", "/dev/loop0-reads {")
            .contains("histogram \"/dev/loop0-reads\" and its")
    );
    let lost = damaged("reads (2002 total)", "reads (2002 t");
    assert_contains!(lost, "histogram \"reads\" and its total, found \" (00: ");
    let lost = damaged(" (04: 0000000001)", "x(04: 0000000001)");
    assert!(
        lost.contains("a bucket \"(NN: COUNT)\" of histogram \"reads\", found \"/dev/loop0-reads"),
        "{lost}"
    );
}

#[test]
fn messages_about_why_the_test_stopped_are_skipped() {
    let stop = "ERROR: service thread can't keep up\nACT can't do requested load - test stopped\n\
                try configuring more 'service-threads'\n";
    let text = format!("{STORAGE}{stop}");
    let (reader, chunks) = read(&text);
    assert_eq!((chunks.len(), reader.truncation()), (1, None));
}

#[test]
fn a_message_is_not_taken_for_a_histogram_name_if_the_header_has_no_names() {
    for message in [
        "ERROR: reading /dev/sda: 5 'Input/output error'",
        "try configuring more 'service-threads'",
    ] {
        let error = error(&ACT4.replacen("LARGE BLOCK READS ", message, 1));
        assert_contains!(
            error,
            &format!("a histogram's name and its total, found \"{message}")
        );
    }
}

#[test]
fn a_log_of_a_test_that_act_refused_is_an_error_that_quotes_acts_message() {
    let text = "\nACT version 6.6\nStorage device IO test\nCopyright 2020 by Aerospike. All rights reserved.\n\n\
                ERROR: invalid or missing configuration of 'defrag-lwm-pct'\n";
    assert_eq!(
        error(text),
        "line 6: expected ACT-STORAGE CONFIGURATION, found the end of the file after the test's own message \
         \"ERROR: invalid or missing configuration of 'defrag-lwm-pct'\"; this line is before the first report, so no report was read"
    );
}

#[test]
fn errors_name_the_line_what_was_expected_and_what_was_found() {
    // Case 3: the first line of buckets alone adds up to the total, so the second line is unexpected.
    // Case 4: a sum below the total is noticed at the next histogram, which comes too early.
    let cases = r#"
        (01: 0000000048) | (01: 00000001e3) | histogram "reads", bucket 01: a count, found "00000001e3"
        (01: 0000000048) | (01: 0000000050) | counts that add up to 2002, found
        (01: 0000000048) | (01: 0000000049) | histogram "/dev/loop0-reads" and its total, found
        (01: 0000000048) | (01: 0000000047) | a bucket "(NN: COUNT)" of histogram "reads", found
        (03: 0000000009)\n (04 | (03: 0000000009)\n (03 | a bucket from 04 to 64, found "03"
        (04: 0000000001) | (65: 0000000001) | a bucket from 04 to 64, found "65"
        /dev/zram0-reads ( | /dev/zram1-reads ( | histogram "/dev/zram0-reads" and its total, found
        after 1 sec | after -1 sec | "after N sec:", found "after -1 sec:"
        after 1 sec | after 0 sec | a time after 0 sec, found
        num-devices: 2 | num-devices 2 | "name: value" or an empty line, found "num-devices 2"
        version 6.6 | version 7.3 | a log of ACT 3, 4, 5 or 6, found ACT version "7.3"
    "#;
    for [from, to, expected] in table(cases) {
        let to = &to.replace(r"\n", "\n");
        let from = &from.replace(r"\n", "\n");
        assert!(STORAGE.contains(from), "{from}");
        let error = error(&STORAGE.replacen(from, to, 1));
        assert!(
            error.starts_with("line ") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn counts_that_shrink_are_an_error() {
    let text = COMMIT
        .replace(" (00: 0000013918)", " (00: 0000003918)")
        .replace("(01: 0000001099)", "(01: 0000011099)");
    assert!(error(&text).contains(
        "at least 7397, as in the report before, found \"3918\"; the 2 s before this line"
    ));
    // A bucket that is not listed has the count 0.
    let text = COMMIT.replace("(03: 0000000241)\n (04: 0000000021)", "(03: 0000000262)");
    let error = error(&text.replace(
        "(02: 0000000083) (03: 0000000029)",
        "(02: 0000000083) (04: 0000000029)",
    ));
    assert_contains!(
        error,
        "bucket 04: at least 29, as in the report before, found none; the 2 s before"
    );
}

#[test]
fn a_log_cut_anywhere_keeps_its_complete_chunks() {
    let whole = read(COMMIT).1;
    let header_end = COMMIT.find("after 2 sec").unwrap();
    for cut in header_end..COMMIT.len() {
        let (reader, chunks) = read(&COMMIT[..cut]);
        assert_eq!(chunks[..], whole[..chunks.len()], "cut at byte {cut}");
        let last_chunk = COMMIT[..cut].rfind("after ").unwrap_or(0);
        let complete_sec = chunks.last().map_or(0, |chunk| chunk.after_sec);
        let inside = last_chunk > 0
            && !COMMIT[..cut].contains(&format!("after {} sec:\n", complete_sec + 2));
        match reader.truncation() {
            Some(truncation) => assert_eq!(truncation.complete_sec, complete_sec),
            None => assert!(
                inside || cut == header_end,
                "cut at byte {cut} was not noticed"
            ),
        }
    }
    for cut in 0..header_end - 1 {
        assert!(
            ActLogReader::new(&COMMIT.as_bytes()[..cut]).is_err(),
            "header cut at byte {cut}"
        );
    }
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("[a-z][a-z0-9-]{0,15}", "[ -~]{0,20}"), 0..6)
}

prop_compose! {
    fn headers()(
        test in prop_oneof![Just(Test::Storage), Just(Test::Index)],
        written_by in "([a-z]+ [0-9.]+)?",
        mut configuration in pairs(),
        derived_rates in pairs(),
        settings in pairs(),
        device_lines in prop::collection::vec("/dev/[a-z0-9]{1,8} size = [0-9]{1,12} bytes", 0..4),
        histogram_names in prop::collection::vec("[a-z/][a-z0-9/-]{0,20}", 0..5),
        us in any::<bool>(),
    ) -> LogHeader {
        configuration.retain(|(name, _)| name != "microsecond-histograms");
        configuration.push(("microsecond-histograms".to_owned(), if us { "yes" } else { "no" }.to_owned()));
        LogHeader { test, written_by, configuration, derived_rates, settings, device_lines, histogram_names, ..LogHeader::default() }
    }
}

proptest! {
    #[test]
    fn a_written_log_is_read_back_unchanged(
        header in headers(),
        steps in prop::collection::vec((1u64..5000, any::<bool>(), prop::collection::vec((0usize..65, 1u64..1 << 40), 0..9)), 0..6),
    ) {
        let scale = match header.configured("microsecond-histograms") {
            Some("yes") => ActScale::Microseconds,
            _ => ActScale::Milliseconds,
        };
        let mut text = Vec::new();
        write_header(&mut text, &header).unwrap();
        let mut expected = Vec::new();
        let mut histograms = vec![ActBuckets::new(scale); header.histogram_names.len()];
        let mut after_sec = 0;
        for (step_sec, error, counts) in steps {
            after_sec += step_sec;
            for (index, (bucket, count)) in counts.iter().enumerate() {
                if let Some(histogram) = histograms.get_mut(index % header.histogram_names.len().max(1)) {
                    histogram.add(*bucket, *count);
                }
            }
            if error {
                write_error_line(&mut text, "reading /dev/x").unwrap();
            }
            let names = header.histogram_names.iter().map(String::as_str);
            write_chunk(&mut text, after_sec, &names.zip(&histograms).collect::<Vec<_>>()).unwrap();
            expected.push(Chunk { after_sec, histograms: histograms.clone() });
        }
        let mut reader = ActLogReader::new(&text[..]).unwrap();
        prop_assert_eq!(reader.by_ref().map(Result::unwrap).collect::<Vec<_>>(), expected);
        prop_assert_eq!(reader.header(), &header);
        prop_assert_eq!(reader.truncation(), None);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..COMMIT.len()) {
        let mut text = COMMIT.as_bytes()[..at].to_vec();
        text.extend(bytes);
        if let Ok(reader) = ActLogReader::new(&text[..]) {
            let _ = reader.count();
        }
    }
}
