use super::collect::LogCollector;
use super::*;
use crate::lines::LINE_BYTES_MAX;
use crate::source::InputFile;
use results::{assert_any_contains, assert_contains, assert_starts_with};
use std::io::{self, Cursor, Read};

const PIPED: &str = "flashproof size profile --log -";

fn source(name: &str, bytes: impl AsRef<[u8]>) -> InputFile {
    InputFile::new(name, Box::new(Cursor::new(bytes.as_ref().to_vec())), PIPED).unwrap()
}

fn read_one(text: impl AsRef<[u8]>) -> ServerLog {
    let mut logs = read(vec![source("a.log", text)]).unwrap();
    assert_eq!(logs.len(), 1);
    logs.remove(0)
}

fn read_all(collector: &mut LogCollector, text: &str) {
    for (line, number) in text.lines().zip(1..) {
        collector
            .read(
                line.as_bytes(),
                text::split(line.as_bytes()),
                true,
                "a",
                number,
            )
            .unwrap();
    }
}

fn captured(version: &str) -> Vec<u8> {
    let path = format!(
        "{}/tests/data/{version}/aerospike.log.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut bytes = Vec::new();
    results::act_log::Input::new(std::fs::File::open(path).unwrap())
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// `n` histograms and drive lines 10 s apart, from `begin` (s of the day) on, with counts from `first` on.
fn log(begin: u64, n: u64, first: u64) -> String {
    (0..n).fold(String::new(), |text, i| {
        text + &ticks(begin + 10 * i, first + i)
    })
}

fn ticks(second: u64, count: u64) -> String {
    let stamp = format!(
        "Nov 20 2026 {:02}:{:02}:{:02} GMT",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    let total = count * 5;
    format!(
        "{stamp}: INFO (info): (ticker.c:162) NODE-ID bb9050011ac4202 CLUSTER-SIZE 3\n\
         {stamp}: INFO (info): (hist.c:319) histogram dump: {{test}}-read ({total} total) usec\n\
         {stamp}: INFO (info): (hist.c:330)  (00: {count:010}) (01: {count:010}) (05: {count:010}) (06: {count:010})\n\
         {stamp}: INFO (info): (hist.c:339)  (64: {count:010})\n\
         {stamp}: INFO (drv_ssd): (drv_ssd.c:2133) {{test}} /dev/sdb: used-bytes 1000 free-wblocks 12 write-q 1 \
         write ({count},3.2) defrag-q 0 defrag-read ({count},3.3) defrag-write (372,1.6)\n"
    )
}

#[test]
fn a_log_with_every_line_twice_is_read_as_if_each_came_once() {
    let once = log(0, 20, 1);
    let twice: String = once
        .lines()
        .flat_map(|line| [line, "\n", line, "\n"])
        .collect();
    let once = read_one(once);
    let twice = read_one(twice);
    assert_eq!(&twice.histograms, &once.histograms);
    assert_eq!(&twice.drives, &once.drives);
    assert_eq!(&twice.starts, &once.starts);
    let [remark] = &twice.remarks[..] else {
        panic!("{:?}", twice.remarks)
    };
    assert_starts_with!(remark, "80 lines of a histogram or a drive");
}

#[test]
fn captured_logs_are_read_completely_and_without_a_remark() {
    for (version, node, dumps, unit) in [
        ("ce-4.9.0.37", "32C901000000FC02", 45, HistogramUnit::Millis),
        ("ce-8.0.0.15", "32C901000000FC02", 63, HistogramUnit::Micros),
    ] {
        let log = read_one(captured(version));
        assert_eq!(log.remarks, [""; 0], "{version}");
        assert_eq!(log.node_id.as_deref(), Some(node));
        assert_eq!(log.starts.len(), 1);
        assert_eq!(log.clock_steps.len(), 0);
        assert_eq!(log.starts[0].build.as_deref(), version.strip_prefix("ce-"));
        let reads = &log.histograms["{test}-device-read-size"];
        assert_eq!((reads.len(), reads[0].unit), (dumps, HistogramUnit::Bytes));
        assert!(
            reads
                .iter()
                .all(|dump| dump.buckets.iter().sum::<u64>() == dump.total)
        );
        assert_eq!(log.histograms["{test}-/dev/loop2-read"][0].unit, unit);
        let drive = &log.drives[&("test".to_owned(), "/dev/loop2".to_owned())];
        assert!(
            drive
                .iter()
                .all(|line| line.detail.is_some() && line.defrag_writes.is_some()),
            "{version}"
        );
        assert_eq!(log.restarts.len(), 0);
        assert!(log.histograms.contains_key("{test}-write-start"));
    }
    let log = read_one(captured("ce-8.0.0.15"));
    assert_eq!(log.starts[0].write_block_bytes["/dev/loop2"], 8 << 20);
    let test = &log.starts[0].configuration["test"];
    assert_eq!(&test["flush-size"], &vec!["128K".to_owned()]);
    assert_eq!(&test["device"], &vec!["/dev/loop2".to_owned()]);
    let drive = &log.drives[&("test".to_owned(), "/dev/loop2".to_owned())];
    assert_eq!(drive.len(), 31);
    // The numbers that the log printed at 23:07:05.
    let line = drive
        .iter()
        .find(|line| line.timestamp == at("2026-11-20T23:07:05.478Z"))
        .unwrap();
    assert_eq!(line.used_bytes, 893_760_160);
    assert_eq!(line.free_wblocks, 112);
    assert_eq!(line.writes, 914);
    assert_eq!((line.defrag_reads, line.defrag_writes), (776, Some(372)));
    let detail = line.detail.unwrap();
    assert_eq!(detail.partial_writes, Some(8));
    assert_eq!(detail.defrag_partial_writes, Some(1));
    assert_eq!(
        read_one(captured("ce-4.9.0.37")).starts[0].write_block_bytes["/dev/loop2"],
        128 << 10
    );
}

#[test]
fn lines_of_every_version_are_read() {
    let old = include_str!("../../tests/data/formats-old.log");
    let lines: Vec<&str> = old.lines().collect();
    let drive = |line: &str| read_one(line).drives.into_iter().next().unwrap();
    let ((namespace, device), found) = drive(&lines[..2].join("\n"));
    assert_eq!(namespace.as_str(), "ycsb");
    assert_eq!(device.as_str(), "/dev/nvme0n1");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].writes, 65_885_408);
    assert_eq!(found[0].defrag_reads, 53_996_089);
    let detail = found[0].detail.unwrap();
    assert_eq!(detail.defrag_io_skips, 3650);
    assert_eq!(detail.direct_frees, 11_873_218);
    assert_eq!(detail.partial_writes, None);
    let printed = PrintedRates {
        writes: 1543.0,
        defrag_reads: 1172.8,
        defrag_writes: Some(406.8),
        defrag_io_skips: Some(0.2),
        direct_frees: Some(369.0),
        tomb_raider_reads: 0.0,
    };
    assert_eq!(found[0].printed, printed);
    let ((namespace, device), found) = drive(lines[2]);
    assert_eq!(namespace.as_str(), "");
    assert_eq!(device.as_str(), "/www/aerospike/data/er.dat");
    assert_eq!(found[0].used_bytes, 1_013_766_400);
    assert_eq!(found[0].free_wblocks, 15_169);
    assert_eq!(found[0].defrag_writes, Some(0));
    let query = &read_one(lines[3]).histograms["query"];
    assert_eq!(query[0].timestamp, at("2015-06-29T19:15:17Z"));
    assert_eq!(query[0].total, 0);
    let (_, found) = drive(lines[5]);
    assert_eq!(found[0].timestamp, at("2022-07-12T14:39:13Z"));
    assert_eq!(found[0].shadow_write_q, Some(0));

    for (free, blocks) in [
        ("18446744073709551615 (885103 wblocks)", 885_103),
        ("17592186044415M (9 wblocks)", 9),
    ] {
        let (_, found) = drive(&lines[2].replace("15169M (15169 wblocks)", free));
        assert_eq!(found[0].free_wblocks, blocks, "{free}");
        assert_eq!(found[0].block_bytes, None, "{free}");
    }
    let mut odd = lines[2].replace("w-q 0 w-tot 0 (0.0/s)", "n-w 3, w-q 7 w-tot 99 (1.5/s)");
    odd = odd.replace(" defrag-w-tot 0 (0.0/s)", "");
    let (_, found) = drive(&odd);
    assert_eq!((found[0].writes, found[0].defrag_writes), (99, None));
    assert_eq!(found[0].printed.writes, 1.5);
    let memory = "Sep 01 2024 00:00:00 GMT: INFO (drv_mem): (drv_mem.c:1) {m} /dev/sdc: used-bytes 5 free-wblocks 4 \
                  write (3,0.1) defrag-q 2 defrag-read (1,0.0) defrag-write (0,0.0) shadow-write-q 6\n";
    let (_, found) = drive(memory);
    assert_eq!((found[0].writes, found[0].shadow_write_q), (3, Some(6)));
    // Before 3.4, a histogram has no unit, and two spaces separate its buckets.
    let old = "Sep 28 2013 14:58:56 GMT: INFO (info): (src/main/hist.c:55) histogram dump: query (7 total)\n\
               Sep 28 2013 14:58:56 GMT: INFO (info): (src/main/hist.c:70)  (00: 0000000004)  (01: 0000000003) \n";
    let query = &read_one(old).histograms["query"][0];
    assert_eq!(query.unit, HistogramUnit::Millis);
    assert_eq!(query.total, 7);
    assert_eq!(&query.buckets[..], &[4, 3][..]);
}

#[test]
fn timestamps_with_milliseconds_zones_or_long_month_names_are_parsed() {
    for (text, instant) in [
        ("Nov 20 2026 23:12:07 GMT: x", "2026-11-20T23:12:07Z"),
        (
            "Nov 20 2026 23:12:07.406 GMT: x",
            "2026-11-20T23:12:07.406Z",
        ),
        (
            "Nov 20 2026 23:12:07.406 GMT+0530: x",
            "2026-11-20T17:42:07.406Z",
        ),
        ("Nov 20 2026 23:12:07 GMT-0800: x", "2026-11-21T07:12:07Z"),
        ("July 12 2022 14:39:13 GMT: x", "2022-07-12T14:39:13Z"),
        ("Sept 5 2022 04:39:13 GMT: x", "2022-09-05T04:39:13Z"),
    ] {
        let (stamp, rest) = text::split(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((stamp.instant(), rest), (at(instant), &b"x"[..]), "{text}");
    }
    for text in [
        "",
        "Nov",
        "Nov 32 2026 23:12:07 GMT: x",
        "No 20 2026 23:12:07 GMT: x",
        "Nov 20 2026 23:12:07 CET: x",
    ] {
        assert!(text::split(text.as_bytes()).is_none(), "{text}");
    }
}

#[test]
fn counters_that_go_back_and_a_start_are_one_restart() {
    let before = log(0, 5, 100);
    let start = "Nov 20 2026 00:01:00 GMT: INFO (as): (as.c:301) <><><><><>  Aerospike Community Edition build 4.9.0.37  \
                 <><><><><>\n";
    let told = read_one([&before, start, &log(70, 3, 1)].concat());
    assert_eq!(told.restarts, [at("2026-11-20T00:01:00Z")]);
    let found = read_one([&before[..], &log(70, 3, 1)].concat());
    assert_eq!(found.restarts, [at("2026-11-20T00:01:10Z")]);
    assert_eq!(found.histograms["{test}-read"].len(), 8);
    assert_eq!(read_one([start, &log(70, 3, 1)].concat()).restarts, []);
    // A start without counters is dropped; the starts before and after it stay separate.
    let later = |at: &str| start.replace("00:01:00", at).replace("4.9", "8.0");
    let twice = read_one(
        [
            start,
            &before,
            &later("00:01:00"),
            &later("00:01:03"),
            &log(70, 3, 1),
        ]
        .concat(),
    );
    let starts = twice
        .starts
        .iter()
        .map(|start| start.build.as_deref().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(starts, vec!["4.9.0.37", "8.0.0.37"]);
    assert_eq!(twice.starts[1].timestamp, at("2026-11-20T00:01:03Z"));
}

#[test]
fn lines_of_two_nodes_in_one_file_are_refused() {
    let other = |text: &str| text.replace("bb9050011ac4202", "bb9050011ac4203");
    let a = log(0, 20, 1);
    let b = other(&log(5, 20, 1000));
    let interleaved: String = (0..20)
        .map(|i| ticks(10 * i, i) + &other(&ticks(10 * i + 5, 1000 + i)))
        .collect();
    for (text, line) in [
        ([&a[..], &b].concat(), 101),
        ([&b[..], &a].concat(), 101),
        (interleaved, 6),
    ] {
        let error = read(vec![source("ab.log", text)]).unwrap_err().to_string();
        assert_starts_with!(
            error,
            &format!("reading ab.log - line {line} is of node BB9050011AC420")
        );
        assert_contains!(error, "each node's log in a file of its own");
    }
    // In a configuration, the node id may have leading zeros.
    let start =
        "Nov 19 2026 23:00:00 GMT: INFO (config): (cfg.c:4266) \tnode-id 00bb9050011ac4202\n";
    assert!(read(vec![source("a.log", [start, &a].concat())]).is_ok());
}

#[test]
fn a_step_of_the_clock_is_found_from_the_distance_of_lines() {
    for step in (-60_i64..=60).filter(|step| step.abs() >= 3) {
        let after = (3600 + 200 + step) as u64;
        let stepped = read_one([log(3600, 20, 1), log(after, 30, 21)].concat());
        let reads = &stepped.histograms["{test}-read"];
        let odd: Vec<_> = reads
            .windows(2)
            .filter(|pair| {
                let seconds = pair[1]
                    .timestamp
                    .duration_since(pair[0].timestamp)
                    .as_secs();
                (pair[1].total - pair[0].total) as i64 != seconds / 2
            })
            .collect();
        assert_eq!(
            (odd.len(), stepped.clock_steps.len()),
            (1, 1),
            "{step}: {:?}",
            stepped.clock_steps
        );
        assert!(
            (odd[0][0].timestamp..odd[0][1].timestamp).contains(&stepped.clock_steps[0]),
            "{step}"
        );
    }
    // A changed ticker interval, or a log given twice, is not a clock step.
    let slower: String = (0..20).map(|i| ticks(200 + 30 * i, 20 + i)).collect();
    assert_eq!(
        read_one([&log(0, 20, 1)[..], &slower].concat()).clock_steps,
        []
    );
    let twice: String = (0..20).map(|i| ticks(10 * i, i).repeat(2)).collect();
    assert_eq!(read_one(twice).clock_steps, []);
}

#[test]
fn a_log_cut_within_a_histogram_is_reported_with_its_last_line() {
    let text = log(0, 3, 1);
    let lines: Vec<&str> = text.lines().collect();
    for (count, end, number) in [(13, "\n", 13), (12, "\n", 12), (12, &lines[12][..80], 13)] {
        let cut = format!("{}\n{}", lines[..count].join("\n"), end.trim_start());
        assert_any_contains!(read_one(cut).remarks, &format!("a.log line {number}: "));
    }
}

#[test]
fn files_of_a_node_are_put_in_order_and_lines_cut_between_them_are_joined() {
    let text = log(0, 20, 1);
    let whole = read_one(&text);
    for cut in [
        400,
        401,
        430,
        text.len() / 2,
        text.len() / 2 + 33,
        text.len() / 2 + 77,
    ] {
        let (first, second) = text.as_bytes().split_at(cut);
        let logs = read(vec![source("b.log", second), source("a.log", first)]).unwrap();
        assert_eq!(logs.len(), 1, "cut at {cut}");
        assert_eq!(logs[0].files, ["a.log", "b.log"]);
        assert_eq!(&logs[0].histograms, &whole.histograms, "cut at {cut}");
        assert_eq!(&logs[0].drives, &whole.drives, "cut at {cut}");
        let joined = logs[0]
            .remarks
            .iter()
            .any(|remark| remark.starts_with("1 line in two parts"));
        assert_eq!(
            joined,
            text.as_bytes()[cut - 1] != b'\n' && text.as_bytes()[cut] != b'N',
            "{:?}",
            logs[0].remarks
        );
    }
}

#[test]
fn nodes_are_told_apart_by_their_id_or_by_overlapping_times() {
    let a = log(0, 20, 1);
    let b = log(5, 20, 1000).replace("bb9050011ac4202", "bb9050011ac4203");
    let logs = read(vec![source("b", &b), source("a", &a)]).unwrap();
    let nodes: Vec<_> = logs
        .iter()
        .map(|log| log.node_id.as_deref().unwrap())
        .collect();
    assert_eq!(nodes, ["BB9050011AC4202", "BB9050011AC4203"]);
    assert!(
        logs.iter()
            .all(|log| log.restarts.is_empty() && log.histograms["{test}-read"].len() == 20)
    );
    let nameless = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("NODE-ID"))
            .fold(String::new(), |all, line| all + line + "\n")
    };
    let parts = [("b", &b), ("a", &a), ("c", &log(300, 5, 50))];
    let logs = read(
        parts
            .map(|(name, text)| source(name, nameless(text)))
            .into(),
    )
    .unwrap();
    assert_eq!(logs.len(), 2);
    assert_eq!(logs.iter().map(|log| log.files.len()).sum::<usize>(), 3);
    // The same file twice is read once, with a remark.
    let logs = read(vec![source("a", &a), source("copy", &a)]).unwrap();
    assert_eq!(logs.len(), 1);
    assert_eq!(logs[0].histograms["{test}-read"].len(), 20);
    assert_eq!(logs[0].restarts.len(), 0);
    assert!(
        logs[0].remarks[0].contains("lines in both files are read once"),
        "{:?}",
        logs[0].remarks
    );
}

#[test]
fn nul_bytes_and_overlong_or_garbled_lines_are_counted_and_all_others_are_read() {
    let clean = read_one(log(0, 20, 1));
    let mut text = log(0, 10, 1).into_bytes();
    text.extend([0; 5000]);
    text.extend(log(100, 1, 11).into_bytes());
    text.extend([b'x'; LINE_BYTES_MAX + 10]);
    text.extend(b"\nno time here\n");
    text.extend(log(110, 9, 12).into_bytes());
    let odd = read_one(&text);
    assert_eq!(&odd.histograms, &clean.histograms);
    assert_eq!(&odd.drives, &clean.drives);
    let remarks = odd.remarks.join("\n");
    for expected in [
        "5,000 NUL bytes",
        "1 line of more than 65536 bytes",
        "1 line without a time",
    ] {
        assert!(remarks.contains(expected), "{remarks}");
    }

    // The log lost a line of buckets, and a line that begins a histogram.
    let text = log(0, 10, 1);
    let lost = text.replacen("(64: 0000000003)", "(64: 00000", 1);
    let odd = read_one(lost);
    assert_eq!(odd.histograms["{test}-read"].len(), 9);
    assert_contains!(
        odd.remarks.join("\n"),
        "1 histogram without all of its buckets"
    );
    assert_contains!(odd.remarks.join("\n"), "cannot be read");
    let lost = text.replacen("histogram dump: {test}-read (15 total)", "histogr", 1);
    let odd = read_one(lost);
    assert_eq!(odd.histograms["{test}-read"].len(), 9);
    assert_contains!(
        odd.remarks.join("\n"),
        "2 lines of buckets without the line that names"
    );
}

#[test]
fn after_a_step_back_of_the_clock_lines_that_are_not_later_are_left_out() {
    let odd = read_one([log(3600, 10, 1), log(3000, 10, 11), log(3720, 10, 30)].concat());
    let reads = &odd.histograms["{test}-read"];
    assert!(reads.is_sorted_by(|a, b| a.timestamp < b.timestamp));
    assert_eq!((reads.len(), odd.restarts.len()), (20, 0));
    let remarks = odd.remarks.join("\n");
    assert_contains!(remarks, "the clock of the log goes back by 11 min 30 s");
    assert!(remarks.contains("20 histogram"), "{remarks}");
    // One line with a wrong date does not make the reader drop the lines after it.
    let wrong = log(100, 1, 11).replace("2026", "2062");
    let odd = read_one([log(0, 10, 1), wrong, log(110, 10, 12)].concat());
    assert_eq!(odd.histograms["{test}-read"].len(), 20, "{:?}", odd.remarks);
    assert_eq!(odd.span.unwrap().1, at("2026-11-20T00:03:20Z"));
}

#[test]
fn changes_of_units_and_zones_are_reported() {
    let text = [
        log(0, 5, 1),
        log(50, 5, 6)
            .replace(" usec", " msec")
            .replace(" GMT:", " GMT+0000:"),
    ]
    .concat();
    let remark = &read_one(&text).remarks[0];
    assert_contains!(remark, "in another unit than before", "from usec to msec");
    let text = [log(0, 5, 1), log(3650, 5, 6).replace(" GMT:", " GMT+0100:")].concat();
    let odd = read_one(&text);
    assert_contains!(odd.remarks[0], "zone of the log changes");
    assert_eq!(
        odd.histograms["{test}-read"][5].timestamp,
        at("2026-11-20T00:00:50Z")
    );
}

#[test]
fn a_file_that_is_not_a_log_is_refused_with_its_beginning() {
    for (bytes, found) in [
        (&b""[..], "found no data"),
        (
            b"reads (2002 total)\n (00: 0000001914)\n",
            "first \"reads (2002 total)\"",
        ),
        (b"\n \nACT version 6.6\n", "found first \"ACT version 6.6\""),
        (b"\n\n", "found only empty lines"),
        (b"\x7fELF\0\x01\xff\n\0", "binary data"),
        (&[0; 100], "100 NUL bytes"),
    ] {
        let error = read(vec![source("x", bytes)]).unwrap_err().to_string();
        let expected = "reading x - this is not a log of the database: expected";
        assert!(error.contains(expected) && error.contains(found), "{error}");
    }
    let lines = [log(0, 200, 1)];
    let json = serde_json::to_string(&lines).unwrap();
    for (bytes, texts) in [
        (
            &*json,
            ["one line of JSON of", "jq -r '.. | strings' FILE > NEW"],
        ),
        (
            &json[1..],
            [
                "not a log of the database",
                "found 1 line of more than 65536 bytes",
            ],
        ),
    ] {
        let error = read(vec![source("x", bytes)]).unwrap_err().to_string();
        assert!(
            texts.iter().all(|text| error.contains(text)) && !error.contains("NUL"),
            "{error}"
        );
    }
    let logs = read(vec![source("x", ""), source("y", log(0, 3, 1))]).unwrap();
    assert_eq!(logs[0].remarks, ["empty files: x"]);
}

/// A reader of a first part, a number of equal bytes, and a last part.
struct Long(Vec<u8>, u64, u8, Vec<u8>);

impl Read for Long {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let count @ 1.. = (&self.0[..]).read(buffer)? {
            self.0.drain(..count);
            return Ok(count);
        }
        let count = (self.1).min(buffer.len() as u64) as usize;
        if count > 0 {
            buffer[..count].fill(self.2);
            self.1 -= count as u64;
            return Ok(count);
        }
        let count = (&self.3[..]).read(buffer)?;
        self.3.drain(..count);
        Ok(count)
    }
}

#[test]
fn a_line_of_a_gigabyte_is_skipped_anywhere() {
    let first = log(0, 5, 1);
    let second = log(50, 5, 6);
    let (gigabyte, less) = ((1 << 30, "1,073,741,82"), (1 << 26, "67,108,8"));
    for (byte, begin, (bytes, told)) in [
        (b'x', &first[..], gigabyte),
        (b'x', "", less),
        (0, "", less),
        (0, &first, less),
    ] {
        let end = format!("\n{second}");
        let source = InputFile::new(
            "big",
            Box::new(Long(begin.into(), bytes, byte, end.into())),
            PIPED,
        )
        .unwrap();
        let log = &read(vec![source]).unwrap()[0];
        let found = log.histograms["{test}-read"].len();
        assert_eq!(found, if begin.is_empty() { 5 } else { 10 });
        assert!(log.remarks[0].contains(told), "{:?}", log.remarks);
    }
}

#[test]
fn only_the_start_of_a_long_prefix_is_quoted() {
    let strange = "\u{fffd}\0".repeat(200);
    let text = format!(
        "{}{strange}{}",
        log(0, 5, 1),
        ticks(60, 6).lines().next().unwrap()
    );
    let remarks = read_one(text).remarks;
    let remark = remarks
        .iter()
        .find(|remark| remark.contains("the first has the prefix"))
        .unwrap();
    let (_, prefix) = remark.split_once("the first has the prefix ").unwrap();
    let (prefix, _) = prefix.split_once(" in a.log").unwrap();
    assert!(prefix.ends_with("...\"") && prefix.len() < 400, "{prefix}");
}

#[test]
fn too_many_entries_are_thinned_and_reported() {
    let mut collector = LogCollector::keeping(50);
    let text = log(0, 200, 1);
    read_all(&mut collector, &text);
    let log = collector.finish();
    let reads = &log.histograms["{test}-read"];
    assert!((8..=25).contains(&reads.len()), "{}", reads.len());
    assert!(reads.windows(2).all(|pair| {
        pair[1]
            .timestamp
            .duration_since(pair[0].timestamp)
            .as_secs()
            >= 60
    }));
    assert!(log.remarks[0].contains("closer than"), "{:?}", log.remarks);
}

/// Only histograms of reads, each with its own stamp.
fn reads(stamps: impl Iterator<Item = (String, u64)>) -> String {
    stamps.fold(String::new(), |text, (stamp, total)| {
        text + &format!(
            "{stamp} GMT: INFO (info): (hist.c:319) histogram dump: {{test}}-read ({total} total) usec\n\
             {stamp} GMT: INFO (info): (hist.c:330)  (00: {total})\n"
        )
    })
}

#[test]
fn two_nodes_in_one_file_are_reported_once_and_take_bounded_memory() {
    let stamp = |i: u64| {
        format!(
            "Nov {} 2026 {:02}:{:02}:{:02}",
            1 + i / 86_400,
            i / 3600 % 24,
            i / 60 % 60,
            i % 60
        )
    };
    let text = reads((0..60_000).map(|i| (stamp(i), if i % 2 == 0 { 1_000_000 } else { 10 } + i)));
    for (mut collector, restarts_at_least, times_said) in [
        (LogCollector::keeping(usize::MAX), 10_000, 1),
        (LogCollector::keeping(5_000), 1, 0),
    ] {
        read_all(&mut collector, &text);
        let log = collector.finish();
        assert!(
            (restarts_at_least..=10_000).contains(&log.restarts.len()),
            "{}",
            log.restarts.len()
        );
        let reads = &log.histograms["{test}-read"];
        assert!(
            times_said == 1 || (100..5_000).contains(&reads.len()),
            "{}",
            reads.len()
        );
        let noted = |after, until| {
            log.restarts
                .iter()
                .any(|restart| after < *restart && *restart <= until)
        };
        assert!(
            reads.windows(2).all(|pair| pair[0].total <= pair[1].total
                || noted(pair[0].timestamp, pair[1].timestamp))
        );
        let said = log
            .remarks
            .iter()
            .filter(|remark| remark.contains("are several nodes in one file?"))
            .count();
        assert_eq!(said, times_said, "{:?}", log.remarks);
    }
}

#[test]
fn thinning_without_effect_is_not_repeated_at_every_line() {
    // 4,000 series with one histogram each: more than the 100 entries that may be stored.
    let text = (0..4_000).fold(String::new(), |text, i| {
        text + &log(0, 1, 1).replace("test", &format!("t{i}"))
    });
    let mut collector = LogCollector::keeping(100);
    read_all(&mut collector, &text);
    assert_eq!(collector.finish().histograms.len(), 4_000);
}

#[test]
fn a_last_date_far_in_the_future_is_kept_and_costs_nothing() {
    let wrong = log(100, 1, 11).replace("2026", "9026");
    let odd = read_one([log(0, 10, 1), wrong].concat());
    assert_eq!(odd.histograms["{test}-read"].len(), 11);
    assert_eq!(odd.span.unwrap().1, at("9026-11-20T00:01:40Z"));
}

#[test]
fn lines_from_before_the_clock_was_set_are_left_out() {
    let unset = log(0, 3, 1).replace("Nov 20 2026", "Jan 01 1970");
    let begins = [unset.clone(), log(300, 10, 10)].concat();
    let odd = read_one(&begins);
    assert_eq!(odd.span.unwrap().0, at("2026-11-20T00:05:00Z"));
    assert_eq!(odd.histograms["{test}-read"].len(), 10);
    assert_eq!(odd.drives.values().map(Vec::len).sum::<usize>(), 10);
    let remarks = odd.remarks.join("\n");
    assert!(
        remarks.contains("the clock was set to 2026-11-20T00:05:00Z; 6 histogram"),
        "{remarks}"
    );
    // Lines from before the clock was set do not change the order of the files.
    let logs = read(vec![source("b", &begins), source("a", log(0, 5, 100))]).unwrap();
    assert_eq!(logs.len(), 1);
    assert_eq!(&logs[0].files[..], &["a".to_owned(), "b".to_owned()][..]);
    assert_eq!(
        logs[0].histograms["{test}-read"].len(),
        15,
        "{:?}",
        logs[0].remarks
    );
    assert_eq!(logs[0].span.unwrap().0, at("2026-11-20T00:00:00Z"));
    // If the machine's clock is never set, all lines are kept.
    assert_eq!(read_one(unset).histograms["{test}-read"].len(), 3);
}

#[test]
fn an_impossible_block_size_is_not_used() {
    let line = |size: &str| {
        format!(
            "Nov 20 2026 00:00:00 GMT: INFO (drv_ssd): (drv_ssd.c:2) /dev/sdb has 16384 wblocks of size {size}\n"
        )
    };
    for size in ["0", "1310", "131073", "16777216", "256", "13107x"] {
        let odd = read_one([line(size), log(0, 2, 1)].concat());
        assert!(
            odd.starts.is_empty() && odd.remarks.join("\n").contains("cannot be read"),
            "{size}"
        );
    }
    assert_eq!(
        read_one(line("131072")).starts[0].write_block_bytes["/dev/sdb"],
        131_072
    );
}

#[test]
fn a_line_with_control_characters_in_a_name_counts_as_damaged() {
    let line = |device: &str| {
        format!(
            "Nov 20 2026 23:12:27 GMT: INFO (drv_ssd): (drv_ssd.c:1828) {{test}} {device}: used-bytes 1 free-wblocks 2 write-q 0 \
             write (3,0.0) defrag-q 0 defrag-read (4,0.0) defrag-write (5,0.0)\n"
        )
    };
    let log = read_one(line("/dev/a") + &line("/\tdev/a") + &line("/dev/\u{1b}[2Ja"));
    assert_eq!(
        log.drives
            .keys()
            .map(|(_, device)| device.as_str())
            .collect::<Vec<_>>(),
        ["/dev/a"]
    );
    assert_any_contains!(log.remarks, "cannot be read");
}

#[test]
fn a_dump_with_the_buckets_of_another_histogram_is_left_out_and_is_no_restart() {
    // The lines from the buckets of read to the header of read-start are lost. Both have the same total.
    let tick = ticks(100, 11);
    let (before, rest) = tick.split_once("  (00: ").unwrap();
    let (_, after) = rest.split_once("(64: 0000000011)\n").unwrap();
    let mixed = format!("{before}  (02: 0000000055)\n{after}");
    let log = read_one([log(0, 10, 1), mixed, log(110, 9, 12)].concat());
    let reads = &log.histograms["{test}-read"];
    assert_eq!(log.restarts, []);
    assert!(reads.len() == 19 && reads.iter().all(|dump| dump.buckets.get(2) != Some(&55)));
    assert_any_contains!(
        log.remarks,
        "1 histogram with the buckets of another histogram"
    );
}

#[test]
fn a_file_with_its_newest_line_first_is_refused_with_the_command_that_reverses_it() {
    let text = log(3600, 20, 1);
    let reversed = text
        .lines()
        .rev()
        .fold(String::new(), |all, line| all + line + "\n");
    let error = read(vec![source("a.log", &reversed)])
        .unwrap_err()
        .to_string();
    assert_contains!(
        error,
        "a.log",
        "descending order of time (the time goes back 19 times, and forward 0 times)",
        "tac FILE > NEW"
    );
    // Lines of a second thread or node, 5 s behind the first.
    let behind = (0..20).map(|i| ticks(3600 + 10 * i, 1 + i) + &ticks(3595 + 10 * i, 1 + i));
    assert!(read(vec![source("a.log", behind.collect::<String>())]).is_ok());
}

#[test]
fn a_syslog_sink_without_a_year_is_refused_and_the_missing_stamp_is_named() {
    let text = log(0, 5, 1).replace(
        "Nov 20 2026 00:00:00 GMT:",
        "Nov 20 00:00:00 host1 asd[4242]:",
    );
    let text = text.split("Nov 20 2026").next().unwrap();
    let error = read(vec![source("a.log", text)]).unwrap_err().to_string();
    assert_contains!(
        error,
        "no time stamp of the server",
        "syslog sink",
        "journalctl -o short-iso"
    );
}

#[test]
fn a_histogram_that_is_off_for_some_minutes_is_no_step_of_the_clock() {
    let text = (0..60).fold(String::new(), |text, i| {
        let tick = ticks(10 * i, 1 + i);
        let bench = tick.replace("{test}-read ", "{test}-read-start ");
        text + &tick + if (20..40).contains(&i) { "" } else { &bench }
    });
    let log = read_one(text);
    assert_eq!(
        (
            log.histograms["{test}-read-start"].len(),
            &log.clock_steps[..]
        ),
        (40, &[][..])
    );
}
