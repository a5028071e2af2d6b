//! Rows with facts and results: a few for each run and series.

use crate::Result;
use crate::file::PartFiles;
use crate::schema::{
    DriveRow, FindingRow, HostRow, ReasonRow, RunRow, SeriesRow, SliceRow, StepRow, StreamRow,
    TraceRow,
};
use crate::source::{SourceRun, SourceSeries};
use crate::table::UnixMs;
use conclusions::direction;
use results::run_dir::{Manifest, Run, RunDirError, read_trace, text_fact};
use serde::Serialize;
use serde_json::Value;

fn number_of(facts: &Value, name: &str) -> Option<u64> {
    facts.get(name)?.as_u64()
}

fn json_name(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value
        .as_str()
        .or_else(|| value.get("how")?.as_str())
        .unwrap_or_default()
        .to_owned()
}

fn joined(sentences: &[String]) -> Option<String> {
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// Serial number of each device; without one the world-wide name, else the name, as in an inventory.
pub(crate) fn serials(manifest: &Manifest) -> Vec<Option<&str>> {
    let devices = manifest.devices.iter().enumerate();
    devices
        .map(|(device, name)| {
            let facts = manifest.device_facts.get(device);
            let wwid = facts.and_then(|facts| text_fact(facts, "wwid"));
            manifest.serial(device).or(wwid).or(Some(name.as_str()))
        })
        .collect()
}

/// Index of the device that the user named `name`.
fn device(manifest: &Manifest, name: Option<&str>) -> Option<usize> {
    manifest
        .devices
        .iter()
        .position(|device| Some(device.as_str()) == name)
}

impl PartFiles {
    /// Adds a run. `series_id`: its series, if any. If the run's trace cannot be read, returns that error.
    pub(crate) fn add_run(
        &mut self,
        source_run: &SourceRun,
        run: &Run,
        series_id: Option<&str>,
    ) -> Result<Option<RunDirError>> {
        let manifest = &run.manifest;
        let verdict = &run.verdict;
        let run_id = source_run.id.as_str();
        let path = source_run.path.as_str();
        let serials = serials(manifest);
        let kinds: Vec<_> = manifest
            .workloads
            .iter()
            .map(|workload| workload.kind.as_str())
            .collect();
        let times_1x = manifest
            .workloads
            .first()
            .and_then(|workload| workload.times_1x);
        let result = verdict.result();
        let reason_code = verdict.reasons.first().map(|reason| json_name(reason.code));
        let decided = verdict.decided_by.as_ref();
        let on_device = |name: Option<&str>| device(manifest, name).map(|device| device as u64);
        self.push(RunRow {
            run_id,
            series_id,
            path,
            tool: &manifest.tool,
            started_at: UnixMs(manifest.started_unix_ms),
            test: &kinds.join("+"),
            purpose: manifest.purpose.as_deref(),
            note: manifest.note.as_deref(),
            load_x: manifest.multiple.or(times_1x),
            sla: &verdict.sla,
            simulated: manifest.simulated,
            engine: text_fact(&manifest.engine_facts, "engine"),
            devices: manifest.devices.len() as u64,
            duration_sec: manifest.duration_sec,
            ran_sec: verdict.ran_sec,
            report_interval_sec: manifest.report_interval_sec,
            slice_sec: manifest.slice_sec,
            intervals: run.intervals,
            outcome: &json_name(verdict.outcome),
            reason_code: reason_code.as_deref(),
            reason: &result.reason,
            class: &json_name(verdict.class),
            complete: run.is_complete(),
            partial: verdict.partial,
            ended: &json_name(&verdict.end),
            decided_stream: decided.map(|decided| decided.stream.as_str()),
            decided_device: decided.and_then(|decided| on_device(decided.device.as_deref())),
            decided_slice: decided.map(|decided| decided.slice),
            decided_threshold_ns: decided.map(|decided| decided.threshold_ns),
            decided_share: decided.map(|decided| decided.share),
            decided_share_max: decided.map(|decided| decided.share_max),
            damage: joined(&run.damage).as_deref(),
        })?;
        for (rank, reason) in (1..).zip(&result.reasons) {
            let code = &json_name(reason.code);
            let reason = reason.text.as_str();
            self.push(ReasonRow {
                run_id,
                rank,
                code,
                reason,
            })?;
        }
        for finding in &manifest.findings {
            let device = device(manifest, finding.device.as_deref());
            self.push(FindingRow {
                run_id,
                check_name: &finding.check,
                level: &json_name(finding.level),
                device: device.map(|device| device as u64),
                serial: device.and_then(|device| serials[device]),
                finding: &finding.finding,
                reason: &finding.reason,
                remedy: &finding.remedy,
            })?;
        }
        self.add_machine(manifest, run_id, &serials)?;
        for stream in &verdict.streams {
            self.push(StreamRow {
                run_id,
                stream: &stream.name,
                direction: direction(&stream.name),
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
        self.add_slices(run, run_id, &serials)?;
        self.add_trace(run, run_id, &serials)
    }

    fn add_machine(
        &mut self,
        manifest: &Manifest,
        run_id: &str,
        serials: &[Option<&str>],
    ) -> Result {
        let host = &manifest.host_facts;
        self.push(HostRow {
            run_id,
            hostname: text_fact(host, "hostname"),
            kernel_release: text_fact(host, "kernel_release"),
            distribution: text_fact(host, "distribution"),
            cpu_model: text_fact(host, "cpu_model"),
            online_cpus: number_of(host, "online_cpus"),
            numa_nodes: number_of(host, "numa_nodes"),
            memory_total_bytes: number_of(host, "memory_total_bytes"),
            cpu_governor: text_fact(host, "cpu_governor"),
            hypervisor: text_fact(host, "hypervisor"),
        })?;
        for (device, name) in manifest.devices.iter().enumerate() {
            let facts = manifest.device_facts.get(device).unwrap_or(&Value::Null);
            self.push(DriveRow {
                run_id,
                device: device as u64,
                name,
                serial: serials[device],
                wwid: text_fact(facts, "wwid"),
                model: text_fact(facts, "model"),
                firmware: text_fact(facts, "firmware"),
                size_bytes: number_of(facts, "size_bytes"),
                used_bytes: number_of(facts, "used_bytes"),
                device_kind: text_fact(facts, "kind"),
                kernel_name: text_fact(facts, "kernel_name"),
                transport: text_fact(facts, "transport"),
                numa_node: number_of(facts, "numa_node"),
                scheduler: text_fact(facts, "scheduler"),
                hardware_queues: number_of(facts, "hardware_queues"),
                queue_requests_max: number_of(facts, "queue_requests_max"),
                logical_sector_bytes: number_of(facts, "logical_sector_bytes"),
                physical_sector_bytes: number_of(facts, "physical_sector_bytes"),
                write_cache: text_fact(facts, "write_cache"),
            })?;
        }
        Ok(())
    }

    fn add_slices(&mut self, run: &Run, run_id: &str, serials: &[Option<&str>]) -> Result {
        let manifest = &run.manifest;
        let verdict = &run.verdict;
        for (group, slice) in verdict
            .groups
            .iter()
            .flat_map(|group| group.slices.iter().map(move |slice| (group, slice)))
        {
            let device = device(manifest, group.device.as_deref());
            let stream_info = manifest
                .streams
                .iter()
                .find(|stream| stream.name == group.stream);
            let stream_limits = stream_info.and_then(|stream| stream.limits.as_ref());
            let sla = stream_limits.map_or(Some(&manifest.sla), |own| own.sla.as_ref());
            for (index, threshold_ns) in verdict.thresholds_ns.iter().copied().enumerate() {
                let limit = sla.and_then(|sla| {
                    sla.limits()
                        .iter()
                        .find(|limit| limit.threshold_ns == threshold_ns)
                });
                let decided = verdict.decided_by.as_ref().is_some_and(|decided| {
                    (
                        &decided.stream,
                        &decided.device,
                        decided.slice,
                        decided.threshold_ns,
                    ) == (&group.stream, &group.device, slice.slice, threshold_ns)
                });
                self.push(SliceRow {
                    run_id,
                    stream: &group.stream,
                    device: device.map(|device| device as u64),
                    serial: device.and_then(|device| serials[device]),
                    slice: slice.slice,
                    complete: slice.complete,
                    threshold_ns,
                    wanted: slice.scheduled,
                    judged_over: slice.judged_over.get(index).copied().unwrap_or(0),
                    response_over: slice.response_over.get(index).copied().unwrap_or(0),
                    judged_share: slice
                        .judged_share
                        .as_ref()
                        .and_then(|shares| shares.get(index).copied()),
                    share_max: limit.map(|limit| limit.share_max()),
                    decided,
                })?;
            }
        }
        Ok(())
    }

    fn add_trace(
        &mut self,
        run: &Run,
        run_id: &str,
        serials: &[Option<&str>],
    ) -> Result<Option<RunDirError>> {
        let samples = match read_trace(&run.dir, &run.manifest) {
            Ok(samples) => samples,
            Err(error) => return Ok(Some(error)),
        };
        for line in samples.lines {
            self.push(TraceRow {
                run_id,
                device: line.device as u64,
                serial: serials[line.device],
                at_sec: line.at_sec,
                length_ms: line.length_ms,
                kind: line.kind.name(),
                size: line.size.name(),
                requests: line.requests,
                queue_p50_ns: line.queue.p50_ns,
                queue_p99_ns: line.queue.p99_ns,
                queue_max_ns: line.queue.max_ns,
                device_p50_ns: line.device_time.p50_ns,
                device_p99_ns: line.device_time.p99_ns,
                device_max_ns: line.device_time.max_ns,
            })?;
        }
        Ok(None)
    }

    /// Judges a series again from its `runs`. Adds the row of the series and the rows of its steps.
    pub(crate) fn add_series(
        &mut self,
        source: &mut SourceSeries,
        runs: &[(SourceRun, Run)],
    ) -> Result {
        let (run_of_step, doubts) = source.rejudge(runs);
        let series = &source.series;
        let series_id = source.id.as_str();
        let conclusion = series.conclusion.as_ref();
        self.push(SeriesRow {
            series_id,
            path: &source.path,
            tool: &series.tool,
            purpose: &json_name(series.purpose),
            began_at: UnixMs(series.began_unix_ms),
            outcome: conclusion
                .map(|conclusion| json_name(conclusion.outcome))
                .as_deref(),
            conclusion: conclusion.map(|conclusion| conclusion.sentence.as_str()),
            rating_x: conclusion.and_then(|conclusion| conclusion.rating),
            comparable: conclusion.map(|conclusion| conclusion.comparable),
            doubts: joined(&doubts).as_deref(),
            note: series.note.as_deref(),
        })?;
        for ((step, run), number) in series.steps.iter().zip(&run_of_step).zip(1..) {
            self.push(StepRow {
                series_id,
                step: number,
                name: &step.name,
                run_id: run.map(|run| runs[run].0.id.as_str()),
                load_x: step.multiple,
                state: &json_name(step.state),
                outcome: step.outcome.map(json_name).as_deref(),
                reason: &step.reason,
                attempts: u64::from(step.attempts),
            })?;
        }
        Ok(())
    }
}
