//! Tests of the log, as the sizing commands parse it, and of the latencies for info requests.

use super::*;
use crate::conf::{self, LogLevel};
use crate::namespace::DeviceStatistics;
use crate::{Buckets, ResultCode, StoreStatistics};
use jiff::{SignedDuration, Timestamp};
use sizing::server_log::{self, HistogramUnit};
use sizing::source::InputFile;
use std::io::Cursor;

const CONFIGURATION: &str = "service {\n\tmicrosecond-histograms true\n\tcluster-name one\n}\n\
                             namespace test {\n\tstorage-engine device {\n\t\tdevice /dev/x\n\t\tdevice /dev/y\n\
                             \t\tenable-benchmarks-storage true\n\t}\n}\n";

/// A server with two devices of 1,000 write blocks.
pub(crate) fn facts() -> Facts {
    Facts {
        config: conf::parse(CONFIGURATION.as_bytes()).unwrap().config,
        node: NodeView::alone(0x32C9_0100_0000_FC02, ("127.0.0.1".parse().unwrap(), 3_000)),
        device_bytes: vec![vec![1_000 * (128 << 10); 2]],
        uptime_sec: 0,
        wall_ms: 1_795_000_000_000,
        counts: ServerCounts::default(),
        latencies: Vec::new(),
    }
}

fn buckets(values: &[(u64, u64)]) -> Buckets {
    let mut buckets = Buckets::default();
    for (value, times) in values {
        (0..*times).for_each(|_| buckets.record(*value));
    }
    buckets
}

/// Counts of one of two cores. Each second, clients and defragmentation write 100 blocks, and 100 blocks are freed.
fn core_after(seconds: u64) -> ServerCounts {
    let device = DeviceStatistics {
        used_bytes: 1_000_000,
        free_wblocks: 300,
        pristine_wblocks: 40,
        writes: 30 * seconds,
        defrag_writes: 20 * seconds,
        defrag_reads: 45 * seconds,
        defrag_io_skips: 3 * seconds,
        direct_frees: 5 * seconds,
        read_us: buckets(&[(100, 4 * seconds)]),
        large_block_read_us: buckets(&[(1_000, 42 * seconds)]),
        write_us: buckets(&[(500, 50 * seconds)]),
        ..DeviceStatistics::default()
    };
    let mut namespace = NamespaceCounts {
        store: StoreStatistics {
            objects: 500,
            index_bytes: 32_000,
            devices: vec![device.clone(), device],
            cache_reads: seconds,
            device_reads: 3 * seconds,
            read_bytes: buckets(&[(1_536, 8 * seconds)]),
            write_bytes: buckets(&[(1_100, 10 * seconds)]),
            ..StoreStatistics::default()
        },
        ..NamespaceCounts::default()
    };
    for _ in 0..seconds {
        namespace.record(
            TransactionSource::Client,
            TransactionKind::Read,
            ResultCode::OK,
            0,
        );
        namespace.record(
            TransactionSource::Client,
            TransactionKind::Read,
            ResultCode::NOT_FOUND,
            1,
        );
        namespace.record(
            TransactionSource::Client,
            TransactionKind::Read,
            ResultCode::OK,
            5,
        );
        namespace.record(
            TransactionSource::Client,
            TransactionKind::Read,
            ResultCode::OK,
            1 << 20,
        );
        namespace.record(
            TransactionSource::Client,
            TransactionKind::Write,
            ResultCode::DEVICE_OVERLOAD,
            700,
        );
        namespace.record(
            TransactionSource::Batch,
            TransactionKind::Read,
            ResultCode::TIMEOUT,
            700,
        );
        namespace.record(
            TransactionSource::Client,
            TransactionKind::Delete,
            ResultCode::OK,
            700,
        );
    }
    ServerCounts {
        namespaces: vec![namespace],
        connections_opened: 5,
        connections_closed: 2,
        ..ServerCounts::default()
    }
}

/// Runs a ticker for a minute with two cores' counts ([`core_after`]). Returns the log, and the facts at the end.
fn minute() -> (String, Facts) {
    let begin: Timestamp = "2026-11-20T23:00:00Z".parse().unwrap();
    let mut facts = facts();
    let mut ticker = Ticker::new(500);
    let mut text: String = start_lines(&facts, CONFIGURATION)
        .iter()
        .map(|line| line.stamped(begin, true))
        .collect();
    for seconds in 1..=60 {
        let now_ms = 500 + seconds * 1_000;
        facts.counts = core_after(seconds);
        facts.counts.merge(&core_after(seconds));
        let at = begin + SignedDuration::from_secs(seconds as i64);
        let lines = ticker.tick(now_ms, &mut facts);
        assert_eq!(lines.is_empty(), seconds % 10 > 0);
        // A second call at the same time returns no lines.
        assert!(ticker.tick(now_ms, &mut facts).is_empty());
        lines
            .iter()
            .for_each(|line| text.push_str(&line.stamped(at, true)));
    }
    (text, facts)
}

#[test]
fn the_parser_of_size_profile_reads_the_counts_that_the_server_logs() {
    let (text, _) = minute();
    let free_wblocks = "/dev/x: free-wblocks (520,80) ";
    assert!(text.contains(free_wblocks), "{text}");
    let source = InputFile::new("aerospike.log", Box::new(Cursor::new(text)), "-").unwrap();
    let log = server_log::read(vec![source]).unwrap().remove(0);
    assert_eq!(log.remarks, Vec::<String>::new());
    let start = log.starts.last().expect("a start");
    assert_eq!(start.build.as_deref(), Some(BUILD));
    assert_eq!(log.node_id.as_deref(), Some("32C901000000FC02"));
    assert_eq!(start.write_block_bytes["/dev/y"], 128 << 10);
    assert_eq!(start.configuration["test"]["device"], ["/dev/x", "/dev/y"]);
    let dumps = |name: &str| log.histograms[name].clone();
    let read = dumps("{test}-read");
    assert_eq!(read.len(), 6);
    assert_eq!(read[5].unit, HistogramUnit::Micros);
    assert_eq!(read[5].total, 480);
    assert_eq!(read[5].buckets[0], 120);
    assert_eq!(read[5].buckets[1], 120);
    assert_eq!(read[5].buckets[3], 120);
    assert_eq!(read[5].buckets[21], 120);
    let sizes = dumps("{test}-device-read-size");
    assert_eq!(sizes[0].unit, HistogramUnit::Bytes);
    assert_eq!(sizes[0].total, 160);
    assert_eq!(sizes[0].buckets[11], 160);
    assert_eq!(dumps("{test}-device-write-size")[5].total, 1_200);
    assert_eq!(dumps("{test}-batch-sub-read")[5].total, 120);
    assert!(
        !log.histograms.contains_key("{test}-batch-sub-write"),
        "there were none"
    );
    assert_eq!(dumps("{test}-/dev/y-large-block-read")[5].total, 42 * 120);
    let lines = &log.drives[&("test".to_owned(), "/dev/x".to_owned())];
    let first = &lines[0];
    let last = &lines[2];
    assert_eq!(last.used_bytes, 2_000_000);
    assert_eq!(last.free_wblocks, 600);
    assert_eq!(last.writes, 6_000);
    assert_eq!(last.defrag_writes, Some(2_400));
    let detail = last.detail.unwrap();
    // As in captured logs: while free blocks are constant, written = queued for defragmentation + freed directly.
    let first_detail = first.detail.unwrap();
    let difference = |of: fn(&server_log::DriveLine) -> u64| of(last) - of(first);
    assert_eq!(
        difference(|line| line.writes),
        difference(|line| line.defrag_reads) + detail.direct_frees - first_detail.direct_frees
    );
    let blocks_read = difference(|line| line.defrag_reads)
        - (detail.defrag_io_skips - first_detail.defrag_io_skips);
    assert_eq!(blocks_read, 42 * 2 * 40);
    assert_eq!(last.printed.writes, 100.0);
    assert_eq!(last.printed.direct_frees, Some(10.0));
}

#[test]
fn the_ticker_lines_have_the_current_counts() {
    let (text, _) = minute();
    let last = |what: &str| {
        text.lines()
            .filter_map(|line| line.split_once(what))
            .next_back()
            .map(|(_, rest)| rest)
    };
    assert_eq!(
        last("NODE-ID "),
        Some("32c901000000fc02 CLUSTER-SIZE 1 CLUSTER-NAME one")
    );
    assert_eq!(
        last("fds: "),
        Some("proto (6,10,4) heartbeat (0,0,0) fabric (0,0,0)")
    );
    let found = last("{test} objects: ");
    assert_eq!(found, Some("all 1000 master 1000 prole 0 non-replica 0"));
    assert_eq!(last("index-usage: "), Some("used-bytes 64000 used-pct 0"));
    assert_eq!(
        last("data-usage: "),
        Some("used-bytes 4000000 avail-pct 60 cache-read-pct 25.00")
    );
    let client = "tsvc (0,0) proxy (0,0,0) read (360,0,0,120,0) write (0,120,0,0) delete (120,0,0,0,0) udf (0,0,0,0) lang (0,0,0,0)";
    assert_eq!(last("} client: "), Some(client));
    assert!(last("batch-sub: ").unwrap().contains("read (0,0,120,0,0)"));
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("Nov 20 2026 23:00:00.000 GMT: INFO (as): (as.c:1) <><>"),
        "{first}"
    );
}

#[test]
fn latencies_are_those_of_the_last_interval() {
    let (_, facts) = minute();
    let [(name, read), _, (_, batch_read), (_, batch_write)] = &facts.latencies[..] else {
        panic!()
    };
    // The reads took 0 us, 1 us, 5 us and 1 s: a quarter of the reads each.
    assert_eq!(name.as_str(), "{test}-read");
    assert_eq!(&read[..32], "usec,8.0,75.00,50.00,50.00,25.00");
    assert!(
        read.split(',').count() == 2 + 17 && read.ends_with(",25.00"),
        "{read}"
    );
    assert!(!batch_read.is_empty() && batch_write.is_empty());
}

#[test]
fn a_log_line_goes_only_to_destinations_with_its_level_and_stays_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut config = conf::AerospikeConf::default();
    let to = |name, any, drv_ssd| conf::LogSink {
        path: Some(path(name)),
        any,
        drv_ssd,
    };
    config.logs = vec![
        to("all", LogLevel::Info, Some(LogLevel::Detail)),
        to("few", LogLevel::Warning, None),
    ];
    std::fs::write(path("few"), "before\n").unwrap();
    let mut logs = LogWriter::open(&config)
        .map_err(|(path, error)| format!("{path}: {error}"))
        .unwrap();
    let lines = [
        ServerLogLine::warning("info", "a.c", "torn\nin two\u{1b}[2J".to_owned()),
        ServerLogLine {
            level: LogLevel::Detail,
            ..ServerLogLine::info("drv_ssd", "b.c", "detail".to_owned())
        },
        ServerLogLine {
            level: LogLevel::Detail,
            ..ServerLogLine::info("info", "c.c", "nowhere".to_owned())
        },
    ];
    logs.write("2026-11-01T03:04:05.678Z".parse().unwrap(), &lines)
        .unwrap();
    let text = |name| std::fs::read_to_string(path(name)).unwrap();
    let warning = "Nov 01 2026 03:04:05 GMT: WARNING (info): (a.c:1) torn?in two?[2J\n";
    assert_eq!(
        text("all"),
        format!("{warning}Nov 01 2026 03:04:05 GMT: DETAIL (drv_ssd): (b.c:1) detail\n")
    );
    assert_eq!(text("few"), format!("before\n{warning}"));
    config.logs = vec![to("", LogLevel::Info, None)];
    assert_eq!(LogWriter::open(&config).err().unwrap().0, path(""));
}
