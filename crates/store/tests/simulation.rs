//! Random tests of a store on simulated drives that fail, delay, tear and lose writes. A simple model holds the
//! expected records.
//!
//! Each seed is one story: settings, and a few lives of the store with random transactions. Each life ends with a power
//! failure, a kill or an orderly stop; then all records are read. A failure prints its seed. `STORE_SEED=n cargo test
//! -p flashproof-store --test simulation` replays this seed, `STORE_SEEDS=n` runs the first n seeds.

use engine::sim::{DriveContents, QueueModel, SimEngine};
use engine::{IoEngine, Wait};
use std::collections::HashMap;
use store::{
    Delete, Exists, Losses, NamespaceSettings, Policy, RecordOp, Reply, ResultCode, Store,
    StoreSpace, Transaction, Ttl, Write, digest, ops,
};
use sys::random::Random;

const SEEDS: u64 = 1_000;
const WALL_MS: u64 = 1_700_000_000_000;
const HEADER: u64 = 16 << 10;
const TOKENS: u32 = 48;

#[derive(Clone, PartialEq, Eq)]
struct Value {
    bytes: Vec<u8>,
    generation: u16,
    void_time: u32,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            bytes,
            generation,
            void_time,
        } = self;
        write!(
            f,
            "{} bytes, generation {generation}, until {void_time}",
            Writes(bytes)
        )
    }
}

/// Prints the numbers of the first and the last write from which these bytes come, and the number of bytes.
struct Writes<'a>(&'a [u8]);

impl std::fmt::Display for Writes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        write!(
            f,
            "#{}..#{} {}",
            number(self.0.first_chunk()),
            number(self.0.last_chunk()),
            self.0.len()
        )
    }
}

fn bytes_of(reply: &Reply) -> String {
    ops::entries(&reply.ops)
        .next()
        .map_or("nothing".to_owned(), |bin| Writes(bin.value).to_string())
}

type State = Option<Value>;

#[derive(Debug, Clone)]
struct Key {
    /// States in this life of the store, with their times.
    history: Vec<(u64, State)>,
    /// Index of the last state that must be on the device.
    durable: usize,
    /// State after the write in flight.
    pending: Option<State>,
    /// True if the write in flight failed, but may have been executed.
    in_doubt: bool,
}

impl Key {
    fn new() -> Self {
        Self {
            history: vec![(0, None)],
            durable: 0,
            pending: None,
            in_doubt: false,
        }
    }

    fn current(&self) -> &State {
        &self.history[self.history.len() - 1].1
    }

    /// Marks the state at `ns` as durable: it must be on the device.
    fn is_durable_until(&mut self, ns: u64) {
        self.durable = self.durable.max(
            self.history
                .partition_point(|(at, _)| *at <= ns)
                .saturating_sub(1),
        );
    }
}

#[derive(Debug, Default)]
struct Seen {
    done: u64,
    refused: u64,
    lost: u64,
    crashes: u64,
    collected: u64,
    tombstones: u64,
    expired: u64,
    raided: u64,
    errors: u64,
    /// Stories that ended on a damaged device; of these, stories with reported losses; records lost in all of them.
    damaged: u64,
    found: u64,
    lost_to_damage: u64,
    /// Stories where damage to the last write before a crash could not be distinguished from the crash.
    vague: u64,
}

struct Story<'a> {
    random: Random,
    namespace: NamespaceSettings,
    spaces: Vec<StoreSpace>,
    spec: String,
    engine: SimEngine,
    store: Store,
    /// Total duration of the previous lives of the store.
    past_ns: u64,
    keys: Vec<Key>,
    /// Key of each write, by its number.
    writes: Vec<usize>,
    next_number: u64,
    flying: HashMap<u64, (usize, bool, u64)>,
    /// Number of completions until the power failure.
    completions_left: u64,
    seen: &'a mut Seen,
}

fn digest_of(key: usize) -> store::Digest {
    digest(b"set", 1, &(key as u64).to_be_bytes())
}

fn new_engine(spec: &str, seed: u64, contents: Vec<DriveContents>) -> SimEngine {
    let drives = (0..contents.len() as u64)
        .map(|drive| QueueModel::new(&spec.parse().unwrap(), seed ^ drive << 32));
    SimEngine::holding(drives.collect(), contents)
}

fn open(
    namespace: &NamespaceSettings,
    spaces: &[StoreSpace],
    wall_ms: u64,
    seed: u64,
    engine: &mut SimEngine,
) -> Store {
    let mut store = Store::open(namespace, spaces, 0..TOKENS, wall_ms, seed, engine).unwrap();
    let mut done = Vec::new();
    while !store.is_ready() {
        assert!(engine.in_flight() > 0, "the cold start hangs");
        engine.reap(Wait::first(u64::MAX), &mut done).unwrap();
        for done in done.drain(..) {
            store.on_completion(done, engine, &mut Vec::new());
        }
        if store.damage().is_some() {
            break;
        }
    }
    store
}

impl<'a> Story<'a> {
    fn new(seed: u64, seen: &'a mut Seen) -> Self {
        let mut random = Random::new(seed);
        let mut pick = |of: &[u32]| of[random.below(of.len() as u64) as usize];
        let sector = pick(&[512, 512, 4096]);
        let devices = pick(&[1, 1, 1, 2]);
        let blocks = pick(&[8, 12, 12, 20, 40]);
        let namespace = NamespaceSettings {
            write_block_bytes: 32 << 10,
            defrag_lwm_pct: pick(&[30, 50, 50, 70, 90]) as u8,
            defrag_sleep_us: pick(&[0, 100, 1_000]),
            flush_max_ms: pick(&[0, 5, 50, 1_000]),
            post_write_blocks: pick(&[0, 1, 4]),
            max_write_cache_bytes: u64::from(pick(&[1, 4, 8])) * (32 << 10),
            commit_to_device: pick(&[0, 1]) == 1,
            default_ttl_sec: 0,
            nsup_period_sec: pick(&[0, 1, 1]),
            tomb_raider_period_sec: pick(&[0, 1]),
            tomb_raider_sleep_us: pick(&[0, 1_000]),
            min_avail_pct: pick(&[0, 5, 20]) as u8,
            memory_bytes: u64::from(pick(&[8 << 10, 1 << 20, 1 << 20])) + (16 << 10),
            ..NamespaceSettings::new("test")
        };
        let errors = ["0", "0", "0", "0.02"][random.below(4) as usize];
        let spec = format!("sim:capacity=4MiB+channels=4+jitter-pct=100+error-rate={errors}");
        let range = HEADER..HEADER + u64::from(blocks) * (32 << 10);
        let space = |target| StoreSpace {
            target,
            range: range.clone(),
            marks_offset: HEADER / 2,
            min_io_bytes: 512,
            write_unit_bytes: sector,
            id: seed + 1,
        };
        let spaces: Vec<_> = (0..devices as u16).map(space).collect();
        let contents = spaces
            .iter()
            .map(|space| DriveContents::new(sector, seed ^ u64::from(space.target) << 48))
            .collect();
        let mut engine = new_engine(&spec, seed, contents);
        let store = open(&namespace, &spaces, WALL_MS, seed, &mut engine);
        assert_eq!(store.damage(), None, "an unused device");
        // This number of records makes the devices anything from nearly empty to nearly full.
        let keys = (random.below(12) + 2) * u64::from(devices * blocks) / 2 + 1;
        Self {
            random,
            namespace,
            spaces,
            spec,
            engine,
            store,
            past_ns: 0,
            keys: vec![Key::new(); keys as usize],
            writes: vec![usize::MAX],
            next_number: 0,
            flying: HashMap::new(),
            completions_left: u64::MAX,
            seen,
        }
    }

    fn now_ns(&mut self) -> u64 {
        self.past_ns + self.engine.now()
    }

    fn now_sec(&mut self) -> u32 {
        (WALL_MS / 1_000 + self.now_ns() / 1_000_000_000 - 1_262_304_000) as u32
    }

    /// Runs the store for some time, or until the power failure.
    fn run(&mut self, for_ns: u64) {
        let until_ns = self.engine.now() + for_ns;
        let mut replies = Vec::new();
        let mut done = Vec::new();
        loop {
            let next_ns = self.store.poll(&mut self.engine, &mut replies);
            self.take(&mut replies);
            let now_ns = self.engine.now();
            if now_ns >= until_ns || self.completions_left == 0 {
                return;
            }
            let until_ns = until_ns.min(next_ns.max(now_ns + 1));
            self.engine.reap(Wait::first(until_ns), &mut done).unwrap();
            for done in done.drain(..).take(self.completions_left as usize) {
                self.completions_left -= 1;
                self.store
                    .on_completion(done, &mut self.engine, &mut replies);
            }
            self.take(&mut replies);
        }
    }

    fn run_until_answered(&mut self) {
        for _ in 0..10_000 {
            if self.flying.is_empty() || self.completions_left == 0 {
                return;
            }
            // At most 100 s in total: no transaction takes so long.
            self.run(10_000_000);
        }
        panic!("{} transactions have no answer", self.flying.len());
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            self.store.flush(&mut self.engine);
            if self.flying.is_empty() && self.store.is_idle() {
                break;
            }
            self.run(1_000_000);
        }
        assert!(self.store.is_idle(), "the store does not come to rest");
        self.keys
            .iter_mut()
            .for_each(|key| key.is_durable_until(u64::MAX));
        self.check();
    }

    fn check(&self) {
        self.store.check().unwrap_or_else(|what| panic!("{what}"));
    }

    fn submit(&mut self, key: usize, record_op: RecordOp) {
        let number = self.next_number;
        let is_read = matches!(record_op, RecordOp::ReadAll);
        self.next_number += 1;
        let now_ns = self.now_ns();
        self.flying.insert(number, (key, is_read, now_ns));
        let transaction = Transaction {
            digest: digest_of(key),
            set: (*b"set").into(),
            record_op,
        };
        let mut replies = Vec::new();
        self.store
            .execute(number, transaction, &mut self.engine, &mut replies);
        self.take(&mut replies);
    }

    fn transact(&mut self) {
        let key = self.random.below(self.keys.len() as u64) as usize;
        let kind = self.random.below(100);
        if kind < 30 || self.keys[key].pending.is_some() || self.keys[key].in_doubt {
            return self.submit(key, RecordOp::ReadAll);
        }
        if kind < 45 {
            self.keys[key].pending = Some(None);
            return self.submit(key, RecordOp::Delete(Delete::default()));
        }
        let ttl = if self.random.below(8) == 0 {
            1 + self.random.below(3) as u32
        } else {
            0
        };
        let len = [8, 100, 600, 2_000, 8_000][self.random.below(5) as usize];
        let append = kind < 60;
        let len = if append {
            0
        } else {
            8 + self.random.below(len)
        };
        self.write(key, len as usize, ttl);
    }

    /// Writes `len` bytes; 0: appends 8 bytes, or writes them if there is no record.
    fn write(&mut self, key: usize, len: usize, ttl: u32) {
        let now_sec = self.now_sec();
        let current = self.keys[key]
            .current()
            .clone()
            .filter(|value| value.void_time == 0);
        let write = self.writes.len() as u64;
        self.writes.push(key);
        let append = len == 0 && current.is_some();
        let mut bytes = write.to_be_bytes().to_vec();
        if !append {
            bytes.resize(len.max(8), write as u8);
        }
        let (operation, exists) = if append {
            (ops::operation::APPEND, Exists::Any)
        } else {
            (
                ops::operation::WRITE,
                [Exists::Any, Exists::CreateOrReplace][self.random.below(2) as usize],
            )
        };
        let particle = ops::particle::BLOB;
        let mut operations = Vec::new();
        ops::put(
            &mut operations,
            &ops::BinEntry {
                operation,
                particle,
                name: b"b",
                value: &bytes,
            },
        );
        let generation = current.as_ref().map_or(0, |value| value.generation) + 1;
        if append {
            bytes = [current.map_or(Vec::new(), |value| value.bytes), bytes].concat();
        }
        let void_time = if ttl > 0 { now_sec + ttl } else { 0 };
        self.keys[key].pending = Some(Some(Value {
            bytes,
            generation,
            void_time,
        }));
        let ttl = if ttl > 0 { Ttl(ttl) } else { Ttl::NEVER };
        let policy = Policy {
            exists,
            ttl,
            ..Policy::default()
        };
        self.submit(
            key,
            RecordOp::Write(Write {
                policy,
                ops: operations,
                ..Write::default()
            }),
        );
    }

    fn take(&mut self, replies: &mut Vec<(u64, Reply)>) {
        for (number, reply) in replies.drain(..) {
            let (key, is_read, since_ns) = self.flying.remove(&number).expect("one answer each");
            let now_ns = self.now_ns();
            let refused = [
                ResultCode::OUT_OF_SPACE,
                ResultCode::DEVICE_OVERLOAD,
                ResultCode::SERVER_ERROR,
            ];
            let has_errors = !self.spec.ends_with("=0");
            self.seen.errors += u64::from(reply.result == ResultCode::SERVER_ERROR);
            assert!(
                has_errors || reply.result != ResultCode::SERVER_ERROR,
                "an error from a good drive"
            );
            if is_read {
                match reply.result {
                    ResultCode::SERVER_ERROR => {}
                    _ => self.on_read(key, &reply, since_ns),
                }
                continue;
            }
            let of = &mut self.keys[key];
            let pending = of.pending.take().expect("a write in flight");
            match reply.result {
                ResultCode::OK => {
                    let pending = pending.map(|value| Value {
                        generation: reply.generation,
                        ..value
                    });
                    of.history.push((now_ns, pending));
                    if self.namespace.commit_to_device {
                        of.is_durable_until(u64::MAX);
                    }
                    self.seen.done += 1;
                }
                ResultCode::NOT_FOUND => {
                    assert!(pending.is_none(), "only a deletion needs a record here");
                    let is_gone = of
                        .current()
                        .as_ref()
                        .is_none_or(|value| value.void_time != 0);
                    assert!(
                        is_gone,
                        "key {key} is not found by a deletion, but its state is {:?}",
                        of.current()
                    );
                }
                ResultCode::SERVER_ERROR => {
                    (of.pending, of.in_doubt) = (Some(pending), true);
                }
                code => {
                    assert!(refused.contains(&code), "a write ended with {code:?}");
                    self.seen.refused += 1;
                }
            }
        }
    }

    /// True if a read of a state may return `reply`: the state itself, or no record if the state expired.
    fn shows(state: &State, reply: &Reply, from_sec: u32, to_sec: u32) -> bool {
        let Some(value) = state else {
            return reply.result == ResultCode::NOT_FOUND;
        };
        if reply.result == ResultCode::NOT_FOUND {
            return value.void_time != 0 && value.void_time < to_sec;
        }
        let bytes = ops::entries(&reply.ops).next().map(|bin| bin.value);
        bytes == Some(&value.bytes)
            && reply.void_time_sec == value.void_time
            && (value.void_time == 0 || value.void_time >= from_sec)
    }

    fn on_read(&mut self, key: usize, reply: &Reply, since_ns: u64) {
        let to_sec = self.now_sec();
        let from_sec = (WALL_MS / 1_000 + since_ns / 1_000_000_000 - 1_262_304_000) as u32;
        let of = &mut self.keys[key];
        if let Some(pending) = of
            .pending
            .clone()
            .filter(|pending| Self::shows(pending, reply, from_sec, to_sec))
        {
            if of.in_doubt {
                (of.pending, of.in_doubt) = (None, false);
                of.history.push((since_ns, pending));
            }
            return;
        }
        // The read may return any of these states. A write that began at the same time may be executed after the read.
        let since = of
            .history
            .partition_point(|(at, _)| *at < since_ns)
            .saturating_sub(1);
        let states = &of.history[since..];
        assert!(
            states
                .iter()
                .any(|(_, state)| Self::shows(state, reply, from_sec, to_sec)),
            "key {key} is read as {:?} {}, but was {states:?}, in flight {:?}",
            reply.result,
            bytes_of(reply),
            of.pending
        );
        if of.in_doubt {
            (of.pending, of.in_doubt) = (None, false);
        }
    }

    /// Reads a key while no other transaction is in flight.
    fn read_alone(&mut self, key: usize) -> Reply {
        let mut replies = Vec::new();
        let mut done = Vec::new();
        let transaction = Transaction {
            digest: digest_of(key),
            set: (*b"set").into(),
            record_op: RecordOp::ReadAll,
        };
        self.store
            .execute(0, transaction, &mut self.engine, &mut replies);
        while replies.is_empty() {
            self.engine.reap(Wait::first(u64::MAX), &mut done).unwrap();
            for done in done.drain(..) {
                self.store
                    .on_completion(done, &mut self.engine, &mut replies);
            }
        }
        replies.remove(0).1
    }

    /// Ends the store's life and begins another. The state of each key must then be the last durable state or a later
    /// state. This state is durable from then on.
    fn restart(&mut self, crash: bool, power_fails: bool) {
        let before = self.store.statistics();
        self.seen.collected += before
            .devices
            .iter()
            .map(|device| device.defrag_reads)
            .sum::<u64>();
        self.seen.tombstones += before.tombstones;
        self.seen.expired += before.expired;
        self.seen.raided += before.raided;
        self.seen.crashes += u64::from(crash);
        if crash && self.random.below(2) == 0 {
            // The crash then comes in the middle of writes.
            self.store.flush(&mut self.engine);
        }
        // Rounded up, because a store gets the time in milliseconds.
        self.past_ns = (self.past_ns + self.engine.now()).next_multiple_of(1_000_000);
        let spare = SimEngine::new(Vec::new());
        let contents = std::mem::replace(&mut self.engine, spare).stop(power_fails);
        let seed = self.random.next_u64();
        self.engine = new_engine(&self.spec, seed, contents);
        let wall_ms = WALL_MS + self.past_ns / 1_000_000;
        self.store = open(
            &self.namespace,
            &self.spaces,
            wall_ms,
            seed,
            &mut self.engine,
        );
        if let Some(losses) = self.store.damage() {
            let remarks: Vec<_> = std::iter::from_fn(|| self.store.take_remark())
                .map(|remark| remark.text)
                .collect();
            panic!("the store reports losses on an undamaged device: {losses}: {remarks:?}");
        }
        self.check();
        self.flying.clear();
        let nothing = ResultCode::NOT_FOUND;
        for key in 0..self.keys.len() {
            let from_sec = self.now_sec();
            let mut reply = self.read_alone(key);
            while reply.result == ResultCode::SERVER_ERROR {
                reply = self.read_alone(key);
            }
            let now_ns = self.now_ns();
            let to_sec = self.now_sec();
            let of = &mut self.keys[key];
            let durable = std::mem::take(&mut of.durable);
            let mut states: Vec<_> = of
                .history
                .drain(..)
                .skip(durable)
                .map(|(_, state)| state)
                .collect();
            let last = states.len() - 1;
            states.extend(of.pending.take());
            of.in_doubt = false;
            let found = states
                .iter()
                .rposition(|state| Self::shows(state, &reply, from_sec, to_sec));
            let Some(found) = found else {
                panic!(
                    "key {key} is {:?} {} after a restart, but must be one of {states:?}",
                    reply.result,
                    bytes_of(&reply),
                );
            };
            self.seen.lost += u64::from(found < last);
            let mut state = states.swap_remove(found);
            if let Some(value) = &mut state {
                assert!(
                    reply.result == nothing || crash || value.generation == reply.generation,
                    "generation"
                );
                value.generation = if reply.result == nothing {
                    value.generation
                } else {
                    reply.generation
                };
            }
            of.history.push((now_ns, state));
        }
        if !crash {
            let after = self.store.statistics();
            let of = |statistics: &store::StoreStatistics| {
                let used: u64 = statistics
                    .devices
                    .iter()
                    .map(|device| device.used_bytes)
                    .sum();
                (statistics.objects, statistics.tombstones, used)
            };
            let (objects, tombstones, used) = of(&before);
            let found = of(&after);
            // Dropped tombstones reappear as long as their blocks are not reused.
            assert!(
                found.0 == objects && found.1 >= tombstones,
                "before {before:?}, after {after:?}"
            );
            assert_eq!(found.2, used + (found.1 - tombstones) * 64);
        }
    }

    /// Checks that a full store takes writes again after all records were deleted.
    fn comes_back(&mut self) {
        for key in 0..self.keys.len() {
            for _ in 0..100 {
                self.run_until_answered();
                if self.keys[key].current().is_none() {
                    break;
                }
                self.keys[key].pending = Some(None);
                self.submit(key, RecordOp::Delete(Delete::default()));
                self.run(10_000_000);
                // A deletion does not find an expired record that the search has removed.
                if self.keys[key]
                    .current()
                    .as_ref()
                    .is_some_and(|value| value.void_time != 0)
                {
                    self.run(1_000_000_000);
                    self.keys[key].history.push((u64::MAX, None));
                }
            }
        }
        let before = self.seen.done;
        for _ in 0..100 {
            self.run(100_000_000);
            self.write(0, 100, 0);
            self.run_until_answered();
            if self.seen.done > before + 10 {
                return;
            }
        }
        panic!(
            "after all records were deleted, no write succeeds: {:?}",
            self.store.statistics()
        );
    }

    /// Damages random bytes anywhere. Before the store opens, it must report the damage, and an upper bound of the
    /// losses. After the losses are accepted, the store must not return more outdated records than it reported. A later
    /// opening must find no damage.
    fn damage(&mut self) {
        let is_drained = self.random.below(2) == 0;
        if is_drained {
            self.drain();
            // After the next transaction, records of incomplete blocks from an earlier crash are moved.
            self.read_alone(0);
            self.comes_to_rest();
        }
        let mut contents =
            std::mem::replace(&mut self.engine, SimEngine::new(Vec::new())).stop(false);
        let flips = [1, 1, 10, 100][self.random.below(4) as usize];
        for _ in 0..flips {
            let drive = self.random.below(contents.len() as u64) as usize;
            // A quarter of the damage is to marks.
            let begin = if self.random.below(4) == 0 {
                HEADER / 2
            } else {
                HEADER
            };
            let end = if begin == HEADER {
                self.spaces[drive].range.end
            } else {
                HEADER
            };
            let offset = begin + self.random.below(end - begin);
            let sector = offset / 512 * 512;
            let mut bytes = [0; 512];
            contents[drive].read(sector, &mut bytes);
            match self.random.below(8) {
                0 => bytes.fill(0),
                // The sector gets the contents of another sector.
                1 => contents[drive].read(
                    HEADER + self.random.below(self.spaces[drive].range.end / 512) * 512,
                    &mut bytes,
                ),
                _ => bytes[(offset - sector) as usize] ^= 1 << self.random.below(8),
            }
            contents[drive].write(sector, &bytes);
        }
        self.past_ns = (self.past_ns + self.engine.now()).next_multiple_of(1_000_000);
        let losses = self.reopen(contents);
        self.seen.damaged += 1;
        self.seen.found += u64::from(losses != Losses::default());
        let mut said = losses.records;
        let remarks: Vec<_> = std::iter::from_fn(|| self.store.take_remark())
            .map(|remark| remark.text)
            .collect();
        // Without an end-of-log mark, damage to the last write looks like a crash.
        let is_vague = !is_drained
            || remarks
                .iter()
                .any(|remark| remark.contains("end-of-log marks are missing or damaged"));
        for cut in remarks
            .iter()
            .filter(|remark| remark.contains("are incomplete"))
        {
            let records = cut
                .split_once("up to ")
                .and_then(|(_, rest)| rest.split_once(" record"));
            said += records.unwrap().0.replace(',', "").parse::<u64>().unwrap();
        }
        let is_cut = remarks
            .iter()
            .any(|remark| remark.contains("are incomplete"));
        assert!(
            is_vague || !is_cut,
            "no write was interrupted, but the store reports one: {remarks:?}"
        );
        let mut lost = 0;
        let mut states = Vec::new();
        for key in 0..self.keys.len() {
            let from_sec = self.now_sec();
            let reply = self.read_alone(key);
            let known = &self.keys[key];
            let to_sec = from_sec + 1;
            let mut current = known.history[known.history.len() - 1..]
                .iter()
                .map(|(_, state)| state)
                .chain(&known.pending);
            let is_lost = !current.any(|state| Self::shows(state, &reply, from_sec, to_sec));
            lost += u64::from(is_lost);
            if let Some(write) = ops::entries(&reply.ops)
                .next()
                .and_then(|bin| bin.value.first_chunk().copied())
            {
                assert_eq!(
                    self.writes.get(u64::from_be_bytes(write) as usize),
                    Some(&key),
                    "a record of another key"
                );
            }
            states.push(reply);
        }
        self.seen.lost_to_damage += lost;
        self.seen.vague += u64::from(is_vague && lost > said);
        assert!(
            lost <= said || is_vague,
            "{lost} records are lost, but {said} were reported: {losses}, {remarks:?}"
        );
        self.comes_to_rest();
        let contents = std::mem::replace(&mut self.engine, SimEngine::new(Vec::new())).stop(false);
        assert_eq!(
            self.reopen(contents),
            Losses::default(),
            "losses that were accepted are reported again: {losses}"
        );
        assert_eq!(
            self.store.statistics().losses,
            losses,
            "the accepted losses stay in the statistics"
        );
        for (key, state) in states.into_iter().enumerate() {
            let again = self.read_alone(key);
            assert!(
                again == state || state.void_time_sec != 0,
                "key {key} was {state:?} and is {again:?}"
            );
        }
    }

    fn reopen(&mut self, contents: Vec<DriveContents>) -> Losses {
        let seed = self.random.next_u64();
        let spec = format!("{}+error-rate=0", self.spec.split_once("+error").unwrap().0);
        self.engine = new_engine(&spec, seed, contents);
        self.store = open(
            &self.namespace,
            &self.spaces,
            WALL_MS + self.past_ns / 1_000_000,
            seed,
            &mut self.engine,
        );
        let losses = self.store.damage().unwrap_or_default();
        self.store.accept_losses(&mut self.engine);
        let mut done = Vec::new();
        while !self.store.is_ready() {
            self.engine.reap(Wait::first(u64::MAX), &mut done).unwrap();
            done.drain(..).for_each(|done| {
                self.store
                    .on_completion(done, &mut self.engine, &mut Vec::new())
            });
        }
        self.check();
        self.flying.clear();
        losses
    }

    /// Runs the store until the records of incomplete blocks are moved and all buffers are written.
    fn comes_to_rest(&mut self) {
        let mut done = Vec::new();
        for turn in 0..2_000 {
            if turn >= 1_000 {
                self.store.flush(&mut self.engine);
                if self.store.is_idle() {
                    return self.check();
                }
            }
            self.store.poll(&mut self.engine, &mut Vec::new());
            let until_ns = self.engine.now() + 1_000_000;
            self.engine.reap(Wait::first(until_ns), &mut done).unwrap();
            done.drain(..).for_each(|done| {
                self.store
                    .on_completion(done, &mut self.engine, &mut Vec::new())
            });
        }
        panic!("the store does not come to rest");
    }

    fn tell(mut self) {
        // Many short lives test a crash that follows another crash.
        let (lives, longest) = if self.random.below(4) == 0 {
            (12, 12)
        } else {
            (2 + self.random.below(3), 400)
        };
        for _ in 0..lives {
            let steps = self.random.below(longest);
            for _ in 0..steps {
                self.transact();
                let pace = [0, 0, 0, 20_000, 300_000, 3_000_000][self.random.below(6) as usize];
                if pace > 0 {
                    self.run(self.random.clone().below(pace));
                }
                if self.flying.len() > 12 {
                    self.run_until_answered();
                }
                if self.random.below(150) == 0 {
                    self.run_until_answered();
                    match self.random.below(3) {
                        0 => self.drain(),
                        1 => self.run(1_500_000_000),
                        _ => self.check(),
                    }
                }
                // On a drive without errors, a record is durable after the longest wait of a buffer plus a few writes.
                if self.spec.ends_with("=0") && self.namespace.flush_max_ms > 0 {
                    let wait_ns = u64::from(self.namespace.flush_max_ms) * 1_000_000 + 50_000_000;
                    let before_ns = self.now_ns().saturating_sub(wait_ns);
                    self.keys
                        .iter_mut()
                        .for_each(|key| key.is_durable_until(before_ns));
                }
            }
            match self.random.below(4) {
                0 => {
                    self.run_until_answered();
                    // A read resolves a write in doubt.
                    for key in 0..self.keys.len() {
                        while self.keys[key].in_doubt {
                            self.submit(key, RecordOp::ReadAll);
                            self.run_until_answered();
                        }
                    }
                    self.drain();
                    self.restart(false, false);
                }
                1 => self.restart(true, false),
                _ => self.restart(true, true),
            }
        }
        let is_good = self.spec.ends_with("=0");
        match self.random.below(3) {
            // Not with a small index, because tombstones may fill it.
            0 if is_good && self.namespace.memory_bytes > 1 << 20 => self.comes_back(),
            1 => self.damage(),
            _ => {}
        }
    }
}

/// Repeats a story with a power failure after each of its completions.
#[test]
fn durable_records_survive_a_power_cut_after_any_completed_operation() {
    let mut seen = Seen::default();
    let mut cuts = 0;
    for seed in (0..).filter(|seed| seed % 7 == 0).take(24) {
        for completions in 1.. {
            let mut story = Story::new(seed, &mut seen);
            story.completions_left = completions;
            for _ in 0..250 {
                story.transact();
                story.run(200_000);
                if story.flying.len() > 12 {
                    story.run_until_answered();
                }
            }
            let is_cut = story.completions_left == 0;
            println!("seed {seed}, after {completions} completions");
            story.completions_left = u64::MAX;
            story.restart(true, true);
            if !is_cut {
                break;
            }
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
    assert!(cuts > 1_000, "{cuts}");
}

#[test]
fn durable_records_survive_a_power_cut_and_no_older_version_comes_back() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seeds = match number("STORE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORE_SEEDS").unwrap_or(SEEDS),
    };
    let mut seen = Seen::default();
    let many = seeds.end - seeds.start > 100;
    for seed in seeds {
        let story = std::panic::AssertUnwindSafe(|| Story::new(seed, &mut seen).tell());
        if let Err(why) = std::panic::catch_unwind(story) {
            println!("failed: STORE_SEED={seed} cargo test -p flashproof-store --test simulation");
            std::panic::resume_unwind(why);
        }
    }
    println!("{seen:?}");
    let Seen {
        done,
        refused,
        lost,
        crashes,
        collected,
        tombstones,
        expired,
        raided,
        errors,
        ..
    } = seen;
    let Seen {
        damaged,
        found,
        lost_to_damage,
        vague,
        ..
    } = seen;
    let all = [
        done,
        refused,
        lost,
        crashes,
        collected,
        tombstones,
        expired,
        raided,
        errors,
        damaged,
        found,
        lost_to_damage,
    ];
    assert!(!many || all.iter().all(|count| *count > 50), "{all:?}");
    assert!(vague * 20 < damaged, "{vague} of {damaged}");
}
