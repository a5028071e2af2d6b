//! fio's JSON, with fio's names in fio's order; what is ours stands under `wait_ns`, `lag_ns`, `failed`, `never_issued`.

use super::{FIO_VERSION, JobPage, Kind, LEVELS, Page, Samples};
use crate::fio::totals::Durations;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The report as JSON; `plus`: with the bins of the histograms.
pub fn json(page: &Page<'_>, plus: bool) -> String {
    let mut top = Object::default();
    top.put("fio version", FIO_VERSION);
    top.put("timestamp", page.unix_ms / 1000);
    top.put("timestamp_ms", page.unix_ms);
    top.put("time", results::units::date(page.unix_ms));
    if !page.global.is_empty() {
        top.put_object("global options", options(&page.global));
    }
    top.put_list("jobs", page.jobs.iter().map(|job| of_job(job, plus)).collect::<Vec<_>>());
    let disks = page.disks.iter().map(|disk| {
        let mut object = Object::default();
        object.put("name", disk.name.as_str());
        for (name, [reads, writes]) in [("ios", disk.ios), ("merges", disk.merges), ("ticks", disk.ticks)] {
            object.put(format!("read_{name}"), reads);
            object.put(format!("write_{name}"), writes);
        }
        object.put("in_queue", disk.in_queue);
        object.put("util", disk.util);
        object
    });
    top.put_list("disk_util", disks.collect::<Vec<_>>());
    // Plain values in maps with names: it cannot fail.
    serde_json::to_string_pretty(&top).unwrap_or_default() + "\n"
}

/// A value of a map that keeps its order.
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

/// A map that keeps its order.
#[derive(Debug, Default)]
struct Object(Vec<(Cow<'static, str>, Json)>);

impl Object {
    fn put(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Json>) {
        self.0.push((name.into(), value.into()));
    }

    fn put_object(&mut self, name: impl Into<Cow<'static, str>>, object: Self) {
        self.0.push((name.into(), Json::Object(object)));
    }

    fn put_list(&mut self, name: &'static str, list: Vec<Self>) {
        self.0.push((name.into(), Json::List(list)));
    }
}

impl Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn options(given: &[(String, String)]) -> Object {
    let mut object = Object::default();
    given.iter().for_each(|(name, value)| object.put(name.clone(), value.as_str()));
    object
}

fn of_job(job: &JobPage<'_>, plus: bool) -> Object {
    let none = Kind::default();
    let mut object = Object::default();
    object.put("jobname", job.name.as_str());
    object.put("groupid", job.group);
    object.put("error", if job.errors() > 0 { 5 } else { 0 });
    object.put("eta", 0);
    object.put("elapsed", job.ran_ns.div_ceil(1_000_000_000));
    if !job.description.is_empty() {
        object.put("desc", job.description.as_str());
    }
    object.put_object("job options", options(&job.options));
    for (name, kind) in ["read", "write", "trim"].into_iter().zip(job.kinds) {
        object.put_object(name, direction(job, kind.unwrap_or(&none), plus));
    }
    let flushes = job.kinds[3].unwrap_or(&none);
    let mut sync = Object::default();
    sync.put("total_ios", flushes.ops);
    sync.put_object("lat_ns", durations(&flushes.clat, job.percentiles_of[0].then_some(&job.percentiles), plus));
    object.put_object("sync", sync);
    object.put("job_runtime", job.own_ns() / 1_000_000);
    let of_run = |ns: u64| ns as f64 * 100.0 / job.ran_ns.max(1) as f64;
    object.put("usr_cpu", of_run(job.cpu.user_ns));
    object.put("sys_cpu", of_run(job.cpu.system_ns));
    ["ctx", "majf", "minf"].into_iter().for_each(|name| object.put(name, 0));
    let mut levels = Object::default();
    LEVELS.into_iter().zip(job.level_shares()).for_each(|(level, share)| levels.put(level, share));
    object.put_object("iodepth_level", levels);
    for name in ["iodepth_submit", "iodepth_complete"] {
        let mut batches = Object::default();
        ["0", "4", "8", "16", "32", "64", ">=64"].into_iter().for_each(|batch| batches.put(batch, 0.0));
        object.put_object(name, batches);
    }
    for (scale, shares) in job.latency_shares() {
        let mut object_of_scale = Object::default();
        shares.into_iter().for_each(|(bound, share)| object_of_scale.put(bound, share));
        object.put_object(format!("latency_{scale}"), object_of_scale);
    }
    object.put("latency_depth", job.depth);
    object.put("latency_target", 0);
    object.put("latency_percentile", 100.0);
    object.put("latency_window", 0);
    object
}

fn direction(job: &JobPage<'_>, kind: &Kind, plus: bool) -> Object {
    let mut object = Object::default();
    let ran_ns = if kind.ops > 0 { job.own_ns() } else { 0 };
    let per_sec = |count: u64| if ran_ns == 0 { 0.0 } else { count as f64 * 1e9 / ran_ns as f64 };
    object.put("io_bytes", kind.bytes);
    object.put("io_kbytes", kind.bytes >> 10);
    object.put("bw_bytes", per_sec(kind.bytes) as u64);
    object.put("bw", (per_sec(kind.bytes) / 1024.0) as u64);
    object.put("iops", per_sec(kind.ops));
    object.put("runtime", ran_ns / 1_000_000);
    object.put("total_ios", kind.ops);
    object.put("short_ios", 0);
    object.put("drop_ios", 0);
    // Submission is part of clat, as with fio's engines of one system call.
    object.put_object("slat_ns", durations(&Kind::default().clat, None, false));
    let percentiles = |is_shown: bool| is_shown.then_some(&job.percentiles);
    object.put_object("clat_ns", durations(&kind.clat, percentiles(job.percentiles_of[0]), plus));
    object.put_object("lat_ns", durations(&kind.clat, percentiles(job.percentiles_of[1]), plus));
    let mut samples = |name: &str, of: &Samples, deviation: &str| {
        object.put(format!("{name}_min"), of.min as u64);
        object.put(format!("{name}_max"), of.max as u64);
        if name == "bw" {
            object.put("bw_agg", if of.count > 0 { 100.0 } else { 0.0 });
        }
        object.put(format!("{name}_mean"), of.mean());
        object.put(format!("{name}_{deviation}"), of.deviation());
        object.put(format!("{name}_samples"), of.count);
    };
    samples("bw", &kind.bandwidth, "dev");
    samples("iops", &kind.iops, "stddev");
    object.put_object("wait_ns", durations(&kind.wait, Some(&job.percentiles), plus));
    object.put_object("lag_ns", durations(&kind.lag, Some(&job.percentiles), plus));
    object.put("failed", kind.errors);
    object.put("never_issued", kind.undone);
    object
}

fn durations(durations: &Durations, percentiles: Option<&Vec<f64>>, plus: bool) -> Object {
    let is_any = !durations.is_empty();
    let mut object = Object::default();
    object.put("min", if is_any { durations.min() } else { 0 });
    object.put("max", durations.max());
    object.put("mean", if is_any { durations.mean() } else { 0.0 });
    object.put("stddev", if is_any { durations.stdev() } else { 0.0 });
    object.put("N", durations.len());
    if let Some(percentiles) = percentiles.filter(|_| is_any) {
        let mut values = Object::default();
        for at in percentiles {
            values.put(format!("{at:.6}"), durations.value_at_percentile(*at));
        }
        object.put_object("percentile", values);
    }
    if plus && percentiles.is_some() && is_any {
        let mut bins = Object::default();
        for bucket in durations.iter_recorded() {
            bins.put(bucket.value_iterated_to().to_string(), bucket.count_at_value());
        }
        object.put_object("bins", bins);
    }
    object
}
