//! The two tables of a bench, with the published rows that set the standard: a million transactions per second on one
//! server.

use report::table::Table;
use results::format::{self, Grouped};
use serde::Serialize;
use std::fmt::Write;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) record_size: String,
    pub(super) record_bytes: u32,
    /// Number of servers that hold each record.
    pub(super) copies: u8,
    pub(super) over_loopback: bool,
    pub(super) keys: u32,
    pub(super) transactions_at_once: u32,
    pub(super) cores: u16,
    pub(super) transactions_per_sec: f64,
    /// `None` on a simulated drive, where the CPU time of a transaction is assumed.
    pub(super) transactions_per_cpu: Option<f64>,
    pub(super) inserted_per_sec: f64,
    /// Insertions that the store refused at first because too many waited for the drive (code 18).
    pub(super) inserts_that_waited: u64,
    pub(super) reads: Option<LatencySummary>,
    pub(super) writes: Option<LatencySummary>,
    pub(super) database_bytes: u64,
    pub(super) read_mb_per_sec: f64,
    pub(super) write_mb_per_sec: f64,
    pub(super) average_queue: f64,
    pub(super) average_drive_ms: f64,
    /// `None` on a simulated drive.
    pub(super) cpu_busy_pct: Option<f64>,
    pub(super) limit: String,
    pub(super) outcome: String,
    pub(super) run_directory: String,
    #[serde(skip)]
    pub(super) exit_code: u8,
    pub(super) threshold_ns: u64,
}

/// Reads or writes of a row.
#[derive(Debug, Serialize)]
pub(super) struct LatencySummary {
    /// Share below the lowest threshold.
    pub(super) under_first: f64,
    pub(super) mean_ms: f64,
    pub(super) stddev_ms: f64,
}

/// Published results by record size, per server: "Reaching one million database transactions per second", Intel and
/// Aerospike, 2014: 72 hardware threads and two NVMe drives per node, Aerospike 3.3.40, single bin, 95 % reads, over a
/// network. Each entry: the record size of the rows to compare, the published cells of the first table, and the
/// published cells of the second table, the last of which is per busy thread.
const PUBLISHED: [(&str, [&str; 7], [&str; 6]); 4] = [
    (
        "1k",
        [
            "576",
            "1,124,875",
            "97.16 %",
            "99.9 %",
            "0.79",
            "0.35",
            "100 GB",
        ],
        ["418", "29", "31", "0.11", "93 %", "16,799"],
    ),
    (
        "2k",
        [
            "448", "875,446", "97.33 %", "99.57 %", "0.63", "0.18", "200 GB",
        ],
        ["547", "43", "27", "0.13", "81 %", "15,011"],
    ),
    (
        "4k",
        [
            "384", "581,272", "97.22 %", "99.85 %", "0.63", "0.05", "400 GB",
        ],
        ["653", "52", "20", "0.16", "52 %", "15,525"],
    ),
    (
        "1k-replicated",
        [
            "512",
            "1,003,471",
            "96.11 %",
            "99.98 %",
            "0.87",
            "0.3",
            "200 GB",
        ],
        ["396", "51", "30", "0.13", "94 %", "14,826"],
    ),
];

pub(super) fn text(rows: &[Row]) -> String {
    let threshold = format::duration(rows.first().map_or(0, |row| row.threshold_ns));
    let mut first = Table::new("").text(["record", ""]).numbers([
        "at once".to_owned(),
        "transactions/s".to_owned(),
        format!("reads < {threshold}"),
        format!("writes < {threshold}"),
        "reads std dev, ms".to_owned(),
        "writes std dev, ms".to_owned(),
        "database".to_owned(),
    ]);
    let mut second = Table::new("").text(["record", ""]).numbers([
        "MB/s read",
        "MB/s written",
        "average queue",
        "drive, ms",
        "CPU busy",
        "transactions/s per core",
    ]);
    for row in rows {
        first.row([
            row.record_size.clone(),
            "measured".to_owned(),
            row.transactions_at_once.to_string(),
            Grouped(row.transactions_per_sec as u64).to_string(),
            under_text(&row.reads),
            under_text(&row.writes),
            stddev_text(&row.reads),
            stddev_text(&row.writes),
            format::bytes(row.database_bytes as f64),
        ]);
        second.row([
            row.record_size.clone(),
            "measured".to_owned(),
            format::number(row.read_mb_per_sec),
            format::number(row.write_mb_per_sec),
            format::number(row.average_queue),
            format!("{:.3}", row.average_drive_ms),
            row.cpu_busy_pct
                .map_or_else(|| "-".to_owned(), |pct| format!("{pct:.0} %")),
            row.transactions_per_cpu.map_or_else(
                || "-".to_owned(),
                |per_cpu| Grouped(per_cpu as u64).to_string(),
            ),
        ]);
        if let Some((_, of_first, of_second)) = PUBLISHED
            .iter()
            .find(|(record_size, ..)| *record_size == row.record_size)
        {
            first.row(["", "published"].into_iter().chain(*of_first));
            second.row(["", "published"].into_iter().chain(*of_second));
        }
    }
    // Writing to a string cannot fail.
    let mut text = format!("{first}\n{second}\n");
    for row in rows {
        let _ = writeln!(
            text,
            "{}: {}; limited by {}",
            row.record_size, row.outcome, row.limit
        );
        if row.inserts_that_waited > 0 {
            let waited = row.inserts_that_waited;
            let keys = row.keys.into();
            let per_sec = row.inserted_per_sec as u64;
            let _ = writeln!(
                text,
                "  {} of {} inserts had to wait because of device overload (code 18): {} inserts per second",
                Grouped(waited),
                Grouped(keys),
                Grouped(per_sec)
            );
        }
    }
    text += if rows.iter().any(|row| row.over_loopback) {
        "\nMeasured: clients and servers in this process, on the same CPUs, over loopback; \"per core\" counts only \
             the servers' CPU time.\nReplication: two servers on this machine; each acknowledges a write before the \
             other has the record, as in the published test."
    } else {
        "\nMeasured: a store in this process, no network (with --loopback: a server)."
    };
    text += "\nPublished: over a network, 72 hardware threads and two drives per node (Intel and Aerospike, 2014, \
             below 1 ms);\n\"per core\" is per hardware thread, as if one server did all transactions.\n";
    text
}

fn under_text(latencies: &Option<LatencySummary>) -> String {
    latencies.as_ref().map_or_else(
        || "-".to_owned(),
        |latencies| format::percent(latencies.under_first),
    )
}

fn stddev_text(latencies: &Option<LatencySummary>) -> String {
    latencies.as_ref().map_or_else(
        || "-".to_owned(),
        |latencies| format!("{:.3}", latencies.stddev_ms),
    )
}
