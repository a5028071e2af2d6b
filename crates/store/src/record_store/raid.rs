//! The tomb raider: removes tombstones that hide nothing, even if older blocks were never collected.
//!
//! First, all tombstones are marked, and all records appended until then are written. Then the search reads every block
//! that a cold start would read. A tombstone loses its mark when an older version of its record is found in another
//! block. Versions in the tombstone's own block do not count, because they are overwritten together with the tombstone.
//! Deleted records are never appended again, so tombstones that keep their mark hide nothing. A block whose header is
//! being written is read only after that write, because after a power failure the block could hold other records. An
//! unreadable block ends the search.
//!
//! When memory for the index is short, the search begins at once and does not sleep between blocks. Before an urgent
//! search, free blocks get an empty header, so that their old versions need no tombstones. Blocks in which an urgent
//! search finds hidden versions are queued for defragmentation.
//!
//! This module also replaces expired records by tombstones, a part of the index at a time. A tombstone is needed,
//! because an older version with a longer lifetime may still be on the device.

use super::transact::tombstone;
use super::{NO_CLIENT, Store};
use crate::io::OpPurpose;
use crate::write_block::{BlockItem, BlockWalk};
use crate::{Reply, ResultCode, StoreDisk};
use sys::buffer::Buf;
use sys::op::{Completion, OpKind};

/// Maximum number of index entries, or of records of a block, that are examined in one pass.
const TURN: u32 = 2_000;

/// Delay before the next pass, or before a retry for lack of space, nanoseconds.
const PAUSE_NS: u64 = 1_000_000;

/// Minimum time between two urgent searches, if the first search gained little.
const REST_NS: u64 = 5_000_000_000;

#[derive(Debug, Default)]
pub(super) struct TombRaider {
    stage: RaidStage,
    next_ns: u64,
    /// True if memory is short: the search does not sleep between blocks.
    is_urgent: bool,
    /// True if the last search gained little.
    pub(super) is_fruitless: bool,
    /// Number of tombstones that this search removed, plus number of blocks that the search queued for collection.
    gain: u64,
    began_ns: u64,
    /// Earliest start of the next urgent search.
    retry_ns: u64,
}

#[derive(Debug, Default)]
enum RaidStage {
    #[default]
    Waiting,
    /// Give free blocks an empty header.
    Emptying,
    /// Mark tombstones, from this index entry on.
    Marking(u32),
    /// Wait until each volume has written its records up to this number.
    Writing(Vec<u64>),
    /// Next read: volume and block.
    Looking(usize, u32),
    /// Read in flight: volume, block, and the block's seed.
    Reading(usize, u32, u32),
    /// Examine the records of a block that was read: volume, block, contents, position.
    Walking(usize, u32, Buf, BlockWalk),
    /// Remove marked tombstones, from this index entry on.
    Removing(u32),
}

impl Store {
    /// Continues the search. Returns the time of the next step.
    pub(super) fn drive_tomb_raider(&mut self, disk: &mut impl StoreDisk) -> u64 {
        let now_ns = disk.now_ns();
        let period = self.raid_period_ns();
        if self.tomb_raider.next_ns == 0 {
            self.tomb_raider.next_ns = now_ns + period;
        }
        let is_waiting = matches!(self.tomb_raider.stage, RaidStage::Waiting);
        if is_waiting
            && self.is_short_of_memory()
            && now_ns >= self.tomb_raider.retry_ns
            && !self.is_draining
        {
            self.tomb_raider = TombRaider {
                is_urgent: true,
                began_ns: now_ns,
                next_ns: now_ns,
                ..TombRaider::default()
            };
        }
        // A periodic search becomes urgent when memory gets short.
        self.tomb_raider.is_urgent |= !is_waiting && self.is_short_of_memory();
        if now_ns < self.tomb_raider.next_ns {
            let is_short = is_waiting && !self.is_draining && self.is_short_of_memory();
            return self.tomb_raider.next_ns.min(if is_short {
                self.tomb_raider.retry_ns
            } else {
                u64::MAX
            });
        }
        let (stage, pause) = match std::mem::take(&mut self.tomb_raider.stage) {
            reading @ RaidStage::Reading(..) => {
                self.tomb_raider.stage = reading;
                return u64::MAX;
            }
            RaidStage::Walking(_, _, buf, _) if self.is_draining => {
                self.io.recycle(buf);
                (RaidStage::Waiting, period)
            }
            _ if self.is_draining => (RaidStage::Waiting, period),
            // An unreadable block may hold any version of a record.
            RaidStage::Waiting if self.volumes.iter().any(|volume| volume.blocks.has_bad()) => {
                (RaidStage::Waiting, period)
            }
            RaidStage::Waiting if self.tomb_raider.is_urgent => {
                self.volumes
                    .iter_mut()
                    .for_each(|volume| volume.blocks.begin_to_empty());
                (RaidStage::Emptying, 0)
            }
            RaidStage::Waiting => (RaidStage::Marking(0), 0),
            RaidStage::Emptying => {
                let are_empty = self
                    .volumes
                    .iter_mut()
                    .all(|volume| volume.blocks.empty_some());
                (
                    if are_empty {
                        RaidStage::Marking(0)
                    } else {
                        RaidStage::Emptying
                    },
                    PAUSE_NS,
                )
            }
            RaidStage::Marking(begin_number) => {
                let end_number = self.index.end().min(begin_number.saturating_add(TURN));
                (begin_number..end_number).for_each(|number| self.index.mark_tombstone(number));
                let stage = if end_number == self.index.end() {
                    let volumes = self.volumes.iter();
                    RaidStage::Writing(volumes.map(|volume| volume.blocks.appended).collect())
                } else {
                    RaidStage::Marking(end_number)
                };
                (stage, PAUSE_NS)
            }
            RaidStage::Writing(appended) => {
                let mut volumes = self.volumes.iter_mut().zip(&appended);
                let is_written = volumes.all(|(volume, appended)| {
                    volume.flush();
                    volume.durable() >= *appended
                });
                (
                    if is_written {
                        RaidStage::Looking(0, 0)
                    } else {
                        RaidStage::Writing(appended)
                    },
                    PAUSE_NS,
                )
            }
            RaidStage::Looking(number, block) => match self.volumes.get_mut(number) {
                None => (RaidStage::Removing(0), 0),
                Some(volume) if block >= volume.blocks.used => {
                    (RaidStage::Looking(number + 1, 0), 0)
                }
                Some(volume) if volume.blocks.get(block).is_empty => {
                    let end = volume.blocks.used.min(block.saturating_add(TURN));
                    let next = (block..end).find(|block| !volume.blocks.get(*block).is_empty);
                    (RaidStage::Looking(number, next.unwrap_or(end)), 0)
                }
                Some(volume) if !volume.is_certain(block) => {
                    volume.flush();
                    (RaidStage::Looking(number, block), PAUSE_NS)
                }
                Some(volume) => {
                    let bytes = volume.block_bytes;
                    let buf = if self.io.may_begin() {
                        self.io.buffer(bytes, disk)
                    } else {
                        None
                    };
                    let Some(buf) = buf else {
                        (self.tomb_raider.stage, self.tomb_raider.next_ns) =
                            (RaidStage::Looking(number, block), now_ns + PAUSE_NS);
                        return self.tomb_raider.next_ns;
                    };
                    self.tomb_raider.stage =
                        RaidStage::Reading(number, block, volume.blocks.get(block).seed);
                    let target = volume.space.target;
                    let bytes = volume.bytes_of(block..block + 1);
                    self.io
                        .submit(OpPurpose::Raid, (target, OpKind::Read), bytes, buf, disk);
                    return u64::MAX;
                }
            },
            RaidStage::Walking(number, block, buf, mut walk) => {
                let bytes = self.volumes[number].block_bytes;
                let mut is_over = false;
                let mut has_unmarked = false;
                for _ in 0..TURN {
                    match walk.next(&buf[..bytes]) {
                        BlockItem::Record(record, ..) if !record.is_tombstone => {
                            has_unmarked |= self.index.unmark(&record.digest, number as u8, block);
                        }
                        BlockItem::End(_) => {
                            is_over = true;
                            break;
                        }
                        _ => {}
                    }
                }
                if has_unmarked
                    && self.tomb_raider.is_urgent
                    && self.volumes[number].blocks.queue_used(block)
                {
                    self.tomb_raider.gain += 1;
                }
                if !is_over {
                    (RaidStage::Walking(number, block, buf, walk), 0)
                } else {
                    self.io.recycle(buf);
                    let sleep_us = if self.tomb_raider.is_urgent {
                        0
                    } else {
                        self.namespace.tomb_raider_sleep_us
                    };
                    (
                        RaidStage::Looking(number, block + 1),
                        u64::from(sleep_us) * 1_000,
                    )
                }
            }
            RaidStage::Removing(begin_number) => {
                let end_number = self.index.end().min(begin_number.saturating_add(TURN));
                for number in begin_number..end_number {
                    let Some(entry) = self
                        .index
                        .nth(number)
                        .filter(|entry| entry.is_marked())
                        .copied()
                    else {
                        continue;
                    };
                    let old = self.index.remove(&entry.digest);
                    self.volumes[usize::from(entry.location.volume)]
                        .blocks
                        .remove(entry.location.block, entry.location.units);
                    self.count(old.as_ref(), None);
                    self.statistics.raided += 1;
                    self.tomb_raider.gain += 1;
                }
                if end_number == self.index.end() {
                    (RaidStage::Waiting, period)
                } else {
                    (RaidStage::Removing(end_number), PAUSE_NS)
                }
            }
        };
        if matches!(stage, RaidStage::Waiting) {
            // Delay the next search if this search gained little: the next would gain little, too.
            let is_fruitless =
                self.tomb_raider.is_urgent && self.tomb_raider.gain * 64 <= self.index.len();
            let rest_ns = if is_fruitless {
                REST_NS.max(now_ns - self.tomb_raider.began_ns)
            } else {
                PAUSE_NS
            };
            self.tomb_raider = TombRaider {
                next_ns: now_ns + pause,
                retry_ns: now_ns + rest_ns,
                is_fruitless,
                ..TombRaider::default()
            };
        } else {
            (self.tomb_raider.stage, self.tomb_raider.next_ns) = (stage, now_ns + pause);
        }
        let begins_again = matches!(self.tomb_raider.stage, RaidStage::Waiting)
            && !self.is_draining
            && self.is_short_of_memory();
        self.tomb_raider.next_ns.min(if begins_again {
            self.tomb_raider.retry_ns
        } else {
            u64::MAX
        })
    }

    fn raid_period_ns(&self) -> u64 {
        match u64::from(self.namespace.tomb_raider_period_sec) * 1_000_000_000 {
            0 => u64::MAX / 4,
            period => period,
        }
    }

    /// True if little memory is left for the index, and more than 1/64 of its entries are tombstones.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.index.is_nearly_full() && self.statistics.tombstones * 64 > self.index.len()
    }

    pub(super) fn on_raided(&mut self, completion: Completion) {
        let RaidStage::Reading(number, block, seed) = std::mem::take(&mut self.tomb_raider.stage)
        else {
            return;
        };
        let volume = &self.volumes[number];
        if completion.outcome.is_done()
            && volume.is_certain(block)
            && volume.blocks.get(block).seed == seed
        {
            let walk = BlockWalk::new(volume.block_bytes, seed);
            self.tomb_raider.stage = RaidStage::Walking(number, block, completion.buf, walk);
            return;
        }
        self.io.recycle(completion.buf);
        if completion.outcome.is_done() {
            // The block was reused during the read.
            self.tomb_raider.stage = RaidStage::Looking(number, block);
        } else {
            self.volumes[number].counters.read_errors += 1;
            (self.tomb_raider.is_urgent, self.tomb_raider.is_fruitless) = (false, true);
            self.tomb_raider.retry_ns = self.tomb_raider.next_ns + REST_NS;
            self.tomb_raider.next_ns += self.raid_period_ns();
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Expiry {
    next_number: u32,
    next_ns: u64,
}

impl Store {
    /// Continues the search for expired records. Returns the time of the next step.
    pub(super) fn expire(&mut self, disk: &mut impl StoreDisk) -> u64 {
        let now_ns = disk.now_ns();
        let period = u64::from(self.namespace.nsup_period_sec);
        if period == 0 || self.is_draining {
            return u64::MAX;
        }
        if now_ns < self.expiry.next_ns {
            return self.expiry.next_ns;
        }
        let begin = self.expiry.next_number;
        let now_sec = self.now_sec(now_ns);
        let end = self.index.end().min(begin.saturating_add(TURN));
        let mut refused_number = None;
        for number in begin..end {
            let entry = self
                .index
                .nth(number)
                .filter(|entry| entry.is_expired(now_sec) && !entry.is_tombstone());
            let Some(entry) = entry.copied() else {
                continue;
            };
            let digest = entry.digest;
            if self.busy.contains_key(&digest) {
                continue;
            }
            // The tombstone's version is only one above the record's, because the other node, with its own clock, may
            // have a later write.
            let body = self.tombstone_body(&digest);
            let tombstone = tombstone(digest, entry.version + 1, entry.generation, &body);
            self.version = self.version.max(tombstone.version);
            if self
                .save(
                    NO_CLIENT,
                    &tombstone,
                    false,
                    Reply::with_result(ResultCode::OK),
                    now_ns,
                )
                .is_err()
            {
                refused_number = Some(number);
                break;
            }
            self.statistics.expired += 1;
        }
        self.expiry.next_number = refused_number.unwrap_or(end);
        self.expiry.next_ns = now_ns + PAUSE_NS;
        if end == self.index.end() && refused_number.is_none() {
            self.expiry = Expiry {
                next_number: 0,
                next_ns: now_ns + period * 1_000_000_000,
            };
        }
        self.expiry.next_ns
    }
}
