//! Executes a transaction, first with the index entry alone, then with the record's bytes if they are needed.

use super::{NO_CLIENT, Store};
use crate::index::{IndexEntry, RecordLocation};
use crate::record::{KEY_BYTES_MAX, Record, SET_BYTES_MAX, UNIT};
use crate::{
    Delete, Digest, Exists, Generation, RecordOp, Replies, Reply, ResultCode, Transaction, Ttl,
    Version, Write, ops,
};
use std::cmp::Ordering;

/// Longest time to live, seconds: ten years, as in the server.
const TTL_MAX_SEC: u32 = 10 * 365 * 86_400;

/// Maximum clock difference to another node, us: one day.
const AHEAD_US: u64 = 86_400_000_000;

/// Start value of the checksum of records sent to another node.
const IMAGE_SEED: u32 = 0;

/// Immediate reply to a client; `None` if the reply is due when the record is on the device.
pub(super) type ImmediateReply = Result<Option<Reply>, ResultCode>;

/// Outcome of a transaction's first step, which uses only the index.
pub(super) enum FirstStep {
    Reply(Reply),
    /// Memory is full and is being reclaimed.
    Defer,
    ReadRecord(RecordLocation),
    /// The record's bytes are not needed.
    Execute,
}

impl Store {
    pub(super) fn step(&self, transaction: &Transaction, entry: Option<&IndexEntry>) -> FirstStep {
        let refuse = |code| FirstStep::Reply(Reply::with_result(code));
        // As in the real server, a deletion finds an expired record that is still in the index.
        let entry = match transaction.record_op {
            RecordOp::Delete(_) => self
                .index
                .get(&transaction.digest)
                .filter(|entry| !entry.is_tombstone()),
            _ => entry,
        };
        let generation = entry.map_or(0, |entry| entry.generation);
        if transaction.set.len() > SET_BYTES_MAX {
            return refuse(ResultCode::PARAMETER);
        }
        match (&transaction.record_op, entry) {
            (
                RecordOp::Exists | RecordOp::ReadAll | RecordOp::Read(..) | RecordOp::Delete(_),
                None,
            ) => refuse(ResultCode::NOT_FOUND),
            (RecordOp::Exists, Some(entry)) => FirstStep::Reply(Reply {
                generation,
                void_time_sec: entry.void_time,
                ..Reply::with_result(ResultCode::OK)
            }),
            (RecordOp::ReadAll | RecordOp::Read(..), Some(entry)) => {
                FirstStep::ReadRecord(entry.location)
            }
            (RecordOp::Delete(delete), Some(_)) if !allows(delete.generation, generation) => {
                refuse(ResultCode::GENERATION)
            }
            (RecordOp::Delete(_) | RecordOp::Image(_), _) => FirstStep::Execute,
            (RecordOp::Version, _) => {
                let version = self
                    .index
                    .get(&transaction.digest)
                    .map_or(0, |entry| entry.version);
                FirstStep::Reply(Reply::with_version(version))
            }
            // An expired record still has a version here, until a tombstone replaces the record.
            (RecordOp::Compare(peer_version), _) => match self.index.get(&transaction.digest) {
                Some(own_entry) if own_entry.version == peer_version.number => {
                    FirstStep::Reply(Reply::with_result(ResultCode::OK))
                }
                Some(own_entry) if !own_entry.is_tombstone() => {
                    FirstStep::ReadRecord(own_entry.location)
                }
                _ => FirstStep::Execute,
            },
            (RecordOp::Write(write), entry) => {
                match (write.policy.exists, entry) {
                    (Exists::CreateOnly, Some(_)) => return refuse(ResultCode::EXISTS),
                    (Exists::UpdateOnly | Exists::ReplaceOnly, None) => {
                        return refuse(ResultCode::NOT_FOUND);
                    }
                    _ => {}
                }
                if !allows(write.policy.generation, generation) {
                    return refuse(ResultCode::GENERATION);
                }
                let ttl = write.policy.ttl;
                let is_too_long = ttl.0 > TTL_MAX_SEC && ![Ttl::NEVER, Ttl::KEEP].contains(&ttl);
                if is_too_long || write.key.len() > KEY_BYTES_MAX {
                    return refuse(ResultCode::PARAMETER);
                }
                match self.refusal(&transaction.digest) {
                    Some(ResultCode::OUT_OF_SPACE)
                        if self.may_defer() && self.is_reclaiming() && !self.stops_writes() =>
                    {
                        return FirstStep::Defer;
                    }
                    Some(code) => return refuse(code),
                    None => {}
                }
                match entry {
                    // A replacement without a key keeps the key of the old record.
                    Some(entry) if !replaces(write) || entry.has_key() && write.key.is_empty() => {
                        FirstStep::ReadRecord(entry.location)
                    }
                    _ => FirstStep::Execute,
                }
            }
        }
    }

    /// Reason why the record cannot be written now, if there is one.
    fn refusal(&self, digest: &Digest) -> Option<ResultCode> {
        if self.stops_writes() || self.index.is_full() && self.index.get(digest).is_none() {
            return Some(ResultCode::OUT_OF_SPACE);
        }
        self.is_overloaded(digest)
            .then_some(ResultCode::DEVICE_OVERLOAD)
    }

    fn is_overloaded(&self, digest: &Digest) -> bool {
        self.volumes[self.volume_of(digest)].is_overloaded()
    }

    /// Finishes a transaction. `record`: the record's bytes, if the transaction needs them.
    pub(super) fn finish(
        &mut self,
        number: u64,
        transaction: &Transaction,
        record: Option<&Record<'_>>,
        now_ns: u64,
        replies: &mut Replies,
    ) {
        let result = match &transaction.record_op {
            RecordOp::ReadAll | RecordOp::Read(..) => record
                .map_or(Err(ResultCode::SERVER_ERROR), |record| {
                    read(&transaction.record_op, record, self.namespace.single_bin).map(Some)
                }),
            RecordOp::Write(write) => self.put(number, transaction, write, record, now_ns),
            RecordOp::Delete(Delete { wants_image, .. }) => self.write_tombstone(
                number,
                &transaction.digest,
                *wants_image,
                Reply::with_result(ResultCode::OK),
                now_ns,
            ),
            RecordOp::Image(bytes) => self.apply_image(number, &transaction.digest, bytes, now_ns),
            RecordOp::Compare(peer_version) => {
                self.reply_to_compare(number, &transaction.digest, *peer_version, record, now_ns)
            }
            RecordOp::Exists | RecordOp::Version => Err(ResultCode::SERVER_ERROR),
        };
        match result {
            Ok(None) => {}
            Ok(Some(reply)) => replies.push((number, reply)),
            // Blocks will become free, so the write waits.
            Err(ResultCode::DEVICE_OVERLOAD)
                if self.may_defer() && !self.is_overloaded(&transaction.digest) =>
            {
                self.deferred
                    .push_back((now_ns, number, transaction.clone()));
            }
            Err(code) => replies.push((number, Reply::with_result(code))),
        }
    }

    fn put(
        &mut self,
        number: u64,
        transaction: &Transaction,
        write: &Write,
        old_record: Option<&Record<'_>>,
        now_ns: u64,
    ) -> ImmediateReply {
        let digest = transaction.digest;
        let entry = self.living(&digest, now_ns);
        // The record may have expired during the read.
        let old_record = old_record.filter(|_| entry.is_some());
        let bins = old_record
            .filter(|_| !replaces(write))
            .map_or(&[][..], |old| old.body);
        let applied = ops::apply(bins, &write.ops, self.namespace.single_bin, write.answers)?;
        let reply = Reply {
            bins: applied.reply_bins,
            ops: applied.reply,
            ..Reply::with_result(ResultCode::OK)
        };
        if applied.bins.is_empty() {
            // As in the real server, a replacement without bins changes nothing.
            entry
                .filter(|_| !replaces(write))
                .ok_or(ResultCode::NOT_FOUND)?;
            let answer = self.write_tombstone(number, &digest, write.wants_image, reply, now_ns)?;
            self.statistics.deleted_last_bin += 1;
            return Ok(answer);
        }
        let void_time = match (write.policy.ttl, &entry) {
            (Ttl::NEVER, _) => 0,
            (Ttl::KEEP, Some(entry)) => entry.void_time,
            (Ttl::DEFAULT | Ttl::KEEP, _) => match self.namespace.default_ttl_sec {
                0 => 0,
                seconds => self.now_sec(now_ns).saturating_add(seconds),
            },
            (Ttl(seconds), _) => self.now_sec(now_ns) + seconds,
        };
        let record = Record {
            digest,
            version: self.next_version(now_ns),
            generation: entry
                .map_or(0, |entry| entry.generation)
                .checked_add(1)
                .unwrap_or(1),
            void_time,
            is_tombstone: false,
            set: new_or_old(&transaction.set, old_record.map(|old| old.set)),
            key: new_or_old(&write.key, old_record.map(|old| old.key)),
            body: &applied.bins,
        };
        self.save(number, &record, write.wants_image, reply, now_ns)
    }

    fn write_tombstone(
        &mut self,
        number: u64,
        digest: &Digest,
        wants_image: bool,
        reply: Reply,
        now_ns: u64,
    ) -> ImmediateReply {
        let generation = self.index.get(digest).map_or(0, |entry| entry.generation);
        let body = self.tombstone_body(digest);
        let version = self.next_version(now_ns);
        self.save(
            number,
            &tombstone(*digest, version, generation, &body),
            wants_image,
            reply,
            now_ns,
        )
    }

    /// Body of a tombstone that is written now: sequence number of the first write block without older versions.
    pub(super) fn tombstone_body(&self, digest: &Digest) -> [u8; 8] {
        (self.volumes[self.volume_of(digest)].sequence + 1).to_le_bytes()
    }

    /// Applies another node's write. Errors: this node has a newer version, or cannot take the write now.
    fn apply_image(
        &mut self,
        number: u64,
        digest: &Digest,
        image: &[u8],
        now_ns: u64,
    ) -> ImmediateReply {
        let record = Record::read(image, IMAGE_SEED).filter(|record| record.digest == *digest);
        let record = record.filter(|record| record.version <= self.now_us(now_ns) + AHEAD_US);
        let record = record.ok_or(ResultCode::PARAMETER)?;
        let entry = self.index.get(digest);
        match entry.map_or(Ordering::Less, |entry| entry.version.cmp(&record.version)) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(Some(Reply::with_result(ResultCode::OK))),
            // The clock of this node was ahead: the other node has to write the record again.
            Ordering::Greater => return Err(ResultCode::GENERATION),
        }
        if let Some(code) = self.refusal(digest).filter(|_| !record.is_tombstone) {
            let is_passing = self.is_reclaiming() && !self.stops_writes();
            return Err(if is_passing {
                ResultCode::DEVICE_OVERLOAD
            } else {
                code
            });
        }
        self.version = self.version.max(record.version);
        let body = self.tombstone_body(digest);
        let record = if record.is_tombstone {
            Record {
                body: &body,
                ..record
            }
        } else {
            record
        };
        self.save(
            number,
            &record,
            false,
            Reply::with_result(ResultCode::OK),
            now_ns,
        )
    }

    /// Replies to a comparison. If the other node's version differs, the reply has the image and the version of this
    /// node's record; version 0: no image. A greater version of the other node may be a write that nobody acknowledged:
    /// this node's record then gets an even greater version. Errors: a version more than a day ahead of this node's
    /// clock.
    fn reply_to_compare(
        &mut self,
        number: u64,
        digest: &Digest,
        peer_version: Version,
        record: Option<&Record<'_>>,
        now_ns: u64,
    ) -> ImmediateReply {
        let unchanged = Ok(Some(Reply::with_result(ResultCode::OK)));
        if peer_version.number > self.now_us(now_ns) + AHEAD_US {
            return Err(ResultCode::PARAMETER);
        }
        self.version = self.version.max(peer_version.number);
        let known_version = self.index.get(digest).map(|entry| entry.version);
        match (known_version, record) {
            (Some(version), Some(record)) if version > peer_version.number => Ok(Some(Reply {
                image: Some(image(record)),
                ..Reply::with_version(version)
            })),
            (Some(_), Some(record)) => {
                let record = Record {
                    version: self.next_version(now_ns),
                    ..*record
                };
                let reply = Reply::with_version(record.version);
                self.save(number, &record, true, reply, now_ns)
            }
            // The tombstone search has removed the entry meanwhile, or neither node has a record.
            (None, Some(_)) => unchanged,
            (None, None) if peer_version.is_tombstone => unchanged,
            (Some(version), None) if version < peer_version.number => self.write_tombstone(
                number,
                digest,
                true,
                Reply::with_version(peer_version.number),
                now_ns,
            ),
            (known_version, None) => {
                let version = known_version.unwrap_or_else(|| self.next_version(now_ns));
                let body = self.tombstone_body(digest);
                let image = image(&tombstone(*digest, version, 0, &body));
                Ok(Some(Reply {
                    image: Some(image),
                    ..Reply::with_version(version)
                }))
            }
        }
    }

    /// Appends a record. Answers now, or with `commit-to-device` once the record is on the device.
    pub(super) fn save(
        &mut self,
        number: u64,
        record: &Record<'_>,
        wants_image: bool,
        reply: Reply,
        now_ns: u64,
    ) -> ImmediateReply {
        let volume = self.volume_of(&record.digest);
        let volume = &mut self.volumes[volume];
        let bytes = record.units() as usize * UNIT;
        if bytes > volume.block_bytes - volume.sector_bytes {
            return Err(ResultCode::TOO_BIG);
        }
        let location = volume.append_record(record, now_ns)?;
        let entry = IndexEntry::for_record(record, location);
        let old = self.index.put(entry);
        if let Some(old) = old {
            volume.blocks.remove(old.location.block, old.location.units);
        }
        self.count(old.as_ref(), Some(&entry));
        self.statistics.write_bytes.record(bytes as u64);
        let image = wants_image.then(|| self::image(record));
        // As in the real server, the reply to a deletion has no generation.
        let generation = if record.is_tombstone {
            0
        } else {
            record.generation
        };
        let reply = Reply {
            generation,
            void_time_sec: record.void_time,
            image,
            ..reply
        };
        if self.namespace.commit_to_device && number != NO_CLIENT {
            self.volumes[usize::from(location.volume)].answer_when_durable(location, number, reply);
            return Ok(None);
        }
        Ok(Some(reply))
    }

    pub(super) fn count(&mut self, old: Option<&IndexEntry>, new: Option<&IndexEntry>) {
        if let Some(new) = new {
            *self.count_including(new) += 1;
        }
        if let Some(old) = old {
            *self.count_including(old) -= 1;
        }
    }

    fn count_including(&mut self, entry: &IndexEntry) -> &mut u64 {
        if entry.is_tombstone() {
            &mut self.statistics.tombstones
        } else {
            &mut self.statistics.objects
        }
    }

    /// The next version: greater than all previous versions, and at least the current time, us since 1970.
    fn next_version(&mut self, now_ns: u64) -> u64 {
        self.version = (self.version + 1).max(self.now_us(now_ns));
        self.version
    }
}

pub(super) fn tombstone(digest: Digest, version: u64, generation: u16, body: &[u8]) -> Record<'_> {
    Record {
        digest,
        version,
        generation,
        void_time: 0,
        is_tombstone: true,
        set: b"",
        key: b"",
        body,
    }
}

/// The set or key of a write, or that of the old record if the client sends none.
fn new_or_old<'a>(new: &'a [u8], old: Option<&'a [u8]>) -> &'a [u8] {
    match old {
        Some(old) if new.is_empty() => old,
        _ => new,
    }
}

/// A record in the form that another node receives.
fn image(record: &Record<'_>) -> Vec<u8> {
    let mut bytes = vec![0; record.units() as usize * UNIT];
    record.write(&mut bytes, IMAGE_SEED);
    bytes
}

/// True if the write removes all bins that it does not write.
pub(super) fn replaces(write: &Write) -> bool {
    matches!(
        write.policy.exists,
        Exists::CreateOrReplace | Exists::ReplaceOnly
    )
}

fn allows(condition: Generation, generation: u16) -> bool {
    match condition {
        Generation::Any => true,
        Generation::Equal(expected) => generation == expected,
        Generation::Less(limit) => limit > generation,
    }
}

fn read(record_op: &RecordOp, record: &Record<'_>, single_bin: bool) -> Result<Reply, ResultCode> {
    let reply = Reply {
        generation: record.generation,
        void_time_sec: record.void_time,
        ..Reply::with_result(ResultCode::OK)
    };
    match record_op {
        RecordOp::Read(read_ops, answers) => {
            let applied = ops::apply(record.body, read_ops, single_bin, *answers)?;
            if applied.has_written {
                return Err(ResultCode::PARAMETER);
            }
            Ok(Reply {
                bins: applied.reply_bins,
                ops: applied.reply,
                ..reply
            })
        }
        _ => {
            // A peer or a device may have supplied invalid bins.
            let mut rest = record.body;
            let mut bins = 0_u16;
            while !rest.is_empty() {
                ops::take(&mut rest).ok_or(ResultCode::SERVER_ERROR)?;
                bins = bins.checked_add(1).ok_or(ResultCode::SERVER_ERROR)?;
            }
            Ok(Reply {
                bins,
                ops: record.body.to_vec(),
                ..reply
            })
        }
    }
}
