//! Stores that cannot be, and stores that ran full.

use super::super::Tenant;
use results::units::{self, Grouped};

/// A store that cannot be: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HostError(String);

impl HostError {
    pub(super) fn of(tenant: &Tenant, why: String) -> Self {
        Self(format!("tenant {}: {why}", units::quoted(&tenant.name)))
    }
}

impl From<OutOfSpace> for HostError {
    fn from(full: OutOfSpace) -> Self {
        Self(full.to_string())
    }
}

/// A store without a free block for clients: the real one stops writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tenant {}: its space is full after {} of client writes - {} of its {} blocks are in use, and too few fall below the low-water mark \
     of {lwm_pct} % - lower fill-pct, or raise defrag-lwm-pct",
    units::quoted(.tenant), units::count(*.written, "block"), Grouped(*.used), Grouped(*.blocks)
)]
pub struct OutOfSpace {
    pub(super) tenant: String,
    pub(super) written: u64,
    pub(super) used: u64,
    pub(super) blocks: u64,
    pub(super) lwm_pct: u32,
}
