//! A test over several hosts: runs that began at an agreed time, judged as one test.
//!
//! Each host has a run directory. The cells of all runs are combined: each device of each host becomes a device of the
//! combined run. So the judge judges each device of each host, and all devices together. Histograms are merged bucket
//! by bucket.

use results::cell::{EarlierOps, Latencies, latencies};
use results::judge::{End, IntervalCounts, Judge, Outcome, ReasonCode, Verdict, WorstShare};
use results::run_dir::{HlogKind, Intervals, Manifest, Run, RunDirError, each_window};
use serde::Serialize;
use std::path::PathBuf;
use thiserror::Error;

/// Maximum difference of a host's start from the agreed time, milliseconds.
pub const SKEW_MS_MAX: u64 = 500;

#[derive(Debug, Clone)]
pub struct HostRun {
    pub host: String,
    pub dir: PathBuf,
    /// Milliseconds by which the host's clock was ahead of the file server's clock.
    pub clock_ahead_ms: i64,
    /// Why the host has no result, a phrase; `None`: the host has a run.
    pub missing: Option<String>,
}

impl HostRun {
    /// Milliseconds from the agreed start to the start of `run`, by the file server's clock.
    fn start_delay_ms(&self, run: &Run, agreed_unix_ms: u64) -> Option<i64> {
        let started_ms = i64::try_from(run.manifest.started_unix_ms).ok()?;
        let agreed_ms = i64::try_from(agreed_unix_ms).ok()?;
        Some(
            started_ms
                .saturating_sub(self.clock_ahead_ms)
                .saturating_sub(agreed_ms),
        )
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct MultiHostResult {
    pub outcome: Outcome,
    /// Reasons for the outcome, most important first, one sentence each.
    pub reasons: Vec<String>,
    /// The share that came nearest to its limit, over all hosts.
    pub decided_by: Option<WorstShare>,
    /// Milliseconds between the first and the last start, by the file server's clock.
    pub start_skew_ms: u64,
    pub hosts: Vec<HostResult>,
    pub streams: Vec<StreamResult>,
}

#[derive(Debug, Clone, Serialize)]
pub struct HostResult {
    pub host: String,
    /// Outcome of the host's run alone; `None` if the run cannot be read.
    pub outcome: Option<Outcome>,
    pub reason: String,
    /// Milliseconds from the agreed start to the host's start, by the file server's clock.
    #[serde(rename = "late_ms")]
    pub start_delay_ms: Option<i64>,
    pub clock_ahead_ms: i64,
    /// Operations per second, by stream.
    pub iops: Vec<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct StreamResult {
    pub name: String,
    pub ops: u64,
    pub iops: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    #[serde(skip)]
    pub service: Latencies,
}

#[derive(Debug, Error)]
pub enum MultiHostError {
    #[error(
        "cannot judge the hosts as one test - {host} ran a different test: {what} - run the same command on all hosts"
    )]
    Differs { host: String, what: &'static str },
    #[error("cannot judge the hosts as one test - no host has a run")]
    Nothing,
    #[error(transparent)]
    Read(#[from] RunDirError),
}

/// Judges the runs of `host_runs` as one test, for an agreed start at `agreed_unix_ms` of the file server's clock.
///
/// A host that is missing, did not finish, began at another time, or has an INVALID run makes the test INVALID, and a
/// reason names the host.
pub fn judge(
    host_runs: &[HostRun],
    agreed_unix_ms: u64,
) -> Result<MultiHostResult, MultiHostError> {
    let read: Vec<(&HostRun, Result<Run, String>)> = host_runs
        .iter()
        .map(|part| match &part.missing {
            Some(why) => (part, Err(why.clone())),
            None => (
                part,
                results::run_dir::read(&part.dir).map_err(|error| error.to_string()),
            ),
        })
        .collect();
    let runs: Vec<(&HostRun, &Run)> = read
        .iter()
        .filter_map(|(part, run)| Some((*part, run.as_ref().ok()?)))
        .collect();
    let merged = Merged::from_runs(&runs)?;
    let end = if runs.iter().all(|(_, run)| run.verdict.end.is_complete()) {
        End::Completed
    } else {
        End::Unrecorded
    };
    let verdict = merged.verdict(&runs, &end)?;
    let mut doubts = Vec::new();
    let mut hosts = Vec::new();
    for (host_run, run) in &read {
        let host = &host_run.host;
        match run {
            Err(why) => doubts.push(format!("{host} has no result: {why}")),
            Ok(run) if !run.verdict.end.is_complete() => {
                doubts.push(format!("{host} did not finish: {}", run.verdict.end))
            }
            Ok(run) if run.verdict.outcome == Outcome::Invalid => {
                doubts.push(format!(
                    "{host}: {}",
                    run.verdict.reason().unwrap_or("its run is invalid")
                ));
            }
            Ok(run) => {
                let delay = host_run
                    .start_delay_ms(run, agreed_unix_ms)
                    .filter(|delay| delay.unsigned_abs() > SKEW_MS_MAX);
                doubts.extend(delay.map(|delay| {
                    let side = if delay < 0 { "before" } else { "after" };
                    format!(
                        "{host} began {} ms {side} the agreed start; at most {SKEW_MS_MAX} ms are allowed",
                        delay.unsigned_abs()
                    )
                }));
            }
        }
        let run = run.as_ref().ok();
        hosts.push(HostResult {
            host: host.clone(),
            outcome: run.map(|run| run.verdict.outcome),
            reason: run
                .and_then(|run| run.verdict.reason())
                .unwrap_or_default()
                .to_owned(),
            start_delay_ms: run.and_then(|run| host_run.start_delay_ms(run, agreed_unix_ms)),
            clock_ahead_ms: host_run.clock_ahead_ms,
            iops: run.map_or_else(Vec::new, |run| {
                run.verdict
                    .streams
                    .iter()
                    .map(|stream| stream.ops as f64 / run.verdict.ran_sec.max(1e-9))
                    .collect()
            }),
        });
    }
    let starts = hosts.iter().filter_map(|host| host.start_delay_ms);
    let start_skew_ms = starts
        .clone()
        .max()
        .zip(starts.min())
        .map_or(0, |(last, first)| last.abs_diff(first));
    let verdict_reasons = verdict
        .reasons
        .iter()
        .filter(|reason| reason.code != ReasonCode::Note)
        .map(|reason| reason.text.clone());
    Ok(MultiHostResult {
        outcome: if doubts.is_empty() {
            verdict.outcome
        } else {
            Outcome::Invalid
        },
        reasons: doubts.into_iter().chain(verdict_reasons).collect(),
        decided_by: verdict.decided_by.clone(),
        start_skew_ms,
        streams: merged.streams(&runs, &verdict)?,
        hosts,
    })
}

struct Merged {
    manifest: Manifest,
    /// For each run: the number of its devices, and the number of devices of the runs before it.
    devices: Vec<(usize, usize)>,
}

impl Merged {
    fn from_runs(runs: &[(&HostRun, &Run)]) -> Result<Self, MultiHostError> {
        let Some((_, first)) = runs.first() else {
            return Err(MultiHostError::Nothing);
        };
        let mut manifest = Manifest {
            devices: Vec::new(),
            device_facts: Vec::new(),
            ..first.manifest.clone()
        };
        manifest
            .streams
            .iter_mut()
            .for_each(|stream| stream.offered_iops = 0.0);
        let mut devices = Vec::new();
        for (host_run, run) in runs {
            let host_manifest = &run.manifest;
            let names = host_manifest.streams.iter().map(|stream| &stream.name);
            let has_other_streams = names.ne(manifest.streams.iter().map(|stream| &stream.name));
            let differs = [
                (has_other_streams, "other streams"),
                (host_manifest.sla != manifest.sla, "other limits"),
                (
                    host_manifest.report_interval_sec != manifest.report_interval_sec,
                    "another report interval",
                ),
                (
                    host_manifest.slice_sec != manifest.slice_sec,
                    "slices of another length",
                ),
                (
                    host_manifest.window_step_sec != manifest.window_step_sec,
                    "judged windows at other times",
                ),
                (
                    host_manifest.duration_sec != manifest.duration_sec,
                    "another duration",
                ),
            ];
            if let Some((_, what)) = differs.into_iter().find(|(differs, _)| *differs) {
                return Err(MultiHostError::Differs {
                    host: host_run.host.clone(),
                    what,
                });
            }
            devices.push((host_manifest.devices.len(), manifest.devices.len()));
            manifest.devices.extend(
                host_manifest
                    .devices
                    .iter()
                    .map(|device| format!("{}:{device}", host_run.host)),
            );
            manifest
                .device_facts
                .extend(host_manifest.device_facts.iter().cloned());
            let both = manifest.streams.iter_mut().zip(&host_manifest.streams);
            both.for_each(|(stream, more)| stream.offered_iops += more.offered_iops);
        }
        Ok(Self { manifest, devices })
    }

    fn cell(&self, run: usize, cell: usize) -> usize {
        let (own, before) = self.devices[run];
        cell / own * self.manifest.devices.len() + before + cell % own
    }

    fn verdict(&self, runs: &[(&HostRun, &Run)], end: &End) -> Result<Verdict, MultiHostError> {
        let mut judge: Judge = self.manifest.judge();
        let tables = runs
            .iter()
            .map(|(_, run)| Intervals::open(&run.dir, &run.manifest));
        let mut tables = tables.collect::<Result<Vec<_>, _>>()?;
        let cells = self.manifest.layout().cells();
        for index in 0.. {
            let mut sum = IntervalCounts {
                index,
                ..IntervalCounts::default()
            };
            sum.cells.resize_with(cells, Default::default);
            let mut has_record = false;
            for (run, table) in tables.iter_mut().enumerate() {
                let Some(record) = table.next()? else {
                    continue;
                };
                has_record = true;
                self.add(&mut sum, run, &record.counts);
            }
            if !has_record {
                break;
            }
            judge.add_counts(&sum);
        }
        Ok(judge.verdict(end))
    }

    fn add(&self, sum: &mut IntervalCounts, run: usize, counts: &IntervalCounts) {
        for (cell, own) in counts.cells.iter().enumerate() {
            let mut own = *own;
            // `slots_used_by` counts cells from 1.
            own.slots_used_by = own
                .slots_used_by
                .checked_sub(1)
                .map_or(0, |by| self.cell(run, by as usize) as u64 + 1);
            sum.cells[self.cell(run, cell)] = own;
        }
        let carried = counts.carried.iter().map(|carried| EarlierOps {
            cell: self.cell(run, carried.cell),
            ..carried.clone()
        });
        sum.carried.extend(carried);
        sum.after_sec = sum.after_sec.max(counts.after_sec);
        sum.end_ns = sum.end_ns.max(counts.end_ns);
        sum.gap_max_ns = sum.gap_max_ns.max(counts.gap_max_ns);
        let sums = [
            (&mut sum.gaps, counts.gaps),
            (&mut sum.gaps_over, counts.gaps_over),
            (&mut sum.in_flight_max, counts.in_flight_max),
            (&mut sum.cpu_ns, counts.cpu_ns),
            (&mut sum.run_delay_ns, counts.run_delay_ns),
        ];
        // Saturating, because the numbers may come from an edited file.
        sums.into_iter()
            .for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    fn streams(
        &self,
        runs: &[(&HostRun, &Run)],
        verdict: &Verdict,
    ) -> Result<Vec<StreamResult>, MultiHostError> {
        let mut service: Vec<Latencies> =
            self.manifest.streams.iter().map(|_| latencies()).collect();
        for (_, run) in runs {
            let layout = run.manifest.layout();
            each_window(&run.dir, &layout, HlogKind::Service, |window| {
                if let Some(of_stream) = service.get_mut(window.cell / layout.devices.len().max(1))
                {
                    // `add` fails if a log of another program contains a duration above `DURATION_MAX_NS`: the window
                    // is left out.
                    let _ = of_stream.add(&window.histogram);
                }
            })?;
        }
        let streams = verdict.streams.iter().zip(service);
        Ok(streams
            .map(|(totals, service)| StreamResult {
                name: totals.name.clone(),
                ops: totals.ops,
                iops: totals.ops as f64 / verdict.ran_sec.max(1e-9),
                p50_ns: service.value_at_quantile(0.5),
                p99_ns: service.value_at_quantile(0.99),
                p999_ns: service.value_at_quantile(0.999),
                service,
            })
            .collect())
    }
}

impl MultiHostResult {
    pub fn undecided(reason: String) -> Self {
        Self {
            outcome: Outcome::Invalid,
            reasons: vec![reason],
            decided_by: None,
            start_skew_ms: 0,
            hosts: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// The result as text: the whole test, then each host.
    pub fn text(&self) -> String {
        let ms = |ns: u64| results::format::milliseconds(ns as f64 / 1e6);
        let first = self.reasons.first().map_or("", String::as_str);
        let mut text = format!(
            "{} over {} hosts: {first}\nstarts {} ms apart\n",
            self.outcome,
            self.hosts.len(),
            self.start_skew_ms
        );
        text.extend(
            self.reasons
                .iter()
                .skip(1)
                .map(|reason| format!("  {reason}\n")),
        );
        text.extend(self.streams.iter().map(|stream| {
            let p50 = ms(stream.p50_ns);
            let p99 = ms(stream.p99_ns);
            let p999 = ms(stream.p999_ns);
            format!(
                "  {}: {:.0}/s; p50 {p50}, p99 {p99}, p99.9 {p999}\n",
                stream.name, stream.iops
            )
        }));
        for host in &self.hosts {
            let outcome = host
                .outcome
                .map_or("no result".to_owned(), |outcome| outcome.to_string());
            let delay = host.start_delay_ms.map_or_else(String::new, |delay| {
                format!(", began {delay:+} ms from the agreed start")
            });
            let iops: Vec<_> = host
                .iops
                .iter()
                .map(|iops| format!("{iops:.0}/s"))
                .collect();
            text += &format!(
                "  {}: {outcome}{delay}, clock {:+} ms, {}\n",
                host.host,
                host.clock_ahead_ms,
                iops.join(" ")
            );
        }
        text
    }
}
