//! A tenant as a workload of the run loop: record reads beside large-block writes of clients, and the resulting reads
//! and writes of defragmentation.
//!
//! ```text
//! reads     open loop: records anywhere in the space, as ACT reads them
//! writes    open loop: the blocks of the clients; each is followed, sequentially, by
//!             defrag-reads    of the blocks that this write has put below the low-water mark
//!             defrag-writes   of every block that the live records of these blocks fill
//! ```
//!
//! Defragmentation follows the client's write in the same slot. So it always keeps up, and its rates follow from the
//! model. The model assumes that the store has been in use for long: earlier data are not read back, only their
//! positions matter. On a real drive, [`TenantFill`] first writes the space once from its beginning to its end.

use super::store_model::{BlockWrite, StoreModel, StoreStep, WriteCause};
use super::{Tenant, Tenants};
use engine::DeviceName;
use load::plan::{Arrival, BufferClass, Plan};
use load::rate::Rate;
use load::schedule::phase;
use load::stream::{Extent, IoRequest, SizeDistribution, Stream, Uniform};
use load::workload::{
    BuildContext, Built, CannotRun, DeviceShape, MAX_LAG_SEC, NO_END_SEC, PlanOffsets, RunPlan,
    RunSpec, Workload, offered, setting, stream_info,
};
use results::cell::{Arrivals, StreamInfo};
use results::run_dir::{RecordedConfig, WorkloadRecord};
use std::ops::Range;
use std::sync::Arc;
use sys::op::{OpKind, Outcome, Placement};
use sys::random::Random;

/// Memory for the buffers of a tenant's reads, and as much again for the buffers of its blocks.
const MEMORY_BYTES: u64 = 32 << 20;

/// Maximum reads in flight of a tenant.
const READ_SLOTS: u64 = 1_024;

/// Maximum client blocks in flight of a tenant, each with the defragmentation that follows it.
const BLOCK_SLOTS: u64 = 64;

/// Maximum blocks in flight of a fill.
const FILL_SLOTS: u64 = 16;

#[derive(Debug, Clone)]
pub struct TenantLoad {
    tenants: Arc<Tenants>,
    index: usize,
    device: DeviceName,
    /// True if the tenant's device is the default device.
    is_default: bool,
    /// The tenant's store, if already in use.
    store: Option<StoreModel>,
}

impl TenantLoad {
    /// Tenants that name no device are on `default`. Errors: a tenant has no device, or an invalid simulated drive.
    pub fn all(tenants: Tenants, default: Option<&DeviceName>) -> Result<Vec<Self>, CannotRun> {
        let tenants = Arc::new(tenants);
        tenants
            .tenants
            .iter()
            .enumerate()
            .map(|(index, tenant): (usize, &Tenant)| {
                let device = match (&tenant.device, default) {
                    (Some(name), _) => {
                        name.parse().map_err(|error: engine::sim::DriveSpecError| {
                            CannotRun(error.to_string())
                        })?
                    }
                    (None, Some(default)) => default.clone(),
                    (None, None) => {
                        let why =
                            "it has no device - give --device DEVICE, or \"device\" in the file";
                        return Err(tenant.cannot(why));
                    }
                };
                let is_default = Some(&device) == default;
                Ok(Self {
                    tenants: tenants.clone(),
                    index,
                    device,
                    is_default,
                    store: None,
                })
            })
            .collect()
    }

    /// Tenant number `index` of `tenants`, on `device`, with a store that continues in its current state.
    pub fn in_use(
        tenants: Arc<Tenants>,
        index: usize,
        device: DeviceName,
        store: StoreModel,
    ) -> Self {
        Self {
            tenants,
            index,
            device,
            is_default: false,
            store: Some(store),
        }
    }

    pub fn tenant(&self) -> &Tenant {
        &self.tenants.tenants[self.index]
    }

    /// Refuses handles that a simulated drive lacks. A real drive's handles are checked before the drive is opened.
    fn check_placements(&self) -> Result<(), CannotRun> {
        let Some(drive) = self.device.drive() else {
            return Ok(());
        };
        // A drive with one handle accepts no placement.
        let handles = drive.ftl.as_ref().map_or(0, |ftl| ftl.spec.handles);
        let handles = if handles > 1 { handles } else { 0 };
        match self.placements(&self.device).iter().flatten().find(|placement| placement.0 > handles) {
            None => Ok(()),
            Some(placement) => Err(self.tenant().cannot(format_args!(
                "cannot use placement handle {} of {} - the drive has {handles} - give the drive more (\"sim:ftl+handles=4\"), \
                 leave out placement, or let tenants share handles",
                placement.0, self.device
            ))),
        }
    }

    /// Byte range on a device of `size_bytes`. Errors: the tenant does not fit, or overlaps another.
    fn range(&self, size_bytes: u64) -> Result<Range<u64>, CannotRun> {
        let layout = self
            .tenants
            .layout(self.device.as_str(), self.is_default, size_bytes)?;
        let placed = layout.into_iter().find(|(place, _)| *place == self.index);
        Ok(placed.map_or(0..0, |(_, range)| range))
    }

    /// Recorded streams: those that have a rate.
    fn streams(&self, waf: f64) -> Vec<StreamInfo> {
        let tenant = self.tenant();
        let reads = tenant.reads.per_sec_f64();
        let blocks = tenant.client_blocks().per_sec_f64();
        let all = [
            stream_info(READS, true, reads, Arrivals::Even),
            stream_info(WRITES, reads == 0.0, blocks, Arrivals::Even),
            // As many blocks are collected as are written.
            stream_info(DEFRAG_READS, false, blocks * waf, Arrivals::Given),
            stream_info(DEFRAG_WRITES, false, blocks * (waf - 1.0), Arrivals::Given),
        ];
        all.into_iter()
            .filter(|stream| stream.offered_iops > 0.0)
            .collect()
    }
}

const READS: &str = "reads";
const WRITES: &str = "writes";
const DEFRAG_READS: &str = "defrag-reads";
const DEFRAG_WRITES: &str = "defrag-writes";

/// Tenant and operation (reads or writes) of a stream that clients wait for.
pub fn client_stream(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('/')
        .filter(|(_, stream)| [READS, WRITES].contains(stream))
}

impl Workload for TenantLoad {
    fn kind(&self) -> &'static str {
        "tenants"
    }

    fn spec(&self) -> RunSpec {
        let Tenants {
            duration_sec,
            engine,
            seed,
            ..
        } = *self.tenants;
        RunSpec {
            max_lag_sec: MAX_LAG_SEC,
            engine,
            seed,
            ..RunSpec::new(vec![self.device.clone()], duration_sec.into())
        }
    }

    fn writes(&self) -> bool {
        self.tenant().writes != Rate::ZERO
    }

    fn placements(&self, _device: &DeviceName) -> Vec<Option<Placement>> {
        let tenant = self.tenant();
        let kinds = [tenant.placement, tenant.defrag_placement].into_iter();
        kinds
            .filter(|_| self.writes())
            .map(|placement| placement.map(Placement))
            .collect()
    }

    fn unit_bytes(&self) -> u64 {
        self.tenant().write_block_bytes.into()
    }

    fn build(&self, devices: &[DeviceShape], choices: &BuildContext, run: &mut RunPlan) -> Built {
        let [device] = devices else {
            return Err(CannotRun(format!("{} is not open", self.device)));
        };
        self.check_placements()?;
        let tenant = self.tenant();
        let range = self.range(device.size_bytes)?;
        let blocks = (range.end - range.start) / u64::from(tenant.write_block_bytes);
        let store = match &self.store {
            Some(host) => host.clone(),
            None => StoreModel::new(tenant, blocks, choices.seed)?,
        };
        let streams = self.streams(store.expected_engine_wa());
        let iops: f64 = self
            .tenants
            .tenants
            .iter()
            .map(|other| other.reads.per_sec_f64())
            .sum();
        let shards = choices.shards_for(iops);
        let config = self.record(device, &range, &store, &streams);
        let plan_offsets = run.add(streams, shards as usize);
        let builder = TenantInputs {
            tenant,
            device,
            range,
            choices,
            plan_offsets,
            shards,
        };
        for (shard, plan) in (0..shards).zip(&mut run.shards) {
            builder.reads(shard, plan);
        }
        // Tenants take turns over the shards, so that no shard gets the blocks of all tenants.
        if tenant.writes != Rate::ZERO {
            builder.blocks(store, &mut run.shards[self.index % shards as usize]);
        }
        Ok(WorkloadRecord {
            kind: self.kind().to_owned(),
            config,
            ..WorkloadRecord::default()
        })
    }
}

impl TenantLoad {
    fn record(
        &self,
        device: &DeviceShape,
        range: &Range<u64>,
        store: &StoreModel,
        streams: &[StreamInfo],
    ) -> RecordedConfig {
        let tenant = self.tenant();
        let steady = store.steady();
        let handle =
            |handle: Option<u16>| handle.map_or("none".to_owned(), |handle| handle.to_string());
        let settings = vec![
            setting("device", &device.name),
            setting("first-byte", &range.start),
            setting("space-bytes", &(range.end - range.start)),
            setting("write-block-bytes", &tenant.write_block_bytes),
            setting("record-bytes", &tenant.record_bytes),
            setting("records", &steady.records),
            setting("fill-pct", &(tenant.fill * 100.0)),
            setting("defrag-lwm-pct", &tenant.defrag_lwm_pct),
            setting("keys", &tenant.keys),
            setting("reuse", &tenant.reuse),
            setting("placement", &handle(tenant.placement)),
            setting("defrag-placement", &handle(tenant.defrag_placement)),
        ];
        let mut derived: Vec<_> = streams.iter().map(offered).collect();
        derived.push((
            "engine-wa".to_owned(),
            format!("{:.4}", store.expected_engine_wa()),
        ));
        RecordedConfig {
            derived,
            settings,
            ..RecordedConfig::default()
        }
    }
}

struct TenantInputs<'a> {
    tenant: &'a Tenant,
    device: &'a DeviceShape,
    range: Range<u64>,
    choices: &'a BuildContext,
    plan_offsets: PlanOffsets,
    shards: u32,
}

impl TenantInputs<'_> {
    /// The common fields of a stream's operations, at the first byte of the space. A stream without a rate is never
    /// issued, so its cell (0) does not matter.
    fn request(&self, kind: OpKind, stream: &str, buffers: u16) -> IoRequest {
        let target = self.device.target;
        let cell = self.plan_offsets.cell_of(stream, target).unwrap_or(0);
        IoRequest {
            offset: self.range.start,
            ..IoRequest::new(kind, target, cell, buffers)
        }
    }

    /// The phase of the tenant's `stream`-th stream. No two streams of a run begin together.
    fn phase(&self, stream: usize) -> u32 {
        phase(2 * self.plan_offsets.workload + stream)
    }

    /// Slots for up to `slots_max` operations, limited by memory, engine and the device's queue.
    fn slots(&self, slots_max: u64, bytes: u32) -> u32 {
        let queue = u64::from(self.device.queue_requests.unwrap_or(u32::MAX));
        let carried = u64::from(self.choices.in_flight_max.unwrap_or(u32::MAX)).min(queue);
        // The blocks' share of `carried`; reads get the rest.
        let blocks = (carried / 8).clamp(1, BLOCK_SLOTS);
        let room = if slots_max == BLOCK_SLOTS {
            blocks
        } else {
            carried.saturating_sub(blocks)
        };
        (MEMORY_BYTES / u64::from(bytes))
            .max(4)
            .min(slots_max)
            .min(room)
            .max(1) as u32
    }

    fn reads(&self, shard: u32, plan: &mut Plan) {
        let tenant = self.tenant;
        let first = u64::from(shard);
        let stride = u64::from(self.shards);
        let Some(arrival) = Arrival::even(tenant.reads, first, stride, self.phase(0)) else {
            return;
        };
        let space_bytes = self.range.end - self.range.start;
        let step_bytes = self.device.min_io_bytes;
        let sizes = SizeDistribution::records(tenant.record_bytes, tenant.record_bytes, step_bytes);
        let request = self.request(OpKind::Read, READS, plan.buffers.len() as u16);
        let Some(extent) = Extent::new(request, space_bytes, step_bytes, sizes) else {
            return;
        };
        let len_bytes = extent.sizes.max_bytes();
        let slots = (self.slots(READ_SLOTS, len_bytes) / self.shards).max(1);
        plan.add_buffers(BufferClass::plain(len_bytes as usize, slots));
        let records = Uniform {
            extent,
            random: Random::for_part(self.choices.seed, READS_PART | first),
        };
        self.add_lane(records, arrival, slots, READS, plan);
    }

    fn blocks(&self, store: StoreModel, plan: &mut Plan) {
        let tenant = self.tenant;
        let Some(arrival) = Arrival::even(tenant.client_blocks(), 0, 1, self.phase(1)) else {
            return;
        };
        let slots = self.slots(BLOCK_SLOTS, tenant.write_block_bytes);
        let salt = self
            .device
            .salt(Random::for_part(self.choices.seed, SALT_PART), 100);
        let len_bytes = tenant.write_block_bytes as usize;
        let reads = plan.add_buffers(BufferClass::plain(len_bytes, slots));
        let writes = plan.add_buffers(BufferClass::fresh(len_bytes, slots, salt));
        let request = |stream, kind, buffers, placement: Option<u16>| IoRequest {
            len: tenant.write_block_bytes,
            placement: placement.map(Placement),
            ..self.request(kind, stream, buffers)
        };
        let blocks = BlockOps {
            store,
            full_error: None,
            client: request(WRITES, OpKind::Write, writes, tenant.placement),
            collect: request(DEFRAG_READS, OpKind::Read, reads, None),
            defrag: request(
                DEFRAG_WRITES,
                OpKind::Write,
                writes,
                tenant.defrag_placement,
            ),
        };
        self.add_lane(blocks, arrival, slots, WRITES, plan);
    }

    fn add_lane(
        &self,
        stream: impl Stream + 'static,
        arrival: Arrival,
        slots: u32,
        name: &str,
        plan: &mut Plan,
    ) {
        let limit = plan.add_limit(slots, false);
        let name = self.plan_offsets.lane_name(name, &self.device.name);
        plan.add_lane(stream, arrival, limit, name);
    }
}

/// Random sequence of a tenant's reads, distinct from those of the store model.
const READS_PART: u64 = 1 << 32;
const SALT_PART: u64 = 2 << 32;

/// The block operations of a tenant: the store, and a request for each kind of operation, at the space's first byte.
#[derive(Debug)]
struct BlockOps {
    store: StoreModel,
    /// Set while the store has no free block.
    full_error: Option<CannotRun>,
    client: IoRequest,
    collect: IoRequest,
    defrag: IoRequest,
}

impl BlockOps {
    /// The result of `operation` on the store; `None` if the store has no free block.
    #[inline]
    fn step<T>(
        &mut self,
        operation: impl FnOnce(&mut StoreModel) -> Result<T, CannotRun>,
    ) -> Option<T> {
        let result = operation(&mut self.store);
        self.full_error = None;
        result.map_err(|full| self.full_error = Some(full)).ok()
    }

    fn request(&self, step: StoreStep) -> IoRequest {
        let (template, block) = match step {
            StoreStep::Write(BlockWrite {
                block,
                cause: WriteCause::Client,
            }) => (self.client, block),
            StoreStep::Write(BlockWrite {
                block,
                cause: WriteCause::Defrag,
            }) => (self.defrag, block),
            StoreStep::Read(block) => (self.collect, block),
        };
        IoRequest {
            offset: template.offset + u64::from(block) * u64::from(template.len),
            ..template
        }
    }
}

impl Stream for BlockOps {
    fn next(&mut self) -> Option<IoRequest> {
        let write = self.step(StoreModel::client_block)?;
        Some(self.request(StoreStep::Write(write)))
    }

    fn stuck(&self) -> Option<String> {
        self.full_error.as_ref().map(CannotRun::to_string)
    }

    fn on_completion(&mut self, _request: &IoRequest, _outcome: Outcome) -> Option<IoRequest> {
        let step = self.step(StoreModel::defrag_step).flatten()?;
        Some(self.request(step))
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        cells(self.client.cell, arrivals);
    }
}

/// The first writes to a tenant's space, also for a read-only tenant.
#[derive(Debug, Clone)]
pub struct TenantFill(pub TenantLoad);

impl TenantFill {
    /// Bytes that the fill writes on a device of `device_bytes`. Errors: the tenant does not fit.
    pub fn bytes(&self, device_bytes: u64) -> Result<u64, CannotRun> {
        let range = self.0.range(device_bytes)?;
        Ok(range.end - range.start)
    }
}

impl Workload for TenantFill {
    fn kind(&self) -> &'static str {
        "tenants"
    }

    fn spec(&self) -> RunSpec {
        RunSpec {
            duration_sec: NO_END_SEC,
            max_lag_sec: 0,
            ..self.0.spec()
        }
    }

    fn writes(&self) -> bool {
        true
    }

    fn unit_bytes(&self) -> u64 {
        self.0.unit_bytes()
    }

    fn placements(&self, _device: &DeviceName) -> Vec<Option<Placement>> {
        vec![self.0.tenant().placement.map(Placement)]
    }

    fn build(&self, devices: &[DeviceShape], choices: &BuildContext, run: &mut RunPlan) -> Built {
        let [device] = devices else {
            return Err(CannotRun("it needs one device".to_owned()));
        };
        let tenant = self.0.tenant();
        let range = self.0.range(device.size_bytes)?;
        let plan_offsets = run.add([stream_info("fill", false, 0.0, Arrivals::Unknown)], 1);
        let plan = &mut run.shards[0];
        let block = tenant.write_block_bytes;
        let slots_max = [device.queue_requests, choices.in_flight_max]
            .into_iter()
            .flatten()
            .fold(FILL_SLOTS, |slots, most| slots.min(most.into()));
        let depth = (MEMORY_BYTES / u64::from(block)).clamp(1, slots_max.max(1)) as u32;
        let salt = device.salt(Random::new(choices.seed), 100);
        let buffers = plan.add_buffers(BufferClass::fresh(block as usize, depth, salt));
        let target = device.target;
        let placement = tenant.placement.map(Placement);
        let request = IoRequest::new(OpKind::Write, target, plan_offsets.cell(0, target), buffers);
        let next = IoRequest {
            offset: range.start,
            len: block,
            placement,
            ..request
        };
        let limit = plan.add_limit(depth, false);
        let name = plan_offsets.lane_name("fill", &device.name);
        plan.add_lane(
            SpaceFill {
                next_request: next,
                end: range.end,
            },
            Arrival::Closed { depth, think_ns: 0 },
            limit,
            name,
        );
        Ok(WorkloadRecord {
            kind: self.kind().to_owned(),
            ..WorkloadRecord::default()
        })
    }
}

/// Sequential blocks up to the end of the space.
#[derive(Debug, Clone)]
struct SpaceFill {
    next_request: IoRequest,
    end: u64,
}

impl Stream for SpaceFill {
    fn next(&mut self) -> Option<IoRequest> {
        let block = self.next_request;
        self.next_request.offset += u64::from(block.len);
        (block.offset < self.end).then_some(block)
    }

    fn follows(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
