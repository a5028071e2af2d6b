//! Rows with facts and results: a few for each run and series.

use crate::error::ExportError;
use crate::file::{TableFile, Written};
use crate::schema::{
    DriveRow, FindingRow, HostRow, ReasonRow, RunRow, SeriesRow, SliceRow, StepRow, StreamRow, TraceRow,
};
use crate::source::{SourceRun, SourceSeries};
use crate::table::{Text, UnixMs, text};
use results::judge::{Group, SliceShares};
use results::run_dir::{Manifest, read_trace};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// The files of the small tables.
pub(crate) struct Facts {
    runs: TableFile<RunRow>,
    reasons: TableFile<ReasonRow>,
    findings: TableFile<FindingRow>,
    series: TableFile<SeriesRow>,
    steps: TableFile<StepRow>,
    hosts: TableFile<HostRow>,
    drives: TableFile<DriveRow>,
    streams: TableFile<StreamRow>,
    slices: TableFile<SliceRow>,
    trace: TableFile<TraceRow>,
}

/// A field of recorded facts; `None` if it was not recorded.
fn fact<'a>(facts: &'a Value, name: &str) -> Option<&'a Value> {
    facts.get(name)
}

fn text_of(facts: &Value, name: &str) -> Option<Text> {
    fact(facts, name)?.as_str().map(text)
}

fn number_of(facts: &Value, name: &str) -> Option<u64> {
    fact(facts, name)?.as_u64()
}

/// The word for a value of an enumeration, as in JSON.
fn word(value: impl Serialize) -> Option<Text> {
    let value = serde_json::to_value(value).ok()?;
    value.as_str().or(value.get("how")?.as_str()).map(text)
}

/// Sentences in one cell; `None` without any.
fn joined(sentences: &[String]) -> Option<Text> {
    (!sentences.is_empty()).then(|| text(&sentences.join("; ")))
}

/// Serial number of each device of a run; `None` where it was not recorded.
pub(crate) fn serials(manifest: &Manifest) -> Vec<Option<Text>> {
    let serial = |device| text_of(manifest.device_facts.get(device)?, "serial");
    (0..manifest.devices.len()).map(serial).collect()
}

/// Number of the device that the user named `name`.
fn device(manifest: &Manifest, name: Option<&str>) -> Option<usize> {
    manifest.devices.iter().position(|device| Some(device.as_str()) == name)
}

impl Facts {
    pub(crate) fn create(dir: &Path) -> Result<Self, ExportError> {
        Ok(Self {
            runs: TableFile::create(dir)?,
            reasons: TableFile::create(dir)?,
            findings: TableFile::create(dir)?,
            series: TableFile::create(dir)?,
            steps: TableFile::create(dir)?,
            hosts: TableFile::create(dir)?,
            drives: TableFile::create(dir)?,
            streams: TableFile::create(dir)?,
            slices: TableFile::create(dir)?,
            trace: TableFile::create(dir)?,
        })
    }

    pub(crate) fn finish(self) -> Result<Vec<Written>, ExportError> {
        Ok(vec![
            self.runs.finish()?,
            self.reasons.finish()?,
            self.findings.finish()?,
            self.series.finish()?,
            self.steps.finish()?,
            self.hosts.finish()?,
            self.drives.finish()?,
            self.streams.finish()?,
            self.slices.finish()?,
            self.trace.finish()?,
        ])
    }

    /// Adds a run, of the series `series_id` if there is one. Returns what could not be read.
    pub(crate) fn add_run(&mut self, source: &SourceRun, series_id: Option<&str>) -> Result<Vec<String>, ExportError> {
        let SourceRun { id, path, run } = source;
        let (manifest, verdict, run_id) = (&run.manifest, &run.verdict, text(id));
        let serials = serials(manifest);
        let kinds: Vec<_> = manifest.workloads.iter().map(|workload| workload.kind.as_str()).collect();
        let times_1x = manifest.workloads.first().and_then(|workload| workload.times_1x);
        let result = verdict.result();
        let decided = verdict.decided_by.as_ref();
        let on_device = |name: Option<&str>| device(manifest, name).map(|device| device as u64);
        self.runs.push(RunRow {
            run_id: run_id.clone(),
            series_id: series_id.map(text),
            path: text(path),
            tool: text(&manifest.tool),
            started_at: UnixMs(manifest.started_unix_ms),
            test: text(&kinds.join("+")),
            purpose: manifest.purpose.as_deref().map(text),
            load_x: manifest.multiple.or(times_1x),
            sla: text(&verdict.sla),
            simulated: manifest.simulated,
            engine: text_of(&manifest.engine_facts, "engine"),
            hostname: text_of(&manifest.host_facts, "hostname"),
            devices: manifest.devices.len() as u64,
            duration_sec: manifest.duration_sec,
            ran_sec: verdict.ran_sec,
            report_interval_sec: manifest.report_interval_sec,
            slice_sec: manifest.slice_sec,
            intervals: run.intervals,
            outcome: word(verdict.outcome).unwrap_or_default(),
            reason_code: verdict.reasons.first().and_then(|reason| word(reason.code)),
            reason: text(&result.reason),
            class: word(verdict.class).unwrap_or_default(),
            complete: run.is_complete(),
            partial: verdict.partial,
            ended: word(&verdict.end),
            decided_stream: decided.map(|decided| text(&decided.stream)),
            decided_device: decided.and_then(|decided| on_device(decided.device.as_deref())),
            decided_slice: decided.map(|decided| decided.slice),
            decided_threshold_ns: decided.map(|decided| decided.threshold_ns),
            decided_share: decided.map(|decided| decided.share),
            decided_share_max: decided.map(|decided| decided.share_max),
            damage: joined(&run.damage),
        })?;
        for (rank, reason) in (1..).zip(&result.reasons) {
            let (code, reason) = (word(reason.code), text(&reason.text));
            self.reasons.push(ReasonRow { run_id: run_id.clone(), rank, code, reason })?;
        }
        for finding in &manifest.findings {
            let device = device(manifest, finding.device.as_deref());
            self.findings.push(FindingRow {
                run_id: run_id.clone(),
                check_name: text(&finding.check),
                level: word(finding.level).unwrap_or_default(),
                device: device.map(|device| device as u64),
                serial: device.and_then(|device| serials[device].clone()),
                finding: text(&finding.finding),
                reason: text(&finding.reason),
                remedy: text(&finding.remedy),
            })?;
        }
        self.add_machine(manifest, &run_id, &serials)?;
        for stream in &verdict.streams {
            self.streams.push(StreamRow {
                run_id: run_id.clone(),
                stream: text(&stream.name),
                judged: stream.judged,
                offered_iops: stream.offered_iops,
                achieved_iops: stream.achieved_iops,
                ops: stream.ops,
                bytes: stream.bytes,
                errors: stream.errors,
                unissued: stream.unissued,
                lost: stream.lost,
            })?;
        }
        for group in &verdict.groups {
            for slice in &group.slices {
                self.add_slice(source, &run_id, &serials, group, slice)?;
            }
        }
        self.add_trace(source, &run_id, &serials)
    }

    fn add_machine(
        &mut self,
        manifest: &Manifest,
        run_id: &Text,
        serials: &[Option<Text>],
    ) -> Result<(), ExportError> {
        let host = &manifest.host_facts;
        self.hosts.push(HostRow {
            run_id: run_id.clone(),
            hostname: text_of(host, "hostname"),
            kernel_release: text_of(host, "kernel_release"),
            distribution: text_of(host, "distribution"),
            cpu_model: text_of(host, "cpu_model"),
            online_cpus: number_of(host, "online_cpus"),
            numa_nodes: number_of(host, "numa_nodes"),
            memory_total_bytes: number_of(host, "memory_total_bytes"),
            cpu_governor: text_of(host, "cpu_governor"),
            hypervisor: text_of(host, "hypervisor"),
        })?;
        for (device, name) in manifest.devices.iter().enumerate() {
            let facts = manifest.device_facts.get(device).unwrap_or(&Value::Null);
            self.drives.push(DriveRow {
                run_id: run_id.clone(),
                device: device as u64,
                name: text(name),
                serial: serials[device].clone(),
                wwid: text_of(facts, "wwid"),
                model: text_of(facts, "model"),
                firmware: text_of(facts, "firmware"),
                size_bytes: number_of(facts, "size_bytes"),
                used_bytes: number_of(facts, "used_bytes"),
                kind: text_of(facts, "kind"),
                kernel_name: text_of(facts, "kernel_name"),
                transport: text_of(facts, "transport"),
                numa_node: number_of(facts, "numa_node"),
                scheduler: text_of(facts, "scheduler"),
                hardware_queues: number_of(facts, "hardware_queues"),
                queue_requests_max: number_of(facts, "queue_requests_max"),
                logical_sector_bytes: number_of(facts, "logical_sector_bytes"),
                physical_sector_bytes: number_of(facts, "physical_sector_bytes"),
                write_cache: text_of(facts, "write_cache"),
            })?;
        }
        Ok(())
    }

    fn add_slice(
        &mut self,
        source: &SourceRun,
        run_id: &Text,
        serials: &[Option<Text>],
        group: &Group,
        slice: &SliceShares,
    ) -> Result<(), ExportError> {
        let (manifest, verdict) = (&source.run.manifest, &source.run.verdict);
        let device = device(manifest, group.device.as_deref());
        let own = manifest.streams.iter().find(|stream| stream.name == group.stream);
        let own = own.and_then(|stream| stream.limits.as_ref());
        let sla = own.map_or(Some(&manifest.sla), |own| own.sla.as_ref());
        for (index, threshold_ns) in verdict.thresholds_ns.iter().copied().enumerate() {
            let limit = sla.and_then(|sla| sla.limits().iter().find(|limit| limit.threshold_ns == threshold_ns));
            let decided = verdict.decided_by.as_ref().is_some_and(|decided| {
                (&decided.stream, &decided.device, decided.slice, decided.threshold_ns)
                    == (&group.stream, &group.device, slice.slice, threshold_ns)
            });
            self.slices.push(SliceRow {
                run_id: run_id.clone(),
                stream: text(&group.stream),
                device: device.map(|device| device as u64),
                serial: device.and_then(|device| serials[device].clone()),
                slice: slice.slice,
                complete: slice.complete,
                threshold_ns,
                wanted: slice.wanted,
                judged_over: slice.judged_over.get(index).copied().unwrap_or(0),
                response_over: slice.response_over.get(index).copied().unwrap_or(0),
                judged_share: slice.judged_share.as_ref().and_then(|shares| shares.get(index).copied()),
                share_max: limit.map(|limit| limit.share_max()),
                decided,
            })?;
        }
        Ok(())
    }

    fn add_trace(
        &mut self,
        source: &SourceRun,
        run_id: &Text,
        serials: &[Option<Text>],
    ) -> Result<Vec<String>, ExportError> {
        let samples = match read_trace(&source.run.dir, &source.run.manifest) {
            Ok(samples) => samples,
            Err(error) => return Ok(vec![error.to_string()]),
        };
        for line in samples.lines {
            self.trace.push(TraceRow {
                run_id: run_id.clone(),
                device: line.device as u64,
                serial: serials[line.device].clone(),
                at_sec: line.at_sec,
                length_ms: line.length_ms,
                kind: text(line.kind.name()),
                size: text(line.size.name()),
                requests: line.requests,
                queue_p50_ns: line.queue.p50_ns,
                queue_p99_ns: line.queue.p99_ns,
                queue_max_ns: line.queue.max_ns,
                device_p50_ns: line.device_time.p50_ns,
                device_p99_ns: line.device_time.p99_ns,
                device_max_ns: line.device_time.max_ns,
            })?;
        }
        Ok(Vec::new())
    }

    /// Adds the rows of a series and of its steps; its runs are added as all others.
    pub(crate) fn add_series(&mut self, source: &SourceSeries, path: &str) -> Result<(), ExportError> {
        let (series, series_id) = (&source.series, text(&source.id));
        let conclusion = series.conclusion.as_ref();
        self.series.push(SeriesRow {
            series_id: series_id.clone(),
            path: text(path),
            tool: text(&series.tool),
            purpose: word(series.purpose).unwrap_or_default(),
            began_at: UnixMs(series.began_unix_ms),
            outcome: source.outcome().and_then(word),
            conclusion: conclusion.map(|conclusion| text(&conclusion.sentence)),
            rating_x: conclusion.and_then(|conclusion| conclusion.rating),
            comparable: conclusion.map(|conclusion| conclusion.comparable),
            doubts: joined(&source.doubts),
        })?;
        for ((step, run), number) in series.steps.iter().zip(&source.run_of_step).zip(1..) {
            self.steps.push(StepRow {
                series_id: series_id.clone(),
                step: number,
                name: text(&step.name),
                run_id: run.map(|run| text(&source.runs[run].id)),
                load_x: step.multiple,
                state: word(step.state).unwrap_or_default(),
                outcome: step.outcome.and_then(word),
                reason: text(&step.reason),
                attempts: u64::from(step.attempts),
            })?;
        }
        Ok(())
    }
}
