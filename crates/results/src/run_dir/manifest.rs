//! The manifest: the setup of a run, with everything that is needed to judge the run again.

use super::FORMAT_VERSION;
use crate::act_log::{self, LogHeader, Test};
use crate::blame::Blamer;
use crate::cell::{Layout, StreamInfo};
use crate::finding::Finding;
use crate::judge::{Judge, JudgePlan, Sla, TestedObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Type of a device: `kind` in the facts of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A block device that is not a partition.
    #[default]
    WholeDisk,
    Partition,
    RegularFile,
    Simulated,
}

/// Value of `kind` in the facts of a database namespace, which is tested over a network.
pub const NAMESPACE: &str = "namespace";

impl DeviceKind {
    /// Reads the kind from a device's recorded facts; `None` if the facts lack the kind.
    pub fn from_facts(facts: &Value) -> Option<Self> {
        Self::deserialize(facts.get("kind")?).ok()
    }
}

/// The configuration of a workload, as written and as resolved. Each pair is a name and a value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Config")]
pub struct RecordedConfig {
    /// The text of the configuration file, or the options as given.
    pub as_written: String,
    /// Every ACT setting with its default, in ACT's order.
    pub resolved: Vec<(String, String)>,
    /// The derived rates, in ACT's order.
    pub derived: Vec<(String, String)>,
    /// Settings that ACT does not have.
    pub settings: Vec<(String, String)>,
}

/// A workload of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRecord {
    /// Name of the workload; empty for the only workload of a run.
    pub name: String,
    /// Kind of load: `storage`, `index`.
    pub kind: String,
    /// Configuration.
    pub config: RecordedConfig,
    /// Client operations per second as a multiple of 1x, the unit of published ratings.
    pub times_1x: Option<f64>,
    /// Why the result cannot be compared with published ratings, a phrase; `None`: it can be compared.
    pub not_comparable: Option<String>,
    /// Head of the workload's log in ACT's format; `None`: there is no such log.
    pub act_log: Option<ActLogHead>,
}

/// Head of a log in ACT's format, without the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActLogHead {
    /// ACT's test.
    pub test: Test,
    /// A line for each device: size, large blocks, minimum I/O size.
    pub device_lines: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT_VERSION`] of the program that wrote the directory.
    pub format_version: u32,
    /// Program and version: `flashproof 0.1.0`.
    pub tool: String,
    pub command: Vec<String>,
    /// Beginning of the run, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    pub seed: u64,
    /// Workloads that ran together; at least one.
    pub workloads: Vec<WorkloadRecord>,
    /// Configured duration, seconds; an upper bound if `operations` ends the run.
    pub duration_sec: u64,
    /// Number of operations after which the run ends; `None`: the run ends by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    pub report_interval_sec: u64,
    /// Length of a slice of the verdict, seconds: see [`crate::judge::whole_slice_sec`].
    pub slice_sec: u64,
    /// Length of a step, seconds: judged windows begin at every step. A slice, or half of it; 0 stands for a slice.
    #[serde(default)]
    pub window_step_sec: u64,
    pub simulated: bool,
    pub sla: Sla,
    /// The streams, in the order of the cells.
    pub streams: Vec<StreamInfo>,
    /// Device names as the user wrote them, in the order of the cells.
    pub devices: Vec<String>,
    /// Facts about each device (model, serial, firmware, size...), in device order.
    pub device_facts: Vec<Value>,
    /// Facts about the host (kernel, CPU, memory...).
    pub host_facts: Value,
    /// Facts about the engine (name, reason for the choice, shards...).
    pub engine_facts: Value,
    /// Length of a round of the steady-state test, seconds; a multiple of the report interval.
    pub round_sec: u64,
    /// Purpose within a series: `stage 1`, `30x`.
    pub purpose: Option<String>,
    /// The load as a multiple of 1x, if the run is part of a series.
    pub multiple: Option<f64>,
    pub findings: Vec<Finding>,
    /// Reasons for missing measurements, one sentence each.
    pub unmeasured: Vec<String>,
    /// The process of the run, to check whether it is still alive.
    pub process: Option<Process>,
    /// The user's note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Time left until `total_ops` operations are done, in the unit of `elapsed`, if the rate stays as it was during the
/// `done_ops` operations; `None` if no operation is done.
pub fn time_left(total_ops: u64, done_ops: u64, elapsed: f64) -> Option<f64> {
    (done_ops > 0).then(|| total_ops.saturating_sub(done_ops) as f64 * elapsed / done_ops as f64)
}

/// A unique identification of a process, even if its PID is reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// PID.
    pub pid: u32,
    /// Start of the process, clock ticks since boot. Source: proc_pid_stat(5), field 22.
    pub start_ticks: u64,
    /// ID of the boot. Source: /proc/sys/kernel/random/boot_id.
    pub boot_id: String,
    /// PID namespace of `pid`: `pid:[4026531836]`; `None` if unknown.
    pub pid_namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    Running,
    /// Stopped (SIGSTOP, a debugger): no progress until somebody continues it.
    Stopped,
    /// Ended, or its PID belongs to another process now.
    Gone,
    /// Not visible from here: the process may run in another container or on another machine, or ran before a reboot.
    Elsewhere,
    /// Not known: `/proc` is not mounted, or hides the process from this user.
    Unknown,
}

impl Manifest {
    /// A manifest of a run with the cells of `layout`, judged by `sla`. The caller sets the other fields. `layout` and
    /// `sla` must have the same thresholds.
    pub fn new(layout: &Layout, sla: Sla) -> Self {
        debug_assert_eq!(*layout.thresholds_ns, *sla.thresholds_ns());
        Self {
            format_version: FORMAT_VERSION,
            report_interval_sec: 1,
            slice_sec: 1,
            sla,
            streams: layout.streams.clone(),
            devices: layout.devices.clone(),
            round_sec: 10,
            ..Self::default()
        }
    }

    pub fn layout(&self) -> Layout {
        Layout {
            streams: self.streams.clone(),
            devices: self.devices.clone(),
            thresholds_ns: self.sla.thresholds_ns(),
        }
    }

    /// A sentence if a stream has a limit at a threshold that the run did not count: no share could reach such a limit.
    pub(super) fn unknown_threshold(&self) -> Option<String> {
        let run_thresholds = self.sla.thresholds_ns();
        self.streams.iter().find_map(|stream| {
            let of_stream = stream
                .limits
                .iter()
                .flat_map(|limits| &limits.sla)
                .flat_map(Sla::limits);
            let unknown = of_stream
                .into_iter()
                .find(|limit| !run_thresholds.contains(&limit.threshold_ns))?;
            Some(format!(
                "stream {} has a limit at {}, which is not a threshold of the run",
                stream.name,
                unknown.threshold_text()
            ))
        })
    }

    /// True if the load comes from a configuration; false for a replayed trace, and for transactions (options only).
    pub fn has_keys(&self) -> bool {
        self.workloads
            .iter()
            .any(|workload| !matches!(workload.kind.as_str(), "replay" | "transactions"))
    }

    pub fn tested(&self) -> TestedObject {
        let are_transactions = |workload: &WorkloadRecord| workload.kind == "transactions";
        match self
            .device_facts
            .first()
            .and_then(|facts| facts.get("kind")?.as_str())
        {
            Some(NAMESPACE) => TestedObject::Server,
            _ if self.workloads.iter().any(are_transactions) => TestedObject::Store,
            _ => TestedObject::Device,
        }
    }

    /// A judge for this run, before its first interval.
    pub fn judge(&self) -> Judge {
        let interval_sec = self.report_interval_sec;
        let slice_sec = self.slice_sec;
        let plan = JudgePlan::new(
            &self.layout(),
            self.sla.clone(),
            interval_sec,
            slice_sec,
            self.duration_sec,
        );
        let workloads = self
            .workloads
            .iter()
            .map(|workload| workload.name.clone())
            .collect();
        let tested = self.tested();
        let simulated = self.simulated;
        let has_keys = self.has_keys();
        let window_step_sec = self.step_sec();
        Judge::new(JudgePlan {
            window_step_sec,
            tested,
            simulated,
            has_keys,
            workloads,
            ..plan
        })
    }

    pub fn step_sec(&self) -> u64 {
        if self.window_step_sec == 0 {
            self.slice_sec
        } else {
            self.window_step_sec
        }
    }

    /// A blamer without intervals. `judge` judges the same run; `columns` has the names of the telemetry values.
    pub fn blamer(&self, judge: &Judge, columns: &[String]) -> Blamer {
        let devices = 0..self.devices.len();
        let kernel_names: Vec<_> = devices
            .clone()
            .map(|device: usize| {
                Some(
                    self.device_facts
                        .get(device)?
                        .get("kernel_name")?
                        .as_str()?
                        .to_owned(),
                )
            })
            .collect();
        let requests_max: Vec<_> = devices.map(|device| self.requests_max(device)).collect();
        Blamer::new(judge.plan(), columns, &kernel_names, &requests_max)
    }

    /// Maximum number of requests from this program's threads that a device's queues hold: each thread uses the
    /// hardware queue of its CPU. `None`: not recorded, or the device has no hardware queues.
    fn requests_max(&self, device: usize) -> Option<u64> {
        let facts = self.device_facts.get(device)?;
        let queues = facts.get("hardware_queues")?.as_u64()?;
        let threads = self
            .engine_facts
            .get("issuing_threads")
            .and_then(Value::as_u64)
            .unwrap_or(queues);
        facts
            .get("queue_requests_max")?
            .as_u64()?
            .checked_mul(queues.min(threads.max(1)))
    }

    /// Serial number of a device; `None` if not recorded.
    pub fn serial(&self, device: usize) -> Option<&str> {
        text_fact(self.device_facts.get(device)?, "serial")
    }

    /// Kinds of the workloads: `storage`, or for several `storage and index`.
    pub fn kind(&self) -> String {
        let mut kinds: Vec<&str> = self
            .workloads
            .iter()
            .map(|workload| workload.kind.as_str())
            .collect();
        kinds.dedup();
        kinds.join(" and ")
    }

    pub fn act_log_name(&self, workload: usize) -> String {
        match &self.workloads[..] {
            [_] => super::ACT_LOG.to_owned(),
            several => format!("act-{}.log", several[workload].name),
        }
    }

    pub fn act_header(&self, workload: usize) -> Option<LogHeader> {
        let WorkloadRecord {
            config, act_log, ..
        } = self.workloads.get(workload)?;
        let act_log = act_log.as_ref()?;
        Some(LogHeader {
            test: act_log.test,
            written_by: self.tool.clone(),
            configuration: config.resolved.clone(),
            derived_rates: config.derived.clone(),
            settings: config.settings.clone(),
            device_lines: act_log.device_lines.clone(),
            histogram_names: act_log::histogram_names(&self.layout(), workload),
            ..LogHeader::default()
        })
    }
}

/// A text among the facts about a device or a host, without padding; `None` if not recorded.
pub fn text_fact<'a>(facts: &'a Value, name: &str) -> Option<&'a str> {
    facts.get(name)?.as_str().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn trailing_blanks_are_removed_from_text_facts_of_devices() {
        let facts = json!({"serial": "S123  ", "size_bytes": 7});
        let found = ["serial", "size_bytes", "model"].map(|name| text_fact(&facts, name));
        assert_eq!(found, [Some("S123"), None, None]);
    }

    #[test]
    fn kinds_of_devices_are_words_in_the_manifest() {
        for (kind, word) in [
            (DeviceKind::WholeDisk, "whole_disk"),
            (DeviceKind::Partition, "partition"),
            (DeviceKind::RegularFile, "regular_file"),
            (DeviceKind::Simulated, "simulated"),
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), word);
            assert_eq!(DeviceKind::from_facts(&json!({"kind": word})), Some(kind));
        }
        assert_eq!(
            [json!({}), json!({"kind": "tape"}), json!(null)]
                .each_ref()
                .map(DeviceKind::from_facts),
            [None; 3]
        );
    }
}
