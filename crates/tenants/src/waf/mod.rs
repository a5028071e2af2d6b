//! Measures write amplification without a clock: tenants' stores write to drives with a simulated FTL, as fast as
//! possible. [`timed()`] then measures the clients' latencies on a virtual clock.
//!
//! ```text
//! StoreModel of each tenant -> blocks, at its rate -> commands, several blocks in flight -> Ftl of its drive
//!                                               counters after each octile of a drive fill
//! ```
//!
//! The one idea: amplification depends on the order of writes and not on their instants, so there is no clock. An
//! arrangement maps tenants to drives and handles ([`arrange`]); everything else is equal: the same stores write the
//! same blocks in the same order.

mod arrange;
mod meter;
pub mod prepared;
mod timed;

#[cfg(test)]
mod tests;

pub use arrange::{Arrangement, TenantLayout, check_writes, with_handles};
pub use meter::{MeasurementEnd, Meter};
pub use timed::{TimedResult, timed};

use crate::{StoreModel, WriteCause};
use ftl::{Ftl, Spec};
use load::memory;
use load::workload::CannotRun;
use results::bytes_written::WrittenBytes;
use results::format;
use results::waf::{ArrangementResult, DriveWrites, OCTILES_PER_FILL, TenantBytes};

/// How the writes of tenants interleave at a drive. An assumption about hosts, kernel and controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Interleaving {
    /// A block write is split into commands of at most this many bytes, as the kernel does (`queue/max_sectors_kb`).
    pub command_bytes: u32,
    /// Number of blocks being written at once; the drive takes a command of each in turn.
    pub in_flight: u32,
}

impl Default for Interleaving {
    /// Many kernels and controllers allow commands of 128 KiB. Four blocks in flight are typical of a few tenants.
    fn default() -> Self {
        Self {
            command_bytes: 128 << 10,
            in_flight: 4,
        }
    }
}

struct StoreWriter {
    name: String,
    store: StoreModel,
    drive: usize,
    /// First unit of the tenant's range on the drive.
    first_unit: u64,
    block_units: u32,
    /// Handles of client writes and of defragmentation's writes.
    handles: [u16; 2],
    /// Time at which the tenant's clients fill their next block, and interval between their blocks, seconds.
    due_sec: f64,
    interval_sec: f64,
    /// Units written to the drive by clients and by defragmentation.
    written_units: [u64; 2],
}

/// A block of which some commands are not yet written.
#[derive(Debug, Clone, Copy)]
struct BlockInFlight {
    writer: usize,
    cause: usize,
    unit: u64,
    units_left: u32,
}

pub struct Experiment {
    names: Vec<String>,
    drives: Vec<Ftl>,
    writers: Vec<StoreWriter>,
    in_flight: Vec<BlockInFlight>,
    in_flight_max: usize,
    command_units: u32,
    next_in_flight: usize,
    unit_bytes: u64,
}

impl Experiment {
    /// Makes drives and stores, with every unit of the tenants' spaces written once. Errors: an invalid drive or store.
    pub fn new(
        layout: &TenantLayout<'_>,
        interleaving: Interleaving,
        seed: u64,
    ) -> Result<Self, CannotRun> {
        let unit_bytes = u64::from(layout.unit_bytes());
        let specs = layout.drives.iter().map(|drive| &drive.drive.spec);
        memory::check(specs.clone().map(Spec::memory_bytes).sum()).map_err(|why| {
            let bytes = format::bytes(specs.map(|spec| spec.logical_bytes).sum::<u64>() as f64);
            let remedy = "choose a larger mapping unit (unit=), or less capacity";
            CannotRun(format!(
                "cannot simulate drives of {bytes} - {why} - {remedy}"
            ))
        })?;
        let mut drives = Vec::new();
        for (number, drive) in (0..).zip(&layout.drives) {
            let ftl = Ftl::new(
                &drive.drive.spec,
                sys::random::Random::for_part(seed, number).next_u64(),
            );
            drives.push(ftl.map_err(|why| CannotRun(format!("drive of {}: {why}", drive.name)))?);
        }
        let mut writers = Vec::new();
        for (number, placed) in (0..).zip(&layout.tenants) {
            let tenant = placed.tenant;
            let blocks =
                (placed.range.end - placed.range.start) / u64::from(tenant.write_block_bytes);
            let rate = tenant.client_blocks();
            let interval_sec = rate.seconds() as f64 / rate.ops() as f64;
            writers.push(StoreWriter {
                name: tenant.name.clone(),
                store: StoreModel::new(
                    tenant,
                    blocks,
                    sys::random::Random::for_part(!seed, number).next_u64(),
                )?,
                drive: placed.drive,
                first_unit: placed.range.start / unit_bytes,
                block_units: tenant.write_block_bytes / layout.unit_bytes(),
                handles: placed.handles,
                // Due times are staggered, so that no tenant is always the first at an instant.
                due_sec: interval_sec * (number as f64 + 0.5) / layout.tenants.len() as f64,
                interval_sec,
                written_units: [0; 2],
            });
        }
        let mut experiment = Self {
            names: layout
                .drives
                .iter()
                .map(|drive| drive.name.clone())
                .collect(),
            drives,
            writers,
            in_flight: Vec::new(),
            in_flight_max: interleaving.in_flight.max(1) as usize,
            command_units: (u64::from(interleaving.command_bytes) / unit_bytes).max(1) as u32,
            next_in_flight: 0,
            unit_bytes,
        };
        experiment.fill(layout);
        Ok(experiment)
    }

    /// Writes each tenant's space once sequentially; tenants take turns, block by block.
    fn fill(&mut self, layout: &TenantLayout<'_>) {
        let mut block = 0;
        let mut has_written = true;
        while std::mem::take(&mut has_written) {
            for (placed, writer) in layout.tenants.iter().zip(&self.writers) {
                let units = u64::from(writer.block_units);
                let blocks = (placed.range.end - placed.range.start) / (units * self.unit_bytes);
                if block < blocks {
                    has_written = true;
                    let first_unit = writer.first_unit + block * units;
                    self.drives[writer.drive].write(
                        first_unit,
                        writer.block_units,
                        writer.handles[0],
                    );
                }
            }
            block += 1;
        }
    }

    /// Runs until amplification is steady, or for `fills_max` drive fills. Calls `progress` after each drive fill;
    /// `false` ends the run. Errors: a store has no free block.
    pub fn run(
        &mut self,
        fills_max: usize,
        mut progress: impl FnMut(&ArrangementResult) -> bool,
    ) -> Result<ArrangementResult, CannotRun> {
        let units: u64 = self.drives.iter().map(Ftl::units).sum();
        let drives = self
            .drives
            .iter()
            .zip(&self.names)
            .map(|(drive, name)| DriveWrites {
                name: name.clone(),
                logical_bytes: drive.units() * self.unit_bytes,
                octiles: Vec::new(),
            });
        let mut found = ArrangementResult {
            drives: drives.collect(),
            tenants: Vec::new(),
            steady_after: None,
        };
        let mut counters_before: Vec<WrittenBytes> =
            self.drives.iter().map(Ftl::counters).collect();
        let mut written_units = 0;
        for octile in 1..=fills_max * OCTILES_PER_FILL {
            // Multiply before dividing, so that eight octiles are a drive fill even on a drive of few units.
            let end_units = (u128::from(units) * octile as u128 / OCTILES_PER_FILL as u128) as u64;
            while written_units < end_units {
                written_units += u64::from(self.command()?);
            }
            for ((drive, previous), found) in self
                .drives
                .iter()
                .zip(&mut counters_before)
                .zip(&mut found.drives)
            {
                let now = drive.counters();
                found
                    .octiles
                    .push(now.since(*previous).expect("an FTL counts up"));
                *previous = now;
            }
            if octile % OCTILES_PER_FILL == 0 {
                found.tenants = self.tenants();
                if found.is_steady() {
                    found.steady_after = Some(octile / OCTILES_PER_FILL);
                    break;
                }
                if !progress(&found) {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Writes the next command to its drive. Returns the number of units in the command.
    #[inline]
    fn command(&mut self) -> Result<u32, CannotRun> {
        while self.in_flight.len() < self.in_flight_max {
            let block = self.next_block()?;
            self.in_flight.push(block);
        }
        if self.next_in_flight >= self.in_flight.len() {
            self.next_in_flight = 0;
        }
        let BlockInFlight {
            writer,
            cause,
            unit,
            units_left,
        } = self.in_flight[self.next_in_flight];
        let units = units_left.min(self.command_units);
        let writer = &mut self.writers[writer];
        self.drives[writer.drive].write(unit, units, writer.handles[cause]);
        writer.written_units[cause] += u64::from(units);
        if units == units_left {
            self.in_flight[self.next_in_flight] = self.next_block()?;
        } else {
            let block = &mut self.in_flight[self.next_in_flight];
            block.unit += u64::from(units);
            block.units_left -= units;
        }
        self.next_in_flight += 1;
        Ok(units)
    }

    /// The block due next over all tenants. Blocks of defragmentation are due with the client block that caused them.
    #[inline]
    fn next_block(&mut self) -> Result<BlockInFlight, CannotRun> {
        let mut due_writer = 0;
        for (other, writer) in self.writers.iter().enumerate() {
            if writer.due_sec < self.writers[due_writer].due_sec {
                due_writer = other;
            }
        }
        let writer = &mut self.writers[due_writer];
        let block = writer.store.next_block()?;
        if block.cause == WriteCause::Client {
            writer.due_sec += writer.interval_sec;
        }
        Ok(BlockInFlight {
            writer: due_writer,
            cause: usize::from(block.cause == WriteCause::Defrag),
            unit: writer.first_unit + u64::from(block.block) * u64::from(writer.block_units),
            units_left: writer.block_units,
        })
    }

    fn tenants(&self) -> Vec<TenantBytes> {
        self.writers
            .iter()
            .map(|writer: &StoreWriter| {
                let [client, defrag] = writer.written_units.map(|units| units * self.unit_bytes);
                TenantBytes {
                    name: writer.name.clone(),
                    client,
                    defrag,
                }
            })
            .collect()
    }

    pub fn drives(&self) -> &[Ftl] {
        &self.drives
    }
}
