use super::*;
use crate::source::InputFile;
use results::assert_contains;
use std::io::{Cursor, Read};
use std::path::Path;

fn data(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(path)
}

/// Arguments of a command line. Quoted text is one argument.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn from(text: &str) -> TableStart {
    match text {
        "head" => TableStart::Head,
        "tail" => TableStart::Tail,
        _ => match text.strip_prefix('-') {
            Some(text) => TableStart::Before(seconds(text).unwrap()),
            None => TableStart::At(DateTime::strptime("%b %d %Y %H:%M:%S", text).unwrap()),
        },
    }
}

fn query(command: &str) -> (HistogramQuery, String) {
    let mut query = HistogramQuery {
        histogram: String::new(),
        namespace: None,
        slice_sec: 10,
        start: TableStart::Tail,
        duration_sec: None,
        buckets: 3,
        threshold_step: 3,
        as_asloglatency: true,
    };
    let mut log = String::new();
    for pair in words(command).chunks(2) {
        let value = pair[1].clone();
        match pair[0].as_str() {
            "-h" => query.histogram = value,
            "-N" => query.namespace = Some(value),
            "-t" => query.slice_sec = seconds(&value).unwrap(),
            "-f" => query.start = from(&value),
            "-d" => query.duration_sec = seconds(&value),
            "-n" => query.buckets = value.parse().unwrap(),
            "-e" => query.threshold_step = value.parse().unwrap(),
            "-l" => log = value,
            other => panic!("{other}"),
        }
    }
    (query, log)
}

fn page(sources: Vec<InputFile>, query: &HistogramQuery, log: &str) -> String {
    let found = scan(sources, query).unwrap();
    let table = table(&found, query);
    if table.from.is_none() {
        return format!(
            "{}{}none of {:?}",
            query.title(log),
            table.asked_from_line(),
            found.names
        );
    }
    format!("{}{}{table}", query.title(log), table.asked_from_line())
}

fn source(text: impl AsRef<[u8]>) -> InputFile {
    InputFile::new("a.log", Box::new(Cursor::new(text.as_ref().to_vec())), "").unwrap()
}

#[test]
fn tables_equal_those_of_asloglatency_byte_by_byte() {
    let mut compared = 0;
    for version in ["ce-4.9.0.37", "ce-8.0.0.15"] {
        for file in std::fs::read_dir(data(version).join("asloglatency")).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let (command, expected) = text.split_once('\n').unwrap();
            let (query, log) = query(command.strip_prefix("$ asloglatency ").unwrap());
            let source = InputFile::open(&data(version).join("aerospike.log.zst"), "").unwrap();
            let page = page(vec![source], &query, &log);
            if expected.contains("can't find histogram") {
                assert_contains!(page, "none of", "\"{test}-read\"");
            } else {
                assert_eq!(page, expected, "{}", path.display());
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 16);
}

/// Log with a dump every 10 s from 00:00:00 on. In each dump, buckets 0 and 3 have the next count of `counts`.
fn log(counts: &[u64], unit: &str) -> String {
    log_at(
        &counts
            .iter()
            .enumerate()
            .map(|(n, count)| (10 * n, *count))
            .collect::<Vec<_>>(),
        unit,
    )
}

/// Log with dumps at these seconds after 00:00:00, each with its count.
fn log_at(ticks: &[(usize, u64)], unit: &str) -> String {
    let mut text = String::new();
    for (at, count) in ticks {
        let stamp = format!(
            "Nov 20 2026 00:{:02}:{:02} GMT: INFO (info): (hist.c:319)",
            at / 60,
            at % 60
        );
        text += &format!(
            "{stamp} histogram dump: {{a}}-read ({} total) {unit}\n",
            2 * count
        );
        text += &format!("{stamp}  (00: {count:010}) (03: {count:010})\n");
        text += &format!(
            "{stamp} histogram dump: {{b}}-read ({count} total) {unit}\n{stamp}  (03: {count:010})\n"
        );
    }
    let end = ticks.last().map_or(0, |(at, _)| at + 10);
    text + &format!(
        "Nov 20 2026 00:{:02}:{:02} GMT: INFO (info): (ticker.c:1) end\n",
        end / 60,
        end % 60
    )
}

fn table_of(text: &str, command: &str) -> LatencyTable {
    let (query, _) = query(command);
    let query = HistogramQuery {
        as_asloglatency: false,
        ..query
    };
    table(&scan(vec![source(text)], &query).unwrap(), &query)
}

#[test]
fn a_histogram_name_without_a_namespace_is_the_sum_over_all_namespaces() {
    let text = log(&[0, 100, 300], "usec");
    let all = table_of(&text, "-h read -f head -e 1");
    let rates = |table: &LatencyTable| {
        table
            .slices
            .iter()
            .map(|slice| slice.ops_per_sec)
            .collect::<Vec<_>>()
    };
    assert_eq!(rates(&all), vec![30.0, 60.0]);
    assert_eq!(all.slices[0].pct_over[0].round(), 67.0);
    for command in ["-h {a}-read -f head", "-N a -h read -f head"] {
        assert_eq!(rates(&table_of(&text, command)), [20.0, 40.0]);
    }
    assert_eq!(table_of(&text, "-h rea -f head").from, None);
    assert_eq!(table_of(&text, "-h a-read -f head").from, None);
}

#[test]
fn a_restart_is_reported_and_no_slice_spans_it_unless_requested() {
    let text = log(&[100, 200, 300, 10, 20], "usec");
    let own = table_of(&text, "-h {a}-read -f head");
    assert_eq!((own.slices.len(), own.restarts.len()), (3, 1));
    assert!(
        own.slices
            .iter()
            .all(|slice| slice.ops_per_sec > 0.0 && slice.pct_over[0] == 50.0)
    );
    // A restart is also found if the counts exceed the old counts again by the end of a slice.
    let text = log(&[100, 200, 10, 110, 210, 310, 410, 510, 610, 710], "usec");
    let own = table_of(&text, "-h {a}-read -f head -t 30");
    assert_eq!(
        own.slices
            .iter()
            .map(|slice| slice.ops_per_sec)
            .collect::<Vec<_>>(),
        [20.0, 20.0]
    );
    let text = log(&[100, 200, 300, 10, 20], "usec");
    let (as_it_does, _) = query("-h {a}-read -f head");
    let table = table(
        &scan(vec![source(&text)], &as_it_does).unwrap(),
        &as_it_does,
    );
    assert_eq!(table.slices.len(), 4);
    assert_eq!(table.slices[2].ops_per_sec, -58.0);
}

#[test]
fn a_total_that_goes_back_is_a_restart_even_if_the_unit_changes() {
    let ticks = [(0, 300), (10, 100), (20, 200), (30, 250), (40, 300)];
    let dumps = ticks.map(|tick| log_at(&[tick], if tick.0 == 10 { "msec" } else { "usec" }));
    let table = table_of(&dumps.concat(), "-h {a}-read -f head -t 20");
    assert_eq!(table.slices.len(), 1, "{table:?}");
    assert_eq!(table.restarts.len(), 1, "{table:?}");
    assert!(table.slices[0].ops_per_sec > 0.0, "{table:?}");
}

#[test]
fn no_slice_spans_a_step_of_the_clock() {
    for step in [-60, -12, -10, -7, -3, 3, 7, 10, 12, 20, 33] {
        let ticks = (0..30).map(|n| {
            (
                if n < 18 {
                    600 + 10 * n
                } else {
                    600 + 10 * n + step
                } as usize,
                100 * n as u64,
            )
        });
        let text = log_at(&ticks.collect::<Vec<_>>(), "usec");
        for (name, rate) in [("{a}-read", 20.0), ("read", 30.0)] {
            let table = table_of(&text, &format!("-h {name} -f head -t 30"));
            assert!(
                table.slices.iter().all(|slice| slice.ops_per_sec == rate),
                "{step}: {:?}",
                table.slices
            );
            assert!(
                table.slices.len() >= 8 && table.clock_steps.len() == 1,
                "{step}: {table:?}"
            );
        }
    }
}

#[test]
fn a_change_of_unit_ends_the_table_and_is_reported() {
    let text = log(&[0, 100, 300], "usec");
    let text = text.clone() + &log(&[400, 500], "msec").replace("2026 00:0", "2026 00:1");
    let table = table_of(&text, "-h {a}-read -f head");
    assert_eq!((table.slices.len(), table.unit), (2, "us"));
    assert!(table.to_string().contains(
        "latency units have changed from us to ms.\nUse 'asloglatency -h <histogram> -f 'Nov 20 2026 00:10:00''"
    ));
}

#[test]
fn slices_without_operations_have_zeros_and_a_gap_is_one_slice() {
    let table = table_of(&log(&[5, 5, 5], "usec"), "-h {a}-read -f head");
    assert_eq!(table.slices.len(), 2);
    assert!(
        table
            .slices
            .iter()
            .all(|slice| slice.ops_per_sec == 0.0 && slice.pct_over == [0.0; 3])
    );
    assert_contains!(table, "00:00:10    10   0.00   0.00   0.00        0.0\n");
    let gap = log(&[0, 100], "usec") + &log(&[400], "usec").replace("2026 00:0", "2026 00:1");
    let table = table_of(&gap, "-h {a}-read -f head");
    assert_eq!(
        table
            .slices
            .iter()
            .map(|slice| slice.seconds)
            .collect::<Vec<_>>(),
        [10, 590]
    );
}

/// The last histogram may still be incomplete.
#[test]
fn the_last_histogram_counts_only_if_another_line_follows_it() {
    let text = log(&[0, 100, 200], "usec");
    let end = text.rfind("Nov 20").unwrap();
    let slices =
        |text: &str, name: &str| table_of(text, &format!("-h {name} -f head")).slices.len();
    assert_eq!(slices(&text, "{b}-read"), 2);
    assert_eq!(slices(&text[..end], "{b}-read"), 1);
    let found = slices(&text[..end], "{a}-read");
    assert_eq!(found, 2, "the other namespace's histogram follows");
    assert_eq!(slices(&text[..end], "read"), 1);
    assert_eq!(slices(&text, "read"), 2);
    // A torn histogram in the middle does not count, either.
    let text = log(&[0, 100, 200, 300], "usec");
    let torn = text.replacen("(03: 0000000100)\n", "(03: 00\n", 1);
    let table = table_of(&torn, "-h read -f head");
    assert_eq!(
        table
            .slices
            .iter()
            .map(|slice| slice.seconds)
            .collect::<Vec<_>>(),
        [20, 10]
    );
    assert_eq!(table.restarts, []);
}

#[test]
fn a_log_with_every_line_twice_has_the_same_table() {
    let once = log(&[0, 100, 200, 300], "usec");
    let twice: String = once
        .lines()
        .flat_map(|line| [line, "\n", line, "\n"])
        .collect();
    let (query, _) = query("-h {a}-read -f head");
    let found = [once, twice].map(|text| scan(vec![source(text)], &query).unwrap());
    assert_eq!(
        table(&found[0], &query).slices,
        table(&found[1], &query).slices
    );
    assert!(
        found[1].remarks[0].contains("equal to the one before"),
        "{:?}",
        found[1].remarks
    );
}

#[test]
fn damage_is_counted_and_rotated_files_are_one_log() {
    let text = log(&[0, 100, 200, 300, 400, 500], "usec");
    let whole = table_of(&text, "-h {a}-read -f head");
    let (query, _) = query("-h {a}-read -f head");
    for cut in (900..text.len() - 200).step_by(97) {
        let (first, second) = text.split_at(cut);
        let found = scan(vec![source(second), source(first)], &query).unwrap();
        assert_eq!(table(&found, &query).slices, whole.slices, "cut at {cut}");
    }
    let torn = text.replacen("(03: 0000000200)\n", "(03: 00\n", 1);
    let found = scan(vec![source(torn)], &query).unwrap();
    assert_eq!(
        table(&found, &query)
            .slices
            .iter()
            .map(|slice| slice.seconds)
            .collect::<Vec<_>>(),
        [10, 20, 10, 10]
    );
    assert_eq!(
        found.remarks,
        ["1 histogram without all of its buckets, left out"]
    );
    let mut bytes = Vec::new();
    let nul = (&[0_u8; 3000][..])
        .chain(text.as_bytes())
        .read_to_end(&mut bytes)
        .map(|_| bytes)
        .unwrap();
    let found = scan(vec![source(nul)], &query).unwrap();
    assert_eq!(table(&found, &query).slices, whole.slices);
    assert_contains!(
        found.remarks.join("\n"),
        "skipped 3,000 NUL bytes before lines"
    );
}

#[test]
fn times_are_seconds_or_hours_minutes_seconds() {
    assert_eq!(
        ["3600", "1:00:00", "10:05", " 7 "].map(seconds),
        [Some(3600), Some(3600), Some(605), Some(7)]
    );
    assert_eq!(["", "x", "-5", "1:2:3:4", "1.5"].map(seconds), [None; 5]);
}

#[test]
fn a_dump_with_the_buckets_of_another_histogram_is_left_out_and_is_no_restart() {
    let text = log(&[0, 100, 200, 300, 400], "usec");
    let mixed = text.replacen("(00: 0000000200) (03: 0000000200)", "(01: 0000000400)", 1);
    for name in ["{a}-read", "read"] {
        let table = table_of(&mixed, &format!("-h {name} -f head"));
        let seconds: Vec<_> = table.slices.iter().map(|slice| slice.seconds).collect();
        assert_eq!(
            (seconds, table.restarts),
            (vec![10, 20, 10], vec![]),
            "{name}"
        );
    }
    let (query, _) = query("-h {a}-read -f head");
    let own = HistogramQuery {
        as_asloglatency: false,
        ..query
    };
    assert_contains!(
        scan(vec![source(mixed)], &own).unwrap().remarks.join(" "),
        "1 histogram with the buckets"
    );
    // A file with more namespaces than a server has.
    let many: String = (0..600)
        .map(|n| text.replace("{a}", &format!("{{n{n}}}")))
        .collect();
    results::assert_any_contains!(
        scan(vec![source(many)], &self::query("-h read -f head").0)
            .unwrap()
            .remarks,
        "445 histograms of further namespaces than the first 512, left out"
    );
}

#[test]
fn a_log_with_its_newest_line_first_is_refused() {
    let text = log(&[0, 100, 200, 300, 400], "usec");
    let reversed = text
        .lines()
        .rev()
        .fold(String::new(), |all, line| all + line + "\n");
    let (query, _) = query("-h {a}-read -f head");
    assert_contains!(
        scan(vec![source(reversed)], &query).unwrap_err(),
        "descending order of time"
    );
}

#[test]
fn histograms_behind_two_prefixes_are_refused() {
    let of_pod = |pod: &str, counts: &[u64]| {
        log(counts, "usec").replace("Nov 20", &format!("[pod/{pod}/server] Nov 20"))
    };
    let one = of_pod("a-0", &[0, 100]);
    let other = of_pod("a-1", &[7, 107]);
    let lines = one.lines().zip(other.lines());
    let mixed: String = lines
        .map(|(one, other)| format!("{one}\n{other}\n"))
        .collect();
    let (query, _) = query("-h read -f head");
    assert_eq!(scan(vec![source(&one)], &query).unwrap().number(), 4);
    for sources in [vec![source(mixed)], vec![source(one), source(other)]] {
        assert_contains!(
            scan(sources, &query).unwrap_err(),
            "is of node \"[pod/a-1/server]\", but earlier lines are of node \"[pod/a-0/server]\""
        );
    }
}

#[test]
fn a_server_s_log_is_recognised_behind_prefixes_and_the_json_of_another_program() {
    let stamp = "Nov 20 2026 23:04:05 GMT: INFO (info): (ticker.c:1) end";
    let query_json = "{\n".repeat(40);
    for (text, is_log) in [
        (stamp.to_owned(), true),
        (format!("[pod/aerospike-0/server] {stamp}"), true),
        (format!("2026-11-20T23:04:05.123Z stdout F {stamp}"), true),
        (format!("{query_json}\"log\": \"{stamp}\\n\","), true),
        (
            "ACT version 6.6\nStorage device IO test\n".to_owned(),
            false,
        ),
        (String::new(), false),
    ] {
        assert_eq!(is_server_log(source(&text)), is_log, "{text}");
    }
}

#[test]
fn the_advice_for_a_log_without_a_slice_names_the_cause() {
    let text = log(&[0, 100], "usec");
    let end = text.rfind("Nov 20").unwrap();
    for (text, command, cause, advice) in [
        (
            &text[..end],
            "-h {b}-read -f head",
            "ends within 5 s of its last histogram",
            "give a log that continues",
        ),
        (
            &text[..end],
            "-h read -f head",
            "ends within 5 s of its last histogram",
            "give a log that continues",
        ),
        (
            &text[..],
            "-h {b}-read -f head -t 60",
            "",
            "give a shorter -t, or a longer log",
        ),
        (
            &text[..],
            "-h {b}-read -f -30 -t 60",
            "",
            "give a shorter -t, or an earlier -f",
        ),
    ] {
        let (query, _) = query(command);
        let query = HistogramQuery {
            as_asloglatency: false,
            ..query
        };
        let found = scan(vec![source(text)], &query).unwrap();
        let table = table(&found, &query);
        assert_eq!(table.slices.len(), 0, "{command}");
        assert_contains!(found.no_slice_advice(&table, &query), cause, advice);
    }
}
