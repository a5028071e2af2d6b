//! Three types: the settings of a namespace, the range of a device that one core uses, the statistics of a store.

use device::target::Target;
use results::format::count;
use std::fmt;
use std::ops::{AddAssign, Range};
use sys::buffer::Buf;
use sys::op::{Op, TargetId};

/// Settings of a namespace. Each field names its directive in the server's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct NamespaceSettings {
    pub name: String,
    /// `write-block-size`: bytes of a write block, a power of two from 32 KiB to 8 MiB.
    pub write_block_bytes: u32,
    /// `defrag-lwm-pct`: share of live data, percent, below which a block is defragmented.
    pub defrag_lwm_pct: u8,
    /// `defrag-sleep`: pause between the defragmentation of two blocks, us.
    pub defrag_sleep_us: u32,
    /// `flush-max-ms`: longest time that a partly filled buffer waits for more records; 0: unlimited.
    pub flush_max_ms: u32,
    /// `post-write-queue`: number of written blocks that stay in memory.
    pub post_write_blocks: u32,
    /// `max-write-cache`: writes are refused while more than this number of bytes waits to be written.
    pub max_write_cache_bytes: u64,
    /// `commit-to-device`: a write is acknowledged once the record is on the device.
    pub commit_to_device: bool,
    /// `default-ttl`: seconds; 0: unlimited.
    pub default_ttl_sec: u32,
    /// `nsup-period`: seconds between two searches for expired records; 0: never.
    pub nsup_period_sec: u32,
    /// `tomb-raider-period`: seconds between two searches for unneeded tombstones; 0: only when memory is short.
    pub tomb_raider_period_sec: u32,
    /// `tomb-raider-sleep`: pause of the search for tombstones between reads of two blocks, us.
    pub tomb_raider_sleep_us: u32,
    /// `single-bin`: records have one bin without a name.
    pub single_bin: bool,
    /// `min-avail-pct`, `stop-writes-avail-pct`: share of free blocks, percent, below which writes are refused.
    pub min_avail_pct: u8,
    /// `memory-size`: bytes for the index of the whole namespace.
    pub memory_bytes: u64,
}

impl NamespaceSettings {
    /// A namespace with the server's defaults.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            write_block_bytes: 128 << 10,
            defrag_lwm_pct: 50,
            defrag_sleep_us: 1_000,
            flush_max_ms: 1_000,
            post_write_blocks: 256,
            max_write_cache_bytes: 64 << 20,
            commit_to_device: false,
            default_ttl_sec: 0,
            nsup_period_sec: 120,
            tomb_raider_period_sec: 86_400,
            tomb_raider_sleep_us: 1_000,
            single_bin: false,
            min_avail_pct: 5,
            memory_bytes: 4 << 30,
        }
    }

    /// The settings of one core's store: memory and caches are divided by the number of cores.
    pub fn per_core(&self, cores: u16) -> Self {
        let cores = u64::from(cores.max(1));
        Self {
            memory_bytes: self.memory_bytes / cores,
            post_write_blocks: (u64::from(self.post_write_blocks) / cores) as u32,
            max_write_cache_bytes: self.max_write_cache_bytes / cores,
            ..self.clone()
        }
    }
}

/// One core's part of a device: a range of write blocks. The device's header precedes all ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreSpace {
    /// The device's number in the engine.
    pub target: TargetId,
    pub range: Range<u64>,
    /// Offset of the store's two marks ([`crate::MARKS_BYTES`]), which are outside of `range`.
    pub marks_offset: u64,
    /// The device's smallest direct I/O, bytes: records are read in multiples of this size.
    pub min_io_bytes: u32,
    /// Unit that the device writes as a whole, bytes: its physical block, or its smallest direct I/O if larger. A
    /// smaller write is a read-modify-write, and a power failure can then lose the old data of the unit.
    pub write_unit_bytes: u32,
    /// Random number that the device got when it was formatted. Data with another number is not a record.
    pub id: u64,
}

/// The [`StoreSpace::write_unit_bytes`] of a device, at most 4 KiB: drives with larger physical blocks have
/// power-loss protection.
pub fn write_unit_bytes(target: &Target) -> u32 {
    target
        .min_io_bytes()
        .max(target.facts().physical_sector_bytes.unwrap_or(0).min(4096))
}

/// Data that cannot be read any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    pub blocks: u64,
    /// Unreadable bytes in the damaged write blocks.
    pub bytes: u64,
    /// Upper bound of the number of records that are missing or outdated.
    pub records: u64,
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.blocks, other.blocks);
        add(&mut self.bytes, other.bytes);
        add(&mut self.records, other.records);
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = count(self.bytes, "byte");
        let blocks = count(self.blocks, "write block");
        let records = count(self.records, "record");
        write!(
            f,
            "{bytes} of {blocks} cannot be read, so up to {records} may be missing or outdated"
        )
    }
}

/// Performs a store's I/O.
pub trait StoreDisk {
    /// The clock, ns. Never runs backwards.
    fn now_ns(&mut self) -> u64;

    /// Submits an operation. The owner of the engine passes the completion to the store.
    fn submit(&mut self, op: Op);

    /// A buffer from the engine's memory; `None` if the memory is used up.
    fn buffer(&mut self, len: usize) -> Option<Buf>;
}

/// Histogram by powers of two: bucket 0 counts the value 0, bucket b the values from 2^(b-1) to 2^b - 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    pub(crate) counts: [u64; 65],
}

impl Default for Buckets {
    fn default() -> Self {
        Self { counts: [0; 65] }
    }
}

impl Buckets {
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[(u64::BITS - value.leading_zeros()) as usize] += 1;
    }
}

/// Statistics of a store, with the real server's meaning. Counters since the start unless noted otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    pub objects: u64,
    pub tombstones: u64,
    pub devices: Vec<DeviceStatistics>,
    pub expired: u64,
    /// Writes that deleted a record, because they left no bin.
    pub deleted_last_bin: u64,
    /// Tombstones that the tomb raider removed because they hide no older version.
    pub raided: u64,
    /// Reads of records answered from memory.
    pub cache_reads: u64,
    pub device_reads: u64,
    /// True if new records are refused because space or memory is short.
    pub stop_writes: bool,
    /// True if space or memory is short.
    pub hwm_breached: bool,
    pub index_bytes: u64,
    /// Records with a wrong checksum.
    pub corrupted: u64,
    /// Losses that keep the store from opening.
    pub damage: Losses,
    /// Losses that were accepted since the devices were formatted.
    pub losses: Losses,
    /// Bytes of each read of a record from a device (`device-read-size`).
    pub read_bytes: Buckets,
    /// Bytes of each record appended to a write buffer (`device-write-size`).
    pub write_bytes: Buckets,
}

/// Statistics of one device. Counts are numbers of write blocks unless noted otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// Bytes of live records.
    pub used_bytes: u64,
    pub free_wblocks: u64,
    /// Free blocks that were never written.
    pub pristine_wblocks: u64,
    /// Current number of filled blocks whose last write is not complete.
    pub write_q: u64,
    /// Written blocks with clients' records.
    pub writes: u64,
    /// Current number of blocks in the queue for defragmentation.
    pub defrag_q: u64,
    /// Blocks that were added to the queue for defragmentation.
    pub defrag_reads: u64,
    /// Written blocks with records moved by defragmentation.
    pub defrag_writes: u64,
    /// Queued blocks that were freed without a read, because no live record was left.
    pub defrag_io_skips: u64,
    /// Blocks that were freed without being queued.
    pub direct_frees: u64,
    pub partial_writes: u64,
    pub read_errors: u64,
    /// Writes and flushes that failed on the device.
    pub write_errors: u64,
    /// Time of each read of a record, us (`-read`).
    pub read_us: Buckets,
    /// Time of each block read for defragmentation, us (`-large-block-read`).
    pub large_block_read_us: Buckets,
    /// Time of each write, us (`-write`).
    pub write_us: Buckets,
}
