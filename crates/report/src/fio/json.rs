//! fio's JSON, with fio's names in fio's order, and with the names that later versions of fio added. flashproof's
//! additions are `wait_ns`, `lag_ns`, `failed`, `never_issued`, `verdicts`.

use super::{
    FIO_VERSION, FioReport, JobReport, KindStats, LEVELS, NO_TARGET, RunHistogram, SteadyState,
    VerifyTotals,
};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The report as JSON; `plus`: with the bins of the histograms.
pub fn json(page: &FioReport<'_>, plus: bool) -> String {
    let mut root = Object::default();
    root.put("fio version", FIO_VERSION);
    root.put("timestamp", page.unix_ms / 1000);
    root.put("timestamp_ms", page.unix_ms);
    root.put("time", ctime(page.unix_ms));
    if !page.global.is_empty() {
        root.put("global options", options(&page.global));
    }
    root.put(
        "jobs",
        Json::List(
            page.jobs
                .iter()
                .map(|job| job_object(job, page, plus))
                .collect(),
        ),
    );
    let disks = page.disks.iter().map(|disk| {
        let mut object = Object::default();
        object.put("name", disk.name.as_str());
        for (name, [reads, writes]) in [
            ("ios", disk.ios),
            ("sectors", disk.sectors),
            ("merges", disk.merges),
            ("ticks", disk.ticks),
        ] {
            object.put(format!("read_{name}"), reads);
            object.put(format!("write_{name}"), writes);
        }
        object.put("in_queue", disk.in_queue);
        object.put("util", disk.util);
        object
    });
    root.put("disk_util", Json::List(disks.collect()));
    if !page.results.is_empty() {
        // These are plain values in maps with text keys, so the conversion cannot fail, here and below.
        root.put(
            "verdicts",
            serde_json::to_value(&page.results).unwrap_or_default(),
        );
    }
    serde_json::to_string_pretty(&root).unwrap_or_default() + "\n"
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Json {
    Plain(Value),
    Object(Object),
    List(Vec<Object>),
}

impl<T: Into<Value>> From<T> for Json {
    fn from(value: T) -> Self {
        Self::Plain(value.into())
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

/// A map that keeps its order.
#[derive(Debug, Default)]
struct Object(Vec<(Cow<'static, str>, Json)>);

impl Object {
    fn put(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Json>) {
        self.0.push((name.into(), value.into()));
    }
}

impl<N: Into<Cow<'static, str>>, V: Into<Json>> FromIterator<(N, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn options(pairs: &[(String, String)]) -> Object {
    pairs
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str()))
        .collect()
}

/// A time in the format of ctime(3), which parsers of fio's output expect.
fn ctime(unix_ms: u64) -> String {
    // 1970-01-01 was a Thursday.
    let day =
        ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(unix_ms / 86_400_000 % 7) as usize];
    let date = results::format::date(unix_ms);
    let (date, clock) = date.split_once(' ').unwrap_or_default();
    let parts: Vec<usize> = date
        .split('-')
        .filter_map(|part| part.parse().ok())
        .collect();
    let [year, month, of_month] = parts[..] else {
        return date.to_owned();
    };
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = months[(month + 11) % 12];
    format!(
        "{day} {month} {of_month:2} {} {year}",
        clock.trim_end_matches(" UTC")
    )
}

fn job_object(job: &JobReport<'_>, page: &FioReport<'_>, plus: bool) -> Object {
    let empty = KindStats::default();
    let mut object = Object::default();
    object.put("jobname", job.name.as_str());
    object.put("groupid", job.group);
    object.put("job_start", job.started_unix_ms);
    object.put("error", job.error_number());
    object.put("eta", 0);
    // fio starts its clock before its jobs, and rounds up.
    object.put("elapsed", job.elapsed_ns / 1_000_000_000 + 1);
    if !job.description.is_empty() {
        object.put("desc", job.description.as_str());
    }
    object.put("job options", options(&job.options));
    for (at, name) in ["read", "write", "trim"].into_iter().enumerate() {
        let kind = job.kinds[at].unwrap_or(&empty);
        let mut direction = direction(
            job,
            kind,
            at,
            page.bandwidth_percent(kind, job.group, at),
            plus,
        );
        let priorities = priorities(job, at, plus);
        if !priorities.is_empty() {
            direction.put("prios", Json::List(priorities));
        }
        object.put(name, direction);
    }
    let flushes = job.kinds[3].unwrap_or(&empty);
    let latency = durations(
        &flushes.clat,
        job.percentiles_of[0].then_some(&job.percentiles),
        plus,
    );
    let sync = [
        ("total_ios", Json::from(flushes.ops)),
        ("lat_ns", latency.into()),
    ];
    object.put("sync", Object::from_iter(sync));
    object.put("job_runtime", job.all_ns() / 1_000_000);
    object.put("usr_cpu", job.percent(job.cpu.user_ns));
    object.put("sys_cpu", job.percent(job.cpu.system_ns));
    object.put("ctx", job.cpu.switches);
    object.put("majf", job.cpu.major_faults);
    object.put("minf", job.cpu.minor_faults);
    object.put(
        "iodepth_level",
        Object::from_iter(LEVELS.into_iter().zip(job.level_shares())),
    );
    for name in ["iodepth_submit", "iodepth_complete"] {
        object.put(
            name,
            Object::from_iter(["0", "4", "8", "16", "32", "64", ">=64"].map(|batch| (batch, 0.0))),
        );
    }
    for (scale, shares) in job.latency_shares() {
        object.put(format!("latency_{scale}"), Object::from_iter(shares));
    }
    object.put("latency_depth", job.depth);
    let target = job.target.unwrap_or(NO_TARGET);
    object.put("latency_target", target.latency_ns);
    object.put("latency_target_ns", target.latency_ns);
    object.put("latency_percentile", target.percentile);
    object.put("latency_window", target.window_us);
    object.put("latency_window_us", target.window_us);
    if let Some(steady) = &job.steady {
        object.put("steadystate", steadystate(steady));
    }
    if let Some(VerifyTotals {
        bytes,
        wrong_blocks,
        not_read_bytes,
        unknown_bytes,
    }) = job.verified
    {
        let names = [
            "verified_bytes",
            "wrong_blocks",
            "not_read_bytes",
            "unknown_bytes",
        ];
        let counts = names
            .into_iter()
            .zip([bytes, wrong_blocks, not_read_bytes, unknown_bytes]);
        object.put("verify", Object::from_iter(counts));
    }
    object
}

fn steadystate(steady: &SteadyState) -> Object {
    let percent = if steady.target.ends_with('%') {
        "%"
    } else {
        ""
    };
    let mut data = Object::default();
    let names = [
        ("iops", "iops_mean"),
        ("bw", "bw_mean"),
        ("lat_ns", "lat_mean"),
    ];
    let of_latency = steady.target.starts_with("lat");
    // fio shows latencies only if they are the criterion.
    for (at, (name, mean)) in names
        .into_iter()
        .enumerate()
        .filter(|(at, _)| *at < 2 || of_latency)
    {
        data.put(mean, steady.means[at]);
        data.put(
            name,
            steady
                .intervals
                .iter()
                .map(|interval| interval[at])
                .collect::<Vec<_>>(),
        );
    }
    let mut object = Object::default();
    object.put("ss", steady.target.as_str());
    object.put("duration", steady.duration_sec);
    object.put("attained", u8::from(steady.attained));
    object.put("criterion", format!("{:.6}{percent}", steady.criterion));
    object.put("max_deviation", steady.deviation);
    object.put("slope", steady.slope);
    object.put("data", data);
    object
}

fn priorities(job: &JobReport<'_>, direction: usize, plus: bool) -> Vec<Object> {
    let percentiles = job.percentiles_of[0].then_some(&job.percentiles);
    let of_direction = job.priorities.iter().filter(|(of, ..)| *of == direction);
    of_direction
        .map(|(_, value, latencies): &(usize, u16, RunHistogram)| {
            let clat = durations(latencies, percentiles, plus);
            let fields = [
                ("prioclass", Json::from(value >> 13)),
                ("prio", (value & 7).into()),
                ("clat_ns", clat.into()),
            ];
            Object::from_iter(fields)
        })
        .collect()
}

fn direction(
    job: &JobReport<'_>,
    kind: &KindStats,
    at: usize,
    bandwidth_percent: f64,
    plus: bool,
) -> Object {
    let mut object = Object::default();
    let ran_ns = if kind.ops > 0 { job.kinds_ns[at] } else { 0 };
    object.put("io_bytes", kind.bytes);
    object.put("io_kbytes", kind.bytes >> 10);
    object.put("bw_bytes", per_sec(kind.bytes, ran_ns) as u64);
    object.put("bw", (per_sec(kind.bytes, ran_ns) / 1024.0) as u64);
    object.put("iops", per_sec(kind.ops, ran_ns));
    object.put("runtime", if ran_ns == 0 { 0 } else { job.kind_ms(at) });
    object.put("total_ios", kind.ops);
    object.put("short_ios", 0);
    object.put("drop_ios", 0);
    // slat is empty: submission is part of clat, as with fio's synchronous engines.
    object.put(
        "slat_ns",
        durations(&KindStats::default().clat, None, false),
    );
    let percentiles = |is_shown: bool| is_shown.then_some(&job.percentiles);
    object.put(
        "clat_ns",
        durations(&kind.clat, percentiles(job.percentiles_of[0]), plus),
    );
    object.put(
        "lat_ns",
        durations(&kind.clat, percentiles(job.percentiles_of[1]), plus),
    );
    for (name, stats, deviation) in [
        ("bw", &kind.bandwidth, "dev"),
        ("iops", &kind.iops, "stddev"),
    ] {
        object.put(format!("{name}_min"), stats.min as u64);
        object.put(format!("{name}_max"), stats.max as u64);
        if name == "bw" {
            object.put("bw_agg", bandwidth_percent);
        }
        object.put(format!("{name}_mean"), stats.mean());
        object.put(format!("{name}_{deviation}"), stats.deviation());
        object.put(format!("{name}_samples"), stats.count);
    }
    object.put(
        "wait_ns",
        durations(&kind.wait, Some(&job.percentiles), plus),
    );
    object.put("lag_ns", durations(&kind.lag, Some(&job.percentiles), plus));
    object.put("failed", kind.errors);
    object.put("never_issued", kind.undone);
    object
}

fn per_sec(count: u64, ran_ns: u64) -> f64 {
    if ran_ns == 0 {
        0.0
    } else {
        count as f64 * 1e9 / ran_ns as f64
    }
}

fn durations(durations: &RunHistogram, percentiles: Option<&Vec<f64>>, plus: bool) -> Object {
    let is_any = !durations.is_empty();
    let mut object = Object::default();
    object.put("min", if is_any { durations.min() } else { 0 });
    object.put("max", durations.max());
    object.put("mean", if is_any { durations.mean() } else { 0.0 });
    object.put("stddev", if is_any { durations.stdev() } else { 0.0 });
    object.put("N", durations.len());
    if let Some(percentiles) = percentiles.filter(|_| is_any) {
        let values = percentiles
            .iter()
            .map(|at| (format!("{at:.6}"), durations.value_at_percentile(*at)));
        object.put("percentile", Object::from_iter(values));
    }
    if plus && percentiles.is_some() && is_any {
        let bins = durations.iter_recorded();
        let bins = bins.map(|bucket| {
            (
                bucket.value_iterated_to().to_string(),
                bucket.count_at_value(),
            )
        });
        object.put("bins", Object::from_iter(bins));
    }
    object
}
