//! Model of a log-structured record store: chooses the next write block, and its cause.
//!
//! ```text
//! updates -> client buffer ---full---> a free block                     the old copies die where they are
//!                                          |
//!                          block below the low-water mark -> read, its live records -> defrag buffer -> a free block
//!                          once they are written, the block joins the end of the free list
//! ```
//!
//! The one idea: a drive sees whole blocks, so the model yields whole blocks. The model tracks the records in blocks as
//! coarsely as the keys allow: by a count per block under uniform keys ([`uniform`]), by each record's death under
//! skewed keys ([`skewed`]), by each record's place under sequential keys ([`records`]). A [`wheel`] holds the instants
//! at which blocks fall below the mark. Defragmentation keeps up: a block is collected as soon as it is below the mark,
//! as in a server with a short defrag-sleep. The model uses no clock and no device, and one seed for all random
//! choices.

mod records;
mod skewed;
mod steady;
mod uniform;
mod wheel;

#[cfg(test)]
mod tests;

pub use steady::StoreGeometry;

use super::{Reuse, Tenant};
use load::keys::{KeyGenerator, Keys};
use load::memory;
use load::workload::CannotRun;
use records::{ExactStore, MEMORY_MAX, shuffle};
use results::format::{self, Grouped};
use skewed::SkewedStore;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use steady::RESERVE;
use sys::random::Random;
use uniform::UniformStore;
use wheel::Wheel;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCause {
    Client,
    /// Defragmentation filled the block with live records of other blocks.
    Defrag,
}

/// A block that is written; blocks are numbered within the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockWrite {
    pub block: u32,
    pub cause: WriteCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreStep {
    Write(BlockWrite),
    /// Defragmentation reads this block, because it has too few live records.
    Read(u32),
}

/// Counters since the store was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounters {
    pub client_blocks: u64,
    pub defrag_blocks: u64,
    /// Blocks that were collected; not all of them are free yet.
    pub collected_blocks: u64,
    pub collected_live: u64,
}

impl HostCounters {
    /// Bytes written per byte of clients; `None` before the first client block.
    pub fn engine_wa(self) -> Option<f64> {
        let clients = self.client_blocks as f64;
        (self.client_blocks > 0).then(|| (clients + self.defrag_blocks as f64) / clients)
    }
}

#[derive(Debug, Clone)]
pub struct StoreModel {
    tenant: Tenant,
    steady: StoreGeometry,
    store: StoreKind,
    free_blocks: FreeBlocks,
    open_client_block: u32,
    open_defrag_block: u32,
    /// Records that wait in the defrag buffer.
    waiting: u64,
    expected_engine_wa: f64,
    /// Collected blocks. Each is free again once `records_moved` reaches the number beside it.
    vacated: VecDeque<(u32, u64)>,
    records_moved: u64,
    counters: HostCounters,
}

#[derive(Debug, Clone)]
enum StoreKind {
    Uniform(Box<UniformStore>),
    Skewed(Box<SkewedStore>),
    Records(Box<ExactStore>),
}

/// Free blocks in the order in which they are reused.
#[derive(Debug, Clone)]
enum FreeBlocks {
    Fifo(VecDeque<u32>),
    Lowest(BinaryHeap<Reverse<u32>>),
    Random(Vec<u32>, Random),
}

impl FreeBlocks {
    fn new(reuse: Reuse, blocks: Vec<u32>, random: Random) -> Self {
        match reuse {
            Reuse::Fifo => Self::Fifo(blocks.into()),
            Reuse::Lowest => Self::Lowest(blocks.into_iter().map(Reverse).collect()),
            Reuse::Random => Self::Random(blocks, random),
        }
    }

    #[inline]
    fn take(&mut self) -> Option<u32> {
        match self {
            Self::Fifo(blocks) => blocks.pop_front(),
            Self::Lowest(blocks) => blocks.pop().map(|Reverse(block)| block),
            Self::Random(blocks, random) => (!blocks.is_empty())
                .then(|| blocks.swap_remove(random.below(blocks.len() as u64) as usize)),
        }
    }

    #[inline]
    fn put(&mut self, block: u32) {
        match self {
            Self::Fifo(blocks) => blocks.push_back(block),
            Self::Lowest(blocks) => blocks.push(Reverse(block)),
            Self::Random(blocks, _) => blocks.push(block),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Fifo(blocks) => blocks.len(),
            Self::Lowest(blocks) => blocks.len(),
            Self::Random(blocks, _) => blocks.len(),
        }
    }
}

/// Refuses a model of records with non-uniform keys that needs `bytes` of memory, more than [`MEMORY_MAX`].
fn check_memory(tenant: &Tenant, steady: &StoreGeometry, bytes: u64) -> Result<(), CannotRun> {
    if bytes <= MEMORY_MAX {
        return Ok(());
    }
    Err(tenant.cannot(format_args!(
        "cannot model {} records with non-uniform keys - the model needs {} of memory, and its maximum is {} - use \
         larger records, a smaller space or uniform keys",
        Grouped(steady.records),
        format::bytes(bytes as f64),
        format::bytes(MEMORY_MAX as f64)
    )))
}

impl StoreModel {
    /// Models `tenant` on a space of `blocks` write blocks after long use: blocks of every age, spread over the space,
    /// each written at least once. Errors: an invalid store, or a fill that defragmentation cannot sustain.
    pub fn new(tenant: &Tenant, blocks: u64, seed: u64) -> Result<Self, CannotRun> {
        let steady = StoreGeometry::new(tenant, blocks)?;
        steady.check_fill(tenant)?;
        // Under non-uniform keys, a store reaches another steady state, which can be denser than under uniform keys.
        let spread = tenant.fill <= steady.fill_max && tenant.keys != Keys::Sequential;
        let mut model = Self::with(tenant, steady, spread, seed)?;
        if tenant.keys != Keys::Uniform {
            // Counts only the second pass over all records, which is in the steady state.
            for _ in 0..2 {
                model.counters = HostCounters::default();
                while model.counters.client_blocks < model.loaded_blocks() {
                    model.step()?;
                }
            }
            model.expected_engine_wa = model.counters.engine_wa().unwrap_or(1.0);
        }
        model.counters = HostCounters::default();
        Ok(model)
    }

    fn with(
        tenant: &Tenant,
        steady: StoreGeometry,
        spread: bool,
        seed: u64,
    ) -> Result<Self, CannotRun> {
        // While the store is made, a free block is in two lists.
        let bytes = Wheel::memory_bytes(steady.blocks) + 8 * steady.blocks;
        memory::check(bytes).map_err(|why| {
            let blocks = Grouped(steady.blocks);
            tenant.cannot(format_args!(
                "cannot model {blocks} write blocks - {why} - use larger write blocks or a smaller space"
            ))
        })?;
        let mut random = Random::for_part(seed, 0);
        // Blocks are taken from the end of the list.
        let mut blocks: Vec<u32> = (0..steady.blocks as u32).rev().collect();
        if spread {
            shuffle(&mut blocks, &mut random);
        }
        let store_random = Random::for_part(seed, 1);
        let store = match tenant.keys {
            Keys::Uniform => {
                StoreKind::Uniform(UniformStore::new(&steady, &mut blocks, store_random).into())
            }
            Keys::Sequential => {
                check_memory(tenant, &steady, ExactStore::memory_bytes(&steady))?;
                let draw = KeyGenerator::new(tenant.keys, steady.records as u32);
                StoreKind::Records(
                    ExactStore::new(&steady, draw, spread, &mut blocks, store_random).into(),
                )
            }
            keys => {
                check_memory(tenant, &steady, SkewedStore::memory_bytes(&steady))?;
                StoreKind::Skewed(
                    SkewedStore::new(&steady, keys, spread, &mut blocks, store_random).into(),
                )
            }
        };
        blocks.reverse();
        let mut model = Self {
            tenant: tenant.clone(),
            steady,
            store,
            free_blocks: FreeBlocks::new(tenant.reuse, blocks, random),
            open_client_block: 0,
            open_defrag_block: 0,
            waiting: 0,
            expected_engine_wa: steady.engine_wa(),
            vacated: VecDeque::new(),
            records_moved: 0,
            counters: HostCounters::default(),
        };
        model.open_client_block = model.take(RESERVE as usize)?;
        model.open_defrag_block = model.take(0)?;
        Ok(model)
    }

    /// A pending step of defragmentation, else a client block. Errors: the store's space is full, which is final.
    #[inline]
    pub fn step(&mut self) -> Result<StoreStep, CannotRun> {
        match self.defrag_step()? {
            Some(step) => Ok(step),
            None => self.client_block().map(StoreStep::Write),
        }
    }

    /// The next step of defragmentation; `None` if no step is pending. Errors: as for [`Self::step`].
    #[inline]
    pub fn defrag_step(&mut self) -> Result<Option<StoreStep>, CannotRun> {
        let per_block = u64::from(self.steady.records_per_block);
        if self.waiting >= per_block {
            return self
                .defrag_block()
                .map(|write| Some(StoreStep::Write(write)));
        }
        loop {
            let collected = match &mut self.store {
                StoreKind::Uniform(store) => store.collect(),
                StoreKind::Skewed(store) => store.collect(),
                StoreKind::Records(store) => store.collect(),
            };
            let Some((block, live)) = collected else {
                return Ok(None);
            };
            self.counters.collected_blocks += 1;
            self.counters.collected_live += u64::from(live);
            if live == 0 {
                self.free_blocks.put(block);
                continue;
            }
            self.waiting += u64::from(live);
            self.vacated
                .push_back((block, self.records_moved + self.waiting));
            return Ok(Some(StoreStep::Read(block)));
        }
    }

    /// The next block that the store writes. Errors: as for [`Self::step`].
    #[inline]
    pub fn next_block(&mut self) -> Result<BlockWrite, CannotRun> {
        loop {
            if let StoreStep::Write(write) = self.step()? {
                return Ok(write);
            }
        }
    }

    /// The next block that clients fill, even if steps of defragmentation are pending. Errors: as for [`Self::step`].
    #[inline]
    pub fn client_block(&mut self) -> Result<BlockWrite, CannotRun> {
        let new_block = self.take(RESERVE as usize)?;
        let block = std::mem::replace(&mut self.open_client_block, new_block);
        match &mut self.store {
            StoreKind::Uniform(store) => store.clients(block),
            StoreKind::Skewed(store) => store.clients(block),
            StoreKind::Records(store) => store.clients(block),
        }
        self.counters.client_blocks += 1;
        Ok(BlockWrite {
            block,
            cause: WriteCause::Client,
        })
    }

    fn defrag_block(&mut self) -> Result<BlockWrite, CannotRun> {
        let new_block = self.take(0)?;
        self.waiting -= u64::from(self.steady.records_per_block);
        let block = std::mem::replace(&mut self.open_defrag_block, new_block);
        match &mut self.store {
            StoreKind::Uniform(store) => store.write(block),
            StoreKind::Skewed(store) => store.write(block),
            StoreKind::Records(store) => store.write(block),
        }
        self.counters.defrag_blocks += 1;
        self.records_moved += u64::from(self.steady.records_per_block);
        while let Some((vacated, end)) = self.vacated.front()
            && *end <= self.records_moved
        {
            self.free_blocks.put(*vacated);
            self.vacated.pop_front();
        }
        Ok(BlockWrite {
            block,
            cause: WriteCause::Defrag,
        })
    }

    /// Takes a free block, unless only `reserve` are left.
    fn take(&mut self, reserve: usize) -> Result<u32, CannotRun> {
        let block = if self.free_blocks.len() > reserve {
            self.free_blocks.take()
        } else {
            None
        };
        block.ok_or_else(|| {
            let blocks = self.steady.blocks;
            let written = format::count(self.counters.client_blocks, "block");
            let used = Grouped(blocks - self.free_blocks.len() as u64);
            let blocks = Grouped(blocks);
            self.tenant.cannot(format_args!(
                "its space is full after {written} of client writes - {used} of its {blocks} blocks are in use, and too few fall \
                 below the low-water mark of {} % - lower fill-pct, or raise defrag-lwm-pct",
                self.tenant.defrag_lwm_pct
            ))
        })
    }

    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    pub fn steady(&self) -> &StoreGeometry {
        &self.steady
    }

    /// Expected write amplification: by arithmetic under uniform keys, otherwise measured while each record was updated
    /// once on average.
    pub fn expected_engine_wa(&self) -> f64 {
        self.expected_engine_wa
    }

    /// Blocks filled by loading all records.
    pub fn loaded_blocks(&self) -> u64 {
        self.steady
            .records
            .div_ceil(self.steady.records_per_block.into())
    }
}
