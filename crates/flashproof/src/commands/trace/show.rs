//! Output of a trace: as tables and a heat map, as CSV, as JSON, and as one line per operation.

use super::summary::{Kind, Size, Summary, Times};
use device::discover::DeviceNumber;
use device::observe::trace::{BlockRequest, EventOp, Flags};
use report::table::Table;
use results::units::{self, Grouped};
use serde_json::{Value, json};
use session::failure::Failure;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of processes in the table.
const TASKS_SHOWN: usize = 10;

/// Name prefixes of kernel threads that issue requests or write back pages for other processes.
const KERNEL_THREADS: [&str; 8] = [
    "kworker/",
    "ksoftirqd/",
    "swapper/",
    "jbd2/",
    "kswapd",
    "xfsaild/",
    "txg_sync",
    "dmcrypt_write/",
];

/// A trace's summary, with facts that its numbers depend on.
pub struct TraceReport<'a> {
    pub summary: &'a Summary,
    /// Names of devices; other devices are shown by their numbers.
    pub names: BTreeMap<DeviceNumber, String>,
    /// Duration, seconds; `None` if no times are known.
    pub seconds: Option<f64>,
    /// Lost events.
    pub lost: u64,
}

impl TraceReport<'_> {
    fn name(&self, device: DeviceNumber) -> String {
        // The text is drawn on a terminal, so a name must not move the cursor.
        self.names.get(&device).map_or_else(
            || device.traced(),
            |name| units::printable(name).into_owned(),
        )
    }

    /// A count as a rate.
    fn per_sec(&self, count: f64) -> Option<f64> {
        self.seconds
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| count / seconds)
    }

    /// Page for a terminal. `colour`: with escape sequences.
    pub fn text(&self, colour: bool) -> String {
        let mut page = String::new();
        let count = units::count(self.summary.count(), "request");
        let length = self
            .seconds
            .map_or("of unknown length".to_owned(), |seconds| {
                format!("in {} s", units::number(seconds))
            });
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "{count} {length}");
        if self.lost > 0 {
            let _ = writeln!(
                page,
                "INCOMPLETE: {} lost; counts are too low, and times can be wrong",
                units::count(self.lost, "event")
            );
        }
        let unfinished = self.summary.unfinished();
        if unfinished > 0 {
            let _ = writeln!(
                page,
                "requests without a completion in the trace: {}; their device times are missing",
                Grouped(unfinished)
            );
        }
        let _ = write!(
            page,
            "\n{}\n{}\nBy issuing process:\n{}",
            self.kinds(),
            self.sizes(),
            self.tasks()
        );
        let map = self.summary.heat.draw(colour);
        if !map.is_empty() {
            let _ = write!(page, "\nDevice time over time:\n{map}");
        }
        page
    }

    /// Table of the kinds of requests.
    fn kinds(&self) -> Table {
        let rate = |count: f64| self.per_sec(count).map_or("-".to_owned(), units::number);
        Table::new("")
            .text(["device", "type"])
            .numbers([
                "count",
                "/s",
                "MB/s",
                "sync",
                "FUA",
                "preflush",
                "metadata",
                "sequential",
            ])
            .rows(self.summary.kinds.iter().map(
                |((device, op), kind): (&(DeviceNumber, EventOp), &Kind)| {
                    let totals = kind.totals;
                    let share_of = |part| share_text(part, kind.totals.count);
                    [
                        self.name(*device),
                        word(*op).to_owned(),
                        Grouped(totals.count).to_string(),
                        rate(totals.count as f64),
                        rate(totals.bytes as f64 / 1e6),
                        share_of(kind.sync),
                        share_of(kind.fua),
                        share_of(kind.preflush),
                        share_of(kind.meta),
                        share_of(kind.sequential),
                    ]
                },
            ))
    }

    /// Table of times by size.
    fn sizes(&self) -> Table {
        let rows = self.by_size().map(|(device, op, kind, bytes, size)| {
            let mut row = vec![
                self.name(device),
                word(op).to_owned(),
                size_text(kind, bytes),
                Grouped(size.totals.count).to_string(),
            ];
            row.push(
                self.per_sec(size.totals.count as f64)
                    .map_or("-".to_owned(), units::number),
            );
            for (times, quantiles) in [
                (&size.queue, &[0.5, 0.99, 1.0][..]),
                (&size.device, &[0.5, 0.99, 0.999, 1.0]),
            ] {
                row.extend(
                    quantiles
                        .iter()
                        .map(|at| times.quantile(*at).map_or("-".to_owned(), units::duration)),
                );
            }
            row
        });
        Table::new("")
            .text(["device", "type"])
            .numbers([
                "bytes",
                "count",
                "/s",
                "queue p50",
                "p99",
                "max",
                "device p50",
                "p99",
                "p99.9",
                "max",
            ])
            .rows(rows)
    }

    fn by_size(&self) -> impl Iterator<Item = (DeviceNumber, EventOp, &Kind, u64, &Size)> {
        let kinds = self.summary.kinds.iter();
        kinds.flat_map(|((device, op), kind)| {
            kind.sizes
                .iter()
                .map(move |(bytes, size)| (*device, *op, kind, *bytes, size))
        })
    }

    fn tasks(&self) -> String {
        let top = self.summary.top_tasks(TASKS_SHOWN);
        let total = self.summary.count().max(1) as f64;
        let rows = top.iter().map(|(task, totals)| {
            let pid = if task.pid == 0 {
                "-".to_owned()
            } else {
                task.pid.to_string()
            };
            let share = units::percent_digits(totals.count as f64 / total);
            [
                comm(&task.comm()),
                pid,
                Grouped(totals.count).to_string(),
                share,
                units::bytes(totals.bytes as f64),
            ]
        });
        let table = Table::new("")
            .text(["comm"])
            .numbers(["pid", "count", "%", "bytes"])
            .rows(rows)
            .to_string();
        let kernels = top.iter().any(|(task, _)| {
            KERNEL_THREADS
                .iter()
                .any(|name| task.comm().starts_with(name))
        });
        if kernels {
            table
                + "Kernel threads (kworker...) write back the page cache, flush after writes, and issue delayed \
                       requests:\nthe process that caused these requests is unknown.\n"
        } else {
            table
        }
    }

    /// A row for each kind and size.
    pub fn csv(&self) -> Result<String, Failure> {
        let us = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{:.3}", ns as f64 / 1e3));
        let rows = self.by_size().map(|(device, op, kind, bytes, size)| {
            let bytes_to = if kind.is_grouped && bytes > 0 {
                2 * bytes - 1
            } else {
                bytes
            };
            let mut row = vec![
                self.name(device),
                word(op).to_owned(),
                bytes.to_string(),
                bytes_to.to_string(),
            ];
            row.extend([size.totals.count.to_string(), size.totals.bytes.to_string()]);
            row.push(
                self.seconds
                    .map_or(String::new(), |seconds| format!("{seconds:.6}")),
            );
            row.extend(QUANTILES.map(|(_, at)| us(size.queue.quantile(at))));
            row.extend(QUANTILES.map(|(_, at)| us(size.device.quantile(at))));
            row.extend([size.device.len().to_string(), self.lost.to_string()]);
            row
        });
        let times =
            |what: &'static str| QUANTILES.map(move |(name, _)| format!("{what}_{name}_us"));
        let table = Table::new("")
            .text([
                "device",
                "type",
                "bytes_from",
                "bytes_to",
                "count",
                "bytes",
                "seconds",
            ])
            .text(times("queue"))
            .text(times("device"))
            .text(["completed", "lost_events"])
            .rows(rows);
        table.csv().map_err(Failure::environment)
    }

    pub fn json(&self) -> Value {
        let kinds = self.summary.kinds.iter().map(|((device, op), kind)| {
            let sizes = kind.sizes.iter().map(|(bytes, size)| {
                json!({
                    "bytes": bytes,
                    "count": size.totals.count,
                    "bytes_moved": size.totals.bytes,
                    "queue": times_json(&size.queue),
                    "device": times_json(&size.device),
                })
            });
            json!({
                "device": self.name(*device),
                "number": device.traced(),
                "type": word(*op),
                "count": kind.totals.count,
                "bytes_moved": kind.totals.bytes,
                "sync": kind.sync,
                "fua": kind.fua,
                "preflush": kind.preflush,
                "metadata": kind.meta,
                "sequential": kind.sequential,
                "sizes_are_powers_of_two": kind.is_grouped,
                "sizes": sizes.collect::<Vec<_>>(),
            })
        });
        let tasks = self.summary.top_tasks(TASKS_SHOWN).into_iter().map(|(task, wanted)| {
            json!({"comm": task.comm(), "pid": task.pid, "count": wanted.count, "bytes": wanted.bytes})
        });
        json!({
            "seconds": self.seconds,
            "lost_events": self.lost,
            "count": self.summary.count(),
            "not_completed": self.summary.unfinished(),
            "kinds": kinds.collect::<Vec<_>>(),
            "top_processes": tasks.collect::<Vec<_>>(),
        })
    }
}

/// `part` of `total` in percent; `-` for nothing.
fn share_text(part: u64, total: u64) -> String {
    if part == 0 {
        return "-".to_owned();
    }
    let share = part as f64 / total.max(1) as f64;
    format!("{} %", units::percent_digits(share))
}

fn times_json(times: &Times) -> Value {
    let mut numbers = serde_json::Map::new();
    numbers.insert("count".to_owned(), json!(times.len()));
    for (name, at) in QUANTILES {
        numbers.insert(format!("{name}_ns"), json!(times.quantile(at)));
    }
    Value::Object(numbers)
}

/// Quantiles in the output for programs.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// Operation of a request, one word.
fn word(op: EventOp) -> &'static str {
    match op {
        EventOp::Read => "read",
        EventOp::Write => "write",
        EventOp::Flush => "flush",
        EventOp::Discard => "discard",
        EventOp::Other => "other",
    }
}

/// A size, or the start of its power-of-two group.
fn size_text(kind: &Kind, bytes: u64) -> String {
    if kind.is_grouped {
        format!("{}+", Grouped(bytes))
    } else {
        Grouped(bytes).to_string()
    }
}

/// A process's name on one line: names may contain any character.
fn comm(name: &str) -> String {
    match units::printable(name).trim() {
        "" => "<...>".to_owned(),
        name => name.replace(['\n', '\t'], " "),
    }
}

/// Heading of the operation lines: the columns of iosnoop, and the time in the queue.
pub fn ops_heading() -> String {
    ops_line(
        [
            "STARTs", "COMM", "PID", "TYPE", "DEV", "BLOCK", "BYTES", "QUEms", "LATms",
        ]
        .map(str::to_owned),
    )
}

/// Output line of a request.
pub fn op(request: &BlockRequest) -> String {
    let ms = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6));
    ops_line([
        format!("{:.6}", request.issued_ns as f64 / 1e9),
        comm(&request.task.comm()),
        request.task.pid.to_string(),
        letters(request),
        request.device.traced(),
        request.sector.to_string(),
        request.bytes().to_string(),
        ms(request.queue_ns()),
        ms(request.device_ns()),
    ])
}

fn ops_line([start, comm, pid, kind, device, block, bytes, queue, latency]: [String; 9]) -> String {
    format!(
        "{start:<15} {comm:<16} {pid:<7} {kind:<5} {device:<7} {block:<12} {bytes:<8} {queue:>8} {latency:>9}\n"
    )
}

/// The kernel's letters for the flags of a request.
fn letters(request: &BlockRequest) -> String {
    let BlockRequest {
        op,
        flags:
            Flags {
                preflush,
                fua,
                sync,
                meta,
            },
        ..
    } = request;
    let mut text = if *preflush {
        "F".to_owned()
    } else {
        String::new()
    };
    text.push(match op {
        EventOp::Read => 'R',
        EventOp::Write => 'W',
        EventOp::Flush => 'F',
        EventOp::Discard => 'D',
        EventOp::Other => 'N',
    });
    text.extend(
        [(fua, 'F'), (sync, 'S'), (meta, 'M')]
            .into_iter()
            .filter(|(is, _)| **is)
            .map(|(_, letter)| letter),
    );
    text
}

/// Maximum number of columns; the terminal shows all of them.
pub const COLUMNS: usize = 64;
/// Initial width of a column, nanoseconds.
const FIRST_WIDTH_NS: u64 = 1_000_000;
/// Rows: below 2 us, and each power of two up to 2^24 us (17 s) and more.
const ROWS: usize = 25;

/// Shades of a cell without colour, from no requests to the most.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// Shades of a cell among the 256 terminal colours, from few requests (dark) to the most (bright).
const COLOURS: [u8; 8] = [17, 19, 55, 91, 127, 163, 203, 220];

/// Numbers of requests, by start time and device time.
#[derive(Debug, Clone)]
pub struct Heat {
    columns: Vec<[u64; ROWS]>,
    width_ns: u64,
    /// Start of the first column.
    start_ns: Option<u64>,
}

impl Default for Heat {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            width_ns: FIRST_WIDTH_NS,
            start_ns: None,
        }
    }
}

impl Heat {
    /// Counts a request that began at `at_ns`.
    pub fn add(&mut self, at_ns: u64, device_ns: u64) {
        let start_ns = *self.start_ns.get_or_insert(at_ns);
        // Requests are added at completion, so the first request added may not be the first that began.
        let after_ns = at_ns.saturating_sub(start_ns);
        while after_ns / self.width_ns >= COLUMNS as u64 {
            self.halve();
        }
        let column = (after_ns / self.width_ns) as usize;
        if column >= self.columns.len() {
            self.columns.resize(column + 1, [0; ROWS]);
        }
        let row = (device_ns / 1_000).checked_ilog2().unwrap_or(0) as usize;
        self.columns[column][row.min(ROWS - 1)] += 1;
    }

    fn halve(&mut self) {
        self.columns = self
            .columns
            .chunks(2)
            .map(|two: &[[u64; ROWS]]| {
                std::array::from_fn(|row| two.iter().map(|column| column[row]).sum())
            })
            .collect();
        self.width_ns *= 2;
    }

    /// Draws the map; empty without requests. With `colour`, terminal escape sequences are used.
    pub fn draw(&self, colour: bool) -> String {
        let rows_in_use: Vec<usize> = (0..ROWS)
            .filter(|row| self.columns.iter().any(|column| column[*row] > 0))
            .collect();
        let (Some(first), Some(last)) = (rows_in_use.first(), rows_in_use.last()) else {
            return String::new();
        };
        let max_count = self.columns.iter().flatten().copied().max().unwrap_or(0);
        let mut text = String::new();
        for row in (*first..=*last).rev() {
            let from_ns = if row == 0 { 0 } else { 1_000 << row };
            let line: String = self
                .columns
                .iter()
                .map(|column| cell(column[row], max_count, colour))
                .collect();
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "{:>8} |{}", units::duration(from_ns), line.trim_end());
        }
        let length = units::span_of(self.columns.len() as f64 * self.width_ns as f64 / 1e9);
        let _ = writeln!(text, "{:>8} +{}", "", "-".repeat(self.columns.len()));
        let width = self.columns.len().saturating_sub(1).max(length.len() + 1);
        let _ = writeln!(text, "{:>10}0{length:>width$}", "");
        text
    }
}

/// A cell: brightness is logarithmic in the count, so that one slow request among thousands is visible.
fn cell(count: u64, max_count: u64, colour: bool) -> String {
    if count == 0 {
        return " ".to_owned();
    }
    let share = (count as f64).ln_1p() / (max_count as f64).ln_1p();
    let step = |steps: usize| ((share * steps as f64).ceil() as usize).clamp(1, steps) - 1;
    if colour {
        format!("\x1b[48;5;{}m \x1b[0m", COLOURS[step(COLOURS.len())])
    } else {
        SHADES[1 + step(SHADES.len() - 1)].to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_of_any_length_fits_and_no_request_is_lost() {
        let mut heat = Heat::default();
        for second in 0..10_000_u64 {
            heat.add(5 + second * 1_000_000_000, 300_000);
        }
        assert!(heat.columns.len() <= COLUMNS);
        assert_eq!(heat.columns.iter().flatten().sum::<u64>(), 10_000);
        heat.add(u64::MAX, u64::MAX);
        assert!(heat.columns.len() <= COLUMNS);
    }

    #[test]
    fn slow_ones_stand_above_quick_ones_and_later_ones_to_the_right() {
        let mut heat = Heat::default();
        (0..100).for_each(|_| heat.add(1_000_000, 70_000));
        heat.add(3_500_000, 300_000);
        let map = "  256 us |  ░\n  128 us |\n   64 us |█\n         +---\n          0 0.003 s\n";
        assert_eq!(heat.draw(false), map);
        assert!(
            heat.draw(true).contains("\x1b[48;5;220m \x1b[0m"),
            "{:?}",
            heat.draw(true)
        );
        assert_eq!(Heat::default().draw(false), "");
    }
}
