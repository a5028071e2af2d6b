//! Chooses the engine (io_uring, NVMe commands, AIO, threads, system calls, simulation) and runs a load on it.

use crate::console;
use crate::devices::Devices;
use crate::failure::{Failure, collect_all};
use crate::in_process::InProcess;
use crate::placement::{self, PlacementMechanism};
use device::nvme_generic::NvmeGeneric;
use device::target::Target;
use engine::EngineSetup;
use engine::aio::Aio;
use engine::calls::Calls;
use engine::passthrough::Passthrough;
use engine::pool::EnginePool;
use engine::sim::{SimEngine, SimulatedDrive};
use engine::threads::{Threads, WORKERS_MAX};
use engine::uring::Uring;
use engine::{BlockEngine, DeviceName};
use load::choice::{Engine as EngineChoice, Pacing as PacingChoice};
use load::plan::Plan;
use load::run::{Pacing, RunConfig, RunError, Sink, run, run_beside};
use load::workload::{RunSpec, Workload};
use results::cell::harmless_gap_ns;
use results::judge::RecordsRead;
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use store::client::{Client, ClientSettings};
use sys::op::Placement;
use sys::process;
use sys::ring::RingFacts;

/// Period between wake-ups for batches, as a multiple of a wake-up's CPU cost: wake-ups then use a tenth of a CPU.
const WAKE_SHARE: u64 = 10;

/// Maximum fraction of a CPU for wake-ups, if the thread wakes for each operation.
const EACH_SHARE: f64 = 0.4;

/// Bounds of the period between two wake-ups, ns. A shorter period batches hardly any operations. A longer period
/// causes a lag of more than a tenth of 1 ms, the tightest default threshold.
const PERIOD_NS: std::ops::RangeInclusive<u64> = 30_000..=110_000;

/// Period of the engine `threads`, ns. The period is long, because each wake-up also wakes workers, and blocking calls
/// leave less CPU time.
const THREADS_PERIOD_NS: u64 = 500_000;

/// Rate per issuing thread above which [`THREADS_PERIOD_NS`] applies: at this rate, blocking operations, with about 15
/// us of CPU time each, use most of a CPU.
const THREADS_GATHERED_IOPS: f64 = 50_000.0;

/// Minimum operations per period for batching. With fewer, each operation is issued alone, at its scheduled time.
const GATHERED_MIN: f64 = 3.0;

#[derive(Debug, Default)]
pub struct EngineDemand {
    pub engine: EngineChoice,
    /// For each device, the placement of each kind of write of the load ([`placement::PlacementKinds`]).
    pub placements: Vec<Vec<Option<Placement>>>,
    /// True if all issuing threads perform operations as system calls.
    pub synchronous: bool,
}

impl EngineDemand {
    pub fn new(spec: &RunSpec, workloads: &[&dyn Workload]) -> Self {
        Self {
            engine: spec.engine,
            placements: spec
                .device_names
                .iter()
                .map(|device: &DeviceName| {
                    workloads
                        .iter()
                        .filter(|workload| workload.spec().device_names.contains(device))
                        .flat_map(|workload| workload.placements(device))
                        .collect()
                })
                .collect(),
            synchronous: spec.synchronous,
        }
    }
}

pub struct Engine {
    kind: ShardEngine,
    placement: Option<PlacementMechanism>,
    /// Store that executes operations as transactions; `None`: operations go to the devices directly.
    store: Option<InProcess>,
    /// Simulated drives that persist from run to run.
    persistent_drives: Option<Arc<EnginePool<SimEngine<SimulatedDrive>>>>,
}

enum ShardEngine {
    IoUring,
    Passthrough(Vec<Arc<NvmeGeneric>>),
    /// Linux AIO; the text says why AIO is used, if AIO was not requested.
    Aio(Option<String>),
    /// Threads that block in pread and pwrite; the text says why threads are used, if threads were not requested.
    Threads(Option<String>),
    /// System calls of the issuing threads.
    Calls,
    Simulated,
    Client(Box<ClientSettings>),
}

impl Engine {
    /// Chooses the engine that `demand` requests, or the best that kernel and drives allow. Errors: the reason why no
    /// engine can carry the load. In this case, nothing was written.
    pub fn choose(demand: &EngineDemand, devices: &Devices) -> Result<Self, Failure> {
        let requested = demand.engine;
        let Devices::Real(targets) = devices else {
            if requested != EngineChoice::Auto {
                console::warning(&format!(
                    "engine: {requested} has no effect on simulated drives"
                ));
            }
            return Ok(Self {
                kind: ShardEngine::Simulated,
                placement: None,
                store: None,
                persistent_drives: None,
            });
        };
        if requested == EngineChoice::Passthrough
            || (requested == EngineChoice::Auto
                && placement::needs_passthrough(&demand.placements, targets))
        {
            return Self::passthrough(demand, targets);
        }
        let kind = match requested {
            EngineChoice::Threads => ShardEngine::Threads(None),
            EngineChoice::Aio => aio(targets)
                .map(|()| ShardEngine::Aio(None))
                .map_err(|why| {
                    Failure::environment(format!(
                        "cannot use AIO (engine: aio) - {why} - set engine: auto"
                    ))
                })?,
            _ if demand.synchronous => ShardEngine::Calls,
            _ => ring_or_other(requested, targets)?,
        };
        let placement = match kind {
            ShardEngine::Aio(_) | ShardEngine::Threads(_) | ShardEngine::Calls => {
                placement::by_hint(&demand.placements, targets)?
            }
            _ => placement::by_streams(&demand.placements, targets)?,
        };
        Ok(Self {
            kind,
            placement,
            store: None,
            persistent_drives: None,
        })
    }

    /// An engine that sends each operation to a database as a transaction.
    pub fn client(settings: ClientSettings) -> Self {
        Self {
            kind: ShardEngine::Client(Box::new(settings)),
            placement: None,
            store: None,
            persistent_drives: None,
        }
    }

    pub fn with_store(self, store: InProcess) -> Self {
        Self {
            store: Some(store),
            ..self
        }
    }

    /// Keeps simulated drives through all runs of a series: each run continues with their clock and flash.
    pub fn with_persistent_drives(self) -> Self {
        Self {
            persistent_drives: Some(Arc::default()),
            ..self
        }
    }

    fn passthrough(demand: &EngineDemand, targets: &[Arc<Target>]) -> Result<Self, Failure> {
        let generics = collect_all(
            targets
                .iter()
                .map(|target| NvmeGeneric::open(target).map(Arc::new)),
            Failure::environment,
        )?;
        let placement = placement::by_directives(&demand.placements, targets, &generics)?;
        match Passthrough::probe(targets, &generics) {
            Ok(()) => Ok(Self {
                kind: ShardEngine::Passthrough(generics),
                placement,
                store: None,
                persistent_drives: None,
            }),
            Err(why) => {
                let (context, alternative) = match demand.engine {
                    EngineChoice::Passthrough => ("engine: passthrough", "; or set engine: auto"),
                    _ => (
                        "needed for placement handles: the kernel has too few write streams",
                        "",
                    ),
                };
                Err(Failure::environment(format!(
                    "cannot send NVMe commands through io_uring ({context}) - the first read failed: {why} - use Linux 6.1 \
                     or newer, as root, and allow io_uring (/proc/sys/kernel/io_uring_disabled){alternative}"
                )))
            }
        }
    }

    pub fn placement(&self) -> Option<PlacementMechanism> {
        self.placement
    }

    pub fn shards_max(&self, cpus: u32) -> u32 {
        if matches!(self.kind, ShardEngine::Simulated) {
            1
        } else {
            cpus
        }
    }

    /// True if an issuing thread has only its ring: no helper threads, and no store.
    pub fn is_bare_ring(&self) -> bool {
        self.store.is_none()
            && matches!(
                self.kind,
                ShardEngine::IoUring | ShardEngine::Passthrough(_)
            )
    }

    pub fn in_flight_max(&self) -> Option<u32> {
        matches!(self.kind, ShardEngine::Aio(_) | ShardEngine::Threads(_))
            .then_some(WORKERS_MAX as u32)
    }

    pub fn value(&self) -> Value {
        let mut value = match &self.kind {
            ShardEngine::IoUring => json!({"engine": "io_uring"}),
            ShardEngine::Passthrough(generics) => {
                let names: Vec<_> = generics
                    .iter()
                    .map(|generic| format!("/dev/{}", generic.name()))
                    .collect();
                json!({"engine": "passthrough", "character_devices": names})
            }
            ShardEngine::Aio(why) => json!({"engine": "aio", "why": why}),
            ShardEngine::Threads(why) => json!({"engine": "threads", "why": why}),
            ShardEngine::Calls => json!({"engine": "sync"}),
            ShardEngine::Simulated => json!({"engine": "simulated"}),
            ShardEngine::Client(settings) => {
                let ClientSettings {
                    timeout_ms,
                    pipeline,
                    verification,
                    ..
                } = &**settings;
                json!({"engine": "client", "timeout_ms": timeout_ms, "pipeline": pipeline, "verify": verification.is_on()})
            }
        };
        if self.store.is_some() {
            value["store"] = "in this process".into();
        }
        if let Some(placement) = self.placement {
            value["placement"] = placement.to_string().into();
        }
        value
    }

    /// Counts of the records that the finished run read; `None` without verification and batches.
    pub fn take_records_read(&self) -> Option<RecordsRead> {
        let (verification, in_batches) = match (&self.kind, &self.store) {
            (ShardEngine::Client(settings), _) => {
                (&settings.verification, settings.batch.is_some())
            }
            (_, Some(store)) => (&store.verification, false),
            _ => return None,
        };
        let records_read = verification.take();
        (verification.is_on() || in_batches).then_some(records_read)
    }

    /// Runs `plans` to their end. `seed`: seed of the simulated drives. `facts` gets the engine's properties before
    /// `sink` is notified of the start.
    pub fn run(
        &self,
        config: &RunConfig,
        plans: Vec<Plan>,
        devices: &Devices,
        seed: u64,
        facts: &EngineFacts,
        sink: &mut dyn Sink,
    ) -> Result<(), RunError> {
        let epoch = Instant::now();
        let targets: Arc<[_]> = if let Devices::Real(targets) = devices {
            targets.clone().into()
        } else {
            [].into()
        };
        let tightest_ns = config.layout.thresholds_ns.first().copied().unwrap_or(0);
        let harmless_gap_ns = harmless_gap_ns(tightest_ns);
        let setup = |in_flight_max, memory_bytes| EngineSetup {
            in_flight_max,
            memory_bytes,
            epoch,
            harmless_gap_ns,
        };
        let setup_of = |plan: &Plan| setup(plan.in_flight_max(), plan.buffer_bytes());
        let calls = |plan: &Plan| open_calls(&targets, plan, setup_of(plan));
        let open_ring = |setup| facts.keep(Uring::new(targets.to_vec(), setup)?);
        let _stuck = StuckCalls(&targets);
        match (&self.kind, &self.store) {
            (ShardEngine::Simulated, None) => {
                let engine_pool = self.persistent_drives.clone().unwrap_or_default();
                return run(
                    config,
                    plans,
                    |shard, _: &Plan| {
                        let mut engine = engine_pool
                            .lend(shard, || Ok(SimEngine::new(devices.drives(seed)?)))?;
                        engine.drain();
                        Ok(engine)
                    },
                    sink,
                );
            }
            (ShardEngine::IoUring, None) => {
                let open_engine = |_, plan: &Plan| open_ring(setup_of(plan));
                return run_beside(config, plans, open_engine, &calls, sink);
            }
            _ => {}
        }
        let shards = plans.len();
        run_beside(
            config,
            plans,
            |shard, plan: &Plan| -> io::Result<Box<dyn BlockEngine>> {
                if let (ShardEngine::Simulated, Some(store)) = (&self.kind, &self.store) {
                    return Ok(Box::new(store.keep(shard, || {
                        Ok(SimEngine::holding(
                            devices.drives(seed)?,
                            vec![store.contents()],
                        ))
                    })?));
                }
                let setup = match &self.store {
                    Some(store) => {
                        let (slots, bytes) = store.needs();
                        setup(slots, bytes)
                    }
                    None => setup_of(plan),
                };
                let engine: Box<dyn BlockEngine> = match &self.kind {
                    ShardEngine::IoUring => Box::new(open_ring(setup)?),
                    ShardEngine::Passthrough(generics) => Box::new(
                        facts.keep(Passthrough::new(targets.to_vec(), generics.clone(), setup)?)?,
                    ),
                    ShardEngine::Aio(_) => Box::new(Aio::new(targets.to_vec(), setup)?),
                    ShardEngine::Threads(_) => {
                        Box::new(Threads::new(WORKERS_MAX, &targets, setup)?)
                    }
                    ShardEngine::Calls => Box::new(Calls::new(targets.clone(), setup)?),
                    ShardEngine::Client(settings) => {
                        Box::new(Client::new((**settings).clone(), (shard, shards), setup)?)
                    }
                    ShardEngine::Simulated => Box::new(SimEngine::new(devices.drives(seed)?)),
                };
                Ok(match &self.store {
                    Some(store) => Box::new(store.open(shard, engine)?),
                    None => engine,
                })
            },
            &calls,
            sink,
        )
    }
}

fn open_calls(targets: &Arc<[Arc<Target>]>, plan: &Plan, setup: EngineSetup) -> io::Result<Calls> {
    let calls = Calls::new(targets.clone(), setup)?;
    match &plan.mapping {
        None => Ok(calls),
        Some(mapping) => calls.mapping(mapping),
    }
}

/// Warns at the end of a run if a thread still holds the targets, because its system call hangs.
struct StuckCalls<'a>(&'a Arc<[Arc<Target>]>);

impl Drop for StuckCalls<'_> {
    fn drop(&mut self) {
        if Arc::strong_count(self.0) > 1 {
            console::warning(
                "a system call on a device has not returned: this process can exit only when the device answers",
            );
        }
    }
}

fn ring_or_other(requested: EngineChoice, targets: &[Arc<Target>]) -> Result<ShardEngine, Failure> {
    // The smallest ring tests whether the kernel allows io_uring.
    match (
        Uring::new(targets.to_vec(), EngineSetup::new(1, 4096)),
        requested,
    ) {
        (Ok(_), _) => Ok(ShardEngine::IoUring),
        (Err(error), EngineChoice::Uring) => Err(Failure::environment(format!(
            "cannot use io_uring (engine: uring) - {} - allow io_uring, or set engine: auto",
            why_no_ring(&error)
        ))),
        (Err(error), _) => {
            let no_ring = why_no_ring(&error);
            let (name, why, kind): (_, _, fn(Option<String>) -> ShardEngine) = match aio(targets) {
                Ok(()) => ("Linux AIO", no_ring, ShardEngine::Aio),
                Err(no_aio) => (
                    "threads",
                    format!("{no_ring}; {no_aio}"),
                    ShardEngine::Threads,
                ),
            };
            console::warning(&format!(
                "using {name} instead of io_uring, at a higher CPU cost: {why}"
            ));
            Ok(kind(Some(why)))
        }
    }
}

/// Reads a little of each target by AIO. Errors: the reason why AIO cannot be used.
fn aio(targets: &[Arc<Target>]) -> Result<(), String> {
    if let Some(target) = targets.iter().find(|target| !target.is_direct()) {
        return Err(format!(
            "AIO would block on {}, which has no direct I/O",
            target.name()
        ));
    }
    targets.iter().try_for_each(|target| {
        sys::aio::probe(target.fd()).map_err(|error| match error.raw_os_error() {
            Some(libc::EAGAIN) => {
                format!("other programs use all AIO requests of this machine ({error}; raise /proc/sys/fs/aio-max-nr)")
            }
            Some(libc::EOPNOTSUPP) => format!("AIO would block on {}", target.name()),
            _ => format!("a test read of {} by AIO failed ({error})", target.name()),
        })
    })
}

fn why_no_ring(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            format!(
                "the kernel forbids io_uring ({error}; see /proc/sys/kernel/io_uring_disabled, or the container's seccomp profile)"
            )
        }
        // For a user without CAP_IPC_LOCK, the memory of rings counts against the limit of locked memory.
        Some(libc::ENOMEM) => {
            format!(
                "there is too little memory for io_uring, or the limit of locked memory is too low ({error}; see ulimit -l)"
            )
        }
        Some(libc::ENOSYS) => format!("the kernel has no io_uring ({error})"),
        _ => format!("io_uring cannot be set up ({error})"),
    }
}

#[derive(Debug)]
pub struct EngineFacts {
    engine_json: Value,
    pacing: Pacing,
    wake_cost_ns: Option<u64>,
    shards: usize,
    synchronous_threads: usize,
    rings: Mutex<Vec<RingFacts>>,
}

impl EngineFacts {
    /// Facts of `engine` before its start. The engine has `shards` issuing threads, of which `synchronous_threads`
    /// perform system calls. `iops`: operations per second of the load, over all threads.
    pub fn new(
        engine: &Engine,
        spec: &RunSpec,
        shards: usize,
        synchronous_threads: usize,
        iops: f64,
    ) -> Self {
        let sleeps =
            spec.pacing == PacingChoice::Sleep && !matches!(engine.kind, ShardEngine::Simulated);
        let wake_cost_ns = if sleeps {
            measured_wake_cost_ns()
        } else {
            None
        };
        let pacing = match spec.pacing {
            PacingChoice::Spin => Pacing::Spin,
            PacingChoice::Sleep => match engine.kind {
                _ if spec.keeps_instants => Pacing::Sleep {
                    period_ns: *PERIOD_NS.start(),
                    gathers: false,
                },
                ShardEngine::Threads(_) if iops / shards as f64 > THREADS_GATHERED_IOPS => {
                    Pacing::Sleep {
                        period_ns: THREADS_PERIOD_NS,
                        gathers: true,
                    }
                }
                _ => sleep(wake_cost_ns.unwrap_or(0), iops / shards as f64),
            },
        };
        Self {
            engine_json: engine.value(),
            pacing,
            wake_cost_ns,
            shards,
            synchronous_threads,
            rings: Mutex::default(),
        }
    }

    /// Facts of `engine` for a load without a rate. The load has one thread, which waits only for completions.
    pub fn unpaced(engine: &Engine) -> Self {
        let pacing = Pacing::Sleep {
            period_ns: *PERIOD_NS.end(),
            gathers: true,
        };
        Self {
            engine_json: engine.value(),
            pacing,
            wake_cost_ns: None,
            shards: 1,
            synchronous_threads: 0,
            rings: Mutex::default(),
        }
    }

    /// Stores the facts of a ring for the manifest. Returns the ring's engine.
    fn keep<W>(&self, (engine, ring): (W, RingFacts)) -> io::Result<W> {
        self.rings
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(ring);
        Ok(engine)
    }

    pub fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// The facts for the manifest. Warns if a ring's buffers are not registered.
    pub fn value(&self) -> Value {
        let rings = self
            .rings
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut value = self.engine_json.clone();
        value["issuing_threads"] = self.shards.into();
        if self.synchronous_threads > 0 {
            value["synchronous_threads"] = self.synchronous_threads.into();
        }
        value["wake_cost_ns"] = self.wake_cost_ns.into();
        if let (Pacing::Sleep { period_ns, gathers }, Some(_)) = (self.pacing, self.wake_cost_ns) {
            value["wake_period_ns"] = period_ns.into();
            value["wakes_for_each"] = (!gathers).into();
        }
        if !rings.is_empty() {
            let registered = rings.iter().all(|ring| ring.registered_buffers);
            if !registered {
                console::warning(
                    "cannot register the buffers with io_uring - each operation costs more CPU - raise the limit of locked memory (ulimit -l)",
                );
            }
            value["registered_buffers"] = registered.into();
            value["deferred_taskrun"] = rings.iter().all(|ring| ring.deferred_taskrun).into();
        }
        value
    }
}

/// Pacing of a sleeping thread that issues `iops` operations per second. The CPU cost of a wake-up bounds the period.
/// The thread wakes for each operation if a period would gather too few operations and the CPU cost permits.
fn sleep(wake_cost_ns: u64, iops: f64) -> Pacing {
    let period_ns = wake_cost_ns
        .saturating_mul(WAKE_SHARE)
        .clamp(*PERIOD_NS.start(), *PERIOD_NS.end());
    let each_share = iops * wake_cost_ns as f64 / 1e9;
    Pacing::Sleep {
        period_ns,
        gathers: iops * period_ns as f64 / 1e9 >= GATHERED_MIN || each_share > EACH_SHARE,
    }
}

/// CPU cost of a wake-up, measured on a separate thread with the same timer slack as issuing threads.
fn measured_wake_cost_ns() -> Option<u64> {
    std::thread::spawn(|| {
        process::sharpen_timers();
        process::wake_cost_ns().ok()
    })
    .join()
    .ok()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_use_a_tenth_of_a_cpu_within_bounds_unless_rates_are_low() {
        let sleeps = |period_ns, gathers| Pacing::Sleep { period_ns, gathers };
        let found = sleep(4_000, 90_000.0);
        assert_eq!(found, sleeps(40_000, true), "ten times its cost");
        let found = sleep(1_000, 200_000.0);
        assert_eq!(found, sleeps(30_000, true), "bounded below");
        assert_eq!(
            sleep(4_000, 40_000.0),
            sleeps(40_000, false),
            "less than three in a period go out one by one"
        );
        let found = sleep(25_000, 60_000.0);
        assert_eq!(found, sleeps(110_000, true), "and bounded above");
        assert_eq!(sleep(20_000, 20_000.0), sleeps(110_000, false));
        let found = sleep(25_000, 20_000.0);
        assert_eq!(found, sleeps(110_000, true), "half of a CPU is too much");
        let found = sleep(25_000, 0.0);
        assert_eq!(found, sleeps(110_000, false), "a closed load has no rate");
    }
}
