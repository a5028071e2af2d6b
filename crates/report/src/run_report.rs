//! Report of a run's directory, and of a step of a series: what the directory has, judged again, in words and charts.

use crate::charts::counters::{self, Change, DeviceWaf};
use crate::charts::timeline::Timeline;
use crate::charts::windows::Windows;
use crate::charts::{Chart, ChartResolution, Section, latency, rates, telemetry};
use crate::latencies::{self, StreamLatencies};
use crate::words::{self, Banner, Pair, Paragraph};
use conclusions::rejudge::{StepEvidence, doubt_of, run_dir_of};
use conclusions::series::{SeriesStepState, Step};
use results::finding::Finding;
use results::format;
use results::judge::{RunResult, Sla, Verdict};
use results::run_dir::{self, HlogKind, Manifest, Run, RunDirError, WorkloadRecord, text_fact};
use results::steady::{Rounds, Steadiness};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Contents of one run directory.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunReport {
    /// The directory, as the user named it.
    pub dir: String,
    /// Title with the test and its devices.
    pub title: String,
    /// True if the run ended and wrote its verdict.
    pub complete: bool,
    /// Warnings that are shown first: the run is incomplete, data is damaged or missing.
    pub banners: Vec<Banner>,
    /// The part of the verdict that every output format shows.
    pub result: RunResult,
    /// The verdict, computed again from the recorded counts.
    pub verdict: Verdict,
    /// The number that decided the verdict, one sentence; null if there was nothing to judge.
    pub decided: Option<String>,
    /// Class of the run in words: a screening, or a certification's load.
    pub class_in_words: String,
    /// The most important facts.
    pub summary: Vec<Pair>,
    /// Quantiles of each stream over the whole run.
    pub latencies: Vec<StreamLatencies>,
    /// The charts.
    pub sections: Vec<Section>,
    /// Steadiness of the measured values; null if unknown.
    pub steadiness: Option<Steadiness>,
    /// The steadiness in words: the state, then each change.
    pub steadiness_in_words: Vec<String>,
    /// Changes of the drives' own counters.
    pub counters: Vec<Change>,
    /// Write amplification of each drive that counts the bytes written to its media.
    pub device_waf: Vec<DeviceWaf>,
    /// Findings about host and devices before the run.
    pub findings: Vec<Finding>,
    /// Measurements that could not be made, and why.
    pub unmeasured: Vec<String>,
    /// Program and version that ran the test.
    pub tool: String,
    /// The command line.
    pub command: Vec<String>,
    /// Beginning of the run, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// The user's note; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// True if the devices were simulated.
    pub simulated: bool,
    /// The limits.
    pub sla: Sla,
    /// The devices, as the user named them.
    pub devices: Vec<String>,
    /// Workloads that ran at the same time, with their configuration.
    pub workloads: Vec<WorkloadRecord>,
    /// Facts about each device.
    pub device_facts: Vec<Value>,
    /// Facts about the host.
    pub host_facts: Value,
    /// The engine that carried out the operations.
    pub engine_facts: Value,
    /// Method of the measurement, and its limits.
    pub method: Vec<Paragraph>,
    /// The setup of the run.
    #[serde(skip)]
    pub(crate) manifest: Manifest,
    /// Damage to the run directory, each one sentence. Also among the banners.
    #[serde(skip)]
    pub(crate) damage: Vec<String>,
    /// Why the run cannot be trusted completely; `None` if it can. Also among the banners.
    #[serde(skip)]
    pub(crate) doubt: Option<String>,
}

impl RunReport {
    /// Reads the run in `dir` and judges it again.
    pub(crate) fn read(dir: &Path, detail: ChartResolution) -> Result<Self, RunDirError> {
        let run = run_dir::read(dir)?;
        let complete = run.is_complete();
        let doubt = doubt_of(&run);
        let Run {
            manifest,
            verdict,
            mut remarks,
            damage,
            ..
        } = run;
        let timeline = Timeline::read(dir, &manifest, detail)?;
        let layout = manifest.layout();
        let logs = [HlogKind::Service, HlogKind::Wait, HlogKind::Lag].map(|kind| {
            Windows::read(
                dir,
                &layout,
                kind,
                verdict.ran_sec,
                detail,
                kind == HlogKind::Service,
            )
        });
        let damage_of_logs: Vec<String> =
            logs.iter().filter_map(|log| log.damage.clone()).collect();
        // Quantiles of a damaged log's readable part would be mistaken for those of the whole run.
        let latencies = match (&damage_of_logs[..], &logs) {
            ([], [service, wait, lag]) => latencies::of_streams(
                &layout,
                service.totals().zip(wait.totals().zip(lag.totals())),
            ),
            _ => Vec::new(),
        };
        remarks.extend(damage_of_logs);
        let rounds = Rounds::read(dir, &manifest);
        let steadiness = rounds.as_ref().map(Steadiness::from_rounds).ok();
        let steadiness_in_words = match (&steadiness, &rounds) {
            (Some(steadiness), _) => in_words(steadiness),
            (None, Err(error)) => vec![format!("steadiness is unknown: {error}")],
            (None, Ok(_)) => Vec::new(),
        };
        let simulated = manifest.simulated;
        let mut device_charts = telemetry::of_devices(&timeline, simulated);
        let (traced, remarks_of_trace) =
            latency::trace_charts(dir, &manifest, verdict.ran_sec, detail);
        device_charts.extend(traced);
        remarks.extend(remarks_of_trace);
        let counters = counters::changes(&timeline);
        Ok(Self {
            dir: dir.display().to_string(),
            title: title(&manifest),
            complete,
            banners: remarks.into_iter().map(|text| Banner { text }).collect(),
            decided: verdict.decided_by.as_ref().map(ToString::to_string),
            class_in_words: words::class(
                verdict.class,
                simulated,
                verdict.ran_sec,
                verdict.partial,
            ),
            summary: summary(&manifest, &verdict),
            latencies,
            sections: sections(
                &manifest,
                &verdict,
                &timeline,
                &logs,
                steadiness.as_ref(),
                device_charts,
            ),
            steadiness,
            steadiness_in_words,
            device_waf: counters::device_waf(&counters),
            counters,
            unmeasured: unmeasured(&manifest, &verdict, &timeline),
            method: words::method(&manifest),
            manifest: manifest.clone(),
            damage,
            doubt,
            result: verdict.result(),
            verdict,
            findings: manifest.findings,
            tool: manifest.tool,
            command: manifest.command,
            started_unix_ms: manifest.started_unix_ms,
            note: manifest.note,
            simulated,
            sla: manifest.sla,
            devices: manifest.devices,
            workloads: manifest.workloads,
            device_facts: manifest.device_facts,
            host_facts: manifest.host_facts,
            engine_facts: manifest.engine_facts,
        })
    }
}

fn title(manifest: &Manifest) -> String {
    let purpose = manifest
        .purpose
        .as_ref()
        .map(|purpose| format!("{purpose}: "))
        .unwrap_or_default();
    let devices = match &manifest.devices[..] {
        [one] => one.clone(),
        several => format::count(several.len() as u64, "device"),
    };
    format!(
        "{purpose}{} test of {devices}",
        words::capital(&manifest.kind())
    )
}

fn summary(manifest: &Manifest, verdict: &Verdict) -> Vec<Pair> {
    let devices = manifest.devices.iter().zip(&manifest.device_facts);
    let mut pairs: Vec<Pair> = devices
        .map(|(name, facts)| Pair::new(name, drive_text(facts)))
        .collect();
    pairs.extend(host_text(&manifest.host_facts).map(|host| Pair::new("Host", host)));
    if let Some(multiple) = manifest.multiple {
        pairs.push(Pair::new("Load", format::multiple(multiple)));
    }
    for stream in verdict.streams.iter().filter(|stream| stream.judged) {
        let is_open = stream.offered_iops > 0.0;
        let offered = if is_open {
            format!("{}/s offered", format::number(stream.offered_iops))
        } else {
            "closed loop".into()
        };
        let achieved = format::number(stream.achieved_iops);
        let lost = stream.errors.saturating_add(stream.not_done());
        let lost = if lost > 0 {
            format!(
                ", {} failed or never completed",
                format::number(lost as f64)
            )
        } else {
            "".into()
        };
        pairs.push(Pair::new(
            &format!("Rate of {}", stream.name),
            format!("{offered}, {achieved}/s achieved{lost}"),
        ));
    }
    let ran = format::span_of(verdict.ran_sec);
    let planned = format::span(manifest.duration_sec);
    let is_whole = ran == planned || manifest.operations.is_some();
    pairs.push(Pair::new(
        "Ran for",
        if is_whole {
            ran
        } else {
            format!("{ran} of {planned}")
        },
    ));
    pairs.push(Pair::new("Began", format::date(manifest.started_unix_ms)));
    if !manifest.sla.is_unlimited() {
        pairs.push(Pair::new("Limits", manifest.sla.words()));
    }
    pairs.extend(manifest.note.clone().map(|note| Pair::new("Note", note)));
    pairs
}

/// Model, serial number, firmware and size, as far as they are known.
pub(crate) fn drive_text(facts: &Value) -> String {
    let named = [
        ("model", ""),
        ("serial", "serial "),
        ("firmware", "firmware "),
    ];
    let named = named.map(|(key, name)| Some(format!("{name}{}", text_fact(facts, key)?)));
    let size = facts.get("size_bytes").and_then(Value::as_f64);
    let known: Vec<String> = named
        .into_iter()
        .flatten()
        .chain(size.map(format::bytes))
        .collect();
    if known.is_empty() {
        text_fact(facts, "kind").unwrap_or_default().to_owned()
    } else {
        known.join(", ")
    }
}

/// Name and kernel of a host.
pub(crate) fn host_text(facts: &Value) -> Option<String> {
    let name = text_fact(facts, "hostname")?;
    let kernel = text_fact(facts, "kernel_release").map(|kernel| format!(", Linux {kernel}"));
    Some(format!("{name}{}", kernel.unwrap_or_default()))
}

/// Missing measurements from manifest and verdict, and empty columns of telemetry.
fn unmeasured(manifest: &Manifest, verdict: &Verdict, timeline: &Timeline) -> Vec<String> {
    let empty = timeline
        .columns
        .iter()
        .filter(|column| !column.bins.any())
        .map(|column| column.name.as_str());
    let empty: Vec<&str> = empty.collect();
    let mut all = [&*manifest.unmeasured, &*verdict.unmeasured].concat();
    if !empty.is_empty() {
        all.push(format!(
            "these columns of telemetry.csv are empty: {}",
            empty.join(", ")
        ));
    }
    all
}

fn in_words(steadiness: &Steadiness) -> Vec<String> {
    let changes = steadiness
        .change_points
        .iter()
        .map(latency::change_sentence);
    std::iter::once(steadiness.sentence())
        .chain(changes)
        .collect()
}

fn sections(
    manifest: &Manifest,
    verdict: &Verdict,
    timeline: &Timeline,
    [service, wait, lag]: &[Windows; 3],
    steadiness: Option<&Steadiness>,
    devices: Vec<Chart>,
) -> Vec<Section> {
    let simulated = manifest.simulated;
    vec![
        Section::new(
            "shares",
            "Shares over the thresholds",
            "The basis of the verdict. The worst complete slice decides.",
            rates::share_charts(verdict, &manifest.sla),
        ),
        Section::new(
            "latency",
            "Latency over time",
            "Service times over the run: from the submission of an operation to its completion.",
            [
                latency::heat_maps(manifest, service),
                latency::service_charts(manifest, service, steadiness),
            ]
            .concat(),
        ),
        Section::new(
            "delays",
            "Wait and lag",
            "Delays before submission: waiting for a slot (judged), and lag, the delay by flashproof or its host (too \
             much lag makes a run invalid).",
            latency::delay_charts(manifest, wait, lag),
        ),
        Section::new(
            "rates",
            "Offered and achieved rate",
            "Did the run reach the requested load?",
            rates::rate_charts(manifest, timeline),
        ),
        Section::new(
            "devices",
            "Devices",
            "Reported by the kernel and the drives.",
            devices,
        ),
        Section::new(
            "host",
            "Host and this program",
            "Was the host itself slow?",
            telemetry::of_host(timeline, simulated),
        ),
    ]
}

/// A step and its run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StepReport {
    /// The step.
    pub step: Step,
    /// The run of the step; null if there is none, or it is unreadable. Runs of a search or a baseline have no charts.
    pub report: Option<RunReport>,
    /// Why there is no run; null if there is one.
    pub absent: Option<String>,
}

impl StepReport {
    pub(crate) fn read(dir: &Path, step: &Step, detail: ChartResolution) -> Self {
        let step_report = |report, absent| Self {
            step: step.clone(),
            report,
            absent,
        };
        if step.state == SeriesStepState::Planned {
            return step_report(None, Some("the step has not begun".to_owned()));
        }
        match run_dir_of(dir, step)
            .and_then(|at| RunReport::read(&at, detail).map_err(|error| error.to_string()))
        {
            Ok(report) => step_report(Some(report), None),
            Err(why) => step_report(None, Some(why)),
        }
    }

    /// Evidence from the step's run, for judging the series again.
    pub(crate) fn evidence(&self) -> Result<StepEvidence<'_>, &str> {
        match &self.report {
            Some(run) => Ok(StepEvidence {
                verdict: &run.verdict,
                manifest: &run.manifest,
                doubt: run.doubt.clone(),
            }),
            None => Err(self.absent.as_deref().unwrap_or_default()),
        }
    }
}
