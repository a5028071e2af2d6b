//! Periodic lines of the server's log: counters (the ticker), histograms, and a line for each device. Also computes the
//! latencies of each interval, and writes the lines to their destinations.

use super::{BUILD, Facts, Migration, NamespaceCounts, Outcomes, TransactionCounts};
use crate::conf::{AerospikeConf, LogLevel, LogSink};
use crate::namespace::DeviceStatistics;
use crate::{Buckets, Losses, PARTITIONS, StoreStatistics};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use results::files::{self, ReplaceTarget};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// Ticker intervals between two lines of a device: 20 s by default, as in the real server.
const DEVICES_EVERY: u64 = 2;

#[derive(Debug, Default)]
pub struct Ticker {
    begin_ms: u64,
    ticks: u64,
    device_ticks: u64,
    /// The previous tick: its time and counts.
    previous: (u64, Vec<NamespaceCounts>),
    previous_devices: Vec<Vec<DeviceStatistics>>,
}

impl Ticker {
    /// A ticker that begins at `now_ms`, on any monotonic clock.
    pub fn new(now_ms: u64) -> Self {
        Self {
            begin_ms: now_ms,
            previous: (now_ms, Vec::new()),
            ..Self::default()
        }
    }

    fn ticker_due(&self, facts: &Facts) -> u64 {
        self.begin_ms + (self.ticks + 1) * ticker_ms(facts)
    }

    fn devices_due(&self, facts: &Facts) -> u64 {
        self.begin_ms + (self.device_ticks + 1) * DEVICES_EVERY * ticker_ms(facts)
    }

    /// The lines due at `now_ms`. When the ticker is due, also sets the latencies of `facts` for the ended interval.
    pub fn tick(&mut self, now_ms: u64, facts: &mut Facts) -> Vec<ServerLogLine> {
        let mut lines = Vec::new();
        if now_ms >= self.devices_due(facts) {
            self.device_ticks = (now_ms - self.begin_ms) / (DEVICES_EVERY * ticker_ms(facts));
            self.devices(facts, &mut lines);
        }
        if now_ms >= self.ticker_due(facts) {
            self.ticks = (now_ms - self.begin_ms) / ticker_ms(facts);
            node_lines(facts, &mut lines);
            for index in 0..facts.config.namespaces.len() {
                self.namespace_lines(facts, index, &mut lines);
            }
            facts.latencies = self.latencies(now_ms, facts);
            self.previous = (now_ms, facts.counts.namespaces.clone());
        }
        lines
    }

    fn devices(&mut self, facts: &Facts, lines: &mut Vec<ServerLogLine>) {
        let default = DeviceStatistics::default();
        // As in the real server, rates are per second of the nominal interval, not of the measured time.
        let seconds = (DEVICES_EVERY * ticker_ms(facts)) as f64 / 1_000.0;
        for (index, (namespace, counts)) in facts
            .config
            .namespaces
            .iter()
            .zip(&facts.counts.namespaces)
            .enumerate()
        {
            let name = &namespace.settings.name;
            for (device, (path, now)) in namespace
                .devices
                .iter()
                .zip(&counts.store.devices)
                .enumerate()
            {
                let previous = self
                    .previous_devices
                    .get(index)
                    .and_then(|devices| devices.get(device))
                    .unwrap_or(&default);
                let &DeviceStatistics {
                    used_bytes,
                    free_wblocks,
                    pristine_wblocks,
                    write_q,
                    defrag_q,
                    ..
                } = now;
                let write = format_rate(
                    now.writes + now.defrag_writes,
                    previous.writes + previous.defrag_writes,
                    seconds,
                );
                let read = format_rate(now.defrag_reads, previous.defrag_reads, seconds);
                let defrag_write = format_rate(now.defrag_writes, previous.defrag_writes, seconds);
                let text = format!(
                    "{{{name}}} {path}: used-bytes {used_bytes} free-wblocks {free_wblocks} write-q {write_q} write {write} \
                     defrag-q {defrag_q} defrag-read {read} defrag-write {defrag_write}"
                );
                lines.push(ServerLogLine::info("drv_ssd", "drv_ssd.c", text));
                let queued = free_wblocks.saturating_sub(pristine_wblocks);
                let skips = format_rate(now.defrag_io_skips, previous.defrag_io_skips, seconds);
                let frees = format_rate(now.direct_frees, previous.direct_frees, seconds);
                let free = format!("free-wblocks ({queued},{pristine_wblocks})");
                let text = format!(
                    "{{{name}}} {path}: {free} defrag-io-skips {skips} direct-frees {frees}"
                );
                lines.push(ServerLogLine {
                    level: LogLevel::Detail,
                    ..ServerLogLine::info("drv_ssd", "drv_ssd.c", text)
                });
                if free_wblocks == 0 {
                    let text = format!("{{{name}}} {path}: out of storage space");
                    lines.push(ServerLogLine::warning("drv_ssd", "drv_ssd.c", text));
                }
            }
        }
        self.previous_devices = facts
            .counts
            .namespaces
            .iter()
            .map(|counts| counts.store.devices.clone())
            .collect();
    }

    fn namespace_lines(&self, facts: &Facts, index: usize, lines: &mut Vec<ServerLogLine>) {
        let namespace = &facts.config.namespaces[index];
        let name = &namespace.settings.name;
        let default = NamespaceCounts::default();
        let counts = facts.counts.namespaces.get(index).unwrap_or(&default);
        let store = &counts.store;
        let mut push_line = |text: String| {
            lines.push(ServerLogLine::info(
                "info",
                "ticker.c",
                format!("{{{name}}} {text}"),
            ))
        };
        let [masters, replicas, others] = facts.split_objects(index);
        push_line(format!(
            "objects: all {} master {masters} prole {replicas} non-replica {others}",
            store.objects
        ));
        if store.tombstones > 0 {
            let all = store.tombstones;
            push_line(format!(
                "tombstones: all {all} xdr (0,0) master {all} prole 0 non-replica 0"
            ));
        }
        let Migration {
            tx_remaining,
            rx_remaining,
            ..
        } = counts.migration;
        let remaining = tx_remaining + rx_remaining;
        if remaining == 0 {
            push_line("migrations: complete".to_owned());
        } else {
            let tx = u64::from(tx_remaining > 0);
            let rx = u64::from(rx_remaining > 0);
            let pct =
                100.0 - remaining.min(PARTITIONS.into()) as f64 * 100.0 / f64::from(PARTITIONS);
            let active = format!("active ({tx},{rx},0) complete-pct {pct:.2}");
            push_line(format!(
                "migrations: remaining ({tx_remaining},{rx_remaining},0) {active}"
            ));
        }
        let index_bytes = store.index_bytes;
        let budget = namespace.settings.memory_bytes.max(1);
        let used_pct = u128::from(index_bytes) * 100 / u128::from(budget);
        push_line(format!(
            "index-usage: used-bytes {index_bytes} used-pct {used_pct}"
        ));
        let used: u64 = store.devices.iter().map(|device| device.used_bytes).sum();
        let cached = cache_read_pct(
            store,
            self.previous.1.get(index).map(|before| &before.store),
        );
        let available = facts.available_pct(index);
        push_line(format!(
            "data-usage: used-bytes {used} avail-pct {available} cache-read-pct {cached:.2}"
        ));
        if store.losses.blocks > 0 {
            let Losses {
                blocks,
                bytes,
                records,
            } = store.losses;
            push_line(format!(
                "accepted-losses: blocks {blocks} bytes {bytes} records-max {records}"
            ));
        }
        let origins = [
            ("client", &counts.client),
            ("batch-sub", &counts.batch_sub),
            ("from-proxy", &counts.from_proxy),
        ];
        for (origin, origin_counts) in origins {
            if let Some(text) = transactions(origin_counts) {
                push_line(format!("{origin}: {text}"));
            }
        }
        if counts.key_busy + counts.record_too_big > 0 {
            let busy = counts.key_busy;
            let big = counts.record_too_big;
            push_line(format!(
                "special-errors: key-busy {busy} record-too-big {big} lost-conflict (0,0)"
            ));
        }
        if store.stop_writes {
            let text = format!(
                "{{{name}}} writes are refused: too few free blocks, or too little memory for the index"
            );
            lines.push(ServerLogLine::warning("nsup", "nsup.c", text));
        }
        let unit = unit(facts);
        for (suffix, times) in times(counts) {
            if total(times) > 0 {
                histogram(lines, &format!("{{{name}}}-{suffix}"), unit, times);
            }
        }
        histogram(
            lines,
            &format!("{{{name}}}-device-read-size"),
            "bytes",
            &store.read_bytes,
        );
        histogram(
            lines,
            &format!("{{{name}}}-device-write-size"),
            "bytes",
            &store.write_bytes,
        );
        if namespace.benchmarks_storage {
            for (path, device) in namespace.devices.iter().zip(&store.devices) {
                histogram(
                    lines,
                    &format!("{{{name}}}-{path}-read"),
                    "usec",
                    &device.read_us,
                );
                histogram(
                    lines,
                    &format!("{{{name}}}-{path}-large-block-read"),
                    "usec",
                    &device.large_block_read_us,
                );
                histogram(
                    lines,
                    &format!("{{{name}}}-{path}-write"),
                    "usec",
                    &device.write_us,
                );
            }
        }
    }

    fn latencies(&self, now_ms: u64, facts: &Facts) -> Vec<(String, String)> {
        let (then_ms, previous) = &self.previous;
        let seconds = now_ms.saturating_sub(*then_ms).max(1) as f64 / 1_000.0;
        let mut latencies = Vec::new();
        let empty = NamespaceCounts::default();
        for (index, (namespace, counts)) in facts
            .config
            .namespaces
            .iter()
            .zip(&facts.counts.namespaces)
            .enumerate()
        {
            let previous_times = times(previous.get(index).unwrap_or(&empty));
            for ((suffix, now), (_, before)) in times(counts).into_iter().zip(previous_times) {
                let name = format!("{{{}}}-{suffix}", namespace.settings.name);
                let is_used = total(now) > 0;
                latencies.push((
                    name,
                    if is_used {
                        latency(unit(facts), seconds, now, before)
                    } else {
                        String::new()
                    },
                ));
            }
        }
        latencies
    }
}

/// Number of thresholds of a latency: 1, 2, 4 and so on, in the unit of the latency.
const COLUMNS: usize = 17;

/// Latencies between two counts: unit, transactions/s, percentage of transactions at or above each threshold.
fn latency(unit: &str, seconds: f64, now: &Buckets, before: &Buckets) -> String {
    let differences = now
        .counts
        .iter()
        .zip(before.counts)
        .map(|(now, before)| now.saturating_sub(before));
    let differences: Vec<u64> = differences.collect();
    let total_count: u64 = differences.iter().sum();
    let mut text = format!("{unit},{:.1}", total_count as f64 / seconds);
    for column in 0..COLUMNS {
        // Bucket b begins at 2^(b-1), so values of at least 2^column are in the buckets after `column`.
        let over: u64 = differences[column + 1..].iter().sum();
        let _ = write!(
            text,
            ",{:.2}",
            over as f64 * 100.0 / total_count.max(1) as f64
        );
    }
    text
}

fn ticker_ms(facts: &Facts) -> u64 {
    u64::from(facts.config.ticker_interval_sec) * 1_000
}

/// A counter and its increase per second: `(1520,3.5)`.
fn format_rate(counter: u64, previous: u64, seconds: f64) -> String {
    let rate = counter.saturating_sub(previous) as f64 / seconds;
    format!("({counter},{rate:.1})")
}

fn unit(facts: &Facts) -> &'static str {
    if facts.config.microsecond_histograms {
        "usec"
    } else {
        "msec"
    }
}

/// Times of a namespace's transactions, with the real server's names.
fn times(counts: &NamespaceCounts) -> [(&'static str, &Buckets); 4] {
    [
        ("read", &counts.client.read_times),
        ("write", &counts.client.write_times),
        ("batch-sub-read", &counts.batch_sub.read_times),
        ("batch-sub-write", &counts.batch_sub.write_times),
    ]
}

fn total(buckets: &Buckets) -> u64 {
    buckets.counts.iter().sum()
}

/// Percentage of reads since `before` that were answered from memory.
fn cache_read_pct(now: &StoreStatistics, before: Option<&StoreStatistics>) -> f64 {
    let before = before.map_or((0, 0), |before| (before.cache_reads, before.device_reads));
    let cached = now.cache_reads.saturating_sub(before.0);
    let reads = cached + now.device_reads.saturating_sub(before.1);
    cached as f64 * 100.0 / reads.max(1) as f64
}

/// The part of a ticker line from `tsvc (..)` to `lang (..)`; `None` if there was no transaction.
fn transactions(counts: &TransactionCounts) -> Option<String> {
    let all = |of: &Outcomes| of.success + of.error + of.timeout + of.not_found;
    let three = |of: &Outcomes| format!("{},{},{}", of.success, of.error, of.timeout);
    let four = |of: &Outcomes| format!("{},{}", three(of), of.not_found);
    let TransactionCounts {
        read,
        write,
        delete,
        proxy,
        refused,
        ..
    } = counts;
    (all(read) + all(write) + all(delete) + all(proxy) + refused > 0).then(|| {
        let proxy = three(proxy);
        let read = four(read);
        let write = three(write);
        let delete = four(delete);
        format!(
            "tsvc ({refused},0) proxy ({proxy}) read ({read},0) write ({write},0) delete ({delete},0) udf (0,0,0,0) \
             lang (0,0,0,0)"
        )
    })
}

/// A histogram in the real server's format: up to four non-empty buckets per line.
fn histogram(lines: &mut Vec<ServerLogLine>, name: &str, unit: &str, buckets: &Buckets) {
    let dump = format!("histogram dump: {name} ({} total) {unit}", total(buckets));
    lines.push(ServerLogLine::info("info", "hist.c", dump));
    let used: Vec<_> = buckets
        .counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .collect();
    for four in used.chunks(4) {
        let text = four
            .iter()
            .map(|(bucket, count)| format!(" ({bucket:02}: {count:010})"))
            .collect();
        lines.push(ServerLogLine::info("info", "hist.c", text));
    }
}

fn node_lines(facts: &Facts, lines: &mut Vec<ServerLogLine>) {
    let mut push_line = |text: String| lines.push(ServerLogLine::info("info", "ticker.c", text));
    let name = facts.config.cluster_name.as_deref().unwrap_or("null");
    push_line(format!(
        "NODE-ID {:x} CLUSTER-SIZE {} CLUSTER-NAME {name}",
        facts.node.id,
        facts.node.peers.len() + 1
    ));
    let counts = &facts.counts;
    push_line(format!(
        "   in-progress: info-q 0 rw-hash {} proxy-hash 0 tree-gc-q 0 long-queries 0",
        counts.in_progress
    ));
    let open = counts
        .connections_opened
        .saturating_sub(counts.connections_closed);
    let opened = counts.connections_opened;
    let closed = counts.connections_closed;
    push_line(format!(
        "   fds: proto ({open},{opened},{closed}) heartbeat (0,0,0) fabric (0,0,0)"
    ));
    if counts.malformed > 0 {
        push_line(format!(
            "   early-fail: demarshal {} tsvc-client 0 tsvc-from-proxy 0 tsvc-batch-sub 0 tsvc-from-proxy-batch-sub 0 \
             tsvc-udf-sub 0 tsvc-ops-sub 0",
            counts.malformed
        ));
    }
    let Outcomes {
        success,
        error,
        timeout,
        ..
    } = counts.batches;
    if success + error + timeout > 0 {
        push_line(format!(
            "   batch-index: batches ({success},{error},{timeout}) delays 0"
        ));
    }
}

/// Log lines at the start of the server: version, configuration as read, and each device's blocks.
pub fn start_lines(facts: &Facts, configuration: &str) -> Vec<ServerLogLine> {
    let stars = "<><><><><><><><><><>";
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("{stars}  flashproof {version}, a record engine, build {BUILD}  {stars}");
    let mut lines = vec![ServerLogLine::info("as", "as.c", text)];
    let configured = configuration.lines().filter(|line| !line.trim().is_empty());
    lines.extend(configured.map(|line| ServerLogLine::info("config", "cfg.c", line.to_owned())));
    lines.push(ServerLogLine::info(
        "config",
        "cfg.c",
        format!("node-id {:x}", facts.node.id),
    ));
    for (index, namespace) in facts.config.namespaces.iter().enumerate() {
        for (device, path) in namespace.devices.iter().enumerate() {
            let size = namespace.settings.write_block_bytes;
            let text = format!(
                "{path} has {} wblocks of size {size}",
                facts.wblocks(index, device)
            );
            lines.push(ServerLogLine::info("drv_ssd", "drv_ssd.c", text));
        }
    }
    lines
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLogLine {
    pub level: LogLevel,
    /// The server's log context: `info`, `drv_ssd`.
    pub context: &'static str,
    /// Source file of the real server that prints such lines. Tools check the name.
    pub source: &'static str,
    pub text: String,
}

impl ServerLogLine {
    pub fn info(context: &'static str, source: &'static str, text: String) -> Self {
        Self {
            level: LogLevel::Info,
            context,
            source,
            text,
        }
    }

    pub fn warning(context: &'static str, source: &'static str, text: String) -> Self {
        Self {
            level: LogLevel::Warning,
            context,
            source,
            text,
        }
    }

    fn is_enabled(&self, log: &LogSink) -> bool {
        match log.drv_ssd {
            Some(level) if self.context == "drv_ssd" => self.level <= level,
            _ => self.level <= log.any,
        }
    }

    /// The line as written to the log. Control characters in the text are replaced, so that the result is one line.
    pub fn stamped(&self, time: Timestamp, has_millis: bool) -> String {
        let format = if has_millis {
            "%b %d %Y %H:%M:%S%.3f GMT"
        } else {
            "%b %d %Y %H:%M:%S GMT"
        };
        let level = self.level.word();
        let time = time.to_zoned(TimeZone::UTC).strftime(format).to_string();
        let text: String = self
            .text
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
            .collect();
        format!(
            "{time}: {level} ({}): ({}:1) {text}\n",
            self.context, self.source
        )
    }
}

/// Destinations of the lines, as configured; the console by default.
pub struct LogWriter {
    sinks: Vec<(LogSink, Box<dyn Write + Send>)>,
    has_millis: bool,
}

impl LogWriter {
    /// Checks in advance that [`Self::open`] can work, and creates no file. Errors: the path and the error.
    pub fn check(config: &AerospikeConf) -> Result<(), (String, io::Error)> {
        config
            .logs
            .iter()
            .filter_map(|log| log.path.as_ref())
            .try_for_each(|name| {
                let path = Path::new(name);
                let checked = if path.exists() {
                    files::open_output_to_append(path).map(drop)
                } else {
                    files::check_replaceable(path, ReplaceTarget::NewFile)
                };
                checked.map_err(|error| (name.clone(), error))
            })
    }

    /// Opens the destinations. Lines are appended to files. Errors: the path and the error.
    pub fn open(config: &AerospikeConf) -> Result<Self, (String, io::Error)> {
        let console = LogSink {
            path: None,
            any: LogLevel::Info,
            drv_ssd: None,
        };
        let logs = if config.logs.is_empty() {
            vec![console]
        } else {
            config.logs.clone()
        };
        Ok(Self {
            sinks: logs
                .into_iter()
                .map(
                    |log: LogSink| -> Result<(LogSink, Box<dyn Write + Send>), (String, io::Error)> {
                        let sink: Box<dyn Write + Send> = match &log.path {
                            None => Box::new(io::stderr()),
                            Some(path) => {
                                let file = files::open_output_to_append(Path::new(path));
                                Box::new(file.map_err(|error| (path.clone(), error))?)
                            }
                        };
                        Ok((log, sink))
                    },
                )
                .collect::<Result<_, _>>()?,
            has_millis: config.log_millis,
        })
    }

    /// Writes `lines` where their levels are enabled. Tries all destinations; returns the first error.
    pub fn write(&mut self, time: Timestamp, lines: &[ServerLogLine]) -> io::Result<()> {
        let mut result = Ok(());
        for (log, sink) in &mut self.sinks {
            let text: String = lines
                .iter()
                .filter(|line| line.is_enabled(log))
                .map(|line| line.stamped(time, self.has_millis))
                .collect();
            // All lines are one write, so that a reader of the file seldom sees half a line.
            let written = sink.write_all(text.as_bytes());
            result = result.and(written);
        }
        result
    }
}
