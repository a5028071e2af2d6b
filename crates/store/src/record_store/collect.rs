//! Defragmentation: appends the live records of a mostly dead block again, and frees the block.
//!
//! A moved record keeps its version. A tombstone is dropped when no block on the device, used or free, can hold an
//! older version of its record. For this check, each tombstone stores the first sequence number that was assigned after
//! the tombstone was written. When a block with that number or a greater number was begun, the older versions were
//! already dead, and dead records are never appended again. So once every block that a cold start would read has such a
//! number, the tombstone is no longer needed.
//!
//! A block that stays mostly live is never collected. Its low sequence number then prevents newer tombstones from being
//! dropped. The tomb raider (`raid`) searches for such tombstones. When few blocks are free, the emptiest block is
//! collected even if more of it is live than the low-water mark allows.

use super::Store;
use crate::StoreDisk;
use crate::index::RecordLocation;
use crate::io::OpPurpose;
use crate::record::UNIT;
use crate::write_block::{BlockItem, BlockWalk};
use sys::buffer::Buf;
use sys::op::{Completion, OpKind};

/// A pass ends once it has moved this many bytes of records; its last record may exceed them.
const SLICE: usize = 256 << 10;

/// Maximum number of retries of a failed block read. After that the block is left as it is.
const TRIES: u32 = 3;

/// Delay before a retry for lack of space, nanoseconds.
const PAUSE_NS: u64 = 1_000_000;

/// Delay before the next search for a block worth collecting on a full device, nanoseconds.
const FULL_NS: u64 = 20_000_000;

#[derive(Debug, Default)]
pub(super) struct BlockCollector {
    stage: CollectStage,
    /// Earliest time of the next block read.
    next_ns: u64,
}

#[derive(Debug, Default)]
enum CollectStage {
    #[default]
    Idle,
    Reading {
        block: u32,
        tries: u32,
    },
    Moving {
        block: u32,
        buf: Buf,
        walk: BlockWalk,
    },
}

impl Store {
    /// Continues collecting. Returns the time of the next work.
    pub(super) fn collect(&mut self, number: usize, disk: &mut impl StoreDisk) -> u64 {
        match std::mem::take(&mut self.collectors[number].stage) {
            CollectStage::Idle => self.collect_next(number, disk),
            CollectStage::Moving { block, buf, .. } if self.is_draining => {
                self.volumes[number].blocks.put_back(block);
                self.io.recycle(buf);
                u64::MAX
            }
            CollectStage::Moving { block, buf, walk } => {
                self.move_records(number, block, buf, walk, disk)
            }
            reading @ CollectStage::Reading { .. } => {
                self.collectors[number].stage = reading;
                u64::MAX
            }
        }
    }

    fn collect_next(&mut self, number: usize, disk: &mut impl StoreDisk) -> u64 {
        let now_ns = disk.now_ns();
        let volume = &mut self.volumes[number];
        let is_short = volume.is_short_of_blocks();
        if self.is_draining || volume.blocks.queue.is_empty() && !is_short {
            return u64::MAX;
        }
        if now_ns < self.collectors[number].next_ns {
            return self.collectors[number].next_ns;
        }
        // Without a queued block, collect a block with less than 7/8 of the units in the last full block of copies.
        // Long records leave gaps at the ends of blocks, and their copies would leave the same gaps.
        if volume.blocks.queue.is_empty()
            && !volume.blocks.queue_emptiest(volume.packed_units / 8 * 7)
        {
            self.collectors[number].next_ns = now_ns + FULL_NS;
            return now_ns + FULL_NS;
        }
        if volume.is_overloaded() || !self.io.may_begin() {
            return now_ns + PAUSE_NS;
        }
        let Some(block) = volume.blocks.next_to_collect() else {
            return u64::MAX;
        };
        let Some(buf) = self.io.buffer(volume.block_bytes, disk) else {
            volume.blocks.put_back(block);
            return now_ns + PAUSE_NS;
        };
        self.read_block(number, block, 0, buf, disk);
        u64::MAX
    }

    fn read_block(
        &mut self,
        number: usize,
        block: u32,
        tries: u32,
        buf: Buf,
        disk: &mut impl StoreDisk,
    ) {
        let volume = &self.volumes[number];
        let target = volume.space.target;
        let bytes = volume.bytes_of(block..block + 1);
        self.collectors[number].stage = CollectStage::Reading { block, tries };
        self.io.submit(
            OpPurpose::Collect {
                volume: number as u8,
            },
            (target, OpKind::Read),
            bytes,
            buf,
            disk,
        );
    }

    pub(super) fn on_block_read(
        &mut self,
        number: usize,
        completion: Completion,
        disk: &mut impl StoreDisk,
    ) {
        let CollectStage::Reading { block, tries } =
            std::mem::take(&mut self.collectors[number].stage)
        else {
            return;
        };
        let volume = &mut self.volumes[number];
        volume
            .counters
            .large_block_read_us
            .record((completion.completed_ns - completion.issued_ns) / 1_000);
        if completion.outcome.is_done() {
            let walk = BlockWalk::new(volume.block_bytes, volume.blocks.get(block).seed);
            self.collectors[number].stage = CollectStage::Moving {
                block,
                buf: completion.buf,
                walk,
            };
            return;
        }
        volume.counters.read_errors += 1;
        if tries < TRIES {
            return self.read_block(number, block, tries + 1, completion.buf, disk);
        }
        self.io.recycle(completion.buf);
        self.end_collection(
            number,
            block,
            &completion.outcome.to_string(),
            disk.now_ns(),
        );
    }

    /// Ends the collection of a block. Logs `why` if live records are left in it.
    fn end_collection(&mut self, number: usize, block: u32, why: &str, now_ns: u64) {
        let volume = &mut self.volumes[number];
        volume.blocks.collected(block);
        let live = volume.blocks.get(block).live;
        self.collectors[number].next_ns =
            now_ns + u64::from(self.namespace.defrag_sleep_us) * 1_000;
        if live > 0 {
            volume.abandon(block);
            let what = format!(
                "{} bytes of records in write block {block}",
                live as usize * UNIT
            );
            self.remark(Some(number), format!("{what} could not be moved - {why}"));
        }
    }

    fn move_records(
        &mut self,
        number: usize,
        block: u32,
        buf: Buf,
        mut walk: BlockWalk,
        disk: &mut impl StoreDisk,
    ) -> u64 {
        let now_ns = disk.now_ns();
        let bytes = self.volumes[number].block_bytes;
        let mut moved = 0;
        while moved < SLICE && self.volumes[number].blocks.get(block).live > 0 {
            let walk_before = walk;
            let (record, at, len) = match walk.next(&buf[..bytes]) {
                BlockItem::Record(record, at, len) => (record, at, len),
                BlockItem::Seal(_) | BlockItem::Flaw(_) => continue,
                BlockItem::End(_) => {
                    self.io.recycle(buf);
                    self.end_collection(number, block, "the records are damaged", now_ns);
                    return self.collect_next(number, disk);
                }
            };
            let units = (len / UNIT) as u32;
            let location = RecordLocation {
                block,
                offset: (at / UNIT) as u32,
                units,
                volume: number as u8,
            };
            if self
                .index
                .get(&record.digest)
                .is_none_or(|entry| entry.location != location)
            {
                continue;
            }
            let volume = &mut self.volumes[number];
            // A tombstone hides nothing once no block on the device can hold an older version.
            if record.is_tombstone
                && let Ok(first) = record.body.try_into()
                && volume.blocks.oldest_sequence >= u64::from_le_bytes(first)
            {
                let old = self.index.remove(&record.digest);
                volume.blocks.remove(block, units);
                self.count(old.as_ref(), None);
                continue;
            }
            let Ok(location) = volume.append_copy(&buf[at..at + len], now_ns) else {
                self.collectors[number].stage = CollectStage::Moving {
                    block,
                    buf,
                    walk: walk_before,
                };
                return now_ns + PAUSE_NS;
            };
            volume.blocks.remove(block, units);
            self.index.move_to(&record.digest, location);
            moved += len;
        }
        if self.volumes[number].blocks.get(block).live > 0 {
            self.collectors[number].stage = CollectStage::Moving { block, buf, walk };
            return now_ns;
        }
        self.io.recycle(buf);
        self.end_collection(number, block, "", now_ns);
        self.collect_next(number, disk)
    }
}
