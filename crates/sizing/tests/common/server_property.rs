//! Properties of the readers of server logs, iostat and asloglatency's tables, for any input bytes.

use results::act_log::Compression;
use sizing::loglatency::{self, HistogramQuery, TableStart};
use sizing::profile::derive;
use sizing::profile::sources::{self, ProfileSources};
use sizing::server_log::{self, ServerLog};
use sizing::source::InputFile;
use sizing::{iostat, pasted};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// Bytes that come in small pieces.
struct Pieces(Cursor<Vec<u8>>, usize);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

fn source(name: &str, bytes: &[u8], piece: usize) -> Option<InputFile> {
    InputFile::new(
        name,
        Box::new(Pieces(Cursor::new(bytes.to_vec()), piece)),
        "flashproof",
    )
    .ok()
}

/// Reads `bytes` as a server log, as iostat's output and as a table. Returns true if any reader accepts them.
pub(crate) fn assert_server_property(bytes: &[u8]) -> bool {
    let log = assert_log(bytes);
    let table = assert_table(bytes);
    let iostat = assert_iostat(bytes);
    let pasted = assert_pasted(bytes);
    log | table | iostat | pasted
}

/// Asserts that a profile is derived from the log, or that the error says why not.
fn assert_profile(bytes: &[u8], log: &ServerLog) {
    let iostat = source("a", bytes, usize::MAX).and_then(|source| iostat::read(source, None).ok());
    let iostats: BTreeMap<_, _> = iostat
        .map(|iostat| (derive::id(log), iostat))
        .into_iter()
        .collect();
    let sources = ProfileSources {
        logs: vec![log.clone()],
        iostats,
        ..ProfileSources::default()
    };
    let (stamp, _) = server_log::Stamps::default()
        .split(b"Nov 20 2026 23:12:07 GMT: ")
        .unwrap();
    for at_least_sec in [1, 600] {
        let query = sources::ProfileOptions {
            namespaces: Vec::new(),
            from: None,
            to: None,
            at_least_sec,
            drives: BTreeMap::new(),
            iostat_zone: stamp.offset,
        };
        match derive::profile(&sources, &query) {
            Ok(profile) => {
                for load in &profile.loads {
                    let all = [
                        load.reads_per_sec,
                        load.writes_per_sec,
                        load.large_block_reads_per_sec,
                    ];
                    let all = all.into_iter().chain([load.large_block_writes_per_sec]);
                    assert!(
                        all.into_iter().all(|rate| rate >= 0.0 && rate.is_finite()),
                        "{load:?}"
                    );
                }
            }
            Err(error) => assert_one_line(&error.to_string()),
        }
    }
}

fn read_log(parts: &[(&str, &[u8])], piece: usize) -> Option<Vec<ServerLog>> {
    let sources: Option<Vec<InputFile>> = parts
        .iter()
        .map(|(name, bytes)| source(name, bytes, piece))
        .collect();
    server_log::read(sources?)
        .map_err(|error| assert_one_line(&error.to_string()))
        .ok()
}

fn assert_log(bytes: &[u8]) -> bool {
    let Some(logs) = read_log(&[("a", bytes)], usize::MAX) else {
        return false;
    };
    // The prefixes of the lines of one file may name several nodes.
    assert!(!logs.is_empty());
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    let kept: usize = logs
        .iter()
        .flat_map(|log| {
            let dumps = log.histograms.values().map(Vec::len);
            dumps.chain(log.drives.values().map(Vec::len))
        })
        .sum();
    // Compressed input can have more lines than bytes.
    assert!(kept <= lines || Compression::detect(bytes) != Compression::Plain);
    for log in &logs {
        assert_node(log);
        assert_profile(bytes, log);
    }
    let in_pieces = read_log(&[("a", bytes)], 7).unwrap_or_default();
    assert_eq!(
        format!("{logs:?}"),
        format!("{in_pieces:?}"),
        "the same if read in pieces of 7 bytes"
    );
    if let [log] = &logs[..] {
        assert_rotated(bytes, log);
    }
    true
}

fn assert_node(log: &ServerLog) {
    assert!(log.restarts.is_sorted(), "restarts ascend");
    let restarted = |after, until| {
        log.restarts
            .iter()
            .any(|restart| after < *restart && *restart <= until)
    };
    for dumps in log.histograms.values() {
        for pair in dumps.windows(2) {
            assert!(pair[0].timestamp < pair[1].timestamp, "times ascend");
            let grows = pair[0].total <= pair[1].total;
            assert!(
                grows || restarted(pair[0].timestamp, pair[1].timestamp),
                "counts go back only at a restart"
            );
        }
        let differs = |dump: &server_log::Dump| {
            let counted = dump
                .buckets
                .iter()
                .fold(0_u64, |sum, count| sum.saturating_add(*count));
            dump.total.abs_diff(counted) > dump.total / 1000
        };
        assert!(!dumps.iter().any(differs), "histograms are whole");
    }
    for lines in log.drives.values() {
        for pair in lines.windows(2) {
            assert!(pair[0].timestamp < pair[1].timestamp, "times ascend");
            assert!(
                pair[0].writes <= pair[1].writes || restarted(pair[0].timestamp, pair[1].timestamp)
            );
        }
    }
    log.remarks
        .iter()
        .for_each(|remark| assert_one_line(remark));
}

/// Asserts that a log that is rotated at any byte reads as the same log, if both parts can be read.
fn assert_rotated(bytes: &[u8], log: &ServerLog) {
    let at = bytes.len()
        * usize::from(bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)))
        / 256;
    let plain = Compression::detect(&bytes[at..]) == Compression::Plain;
    if log.remarks.is_empty()
        && plain
        && let Some(two) = read_log(&[("a", &bytes[..at]), ("b", &bytes[at..])], usize::MAX)
        && let [two] = &two[..]
        && two.files == ["a", "b"]
        && two
            .remarks
            .iter()
            .all(|remark| remark.contains("in two parts"))
    {
        assert_eq!(&two.histograms, &log.histograms, "rotated at {at}");
        assert_eq!(&two.drives, &log.drives, "rotated at {at}");
    }
}

fn assert_table(bytes: &[u8]) -> bool {
    let query = HistogramQuery {
        histogram: "{test}-read".to_owned(),
        namespace: None,
        slice_sec: 10,
        start: TableStart::Head,
        duration_sec: None,
        buckets: 8,
        threshold_step: 1,
        as_asloglatency: false,
    };
    let Some(Ok(found)) =
        source("a", bytes, usize::MAX).map(|source| loglatency::scan(vec![source], &query))
    else {
        return false;
    };
    let table = loglatency::table(&found, &query);
    assert!(
        table.slices.is_sorted_by(|a, b| a.to < b.to),
        "times ascend"
    );
    for slice in &table.slices {
        assert!(slice.seconds > 0 && slice.ops_per_sec >= 0.0 && slice.ops_per_sec.is_finite());
        assert!(slice.pct_over.is_sorted_by(|a, b| a >= b));
        assert!(
            slice
                .pct_over
                .iter()
                .all(|pct| *pct >= 0.0 && pct.is_finite())
        );
    }
    let page = format!("{}{table}", query.title("a.log"));
    if let Some((_, rate)) = table
        .average
        .as_ref()
        .filter(|_| table.slices.iter().all(|slice| slice.pct_over[0] <= 100.0))
    {
        let read = pasted::read(source("a", page.as_bytes(), 5).into_iter().collect()).unwrap();
        let dumps = &read.histograms["{test}-read"];
        let seconds = dumps[1]
            .timestamp
            .duration_since(dumps[0].timestamp)
            .as_secs_f64();
        let again = dumps[1].total as f64 / seconds;
        assert!(
            (again - rate).abs() <= 0.1 + rate / 100.0,
            "{again}\n{page}"
        );
    }
    true
}

fn assert_iostat(bytes: &[u8]) -> bool {
    let read = |piece| {
        iostat::read(source("a", bytes, piece)?, None)
            .map_err(|error| assert_one_line(&error.to_string()))
            .ok()
    };
    let Some(found) = read(usize::MAX) else {
        return false;
    };
    for device in found.reports.iter().flat_map(|report| &report.devices) {
        let others = [device.flushes_per_sec, device.discards_per_sec]
            .into_iter()
            .flatten();
        let mut numbers = device.io.numbers().into_iter().chain(others);
        assert!(
            numbers.all(|number| number >= 0.0 && number.is_finite()),
            "{device:?}"
        );
    }
    found
        .remarks
        .iter()
        .for_each(|remark| assert_one_line(remark));
    let in_pieces = read(7).unwrap_or_default();
    assert_eq!(
        format!("{found:?}"),
        format!("{in_pieces:?}"),
        "the same if read in pieces of 7 bytes"
    );
    true
}

fn assert_pasted(bytes: &[u8]) -> bool {
    let read = |piece| pasted::read(source("a", bytes, piece).into_iter().collect());
    let log = read(usize::MAX).map_err(|error| assert_one_line(&error.to_string()));
    let Ok(log) = log else { return false };
    assert_profile(bytes, &log);
    let times_ascend =
        |dumps: &Vec<server_log::Dump>| dumps.is_sorted_by(|a, b| a.timestamp < b.timestamp);
    assert!(log.histograms.values().all(times_ascend), "{log:?}");
    assert_eq!(
        format!("{log:?}"),
        format!("{:?}", read(7).unwrap()),
        "the same if read in pieces of 7 bytes"
    );
    log.is_averages
}

fn assert_one_line(message: &str) {
    assert!(!message.contains(char::is_control), "one line: {message:?}");
    assert!(
        message.len() < 4096,
        "a message can be read: {} bytes",
        message.len()
    );
}
