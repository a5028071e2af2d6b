//! Workloads: the interface between a configuration of any kind and the run loop.
//!
//! ```text
//! configuration -> Workload --RunSpec--> engine, duration, devices
//!                     |
//!                     +-- build(devices) -> RunPlan: what is recorded (streams of the layout)
//!                                                    what each shard runs (lanes, limits, buffers)
//!                                        -> WorkloadRecord: the configuration as it is in force
//! ```
//!
//! Running, recording, judging and reporting use a [`Workload`] without knowing its kind. A run has one or several
//! workloads, which share the run's devices and shards: each adds to the same [`RunPlan`].

use crate::choice::{Engine, Pacing};
use crate::plan::{Arrival, Lane, Plan};
use engine::DeviceName;
use results::cell::{Arrivals, Layout, StreamInfo};
use results::run_dir::WorkloadRecord;
use std::ops::Range;
use std::sync::Arc;
use sys::op::Placement;
use sys::random::Random;
use sys::salt::Salt;

/// Operations per second of one issuing thread before a second thread is used. A core can issue several times as many,
/// but it also does the kernel's part of the work.
pub const SHARD_IOPS: f64 = 200_000.0;

/// Duration of a run that ends when its streams end, seconds: practically unlimited.
pub const NO_END_SEC: u64 = u64::MAX / 4 / 1_000_000_000;

/// Maximum lag before a run ends, seconds: ACT's value.
pub const MAX_LAG_SEC: u64 = 10;

/// A recorded stream that offers `offered_iops`; without a rate, a closed loop. `judged`: limits apply to the stream.
pub fn stream_info(name: &str, judged: bool, offered_iops: f64, arrivals: Arrivals) -> StreamInfo {
    StreamInfo {
        name: name.to_owned(),
        judged,
        offered_iops,
        arrivals,
        ..StreamInfo::default()
    }
}

pub fn setting(name: &str, value: &dyn ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

pub fn offered(stream: &StreamInfo) -> (String, String) {
    (
        format!("{}-per-sec", stream.name),
        format!("{:.3}", stream.offered_iops),
    )
}

/// A kind of load with its configuration.
pub trait Workload {
    /// Kind of load, one word: `storage`.
    fn kind(&self) -> &'static str;

    fn spec(&self) -> RunSpec;

    /// True if the load writes. Read-only loads need no erase consent.
    fn writes(&self) -> bool;

    fn writes_to(&self, _device: &DeviceName) -> bool {
        self.writes()
    }

    /// True if this load reads. If not, the warning about unwritten blocks is skipped.
    fn reads(&self) -> bool {
        true
    }

    /// Minimum size of each device, bytes: the largest operation of the load.
    fn unit_bytes(&self) -> u64;

    /// The placement of each kind of write of this workload on `device`; `None` for writes without a placement. A
    /// device that does not support all these placements is refused before anything is written.
    fn placements(&self, _device: &DeviceName) -> Vec<Option<Placement>> {
        self.writes().then_some(None).into_iter().collect()
    }

    fn file_plan(&self, _device: &DeviceName) -> FilePlan {
        FilePlan {
            size_bytes: self.spec().file_size_bytes,
            is_read: self.reads(),
            ..FilePlan::default()
        }
    }

    /// True if operations on `device` go through the page cache.
    fn is_buffered(&self, _device: &DeviceName) -> bool {
        false
    }

    /// For a load through the page cache: byte range that is read into the cache before the run, on a device of
    /// `size_bytes`. `None`: the device's cached pages are dropped.
    fn cached_range(&self, _device: &DeviceName, _size_bytes: u64) -> Option<Range<u64>> {
        None
    }

    /// Adds streams and lanes on `devices` (the devices of its spec) to `run`. Returns the configuration in force.
    /// Errors: a device that cannot take the load.
    fn build(&self, devices: &[DeviceShape], choices: &BuildContext, run: &mut RunPlan) -> Built;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilePlan {
    /// Size of the file, bytes; `None`: the load writes to a device.
    pub size_bytes: Option<u64>,
    /// True if the load reads the file or device. If not, the warning about unwritten blocks is skipped.
    pub is_read: bool,
    /// True if the writes allocate the blocks of a new file.
    pub sparse: bool,
    /// True if the file grows with the writes.
    pub grows: bool,
}

/// The configuration in force of a load that was added to a run, or why the load cannot be run.
pub type Built = Result<WorkloadRecord, CannotRun>;

/// Run parameters of a workload. Workloads of one run agree in all but the devices, the seed and the operations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunSpec {
    /// Devices, or files if `file_size_bytes` is set. At least one, all different, either all or none simulated.
    pub device_names: Vec<DeviceName>,
    /// Size of the largest file; `None`: the names are devices.
    pub file_size_bytes: Option<u64>,
    pub duration_sec: u64,
    pub report_interval_sec: u64,
    /// Maximum lag of a stream, seconds; 0: unlimited.
    pub max_lag_sec: u64,
    /// True if devices are opened with `O_DSYNC`.
    pub odsync: bool,
    pub engine: Engine,
    pub pacing: Pacing,
    /// True if operations must not be batched, because their exact start times are part of the model.
    pub keeps_instants: bool,
    /// True if the run is judged by slices that do not overlap, as ACT judges.
    pub aligned_slices: bool,
    /// Seed of all random choices; `None`: chosen at the start.
    pub seed: Option<u64>,
    /// Ramp time before the measurement, nanoseconds.
    pub ramp_ns: u64,
    /// Number of operations after which all streams of the workload end; `None`: the streams end by time.
    pub operations: Option<u64>,
    /// True if all issuing threads perform operations as system calls ([`Plan::synchronous`]).
    pub synchronous: bool,
}

impl RunSpec {
    /// A run on devices (not files), with a report every second, no bound on lag, and defaults for everything else.
    pub fn new(device_names: Vec<DeviceName>, duration_sec: u64) -> Self {
        Self {
            device_names,
            duration_sec,
            report_interval_sec: 1,
            ..Self::default()
        }
    }

    /// True if the devices are simulated drives on virtual time.
    pub fn is_simulated(&self) -> bool {
        self.device_names.iter().any(|name| name.drive().is_some())
    }

    pub fn names(&self) -> Vec<String> {
        self.device_names.iter().map(ToString::to_string).collect()
    }

    /// The common spec of a run, with all devices of `specs`. Errors: two specs differ in a setting of the run, or real
    /// and simulated drives are mixed.
    pub fn joined(specs: &[Self]) -> Result<Self, String> {
        let mut joined = specs
            .first()
            .cloned()
            .ok_or_else(|| "there is nothing to run".to_owned())?;
        for (number, spec) in specs.iter().enumerate().skip(1) {
            macro_rules! agree {
                ($($field:ident$(.$shown:ident($default:literal))?: $what:literal,)+) => {$(
                    if spec.$field != joined.$field {
                        return Err(format!(
                            "{} is {} in workload 1, but {} in workload {} - make them equal",
                            $what,
                            joined.$field$(.$shown($default))?,
                            spec.$field$(.$shown($default))?,
                            number + 1
                        ));
                    }
                )+};
            }
            agree! {
                duration_sec: "the duration",
                report_interval_sec: "the report interval",
                max_lag_sec: "the maximum lag",
                file_size_bytes.unwrap_or(0): "the file size in bytes (0: a device)",
                odsync: "O_DSYNC",
                engine: "the engine",
                pacing: "the pacing",
                keeps_instants: "ACT's pacing",
                aligned_slices: "judgement by ACT's slices",
                ramp_ns: "the ramp time in ns",
                synchronous: "I/O by system calls",
            }
            if spec.is_simulated() != joined.is_simulated() {
                return Err("a run has either simulated or real drives, not both".to_owned());
            }
            let new = spec
                .device_names
                .iter()
                .filter(|name| !joined.device_names.contains(name));
            let new: Vec<_> = new.cloned().collect();
            joined.device_names.extend(new);
            joined.seed = joined.seed.or(spec.seed);
        }
        Ok(joined)
    }
}

/// Properties of a device that loads need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceShape {
    /// Name as the user wrote it.
    pub name: String,
    /// Index among the devices of the run.
    pub target: u16,
    pub size_bytes: u64,
    /// Smallest direct I/O that the device supports, in bytes: 512 to 4096.
    pub min_io_bytes: u32,
    /// Number of requests that fit the device's queue in the kernel; `None`: no such queue. io_uring would hand further
    /// requests to io-wq workers until there is room.
    pub queue_requests: Option<u32>,
    /// Key of the stamps in written data (`sys::salt`).
    pub stamp_key: u64,
}

impl DeviceShape {
    /// A device without a queue in the kernel, and without stamps in its data.
    pub fn new(name: impl Into<String>, target: u16, size_bytes: u64, min_io_bytes: u32) -> Self {
        Self {
            name: name.into(),
            target,
            size_bytes,
            min_io_bytes,
            queue_requests: None,
            stamp_key: 0,
        }
    }

    /// New random data for writes to this device: `compress_pct` percent of each sector is random, the rest zeros.
    pub fn salt(&self, mut random: Random, compress_pct: u32) -> Salt {
        Salt::new(random.next_u64(), compress_pct, self.stamp_key)
    }
}

/// Parameters from the machine and the user that the configuration does not contain.
#[derive(Debug, Clone)]
pub struct BuildContext {
    pub seed: u64,
    /// Issuing threads that may be used: CPUs, or 1 on virtual time.
    pub shards_max: u32,
    /// CPUs of the machine. ACT's number of service threads depends on it.
    pub cpus: u32,
    /// Maximum operations of this workload in flight on one issuing thread, if the engine has a bound. Further
    /// operations would wait for the engine instead of a slot, and such a wait would count as flashproof's lag.
    pub in_flight_max: Option<u32>,
}

impl BuildContext {
    pub fn shards_for(&self, iops: f64) -> u32 {
        ((iops / SHARD_IOPS).ceil() as u32).clamp(1, self.shards_max.max(1))
    }
}

/// The reason why these devices cannot run a load, a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CannotRun(pub String);

/// Everything that a run runs and records; workloads add to it one after the other.
#[derive(Debug)]
pub struct RunPlan {
    pub layout: Layout,
    pub shards: Vec<Plan>,
    /// The workload that adds to the plan now, and the prefix of its streams' names.
    workload: usize,
    prefix: String,
}

impl RunPlan {
    pub fn new(devices: Vec<String>, thresholds_ns: Arc<[u64]>) -> Self {
        let layout = Layout {
            streams: Vec::new(),
            devices,
            thresholds_ns,
        };
        Self {
            layout,
            shards: Vec::new(),
            workload: 0,
            prefix: String::new(),
        }
    }

    /// Begins workload number `workload`; `name` distinguishes its streams, empty for a single workload.
    pub fn begin(&mut self, workload: usize, name: &str) {
        self.workload = workload;
        self.prefix = if name.is_empty() {
            String::new()
        } else {
            format!("{name}/")
        };
    }

    /// Adds `streams` of the current workload, recorded on every device, and makes sure that there are at least
    /// `shards` shards. Returns where the workload's streams and buffer classes begin.
    pub fn add(
        &mut self,
        streams: impl IntoIterator<Item = StreamInfo>,
        shards: usize,
    ) -> PlanOffsets {
        let workload = self.workload;
        let prefix = self.prefix.clone();
        let first_stream = self.layout.streams.len();
        let mut names = Vec::new();
        for stream in streams {
            names.push(stream.name.clone());
            let name = format!("{prefix}{}", stream.name);
            self.layout.streams.push(StreamInfo {
                name,
                workload,
                ..stream
            });
        }
        self.shards
            .resize_with(shards.max(self.shards.len()), Plan::default);
        // The workload's first buffer class has the same number in all shards: a stream need not know its shard.
        let first_buffers = self
            .shards
            .iter()
            .map(|plan| plan.buffers.len())
            .max()
            .unwrap_or(0);
        self.shards
            .iter_mut()
            .for_each(|plan| plan.buffers.resize_with(first_buffers, Default::default));
        let devices = self.layout.devices.len();
        let first_buffers = first_buffers as u16;
        PlanOffsets {
            workload,
            prefix,
            names,
            first_stream,
            devices,
            first_buffers,
        }
    }

    /// Pins each shard to a CPU, if there are enough `cpus` and all shards are closed loops that may run anywhere.
    ///
    /// The kernel moves threads that sleep a hundred thousand times per second to the CPU where they are woken, while
    /// another CPU idles: at depth 1 this halves the rate. Open loops are not pinned, because another thread on the
    /// same CPU would make them late.
    pub fn spread(&mut self, cpus: &[u32]) {
        let is_closed = |lane: &Lane| matches!(lane.arrival, Arrival::Closed { .. });
        let are_free = self.shards.iter().all(|plan| {
            plan.cpus.is_empty() && !plan.synchronous && plan.lanes.iter().all(is_closed)
        });
        if self.shards.len() == cpus.len() && are_free {
            for (plan, cpu) in self.shards.iter_mut().zip(cpus) {
                plan.cpus = vec![*cpu];
            }
        }
    }
}

/// The place of a workload in a run: the numbers of its first stream and of its first buffer class.
#[derive(Debug, Clone, Default)]
pub struct PlanOffsets {
    /// Index in the run.
    pub workload: usize,
    /// Prefix of the names of the workload's streams.
    pub prefix: String,
    /// Names of the workload's streams, without the prefix.
    names: Vec<String>,
    first_stream: usize,
    devices: usize,
    first_buffers: u16,
}

impl PlanOffsets {
    /// The cell of the workload's `stream`-th stream on a device.
    pub fn cell(&self, stream: usize, target: u16) -> u32 {
        ((self.first_stream + stream) * self.devices + usize::from(target)) as u32
    }

    pub fn cell_of(&self, name: &str, target: u16) -> Option<u32> {
        let stream = self.names.iter().position(|own| own == name)?;
        Some(self.cell(stream, target))
    }

    /// The number of the workload's `class`-th buffer class.
    pub fn buffers(&self, class: u16) -> u16 {
        self.first_buffers + class
    }

    /// Name of a lane in messages: `reads@/dev/nvme0n1`.
    pub fn lane_name(&self, stream: &str, device: &str) -> String {
        format!("{}{stream}@{device}", self.prefix)
    }
}
