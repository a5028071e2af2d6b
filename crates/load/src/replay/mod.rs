//! Replays the operations of a recorded trace as a load, each at its recorded time.
//!
//! ```text
//! requests of a trace -> TraceBuilder -> Trace: by device and stream, ordered by time
//!                                          |
//!                        Replay (a Workload): one open lane for each stream on each device
//! ```
//!
//! A stream has two parallel lists: its operations, and their start times. Both are shared, so any number of shards can
//! take every n-th entry. Each operation is issued at its recorded time, even if earlier operations are late: a trace
//! does not show dependencies.
//!
//! Reads smaller than ACT's large block (128 KiB) are judged, because clients wait for them. In a trace without such
//! reads, the first class that occurs is judged, in this order: small writes, large reads, large writes, flushes,
//! discards. If the device's unit of direct I/O is larger than the traced device's, operations are enlarged to whole
//! units. Writes carry flashproof's own data.

mod trace;

pub use trace::{OPERATIONS_MAX, Trace, TraceBuilder};

use crate::plan::{Arrival, BufferClass, SALTED_AHEAD};
use crate::schedule::{Listed, Schedule};
use crate::stream::{IoRequest, Stream};
use crate::workload::{
    BuildContext, Built, CannotRun, DeviceShape, MAX_LAG_SEC, RunPlan, RunSpec, Workload, offered,
    setting, stream_info,
};
use engine::DeviceName;
use results::cell::{Arrivals, StreamInfo};
use results::format::{self, Grouped};
use results::run_dir::{RecordedConfig, WorkloadRecord};
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;
use sys::op::OpKind;
use sys::random::Random;
use trace::{Class, ClassOps, LANE_MEMORY_BYTES, Operation};

const NS_PER_SEC: u64 = 1_000_000_000;

/// Maximum operations in flight of a stream on a device.
const SLOTS_MAX: u64 = 1_024;

/// If memory limits the slots to fewer than this, the number is reported.
const SLOTS_REPORTED_BELOW: u64 = 16;

#[derive(Debug, Clone)]
pub struct Replay {
    trace: Arc<Trace>,
    devices: Vec<DeviceName>,
    laps: u32,
    fit: bool,
}

impl Replay {
    /// `devices`: one for each traced device, in the order of device numbers. The trace is played in `laps` laps.
    /// `fit`: offsets beyond the end of a device wrap around to its start. Errors: the run would last too long.
    pub fn new(
        trace: Trace,
        devices: Vec<DeviceName>,
        laps: u32,
        fit: bool,
    ) -> Result<Self, CannotRun> {
        let replay = Self {
            trace: Arc::new(trace),
            devices,
            laps,
            fit,
        };
        match replay.duration_sec() {
            sec if sec > u32::MAX.into() => Err(CannotRun(format!(
                "cannot replay this trace - the run would last {sec} s, more than {} s - raise --speed, lower --repeat, or check \
                 the trace for a damaged time",
                u32::MAX
            ))),
            _ => Ok(replay),
        }
    }

    /// Description for people: one line for each stream. Judged streams are marked.
    pub fn describe(&self) -> String {
        let trace = &self.trace;
        let laps = if self.laps > 1 {
            format!(", {} times", self.laps)
        } else {
            String::new()
        };
        let mut text = format!(
            "replay of {} in {} s{laps}\n",
            format::count(trace.operations, "operation"),
            format::number(trace.span_ns as f64 / 1e9)
        );
        for (device, name) in trace.devices().into_iter().zip(&self.devices) {
            text += &format!("  {} on {name}\n", device.traced());
        }
        for class in trace.classes() {
            let judged = if Some(class) == trace.judged() {
                ", judged"
            } else {
                ""
            };
            let (count, bytes) = trace.totals(class);
            text += &format!(
                "  {}: {}, {}{judged}\n",
                class.name(),
                Grouped(count),
                format::bytes(bytes as f64)
            );
        }
        text
    }

    fn duration_sec(&self) -> u64 {
        // Add a second, so that the last operation is within the duration.
        self.trace.span_ns.saturating_mul(self.laps.into()) / NS_PER_SEC + 1
    }

    /// Arrivals per second of a stream over the whole run.
    fn iops(&self, class: Class) -> f64 {
        self.trace.totals(class).0 as f64 * f64::from(self.laps) / self.duration_sec() as f64
    }

    fn streams(&self) -> Vec<StreamInfo> {
        let classes = self.trace.classes();
        let judged = self.trace.judged();
        classes
            .into_iter()
            .map(|class: Class| {
                stream_info(
                    class.name(),
                    Some(class) == judged,
                    self.iops(class),
                    Arrivals::Given,
                )
            })
            .collect()
    }

    /// Counts the operations that must change to fit a device. Errors: operations that cannot be made to fit.
    fn check(
        &self,
        device: &DeviceShape,
        groups: &[(Class, &ClassOps)],
    ) -> Result<ReplayChanges, CannotRun> {
        let mut changes = ReplayChanges::default();
        let mut end = 0;
        for (class, group) in groups.iter().filter(|(class, _)| *class != Class::Flushes) {
            let usable_range = UsableRange::new(device, *class);
            for operation in group.operations.iter() {
                let (offset, len) = usable_range.covering(operation);
                if len > usable_range.usable_bytes {
                    return Err(CannotRun(format!(
                        "cannot replay on {} - its {} bytes do not hold an operation of {len} bytes - use a larger device",
                        device.name, device.size_bytes
                    )));
                }
                changes.rounded += u64::from(len != operation.bytes());
                changes.moved += u64::from(offset + len > usable_range.usable_bytes);
                end = end.max(offset + len);
            }
        }
        if changes.moved > 0 && !self.fit {
            return Err(CannotRun(format!(
                "cannot replay on {} - {} of the trace lie beyond the device's {} bytes, up to byte {end} - use a \
                 larger device, or give --fit to wrap their offsets around to the start of the device",
                device.name,
                format::count(changes.moved, "operation"),
                device.size_bytes
            )));
        }
        Ok(changes)
    }
}

/// Numbers of operations that are not replayed as they were recorded.
#[derive(Debug, Default)]
struct ReplayChanges {
    /// Operations enlarged to whole units of the device's direct I/O.
    rounded: u64,
    /// Operations whose offset wrapped around to the start of the device.
    moved: u64,
}

/// The part of a device that can be used, in its units.
#[derive(Debug, Clone, Copy)]
struct UsableRange {
    unit_bytes: u64,
    usable_bytes: u64,
}

impl UsableRange {
    fn new(device: &DeviceShape, class: Class) -> Self {
        // A flush has no offset to align.
        let unit_bytes = if class == Class::Flushes {
            1
        } else {
            device.min_io_bytes.into()
        };
        Self {
            unit_bytes,
            usable_bytes: device.size_bytes / unit_bytes * unit_bytes,
        }
    }

    /// Offset and length of the whole units that contain an operation.
    fn covering(self, operation: &Operation) -> (u64, u64) {
        let start = operation.start();
        let end = operation.start() + operation.bytes();
        let offset = start / self.unit_bytes * self.unit_bytes;
        (offset, end.next_multiple_of(self.unit_bytes) - offset)
    }

    fn largest(self, group: &ClassOps) -> u64 {
        group
            .operations
            .iter()
            .map(|operation| self.covering(operation).1)
            .max()
            .unwrap_or(0)
    }

    /// As [`Self::covering`], but an offset beyond the end of the device wraps around to the start of the device.
    fn place(self, operation: &Operation) -> (u64, u32) {
        let (offset, len) = self.covering(operation);
        let offset = if offset + len > self.usable_bytes {
            (offset % self.usable_bytes.max(1)).min(self.usable_bytes.saturating_sub(len))
        } else {
            offset
        };
        (offset, len as u32)
    }
}

impl Workload for Replay {
    fn kind(&self) -> &'static str {
        "replay"
    }

    fn spec(&self) -> RunSpec {
        let spec = RunSpec::new(self.devices.clone(), self.duration_sec());
        RunSpec {
            max_lag_sec: MAX_LAG_SEC,
            keeps_instants: true,
            ..spec
        }
    }

    fn writes(&self) -> bool {
        self.trace
            .classes()
            .into_iter()
            .any(|class| class.kind() != OpKind::Read)
    }

    fn unit_bytes(&self) -> u64 {
        // Room to enlarge operations to whole units of direct I/O. `check` refuses devices that are still too small.
        self.trace.largest_bytes() + 4_096
    }

    fn build(&self, devices: &[DeviceShape], choices: &BuildContext, run: &mut RunPlan) -> Built {
        // The rate over the trace's span, not over the whole seconds of the run.
        let iops =
            self.trace.operations as f64 * NS_PER_SEC as f64 / self.trace.span_ns.max(1) as f64;
        let shards = choices.shards_for(iops);
        let groups: Vec<_> = self
            .trace
            .devices()
            .into_iter()
            .map(|device| self.trace.streams_on(device))
            .collect();
        let changes: Vec<_> = devices
            .iter()
            .zip(&groups)
            .map(|(device, groups)| self.check(device, groups))
            .collect::<Result<_, _>>()?;
        let mut few_slots = Vec::new();
        let plan_offsets = run.add(self.streams(), shards as usize);
        for (shard, plan) in (0..shards).zip(&mut run.shards) {
            for (device, groups) in devices.iter().zip(&groups) {
                for (class, group) in groups {
                    let cell = plan_offsets
                        .cell_of(class.name(), device.target)
                        .unwrap_or(0);
                    let usable_range = UsableRange::new(device, *class);
                    let largest = usable_range.largest(group);
                    let carried = slots_in_memory(*class, largest);
                    if shard == 0 && carried < SLOTS_REPORTED_BELOW {
                        few_slots.push(setting(
                            &format!("in-flight-max@{}@{}", class.name(), device.name),
                            &carried,
                        ));
                    }
                    let slots =
                        slots(device, groups, *class, largest, choices, devices.len()) / shards;
                    let slots = slots.max(1);
                    let random_part = (u64::from(shard) << 16) | plan.buffers.len() as u64;
                    let random = Random::for_part(choices.seed, random_part);
                    let buffers = plan.add_buffers(match class.kind() {
                        OpKind::Write => {
                            BufferClass::fresh(largest as usize, slots, device.salt(random, 100))
                        }
                        kind => BufferClass::plain(
                            if kind.moves_data() {
                                largest as usize
                            } else {
                                0
                            },
                            slots,
                        ),
                    });
                    let first_index = u64::from(shard);
                    let stride = u64::from(shards);
                    let lap_ns = self.trace.span_ns.max(1);
                    let schedule = Listed::new(
                        group.at_ns.clone(),
                        lap_ns,
                        self.laps.into(),
                        first_index,
                        stride,
                    );
                    let playback = Playback {
                        operations: group.operations.clone(),
                        indices: (first_index
                            ..group.operations.len() as u64 * u64::from(self.laps))
                            .step_by(shards as usize),
                        usable_range,
                        request: IoRequest::new(class.kind(), device.target, cell, buffers),
                    };
                    let limit = plan.add_limit(slots, false);
                    let name = plan_offsets.lane_name(class.name(), &device.name);
                    plan.add_lane(
                        playback,
                        Arrival::Scheduled(Schedule::Listed(schedule)),
                        limit,
                        name,
                    );
                }
            }
        }
        let config = self.record(devices, &changes, few_slots);
        Ok(WorkloadRecord {
            kind: self.kind().to_owned(),
            config,
            ..WorkloadRecord::default()
        })
    }
}

impl Replay {
    fn record(
        &self,
        devices: &[DeviceShape],
        changes: &[ReplayChanges],
        few_slots: Vec<(String, String)>,
    ) -> RecordedConfig {
        let trace = &self.trace;
        let mut settings = vec![
            setting("operations", &trace.operations),
            setting("span-sec", &format!("{:.6}", trace.span_ns as f64 / 1e9)),
            setting("speed", &trace.speed),
            setting("repeat", &self.laps),
            setting("left-out", &trace.left_out),
        ];
        for ((device, changes), number) in devices.iter().zip(changes).zip(trace.devices()) {
            settings.push(setting(&number.traced(), &device.name));
            settings.push(setting(
                &format!("rounded@{}", device.name),
                &changes.rounded,
            ));
            settings.push(setting(&format!("moved@{}", device.name), &changes.moved));
        }
        settings.extend(few_slots);
        RecordedConfig {
            derived: self.streams().iter().map(offered).collect(),
            settings,
            ..RecordedConfig::default()
        }
    }
}

/// Maximum operations in flight of a stream: a part of the device's queue. Small operations get most of the queue.
fn slots(
    device: &DeviceShape,
    groups: &[(Class, &ClassOps)],
    class: Class,
    largest: u64,
    choices: &BuildContext,
    devices: usize,
) -> u32 {
    let carried = choices
        .in_flight_max
        .map_or(u64::MAX, |most| u64::from(most) / devices as u64);
    let queue = u64::from(device.queue_requests.unwrap_or(u32::MAX))
        .min(carried)
        .min(SLOTS_MAX);
    let other_slots = (queue / 8).max(1);
    let small = groups.iter().filter(|(class, _)| class.is_small()).count() as u64;
    let others = groups.len() as u64 - small;
    let slots_share = if class.is_small() {
        queue.saturating_sub(others * other_slots) / small.max(1)
    } else {
        other_slots
    };
    slots_in_memory(class, largest).min(slots_share).max(1) as u32
}

/// Number of operations whose buffers fit in the memory of a stream. `largest`: bytes of the largest operation.
fn slots_in_memory(class: Class, largest: u64) -> u64 {
    let buffers = if class.kind().moves_data() {
        LANE_MEMORY_BYTES / largest.max(1)
    } else {
        SLOTS_MAX
    };
    match class.kind() {
        OpKind::Write => buffers.saturating_sub(SALTED_AHEAD.into()).max(buffers / 2),
        _ => buffers,
    }
    .clamp(1, SLOTS_MAX)
}

/// The operations of a stream on a device: every n-th of a shared list.
#[derive(Debug, Clone)]
struct Playback {
    operations: Arc<[Operation]>,
    /// Indices of this shard's operations, over all laps.
    indices: StepBy<Range<u64>>,
    usable_range: UsableRange,
    request: IoRequest,
}

impl Stream for Playback {
    #[inline]
    fn next(&mut self) -> Option<IoRequest> {
        let index = self.indices.next()?;
        let operation = &self.operations[(index % self.operations.len() as u64) as usize];
        let (offset, len) = if self.request.kind == OpKind::Flush {
            (0, 0)
        } else {
            self.usable_range.place(operation)
        };
        Some(IoRequest {
            offset,
            len,
            sync: operation.sync,
            ..self.request
        })
    }

    fn follows(&self) -> bool {
        false
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        cells(self.request.cell, arrivals);
    }
}

#[cfg(test)]
mod tests;
