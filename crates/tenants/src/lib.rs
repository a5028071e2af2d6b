//! Tenants: log-structured record stores (Aerospike) that share a drive, each on a space of its own.
//!
//! ```text
//! TOML -> Tenants (file) -> Space of each on its device
//!                        -> StoreModel (store_model): which block is written next, by clients and by defragmentation
//!                        -> TenantLoad (workload): its streams in the run loop
//! ```
//!
//! The one idea: such a store writes whole blocks to a drive, and the order of the blocks follows from the store's
//! keys, fill and low-water mark. The [`StoreModel`] models this without a clock, so the same tenants can run on a
//! drive, or without time on a model of a drive.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

mod file;
mod store_model;
pub mod waf;
mod workload;

pub use store_model::{BlockWrite, HostCounters, StoreGeometry, StoreModel, StoreStep, WriteCause};
pub use workload::{TenantFill, TenantLoad, client_stream};

use load::choice::{Engine, choice};
use load::keys::Keys;
use load::rate::Rate;
use load::workload::CannotRun;
use results::format::quoted;
use std::fmt::Display;

#[derive(Debug, Clone, PartialEq)]
pub struct Tenants {
    /// At least one tenant; all names differ.
    pub tenants: Vec<Tenant>,
    pub duration_sec: u32,
    /// Seed of all random choices; `None`: chosen at the start.
    pub seed: Option<u64>,
    pub engine: Engine,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Letters, digits, `.`, `-`, `_`.
    pub name: String,
    /// `None`: the default device.
    pub device: Option<String>,
    pub space: TenantSpace,
    /// Bytes of a write block, a power of two.
    pub write_block_bytes: u32,
    /// Bytes of a record as stored, a multiple of 16.
    pub record_bytes: u32,
    /// Share of the tenant's space that live records take, in (0, 1).
    pub fill: f64,
    /// Low-water mark, percent: blocks with a smaller share of live data are collected.
    pub defrag_lwm_pct: u32,
    /// Key distribution of updates.
    pub keys: Keys,
    pub reuse: Reuse,
    pub reads: Rate,
    pub writes: Rate,
    /// Placement handle of client writes, from 1.
    pub placement: Option<u16>,
    /// Placement handle of defragmentation's writes; default: that of client writes.
    pub defrag_placement: Option<u16>,
}

impl Tenant {
    pub fn records_per_block(&self) -> u32 {
        self.write_block_bytes / self.record_bytes
    }

    /// Write blocks that the tenant's clients fill per second.
    pub fn client_blocks(&self) -> Rate {
        Rate::nearest(
            self.writes.ops().into(),
            u128::from(self.writes.seconds()) * u128::from(self.records_per_block()),
        )
    }

    /// An error with the tenant's name and the reason `why`.
    pub(crate) fn cannot(&self, why: impl Display) -> CannotRun {
        CannotRun(format!("tenant {}: {why}", quoted(&self.name)))
    }
}

/// A part of a device. Parts without an offset follow each other in the order of the tenants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantSpace {
    pub size: SpaceSize,
    /// Offset of the first byte, if given.
    pub at: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpaceSize {
    /// Share of the device in percent, rounded down to whole write blocks.
    Pct(f64),
    Bytes(u64),
}

choice! {
    /// Choice of the next free block.
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    Reuse {
        /// The block that has been free longest, as in the real engine.
        #[default]
        Fifo = "fifo",
        /// The free block with the lowest address.
        Lowest = "lowest",
        Random = "random",
    }
}
