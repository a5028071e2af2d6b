//! One core's part of a namespace.
//!
//! ```text
//! execute -> what is asked needs the record? -> from memory, or a read of its device -> write -> volume, index -> reply
//! ```
//!
//! Writes of one record are done one after another: while one waits for the record's old bytes, the others wait for it. Reads
//! go on, and see what is in the index when they begin. A block may be used again while a read of it is under way; the record's
//! checksum shows that, and the index where it is now.
//!
//! * `scan`: the cold start; `collect`: defragmentation, and tombstones; `expire`: records whose time is over

mod collect;
mod expire;
mod scan;
#[cfg(test)]
mod tests;

use crate::bins;
use crate::index::{Entry, Index, Place};
use crate::io::{Io, Pending, TOKENS_MIN, read_range};
use crate::namespace::Statistics;
use crate::ops;
use crate::record::{KEY_BYTES_MAX, Record, SET_BYTES_MAX, UNIT};
use crate::volume::Volume;
use crate::{
    Delete, Digest, Disk, Exists, Generation, Namespace, Reply, ResultCode, Space, Transaction, Ttl, Work, Write,
};
use collect::Collector;
use expire::Expiry;
use scan::Scan;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use sys::op::{Completion, OpKind};
use sys::random::Random;

/// Seconds from 1970 to 2010, where the protocol's times begin.
const EPOCH_SEC: u64 = 1_262_304_000;

/// Longest time to live, seconds: ten years, as the server has it.
const TTL_MAX_SEC: u32 = 10 * 365 * 86_400;

/// Writes that wait for another of the same record (`transaction-pending-limit`).
const PENDING_MAX: usize = 20;

/// Lines for the log that are kept.
const REMARKS_MAX: usize = 100;

/// Reads of records of one device at once for which [`Store::needs`] has room.
const READS: usize = 256;

/// Number of a transaction that nobody waits for.
const NOBODY: u64 = u64::MAX;

/// How far another node's clock may be ahead, us.
const AHEAD_US: u64 = 86_400_000_000;

/// The records of a namespace whose partitions one core owns.
#[derive(Debug)]
pub struct Store {
    namespace: Namespace,
    /// Time since 1970 at instant 0 of the disk's clock.
    wall_us: u64,
    index: Index,
    volumes: Vec<Volume>,
    io: Io,
    /// Of the last write.
    version: u64,
    /// Records of which a write waits for the old bytes, and the writes that wait for it.
    busy: HashMap<Digest, VecDeque<(u64, Transaction)>>,
    /// Those that wait for a number or a buffer.
    waiting: VecDeque<(u64, Transaction)>,
    scan: Option<Scan>,
    collectors: Vec<Collector>,
    expiry: Expiry,
    /// No further block is collected, because all is to be written.
    draining: bool,
    statistics: Statistics,
    remarks: VecDeque<String>,
    scratch: Vec<u8>,
}

/// What a client is answered now; nothing if that is when the record is on the device.
type Answer = Result<Option<Reply>, ResultCode>;

/// What a transaction comes to before the record's bytes are seen.
enum Step {
    Reply(Reply),
    /// It needs them.
    Needs(Place),
    /// It does not.
    Go,
}

impl Store {
    /// A store of `namespace` on `spaces`, whose operations have the numbers `tokens`. It begins by reading what is there;
    /// `wall_ms` is the time since 1970 at instant 0 of the disk's clock, `seed` that of its choices, another one for each
    /// opening. Its buffers come from the disk and stay with it, see [`Self::needs`].
    ///
    /// Errors: a space or settings that cannot be, a sentence.
    pub fn open(
        namespace: &Namespace,
        spaces: &[Space],
        tokens: Range<u32>,
        wall_ms: u64,
        seed: u64,
        disk: &mut impl Disk,
    ) -> Result<Self, String> {
        let block_bytes = namespace.write_block_bytes;
        if !block_bytes.is_power_of_two() || !(32 << 10..=8 << 20).contains(&block_bytes) {
            return Err(format!("a write block of {block_bytes} bytes - give a power of two from 32 KiB to 8 MiB"));
        }
        if spaces.is_empty() || spaces.len() > 128 {
            return Err(format!("{} devices - give 1 to 128", spaces.len()));
        }
        if tokens.len() < TOKENS_MIN as usize {
            return Err(format!("{} operations in flight - give at least {TOKENS_MIN}", tokens.len()));
        }
        if let Some(space) = spaces.iter().find(|space| {
            (space.range.end - space.range.start) / u64::from(block_bytes) < 8
                || !space.range.start.is_multiple_of(u64::from(space.min_io_bytes.max(512)))
        }) {
            return Err(format!(
                "device {} has less than eight write blocks, or they begin within a sector",
                space.target
            ));
        }
        let wall_us = wall_ms * 1_000;
        let opening = Random::new(seed ^ (wall_us + disk.now() / 1_000).rotate_left(32)).next_u64();
        let volumes = spaces.iter().enumerate();
        let volumes: Vec<_> =
            volumes.map(|(number, space)| Volume::new(number as u8, space, namespace, opening)).collect();
        let mut store = Self {
            index: Index::new(namespace.memory_bytes, seed),
            io: Io::new(tokens),
            version: 0,
            busy: HashMap::new(),
            waiting: VecDeque::new(),
            scan: Some(Scan::new(volumes.len())),
            collectors: volumes.iter().map(|_| Collector::default()).collect(),
            expiry: Expiry::default(),
            draining: false,
            statistics: Statistics::default(),
            remarks: VecDeque::new(),
            scratch: Vec::new(),
            namespace: namespace.clone(),
            wall_us,
            volumes,
        };
        let Some(buf) = store.io.buffer(block_bytes as usize, disk) else {
            return Err(format!("no memory for a buffer of {block_bytes} bytes"));
        };
        store.io.recycle(buf);
        store.drive_scan(disk);
        Ok(store)
    }

    /// How many operations a store of `namespace` on so many devices wants at once, and bytes of buffers.
    ///
    /// With fewer it works, and its reads wait for each other.
    pub fn needs(namespace: &Namespace, devices: usize) -> (u32, usize) {
        let block_bytes = namespace.write_block_bytes as usize;
        let reads = READS * devices;
        // Chunks of the cold start; writes and a block to collect; flushes of parts; reads of records of some kilobytes.
        let device = scan::DEPTH * scan::chunk_bytes(block_bytes) + 6 * block_bytes + (256 << 10);
        ((reads + 16 * devices) as u32, devices * device + reads * (16 << 10))
    }

    /// Whether all that was on the devices is indexed. Before, transactions must not come.
    pub fn is_ready(&self) -> bool {
        self.scan.is_none()
    }

    /// Takes a transaction. Its reply comes with its number, here or later.
    pub fn execute(
        &mut self,
        number: u64,
        transaction: Transaction,
        disk: &mut impl Disk,
        replies: &mut Vec<(u64, Reply)>,
    ) {
        self.draining = false;
        if self.scan.is_some() {
            return replies.push((number, Reply::of(ResultCode::UNAVAILABLE)));
        }
        let volume = self.volume_of(&transaction.digest);
        match if is_write(&transaction) { self.busy.get_mut(&transaction.digest) } else { None } {
            Some(queue) if queue.len() >= PENDING_MAX => replies.push((number, Reply::of(ResultCode::KEY_BUSY))),
            Some(queue) => queue.push_back((number, transaction)),
            None => self.begin(number, transaction, false, disk, replies),
        }
        if self.volumes[volume].has_queued() {
            self.volumes[volume].drive(&mut self.io, disk);
        }
    }

    /// The device of a record, as the server chooses it.
    fn volume_of(&self, digest: &Digest) -> usize {
        let word = u32::from_le_bytes([digest[8], digest[9], digest[10], digest[11]]);
        word as usize % self.volumes.len()
    }

    /// The time now, us since 1970.
    fn now_us(&self, now: u64) -> u64 {
        self.wall_us + now / 1_000
    }

    /// Seconds since 2010.
    fn now_sec(&self, now: u64) -> u32 {
        (self.now_us(now) / 1_000_000).saturating_sub(EPOCH_SEC) as u32
    }

    /// The record's entry, if there is a record.
    fn living(&self, digest: &Digest, now: u64) -> Option<Entry> {
        let is_over = |entry: &Entry| entry.void_time != 0 && entry.void_time <= self.now_sec(now);
        self.index.get(digest).filter(|entry| !entry.is_tombstone() && !is_over(entry)).copied()
    }

    /// Does a transaction, or has the record read that it needs. `held`: the record is busy with it already.
    fn begin(
        &mut self,
        number: u64,
        transaction: Transaction,
        held: bool,
        disk: &mut impl Disk,
        replies: &mut Vec<(u64, Reply)>,
    ) {
        let now = disk.now();
        let digest = transaction.digest;
        let entry = self.living(&digest, now);
        match self.step(&transaction, entry.as_ref()) {
            Step::Reply(reply) => replies.push((number, reply)),
            Step::Go => self.finish(number, &transaction, None, now, replies),
            Step::Needs(place) => {
                let volume = &self.volumes[usize::from(place.volume)];
                let Some(bytes) = volume.in_memory(place) else {
                    if !held && is_write(&transaction) {
                        self.busy.insert(digest, VecDeque::new());
                    }
                    return self.read(number, transaction, place, disk);
                };
                self.statistics.cache_reads += 1;
                let seed = volume.blocks.get(place.block).seed;
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                scratch.extend_from_slice(bytes);
                match Record::read(&scratch, seed) {
                    Some(record) => self.finish(number, &transaction, Some(&record), now, replies),
                    None => replies.push((number, Reply::of(ResultCode::SERVER_ERROR))),
                }
                self.scratch = scratch;
            }
        }
        if held {
            self.release(&digest, disk, replies);
        }
    }

    /// Lets the writes go on that waited for one of this record.
    fn release(&mut self, digest: &Digest, disk: &mut impl Disk, replies: &mut Vec<(u64, Reply)>) {
        let Some(mut queue) = self.busy.remove(digest) else { return };
        while let Some((number, transaction)) = queue.pop_front() {
            self.begin(number, transaction, false, disk, replies);
            if let Some(again) = self.busy.get_mut(digest) {
                *again = queue;
                return;
            }
        }
    }

    /// Begins to read a record, now or when there is room.
    fn read(&mut self, number: u64, transaction: Transaction, place: Place, disk: &mut impl Disk) {
        let volume = &self.volumes[usize::from(place.volume)];
        let (space, block) = (volume.space(), volume.blocks.get(place.block));
        let begin = volume.bytes_of(place.block..place.block + 1).start;
        let (bytes, skip) = read_range(begin, place, space.min_io_bytes.max(512).into());
        let (len, target, seed) = ((bytes.end - bytes.start) as usize, space.target, block.seed);
        let buf = if self.io.may_read() { self.io.buffer(len, disk) } else { None };
        let Some(buf) = buf else { return self.waiting.push_back((number, transaction)) };
        self.statistics.device_reads += 1;
        self.statistics.read_bytes.record(len as u64);
        let pending = Pending::Record { number, transaction, place, seed, skip };
        self.io.submit(pending, (target, OpKind::Read), bytes, buf, disk);
    }

    /// What a transaction comes to by what the index knows.
    fn step(&self, transaction: &Transaction, entry: Option<&Entry>) -> Step {
        let refuse = |code| Step::Reply(Reply::of(code));
        let found = |entry: &Entry| Reply {
            generation: entry.generation,
            void_time_sec: entry.void_time,
            ..Reply::of(ResultCode::OK)
        };
        let generation = entry.map_or(0, |entry| entry.generation);
        if transaction.set.len() > SET_BYTES_MAX {
            return refuse(ResultCode::PARAMETER);
        }
        match (&transaction.work, entry) {
            (Work::Exists | Work::ReadAll | Work::Read(_) | Work::Delete(_), None) => refuse(ResultCode::NOT_FOUND),
            (Work::Exists, Some(entry)) => Step::Reply(found(entry)),
            (Work::ReadAll | Work::Read(_), Some(entry)) => Step::Needs(entry.place),
            (Work::Delete(delete), Some(_)) if !allows(delete.generation, generation) => refuse(ResultCode::GENERATION),
            (Work::Delete(_) | Work::Image(_), _) => Step::Go,
            (Work::Write(write), entry) => {
                match (write.policy.exists, entry) {
                    (Exists::CreateOnly, Some(_)) => return refuse(ResultCode::EXISTS),
                    (Exists::UpdateOnly | Exists::ReplaceOnly, None) => return refuse(ResultCode::NOT_FOUND),
                    _ => {}
                }
                if !allows(write.policy.generation, generation) {
                    return refuse(ResultCode::GENERATION);
                }
                let is_too_long = matches!(write.policy.ttl, Ttl::Seconds(seconds) if seconds > TTL_MAX_SEC);
                if is_too_long || write.key.len() > KEY_BYTES_MAX {
                    return refuse(ResultCode::PARAMETER);
                }
                if let Some(code) = self.refusal(&transaction.digest) {
                    return refuse(code);
                }
                let keeps_key = |entry: &&Entry| entry.has_key() && write.key.is_empty();
                match entry.filter(|entry| !replaces(write) || keeps_key(entry)) {
                    Some(entry) => Step::Needs(entry.place),
                    None => Step::Go,
                }
            }
        }
    }

    /// Why no record can be written.
    fn refusal(&self, digest: &Digest) -> Option<ResultCode> {
        if self.stops_writes() || self.index.is_full() && self.index.get(digest).is_none() {
            return Some(ResultCode::OUT_OF_SPACE);
        }
        self.volumes[self.volume_of(digest)].is_overloaded().then_some(ResultCode::DEVICE_OVERLOAD)
    }

    /// Whether a device has too few free blocks.
    fn stops_writes(&self) -> bool {
        let min_pct = usize::from(self.namespace.min_avail_pct);
        self.volumes.iter().any(|volume| volume.blocks.free() * 100 < min_pct * volume.blocks.len())
    }

    /// Does a transaction that has what it needs.
    fn finish(
        &mut self,
        number: u64,
        transaction: &Transaction,
        record: Option<&Record<'_>>,
        now: u64,
        replies: &mut Vec<(u64, Reply)>,
    ) {
        let result = match &transaction.work {
            Work::ReadAll | Work::Read(_) => record.map_or(Err(ResultCode::SERVER_ERROR), |record| {
                read(&transaction.work, record, self.namespace.single_bin).map(Some)
            }),
            Work::Write(write) => self.put(number, transaction, write, record, now),
            Work::Delete(Delete { image, .. }) => {
                self.bury(number, &transaction.digest, *image, Reply::of(ResultCode::OK), now)
            }
            Work::Image(bytes) => self.take_over(number, &transaction.digest, bytes, now),
            Work::Exists => Err(ResultCode::SERVER_ERROR),
        };
        if let Some(reply) = result.unwrap_or_else(|code| Some(Reply::of(code))) {
            replies.push((number, reply));
        }
    }

    fn put(
        &mut self,
        number: u64,
        transaction: &Transaction,
        write: &Write,
        old: Option<&Record<'_>>,
        now: u64,
    ) -> Answer {
        let digest = transaction.digest;
        let entry = self.living(&digest, now);
        // Its time can have come while it was read.
        let old = old.filter(|_| entry.is_some());
        let bins = old.filter(|_| !replaces(write)).map_or(&[][..], |old| old.body);
        let applied = bins::apply(bins, &write.ops, self.namespace.single_bin, write.answers_each)?;
        let mut reply = Reply { bins: applied.replied, ops: applied.reply, ..Reply::of(ResultCode::OK) };
        if !applied.written {
            let entry = entry.ok_or(ResultCode::NOT_FOUND)?;
            (reply.generation, reply.void_time_sec) = (entry.generation, entry.void_time);
            return Ok(Some(reply));
        }
        if applied.bins.is_empty() {
            entry.ok_or(ResultCode::NOT_FOUND)?;
            return self.bury(number, &digest, write.image, reply, now);
        }
        let void_time = match (write.policy.ttl, &entry) {
            (Ttl::Never, _) => 0,
            (Ttl::Keep, Some(entry)) => entry.void_time,
            (Ttl::Seconds(seconds), _) => self.now_sec(now) + seconds,
            (Ttl::Default | Ttl::Keep, _) => match self.namespace.default_ttl_sec {
                0 => 0,
                seconds => self.now_sec(now).saturating_add(seconds),
            },
        };
        let known = |own: &'_ [u8], old: Option<&'_ [u8]>| {
            if own.is_empty() { old.unwrap_or(own).to_vec() } else { own.to_vec() }
        };
        let record = Record {
            digest,
            version: self.next_version(now),
            generation: entry.map_or(0, |entry| entry.generation).checked_add(1).unwrap_or(1),
            void_time,
            tombstone: false,
            set: &known(&transaction.set, old.map(|old| old.set)),
            key: &known(&write.key, old.map(|old| old.key)),
            body: &applied.bins,
        };
        self.save(number, &record, write.image, reply, now)
    }

    /// Writes a tombstone in the place of a record.
    fn bury(&mut self, number: u64, digest: &Digest, image: bool, reply: Reply, now: u64) -> Answer {
        let generation = self.index.get(digest).map_or(0, |entry| entry.generation);
        let body = self.tombstone_body(digest);
        let version = self.next_version(now);
        let tombstone = Record {
            digest: *digest,
            version,
            generation,
            void_time: 0,
            tombstone: true,
            set: b"",
            key: b"",
            body: &body,
        };
        self.save(number, &tombstone, image, reply, now)
    }

    /// The first write block that will hold nothing older of a record than a tombstone that is written now.
    fn tombstone_body(&self, digest: &Digest) -> [u8; 8] {
        (self.volumes[self.volume_of(digest)].sequence + 1).to_le_bytes()
    }

    /// Takes over what another node wrote, if it is newer than what is here.
    fn take_over(&mut self, number: u64, digest: &Digest, image: &[u8], now: u64) -> Answer {
        let record = Record::read(image, IMAGE_SEED).filter(|record| record.digest == *digest);
        let record = record.filter(|record| record.version <= self.now_us(now) + AHEAD_US);
        let record = record.ok_or(ResultCode::PARAMETER)?;
        let entry = self.index.get(digest);
        if entry.is_some_and(|entry| entry.version >= record.version) {
            return Ok(Some(Reply::of(ResultCode::OK)));
        }
        if let Some(code) = self.refusal(digest).filter(|_| !record.tombstone) {
            return Err(code);
        }
        self.version = self.version.max(record.version);
        let body = self.tombstone_body(digest);
        let record = if record.tombstone { Record { body: &body, ..record } } else { record };
        self.save(number, &record, false, Reply::of(ResultCode::OK), now)
    }

    /// Writes a record, and answers now or when it is on the device.
    fn save(&mut self, number: u64, record: &Record<'_>, image: bool, reply: Reply, now: u64) -> Answer {
        let volume = self.volume_of(&record.digest);
        let volume = &mut self.volumes[volume];
        let bytes = record.units() as usize * UNIT;
        if bytes > volume.record_bytes_max() {
            return Err(ResultCode::TOO_BIG);
        }
        let place = volume.append_record(record, now)?;
        let entry = Entry::new(record.digest, record.version, place, record.void_time, record.generation);
        let entry = entry.with(record.tombstone, !record.key.is_empty());
        let old = self.index.put(entry);
        if let Some(old) = old {
            volume.blocks.remove(old.place.block, old.place.units);
        }
        self.count(old.as_ref(), Some(&entry));
        self.statistics.write_bytes.record(bytes as u64);
        let image = image.then(|| {
            let mut bytes = vec![0; bytes];
            record.write(&mut bytes, IMAGE_SEED);
            bytes
        });
        let (generation, void_time_sec) = (record.generation, record.void_time);
        let reply = Reply { generation, void_time_sec, image, ..reply };
        if self.namespace.commit_to_device && number != NOBODY {
            self.volumes[usize::from(place.volume)].answer_when_durable(place, number, reply);
            return Ok(None);
        }
        Ok(Some(reply))
    }

    /// Keeps the numbers of records and tombstones.
    fn count(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        let of = |entry: Option<&Entry>, tombstone| u64::from(entry.is_some_and(|e| e.is_tombstone() == tombstone));
        self.statistics.objects = self.statistics.objects + of(new, false) - of(old, false);
        self.statistics.tombstones = self.statistics.tombstones + of(new, true) - of(old, true);
    }

    /// Strictly growing, and about the time.
    fn next_version(&mut self, now: u64) -> u64 {
        self.version = (self.version + 1).max(self.now_us(now));
        self.version
    }

    /// Brings back an operation of the store's numbers.
    pub fn on_completion(&mut self, done: Completion, disk: &mut impl Disk, replies: &mut Vec<(u64, Reply)>) {
        match self.io.take(done.token) {
            Some(Pending::Record { number, transaction, place, seed, skip }) => {
                self.on_record(number, transaction, (place, seed, skip), done, disk, replies);
                return self.resume(disk, replies);
            }
            Some(Pending::Write { volume, buffer }) => {
                let volume = &mut self.volumes[usize::from(volume)];
                let target = volume.space().target;
                if let Some(what) = volume.on_written(buffer, &done, replies) {
                    self.remark(format!("device {target}: {what}"));
                }
                self.io.recycle(done.buf);
            }
            Some(Pending::Collect { volume }) => self.on_block_read(volume.into(), done, disk),
            Some(Pending::Scan { volume, blocks, tries }) => self.on_scanned(volume.into(), blocks, tries, done),
            Some(Pending::Flush { volume, tries }) => self.on_scan_flushed(volume.into(), tries, &done, disk),
            None => {}
        }
        self.go_on(disk, replies);
    }

    fn on_record(
        &mut self,
        number: u64,
        transaction: Transaction,
        (place, seed, skip): (Place, u32, u32),
        done: Completion,
        disk: &mut impl Disk,
        replies: &mut Vec<(u64, Reply)>,
    ) {
        let counted = &mut self.volumes[usize::from(place.volume)].counted;
        counted.read_us.record((done.completed_ns - done.issued_ns) / 1_000);
        let digest = transaction.digest;
        let (from, len) = (skip as usize, place.units as usize * UNIT);
        let bytes = done.buf.get(from..from + len).filter(|_| done.outcome.is_done());
        let record = bytes.and_then(|bytes| Record::read(bytes, seed)).filter(|record| record.digest == digest);
        let held = is_write(&transaction);
        match record {
            Some(record) => self.finish(number, &transaction, Some(&record), disk.now(), replies),
            // It was moved or written meanwhile, and its block used again.
            None if self.index.get(&digest).is_none_or(|entry| entry.place != place) => {
                self.io.recycle(done.buf);
                return self.begin(number, transaction, held, disk, replies);
            }
            None => {
                let target = self.volumes[usize::from(place.volume)].space().target;
                if done.outcome.is_done() {
                    self.statistics.corrupted += 1;
                    self.remark(format!("device {target}: a record in write block {} is damaged", place.block));
                } else {
                    self.volumes[usize::from(place.volume)].counted.errors += 1;
                    self.remark(format!(
                        "device {target}: a record in write block {} could not be read - {}",
                        place.block, done.outcome
                    ));
                }
                replies.push((number, Reply::of(ResultCode::SERVER_ERROR)));
            }
        }
        self.io.recycle(done.buf);
        if held {
            self.release(&digest, disk, replies);
        }
    }

    /// Does what a completion made possible, and what is due. Tells when something will be due again.
    fn go_on(&mut self, disk: &mut impl Disk, replies: &mut Vec<(u64, Reply)>) -> u64 {
        if self.scan.is_some() {
            return self.drive_scan(disk);
        }
        let mut next = u64::MAX;
        for volume in 0..self.volumes.len() {
            next = next.min(self.collect(volume, disk));
            next = next.min(self.volumes[volume].drive(&mut self.io, disk));
        }
        self.resume(disk, replies);
        next
    }

    /// Begins what waited for a number or a buffer.
    fn resume(&mut self, disk: &mut impl Disk, replies: &mut Vec<(u64, Reply)>) {
        while self.io.may_read() {
            let (before, Some((number, transaction))) = (self.waiting.len(), self.waiting.pop_front()) else { break };
            let held = is_write(&transaction);
            self.begin(number, transaction, held, disk, replies);
            if self.waiting.len() >= before {
                break;
            }
        }
    }

    /// Lets it do what is due, and tells when it wants to be asked again, on the disk's clock, if nothing happens before.
    pub fn poll(&mut self, disk: &mut impl Disk, replies: &mut Vec<(u64, Reply)>) -> u64 {
        let next = self.go_on(disk, replies);
        if self.scan.is_some() {
            return next;
        }
        let (before, again) = (self.statistics.expired, self.expire(disk));
        if self.statistics.expired == before { next.min(again) } else { again.min(self.go_on(disk, replies)) }
    }

    /// Has it write what it has in memory, and collect nothing more until the next transaction; [`Self::is_idle`] when that
    /// is done.
    pub fn flush(&mut self, disk: &mut impl Disk) {
        self.draining = true;
        for volume in &mut self.volumes {
            volume.flush();
            volume.drive(&mut self.io, disk);
        }
    }

    /// Whether nothing is in flight and no buffer holds what is not on its device.
    pub fn is_idle(&self) -> bool {
        self.io.in_flight() == 0 && self.waiting.is_empty() && !self.volumes.iter().any(Volume::is_dirty)
    }

    fn remark(&mut self, line: String) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push_back(line);
        }
    }

    /// Takes one line of what the log should say, oldest first: what was damaged or failed.
    pub fn take_remark(&mut self) -> Option<String> {
        self.remarks.pop_front()
    }

    /// What it counted.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            devices: self.volumes.iter().map(Volume::statistics).collect(),
            stop_writes: self.stops_writes(),
            index_bytes: self.index.bytes(),
            ..self.statistics.clone()
        }
    }

    /// Counts again what is kept as running totals. Errors: what differs, a sentence.
    pub fn check(&self) -> Result<(), String> {
        let (mut live, mut counted) = (HashMap::new(), [0_u64; 2]);
        for entry in (0..self.index.end()).filter_map(|number| self.index.nth(number)) {
            *live.entry((entry.place.volume, entry.place.block)).or_insert(0) += entry.place.units;
            counted[usize::from(entry.is_tombstone())] += 1;
        }
        if counted != [self.statistics.objects, self.statistics.tombstones] {
            let Statistics { objects, tombstones, .. } = self.statistics;
            return Err(format!("{objects} records and {tombstones} tombstones were counted, {counted:?} are indexed"));
        }
        for (number, volume) in self.volumes.iter().enumerate() {
            volume.blocks.check(|block| live.get(&(number as u8, block)).copied().unwrap_or(0))?;
        }
        Ok(())
    }
}

/// With what the checksum of a record begins that goes to another node.
const IMAGE_SEED: u32 = 0;

fn is_write(transaction: &Transaction) -> bool {
    matches!(transaction.work, Work::Write(_) | Work::Delete(_) | Work::Image(_))
}

/// Whether bins that are not written are gone.
fn replaces(write: &Write) -> bool {
    matches!(write.policy.exists, Exists::CreateOrReplace | Exists::ReplaceOnly)
}

fn allows(condition: Generation, generation: u16) -> bool {
    match condition {
        Generation::Any => true,
        Generation::Equal(wanted) => generation == wanted,
        Generation::Less(given) => given > generation,
    }
}

/// Answers a read.
fn read(work: &Work, record: &Record<'_>, single_bin: bool) -> Result<Reply, ResultCode> {
    let reply = Reply { generation: record.generation, void_time_sec: record.void_time, ..Reply::of(ResultCode::OK) };
    match work {
        Work::Read(wanted) => {
            let applied = bins::apply(record.body, wanted, single_bin, false)?;
            if applied.written {
                return Err(ResultCode::PARAMETER);
            }
            Ok(Reply { bins: applied.replied, ops: applied.reply, ..reply })
        }
        _ => {
            // A peer or a device may have brought what is no bins.
            let (mut rest, mut bins) = (record.body, 0_u16);
            while !rest.is_empty() {
                ops::take(&mut rest).ok_or(ResultCode::SERVER_ERROR)?;
                bins = bins.checked_add(1).ok_or(ResultCode::SERVER_ERROR)?;
            }
            Ok(Reply { bins, ops: record.body.to_vec(), ..reply })
        }
    }
}
