//! A store in this process, between transactions and devices, with one core per issuing thread.

use crate::clock::{fresh_seed, now_unix_ms};
use engine::BlockEngine;
use engine::pool::{EnginePool, Pooled};
use engine::sim::{DriveContents, SimEngine, SimulatedDrive};
use load::workload::DeviceShape;
use std::io;
use std::sync::Arc;
use store::embedded::Embedded;
use store::object::RecordSpec;
use store::{DeviceHeader, IoCounts, NamespaceSettings, Overload, Store, StoreSpace, Verification};

/// Start time of simulated runs, ms since 1970: the same for all, so that results are reproducible.
const SIMULATED_MS: u64 = 1_700_000_000_000;

/// Current time for a real run, and a fixed time for simulated runs, ms since 1970.
fn wall_ms(is_simulated: bool) -> u64 {
    if is_simulated {
        SIMULATED_MS
    } else {
        now_unix_ms()
    }
}

/// Start time of a run as its records store it, in units of 10 ms since 1970.
pub fn began(is_simulated: bool) -> u64 {
    wall_ms(is_simulated) / 10
}

/// A store. Each issuing thread opens one core of the store.
#[derive(Debug)]
pub struct InProcess {
    /// Settings of the namespace, for all cores together.
    pub namespace: NamespaceSettings,
    pub header: DeviceHeader,
    pub device: DeviceShape,
    /// Unit that the device writes as a whole, bytes.
    pub write_unit_bytes: u32,
    pub object: Arc<RecordSpec>,
    /// Counts and verifies the records that are read.
    pub verification: Arc<Verification>,
    pub counts: Arc<IoCounts>,
    pub overload: Arc<Overload>,
    pub seed: u64,
    /// Stores on simulated drives, for reuse by later runs.
    pub pool: Arc<EnginePool<Embedded<SimEngine<SimulatedDrive>>>>,
}

impl InProcess {
    /// A core's maximum number of device operations in flight, and the bytes of buffers for them.
    pub fn needs(&self) -> (usize, usize) {
        let (operations, bytes) = Store::needs(&self.namespace, 1);
        (operations as usize, bytes)
    }

    pub fn contents(&self) -> DriveContents {
        DriveContents::new(self.device.min_io_bytes, self.seed)
    }

    fn opened<E: BlockEngine>(
        &self,
        core: usize,
        is_simulated: bool,
        mut engine: E,
    ) -> io::Result<Embedded<E>> {
        let DeviceShape {
            size_bytes,
            target,
            min_io_bytes,
            ..
        } = self.device;
        let space = self
            .header
            .space(size_bytes, target, core as u16, min_io_bytes)
            .map_err(io::Error::other)?;
        let spaces = [StoreSpace {
            write_unit_bytes: self.write_unit_bytes,
            ..space
        }];
        let namespace = self.namespace.per_core(self.header.cores);
        let operations = self.needs().0 as u32;
        // A newly opened store has another start time, and treats older records as records of an earlier run.
        let object = Arc::new(RecordSpec {
            began: began(is_simulated),
            ..(*self.object).clone()
        });
        // Each opening of a real store takes a new seed.
        let seed = if is_simulated {
            self.seed
        } else {
            fresh_seed()
        }
        .wrapping_add(core as u64);
        let store = Store::open(
            &namespace,
            &spaces,
            0..operations,
            wall_ms(is_simulated),
            seed,
            &mut engine,
        );
        let mut store = store.map_err(io::Error::other)?;
        store.count_into(self.counts.clone());
        Embedded::open(
            engine,
            store,
            object,
            self.verification.clone(),
            self.overload.clone(),
        )
    }

    /// Opens `core` on a real engine, with the data that is already on the device.
    pub fn open<E: BlockEngine>(&self, core: usize, engine: E) -> io::Result<Embedded<E>> {
        self.opened(core, false, engine)
    }

    /// Opens `core` on simulated drives, in the state that the previous run left.
    pub fn keep(
        &self,
        core: usize,
        engine: impl FnOnce() -> io::Result<SimEngine<SimulatedDrive>>,
    ) -> io::Result<Pooled<Embedded<SimEngine<SimulatedDrive>>>> {
        Embedded::lend(&self.pool, core, || self.opened(core, true, engine()?))
    }
}
