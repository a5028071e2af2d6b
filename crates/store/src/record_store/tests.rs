//! Tests of a store on simulated drives, in addition to the random tests in `tests/simulation.rs`.

use super::*;
use crate::record::seed_at;
use crate::seal::{NUMBER_LAST, NUMBER_MAX, VolumeMark};
use crate::testing::space;
use crate::write_block::WriteBlockHeader;
use crate::{Buckets, Delete, Exists, Generation, Policy, Ttl, Write, ops};
use engine::sim::{DriveContents, QueueModel, SimEngine};
use engine::{IoEngine, Wait};
use results::testing::modified;
use sys::buffer::Buf;
use sys::op::{Completion, Op};

mod between;

const WALL_MS: u64 = 1_700_000_000_000;
const BLOCK: u64 = 32 << 10;
const MARKS: u64 = 32 << 20;

fn namespace() -> NamespaceSettings {
    NamespaceSettings {
        write_block_bytes: BLOCK as u32,
        post_write_blocks: 0,
        ..NamespaceSettings::new("test")
    }
}

fn drive(name: &str) -> SimEngine {
    SimEngine::holding(
        vec![QueueModel::new(&name.parse().unwrap(), 1)],
        vec![DriveContents::new(512, 1)],
    )
}

fn space_of(range: std::ops::Range<u64>) -> StoreSpace {
    StoreSpace { range, ..space() }
}

struct Bench {
    engine: SimEngine,
    store: Store,
    replies: Vec<(u64, Reply)>,
}

impl Bench {
    fn on(namespace: &NamespaceSettings, spaces: &[StoreSpace], mut engine: SimEngine) -> Self {
        let store = Store::open(namespace, spaces, 0..64, WALL_MS, 1, &mut engine).unwrap();
        let mut bench = Self {
            engine,
            store,
            replies: Vec::new(),
        };
        while !bench.store.is_ready() && bench.store.damage().is_none() {
            bench.step(u64::MAX);
        }
        bench
    }

    fn new(change: impl FnOnce(&mut NamespaceSettings), blocks: u64) -> Self {
        let mut namespace = namespace();
        change(&mut namespace);
        Self::on(
            &namespace,
            &[space_of(0..blocks * BLOCK)],
            drive("sim:capacity=64MiB"),
        )
    }

    fn step(&mut self, until_ns: u64) {
        for done in self.reaped(until_ns) {
            self.completed(done);
        }
        self.store.poll(&mut self.engine, &mut self.replies);
    }

    fn run(&mut self, ms: u64) {
        let until_ns = self.engine.now() + ms * 1_000_000;
        while self.engine.now() < until_ns {
            let next_ns = self.store.poll(&mut self.engine, &mut self.replies);
            let next_ns = next_ns.max(self.engine.now() + 1);
            self.step(until_ns.min(next_ns));
        }
    }

    fn submit(&mut self, number: u64, key: u64, record_op: RecordOp) {
        let digest = crate::digest(b"s", 1, &key.to_be_bytes());
        let transaction = Transaction {
            digest,
            set: (*b"s").into(),
            record_op,
        };
        self.store
            .execute(number, transaction, &mut self.engine, &mut self.replies);
    }

    fn ask(&mut self, key: u64, record_op: RecordOp) -> Reply {
        self.submit(77, key, record_op);
        loop {
            if let Some(at) = self.replies.iter().position(|(number, _)| *number == 77) {
                return self.replies.remove(at).1;
            }
            let until_ns = self.engine.now() + 1_000_000;
            self.step(until_ns);
        }
    }

    fn reaped(&mut self, until_ns: u64) -> Vec<Completion> {
        let mut done = Vec::new();
        let wait = Wait::first(until_ns);
        self.engine.reap(wait, &mut done).unwrap();
        done
    }

    fn completed(&mut self, done: Completion) {
        self.store
            .on_completion(done, &mut self.engine, &mut self.replies);
    }

    fn write(&mut self, key: u64, value: &[u8]) -> ResultCode {
        self.ask(key, RecordOp::Write(write(value, Exists::Any)))
            .result
    }

    /// As [`Bench::write`], but replaces an existing record.
    fn put(&mut self, key: u64, value: &[u8]) -> ResultCode {
        self.ask(key, put(value)).result
    }

    fn delete(&mut self, key: u64) -> ResultCode {
        self.ask(key, RecordOp::Delete(Delete::default())).result
    }

    fn value(&mut self, key: u64) -> Vec<u8> {
        value(&self.ask(key, RecordOp::ReadAll))
    }

    /// Writes the buffers, so that records are read from the device.
    fn write_out(&mut self) {
        self.store.flush(&mut self.engine);
        while !self.store.is_idle() {
            let until_ns = self.engine.now() + 1_000_000;
            self.step(until_ns);
        }
    }
}

fn entry(operation: u8, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ops::put(
        &mut out,
        &ops::BinEntry {
            operation,
            particle: ops::particle::BLOB,
            name: b"b",
            value,
        },
    );
    out
}

fn write(value: &[u8], exists: Exists) -> Write {
    let policy = Policy {
        exists,
        ..Policy::default()
    };
    Write {
        policy,
        ops: entry(ops::operation::WRITE, value),
        ..Write::default()
    }
}

fn put(value: &[u8]) -> RecordOp {
    RecordOp::Write(write(value, Exists::CreateOrReplace))
}

fn value(reply: &Reply) -> Vec<u8> {
    ops::entries(&reply.ops)
        .next()
        .map_or(Vec::new(), |bin| bin.value.to_vec())
}

fn delete_at(generation: Generation) -> RecordOp {
    RecordOp::Delete(Delete {
        generation,
        wants_image: false,
    })
}

/// Writes `value` under key 1, with this many seconds to live.
fn write_expiring(bench: &mut Bench, ttl: u32, value: &[u8]) {
    let policy = modified(Policy::default(), |it| it.ttl = Ttl(ttl));
    let expiring = modified(write(value, Exists::Any), |it| it.policy = policy);
    assert_eq!(
        bench.ask(1, RecordOp::Write(expiring)).result,
        ResultCode::OK
    );
}

/// Fills blocks until earlier records are no longer in memory.
fn push_out(bench: &mut Bench) {
    for key in 1_000..1_040 {
        bench.submit(key, key, put(&[1; 2_000]));
    }
    bench.run(2_000);
    bench.replies.clear();
}

#[test]
fn writes_of_one_record_wait_for_each_other_and_too_many_are_refused() {
    let mut bench = Bench::new(|_| {}, 64);
    assert_eq!(bench.write(1, b"0"), ResultCode::OK);
    push_out(&mut bench);
    for number in 0..PENDING_MAX as u64 + 3 {
        let ops = entry(ops::operation::APPEND, &[b'a' + number as u8]);
        bench.submit(
            number,
            1,
            RecordOp::Write(modified(Write::default(), |it| it.ops = ops)),
        );
    }
    let found = bench.replies.len();
    assert_eq!(found, 2, "beyond the one that reads and those that wait");
    assert!(
        bench
            .replies
            .iter()
            .all(|(_, reply)| reply.result == ResultCode::KEY_BUSY)
    );
    bench.replies.clear();
    bench.run(100);
    let numbers: Vec<_> = bench
        .replies
        .drain(..)
        .map(|(number, reply)| (number, reply.generation))
        .collect();
    let expected: Vec<_> = (0..=PENDING_MAX as u64)
        .map(|number| (number, number as u16 + 2))
        .collect();
    assert_eq!(numbers, expected, "in their order");
    assert_eq!(bench.value(1), b"0abcdefghijklmnopqrstu");
}

#[test]
fn conditions_are_checked_before_a_write_changes_anything() {
    let mut bench = Bench::new(|_| {}, 64);
    let mut code = |key, record_op| bench.ask(key, record_op).result;
    let found = code(1, RecordOp::Write(write(b"x", Exists::UpdateOnly)));
    assert_eq!(found, ResultCode::NOT_FOUND);
    let found = code(1, RecordOp::Write(write(b"x", Exists::CreateOnly)));
    assert_eq!(found, ResultCode::OK);
    let found = code(1, RecordOp::Write(write(b"y", Exists::CreateOnly)));
    assert_eq!(found, ResultCode::EXISTS);
    let policy = |generation, ttl| Policy {
        generation,
        ttl,
        ..Policy::default()
    };
    let with =
        |policy| RecordOp::Write(modified(write(b"z", Exists::Any), |it| it.policy = policy));
    let found = code(1, with(policy(Generation::Equal(2), Ttl::DEFAULT)));
    assert_eq!(found, ResultCode::GENERATION);
    let found = code(1, with(policy(Generation::Less(1), Ttl::DEFAULT)));
    assert_eq!(found, ResultCode::GENERATION);
    let found = code(1, with(policy(Generation::Any, Ttl(u32::MAX - 2))));
    assert_eq!(found, ResultCode::PARAMETER);
    let found = code(1, RecordOp::Write(write(&[0; 40_000], Exists::Any)));
    assert_eq!(found, ResultCode::TOO_BIG);
    let found = code(1, delete_at(Generation::Equal(9)));
    assert_eq!(found, ResultCode::GENERATION);
    let found = code(1, with(policy(Generation::Equal(1), Ttl::DEFAULT)));
    assert_eq!(found, ResultCode::OK);
    let reply = bench.ask(1, RecordOp::ReadAll);
    assert_eq!((value(&reply), reply.generation), (b"z".to_vec(), 2));
    assert_eq!(
        bench.ask(1, delete_at(Generation::Equal(2))),
        Reply::with_result(ResultCode::OK),
        "without a generation"
    );
    assert_eq!(
        bench.ask(1, delete_at(Generation::Any)).result,
        ResultCode::NOT_FOUND
    );
}

#[test]
fn an_expired_record_is_not_read_and_is_deleted_once() {
    let mut bench = Bench::new(|namespace| namespace.nsup_period_sec = 0, 64);
    write_expiring(&mut bench, 1, b"x");
    bench.run(2_500);
    assert_eq!(bench.ask(1, RecordOp::Exists).result, ResultCode::NOT_FOUND);
    assert_eq!(
        bench.ask(1, delete_at(Generation::Equal(2))).result,
        ResultCode::GENERATION
    );
    assert_eq!(
        bench.ask(1, delete_at(Generation::Equal(1))).result,
        ResultCode::OK
    );
    assert_eq!(
        bench.ask(1, delete_at(Generation::Any)).result,
        ResultCode::NOT_FOUND
    );
}

#[test]
fn a_write_that_leaves_no_bin_deletes_the_record_and_is_counted() {
    let mut bench = Bench::new(|_| {}, 64);
    let mut gone = Vec::new();
    ops::put(
        &mut gone,
        &ops::BinEntry {
            operation: ops::operation::WRITE,
            particle: 0,
            name: b"b",
            value: b"",
        },
    );
    let remove = RecordOp::Write(modified(Write::default(), |it| it.ops = gone));
    assert_eq!(
        bench
            .ask(1, RecordOp::Write(write(b"x", Exists::Any)))
            .generation,
        1
    );
    let policy = modified(Policy::default(), |it| it.exists = Exists::CreateOrReplace);
    let only_read = Write {
        policy,
        ops: entry(ops::operation::READ, b""),
        ..Write::default()
    };
    assert_eq!(
        bench.ask(1, RecordOp::Write(only_read)).result,
        ResultCode::NOT_FOUND,
        "a replacement by nothing"
    );
    assert_eq!(bench.value(1), b"x");
    assert_eq!(
        bench.ask(1, remove.clone()),
        Reply::with_result(ResultCode::OK),
        "without a generation"
    );
    assert_eq!(bench.ask(1, remove).result, ResultCode::NOT_FOUND);
    let statistics = bench.store.statistics();
    assert_eq!((statistics.deleted_last_bin, statistics.objects), (1, 0));
}

#[test]
fn a_full_index_stops_writes_and_sets_hwm_breached() {
    let mut bench = Bench::new(
        |namespace| namespace.memory_bytes = (64 << 10) + (16 << 10),
        64,
    );
    assert!(!bench.store.statistics().hwm_breached);
    let written = (0..)
        .take_while(|key: &u64| bench.write(*key, b"x") == ResultCode::OK)
        .count();
    let statistics = bench.store.statistics();
    assert!(
        written > 200 && statistics.stop_writes && statistics.hwm_breached,
        "{written} {statistics:?}"
    );
}

#[test]
fn a_replica_applies_only_newer_versions() {
    let mut master = Bench::new(|_| {}, 64);
    let mut replica = Bench::new(|_| {}, 64);
    let mut images = Vec::new();
    for text in [&b"one"[..], b"two"] {
        let reply = master.ask(
            5,
            RecordOp::Write(modified(write(text, Exists::Any), |it| {
                it.wants_image = true
            })),
        );
        images.push(reply.image.unwrap());
    }
    images.push(
        master
            .ask(
                5,
                RecordOp::Delete(modified(Delete::default(), |it| it.wants_image = true)),
            )
            .image
            .unwrap(),
    );
    let mut show = |image: usize| {
        let taken = replica
            .ask(5, RecordOp::Image(images[image].clone()))
            .result;
        let reply = replica.ask(5, RecordOp::ReadAll);
        (taken, reply.result, value(&reply), reply.generation)
    };
    let ok = ResultCode::OK;
    let newer = ResultCode::GENERATION;
    let none = ResultCode::NOT_FOUND;
    assert_eq!(show(1), (ok, ok, b"two".to_vec(), 2));
    assert_eq!(show(1), (ok, ok, b"two".to_vec(), 2), "once more");
    assert_eq!(
        show(0),
        (newer, ok, b"two".to_vec(), 2),
        "an older one comes late"
    );
    assert_eq!(show(2), (ok, none, Vec::new(), 0));
    assert_eq!(
        show(1),
        (newer, none, Vec::new(), 0),
        "it was deleted after that"
    );
    let mut damaged = images[0].clone();
    damaged[50] ^= 1;
    for image in [damaged, images[0][..20].to_vec(), Vec::new()] {
        assert_eq!(
            replica.ask(5, RecordOp::Image(image)).result,
            ResultCode::PARAMETER
        );
    }
    assert_eq!(
        replica.ask(6, RecordOp::Image(images[0].clone())).result,
        ResultCode::PARAMETER,
        "of another key"
    );
}

#[test]
fn block_counts_balance_with_the_bytes_written() {
    let mut bench = Bench::new(|namespace| namespace.defrag_sleep_us = 8_000, 64);
    let mut random = Random::new(4);
    for round in 0..4_000 {
        // Phases with 3 keys and with 200 keys alternate, so that blocks are freed in all ways.
        let keys = if round / 200 % 2 == 0 { 3 } else { 200 };
        bench.submit(round, random.below(keys), put(&[7; 3_000]));
        bench.run(1);
    }
    assert!(
        bench
            .replies
            .iter()
            .all(|(_, reply)| reply.result == ResultCode::OK)
    );
    bench.write_out();
    bench.store.check().unwrap();
    let statistics = bench.store.statistics();
    let device = &statistics.devices[0];
    assert!(
        device.defrag_reads > 100 && device.direct_frees > 0 && device.defrag_io_skips > 0,
        "{device:?}"
    );
    let used = 64 - device.free_wblocks;
    let open = used + device.defrag_reads + device.direct_frees
        - device.writes
        - device.defrag_writes
        - device.defrag_q;
    assert!(
        open <= 2,
        "blocks that are still open: {open} of {device:?}"
    );
    let count = |buckets: &Buckets| buckets.counts.iter().sum::<u64>();
    assert_eq!(
        count(&device.large_block_read_us),
        device.defrag_reads - device.defrag_io_skips - device.defrag_q
    );
    assert!(
        count(&device.write_us) >= device.writes + device.defrag_writes + device.partial_writes
    );
    assert_eq!(count(&statistics.write_bytes), 4_000);
    assert_eq!(statistics.objects, 200);
    assert_eq!(statistics.write_bytes.counts[12], 4_000, "3,072 bytes each");
}

#[test]
fn a_block_without_live_records_is_reused_although_no_buffer_is_written() {
    let mut bench = Bench::new(
        |namespace| (namespace.min_avail_pct, namespace.defrag_sleep_us) = (0, 2_000_000),
        8,
    );
    // Fill the device, except for the reserve.
    let mut code = ResultCode::OK;
    for number in 0..1_000 {
        code = bench
            .ask(
                number,
                RecordOp::Write(write(&[1; 10_000], Exists::CreateOnly)),
            )
            .result;
        if code != ResultCode::OK {
            break;
        }
    }
    assert_eq!(code, ResultCode::OUT_OF_SPACE);
    bench.write_out();
    for key in 0..12 {
        assert_eq!(bench.delete(key), ResultCode::OK);
    }
    bench.write_out();
    // A transaction lets the store collect again. No buffer is dirty when a queued block turns out to be empty.
    assert_eq!(bench.ask(0, RecordOp::Exists).result, ResultCode::NOT_FOUND);
    bench.run(20_000);
    assert!(bench.store.statistics().devices[0].defrag_io_skips > 0);
    for key in 500..506 {
        assert_eq!(bench.write(key, &[1; 10_000]), ResultCode::OK);
    }
}

#[test]
fn tombstones_that_hide_nothing_are_removed_even_if_older_blocks_are_never_defragmented() {
    let mut bench = Bench::new(|namespace| namespace.tomb_raider_period_sec = 100, 64);
    // Fill blocks that stay unchanged, then delete the records in the last of these blocks.
    for key in 0..300 {
        assert_eq!(bench.write(key, &[1; 3_000]), ResultCode::OK);
    }
    for key in 280..300 {
        assert_eq!(bench.delete(key), ResultCode::OK);
    }
    // Overwrites the hidden versions.
    for round in 0..300 {
        let reply = bench.ask(
            1_000 + round % 3,
            RecordOp::Write(write(&[2; 10_000], Exists::Any)),
        );
        assert_eq!(reply.result, ResultCode::OK);
        bench.run(20);
    }
    // The old versions of these records stay on the device, hidden by tombstones.
    for key in 270..280 {
        assert_eq!(bench.delete(key), ResultCode::OK);
    }
    bench.run(60_000);
    assert_eq!(bench.store.statistics().tombstones, 30);
    bench.run(60_000);
    let statistics = bench.store.statistics();
    assert_eq!((statistics.tombstones, statistics.raided), (10, 20));
    bench.store.check().unwrap();
}

/// A drive that records its requests.
struct Noted<'a>(&'a mut SimEngine, &'a mut Vec<(OpKind, Range<u64>)>);

impl StoreDisk for Noted<'_> {
    fn now_ns(&mut self) -> u64 {
        self.0.now()
    }

    fn submit(&mut self, op: Op) {
        self.1
            .push((op.kind, op.offset..op.offset + u64::from(op.len)));
        IoEngine::submit(self.0, op);
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        IoEngine::buffer(self.0, len)
    }
}

#[test]
fn reads_have_the_size_of_sectors_and_writes_the_size_of_physical_blocks() {
    let mut bench = Bench::new(
        |namespace| (namespace.commit_to_device, namespace.defrag_lwm_pct) = (true, 0),
        64,
    );
    let space = modified(space(), |it| it.write_unit_bytes = 4096);
    let Bench { engine, store, .. } = &mut bench;
    let namespace = store.namespace.clone();
    let mut ops = Vec::new();
    let mut replies = Vec::new();
    let mut done = Vec::new();
    *store = Store::open(&namespace, &[space], 0..64, WALL_MS, 1, engine).unwrap();
    let mut drive = |store: &mut Store, ops: &mut Vec<_>, transaction: Option<Transaction>| {
        let mut disk = Noted(engine, ops);
        if let Some(transaction) = transaction {
            store.execute(1, transaction, &mut disk, &mut replies);
        }
        while disk.0.in_flight() > 0 {
            disk.0.reap(Wait::first(u64::MAX), &mut done).unwrap();
            done.drain(..)
                .for_each(|done| store.on_completion(done, &mut disk, &mut replies));
        }
        std::mem::take(&mut replies)
    };
    drive(store, &mut ops, None);
    ops.clear();
    let transaction = |key: u64, record_op| {
        let digest = crate::digest(b"s", 1, &key.to_be_bytes());
        Some(Transaction {
            digest,
            set: (*b"s").into(),
            record_op,
        })
    };
    for key in 0..200 {
        let replies = drive(
            store,
            &mut ops,
            transaction(key, RecordOp::Write(write(&[1; 600], Exists::Any))),
        );
        assert_eq!(replies[0].1.result, ResultCode::OK);
    }
    let mut writes: Vec<_> = ops
        .drain(..)
        .map(|(kind, bytes)| (bytes.start, bytes.end, kind))
        .collect();
    writes.sort_unstable_by_key(|write| (write.0, write.1));
    assert!(writes.len() >= 200 && writes.iter().all(|(.., kind)| *kind == OpKind::Write));
    assert!(
        writes
            .iter()
            .all(|(begin, end, _)| begin % 4096 == 0 && end % 4096 == 0),
        "{writes:?}"
    );
    assert!(
        writes.is_sorted_by(|one, next| one.1 <= next.0),
        "none is written twice: {writes:?}"
    );
    for key in 0..200 {
        assert_eq!(
            drive(store, &mut ops, transaction(key, RecordOp::ReadAll))[0]
                .1
                .result,
            ResultCode::OK
        );
    }
    let lens: Vec<_> = ops
        .iter()
        .map(|(_, bytes)| bytes.end - bytes.start)
        .collect();
    assert!(
        lens.len() > 100 && lens.iter().all(|len| *len <= 1536),
        "{lens:?}"
    );
}

#[test]
fn a_device_of_another_size_is_not_overwritten() {
    let mut bench = Bench::new(|_| {}, 64);
    push_out(&mut bench);
    bench.write_out();
    let namespace = bench.store.namespace.clone();
    let contents = bench.engine.stop(false);
    let model = QueueModel::new(&"sim:capacity=64MiB".parse().unwrap(), 1);
    // The space lies where the second core's space would lie after the device grew.
    let space = space_of(BLOCK..65 * BLOCK);
    let mut bench = Bench::on(
        &namespace,
        &[space],
        SimEngine::holding(vec![model], contents),
    );
    let losses = bench.store.damage();
    assert!(
        !bench.store.is_ready() && losses.is_some_and(|losses| losses.blocks > 2),
        "{losses:?}"
    );
    bench.store.flush(&mut bench.engine);
    assert_eq!(bench.engine.in_flight(), 0, "nothing is written");
}

/// Opens a store on a device with these contents, and accepts all losses.
fn opened(namespace: &NamespaceSettings, contents: DriveContents) -> Bench {
    let model = QueueModel::new(&"sim:capacity=64MiB".parse().unwrap(), 1);
    let space = space_of(0..32 * BLOCK);
    let mut bench = Bench::on(
        namespace,
        &[space],
        SimEngine::holding(vec![model], vec![contents]),
    );
    bench.store.accept_losses(&mut bench.engine);
    while !bench.store.is_ready() {
        bench.step(u64::MAX);
    }
    bench
}

#[test]
fn a_device_with_random_valid_blocks_is_opened_and_used() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut contents = DriveContents::new(512, seed);
        for block in 0..16 {
            let extreme = |random: &mut Random| {
                [random.below(50), u64::MAX, 1 << 61, 0][random.below(4) as usize]
            };
            let header = WriteBlockHeader {
                id: 9,
                sequence: extreme(&mut random),
                opening: 1,
                block,
            };
            let mut bytes: Vec<u8> = (0..BLOCK).map(|_| random.next_u64() as u8).collect();
            header.write(&mut bytes[..512]);
            let mut at = 512;
            while at + 3_000 < bytes.len() {
                let mut part =
                    |most: u64| -> Vec<u8> { (0..random.below(most)).map(|n| n as u8).collect() };
                let set = part(256);
                let key = part(600);
                let body = part(1_500);
                let mut digest = [0; 20];
                digest[0] = random.below(9) as u8;
                let version = extreme(&mut random);
                let void_time = extreme(&mut random) as u32;
                let generation = random.below(70_000) as u16;
                let tombstone = random.below(3) == 0;
                let set = &set[..];
                let key = &key[..];
                let body = &body[..];
                let record = Record {
                    digest,
                    version,
                    generation,
                    void_time,
                    is_tombstone: tombstone,
                    set,
                    key,
                    body,
                };
                let seed = seed_at(header.seed(), at);
                record.write(&mut bytes[at..], seed);
                // Some records get a wrong length, with a valid checksum.
                let units = record.units() as usize * UNIT;
                if random.below(3) == 0 {
                    bytes[at + [6, 7, 8, 15][random.below(4) as usize]] ^= random.next_u64() as u8;
                    crate::record::seal(&mut bytes[at..at + units], seed);
                }
                at += units;
            }
            contents.write(u64::from(block) * BLOCK, &bytes);
        }
        let namespace = NamespaceSettings {
            write_block_bytes: BLOCK as u32,
            defrag_lwm_pct: 90,
            ..NamespaceSettings::new("test")
        };
        let mut bench = opened(&namespace, contents);
        bench.store.check().unwrap();
        for number in 0..9 {
            let mut digest = [0; 20];
            digest[0] = number as u8;
            for record_op in [
                RecordOp::ReadAll,
                RecordOp::Write(write(b"x", Exists::Any)),
                RecordOp::Delete(Delete::default()),
            ] {
                let transaction = Transaction {
                    digest,
                    set: (*b"s").into(),
                    record_op,
                };
                bench
                    .store
                    .execute(number, transaction, &mut bench.engine, &mut bench.replies);
            }
        }
        for number in 0..60 {
            bench.submit(
                100 + number,
                number,
                RecordOp::Write(write(&[1; 3_000], Exists::Any)),
            );
        }
        bench.run(3_000);
        assert_eq!(bench.replies.len(), 87, "seed {seed}");
        bench.store.check().unwrap();
    }
}

#[test]
fn a_record_version_near_the_maximum_is_reported_and_writes_are_refused() {
    let opened_with = |sequence, version, number| {
        let mut contents = DriveContents::new(512, 1);
        let mut block = vec![0; BLOCK as usize];
        let header = WriteBlockHeader {
            id: 9,
            sequence,
            opening: 1,
            block: 0,
        };
        header.write(&mut block[..512]);
        let digest = crate::digest(b"s", 1, &1_u64.to_be_bytes());
        let body = entry(ops::operation::WRITE, b"kept");
        let set = &b"s"[..];
        let key = &b""[..];
        let record = Record {
            digest,
            version,
            generation: 1,
            void_time: 0,
            is_tombstone: false,
            set,
            key,
            body: &body,
        };
        record.write(&mut block[512..], seed_at(header.seed(), 512));
        contents.write(0, &block);
        let mut mark = vec![0; 512];
        let of = modified(VolumeMark::default(), |it| it.number = number);
        of.write(&mut mark, 9);
        contents.write(MARKS + of.slot(), &mark);
        let namespace = NamespaceSettings {
            write_block_bytes: BLOCK as u32,
            ..NamespaceSettings::new("test")
        };
        opened(&namespace, contents)
    };
    let last = NUMBER_LAST - 1;
    assert_eq!(
        opened_with(last, last, last)
            .ask(2, RecordOp::Write(write(b"x", Exists::Any)))
            .result,
        ResultCode::OK
    );
    for (sequence, version, number) in [
        (NUMBER_MAX - 1, 1, 1),
        (1, NUMBER_MAX - 1, 1),
        (1, 1, NUMBER_MAX - 1),
    ] {
        let mut bench = opened_with(sequence, version, number);
        let remarks: Vec<_> = std::iter::from_fn(|| bench.store.take_remark())
            .map(|remark| remark.text)
            .collect();
        assert!(
            remarks
                .iter()
                .any(|text| text.ends_with("then erase the device")),
            "{remarks:?}"
        );
        let code = bench.write(2, b"x");
        assert_eq!(
            code,
            ResultCode::SERVER_ERROR,
            "the next cold start would not read it"
        );
        assert_eq!(bench.value(1), b"kept");
    }
}

#[test]
fn a_device_that_fails_writes_is_reported_and_writes_are_refused() {
    let namespace = NamespaceSettings {
        write_block_bytes: BLOCK as u32,
        commit_to_device: true,
        ..NamespaceSettings::new("test")
    };
    let space = space_of(0..1 << 20);
    let mut bench = Bench::on(
        &namespace,
        &[space],
        drive("sim:capacity=64MiB+gone-at-s=1"),
    );
    assert_eq!(bench.write(1, b"x"), ResultCode::OK);
    bench.run(1_000);
    // The write is in doubt: reads see the record, and a retry may still write it.
    assert_eq!(bench.write(2, b"y"), ResultCode::TIMEOUT);
    assert_eq!(bench.value(2), b"y".to_vec());
    assert_eq!(bench.store.failing_device(), Some(0));
    assert_eq!(bench.write(2, b"z"), ResultCode::SERVER_ERROR);
    assert_eq!(bench.value(2), b"y");
    let Remark { device, text } = bench.store.take_remark().unwrap();
    assert!(
        device == Some(0) && text.starts_with("write block 0 could not be written - "),
        "{text}"
    );
    let counters = &bench.store.statistics().devices[0];
    assert_eq!((counters.read_errors, counters.write_errors), (0, 5));
}

fn note(number: u64) -> Note {
    Note {
        number,
        text: [number as u8; crate::NOTE_BYTES],
    }
}

fn two_spaces() -> [StoreSpace; 2] {
    [0, 1].map(|target| StoreSpace {
        target,
        range: 0..16 * BLOCK,
        id: 9 + u64::from(target),
        ..space()
    })
}

/// A store on two devices with two notes, the second in place of the first.
fn noted() -> Bench {
    let models = [0, 1].map(|_| QueueModel::new(&"sim:capacity=64MiB".parse().unwrap(), 1));
    let engine = SimEngine::holding(
        models.to_vec(),
        [0, 1].map(|_| DriveContents::new(512, 1)).to_vec(),
    );
    let mut bench = Bench::on(&namespace(), &two_spaces(), engine);
    assert_eq!(bench.store.note(), Ok(Note::default()));
    assert_eq!(bench.store.is_noted(), Ok(true));
    for number in [1, 2] {
        bench.store.set_note(note(number), &mut bench.engine);
        assert_eq!(bench.store.is_noted(), Ok(false));
        (0..20).for_each(|key| {
            bench.submit(key, key, RecordOp::Write(write(&[1; 3_000], Exists::Any)))
        });
        while bench.store.is_noted() == Ok(false) {
            let until_ns = bench.engine.now() + 1_000_000;
            bench.step(until_ns);
        }
    }
    bench.write_out();
    bench
}

#[test]
fn a_note_is_in_both_slots_of_every_device_once_it_counts_as_written() {
    let slots = [0, 1].map(|target| [0, 4096].map(|slot| (target, MARKS + slot)));
    let slots = slots.as_flattened();
    let found = |destroyed: &dyn Fn(usize) -> bool| {
        let mut bench = noted();
        for (at, (target, offset)) in slots.iter().enumerate().filter(|(at, _)| destroyed(*at)) {
            let mut buf = IoEngine::buffer(&mut bench.engine, 512).unwrap();
            buf[..512].fill(7);
            let token = 1_000 + at as u32;
            let kind = OpKind::Write;
            IoEngine::submit(
                &mut bench.engine,
                Op {
                    token,
                    target: *target,
                    ..Op::new(kind, *offset, 512, buf)
                },
            );
        }
        bench.run(1_000);
        Bench::on(&namespace(), &two_spaces(), bench.engine)
            .store
            .note()
    };
    assert_eq!(found(&|_| false), Ok(note(2)));
    for left in 0..slots.len() {
        assert_eq!(
            found(&|at| at != left),
            Ok(note(2)),
            "only slot {left} is left"
        );
    }
    assert_eq!(
        found(&|_| true),
        Err(()),
        "a lost note is not the same as none"
    );
}

#[test]
fn a_note_that_cannot_be_written_is_refused_and_writes_do_not_wait_for_it() {
    let space = space_of(0..1 << 20);
    let mut bench = Bench::on(
        &namespace(),
        &[space],
        drive("sim:capacity=64MiB+bad=32MiB-33MiB"),
    );
    bench.store.set_note(note(1), &mut bench.engine);
    bench.run(1_000);
    assert_eq!(bench.store.is_noted(), Err(()));
    assert_eq!(bench.write(1, b"x"), ResultCode::OK);
    bench.write_out();
}
