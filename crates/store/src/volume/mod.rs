//! A log on one device. Records are appended to write buffers. A buffer is written when it is full, after a time limit,
//! or by a flush.
//!
//! ```text
//! append -> current buffer (one for clients, one for collection) -> write -> on the device, and for a while in memory
//! ```
//!
//! A buffer has its own memory; records are read from that memory as long as the buffer is kept. Writes use a copy.
//! Each write covers the bytes added since the previous write, in whole sectors that begin with a seal. So a sector is
//! never rewritten while it holds a record.
//!
//! * `writes`: times of writes, durability, and marks of the state at rest; `blocks`: states of blocks

pub(crate) mod blocks;
mod writes;

use crate::namespace::DeviceStatistics;
use crate::record::{Record, UNIT, seal_moved, seed_at};
use crate::seal::{DurableBounds, SEAL};
use crate::write_block::{FIRST_BYTE, WriteBlockHeader};
use crate::{NamespaceSettings, Reply, ResultCode, StoreSpace, index::RecordLocation};
use blocks::{BlockTable, NO_BUFFER};
use std::collections::VecDeque;
use std::ops::Range;
use writes::Marks;

/// Maximum number of spare buffers kept for the next blocks.
const SPARE_MAX: usize = 8;

/// Numbers of free blocks at or below which clients' records (first) and tombstones (second) get no new block.
/// Collection may use all blocks.
const RESERVED: [usize; 2] = [4, 2];

/// Maximum number of empty headers that are being written.
const RENEWALS_MAX: usize = 4;

/// Distance from the limits for writes, in free blocks and in percent, at which collection becomes urgent.
const SHORT: usize = 2;

/// Maximum number of blocks of this size that are begun and not written yet. More unused blocks than this in a row end
/// a cold start.
pub(crate) fn unwritten_max(block_bytes: usize) -> u32 {
    ((512 << 20) / block_bytes).max(64) as u32
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AppendPurpose {
    #[default]
    Record,
    /// A tombstone, in the buffer of clients.
    Tombstone,
    /// A live record that is moved out of a block.
    Collected,
    /// An empty header for a block.
    Renewal,
}

/// Records of a buffer that no write covers yet: the next write makes them one piece.
#[derive(Debug, Clone, Copy)]
struct BufferedPiece {
    at: usize,
    /// End of the piece's records.
    used: usize,
    records: u32,
}

#[derive(Debug, Default)]
struct Buffer {
    block: u32,
    header: WriteBlockHeader,
    purpose: AppendPurpose,
    bytes: Box<[u8]>,
    used_bytes: usize,
    durable_bytes: usize,
    /// Bytes that will be on the device after the write in flight.
    in_flight_end: Option<usize>,
    piece: Option<BufferedPiece>,
    /// The piece of the write in flight, and the bounds in its seal.
    in_flight_piece: Option<(BufferedPiece, DurableBounds)>,
    is_closed: bool,
    is_queued: bool,
    /// Number of the first record that no write covers yet, and of the first record in the write in flight.
    first_unwritten: Option<u64>,
    first_in_flight: Option<u64>,
    /// When the first record that no write covers yet was appended.
    since_ns: u64,
    /// Replies that wait for the device: bytes of the buffer that must be on the device, transaction number, and reply.
    replies: VecDeque<(usize, u64, Reply)>,
    failures: u32,
    retry_ns: u64,
}

impl Buffer {
    /// Bytes left for one more record.
    fn room(&self) -> usize {
        let seal = if self.piece.is_some() { 0 } else { SEAL };
        self.bytes.len().saturating_sub(self.used_bytes + seal)
    }

    /// The piece that is being filled.
    fn piece(&mut self) -> &mut BufferedPiece {
        let at = self.used_bytes;
        self.piece.get_or_insert(BufferedPiece {
            at,
            used: at + SEAL,
            records: 0,
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Volume {
    number: u8,
    pub(crate) space: StoreSpace,
    pub(crate) sector_bytes: usize,
    pub(crate) block_bytes: usize,
    flush_max_ns: u64,
    min_avail_pct: u8,
    post_write_blocks: usize,
    write_cache_blocks: usize,
    opening: u64,
    /// Sequence number of the block that was begun last.
    pub(crate) sequence: u64,
    pub(crate) blocks: BlockTable,
    buffers: Vec<Option<Buffer>>,
    free_numbers: Vec<u32>,
    spare_buffers: Vec<Box<[u8]>>,
    /// Buffers being filled: with clients' records, and with collected records.
    current: [Option<u32>; 2],
    /// Buffers with unwritten bytes.
    active: Vec<u32>,
    pub(crate) queue: VecDeque<u32>,
    /// Written buffers that are kept in memory for reads, oldest first.
    post_write_queue: VecDeque<u32>,
    closed_buffers: usize,
    /// Empty headers that are being written.
    renewals: usize,
    /// Filled units of the last block that collection closed.
    pub(crate) packed_units: u32,
    writes_in_flight: usize,
    /// Sequence numbers of blocks that are not completely written.
    incomplete_sequences: Vec<u64>,
    marks: Marks,
    /// When the last write ended.
    idle_since_ns: u64,
    /// True after too many failures of a write: the device is considered read-only.
    pub(crate) is_failing: bool,
    /// True if writes are permanently refused.
    pub(crate) refuses_writes: bool,
    /// Counters that `blocks` and other fields do not hold.
    pub(crate) counters: DeviceStatistics,
}

impl Volume {
    pub(crate) fn new(
        number: u8,
        space: &StoreSpace,
        namespace: &NamespaceSettings,
        opening: u64,
    ) -> Self {
        let block_bytes = namespace.write_block_bytes as usize;
        let blocks = ((space.range.end - space.range.start) / block_bytes as u64) as usize;
        let low_water = (block_bytes / UNIT) as u64 * u64::from(namespace.defrag_lwm_pct) / 100;
        Self {
            number,
            sector_bytes: space.write_unit_bytes.max(space.min_io_bytes).max(512) as usize,
            block_bytes,
            flush_max_ns: match namespace.flush_max_ms {
                0 => u64::MAX,
                ms => u64::from(ms) * 1_000_000,
            },
            min_avail_pct: namespace.min_avail_pct,
            packed_units: (block_bytes / UNIT) as u32,
            post_write_blocks: namespace.post_write_blocks as usize,
            // Less than the number of unused blocks in a row that ends a cold start.
            write_cache_blocks: ((namespace.max_write_cache_bytes / block_bytes as u64) as usize)
                .clamp(1, unwritten_max(block_bytes) as usize / 2),
            opening,
            blocks: BlockTable::new(blocks, low_water as u32),
            space: space.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn bytes_of(&self, blocks: Range<u32>) -> Range<u64> {
        let at = |block: u32| self.space.range.start + u64::from(block) * self.block_bytes as u64;
        at(blocks.start)..at(blocks.end)
    }

    pub(crate) fn statistics(&self) -> DeviceStatistics {
        let blocks = &self.blocks;
        DeviceStatistics {
            used_bytes: blocks.live * UNIT as u64,
            free_wblocks: blocks.free() as u64,
            pristine_wblocks: blocks.pristine() as u64,
            write_q: self.closed_buffers as u64,
            defrag_q: blocks.queue.len() as u64,
            defrag_reads: blocks.defrag_reads,
            defrag_io_skips: blocks.defrag_io_skips,
            direct_frees: blocks.direct_frees,
            ..self.counters.clone()
        }
    }

    /// True if so few blocks are free that writes will soon be refused. Then blocks above the low-water
    /// mark are collected, too.
    pub(crate) fn is_short_of_blocks(&self) -> bool {
        let free = self.blocks.free();
        free <= RESERVED[0] + SHORT
            || free * 100 < (usize::from(self.min_avail_pct) + SHORT) * self.blocks.len()
    }

    /// Handles a block whose remaining records cannot be moved. The next cold start judges the block as it is.
    pub(crate) fn abandon(&mut self, block: u32) {
        let sequence = self.blocks.get(block).sequence;
        self.incomplete_sequences
            .retain(|incomplete| *incomplete != sequence);
    }

    /// True if too many blocks wait to be written.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.closed_buffers >= self.write_cache_blocks
    }

    fn bounds(&self) -> DurableBounds {
        let open = self.current.map(|number| {
            let buffer = number.and_then(|number| self.buffers[number as usize].as_ref());
            buffer.map_or((0, 0), |buffer| {
                (buffer.header.sequence, buffer.durable_bytes as u32)
            })
        });
        let is_open = |sequence: &u64| open.iter().any(|(open, _)| open == sequence);
        let incomplete = self
            .incomplete_sequences
            .iter()
            .copied()
            .filter(|sequence| !is_open(sequence));
        DurableBounds {
            sequence: self.sequence,
            closed_before: incomplete.min().unwrap_or(self.sequence + 1),
            certain: self.blocks.certain(),
            open,
            next: self.blocks.next(self.sequence),
        }
    }

    /// Appends a record of this many units, and returns its position. `write` fills the given bytes, and gets the start
    /// value of the checksum.
    pub(crate) fn append(
        &mut self,
        purpose: AppendPurpose,
        units: u32,
        now_ns: u64,
        write: impl FnOnce(&mut [u8], u32),
    ) -> Result<RecordLocation, ResultCode> {
        if self.is_failing || self.refuses_writes {
            return Err(ResultCode::SERVER_ERROR);
        }
        let len = units as usize * UNIT;
        let current_index = usize::from(purpose == AppendPurpose::Collected);
        let current = self.current[current_index].filter(|number| {
            let buffer = self.buffers[*number as usize].as_ref();
            buffer.is_some_and(|buffer| buffer.room() >= len)
        });
        let number = match current {
            Some(number) => number,
            None => self.begin(purpose, current_index)?,
        };
        self.blocks.appended += 1;
        let Some(buffer) = &mut self.buffers[number as usize] else {
            return Err(ResultCode::SERVER_ERROR);
        };
        if buffer.first_unwritten.is_none() {
            (buffer.first_unwritten, buffer.since_ns) = (Some(self.blocks.appended), now_ns);
            if buffer.first_in_flight.is_none() {
                self.active.push(number);
            }
        }
        let piece = buffer.piece();
        let at = piece.used;
        (piece.used, piece.records) = (at + len, piece.records + 1);
        buffer.used_bytes = at + len;
        write(
            &mut buffer.bytes[at..at + len],
            seed_at(buffer.header.seed(), at),
        );
        self.blocks.add(buffer.block, units);
        Ok(RecordLocation {
            block: buffer.block,
            offset: (at / UNIT) as u32,
            units,
            volume: self.number,
        })
    }

    /// Begins a new block for a current buffer, and queues the previous buffer for a write.
    fn begin(&mut self, purpose: AppendPurpose, current_index: usize) -> Result<u32, ResultCode> {
        if purpose != AppendPurpose::Collected && self.is_overloaded() {
            return Err(ResultCode::DEVICE_OVERLOAD);
        }
        let reserved = match purpose {
            AppendPurpose::Record => RESERVED[0],
            AppendPurpose::Tombstone => RESERVED[1],
            AppendPurpose::Collected | AppendPurpose::Renewal => 0,
        };
        self.blocks.settle(self.durable());
        if self.blocks.available() <= reserved {
            // Blocks in `freed` become free when the buffers are written.
            self.flush();
            let is_passing = self.blocks.free() > reserved || self.blocks.is_collecting();
            return Err(if is_passing {
                ResultCode::DEVICE_OVERLOAD
            } else {
                ResultCode::OUT_OF_SPACE
            });
        }
        if let Some(number) = self.current[current_index].take() {
            self.close(number);
        }
        let Some(block) = self.blocks.allocate(self.sequence + 1) else {
            return Err(ResultCode::OUT_OF_SPACE);
        };
        self.forget(block);
        let bytes = self
            .spare_buffers
            .pop()
            .unwrap_or_else(|| vec![0; self.block_bytes].into());
        let number = self.begin_block(block, purpose, bytes);
        self.current[current_index] = Some(number);
        Ok(number)
    }

    /// Begins a buffer for a block. The block gets the next sequence number.
    fn begin_block(&mut self, block: u32, purpose: AppendPurpose, mut bytes: Box<[u8]>) -> u32 {
        self.sequence += 1;
        self.incomplete_sequences.push(self.sequence);
        let header = WriteBlockHeader {
            id: self.space.id,
            sequence: self.sequence,
            opening: self.opening,
            block,
        };
        header.write(&mut bytes[..self.sector_bytes]);
        let buffer = Buffer {
            block,
            header,
            purpose,
            bytes,
            used_bytes: FIRST_BYTE,
            ..Buffer::default()
        };
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() as u32 - 1
        });
        let entry = self.blocks.get_mut(block);
        (entry.buffer, entry.seed) = (number, header.seed());
        self.buffers[number as usize] = Some(buffer);
        number
    }

    /// Starts to write empty headers to the blocks that wait for one.
    fn renew(&mut self) {
        while self.renewals < RENEWALS_MAX
            && let Some((block, is_whole)) = self.blocks.renewable.pop_front()
        {
            self.renewals += 1;
            self.forget(block);
            let bytes = vec![
                0;
                if is_whole {
                    self.block_bytes
                } else {
                    self.sector_bytes
                }
            ]
            .into();
            let number = self.begin_block(block, AppendPurpose::Renewal, bytes);
            self.close(number);
        }
    }

    /// Closes a buffer: no more records are appended.
    fn close(&mut self, number: u32) {
        let Some(buffer) = &mut self.buffers[number as usize] else {
            return;
        };
        let used = buffer.used_bytes;
        if buffer.used_bytes < buffer.bytes.len() {
            let used = buffer.piece().used;
            buffer.bytes[used..].fill(0);
            buffer.used_bytes = buffer.bytes.len();
        }
        buffer.is_closed = true;
        match buffer.purpose {
            AppendPurpose::Renewal => {}
            AppendPurpose::Collected => {
                self.packed_units = (used / UNIT) as u32;
                self.closed_buffers += 1;
            }
            _ => self.closed_buffers += 1,
        }
        self.enqueue(number);
    }

    /// Start value of the checksum of the record at `location`.
    pub(crate) fn seed_of(&self, location: RecordLocation) -> u32 {
        seed_at(
            self.blocks.get(location.block).seed,
            location.offset as usize * UNIT,
        )
    }

    pub(crate) fn in_memory(&self, location: RecordLocation) -> Option<&[u8]> {
        let buffer = self
            .buffers
            .get(self.blocks.get(location.block).buffer as usize)?
            .as_ref()?;
        buffer.bytes.get(
            location.offset as usize * UNIT..(location.offset + location.units) as usize * UNIT,
        )
    }

    /// Drops the buffer that still holds the old contents of a block.
    fn forget(&mut self, block: u32) {
        let number = self.blocks.get(block).buffer;
        if number != NO_BUFFER {
            self.post_write_queue.retain(|kept| *kept != number);
            self.drop_buffer(number);
        }
    }

    fn drop_buffer(&mut self, number: u32) {
        let Some(buffer) = self.buffers[number as usize].take() else {
            return;
        };
        self.blocks.get_mut(buffer.block).buffer = NO_BUFFER;
        self.free_numbers.push(number);
        if self.spare_buffers.len() < SPARE_MAX && buffer.bytes.len() == self.block_bytes {
            self.spare_buffers.push(buffer.bytes);
        }
    }

    /// True if the block's header is durable.
    pub(crate) fn is_certain(&self, block: u32) -> bool {
        let buffer = self
            .buffers
            .get(self.blocks.get(block).buffer as usize)
            .and_then(Option::as_ref);
        buffer.is_none_or(|buffer| buffer.durable_bytes > 0)
    }

    /// Copies a record into another block. `bytes`: the record as on the device.
    pub(crate) fn append_copy(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<RecordLocation, ResultCode> {
        self.append(
            AppendPurpose::Collected,
            (bytes.len() / UNIT) as u32,
            now_ns,
            |room, seed| {
                room.copy_from_slice(bytes);
                seal_moved(room, seed);
            },
        )
    }

    pub(crate) fn append_record(
        &mut self,
        record: &Record<'_>,
        now_ns: u64,
    ) -> Result<RecordLocation, ResultCode> {
        let purpose = if record.is_tombstone {
            AppendPurpose::Tombstone
        } else {
            AppendPurpose::Record
        };
        self.append(purpose, record.units(), now_ns, |room, seed| {
            record.write(room, seed)
        })
    }
}
