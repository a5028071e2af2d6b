//! Output of a trace: as tables and a heat map, as CSV, as JSON, and as one line per operation.

use super::summary::{Kind, RequestTimes, SizeTotals, Summary};
use device::discover::DeviceNumber;
use device::observe::trace::{BlockRequest, EventOp, Flags};
use report::table::Table;
use results::format::{self, Grouped};
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
    pub lost: u64,
}

impl TraceReport<'_> {
    fn name(&self, device: DeviceNumber) -> String {
        // The text is drawn on a terminal, so a name must not move the cursor.
        self.names.get(&device).map_or_else(
            || device.traced(),
            |name| format::printable(name).into_owned(),
        )
    }

    fn per_sec(&self, count: f64) -> Option<f64> {
        self.seconds
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| count / seconds)
    }

    /// Page for a terminal. `colour`: with escape sequences.
    pub fn text(&self, colour: bool) -> String {
        let mut page = String::new();
        let count = format::count(self.summary.count(), "request");
        let length = self
            .seconds
            .map_or("of unknown length".to_owned(), |seconds| {
                format!("in {} s", format::number(seconds))
            });
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "{count} {length}");
        if self.lost > 0 {
            let _ = writeln!(
                page,
                "INCOMPLETE: {} lost; counts are too low, and times can be wrong",
                format::count(self.lost, "event")
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
        if self.summary.failed > 0 {
            let _ = writeln!(
                page,
                "{} failed; the kernel log (dmesg) has the reason",
                format::count(self.summary.failed, "request")
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

    fn kinds(&self) -> Table {
        let rate = |count: f64| self.per_sec(count).map_or("-".to_owned(), format::number);
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
                    .map_or("-".to_owned(), format::number),
            );
            for (times, quantiles) in [
                (&size.queue, &[0.5, 0.99, 1.0][..]),
                (&size.device, &[0.5, 0.99, 0.999, 1.0]),
            ] {
                row.extend(
                    quantiles
                        .iter()
                        .map(|at| times.quantile(*at).map_or("-".to_owned(), format::duration)),
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

    fn by_size(&self) -> impl Iterator<Item = (DeviceNumber, EventOp, &Kind, u64, &SizeTotals)> {
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
            let share = format::percent_digits(totals.count as f64 / total);
            [
                comm(&task.comm()),
                pid,
                Grouped(totals.count).to_string(),
                share,
                format::bytes(totals.bytes as f64),
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
        let tasks = self.summary.top_tasks(TASKS_SHOWN).into_iter().map(|(task, requested)| {
            json!({"comm": task.comm(), "pid": task.pid, "count": requested.count, "bytes": requested.bytes})
        });
        json!({
            "seconds": self.seconds,
            "lost_events": self.lost,
            "count": self.summary.count(),
            "not_completed": self.summary.unfinished(),
            "failed": self.summary.failed,
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
    format!("{} %", format::percent_digits(share))
}

fn times_json(times: &RequestTimes) -> Value {
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
    match format::printable(name).trim() {
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

pub fn op(request: &BlockRequest) -> String {
    let ms = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6));
    ops_line([
        request
            .issued_ns
            .map_or("-".to_owned(), |ns| format!("{:.6}", ns as f64 / 1e9)),
        comm(&request.task.comm()),
        request.task.pid.to_string(),
        letters(request),
        request.device.traced(),
        request.sector.to_string(),
        request.bytes().to_string(),
        ms(request.queue_ns()),
        ms(request.device_ns),
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
