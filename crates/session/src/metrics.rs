//! Live metrics of the running test for Prometheus: over HTTP, and as a file for node_exporter.
//!
//! The recording thread computes the metrics from the merged interval, once per report interval. The metrics add no
//! work to the run loop. The text has version 0.0.4 of the exposition format, the only version that node_exporter's
//! textfile collector reads. Prometheus and the agents of OpenMetrics read this version too.

use crate::console;
use crate::failure::Failure;
use crate::scrape::{MetricsPage, serve};
use results::cell::{Interval, Latencies, Layout};
use results::counts::CellCounts;
use results::files::{self, ReplaceTarget};
use results::format::quoted;
use results::judge::{Judge, Outcome};
use results::run_dir::Manifest;
use results::telemetry::{Column, ColumnOf};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Environment variable with the port, or ADDRESS:PORT, on which metrics are served.
pub const ADDRESS_VARIABLE: &str = "FLASHPROOF_METRICS";
/// Environment variable with the file to which metrics are written.
pub const FILE_VARIABLE: &str = "FLASHPROOF_METRICS_FILE";

/// Minimum time between two publications: simulated intervals pass faster than any scraper polls.
const PAUSE: Duration = Duration::from_millis(500);

/// Destinations of metrics. Opened once for all runs of a process, so that a series keeps its port.
pub struct Publisher {
    page: MetricsPage,
    file: Option<PathBuf>,
}

/// A file of metrics that an earlier run wrote.
const OWN_METRICS: ReplaceTarget = ReplaceTarget::Own("flashproof_");

impl Publisher {
    /// `None` without the environment variables. Errors: an address cannot be served, or a file cannot be written.
    pub fn from_environment() -> Result<Option<&'static Self>, Failure> {
        static OPENED: OnceLock<Result<Option<Publisher>, Failure>> = OnceLock::new();
        OPENED
            .get_or_init(Self::open)
            .as_ref()
            .map(Option::as_ref)
            .map_err(Clone::clone)
    }

    fn open() -> Result<Option<Self>, Failure> {
        let address = variable(ADDRESS_VARIABLE);
        let file = variable(FILE_VARIABLE).map(PathBuf::from);
        if address.is_none() && file.is_none() {
            return Ok(None);
        }
        if let Some(file) = &file {
            let refused = format!(
                "cannot write metrics to {} ({FILE_VARIABLE})",
                file.display()
            );
            // This check also protects other files if the variable is mistyped.
            if file.extension().is_none_or(|extension| extension != "prom") {
                let why = "node_exporter's textfile collector reads only files named *.prom";
                return Err(Failure::usage(format!(
                    "{refused} - {why} - name a file that ends in .prom"
                )));
            }
            files::check_replaceable(file, OWN_METRICS).map_err(|error| {
                Failure::environment(format!(
                    "{refused} - {error} - name a file in a directory that this user may write to"
                ))
            })?;
        }
        let page = MetricsPage::new(Mutex::new("".into()));
        if let Some(address) = address {
            let address = address.to_string_lossy();
            let bound = match address.parse() {
                Ok(port) => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
                Err(_) => TcpListener::bind(&*address),
            };
            let bound_address = bound.and_then(|listener| serve(listener, page.clone())).map_err(|error| {
                Failure::environment(format!(
                    "cannot serve metrics on {} ({ADDRESS_VARIABLE}) - {error} - set a free port (9187), or \
                     ADDRESS:PORT with an address of this host",
                    quoted(&address)
                ))
            })?;
            let text = format!("metrics: http://{bound_address}/metrics");
            // With port 0 the kernel chose the port, and only this line has it.
            if address.ends_with(&bound_address.port().to_string()) {
                console::note(&text);
            } else {
                console::notice(&text);
            }
        }
        Ok(Some(Self { page, file }))
    }

    fn publish(&self, text: String) -> Result<(), String> {
        let written = self.file.as_ref().map_or(Ok(()), |file| {
            files::replace(file, text.as_bytes(), OWN_METRICS)
        });
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
        written.map_err(|error| {
            let file = self.file.as_deref().unwrap_or(Path::new("")).display();
            format!("cannot write metrics to {file} - {error} - the run continues and tries again at each interval")
        })
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

pub struct Metrics {
    publisher: &'static Publisher,
    /// Label of the whole run: its directory, which distinguishes the runs of a series and of a host.
    dir: String,
    run_labels: String,
    duration_sec: f64,
    elapsed_sec: f64,
    layout: Layout,
    /// Upper bounds of the latency buckets, ascending.
    bounds_ns: Vec<u64>,
    cells: Vec<CellTotals>,
    celsius: Vec<(String, f64)>,
    published: Option<Instant>,
    has_warned: bool,
}

#[derive(Default)]
struct CellTotals {
    labels: String,
    /// True for a stream of commits: its operations are already counted in other cells.
    commits: bool,
    counts: CellCounts,
    service: LatencyBuckets,
    judged: LatencyBuckets,
    /// Operations not done at the end of the last interval, and the longest lag in that interval.
    backlog: u64,
    lag_max_ns: u64,
}

/// A histogram with the bounds of [`Metrics`]; the last count is the overflow bucket.
#[derive(Default)]
struct LatencyBuckets {
    counts: Vec<i64>,
    sum_ns: i128,
}

impl LatencyBuckets {
    /// Adds `histogram` (`weight` is 1) or subtracts it (-1).
    fn add(&mut self, bounds_ns: &[u64], histogram: &Latencies, weight: i64) {
        self.counts.resize(bounds_ns.len() + 1, 0);
        for step in histogram.iter_recorded() {
            let ns = histogram.median_equivalent(step.value_iterated_to());
            let count =
                weight * i64::try_from(step.count_since_last_iteration()).unwrap_or(i64::MAX);
            self.counts[bounds_ns.partition_point(|bound_ns| *bound_ns < ns)] += count;
            self.sum_ns += i128::from(ns) * i128::from(count);
        }
    }
}

impl Metrics {
    pub fn new(publisher: &'static Publisher, manifest: &Manifest, dir: &Path) -> Self {
        let layout = manifest.layout();
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let dir = label("dir", &dir.to_string_lossy());
        let run_labels = [
            dir.clone(),
            label("test", &manifest.kind()),
            label("version", env!("CARGO_PKG_VERSION")),
            label("sla", &manifest.sla.to_string()),
            label("purpose", manifest.purpose.as_deref().unwrap_or("")),
        ];
        let mut bounds_ns: Vec<u64> = [64_000, 128_000, 256_000, 512_000].into();
        bounds_ns.extend((0..14).map(|power| 1_000_000 << power));
        if !manifest.sla.is_unlimited() {
            bounds_ns.extend(layout.thresholds_ns.iter());
        }
        bounds_ns.sort_unstable();
        bounds_ns.dedup();
        Self {
            publisher,
            run_labels: run_labels.join(","),
            duration_sec: manifest.duration_sec as f64,
            elapsed_sec: 0.0,
            bounds_ns,
            cells: (0..layout.cells())
                .map(|cell: usize| {
                    let stream = cell / layout.devices.len();
                    let device = cell % layout.devices.len();
                    let info = &layout.streams[stream];
                    let names = [
                        label("stream", &info.name),
                        label("device", &layout.devices[device]),
                    ];
                    let labels = format!("{dir},{}", names.join(","));
                    CellTotals {
                        labels,
                        commits: info.commits,
                        ..CellTotals::default()
                    }
                })
                .collect(),
            celsius: Vec::new(),
            published: None,
            has_warned: false,
            dir,
            layout,
        }
    }

    /// Adds an interval that `judge` has already counted, with its telemetry. Publishes the metrics if they are due.
    pub fn interval(
        &mut self,
        interval: &Interval,
        judge: &Judge,
        columns: &[String],
        telemetry: &[String],
    ) {
        self.elapsed_sec = interval.end_ns as f64 / 1e9;
        for (totals, cell) in self.cells.iter_mut().zip(&interval.cells) {
            totals.counts.add(&cell.counts);
            totals.service.add(&self.bounds_ns, &cell.service, 1);
            totals.judged.add(&self.bounds_ns, &cell.service, 1);
            // For operations that waited, replaces the service time by the longer judged time, wait + service.
            for (histogram, weight) in cell
                .waited
                .iter()
                .flat_map(|waited| waited.iter().zip([-1, 1]))
            {
                totals.judged.add(&self.bounds_ns, histogram, weight);
            }
            (totals.backlog, totals.lag_max_ns) = (cell.counts.backlog.total(), cell.lag.max());
        }
        let celsius = columns.iter().zip(telemetry).filter_map(|(column, text)| {
            let known = ColumnOf::parse(column).filter(|known| known.column == Column::Celsius)?;
            Some((
                format!("{},{}", self.dir, label("device", &known.owner)),
                text.parse().ok()?,
            ))
        });
        self.celsius = celsius.collect();
        if self
            .published
            .is_none_or(|published| published.elapsed() >= PAUSE)
        {
            self.publish(judge, None);
        }
    }

    /// Publishes the metrics, with the `outcome` once the run has ended.
    pub fn publish(&mut self, judge: &Judge, outcome: Option<Outcome>) {
        self.published = Some(Instant::now());
        if let Err(why) = self.publisher.publish(self.text(judge, outcome))
            && !std::mem::replace(&mut self.has_warned, true)
        {
            console::warning(&why);
        }
    }

    fn text(&self, judge: &Judge, outcome: Option<Outcome>) -> String {
        let mut text = String::new();
        let run_sample = |value: f64| vec![("", self.dir.clone(), value)];
        text += &family(
            "run_info",
            "gauge",
            "The run: test, version of flashproof, limits.",
            vec![("", self.run_labels.clone(), 1.0)],
        );
        text += &family(
            "run_elapsed_seconds",
            "gauge",
            "Time recorded since the run began.",
            run_sample(self.elapsed_sec),
        );
        text += &family(
            "run_duration_seconds",
            "gauge",
            "Configured duration.",
            run_sample(self.duration_sec),
        );
        let verdict = outcome
            .and_then(|outcome| Some(serde_json::to_value(outcome).ok()?.as_str()?.to_owned()));
        let verdict = verdict.map(|outcome| {
            (
                "",
                format!("{},{}", self.dir, label("outcome", &outcome)),
                1.0,
            )
        });
        text += &family(
            "verdict",
            "gauge",
            "Outcome of the run; absent while it runs.",
            verdict.into_iter().collect(),
        );

        // Most streams use only a few of the devices.
        let used_cells: Vec<&CellTotals> = self
            .cells
            .iter()
            .filter(|cell| cell.counts.counted_ops() > 0 || cell.backlog > 0)
            .collect();
        text += &family(
            "operations_total",
            "counter",
            "Operations that succeeded.",
            cell_samples(&used_cells, |cell| cell.counts.ops as f64),
        );
        text += &family(
            "operation_errors_total",
            "counter",
            "Operations that failed.",
            cell_samples(&used_cells, |cell| cell.counts.errors as f64),
        );
        text += &family(
            "bytes_total",
            "counter",
            "Bytes that operations moved.",
            cell_samples(&used_cells, |cell| cell.counts.bytes as f64),
        );
        let help =
            "Operations due but not completed at the end of the interval: in flight, or waiting.";
        text += &family(
            "backlog_operations",
            "gauge",
            help,
            cell_samples(&used_cells, |cell| cell.backlog as f64),
        );
        let help = "Longest scheduling delay by flashproof or its host in the last interval.";
        text += &family(
            "lag_seconds",
            "gauge",
            help,
            cell_samples(&used_cells, |cell| cell.lag_max_ns as f64 / 1e9),
        );
        let latencies = used_cells.iter().flat_map(|cell| {
            let kinds = [("service", &cell.service), ("judged", &cell.judged)];
            kinds.map(|(kind, latency)| {
                self.buckets(&format!("{},{}", cell.labels, label("kind", kind)), latency)
            })
        });
        let help = "Latencies of operations that succeeded. Limits apply to kind judged: wait for a slot plus service.";
        text += &family(
            "latency_seconds",
            "histogram",
            help,
            latencies.flatten().collect(),
        );

        let mut shares = Vec::new();
        let mut limits = Vec::new();
        for (stream, device, limit, share) in judge.newest_shares() {
            let device =
                device.map(|device| format!(",{}", label("device", &self.layout.devices[device])));
            let stream = label("stream", &self.layout.streams[stream].name);
            let threshold = label("threshold", &limit.threshold_text());
            shares.push((
                "",
                format!(
                    "{},{stream}{},{threshold}",
                    self.dir,
                    device.unwrap_or_default()
                ),
                share,
            ));
            limits.push((
                "",
                format!("{},{stream},{threshold}", self.dir),
                limit.share_max(),
            ));
        }
        // All devices of a stream have the same limits.
        limits.sort_by(|a, b| a.1.cmp(&b.1));
        limits.dedup();
        let help = "Share of operations over the threshold in the current slice. Without a device label: on all devices.";
        text += &family("over_threshold_ratio", "gauge", help, shares);
        text += &family(
            "over_threshold_limit_ratio",
            "gauge",
            "Limit that the share must stay below.",
            limits,
        );
        let celsius = self
            .celsius
            .iter()
            .map(|(labels, celsius)| ("", labels.clone(), *celsius));
        text += &family(
            "temperature_celsius",
            "gauge",
            "Temperature that the device reports.",
            celsius.collect(),
        );
        text
    }

    fn buckets(&self, labels: &str, latency: &LatencyBuckets) -> Vec<MetricSample> {
        let mut total = 0;
        let bounds = self
            .bounds_ns
            .iter()
            .map(|ns| (*ns as f64 / 1e9).to_string())
            .chain(["+Inf".to_owned()]);
        let buckets = bounds.zip(&latency.counts).map(|(bound, count)| {
            total += count;
            ("_bucket", format!("{labels},le=\"{bound}\""), total as f64)
        });
        let mut samples: Vec<_> = buckets.collect();
        samples.push(("_sum", labels.to_owned(), latency.sum_ns as f64 / 1e9));
        samples.push(("_count", labels.to_owned(), total as f64));
        samples
    }
}

/// A sample: suffix of the metric's name, labels, and value.
type MetricSample = (&'static str, String, f64);

fn family(name: &str, kind: &str, help: &str, samples: Vec<MetricSample>) -> String {
    let mut text = format!("# HELP flashproof_{name} {help}\n# TYPE flashproof_{name} {kind}\n");
    for (suffix, labels, value) in samples {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "flashproof_{name}{suffix}{{{labels}}} {value}");
    }
    text
}

/// A sample of each cell other than commits.
fn cell_samples(cells: &[&CellTotals], value: fn(&CellTotals) -> f64) -> Vec<MetricSample> {
    cells
        .iter()
        .filter(|cell| !cell.commits)
        .map(|cell| ("", cell.labels.clone(), value(cell)))
        .collect()
}

/// A label with its value escaped as the format requires.
fn label(name: &str, value: &str) -> String {
    format!(
        "{name}=\"{}\"",
        value
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', r"\n")
    )
}
