//! The part of a namespace that belongs to one core.
//!
//! ```text
//! execute -> needs the record's bytes? -> from memory, or a read of its device -> write -> volume, index -> reply
//! ```
//!
//! Writes of one record are executed one after another: while a write reads the record's old bytes, later writes wait.
//! Reads do not wait; each uses the current index entry. If a block is reused during a read, the record's checksum is
//! wrong, and the index has the new position.
//!
//! * `transact`: execution of transactions; `scan`: the cold start; `damage`: unreadable data that a cold start finds
//! * `collect`: defragmentation. Also removes tombstones that hide nothing
//! * `raid`: the tomb raider, which removes unneeded tombstones, and the removal of expired records

mod collect;
mod damage;
mod raid;
mod scan;
#[cfg(test)]
mod tests;
mod transact;

use crate::index::{Index, IndexEntry, RecordLocation};
use crate::io::{Io, OpPurpose, TOKENS_MIN, read_range};
use crate::namespace::StoreStatistics;
use crate::record::{Record, UNIT};
use crate::volume::Volume;
use crate::{
    Digest, IoCounts, Losses, NamespaceSettings, Note, RecordOp, Replies, Reply, ResultCode,
    StoreDisk, StoreSpace, Transaction, Version,
};
use collect::BlockCollector;
use raid::{Expiry, TombRaider};
use scan::ColdStart;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use sys::op::{Completion, OpKind, TargetId};
use sys::random::Random;
use transact::{FirstStep, replaces};

/// Seconds from 1970 to 2010, where the protocol's times begin.
pub(crate) const EPOCH_SEC: u64 = 1_262_304_000;

/// Maximum number of writes that wait for another write of the same record (`transaction-pending-limit`).
const PENDING_MAX: usize = 20;

/// Maximum number of writes that wait for space or memory. Further writes are refused.
const DEFERRED_MAX: usize = 10_000;

/// How long a write may wait for space or memory, nanoseconds.
const DEFERRED_NS: u64 = 1_000_000_000;

/// Maximum number of pending log lines.
const REMARKS_MAX: usize = 100;

/// Number of record reads in flight for which [`Store::needs`] reserves resources, per device.
const READS: usize = 256;

/// Number of a transaction without a client.
const NO_CLIENT: u64 = u64::MAX;

type NumberedTransaction = (u64, Transaction);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub device: Option<TargetId>,
    pub text: String,
}

/// The records in the partitions of a namespace that belong to one core.
#[derive(Debug)]
pub struct Store {
    namespace: NamespaceSettings,
    /// Time since 1970 when the disk's clock showed 0, us.
    wall_us: u64,
    index: Index,
    volumes: Vec<Volume>,
    io: Io,
    /// Version of the last write.
    version: u64,
    /// For each record whose old bytes a write is reading: the later writes of the record, which wait.
    busy: HashMap<Digest, VecDeque<NumberedTransaction>>,
    /// Transactions waiting for an operation number or a buffer.
    waiting: VecDeque<NumberedTransaction>,
    /// Writes that wait until space or memory is reclaimed: start of the wait (ns), number and transaction.
    deferred: VecDeque<(u64, u64, Transaction)>,
    scan: Option<ColdStart>,
    collectors: Vec<BlockCollector>,
    expiry: Expiry,
    tomb_raider: TombRaider,
    /// True while all buffers are being written: no further block is collected.
    is_draining: bool,
    statistics: StoreStatistics,
    remarks: VecDeque<Remark>,
    scratch: Vec<u8>,
}

impl Store {
    /// Opens a store of `namespace` on `spaces`, and starts to read the existing records. The store takes its buffers
    /// from `disk` and keeps them, see [`Self::needs`].
    ///
    /// `tokens`: numbers for the store's operations; `wall_ms`: time since 1970 when the disk's clock showed 0;
    /// `seed`: seed of random choices, different for each opening.
    pub fn open(
        namespace: &NamespaceSettings,
        spaces: &[StoreSpace],
        tokens: Range<u32>,
        wall_ms: u64,
        seed: u64,
        disk: &mut impl StoreDisk,
    ) -> Result<Self, String> {
        let block_bytes = namespace.write_block_bytes;
        if !block_bytes.is_power_of_two() || !(32 << 10..=8 << 20).contains(&block_bytes) {
            return Err(format!(
                "write-block-size is {block_bytes} bytes - give a power of two from 32 KiB to 8 MiB"
            ));
        }
        if spaces.is_empty() || spaces.len() > 128 {
            return Err(format!(
                "the namespace has {} devices - give 1 to 128",
                spaces.len()
            ));
        }
        if tokens.len() < TOKENS_MIN as usize {
            return Err(format!(
                "at most {} operations may be in flight - allow at least {TOKENS_MIN}",
                tokens.len()
            ));
        }
        if let Some(space) = spaces.iter().find(|space| {
            (space.range.end - space.range.start) / u64::from(block_bytes) < 8
                || !space
                    .range
                    .start
                    .is_multiple_of(u64::from(space.write_unit_bytes.max(space.min_io_bytes)))
        }) {
            return Err(format!(
                "the space on device number {} has fewer than 8 write blocks or is not aligned to the write unit",
                space.target
            ));
        }
        let wall_us = wall_ms * 1_000;
        let opening =
            Random::new(seed ^ (wall_us + disk.now_ns() / 1_000).rotate_left(32)).next_u64();
        let volumes = spaces.iter().enumerate();
        let volumes: Vec<_> = volumes
            .map(|(number, space)| Volume::new(number as u8, space, namespace, opening))
            .collect();
        let mut store = Self {
            index: Index::new(namespace.memory_bytes, seed),
            io: Io::new(tokens),
            version: 0,
            busy: HashMap::new(),
            waiting: VecDeque::new(),
            deferred: VecDeque::new(),
            scan: Some(ColdStart::new(volumes.len())),
            collectors: volumes.iter().map(|_| BlockCollector::default()).collect(),
            expiry: Expiry::default(),
            tomb_raider: TombRaider::default(),
            is_draining: false,
            statistics: StoreStatistics::default(),
            remarks: VecDeque::new(),
            scratch: Vec::new(),
            namespace: namespace.clone(),
            wall_us,
            volumes,
        };
        let Some(buf) = store.io.buffer(block_bytes as usize, disk) else {
            return Err(format!(
                "the engine has no memory for a buffer of {block_bytes} bytes"
            ));
        };
        store.io.recycle(buf);
        store.drive_scan(disk);
        Ok(store)
    }

    /// Number of operations in flight, and bytes of buffers, that a store of `namespace` on `devices` devices uses.
    /// With less, its reads wait for each other.
    pub fn needs(namespace: &NamespaceSettings, devices: usize) -> (u32, usize) {
        let block_bytes = namespace.write_block_bytes as usize;
        let reads = READS * devices;
        // Each device needs memory for chunks of the cold start, for writes, for a block to collect, for a block to
        // search for tombstones, and for partly filled buffers. Each read needs memory for a record of some kilobytes.
        let device = scan::DEPTH * scan::chunk_bytes(block_bytes) + 7 * block_bytes + (256 << 10);
        (
            (reads + 16 * devices) as u32,
            devices * device + reads * (16 << 10),
        )
    }

    pub fn count_into(&mut self, counts: Arc<IoCounts>) {
        self.io.counts = counts;
    }

    /// True if all records on the devices are indexed. Transactions are allowed only then.
    pub fn is_ready(&self) -> bool {
        self.scan.is_none()
    }

    /// Prefetches the index entries of transactions that are executed next.
    pub(crate) fn warm<'a>(&self, digests: impl ExactSizeIterator<Item = &'a Digest>) {
        if digests.len() > 1 {
            self.index.warm(digests, 0);
        }
    }

    /// Executes a transaction. The reply has the transaction's number, and may come in a later call.
    pub fn execute(
        &mut self,
        number: u64,
        transaction: Transaction,
        disk: &mut impl StoreDisk,
        replies: &mut Replies,
    ) {
        self.is_draining = false;
        if self.scan.is_some() {
            return replies.push((number, Reply::with_result(ResultCode::UNAVAILABLE)));
        }
        let volume = self.volume_of(&transaction.digest);
        self.dispatch(number, transaction, disk, replies);
        if !self.volumes[volume].queue.is_empty() {
            self.volumes[volume].drive(&mut self.io, disk);
        }
    }

    /// Begins a transaction. A write waits for earlier writes of its record.
    fn dispatch(
        &mut self,
        number: u64,
        transaction: Transaction,
        disk: &mut impl StoreDisk,
        replies: &mut Replies,
    ) {
        match if is_write(&transaction) {
            self.busy.get_mut(&transaction.digest)
        } else {
            None
        } {
            Some(queue) if queue.len() >= PENDING_MAX => {
                replies.push((number, Reply::with_result(ResultCode::KEY_BUSY)))
            }
            Some(queue) => queue.push_back((number, transaction)),
            None => self.begin((number, transaction), false, disk, replies),
        }
    }

    /// The device of a record, chosen as in the real server.
    fn volume_of(&self, digest: &Digest) -> usize {
        let word = u32::from_le_bytes([digest[8], digest[9], digest[10], digest[11]]);
        word as usize % self.volumes.len()
    }

    fn now_us(&self, now_ns: u64) -> u64 {
        self.wall_us + now_ns / 1_000
    }

    /// Current time, seconds since 2010.
    fn now_sec(&self, now_ns: u64) -> u32 {
        (self.now_us(now_ns) / 1_000_000).saturating_sub(EPOCH_SEC) as u32
    }

    /// The record's index entry, if the record exists and has not expired.
    fn living(&self, digest: &Digest, now_ns: u64) -> Option<IndexEntry> {
        self.index
            .get(digest)
            .filter(|entry| !entry.is_tombstone() && !entry.is_expired(self.now_sec(now_ns)))
            .copied()
    }

    /// Executes a transaction, or starts the read that the transaction needs. `holds_key`: `busy` has an entry
    /// because of this transaction.
    fn begin(
        &mut self,
        (number, transaction): NumberedTransaction,
        holds_key: bool,
        disk: &mut impl StoreDisk,
        replies: &mut Replies,
    ) {
        let now_ns = disk.now_ns();
        let digest = transaction.digest;
        let entry = self.living(&digest, now_ns);
        match self.step(&transaction, entry.as_ref()) {
            FirstStep::Reply(reply) => replies.push((number, reply)),
            FirstStep::Defer => self.deferred.push_back((now_ns, number, transaction)),
            FirstStep::Execute => self.finish(number, &transaction, None, now_ns, replies),
            FirstStep::ReadRecord(location) => {
                let volume = &self.volumes[usize::from(location.volume)];
                let Some(bytes) = volume.in_memory(location) else {
                    if !holds_key && is_write(&transaction) {
                        self.busy.insert(digest, VecDeque::new());
                    }
                    return self.read(number, transaction, location, disk);
                };
                self.statistics.cache_reads += 1;
                let seed = volume.seed_of(location);
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                scratch.extend_from_slice(bytes);
                match Record::read(&scratch, seed) {
                    Some(record) => {
                        self.finish(number, &transaction, Some(&record), now_ns, replies)
                    }
                    None => replies.push((number, Reply::with_result(ResultCode::SERVER_ERROR))),
                }
                self.scratch = scratch;
            }
        }
        if holds_key {
            self.release(&digest, disk, replies);
        }
    }

    /// Continues the writes that waited for a write of this record.
    fn release(&mut self, digest: &Digest, disk: &mut impl StoreDisk, replies: &mut Replies) {
        let Some(mut queue) = self.busy.remove(digest) else {
            return;
        };
        while let Some(next) = queue.pop_front() {
            self.begin(next, false, disk, replies);
            if let Some(new_queue) = self.busy.get_mut(digest) {
                *new_queue = queue;
                return;
            }
        }
    }

    /// Starts to read a record, or queues the transaction until an operation number and a buffer are free.
    fn read(
        &mut self,
        number: u64,
        transaction: Transaction,
        location: RecordLocation,
        disk: &mut impl StoreDisk,
    ) {
        let volume = &self.volumes[usize::from(location.volume)];
        let space = &volume.space;
        let begin = volume.bytes_of(location.block..location.block + 1).start;
        let (bytes, skip) = read_range(begin, location, space.min_io_bytes.max(512).into());
        let len = (bytes.end - bytes.start) as usize;
        let target = space.target;
        let seed = volume.seed_of(location);
        let buf = if self.io.may_read() {
            self.io.buffer(len, disk)
        } else {
            None
        };
        let Some(buf) = buf else {
            return self.waiting.push_back((number, transaction));
        };
        self.statistics.device_reads += 1;
        self.statistics.read_bytes.record(len as u64);
        let purpose = OpPurpose::Record {
            number,
            transaction,
            location,
            seed,
            skip,
        };
        self.io
            .submit(purpose, (target, OpKind::Read), bytes, buf, disk);
    }

    fn stops_writes(&self) -> bool {
        let min_pct = usize::from(self.namespace.min_avail_pct);
        self.volumes
            .iter()
            .any(|volume| volume.blocks.free() * 100 < min_pct * volume.blocks.len())
    }

    pub fn on_completion(
        &mut self,
        completion: Completion,
        disk: &mut impl StoreDisk,
        replies: &mut Replies,
    ) {
        match self.io.take(&completion) {
            Some(OpPurpose::Record {
                number,
                transaction,
                location,
                seed,
                skip,
            }) => {
                self.on_record(
                    number,
                    transaction,
                    (location, seed, skip),
                    completion,
                    disk,
                    replies,
                );
                return self.resume(disk, replies);
            }
            Some(OpPurpose::Write { volume, buffer }) => {
                if let Some(text) =
                    self.volumes[usize::from(volume)].on_written(buffer, &completion, replies)
                {
                    self.remark(Some(volume.into()), text);
                }
                self.io.recycle(completion.buf);
            }
            Some(OpPurpose::Collect { volume }) => {
                self.on_block_read(volume.into(), completion, disk)
            }
            Some(OpPurpose::Scan {
                volume,
                blocks,
                tries,
            }) => self.on_scanned(volume.into(), blocks, tries, completion),
            Some(OpPurpose::Raid) => self.on_raided(completion),
            Some(OpPurpose::Marks { volume, tries }) => {
                self.on_marks(volume.into(), tries, completion, disk)
            }
            Some(OpPurpose::Mark { volume }) => {
                if let Some(text) = self.volumes[usize::from(volume)].on_marked(&completion) {
                    self.remark(Some(volume.into()), text);
                }
                self.io.recycle(completion.buf);
            }
            Some(OpPurpose::Flush { volume, tries }) => {
                self.on_scan_flushed(volume.into(), tries, &completion, disk)
            }
            None => {}
        }
        self.do_due_work(disk, replies);
    }

    fn on_record(
        &mut self,
        number: u64,
        transaction: Transaction,
        (location, seed, skip): (RecordLocation, u32, u32),
        completion: Completion,
        disk: &mut impl StoreDisk,
        replies: &mut Replies,
    ) {
        let counters = &mut self.volumes[usize::from(location.volume)].counters;
        counters
            .read_us
            .record((completion.completed_ns - completion.issued_ns) / 1_000);
        let digest = transaction.digest;
        let offset = skip as usize;
        let len = location.units as usize * UNIT;
        let bytes = completion
            .buf
            .get(offset..offset + len)
            .filter(|_| completion.outcome.is_done());
        let record = bytes
            .and_then(|bytes| Record::read(bytes, seed))
            .filter(|record| record.digest == digest);
        let holds_key = is_write(&transaction);
        match record {
            Some(record) => {
                self.finish(number, &transaction, Some(&record), disk.now_ns(), replies)
            }
            // The record was moved or written during the read, and its old block was reused: begin again.
            None if self
                .index
                .get(&digest)
                .is_none_or(|entry| entry.location != location) =>
            {
                self.io.recycle(completion.buf);
                return self.begin((number, transaction), holds_key, disk, replies);
            }
            None => {
                let volume = usize::from(location.volume);
                let outcome = completion.outcome;
                let why = if outcome.is_done() {
                    self.statistics.corrupted += 1;
                    "is damaged: its checksum is wrong".to_owned()
                } else {
                    self.volumes[volume].counters.read_errors += 1;
                    format!("could not be read - {outcome}")
                };
                self.remark(
                    Some(volume),
                    format!("a record in write block {} {why}", location.block),
                );
                match &transaction.record_op {
                    // A replacement needs only the key of the old record: continue without the damaged record.
                    RecordOp::Write(write) if replaces(write) => {
                        self.finish(number, &transaction, None, disk.now_ns(), replies);
                    }
                    _ => replies.push((number, Reply::with_result(ResultCode::SERVER_ERROR))),
                }
            }
        }
        self.io.recycle(completion.buf);
        if holds_key {
            self.release(&digest, disk, replies);
        }
    }

    fn do_due_work(&mut self, disk: &mut impl StoreDisk, replies: &mut Replies) -> u64 {
        if self.scan.is_some() {
            return self.drive_scan(disk);
        }
        let mut next_ns = self.drive_tomb_raider(disk);
        next_ns = next_ns.min(self.begin_deferred(disk, replies));
        for volume in 0..self.volumes.len() {
            next_ns = next_ns.min(self.collect(volume, disk));
            next_ns = next_ns.min(self.volumes[volume].drive(&mut self.io, disk));
        }
        self.resume(disk, replies);
        next_ns
    }

    /// Begins writes that waited for space or memory; refuses those that waited too long. Returns the next call's time.
    fn begin_deferred(&mut self, disk: &mut impl StoreDisk, replies: &mut Replies) -> u64 {
        if self.deferred.is_empty() {
            return u64::MAX;
        }
        let now_ns = disk.now_ns();
        while let Some((since_ns, number, transaction)) = self.deferred.pop_front() {
            if now_ns >= since_ns + DEFERRED_NS || self.is_draining {
                replies.push((number, Reply::with_result(ResultCode::DEVICE_OVERLOAD)));
                continue;
            }
            let deferred_count = self.deferred.len();
            self.dispatch(number, transaction, disk, replies);
            if self.deferred.len() > deferred_count {
                // The write was deferred again. Put it back to the front of the queue, with its original time.
                if let Some((_, number, transaction)) = self.deferred.pop_back() {
                    self.deferred.push_front((since_ns, number, transaction));
                }
                return since_ns + DEFERRED_NS;
            }
        }
        u64::MAX
    }

    /// True if memory is short and deleted records may still free memory.
    fn is_reclaiming(&self) -> bool {
        self.is_short_of_memory() && !self.tomb_raider.is_fruitless
    }

    fn may_defer(&self) -> bool {
        !self.is_draining && self.deferred.len() < DEFERRED_MAX
    }

    fn resume(&mut self, disk: &mut impl StoreDisk, replies: &mut Replies) {
        while self.io.may_read() {
            let waiting_before = self.waiting.len();
            let Some((number, transaction)) = self.waiting.pop_front() else {
                break;
            };
            let holds_key = is_write(&transaction);
            self.begin((number, transaction), holds_key, disk, replies);
            if self.waiting.len() >= waiting_before {
                break;
            }
        }
    }

    /// Does due work. Returns the time of the next call on the disk's clock, if no other method is called before.
    pub fn poll(&mut self, disk: &mut impl StoreDisk, replies: &mut Replies) -> u64 {
        let next_ns = self.do_due_work(disk, replies);
        if self.scan.is_some() {
            return next_ns;
        }
        let expired_before = self.statistics.expired;
        let expiry_ns = self.expire(disk);
        if self.statistics.expired == expired_before {
            next_ns.min(expiry_ns)
        } else {
            expiry_ns.min(self.do_due_work(disk, replies))
        }
    }

    /// Writes all buffers, and stops defragmentation until the next transaction; then [`Self::is_idle`] is true.
    pub fn flush(&mut self, disk: &mut impl StoreDisk) {
        if self.scan.is_some() {
            // During its cold start a store has written nothing, and does not know yet which data is durable.
            return;
        }
        self.is_draining = true;
        for volume in &mut self.volumes {
            volume.finish();
            volume.drive(&mut self.io, disk);
        }
    }

    /// The note of the store's owner that the cold start found. Errors: the marks that may have held a note are lost.
    pub(crate) fn note(&self) -> Result<Note, ()> {
        let notes = self.volumes.iter().map(Volume::note);
        let newest = notes
            .clone()
            .flatten()
            .max_by_key(|note| note.number)
            .unwrap_or_default();
        if newest.number == 0 && notes.flatten().count() < self.volumes.len() {
            Err(())
        } else {
            Ok(newest)
        }
    }

    /// Starts to write a note to all devices, in place of the previous note.
    pub(crate) fn set_note(&mut self, note: Note, disk: &mut impl StoreDisk) {
        for volume in &mut self.volumes {
            volume.set_note(note);
            volume.drive(&mut self.io, disk);
        }
    }

    /// True once all devices have the note. Errors: the marks of a device cannot be written.
    pub(crate) fn is_noted(&self) -> Result<bool, ()> {
        self.volumes
            .iter()
            .try_fold(true, |noted, volume| Ok(noted && volume.is_noted()?))
    }

    /// A device whose writes fail again and again, so that new writes are refused.
    pub(crate) fn failing_device(&self) -> Option<TargetId> {
        self.volumes
            .iter()
            .find(|volume| volume.is_failing)
            .map(|volume| volume.space.target)
    }

    /// True if nothing is in flight and all buffers are on the device.
    pub fn is_idle(&self) -> bool {
        self.io.in_flight() == 0
            && self.waiting.is_empty()
            && self.deferred.is_empty()
            && self.volumes.iter().all(Volume::is_at_rest)
    }

    fn remark(&mut self, volume: Option<usize>, text: String) {
        if self.remarks.len() < REMARKS_MAX {
            let device = volume.map(|volume| self.volumes[volume].space.target);
            self.remarks.push_back(Remark { device, text });
        }
    }

    /// Takes the oldest pending log line, which is about damage or a failure.
    pub fn take_remark(&mut self) -> Option<Remark> {
        self.remarks.pop_front()
    }

    /// The record or tombstone with this number, if there is one. All numbers are below [`Self::end`] and never change.
    pub(crate) fn nth(&self, number: u32) -> Option<(Digest, Version)> {
        let entry = self.index.nth(number)?;
        Some((
            entry.digest,
            Version {
                number: entry.version,
                is_tombstone: entry.is_tombstone(),
            },
        ))
    }

    pub(crate) fn end(&self) -> u32 {
        self.index.end()
    }

    pub fn statistics(&self) -> StoreStatistics {
        let mut losses = Losses::default();
        self.volumes
            .iter()
            .for_each(|volume| losses += volume.losses());
        StoreStatistics {
            devices: self.volumes.iter().map(Volume::statistics).collect(),
            stop_writes: self.stops_writes() || self.index.is_full() && !self.is_reclaiming(),
            hwm_breached: self.index.is_nearly_full()
                || self.volumes.iter().any(Volume::is_short_of_blocks),
            index_bytes: self.index.bytes(),
            damage: self.damage().unwrap_or_default(),
            losses,
            ..self.statistics.clone()
        }
    }

    /// Compares the running totals with a recount. Errors: the difference.
    pub fn check(&self) -> Result<(), String> {
        let mut live = HashMap::new();
        let mut counted = [0_u64; 2];
        for entry in (0..self.index.end()).filter_map(|number| self.index.nth(number)) {
            *live
                .entry((entry.location.volume, entry.location.block))
                .or_insert(0) += entry.location.units;
            counted[usize::from(entry.is_tombstone())] += 1;
        }
        if counted != [self.statistics.objects, self.statistics.tombstones] {
            let StoreStatistics {
                objects,
                tombstones,
                ..
            } = self.statistics;
            return Err(format!(
                "{objects} records and {tombstones} tombstones are counted, but {counted:?} are indexed"
            ));
        }
        for (number, volume) in self.volumes.iter().enumerate() {
            volume
                .blocks
                .check(|block| live.get(&(number as u8, block)).copied().unwrap_or(0))?;
        }
        Ok(())
    }
}

fn is_write(transaction: &Transaction) -> bool {
    matches!(
        transaction.record_op,
        RecordOp::Write(_) | RecordOp::Delete(_) | RecordOp::Image(_) | RecordOp::Compare(_)
    )
}
