//! A tenant's space written once from its beginning to its end, by its placement handle: how a drive gets to be in use before
//! its tenants are measured.

use super::TenantLoad;
use super::load::MEMORY_BYTES;
use crate::plan::{Arrival, BufferClass};
use crate::stream::{Request, Stream};
use crate::workload::{CannotRun, Choices, DeviceShape, NO_END_SEC, RunPlan, RunSpec, Workload, recorded};
use engine::DeviceName;
use results::run_dir::WorkloadRecord;
use sys::op::{OpKind, Placement};
use sys::random::Random;

/// Blocks in flight of a tenant at most.
const DEPTH: u64 = 16;

/// The first writes of a tenant, even a read-only one.
#[derive(Debug, Clone)]
pub struct TenantFill(pub TenantLoad);

impl TenantFill {
    /// Bytes that it writes on a device of that size. Errors: it does not fit.
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
        RunSpec { duration_sec: NO_END_SEC, max_lag_sec: 0, ..self.0.spec() }
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

    fn build(
        &self,
        devices: &[DeviceShape],
        choices: &Choices,
        run: &mut RunPlan,
    ) -> Result<WorkloadRecord, CannotRun> {
        let [device] = devices else { return Err(CannotRun("it needs one device".to_owned())) };
        let (tenant, range) = (self.0.tenant(), self.0.range(device.size_bytes)?);
        let place = run.add([recorded("fill", false, 0.0)], 1);
        let plan = &mut run.shards[0];
        let block = tenant.write_block_bytes;
        let most = device.queue_requests.or(choices.in_flight_max).map_or(DEPTH, |most| u64::from(most).min(DEPTH));
        let depth = (MEMORY_BYTES / u64::from(block)).clamp(1, most.max(1)) as u32;
        let salt = device.salt(Random::new(choices.seed), 100);
        let buffers = plan.add_buffers(BufferClass::fresh(block as usize, depth, salt));
        let (target, placement) = (device.target, tenant.placement.map(Placement));
        let request = Request::new(OpKind::Write, target, place.cell(0, target), buffers);
        let next = Request { offset: range.start, len: block, placement, ..request };
        let (limit, name) = (plan.add_limit(depth, false), place.lane_name("fill", &device.name));
        plan.add_lane(Filling { next, end: range.end }, Arrival::Closed { depth, think_ns: 0 }, limit, name);
        Ok(WorkloadRecord { kind: self.kind().to_owned(), ..WorkloadRecord::default() })
    }
}

/// Blocks one after the other, up to the end of the space.
#[derive(Debug, Clone)]
pub struct Filling {
    next: Request,
    end: u64,
}

impl Stream for Filling {
    fn next(&mut self) -> Option<Request> {
        let block = self.next;
        self.next.offset += u64::from(block.len);
        (block.offset < self.end).then_some(block)
    }

    fn follows(&self) -> bool {
        false
    }
}
