//! Values derived from a tenant's fill and low-water mark by arithmetic.
//!
//! Under uniform keys, each record is equally likely to be updated next. In a store of N records, a block thus keeps
//! all of its L live records for N / L updates on average. A block is written with R records. It is collected when it
//! holds K - 1 live records, one fewer than the low-water mark K. Hence
//!
//! ```text
//! a block lives for      N (1/R + 1/(R-1) + ... + 1/K)         updates
//! blocks in use          N (1/R + ... + 1/K) / (R - K + 1)     Little's law: one is written for each R - K + 1 updates
//! engine WA              R / (R - K + 1), which is 1 / (1 - x) with x = (K - 1) / R
//! ```
//!
//! With many records per block, the live share of the blocks is (1 - x) / ln(1 / x) on average: 72 % at a mark of 50 %.
//! A store that was just loaded needs more space, because its blocks are all of one age. Until they cross the mark,
//! N ln(1 / x) records are written, and few blocks are freed. So the highest fill that such a store survives is
//! 1 / (1 + ln(1 / x)): 59 % at a mark of 50 %, whatever the number of records.

use super::super::Tenant;
use load::keys::Keys;
use load::workload::CannotRun;
use results::format::{self, Grouped};

/// Blocks that only defragmentation may take: the real engine's reserve (`DRV_DEFRAG_RESERVE`, Aerospike server,
/// `drv_common.h`), one buffer of each kind, and one more block.
pub(super) const RESERVE: u64 = 8;

/// Minimum number of blocks of a space: with fewer, chance decides whether the space fills up.
const BLOCKS_MIN: u64 = 32;

/// A tenant's store in whole records and blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreGeometry {
    pub blocks: u64,
    /// Records of the store (N), all live.
    pub records: u64,
    /// Records that a block holds (R).
    pub records_per_block: u32,
    /// A block is collected when it holds fewer live records than this (K).
    pub mark: u32,
    /// Blocks in use on average under uniform keys.
    pub blocks_used: f64,
    /// The highest fill at which uniform updates never run out of blocks, a share of the space.
    pub fill_max: f64,
}

impl StoreGeometry {
    /// Values for `tenant` on a space of `blocks`. Errors: too few or too many blocks, or a mark above a full block.
    pub fn new(tenant: &Tenant, blocks: u64) -> Result<Self, CannotRun> {
        let block_bytes = tenant.write_block_bytes;
        let record_bytes = tenant.record_bytes;
        if blocks < BLOCKS_MIN {
            return Err(tenant.cannot(format_args!(
                "cannot use a space of {} of {block_bytes} bytes - a store needs at least {BLOCKS_MIN} - give the \
                 tenant more space or smaller write blocks",
                format::count(blocks, "write block")
            )));
        }
        if blocks >= u64::from(u32::MAX) {
            return Err(tenant.cannot(format_args!(
                "cannot use a space of {} write blocks of {block_bytes} bytes - the maximum is {} - use larger write \
                 blocks",
                Grouped(blocks),
                Grouped(u64::from(u32::MAX) - 1)
            )));
        }
        let records_per_block = block_bytes / record_bytes;
        let marked_bytes = u64::from(block_bytes) * u64::from(tenant.defrag_lwm_pct);
        let mark = (marked_bytes.div_ceil(100 * u64::from(record_bytes)) as u32).max(1);
        if mark > records_per_block {
            return Err(tenant.cannot(format_args!(
                "cannot use a low-water mark of {} % - {records_per_block} records of {record_bytes} bytes fill {} of a write \
                 block of {block_bytes} bytes, so a full block would be collected at once - lower defrag-lwm-pct, or choose a \
                 record-bytes that fills blocks better",
                tenant.defrag_lwm_pct,
                format::percent(f64::from(records_per_block) * f64::from(record_bytes) / f64::from(block_bytes))
            )));
        }
        let space_bytes = blocks as f64 * f64::from(block_bytes);
        let records = (space_bytes * tenant.fill / f64::from(record_bytes))
            .floor()
            .max(1.0) as u64;
        let lifetime: f64 = (mark..=records_per_block)
            .map(|live| 1.0 / f64::from(live))
            .sum();
        let freed = f64::from(records_per_block - mark + 1);
        let blocks_used = records as f64 * lifetime / freed;
        // Blocks in use plus their random variation, the square root of their number, must fit.
        let usable = (((1.0 + 4.0 * (blocks - RESERVE) as f64).sqrt() - 1.0) / 2.0).powi(2);
        let fill_max = (tenant.fill * usable / blocks_used).min(1.0);
        Ok(Self {
            blocks,
            records,
            records_per_block,
            mark,
            blocks_used,
            fill_max,
        })
    }

    /// Write amplification of the store itself under uniform keys: bytes written per byte of clients.
    pub fn engine_wa(&self) -> f64 {
        f64::from(self.records_per_block) / f64::from(self.records_per_block - self.mark + 1)
    }

    /// Refuses a fill with which uniform updates run out of blocks. For other keys, only a model run shows the limit.
    pub fn check_fill(&self, tenant: &Tenant) -> Result<(), CannotRun> {
        let average = self.records as f64 / (self.blocks_used * f64::from(self.records_per_block));
        if tenant.fill <= self.fill_max || tenant.keys != Keys::Uniform {
            return Ok(());
        }
        Err(tenant.cannot(format_args!(
            "cannot fill {} of its space - with uniform keys and a low-water mark of {} %, blocks are {} full on average, so \
             the store needs {} blocks and has {} - lower fill-pct to at most {}, or raise defrag-lwm-pct (which also raises \
             the engine WA of {})",
            format::percent(tenant.fill),
            tenant.defrag_lwm_pct,
            format::percent(average),
            Grouped(self.blocks_used.ceil() as u64 + RESERVE),
            Grouped(self.blocks),
            (self.fill_max * 1_000.0).floor() / 10.0,
            format::number(self.engine_wa()),
        )))
    }
}
